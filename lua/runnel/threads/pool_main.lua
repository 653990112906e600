---The loop of each thread of a pool: it takes jobs and calls the function for them, at most n at a time.
---runnel.threads.pool describes the messages.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local living = require "runnel.internal.living"
local more = require "runnel.internal.errors.more"
local sendable = require "runnel.internal.sendable"
local thread_function = require "runnel.threads.thread_function"
local internal = core.internal

local take, put, poll, yield = internal.moving.take, internal.moving.put, core.methods.poll, core.yield
local shared_chan, now, begin_job = core.shared_chan, core.now, internal.begin_job

-- A thread need not ring for an answer if a later answer will ring soon: the job took at most SHORT ms; the next one,
-- if equally long, ends within SHORT ms after the first answer without a ring; and jobs for more than half of the
-- threads wait, which suffice until the state that takes the answers has put new ones.
local SHORT = 0.2

local A_JOB = "a job of a pool of threads"
local RAISED_NIL = "a job of a pool of threads has raised nil"

---A go block that runs jobs, one after another.
---@class runnel.PoolWorker
---@field block runnel.Channel<any> its result channel
---@field number integer|false the number of the call whose job it runs
---@field is_cancelled boolean whether that call was cancelled
---@field result? runnel.Channel<any> for the results of a job that gets a channel
---@field trace? string the traceback of the error with which it was closed
---@field failed integer|false the number of the last call whose job waited forever

-- The error of a job as its caller gets it.
local function told(err)
  if err == nil then return RAISED_NIL end
  return type(err) == "string" and sendable(err) or err
end

-- Calls the function of a job that gets a channel for its results.
local function call_async(self, f, value, result)
  local ok, err, trace = guard.try(f, value, result)
  if ok then return end
  guard.raise_cancelled(err)
  if result:closed() then return internal.report(err, trace, A_JOB) end
  self.trace = more.in_thread(err, trace)
  guard.close(result, told(err))
end

---@param what table see runnel.threads.thread_function
---@param n integer jobs at a time
---@param jobs runnel.Channel<table>
---@param answers runnel.Channel<table>
---@param bell runnel.Channel<true> to ring after an answer, or after several (runnel.threads.pool)
---@param cancels runnel.Channel<integer> the numbers of cancelled calls
---@param ready runnel.Channel<any> gets true, or why the function cannot be called
---@param enough integer while more jobs than this are in the queue, an answer need not ring
return function(what, n, jobs, answers, bell, cancels, ready, enough)
  local ok, f = pcall(thread_function, what)
  ready:put(ok or { internal.error_text(f) })
  if not ok then return end

  local workers, over = 0, core.chan() -- how many there are; closed when there are none
  local all = {} -- each worker -> true
  local busy = {} -- call number -> the worker that runs its job
  local last = 0 -- the last number taken
  local last_answer = 0 -- when this thread sent its last answer; it polls for some ms after that (see pool.lua)
  local unrung_since -- when this thread sent its first answer without ringing
  local awaited = {} -- numbers of cancelled calls whose jobs this thread has not seen yet
  local work

  -- ---- answers ----

  local function ring()
    unrung_since = nil
    bell:offer(true) -- if it is full, the receiver has not yet handled an earlier ring
  end

  -- Says that a job begins, without delay: its caller measures the time.
  local function tell_begin(number)
    local message = { number, false, false }
    if answers:offer(message) == nil then
      ring()
      put(answers, message)
    end
    ring()
  end

  -- Sends the message of a job that started then.
  local function answer(message, started)
    local time = now()
    local took, since = time - started, unrung_since or time
    local may_wait = took <= SHORT and time + took - since <= SHORT and #jobs > enough
    if answers:offer(message) == nil then
      ring() -- the receiver has to make room
      put(answers, message)
    end
    unrung_since = since
    local previous = last_answer
    last_answer = now() -- read the clock now: the system may have run other threads before
    if not may_wait or last_answer > previous + SHORT then ring() end
  end

  local function send(number, started, value, rest, second)
    local is_sent, err = pcall(answer, { number, value, rest, second }, started)
    if is_sent then return end
    local path = type(err) == "string" and err:match "%a+: value%[2%](.*)"
    if not path then error(err, 0) end
    if rest == true then answer({ number, internal.error_text(value), true, second }, 0)
    else answer({ number, "threads: result" .. path, true }, 0) end
  end

  -- `trace`: false if the job has returned the error, and not raised it.
  local function send_error(number, started, err, trace)
    send(number, started, told(err), true, trace)
  end

  -- ---- jobs ----

  local function do_async(self, number, started, value)
    local result = shared_chan(1)
    guard.go(guard.close, result, call_async, self, f, value, result)
    self.result, self.trace = result, nil
    local first, err = take(result)
    self.result = nil
    if first == nil then
      if err ~= nil then return send_error(number, started, err, self.trace) end
      return send(number, started)
    end
    local second
    if result:closed() then
      second, err = poll(result)
      if second == nil and err == nil then return send(number, started, first) end
    end
    send(number, 0, first, result, second)
    take(result:done())
  end

  local function do_sync(self, number, started, value)
    busy[number] = self
    local is_ok, result, trace = guard.try(f, value)
    busy[number] = nil
    if self.is_cancelled then
      self.is_cancelled = false
      pcall(yield) -- raises the cancellation here if the job has not parked since it was cancelled
    elseif is_ok and result == nil and trace ~= nil then -- it has returned nil and an error
      send_error(number, started, trace, false)
    elseif is_ok then
      send(number, started, result)
    else
      -- A cancellation is not raised again: a job that was cancelled because it waited forever has failed.
      send_error(number, started, result, more.in_thread(result, trace))
    end
  end

  -- Jobs come in the order of their numbers: none is awaited below the last.
  local function note_taken(number)
    last = number
    if next(awaited) == nil then return true end
    local is_wanted = not awaited[number]
    for cancelled in pairs(awaited) do
      if cancelled <= number then awaited[cancelled] = nil end
    end
    return is_wanted
  end

  -- ---- workers ----

  local function add_worker(worker_died)
    local self = { block = nil, number = false, is_cancelled = false, result = nil, trace = nil, failed = false }
    self.block = guard.go(worker_died, self, work, self)
    workers, all[self] = workers + 1, true
  end

  -- The job has called coroutine.yield, for example. A new worker replaces this one.
  local function worker_died(self, why, block)
    workers, all[self] = workers - 1, nil
    if self.number then
      busy[self.number] = nil
      pcall(internal.excuse, block, why)
      if not (self.is_cancelled or why == internal.INTERRUPTED) then core.go(send_error, self.number, 0, why) end
    end
    add_worker(worker_died)
  end

  local function next_job()
    if internal.thread_stops then return nil end
    local job = unrung_since and poll(jobs)
    if job then return job end
    if unrung_since then ring() end -- before this thread sleeps
    return take(jobs)
  end

  function work(self)
    core.rename "worker"
    for job in next_job do
      local number = job[1]
      if note_taken(number) then
        self.number = number
        if job[3] == "channel" then
          do_async(self, number, begin_job(number), job[2])
        else
          if job[3] then tell_begin(number) end
          do_sync(self, number, begin_job(number), job[2])
        end
        self.number = false
      end
      yield() -- the job may have been short, and have started others
    end
    workers = workers - 1
    if workers == 0 then over:close() end
  end

  -- All jobs wait forever: they fail, and the next ones begin. A job that keeps waiting ends the thread.
  function living.fail_stuck(err)
    local why = "deadlock: the job would wait for ever" .. (err:match "\n.*" or "")
    local some = false
    for worker in pairs(all) do
      if worker.number and worker.failed ~= worker.number then
        worker.failed, some = worker.number, true
        if worker.result then guard.close(worker.result, why)
        else core.cancel(worker.block, why) end
      end
    end
    return some
  end

  for _ = 1, n do add_worker(worker_died) end

  core.go(function()
    core.rename "cancelled calls"
    for number in internal.listen, cancels do
      local worker = busy[number]
      if worker then
        worker.is_cancelled = true
        core.cancel(worker.block, "the call was cancelled")
      elseif number > last then
        awaited[number] = true
      end
    end
  end)
  take(over)
end
