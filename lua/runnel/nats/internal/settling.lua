---Lets processes keep their messages when a server comes back after longer than ack_wait.
---
---At the first request, the server redelivers all messages whose last beat is too old (nats-server 2.10; earlier
---versions do it about a second after their start). So all processes delay their requests until the others have had
---time to reconnect, and to send a beat for their messages.

local core = require "runnel.core"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"

local settling = {}


---The delay of requests: from a lost connection until some time after the reconnect.
---@class runnel.nats.Settling
---@field private ack_ms number
---@field private ask_at? number when one may ask again: math.huge while the connection is lost
local Settling = {}
Settling.__index = Settling

---@param ack_ms? number ack_wait; without it, the wait ends with the reconnect
---@return runnel.nats.Settling
function settling.new(ack_ms) return setmetatable({ ack_ms = ack_ms or math.huge }, Settling) end

---Handles an event of the connection.
---@param event { event: string, outage?: number, reconnect_wait?: number }
function Settling:hear(event)
  if event.event == "disconnected" then
    self.ask_at = math.huge
  elseif event.event == "reconnected" then
    local is_short = (event.outage or 0) * 2 < self.ack_ms
    self.ask_at = core.now() + (is_short and 0 or event.reconnect_wait + patience.settle)
  end
end

---Whether requests are allowed now.
---@return boolean
function Settling:may_ask() return not self.ask_at end

---The time of the next check, for a caller that checks every `ms`.
---@param ms number
---@return number ms
function Settling:look_in(ms) return self.ask_at and math.max(1, math.min(ms, self.ask_at - core.now())) or ms end

---Ends the delay if its time is over. Returns whether it has just ended.
---@return boolean
function Settling:ends()
  if not self.ask_at or self.ask_at > core.now() then return false end
  self.ask_at = nil
  return true
end

---The beat after a reconnect: redeliver the message, but only after ack_wait. nats-server 2.10 would redeliver a due
---message in spite of "+WPI".
---@param ack_ms number ack_wait
---@return string
function settling.back(ack_ms) return jetstream.nak(ack_ms) end

return settling
