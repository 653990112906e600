---Sinks: objects that store values in a stream. How they store one is the matter of their class.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"

local sink = {}

---Stores values in a stream.
---@class runnel.Sink
---@field stream string
---@field subjects string[] of the stream
---@field subject? string of the values, by default
---@field timeout number ms to try to store a value
---@field protected owner any the connection or the store
---@field protected store fun(self, subject: string, value: any, opts: runnel.queue.Stored): integer?, any, any stores
---a value, and returns its number and whether the stream had it; or nil, the reason and a code
---@field private is_closed? boolean
local Sink = {}

---@class runnel.queue.Stored
---@field id? string
---@field headers? table<string, string>
---@field priority? integer
---@field level integer of the program's line, as `store` would give it to `error`

-- The subject of a value: the option of the put, or the sink's.
local function subject_of(self, subject, level)
  subject = subject or self.subject
  if not subject then
    error(("put: the stream %q stores %s: say which subject (option subject)")
      :format(self.stream, table.concat(self.subjects, ", ")), level + 1)
  end
  for _, pattern in ipairs(self.subjects) do
    if names.matches(subject, pattern) then return subject end
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
---With `delay` or `at`, a stage does not call its function before that time; sources do not wait.
---@param value any
---@param opts? { id?: string, subject?: string, headers?: table<string, string>, delay?: number, at?: number,
---priority?: integer } `delay`: ms from now; `at`: a time in ms since 1970. The clocks of the programs count, to the
---second. `priority`, 1 to 9, of a store only: stages and named sources get it before messages with a lower one
---@return boolean stored false: it is not stored; or, after the sink's timeout, it is not known whether it is
---@return integer|string sequence_or_err
---@return boolean? is_duplicate the stream had it already
function Sink:put(value, opts)
  check.options(opts, self.PUT_OPTIONS, "put")
  opts = opts or {}
  local id, priority = opts.id, opts.priority
  if id ~= nil and (type(id) ~= "string" or id == "" or id:find "[%c]") then
    error("put: id: a string expected, got " .. check.describe(id), 2)
  end
  if priority ~= nil and not (math.type(priority) == "integer" and priority >= 0 and priority <= 9) then
    error("put: priority: an integer from 0 to 9 expected, got " .. check.describe(priority), 2)
  end
  local headers = with_time(opts, 2)
  if self.is_closed then return false, "the sink is closed" end
  local subject = subject_of(self, opts.subject, 2)
  local sequence, err, code = self:store(subject, value, { id = id, headers = headers, priority = priority, level = 3 })
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

---A class of sinks.
---@param store function how they store a value
---@param has_priority boolean whether their messages have priorities
---@return table class
function sink.class(store, has_priority)
  local class = { __name = "sink", __close = Sink.close, store = store }
  for name, method in pairs(Sink) do class[name] = method end
  class.__index = class
  class.PUT_OPTIONS = { id = true, subject = true, headers = true, delay = true, at = true,
    priority = has_priority or nil }
  return class
end

local OPTIONS <const> = { subject = true, timeout = check.kinds.ms(1), encoding = options.ENCODING }

---Checks the arguments of conn:sink and store:sink.
---@param name any
---@param opts any
function sink.check(name, opts)
  local level = 4
  names.check(name, "sink: stream", level)
  check.options(opts, OPTIONS, "sink", level)
  if opts and opts.subject ~= nil and type(opts.subject) ~= "string" then
    error("sink: subject: a subject expected, got " .. check.article(opts.subject), 3)
  end
end

---Makes a sink. An error is at the line that has called the caller.
---@param class table of sink.class
---@param owner any the connection or the store
---@param stream { name: string, subjects: string[] }
---@param opts { subject?: string, timeout?: number }
---@return runnel.Sink
function sink.new(class, owner, stream, opts)
  local self = setmetatable({
    owner = owner, stream = stream.name, subjects = stream.subjects, timeout = opts.timeout or 30000,
    subject = opts.subject,
  }, class)
  if opts.subject then
    subject_of(self, opts.subject, 3)
  elseif #stream.subjects == 1 and not stream.subjects[1]:find "[*>]" then
    self.subject = stream.subjects[1]
  end
  return self
end

return sink
