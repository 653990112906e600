---store:remote: remote stages whose jobs are in a store, for workers in other processes (store:serve).
---
---A job is a message of the work queue runnel-jobs-NAME; its subject is the submitter. A worker stores the outcome in
---runnel_result and ends the message in one transaction. The submitter looks for outcomes while it waits for some.

local io = io
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local remotes = require "runnel.queue.remote"
local jobs = require "runnel.store.jobs"
local sign = require "runnel.internal.sign"
local sink = require "runnel.store.sink"
local values = require "runnel.store.values"

local internal = core.internal
local raise = internal.raise
local alts, now, timeout = core.alts, core.now, core.timeout
local tell_caller = remotes.tell_caller

local remote = {}

-- How long it waits until it looks for outcomes again, in ms: SOON until BUSY ms after the last job or outcome, LATER
-- then.
local SOON <const>, LATER <const> = 5, 50

-- In ms: after how long the program reports that jobs wait and no worker takes them; and for how long it waits SOON.
local IDLE <const>, BUSY <const> = 5000, 1000

local FIND <const> = "select number, kind, form, value, count from runnel_result where submitter = ? "
  .. "order by number, place"
local FORGET <const> = "delete from runnel_result where submitter = ?1 and number in (select value from json_each(?2))"
local DROP <const> = "delete from runnel_message where stream = ? and seq = ?"

---@class runnel.store.Job
---@field number integer
---@field remote runnel.store.Remote
---@field since number
---@field seq? integer of its message, once that is stored
---@field is_dropped? boolean
local Job = {}
Job.__index = Job

-- The waiting go block was cancelled, or has its outcome.
function Job:__close() self.remote:drop(self) end

---@class runnel.store.Remote: runnel.queue.Remote
---@field private store runnel.store.Store
---@field private id string names it in the file
---@field private stream string
---@field private headers table<boolean, table> by whether a job is async
---@field private bell runnel.Channel<boolean>
local Remote = remotes.class {}

-- ---- jobs ----

-- Raises an error of `submit` at the line that called the remote stage.
local function fail(self, message, ...) raise(("remote %s: "):format(self.name) .. message:format(...)) end

-- A job has ended.
local function finish(self, job, outcome)
  if self.jobs[job.number] ~= job then return end
  self.jobs[job.number] = nil
  tell_caller(job, outcome)
end

-- Removes a job from the work queue. Its worker, if there is one, cancels it.
local function remove(self, job)
  if self.store.has_ended then return end
  self.store.db:attempt("exec", DROP, self.stream, job.seq)
end

-- Stores a job.
local function store_job(self, job, form, data)
  local seq, err = sink.append(self.store, self.stream, self.id, form, data, {
    headers = self.headers[job.finish ~= nil](job.number),
  })
  if not seq then
    return finish(self, job, { n = 0, failed = true, err = ("remote %s: %s"):format(self.name, err) })
  end
  job.seq = seq
  if job.is_dropped then remove(self, job) end
  self.bell:put(true)
end

local function not_stored(self_and_job, why)
  local self, job = self_and_job[1], self_and_job[2]
  finish(self, job, { n = 0, failed = true, err = why })
end

function Remote:submit(value, out, finished)
  if self.reason ~= nil then fail(self, "%s", internal.error_text(self.reason)) end
  if value == nil then fail(self, "a value other than nil expected") end
  local form, data = values.encode(value, "value")
  if not form then fail(self, "%s", data) end
  self.last = self.last + 1
  local job = setmetatable({ number = self.last, remote = self, since = now(), out = out, finish = finished }, Job)
  self.jobs[job.number] = job
  guard.started(guard.go(not_stored, { self, job }, store_job, self, job, form, data), "remote " .. self.name)
  return job
end

---The job's caller is gone, unless it has its outcome.
---@param job runnel.store.Job
function Remote:drop(job)
  if self.jobs[job.number] ~= job then return end
  self.jobs[job.number], job.is_dropped = nil, true
  if job.seq then
    guard.started(self.store:in_background(remove, self, job), "remote " .. self.name)
  end
end

-- ---- outcomes ----

-- Gives the outcomes that are in the file to their callers. Returns whether there were any.
local function look(self)
  local rows, err = self.store:attempt("rows", FIND, self.id)
  if not rows then
    if self.store.is_closed then error(err, 0) end
    return false
  end
  if #rows == 0 then return false end
  local ended, at = {}, 1
  while rows[at] do
    local row = rows[at]
    local job, outcome, after = self.jobs[row.number], jobs.outcome(rows, at)
    if job then finish(self, job, outcome) end
    at = after
    ended[#ended + 1] = tostring(row.number)
  end
  self.store:attempt("exec", FORGET, self.id, "[" .. table.concat(ended, ",") .. "]")
  return true
end

-- Says on stderr, once, that jobs have waited for long and no worker takes them.
local function tell_of_workers(self)
  local _, job = next(self.jobs)
  if self.has_told or not job or now() - job.since < IDLE then return end
  local why = jobs.why_idle(self.store, self.name)
  if not why then return end
  self.has_told = true
  io.stderr:write(("runnel: remote %s: jobs that wait: %d; %s\n"):format(self.name, self:stats().waiting, why))
end

-- Looks for outcomes while there are jobs.
local function run(self)
  local active = now()
  while self.reason == nil do
    if next(self.jobs) == nil then
      self.bell:take()
      active = now()
    end
    if look(self) then active = now() end
    tell_of_workers(self)
    if next(self.jobs) ~= nil then
      local _, port = alts({ self.bell, timeout(now() - active < BUSY and SOON or LATER) }, { priority = true })
      if port == self.bell then active = now() end
    end
  end
end

local function died(self, reason, block)
  internal.excuse(block, reason)
  self:close(reason)
end

---Outcomes have come.
function Remote:hear() self.bell:put(true) end

---Ends the remote stage. Jobs without a result are dropped: each call that waits for one raises the error.
---@param reason? any by default that it is closed
function Remote:close(reason)
  sign.own(self, "remote", "close")
  if self.reason ~= nil then return end
  self.reason = reason == nil and "the remote stage is closed" or reason
  local err = ("remote %s: %s"):format(self.name, internal.error_text(self.reason))
  for _, job in pairs(self.jobs) do
    self:drop(job)
    tell_caller(job, { n = 0, failed = true, err = err })
  end
  self.store:forget_reader(self)
  self.bell:put(true)
end

-- ---- making one ----

---Makes a remote stage: an object to pass to rn.pmap, rn.pipeline_async and others in place of a function. Its calls
---run in the workers of that name (store:serve) of all processes that have the file open.
---
---A job runs at least once, and again if its process ends. Each call gets its results once.
---@param store runnel.store.Store
---@param name string letters, digits, - and _
---@param opts? runnel.RemoteOptions encoding, storage, replicas and max_age have no effect
---@return runnel.store.Remote remote
function remote.remote(store, name, opts)
  local _, terms = remotes.check(name, opts)
  local ok, why = jobs.prepare(store, name)
  if not ok then raise("remote: " .. why) end
  store.workers = store.workers + 1
  local self = setmetatable({
    store = store, name = name, stream = jobs.stream(name), id = ("%s:%d"):format(store.holder, store.workers),
    traceback = terms.traceback, jobs = {}, last = 0, bell = core.chan(core.sliding_buffer(1)), headers = {},
  }, Remote)
  for _, is_async in ipairs { true, false } do self.headers[is_async] = jobs.headers(terms, is_async) end
  store:add_reader(self.id, self)
  guard.started(guard.go(died, self, run, self), "remote " .. name)
  return self
end

return remote
