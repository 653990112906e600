---conn:stage: a durable stage, which takes messages from one stream and stores its results in another.

local core = require "runnel.core"
local internal = core.internal

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local counts = require "runnel.nats.counts"
local draining = require "runnel.nats.draining"
local firsts = require "runnel.nats.firsts"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.jetstream"
local label = require "runnel.nats.label"
local limit = require "runnel.nats.limit"
local patience = require "runnel.nats.patience"
local rate = require "runnel.nats.rate"
local reader = require "runnel.nats.reader"
local running = require "runnel.nats.running"
local served = require "runnel.nats.served"
local sink = require "runnel.nats.sink"
local source = require "runnel.nats.source"
local stage_message = require "runnel.nats.stage_message"
local values = require "runnel.nats.values"
local who = require "runnel.nats.who"

local stage = {}

---@class runnel.nats.StageOptions
---@field name? string of the stage: processes with the same name share the messages. By default the name of the stream
---of results
---@field subject? string only messages with this subject, which may be a pattern
---@field to_subject? string the subject of the results, if their stream has several
---@field ack_wait? number ms after which the messages of a process that has died go to others (30000)
---@field max_ack_pending? integer how many messages may be worked on in all processes together (1000)
---@field tries? integer how often a message is tried if the function raises (5)
---@field retry? number ms until the second try (1000), at least half of that; doubled for each further one, up to a
---minute
---@field starts? integer how often a message is started if its process ends each time (5)
---@field limit? number ms that one call may take; storing its result does not count. One that parks is then cancelled,
---and has failed. If Lua has not come back by then, since the call computes, the process says so on stderr and ends; by
---default there is no limit
---@field rate? integer|{ [1]: integer, [2]: number } how many calls all processes of the stage may start in a second,
---or in so many ms: { calls, ms }
---@field dead? boolean false: messages that are given up do not become dead letters (conn:dead)
---@field ex_handler? fun(err: any, value: any): any called when the last try has failed; what it returns is the result
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's
---@field at_least_once? boolean true: the stream of results may have another retention than "limits", and a result may
---be stored twice if the server starts again
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the stage first finishes
---its calls

local OPTIONS = {
  name = true, subject = true, to_subject = true, ack_wait = true, max_ack_pending = true, tries = true, retry = true,
  starts = true, limit = true, rate = true, dead = true, ex_handler = true, encoding = true,
  at_least_once = true, drain_on_term = true,
}

-- These settings would store results twice.
local FORGETS <const> = "stage: the stream %q has the retention %q: when the server starts again, it forgets the ids "
  .. "of messages that were removed, and may store results twice. Use the retention \"limits\" with max_age, or say "
  .. "at_least_once = true"

---A stage that runs.
---@class runnel.nats.Stage
---@field name string
---@field private source runnel.Channel<runnel.nats.StreamMessage>
---@field private running runnel.Running
---@field private calls table<runnel.nats.StreamMessage, number> messages with a running call -> its start
---@field private resumed? runnel.Channel<any> closes when the stage goes on, or ends; nil unless it is paused
---@field private is_stopped? boolean
---@field private starts_of runnel.Counts
---@field private firsts runnel.Firsts
local Stage = { __name = "stage" }
Stage.__index = Stage

-- Whether the stage already works on the message: the server may have missed the beats for ack_wait, for example
-- because the network failed.
local function has_already(self, message)
  for other in pairs(self.calls) do
    if other.sequence == message.sequence and other:delivered_again(message) then return true end
  end
  return false
end

local function run(self)
  for message in self.source do
    if self.resumed then self.resumed:take() end
    local is_here = has_already(self, message)
    if self.is_stopped and not is_here then
      message:nak()
    elseif not is_here then
      self.calls[message] = core.now()
      stage_message.work_on(self, message)
      self.calls[message] = nil
    end
  end
end

-- Pauses or resumes the start of calls.
local function pause(self, is_paused)
  if is_paused then
    self.resumed = self.resumed or core.chan()
  elseif self.resumed then
    self.resumed:close()
    self.resumed = nil
  end
end

-- Its state, for runnel.nats.who.
local function report(self)
  local calls = {}
  for message, since in pairs(self.calls) do
    local ok, value = pcall(function() return message.value end)
    calls[#calls + 1] = who.call(ok and value or message.data, since, message.deliveries)
  end
  return who.report(self:stats(), #self.blocks, self.resumed ~= nil, calls)
end

---Ends the stage: takes no more messages, and waits for the running calls. Messages that it has not started are
---redelivered to other processes.
---@param ms? number how long to wait; calls that still run then are cancelled, and their messages are redelivered
---@return boolean ended false if calls were cancelled
function Stage:drain(ms)
  self.source:close()
  if ms then core.alts { self.ended, core.timeout(ms) } else self.ended:take() end
  local in_time = self.ended:closed()
  if not in_time then
    for _, block in ipairs(self.blocks) do core.cancel(block, "the stage is stopped") end
    self.ended:take()
  end
  return in_time
end

function Stage:__close() self:drain(0) end

---A channel that closes when the stage has ended.
---@return runnel.Channel<any> done
function Stage:done() return self.ended end

---Waits until the stage has ended: it was stopped, a stream or the consumer was deleted, or the connection has ended.
---@return boolean? ended, any err
function Stage:wait()
  self.ended:take()
  if self.err ~= nil then return nil, self.err end
  return true
end

---Counters: messages `done`, `failed` tries, messages `given_up`, starts of `redelivered` messages, calls that are
---`running`, messages `waiting` in this process for their start, and `duplicates`: results that the stream already had.
---@return { done: integer, failed: integer, given_up: integer, redelivered: integer, running: integer,
---waiting: integer, duplicates: integer }
function Stage:stats()
  local copy = {}
  for name, count in pairs(self.counts) do copy[name] = count end
  copy.running, copy.waiting = self.running.count, math.max(0, self.reader.held - self.running.count)
  return copy
end

---Starts a durable stage: calls f with the value of each message of a stream, at most n calls at a time in this
---process, and stores what it returns in another stream. A message is acknowledged when its results are stored, so
---nothing is lost if a process or server is killed. f may be called again for a message whose results are stored
---already; the stream drops the second results, because they have the same ids. For that, f has to return the same
---number of results, and the stream has to keep ids (option `duplicates` of conn:stream) for longer than a message may
---wait for its next try.
---
---    local stage = assert(conn:stage(8, "orders", function(order) return invoice(order) end, "invoices"))
---
---f gets the value and the message. Each result that is not nil is a message of its own. If f raises, it is tried again
---later. After the last try, ex_handler decides, or the message is given up and the error reported (rn.on_error).
---@param conn runnel.nats.Connection
---@param n integer
---@param from string a stream
---@param f string|fun(value: any, message: runnel.nats.StreamMessage): any ... or the name of a module that returns one
---@param to? string a stream; nil: f has no results
---@param opts? runnel.nats.StageOptions
---@return runnel.nats.Stage? stage, string? err
function stage.stage(conn, n, from, f, to, opts)
  check.integer(n, 1, "stage: n")
  jetstream.check_name(from, "stage: from")
  f = served(f, "stage")
  check.callable(f, "stage: f")
  if to ~= nil then jetstream.check_name(to, "stage: to") end
  check.options(opts, OPTIONS, "stage")
  opts = opts or {}
  local name = opts.name or to
  if name == nil then error("stage: a stage without a stream of results needs the option name", 2) end
  jetstream.check_name(name, "stage: name")
  check.callable_or_nil(opts.ex_handler, "stage: ex_handler")
  local tries, retry = backoff.options({ tries = opts.tries, retry = opts.retry or 1000 }, "stage", 5)
  if opts.starts ~= nil then check.integer(opts.starts, 1, "stage: starts") end
  if opts.limit ~= nil then check.ms(opts.limit, 10, "stage: limit") end
  local limits = opts.rate ~= nil and rate.check(opts.rate, "stage", 2) or nil
  for _, option in ipairs { "at_least_once", "dead", "drain_on_term" } do
    if opts[option] ~= nil and type(opts[option]) ~= "boolean" then
      error(("stage: %s: true or false expected, got %s"):format(option, check.describe(opts[option])), 2)
    end
  end
  local encoding = conn.encoding
  if opts.encoding ~= nil then encoding = values.check(opts.encoding, "stage", 2) end

  local self = setmetatable({
    conn = conn, name = name, from = from, f = f, tries = tries, retry = retry, ex_handler = opts.ex_handler,
    starts = opts.starts or running.STARTS, limit = opts.limit, has_letters = opts.dead ~= false, encoding = encoding,
    to_subject = opts.to_subject, blocks = {}, ended = core.chan(), running = running.new(), label = label(), told = {},
    calls = {}, counts = { done = 0, failed = 0, given_up = 0, redelivered = 0, duplicates = 0 },
  }, Stage)
  if to then
    local out, err = sink.sink(conn, to, {
      encoding = encoding, subject = opts.to_subject, timeout = patience.results_told, -- then the stage puts it again
    })
    if not out then return nil, "stage: " .. err:gsub("^sink: ", "") end
    if out.retention ~= "limits" and not opts.at_least_once then return nil, FORGETS:format(to, out.retention) end
    self.sink = out
  end
  local config, defaults = source.settings({
    name = name, subject = opts.subject, ack_wait = opts.ack_wait, max_ack_pending = opts.max_ack_pending,
  }, "stage", 2)
  local info, err = jetstream.stream_info(conn, from)
  if not info then return nil, "stage: " .. err end
  -- A stream that was deleted and made again counts from 1.
  self.id = ("%s.%s.%s"):format(from, name, (info.created:gsub("[^%d]", "")))
  self.settings = { storage = info.config.storage, replicas = info.config.num_replicas }
  self.starts_of = counts.new(conn, name, info)
  if limits then
    local limiter, why = rate.open(conn, name, limits)
    if not limiter then return nil, "stage: rate: " .. why end
    self.rate = limiter
  end
  if self.limit then
    local bucket, why = self.starts_of:open()
    if not bucket then return nil, "stage: " .. why end
  end
  -- While a message runs alone, other messages would only be given back.
  self.reader = {
    conn = conn, stream = from, name = name, config = config, defaults = defaults, batch = n, encoding = encoding,
    acks = "explicit", holds = true, rests = function() return self.running.lone ~= nil end,
  }
  local ch, problem = reader.open(self.reader, "stage")
  if not ch then return nil, problem --[[@as string]] end
  self.source, self.firsts = ch, firsts.new(problem.delivered)
  pause(self, who.is_paused(problem.config))
  internal.on_close(ch, function()
    self.is_stopped = true
    pause(self, false)
  end)
  local alive = self.limit and limit.watch({ alive = function() conn.core:alive() end }, self.limit, "stage")
  local left = n
  local function ended()
    left = left - 1
    if left > 0 then return end
    if alive then core.cancel(alive) end
    self.ended:close()
  end
  for i = 1, n do
    self.blocks[i] = guard.started(core.go(function()
      local _ <close> = setmetatable({}, { __close = ended })
      run(self)
    end), "stage")
  end
  draining.add(conn, function(ms) self:drain(ms) end, self.ended, opts.drain_on_term ~= false)
  who.add(conn, {
    queue = ("%s/%s"):format(from, name), stream = from, consumer = name,
    report = function() return report(self) end,
    pause = function(is_paused) pause(self, is_paused) end,
  }, self.ended)
  return self
end

return stage
