---conn:remote and conn:serve: remote stages and their workers on a connection to a NATS server. Makes the stream and
---the consumer of a stage, and checks existing ones.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local consumers = require "runnel.nats.consumers"
local dead = require "runnel.nats.dead"
local draining = require "runnel.nats.draining"
local firsts = require "runnel.nats.firsts"
local jetstream = require "runnel.nats.jetstream"
local label = require "runnel.nats.label"
local names = require "runnel.nats.names"
local rate = require "runnel.nats.rate"
local running = require "runnel.nats.running"
local served = require "runnel.nats.served"
local tidying = require "runnel.nats.tidying"
local values = require "runnel.nats.values"
local who = require "runnel.nats.who"

local internal = core.internal

---@class runnel.nats_stages
local stages = {}

local DAY <const> = 24 * 60 * 60 * 1000
local NANOSECONDS <const> = 1000000 -- in a millisecond

-- ---- the connection, as submitters and workers see it ----

local Engine = {}
Engine.__index = Engine

function Engine:publish(subject, bytes, reply) return self.core:publish(subject, bytes, reply) end

function Engine:subscribe(subject, take) return (self.conn:subscribe(subject, { encoding = "raw" }, take)) end

function Engine:inbox() return self.conn:inbox() end

-- conn:beat and conn:unbeat without their checks, since each job uses them. `unbeat` gets the result of `beat`, or
-- false.
function Engine:beat(subject, bytes, ms, again) return self.core:beat(subject, bytes, ms, again) or false end

function Engine:unbeat(beat)
  if beat then self.core:unbeat(beat) end
end

-- See runnel.nats.limit, and runnel.Engine.
function Engine:limit(beat, ms, text, subject, bytes)
  if beat then self.core:limit(beat, ms, text, subject, bytes) end
end

function Engine:alive() self.core:alive() end

-- Closed, with the reason, when the connection ends.
function Engine:events()
  local ch = core.chan(core.sliding_buffer(16))
  local forget_event = self.conn:on_event(function(event) ch:offer(event) end)
  local forget_end = self.conn:on_close(function(err) ch:close(err or "the connection is closed") end)
  internal.on_close(ch, function()
    forget_event()
    forget_end()
  end)
  return ch
end

local function engine_of(conn)
  return setmetatable({ conn = conn, core = conn.core, max_payload = conn.max_payload }, Engine)
end

-- ---- streams and consumers ----

-- The settings that a stage depends on.
local function wrong_setting(config, expected)
  for _, key in ipairs { "retention", "discard", "discard_new_per_subject", "max_msgs_per_subject", "ack_policy" } do
    if expected[key] ~= nil and config[key] ~= expected[key] then
      return ("%s is %s, expected %s"):format(key, tostring(config[key]), tostring(expected[key]))
    end
  end
  if expected.subjects and not (config.subjects and config.subjects[1] == expected.subjects[1]) then
    return ("its subjects are %s, expected %s"):format(table.concat(config.subjects or {}, ", "), expected.subjects[1])
  end
  if expected.max_deliver and (config.max_deliver or -1) > 0 then
    return ("max_deliver is %d, expected -1"):format(config.max_deliver)
  end
  if expected.filter_subject == false and config.filter_subject and config.filter_subject ~= "" then
    return "it has a filter: " .. config.filter_subject
  end
end

-- Makes sure that the stream of a stage exists with the right settings. Returns nil and the reason if it does not.
local function ensure_stream(conn, name, opts)
  local stream = names.stream(name)
  local expected = {
    name = stream, subjects = { names.jobs(name) .. ".>" }, retention = "workqueue", discard = "new",
    discard_new_per_subject = true, max_msgs_per_subject = 1, max_age = math.floor(opts.max_age * NANOSECONDS),
    storage = opts.storage, num_replicas = opts.replicas,
  }
  local what = "the stream " .. stream
  local info, why, code = jetstream.ensure(conn, "STREAM.INFO." .. stream, "STREAM.CREATE." .. stream, expected)
  if not info then return nil, code and ("%s: %s"):format(what, why) or why end
  local config = info.config
  local wrong = wrong_setting(config, expected)
  if wrong then
    return nil, ("%s: %s; delete it, or use another name (nats-server 2.9 or later is needed)"):format(what, wrong)
  end
  return config
end

-- The same for the consumer that the workers share. Initializes `of` from its number of deliveries.
local function ensure_consumer(conn, name, opts, of)
  local stream, consumer = names.stream(name), names.CONSUMER
  local expected = {
    durable_name = consumer, ack_policy = "explicit", ack_wait = math.floor(opts.ack_wait * NANOSECONDS),
    max_deliver = -1, max_ack_pending = opts.max_jobs or -1, max_waiting = 8192,
  }
  local what = ("the consumer %s of the stream %s"):format(consumer, stream)
  local info, why, code = consumers.ensure(conn, stream, consumer, expected)
  if not info then return nil, code and ("%s: %s"):format(what, why) or why end
  of:begin(info.delivered)
  local wrong = wrong_setting(info.config, { ack_policy = "explicit", max_deliver = -1, filter_subject = false })
  if wrong then return nil, ("%s: %s; delete it"):format(what, wrong) end
  return info.config
end

-- Which of the program's settings differs from the server's; nil if none. They are in the server's words.
local function difference(what, name, given, config)
  local found = jetstream.difference(given, config)
  return found and ("%s exists with other settings: %s; change the option, or the server's setting by "
    .. "conn:queue(%q):change"):format(what, found, name)
end

-- The same for the stream of a stage. If the program wants more replicas, changes the stream: the first program may not
-- have asked for any.
local function stream_difference(conn, name, opts, config)
  local stream = names.stream(name)
  if opts.replicas and opts.replicas > config.num_replicas then
    local ok, why = jetstream.change_stream(conn, stream, { num_replicas = opts.replicas })
    if not ok then
      return ("the stream %s has %d replicas, and cannot have %d: %s")
        :format(stream, config.num_replicas, opts.replicas, why)
    end
    config.num_replicas = opts.replicas
  end
  return difference("the stream " .. stream, name, {
    storage = opts.storage, num_replicas = opts.replicas, max_age = opts.max_age and jetstream.ns(opts.max_age),
  }, config)
end

-- ---- what submitters ask of the stream ----

---@class runnel.JobStream
local JobStream = {}
JobStream.__index = JobStream

-- Makes the stream if it is missing.
function JobStream:make() return ensure_stream(self.conn, self.name, self.settings) end

-- The sequence number of a subject's message; nil if it has none, or the server does not answer.
function JobStream:position(subject)
  local answer = jetstream.request(self.conn, "STREAM.MSG.GET." .. self.stream, { last_by_subj = subject })
  return answer and answer.message and math.tointeger(answer.message.seq)
end

-- The subjects that have a message, among those that match; nil if the server does not answer. It lists up to 100,000
-- in an answer.
function JobStream:subjects(filter)
  local found, count = {}, 0
  repeat
    local answer, _, code = jetstream.request(self.conn, "STREAM.INFO." .. self.stream,
      { subjects_filter = filter, offset = count })
    if not answer then return code == jetstream.NO_STREAM and {} or nil end
    local before = count
    for subject in pairs(answer.state.subjects or {}) do found[subject], count = true, count + 1 end
  until count == before or count >= (answer.total or 0)
  return found
end

-- Why the stage has no active worker: a text; or nil, if a worker asks for jobs or has some, or the server does not
-- answer.
function JobStream:why_idle()
  local answer, _, code = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, names.CONSUMER))
  if answer and who.is_paused(answer.config) then
    return ("it is paused (runnel queues resume %s)"):format(self.name)
  end
  local is_idle = answer and answer.num_waiting == 0 and answer.num_ack_pending == 0
  if not is_idle and code ~= jetstream.NO_CONSUMER then return nil end
  return ("no worker takes them; a worker is a program with conn:serve(%q, ...)"):format(self.name)
end

-- Whether the stream has a message that it will not deliver, since the server counts it as acknowledged. This happens
-- if the server was killed, because it writes messages and acknowledgements to different files. Unknown while
-- redelivered jobs are unfinished: the job may be one of them, and run.
function JobStream:is_stuck(subject)
  local position = self:position(subject)
  if not position then return false end
  local answer = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, names.CONSUMER))
  local floor = tidying.finished_up_to(answer)
  return floor ~= nil and floor >= position
end

-- Removes the message of a subject. (Not by purging the subject: the consumers of nats-server 2.9 then skip messages of
-- other subjects.)
function JobStream:remove(subject)
  local position = self:position(subject)
  if not position then return end
  jetstream.request(self.conn, "STREAM.MSG.DELETE." .. self.stream, { seq = position, no_erase = true })
end

-- ---- arguments ----

local function check_one_of(value, list, what, level)
  if value == nil then return end
  local names_of = {}
  for i, one in ipairs(list) do
    if value == one then return end
    names_of[i] = check.describe(one)
  end
  error(("%s: %s expected, got %s"):format(what, table.concat(names_of, " or "), check.describe(value)), level or 3)
end

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
  check_one_of(opts.storage, { "file", "memory" }, what .. ": storage", 4)
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
  check_one_of(opts.traceback, { true, false }, "remote: traceback")
  check_one_of(opts.dead, { true, false }, "remote: dead")
  local tries, retry = backoff.options({ tries = opts.tries, retry = opts.retry or 1000 }, "remote", 1)
  check_stream_options(opts, "remote")
  local settings = { storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY }
  local config, why = ensure_stream(conn, name, settings)
  why = why or stream_difference(conn, name, opts, config)
  if why then error("remote: " .. why, 2) end
  local stream = setmetatable({
    conn = conn, name = name, stream = names.stream(name), settings = settings,
  }, JobStream)
  local function bury(letter)
    local ok, err = dead.store(conn, letter, settings)
    if not ok then internal.report("a dead letter cannot be stored: " .. tostring(err), nil, "remote " .. name) end
  end
  return require("runnel.nats.remote").new(engine_of(conn), name, stream, {
    encoding = opts.encoding or "msgpack", starts = opts.starts or running.STARTS, tries = tries, retry = retry,
    traceback = opts.traceback ~= false, bury = opts.dead ~= false and bury or nil,
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
  if opts.limit ~= nil then check.ms(opts.limit, 10, "serve: limit") end
  local limits = opts.rate ~= nil and rate.check(opts.rate, "serve", 2) or nil
  check_one_of(opts.drain_on_term, { true, false }, "serve: drain_on_term")
  check_stream_options(opts, "serve")
  local settings = {
    storage = opts.storage or "file", replicas = opts.replicas or 1, max_age = opts.max_age or DAY,
    ack_wait = opts.ack_wait or 500, max_jobs = opts.max_jobs,
  }
  local of = firsts.new()
  local function ensure_both()
    local of_stream, why = ensure_stream(conn, name, settings)
    if not of_stream then return nil, why end
    local config, problem = ensure_consumer(conn, name, settings, of)
    return config, problem or of_stream
  end
  local config, of_stream = ensure_both()
  local why = not config and of_stream
    or stream_difference(conn, name, opts, of_stream)
    or difference("the consumer of its workers", name, {
      ack_wait = opts.ack_wait and jetstream.ns(opts.ack_wait), max_ack_pending = opts.max_jobs,
    }, config)
  if why then error("serve: " .. why, 2) end
  local limiter, problem
  if limits then
    limiter, problem = rate.open(conn, name, limits)
    if not limiter then error("serve: rate: " .. problem, 2) end
  end
  local worker = require("runnel.nats.serve").new(engine_of(conn), name, n, f, {
    ack_wait = config.ack_wait / NANOSECONDS, label = label(), repair = ensure_both,
    firsts = of, limit = opts.limit, rate = limiter, is_paused = who.is_paused(config),
  })
  local function drain(ms) worker:drain(ms) end
  draining.add(conn, drain, worker:done(), opts.drain_on_term ~= false)
  who.add(conn, {
    queue = name, stream = names.stream(name), consumer = names.CONSUMER,
    report = function() return worker:report() end,
    pause = function(is_paused) worker:pause(is_paused) end,
  }, worker:done())
  return worker
end

return stages
