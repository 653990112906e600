---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2 of
---them; these never run more than n, and n whenever there is work. All of them return `to`, so that stages chain.
---
---The pattern is leader and followers. One go block, the leader, takes the values and calls af for each. Should af
---park, although it ought to return at once, a follower becomes the leader: another go block that has led before, or a
---new one. Deliverers put the results on `to`: one of them in the order of the values, or without an order one for each
---job.
---
---Before the leader takes a value it gets a place: the result channel of the value's job. For results in order it puts
---a new place on a queue, and the deliverer takes one after the other. Without an order each deliverer makes its own
---place, puts itself on the queue, and waits for results. Both ways the queue alone keeps to n jobs.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal

local chan, take, put_place, start = core.chan, internal.moving.take, internal.moving.put, internal.job.start
local put_while_open, handler = internal.moving.put_while_open, guard.handler

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
    local value, failure = take(guard.go(guard.nothing, nil, ask, ex_handler, err))
    ends.close(nil, failure) -- the handler's go block has died: that is reported
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

-- The go block that called af dies of something that is not an error of af; the job ends with that. It is reported
-- once: as the error of that go block, or by the go block that delivers the results.
local function job_died(result, reason, block, is_reported, ex_handler)
  if reason == nil then reason = NO_ERROR end
  if not result:closed() and (ex_handler or not is_reported) then
    guard.close(result, reason)
    pcall(internal.excuse, block, reason) -- fails if memory runs out
  end
  result:close()
end

-- ---- leader, followers and deliverers ----

-- At most so many followers wait for the lead; a go block more ends instead.
local MOST_FOLLOWERS = 100

-- More would not fit into memory.
local MOST_PLACES = 1 << 30

---A go block that leads or has led.
---@class runnel.Leader
---@field block runnel.Channel<any> its result channel
---@field to runnel.Channel<any> where the results go, for its name
---@field result? runnel.Channel<any> that of the job whose af it calls
---@field follows boolean it waits for the lead

---A go block that delivers results.
---@class runnel.Deliverer
---@field to runnel.Channel<any> where the results go, for its name
---@field result? runnel.Channel<any> its place: the result channel of the job that it has or will get
---@field has_job boolean without an order: false while it is on the queue

-- Makes what internal.job.deliver does, for a `to` whose puts may call code of the user's.
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

-- Runs a pipeline; `window` is nil for one without an order. A window of n needs no count of the jobs that run, since
-- the queue has no more places. If it is wider, the go block that has called af stays with the job.
local function run(what, n, to, af, from, close, window, ex_handler)
  local is_ordered, is_wide = window ~= nil, window ~= nil and window > n
  -- The places of undelivered jobs, besides that which the deliverer has; or the deliverers without a job.
  local queue = chan(math.min(window and window - 1 or n, MOST_PLACES))
  local turn, turns_taken = chan(), 0 -- on which a follower gets the lead, and how often one has taken it
  local leader, followers = nil, 0 -- which go block leads, if any; how many wait for the lead
  local deliverers = 0
  local place -- that of the value for which the leader waits
  local running = 0 -- jobs, counted where the window is wider
  local over, reason = false, nil -- no further value is taken; the error with which `to` is to close
  local next_value, put = ends.source(from, to), ends.sink(to, "a pipeline")
  local deliver_results = put == put_while_open and internal.job.deliver or deliver_by(put)
  local lead, lead_died, deliver, deliverer_died

  -- ---- ending ----

  local function close_to()
    if close ~= false then guard.close(to, reason) end
  end

  -- No further job is started: `from` has closed, with that error if there is one, or something has died of it.
  local function finish(err)
    if err ~= nil then internal.pass_on(err, close ~= false and to or nil) end
    if over then return end
    over, reason = true, err
    if place then place:close() end
    turn:close()
    queue:close()
    if not is_ordered then
      for deliverer in queue.poll, queue do deliverer.result:close() end
    end
    if deliverers == 0 then close_to() end
  end

  -- ---- leading ----

  local function new_leader()
    local self = { block = nil, to = to, result = nil, follows = false }
    self.block = guard.go(lead_died, self, lead, self)
    leader = self
    return self.block
  end

  local function new_deliverer()
    local self = { to = to, result = not is_ordered and chan(1) or nil, has_job = false }
    local block = guard.go(deliverer_died, self, deliver, self)
    deliverers = deliverers + 1
    return self, block
  end

  -- Without an order: waits for a deliverer without a job, which from now on has one.
  local function free_place()
    local deliverer = queue:poll() or deliverers < n and new_deliverer() or take(queue)
    deliverer.has_job = true
    return deliverer.result
  end

  -- Gives the lead away.
  local function pass_on()
    if is_wide and running == n then
      leader = nil
    elseif followers == 0 or not turn:offer(true) then
      new_leader()
    end
  end

  -- Waits for the lead. Returns false where the go block is not needed any more.
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

  -- Calls af where no follower can take the lead, or the caller stays with its job.
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
        result = chan(1)
        place = result
        put_place(queue, result)
      else
        result = free_place()
        place = result
      end
      local value, _, err = next_value(from, to)
      if value == nil or over then return finish(err) end
      place, self.result = nil, result
      if is_wide or followers == 0 then
        start_alone(value, result)
        passed = true
      else
        passed, failure = start(turn, handler, af, value, result)
        if failure then job_failed(failure, result, ex_handler) end
      end
      self.result = nil
    until passed and not follow(self)
  end

  function lead_died(self, why, block, is_reported)
    if self.result then
      job_died(self.result, why, block, is_reported, ex_handler)
      running = running - 1
      -- For want of memory it may not have passed the lead on.
      if leader == self and internal.job.turns(turn) == turns_taken then leader = nil end
      if not leader and not over then new_leader() end
    elseif self.follows then
      followers = followers - 1
    elseif leader == self then
      finish(why)
    end
  end

  -- ---- delivering ----

  function deliver(self)
    local result = self.result or take(queue)
    while result do
      self.result = result
      local _, err = deliver_results(result, to)
      if err ~= nil then
        local value = instead_of(err, ex_handler)
        if value ~= nil then put(to, value) end
      end
      if is_ordered then
        result = take(queue)
      elseif over then
        break
      else
        result = chan(1)
        self.result = result
        put_place(queue, self) -- there is room for all
        self.has_job = false
      end
    end
    deliverers = deliverers - 1
    if deliverers == 0 then close_to() end
  end

  -- Nothing can be delivered in order any more: no further job starts, and those that run find their channels closed.
  local function give_up(why)
    finish(why)
    if reason == nil then reason = why end -- `from` had closed
    for result in queue.poll, queue do guard.close(result, why) end
    if leader and not leader.result then core.cancel(leader.block, why) end
  end

  function deliverer_died(self, why, _, is_reported)
    if is_ordered then
      deliverers = 0
      if self.result then guard.close(self.result, why) end -- its job finds the channel closed
      give_up(why)
      return close_to()
    end
    if self.has_job then
      guard.close(self.result, why)
      if not is_reported then internal.report(why, nil, A_JOB) end
    end
    if over then
      deliverers = deliverers - 1
      if deliverers == 0 then close_to() end
      return
    end
    if self.has_job then
      self.result, self.has_job = chan(1), false
      queue:offer(self)
    end
    guard.go(deliverer_died, self, deliver, self) -- another one goes on
  end

  guard.started(new_leader(), what) -- the go blocks that it starts get the same name
  local first, block = new_deliverer()
  guard.started(block, what)
  if not is_ordered then queue:offer(first) end
  return to
end

-- ---- the public functions ----

local OPTIONS = { window = true, ex_handler = true }

---Runs an asynchronous function over the values of a channel, at most n at a time, with the results in the order of the
---values. Source: core.async's pipeline-async, with exact parallelism.
---@generic V, T
---@param n integer jobs at a time, from 1
---@param to runnel.Channel<T> the channel for the results
---@param af fun(value: V, result: runnel.Channel<T>) starts a job: puts any number of results on the channel `result`
---and closes it, with an error if the job has failed. An error that `af` raises ends the job, too. `af` may park. If it
---starts a go block, that must close `result` however it ends, for example with `local result <close> = result`
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

---Like pipeline_async, but puts each result as soon as it is there, so that a slow job does not delay the others.
---Source: the article on pipeline-async's off-by-two error.
---@generic V, T
---@param n integer
---@param to runnel.Channel<T>
---@param af fun(value: V, result: runnel.Channel<T>)
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

---Sends each value of a channel through a transducer of its own. Source: core.async's pipeline.
---@generic T
---@param n integer values under way at a time, from 1; with one thread it decides only how far it runs ahead
---@param to runnel.Channel<T> the channel for the results
---@param xf runnel.Transducer the transducer; it must not park
---@param from runnel.Channel<any> the channel of values
---@param close? boolean false: leave `to` open at the end; true or nil: close it
---@param ex_handler? fun(err: any): any gets the error of a transducer; what it returns, if not nil, is put instead
---@return runnel.Channel<T> to
function pipeline.pipeline(n, to, xf, from, close, ex_handler)
  check.integer(n, 1, "pipeline: n")
  check.chan(to, "pipeline: to")
  check.callable(xf, "pipeline: transducer")
  check.chan(from, "pipeline: from")
  check.close(close, "pipeline")
  check.callable_or_nil(ex_handler, "pipeline: ex_handler")
  local function job(value, result)
    local out = chan(1, xf, ex_handler)
    out:put(value)
    out:close()
    for v in out do
      if not result:put(v) then break end
    end
    result:close()
  end
  return run("pipeline", n, to, job, from, close, n, ex_handler)
end

---The same as pipeline, until there are threads.
pipeline.pipeline_blocking = pipeline.pipeline

return pipeline
