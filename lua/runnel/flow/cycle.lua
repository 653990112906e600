---Cycles of a flow: stages that lead to each other. A cycle counts its unfinished values, and ends when there are none
---and no stage outside can send more.

---@class runnel.flow.Cycle
---@field stages runnel.flow.Stage[]
---@field feeders integer how many lead into it and have not ended
---@field under integer how many values were sent to its stages and are not done yet
---@field over boolean

local cycle = {}

---@param stages runnel.flow.Stage[]
---@return runnel.flow.Cycle
function cycle.new(stages) return { stages = stages, feeders = 0, under = 0, over = false } end

---Counts a value that is sent to a stage of the cycle.
---@param group runnel.flow.Cycle
function cycle.enter(group) group.under = group.under + 1 end

---A value is finished, and its results have left.
---@param group runnel.flow.Cycle
function cycle.leave(group)
  group.under = group.under - 1
  if group.under == 0 then cycle.look(group) end
end

---Ends the cycle if it is quiet. First the states of its stages are flushed, one stage at a time, which may put values
---into the cycle again; a stage that has got values since then is flushed again.
---@param group runnel.flow.Cycle
function cycle.look(group)
  if group.over or group.feeders > 0 or group.under > 0 then return end
  for _, stage in ipairs(group.stages) do
    if stage:flush_again() then return end
  end
  group.over = true
  for _, stage in ipairs(group.stages) do stage:close_input() end
end

return cycle
