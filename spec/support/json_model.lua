---JSON in Lua, as a model of runnel.json: as simple as possible, and slow. Values of both are the same: they share null
---and the metatable of arrays.

local runnel = require "runnel.json"

local json = { null = runnel.null, array = runnel.array }
local Array = getmetatable(json.array {})

-- How deep tables may be nested, in texts and in values.
local DEEPEST <const> = 100

-- ---- encode ----

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local function escape(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end
local function quoted(text) return '"' .. text:gsub('[%c"\\\127]', escape) .. '"' end

-- The state of a call of encode: the tables around the present value, and their number; for each of them the key of the
-- field or element that is being encoded; what an error calls the whole value; and, for a text of several lines, the
-- spaces of a level.
---@class runnel.json.Encoder
---@field inside table<table, true>
---@field depth integer
---@field keys table<integer, any>
---@field name any
---@field indent? string

-- Raises an error that names the present value by its path within the whole: `value.items[3]`. Errors are tables with a
-- message, so that they differ from bugs in this file.
local function fail(self, problem)
  local path = { tostring(self.name) }
  for i = 1, self.depth do
    local key = self.keys[i]
    path[i + 1] = (math.type(key) == "integer" and "[%d]" or ".%s"):format(key)
  end
  error({ message = ("%s: %s"):format(table.concat(path), problem) }, 0)
end

-- A text that is read back as the same float, of all such texts one with the fewest digits but at powers of two.
local function float(self, value)
  if value ~= value or value == math.huge or value == -math.huge then
    fail(self, "JSON cannot represent this number")
  end
  local text
  for digits = math.abs(value) < 0x1p-1022 and 1 or 15, 17 do
    text = ("%." .. digits .. "g"):format(value)
    if tonumber(text) == value then break end
  end
  return text:find "[.e]" and text or text .. ".0"
end

local function is_array(value)
  if getmetatable(value) == Array then return true end
  local n = 0
  for _ in pairs(value) do n = n + 1 end
  return n > 0 and n == #value
end

local encode_value

-- The elements of an array as texts.
local function encode_elements(self, value)
  local parts, keys, depth = {}, self.keys, self.depth
  for i = 1, #value do
    keys[depth] = i
    parts[i] = encode_value(self, value[i])
  end
  return parts
end

-- The fields of an object as texts, in the order of their names, so that the same value is always the same text.
local function encode_fields(self, value)
  local parts, names, colon, keys, depth = {}, {}, self.indent and ": " or ":", self.keys, self.depth
  for key in pairs(value) do
    keys[depth] = key
    if type(key) ~= "string" then fail(self, "in JSON, keys are strings, and lists have no gaps") end
    if not utf8.len(key) then
      keys[depth] = ("%q"):format(key)
      fail(self, "in JSON, keys are UTF-8")
    end
    names[#names + 1] = key
  end
  table.sort(names)
  for i, key in ipairs(names) do
    keys[depth] = key
    parts[i] = quoted(key) .. colon .. encode_value(self, value[key])
  end
  return parts
end

local function encode_table(self, value)
  if value == json.null then return "null" end
  if self.inside[value] then fail(self, "a table that contains itself cannot be sent") end
  if self.depth == DEEPEST then fail(self, ("more than %d nested tables"):format(DEEPEST)) end
  self.inside[value], self.depth = true, self.depth + 1
  local open, close, encode = "{", "}", encode_fields
  if is_array(value) then open, close, encode = "[", "]", encode_elements end
  local parts = encode(self, value)
  self.inside[value], self.depth = nil, self.depth - 1
  if not self.indent or #parts == 0 then return open .. table.concat(parts, ",") .. close end
  local line = "\n" .. self.indent:rep(self.depth)
  return open .. line .. self.indent .. table.concat(parts, "," .. line .. self.indent) .. line .. close
end

function encode_value(self, value)
  local kind = type(value)
  if kind == "string" then
    if not utf8.len(value) then fail(self, "in JSON, strings are UTF-8") end
    return quoted(value)
  elseif kind == "number" then
    return math.type(value) == "integer" and ("%d"):format(value) or float(self, value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "table" then
    return encode_table(self, value)
  end
  return fail(self, kind == "nil" and "nil cannot be sent; json.null stands for null" or "a " .. kind ..
    " cannot be sent")
end

---@return string? text
---@return string? problem
function json.encode(value, opts)
  opts = opts or {}
  local indent = opts.indent and (" "):rep(opts.indent)
  local self = { inside = {}, depth = 0, keys = {}, name = opts.name or "value", indent = indent }
  local ok, text = pcall(encode_value, self, value)
  if ok then return text end
  if type(text) == "table" and text.message then return nil, text.message end
  error(text, 0)
end

-- ---- decode ----

local byte, find, match = string.byte, string.find, string.match

local NAMES = { ["true"] = true, ["false"] = false, null = json.null }
local CHARACTERS = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function bad(at, problem) error({ at = at, problem = problem }, 0) end

local HALF <const> = "half of a surrogate pair, which stands for no character,"

-- Decodes \uXXXX, whose digits begin at `at`. Returns the character and the position after it.
local function unicode(text, at)
  local digits = text:match("^%x%x%x%x", at) or bad(at - 2, "\\u without four hexadecimal digits")
  local code = tonumber(digits, 16)
  at = at + 4
  if code < 0xD800 or code > 0xDFFF then return utf8.char(code), at end
  local second = tonumber(text:match("^\\u(%x%x%x%x)", at) or "", 16)
  if code >= 0xDC00 or not second or second < 0xDC00 or second > 0xDFFF then bad(at - 6, HALF) end
  return utf8.char(0x10000 + (code - 0xD800) * 0x400 + second - 0xDC00), at + 6
end

-- Decodes the string whose first character is at `at`. Returns it and the position after its closing quote.
local function decode_string(text, at)
  local plain, after = match(text, '^([^"\\%c]*)"()', at) -- most strings
  if plain then return plain, after end
  local begin, parts = at - 1, {}
  while true do
    local stop = text:find('["\\%c]', at) or bad(begin, "a string without its end")
    parts[#parts + 1] = text:sub(at, stop - 1)
    local c = text:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c == "\127" then
      parts[#parts + 1], at = c, stop + 1
    elseif c ~= "\\" then
      bad(stop, "a control character in a string")
    else
      local escaped = text:sub(stop + 1, stop + 1)
      if escaped == "u" then
        parts[#parts + 1], at = unicode(text, stop + 2)
      else
        parts[#parts + 1], at = CHARACTERS[escaped] or bad(stop, "an unknown escape"), stop + 2
      end
    end
  end
end

-- Decodes the number at `at`. Returns it and the position after it.
local function decode_number(text, at)
  local integer = match(text, "^%-?[1-9]%d*%f[^%d.eE+-]", at) -- most numbers
  if integer and #integer < 19 then return tonumber(integer), at + #integer end
  local digits = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = digits and not digits:find "^-?0%d" and not digits:find "%.$" and not digits:find "%.[eE]" and
    tonumber(digits)
  if not value and text:find("^\u{FEFF}", at) then bad(at, "a byte order mark") end
  if not value then bad(at, at > #text and "the text ends too early" or "expected a value") end
  if value == math.huge or value == -math.huge then bad(at, "a number that is too large") end
  return value, at + #digits
end

-- The position of the next character that is not a space: most often `at` itself.
local function skip(text, at)
  local c = byte(text, at)
  return c and c > 32 and at or find(text, "[^ \t\r\n]", at) or #text + 1
end

local decode_value

local function decode_array(text, at, depth)
  local list, n = json.array {}, 0
  at = skip(text, at)
  if byte(text, at) == 93 then return list, at + 1 end -- "]"
  while true do
    n = n + 1
    list[n], at = decode_value(text, at, depth)
    local c = byte(text, at)
    if c == 93 then return list, at + 1 end
    if c ~= 44 then bad(at, "expected , or ]") end -- ","
    at = at + 1
  end
end

-- Decodes the key that begins at or after `at`. Returns it and the position after its colon.
local function decode_key(text, at)
  at = skip(text, at)
  local key, after = match(text, '^"([^"\\%c]*)"[ \t\r\n]*:()', at) -- most keys
  if key then return key, after end
  if byte(text, at) ~= 34 then bad(at, "expected a key") end
  key, at = decode_string(text, at + 1)
  at = skip(text, at)
  if byte(text, at) ~= 58 then bad(at, "expected :") end
  return key, at + 1
end

local function decode_object(text, at, depth)
  local object = {}
  at = skip(text, at)
  if byte(text, at) == 125 then return object, at + 1 end -- "}"
  while true do
    local key
    key, at = decode_key(text, at)
    object[key], at = decode_value(text, at, depth)
    local c = byte(text, at)
    if c == 125 then return object, at + 1 end
    if c ~= 44 then bad(at, "expected , or }") end -- ","
    at = at + 1
  end
end

local CONTAINERS <const> = { [91] = decode_array, [123] = decode_object } -- by "[" and "{"

-- Decodes the value that begins at or after `at`. Returns it and the position of the next character that is not a
-- space.
function decode_value(text, at, depth)
  at = skip(text, at)
  local c = byte(text, at)
  local container = CONTAINERS[c]
  local value
  if c == 34 then
    value, at = decode_string(text, at + 1)
  elseif container then
    if depth == DEEPEST then bad(at, "nested too deeply") end
    value, at = container(text, at + 1, depth + 1)
  else
    local word = match(text, "^%a+", at)
    if word then
      value = NAMES[word]
      if value == nil then bad(at, "an unknown word") end
      at = at + #word
    else
      value, at = decode_number(text, at)
    end
  end
  return value, skip(text, at)
end

-- A whole text.
local function decode(text)
  local _, wrong = utf8.len(text)
  if wrong then bad(wrong, "a byte that is not UTF-8") end
  local value, at = decode_value(text, 1, 0)
  if at <= #text then bad(at, "text after the value") end
  return value
end

-- Where a byte is: also its line, if there are several.
local function place(text, at)
  local _, lines = text:sub(1, at - 1):gsub("\n", "")
  if lines == 0 then return "byte " .. at end
  return ("byte %d (line %d, byte %d)"):format(at, lines + 1, #text:sub(1, at - 1):match "[^\n]*$" + 1)
end

---@param text string
---@return any value
---@return string? problem
function json.decode(text)
  local ok, value = pcall(decode, text)
  if ok then return value end
  if type(value) == "table" and value.problem then
    return nil, ("not JSON: %s at %s"):format(value.problem, place(text, value.at))
  end
  error(value, 0)
end

return json
