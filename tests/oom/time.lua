-- Timeouts, shared and not, sleeps, and timers of rn.after, in real time: enough of them for the heap to grow.
local t = ...
local rn = require "runnel"

local N = 20
local slept, fired = {}, {}
for i = 1, N do slept[i], fired[i] = false, false end
local timeouts = {}
for i = 1, N do timeouts[i] = false end


-- Timers: whether each was started, stopped, and has called; every third one is stopped, and restarted after that.
local timers, started, stopped, called = {}, {}, {}, {}
for i = 1, N do timers[i], started[i], stopped[i], called[i] = false, false, false, 0 end

local function call(i) called[i] = called[i] + 1 end

local function use_timers()
  for i = 1, N do
    timers[i] = rn.after(i % 3, call, i)
    started[i] = true
    if i % 3 == 0 then
      stopped[i] = timers[i]:stop()
      timers[i]:restart(i % 2)
      stopped[i] = false
    elseif i % 5 == 0 then
      stopped[i] = timers[i]:stop()
    end
  end
end

local function attempt()
  use_timers()
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
  local died, lost = t.deaths(), 0
  for i = 1, N do
    local expected = started[i] and not stopped[i] and 1 or 0
    if called[i] < expected then lost = lost + 1 end
    assert(called[i] <= expected and not (timers[i] and timers[i]:stop()), "a timer has called too often")
  end
  assert(lost <= t.reports(), "a timer has not called, and nothing was reported")
  for i = 1, N do
    if timeouts[i] then assert(timeouts[i]:closed(), "a timeout has not fired") end
    if died == 0 and t.refused() == 0 then assert(slept[i] and fired[i]) end
  end
end

return attempt, check
