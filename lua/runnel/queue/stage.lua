---The arguments of durable stages, and the task of their workers.

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local messages = require "runnel.queue.messages"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local running = require "runnel.queue.running"
local served = require "runnel.queue.served"
local source = require "runnel.queue.source"
local raise = require("runnel.core").internal.raise

local kinds = check.kinds

local stage = {}

---@class runnel.queue.StageOptions
---@field name? string of the stage: processes with the same name share the messages. By default the name of the stream
---of results
---@field subject? string only messages with this subject, which may be a pattern
---@field to_subject? string the subject of the results, if their stream has several
---@field ack_wait? number ms after which the messages of a process that has died go to others (30000)
---@field max_running? integer how many messages may be worked on in all processes together (1000)
---@field tries? integer how often a message is tried if the function raises, or returns nil and an error (5)
---@field backoff? number ms until the second try (1000), at least half of that; doubled for each further one, up to a
---minute
---@field starts? integer how often a message is started if its process ends each time (5)
---@field timeout? number ms that one call may take; storing its result does not count. One that parks is then
---cancelled, and has failed, with an error for which rn.is_timeout is true. If Lua has not come back by then, since the
---call computes, the process says so on stderr and ends; by default there is no limit
---@field rate? integer|{ [1]: integer, [2]: number } how many calls all processes of the stage may start in a second,
---or { calls, ms }: that many in any `ms`
---@field dead? boolean false: messages that are given up do not become dead letters (conn:dead)
---@field ex_handler? fun(err: any, value: any): any called when the last try has failed; what it returns is the result
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's
---@field at_least_once? boolean true: the stream of results may have another retention than "limits", and a result may
---be stored twice if the server starts again
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the stage first finishes
---its calls
---@field tx? boolean of a store only: the function gets a transaction as its last argument
---@field key? fun(value: any): any of a store only: gets the value of a message, and returns a string, a number, or a
---list of these; the messages of a key are worked on one at a time, in their order, over all processes

local NOT_OVER_NATS <const> = "stage: key: only a stage of a store has it. Over NATS, messages of a process that has "
  .. "died come again after later ones: for order, put them by subjects into partitions, and start a stage for each "
  .. "with the options subject and max_running = 1"

local OPTIONS <const> = {
  name = true, to_subject = true, tries = true, backoff = true, starts = kinds.integer(1), dead = kinds.boolean,
  ex_handler = kinds.callable, encoding = options.ENCODING, at_least_once = kinds.boolean,
}
for _, more in ipairs { options.KINDS, source.CONSUMER } do
  for name, kind in pairs(more) do OPTIONS[name] = kind end
end

---Those of store:stage.
stage.OF_STORES = { tx = kinds.boolean, key = kinds.callable }
for name, kind in pairs(OPTIONS) do stage.OF_STORES[name] = kind end

---Those of keepers.stage.
stage.OF_KEEPERS = { results = kinds.boolean, timeout = options.KINDS.timeout, drain_on_term = kinds.boolean }
for _, name in ipairs { "name", "tries", "backoff", "starts", "dead", "ex_handler" } do
  stage.OF_KEEPERS[name] = OPTIONS[name]
end

---A stage, as the program asks for it.
---@class runnel.queue.Stage
---@field name string
---@field f function
---@field opts table the options
---@field worker runnel.queue.Options
---@field limits runnel.queue.Limits

---Checks the arguments of conn:stage, store:stage and keepers.stage.
---@param from any
---@param n any
---@param f any
---@param to any
---@param opts any
---@param known? table<string, any> the options that it has; by default those of conn:stage
---@return runnel.queue.Stage
function stage.read(from, n, f, to, opts, known)
  if type(from) == "number" then raise("stage: the stream comes first now: call it as stage(from, n, f, to)") end
  names.check(from, "stage: from")
  check.integer(n, 1, "stage: n")
  f = served(f, "stage")
  check.callable(f, "stage: f")
  if to ~= nil then names.check(to, "stage: to") end
  if not known and type(opts) == "table" and opts.key ~= nil then raise(NOT_OVER_NATS) end
  check.options(opts, known or OPTIONS, "stage")
  opts = opts or {}
  local name = opts.name or to or known == stage.OF_KEEPERS and from or nil
  if name == nil then raise("stage: a stage without a stream of results needs the option name") end
  names.check(name, "stage: name")
  local tries, retry = backoff.options({ tries = opts.tries, backoff = opts.backoff or 1000 }, "stage", 5)
  return {
    name = name, f = f, opts = opts, worker = options.read(opts),
    limits = { starts = opts.starts or running.STARTS, tries = tries, retry = retry },
  }
end

---The task of the stage's worker.
---@param read runnel.queue.Stage
---@param has_results boolean
---@return runnel.queue.MessageTask
function stage.task(read, has_results)
  local opts = read.opts
  return messages.task {
    name = read.name, f = read.f, has_results = has_results, ex_handler = opts.ex_handler,
    has_letters = opts.dead ~= false, limits = read.limits,
  }
end

return stage
