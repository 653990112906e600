---Simulated sockets, TCP and Unix: luv's handles for them, and the look-up of names.

local connections = require "runnel.sim.sim_connection"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local handles = require "runnel.sim.handle"

local address, check_address, fail = handles.address, handles.check_address, handles.fail
local is_any, seen_by = handles.is_any, handles.seen_by

-- After how many ms connecting fails, if no answer comes, or no host has the address.
local NO_ANSWER, NO_HOST = 127000, 3000

-- The faults of a socket, of a request to connect, and of the look-up of a name, of a host that has moved and others.
local AT_SOCKET, AT_CONNECT = { "emfile" }, { "refuse", "reset", "delay", "silent" }
local AT_LOOK_UP_MOVED, AT_LOOK_UP = { "dns", "stale", "delay" }, { "dns", "delay" }

---A TCP socket or a pipe.
---@class runnel.sim.Socket: runnel.sim.Handle
---@field stream? runnel.sim.End
---@field on_read? fun(err: string?, data: string?)
---@field ip? string its address, once it is bound or connected; of a pipe its path
---@field port? integer
---@field remote_ip? string
---@field remote_port? integer
---@field on_connection? fun(err: string?)
---@field pending? runnel.sim.End[] connections that were not accepted yet
---@field told? boolean on_connection was called for the first of them
---@field tell? fun(data: string): string? what a story says of data that it sends; nil: the data itself
---@field on_cut? fun() is called when nothing may arrive any more; no function of luv sets it
local Socket = handles.class "runnel.sim.socket"
local Pipe = handles.class("runnel.sim.pipe", Socket)

local network = {}

function network.new_tcp() return handles.new(Socket) end

function network.new_pipe() return handles.new(Pipe) end

-- ---- options ----

function Socket:nodelay() return 0 end -- luacheck: ignore 212

-- ---- addresses ----

function Socket:getsockname()
  if self.closing or not self.port then return fail "EBADF" end
  return address(self.ip, self.port)
end

function Socket:getpeername()
  if not self.stream then return fail(self.port and not self.closing and "ENOTCONN" or "EBADF") end
  return address(self.remote_ip, self.remote_port)
end

-- ---- listening ----

function Socket:bind(ip, port)
  check_address(ip, port)
  if self.port then return fail "EINVAL" end
  if not is_any(ip) and ip ~= self.host.address and not ip:find "^127%." then return fail "EADDRNOTAVAIL" end
  if port == 0 then port = self.host:free_port() end
  self.ip, self.port = ip, port
  self.is_late = self.host.listeners[port] ~= nil
  return 0
end

function Socket:listen(_, on_connection)
  if not self.port then self:bind("0.0.0.0", 0) end
  if self.is_late or self.host.listeners[self.port] then return fail "EADDRINUSE" end
  self.host.listeners[self.port] = self
  self.on_connection, self.pending, self.told = on_connection, {}, false
  return 0
end

-- Calls on_connection for the first connection that was not accepted, once.
local function tell(self)
  if self.told or self.closing or #self.pending == 0 then return end
  self.told = true
  self.on_connection()
end

function Socket:accept(client)
  local stream = self.told and table.remove(self.pending, 1)
  if not stream then return fail "EAGAIN" end
  self.told = false
  client.stream, stream.handle = stream, client
  client.ip, client.port = is_any(self.ip) and seen_by(self.ip, self.host.address) or self.ip, self.port
  client.remote_ip, client.remote_port = seen_by(self.ip, stream.remote_ip), stream.remote_port
  client.path = self.path -- of a pipe
  if #self.pending > 0 then self:later(0, tell, self) end
  return 0
end

-- ---- connecting ----

-- The host with an address, seen from another one.
local function host_at(world, from, ip)
  if ip == "0.0.0.0" or ip:find "^127%." then return from end
  return world.by_address[ip]
end

-- The answer to a connect: unless the socket was closed meanwhile, calls its callback.
local function answer(self, stream, on_connect, err)
  if self.closing then
    if stream then stream:reset() end -- the server has accepted what is closed by now
    return on_connect "ECANCELED"
  end
  self.connecting = nil
  if err then return on_connect(err) end
  self.stream, stream.handle = stream, self
  on_connect()
  stream:pump()
end

-- The request to connect has arrived at the host.
local function arrive(self, host, listener, on_connect)
  local world, from = self.world, self.host
  local ms = world:time_between(host, from)
  local fault = listener and from.machine ~= host.machine and world.faults:choose(AT_CONNECT)
  if not listener or listener.closing or fault == "refuse" then
    world:log_message(host, from, ms, fault and "refuse", "refuses the connection")
    return world:later(ms, from, function() answer(self, nil, on_connect, "ECONNREFUSED") end)
  end
  if fault == "silent" then
    world:log(host, fault, "nothing answers %s", from.name)
    return world:later(NO_ANSWER, from, function() answer(self, nil, on_connect, "ETIMEDOUT") end)
  end
  local near, far = connections.connect(world, from, host)
  near.is_pipe, far.is_pipe = self.is_pipe, self.is_pipe
  far.remote_ip, far.remote_port = self.ip, self.port
  if fault == "delay" then ms = ms + world.delays[world.faults:way(#world.delays)] end
  listener.pending[#listener.pending + 1] = far
  if fault == "reset" then
    world:log(host, fault, "the connection of %s is reset at once", from.name)
    near:reset()
    world:later(ms, from, function() answer(self, nil, on_connect, "ECONNRESET") end)
  else
    world:log(host, fault, "accepts the connection of %s", from.name)
    far.wire:send(ms, function() answer(self, near, on_connect) end)
  end
  tell(listener)
end

-- Whether connections to an address reach a listener, which may listen on another address of its host.
local function is_reached(listener, ip)
  return is_any(listener.ip) or ip == "0.0.0.0" or listener.ip == ip
end

-- Goes from one host to the other.
local function request(self, host, port, on_connect)
  local world = self.world
  local cut = world:cut(self.host, host)
  if cut then
    local answered = false
    self:later(NO_ANSWER, function()
      if not answered then answer(self, nil, on_connect, "ETIMEDOUT") end
      answered = true
    end)
    while cut do
      cut:take()
      cut = world:cut(self.host, host)
    end
    if answered then return end
    answered = true
  end
  world:may_crash(host)
  if host:is_down() then
    world:log(host, nil, "is down and refuses the connection of %s", self.host.name)
    return self:later(world:time_between(self.host, host), function() answer(self, nil, on_connect, "ECONNREFUSED") end)
  end
  local listener = host.listeners[port]
  if listener and not is_reached(listener, self.remote_ip) then listener = nil end
  if listener then host = listener.host end -- it may be a process
  core.internal.host(host.number)
  arrive(self, host, listener, on_connect)
end

function Socket:connect(ip, port, on_connect)
  check_address(ip, port)
  local world = self.world
  if self.connecting then return fail "EALREADY" end
  if self.stream then return fail "EISCONN" end
  ip = handles.plain(ip)
  if ip:find(":", 1, true) then return fail "ENETUNREACH" end
  if world.faults:choose(AT_SOCKET) then
    world:log(self.host, "emfile", "too many open files")
    return fail "EMFILE"
  end
  self.connecting = true
  local host = host_at(world, self.host, ip)
  self.remote_ip, self.remote_port = ip, port
  if not self.port then self.ip, self.port = host == self.host and ip or self.host.address, self.host:free_port() end
  if not host then
    self:later(NO_HOST, function() answer(self, nil, on_connect, "EHOSTUNREACH") end)
  else
    local ms = world:time_between(self.host, host)
    local told = world:log_message(self.host, host, ms, nil, "connects to port %d", port)
    if told then told.kind = "connect" end
    world:later(ms, nil, function() request(self, host, port, on_connect) end)
  end
  return {}
end

-- ---- streams ----

function Socket:read_start(on_read)
  if not self.stream then return fail(self.closing and "EINVAL" or "ENOTCONN") end
  if self.on_read then return fail "EALREADY" end
  self.on_read = on_read
  local stream = self.stream
  if #stream.arrived > 0 or stream.at_end or stream.broken then self:later(0, stream.pump, stream) end
  return 0
end

function Socket:read_stop()
  self.on_read = nil
  return 0
end

function Socket:try_write(data)
  if not self.stream or not self:lives() then return fail(self.connecting and "EAGAIN" or "EBADF") end
  local n, err = self.stream:try_write(data)
  if not n then return fail(err) end
  return n
end

local function nothing() end

function Socket:write(data, done)
  if not self.stream or not self:lives() then return fail "EBADF" end
  local err = self.stream:write(type(data) == "table" and table.concat(data) or data, done or nothing)
  if err then return fail(err) end
  return {}
end

function Socket:shutdown(done)
  if not self.stream or not self:lives() then return fail "ENOTCONN" end
  local err = self.stream:shutdown(done or nothing)
  if err then return fail(err) end
  return {}
end

function Socket:get_write_queue_size() return self.stream and self.stream:waiting() or 0 end

---Whether nothing arrives at the other end now.
function Socket:is_cut()
  local stream = self.stream
  return stream ~= nil and (stream.wire.silent or self.world:cut(stream.host, stream.other.host) ~= nil)
end

function Socket:stopped()
  self.on_read = nil
  if self.pending then
    if self.host.listeners[self.port] == self then self.host.listeners[self.port] = nil end
    for _, stream in ipairs(self.pending) do stream:reset() end
    self.pending = nil
  end
  if self.stream then self.stream:close() end
  self.stream = nil
end

-- The host has crashed: its system resets the connections.
function Socket:crashed()
  for _, stream in ipairs(self.pending or {}) do stream:reset() end
  if self.stream and not self.stream.closed then self.stream:reset() end
end

-- ---- pipes: Unix sockets ----

Pipe.is_pipe = true
Pipe.nodelay = false -- only sockets of TCP have it

function Pipe:bind(path)
  if self.path then return fail "EINVAL" end
  local err = self.host:make_socket(path)
  if err then return fail(err) end
  self.path, self.ip, self.is_owner = path, path, true
  return 0
end

function Pipe:listen(_, on_connection)
  if not self.path then return fail "EINVAL" end
  self.host.sockets[self.path] = self
  self.on_connection, self.pending, self.told = on_connection, {}, false
  return 0
end

function Pipe:connect(path, on_connect)
  local host = self.host
  self.connecting, self.remote_ip = true, path
  self:later(0, function()
    local err = host:find_socket(path)
    if err then return answer(self, nil, on_connect, err) end
    local listener = host.sockets[path]
    arrive(self, listener and listener.host or host, listener, on_connect)
  end)
  return {}
end

function Pipe:stopped()
  if self.is_owner then
    self.host.sockets[self.path] = nil
    if self.host.alive then self.host:remove_socket(self.path) end -- the file of a program that has ended stays
  end
  Socket.stopped(self)
end

function Pipe:getsockname() return self.closing and fail "EBADF" or self.path or "" end

function Pipe:getpeername()
  if not self.stream then return fail "ENOTCONN" end
  return self.remote_ip or ""
end

---Makes it one end of a pipe.
---@param stream runnel.sim.End
function Pipe:take_over(stream)
  self.stream, stream.handle, stream.host, stream.born = stream, self, self.host, self.host.born
end

---Opens the descriptor of a pipe.
---@param fd integer
function Pipe:open(fd)
  local stream = self.host.pipes[fd]
  if not stream then return fail "EBADF" end
  self.host.pipes[fd] = nil
  self:take_over(stream)
  return 0
end

-- ---- names ----

---luv's getaddrinfo: the names are those of the hosts, and "localhost".
function network.getaddrinfo(name, _, _, done)
  local world = current.world --[[@as runnel.sim.World]]
  local from, host, ip, fault = world:here(), world.by_name[name], nil, nil
  if name == "localhost" then ip = "127.0.0.1" elseif name:find "^%d+%.%d+%.%d+%.%d+$" then ip = name end
  if not ip then fault = world.faults:choose(host and host.old_address and AT_LOOK_UP_MOVED or AT_LOOK_UP) end
  local ms = fault == "delay" and world.delays[world.faults:way(#world.delays)] or 0
  if fault then world:log(from, fault, "looks up %s", name) end
  world:later(ms, from, function()
    if fault == "dns" then return done "EAI_AGAIN" end
    local addr = ip or host and (fault == "stale" and host.old_address or host.address)
    if not addr then return done "EAI_NONAME" end
    done(nil, { { addr = addr, family = "inet", socktype = "stream", protocol = "tcp" } })
  end)
  return {}
end

return network
