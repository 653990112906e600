---Remote stages: objects that are called like functions. Their calls run in workers (runnel.nats.serve).
---
---A submitter keeps each job until it has the result. It publishes the job to a stream, under a unique subject. The
---stream refuses a second message on that subject, so the submitter can send the job again at any time in case it was
---lost. The worker publishes the result to the submitter's own subject. Then the submitter acknowledges the job, which
---removes it from the stream. Until then the server redelivers the job whenever its worker falls silent.
---
---A redelivered job may have ended its worker's process. So a worker asks the submitter before it starts such a job.
---The submitter counts the starts, and allows the last two only on a worker without other jobs: a job is given up only
---if it was twice the only job of a worker that fell silent. A start does not count if the worker has reported that the
---function has raised, or that it has given the job back.

local acks = require "runnel.nats.acks"
local backoff = require "runnel.internal.backoff"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.jetstream"
local names = require "runnel.nats.names"
local patience = require "runnel.nats.patience"
local tell = require "runnel.nats.tell"
local upkeep = require "runnel.nats.upkeep"
local values = require "runnel.nats.values"
local wire = require "runnel.nats.wire"

local internal = core.internal
local chan, now = core.chan, core.now
local take, put = internal.moving.take, internal.moving.put
local ALONE <const> = require("runnel.nats.running").ALONE

---The part of a connection that submitters and workers use; runnel.nats.stages wraps one.
---@class runnel.Engine
---@field max_payload integer
---@field publish fun(self, subject: string, bytes: string, reply?: string): boolean?, string? does not wait
---@field subscribe fun(self, subject: string, take: runnel.EngineTaker): runnel.Channel<any> closing it ends that
---@field inbox fun(self): string a new subject
---@field beat fun(self, subject: string, bytes: string, ms: number, again: string): any publishes every ms, also while
---Lua computes; `again`, once, after a reconnect
---@field unbeat fun(self, beat: any) ends what `beat` has returned; nothing for false
---@field limit fun(self, beat: any, ms: number, text: string, subject: string, bytes: string) ends the beat after ms.
---If Lua has not run since then, publishes the bytes, gives back messages of other beats, writes the text to
---stderr, and ends the process
---@field alive fun(self) Lua runs
---@field events fun(self): runnel.Channel<{ event: string }> "reconnected" and others; closed, with the reason, when
---the connection ends

---Is called with each message, and must not park. Jobs have a `reply`, the subject for the acknowledgement, and an
---`age`: the ms since they arrived. Other messages have a subject (with the status 503, that of the subscription), and
---perhaps a status; with the end of a request for jobs, how many jobs of it are left that were not sent.
---@alias runnel.EngineTaker fun(data: string, reply?: string, age?: integer, subject?: string, status?: string,
---left?: string)

---@class runnel.Job
---@field number integer
---@field key string the number as text, as messages have it
---@field bytes string its value
---@field is_async boolean
---@field since number when it was submitted
---@field starts integer how often it may have been started
---@field raises integer how often its function has raised
---@field answers table<string, string>? by the subject for the acknowledgement of a delivery: "run", if the worker has
---asked and may start it, or "over" if the worker has told how that start has ended
---@field worker string? the worker that has asked last
---@field fails boolean? its dead letter is being stored
---@field again_at number when to send it again
---@field again_after number? how many ms after the stream's next answer to send it again
---@field remote runnel.Remote
---@field out runnel.Channel<runnel.Outcome>? where its caller waits
---@field finish? fun(outcome: runnel.Outcome) called with the outcome if no go block waits
local Job = { is_async = false, starts = 1, raises = 0 } -- at first
Job.__index = Job

-- The waiting go block was cancelled: cancel the job.
function Job:__close() self.remote:drop(self) end

---A remote stage.
---@class runnel.Remote
---@operator call(any): any
---@field private name string
---@field private engine runnel.Engine
---@field private encoding string
---@field private starts integer
---@field private tries integer how often a job is tried if its function raises
---@field private retry number ms until the second try
---@field private bury? fun(letter: runnel.DeadLetter) stores a dead letter; may park
---@field private traceback boolean
---@field private reply string where workers answer
---@field private inbox runnel.Channel<any> of the subscription to what workers and the server send
---@field private jobs table<string, runnel.Job> unfinished jobs, by key
---@field private last integer the number of the last job
---@field private ticking boolean whether a go block looks for jobs to be sent again
---@field private told table<string, boolean> reports that were made already
---@field private looks_at number when to look next whether there are workers
---@field private reason any why it is closed; nil while it is open
---@field private stream runnel.JobStream
---@field private base string the subject below which the inbox is
---@field private repairing boolean whether it makes the stream again
---@field private events runnel.Channel<{ event: string }> of the connection
---@field private tidying? runnel.Channel<any> the go block that compares the jobs with the stream after a reconnect
---@field private acks runnel.nats.AckMemory by the keys of jobs
---@field private asks_at number when to ask the stream next which jobs it has
---@field private old runnel.Job[] jobs that have been in the stream for long, to be checked
---@field private removals string[] the subjects of messages to be removed
---@field private removers integer how many go blocks remove some
---@field private subjects string what the subjects of its jobs begin with
---@field private ticker runnel.Channel<any> the go block that looks
local Remote = {}
Remote.__index = Remote
Remote.__name = "remote stage"
for name, method in pairs(upkeep.methods) do Remote[name] = method end

-- ---- jobs ----

function Remote:subject(job) return self.subjects .. job.key end

---@param again boolean whether it may have been started before
function Remote:send(job, again)
  local message = wire.job(self.reply, job.key, self.encoding, job.is_async, again, job.bytes)
  -- The first message matters only by its result. When the job is sent again, the stream's answer shows whether it has
  -- it.
  local answer = again and self.base .. "." .. job.key or nil
  return self.engine:publish(self:subject(job), message, answer)
end

-- Raises an error of `submit` at the line that called the remote stage.
local function fail(self, message, ...) error(("remote %s: "):format(self.name) .. message:format(...), 4) end

-- Starts a job.
function Remote:submit(value, out, finish)
  if self.reason ~= nil then fail(self, "%s", internal.error_text(self.reason)) end
  if value == nil then fail(self, "a value other than nil expected") end
  local bytes, why = values.encodings[self.encoding].encode(value, "value")
  if not bytes then fail(self, "%s", why) end
  local number = self.last + 1
  local key, time = tostring(number), now()
  local job = setmetatable({
    number = number, key = key, bytes = bytes, since = time, again_at = time + patience.job_again, out = out,
    remote = self,
  }, Job)
  if finish then job.is_async, job.finish = true, finish end
  local room = self.engine.max_payload - 300 -- for the first line
  if #bytes > room then fail(self, "a value of %d bytes is too large: the server takes up to %d", #bytes, room) end
  self.last = number
  self.jobs[key] = job
  if not self:send(job, false) then job.again_at = now() + patience.stream_again end
  if not self.ticking then self:tick() end
  return job
end

-- A job has ended.
function Remote:forget(job)
  self.jobs[job.key] = nil
  job.bytes = nil
end

local function tell_caller(job, outcome)
  if job.out then job.out:offer(outcome) else job.finish(outcome) end
end

function Remote:finish(job, outcome)
  self:forget(job)
  tell_caller(job, outcome)
end

-- The job has failed for good: it becomes a dead letter, and then its caller gets the error.
function Remote:fail(job, outcome)
  if not self.bury then return self:finish(job, outcome) end
  if job.fails then return end
  job.fails = true
  local letter = {
    kind = "job", name = self.name, encoding = self.encoding, data = job.bytes, id = self.reply .. "." .. job.key,
    error = internal.error_text(outcome.err), traceback = outcome.traceback, starts = job.starts, raises = job.raises,
    since = os.time() * 1000 - (now() - job.since), worker = job.worker, is_async = job.is_async,
  }
  local function finish()
    if self.jobs[job.key] == job then self:finish(job, outcome) end
  end
  guard.started(guard.go(finish, nil, function()
    self.bury(letter)
    finish()
  end), "remote " .. self.name)
end

local GIVEN_UP = "remote %s: the job was given up: its worker fell silent at each of %d starts"

-- The worker has fallen silent at each start of the job.
function Remote:give_up(job)
  local err = GIVEN_UP:format(self.name, job.starts - job.raises)
  self:fail(job, { n = 0, failed = true, err = err })
end

-- Handles the outcome of a delivery. If the function has raised: tries again later, unless that was the last try.
function Remote:tried(job, ack, outcome)
  local answers = job.answers or {}
  job.answers = answers
  if answers[ack] == "over" then return end
  answers[ack], job.raises = "over", job.raises + 1
  if job.raises < self.tries then
    return self.engine:publish(ack, jetstream.nak(backoff.pause(self.retry, job.raises)))
  end
  self:acknowledge(job.key, ack)
  if self.tries > 1 then self:fail(job, outcome) else self:finish(job, outcome) end
end

-- A job has ended: removes it from the stream. A server that is killed forgets its most recent removals.
function Remote:acknowledge(key, ack)
  self.acks:add(ack, now(), key)
  self.engine:publish(ack, "+ACK")
end

-- The job's caller is gone: removes the job from the stream, and makes its worker cancel it.
function Remote:drop(job)
  if self.jobs[job.key] ~= job then return end
  local subject = self:subject(job)
  self:forget(job)
  self:remove(subject)
  self.engine:publish(names.cancel(self.name), wire.line("-", "cancel", self.reply, job.key))
end

-- ---- the connection ----

-- After a reconnect, sends all jobs again: some may have been lost with the connection.
local function watch(self, events)
  local event, err = take(events)
  while event do
    if event.event == "reconnected" then
      self:send_all()
    end
    event, err = take(events)
  end
  self:close(err) -- unless it is closed already
end

-- ---- what workers and the server send ----

-- Reports a problem, once for each key.
function Remote:tell(message, key) tell(self, "remote", message, key) end

local receive = {}

-- Whether a worker may start a job that was delivered before, or (`is_perhaps`) may have been. `is_alone`: the worker
-- runs no other job.
local function answer_to(self, job, ack, is_alone, is_perhaps)
  if not job or job.fails then return "done" end
  local answers = job.answers
  if is_perhaps and not answers then -- the submission counted the first start
    job.answers = { [ack] = "run" }
    return "run"
  end
  answers = answers or {}
  job.answers = answers
  if answers[ack] then return answers[ack] end
  local silent = job.starts - job.raises
  if silent >= self.starts then
    self:give_up(job)
    return "done"
  end
  if not is_alone and silent + ALONE >= self.starts then return "alone" end
  job.starts, answers[ack] = job.starts + 1, "run"
  return "run"
end

receive["may-start"] = function(self, words)
  local answer, key, ack = words[2], words[4], words[5]
  if not ack then return false end
  local job = self.jobs[key]
  if job then job.worker = words[6] end
  self.engine:publish(answer, wire.line("-", answer_to(self, job, ack, words[7] == "alone", words[8] == "perhaps")))
  return true
end

-- A worker has given a job back, before its start or after cancelling it.
function receive.returned(self, words)
  local job, ack = self.jobs[words[4]], words[5]
  if not ack then return false end
  if not job then return true end
  local is_new, answers = not job.answers, job.answers or {}
  job.answers = answers
  -- The submission, or the answer to the question, has counted the start.
  local counted = words[6] == "first" and is_new or answers[ack] == "run"
  if counted then job.starts = job.starts - 1 end
  answers[ack] = "over"
  return true
end

function receive.refused(self, words)
  local version, worker = words[5] or "?", words[6] or "?"
  if version == wire.VERSION then
    self:tell(("the worker %s does not know the encoding %q; jobs wait for other workers")
      :format(worker, self.encoding))
  else
    self:tell(("the worker %s speaks version %s of the protocol, this program version %s; jobs wait for other workers")
      :format(worker, version, wire.VERSION))
  end
  return true
end

function Remote:receive(data, subject, status)
  local key, ack, sizes, at = wire.parse_result(data)
  if key then
    local job = self.jobs[key]
    local outcome = job and wire.outcome(data, at, sizes, self.encoding)
    if outcome and outcome.failed then return self:tried(job, ack, outcome) end
    if outcome then self:finish(job, outcome) end
    self:acknowledge(key, ack)
    return
  end
  if status or data:byte() == 123 then return self:stored(data, subject, status) end -- "{": JSON from the server
  local words, version = wire.parse(data)
  local handle = words and receive[words[3]]
  if handle and handle(self, words) then return end
  if words or version == wire.VERSION or not version:find "^%d+$" then
    self:tell(("a message from a worker makes no sense: %q"):format(data:sub(1, 60)), "nonsense")
  else
    self:tell(("a worker has sent a message of protocol version %s that this program, of version %s, cannot read")
      :format(version, wire.VERSION))
  end
end

-- ---- calls ----

-- The error of an outcome for the caller: with the worker's traceback, if it is a string or a table.
function Remote:error_of(outcome)
  local err, traceback = outcome.err, outcome.traceback
  if not self.traceback or not traceback then return err end
  if type(err) == "string" then return err .. "\n" .. traceback end
  if type(err) == "table" and err.traceback == nil then err.traceback = traceback end
  return err
end

-- Puts a job's results, and closes their channel.
local function deliver(self, result, outcome)
  for i = 1, outcome.n do
    if not put(result, outcome[i]) then break end
  end
  guard.close(result, outcome.failed and self:error_of(outcome) or nil)
end

---Runs a job on a worker and returns its first result or raises its error. With `result`, the channel of a job of
---rn.pipeline_async, the worker's function gets a channel in its place, and this returns at once.
---@param value any
---@param result? runnel.Channel<any>
---@return any
function Remote:__call(value, result)
  if result ~= nil then
    self:submit(value, nil, function(outcome)
      if outcome.n == 0 then return guard.close(result, outcome.failed and self:error_of(outcome) or nil) end
      guard.go(guard.close, result, deliver, self, result, outcome)
    end)
    return
  end
  local out = chan(1)
  local job <close> = self:submit(value, out) -- luacheck: ignore 211
  local outcome = take(out)
  if outcome.failed then error(self:error_of(outcome), 0) end
  return outcome[1]
end

---Ends the remote stage. Jobs without a result are dropped: each call that waits for one raises the error.
---@param reason? any by default that it is closed
function Remote:close(reason)
  if self.reason ~= nil then return end
  self.reason = reason == nil and "the remote stage is closed" or reason
  local err = ("remote %s: %s"):format(self.name, internal.error_text(self.reason))
  for _, job in ipairs(self:jobs_where(function() return true end)) do
    if self.jobs[job.key] then
      self:drop(job)
      tell_caller(job, { n = 0, failed = true, err = err })
    end
  end
  if self.ticking then core.cancel(self.ticker) end
  self.events:close()
  self.inbox:close()
end

Remote.__close = function(self) self:close() end

function Remote:__tostring() return ("remote stage: %s"):format(self.name) end

---Counts of jobs.
---@return { waiting: integer, submitted: integer } stats `waiting`: jobs without a result
function Remote:stats()
  local waiting = 0
  for _ in pairs(self.jobs) do waiting = waiting + 1 end
  return { waiting = waiting, submitted = self.last }
end

---Makes a remote stage. Its arguments have been checked.
---@param engine runnel.Engine
---@param name string
---@param stream runnel.JobStream
---@param opts { encoding: string, starts: integer, tries: integer, retry: number, traceback: boolean,
---bury?: fun(letter: runnel.DeadLetter) }
---@return runnel.Remote
local function new(engine, name, stream, opts)
  local base = engine:inbox()
  local self = setmetatable({
    name = name, engine = engine, encoding = opts.encoding, starts = opts.starts, traceback = opts.traceback,
    tries = opts.tries, retry = opts.retry, bury = opts.bury,
    base = base, reply = base .. ".r", subjects = ("%s.%s."):format(names.jobs(name), base:match "[^.]*$"),
    stream = stream, jobs = {}, last = 0, ticking = false, looks_at = 0, repairing = false, told = {}, reason = nil,
    acks = acks.memory(now()), asks_at = 0, old = {}, removals = {}, removers = 0,
  }, Remote)
  self.inbox = engine:subscribe(base .. ".>", function(data, _, _, ...) self:receive(data, ...) end)
  self.events = engine:events()
  guard.started(guard.go(guard.nothing, nil, watch, self, self.events), "remote " .. name)
  return self
end

return { new = new }
