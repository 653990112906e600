---The messages that wait in a queue of a server, for operators: those that were never delivered. The others may be with
---a worker, which the server does not tell.

local base64 = require "runnel.internal.base64"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local timestamp = require "runnel.nats.internal.timestamp"

local waiting_list = {}

-- The first message that the consumer has not delivered, and the pattern of its subjects.
local function start_of(queue)
  local info, err, code = jetstream.request(queue.owner, ("CONSUMER.INFO.%s.%s"):format(queue.stream, queue.consumer))
  if code == jetstream.NO_CONSUMER then return 1, ">" end -- of a remote stage on which no worker has worked yet
  if not info then return nil, err end
  local filter = info.config.filter_subject
  return (info.delivered and info.delivered.stream_seq or 0) + 1, filter ~= nil and filter ~= "" and filter or ">"
end

-- The text of a message as a value: JSON is decoded.
local function value_of(data)
  if data == "" then return data end
  local value, problem = json.decode(data)
  return problem == nil and value or data
end

---@param queue runnel.nats.Queue
---@param after integer
---@param most integer
---@return runnel.queue.Waiting[]? list, string? err
function waiting_list.read(queue, after, most)
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
    local m = answer.message
    local data = m.data and base64.decode(m.data) or ""
    list[#list + 1] = { sequence = m.seq, subject = m.subject, time = timestamp.ms(m.time), bytes = #data,
      value = value_of(data), starts = 0, raises = 0 }
    seq = m.seq + 1
  end
  return list
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
