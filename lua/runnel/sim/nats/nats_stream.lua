---A stream of the simulated JetStream: messages by their sequence numbers, limits, and ids.

local json = require "runnel.json"
local protocol = require "runnel.sim.nats.protocol"
local remove = require "runnel.internal.remove"

local streams = {}

---@class runnel.sim.StreamMessage
---@field seq integer
---@field subject string
---@field headers? string
---@field body string
---@field time number ms since 1970
---@field size integer bytes that it takes

---@class runnel.sim.Stream
---@field name string
---@field config table in the server's words
---@field config_text string the same as JSON
---@field created string
---@field clock fun(): number ms since 1970
---@field messages table<integer, runnel.sim.StreamMessage>
---@field by_subject table<string, integer[]> the sequence numbers of a subject's messages, in order
---@field first integer the number of the first message, or the next one
---@field last integer the number of the last message that was stored
---@field count integer
---@field bytes integer
---@field ids table<string, { seq: integer, time: number }>
---@field consumers runnel.sim.Consumer[] in the order of their names
---@field matchers (string|fun(subject: string): boolean)[] which subjects it stores
---@field stored_at? number when a message was stored last
---@field removed { time: number, message: runnel.sim.StreamMessage }[] what was acknowledged lately: a server that is
---killed may forget that
---@field remembers number for how many ms that is kept
local Stream = {}
Stream.__index = Stream

-- The errors of JetStream: code, and text.
local ERRORS = {
  [10037] = "no message found", [10043] = "sequence %d not found", [10054] = "message size exceeds maximum allowed",
  [10060] = "expected stream does not match", [10071] = "wrong last sequence: %d", [10077] = "%s",
}

---An error of JetStream.
---@param code integer
---@param ... any
---@return table
function streams.err(code, ...)
  return { code = code == 10077 and 503 or code == 10037 and 404 or 400, err_code = code,
    description = ERRORS[code]:format(...) }
end
local err = streams.err

-- ---- reading ----

function Stream:matches(subject)
  for _, matcher in ipairs(self.matchers) do
    if matcher == subject or type(matcher) == "function" and matcher(subject) then return true end
  end
  return false
end

---Sets the settings of an existing stream.
---@param config table
function Stream:configure(config)
  self.config, self.config_text, self.matchers = config, assert(json.encode(config)), {}
  for i, subject in ipairs(config.subjects) do self.matchers[i] = protocol.matcher(subject) or subject end
end

---Removes what is too old. Is called before anything else is done with the stream.
function Stream:expire()
  local now = self.clock()
  local oldest = self.config.max_age > 0 and now - self.config.max_age / 1e6
  while oldest and self.count > 0 and self.messages[self.first].time <= oldest do
    self:drop(self.messages[self.first])
  end
end

---The next message with at least this number whose subject matches; nil if there is none.
---@param seq integer
---@param matches? (fun(subject: string): boolean)|string
---@return runnel.sim.StreamMessage?
function Stream:next(seq, matches)
  if type(matches) == "string" then
    for _, found in ipairs(self.by_subject[matches] or {}) do
      if found >= seq then return self.messages[found] end
    end
    return nil
  end
  for i = math.max(seq, self.first), self.last do
    local message = self.messages[i]
    if message and (not matches or matches(message.subject)) then return message end
  end
end

---The last message of a subject, or pattern.
---@param subject string
---@return runnel.sim.StreamMessage?
function Stream:last_of(subject)
  local matches = protocol.matcher(subject)
  if not matches then
    local list = self.by_subject[subject]
    return list and self.messages[list[#list]]
  end
  for i = self.last, self.first, -1 do
    local message = self.messages[i]
    if message and matches(message.subject) then return message end
  end
end

-- ---- removing ----

---@param message runnel.sim.StreamMessage
function Stream:remove(message)
  local seq = message.seq
  if self.messages[seq] ~= message then return end
  self.messages[seq] = nil
  self.count, self.bytes = self.count - 1, self.bytes - message.size
  local list = self.by_subject[message.subject]
  remove(list, seq)
  if #list == 0 then self.by_subject[message.subject] = nil end
  while self.first <= self.last and not self.messages[self.first] do self.first = self.first + 1 end
end

---Removes a message that may not be finished: no consumer waits for its acknowledgement any more.
---@param message runnel.sim.StreamMessage
function Stream:drop(message)
  self:remove(message)
  for _, consumer in ipairs(self.consumers) do consumer:dropped(message.seq) end
end

-- Puts a message where it was before it was removed.
local function put_back(self, message)
  local seq = message.seq
  if self.messages[seq] then return end
  self.messages[seq] = message
  self.count, self.bytes = self.count + 1, self.bytes + message.size
  self.first = math.min(self.first, seq)
  local list = self.by_subject[message.subject] or {}
  self.by_subject[message.subject] = list
  list[#list + 1] = seq
  table.sort(list)
end

---A consumer has finished with a message: with these retentions it goes then.
---@param seq integer
---@param by runnel.sim.Consumer
function Stream:finished(seq, by)
  local message = self.messages[seq]
  if not message or self.config.retention == "limits" then return end
  if self.config.retention == "interest" then
    for _, consumer in ipairs(self.consumers) do
      if consumer ~= by and consumer:needs(message) then return end
    end
  end
  local now = self.clock()
  self:remove(message)
  while self.removed[1] and now - self.removed[1].time > self.remembers do table.remove(self.removed, 1) end
  self.removed[#self.removed + 1] = { time = now, message = message }
end

---After how many ms at most the server has written what was acknowledged.
streams.WRITTEN = 100

---Whether it removed messages after a time, which the server may not have written.
---@param since number
---@return boolean
function Stream:may_forget(since)
  local latest = self.removed[#self.removed]
  return latest ~= nil and latest.time > since
end

---Brings the messages back that were removed after a time.
---@param since number
function Stream:forget(since)
  for _, removal in ipairs(self.removed) do
    if removal.time > since and removal.message.seq <= self.last then put_back(self, removal.message) end
  end
end

---How many of the last messages were stored after a time, those that were removed included.
---@param since number
---@return integer
function Stream:stored_since(since)
  local removed, n = {}, 0
  for _, removal in ipairs(self.removed) do removed[removal.message.seq] = removal.message end
  for seq = self.last, 1, -1 do
    local message = self.messages[seq] or removed[seq]
    if not message or message.time <= since then break end
    n = n + 1
  end
  return n
end

---Loses the last messages, whose numbers are given to the next ones.
---@param n integer
function Stream:lose(n)
  for _ = 1, n do
    local message = self.messages[self.last]
    if message then self:remove(message) end
    self.last = self.last - 1
  end
  self.first = math.min(self.first, self.last + 1)
end

---Removes all messages before a number, or of a subject.
---@param before? integer
---@param filter? string
---@return integer count
function Stream:purge(before, filter)
  local matches, n = filter and (protocol.matcher(filter) or function(subject) return subject == filter end), 0
  for seq = self.first, self.last do
    local message = self.messages[seq]
    if message and (not before or seq < before) and (not matches or matches(message.subject)) then
      self:remove(message)
      n = n + 1
    end
  end
  return n
end

-- ---- storing ----

-- The bytes that the server counts for a message.
local function size_of(self, subject, headers, body)
  if self.config.storage == "memory" then return #subject + #(headers or "") + #body + 16 end
  return 30 + #subject + (headers and 4 + #headers or 0) + #body
end

-- What forbids to store a message, or nil.
local function problem(self, subject, payload)
  local config = self.config
  local of_subject = self.by_subject[subject]
  local is_full = config.max_msgs_per_subject > 0 and of_subject and #of_subject >= config.max_msgs_per_subject
  if config.discard ~= "new" then return nil end
  if is_full and config.discard_new_per_subject then return "maximum messages per subject exceeded" end
  if is_full then return nil end
  if config.max_msgs > 0 and self.count >= config.max_msgs then return "maximum messages exceeded" end
  if config.max_bytes > 0 and self.bytes + payload >= config.max_bytes then return "maximum bytes exceeded" end
end

-- Removes what exceeds the limits.
local function trim(self, subject)
  local config = self.config
  local list = self.by_subject[subject]
  while config.max_msgs_per_subject > 0 and #list > config.max_msgs_per_subject do
    self:drop(self.messages[list[1]])
  end
  local most, most_bytes = config.max_msgs, config.max_bytes
  while most > 0 and self.count > most or most_bytes > 0 and self.bytes > most_bytes do
    self:drop(self.messages[self.first])
  end
end

local function is_wanted(self, subject)
  if self.config.retention ~= "interest" then return true end
  for _, consumer in ipairs(self.consumers) do
    if consumer:matches(subject) then return true end
  end
  return false
end

-- The message of an id that the stream still knows, or nil.
local function known(self, id)
  local found = id and self.ids[id]
  if found and self.clock() - found.time < self.config.duplicate_window / 1e6 then return found.seq end
end

---Stores a message.
---@param subject string
---@param headers? string
---@param body string
---@return table answer in the server's words
---@return boolean is_new
function Stream:store(subject, headers, body)
  self:expire()
  local name, config = self.name, self.config
  local function refuse(...) return { error = err(...), stream = name, seq = 0 }, false end
  local id, expected, last
  if headers then
    id, expected = protocol.header(headers, "Nats-Msg-Id"), protocol.header(headers, "Nats-Expected-Stream")
    last = protocol.header(headers, "Nats-Expected-Last-Subject-Sequence")
  end
  if expected and expected ~= name then return refuse(10060) end
  local seq = known(self, id)
  if seq then return { stream = name, seq = seq, duplicate = true }, false end
  if last then
    local list = self.by_subject[subject]
    local found = list and list[#list] or 0
    if found ~= tonumber(last) then return refuse(10071, found) end
  end
  if config.max_msg_size > 0 and #(headers or "") + #body > config.max_msg_size then return refuse(10054) end
  local size = size_of(self, subject, headers, body)
  local why = problem(self, subject, #(headers or "") + #body)
  if why then return refuse(10077, why) end
  seq = self.last + 1
  local is_first = self.count == 0
  self.last = seq
  if is_first then self.first = seq end
  if id then self.ids[id] = { seq = seq, time = self.clock() } end
  self.stored_at = self.clock()
  if is_wanted(self, subject) then
    local list = self.by_subject[subject] or {}
    self.by_subject[subject], list[#list + 1] = list, seq
    self.messages[seq] = { seq = seq, subject = subject, headers = headers, body = body, time = self.clock(),
      size = size }
    self.count, self.bytes = self.count + 1, self.bytes + size
    trim(self, subject)
  else
    self.first = seq + 1
  end
  return { stream = name, seq = seq }, true
end

-- ---- after a restart ----

---The server has started again: it knows the ids of the messages that it has.
function Stream:recover()
  self.ids, self.removed = {}, {}
  for seq = self.first, self.last do
    local message = self.messages[seq]
    local id = message and message.headers and protocol.header(message.headers, "Nats-Msg-Id")
    if id then self.ids[id] = { seq = seq, time = message.time } end
  end
end

---@param config table completed
---@param created string
---@param clock fun(): number ms since 1970
---@param sync_interval number ms
---@return runnel.sim.Stream
function streams.new(config, created, clock, sync_interval)
  local self = setmetatable({
    name = config.name, created = created, clock = clock, messages = {}, by_subject = {}, first = 0, last = 0,
    count = 0, bytes = 0, ids = {}, consumers = {}, removed = {},
    remembers = math.max(streams.WRITTEN, sync_interval),
  }, Stream)
  self:configure(config)
  return self
end

return streams
