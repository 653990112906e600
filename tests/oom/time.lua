-- Timeouts, shared and not, and sleeps, in real time: enough of them for the heap to grow.
local t = ...
local rn = require "runnel"

local N = 20
local slept, fired = {}, {}
for i = 1, N do slept[i], fired[i] = false, false end
local timeouts = {}
for i = 1, N do timeouts[i] = false end

local function attempt()
  for i = 1, N do
    timeouts[i] = rn.timeout(i % 3)
    t.go(function()
      rn.sleep(i % 3 / 10)
      slept[i] = true
      timeouts[i]:take()
      fired[i] = true
    end)
  end
  rn.timeout(30)
  rn.alts { rn.chan(), rn.timeout(1) }
  rn.sleep(1)
end

local function check()
  rn.go(function() rn.sleep(4) end):take()
  local died = t.deaths()
  for i = 1, N do
    if timeouts[i] then assert(timeouts[i]:closed(), "a timeout has not fired") end
    if died == 0 and t.refused() == 0 then assert(slept[i] and fired[i]) end
  end
end

return attempt, check
