---Encodes values as the bytes of messages, and decodes them. `encoding` is one of
---
---    raw      strings, as they are
---    msgpack  booleans, numbers, strings, and tables of these, as MessagePack
---    json     the same as JSON

local require = require
local internal = require("runnel.core").internal
local raise = internal.raise

local values = {}

local function json() return require "runnel.json" end

---@class runnel.Encoding
---@field encode fun(value: any, name: string): string?, string? the bytes; or nil and a message that says which part of
---the value, there called `name`, cannot be sent
---@field decode fun(data: string): any, string? the value; or nil and what is wrong with the bytes

---@type table<string, runnel.Encoding>
values.encodings = {
  raw = {
    encode = function(value, name)
      if type(value) == "string" then return value end
      return nil, ("%s: a string expected, got %s; to send other values, use encoding = \"msgpack\" or \"json\"")
        :format(name, value == nil and "nothing" or "a " .. type(value))
    end,
    decode = function(data) return data end,
  },
  msgpack = { encode = internal.pack, decode = internal.unpack },
  json = {
    encode = function(value, name) return json().encode(value, { name = name }) end,
    decode = function(data) return json().decode(data) end,
  },
}

---Checks the name of an encoding.
---@param name any
---@param what string the function that was called
---@return string name
function values.check(name, what)
  if not values.encodings[name] then
    raise(("%s: encoding: \"raw\", \"msgpack\" or \"json\" expected, got %s")
      :format(what, type(name) == "string" and ("%q"):format(name) or tostring(name)))
  end
  return name
end

return values
