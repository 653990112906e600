---Workers: they run the jobs of a remote stage (runnel.nats.remote).
---
---A job that is delivered for the first time starts as soon as fewer than n run. A redelivered job is a suspect: it may
---have killed a worker. Suspects run one at a time, and the worker asks the submitter before it starts one. While the
---worker has a job, waiting or running, a thread reports progress to the server; without that the server soon
---redelivers the job to another worker.

local cancellations = require "runnel.nats.cancellations"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local jobs = require "runnel.nats.job"
local names = require "runnel.nats.names"
local pull = require "runnel.nats.pull"
local questions = require "runnel.nats.questions"
local wire = require "runnel.nats.wire"

local internal = core.internal
local chan, alts = core.chan, core.alts
local take = internal.moving.take
local find = string.find
local go = guard.go

-- A job whose submitter has not answered goes back to the server, which redelivers it after BACK ms.
local BACK <const> = 5000

-- Room for the first line of a message, in bytes.
local HEAD <const> = 400

---A job that a worker has.
---@class runnel.Delivery
---@field ack string the subject for its acknowledgement
---@field job runnel.JobMessage
---@field block runnel.Channel<any>|false the go block that runs it
---@field beat any of the engine, while it says that the job goes on
---@field cancelled? boolean its submitter does not want it any more
---@field returned? boolean it goes back to the server

---A worker.
---@class runnel.Worker
---@field name string
---@field n integer
---@field private f function
---@field private engine runnel.Engine
---@field private ack_wait number ms after which the server gives a job to another worker
---@field private beats number ms between two messages that a job goes on
---@field private label string identifies the worker in errors
---@field private pulls runnel.Pulls
---@field private held table<string, runnel.Delivery> all jobs that it has, by the subject for the acknowledgement
---@field private first_ack string what the subject for the acknowledgement begins with, at the first delivery
---@field private fresh runnel.Delivery[] those that wait to be started
---@field private suspects runnel.Delivery[] those that were delivered before, and wait
---@field private running integer
---@field private suspect_runs boolean
---@field private quiet boolean no job is started, because one is to run alone
---@field private asking runnel.Delivery? the job about which the submitter is asked
---@field private told table<string, boolean> reports that were made already
---@field private cancellations runnel.Channel<any> of the subscription to them
---@field private early runnel.Cancellations those whose jobs it does not have
---@field private events runnel.Channel<{ event: string }> of the connection
---@field private ended_chan runnel.Channel<any> closes when it has ended
---@field private drained runnel.Channel<any>? closes when no job runs; drain waits for that
---@field private open boolean it asks for jobs
---@field private over boolean it has ended
---@field private counts table<string, integer>
---@field private idle runnel.Channel<any>? a job waits here until at most `idle_at` jobs run
---@field private idle_at integer
---@field private questions runnel.Questions
local Worker = {}
Worker.__index = Worker
Worker.__name = "worker"

-- ---- what runs ----

-- Answers the delivery of a job, which the worker then does not have any more.
function Worker:answer(d, text)
  self.engine:unbeat(d.beat)
  self.held[d.ack] = nil
  self.engine:publish(d.ack, text)
end

-- Gives a job back to the server, for another worker, at once or after some ms.
function Worker:give_back(d, ms) self:answer(d, ms and ('-NAK {"delay":%d}'):format(ms * 1000000) or "-NAK") end

-- Acknowledges a job that need not run any more.
function Worker:acknowledge(d) self:answer(d, "+ACK") end

-- The worker's name, and the traceback as far as it is the program's.
function Worker:traceback(trace)
  if not trace then return nil end
  return ("[worker %s]\n%s"):format(self.label, trace)
end

function Worker:send(d, outcome)
  local job, room = d.job, self.engine.max_payload
  if outcome.traceback then outcome.traceback = self:traceback(outcome.traceback) end
  local message, why = wire.result(job, d.ack, outcome)
  if message and #message > room then
    why = ("serve %s: a result of %d bytes is too large: the server takes up to %d"):format(self.name, #message, room)
  elseif not message then
    why = ("serve %s: %s"):format(self.name, why)
  end
  if why then message = wire.result(job, d.ack, jobs.failed(why:sub(1, room - HEAD))) end
  self.engine:publish(job.reply, message)
end

-- A job has ended: wakes run_suspect and drain, if they wait for that.
function Worker:one_less()
  self.running = self.running - 1
  if self.idle and self.running <= self.idle_at then self.idle:close() end
  if self.drained and self.running == 0 then self.drained:close() end
end

-- A job has ended, with an outcome or, if its go block has died, without.
function Worker:ended(d, outcome)
  if not self.held[d.ack] then return end
  if d.returned then
    self:give_back(d)
  elseif d.cancelled then
    self:acknowledge(d)
  else
    self.counts.done = self.counts.done + 1
    if outcome.failed then self.counts.failed = self.counts.failed + 1 end
    self:send(d, outcome)
    self.engine:unbeat(d.beat)
    self.held[d.ack] = nil
  end
  self:one_less()
end

local function run(self, d) self:ended(d, jobs.run(self.f, d.job)) end

-- The go block of a job has died, for example because its function has called coroutine.yield.
local function run_died(d, why, block)
  jobs.excuse(block, why)
  d.worker:ended(d, jobs.failed(why == nil and "a job's go block died without an error" or why))
  d.worker:pump()
end

local function run_fresh(self, d)
  run(self, d)
  self:pump()
end

-- ---- suspects ----

-- Waits until at most so many jobs run.
function Worker:wait_until_running(at_most)
  if self.running <= at_most then return end
  self.idle, self.idle_at = chan(), at_most
  take(self.idle)
  self.idle = nil
end

local function run_suspect(self, d)
  self.asking = d
  local answer = self.questions:ask(d.job, d.ack)
  self.asking = nil
  if d.cancelled or answer == "done" or not answer then
    if answer == "done" or d.cancelled then self:acknowledge(d) else self:give_back(d, BACK) end
    self:one_less()
  else
    self.counts.redelivered = self.counts.redelivered + 1
    if answer == "alone" then
      self.quiet = true
      self:wait_until_running(1)
    end
    run(self, d)
  end
  self.quiet, self.suspect_runs = false, false
  self:pump()
end

local function suspect_died(d, why, block)
  local self = d.worker
  self.quiet, self.suspect_runs, self.asking = false, false, nil
  run_died(d, why, block)
end

-- ---- what is next ----

local function start(self, d, f, died)
  self.running = self.running + 1
  d.block = go(died, d, f, self, d)
end

-- Starts what can start, and asks for more.
function Worker:pump()
  if self.over then return end
  local suspects, fresh = self.suspects, self.fresh
  if suspects[1] and not self.suspect_runs and self.running < self.n then
    self.suspect_runs = true
    start(self, table.remove(suspects, 1), run_suspect, suspect_died)
  end
  while fresh[1] and not self.quiet and self.running < self.n do
    start(self, table.remove(fresh, 1), run_fresh, run_died)
  end
  if self.open and not self.quiet then self.pulls:ask(self.n, self.n - self.running - #fresh - #suspects) end
end

-- ---- what comes ----

-- Reports what is wrong, once for each key.
function Worker:tell(message, key)
  if self.told[key] then return end
  self.told[key] = true
  internal.report(("serve %s: %s"):format(self.name, message), nil, "serve " .. self.name)
end

-- The job is for a worker of another version.
function Worker:leave(d, version, reply)
  if reply then self.engine:publish(reply, wire.line("-", "refused", 0, wire.VERSION, self.label)) end
  if version == wire.VERSION then
    self:tell("a job has an encoding that this worker does not know; it is left to other workers", "encoding")
  else
    self:tell(("a job has version %s of the protocol, this worker version %s; it is left to other workers")
      :format(version, wire.VERSION), "version " .. version)
  end
  self:give_back(d, BACK)
end

-- A job has come.
function Worker:deliver(data, ack, age)
  if self.held[ack] then return end
  if age > self.ack_wait then return self:pump() end -- Lua was busy too long: the server redelivers it elsewhere
  local job, version, reply, problem = wire.parse_job(data)
  local d = { worker = self, ack = ack, job = job, block = false, beat = false }
  self.held[ack] = d
  if problem then
    self:tell("a message in its stream was removed: " .. problem, problem)
    self:answer(d, "+TERM")
  elseif not job then
    self:leave(d, version, reply)
  elseif not self.open then
    self:give_back(d)
  elseif not self.early.is_empty and self.early:has(job) then
    self:acknowledge(d)
  else
    if age > self.beats then self.engine:publish(ack, "+WPI") end
    d.beat = self.engine:beat(ack, "+WPI", self.beats)
    local is_first = find(ack, self.first_ack, 1, true) == 1
    local is_suspect = job.again or not is_first and wire.deliveries(ack) > 1
    local queue = is_suspect and self.suspects or self.fresh
    queue[#queue + 1] = d
  end
  self:pump()
end

-- Takes a job out of a queue; false if it is not in it.
local function remove(queue, d)
  for i = 1, #queue do
    if queue[i] == d then
      table.remove(queue, i)
      return true
    end
  end
  return false
end

function Worker:cancel(data)
  local words = wire.parse(data)
  local reply, number = words and words[4], words and words[5]
  if not number or words[3] ~= "cancel" then return end
  local found = {}
  for _, d in pairs(self.held) do
    if d.job and d.job.number == number and d.job.reply == reply then found[#found + 1] = d end
  end
  if #found == 0 then self.early:add(reply, number) end
  for _, d in ipairs(found) do
    if not d.cancelled then
      d.cancelled = true
      if d.block then core.cancel(d.block, "the job was cancelled")
      elseif remove(self.fresh, d) or remove(self.suspects, d) then self:acknowledge(d) end
    end
  end
end

local function watch(self, events)
  while not self.over do
    local event, port = alts({ events, core.timeout(pull.HEARTBEAT) }, { priority = true })
    if port == events and not event then return self:stop() end
    if event and event.event == "reconnected" then self.pulls:forget() else self.pulls:look_after() end
  end
end

-- ---- the handle ----

---Waits until the worker has ended: by `stop`, `drain`, SIGTERM, or with the connection.
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
  self.cancellations:close()
  for _, d in pairs(self.held) do self.engine:unbeat(d.beat) end
  self.ended_chan:close()
end

-- Takes no more jobs, and gives back those that have not started.
local function refuse_more(self)
  self.open = false
  for _, queue in ipairs { self.fresh, self.suspects } do
    while #queue > 0 do self:give_back(table.remove(queue, 1)) end
  end
  local d = self.asking
  if d then
    d.returned = true
    core.cancel(d.block, "the worker drains")
  end
end

---Takes no more jobs, and waits until those that run have ended, for at most `ms`. Then it stops the worker.
---@param ms? number no limit by default
---@return boolean done whether all have ended
function Worker:drain(ms)
  if self.over then return true end
  refuse_more(self)
  local done = true
  if self.running > 0 then
    self.drained = self.drained or chan()
    local _, port = alts { self.drained, ms and core.timeout(ms) or nil }
    done = port == self.drained
  end
  self:stop()
  return done
end

---Ends the worker. Cancels the jobs that run; the server redelivers them to other workers.
function Worker:stop()
  if self.over then return end
  refuse_more(self)
  for _, d in pairs(self.held) do
    d.returned = true
    if d.block then core.cancel(d.block, "the worker was stopped") end
    self:give_back(d)
  end
  finish(self)
end

Worker.__close = function(self) self:stop() end

function Worker:__tostring() return ("worker: %s (%d/%d)"):format(self.name, self.running, self.n) end

---Counts of jobs.
---@return { running: integer, waiting: integer, done: integer, failed: integer, redelivered: integer } stats
function Worker:stats()
  local counts = self.counts
  return {
    running = self.running, waiting = #self.fresh + #self.suspects,
    done = counts.done, failed = counts.failed, redelivered = counts.redelivered,
  }
end

---Makes a worker. Its arguments have been checked, and its stream exists.
---@param engine runnel.Engine
---@param name string
---@param n integer
---@param f function
---@param opts { ack_wait: number, label: string, repair: fun(): any, string? } `repair` makes the stream again
---@return runnel.Worker
local function new(engine, name, n, f, opts)
  local base = engine:inbox()
  local self = setmetatable({
    first_ack = ("$JS.ACK.%s.%s.1."):format(names.stream(name), names.CONSUMER), name = name, n = n, f = f,
    engine = engine, label = opts.label, held = {},
    ack_wait = opts.ack_wait, beats = opts.ack_wait / 3,
    fresh = {}, suspects = {}, running = 0, suspect_runs = false, quiet = false,
    questions = questions.new(engine, base), told = {}, early = cancellations.new(),
    open = true, over = false, ended_chan = chan(), idle_at = 0, counts = { done = 0, failed = 0, redelivered = 0 },
  }, Worker)
  self.pulls = pull.new(engine, name, {
    base = base, repair = opts.repair,
    deliver = function(data, ack, age) self:deliver(data, ack, age) end,
    refill = function() self:pump() end,
  })
  self.cancellations = engine:subscribe(names.cancel(name), function(data) self:cancel(data) end)
  self.events = engine:events()
  guard.started(guard.go(guard.nothing, nil, watch, self, self.events), "serve " .. name)
  self:pump()
  return self
end

return { new = new }
