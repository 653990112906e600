---A stream's message as a program sees it: its contents, and the answer to its delivery.

local check = require "runnel.internal.check"
local jetstream = require "runnel.nats.jetstream"

local stream_message = {}

-- ---- messages ----

---The reader's part that messages use (runnel.nats.reader).
---@class runnel.nats.MessageOwner
---@field conn runnel.nats.Connection
---@field name? string of the consumer, if messages are acknowledged
---@field consumer? string its name at the server
---@field acks? "explicit"|"taken" acknowledged by the program, or by the reader
---@field heard number when the server was last heard of
---@field memory runnel.nats.AckMemory
---@field answered? fun() called after each answer

---A message of a stream.
---@class runnel.nats.StreamMessage
---@field value any the bytes decoded by the encoding
---@field data string its bytes
---@field subject string
---@field sequence integer its number in the stream
---@field time number when the stream has stored it: ms since 1970
---@field deliveries integer how often it was delivered, this time included
---@field pending integer how many messages the consumer has after it
---@field headers? table<string, string>
---@field private raw runnel.nats.Message
---@field private reader runnel.nats.MessageOwner
---@field private newer? runnel.nats.StreamMessage another delivery of it
local Message = { __name = "stream message" }

function Message:__index(key)
  local method = Message[key]
  if method ~= nil then return method end
  if key == "value" or key == "data" or key == "headers" then return self.raw[key] end
end

---Answers the delivery, once; false if it was already answered, or the connection is closed.
---@param self runnel.nats.StreamMessage
---@param text string in the server's words
---@return boolean
function stream_message.answer(self, text)
  local of = self.reader
  if self.is_answered or not of.name then return false end
  self.is_answered = true
  of.conn:unbeat(self.ack_subject)
  if self.newer then stream_message.answer(self.newer, text) end
  local subject = self.ack_subject
  if text == "+ACK" or text == "+TERM" then
    subject = self.final_subject
    of.memory:add(subject, of.heard)
  end
  local ok = of.conn.core:publish(subject, text, nil) == true
  if of.answered then of.answered() end
  return ok
end
local answer = stream_message.answer

---The server has redelivered the message while the program works on it: its answer will cover that delivery, too. False
---if it was already answered: the answer is lost, or the message was given back.
---@param newer runnel.nats.StreamMessage
---@return boolean
function Message:delivered_again(newer)
  if self.is_answered then return false end
  if self.newer then return self.newer:delivered_again(newer) end
  self.newer = newer
  return true
end

---Acknowledges it: no redelivery. False if it was already answered, or the source does not acknowledge.
---@return boolean
function Message:ack() return self.reader.acks == "explicit" and answer(self, "+ACK") end

---Gives it back for redelivery: at once, or after `ms`.
---@param ms? number
---@return boolean
function Message:nak(ms)
  if ms ~= nil then check.ms(ms, 1, "nak: ms") end
  if self.reader.acks ~= "explicit" then return false end
  return answer(self, jetstream.nak(ms))
end

---Gives it up: no redelivery, although it was not processed.
---@return boolean
function Message:term() return self.reader.acks == "explicit" and answer(self, "+TERM") end

---Reports progress: ack_wait starts anew.
---@return boolean
function Message:progress()
  if self.is_answered or self.reader.acks ~= "explicit" then return false end
  return self.reader.conn.core:publish(self.ack_subject, "+WPI", nil) == true
end

local ACK = "^(%$JS%.ACK%.[^.]+%.([^.]+)%.(%d+)%.(%d+)%.)(%d+)(%.(%d+)%.(%d+))$"
local LONG_ACK = "^(%$JS%.ACK%.[^.]+%.[^.]+%.[^.]+%.([^.]+)%.(%d+)%.(%d+)%.)(%d+)(%.(%d+)%.(%d+).*)$"

---Makes a message from the server's message, by the subject for its acknowledgement. Returns nil if it is another
---consumer's.
---@param owner runnel.nats.MessageOwner
---@param raw runnel.nats.Message
---@return runnel.nats.StreamMessage?
function stream_message.new(owner, raw)
  local reply = raw.reply
  if not reply then return nil end
  local before, consumer, deliveries, sequence, order, after, time, pending = reply:match(ACK)
  if not before then before, consumer, deliveries, sequence, order, after, time, pending = reply:match(LONG_ACK) end
  if not before or consumer ~= owner.consumer then return nil end
  -- Its acknowledgement names 0 instead of the number of the delivery. A server that has lost state gives that number
  -- to another delivery, and nats-server 2.9.15 to 2.10.13 would then take the messages before this one for
  -- acknowledged.
  return setmetatable({
    raw = raw, reader = owner, ack_subject = reply, final_subject = before .. "0" .. after,
    subject = raw.subject, sequence = math.tointeger(sequence), order = math.tointeger(order),
    deliveries = math.tointeger(deliveries), time = math.tointeger(time) / 1e6, pending = math.tointeger(pending),
  }, Message)
end

return stream_message
