---What the function of a run gets: sleeps, waits and other steps of the run.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local sign = require "runnel.internal.sign"
local table_of = require "runnel.store.runs.run_table"
local timed_out = require "runnel.internal.timed_out"
local waits = require "runnel.store.runs.run_waits"
local raise = core.internal.raise

local random = core.internal.seed -- seeded by a simulation, unlike math.random

---A run, for its function.
---@class runnel.store.RunContext
---@field key string|number its id
---@field name string
---@field package steps runnel.store.RunSteps
local Run = { __name = "run", __sign = "run" }
Run.__index = Run

function Run:__tostring() return "run: " .. self.steps.scope end

---Sleeps, as a step: the end of the sleep is stored, so a restart of the program does not prolong it. A run that sleeps
---for more than a minute leaves the memory of the process, and is continued by repeating its function, which gets the
---results of its steps from the file.
---@param ms number
function Run:sleep(ms)
  sign.own(self, "run", "sleep")
  check.ms(ms, 0, "sleep: ms")
  waits.sleep(self.steps, ms)
end

local WAIT <const> = { timeout = check.kinds.ms(0) }

-- What a run waits for, as a list, and the key of the step.
local function check_ports(what)
  if type(what) ~= "table" or core.is_chan(what) then
    table_of.check_signal(what, "wait")
    return { what }, what
  end
  local key = {}
  for i, port in ipairs(what) do
    if not core.is_chan(port) then table_of.check_signal(port, "wait") end
    key[i] = core.is_chan(port) and "a channel" or port
  end
  for at in pairs(what) do
    if not key[at] then
      raise(("wait: %s is no index of the list of names of signals and of channels (options are a table of their own)")
        :format(check.describe(at)))
    end
  end
  if not key[1] then raise("wait: a list of names of signals and of channels expected, got an empty table") end
  return table.move(what, 1, #key, 1, {}), key
end

---Waits for a signal (r:signal), as a step; or, with a list of names of signals and of channels, for the first of them.
---Signals are kept until a run takes them, also those that come before it waits. Which one came is stored.
---
---    local value, which = run:wait({ "approved", "rejected", rn.go(ask, order) }, { timeout = 7 * DAY })
---@param what string|(string|runnel.Channel<any>)[]
---@param opts? { timeout?: number } ms
---@return any value of the signal, or from the channel; nil if there is none in time
---@return any which of the list; or with nil the error: a runnel.TimedOut
function Run:wait(what, opts)
  sign.own(self, "run", "wait")
  local ports, key = check_ports(what)
  check.options(opts, WAIT, "wait")
  local ms = opts and opts.timeout
  local value = waits.wait(self.steps, key, ports, ms)
  if value ~= nil and type(key) == "table" then return value[2], ports[value[1]] end
  if value ~= nil then return value end
  return nil, timed_out.new(("wait: nothing has come of %s within %s ms"):format(self.steps.at.step,
    decimal.text(ms or 0)))
end

---The time of the store, in ms since 1970, as a step: it stays the same each time that the run is continued.
---@return integer ms
function Run:now()
  sign.own(self, "run", "now")
  return self.steps:own_value("now", function() return self.steps.work.store:time() end)
end

---A number from 0 up to 1, without it, as a step.
---@return number
function Run:random()
  sign.own(self, "run", "random")
  return self.steps:own_value("random", function() return random() / 0x100000000 end)
end

---An id that nothing else has, as a step: 32 hexadecimal digits.
---@return string
function Run:id()
  sign.own(self, "run", "id")
  return self.steps:own_value("id", function()
    return ("%08x%08x%08x%08x"):format(random(), random(), random(), random())
  end)
end

---Whether this run came to this place when the program had the change of that name: true, if the run had not passed the
---place before. The answer is stored, and stays the same for the run.
---
---    if run:version "two mails" then mail(order.shop, "an order") end
---@param name string
---@return boolean
function Run:version(name)
  sign.own(self, "run", "version")
  check.string(name, "the name of a change", "version")
  if name == "" or name:find "[%c%[]" then raise("version: a name without [ and control characters expected") end
  return self.steps:version(name)
end

---Stores a text about the run, which r:state and runs:list show. It is no step.
---@param text string
function Run:note(text)
  sign.own(self, "run", "note")
  check.string(text, "a text", "note")
  if self.steps.row.note == text or self.steps.is_check then return end
  self.steps.row.note = text
  table_of.must(self.steps, "note", "exec", "update runnel_run set note = ? where name = ? and id = ?", text, self.name,
    self.steps.id)
end

local context = {}

---@param steps runnel.store.RunSteps
---@return runnel.store.RunContext
function context.new(steps)
  return setmetatable({ key = steps.row.id, name = steps.work.name, steps = steps }, Run)
end

return context
