---The bytes of IP addresses.

local pack = string.pack

local ip_address = {}

---The bytes of an IPv4 address; nil if it is none.
---@param text string as in "127.0.0.1"
---@return string?
function ip_address.ipv4(text)
  local bytes = {}
  for i, digits in ipairs { text:match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$" } do
    local byte = tonumber(digits)
    if byte > 255 then return nil end
    bytes[i] = string.char(byte)
  end
  return bytes[4] and table.concat(bytes)
end

local ipv4 = ip_address.ipv4

-- The bytes of groups of an IPv6 address; nil if they are malformed.
local function bytes_of(groups)
  local bytes = ""
  if groups == "" then return bytes end
  for group in (groups .. ":"):gmatch "([^:]*):" do
    local found = group:find "^%x%x?%x?%x?$" and pack(">I2", tonumber(group, 16)) or ipv4(group)
    if not found then return nil end
    bytes = bytes .. found
  end
  return bytes
end

---The bytes of an IPv6 address; nil if it is none.
---@param text string as in "::1"
---@return string?
function ip_address.ipv6(text)
  local front, back = text:match "^(.-)::(.*)$"
  local first, last = bytes_of(front or text), bytes_of(back or "")
  if not (first and last) or #first + #last > 16 or not front and #first ~= 16 then return nil end
  return first .. ("\0"):rep(16 - #first - #last) .. last
end

return ip_address
