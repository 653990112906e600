---conn:remote and conn:serve: remote stages and their workers on a connection to a NATS server.

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local engine_of = require "runnel.nats.internal.engine"
local jetstream = require "runnel.nats.internal.jetstream"
local job_stream = require "runnel.nats.internal.job_stream"
local names = require "runnel.nats.internal.names"
local running = require "runnel.queue.running"
local serve = require "runnel.nats.internal.serve"
local served = require "runnel.queue.served"
local start_worker = require "runnel.nats.internal.start_worker"
local values = require "runnel.nats.internal.values"
local worker_options = require "runnel.queue.options"

---@class runnel.nats_stages
local stages = {}

local DAY <const> = 24 * 60 * 60 * 1000

-- ---- arguments ----

---The options of conn:remote.
---@class runnel.RemoteOptions
---@field encoding? string of values and results: "msgpack" (default), "json", or "raw" for strings as they are
---@field starts? integer how often a job is started at most, if its worker falls silent each time; default 5
---@field tries? integer how often a job is tried at most, if the function raises each time; default 1
---@field retry? number ms until the second try, half of it at least; doubled for each further one, up to a minute;
---default 1000
---@field dead? boolean false: jobs that are given up do not become dead letters (conn:dead)
---@field traceback? boolean false: errors are as the worker's function raised them. Otherwise the worker's traceback is
---appended to an error that is a string, and is the field `traceback` of one that is a table
---@field storage? string "file" (default) or "memory": for the stream, if it does not exist yet
---@field replicas? integer on how many servers of a cluster the stream is stored; default 1
---@field max_age? number ms after which the stream drops a job that no worker has taken; default a day. A submitter
---that still waits for it sends it again

local REMOTE_OPTIONS = {
  encoding = true, starts = true, tries = true, retry = true, dead = true, traceback = true, storage = true,
  replicas = true, max_age = true,
}

local function check_stream_options(opts, what)
  check.one_of(opts.storage, { "file", "memory" }, what .. ": storage", 4)
  if opts.max_age ~= nil then check.ms(opts.max_age, 10, what .. ": max_age", 4) end
  if opts.replicas ~= nil and not (math.type(opts.replicas) == "integer" and opts.replicas >= 1) then
    error(("%s: replicas: an integer of at least 1 expected, got %s"):format(what, check.describe(opts.replicas)), 3)
  end
end

---Makes a remote stage: an object to pass to rn.pmap, rn.pipeline_async and others in place of a function. Its calls
---run in the workers of that name (conn:serve).
---
---A job runs at least once, and again if its worker falls silent. Each call gets its results once; an ordered pipeline
---keeps the order of the values.
---@param conn any
---@param name string letters, digits, - and _
---@param opts? runnel.RemoteOptions
---@return runnel.Remote remote
function stages.remote(conn, name, opts)
  names.check(name, "remote")
  check.options(opts, REMOTE_OPTIONS, "remote")
  opts = opts or {}
  if opts.encoding ~= nil then values.check(opts.encoding, "remote", 2) end
  if opts.starts ~= nil then check.integer(opts.starts, 1, "remote: starts") end
  check.one_of(opts.traceback, { true, false }, "remote: traceback")
  check.one_of(opts.dead, { true, false }, "remote: dead")
  local tries, retry = backoff.options({ tries = opts.tries, retry = opts.retry or 1000 }, "remote", 1)
  check_stream_options(opts, "remote")
  local settings = { storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY }
  local stream = job_stream.new(conn, name, settings)
  local config, why = stream:make()
  why = why or job_stream.stream_difference(conn, name, opts, config)
  if why then error("remote: " .. why, 2) end
  return require("runnel.nats.remote").new(engine_of(conn), name, stream, {
    encoding = opts.encoding or "msgpack", starts = opts.starts or running.STARTS, tries = tries, retry = retry,
    traceback = opts.traceback ~= false, has_letters = opts.dead ~= false,
  })
end

---The options of conn:serve.
---@class runnel.ServeOptions
---@field ack_wait? number ms after which the server redelivers a job to another worker if its worker has fallen silent;
---500 if the first worker gives none. What the first worker of a stage gives holds for all: another value is an error
---@field max_jobs? integer how many jobs all workers may have together; no limit by default. As for ack_wait, the first
---worker's value holds
---@field limit? number ms that one job may take. One that parks is then cancelled, and has failed. If Lua has not come
---back by then, since the job computes, the process says so on stderr and ends; by default there is no limit
---@field rate? integer|{ [1]: integer, [2]: number } how many jobs all workers of the stage may start in a second, or
---in so many ms: { jobs, ms }
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the worker drains first
---@field storage? string as for conn:remote
---@field replicas? integer as for conn:remote
---@field max_age? number as for conn:remote

local SERVE_OPTIONS = {
  ack_wait = true, max_jobs = true, limit = true, rate = true, drain_on_term = true, storage = true, replicas = true,
  max_age = true,
}

---Starts a worker, which runs the jobs of the remote stages of that name, at most `n` at a time. It runs until
---`worker:drain()`, `worker:stop()`, or the end of the connection; `worker:wait()` waits for that.
---@param conn any
---@param name string
---@param n integer jobs at a time
---@param f string|function the function, or the name of a module that returns it
---@param opts? runnel.ServeOptions
---@return runnel.Worker worker
function stages.serve(conn, name, n, f, opts)
  names.check(name, "serve")
  check.integer(n, 1, "serve: n")
  check.options(opts, SERVE_OPTIONS, "serve")
  f = served(f, "serve")
  check.callable(f, "serve: f")
  opts = opts or {}
  if opts.ack_wait ~= nil then check.ms(opts.ack_wait, 10, "serve: ack_wait") end
  if opts.max_jobs ~= nil then check.integer(opts.max_jobs, 1, "serve: max_jobs") end
  local options = worker_options.check(opts, "serve", 2)
  check_stream_options(opts, "serve")
  local settings = {
    storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY,
    ack_wait = opts.ack_wait or 500, max_jobs = opts.max_jobs,
  }
  local consumer = job_stream.consumer(conn, name, settings)
  local info, of_stream = consumer:open()
  local why = not info and of_stream
    or job_stream.stream_difference(conn, name, opts, of_stream.config)
    or job_stream.difference("the consumer of its workers", name, {
      ack_wait = opts.ack_wait and jetstream.ns(opts.ack_wait), max_ack_pending = opts.max_jobs,
    }, info.config)
  if why then error("serve: " .. why, 2) end
  local worker, problem = start_worker.start(conn, {
    kind = "worker", name = name, n = n, stream = of_stream, bucket = names.bucket(name),
    prefix = names.jobs(name) .. ".", options = options,
    task = serve.task(engine_of(conn), name, f),
    keeper = { consumer = consumer, info = info, what = "serve", queue = name, letters = settings },
  })
  if not worker then error("serve: " .. problem, 2) end
  return worker
end

return stages
