---What a worker tells operators of its calls.

local json = require "runnel.json"
local short = require "runnel.internal.short"

local report = {}

-- How many running calls are reported, and how many bytes of their values.
local TOLD <const>, VALUE <const> = 32, 60

---A running call.
---@param value any
---@param ms number how long it has run
---@param deliveries integer
---@return table
function report.call(value, ms, deliveries)
  return { value = short.utf8(short.value(value, VALUE)), ms = ms // 1 | 0, deliveries = deliveries }
end

---Completes a worker's report from its counts. Lists the running calls, the longest first, up to a limit.
---@param counts table running, waiting, done, failed, redelivered
---@param n integer how many calls may run
---@param is_paused boolean
---@param calls table[] what report.call has returned for each call that runs
---@return table report
function report.worker(counts, n, is_paused, calls)
  table.sort(calls, function(a, b) return a.ms > b.ms end)
  counts.n, counts.paused, counts.busy = n, is_paused, counts.running
  counts.running = json.array(table.move(calls, 1, math.min(#calls, TOLD), 1, {}))
  return counts
end

-- Whether a table has numbers as these fields.
local function has_numbers(value, ...)
  for _, name in ipairs { ... } do
    if type(value[name]) ~= "number" then return false end
  end
  return true
end

---Whether a value is the report of a worker, which may be another program's.
---@param value any
---@return boolean
function report.is_report(value)
  if type(value) ~= "table" or type(value.running) ~= "table" then return false end
  if not has_numbers(value, "n", "done", "failed") then return false end
  for _, one in ipairs(value.running) do
    if type(one) ~= "table" or type(one.value) ~= "string" or not has_numbers(one, "ms", "deliveries") then
      return false
    end
  end
  return true
end

return report
