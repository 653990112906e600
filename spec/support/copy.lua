---A copy of a value, with all tables in it.
---@generic T
---@param value T
---@return T
local function copy(value)
  if type(value) ~= "table" then return value end
  local made = {}
  for key, field in pairs(value) do made[key] = copy(field) end
  return made
end

return copy
