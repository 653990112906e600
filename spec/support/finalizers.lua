---Makes finalizers run as often as possible. They run wherever Lua allocates, so also in the middle of an operation on
---the channel that they use.

local finalizers = {}

-- How many objects wait to be finalized. The collector finalizes about ten at a time.
local OBJECTS = 20000

---Calls a function while another one runs in finalizers, a few at every allocation, until all have run.
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
