---The common part of tests/adversary: runs random programs that misuse the library.
---
---    runner tests/adversary/NAME.lua ROUNDS [SEED]
---        runs ROUNDS * PROGRAMS_A_ROUND random programs, with seeds from SEED on, by default one that it prints
---    runner tests/adversary/NAME.lua seed SEED
---        runs the program of one seed
---    runner tests/adversary/NAME.lua program FILE
---        runs a program that a failure has printed
---
---A program is a list of steps. A step is a table without cycles, of strings, numbers, booleans and tables; a field
---that is a list of tables is a list of steps, too. A program that fails, crashes or hangs is reduced: steps are
---removed as long as it still fails. Each attempt runs in a process of its own.
---
---A file in tests/adversary ends like this:
---
---    support.main({
---      name = "go",
---      generate = function() ... end, -- makes a program with math.random, which has been seeded
---      play = function(program) ... end, -- runs it, and raises an error if the outcome is wrong
---    }, ...)

local copy = require "spec.support.copy"

local t = t -- luacheck: globals t

local PROGRAMS_A_ROUND = 20
local SECONDS_EACH = 120 -- for one program

local support = {}

---@class AdversaryTest
---@field name string
---@field generate fun(): table
---@field play fun(program: table)

-- ---- programs as text ----

local function key_text(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then return key end
  return "[" .. (type(key) == "string" and ("%q"):format(key) or tostring(key)) .. "]"
end

local function sorted_keys(value)
  local keys = {}
  for key in pairs(value) do
    if not (math.type(key) == "integer" and key >= 1 and key <= #value) then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function text(value)
  if type(value) ~= "table" then return ("%q"):format(value) end
  local parts = {}
  for i = 1, #value do parts[i] = text(value[i]) end
  for _, key in ipairs(sorted_keys(value)) do parts[#parts + 1] = key_text(key) .. " = " .. text(value[key]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

---A program as Lua source, one step a line.
---@param program table
---@return string
function support.text(program)
  local lines = {}
  for i, step in ipairs(program) do lines[i] = "  " .. text(step) .. ",\n" end
  for _, key in ipairs(sorted_keys(program)) do
    lines[#lines + 1] = "  " .. key_text(key) .. " = " .. text(program[key]) .. ",\n"
  end
  return "return {\n" .. table.concat(lines) .. "}\n"
end

-- ---- smaller programs ----

-- All lists of steps in a program, outer ones first. Copies of a program have them in the same order.
local function step_lists(program)
  local found = {}
  local function visit(value)
    if type(value) ~= "table" then return end
    if type(value[1]) == "table" then found[#found + 1] = value end
    for _, element in ipairs(value) do visit(element) end
    for _, key in ipairs(sorted_keys(value)) do visit(value[key]) end
  end
  visit(program)
  return found
end

-- Yields every program that is smaller by one cut, the largest cuts first.
local function each_smaller(program)
  return coroutine.wrap(function()
    for number, list in ipairs(step_lists(program)) do
      local size = #list
      while size >= 1 do
        for from = 1, #list, size do
          local smaller = copy(program)
          local cut = step_lists(smaller)[number]
          for i = math.min(from + size - 1, #list), from, -1 do table.remove(cut, i) end
          coroutine.yield(smaller)
        end
        size = size // 2
      end
    end
  end)
end

---Makes a program smaller.
---@param program table one that fails
---@param fails fun(program: table): boolean whether one still does
---@return table smaller
function support.shrink(program, fails)
  local function step()
    for smaller in each_smaller(program) do
      if fails(smaller) then return smaller end
    end
  end
  local smaller = step()
  while smaller do
    program = smaller
    smaller = step()
  end
  return program
end

-- ---- playing ----

local function make(test, seed)
  math.randomseed(seed, 0)
  return test.generate()
end

local function play(test, program)
  t.limit(SECONDS_EACH)
  test.play(program)
  t.invariants()
end

-- Runs the script with these arguments in a process of its own. Returns whether it succeeded, its output, and the last
-- seed with which it began a program.
local function run_apart(...)
  local pipe = assert(io.popen(table.concat({ t.command, ... }, " ") .. " 2>&1"))
  local said, seed = {}, nil
  for line in pipe:lines() do
    local number = line:match "^seed (%d+)$"
    if number then seed = math.tointeger(number)
    elseif #said < 60 then said[#said + 1] = line end
  end
  local ok, how, code = pipe:close()
  if not ok and #said == 0 then said[1] = ("ended by %s %d"):format(how, code) end
  return ok or false, table.concat(said, "\n"), seed
end

-- Prints the failure of a seed's program. If the program also fails on its own, prints a reduced one.
local function tell(test, seed, said)
  print(("%s: seed %d fails (%s seed %d): %s"):format(test.name, seed, t.command, seed, said))
  local path = os.tmpname()
  local why
  local function fails(program)
    local file = assert(io.open(path, "w"))
    file:write(support.text(program))
    file:close()
    local ok, message = run_apart("program", path)
    if not ok then why = message end
    return not ok
  end
  local program = make(test, seed)
  if fails(program) then
    program = support.shrink(program, fails)
    print(("\nthis reduced program also fails: %s\n\n%s"):format(why, support.text(program)))
  else
    print "its program does not fail on its own, only after those of the seeds before it"
  end
  os.remove(path)
end

-- Runs the programs of `count` seeds. The processes of play_rounds call this.
local function play_seeds(test, from, count)
  for seed = from, from + count - 1 do
    print(("seed %d"):format(seed))
    play(test, make(test, seed))
  end
end

local function play_rounds(test, rounds, seed)
  local first = seed or os.time() % 1000000 * 1000 + 1
  for round = 1, rounds do
    local from = first + (round - 1) * PROGRAMS_A_ROUND
    local ok, said, last = run_apart("seeds", from, PROGRAMS_A_ROUND)
    if not ok then
      tell(test, last or from, said)
      os.exit(false)
    end
  end
  print(("%s: %d programs, seeds %d to %d: no failure"):format(test.name, rounds * PROGRAMS_A_ROUND, first,
    first + rounds * PROGRAMS_A_ROUND - 1))
end

---Runs the programs that the arguments name; see above.
---@param test AdversaryTest
---@param mode string
---@param argument? string
---@param count? string
function support.main(test, mode, argument, count)
  local number = math.tointeger(argument)
  if mode == "program" then play(test, assert(loadfile(argument))())
  elseif mode == "seed" then play(test, make(test, assert(number, "seed: a number expected")))
  elseif mode == "seeds" then play_seeds(test, assert(number), assert(math.tointeger(count)))
  else play_rounds(test, assert(math.tointeger(mode), "a number of rounds expected"), number) end
end

return support
