---A driver over libuv's loop: luv's handles and requests run beside go blocks.
---
---    local uv = require "luv"
---    rn.driver(require "runnel.driver.luv")
---    local ticks = rn.chan(rn.sliding_buffer(1))
---    uv.new_timer():start(100, 100, function() ticks:put_async(true) end)
---    for _ in ticks do print "tick" end
---
---A callback of luv must not park; use put_async, take_async, offer, poll and rn.go there. An error in a callback ends
---the program, as it does with luv alone.
---
---A program that runs luv's loop itself, with uv.run, calls rn.step in that loop to run go blocks (examples/guest.lua).
---While it runs the loop, the driver does nothing.

local core = require "runnel.core"
local need = require "runnel.internal.need"
local uv = need("luv", "Debian's lua-luv, LuaRocks' luv")

-- libuv's handler of a signal may still run, in another thread, when the thread that has loaded luv ends.
core.internal.stay_loaded(uv.run)

-- luv's table holds its loop. A program that forgets luv and loads it again, as busted does for each file of tests,
-- gets another table, but the same loop, which must not have been collected.
local KEPT <const> = "runnel: luv"
if debug then
  local registry = debug.getregistry()
  registry[KEPT] = registry[KEPT] or uv
end

---@class runnel.driver.luv: runnel.Driver
---@field luv boolean true: runnel.uv can use this driver, because it runs luv's loop
local driver = { luv = true }

local FOREVER_MS = 1 << 40
local loop_mode = uv.loop_mode or function() end -- luv before 1.40 lacks it
local keeper -- a timer, active only while `run` runs
local function nothing() end

---Runs the ready events of the loop. A loop that no handle keeps alive would not run, although handles that do not
---count (unref) may be ready in it, so `keeper` keeps it alive. Does nothing while the program runs the loop, in a
---callback of it.
---@param waits boolean the caller is about to wait, which is an error in a callback
---@return number? ms how long the loop can wait then; nil: for ever
function driver.turn(waits)
  if loop_mode() then
    if not waits then return nil end
    error("the program is running luv's loop (uv.run), and a callback of it cannot wait: use put_async, "
      .. "take_async, offer or poll there, or start a go block with rn.go", 0)
  end
  if not keeper or keeper:is_closing() then keeper = uv.new_timer() end
  keeper:start(FOREVER_MS, 0, nothing)
  uv.run "nowait"
  local ms = uv.backend_timeout()
  keeper:stop()
  return ms >= 0 and ms or nil
end

---The descriptor that can be read when something is ready in the loop.
driver.descriptor = uv.backend_fd

-- Waits with core.wait_readable and not with libuv, which does not stop waiting for a signal such as Ctrl-C, and whose
-- timers count whole milliseconds. Runs the loop first, because that tells the kernel what to watch.
function driver:wait(ms)
  local was_alive = uv.loop_alive()
  local left = self.turn(ms ~= 0)
  if ms == 0 or not ms and was_alive and not uv.loop_alive() then return end -- the last handle has just ended
  if left then ms = math.min(left, ms or left) end
  if core.wait_readable(uv.backend_fd(), ms) then self.turn(false) end
end

function driver:alive() return uv.loop_alive() end -- luacheck: ignore self

return driver
