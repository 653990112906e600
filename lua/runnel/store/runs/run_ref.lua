---A run as any process sees it: its result, its state, signals, cancelling it, and starting it again.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local look = require "runnel.store.runs.run_look"
local results = require "runnel.store.runs.run_results"
local sign = require "runnel.internal.sign"
local sqlite = require "runnel.sqlite"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.runs.run_table"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.store.values"
local waits = require "runnel.store.runs.run_waits"
local raise = core.internal.raise

local run_ref = {}

---@class runnel.store.RunRef
---@field id string|number
---@field name string
---@field package store runnel.store.Store
---@field package column any
---@field package scope string
local Ref = { __name = "run of a store", __sign = "r" }
Ref.__index = Ref

---How a run is.
---@class runnel.store.RunState
---@field id string|number
---@field state "ready"|"running"|"sleeping"|"waiting"|"retrying"|"blocked"|"done"|"failed"|"cancelled"
---@field since integer when the state began, or the step that it is doing, in ms since 1970
---@field due? integer when it goes on, if nothing comes before
---@field step? string the step at which it waits, or has failed, or which takes long, as in 'mail["alice"]'
---@field line? string where that is in the program
---@field note? string what run:note has said
---@field error? string of the last failure
---@field started integer when it was started
---@field failures integer how many tries have failed in a row
---@field parent? { name: string, id: string|number } the run that has started it

---Checks the id of a run.
---@param id any
---@param what string
function run_ref.check_id(id, what)
  local is_right = type(id) == "string" and id ~= "" or type(id) == "number" and id == id
  if not is_right then raise(("%s: an id expected, a string or a number, got %s"):format(what, check.describe(id))) end
end

---@param store runnel.store.Store
---@param name string
---@param id string|number
---@return runnel.store.RunRef
function run_ref.new(store, name, id)
  local column, scope = table_of.key(name, id)
  return setmetatable({ store = store, name = name, id = id, column = column, scope = scope }, Ref)
end

-- Changes the run. In the function of another run, that is a step.
local function step_of(self, what, key, f)
  local run = table_of.current(self.store)
  if not run then return f() end
  local done = run:value(what, { self.name, self.id, key }, function()
    local ok, err = f()
    return ok or tostring(err)
  end)
  if done == true then return true end
  return nil, done
end

-- Calls a function with a transaction. Returns what it returns; nil and the error, if it fails.
local function transact(self, f)
  local ok, result, err = pcall(self.store.db.transaction, self.store.db, f)
  if ok then return result, err end
  if core.internal.is_cancelled(result) then error(result, 0) end
  return nil, self.store.is_closed and "the store is closed" or guard.text(result)
end

local function missing(self) return ("there is no run %s"):format(self.scope) end

-- ---- looking ----

---How the run is.
---@return runnel.store.RunState? state, string? err
function Ref:state()
  sign.own(self, "r", "state")
  local rows, err = self.store:attempt("rows", table_of.ONE, self.store:time(), table_of.stream(self.name), self.name,
    self.column)
  if not rows then return nil, err end
  if not rows[1] then return nil, missing(self) end
  return look.state_of(rows[1])
end

local STEPS <const> = { results = check.kinds.boolean }

---The steps that are in the file, in the order in which they began, and the one at which the run waits or has failed.
---A step that is being done is among them after a second.
---@param opts? { results?: boolean } also what they have returned
---@return runnel.store.RunStep[]? steps, string? err
function Ref:steps(opts)
  sign.own(self, "r", "steps")
  check.options(opts, STEPS, "steps")
  local state, err = self:state()
  if not state then return nil, err end
  local list, rows = look.steps(self.store, self.scope, state)
  if not list then return nil, rows --[[@as string]] end
  for i, row in ipairs(rows --[[@as table[] ]]) do
    local step = list[i]
    local is_shown = step.state == "failed" and row.failed == 1 or step.state == "done" and opts and opts.results
    if is_shown then step.result = table_of.value(row.form, row.value) end
  end
  return list
end

local ENDED <const> = { done = true, failed = true, cancelled = true }

local RESULT <const> = { timeout = check.kinds.ms(0) }

local function late(self, ms)
  return nil, timed_out.new(("result: run %s had not ended after %s ms"):format(self.scope, decimal.text(ms)))
end

-- The result in the function of another run: a step.
local function result_in_run(self, run, ms)
  local result = waits.result(run, self, self.column, ms)
  if not result then return late(self, ms) end
  local value = table_of.value(result[1], result[2])
  if result[3] then return nil, value end
  return value
end

---Waits until the run has ended, in whatever process, and returns what its function has returned. In the function of a
---run, it is a step.
---@param opts? { timeout?: number } ms
---@return any result nil, if it has failed or was cancelled
---@return any err its error, or the reason
function Ref:result(opts)
  sign.own(self, "r", "result")
  check.options(opts, RESULT, "result")
  local ms, run = opts and opts.timeout, table_of.current(self.store)
  if run then return result_in_run(self, run, ms) end
  local outcome, err = results.of(self.store):wait(self, ms)
  if outcome then return results.read(outcome) end
  if err ~= nil then return nil, err end
  return late(self, ms)
end

-- ---- from outside ----

-- Stores a signal. Returns true; or nil, err if the run cannot get it.
local function signal(self, name, form, data)
  local store, time = self.store, self.store:time()
  local changed, err = store:attempt("exec", table_of.SIGNAL, self.name, self.column, name, form, data, time,
    self.name, self.column, name, time)
  if not changed then return nil, err end
  if changed == 0 then
    local state, why = self:state()
    return nil, state and ("the run %s has ended: it is %s"):format(self.scope, state.state) or why
  end
  store:note_time()
  if name == table_of.CANCEL then store:ring() end -- those that it has started, too
  store:ring(table_of.signals(self.name))
  store:ring(table_of.stream(self.name))
  return true
end

---Sends the run a signal, which is kept until run:wait takes it.
---@param name string
---@param value? any what `once` can store; by default true
---@return true? sent, string? err the run has ended, or there is none
function Ref:signal(name, value)
  sign.own(self, "r", "signal")
  table_of.check_signal(name, "signal")
  if value == nil then value = true end
  local form, data = values.encode(value, "the value")
  if not form then raise("signal: " .. data) end
  return step_of(self, "signal", name, function() return signal(self, name, form, data) end)
end

---Cancels the run: the sleep or the wait in which it is, or else its next step, raises the reason. A step that is being
---done ends first. What the function does about the error may have steps.
---@param reason? string
---@return true? sent, string? err the run has ended, or there is none
function Ref:cancel(reason)
  sign.own(self, "r", "cancel")
  if reason == nil then reason = "the run was cancelled" end
  check.string(reason, "a reason", "cancel")
  local form, data = values.encode(reason, "the reason")
  return step_of(self, "cancel", "", function() return signal(self, table_of.CANCEL, form, data) end)
end

-- ---- again ----

local RESTART <const> = { from = true }

-- Deletes the steps from the first one with a name on, or all. Returns whether there is one.
local function delete_steps(self, tx, from)
  if not from then
    tx:exec(steps.FORGET, self.scope)
    return true
  end
  local rows, first = tx:rows(table_of.STEPS, self.scope), nil
  for _, row in ipairs(rows) do
    row.is_main = row.scope:sub(#self.scope + 4):find "^%d" ~= nil
    if row.name == from and (not first or row.step < first) then first = row.step end
  end
  if not first then return false end
  for _, row in ipairs(rows) do
    local goes = row.is_main and row.step >= first or not row.is_main and (row.step > first or row.name == from)
    if goes then
      local key = row.kind == "blob" and sqlite.blob(row.key) or row.key
      tx:exec("delete from runnel_once where scope = ? and name = ? and key = ?", row.scope, row.name, key)
      tx:exec(steps.FORGET, steps.scope(row.scope, row.name, table_of.key_text(row)))
    end
  end
  return true
end

local function restart(self, tx, from)
  local stream = table_of.stream(self.name)
  local row = tx:one(table_of.FIND, self.name, self.column)
  if not row then return nil, missing(self) end
  if tx:one("select 1 from runnel_delivery where stream = ? and seq = ? and holder is not null", stream, row.seq) then
    return nil, ("the run %s is in the memory of a process: cancel it first, or wait"):format(self.scope)
  end
  local has_failed_there = row.step and row.step:match "^[^%[]*" == from
  if not delete_steps(self, tx, from) and not has_failed_there then
    return nil, ("the run %s has no step %q"):format(self.scope, from)
  end
  tx:exec("delete from runnel_message where stream = ? and seq = ?", stream, row.seq)
  tx:exec(table_of.start_again(self, stream, row.priority))
  tx:exec("delete from runnel_once where scope = '' and name = ? and key = ?", self.name, self.column)
  tx:exec("delete from runnel_signal where name = ? and id = ? and signal = ''", self.name, self.column)
  tx:exec("delete from runnel_dead where name = ? and stream = ? and position = ?", self.name, stream, row.seq)
  return true
end

---Starts the run again: from the beginning, or from the first step of a name on, with the results of the steps before.
---@param opts? { from?: string } the name of a function of `once`, or of a step of the run, as "wait"
---@return true? started, string? err
function Ref:restart(opts)
  sign.own(self, "r", "restart")
  check.options(opts, RESTART, "restart")
  local from = opts and opts.from
  if from ~= nil then check.string(from, "the name of a step", "restart: from") end
  return step_of(self, "restart", from or "", function()
    local started, err = transact(self, function(tx) return restart(self, tx, from) end)
    if started then self.store:ring(table_of.stream(self.name)) end
    return started, err
  end)
end

local function forget(self, tx)
  local row = tx:one(table_of.FIND, self.name, self.column)
  if not row then return nil, missing(self) end
  if not ENDED[row.state] then return nil, ("the run %s has not ended"):format(self.scope) end
  local name, id = self.name, self.column
  tx:exec(table_of.FORGET, name, id, name, id, name, id, name, id, self.scope)
  return true
end

---Forgets the run, which must have ended: with its steps, its signals and its result. Then its id is free, and the runs
---that it has started have no parent.
---@return true? forgotten, string? err
function Ref:forget()
  sign.own(self, "r", "forget")
  return step_of(self, "forget", "", function() return transact(self, function(tx) return forget(self, tx) end) end)
end

function Ref:__tostring() return "run: " .. self.scope end

return run_ref
