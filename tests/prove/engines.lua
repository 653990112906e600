---Runs a program again and again, in the order of a depth-first search of its schedules, on the C core or on lite.lua.
---The result is a list of stories, one for each schedule.

local core = require "runnel.core"
local lite = require "runnel.lite"
local rn = require "runnel"

local explorer = core.internal.explore

local engines = {}

---@param main fun() the program
---@param report fun(err: any) what reported errors go to
---@param story_of fun(): string ends a run, and returns its story
---@param steps integer a run with more steps is an error
---@param most? integer so many schedules; all by default
---@return string[] stories
function engines.core(main, report, story_of, steps, most)
  local stories, e = {}, explorer.new(steps, false)
  rn.on_error(report)
  repeat
    local ok, _, err = explorer.run(e, main, false, "path")
    if not ok then error(err or "given up", 0) end
    stories[#stories + 1] = story_of()
  until #stories == most or not explorer.backtrack(e)
  rn.on_error(nil)
  return stories
end

---The same on lite.lua, which has no limit of steps.
---@param main fun()
---@param report fun(err: any)
---@param story_of fun(): string
---@param most? integer
---@return string[] stories
function engines.lite(main, report, story_of, most)
  local stories, has_run = {}, false
  lite.on_error(report)
  lite.sim.explore(function()
    if has_run then stories[#stories + 1] = story_of() end
    has_run = true
    main()
  end, { schedules = most, leaks = false, untaken = "report" })
  stories[#stories + 1] = story_of()
  lite.on_error(nil)
  return stories
end

return engines
