---Small distributed programs with one fault each, and their mended twins: a search finds the fault, and raises no alarm
---for the twin.
---
---The work of a search is a number of schedules, so it is the same on each machine. The short form tries every second
---program.

local explore = require "runnel.search.explore"
local long = require "spec.support.long"
local sim = require "runnel.sim"

-- How many schedules there are, at most: until a fault is found, and of a twin, unless twice as many as were needed to
-- find the fault are more. 10,000 take about 5 s.
local TO_FIND <const>, OF_TWIN <const> = 10000, long.times(40, 1000)

-- More than any of these searches takes: no clock ends one of them.
local SECONDS <const> = 3600

-- sim.explore, but for a number of schedules, and without shortening, which takes longer than the search.
local function search(schedules, f)
  local most, shortening = explore.most_schedules, explore.shortening
  explore.most_schedules, explore.shortening = schedules, 0
  local ok, result = pcall(sim.explore, f, { seconds = SECONDS })
  explore.most_schedules, explore.shortening = most, shortening
  return ok, result
end

---Makes the function that adds a spec of a program and its twin.
---@param it fun(name: string, f: fun()) busted's
---@return fun(name: string, invariant: string, program: fun(is_mended: boolean, holds: fun(...)), opts?: table) planted
---`name`: of the bug. `invariant`: what the program must keep; its error names it. `program` runs in a world and calls
---`holds(condition, format, ...)`, which raises that error. The options: `alarm`, a pattern for the failure if that is
---another one: of a program that waits for ever
return function(it)
  local count = 0
  return function(name, invariant, program, opts)
    count = count + 1
    if not long.tries(count, 2) then return end
    local alarm = opts and opts.alarm or "broken: " .. invariant:gsub("%p", "%%%0")
    local function holds(condition, ...)
      if not condition then error(("broken: %s: %s"):format(invariant, string.format(...)), 0) end
    end
    it(name, function()
      local ok, story = search(TO_FIND, function() program(false, holds) end)
      if ok then error("the search has found nothing: " .. tostring(story), 0) end
      local first, rest = story:match "^([^\n]*)\n(.*)$"
      if not first or not first:find(alarm) then error(("it has found, in place of %q: %s"):format(alarm, story), 0) end
      local is_story = rest:find "%w: " and rest:find "To replay: sim.explore"
      if not is_story then error("it tells no story: " .. story, 0) end
      local needed = tonumber(first:match "schedule (%d+)%)$")
      ok, story = search(math.max(OF_TWIN, 2 * needed), function() program(true, holds) end)
      if not ok then error("an alarm for the twin: " .. story, 0) end
    end)
  end
end
