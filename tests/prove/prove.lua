-- Compares the C core with lua/runnel/lite.lua on small programs, each in every order. Run by `make prove` and others:
--
--   lua5.4 tests/prove/prove.lua first SEED
--       particular programs, long ones, and each pair of operations
--   lua5.4 tests/prove/prove.lua sample SEED PROGRAMS
--       a random sample of larger programs, and the models; fixed work
--   lua5.4 tests/prove/prove.lua long SEED PROGRAMS
--       long programs (long.lua)
--   lua5.4 tests/prove/prove.lua models SEED PROGRAMS
--       pipelines and pmap against their models (models.lua)
--   lua5.4 tests/prove/prove.lua all FILE [SECONDS] [J OF]
--       everything (space.lua), except the units that FILE lists, which gets those that are done; process J of so many
--
-- A difference ends it, with the smallest program that has one, and both stories of the first schedule that differs.

local generator = require "spec.support.generator"
local particular = require "tests.prove.particular"
local perform = require "tests.prove.perform"
local long = require "tests.prove.long"
local long_space = require "tests.prove.long_space"
local models = require "tests.prove.models"
local space = require "tests.prove.space"

local programs, schedules = 0, 0

-- The first difference of a program, or nil: which schedule, and what the core and lite do. `engine` has the functions
-- that run a program on both: `perform` or `long`.
local function compare(engine, program)
  local on_core, core = pcall(engine.core, program)
  local on_lite, lite = pcall(engine.lite, program)
  if not on_core or not on_lite then
    if on_core == on_lite then error(("both fail: %s\n%s"):format(core, lite), 0) end
    return 0, on_core and "works" or tostring(core), on_lite and "works" or tostring(lite)
  end
  programs, schedules = programs + 1, schedules + #core
  return perform.difference(core, lite)
end

local function shrink(engine, programs_of, program)
  local best = program
  repeat
    local before = best
    programs_of.each_smaller(before, function(smaller)
      local ok, difference = pcall(compare, engine, smaller)
      if best == before and ok and difference then best = smaller end
    end)
  until best == before
  return best
end

local function indent(text) return "  " .. text:gsub("\n", "\n  ") end

local function check_with(engine, programs_of, program)
  local number, core, lite = compare(engine, program)
  if not number then return end
  local smallest = shrink(engine, programs_of, program)
  if smallest ~= program then number, core, lite = compare(engine, smallest) end
  print(("The core and lite.lua differ, in schedule %d of:\n%s\n\nthe core:\n%s\n\nlite.lua:\n%s"):format(number,
    programs_of.text(smallest), indent(core), indent(lite)))
  os.exit(false, true)
end

local function check(program) return check_with(perform, space, program) end
local function check_long(random)
  check_with(long, long_space, long_space.make(random))
  check_with(long.outside, long_space, long_space.make(random, true))
end

local function tell(what)
  print(("%s: %d programs, %d schedules on each engine, no difference; %.0f s of CPU time"):format(what, programs,
    schedules, os.clock()))
end

local modes = {}

function modes.models(seed, n)
  models.check(generator(seed), n)
  print(("pipelines and pmap do what their models do, in %d programs"):format(n))
end

function modes.first(seed)
  local random = generator(seed)
  for _ = 1, 50 do check_long(random) end -- they find most faults in a moment
  local problem, n = particular.check()
  if problem then
    print(problem)
    os.exit(false, true)
  end
  for _ = 1, 450 do check_long(random) end
  space.each_pair(random, check)
  tell(("prove, %d particular programs, long ones, and each pair of operations, seed %d"):format(n, seed))
end

function modes.long(seed, n)
  local random = generator(seed)
  for _ = 1, n do check_long(random) end
  tell(("prove, long programs, seed %d"):format(seed))
end

function modes.sample(seed, n)
  local random = generator(seed)
  for i = 1, n do check(space.sample(random, i)) end
  tell(("prove, seed %d"):format(seed))
  modes.models(seed, n // 100)
end

function modes.all(path, seconds, j, of)
  local done, count = {}, 0
  for line in (io.open(path) or io.tmpfile()):lines() do done[tonumber(line)] = true end
  local total, unit = space.units()
  local file, deadline = assert(io.open(path, "a")), os.time() + (seconds or 1e9)
  for number = (j or 1) - 1, total - 1, of or 1 do
    if os.time() >= deadline then break end
    if not done[number] then
      space.each(unit(number), check)
      done[number] = true
      file:write(number, "\n")
      file:flush()
    end
  end
  for _ in pairs(done) do count = count + 1 end
  tell(("prove: %d of %d units of work are done"):format(count, total))
end

local arguments = { ... }
local mode = table.remove(arguments, 1)
for i, argument in ipairs(arguments) do arguments[i] = math.tointeger(argument) or argument end
modes[mode](table.unpack(arguments))
