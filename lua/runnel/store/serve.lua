---store:serve: workers of remote stages whose jobs are in a store (runnel.store.remote).

local consumers = require "runnel.store.consumer"
local for_now = require "runnel.store.for_now"
local job_tasks = require "runnel.queue.jobs"
local jobs = require "runnel.store.jobs"
local keepers = require "runnel.store.keeper"
local process = require "runnel.store.store_process"
local rates = require "runnel.store.rate"
local remotes = require "runnel.queue.remote"
local worker = require "runnel.queue.worker"
local raise = require("runnel.core").internal.raise

local serve = {}

-- Key of a report: outcomes cannot be stored.
local NOT_STORED <const> = "results cannot be stored for now: "

---@class runnel.store.JobTask: runnel.queue.JobTask
---@field store runnel.store.Store
local Task = {}

function Task:read(message)
  local limits, number = jobs.limits(message.headers)
  if limits then return { limits = limits, number = number, submitter = message.subject } end
  self.worker:tell "a message in its stream was removed: it is not a job"
  self.worker.keeper:drop(message)
end

function Task:is_wanted(job) return not jobs.has_gone(self.store, job.submitter) end

function Task:value_of(job) -- luacheck: no self
  local ok, value = pcall(function() return job.message.value end)
  if ok then return value end
  return nil, tostring(value)
end

function Task:letter_of(job) -- luacheck: no self
  local message = job.message
  return { encoding = message.form, data = message.data, id = ("%s.%d"):format(job.submitter, job.number) }
end

-- Stores an outcome and ends the job; repeats that until it succeeds, or the store is closed.
local function store_outcome(self, job, rows)
  if not self.worker:store(NOT_STORED, "store_outcome", job, rows) then error("the store is closed", 0) end
end

function Task:done(job, outcome)
  local rows, why = jobs.rows(outcome)
  if not rows then return nil, ("serve %s: %s"):format(self.name, why) end
  store_outcome(self, job, rows)
  return true
end

function Task:send_failure(job, outcome)
  local rows, why = jobs.rows(outcome)
  if not rows then rows = jobs.rows { n = 0, failed = true, err = ("serve %s: %s"):format(self.name, why) } end
  store_outcome(self, job, rows)
end

function Task:last_words() end -- luacheck: no self

local class = job_tasks.class(Task)

---Starts a worker, which runs the jobs of the remote stages of that name, at most `n` at a time. It runs until
---`worker:drain()`, `worker:stop()`, or the end of the store; `worker:wait()` waits for that.
---@param store runnel.store.Store
---@param name string
---@param n integer jobs at a time
---@param f string|function the function, or the name of a module that returns it
---@param opts? runnel.ServeOptions ack_wait, storage, replicas and max_age have no effect
---@return runnel.Worker worker
function serve.serve(store, name, n, f, opts)
  local options
  opts, f, options = remotes.check_serve(name, n, f, opts)
  local ok, err = jobs.prepare(store, name)
  local consumer, rate
  if ok then
    consumer, err = consumers.open(store, jobs.stream(name), jobs.CONSUMER, {
      max_running = opts.max_running, usual_pending = 1 << 40,
    })
  end
  if consumer and options.rate then
    rate, err = rates.open(store, name, options.rate)
    if not rate then consumer = nil end
  end
  if not consumer then raise("serve: " .. err) end
  local keeper = keepers.new { consumer = consumer, from = jobs.stream(name), what = "serve", cancels = true }
  local self, lost = worker.start {
    kind = "worker", n = n, keeper = keeper, timeout = options.timeout, rate = rate, is_paused = consumer.paused,
    task = setmetatable({
      store = store, name = name, f = for_now.hands_back(store, f), label = ("%s:%d"):format(process()),
    }, class),
  }
  if not self then raise("serve: " .. lost) end
  keeper:watch(self, options.drains)
  return self
end

return serve
