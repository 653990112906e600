---Values as they are kept in the tables of a store, and in memory.
---
---In a table: as JSON where that gives the same value back, else as MessagePack; `form` says which. A response of
---runnel.http and a timeout error, which have methods, are kept as their fields, and their forms end with the names of
---their classes.

local require = require
local guard = require "runnel.internal.guard"
local internal = require("runnel.core").internal
local json = require "runnel.json"
local sqlite = require "runnel.sqlite"
local timed_out = require "runnel.internal.timed_out"

local values = {}

-- Larger values are kept as MessagePack, which takes less time; they are too long to be read as text.
local LONGEST_JSON <const> = 1 << 20

---A value in memory: an immutable value; or bytes, and the function that decodes them.
---@class runnel.store.Entry
---@field data any
---@field read? fun(data: any): any nil: data is the value
---@field failed? boolean it is an error
---@field expires? integer

-- ---- objects ----

-- The classes whose objects can be stored, by the name of the metatable: the object of its fields; nil if they are not
-- those of one.
local CLASSES = {
  ["http response"] = function(fields)
    if math.type(fields.status) ~= "integer" or type(fields.headers) ~= "table" then return nil end
    return require("runnel.http.response").new(fields.status, fields.headers, fields.body, fields.url)
  end,
  ["timeout error"] = function(fields)
    return type(fields.message) == "string" and timed_out.new(fields.message) or nil
  end,
}

-- The name of an object's class, and its fields as a plain table.
local function class_of(value)
  local meta = type(value) == "table" and getmetatable(value)
  local name = type(meta) == "table" and CLASSES[meta.__name] and meta.__name or nil
  if not name then return nil, value end
  local fields = {}
  for k, v in pairs(value) do fields[k] = v end
  return name, fields
end

-- ---- JSON ----

-- Removes from what was decoded from JSON the marks that make lists arrays.
local function unmark(value)
  if type(value) ~= "table" or value == json.null then return value end
  setmetatable(value, nil)
  for _, element in pairs(value) do unmark(element) end
  return value
end

local ARRAY = getmetatable(json.array {})

-- Whether all objects in a value were decoded from JSON.
local function is_from_json(value, depth)
  if type(value) ~= "table" or value == json.null then return true end
  local meta = getmetatable(value)
  if meta ~= nil and meta ~= ARRAY or depth > 100 then return false end
  for _, element in pairs(value) do
    if not is_from_json(element, depth + 1) then return false end
  end
  return true
end

-- ---- reading ----

local function damaged(problem)
  internal.raise(("a value of the store is damaged: %s; remove it (store:forget, if it is a result)"):format(problem))
end

local function expect_bytes(data)
  if type(data) ~= "string" then
    damaged(data == nil and "it is NULL" or ("it is a number, %s; as JSON it is the text '%s'"):format(data, data))
  end
end

local function unpack(bytes)
  local value, problem = internal.unpack(bytes)
  if problem then damaged(problem) end
  return value
end

local function decode(text)
  local value, problem = json.decode(text)
  if problem then damaged(problem) end
  return value
end

local READERS = { -- but for "nil", they get a string
  ["nil"] = function() end,
  json = function(text) return unmark(decode(text)) end,
  ["marked json"] = decode,
  msgpack = unpack,
}

-- An entry for a value; with a class, for an object of that class.
local function of_class(class, read, data)
  if not class then return { data = data, read = read } end
  local make = CLASSES[class]
  return { data = data, read = function(bytes)
    local fields = read(bytes)
    local object = type(fields) == "table" and make(fields)
    if not object then damaged(("it is no %s"):format(class)) end
    return object
  end }
end

-- The encoding and the class in a form.
local function parts_of(form)
  for name in pairs(CLASSES) do
    if form:sub(-#name - 1) == " " .. name then return form:sub(1, -#name - 2), name end
  end
  return form, nil
end

---The entry for the value in a row. Raises if that is damaged.
---@param form any
---@param data any
---@return runnel.store.Entry
function values.entry(form, data)
  form = tostring(form)
  local encoding, class = form, nil
  if not READERS[form] then encoding, class = parts_of(form) end
  local read = READERS[encoding]
  if not read then damaged(("its form %q is unknown"):format(form)) end
  if encoding ~= "nil" then expect_bytes(data) end
  if class then return of_class(class, read, data) end
  local value = read(data)
  if type(value) ~= "table" then return { data = value } end
  -- Each caller gets its own copy of a table; MessagePack is the fastest to decode.
  local packed = encoding == "json" and internal.pack(value, "value")
  return packed and { data = packed, read = unpack } or { data = data, read = read }
end

---The value in a row; or nil and what is wrong with it.
---@param form any
---@param data any
---@return any value, string? problem
function values.read(form, data)
  local ok, value = pcall(function() return values.of(values.entry(form, data)) end)
  if ok then return value end
  return nil, guard.text(value)
end

---The value of an entry.
---@param entry runnel.store.Entry
---@return any
function values.of(entry)
  local read = entry.read
  if read then return read(entry.data) end
  return entry.data
end

-- ---- writing ----

-- What the core says of a value that cannot be sent, for one that is stored.
local function of_store(problem)
  return (problem:gsub(" be sent to another machine$", " be kept"):gsub(" be sent$", " be kept")
    :gsub(" be sent as keys$", " be kept as keys"))
end

---The form, the data and the entry for a value; or nil and a message that says which part cannot be stored.
---@param value any
---@param name string what the message calls the value
---@return string? form
---@return any data for a parameter; or the message
---@return runnel.store.Entry? entry
function values.encode(value, name)
  if value == nil then return "nil", nil, { data = nil } end
  if type(value) ~= "table" then
    local text = json.encode(value) -- nil: it has none, as bytes that are no text
    if text and #text <= LONGEST_JSON then return "json", text, { data = value } end
  end
  local class, plain = class_of(value)
  local suffix = class and " " .. class or ""
  local packed, problem = internal.pack(plain, name)
  local is_json = packed and #packed <= LONGEST_JSON or not packed and is_from_json(plain, 1)
  local text = is_json and json.encode(plain, { name = name }) or nil
  if not packed and not text then return nil, of_store(problem) end
  local form = not packed and "marked json" or text and "json" or "msgpack"
  local entry = packed and of_class(class, unpack, packed) or of_class(class, decode, text)
  if type(value) ~= "table" then entry = { data = value } end
  return form .. suffix, text or sqlite.blob(packed), entry
end

---Data as in a row of a table.
---@param data any as a parameter
---@return any
function values.bytes(data) return type(data) == "table" and data[1] or data end

---How many bytes a value has in a table.
---@param data any as a parameter, or from a table
---@return integer
function values.size(data) return data == nil and 0 or #tostring(values.bytes(data)) end

---Bytes from a table as a parameter, so that they have the same form there again.
---@param form string
---@param data any
---@return any
function values.of_column(form, data)
  if type(data) == "string" and form:find "^msgpack" then return sqlite.blob(data) end
  return data
end

return values
