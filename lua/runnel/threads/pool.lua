---A pool of threads: the caller's side. The threads' side is runnel.threads.pool_main.
---
---One shared channel with a buffer carries jobs to the threads: each takes the next job when it is free. Another
---carries all answers back to a go block, the receiver, which exists while calls wait. While there is work, both sides
---find a value or room in the buffers, so most operations need no wakeup.
---
---Calls are numbered in the order in which their jobs are put. A message to the threads is { number, value, kind }: the
---kind is nil, or "channel" for a job that gets a channel for its results, or "timed" for one of which the caller wants
---to know when it begins. A message back is one of
---
---    { number, false, false }           a timed job begins
---    { number }, { number, value }      the result
---    { number, err, true, traceback }   the job has raised; there may be no traceback
---    { number, err, true, false }       the job has returned nil and an error
---    { number, first, channel, second } results of a job that gets a channel: one or two, and further ones come from
---                                       the channel
---
---No thread waits on the channel of answers, so a put there wakes none: the receiver polls it, and waits on another
---channel, the bell, when it is empty. A thread rings after it has put an answer. Waking a thread costs more than all
---the rest of a short call, so while enough jobs wait, a thread puts the answer of a short job without ringing, and a
---later answer rings for all of them. If the next job takes long instead, this state finds the answer when it polls
---again, after LOOK ms.
---
---Each thread also has a shared channel on which it gets the numbers of cancelled calls.

local io = io
local check = require "runnel.internal.check"
local core = require "runnel.core"
local everything = require "runnel.internal.living"
local decimal = require "runnel.internal.decimal"
local entries = require "runnel.internal.entries"
local guard = require "runnel.internal.guard"
local time_limit = require "runnel.internal.time_limit"
local more = require "runnel.internal.errors.more"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"
local timed_out = require "runnel.internal.timed_out"
local start = require "runnel.threads.start"
local internal = core.internal

local chan, take, put, is_plain = core.chan, internal.moving.take, internal.moving.put, internal.moving.is_plain
local raise, is_simulation = internal.raise, internal.is_simulation
local put_while_open, next_value = internal.moving.put_while_open, internal.moving.next
local sleep, yield = core.sleep, core.yield

-- Size of the buffers for jobs and for answers.
local CAPACITY = 1024

-- How long an answer without a ring waits at most, in ms: longer than the jobs whose answers do not ring. A shorter
-- time would cost more, since the kernel sets a timer for each wait that is shorter than its own tick.
local LOOK = 10

-- Size of the buffer for cancelled calls.
local CANCELS = 256

-- How many Call objects are kept to be used again.
local MOST_UNUSED = 256

---A call that waits for its answer.
---@class runnel.PoolCall
---@field pool runnel.Pool
---@field number integer
---@field done? runnel.Channel<true> gets true when `answer` has arrived
---@field answer? table
---@field value any its job's value
---@field begun? function to be called with `timer` when the job begins
---@field timer any
---@field to? runnel.Channel<any> of a job that gets a channel for its results: the one that the program has passed
local Call = {}
Call.__index = Call

---A pool of threads that call one function.
---@class runnel.Pool
---@operator call(any): any
---@field number integer
---@field jobs runnel.Channel<table>
---@field answers runnel.Channel<table>
---@field bell runnel.Channel<true> has a value when there may be new answers; closed when no thread is left
---@field package cancels runnel.Channel<integer>[] for each thread, the numbers of cancelled calls
---@field package results runnel.Channel<any>[] of the threads: each closes when its thread has ended
---@field package blocks runnel.Channel<any>[] of the go blocks that stand for them
---@field package calls table<integer, runnel.PoolCall> the waiting calls
---@field package waiting integer how many they are
---@field package delivering table<runnel.Channel<any>, true> the channels that still get results of answered calls; and
---others that are closed
---@field package last integer the number of the last call
---@field package failed integer calls whose function has raised, or returned nil and an error
---@field package where string what it calls, for messages
---@field package receiver? runnel.Channel<any> the receiver's result channel
---@field package ringer? runnel.Channel<any> the go block that rings the bell after LOOK ms
---@field package enough integer while more jobs than this are in the queue, answers need not ring
---@field package unused runnel.PoolCall[]
---@field package running integer threads that have not ended
---@field package caller string the function that has made it, for messages
---@field package ended? any why a thread has ended before the pool was closed
local Pool = {}
Pool.__index = Pool
Pool.__sign = "pool"

-- ---- calls that end ----

-- Forgets a call that no longer waits.
local function forget(pool, call)
  pool.calls[call.number] = nil
  pool.waiting = pool.waiting - 1
end

-- Passes on the results of a job that gets a channel for them: those in the message, then those from the channel.
local function deliver(pool, to, message)
  local from <close> = message[3] or nil
  if not put_while_open(to, message[2]) then return end
  local value, err = message[4], nil
  if value == nil and from then value, err = take(from) end
  while value ~= nil do
    if not put_while_open(to, value) then return end
    value, err = take(from)
  end
  pool.delivering[to] = nil
  guard.close(to, err)
end

local function answer_channel(pool, to, message)
  local value, rest = message[2], message[3]
  if value == nil then
    to:close()
  elseif rest == true then
    more.keep(value, message[4])
    guard.close(to, value)
  elseif not rest and is_plain(to) and to:offer(value) ~= nil then
    to:close()
  else
    pool.delivering[to] = true
    guard.go(guard.close, to, deliver, pool, to, message)
  end
end

-- Gives a call its answer.
local function complete(pool, call, message)
  if message[3] == false then return call.begun(call.timer) end
  forget(pool, call)
  if message[3] == true then pool.failed = pool.failed + 1 end
  if call.to then return answer_channel(pool, call.to, message) end
  call.answer = message
  call.done:offer(true)
end

-- Fails all calls that wait: no thread is left to answer them.
local function fail_all(pool, why)
  for number, call in pairs(pool.calls) do complete(pool, call, { number, why, true }) end
end

-- Rings after LOOK ms, and again as long as there were calls or answers in that time. After a time without any, the
-- next answer rings: an answer without a ring follows the same thread's last answer within much less than LOOK ms.
local function ring_after_look(pool)
  local seen
  repeat
    seen = 2 * pool.last - pool.waiting
    sleep(LOOK)
    pool.bell:offer(true)
    yield() -- to the receiver
  until 2 * pool.last - pool.waiting == seen
  pool.ringer = nil
end

local function ringer_died(pool, _, block)
  if pool.ringer == block then pool.ringer = nil end
end

-- Call it after each call and each answer: starts the ringer if it may be needed.
local function look_after(pool)
  if pool.ringer or pool.waiting <= pool.enough + 1 then return end
  pool.ringer = guard.started(guard.go(ringer_died, pool, ring_after_look, pool), "threads")
end

-- The receiver's loop.
local function receive(pool)
  local answers, is_over = pool.answers, false
  while pool.waiting > 0 do
    local message = next_value(answers, answers, true)
    if message then
      local call = pool.calls[message[1]]
      if call then complete(pool, call, message) end -- else it was cancelled
      look_after(pool)
    elseif is_over then
      fail_all(pool, pool.caller .. ": the thread of this call has ended: " .. internal.error_text(pool.ended))
    else
      is_over = not take(pool.bell)
    end
  end
  pool.receiver = nil
  if not pool.ringer then return end
  core.cancel(pool.ringer)
  pool.ringer = nil -- now: a call may begin before that go block has ended
end

-- The receiver was killed, or memory ran out.
local function receiver_died(pool, why)
  pool.receiver = nil
  fail_all(pool, why)
end

-- Called when a call ends. If the caller was cancelled while it waited, cancels the job as well.
function Call.__close(call)
  local pool = call.pool
  if pool.calls[call.number] ~= call then
    call.answer, call.value, call.begun, call.timer = nil, nil, nil, nil
    if #pool.unused < MOST_UNUSED and not call.done:poll() then pool.unused[#pool.unused + 1] = call end
    return
  end
  forget(pool, call)
  for _, cancels in ipairs(pool.cancels) do
    if cancels:offer(call.number) == nil then core.go(put, cancels, call.number) end
  end
  -- No further answer can arrive. The receiver is not cancelled, since a call may begin before it has ended.
  if pool.waiting == 0 and pool.receiver then pool.bell:offer(true) end
end

-- ---- calls that begin ----

local IN_A_SIMULATION = "%s: a simulation, whose time is virtual, cannot call a pool of threads: "
  .. "pass the function itself"

-- Puts a call's job.
local function submit(pool, call, value, kind)
  if is_simulation() then raise(IN_A_SIMULATION:format(pool.caller)) end
  local number = pool.last + 1
  call.number, call.value, pool.last = number, value, number
  pool.calls[number], pool.waiting = call, pool.waiting + 1
  if not pool.receiver then
    pool.receiver = guard.started(guard.go(receiver_died, pool, receive, pool), "threads")
  end
  look_after(pool)
  local ok, accepted = pcall(put, pool.jobs, { number, value, kind })
  if ok and accepted then return end
  if pool.calls[number] == call then forget(pool, call) end
  if ok and pool.ended ~= nil then
    raise(pool.caller .. ": a thread of the pool has ended: " .. internal.error_text(pool.ended))
  elseif ok then
    raise(pool.caller .. ": the pool is closed")
  end
  local path = type(accepted) == "string" and accepted:match "put: value%[2%](.*)"
  if path then raise(("%s: value%s"):format(pool.caller, path)) end
  error(accepted, 0)
end

---Calls the function in a thread, and returns its first result, or nil and an error as the function does; or raises its
---error. With `result`, the channel of a job of rn.pipeline_async, the function gets a channel in place of it, and this
---returns at once.
---@param value any
---@param result? runnel.Channel<any>
---@param begun? function called as begun(timer) when the job begins
---@param timer? any
---@return any result
---@return any err
function Pool:__call(value, result, begun, timer)
  if result ~= nil then return submit(self, { pool = self, number = 0, value = nil, to = result }, value, "channel") end
  local call <close> = table.remove(self.unused) or setmetatable({ pool = self, number = 0, value = nil,
    done = chan(1), answer = nil, to = nil, begun = nil, timer = nil }, Call)
  call.begun, call.timer = begun, timer
  submit(self, call, value, begun and "timed")
  take(call.done)
  local answer = call.answer
  if not answer[3] then return answer[2] end
  if answer[4] == false then return nil, answer[2] end
  more.keep(answer[2], answer[4])
  error(answer[2], 0)
end

-- ---- the end ----

-- The job with that number, and the value of its call if the call still waits.
local function describe_job(pool, number)
  local call = pool.calls[number]
  if not call then return ("job %d, whose call waits no more"):format(number) end
  return ("job %d, value %s"):format(number, short.value(call.value, 60))
end

---@class runnel.internal.pools
---@field patience number ms after which a closing pool says what it waits for
---@field package made integer how many pools were made
---@field living table<integer, runnel.Pool> those with threads, by their numbers. Its values are weak: none has been
---finalized
local pools = { patience = 5000, made = 0, living = setmetatable({}, { __mode = "v" }) }

-- Says after `patience` which jobs have not ended.
local function report_slow(pool)
  core.rename "close of a pool"
  sleep(pools.patience)
  local lines, doing = {}, {}
  for _, entry in ipairs(core.ps()) do
    if entry.result then doing[entry.result] = (" (%s)"):format(entries.doing(entry, true)) end
  end
  for i, block in ipairs(pool.blocks) do
    if not pool.results[i]:closed() then
      lines[#lines + 1] = ("\n  thread %d of %d%s: %s"):format(i, #pool.blocks, doing[block] or "",
        describe_job(pool, internal.job_of(block)))
    end
  end
  io.stderr:write(("runnel: %s: closing the pool has waited %s s for jobs that have not ended:%s\n"):format(
    pool.results[1]:name(), decimal.format("%g", pools.patience / 1000), table.concat(lines)))
end

local SlowReport = { __close = function(report) core.cancel(report.block) end }

-- ---- the pool ----

-- Whether results are missing of a job whose caller waits for them.
local function has_jobs(pool)
  for to in pairs(pool.delivering) do
    if not to:closed() then return true end
  end
  return pool.waiting > 0
end

-- Accepts no more jobs, and waits until the threads have ended. After `timeout` ms it cancels what they do. Returns
-- whether there were jobs then: without jobs a thread ends, but that takes time, too.
local function finish(self, timeout)
  self.jobs:close()
  local block = self.running > 0 and not is_simulation() and core.go(report_slow, self)
  local _ <close> = block and setmetatable({ block = block }, SlowReport) or nil
  local alarm <close>, is_late, had_jobs = guard.alarm(timeout), false, false
  for _, result in ipairs(self.results) do
    if timeout and not is_late then
      is_late = select(2, core.alts({ result, alarm.over }, { priority = true })) == alarm.over
      if is_late then
        had_jobs = has_jobs(self)
        self.ended = self.ended or "the pool was drained"
        for _, thread in ipairs(self.blocks) do core.cancel(thread, "the pool was drained") end
      end
    end
    result:take()
  end
  return had_jobs
end

---Accepts no more jobs, and waits until its jobs are done and its threads have ended. After 5 s a message on stderr
---names the unfinished jobs.
---@param timeout? number ms; jobs that still run then are cancelled; default never
---@return boolean drained false if jobs were cancelled
---@return runnel.TimedOut? err
function Pool:drain(timeout)
  sign.own(self, "pool", "drain")
  if timeout ~= nil then check.ms(timeout, 0, "drain: timeout") end
  if finish(self, timeout) then return timed_out.of_drain(self.results[1]:name(), timeout --[[@as number]]) end
  return true
end

time_limit.mark_later(Pool)

-- An error, such as a cancellation or Ctrl-C, that ends the block with the pool must not wait for jobs whose results
-- nobody will take.
function Pool:__close(err) finish(self, err ~= nil and 0 or nil) end
Pool.__name = "pool of threads"

-- When the pool is collected, its threads end.
function Pool:__gc() self.jobs:close() end

local function thread_ended(self, result, ready)
  self.running = self.running - 1
  if not self.jobs:closed() then
    -- The other threads run the queued jobs. Then calls without an answer fail: this thread may have had their jobs.
    local _, why = result:poll()
    self.ended = why or "its function has returned"
    self.jobs:close()
    ready:close(self.ended)
  end
  if self.running > 0 then return end
  self.bell:close()
  pools.living[self.number] = nil
end

local function add_thread(self, result, block, cancels, ready)
  local i = #self.results + 1 -- earlier ones may have ended
  self.results[i], self.blocks[i], self.cancels[i] = result, block, cancels
  self.running = self.running + 1
  -- The thread must not keep the pool from being collected.
  local ref = setmetatable({ self }, { __mode = "v" })
  internal.on_close(result, function()
    if ref[1] then thread_ended(ref[1], result, ready) end
  end)
end

---What a pool does, and its counters.
---@param self runnel.Pool
---@return { where: string, threads: integer, calls: integer, failed: integer, running: integer, waiting: integer }
function pools.stats(self)
  local queued = math.min(self.jobs:stats().values, self.waiting)
  return { where = self.where, threads = self.running, calls = self.last, failed = self.failed,
    running = self.waiting - queued, waiting = queued }
end

---Makes a pool of k threads.
---@param k integer
---@param what table what they call: start.describe has returned it
---@param where string and its name
---@param caller string the function that the program has called
---@param n integer jobs that each thread does at a time
---@return runnel.Pool?
---@return string? why that is impossible
function pools.make(k, what, where, caller, n)
  pools.made = pools.made + 1
  local self = setmetatable({
    number = pools.made,
    jobs = core.shared_chan(CAPACITY), answers = core.shared_chan(CAPACITY), bell = core.shared_chan(1),
    cancels = {}, results = {}, blocks = {}, calls = {}, waiting = 0, last = 0, failed = 0, receiver = nil,
    delivering = setmetatable({}, { __mode = "k" }), ringer = nil, enough = k // 2, unused = {}, running = 0,
    caller = caller, where = where, ended = nil,
  }, Pool)
  self.jobs:name(start.name(("jobs of %s %s"):format(caller, where)))
  self.answers:name(start.name(("answers of %s %s"):format(caller, where)))
  self.bell:name(start.name(("bell of %s %s"):format(caller, where)))
  local ready = core.shared_chan(k)
  -- Waits until the threads that have begun have ended, and takes their errors: the caller gets one for all.
  local function not_ready(why)
    self.jobs:close()
    for _, result in ipairs(self.results) do result:take() end
    return nil, internal.error_text(why)
  end
  for _ = 1, k do
    local cancels = core.shared_chan(CANCELS):name(start.name(("cancelled calls of %s %s"):format(caller, where)))
    local result, block = start.thread({ module = "runnel.threads.pool_main" }, where, caller,
      what, n, self.jobs, self.answers, self.bell, cancels, ready, self.enough)
    if not result then return not_ready(block) end
    add_thread(self, result, block, cancels, ready)
  end
  for _ = 1, k do
    local is_ready, err = ready:take()
    if is_ready ~= true then return not_ready(is_ready and is_ready[1] or err) end
  end
  pools.living[self.number] = self
  return self
end

---The go blocks that stand for threads of pools which have calls without an answer.
---@return table<runnel.Channel<any>, true>
function pools.busy()
  local busy = {}
  for _, pool in pairs(pools.living) do
    for _, block in ipairs(pool.waiting > 0 and pool.blocks or {}) do busy[block] = true end
  end
  return busy
end

everything.pools, everything.pool_stats, everything.busy_threads = pools.living, pools.stats, pools.busy

return pools
