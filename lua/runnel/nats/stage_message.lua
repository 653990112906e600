---Processes one message of a durable stage (runnel.nats.stage): calls the function, stores the results, and answers the
---message; or tries again later, or gives it up.

local core = require "runnel.core"
local internal = core.internal

local backoff = require "runnel.internal.backoff"
local dead = require "runnel.nats.dead"
local guard = require "runnel.internal.guard"
local hand_back = require "runnel.nats.hand_back"
local jetstream = require "runnel.nats.jetstream"
local limit = require "runnel.nats.limit"
local patience = require "runnel.nats.patience"
local reader = require "runnel.nats.reader"
local running = require "runnel.nats.running"
local tell = require "runnel.nats.tell"

local stage_message = {}

-- Keys of reports: results cannot be stored; or the counts of starts cannot be read or written, without which
-- redelivered messages cannot start.
local NOT_STORED <const> = "its stream does not accept results for now: "
local NOT_COUNTED <const> = "the server does not store the starts of messages for now: "

-- Stores one result; retries until that succeeds. Raises if it can never succeed.
local function store(self, value, id)
  local since = core.now()
  while true do
    local ok, err, code = self.sink:put(value, { id = id, subject = self.to_subject })
    if ok then
      if code then self.counts.duplicates = self.counts.duplicates + 1 end
      self.told[NOT_STORED] = nil -- the next time is reported as well
      return
    end
    if code ~= jetstream.FULL and code ~= jetstream.UNKNOWN then error(err, 0) end
    if core.now() - since >= patience.results_told then tell(self, "stage", NOT_STORED .. err, NOT_STORED) end
    core.sleep(patience.results_again)
  end
end

-- Stores the results, with ids made from the message, so that the same work done again stores nothing twice.
local function store_results(self, message, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if value ~= nil then store(self, value, ("%s.%d.%d"):format(self.id, message.sequence, i)) end
  end
end

-- A message in work.
---@class runnel.StageCall
---@field message runnel.nats.StreamMessage
---@field count? runnel.Count of the message, if it was delivered before

local function done(self, call)
  call.message:ack()
  self.counts.done = self.counts.done + 1
  if call.count then self.starts_of:forget(call.message) end
end

-- Stores the dead letter of a message. Returns false if that failed.
local function bury(self, call, err, trace)
  if not self.has_letters then return true end
  local message, count = call.message, call.count
  local ok, why = dead.store(self.conn, {
    kind = "message", name = self.name, encoding = self.encoding, data = message.data, headers = message.headers,
    id = ("%s.%d"):format(self.id, message.sequence), error = internal.error_text(err), traceback = trace,
    starts = count.starts, raises = count.raises, since = message.time, worker = self.label, from = self.from,
    subject = message.subject, position = message.sequence,
  }, self.settings)
  if not ok then internal.report("a dead letter cannot be stored: " .. tostring(why), nil, "stage " .. self.name) end
  return ok
end

-- The last try has failed, or each start has ended its process.
local function give_up(self, call, err, trace)
  local message = call.message
  if self.ex_handler then
    local ok, problem, place = xpcall(function()
      local result = self.ex_handler(err, message.value)
      if self.sink then store_results(self, message, result) end
    end, guard.handler)
    if ok then return done(self, call) end
    err, trace = guard.caught(problem)
    trace = trace or place
  end
  if not bury(self, call, err, trace) then return message:nak(patience.starts_again) end
  internal.report(err, trace, ("message %d of %s, given up"):format(message.sequence, self.from))
  message:term()
  self.counts.given_up = self.counts.given_up + 1
  self.starts_of:forget(message)
end

-- The function has raised.
local function failed(self, call, err, trace)
  local count, why = call.count or { starts = 1, raises = 0 }, hand_back.reason(err)
  call.count = count
  if why then
    tell(self, "stage", "a message was handed back: " .. why, why)
    count.starts = count.starts - 1
    self.starts_of:put(call.message, count)
    return call.message:nak(patience.given_back)
  end
  self.counts.failed, count.raises = self.counts.failed + 1, count.raises + 1
  if count.raises >= self.tries then return give_up(self, call, err, trace) end
  self.starts_of:put(call.message, count)
  call.message:nak(math.max(1, backoff.pause(self.retry, count.raises)))
end

-- How long a message must wait, by its header; or nil. Uses the clock of this process, to the second.
local function delay_of(message)
  local at = message.headers and tonumber(message.headers["Runnel-At"])
  local ms = at and at - os.time() * 1000
  return ms and ms > 0 and ms or nil
end

-- The server has not returned, or stored, the count of starts: the message is tried again later. Returns false.
local function wait_for_counts(self, message, why)
  tell(self, "stage", NOT_COUNTED .. tostring(why), NOT_COUNTED)
  message:nak(patience.starts_again)
  return false
end

-- Counts the start of a message that was or may have been delivered before, and if it must run alone, waits until
-- nothing else runs. Returns false if it cannot start; the message is then answered.
local function may_start(self, call, again)
  local message = call.message
  local count, err = self.starts_of:get(message)
  if err then return wait_for_counts(self, message, err) end
  -- The first delivery may have started the message, unless it only had to wait.
  local only_waited = message.deliveries <= 2 and message.headers and message.headers["Runnel-At"]
  local was_started = again == "again" and not only_waited
  count = count or { starts = was_started and 1 or 0, raises = 0 }
  call.count = count
  local silent = count.starts - count.raises
  if count.raises >= self.tries then
    give_up(self, call, count.error)
    return false
  elseif silent >= self.starts then
    give_up(self, call, ("stage %s: the message was given up: its process ended at each of %d starts")
      :format(self.name, silent))
    return false
  elseif silent > 0 and silent + running.ALONE >= self.starts then
    if self.running.lone then
      message:nak(patience.alone_again)
      return false
    end
    self.running.lone = call
    self.running:wait(1)
  end
  count.starts = count.starts + 1
  local ok, why = self.starts_of:put(message, count)
  if not ok then return wait_for_counts(self, message, why) end
  self.told[NOT_COUNTED] = nil
  if again == "again" then self.counts.redelivered = self.counts.redelivered + 1 end
  return true
end

-- The function has returned, or raised (xpcall): stores its results, for as long as that takes. Returns xpcall's
-- results.
local function store_if_ok(self, message, ok, ...)
  if not ok or not self.sink then return ok, ... end
  if self.limit and self.conn.beats[message.ack_subject] then reader.beat(self.reader, message) end
  return xpcall(store_results, guard.handler, self, message, ...)
end

-- Calls the function under xpcall, and stores its results.
local function try(self, call)
  local message, ms = call.message, self.limit
  if self.rate then self.rate:wait() end
  if not ms then return store_if_ok(self, message, xpcall(self.f, guard.handler, message.value, message)) end
  local late = limit.text("stage " .. self.name, ms)
  local count = call.count or { starts = 1, raises = 0 }
  local beat = self.conn.beats[message.ack_subject]
  if beat then
    self.conn.core:limit(beat, ms, limit.text("runnel: stage " .. self.name, ms), self.starts_of:as_message(message, {
      starts = count.starts, raises = count.raises + 1, error = late,
    }))
  end
  return store_if_ok(self, message, limit.call(ms, late, self.f, message.value, message))
end

-- Ends a call, also if its go block is cancelled.
local Leaving = {}

function Leaving:__close()
  local of, call = self.stage, self.call
  call.message:nak() -- no effect if it was answered
  if of.running.lone == call then
    of.running.lone = nil
    reader.go_on(of.reader)
  end
  of.running:leave()
end

---Works on a message until it is answered.
---@param self runnel.nats.Stage
---@param message runnel.nats.StreamMessage
function stage_message.work_on(self, message)
  local again = self.firsts:look(message.sequence, message.order)
  if message.deliveries > 1 then again = "again" end
  local whose = message.headers and message.headers["Runnel-For"]
  if whose and whose ~= self.name then return message:ack() end -- another stage gave it up; it is a replay
  local delay = delay_of(message)
  if delay then return message:nak(delay) end
  if self.running.lone then return message:nak(patience.alone_again) end
  local call = { message = message }
  local leaving <close> = setmetatable({ stage = self, call = call }, Leaving) -- luacheck: ignore 211
  self.running:enter()
  if again ~= "first" and not may_start(self, call, again) then return end
  local ok, problem = try(self, call)
  if ok then return done(self, call) end
  failed(self, call, guard.caught(problem))
end

return stage_message
