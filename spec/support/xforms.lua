---Transducers written by hand.

local xforms = {}

---Makes a transducer of its step; `init` and completion are those of the reducing function.
---@param step fun(rf: function, acc: any, value: any): any
---@param complete? fun(rf: function, acc: any): any
function xforms.of(step, complete)
  return function(rf)
    return function(...)
      local n = select("#", ...)
      if n == 0 then return rf() end
      local acc, value = ...
      if n == 1 then
        if complete then return complete(rf, acc) end
        return rf(acc)
      end
      return step(rf, acc, value)
    end
  end
end

function xforms.map(f) return xforms.of(function(rf, acc, value) return rf(acc, f(value)) end) end

function xforms.filter(keep)
  return xforms.of(function(rf, acc, value) return keep(value) and rf(acc, value) or acc end)
end

---Each value n times.
function xforms.times(n)
  return xforms.of(function(rf, acc, value)
    for _ = 1, n do acc = rf(acc, value) end
    return acc
  end)
end

---Lists of n values; completion adds the rest.
function xforms.partition(n)
  return function(rf)
    local list = {}
    return xforms.of(function(inner, acc, value)
      list[#list + 1] = value
      if #list < n then return acc end
      local full = list
      list = {}
      return inner(acc, full)
    end, function(inner, acc)
      if #list > 0 then acc = inner(acc, list) end
      list = {}
      return inner(acc)
    end)(rf)
  end
end

---The first n values.
function xforms.take(n, reduced)
  return function(rf)
    local left = n
    return xforms.of(function(inner, acc, value)
      left = left - 1
      if left >= 0 then acc = inner(acc, value) end
      if left <= 0 then return reduced(acc) end
      return acc
    end)(rf)
  end
end

function xforms.comp(first, second)
  return function(rf) return first(second(rf)) end
end

return xforms
