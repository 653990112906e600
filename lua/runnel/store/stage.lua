---store:stage: a durable stage, which takes messages from one stream of a store and puts its results into another. What
---it does is runnel.queue; conn:stage of runnel.nats is the same with another keeper.

local arguments = require "runnel.queue.stage"
local by_key = require "runnel.store.by_key"
local consumers = require "runnel.store.consumer"
local for_now = require "runnel.store.for_now"
local keepers = require "runnel.store.keeper"
local rates = require "runnel.store.rate"
local schema = require "runnel.store.schema"
local sinks = require "runnel.store.sink"
local steps = require "runnel.store.steps"
local streams = require "runnel.store.stream"
local worker = require "runnel.queue.worker"

local hand_back = require "runnel.queue.hand_back".hand_back
local raise_if_nil = require "runnel.workers.calls".raise_if_nil
local raise = require("runnel.core").internal.raise

local stage = {}

-- The results of f without those that are nil, as a keeper stores them.
local function results_of(outcome, has_results)
  local list = {}
  for i = 1, has_results and outcome.n or 0 do
    if outcome[i] ~= nil then list[#list + 1] = { value = outcome[i] } end
  end
  return list
end

-- The function that the worker calls: f within a call of `once`, so that calls of `once` in it are its steps.
local function with_steps(consumer, f)
  return function(value, message)
    if message.deliveries > 1 then
      local ok, problem = consumer.store:attempt("exec", steps.of_older(consumer, message))
      if not ok then error(problem, 0) end
    end
    local call <close> = steps.enter(steps.of_message(consumer, message.sequence))
    message.call = call -- whose steps are forgotten when the message ends
    return f(value, message)
  end
end

-- Without the number of the message: each text is reported once, and a stream that was deleted had perhaps many.
local NOT_OWN <const> = "it does not belong to this process any more, so its transaction was rolled back"

-- The same in a transaction, which stores the results at its end.
local function with_tx(keeper, f, has_results)
  return function(value, message)
    local outcome
    keeper.consumer.store.db:transaction(function(tx)
      outcome = table.pack(f(value, message, tx))
      if outcome[2] ~= nil then raise_if_nil(outcome[1], outcome[2]) end -- nothing is committed
      local changed, err = keeper:store_results(tx, message, results_of(outcome, has_results))
      if not changed then error(err, 0) end
      if changed == 0 then hand_back(NOT_OWN) end -- it is the work of another process now
    end)
    message.is_stored = true
    return table.unpack(outcome, 1, outcome.n)
  end
end

---Starts a durable stage: calls f with the value of each message of a stream, at most n calls at a time in this
---process, and stores what it returns in another stream. Results are stored and their message ends in one transaction:
---each message has its results once, whenever a process is killed. But f may be called again for a message whose
---results were not stored.
---
---    local stage = assert(store:stage("orders", 8, function(order) return invoice(order) end, "invoices"))
---
---f gets the value and the message. Each result that is not nil is a message of its own. If f raises, or returns nil
---and an error, it is tried again later. After the last try, ex_handler decides, or the message is given up and the
---error reported (rn.on_error).
---@param store runnel.store.Store
---@param from string a stream
---@param n integer
---@param f string|fun(value: any, message: runnel.store.Message, tx?: runnel.sqlite.Transaction): any ... or the name
---of a module that returns one
---@param to? string a stream; nil: f has no results
---@param opts? runnel.queue.StageOptions
---@return runnel.Worker? stage, string? err
function stage.stage(store, from, n, f, to, opts)
  local read = arguments.read(from, n, f, to, opts, arguments.OF_STORES)
  opts = read.opts
  streams.refuse_own(from, "stage: from")
  if to then streams.refuse_own(to, "stage: to") end
  local out, problem, rate
  if to then
    out, problem = sinks.sink(store, to, { subject = opts.to_subject })
    if not out then return nil, "stage: " .. problem:gsub("^sink: ", "") end
    if not out.subject then
      raise(("stage: the stream %q stores %s: say which subject (option to_subject)")
        :format(to, table.concat(out.subjects, ", ")))
    end
  end
  local ready, unready = store:prepare(opts.key and schema.KEYS or schema.STREAMS)
  if not ready then return nil, "stage: key: " .. unready end
  local consumer, err = consumers.open(store, from, read.name, {
    subject = opts.subject, ack_wait = opts.ack_wait, max_running = opts.max_running, key = opts.key,
  })
  if not consumer then return nil, "stage: " .. err end
  ready, unready = store:attempt("exec", steps.forget_lost(consumer))
  if not ready then return nil, "stage: " .. unready end
  local options = read.worker
  if options.rate then
    rate, err = rates.open(store, ("%s/%s"):format(from, read.name), options.rate)
    if not rate then return nil, "stage: rate: " .. err end
  end
  local keeper = keepers.new {
    consumer = consumer, from = from, to = to, to_subject = out and out.subject, what = "stage",
  }
  local has_results = out ~= nil
  if opts.key then read.f = by_key.checked(read.f, opts.key) end
  read.f = for_now.hands_back(store,
    opts.tx and with_tx(keeper, read.f, has_results) or with_steps(consumer, read.f))
  local self, lost = worker.start {
    kind = "stage", n = n, keeper = keeper, task = arguments.task(read, has_results), timeout = options.timeout,
    rate = rate, is_paused = consumer.paused,
  }
  if not self then return nil, "stage: " .. lost end
  keeper:watch(self, options.drains)
  return self
end

return stage
