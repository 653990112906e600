---JetStream of a simulated NATS server: its streams and consumers, and what is sent to them. Methods of the server.

local os = os
local api = require "runnel.sim.nats.api"
local consumers = require "runnel.sim.nats.nats_consumer"
local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local remove = require "runnel.internal.remove"
local streams = require "runnel.sim.nats.nats_stream"

local jetstream = {}

-- How long JetStream has no leader if that is a fault.
local ELECTION <const> = 5000
local AT_JETSTREAM = { "leader" }

---@class runnel.sim.NatsServer
---@field kept table what is on its disk: the streams, the number of names that it has given, and `led_at`, from when on
---JetStream has a leader, ms since 1970
---@field streams runnel.sim.Stream[] sorted by name
---@field clock fun(): number ms since 1970
---@field timer runnel.sim.Timer serves the consumers
---@field wakes_at? number when it is due, ms since 1970
local Server = {}
jetstream.methods = Server

-- ---- time ----

---A time as the server writes it.
---@param ms number since 1970
---@return string
function Server:timestamp(ms) -- luacheck: ignore 212
  local ns = ms * 1e6 // 1 | 0 -- as in the subjects for acknowledgements
  return ("%s.%09dZ"):format(os.date("!%Y-%m-%dT%H:%M:%S", ns // 1000000000), ns % 1000000000)
end

---Starts the timer for the next time when a consumer is to be served.
function Server:plan()
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

---Serves all consumers that have a request for messages, and sends.
function Server:serve()
  for _, stream in ipairs(self.streams) do
    for _, consumer in ipairs(stream.consumers) do
      if consumer.pulls[1] then consumer:serve(self) end
    end
  end
  self:flush()
  self:plan()
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
  local stream = streams.new(config, self:timestamp(self.clock()), self.clock, self.kept.sync_interval)
  table.insert(self.streams, stream)
  table.sort(self.streams, by_name)
  return stream
end

---@param stream runnel.sim.Stream
function Server:remove_stream(stream) remove(self.streams, stream) end

---A consumer; nil if there is none. Removes those without a name that were not used for long.
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
function Server:remove_consumer(stream, consumer) remove(stream.consumers, consumer) end

---A name for a consumer that has none.
---@return string
function Server:new_name()
  self.kept.names = self.kept.names + 1
  return ("c%07d"):format(self.kept.names)
end

-- ---- JetStream ----

---JetStream has no leader for some ms: it forgets the requests for messages, and answers nothing.
---@param kept table what the server keeps
---@param ms number
function jetstream.elect(kept, ms)
  kept.world:tell { what = ("JetStream has no leader for %s ms"):format(decimal.format("%.14g", ms)) }
  kept.led_at = kept.world:time() + ms
  for _, stream in ipairs(kept.streams) do
    for _, consumer in ipairs(stream.consumers) do consumer.pulls = {} end
  end
end

local function has_leader(self)
  if self.clock() < self.kept.led_at then return false end
  if not self.world.faults:choose(AT_JETSTREAM) then return true end
  jetstream.elect(self.kept, ELECTION)
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

---A message to JetStream.
---@param subject string
---@param reply? string
---@param body string
---@return boolean is_taken something has taken it
function Server:to_jetstream(subject, reply, body)
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

---Stores a message in the stream that has its subject, and answers.
---@param subject string
---@param reply? string
---@param headers? string
---@param body string
---@return boolean is_taken there is one
function Server:to_stream(subject, reply, headers, body)
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

-- ---- after an end ----

-- Which part of the last messages a power cut may lose.
local PARTS <const> = { 0, 0.5, 1 }

-- By a choice, the machine had not written the last messages of a stream.
local function lose(self, stream, since)
  local n = stream:stored_since(since)
  local lost = n > 0 and math.ceil(n * PARTS[self.world.faults:way(#PARTS)]) or 0
  if lost == 0 then return end
  self.world:log(self.host, nil, "has lost the last %d messages of %s", lost, stream.name)
  stream:lose(lost)
end

---The server starts again. By a choice, it had not written the last acknowledgements when it was ended, nor that it
---removed messages for them; and its machine, when it crashed, not what was stored in the last `sync_interval`.
function Server:recover()
  local ended_at, faults = self.world:time(self.host.ended_at), self.world.faults
  local unsynced = self.host.lost_power and self.kept.sync_interval or 0
  local since = ended_at - math.max(streams.WRITTEN, unsynced)
  for i = #self.streams, 1, -1 do
    if self.streams[i].config.storage == "memory" then table.remove(self.streams, i) end
  end
  for _, stream in ipairs(self.streams) do
    if unsynced > 0 then lose(self, stream, ended_at - unsynced) end
    if stream:may_forget(since) and faults:way(2) == 2 then
      self.world:log(self.host, nil, "has not written that it has removed the last messages of %s", stream.name)
      stream:forget(since)
    end
    for i = #stream.consumers, 1, -1 do
      local consumer = stream.consumers[i]
      if not consumer.is_durable then
        table.remove(stream.consumers, i)
      else
        if consumer:may_forget(ended_at) and faults:way(2) == 2 then
          self.world:log(self.host, nil, "has not written the last acknowledgements of %s/%s", stream.name,
            consumer.name)
          consumer:forget()
        end
        if consumer:is_ahead() then
          if faults:way(2) == 1 then consumer:step_back() else
            self.world:log(self.host, nil, "will not deliver the next messages of %s to %s", stream.name, consumer.name)
          end
        end
        consumer:recover()
      end
    end
    stream:recover()
  end
end

return jetstream
