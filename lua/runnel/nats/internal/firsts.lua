---Whether the server delivers a message for the first time.
---
---The server's count of deliveries is unreliable. If nats-server, up to 2.10.14, delivers a message again just after a
---process has died, it forgets the earlier delivery: the next one has the count 1. So other numbers are compared, too.
---Each message has a sequence number in the stream, and each delivery has the next number of the consumer, its order,
---which the server keeps. First deliveries are in the order of the stream. So a delivery is not a first one if it comes
---after the delivery of a later message. And if there were more deliveries than messages since the last known one, some
---of them were not first ones.

local firsts = {}

---The delivered message with the highest known sequence number.
---@class runnel.Firsts
---@field private sequence integer? its number in the stream; nil if none is known
---@field private order integer the consumer's number of that delivery
local Firsts = {}
Firsts.__index = Firsts

---Checks a delivery that the server calls the first. Returns "first" if it is; "again" if it is not; or "perhaps".
---@param sequence integer of the message in the stream
---@param order integer the consumer's number of the delivery
---@return "first"|"again"|"perhaps"
function Firsts:look(sequence, order)
  local known = self.sequence
  local messages, deliveries = sequence - (known or 0), order - self.order
  if known and messages <= 0 and deliveries > 0 then return "again" end
  self.sequence, self.order = sequence, order
  -- With deliveries <= 0 the consumer was made again, or its server has lost the state of the last ones.
  return known and deliveries > 0 and deliveries <= messages and "first" or "perhaps"
end

---Begins anew with the server's information about the consumer. That may lack forgotten deliveries, so it helps only if
---the consumer has delivered nothing.
---@param delivered? { consumer_seq: integer } nil: nothing
function Firsts:begin(delivered)
  self.sequence, self.order = nil, 0
  if not delivered or delivered.consumer_seq == 0 then self.sequence = 0 end
end

---@param delivered? { consumer_seq: integer } as for `begin`
---@return runnel.Firsts
function firsts.new(delivered)
  local self = setmetatable({}, Firsts)
  self:begin(delivered)
  return self
end

return firsts
