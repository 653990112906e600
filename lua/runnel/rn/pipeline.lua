---Pipelines: values of one channel through jobs onto another, with exactly n jobs at a time.
---
---A job runs from the call of `af(value, result)` until `result` is closed. core.async's pipeline-async runs n + 2
---jobs; these never run more than n. All of them return `to`, so that stages chain.
---runnel.workers.pipeline_jobs implements them.

local require = require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local run = require "runnel.workers.pipeline_jobs"
local raise = core.internal.raise

local chan, cores = core.chan, core.internal.cores

---@class runnel.pipeline
local pipeline = {}

---The options of pipeline_async and pipeline_async_unordered.
---@class runnel.PipelineOptions
---@field window? integer ordered only: started jobs whose results have not been delivered yet, at most; default n.
---If it is more than n, a job lasts until `af` has returned as well
---@field ex_handler? fun(err: any): any gets the error of a job: what `af` raised, or what `result` was closed with.
---What it returns, if not nil, is put after the job's results. It may park. Without it the error handler (rn.on_error)
---gets the error

local UNORDERED_OPTIONS = { ex_handler = check.kinds.callable }
local OPTIONS = { window = true, ex_handler = check.kinds.callable }

local function async(what, ordered, n, to, af, from, close, opts)
  check.integer(n, 1, what .. ": n")
  check.chan(to, what .. ": to")
  check.callable(af, what .. ": af")
  check.chan(from, what .. ": from")
  check.boolean_or_nil(close, what .. ": close")
  check.options(opts, ordered and OPTIONS or UNORDERED_OPTIONS, what)
  local window = ordered and (opts and opts.window or n) or nil
  if window then check.integer(window, n, what .. ": window") end
  return run {
    what = what, n = n, to = to, af = af, from = from, close = close, window = window,
    ex_handler = opts and opts.ex_handler,
  }
end

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
  return async("pipeline_async", true, n, to, af, from, close, opts)
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
  return async("pipeline_async_unordered", false, n, to, af, from, close, opts)
end

-- The same for the two functions below. `most` is how many threads they start at most for a module.
local function transduce(what, most, n, to, xf, from, close, ex_handler)
  check.integer(n, 1, what .. ": n")
  check.chan(to, what .. ": to")
  if type(xf) ~= "string" then check.callable(xf, what .. ": transducer") end
  check.chan(from, what .. ": from")
  check.boolean_or_nil(close, what .. ": close")
  check.callable_or_nil(ex_handler, what .. ": ex_handler")
  local spec = { what = what, n = n, to = to, from = from, close = close, window = n, ex_handler = ex_handler }
  if type(xf) == "string" then
    local k = math.min(n, most)
    local module_job, at_end = require "runnel.threads.module_job" (what, k, xf, ex_handler)
    if not module_job then raise(("%s: %s"):format(what, at_end)) end
    spec.af, spec.at_end = module_job, at_end
    return run(spec)
  end
  function spec.af(value, result)
    local out = chan(1, xf, ex_handler)
    out:put(value)
    out:close()
    for v in out do
      if not result:put(v) then break end
    end
    result:close()
  end
  return run(spec)
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
  return transduce("pipeline", cores(), n, to, xf, from, close, ex_handler)
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
