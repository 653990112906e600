---Finds the channels of a program without a list of them: those that are reachable from the registry, which contains
---the globals, the modules and the scheduler.

local rn = require "runnel"

local MOST = 200000 -- objects to visit, so that a large program is not stopped for long

local KINDS = { table = true, userdata = true, ["function"] = true, thread = true }

-- Calls f(value) for each value that an object refers to.
local each = {}

function each.table(t, f)
  f(debug.getmetatable(t))
  for key, value in next, t do
    f(key)
    f(value)
  end
end

each["function"] = function(g, f)
  for i = 1, math.huge do
    local name, value = debug.getupvalue(g, i)
    if not name then return end
    f(value)
  end
end

function each.userdata(u, f)
  f(debug.getmetatable(u))
  for i = 1, math.huge do
    local value, is_there = debug.getuservalue(u, i)
    if not is_there then return end
    f(value)
  end
end

function each.thread(co, f)
  for level = 0, math.huge do
    local info = debug.getinfo(co, level, "f")
    if not info then return end
    f(info.func)
    for i = 1, math.huge do
      local name, value = debug.getlocal(co, level, i)
      if not name then break end
      f(value)
    end
  end
end

---@return runnel.Channel<any>[]
return function()
  local seen, queue, channels = {}, {}, {}
  local function visit(value)
    if not KINDS[type(value)] or seen[value] or #queue >= MOST then return end
    seen[value] = true
    queue[#queue + 1] = value
    if rn.is_chan(value) then channels[#channels + 1] = value end
  end
  visit(debug.getregistry())
  local i = 1
  while queue[i] do
    each[type(queue[i])](queue[i], visit)
    i = i + 1
  end
  return channels
end
