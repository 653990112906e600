---Lets at most n values pass in any `ms`: for rn.rate and flow.rate.

local now = require "runnel.core".now

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

---@class runnel.Pacer
---@field private n integer
---@field private ms number
---@field private times number[] when the last n values have passed, in a circle
---@field private at integer the place of the oldest of them
local Pacer = {}
Pacer.__index = Pacer

local pacer = {}

---@param n integer
---@param ms number
---@return runnel.Pacer
function pacer.new(n, ms) return setmetatable({ n = n, ms = ms, times = {}, at = 0 }, Pacer) end

---How long the next value has to wait.
---@return number ms 0: it may pass now. Otherwise rounded up, since the clock counts whole nanoseconds
function Pacer:left()
  local left = (self.times[self.at] or -math.huge) + self.ms - now()
  return left >= NANOSECOND and left + NANOSECOND or 0
end

---A value has passed.
function Pacer:passed()
  self.times[self.at], self.at = now(), (self.at + 1) % self.n
end

return pacer
