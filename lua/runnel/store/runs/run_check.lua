---Checks whether a program can continue the runs of a store, before it does: repeats them against its functions, up to
---the first step that is not in the file. No step is done, and nothing is stored.
---
---    local result = require("runnel.store.runs.run_check").check("work.db", "app.lua")
---    for _, run in ipairs(result.blocked) do print(run.name, run.id, run.step, run.line, run.error) end
---
---The program registers its functions itself, with store:once and store:runs. Each store that it opens meanwhile is the
---one to be checked, whatever the path. At the first call that would change something in the store the program ends.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local run_steps = require "runnel.store.runs.run_steps"
local run_work = require "runnel.store.runs.run_work"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.runs.run_table"

local internal = core.internal

local run_check = {}

-- How long the program may wait for something else before it has registered all names; how long a run may wait for
-- something else than its steps; and how long after the last step of one that has go blocks without a next step; in ms.
local PROGRAM <const>, RUN <const>, IDLE <const> = 10000, 1000, 50

local PAGE <const> = 100

---A run that the program cannot continue.
---@class runnel.store.BlockedRun
---@field name string of the runs
---@field id string|number
---@field error string
---@field step? string where it has stopped, as in 'mail["alice"]'
---@field line? string of the program, as in "app.lua:17"

---@class runnel.store.RunCheck
---@field checked integer how many runs there are that have not ended
---@field blocked runnel.store.BlockedRun[] those that the program cannot continue

-- ---- the store that the program gets ----

local STOP <const> = "while its runs are checked, a program can do nothing else with the store: let it "
  .. "register all its runs before"

local function stop() internal.raise(STOP) end

-- What the program gets in place of streams, queues and so on. Its methods end the program.
local Idle = { __close = function() end, __index = function() return stop end }

-- The methods that the store keeps; `close` does nothing, and all others return an idle object.
local KEPT <const> = {
  once = true, runs = true, attempt = true, time = true, ahead = true, ring = true, add_reader = true,
  forget_reader = true, in_background = true, on_drain = true,
}

-- Makes a store of the file, in which nothing can be changed, and to which only functions can be given.
local function open(stores, path)
  local store, idle, class = stores.open(path, { create = false }), setmetatable({}, Idle), {}
  local real = getmetatable(store)
  store.db:exec "pragma query_only = on"
  for name, method in pairs(real) do
    class[name] = type(method) == "function" and not KEPT[name] and name:sub(1, 2) ~= "__"
      and function() return idle end or method
  end
  class.__index, class.close, class.__close, class.note_time = class, guard.nothing, guard.nothing, guard.nothing
  function class:attempt(kind, ...)
    if kind ~= "rows" then stop() end
    return real.attempt(self, kind, ...)
  end
  local locks, registered = store.locks, {}
  store.locks, store.registered, store.refuse, store.version = nil, registered, stop, math.huge
  setmetatable(store, class)
  local function close()
    setmetatable(store, real)
    store.locks = locks
    store:close()
  end
  return store, setmetatable({}, { __close = close })
end

-- ---- the program ----

-- Calls the program until it ends, or waits although it has registered all names. Returns its error.
local function register(store, stores, program, names)
  local before, ended, problem = stores.open, core.chan(), nil
  local opened <close> = setmetatable({}, { __close = function() stores.open = before end }) -- luacheck: ignore 211
  stores.open = function() return store end
  local block = core.go(function()
    local ok, err = pcall(program)
    if not ok and not internal.is_cancelled(err) then problem = internal.error_text(err) end
    ended:close()
  end)
  local function has_all()
    for _, name in ipairs(names) do
      if not store.registered[name] then return false end
    end
    return true
  end
  local deadline = core.now() + PROGRAM
  repeat
    local _, port = core.alts({ ended, core.timeout(10) }, { priority = true })
  until port == ended or has_all() or core.now() >= deadline
  return problem or "it has ended or waits", block
end

-- ---- the runs ----

-- Repeats a run. Returns what is wrong; nil: the program can continue it.
local function replay(work, row)
  local run, ended, outcome = run_steps.new(work, row, table_of.key(work.name, row.id)), core.chan(), nil
  run.is_check, run.call, row.has_steps = true, {}, 1
  core.go(function()
    run.block = steps.block()
    local ok, err = pcall(run.load, run, true)
    run_steps.set_context(run)
    outcome = ok and run_work.call(work, run) or { failed = true, err = err }
    ended:close()
  end)
  local since = core.now()
  local port, is_idle
  repeat
    port = select(2, core.alts({ ended, core.timeout(10) }, { priority = true }))
    is_idle = run.waiters[1] and core.now() - run.active >= IDLE
  until port == ended or is_idle or core.now() - since >= RUN
  if not outcome and not run.blocked then
    run:leave(0) -- its go blocks end
    run.is_over = true
    return nil
  end
  run.is_over = true
  run:cancel_blocks()
  local failed = run.blocked or outcome.failed and internal.error_text(outcome.err)
  return failed and { name = work.name, id = row.id, error = failed, step = run.at and run.at.step,
    line = run.at and run.at.line }
end

local LIVE <const> = "state not in ('done', 'failed', 'cancelled')"
local NAMES <const> = "select distinct name from runnel_run where " .. LIVE .. " order by name"
local RUNS <const> = "select * from runnel_run where name = ? and (?2 is null or id > ?2) and " .. LIVE
  .. " order by id limit " .. PAGE

-- Repeats the runs of a name.
local function check_name(store, name, problem, result)
  local f = store.registered[name]
  local work, after = { store = store, name = name, f = f }, nil
  local missing = ("the program has not registered the runs %q: %s"):format(name, problem)
  repeat
    local rows = store.db:rows(RUNS, name, after)
    for _, row in ipairs(rows) do
      result.checked, after = result.checked + 1, row.id
      local failed = f and replay(work, row)
      if not f then failed = { name = name, id = row.id, error = missing } end
      if failed then table.insert(result.blocked, failed) end
    end
  until #rows < PAGE
end

---Repeats all runs of a store that have not ended against a program. Call it in a process that does nothing else.
---@param path string of the store
---@param program string|fun() a Lua file, or a function in place of it. It runs until it ends, or until it has
---registered the names of all runs, and waits
---@return runnel.store.RunCheck? result, string? err
function run_check.check(path, program)
  check.database(path, "check")
  local f, problem = program, nil
  if type(program) == "string" then
    check.no_zero(program, "check: the path of the program")
    f, problem = loadfile(program)
  end
  if not f then return nil, problem end
  check.callable(f, "check: program")
  local stores = require "runnel.store"
  local ok, store, closing = pcall(open, stores, path)
  if not ok then return nil, internal.error_text(store) end
  local closed <close> = closing -- luacheck: ignore 211
  local result, names = { checked = 0, blocked = {} }, {}
  if store.db:one "select 1 from sqlite_schema where name = 'runnel_run'" then
    for i, row in ipairs(store.db:rows(NAMES)) do names[i] = row.name end
  end
  internal.trace.hold "c" -- so that go blocks know their run
  local holding <close> = setmetatable({}, { __close = function() internal.trace.release "c" end }) -- luacheck: ignore
  local why, block = register(store, stores, f, names)
  for _, name in ipairs(names) do check_name(store, name, why, result) end
  core.cancel(block)
  return result
end

return run_check
