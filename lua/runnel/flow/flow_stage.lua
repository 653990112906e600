---A running stage of a flow.

local core = require "runnel.core"
local cycle = require "runnel.flow.cycle"
local deadlock = require "runnel.internal.errors.deadlock"
local graph = require "runnel.flow.topology"
local guard = require "runnel.internal.guard"
local putting = require "runnel.flow.put"
local specs = require "runnel.flow.spec"
local worker = require "runnel.flow.flow_worker"
local workers = require "runnel.workers.workers"
local internal = core.internal

local chan, sleep, cancel, put = core.chan, core.sleep, core.cancel, internal.moving.put
local poll, raise = core.methods.poll, internal.raise

---The reason that cancels unneeded go blocks.
local RETIRED = setmetatable({}, { __tostring = function() return "the flow ends" end })

-- In order: how many results per worker may wait for a slow one before them.
local AHEAD = 16

---@class runnel.flow.Stage
---@field name string
---@field flow runnel.Flow
---@field spec runnel.flow.Spec
---@field pool runnel.internal.Pool
---@field input runnel.Channel<any>|nil the channel that it takes from; nil: a source that has none
---@field owns_input boolean the flow has made that channel
---@field channel runnel.Channel<any>|nil an output: the program's channel
---@field is_source boolean nothing leads to it
---@field is_input boolean fed by inject
---@field is_step boolean
---@field is_timed boolean its init gets the stage, and it has one worker
---@field outs table<string, runnel.flow.Edge[]> the edges by output, if it has any; the lists are never changed
---@field outputs table<string|integer, string|boolean> the outputs that it may have, as a list and as a set
---@field feeders integer how many lead to it and have not ended, unless it is in a cycle
---@field cycle runnel.flow.Cycle|nil
---@field n integer
---@field init function|nil
---@field flush function|nil
---@field stop function|nil
---@field is_dirty boolean a call has come since the states were flushed
---@field quiet runnel.Channel<any>|nil where workers wait until no other one has a job
---@field paused boolean
---@field held runnel.FlowError|nil the first error for which there was no edge, until it is resumed
---@field closed boolean its input has ended
---@field ended boolean
---@field counted boolean the flow knows that it has ended
---@field is_leaving boolean it is being removed
---@field on_end function|nil is called when it has ended
---@field errors integer
---@field timer runnel.Channel<any>|false
local Stage = {}
Stage.__index = Stage

local stage = { RETIRED = RETIRED }

-- ---- making ----

-- The put function of a channel that is an output.
local function put_out(name, ch)
  return function(value)
    if not put(ch, value) then error(("the channel of stage %s is closed"):format(name), 0) end
  end
end

local function identity(value) return value end

-- The channel or iterator that the workers take from; nil for a source with a function.
local function input_of(self, spec)
  if spec.kind == "source" then return nil end
  if spec.kind == "from" then
    if core.is_chan(spec.from) then self.input = spec.from end
    return spec.from
  end
  if spec.kind == "channel" and self.is_source then
    self.input = spec.channel
  else
    self.input, self.owns_input = chan(spec.buffer > 0 and spec.buffer or nil):name(self.flow.name .. "." .. self.name),
      true
    deadlock.private[self.input] = true
  end
  return self.input
end

local function job_of(self, spec)
  if self.channel then return put_out(self.name, self.channel), false end
  local f, is_step = spec.f or identity, spec.kind == "step"
  if not self.flush then return f, is_step end
  return worker.job_with_calls(self, f, is_step), true
end

---Makes a stage without starting it.
---@param flow runnel.Flow
---@param name string
---@param spec runnel.flow.Spec
---@param is_led boolean an edge leads to it
---@return runnel.flow.Stage
function stage.new(flow, name, spec, is_led)
  local is_channel = spec.kind == "channel"
  return setmetatable({
    name = name, flow = flow, spec = spec, pool = nil, input = nil, owns_input = false,
    channel = is_channel and is_led and spec.channel or nil,
    is_source = spec.kind == "source" or spec.kind == "from" or is_channel and not is_led,
    is_input = spec.input or false, is_step = spec.kind == "step", is_timed = spec.is_timed ~= nil, outs = {},
    outputs = spec.outputs, feeders = 0,
    cycle = nil, n = spec.n, init = spec.init, flush = spec.flush, stop = spec.close, is_dirty = true, quiet = nil,
    paused = false, held = nil, closed = false, ended = false, is_leaving = false, counted = false, errors = 0,
    timer = false,
  }, Stage)
end

---Makes the workers without starting them. The edges must exist.
function Stage:prepare()
  local spec = self.spec
  local from = input_of(self, spec)
  local job, is_step = job_of(self, spec)
  local title = self.flow.name .. "." .. self.name
  local group = self.cycle
  self.pool = workers.new {
    what = title, timed = "flow: a call of " .. title, n = self.n, from = from, to = false, job = job,
    is_step = is_step, closes = self.flow.over,
    window = spec.ordered ~= false and (self.n < math.maxinteger // AHEAD and self.n * AHEAD or math.maxinteger),
    tries = spec.tries, retry = spec.backoff, timeout = spec.timeout, key = spec.key,
    main = function(one, run) worker.main(self, one, run) end,
    emit = function(value, output, one, is_helper) putting.emit(self, value, output, one, is_helper) end,
    failed = function(one, failure) return worker.failed(self, one, failure) end,
    done = group and function() cycle.leave(group) end or nil,
    ended = function() self:finish() end,
  }
  self:route()
end

-- ---- values ----

---Sets where the workers put: on the channel of the only edge, if nothing must be counted or checked; else by `emit`.
function Stage:route()
  if not self.pool then return end
  local edges, flow = self.outs.out, self.flow
  local to = edges and not edges[2] and not edges[1].grows and edges[1].to
  local is_plain = to and not to.cycle and not (self.is_source and (self.paused or flow.draining or flow.stopped))
  self.pool:set_output(is_plain and to.input or false)
end

---Gives a stage a value without waiting, before the values on its input.
---@param value any
---@param is_first? boolean also before what it was given in this way without `is_first`
function Stage:receive(value, is_first)
  if self.cycle then cycle.enter(self.cycle) end
  if is_first then self.pool:first(value) else self.pool:grow(value) end
end

---Lets a worker call f(put) before it takes another value.
---@param f fun(put: runnel.FlowPut): any, string?
function Stage:call(f) self:receive(worker.call(f), true) end

---Lets a worker call f(put) after `ms`, instead of what was to be called.
---@param ms? number nil: nothing is called any more
---@param f? function
function Stage:call_after(ms, f)
  local timer = self.timer
  self.timer = false
  if timer then cancel(timer, RETIRED) end
  if not ms then return end
  self.timer = guard.go(guard.nothing, nil, function()
    sleep(ms)
    self.timer = false
    self:call(f --[[@as function]])
  end)
end

---Flushes the states of the workers, if a call has come since they were flushed: for a cycle that may end.
---@return boolean begun
function Stage:flush_again()
  if not (self.flush and self.is_dirty) then return false end
  self.is_dirty = false
  for _, one in ipairs(self.pool.workers) do
    self:call(function(put_value) return self.flush(one.state, put_value) end)
  end
  return true
end

---Raises if the stage accepts no more values.
---@param what string
function Stage:check_open(what)
  if self.ended or self.closed then
    raise(("%s: the input of stage %s has ended"):format(what, self.name))
  end
end

---Replaces the function, and the workers' states by what `migrate` returns for them.
---@param given any
---@param migrate? fun(state: any): any
function Stage:replace(given, migrate)
  if self.is_source and self.spec.kind ~= "source" or self.channel then
    raise(("replace: stage %s has no function"):format(self.name))
  end
  local f, is_step = specs.replacement(self.name, given, self.is_step, self.spec.given)
  local states = {}
  if migrate then
    for i, one in ipairs(self.pool.workers) do states[i] = table.pack(migrate(one.state)) end
  end
  for i, one in ipairs(self.pool.workers) do
    if states[i] then one.state = states[i][1] end
  end
  self.is_step, self.spec.f = is_step, f
  self.spec.is_timed = specs.timed[given]
  if self.flush then
    self.pool:replace(worker.job_with_calls(self, f, is_step), true)
  else
    self.pool:replace(f, is_step)
  end
end

-- ---- pauses ----

---Begun steps finish; the stage takes nothing else.
function Stage:pause()
  if self.paused or self.ended then return end
  self.paused = true
  self.pool:pause()
  self:route()
end

---Ends the pause. Held values are tried again.
function Stage:resume()
  if not self.paused or self.ended then return end
  self.paused, self.held = false, nil
  self:route()
  self.pool:resume()
end

---Pauses because of an error without an edge; a worker holds the value.
---@param record runnel.FlowError
function Stage:hold(record)
  local is_first = not self.held
  self.held = self.held or record
  self:pause()
  if is_first then self.flow:stage_holds() end
end

-- ---- ends ----

---All its inputs have ended: takes the values that are on its channel, then ends.
function Stage:close_input()
  self.closed = true
  if self.owns_input then self.input:close() end
end

---Takes the values on its channel, also from waiting puts.
---@return any[]
function Stage:empty_input()
  local list = {}
  if self.owns_input then
    self.input:close()
    for value in poll, self.input do list[#list + 1] = value end
  end
  return list
end

-- All workers have ended. A second call does nothing: the engine repeats it if memory runs out.
function Stage:finish()
  self.ended, self.closed = true, true
  self:call_after(nil)
  for _, edges in pairs(self.outs) do
    for _, edge in ipairs(edges) do
      if edge.to then graph.unfeed(edge.to, self, edge) else edge.tap:close() end
    end
  end
  if self.channel then self.channel:close() end
  if self.on_end then self.on_end() end
  self.flow:stage_ended(self)
end

return stage
