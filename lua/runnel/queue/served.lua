---Loads the function of a worker or of a stage from a module.

local require = require
local check = require "runnel.internal.check"
local raise = require("runnel.core").internal.raise

---@param f any
---@param what string the function that the program has called
---@return any f the module's function; what is not a name, as it is
return function(f, what)
  if type(f) ~= "string" then return f end
  check.no_zero(f, what .. ": the name of the module")
  local ok, loaded = pcall(require, f)
  if not ok then raise(("%s: the module %q cannot be loaded: %s"):format(what, f, tostring(loaded))) end
  if not check.is_callable(loaded) then raise(("%s: the module %q does not return a function"):format(what, f)) end
  return loaded
end
