-- A race that sim.explore finds: two go blocks add one, and
-- one of the additions is lost.
local rn = require "runnel"
local sim = require "runnel.sim"

local ok, story = pcall(sim.explore, function()
  local sum = 0
  local function add()
    rn.rename "adder"
    local before = sum
    rn.yield() -- stands for anything that may wait
    sum = before + 1
  end
  local one, two = rn.go(add), rn.go(add)
  one:take()
  two:take()
  if sum ~= 2 then error("the sum is " .. sum, 0) end
end)
print(ok and "every order goes well" or story)
