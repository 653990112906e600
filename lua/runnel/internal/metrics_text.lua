---The numbers of rn.metrics in Prometheus' text format, version 0.0.4. Names and units are as Prometheus' guide says:
---base units, and _total for what only grows.

local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local short = require "runnel.internal.short"

local exposition = {}

---The content type of the text.
exposition.TYPE = "text/plain; version=0.0.4; charset=utf-8"

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

-- The value of a label in quotes.
local function quoted(text) return '"' .. short.utf8(text):gsub('[\\"\n]', ESCAPES) .. '"' end

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

local ENDING <const> = "" -- in place of a label: its value is the end of the sample's name

local durations = of_servers(function(row, put, port)
  for _, time in ipairs(row.times) do
    local bound = time[1] == math.huge and "+Inf" or decimal.format("%g", time[1])
    put(time[2], ENDING, "_bucket", "port", port, "le", bound)
  end
  put(row.seconds, ENDING, "_sum", "port", port)
  put(row.times[#row.times][2], ENDING, "_count", "port", port)
end)

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
  { "runnel_pool_failed_calls_total", "counter", "Calls of pools whose function has raised.", of_pool "failed" },
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

-- A sample as a line.
local function line(name, value, ...)
  local labels = {}
  for i = 1, select("#", ...), 2 do
    local key, text = select(i, ...)
    if key == ENDING then name = name .. text else labels[#labels + 1] = key .. "=" .. quoted(text) end
  end
  local all = #labels > 0 and "{" .. table.concat(labels, ",") .. "}" or ""
  return ("%s%s %s"):format(name, all, number(value))
end

-- Adds the lines of a number of the program's own.
local function add_own(lines, name, metric)
  if #metric.series == 0 then return end
  lines[#lines + 1] = ("# HELP %s %s"):format(name, (short.utf8(metric.help):gsub("[\\\n]", ESCAPES)))
  lines[#lines + 1] = ("# TYPE %s %s"):format(name, metric.kind)
  for _, series in ipairs(metric.series) do
    local labels = {}
    for _, key in ipairs(keys(series.labels)) do
      labels[#labels + 1], labels[#labels + 2] = key, series.labels[key]
    end
    local function put(ending, value, ...)
      lines[#lines + 1] = line(name .. ending, value, table.unpack(table.move({ ... }, 1, 2, #labels + 1,
        table.move(labels, 1, #labels, 1, {}))))
    end
    for _, time in ipairs(series.times or {}) do put("_bucket", time[2], "le", number(time[1])) end
    if series.times then
      put("_sum", series.sum)
      put("_count", series.count)
    else
      put("", series.value)
    end
  end
end

---@param numbers runnel.Metrics
---@return string
function exposition.text(numbers)
  local lines = {}
  for _, name in ipairs(keys(numbers.own)) do add_own(lines, name, numbers.own[name]) end
  for _, family in ipairs(FAMILIES) do
    local name, kind, help, read = table.unpack(family)
    local head = #lines
    read(numbers, function(value, ...)
      if #lines == head then
        lines[head + 1] = ("# HELP %s %s"):format(name, help)
        lines[head + 2] = ("# TYPE %s %s"):format(name, kind)
      end
      lines[#lines + 1] = line(name, value, ...)
    end)
  end
  return table.concat(lines, "\n") .. "\n"
end

return exposition
