---conn:sink: stores values in a stream.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local stream = require "runnel.nats.stream"
local values = require "runnel.nats.internal.values"

local sink = {}

---Stores values in a stream.
---@class runnel.nats.Sink
---@field stream string
---@field private conn runnel.nats.Connection
local Sink = { __name = "sink" }
Sink.__index = Sink

local PUT_OPTIONS = { id = true, subject = true, headers = true, delay = true, at = true }

-- The subject of a value: the option of the put, or the sink's.
local function subject_of(self, subject, level)
  subject = subject or self.subject
  if not subject then
    error(("put: the stream %q stores %s: say which subject (option subject)")
      :format(self.stream, table.concat(self.subjects, ", ")), level + 1)
  end
  for _, pattern in ipairs(self.subjects) do
    if jetstream.matches(subject, pattern) then return subject end
  end
  error(("put: %q is not a subject of the stream %q, which stores %s")
    :format(subject, self.stream, table.concat(self.subjects, ", ")), level + 1)
end

-- The headers of a value, with the time before which it must not start.
local function with_time(opts, level)
  local at = opts.at
  if opts.delay ~= nil then
    check.ms(opts.delay, 0, "put: delay", level + 2)
    if at ~= nil then error("put: delay or at expected, got both", level + 1) end
    at = os.time() * 1000 + opts.delay
  elseif at == nil then
    return opts.headers
  end
  check.ms(at, 0, "put: at", level + 2)
  local headers = { ["Runnel-At"] = ("%.0f"):format(at) }
  for name, text in pairs(opts.headers or {}) do headers[name] = text end
  return headers
end

---Stores a value, and returns when the stream has it. While the server does not answer, tries again; the stream stores
---the value once. With `id`, the stream stores only one value of that id, from any process, within its time for ids
---(option `duplicates` of conn:stream).
---With `delay` or `at`, a stage (conn:stage) does not call its function before that time; sources do not wait.
---@param value any
---@param opts? { id?: string, subject?: string, headers?: table<string, string>, delay?: number, at?: number } `delay`:
---ms from now; `at`: a time in ms since 1970. The clocks of the programs count, to the second
---@return boolean stored false: it is not stored; or, after the sink's timeout, it is not known whether it is
---@return integer|string sequence_or_err
---@return boolean? is_duplicate the stream had it already
function Sink:put(value, opts)
  check.options(opts, PUT_OPTIONS, "put")
  opts = opts or {}
  local id = opts.id
  if id ~= nil and (type(id) ~= "string" or id == "" or id:find "[%c]") then
    error("put: id: a string expected, got " .. check.describe(id), 2)
  end
  local headers = with_time(opts, 2)
  if self.is_closed then return false, "the sink is closed" end
  local sequence, err, code = jetstream.store(self.conn, subject_of(self, opts.subject, 2), value, {
    id = id, timeout = self.timeout, encoding = self.encoding, headers = headers, stream = self.stream, level = 3,
  })
  if not sequence then return false, err --[[@as string]], code end
  return true, sequence, err --[[@as boolean]]
end

-- Stores the values of a channel, one after the other in each of several go blocks.
local function store_all(self, from, state, result)
  for value in from do
    local ok, err = self:put(value)
    if not ok then
      from:close()
      state.err = state.err or err
      break
    end
    state.count = state.count + 1
  end
  state.running = state.running - 1
  if state.running > 0 then return end
  if state.err == nil then result:put(state.count) end
  result:close(state.err)
end

---Stores all values of a channel. With n above 1, n at a time, in any order. Returns a channel that gets their number
---when all are stored; or the error, after which it closes `from`.
---@param from runnel.Channel<any>
---@param n? integer default 1: in order
---@return runnel.Channel<integer> count
function Sink:from(from, n)
  check.chan(from, "from: from")
  if n ~= nil then check.integer(n, 1, "from: n") end
  local result, state = core.chan(1), { count = 0, running = n or 1 }
  for _ = 1, n or 1 do
    guard.started(guard.go(guard.close, result, store_all, self, from, state, result), "sink")
  end
  return result
end

function Sink:close() self.is_closed = true end
Sink.__close = Sink.close

local OPTIONS = { subject = true, timeout = true, encoding = true }

---Returns an object that stores values in a stream. Its put returns true when the stream has the value.
---
---    local orders = assert(conn:sink "orders")
---    assert(orders:put("a dozen eggs", { id = "order 17" }))
---@param conn runnel.nats.Connection
---@param name string of the stream
---@param opts? { subject?: string, timeout?: number, encoding?: "raw"|"msgpack"|"json" } subject: of the values, by
---default the stream's, if it has only one; timeout: ms to try to store a value (30000)
---@return runnel.nats.Sink? sink, string? err
function sink.sink(conn, name, opts)
  jetstream.check_name(name, "sink: stream")
  check.options(opts, OPTIONS, "sink")
  opts = opts or {}
  if opts.timeout ~= nil then check.ms(opts.timeout, 1, "sink: timeout") end
  if opts.encoding ~= nil then values.check(opts.encoding, "sink", 2) end
  if opts.subject ~= nil then check.string(opts.subject, "a subject", "sink: subject") end
  local found, err = stream.open(conn, name)
  if not found then return nil, "sink: " .. err end
  local self = setmetatable({
    conn = conn, stream = name, subjects = found.subjects, created = found.created, retention = found.retention,
    duplicates = found.duplicates, timeout = opts.timeout or 30000, encoding = opts.encoding or conn.encoding,
  }, Sink)
  self.subject = opts.subject
  if opts.subject then
    subject_of(self, opts.subject, 2)
  elseif #found.subjects == 1 and not found.subjects[1]:find "[*>]" then
    self.subject = found.subjects[1]
  end
  return self
end

return sink
