---How a worker processes a value: it calls the function and puts the results.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local time_limit = require "runnel.internal.time_limit"
local taking = require "runnel.workers.taking"

local sleep, put = core.sleep, core.internal.moving.put
local set_off = core.internal.worker.set_off

local jobs = {}

-- A parcel is a list of values and their outputs: the results of a job that are not one value for the default output.
-- DEFAULT is the default output, where the put needs further work.
local NOTHING, PARCEL, DEFAULT = {}, {}, {}
jobs.NOTHING, jobs.PARCEL = NOTHING, PARCEL

---Ends a source after its put, or where it waits, if its pool is to finish. Not an error.
jobs.FINISHED = setmetatable({}, { __tostring = function() return "a source has to end" end })

---A worker's field `hand` while none of its go blocks works.
---@param worker runnel.internal.Worker
function jobs.at_rest(worker) return nil, worker.value, worker.seq, worker.result, worker.output end

---A parcel with a result of a job, or with none.
---@param result any
---@param output any
---@return table
function jobs.parcel(result, output)
  if output == DEFAULT then output = nil end
  return { result, output, at = 1, last = result == nil and 0 or 2 }
end

local function add(parcel, value, output)
  local last = parcel.last
  parcel[last + 1], parcel[last + 2], parcel.last = value, output, last + 2
end

---A function has returned several values: if the first is nil it has failed, by Lua's convention.
---@param result any
---@param err any
function jobs.raise_if_nil(result, err)
  if result == nil then error(err, 0) end
end

---Calls the job, with all that may belong to it.
---@param worker runnel.internal.Worker
---@param value any
---@return any result
---@return any output
function jobs.call(worker, value)
  local pool = worker.pool
  local job = pool.job
  local result, output
  if pool.renews_put then pool:renew_put(worker) end
  local begun = pool.begins_later and time_limit.begun
  if pool.limit and not begun then pool.limit:begin(worker) end
  worker.tries_again = worker.tried + 1 < pool.tries
  if pool.is_source then result, output = job(worker.put, worker.state)
  elseif pool.is_step then result, output = job(value, worker.put, worker.state, begun, worker)
  else
    if begun then result, output = job(value, nil, begun, worker) else result, output = job(value) end
    if output ~= nil then output = jobs.raise_if_nil(result, output) end
  end
  worker.deadline = false
  if worker.dropped then return nil end
  if worker.late then error(worker.late, 0) end -- it has caught the cancellation: its result is dropped
  worker.tried, worker.tries_again = 0, false
  local kept = worker.kept
  if kept then
    if result ~= nil then add(kept, result, output) end
    worker.kept = nil
    return PARCEL, kept
  end
  return result, output or pool.done and DEFAULT
end

---The first step of a worker whose go block died in a job.
---@param worker runnel.internal.Worker
---@param value any
---@return any result
---@return any output
function jobs.call_again(worker, value)
  local how, pool = worker.next, worker.pool
  worker.next = nil
  local result, output
  if how == "handler" then
    worker.at = "handler"
    result, output = worker.instead()
    if pool.done and output == nil then output = DEFAULT end
  else
    if how == "pause" then
      worker.at = "pause"
      sleep(backoff.pause(pool.retry, worker.tried))
    end
    worker.at = nil
    result, output = jobs.call(worker, value)
  end
  worker.at = nil
  return result, output
end

local function send(worker, value, output, is_helper)
  local to = worker.to
  if output == nil and to and put(to, value) then return end
  worker.pool.emit(value, output, worker, is_helper)
end

---Puts the results of a job.
---@param worker runnel.internal.Worker
---@param result any
---@param output any
function jobs.send_results(worker, result, output)
  worker.at = "put"
  if result == PARCEL then
    while output.at <= output.last do
      send(worker, output[output.at], output[output.at + 1])
      output.at = output.at + 2
    end
  elseif result ~= nil then
    if output == DEFAULT then output = nil end
    send(worker, result, output)
  end
  worker.at = nil
  local done = worker.pool.done
  if done then done() end
end

-- The worker's state while a call may put.
local CALLS = { job = true, send = true, turn = true, gate = true, main = true }

-- Raises in a put by a go block of a call that has ended: the order has no place for the value any more.
local function check_call(worker, call, is_older)
  if worker.call == call and CALLS[worker.pool:state_of(worker)] and not is_older then return end
  error(("put: the value was not put: %s has ended; let it wait for the go blocks that put, as by rn.scope")
    :format(worker.pool.timed), 5)
end

---A go block other than the worker's own is about to put. While calls still share a put function, the age of the go
---block tells whether an earlier call started it.
---@param worker runnel.internal.Worker
---@param call table
---@param is_older boolean the go block was there before the present call
function jobs.expect_helper(worker, call, is_older)
  local pool = worker.pool
  check_call(worker, call, is_older and not pool.renews_put)
  pool:expect_helpers()
end

---Puts a value of a step or a source where the worker's put function cannot.
---@param worker runnel.internal.Worker
---@param call table stands for the call whose put function this is (renew_put)
---@param value any
---@param output any
---@param is_helper boolean|nil it is not the worker's own go block that puts
function jobs.put(worker, call, value, output, is_helper)
  local pool = worker.pool
  if pool.keeps and worker.at == nil and not pool.is_source then
    worker.kept = worker.kept or { at = 1, last = 0 }
    add(worker.kept, value, output)
    return
  end
  if pool.is_source then
    while pool.paused and not pool.finishing do taking.wait_resumed(worker, is_helper) end
    set_off(worker.exchange, pool.finishing)
  end
  local _, _, seq = worker.hand(worker)
  if seq then
    pool.order.wait(worker, seq, is_helper)
    if is_helper then check_call(worker, call) end
  end
  send(worker, value, output, is_helper)
  if pool.is_source and pool.finishing then error(jobs.FINISHED, 0) end
end

return jobs
