---Errors as they can be sent to another state.

local core = require "runnel.core"

---@param err any
---@return any err itself, or its text if it cannot be sent
return function(err)
  local kind = type(err)
  if kind == "string" or kind == "number" or kind == "boolean" then return err end
  if kind == "table" and pcall(function() core.shared_chan(1):put(err) end) then return err end
  return core.internal.error_text(err)
end
