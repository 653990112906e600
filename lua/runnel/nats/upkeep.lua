---Keeps the jobs of a remote stage (runnel.nats.remote) in their stream until they have results: sends them again,
---makes the stream if it is missing, and removes jobs that have ended. These are methods of remote stages.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local now, sleep = core.now, core.sleep

local upkeep = {}

---A job without a result is sent again after FIRST_AGAIN ms, since it may be lost: for example, a server of a cluster
---that is stopped loses what is on its way to the streams that it leads. If the stream answers that it has the job, the
---next time is THEN_AGAIN ms later, then twice that, and so on up to MOST_AGAIN. Without an answer it is after
---WITHOUT_ANSWER ms.
upkeep.FIRST_AGAIN, upkeep.THEN_AGAIN = 750, 4250
local THEN_AGAIN <const>, MOST_AGAIN <const>, WITHOUT_ANSWER <const> = upkeep.THEN_AGAIN, 40000, 1000

-- How often to look for jobs to send again, in ms; and how many are sent then, at most. Most jobs that take long are
-- not lost, and would be sent twice: so only some are sent, and GROWTH times as many the next time if one was lost.
local OFTEN <const>, AT_ONCE <const>, GROWTH <const> = 250, 64, 8

-- After how many ms without a result to say why nobody works on a job.
local IDLE <const> = 5000

-- After this many failed attempts to make the stream, report it. A cluster that has lost a server needs some time.
local PATIENCE <const> = 3

---How long to wait before sending or making again what could not be sent or made, in ms.
upkeep.LOOK = 1000
local LOOK <const> = upkeep.LOOK

-- A server that has just started may not answer yet. After this many questions, leave ended jobs in the stream.
local TIDY_TIMES <const> = 30

---@class runnel.Remote
local Remote = {}
upkeep.methods = Remote

-- ---- sending again ----

---The jobs that satisfy a condition, in their order.
---@param condition fun(job: runnel.Job): boolean
---@param most? integer how many at most
---@return runnel.Job[]
function Remote:jobs_where(condition, most)
  local list = {}
  for _, job in pairs(self.jobs) do
    if #list == most then break end
    if condition(job) then list[#list + 1] = job end
  end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list
end

local function send_due(self, time, most)
  for _, job in ipairs(self:jobs_where(function(job) return job.again_at <= time end, most)) do
    job.again_at = time + WITHOUT_ANSWER
    self:send(job, true)
  end
end

-- Looks for jobs to be sent again as long as there are jobs.
local function look(self)
  local most = AT_ONCE
  while self.reason == nil do
    sleep(OFTEN)
    most, self.some_were_lost = self.some_were_lost and most * GROWTH or AT_ONCE, false
    send_due(self, now(), most)
    if next(self.jobs) == nil then break end
  end
  self.ticking = false
end

---Starts to look.
function Remote:tick()
  self.ticking = true
  self.ticker = guard.go(function() self.ticking = false end, nil, look, self)
  guard.started(self.ticker, "remote " .. self.name)
end

---Sends all jobs again.
function Remote:send_all()
  for _, job in pairs(self.jobs) do job.again_at, job.again_after = 0, THEN_AGAIN end
  send_due(self, now())
end

-- Removes jobs that have ended but are in the stream again because the server was killed.
local function tidy(self)
  local prefix = self.subjects
  for _ = 1, TIDY_TIMES do
    sleep(LOOK)
    local found = self.stream:subjects(prefix .. ">")
    for subject in pairs(found or {}) do
      if self.reason ~= nil then return end
      if not self.jobs[subject:sub(#prefix + 1)] then self.stream:remove(subject) end
    end
    if found or self.reason ~= nil then return end
  end
end

---Starts to tidy, from the beginning if it does so already.
function Remote:start_tidying()
  if self.tidying then core.cancel(self.tidying, "the connection was lost again") end
  self.tidying = guard.started(guard.go(guard.nothing, nil, tidy, self), "remote " .. self.name)
end

-- ---- the stream's answers ----

-- The stream is missing: makes it again.
local function repair(self)
  local failures = 0
  while self.reason == nil do
    local ok, why = self.stream:make()
    if ok then return self:send_all() end
    failures = failures + 1
    if failures == PATIENCE then self:tell("its stream does not accept jobs for now: " .. tostring(why)) end
    sleep(LOOK)
  end
end

local function repaired(self) self.repairing = false end

-- A job has had no result for IDLE ms or more. If nobody works on the stage, says so, once: the program may wait for
-- workers on purpose, so it is not an error.
local function look_for_workers(self)
  local why = self.stream:why_idle()
  if why and self.reason == nil and not self.told.workers then
    self.told.workers = true
    io.stderr:write(("runnel: remote %s: jobs that wait: %d; %s\n"):format(self.name, self:stats().waiting, why))
  end
end

-- The stream has had a job for a long time. If it will not deliver it any more, replaces the message.
local function look_after(self, job)
  if not self.stream:is_stuck(self:subject(job)) then return end
  self.stream:remove(self:subject(job))
  if self.jobs[job.key] == job then self:send(job, true) end
end

---The stream's answer to a job that was sent again: usually that it has the job.
function Remote:stored(data, subject, status)
  local job = self.jobs[subject:match "%d+$" or ""]
  local has_it = data:find('"err_code":10077', 1, true) ~= nil
  local is_refused = not has_it and data:find('"error"', 1, true) ~= nil
  if job and not status and not is_refused then
    if not has_it then self.some_were_lost = true end
    job.again_at = now() + job.again_after
    job.again_after = math.min(job.again_after * 2, MOST_AGAIN)
  end
  if job and has_it then
    if not self.told.workers and now() - job.since >= IDLE and now() >= self.looks_at then
      self.looks_at = now() + IDLE
      guard.started(guard.go(guard.nothing, nil, look_for_workers, self), "remote " .. self.name)
    end
    if job.again_after > 4 * THEN_AGAIN then
      guard.started(guard.go(guard.nothing, nil, look_after, self, job), "remote " .. self.name)
    end
  elseif status then
    if self.repairing then return end
    self.repairing = true
    guard.started(guard.go(repaired, self, function()
      repair(self)
      sleep(LOOK)
      self.repairing = false
    end), "remote " .. self.name)
  elseif job and is_refused and now() - job.since >= IDLE then -- it is sent again after WITHOUT_ANSWER ms
    self:tell("its stream does not accept jobs for now: " .. (data:match '"description":"([^"]*)"' or data))
  end
end

return upkeep
