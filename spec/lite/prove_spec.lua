local rn = require "runnel"
local long = require "tests.prove.long"
local long_space = require "tests.prove.long_space"
local operations = require "tests.prove.operations"
local perform = require "tests.prove.perform"
local space = require "tests.prove.space"
local often = require "spec.support.long"

local PROGRAMS = often.times(40, 150)

local function generator(seed)
  local state = seed
  return function(n)
    state = state * 48271 % 2147483647
    return state // 7 % n + 1
  end
end

describe("small programs #heavy", function()
  after_each(function() rn.on_error(nil) end)

  it("do the same in the C core and in lite.lua, in every order", function()
    local random, schedules = generator(17), 0
    for i = 1, PROGRAMS do
      local program = space.sample(random, i)
      local core, lite = perform.core(program), perform.lite(program)
      local number, ours, theirs = perform.difference(core, lite)
      assert.is_nil(number, number and ("%s\n\n%s\n\n%s"):format(space.text(program), ours, theirs))
      schedules = schedules + #core
    end
    assert.is_true(schedules > PROGRAMS * 5, schedules) -- they must be about something
  end)

  it("do the same with more and larger channels, many timers and callbacks, and outside simulations #heavy", function()
    local random, schedules = generator(3), 0
    for i = 1, PROGRAMS do
      local is_outside = i % 2 == 0
      local engine = is_outside and long.outside or long
      local program = long_space.make(random, is_outside)
      local core, lite = engine.core(program), engine.lite(program)
      local number, ours, theirs = perform.difference(core, lite)
      assert.is_nil(number, number and ("%s\n\n%s\n\n%s"):format(long_space.text(program), ours, theirs))
      schedules = schedules + #core
    end
    assert.is_true(schedules > PROGRAMS, schedules)
  end)

  it("differ if one engine has another buffer", function()
    local made = operations.channels["1"]
    operations.channels["1"] = function(module) return module.chan(module == rn and 1 or 2) end
    finally(function() operations.channels["1"] = made end)
    local program = { kinds = { "1", "0" }, blocks = { { 1, 1 } } } -- put a; put a
    local number, ours, theirs = perform.difference(perform.core(program), perform.lite(program))
    assert.equal(1, number)
    assert.equal("1 put a: true\na: 1 values, 1 puts and 0 takes wait, 1 put, 0 taken", ours:match "(.*)\nb")
    assert.equal("1 put a: true\n1 put a: true\na: 2 values, 0 puts and 0 takes wait, 2 put, 0 taken",
      theirs:match "(.*)\nb")
  end)

  it("are all in units of work, once each", function()
    if not often.tries(1, 4) then return end -- it needs as long as all others together
    local total, unit = space.units()
    local seen, n = {}, 0
    for number = 0, total - 1 do
      local it = unit(number)
      if it.shape.blocks == 4 and it.kinds[1] == "0" and it.kinds[2] == "1" then
        space.each(it, function(program)
          local text = space.text(program)
          assert.is_nil(seen[text])
          seen[text], n = true, n + 1
        end)
      end
    end
    -- 4 of 25 operations in any order; without the programs that do not use b, of operations of which none uses it.
    local function choices(of) return of * (of + 1) * (of + 2) * (of + 3) // 24 end
    local without = 0
    for i = 1, 25 do without = without + (operations.list[i].name:find "[ tp]b" and 0 or 1) end
    assert.is_true(without < 25)
    assert.equal(choices(25) - choices(without), n)
  end)
end)
