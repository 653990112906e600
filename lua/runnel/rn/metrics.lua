---rn.metrics: what a program's go blocks, channels, flows, queues, threads and HTTP servers do, in numbers; and the
---numbers of the program's own (runnel.internal.instruments).
---
---The core counts puts and takes of each channel in any case, and flows, workers, pools and servers count what they do.
---So this module only reads counters, when it is asked. As long as it is on, the core keeps a list of all channels, and
---measures how long the loop computes at a time.

local collectgarbage, os, require = collectgarbage, os, require
local check = require "runnel.internal.check"
local core = require "runnel.core"
local class = require "runnel.internal.class"
local exposition = require "runnel.internal.metrics_text"
local instruments = require "runnel.internal.instruments"
local living = require "runnel.internal.living"
local sign = require "runnel.internal.sign"

local in_parts = require "runnel.tracing.in_parts"
local internal = core.internal
local raise = internal.raise
local recorder = internal.trace

local metrics = {}

---What rn.metrics returns. Counters begin with the first call.
---@class runnel.Metrics
---@field go_blocks table<"new"|"ready"|"running"|"parked"|"sleeping", integer> how many there are in each state
---@field channels table<string, runnel.ChannelMetrics> by name; in place of digits in a name there is a #
---@field flows table<string, table<string, runnel.StageMetrics>> the running flows, by name, and their stages, by name
---@field queues table<string, runnel.WorkerMetrics> the workers and durable stages of this program, by name
---@field pools table<string, runnel.PoolMetrics> the pools of threads, by the name of what they call
---@field supervised table<string, runnel.ChildMetrics> the children of rn.supervise, by name
---@field http table<string, runnel.HttpMetrics> the servers of http.serve, by their ports
---@field otlp table<"traces"|"metrics", { sent: integer, dropped: integer }> what runnel.otlp has sent so far
---@field own table<string, runnel.OwnMetric> those of rn.counter, rn.gauge and rn.histogram, by name
---@field threads integer threads that run, those of pools too
---@field errors integer errors that were reported, because the program did not take them
---@field memory integer bytes that Lua has in use
---@field cpu number ms of processor time that the process has used, with all its threads
---@field waited number ms that the loop has waited, because nothing was ready
---@field longest_turn number ms: the longest time since the previous call in which the loop did not look at its
---timers and drivers, because go blocks computed
---@field blocked number ms that the thread was blocked elsewhere, as in a system call of os.execute
local Metrics = {}
Metrics.__sign = "m"

---All channels of a name.
---@class runnel.ChannelMetrics
---@field channels integer how many there are
---@field put_total integer values put so far: a counter
---@field take_total integer values taken so far: a counter
---@field values integer values in their buffers
---@field capacity integer values that their buffers hold
---@field puts_waiting integer
---@field takes_waiting integer

---@class runnel.StageMetrics
---@field taken integer values taken so far: a counter
---@field errors integer so far: a counter
---@field workers integer
---@field busy integer workers that have a value
---@field waiting integer values that wait for the stage
---@field state string as f:stats() tells it

---@class runnel.WorkerMetrics
---@field done integer messages so far: a counter, as are the next three
---@field failed integer tries
---@field given_up integer messages
---@field redelivered integer starts of messages that were delivered before
---@field workers integer calls that may run at a time
---@field running integer calls
---@field waiting integer messages here that have not started
---@field paused boolean

---@class runnel.PoolMetrics
---@field calls integer so far: a counter
---@field failed integer calls whose function has raised, or returned nil and an error: a counter
---@field threads integer
---@field running integer calls that a thread has taken
---@field waiting integer calls that wait for a thread

---@class runnel.ChildMetrics
---@field restarts integer so far: a counter
---@field failures integer so far: a counter
---@field children integer how many have this name
---@field running integer those that do not wait for their next start, and have not ended

---@class runnel.HttpMetrics
---@field requests table<integer, integer> requests that have ended, by status: counters. 499: the client went away
---@field running integer requests that have begun, and have not ended
---@field seconds number how long the requests took, all together: a counter
---@field times number[][] counters: { seconds, how many requests took at most these }; the last with math.huge

-- ---- names ----

-- The number of names of a kind that have numbers of their own; those of further names are added up under OTHER.
local NAMES <const>, OTHER <const> = 200, "other"

-- Names that differ only in digits are one, as on the monitor's page. Digits after a colon are the number of a line.
local function keep_line(colon) return colon == "" and "#" or nil end
local function fold(name) return (name:gsub("(:?)%d+", keep_line)) end

-- The names of a kind that are told apart, and how many they are.
---@class runnel.internal.metrics.Names
---@field known table<string, true>
---@field count integer

local function name_in(self, name)
  if self.known[name] then return name end
  if self.count >= NAMES then return OTHER end
  self.count, self.known[name] = self.count + 1, true
  return name
end

-- ---- counters ----

-- A counter by name. What is counted under a name comes and goes; the sum must not fall when something goes.
---@class runnel.internal.metrics.Counter
---@field sums table<string, integer>
---@field seen table<any, integer> by what is counted: how much of it is in the sums
---@field now table<any, integer> the same, of what was added since the last `finish`
local Counter = {}
Counter.__index = Counter

local function counter() return setmetatable({ sums = {}, seen = in_parts.map(), now = in_parts.map() }, Counter) end

-- What has `total` so far belongs to `name`. Returns the sum, which is right after each `add`: calls of rn.metrics may
-- overlap, and one may be cancelled.
function Counter:add(name, source, total)
  local sum = (self.sums[name] or 0) + total - (self.seen[source] or 0)
  self.sums[name], self.seen[source], self.now[source] = sum, total, total
  return sum
end

-- All that exists was added since the last call: forgets what is gone.
function Counter:finish() self.seen, self.now = self.now, in_parts.map() end

-- What lasts from call to call; nil while the metrics are off.
local active

local function begin()
  local function names() return { known = {}, count = 0 } end
  active = { channels = names(), flows = names(), stages = names(), queues = names(), pools = names(),
    children = names(), servers = names(), counters = {}, calls = 0 }
  internal.measure(true)
  in_parts.hold "l"
end

local function stop()
  if not active then return end
  active = nil
  internal.measure(false)
  recorder.release "l"
end

-- Adds the total of a counter to a row.
local function count(row, field, kind, name, source, total)
  local key = kind .. field
  local all = active.counters[key] or counter()
  active.counters[key] = all
  row[field] = all:add(name, source, total)
end

-- ---- what is read ----

local function row_of(rows, name, fields)
  local row = rows[name]
  if row then return row end
  row = {}
  for _, field in ipairs(fields) do row[field] = 0 end
  rows[name] = row
  return row
end

local CHANNEL <const> = { "channels", "put_total", "take_total", "values", "capacity", "puts_waiting", "takes_waiting" }

local function add_channel(rows, stats, place)
  local name = name_in(active.channels, stats.name and fold(stats.name) or place or "?")
  local row = row_of(rows, name, CHANNEL)
  row.channels, row.values = row.channels + 1, row.values + stats.values
  row.capacity = row.capacity + (stats.capacity or 0)
  row.puts_waiting, row.takes_waiting = row.puts_waiting + stats.puts_waiting, row.takes_waiting + stats.takes_waiting
  count(row, "put_total", "channel ", name, stats.id, stats.put_total)
  count(row, "take_total", "channel ", name, stats.id, stats.take_total)
end

-- The channels by name; those without a name by the line that made them.
local function read_channels()
  local rows, before = {}, active
  for stats, _, name in in_parts.channels() do
    if active ~= before then return rows end -- switched off meanwhile
    add_channel(rows, stats, name)
  end
  return rows
end

local STAGE <const> = { "taken", "errors", "workers", "busy", "waiting" }

local function read_flows()
  local flows = {}
  for _, flow in ipairs(living.flows and living.flows() or {}) do
    local name = name_in(active.flows, fold(flow.name))
    local stages = flows[name] or {}
    flows[name] = stages
    for i, seen in ipairs(living.flow_rows(flow)) do
      local stage = name_in(active.stages, fold(seen.stage))
      local row, source, both = row_of(stages, stage, STAGE), flow.stages[i], name .. "\0" .. stage
      row.workers, row.busy, row.waiting = row.workers + seen.workers, row.busy + seen.busy, row.waiting + seen.waiting
      row.state = seen.state
      count(row, "taken", "stage ", both, source, seen.taken)
      count(row, "errors", "stage ", both, source, seen.errors)
    end
  end
  return flows
end

local WORKER <const> = { "done", "failed", "given_up", "redelivered", "workers", "running", "waiting" }
local COUNTS <const> = { "done", "failed", "given_up", "redelivered" }

local function read_queues()
  local rows = {}
  for one in pairs(living.workers or {}) do
    local name, stats = name_in(active.queues, fold(one.name)), one:stats()
    local row = row_of(rows, name, WORKER)
    row.workers, row.running = row.workers + one.n, row.running + stats.running
    row.waiting, row.paused = row.waiting + stats.waiting, row.paused or one.is_paused
    for _, field in ipairs(COUNTS) do count(row, field, "queue ", name, one, stats[field]) end
  end
  return rows
end

local POOL <const> = { "calls", "failed", "threads", "running", "waiting" }

local function read_pools()
  local rows = {}
  for id, pool in pairs(living.pools or {}) do
    local stats = living.pool_stats(pool)
    local name = name_in(active.pools, fold(stats.where))
    local row = row_of(rows, name, POOL)
    row.threads, row.running = row.threads + stats.threads, row.running + stats.running
    row.waiting = row.waiting + stats.waiting
    for _, field in ipairs { "calls", "failed" } do count(row, field, "pool ", name, id, stats[field]) end
  end
  return rows
end

local CHILD <const> = { "restarts", "failures", "children", "running" }

local function read_supervised()
  local rows = {}
  for one in pairs(living.supervisors or {}) do
    for _, child in ipairs(one.children) do
      local name = name_in(active.children, fold(child.name))
      local row = row_of(rows, name, CHILD)
      row.children, row.running = row.children + 1, row.running + (child.is_running and 1 or 0)
      for _, field in ipairs { "restarts", "failures" } do
        count(row, field, "child ", name, child, child[field])
      end
    end
  end
  return rows
end

local function read_http()
  local rows = {}
  for id, server in pairs(living.servers or {}) do
    local name, tally = name_in(active.servers, tostring(server.port or server.path)), living.server_tally(server)
    local row = rows[name] or { requests = {}, running = 0, seconds = 0, times = {} }
    rows[name], row.running = row, row.running + tally.running
    for status, n in pairs(tally.statuses) do
      count(row.requests, status, "requests ", name, id, n)
    end
    count(row, "seconds", "seconds ", name, id, tally.seconds)
    for i, time in ipairs(tally.times) do
      row.times[i] = { time[1], 0 }
      count(row.times[i], 2, "times " .. i, name, id, time[2])
    end
  end
  return rows
end

local function read_exporters()
  local rows = {}
  for exporter in pairs(living.exporters or {}) do
    local stats = exporter:stats()
    for signal, one in pairs { traces = stats.spans, metrics = stats.points } do
      local row = row_of(rows, signal, { "sent", "dropped" })
      count(row, "sent", "otlp " .. signal, signal, exporter, one.sent)
      count(row, "dropped", "otlp " .. signal, signal, exporter, one.dropped)
    end
  end
  return rows
end

---Returns numbers about what the program does now, and counters. The first call starts counting: make it once at the
---start of the program, so that all channels are counted. With more than 500 channels, other go blocks run meanwhile.
---@param on? boolean false stops counting, and forgets the counters
---@return runnel.Metrics? numbers nil for false
function metrics.metrics(on)
  if on ~= nil and type(on) ~= "boolean" then
    raise("metrics: true, false or nothing expected, got " .. check.article(on))
  end
  if on == false then
    stop()
    return nil
  end
  if not active then begin() end
  local own = active
  if not own then return metrics.metrics() end -- switched off while it began
  own.calls = own.calls + 1
  local call = own.calls
  local states = internal.states()
  states.dead = nil
  local errors, waited, longest, blocked = internal.measured()
  local numbers = setmetatable({
    go_blocks = states, channels = read_channels(), flows = {}, queues = {}, pools = {}, http = {}, supervised = {},
    otlp = {}, own = instruments.read(), threads = living.threads and living.threads() or 0, errors = errors,
    memory = math.floor(collectgarbage "count" * 1024), cpu = os.clock() * 1000, waited = waited,
    longest_turn = longest, blocked = blocked,
  }, Metrics)
  if active ~= own then return numbers end
  numbers.flows, numbers.queues = read_flows(), read_queues()
  numbers.pools, numbers.http, numbers.supervised = read_pools(), read_http(), read_supervised()
  numbers.otlp = read_exporters()
  -- If a later call has begun, it may have added a part of what exists: that one, or one after it, finishes.
  if call == own.calls then
    for _, one in pairs(own.counters) do one:finish() end
  end
  return numbers
end

---The numbers in Prometheus' text format. Times are seconds there.
---@return string
function Metrics:text()
  sign.own(self, "m", "text")
  return exposition.text(self)
end

---A response with that text, for the function of http.serve: `return rn.metrics():answer()`.
---@return integer status
---@return table<string, string> headers
---@return string body
function Metrics:answer()
  sign.own(self, "m", "answer")
  return 200, { ["Content-Type"] = exposition.TYPE }, self:text()
end

class.finish(Metrics)

return metrics
