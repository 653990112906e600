---Counts the running calls of a worker or a stage in this process, and knows which one must run alone.
---
---A call whose earlier processes ended runs alone the last two times: if its process ends again, no other call can be
---the cause. Two times, because one end may have a cause outside.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local chan, alts = core.chan, core.alts

local running = {}

---The default limit of starts of a call, if its process ends each time; and how many of the last starts are alone.
running.STARTS, running.ALONE = 5, 2


---@class runnel.Running
---@field count integer how many calls run
---@field lone any what is to run alone, from when that is known until it has ended; or nil
---@field private waits table<runnel.Channel<any>, integer> channel -> it closes when at most this many calls run
local Running = {}
Running.__index = Running

function Running:enter() self.count = self.count + 1 end

function Running:leave()
  self.count = self.count - 1
  if next(self.waits) == nil then return end
  for ch, at_most in pairs(self.waits) do
    if self.count <= at_most then ch:close() end
  end
end

---Waits until at most `at_most` calls run, for at most `ms`. Returns whether that is so.
---@param at_most integer
---@param ms? number
---@return boolean
function Running:wait(at_most, ms)
  if self.count <= at_most then return true end
  local ch = chan()
  local forget <close> = setmetatable({}, { __close = function() self.waits[ch] = nil end }) -- luacheck: ignore 211
  self.waits[ch] = at_most
  local alarm <close> = guard.alarm(ms)
  local _, port = alts { ch, alarm.over }
  return port == ch
end

---@return runnel.Running
function running.new() return setmetatable({ count = 0, lone = nil, waits = {} }, Running) end

return running
