---JSON: for bodies of HTTP, JetStream's API, values from the monitor's page, and values that other programs read.
---
---A table is an array if it has elements 1 to n and nothing else, or if json.array made it; otherwise an object, whose
---keys must be strings. Integers keep all 64 bits, floats all digits.
---
---The usual libraries do not keep them: lua-cjson 2.1 and cJSON make integers doubles, dkjson 2.6 rounds floats to 14
---digits and writes infinity as null. None names the part of a value that it cannot write.

local json = {}

---Stands for null where a table must hold it; decode gives it too.
json.null = setmetatable({}, { __name = "json.null", __tostring = function() return "null" end })

local Array = { __name = "json.array" }

---Makes a table an array even while it is empty; returns it.
---@generic T
---@param list T
---@return T
function json.array(list) return setmetatable(list, Array) end

-- ---- encode ----

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local function escape(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end
local function quoted(text) return '"' .. text:gsub('[%c"\\\127]', escape) .. '"' end

-- The path of a value within the whole, for messages: `value.items[3]`.
local function step(path, key)
  if math.type(key) == "integer" then return ("%s[%d]"):format(path, key) end
  return ("%s.%s"):format(path, tostring(key))
end

-- Errors are tables with a message, so that they differ from bugs in this file.
local function fail(path, problem) error({ message = ("%s: %s"):format(path, problem) }, 0) end

local encode_value

local function is_array(value)
  if getmetatable(value) == Array then return true end
  local n = 0
  for _ in pairs(value) do n = n + 1 end
  return n > 0 and n == #value
end

local function encode_table(value, path, inside)
  if value == json.null then return "null" end
  if inside[value] then fail(path, "a table that contains itself cannot be sent") end
  inside[value] = true
  local parts, open, close = {}, "{", "}"
  if is_array(value) then
    open, close = "[", "]"
    for i = 1, #value do parts[i] = encode_value(value[i], step(path, i), inside) end
  else
    for key, field in pairs(value) do
      if type(key) ~= "string" then fail(step(path, key), "in JSON, keys are strings, and lists have no gaps") end
      parts[#parts + 1] = quoted(key) .. ":" .. encode_value(field, step(path, key), inside)
    end
  end
  inside[value] = nil
  return open .. table.concat(parts, ",") .. close
end

function encode_value(value, path, inside)
  local kind = type(value)
  if kind == "string" then
    if not utf8.len(value) then fail(path, "in JSON, strings are UTF-8") end
    return quoted(value)
  elseif kind == "number" then
    if math.type(value) == "integer" then return ("%d"):format(value) end
    if value ~= value or value == math.huge or value == -math.huge then
      fail(path, "JSON cannot represent this number")
    end
    local text = ("%.17g"):format(value)
    return text:find "[.eE]" and text or text .. ".0"
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "table" then
    return encode_table(value, path, inside)
  end
  return fail(path, "a " .. kind .. " cannot be sent")
end

---Encodes a value; returns nil and a message that names the offending part if that is impossible.
---@param value any
---@param name? string what the message calls the value ("value")
---@return string? text, string? problem
function json.encode(value, name)
  name = name or "value"
  local ok, text = pcall(encode_value, value, name, {})
  if ok then return text end
  return nil, type(text) == "table" and text.message or name .. ": " .. tostring(text) -- a string: too deep
end

-- ---- decode ----

local byte, find, match = string.byte, string.find, string.match

local DEEPEST = 100
local NAMES = { ["true"] = true, ["false"] = false, null = json.null }
local CHARACTERS = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function bad(at, problem) error({ message = ("not JSON: %s at byte %d"):format(problem, at) }, 0) end

-- Decodes \uXXXX, whose digits begin at `at`. Returns the character and the position after it.
local function unicode(text, at)
  local digits = text:match("^%x%x%x%x", at) or bad(at, "bad \\u")
  local code = tonumber(digits, 16)
  at = at + 4
  if code >= 0xD800 and code < 0xDC00 then -- the first half of a pair
    local second = tonumber(text:match("^\\u(%x%x%x%x)", at) or "", 16)
    if not second or second < 0xDC00 or second > 0xDFFF then return "\u{FFFD}", at end
    return utf8.char(0x10000 + (code - 0xD800) * 0x400 + second - 0xDC00), at + 6
  elseif code >= 0xDC00 and code < 0xE000 then
    return "\u{FFFD}", at
  end
  return utf8.char(code), at
end

-- Decodes the string whose first character is at `at`. Returns it and the position after its closing quote.
local function decode_string(text, at)
  local stop = text:find('["\\%c]', at) or bad(at, "a string without its end")
  if text:byte(stop) == 34 then return text:sub(at, stop - 1), stop + 1 end
  local parts = {}
  while true do
    stop = text:find('["\\%c]', at) or bad(at, "a string without its end")
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

-- The position of the next character that is not a space. Most often it is the one at `at`.
local function skip(text, at)
  local c = byte(text, at)
  return c and c > 32 and at or find(text, "[^ \t\r\n]", at) or #text + 1
end

local decode_value

local function decode_array(text, at, depth)
  local list = json.array {}
  at = skip(text, at)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    list[#list + 1], at = decode_value(text, at, depth)
    local c = text:sub(at, at)
    if c == "]" then return list, at + 1 end
    if c ~= "," then bad(at, "expected , or ]") end
    at = at + 1
  end
end

-- Decodes the key that begins at or after `at`. Returns it and the position of its value.
local function decode_key(text, at)
  local key, after = match(text, '^"([^"\\%c]*)":()', at)
  if key then return key, after end
  at = skip(text, at)
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
    if c ~= 44 then bad(at, "expected , or }") end
    at = at + 1
  end
end

-- Decodes the value that begins at or after `at`. Returns it and the position of the next character that is not a
-- space.
function decode_value(text, at, depth)
  if depth > DEEPEST then bad(at, "nested too deeply") end
  at = skip(text, at)
  local c = byte(text, at)
  local value, after
  if c == 34 then
    value, after = match(text, '^([^"\\%c]*)"()', at + 1)
    if value then at = after else value, at = decode_string(text, at + 1) end
  elseif c == 123 then -- "{"
    value, at = decode_object(text, at + 1, depth + 1)
  elseif c == 91 then -- "["
    value, at = decode_array(text, at + 1, depth + 1)
  else
    local word = match(text, "^%a+", at)
    local stop = not word and match(text, "^%-?[1-9]%d*()[,}%]]", at)
    if stop then -- most numbers
      value, at = tonumber(text:sub(at, stop - 1)), stop
    elseif word then
      value = NAMES[word]
      if value == nil then bad(at, "an unknown word") end
      at = at + #word
    else
      local digits = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
      value = digits and not digits:find "^-?0%d" and not digits:find "%.$" and not digits:find "%.[eE]" and
        tonumber(digits)
      if not value then bad(at, at > #text and "the text ends too early" or "expected a value") end
      at = at + #digits
    end
  end
  return value, skip(text, at)
end

---Decodes a text; returns nil and a message if it is not JSON.
---@param text string
---@return any value, string? problem
function json.decode(text)
  local ok, value, at = pcall(decode_value, text, 1, 0)
  if ok and at <= #text then ok, value = false, { message = "not JSON: text after the value at byte " .. at } end
  if ok then return value end
  if type(value) == "table" then return nil, value.message end
  error(value, 0)
end

return json
