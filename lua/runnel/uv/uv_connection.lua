---Connections of sockets: streams with addresses, which may have TLS.

local require = require
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"
local secure = require "runnel.uv.secure"
local sign = require "runnel.internal.sign"
local stream = require "runnel.uv.uv_stream"
local timed_out = require "runnel.internal.timed_out"
local raise = require("runnel.core").internal.raise

---@class runnel.uv.Connection: runnel.uv.Stream
---@field host? string the host to which it was made
---@field is_tunnel? boolean a proxy passes its bytes on: TLS to the server may begin in the TLS to the proxy
local Connection = setmetatable({ __name = "runnel.uv.uv_connection", __sign = "conn" }, { __index = stream.Stream })
Connection.__index = Connection
Connection.__close, Connection.__gc = stream.Stream.__close, stream.Stream.__gc

local connection = {}

---@param handle any luv's
---@param name string for messages
---@return runnel.uv.Connection
function connection.new(handle, name)
  local self = setmetatable(stream.new(handle, name), Connection) --[[@as runnel.uv.Connection]]
  if handle.nodelay then handle:nodelay(true) end -- sends small writes at once
  return self
end

-- Closes a connection whose attempt is abandoned.
local Attempt = { __close = function(self)
  if self.conn then self.conn:close() end
end }

---Makes a to-be-closed variable that closes a connection, unless its field `conn` was set to nil.
---@param conn runnel.uv.Connection
function connection.attempt(conn) return setmetatable({ conn = conn }, Attempt) end

-- ---- addresses ----

---The address of a handle: the IP address and the port, or the path of a Unix socket; nil if the handle is closed, or
---has no address, as the client of a Unix socket.
---@param handle any luv's, or nil
---@param get function luv's getpeername or getsockname
---@return string?
---@return integer?
function connection.address(handle, get)
  if not handle then return nil end
  local address = get(handle)
  if type(address) == "table" then return address.ip, address.port end
  return address ~= "" and address or nil
end

---The address of the other end.
---@return string? ip or the path of a Unix socket; nil once it is closed, and for a client of a Unix socket
---@return integer? port
function Connection:peer()
  sign.own(self, "conn", "peer")
  return connection.address(self.handle, self.handle and self.handle.getpeername)
end

---The address of this end.
---@return string? ip or the path of a Unix socket; nil once it is closed, and for a client of a Unix socket
---@return integer? port
function Connection:address()
  sign.own(self, "conn", "address")
  return connection.address(self.handle, self.handle and self.handle.getsockname)
end

-- ---- TLS ----

---The context of an option `tls`. Wrong options are an error.
---@param kind "server"|"client"
---@param value any
---@param what string the function, for messages
---@return runnel.tls.Context? context
---@return string? err
function connection.context(kind, value, what)
  return require("runnel.internal.tls_options").of(kind, value, what .. ": tls")
end

---Does the TLS handshake on a connection; closes the connection if that fails. Parks.
---@param conn runnel.uv.Connection one that nothing else reads
---@param context runnel.tls.Context
---@param late? runnel.Channel<any> gives up when it closes; default: after 10 s
---@return runnel.uv.Connection? conn
---@return string? err
function connection.secure(conn, context, late)
  local pending <close> = connection.attempt(conn)
  loop.ignore_sigpipe() -- a session writes, whatever the program does
  local session, err = require("runnel.internal.tls_options").native.session(context, conn.host)
  local text, ended, is_late
  if session then
    if conn.session then session = secure.layered(session, conn.session) end
    conn.session = session
    err, text, ended, is_late = secure.handshake(conn, session, late)
  end
  if err then
    err = loop.message(err, conn.name)
    if is_late then err = timed_out.new(err) end
    conn:close(err)
  end
  if not conn.handle then return nil, conn.ended end
  pending.conn = nil
  conn:secure(text, ended)
  return conn
end

---Information about a connection with TLS.
---@class runnel.uv.TlsInfo
---@field version string "TLSv1.2" or "TLSv1.3"
---@field cipher string its name in OpenSSL
---@field protocol? string the protocol that ALPN has chosen
---@field peer? string the subject of the other end's certificate, as in "CN=example.org", if it was verified
---@field name? string the server's name that the client has asked for
---@field resumed boolean whether the client has resumed an earlier session

---Information about TLS on this connection.
---@return runnel.uv.TlsInfo? info nil without TLS
function Connection:tls_info()
  sign.own(self, "conn", "tls_info")
  return self.session and self.session:info() or nil
end

local START_TLS_OPTIONS = { timeout = check.kinds.ms(0) }

---Begins TLS on a connection that has none; parks until the handshake is complete. Both ends must have agreed on that,
---as with STARTTLS in SMTP, and all earlier input must have been taken.
---@param tls true|runnel.tls.ClientOptions|runnel.tls.Context as for connect; or a context of a server
---@param opts? { timeout?: number } as for connect
---@return boolean ok if false, the connection is closed
---@return string? err
function Connection:start_tls(tls, opts)
  sign.own(self, "conn", "start_tls")
  check.options(opts, START_TLS_OPTIONS, "start_tls")
  local ms = opts and opts.timeout
  local is_server = type(tls) == "userdata" and require("runnel.tls").kind(tls) == "server"
  local context, err = connection.context(is_server and "server" or "client", tls, "start_tls")
  if self.session and not self.is_tunnel then raise("start_tls: the connection has TLS already") end
  if not self.handle then return false, self.ended end
  if context then err = self:suspend() end
  local alarm <close>, conn = guard.alarm(ms), nil
  if context and not err then conn, err = connection.secure(self, context, ms and alarm.over) end
  if conn then return true end
  self:close(err)
  return false, err
end

return connection
