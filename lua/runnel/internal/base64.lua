---Base64 (RFC 4648, 4).

local DIGITS <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local base64 = {}

local function digit(n) return DIGITS:sub(n + 1, n + 1) end

---@param bytes string
---@return string
function base64.encode(bytes)
  return (bytes:gsub("..?.?", function(part)
    local a, b, c = part:byte(1, 3)
    local bits = a << 16 | (b or 0) << 8 | (c or 0)
    return digit(bits >> 18) .. digit(bits >> 12 & 63) .. (b and digit(bits >> 6 & 63) or "=")
      .. (c and digit(bits & 63) or "=")
  end))
end

local VALUES = {}
for i = 1, #DIGITS do VALUES[DIGITS:byte(i)] = i - 1 end

---@param text string that `encode` has made, or another program by the same rules
---@return string
function base64.decode(text)
  local parts = {}
  for a, b, c, d in text:gmatch "(.)(.)(.)(.)" do
    local bits = VALUES[a:byte()] << 18 | VALUES[b:byte()] << 12
    bits = bits | (VALUES[c:byte()] or 0) << 6 | (VALUES[d:byte()] or 0)
    local bytes = string.char(bits >> 16, bits >> 8 & 255, bits & 255)
    parts[#parts + 1] = c == "=" and bytes:sub(1, 1) or d == "=" and bytes:sub(1, 2) or bytes
  end
  return table.concat(parts)
end

return base64
