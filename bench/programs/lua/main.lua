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

-- Without stages: each line goes through all of them.
function programs.stages(path)
  local cjson, n, bytes = require "cjson", 0, 0
  for line in io.lines(path) do
    local event = cjson.decode(line)
    if event.value % 2 == 0 then
      local text = cjson.encode { id = event.id, name = event.name, value = event.value * 2 }
      n, bytes = n + 1, bytes + #text
    end
  end
  print(n, bytes)
end

function programs.words(path)
  local counts, list = {}, {}
  for line in io.lines(path) do
    for word in line:gmatch "%a+" do counts[word] = (counts[word] or 0) + 1 end
  end
  for word, n in pairs(counts) do list[#list + 1] = { word = word, n = n } end
  table.sort(list, function(a, b) return a.n > b.n or a.n == b.n and a.word < b.word end)
  for i = 1, math.min(20, #list) do print(list[i].n, list[i].word) end
end

programs[arg[1]](table.unpack(arg, 2))
