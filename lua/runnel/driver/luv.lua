---A driver over libuv's loop, so that luv's handles and requests run beside go blocks.
---
---    local uv = require "luv"
---    rn.driver(require "runnel.driver.luv")
---    local ticks = rn.chan(rn.sliding_buffer(1))
---    uv.new_timer():start(100, 100, function() ticks:put_async(true) end)
---    for _ in ticks do print "tick" end
---
---Callbacks of luv must not park; put_async, take_async, offer, poll and rn.go are for them. An error in one ends the
---program, as it does with luv alone.
---
---A program that runs luv's loop itself, with uv.run, lets go blocks run by calling rn.step in it (examples/guest.lua).
---Meanwhile the driver does nothing.

local core = require "runnel.core"
local need = require "runnel.need"
local uv = need("luv", "Debian's lua-luv, LuaRocks' luv")

---@class runnel.driver.luv: runnel.Driver
---@field luv boolean says to runnel.uv that luv's loop runs
local driver = { luv = true }

local FOREVER_MS = 1 << 40
local loop_mode = uv.loop_mode or function() end -- old versions of luv lack it
local keeper -- a timer, active in run only
local function nothing() end

-- Runs what is ready, and returns for how many ms libuv would wait then; less than 0 for ever. A loop that no handle
-- keeps alive would not run at all, though there may be others in it: hence, for the moment, one that does.
local function run()
  if not keeper or keeper:is_closing() then keeper = uv.new_timer() end
  keeper:start(FOREVER_MS, 0, nothing)
  uv.run "nowait"
  local ms = uv.backend_timeout()
  keeper:stop()
  return ms
end

-- The waiting is not libuv's: it would go on when a signal comes that is not one of its own, such as Ctrl-C, and its
-- timers count whole milliseconds. Running first tells the kernel what to watch.
function driver:wait(ms) -- luacheck: ignore self
  if loop_mode() then -- the program runs it, and we are in one of its callbacks
    if ms == 0 then return end
    error("the program is running luv's loop (uv.run), and nothing can wait in a callback of it: use put_async, "
      .. "take_async, offer or poll there, or start a go block with rn.go", 0)
  end
  local left = run()
  if ms == 0 or not ms and not uv.loop_alive() then return end -- the last handle may have ended just now
  if left >= 0 then ms = math.min(left, ms or left) end
  if core.wait_readable(uv.backend_fd(), ms) then run() end
end

function driver:alive() return uv.loop_alive() end -- luacheck: ignore self

return driver
