---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2 of
---them; these never run more than n, and n whenever there is work. All of them return `to`, so that stages chain.
---
---Workers are go blocks that take a value and call af. A worker is started when all others have a job; there are at most
---n. In an unordered pipeline a worker moves what its job has put on `result` to `to`, and takes the next value when
---`result` is closed. If af parks, that wakes the worker's partner, another go block, which moves the results meanwhile.
---
---In an ordered pipeline only one worker at a time takes values, the feeder. It puts the result channel of each on a
---queue, and the deliverer, another go block, moves the results to `to` in that order. The capacity of the queue limits
---the jobs to n. If af does not park, the feeder goes on with the next value, and no coroutines are switched; if af
---parks, that wakes another worker, which then is the feeder.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal

local chan, take, put_free = core.chan, internal.moving.take, internal.moving.put
local call, new_result = internal.job.call, internal.job.result

---@class runnel.pipeline
local pipeline = {}

---The options of pipeline_async and pipeline_async_unordered.
---@class runnel.PipelineOptions
---@field window? integer ordered only: started jobs whose results have not been delivered yet, at most; default n.
---If it is more than n, a job lasts until `af` has returned as well
---@field ex_handler? fun(err: any): any gets the error of a job: what `af` raised, or what `result` was closed with.
---What it returns, if not nil, is put after the job's results. It may park. Without it the error handler (rn.on_error)
---gets the error

-- The capacity of a channel at most: more would not fit into memory.
local MOST_PLACES = 1 << 30

local function ask(ex_handler, err)
  local ok, value = guard.call("the ex_handler of a pipeline", ex_handler, err)
  if ok then return value end
end

-- Returns the value to put for a job that has ended with an error, or nil. The handler runs in a go block of its own,
-- so that nothing it does can end the caller.
local function instead_of(err, trace, ex_handler)
  if ex_handler then
    local block = guard.go(guard.nothing, nil, ask, ex_handler, err)
    local value, failure = take(block)
    ends.close(nil, failure, block) -- the handler's go block has died: that is reported
    return value
  end
  internal.report(err, trace, "a job of a pipeline")
end

---@class runnel.PipelineWorker
---@field block runnel.Channel<any> its go block's result channel
---@field to runnel.Channel<any> where the results go; rn.ps shows its name
---@field result runnel.Channel<any>|false the result channel of its job, or for the value that it waits for
---@field job false|"called"|"helped"|"delivered" false: it has no job. Called: it calls af, and then delivers the results
---or waits for their end. Helped: its partner delivers them. Delivered: its partner has done so
---@field err any the error of which its go block has died while it had a job; nil: none
---@field trace? string the traceback of that error
---@field partner? runnel.Channel<true> unordered: where its partner waits; closed when the worker ends
---@field delivered? runnel.Channel<true> unordered: where it waits for its partner

-- Runs a pipeline; `window` is nil for an unordered one. at_end(), if it is not nil, is called when all is done.
local function run(what, n, to, af, from, close, window, ex_handler, at_end)
  local next_value, put, deliver_values = ends.source(from, to), ends.sink(to, "a pipeline"), ends.mover(to, "a pipeline")
  local is_wide = window ~= nil and window > n -- then the jobs are as many as the workers that have one
  local queue = window and chan(math.min(window - 1, MOST_PLACES)) -- the deliverer has one more result channel
  local turn = window and chan() -- where workers wait while another one is the feeder
  local feeder -- the worker that takes the next value
  local workers, count, idle = {}, 0, 0 -- the workers; how many they are; how many of them wait, or are about to
  local over, reason = false, nil -- whether no further value is taken; the error with which `to` is to close

  local function close_to()
    if at_end then at_end() end
    if close ~= false then guard.close(to, reason) end
  end

  -- No further value is taken: `from` has ended, with an error if `err` is not nil; or else (`source` is nil) a go block
  -- has died of it.
  local function finish(err, source)
    if over then return end
    if err ~= nil then internal.pass_on(err, close ~= false and to, source) end
    over, reason = true, err
    if turn then turn:close() end
  end

  -- Moves a job's results to `to`; once that is closed they are dropped, so that the job can finish.
  local function deliver(result)
    local _, err = deliver_values(result, to)
    if err == nil then return end
    local value = instead_of(err, nil, ex_handler)
    if value ~= nil then put(to, value) end
  end

  -- ---- workers ----

  local worker_died, work, start_partner

  local function start_worker(self)
    self.block = guard.go(worker_died, self, work, self)
    return self.block
  end

  local function add_worker()
    local self = { to = to, result = false, job = false }
    if not queue then
      self.partner, self.delivered = chan(), chan()
      start_partner(self)
    end
    local block = start_worker(self)
    workers[self], count, idle = true, count + 1, idle + 1
    return block
  end

  local function leave(self)
    if self.result then self.result:close() end
    if self.partner then self.partner:close() end
    workers[self], count = nil, count - 1
    if count > 0 then return end
    if queue then queue:close() else close_to() end
  end

  -- A go block that has no job has died: starts no further job, and ends the workers that wait for a value.
  local function stop(why)
    if over then return end
    finish(why)
    for worker in pairs(workers) do
      if not worker.job then pcall(core.cancel, worker.block, why) end
    end
  end

  -- The worker that had this job before has died: af has raised, has called coroutine.yield, or was cancelled.
  local function fail_job(self)
    local result, err, trace = self.result, self.err, self.trace
    if err == nil then err = "a job of a pipeline has raised nil" end
    if ex_handler and not result:closed() then
      guard.close(result, err) -- who delivers the results calls the handler
    else
      instead_of(err, trace, ex_handler)
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

  local function partner_died(self, why)
    if self.job == "helped" then guard.close(self.result, why) else stop(why) end
    if pcall(start_partner, self) then return end
    stop(why) -- memory has run out
    if self.job == "helped" then self.job = "called" end
    self.delivered:offer(true)
  end

  function start_partner(self) guard.go(partner_died, self, help, self) end

  -- After af: delivers the results, unless the partner does or did.
  local function end_job(self, result)
    if self.job == "helped" then take(self.delivered) end
    if self.job == "called" then
      self.job = "delivered"
      deliver(result)
    end
    self.job, idle = false, idle + 1
  end

  local function work_unordered(self)
    while not over do
      local result = new_result()
      self.result = result
      local value, _, err = next_value(from, to)
      if value == nil then return finish(err, from) end
      self.job, idle = "called", idle - 1
      if idle == 0 and count < n then add_worker() end
      call(self.partner, af, value, result)
      end_job(self, result)
    end
  end

  -- Waits until this worker is the feeder. Returns false if no further value is taken.
  local function may_feed(self)
    -- If the feeder has a job while another worker runs, it has parked: this worker replaces it.
    while not over and feeder and feeder ~= self and not feeder.job do take(turn) end
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
        call(turn, af, value, result)
        if is_wide and not result:closed() then
          turn:offer(true)
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
      if queue then self.job, idle = false, idle + 1 else end_job(self, self.result) end
      self.result = false
    end
    if queue then work_in_order(self) else work_unordered(self) end
    leave(self)
  end

  -- Another go block takes the place of one that had a job, and reports the error.
  function worker_died(self, why, block, _, trace)
    if self.job then
      self.err, self.trace = why, trace
      if pcall(start_worker, self) then
        if turn then turn:offer(true) end -- the feeder has a job: another worker replaces it
        pcall(internal.started, self.block, block)
        pcall(internal.excuse, block, why)
        return
      end
    end
    stop(why)
    leave(self)
  end

  -- ---- the deliverer of an ordered pipeline ----

  local function deliver_in_turn(self)
    local result = self.result or take(queue)
    while result do
      self.result = result
      deliver(result)
      self.result = false
      result = take(queue)
    end
    close_to()
  end

  -- Starts no further job; another go block delivers what is left, and closes `to` with the error.
  local function deliverer_died(self, why)
    stop(why)
    if not reason then reason = why end -- `from` had ended
    if pcall(guard.go, deliverer_died, self, deliver_in_turn, self) then return end
    for result in core.methods.poll, queue do guard.close(result, why) end -- memory has run out
    close_to()
  end

  guard.started(add_worker(), what) -- the go blocks that it starts get the same name
  if queue then
    local deliverer = { result = false, to = to }
    guard.started(guard.go(deliverer_died, deliverer, deliver_in_turn, deliverer), what)
  end
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
