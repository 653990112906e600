---JetStream's API, for the other modules of streams: requests with JSON, comparing the settings of streams, and storing
---messages with retries.

local core = require "runnel.core"
local json = require "runnel.nats.json"

local jetstream = {}

-- How long the server may take to answer, by default.
local ANSWER_MS = 5000

-- Codes of errors in answers of the API.
jetstream.NO_STREAM, jetstream.NO_CONSUMER = 10059, 10014
jetstream.WRONG_SEQUENCE, jetstream.NO_MESSAGE = 10071, 10037
jetstream.FULL = 10077

---Nanoseconds, as JetStream has all durations.
---@param ms number
---@return integer
function jetstream.ns(ms) return math.tointeger(ms * 1e6 // 1) end

-- ---- names ----

---Checks the name of a stream, a consumer or a bucket. An error names the line that called the function whose argument
---it is.
---@param what string that function and the argument, as in "source: stream"
function jetstream.check_name(name, what)
  if type(name) ~= "string" then
    error(("%s: a name expected, got %s"):format(what, name == nil and "nothing" or "a " .. type(name)), 3)
  end
  if name == "" or name:find "[%s%c.*>/\\]" then
    error(("%s: a name without spaces, dots, *, > and slashes expected, got %q"):format(what, name), 3)
  end
end

---Whether a subject is one of those that a pattern with * and > stands for.
---@param subject string
---@param pattern string
---@return boolean
function jetstream.matches(subject, pattern)
  local rest = subject .. "."
  for token in pattern:gmatch "[^.]+" do
    if token == ">" then return rest ~= "" end
    local first, after = rest:match "^([^.]+)%.(.*)$"
    if not first or token ~= "*" and token ~= first then return false end
    rest = after
  end
  return rest == ""
end

-- ---- the API ----

---Calls a function of the API.
---@param conn runnel.nats.Connection
---@param verb string as in "STREAM.INFO.orders"
---@param body? table
---@param ms? number how long the server may take to answer (5000)
---@return table? answer, string? err
---@return integer? code of the server's error
function jetstream.request(conn, verb, body, ms)
  local text = body and assert(json.encode(body)) or ""
  local message, err = conn:request("$JS.API." .. verb, text, ms or ANSWER_MS, { encoding = "raw" })
  if not message then
    if conn.has_ended then return nil, "the connection is closed" end
    return nil, ("JetStream does not answer (%s); is it enabled (nats-server -js)?"):format(tostring(err))
  end
  local answer, problem = json.decode(message.data)
  if not answer then return nil, "JetStream's answer is " .. problem end
  if answer.error then return nil, answer.error.description, answer.error.err_code end
  return answer
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
    if code then answer = jetstream.request(conn, info) end -- somebody else may have made it in the meantime
  end
  return answer, err, code
end

---The settings and the state of a stream, or nil, err.
function jetstream.stream_info(conn, name)
  local info, err, code = jetstream.request(conn, "STREAM.INFO." .. name)
  if code == jetstream.NO_STREAM then err = ("there is no stream %q (conn:stream makes one)"):format(name) end
  return info, err, code
end

local function is_same(wanted, actual)
  if type(wanted) ~= "table" or type(actual) ~= "table" then return wanted == actual end
  if #wanted ~= #actual then return false end
  for i = 1, #wanted do
    if wanted[i] ~= actual[i] then return false end
  end
  return true
end

local function shown(value)
  if value == nil then return "not set" end
  return type(value) == "table" and table.concat(value, ", ") or tostring(value)
end

---Compares settings of a stream or consumer with those that were wanted. Returns nil if they are the same.
---@param wanted table<string, any> in the server's words
---@param actual table<string, any>
---@return string? difference
function jetstream.difference(wanted, actual)
  local names = {}
  for name in pairs(wanted) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not is_same(wanted[name], actual[name]) then
      return ("%s is %s, not %s"):format(name, shown(actual[name]), shown(wanted[name]))
    end
  end
end

-- ---- storing ----

local RETRY_MS = 50 -- between tries of what the server did not accept or answer
local TRY_MS = 2000 -- for the answer to one try

-- Errors that may pass: no connection, no leader at the moment, a server that is starting.
local PASSING = { [10008] = true, [10023] = true, [10118] = true, [10074] = true, [10029] = true }

-- Ids that no other process uses.
local function new_id(conn)
  local ids = conn.store_ids
  if not ids then
    ids = { prefix = conn:inbox():gsub("^_INBOX%.", ""), n = 0 }
    conn.store_ids = ids
  end
  ids.n = ids.n + 1
  return ids.prefix .. "." .. ids.n
end

-- The request of one try. What it raises for a wrong argument is raised again as an error of the program's line.
local function try(conn, subject, value, ms, opts, level)
  local ok, message, err = pcall(conn.request, conn, subject, value, ms, opts)
  if ok then return message, err end
  if type(message) ~= "string" then error(message, 0) end
  message = message:gsub("^[^:\n]+:%d+: ", ""):gsub("^request: ", "put: ")
  error(message, level + 1)
end

---Stores a message, and returns when the stream has it. Tries again, with the same id, as long as the server does not
---answer, and after a reconnect; so the stream stores it once.
---@param conn runnel.nats.Connection
---@param subject string
---@param value any
---@param opts { id?: string, timeout: number, encoding?: string, headers?: table, stream: string, level: integer }
---stream: which one has to store it; level: of the program's line, for errors
---@return integer? sequence, string|boolean|nil err_or_is_duplicate
---@return integer? code
function jetstream.store(conn, subject, value, opts)
  local headers = { ["Nats-Msg-Id"] = opts.id or new_id(conn), ["Nats-Expected-Stream"] = opts.stream }
  for name, text in pairs(opts.headers or {}) do headers[name] = text end
  local with = { headers = headers, encoding = opts.encoding, until_reconnect = true }
  local deadline = core.now() + opts.timeout
  while true do
    local left = deadline - core.now()
    local message, err = try(conn, subject, value, math.max(1, math.min(TRY_MS, left)), with, opts.level)
    local code
    if message then
      local answer = json.decode(message.data)
      if not answer then return nil, ("%q is not a subject of a stream"):format(subject) end
      if not answer.error then return answer.seq, answer.duplicate or false end
      err, code = answer.error.description, answer.error.err_code
      if not PASSING[code] then return nil, err, code end
    end
    if conn.has_ended then return nil, "the connection is closed" end
    if deadline - core.now() <= RETRY_MS then
      return nil, ("the stream %q has not answered within %d ms; it may have the message (%s)")
        :format(opts.stream, opts.timeout // 1, tostring(err))
    end
    core.sleep(RETRY_MS)
  end
end

return jetstream
