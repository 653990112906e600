---Options that both ends of a WebSocket have.

local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local token = require "runnel.http.token"
local raise = require("runnel.core").internal.raise

local options = {}

---The options of both ends.
---@class runnel.http.WebSocketOptions
---@field max? number bytes of a message that comes; default 1048576; math.huge: no limit. A longer one ends the
---connection with 1009
---@field ping? number|false ms from one ping to the next; default 20000; false: none. If nothing comes from the other
---end between two pings, the connection is given up
---@field deflate? boolean messages from 256 bytes on are compressed, if the other end can do that; default false
---@field protocols? string[] the names of subprotocols, best first
---@field headers? table<string, string|number> further headers of the handshake

---The same with defaults.
---@class runnel.http.WebSocketSettings
---@field max integer
---@field ping number|false
---@field deflate boolean
---@field protocols string[]
---@field headers { name: string, value: string }[] further headers, by name

---The options that both ends have, for check.options.
options.KNOWN = {
  max = true, ping = true, deflate = check.kinds.boolean, protocols = true, headers = check.kinds.table,
}

-- Headers of the handshake itself.
local OWN = {
  upgrade = true, connection = true, ["content-length"] = true, ["transfer-encoding"] = true,
  ["sec-websocket-key"] = true, ["sec-websocket-version"] = true, ["sec-websocket-accept"] = true,
  ["sec-websocket-protocol"] = true, ["sec-websocket-extensions"] = true,
}

local function header_list(headers, what)
  local list = {}
  for name, value in pairs(headers) do
    if not token.is(name) then
      raise(("%s: headers: the name of a header expected, got %s"):format(what, check.describe(name)))
    elseif OWN[name:lower()] then
      raise(("%s: headers: %s is set by the handshake itself"):format(what, name))
    elseif type(value) ~= "string" and type(value) ~= "number" or tostring(value):find "[\r\n\0]" then
      raise(("%s: headers: %s: a string without line breaks and zero bytes expected, got %s"):format(what, name,
        check.describe(value)))
    end
    list[#list + 1] = { name = name, value = decimal.exact(value) }
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---Checks a list of strings, or nil.
---@param list any
---@param expected string what it is a list of
---@param is_right fun(value: any): boolean
---@param what string the function and the option
function options.check_list(list, expected, is_right, what)
  if list == nil then return end
  if type(list) ~= "table" then
    raise(("%s: a list of %s expected, got %s"):format(what, expected, check.article(list)))
  end
  for i = 1, #list do
    if not is_right(list[i]) then
      raise(("%s: element %d: one of the %s expected, got %s"):format(what, i, expected, check.describe(list[i])))
    end
  end
end

---Checks the options that both ends have.
---@param opts table
---@param what string the function that was called
---@return runnel.http.WebSocketSettings
function options.read(opts, what)
  local max, ping = opts.max, opts.ping
  if max == math.huge then max = 1 << 53 elseif max ~= nil then check.integer(max, 1, what .. ": max") end
  if ping then check.ms(ping, 1, what .. ": ping") end
  options.check_list(opts.protocols, "names of subprotocols", token.is, what .. ": protocols")
  return {
    max = max or 1 << 20, ping = ping == nil and 20000 or ping, deflate = opts.deflate or false,
    protocols = opts.protocols or {}, headers = header_list(opts.headers or {}, what),
  }
end

return options
