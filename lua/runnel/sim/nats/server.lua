---A NATS server of a simulated world: connections, subscriptions, and the way of a message to them, to a stream, or to
---JetStream.

local api = require "runnel.sim.nats.api"
local consumers = require "runnel.sim.nats.consumer"
local core = require "runnel.core"
local json = require "runnel.internal.json"
local network = require "runnel.sim.network"
local protocol = require "runnel.sim.nats.protocol"
local streams = require "runnel.sim.nats.stream"
local timers = require "runnel.sim.timer"

local host_of = core.internal.host
local _ = consumers

local servers = {}

local PORT <const> = 4222

-- How long a silent client stays connected: the server sends two pings, one after each 2 minutes.
local SILENCE <const> = 240000

-- How long JetStream has no leader if that is a fault.
local ELECTION <const> = 5000
local AT_JETSTREAM = { "leader" }

---A connection of a client.
---@class runnel.sim.NatsClient
---@field socket runnel.sim.Socket
---@field subs table<string, table> subscriptions by id
---@field out string[] what is to be sent
---@field is_open boolean

---@class runnel.sim.NatsServer
---@field world runnel.sim.World
---@field host runnel.sim.Host
---@field kept table what is on its disk: the streams, and how many names it has given
---@field clients runnel.sim.NatsClient[]
---@field exact table<string, table[]> subscriptions by subject
---@field wild table[] those to patterns
---@field streams runnel.sim.Stream[] sorted by name
---@field led_at number when JetStream has a leader, ms
local Server = {}
Server.__index = Server

-- ---- sending ----

local function write(client, text) client.out[#client.out + 1] = text end

-- Sends what was written in this step.
local function flush(self)
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

-- ---- time ----

---A time as the server writes it.
---@param ms number since 1970
---@return string
function Server:timestamp(ms) -- luacheck: ignore 212
  local s = ms // 1000 | 0
  return ("%s.%09dZ"):format(os.date("!%Y-%m-%dT%H:%M:%S", s), (ms - s * 1000) * 1000000 // 1 | 0)
end

-- Calls `serve` of the consumers when it is time for it.
local function plan(self)
  local at = math.huge
  for _, stream in ipairs(self.streams) do
    for _, consumer in ipairs(stream.consumers) do at = math.min(at, consumer:serves_at()) end
  end
  if at == math.huge or self.wakes_at and self.wakes_at <= at then return end
  self.wakes_at = at
  self.timer:start(math.max(0, at - self.clock()), 0, function()
    self.wakes_at = nil
    self:serve()
  end)
end

---Serves all consumers for which somebody waits, and sends.
function Server:serve()
  for _, stream in ipairs(self.streams) do
    for _, consumer in ipairs(stream.consumers) do
      if consumer.pulls[1] then consumer:serve(self) end
    end
  end
  flush(self)
  plan(self)
end

-- ---- streams and consumers ----

---@param name string?
---@return runnel.sim.Stream?
function Server:stream(name)
  for _, stream in ipairs(self.streams) do
    if stream.name == name then return stream end
  end
end

local function by_name(a, b) return a.name < b.name end

---@param config table completed
---@return runnel.sim.Stream
function Server:add_stream(config)
  local stream = streams.new(config, self:timestamp(self.clock()), self.clock)
  table.insert(self.streams, stream)
  table.sort(self.streams, by_name)
  return stream
end

local function remove_from(list, element)
  for i, one in ipairs(list) do
    if one == element then return table.remove(list, i) end
  end
end

---@param stream runnel.sim.Stream
function Server:remove_stream(stream) remove_from(self.streams, stream) end

---A consumer; nil if there is none. Those without a name that nobody has used for long are removed.
---@param stream runnel.sim.Stream
---@param name string
---@return runnel.sim.Consumer?
function Server:consumer(stream, name)
  local now, found = self.clock(), nil
  for i = #stream.consumers, 1, -1 do
    local consumer = stream.consumers[i]
    local most = (consumer.config.inactive_threshold or 5000000000) / 1e6
    if not consumer.is_durable and not consumer.pulls[1] and now - consumer.used_at > most then
      table.remove(stream.consumers, i)
    elseif consumer.name == name then
      found = consumer
    end
  end
  return found
end

---@param stream runnel.sim.Stream
---@param name string
---@param config table completed
---@return runnel.sim.Consumer
function Server:add_consumer(stream, name, config)
  local consumer = consumers.new(stream, name, config, self:timestamp(self.clock()))
  table.insert(stream.consumers, consumer)
  table.sort(stream.consumers, by_name)
  return consumer
end

---@param stream runnel.sim.Stream
---@param consumer runnel.sim.Consumer
function Server:remove_consumer(stream, consumer) remove_from(stream.consumers, consumer) end

---A name for a consumer that has none.
---@return string
function Server:new_name()
  self.kept.names = self.kept.names + 1
  return ("c%07d"):format(self.kept.names)
end

-- ---- JetStream ----

---JetStream has no leader for some ms: it has forgotten who waits for messages, and answers nothing.
---@param ms number
function Server:elect(ms)
  self.world:log("%s: JetStream has no leader for %.14g ms", self.host.name, ms)
  self.led_at = self.clock() + ms
  for _, stream in ipairs(self.streams) do
    for _, consumer in ipairs(stream.consumers) do consumer.pulls = {} end
  end
end

local function has_leader(self)
  if self.clock() < self.led_at then return false end
  if not self.world.faults:choose(AT_JETSTREAM) then return true end
  self:elect(ELECTION)
  return false
end

-- The consumer of an acknowledgement or of a request for messages.
local function consumer_of(self, stream_name, name)
  local stream = self:stream(stream_name)
  return stream and self:consumer(stream, name)
end

-- An answer to a delivery. Returns whether there is such a consumer.
local function take_ack(self, subject, reply, body)
  local stream, name, seq, order = subject:match "^%$JS%.ACK%.([^.]+)%.([^.]+)%.%d+%.(%d+)%.(%d+)%."
  local consumer = stream and consumer_of(self, stream, name)
  if not consumer then return false end
  consumer:answered(math.tointeger(seq), math.tointeger(order), body)
  if consumer.pulls[1] then consumer:serve(self) end
  if reply then self:send(reply, reply, nil, nil, "") end
  return true
end

local NEXT <const> = "^%$JS%.API%.CONSUMER%.MSG%.NEXT%.([^.]+)%.([^.]+)$"

-- A message to JetStream. Returns whether something has taken it.
local function to_jetstream(self, subject, reply, body)
  local is_led = has_leader(self)
  if subject:sub(1, 8) == "$JS.ACK." then return is_led and take_ack(self, subject, reply, body) end
  local stream, name = subject:match(NEXT)
  if stream then
    local consumer = is_led and consumer_of(self, stream, name)
    if consumer and reply then consumer:pull(self, reply, body ~= "" and json.decode(body) or {}) end
    return true -- otherwise the server is silent
  end
  local answer = is_led and api.answer(self, subject:sub(9), body)
  if answer and reply then self:send(reply, reply, nil, nil, answer) end
  return true
end

-- Stores a message in the stream that has its subject, and answers. Returns whether there is one.
local function to_stream(self, subject, reply, headers, body)
  for _, stream in ipairs(self.streams) do
    if stream:matches(subject) then
      if not has_leader(self) then return false end
      local answer, is_new = stream:store(subject, headers, body)
      self.world:may_crash(self.host)
      if reply then self:send(reply, reply, nil, nil, assert(json.encode(answer))) end
      for _, consumer in ipairs(is_new and stream.consumers or {}) do
        if consumer.pulls[1] then consumer:serve(self) end
      end
      return true
    end
  end
  return false
end

-- ---- what clients send ----

local function publish(self, client, words, headers, body)
  local subject, reply = words:match "^(%S+) ?(%S*)$"
  if reply == "" then reply = nil end
  local is_taken
  if subject:sub(1, 4) == "$JS." then is_taken = to_jetstream(self, subject, reply, body)
  else is_taken = to_stream(self, subject, reply, headers, body) end
  is_taken = self:send(subject, subject, reply, headers, body, client.is_quiet and client or nil) or is_taken
  if not is_taken and reply then self:send(reply, reply, nil, protocol.status "503", "") end
end

local function unsubscribe(self, sub)
  if not sub then return end
  sub.client.subs[sub.id] = nil
  if sub.matches then return remove_from(self.wild, sub) end
  local list = self.exact[sub.subject]
  remove_from(list, sub)
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
  remove_from(self.clients, client)
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
    flush(self)
    plan(self)
  end)
  socket:write(('INFO {"server_name":%q,"version":"2.9.10","headers":true,"jetstream":true,"max_payload":%d}\r\n')
    :format(self.host.name, self.max_payload))
end

-- ---- starting ----

-- What a server has written when it was killed: not the last acknowledgements, perhaps, nor what it removed for them.
local function recover(self)
  local ended_at, faults = self.kept.time(self.host.ended_at), self.world.faults
  for i = #self.streams, 1, -1 do
    if self.streams[i].config.storage == "memory" then table.remove(self.streams, i) end
  end
  for _, stream in ipairs(self.streams) do
    if stream:may_forget(ended_at) and faults:way(2) == 2 then
      self.world:log("%s: has not written that it has removed the last messages of %s", self.host.name, stream.name)
      stream:forget(ended_at)
    end
    for i = #stream.consumers, 1, -1 do
      local consumer = stream.consumers[i]
      if not consumer.is_durable then
        table.remove(stream.consumers, i)
      else
        if consumer:may_forget(ended_at) and faults:way(2) == 2 then
          self.world:log("%s: has not written the last acknowledgements of %s/%s", self.host.name, stream.name,
            consumer.name)
          consumer:forget()
        end
        consumer:recover()
      end
    end
    stream:recover()
  end
end

---What a server keeps from one start to the next one.
---@param world runnel.sim.World
---@return table kept
function servers.disk(world)
  return { streams = {}, names = 0, time = function(ms) return world:time(ms) end }
end

---Starts the server of the host that runs.
---@param world runnel.sim.World
---@param kept table of `disk`
---@param max_payload integer
---@return runnel.sim.NatsServer
function servers.start(world, kept, max_payload)
  local host = world:here()
  local self = setmetatable({
    world = world, host = host, kept = kept, clients = {}, exact = {}, wild = {}, streams = kept.streams,
    max_payload = max_payload, led_at = 0, clock = function() return world:time() end, timer = timers.new_timer(),
  }, Server)
  if host.ended_at then recover(self) end
  local listener = network.new_tcp()
  listener:bind("0.0.0.0", PORT)
  listener:listen(128, function()
    host_of(host.number)
    accept(self, listener)
  end)
  return self
end

return servers
