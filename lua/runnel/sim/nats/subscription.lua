---A subscription of a simulated connection to NATS, with the functions of the C module's: messages go to a function, or
---to a channel, where they wait for room.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local protocol = require "runnel.sim.nats.protocol"
local timers = require "runnel.sim.timer"

local internal = core.internal
local put_while_open = internal.moving.put_while_open

---@class runnel.sim.NatsSubscription
---@field client runnel.sim.NatsConnection
---@field id string
---@field subject string
---@field queue? string
---@field ch runnel.Channel<any> closes at the end
---@field taker table|function the metatable of messages, or the function that gets them
---@field is_direct boolean the function gets what is in a message
---@field most integer how many messages may wait for the channel
---@field most_bytes integer
---@field waiting table[] messages
---@field bytes integer their bytes
---@field delivered integer
---@field dropped integer
---@field is_full boolean it has reported that messages were dropped
---@field is_open boolean
---@field timer? runnel.sim.Timer ends a drain
---@field is_feeding boolean a go block puts messages on the channel
local Subscription = {}
Subscription.__index = Subscription

-- Closes the channel, once nothing waits for it.
local function end_channel(self)
  if not self.is_feeding then guard.close(self.ch) end
end

-- Puts the messages that wait on the channel.
local function feed(self)
  while self.waiting[1] do
    local message = table.remove(self.waiting, 1)
    self.bytes = self.bytes - #message.data
    if not put_while_open(self.ch, message) then self.waiting = {} end
  end
  self.is_feeding, self.is_full = false, false
  if not self.is_open then end_channel(self) end
end

local function drop(self)
  self.dropped = self.dropped + 1
  if self.is_full then return end
  self.is_full = true
  self.client:tell { event = "dropped", error = "Slow Consumer", subject = self.subject, dropped = self.dropped }
end

-- Puts a message on the channel, now or later.
local function put(self, message)
  if not self.is_feeding and self.ch:offer(message) then return end
  if #self.waiting >= self.most or self.bytes + #message.data > self.most_bytes then return drop(self) end
  self.waiting[#self.waiting + 1], self.bytes = message, self.bytes + #message.data
  if self.is_feeding then return end
  self.is_feeding = true
  guard.started(guard.go(guard.nothing, nil, feed, self), "conn:subscribe")
end

local function direct(self, subject, reply, text, data)
  local headers = text and protocol.parse_headers(text)
  local status = headers and headers.Status
  if status == "503" and data == "" then return self.taker("", nil, nil, self.subject, "503") end
  if reply and reply:sub(1, 8) == "$JS.ACK." then return self.taker(data, reply, 0, subject, nil, nil, headers) end
  return self.taker(data, reply, nil, subject, status, headers and headers["Nats-Pending-Messages"])
end

---A message has arrived.
---@param subject string
---@param reply? string
---@param text? string the headers
---@param data string
function Subscription:receive(subject, reply, text, data)
  self.delivered = self.delivered + 1
  if self.is_direct then
    guard.call("a subscription", direct, self, subject, reply, text, data)
    return
  end
  local message = { subject = subject, data = data, reply = reply }
  if text then
    local headers = protocol.parse_headers(text)
    message.headers, message.status, message.description = headers, headers.Status, headers.Description
  end
  if type(self.taker) == "function" then
    guard.call("a subscription", self.taker, message)
  else
    put(self, setmetatable(message, self.taker))
  end
end

---Ends it: what has arrived is still put on the channel, which then closes.
function Subscription:close()
  if not self.is_open then return end
  self.is_open = false
  if self.timer then self.timer:stop() end
  local client = self.client
  client:forget(self)
  client:send(("UNSUB %s\r\n"):format(self.id))
  client.world:later(0, client.host, end_channel, self)
end

---Ends it; the channel is closed already.
function Subscription:forget()
  self.waiting = {}
  self:close()
end

---Ends it when all has arrived that was sent before, or after some ms.
---@param ms number
---@return true? ok
---@return string? err
function Subscription:drain(ms)
  local client = self.client
  if not self.is_open then return nil, "Invalid Subscription" end
  if not client:is_connected() then return nil, "Connection Closed" end
  client:send(("UNSUB %s\r\n"):format(self.id))
  local function finish() self:close() end
  client:ping(finish)
  self.timer = timers.new_timer()
  self.timer:start(ms, 0, finish)
  return true
end

---@return integer delivered
---@return integer dropped
---@return integer pending
---@return integer bytes
function Subscription:stats() return self.delivered, self.dropped, #self.waiting, self.bytes end

---@param client runnel.sim.NatsConnection
---@param fields table
---@return runnel.sim.NatsSubscription
return function(client, fields)
  fields.client, fields.waiting, fields.bytes, fields.delivered, fields.dropped = client, {}, 0, 0, 0
  fields.is_full, fields.is_open, fields.is_feeding = false, true, false
  return setmetatable(fields, Subscription)
end
