-- The programs of make bench-programs in Lua without any library but lua-cjson: main.lua NAME ARGUMENT...

local programs = {}

function programs.logs(path)
  local counts, keys = {}, {}
  for line in io.lines(path) do
    local key = line:match "^%S+"
    if key then
      if not counts[key] then keys[#keys + 1] = key end
      counts[key] = (counts[key] or 0) + 1
    end
  end
  table.sort(keys, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  for i = 1, math.min(20, #keys) do print(("%8d  %s"):format(counts[keys[i]], keys[i])) end
end

function programs.json(path)
  local decode, sum, n = require("cjson").decode, 0, 0
  for line in io.lines(path) do
    sum, n = sum + decode(line).value, n + 1
  end
  print(("%d %.0f"):format(n, sum))
end

-- Coroutines that yield where an actor would wait.
function programs.actors(n)
  n = tonumber(n)
  local actors, total = {}, 0
  for i = 1, n do
    actors[i] = coroutine.create(function(value)
      local sum = 0
      for _ = 1, 9 do
        sum = sum + value
        value = coroutine.yield()
      end
      total = total + sum + value
    end)
  end
  for message = 1, 10 do
    for i = 1, n do coroutine.resume(actors[i], message) end
  end
  print(total)
end

programs[arg[1]](table.unpack(arg, 2))
