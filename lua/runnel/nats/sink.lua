---conn:sink: stores values in a stream.

local jetstream = require "runnel.nats.internal.jetstream"
local sign = require "runnel.internal.sign"
local sinks = require "runnel.queue.sink"
local stream = require "runnel.nats.stream"

local sink = {}

---@class runnel.nats.Sink: runnel.Sink
---@field created string when the stream was made
---@field retention string of the stream
local Sink = sinks.class(function(self, subject, value, opts)
  return jetstream.store(self.owner, subject, value, {
    id = opts.id, timeout = self.timeout, encoding = self.encoding, headers = opts.headers, stream = self.stream,
  })
end)

---Returns an object that stores values in a stream. Its put returns true when the stream has the value.
---
---    local orders = assert(conn:sink "orders")
---    assert(orders:put("a dozen eggs", { id = "order 17" }))
---@param conn runnel.nats.Connection
---@param name string of the stream
---@param opts? { subject?: string, timeout?: number, encoding?: "raw"|"msgpack"|"json" } subject: of the values, by
---default the stream's, if it has only one; timeout: ms to try to store a value (30000)
---@return runnel.nats.Sink? sink, string? err
function sink.sink(conn, name, opts)
  sign.own(conn, "conn", "sink")
  sinks.check(name, opts)
  opts = opts or {}
  local found, err = stream.open(conn, name)
  if not found then return nil, "sink: " .. err end
  local self = sinks.new(Sink, conn, found, opts)
  self.created, self.retention, self.encoding = found.created, found.retention, opts.encoding or conn.encoding
  return self
end

return sink
