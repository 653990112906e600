---JSON (RFC 8259), strictly.
---
---    local json = require "runnel.json"
---    print(json.encode { name = "Ann", tags = { "a", "b" } })
---    local value, err = json.decode '{"n": [1, 2.0, null]}'
---
---A table is an array if it has elements 1 to n and nothing else, or if json.array made it (then its other fields are
---not written); otherwise an object, whose keys must be strings. Integers keep all 64 bits, floats all digits.
---csrc/json reads and writes.
---
---The usual libraries do not keep them: lua-cjson 2.1 and cJSON make integers doubles, dkjson 2.6 rounds floats to 14
---digits and writes infinity as null. None names the part of a value that it cannot write.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

---@class runnel.json
local json = {}

---Stands for null where a table must hold it; decode gives it too. It is a true value: compare with `json.null`.
json.null = setmetatable({}, { __name = "json.null", __tostring = function() return "null" end })

local Array = { __name = "json.array" }

---Makes a table an array even while it is empty; returns it.
---@generic T
---@param list T
---@return T
function json.array(list)
  check.table(list, "array: list")
  if rawequal(rawget(list, "array"), json.array) then
    sign.dot(list, list == json and "json" or "http", "array") -- the function is in both modules
  end
  return setmetatable(list, Array)
end

local encode, decode = core.internal.json(json.null, Array)

local OPTIONS = { indent = true, name = true }

-- The spaces of a level of `opts`, or nil.
local function indent_of(opts)
  check.options(opts, OPTIONS, "encode")
  local indent = opts.indent
  if indent == nil then return nil end
  if math.type(indent) ~= "integer" or indent < 0 or indent > 16 then
    raise("encode: indent: an integer from 0 to 16 expected, got " .. check.describe(indent))
  end
  return indent
end

-- The part of the value `name` to which these keys lead: `value.items[3]`.
local function part_of(name, keys)
  local path = { tostring(name) }
  for i, key in ipairs(keys) do
    if type(key) == "string" and not utf8.len(key) then key = ("%q"):format(key) end
    path[i + 1] = (math.type(key) == "integer" and "[%d]" or ".%s"):format(key)
  end
  return table.concat(path)
end

---Encodes a value, as a text in one line, with fields in the order of the bytes of their names.
---@param value any nil, functions, userdata, coroutines, nan and infinity cannot be encoded, nor tables more than 100
---deep or with cycles. The metamethods of tables must not wait
---@param opts? { indent?: integer, name?: string } `indent`: a line for each element, with this number of spaces
---for each level. `name`: what an error calls the value; default "value"
---@return string? text nil if a part cannot be encoded
---@return string? problem which part, and why: `value.items[2]: a function cannot be sent`
function json.encode(value, opts)
  if value == json then sign.dot(value, "json", "encode") end
  local text, problem, keys = encode(value, opts ~= nil and indent_of(opts) or nil)
  if text then return text end
  return nil, ("%s: %s"):format(part_of(opts and opts.name or "value", keys), problem)
end

-- Where a byte is: also its line, if there are several.
local function place(text, at)
  local before = text:sub(1, at - 1)
  local _, lines = before:gsub("\n", "")
  if lines == 0 then return "byte " .. at end
  return ("byte %d (line %d, byte %d)"):format(at, lines + 1, at - before:match "^.*\n()" + 1)
end

---Decodes a text. null gives `json.null`; arrays are marked as by json.array. A number without fraction and exponent
---gives an integer, if that has room for it; others give floats. Of fields with the same name the last one stays.
---@param text string one value: UTF-8, without comments, arrays and objects nested at most 100 deep
---@return any value nil if the text is not JSON
---@return string? problem what is wrong with it, and where: `not JSON: expected , or ] at byte 4`
function json.decode(text)
  if type(text) ~= "string" then raise("decode: a string expected, got " .. check.article(text)) end
  local value, problem, at = decode(text)
  if value == nil then return nil, ("not JSON: %s at %s"):format(problem, place(text, at)) end
  return value
end

return json
