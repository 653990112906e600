---The values that statements of runnel.sqlite take.

local core = require "runnel.core"
local check = require "runnel.internal.check"

local raise = core.internal.raise
local select, type = select, type

local values = {}

local Blob = { __name = "runnel.sqlite.blob" }

---The metatable of blobs.
values.Blob = Blob

---Bytes to be stored as a BLOB.
---@param bytes string
---@return table blob
function values.blob(bytes) return setmetatable({ bytes }, Blob) end

local PLAIN <const> = { ["nil"] = true, boolean = true, number = true, string = true }

---What a value must be, for messages.
values.EXPECTED = "nil, a boolean, a number, a string or sqlite.blob(...) expected"

---Why a value cannot be passed to SQLite, or nil.
---@param value any
---@return string? wrong
function values.wrong(value)
  if value ~= value then return "nan, which SQLite would make NULL" end
  if PLAIN[type(value)] or getmetatable(value) == Blob then return nil end
  return check.article(value)
end

local wrong_value = values.wrong

---Raises an error if one of the values cannot be passed.
---@param what string the method
---@param ... any
function values.check(what, ...)
  for i = 1, select("#", ...) do
    local wrong = wrong_value((select(i, ...)))
    if wrong then raise(("%s: value %d: %s, got %s"):format(what, i, values.EXPECTED, wrong)) end
  end
end

---Whether these values are one table of named ones.
---@param ... any
---@return boolean
function values.are_named(...)
  local first = ...
  return type(first) == "table" and select("#", ...) == 1 and getmetatable(first) ~= Blob
end

---The names and values of a table of named values, in turn.
---@param what string the method
---@param named table<string, any>
---@return any ...
function values.flatten(what, named)
  local flat, n = {}, 0
  for name, value in pairs(named) do
    if type(name) ~= "string" or name:find "\0" then
      raise(("%s: the keys of a table of values are the names of parameters, got %s")
        :format(what, check.describe(name)))
    end
    local wrong = wrong_value(value)
    if wrong then raise(("%s: value %q: got %s"):format(what, name, wrong)) end
    flat[n + 1], flat[n + 2], n = name, value, n + 2
  end
  return table.unpack(flat, 1, n)
end

return values
