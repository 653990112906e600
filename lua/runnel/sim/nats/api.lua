---The API of the simulated JetStream: requests to $JS.API, which make streams and consumers and say what they have.

local base64 = require "runnel.internal.base64"
local json = require "runnel.json"
local protocol = require "runnel.sim.nats.protocol"
local settings = require "runnel.sim.nats.settings"
local streams = require "runnel.sim.nats.nats_stream"

local api = {}

-- How many entries an answer with a list has at most.
local PAGE, SUBJECTS = 256, 100000

local function refuse(status, code, text, ...)
  return { error = { code = status, err_code = code, description = text:format(...) } }
end
local function no_stream() return refuse(404, 10059, "stream not found") end
local function no_consumer() return refuse(404, 10014, "consumer not found") end

-- ---- streams ----

local INFO <const> = '{"config":%s,"created":"%s","state":{"messages":%d,"bytes":%d,"first_seq":%d,"last_seq":%d,'
  .. '"first_ts":"%s","last_ts":"%s","consumer_count":%d%s}%s}'
local NO_TIME <const> = "0001-01-01T00:00:00Z"

-- What the server says about a stream, as JSON. `more`: of its state. `rest`: of the answer.
local function stream_info(server, stream, more, rest)
  stream:expire()
  local first = stream.messages[stream.first]
  return INFO:format(stream.config_text, stream.created, stream.count, stream.bytes, stream.first, stream.last,
    first and server:timestamp(first.time) or NO_TIME,
    stream.stored_at and server:timestamp(stream.stored_at) or NO_TIME, #stream.consumers, more or "", rest or "")
end

-- Returns a function that calls f(server, stream, body) with the stream of a name.
local function with_stream(f)
  return function(server, name, body)
    local stream = server:stream(name)
    if not stream then return no_stream() end
    return f(server, stream, body)
  end
end

-- Whether the settings of two streams differ.
local function differ(a, b)
  for key, value in pairs(a) do
    local other = b[key]
    if type(value) == "table" then
      if type(other) ~= "table" or table.concat(value, " ") ~= table.concat(other, " ") then return true end
    elseif value ~= other then
      return true
    end
  end
  return false
end

local function overlapping(server, config)
  for _, other in ipairs(server.streams) do
    for _, mine in ipairs(other.name ~= config.name and config.subjects or {}) do
      for _, its in ipairs(other.config.subjects) do
        if protocol.overlap(mine, its) then return true end
      end
    end
  end
  return false
end

local function create_stream(server, name, body)
  local config = settings.stream(body)
  if config.name ~= name then return refuse(400, 10056, "stream name in subject does not match request") end
  local found = server:stream(name)
  if found then
    if differ(config, found.config) then
      return refuse(400, 10058, "stream name already in use with a different configuration")
    end
    return stream_info(server, found)
  end
  if overlapping(server, config) then return refuse(400, 10065, "subjects overlap with an existing stream") end
  return stream_info(server, server:add_stream(config))
end

local update_stream = with_stream(function(server, found, body)
  local config = settings.stream(body)
  for _, key in ipairs { "storage", "retention" } do
    if config[key] ~= found.config[key] then
      return refuse(500, 10052, "stream configuration update can not change %s", key)
    end
  end
  if overlapping(server, config) then return refuse(400, 10065, "subjects overlap with an existing stream") end
  found:configure(config)
  return stream_info(server, found)
end)

local delete_stream = with_stream(function(server, found)
  for _, consumer in ipairs(found.consumers) do consumer:deleted(server) end
  server:remove_stream(found)
  return { success = true }
end)

local info_of_stream = with_stream(function(server, found, body)
  found:expire()
  local filter = body.subjects_filter
  if not filter then return stream_info(server, found) end
  local matches, names = protocol.matcher(filter), {}
  for subject in pairs(found.by_subject) do
    if matches and matches(subject) or subject == filter then names[#names + 1] = subject end
  end
  table.sort(names)
  local from, subjects = body.offset or 0, {}
  for i = from + 1, math.min(#names, from + SUBJECTS) do subjects[names[i]] = #found.by_subject[names[i]] end
  local more = next(subjects) and ',"subjects":' .. assert(json.encode(subjects)) or ""
  return stream_info(server, found, more, (',"total":%d,"offset":%d,"limit":%d'):format(#names, from,
    names[1] and SUBJECTS or 0))
end)

-- By a choice, consumers forget what they have delivered, as those of nats-server before 2.9.15 do.
local purge_stream = with_stream(function(server, found, body)
  local filter = body.filter
  local count = found:purge(body.seq, filter)
  local left = found:next(1, filter and (protocol.matcher(filter) or filter))
  local first = left and left.seq or found.last + 1
  for _, consumer in ipairs(found.consumers) do
    local of = consumer.config.filter_subject or ""
    if (filter or "") == of or of == "" then
      local is_wider = filter ~= nil and filter ~= of
      local differs = consumer.state.npending > 0 or is_wider and first > consumer.state.next
      if differs and server.world.faults:way(2) == 2 then consumer:purged_all(first)
      else consumer:purged(first, is_wider) end
    end
  end
  return { success = true, purged = count }
end)

local get_message = with_stream(function(server, found, body)
  found:expire()
  local message
  if body.last_by_subj then
    message = found:last_of(body.last_by_subj)
  elseif body.next_by_subj then
    message = found:next(body.seq or 1, protocol.matcher(body.next_by_subj) or body.next_by_subj)
  else
    message = found.messages[body.seq]
  end
  if not message then return { error = streams.err(10037) } end
  return { message = {
    subject = message.subject, seq = message.seq, data = message.body ~= "" and base64.encode(message.body) or nil,
    hdrs = message.headers and base64.encode(message.headers), time = server:timestamp(message.time),
  } }
end)

local delete_message = with_stream(function(_, found, body)
  local message = found.messages[body.seq]
  if not message then return { error = streams.err(10043, body.seq) } end
  found:drop(message)
  return { success = true }
end)

-- A page of a list, as JSON.
local function page(list, field, from, f)
  local parts = {}
  for i = from + 1, math.min(#list, from + PAGE) do parts[#parts + 1] = f(list[i]) end
  return ('{"total":%d,"offset":%d,"limit":%d,"%s":[%s]}'):format(#list, from, PAGE, field, table.concat(parts, ","))
end

local function list_streams(server, _, body)
  return page(server.streams, "streams", body.offset or 0, function(stream) return stream_info(server, stream) end)
end

-- ---- consumers ----

local function conflict(stream, consumer, config)
  if stream.config.retention ~= "workqueue" then return nil end
  if config.ack_policy ~= "explicit" then return refuse(400, 10084, "consumer in pull mode requires ack policy") end
  if config.deliver_policy ~= "all" then
    return refuse(400, 10101, "consumer must be deliver all on workqueue stream")
  end
  for _, other in ipairs(stream.consumers) do
    if other ~= consumer then
      local mine, its = config.filter_subject or "", other.config.filter_subject or ""
      if mine == "" or its == "" then
        return refuse(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
      end
      if protocol.overlap(mine, its) then
        return refuse(400, 10100, "filtered consumer not unique on workqueue stream")
      end
    end
  end
end

local function make_consumer(server, stream, name, config)
  if config.deliver_policy == "last_per_subject" and not config.filter_subject then
    return refuse(400, 10094,
      "consumer delivery policy is deliver last per subject, but optional filter subject is not set")
  end
  local found = server:consumer(stream, name)
  local wrong = conflict(stream, found, config)
  if wrong then return wrong end
  if found then
    for _, key in ipairs { "deliver_policy", "ack_policy" } do
      if config[key] ~= found.config[key] then
        return refuse(500, 10012, "%s can not be updated", (key:gsub("_", " ")))
      end
    end
    found:configure(config)
    found:serve(server)
  else
    found = server:add_consumer(stream, name, config)
  end
  return found:info()
end

local function create_durable(server, names, body)
  local stream_name, name = names:match "^([^.]+)%.([^.]+)$"
  local stream = server:stream(stream_name)
  if not stream then return no_stream() end
  local config = settings.consumer(body.config or {})
  if config.durable_name ~= name then
    return refuse(400, 10019, "consumer name in subject does not match durable name in request")
  end
  return make_consumer(server, stream, name, config)
end

local create_consumer = with_stream(function(server, stream, body)
  return make_consumer(server, stream, server:new_name(), settings.consumer(body.config or {}))
end)

-- Returns a function that calls f(server, stream, consumer, body) with those of "STREAM.CONSUMER".
local function with_consumer(f)
  return function(server, names, body)
    local stream_name, name = names:match "^([^.]+)%.([^.]+)$"
    local stream = server:stream(stream_name)
    if not stream then return no_stream() end
    local consumer = server:consumer(stream, name)
    if not consumer then return no_consumer() end
    return f(server, stream, consumer, body)
  end
end

local info_of_consumer = with_consumer(function(_, _, consumer) return consumer:info() end)

local delete_consumer = with_consumer(function(server, stream, consumer)
  consumer:deleted(server)
  server:remove_consumer(stream, consumer)
  return { success = true }
end)

local list_consumers = with_stream(function(server, stream, body)
  server:consumer(stream, "") -- removes those that are unused
  return page(stream.consumers, "consumers", body.offset or 0, function(consumer) return consumer:info() end)
end)

local function info_of_account(server)
  local bytes, consumers = 0, 0
  for _, stream in ipairs(server.streams) do
    bytes, consumers = bytes + stream.bytes, consumers + #stream.consumers
  end
  return { memory = 0, storage = bytes, streams = #server.streams, consumers = consumers,
    limits = { max_memory = -1, max_storage = -1, max_streams = -1, max_consumers = -1 } }
end

-- ---- requests ----

-- By the beginning of the subject; what follows is a name.
local VERBS = {
  { "STREAM.INFO.", info_of_stream }, { "STREAM.CREATE.", create_stream }, { "STREAM.UPDATE.", update_stream },
  { "STREAM.DELETE.", delete_stream }, { "STREAM.PURGE.", purge_stream }, { "STREAM.MSG.GET.", get_message },
  { "STREAM.MSG.DELETE.", delete_message }, { "STREAM.LIST", list_streams }, { "CONSUMER.INFO.", info_of_consumer },
  { "CONSUMER.DURABLE.CREATE.", create_durable }, { "CONSUMER.CREATE.", create_consumer },
  { "CONSUMER.DELETE.", delete_consumer }, { "CONSUMER.LIST.", list_consumers }, { "INFO", info_of_account },
}

---Answers a request.
---@param server runnel.sim.NatsServer
---@param verb string what follows $JS.API. in the subject
---@param body string
---@return string? answer JSON; nil if the model does not know the request
function api.answer(server, verb, body)
  for _, one in ipairs(VERBS) do
    local start, f = one[1], one[2]
    if verb:sub(1, #start) == start then
      local request = body ~= "" and json.decode(body) or {}
      local answer = f(server, verb:sub(#start + 1), request)
      return type(answer) == "table" and assert(json.encode(answer)) or answer
    end
  end
end

return api
