---Handles the death of a worker's go block: the worker tries again, continues with another function, holds its value,
---or ends.

local core = require "runnel.core"
local calls = require "runnel.workers.calls"
local time_limit = require "runnel.internal.time_limit"
local internal = core.internal

local excuse, is_cancellation = internal.excuse, internal.is_cancellation

local at_rest = calls.at_rest

local failure = {}

-- The phases in which a failure counts; for others the worker's activity counts.
local PHASES = { lane = "job", send = "job", turn = "job", pause = "job", idle = "take", gate = "take" }

---The beginning of a worker's next go block that repeats the last action.
---@param phase string
---@return string|nil
function failure.again(phase)
  if phase == "put" then return "put" end
  return phase ~= "take" and phase ~= "main" and "job" or nil
end

-- The worker's next action; nil if it is to end.
local function what_next(worker, one, is_cancelled)
  local late, phase, err, pool = worker.late, one.phase, one.err, worker.pool
  if late then
    if one.block then excuse(one.block, err) end
    one.err, one.block, one.cancelled, worker.late = time_limit.raised(late, err), false, false, false
  end
  if worker.dropped then
    if one.block and pool.lost and pool.lost(one) then excuse(one.block, err) end
    return nil
  end
  if err == calls.FINISHED and (pool.is_source or phase == "take") then return "end" end
  if phase == "job" and one.tries < pool.tries and (late or not is_cancelled) then
    worker.tried = one.tries
    return "pause"
  end
  worker.tried = 0
  return pool.failed(worker, one)
end

---Decides the worker's next action, and prepares the worker for it.
---@param worker runnel.internal.Worker
---@param err any
---@param block runnel.Channel<any>
---@param is_reported boolean
---@param trace string|nil
---@return "spawn"|"hold"|nil
function failure.decide(worker, err, block, is_reported, trace)
  local pool = worker.pool
  local order = pool.order
  local at, value, seq, result, output = pool:state_of(worker)
  local phase = at == "gate" and value ~= nil and "job" or PHASES[at] or at
  if order then
    order.died(worker, at)
    if phase ~= "take" and phase ~= "main" then seq = seq or order.number() end
  end
  worker.value, worker.seq, worker.result, worker.output = value, seq, result, output
  worker.kept, worker.block, worker.deadline, worker.tries_again = nil, false, false, false
  worker.hand = at_rest -- later code may ask for its state, which is no longer the dead go block's

  local is_cancelled = is_cancellation(block, err)
  local one = {
    phase = phase, value = value, seq = seq, err = err, traceback = trace, tries = worker.tried + 1,
    block = is_reported and block, cancelled = is_cancelled and block,
  }
  if err == nil or not (is_reported or is_cancelled) then
    one.err = pool.timed .. " raised nil, called coroutine.yield, or had its coroutine closed"
    one.block = false
    if err == nil and not worker.dropped then excuse(block, nil) end -- that message takes its place
  end
  local what = what_next(worker, one, is_cancelled)
  if what == nil then return nil end
  if one.block then excuse(block, err) end
  if what == "hold" then
    worker.held = one
    return "hold"
  end
  if type(what) == "function" then
    worker.instead, worker.next = what, "handler"
  elseif what == "end" or what == "pause" then
    worker.next = what
  else
    worker.next = failure.again(phase)
  end
  return "spawn"
end

return failure
