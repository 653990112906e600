---The task of a remote stage's worker: calls the function with the value of a job, and sends the results to its
---submitter (runnel.nats.remote). The submitter acknowledges the job when it has them. If they are lost on the way, the
---server delivers the job again.

local jobs = require "runnel.queue.jobs"
local lib = require "runnel.nats.internal.lib"
local names = require "runnel.nats.internal.names"
local patience = require "runnel.queue.patience"
local stream_message = require "runnel.nats.stream_message"
local submitters = require "runnel.nats.internal.submitters"
local values = require "runnel.queue.encodings"
local wire = require "runnel.nats.internal.wire"

local answer, final_subject = stream_message.answer, stream_message.final_subject

---@class runnel.nats.JobTask: runnel.queue.JobTask
---@field private conn runnel.nats.Connection
---@field private submitters runnel.Submitters
---@field private cancellations runnel.Channel<any> of the subscription to them
local Task = {}

-- Room for the first line of a message, in bytes.
local HEAD <const> = 400

-- ---- reading ----

-- Refuses a job that only a worker of another version can run, and leaves it to other workers.
local function refuse(self, message, version, reply)
  local worker = self.worker
  if version == wire.VERSION then
    worker:tell("a job has an encoding that this worker does not know; it is left to other workers", "encoding")
  else
    worker:tell(("a job has version %s of the protocol, this worker version %s; it is left to other workers. Use the "
      .. "same version of runnel in the workers and in the programs with conn:remote")
      :format(version, wire.VERSION), "version " .. version)
  end
  if reply then self.conn.core:publish(reply, wire.refusal(version, "0", self.label)) end
  message:nak(patience.given_back)
end

-- Whether the worker already has the job from a message that the stream has lost since; one answer covers both.
local function runs_already(self, job, message)
  for _, other in pairs(self.worker.held) do
    if other.number == job.number and other.reply == job.reply then return other.message:delivered_again(message) end
  end
  return false
end

function Task:read(message)
  local job, version, reply, problem = wire.parse_job(message.data)
  if problem then
    self.worker:tell("a message in its stream was removed: " .. problem, problem)
    answer(message, "+TERM")
  elseif not job then
    refuse(self, message, version, reply)
  else
    local how = job.limits.again and "sent again" or message.again == "again" and "delivered again" or nil
    if self.submitters:has_gone(job.reply, how, job.limits.answers) then
      answer(message, "+ACK")
      return nil
    end
    if how == "sent again" then
      if runs_already(self, job, message) then return nil end
      -- It may have been started before its message was lost.
      if message.again == "first" then message.again = "perhaps" end
    end
    return job
  end
end

function Task:is_wanted(job) return not self.submitters:is_gone(job.reply) end

-- Cancels a job whose submitter does not wait for it any more.
local function cancel(self, data)
  local reply, number = wire.parse_cancel(data)
  if not reply or not self.worker then return end -- the worker has no jobs before it has started
  self.worker:cancel(function(job) return job.number == number and job.reply == reply end, "the job was cancelled")
end

-- ---- calling ----

function Task:value_of(job) return values.encodings[job.encoding].decode(job.bytes) end -- luacheck: no self

function Task:letter_of(job) -- luacheck: no self
  return { encoding = job.encoding, data = job.bytes, id = job.reply .. "." .. job.number }
end

-- ---- results ----

-- The message to the submitter with an outcome; nil and the reason if a result cannot be sent.
local function result_of(self, job, outcome)
  local room = self.conn.max_payload
  local bytes, why = wire.result(job, final_subject(job.message), outcome)
  if not bytes then return nil, ("serve %s: %s"):format(self.name, why) end
  if #bytes <= room then return bytes end
  return nil, ("serve %s: a result of %d bytes is too large: the server takes up to %d"):format(self.name, #bytes, room)
end

-- Sends an outcome. The submitter answers the message.
local function send(self, job, bytes)
  self.conn.core:publish(job.reply, bytes)
  answer(job.message)
end

function Task:done(job, outcome)
  local bytes, why = result_of(self, job, outcome)
  if not bytes then return nil, why end
  send(self, job, bytes)
  return true
end

local function failure_of(self, job, outcome)
  local bytes, why = result_of(self, job, outcome)
  if bytes then return bytes end
  why = why:sub(1, self.conn.max_payload - HEAD)
  return (result_of(self, job, { n = 0, failed = true, err = why }))
end

function Task:last_words(job, late)
  if job.limits.tries > 1 then return nil end
  return { subject = job.reply, bytes = failure_of(self, job, { n = 0, failed = true, err = late }) }
end

function Task:send_failure(job, outcome) send(self, job, failure_of(self, job, outcome)) end

-- ---- the end ----

function Task:close()
  self.submitters:close()
  if self.cancellations then self.cancellations:close() end
end

local serve, class = {}, jobs.class(Task)

---@param conn runnel.nats.Connection
---@param name string
---@param f function
---@return runnel.nats.JobTask
function serve.task(conn, name, f)
  local self = setmetatable({
    conn = conn, name = name, f = f, label = lib.label(), submitters = submitters.new(conn),
  }, class)
  self.cancellations = conn:subscribe(names.cancel(name), nil, function(data) cancel(self, data) end)
  return self
end

return serve
