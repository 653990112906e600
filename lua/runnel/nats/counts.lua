---How often the messages of a durable stage were started, and how often the function raised for them. The processes of
---the stage share the counts in a bucket. It has entries only for messages that were delivered more than once, or
---raised: most messages cost nothing.

local kv = require "runnel.nats.kv"
local values = require "runnel.nats.values"

local counts = {}

-- How long a count is kept after its last change, in ms.
local KEPT <const> = 7 * 24 * 60 * 60 * 1000

---The counts of a message.
---@class runnel.Count
---@field starts integer
---@field raises integer how many of the starts ended with an error
---@field error? string the last one, if the process had to be ended

---@class runnel.Counts
---@field private conn runnel.nats.Connection
---@field private name string of the stage
---@field private created string distinguishes a stream from another one that had its name before
---@field private replicas integer
---@field private bucket? runnel.nats.Bucket
local Counts = {}
Counts.__index = Counts

local function key(self, message) return ("%s.%d"):format(self.created, message.sequence) end

---Opens the bucket, and makes it first if it does not exist.
---@return runnel.nats.Bucket? bucket, string? err
function Counts:open()
  if not self.bucket then
    local bucket, err = kv.kv(self.conn, "runnel-stage-" .. self.name, {
      ttl = KEPT, encoding = "msgpack", replicas = self.replicas,
    })
    if not bucket then return nil, err end
    self.bucket = bucket
  end
  return self.bucket
end

---The counts of a message; nil if it has none, or nil and an error.
---@param message runnel.nats.StreamMessage
---@return runnel.Count? count, string? err
function Counts:get(message)
  local bucket, err = self:open()
  if not bucket then return nil, err end
  local count, _, problem = bucket:get(key(self, message))
  return count, problem
end

---@param message runnel.nats.StreamMessage
---@param count runnel.Count
---@return boolean ok whether they are stored
---@return string? err why not
function Counts:put(message, count)
  local bucket, err = self:open()
  if not bucket then return false, err end
  local revision, why = bucket:put(key(self, message), count)
  return revision ~= nil, why
end

---Removes the counts of a finished message.
---@param message runnel.nats.StreamMessage
function Counts:forget(message)
  local bucket = self:open()
  if bucket then bucket:delete(key(self, message)) end
end

---The subject and the bytes that set the counts of a message.
---@param message runnel.nats.StreamMessage
---@param count runnel.Count
---@return string subject, string bytes
function Counts:as_message(message, count)
  local subject = ("$KV.runnel-stage-%s.%s"):format(self.name, key(self, message))
  return subject, (values.encodings.msgpack.encode(count, "count"))
end

---@param conn runnel.nats.Connection
---@param name string of the stage
---@param info table the server's information about the stream from which it takes
---@return runnel.Counts
function counts.new(conn, name, info)
  return setmetatable({
    conn = conn, name = name, created = (info.created:gsub("[^%d]", "")), replicas = info.config.num_replicas,
  }, Counts)
end

return counts
