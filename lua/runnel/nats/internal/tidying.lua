---Removes finished messages from work queues. A server that is killed may forget a removal but keep the
---acknowledgement, because it writes the two to different files. Then the message takes room in the stream and is never
---delivered.

local core = require "runnel.core"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"

local tidying = {}

-- The shortest time between two checks.
local TIMES <const> = 40

-- Removes the messages of a subject up to a sequence number. Returns false if the server has not answered a request.
-- (Not by purging the subject: the consumers of nats-server 2.9 then skip messages of other subjects.)
local function remove_each(conn, stream, subject, first, last)
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

-- Removes the finished messages of a stream in this state, up to the sequence number `floor`. Returns false if the
-- server has not answered.
local function remove(conn, stream, state, subject, floor)
  if state.messages == 0 or state.first_seq > floor then return true end
  if subject and subject ~= "" then return remove_each(conn, stream, subject, state.first_seq, floor) end
  return jetstream.request(conn, "STREAM.PURGE." .. stream, { seq = floor + 1 }) ~= nil
end

---The sequence number up to which all messages are finished; or nil if the server does not show it. The server derives
---its floor from the numbers of deliveries. If it redelivers messages in another order and is then killed, the floor
---can pass messages that are still in work. All of these were redelivered, and num_redelivered counts them until they
---are finished.
---@param info table? what the server says about the consumer
---@return integer? position
function tidying.finished_up_to(info)
  if not info or not info.ack_floor or (info.num_redelivered or 0) > 0 then return nil end
  return info.ack_floor.stream_seq
end

---Removes finished messages of a work queue, up to the first unfinished one of its consumer. Finished messages behind
---that one have to wait. Removes nothing while the consumer counts redelivered messages. Repeats until all earlier
---deliveries are finished. Parks.
---@param conn runnel.nats.Connection
---@param stream string
---@param consumer string
---@param is_over fun(): boolean whether to stop
function tidying.run(conn, stream, consumer, is_over)
  local delivered, ms
  for _ = 1, TIMES do
    ms = math.min(ms and 2 * ms or patience.tidying_first, patience.tidying_most)
    core.sleep(ms)
    if is_over() then return end
    local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
    local floor = tidying.finished_up_to(info)
    if floor then
      delivered = delivered or info.delivered.stream_seq
      local whole = jetstream.request(conn, "STREAM.INFO." .. stream)
      if whole and whole.config.retention ~= "workqueue" then return end
      local is_done = whole and remove(conn, stream, whole.state, info.config.filter_subject, floor)
      if is_done and floor >= delivered then return end
    end
  end
end

return tidying
