---Connections to NATS: nats.connect, and the methods of a connection for plain subjects.

local core = require "runnel.core"
local lib = require "runnel.nats.internal.lib"

local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local current = require "runnel.internal.world"
local decimal = require "runnel.internal.decimal"
local ending = require "runnel.nats.ending"
local guard = require "runnel.internal.guard"
local keepers = require "runnel.queue.keeper"
local options = require "runnel.nats.internal.options"
local owners = require "runnel.queue.owners"
local sign = require "runnel.internal.sign"
local term = require "runnel.internal.sigterm"
local timed_out = require "runnel.internal.timed_out"
local unanswered = require "runnel.nats.internal.unanswered"
local values = require "runnel.queue.encodings"
local raise = check.raise


local connection = {}

-- How much of a subscription libnats keeps while its channel is full.
local PENDING_MESSAGES <const>, PENDING_BYTES <const> = 65536, 64 * 1024 * 1024

-- How long a request waits for its reply.
local REQUEST_MS <const> = 5000

---A connection. It stays open until it is closed, even if it is unreachable.
---@class runnel.nats.Connection
---@field url string the server to which it was connected at first
---@field max_payload integer the longest message that the server accepts, in bytes
---@field core any the connection of the C module, for functions of the library that need no checks
---@field private encoding string
---@field private encode fun(value: any, name: string): string?, string?
---@field private metatables table<string, table> of messages, by encoding
---@field private subs table<runnel.nats.Subscription, integer> the open subscriptions, with their numbers
---@field private nsubs integer how many there have been
---@field private requests table<integer, table> the waiting requests
---@field private nrequests integer how many there have been
---@field private reply_prefix? string of the subjects for replies
---@field private replies_refused? string the server does not permit to subscribe to them
---@field private told table<string, boolean> permissions that have been reported as missing
---@field private beats table<string, any> by subject
---@field private listeners function[] of conn:on_event
---@field private closers function[] of conn:on_close
---@field private drainers function[] of conn:on_drain
---@field private event_channels runnel.Channel<any>[] of conn:events
---@field private ended runnel.Channel<any> closes with the connection
---@field private has_ended? boolean
---@field private is_abandoned? boolean the go block that was connecting has been cancelled
---@field private end_reason? any what requests get that were waiting when the connection ended
local Conn = { __name = "nats connection" }
Conn.__index = Conn
Conn.__sign = "conn"
connection.methods = Conn
for name, method in pairs(ending.methods) do Conn[name] = method end

---A message.
---@class runnel.nats.Message
---@field subject string the subject that it was published to
---@field data string its bytes
---@field value any the bytes decoded by the connection's encoding
---@field reply? string the subject for an answer
---@field headers? table<string, string|string[]>
---@field status? string of a message from the server itself: "503" means that the subject has no subscription
---@field description? string the status in words
---@field package connection runnel.nats.Connection
local Message = {}

-- ---- sending ----

-- Sends a value.
local function send(self, what, subject, value, opts)
  local encode, reply, headers = self.encode, nil, nil
  if type(subject) ~= "string" then raise(("%s: a subject expected, got %s"):format(what, check.describe(subject))) end
  if opts ~= nil then
    if type(opts) ~= "table" then raise(what .. ": a table of options expected, got a " .. type(opts)) end
    for key, option in pairs(opts) do
      if key == "reply" then
        if type(option) ~= "string" then raise(what .. ": reply: a subject expected") end
        reply = option
      elseif key == "headers" then
        if type(option) ~= "table" then raise(what .. ": headers: a table expected") end
        headers = option
      elseif key == "encoding" then
        encode = values.encodings[values.check(option, what)].encode
      else
        raise(("%s: %s"):format(what, check.unknown(key, { encoding = true, headers = true, reply = true })))
      end
    end
  end
  if contexts.on then headers = contexts.add(headers) end
  local data, why = encode(value, "value")
  if not data then raise(("%s: %s"):format(what, why)) end
  local ok, err, is_wrong
  if headers then ok, err, is_wrong = self.core:publish_with(subject, data, reply, headers)
  else ok, err, is_wrong = self.core:publish(subject, data, reply) end
  if ok then return true end
  if is_wrong then raise(("%s: %s"):format(what, err)) end
  return nil, err
end

---Sends a message. While the connection is lost, messages are kept, up to `reconnect_buffer` bytes, and sent after the
---reconnect.
---@param subject string
---@param value any by default a string (see the option `encoding` of nats.connect)
---@param opts? { reply?: string, headers?: table<string, string|number|string[]>, encoding?: "raw"|"msgpack"|"json" }
---@return true? ok nil if the connection is closed, or its buffer is full
---@return string? err why
function Conn:publish(subject, value, opts)
  sign.own(self, "conn", "publish")
  local ok, err = send(self, "publish", subject, value, opts)
  return ok, err
end

---Answers a message.
---@param value any
---@param opts? table as for publish
---@return true? ok
---@return string? err
function Message:respond(value, opts)
  sign.own(self, "m", "respond")
  if not self.reply then raise(("respond: the message to %q has no reply subject"):format(self.subject)) end
  return send(self.connection, "respond", self.reply, value, opts)
end

-- ---- messages ----

-- The metatable of messages of a connection in an encoding.
local function new_metatable(conn, encoding)
  local decode = values.encodings[encoding].decode
  return {
    __name = "nats message", __sign = "m",
    __index = function(message, key)
      if key == "value" then
        local value, why = decode(message.data)
        if value == nil and why then
          raise(("the message to %q is not valid %s: %s"):format(message.subject, encoding, why))
        end
        rawset(message, "value", value)
        return value
      end
      if key == "connection" then return conn end
      return Message[key]
    end,
  }
end

local function metatable(self, encoding)
  local found = self.metatables[encoding]
  if not found then
    found = new_metatable(self, encoding)
    self.metatables[encoding] = found
  end
  return found
end

-- The `encoding` of some options, or the connection's.
local function encoding_of(self, opts, what)
  if opts and opts.encoding ~= nil then return values.check(opts.encoding, what) end
  return self.encoding
end

-- ---- subscribing ----

---A subscription.
---@class runnel.nats.Subscription
---@field subject string
---@field package core any the subscription of the C module
---@field package ended runnel.Channel<any> closes once all messages have been taken
local Subscription = { __name = "nats subscription" }
Subscription.__index = Subscription
Subscription.__sign = "sub"

---Ends it. Messages that have already arrived are still put on the channel, which then closes. To drop them, close the
---channel.
function Subscription:close()
  sign.own(self, "sub", "close")
  self.core:close()
end

---Begins to end it without losing a message, and does not wait: see drain.
---@package
---@param ms number what has not arrived after this time is lost
---@return true? ok
---@return string? err
function Subscription:begin_drain(ms) return self.core:drain(ms) end

---Ends it without losing a message: unsubscribes at the server, and waits until the messages that were sent before have
---arrived, and were taken. Then the channel closes.
---@param timeout? number ms; what has not arrived after this time is lost (5000)
---@return boolean drained
---@return string|runnel.TimedOut|nil err
function Subscription:drain(timeout)
  sign.own(self, "sub", "drain")
  if timeout == nil then timeout = 5000 end
  check.ms(timeout, 1, "drain: timeout")
  local begun, err = self:begin_drain(timeout)
  if not begun then return false, err end
  local timer = guard.timer(timeout)
  local _, port = core.alts({ self.ended, timer }, { priority = true })
  if port == self.ended then
    core.cancel(timer)
    return true
  end
  self:close()
  return timed_out.of_drain("the subscription " .. self.subject, timeout)
end

---Counters: messages `delivered` to the channel or on their way to it, `dropped` messages, and the numbers of messages
---and bytes that wait in the library.
---@return { delivered: integer, dropped: integer, waiting: integer, waiting_bytes: integer } stats
function Subscription:stats()
  sign.own(self, "sub", "stats")
  local delivered, dropped, waiting, bytes = self.core:stats()
  return { delivered = delivered, dropped = dropped, waiting = waiting, waiting_bytes = bytes }
end

local SUBSCRIBE_OPTIONS = { group = true, buffer = true, max_waiting = check.kinds.integer(1),
  max_waiting_bytes = check.kinds.integer(1), encoding = true }

---Is called with what is in each message, and must not park. A message of a stream has a `reply`, the subject for its
---acknowledgement, and an `age`: the ms since it has arrived. Other messages have a subject (with the status 503, that
---of the subscription), and perhaps a status; with the end of a request for messages, how many of them are left that
---were not sent.
---@alias runnel.nats.Taker fun(data: string, reply?: string, age?: integer, subject?: string, status?: string,
---left?: string, headers?: table<string, string>)

---Messages to a subject, as a channel. Subjects may have wildcards: `*` for one part, `>` at the end for any number.
---Closing the channel ends the subscription. While the channel is full, the library keeps messages, up to
---`max_waiting` of them and `max_waiting_bytes`; further messages are dropped, counted (`sub:stats().dropped`), and
---reported by an event.
---@param subject string
---@param opts? { group?: string, buffer?: runnel.BufferLike, max_waiting?: integer, max_waiting_bytes?: integer,
---encoding?: "raw"|"msgpack"|"json" } with `group`, each message goes to one of the subscriptions with that group
---@param take? runnel.nats.Taker for the library: gets what is in each message; nothing is put on the channel
---@return runnel.Channel<runnel.nats.Message>? ch nil if the connection is closed
---@return runnel.nats.Subscription|string sub_or_err the subscription, or why there is none
function Conn:subscribe(subject, opts, take)
  sign.own(self, "conn", "subscribe")
  check.string(subject, "a subject", "subscribe")
  check.options(opts, SUBSCRIBE_OPTIONS, "subscribe")
  opts = opts or {}
  local group = opts.group
  if group ~= nil and (type(group) ~= "string" or group == "" or group:find "[%s%c]") then
    raise("subscribe: group: a name without spaces expected, got " .. check.describe(group))
  end
  local encoding = encoding_of(self, opts, "subscribe")
  local ch = check.new_chan(opts.buffer, "subscribe")
  ch:name("nats " .. subject)
  local handle, err, is_wrong = self.core:subscribe(subject, group, ch, take or metatable(self, encoding),
    opts.max_waiting or PENDING_MESSAGES, opts.max_waiting_bytes or PENDING_BYTES, false, take ~= nil)
  if not handle then
    if is_wrong then raise("subscribe: " .. err) end
    return nil, err
  end
  local sub = setmetatable({ core = handle, subject = subject, ended = core.chan() }, Subscription)
  keepers.on_close(ch, function()
    self.subs[sub] = nil
    handle:forget()
    sub.ended:close()
  end)
  self.nsubs = self.nsubs + 1
  self.subs[sub] = self.nsubs
  return ch, sub
end

-- ---- requests ----

-- A request that waits for its reply: in Conn.requests by its number. Its go block `timer` ends it at its deadline.
local Request = {}

function Request:__close()
  self.conn.requests[self.number] = nil
  core.cancel(self.timer, "the request has ended")
end

local function expire(request, ms)
  core.sleep(ms)
  request.replies:close(timed_out.new(("the request had no reply after %s ms"):format(decimal.text(ms))))
end

-- Subscribes to the replies of all requests of the connection, which go to inbox.NUMBER.
local function receive_replies(self)
  local inbox = self:inbox()
  local first = #inbox + 2
  local ch = core.chan(1):name("nats replies") -- it stays empty
  local function take(message)
    local request = self.requests[tonumber(message.subject:sub(first))]
    if not request then return end
    setmetatable(message, metatable(self, request.encoding))
    request.replies:offer(message)
  end
  local handle, err = self.core:subscribe(inbox .. ".*", nil, ch, take, PENDING_MESSAGES, PENDING_BYTES, true)
  if not handle then return nil, err end
  keepers.on_close(ch, function() handle:forget() end)
  self.reply_prefix = inbox .. "."
  return true
end

-- Sends a request and returns the first reply, or nil and the reason. Without a subject it goes to where its reply
-- goes.
local function ask(self, what, subject, value, ms, opts, encoding)
  if not self.reply_prefix then
    local ok, err = receive_replies(self)
    if not ok then return nil, err end
  end
  if self.replies_refused then return nil, self.replies_refused end
  local number = self.nrequests + 1
  self.nrequests = number
  local replies, reply = core.chan(1), self.reply_prefix .. number
  subject = subject or reply
  local with = { reply = reply, encoding = encoding, headers = opts and opts.headers }
  local ok, err = send(self, what, subject, value, with)
  if not ok then return nil, err end
  local request <close> = setmetatable({
    conn = self, number = number, replies = replies, encoding = encoding, subject = subject,
    until_reconnect = opts and opts.until_reconnect,
  }, Request)
  request.timer = guard.go(guard.nothing, nil, expire, request, ms)
  self.requests[number] = request
  local message, why = replies:take()
  return message, why
end

local REQUEST_OPTIONS = { headers = true, encoding = true, timeout = check.kinds.ms(1), until_reconnect = true }

---Sends a message and waits for the first answer.
---@param subject string
---@param value any
---@param opts? { timeout?: number, headers?: table, encoding?: "raw"|"msgpack"|"json", until_reconnect?: boolean }
---timeout: ms to wait for it (5000). until_reconnect: if the connection is lost meanwhile, return an error once there
---is one again, since the answer may be lost
---@return runnel.nats.Message? message
---@return any err the reason: rn.is_timeout(err), or a string: no subscription answers, the connection is closed
function Conn:request(subject, value, opts)
  sign.own(self, "conn", "request")
  if type(opts) == "number" then raise("request: the time is an option now: { timeout = ms }") end
  check.options(opts, REQUEST_OPTIONS, "request")
  local ms = opts and opts.timeout or REQUEST_MS
  local message, err = ask(self, "request", subject, value, ms, opts, encoding_of(self, opts, "request"))
  if message and message.status == "503" and message.data == "" then
    return nil, ("nobody answers requests to %q (no responders)"):format(subject)
  end
  return message, err
end

---Waits until the server has received all earlier messages: one round trip.
---@param timeout? number ms (5000)
---@return true? ok
---@return any err
function Conn:flush(timeout)
  sign.own(self, "conn", "flush")
  if timeout ~= nil then check.ms(timeout, 1, "flush: timeout") end
  -- The message goes to this connection itself, since any other subject may have subscribers, which do not answer. With
  -- no_echo, the server answers that there is no responder.
  local message, err = ask(self, "flush", nil, "", timeout or REQUEST_MS, nil, "raw")
  return message and true, err
end

---Returns a new, unique subject, for replies. It begins with the option `inbox_prefix`.
---@return string subject
function Conn:inbox()
  sign.own(self, "conn", "inbox")
  return self.inbox_prefix .. "." .. lib.inbox():match "[^.]+$"
end

-- ---- messages that are sent while Lua computes ----

---Sends a message every `ms` (first after `ms`) from a thread of its own, until `unbeat`.
---@param subject string one that has no beat yet
---@param data string
---@param ms number
---@param again? string what is sent instead, once, if the connection was lost when it was due; default `data`
---@return true? ok
---@return string? err
function Conn:beat(subject, data, ms, again)
  sign.own(self, "conn", "beat")
  check.string(subject, "a subject", "beat")
  check.string(data, "a string", "beat")
  check.ms(ms, 1, "beat")
  if again ~= nil then check.string(again, "a string", "beat: again") end
  if self.beats[subject] then raise(("beat: %q has a beat already"):format(subject)) end
  local beat, err, is_wrong = self.core:beat(subject, data, ms, again or data)
  if not beat then
    if is_wrong then raise("beat: " .. err) end
    return nil, err
  end
  self.beats[subject] = beat
  return true
end

---Ends the beat of a subject: nothing is sent after this has returned.
---@param subject string
function Conn:unbeat(subject)
  sign.own(self, "conn", "unbeat")
  local beat = self.beats[subject]
  if not beat then return end
  self.beats[subject] = nil
  self.core:unbeat(beat)
end

-- ---- what it is ----

---Counters: messages and bytes `received`, `received_bytes`, `sent`, `sent_bytes`; `reconnects`; unsent
---`buffered_bytes`; and `status`: "connected", "reconnecting" or "closed".
---@return table stats
function Conn:stats()
  sign.own(self, "conn", "stats")
  return self.core:stats()
end

function Conn:__tostring()
  return ("nats connection: %s (%s)"):format(self.url or "?", self.core:stats().status)
end

-- ---- connecting ----

-- Closes the connection, once it exists, if the go block that waits for it is cancelled.
local Attempt = {}

function Attempt:__close()
  if not self.has_ended then self.conn.is_abandoned = true end
end

-- A server that demands a certificate of the client closes the connection after the handshake, without a reason.
local function explained(err, settings)
  local is_closed = err:find "Expected 'PONG'" or err == "Connection Closed" -- libnats 3.4, and 3.10
  if not settings.is_secure or settings.has_certificate or not is_closed then return err end
  return "the server has closed the connection after the TLS handshake; it may demand a certificate of the client "
    .. "(tls = { cert =, key = })"
end

-- Connects, once. Returns the connection, or nil and the reason. libnats' message about an option is raised as an
-- error.
local function connect_once(settings, encoding)
  local result = core.chan(1):name "nats connect"
  local self = setmetatable({
    encoding = encoding, encode = values.encodings[encoding].encode, metatables = {}, subs = {}, nsubs = 0,
    requests = {}, nrequests = 0, told = {}, beats = {}, listeners = {}, closers = {}, drainers = {},
    event_channels = {},
    ended = core.chan():name "nats end", reconnect_wait = settings.reconnect_wait,
    inbox_prefix = settings.inbox_prefix or "_INBOX",
  }, Conn)
  local handle, err, is_wrong = lib.connect(settings, result, function(event) return ending.on_event(self, event) end)
  if not handle then
    if is_wrong then raise("connect: " .. err) end
    return nil, err
  end
  self.core = handle
  local attempt <close> = setmetatable({ conn = self }, Attempt)
  local event = result:take()
  attempt.has_ended = true
  if event.event == "failed" then
    handle:close()
    local urls = {}
    for i, one in ipairs(settings.servers) do urls[i] = options.without_secrets(one) end
    return nil, ("cannot connect to %s: %s"):format(table.concat(urls, ", "), explained(event.error, settings))
  end
  self.url, self.max_payload = options.without_secrets(event.url), handle:max_payload()
  owners.add(self)
  self:on_close(term.add(self, "nats connection", {
    order = term.CONNECTIONS, name = self.url, drain = self.drain, catches = false,
  }))
  self:on_event(function(later) unanswered.on_event(self, later) end)
  return self
end

-- How often to retry when a server rejects a signature. About one in 150 that libnats makes is wrong.
local SIGNATURES = 3

---Connects to a server, or to one of several of a cluster. Waits; other go blocks go on.
---@param url? string|string[] "nats://host:port", several with commas between them, or a list. Without one, the
---environment variables RUNNEL_NATS_URL, RUNNEL_NATS_CREDENTIALS and others say where and how; without these, it is the
---server on this machine
---@param opts? table see docs/manual/nats.md
---@return runnel.nats.Connection? conn
---@return string? err why there is no connection
function connection.connect(url, opts)
  sign.dot(url, "nats", "connect")
  local settings, encoding = options.read(url, opts)
  if current.is_outside() then
    raise("connect: a simulation, whose time is virtual, cannot wait for a server: make a simulated world (sim.world) "
      .. "with one (world:nats), and connect on a host of it")
  end
  local conn, err
  for _ = 1, (settings.nkey or settings.credentials) and SIGNATURES or 1 do
    conn, err = connect_once(settings, encoding)
    if conn or not err:find "Authorization Violation$" then break end
  end
  return conn, err
end

return connection
