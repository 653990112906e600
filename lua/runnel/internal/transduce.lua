---What the threads of a module pipeline run: a function that sends a value through a transducer of its own, and returns
---{ values }, or { values, errors }.

local core = require "runnel.core"
local sendable = require "runnel.internal.sendable"

---@param xf runnel.Transducer
---@param handled boolean whether errors of the transducer are for an ex_handler: then their places are in `values`, and
---they are in `errors` with the same index. Otherwise they are raised.
---@return fun(value: any): table
return function(xf, handled)
  local ok, why = pcall(core.chan, 1, xf)
  if not ok then error(why, 0) end

  return function(value)
    local errors -- by a mark, which is in the place of the value
    local out = core.chan(1, xf, handled and function(err)
      errors = errors or {}
      local mark = {}
      errors[mark] = sendable(err)
      return mark
    end or nil)
    out:put(value)
    out:close()
    local values, n, by_index = {}, 0, nil
    for v in out do
      n = n + 1
      local err
      if errors then err = errors[v] end
      if err == nil then
        values[n] = v
      else
        by_index = by_index or {}
        by_index[n], values[n] = err, true
      end
    end
    return { values, by_index }
  end
end
