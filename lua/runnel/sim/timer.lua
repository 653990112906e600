---Simulated timers of luv.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local handles = require "runnel.sim.handle"

local internal = core.internal

---@class runnel.sim.Timer: runnel.sim.Handle
---@field block? runnel.Channel<any> the go block that sleeps until it is due
local Timer = handles.class "runnel.sim.timer"

-- The shortest time of a timer, in ms. A shorter rest, which rounding leaves, would not move the clock: code that
-- starts the timer again for that rest would do so for ever.
local SHORTEST <const> = 0.001

local function run(self, ms, again, f)
  core.sleep(ms > 0 and math.max(ms, SHORTEST) or ms)
  repeat
    if not self:lives() then return end
    internal.host(self.host.number)
    if again == 0 then self.block = nil end
    f()
    internal.host(0)
    if again > 0 then core.sleep(again) end
  until again == 0
end

function Timer:start(ms, again, f)
  self:stop()
  self.block = guard.go(guard.nothing, nil, run, self, ms, again, f)
  internal.host(0, self.block)
  return 0
end

function Timer:stop()
  local block = self.block
  self.block = nil
  if block and not internal.has_ended(block) then core.cancel(block, "the timer was stopped") end
  return 0
end

function Timer:is_active() return self.block ~= nil end

function Timer:stopped() self:stop() end

return { new_timer = function() return handles.new(Timer) end }
