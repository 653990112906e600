---Options that several functions have: those of workers of jobs and of streams, and the encoding of values.

local check = require "runnel.internal.check"
local raise = require("runnel.core").internal.raise

---@class runnel.queue.Options
---@field rate? { [1]: integer, [2]: number } calls, ms
---@field timeout? number ms that one call may take
---@field drains boolean SIGTERM drains the worker

local options = {}

-- The calls and the ms of the option `rate`: a number of calls a second, or { calls, ms }.
local function rate_of(value)
  if type(value) == "table" then return value[1], value[2] end
  return value, 1000
end

local function check_rate(value, what)
  local count, ms = rate_of(value)
  if math.type(count) ~= "integer" or count < 1 or type(ms) ~= "number" or not (ms >= 100 and ms < math.huge) then
    raise(("%s: calls a second, or { calls, ms }, with at least 1 call and 100 ms expected, got %s")
      :format(what, check.describe(value)))
  end
end

---The check of the option `encoding`, for check.options. (A store keeps each value in a form of its own.)
options.ENCODING = check.kinds.one_of { "raw", "msgpack", "json" }

---The checks of the options of workers, for check.options.
options.KINDS = { timeout = check.kinds.ms(10), rate = check_rate, drain_on_term = check.kinds.boolean }

---Reads the options of workers.
---@param opts table which has been checked
---@return runnel.queue.Options
function options.read(opts)
  local rate = opts.rate ~= nil and { rate_of(opts.rate) } or nil
  return { rate = rate, timeout = opts.timeout, drains = opts.drain_on_term ~= false }
end

return options
