---Loads the function of a worker or of a stage from a module.

local require = require
local check = require "runnel.internal.check"

---@param f any
---@param what string the function that the program has called
---@param level? integer of the line for an error; by default the one that called the caller
---@return any f the module's function; what is not a name, as it is
return function(f, what, level)
  if type(f) ~= "string" then return f end
  check.no_zero(f, what .. ": the name of the module", (level or 3) + 1)
  local ok, loaded = pcall(require, f)
  if not ok then error(("%s: the module %q cannot be loaded: %s"):format(what, f, tostring(loaded)), level or 3) end
  if not check.is_callable(loaded) then
    error(("%s: the module %q does not return a function"):format(what, f), level or 3)
  end
  return loaded
end
