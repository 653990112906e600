local agree = require "spec.support.model.agree"
local long = require "spec.support.long"
local perform = require "spec.support.model.perform"
local program = require "spec.support.model.program"
local stage = require "spec.support.stage"

local SEEDS = long.times(150, 3000)

describe("random programs", function()
  before_each(stage.open)
  after_each(stage.close)

  it("do what the model predicts #ci", function()
    local total = 0
    for seed = 1, SEEDS do
      local difference, events = agree(program.make(seed))
      if difference then error(("%s\nSee it at length: make check-model SEED=%d"):format(difference, seed), 0) end
      total = total + events
    end
    -- They must be about something.
    assert.is_true(total > SEEDS * 10, total)
  end)

  it("are the same for the same seed", function()
    for seed = 1, 20 do
      local once, again = program.make(seed), program.make(seed)
      assert.same(once, again)
      local opts = { seed = seed, shuffle = true }
      assert.same(perform(once, opts).events, perform(again, opts).events)
    end
  end)

  it("are the same when printed and read again", function()
    for seed = 1, 50 do
      local made = program.make(seed)
      assert.same(made, load(program.text(made))())
    end
  end)
end)
