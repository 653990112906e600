---What a worker tells operators of its calls.

local core = require "runnel.core"
local json = require "runnel.json"
local short = require "runnel.internal.short"

local report = {}

-- How many running calls are reported; and how many bytes of values, and of errors.
local TOLD <const>, VALUE <const>, ERROR <const> = 32, 60, 200

---A running call.
---@param value any
---@param ms number how long it has run
---@param deliveries integer
---@return table
function report.call(value, ms, deliveries)
  return { value = short.utf8(short.value(value, VALUE)), ms = ms // 1 | 0, deliveries = deliveries }
end

---A try that has failed.
---@param value any
---@param sequence integer of the message
---@param start integer which start it was
---@param text string its error
---@return table
function report.failure(value, sequence, start, text)
  return { value = short.utf8(short.value(value, VALUE)), sequence = sequence, start = start,
    error = short.cut(short.utf8(text), ERROR), at = core.now() }
end

---Completes a worker's report from its counts. Lists the running calls, the longest first, up to a limit.
---@param counts table running, waiting, done, failed, redelivered
---@param n integer how many calls may run
---@param is_paused boolean
---@param calls table[] what report.call has returned for each call that runs
---@param failure? table what report.failure has returned for the last one
---@return table report
function report.worker(counts, n, is_paused, calls, failure)
  table.sort(calls, function(a, b) return a.ms > b.ms end)
  counts.n, counts.paused, counts.busy = n, is_paused, counts.running
  counts.running = json.array(table.move(calls, 1, math.min(#calls, TOLD), 1, {}))
  if failure then
    counts.failure = { value = failure.value, sequence = failure.sequence, start = failure.start,
      error = failure.error, ms = (core.now() - failure.at) // 1 | 0 }
  end
  return counts
end

-- Whether a table has numbers as these fields.
local function has_numbers(value, ...)
  for _, name in ipairs { ... } do
    if type(value[name]) ~= "number" then return false end
  end
  return true
end

local function is_failure(value)
  return type(value) == "table" and type(value.value) == "string" and type(value.error) == "string"
    and has_numbers(value, "sequence", "start", "ms")
end

---Whether a value is the report of a worker, which may be another program's.
---@param value any
---@return boolean
function report.is_report(value)
  if type(value) ~= "table" or type(value.running) ~= "table" then return false end
  if not has_numbers(value, "n", "done", "failed") then return false end
  if value.failure ~= nil and not is_failure(value.failure) then return false end
  for _, one in ipairs(value.running) do
    if type(one) ~= "table" or type(one.value) ~= "string" or not has_numbers(one, "ms", "deliveries") then
      return false
    end
  end
  return true
end

return report
