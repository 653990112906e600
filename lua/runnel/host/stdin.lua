---Makes a wait in the driver end when standard input can be read.

local watcher -- libuv's; stopped while nothing reads standard input, since unread input would end every wait
local function nothing() end

---@param driver any the scheduler's driver
---@param on boolean whether to watch from now on, or no longer
---@return boolean whether the driver can do it
return function(driver, on)
  if driver ~= package.loaded["runnel.driver.luv"] then return false end
  if not watcher then
    watcher = require("luv").new_poll(0)
    if not watcher then return false end
    watcher:unref() -- it alone does not keep libuv's loop alive
  end
  if on then watcher:start("r", nothing) else watcher:stop() end
  return true
end
