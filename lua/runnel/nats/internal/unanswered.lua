---Ends requests of a connection that cannot get an answer: lost with the connection, or refused by the server. Reports
---missing permissions.

local keepers = require "runnel.queue.keeper"

local unanswered = {}

-- Ends requests, if they ask for that, whose reply may have been lost: those sent before the connection was lost. Later
-- ones are sent after the reconnect.
local function end_lost_requests(self, event)
  for _, request in pairs(self.requests) do
    if event.event == "disconnected" then
      request.is_lost = true
    elseif event.event == "reconnected" and request.is_lost and request.until_reconnect then
      request.replies:close "the connection was lost meanwhile"
    end
  end
end

-- The library's own subjects: without these permissions jobs wait, so the program must be told. Without the last one,
-- only conn:queues() lacks data.
local function is_own(subject)
  return (subject:find "^%$JS%." or subject:find "^runnel%.") and subject ~= "runnel.who"
end

-- The server has refused a publish or subscribe: ends the requests that would wait forever. Refused publishes of the
-- library without a request are reported, once for each kind of subject.
local function end_refused_requests(self, event)
  local subject, is_for_request = event.subject, false
  local message = ("the server does not permit to %s %q"):format(
    event.denied == "publish" and "publish to" or "subscribe to", subject)
  local is_of_replies = event.denied == "subscribe" and self.reply_prefix == subject:sub(1, -2)
  if is_of_replies then self.replies_refused = message end
  for _, request in pairs(self.requests) do
    if is_of_replies or event.denied == "publish" and request.subject == subject then
      is_for_request = true
      request.replies:close(message)
    end
  end
  local kind = subject:match "^[^.]*%.?[^.]*%.?[^.]*"
  if is_for_request or not is_own(subject) or self.told[kind] then return end
  self.told[kind] = true
  keepers.report("nats: " .. message, nil, tostring(self))
end

---Called with each event.
---@param self runnel.nats.Connection
---@param event table
function unanswered.on_event(self, event)
  if event.denied then end_refused_requests(self, event) else end_lost_requests(self, event) end
end

return unanswered
