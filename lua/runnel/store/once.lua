---store:once: functions that compute each result once.
---
---A call first looks for the result in memory. If another call with the same key runs, in this Lua state
---(Store.running) or in another process (core.locks), it waits for that call. Then it looks in the table. If there is
---no result, it calls the function, and returns when the result is on the disk.

local clock = require "runnel.store.clock"
local core = require "runnel.core"
local check = require "runnel.internal.check"
local keys = require "runnel.store.keys"
local new_memory = require "runnel.store.memory"
local problems = require "runnel.store.problems"
local retry = require "runnel.rn.retry"
local schema = require "runnel.store.schema"
local steps = require "runnel.store.steps"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.store.values"
local internal = core.internal

local chan, sleep, type = core.chan, core.sleep, type
local kinds = check.kinds
local take, is_cancelled = internal.moving.take, internal.is_cancelled
local value_of = values.of

-- ---- keys ----

-- A key as it is in the table, and as text.
local function key_of(self, key)
  local column, text = keys.of(key)
  if column ~= nil then return column, text end
  internal.raise(("once %s: the key is a string, a number, or a list of these, got %s; set the option key")
    :format(self.name, text))
end

-- ---- a call that runs ----

---@class runnel.store.Run
---@field entry runnel.store.Entry? its result
---@field err any? its error
---@field has_failed boolean
---@field forgets integer how often results of its name had been forgotten when it began
---@field done runnel.Channel<any>? closes when it has ended, if a call waits for that
local Run = {}

-- Ends a call, and wakes the calls that wait for it. A cancelled call has no result: then another one calls the
-- function.
function Run:__close(err)
  local store = self.store
  store.running[self.id] = nil
  if self.is_locked then store.locks:release(self.id) end
  if err ~= nil and not is_cancelled(err) then self.has_failed, self.err = true, err end
  if self.done then self.done:close() end
end

-- The longest pause between two checks whether another process has ended its call, in ms.
local LONGEST_PAUSE <const> = 100

-- Waits until no other process runs this call.
local function lock(run)
  local locks, pause = run.store.locks, 2
  if not locks then return end
  while not locks:try(run.id) do
    sleep(pause)
    pause = math.min(pause * 1.5, LONGEST_PAUSE)
  end
  run.is_locked = true
end

-- ---- the table ----

local FIND <const> = "select failed, form, value, expires from runnel_once where scope = '' and name = ? and key = ?"
local FIND_STEP <const> = "select name, key, step, failed, form, value, expires, name = ?3 and key = ?4 as is_this "
  .. "from runnel_once where scope = ?1 and (step = ?2 or (name = ?3 and key = ?4)) order by is_this desc"
local KEEP <const> = "insert or replace into runnel_once(scope, name, key, step, failed, form, value, made, expires) "
  .. "values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
local FORGET <const> = "delete from runnel_once where scope = '' and name = ? and key = ?"
local KEEP_AND_FORGET <const> = KEEP .. "; " .. steps.FORGET
-- Of a result with a `max_age`: some that have expired go, since nobody may ask for them again. But not an error of a
-- name that has steps in the file: older versions have kept the steps of such a call, which go when it is called again.
local EXPIRE <const> = [[;
delete from runnel_once where scope = '' and (name, key) in (
  select name, key from runnel_once o indexed by runnel_once_expires where scope = '' and expires <= ?
    and (failed = 0 or not exists (select 1 from runnel_once where scope > o.name || '[' and scope < o.name || '\'))
    order by expires limit 10)]]
local KEEP_UNTIL <const>, KEEP_UNTIL_AND_FORGET <const> = KEEP .. EXPIRE, KEEP_AND_FORGET .. EXPIRE
-- Of a step of a run: with the time when it was begun, which only files with runs have a column for.
local KEEP_BEGUN <const> = KEEP:gsub("%(scope", "(began, scope"):gsub("%?", "?, ?", 1)
local KEEP_BEGUN_AND_FORGET <const> = KEEP_BEGUN .. "; " .. steps.FORGET

-- Runs a statement. An error is raised at the program's line.
local function must(self, statements, kind, sql, ...)
  local result, problem = statements:attempt(kind, sql, ...)
  if not result then
    timed_out.raise(timed_out.with_text(problem, ("once %s: %s"):format(self.name, problem)))
  end
  return result
end

-- After how many ms a statement is repeated that could not store a result.
local TRIES_AGAIN <const> = 100

-- Runs the statement that stores a result. While another program holds the lock of the file it waits, since what the
-- function has done would be done again; it reports that once. A step of a run waits for room on the disk, too.
local function must_keep(self, statements, begun, sql, ...)
  local is_reported, path = false, self.store.path
  while true do
    local result, problem = statements:attempt("exec", sql, ...)
    if result then return end
    local is_transaction = statements ~= self.store.db -- it has the lock, and is rolled back
    if is_transaction or not problems.is_for_now(problem, path, not begun) then
      internal.raise(("once %s: %s"):format(self.name, problem))
    end
    if not is_reported then
      internal.report(problem, nil, ("once %s, which waits until it can store a result"):format(self.name))
    end
    is_reported = true
    sleep(TRIES_AGAIN)
  end
end

-- Raises the error that a step is not the one in the table.
local function check_step(self, call, text, step, row)
  if not row or row.is_this == 1 and row.step == step then return end
  local there = row.is_this == 1 and ("this was step %s"):format(row.step)
    or ("it was %s[%s]"):format(row.name, steps.shown(row.key))
  internal.raise(("once: step %d of %s is %s[%s]; the first time %s. A call whose steps have changed cannot "
    .. "continue: undo the change, or repeat the whole call after store:forget")
    :format(step, call.scope, self.name, text, there))
end

-- The entry in the table; or nil, and whether there is an expired one.
local function find(self, call, key, text, step)
  if call and call.is_run then return nil, false end -- `call_once` has found none
  local db = self.store.db
  local row
  if call then
    row = must(self, db, "rows", FIND_STEP, call.scope, step, self.name, key)[1]
    check_step(self, call, text, step, row)
  else
    row = must(self, db, "rows", FIND, self.name, key)[1]
  end
  if not row then return nil, false end
  if row.expires and row.expires <= self.store:time() then return nil, true end
  local entry = values.entry(row.form, row.value)
  entry.failed, entry.expires = row.failed == 1 or nil, row.expires
  return entry, false
end

-- Writes a result, or an error; and forgets the steps of the scope `inner`, unless that is nil. `begun`: a step of a
-- run. Returns the entry.
local function keep(self, statements, scope, key, step, begun, failed, value, inner)
  local form, data, entry = values.encode(value, failed and "the error" or "the result")
  if not form then internal.raise(("once %s: %s"):format(self.name, data)) end
  local made = self.store:time()
  -- A run keeps the results of its steps, and `expires` of a step says that it waits (runnel.store.runs.run_waits).
  local expires = self.expires and not begun and self.store:after(self.expires) or nil
  local flag, began = failed and 1 or 0, begun and begun.began
  if began and inner then
    must_keep(self, statements, begun, KEEP_BEGUN_AND_FORGET, began, scope, self.name, key, step, flag, form, data,
      made, expires, inner)
  elseif began then
    must_keep(self, statements, begun, KEEP_BEGUN, began, scope, self.name, key, step, flag, form, data, made, expires)
  elseif expires and inner then
    must_keep(self, statements, begun, KEEP_UNTIL_AND_FORGET, scope, self.name, key, step, flag, form, data, made,
      expires, inner, made)
  elseif expires then
    must_keep(self, statements, begun, KEEP_UNTIL, scope, self.name, key, step, flag, form, data, made, expires, made)
  elseif inner then
    must_keep(self, statements, begun, KEEP_AND_FORGET, scope, self.name, key, step, flag, form, data, made, expires,
      inner)
  else
    must_keep(self, statements, begun, KEEP, scope, self.name, key, step, flag, form, data, made, expires)
  end
  entry.failed, entry.expires = failed or nil, expires
  return entry
end

-- ---- calling the function ----

-- The first result of the function; raises the error if it has returned nil and an error.
local function result_of(result, err)
  if result == nil and err ~= nil then error(err, 0) end
  return result
end

-- Calls a function, as often as the options say. `begun` is the step of a run (runnel.store.runs.run_steps).
local function often(self, begun, f, ...)
  local tries = self.tries
  if not tries then return f(self, ...) end
  if begun then return begun:often("once " .. self.name, tries, f, self, ...) end
  return retry.call("once " .. self.name, tries.n, tries.pause, tries.timeout, f, self, ...)
end

-- Calls the function in its scope. Returns whether there were steps, and the result.
local function try(self, inner, ...)
  local call <close> = steps.enter(inner)
  local result = result_of(self.f(...))
  return call.number > 0, result
end

-- The same in a transaction, in which it also keeps the result. Returns the entry.
local function try_in_transaction(self, scope, inner, key, step, begun, ...)
  local call <close> = steps.enter(inner) -- luacheck: ignore 211
  local arguments = table.pack(...)
  local n = arguments.n + 1
  return (self.store.db:transaction(function(tx)
    arguments[n] = tx
    return keep(self, tx, scope, key, step, begun, false, result_of(self.f(table.unpack(arguments, 1, n))))
  end))
end

-- Calls the function, and keeps the result. Returns the entry.
local function compute(self, begun, scope, inner, key, step, ...)
  if self.tx then return (often(self, begun, try_in_transaction, scope, inner, key, step, begun, ...)) end
  local has_steps, result = often(self, begun, try, inner, ...)
  return keep(self, self.store.db, scope, key, step, begun, false, result, has_steps and inner or nil)
end

-- Like compute; stores the error if the options say so, in place of the steps. That the file cannot be written for now
-- is no error of the function, which perhaps was not called.
local function compute_or_fail(self, begun, scope, inner, key, step, ...)
  if not self.errors then return compute(self, begun, scope, inner, key, step, ...) end
  local ok, entry = pcall(compute, self, begun, scope, inner, key, step, ...)
  if ok then return entry end
  if is_cancelled(entry) or problems.is_for_now(entry, self.store.path) then error(entry, 0) end
  local err = values.encode(entry, "the error") and entry or internal.error_text(entry)
  return keep(self, self.store.db, scope, key, step, begun, true, err, inner)
end

-- ---- a call ----

-- The result of an entry; raises it if it is an error.
local function outcome(entry)
  if entry.failed then error(value_of(entry), 0) end
  return value_of(entry)
end

-- A channel that closes when a call has ended.
local function done_of(run)
  if not run.done then
    run.done = chan()
    if run.store.db.disk then run.done:name "runnel.store" end -- so that stories do not tell of it
  end
  return run.done
end

-- Waits for running calls with the same key. Returns the entry of the first with a result that was not forgotten
-- meanwhile; nil if none is left.
local function wait_for_others(self, id)
  local running, memory = self.store.running, self.memory
  while true do
    local other = running[id]
    if not other then return nil end
    take(done_of(other))
    if other.entry and other.forgets == memory.forgets then return other.entry end
    if other.has_failed then error(other.err, 0) end
  end
end

local function find_or_compute(self, call, key, text, id, step, scope, ...)
  local store, memory = self.store, self.memory
  local run <close> = setmetatable({ store = store, id = id, forgets = memory.forgets }, Run)
  store.running[id] = run
  if not (call and call.is_run) then lock(run) end -- the process has the run, so no other one has this step
  local entry, has_expired = find(self, call, key, text, step)
  if not entry then
    if store.refuse and not call then store.refuse() end
    local inner = steps.scope(scope, self.name, text)
    local begun <close> = call and call.is_run and call:begin(self.name, key, text, step, scope)
    if has_expired then must(self, store.db, "exec", steps.FORGET, inner) end
    if self.expires and not begun and not store.has_expires then
      must_keep(self, store.db, nil, schema.EXPIRES)
      store.has_expires = true
    end
    entry = compute_or_fail(self, begun, scope, inner, key, step, ...)
  end
  if not call and run.forgets == memory.forgets then memory:add(id, entry) end
  run.entry = entry
  return entry
end

-- The key of a call: a column and a text.
local function key_of_call(self, ...)
  if self.key then return key_of(self, (self.key(...))) end
  if select("#", ...) == 0 then return key_of(self, keys.NONE) end
  return key_of(self, (...))
end

local function call_once(self, ...)
  local key, text = key_of_call(self, ...)
  local call = steps.current()
  local known = not call and self.memory:find(self.prefix .. text)
  if known and (not known.expires or known.expires > self.store:time()) then return outcome(known) end
  local store = self.store
  if store.is_closed then internal.raise(("once %s: the store is closed"):format(self.name)) end
  if store.db:is_in_transaction() then
    internal.raise(("once %s: this go block is in a transaction, so this would wait for itself"):format(self.name))
  end
  local step, scope, id = nil, "", self.prefix .. text
  if call then
    step, scope = call:next(self.name, text)
    local entry = call.is_run and call:find(self.name, text, step, scope)
    if entry then return outcome(entry) end
    id = scope .. "\0" .. id
  end
  return outcome(wait_for_others(self, id) or find_or_compute(self, call, key, text, id, step, scope, ...))
end

-- ---- making it ----

local once = {}

---The options of store:once, for check.options.
once.OPTIONS = {
  key = kinds.callable, errors = kinds.boolean, max_age = kinds.ms(1), tries = true, backoff = true,
  timeout = kinds.ms(0), tx = kinds.boolean,
}

-- The results of a name in memory.
local function memory_of(store, name)
  local memory = store.memories[name] or new_memory()
  store.memories[name] = memory
  return memory
end

-- Whether two functions are the same one, or closures that the same lines of a program have made.
local function is_same(f, g)
  if rawequal(f, g) then return true end
  if type(f) ~= "function" or type(g) ~= "function" then return false end
  local ok, code = pcall(string.dump, f)
  local is_lua, other = pcall(string.dump, g)
  return ok and is_lua and code == other
end

---@param store runnel.store.Store
---@param name string
---@param f function
---@param opts table
---@param tries integer
---@param pause number ms before the second try
---@return function? f nil: the name has another function
function once.new(store, name, f, opts, tries, pause)
  local first = store.functions[name]
  if first and not (is_same(first.f, f) and is_same(first.key, opts.key)) then return nil end
  store.functions[name] = first or { f = f, key = opts.key }
  local self = {
    store = store, name = name, f = f, key = opts.key, errors = opts.errors, tx = opts.tx,
    expires = clock.setting(opts.max_age),
    memory = memory_of(store, name), prefix = name .. "\0",
  }
  if tries > 1 or opts.timeout then self.tries = { n = tries, pause = pause, timeout = opts.timeout } end
  return function(...) return call_once(self, ...) end
end

-- Forgets results in memory: when it is made, and again when it is closed. A call that has read a result before that is
-- deleted in the file may get it at any time until then. It does not keep it, since `forgets` has changed.
local Forgetting = {}

local function forget_in_memory(memory, id)
  memory.forgets = memory.forgets + 1
  if id then memory:remove(id) else memory:clear() end
  return setmetatable({ memory = memory, id = id }, Forgetting)
end

function Forgetting:__close() forget_in_memory(self.memory, self.id) end

local HAS_RUNS <const> = "select 1 from runnel_run where name = ?1 and (?2 is null or id = ?2) limit 1"

-- Raises if a name is that of runs, or a key of it the id of one: the effects of their steps would be done again, and
-- the name is not free.
local function check_no_runs(self, store, column)
  local f = not column and store.functions[self.name]
  local has_table = must(self, store.db, "rows", "select 1 from sqlite_schema where name = 'runnel_run'")[1]
  local has_runs = f and f.is_of_runs or has_table and must(self, store.db, "rows", HAS_RUNS, self.name, column)[1]
  if has_runs then
    internal.raise(("forget: %q is the name of runs: forget each one that has ended, store:runs(%q):get(id):forget()")
      :format(self.name, self.name))
  end
end

---Forgets the result of a key, or all results of a name; then the name is free for another function. Returns how many.
---@param store runnel.store.Store
---@param name string
---@param key any
---@param has_key boolean false: all
---@return integer
function once.forget(store, name, key, has_key)
  local self, memory = { name = name }, memory_of(store, name)
  if not has_key then
    check_no_runs(self, store)
    local forgetting <close> = forget_in_memory(memory) -- luacheck: ignore 211
    local n = must(self, store.db, "exec", "delete from runnel_once where scope = '' and name = ?", name)
    must(self, store.db, "exec", "delete from runnel_once where scope > ?1 || '[' and scope < ?1 || '\\'", name)
    store.functions[name] = nil
    return n
  end
  local column, text = key_of(self, key)
  check_no_runs(self, store, column)
  local forgetting <close> = forget_in_memory(memory, name .. "\0" .. text) -- luacheck: ignore 211
  local n = must(self, store.db, "exec", FORGET, name, column)
  must(self, store.db, "exec", steps.FORGET, steps.scope("", name, text))
  return n
end

return once
