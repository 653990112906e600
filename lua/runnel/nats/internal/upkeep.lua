---Keeps the jobs of a remote stage (runnel.nats.remote) in their stream until they have results: sends them again,
---makes the stream if it is missing, and removes ended jobs. Methods of remote stages.

local io = io
local core = require "runnel.core"
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"
local patience = require "runnel.nats.internal.patience"

local clock, now, sleep = os.clock, core.now, core.sleep

local upkeep = {}

-- After this many failed attempts to make the stream, reports it. A cluster that has lost a server needs some time.
local PATIENCE <const> = 3

-- Up to FEW due jobs are sent again at once. For more, the stream is first asked which jobs it has, since most slow
-- jobs are not lost, and would be sent twice. After an answer that took t, the next question waits REST * t, and the
-- same holds for looks at all jobs: a long backlog costs less than the work on it.
local FEW <const>, REST <const> = 64, 20

-- A server that has just started may not answer yet. After this many questions, ended jobs stay in the stream.
local TIDY_TIMES <const> = 30

-- How many messages are removed at a time, and how many old jobs are checked in turn.
local REMOVERS <const>, OLD <const> = 16, 16

---@class runnel.Remote
local Remote = {}
upkeep.methods = Remote

-- ---- sending again ----

---The jobs that satisfy a condition, in their order.
---@param condition fun(job: runnel.Job): boolean
---@return runnel.Job[]
function Remote:jobs_where(condition)
  local list, by_number = {}, {}
  for _, job in pairs(self.jobs) do
    if condition(job) then list[#list + 1], by_number[job.number] = job.number, job end
  end
  table.sort(list) -- without a function, since there may be many
  for i, number in ipairs(list) do list[i] = by_number[number] end
  return list
end

-- The due jobs, to be sent again unless the stream has them.
local function due(self)
  local time = now()
  return self:jobs_where(function(job) return job.again_at <= time end)
end

local function send_again(self, job)
  job.again_at = now() + patience.job_unanswered
  self:send(job, true)
end

-- Asks the stream which jobs it has, and sends due jobs again that it lacks. Calls `ended(key, subject)` for each ended
-- job that it still has. Returns false if the server does not answer. Parks.
local function compare(self, ended)
  local prefix, asked_at = self.subjects, now()
  local found = self.stream:subjects(prefix .. ">")
  self.asks_at = now() + math.min(REST * (now() - asked_at), patience.jobs_question)
  if not found or self.reason ~= nil then return false end
  for _, job in ipairs(due(self)) do
    if found[prefix .. job.key] then self:has_stored(job) else send_again(self, job) end
  end
  if not ended then return true end
  for subject in pairs(found) do
    local key = subject:sub(#prefix + 1)
    if not self.jobs[key] then ended(key, subject) end
  end
  return true
end

-- Sends due jobs again, unless there are too many; returns whether it did.
local function send_few(self)
  local jobs = due(self)
  if #jobs > FEW then return false end
  for _, job in ipairs(jobs) do send_again(self, job) end
  return true
end

-- Sends due jobs again periodically while there are jobs.
local function look(self)
  local rest = 0
  while self.reason == nil do
    sleep(math.max(patience.jobs_look, rest))
    local began = clock()
    local sent = send_few(self)
    rest = REST * 1000 * (clock() - began)
    if not sent and now() >= self.asks_at then compare(self) end
    if next(self.jobs) == nil then break end
  end
  self.ticking = false
end

---Starts that loop.
function Remote:tick()
  self.ticking = true
  self.ticker = guard.go(function() self.ticking = false end, nil, look, self)
  guard.started(self.ticker, "remote " .. self.name)
end

-- A killed server may have ended jobs again: acknowledges them again, and removes those that are still there after a
-- while.
local function tidy(self)
  local tidied = {}
  local function acknowledge(key, subject)
    tidied[subject] = true
    local ack = self.acks:of(key)
    if ack then self.conn.core:publish(ack, "+ACK") end
  end
  local function remove(_, subject)
    if tidied[subject] then self:remove(subject) end
  end
  local times = 0
  repeat
    if times > 0 then sleep(patience.stream_again) end
    times = times + 1
  until compare(self, acknowledge) or times == TIDY_TIMES or self.reason ~= nil
  if next(tidied) == nil then return end
  sleep(patience.stream_again)
  compare(self, remove)
end

---Called after a reconnect, or when the stream was made again: sends all jobs again that the stream lacks, and removes
---ended ones; restarts if it is already running.
function Remote:send_all()
  for _, job in pairs(self.jobs) do job.again_at, job.again_after = 0, nil end
  send_few(self)
  if self.tidying then core.cancel(self.tidying, "the connection was lost again") end
  self.tidying = guard.started(guard.go(guard.nothing, nil, tidy, self), "remote " .. self.name)
end

-- ---- removing ----

local function remove_all(self)
  local list = self.removals
  while #list > 0 do
    local subject = table.remove(list)
    local removed_it = self.removed[subject]
    self.removed[subject] = nil
    self.stream:remove(subject)
    if removed_it then removed_it() end
  end
end

-- A removing go block has ended, or died.
local function removed(self) self.removers = self.removers - 1 end

---Removes the message of a job from the stream, soon.
---@param subject string
---@param f? fun() called afterwards; must not park
function Remote:remove(subject, f)
  self.removals[#self.removals + 1], self.removed[subject] = subject, f
  if self.removers == REMOVERS then return end
  self.removers = self.removers + 1
  guard.started(guard.go(removed, self, function()
    remove_all(self)
    removed(self)
  end), "remote " .. self.name)
end

-- ---- the stream's answers ----

-- Makes a missing stream again.
local function repair(self)
  local failures = 0
  while self.reason == nil do
    local ok, why = self.stream:make()
    if ok then return self:send_all() end
    failures = failures + 1
    if failures == PATIENCE then self:tell("its stream does not accept jobs for now: " .. tostring(why)) end
    sleep(patience.stream_again)
  end
end

local function repaired(self) self.repairing = false end

-- A job has had no result for patience.jobs_idle. If the stage has no worker, says so, once: the program may wait for
-- workers on purpose, so it is not an error.
local function look_for_workers(self)
  local why = self.stream:why_idle()
  if why and self.reason == nil and not self.told.workers then
    self.told.workers = true
    local text = ("remote %s: jobs that wait: %d; %s"):format(self.name, self:stats().waiting, why)
    if current.world then return current.world:tell { what = text } end
    io.stderr:write("runnel: ", text, "\n")
  end
end

-- If the stream will not deliver a job that it has, replaces the message. The new one is checked when it is stored: a
-- stream that has lost the numbers of its last messages will not deliver the next ones, either, which get these.
local function look_after(self, job)
  job.is_replaced = self.stream:is_stuck(self:subject(job))
  if not job.is_replaced then return end
  self.stream:remove(self:subject(job))
  if self.jobs[job.key] == job then self:send(job, true) end
end

local function not_looking(self) self.old = {} end

local function look_after_old(self)
  local list = self.old
  while list[1] do
    look_after(self, list[1])
    table.remove(list, 1)
  end
end

-- Checks a job soon, unless there are many: then those are checked that were first, since the stream delivers in order.
local function check(self, job)
  if #self.old == OLD then return end
  self.old[#self.old + 1] = job
  if #self.old > 1 then return end
  guard.started(guard.go(not_looking, self, look_after_old, self), "remote " .. self.name)
end

---The stream has a job that was sent some time ago and has no result.
---@param job runnel.Job
function Remote:has_stored(job)
  local after = job.again_after or patience.job_stored
  job.again_at, job.again_after = now() + after, math.min(after * 2, patience.job_most)
  if not self.told.workers and now() - job.since >= patience.jobs_idle and now() >= self.looks_at then
    self.looks_at = now() + patience.jobs_idle
    guard.started(guard.go(guard.nothing, nil, look_for_workers, self), "remote " .. self.name)
  end
  if job.again_after > 4 * patience.job_stored then check(self, job) end
end

---The stream's answer to a job that was sent again: usually that it has the job.
function Remote:stored(data, subject, status)
  local key = subject:match "%d+$"
  local job = key and self.jobs[key]
  local has_it = data:find('"err_code":10077', 1, true) ~= nil
  local is_refused = not has_it and data:find('"error"', 1, true) ~= nil
  if has_it then
    if job then self:has_stored(job) end
  elseif status then
    if self.repairing then return end
    self.repairing = true
    guard.started(guard.go(repaired, self, function()
      repair(self)
      sleep(patience.stream_again)
      self.repairing = false
    end), "remote " .. self.name)
  elseif job and is_refused then -- it is sent again after patience.job_unanswered
    if now() - job.since < patience.jobs_idle then return end
    self:tell("its stream does not accept jobs for now: " .. (data:match '"description":"([^"]*)"' or data))
  elseif job then
    -- As if it were sent for the first time. A worker may drop it at once: the submitter was away when it was probed.
    job.was_lost, job.again_at, job.again_after = true, now() + patience.job_again, nil
    if job.is_replaced then check(self, job) end
  elseif key and not is_refused then -- it was on its way when the job ended
    self:withdraw(key)
  end
end

return upkeep
