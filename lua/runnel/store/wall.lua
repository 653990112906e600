---The time in ms since 1970; in a simulation its own.

local core = require "runnel.core"

local is_simulation, now = core.internal.is_simulation, core.now

local offset = 0

-- os.time knows only seconds: what is between two of them comes from the other clock.
---@return integer ms
local function wall()
  local t = now()
  if is_simulation() then return math.floor(t) end
  local second = os.time() * 1000
  if t + offset < second or t + offset >= second + 1000 then offset = second - t end
  return math.floor(t + offset)
end

return wall
