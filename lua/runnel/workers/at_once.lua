---Workers that take and put at the same time, any number of them; also a source.

local core = require "runnel.core"
local calls = require "runnel.workers.calls"
local taking = require "runnel.workers.taking"

local phase_of = core.internal.worker.phase
local call_job, raise_if_nil, send_results = calls.call, calls.raise_if_nil, calls.send_results

---Works until the worker is to end, or the pool gets an order.
---@param worker runnel.internal.Worker
return function(worker)
  local pool, exchange = worker.pool, worker.exchange
  local from, is_source = pool.from, pool.is_source
  local value, result, output = worker.value, worker.result, worker.output
  worker.hand = function() return nil, value, nil, result, output end
  local puts = worker.next == "put"
  worker.at = nil
  if puts then worker.next = nil
  elseif worker.next then result, output = calls.call_again(worker, value)
  elseif is_source then result, output = call_job(worker) end
  if puts or result ~= nil or output then send_results(worker, result, output) end
  result, output = nil, nil
  local job_put = worker.put
  while not is_source do
    value = exchange(from, worker.to, result)
    if value == nil then
      local at = phase_of(exchange)
      if result ~= nil and (at == "job" or at == "put") and not worker.dropped then send_results(worker, result) end
      result = nil
      value = taking.next_value(worker)
      if value == nil then break end
    end
    local job = worker.job
    if job then
      result, output = job(value)
      if output ~= nil then output = raise_if_nil(result, output) end
    else
      job = worker.step
      if job then result, output = job(value, job_put, worker.state)
      elseif worker.dropped then break -- dropped after it got the value
      else result, output = call_job(worker, value) end
      if output then -- not a single value for the default output
        send_results(worker, result, output)
        result, output = nil, nil
      end
    end
  end
end
