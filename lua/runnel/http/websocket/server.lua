---The server of WebSocket: what a request for it is answered, and the connection that follows.

local check = require "runnel.internal.check"
local connection = require "runnel.http.websocket.connection"
local handshake = require "runnel.http.websocket.handshake"
local options = require "runnel.http.websocket.options"

local OPTIONS = { origins = true, keep = true }
for name in pairs(options.KNOWN) do OPTIONS[name] = true end

local server = {}

---The answer to a request.
---@class runnel.http.WebSocketAnswer
---@field head string the response, with status 101
---@field settings runnel.http.WebSocketSettings
---@field bits integer of the window for sending; 0: no compression
---@field protocol? string

local function is_origin(value)
  return type(value) == "string" and (value == "*" or value:find "^%a[%w+.-]*://[^/]+$" ~= nil)
end

---Checks the options of a server.
---@param opts any
---@param what string the function that was called
---@param level integer of the line for errors, as seen from the caller
---@return table opts
---@return runnel.http.WebSocketSettings
function server.options(opts, what, level)
  check.options(opts, OPTIONS, what, level + 2)
  opts = opts or {}
  options.check_list(opts.origins, "origins such as \"https://example.org\", or \"*\" for any,", is_origin,
    what .. ": origins", level + 2)
  return opts, options.read(opts, what, level + 1)
end

-- Whether a page of that origin may connect: one of the server's own host, or a listed one. Other programs than
-- browsers send no origin.
local function is_welcome(origin, host, origins)
  if not origin then return true end
  for _, listed in ipairs(origins or {}) do
    if listed == "*" or listed:lower() == origin:lower() then return true end
  end
  local own = origin:match "^https?://([^/]+)$"
  return own ~= nil and host ~= nil and own:lower() == host:lower()
end

-- The first of the server's subprotocols that the client has offered.
local function choose(protocols, offered)
  local is_offered = {}
  for _, name in ipairs(handshake.list(offered)) do is_offered[name] = true end
  for _, name in ipairs(protocols) do
    if is_offered[name] then return name end
  end
end

---Answers a request.
---@param method string
---@param headers table<string, string> by name in lower case
---@param settings runnel.http.WebSocketSettings
---@param origins? string[]
---@return runnel.http.WebSocketAnswer? answer nil if it is refused
---@return string? why
---@return integer? status with which to refuse it
---@return table<string, string>? headers of that response
function server.answer(method, headers, settings, origins)
  if method ~= "GET" or not handshake.has(headers.upgrade, "websocket")
    or not handshake.has(headers.connection, "upgrade") then
    return nil, "this is for WebSocket", 426, { upgrade = "websocket", connection = "Upgrade" }
  elseif headers["sec-websocket-version"] ~= "13" then
    return nil, "this version of WebSocket is unknown here", 426, { ["sec-websocket-version"] = "13" }
  end
  local key = headers["sec-websocket-key"]
  if not key or #key ~= 24 or not key:find "^[%w+/]+==$" then
    return nil, "the header Sec-WebSocket-Key is missing or wrong", 400, {}
  elseif not is_welcome(headers.origin, headers.host, origins) then
    return nil, "pages of this origin may not connect", 403, {}
  end
  local protocol = choose(settings.protocols, headers["sec-websocket-protocol"])
  local extension, bits = nil, 0
  if settings.deflate then extension, bits = handshake.agree(headers["sec-websocket-extensions"]) end
  local head = ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    .. "Sec-WebSocket-Accept: %s\r\n%s%s%s\r\n"):format(connection.lib.accept(key),
    protocol and ("Sec-WebSocket-Protocol: %s\r\n"):format(protocol) or "",
    extension and ("Sec-WebSocket-Extensions: %s\r\n"):format(extension) or "", settings.headers)
  return { head = head, settings = settings, bits = bits, protocol = protocol }
end

---Begins the connection, once the answer is on its way.
---@param answer runnel.http.WebSocketAnswer
---@param transport runnel.http.WebSocketTransport
---@param rest string bytes that have come behind the request
---@param on_over? fun(conn: runnel.http.WebSocket) called when the connection is over
---@return runnel.http.WebSocket
function server.begin(answer, transport, rest, on_over)
  return connection.new(transport, false, answer.settings, answer.bits, answer.protocol, rest, "req:websocket", on_over)
end

return server
