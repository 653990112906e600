---Sinks: objects that store values in a stream. How they store one is the matter of their class.

local clock = require "runnel.queue.clock"
local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

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
---@field protected keeps_json? boolean
---@field protected time fun(self): number the time in ms since 1970, by the clock by which messages are read
---@field private is_closed? boolean
local Sink = {}

---@class runnel.queue.Stored
---@field id? string
---@field headers? table<string, string>
---@field priority? integer
---@field if_waiting? "replace"|"drop"

-- The subject of a value: the option of the put, or the sink's.
local function subject_of(self, subject)
  subject = subject or self.subject
  local wrong = subject ~= nil and names.wrong_subject(subject)
  if wrong then raise("put: " .. wrong) end
  if not subject then
    raise(("put: the stream %q stores %s: say which subject (option subject)")
      :format(self.stream, table.concat(self.subjects, ", ")))
  end
  for _, pattern in ipairs(self.subjects) do
    if names.matches(subject, pattern) then return subject end
  end
  raise(("put: %q is not a subject of the stream %q, which stores %s")
    :format(subject, self.stream, table.concat(self.subjects, ", ")))
end

-- What is wrong with the text of a header; nil if nothing is.
local function wrong_text(text, is_json)
  if type(text) == "number" and text == text and math.abs(text) < math.huge then return nil end
  if type(text) == "table" and #text > 0 then
    for _, one in ipairs(text) do
      if type(one) ~= "string" then return "a list with " .. check.article(one) end
      local wrong = wrong_text(one, is_json)
      if wrong then return wrong end
    end
    return nil
  end
  if type(text) ~= "string" then return check.article(text) end
  if text:find "[\r\n\0]" then return "a text with a line break or a zero byte" end
  if not is_json and not text:find "%S" then return "an empty text, for which libnats reads the next header" end
  return is_json and not utf8.len(text) and "a text that is not UTF-8" or nil
end

-- Checks headers: a header that cannot be kept is an error, since it would be missing.
local function check_headers(self, headers)
  if headers == nil then return end
  check.table(headers, "put: headers")
  local is_json = self.keeps_json
  for name, text in pairs(headers) do
    local problem
    if type(name) ~= "string" or not name:find "^[^%c%s:]+$" or is_json and not utf8.len(name) then
      problem = "a name without spaces and colons expected, got " .. check.describe(name)
    else
      local wrong = wrong_text(text, is_json)
      problem = wrong and ("a text expected as %q, got %s"):format(name, wrong)
    end
    if problem then raise("put: headers: " .. problem) end
  end
end

-- The headers of a value, with the time before which it must not start, by the clock of its readers.
local function with_time(self, opts)
  local at = opts.at
  if opts.delay ~= nil then
    check.ms(opts.delay, 0, "put: delay")
    if at ~= nil then raise("put: delay or at expected, got both") end
    at = self:time() + (opts.delay + 0.0) -- as a float, which does not overflow
  elseif at == nil then
    return opts.headers
  else
    check.ms(at, 0, "put: at")
    at = at + 0.0 + self:ahead()
  end
  local headers = { ["Runnel-At"] = ("%.0f"):format(at) }
  for name, text in pairs(opts.headers or {}) do headers[name] = text end
  return headers
end

local IF_WAITING <const> = { "replace", "drop" }

---Stores a value, and returns when the stream has it. While the server does not answer, tries again; the stream stores
---the value once. With `id`, the stream stores only one value of that id, from any process, within its time for ids
---(option `duplicates` of conn:stream).
---With `delay` or `at`, stages and sources with a name get the message at that time; other sources do not wait.
---@param value any
---@param opts? { id?: string, subject?: string, headers?: table<string, string>, delay?: number, at?: number,
---priority?: integer, if_waiting?: "replace"|"drop" } `headers`: names without spaces and colons, and texts of one
---line, in UTF-8. `delay`: ms from now; `at`: a time in ms since 1970, by the clock of this machine. Over NATS the
---clocks of the programs count, to the second. `priority`, 1 to 9, of a store only: stages and named sources get it
---before messages with a lower one. `if_waiting`, of a store only: what happens if a message with the id still waits;
---else it is stored, also within the time for ids. "replace": this one takes its place; "drop": this one is dropped,
---as a duplicate, and changes nothing
---@return boolean stored false: it is not stored; or, after the sink's timeout, it is not known whether it is
---@return integer|string sequence_or_err
---@return boolean? is_duplicate the stream had it already
function Sink:put(value, opts)
  sign.own(self, "sink", "put")
  check.options(opts, self.PUT_OPTIONS, "put")
  opts = opts or {}
  local id, priority = opts.id, opts.priority
  if id ~= nil and (type(id) ~= "string" or id == "" or id:find "[%c]") then
    local which = type(id) == "string" and "without control characters, not empty, " or ""
    raise(("put: id: a string %sexpected, got %s"):format(which, check.describe(id)))
  end
  if priority ~= nil and not (math.type(priority) == "integer" and priority >= 0 and priority <= 9) then
    raise("put: priority: an integer from 0 to 9 expected, got " .. check.describe(priority))
  end
  check.one_of(opts.if_waiting, IF_WAITING, "put: if_waiting")
  if opts.if_waiting and not id then raise("put: if_waiting: the option id says for which messages") end
  check_headers(self, opts.headers)
  local headers = with_time(self, opts)
  if self.is_closed then return false, "the sink is closed" end
  local subject = subject_of(self, opts.subject)
  local sequence, err, code = self:store(subject, value,
    { id = id, headers = headers, priority = priority, if_waiting = opts.if_waiting })
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
  sign.own(self, "sink", "from")
  check.chan(from, "from: from")
  if n ~= nil then check.integer(n, 1, "from: n") end
  local result, state = core.chan(1), { count = 0, running = n or 1 }
  for _ = 1, n or 1 do
    guard.started(guard.go(guard.close, result, store_all, self, from, state, result), "sink")
  end
  return result
end

function Sink:close()
  sign.own(self, "sink", "close")
  self.is_closed = true
end

---How many ms the clock by which messages are read is ahead of the clock of this machine.
function Sink:ahead() return 0 end -- luacheck: no self

---A class of sinks.
---@param store function how they store a value
---@param methods? { time: function, ahead: function, keeps_json: boolean } of sinks whose messages are read by another
---clock, or whose headers are kept as JSON, in which all texts are UTF-8
---@param of_store? boolean whether their messages have priorities, and can be replaced
---@return table class
function sink.class(store, methods, of_store)
  local class = { __name = "sink", __sign = "sink", __close = Sink.close, store = store, time = clock.time }
  for name, method in pairs(Sink) do class[name] = method end
  for name, method in pairs(methods or {}) do class[name] = method end
  class.__index = class
  class.PUT_OPTIONS = { id = true, subject = true, headers = true, delay = true, at = true,
    priority = of_store or nil, if_waiting = of_store or nil }
  return class
end

local OPTIONS <const> = { subject = true, timeout = check.kinds.ms(1), encoding = options.ENCODING }

---Checks the arguments of conn:sink and store:sink.
---@param name any
---@param opts any
function sink.check(name, opts)
  names.check(name, "sink: stream")
  check.options(opts, OPTIONS, "sink")
  if opts and opts.subject ~= nil and type(opts.subject) ~= "string" then
    raise("sink: subject: a subject expected, got " .. check.article(opts.subject))
  end
end

---Makes a sink.
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
    subject_of(self, opts.subject)
  elseif #stream.subjects == 1 and not stream.subjects[1]:find "[*>]" then
    self.subject = stream.subjects[1]
  end
  return self
end

return sink
