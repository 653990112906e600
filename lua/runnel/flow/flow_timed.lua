---flow.batch, flow.rate, flow.debounce: stages that depend on time.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local pacer = require "runnel.internal.pacer"
local spec = require "runnel.flow.spec"

local now, sleep = core.now, core.sleep

local NANOSECOND = 1e-6 -- in ms: the clock's unit

local timed = {}

-- Marks the options of a stage, which a call has made: its `init` gets the stage as well, and it has one worker.
local function made(call, options)
  spec.timed[options] = call
  return options
end

-- Stops the timer of a stage, and returns the held values, if any.
local function give(state)
  local held = state.held
  state.held = nil
  state.stage:call_after(nil)
  return held
end

---A stage that makes lists of 1 to n values. It puts a list when it has n values, or `ms` after its first value.
---@param n integer
---@param ms? number by default a list waits for its nth value until the input ends
---@return runnel.FlowStage stage
function timed.batch(n, ms)
  check.integer(n, 1, "flow.batch: n")
  if ms ~= nil then check.ms(ms, 0, "flow.batch: ms") end

  return made(ms and ("flow.batch(%d, %s)"):format(n, ms) or ("flow.batch(%d)"):format(n), {
    init = function(_, stage)
      local state = { stage = stage, held = nil }
      function state.late() return give(state) end
      return state
    end,
    step = function(value, _, state)
      local list = state.held
      if list then
        list[#list + 1] = value
      else
        list = { value }
        state.held = list
        if ms and n > 1 then state.stage:call_after(ms, state.late) end
      end
      if #list >= n then return give(state) end
    end,
    flush = give,
  })
end

---A stage that lets at most n values pass in any `ms`. None is dropped: further values wait.
---@param n integer
---@param ms number
---@return runnel.FlowStage stage
function timed.rate(n, ms)
  check.integer(n, 1, "flow.rate: n")
  check.ms(ms, 0, "flow.rate: ms")
  return made(("flow.rate(%d, %s)"):format(n, ms), {
    init = function() return { n = 0, ms = 0, pace = nil } end,
    step = function(value, put, state)
      if state.n ~= n or state.ms ~= ms then -- the first call, or the first one after a replacement
        state.n, state.ms, state.pace = n, ms, pacer.new(n, ms)
      end
      local pace = state.pace
      local left = pace:left()
      while left > 0 do
        sleep(left)
        left = pace:left()
      end
      put(value)
      pace:passed()
    end,
  })
end

---A stage that lets a value pass once `ms` have gone by without a new one, and drops those before it.
---@param ms number
---@return runnel.FlowStage stage
function timed.debounce(ms)
  check.ms(ms, 0, "flow.debounce: ms")

  return made(("flow.debounce(%s)"):format(ms), {
    init = function(_, stage)
      local state = { stage = stage, held = nil, due = 0 }
      function state.late()
        local left = state.due - now()
        if left >= NANOSECOND then return state.stage:call_after(left, state.late) end
        return give(state)
      end
      return state
    end,
    step = function(value, _, state)
      if state.held == nil then state.stage:call_after(ms, state.late) end
      state.held, state.due = value, now() + ms
    end,
    flush = give,
  })
end

return timed
