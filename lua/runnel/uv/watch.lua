---uv.watch: the changes of a file, or in a directory, as a channel.

local require = require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"
local path_watch = require "runnel.uv.path_watch"

local internal = core.internal
local offer, put_while_open = core.methods.offer, internal.moving.put_while_open

-- For how many names changes wait for a take; later ones are merged into one change without a name.
local CHANGES = 256

---A change of a file or directory, or of a file in a directory.
---@class runnel.uv.Change
---@field path string the path that is watched
---@field name? string the name of a file in the directory that is at the path, with `deep` its path from there; nil: a
---change of what is at the path itself, or of so many files in it that their names were dropped
---@field change? boolean contents or attributes have changed
---@field rename? boolean it was created, removed, renamed or replaced
---@field missing? boolean nothing is at the path now

-- Returns a function that adds a change to a queue and puts the queue's changes on the channel. Changes of the same
-- name are merged while they wait.
local function queue(ch, path)
  local waiting, first, last, by_name, busy = {}, 1, 0, {}, false
  local origin = internal.origin "uv.watch"
  local deliver

  local function put(change)
    if put_while_open(ch, change) then deliver() end
  end

  function deliver()
    busy = false
    while first <= last do
      local change = waiting[first]
      waiting[first] = nil
      first = first + 1
      by_name[change.name or ""] = nil
      local taken = offer(ch, change)
      if taken == false then return end
      if taken == nil then
        busy = true
        internal.started(guard.go(guard.close, ch, put, change), origin)
        return
      end
    end
  end

  return function(name, what)
    if last - first >= CHANGES then name = nil end
    local change = by_name[name or ""]
    if not change then
      change = { path = path, name = name }
      by_name[name or ""] = change
      last = last + 1
      waiting[last] = change
    end
    change.change = (change.change or what.change) and not what.missing or nil
    change.rename = change.rename or what.rename or nil
    if what.rename then change.missing = what.missing end
    if not busy then deliver() end
  end
end

local OPTIONS = { missing = check.kinds.boolean, deep = check.kinds.boolean }

---@class runnel.uv.watch
local watch = {}

---Makes a channel of the changes of a path: of the file that is there, of one that replaces it, or of the files in a
---directory. Follows symbolic links, and what they become. Waiting changes of one file are merged into one. Closing the
---channel ends the watch.
---@param path string
---@param opts? { missing?: boolean, deep?: boolean } `missing`: true if nothing need be at the path yet. `deep`: also
---what is in the directories below, and in those that are made later; links are not followed
---@return runnel.Channel<runnel.uv.Change> changes closes with an error if the path cannot be watched, or nothing is
---there now
function watch.watch(path, opts)
  check.path(path, "a path", "watch")
  check.options(opts, OPTIONS, "watch")
  loop.check "watch"
  local ch = loop.chan(path)
  local function fail(err) ch:close(loop.message(err, path)) end
  local tell, tree = queue(ch, path), nil
  local function on_event(name, what)
    if tree then tree:happened(name, what) else tell(name, what) end
  end
  local watching, err = path_watch.new(path, "uv.watch", on_event, fail)
  if not watching then
    fail(err)
    return ch
  end
  internal.on_close(ch, function()
    watching:close()
    if tree then tree:close() end
  end)
  if opts and opts.deep then
    tree = require("runnel.uv.tree_watch").new(watching.path, tell, function(problem, folder)
      ch:close(loop.message(problem, path .. "/" .. folder))
    end)
    tree:begin()
  end
  if watching.problem and not (opts and opts.missing) then fail(watching.problem) end
  return ch
end

return watch
