---A store for specs, in a folder of its own.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

local work_store = {}

---@class WorkStore
---@field open fun() for before_each
---@field close fun() for after_each
---@field restart fun() ends the program, and starts it again
---@field another fun(): runnel.store.Store opens the file in another program

---@param set fun(store: runnel.store.Store, dir: any, reported: string[]) gets the store, its folder, where its file is
---work.db, and the list of errors that nobody takes; when it is opened, and again after `restart`
---@return WorkStore work
function work_store.new(set)
  local work, store, dir, reported = {}, nil, nil, nil
  function work.another() return require("runnel.store").open(dir.path .. "/work.db", { synchronous = "off" }) end
  function work.open()
    dir, reported = process.directory(), {}
    store = work.another()
    rn.on_error(function(err) table.insert(reported, tostring(err)) end)
    set(store, dir, reported)
  end
  function work.close()
    rn.on_error(nil)
    store:close()
    dir:remove()
  end
  function work.restart()
    store:close()
    store = work.another()
    set(store, dir, reported)
  end
  return work
end

---Waits until a run has a state, and returns that.
---@param r runnel.store.RunRef
---@param state string
---@return runnel.store.RunState
function work_store.wait_for_state(r, state)
  local seen
  patience.wait_for(function()
    seen = r:state() -- not once more later: the run may go on meanwhile
    return seen.state == state
  end)
  return seen
end

---The bytes of a store that a function has filled: for the host of a world, since tables are made by many writes.
---@param fill fun(store: runnel.store.Store)
---@return string bytes
function work_store.bytes(fill)
  local dir <close> = process.directory()
  local store = require("runnel.store").open(dir.path .. "/work.db")
  fill(store)
  store:close()
  return dir:read "work.db"
end

return work_store
