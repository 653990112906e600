---How a worker processes a value: it calls the function, and puts the results.
---
---The results of a call are two values, `result, output`:
---
---    nil, nil         none
---    value, nil       one, for the default output; the worker may put it as it likes
---    value, DEFAULT   the same, but pool.done must be called after the put
---    value, name      one for that output
---    PARCEL, parcel   any number: a list of values and their outputs in turn. `at` is the place of the next value,
---                     `last` that of the last output
---
---A step puts by its put function while it runs. What it puts leaves at once, unless the pool `keeps` it, since the
---call may be tried again: then it becomes the parcel of the call, and is dropped if the call fails.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local taking = require "runnel.workers.taking"
local time_limit = require "runnel.internal.time_limit"
local raise = core.internal.raise

local sleep, put = core.sleep, core.internal.moving.put
local set_off = core.internal.worker.set_off

local calls = {}

local NOTHING, PARCEL, DEFAULT = {}, {}, {}
calls.NOTHING, calls.PARCEL = NOTHING, PARCEL

---Ends a source after its put, or where it waits, if its pool is to finish. Not an error.
calls.FINISHED = setmetatable({}, { __tostring = function() return "a source has to end" end })

---A worker's field `hand` while none of its go blocks works.
---@param worker runnel.internal.Worker
function calls.at_rest(worker) return nil, worker.value, worker.seq, worker.result, worker.output end

-- ---- parcels ----

local function new_parcel() return { at = 1, last = 0 } end

local function add(parcel, value, output)
  local last = parcel.last
  parcel[last + 1], parcel[last + 2], parcel.last = value, output, last + 2
end

---A parcel with the results of a call that are not a parcel yet.
---@param result any
---@param output any
---@return table
function calls.parcel(result, output)
  local parcel = new_parcel()
  if output == DEFAULT then output = nil end
  if result ~= nil then add(parcel, result, output) end
  return parcel
end

-- ---- a call ----

---A function has returned several values: if the first is nil it has failed, by Lua's convention.
---@param result any
---@param err any
function calls.raise_if_nil(result, err)
  if result == nil then error(err, 0) end
end

-- Calls the function as its kind wants it. `begun`: it begins later, and tells when (time_limit.mark_later).
local function call_function(worker, pool, value, begun)
  local job = pool.job
  if pool.is_source then return job(worker.put, worker.state) end
  if pool.is_step then return job(value, worker.put, worker.state, begun, worker) end
  local result, err
  if begun then result, err = job(value, nil, begun, worker) else result, err = job(value) end
  if err ~= nil then calls.raise_if_nil(result, err) end
  return result
end

-- The results of a call, with what its step has put and the pool has kept.
local function with_kept(worker, result, output)
  local kept = worker.kept
  if kept then
    if result ~= nil then add(kept, result, output) end
    worker.kept = nil
    return PARCEL, kept
  end
  return result, output or worker.pool.done and DEFAULT
end

---Calls the function, with all that may belong to it: a put function of its own, the time limit, tries. If it raises,
---the worker's go block dies of that (failure.lua).
---@param worker runnel.internal.Worker
---@param value any
---@return any result
---@return any output
function calls.call(worker, value)
  local pool = worker.pool
  local begun = pool.begins_later and time_limit.begun
  if pool.renews_put then pool:renew_put(worker) end
  if pool.lanes then pool.lanes:enter(worker, value) end
  if worker.dropped then return nil end -- since it waited: for its key, or for the next try
  if pool.limit and not begun then pool.limit:begin(worker) end
  worker.tries_again = worker.tried + 1 < pool.tries
  local result, output = call_function(worker, pool, value, begun)
  worker.deadline = false
  if worker.dropped then return nil end
  if worker.late then error(worker.late, 0) end -- it has caught the cancellation: its result is dropped
  worker.tried, worker.tries_again = 0, false
  return with_kept(worker, result, output)
end

---The first step of a worker whose go block died in a call: what failure.decide has said.
---@param worker runnel.internal.Worker
---@param value any
---@return any result
---@return any output
function calls.call_again(worker, value)
  local how, pool = worker.next, worker.pool
  local result, output
  worker.next, worker.at = nil, how
  if how == "handler" then
    result, output = worker.instead()
    if pool.done and output == nil then output = DEFAULT end
  else -- the same call, perhaps after a pause
    if how == "pause" then sleep(backoff.pause(pool.retry, worker.tried)) end
    worker.at = nil
    result, output = calls.call(worker, value)
  end
  worker.at = nil
  return result, output
end

-- ---- puts ----

-- Puts a value: on the default output as it is, else by the pool's `emit`.
local function send(worker, value, output, is_helper)
  local to = worker.to
  if output == nil and to and put(to, value) then return end
  worker.pool.emit(value, output, worker, is_helper)
end

-- What has left is no longer in the parcel, also if the go block dies between two puts.
local function send_parcel(worker, parcel)
  while parcel.at <= parcel.last do
    send(worker, parcel[parcel.at], parcel[parcel.at + 1])
    parcel.at = parcel.at + 2
  end
end

---Puts the results of a call.
---@param worker runnel.internal.Worker
---@param result any
---@param output any
function calls.send_results(worker, result, output)
  worker.at = "put"
  if result == PARCEL then send_parcel(worker, output)
  elseif output == DEFAULT then
    if result ~= nil then send(worker, result) end
  elseif result ~= nil then
    send(worker, result, output)
  end
  worker.at = nil
  local done = worker.pool.done
  if done then done() end
end

-- ---- puts by steps and sources, while they run ----

-- The worker's state while a call may put.
local CALLS = { job = true, send = true, turn = true, gate = true, main = true }

-- Raises in a put by a go block of a call that has ended: the order has no place for the value any more.
local function check_call(worker, call, is_older)
  if worker.call == call and CALLS[worker.pool:state_of(worker)] and not is_older then return end
  raise(("put: the value was not put: %s has ended; let it wait for the go blocks that put, as by rn.scope")
    :format(worker.pool.timed))
end

---A go block other than the worker's own is about to put. While calls still share a put function, the age of the go
---block tells whether an earlier call started it.
---@param worker runnel.internal.Worker
---@param call table
---@param is_older boolean the go block was there before the present call
function calls.expect_helper(worker, call, is_older)
  local pool = worker.pool
  check_call(worker, call, is_older and not pool.renews_put)
  pool:expect_helpers()
end

-- Waits while the pool is paused.
local function wait_resumed(worker, pool, is_helper)
  while pool.paused and not pool.finishing do taking.wait_resumed(worker, is_helper) end
  set_off(worker.exchange, pool.finishing)
end

---Puts a value of a step or a source where the worker's put function cannot.
---@param worker runnel.internal.Worker
---@param call table stands for the call whose put function this is (renew_put)
---@param value any
---@param output any
---@param is_helper boolean|nil it is not the worker's own go block that puts
function calls.put(worker, call, value, output, is_helper)
  local pool = worker.pool
  if pool.keeps and worker.at == nil and not pool.is_source then -- `at` is set in a handler, and in `main`
    worker.kept = worker.kept or new_parcel()
    return add(worker.kept, value, output)
  end
  if pool.is_source then wait_resumed(worker, pool, is_helper) end
  local _, _, seq = worker.hand(worker)
  if seq then -- in order: the results of the calls before this one leave first
    pool.order.wait(worker, seq, is_helper)
    if is_helper then check_call(worker, call) end
  end
  send(worker, value, output, is_helper)
  if pool.is_source and pool.finishing then error(calls.FINISHED, 0) end
end

return calls
