---The function that a thread calls, from what runnel.thread has sent of it.

---@param what { code?: string, module?: string } the function, as string.dump returns it; or the name of its module
---@return function
return function(what)
  if what.code then return assert(load(what.code, "=thread", "b")) end
  local ok, f = pcall(require, what.module)
  if not ok then error(f, 0) end
  if type(f) == "function" then return f end
  local meta = getmetatable(f)
  if type(meta) == "table" and meta.__call then return f end
  local got = f == nil and "nothing" or "a " .. type(f)
  error(("the module '%s' returned %s, not a function"):format(what.module, got), 0)
end
