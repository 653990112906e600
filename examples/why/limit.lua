-- Twenty calls of 5 ms, four at a time; the results in order.
local rn = require "runnel"

local running, most = 0, 0
local function fetch(n)
  running = running + 1
  most = math.max(most, running)
  rn.sleep(5)
  running = running - 1
  return n * n
end

local numbers = {}
for i = 1, 20 do numbers[i] = i end
local results = rn.pmap(4, fetch, numbers):list()
print(#results, results[1], results[20], most)
