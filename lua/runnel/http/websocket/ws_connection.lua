---One end of a WebSocket connection: messages as channels.
---
---One go block reads: it turns the received bytes into messages, answers pings and the other end's close frame, and
---ends the connection. It waits for the program to take each message, so a slow program stops the other end. It never
---waits for something to be sent.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local sign = require "runnel.internal.sign"
local timed_out = require "runnel.internal.timed_out"

local lib = need("runnel.websocket.core", "libwslay, zlib and their headers, on Debian libwslay-dev and zlib1g-dev")

local internal = core.internal
local chan, cancel, sleep = core.chan, core.cancel, core.sleep
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
---@field receive fun(self): string?, any parks until bytes have come; nil at the end, or nil and an error
---@field send fun(self, bytes: string): boolean, any parks until the system has taken the bytes; false and an error if
---it cannot. Of several calls at once, the bytes go out in the order of the calls
---@field shutdown fun(self) ends sending, once everything has been sent
---@field close fun(self, is_cut: boolean) closes both directions; with `is_cut` at once, otherwise once everything has
---been sent

---An end of a WebSocket connection.
---@class runnel.http.WebSocket
---@field protocol? string the subprotocol that both ends have agreed on
---@field code? integer once the connection has ended: the code of the other end's close frame, 1005 if that had none;
---1006 without a close frame
---@field reason? string the reason in that close frame, or why there was none
---@field private name string
---@field private session any of the C module
---@field private transport runnel.http.WebSocketTransport
---@field private is_client boolean
---@field private input runnel.Channel<any> the messages
---@field private late? any the error of pings without an answer
---@field private stopped runnel.Channel<any> closes when no message can be sent any more
---@field private ended? any why no message can be sent any more
---@field private output? runnel.Channel<any> of `writer`
---@field private heard integer counts the received pieces, and the messages that have been taken
---@field private is_reading boolean the go block waits for bytes
---@field private due { ping?: string, pong?: string } the payloads of the ping and the pong that are to be sent
---@field private is_sending_due boolean a go block is sending these
---@field private timer? runnel.Channel<any> the go block that cuts the connection if closing it takes too long
---@field private beat? runnel.Channel<any> the go block that sends pings
---@field package over runnel.Channel<any> closes when the connection is over
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
  self.stopped:close()
end

-- Ends the input. An error is reported unless the program takes it; but not in a server, where lost clients are normal.
local function end_input(self, err)
  self.input:close(err)
  if not self.is_client then self.input:poll() end -- counts as taken
end

local function give_up_waiting(self)
  sleep(connection.patience)
  self.transport:close(true)
end

-- Sends a close frame, unless one has been sent.
local function send_close(self, code, reason)
  if self.timer then return end
  self.timer = internal.trace.hide(guard.go(guard.nothing, nil, give_up_waiting, self))
  self.transport:send(self.session:close(code, reason))
end

local function release(self)
  if self.timer then cancel(self.timer) end
  if self.beat then cancel(self.beat) end
  self.transport:close(false)
  stop_writing(self, "it is closed")
  self.input:close()
  self.over:close()
end

-- Handles the other end's close frame.
local function closed_by_other(self, code, reason)
  self.code, self.reason = code, reason
  local what = ("the other end has closed it with %d%s"):format(code, reason == "" and "" or ": " .. reason)
  end_input(self, not IS_PLAIN[code] and self.name .. ": " .. what or nil)
  stop_writing(self, what)
  send_close(self, code)
end

-- Handles an error of the other end.
local function failed(self, code, why)
  self.code, self.reason = LOST, why
  end_input(self, ("%s: %s (%d)"):format(self.name, why, code))
  stop_writing(self, why)
  send_close(self, code, why)
  self.transport:shutdown()
end

-- Handles the end of the transport without a close frame.
local function lost(self, err)
  local why = "the connection has ended without a close frame"
  if err ~= nil then why = ("%s: %s"):format(why, err) end
  self.code, self.reason = LOST, self.late and tostring(self.late) or why
  end_input(self, self.late or self.name .. ": " .. why)
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
  self.is_sending_due = false
end

-- Sends a ping, or the answer to the latest ping, without waiting for it. If another one is being sent, this one is
-- sent afterwards.
local function send_soon(self, what, payload)
  self.due[what] = payload
  if self.is_sending_due or self.ended then return end
  self.is_sending_due = true
  guard.go(guard.nothing, nil, send_due, self)
end

-- Sends pings, and ends the connection when nothing arrives between two of them. While a message waits to be taken
-- there is no limit, since the answer may be behind it.
local function beat(self, ms)
  local heard = -1
  while true do
    sleep(ms)
    if self.heard == heard and self.is_reading then sleep(GRACE) end
    if self.heard == heard and self.is_reading then
      self.late = timed_out.new(("%s: nothing has come for %s ms"):format(self.name, decimal.text(ms)))
      self.transport:close(true)
      return
    end
    heard = self.heard
    send_soon(self, "ping", "")
  end
end

-- ---- reading ----

-- Handles received bytes. Returns whether the last frame was among them.
local function take_in(self, bytes)
  local session, input = self.session, self.input
  local message, kind, code, text = session:receive(bytes)
  while true do
    if message then
      if kind then message = { binary = message } end
      put_while_open(input, message)
      self.heard = self.heard + 1
    elseif not kind then
      return false
    elseif kind == "ping" then
      send_soon(self, "pong", code)
    elseif kind == "close" then
      closed_by_other(self, code, text)
      return true
    elseif kind == "failed" then
      failed(self, code, text)
      return true
    end
    message, kind, code, text = session:receive()
  end
end

-- The go block of a connection. After both close frames the server closes the transport first, so a client reads until
-- the transport ends. An end that has refused a frame also does, because closing at once could lose its close frame.
local function read_all(self, rest)
  local transport = self.transport
  local is_last = take_in(self, rest)
  while not is_last or self.is_client or self.code == LOST do
    self.is_reading = true
    local bytes, err = transport:receive()
    self.is_reading = false
    if bytes == nil then
      if not is_last then lost(self, err) end
      break
    end
    self.heard = self.heard + 1
    if not is_last then is_last = take_in(self, bytes) end
  end
  release(self)
end

-- Called when the go block has died.
local function give_up(self, reason)
  self.code, self.reason = self.code or LOST, tostring(reason)
  self.input:close(reason)
  release(self)
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

-- The frame for a message; or nil and the reason if it cannot be sent.
local function frame_of(self, message)
  if type(message) == "number" then message = decimal.exact(message) end
  if type(message) == "string" then
    local frame = self.session:text(message)
    if frame then return frame end
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
  local frame, wrong = frame_of(self, message)
  if not frame then error("write: " .. wrong, 2) end
  return self.transport:send(frame)
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
    local frame, wrong = frame_of(self, message)
    if not frame then
      refuse(ch, ("%s: %s"):format(self.name, wrong))
      return self:close(FAILED)
    end
    self.transport:send(frame)
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
  self.output = ch or chan():name(self.name)
  if self.ended then
    refuse(self.output)
  else
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
    error(("close: a code from 1000 to 1014 except 1004 to 1006, or from 3000 to 4999, expected, got %s"):format(
      check.describe(code)), 2)
  end
  if reason ~= nil and (type(reason) ~= "string" or #reason > MOST_OF_REASON or not utf8.len(reason)) then
    error(("close: reason: at most %d bytes of UTF-8 expected, got %s"):format(MOST_OF_REASON,
      check.describe(reason)), 2)
  end
  if self.ended then return end
  stop_writing(self, "it is closed")
  self.input:close()
  send_close(self, code, reason)
end

function Connection:__close(err) self:close(err ~= nil and FAILED or NORMAL) end

function Connection:__tostring() return ("websocket: %s%s"):format(self.name, self.ended and " (closed)" or "") end

-- ---- making one ----

---Begins a connection, after its handshake.
---@param transport runnel.http.WebSocketTransport
---@param is_client boolean
---@param settings runnel.http.WebSocketSettings
---@param bits integer of the window for sending; 0: no compression
---@param protocol? string
---@param rest string bytes that were received behind the handshake
---@param what string the function that the program has called
---@return runnel.http.WebSocket
function connection.new(transport, is_client, settings, bits, protocol, rest, what)
  local self = setmetatable({
    name = transport.name, transport = transport,
    session = lib.new(is_client, settings.max, bits, internal.is_simulation()),
    is_client = is_client, protocol = protocol, input = chan():name(transport.name), stopped = chan(), over = chan(),
    heard = 0, is_reading = false, due = {}, is_sending_due = false,
  }, Connection)
  self[1], self[2], self[3] = self.input, self.stopped, self.over -- these close even if `give_up` gets no memory
  guard.started(guard.go(give_up, self, read_all, self, rest), what)
  if settings.ping then
    self.beat = guard.started(guard.go(guard.nothing, nil, beat, self, settings.ping), what)
  end
  return self
end

return connection
