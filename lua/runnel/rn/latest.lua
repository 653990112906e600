---latest: the newest value of a channel, for whoever comes late, and then each change.
---
---    local level = rn.latest(levels)
---    for value in level:tap() do print(value) end -- the present one first
---
---Each tap is a channel that always accepts, so a slow one makes nobody wait.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"

local chan, offer, is_closed = core.chan, core.methods.offer, core.methods.closed

---@class runnel.latest
local latest = {}

local FEW = 16

---@class runnel.Latest
---@field package value any nil: there is none yet
---@field package ch runnel.Channel<any> the source
---@field package taps runnel.Channel<any>[] in the order in which they were made
---@field package most integer how many of them there may be before those are looked for that were closed
---@field package ended boolean the source has closed
---@field package reason any the error with which it has closed
---@field package unclaimed? runnel.Channel<any> has that error if there was no tap to pass it on to
local Latest = { __sign = "latest", __name = "runnel.latest" }

-- The taps, without those that were closed, in a new list: another call may go through the present one.
local function open_taps(self)
  local taps = {}
  for _, tap in ipairs(self.taps) do
    if not is_closed(tap) then taps[#taps + 1] = tap end
  end
  self.taps, self.most = taps, math.max(FEW, 2 * #taps)
  return taps
end

-- Offers the present value to all taps.
local function tell(self)
  for _, tap in ipairs(open_taps(self)) do guard.call("a tap of a latest", offer, tap, self.value) end
end

local function finish(self, reason, from)
  self.ended, self.reason = true, reason
  local taps = open_taps(self)
  if reason ~= nil and #taps == 0 then
    self.unclaimed = chan() -- has the error until the next tap
    return ends.close(self.unclaimed, reason, from)
  end
  for i, tap in ipairs(taps) do ends.close(tap, reason, i == 1 and from or nil) end -- once taken there, it is taken
  self.taps = {}
end

local function run(self)
  local ch = self.ch
  local take, never = ends.source(ch), chan()
  while true do
    local value, _, err = take(ch, never)
    if value == nil then return finish(self, err, ch) end
    self.value = value
    tell(self)
  end
end

---Keeps the newest value of a channel, all values of which it takes.
---@param ch runnel.Channel<any>
---@param value? any what is there before the first one
---@return runnel.Latest
function latest.latest(ch, value)
  check.chan(ch, "latest: channel")
  local self = setmetatable({ value = value, ch = ch, taps = {}, most = FEW, ended = false, reason = nil }, Latest)
  guard.started(guard.go(finish, self, run, self), "latest")
  return self
end

---The present value.
---@return any value nil if there is none yet
function Latest:get()
  sign.own(self, "latest", "get")
  return self.value
end

---A channel that gives the present value, if there is one, and then each newer one. A taker that is slow gets only the
---newest of those that have come meanwhile. Closing the channel ends it; until then it is kept, and gets each value.
---@param to? runnel.Channel<any> one to use instead, which is never waited for: without room it misses values; by
---default a new one with rn.sliding_buffer(1)
---@return runnel.Channel<any> to closes when the source does, with its error if there is one
function Latest:tap(to)
  sign.own(self, "latest", "tap")
  if to ~= nil then check.chan(to, "latest:tap: to") end
  to = to or chan(core.sliding_buffer(1))
  if self.value ~= nil then offer(to, self.value) end
  if self.ended then
    ends.close(to, self.reason, self.unclaimed)
  else
    local taps = #self.taps < self.most and self.taps or open_taps(self)
    taps[#taps + 1] = to
  end
  return to
end

class.finish(Latest)

return latest
