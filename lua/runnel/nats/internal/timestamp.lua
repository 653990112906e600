---The server's timestamps.

local days = require "runnel.internal.days"

local timestamp = {}

---A timestamp such as 2024-05-06T07:08:09.123456789Z in ms since 1970: the same number as `time` of a message.
---@param text? string
---@return number? ms nil for the server's zero, or without a timestamp
function timestamp.ms(text)
  local year, month, day, hour, minute, second, rest, zone =
    (text or ""):match "^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)%.?(%d*)(.*)$"
  if not year or year == "0001" then return nil end
  local seconds = days.to(year // 1 | 0, month // 1 | 0, day // 1 | 0) * 86400 + hour * 3600 + minute * 60 + second
  local way, hours, minutes = zone:match "^([+-])(%d+):(%d+)$"
  if way then seconds = seconds - (hours * 3600 + minutes * 60) * (way == "+" and 1 or -1) end
  return ((seconds | 0) * 1000000000 + tonumber((rest .. "000000000"):sub(1, 9))) / 1e6
end

return timestamp
