---The time limit of calls: the option `timeout` of every function that calls one of the program's.
---
---When its time is over, a call is cancelled with a timeout error, and has failed with that error, whatever it does
---then: what it returns is dropped, and what it raises is told in the error. The operation goes on when the call has
---ended, however long its `<close>` variables take. What is ready to run at the end of the time still runs, so a call
---that has nothing more to wait for then is in time (`settle`).

local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.internal.timed_out"
local internal = core.internal

local now, sleep, cancel, hide = core.now, core.sleep, core.cancel, internal.trace.hide
local take = internal.moving.take

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

-- How many times what is ready may run before a call is late: what it waits for may pass through some go blocks.
local ROUNDS = 5

local time_limit = {}

---Lets what is ready at the end of a time run, and what that makes ready.
---@param pause fun(ms: number) core.sleep, or another one
---@param scope? { over: boolean } ends that when it is over
function time_limit.settle(pause, scope)
  for _ = 1, ROUNDS do
    if scope and scope.over then return end
    pause(0)
  end
end

-- ---- the error ----

---The error of a call over its limit.
---@param what string what has not ended, as in "retry: a try had not ended"
---@param ms number
---@return runnel.TimedOut
function time_limit.error(what, ms) return timed_out.new(("%s after %s ms"):format(what, decimal.text(ms))) end

---The error of a call that was cancelled with `late`, and has raised something.
---@param late runnel.TimedOut
---@param err any what it has raised; the same error if it has not caught it
---@return runnel.TimedOut late
function time_limit.raised(late, err)
  if err == late then return late end
  late.message = ("%s; cancelled, it raised: %s"):format(late.message, internal.error_text(err))
  return late
end

-- ---- limits ----

---What a limit knows of a call: a worker of a pool, or a call of `Limit:call`.
---@class runnel.internal.Limited
---@field block runnel.Channel<any> the go block in which it runs
---@field deadline number|false false: there is no call, or it was cancelled
---@field late runnel.TimedOut|false the error with which it was cancelled
---@field before any the one with the deadline before its own, or the limit; false: it is not in the limit's ring
---@field after any the one after its own

---The limit of the calls of an operation, of which any number may run. One go block cancels those that are late.
---
---A ring of the calls that have begun, in the order of their begins, which is the order of their deadlines. One that
---has ended stays in it until it reaches the front, or another one of the same worker begins, so that the cost of a
---call does not depend on the number of workers.
---@class runnel.internal.Limit
---@field package after runnel.internal.Limit|runnel.internal.Limited the first one; itself: there is none
---@field package before runnel.internal.Limit|runnel.internal.Limited the last one
---@field package what string as for time_limit.error
---@field ms number|nil nil: no limit
---@field package watcher runnel.Channel<any>|nil the go block, while there may be a deadline
local Limit = {}
Limit.__index = Limit

---@param what string
---@param ms? number
---@return runnel.internal.Limit
function time_limit.new(what, ms)
  local self = setmetatable({ what = what, ms = ms, watcher = nil, after = nil, before = nil }, Limit)
  self.after, self.before = self, self
  return self
end

---@return runnel.TimedOut err of a call that is late
function Limit:error() return time_limit.error(self.what, self.ms) end

-- Takes a call out of the ring, if it is in it.
local function unlink(one)
  local before, after = one.before, one.after
  if not before then return end
  before.after, after.before = after, before
  one.before, one.after = false, false
end

-- The call with the next deadline; nil if there is none.
local function next_late(self)
  while self.after ~= self do
    if self.after.deadline then return self.after end
    unlink(self.after)
  end
end

-- The time of a call is over.
local function cancel_late(self, one)
  one.deadline = false
  if not one.late then
    one.late = self:error()
    cancel(one.block, one.late)
  end
  if one.renew then
    one.renew()
    self:begin(one)
  end
end

local function watch(self)
  local one = next_late(self)
  while one do
    local left = one.deadline - now()
    if left >= NANOSECOND then
      sleep(left)
      time_limit.settle(sleep)
    else
      cancel_late(self, one)
    end
    one = next_late(self)
  end
  self.watcher = nil
end

local function forget(self, _, block)
  if self.watcher == block then self.watcher = nil end
end

---Registers a call that begins. Its field `deadline` is to be set to false when it has ended.
---@param one runnel.internal.Limited
function Limit:begin(one)
  unlink(one)
  one.deadline, one.before, one.after = now() + self.ms, self.before, self
  self.before.after, self.before = one, one
  if not self.watcher then self.watcher = hide(guard.go(forget, self, watch, self)) end -- so no program cancels it
end

---Called when no calls are left.
function Limit:stop()
  local watcher = self.watcher
  self.watcher = nil
  if watcher then cancel(watcher) end
end

-- ---- a call in a go block of its own ----

---@class runnel.internal.LimitedCall: runnel.internal.Limited
---@field limit runnel.internal.Limit
---@field results table|nil
---@field renew? function
local Call = {}
Call.__index = Call

-- It is the guard of its go block (internal.guarded).
function Call:returned(...) self.results = table.pack(...) end

function Call:__close(err)
  self.deadline = false
  if err == nil and not self.results then internal.excuse(self.block, nil) end -- the caller puts a message in its place
end

-- Cleans up at any end of the go block that waits for a call.
local Waiting = {}

function Waiting:__close()
  local call, limit = self.call, self.call.limit
  cancel(call.block)
  unlink(call)
  if limit.after == limit then limit:stop() end
end

---Calls a function in a go block of its own, where the limit can end it wherever it waits. Cancelling the caller
---cancels the call, and waits for its end. Parks; raises where that is impossible.
---@param renew? fun() is called when the time is over, and each time that it is over again before the call has ended
---@param f function
---@param ... any its arguments
---@return table? results packed; nil: it has failed
---@return any err nil if it has raised nil, called coroutine.yield, or had its coroutine closed
---@return table? dropped the results, if it has returned too late
function Limit:call(renew, f, ...)
  local caller = internal.self "a call with a time limit"
  local call = setmetatable({ limit = self, results = nil, renew = renew, late = false, deadline = false,
    before = false, after = false, block = nil }, Call)
  call.block = core.go(internal.guarded, call, f, ...)
  local waiting <close> = setmetatable({ call = call }, Waiting) -- luacheck: ignore 211
  if self.ms then self:begin(call) end
  local ok, value, err = pcall(take, call.block)
  if not ok then
    -- The caller was cancelled, whatever the call does about it; or there is a deadlock.
    cancel(call.block, value)
    error(guard.join(call.block, caller, value), 0)
  end
  local late, results = call.late, call.results
  if not late then return results, err end
  return nil, results and late or time_limit.raised(late, err), results
end

-- ---- calls that begin later ----

-- The functions whose calls begin later, and the metatables of such objects.
local later = setmetatable({}, { __mode = "k" })

---Notes that the calls of a function, or of all objects with that metatable, begin later: those of a pool of threads,
---which wait for a thread. The last two arguments are `begun` and a worker; it calls begun(worker) when the call
---begins.
---@param f function|table
function time_limit.mark_later(f) later[f] = true end

---Whether the calls of a function begin later.
---@param f any
---@return boolean
function time_limit.is_later(f) return later[f] or later[getmetatable(f) or false] or false end

---The `begun` of a call that begins later.
---@param worker runnel.internal.Worker
function time_limit.begun(worker) worker.pool.limit:begin(worker) end

return time_limit
