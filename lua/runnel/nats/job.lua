---Runs the function of a worker (runnel.nats.serve) for a job, and determines the outcome.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local limit = require "runnel.nats.limit"
local values = require "runnel.nats.values"

local internal = core.internal
local chan, take = core.chan, internal.moving.take

local job = {}

---The outcome of a job that has failed.
---@param err any
---@param traceback? string
---@return runnel.Outcome
function job.failed(err, traceback) return { n = 0, failed = true, err = err, traceback = traceback } end

---The error that kills a job's go block goes to the submitter; this process does not report it.
---@param block runnel.Channel<any>
---@param why any
function job.excuse(block, why) pcall(internal.excuse, block, why) end

-- Calls the function for a job.
local function call(f, value)
  local result = f(value)
  return { n = result ~= nil and 1 or 0, failed = false, result }
end

-- The outcome for the result of guard.handler, or for Lua's own message.
local function caught(failure)
  if type(failure) == "table" then return job.failed(failure.err, failure.trace) end
  return job.failed(failure)
end

-- The go block of the function has died of an error, which the submitter gets.
local function function_died(out, why, block)
  job.excuse(block, why)
  guard.close(out, why)
end

-- Calls the function with a channel, and collects the values put on it.
local function call_async(f, value)
  local out <close> = chan(1)
  local failure
  local caller = guard.go(function_died, out, function()
    local ok, why = xpcall(f, guard.handler, value, out)
    if not ok then
      failure = caught(why)
      out:close()
    end
  end)
  -- if the job is cancelled, so is the function
  local closing <close> = setmetatable({}, { __close = function() core.cancel(caller) end }) -- luacheck: ignore 211
  local outcome = { n = 0, failed = false }
  while true do
    local result, err = take(out)
    if result == nil then
      outcome.failed, outcome.err = err ~= nil, err
      if failure then outcome.failed, outcome.err, outcome.traceback = true, failure.err, failure.traceback end
      return outcome
    end
    outcome.n = outcome.n + 1
    outcome[outcome.n] = result
  end
end

---Calls the function for a job, waits until it has ended, and returns the outcome, also of an error.
---@param f function
---@param message runnel.JobMessage
---@param ms? number how long it may take
---@param late? string the error if it takes longer
---@return runnel.Outcome
function job.run(f, message, ms, late)
  local value, why = values.encodings[message.encoding].decode(message.bytes)
  if why ~= nil then return job.failed("the job's value cannot be read: " .. why) end
  local caller = message.is_async and call_async or call
  local ok, outcome
  if ms then
    ok, outcome = limit.call(ms, late --[[@as string]], caller, f, value)
  else
    ok, outcome = xpcall(caller, guard.handler, f, value)
  end
  return ok and outcome or caught(outcome)
end

return job
