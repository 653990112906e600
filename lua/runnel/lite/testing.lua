---Tests of concurrent code in every order, for any test framework.
---
---    local explore = require("runnel.lite.testing").explore
---    it("never loses a job", explore(function() ... end))

local rn = require "runnel.lite"

local M = {}

local MOST = 10000 -- schedules, if the test does not say how many

-- The error of a framework's assertion is a table: the copy with another text is still one for the framework.
local function with_text(err, text)
  if type(err) ~= "table" then return text end
  local copy = {}
  for key, value in pairs(err) do copy[key] = value end
  copy.message = text
  return setmetatable(copy, getmetatable(err))
end

local function raise(err, text) error(with_text(err, text), 0) end

local OPTIONS = { schedules = true }

---Returns a test, a function without arguments: it runs f in every order of its go blocks, each time in a simulation
---with virtual time, and fails with the story of the first run that fails. A test that passes has tried all orders; it
---fails if these are more than 10000. With opts.schedules it tries so many, the second half of them at random, and
---passes also if there are more.
---@param f fun()
---@param opts? { schedules?: integer }
---@return fun()
function M.explore(f, opts)
  if type(f) ~= "function" then error("explore: a function expected, got " .. type(f), 2) end
  for key in pairs(opts or {}) do
    if not OPTIONS[key] then error(("explore: unknown option '%s'; known: schedules"):format(tostring(key)), 2) end
  end
  local given = opts and opts.schedules
  return function()
    local in_order = given and math.ceil(given / 2) or MOST
    local report = rn.sim.explore(f, { schedules = in_order, raise = raise })
    if report.all then return end
    if not given then
      error(("explore: %d schedules passed, but there are more: make the test smaller (fewer go blocks, fewer values), "
        .. "or say how many to try, as explore(f, { schedules = %d })"):format(MOST, MOST), 0)
    end
    for seed = 1, given - in_order do rn.sim.run(f, { seed = seed, shuffle = true }) end
  end
end

---Returns a test that runs f once, in a simulation with virtual time: a sleep takes no time.
---@param f fun()
---@return fun()
function M.simulate(f)
  if type(f) ~= "function" then error("simulate: a function expected, got " .. type(f), 2) end
  return function() rn.sim.run(f) end
end

return M
