---Errors as they can be sent to another state.

local core = require "runnel.core"

-- An error of a function that uses a global of the program that has started the thread: says why it is nil there.
local function explained(err)
  local name = err:match "attempt to [%a ]+ a nil value %(global '([%w_]+)'%)$"
  if not name then return err end
  return ("%s: a thread has its own globals, not those of the program; put '%s' into a module, and require it in the "
    .. "thread's function"):format(err, name)
end

---@param err any
---@return any err itself, or its text if it cannot be sent
return function(err)
  if type(err) == "string" then return explained(err) end
  local kind = type(err)
  if kind == "number" or kind == "boolean" then return err end
  if kind == "table" and pcall(function() core.shared_chan(1):put(err) end) then return err end
  return core.internal.error_text(err)
end
