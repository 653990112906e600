---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2 of
---them; these never run more than n. All of them return `to`, so that stages chain.
---
---The pattern is leader and followers. One go block, the leader, takes the values and calls af for each. If af parks,
---a follower becomes the leader: another go block that has led before, or a new one. The deliverer, another go block,
---puts the results on `to`.
---
---Before the leader takes a value it makes the result channel of the value's job. In an ordered pipeline it puts the
---result channel on a queue, and the deliverer takes them in turn; the capacity of the queue limits the jobs to n. In
---an unordered one a result channel puts itself on the queue when it has something (csrc/channels/announce.h), and the jobs
---are counted (csrc/lua/unordered.c).

local core = require "runnel.core"
local check = require "runnel.internal.check"
local deadlock = require "runnel.internal.deadlock"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal

local chan, take, put_place, start = core.chan, internal.moving.take, internal.moving.put, internal.job.start
local poll, new_result, unordered = core.methods.poll, internal.job.result, internal.unordered
local put_while_open, handler, turns = internal.moving.put_while_open, guard.handler, internal.job.turns

---@class runnel.pipeline
local pipeline = {}

---The options of pipeline_async and pipeline_async_unordered.
---@class runnel.PipelineOptions
---@field window? integer ordered only: started jobs whose results have not been delivered yet, at most; default n.
---If it is more than n, a job lasts until `af` has returned as well
---@field ex_handler? fun(err: any): any gets the error of a job: what `af` raised, or what `result` was closed with.
---What it returns, if not nil, is put after the job's results. It may park. Without it the error handler (rn.on_error)
---gets the error

-- ---- errors of jobs ----

-- The name of a job in reports.
local A_JOB = "a job of a pipeline"

local NO_ERROR = "a job of a pipeline has raised nil"

local function ask(ex_handler, err)
  local ok, value = guard.call("the ex_handler of a pipeline", ex_handler, err)
  if ok then return value end
end

-- Returns the value to put for a job that has ended with an error, or nil. The handler runs in a go block of its own,
-- so that nothing it does can end the caller.
local function instead_of(err, ex_handler)
  if ex_handler then
    local block = guard.go(guard.nothing, nil, ask, ex_handler, err)
    local value, failure = take(block)
    ends.close(nil, failure, block) -- the handler's go block has died: that is reported
    return value
  end
  internal.report(err, nil, A_JOB)
end

-- af has raised. The go block that delivers the job's results calls ex_handler.
local function job_failed(failure, result, ex_handler)
  local err, trace = guard.caught(failure)
  if err == nil then err = NO_ERROR end
  if not ex_handler then
    internal.report(err, trace, A_JOB)
    result:close()
  elseif result:closed() then
    instead_of(err, ex_handler)
  else
    guard.close(result, err)
  end
end

-- The go block that called af has died, though af has not raised: for example, it was cancelled, or it called
-- coroutine.yield. The job ends with that error. It is reported once: as the error of that go block, or by the go block
-- that delivers the results.
local function job_died(result, reason, block, is_reported, ex_handler)
  if reason == nil then reason = NO_ERROR end
  if not result:closed() and (ex_handler or not is_reported) then
    guard.close(result, reason)
    pcall(internal.excuse, block, reason) -- fails if memory runs out
  end
  result:close()
end

-- ---- leader, followers and deliverers ----

-- How many followers wait for the lead at most; further ones end.
local MOST_FOLLOWERS = 100

-- The capacity of the queue at most. More places would not fit into memory.
local MOST_PLACES = 1 << 30

---A go block that leads or has led.
---@class runnel.Leader
---@field block runnel.Channel<any> its result channel
---@field to runnel.Channel<any> where the results go; rn.ps shows its name
---@field from runnel.Channel<any> where the values come from
---@field jobs runnel.Jobs
---@field place runnel.Channel<any>|false the result channel for the next value, while it waits for that
---@field result runnel.Channel<any>|false the result channel of the job whose af it calls
---@field follows boolean whether it waits for the lead

---The go block that delivers results.
---@class runnel.Deliverer
---@field to runnel.Channel<any> where the results go; rn.ps shows its name
---@field jobs runnel.Jobs
---@field [1] runnel.Channel<any>|false the result channel from which it takes
---@field [2] table<runnel.Channel<any>, any> jobs.open

-- Returns a function that does what internal.job.deliver does, for a `to` whose puts may call the user's code.
local function deliver_by(put)
  return function(result, to)
    local value, err = take(result)
    while value ~= nil do
      put(to, value)
      value, err = take(result)
    end
    return nil, err
  end
end

-- Runs a pipeline; `window` is nil for an unordered one. With a window of n the capacity of the queue limits the jobs.
-- With a wider one the jobs are counted, and the go block that has called af waits until its job ends. at_end(), if it
-- is not nil, is called when all is done.
local function run(what, n, to, af, from, close, window, ex_handler, at_end)
  local is_ordered, is_wide = window ~= nil, window ~= nil and window > n
  -- Ordered: the result channels of undelivered jobs, except the one that the deliverer has. Unordered: those that have
  -- something to deliver.
  local queue = chan(math.min(window and window - 1 or n, MOST_PLACES))
  local counted = not is_ordered and unordered.jobs(n) or nil -- unordered: the jobs
  local turn, turns_taken = chan(), 0 -- followers take the lead from `turn`; how often one has taken it
  local leader, followers = nil, 0 -- the go block that leads, if any; how many wait for the lead
  local running = 0 -- how many jobs run; counted only if the window is wider than n
  local over, reason = false, nil -- whether no further value is taken; the error with which `to` is to close
  local next_value, put = ends.source(from, to), ends.sink(to, "a pipeline")
  local deliver_results = put == put_while_open and internal.job.deliver or deliver_by(put)
  local new_place, lead, lead_died = unordered.place, nil, nil
  local jobs = deadlock.jobs(af)
  local open = jobs.open

  -- ---- ending ----

  local function close_to()
    if at_end then at_end() end
    if close ~= false then guard.close(to, reason) end
  end

  -- Starts no further jobs: `from` has closed, or a go block of the pipeline has died; `err` is the error, if any.
  -- `source`: `from`, unless the error is that of the go block, which is reported as such.
  local function finish(err, source)
    if err ~= nil then internal.pass_on(err, close ~= false and to, source) end
    if over then return end
    over, reason = true, err
    turn:close()
    local place = leader and leader.place
    if is_ordered then
      if place then place:close() end
      queue:close()
    else
      if place then unordered.over(queue, counted) end
      unordered.over(queue, counted) -- closes the queue after the last job
    end
  end

  -- ---- leading ----

  local function new_leader()
    local self = { block = nil, from = from, to = to, jobs = jobs, place = false, result = false, follows = false }
    self.block = guard.go(lead_died, self, lead, self)
    leader = self
    return self.block
  end

  -- Passes the lead on to a follower, or else to a new go block.
  local function pass_on()
    if is_wide and running == n then
      leader = nil
    elseif followers == 0 or not turn:offer(true) then
      new_leader()
    end
  end

  -- Waits for the lead. Returns false if the go block is not needed any more.
  local function follow(self)
    if over then return false end
    if not leader then
      leader = self
      return true
    end
    if followers == MOST_FOLLOWERS then return false end
    followers, self.follows = followers + 1, true
    local has_lead = take(turn)
    followers, self.follows = followers - 1, false
    if not has_lead then return false end
    turns_taken, leader = turns_taken + 1, self
    return not over
  end

  -- Passes the lead on and then calls af: if there are no followers, or the caller waits until its job ends.
  local function start_alone(value, result)
    running = running + 1
    pass_on()
    local _, failure = start(false, handler, af, value, result)
    if failure then job_failed(failure, result, ex_handler) end
    if is_wide and not result:closed() then take(result:done()) end
    running = running - 1
  end

  function lead(self)
    local passed, failure
    repeat
      local result
      if is_ordered then
        result = new_result()
        self.place = result
        put_place(queue, result)
      else
        result = new_place(queue, counted)
        self.place = result
      end
      local value, _, err = next_value(from, to)
      if value == nil or over then return finish(err, from) end
      self.place, self.result, open[result] = false, result, value
      if is_wide or followers == 0 then
        start_alone(value, result)
        passed = true
      else
        passed, failure = start(turn, handler, af, value, result)
        if failure then job_failed(failure, result, ex_handler) end
      end
      self.result = false
    until passed and not follow(self)
  end

  function lead_died(self, why, block, is_reported)
    if self.result then
      job_died(self.result, why, block, is_reported, ex_handler)
      running = running - 1
      -- If memory ran out, it may have died before it passed the lead on.
      if leader == self and turns(turn) == turns_taken then leader = nil end
      if not leader and not over then new_leader() end
    elseif self.follows then
      followers = followers - 1
      -- It may have got the lead, but not its turn: if somebody else has closed or resumed its coroutine.
      local passed, waiting = turns(turn)
      if passed > turns_taken and waiting == followers and not over then
        turns_taken = passed
        pass_on()
      end
    elseif leader == self then
      finish(why)
    end
  end

  -- ---- delivering in order ----

  local function deliver_in_order(self)
    local result = take(queue)
    while result do
      self[1] = result
      local _, err = deliver_results(result, to)
      if err ~= nil then
        local value = instead_of(err, ex_handler)
        if value ~= nil then put(to, value) end
      end
      open[result] = nil
      result = take(queue)
    end
    close_to()
  end

  -- Starts no further jobs, and closes the channels of those that run.
  local function give_up(self, why)
    if self[1] then guard.close(self[1], why) end
    finish(why)
    if reason == nil then reason = why end -- `from` had closed
    for result in poll, queue do guard.close(result, why) end
    if leader and not leader.result then core.cancel(leader.block, why) end
    close_to()
  end

  -- ---- delivering as they come ----

  -- The go block of a job with an error: the others need not wait for ex_handler.
  local function deliver_error(err)
    local value = instead_of(err, ex_handler)
    if value ~= nil then put(to, value) end
    unordered.over(queue, counted)
  end

  local function error_died(_, why, _, is_reported)
    if not is_reported then internal.report(why, nil, A_JOB) end
    unordered.over(queue, counted)
  end

  local function deliver_as_they_come(self)
    local is_value, v = unordered.deliver(queue, counted, self, to)
    while is_value ~= nil do
      if is_value then
        put(to, v)
      else
        if ex_handler then
          guard.go(error_died, nil, deliver_error, v)
        else
          instead_of(v)
          unordered.over(queue, counted)
        end
        open[self[1]] = nil
        self[1] = false
      end
      is_value, v = unordered.deliver(queue, counted, self, to)
    end
    close_to()
  end

  local function deliverer_died(self, why, _, is_reported)
    if self[1] then
      guard.close(self[1], why)
      if not is_reported then internal.report(why, nil, A_JOB) end
      self[1] = false
      unordered.over(queue, counted)
    end
    guard.go(deliverer_died, self, deliver_as_they_come, self) -- takes the place of the one that died
  end

  guard.started(new_leader(), what) -- the go blocks that it starts get the same name
  local deliverer = { false, open, to = to, jobs = jobs }
  if is_ordered then guard.started(guard.go(give_up, deliverer, deliver_in_order, deliverer), what)
  else guard.started(guard.go(deliverer_died, deliverer, deliver_as_they_come, deliverer), what) end
  return to
end

-- ---- the public functions ----

local OPTIONS = { window = true, ex_handler = true }

---Runs an asynchronous function over the values of a channel, at most n at a time, with the results in the order of the
---values. Source: core.async's pipeline-async, with exact parallelism.
---@generic V, T
---@param n integer jobs at a time, from 1
---@param to runnel.Channel<T> the channel for the results
---@param af (fun(value: V, result: runnel.Channel<T>))|runnel.Pool starts a job: puts any number of results on the
---channel `result` and closes it, with an error if the job has failed. An error that `af` raises ends the job, too.
---`af` may park. If it starts a go block, that must close `result` however it ends, for example with
---`local result <close> = result`
---@param from runnel.Channel<V> the channel of values
---@param close? boolean false: leave `to` open when all is done; true or nil: close it, with the error of `from` if it
---has one
---@param opts? runnel.PipelineOptions
---@return runnel.Channel<T> to
function pipeline.pipeline_async(n, to, af, from, close, opts)
  check.integer(n, 1, "pipeline_async: n")
  check.chan(to, "pipeline_async: to")
  check.callable(af, "pipeline_async: af")
  check.chan(from, "pipeline_async: from")
  check.close(close, "pipeline_async")
  check.options(opts, OPTIONS, "pipeline_async")
  local window = opts and opts.window or n
  check.integer(window, n, "pipeline_async: window")
  check.callable_or_nil(opts and opts.ex_handler, "pipeline_async: ex_handler")
  return run("pipeline_async", n, to, af, from, close, window, opts and opts.ex_handler)
end

---Like pipeline_async, but puts each result as soon as it is ready, so that a slow job does not delay the others.
---Source: the article on pipeline-async's off-by-two error.
---@generic V, T
---@param n integer
---@param to runnel.Channel<T>
---@param af (fun(value: V, result: runnel.Channel<T>))|runnel.Pool
---@param from runnel.Channel<V>
---@param close? boolean
---@param opts? runnel.PipelineOptions
---@return runnel.Channel<T> to
function pipeline.pipeline_async_unordered(n, to, af, from, close, opts)
  check.integer(n, 1, "pipeline_async_unordered: n")
  check.chan(to, "pipeline_async_unordered: to")
  check.callable(af, "pipeline_async_unordered: af")
  check.chan(from, "pipeline_async_unordered: from")
  check.close(close, "pipeline_async_unordered")
  check.options(opts, { ex_handler = true }, "pipeline_async_unordered")
  check.callable_or_nil(opts and opts.ex_handler, "pipeline_async_unordered: ex_handler")
  return run("pipeline_async_unordered", n, to, af, from, close, nil, opts and opts.ex_handler)
end

-- The two functions below call this as a tail call, so that a failed check blames the line that called them. `most` is
-- how many threads they start at most for a module.
local function transduce(what, most, n, to, xf, from, close, ex_handler)
  check.integer(n, 1, what .. ": n")
  check.chan(to, what .. ": to")
  if type(xf) ~= "string" then check.callable(xf, what .. ": transducer") end
  check.chan(from, what .. ": from")
  check.close(close, what)
  check.callable_or_nil(ex_handler, what .. ": ex_handler")
  if type(xf) == "string" then
    local k = math.min(n, most)
    local module_job, at_end = require "runnel.internal.module_job" (what, k, xf, ex_handler)
    if not module_job then error(("%s: %s"):format(what, at_end), 2) end
    return run(what, n, to, module_job, from, close, n, ex_handler, at_end)
  end
  local function job(value, result)
    local out = chan(1, xf, ex_handler)
    out:put(value)
    out:close()
    for v in out do
      if not result:put(v) then break end
    end
    result:close()
  end
  return run(what, n, to, job, from, close, n, ex_handler)
end

---Sends each value of a channel through a transducer of its own. With the name of a module that returns the transducer,
---threads do that, as many as there are processors for them, but at most n. Source: core.async's pipeline.
---@generic T
---@param n integer values in progress at a time, from 1; in one thread this only limits how far it reads ahead
---@param to runnel.Channel<T> the channel for the results
---@param xf runnel.Transducer|string the transducer; it must not park. Or the name of a module
---@param from runnel.Channel<any> the channel of values
---@param close? boolean false: leave `to` open at the end; true or nil: close it
---@param ex_handler? fun(err: any): any gets the error of a transducer; what it returns, if not nil, is put instead
---@return runnel.Channel<T> to
function pipeline.pipeline(n, to, xf, from, close, ex_handler)
  return transduce("pipeline", internal.cores(), n, to, xf, from, close, ex_handler)
end

---Like pipeline, but with the name of a module it starts n threads, since each of them may block.
---@generic T
---@param n integer
---@param to runnel.Channel<T>
---@param xf runnel.Transducer|string
---@param from runnel.Channel<any>
---@param close? boolean
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<T> to
function pipeline.pipeline_blocking(n, to, xf, from, close, ex_handler)
  return transduce("pipeline_blocking", math.huge, n, to, xf, from, close, ex_handler)
end

return pipeline
