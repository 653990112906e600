---The numbers of rn.metrics as families, of which each has a name and series with labels; and as Prometheus' text
---format, version 0.0.4. Names and units are as Prometheus' guide says: base units, and _total for what only grows.

local json = require "runnel.json"
local short = require "runnel.internal.short"

local exposition = {}

---The content type of the text.
exposition.TYPE = "text/plain; version=0.0.4; charset=utf-8"

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

-- The value of a label in quotes.
local function quoted(text) return '"' .. text:gsub('[\\"\n]', ESCAPES) .. '"' end

-- What is too large for a float is infinite in the text, too.
local function number(value)
  if value == math.huge then return "+Inf" end
  return value == -math.huge and "-Inf" or assert(json.encode(value))
end

local function seconds(ms) return ms / 1000 end

-- The keys of a table in their order.
local function keys(map)
  local list = {}
  for key in pairs(map) do list[#list + 1] = key end
  table.sort(list)
  return list
end

-- Each writes the samples of its source: put(value, labels), where labels are names and values in turn.
local function single(read)
  return function(numbers, put) put(read(numbers)) end
end

local function of_channels(field)
  return function(numbers, put)
    for _, name in ipairs(keys(numbers.channels)) do put(numbers.channels[name][field], "channel", name) end
  end
end

local function of_stages(read)
  return function(numbers, put)
    for _, flow in ipairs(keys(numbers.flows)) do
      for _, stage in ipairs(keys(numbers.flows[flow])) do
        read(numbers.flows[flow][stage], put, "flow", flow, "stage", stage)
      end
    end
  end
end

local function of_stage(field)
  return of_stages(function(row, put, ...) put(row[field], ...) end)
end

local function state_of_stage(row, put, ...)
  put(1, "flow", (select(2, ...)), "stage", (select(4, ...)), "state", row.state)
end

local function of_queues(read)
  return function(numbers, put)
    for _, name in ipairs(keys(numbers.queues)) do put(read(numbers.queues[name]), "queue", name) end
  end
end

local function of_queue(field)
  return of_queues(function(row) return row[field] end)
end

local function of_children(field)
  return function(numbers, put)
    for _, name in ipairs(keys(numbers.supervised)) do put(numbers.supervised[name][field], "child", name) end
  end
end

local function of_pool(field)
  return function(numbers, put)
    for _, name in ipairs(keys(numbers.pools)) do put(numbers.pools[name][field], "pool", name) end
  end
end

-- Calls f with each server's numbers and its label.
local function of_servers(f)
  return function(numbers, put)
    for _, port in ipairs(keys(numbers.http)) do f(numbers.http[port], put, port) end
  end
end

local requests = of_servers(function(row, put, port)
  for _, status in ipairs(keys(row.requests)) do put(row.requests[status], "port", port, "code", tostring(status)) end
end)

local durations = of_servers(function(row, put, port)
  put({ times = row.times, sum = row.seconds, count = row.times[#row.times][2] }, "port", port)
end)

local function of_exporters(field)
  return function(numbers, put)
    for _, signal in ipairs(keys(numbers.otlp)) do put(numbers.otlp[signal][field], "signal", signal) end
  end
end

local function go_blocks(numbers, put)
  for _, state in ipairs(keys(numbers.go_blocks)) do put(numbers.go_blocks[state], "state", state) end
end

local FAMILIES = {
  { "runnel_go_blocks", "gauge", "Go blocks, by state.", go_blocks },
  { "runnel_channels", "gauge", "Channels, by name.", of_channels "channels" },
  { "runnel_channel_puts_total", "counter", "Values put on channels.", of_channels "put_total" },
  { "runnel_channel_takes_total", "counter", "Values taken from channels.", of_channels "take_total" },
  { "runnel_channel_values", "gauge", "Values in the buffers of channels.", of_channels "values" },
  { "runnel_channel_capacity", "gauge", "Values that the buffers of channels hold.", of_channels "capacity" },
  { "runnel_channel_waiting_puts", "gauge", "Puts that wait.", of_channels "puts_waiting" },
  { "runnel_channel_waiting_takes", "gauge", "Takes that wait.", of_channels "takes_waiting" },
  { "runnel_flow_taken_total", "counter", "Values that stages of flows have taken.", of_stage "taken" },
  { "runnel_flow_errors_total", "counter", "Errors of stages of flows.", of_stage "errors" },
  { "runnel_flow_workers", "gauge", "Workers of stages of flows.", of_stage "workers" },
  { "runnel_flow_busy_workers", "gauge", "Workers of stages of flows that have a value.", of_stage "busy" },
  { "runnel_flow_waiting_values", "gauge", "Values that wait for stages of flows.", of_stage "waiting" },
  { "runnel_flow_state", "gauge", "1 for the state that a stage of a flow is in.", of_stages(state_of_stage) },
  { "runnel_queue_done_total", "counter", "Messages done.", of_queue "done" },
  { "runnel_queue_failed_total", "counter", "Tries of messages that have failed.", of_queue "failed" },
  { "runnel_queue_given_up_total", "counter", "Messages given up.", of_queue "given_up" },
  { "runnel_queue_redelivered_total", "counter", "Starts of messages that were delivered before.",
    of_queue "redelivered" },
  { "runnel_queue_workers", "gauge", "Calls that may run at a time.", of_queue "workers" },
  { "runnel_queue_running", "gauge", "Calls that run.", of_queue "running" },
  { "runnel_queue_waiting", "gauge", "Messages that wait here for their start.", of_queue "waiting" },
  { "runnel_queue_paused", "gauge", "1 if an operator has paused the queue.",
    of_queues(function(row) return row.paused and 1 or 0 end) },
  { "runnel_threads", "gauge", "Threads that run.", single(function(n) return n.threads end) },
  { "runnel_pool_threads", "gauge", "Threads of pools.", of_pool "threads" },
  { "runnel_pool_calls_total", "counter", "Calls of pools of threads.", of_pool "calls" },
  { "runnel_pool_failed_calls_total", "counter", "Calls of pools that have failed.", of_pool "failed" },
  { "runnel_pool_running_calls", "gauge", "Calls that a thread of a pool has taken.", of_pool "running" },
  { "runnel_pool_waiting_calls", "gauge", "Calls that wait for a thread of a pool.", of_pool "waiting" },
  { "runnel_supervised_children", "gauge", "Children of supervisors.", of_children "children" },
  { "runnel_supervised_running_children", "gauge", "Children of supervisors that run now.", of_children "running" },
  { "runnel_supervised_restarts_total", "counter", "Restarts of children.", of_children "restarts" },
  { "runnel_supervised_failures_total", "counter", "Errors of children.", of_children "failures" },
  { "runnel_http_requests_total", "counter", "Requests to HTTP servers that have ended, by status.", requests },
  { "runnel_http_requests_in_flight", "gauge", "Requests to HTTP servers that have not ended.",
    of_servers(function(row, put, port) put(row.running, "port", port) end) },
  { "runnel_http_request_duration_seconds", "histogram",
    "The time from the headers of a request to the end of its response.", durations },
  { "runnel_otlp_sent_total", "counter", "Spans, and numbers of metrics, that collectors have got.",
    of_exporters "sent" },
  { "runnel_otlp_dropped_total", "counter", "Spans, and numbers of metrics, that no collector has got.",
    of_exporters "dropped" },
  { "runnel_errors_total", "counter", "Errors that nobody took.", single(function(n) return n.errors end) },
  { "runnel_memory_bytes", "gauge", "Memory that Lua has in use.", single(function(n) return n.memory end) },
  { "runnel_loop_waited_seconds_total", "counter", "Time that the loop has waited, because nothing was ready.",
    single(function(n) return seconds(n.waited) end) },
  { "runnel_loop_longest_turn_seconds", "gauge",
    "The longest time since the last look in which the loop did not come round.",
    single(function(n) return seconds(n.longest_turn) end) },
  { "runnel_loop_blocked_seconds_total", "counter",
    "Time that the thread has neither computed nor waited in the loop, as in a system call of os.execute.",
    single(function(n) return seconds(n.blocked) end) },
  { "process_cpu_seconds_total", "counter", "Processor time that the process has used.",
    single(function(n) return seconds(n.cpu) end) },
}

---@class runnel.internal.MetricSeries
---@field labels string[][] { name, value }
---@field value? number of a counter or a gauge
---@field sum? number of a histogram, as the next two: see runnel.Series
---@field count? integer
---@field times? number[][]

---@class runnel.internal.MetricFamily
---@field name string
---@field kind "counter"|"gauge"|"histogram"
---@field help string
---@field unit? string
---@field series runnel.internal.MetricSeries[] at least one

-- A family of the library's numbers.
local function read_family(numbers, name, kind, help, read)
  local list = {}
  read(numbers, function(value, ...)
    local one = type(value) == "table" and value or { value = value }
    one.labels = {}
    for i = 1, select("#", ...), 2 do
      local key, text = select(i, ...)
      one.labels[#one.labels + 1] = { key, short.utf8(text) }
    end
    list[#list + 1] = one
  end)
  return { name = name, kind = kind, help = help, series = list }
end

-- A family of the program's own numbers.
local function own_family(name, metric)
  local list = {}
  for i, series in ipairs(metric.series) do
    local labels = {}
    for j, key in ipairs(keys(series.labels)) do labels[j] = { key, series.labels[key] } end
    list[i] = { labels = labels, value = series.value, sum = series.sum, count = series.count, times = series.times }
  end
  return { name = name, kind = metric.kind, help = short.utf8(metric.help), unit = metric.unit, series = list }
end

---The numbers by name, those of the program first.
---@param numbers runnel.Metrics
---@return runnel.internal.MetricFamily[]
function exposition.families(numbers)
  local families = {}
  local function add(family)
    if #family.series > 0 then families[#families + 1] = family end
  end
  for _, name in ipairs(keys(numbers.own)) do add(own_family(name, numbers.own[name])) end
  for _, family in ipairs(FAMILIES) do add(read_family(numbers, table.unpack(family))) end
  return families
end

-- A sample as a line; `bound` is that of a bucket.
local function line(name, labels, value, bound)
  local parts = {}
  for i, label in ipairs(labels) do parts[i] = label[1] .. "=" .. quoted(label[2]) end
  if bound then parts[#parts + 1] = ('le="%s"'):format(number(bound)) end
  local all = #parts > 0 and "{" .. table.concat(parts, ",") .. "}" or ""
  return ("%s%s %s"):format(name, all, number(value))
end

---Families as text.
---@param families runnel.internal.MetricFamily[]
---@return string
function exposition.format(families)
  local lines = {}
  local function add(...) lines[#lines + 1] = line(...) end
  for _, family in ipairs(families) do
    local name = family.name
    lines[#lines + 1] = ("# HELP %s %s"):format(name, (family.help:gsub("[\\\n]", ESCAPES)))
    lines[#lines + 1] = ("# TYPE %s %s"):format(name, family.kind)
    for _, series in ipairs(family.series) do
      for _, time in ipairs(series.times or {}) do add(name .. "_bucket", series.labels, time[2], time[1]) end
      if series.times then
        add(name .. "_sum", series.labels, series.sum)
        add(name .. "_count", series.labels, series.count)
      else
        add(name, series.labels, series.value)
      end
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

---@param numbers runnel.Metrics
---@return string
function exposition.text(numbers) return exposition.format(exposition.families(numbers)) end

return exposition
