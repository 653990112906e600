---The server of WebSocket: the answer to the handshake, and the connection that follows.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local connection = require "runnel.http.websocket.ws_connection"
local guard = require "runnel.internal.guard"
local handshake = require "runnel.http.websocket.handshake"
local options = require "runnel.http.websocket.ws_options"

local OPTIONS = { origins = true, keep = check.kinds.boolean }
for name, kind in pairs(options.KNOWN) do OPTIONS[name] = kind end

local function is_origin(value)
  return type(value) == "string" and (value == "*" or value:find "^%a[%w+.-]*://[^/]+$" ~= nil)
end

-- Checks the options; returns them, and the settings. `level`: as seen from the caller.
local function read_options(opts, level)
  check.options(opts, OPTIONS, "websocket", level + 2)
  opts = opts or {}
  options.check_list(opts.origins, "origins such as \"https://example.org\", or \"*\" for any,", is_origin,
    "websocket: origins", level + 2)
  return opts, options.read(opts, "websocket", level + 1)
end

-- Whether a page of an origin may connect: the server's own host, or a listed origin. Only browsers send an origin.
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

-- If a request is refused: the text, the status and the headers of the response. Otherwise nil.
local function refuse(req, origins)
  local headers = req.headers
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
---@field can_read runnel.Channel<boolean> gets a value when bytes may have arrived
---@field room? runnel.Channel<any> closes when there is room again for bytes to be sent
---@field why? any why it has ended
---@field conn runnel.http.WebSocket
---@field keep boolean the connection stays open when the request's function has returned
local Transport = {}
Transport.__index = Transport

-- The longest piece that is read, in bytes.
local PIECE <const> = 65536

-- Bits of events, as in runnel.http.server.
local BODY <const>, ROOM <const> = 2, 4

function Transport:receive()
  while true do
    local bytes = self.core:read(PIECE)
    if bytes then return bytes end
    if bytes == false then return nil end
    if self.why then return nil, self.why end
    self.can_read:take()
  end
end

function Transport:send(bytes)
  if self.why then return false, self.why end
  local has_room = self.core:write(bytes)
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
  self.can_read:offer(true)
  if self.room then self.room:close() end
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
  if events & BODY ~= 0 then self.can_read:offer(true) end
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
  self.conn.over:take()
end

-- ---- accepting ----

local server = {}

---Makes the connection of a request a WebSocket, for Request:websocket.
---@param req runnel.http.Request
---@param opts any
---@param upgrade fun(req: runnel.http.Request, ...: string) request.upgrade
---@return runnel.http.WebSocket?
---@return string? why
---@return integer? status
---@return table<string, string>? headers
function server.accept(req, opts, upgrade)
  local settings
  opts, settings = read_options(opts, 3)
  if req.socket then error("websocket: this request has a WebSocket already", 3) end
  local why, status, refusal = refuse(req, opts.origins)
  if why then return nil, why, status, refusal end
  local headers = req.headers
  local protocol = choose(settings.protocols, headers["sec-websocket-protocol"])
  local extension, bits = nil, 0
  if settings.deflate then extension, bits = handshake.agree(headers["sec-websocket-extensions"]) end
  local list = { "Upgrade", "websocket", "Sec-WebSocket-Accept", connection.lib.accept(headers["sec-websocket-key"]) }
  local function add(name, value) list[#list + 1], list[#list + 2] = name, value end
  if protocol then add("Sec-WebSocket-Protocol", protocol) end
  if extension then add("Sec-WebSocket-Extensions", extension) end
  for _, header in ipairs(settings.headers) do add(header.name, header.value) end
  local transport = setmetatable({
    core = req.core, can_read = core.chan(1), name = "client " .. req.address, keep = opts.keep or false,
  }, Transport)
  local ok, wrong = pcall(upgrade, req, table.unpack(list))
  if not ok then error("websocket: " .. tostring(wrong):gsub("^.-upgrade: ", ""), 3) end
  req.socket = transport
  transport.conn = connection.new(transport, false, settings, bits, protocol, "", "req:websocket")
  return transport.conn
end

return server
