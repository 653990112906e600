-- For tests/browser/page.mjs: a sieve, whose go blocks are a long chain, and four workers that are alike.
local rn = require "runnel"

local monitor <close> = require("runnel.monitor").listen(0)
io.stderr:write("monitor: ", monitor.url, "\n")

local jobs = rn.chan(4):name "jobs"
for i = 1, 4 do
  rn.go(function()
    rn.rename("worker " .. i)
    for _ in jobs do rn.sleep(20) end
  end)
end
rn.go(function()
  rn.rename "boss"
  for i = 1, math.huge do
    jobs:put(i)
    rn.sleep(3)
  end
end)

local function filter(prime, from)
  local to = rn.chan():name("not by " .. prime)
  rn.go(function()
    rn.rename("filter " .. prime)
    for n in from do
      if n % prime ~= 0 then to:put(n) end
    end
  end)
  return to
end

local ch = rn.chan():name "numbers"
local numbers = ch
rn.go(function()
  rn.rename "numbers"
  for n = 2, 70 do
    numbers:put(n)
    rn.sleep(10)
  end
end)
while true do ch = filter(ch:take(), ch) end
