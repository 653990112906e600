---Makes finalizers run at chosen moments. They run wherever Lua allocates, so also in the middle of an operation on the
---channel that they use.

local gc = require "spec.support.gc"

local finalizers = {}

-- Makes garbage objects whose finalizers the collector has begun to call; each calls f(). Calls `body` while on(true)
-- is in effect; `hurry` makes every allocation call some.
local function run(objects, f, on, hurry, body)
  local begun = false
  local meta = { __gc = function()
    begun = true
    f()
  end }
  local mode = gc.incremental(100, 1, 1)
  collectgarbage()
  collectgarbage "stop" -- until all are garbage
  for _ = 1, objects do setmetatable({}, meta) end
  collectgarbage "restart"
  repeat collectgarbage("step", 0) until begun
  if hurry then
    gc.incremental(100, 1000, 1)
    collectgarbage("step", 0)
  end
  on(true)
  local ok, err = pcall(body)
  on(false)
  gc.usual()
  collectgarbage(mode)
  collectgarbage()
  if not ok then error(err, 0) end
end

---Calls a function while another one runs in finalizers, a few at every allocation, until all have run.
---@param finalizer function
---@param body function
function finalizers.among(finalizer, body)
  local active = false
  run(20000, function()
    if active then finalizer() end
  end, function(on) active = on end, false, body)
end

---Calls a function while another one runs once, in a finalizer: at the very next allocation.
---@param finalizer function
---@param body function
function finalizers.at_once(finalizer, body)
  local active = false
  run(2000, function()
    if not active then return end
    active = false
    finalizer()
  end, function(on) active = on end, true, body)
end

return finalizers
