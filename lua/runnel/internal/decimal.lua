---Numbers as text. Lua writes the decimal point of the program's locale, so a program that calls os.setlocale, or the C
---program around it, would change what is sent and stored. All that leaves the program goes through these functions.
---
---Reading needs none: Lua's tonumber accepts a point in every locale.

local core = require "runnel.core"

local decimal = {}

local encode = core.internal.json({}, {})

-- In the text of a number all else is the decimal point, which may have several bytes.
local POINT <const> = "[^%w%+%-]+"

---The text of a number, as Lua has written it, with a point.
---@param text string
---@return string
function decimal.point(text) return (text:gsub(POINT, ".")) end

---A number as tostring writes it, with a point; of any other value what tostring returns. For people: Lua 5.4 leaves
---out digits.
---@param value any
---@return string
function decimal.text(value)
  local text = tostring(value)
  if math.type(value) == "float" then return (text:gsub(POINT, ".")) end
  return text
end

---A number with the fewest digits that are read back as the same; of any other value what tostring returns. For
---programs.
---@param value any
---@return string
function decimal.exact(value)
  if math.type(value) == "float" and value - value == 0 then return (encode(value)) end
  return tostring(value)
end

---A number in a format, which has nothing else.
---@param format string as "%.3f"
---@param value number
---@return string
function decimal.format(format, value) return (format:format(value):gsub(POINT, ".")) end

return decimal
