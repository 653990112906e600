---conn:stage: a durable stage, which takes messages from one stream and stores its results in another.

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local consumers = require "runnel.nats.internal.consumers"
local jetstream = require "runnel.nats.internal.jetstream"
local messages = require "runnel.queue.messages"
local patience = require "runnel.queue.patience"
local running = require "runnel.queue.running"
local served = require "runnel.nats.internal.served"
local sink = require "runnel.nats.sink"
local source = require "runnel.nats.source"
local start_worker = require "runnel.nats.internal.start_worker"
local values = require "runnel.nats.internal.values"

local stage = {}

---@class runnel.nats.StageOptions
---@field name? string of the stage: processes with the same name share the messages. By default the name of the stream
---of results
---@field subject? string only messages with this subject, which may be a pattern
---@field to_subject? string the subject of the results, if their stream has several
---@field ack_wait? number ms after which the messages of a process that has died go to others (30000)
---@field max_ack_pending? integer how many messages may be worked on in all processes together (1000)
---@field tries? integer how often a message is tried if the function raises (5)
---@field retry? number ms until the second try (1000), at least half of that; doubled for each further one, up to a
---minute
---@field starts? integer how often a message is started if its process ends each time (5)
---@field limit? number ms that one call may take; storing its result does not count. One that parks is then cancelled,
---and has failed. If Lua has not come back by then, since the call computes, the process says so on stderr and ends; by
---default there is no limit
---@field rate? integer|{ [1]: integer, [2]: number } how many calls all processes of the stage may start in a second,
---or in so many ms: { calls, ms }
---@field dead? boolean false: messages that are given up do not become dead letters (conn:dead)
---@field ex_handler? fun(err: any, value: any): any called when the last try has failed; what it returns is the result
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's
---@field at_least_once? boolean true: the stream of results may have another retention than "limits", and a result may
---be stored twice if the server starts again
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the stage first finishes
---its calls

local OPTIONS = {
  name = true, subject = true, to_subject = true, ack_wait = true, max_ack_pending = true, tries = true, retry = true,
  starts = true, limit = true, rate = true, dead = true, ex_handler = true, encoding = true,
  at_least_once = true, drain_on_term = true,
}

-- These settings would store results twice.
local FORGETS <const> = "stage: the stream %q has the retention %q: when the server starts again, it forgets the ids "
  .. "of messages that were removed, and may store results twice. Use the retention \"limits\" with max_age, or say "
  .. "at_least_once = true"

---Starts a durable stage: calls f with the value of each message of a stream, at most n calls at a time in this
---process, and stores what it returns in another stream. A message is acknowledged when its results are stored, so
---nothing is lost if a process or server is killed. f may be called again for a message whose results are stored
---already; the stream drops the second results, because they have the same ids. For that, f has to return the same
---number of results, and the stream has to keep ids (option `duplicates` of conn:stream) for longer than a message may
---wait for its next try.
---
---    local stage = assert(conn:stage(8, "orders", function(order) return invoice(order) end, "invoices"))
---
---f gets the value and the message. Each result that is not nil is a message of its own. If f raises, it is tried again
---later. After the last try, ex_handler decides, or the message is given up and the error reported (rn.on_error).
---@param conn runnel.nats.Connection
---@param n integer
---@param from string a stream
---@param f string|fun(value: any, message: runnel.nats.StreamMessage): any ... or the name of a module that returns one
---@param to? string a stream; nil: f has no results
---@param opts? runnel.nats.StageOptions
---@return runnel.Worker? stage, string? err
function stage.stage(conn, n, from, f, to, opts)
  check.integer(n, 1, "stage: n")
  jetstream.check_name(from, "stage: from")
  f = served(f, "stage")
  check.callable(f, "stage: f")
  if to ~= nil then jetstream.check_name(to, "stage: to") end
  check.options(opts, OPTIONS, "stage")
  opts = opts or {}
  local name = opts.name or to
  if name == nil then error("stage: a stage without a stream of results needs the option name", 2) end
  jetstream.check_name(name, "stage: name")
  check.callable_or_nil(opts.ex_handler, "stage: ex_handler")
  local tries, retry = backoff.options({ tries = opts.tries, retry = opts.retry or 1000 }, "stage", 5)
  if opts.starts ~= nil then check.integer(opts.starts, 1, "stage: starts") end
  local options = start_worker.check(opts, "stage")
  check.one_of(opts.at_least_once, { true, false }, "stage: at_least_once")
  check.one_of(opts.dead, { true, false }, "stage: dead")
  local encoding = conn.encoding
  if opts.encoding ~= nil then encoding = values.check(opts.encoding, "stage", 2) end

  local out, problem
  if to then
    out, problem = sink.sink(conn, to, {
      encoding = encoding, subject = opts.to_subject, timeout = patience.results_told, -- then the stage puts it again
    })
    if not out then return nil, "stage: " .. problem:gsub("^sink: ", "") end
    if out.retention ~= "limits" and not opts.at_least_once then return nil, FORGETS:format(to, out.retention) end
  end
  local config, defaults = source.settings({
    name = name, subject = opts.subject, ack_wait = opts.ack_wait, max_ack_pending = opts.max_ack_pending,
  }, "stage", 2)
  local stream, err = jetstream.stream_info(conn, from)
  if not stream then return nil, "stage: " .. err end
  local consumer = consumers.named(conn, from, name, config, defaults)
  local info, why = consumer:open()
  if not info then return nil, "stage: " .. why end
  local self, lost = start_worker.start(conn, {
    kind = "stage", name = name, n = n, stream = stream, bucket = "runnel-stage-" .. name,
    options = options,
    keeper = {
      consumer = consumer, info = info, what = "stage", queue = ("%s/%s"):format(from, name), from = from,
      encoding = encoding, decode = values.encodings[encoding].decode, sink = out, to_subject = opts.to_subject,
      -- A stream that was deleted and made again counts from 1.
      ids = ("%s.%s.%s."):format(from, name, (stream.created:gsub("[^%d]", ""))),
      letters = { storage = stream.config.storage, replicas = stream.config.num_replicas },
    },
    task = messages.task {
      name = name, f = f, has_results = out ~= nil, ex_handler = opts.ex_handler, has_letters = opts.dead ~= false,
      limits = { starts = opts.starts or running.STARTS, tries = tries, retry = retry },
    },
  })
  if not self then return nil, "stage: " .. lost end
  return self
end

return stage
