---conn:stage: a durable stage, which takes from one stream and stores its results in another.

local core = require "runnel.core"
local internal = core.internal

local check = require "runnel.internal.check"
local draining = require "runnel.nats.draining"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.jetstream"
local reader = require "runnel.nats.reader"
local sink = require "runnel.nats.sink"
local source = require "runnel.nats.source"
local values = require "runnel.nats.values"

local stage = {}

-- How long to wait before storing again, while the stream of results is full.
local FULL_MS <const> = 200

---@class runnel.nats.StageOptions
---@field name? string of the stage: processes with the same name share the messages. By default the name of the stream
---of results
---@field subject? string only messages with this subject, which may be a pattern
---@field to_subject? string the subject of the results, if their stream has several
---@field ack_wait? number ms after which the messages of a process that has died go to others (30000)
---@field max_ack_pending? integer how many messages may be worked on in all processes together (1000)
---@field tries? integer how often a message is tried if the function raises (5)
---@field retry? number ms until the second try; doubled for each further one (1000)
---@field ex_handler? fun(err: any, value: any): any called when the last try has failed; what it returns is the result
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the stage first finishes
---its calls

local OPTIONS = {
  name = true, subject = true, to_subject = true, ack_wait = true, max_ack_pending = true, tries = true, retry = true,
  ex_handler = true, encoding = true, drain_on_term = true,
}

---A stage that runs.
---@class runnel.nats.Stage
---@field name string
---@field private source runnel.Channel<runnel.nats.StreamMessage>
local Stage = { __name = "stage" }
Stage.__index = Stage

-- Stores one result, however long its stream is full. Raises if it cannot be stored.
local function store(self, value, id)
  while true do
    local ok, err, code = self.sink:put(value, { id = id, subject = self.to_subject })
    if ok then
      if code then self.counts.duplicates = self.counts.duplicates + 1 end
      return
    end
    if code ~= jetstream.FULL then error(err, 0) end
    core.sleep(FULL_MS)
  end
end

-- Stores the results, with ids made from the message, so that the same work done again stores nothing twice.
local function store_results(self, message, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if value ~= nil then store(self, value, ("%s.%d.%d"):format(self.id, message.sequence, i)) end
  end
end

local function work(self, message)
  local f, value = self.f, message.value
  if self.sink then store_results(self, message, f(value, message)) else f(value, message) end
end

local function done(self, message)
  message:ack()
  self.counts.done = self.counts.done + 1
end

-- The last try has failed.
local function give_up(self, message, err, trace)
  local counts = self.counts
  if self.ex_handler then
    local ok, problem, place = xpcall(function()
      local result = self.ex_handler(err, message.value)
      if self.sink then store_results(self, message, result) end
    end, guard.handler)
    if ok then return done(self, message) end
    err, trace = guard.caught(problem)
    trace = trace or place
  end
  internal.report(err, trace, ("message %d of %s, given up"):format(message.sequence, self.from))
  message:term()
  counts.given_up = counts.given_up + 1
end

local function do_message(self, message)
  local _ <close> = setmetatable({}, { __close = function() message:nak() end }) -- if this is cancelled
  local ok, problem = xpcall(work, guard.handler, self, message)
  if ok then return done(self, message) end
  local err, trace = guard.caught(problem)
  self.counts.failed = self.counts.failed + 1
  if message.deliveries >= self.tries then return give_up(self, message, err, trace) end
  message:nak(self.retry * 2 ^ (message.deliveries - 1))
end

local function run(self)
  for message in self.source do
    self.counts.running = self.counts.running + 1
    do_message(self, message)
    self.counts.running = self.counts.running - 1
  end
end

---Ends the stage: takes no more messages, and waits until the calls that run have ended. Messages that it has received
---and not started are redelivered to other processes.
---@param ms? number how long to wait; calls that still run then are cancelled, and their messages are redelivered
---@return boolean ended false if calls were cancelled
function Stage:stop(ms)
  self.source:close()
  if ms then core.alts { self.ended, core.timeout(ms) } else self.ended:take() end
  local in_time = self.ended:closed()
  if not in_time then
    for _, block in ipairs(self.blocks) do core.cancel(block, "the stage is stopped") end
    self.ended:take()
  end
  return in_time
end

function Stage:__close() self:stop(0) end

---Waits until the stage has ended: it was stopped, or a stream or the consumer was deleted, or the connection has
---ended.
---@return boolean? ended, any err
function Stage:wait()
  self.ended:take()
  if self.err ~= nil then return nil, self.err end
  return true
end

---Counters: messages `done`, `failed` tries, messages `given_up`, calls that are `running`, and `duplicates`: results
---that their stream had already.
---@return { done: integer, failed: integer, given_up: integer, running: integer, duplicates: integer }
function Stage:stats()
  local copy = {}
  for name, count in pairs(self.counts) do copy[name] = count end
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
---@param f fun(value: any, message: runnel.nats.StreamMessage): any ...
---@param to? string a stream; nil: f has no results
---@param opts? runnel.nats.StageOptions
---@return runnel.nats.Stage? stage, string? err
function stage.stage(conn, n, from, f, to, opts)
  check.integer(n, 1, "stage: n")
  jetstream.check_name(from, "stage: from")
  check.callable(f, "stage: f")
  if to ~= nil then jetstream.check_name(to, "stage: to") end
  check.options(opts, OPTIONS, "stage")
  opts = opts or {}
  local name = opts.name or to
  if name == nil then error("stage: a stage without a stream of results needs the option name", 2) end
  jetstream.check_name(name, "stage: name")
  check.callable_or_nil(opts.ex_handler, "stage: ex_handler")
  if opts.retry ~= nil then check.ms(opts.retry, 1, "stage: retry") end
  if opts.tries ~= nil then check.integer(opts.tries, 1, "stage: tries") end
  if opts.drain_on_term ~= nil and type(opts.drain_on_term) ~= "boolean" then
    error("stage: drain_on_term: true or false expected, got " .. check.describe(opts.drain_on_term), 2)
  end
  local encoding = conn.encoding
  if opts.encoding ~= nil then encoding = values.check(opts.encoding, "stage", 2) end

  local self = setmetatable({
    name = name, from = from, f = f, tries = opts.tries or 5, retry = opts.retry or 1000, ex_handler = opts.ex_handler,
    to_subject = opts.to_subject, blocks = {}, ended = core.chan(),
    counts = { done = 0, failed = 0, given_up = 0, running = 0, duplicates = 0 },
  }, Stage)
  if to then
    local out, err = sink.sink(conn, to, { encoding = encoding, subject = opts.to_subject })
    if not out then return nil, "stage: " .. err:gsub("^sink: ", "") end
    self.sink = out
  end
  local config, defaults = source.settings({
    name = name, subject = opts.subject, ack_wait = opts.ack_wait, max_ack_pending = opts.max_ack_pending,
  }, "stage", 2)
  local info, err = jetstream.stream_info(conn, from)
  if not info then return nil, "stage: " .. err end
  -- A stream that is deleted and made again counts from 1 again.
  self.id = ("%s.%s.%s"):format(from, name, (info.created:gsub("[^%d]", "")))
  local ch, problem = reader.open({
    conn = conn, stream = from, name = name, config = config, defaults = defaults, batch = n, encoding = encoding,
    acks = "explicit", holds = true,
  }, "stage")
  if not ch then return nil, problem --[[@as string]] end
  self.source = ch
  local running = n
  local function ended()
    running = running - 1
    if running == 0 then self.ended:close() end
  end
  for i = 1, n do
    self.blocks[i] = guard.started(core.go(function()
      local _ <close> = setmetatable({}, { __close = ended })
      run(self)
    end), "stage")
  end
  draining.add(conn, function(ms) self:stop(ms) end, self.ended, opts.drain_on_term ~= false)
  return self
end

return stage
