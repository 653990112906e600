---Encodes values as the bytes of messages, and decodes them. `encoding` is one of
---
---    raw      strings, as they are
---    msgpack  booleans, numbers, strings, and tables of these, as MessagePack
---    json     the same as JSON

local internal = require("runnel.core").internal

local values = {}

local function json() return require "runnel.nats.json" end

local ENCODINGS = {
  raw = {
    encode = function(value)
      if type(value) == "string" then return value end
      return nil, ("a string expected, got %s; to send other values, use encoding = \"msgpack\" or \"json\"")
        :format(value == nil and "nothing" or "a " .. type(value))
    end,
    decode = function(data) return data end,
  },
  msgpack = {
    encode = function(value) return internal.pack(value, "value") end,
    decode = function(data) return internal.unpack(data) end,
  },
  json = {
    encode = function(value) return json().encode(value) end,
    decode = function(data) return json().decode(data) end,
  },
}

---Checks the name of an encoding.
---@param name any
---@param what string the function that was called
---@param level integer for `error`, as seen from the caller
---@return string name
function values.check(name, what, level)
  if not ENCODINGS[name] then
    error(("%s: encoding: \"raw\", \"msgpack\" or \"json\" expected, got %s")
      :format(what, type(name) == "string" and ("%q"):format(name) or tostring(name)), level + 1)
  end
  return name
end

---@param encoding string
---@return fun(value: any): string?, string? encode returns nil and a message if the value cannot be sent
function values.encoder(encoding) return ENCODINGS[encoding].encode end

---@param encoding string
---@return fun(data: string): any, string? decode returns nil and a message if the bytes are not valid
function values.decoder(encoding) return ENCODINGS[encoding].decode end

return values
