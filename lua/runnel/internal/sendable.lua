---Makes errors that can be sent to another state.

local core = require "runnel.core"

-- Explains why a global of the starting program is nil in a thread's function, if that caused the error.
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
