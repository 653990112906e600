-- For tests/browser/page.mjs: a program that computes and waits, and leaks go blocks. With a monitor of its own; the
-- first argument says whether it allows control. The lines that it reads tell it what to do: "profile", to make a
-- profile of its own, until the next line; "end", to end.
local rn = require "runnel"
local uv = require "runnel.uv"

local options = { control = arg[1] == "control", program = "profiled.lua" }
local m <close> = assert(require("runnel.monitor").listen(0, options))
io.stderr:write("monitor: ", m.url, "\n")

local jobs = rn.chan(4):name "jobs"
rn.go(function()
  rn.rename "feeder"
  while true do
    jobs:put "job"
    rn.sleep(5)
  end
end)
local function resize(ms)
  local began = os.clock()
  repeat until os.clock() - began > ms / 1000
end
for i = 1, 8 do
  rn.go(function()
    rn.rename("worker " .. i)
    for _ in jobs do resize(2) end
  end)
end

-- Only the first answer is taken.
local function ask()
  local answers = rn.chan():name "answers"
  for i = 1, 3 do rn.go(function() answers:put(i) end) end
  return answers:take()
end
for _ = 1, 5 do ask() end

local lines = uv.lines(0)
for line in lines do
  if line == "profile" then rn.profile(function() lines:take() end) end
  if line == "end" then break end
end
os.exit(0, true)
