local model = require "spec.support.model"
local program = require "spec.support.program"
local stage = require "spec.support.stage"

local SEEDS = tonumber(os.getenv "RUNNEL_MODEL_SEEDS") or 500

-- Compares a run on the core with what the model predicts; names the seed and the first difference.
local function check(seed)
  local made = program.make(seed)
  local ran = program.run(made, { seed = seed })
  local predicted = model.run(made, ran.choices)
  local function fail(what, expected, got)
    error(("with seed %d: %s: the model has %s, the core %s"):format(seed, what, expected, got), 0)
  end
  for i = 1, math.max(#predicted.events, #ran.events) do
    if predicted.events[i] ~= ran.events[i] then
      fail("event " .. i, tostring(predicted.events[i]), tostring(ran.events[i]))
    end
  end
  for name, expected in pairs(predicted.channels) do
    for key, value in pairs(expected) do
      local got = ran.channels[name][key]
      if got ~= value then fail(("%s of %s"):format(key, name), tostring(value), tostring(got)) end
    end
    if predicted.ended[name] ~= ran.ended[name] then
      fail("end of " .. name, tostring(predicted.ended[name]), tostring(ran.ended[name]))
    end
  end
  return #ran.events
end

describe("random programs", function()
  before_each(stage.open)
  after_each(stage.close)

  it("do what the model predicts", function()
    local events = 0
    for seed = 1, SEEDS do events = events + check(seed) end
    -- They must be about something.
    assert.is_true(events > SEEDS * 10, events)
  end)

  it("do the same while the collector runs all the time", function()
    collectgarbage("incremental", 100, 400, 3)
    for seed = 1, math.min(SEEDS, 100) do check(seed) end
    collectgarbage("incremental", 200, 100, 13)
    collectgarbage("generational")
    for seed = 1, math.min(SEEDS, 100) do check(seed) end
    collectgarbage("incremental")
  end)

  it("are the same for the same seed", function()
    for seed = 1, 50 do
      local once, again = program.make(seed), program.make(seed)
      assert.same(once, again)
      local opts = { seed = seed, shuffle = true }
      assert.same(program.run(once, opts).events, program.run(again, opts).events)
    end
  end)
end)
