---Datagrams: UDP sockets.
---
---    local sock <close> = assert(uv.udp { port = 5353 })
---    for datagram in sock:read() do sock:send(datagram.data, datagram.host, datagram.port) end

local core = require "runnel.core"
local check = require "runnel.internal.check"
local loop = require "runnel.uv.loop"
local names = require "runnel.uv.hostnames"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

local uv = loop.uv

-- How many datagrams wait for a take, if the program does not say.
local BUFFERED <const> = 64

---What has come.
---@class runnel.uv.Datagram
---@field data string
---@field host string the address of the sender
---@field port integer

---A UDP socket.
---@class runnel.uv.Udp
---@field dropped integer how many datagrams came while `buffer` others waited
---@field package handle any luv's; nil once it is closed
---@field package name string for messages
---@field package family "inet"|"inet6" the kind of its addresses
---@field package buffer integer
---@field package ch? runnel.Channel<runnel.uv.Datagram>
---@field package peer? string the other end, of a socket that is connected
---@field package late? string an error that the system has told of an earlier datagram
local Udp = { __sign = "sock", __name = "runnel.uv.Udp" }
Udp.__index = Udp
Udp.__gc = loop.release

local function is_address(host) return host:find "^[%d.]+$" ~= nil or host:find(":", 1, true) ~= nil end

local function family_of(address) return address:find(":", 1, true) and "inet6" or "inet" end

local function check_place(host, port, what)
  if type(host) ~= "string" or host == "" then
    raise(("%s: a host expected, got %s"):format(what, host == "" and '""' or check.article(host)))
  end
  check.no_zero(host, what .. ": the host")
  if math.type(port) ~= "integer" or port < 1 or port > 65535 then
    raise(("%s: port: an integer from 1 to 65535 expected, got %s"):format(what, check.describe(port)))
  end
end

-- Calls a method of the handle. Returns its result; or nil and the error, which names `where`. luv raises if an address
-- is invalid.
local function call(self, where, method, ...)
  local handle = self.handle
  if not handle then return nil, self.name .. ": the socket is closed" end
  local ok, result, err = pcall(handle[method], handle, ...)
  if not ok and result == "not enough memory" then error(result, 0) end
  if not ok then return nil, ("%s: EINVAL: %s"):format(where, result) end
  if result then return result end
  return nil, loop.message(err, where)
end

-- The address of a host, of the socket's kind. Parks if it must be looked up.
local function address_of(self, host)
  if is_address(host) then return host end
  local list, err = names.look_up(host)
  for _, address in ipairs(list or {}) do
    if family_of(address) == self.family then return address end
  end
  return nil, err or ("%s: it has no address of the kind %s"):format(host, self.family == "inet" and "IPv4" or "IPv6")
end

-- ---- receiving ----

-- Makes luv's callback for the socket in a list, which luv keeps after it has stopped: then the list is empty. The
-- system may tell here what became of an earlier datagram: that is for the next send.
local function receiver(list)
  return function(err, data, from)
    local self = list[1]
    if not self or loop.over then return end
    if err then self.late = loop.message(err, self.peer or self.name)
    elseif from and not self.ch:offer { data = data, host = from.ip, port = from.port } then
      self.dropped = self.dropped + 1
    end
  end
end

---The datagrams that come, as a channel of `{ data =, host =, port = }`. While `buffer` of them wait, further ones are
---dropped, and counted in `dropped`. It closes with the socket. Closing it ends receiving; a later call begins again.
---@return runnel.Channel<runnel.uv.Datagram>
function Udp:read()
  sign.own(self, "sock", "read")
  if self.ch and not self.ch:closed() then return self.ch end
  local ch, list = loop.chan(self.name, self.buffer), { self }
  self.ch = ch
  local ok, err = call(self, self.name, "recv_start", receiver(list))
  if not ok then
    ch:close(err)
    return ch
  end
  core.internal.on_close(ch, function()
    list[1] = nil
    if self.ch == ch and self.handle then self.handle:recv_stop() end
  end)
  return ch
end

-- ---- sending ----

local function take_late(self)
  local late = self.late
  self.late = nil
  return late
end

---Sends a datagram. Parks until the system has taken it; whether it arrives is unknown.
---@param data string
---@param host? string the name or address; nil: the socket is connected
---@param port? integer
---@return boolean ok
---@return string? err also the system's answer to an earlier one, such as that nothing listens there
function Udp:send(data, host, port)
  sign.own(self, "sock", "send")
  check.string(data, "a string", "send")
  if host ~= nil or not self.peer then check_place(host, port, "send") end
  if host and self.peer then raise("send: the socket is connected to " .. self.peer .. ": leave the address out") end
  local late = take_late(self)
  if late then return false, late end
  local address, err
  if host then
    address, err = address_of(self, host)
    if not address then return false, err end
  end
  local where = host and host .. ":" .. port or self.peer --[[@as string]]
  local n
  n, err = call(self, where, "try_send", data, address, port)
  if n then return true end
  if not err:find "EAGAIN" then return false, err end
  local sent = core.chan(1)
  n, err = call(self, where, "send", data, address, port, function(problem) sent:offer(problem or true) end)
  if not n then return false, err end
  local status = sent:take()
  if status == true then return true end
  return false, loop.message(status, where)
end

---Connects: only datagrams of that address come from now on, `send` needs none, and tells if nothing listens there.
---@param host string
---@param port integer
---@return boolean ok
---@return string? err
function Udp:connect(host, port)
  sign.own(self, "sock", "connect")
  check_place(host, port, "connect")
  local address, err = address_of(self, host)
  if not address then return false, err end
  if self.peer then call(self, self.peer, "connect", nil, nil) end -- luv connects a socket once
  local ok
  ok, err = call(self, host .. ":" .. port, "connect", address, port)
  self.peer, self.late = ok and address .. ":" .. port or nil, nil
  return ok ~= nil, err
end

-- ---- multicast ----

local function set_membership(self, group, interface, how)
  check.string(group, "the address of a group", how)
  check.no_zero(group, how .. ": the group")
  if interface ~= nil then
    check.string(interface, "an address of this machine", how .. ": interface")
    check.no_zero(interface, how .. ": the interface")
  end
  local ok, err = call(self, group, "set_membership", group, interface, how)
  return ok ~= nil, err
end

---Joins a group: datagrams that are sent to its address come here, too.
---@param group string its address, as "239.1.2.3"
---@param interface? string an address of this machine, whose network it is; default: the system chooses
---@return boolean ok
---@return string? err
function Udp:join(group, interface)
  sign.own(self, "sock", "join")
  return set_membership(self, group, interface, "join")
end

---Leaves a group.
---@param group string
---@param interface? string as for join
---@return boolean ok
---@return string? err
function Udp:leave(group, interface)
  sign.own(self, "sock", "leave")
  return set_membership(self, group, interface, "leave")
end

-- ---- the rest ----

---Its own address.
---@return string? ip
---@return integer port
function Udp:address()
  sign.own(self, "sock", "address")
  local name = self.handle and self.handle:getsockname()
  if name then return name.ip, name.port end
  return nil, 0
end

---Closes it, and the channel of what comes.
---@param err? any the error with which that closes
function Udp:close(err)
  sign.own(self, "sock", "close")
  loop.release(self)
  if self.ch then self.ch:close(err) end
end

Udp.__close = Udp.close

function Udp:__tostring() return ("%s: %s%s"):format(Udp.__name, self.name, self.handle and "" or " (closed)") end

local OPTIONS = {
  host = true, port = check.kinds.integer(0), buffer = check.kinds.integer(1, 0x7fffffff),
  broadcast = check.kinds.boolean, reuse = check.kinds.boolean, loopback = check.kinds.boolean,
  ttl = check.kinds.integer(0, 0x7fffffff),
}

-- The methods of luv that set some of them.
local SETTERS = { broadcast = "set_broadcast", loopback = "set_multicast_loop", ttl = "set_multicast_ttl" }

-- A socket that is being made: closed unless that ends well, so that nothing has its port.
local Opening = { __close = function(self)
  if self.sock then loop.release(self.sock) end
end }

---@class runnel.uv.udp
local udp = {}

---@class runnel.uv.UdpOptions
---@field host? string its own address, or a name; default "0.0.0.0", all of the machine; "::" for IPv6
---@field port? integer default: any free one
---@field buffer? integer how many datagrams wait for a take, default 64
---@field broadcast? boolean it may send to all machines of a network
---@field reuse? boolean other sockets may have the same port, as those that listen to a group
---@field loopback? boolean what it sends to groups comes to this machine, too, default true
---@field ttl? integer how many networks what it sends to groups may pass, default 1

---Makes a UDP socket.
---@param opts? runnel.uv.UdpOptions
---@return runnel.uv.Udp? sock a `<close>` variable closes it
---@return string? err
function udp.udp(opts)
  sign.dot(opts, "uv", "udp")
  check.options(opts, OPTIONS, "udp")
  opts = opts or {}
  local host, port = opts.host or "0.0.0.0", opts.port or 0
  if type(host) ~= "string" or host == "" then
    raise("udp: host: an address or a name expected, got " .. check.describe(host))
  end
  check.no_zero(host, "udp: the host")
  if port > 65535 then raise("udp: port: an integer from 0 to 65535 expected, got " .. port) end
  loop.check "udp"
  local list, err = { host }, nil
  if not is_address(host) then list, err = names.look_up(host) end
  if not list then return nil, err end
  loop.settle() -- a socket that has just been closed may still have the port
  local self = setmetatable({
    handle = uv.new_udp(), dropped = 0, buffer = opts.buffer or BUFFERED, family = family_of(list[1]),
    name = ("udp %s:%d"):format(host, port),
  }, Udp)
  local opening <close> = setmetatable({ sock = self }, Opening)
  loop.keep(self.handle, self)
  local ok
  ok, err = call(self, self.name, "bind", list[1], port, { reuseaddr = opts.reuse })
  for option, method in pairs(SETTERS) do
    if ok and opts[option] ~= nil then ok, err = call(self, self.name, method, opts[option]) end
  end
  if not ok then return nil, err end
  self.name = ("udp %s:%d"):format(host, (select(2, self:address())))
  loop.made(self.handle, "uv.udp", self.name)
  opening.sock = nil
  return self
end

return udp
