---One message of a worker (runnel.queue.worker): whether it may start, its call, its answer, its next try, and giving
---it up.
---
---A message that was delivered before may have ended its process. So before each start the number of its starts is
---stored, and with it the number of tries that have raised. A first delivery is not counted, so most messages cost
---nothing. A message whose process has ended at each of its starts is given up. During its last two starts nothing else
---runs in the process, so that no other message is given up because of it. All this must work if a process ends between
---any two steps.

local backoff = require "runnel.internal.backoff"
local contexts = require "runnel.internal.trace_context"
local core = require "runnel.core"
local counts = require "runnel.queue.count"
local guard = require "runnel.internal.guard"
local hand_back = require "runnel.queue.hand_back"
local patience = require "runnel.queue.patience"
local remove = require "runnel.internal.remove"
local running = require "runnel.queue.running"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"

local internal = core.internal

local call = {}

---How often a message is started and tried.
---@class runnel.queue.Limits
---@field starts integer how often it is started if its process ends each time
---@field tries integer how often it is tried if the function raises
---@field retry number ms until the second try; doubled for each further one, up to a minute

---How often a message was started, and how its starts ended.
---@class runnel.queue.Count
---@field starts integer
---@field raises integer how many of the starts ended with an error
---@field error? string|table the last one, as timed_out.plain gives it
---@field errors? runnel.queue.TryError[] the beginnings of the last ones

---A message of a worker. The task adds what it needs.
---@class runnel.queue.Call
---@field worker runnel.Worker
---@field message any the keeper's
---@field limits runnel.queue.Limits
---@field count? runnel.queue.Count
---@field is_counted? boolean the keeper has a count of it
---@field since? number when its go block was started
---@field only_waited? boolean earlier deliveries only served to wait for the time of the message
---@field is_started? boolean its function was called
---@field block? runnel.Channel<any> its go block
---@field is_cancelled? boolean its result is not needed any more
---@field is_stopped? boolean the worker ends: the message goes to another worker
---@field has_left? boolean its call has ended
---@field operation? runnel.internal.Operation while traces are on
---@field problem? any why its function has failed

-- Key of a report: the counts of starts cannot be read or written, so redelivered messages cannot start.
local NOT_COUNTED <const> = "the server does not store the starts of messages for now: "

-- How many bytes of an error are stored with the count.
local LONGEST_ERROR <const> = 1000

-- ---- giving back ----

---Gives back a message that has not started. The delivery does not count as a start.
---@param self runnel.queue.Call
---@param ms? number
function call.give_back(self, ms)
  local message, keeper = self.message, self.worker.keeper
  if message.again == "first" then keeper:note_starts(message, { starts = 0, raises = 0 }) end
  keeper:back(message, ms)
end

-- ---- the end of a call ----

-- Called when the call has ended.
local function leave(self)
  if self.has_left then return end
  self.has_left = true
  if self.operation then contexts.finish(self.operation, self.problem) end
  local worker, message = self.worker, self.message
  if self.is_cancelled then worker.keeper:drop(message) end
  worker.keeper:back(message) -- no effect if it was answered
  if worker.running.lone == self then worker.running.lone = nil end
  worker.running:leave()
  worker:pump()
end

local function done(self)
  self.worker.counts.done = self.worker.counts.done + 1
  if self.is_counted then self.worker.keeper:forget_starts(self.message) end
end

local function set_count(self, count)
  self.count, self.is_counted = count, true
  return self.worker.keeper:set_starts(self.message, count)
end

-- Gives the message up: its last try has failed, or each start has ended its process. Returns whether it cannot be
-- delivered again.
local function give_up(self, err, trace)
  local worker = self.worker
  if worker.limit then worker.keeper:extend(self.message) end -- storing the dead letter is no part of the call
  local is_over = worker.task:give_up(self, err, trace)
  if is_over and self.is_counted then worker.keeper:forget_starts(self.message) end
  return is_over
end

-- Handles an error of the function.
local function failed(self, err, trace)
  self.problem = err
  local worker, count = self.worker, self.count or { starts = 1, raises = 0 }
  local is_handed_back, why, after = hand_back.read(err)
  self.count = count
  if is_handed_back then
    if why then worker:tell(("a %s was handed back: %s"):format(worker.task.unit, why), why) end
    count.starts = count.starts - 1
    set_count(self, count)
    return worker.keeper:back(self.message, math.max(1, after or patience.given_back))
  end
  local text = internal.error_text(err)
  worker.counts.failed, count.raises, count.errors = worker.counts.failed + 1, count.raises + 1,
    counts.with_error(count, text)
  worker:note_failure(self, text)
  -- Operators see the error of the last try. And if the answer of the last one is lost, the message comes again: it is
  -- then given up with the same error.
  local short = timed_out.with_text(err, text:sub(1, LONGEST_ERROR))
  count.error = timed_out.plain(short) or short
  if count.raises >= self.limits.tries then
    if not give_up(self, err, trace) and self.is_counted then set_count(self, count) end
    return
  end
  set_count(self, count)
  worker.keeper:back(self.message, math.max(1, backoff.pause(self.limits.retry, count.raises)))
end

-- ---- the start ----

-- Gives the message back for later, since the keeper could not read or store its count. Returns false.
local function wait_for_counts(self, why)
  self.worker:tell(NOT_COUNTED .. tostring(why), NOT_COUNTED)
  self.worker.keeper:back(self.message, patience.starts_again)
  return false
end

-- Waits until nothing else runs. Returns false if another message must run alone, too; this one is then given back.
local function wait_until_alone(self)
  local worker = self.worker
  if worker.running.lone then
    worker.keeper:back(self.message, patience.alone_again)
    return false
  end
  worker.running.lone = self
  for _, other in ipairs(worker.waiting) do call.give_back(other, patience.alone_again) end
  worker.waiting = {}
  worker.running:wait(1)
  return true
end

-- Counts the start of a message that was or may have been delivered before. Returns false if it cannot start; it is
-- then answered.
local function may_start(self)
  local worker, message = self.worker, self.message
  local count, err = worker.keeper:starts(message)
  if err then return wait_for_counts(self, err) end
  self.is_counted = count ~= nil
  local was_delivered = message.again == "again" and not self.only_waited
  count = count or { starts = was_delivered and 1 or 0, raises = 0 }
  self.count = count
  local limits, silent = self.limits, count.starts - count.raises
  if count.raises >= limits.tries then
    give_up(self, timed_out.of_plain(count.error))
    return false
  elseif silent >= limits.starts then
    give_up(self, worker.task:silent(silent))
    return false
  elseif silent > 0 and silent + running.ALONE >= limits.starts and not wait_until_alone(self) then
    return false
  end
  count.starts = count.starts + 1
  local ok, why, has_changed = set_count(self, count)
  if has_changed then -- another worker has the message, too: it has started it, or is ending
    worker.keeper:back(message, patience.starts_again)
    return false
  end
  if not ok then return wait_for_counts(self, why) end
  worker.told[NOT_COUNTED] = nil -- the next failure is reported again
  if was_delivered then worker.counts.redelivered = worker.counts.redelivered + 1 end
  return true
end

-- Calls the function with guard.try, and with the time limit.
local function try(self)
  local limit, task = self.worker.limit, self.worker.task
  self.is_started = true
  if not limit then return guard.try(task.run, task, self) end
  local keeper, message, late = self.worker.keeper, self.message, limit:error()
  local count, words = self.count or { starts = 1, raises = 0 }, task:last_words(self, late)
  count = { starts = count.starts, raises = count.raises + 1, error = timed_out.plain(late),
    errors = counts.with_error(count, late.message) }

  -- Until the time is over once more the keeper keeps the message for this worker; and if Lua does not run until then,
  -- the keeper ends the process.
  local function set_limit() keeper:limit(message, limit.ms, "runnel: " .. late.message, words, count) end

  local function renew() -- the call was cancelled, and closes its variables
    keeper:extend(message)
    set_limit()
  end

  set_limit()
  local results, err, dropped = limit:call(renew, guard.try, task.run, task, self)
  if results then return table.unpack(results, 1, results.n) end
  if dropped and not dropped[1] then time_limit.raised(err, dropped[2]) end
  return false, err, dropped and dropped[3]
end

-- Marks an outcome as failed if the function has returned nil and an error, as rn.pmap and pools of threads do.
local function judge(outcome)
  if outcome[1] == nil and outcome[2] ~= nil then outcome.failed, outcome.err = true, outcome[2] end
end

-- Stores the results of the function, for as long as that takes.
local function store(self, outcome)
  if self.worker.limit then self.worker.keeper:extend(self.message) end
  return self.worker.task:done(self, outcome)
end

-- The call belongs to the trace of its message.
local function continue_trace(self)
  local headers, task = self.message.headers or {}, self.worker.task
  self.operation = contexts.begin(headers.traceparent, headers.tracestate, ("%s %s"):format(task.what, task.name),
    "consumer", { ["messaging.destination.name"] = task.name })
end

local function run(self)
  internal.trace.set_context(nil) -- it is not a part of what the go block does that happened to start it
  if contexts.on then continue_trace(self) end
  if self.message.again ~= "first" and not may_start(self) then return leave(self) end
  local worker = self.worker
  if worker.rate then worker.rate:wait() end
  if worker.task.is_wanted and not worker.task:is_wanted(self) then
    self.is_cancelled = true
    return leave(self)
  end
  local ok, outcome, trace = try(self)
  if ok then judge(outcome) end
  if self.is_cancelled or self.is_stopped then return leave(self) end
  local err = outcome
  if ok and not outcome.failed then
    local is_stored, why
    ok, is_stored, why = guard.try(store, self, outcome)
    if ok and is_stored then
      done(self)
      return leave(self)
    end
    if ok then err, trace = why, nil else err, trace = is_stored, why end
  elseif ok then
    self.outcome, err, trace = outcome, outcome.err, outcome.traceback
  end
  if self.is_cancelled or self.is_stopped then return leave(self) end
  if not ok then guard.raise_cancelled(err) end
  failed(self, err, trace)
  leave(self)
end

-- Called when its go block has died, for example because the function has called coroutine.yield, or because something
-- in the message is damaged that the library reads. The error counts as the call's: a message that is only given back
-- would come again and again.
local function died(self, why, block)
  pcall(internal.excuse, block, why)
  if self.is_cancelled or self.is_stopped then return leave(self) end
  if why == nil then why = ("the go block of a %s died without an error"):format(self.worker.task.unit) end
  guard.go(function()
    self.worker.keeper:back(self.message, patience.starts_again)
    leave(self)
  end, nil, function()
    failed(self, why)
    leave(self)
  end)
end

---Starts the call.
---@param self runnel.queue.Call
function call.start(self)
  self.worker.running:enter()
  self.since = core.now()
  self.block = guard.go(died, self, run, self)
end

-- ---- from outside ----

---Cancels the call: its result is not needed any more.
---@param self runnel.queue.Call
---@param why string
function call.cancel(self, why)
  if self.is_cancelled then return end
  self.is_cancelled = true
  if self.block then return core.cancel(self.block, why) end
  remove(self.worker.waiting, self)
  self.worker.keeper:drop(self.message)
end

---Stops the call, since the worker ends: the message goes to another worker at once.
---@param self runnel.queue.Call
---@param why string
function call.stop(self, why)
  if self.is_stopped then return end
  self.is_stopped = true
  if self.block then core.cancel(self.block, why) end
  if self.is_started then self.worker.keeper:back(self.message) else call.give_back(self) end
end

return call
