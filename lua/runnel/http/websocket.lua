---The client of WebSocket.
---
---    local http = require "runnel.http"
---    local conn <close> = assert(http.websocket "wss://example.org/chat")
---    conn:write "hello"
---    for message in conn:read() do print(message) end
---
---Needs zlib: `make` builds the C module runnel.websocket.core where its headers are. Its sockets are
---those of runnel.uv, so it needs luv, too.

local require = require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local connection = require "runnel.http.websocket.ws_connection"
local current = require "runnel.internal.world"
local base64 = require "runnel.internal.base64"
local handshake = require "runnel.http.websocket.handshake"
local options = require "runnel.http.websocket.ws_options"
local proxies = require "runnel.http.proxy"
local socket = require "runnel.uv.socket"
local socks = require "runnel.http.socks"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

local lib = connection.lib
local take = core.internal.moving.take
local is_simulation = core.internal.is_simulation

-- The key in a simulation, where nothing is random: that of RFC 6455's example.
local KEY <const> = "dGhlIHNhbXBsZSBub25jZQ=="

-- ms until the connection and its handshake are complete.
local TIMEOUT <const> = 10000

local OPTIONS = { timeout = check.kinds.ms(0), origin = true, tls = true, noproxy = true, proxy = true,
  proxy_tls = true, unix_socket_path = true }
for name, kind in pairs(options.KNOWN) do OPTIONS[name] = kind end

---@class runnel.http.websocket
local websocket = {}

-- ---- addresses ----

---The parts of a URL.
---@class runnel.http.WebSocketPlace
---@field is_secure boolean the scheme is wss
---@field host string
---@field port integer
---@field authority string host and port, as in the header Host
---@field target string path and query

local function percent(byte) return ("%%%02X"):format(byte:byte()) end

-- Parses a URL; nil and the reason if it is wrong. What is not ASCII behind the host is encoded, as for a request.
---@return runnel.http.WebSocketPlace?
---@return string?
local function place_of(url)
  local scheme, authority, target = url:match "^(%a+)://([^/?#]+)(.*)$"
  scheme = scheme and scheme:lower()
  if scheme ~= "ws" and scheme ~= "wss" then return nil, "not a ws:// or wss:// URL: " .. url end
  if authority:find "[\128-\255]" then
    return nil, ("the host of the URL of a WebSocket is not ASCII: write it as it is registered, with xn--: %q"):format(
      url)
  end
  target = target:gsub("[\128-\255]", percent)
  if (authority .. target):find "[^!-~]" or url:find("#", 1, true) then
    return nil, ("not a URL of a WebSocket, since it has a fragment or an unencoded character: %q"):format(url)
  end
  if authority:find("@", 1, true) then
    return nil, "a WebSocket URL cannot have a name and password; use the option headers: " .. authority:match "[^@]*$"
  end
  local host, digits = authority:match "^%[([%x:.]+)%]:?(%d*)$"
  if not host then host, digits = authority:match "^([^:%[%]]+):?(%d*)$" end
  local port = digits == "" and (scheme == "ws" and 80 or 443) or tonumber(digits)
  if not port or port < 1 or port > 65535 then return nil, "the host or the port of the URL is wrong: " .. url end
  if target == "" or target:sub(1, 1) == "?" then target = "/" .. target end
  return { is_secure = scheme == "wss", host = host, port = port, authority = authority, target = target }
end

-- ---- the transport ----

---@class runnel.http.WebSocketSocket: runnel.http.WebSocketTransport
local Transport = { is_client = true }
Transport.__index = Transport

function Transport:receive() return take(self.input) end

function Transport:send(bytes) return self.conn:write(bytes) end

function Transport:shutdown() self.conn:shutdown() end

function Transport:close() self.conn:close() end

-- Closes the connection of a handshake that has failed.
local Attempt = { __close = function(self)
  if self.conn then self.conn:close() end
end }

-- ---- the handshake ----

local function request_of(place, settings, opts, key)
  local protocols, further, host = table.concat(settings.protocols, ", "), {}, place.authority
  for _, header in ipairs(settings.headers) do
    if header.name:lower() == "host" then host = header.value
    else further[#further + 1] = ("%s: %s\r\n"):format(header.name, header.value) end
  end
  return ("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    .. "Sec-WebSocket-Key: %s\r\n%s%s%s%s\r\n"):format(place.target, host, key,
    protocols ~= "" and ("Sec-WebSocket-Protocol: %s\r\n"):format(protocols) or "",
    settings.deflate and ("Sec-WebSocket-Extensions: %s\r\n"):format(handshake.OFFER) or "",
    opts.origin and ("Origin: %s\r\n"):format(opts.origin) or "", table.concat(further))
end

-- Reads the head of the response. Returns it and the bytes behind it; or nil and an error.
local function read_head(input)
  local text = ""
  while true do
    local stop, next = text:find("\r\n\r\n", 1, true)
    if stop then return text:sub(1, stop - 1), text:sub(next + 1) end
    if #text > handshake.MAX_HEAD then return nil, "the head of the response is too long" end
    local piece, err = take(input)
    if piece == nil then return nil, err or "the connection has ended during the handshake" end
    text = text .. piece
  end
end

local function contains(list, value)
  for _, element in ipairs(list) do
    if element == value then return true end
  end
  return false
end

-- Checks a response with status 101. Returns the bits of compression and the subprotocol; or nil and the reason if it
-- is wrong.
local function check_response(headers, key, settings)
  if not handshake.has(headers.upgrade, "websocket") or not handshake.has(headers.connection, "upgrade") then
    return nil, "the response does not switch to WebSocket"
  elseif headers["sec-websocket-accept"] ~= lib.accept(key) then
    return nil, "the response has a wrong Sec-WebSocket-Accept"
  end
  local protocol = headers["sec-websocket-protocol"]
  if protocol and not contains(settings.protocols, protocol) then
    return nil, "the server has chosen a subprotocol that was not offered: " .. protocol
  end
  local extensions = headers["sec-websocket-extensions"]
  local bits = (settings.deflate or not extensions) and handshake.agreed(extensions)
  if not bits then return nil, "the server has chosen extensions that were not offered: " .. extensions end
  return bits, protocol
end

-- The proxy for a WebSocket; nil if there is none, or nil and the reason if it cannot be used.
---@return runnel.http.Proxy?
---@return string?
local function proxy_of(place, opts)
  if current.world then return nil end
  local text = proxies.text(place.is_secure and "https" or "http", place.host, opts)
  if not text then return nil end
  local proxy = proxies.parse(text)
  if not proxy then return nil, "the address of the proxy is wrong: " .. text end
  if proxy.scheme == "http" or proxy.scheme == "https" or socks.SCHEMES[proxy.scheme] ~= nil then return proxy end
  return nil, ("the proxy %s://%s is of an unknown kind: http, https, socks4, socks4a, socks5 and socks5h are known")
    :format(proxy.scheme, proxy.name)
end

-- Has a proxy make a tunnel. Returns true; or nil and an error.
local function ask_proxy(conn, proxy, place)
  local there = (place.host:find(":", 1, true) and "[%s]:%d" or "%s:%d"):format(place.host, place.port)
  local login = proxy.login and ("Proxy-Authorization: Basic %s\r\n"):format(base64.encode(proxy.login)) or ""
  local ok, err = conn:write(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n"):format(there, there, login))
  if not ok then return nil, err end
  local head, rest = read_head(conn:read())
  if not head then return nil, rest end
  local status, wrong = handshake.read_head(head, true)
  if not status then return nil, wrong end
  if status < 200 or status > 299 then return nil, ("it has answered with status %d"):format(status) end
  if rest ~= "" then return nil, "it has sent bytes before there was a tunnel" end
  return true
end

-- Connects to the server, or to the proxy, which makes a tunnel to it. Returns the connection; or nil and an error.
-- `attempt` has the contexts of TLS, and holds the connection as soon as there is one.
local function connect(attempt, place, opts)
  local tls = place.is_secure and not current.world and attempt.tls or nil
  local path, proxy, wrong = opts.unix_socket_path, nil, nil
  if not path then proxy, wrong = proxy_of(place, opts) end
  if wrong then return nil, wrong end
  if not (proxy or path) then return socket.connect(place.host, place.port, tls and { tls = tls }) end
  local through = proxy and ("through the proxy %s: "):format(proxy.name) or ""
  local proxy_tls = proxy and proxy.scheme == "https" and attempt.proxy_tls or nil
  local conn, err = socket.connect(path or proxy.host, proxy and proxy.port, proxy_tls and { tls = proxy_tls })
  if not conn then return nil, through .. tostring(err) end
  attempt.conn = conn
  local ok
  if not proxy then ok = true
  elseif socks.SCHEMES[proxy.scheme] ~= nil then ok, err = socks.ask(conn, proxy, place.host, place.port)
  else ok, err = ask_proxy(conn, proxy, place) end
  if not ok then return nil, through .. tostring(err) end
  if not tls then return conn end
  conn.host, conn.is_tunnel = place.host, true
  ok, err = conn:start_tls(tls)
  return ok and conn or nil, err
end

-- Connects, and exchanges the heads. Returns true, and sets `conn`, `rest`, `bits` and `protocol` of the attempt; or
-- returns false, an error, and the response if there is one.
local function shake_hands(attempt, place, settings, opts)
  local conn, err = connect(attempt, place, opts)
  if not conn then return false, err end
  attempt.conn = conn
  local key = is_simulation() and KEY or lib.key()
  local ok, broken = conn:write(request_of(place, settings, opts, key))
  if not ok then return false, broken end
  local head, rest = read_head(conn:read())
  if not head then return false, rest end
  local status, headers = handshake.read_head(head)
  if not status then return false, headers end
  if status ~= 101 then
    return false, ("the server has answered with status %d"):format(status), { status = status, headers = headers }
  end
  local bits, protocol = check_response(headers, key, settings)
  if not bits then return false, protocol end
  attempt.rest, attempt.bits, attempt.protocol = rest, bits, protocol
  return true
end

-- Returns the connection; or nil, an error, and the response if there is one.
local function open(place, settings, opts, tls, proxy_tls)
  local limit = time_limit.new(place.authority .. ": the handshake was not complete", opts.timeout or TIMEOUT)
  local attempt <close> = setmetatable({ conn = nil, tls = tls, proxy_tls = proxy_tls }, Attempt)
  local result, died = limit:call(nil, shake_hands, attempt, place, settings, opts)
  if not result then
    if timed_out.is_timeout(died) then return nil, died end
    error(died, 0)
  end
  if not result[1] then return nil, result[2], result[3] end
  local conn = attempt.conn
  local transport = setmetatable({ conn = conn, input = conn:read(), name = place.authority }, Transport)
  local made = connection.new(transport, settings, attempt.bits, attempt.protocol, attempt.rest, "http.websocket")
  attempt.conn = nil
  return made
end

local function check_options(opts)
  check.options(opts, OPTIONS, "websocket")
  opts = opts or {}
  local origin = opts.origin
  if origin ~= nil and (type(origin) ~= "string" or origin:find "[^!-~]") then
    raise("websocket: origin: a string such as \"https://example.org\" expected, got " .. check.describe(origin))
  end
  local proxy = opts.proxy
  if proxy ~= nil and type(proxy) ~= "string" then
    raise("websocket: proxy: a string such as \"http://proxy.example:3128\", or \"\" for none, expected, got "
      .. check.describe(proxy))
  end
  if proxy then check.no_zero(proxy, "websocket: proxy") end
  local exceptions = opts.noproxy
  if exceptions ~= nil and type(exceptions) ~= "string" then
    raise("websocket: noproxy: a string such as \"localhost, 10.0.0.0/8\" expected, got " .. check.describe(exceptions))
  end
  local path = opts.unix_socket_path
  if path ~= nil and type(path) ~= "string" then
    raise("websocket: unix_socket_path: the path of a Unix socket expected, got " .. check.describe(path))
  end
  if path then check.no_zero(path, "websocket: unix_socket_path") end
  return opts, options.read(opts, "websocket")
end

-- The context of an option, made here so that wrong options are errors at the program's line.
local function context_of(opts, name)
  if not opts[name] or current.world then return true end
  return require("runnel.internal.tls_options").of("client", opts[name], "websocket: " .. name)
end

---Connects to a server of WebSocket. Parks until the handshake is complete.
---@param url string ws:// or wss://
---@param opts? runnel.http.WebSocketOptions|{ timeout?: number, origin?: string, tls?: true|table, proxy?:
---string, noproxy?: string, proxy_tls?: true|table, unix_socket_path?: string } `timeout`: ms until the handshake is
---complete, default 10000; `origin`: the header Origin; `tls`: as for uv.connect, for wss; `proxy`: URL of the proxy,
---"": none; default: that of the environment; `noproxy`: hosts that need none; `proxy_tls`: as `tls`, for a proxy with
---https; `unix_socket_path`: a Unix socket to connect to
---@return runnel.http.WebSocket? conn
---@return any err the reason: a string, or an error for which rn.is_timeout is true
---@return { status: integer, headers: table<string, string> }? response if the server has answered with a status other
---than 101
function websocket.websocket(url, opts)
  check.string(url, "a URL", "websocket")
  local settings
  opts, settings = check_options(opts)
  if current.is_outside() then
    raise("websocket: a connection needs real time, and this is a simulation (sim.run, runnel --sim): call it on a "
      .. "host of a simulated world (sim.world), outside the simulation, or use channels of your own in its place")
  end
  local place, wrong = place_of(url)
  if not place then return nil, wrong end
  if opts.tls and not place.is_secure then raise("websocket: tls is for wss:// URLs, and this one is ws://") end
  local proxy_tls, conn, response
  local tls, err = context_of(opts, "tls")
  if tls then proxy_tls, err = context_of(opts, "proxy_tls") end
  if proxy_tls then conn, err, response = open(place, settings, opts, tls, proxy_tls) end
  if conn then return conn end
  if type(err) == "string" and not err:find(place.authority, 1, true) then err = place.authority .. ": " .. err end
  return nil, err, response
end

return websocket
