-- Compares the simulated world with reality. Run by `make check-world`:
--
--   lua5.4 tests/world/world.lua PROGRAMS SEED [J OF] [NOTION]
--       random programs (programs.lua) of all notions, or of one; process J of so many
--
-- Each program runs in reality several times, under load, and in the world in many schedules. Every outcome that was
-- seen in reality must be one of the world. A difference is one if all schedules were tried that could have the
-- outcome;
-- or, with LONG, if the smallest program that has it still has it after DECISIVE schedules. Others are undecided.

local copy = require "spec.support.copy"
local generator = require "spec.support.generator"
local perform = require "tests.world.perform"
local programs = require "tests.world.programs"
local shrink = require "spec.support.model.shrink"

-- How often a program runs in reality; and to confirm a difference. How many schedules are tried.
local is_long = (os.getenv "LONG" or "") ~= ""
local RUNS, MORE_RUNS, SCHEDULES = 6, 16, is_long and 5000 or 1000

-- Schedules after which a smallest program has a difference. The short form does not look for it.
local DECISIVE = 30000
local TOLD = 300 -- schedules of which the outcomes are told

local n, seed = tonumber(arg[1]), tonumber(arg[2])
local j, of, only = tonumber(arg[3] or 1), tonumber(arg[4] or 1), arg[5]

local folder = os.tmpname()
os.remove(folder)
assert(require "luv".fs_mkdir(folder, 0x1C0))

local count = { programs = 0, outcomes = 0, schedules = 0, undecided = 0 }

local known = {} -- the results by outcomes, all that were seen

-- The outcomes of a program in reality.
local function real_outcomes(made, random, runs)
  local found = {}
  for _ = 1, runs do
    local results = perform.reality(made, random, folder)
    found[programs.outcome(made, results)] = results
    known[programs.outcome(made, results)] = results
  end
  return found
end

-- The outcomes that only reality has: true: for certain; nil if there are none.
local function difference(made, random, runs, schedules)
  local wanted = real_outcomes(made, random, runs)
  local missing, tried = perform.find(made, wanted, schedules)
  count.schedules = count.schedules + tried
  for _ in pairs(wanted) do count.outcomes = count.outcomes + 1 end
  if next(missing) then return missing end
end

local function is_certain(missing)
  for _, certain in pairs(missing) do
    if certain then return true end
  end
  return false
end

local function report(what, made, missing, number)
  print(("%s. Program %d:\n%s\nreality:"):format(what, number, programs.text(made)))
  for outcome, certain in pairs(missing) do print("  " .. outcome .. (certain and "" or " (perhaps)")) end
  print "the world, as far as it was searched:"
  for i, outcome in ipairs(perform.outcomes(made, TOLD)) do
    if i <= 40 then print("  " .. outcome) end
  end
end

-- The smallest program that has an outcome only in reality, and its outcomes; nil if that was seen only once.
local function smallest(made, random)
  local best, missing
  local function fails(smaller)
    for _, block in ipairs(smaller.blocks) do
      if #block.script == 0 then return false end
    end
    local outcomes = difference(smaller, random, MORE_RUNS, SCHEDULES)
    if outcomes then best, missing = copy(smaller), outcomes end
    return outcomes ~= nil
  end
  if fails(made) then shrink(made, fails) end
  return best, missing
end

-- Whether the world has none of the outcomes, also in many more schedules.
local function is_decided(made, missing)
  if is_certain(missing) then return true end
  for outcome in pairs(missing) do
    local found = perform.find(made, { [outcome] = known[outcome] }, DECISIVE)
    if next(found) then return true end
  end
  return false
end

local function check(number)
  local made, random = programs.make(number), generator(number + 1000003)
  count.programs = count.programs + 1
  local missing = difference(made, random, RUNS, SCHEDULES)
  if not missing then return true end
  if is_certain(missing) then
    local smaller, outcomes = smallest(made, random)
    report("Reality has an outcome that the world has not", smaller or made, outcomes or missing, number)
    return false
  end
  count.undecided = count.undecided + 1
  if not is_long then return true end
  local smaller, outcomes = smallest(made, random)
  if not smaller or not is_decided(smaller, outcomes) then return true end
  report("Reality has an outcome that the world has not", smaller, outcomes, number)
  return false
end

local failed = 0
local ok, err = pcall(function()
  for _, text in ipairs(programs.load(only)) do print("world: skipped: " .. text) end
  for number = seed + j - 1, seed + n - 1, of do
    local went, same = pcall(check, number)
    if not went then
      print(("program %d:\n%s\n%s"):format(number, programs.text(programs.make(number)), same))
    end
    if not (went and same) then failed = failed + 1 end
  end
end)
os.execute(("rm -rf '%s'"):format(folder))
if not ok then error(err, 0) end
print(("check-world: %d programs with %d outcomes in reality, %d schedules in the world: %d differ, %d undecided; %.0f "
  .. "s of CPU time"):format(count.programs, count.outcomes, count.schedules, failed, count.undecided, os.clock()))
os.exit(failed == 0, true)
