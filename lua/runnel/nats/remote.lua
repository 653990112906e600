---Remote stages: objects that are called like functions. Their calls run in workers (runnel.nats.internal.serve).
---
---A submitter keeps each job until it has the result. It publishes the job to a stream, under a unique subject. The
---stream refuses a second message on that subject, so the submitter can send the job again at any time in case it was
---lost. The worker publishes the result to the submitter's own subject. Then the submitter acknowledges the job, which
---removes it from the stream. Until then the server redelivers the job whenever its worker falls silent. The worker
---decides how often a job starts, and whether it is tried again or given up.

local acks = require "runnel.nats.internal.acks"
local contexts = require "runnel.internal.trace_context"
local core = require "runnel.core"
local keepers = require "runnel.queue.keeper"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.nats.internal.patience"
local remotes = require "runnel.queue.remote"
local sign = require "runnel.internal.sign"
local upkeep = require "runnel.nats.internal.upkeep"
local values = require "runnel.queue.encodings"
local wire = require "runnel.nats.internal.wire"
local raise = require("runnel.internal.check").raise

local now = core.now
local tell_caller = remotes.tell_caller

---@class runnel.Job
---@field number integer
---@field key string the number as text, as messages have it
---@field bytes string its value
---@field is_async boolean
---@field since number when it was submitted
---@field again_at number when to send it again
---@field again_after number? how many ms after the stream's next answer to send it again
---@field was_lost? boolean the stream has stored it a second time
---@field is_replaced? boolean the stream would not have delivered its message
---@field remote runnel.Remote
---@field out runnel.Channel<runnel.Outcome>? where its caller waits
---@field headers? table<string, string> the trace to which the job belongs
---@field finish? fun(outcome: runnel.Outcome) called with the outcome if no go block waits
local Job = { is_async = false }
Job.__index = Job

-- The waiting go block was cancelled: cancel the job.
function Job:__close() self.remote:drop(self) end

---A remote stage.
---@class runnel.Remote
---@operator call(any): any
---@field private name string
---@field private conn runnel.nats.Connection
---@field private encoding string
---@field private terms table<boolean, table<boolean, string>> the terms of jobs for messages, by whether the job is
---async, and whether it was sent before
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
---@field private listeners (fun())[] what ends its functions for the connection's events and end
---@field private tidying? runnel.Channel<any> the go block that compares the jobs with the stream after a reconnect
---@field private acks runnel.nats.AckMemory by the keys of jobs
---@field private asks_at number when to ask the stream next which jobs it has
---@field private old runnel.Job[] jobs in the stream to be checked: whether it will deliver them
---@field private removals string[] the subjects of messages to be removed
---@field private removed table<string, fun()> by subject: the function to call after the removal
---@field private removers integer how many go blocks remove some
---@field private subjects string what the subjects of its jobs begin with
---@field private ticker runnel.Channel<any> the go block that looks
local Remote = remotes.class {}
for name, method in pairs(upkeep.methods) do Remote[name] = method end

-- ---- jobs ----

-- Room for the headers of a job that belongs to a trace, in bytes.
local HEADERS <const> = 700

function Remote:subject(job) return self.subjects .. job.key end

---@param again boolean whether it was sent before
function Remote:send(job, again)
  local message = wire.job(self.reply, job.key, self.encoding, self.terms[job.is_async][again], job.bytes)
  -- The first message matters only by its result. When the job is sent again, the stream's answer shows whether it has
  -- it.
  local answer = again and self.base .. "." .. job.key or nil
  if job.headers then return self.conn.core:publish_with(self:subject(job), message, answer, job.headers) end
  return self.conn.core:publish(self:subject(job), message, answer)
end

-- Raises an error of `submit` at the line that called the remote stage.
local function fail(self, message, ...) raise(("remote %s: "):format(self.name) .. message:format(...)) end

-- Starts a job.
function Remote:submit(value, out, finish)
  if self.reason ~= nil then fail(self, "%s", keepers.error_text(self.reason)) end
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
  if contexts.on then job.headers = contexts.add() end
  local room = self.conn.max_payload - (job.headers and HEADERS or 0) - 300 -- for the first line
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

function Remote:finish(job, outcome)
  self:forget(job)
  tell_caller(job, outcome)
end

-- A job has ended: removes it from the stream. A server that is killed forgets its most recent removals.
function Remote:acknowledge(key, ack)
  self.acks:add(ack, now(), key)
  self.conn.core:publish(ack, "+ACK")
end

---Removes a job that has ended from the stream, and makes its worker cancel it, even if the job is still on its way to
---the worker.
---@param key string
function Remote:withdraw(key)
  local function cancel() self.conn.core:publish(names.cancel(self.name), wire.cancel(self.reply, key)) end
  cancel()
  self:remove(self.subjects .. key, cancel)
end

-- Called when the job's caller is gone.
function Remote:drop(job)
  if self.jobs[job.key] ~= job then return end
  self:forget(job)
  self:withdraw(job.key)
end

-- ---- the connection ----

-- After a reconnect, sends all jobs again: some may have been lost with the connection.
local function watch(self)
  self.listeners = {
    self.conn:on_event(function(event)
      if event.event == "reconnected" then self:send_all() end
    end),
    self.conn:on_close(function(err) self:close(err or "the connection is closed") end),
  }
end

-- ---- what workers and the server send ----

-- Reports a problem, once for each key.
function Remote:tell(message, key)
  key = key or message
  if self.told[key] then return end
  self.told[key] = true
  keepers.report(("remote %s: %s"):format(self.name, message), nil, "remote " .. self.name)
end

-- Handles a worker's message that it cannot read a job.
local function refused(self, version, worker)
  if version == wire.VERSION then
    self:tell(("the worker %s does not know the encoding %q; jobs wait for other workers")
      :format(worker, self.encoding))
  else
    self:tell(("the worker %s speaks version %s of the protocol, this program version %s; jobs wait for other workers. "
      .. "Use the same version of runnel in both"):format(worker, version, wire.VERSION), "version " .. version)
  end
end

function Remote:receive(data, subject, status)
  local key, ack, sizes, at = wire.parse_result(data)
  if key then
    local job = self.jobs[key]
    if job then self:finish(job, wire.outcome(data, at, sizes, self.encoding)) end
    if job and job.was_lost then self:remove(self:subject(job)) end -- the result may be that of the lost message
    return self:acknowledge(key, ack)
  end
  if status or data:byte() == 123 then return self:stored(data, subject, status) end -- "{": JSON from the server
  local version, worker = wire.parse_refusal(data)
  if version then return refused(self, version, worker) end
  version = data:match "^(%d+) "
  if version and version ~= wire.VERSION then
    self:tell(("a worker has sent a message of protocol version %s that this program, of version %s, cannot read. Use "
      .. "the same version of runnel in both"):format(version, wire.VERSION), "version " .. version)
  else
    self:tell(("a message from a worker makes no sense: %q"):format(data:sub(1, 60)), "nonsense")
  end
end

---Ends the remote stage. Jobs without a result are dropped: each call that waits for one raises the error.
---@param reason? any by default that it is closed
function Remote:close(reason)
  sign.own(self, "remote", "close")
  if self.reason ~= nil then return end
  self.reason = reason == nil and "the remote stage is closed" or reason
  local err = ("remote %s: %s"):format(self.name, keepers.error_text(self.reason))
  for _, job in ipairs(self:jobs_where(function() return true end)) do
    if self.jobs[job.key] then
      self:drop(job)
      tell_caller(job, { n = 0, failed = true, err = err })
    end
  end
  if self.ticking then core.cancel(self.ticker) end
  for _, forget in ipairs(self.listeners) do forget() end
  self.inbox:close()
end

---Makes a remote stage. Its arguments have been checked.
---@param conn runnel.nats.Connection
---@param name string
---@param stream runnel.JobStream
---@param opts { encoding: string, starts: integer, tries: integer, retry: number, traceback: boolean,
---has_letters: boolean }
---@return runnel.Remote
local function new(conn, name, stream, opts)
  local base, terms = conn:inbox(), {}
  for _, is_async in ipairs { false, true } do
    terms[is_async] = {}
    for _, again in ipairs { false, true } do
      terms[is_async][again] = wire.terms {
        is_async = is_async, again = again, has_letters = opts.has_letters, starts = opts.starts, tries = opts.tries,
        retry = opts.retry,
      }
    end
  end
  local self = setmetatable({
    name = name, conn = conn, encoding = opts.encoding, traceback = opts.traceback, terms = terms,
    base = base, reply = base .. ".r", subjects = ("%s.%s."):format(names.jobs(name), base:match "[^.]*$"),
    stream = stream, jobs = {}, last = 0, ticking = false, looks_at = 0, repairing = false, told = {}, reason = nil,
    acks = acks.memory(now()), asks_at = 0, old = {}, removals = {}, removed = {}, removers = 0,
  }, Remote)
  self.inbox = conn:subscribe(base .. ".>", nil, function(data, answer, _, ...)
    if answer and data == "{}" then return conn.core:publish(answer, "") end -- a worker asks whether it is there
    self:receive(data, ...)
  end)
  watch(self)
  return self
end

return { new = new }
