---Removes finished messages from work queues. A server that is killed may forget a removal but keep the
---acknowledgement, because it writes the two to different files. Then the message takes room in the stream and is never
---delivered.
---
---It removes messages one by one, and never purges: at a purge of any messages, nats-server before 2.9.15 forgets all
---that its consumers have delivered. What is not acknowledged then is never delivered again.
---
---A server that is killed may also forget the last numbers of a stream and give them to new messages, which the
---consumer then skips: nats-server 2.9.10 may forget all numbers of an empty stream. Such a message looks like a
---finished one. So a reader that was there before removes only what is older than the last message that it got then. If
---there is more, or the consumer has delivered more numbers than the stream has, it has to be made anew, and delivers
---what is left. (The same server also drops a new message at once whose number was acknowledged before:
---docs/machines.md.)

local core = require "runnel.core"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"
local timestamp = require "runnel.nats.internal.timestamp"

local tidying = {}

-- The shortest time between two checks.
local TIMES <const> = 40

-- Removes the messages of a subject from one sequence number to another that were stored until a time. Returns false if
-- the server has not answered a request, and whether there are later ones.
local function remove(conn, stream, subject, first, last, until_time)
  while first <= last do
    local found, _, code = jetstream.request(conn, "STREAM.MSG.GET." .. stream, { seq = first, next_by_subj = subject })
    if not found then return code == jetstream.NO_MESSAGE, false end
    local sequence = found.message and math.tointeger(found.message.seq)
    if not sequence or sequence > last then return true, false end
    if (timestamp.ms(found.message.time) or math.huge) > until_time then return true, true end
    if not jetstream.request(conn, "STREAM.MSG.DELETE." .. stream, { seq = sequence, no_erase = true }) then
      return false
    end
    first = sequence + 1
  end
  return true, false
end

-- The sequence number up to which all messages of the consumer are finished; nil if some may not be. The server's floor
-- of acknowledgements does not show it: after kills, it may have passed messages that are still in work.
local function finished_up_to(info)
  if info.num_ack_pending ~= 0 or (info.num_redelivered or 0) > 0 then return nil end
  return info.delivered.stream_seq
end

---Removes the finished messages of a work queue, at a time when its consumer has delivered none that is not finished.
---Looks again and again until there is such a time. Parks.
---@param conn runnel.nats.Connection
---@param stream string
---@param consumer string
---@param is_over fun(): boolean whether to stop
---@param until_time number what was stored until then (ms since 1970) has been delivered
---@return table? info of the consumer, if it may have skipped messages
function tidying.run(conn, stream, consumer, is_over, until_time)
  local ms
  for _ = 1, TIMES do
    ms = math.min(ms and 2 * ms or patience.tidying_first, patience.tidying_most)
    core.sleep(ms)
    if is_over() then return end
    local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
    local of = info and jetstream.request(conn, "STREAM.INFO." .. stream)
    if of then
      if of.config.retention ~= "workqueue" then return end
      local delivered = info.delivered and info.delivered.stream_seq or 0
      if of.state.last_seq < delivered then return info end
      local last, subject = finished_up_to(info), info.config.filter_subject
      if last then
        if subject == "" then subject = nil end
        local is_done, is_more = remove(conn, stream, subject or ">", of.state.first_seq, last, until_time)
        if is_done then return is_more and info or nil end
      end
    end
  end
end

return tidying
