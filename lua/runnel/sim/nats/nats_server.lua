---A NATS server of a simulated world: connections, subscriptions, and the way of a message to them, to a stream, or to
---JetStream.

local core = require "runnel.core"
local jetstream = require "runnel.sim.nats.nats_jetstream"
local json = require "runnel.json"
local network = require "runnel.sim.network"
local protocol = require "runnel.sim.nats.protocol"
local remove = require "runnel.internal.remove"
local story = require "runnel.sim.nats.nats_story"
local timers = require "runnel.sim.timer"

local host_of = core.internal.host

local servers = {}

local PORT <const> = 4222

-- How long a silent client stays connected: the server sends two pings, one after each 2 minutes.
local SILENCE <const> = 240000

---A connection of a client.
---@class runnel.sim.NatsClient
---@field socket runnel.sim.Socket
---@field subs table<string, table> subscriptions by id
---@field out string[] what is to be sent
---@field is_open boolean
---@field is_quiet? boolean it does not get its own messages

---@class runnel.sim.NatsServer
---@field world runnel.sim.World
---@field host runnel.sim.Host
---@field clients runnel.sim.NatsClient[]
---@field exact table<string, table[]> subscriptions by subject
---@field wild table[] those to patterns
---@field max_payload integer bytes
---@field intercept? fun(subject: string, data: string): nil|false|number|table the option of World:nats
local Server = {}
Server.__index = Server
for name, method in pairs(jetstream.methods) do Server[name] = method end

-- ---- sending ----

local function write(client, text) client.out[#client.out + 1] = text end

---Sends what was written in this step.
function Server:flush()
  for _, client in ipairs(self.clients) do
    if client.out[1] then
      local text = table.concat(client.out)
      client.out = {}
      if client.is_open then client.socket:write(text) end
    end
  end
end

-- The subscriptions that get a message to a subject: all, but one of each queue.
local function receivers(self, subject, but)
  local list, queues = {}, nil
  local function add(sub)
    if but and sub.client == but then return end
    local queue = sub.queue
    if not queue then
      list[#list + 1] = sub
      return
    end
    queues = queues or {}
    local members = queues[queue]
    if not members then
      members = {}
      queues[queue], queues[#queues + 1] = members, members
    end
    members[#members + 1] = sub
  end
  for _, sub in ipairs(self.exact[subject] or {}) do add(sub) end
  for _, sub in ipairs(self.wild) do
    if sub.matches(subject) then add(sub) end
  end
  for _, members in ipairs(queues or {}) do
    list[#list + 1] = members[#members == 1 and 1 or self.world.faults:way(#members)]
  end
  return list
end

---Whether there is a subscription to a subject.
---@param subject string
---@return boolean
function Server:is_heard(subject)
  if self.exact[subject] then return true end
  for _, sub in ipairs(self.wild) do
    if sub.matches(subject) then return true end
  end
  return false
end

---Sends a message to the subscriptions to a subject; returns whether there is one.
---@param to string
---@param subject string which the message shows
---@param reply? string
---@param headers? string
---@param body string
---@param but? runnel.sim.NatsClient does not get it
---@return boolean
function Server:send(to, subject, reply, headers, body, but)
  local list = receivers(self, to, but)
  for _, sub in ipairs(list) do write(sub.client, protocol.msg(subject, sub.id, reply, headers, body)) end
  return #list > 0
end

-- ---- what clients send ----

local function go_on(self, client, subject, reply, headers, body)
  local is_taken
  if subject:sub(1, 4) == "$JS." then is_taken = self:to_jetstream(subject, reply, body)
  else is_taken = self:to_stream(subject, reply, headers, body) end
  is_taken = self:send(subject, subject, reply, headers, body, client.is_quiet and client or nil) or is_taken
  if not is_taken and reply then self:send(reply, reply, nil, protocol.status "503", "") end
end

-- A message has come: it goes its way, unless the program's function says otherwise.
local function publish(self, client, words, headers, body)
  local subject, reply = words:match "^(%S+) ?(%S*)$"
  if reply == "" then reply = nil end
  local what = self.intercept and self.intercept(subject, body)
  if what == nil then return go_on(self, client, subject, reply, headers, body) end
  if type(what) == "table" and reply then
    self:send(reply, reply, nil, nil, assert(json.encode { error = what }))
  elseif type(what) == "number" then
    self.world:later(what, self.host, function()
      go_on(self, client, subject, reply, headers, body)
      self:flush()
      self:plan()
    end)
  end
end

local function unsubscribe(self, sub)
  if not sub then return end
  sub.client.subs[sub.id] = nil
  if sub.matches then return remove(self.wild, sub) end
  local list = self.exact[sub.subject]
  remove(list, sub)
  if #list == 0 then self.exact[sub.subject] = nil end
end

local function subscribe(self, client, words)
  local subject, queue, id = words:match "^(%S+) (%S+) (%S+)$"
  if not subject then subject, id = words:match "^(%S+) (%S+)$" end
  local sub = { client = client, subject = subject, queue = queue, id = id, matches = protocol.matcher(subject) }
  client.subs[id] = sub
  if sub.matches then
    table.insert(self.wild, sub)
  else
    local list = self.exact[subject] or {}
    self.exact[subject], list[#list + 1] = list, sub
  end
end

-- Ends a connection.
local function leave(self, client)
  if not client.is_open then return end
  client.is_open = false
  if not client.socket.closing then client.socket:close() end
  remove(self.clients, client)
  for i = #self.wild, 1, -1 do
    if self.wild[i].client == client then table.remove(self.wild, i) end
  end
  for _, sub in pairs(client.subs) do
    if not sub.matches then unsubscribe(self, sub) end
  end
  self:serve()
end

local HANDLERS = {
  PUB = publish,
  SUB = subscribe,
  UNSUB = function(self, client, words) unsubscribe(self, client.subs[words:match "^%S+"]) end,
  PING = function(_, client) write(client, "PONG\r\n") end,
  CONNECT = function(_, client, words)
    local options = json.decode(words) or {}
    client.is_quiet = options.echo == false
  end,
}

-- A connection that is silent stays open for a while.
local function suspect(self, client)
  self.world:later(SILENCE, self.host, function()
    if client.is_open and client.socket:is_cut() then leave(self, client) end
  end)
end

local function accept(self, listener)
  local socket = network.new_tcp()
  socket.tell = story.of_server
  listener:accept(socket)
  local client = { socket = socket, subs = {}, out = {}, is_open = true }
  self.clients[#self.clients + 1] = client
  local take = protocol.reader(function(name, words, headers, body)
    local handler = HANDLERS[name]
    if handler and client.is_open then handler(self, client, words, headers, body) end
  end)
  socket.on_cut = function() suspect(self, client) end
  socket:read_start(function(_, data)
    if not data then return leave(self, client) end
    take(data)
    self:flush()
    self:plan()
  end)
  socket:write(('INFO {"server_name":%q,"version":"2.9.10","headers":true,"jetstream":true,"max_payload":%d}\r\n')
    :format(self.host.name, self.max_payload))
end

-- ---- starting ----

---What a server keeps from one start to the next one.
---@param world runnel.sim.World
---@param sync_interval number ms
---@return table kept
function servers.disk(world, sync_interval)
  return { world = world, streams = {}, names = 0, led_at = 0, sync_interval = sync_interval }
end

---Starts the server of the host that runs.
---@param world runnel.sim.World
---@param kept table of `disk`
---@param max_payload integer
---@param intercept? function
---@return runnel.sim.NatsServer
function servers.start(world, kept, max_payload, intercept)
  local host = world:here()
  local self = setmetatable({
    world = world, host = host, kept = kept, clients = {}, exact = {}, wild = {}, streams = kept.streams,
    max_payload = max_payload, intercept = intercept,
    clock = function() return world:time() end, timer = timers.new_timer(),
  }, Server)
  if host.ended_at then self:recover() end
  local listener = network.new_tcp()
  listener:bind("0.0.0.0", PORT)
  listener:listen(128, function()
    host_of(host.number)
    accept(self, listener)
  end)
  return self
end

return servers
