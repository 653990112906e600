---Makes finalizers run as often as can be. They run wherever Lua allocates, so also half way in an operation on the
---very channel that they use.

local finalizers = {}

---Calls a function while another one runs in finalizers, a few in each cycle of a collector that never rests.
---@param finalizer function
---@param body function
function finalizers.among(finalizer, body)
  local active = true
  local meta = {}
  function meta.__gc()
    if not active then return end
    setmetatable({}, meta)
    finalizer()
  end
  local mode = collectgarbage("incremental", 1, 1000, 4)
  for _ = 1, 3 do setmetatable({}, meta) end
  local ok, err = pcall(body)
  active = false
  collectgarbage("incremental", 200, 100, 13)
  collectgarbage(mode)
  if not ok then error(err, 0) end
end

return finalizers
