---What the workers of remote stages have in common, wherever the jobs are: calling the function, and giving a job up.
---How a job is read and its outcome sent is the matter of the class.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local internal = core.internal
local chan, take = core.chan, internal.moving.take

local jobs = {}

---A job, as its task reads it.
---@class runnel.queue.Job: runnel.queue.Call
---@field limits runnel.queue.JobLimits

---@class runnel.queue.JobLimits: runnel.queue.Limits
---@field is_async boolean its function gets a channel for its results
---@field has_letters boolean it may become a dead letter

---@class runnel.queue.JobTask: runnel.queue.Task
---@field f function
---@field label string identifies the worker in errors
---@field protected value_of fun(self, job: runnel.queue.Job): any, string? the value of a job; or nil and what is wrong
---with it
---@field protected letter_of fun(self, job: runnel.queue.Job): table the fields `encoding`, `data` and `id` of its dead
---letter
---@field protected send_failure fun(self, job: runnel.queue.Job, outcome: table) sends an outcome that is an error
local Task = {}

-- Collects the values of a channel in an outcome.
local function collect(out, outcome)
  local result, err = take(out)
  while result ~= nil do
    outcome.n = outcome.n + 1
    outcome[outcome.n] = result
    result, err = take(out)
  end
  outcome.failed, outcome.err = err ~= nil, err
end

-- Called when the go block of the function has died; the submitter gets the error.
local function function_died(out, why, block)
  pcall(internal.excuse, block, why)
  guard.close(out, why)
end

-- Calls the function with a channel, and collects the values put on it until it is closed.
local function run_async(f, value)
  local out <close> = chan(1)
  local failure
  local caller = guard.go(function_died, out, function()
    local ok, err, trace = guard.try(f, value, out)
    if ok then return end
    failure = { err = err, trace = trace }
    out:close()
  end)
  local closing <close> = setmetatable({}, { __close = function() core.cancel(caller) end }) -- luacheck: ignore 211
  local outcome = { n = 0 }
  local ok, why = pcall(collect, out, outcome)
  if not ok then -- the job is cancelled, and so is the function; it may raise another error
    core.cancel(caller, why)
    pcall(internal.join, caller)
    error(failure and failure.err or why, 0)
  end
  if failure then outcome.failed, outcome.err, outcome.traceback = true, failure.err, failure.trace end
  return outcome
end

function Task:run(job)
  local value, why = self:value_of(job)
  if why ~= nil then return { n = 0, failed = true, err = "the job's value cannot be read: " .. why } end
  if job.limits.is_async then return run_async(self.f, value) end
  local result, err = self.f(value)
  return { n = result ~= nil and 1 or 0, result, err }
end

function Task:value(job) return (self:value_of(job)) end

function Task:silent(starts)
  return ("remote %s: the job was given up: its worker fell silent at each of %d starts"):format(self.name, starts)
end

-- The worker's name, and the program's part of the traceback.
local function traceback(self, trace)
  if not trace then return nil end
  return ("[worker %s]\n%s"):format(self.label, trace)
end

function Task:give_up(job, err, trace)
  local count, limits, counts = job.count, job.limits, self.worker.counts
  trace = traceback(self, trace)
  if limits.has_letters and (limits.tries > 1 or count.raises < limits.tries) then
    local letter = self:letter_of(job)
    letter.kind, letter.name, letter.is_async = "job", self.name, limits.is_async
    letter.error, letter.traceback = internal.error_text(err), trace
    letter.starts, letter.raises, letter.errors, letter.since = count.starts, count.raises, count.errors,
      job.message.time
    local ok, why = self.worker:bury(letter)
    if not ok then self.worker:tell("a dead letter cannot be stored: " .. tostring(why), "letters") end
    counts.given_up = counts.given_up + 1
  end
  counts.done = counts.done + 1
  local outcome = job.outcome or { n = 0 }
  outcome.failed, outcome.err, outcome.traceback = true, err, trace
  self:send_failure(job, outcome)
  -- Its counts stay: if the error is lost on the way, the job comes again, and is given up again.
end

---A class of tasks.
---@param methods table
---@return table class
function jobs.class(methods)
  local class = { what = "serve", unit = "job" }
  for name, method in pairs(Task) do class[name] = method end
  for name, method in pairs(methods) do class[name] = method end
  class.__index = class
  return class
end

return jobs
