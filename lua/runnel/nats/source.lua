---conn:source: the messages of a stream as a channel.

local arguments = require "runnel.queue.source"
local jetstream = require "runnel.nats.internal.jetstream"
local outlet = require "runnel.nats.internal.outlet"
local sign = require "runnel.internal.sign"

local source = {}

---The settings of a consumer in the server's words: those that the options ask for, and those for a new one.
---@param opts runnel.queue.SourceOptions which have been checked
---@return table config, table defaults
function source.settings(opts)
  local config, defaults = {}, { ack_wait = jetstream.ns(30000), max_ack_pending = 1000, max_deliver = -1 }
  if opts.name then
    config.ack_policy, config.max_ack_pending, config.max_deliver = "explicit", opts.max_running, opts.tries
    if opts.ack_wait ~= nil then config.ack_wait = jetstream.ns(opts.ack_wait) end
  end
  config.filter_subject = opts.subject
  local from = opts.from
  if math.type(from) == "integer" then
    config.deliver_policy, config.opt_start_seq = "by_start_sequence", from
  else
    config.deliver_policy = from
  end
  return config, defaults
end

---The messages of a stream, as a channel.
---
---With a name, the program acknowledges each message (m:ack()), gives it back (m:nak(ms)), or gives it up (m:term()). A
---message that is not acknowledged within ack_wait after the take is redelivered. At most max_running messages are
---unacknowledged: that is the backpressure.
---
---Without a name, the source delivers every message once and in order, also across reconnects and restarts of the
---server. There is nothing to acknowledge, and the next source starts from the beginning again.
---
---To end the source, close the channel; messages that are still on it go back to the server. The channel closes with an
---error if the stream or the consumer is deleted.
---@param conn runnel.nats.Connection
---@param stream string
---@param opts? runnel.queue.SourceOptions
---@return runnel.Channel<runnel.nats.StreamMessage>? ch, string? err
function source.source(conn, stream, opts)
  sign.own(conn, "conn", "source")
  opts = arguments.check(stream, opts)
  local encoding = opts.encoding or conn.encoding
  local config, defaults = source.settings(opts)
  local ch, err = outlet.open({
    conn = conn, stream = stream, name = opts.name, config = config, defaults = defaults, batch = opts.buffer or 64,
    encoding = encoding, acks = opts.name and (opts.ack or "explicit"),
  }, "source")
  if not ch then return nil, err --[[@as string]] end
  return ch
end

return source
