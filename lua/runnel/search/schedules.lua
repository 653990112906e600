---Schedules of sim.explore as text: the choices, from 0, and a number for what there was to choose.

local schedules = {}

---@param choices integer[]
---@param hash integer
---@return string as "2:51c0"; 0x12 stands for twelve zeros
function schedules.format(choices, hash)
  local parts, zeros = {}, 0
  for _, choice in ipairs(#choices > 0 and choices or { 0 }) do
    if choice == 0 then
      zeros = zeros + 1
    else
      if zeros > 0 then parts[#parts + 1] = zeros == 1 and "0" or "0x" .. zeros end
      zeros = 0
      parts[#parts + 1] = tostring(choice)
    end
  end
  if #parts == 0 then parts[1] = "0" end
  return ("%s:%04x"):format(table.concat(parts, ","), hash & 0xFFFF)
end

---The choices and the hash of a schedule, or nil if it is not one.
---@param text string
---@return integer[]? choices
---@return integer? hash
function schedules.parse(text)
  local list, hash = text:match "^([%dx,]+):(%x%x%x%x)$"
  if not list then return nil end
  local choices = {}
  for part in (list .. ","):gmatch "([^,]*)," do
    local zeros, choice = part:match "^0x(%d+)$", part:match "^%d+$"
    if not zeros and not choice then return nil end
    if #choices + (math.tointeger(zeros) or 1) > 1 << 20 then return nil end
    for _ = 1, math.tointeger(zeros) or 1 do choices[#choices + 1] = zeros and 0 or math.tointeger(choice) end
  end
  return choices, tonumber(hash, 16)
end

return schedules
