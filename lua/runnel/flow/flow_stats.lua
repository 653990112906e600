---The state of a flow, by stage: a table that prints as one.

local core = require "runnel.core"
local everything = require "runnel.internal.living"
local short = require "runnel.internal.short"
local width = require "runnel.internal.width"
local internal = core.internal

local now = core.now

---The state of a stage.
---@class runnel.FlowStageStats
---@field stage string
---@field state string "new", "running", "paused", "held", "draining" or "ended"
---@field busy integer how many workers have a value
---@field workers integer how many workers there are
---@field waiting integer how many values wait for it
---@field room integer how many may, before puts wait
---@field taken integer how many it has taken
---@field rate number|nil values a second since the last call, or since the start
---@field errors integer
---@field longest number|nil ms for which the oldest call has waited where it waits now
---@field where string|nil the line where it waits
---@field doing string|nil what it does there, as "sleep" or "put"
---@field error any the error that it holds
---@field to string[] where its outputs lead, as "> save", ".error > bad"

---What Flow:stats returns: a list of stages.
---@class runnel.FlowStats
---@field flow string its name
---@field state string
---@field left integer how many values were not done with when it was stopped
local Stats = {}
Stats.__index = Stats

local stats = {}

local WAITS = { take = true, idle = true, gate = true, lane = true, ["end"] = true }
local LONG = 100 -- ms: shorter calls are not mentioned when the table is printed

local function state_of(flow, stage)
  if stage.ended then return "ended" end
  if stage.held then return "held" end
  return stage.paused and "paused" or flow.state
end

local function ways(stage)
  local list = {}
  for _, output in ipairs(stage.outputs) do
    for _, edge in ipairs(stage.outs[output] or {}) do
      list[#list + 1] = (output == "out" and "" or "." .. output .. " ") .. (edge.grows and ">> " or "> ")
        .. (edge.to and edge.to.name or "(tap)")
    end
  end
  return list
end

-- How many workers are busy, and the call that has waited longest.
local function look_at_workers(stage, row)
  for _, one in ipairs(stage.pool.workers) do
    local phase = stage.pool:state_of(one)
    if not WAITS[phase] and phase ~= "main" then row.busy = row.busy + 1 end
    local entry = one.block and not WAITS[phase] and internal.state(one.block)
    local waited = entry and entry.waited
    if waited and waited > (row.longest or -1) then
      row.longest, row.where, row.doing = waited, entry.where, entry.operation or "sleep"
    end
  end
end

local function row_of(flow, stage)
  local input = stage.owns_input and stage.input:stats()
  local taken = stage.pool:taken()
  local row = {
    stage = stage.name, state = state_of(flow, stage), busy = 0, workers = #stage.pool.workers,
    waiting = stage.pool:queued() + (input and input.values + input.puts_waiting or 0),
    room = input and input.capacity or 0,
    taken = taken, rate = nil, errors = stage.errors, longest = nil, where = nil, doing = nil,
    error = stage.held and stage.held.error, to = ways(stage),
  }
  look_at_workers(stage, row)
  local lanes = stage.pool.lanes
  if lanes then
    row.workers, row.waiting = math.min(row.workers, lanes.n), row.waiting + lanes.waiting
  end
  return row
end

---The state of a flow, without rates.
---@param flow runnel.Flow
---@return runnel.FlowStats
function stats.look(flow)
  local rows = setmetatable({ flow = flow.name, state = flow.state, left = #flow.left }, Stats)
  for i, stage in ipairs(flow.stages) do rows[i] = row_of(flow, stage) end
  return rows
end

---The state of a flow, with the rates since the last call.
---@param flow runnel.Flow
---@return runnel.FlowStats
function stats.stats(flow)
  local time = now()
  local elapsed = flow.stats_at and time - flow.stats_at
  local rows = stats.look(flow)
  for i, stage in ipairs(flow.stages) do
    local row = rows[i]
    if elapsed and elapsed > 0 then row.rate = (row.taken - (stage.taken_before or 0)) / elapsed * 1000 end
    stage.taken_before = row.taken
  end
  if flow.state ~= "new" then flow.stats_at = time end
  return rows
end

-- ---- as text ----

local function remark(row)
  if row.error ~= nil then return internal.error_text(row.error):match "[^\n]*" end
  if not row.longest or row.longest < LONG then return nil end
  return ("%s for %s at %s"):format(row.doing or "waits", short.duration(row.longest), row.where or "?")
end

local RIGHT = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true }

function Stats:__tostring()
  local lines = { { self.flow, self.state, "busy", "waiting", "taken", "rate/s", "errors", "to" } }
  for _, row in ipairs(self) do
    local note = remark(row)
    lines[#lines + 1] = {
      row.stage, row.state, ("%d/%d"):format(row.busy, row.workers), ("%d/%d"):format(row.waiting, row.room),
      tostring(row.taken), row.rate and ("%.0f"):format(row.rate) or "-", tostring(row.errors),
      table.concat(row.to, ", ") .. (note and (row.to[1] and "   " or "") .. "(" .. note .. ")" or ""),
    }
  end
  return table.concat(width.columns(lines, RIGHT), "\n")
end

everything.flow_rows = stats.look

return stats
