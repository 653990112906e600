---The modes of the collector, set as collectgarbage("incremental", pause, stepmul, stepsize) does in Lua 5.4; Lua 5.5
---has no such arguments.

local gc = {}

local has_arguments = _VERSION == "Lua 5.4"
local usual = {}
for _, name in ipairs(has_arguments and {} or { "pause", "stepmul", "stepsize", "minormul" }) do
  usual[name] = collectgarbage("param", name)
end

---@param pause integer in per cent
---@param stepmul integer how much work there is in a step, for its size
---@param stepsize? integer the logarithm of the bytes that are allocated between two steps; by default 13
---@return string # the mode before
function gc.incremental(pause, stepmul, stepsize)
  if has_arguments then return collectgarbage("incremental", pause, stepmul, stepsize) end
  local mode = collectgarbage "incremental"
  collectgarbage("param", "pause", pause)
  -- A step that has too little to do would be a full collection. In the smallest one here two finalizers are called.
  collectgarbage("param", "stepsize", math.max(1 << (stepsize or 13), 16))
  collectgarbage("param", "stepmul", math.max(50 * stepmul, 1000))
  return mode
end

---The incremental mode with a whole collection at nearly every allocation.
function gc.always()
  if has_arguments then
    collectgarbage("incremental", 1, 1000)
    return
  end
  collectgarbage "incremental"
  collectgarbage("param", "pause", 1)
  collectgarbage("param", "stepmul", 0)
end

---The generational mode, with a minor collection when the heap has grown by `minor` per cent, and rare major ones.
function gc.generational(minor)
  if has_arguments then
    collectgarbage("generational", minor, 1000)
    return
  end
  collectgarbage "generational"
  collectgarbage("param", "minormul", minor)
end

---The incremental mode as a program begins with it.
function gc.usual()
  collectgarbage "incremental"
  if has_arguments then collectgarbage("incremental", 200, 100, 13) end
  for name, value in pairs(usual) do collectgarbage("param", name, value) end
end

return gc
