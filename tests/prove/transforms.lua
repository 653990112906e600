---The transducers and exception handlers of long programs, by name. A transducer gets the module, the inner reducing
---function, and a function that returns its channel. It returns a function of (acc, value), and one that completes, if
---any.

local transducers = {}

function transducers.twice(_, rf)
  return function(acc, value) return rf(rf(acc, value), value) end
end
function transducers.many(_, rf)
  return function(acc, value)
    for i = 1, 40 do acc = rf(acc, tostring(value) .. "/" .. i) end
    return acc
  end
end
function transducers.some(_, rf)
  local n = 0
  return function(acc, value)
    n = n + 1
    return n % 2 == 0 and rf(acc, value) or acc
  end
end
function transducers.late(_, rf)
  local kept
  return function(acc, value)
    local before = kept
    kept = value
    return before ~= nil and rf(acc, before) or acc
  end, function(acc)
    if kept ~= nil then acc = rf(acc, kept) end
    return rf(rf(acc, "the end"))
  end
end
function transducers.raising(_, rf)
  local n = 0
  return function(acc, value)
    n = n + 1
    if n % 3 == 0 then error("no " .. tostring(value), 0) end
    acc = rf(acc, value)
    if n % 4 == 0 then error("late " .. tostring(value), 0) end
    return acc
  end, function() error("no end", 0) end
end
function transducers.wrong(_, rf)
  local n = 0
  return function(acc, value)
    n = n + 1
    return n % 3 == 0 and 17 or n % 5 == 0 and {} or rf(acc, value)
  end
end
function transducers.ending(module, rf)
  local n = 0
  return function(acc, value)
    n = n + 1
    acc = rf(acc, value)
    return n < 4 and acc or module.reduced(acc)
  end
end
function transducers.producing_nil(_, rf)
  return function(acc) return rf(acc, nil) end
end
function transducers.using_its_channel(_, rf, get)
  return function(acc, value)
    if value == false then return acc end
    get():offer(1)
    return rf(acc, value)
  end
end
function transducers.choosing_its_channel(module, rf, get)
  local n = 0
  return function(acc, value)
    n = n + 1
    local op = n % 4 == 0 and get() or { get(), value }
    if n % 2 == 0 then module.alts({ op, module.chan() }, { default = "none", priority = n % 3 == 0 }) end
    return rf(acc, value)
  end
end
function transducers.closing_its_channel(_, rf, get)
  local n = 0
  return function(acc, value)
    n = n + 1
    if n == 3 then get():close "closed by its transducer" end
    return rf(acc, value)
  end
end

local handlers = {
  value = function(err) return "instead of " .. tostring(err) end,
  nothing = function() end,
  raising = function(err) error("worse than " .. tostring(err), 0) end,
}

return { transducers = transducers, handlers = handlers }
