---The option `timeout` of workers and stages: the time limit of a call.
---
---A call that parks is cancelled when its time is over. A call that computes blocks Lua: then the thread that reports
---progress (csrc/nats/beat.c) ends the process. `keeper:alive()` tells that thread that Lua runs.

local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"

local internal = core.internal
local alts, cancel = internal.moving.alts, core.cancel
local PRIORITY = { priority = true }

local limit = {}

---The error of a call over its limit.
---@param what string as in "serve resize"
---@param ms number
---@return string
function limit.text(what, ms)
  return ("%s: a call took longer than the limit of %s ms"):format(what, decimal.text(ms))
end

-- Keeps xpcall's results.
local function keep(outcome, ...)
  outcome.n = select("#", ...)
  for i = 1, outcome.n do outcome[i] = (select(i, ...)) end
end

-- The go block of the function has died; its error goes to the caller of limit.call.
local function died(outcome, why, block)
  pcall(internal.excuse, block, why)
  keep(outcome, false, why)
end

---Calls a function for at most `ms`, with guard.try. After that, cancels it, and waits for its end for
---the same time again.
---@param ms number
---@param late runnel.TimedOut the error if it is not enough
---@param f function
---@param ... any
---@return boolean ok
---@return any ...
function limit.call(ms, late, f, ...)
  local outcome = {}
  local block = guard.go(died, outcome, function(...) keep(outcome, guard.try(f, ...)) end, ...)
  -- If the caller is cancelled, so is the function.
  local closing <close> = setmetatable({}, { __close = function() cancel(block) end }) -- luacheck: ignore 211
  local _, i = alts({ block, core.timeout(ms) }, PRIORITY)
  if i == 1 then return table.unpack(outcome, 1, outcome.n) end
  cancel(block, late)
  alts({ block, core.timeout(ms) }, PRIORITY)
  return false, late
end

---Tells the keeper periodically that Lua runs.
---@param keeper runnel.queue.Keeper
---@param ms number the limit
---@param what string
---@return runnel.Channel<any> block to be cancelled at the end
function limit.watch(keeper, ms, what)
  local tick = math.max(5, math.min(ms / 16, 250))
  return guard.started(guard.go(guard.nothing, nil, function()
    while true do
      keeper:alive()
      core.sleep(tick)
    end
  end), what)
end

return limit
