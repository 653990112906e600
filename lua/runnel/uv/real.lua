---The real luv, and its loop as the scheduler's driver. A web page has no luv, and another file in place of this one
---(csrc/site/runnel.uv.real.lua).

local package = package
local core = require "runnel.core"
local raise = core.internal.raise

core.internal.descriptors.reserve() -- before luv opens descriptors

local need = require "runnel.internal.need"
local luv = need("luv", "Debian's lua-luv, LuaRocks' luv")
local driver = require "runnel.driver.luv"
local current_driver = core.internal.current_driver

---@class runnel.uv.real
---@field luv any
local real = { luv = luv }

-- Raises an error if a driver is set that does not run luv's loop. One that does says so with the field `luv = true`.
local function check_driver(what)
  local set = current_driver()
  if not set or set.luv then return end
  local name = "another driver"
  for module, value in pairs(package.loaded) do
    if rawequal(value, set) then name = module:gsub("^runnel%.driver%.", "") end
  end
  raise(("%s needs the driver luv, and %s is set: call rn.driver(require \"runnel.driver.luv\") or, to have both, "
    .. "let that driver's wait(ms) run luv's loop, too, and set its field luv = true"):format(what, name))
end

---Raises an error if luv's loop cannot deliver events.
---@param what string the name of the function that needs it
function real.check(what) check_driver(what .. ": runnel.uv") end

-- Requiring this module sets the driver, unless one is set already.
check_driver("runnel.uv")
if not current_driver() then core.driver(driver) end

return real
