---The parts of a form that a request sends.

local check = require "runnel.internal.check"
local content_types = require "runnel.http.content_types"

local multipart_parts = {}

local KEYS = { data = true, file = true, filename = true, name = true, type = true }

local function type_of(name) return content_types[(name or ""):lower():match "%.(%w+)$"] end

-- The part, and, if it is a file, its media type: by the ending of its name, or of the path.
local function with_type(part)
  if not part.file or part.type then return part end
  local known = type_of(part.filename) or type_of(part.file) or "application/octet-stream"
  return { name = part.name, file = part.file, filename = part.filename, type = known:match "^[^;]*" }
end

-- What is wrong with a part, or nil.
local function fault_of(part)
  if type(part) ~= "table" then return "a table expected, got " .. check.article(part) end
  for key, value in pairs(part) do
    if not KEYS[key] then return check.unknown(key, KEYS) end
    if type(value) ~= "string" or key ~= "data" and value:find "\0" then
      return ("%s: %s expected, got %s"):format(key,
        key == "data" and "a string" or "a string without zero bytes", check.describe(value))
    end
  end
  if not part.name or (part.data == nil) == (part.file == nil) then
    return "`name`, and either `data` or `file`, expected"
  end
end

---@param parts any the option `multipart`
---@return table[]? parts with the types of files; nil: they are wrong
---@return string? why
function multipart_parts.read(parts)
  if type(parts) ~= "table" or #parts == 0 then
    return nil, ("a list of parts such as { name = \"title\", data = \"...\" } expected, got %s"):format(
      type(parts) == "table" and "an empty one" or check.article(parts))
  end
  local read = {}
  for i, part in ipairs(parts) do
    local fault = fault_of(part)
    if fault then return nil, ("part %d: %s"):format(i, fault) end
    read[i] = with_type(part)
  end
  return read
end

return multipart_parts
