---Flows on the monitor's page: their rows, and the actions of its buttons.
---
---The page names a flow by its number, and a stage by the number of its flow and its place in it: "3.2".

local core = require "runnel.core"
local ending = require "runnel.flow.flow_ending"
local guard = require "runnel.internal.guard"
local living = require "runnel.flow.flow_living"
local stats = require "runnel.flow.flow_stats"

local view = {}

-- How many flows are shown.
local SHOWN <const> = 50

-- Joins the cells of a row, without tabs and newlines in them.
local function row(...)
  local cells = table.pack(...)
  for i = 1, cells.n do
    cells[i] = cells[i] == nil and "" or tostring(cells[i]):gsub("%c", " ")
  end
  return table.concat(cells, "\t")
end

local function text_of(flow)
  local rows = stats.look(flow)
  local lines = { row(flow.number, rows.state, rows.flow) }
  for i, one in ipairs(rows) do
    local err = one.error ~= nil and core.internal.error_text(one.error):match "[^\n]*" or nil
    local longest = one.longest and math.floor(one.longest)
    lines[i + 1] = row(one.stage, one.state, one.busy, one.workers, one.waiting, one.room, one.taken, one.errors,
      longest, one.doing, one.where, err, table.concat(one.to, ", "))
  end
  return table.concat(lines, "\n")
end

---The page's rows: the time in ms and the number of flows, and a text for each of the first ones. Its first
---line is "NUMBER STATE NAME", and the others are a stage each; cells are separated by tabs.
---@return string ...
function view.flows()
  local list = living.list()
  local texts = { row(math.floor(core.now()), #list) }
  for i = 1, math.min(#list, SHOWN) do texts[i + 1] = text_of(list[i]) end
  return table.unpack(texts)
end

-- The flow and the stage that an id names: nil if there is none of that number, false if it names only a flow.
local function find(id)
  local number, place = id:match "^(%d+)%.?(%d*)$"
  local flow = living.find(math.tointeger(tonumber(number)) or 0)
  if not flow then return nil end
  if place == "" then return flow, false end
  return flow, flow.stages[math.tointeger(tonumber(place)) or 0]
end

-- The flows that the page has paused.
---@type table<runnel.Flow, true>
local kept = setmetatable({}, { __mode = "k" })

local CHECKED <const> = 200 -- ms between two checks of a paused flow

local function release(flow) kept[flow] = nil end

local function is_paused(flow)
  for _, stage in ipairs(flow.stages) do
    if stage.paused and not stage.ended then return true end
  end
  return false
end

-- While a flow is paused, its program may wait for nothing else. This is no deadlock: the page can resume it.
local function keep(flow)
  if kept[flow] then return end
  kept[flow] = true
  guard.go(release, flow, function()
    core.rename "the monitor, while a flow is paused"
    while is_paused(flow) do core.sleep(CHECKED) end
    release(flow)
  end)
end

---Performs a button's action. Never waits.
---@param what "pause"|"resume"|"drain"|"inject"
---@param id string names the flow or the stage
---@param value any for inject
---@return boolean ok
---@return string text
function view.run(what, id, value)
  local flow, stage = find(id)
  if not flow then return false, "the flow has ended" end
  if stage == nil or not stage and what == "inject" then return false, "there is no such stage" end
  local name = stage and ("stage %s of flow %s"):format(stage.name, flow.name) or "flow " .. flow.name
  if stage and stage.ended then return false, name .. " has ended" end
  if what == "pause" then
    flow:pause(stage and stage.name or nil)
    keep(flow)
    return true, name .. " is paused"
  elseif what == "resume" then
    flow:resume(stage and stage.name or nil)
    return true, name .. " goes on"
  elseif what == "drain" then
    ending.begin(flow)
    return true, name .. " is drained"
  end
  local ok, err = pcall(flow.inject, flow, stage.name, value)
  if not ok then return false, core.internal.error_text(err) end
  return true, "the value is injected into " .. name
end

return view
