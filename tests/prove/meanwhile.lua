local gc = require "spec.support.gc"

-- Calls f while each cycle of the collector calls `act`, and each allocation may run a cycle.
local function meanwhile(act, f, ...)
  local is_active, is_acting = true, false
  local function again()
    setmetatable({}, { __gc = function()
      if not is_active then return end
      if not is_acting then
        is_acting = true
        pcall(act)
        is_acting = false
      end
      again()
    end })
  end
  if _VERSION == "Lua 5.4" then collectgarbage("incremental", 1, 1000, 30) else gc.always() end
  collectgarbage()
  again()
  local list = table.pack(pcall(f, ...))
  is_active = false
  gc.usual()
  return table.unpack(list, 1, list.n)
end

return meanwhile
