---How processes keep their messages when a server comes back after longer than ack_wait.
---
---It redelivers all messages of which it has not heard since, as soon as somebody asks (nats-server 2.10; before that,
---about a second after its start). So nobody asks until the others have had the time to reconnect, too, and to say with
---a beat that they work on their messages.

local core = require "runnel.core"
local jetstream = require "runnel.nats.jetstream"
local patience = require "runnel.nats.patience"

local settling = {}


---The wait of one that asks for messages: from a lost connection until some time after the reconnect.
---@class runnel.nats.Settling
---@field private ack_ms number
---@field private ask_at? number when one may ask again: math.huge while the connection is lost
local Settling = {}
Settling.__index = Settling

---@param ack_ms? number ack_wait; without it, the wait ends with the reconnect
---@return runnel.nats.Settling
function settling.new(ack_ms) return setmetatable({ ack_ms = ack_ms or math.huge }, Settling) end

---Hears an event of the connection.
---@param event { event: string, outage?: number, reconnect_wait?: number }
function Settling:hear(event)
  if event.event == "disconnected" then
    self.ask_at = math.huge
  elseif event.event == "reconnected" then
    local is_short = (event.outage or 0) * 2 < self.ack_ms
    self.ask_at = core.now() + (is_short and 0 or event.reconnect_wait + patience.settle)
  end
end

---Whether one may ask now.
---@return boolean
function Settling:may_ask() return not self.ask_at end

---When to look again, for one that looks every `ms`.
---@param ms number
---@return number ms
function Settling:look_in(ms) return self.ask_at and math.max(0, math.min(ms, self.ask_at - core.now())) or ms end

---Ends the wait if its time is over. Returns whether it has just ended.
---@return boolean
function Settling:ends()
  if not self.ask_at or self.ask_at > core.now() then return false end
  self.ask_at = nil
  return true
end

---What says, after a reconnect, that work on a message goes on: redeliver it, but only after ack_wait. nats-server 2.10
---would redeliver a message that is due in spite of "+WPI".
---@param ack_ms number ack_wait
---@return string
function settling.back(ack_ms) return jetstream.nak(ack_ms) end

return settling
