---conn:source: the messages of a stream as a channel.

local check = require "runnel.internal.check"
local jetstream = require "runnel.nats.internal.jetstream"
local outlet = require "runnel.nats.internal.outlet"
local values = require "runnel.nats.internal.values"

local source = {}

local FROM = { all = "all", new = "new", last = "last" }
local ACKS = { explicit = "explicit", taken = "taken" }

---@class runnel.nats.SourceOptions
---@field name? string of the consumer: the server remembers under it what was acknowledged. Sources with the same name,
---here or in other processes, share the messages
---@field subject? string only messages with this subject, which may be a pattern
---@field from? "all"|"new"|"last"|integer where a new consumer begins: the first message (the default), the next one
---that is stored, the last one, or a sequence number
---@field ack? "explicit"|"taken" acknowledged by the program (the default), or by the source when a message is taken
---@field max_ack_pending? integer how many messages may be unacknowledged in all processes together (1000)
---@field ack_wait? number ms from the take after which a message that is not acknowledged is delivered again (30000)
---@field tries? integer how often a message is delivered at most; without end by default
---@field buffer? integer how many messages may wait in this process for a taker (64)
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's

local OPTIONS = {
  name = true, subject = true, from = true, ack = true, max_ack_pending = true, ack_wait = true, tries = true,
  buffer = true, encoding = true,
}
local NEED_NAME = { "ack", "max_ack_pending", "ack_wait", "tries" }

---The settings of a consumer in the server's words: those that the options ask for, and those for a new one.
---@param level integer of the program's line, for errors
function source.settings(opts, what, level)
  local function fail(format, ...) error(what .. ": " .. format:format(...), level + 2) end
  local config, defaults = {}, { ack_wait = jetstream.ns(30000), max_ack_pending = 1000, max_deliver = -1 }
  if opts.name then
    config.ack_policy = "explicit"
    for option, key in pairs { max_ack_pending = "max_ack_pending", tries = "max_deliver" } do
      local value = opts[option]
      if value ~= nil and (math.type(value) ~= "integer" or value < 1) then
        fail("%s: an integer of at least 1 expected, got %s", option, tostring(value))
      end
      config[key] = value
    end
    if opts.ack_wait ~= nil then
      check.ms(opts.ack_wait, 10, what .. ": ack_wait", level + 2)
      config.ack_wait = jetstream.ns(opts.ack_wait)
    end
  end
  if opts.subject ~= nil then
    if type(opts.subject) ~= "string" or opts.subject == "" or opts.subject:find "%s" then
      fail("subject: a subject without spaces expected, got %s", check.describe(opts.subject))
    end
    config.filter_subject = opts.subject
  end
  local from = opts.from
  if math.type(from) == "integer" and from >= 1 then
    config.deliver_policy, config.opt_start_seq = "by_start_sequence", from
  elseif from ~= nil then
    config.deliver_policy = FROM[from] or fail('from: "all", "new", "last" or a sequence number expected, got %s',
      check.describe(from))
  end
  return config, defaults
end

---The messages of a stream, as a channel.
---
---With a name, the program acknowledges each message (m:ack()), gives it back (m:nak(ms)), or gives it up (m:term()). A
---message that is not acknowledged within ack_wait after the take is redelivered. At most max_ack_pending messages are
---unacknowledged: that is the backpressure.
---
---Without a name, the source delivers every message once and in order, also across reconnects and restarts of the
---server. There is nothing to acknowledge, and the next source starts from the beginning again.
---
---To end the source, close the channel; messages that are still on it go back to the server. The channel closes with an
---error if the stream or the consumer is deleted.
---@param conn runnel.nats.Connection
---@param stream string
---@param opts? runnel.nats.SourceOptions
---@return runnel.Channel<runnel.nats.StreamMessage>? ch, string? err
function source.source(conn, stream, opts)
  jetstream.check_name(stream, "source: stream")
  check.options(opts, OPTIONS, "source")
  opts = opts or {}
  if opts.name ~= nil then
    jetstream.check_name(opts.name, "source: name")
  else
    for _, option in ipairs(NEED_NAME) do
      if opts[option] ~= nil then
        error(("source: %s: only a source with a name acknowledges; give it a name"):format(option), 2)
      end
    end
  end
  if opts.ack ~= nil and not ACKS[opts.ack] then
    error(('source: ack: "explicit" or "taken" expected, got %s'):format(check.describe(opts.ack)), 2)
  end
  if opts.buffer ~= nil then check.integer(opts.buffer, 1, "source: buffer") end
  local encoding = conn.encoding
  if opts.encoding ~= nil then encoding = values.check(opts.encoding, "source", 2) end
  local config, defaults = source.settings(opts, "source", 2)
  local ch, err = outlet.open({
    conn = conn, stream = stream, name = opts.name, config = config, defaults = defaults, batch = opts.buffer or 64,
    encoding = encoding, acks = opts.name and (opts.ack or "explicit"),
  }, "source")
  if not ch then return nil, err --[[@as string]] end
  return ch
end

return source
