---A worker: takes messages from a queue, and calls a function for each, at most n at a time. It decides when a message
---starts, is tried again, or is given up (runnel.queue.call). Its keeper stores the messages (docs/keepers.md).
---Its task knows their contents: jobs of a remote stage, or messages of a durable one.

local call = require "runnel.queue.call"
local check = require "runnel.internal.check"
local core = require "runnel.core"
local everything = require "runnel.internal.living"
local guard = require "runnel.internal.guard"
local patience = require "runnel.queue.patience"
local report = require "runnel.queue.report"
local running = require "runnel.queue.running"
local sign = require "runnel.internal.sign"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"

local internal = core.internal
local now = core.now

---What a worker does with its messages.
---@class runnel.queue.Task
---@field what string the function that the program has called, for errors, as in "serve"
---@field unit string what a message is called, as in "job"
---@field name string of the queue
---@field worker runnel.Worker is set when the worker starts
---@field duplicates? integer 0 if it counts results that were stored before
---@field read fun(self, message: any): runnel.queue.Call? reads a message; answers it and returns nil if it is not for
---this worker
---@field is_wanted? fun(self, call: runnel.queue.Call): boolean whether its result is still needed
---@field run fun(self, call: runnel.queue.Call): table calls the function, and returns the outcome: its results, and
---their number n; if the outcome is a failure, also `failed`, `err` and `traceback`
---@field done fun(self, call: runnel.queue.Call, outcome: table): boolean?, any stores the results, and answers the
---message. Parks for as long as that takes; nil and the reason if they can never be stored
---@field give_up fun(self, call: runnel.queue.Call, err: any, trace: string?): boolean? answers a message whose last
---try has failed. Returns true if it cannot be delivered again
---@field silent fun(self, starts: integer): string the error of a message whose process has ended at each start
---@field last_words fun(self, call: runnel.queue.Call, late: string): any what the keeper publishes if the process has
---to be ended because a call is over its timeout; nil: only the count of the failure
---@field value fun(self, call: runnel.queue.Call): any the value of a message, to be shown
---@field close? fun(self) the worker has ended

---A worker.
---@class runnel.Worker
---@field name string
---@field n integer
---@field err any why the worker has ended, unless the program has ended it
---@field package keeper runnel.queue.Keeper
---@field package task runnel.queue.Task
---@field package limit runnel.internal.Limit? of the time of a call
---@field package rate? { wait: fun(self) } limits how often calls start
---@field package held table<any, runnel.queue.Call> the messages that it has, by their ids
---@field package waiting runnel.queue.Call[] those that have not started
---@field package running runnel.Running
---@field package counts table<string, integer>
---@field package last_failure? table of the last try that has failed, for `report`
---@field package told table<string, boolean> reports that were already made
---@field package is_paused boolean no call is started, because an operator has paused the queue
---@field package is_open boolean it asks for messages
---@field package is_over boolean it has ended
---@field package ended runnel.Channel<any> closes when it has ended
local Worker = {}
Worker.__index = Worker
Worker.__sign = "stage|worker"
Worker.__name = "worker"

local worker = {}

---The workers of this Lua state that have not ended, for rn.metrics.
---@type table<runnel.Worker, true>
worker.living = setmetatable({}, { __mode = "k" })

-- ---- what comes ----

---How many messages may come now.
function Worker:room()
  if not self.is_open or self.is_paused or self.running.lone then return 0 end
  return self.n - self.running.count - #self.waiting
end

-- Takes a message from the keeper. Must not park.
local function take(self, message)
  local held = self.held[message.sequence]
  -- The keeper has delivered the message again while this worker has it: perhaps the extensions of the lease were lost
  -- in the network.
  if held and self.keeper:join(held.message, message) then return end
  local new = self.task:read(message)
  if new then
    new.worker, new.message = self, message
    self.held[message.sequence] = new
    if self.is_open and not self.running.lone then
      self.waiting[#self.waiting + 1] = new
    else
      call.give_back(new, self.running.lone and patience.alone_again or nil)
    end
  end
  self:pump()
end

---Starts waiting messages, and fetches more.
function Worker:pump()
  if self.is_over then return end
  while self.waiting[1] and not self.is_paused and not self.running.lone and self.running.count < self.n do
    call.start(table.remove(self.waiting, 1))
  end
  if self.is_open then self.keeper:fetch() end
end

---Called when a message has been answered.
function Worker:answered(message)
  local held = self.held[message.sequence]
  if held and held.message == message then self.held[message.sequence] = nil end
end

---Cancels the messages that satisfy a condition, and answers them.
---@param condition fun(call: runnel.queue.Call): boolean
---@param why string
function Worker:cancel(condition, why)
  for _, one in pairs(self.held) do
    if condition(one) then call.cancel(one, why) end
  end
  self:pump()
end

-- ---- the end ----

local function finish(self)
  if self.is_over then return end
  self.is_over, self.is_open = true, false
  worker.living[self] = nil
  if self.alive then core.cancel(self.alive) end
  self.keeper:close()
  if self.task.close then self.task:close() end
  self.ended:close()
end

-- Takes no more messages, and gives back those that have not started.
local function refuse_more(self, why)
  if not self.is_open then return end
  self.is_open = false
  self.waiting = {}
  self.keeper:close()
  for _, one in pairs(self.held) do
    if not one.is_started then call.stop(one, why) end
  end
end

---Takes no more messages, and waits for the calls that run. Messages that have not started are delivered to other
---workers.
---@param timeout? number ms; calls that still run then are cancelled, and their messages delivered to others
---@return boolean ended false if calls were cancelled
---@return runnel.TimedOut? err
function Worker:drain(timeout)
  sign.own(self, "stage|worker", "drain")
  if timeout ~= nil then check.ms(timeout, 0, "drain: timeout") end
  if self.is_over then return true end
  refuse_more(self, "the worker drains")
  local in_time = self.running:wait(0, timeout)
  self:stop()
  if not in_time then return timed_out.of_drain(("%s %s"):format(self.kind, self.name), timeout) end
  return true
end

---Ends the worker. Cancels the calls that run; their messages are delivered to other workers.
function Worker:stop()
  sign.own(self, "stage|worker", "stop")
  if self.is_over then return end
  refuse_more(self, "the worker was stopped")
  for _, one in pairs(self.held) do call.stop(one, "the worker was stopped") end
  finish(self)
end

-- Called when nothing comes any more. `is_lost`: nothing can be answered either.
local function over(self, err, is_lost)
  if self.is_over then return end
  if self.is_open then self.err = err end
  if is_lost then return self:stop() end
  if not self.is_open then return end -- it already drains
  refuse_more(self, err)
  guard.started(guard.go(guard.nothing, nil, function()
    self.running:wait(0)
    finish(self)
  end), self.task.what)
end

Worker.__close = function(self) self:stop() end

---Waits until the worker has ended: it was drained or stopped, the connection has ended, or its queue was deleted.
---@return boolean? ended nil if the program has not ended it
---@return any err why it has ended then
function Worker:wait()
  sign.own(self, "stage|worker", "wait")
  self.ended:take()
  if self.err ~= nil then return nil, self.err end
  return true
end

---A channel that closes when the worker has ended.
---@return runnel.Channel<any> done
function Worker:done()
  sign.own(self, "stage|worker", "done")
  return self.ended
end

-- ---- what it says ----

---Counters: messages `done`, `failed` tries, messages `given_up`, starts of `redelivered` messages, calls that are
---`running`, and messages `waiting` here for their start. A stage also has `duplicates`: results that the stream
---already had.
---@return table<string, integer>
function Worker:stats()
  sign.own(self, "stage|worker", "stats")
  local copy = { running = self.running.count, waiting = #self.waiting }
  for name, count in pairs(self.counts) do copy[name] = count end
  return copy
end

---Its state, for operators.
---@return table
function Worker:report()
  local calls = {}
  for _, one in pairs(self.held) do
    if one.since then
      calls[#calls + 1] = report.call(self.task:value(one), now() - one.since, one.message.deliveries)
    end
  end
  return report.worker(self:stats(), self.n, self.is_paused, calls, self.last_failure)
end

---A try has failed.
---@param one runnel.queue.Call
---@param text string its error
function Worker:note_failure(one, text)
  self.last_failure = report.failure(self.task:value(one), one.message.sequence, one.count.starts, text)
end

---Pauses or resumes the start of calls. Messages that it has wait here.
---@param is_paused boolean
function Worker:pause(is_paused)
  self.is_paused = is_paused
  self:pump()
end

---Reports a problem, once for each key.
---@param message string
---@param key? string the message, by default
function Worker:tell(message, key)
  key = key or message
  if self.told[key] then return end
  self.told[key] = true
  local where = self.task.what .. " " .. self.name
  internal.report(where .. ": " .. message, nil, where)
end

-- Key of a report: dead letters cannot be stored.
local NOT_BURIED <const> = "a dead letter cannot be stored for now: "

---Stores something, with a method of the keeper that returns a true value; or a false one, the reason, and whether the
---same call may succeed later. Calls it again as long as it may, and reports that after a while. Parks.
---@param problem string the beginning of the report, as in "results cannot be stored for now: "
---@param method string
---@param ... any its arguments
---@return any stored
---@return any result what the method has returned second: if nothing was stored, why it never can be
function Worker:store(problem, method, ...)
  local since, keeper = now(), self.keeper
  while true do
    local stored, result, passes = keeper[method](keeper, ...)
    if stored then
      self.told[problem] = nil -- the next time is reported as well
      return stored, result
    end
    if not passes then return stored, result end
    if now() - since >= patience.results_told then self:tell(problem .. tostring(result), problem) end
    core.sleep(patience.results_again)
  end
end

---Stores a dead letter, as `store` does, so that what is given up is not lost. Parks.
---@param letter runnel.DeadLetter
---@return boolean? stored
---@return string? err why it never can be
function Worker:bury(letter) return self:store(NOT_BURIED, "bury", letter) end

function Worker:__tostring() return ("%s: %s (%d/%d)"):format(self.kind, self.name, self.running.count, self.n) end

-- Tells the keeper periodically that Lua runs. While a call computes Lua does not run, and cannot cancel it: so a
-- thread of the keeper ends the process then. Returns the go block, to be cancelled at the end.
local function show_life(keeper, timeout, what)
  local tick = math.max(5, math.min(timeout / 16, 250))
  return guard.started(guard.go(guard.nothing, nil, function()
    while true do
      keeper:alive()
      core.sleep(tick)
    end
  end), what)
end

---@class runnel.queue.WorkerOptions
---@field kind string what it is: "worker" or "stage"
---@field n integer how many calls may run at a time
---@field keeper runnel.queue.Keeper
---@field task runnel.queue.Task
---@field timeout? number ms that a call may take
---@field rate? { wait: fun(self) }
---@field is_paused boolean

---Starts a worker.
---@param opts runnel.queue.WorkerOptions
---@return runnel.Worker? worker, string? err
function worker.start(opts)
  local self = setmetatable({
    name = opts.task.name, kind = opts.kind, n = opts.n, keeper = opts.keeper, task = opts.task,
    limit = nil, rate = opts.rate, is_paused = opts.is_paused, is_open = true, is_over = false, held = {},
    waiting = {}, told = {}, running = running.new(), ended = core.chan(),
    counts = { done = 0, failed = 0, given_up = 0, redelivered = 0 },
  }, Worker)
  self.task.worker, self.counts.duplicates = self, self.task.duplicates
  local ok, err = self.keeper:open {
    n = self.n,
    room = function() return self:room() end,
    take = function(message)
      self.told.silent = nil -- the next silence is reported as well
      take(self, message)
    end,
    answered = function(message) self:answered(message) end,
    silent = function(why) self:tell(("no %ss for now: %s"):format(self.task.unit, why), "silent") end,
    over = function(reason, is_lost) over(self, reason, is_lost) end,
  }
  if not ok then return nil, err end
  worker.living[self] = true
  if opts.timeout then
    local what = self.task.what .. " " .. self.name
    self.limit = time_limit.new(what .. ": a call had not ended", opts.timeout)
    self.alive = show_life(self.keeper, opts.timeout, what)
  end
  self:pump()
  return self
end

everything.workers = worker.living

return worker
