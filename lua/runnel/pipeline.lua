---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2 of
---them; these never run more than n, and n whenever there is work. All of them return `to`, so that stages chain.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal

local chan, take = core.chan, internal.moving.take
local source, sink = ends.source, ends.sink

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

-- Delivers all results of a job; once `to` is closed, drops them, so that the job can finish.
local function deliver(result, put, ex_handler)
  local open = true
  while true do
    local value, err = take(result)
    if value == nil then
      if err == nil then return end
      value = instead_of(err, ex_handler)
      if value ~= nil and open then put(value) end
      return
    end
    if open then open = put(value) end
  end
end

-- Calls af. If it raises, the job ends with that error; the go block that delivers its results calls ex_handler.
local function start(af, value, result, ex_handler)
  local ok, err, trace = guard.try(af, value, result)
  if ok then return end
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

-- ---- ordered ----

-- At most so many go blocks that have started a job wait to lead again; a go block more ends instead.
local IDLE = 100

---A go block that leads or has led.
---@class runnel.Lead
---@field block runnel.Channel<any> its result channel
---@field to runnel.Channel<any> where the results go, for its name
---@field result? runnel.Channel<any> that of its job; nil while it leads or is idle
---@field idle boolean
---@field turn? runnel.Channel<any> a channel on which it gets the lead

-- One go block at a time leads: it takes a value and starts its job. Another one delivers the results in the order of
-- the values. The window alone keeps to n jobs where it is n; where it is wider, who has started a job stays with it.
local function ordered(what, n, to, af, from, close, window, ex_handler)
  local queue = chan(window) -- result channels of the jobs whose results are not delivered, in order
  local undelivered, wide = chan(window), window > n -- one value for each such job
  local running = 0 -- jobs, counted where the window is wider
  local leader, over = nil, false -- the go block that leads, if any; whether no further value is taken
  local idle, nidle = {}, 0 -- go blocks that wait for the lead
  local next_value = source(from, to)
  local lead, lead_died

  -- No further job is started: `from` has closed, with that error if there is one, or something has died of it.
  local function finish(err)
    over = true
    for i = 1, nidle do idle[i].turn:close() end
    ends.close(queue, err)
  end

  local function new_lead()
    local self = { block = nil, to = to, result = nil, idle = false, turn = nil }
    self.block = guard.go(lead_died, self, lead, self)
    leader = self
    return self.block
  end

  -- Somebody else goes on before af is called, which may park although it ought to return at once.
  local function pass_on()
    if wide and running == n then
      leader = nil
    elseif nidle > 0 then
      leader = idle[nidle]
      idle[nidle], nidle = nil, nidle - 1
      leader.idle = false
      leader.turn:offer(true)
    else
      new_lead()
    end
  end

  local function wait_for_lead(self)
    if over then return false end
    if not leader then
      leader = self
      return true
    end
    if nidle == IDLE then return false end
    self.turn = self.turn or chan()
    idle[nidle + 1] = self -- what may fail for want of memory comes first
    nidle, self.idle = nidle + 1, true
    return self.turn:take()
  end

  function lead(self)
    repeat
      undelivered:put(true)
      local value, err = next_value()
      if value == nil or over then return finish(err) end
      local result = chan(1)
      queue:put(result)
      running = running + 1
      self.result = result
      pass_on()
      start(af, value, result, ex_handler)
      if wide then
        if not result:closed() then take(result:done()) end
        running = running - 1
      end
      self.result = nil
    until not wait_for_lead(self)
  end

  function lead_died(self, reason, block, is_reported)
    if self.result then
      job_died(self.result, reason, block, is_reported, ex_handler)
      running = running - 1
      if leader == self then leader = nil end -- it could not pass the lead on, for want of memory
      if not leader and not over then new_lead() end
    elseif self.idle then
      local i = 1
      while idle[i] ~= self do i = i + 1 end
      table.remove(idle, i)
      nidle = nidle - 1
    elseif leader == self then
      finish(reason)
    end
  end

  local delivering -- the result channel of a job

  local function deliver_all()
    local put = sink(to, "a pipeline")
    while true do
      local result, err = take(queue)
      if result == nil then
        ends.close(close ~= false and to, err)
        return
      end
      delivering = result
      deliver(result, put, ex_handler)
      undelivered:poll()
    end
  end

  -- Nothing can be delivered any more: no further job starts, and those that run find their channels closed.
  local function deliverer_died(_, reason)
    finish(reason)
    if close ~= false then guard.close(to, reason) end
    for result in function() return delivering or queue:poll() end do
      delivering = nil
      guard.close(result, reason)
    end
    if leader then core.cancel(leader.block, reason) end
  end

  guard.started(new_lead(), what)
  guard.started(guard.go(deliverer_died, to, deliver_all), what)
  return to
end

-- ---- unordered ----

---A go block that leads, or delivers the results of a job.
---@class runnel.Worker
---@field result? runnel.Channel<any> that of its job; nil while it leads
---@field starter? runnel.Channel<any> the go block that calls af for it

-- At most n go blocks, each with a job; besides, one of them, or one more, leads: it waits for the next value. Who gets
-- it passes the lead on, to a new go block as long as fewer than n have jobs; who has finished a job takes the lead if
-- nobody has it. So only one at a time waits for `from`, and none is idle.
local function unordered(what, n, to, af, from, close, ex_handler)
  local next_value, put = source(from, to), sink(to, "a pipeline")
  local running, led, over, reason = 0, false, false, nil
  local work, worker_died

  local function new_worker()
    local self = { to = to, result = nil, starter = nil }
    local block = guard.go(worker_died, self, work, self)
    led = true
    return block
  end

  local function finish_if_last()
    if running == 0 and close ~= false then guard.close(to, reason) end
  end

  local function starter_died(self, why, block, is_reported)
    if self.starter == block then job_died(self.result, why, block, is_reported, ex_handler) end
  end

  function work(self)
    while true do
      local value, err = next_value()
      led = false
      if value == nil then
        over, reason = true, err
        if err ~= nil then internal.pass_on(err, close ~= false and to or nil) end
      else
        running = running + 1
        local result = chan(1)
        self.result = result
        if running < n then new_worker() end
        self.starter = guard.go(starter_died, self, start, af, value, result, ex_handler)
        deliver(result, put, ex_handler)
        self.result = nil
        running = running - 1
      end
      if over then return finish_if_last() end
      if led then return end
      led = true
    end
  end

  function worker_died(self, why, _, is_reported)
    if self.result then
      guard.close(self.result, why) -- its job finds the channel closed
      if not is_reported then internal.report(why, nil, A_JOB) end
      running = running - 1
      if not led and not over then new_worker() end
    else
      led, over, reason = false, true, why
    end
    if over then finish_if_last() end
  end

  guard.started(new_worker(), what)
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
  return ordered("pipeline_async", n, to, af, from, close, window, opts and opts.ex_handler)
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
  return unordered("pipeline_async_unordered", n, to, af, from, close, opts and opts.ex_handler)
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
  return ordered("pipeline", n, to, job, from, close, n, ex_handler)
end

---The same as pipeline, until there are threads.
pipeline.pipeline_blocking = pipeline.pipeline

return pipeline
