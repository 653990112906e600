---store:runs: durable go blocks. A run is a call of `once` that is continued: its steps and its result are in the file,
---and its function is called again, in any process, until it has returned. What decides when is runnel.queue, as for
---stages.

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local consumers = require "runnel.store.consumer"
local core = require "runnel.core"
local draining = require "runnel.queue.draining"
local guard = require "runnel.internal.guard"
local keepers = require "runnel.store.keeper"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local rates = require "runnel.store.rate"
local look = require "runnel.store.runs.run_look"
local run_ref = require "runnel.store.runs.run_ref"
local run_start = require "runnel.store.runs.run_start"
local run_work = require "runnel.store.runs.run_work"
local running = require "runnel.queue.running"
local schema = require "runnel.store.schema"
local sign = require "runnel.internal.sign"
local streams = require "runnel.store.stream"
local table_of = require "runnel.store.runs.run_table"
local worker = require "runnel.queue.worker"
local raise = core.internal.raise

local kinds = check.kinds

local runs = {}

---@class runnel.store.RunsOptions
---@field n? integer how many runs are in the memory of this process at a time (128)
---@field tries? integer how often in a row a run is tried if its function raises (5)
---@field backoff? number ms until the second try (1000), at least half of that; doubled for each further one, up to a
---minute
---@field starts? integer how often a run is started if its process ends each time (5)
---@field rate? integer|{ [1]: integer, [2]: number } how many runs all processes together may begin or continue in a
---second, or { runs, ms }
---@field max_running? integer how many runs are in the memory of all processes together at a time
---@field key? fun(argument: any): any gets the argument of a run, and returns a string, a number, or a list of these;
---the runs of a key go on one at a time, in the order of their starts, over all processes
---@field drain_on_term? boolean false: SIGTERM ends the program at once; otherwise steps end first

---The options of store:runs.
runs.OPTIONS = {
  n = kinds.integer(1), tries = true, backoff = true, starts = kinds.integer(1), rate = options.KINDS.rate,
  drain_on_term = kinds.boolean, max_running = kinds.integer(1), key = kinds.callable,
}

---The runs of a name.
---@class runnel.store.Runs
---@field name string
---@field package store runnel.store.Store
---@field private worker? runnel.Worker nil: this process does not continue them
---@field private work? runnel.store.RunWork
local Runs = { __name = "runs", __sign = "runs" }
Runs.__index = Runs

-- ---- starting ----

local START <const> = { priority = function(value, what)
  if math.type(value) == "integer" and value >= 0 and value <= 9 then return end
  raise(("%s: an integer from 0 to 9 expected, got %s"):format(what, check.describe(value)))
end }

---Starts a run, unless there is one with that id: then it returns that one. It is on the disk when this returns. In the
---function of a run, it is a step, and that run is the parent of the new one.
---@param id string|number
---@param argument? any what `once` can store; the function of the run gets it
---@param opts? { priority?: integer } 0 to 9: it begins before runs with a lower one
---@return runnel.store.RunRef? run, string? err
function Runs:start(id, argument, opts)
  sign.own(self, "runs", "start")
  run_ref.check_id(id, "start")
  check.options(opts, START, "start")
  local kept, problem = run_start.argument(argument)
  if not kept then raise("start: " .. problem) end
  local run, priority = table_of.current(self.store), opts and opts.priority or 0
  local ref = run_ref.new(self.store, self.name, id)
  if run then
    run_start.step(run, ref, kept, priority)
    return ref
  end
  local is_own, err = run_start.start(ref, kept, priority)
  if is_own == nil then return nil, err end
  return ref
end

-- ---- looking ----

---A run.
---@param id string|number
---@return runnel.store.RunRef? run nil: there is none
---@return string? err
function Runs:get(id)
  sign.own(self, "runs", "get")
  run_ref.check_id(id, "get")
  local ref = run_ref.new(self.store, self.name, id)
  local state, err = ref:state()
  if not state then return nil, err end
  return ref
end

local LIST <const> = {
  state = kinds.one_of(look.STATES),
  after = true, limit = kinds.integer(1),
}

---Lists runs, by their ids.
---@param opts? { state?: string, after?: string|number, limit?: integer } only those in a state; those with later ids;
---at most so many (100)
---@return runnel.store.RunState[]? list, string? err
function Runs:list(opts)
  sign.own(self, "runs", "list")
  check.options(opts, LIST, "list")
  opts = opts or {}
  local after
  if opts.after ~= nil then
    run_ref.check_id(opts.after, "list: after")
    after = table_of.key(self.name, opts.after)
  end
  local list, err = look.list(self.store, self.name, opts.state, after, opts.limit or 100)
  return list, err
end

-- ---- the end ----

---Continues no more runs, and waits until those in memory have left: each when the steps that it is doing have ended.
---@param timeout? number ms; then the steps are cancelled, and done again later
---@return boolean ended, runnel.TimedOut? err
function Runs:drain(timeout)
  sign.own(self, "runs", "drain")
  if timeout ~= nil then check.ms(timeout, 0, "drain: timeout") end
  if not self.worker then return true end
  self.work:drain()
  local ended, err = self.worker:drain(timeout)
  return ended, err
end

---Continues no more runs in this process, and cancels the steps that are being done: they are done again later.
function Runs:stop()
  sign.own(self, "runs", "stop")
  if self.worker then self.worker:stop() end
end

Runs.__close = Runs.stop

---Waits until this process continues no more runs: they were drained or stopped, or the store was closed.
---@return boolean? ended, any err
function Runs:wait()
  sign.own(self, "runs", "wait")
  if not self.worker then raise("wait: this process does not continue the runs: store:runs got no function") end
  local ended, err = self.worker:wait()
  return ended, err
end

function Runs:done() return self.worker:done() end

function Runs:__tostring() return "runs: " .. self.name end

-- ---- making them ----

-- Begins to continue runs in this process. Returns nil and the reason if that fails.
local function continue(self, f, opts)
  local store, name, stream = self.store, self.name, table_of.stream(self.name)
  local ok, problem = store:prepare(opts.key and schema.KEYS or schema.RUNS)
  if not ok then return nil, problem end
  local consumer, err = consumers.open(store, stream, name, {
    usual_pending = 1 << 40, max_running = opts.max_running, key = opts.key, of_runs = true,
  })
  if not consumer then return nil, err end
  local read, rate = options.read(opts), nil
  if read.rate then
    rate, err = rates.open(store, "runs " .. name, read.rate)
    if not rate then return nil, err end
  end
  local work = run_work.new(store, name, f, opts)
  local keeper = keepers.new { consumer = consumer, from = stream, what = "runs" }
  work:own(keeper)
  core.internal.trace.hold "c"
  self.worker, err = worker.start {
    kind = "runs", n = opts.n or 128, keeper = keeper, task = work, rate = rate, is_paused = consumer.paused,
  }
  if not self.worker then
    core.internal.trace.release "c"
    return nil, err
  end
  self.work, self.kind, keeper.worker = work, "runs", self.worker
  store:add_reader(table_of.signals(name), work)
  guard.started(guard.go(guard.nothing, nil, work.follow, work), "runs")
  draining.add(store, self, read.drains)
  return true
end

---Registers the function of runs, which this process continues from now on, at most `n` in memory at a time. Without a
---function, the process only starts runs and looks at them.
---
---    local orders = store:runs("order", function(run, order)
---      local receipt = charge(order.cents) -- a function that `once` has made: a step, done once
---      run:sleep(3 * 24 * 3600 * 1000)     -- survives restarts
---      return receipt
---    end)
---    orders:start("order 17", { cents = 500 })
---@param store runnel.store.Store
---@param name string letters, digits, - and _
---@param f? fun(run: runnel.store.RunContext, argument: any): any
---@param opts? runnel.store.RunsOptions
---@return runnel.store.Runs runs
function runs.runs(store, name, f, opts)
  names.check_stage(name, "runs")
  if f ~= nil then check.callable(f, "runs: f") end
  check.options(opts, runs.OPTIONS, "runs")
  local given = {}
  for option, value in pairs(opts or {}) do given[option] = value end
  local tries, retry = backoff.options({ tries = given.tries, backoff = given.backoff or 1000 }, "runs", 5)
  given.limits = { starts = given.starts or running.STARTS, tries = tries, retry = retry }
  if store.is_closed then raise("runs: the store is closed") end
  if f and store.functions[name] then
    raise(("runs: this program has the name %q already, for a function of `once` or for runs: give each a name of its "
      .. "own"):format(name))
  end
  local self = setmetatable({ store = store, name = name }, Runs)
  if store.registered then
    store.registered[name] = f
    return self
  end
  local made, err = streams.make(store, table_of.stream(name), { subjects = ">", retention = "workqueue" })
  if not made then raise("runs: " .. err) end
  if not f then return self end
  store.functions[name] = { f = self, is_of_runs = true } -- no function of `once` is the same one
  local ok, problem = continue(self, f, given)
  if not ok then
    store.functions[name] = nil
    raise("runs: " .. problem)
  end
  return self
end

return runs
