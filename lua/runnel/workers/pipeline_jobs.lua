---The engine of the pipelines (rn.pipeline): calls `af(value, result)` for the values of one channel, and moves the
---values of the result channels to another one. A job runs from the call of af until `result` is closed.
---
---Workers are go blocks that take a value and call af. When all workers have a job, another one starts, up to n.
---internal.job.call calls af; when af parks, it wakes a go block that waits on a channel for that. If af does not park,
---no coroutines are switched.
---
---Ordered: one worker at a time, the feeder, takes values. It puts the result channels on a queue, and the deliverer,
---another go block, moves the results of one after the other to `to`. The capacity of the queue limits the jobs. When
---af parks, an idle worker wakes and becomes the feeder.
---
---Unordered: each worker takes values, and moves the results of its job before it takes the next one. When af parks,
---the worker's partner, another go block, wakes and moves the results.

local core = require "runnel.core"
local deadlock = require "runnel.internal.errors.deadlock"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal

local chan, take, put_free = core.chan, internal.moving.take, internal.moving.put
local is_cancellation, is_error_known = internal.is_cancellation, internal.is_error_known
local call, new_result, reason_of = internal.job.call, internal.job.result, internal.job.reason

-- The largest capacity of a channel: more would not fit into memory.
local MOST_PLACES = 1 << 30

local function ask(ex_handler, err)
  local ok, value = guard.call("the ex_handler of a pipeline", ex_handler, err)
  if ok then return value end
end

-- Returns the value to put for a job that ended with an error, or nil; and the error that cancelled the handler, if
-- any. The handler runs in a go block of its own, so that it cannot end the caller.
local function instead_of(err, trace, ex_handler)
  if ex_handler then
    local block = guard.go(guard.nothing, nil, ask, ex_handler, err)
    local value, failure = take(block)
    if is_cancellation(block, failure) then return nil, failure end
    ends.close(nil, failure, block) -- the handler's go block has died: that is reported
    return value
  end
  internal.report(err, trace, "a job of a pipeline")
end

---@class runnel.PipelineWorker
---@field block runnel.Channel<any> its go block's result channel
---@field from runnel.Channel<any> where the values come from
---@field to runnel.Channel<any> where the results go; rn.ps shows its name
---@field jobs runnel.Jobs
---@field result runnel.Channel<any>|false the result channel of its job, or for the value that it waits for
---@field job false|"called"|"delivers"|"helped"|"delivered" false: it has no job. Called: it calls af, or is about to.
---Unordered: it delivers the results itself; its partner delivers them; its partner has delivered them
---@field err any the error that killed its go block while it had a job; nil: none
---@field trace? string the traceback of that error
---@field partner? runnel.Channel<true> unordered: where its partner waits; closed when the worker ends
---@field delivered? runnel.Channel<true> unordered: where it waits for its partner

---@class runnel.internal.PipelineSpec
---@field what string the function that the program has called
---@field n integer jobs at a time
---@field to runnel.Channel<any>
---@field af function
---@field from runnel.Channel<any>
---@field close? boolean false: leave `to` open at the end
---@field window? integer ordered: how many jobs may have undelivered results; nil: the pipeline is unordered
---@field ex_handler? fun(err: any): any
---@field at_end? fun() called when all is done

---Runs a pipeline.
---@param spec runnel.internal.PipelineSpec
---@return runnel.Channel<any> to
return function(spec)
  local what, n, to, af, from = spec.what, spec.n, spec.to, spec.af, spec.from
  local window, ex_handler = spec.window, spec.ex_handler
  local next_value, put = ends.source(from), ends.sink(to, "a pipeline")
  local deliver_values = ends.mover(to, "a pipeline")
  local is_wide = window ~= nil and window > n -- then the jobs are as many as the workers that have one
  local queue = window and chan(math.min(window - 1, MOST_PLACES)) -- the deliverer holds one more result channel
  local takeover = window and chan() -- where idle workers wait to become the feeder
  local feeder -- the worker that takes the next value
  local workers, count, idle = {}, 0, 0 -- the workers; their number; how many wait, or are about to
  local closes = spec.close ~= false and to -- the channel that closes even if memory runs out
  local deliverer = queue and { closes, to = to, result = false }
  local jobs = deadlock.jobs(af, queue and { [deliverer] = true } or workers, queue)
  -- By result channels that a job has closed with the error of which it has died then: the traceback of that.
  local traces = setmetatable({}, { __mode = "k" })
  local over, reason = false, nil -- whether the input has ended; the error for closing `to`

  local function close_to()
    if spec.at_end then spec.at_end() end
    guard.close(closes, reason)
  end

  -- Ends the input: `from` has ended, with an error if `err` is not nil; or (`source` is nil) a go block has died of
  -- `err`.
  local function finish(err, source)
    if over then return end
    if err ~= nil then internal.pass_on(err, closes, source) end
    over, reason = true, err
    if takeover then takeover:close() end
  end

  local stop

  -- A job has closed its result channel with an error, after its results. If a cancelled go block closed the channel,
  -- the error is not reported.
  local function end_with(err, result)
    if not ex_handler and is_error_known(result) then return ends.close(nil, err, result) end
    local value, why = instead_of(err, traces[result], ex_handler)
    if why ~= nil then stop(why) end
    if value ~= nil then put(to, value) end
  end

  -- Moves a job's results to `to`; once that is closed it drops them, so that the job can finish. The fast path inlines
  -- this: one more call is one percent of a job.
  local function deliver(result)
    local _, err = deliver_values(result, to)
    if err ~= nil then end_with(err, result) end
  end

  -- ---- workers ----

  local worker_died, work, start_partner

  local function start_worker(self)
    self.block = guard.go(worker_died, self, work, self)
    return self.block
  end

  local function add_worker()
    local self = { closes, from = from, to = to, jobs = jobs, result = false, job = false }
    if not queue then
      self.partner, self.delivered = chan(), chan()
      guard.started(start_partner(self), what)
    end
    guard.started(start_worker(self), what)
    workers[self], count, idle = true, count + 1, idle + 1
  end

  local function leave(self)
    if self.result then self.result:close() end
    if self.partner then self.partner:close() end
    workers[self], count = nil, count - 1
    if count > 0 then return end
    if queue then queue:close() else close_to() end
  end

  -- A go block without a job has died or was cancelled: starts no further job, and ends the workers that wait for a
  -- value.
  function stop(why)
    if over then
      if reason ~= nil then return end -- `from` had ended, or another go block has died
      internal.pass_on(why, closes)
      reason = why
      return
    end
    finish(why)
    local idle_ones = {}
    for worker in pairs(workers) do
      if not worker.job then idle_ones[#idle_ones + 1] = worker.block end
    end
    table.sort(idle_ones, function(a, b) return a:stats().id < b:stats().id end) -- so that a simulation can be replayed
    for _, block in ipairs(idle_ones) do pcall(core.cancel, block, why) end
  end

  -- The worker of this job has died: af has raised, has called coroutine.yield, or was cancelled.
  local function fail_job(self)
    local result, err, trace = self.result, self.err, self.trace
    if err == nil then err = "a job of a pipeline has raised nil" end
    if rawequal(reason_of(result), err) then return end -- it is told as that of any closed channel (end_with)
    if ex_handler and not result:closed() then
      guard.close(result, err) -- the go block that delivers the results calls the handler
    else
      local _, why = instead_of(err, trace, ex_handler)
      if why ~= nil then stop(why) end
      result:close()
    end
  end

  -- The partner of a worker. If the worker calls af while its partner runs, af has parked.
  local function help(self)
    repeat
      if self.job == "called" or self.job == "helped" then
        self.job = "helped"
        deliver(self.result)
        self.job = "delivered"
        self.delivered:offer(true)
      end
    until not take(self.partner)
  end

  -- A cancelled job ends the pipeline, a failed one does not, unless the handler decides about it.
  local function ends_all(why, block) return not ex_handler and is_cancellation(block, why) end

  local function partner_died(self, why, block)
    if self.job ~= "helped" then stop(why)
    elseif not ends_all(why, block) then guard.close(self.result, why)
    else
      stop(why)
      self.result:close()
    end
    local ok, successor = pcall(start_partner, self)
    if ok then return pcall(internal.started, successor, block) end
    stop(why) -- memory has run out
    if self.job == "helped" then self.job = "called" end
    self.delivered:offer(true)
  end

  function start_partner(self) return guard.go(partner_died, self, help, self) end

  -- After af has parked or raised: the partner delivers the results, has done so, or will find that this worker does.
  local function end_job(self)
    if self.job == "helped" then take(self.delivered) end
    if self.job == "delivered" then return end
    self.job = "delivers"
    deliver(self.result)
  end

  local function work_unordered(self)
    local partner = self.partner
    while not over do
      local result = new_result()
      self.result = result
      local value, _, err = next_value(from, to)
      if value == nil then return finish(err, from) end
      self.job, idle = "called", idle - 1
      if idle == 0 and count < n then add_worker() end
      if call(partner, af, value, result) then
        end_job(self)
      else
        self.job = "delivers"
        _, err = deliver_values(result, to)
        if err ~= nil then end_with(err, result) end
      end
      self.job, idle = false, idle + 1
    end
  end

  -- Waits until this worker is the feeder. Returns false if the input has ended.
  local function may_feed(self)
    -- If the feeder has a job while another worker runs, the feeder has parked: this worker replaces it.
    while not over and feeder and feeder ~= self and not feeder.job do take(takeover) end
    feeder, idle = self, idle - 1
    return not over
  end

  local function work_in_order(self)
    while may_feed(self) do
      repeat
        local result = new_result()
        self.result = result
        put_free(queue, result)
        local value, _, err = next_value(from, to)
        if value == nil then return finish(err, from) end
        self.job = "called"
        if idle == 0 and count < n then add_worker() end
        call(takeover, af, value, result)
        if is_wide and not result:closed() then
          takeover:offer(true)
          take(result:done())
        end
        self.job = false
      until feeder ~= self or over
      self.result, idle = false, idle + 1
    end
  end

  function work(self)
    if self.job then
      fail_job(self)
      if not queue then end_job(self) end
      self.result, self.job, idle = false, false, idle + 1
    end
    if queue then work_in_order(self) else work_unordered(self) end
    leave(self)
  end

  -- Another go block replaces one that had a job, and reports the error.
  function worker_died(self, why, block, _, trace)
    if self.job and not ends_all(why, block) then
      self.err, self.trace = why, trace
      if why ~= nil and rawequal(reason_of(self.result), why) then pcall(rawset, traces, self.result, trace) end
      if pcall(start_worker, self) then
        if takeover then takeover:offer(true) end -- the feeder has a job: another worker replaces it
        pcall(internal.started, self.block, block)
        pcall(internal.excuse, block, why)
        return
      end
    end
    stop(why)
    leave(self)
  end

  -- ---- the deliverer of an ordered pipeline ----

  local function deliver_all(self)
    local result = self.result or take(queue)
    while result do
      self.result = result
      local _, err = deliver_values(result, to)
      if err ~= nil then end_with(err, result) end
      self.result = false
      result = take(queue)
    end
    close_to()
  end

  -- Starts no further job; another go block delivers the rest and closes `to` with the error.
  local function deliverer_died(self, why, block)
    stop(why)
    local ok, successor = pcall(guard.go, deliverer_died, self, deliver_all, self)
    if ok then return pcall(internal.started, successor, block) end
    for result in core.methods.poll, queue do guard.close(result, why) end -- memory has run out
    close_to()
  end

  add_worker() -- the go blocks that it starts get the same name
  if queue then
    deliverer.jobs = jobs
    guard.started(guard.go(deliverer_died, deliverer, deliver_all, deliverer), what)
  end
  return to
end
