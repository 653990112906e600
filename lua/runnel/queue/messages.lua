---The task of a durable stage's worker (runnel.queue.worker): calls the function with the value of a message, and
---stores the results.

local clock = require "runnel.queue.clock"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local patience = require "runnel.queue.patience"

local internal = core.internal

---@class runnel.queue.MessageTask: runnel.queue.Task
---@field private f function
---@field private has_results boolean results are stored
---@field private ex_handler? fun(err: any, value: any): any
---@field private has_letters boolean
---@field private limits runnel.queue.Limits
local Task = { what = "stage", unit = "message", duplicates = 0 }
Task.__index = Task

-- Key of a report: results cannot be stored.
local NOT_STORED <const> = "its stream does not accept results for now: "

function Task:read(message)
  local headers = message.headers
  if not headers then return { limits = self.limits } end
  local whose = headers["Runnel-For"]
  if whose and whose ~= self.name then -- another stage gave it up; it is a replay
    self.worker.keeper:drop(message)
    return nil
  end
  local delay = not message.is_due and clock.wait_of(headers)
  if delay then
    self.worker.keeper:back(message, delay)
    return nil
  end
  -- A keeper that delivers it before its time calls the delivery at that time the first one, too.
  return { limits = self.limits, only_waited = message.deliveries == 1 and headers["Runnel-At"] ~= nil }
end

function Task:run(call) return table.pack(self.f(call.message.value, call.message)) end

function Task:value(call) -- luacheck: no self
  local ok, value = pcall(function() return call.message.value end)
  return ok and value or call.message.data
end

function Task:last_words() end -- luacheck: no self

function Task:silent(starts)
  return ("stage %s: the message was given up: its process ended at each of %d starts"):format(self.name, starts)
end

-- Stores the results, and ends the message; retries until that succeeds. The ids are made from the message, so that the
-- same work done again stores nothing twice. Returns nil and the reason if it can never succeed.
local function finish(self, message, outcome)
  local results, worker = {}, self.worker
  for i = 1, self.has_results and outcome.n or 0 do
    if outcome[i] ~= nil then
      results[#results + 1] = { value = outcome[i], id = ("%s.%d"):format(worker.keeper:id(message), i) }
    end
  end
  local ok, duplicates = worker:store(NOT_STORED, "done", message, results)
  if not ok then return nil, duplicates end
  worker.counts.duplicates = worker.counts.duplicates + duplicates
  return true
end

function Task:done(call, outcome) return finish(self, call.message, outcome) end

-- Stores the dead letter of a message. Returns false if that is not possible.
local function bury(self, call, err, trace)
  if not self.has_letters then return true end
  local message, count, worker = call.message, call.count, self.worker
  local ok, why = worker:bury {
    kind = "message", name = self.name, data = message.data, encoding = message.form, headers = message.headers,
    id = worker.keeper:id(message),
    error = internal.error_text(err), traceback = trace, starts = count.starts, raises = count.raises,
    errors = count.errors, since = message.time, subject = message.subject, position = message.sequence,
    priority = message.priority,
  }
  if not ok then internal.report("a dead letter cannot be stored: " .. tostring(why), nil, "stage " .. self.name) end
  return ok
end

function Task:give_up(call, err, trace)
  local message, counts = call.message, self.worker.counts
  if self.ex_handler then
    local ok, is_stored, why = guard.try(function()
      return finish(self, message, { n = 1, self.ex_handler(err, message.value) })
    end)
    if ok and is_stored then
      counts.done = counts.done + 1
      return true
    end
    if ok then
      err, trace = why, nil
    else
      guard.raise_cancelled(is_stored)
      err, trace = is_stored, trace or why
    end
  end
  local keeper = self.worker.keeper
  if not bury(self, call, err, trace) then
    keeper:back(message, patience.starts_again)
    return false
  end
  internal.report(err, trace, ("message %d of %s, given up"):format(message.sequence, keeper.from))
  keeper:drop(message)
  counts.given_up = counts.given_up + 1
  return true
end

local messages = {}

---@param opts { name: string, f: function, has_results: boolean, ex_handler?: function, has_letters: boolean,
---limits: runnel.queue.Limits }
---@return runnel.queue.MessageTask
function messages.task(opts) return setmetatable(opts, Task) end

return messages
