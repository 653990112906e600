---pmap and pmap_unordered: call a function with each value of a channel, n calls at a time.
---
---Workers are go blocks, started when they are needed, that take values, call the function and put its results. If a
---job raises, its worker dies of the error, and the worker's `__close` handles the error. So a call needs no pcall, and
---its traceback shows only the user's own code.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local deadlock = require "runnel.internal.deadlock"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.timed_out"
local internal = core.internal

local chan, now, sleep, yield = core.chan, core.now, core.sleep, core.yield
local cancel, excuse, is_cancellation = core.cancel, internal.excuse, internal.is_cancellation
local go, take_value, put = guard.go, internal.moving.take, internal.moving.put

---@class runnel.pmap
local pmap = {}

---The options of pmap and pmap_unordered.
---@class runnel.PmapOptions
---@field window? integer ordered only: started jobs whose results have not been put yet, at most; default 16 n
---@field buffer? runnel.BufferLike the buffer of the result channel, as for rn.chan; default none
---@field ex_handler? fun(err: any, v: any): any gets the error of a job that raises, and its value. What it returns, if
---not nil, is put as the result. It may park; an error that it raises ends the pmap
---@field timeout? number ms for a job, or for each try of it: one that takes longer is cancelled, with an error for which
---rn.is_timeout is true. The handler is not timed
---@field tries? integer how often a job that raises is tried, default once. It keeps its place in the order and counts as
---one of the n until the last try has ended; only the error of that one counts
---@field retry? number ms to wait before the second try, default 100; twice as long each further time, up to a minute; of
---that a random part between the half and the whole

-- The default window, for each of the n jobs: so many results may wait for a slow job before them. With a window of n,
-- a job that takes 20 times as long as the others, one in a hundred, keeps nine of ten workers idle; with this one few.
local AHEAD = 16

-- How many workers stay idle at most; further ones end.
local MOST_IDLE = 100

-- What a worker does. (One declaration each: only then does Lua compile the name to a constant.)
local TAKE <const> = 1 -- waits for a value
local IDLE <const> = 2 -- waits for a call to take the next value
local JOB <const> = 3 -- calls f
local HANDLER <const> = 4 -- calls ex_handler
local PUT <const> = 5 -- puts results
local END <const> = 6 -- ends

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

local NOTHING = {} -- a result that is nil
local function no_value() end

local A_JOB = "a job of a pmap"
local CLOSED = "the result channel of this pmap was closed"
local NO_ERROR = "a job of a pmap raised nil, called coroutine.yield, or had its coroutine closed"

-- The error of a late job that raised `err` after it was cancelled.
local function late_error(late, err)
  if err ~= late then late.message = ("%s; cancelled, it raised: %s"):format(late.message, tostring(err)) end
  return late
end

-- Starts a pmap; `what` is the name of the function that the program called. `take(source)` returns the next value, or
-- nil and an error.
local function start(what, n, f, take, source, out, ordered, window, ex_handler, timeout, tries, retry)
  -- Direct: unordered results of the values of a channel are put by the worker whose job returned them. Otherwise only
  -- one worker at a time takes, since calls of an iterator must not overlap and the order of the values must be known;
  -- and only one worker at a time puts.
  local direct = not ordered and core.is_chan(source)

  -- A worker is a table:
  --   result   its go block's result channel
  --   number   where it is in `workers`
  --   at       what it does first: TAKE, HANDLER, or JOB, which is another try
  --   seq      the number of its job, for a worker that begins with the handler or another try
  --   value    the value of that job
  --   err      the error of that job
  --   look     returns what it does now, and the number of its job
  --   close    is called with the error of its go block, or nil, when that ends
  --   tried    how many tries of its job have failed, for a worker that began with another try, until that has ended
  --   timed    the number of its last job, or try, among those that have a time limit
  --   late     the timeout error, if its job was cancelled because it took too long
  --   dropped  whether its job was cancelled because another one has failed
  local workers, count = {}, 0
  local waiting, idle = 0, 0 -- how many workers take or are about to; how many are idle
  local calls = chan() -- idle workers wait here
  deadlock.private[calls] = true

  local started = 0 -- jobs
  -- If results wait for their turn: how many jobs run; how many have ended; of how many the results were put, with all
  -- results before them; and the results that wait, by their place in the order.
  local running, ended_jobs, delivered, results = 0, 0, 0, {}

  local ended, reason = false, nil -- no more values are taken; the error with which `out` is to close
  -- Where the reason comes from: the result channel of the worker that died of it, which is reported unless somebody
  -- takes it; false if the reason is not that of a worker's go block, so that nothing reports it yet; nil if it came
  -- from `source`.
  local origin
  local failed -- the place in the order of results of the first job with an error that nobody has handled
  local over = false -- `out` is closed
  local alert = false -- the pmap was stopped, or some job was late: then `counts` is asked when a job returns
  -- The go block that cancels late jobs. Jobs, or their tries, are numbered as they start: the first one that it looks
  -- at, and the last; the workers and deadlines by these numbers.
  local watcher, first_timed, last_timed, timed, deadlines = nil, 1, 0, {}, {}
  local job = f -- another try may run after the pmap was stopped, if an earlier job has failed for good
  local work

  local function look(worker)
    if worker.look then return worker.look() end
    return worker.at, worker.seq
  end

  -- ---- ending ----

  -- Closes `out` with the reason, which is reported unless somebody takes it from there.
  local function close()
    over = true
    if watcher then cancel(watcher) end
    if origin == false then
      go(guard.close, out, function() error(reason, 0) end)
    else
      if origin then origin:poll() end -- from now on it must be taken from `out`
      ends.close(out, reason, origin or source)
    end
  end

  local function end_input(err, block)
    if ended then return end
    ended, reason, origin = true, err, block
    calls:close()
  end

  -- Reports an error that nobody can take any more. If a worker died of it, that go block's error is reported anyway.
  local function lose(err, block)
    if block == false then internal.report(err, nil, A_JOB) end
    if block == nil then ends.close(nil, err, source) end
  end

  -- Stops all work: a worker that is about to take, or has just taken, gets no value and calls nothing.
  local function stop()
    alert, take, f = true, no_value, no_value
    end_input()
  end

  -- The job at that place in the order of results has failed: jobs after it are dropped.
  local function fail(place, err, block)
    if failed and direct then return lose(err, block) end
    lose(reason, origin) -- the earlier reason comes after this error in the order of results
    stop()
    failed, reason, origin = place, err, block
    for i = 1, count do
      local worker = workers[i]
      local at, seq = look(worker)
      if at == TAKE then
        cancel(worker.result, err)
      elseif (at == JOB or at == HANDLER) and (not ordered or seq > place) then
        worker.dropped = true
        cancel(worker.result, err)
      end
    end
  end

  -- Called when somebody closes the result channel.
  internal.on_close(out, function()
    if over then return end
    lose(reason, origin)
    stop()
    over = true
    if watcher then cancel(watcher) end
    for i = 1, count do cancel(workers[i].result, CLOSED) end
  end)

  -- ---- late jobs ----

  -- The go block that cancels late jobs. Jobs become late in the order in which they have started.
  local function watch()
    while not over do
      local worker
      while first_timed <= last_timed do
        worker = timed[first_timed]
        if worker.timed == first_timed and look(worker) == JOB then break end
        timed[first_timed], deadlines[first_timed] = nil, nil
        first_timed = first_timed + 1
      end
      if first_timed > last_timed then break end
      local left = deadlines[first_timed] - now()
      if left >= NANOSECOND then
        sleep(left)
      else
        timed[first_timed], deadlines[first_timed] = nil, nil
        first_timed = first_timed + 1
        worker.late, alert = timed_out.new(("pmap: a job had not ended after %s ms"):format(timeout)), true
        cancel(worker.result, worker.late)
      end
    end
    watcher = nil
  end

  local function watch_died(_, err)
    if not over then guard.close(out, err) end
  end

  local function watch_over(worker)
    last_timed = last_timed + 1
    timed[last_timed], deadlines[last_timed], worker.timed = worker, now() + timeout, last_timed
    if not watcher then watcher = go(watch_died, false, watch) end
  end

  -- ---- workers ----

  -- The give_up of a worker: its `__close` has handled its death, unless memory ran out; then `out` is closed here.
  local function has_died(_, err, block)
    local is_left = count == 0
    for i = 1, count do is_left = is_left or workers[i].result == block end
    if is_left then guard.close(out, reason or err) end
  end

  local function add_worker(at, seq, value, err, tried)
    local number = count + 1
    local worker = {
      at = at, seq = seq, value = value, err = err, number = number, result = false, look = false, close = false,
      tried = tried or 0, timed = 0, late = false, dropped = false,
    }
    workers[number] = worker
    worker.result = go(has_died, out, work, worker) -- the last that may raise
    count = number
  end

  -- Lets a worker take the next value: an idle one, or else a new one.
  local function call_next()
    if idle > 0 then
      calls:offer(true)
      idle = idle - 1
    else
      add_worker(TAKE)
    end
    waiting = waiting + 1
  end

  -- On alert: whether the result of the job that has just returned is used.
  local function counts(worker)
    if worker.late then
      worker.late = false
      pcall(yield) -- if the job has not waited since it was cancelled, the cancellation is raised here, and caught
    end
    return not over and not worker.dropped
  end

  local worker_meta = {}

  -- Called when a worker ends; the last one closes `out`. Must not park. If memory runs out, `out` is closed at once.
  function worker_meta.__close(worker, err)
    local ok, failure = pcall(worker.close, err)
    local last = workers[count]
    workers[worker.number], last.number = last, worker.number
    workers[count], count = nil, count - 1
    if ok and ended and count == 0 and not over then ok, failure = pcall(close) end
    if not ok then guard.close(out, failure) end
  end

  -- The result channel of a worker that dies of an error; false if that error will not be reported.
  local function block_of(worker, err)
    return err ~= NO_ERROR and not is_cancellation(worker.result, err) and worker.result
  end

  -- Called when a worker dies while its job or the handler runs.
  local function job_failed(worker, at, seq, value, err)
    running = running - 1
    if worker.dropped then return end
    local block, late, tried = block_of(worker, err), worker.late, worker.tried + 1
    local again = at == JOB and tried < tries and (late or not is_cancellation(worker.result, err))
    if block and (late or again or ex_handler and at == JOB) then
      excuse(block, err)
      block = false
    end
    if late then err = late_error(late, err) end
    if again then
      add_worker(JOB, seq, value, nil, tried)
      running = running + 1
    elseif ex_handler and at == JOB then
      add_worker(HANDLER, seq, value, err)
      running = running + 1
    else
      ended_jobs = ended_jobs + 1
      fail(ordered and seq or ended_jobs, err, block)
    end
  end

  -- Called at the end of any worker, with what it was doing.
  local function died(worker, at, seq, value, err)
    if over or at == END then return end
    if err == nil then err = NO_ERROR end
    if at == JOB or at == HANDLER then
      job_failed(worker, at, seq, value, err)
    elseif at == PUT then
      fail(delivered + 1, err, block_of(worker, err))
    elseif at == TAKE then
      waiting = waiting - 1
      end_input(err, block_of(worker, err))
    else
      idle = idle - 1
    end
  end

  -- ---- what workers do: another try ----

  local function try_again(worker, value)
    sleep(backoff.pause(retry, worker.tried))
    if timeout then watch_over(worker) end
    local result = job(value)
    worker.tried = 0
    return result
  end

  -- ---- what workers do: unordered results of a channel's values ----

  -- Whether `begin` must be called when a job starts: not all workers have been started, or jobs are timed.
  local growing = timeout or n > 1

  local function begin(worker)
    waiting = waiting - 1
    if waiting == 0 and count < n and not ended then call_next() end
    growing = timeout or count < n
    if timeout then watch_over(worker) end
  end

  -- A worker puts the results of its own jobs, and any number of workers may wait for a value. When no worker waits any
  -- more, another one is started before f is called, since f may park.
  local function work_directly(worker)
    local at, seq, value = worker.at, worker.seq, worker.value
    function worker.look() return at, seq end
    function worker.close(err)
      local was = at
      at = END
      died(worker, was, seq, value, err)
    end
    local closing <close> = setmetatable(worker, worker_meta) -- luacheck: ignore 211
    local result
    while true do
      if at == TAKE then
        local next_value, err = take(source)
        if not next_value and next_value == nil then -- the first is the cheaper test
          end_input(err)
          break
        end
        at, value = JOB, next_value
        if growing then begin(worker) end
        result = f(value)
      elseif at == JOB then
        result = try_again(worker, value)
      else
        result = ex_handler(worker.err, value)
      end
      if alert and not counts(worker) then break end
      if result or result == false then
        at = PUT
        put(out, result)
      end
      at = TAKE
      value = nil
      if growing then waiting = waiting + 1 end
    end
    at = END
  end

  -- ---- what workers do: results in an order ----

  local function has_room() return running < n and started - delivered < window end

  -- Puts a result, and the results after it that are there by then.
  local function deliver(result)
    repeat
      if waiting == 0 and not ended and has_room() then call_next() end
      if result ~= NOTHING then put(out, result) end
      if over then return end
      delivered = delivered + 1
      result = results[delivered + 1]
      if result ~= nil then results[delivered + 1] = nil end
    until result == nil
  end

  local function work_in_turn(worker)
    local at, seq, value = worker.at, worker.seq, worker.value
    function worker.look() return at, seq end
    function worker.close(err)
      local was = at
      at = END
      died(worker, was, seq, value, err)
    end
    local closing <close> = setmetatable(worker, worker_meta) -- luacheck: ignore 211
    local result
    while true do
      if at == TAKE then
        local next_value, err = take(source)
        waiting = waiting - 1
        if next_value == nil then
          end_input(err)
          break
        end
        running = running + 1
        started = started + 1
        at, seq, value = JOB, started, next_value
        if timeout then watch_over(worker) end
        if waiting == 0 and has_room() then call_next() end
        result = f(value)
      elseif at == JOB then
        result = try_again(worker, value)
      else
        result = ex_handler(worker.err, value)
      end
      value = nil
      running = running - 1
      if alert and not counts(worker) then break end
      ended_jobs = ended_jobs + 1
      local place = ordered and seq or ended_jobs
      if result == nil then result = NOTHING end
      if place == delivered + 1 then
        at = PUT
        deliver(result)
      else
        results[place] = result
      end
      if ended then break end
      if waiting == 0 and has_room() then
        waiting = 1
      elseif idle == MOST_IDLE then
        break
      else
        idle = idle + 1
        at = IDLE
        if not take_value(calls) then break end
      end
      at = TAKE
    end
    at = END
  end

  work = direct and work_directly or work_in_turn
  call_next()
  guard.started(workers[1].result, what) -- the workers that it starts get the same name
  return out
end

-- ---- the public functions ----

local function check_timeout(ms, what)
  if type(ms) ~= "number" or ms ~= ms or ms < 0 or ms == math.huge then
    error(("%s: timeout: a finite number of milliseconds of 0 or more expected, got %s"):format(what, tostring(ms)), 3)
  end
end

local OPTIONS = { window = true, buffer = true, ex_handler = true, timeout = true, tries = true, retry = true }
local UNORDERED_OPTIONS = { buffer = true, ex_handler = true, timeout = true, tries = true, retry = true }

-- Called by the public functions as a tail call, so that a failed check blames the line that called the public
-- function.
local function checked(what, ordered, n, f, from, opts)
  check.integer(n, 1, what .. ": n")
  check.callable(f, what .. ": f")
  local take, source = take_value, from
  if not core.is_chan(from) then
    local got
    take, got = ends.iterator(from)
    source = nil
    if not take then
      error(("%s: from: a channel, a list or an iterator function expected, got %s"):format(what, got), 2)
    end
  end
  check.options(opts, ordered and OPTIONS or UNORDERED_OPTIONS, what)
  opts = opts or {}
  local window = opts.window or (n < math.maxinteger // AHEAD and n * AHEAD or math.maxinteger)
  check.integer(window, n, what .. ": window")
  check.callable_or_nil(opts.ex_handler, what .. ": ex_handler")
  if opts.timeout ~= nil then check_timeout(opts.timeout, what) end
  local tries, retry = backoff.options(opts, what, 1)
  local out = check.new_chan(opts.buffer, what .. ": buffer")
  return start(what, n, f, take, source, out, ordered, window, opts.ex_handler, opts.timeout, tries, retry)
end

---Calls a function with each value of a channel, at most n calls at a time, and gives the results in the order of the
---values; `window` limits how many wait for a slow job before them. A result is the first value that `f` returns; if
---that is nil there is no result. (For several results of one value return a list, and send the lists through
---rn.xf.cat; or use rn.pipeline_async.) `f` runs in a go block, so it may park, sleep, and start others.
---
---When `f` raises, and has been tried as often as `tries` tells, `ex_handler(err, v)` returns what to put instead. Without a handler no further job is started, the
---jobs of later values are cancelled, and the results of earlier values are put; when all jobs have ended, the channel
---of results closes with the error. Closing that channel cancels the jobs that run, and no further value is taken.
---@generic T, R
---@param n integer jobs at a time, from 1
---@param f (fun(v: T): R?)|runnel.Pool the job; or an object that can be called
---@param from runnel.Channel<T>|T[]|fun(): T? a channel, or a list (up to its first nil), or an iterator, which is
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
