---A server like NATS with one JetStream stream, for simulations: it keeps what remote stages rely on, and loses,
---delays, reorders and doubles messages. Its connections are engines as in runnel.nats.internal.engine.

local rn = require "runnel"

local fake = {}

local ACK_WAIT = 500

---@class FakeServer
---@field faults { lost: number, doubled: number, delay: number } probabilities of a message, and its most ms on the way
local Server = {}
Server.__index = Server

local Connection = {}
Connection.__index = Connection

---@param random fun(): number from 0 to 1
---@param faults { lost: number, doubled: number, delay: number }
---@return FakeServer
function fake.new(random, faults)
  return setmetatable({
    random = random, faults = faults, subscriptions = {}, connections = {}, names = 0, up = true,
    stored = {}, by_subject = {}, removed = {}, last = 0, count = 0, requests = {}, starts = {},
  }, Server)
end

-- ---- the way of a message ----

-- Delivers a message by f, or loses it. Messages of one connection to the server do not overtake each other.
local function travel(self, f, connection)
  local faults, random = self.faults, self.random
  if random() < faults.lost then return end
  local times = random() < faults.doubled and 2 or 1
  for _ = 1, times do
    local at = rn.now() + random() * faults.delay
    if connection then
      at = math.max(at, connection.arrived_at + 0.001)
      connection.arrived_at = at
    end
    rn.go(function()
      rn.sleep(math.max(0, at - rn.now()))
      f()
    end)
  end
end

local function matches(subscription, subject)
  local pattern, connection = subscription.pattern, subscription.connection
  if not connection.is_alive or not connection.up or subscription.ch:closed() then return false end
  if pattern:find "[>*]$" then return subject:sub(1, #pattern - 1) == pattern:sub(1, -2) end
  return pattern == subject
end

-- Sends a message to all subscribers of `to`; returns whether there is any.
function Server:send(to, message)
  local found = false
  for _, subscription in ipairs(self.subscriptions) do
    if matches(subscription, to) and not subscription.is_draining then
      found = true
      local once = message.reply and message.reply:find("$JS.ACK.", 1, true) and true
      local arrived = false
      travel(self, function()
        -- A server does not deliver a message of a stream twice with the same subject for its acknowledgement.
        if once and arrived or not matches(subscription, to) then return end
        arrived = true
        subscription.ch:offer(message)
      end)
    end
  end
  return found
end

-- ---- the stream ----

function Server:store(subject, data, reply)
  local entry = self.by_subject[subject]
  local answer
  if entry then
    answer = '{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"}}'
  else
    self.last, self.count = self.last + 1, self.count + 1
    entry = { seq = self.last, subject = subject, data = data, deliveries = 0, due = 0 }
    self.stored[self.last], self.by_subject[subject] = entry, entry
    answer = ('{"stream":"S","seq":%d}'):format(self.last)
  end
  if reply then self:send(reply, { subject = reply, data = answer }) end
  self:dispatch()
end

function Server:remove(entry)
  if self.stored[entry.seq] ~= entry then return end
  self.stored[entry.seq], self.removed[entry.seq], self.count = nil, entry, self.count - 1
  if self.by_subject[entry.subject] == entry then self.by_subject[entry.subject] = nil end
end

-- Whether a subject has a subscriber.
function Server:is_heard(subject)
  for _, subscription in ipairs(self.subscriptions) do
    if matches(subscription, subject) and not subscription.is_draining then return true end
  end
  return false
end

-- Ends the request at a place.
function Server:expire(i)
  local request = table.remove(self.requests, i)
  self:send(request.reply, { subject = request.reply, data = "", status = "408", left = request.batch })
end

-- Delivers due messages to pending requests.
function Server:dispatch()
  local now, next_due = rn.now(), math.huge
  for seq = 1, self.last do
    local entry = self.stored[seq]
    if entry and entry.due <= now then
      local request
      repeat
        request = self.requests[1]
        if request and (request.ends <= now or not self:is_heard(request.reply)) then
          self:expire(1)
          request = false
        end
      until request ~= false
      if not request then break end
      request.batch = request.batch - 1
      table.remove(self.requests, 1)
      if request.batch > 0 then self.requests[#self.requests + 1] = request end
      entry.deliveries, entry.due = entry.deliveries + 1, now + ACK_WAIT
      self.order = (self.order or 0) + 1
      local ack = ("$JS.ACK.S.workers.%d.%d.%d.1.0"):format(entry.deliveries, seq, self.order)
      self:send(request.reply, { subject = entry.subject, data = entry.data, reply = ack })
    end
    if entry then next_due = math.min(next_due, entry.due) end
  end
  if next_due > now and next_due < (self.timer_at or math.huge) then
    self.timer_at = next_due
    rn.go(function()
      rn.sleep(math.max(next_due - now, 0.01)) -- a little late rather than early, by rounding
      if self.timer_at == next_due then self.timer_at = nil end
      self:dispatch()
    end)
  end
end

function Server:acknowledged(deliveries, seq, data)
  local entry = self.stored[seq]
  if not entry then return end
  if data == "+ACK" or data == "+TERM" then
    self:remove(entry)
  elseif entry.deliveries == deliveries then
    if data == "+WPI" then entry.due = rn.now() + ACK_WAIT end
    local delay = data:match '^-NAK {"delay":(%d+)}' or data == "-NAK" and 0
    if delay then entry.due = rn.now() + delay / 1e6 end
  end
  self:dispatch()
end

function Server:receive(subject, data, reply)
  if not self.up then return end
  local key = subject:match "^%$KV%.(.*)$"
  if key then
    local starts, raises = data:match "(%d+) (%d+)"
    self.starts[key] = { starts = tonumber(starts), raises = tonumber(raises) }
    return
  end
  local deliveries, seq = subject:match "^%$JS%.ACK%.S%.workers%.(%d+)%.(%d+)%."
  if deliveries then
    self:acknowledged(tonumber(deliveries), tonumber(seq), data)
  elseif subject:find("runnel.jobs.", 1, true) == 1 then
    self:store(subject, data, reply)
  elseif subject:find("$JS.API.CONSUMER.MSG.NEXT.", 1, true) == 1 then
    local batch, ends, every = data:match '^{"batch":(%d+),"expires":(%d+),"idle_heartbeat":(%d+)}$'
    local request = { reply = reply, batch = tonumber(batch), ends = rn.now() + ends / 1e6 }
    self.requests[#self.requests + 1] = request
    rn.go(function()
      repeat
        rn.sleep(every / 1e6)
        local at
        for i, other in ipairs(self.requests) do
          if other == request then at = i end
        end
        if at and request.ends <= rn.now() then
          self:expire(at)
          at = nil
        elseif at then
          self:send(reply, { subject = reply, data = "", status = "100" })
        end
      until not at
    end)
    self:dispatch()
  elseif not self:send(subject, { subject = subject, data = data, reply = reply }) and reply then
    self:send(reply, { subject = reply, data = "", status = "503" })
  end
end

---The server ends and starts again after some ms. It has lost the last stored messages, and for others it has wrongly
---recorded that they were acknowledged or delivered: it will not deliver these.
---@param ms number
---@param lost integer
---@param stuck integer
function Server:restart(ms, lost, stuck)
  self.up, self.requests = false, {}
  for seq = self.last, 1, -1 do
    local entry = self.removed[seq] or self.stored[seq]
    if stuck == 0 then break end
    if entry and not self.by_subject[entry.subject] or self.stored[seq] then
      if self.removed[seq] then self.count = self.count + 1 end
      stuck = stuck - 1
      self.removed[seq], self.stored[seq], self.by_subject[entry.subject] = nil, entry, entry
      entry.due = math.huge
    end
  end
  for seq = self.last, math.max(1, self.last - lost + 1), -1 do
    if self.stored[seq] then self:remove(self.stored[seq]) end
  end
  for _, connection in ipairs(self.connections) do connection:cut(ms) end
  rn.go(function()
    rn.sleep(ms)
    self.up = true
    self:dispatch()
  end)
end

-- ---- connections ----

-- The stream as a submitter uses it (runnel.nats.stages).
local JobStream = {}
JobStream.__index = JobStream

---@return table stream
function Server:stream_for(connection) return setmetatable({ server = self, connection = connection }, JobStream) end

function JobStream:reached()
  rn.sleep(self.server.random() * self.server.faults.delay)
  return self.connection.is_alive and self.connection.up and self.server.up
end

function JobStream:make() return self:reached() end -- luacheck: no self

function JobStream:position(subject)
  local entry = self:reached() and self.server.by_subject[subject]
  return entry and entry.seq
end

function JobStream:subjects(filter)
  local prefix, found = filter:match "^(.*)>$", {}
  if not self:reached() then return nil end
  for subject in pairs(self.server.by_subject) do
    if subject:sub(1, #prefix) == prefix then found[subject] = 1 end
  end
  return found
end

function JobStream:is_stuck(subject)
  local entry = self:reached() and self.server.by_subject[subject]
  return (entry and entry.due == math.huge) == true
end

function JobStream:why_idle() -- luacheck: no self
end

function JobStream:remove(subject)
  local entry = self:reached() and self.server.by_subject[subject]
  if entry then self.server:remove(entry) end
end

---@return table engine
function Server:connect()
  local connection = setmetatable({
    server = self, arrived_at = 0, is_alive = true, up = true, beats = {}, max_payload = 1000000, listeners = {},
  }, Connection)
  self.connections[#self.connections + 1] = connection
  return connection
end

function Connection:publish(subject, data, reply)
  if not self.is_alive then return nil, "closed" end
  if not self.up then return true end -- lost
  travel(self.server, function() self.server:receive(subject, data, reply) end, self)
  return true
end

function Connection:subscribe(pattern, take)
  local subscription = { connection = self, pattern = pattern, ch = rn.chan(rn.sliding_buffer(10000)) }
  table.insert(self.server.subscriptions, subscription)
  if take then rn.go(function()
    for message in subscription.ch do
      if message.reply and message.reply:find("$JS.ACK.", 1, true) == 1 then
        take(message.data, message.reply, message.age or 0, message.subject)
      else -- libnats reports only that there is no subscriber, not for which subject
        take(message.data, message.reply, nil, message.status == "503" and pattern or message.subject, message.status,
          message.left)
      end
    end
  end) end
  return subscription.ch, { begin_drain = function()
    subscription.is_draining = true
    rn.go(function()
      rn.sleep(self.server.faults.delay + 1)
      subscription.ch:close()
    end)
    return true
  end }
end

function Connection:request() end -- luacheck: no self

function Connection:end_reason() end -- luacheck: no self

function Connection:inbox()
  self.server.names = self.server.names + 1
  return "_INBOX.c" .. self.server.names
end

function Connection:beat(subject, data, ms)
  self.beats[subject] = true
  rn.go(function()
    while true do
      rn.sleep(ms)
      if not self.beats[subject] or not self.is_alive then break end
      self:publish(subject, data)
    end
  end)
  return subject
end

function Connection:unbeat(subject)
  if subject then self.beats[subject] = nil end
end

function Connection:limit(beat, ms)
  rn.go(function()
    rn.sleep(ms)
    self:unbeat(beat)
  end)
end

function Connection:alive() end -- luacheck: no self

function Connection:on_event(f)
  self.listeners[f] = true
  return function() self.listeners[f] = nil end
end

function Connection:events()
  local ch = rn.chan(rn.sliding_buffer(16))
  self:on_event(function(event) ch:offer(event) end)
  return ch
end

---The connection is lost for some ms.
function Connection:cut(ms)
  if not self.up or not self.is_alive then return end
  self.up = false
  local function tell(event)
    for f in pairs(self.listeners) do f(event) end
  end
  tell { event = "disconnected" }
  rn.go(function()
    rn.sleep(ms)
    self.up = true
    tell { event = "reconnected", outage = ms, reconnect_wait = 50 }
  end)
end

-- The counts of starts that the server has, as a worker uses them (runnel.nats.internal.counts).
local Counts = {}
Counts.__index = Counts

-- Asks again while the server is away, as runnel.nats.internal.jetstream does.
local function reached(self)
  local until_then = rn.now() + 20000
  repeat
    rn.sleep(self.server.counts_take or 0.01 + self.server.random() * self.server.faults.delay)
    if self.connection.is_alive and self.connection.up and self.server.up then return true end
  until rn.now() > until_then
  return false
end

function Counts:get(message)
  if not reached(self) then return nil, "the server is away" end
  local count = self.server.starts[message.subject]
  message.revision = count or false
  return count and { starts = count.starts, raises = count.raises, error = count.error }
end

function Counts:put(message, count)
  if not reached(self) then return false, "the server is away" end
  local starts, before = self.server.starts, message.revision
  if before ~= nil and (starts[message.subject] or false) ~= before then return false, "it has changed", true end
  starts[message.subject] = { starts = count.starts, raises = count.raises, error = count.error }
  message.revision = starts[message.subject]
  return true
end

function Counts:forget(message)
  if reached(self) then self.server.starts[message.subject] = nil end
end

function Counts:as_message(message, count) -- luacheck: no self
  return "$KV." .. message.subject, ("%d %d"):format(count.starts, count.raises)
end

---A worker of the stage "job" on a connection.
---@param connection table
---@param modules { keeper: table, serve: table, worker: table } with which it runs
---@param n integer
---@param f function
---@param opts { label: string, look?: function, limit?: number }
---@return runnel.Worker
function fake.worker(connection, modules, n, f, opts)
  local function look() return {}, nil, nil, true end
  local consumer = {
    stream = "S", name = "workers", id = "workers", ack_ms = ACK_WAIT, look = opts.look or look,
    close = function() end,
  }
  local of = modules.keeper.new {
    engine = connection, consumer = consumer, info = {}, what = "serve", queue = "job",
    starts_of = setmetatable({ server = connection.server, connection = connection }, Counts),
  }
  function of.bury() return true end
  return modules.worker.start {
    kind = "worker", n = n, timeout = opts.timeout, is_paused = false, keeper = of,
    task = modules.serve.task(connection, "job", f, opts.label),
  }
end

---Kills the process that has the connection.
function Connection:kill() self.is_alive = false end

return fake
