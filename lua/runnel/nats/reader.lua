---Reads a stream: asks a consumer for as many messages as there is room for, and puts them on a channel.
---
---The server redelivers a message that is not acknowledged within ack_wait. While a message waits here for a take, a
---beat extends its ack_wait; so ack_wait counts from the take.

local core = require "runnel.core"
local internal = core.internal
local put_while_open = internal.moving.put_while_open

local acks = require "runnel.nats.acks"
local consumers = require "runnel.nats.consumers"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.jetstream"
local patience = require "runnel.nats.patience"
local settling = require "runnel.nats.settling"
local stream_message = require "runnel.nats.stream_message"
local tidying = require "runnel.nats.tidying"

local reader = {}

-- ---- consumers ----

-- The second in which a consumer was made: after a restart, the server reports a slightly different time. A consumer
-- made anew has another one.
local function second_of(created) return created and created:sub(1, 19) end

-- Makes a consumer unless a named one exists. `ms`: the limit for the server's answer.
local function open_consumer(self, ms)
  local conn, stream, config = self.conn, self.stream, self.config
  if self.name then
    local all = { durable_name = self.name }
    for key, value in pairs(self.defaults) do all[key] = value end
    for key, value in pairs(config) do all[key] = value end
    local info, err, code = consumers.ensure(conn, stream, self.name, all)
    if not info then return nil, err, code end
    local difference = jetstream.difference(config, info.config)
    if difference then
      return nil, ("the consumer %q exists with other settings: %s"):format(self.name, difference)
    end
    self.consumer, self.created = self.name, second_of(info.created)
    self.ack_ms = (info.config.ack_wait or 30e9) / 1e6
    return info
  end
  local all = { inactive_threshold = jetstream.ns(patience.unused), mem_storage = true, ack_policy = "none" }
  for key, value in pairs(config) do all[key] = value end
  if self.last then all.deliver_policy, all.opt_start_seq = "by_start_sequence", self.last + 1 end
  local info, err, code = jetstream.request(conn, "CONSUMER.CREATE." .. stream, { stream_name = stream, config = all },
    ms)
  if not info then return nil, err, code end
  self.consumer, self.order = info.name, 0
  -- If the consumer has to be made again, "new" means from now on.
  if config.deliver_policy == "new" and not self.last then self.last = info.delivered.stream_seq end
  return info
end

-- ---- asking ----

-- Deletes an unnamed consumer. Otherwise the server deletes it after patience.unused.
local function delete_consumer(self)
  self.conn.core:publish(("$JS.API.CONSUMER.DELETE.%s.%s"):format(self.stream, self.consumer), "", nil)
end

-- The room for further messages. With `holds`, messages in work take room, too: messages that waited behind them here
-- could run in other processes.
local function room_of(self)
  if not self.settling:may_ask() or self.rests and self.rests() then return 0 end
  return self.batch - self.asked - (self.holds and self.held or #self.waiting)
end

-- Asks for as many messages as there is room for if that is at least half a batch. With `holds`, asks for fewer if no
-- request is pending.
local function replenish(self)
  if self.is_closed then return end
  local room = room_of(self)
  local may_be_few = self.holds and self.asked == 0
  if room <= 0 or room * 2 < self.batch and not may_be_few then return end
  self.nrequests = self.nrequests + 1
  if self.asked == 0 then self.heard = core.now() end
  self.asked = self.asked + room
  self.conn.core:publish(("$JS.API.CONSUMER.MSG.NEXT.%s.%s"):format(self.stream, self.consumer),
    ('{"batch":%d,"expires":%d,"idle_heartbeat":%d}')
      :format(room, jetstream.ns(patience.request), jetstream.ns(patience.reader_heartbeat)),
    self.inbox .. "." .. self.nrequests)
end

-- Messages under way that need an acknowledgement are given back on arrival (hand_over). Otherwise they would be
-- redelivered only after ack_wait.
local function close(self, err)
  if self.is_closed then return end
  self.is_closed = true
  if not (self.acks and self.subscription:drain(patience.drain)) then self.sub:close() end
  guard.close(self.out, err)
end

-- Forgets the sent requests: they are, or may be, lost.
local function forget_requests(self) self.asked, self.oldest = 0, self.nrequests + 1 end

-- Checks whether a named consumer still exists.
local function find_consumer(self)
  return jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, self.consumer), nil, patience.look)
end

-- Replaces an unnamed consumer; the new one continues after the last message. The old one may have been lost with its
-- only server of a cluster, or may have sent messages that were lost.
local function replace_consumer(self)
  if self.consumer then delete_consumer(self) end
  self.consumer = nil -- late messages of the old one are ignored: the new one sends them again
  return open_consumer(self, patience.look)
end

-- The server is silent: repeats the requests, if the consumer exists.
local function look_after(self)
  forget_requests(self)
  local info, _, code = (self.name and find_consumer or replace_consumer)(self)
  if self.is_closed then
    if info and not self.name then delete_consumer(self) end -- it was made after on_close
    return
  end
  if not info then
    if code == jetstream.NO_STREAM then
      return close(self, ("source: the stream %q was deleted"):format(self.stream))
    end
    if code == jetstream.NO_CONSUMER then
      return close(self, ("source: the consumer %q of the stream %q was deleted"):format(self.consumer, self.stream))
    end
    return -- the server is away: the next round tries again
  end
  if self.name and second_of(info.created) == self.created then self.memory:send_again(self.conn, patience.look) end
  forget_requests(self)
  replenish(self)
end

-- Detects requests that were lost with the connection or with the server.
local function watch(self)
  while not self.is_closed do
    local event = core.alts { self.wake, core.timeout(self.settling:look_in(patience.reader_heartbeat)) }
    if self.is_closed then return end
    local is_silent = self.asked > 0 and core.now() - self.heard > patience.reader_silence and #self.sub == 0
    if event == "refused" then
      core.sleep(patience.reader_refused)
      look_after(self)
    elseif event or is_silent or self.asked == 0 and room_of(self) * 2 > self.batch then
      look_after(self)
    end
    if self.settling:ends() then replenish(self) end
  end
end

-- Handles a server's message about a request.
local function on_status(self, raw)
  if raw.status == "100" then return end -- a heartbeat
  if tonumber(raw.subject:match "%d+$" or 0) < self.oldest then return end -- a forgotten request
  local left = raw.headers and math.tointeger(raw.headers["Nats-Pending-Messages"]) or self.batch
  self.asked = math.max(0, self.asked - left)
  if raw.status == "408" or raw.status == "404" then return replenish(self) end
  self.wake:offer "refused"
end

---Reports to the server periodically that work on a message goes on. Replaces the message's beat by one without a
---limit.
---@param self table
---@param message runnel.nats.StreamMessage
function reader.beat(self, message)
  self.conn:unbeat(message.ack_subject)
  self.conn:beat(message.ack_subject, "+WPI", self.beat_ms, self.back)
end

-- Puts arriving messages on the channel `waiting`, which has room for all requested ones.
local function receive(self)
  for raw in self.sub do
    self.heard = core.now()
    if raw.status then
      on_status(self, raw)
    else
      local message = stream_message.new(self, raw)
      if message then
        self.asked, self.held = math.max(0, self.asked - 1), self.held + 1
        if self.name then
          reader.beat(self, message)
        elseif message.order ~= self.order + 1 then -- some were lost
          message = nil
          self.wake:offer "lost"
        else
          self.order, self.last = message.order, message.sequence
        end
      end
      if message then self.waiting:put(message) end
    end
  end
  self.waiting:close()
  if not self.is_closed then close(self, self.conn.end_reason) end
end

-- Puts the messages on the program's channel. Untaken messages go back to the server when it closes.
local function hand_over(self)
  local out, holds, takes = self.out, self.holds, self.acks == "taken"
  for message in self.waiting do
    if not self.is_closed and put_while_open(out, self.wrap and self.wrap(message) or message) then
      if self.name and not holds then self.conn:unbeat(message.ack_subject) end
      if takes then stream_message.answer(message, "+ACK") end
      replenish(self)
    else
      stream_message.answer(message, "-NAK")
    end
  end
end

-- Starts, or restarts, the removal of finished messages. There may be some if the server was killed, even before this
-- program began.
local function tidy(self)
  if self.tidying then core.cancel(self.tidying, "the connection was lost again") end
  self.tidying = guard.started(guard.go(guard.nothing, nil, tidying.run, self.conn, self.stream, self.name,
    function() return self.is_closed end), "source " .. self.stream)
end

-- Ends the beats and tells the server; called when the channel was closed.
local function on_close(self)
  close(self)
  self.remove_listener()
  if self.tidying then core.cancel(self.tidying, "the source is closed") end
  self.wake:offer "closed"
  if not self.name and self.consumer then delete_consumer(self) end
end

---Asks again after `rests` has returned true.
---@param self table what reader.open has got
function reader.go_on(self) replenish(self) end

---Opens a reader.
---
---    conn, stream   the connection and the stream's name
---    name           of the consumer; nil: a consumer of its own, which delivers each message once, without
---                   acknowledgements
---    config         settings that the consumer must have, in the server's words
---    defaults       settings for a new consumer
---    batch          how many messages may wait here; with holds, also those that are not answered count
---    encoding, acks ("explicit", "taken" or nil)
---    holds          keep messages alive after the take as well, until they are answered
---    rests          a function: whether to ask for nothing now. Afterwards, call reader.go_on
---    wrap           a function for what is put on the channel instead of a message
---@param self table
---@param what string
---@return runnel.Channel<any>? ch, string|table info_or_err of the consumer
function reader.open(self, what)
  local conn = self.conn
  self.asked, self.held, self.nrequests, self.oldest, self.heard, self.order = 0, 0, 0, 1, core.now(), 0
  self.memory = acks.memory(self.heard)
  if self.holds then
    function self.answered()
      self.held = self.held - 1
      replenish(self)
    end
  end
  self.defaults = self.defaults or {}
  local info, err, code = open_consumer(self)
  if not info then
    if code == jetstream.NO_STREAM then
      err = ("there is no stream %q (conn:stream makes one)"):format(self.stream)
    end
    return nil, ("%s: %s"):format(what, err)
  end
  self.beat_ms = math.max(1, (self.ack_ms or 30000) / 3)
  self.back = settling.back(self.ack_ms or 30000)
  self.settling = settling.new(self.ack_ms)
  self.inbox = conn:inbox()
  local sub, subscription = conn:subscribe(self.inbox .. ".*", { buffer = 2 * self.batch, encoding = self.encoding })
  if not sub then return nil, ("%s: %s"):format(what, subscription) end
  self.sub, self.subscription, self.waiting = sub, subscription, core.chan(2 * self.batch)
  self.out, self.wake = core.chan():name(("%s %s"):format(what, self.stream)), core.chan(1)
  self.remove_listener = conn:on_event(function(event)
    self.settling:hear(event)
    if event.event == "reconnected" then
      forget_requests(self)
      self.wake:offer "reconnected"
      if self.name then tidy(self) end
    end
  end)
  internal.on_close(self.out, function() on_close(self) end)
  local function give_up(_, reason) close(self, reason) end
  guard.started(guard.go(give_up, self, receive, self), what)
  guard.started(guard.go(give_up, self, hand_over, self), what)
  guard.started(guard.go(give_up, self, watch, self), what)
  replenish(self)
  if self.name and info.delivered and info.delivered.stream_seq > 0 then tidy(self) end
  return self.out, info
end

return reader
