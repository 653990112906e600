---NATS in a simulated world: what the modules of runnel.nats call instead of the C module on a host of it. Connections
---speak NATS' protocol on simulated sockets; world:nats makes a server.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local network = require "runnel.sim.network"
local new_beats = require "runnel.sim.nats.beats"
local new_subscription = require "runnel.sim.nats.subscription"
local protocol = require "runnel.sim.nats.protocol"
local remove = require "runnel.internal.remove"
local story = require "runnel.sim.nats.nats_story"
local timers = require "runnel.sim.timer"

local nats = {}

-- libnats' defaults: ms, and bytes.
local CONNECT_TIMEOUT <const>, BUFFER <const> = 2000, 8 * 1024 * 1024

-- About how many bytes a message takes beside its subjects and its payload.
local MESSAGE_SIZE <const> = 128

---A connection, with the methods of the C module's.
---@class runnel.sim.NatsConnection
---@field world runnel.sim.World
---@field host runnel.sim.Host
---@field born integer the host's start
---@field settings table
---@field result runnel.Channel<any> gets the first event
---@field handler fun(event: table): any
---@field socket? runnel.sim.Socket
---@field timer runnel.sim.Timer for the end of an attempt to connect, or the beginning of the next one
---@field status "connecting"|"connected"|"reconnecting"|"closed"
---@field subs table<string, runnel.sim.NatsSubscription>
---@field order string[] their ids
---@field pongs function[] called at the answers to pings, in this order
---@field outbox string[] messages that wait for a connection
---@field outbox_bytes integer about how many bytes they take
---@field beats runnel.sim.Beats
---@field last_id integer of the newest subscription
---@field server integer the index in settings.servers of the server that it tries or uses
---@field tries integer attempts to connect since the connection was lost, or since the beginning
---@field most integer the server's max_payload, bytes
---@field counts { received: integer, received_bytes: integer, sent: integer, sent_bytes: integer, reconnects: integer }
local Connection = {}
Connection.__index = Connection

---Whether its host has not crashed since, and its world has not ended.
function Connection:lives() return self.host.born == self.born and current.world == self.world end

function Connection:is_connected() return self.status == "connected" end

---Calls a function after some ms, unless the connection is closed then.
---@param ms number
---@param f fun(a: any)
---@param a? any
function Connection:after(ms, f, a)
  self.world:later(ms, self.host, function()
    if self.status ~= "closed" then f(a) end
  end)
end

---@param event table
function Connection:tell(event) guard.call("an event of a nats connection", self.handler, event) end

-- ---- sending ----

---Sends bytes, if it is connected.
---@param text string
function Connection:send(text)
  if self.status == "connected" and self:lives() then self.socket:write(text) end
end

---Sends a ping, and calls a function when the answer comes.
---@param f fun()
function Connection:ping(f)
  self.pongs[#self.pongs + 1] = f
  self:send "PING\r\n"
end

local function complain(subject, what, at)
  return ('the subject "%s" has %s at byte %d'):format(subject, what, at)
end

-- What is wrong with a subject, or nil.
local function wrong_subject(subject, wildcards)
  if subject == "" then return "the subject is empty" end
  local at = subject:find "[%c ]"
  if at then return complain(subject, subject:sub(at, at) == " " and "a space" or "a control character", at) end
  local from = 1
  for part, after in (subject .. "."):gmatch "([^.]*)%.()" do
    if part == "" then return complain(subject, "an empty part", from) end
    if part == "*" or part == ">" then
      if not wildcards then return complain(subject, "a wildcard, to which nothing can be sent,", from) end
      if part == ">" and after <= #subject then return complain(subject, "a '>' before the last part", from) end
    end
    from = after
  end
end

local function wrong_header(name, value)
  if type(name) ~= "string" then return "a header's name must be a string" end
  if name == "" or name:find "[\r\n:%z]" then return "a header's name is empty, or has ':' or a newline" end
  if type(value) ~= "string" and type(value) ~= "number" then return "a header's value must be a string or a number" end
  if tostring(value):find "[\r\n%z]" then return "a header's value has a newline or a zero byte" end
end

-- What is wrong with headers, or nil.
local function wrong_headers(headers)
  for name, value in pairs(headers or {}) do
    local list = type(value) == "table" and value or { value }
    for i = 1, #list do
      local wrong = wrong_header(name, list[i])
      if wrong then return "headers: " .. wrong end
    end
  end
end

---@param subject string
---@param data string
---@param reply? string
---@param headers? table
---@return true? ok
---@return string? err
---@return true? is_wrong an argument is wrong
function Connection:publish_with(subject, data, reply, headers)
  if self.status == "closed" or not self:lives() then return nil, "Connection Closed" end
  local wrong = wrong_subject(subject) or reply and wrong_subject(reply) or wrong_headers(headers)
  if not wrong and #data > self.most then
    wrong = ("the value takes %d bytes, and the server's limit is %d (its max_payload)"):format(#data, self.most)
  end
  local lines = not wrong and headers and next(headers) and protocol.headers(headers) or nil
  if lines and #data + #lines > self.most then
    wrong = ("the value takes %d bytes, its headers %d, and the server's limit is %d (its max_payload)")
      :format(#data, #lines, self.most)
  end
  if wrong then return nil, wrong, true end
  local text = protocol.pub(subject, reply, lines, data)
  self.counts.sent, self.counts.sent_bytes = self.counts.sent + 1, self.counts.sent_bytes + #data
  if self.status == "connected" then
    self.socket:write(text)
    return true
  end
  local size = MESSAGE_SIZE + #subject + #(reply or "") + #data
  if self.outbox_bytes + size > (self.settings.reconnect_buffer or BUFFER) then return nil, "Insufficient Buffer" end
  self.outbox[#self.outbox + 1], self.outbox_bytes = text, self.outbox_bytes + size
  return true
end

Connection.publish = Connection.publish_with

-- ---- subscriptions ----

local function sub_line(sub)
  return sub.queue and ("SUB %s %s %s\r\n"):format(sub.subject, sub.queue, sub.id)
    or ("SUB %s %s\r\n"):format(sub.subject, sub.id)
end

---See sub.c of the C module.
function Connection:subscribe(subject, queue, ch, taker, most, most_bytes, _, is_direct)
  if self.status == "closed" then return nil, "Connection Closed" end
  local wrong = wrong_subject(subject, true)
  if wrong then return nil, wrong, true end
  self.last_id = self.last_id + 1
  local sub = new_subscription(self, {
    id = tostring(self.last_id), subject = subject, queue = queue, ch = ch, taker = taker, most = most,
    most_bytes = most_bytes, is_direct = is_direct,
  })
  self.subs[sub.id], self.order[#self.order + 1] = sub, sub.id
  if type(taker) == "table" then self.host.subscriptions = self.host.subscriptions + 1 end
  self:send(sub_line(sub))
  return sub
end

---A subscription has ended.
---@param sub runnel.sim.NatsSubscription
function Connection:forget(sub)
  self.subs[sub.id] = nil
  remove(self.order, sub.id)
  if type(sub.taker) == "table" and self:lives() then self.host.subscriptions = self.host.subscriptions - 1 end
end

-- ---- beats ----

function Connection:beat(subject, data, every, again)
  if self.status == "closed" then return nil, "Connection Closed" end
  local wrong = wrong_subject(subject)
  if wrong then return nil, wrong, true end
  local beat = { subject = subject, data = data, every = math.max(1, every // 1), again = again }
  self.beats:add(beat)
  return beat
end

function Connection:unbeat(beat) self.beats:remove(beat) end

---The beat ends after some ms. Virtual time does not pass while Lua runs, so `alive` has nothing to do.
function Connection:limit(beat, ms) beat.ends = core.now() + ms end -- luacheck: ignore 212

function Connection:alive() end -- luacheck: ignore 212

-- ---- connecting ----

local connect_next

-- The connection is lost, or could not be made.
local function lost(self)
  local socket = self.socket
  self.socket = nil
  if socket and not socket.closing then socket:close() end
  if self.status == "closed" then return end
  local was_connected = self.status == "connected"
  self.pongs = {}
  if was_connected then
    self.status, self.tries = "reconnecting", 0
    self:tell { event = "disconnected" }
  end
  if self.status == "closed" then return end
  connect_next(self)
end

local function send_outbox(self)
  local parts = {}
  for i, id in ipairs(self.order) do parts[i] = sub_line(self.subs[id]) end
  table.move(self.outbox, 1, #self.outbox, #parts + 1, parts)
  self.outbox, self.outbox_bytes = {}, 0
  if parts[1] then self:send(table.concat(parts)) end
end

-- The server has answered the first ping.
local function connected(self)
  local is_first = self.status == "connecting"
  self.status = "connected"
  self.timer:stop()
  send_outbox(self)
  local url = self.settings.servers[self.server]
  if is_first then
    self.result:offer(self.handler { event = "connected", url = url })
  else
    self.counts.reconnects = self.counts.reconnects + 1
    self:tell { event = "reconnected", url = url }
  end
end

local HANDLERS = {
  INFO = function(self, words)
    local info = assert(json.decode(words))
    self.most = info.max_payload
    self.socket:write(('CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":%s}\r\nPING\r\n')
      :format(not self.settings.no_echo))
    self.pongs[1] = function() connected(self) end
  end,
  PING = function(self) self:send "PONG\r\n" end,
  PONG = function(self)
    local f = table.remove(self.pongs, 1)
    if f then f() end
  end,
  MSG = function(self, words, text, data)
    local subject, id, reply = words:match "^(%S+) (%S+) ?(%S*)$"
    local counts, sub = self.counts, self.subs[id]
    counts.received, counts.received_bytes = counts.received + 1, counts.received_bytes + #data
    if sub then sub:receive(subject, reply ~= "" and reply or nil, text, data) end
  end,
}

-- The connection may be silent from now on. The C module sends pings, and gives it up after `silence`.
local function suspect(self, socket)
  self:after(self.settings.silence, function()
    if self.socket == socket and socket:is_cut() then lost(self) end
  end)
end

-- Tries one server.
local function try(self, url)
  local name, port = url:gsub("^.*//", ""):gsub("^.*@", ""):gsub("/$", ""):match "^(.-):?(%d*)$"
  local socket = network.new_tcp()
  self.socket, socket.tell = socket, story.of_client
  local function fail()
    if self.socket == socket then lost(self) end
  end
  self.timer:start(self.settings.connect_timeout or CONNECT_TIMEOUT, 0, fail)
  network.getaddrinfo(name, nil, nil, function(problem, found)
    if self.socket ~= socket then return end
    if problem then return fail() end
    local request = socket:connect(found[1].addr, math.tointeger(tonumber(port)) or 4222, function(err)
      if self.socket ~= socket then return end
      if err then return fail() end
      local take = protocol.reader(function(verb, words, text, data)
        if self.socket == socket then HANDLERS[verb](self, words, text, data) end
      end)
      socket.on_cut = function() suspect(self, socket) end
      socket:read_start(function(_, data)
        if data then take(data) else fail() end
      end)
    end)
    if not request then fail() end
  end)
end

local function give_up(self)
  self.timer:stop()
  if self.status == "connecting" then
    self.status = "closed"
    self.result:offer(self.handler { event = "failed", error = "No server available for connection" })
  else
    self.status = "closed"
    self:tell { event = "closed", error = "Connection Closed" }
  end
end

-- Tries the next server: at first each once, later with reconnect_wait before the first of them.
function connect_next(self)
  local settings = self.settings
  local n = #settings.servers
  self.tries = self.tries + 1
  if self.status == "connecting" and self.tries > n then return give_up(self) end
  local most = settings.max_reconnects
  if self.status == "reconnecting" and (settings.reconnect == false or most >= 0 and self.tries > most * n) then
    return give_up(self)
  end
  self.server = self.server % n + 1
  local url = settings.servers[self.server]
  if self.status == "reconnecting" and (self.tries - 1) % n == n - 1 then
    self.timer:start(settings.reconnect_wait, 0, function() try(self, url) end)
  else
    try(self, url)
  end
end

---connect of the C module: begins to connect.
---@param settings table
---@param result runnel.Channel<any>
---@param handler fun(event: table): any
---@return runnel.sim.NatsConnection
function nats.connect(settings, result, handler)
  local world = current.world --[[@as runnel.sim.World]]
  local host = world:here() --[[@as runnel.sim.Host]]
  local self = setmetatable({
    world = world, host = host, born = host.born, settings = settings, result = result, handler = handler,
    status = "connecting", subs = {}, order = {}, pongs = {}, outbox = {}, outbox_bytes = 0, last_id = 0, tries = 0,
    server = 0, most = 0,
    counts = { received = 0, received_bytes = 0, sent = 0, sent_bytes = 0, reconnects = 0 },
  }, Connection)
  self.beats, self.timer = new_beats(self), timers.new_timer()
  connect_next(self)
  return self
end

---@return integer left about how many bytes could not be sent
function Connection:close()
  if self.status == "closed" then return 0 end
  for _, id in ipairs(table.move(self.order, 1, #self.order, 1, {})) do self.subs[id]:close() end
  self.beats:stop()
  self.timer:stop()
  self.status = "closed"
  if self.socket and not self.socket.closing then self.socket:close() end
  return self.outbox_bytes
end

-- ---- what it is ----

function Connection:max_payload() return self.most end

function Connection:stats()
  local stats = { status = self.status == "connecting" and "reconnecting" or self.status }
  if stats.status ~= "connected" then return stats end
  for name, n in pairs(self.counts) do stats[name] = n end
  stats.buffered_bytes = 0
  return stats
end

function Connection:attend() end -- luacheck: ignore 212

function Connection:unattend() end -- luacheck: ignore 212

-- ---- the module ----

---A new subject.
---@return string
function nats.inbox()
  local world = current.world --[[@as runnel.sim.World]]
  world.inboxes = world.inboxes + 1
  return ("_INBOX.%s%d"):format(world:here().name:gsub("[^%w_-]", "_"), world.inboxes)
end

---The host's name, and how often it has started.
---@return string host
---@return integer pid
function nats.process()
  local host = current.world:here()
  return host.machine.name, host.born
end

---ms since 1970.
---@return number
function nats.time() return current.world:time() end

return nats
