---The running flows of this Lua state, for the monitor's page and the prompt.

local everything = require "runnel.internal.living"

local living = {}

-- By number; weak values.
---@type table<integer, runnel.Flow>
local flows = setmetatable({}, { __mode = "v" })
local started = 0

---Adds a started flow.
---@param flow runnel.Flow
function living.add(flow)
  started = started + 1
  flow.number = started
  flows[started] = flow
end

---Removes an ended flow.
---@param flow runnel.Flow
function living.remove(flow)
  if flow.number then flows[flow.number] = nil end
end

---A flow by its number.
---@param number integer
---@return runnel.Flow?
function living.find(number) return flows[number] end

---All of them, in the order of their starts.
---@return runnel.Flow[]
function living.list()
  local list = {}
  for _, flow in pairs(flows) do list[#list + 1] = flow end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list
end

---The flow started last.
---@return runnel.Flow?
function living.last()
  local list = living.list()
  return list[#list]
end

everything.flows = living.list

return living
