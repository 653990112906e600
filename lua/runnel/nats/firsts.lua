---Whether the server delivers a message for the first time.
---
---The server's count of deliveries cannot be relied on. If nats-server, up to 2.10.14, delivers a message again and the
---process has just died, it forgets that it has delivered the message before: the next delivery has the count 1. So the
---other numbers are looked at, too. Each message has a sequence number in the stream, and each delivery has the next
---number of the consumer, its order, which the server does not forget. First deliveries are in the order of the stream.
---So a delivery is not the first if it comes after that of a later message. And if there were more deliveries than
---messages since the last known one, some of them were not the first.

local firsts = {}

---The last message that is known to have been delivered: the one with the highest sequence number.
---@class runnel.Firsts
---@field private sequence integer? its number in the stream; nil if none is known
---@field private order integer the consumer's number of that delivery
local Firsts = {}
Firsts.__index = Firsts

---Looks at a delivery of which the server says that it is the first. Returns "first" if it is; "again" if it is not; or
---"perhaps".
---@param sequence integer of the message in the stream
---@param order integer the consumer's number of the delivery
---@return "first"|"again"|"perhaps"
function Firsts:look(sequence, order)
  local known = self.sequence
  local messages, deliveries = sequence - (known or 0), order - self.order
  if known and messages <= 0 and deliveries > 0 then return "again" end
  self.sequence, self.order = sequence, order
  -- With deliveries <= 0 the consumer was made again, or its server has lost what it knew about the last ones.
  return known and deliveries > 0 and deliveries <= messages and "first" or "perhaps"
end

---Begins anew, with what the server says about the consumer. That is what it has not forgotten, so it helps only if the
---consumer has not delivered anything.
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
