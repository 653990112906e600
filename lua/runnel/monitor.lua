---The monitor: a page in the browser that shows the program while it runs, with a graph of its go blocks and channels,
---tables, rates and hints.
---
---    local monitor = require "runnel.monitor"
---    local m = assert(monitor.listen())
---    print(m.url)
---
---`runnel --monitor script.lua` does the same for a script.
---
---A thread of its own serves the page, so it answers while Lua computes. While a page is open, that thread asks the
---scheduler for a snapshot twice a second. The monitor does not keep the program running.

local package, require = package, require
local check = require "runnel.internal.check"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"

local internal = core.internal
local raise = internal.raise

local server_module = need("runnel.monitor.core")

---@class runnel.monitor
local monitor = {}

---@class runnel.Monitor
---@field url string the page's URL, with the token that is needed to see it
---@field port integer the port
---@field package questions integer about runs that are being answered
---@field package commands table<string, fun(self, ...): boolean, ...> the page's, by their names
local Monitor = {}
Monitor.__index = Monitor
Monitor.__sign = "m"
Monitor.__name = "runnel.Monitor"

-- The settings of `show`: how the page shows values in channels.
local SHOW = { types = short.kind, values = short.value }

-- ---- commands of the page ----

-- Each gets the page's arguments. It returns whether it has succeeded, and the lines of its result.
local commands = {}

function commands.kill(_, id)
  local block = internal.find_go(math.tointeger(tonumber(id)) or 0)
  if not block then return false, ("there is no go block #%s any more"):format(id) end
  if not core.cancel(block, "killed from the monitor's page") then return false, "it has ended already" end
  return true, ("go block #%s is cancelled"):format(id)
end

-- The value of a page's text; or nil, and the problem.
local function read_value(kind, text)
  if kind == "string" then return text end
  if kind == "JSON" then return require("runnel.json").decode(text) end
  local value
  if kind == "number" then value = tonumber(text)
  elseif kind == "boolean" and text == "true" then value = true
  elseif kind == "boolean" and text == "false" then value = false end
  if value == nil then return nil, ("not a %s: %s"):format(kind, text) end
  return value
end

local function find_chan(id) return internal.find_chan(math.tointeger(tonumber(id)) or 0) end

function commands.inject(_, id, kind, text)
  local ch = find_chan(id)
  if not ch then return false, ("there is no channel #%s any more"):format(id) end
  local value, wrong = read_value(kind, text)
  if value == nil then return false, wrong end
  local done = ch:offer(value)
  if done then return true, "the value is put" end
  if done == false then return false, "the channel is closed" end
  ch:put_async(value)
  return true, "the channel is full: the put waits"
end

function commands.values(self, id)
  local ch = find_chan(id)
  if not ch then return false, ("there is no channel #%s any more"):format(id) end
  local list = internal.peek(ch, 20)
  local texts = {}
  for i, value in ipairs(list) do
    local ok, text = pcall(self.show, value)
    texts[i] = ok and type(text) == "string" and text or "?"
  end
  return true, table.unpack(texts)
end

-- The most records for a page, and how many ms after the last request the ring is kept.
local RECORDS, KEPT = 1500, 5000

local LEAKS <const> = 200 -- rows

-- The newest records of the trace's ring, as one text: the names of go blocks and channels, as "LABEL NAME" lines; an
-- empty line; and the records in their order, as "KIND GO CHAN WHAT LABEL US SEQ" lines, where US is microseconds since
-- the record before. Begins to record with the first call.
function commands.timeline(self)
  local trace = internal.trace
  self.asked = core.now()
  if not self.records then
    trace.hold("r", 16384)
    self.records = true
  end
  local _, next_record = trace.ring()
  local names, lines, last = {}, {}, nil
  for n = math.max(0, next_record - RECORDS), next_record - 1 do
    local kind, time, go, ch, seq, what, label = trace.read(n)
    if kind then
      names[label] = true
      local us = (time - (last or time)) // 1000
      last = last and last + us * 1000 or time
      lines[#lines + 1] = ("%d %d %d %d %d %d %d"):format(kind, go, ch, what, label, us, seq)
    end
  end
  local head = {}
  for label in pairs(names) do head[#head + 1] = label .. " " .. trace.label(label):gsub("%c", "?") end
  return true, table.concat(head, "\n") .. "\n\n" .. table.concat(lines, "\n")
end

-- The running calls without their values, which may be secret.
local function without_values(queues)
  for _, queue in ipairs(queues) do
    for _, worker in ipairs(queue.workers) do
      for _, call in ipairs(worker.running) do call.value = "a call" end
      if worker.failure then worker.failure.value = "a message" end
    end
  end
  return queues
end

local function looked(self, err)
  self.looks = false
  if err ~= nil then self.queues = internal.error_text(err) end
end

-- The tables of `runnel queues`, of the program's server and of its store, from the query of the page's last request:
-- the answer takes a while.
function commands.queues(self)
  local owners = package.loaded["runnel.queue.owners"]
  local open = owners and owners.open() or {}
  if #open == 0 then return false, "this program has no connection to NATS and no store" end
  if not self.looks then
    self.looks = true
    guard.go(looked, self, function()
      core.rename "the monitor's look at queues"
      self.queues = table.concat(owners.lines(open, self.show ~= short.value and without_values or nil), "\n")
      self.looks = false
    end)
  end
  return true, self.queues or "looking"
end

-- How many questions about runs are answered at a time.
local QUESTIONS <const> = 8

-- The runs of the program's stores. The answer comes later, with the number of the command.
local function ask_runs(self, number, _, _, text)
  local owners, stores = package.loaded["runnel.queue.owners"], {}
  for _, owner in ipairs(owners and owners.open() or {}) do
    if owner.runs then stores[#stores + 1] = owner end
  end
  local server, is_answered = self.server, false
  local function answer(...)
    if is_answered then return end
    is_answered, self.questions = true, self.questions - 1
    if self.server == server then server_module.result(server, number, ...) end
  end
  self.questions = self.questions + 1
  if #stores == 0 then return answer(false, "this program has no store open") end
  if self.questions > QUESTIONS then return answer(false, "the store is slow: it has not answered yet") end
  guard.go(function(_, err) answer(false, internal.error_text(err)) end, nil, function()
    core.rename "the monitor's look at runs"
    local json, err = require("runnel.store.runs.run_page").answer(stores, text, self.show == short.value)
    answer(json ~= nil, json or tostring(err))
  end)
end

-- The state of the program's flows. Without the module there are none.
function commands.flows()
  if not package.loaded["runnel.flow"] then return true, "0\t0" end
  return true, require("runnel.flow.flow_view").flows()
end

-- The leaks that are known: how many they are, how many rows, and a row for each of the first ones, whose cells are
-- separated by tabs.
local function leaks_of(list)
  local total, rows = 0, {}
  for i, leak in ipairs(list) do
    total = total + leak.count
    local cells = { leak.count, leak.started, leak.where, leak.operation, leak.example }
    for k, cell in ipairs(cells) do cells[k] = tostring(cell):gsub("%c", " ") end
    if i <= LEAKS then rows[i] = table.concat(cells, "\t") end
  end
  return true, ("%d\t%d"):format(total, #list), table.unpack(rows)
end

function commands.leaks() return leaks_of(require("runnel.rn.leaks").leaks()) end

-- Collects all garbage first.
function commands.collect() return leaks_of(require("runnel.rn.leaks").leaks(true)) end

-- Records a profile of some seconds, or says what there is.
function commands.profile(self, known, _, seconds)
  self.profile = self.profile or require("runnel.profile.live").new()
  return self.profile:answer(known, seconds)
end

-- The buttons of flows and their stages.
for _, what in ipairs { "pause", "resume", "drain", "inject" } do
  commands["flow_" .. what] = function(_, id, kind, text)
    local value, wrong
    if what == "inject" then
      value, wrong = read_value(kind, text)
      if value == nil then return false, wrong end
    end
    return require("runnel.flow.flow_view").run(what, id, value)
  end
end

-- Ends the recording for the timeline, if there is one.
local function release_ring(self)
  if not self.records then return end
  internal.trace.release "r"
  self.records = nil
end

local function report(self, number, ran, done, ...)
  if ran then server_module.result(self.server, number, done, ...)
  else server_module.result(self.server, number, false, internal.error_text(done)) end
end

-- The read-only commands.
local READS = { values = true, timeline = true, queues = true, flows = true, leaks = true, profile = true }

local function run_command(self, number, what, ...)
  if what == "runs" then ask_runs(self, number, ...)
  elseif self.control or READS[what] then report(self, number, pcall(self.commands[what], self, ...))
  else report(self, number, true, false, "commands are off: start the monitor with control = true") end
end

-- ---- the monitor ----

-- Called by the scheduler when the server asks for it.
local function serve(self)
  local function run(number, ...)
    if number then run_command(self, number, ...) end
    return number
  end
  while run(server_module.command(self.server)) do end
  if self.records and core.now() - self.asked > KEPT then release_ring(self) end
  local is_profiled = self.profile and self.profile:look()
  if self.records or is_profiled then server_module.remind(self.server) end
  local snapshot = server_module.filling(self.server)
  if not snapshot then return end
  if internal.snapshot(snapshot) then server_module.publish(self.server)
  else server_module.ask(self.server) end
end

local OPTIONS = { control = true, show = true, program = true }

---Starts to serve the page at 127.0.0.1. A Lua state has one monitor at a time.
---@param port? integer the port; 0, the default, is any that is free
---@param opts? { control?: boolean, show?: "types"|"values"|fun(v: any): string, program?: string }
---`control`: the page can cancel go blocks, put values on channels, and pause, resume, feed and
---drain flows, default false. `show`: what it shows of the
---values in channels: "types", the default, only their types and sizes; "values", their contents, shortened; or a
---function that returns a text. `program`: the page's title, by default the script's name
---@return runnel.Monitor? m nil if the port cannot be used, or no descriptor is free
---@return string? why
function monitor.listen(port, opts)
  opts = opts or {}
  if port ~= nil and (math.type(port) ~= "integer" or port < 0 or port > 65535) then
    raise(("listen: the port must be an integer from 0 to 65535, got %s"):format(check.describe(port)))
  end
  check.table(opts, "listen: opts")
  for key in pairs(opts) do
    if not OPTIONS[key] then raise("listen: " .. check.unknown(key, OPTIONS)) end
  end
  if type(opts.control or false) ~= "boolean" then raise("listen: control: a boolean expected") end
  local show = SHOW[opts.show or "types"] or opts.show
  if not check.is_callable(show) then
    raise(('listen: show: "types", "values" or a function expected, got %s'):format(check.describe(opts.show)))
  end
  local program = opts.program or (type(arg) == "table" and arg[0]) or "program"
  if type(program) ~= "string" then raise("listen: program: a string expected") end
  check.no_zero(program, "listen: program")
  local self = { control = opts.control or false, show = show, commands = commands, questions = 0 }
  setmetatable(self, Monitor)
  internal.trace.hold "le" -- first: the watch shows what runs
  local watched, watch = pcall(internal.watch, function() serve(self) end)
  if not watched then
    internal.trace.release "le"
    local why = tostring(watch)
    if why:find("watched already", 1, true) then raise("listen: this program has a monitor already; close it first") end
    return nil, "monitor: " .. why
  end
  local server, url = server_module.start(watch, port or 0, self.control, program)
  if not server then
    internal.watch(nil)
    internal.trace.release "le"
    return nil, "monitor: " .. url
  end
  self.server, self.url, self.port = server, url, math.tointeger(tonumber(url:match ":(%d+)/"))
  server_module.server = server -- for the host, which knows what ends the program (lua/runnel/host/monitor_page.lua)
  return self
end

-- Open pages show `why`.
local function finish(self, why)
  if not self.server then return end
  internal.watch(nil)
  internal.trace.release "le"
  release_ring(self)
  if self.profile then self.profile:stop() end
  server_module.stop(self.server, why)
  self.server, server_module.server = nil, nil
end

---Ends the monitor. Open pages show that the program has closed it.
function Monitor:close()
  sign.own(self, "m", "close")
  finish(self, "the program has closed its monitor")
end

function Monitor.__close(self, err)
  finish(self, err == nil and "the program has closed its monitor"
    or "an error has closed the program's monitor: " .. internal.error_text(err))
end

return monitor
