---How processes keep their messages when a server comes back after longer than ack_wait.
---
---It redelivers all messages of which it has not heard since, as soon as somebody asks (nats-server 2.10; before that,
---about a second after its start). So nobody asks until the others have had the time to reconnect, too, and to say with
---a beat that they work on their messages.

local jetstream = require "runnel.nats.jetstream"

local settling = {}

-- Beats are sent up to 100 ms after a reconnect; libnats adds up to 100 ms to reconnect_wait.
local MARGIN_MS <const> = 300

---How long a process that takes messages waits after a reconnect before it asks for more.
---@param event { outage?: number, reconnect_wait?: number } the event "reconnected"
---@param ack_ms number ack_wait
---@return number ms
function settling.ms(event, ack_ms)
  if (event.outage or 0) * 2 < ack_ms then return 0 end
  return event.reconnect_wait + MARGIN_MS
end

---What says, after a reconnect, that work on a message goes on: redeliver it, but only after ack_wait. nats-server 2.10
---would redeliver a message that is due in spite of "+WPI".
---@param ack_ms number ack_wait
---@return string
function settling.back(ack_ms) return ('-NAK {"delay":%d}'):format(jetstream.ns(ack_ms)) end

return settling
