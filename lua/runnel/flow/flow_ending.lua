---How a flow ends before its sources do: drain and stop, and the values that are left then.

local core = require "runnel.core"
local graph = require "runnel.flow.topology"
local guard = require "runnel.internal.guard"
local living = require "runnel.flow.flow_living"
local stages = require "runnel.flow.flow_stage"
local timed_out = require "runnel.internal.timed_out"
local worker = require "runnel.flow.flow_worker"
local workers = require "runnel.workers.workers"
local internal = core.internal

local alts, cancel, yield = core.alts, core.cancel, core.yield

local ending = {}

-- ---- the left values ----

---A value that was unfinished when the flow was stopped.
---@class runnel.FlowLeft
---@field stage string the stage that would have got it, or had begun with it
---@field value any
---@field begun boolean|nil a call had begun with it
---@field error any|nil its last error, if it was held

local Left = {}

---As "3 values left: 2 for parse, 1 in save".
function Left:__tostring()
  local counts, order = {}, {}
  for _, entry in ipairs(self) do
    local place = (entry.begun and "in " or "for ") .. entry.stage
    if not counts[place] then order[#order + 1] = place end
    counts[place] = (counts[place] or 0) + 1
  end
  for i, place in ipairs(order) do order[i] = ("%d %s"):format(counts[place], place) end
  if #self == 0 then return "nothing left" end
  return ("%d value%s left: %s"):format(#self, #self == 1 and "" or "s", table.concat(order, ", "))
end

---@return runnel.FlowLeft[]
function ending.left() return setmetatable({}, Left) end

---Waits until a flow has ended. Raises if some of its stages could not be ended because memory has run out.
---@param flow runnel.Flow
---@return boolean done
---@return runnel.FlowLeft[] left
function ending.result(flow)
  local _, err = flow.over:take()
  if err ~= nil then
    flow.state = "ended"
    living.remove(flow)
    if flow.forget then flow.forget() end
    error(err, 0)
  end
  return #flow.left == 0, flow.left
end

-- ---- draining ----

local PUTS = { put = true }

-- Whether a source waits in a put of its own, which must be completed.
local function is_putting(stage, entry)
  if not PUTS[entry.operation] then return false end
  local is_own = false
  graph.each(stage, function(edge) is_own = is_own or edge.to.input == entry.channel end)
  return is_own
end

-- Cancels a waiting source. A ready source may put first, and ends then.
local function cancel_where_it_waits(stage)
  local one = stage.pool.workers[1]
  while one and one.block and not stage.ended do
    local entry = internal.state(one.block)
    if not entry or is_putting(stage, entry) then return end
    if entry.state ~= "ready" and entry.state ~= "running" then return cancel(one.block, workers.FINISHED) end
    yield()
  end
end

---Ends a source: cancels it where it waits, after a put that has begun.
---@param stage runnel.flow.Stage
function ending.end_source(stage)
  if stage.closed then return end
  stage.closed, stage.held = true, nil
  stage:route()
  stage.pool:finish()
  for _, one in ipairs { table.unpack(stage.pool.workers) } do
    if one.held then stage.pool:release(one, guard.nothing) end -- it could put nothing if it was called again
  end
  if not stage.input then guard.go(guard.nothing, nil, cancel_where_it_waits, stage) end
end

---Begins to drain a flow; does not wait.
---@param flow runnel.Flow
function ending.begin(flow)
  if flow.draining or flow.state == "ended" then return end
  flow.draining, flow.state = true, "draining"
  for _, stage in ipairs(flow.stages) do
    if stage.is_source then ending.end_source(stage) end
    if stage.is_input then graph.unfeed(stage) end
  end
end

---What `wait` and `drain` return.
---@param flow runnel.Flow
---@param ms? number the time was up
---@return boolean done
---@return string|runnel.TimedOut|nil err
---@return runnel.FlowLeft[]? left
function ending.results(flow, ms)
  local done, left = ending.result(flow)
  if done then return true end
  if not ms then return false, ("flow %s: %s"):format(flow.name, tostring(left)), left end
  local _, late = timed_out.of_drain(("flow %s"):format(flow.name), ms)
  return false, timed_out.with_text(late, ("%s: %s"):format(tostring(late), tostring(left))), left
end

---Ends the sources, and waits until all values have gone through; see Flow:drain.
---@param flow runnel.Flow
---@param ms? number
---@return boolean done
---@return string|runnel.TimedOut|nil err
---@return runnel.FlowLeft[]? left
function ending.drain(flow, ms)
  ending.begin(flow)
  local is_late = false
  if ms then
    local alarm <close> = guard.alarm(ms)
    alts({ flow.over, alarm.over }, { priority = true })
    is_late = not flow.over:closed()
    if is_late then ending.stop(flow) end
  end
  return ending.results(flow, is_late and ms or nil)
end

-- ---- stopping ----

local function lose_all(flow, stage, list)
  for _, value in ipairs(list) do
    if worker.value(value) ~= nil then flow:lose(stage, { value = value }) end
  end
end

-- The activities in which a waiting worker is cancelled.
local CALLS = { job = true, pause = true, handler = true }

local function stop_worker(flow, stage, one)
  local held = one.held
  if held then
    local value = worker.value(held.value)
    if value ~= nil then flow:lose(stage, { value = value, begun = true, error = held.err }) end
    stage.pool:release(one, guard.nothing)
  elseif one.block then
    local phase = stage.pool:state_of(one)
    local is_beginning = phase == "main" and not one.is_ready or phase == "take" and not stage.input
    if CALLS[phase] or is_beginning then cancel(one.block, stages.RETIRED) end
  end
end

---Ends a flow at once; see Flow:stop.
---@param flow runnel.Flow
---@return runnel.FlowLeft[] left
function ending.stop(flow)
  if not flow.stopped then
    flow.stopped = true
    for _, stage in ipairs(flow.stages) do
      stage.closed = true
      stage:route()
      lose_all(flow, stage, stage:empty_input())
      lose_all(flow, stage, stage.pool:drop_first())
    end
    for _, stage in ipairs(flow.stages) do
      stage.pool:finish()
      for _, one in ipairs(stage.pool:all_workers()) do stop_worker(flow, stage, one) end
    end
  end
  return select(2, ending.result(flow))
end

return ending
