---Spans and metrics in the JSON form of OpenTelemetry's protocol (https://opentelemetry.io/docs/specs/otlp/).

local exposition = require "runnel.internal.metrics_text"
local instruments = require "runnel.internal.instruments"
local json = require "runnel.json"
local short = require "runnel.internal.short"

local forms = {}

local SCOPE <const> = { name = "runnel" }

-- Kinds of spans, and the status of a failed one.
local INTERNAL <const>, FAILED <const> = 1, 2
local KINDS <const> = { server = 2, consumer = 5 }

local CUMULATIVE <const> = 2

-- ---- values ----

-- 64-bit integers are strings, as in protobuf's JSON, and so are floats that are no finite numbers.
local function int(n) return ("%d"):format(n) end

local function double(n)
  if n ~= n then return "NaN" end
  if n == math.huge then return "Infinity" end
  return n == -math.huge and "-Infinity" or n + 0.0
end

local function value_of(value)
  if type(value) == "boolean" then return { boolValue = value } end
  if math.type(value) == "integer" then return { intValue = int(value) } end
  return type(value) == "number" and { doubleValue = double(value) } or { stringValue = short.utf8(value) }
end

---Attributes, in the order of their names.
---@param map? table<string, string|number|boolean>
---@return table list
function forms.attributes(map)
  local names, list = {}, json.array {}
  for name in pairs(map or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = { key = short.utf8(name), value = value_of(map[name]) } end
  return list
end

-- ---- spans ----

---A span of an operation that has ended.
---@param operation runnel.internal.Operation
---@param ended integer ns since 1970
---@param problem? string why it has failed
---@return table span
function forms.span(operation, ended, problem)
  return {
    traceId = operation.trace, spanId = operation.span, parentSpanId = operation.parent, traceState = operation.state,
    name = short.utf8(operation.name or "operation"), kind = KINDS[operation.kind] or INTERNAL,
    startTimeUnixNano = int(operation.began), endTimeUnixNano = int(math.max(ended, operation.began)),
    attributes = forms.attributes(operation.attributes),
    status = problem and { code = FAILED, message = problem } or { code = 0 },
  }
end

---@param resource table the attributes of the program
---@param spans table[]
---@return string json
function forms.traces(resource, spans)
  return assert(json.encode {
    resourceSpans = { { resource = { attributes = resource }, scopeSpans = { { scope = SCOPE, spans = spans } } } },
  })
end

-- ---- metrics ----

-- A data point; its attributes are the labels.
local function point_of(series, since, now)
  local attributes = json.array {}
  for i, label in ipairs(series.labels) do
    attributes[i] = { key = label[1], value = { stringValue = label[2] } }
  end
  local point = { attributes = attributes, startTimeUnixNano = int(since), timeUnixNano = int(now) }
  if not series.times then
    if math.type(series.value) == "integer" then point.asInt = int(series.value)
    else point.asDouble = double(series.value) end
    return point
  end
  local counts, bounds, before = json.array {}, json.array {}, 0
  for i, time in ipairs(series.times) do
    counts[i], before = int(time[2] - before), time[2]
    if time[1] < math.huge then bounds[i] = double(time[1]) end
  end
  point.count, point.sum = int(series.count), double(series.sum)
  point.bucketCounts, point.explicitBounds = counts, bounds
  return point
end

---@param resource table the attributes of the program
---@param numbers runnel.Metrics
---@param since integer ns since 1970: before all counters began
---@param now integer
---@return string json
---@return integer points
function forms.metrics(resource, numbers, since, now)
  local list, count = json.array {}, 0
  for _, family in ipairs(exposition.families(numbers)) do
    local points = json.array {}
    for i, series in ipairs(family.series) do points[i] = point_of(series, since, now) end
    count = count + #points
    local metric = { name = family.name, description = family.help, unit = instruments.units[family.unit] }
    if family.kind == "gauge" then
      metric.gauge = { dataPoints = points }
    elseif family.kind == "counter" then
      metric.sum = { dataPoints = points, aggregationTemporality = CUMULATIVE, isMonotonic = true }
    else
      metric.histogram = { dataPoints = points, aggregationTemporality = CUMULATIVE }
    end
    list[#list + 1] = metric
  end
  local body = assert(json.encode {
    resourceMetrics = {
      { resource = { attributes = resource }, scopeMetrics = { { scope = SCOPE, metrics = list } } },
    },
  })
  return body, count
end

return forms
