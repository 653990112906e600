---The time in ms since 1970; in a simulation, simulated time.

local core = require "runnel.core"
local lib = require "runnel.sqlite.core"

local is_simulation, now = core.internal.is_simulation, core.now

---@return integer ms
local function wall() return is_simulation() and math.floor(now()) or lib.wall() end

return wall
