---Tests of concurrent code in every order, for any test framework.
---
---    local explore = require("runnel.lite.testing").explore
---    it("never loses a job", explore(function() ... end))

local rn = require "runnel.lite"

local M = {}

local MOST = 10000 -- schedules, if the test does not say how many

-- A framework's assertion may raise a table, by which it knows a failure from an error: with another text it is still
-- one.
local function raise(err, text)
  if type(err) ~= "table" then error(text, 0) end
  local copy = {}
  for key, value in pairs(err) do copy[key] = value end
  copy.message = text
  error(setmetatable(copy, getmetatable(err)), 0)
end

local OPTIONS = { leaks = true, schedule = true, schedules = true, steps = true }

---Returns a test, a function without arguments: it runs f in every order of its go blocks, each time in a simulation
---with virtual time, and fails with the story of the first run that fails (rn.sim.explore). If it passes, f is right in
---every order. It fails, too, if there are more than 10000 orders; with opts.schedules it tries so many at most, and
---passes even if there are more.
---@param f fun()
---@param opts? { schedules?: integer, leaks?: boolean, steps?: integer, schedule?: string }
---@return fun()
function M.explore(f, opts)
  if type(f) ~= "function" then error("explore: a function expected, got " .. type(f), 2) end
  local given = { raise = raise, schedules = MOST }
  for key, value in pairs(opts or {}) do
    if not OPTIONS[key] then
      error(("explore: unknown option '%s'; known: leaks, schedule, schedules, steps"):format(tostring(key)), 2)
    end
    given[key] = value
  end
  return function()
    local report = rn.sim.explore(f, given)
    if report.all or given.schedule or opts and opts.schedules then return end
    error(("explore: %d schedules passed, but there are more: make the test smaller (fewer go blocks, fewer values), "
      .. "or say how many to try: explore(f, { schedules = %d })"):format(MOST, MOST), 0)
  end
end

---Returns a test that runs f once, in a simulation with virtual time: a sleep takes no time.
---@param f fun()
---@return fun()
function M.simulate(f)
  if type(f) ~= "function" then error("simulate: a function expected, got " .. type(f), 2) end
  return function() rn.sim.run(f, { leaks = true }) end
end

return M
