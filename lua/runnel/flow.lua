---flow: a pipeline as a graph that is built, paused, fed, repaired and drained while it runs.
---
---    local flow = require "runnel.flow"
---    local f = flow("ingest", {
---      files = { from = { "a.csv", "b.csv" } },
---      lines = { step = each_line },
---      parse = parse,
---      save  = { step = save, init = open, close = close },
---      bad   = function(e) log(e.stage, e.value, e.error) end,
---      "files > lines > parse > save",
---      "*.error > bad",
---    })
---    f:wait()
---
---A stage is n workers of runnel.workers.workers, which take from a channel. The stages before it put on that channel.

local io = io
local core = require "runnel.core"
local change = require "runnel.flow.change"
local check = require "runnel.internal.check"
local edges = require "runnel.flow.edges"
local ending = require "runnel.flow.flow_ending"
local graph = require "runnel.flow.topology"
local guard = require "runnel.internal.guard"
local living = require "runnel.flow.flow_living"
local stats = require "runnel.flow.flow_stats"
local sign = require "runnel.internal.sign"
local signals = require "runnel.flow.flow_signals"
local term = require "runnel.internal.sigterm"
local timed = require "runnel.flow.flow_timed"
local worker = require "runnel.flow.flow_worker"
local internal = core.internal

local chan, offer, hide, raise = core.chan, core.methods.offer, internal.trace.hide, internal.raise

-- How many values a tap keeps.
local TAPPED = 100

---@class runnel.Flow
---@field name string
---@field package stages runnel.flow.Stage[] in the order in which the edges name them
---@field package by_name table<string, runnel.flow.Stage>
---@field package state "new"|"running"|"draining"|"ended"
---@field package living integer how many stages have not ended
---@field package over runnel.Channel<any> closes when all have; with an error if memory has run out as one ended
---@field package left runnel.FlowLeft[]
---@field package draining boolean
---@field package stopped boolean
---@field package told runnel.FlowError|nil the error of a stage that a wait has raised last
---@field package reported table<runnel.FlowError, true> the errors of stages that were reported
---@field package waits integer how many go blocks are in `wait`
---@field package news runnel.Channel<any> closes, and is made anew, when a stage holds
---@field package stats_at number|nil when `stats` was called last
---@field package made string|nil the file and line; nil until it is complete
---@field number integer|nil names it on the monitor's page, once it was started
---@field package forget? fun() SIGTERM does not drain it any more
local Flow = {}
Flow.__index = Flow
Flow.__sign = "f"
Flow.__name = "runnel.flow"

-- ---- making a flow ----

local NEVER_STARTED = "runnel: the flow %s made at %s was never started: f:start(), or f:wait(), which starts it\n"

function Flow:__gc()
  if self.state == "new" and self.made then
    io.stderr:write((NEVER_STARTED:format(self.name == self.made and "" or self.name, self.made):gsub("  +", " ")))
  end
end

local function new(name, given, made)
  local self = setmetatable({
    name = name, stages = {}, by_name = {}, state = "new", living = 0, over = hide(chan()), left = ending.left(),
    draining = false, stopped = false, told = nil, reported = setmetatable({}, { __mode = "k" }), waits = 0,
    news = hide(chan()), pinged = nil, number = nil, made = nil,
  }, Flow)
  change.fill(self, given)
  self.made = made
  return self
end

-- ---- what stages tell the flow ----

---Keeps a value that the flow is not going to finish.
---@package
---@param stage runnel.flow.Stage
---@param entry runnel.FlowLeft
function Flow:lose(stage, entry)
  if worker.value(entry.value) == nil then return end
  entry.stage = stage.name
  self.left[#self.left + 1] = entry
end

-- Reports the errors of stages that hold, each once; unless somebody waits for the flow, or a wait has raised the error
-- of a stage that still holds, which speaks for all.
local function report_holds(self)
  if self.waits > 0 then return end
  for _, stage in ipairs(self.stages) do
    if stage.held and stage.held == self.told then return end
  end
  for _, stage in ipairs(self.stages) do
    local record = stage.held
    if record and not self.reported[record] then
      self.reported[record] = true
      internal.report(record.error, record.traceback, ("stage %s of flow %s, which holds its value"):format(stage.name,
        self.name))
    end
  end
end

---A stage holds: wakes the waits for the flow; without any, the error is reported.
---@package
function Flow:stage_holds()
  report_holds(self)
  local news = self.news
  self.news = hide(chan())
  news:close()
end

---@package
---@param stage runnel.flow.Stage
function Flow:stage_ended(stage)
  if not stage.counted then self.living = self.living - 1 end
  stage.counted = true
  if self.living > 0 then return end
  self.state = "ended"
  living.remove(self)
  if self.forget then self.forget() end
  self.over:close()
end

local function held(self)
  for _, stage in ipairs(self.stages) do
    if stage.held then return stage.held end
  end
end

-- ---- the whole ----

local function drain_at_end(self)
  ending.begin(self)
  internal.join(self.over)
end

---Starts the workers; from now on SIGTERM drains the flow.
---@return runnel.Flow self
function Flow:start()
  sign.own(self, "f", "start")
  if self.state ~= "new" then raise(("start: flow %s was started before"):format(self.name)) end
  self.state = "running"
  living.add(self)
  self.forget = term.add(self, "flow", { order = term.FLOWS, name = self.name, drain = drain_at_end, done = self.over })
  for _, stage in ipairs(self.stages) do stage.pool:start() end
  return self
end

local Waiting = { __close = function(one) one.flow.waits = one.flow.waits - 1 end }

local function wait(self)
  self.waits = self.waits + 1
  local waiting <close> = setmetatable({ flow = self }, Waiting) -- luacheck: ignore 211
  while not self.over:closed() do
    local record = held(self)
    if record then
      self.told = record
      error(record, 0)
    end
    core.alts { self.over, self.news }
  end
end

---Waits until the flow has ended; starts it, if it has not been started. Raises the error of a stage that holds. In the
---main program, Ctrl-C drains the flow meanwhile, as SIGTERM does; a second signal ends the program.
---@return boolean done true: no value was left
---@return string|runnel.TimedOut|nil err else: what was left, as a text
---@return runnel.FlowLeft[]? left then
function Flow:wait()
  sign.own(self, "f", "wait")
  if self.state == "new" then self:start() end
  signals.wait(function() wait(self) end, function() ending.begin(self) end)
  return ending.results(self)
end

---A channel that closes when the flow has ended.
---@return runnel.Channel<any> done
function Flow:done()
  sign.own(self, "f", "done")
  return self.over:done()
end

---Ends the flow in good order: sources are cancelled where they wait, after a put that has begun; nothing can be
---injected into stages with `input = true`; all other values go through. Sources that hold end. Other stages that hold
---or are paused stay so: resume them, or give a time.
---@param timeout? number ms; after this time the flow is stopped; default never
---@return boolean done true: no value was left
---@return string|runnel.TimedOut|nil err else: what was left, as a text; rn.is_timeout is true if the time was up
---@return runnel.FlowLeft[]? left then
function Flow:drain(timeout)
  sign.own(self, "f", "drain")
  if timeout ~= nil then check.ms(timeout, 0, "drain: timeout") end
  if self.state == "new" then raise(("drain: flow %s was not started"):format(self.name)) end
  return ending.drain(self, timeout)
end

---Ends the flow at once: running calls are cancelled where they wait, and no more values are taken. Then the states are
---flushed and stopped.
---@return runnel.FlowLeft[] left the values that it had not done with
function Flow:stop()
  sign.own(self, "f", "stop")
  if self.state == "new" then
    self.state = "ended"
    self.over:close()
  end
  if self.state == "ended" then return self.left end
  return ending.stop(self)
end

function Flow:__close() self:stop() end

-- ---- stages ----

---Pauses a stage, or all: begun calls finish, nothing else is taken, and a source waits in its next put.
---@param name? string
---@return runnel.Flow self
function Flow:pause(name)
  sign.own(self, "f", "pause")
  if name ~= nil then
    graph.stage(self, name, "pause"):pause()
  else
    for _, stage in ipairs(self.stages) do stage:pause() end
  end
  return self
end

---Ends the pause of a stage, or of all. Values that were held are tried again.
---@param name? string
---@return runnel.Flow self
function Flow:resume(name)
  sign.own(self, "f", "resume")
  if name ~= nil then
    graph.stage(self, name, "resume"):resume()
  else
    for _, stage in ipairs(self.stages) do stage:resume() end
  end
  -- Another stage may hold of which nobody has heard. The program gets the time to wait for the flow.
  if held(self) then
    guard.go(guard.nothing, nil, function()
      core.yield()
      report_holds(self)
    end)
  end
  return self
end

---Replaces the function of a stage, from the next call on, also for values that are tried again.
---@param name string
---@param f any a function, which is a step where it replaces one; or a table with `step` or a function
---@param migrate? fun(state: any): any makes the new state of each worker; by default it stays
---@return runnel.Flow self
function Flow:replace(name, f, migrate)
  sign.own(self, "f", "replace")
  local stage = graph.stage(self, name, "replace")
  if migrate ~= nil then check.callable(migrate, "replace: migrate") end
  stage:replace(f, migrate)
  return self
end

---Changes the number of a stage's workers. Surplus workers end after their call.
---@param name string
---@param n integer
---@return runnel.Flow self
function Flow:workers(name, n)
  sign.own(self, "f", "workers")
  local stage = graph.stage(self, name, "workers")
  check.integer(n, 1, "workers: n")
  if n > 1 and (stage.is_source or stage.is_timed or stage.channel) then
    raise(("workers: stage %s has one worker"):format(name))
  end
  if stage.ended then raise(("workers: stage %s has ended"):format(name)) end
  stage.pool:resize(n)
  return self
end

-- ---- values ----

-- Injects behind an output.
local function inject_behind(stage, output, values)
  graph.check_output(stage, output, "inject")
  local list = stage.outs[output]
  if not list then raise(("inject: nothing leads from %s.%s"):format(stage.name, output)) end
  for _, edge in ipairs(list) do
    if edge.to then edge.to:check_open "inject" end
  end
  for _, value in ipairs(values) do
    for _, edge in ipairs(list) do
      if edge.to then edge.to:receive(value, true) else offer(edge.tap, value) end
    end
  end
end

---Gives values to a stage before its waiting ones; with "stage.output", to the stages behind that output. Never waits:
---the stage may be full, paused, or hold.
---@param place string
---@param ... any
---@return runnel.Flow self
function Flow:inject(place, ...)
  sign.own(self, "f", "inject")
  local name, output = edges.place(place, "inject")
  local stage = graph.stage(self, name, "inject")
  local values = table.pack(...)
  for i = 1, values.n do
    if values[i] == nil then raise "inject: nil cannot be a value" end
  end
  if output then
    inject_behind(stage, output, values)
  else
    stage:check_open "inject"
    if stage.spec.kind == "source" then
      raise(('inject: %s is a source with a function; inject behind it: "%s.out"'):format(name, name))
    end
    for _, value in ipairs(values) do stage:receive(value, true) end
  end
  return self
end

---Shows the puts of a stage: a channel of copies, from which the oldest are dropped if they are not taken. Closing it
---ends the tap; it closes when the stage ends.
---@param place string a stage, or "stage.output"
---@param n? integer how many values it keeps, default 100
---@return runnel.Channel<any> tap
function Flow:tap(place, n)
  sign.own(self, "f", "tap")
  local name, output = edges.place(place, "tap")
  local stage = graph.stage(self, name, "tap")
  output = output or "out"
  graph.check_output(stage, output, "tap")
  if n ~= nil then check.integer(n, 1, "tap: n") end
  local ch = chan(core.sliding_buffer(n or TAPPED)):name(("tap of %s.%s"):format(self.name, place))
  if stage.ended then
    ch:close()
    return ch
  end
  local edge = { tap = ch }
  graph.add(stage, output, edge)
  internal.on_close(ch, function() graph.remove(stage, output, edge) end)
  return ch
end

---Adds edges, written as in flow(...), while the flow runs.
---@param text string
---@return runnel.Flow self
function Flow:connect(text)
  sign.own(self, "f", "connect")
  change.connect(self, text)
  return self
end

---Removes edges. A stage that loses its last input ends. Values put on an output without an edge are dropped.
---@param text string
---@return runnel.Flow self
function Flow:disconnect(text)
  sign.own(self, "f", "disconnect")
  local list, seen = {}, {}
  for _, one in ipairs(edges.parse(text, "disconnect")) do
    local from, to = graph.stage(self, one.from, "disconnect"), graph.stage(self, one.to, "disconnect")
    local edge = graph.find(from, one.output, to)
    if not edge or seen[edge] then raise(("disconnect: %q: that edge is not there"):format(text)) end
    seen[edge] = true
    list[#list + 1] = { from, one.output, edge }
  end
  for _, found in ipairs(list) do
    graph.remove(table.unpack(found))
    if not found[1].ended then graph.unfeed(found[3].to, found[1]) end
  end
  return self
end

---Adds stages and edges, written as in flow(...), also while the flow runs. An edge may lead from and to stages that
---are there. Either all are added, or an error is raised and none is.
---@param given table stages by name, and edges
---@return runnel.Flow self
function Flow:add(given)
  sign.own(self, "f", "add")
  if type(given) ~= "table" then
    raise(("add: a table of stages and edges expected, got %s"):format(check.article(given)))
  end
  change.add(self, given)
  return self
end

---Removes a stage and its edges while the flow runs. Nothing more comes to it; it finishes the values that it has, and
---then leaves the flow. A source is cancelled where it waits, after a put that has begun. Stages that it leads to need
---another input.
---@param name string
---@return runnel.Flow self
function Flow:remove(name)
  sign.own(self, "f", "remove")
  change.remove(self, name)
  return self
end

---The state of the flow, by stage: a list that prints as a table.
---@return runnel.FlowStats
function Flow:stats()
  sign.own(self, "f", "stats")
  return stats.stats(self)
end

function Flow:__tostring() return tostring(self:stats()) end

-- ---- the module ----

---@class runnel.flow
---@overload fun(name: string, stages: table): runnel.Flow
local flow = { batch = timed.batch, rate = timed.rate, debounce = timed.debounce }

return setmetatable(flow, {
  __call = function(_, name, given)
    local _, origin = core.internal.origin "flow"
    local made = origin and origin:match "^%S+ at (.*)$" or "flow"
    if type(name) == "table" and given == nil then name, given = made, name end
    if type(name) ~= "string" then
      raise(('flow: a name expected, got %s; call it as flow(name, { stages..., "a > b" })')
        :format(check.article(name)))
    end
    if type(given) ~= "table" then
      raise(("flow: a table of stages and edges expected, got %s"):format(check.article(given)))
    end
    return new(name, given, made)
  end,
})
