---Workers: they run the jobs of a remote stage (runnel.nats.remote).
---
---A job starts when fewer than n run. A job that was or may have been delivered before (runnel.nats.firsts) is a
---suspect: it may have ended a worker's process. The worker asks the submitter before it starts a suspect. Suspects run
---beside other jobs, but the last two starts before the submitter gives the job up are alone in their worker. While the
---worker has a job, waiting or running, a thread reports progress to the server; otherwise the server soon redelivers
---the job to another worker.

local answers = require "runnel.nats.answers"
local arrivals = require "runnel.nats.arrivals"
local cancellations = require "runnel.nats.cancellations"
local core = require "runnel.core"
local firsts = require "runnel.nats.firsts"
local gone = require "runnel.nats.gone"
local guard = require "runnel.internal.guard"
local hand_back = require "runnel.nats.hand_back"
local jobs = require "runnel.nats.job"
local limit = require "runnel.nats.limit"
local names = require "runnel.nats.names"
local patience = require "runnel.nats.patience"
local pull = require "runnel.nats.pull"
local questions = require "runnel.nats.questions"
local running = require "runnel.nats.running"
local settling = require "runnel.nats.settling"
local values = require "runnel.nats.values"
local who = require "runnel.nats.who"
local wire = require "runnel.nats.wire"

local internal = core.internal
local chan, alts = core.chan, core.alts
local take = internal.moving.take
local go = guard.go

---A job that a worker has.
---@class runnel.Delivery
---@field worker runnel.Worker
---@field ack string the subject for its acknowledgement
---@field job runnel.JobMessage
---@field block runnel.Channel<any>|false the go block that runs it
---@field since? number when it was started
---@field beat any of the engine, while it says that the job goes on
---@field again "first"|"again"|"perhaps" whether it was delivered before
---@field is_suspect? boolean it was, or may have been
---@field asked? boolean its submitter was asked, so that it counts as started
---@field asking? boolean the answer has not come
---@field cancelled? boolean its submitter does not want it any more
---@field returned? boolean it goes back to the server
---@field has_ended? boolean its go block does not run any more

---A worker.
---@class runnel.Worker
---@field name string
---@field n integer
---@field private f function
---@field private engine runnel.Engine
---@field private ack_wait number ms after which the server gives a job to another worker
---@field private beats number ms between two messages that a job goes on
---@field private back string that message after a reconnect
---@field private settling runnel.nats.Settling after an outage
---@field private limit number? ms that a job may take
---@field private rate runnel.Rate? lets jobs start
---@field private alive runnel.Channel<any>? the go block that says that Lua runs, with a limit
---@field private label string identifies the worker in errors
---@field private pulls runnel.Pulls
---@field private held table<string, runnel.Delivery> all jobs that it has, by the subject for the acknowledgement
---@field private first_ack string what the subject for the acknowledgement begins with, at the first delivery
---@field private waiting runnel.Delivery[] jobs that have not started
---@field private running runnel.Running
---@field private is_paused boolean no job is started, because an operator has paused the stage
---@field private told table<string, boolean> reports that were made already
---@field private cancellations runnel.Channel<any> of the subscription to them
---@field private early runnel.Cancellations cancellations of jobs that it does not have
---@field private events runnel.Channel<{ event: string }> of the connection
---@field private ended_chan runnel.Channel<any> closes when it has ended
---@field private open boolean it asks for jobs
---@field private over boolean it has ended
---@field private counts table<string, integer>
---@field private questions runnel.Questions
---@field private firsts runnel.Firsts
---@field private gone runnel.Gone
local Worker = {}
Worker.__index = Worker
Worker.__name = "worker"
for _, part in ipairs { answers.methods, arrivals.methods } do
  for name, method in pairs(part) do Worker[name] = method end
end

-- ---- what runs ----

-- The go block of a job has ended, with an outcome, or without one if the job has not run.
function Worker:ended(d, outcome)
  if d.has_ended then return end
  d.has_ended = true
  local why = outcome and outcome.failed and hand_back.reason(outcome.err)
  if self.held[d.ack] then -- not answered before
    if d.returned then
      self:give_back(d)
    elseif d.cancelled then
      self:acknowledge(d)
    elseif why then
      self:tell("a job was handed back: " .. why, why)
      self:give_back(d, patience.given_back)
    else
      self:finish(d, outcome)
    end
  end
  if self.running.lone == d then self.running.lone = nil end
  self.running:leave()
  self:pump()
end

-- Asks the submitter whether a suspect may start: "run", "alone" (only without other jobs), "done" or nil.
local function ask(self, d, is_alone)
  d.asked, d.asking = true, true
  local answer = self.questions:ask(d.job, d.ack, self.label, is_alone, d.again)
  d.asking, d.asked = false, answer == "run"
  return answer
end

-- Asks whether a suspect may start, and waits until it can. Returns false if not; the job is then answered.
local function may_start(self, d)
  local answer = ask(self, d, self.n == 1)
  if answer == "alone" then
    if self.running.lone then
      self:give_back(d, patience.alone_again)
      return false
    end
    self.running.lone = d
    self:give_back_waiting()
    self.running:wait(1)
    answer = ask(self, d, true)
  end
  if answer == "run" then
    self.counts.redelivered = self.counts.redelivered + 1
    return true
  end
  if answer == "done" then self:acknowledge(d) else self:give_back(d, patience.given_back) end
  return false
end

-- Starts the job's time limit of `limit` ms. If Lua does not run any more at its end, the engine sends the error to the
-- submitter, and ends the process.
local function set_limit(self, d)
  local late = limit.text("serve " .. self.name, self.limit)
  self.engine:limit(d.beat, self.limit, limit.text("runnel: serve " .. self.name, self.limit),
    d.job.reply, self:result(d, jobs.failed(late)))
  return late
end

local function run(self, d)
  if d.is_suspect and not may_start(self, d) then return self:ended(d) end
  if self.rate then self.rate:wait() end
  if not self.limit then return self:ended(d, jobs.run(self.f, d.job)) end
  self:ended(d, jobs.run(self.f, d.job, self.limit, set_limit(self, d)))
end

-- The go block of a job has died, for example because its function has called coroutine.yield.
local function run_died(d, why, block)
  jobs.excuse(block, why)
  d.worker:ended(d, jobs.failed(why == nil and "a job's go block died without an error" or why))
end

-- Starts waiting jobs, and fetches more.
function Worker:pump()
  if self.over or self.is_paused then return end
  while self.waiting[1] and not self.running.lone and self.running.count < self.n do
    local d = table.remove(self.waiting, 1)
    self.running:enter()
    d.since = core.now()
    d.block = go(run_died, d, run, self, d)
  end
  if self.open and not self.running.lone and self.settling:may_ask() then
    self.pulls:ask(self.n, self.n - self.running.count - #self.waiting)
  end
end

local function watch(self, events)
  local wait = self.settling
  while not self.over do
    local event, port = alts({ events, core.timeout(wait:look_in(patience.jobs_heartbeat)) }, { priority = true })
    if port == events and not event then return self:stop() end
    if event then wait:hear(event) end
    if wait:ends() then
      self.pulls:forget()
    elseif wait:may_ask() then
      self.pulls:look_after()
    end
  end
end

-- ---- the handle ----

---Waits until the worker has ended: by `stop`, `drain`, SIGTERM, or the end of the connection.
function Worker:wait() take(self.ended_chan) end

---A channel that closes when the worker has ended.
---@return runnel.Channel<any> done
function Worker:done() return self.ended_chan end

local function finish(self)
  if self.over then return end
  self.over, self.open = true, false
  self.events:close()
  self.pulls:close()
  self.questions:close()
  self.gone:close()
  self.cancellations:close()
  if self.alive then core.cancel(self.alive) end
  for _, d in pairs(self.held) do self.engine:unbeat(d.beat) end
  self.ended_chan:close()
end

-- Takes no more jobs, and gives back waiting ones.
local function refuse_more(self)
  self.open = false
  self:give_back_waiting()
  for _, d in pairs(self.held) do
    if d.asking then
      d.returned = true
      core.cancel(d.block, "the worker drains")
    end
  end
end

---Takes no more jobs, waits for running ones for at most `ms`, and then stops the worker.
---@param ms? number no limit by default
---@return boolean done whether all have ended
function Worker:drain(ms)
  if self.over then return true end
  refuse_more(self)
  local done = self.running:wait(0, ms)
  self:stop()
  return done
end

---Ends the worker. Cancels running jobs; the server redelivers them to other workers.
function Worker:stop()
  if self.over then return end
  refuse_more(self)
  for _, d in pairs(self.held) do
    d.returned = true
    if d.block then core.cancel(d.block, "the worker was stopped") end
    if self.held[d.ack] then self:give_back(d) end
  end
  finish(self)
end

Worker.__close = function(self) self:stop() end

function Worker:__tostring() return ("worker: %s (%d/%d)"):format(self.name, self.running.count, self.n) end

---Counts of jobs.
---@return { running: integer, waiting: integer, done: integer, failed: integer, redelivered: integer } stats
function Worker:stats()
  local counts = self.counts
  return {
    running = self.running.count, waiting = #self.waiting,
    done = counts.done, failed = counts.failed, redelivered = counts.redelivered,
  }
end

---Its state, for runnel.nats.who.
---@return table
function Worker:report()
  local calls = {}
  for ack, d in pairs(self.held) do
    if d.block then
      local value = values.encodings[d.job.encoding].decode(d.job.bytes)
      calls[#calls + 1] = who.call(value, d.since, (wire.delivery(ack)))
    end
  end
  return who.report(self:stats(), self.n, self.is_paused, calls)
end

---Pauses or resumes the start of jobs. Jobs that it has wait here.
---@param is_paused boolean
function Worker:pause(is_paused)
  self.is_paused = is_paused
  self:pump()
end

---Makes a worker. Its arguments have been checked, and its stream exists.
---@param engine runnel.Engine
---@param name string
---@param n integer
---@param f function
---@param opts { ack_wait: number, label: string, repair: (fun(): any, string?), limit?: number, rate?: runnel.Rate,
---is_paused: boolean, firsts?: runnel.Firsts } `repair` makes the stream again
---@return runnel.Worker
local function new(engine, name, n, f, opts)
  local base = engine:inbox()
  local self = setmetatable({
    first_ack = ("$JS.ACK.%s.%s.1."):format(names.stream(name), names.CONSUMER), name = name, n = n, f = f,
    engine = engine, label = opts.label, held = {},
    ack_wait = opts.ack_wait, beats = opts.ack_wait / 3, back = settling.back(opts.ack_wait),
    settling = settling.new(opts.ack_wait),
    limit = opts.limit, rate = opts.rate,
    waiting = {}, running = running.new(), is_paused = opts.is_paused,
    questions = questions.new(engine, base), firsts = opts.firsts or firsts.new(), told = {},
    early = cancellations.new(), open = true, over = false, ended_chan = chan(),
    counts = { done = 0, failed = 0, redelivered = 0 },
  }, Worker)
  self.gone = gone.new(engine, base, function(reply) self:found_gone(reply) end)
  self.pulls = pull.new(engine, name, {
    base = base, repair = opts.repair,
    deliver = function(data, ack, age) self:deliver(data, ack, age) end,
    refill = function() self:pump() end,
  })
  self.cancellations = engine:subscribe(names.cancel(name), function(data) self:cancel(data) end)
  self.events = engine:events()
  guard.started(guard.go(guard.nothing, nil, watch, self, self.events), "serve " .. name)
  if self.limit then self.alive = limit.watch(engine, self.limit, "serve " .. name) end
  self:pump()
  return self
end

return { new = new }
