---Makes finalizers run as often as can be. They run wherever Lua allocates, so also half way in an operation on the
---very channel that they use.

local finalizers = {}

-- So many objects wait to be finalized. The collector takes about ten at a time.
local OBJECTS = 20000

---Calls a function while another one runs in finalizers, some at every allocation (until there are none any more).
---@param finalizer function
---@param body function
function finalizers.among(finalizer, body)
  local begun, active = false, false
  local meta = { __gc = function()
    begun = true
    if active then finalizer() end
  end }
  local mode = collectgarbage("incremental", 100, 1, 1)
  for _ = 1, OBJECTS do setmetatable({}, meta) end
  repeat collectgarbage("step", 0) until begun
  active = true
  local ok, err = pcall(body)
  active = false
  collectgarbage("incremental", 200, 100, 13)
  collectgarbage(mode)
  collectgarbage()
  if not ok then error(err, 0) end
end

return finalizers
