-- Go blocks inside another event loop: here luv's, but a window's or a game's works the same way. Needs luv.
--
--     lua5.4 examples/guest.lua [MS]        for that many milliseconds, 500 by default
--
-- Before luv's loop waits, it calls rn.step, which runs go blocks and returns how long the loop may wait. A busy go
-- block, a sleeping one and a timer of luv share the time; the program prints how often each ran.

local rn = require "runnel"
local uv = require "luv"

local USAGE = "usage: lua5.4 examples/guest.lua [MS]\n  MS: for how long, a whole number from 1\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function nothing() end

-- Makes luv's loop run go blocks.
local function host_go_blocks()
  local before, alarm, no_wait = uv.new_prepare(), uv.new_timer(), uv.new_idle()
  before:start(function()
    local ms = rn.step() -- for a millisecond at most
    alarm:stop()
    no_wait:stop()
    if ms == 0 then
      no_wait:start(nothing)
    elseif ms and ms < math.huge then
      alarm:start(math.ceil(ms), 0, nothing)
    end
  end)
  before:unref() -- the loop ends when nothing else is left
end

-- ---- the command line ----

local ms = math.tointeger(tonumber(arg[1] or "500"))
if not ms or ms < 1 or arg[2] then
  io.stderr:write(USAGE)
  os.exit(2)
end

local over = rn.timeout(ms)
local turns, sleeps, ticks = 0, 0, 0

rn.go(function()
  while not over:closed() do
    turns = turns + 1
    rn.yield()
  end
end)
rn.go(function()
  while not over:closed() do
    rn.sleep(1)
    sleeps = sleeps + 1
  end
end)
local timer = uv.new_timer()
timer:start(1, 1, function()
  ticks = ticks + 1
  if over:closed() then timer:close() end
end)

host_go_blocks()
uv.run()
print(("%d turns of a busy go block, %d sleeps of 1 ms, %d ticks of luv's 1 ms timer"):format(turns, sleeps, ticks))
