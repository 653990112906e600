---One direction of a connection: what one end has sent and the other end has not got yet, in order.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local internal = core.internal
local go_feeding, host_of, now, sleep, yield = internal.go_feeding, internal.host, core.now, core.sleep, core.yield

---@class runnel.sim.Message
---@field due number when it arrives, ms, unless one before it is later
---@field deliver fun(to: any, data: any, message: runnel.sim.Message)
---@field data any

---@class runnel.sim.Wire
---@field world runnel.sim.World
---@field from runnel.sim.Host
---@field to any the end that gets the messages, with a host
---@field first integer the index of the first message
---@field last integer that of the last one
---@field busy boolean a go block delivers
---@field silent boolean nothing arrives any more
local Wire = {}
Wire.__index = Wire

---@param world runnel.sim.World
---@param from runnel.sim.Host
---@param to any
---@return runnel.sim.Wire
local function new(world, from, to)
  return setmetatable({ world = world, from = from, to = to, first = 1, last = 0, busy = false, silent = false },
    Wire)
end

-- Delivers messages until none is left. Other go blocks may run between two of them.
local function deliver(self)
  local world, to, is_first = self.world, self.to, true
  while self.first <= self.last do
    local message = self[self.first]
    self[self.first] = nil
    self.first = self.first + 1
    local ms = message.due - now()
    if ms > 0 then sleep(ms) elseif not is_first then yield() end
    is_first = false
    local cut = world:cut(self.from, to.host)
    while cut do
      cut:take()
      cut = world:cut(self.from, to.host)
    end
    if not self.silent and to.host.alive and to.host.born == to.born then
      host_of(to.host.number)
      message.deliver(to, message.data, message)
      host_of(0)
    end
  end
  self.busy = false
end

---Sends a message. It arrives after `ms`, but not before those that were sent before.
---@param ms number
---@param f fun(to: any, data: any, message: runnel.sim.Message) is called on the other end's host when it has arrived
---@param data? any
---@return runnel.sim.Message message
function Wire:send(ms, f, data)
  local message = { due = now() + ms, deliver = f, data = data }
  self.last = self.last + 1
  self[self.last] = message
  if not self.busy then
    self.busy = true
    host_of(0, go_feeding(guard.nothing, nil, deliver, self))
  end
  return message
end

return { new = new }
