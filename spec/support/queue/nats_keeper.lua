---A stream of JetStream on a real server, for the spec of what every keeper of messages promises
---(spec/queue/keeper_spec.lua).

local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"

local nats, missing = nats_server.library()

local nats_keeper = { missing = missing }

---Calls f with a new queue, as spec/queue/keeper_spec.lua needs it.
---@param f fun(queue: table)
function nats_keeper.with(f)
  local consumers = require "runnel.nats.internal.consumers"
  local counts = require "runnel.nats.internal.counts"
  local jetstream = require "runnel.nats.internal.jetstream"
  local keepers = require "runnel.nats.internal.keeper"
  local values = require "runnel.queue.encodings"

  local server <close> = nats_server.start()
  local function connect() return assert(nats.connect(server.url, { encoding = "msgpack" })) end
  local conn <close> = connect()
  assert(conn:stream "queue")
  assert(conn:stream "results")
  local sinks = { queue = assert(conn:sink "queue"), results = assert(conn:sink "results") }
  local lease = math.ceil(600 * patience.factor())
  local open = {}

  local function keeper()
    local own = connect()
    local stream = assert(jetstream.stream_info(own, "queue"))
    local consumer = consumers.named(own, "queue", "workers", { ack_wait = jetstream.ns(lease) },
      { ack_policy = "explicit", max_deliver = -1 })
    local info = assert(consumer:open())
    local self = keepers.new {
      conn = own, consumer = consumer, info = info, what = "spec", encoding = "msgpack",
      decode = values.encodings.msgpack.decode, starts_of = counts.new(own, "spec-starts", stream), from = "queue",
      queue = "queue/workers", sink = assert(own:sink "results"), ids = "queue.", letters = {},
    }
    open[self] = own
    return self
  end

  f {
    lease = lease, keeper = keeper,
    append = function(value, opts)
      local ok, _, is_duplicate = sinks[opts and opts.results and "results" or "queue"]:put(value,
        { id = opts and opts.id, headers = opts and opts.headers })
      return ok, is_duplicate
    end,
    kill = function(self) open[self]:close() end,
    count = function()
      local info = assert(jetstream.request(conn, "CONSUMER.INFO.queue.workers"))
      return { waiting = info.num_pending, running = info.num_ack_pending }
    end,
    results = function() return assert(conn:stream "results"):stats().messages end,
    letters = function() return conn:dead("spec"):count() end,
  }
  for _, own in pairs(open) do own:close() end
end

return nats_keeper
