---Checks that the core behaves as the model predicts.

local model = require "spec.support.model.model"
local perform = require "spec.support.model.perform"

local function differ(what, expected, got)
  return ("%s: the model has %s, the core %s"):format(what, tostring(expected), tostring(got))
end

-- The first difference between two tables of plain values, or nil.
local function compare(what, expected, got)
  for key, value in pairs(expected) do
    if got[key] ~= value then return differ(key .. " of " .. what, value, got[key]) end
  end
  for key, value in pairs(got) do
    if expected[key] == nil then return differ(key .. " of " .. what, nil, value) end
  end
end

---Runs a program on both.
---@param made table see program.lua
---@return string? difference the first one; nil when they agree
---@return integer events how many there were
return function(made)
  local ran = perform(made)
  local ok, predicted = pcall(model.run, made, ran.choices)
  if not ok then return tostring(predicted), #ran.events end
  for i = 1, math.max(#predicted.events, #ran.events) do
    if predicted.events[i] ~= ran.events[i] then
      return differ("event " .. i, predicted.events[i], ran.events[i]), #ran.events
    end
  end
  local difference = compare("the blocks that ended", predicted.ended, ran.ended) or
    compare("the operations that wait", predicted.waiting, ran.waiting)
  for name, ch in pairs(predicted.channels) do
    difference = difference or compare(name, ch, ran.channels[name])
  end
  return difference, #ran.events
end
