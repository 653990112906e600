---Consumers of streams: named ones, whose delivery is checked, and those for a single reader.
---
---If nats-server 2.9.10 makes a consumer while it still makes the stream for another program, the consumer may have no
---queue for its messages. It then counts messages as delivered, again and again, but sends none, and the API does not
---show the fault. So `ensure` sends the consumer a request that only the consumer itself can answer.
---
---To make a consumer anew, `ensure` deletes it, so that its position is lost. It does so only if that position is the
---first: a consumer that has worked does not have the fault, and may be silent because a server of the cluster is
---frozen or has a full disk. Other processes with the consumer go on with the new one (runnel.nats.internal.reader).

local jetstream = require "runnel.nats.internal.jetstream"
local timed_out = require "runnel.internal.timed_out"
local patience = require "runnel.nats.internal.patience"
local tidying = require "runnel.nats.internal.tidying"

local consumers = {}

-- How often to make a consumer again that does not answer.
local TIMES <const> = 3

-- A request for a message that every server refuses: its heartbeat interval is longer than its expiry.
local REFUSED <const> = '{"batch":1,"expires":1000000,"idle_heartbeat":1000000000}'

-- Policies of a consumer that begins at the same message whenever it is made.
local BEGINS_THERE <const> = { all = true, by_start_sequence = true, by_start_time = true }

-- Whether nothing is lost if the consumer is deleted and made anew.
local function is_unused(info)
  if info.ack_floor and info.ack_floor.consumer_seq > 0 then return false end -- something was acknowledged
  local delivered = info.delivered and info.delivered.consumer_seq or 0
  return BEGINS_THERE[info.config.deliver_policy or "all"] or delivered == 0 and (info.num_pending or 0) == 0
end

-- Whether the consumer fails to answer twice while the server confirms that it exists, and that it is unused.
-- (Otherwise the connection may be lost, or a cluster may have no leader.)
local function is_mute(conn, verb, info)
  for _ = 1, 2 do
    local answer, err = conn:request("$JS.API.CONSUMER.MSG.NEXT." .. verb, REFUSED,
      { timeout = patience.consumer_answer, encoding = "raw", until_reconnect = true })
    if answer or not timed_out.is_timeout(err) then return false end
    local now = jetstream.request(conn, "CONSUMER.INFO." .. verb)
    if not now or now.created ~= info.created or not is_unused(now) then return false end
    if now.cluster and not now.cluster.leader then return false end -- it is being elected, and nobody can answer
  end
  return true
end

local function found_or_made(conn, verb, stream, config)
  return jetstream.ensure(conn, "CONSUMER.INFO." .. verb, "CONSUMER.DURABLE.CREATE." .. verb,
    { stream_name = stream, config = config })
end

---Finds a consumer, and makes it first if it does not exist. Parks.
---@param conn runnel.nats.Connection
---@param stream string
---@param name string
---@param config table<string, any> the settings of a new one, in the server's words
---@return table? info what the server says about it
---@return string? err
---@return integer? code of the server's error
function consumers.ensure(conn, stream, name, config)
  local verb = ("%s.%s"):format(stream, name)
  for _ = 1, TIMES do
    local info, err, code = found_or_made(conn, verb, stream, config)
    if not info or not is_unused(info) or not is_mute(conn, verb, info) then return info, err, code end
    local deleted, why, reason = jetstream.request(conn, "CONSUMER.DELETE." .. verb)
    if jetstream.is_unanswered(why, reason) then -- the servers answer little now; the reader says what it does not hear
      return found_or_made(conn, verb, stream, config)
    elseif not deleted and reason ~= jetstream.NO_CONSUMER then
      return nil, ("the consumer %q of the stream %q delivers nothing, and cannot be made anew: %s")
        :format(name, stream, why)
    end
  end
  return nil, ("the consumer %q of the stream %q delivers nothing; restart the server"):format(name, stream)
end

-- ---- as readers use them ----

---A consumer of a reader (runnel.nats.internal.reader).
---@class runnel.nats.Consumer
---@field stream string
---@field name? string of a named one
---@field id string its name at the server, once it is open
---@field ack_ms? number ack_wait of a named one
---@field open fun(self, ms?: number): table?, string?, integer? makes it unless a named one exists. Returns what the
---server says about it; or nil, the reason, and the code of the server's error. `ms`: the limit for the answer
---@field look fun(self, last?: integer): table?, string?, integer?, boolean? for a silent server: like `open`, and also
---returns whether a named one is still the same consumer. `last`: the last message that has arrived
---@field missing? fun(self, last?: integer): integer|false|nil, string? the number of the next message that the stream
---has for it; false if there is none; nil and the reason if the server does not answer. `last`: as for `look`
---@field close fun(self)
---@field tidy? fun(self, is_over: fun(): boolean, until_time: number) removes finished messages that the stream still
---has, or makes a consumer anew that has skipped some; parks

-- The second in which a consumer was made: after a restart, the server reports a slightly different time. A consumer
-- made anew has another one.
local function second_of(created) return created and created:sub(1, 19) end

-- The number of the first message that a stream has from a number on. The leader of the stream answers. The server that
-- leads the consumer may be behind: if its disk is full, the consumer sends heartbeats, and no messages.
local function next_message(self, from)
  local filter = self.config.filter_subject
  local answer, err, code = jetstream.request(self.conn, "STREAM.MSG.GET." .. self.stream,
    { seq = from, next_by_subj = filter or ">" }, patience.look)
  if code == jetstream.NO_MESSAGE then return false end
  if not answer then return nil, err end
  return answer.message.seq
end

local Named = {}
Named.__index = Named

local function ensure(self)
  local all = { durable_name = self.name }
  for key, value in pairs(self.defaults) do all[key] = value end
  for key, value in pairs(self.config) do all[key] = value end
  return consumers.ensure(self.conn, self.stream, self.name, all)
end

function Named:open()
  local info, err, code = ensure(self)
  if not info then return nil, err, code end
  local difference = jetstream.difference(self.config, info.config)
  if difference then
    return nil, ("the consumer %q exists with other settings: %s"):format(self.name, difference)
  end
  self.created, self.ack_ms = second_of(info.created), (info.config.ack_wait or 30e9) / 1e6
  return info
end

function Named:look()
  local info, err, code = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, self.name), nil,
    patience.look)
  if not info then return nil, err, code end
  local before = self.created
  self.created = second_of(info.created)
  return info, nil, nil, self.created == before
end

function Named:missing()
  local info, err = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, self.name), nil,
    patience.look)
  if not info then return nil, err end
  local most = info.config.max_ack_pending or 0
  if most > 0 and info.num_ack_pending >= most then return false end -- it waits for acknowledgements
  return next_message(self, info.delivered.stream_seq + 1)
end

function Named:close() end -- luacheck: no self

-- Makes it anew, unless another process has. Its reader notices that, like those of other processes.
local function renew(self, before)
  local verb = ("%s.%s"):format(self.stream, self.name)
  local info = jetstream.request(self.conn, "CONSUMER.INFO." .. verb)
  if info and info.created ~= before.created then return end
  if info then jetstream.request(self.conn, "CONSUMER.DELETE." .. verb) end
  ensure(self)
end

-- Removes finished messages from a work queue, until `is_over` returns true. `until_time`: what was stored until then
-- has been delivered. Parks.
function Named:tidy(is_over, until_time)
  local info = tidying.run(self.conn, self.stream, self.name, is_over, until_time)
  if info then renew(self, info) end
end

---A named consumer.
---@param conn runnel.nats.Connection
---@param stream string
---@param name string
---@param config table<string, any> settings that it must have, in the server's words
---@param defaults table<string, any> settings for a new one
---@return runnel.nats.Consumer
function consumers.named(conn, stream, name, config, defaults)
  return setmetatable({
    conn = conn, stream = stream, name = name, id = name, config = config, defaults = defaults,
  }, Named)
end

local Unnamed = {}
Unnamed.__index = Unnamed

function Unnamed:open(ms)
  local all = { inactive_threshold = jetstream.ns(patience.unused), mem_storage = true, ack_policy = "none" }
  for key, value in pairs(self.config) do all[key] = value end
  if self.last then all.deliver_policy, all.opt_start_seq = "by_start_sequence", self.last + 1 end
  local info, err, code = jetstream.request(self.conn, "CONSUMER.CREATE." .. self.stream,
    { stream_name = self.stream, config = all }, ms)
  if not info then return nil, err, code end
  self.id = info.name
  -- If the consumer has to be made again, "new" means from now on.
  if self.config.deliver_policy == "new" and not self.last then self.last = info.delivered.stream_seq end
  if not self.first then self.first = info.delivered.stream_seq end
  return info
end

function Unnamed:missing(last) return next_message(self, (last or self.last or self.first) + 1) end

-- Replaces it; the new one continues after the last message. The old one may have been lost with its only server of a
-- cluster, or may have sent messages that were lost.
function Unnamed:look(last)
  self.last = last or self.last
  self:close()
  return self:open(patience.look)
end

-- Otherwise the server deletes it after patience.unused.
function Unnamed:close()
  if not self.id then return end
  self.conn.core:publish(("$JS.API.CONSUMER.DELETE.%s.%s"):format(self.stream, self.id), "", nil)
  self.id = nil -- late messages of it are ignored: the new one sends them again
end

---A consumer of one reader alone, which delivers each message once, without acknowledgements.
---@param conn runnel.nats.Connection
---@param stream string
---@param config table<string, any> its settings, in the server's words
---@return runnel.nats.Consumer
function consumers.unnamed(conn, stream, config)
  return setmetatable({ conn = conn, stream = stream, config = config }, Unnamed)
end

return consumers
