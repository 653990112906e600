---Reads a stream: asks a consumer for as many messages as there is room for, and hands each to a function.
---
---The server redelivers a message that is not acknowledged within ack_wait. A beat extends that for as long as the
---owner of the reader keeps the message.
---
---The server may hold several requests of a reader. It serves them in turns, and a message does not name its request:
---the reader counts how many messages may still come for all of them together. When a request expires, the server says
---how many messages it has not sent.

local core = require "runnel.core"

local acks = require "runnel.nats.internal.acks"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local keepers = require "runnel.queue.keeper"
local patience = require "runnel.nats.internal.patience"
local settling = require "runnel.nats.internal.settling"
local silence = require "runnel.nats.internal.silence"
local stream_message = require "runnel.nats.stream_message"

local now = core.now

local reader = {}

---What a reader is made of.
---@class runnel.nats.ReaderOptions
---@field conn runnel.nats.Connection
---@field consumer runnel.nats.Consumer which has been opened
---@field what string the start of its errors, as in "source"
---@field batch integer how many messages may be under way; asks again when there is room for half of them
---@field room fun(): integer how many messages may come now
---@field take fun(message: runnel.nats.StreamMessage) called with each message; must not park
---@field ended fun(err: any) called when the reader has ended, or ends after the messages that are on their way
---@field over? fun() called after the last message
---@field renewed? fun(info: table) called when the consumer was made again, with what the server says about it
---@field encoding string of the values
---@field decode fun(data: string): any, string?
---@field acks? "explicit"|"taken"
---@field is_worker? boolean if it has no message, asks even for a single one; and drops messages that have waited
---longer than ack_wait because Lua was busy: the server has redelivered them
---@field answered? fun(message: runnel.nats.StreamMessage)
---@field failing? fun(why: string) called when it has heard nothing for some seconds, once each time

---@class runnel.nats.Reader: runnel.nats.MessageOwner, runnel.nats.ReaderOptions
---@field private asked integer messages that may still come
---@field private nrequests integer the number of the last request
---@field private oldest integer answers to requests with a lower number are ignored
---@field private asked_at number when the last request was sent
---@field private is_looking boolean it looks for the consumer, and does not ask meanwhile
---@field private is_closed boolean
---@field private silence runnel.nats.Silence
---@field private gone_since? number since when the consumer is missing
---@field private idle number when the last message has come, or the stream was asked for the next one
---@field private newest? runnel.nats.StreamMessage the latest one of a named consumer since the connection was made
---@field private known number until when messages were stored (ms since 1970) of which all have been delivered;
---math.huge if it has got none yet
---@field private is_tidying boolean finished messages are being removed, or that was given up
---@field private late? { sequence?: integer, since: number, began?: number } the stream has a message that does not
---come, or (without a number) does not answer; `since`: when it was asked last, `began`: at first
local Reader = {}
Reader.__index = Reader

-- ---- asking ----

local function send(self, room)
  local time = now()
  if self.asked == 0 then self.heard = time end
  self.nrequests, self.asked, self.asked_at = self.nrequests + 1, self.asked + room, time
  self.conn.core:publish(("$JS.API.CONSUMER.MSG.NEXT.%s.%s"):format(self.consumer.stream, self.consumer.id),
    ('{"batch":%d,"expires":%d,"idle_heartbeat":%d}')
      :format(room, jetstream.ns(patience.request), jetstream.ns(patience.reader_heartbeat)),
    self.inbox .. "." .. self.nrequests)
end

---Asks for messages if there is room for enough of them. Call it when there may be more room.
function Reader:ask()
  if self.is_closed or self.is_looking or not self.settling:may_ask() then return end
  local room = self.room() - self.asked
  if room > 0 and (room * 2 >= self.batch or self.is_worker and self.asked == 0) then send(self, room) end
end

-- Forgets the sent requests, which are or may be lost.
local function forget_requests(self) self.asked, self.oldest = 0, self.nrequests + 1 end

-- ---- the end ----

---Ends the reader. Messages on their way that need an acknowledgement still come, so that their owner can give them
---back; otherwise they would be redelivered only after ack_wait.
---@param err any
function Reader:close(err)
  if self.is_closed then return end
  self.is_closed = true
  if not (self.acks and self.subscription:begin_drain(patience.drain)) then self.sub:close() end
  self.remove_listener()
  self.silence:over()
  self.wake:offer "closed"
  self.consumer:close()
  self.ended(err)
end

-- ---- silence and refusals ----

-- Called when the consumer is open: now messages are expected.
local function expect(self)
  if self.consumer.id == self.consumer_id then return end
  self.consumer_id, self.ack_start, self.order = self.consumer.id, nil, 0
end

-- Whether a consumer that is missing was deleted by an operator. Another process may make it anew (consumers.lua), and
-- the cluster may be slow.
local function is_deleted(self)
  self.gone_since = self.gone_since or now()
  return now() - self.gone_since >= patience.consumer_back
end

-- Repeats the requests if the consumer exists, after the server was silent or has refused a request. `why`: what is
-- wrong if the consumer exists; nil: perhaps nothing.
local function look_after(self, since, why)
  forget_requests(self)
  self.is_looking = true
  -- A consumer without a name is replaced: what the old one still sends comes again from the new one.
  if not self.name then self.consumer_id, self.ack_start = nil, nil end
  local info, err, code, is_same = self.consumer:look(self.last)
  self.is_looking = false
  if code ~= jetstream.NO_CONSUMER then self.gone_since = nil end
  if self.is_closed then
    self.consumer:close() -- it may have been made after `close`
  elseif code == jetstream.NO_STREAM then
    self:close(("%s: the stream %q was deleted"):format(self.what, self.consumer.stream))
  elseif code == jetstream.NO_CONSUMER and is_deleted(self) then
    self:close(("%s: the consumer %q of the stream %q was deleted")
      :format(self.what, self.consumer.id, self.consumer.stream))
  elseif info then
    if self.renewed and self.name and not is_same then self.renewed(info) end
    expect(self)
    if is_same then self.memory:send_again(self.conn, patience.look) end
    forget_requests(self)
    if why then self.silence:goes_on(since, why) end
  elseif code == jetstream.NO_CONSUMER then
    self.silence:goes_on(since, ("there is no consumer %q of the stream %q"):format(self.consumer.id,
      self.consumer.stream))
    self.wake:offer "gone" -- looks again, even if there is no room for messages
  else
    self.silence:goes_on(since, tostring(err))
  end
end

-- Whether requests are lost: nothing arrives, or the last request has not ended in time.
local function is_silent(self)
  local time = now()
  return self.asked > 0 and (time - self.heard > patience.reader_silence
    or time - self.asked_at > patience.request + patience.reader_silence)
end

-- Whether the server of the consumer is behind the stream: the consumer sends heartbeats, and not the message that the
-- stream has. Parks.
local function is_behind(self)
  local late, time = self.late, now()
  if late then return time - late.since > patience.reader_silence end
  if not self.consumer.missing or self.asked == 0 or time - self.idle < patience.reader_idle then return false end
  self.idle = time -- asks again after the same time
  local sequence, err = self.consumer:missing(self.last)
  if err and tostring(err):find("does not permit", 1, true) then
    self.idle = math.huge
  elseif sequence ~= false and self.asked > 0 then -- nil: nobody has answered
    self.late = { since = now(), sequence = sequence }
  end
  return false
end

-- Asks again, also for the message: it may have come meanwhile, have gone to another process, or be removed. If not,
-- replaces a consumer without a name: the new one may be on another server.
local function catch_up(self)
  local late = self.late
  local sequence, err = self.consumer:missing(self.last)
  if sequence ~= late.sequence then self.late = nil end
  if self.is_closed or not self.late then return end
  late.began = late.began or late.since
  local why = sequence and ("the stream %q has message %d, and the server of the consumer does not send it")
    :format(self.consumer.stream, sequence) or tostring(err)
  if self.name or not sequence then self.silence:goes_on(late.began, why) else look_after(self, late.began, why) end
  late.since = now()
end

-- What is wrong with a consumer that exists; nil: perhaps nothing.
local function why_silent(self, event)
  if event and event ~= "refused" then return nil end
  return ("the consumer %q of the stream %q %s"):format(self.consumer.id, self.consumer.stream,
    event and "refuses requests" or "does not answer")
end

-- Detects requests that were lost with the connection or with the server, and a consumer that is behind.
local function watch(self)
  while not self.is_closed do
    local event = core.alts { self.wake, core.timeout(self.settling:look_in(patience.reader_heartbeat)) }
    local is_late = not event and is_silent(self)
    local since = event and now() or self.heard
    if event == "refused" or event == "gone" then core.sleep(patience.reader_refused) end
    if is_late then core.sleep(patience.catch_up) end -- Lua may have computed
    if self.is_closed then return end
    if event or is_late and is_silent(self) then look_after(self, since, why_silent(self, event))
    elseif is_behind(self) then catch_up(self) end
    self.settling:ends()
    self:ask()
    if self.asked == 0 then -- there is no room, so nothing is expected
      self.late = nil
      self.silence:over()
    end
  end
end

-- ---- arrivals ----

-- Handles the server's answer to a request. `left`: how many messages it has not sent.
local function on_status(self, status, number, left)
  self.heard = now()
  if number and number < self.oldest then return end -- a forgotten request
  if (status == "100" or status == "408" or status == "404") and not self.late then self.silence:over() end
  if status == "100" then return end -- a heartbeat
  if status == "408" or status == "404" then
    -- If the last request has ended, so have all, even lost ones.
    self.asked = number == self.nrequests and 0 or math.max(0, self.asked - (left or self.batch))
    return self:ask()
  end
  forget_requests(self)
  self.is_looking = true -- asks for nothing until then
  self.wake:offer "refused"
end

local function arrive(self, data, ack, age, subject, headers)
  local message = stream_message.new(self, data, ack, subject, headers)
  if not message then return end
  self.heard = now()
  self.idle, self.late = self.heard, nil
  self.silence:over()
  if self.asked > 0 then self.asked = self.asked - 1 end
  if not self.name then
    if message.order ~= self.order + 1 then return self.wake:offer "lost" end
    self.order, self.last = message.order, message.sequence
  elseif self.is_worker and age > self.ack_ms then
    return self:ask() -- Lua was busy for so long that the server has redelivered it
  else
    local newest = self.newest
    if not newest or message.sequence > newest.sequence then self.newest = message end
    if age > self.beat_ms then self.conn.core:publish(ack, "+WPI") end
    self:extend(message)
  end
  self.take(message)
end

local function receive(self, data, ack, age, subject, status, left, headers)
  if age then
    arrive(self, data, ack, age, subject, headers)
  elseif status then
    on_status(self, status, tonumber(subject:match "%.(%d+)$"), tonumber(left))
  end
end

---Extends the lease of a message from now on, until it is answered, even if it had a limit.
---@param message runnel.nats.StreamMessage
function Reader:extend(message)
  stream_message.unbeat(message)
  message.beat = self.conn.core:beat(message.ack_subject, "+WPI", self.beat_ms, self.back) or false
end

-- ---- opening ----

-- Starts, or restarts, the removal of finished messages. There may be some if the server was killed, even before this
-- program began.
local function tidy(self)
  if not self.consumer.tidy then return end
  if self.tidying then core.cancel(self.tidying, "the connection was lost again") end
  if self.newest and not self.is_tidying then self.known = self.newest.time end
  self.newest, self.is_tidying = nil, true
  self.tidying = guard.started(guard.go(guard.nothing, nil, function()
    self.consumer:tidy(function() return self.is_closed end, self.known)
    self.is_tidying = false
  end), self.what)
end

-- Called when nothing comes any more.
local function over(self)
  self:close(self.conn.end_reason)
  if self.tidying then core.cancel(self.tidying, "the source is closed") end
  if self.over then self.over() end
end

---Opens a reader. Its consumer has been opened, which has returned `info`.
---@param self runnel.nats.ReaderOptions
---@param info table
---@return runnel.nats.Reader? reader, string? err
function reader.open(self, info)
  local conn, consumer = self.conn, self.consumer
  self.asked, self.nrequests, self.oldest, self.heard, self.asked_at, self.order = 0, 0, 0, now(), 0, 0
  self.idle, self.known, self.is_tidying = self.heard, math.huge, false
  self.memory, self.name = acks.memory(self.heard), consumer.name
  self.silence = silence.new {
    conn = conn, what = self.what, stream = consumer.stream, consumer = consumer.name,
    tell = self.failing,
  }
  self.ack_ms = consumer.ack_ms
  self.beat_ms = math.max(1, (self.ack_ms or 30000) / 3)
  self.back = settling.back(self.ack_ms or 30000)
  self.settling = settling.new(self.ack_ms)
  self.inbox, self.wake = conn:inbox(), core.chan(1)
  expect(setmetatable(self, Reader))
  local sub, subscription = conn:subscribe(self.inbox .. ".*", nil, function(...) receive(self, ...) end)
  if not sub then return nil, subscription end
  self.sub, self.subscription = sub, subscription
  self.remove_listener = conn:on_event(function(event)
    self.settling:hear(event)
    if event.event == "reconnected" then
      forget_requests(self)
      self.wake:offer "reconnected"
      if self.name then tidy(self) end
    end
  end)
  local before
  before = keepers.on_close(sub, function()
    if before then before() end
    over(self)
  end)
  guard.started(guard.go(function(_, reason) self:close(reason) end, nil, watch, self), self.what)
  if self.name and info.delivered and info.delivered.stream_seq > 0 then tidy(self) end
  return self
end

return reader
