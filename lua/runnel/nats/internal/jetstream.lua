---JetStream's API, for the other modules of streams: requests with JSON, comparing the settings of streams, and storing
---messages with retries.

local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local timed_out = require "runnel.internal.timed_out"
local keepers = require "runnel.queue.keeper"
local patience = require "runnel.nats.internal.patience"
local raise = require("runnel.internal.check").raise

local jetstream = {}

-- Codes of errors in answers of the API.
jetstream.NO_STREAM, jetstream.NO_CONSUMER = 10059, 10014
jetstream.WRONG_SEQUENCE, jetstream.NO_MESSAGE = 10071, 10037
jetstream.FULL = 10077

---Replaces such a code: the stream has not confirmed the message in time. Its server may be away, or the disk full.
jetstream.UNKNOWN = 0

---Replaces WRONG_SEQUENCE, if an earlier try to store the message had no answer: it may have been stored, and replaced
---by another message since. A server that starts again forgets the ids of messages that were replaced.
jetstream.UNCERTAIN = -1

---Nanoseconds, JetStream's unit of durations.
---@param ms number
---@return integer
function jetstream.ns(ms) return math.tointeger(ms * 1e6 // 1) end

---The answer that gives a message back, for redelivery at once, or after `ms`.
---@param ms? number
---@return string
function jetstream.nak(ms) return ms and ('-NAK {"delay":%d}'):format(jetstream.ns(ms)) or "-NAK" end

-- ---- the API ----

-- What `ask` returns if no answer came in time.
local SILENT <const> = {}

-- Codes that pass: the server has no leader for the moment.
local NO_LEADER = { [10004] = true, [10008] = true, [10009] = true }

-- Codes of a stream or a consumer whose leader is being replaced.
local OFFLINE = { [10118] = true, [10119] = true }

-- What a server says, with different codes, if its disk is full. The others of a cluster soon do without it.
local FULL_DISKS <const> = { "error creating store", "no space left" }

-- Whether the same request may succeed soon.
local function passes_soon(err, code)
  if code == true or NO_LEADER[code] or OFFLINE[code] then return true end
  for _, text in ipairs(code and FULL_DISKS or {}) do
    if err:find(text, 1, true) then return true end
  end
  return false
end

-- Asks once. Returns the answer; or nil, the reason, and the code of the server's error or whether to ask again.
local function ask(conn, subject, text, ms)
  local message, err = conn:request(subject, text, { timeout = ms, encoding = "raw", until_reconnect = true })
  if not message then
    if conn.has_ended then return nil, "the connection is closed" end
    if timed_out.is_timeout(err) then return nil, SILENT, true end
    err = tostring(err)
    if err:find("does not permit", 1, true) then return nil, err end
    if err:find("the connection was lost", 1, true) then return nil, "JetStream does not answer: " .. err, true end
    return nil, ("JetStream does not answer (%s); is it enabled (nats-server -js)?"):format(err)
  end
  local answer, problem = json.decode(message.data)
  if not answer then return nil, "JetStream's answer is " .. problem end
  local failure = answer.error
  if failure then return nil, failure.description, failure.err_code end
  return answer
end

---Calls a function of the API. Asks again while the connection or the leader of a cluster is being replaced: a question
---that changes nothing soon, since the answer of a leader that is being stopped may never come.
---@param conn runnel.nats.Connection
---@param verb string as in "STREAM.INFO.orders"
---@param body? table
---@param ms? number how long the server may take to answer: 20 s, more than an election takes; 5 s for what cannot be
---asked twice
---@return table? answer, string? err
---@return integer? code of the server's error
function jetstream.request(conn, verb, body, ms)
  local text, subject = body and assert(json.encode(body)) or "", "$JS.API." .. verb
  local is_once, is_list = verb:find "DELETE" or verb:find "PURGE", verb:find "%.LIST"
  local most = ms or (is_once and patience.ask_once or patience.answer)
  local deadline = core.now() + most
  local wait = is_once and most or not body and patience.ask_first or patience.ask
  while true do
    local left = math.max(1, deadline - core.now())
    local answer, err, code = ask(conn, subject, text, math.min(wait, left))
    if answer then return answer end
    if err == SILENT then wait = is_list and patience.ask_list or math.min(2 * wait, patience.ask) end
    if is_once or not passes_soon(err, code) or deadline - core.now() <= patience.ask_again then
      if err == SILENT then
        err = ("JetStream has not answered within %g s: its cluster may have no leader"):format(most / 1000)
      end
      return nil, err, code ~= true and code or nil
    end
    core.sleep(patience.ask_again)
  end
end

---Finds the information about a stream or a consumer, and makes it first if it does not exist.
---@param conn runnel.nats.Connection
---@param info string the verb that asks for the information
---@param create string the verb that makes it
---@param body table the settings of a new one
---@return table? answer, string? err
---@return integer? code of the server's error
function jetstream.ensure(conn, info, create, body)
  local answer, err, code = jetstream.request(conn, info)
  if code == jetstream.NO_STREAM or code == jetstream.NO_CONSUMER then
    answer, err, code = jetstream.request(conn, create, body)
    if code then answer = jetstream.request(conn, info) end -- another program may have made it in the meantime
  end
  return answer, err, code
end

---The settings and the state of a stream, or nil, err.
function jetstream.stream_info(conn, name)
  local info, err, code = jetstream.request(conn, "STREAM.INFO." .. name)
  if code == jetstream.NO_STREAM then err = ("there is no stream %q (conn:stream makes one)"):format(name) end
  return info, err, code
end

---Changes settings of a stream, given in the server's words; the others stay.
---@param changes table<string, any>
---@return table? info, string? err
function jetstream.change_stream(conn, name, changes)
  local info, err = jetstream.stream_info(conn, name)
  if not info then return nil, err end
  local config = info.config
  for key, value in pairs(changes) do config[key] = value end
  -- The server refuses to keep ids for longer than messages.
  local most = config.max_age or 0
  if most > 0 then config.duplicate_window = math.min(config.duplicate_window or most, most) end
  return jetstream.request(conn, "STREAM.UPDATE." .. name, config)
end

local function is_same(wanted, actual)
  if type(wanted) ~= "table" or type(actual) ~= "table" then return wanted == actual end
  if #wanted ~= #actual then return false end
  for i = 1, #wanted do
    if wanted[i] ~= actual[i] then return false end
  end
  return true
end

-- The server's words for what options set; and those of times, in ns.
local OPTIONS <const> = {
  duplicate_window = "duplicates", filter_subject = "subject", max_ack_pending = "max_running", max_deliver = "tries",
  max_msg_size = "max_message", max_msgs = "max_messages", max_msgs_per_subject = "max_per_subject",
  num_replicas = "replicas",
}
local TIMES <const> = { ack_wait = true, duplicate_window = true, max_age = true }

local function shown(value, name)
  if value == nil then return "not set" end
  if TIMES[name] and type(value) == "number" then
    local ms = value / 1e6
    return decimal.text(math.tointeger(ms) or ms)
  end
  return type(value) == "table" and table.concat(value, ", ") or tostring(value)
end

---Compares settings of a stream or consumer with the requested ones. Returns nil if they are the same.
---@param wanted table<string, any> in the server's words
---@param actual table<string, any>
---@return string? difference in the words of the options, with times in ms
function jetstream.difference(wanted, actual)
  local names = {}
  for name in pairs(wanted) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not is_same(wanted[name], actual[name]) then
      return ("%s is %s, not %s"):format(OPTIONS[name] or name, shown(actual[name], name), shown(wanted[name], name))
    end
  end
end

-- ---- storing ----

-- Temporary errors: no connection, no leader at the moment, a server that is starting. And 10164: a cluster stores a
-- message of the same subject, so that it does not know yet which one is the last.
local PASSING = { [10008] = true, [10023] = true, [10118] = true, [10074] = true, [10029] = true, [10164] = true }

-- Unique ids across processes.
local function new_id(conn)
  local ids = conn.store_ids
  if not ids then
    ids = { prefix = conn:inbox():match "[^.]+$", n = 0 }
    conn.store_ids = ids
  end
  ids.n = ids.n + 1
  return ids.prefix .. "." .. ids.n
end

-- The request of one try. An error for a wrong argument is raised again at the program's line.
local function try(conn, subject, value, ms, opts)
  opts.timeout = ms
  local ok, message, err = pcall(conn.request, conn, subject, value, opts)
  if ok then return message, err end
  if type(message) ~= "string" or keepers.is_cancelled(message) then error(message, 0) end
  raise((guard.text(message):gsub("^request: ", "put: ")))
end

-- Codes that pass when an operator has made room.
local NO_ROOM = { [jetstream.FULL] = true, [10047] = true }

---Whether a request, or a message, that has failed may succeed later: the server was away, or has no room for now.
---@param err any
---@param code? integer of the server's error
---@return boolean
function jetstream.may_pass(err, code)
  if not code then return not tostring(err):find("does not permit", 1, true) end
  return code == jetstream.UNKNOWN or NO_LEADER[code] or PASSING[code] or NO_ROOM[code] or false
end

---Whether a request has failed because no answer has come, or none from a leader: the server may have done it.
---@param err any
---@param code? integer of the server's error
---@return boolean
function jetstream.is_unanswered(err, code)
  if code then return NO_LEADER[code] or false end
  local text = tostring(err)
  return (text:find("has not answered", 1, true) or text:find("connection was lost", 1, true)) ~= nil
end

---Stores a message, and returns when the stream has confirmed it. Tries again, with the same id, while the server does
---not answer, and after a reconnect; so the stream stores it once.
---@param conn runnel.nats.Connection
---@param subject string
---@param value any
---@param opts { id?: string, timeout: number, encoding?: string, headers?: table, stream: string }
---stream: which one has to store it
---@return integer? sequence, string|boolean|nil err_or_is_duplicate
---@return integer? code
function jetstream.store(conn, subject, value, opts)
  local headers = { ["Nats-Msg-Id"] = opts.id or new_id(conn), ["Nats-Expected-Stream"] = opts.stream }
  for name, text in pairs(opts.headers or {}) do headers[name] = text end
  local with = { headers = headers, encoding = opts.encoding, until_reconnect = true }
  local deadline, wait, is_uncertain = core.now() + opts.timeout, patience.store_first, false
  while true do
    local left = deadline - core.now()
    local message, err = try(conn, subject, value, math.max(1, math.min(wait, left)), with)
    wait = math.min(2 * wait, patience.store_most)
    local code
    if message then
      local answer = json.decode(message.data)
      if not answer then return nil, ("%q is not a subject of a stream"):format(subject) end
      if not answer.error then return answer.seq, answer.duplicate or false end
      err, code = answer.error.description, answer.error.err_code
      if code == jetstream.WRONG_SEQUENCE and is_uncertain then code = jetstream.UNCERTAIN end
      if not PASSING[code] then return nil, err, code end
    end
    is_uncertain = is_uncertain or not message
    if conn.has_ended then return nil, "the connection is closed" end
    if deadline - core.now() <= patience.ask_again then
      return nil, timed_out.new(("the stream %q has not answered within %d ms; it may have the message (%s)")
        :format(opts.stream, opts.timeout // 1, tostring(err))), jetstream.UNKNOWN
    end
    core.sleep(patience.ask_again)
  end
end

return jetstream
