---One end of a WebSocket connection: messages as channels.
---
---One go block reads: it turns the received bytes into messages, answers pings and the other end's close frame, and
---ends the connection. It waits for the program to take each message, so a slow program stops the other end. It never
---waits for something to be sent. In a server it runs only while there are bytes that `arrived` could not hand over:
---most connections are idle most of the time, and then have no memory but their own tables.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local sign = require "runnel.internal.sign"
local timed_out = require "runnel.internal.timed_out"

local lib = need("runnel.websocket.core", "zlib and its headers, on Debian zlib1g-dev")

local internal = core.internal
local raise = internal.raise
local chan, sleep, after, offer = core.chan, core.sleep, core.after, core.methods.offer
local alts, put_while_open = internal.moving.alts, internal.moving.put_while_open
local PRIORITY = { priority = true }

-- After a long computation, timers fire before the bytes that have arrived meanwhile are read. So this is how many ms
-- to wait for such bytes after a timer.
local GRACE <const> = 100

local MOST_OF_REASON <const> = 123

-- Codes of close frames.
local NORMAL <const>, GOING_AWAY <const>, NO_CODE <const>, LOST <const>, FAILED <const> = 1000, 1001, 1005, 1006, 1011

-- The codes of a normal end.
local IS_PLAIN = { [NORMAL] = true, [GOING_AWAY] = true, [NO_CODE] = true }

---What carries the bytes of a connection.
---@class runnel.http.WebSocketTransport
---@field name string the other end, for messages
---@field is_client boolean
---@field receive fun(self): string?|false, any parks until bytes have come; nil at the end, or nil and an error. That
---of a server returns false in place of parking, and then calls connection.arrived when it would return
---@field send fun(self, bytes: string, more?: string): boolean, any parks until the system has taken the bytes, and, in
---a server, more behind them; false and an error if it cannot. Of several calls at once, the bytes go out in the order
---of the calls
---@field shutdown fun(self) ends sending, once everything has been sent
---@field close fun(self, is_cut: boolean) closes both directions; with `is_cut` at once, otherwise once everything has
---been sent

---An end of a WebSocket connection.
---@class runnel.http.WebSocket
---@field protocol? string the subprotocol that both ends have agreed on
---@field code? integer once the connection has ended: the code of the other end's close frame, 1005 if that had none;
---1006 without a close frame
---@field reason? string the reason in that close frame, or why there was none
---@field private session any of the C module
---@field private transport runnel.http.WebSocketTransport
---@field private input runnel.Channel<any> the messages
---@field private late? any the error of pings without an answer
---@field private stopped? runnel.Channel<any> of `writer`: closes when no message can be sent any more
---@field private ended? any why no message can be sent any more
---@field private output? runnel.Channel<any> of `writer`
---@field private has_heard boolean bytes have come since the last ping, or a message has been taken
---@field private is_busy boolean the go block handles what has come; true at the end: nothing is read any more
---@field private due? { ping?: string, pong?: string } the payloads of the ping and the pong that a go block sends
---@field private limit? runnel.Timer cuts the connection if closing it takes too long
---@field private beat? runnel.Timer sends pings
---@field private is_over? boolean the connection is over
---@field private over? runnel.Channel<any> of `join`: closes when the connection is over
local Connection = { __name = "websocket" }
Connection.__index = Connection
Connection.__sign = "conn"

local connection = { lib = lib }

---How many ms closing a connection may take: until everything has been sent, and the other end has closed, too. Specs
---change it.
connection.patience = 5000

-- ---- the end ----

-- Closes a channel of messages to be sent, and drops the waiting ones, so that the go blocks that put them go on. An
-- error is reported unless the program takes it from the channel.
local function refuse(ch, err)
  while ch:poll() ~= nil do end -- luacheck: ignore 542
  if err ~= nil then internal.fail(ch, err, nil, "a writer") else ch:close() end
end

-- Ends sending: no message can be sent any more.
local function stop_writing(self, why)
  self.ended = self.ended or why
  if self.stopped then self.stopped:close() end
end

-- Ends the input. An error is reported unless the program takes it; but not in a server, where lost clients are normal.
local function end_input(self, err)
  self.input:close(err)
  if not self.transport.is_client then self.input:poll() end -- counts as taken
end

local function give_up_waiting(self) self.transport:close(true) end

-- Sends a close frame, unless one has been sent.
local function send_close(self, code, reason)
  if self.limit then return end
  self.limit = after(connection.patience, give_up_waiting, self)
  self.transport:send(self.session:close(code, reason))
end

local function release(self)
  self.is_busy, self.is_over = true, true
  if self.limit then self.limit:stop() end
  if self.beat then self.beat:stop() end
  self.transport:close(false)
  stop_writing(self, "it is closed")
  self.input:close()
  if self.over then self.over:close() end
end

-- Handles the other end's close frame.
local function closed_by_other(self, code, reason)
  self.code, self.reason = code, reason
  local what = ("the other end has closed it with %d%s"):format(code, reason == "" and "" or ": " .. reason)
  end_input(self, not IS_PLAIN[code] and self.transport.name .. ": " .. what or nil)
  stop_writing(self, what)
  send_close(self, code)
end

-- Handles an error of the other end.
local function failed(self, code, why)
  self.code, self.reason = LOST, why
  end_input(self, ("%s: %s (%d)"):format(self.transport.name, why, code))
  stop_writing(self, why)
  send_close(self, code, why)
  self.transport:shutdown()
end

-- Handles the end of the transport without a close frame.
local function lost(self, err)
  local why = "the connection has ended without a close frame"
  if err ~= nil then why = ("%s: %s"):format(why, err) end
  self.code, self.reason = LOST, self.late and tostring(self.late) or why
  end_input(self, self.late or self.transport.name .. ": " .. why)
  stop_writing(self, why)
end

-- ---- what is sent beside messages ----

local function send_due(self)
  local due, session = self.due, self.session
  while not self.ended and (due.pong or due.ping) do
    local frame = due.pong and session:pong(due.pong) or session:ping(due.ping)
    if due.pong then due.pong = nil else due.ping = nil end
    self.transport:send(frame)
  end
  self.due = nil
end

-- Sends a ping, or the answer to the latest ping, without waiting for it. If another one is being sent, this one is
-- sent afterwards.
local function send_soon(self, what, payload)
  if self.ended then return end
  if self.due then
    self.due[what] = payload
  else
    self.due = { [what] = payload }
    guard.go(guard.nothing, nil, send_due, self)
  end
end

local function is_silent(self) return not self.has_heard and not self.is_busy end

-- Sends a ping, and ends the connection when nothing has come since the last one. While a message waits to be taken
-- there is no limit, since the answer may be behind it. Called in a go block of the timer.
local function beat(self, ms)
  if is_silent(self) then sleep(GRACE) end
  if is_silent(self) then
    self.late = timed_out.new(("%s: nothing has come for %s ms"):format(self.transport.name, decimal.text(ms)))
    self.transport:close(true)
  elseif not self.is_over then
    self.has_heard = false
    self.beat:restart(ms)
    send_soon(self, "ping", "")
  end
end

-- ---- reading ----

-- Handles what the session has made of received bytes: the results of session:receive, and what follows. Parks while
-- the program does not take a message.
local function take_in(self, message, kind, code, text)
  local session, input = self.session, self.input
  while message or kind do
    if message then
      put_while_open(input, kind and { binary = message } or message)
      self.has_heard = true
    elseif kind == "ping" then
      send_soon(self, "pong", code)
    elseif kind == "close" then
      return closed_by_other(self, code, text)
    elseif kind == "failed" then
      return failed(self, code, text)
    end
    message, kind, code, text = session:receive()
  end
end

-- The go block of a connection. It begins with results of session:receive. After both close frames the server closes
-- the transport first, so a client reads until the transport ends. An end that has refused a frame also does, because
-- closing at once could lose its close frame.
local function read_all(self, ...)
  local transport = self.transport
  take_in(self, ...)
  while not self.code or transport.is_client or self.code == LOST do
    self.is_busy = false
    local bytes, err = transport:receive()
    if bytes == false then return end
    self.is_busy = true
    if bytes == nil then
      if not self.code then lost(self, err) end
      break
    end
    self.has_heard = true
    if not self.code then take_in(self, self.session:receive(bytes)) end
  end
  release(self)
end

-- Called when the go block has died.
local function give_up(self, reason)
  self.code, self.reason = self.code or LOST, internal.error_text(reason)
  self.input:close(reason)
  release(self)
end

-- Starts the go block; returns it.
local function start_reading(self, ...)
  self.is_busy = true
  return guard.go(give_up, self, read_all, self, ...)
end

-- Hands over messages for which go blocks wait, and starts the go block for all else.
local function hand_over(self)
  local session, input = self.session, self.input
  local bytes = self.transport:receive()
  while bytes do
    self.has_heard = true
    local message, kind, code, text = session:receive(bytes)
    while message or kind do
      if not message or not offer(input, kind and { binary = message } or message) then
        start_reading(self, message, kind, code, text)
        return
      end
      message, kind, code, text = session:receive()
    end
    bytes = self.transport:receive()
  end
  if bytes == nil then start_reading(self) end
end

---Handles bytes that have come, or the end of the transport, of a server's connection. Does not park.
---@param self runnel.http.WebSocket
function connection.arrived(self)
  if self.is_busy then return end
  if self.code then
    start_reading(self)
    return
  end
  local ok, err = pcall(hand_over, self)
  if not ok then give_up(self, err) end -- no memory
end

---Parks until the connection is over.
---@param self runnel.http.WebSocket
function connection.join(self)
  if self.is_over then return end
  self.over = chan()
  self.over:take()
end

---Reads the messages, as a channel: a text message is a string, a binary one a table `{ binary = bytes }`. The other
---end can send only as fast as they are taken. The channel closes when the connection ends: with an error, unless the
---other end has closed it with 1000, 1001 or without a code. Every call returns the same channel.
---@return runnel.Channel<any> messages
function Connection:read()
  sign.own(self, "conn", "read")
  return self.input
end

-- ---- writing ----

-- The frame for a message, in one part or two; or nil and the reason if it cannot be sent.
local function frame_of(self, message)
  if type(message) == "number" then message = decimal.exact(message) end
  if type(message) == "string" then
    local frame, more = self.session:text(message)
    if frame then return frame, more end
    return nil, "the text is not UTF-8; to send other bytes, use { binary = bytes }"
  end
  local bytes = type(message) == "table" and message.binary
  if type(bytes) == "string" then return self.session:binary(bytes) end
  return nil, ("a string, or { binary = bytes }, expected, got %s"):format(check.article(message))
end

---Sends a message; parks until the system has taken it.
---@param message string|number|{ binary: string } a text, which must be UTF-8, or other bytes
---@return boolean ok false if the connection has ended
---@return any err why
function Connection:write(message)
  sign.own(self, "conn", "write")
  if self.ended then return false, self.ended end
  local frame, more = frame_of(self, message)
  if not frame then raise("write: " .. more) end
  return self.transport:send(frame, more)
end

-- Sends the values of a channel, until it closes or the connection ends.
local function write_all(self, ch)
  local stop = { self.stopped, ch }
  while true do
    local message, i, err = alts(stop, PRIORITY)
    if i == 1 then return refuse(ch) end
    if message == nil then
      if err ~= nil then internal.pass_on(err, self.input, ch) end
      return self:close(err ~= nil and FAILED or NORMAL)
    end
    local frame, more = frame_of(self, message)
    if not frame then
      refuse(ch, ("%s: %s"):format(self.transport.name, more))
      return self:close(FAILED)
    end
    self.transport:send(frame, more)
  end
end

local function stop_writer(self, reason)
  self.output:close(reason)
  self:close(FAILED)
end

---Makes a channel whose values are sent, as by `write`. Closing it closes the connection: with 1000, or with 1011 if
---the channel is closed with an error. It closes when the connection ends. Every call returns the same channel.
---@param ch? runnel.Channel<any> the channel to use
---@return runnel.Channel<any>
function Connection:writer(ch)
  sign.own(self, "conn", "writer")
  if ch then check.chan(ch, "writer: channel") end
  if self.output then return self.output end
  self.output = ch or chan():name(self.transport.name)
  if self.ended then
    refuse(self.output)
  else
    self.stopped = chan()
    self[2] = self.stopped -- as [1]
    guard.started(guard.go(stop_writer, self, write_all, self, self.output), "a writer")
  end
  return self.output
end

-- ---- closing ----

---Closes the connection: sends a close frame after what has been written. Messages that have not been taken are
---dropped. Parks only until the system has taken the frame; the connection ends once the other end has answered, or
---after 5 s. Does nothing if it has ended.
---@param code? integer default 1000; 1001: this end goes away; 1008: a violation of rules; 1011: an error; 3000 to
---4999: the program's own codes
---@param reason? string at most 123 bytes
function Connection:close(code, reason)
  sign.own(self, "conn", "close")
  if code == nil then code = NORMAL end
  if math.type(code) ~= "integer" or not lib.is_code(code) then
    raise(("close: a code from 1000 to 1014 except 1004 to 1006, or from 3000 to 4999, expected, got %s"):format(
      check.describe(code)))
  end
  if reason ~= nil and (type(reason) ~= "string" or #reason > MOST_OF_REASON or not utf8.len(reason)) then
    raise(("close: reason: at most %d bytes of UTF-8 expected, got %s"):format(MOST_OF_REASON, check.describe(reason)))
  end
  if self.ended then return end
  stop_writing(self, "it is closed")
  self.input:close()
  send_close(self, code, reason)
end

function Connection:__close(err) self:close(err ~= nil and FAILED or NORMAL) end

function Connection:__tostring()
  return ("websocket: %s%s"):format(self.transport.name, self.ended and " (closed)" or "")
end

-- ---- making one ----

---Begins a connection, after its handshake.
---@param transport runnel.http.WebSocketTransport
---@param settings runnel.http.WebSocketSettings
---@param bits integer of the window for sending; 0: no compression
---@param protocol? string
---@param rest string bytes that were received behind the handshake
---@param what string the function that the program has called
---@return runnel.http.WebSocket
function connection.new(transport, settings, bits, protocol, rest, what)
  local is_client = transport.is_client
  local session = lib.new(is_client, settings.max, bits, internal.is_simulation())
  local self = setmetatable({
    transport = transport, session = session, protocol = protocol, input = chan():name(transport.name),
    has_heard = true, is_busy = false, beat = nil, due = nil, -- the fields of an idle connection
  }, Connection)
  self[1] = self.input -- closes even if `give_up` gets no memory
  if is_client then guard.started(start_reading(self, session:receive(rest)), what) end
  if settings.ping then self.beat = after(settings.ping, beat, self, settings.ping) end
  return self
end

return connection
