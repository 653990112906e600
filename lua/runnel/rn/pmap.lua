---pmap and pmap_unordered: call a function with each value of a channel, n calls at a time.
---
---runnel.workers.workers runs the workers. This file decides which error ends a pmap, and when its results close.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local more = require "runnel.internal.errors.more"
local workers = require "runnel.workers.workers"
local internal = core.internal
local raise = internal.raise

---@class runnel.pmap
local pmap = {}

---The options of pmap and pmap_unordered.
---@class runnel.PmapOptions
---@field window? integer ordered only: started jobs whose results have not been put yet, at most; default 16 n
---@field buffer? runnel.BufferLike the buffer of the result channel, as for rn.chan; default none
---@field ex_handler? fun(err: any, v: any): any gets the error of a job that raises, and its value. What it returns, if
---not nil, is put as the result. It may park; an error that it raises ends the pmap
---@field timeout? number ms for a job, or for each try of it: one that takes longer is cancelled, with an error for
---which rn.is_timeout is true. The handler is not timed
---@field tries? integer how often a job that raises is tried, default once, or 3 times with `backoff`. It keeps its
---place in the order and counts as one of the n until the last try has ended; only the error of that one counts
---@field key? fun(v: any): any jobs whose values have the same key run in the order of the values, one at a time; their
---results come in that order, too. nil: the job waits for no other one
---@field backoff? number ms to wait before the second try, default 100; twice as long each further time, up to a
---minute; of that a random part between the half and the whole

-- The default window per job: how many results may wait for a slow job before them. With a window of n, a job that
-- takes 20 times as long as the others, one in a hundred, keeps nine of ten workers idle; with this one few.
local AHEAD = 16

local A_JOB = "a job of a pmap"
local CLOSED = "the result channel of this pmap was closed"

-- The main function of a worker: only its jobs. (It is here so that a traceback names pmap.)
local function work(worker, run) run(worker) end

---@class runnel.internal.PmapSpec
---@field what string the function that the program called
---@field n integer
---@field f function
---@field from runnel.Channel<any>|fun(): any
---@field never_waits? boolean `from` is an iterator that never waits
---@field out runnel.Channel<any> gets the results, and is closed
---@field window? integer nil: not in order
---@field ex_handler? function
---@field timeout? number
---@field tries integer
---@field retry number
---@field key? fun(v: any): any

---Starts a pmap, for functions that have checked their arguments.
---@param spec runnel.internal.PmapSpec
---@return runnel.Channel<any> out
function pmap.start(spec)
  local out, ex_handler = spec.out, spec.ex_handler
  local source = core.is_chan(spec.from) and spec.from or nil
  local pool
  local over = false -- `out` is closed
  local reason -- the error for closing `out`
  -- The origin of the reason: the go block of the worker that it killed, which is reported unless a take gets the
  -- error, or which was cancelled; false if the reason is not from a worker's go block, so that nothing reports it yet;
  -- nil if it came from `source`.
  local origin
  local trace -- the traceback of the reason
  local has_failed = false -- a job has failed with an unhandled error
  local others = more.others "another job of the pmap" -- errors that are handled together with the reason

  -- If there is no memory for one of them, the report tells of fewer, and all goes on.
  local function add_other(err, traceback) pcall(others.add, others, err, traceback) end

  -- Reports an error that can no longer be taken. If it killed a worker's go block, that reports it anyway.
  local function lose(err, block)
    if block == false then internal.report(err, nil, A_JOB) end
    if block == nil then ends.close(nil, err, source) end
  end

  local function lose_reason()
    lose(reason, origin)
    if pool.err ~= nil then lose(pool.err) end
    others:report(A_JOB)
    reason, pool.err = nil, nil
  end

  -- There is another reason: whoever handles that one has handled this one, too.
  local function give_way()
    if reason ~= nil then add_other(reason, trace) end
    if origin then origin:poll() end -- its go block does not report it any more
    if pool.err ~= nil then add_other(pool.err) end
    pool.err = nil
  end

  -- A job that was dropped has failed.
  local function lost(failure)
    if over then return false end
    add_other(failure.err, failure.traceback)
    return true
  end

  -- A job has failed: drops the jobs of later values, and takes no further one.
  local function fail(failure, block)
    local seq, err = failure.seq, failure.err
    if has_failed and not seq then
      add_other(err, failure.traceback)
      if block then internal.excuse(block, err) end
      return
    end
    give_way() -- the earlier failure is a later value's
    has_failed, reason, origin, trace = true, err, block, failure.traceback
    pool:finish()
    for _, worker in ipairs(pool:all_workers()) do
      local at, _, number = pool:state_of(worker)
      -- A worker that takes waits in an iterator, or was handed a value and has not run since.
      local is_later = at == "take" or not seq or number and number > seq
      if is_later and at ~= "put" and at ~= "idle" and worker.block then pool:drop(worker, err) end
    end
  end

  local function failed(_, failure)
    local at, err, v, block = failure.phase, failure.err, failure.value, failure.block or failure.cancelled
    if over then return nil end
    if at == "take" then
      pool:finish()
      give_way()
      reason, origin, trace = err, block, failure.traceback
      if not source then -- another worker may wait in the iterator
        for _, worker in ipairs { table.unpack(pool.workers) } do
          if worker.block and pool:state_of(worker) == "take" then pool:drop(worker, err) end
        end
      end
    elseif ex_handler and at == "job" then
      return function() return (ex_handler(err, v)) end -- a second result would name an output
    else
      fail(failure, block)
    end
  end

  -- Closes `out` with the reason, which is reported unless a take from `out` gets it.
  local function ended(err)
    if over then return end
    over = true
    if reason == nil then reason = err end
    pcall(others.go_with, others, reason) -- without memory it tells of none
    if origin == false then
      internal.started(guard.go(guard.close, out, function() error(reason, 0) end), pool.origin)
    else
      if origin then origin:poll() end -- from now on it must be taken from `out`
      ends.close(out, reason, origin or source)
    end
  end

  pool = workers.new {
    what = spec.what, timed = spec.what .. ": a job", n = spec.n, lazy = true, job = spec.f, from = spec.from,
    never_waits = spec.never_waits, to = out, closes = out, window = spec.window, tries = spec.tries,
    retry = spec.retry, timeout = spec.timeout, key = spec.key, main = work, emit = guard.nothing, failed = failed,
    lost = lost, ended = ended,
  }

  -- Called when the result channel is closed.
  internal.on_close(out, function()
    if over then return end
    lose_reason()
    over = true
    pool:finish()
    for _, worker in ipairs(pool:all_workers()) do pool:drop(worker, CLOSED) end
  end)

  pool:start()
  return out
end

-- ---- the public functions ----

---The options that frontier has, too, for check.options.
pmap.UNORDERED_OPTIONS = {
  buffer = true, ex_handler = check.kinds.callable, timeout = check.kinds.ms(0), tries = true, backoff = true,
}
local OPTIONS, WITH_KEY = { window = true, key = check.kinds.callable }, { key = check.kinds.callable }
for name, kind in pairs(pmap.UNORDERED_OPTIONS) do OPTIONS[name], WITH_KEY[name] = kind, kind end

local function checked(what, ordered, n, f, from, opts)
  check.integer(n, 1, what .. ": n")
  check.callable(f, what .. ": f")
  local source = from
  if not core.is_chan(from) then
    local got
    source, got = ends.iterator(from)
    if not source then
      raise(("%s: from: a channel, a list or an iterator function expected, got %s"):format(what, got))
    end
  end
  check.options(opts, ordered and OPTIONS or WITH_KEY, what)
  opts = opts or {}
  local window = opts.window or (n < math.maxinteger // AHEAD and n * AHEAD or math.maxinteger)
  check.integer(window, n, what .. ": window")
  local tries, retry = backoff.options(opts, what, opts.backoff == nil and 1 or nil)
  local out = check.new_chan(opts.buffer, what .. ": buffer")
  return pmap.start {
    what = what, n = n, f = f, from = source, never_waits = source ~= from and getmetatable(from) == nil, out = out,
    window = ordered and window or nil, ex_handler = opts.ex_handler, timeout = opts.timeout, tries = tries,
    retry = retry, key = opts.key,
  }
end

---Calls a function with each value of a channel, at most n calls at a time, and gives the results in the order of the
---values; `window` limits how many wait for a slow job before them. A result is the first value that `f` returns; if
---that is nil there is no result. (For several results of one value return a list, and send the lists through
---rn.xf.cat; or use rn.pipeline_async.) `f` runs in a go block, so it may park, sleep, and start others.
---
---When `f` raises an error, or returns nil and one, and has been tried as often as `tries` tells, `ex_handler(err, v)`
---returns what to put instead.
---Without a handler no further value is taken, the jobs of later values are cancelled, and the results of earlier
---values are put, also of those that wait for their key; when all jobs have ended, the channel of results closes with
---the error. Closing that channel cancels the jobs that run, and no further value is taken.
---@generic T, R
---@param n integer jobs at a time, from 1
---@param f (fun(v: T): R?)|runnel.Pool the job; or an object that can be called
---@param from runnel.Channel<T>|T[]|fun(): T? a channel, or a list without holes, or an iterator, which is
---called for values until it returns nil, and may park
---@param opts? runnel.PmapOptions
---@return runnel.Channel<R> results closes when `from` has ended and all jobs have, with the error of `from` if any
function pmap.pmap(n, f, from, opts) return checked("pmap", true, n, f, from, opts) end

---Like pmap, but puts each result as soon as it is ready, so that a slow job does not delay the others. An error
---without a handler cancels all jobs that run.
---@generic T, R
---@param n integer
---@param f (fun(v: T): R?)|runnel.Pool
---@param from runnel.Channel<T>|T[]|fun(): T?
---@param opts? runnel.PmapOptions without `window`
---@return runnel.Channel<R> results
function pmap.pmap_unordered(n, f, from, opts) return checked("pmap_unordered", false, n, f, from, opts) end

return pmap
