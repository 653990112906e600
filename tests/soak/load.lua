-- The common part of soak.lua and soak_io.lua: rounds of random work for some time, and a check that memory does not
-- grow.
local rn = require "runnel"

local load = {}

---Makes a function that does one round: it starts n random pieces of work at once, and waits until they are done.
---@param work table<string, fun()> the pieces of work; each runs in a go block
---@param n integer
---@return fun()
function load.round(work, n)
  local names = {}
  for name in pairs(work) do names[#names + 1] = name end
  table.sort(names)
  return function()
    local running = {}
    for _ = 1, n do
      local name = names[math.random(#names)]
      running[#running + 1] = { name, rn.go(work[name]) }
    end
    for _, entry in ipairs(running) do
      local _, err = entry[2]:take()
      if err ~= nil then error(entry[1] .. ": " .. tostring(err), 0) end
    end
  end
end

---Calls a function again and again, and measures memory now and then, and at the end.
---@param seconds integer
---@param f fun()
---@param measure fun(): integer, integer bytes in use, and of them in small blocks
---@param slack integer how many bytes memory may grow after a fifth of the time: tables double and never shrink
---@param small_slack integer how many bytes the small blocks may grow, which no such table is one of
---@return integer first bytes after a fifth of the time
---@return integer most bytes since
function load.go_on(seconds, f, measure, slack, small_slack)
  local start = os.time()
  local first, first_small, last, most, next_measure = nil, nil, 0, 0, 0
  while os.time() - start < seconds do
    f()
    local passed = os.time() - start
    if passed >= next_measure then
      next_measure = passed + math.max(seconds // 20, 1)
      local small
      last, small = measure()
      if passed >= seconds // 5 then
        first, first_small, most = first or last, first_small or small, math.max(most, last)
        assert(last <= first + slack, ("memory is not stable: %d bytes, later %d"):format(first, last))
        assert(small <= first_small + small_slack,
          ("memory is not stable: %d bytes in small blocks, later %d"):format(first_small, small))
      end
    end
  end
  measure()
  return first or last, most
end

return load
