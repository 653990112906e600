---Lets a wait in the driver end when there is something to read on standard input.

local watcher -- of libuv; only active while it is wanted, since what nobody reads would end every wait
local function nothing() end

---@param driver any the scheduler's driver
---@param on boolean whether to watch from now on, or no longer
---@return boolean whether the driver can do it
return function(driver, on)
  if driver ~= package.loaded["runnel.driver.luv"] then return false end
  if not watcher then
    watcher = require("luv").new_poll(0)
    if not watcher then return false end
    watcher:unref() -- no reason to wait for ever
  end
  if on then watcher:start("r", nothing) else watcher:stop() end
  return true
end
