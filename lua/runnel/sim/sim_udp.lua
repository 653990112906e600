---Simulated UDP sockets: luv's handles for them. A datagram may be lost, come late, or come twice, by a choice; and two
---that are under way arrive in any order.

local core = require "runnel.core"
local handles = require "runnel.sim.handle"

local fail, is_any, host_of = handles.fail, handles.is_any, core.internal.host

-- The longest datagram; and how many bytes the system keeps that were not read.
local LONGEST <const>, ROOM <const> = 65507, 208 * 1024

local AT_DATAGRAM = { "lost", "twice", "delay" }

---@class runnel.sim.Udp: runnel.sim.Handle
---@field ip string
---@field port? integer nil: it is not bound
---@field reuse boolean others may have the same port
---@field peer_ip? string of a socket that is connected
---@field peer_port? integer
---@field groups table<string, boolean> those that it has joined
---@field silent boolean what it sends to groups does not come to its own machine
---@field arrived table[] what was not read, while nothing reads
---@field waiting integer its bytes
---@field on_receive? fun(err: string?, data: string?, from: table?, flags: table)
local Udp = handles.class "runnel.sim.udp"

local udp = {}

function udp.new_udp()
  local self = handles.new(Udp)
  self.groups, self.reuse, self.silent, self.arrived, self.waiting = {}, false, false, {}, 0
  return self
end

local function is_group(ip)
  local first = tonumber(ip:match "^(%d+)%.")
  return first ~= nil and first >= 224 and first <= 239
end

-- ---- its own address ----

local function overlap(a, ip) return a.ip == ip or is_any(a.ip) or is_any(ip) end

function Udp:bind(ip, port, flags)
  handles.check_address(ip, port)
  local host, reuse = self.host, flags and flags.reuseaddr or false
  if self.port then return fail "EINVAL" end
  if not is_any(ip) and ip ~= host.address and not ip:find "^127%." and not is_group(ip) then
    return fail "EADDRNOTAVAIL"
  end
  if port == 0 then port = host:free_port() end
  local ports = host.machine.datagrams
  ports[port] = ports[port] or {}
  for _, other in ipairs(ports[port]) do
    if overlap(other, ip) and not (reuse and other.reuse) then return fail "EADDRINUSE" end
  end
  table.insert(ports[port], self)
  self.ip, self.port, self.reuse = ip, port, reuse
  return 0
end

function Udp:getsockname()
  if self.closing or not self.port then return fail "EBADF" end
  return handles.address(self.ip, self.port)
end

function Udp:connect(ip, port)
  if ip then handles.check_address(ip, port) end
  ip = ip and handles.plain(ip)
  if ip and ip:find(":", 1, true) then return fail "ENETUNREACH" end
  self.peer_ip, self.peer_port = ip, port
  return 0
end

function Udp:set_membership(group, _, how)
  if not is_group(group) then return fail "EINVAL" end
  if (self.groups[group] or false) == (how == "join") then
    return fail(how == "join" and "EADDRINUSE" or "EADDRNOTAVAIL")
  end
  self.groups[group] = how == "join" or nil
  return 0
end

function Udp:set_broadcast() return 0 end -- luacheck: ignore 212

function Udp:set_multicast_ttl() return 0 end -- luacheck: ignore 212

function Udp:set_multicast_loop(is_on)
  self.silent = not is_on
  return 0
end

-- ---- receiving ----

-- Gives it to the program, on its host.
local function hand_out(self, err, data, from)
  host_of(self.host.number)
  self.on_receive(err, data, from, {})
  host_of(0)
end

local function receive(self, data, from)
  if self.peer_ip and (from.ip ~= self.peer_ip or from.port ~= self.peer_port) then return end
  from = handles.address(handles.seen_by(self.ip, from.ip), from.port)
  if self.on_receive then return hand_out(self, nil, data, from) end
  if self.waiting + #data > ROOM then return end
  self.waiting = self.waiting + #data
  table.insert(self.arrived, { data, from })
end

function Udp:recv_start(on_receive)
  if self.closing then return fail "EBADF" end
  self.on_receive = on_receive
  self:later(0, function()
    while self.on_receive and not self.closing and #self.arrived > 0 do
      local one = table.remove(self.arrived, 1)
      self.waiting = self.waiting - #one[1]
      self.on_receive(nil, one[1], one[2], {})
    end
  end)
  return 0
end

function Udp:recv_stop()
  self.on_receive = nil
  return 0
end

-- ---- sending ----

-- The sockets of a machine that get what is sent to an address: of several with one port the last one, and all that
-- have joined a group.
local function receivers(machine, ip, port)
  local found = {}
  for _, socket in ipairs(machine.datagrams[port] or {}) do
    if socket.groups[ip] then found[#found + 1] = socket
    elseif not is_group(ip) and overlap(socket, ip) then found[1] = socket end
  end
  return found
end

---@class runnel.sim.Datagram
---@field sender runnel.sim.Udp
---@field data string
---@field from table the sender's address
---@field ip string
---@field port integer

-- A datagram arrives at a machine.
local function arrive(machine, datagram)
  local world, sender = machine.world, datagram.sender
  if machine:is_down() or world:cut(sender.host, machine) then return end
  local found = receivers(machine, datagram.ip, datagram.port)
  for _, socket in ipairs(found) do receive(socket, datagram.data, datagram.from) end
  if #found > 0 or not sender.peer_ip or is_group(datagram.ip) then return end
  world:later(world:time_between(machine, sender.host), sender.host, function() -- the system says that nothing listens
    if sender.on_receive and not sender.closing then sender.on_receive("ECONNREFUSED", nil, nil, {}) end
  end)
end

-- Sends a datagram to one machine.
local function carry(self, machine, datagram)
  local world, from = self.world, self.host
  local fault = from.machine ~= machine and world.faults:choose(AT_DATAGRAM)
  local ms = world:time_between(from, machine)
  if fault == "delay" then ms = ms + world.delays[world.faults:way(#world.delays)] end
  local is_lost = fault == "lost" or world:cut(from, machine) ~= nil
  world:log_message(from, machine, not is_lost and ms or nil, fault or nil, "a datagram of %d bytes to port %d",
    #datagram.data, datagram.port)
  if is_lost then return end
  for _ = 1, fault == "twice" and 2 or 1 do world:later(ms, machine, arrive, machine, datagram) end
end

function Udp:try_send(data, ip, port)
  ip, port = ip or self.peer_ip, port or self.peer_port
  handles.check_address(ip, port)
  if not self:lives() or self.closing then return fail "EBADF" end
  ip = handles.plain(ip)
  if ip:find(":", 1, true) then return fail "ENETUNREACH" end
  if #data > LONGEST then return fail "EMSGSIZE" end
  local world, own, is_local = self.world, self.host.machine, ip:find "^127%." or ip == "0.0.0.0"
  local source = not is_any(self.ip) and self.ip or is_local and "127.0.0.1" or self.host.address
  local datagram = { sender = self, data = data, from = handles.address(source, self.port), ip = ip, port = port }
  if is_local then
    carry(self, own, datagram)
  elseif is_group(ip) or ip == "255.255.255.255" then
    for _, host in ipairs(world.hosts) do
      if host ~= own or not self.silent then carry(self, host, datagram) end
    end
  elseif world.by_address[ip] then
    carry(self, world.by_address[ip], datagram)
  end
  return #data
end

function Udp:send(data, ip, port, done)
  local n, err, name = self:try_send(data, ip, port)
  if not n then return n, err, name end
  self:later(0, done)
  return {}
end

function Udp:stopped()
  self.on_receive = nil
  local list = self.host.machine.datagrams[self.port] or {}
  for i, other in ipairs(list) do
    if other == self then table.remove(list, i) break end
  end
  if #list == 0 and self.port then self.host.machine.datagrams[self.port] = nil end
end

return udp
