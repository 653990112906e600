---The stream of a remote stage and its consumer on the server: makes them, checks existing ones, and asks for what
---submitters need to know.

local consumers = require "runnel.nats.internal.consumers"
local jetstream = require "runnel.nats.internal.jetstream"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.nats.internal.patience"
local who = require "runnel.nats.internal.who"

local job_stream = {}

local NANOSECONDS <const> = 1000000 -- in a millisecond

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
  local wrong = wrong_setting(info.config, expected)
  if wrong then
    return nil, ("%s: %s; delete it, or use another name (nats-server 2.9 or later is needed)"):format(what, wrong)
  end
  return info
end

-- The same for the consumer that the workers share.
local function ensure_consumer(conn, name, opts)
  local stream, consumer = names.stream(name), names.CONSUMER
  local expected = {
    durable_name = consumer, ack_policy = "explicit", ack_wait = math.floor(opts.ack_wait * NANOSECONDS),
    max_deliver = -1, max_ack_pending = opts.max_running or -1, max_waiting = 8192,
  }
  local what = ("the consumer %s of the stream %s"):format(consumer, stream)
  local info, why, code = consumers.ensure(conn, stream, consumer, expected)
  if not info then return nil, code and ("%s: %s"):format(what, why) or why end
  local wrong = wrong_setting(info.config, { ack_policy = "explicit", max_deliver = -1, filter_subject = false })
  if wrong then return nil, ("%s: %s; delete it"):format(what, wrong) end
  return info
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

---The stream of a remote stage.
---@class runnel.JobStream
---@field conn runnel.nats.Connection
---@field name string of the stage
---@field stream string
---@field settings { storage: string, replicas: integer, max_age: number } of a new one
local JobStream = {}
JobStream.__index = JobStream

---Makes the stream if it is missing.
---@return table? config, string? err
function JobStream:make()
  local info, why = ensure_stream(self.conn, self.name, self.settings)
  return info and info.config, why
end

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

-- Whether the stream has lost the numbers of its last messages, and its consumer has delivered those: what the server
-- says about the consumer, which was asked before. The next messages get these numbers.
local function has_lost_numbers(self, info)
  local answer = jetstream.request(self.conn, "STREAM.INFO." .. self.stream)
  return answer ~= nil and info.delivered ~= nil and answer.state.last_seq < info.delivered.stream_seq
end

-- Whether the stream has a message that it will not deliver, since the server counts it as acknowledged. This happens
-- if the server was killed, because it writes messages and acknowledgements to different files. Unknown while
-- redelivered jobs are unfinished: the job may be one of them, and run. (After kills, the floor may have passed a job
-- that runs. Then it runs twice, since its submitter sends it again.) But redelivered jobs that the stream has lost are
-- never finished.
function JobStream:is_stuck(subject)
  local position = self:position(subject)
  if not position then return false end
  local answer = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, names.CONSUMER))
  if not answer or not answer.ack_floor or answer.ack_floor.stream_seq < position then return false end
  return (answer.num_redelivered or 0) == 0 or has_lost_numbers(self, answer)
end

-- Removes the message of a subject. (Not by purging the subject: the consumers of nats-server 2.9 then skip messages of
-- other subjects.)
function JobStream:remove(subject)
  local position = self:position(subject)
  if not position then return end
  jetstream.request(self.conn, "STREAM.MSG.DELETE." .. self.stream, { seq = position, no_erase = true })
end

---@param conn runnel.nats.Connection
---@param name string of the stage
---@param settings { storage: string, replicas: integer, max_age: number }
---@return runnel.JobStream
function job_stream.new(conn, name, settings)
  return setmetatable({ conn = conn, name = name, stream = names.stream(name), settings = settings }, JobStream)
end

-- ---- as the workers' readers use the consumer ----

---The consumer that all workers of a stage share. It is made again, with its stream, if it was deleted.
---@class runnel.nats.JobConsumer: runnel.nats.Consumer
---@field private settings table
local JobConsumer = {}
JobConsumer.__index = JobConsumer

---Makes the stream and the consumer unless they exist.
---@return table? info of the consumer, or nil
---@return string|table err_or_stream the reason, or the server's information about the stream
function JobConsumer:open()
  local of_stream, why = ensure_stream(self.conn, self.queue, self.settings)
  if not of_stream then return nil, why end
  local info, problem = ensure_consumer(self.conn, self.queue, self.settings)
  if not info then return nil, problem end
  self.created, self.ack_ms = info.created:sub(1, 19), info.config.ack_wait / NANOSECONDS
  return info, of_stream
end

function JobConsumer:look()
  local before = self.created
  local info, why = jetstream.request(self.conn, ("CONSUMER.INFO.%s.%s"):format(self.stream, self.name), nil,
    patience.look)
  if not info then info, why = self:open() end
  if not info then return nil, why --[[@as string]] end
  self.created = info.created:sub(1, 19)
  return info, nil, nil, before == self.created
end

function JobConsumer:close() end -- luacheck: no self

---@param conn runnel.nats.Connection
---@param name string of the stage
---@param settings table of a new stream and a new consumer
---@return runnel.nats.JobConsumer
function job_stream.consumer(conn, name, settings)
  return setmetatable({
    conn = conn, queue = name, settings = settings, stream = names.stream(name), name = names.CONSUMER,
    id = names.CONSUMER,
  }, JobConsumer)
end

job_stream.difference, job_stream.stream_difference = difference, stream_difference

return job_stream
