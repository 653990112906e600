---conn:stream: streams of JetStream, made with the settings that the program asks for.

local arguments = require "runnel.queue.stream"
local check = require "runnel.internal.check"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local names = require "runnel.queue.names"
local sign = require "runnel.internal.sign"
local raise = check.raise

-- The server's names of the settings whose name is another one.
local NAMES <const> = {
  replicas = "num_replicas", max_messages = "max_msgs", max_message = "max_msg_size",
  max_per_subject = "max_msgs_per_subject", discard_per_subject = "discard_new_per_subject",
  duplicates = "duplicate_window",
}

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
Stream.__sign = "stream"
Stream.__name = "stream"

local stream = {}

-- Settings in the server's words.
local function translated(settings)
  local wanted = {}
  for name, value in pairs(settings) do
    wanted[NAMES[name] or name] = arguments.TIMES[name] and jetstream.ns(value) or value
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
---@param opts? runnel.queue.StreamOptions
---@return runnel.nats.Stream? stream, string? err
function stream.stream(conn, name, opts)
  sign.own(conn, "conn", "stream")
  names.check(name, "stream: name")
  local wanted = translated(arguments.check(opts, "stream"))
  local config = { name = name, subjects = { name }, storage = "file", retention = "limits", num_replicas = 1 }
  for key, value in pairs(wanted) do config[key] = value end
  local info, err = stream.ensure(conn, name, wanted, config)
  if not info then return nil, err end
  return opened(conn, info)
end

---Changes the given settings. Fails for a setting that the server cannot change, such as the storage.
---@param opts runnel.queue.StreamOptions
---@return true? ok, string? err
function Stream:change(opts)
  sign.own(self, "stream", "change")
  check.table(opts, "change: options")
  local changes = translated(arguments.check(opts, "change"))
  local answer, err = jetstream.change_stream(self.conn, self.name, changes)
  if not answer then return nil, err end
  self.subjects, self.duplicates = answer.config.subjects, (answer.config.duplicate_window or 0) / 1e6
  return true
end

---Deletes a consumer, such as that of a named source or of a stage. Its unfinished messages are not redelivered to it;
---in a stream with retention "limits" they stay.
---@param name string
---@return true? ok, string? err
function Stream:delete_consumer(name)
  sign.own(self, "stream", "delete_consumer")
  names.check(name, "delete_consumer: name")
  local answer, err = jetstream.request(self.conn, ("CONSUMER.DELETE.%s.%s"):format(self.name, name))
  if not answer then return nil, err end
  return true
end

---The number of its messages, their bytes, and the first and the last sequence number.
---@return { messages: integer, bytes: integer, first: integer, last: integer, consumers: integer }? stats, string? err
function Stream:stats()
  sign.own(self, "stream", "stats")
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
  sign.own(self, "stream", "purge")
  local answer, err = jetstream.request(self.conn, "STREAM.PURGE." .. self.name, subject and { filter = subject })
  if not answer then return nil, err end
  return answer.purged
end

-- What only a stream of a store has.
for _, name in ipairs { "cancel", "replace" } do
  Stream[name] = function(self)
    sign.own(self, "stream", name)
    raise(name .. ": a nats-server finds no message by the id of its put: give each job a subject of its own, in "
      .. "a stream with max_per_subject = 1; then a put replaces it, and stream:purge(subject) removes it")
  end
end

---Deletes the stream with its messages and consumers.
---@return boolean? deleted, string? err
function Stream:delete()
  sign.own(self, "stream", "delete")
  local answer, err = jetstream.request(self.conn, "STREAM.DELETE." .. self.name)
  if not answer then return nil, err end
  return true
end

return stream
