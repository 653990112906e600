---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2 of
---them; these never run more than n, and n whenever there is work. All of them return `to`, so that stages chain.

local core = require "runnel.core"
local check = require "runnel.check"
local ends = require "runnel.ends"
local guard = require "runnel.guard"

local chan, go = core.chan, core.go
local source, sink = ends.source, ends.sink

---@class runnel.pipeline
local pipeline = {}

---What the pipelines of asynchronous jobs take besides.
---@class runnel.PipelineOptions
---@field window? integer ordered only: started jobs whose results have not been delivered yet, at most; default n.
---Where it is more than n, a job lasts until `af` has returned as well
---@field ex_handler? fun(err: any): any gets the error of an `af` that raises; what it returns, if not nil, is put

-- ---- jobs ----

-- Delivers all results of a job; once `to` is closed, drops them, so that the job can finish.
local function deliver(result, put)
  local open = true
  while true do
    local value = result:take()
    if value == nil then return end
    if open then open = put(value) end
  end
end

-- Calls af; where it raises, the job ends with what the exception handler makes of the error.
local function start(af, value, result, ex_handler)
  local ok, err, trace = guard.try(af, value, result)
  if ok then return end
  if ex_handler then
    local handled, instead = pcall(ex_handler, err)
    if handled then
      if instead ~= nil then result:put_async(instead) end
    else
      core.report(instead, nil, "the ex_handler of a pipeline")
    end
  else
    core.report(err, trace, "a job of a pipeline")
  end
  result:close()
end

-- ---- ordered ----

-- How many go blocks that have started a job may wait to lead again, instead of ending.
local IDLE = 100

-- One go block at a time leads: it takes a value and starts its job. Another one delivers the results in the order of
-- the values. The window alone keeps to n jobs where it is n; where it is wider, who has started a job stays with it.
local function ordered(n, to, af, from, close, window, ex_handler)
  local queue = chan(window) -- result channels of the jobs whose results are not delivered, in order
  local undelivered, wide = chan(window), window > n -- one value for each such job
  local running = 0 -- jobs, counted where the window is wider
  local led, idle, next_lead = true, 0, chan() -- whether somebody leads; how many wait for the lead, and where

  local take = source(from, to)

  -- Somebody else goes on before af is called, which may park although it ought to return at once.
  local function pass_on(lead)
    if wide and running == n then
      led = false
    elseif idle > 0 then
      idle = idle - 1
      next_lead:offer(true)
    else
      go(lead)
    end
  end

  local function wait_for_lead()
    if not led then
      led = true
      return true
    end
    if idle == IDLE then return false end
    idle = idle + 1
    return next_lead:take()
  end

  local function lead()
    repeat
      undelivered:put(true)
      local value, err = take()
      if value == nil then
        next_lead:close()
        queue:close(err)
        return
      end
      local result = chan(1)
      queue:put(result)
      running = running + 1
      pass_on(lead)
      start(af, value, result, ex_handler)
      if wide then
        if not result:closed() then result:done():take() end
        running = running - 1
      end
    until not wait_for_lead()
  end

  go(lead)

  go(function()
    local put = sink(to, "a pipeline")
    while true do
      local result, err = queue:take()
      if result == nil then
        if close ~= false then to:close(err) end
        return
      end
      deliver(result, put)
      undelivered:poll()
    end
  end)
  return to
end

-- ---- unordered ----

-- A sink for any number of go blocks, first come first served. Only one of them waits for a taker at a time, since a
-- channel has room for so many waiting puts only; each of the others waits on a channel of its own.
local function shared_sink(to)
  local put = sink(to, "a pipeline")
  local busy, turns, first, last = false, {}, 1, 0
  return function(value)
    if busy then
      local turn = chan()
      last = last + 1
      turns[last] = turn
      turn:take()
    end
    busy = true
    local accepted = put(value)
    local next_turn = turns[first]
    if next_turn then
      turns[first], first = nil, first + 1
      next_turn:close()
    else
      busy = false
    end
    return accepted
  end
end

-- At most n go blocks, each with a job; besides, one of them, or one more, leads: it waits for the next value. Who gets
-- it passes the lead on, to a new go block as long as fewer than n have jobs; who has finished a job takes the lead if
-- nobody has it. So only one at a time waits for `from`, and none is idle.
local function unordered(n, to, af, from, close, ex_handler)
  local take, put = source(from, to), shared_sink(to)
  local running, led, ended, reason = 0, true, false, nil

  local function lead()
    while true do
      local value, err = take()
      led = false
      if value == nil then
        ended, reason = true, err
      else
        running = running + 1
        if running < n then
          led = true
          go(lead)
        end
        local result = chan(1)
        go(start, af, value, result, ex_handler)
        deliver(result, put)
        running = running - 1
      end
      if ended then
        if running == 0 and close ~= false then to:close(reason) end
        return
      end
      if led then return end
      led = true
    end
  end

  go(lead)
  return to
end

-- ---- the public functions ----

local OPTIONS = { window = true, ex_handler = true }

---Runs an asynchronous function over the values of a channel, at most n at a time, with the results in the order of the
---values. Source: core.async's pipeline-async, with exact parallelism.
---@generic V, T
---@param n integer jobs at a time, from 1
---@param to runnel.Channel<T> the channel for the results
---@param af fun(value: V, result: runnel.Channel<T>) starts a job: puts any number of results on the channel
---`result` and closes it
---@param from runnel.Channel<V> the channel of values
---@param close? boolean whether to close `to` when all is done, with the error of `from` if it has one; default true
---@param opts? runnel.PipelineOptions
---@return runnel.Channel<T> to
function pipeline.pipeline_async(n, to, af, from, close, opts)
  check.integer(n, 1, "pipeline_async: n")
  check.chan(to, "pipeline_async: to")
  check.callable(af, "pipeline_async: af")
  check.chan(from, "pipeline_async: from")
  check.options(opts, OPTIONS, "pipeline_async")
  local window = opts and opts.window or n
  check.integer(window, n, "pipeline_async: window")
  check.callable_or_nil(opts and opts.ex_handler, "pipeline_async: ex_handler")
  return ordered(n, to, af, from, close, window, opts and opts.ex_handler)
end

---Like pipeline_async, with the results in the order in which they come, so that a slow job holds nobody up. Source:
---the article on pipeline-async's off-by-two error.
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
  check.options(opts, { ex_handler = true }, "pipeline_async_unordered")
  check.callable_or_nil(opts and opts.ex_handler, "pipeline_async_unordered: ex_handler")
  return unordered(n, to, af, from, close, opts and opts.ex_handler)
end

---Sends each value of a channel through a transducer of its own. Source: core.async's pipeline.
---@generic T
---@param n integer values under way at a time, from 1; with one thread it decides only how far it runs ahead
---@param to runnel.Channel<T> the channel for the results
---@param xf runnel.Transducer the transducer; it must not park
---@param from runnel.Channel<any> the channel of values
---@param close? boolean whether to close `to` at the end; default true
---@param ex_handler? fun(err: any): any gets the error of a transducer; what it returns, if not nil, is put instead
---@return runnel.Channel<T> to
function pipeline.pipeline(n, to, xf, from, close, ex_handler)
  check.integer(n, 1, "pipeline: n")
  check.chan(to, "pipeline: to")
  check.callable(xf, "pipeline: transducer")
  check.chan(from, "pipeline: from")
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
  return ordered(n, to, job, from, close, n, ex_handler)
end

---The same as pipeline, until there are threads.
pipeline.pipeline_blocking = pipeline.pipeline

return pipeline
