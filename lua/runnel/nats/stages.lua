---conn:remote and conn:serve: remote stages and their workers on a connection to a NATS server.

local require = require
local jetstream = require "runnel.nats.internal.jetstream"
local job_stream = require "runnel.nats.internal.job_stream"
local names = require "runnel.nats.internal.names"
local remotes = require "runnel.queue.remote"
local serve = require "runnel.nats.internal.serve"
local sign = require "runnel.internal.sign"
local start_worker = require "runnel.nats.internal.start_worker"
local raise = require("runnel.internal.check").raise

---@class runnel.nats_stages
local stages = {}

local DAY <const> = 24 * 60 * 60 * 1000

---Makes a remote stage: an object to pass to rn.pmap, rn.pipeline_async and others in place of a function. Its calls
---run in the workers of that name (conn:serve).
---
---A job runs at least once, and again if its worker falls silent. Each call gets its results once; an ordered pipeline
---keeps the order of the values.
---@param conn runnel.nats.Connection
---@param name string letters, digits, - and _
---@param opts? runnel.RemoteOptions
---@return runnel.Remote remote
function stages.remote(conn, name, opts)
  sign.own(conn, "conn", "remote")
  local terms
  opts, terms = remotes.check(name, opts)
  terms.encoding = opts.encoding or "msgpack"
  local settings = { storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY }
  local stream = job_stream.new(conn, name, settings)
  local config, why = stream:make()
  why = why or job_stream.stream_difference(conn, name, opts, config)
  if why then raise("remote: " .. why) end
  return require("runnel.nats.remote").new(conn, name, stream, terms)
end

---Starts a worker, which runs the jobs of the remote stages of that name, at most `n` at a time. It runs until
---`worker:drain()`, `worker:stop()`, or the end of the connection; `worker:wait()` waits for that.
---@param conn runnel.nats.Connection
---@param name string
---@param n integer jobs at a time
---@param f string|function the function, or the name of a module that returns it
---@param opts? runnel.ServeOptions
---@return runnel.Worker worker
function stages.serve(conn, name, n, f, opts)
  sign.own(conn, "conn", "serve")
  local options
  opts, f, options = remotes.check_serve(name, n, f, opts)
  local settings = {
    storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY,
    ack_wait = opts.ack_wait or 500, max_running = opts.max_running,
  }
  local consumer = job_stream.consumer(conn, name, settings)
  local info, of_stream = consumer:open()
  local why = not info and of_stream
    or job_stream.stream_difference(conn, name, opts, of_stream.config)
    or job_stream.difference("the consumer of its workers", name, {
      ack_wait = opts.ack_wait and jetstream.ns(opts.ack_wait), max_ack_pending = opts.max_running,
    }, info.config)
  if why then raise("serve: " .. why) end
  local worker, problem = start_worker.start(conn, {
    kind = "worker", name = name, n = n, stream = of_stream, bucket = names.bucket(name),
    prefix = names.jobs(name) .. ".", options = options,
    task = serve.task(conn, name, f),
    keeper = { consumer = consumer, info = info, what = "serve", queue = name, letters = settings },
  })
  if not worker then raise("serve: " .. problem) end
  return worker
end

return stages
