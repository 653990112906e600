---Beats of a simulated connection to NATS: messages that are sent periodically, as the thread of the C module does.

local core = require "runnel.core"
local remove = require "runnel.internal.remove"
local timers = require "runnel.sim.timer"

local now = core.now

-- How long to wait before a due beat is tried again while the connection is lost, in ms.
local LOST <const> = 100

---@class runnel.sim.Beat
---@field subject string
---@field data string
---@field every number ms
---@field again string what is sent first after a reconnect
---@field due number ms
---@field was_lost boolean the connection was lost when it was due
---@field ends number when it is not sent any more

---@class runnel.sim.Beats
---@field client runnel.sim.NatsConnection
---@field list runnel.sim.Beat[]
---@field wakes_at number when the timer is due; math.huge: it is not started
---@field timer runnel.sim.Timer
local Beats = {}
Beats.__index = Beats

local send_due

local function plan(self)
  local at = math.huge
  for _, beat in ipairs(self.list) do at = math.min(at, beat.due < beat.ends and beat.due or math.huge) end
  if at >= self.wakes_at then return end
  self.wakes_at = at
  self.timer:start(math.max(0, at - now()), 0, function() send_due(self) end)
end

function send_due(self)
  local time, client = now(), self.client
  self.wakes_at = math.huge
  for _, beat in ipairs(table.move(self.list, 1, #self.list, 1, {})) do
    if beat.due <= time and time < beat.ends and client:lives() then
      local was_lost = beat.was_lost
      beat.was_lost = not client:is_connected()
      beat.due = time + (beat.was_lost and math.min(LOST, beat.every) or beat.every)
      if not beat.was_lost then client:publish(beat.subject, was_lost and beat.again or beat.data) end
    end
  end
  plan(self)
end

---@param beat runnel.sim.Beat
function Beats:add(beat)
  beat.due, beat.was_lost, beat.ends = now() + beat.every, false, math.huge
  self.list[#self.list + 1] = beat
  plan(self)
end

---@param beat runnel.sim.Beat
function Beats:remove(beat)
  remove(self.list, beat)
  if not self.list[1] then self:stop() end
end

function Beats:stop()
  self.list, self.wakes_at = {}, math.huge
  self.timer:stop()
end

---@param client runnel.sim.NatsConnection
---@return runnel.sim.Beats
return function(client)
  return setmetatable({ client = client, list = {}, wakes_at = math.huge, timer = timers.new_timer() }, Beats)
end
