---Lets a wait in the driver end when there is something to read on standard input.

local watcher -- of libuv

---@param driver any the scheduler's driver
---@return boolean whether its wait, if it comes next, will end so
return function(driver)
  if driver ~= package.loaded["runnel.driver.luv"] then return false end
  if not watcher then
    watcher = require("luv").new_poll(0)
    if not watcher then return false end
    watcher:unref() -- no reason to wait for ever
  end
  watcher:start("r", function() watcher:stop() end)
  return true
end
