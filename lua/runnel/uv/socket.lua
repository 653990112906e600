---Sockets, TCP and Unix: connections, listeners, and addresses of hosts.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local connection = require "runnel.uv.uv_connection"
local guard = require "runnel.internal.guard"
local handshakes = require "runnel.uv.handshakes"
local loop = require "runnel.uv.loop"
local names = require "runnel.uv.hostnames"
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

local uv = loop.uv
local chan = core.chan
local offer, put_later = core.methods.offer, core.internal.moving.put_later
local PRIORITY = { priority = true }

-- How many accepted connections wait for a take, and how many more wait in the system.
local BUFFERED = 64
local BACKLOG = 1024

-- The maximum length of the path of a Unix socket.
local LONGEST_PATH = loop.sysname == "Linux" and 107 or 103

-- ---- addresses ----

local function check_place(host, port, what)
  if type(host) ~= "string" or host == "" then
    local got = host == "" and '""' or check.article(host)
    raise(("%s: a host, or the path of a Unix socket, expected, got %s"):format(what, got))
  end
  check.no_zero(host, what .. (port and ": the host" or ": the path"))
  if port ~= nil and (math.type(port) ~= "integer" or port < 0 or port > 65535) then
    raise(("%s: port: an integer from 0 to 65535 expected, or nothing for a Unix socket, got %s")
      :format(what, tostring(port)))
  end
  -- A port that is missing by mistake, as in tonumber(arg[1]), must not make a Unix socket of that name.
  if port == nil and (host == "localhost" or host:find "^%d+%.%d+%.%d+%.%d+$" or host:find "^%x*:[%x:.]+$") then
    raise(("%s: port: an integer from 0 to 65535 expected, got nothing; the Unix socket is ./%s"):format(what, host))
  end
end

-- The message of an error. A resolver's error already names the host.
local function explain(err, host, port)
  if err:find(host, 1, true) then return err end
  return loop.message(err, port and host .. ":" .. port or host)
end

local function is_address(host) return host:find "^[%d.]+$" ~= nil or host:find(":", 1, true) ~= nil end

local function addresses_of(host, late)
  if is_address(host) then return { host } end
  return names.look_up(host, late)
end

-- The error of a path that is too long. libuv would truncate it.
local function too_long(path)
  if #path > LONGEST_PATH then return "ENAMETOOLONG: name too long" end
end

-- Calls a method that takes an address. luv raises an error if the address is invalid; this returns it.
local function with_address(handle, method, ...)
  local ok, result, err, name = pcall(handle[method], handle, ...)
  if not ok then return nil, "EINVAL: " .. tostring(result) end
  return result, name or err
end

-- ---- connect ----

-- Waits until `begin` has called back, or `late` closes. Returns the connection, or nil and the error.
local function attempt(handle, name, late, begin)
  loop.made(handle, "uv.connect", name)
  local answers = chan(1)
  local pending <close> = connection.attempt(connection.new(handle, name))
  local req, err = begin(function(status) answers:offer(status or true) end)
  if not req then return nil, err end
  local status = core.internal.alts_index({ answers, late }, PRIORITY)
  if status == true then
    local conn = pending.conn
    pending.conn = nil
    return conn
  end
  return nil, status or "ETIMEDOUT"
end

local function connect_unix(path, late)
  if too_long(path) then return nil, too_long(path) end
  local handle = uv.new_pipe(false)
  return attempt(handle, path, late, function(done) return with_address(handle, "connect", path, done) end)
end

local function connect_tcp(host, port, late)
  local addresses, err = addresses_of(host, late)
  if not addresses then return nil, err end
  for _, address in ipairs(addresses) do
    local handle = uv.new_tcp()
    local conn
    conn, err = attempt(handle, host .. ":" .. port, late, function(done)
      return with_address(handle, "connect", address, port, done)
    end)
    if conn or late:closed() then return conn, err end
  end
  return nil, err
end

---@class runnel.uv.socket
local socket = {}

---@class runnel.uv.ConnectOptions
---@field timeout? number give up after this many ms
---@field tls? true|runnel.tls.ClientOptions|runnel.tls.Context encrypt, and check that the server's certificate is for
---the host; true: by an authority that the system trusts

---Connects to a server; parks until it is connected.
---@param host string a name or an address; or, without a port, the path of a Unix socket
---@param port? integer
---@param opts? runnel.uv.ConnectOptions
---@return runnel.uv.Connection? conn
---@return string? err
function socket.connect(host, port, opts)
  check_place(host, port, "connect")
  check.options(opts, { timeout = true, tls = true }, "connect")
  local ms = opts and opts.timeout
  if ms ~= nil and (type(ms) ~= "number" or ms < 0 or ms ~= ms) then
    raise("connect: timeout: a number of ms expected, got " .. tostring(ms))
  end
  loop.check "connect"
  local tls, context = opts and opts.tls, nil
  if tls then
    local problem
    context, problem = connection.context("client", tls, "connect")
    if not context then return nil, problem end
  end
  local alarm <close> = guard.alarm(ms)
  local late = alarm.over
  local conn, err
  if port then conn, err = connect_tcp(host, port, late) else conn, err = connect_unix(host, late) end
  if not conn then
    local text = explain(err, host, port)
    return nil, err:find "^ETIMEDOUT" and timed_out.new(text) or text
  end
  conn.host = port and host or nil
  if not context then return conn end
  return connection.secure(conn, context, ms and late)
end

-- ---- listen ----

---@class runnel.uv.Listener
---@field handle any luv's; nil once it is closed
---@field ch runnel.Channel<runnel.uv.Connection>
---@field tls? runnel.uv.Handshakes for connections with TLS
local Listener = {}
Listener.__index = Listener

Listener.__gc = loop.release

-- The name of a connection for messages: its client's address. A client of a Unix socket has none, and libuv reads
-- uninitialised memory if asked for it.
local function name_of(handle, path)
  if path then return "a client of " .. path end
  local ip, port = connection.address(handle, handle.getpeername)
  return ip and ip .. ":" .. port or "a client of a closed socket"
end

-- Makes luv's callback for connections. libuv does not report the next connection until this one has been accepted.
-- While the channel is full, the listener must not keep the loop running, and the loop must not keep the listener
-- alive; so the callback refers to the listener only through the slot, which is empty then.
local function acceptor(new_handle, path)
  local slot = { listener = nil, waiting = false, stops = 0 }
  local accept

  local function stop(self)
    slot.stops, slot.listener = slot.stops + 1, nil
    if self.handle then self.handle:unref() end
  end

  -- Call it once for each stop.
  local function go_on(self)
    slot.stops = slot.stops - 1
    if slot.stops > 0 or not self.handle then return end
    slot.listener = self
    self.handle:ref()
    if slot.waiting then accept(self) end
  end

  local function deliver(self, conn)
    if offer(self.ch, conn) then return end
    stop(self)
    put_later(self.ch, conn, function(accepted)
      if not accepted or not self.handle then conn:close() end
      go_on(self)
    end)
  end

  function accept(self)
    slot.waiting = false
    local handle = new_handle()
    loop.made_by(handle, self.handle)
    if not self.handle:accept(handle) then return loop.close(handle) end
    local conn, tls = connection.new(handle, name_of(handle, path)), self.tls
    if not tls then return deliver(self, conn) end
    local is_full = tls:begin(conn, function(ready, was_full)
      if ready then deliver(self, conn) end
      if was_full then go_on(self) end
    end)
    if is_full then stop(self) end
  end

  function slot.on_connection(err)
    if err or loop.over then return end -- the client has gone, or there was no descriptor for it
    slot.waiting = true
    if slot.listener then accept(slot.listener) end
  end
  return slot
end

-- Listens with a bound handle. Returns the channel of connections, or nil and an error.
local function start(handle, new_handle, tls, path)
  local self = setmetatable({ handle = handle, ch = chan(BUFFERED), tls = tls }, Listener)
  loop.keep(handle, self)
  local slot = acceptor(new_handle, path)
  slot.listener = self
  local ok, err, name = handle:listen(BACKLOG, slot.on_connection)
  if not ok then
    loop.release(self)
    return nil, name or err
  end
  core.internal.on_close(self.ch, function()
    loop.release(self)
    slot.listener = nil
    if tls then tls:close() end
    repeat
      local conn = self.ch:poll() -- a connection without a taker
      if conn then conn:close() end
    until not conn
  end)
  return self.ch
end

local function listen_unix(path, mode, tls)
  if too_long(path) then return nil, nil, too_long(path) end
  local handle = loop.made(uv.new_pipe(false), "uv.listen", path)
  local ok, err = with_address(handle, "bind", path)
  if ok and mode then ok, err = uv.fs_chmod(path, mode) end -- before listen, while no client can connect
  local ch
  if ok then ch, err = start(handle, function() return uv.new_pipe(false) end, tls, path) else loop.close(handle) end
  return ch, path, err
end

local function listen_tcp(host, port, tls)
  local addresses, err = addresses_of(host)
  for _, address in ipairs(addresses or {}) do
    local handle = uv.new_tcp()
    local ok
    ok, err = with_address(handle, "bind", address, port)
    if ok then
      local ch
      ch, err = start(handle, uv.new_tcp, tls)
      if ch then
        local actual = handle:getsockname().port
        loop.made(handle, "uv.listen", host .. ":" .. actual)
        return ch, actual
      end
    else
      loop.close(handle)
    end
  end
  return nil, nil, err
end

---@class runnel.uv.ListenOptions
---@field mode? integer the file mode of a Unix socket, as in `tonumber("600", 8)`
---@field tls? runnel.tls.ServerOptions|runnel.tls.Context encrypt; only connections whose handshake is complete are put
---on the channel
---@field timeout? number with tls: how many ms a handshake may take, default 10000
---@field failed? fun(err: string) with tls: is called for each handshake that fails

local LISTEN_OPTIONS = {
  failed = check.kinds.callable, mode = check.kinds.integer(0, check.MOST_MODE), timeout = check.kinds.ms(1),
  tls = true,
}

-- What the options say of TLS; nil if nothing. Or nil and an error.
local function handshakes_of(opts)
  local ms, failed = opts and opts.timeout, opts and opts.failed
  local tls = opts and opts.tls
  if tls then
    local context, err = connection.context("server", tls, "listen")
    return context and handshakes.new(context, ms, failed), err
  end
  if ms or failed then
    raise(("listen: %s is for connections with TLS (option tls)"):format(ms and "timeout" or "failed"))
  end
end

---Listens for connections, and returns a channel of them. Closing it stops listening and closes the connections that
---have not been taken. Parks if the host must be looked up.
---@param host string the name or address to listen on, such as "127.0.0.1", or "0.0.0.0" for all addresses; or, without
---a port, the path of a Unix socket
---@param port? integer 0 for any free port
---@param opts? runnel.uv.ListenOptions
---@return runnel.Channel<runnel.uv.Connection>? connections nil if it cannot listen
---@return any port the port, or the path; or the error
function socket.listen(host, port, opts)
  check_place(host, port, "listen")
  check.options(opts, LISTEN_OPTIONS, "listen")
  local mode = opts and opts.mode
  if mode and port then raise("listen: mode is for the path of a Unix socket, and there is a port") end
  loop.check "listen"
  local tls, problem = handshakes_of(opts)
  if problem then return nil, problem end
  loop.settle() -- a listener that has just been closed may still have the address
  local ch, where, err
  if port then ch, where, err = listen_tcp(host, port, tls) else ch, where, err = listen_unix(host, mode, tls) end
  if ch then return ch, where end
  return nil, explain(err, host, port)
end

-- ---- resolve ----

local function resolve_into(out, host)
  local addresses, err = names.look_up(host)
  for _, address in ipairs(addresses or {}) do
    if not out:put(address) then return end
  end
  out:close(err)
end

---Looks up the addresses of a host, as a channel of strings, best first.
---@param host string a name or an address
---@return runnel.Channel<string> addresses closes after the last, or with an error
function socket.resolve(host)
  check.string(host, "the name of a host", "resolve")
  check.no_zero(host, "resolve: the host")
  loop.check "resolve"
  local out = core.chan()
  guard.started(guard.go_while_open(out, guard.close, out, resolve_into, out, host), "uv.resolve")
  return out
end

return socket
