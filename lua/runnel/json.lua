---JSON (RFC 8259), strictly.
---
---    local json = require "runnel.json"
---    print(json.encode { name = "Ann", tags = { "a", "b" } })
---    local value, err = json.decode '{"n": [1, 2.0, null]}'
---
---A table is an array if it has elements 1 to n and nothing else, or if json.array made it; otherwise an object, whose
---keys must be strings. Integers keep all 64 bits, floats all digits.
---
---The usual libraries do not keep them: lua-cjson 2.1 and cJSON make integers doubles, dkjson 2.6 rounds floats to 14
---digits and writes infinity as null. None names the part of a value that it cannot write.

local check = require "runnel.internal.check"

---@class runnel.json
local json = {}

---Stands for null where a table must hold it; decode gives it too. It is a true value: compare with `json.null`.
json.null = setmetatable({}, { __name = "json.null", __tostring = function() return "null" end })

local Array = { __name = "json.array" }

---Makes a table an array even while it is empty; returns it.
---@generic T
---@param list T
---@return T
function json.array(list) return setmetatable(list, Array) end

-- The most tables inside of each other, in texts and in values.
local DEEPEST <const> = 100

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

local FLOATS <const> = { "%.15g", "%.16g", "%.17g" }

-- The shortest text that is read back as the same float.
local function float(value, path)
  if value ~= value or value == math.huge or value == -math.huge then
    fail(path, "JSON cannot represent this number")
  end
  local text
  for _, format in ipairs(FLOATS) do
    text = format:format(value)
    if tonumber(text) == value then break end
  end
  text = text:gsub(",", ".") -- of the program's locale
  return text:find "[.e]" and text or text .. ".0"
end

local function is_array(value)
  if getmetatable(value) == Array then return true end
  local n = 0
  for _ in pairs(value) do n = n + 1 end
  return n > 0 and n == #value
end

-- What a call of encode has at hand: the tables around the present value, and their number; and for a text of several
-- lines the spaces of a level.
---@class runnel.json.Encoder
---@field inside table<table, true>
---@field depth integer
---@field indent? string

local encode_value

-- The elements of an array as texts.
local function encode_elements(self, value, path)
  local parts = {}
  for i = 1, #value do parts[i] = encode_value(self, value[i], step(path, i)) end
  return parts
end

-- The fields of an object as texts: with indent in the order of their names.
local function encode_fields(self, value, path)
  local parts, names, colon = {}, {}, self.indent and ": " or ":"
  for key in pairs(value) do
    if type(key) ~= "string" then fail(step(path, key), "in JSON, keys are strings, and lists have no gaps") end
    if not utf8.len(key) then fail(step(path, ("%q"):format(key)), "in JSON, keys are UTF-8") end
    names[#names + 1] = key
  end
  if self.indent then table.sort(names) end
  for i, key in ipairs(names) do
    parts[i] = quoted(key) .. colon .. encode_value(self, value[key], step(path, key))
  end
  return parts
end

local function encode_table(self, value, path)
  if value == json.null then return "null" end
  if self.inside[value] then fail(path, "a table that contains itself cannot be sent") end
  if self.depth == DEEPEST then fail(path, ("more than %d tables inside of each other"):format(DEEPEST)) end
  self.inside[value], self.depth = true, self.depth + 1
  local open, close, encode = "{", "}", encode_fields
  if is_array(value) then open, close, encode = "[", "]", encode_elements end
  local parts = encode(self, value, path)
  self.inside[value], self.depth = nil, self.depth - 1
  if not self.indent or #parts == 0 then return open .. table.concat(parts, ",") .. close end
  local line = "\n" .. self.indent:rep(self.depth)
  return open .. line .. self.indent .. table.concat(parts, "," .. line .. self.indent) .. line .. close
end

function encode_value(self, value, path)
  local kind = type(value)
  if kind == "string" then
    if not utf8.len(value) then fail(path, "in JSON, strings are UTF-8") end
    return quoted(value)
  elseif kind == "number" then
    return math.type(value) == "integer" and ("%d"):format(value) or float(value, path)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "table" then
    return encode_table(self, value, path)
  end
  return fail(path, kind == "nil" and "nil cannot be sent; json.null stands for null" or "a " .. kind ..
    " cannot be sent")
end

local OPTIONS = { indent = true, name = true }
local NO_OPTIONS = {}

-- The spaces of a level of `opts`, or nil. Raises at the line of the caller of encode.
local function indent_of(opts)
  check.options(opts, OPTIONS, "encode", 4)
  local indent = opts.indent
  if indent == nil then return nil end
  if math.type(indent) ~= "integer" or indent < 0 or indent > 16 then
    error("encode: indent: an integer from 0 to 16 expected, got " .. check.describe(indent), 3)
  end
  return (" "):rep(indent)
end

---Encodes a value, as a text in one line.
---@param value any nil, functions, userdata, coroutines, nan and infinity cannot be encoded, nor tables more than 100
---deep or with cycles
---@param opts? { indent?: integer, name?: string } `indent`: a line for each element, with so many spaces for each
---level, and fields in the order of their names. `name`: what an error calls the value; default "value"
---@return string? text nil if a part cannot be encoded
---@return string? problem which part, and why: `value.items[2]: a function cannot be sent`
function json.encode(value, opts)
  local indent = opts ~= nil and indent_of(opts) or nil
  opts = opts or NO_OPTIONS
  local ok, text = pcall(encode_value, { inside = {}, depth = 0, indent = indent }, value, opts.name or "value")
  if ok then return text end
  if type(text) == "table" and text.message then return nil, text.message end
  error(text, 0)
end

-- ---- decode ----

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
  local begin = at - 1
  local stop = text:find('["\\%c]', at) or bad(begin, "a string without its end")
  if text:byte(stop) == 34 then return text:sub(at, stop - 1), stop + 1 end
  local parts = {}
  while true do
    stop = text:find('["\\%c]', at) or bad(begin, "a string without its end")
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
  local digits = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = digits and not digits:find "^-?0%d" and not digits:find "%.$" and not digits:find "%.[eE]" and
    tonumber(digits)
  if not value then bad(at, at > #text and "the text ends too early" or "expected a value") end
  if value == math.huge or value == -math.huge then bad(at, "a number that is too large") end
  return value, at + #digits
end

local function skip(text, at) return (text:find("[^ \t\r\n]", at)) or #text + 1 end

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

local function decode_object(text, at, depth)
  local object = {}
  at = skip(text, at)
  if text:sub(at, at) == "}" then return object, at + 1 end
  while true do
    at = skip(text, at)
    if text:sub(at, at) ~= '"' then bad(at, "expected a key") end
    local key
    key, at = decode_string(text, at + 1)
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then bad(at, "expected :") end
    object[key], at = decode_value(text, at + 1, depth)
    local c = text:sub(at, at)
    if c == "}" then return object, at + 1 end
    if c ~= "," then bad(at, "expected , or }") end
    at = at + 1
  end
end

-- Decodes the value that begins at or after `at`. Returns it and the position of the next character that is not a
-- space.
function decode_value(text, at, depth)
  at = skip(text, at)
  local c = text:sub(at, at)
  local value
  if c == '"' then
    value, at = decode_string(text, at + 1)
  elseif c == "{" or c == "[" then
    if depth == DEEPEST then bad(at, "nested too deeply") end
    value, at = (c == "{" and decode_object or decode_array)(text, at + 1, depth + 1)
  else
    local word = text:match("^%a+", at)
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

---Decodes a text. null gives `json.null`; arrays are marked as by json.array. A number without fraction and exponent
---gives an integer, if that has room for it; others give floats. Of fields with the same name the last one stays.
---@param text string one value: UTF-8, without comments, at most 100 arrays and objects inside of each other
---@return any value nil if the text is not JSON
---@return string? problem what is wrong with it, and where: `not JSON: expected , or ] at byte 4`
function json.decode(text)
  if type(text) ~= "string" then error("decode: a string expected, got " .. check.article(text), 2) end
  local ok, value = pcall(decode, text)
  if ok then return value end
  if type(value) == "table" and value.problem then
    return nil, ("not JSON: %s at %s"):format(value.problem, place(text, value.at))
  end
  error(value, 0)
end

return json
