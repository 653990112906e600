---A consumer of the simulated JetStream: which messages it has delivered, who waits for more, and what was not
---acknowledged.

local json = require "runnel.json"
local protocol = require "runnel.sim.nats.protocol"
local remove = require "runnel.internal.remove"
local streams = require "runnel.sim.nats.nats_stream"

local consumers = {}

---A request for messages.
---@class runnel.sim.Pull
---@field reply string
---@field left integer messages
---@field ends number when it expires; math.huge: never
---@field every? number ms between two heartbeats
---@field beats? number when the next heartbeat is due

---@class runnel.sim.Consumer
---@field name string
---@field stream runnel.sim.Stream
---@field config table in the server's words
---@field config_text string the same as JSON
---@field created string
---@field is_durable boolean
---@field state runnel.sim.ConsumerState
---@field saved? runnel.sim.ConsumerState what the server has written for sure
---@field saved_at number when that was the state
---@field changed_at number when it was changed last
---@field pulls runnel.sim.Pull[] in the order in which they are served
---@field due integer[] messages to be delivered again
---@field is_due table<integer, true> the same
---@field used_at number when it was asked last
---@field filter? string|fun(subject: string): boolean which messages it gets; nil: all
---@field only? integer[] messages to be delivered before those from `state.next` on
local Consumer = {}
Consumer.__index = Consumer

---@class runnel.sim.ConsumerState
---@field next integer the number of the next message of the stream
---@field order integer how many deliveries there were
---@field pending table<integer, { order: integer, time: number }> what was delivered and not acknowledged
---@field npending integer
---@field counts table<integer, integer> how often messages were delivered, if more than once
---@field ncounts integer
---@field floor_order integer up to which all deliveries are acknowledged
---@field floor_seq integer the same in the stream's numbers

local function copy(state)
  local new = {}
  for key, value in pairs(state) do new[key] = value end
  new.pending, new.counts = {}, {}
  for seq, one in pairs(state.pending) do new.pending[seq] = { order = one.order, time = one.time } end
  for seq, n in pairs(state.counts) do new.counts[seq] = n end
  return new
end

-- Must be called before each change: keeps what the server has written by then.
local function touch(self)
  local now = self.stream.clock()
  if now - self.saved_at >= streams.WRITTEN then self.saved, self.saved_at = copy(self.state), now end
  self.changed_at = now
end

-- ---- what it has ----

function Consumer:matches(subject)
  local filter = self.filter
  return not filter or filter == subject or type(filter) == "function" and filter(subject)
end

---Whether it will still deliver a message, or waits for its acknowledgement.
function Consumer:needs(message)
  if not self:matches(message.subject) then return false end
  return message.seq >= self.state.next or self.state.pending[message.seq] ~= nil
end

-- The messages of the stream that it has not delivered yet.
local function unseen(self)
  local n, stream = 0, self.stream
  for _, seq in ipairs(self.only or {}) do n = n + (stream.messages[seq] and 1 or 0) end
  for seq = math.max(self.state.next, stream.first), stream.last do
    local message = stream.messages[seq]
    if message and self:matches(message.subject) then n = n + 1 end
  end
  return n
end

local INFO <const> = '{"stream_name":"%s","name":"%s","created":"%s","config":%s,'
  .. '"delivered":{"consumer_seq":%d,"stream_seq":%d},"ack_floor":{"consumer_seq":%d,"stream_seq":%d},'
  .. '"num_ack_pending":%d,"num_redelivered":%d,"num_waiting":%d,"num_pending":%d}'

---What the server says about it, as JSON.
---@return string
function Consumer:info()
  self.stream:expire()
  self:look()
  local state = self.state
  return INFO:format(self.stream.name, self.name, self.created, self.config_text, state.order, state.next - 1,
    state.floor_order, state.floor_seq, state.npending, state.ncounts, #self.pulls, unseen(self))
end

-- ---- acknowledgements ----

local function is_explicit(self) return self.config.ack_policy ~= "none" end

local function not_due(self, seq)
  if not self.is_due[seq] then return end
  self.is_due[seq] = nil
  remove(self.due, seq)
end

local function forget_count(self, seq)
  local state = self.state
  if state.counts[seq] then state.counts[seq], state.ncounts = nil, state.ncounts - 1 end
end

-- Does not wait for the acknowledgement of a message any more.
local function forget(self, seq)
  local state = self.state
  if state.pending[seq] then state.pending[seq], state.npending = nil, state.npending - 1 end
  forget_count(self, seq)
  not_due(self, seq)
end

---Plans another delivery of messages that were not acknowledged in time. Forgets those before the first message of the
---stream: it has lost their acknowledgements. (Later ones that the stream does not have are delivered again for ever:
---their numbers count as redelivered, and nothing is sent.)
function Consumer:look()
  if self.state.npending == 0 then return end
  local now, wait, list = self.stream.clock(), self.config.ack_wait / 1e6, {}
  for seq, one in pairs(self.state.pending) do
    if not self.is_due[seq] and now - one.time >= wait then list[#list + 1] = seq end
  end
  table.sort(list)
  if list[1] and list[1] < self.stream.first then touch(self) end
  for _, seq in ipairs(list) do
    if seq < self.stream.first then forget(self, seq)
    else self.due[#self.due + 1], self.is_due[seq] = seq, true end
  end
end

-- A message is finished.
local function finish(self, seq, order)
  local state = self.state
  local one = state.pending[seq]
  if one then
    state.pending[seq], state.npending = nil, state.npending - 1
    order = one.order
  end
  if state.npending == 0 then
    state.floor_order, state.floor_seq = state.order, state.next - 1
  elseif order == state.floor_order + 1 then
    state.floor_order, state.floor_seq = order, seq
    for later = seq + 1, state.next - 1 do
      local other = state.pending[later]
      if other then
        state.floor_order, state.floor_seq = other.order - 1, later - 1
        break
      end
    end
  end
  forget_count(self, seq)
  not_due(self, seq)
  self.stream:finished(seq, self)
end

-- A message is to be delivered again: at once, or after some ms.
local function back(self, seq, order, text)
  local state = self.state
  local one = state.pending[seq]
  if order <= state.floor_order or order > state.order or not one then return end
  local delay = tonumber(text:match '"delay": *(%d+)')
  if delay then
    one.time = self.stream.clock() - self.config.ack_wait / 1e6 + delay / 1e6
  elseif not self.is_due[seq] then
    self.due[#self.due + 1], self.is_due[seq] = seq, true
  end
end

---The stream has removed a message that was perhaps not acknowledged: this counts as its acknowledgement.
---@param seq integer
function Consumer:dropped(seq)
  if not self.state.pending[seq] then return end
  touch(self)
  finish(self, seq)
end

---An answer to a delivery has arrived.
---@param seq integer of the message in the stream
---@param order integer of the delivery
---@param text string "+ACK" and others
function Consumer:answered(seq, order, text)
  if not is_explicit(self) then return end
  self:look()
  touch(self)
  if text == "" or text == "+ACK" or text == "+TERM" then
    finish(self, seq, order)
  elseif text == "+WPI" then
    local one = self.state.pending[seq]
    if one then one.time = self.stream.clock() end
  elseif text:sub(1, 4) == "-NAK" then
    back(self, seq, order, text)
  end
end

-- ---- a purge ----

---Messages of the stream were purged.
---@param first integer the first message that is left of those that could be purged; if none is, the next one
---@param is_wider boolean whether others of its messages could not be purged
function Consumer:purged(first, is_wider)
  local state = self.state
  touch(self)
  if not is_wider then state.next = math.max(state.next, first) end
  for seq, one in pairs(state.pending) do
    if not self.stream.messages[seq] then
      forget(self, seq)
      state.floor_order, state.floor_seq = math.max(state.floor_order, one.order), math.max(state.floor_seq, seq)
    end
  end
  if state.npending == 0 then state.floor_order, state.floor_seq = state.order, state.next - 1 end
end

---The same as nats-server before 2.9.15 does it: it forgets all that it has delivered, and skips what is before
---`first`.
---@param first integer
function Consumer:purged_all(first)
  local state = self.state
  touch(self)
  state.next = math.max(state.next, first)
  if state.floor_seq < first then state.floor_order, state.floor_seq = state.order, first - 1 end
  state.pending, state.npending, self.due, self.is_due = {}, 0, {}, {}
end

-- ---- delivering ----

-- The next message to be delivered again, and how often it was, this time included; nil if there is none.
local function again(self)
  local state, most = self.state, self.config.max_deliver
  while self.due[1] do
    local seq = table.remove(self.due, 1)
    self.is_due[seq] = nil
    local message, n = self.stream.messages[seq], (state.counts[seq] or 1) + 1
    if not state.counts[seq] then state.ncounts = state.ncounts + 1 end
    state.counts[seq] = n
    if most > 0 and n > most then
      if state.pending[seq] then state.pending[seq], state.npending = nil, state.npending - 1 end
    elseif message then
      return message, n
    end
  end
end

-- Whether it must wait for acknowledgements before it delivers further messages.
local function is_held(self)
  local most = self.config.max_ack_pending or 0
  return is_explicit(self) and most > 0 and self.state.npending >= most
end

local function fresh(self)
  if is_held(self) then return nil end
  while self.only and self.only[1] do
    local message = self.stream.messages[table.remove(self.only, 1)]
    if message then return message end
  end
  return self.stream:next(self.state.next, self.filter)
end

-- Whether there is a message to be delivered.
local function has_one(self)
  if self.due[1] then return true end
  if is_held(self) then return false end
  local state = self.state
  if self.only and self.only[1] or self.stream:next(state.next, self.filter) then return true end
  state.next = math.max(state.next, self.stream.last + 1) -- the server has looked up to there
  return false
end

-- The subject for the answer to a delivery.
local function ack_subject(self, message, deliveries)
  return ("$JS.ACK.%s.%s.%d.%d.%d.%d.%d"):format(self.stream.name, self.name, deliveries, message.seq, self.state.order,
    message.time * 1e6 // 1 | 0, unseen(self))
end

local function with_size(message)
  local text = message.headers or "NATS/1.0\r\n\r\n"
  return text:sub(1, -3) .. ("Nats-Msg-Size: %d\r\n\r\n"):format(#message.body)
end

-- Delivers a message to a request. Returns false if there is none.
local function deliver(self, server, pull)
  touch(self)
  local state, now = self.state, self.stream.clock()
  local message, deliveries = again(self)
  if not message then
    message, deliveries = fresh(self), 1
    if not message then return false end
    state.next = math.max(state.next, message.seq + 1)
  end
  state.order = state.order + 1
  if is_explicit(self) then
    local one = state.pending[message.seq]
    if not one then
      one = { order = state.order }
      state.pending[message.seq], state.npending = one, state.npending + 1
    end
    one.time = now
  else
    state.floor_order, state.floor_seq = state.order, message.seq
  end
  local is_short = self.config.headers_only
  server:send(pull.reply, message.subject, ack_subject(self, message, deliveries),
    is_short and with_size(message) or message.headers, is_short and "" or message.body)
  if not is_explicit(self) then self.stream:finished(message.seq, self) end
  return true
end

-- ---- requests ----

-- Tells a request that it has expired.
local function tell(server, pull)
  server:send(pull.reply, pull.reply, nil, protocol.status("408 Request Timeout",
    ("Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: 0\r\n"):format(pull.left)), "")
end

-- Ends the requests that have expired, and forgets those whose answers have no subscription.
local function clean(self, server)
  local now, list = self.stream.clock(), {}
  for _, pull in ipairs(self.pulls) do
    if not server:is_heard(pull.reply) then -- luacheck: ignore 542
    elseif pull.ends <= now then tell(server, pull)
    else list[#list + 1] = pull end
  end
  self.pulls = list
end

---Delivers messages to the requests, and sends heartbeats.
---@param server runnel.sim.NatsServer
function Consumer:serve(server)
  self.stream:expire()
  self:look()
  clean(self, server)
  while self.pulls[1] and has_one(self) do
    local pull = self.pulls[1]
    if not deliver(self, server, pull) then break end
    pull.left = pull.left - 1
    table.remove(self.pulls, 1)
    if pull.left > 0 then self.pulls[#self.pulls + 1] = pull end
    if pull.every then pull.beats = self.stream.clock() + pull.every end
  end
  local now = self.stream.clock()
  for _, pull in ipairs(self.pulls) do
    if pull.beats and pull.beats <= now then
      server:send(pull.reply, pull.reply, nil, protocol.status("100 Idle Heartbeat",
        ("Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"):format(self.state.order, self.state.next - 1)), "")
      pull.beats = now + pull.every
    end
  end
end

---When `serve` is to be called next: ms since 1970, or math.huge.
---@return number
function Consumer:serves_at()
  local at = math.huge
  if not self.pulls[1] then return at end
  for _, pull in ipairs(self.pulls) do at = math.min(at, pull.ends, pull.beats or math.huge) end
  for seq, one in pairs(self.state.pending) do
    if not self.is_due[seq] then at = math.min(at, one.time + self.config.ack_wait / 1e6) end
  end
  return at
end

---Takes a request for messages.
---@param server runnel.sim.NatsServer
---@param reply string
---@param request table in the server's words
function Consumer:pull(server, reply, request)
  local now = self.stream.clock()
  local ms, every = (request.expires or 0) / 1e6, (request.idle_heartbeat or 0) / 1e6
  self.used_at = now
  if every > 0 and every * 2 > ms then
    return server:send(reply, reply, nil, protocol.status "400 Bad Request - heartbeat value too large", "")
  end
  clean(self, server)
  if #self.pulls >= self.config.max_waiting then
    return server:send(reply, reply, nil, protocol.status "409 Exceeded MaxWaiting", "")
  end
  self.pulls[#self.pulls + 1] = {
    reply = reply, left = request.batch or 1, ends = ms > 0 and now + ms or math.huge,
    every = every > 0 and every or nil, beats = every > 0 and now + every or nil,
  }
  self:serve(server)
end

---It is deleted.
---@param server runnel.sim.NatsServer
function Consumer:deleted(server)
  for _, pull in ipairs(self.pulls) do
    if server:is_heard(pull.reply) then
      server:send(pull.reply, pull.reply, nil, protocol.status "409 Consumer Deleted", "")
    end
  end
  self.pulls = {}
end

-- ---- what a server that was killed has ----

---Whether it changed so shortly before a time that the server may not have written it.
---@param time number
---@return boolean
function Consumer:may_forget(time) return self.saved ~= nil and time - self.changed_at < streams.WRITTEN end

---Brings the state back that was written for sure.
function Consumer:forget() self.state = copy(self.saved) end

---Whether it has delivered messages that the stream has lost, whose numbers are given to new ones.
---@return boolean
function Consumer:is_ahead() return self.state.next > self.stream.last + 1 end

---It will deliver what is stored with these numbers.
function Consumer:step_back()
  local state, last = self.state, self.stream.last
  state.next, state.floor_seq = math.min(state.next, last + 1), math.min(state.floor_seq, last)
  for seq in pairs(state.pending) do
    if seq > last then state.pending[seq], state.npending = nil, state.npending - 1 end
  end
end

---The server has started again.
function Consumer:recover()
  self.pulls, self.due, self.is_due, self.saved, self.saved_at = {}, {}, {}, nil, -math.huge
  for seq in pairs(copy(self.state).counts) do
    if seq < self.state.floor_seq then forget_count(self, seq) end -- even if it is not acknowledged
  end
end

-- ---- making one ----

-- The number of its first message.
local function first_of(self, config)
  local stream, policy = self.stream, config.deliver_policy
  if policy == "new" then return stream.last + 1 end
  if policy == "by_start_sequence" then return math.max(1, config.opt_start_seq or 1) end
  if policy == "last" then
    local last = stream:last_of(config.filter_subject or ">")
    return last and last.seq or stream.last + 1
  end
  if policy ~= "last_per_subject" then return 1 end
  self.only = {}
  for subject, list in pairs(stream.by_subject) do
    if self:matches(subject) then self.only[#self.only + 1] = list[#list] end
  end
  table.sort(self.only)
  return stream.last + 1
end

---Changes settings.
---@param config table completed
function Consumer:configure(config)
  local filter = config.filter_subject
  if filter == "" then filter = nil end
  self.config, self.config_text = config, assert(json.encode(config))
  self.filter = filter and (protocol.matcher(filter) or filter)
end

---@param stream runnel.sim.Stream
---@param name string
---@param config table completed
---@param created string
---@return runnel.sim.Consumer
function consumers.new(stream, name, config, created)
  local self = setmetatable({
    stream = stream, name = name, created = created, is_durable = config.durable_name ~= nil, pulls = {}, due = {},
    is_due = {}, used_at = stream.clock(), saved_at = -math.huge, changed_at = -math.huge,
  }, Consumer)
  self:configure(config)
  local first = math.max(first_of(self, config), stream.first)
  self.state = { next = first, order = 0, pending = {}, npending = 0, counts = {}, ncounts = 0, floor_order = 0,
    floor_seq = 0 }
  return self
end

return consumers
