---The transducers of random programs, by name. They belong to the program, so the core and the model use the same ones.
---Values are strings with a number in them, or false.

local xforms = require "spec.support.xforms"

local transforms = {}

-- The number in a value; 0 without one.
local function number(value) return tonumber(tostring(value):match "%d+") or 0 end

local made = {
  map = function() return xforms.map(function(value) return tostring(value) .. "'" end) end,
  filter = function() return xforms.filter(function(value) return number(value) % 3 ~= 0 end) end,
  twice = function() return xforms.times(2) end,
  first = function(reduced) return xforms.take(2, reduced) end,
  pairs = function()
    return xforms.comp(xforms.partition(2), xforms.map(function(list)
      return tostring(list[1]) .. "+" .. tostring(list[2])
    end))
  end,
  -- Each value comes out when the next goes in, and the last one at the end.
  late = function()
    return function(rf)
      local kept
      return xforms.of(function(inner, acc, value)
        local before = kept
        kept = value
        return before ~= nil and inner(acc, before) or acc
      end, function(inner, acc)
        if kept ~= nil then acc = inner(acc, kept) end
        return inner(acc)
      end)(rf)
    end
  end,
  raising = function()
    return xforms.map(function(value)
      if number(value) % 3 == 0 then error("no " .. tostring(value), 0) end
      return value
    end)
  end,
  raising_late = function()
    return xforms.of(function(rf, acc, value) return rf(acc, value) end, function() error("no end", 0) end)
  end,
  -- Returns a value other than its accumulator.
  wrong = function()
    return xforms.of(function(rf, acc, value) return number(value) % 3 == 0 and 17 or rf(acc, value) end)
  end,
}

---Makes a transducer.
---@param name string
---@param reduced fun(acc: any): any wraps the accumulator with which it ends
function transforms.make(name, reduced) return made[name](reduced) end

---An error as logs show it: one of the core's own only in short, because other specs check its text.
function transforms.show_error(err)
  return (tostring(err):gsub("the transducer's step function.*", "no accumulator"))
end

---The results of the exception handlers, by name.
transforms.handlers = {
  value = function(err) return "instead of " .. transforms.show_error(err) end,
  nothing = function() end,
  raising = function(err) error("worse than " .. transforms.show_error(err), 0) end,
}

---Raises for a value that a picky buffer refuses.
function transforms.check_picky(value)
  if number(value) % 5 == 4 then error("not " .. tostring(value), 0) end
end

---Whether a value leaves a priority buffer before another.
function transforms.less(a, b) return tostring(a) < tostring(b) end

return transforms
