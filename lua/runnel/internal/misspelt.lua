---What the error of `require` says about a module that does not exist and whose name is like that of one of runnel's.

local nearest = require "runnel.internal.nearest"

-- The modules that the manual describes.
local MODULES = {
  "runnel", "runnel.all", "runnel.core", "runnel.core_async", "runnel.driver.copas", "runnel.driver.cqueues",
  "runnel.driver.luasocket", "runnel.driver.luv", "runnel.flow", "runnel.http", "runnel.json", "runnel.monitor",
  "runnel.nats", "runnel.prompt", "runnel.sim", "runnel.sqlite", "runnel.store", "runnel.tls", "runnel.uv", "runnel.xf",
}

---The end of the error; nil if no name is like this one, or if it is one of them, and not installed.
---@param name string
---@return string?
return function(name)
  local found = nearest(name, MODULES)
  return found and found ~= name and ("did you mean %s?"):format(found) or nil
end
