---Answers of a worker (runnel.nats.serve) to the deliveries of jobs: a result, or giving the job back to the server.
---Methods of workers.

local jetstream = require "runnel.nats.jetstream"
local jobs = require "runnel.nats.job"
local wire = require "runnel.nats.wire"

local answers = {}

-- Room for the first line of a message, in bytes.
local HEAD <const> = 400

---@class runnel.Worker
local Worker = {}
answers.methods = Worker

---Answers the delivery of a job and forgets the job.
function Worker:answer(d, text)
  self.engine:unbeat(d.beat)
  self.held[d.ack] = nil
  self.engine:publish(d.ack, text)
end

---Gives a job back to the server for another worker, at once or after some ms. Its submitter does not count the start.
function Worker:give_back(d, ms)
  local job = d.job
  if job and (d.asked or d.again ~= "again") then
    self.engine:publish(job.reply, wire.line("-", "returned", job.number, d.ack, d.asked and "asked" or "first"))
  end
  self:answer(d, jetstream.nak(ms))
end

---Gives back all jobs that have not started.
function Worker:give_back_waiting()
  local waiting = self.waiting
  self.waiting = {}
  for _, d in ipairs(waiting) do self:give_back(d) end
end

---Acknowledges a job that must not run any more.
function Worker:acknowledge(d) self:answer(d, "+ACK") end

---The worker's name, and the program's part of the traceback.
function Worker:traceback(trace)
  if not trace then return nil end
  return ("[worker %s]\n%s"):format(self.label, trace)
end

---The message to the submitter with the outcome of a job.
function Worker:result(d, outcome)
  local job, room = d.job, self.engine.max_payload
  if outcome.traceback then outcome.traceback = self:traceback(outcome.traceback) end
  local message, why = wire.result(job, d.ack, outcome)
  if message and #message > room then
    why = ("serve %s: a result of %d bytes is too large: the server takes up to %d"):format(self.name, #message, room)
  elseif not message then
    why = ("serve %s: %s"):format(self.name, why)
  end
  if why then return wire.result(job, d.ack, jobs.failed(why:sub(1, room - HEAD))) end
  return message
end

---Handles the outcome of a job.
function Worker:finish(d, outcome)
  self.counts.done = self.counts.done + 1
  if outcome.failed then self.counts.failed = self.counts.failed + 1 end
  self.engine:publish(d.job.reply, self:result(d, outcome))
  self.engine:unbeat(d.beat)
  self.held[d.ack] = nil
end

return answers
