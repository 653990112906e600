---The actions of a stage's worker besides its function: init, flush and stop; and the handling of errors.

local core = require "runnel.core"
local calls = require "runnel.workers.calls"
local time_limit = require "runnel.internal.time_limit"
local putting = require "runnel.flow.put"
local internal = core.internal

local chan, yield = core.chan, core.yield
local emit = putting.emit

local worker = {}

-- ---- errors ----

---The value of an error edge, and of a holding stage.
---@class runnel.FlowError
---@field stage string
---@field value any nil: the error is not about a value, but from a source, `init` or `flush`
---@field error any
---@field traceback string|nil
---@field tries integer how often the value was tried
local Error = {}
Error.__index = Error
Error.__name = "runnel.FlowError"

function Error:__tostring() return ("stage %s: %s"):format(self.stage, internal.error_text(self.error)) end

local function nothing() end

-- ---- calls ----

-- Replaces a value when a worker must call something else than the stage's function.
local Call = {}

---A call in place of a value: f(put), with results as of a step.
---@param f fun(put: runnel.FlowPut): any, string?
function worker.call(f) return setmetatable({ f = f }, Call) end

---The value of a job; nil if it is a call.
---@param value any
---@return any
function worker.value(value)
  if getmetatable(value) == Call then return nil end
  return value
end

---The job of a stage that also gets calls.
---@param stage runnel.flow.Stage
---@param f function
---@param is_step boolean
---@return function job a step
function worker.job_with_calls(stage, f, is_step)
  local is_later = not is_step and time_limit.is_later(f)
  local function job(value, put, state, begun, worker_of_job)
    if getmetatable(value) == Call then
      if begun then begun(worker_of_job) end
      return value.f(put)
    end
    stage.is_dirty = true
    if is_step then return f(value, put, state) end
    local result, err
    if is_later then result, err = f(value, nil, begun, worker_of_job) else result, err = f(value) end
    if err ~= nil then calls.raise_if_nil(result, err) end
    return result
  end
  if is_later then time_limit.mark_later(job) end
  return job
end

-- ---- life ----

-- Emits values that the program's function does not put itself. If this go block is killed, the next one repeats it.
local function emit_own(stage, self, value, output)
  self.is_emitting = true
  emit(stage, value, output, self)
  self.is_emitting = false
end

-- Waits until no worker has a job, so that the puts of `flush` come last.
local function wait_for_others(stage, self)
  if self.retired then return end
  for _, other in ipairs(stage.pool.workers) do
    if not other.is_over then
      stage.quiet = stage.quiet or internal.trace.hide(chan())
      stage.quiet:take()
      return
    end
  end
  if stage.quiet then stage.quiet:close() end
end

-- In a cycle the states are flushed before the inputs are closed (cycle.lua).
local function must_flush(stage, self)
  if not stage.flush or self.is_stopping then return false end
  return not (stage.cycle and stage.cycle.over) or stage.is_dirty
end

local function flush(stage, self)
  if not self.flushed then
    self.is_flushing = true
    self.flushed = table.pack(stage.flush(self.state, self.put))
  end
  local flushed = self.flushed
  if flushed[1] ~= nil then emit_own(stage, self, flushed[1], flushed[2]) end
  flushed[1] = nil
end

---The main function of a worker's go blocks.
---@param stage runnel.flow.Stage
---@param self table the worker
---@param run fun(self: table) works until the input ends
function worker.main(stage, self, run)
  if not self.is_ready then
    if stage.init then self.state = stage.init(self.number, stage.is_timed and stage or nil) end
    self.is_ready = true
  end
  if not self.is_over then
    run(self)
    self.is_over = true
  end
  if stage.flow.stopped then pcall(yield) end -- raises a pending cancellation
  local err = stage.pool.err
  if stage.is_source and err ~= nil and not self.has_told then
    self.has_told = true
    error(err, 0)
  end
  if self.record then emit_own(stage, self, self.record, "error") end
  self.record = nil
  if must_flush(stage, self) then
    wait_for_others(stage, self)
    flush(stage, self)
  end
  self.is_stopping = true
  if stage.stop then stage.stop(self.state) end
end

-- ---- what follows an error ----

local function record_of(stage, failure)
  return setmetatable({
    stage = stage.name, value = worker.value(failure.value), error = failure.err, traceback = failure.traceback,
    tries = failure.tries,
  }, Error)
end

-- In init, flush or stop, or while their results are put.
local function failed_outside(stage, self, failure)
  if self.is_stopping then return nil end -- the engine reports it
  if self.record or self.flushed and self.flushed[1] ~= nil then return "again" end -- killed during its puts
  if not self.is_ready and (stage.flow.stopped or stage.is_source and stage.closed) then return nil end
  stage.errors = stage.errors + 1
  local record = record_of(stage, failure)
  if self.is_ready and (stage.outs.error or stage.flow.stopped) then
    if self.is_flushing then self.flushed = {} end
    self.record = record
    return "again"
  end
  stage:hold(record)
  return "hold"
end

---Decides what follows the death of a worker's go block: the hook `failed` of the engine.
---@param stage runnel.flow.Stage
---@param self table the worker
---@param failure table
---@return function|"again"|"hold"|nil
function worker.failed(stage, self, failure)
  local phase, flow = failure.phase, stage.flow
  if phase == "main" then return failed_outside(stage, self, failure) end
  local is_waiting = phase == "take" and (stage.input or flow.draining or flow.stopped)
  -- It was killed during the puts of results; unless their output does not exist.
  if phase == "put" and failure.block then failure.phase = "job" end
  if failure.phase == "put" or is_waiting then return "again" end
  stage.errors = stage.errors + 1
  local record = record_of(stage, failure)
  if flow.stopped then
    if record.value ~= nil then flow:lose(stage, { value = record.value, begun = true, error = record.error }) end
    return nothing
  elseif stage.outs.error then
    if stage.is_source then stage.pool:finish() end
    return function() return record, "error" end
  elseif stage.is_source and stage.closed then
    return nil -- the engine reports it; a new call could put nothing
  end
  stage:hold(record)
  return "hold"
end

return worker
