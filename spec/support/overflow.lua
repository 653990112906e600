---What Lua says about a stack overflow.

local overflow = {}

-- Since 5.4.9 a finalizer that runs while Lua makes the message replaces it. The core has one in each cycle of the
-- collector.
local REPLACED <const> = "error in error handling"

-- Whether this Lua does so.
local function replaces()
  local mt = {}
  mt.__gc = function() setmetatable({}, mt) end
  mt.__gc()
  local function deep(n) return 1 + deep(n + 1) end
  local found = false
  for _ = 1, 20 do found = found or select(2, coroutine.resume(coroutine.create(deep), 1)) == REPLACED end
  mt.__gc = nil
  return found
end

local does_replace

---Whether an error is what this Lua says about a stack overflow.
---@param err any
---@return boolean
function overflow.is(err)
  if does_replace == nil then does_replace = replaces() end
  if type(err) ~= "string" then return false end
  return err:find "stack overflow" ~= nil or does_replace and err:find(REPLACED, 1, true) ~= nil
end

return overflow
