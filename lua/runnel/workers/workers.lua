---Pools of workers: n workers take values, call a function with each, and put its results. pmap and flow use them. (The
---pipelines do not: their jobs end when their channels close.)
---
---A worker is a table; its go block does the work. It calls the function without pcall: if the function raises, the go
---block dies, so that the traceback shows only the program's own code, and `died` decides what the worker does next, in
---a new go block. The pool owns a value from the take until its results are accepted, `emit` has them, or `failed`
---returns nil for it.
---
---In the common case a worker loops over `exchange`, one C call that puts a result and takes the next value. A special
---case (a pause, early values, the end) turns the worker "off": `exchange` then returns at once, and the worker calls
---`taking.next_value`, which handles all special cases. Workers that must take one at a time (in order, or from an
---iterator that may wait) do not put by `exchange`.
---
---This file has the pool and its methods. workers/ has `at_once` and `in_turn`, the loops of workers; `calls`,
---the processing of a value; `taking`, the take; `early`, values before the input; `failure`, the handling of an error.

local core = require "runnel.core"
local early = require "runnel.workers.early"
local failure = require "runnel.workers.failure"
local guard = require "runnel.internal.guard"
local in_turn = require "runnel.workers.in_turn"
local lanes = require "runnel.workers.lanes"
local calls = require "runnel.workers.calls"
local time_limit = require "runnel.internal.time_limit"
local taking = require "runnel.workers.taking"
local work_at_once = require "runnel.workers.at_once"
local internal = core.internal

local chan, cancel, go, take = core.chan, core.cancel, guard.go, internal.moving.take
local hide, withdraw, of_worker = internal.trace.hide, internal.withdraw_take, internal.worker
local at_rest = calls.at_rest
local phase_of, set_off, taken_by = of_worker.phase, of_worker.set_off, of_worker.taken

---@class runnel.internal.WorkersSpec
---@field what string the function that the program called: names the go blocks, with the line of the call
---@field timed string names the job in messages about timeouts and failures
---@field job function job(value) -> result, or nil and an error, which counts as raised; of a source job(put, state)
---@field is_step? boolean job(value, put, state) -> result, output
---@field n integer workers
---@field lazy? boolean start them when they are needed
---@field from? runnel.Channel<any>|function a channel or an iterator; nil: a source, which has one worker and one job
---@field to? runnel.Channel<any>|false
---@field closes? runnel.Channel<any> closes with the error that kills a worker when no memory is left to do more
---@field window? integer in order: jobs that were started and not delivered, at most
---@field never_waits? boolean `from` is an iterator that never waits: so all workers may take at the same time
---@field tries? integer
---@field retry? number
---@field timeout? number
---@field key? fun(value: any): any jobs of the same key run in order, one at a time (lanes)
---@field main fun(worker: runnel.internal.Worker, run: function) calls run(worker); may wait
---@field emit fun(value: any, output: any, worker: runnel.internal.Worker, is_helper: boolean|nil) gets what cannot
---simply be put, by a go block that a job has started if is_helper; may wait
---@field failed fun(worker: runnel.internal.Worker, failure: runnel.internal.Failure): function|"again"|"hold"|nil
---@field lost? fun(failure: runnel.internal.Failure): boolean a job that was dropped has failed; returns whether its
---error needs no report
---@field done? fun() a value, and all that it led to, is done
---@field ended fun(err: any) all workers have ended

---@class runnel.internal.Failure
---@field phase "take"|"job"|"put"|"handler"|"main"
---@field value any
---@field seq? integer
---@field err any
---@field traceback? string
---@field tries integer
---@field block runnel.Channel<any>|false the go block that has died of it, if that is to be reported
---@field cancelled runnel.Channel<any>|false the go block that has died of it, if it was cancelled

---A worker. While it runs, `hand` returns its state: its activity (or nil: see `at`), the value of its job, the number
---of that job, and in a put the result and its output. Reports of deadlocks also read `from` and `to`.
---@class runnel.internal.Worker
---@field pool runnel.internal.Pool
---@field number integer counts the workers of a pool
---@field place integer|false where in the list of workers it is
---@field block runnel.Channel<any>|false its go block
---@field exchange function puts a result and takes the next value (lua/internal/worker.c)
---@field put fun(value: any, output: any): true the put function of its jobs
---@field call table|false stands for the calls that have got that function
---@field to runnel.Channel<any>|false where results go; false: `emit` gets them
---@field job function|false what it calls with a value, if nothing else is to be done
---@field step function|false the same for a step
---@field state any the program's; `main` sets it
---@field at string|nil what it does: "idle" (waits until it may take), "lane" (until it may call), "gate" (until the
---pool is not paused), "pause" (before the next try), "turn" (a job that puts, until the results before it have
---left), "handler", "put", "held" (it has no go block, and a value that has failed), "main" (in `main`, outside `run`),
---"end"; nil: what phase_of says
---@field hand function
---@field next string|nil with what its next go block begins, if that is not a take
---@field instead function|nil what its handler is
---@field kept table|nil what its step has put, until that returns
---@field tried integer how often the value was tried
---@field deadline number|false of its job
---@field before any the worker with the deadline before its own, or the limit; false: it is not in the limit's ring
---@field after any the one after its own
---@field tries_again boolean its job is tried again if it raises, so the core writes no traceback (errors/error.c)
---@field late any|false the error of its job, which was cancelled because it is late
---@field lane runnel.internal.Lane|false where it is, from its value on
---@field has_place boolean it may call the function
---@field gate runnel.Channel<any>|false where it waits for that
---@field ticket integer the number of its value in a pool with keys
---@field held? runnel.internal.Failure
---@field dropped boolean the result of its job is dropped, and its failure, too
---@field retired boolean

---@class runnel.internal.Pool
---@field workers runnel.internal.Worker[]
---@field origin any
---@field err any the error with which the input has closed
---@field paused boolean
---@field finishing boolean nothing more comes from the input
---@field gate runnel.Channel<any>|nil where workers wait during a pause
---@field early runnel.internal.Early
---@field order runnel.internal.Order|nil if only one worker at a time takes
---@field limit runnel.internal.Limit|nil
---@field begins_later boolean the time of a job is limited, and begins later than its call (time_limit.is_later)
---@field lanes runnel.internal.Lanes|nil only if its jobs have keys
---@field got integer how many values were taken, but by the exchanges of its workers
---@field by_exchange boolean values are taken by exchange: from a channel, or an iterator that never waits
---@field keeps boolean what a step puts leaves when it returns
---@field renews_put boolean each call gets a put function of its own
local Pool = {}
Pool.__index = Pool

local workers = { FINISHED = calls.FINISHED }

-- Whether only one of n workers takes at a time.
local function needs_order(pool, n)
  return not pool.is_source and (not pool.by_exchange or pool.lanes or pool.window and n > 1)
end

---Makes a pool of workers; nothing runs before its method start.
---@param spec runnel.internal.WorkersSpec
---@return runnel.internal.Pool
function workers.new(spec)
  local list, origin = {}, internal.origin(spec.what)
  local pool = setmetatable({
    workers = list, origin = origin, err = nil, timed = spec.timed, n = spec.n, lazy = spec.lazy or false,
    from = spec.from, to = spec.to or false, closes = spec.closes or false, window = spec.window or nil,
    job = spec.job, is_step = spec.is_step or false, is_source = spec.from == nil, is_channel = core.is_chan(spec.from),
    by_exchange = spec.never_waits or core.is_chan(spec.from), tries = spec.tries or 1, retry = spec.retry,
    main = spec.main, emit = spec.emit, failed = spec.failed, lost = spec.lost, done = spec.done, ended = spec.ended,
    limit = spec.timeout and time_limit.new(spec.timed .. " had not ended", spec.timeout) or nil,
    begins_later = spec.timeout ~= nil and time_limit.is_later(spec.job),
    keeps = spec.timeout ~= nil or spec.tries ~= nil and spec.tries > 1, numbers = 0, newest = nil,
    paused = false, finishing = false, gate = nil, early = early.new(), got = 0, order = nil, renews_put = false,
    lanes = nil,
  }, Pool)
  if spec.key then
    pool.lanes = lanes.new(spec.what, spec.n, spec.key)
    pool.n, pool.lazy = spec.window or lanes.width(spec.n), true
  end
  pool.renews_put = pool.is_step and pool.keeps
  if needs_order(pool, pool.n) then pool.order = in_turn.new(pool, pool.window) end
  return pool
end

-- ---- workers ----

-- Works until the worker is to end.
local function run(worker)
  local pool = worker.pool
  local ends = worker.next == "end"
  if ends then worker.next = nil end
  while not (ends or worker.dropped) do
    if pool.order then pool.order.work(worker) else work_at_once(worker) end
    worker.hand, worker.value, worker.seq, worker.result, worker.output = at_rest, nil, nil, nil, nil
    ends = pool.is_source or taking.is_over(worker)
  end
  if pool.is_source then pool.finishing = true end
  if pool.renews_put then pool:renew_put(worker) end -- for what `main` calls
  worker.at = "main"
end

-- Ends a worker. A second call does nothing: the caller repeats it if memory runs out.
local function leave(worker)
  local pool = worker.pool
  local list = pool.workers
  worker.at, worker.block = "end", false
  if worker.lane then pool.lanes:leave(worker) end
  -- The last worker takes this one's place in the list, so that the cost does not depend on their number.
  local place, last = worker.place, list[#list]
  if place then
    pool.got = pool.got + taken_by(worker.exchange)
    list[place], last.place = last, place
    list[#list], worker.place = nil, false
  end
  pool:call_next()
  if #list > 0 or not pool.finishing then return end
  if pool.limit then pool.limit:stop() end
  pool.ended(pool.err)
end

local function body(worker)
  worker.pool.main(worker, run)
  leave(worker)
end

local spawn

-- Restarts a worker whose go block has died, if it is to continue; returns whether it does.
local function go_on(worker, ...)
  local what = failure.decide(worker, ...)
  if what == "hold" then worker.at, worker.hand = "held", at_rest
  elseif what then spawn(worker) end
  return what ~= nil
end

local nudge

-- The give_up of a worker's go block. If memory has run out, the pool ends. All workers then check what is next, also
-- if this worker could not call the next one, or died while it told them that the input has ended.
local function died(worker, err, ...)
  local pool = worker.pool
  local ok, goes_on = worker.at ~= "end", err -- only lack of memory raises where a worker leaves nothing
  if ok then ok, goes_on = pcall(go_on, worker, err, ...) end
  if not ok then
    pool.finishing = true
    if pool.err == nil then pool.err = goes_on end
  end
  local was_called = goes_on and pcall(pool.call_next, pool)
  if pool.finishing or goes_on and not was_called then
    for i = 1, #pool.workers do pcall(nudge, pool.workers[i]) end
  end
  if not (ok and goes_on) then leave(worker) end
end

function spawn(worker)
  worker.pool:renew_put(worker)
  set_off(worker.exchange, not worker.pool.is_source) -- so it first calls taking.next_value
  worker.at, worker.hand = "main", at_rest
  worker.block = go(died, worker, body, worker)
  of_worker.begin(worker.exchange, worker.block)
  internal.started(worker.block, worker.pool.origin)
end

-- Lets a worker put on the pool's output.
local function put_on(worker)
  local pool = worker.pool
  worker.to = pool.to
  local is_special = pool.keeps or pool.order and pool.order.keeps_order
  of_worker.bind(worker.put, not is_special and pool.to)
end

-- Lets a worker call the pool's function.
local function work_with(worker)
  local pool = worker.pool
  local is_special = worker.dropped or pool.limit or pool.done or pool.tries > 1 or pool.lanes
  worker.job = not (is_special or pool.is_step) and pool.job
  worker.step = not (is_special or pool.keeps or pool.renews_put) and pool.is_step and pool.job
end

---Adds a worker.
---@package
---@return runnel.internal.Worker
function Pool:add_worker()
  -- It starts another worker if none waits for a value and none is about to begin.
  local add_another = self.lazy and not self.order and function()
    if #self.workers < self.n and self.newest.at ~= "main" and not self.finishing then self:add_worker() end
  end
  local worker = {
    self.closes, pool = self, number = self.numbers + 1, from = self.is_channel and self.from or nil, tried = 0,
    exchange = of_worker.new(add_another), block = false, put = false, call = false, to = false, job = false,
    step = false, at = nil, hand = at_rest, value = nil, seq = nil, result = nil, output = nil, next = nil,
    instead = nil, kept = nil, late = false, deadline = false, tries_again = false, dropped = false, retired = false,
    place = false, before = false, after = false, lane = false, has_place = false, gate = false, ticket = 0,
  }
  work_with(worker)
  spawn(worker)
  self.numbers = worker.number
  local place = #self.workers + 1
  self.workers[place] = worker
  worker.place = place
  self.newest = worker
  return worker
end

---Gives a worker a new put function. Go blocks of an earlier call can no longer put by the old one.
---@package
---@param worker runnel.internal.Worker
function Pool:renew_put(worker)
  if not (self.is_step or self.is_source) and worker.put then return end
  local call = {}
  worker.put = of_worker.put(worker.exchange, function(value, output, is_helper, is_older)
    if is_helper then calls.expect_helper(worker, call, is_older) end
    calls.put(worker, call, value, output, is_helper)
  end)
  worker.call = call
  put_on(worker)
end

---A job has started go blocks that put: from now on each call has its own put function. That costs as much as two puts,
---so calls share one until the first such put, unless their puts are kept.
---@package
function Pool:expect_helpers()
  if self.renews_put then return end
  self.renews_put = true
  for _, worker in ipairs(self.workers) do work_with(worker) end
end

---In order: lets a worker take the next value.
---@package
function Pool:call_next()
  if self.order then self.order.call_next() end
end

-- Makes a worker call taking.next_value, also if it waits for a value. A worker whose go block has just died does so
-- anyway.
function nudge(worker)
  local pool = worker.pool
  set_off(worker.exchange, true)
  if not worker.block then return end
  local at = pool:state_of(worker)
  if at == "idle" then withdraw(worker.block, pool.order.calls)
  elseif at == "take" and pool.is_channel then withdraw(worker.block, pool.from) end
end

---Makes all workers call taking.next_value.
---@package
function Pool:nudge_all()
  for i = 1, #self.workers do nudge(self.workers[i]) end
end

---A worker's activity (as its field `at`, or a phase), the value of its job, the number of that job, and in a put the
---result and its output.
---@param worker runnel.internal.Worker
function Pool:state_of(worker)
  local at, value, seq, result, output = worker.hand(worker)
  at = worker.at or at or phase_of(worker.exchange)
  if at == "take" or at == "off" then return "take" end
  return at, value, seq, result, output
end

---Cancels the worker's job where it waits, and drops it with its result and its failure.
---@param worker runnel.internal.Worker
---@param reason any
function Pool:drop(worker, reason) -- luacheck: ignore 212
  worker.dropped = true
  work_with(worker)
  cancel(worker.block, reason)
end

---A snapshot of the workers: it stays the same when some of them leave.
---@return runnel.internal.Worker[]
function Pool:all_workers() return table.move(self.workers, 1, #self.workers, 1, {}) end

-- ---- the whole ----

---Starts the workers.
function Pool:start()
  for _ = 1, self.lazy and 1 or self.n do self:add_worker() end
end

---Begun jobs finish; the pool takes nothing else.
function Pool:pause()
  if self.paused then return end
  self.paused, self.gate = true, hide(chan())
  self:nudge_all()
end

---Waits while the pool is paused.
function Pool:wait_resumed()
  while self.paused do take(self.gate) end
end

-- Lets a held worker continue, with the function `instead` of the job if there is one.
local function revive(worker, instead)
  local phase = worker.held.phase
  worker.held, worker.instead = nil, instead
  worker.next = instead and "handler" or failure.again(phase)
  spawn(worker)
end

---Ends a pause. Held workers try their values again.
function Pool:resume()
  if self.paused then
    self.paused = false
    self.gate:close()
    self.gate = nil
  end
  for _, worker in ipairs(self:all_workers()) do
    if worker.held then revive(worker) end
  end
  self:call_next()
end

---Makes a held worker continue without its value, which now belongs to the caller; the worker's results come from
---`instead`.
---@param worker runnel.internal.Worker
---@param instead fun(): any, any
function Pool:release(worker, instead) revive(worker, instead) end -- luacheck: ignore 212

---Changes the number of workers. Surplus workers end after their job, unless they are needed again.
---@param count integer
function Pool:resize(count)
  if self.lanes then
    self.lanes.n = count
    self.lanes:serve()
    count = lanes.width(count)
  end
  if not self.order and needs_order(self, count) then
    self.order = in_turn.new(self, self.window, self.workers[1])
    for _, worker in ipairs(self.workers) do put_on(worker) end
  end
  self.n = count
  for i, worker in ipairs(self.workers) do
    local was_retired = worker.retired
    worker.retired = i > count
    if worker.retired and not was_retired then nudge(worker) end
  end
  if self.order then
    self:nudge_all()
    self:call_next()
  elseif not self.lazy then
    while #self.workers < count do self:add_worker() end
  end
end

---Makes the workers call another function from their next call on.
---@param f function
---@param step? boolean
function Pool:replace(f, step)
  self.job, self.is_step, self.begins_later = f, step or false, self.limit ~= nil and time_limit.is_later(f)
  for _, worker in ipairs(self.workers) do work_with(worker) end
end

---Makes the workers put on another channel from their next put on; false: `emit` gets everything.
---@param ch runnel.Channel<any>|false
function Pool:set_output(ch)
  self.to = ch
  for _, worker in ipairs(self.workers) do put_on(worker) end
end

---Adds a value to be taken before those of `grow` and those of the input.
---@param value any
function Pool:first(value)
  self.early:first(value)
  self:nudge_all()
  self:call_next()
end

---Adds a value to be taken before those of the input.
---@param value any
function Pool:grow(value)
  self.early:grow(value)
  self:nudge_all()
  self:call_next()
end

---How many values were taken. Others may take from the same channel, too.
---@return integer
function Pool:taken()
  local n = self.got
  for _, worker in ipairs(self.workers) do n = n + taken_by(worker.exchange) end
  return n
end

---Removes all waiting early values.
---@return any[] values
function Pool:drop_first() return self.early:drop() end

---How many early values wait.
---@return integer
function Pool:queued() return self.early:count() end

---Takes no more values from the input.
function Pool:finish()
  if self.finishing then return end
  taking.end_input(self)
  if #self.workers == 0 then self.ended(self.err) end
end

return workers
