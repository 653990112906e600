---Restores the function that a thread calls from the description that runnel.threads.start has sent.

local load, require = load, require

---@param what { code?: string, module?: string, transducer?: boolean, handled?: boolean } the function, as string.dump
---returns it; or the name of its module. `transducer`: it is one, and runnel.internal.transduce makes a function of it
---@return function
return function(what)
  if what.code then return assert(load(what.code, "=thread", "b")) end
  local ok, f = pcall(require, what.module)
  if not ok then error(f, 0) end
  if not require "runnel.internal.check".is_callable(f) then
    local got = f == nil and "nothing" or "a " .. type(f)
    local expected = what.transducer and "a transducer" or "a function"
    error(("the module '%s' returned %s, not %s"):format(what.module, got, expected), 0)
  end
  if what.transducer then
    ok, f = pcall(require "runnel.internal.transduce", f, what.handled)
    if not ok then error(("the module '%s' returned no transducer: %s"):format(what.module, f), 0) end
  end
  return f
end
