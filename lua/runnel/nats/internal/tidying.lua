---Removes finished messages from work queues. A server that is killed may forget a removal but keep the
---acknowledgement, because it writes the two to different files. Then the message takes room in the stream and is never
---delivered.
---
---It removes messages one by one, and never purges: at a purge of any messages, nats-server before 2.9.15 forgets all
---that its consumers have delivered. What is not acknowledged then is never delivered again.

local core = require "runnel.core"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"

local tidying = {}

-- The shortest time between two checks.
local TIMES <const> = 40

-- Removes the messages of a subject from one sequence number to another. Returns false if the server has not answered a
-- request.
local function remove(conn, stream, subject, first, last)
  while first <= last do
    local found, _, code = jetstream.request(conn, "STREAM.MSG.GET." .. stream, { seq = first, next_by_subj = subject })
    if not found then return code == jetstream.NO_MESSAGE end
    local sequence = found.message and math.tointeger(found.message.seq)
    if not sequence or sequence > last then return true end
    if not jetstream.request(conn, "STREAM.MSG.DELETE." .. stream, { seq = sequence, no_erase = true }) then
      return false
    end
    first = sequence + 1
  end
  return true
end

-- The sequence number up to which all messages of the consumer are finished; nil if some may not be. The server's floor
-- of acknowledgements does not show it: after kills, it may have passed messages that are still in work.
local function finished_up_to(info)
  if not info or info.num_ack_pending ~= 0 or (info.num_redelivered or 0) > 0 then return nil end
  return info.delivered.stream_seq
end

---Removes the finished messages of a work queue, at a time when its consumer has delivered none that is not finished.
---Looks again and again until there is such a time. Parks.
---@param conn runnel.nats.Connection
---@param stream string
---@param consumer string
---@param is_over fun(): boolean whether to stop
function tidying.run(conn, stream, consumer, is_over)
  local ms
  for _ = 1, TIMES do
    ms = math.min(ms and 2 * ms or patience.tidying_first, patience.tidying_most)
    core.sleep(ms)
    if is_over() then return end
    local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
    local last = finished_up_to(info)
    if last then
      local whole = jetstream.request(conn, "STREAM.INFO." .. stream)
      if whole and whole.config.retention ~= "workqueue" then return end
      local subject = info.config.filter_subject
      if whole and remove(conn, stream, subject ~= "" and subject or ">", whole.state.first_seq, last) then return end
    end
  end
end

return tidying
