---conn:kv: buckets of keys and values, compatible with other NATS clients. A bucket is a stream KV_NAME with a subject
---for each key.

local arguments = require "runnel.queue.bucket"
local base64 = require "runnel.internal.base64"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"
local outlet = require "runnel.nats.internal.outlet"
local sign = require "runnel.internal.sign"
local stream = require "runnel.nats.stream"
local values = require "runnel.queue.encodings"

local kv = {}

---@class runnel.nats.Bucket: runnel.Bucket
---@field private conn runnel.nats.Connection
local Bucket = arguments.class { CHANGED = jetstream.WRONG_SEQUENCE }

local function is_deletion(headers)
  return headers ~= nil and (headers:find "KV%-Operation: *DEL" or headers:find "KV%-Operation: *PURGE") ~= nil
end

function Bucket:last(key)
  local answer, err, code = jetstream.request(self.conn, "STREAM.MSG.GET." .. self.stream,
    { last_by_subj = self.prefix .. key })
  if answer then
    local message = answer.message
    return {
      data = base64.decode(message.data or ""), revision = message.seq,
      deleted = is_deletion(message.hdrs and base64.decode(message.hdrs)),
    }
  end
  if code == jetstream.NO_MESSAGE then return nil end
  return nil, err
end

function Bucket:value_of(last) return self.decode(last.data) end

---For the library: as `get`, but the revision is that of the deletion if the value was deleted, 0 if there was none.
---@param key string
---@return any value, integer? revision, string? err
function Bucket:look(key)
  local last, err = self:last(key)
  if err then return nil, nil, err end
  if not last or last.deleted then return nil, last and last.revision or 0 end
  return self.decode(last.data), last.revision
end

---Stores a value, as runnel.Bucket says; also returns the code of the server's error.
function Bucket:write(_, key, value, revision)
  local encoding, headers = self.encoding, {}
  if value == nil then value, encoding, headers["KV-Operation"] = "", "raw", "DEL" end
  if revision then headers["Nats-Expected-Last-Subject-Sequence"] = tostring(revision) end
  local sequence, err, code = jetstream.store(self.conn, self.prefix .. key, value, {
    timeout = patience.kv_write, encoding = encoding, headers = headers, stream = self.stream,
  })
  if sequence then return sequence end
  if code == jetstream.WRONG_SEQUENCE or code == jetstream.UNCERTAIN then
    local last = tostring(err):match "%d+$" or "unknown"
    err = last == "0" and ("the key %q has no value"):format(key) or ("the key %q has revision %s"):format(key, last)
    if code == jetstream.UNCERTAIN then
      err = err .. "; the server had not answered at first, so it may have done this before that revision"
    end
  end
  return nil, err --[[@as string]], code
end

-- ---- watching ----

---A change of a key.
---@class runnel.nats.Change
---@field key string
---@field value any nil if it was deleted
---@field revision integer
---@field time number ms since 1970
---@field deleted boolean
---@field remaining integer how many changes are known after this one: 0 for the last of the present values

local function key_of(self, message) return message.subject:sub(#self.prefix + 1) end

-- Whether a message is the deletion of its key.
local function is_deleted(message)
  local operation = message.headers and message.headers["KV-Operation"]
  return operation == "DEL" or operation == "PURGE"
end

-- The value that watch puts on its channel for a message.
local function change_of(self, message)
  local deleted = is_deleted(message)
  local value, problem
  if not deleted then value, problem = self.decode(message.data) end
  return {
    key = key_of(self, message), value = value, problem = problem, revision = message.sequence,
    time = message.time, deleted = deleted, remaining = message.remaining,
  }
end

-- What an outlet of the bucket is made of.
local function outlet_of(self, pattern, policy)
  return {
    conn = self.conn, stream = self.stream, encoding = "raw", batch = 256,
    config = { filter_subject = self.prefix .. pattern, deliver_policy = policy },
  }
end

---Returns a channel of values and their changes: first the last one of each key; with `from`, all that the
---bucket has, or only new ones. It continues across reconnects. Close it to end it.
---@param pattern? string a key, or a pattern with * and >; by default all keys
---@param opts? { from?: "last"|"all"|"new" }
---@return runnel.Channel<runnel.nats.Change>? changes, string? err
function Bucket:watch(pattern, opts)
  sign.own(self, "bucket", "watch")
  local policy
  pattern, policy = arguments.check_watch(pattern, opts)
  local options = outlet_of(self, pattern, policy)
  options.wrap = function(message) return change_of(self, message) end
  local ch, err = outlet.open(options, "watch")
  if not ch then return nil, err --[[@as string]] end
  return ch
end

---The keys that have a value.
---@return string[]? keys, string? err
function Bucket:keys()
  sign.own(self, "bucket", "keys")
  local keys = {}
  local ok, err = outlet.each(outlet_of(self, ">", "last_per_subject"), "keys", function(message)
    if not is_deleted(message) then keys[#keys + 1] = key_of(self, message) end
  end)
  if not ok then return nil, err end
  table.sort(keys)
  return keys
end

---Deletes the bucket with all values.
---@return boolean? deleted, string? err
function Bucket:destroy()
  sign.own(self, "bucket", "destroy")
  local answer, err = jetstream.request(self.conn, "STREAM.DELETE." .. self.stream)
  if not answer then return nil, err end
  return true
end

---Opens a bucket, and makes it first if it does not exist. Fails if it exists with other settings than the given ones.
---@param conn runnel.nats.Connection
---@param name string
---@param opts? { history?: integer, max_age?: number, replicas?: integer, storage?: "file"|"memory",
---max_value?: integer, encoding?: "raw"|"msgpack"|"json" } history: values to keep of each key (1);
---max_age: ms after which values go
---@return runnel.nats.Bucket? bucket, string? err
function kv.kv(conn, name, opts)
  sign.own(conn, "conn", "kv")
  opts = arguments.check(name, opts)
  local encoding = opts.encoding or conn.encoding
  local self = setmetatable({
    conn = conn, name = name, stream = "KV_" .. name, prefix = "$KV." .. name .. ".", encoding = encoding,
    decode = values.encodings[encoding].decode,
  }, Bucket)
  local wanted = {
    max_msgs_per_subject = opts.history, max_age = opts.max_age and jetstream.ns(opts.max_age),
    num_replicas = opts.replicas,
    storage = opts.storage, max_msg_size = opts.max_value,
  }
  local config = {
    name = self.stream, subjects = { self.prefix .. ">" }, max_msgs_per_subject = 1, discard = "new", storage = "file",
    allow_rollup_hdrs = true, deny_delete = true, allow_direct = true, num_replicas = 1, retention = "limits",
    duplicate_window = jetstream.ns(opts.max_age and math.min(opts.max_age, 120000) or 120000),
  }
  for key, value in pairs(wanted) do config[key] = value end
  local info, err = stream.ensure(conn, self.stream, wanted, config)
  if not info then return nil, ("bucket %q: %s"):format(name, err:gsub("^stream ", "its stream ")) end
  return self
end

return kv
