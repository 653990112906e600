---Loads an optional library that a module of runnel needs.

local core = require "runnel.core"

---@param library string the name to require
---@param packages string which packages to install, for the error message
---@return any library
---If that fails, an error is raised at the line that requires the module.
local function need(library, packages)
  local ok, found = pcall(core.internal.require, library)
  if ok then return found end
  -- Levels: 1 is this function, 2 the module, then come require and loaders, which are C functions, then the line that
  -- requires the module.
  local level = 3
  while (debug.getinfo(level, "S") or {}).what == "C" do level = level + 1 end
  local why = tostring(found)
  if why:find("^module '" .. library:gsub("%p", "%%%0") .. "' not found") then why = "it is not installed" end
  error(("the library %s is needed here (%s): %s"):format(library, packages, why), level)
end

return need
