---A stream's message as a program sees it: its contents, and the answer to its delivery.

local check = require "runnel.internal.check"
local jetstream = require "runnel.nats.internal.jetstream"
local sign = require "runnel.internal.sign"
local raise = check.raise

local find, match, sub, tointeger = string.find, string.match, string.sub, math.tointeger

local stream_message = {}

-- ---- messages ----

---The fields of the reader (runnel.nats.internal.reader) that messages use.
---@class runnel.nats.MessageOwner
---@field conn runnel.nats.Connection
---@field name? string of the consumer, if messages are acknowledged
---@field consumer_id? string its name at the server
---@field ack_start? string what the subjects for acknowledgements begin with, once it is known
---@field acks? "explicit"|"taken" acknowledged by the program, or by the reader
---@field decode fun(data: string): any, string?
---@field encoding string of the values
---@field heard number when the server was last heard of
---@field memory runnel.nats.AckMemory
---@field answered? fun(message: runnel.nats.StreamMessage) called after each answer

---A message of a stream.
---@class runnel.nats.StreamMessage
---@field value any the bytes decoded by the encoding
---@field data string its bytes
---@field subject string
---@field sequence integer its number in the stream
---@field time number when the stream has stored it: ms since 1970
---@field deliveries integer how often it was delivered, this time included
---@field remaining integer how many later messages the consumer knows of
---@field headers? table<string, string>
---@field private reader runnel.nats.MessageOwner
---@field private ack_subject string the subject for its acknowledgement
---@field private order integer the consumer's number of the delivery
---@field private order_at integer where that is in the subject
---@field private rest_at integer where the rest begins
---@field private beat any of conn.core:beat, while the lease is extended
---@field private came? number when it has come, for one that waits for a take
---@field private newer? runnel.nats.StreamMessage another delivery of it
local Message = { __name = "stream message", __sign = "m" }

-- The last two numbers of the subject for the acknowledgement: the time in ns, and how many messages follow.
local AFTER <const> = "^%.(%d+)%.(%d+)"

function Message:__index(key)
  local method = Message[key]
  if method ~= nil then return method end
  if key == "value" then
    local value, why = self.reader.decode(self.data)
    if value == nil and why then
      raise(("the message to %q is not valid %s: %s"):format(self.subject, self.reader.encoding, why))
    end
    rawset(self, "value", value)
    return value
  elseif key == "time" then
    return tointeger((match(self.ack_subject, AFTER, self.rest_at))) / 1e6
  elseif key == "remaining" then
    return tointeger((select(2, match(self.ack_subject, AFTER, self.rest_at))))
  end
end

---The subject for its last acknowledgement. It names 0 instead of the consumer's number of the delivery: a server that
---has lost state gives that number to another delivery, and nats-server 2.9.15 to 2.10.13 would then take the messages
---before this one for acknowledged.
---@param self runnel.nats.StreamMessage
---@return string
function stream_message.final_subject(self)
  local ack = self.ack_subject
  return sub(ack, 1, self.order_at - 1) .. "0" .. sub(ack, self.rest_at)
end

---Ends the extension of its lease.
---@param self runnel.nats.StreamMessage
function stream_message.unbeat(self)
  if self.beat then self.reader.conn.core:unbeat(self.beat) end
  self.beat = false
end

---Answers the delivery, once; false if it was already answered, or the connection is closed.
---@param self runnel.nats.StreamMessage
---@param text? string in the server's words; nil: another program acknowledges it
---@return boolean
function stream_message.answer(self, text)
  local of = self.reader
  if self.is_answered or not of.name then return false end
  self.is_answered = true
  stream_message.unbeat(self)
  if self.newer then stream_message.answer(self.newer, text) end
  local ok = true
  if text then
    local subject = self.ack_subject
    if text == "+ACK" or text == "+TERM" then
      subject = stream_message.final_subject(self)
      of.memory:add(subject, of.heard)
    end
    ok = of.conn.core:publish(subject, text) == true
  end
  if of.answered then of.answered(self) end
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
function Message:ack()
  sign.own(self, "m", "ack")
  return self.reader.acks == "explicit" and answer(self, "+ACK")
end

---Gives it back for redelivery: at once, or after `ms`.
---@param ms? number
---@return boolean
function Message:nak(ms)
  sign.own(self, "m", "nak")
  if ms ~= nil then check.ms(ms, 1, "nak: ms") end
  if self.reader.acks ~= "explicit" then return false end
  return answer(self, jetstream.nak(ms))
end

---Gives it up: no redelivery, although it was not processed.
---@return boolean
function Message:term()
  sign.own(self, "m", "term")
  return self.reader.acks == "explicit" and answer(self, "+TERM")
end

---Reports progress: ack_wait starts anew.
---@return boolean
function Message:progress()
  sign.own(self, "m", "progress")
  if self.is_answered or self.reader.acks ~= "explicit" then return false end
  return self.reader.conn.core:publish(self.ack_subject, "+WPI") == true
end

local START = "^(%$JS%.ACK%.[^.]+%.([^.]+)%.)%d+%.%d+%.%d+%.%d+%.%d+$"
local LONG_START = "^(%$JS%.ACK%.[^.]+%.[^.]+%.[^.]+%.([^.]+)%.)%d+%.%d+%.%d+%.%d+%.%d+"

-- The beginning of all acknowledgement subjects of the reader's consumer, taken from one of them; nil if that one
-- belongs to another consumer.
local function start_of(owner, ack)
  local start, consumer = match(ack, START)
  if not start then start, consumer = match(ack, LONG_START) end
  if not start or consumer ~= owner.consumer_id then return nil end
  owner.ack_start = start
  return start
end

---Makes a message. Returns nil if it is another consumer's.
---@param owner runnel.nats.MessageOwner
---@param data string
---@param ack string the subject for its acknowledgement
---@param subject string
---@param headers? table<string, string>
---@return runnel.nats.StreamMessage?
function stream_message.new(owner, data, ack, subject, headers)
  local start = owner.ack_start
  if not (start and find(ack, start, 1, true) == 1) then
    start = start_of(owner, ack)
    if not start then return nil end
  end
  local deliveries, sequence, order_at, order, rest_at = match(ack, "^(%d+)%.(%d+)%.()(%d+)()", #start + 1)
  -- The first delivery of a message that waits for its time is none for the program.
  if headers and headers["Runnel-At"] then deliveries = math.max(1, tointeger(deliveries) - 1) end
  return setmetatable({
    data = data, ack_subject = ack, subject = subject, headers = headers, reader = owner, beat = false,
    deliveries = tointeger(deliveries), sequence = tointeger(sequence), order = tointeger(order), order_at = order_at,
    rest_at = rest_at,
  }, Message)
end

return stream_message
