---The options that workers of jobs and of streams have in common.

local check = require "runnel.internal.check"

---@class runnel.queue.Options
---@field rate? { [1]: integer, [2]: number } calls, ms
---@field limit? number ms that one call may take
---@field drains boolean SIGTERM drains the worker

local options = {}

-- Checks the option `rate`: a number of calls a second, or { calls, ms }.
local function check_rate(value, what, level)
  local count, ms = value, 1000
  if type(value) == "table" then count, ms = value[1], value[2] end
  if math.type(count) ~= "integer" or count < 1 or type(ms) ~= "number" or not (ms >= 100 and ms < math.huge) then
    error(("%s: rate: calls a second, or { calls, ms }, with at least 1 call and 100 ms expected, got %s")
      :format(what, check.describe(value)), level + 1)
  end
  return { count, ms }
end

---Checks them.
---@param opts table
---@param what string the function that the program has called
---@param level integer of the program's line, as the caller of this function would give it to `error`
---@return runnel.queue.Options
function options.check(opts, what, level)
  if opts.limit ~= nil then check.ms(opts.limit, 10, what .. ": limit", level + 2) end
  local rate = opts.rate ~= nil and check_rate(opts.rate, what, level + 1) or nil
  check.one_of(opts.drain_on_term, { true, false }, what .. ": drain_on_term", level + 2)
  return { rate = rate, limit = opts.limit, drains = opts.drain_on_term ~= false }
end

return options
