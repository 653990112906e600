-- Random programs on the core and on the model of spec/support. Run by tests/runner.c:
--
--   runner tests/model.lua check RUNNER OPERATIONS [SEED]
--       runs programs of random seeds until they have done so many operations, or the program of one seed; they run in
--       processes of their own, so that a program that crashes or hangs can be reduced, like one with a wrong outcome
--   runner tests/model.lua seeds FROM COUNT
--   runner tests/model.lua program FILE
--       what these processes run; use them to repeat what a failure has printed

local t = t -- luacheck: globals t
local agree = require "spec.support.model.agree"
local program = require "spec.support.model.program"
local shrink = require "spec.support.model.shrink"

local AT_ONCE = 2        -- processes at the same time
local SEEDS_EACH = 200   -- programs per process
local SECONDS_EACH = 120 -- limit for one program
local FILE = os.tmpname()

-- Raises an error unless core and model agree and the core's invariants hold. Returns how many outcomes were compared.
local function check(made)
  t.limit(SECONDS_EACH)
  local difference, events = agree(made)
  if difference then error(difference, 0) end
  t.invariants()
  return events
end

-- ---- other processes ----

-- Starts a process. Returns a function that waits for its end and returns whether it succeeded, how many operations it
-- did, the last seed without a failure, and its other output.
local function start(runner, ...)
  local pipe = assert(io.popen(table.concat({ runner, "tests/model.lua", ... }, " ") .. " 2>&1"))
  return function()
    local operations, last, said = 0, nil, {}
    for line in pipe:lines() do
      local seed, count = line:match "^seed (%d+): (%d+)$"
      if seed then
        operations, last = operations + tonumber(count), tonumber(seed)
      elseif #said < 15 then
        said[#said + 1] = line
      end
    end
    local ok, how, code = pipe:close()
    if not ok and #said == 0 then said[1] = ("ended by %s %d"):format(how, code) end
    return ok or false, operations, last, table.concat(said, "\n")
  end
end

local function fails(runner, made)
  local file = assert(io.open(FILE, "w"))
  file:write(program.text(made))
  file:close()
  local ok, _, _, said = start(runner, "program", FILE)()
  return not ok, said
end

-- Prints the failure of a seed's program. If the program also fails on its own, prints a reduced one.
local function tell(runner, seed, from, said)
  print(("seed %d fails (make check-model SEED=%d): %s"):format(seed, seed, said))
  local made = program.make(seed)
  if fails(runner, made) then
    local tries = 0
    made = shrink(made, function(smaller)
      tries = tries + 1
      return (fails(runner, smaller))
    end)
    local _, why = fails(runner, made)
    print(("\nthis reduced program also fails (%d tries): %s\n\n%s"):format(tries, why, program.text(made)))
  else
    print(("it fails only after others: %s tests/model.lua seeds %d %d"):format(runner, from, seed - from + 1))
  end
  os.remove(FILE)
  os.exit(false)
end

local modes = {}

function modes.program(file) check(assert(loadfile(file))()) end

function modes.seeds(from, count)
  for seed = from, from + count - 1 do print(("seed %d: %d"):format(seed, check(program.make(seed)))) end
end

function modes.check(runner, operations, only)
  if only then
    local ok, _, _, said = start(runner, "seeds", only, 1)()
    if not ok then tell(runner, only, only, said) end
    print(("seed %d: core and model agree on\n%s"):format(only, program.text(program.make(only))))
    return os.remove(FILE)
  end
  local first = os.time() % 1000000 * 1000 + 1
  local seed, done = first, 0
  while done < operations do
    local running = {}
    for i = 1, AT_ONCE do
      running[i] = { from = seed, wait = start(runner, "seeds", seed, SEEDS_EACH) }
      seed = seed + SEEDS_EACH
    end
    for _, process in ipairs(running) do
      local ok, count, last, said = process.wait()
      if not ok then tell(runner, last and last + 1 or process.from, process.from, said) end
      done = done + count
    end
  end
  print(("seeds %d to %d: core and model agree on %d outcomes"):format(first, seed - 1, done))
  os.remove(FILE)
end

local arguments = { ... }
local mode = table.remove(arguments, 1)
for i, argument in ipairs(arguments) do arguments[i] = math.tointeger(argument) or argument end
modes[mode](table.unpack(arguments))
