---Loads the function of a worker (runnel.nats.internal.serve) or of a stage (runnel.nats.stage) from a module.

local check = require "runnel.internal.check"

---@param f any
---@param what string the function that the program has called, which calls this
---@return any f the module's function; what is not a name, as it is
return function(f, what)
  if type(f) ~= "string" then return f end
  local ok, loaded = pcall(require, f)
  if not ok then error(("%s: the module %q cannot be loaded: %s"):format(what, f, tostring(loaded)), 3) end
  if not check.is_callable(loaded) then
    error(("%s: the module %q does not return a function"):format(what, f), 3)
  end
  return loaded
end
