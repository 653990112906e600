---Keys of store:once: what is in the column `key`, and the same as text, for scopes, locks and messages.
---
---Two keys are the same exactly if they are equal in Lua, lists if their elements are: so 1 and 1.0 are, and "1" and 1,
---or 0.3 and 0.1 + 0.2, are not.
---
---A call without arguments is a key of its own: the text '' in the table, as it has always been. So it is the key "",
---which hardly anybody uses, that is kept as an empty blob. Files from before keep their other keys, too, but for lists
---with floats such as 2.0, which were a key of their own.

local check = require "runnel.internal.check"
local json = require "runnel.json"
local sqlite = require "runnel.sqlite"

local math_type, tointeger = math.type, math.tointeger

local keys = {}

---Stands for the key of a call without arguments.
keys.NONE = {}

-- How deep lists may be nested.
local DEEPEST <const> = 100

-- A float without a decimal point that depends on the locale.
local function float_text(value)
  if value == math.huge then return "inf" end
  return value == -math.huge and "-inf" or assert(json.encode(value))
end

-- A number as an integer, if it is one: -0.0 is 0.
local function plain(number) return math_type(number) == "float" and tointeger(number) or number end

local function number_text(number)
  return math_type(number) == "integer" and ("%d"):format(number) or float_text(number)
end

-- Bytes as SQL writes them: for strings that JSON does not have.
local function hex(bytes)
  return "x'" .. bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end) .. "'"
end

-- The number of elements of a list that has nothing else; nil for another table.
local function length(list)
  local n = 0
  for _ in next, list do n = n + 1 end
  for i = 1, n do
    if rawget(list, i) == nil then return nil end
  end
  return n > 0 and n or nil
end

-- What a value is, for a message.
local function what_is(value) return value == nil and "nil" or value ~= value and "nan" or check.article(value) end

-- The text of a list: JSON, where JSON has all that is in it. Or nil and what is wrong.
local function list_text(list, depth)
  local n = depth <= DEEPEST and length(list)
  if not n then
    return nil, depth > DEEPEST and "too many nested lists" or next(list) == nil and "an empty list"
      or "a table that is no list"
  end
  local parts = {}
  for i = 1, n do
    local value = list[i]
    local kind, problem = type(value), nil
    if kind == "string" then parts[i] = utf8.len(value) and assert(json.encode(value)) or hex(value)
    elseif kind == "number" and value == value then parts[i] = number_text(plain(value))
    elseif kind == "table" then parts[i], problem = list_text(value, depth + 1)
    else problem = what_is(value) end
    if problem then return nil, problem:find "^a list with" and problem or "a list with " .. problem end
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

---A key for the table, and as text; nil and what it is, if it cannot be one.
---@param key any
---@return any column
---@return string text
function keys.of(key)
  local kind = type(key)
  if kind == "string" then
    if key == "" then return sqlite.blob "", "x''" end
    return key, ("%q"):format(key)
  elseif kind == "number" and key == key then
    key = plain(key)
    return key, number_text(key)
  elseif key == keys.NONE then
    return "", '""'
  end
  local text, problem
  if kind == "table" then text, problem = list_text(key, 1) end
  if not text then return nil, problem or what_is(key) end
  return sqlite.blob(text), text
end

return keys
