---The server of WebSocket: the answer to the handshake, and the connection that follows.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local connection = require "runnel.http.websocket.ws_connection"
local guard = require "runnel.internal.guard"
local handshake = require "runnel.http.websocket.handshake"
local options = require "runnel.http.websocket.ws_options"
local raise = core.internal.raise

local OPTIONS = { origins = true, keep = check.kinds.boolean }
for name, kind in pairs(options.KNOWN) do OPTIONS[name] = kind end

local function is_origin(value)
  return type(value) == "string" and (value == "*" or value:find "^%a[%w+.-]*://[^/]+$" ~= nil)
end

-- Checks the options; returns them, and the settings.
local function read_options(opts)
  check.options(opts, OPTIONS, "websocket")
  opts = opts or {}
  options.check_list(opts.origins, "origins such as \"https://example.org\", or \"*\" for any,", is_origin,
    "websocket: origins")
  return opts, options.read(opts, "websocket")
end

local DEFAULT <const> = { http = ":80$", https = ":443$" }

-- An origin without the default port of its scheme. Browsers leave that out; a proxy or the program's list may not.
local function plain(origin)
  origin = origin:lower()
  local port = DEFAULT[origin:match "^(https?)://"]
  return port and origin:gsub(port, "") or origin
end

-- Whether a page of an origin may connect: the server's own host, or a listed origin. Only browsers send an origin.
local function is_welcome(origin, host, origins)
  if not origin then return true end
  local asked = plain(origin)
  for _, listed in ipairs(origins or {}) do
    if listed == "*" or plain(listed) == asked then return true end
  end
  local scheme = asked:match "^(https?://)[^/]+$"
  return scheme ~= nil and host ~= nil and plain(scheme .. host) == asked
end

-- The first of the server's subprotocols that the client has offered.
local function choose(protocols, offered)
  local is_offered = {}
  for _, name in ipairs(handshake.list(offered)) do is_offered[name] = true end
  for _, name in ipairs(protocols) do
    if is_offered[name] then return name end
  end
end

-- If a request is refused: the text, the status and the headers of the response. Otherwise nil.
local function refuse(req, headers, origins)
  if req.method ~= "GET" or not req.can_upgrade or not handshake.has(headers.upgrade, "websocket") then
    return "this needs a WebSocket client", 426, { upgrade = "websocket" }
  elseif headers["sec-websocket-version"] ~= "13" then
    return "only version 13 of WebSocket is supported", 426, { ["sec-websocket-version"] = "13" }
  end
  local key = headers["sec-websocket-key"]
  if not key or #key ~= 24 or not key:find "^[%w+/]+==$" then
    return "the header Sec-WebSocket-Key is missing or wrong", 400, {}
  elseif not is_welcome(headers.origin, headers.host, origins) then
    return "pages of this origin may not connect", 403, {}
  elseif req.server and req.server.drains then
    return "the server is closing", 503, {}
  end
end

-- ---- the transport ----

---The transport: the server's thread reads and writes the bytes.
---@class runnel.http.WebSocketUpgrade: runnel.http.WebSocketTransport
---@field core any the request of the C module
---@field room? runnel.Channel<any> closes when there is room again for bytes to be sent
---@field why? any why it has ended
---@field conn runnel.http.WebSocket
---@field keep? boolean the connection stays open when the request's function has returned
local Transport = { is_client = false }
Transport.__index = Transport

-- The longest piece that is read, in bytes.
local PIECE <const> = 65536

-- Bits of events, as in runnel.http.server.
local BODY <const>, ROOM <const> = 2, 4

function Transport:receive()
  local bytes = self.core:read(PIECE)
  if bytes then return bytes end
  if bytes == false then return nil end
  if self.why then return nil, self.why end
  return false
end

function Transport:send(bytes, more)
  if self.why then return false, self.why end
  local has_room = self.core:write(bytes, more)
  while not has_room do
    self.room = self.room or core.chan()
    self.room:take()
    if self.why then return false, self.why end
    has_room = self.core:write ""
  end
  return true
end

-- Ends the transport: waiting go blocks go on.
local function wake(self, why)
  self.why = self.why or why
  if self.room then self.room:close() end
  connection.arrived(self.conn)
end

function Transport:shutdown()
  self.core:finish(false) -- also closes, once everything has been sent
  wake(self, "it is closed")
end

function Transport:close(is_cut)
  self.core:finish(is_cut)
  wake(self, "it is closed")
end

-- ---- what the server tells it (runnel.http.server) ----

---Handles events of the request.
---@param events integer
function Transport:on_news(events)
  if events & BODY ~= 0 then connection.arrived(self.conn) end
  if events & ROOM ~= 0 and self.room then
    self.room:close()
    self.room = nil
  end
end

---Ends the transport, when the client has gone.
---@param why any
function Transport:gone(why) wake(self, why) end

---Closes the connection, when the server drains.
function Transport:drain() guard.go(guard.nothing, nil, self.conn.close, self.conn, 1001) end

---Called when the request's function has ended. Parks until the connection is over.
---@param ok boolean whether it has returned
function Transport:returned(ok)
  if not (ok and self.keep) then self.conn:close(ok and 1000 or 1011) end
  connection.join(self.conn)
end

-- ---- accepting ----

-- Answers the handshake. Returns the subprotocol, and the bits of compression.
local function answer(req, settings, upgrade)
  local offered = req.headers
  local list = { "Upgrade", "websocket", "Sec-WebSocket-Accept", connection.lib.accept(offered["sec-websocket-key"]) }
  local protocol, bits = nil, 0
  if settings.protocols[1] then protocol = choose(settings.protocols, offered["sec-websocket-protocol"]) end
  if protocol then list[#list + 1], list[#list + 2] = "Sec-WebSocket-Protocol", protocol end
  if settings.deflate then
    local extension
    extension, bits = handshake.agree(offered["sec-websocket-extensions"])
    if extension then list[#list + 1], list[#list + 2] = "Sec-WebSocket-Extensions", extension end
  end
  for _, header in ipairs(settings.headers) do list[#list + 1], list[#list + 2] = header.name, header.value end
  local ok, wrong = pcall(upgrade, req, list)
  if not ok then raise("websocket: " .. tostring(wrong):gsub("^.-upgrade: ", "")) end
  return protocol, bits
end

local server = {}

---Makes the connection of a request a WebSocket, for Request:websocket.
---@param req runnel.http.Request
---@param opts any
---@param upgrade fun(req: runnel.http.Request, headers: string[]) request.upgrade
---@return runnel.http.WebSocket?
---@return string? why
---@return integer? status
---@return table<string, string>? headers
function server.accept(req, opts, upgrade)
  local settings
  opts, settings = read_options(opts)
  if req.socket then raise("websocket: this request has a WebSocket already") end
  do
    local why, status, refusal = refuse(req, req.headers, opts.origins)
    if why then return nil, why, status, refusal end
  end
  local protocol, bits = answer(req, settings, upgrade)
  req.socket = setmetatable({ core = req.core, name = "client " .. req.address, keep = opts.keep or nil, conn = nil },
    Transport)
  req.socket.conn = connection.new(req.socket, settings, bits, protocol, "", "req:websocket")
  return req.socket.conn
end

return server
