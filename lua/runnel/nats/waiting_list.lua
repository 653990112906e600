---The messages that wait in a queue of a server, for operators: those that were never delivered. The others may be with
---a worker, which the server does not tell.

local base64 = require "runnel.internal.base64"
local counts = require "runnel.nats.internal.counts"
local encodings = require("runnel.queue.encodings").encodings
local jetstream = require "runnel.nats.internal.jetstream"
local names = require "runnel.nats.internal.names"
local timed_out = require "runnel.internal.timed_out"
local timestamp = require "runnel.nats.internal.timestamp"
local wire = require "runnel.nats.internal.wire"

local waiting_list = {}

-- The first message that the consumer has not delivered, and the pattern of its subjects.
local function start_of(queue)
  local info, err, code = jetstream.request(queue.owner, ("CONSUMER.INFO.%s.%s"):format(queue.stream, queue.consumer))
  if code == jetstream.NO_CONSUMER then return 1, ">" end -- of a remote stage on which no worker has worked yet
  if not info then return nil, err end
  local filter = info.config.filter_subject
  return (info.delivered and info.delivered.stream_seq or 0) + 1, filter ~= nil and filter ~= "" and filter or ">"
end

-- The bytes of a message as a value. Only jobs say in which encoding they are; others are in that of the connection,
-- JSON, MessagePack or none. What begins as a character of ASCII is no MessagePack, but for small integers.
local function value_of(queue, data)
  local job = queue.kind == "jobs" and wire.parse_job(data)
  if job then return encodings[job.encoding].decode(job.bytes) end
  for _, name in ipairs { queue.owner.encoding, "json", (data:byte() or 0) >= 0x80 and "msgpack" or nil } do
    if name ~= "raw" then
      local value, problem = encodings[name].decode(data)
      if problem == nil and value ~= nil then return value end
    end
  end
  return data
end

-- A message of the server's answer.
local function message_of(queue, m)
  local data = m.data and base64.decode(m.data) or ""
  local value, problem = value_of(queue, data)
  return { sequence = m.seq, subject = m.subject, time = timestamp.ms(m.time), bytes = #data, value = value,
    problem = problem, starts = 0, raises = 0 }
end

---@param queue runnel.nats.Queue
---@param after integer
---@param most integer
---@return runnel.queue.Waiting[]? list, string? err
function waiting_list.read(queue, after, most)
  if after == math.maxinteger then return {} end -- no message has a larger number
  local first, pattern = start_of(queue)
  if not first then return nil, pattern end
  local list, seq = {}, math.max(first, after + 1)
  while #list < most do
    local answer, err, code = jetstream.request(queue.owner, "STREAM.MSG.GET." .. queue.stream,
      { seq = seq, next_by_subj = pattern })
    if not answer then
      if code == jetstream.NO_MESSAGE then return list end
      return nil, err
    end
    list[#list + 1] = message_of(queue, answer.message)
    seq = answer.message.seq + 1
  end
  return list
end

---@param queue runnel.nats.Queue
---@param sequence integer
---@return runnel.queue.Waiting? message, string? err
function waiting_list.find(queue, sequence)
  local conn, is_jobs = queue.owner, queue.kind == "jobs"
  local answer, err, code = jetstream.request(conn, "STREAM.MSG.GET." .. queue.stream, { seq = sequence })
  if not answer then
    if code == jetstream.NO_MESSAGE then return nil end
    return nil, err
  end
  local info, problem, wrong = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(queue.stream, queue.consumer))
  if not info and wrong ~= jetstream.NO_CONSUMER then return nil, problem end
  local floor = info and info.ack_floor and info.ack_floor.stream_seq or 0
  if sequence <= floor and not is_jobs then return nil end -- it is done
  local stream, why = jetstream.stream_info(conn, queue.stream)
  if not stream then return nil, why end
  local message = message_of(queue, answer.message)
  local count = counts.new(conn, is_jobs and names.bucket(queue.name) or names.stage_bucket(queue.consumer), stream,
    is_jobs and names.jobs(queue.name) .. "." or nil):look(message)
  if count then
    message.starts, message.raises, message.errors = count.starts, count.raises, count.errors
    message.error = count.error and tostring(timed_out.of_plain(count.error)) or nil
  end
  return message
end

---@param queue runnel.nats.Queue
---@param sequence integer
---@return true? cancelled, string? err
function waiting_list.remove(queue, sequence)
  local first, pattern = start_of(queue)
  if not first then return nil, pattern end
  local err, code
  if sequence >= first then
    local answer
    answer, err, code = jetstream.request(queue.owner, "STREAM.MSG.DELETE." .. queue.stream,
      { seq = sequence, no_erase = true })
    if answer then return true end
  end
  if err and not code then return nil, err end -- the server has not answered
  return nil, ("message %d of %s does not wait: a worker has got it, or it is done"):format(sequence, queue.name)
end

return waiting_list
