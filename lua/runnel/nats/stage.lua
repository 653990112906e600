---conn:stage: a durable stage, which takes messages from one stream and stores its results in another.

local consumers = require "runnel.nats.internal.consumers"
local jetstream = require "runnel.nats.internal.jetstream"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.queue.patience"
local sign = require "runnel.internal.sign"
local sink = require "runnel.nats.sink"
local source = require "runnel.nats.source"
local stage_arguments = require "runnel.queue.stage"
local start_worker = require "runnel.nats.internal.start_worker"
local values = require "runnel.queue.encodings"

local stage = {}

-- These settings would store results twice.
local FORGETS <const> = "stage: the stream %q has the retention %q: when the server starts again, it forgets the ids "
  .. "of messages that were removed, and may store results twice. Use the retention \"limits\" with max_age, or say "
  .. "at_least_once = true"

-- An operator may have given the consumer a limit, as one of a source may have.
local LOSES <const> = "stage: the consumer %q of %q delivers a message at most %d times, so the stage would lose those "
  .. "that fail or are given back: remove that limit (runnel queues change %s/%s tries=0)"

---Starts a durable stage: calls f with the value of each message of a stream, at most n calls at a time in this
---process, and stores what it returns in another stream. A message is acknowledged when its results are stored, so
---nothing is lost if a process or server is killed. f may be called again for a message whose results are stored
---already; the stream drops the second results, because they have the same ids. For that, f has to return the same
---number of results, and the stream has to keep ids (option `duplicates` of conn:stream) for longer than a message may
---wait for its next try.
---
---    local stage = assert(conn:stage("orders", 8, function(order) return invoice(order) end, "invoices"))
---
---f gets the value and the message. Each result that is not nil is a message of its own. If f raises, or returns nil
---and an error, it is tried again later. After the last try, ex_handler decides, or the message is given up and the
---error reported (rn.on_error).
---@param conn runnel.nats.Connection
---@param from string a stream
---@param n integer
---@param f string|fun(value: any, message: runnel.nats.StreamMessage): any ... or the name of a module that returns one
---@param to? string a stream; nil: f has no results
---@param opts? runnel.queue.StageOptions
---@return runnel.Worker? stage, string? err
function stage.stage(conn, from, n, f, to, opts)
  sign.own(conn, "conn", "stage")
  local read = stage_arguments.read(from, n, f, to, opts)
  opts = read.opts
  local name = read.name
  local encoding = opts.encoding or conn.encoding

  local out, problem
  if to then
    out, problem = sink.sink(conn, to, {
      encoding = encoding, subject = opts.to_subject, timeout = patience.results_told, -- then the stage puts it again
    })
    if not out then return nil, "stage: " .. problem:gsub("^sink: ", "") end
    if out.retention ~= "limits" and not opts.at_least_once then return nil, FORGETS:format(to, out.retention) end
  end
  local config, defaults = source.settings {
    name = name, subject = opts.subject, ack_wait = opts.ack_wait, max_running = opts.max_running,
  }
  local stream, err = jetstream.stream_info(conn, from)
  if not stream then return nil, "stage: " .. err end
  local consumer = consumers.named(conn, from, name, config, defaults)
  local info, why = consumer:open()
  if not info then return nil, "stage: " .. why end
  local most = info.config.max_deliver or -1
  if most > 0 then return nil, LOSES:format(name, from, most, from, name) end
  local self, lost = start_worker.start(conn, {
    kind = "stage", name = name, n = n, stream = stream, bucket = names.stage_bucket(name),
    options = read.worker,
    keeper = {
      consumer = consumer, info = info, what = "stage", queue = ("%s/%s"):format(from, name), from = from,
      encoding = encoding, decode = values.encodings[encoding].decode, sink = out, to_subject = opts.to_subject,
      -- A stream that was deleted and made again counts from 1.
      ids = ("%s.%s.%s."):format(from, name, (stream.created:gsub("[^%d]", ""))),
      letters = { storage = stream.config.storage, replicas = stream.config.num_replicas },
    },
    task = stage_arguments.task(read, out ~= nil),
  })
  if not self then return nil, "stage: " .. lost end
  return self
end

return stage
