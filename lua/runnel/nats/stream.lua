---conn:stream: streams of JetStream, made with the settings that the program asks for.

local check = require "runnel.internal.check"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"

-- Each returns whether a value is valid, and the description of valid values.
local function is_ms(value)
  return type(value) == "number" and value >= 0 and value < math.huge, "a number of milliseconds"
end
local function is_count(value) return math.type(value) == "integer" and value >= 1, "an integer of at least 1" end
local function is_boolean(value) return type(value) == "boolean", "true or false" end
local function is_string(value) return type(value) == "string", "a string" end
local function is_subjects(value)
  local is_list = type(value) == "table" and #value > 0
  for _, subject in ipairs(is_list and value or {}) do is_list = is_list and type(subject) == "string" end
  return is_list or type(value) == "string", "a subject, or a list of them,"
end
local function one_of(...)
  local list = { ... }
  return function(value)
    local found = false
    for _, one in ipairs(list) do found = found or value == one end
    return found, '"' .. table.concat(list, '" or "') .. '"'
  end
end

-- The settings: the server's names, and their checks.
local SETTINGS = {
  subjects = { "subjects", is_subjects }, storage = { "storage", one_of("file", "memory") },
  replicas = { "num_replicas", is_count }, retention = { "retention", one_of("limits", "workqueue", "interest") },
  discard = { "discard", one_of("old", "new") }, max_messages = { "max_msgs", is_count },
  max_bytes = { "max_bytes", is_count }, max_message = { "max_msg_size", is_count }, max_age = { "max_age", is_ms },
  max_per_subject = { "max_msgs_per_subject", is_count },
  discard_per_subject = { "discard_new_per_subject", is_boolean }, duplicates = { "duplicate_window", is_ms },
  description = { "description", is_string },
}
local KNOWN = {}
for name in pairs(SETTINGS) do KNOWN[name] = true end

---The settings of a stream. A missing one keeps the server's value, or has the default.
---@class runnel.nats.StreamOptions
---@field subjects? string|string[] what the stream stores; by default the subject that has the stream's name
---@field storage? "file"|"memory" default file
---@field replicas? integer how many servers of a cluster have it: 1 (the default), 3 or 5
---@field retention? "limits"|"workqueue"|"interest" when messages go: at the limits below (the default), when they are
---acknowledged, or when all consumers have acknowledged them
---@field max_age? number ms
---@field max_messages? integer
---@field max_bytes? integer
---@field max_message? integer bytes of one message
---@field max_per_subject? integer messages
---@field discard? "old"|"new" at a limit: drop the oldest message (the default), or refuse the new one
---@field discard_per_subject? boolean with discard = "new", refuse what exceeds max_per_subject
---@field duplicates? number ms for which the stream knows the ids of messages; default 120000
---@field description? string

---A stream.
---@class runnel.nats.Stream
---@field name string
---@field subjects string[]
---@field retention "limits"|"workqueue"|"interest"
---@field created string when it was made
---@field duplicates number ms for which it knows ids
---@field private conn runnel.nats.Connection
local Stream = {}
Stream.__index = Stream
Stream.__name = "stream"

local stream = {}

-- Translates options into the server's settings.
local function wanted_of(opts, what)
  local wanted = {}
  for name, value in pairs(opts or {}) do
    local key, is_right = table.unpack(SETTINGS[name])
    local ok, expected = is_right(value)
    if not ok then error(("%s: %s: %s expected, got %s"):format(what, name, expected, check.describe(value)), 3) end
    if is_right == is_ms then value = jetstream.ns(value) end
    if key == "subjects" and type(value) == "string" then value = { value } end
    wanted[key] = value
  end
  return wanted
end

local function opened(conn, answer)
  local config = answer.config
  return setmetatable({
    conn = conn, name = config.name, retention = config.retention, subjects = config.subjects or json.array {},
    created = answer.created, duplicates = (config.duplicate_window or 0) / 1e6,
  }, Stream)
end

---Opens an existing stream.
---@return runnel.nats.Stream? stream, string? err
function stream.open(conn, name)
  local answer, err = jetstream.stream_info(conn, name)
  if not answer then return nil, err end
  return opened(conn, answer)
end

---Finds the information about a stream, and makes it first if it does not exist.
---@param wanted table settings that it must have, in the server's words
---@param config table the settings of a new one
---@return table? info, string? err
function stream.ensure(conn, name, wanted, config)
  local answer, err = jetstream.ensure(conn, "STREAM.INFO." .. name, "STREAM.CREATE." .. name, config)
  if not answer then return nil, ("stream %q: %s"):format(name, err) end
  local difference = jetstream.difference(wanted, answer.config)
  if difference then return nil, ("stream %q exists with other settings: %s"):format(name, difference) end
  return answer
end

---Opens a stream, and makes it first if it does not exist. Fails, and leaves the stream as it is, if it exists with
---other settings than the given ones.
---
---    local orders = assert(conn:stream("orders", { subjects = "orders.>", max_age = 24 * 3600 * 1000 }))
---@param conn runnel.nats.Connection
---@param name string
---@param opts? runnel.nats.StreamOptions
---@return runnel.nats.Stream? stream, string? err
function stream.stream(conn, name, opts)
  jetstream.check_name(name, "stream: name")
  check.options(opts, KNOWN, "stream")
  local wanted = wanted_of(opts, "stream")
  local config = { name = name, subjects = { name }, storage = "file", retention = "limits", num_replicas = 1 }
  for key, value in pairs(wanted) do config[key] = value end
  local info, err = stream.ensure(conn, name, wanted, config)
  if not info then return nil, err end
  return opened(conn, info)
end

---Changes the given settings. Fails for a setting that the server cannot change, such as the storage.
---@param opts runnel.nats.StreamOptions
---@return true? ok, string? err
function Stream:change(opts)
  check.table(opts, "change: options")
  check.options(opts, KNOWN, "change")
  local answer, err = jetstream.change_stream(self.conn, self.name, wanted_of(opts, "change"))
  if not answer then return nil, err end
  self.subjects, self.duplicates = answer.config.subjects, (answer.config.duplicate_window or 0) / 1e6
  return true
end

---Deletes a consumer, such as that of a named source or of a stage. Its unfinished messages are not redelivered to it;
---in a stream with retention "limits" they stay.
---@param name string
---@return true? ok, string? err
function Stream:delete_consumer(name)
  jetstream.check_name(name, "delete_consumer: name")
  local answer, err = jetstream.request(self.conn, ("CONSUMER.DELETE.%s.%s"):format(self.name, name))
  if not answer then return nil, err end
  return true
end

---The number of its messages, their bytes, and the first and the last sequence number.
---@return { messages: integer, bytes: integer, first: integer, last: integer, consumers: integer }? state, string? err
function Stream:state()
  local answer, err = jetstream.stream_info(self.conn, self.name)
  if not answer then return nil, err end
  local state = answer.state
  return { messages = state.messages, bytes = state.bytes, first = state.first_seq, last = state.last_seq,
    consumers = state.consumer_count }
end

---Removes all messages, or those of a subject, which may be a pattern. Returns their number.
---@param subject? string
---@return integer? count, string? err
function Stream:purge(subject)
  local answer, err = jetstream.request(self.conn, "STREAM.PURGE." .. self.name, subject and { filter = subject })
  if not answer then return nil, err end
  return answer.purged
end

---Deletes the stream with its messages and consumers.
---@return boolean? deleted, string? err
function Stream:delete()
  local answer, err = jetstream.request(self.conn, "STREAM.DELETE." .. self.name)
  if not answer then return nil, err end
  return true
end

return stream
