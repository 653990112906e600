---How often the messages of a queue were started, and how often the function raised for them. Its workers share the
---counts in a bucket. It has entries only for messages that were delivered more than once, or raised: most messages
---cost nothing.

local base64 = require "runnel.internal.base64"
local jetstream = require "runnel.nats.internal.jetstream"
local kv = require "runnel.nats.kv"
local shared = require "runnel.queue.count"
local values = require "runnel.queue.encodings"

local find = string.find

local counts = {}

-- How long a count is kept after its last change, in ms.
local KEPT <const> = 7 * 24 * 60 * 60 * 1000

---@class runnel.Counts
---@field private conn runnel.nats.Connection
---@field private name string of the bucket
---@field private created string distinguishes the stream from an earlier one with the same name
---@field private replicas integer
---@field private prefix? string the beginning of the subjects, if each message has its own subject, which identifies it
---even when it is stored again
---@field private bucket? runnel.nats.Bucket
local Counts = {}
Counts.__index = Counts

local function key(self, message)
  if self.prefix and find(message.subject, self.prefix, 1, true) == 1 then
    local name = message.subject:sub(#self.prefix + 1)
    if find(name, "^[%w_.-]+$") then return name end
  end
  return ("%s.%d"):format(self.created, message.sequence)
end

---Opens the bucket, and makes it first if it does not exist.
---@return runnel.nats.Bucket? bucket, string? err
function Counts:open()
  if self.bucket then return self.bucket end
  local conn, name, replicas = self.conn, self.name, self.replicas
  local bucket, err = kv.kv(conn, name, { max_age = KEPT, encoding = "msgpack", replicas = replicas })
  if not bucket and err:find("num_replicas", 1, true) then -- the stream of the messages has got more replicas
    jetstream.change_stream(conn, "KV_" .. name, { num_replicas = replicas })
    bucket, err = kv.kv(conn, name, { max_age = KEPT, encoding = "msgpack" })
  end
  self.bucket = bucket
  return bucket, err
end

---The counts of a message; nil if it has none, or nil and an error.
---@param message runnel.nats.StreamMessage
---@return runnel.queue.Count? count, string? err
function Counts:get(message)
  local bucket, err = self:open()
  if not bucket then return nil, err end
  local count, revision, problem = bucket:look(key(self, message))
  message.revision = revision
  return shared.valid(count), problem
end

---The counts of a message, without making the bucket; nil if it has none.
---@param message { subject: string, sequence: integer }
---@return runnel.queue.Count? count
function Counts:look(message)
  local answer = jetstream.request(self.conn, "STREAM.MSG.GET.KV_" .. self.name,
    { last_by_subj = ("$KV.%s.%s"):format(self.name, key(self, message)) })
  local data = answer and answer.message.data
  return data and shared.valid((values.encodings.msgpack.decode(base64.decode(data) or ""))) or nil
end

---Stores the counts of a message, unless another worker has stored some since they were read.
---@param message runnel.nats.StreamMessage
---@param count runnel.queue.Count
---@return boolean ok whether they are stored
---@return string? err why not
---@return boolean? has_changed another worker has stored some
function Counts:put(message, count)
  local bucket, err = self:open()
  if not bucket then return false, err end
  local before = message.revision
  local revision, why, code = bucket:write("put", key(self, message), count, before)
  message.revision = revision or before
  return revision ~= nil, why, code == jetstream.WRONG_SEQUENCE
end

---Removes the counts of a finished message.
---@param message runnel.nats.StreamMessage
function Counts:forget(message)
  local bucket = self:open()
  if bucket then bucket:delete(key(self, message)) end
end

---The subject and the bytes that set the counts of a message.
---@param message runnel.nats.StreamMessage
---@param count runnel.queue.Count
---@return string subject, string bytes
function Counts:as_message(message, count)
  local subject = ("$KV.%s.%s"):format(self.name, key(self, message))
  return subject, (values.encodings.msgpack.encode(count, "count"))
end

---@param conn runnel.nats.Connection
---@param name string of the bucket
---@param info table the server's information about the stream of the messages
---@param prefix? string the beginning of the subjects, if each message has its own subject
---@return runnel.Counts
function counts.new(conn, name, info, prefix)
  return setmetatable({
    conn = conn, name = name, created = (info.created:gsub("[^%d]", "")), replicas = info.config.num_replicas,
    prefix = prefix,
  }, Counts)
end

return counts
