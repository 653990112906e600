---OpenTelemetry's protocol over HTTP: sends traces and metrics to a collector, in the background.
---
---    local otlp = require "runnel.otlp"
---    local exporter <close> = otlp.start("http://127.0.0.1:4318", { service = "shop" })
---
---Each request to http.serve, and each message of a worker or a durable stage, becomes a span; the numbers of
---rn.metrics become metrics. The program never waits for the collector: what it does not take in time is dropped and
---counted.

local os = os
local core = require "runnel.core"
local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local forms = require "runnel.otlp.otlp_forms"
local guard = require "runnel.internal.guard"
local living = require "runnel.internal.living"
local metrics = require "runnel.rn.metrics"
local sender = require "runnel.otlp.otlp_sender"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"
local term = require "runnel.internal.sigterm"
local timed_out = require "runnel.internal.timed_out"
local token = require "runnel.http.token"

local internal = core.internal
local raise = internal.raise
local unix = internal.trace.unix

living.exporters = living.exporters or setmetatable({}, { __mode = "k" })

---@class runnel.otlp
local otlp = {}

-- Spans of one request to the collector; and how long the first of them waits for more, in ms.
local BATCH <const>, DELAY <const> = 512, 1000

local LONGEST_PROBLEM <const> = 200 -- bytes of an error in a span

local DEFAULTS <const> = { every = 60000, queue = 2048, sample = 1, timeout = 10000, tries = 5 }

local kinds = check.kinds

local function check_sample(value, what)
  if type(value) ~= "number" or not (value >= 0 and value <= 1) then
    raise(("%s: a number from 0 to 1 expected, got %s"):format(what, check.describe(value)))
  end
end

local function check_text(value, what)
  if type(value) ~= "string" or value == "" then
    raise(("%s: a text expected, got %s"):format(what, check.describe(value)))
  end
end

local OPTIONS <const> = { service = check_text, resource = kinds.table, headers = kinds.table, traces = kinds.boolean,
  metrics = kinds.boolean, every = kinds.integer(1000), queue = kinds.integer(1), sample = check_sample,
  timeout = kinds.ms(1), tries = kinds.integer(1) }

---@class runnel.otlp.Options
---@field service? string the name of the program; default: OTEL_SERVICE_NAME of the environment, or that of its file
---@field resource? table<string, string|number|boolean> further attributes of the program
---@field headers? table<string, string> for each request to the collector, such as a key
---@field traces? boolean false: sends no spans
---@field metrics? boolean false: sends no metrics
---@field every? integer ms from metrics to metrics; default 60000
---@field queue? integer how many spans may wait; default 2048. Further ones are dropped
---@field sample? number how many of the traces that begin here are sent, from 0 to 1; default 1. For traces that begin
---elsewhere, their beginner has decided
---@field timeout? number ms for a request to the collector; default 10000
---@field tries? integer how often each request is tried; default 5

---@class runnel.otlp.Exporter
---@field package url string
---@field package resource table attributes, as OTLP has them
---@field package spans table[] that wait
---@field package queue integer how many may
---@field package news runnel.Channel<boolean> gets a value when there are spans, or the exporter ends
---@field package ending runnel.Channel<any> closes when the exporter is drained or stopped
---@field package done runnel.Channel<any> closes when nothing is sent any more
---@field package blocks runnel.Channel<any>[] that have not ended
---@field package traces runnel.internal.OtlpSender
---@field package points runnel.internal.OtlpSender
---@field package release fun() lets go of what it holds; any number of times
local Exporter = { __name = "otlp exporter", __sign = "exporter" }
Exporter.__index = Exporter

-- ---- spans ----

local function add_span(self, operation, ended, err)
  if self.done:closed() or operation.flags ~= "01" then return end -- who began the trace has not chosen it
  if #self.spans >= self.queue then
    return self.traces:drop(1, "more than the option queue allows wait for the collector")
  end
  local problem = err ~= nil and short.cut(short.utf8(internal.error_text(err)), LONGEST_PROBLEM) or nil
  self.spans[#self.spans + 1] = forms.span(operation, ended, problem)
  if #self.spans == 1 or #self.spans == BATCH then self.news:offer(true) end
end

-- Waits for a full batch, the time, or the end. Returns false if there are no spans and never will be.
local function wait_for_spans(self)
  while #self.spans == 0 do
    if self.ending:closed() then return false end
    core.alts { self.news, self.ending }
  end
  local alarm <close> = guard.alarm(DELAY)
  while #self.spans < BATCH and not self.ending:closed() do
    local _, from = core.alts({ self.ending, alarm.over, self.news }, { priority = true })
    if from == alarm.over then break end
  end
  return true
end

local function send_spans(self)
  while wait_for_spans(self) do
    local batch = table.move(self.spans, 1, BATCH, 1, {})
    self.spans = table.move(self.spans, BATCH + 1, #self.spans, 1, {})
    self.traces:send(forms.traces(self.resource, batch), #batch)
  end
end

-- ---- metrics ----

local function send_metrics(self, every)
  local next_one = core.now()
  repeat
    next_one = math.max(next_one + every, core.now())
    local alarm <close> = guard.alarm(next_one - core.now())
    core.alts { alarm.over, self.ending }
    local numbers = metrics.metrics() --[[@as runnel.Metrics]]
    self.points:send(forms.metrics(self.resource, numbers, living.began, unix()))
  until self.ending:closed()
end

-- ---- life ----

local function left(self, block)
  for i, one in ipairs(self.blocks) do
    if one == block then table.remove(self.blocks, i) break end
  end
  if #self.blocks > 0 then return end
  self.traces:give_up(#self.spans)
  self.points:give_up(0)
  self.spans = {}
  self.done:close()
end

-- A go block has died: what `stop` cancels is no error.
local function gave_up(self, reason, block)
  if self.ending:closed() then internal.excuse(block, reason) end
  self.release()
end

-- Starts a go block that sends.
local function begin(self, f, ...)
  local block
  local function run(...)
    internal.trace.set_context(nil) -- belongs to no request
    f(...)
  end
  block = internal.trace.hide(guard.go(gave_up, self, run, ...))
  self.blocks[#self.blocks + 1] = block
  internal.on_close(block, function() left(self, block) end)
end

---Sends what is left, and ends. Parks.
---@param timeout? number ms; default 10000. What is not sent then is dropped
---@return boolean drained
---@return runnel.TimedOut? err
function Exporter:drain(timeout)
  sign.own(self, "exporter", "drain")
  if timeout == nil then timeout = 10000 end
  check.ms(timeout, 0, "drain: timeout")
  self.release()
  self.ending:close()
  local alarm <close> = guard.alarm(timeout)
  local _, from = core.alts({ self.done, alarm.over }, { priority = true })
  if from == self.done then return true end
  self:stop()
  return timed_out.of_drain("the exporter to " .. self.url, timeout)
end

---Ends at once, and drops what was not sent.
function Exporter:stop()
  sign.own(self, "exporter", "stop")
  self.release()
  self.ending:close()
  for _, block in ipairs(table.move(self.blocks, 1, #self.blocks, 1, {})) do
    core.cancel(block, "the exporter was stopped")
  end
end

Exporter.__close = function(self) self:drain() end

---@class runnel.otlp.Stats
---@field sent integer
---@field dropped integer
---@field waiting integer
---@field error? string why something was dropped last; nil once something was sent again

---What was sent so far.
---@return { spans: runnel.otlp.Stats, points: runnel.otlp.Stats } stats `points`: numbers of metrics
function Exporter:stats()
  sign.own(self, "exporter", "stats")
  local traces, points = self.traces, self.points
  return { spans = { sent = traces.sent, dropped = traces.dropped, waiting = #self.spans, error = traces.error },
    points = { sent = points.sent, dropped = points.dropped, waiting = 0, error = points.error } }
end

-- ---- the start ----

local function check_attributes(map, what)
  for key, value in pairs(map or {}) do
    local kind = type(value)
    if type(key) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      raise(("%s: resource: names with strings, numbers or booleans expected, got %s = %s"):format(what,
        check.describe(key), check.describe(value)))
    end
  end
end

local function check_headers(map, what)
  for key, value in pairs(map or {}) do
    if not token.is(key) or type(value) ~= "string" or value:find "[\r\n\0]" then
      raise(("%s: headers: names with texts of one line expected, got %s = %s"):format(what, check.describe(key),
        check.describe(value)))
    end
  end
end

-- A variable of the environment; an empty one counts as none.
local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

local function settings_of(url, opts)
  local what = "otlp.start"
  if url == nil then url = variable "OTEL_EXPORTER_OTLP_ENDPOINT" or "http://127.0.0.1:4318" end
  if type(url) ~= "string" or not url:find "^https?://[^/?#]" then
    raise(("%s: the URL of a collector expected, as http://127.0.0.1:4318, got %s"):format(what, check.describe(url)))
  end
  check.options(opts, OPTIONS, what)
  opts = opts or {}
  check_attributes(opts.resource, what)
  check_headers(opts.headers, what)
  local settings = { url = url:gsub("/+$", ""), headers = { ["Content-Type"] = "application/json" } }
  for key, value in pairs(opts.headers or {}) do settings.headers[key] = value end
  for key, default in pairs(DEFAULTS) do
    settings[key] = opts[key]
    if opts[key] == nil then settings[key] = default end
  end
  local program = type(arg) == "table" and type(arg[0]) == "string" and arg[0]:match "[^/\\]+$" or "lua"
  local resource = { ["service.name"] = opts.service or variable "OTEL_SERVICE_NAME" or program,
    ["telemetry.sdk.name"] = "runnel", ["telemetry.sdk.language"] = "lua" }
  for key, value in pairs(opts.resource or {}) do resource[key] = value end
  settings.resource = forms.attributes(resource)
  settings.traces, settings.metrics = opts.traces ~= false, opts.metrics ~= false
  if not settings.traces and not settings.metrics then raise(what .. ": traces or metrics expected, got neither") end
  return settings
end

-- Lets operations that end call the exporter. Returns what undoes that.
local function hold(self, settings)
  if not settings.traces then return function() end end
  local host = internal.host()
  contexts.hold()
  contexts.sinks[host] = { add = function(...) add_span(self, ...) end, sample = settings.sample }
  local sink = contexts.sinks[host]
  return function()
    if contexts.sinks[host] ~= sink then return end
    contexts.sinks[host] = nil
    contexts.release()
  end
end

---Starts to send spans and metrics to a collector, until `drain` or `stop`. Does not park, and does not ask whether the
---collector is there.
---@param url? string of the collector, without /v1/traces; default: OTEL_EXPORTER_OTLP_ENDPOINT of the environment, or
---http://127.0.0.1:4318
---@param opts? runnel.otlp.Options
---@return runnel.otlp.Exporter
function otlp.start(url, opts)
  sign.dot(url, "otlp", "start")
  local settings = settings_of(url, opts)
  if settings.traces and contexts.sinks[internal.host()] then
    raise("otlp.start: an exporter of traces runs already; drain it first")
  end
  local self = setmetatable({ url = settings.url, resource = settings.resource, spans = {}, queue = settings.queue,
    news = internal.trace.hide(core.chan(1)), ending = internal.trace.hide(core.chan()), done = core.chan(),
    blocks = {}, traces = sender.new("spans", settings, "/v1/traces"),
    points = sender.new("points", settings, "/v1/metrics") }, Exporter)
  self.release = hold(self, settings)
  if settings.traces then begin(self, send_spans, self) end
  if settings.metrics then
    metrics.metrics()
    begin(self, send_metrics, self, settings.every)
  end
  living.exporters[self] = true
  local forget = term.add(self, "exporter", { order = term.CONNECTIONS, name = settings.url, drain = self.drain,
    done = self.done, catches = false })
  internal.on_close(self.done, forget)
  return self
end

return otlp
