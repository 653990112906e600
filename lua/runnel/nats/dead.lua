---Dead letters: given-up jobs of remote stages and messages of durable stages. Each stage has a stream of them, which
---is made with the first one. A letter's body is the value's bytes; the rest is in its headers.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.nats.internal.patience"
local outlet = require "runnel.nats.internal.outlet"
local values = require "runnel.nats.internal.values"

local dead = {}

-- How long the stream keeps the ids of letters. A server that was killed may redeliver old messages, and those among
-- them that were given up are given up again.
local IDS_MS <const> = 24 * 60 * 60 * 1000

-- The approximate size of the headers' names and form, without their texts; and the size of a text if there is no room
-- for all of it.
local HEADER_SIZE <const>, SHORT <const> = 32, 1000

---A dead letter.
---@class runnel.DeadLetter
---@field sequence integer its number in the stream of dead letters
---@field name string of the stage
---@field kind "job"|"message" a job of a remote stage, or a message of a durable stage
---@field error string
---@field traceback? string
---@field starts integer how often it was started
---@field raises integer how many of these starts ended with an error
---@field since number when it was submitted or stored, in ms since 1970
---@field time number when it was given up
---@field worker? string host and process id of the worker that had it last, as far as it is known
---@field encoding string of the value
---@field bytes integer how many the value has
---@field is_async boolean it is a job for a function that gets a channel for its results
---@field left_out boolean the value was too large for a letter
---@field from? string the stream of the message
---@field subject? string of the message
---@field position? integer the number of the message in its stream
---@field value any only from `get`
---@field data? string the bytes of the value; only from `get`
---@field headers? table<string, string> of the message; only from `get`
---@field id? string the stream stores one letter with an id

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
  local headers = {
    ["Runnel-Kind"] = letter.kind, ["Runnel-Encoding"] = letter.encoding,
    ["Runnel-Starts"] = ("%d"):format(letter.starts), ["Runnel-Raises"] = ("%d"):format(letter.raises),
    ["Runnel-Since"] = ("%.0f"):format(letter.since), ["Runnel-Worker"] = letter.worker,
    ["Runnel-Async"] = letter.is_async and "yes" or nil, ["Runnel-From"] = letter.from,
    ["Runnel-Subject"] = letter.subject, ["Runnel-Sequence"] = letter.position and ("%d"):format(letter.position),
    ["Runnel-Error"] = escape(letter.error), ["Runnel-Traceback"] = letter.traceback and escape(letter.traceback),
  }
  local own = {}
  for name, text in pairs(headers) do own[name] = text end
  for name, text in pairs(letter.headers or {}) do
    if type(text) == "string" and not name:find "^Nats%-" and not name:find "^Runnel%-" then headers[name] = text end
  end
  if size_of(headers) + #letter.data <= room then return headers, letter.data end
  for _, name in ipairs { "Runnel-Traceback", "Runnel-Error" } do
    headers[name] = headers[name] and headers[name]:sub(1, SHORT)
    if size_of(headers) + #letter.data <= room then return headers, letter.data end
  end
  own["Runnel-Traceback"], own["Runnel-Error"] = headers["Runnel-Traceback"], headers["Runnel-Error"]
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
function dead.store(conn, letter, settings)
  local stream = names.dead_stream(letter.name)
  local info, err = jetstream.ensure(conn, "STREAM.INFO." .. stream, "STREAM.CREATE." .. stream, {
    name = stream, subjects = { names.dead(letter.name) }, storage = settings.storage or "file", retention = "limits",
    num_replicas = settings.replicas or 1, discard = "old", duplicate_window = jetstream.ns(IDS_MS),
  })
  if not info then return nil, err end
  local headers, body = encode(letter, conn.max_payload)
  local sequence, why = jetstream.store(conn, names.dead(letter.name), body, {
    id = letter.id, timeout = patience.letter, encoding = "raw", headers = headers, stream = stream, level = 2,
  })
  if not sequence then return nil, why --[[@as string]] end
  return true
end

-- ---- what the program has ----

---The dead letters of a stage.
---@class runnel.DeadLetters
---@field name string of the stage
---@field private conn runnel.nats.Connection
---@field private stream string
local Dead = { __name = "dead letters" }
Dead.__index = Dead

function Dead:__tostring() return ("dead letters: %s.dead"):format(self.name) end

---The number of letters.
---@return integer? count, string? err
function Dead:count()
  local info, err, code = jetstream.request(self.conn, "STREAM.INFO." .. self.stream)
  if code == jetstream.NO_STREAM then return 0 end
  if not info then return nil, err end
  return info.state.messages
end

-- Calls f with each message from a sequence number on, until f returns false. Returns nil, err if that fails.
local function each(self, first, headers_only, f)
  local _, err, code = jetstream.request(self.conn, "STREAM.INFO." .. self.stream)
  if code == jetstream.NO_STREAM then return true end
  if err then return nil, err end
  local messages, info = outlet.open({
    conn = self.conn, stream = self.stream, encoding = "raw", batch = 64,
    config = { deliver_policy = "by_start_sequence", opt_start_seq = first, headers_only = headers_only or nil },
  }, "dead letters")
  if not messages then return nil, info end
  local _ <close> = messages
  if info.num_pending == 0 then return true end
  for m in messages do
    if f(m) == false or m.pending == 0 then return true end
  end
  return nil, "the connection has ended"
end

local LIST_OPTIONS = { after = true, limit = true }

---Lists dead letters, the oldest first, without their values.
---@param opts? { after?: integer, limit?: integer } `after`: only those with larger sequence numbers; `limit`: at most
---that many (100)
---@return runnel.DeadLetter[]? letters, string? err
function Dead:list(opts)
  check.options(opts, LIST_OPTIONS, "list")
  opts = opts or {}
  local after, most = opts.after or 0, opts.limit or 100
  check.integer(after, 0, "list: after")
  check.integer(most, 1, "list: limit")
  local letters = {}
  local ok, err = each(self, after + 1, true, function(m)
    letters[#letters + 1] = decode(self, m, false)
    return #letters < most
  end)
  if not ok then return nil, err end
  return letters
end

local function missing(self, sequence) return ("there is no dead letter %d of %s"):format(sequence, self.name) end

---One dead letter, with its value.
---@param sequence integer
---@return runnel.DeadLetter? letter, string? err
function Dead:get(sequence)
  check.integer(sequence, 1, "get: sequence")
  local letter
  local ok, err = each(self, sequence, false, function(m)
    if m.sequence == sequence then letter = decode(self, m, true) end
    return false
  end)
  if not ok then return nil, err end
  if not letter then return nil, missing(self, sequence) end
  return letter
end

---Deletes one dead letter, or all. Returns how many.
---@param sequence? integer
---@return integer? count, string? err
function Dead:drop(sequence)
  if sequence ~= nil then check.integer(sequence, 1, "drop: sequence") end
  local verb, body = "STREAM.PURGE.", nil
  if sequence then verb, body = "STREAM.MSG.DELETE.", { seq = sequence, no_erase = true } end
  local answer, err, code = jetstream.request(self.conn, verb .. self.stream, body)
  if answer then return sequence and 1 or answer.purged end
  if sequence and code then return nil, missing(self, sequence) end
  if code == jetstream.NO_STREAM then return 0 end
  return nil, err
end

-- Runs a job again, and returns true and its results, or nil and its error.
local function run_again(self, letter)
  local remote <close> = self.conn:remote(self.name, { encoding = letter.encoding, dead = false })
  local function run()
    if not letter.is_async then return remote(letter.value) end
    local out, list = core.chan(16), {}
    remote(letter.value, out)
    while true do
      local value, err = out:take()
      if err ~= nil then error(err, 0) end
      if value == nil then return table.unpack(list) end
      list[#list + 1] = value
    end
  end
  local results = table.pack(xpcall(run, guard.handler))
  if results[1] then return results end
  return nil, (guard.caught(results[2]))
end

-- Puts a message into its stream again, for the same stage only.
local function store_again(self, letter)
  local headers = { ["Runnel-For"] = self.name }
  for name, text in pairs(letter.headers) do headers[name] = text end
  local id = ("replay.%s.%d.%.0f"):format(self.name, letter.sequence, letter.time)
  local sequence, err = jetstream.store(self.conn, letter.subject, letter.data, {
    id = id, timeout = patience.letter, encoding = "raw", headers = headers, stream = letter.from, level = 3,
  })
  if not sequence then return nil, err end
  return { n = 1, true }
end

---Runs a given-up job or message again, and deletes its dead letter. A job of a remote stage runs in a worker, and this
---waits for its end, forever if there is no worker: returns true and its results; or nil and its error, and keeps the
---letter. A message of a durable stage is put into its stream again, for this stage only; other readers of the stream
---get it too.
---@param sequence integer
---@return boolean? done, any ... the results, or the error
function Dead:replay(sequence)
  local letter, err = self:get(sequence)
  if not letter then return nil, err end
  if letter.left_out then return nil, "the value was too large for a dead letter, and is not in it" end
  local results, why = (letter.kind == "job" and run_again or store_again)(self, letter)
  if not results then return nil, why end
  self:drop(sequence)
  return table.unpack(results, 1, results.n)
end

---The dead letters of the remote or durable stage with this name.
---@param conn runnel.nats.Connection
---@param name string
---@return runnel.DeadLetters letters
function dead.dead(conn, name)
  jetstream.check_name(name, "dead: name")
  return setmetatable({ conn = conn, name = name, stream = names.dead_stream(name) }, Dead)
end

return dead
