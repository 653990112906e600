---The job of rn.pipeline for a module's name: threads send each value through the transducer that the module returns
---(runnel.internal.transduce).

local pool = require "runnel.threads.pool"

---@param what string the function that the program has called
---@param k integer how many threads
---@param name string of the module
---@param ex_handler? fun(err: any): any
---@return (fun(value: any, result: runnel.Channel<any>))? job; nil if that is impossible
---@return string|fun() close to be called when no further job will come; or why it is impossible
return function(what, k, name, ex_handler)
  local threads, why = pool.make(k, { module = name, transducer = true, handled = ex_handler ~= nil }, name, what, 1)
  if not threads then return nil, why --[[@as string]] end

  local function job(value, result)
    local answer = threads(value)
    local values, errors = answer[1], answer[2]
    for i = 1, #values do
      local v = values[i]
      if errors and errors[i] ~= nil then v = ex_handler(errors[i]) end
      if v ~= nil and not result:put(v) then break end
    end
    result:close()
  end

  return job, function() threads.jobs:close() end
end
