---Dead letters: given-up jobs of remote stages and messages of durable stages. Each stage has a stream of them, which
---is made with the first one. A letter's body is the value's bytes; the rest is in its headers.

local counts = require "runnel.queue.count"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local letters = require "runnel.queue.dead"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.nats.internal.patience"
local outlet = require "runnel.nats.internal.outlet"
local sign = require "runnel.internal.sign"
local values = require "runnel.queue.encodings"

local dead = {}

-- How long the stream keeps the ids of letters. A server that was killed may redeliver old messages, and those among
-- them that were given up are given up again.
local IDS_MS <const> = 24 * 60 * 60 * 1000

-- The approximate size of the headers' names and form, without their texts; and the size of a text if there is no room
-- for all of it.
local HEADER_SIZE <const>, SHORT <const> = 32, 1000

-- Room for the headers that are added to those of a letter: its id and its stream, without these texts; and a trace.
local OTHERS <const> = 700

-- ---- the form of a letter ----

-- Texts in headers have no newlines.
local function escape(text)
  return (text:gsub("[%c%%\127]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function size_of(headers)
  local size = 0
  for name, text in pairs(headers) do size = size + #name + #text + HEADER_SIZE end
  return size
end

-- The headers and the body of a letter, made to fit into a message of `room` bytes.
local function encode(letter, room)
  local errors = letter.errors and json.encode(letter.errors)
  local headers = {
    ["Runnel-Kind"] = letter.kind, ["Runnel-Encoding"] = letter.encoding,
    ["Runnel-Starts"] = ("%d"):format(letter.starts), ["Runnel-Raises"] = ("%d"):format(letter.raises),
    ["Runnel-Since"] = ("%.0f"):format(letter.since), ["Runnel-Worker"] = letter.worker,
    ["Runnel-Async"] = letter.is_async and "yes" or nil, ["Runnel-From"] = letter.from,
    ["Runnel-Subject"] = letter.subject, ["Runnel-Sequence"] = letter.position and ("%d"):format(letter.position),
    ["Runnel-Errors"] = errors and escape(errors) or nil,
    ["Runnel-Error"] = escape(letter.error), ["Runnel-Traceback"] = letter.traceback and escape(letter.traceback),
  }
  local own = {}
  for name, text in pairs(headers) do own[name] = text end
  for name, text in pairs(letter.headers or {}) do
    if type(text) == "string" and not name:find "^Nats%-" and not name:find "^Runnel%-" then headers[name] = text end
  end
  if size_of(headers) + #letter.data <= room then return headers, letter.data end
  for _, name in ipairs { "Runnel-Errors", "Runnel-Traceback", "Runnel-Error" } do
    headers[name] = name ~= "Runnel-Errors" and headers[name] and headers[name]:sub(1, SHORT) or nil
    if size_of(headers) + #letter.data <= room then return headers, letter.data end
  end
  own["Runnel-Traceback"], own["Runnel-Error"] = headers["Runnel-Traceback"], headers["Runnel-Error"]
  own["Runnel-Errors"] = nil
  own["Runnel-Value"] = "left-out"
  return own, ""
end

-- The letter of a message of the stream.
local function decode(self, m, with_value)
  local headers = m.headers or {}
  local function number(name) return math.tointeger(tonumber(headers[name])) end
  local letter = {
    sequence = m.sequence, name = self.name, kind = headers["Runnel-Kind"] == "job" and "job" or "message",
    error = unescape(headers["Runnel-Error"] or ""),
    traceback = headers["Runnel-Traceback"] and unescape(headers["Runnel-Traceback"]),
    starts = number "Runnel-Starts" or 0, raises = number "Runnel-Raises" or 0, since = number "Runnel-Since" or m.time,
    time = m.time, worker = headers["Runnel-Worker"], encoding = headers["Runnel-Encoding"] or "raw",
    bytes = number "Nats-Msg-Size" or #m.data, is_async = headers["Runnel-Async"] ~= nil,
    left_out = headers["Runnel-Value"] ~= nil, from = headers["Runnel-From"], subject = headers["Runnel-Subject"],
    position = number "Runnel-Sequence",
  }
  if not with_value then return letter end
  letter.data, letter.headers = m.data, {}
  letter.errors = headers["Runnel-Errors"] and counts.errors(json.decode(unescape(headers["Runnel-Errors"])))
  local encoding = values.encodings[letter.encoding]
  if encoding and not letter.left_out then letter.value = encoding.decode(m.data) end
  for name, text in pairs(headers) do
    if not name:find "^Nats%-" and not name:find "^Runnel%-" then letter.headers[name] = text end
  end
  return letter
end

-- ---- storing ----

---Stores a letter, unless the stream already has its id.
---@param conn runnel.nats.Connection
---@param letter runnel.DeadLetter
---@param settings { storage?: string, replicas?: integer } of the stream, if it does not exist yet
---@return boolean? stored, string? err
---@return boolean? passes the same call may succeed later
function dead.store(conn, letter, settings)
  local stream = names.dead_stream(letter.name)
  local info, err, code = jetstream.ensure(conn, "STREAM.INFO." .. stream, "STREAM.CREATE." .. stream, {
    name = stream, subjects = { names.dead(letter.name) }, storage = settings.storage or "file", retention = "limits",
    num_replicas = settings.replicas or 1, discard = "old", duplicate_window = jetstream.ns(IDS_MS),
  })
  if not info then return nil, err, jetstream.may_pass(err, code) end
  local headers, body = encode(letter, conn.max_payload - OTHERS - #stream - #(letter.id or ""))
  local sequence, why, problem = jetstream.store(conn, names.dead(letter.name), body, {
    id = letter.id, timeout = patience.letter, encoding = "raw", headers = headers, stream = stream,
  })
  if not sequence then return nil, why --[[@as string]], jetstream.may_pass(why, problem) end
  return true
end

-- ---- what the program has ----

-- Whether a letter is one of these. One that does not say its stream may be.
local function is_own(self, letter)
  return (not self.kind or letter.kind == self.kind)
    and (not self.from or not letter.from or letter.from == self.from)
end

-- Calls f with each message from a sequence number on, until f returns false. Returns nil, err if that fails.
local function each(self, first, headers_only, f)
  local stream = names.dead_stream(self.name)
  local _, err, code = jetstream.request(self.owner, "STREAM.INFO." .. stream)
  if code == jetstream.NO_STREAM then return true end
  if err then return nil, err end
  return outlet.each({
    conn = self.owner, stream = stream, encoding = "raw", batch = 64,
    config = { deliver_policy = "by_start_sequence", opt_start_seq = first, headers_only = headers_only or nil },
  }, "dead letters", f)
end

-- The functions of the class (runnel.DeadLetters).
local Dead = {}

function Dead:count()
  sign.own(self, "dead", "count")
  if self.kind then
    local list, problem = self:read(0, math.maxinteger)
    return list and #list, problem
  end
  local info, err, code = jetstream.request(self.owner, "STREAM.INFO." .. names.dead_stream(self.name))
  if code == jetstream.NO_STREAM then return 0 end
  if not info then return nil, err end
  return info.state.messages
end

function Dead:read(after, most)
  if after == math.maxinteger then return {} end -- no message has a larger number
  local list = {}
  local ok, err = each(self, after + 1, true, function(m)
    local letter = decode(self, m, false)
    if is_own(self, letter) then list[#list + 1] = letter end
    return #list < most
  end)
  if not ok then return nil, err end
  return list
end

function Dead:find(sequence)
  local letter
  local ok, err = each(self, sequence, false, function(m)
    if m.sequence == sequence then letter = decode(self, m, true) end
    return false
  end)
  if not ok then return nil, err end
  return letter and is_own(self, letter) and letter or nil
end

-- Removes one letter; or all, or those before a sequence number. Returns how many.
local function remove(self, sequence, before)
  local verb, body = "STREAM.PURGE.", before and { seq = before }
  if sequence then verb, body = "STREAM.MSG.DELETE.", { seq = sequence, no_erase = true } end
  local answer, err, code = jetstream.request(self.owner, verb .. names.dead_stream(self.name), body)
  if answer then return sequence and 1 or answer.purged end
  if sequence and code or code == jetstream.NO_STREAM then return 0 end
  return nil, err
end

-- Removes the letters of one queue, and leaves those of others: in one request if there are none.
local function remove_own(self)
  local own, last, has_others = {}, 0, false
  local ok, err = each(self, 1, true, function(m)
    last = m.sequence
    if is_own(self, decode(self, m, false)) then own[#own + 1] = last else has_others = true end
  end)
  if not ok then return nil, err end
  if own[1] and not has_others then return remove(self, nil, last + 1) end
  local count = 0
  for _, sequence in ipairs(own) do
    local n, problem = remove(self, sequence)
    if not n then return nil, problem end
    count = count + n
  end
  return count
end

function Dead:remove(sequence)
  local count, err
  if not self.kind then count, err = remove(self, sequence)
  elseif not sequence then count, err = remove_own(self)
  else
    local letter, problem = self:find(sequence)
    if not letter then return problem == nil and 0 or nil, problem end
    count, err = remove(self, sequence)
  end
  return count, err
end

function Dead:store_again(letter)
  local headers = { ["Runnel-For"] = self.name }
  for name, text in pairs(letter.headers) do headers[name] = text end
  local id = ("replay.%s.%d.%.0f"):format(self.name, letter.sequence, letter.time)
  local ok, sequence, err = guard.try(jetstream.store, self.owner, letter.subject, letter.data, {
    id = id, timeout = patience.letter, encoding = "raw", headers = headers, stream = letter.from,
  })
  if not ok then -- it has no room beside these headers
    guard.raise_cancelled(sequence)
    return nil, (guard.text(sequence):gsub("^put: ", ""))
  end
  if not sequence then return nil, err --[[@as string]] end
  return self:remove(letter.sequence)
end

local class = letters.class(Dead)

---The dead letters of the remote or durable stage with this name.
---@param conn runnel.nats.Connection
---@param name string NAME, or STREAM/NAME for those of the messages of one stream
---@return runnel.DeadLetters letters
function dead.dead(conn, name)
  sign.own(conn, "conn", "dead")
  return letters.new(class, conn, name)
end

return dead
