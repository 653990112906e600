---Takes from a channel, and fails instead of waiting for ever.

local patience = require "spec.support.patience"
local rn = require "runnel"

---@param ch any
---@return any value
---@return any err
local function await(ch)
  local timer = rn.go(rn.sleep, patience.most)
  local value, port, err = rn.alts { ch, timer }
  rn.cancel(timer) -- a timeout would keep the spec running
  if port == timer then error(("nothing has come on %s"):format(ch), 2) end
  return value, err
end

return await
