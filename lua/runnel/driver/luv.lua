---A driver over libuv's loop, so that luv's handles and requests run beside go blocks.
---
---    local uv = require "luv"
---    rn.driver(require "runnel.driver.luv")
---    local ticks = rn.chan(rn.sliding_buffer(1))
---    uv.new_timer():start(100, 100, function() ticks:put_async(true) end)
---    for _ in ticks do print "tick" end
---
---Callbacks of luv must not park; put_async, take_async, offer, poll and rn.go are for them. An error in one ends the
---program, as it does with luv alone. Never call uv.run while this is the driver.

local need = require "runnel.need"
local uv = need("luv", "Debian's lua-luv, LuaRocks' luv")

-- libuv goes on waiting when a signal comes that is not one of its own, so Ctrl-C would not be noticed: hence no wait
-- is longer than this.
local LONGEST = 100

---@class runnel.driver.luv: runnel.Driver
local driver = {}

local alarm -- ends a wait; it is active within one only, so that the loop's being alive does not depend on it
local function ring() end

function driver:wait(ms) -- luacheck: ignore self
  if ms and ms <= 0 then
    uv.run "nowait"
    return
  end
  if not alarm or alarm:is_closing() then alarm = uv.new_timer() end
  uv.update_time() -- of which a timer's time counts; it may be from long ago
  alarm:start(math.ceil(math.min(ms or LONGEST, LONGEST)), 0, ring)
  uv.run "once"
  alarm:stop()
end

function driver:alive() return uv.loop_alive() end -- luacheck: ignore self

return driver
