-- A stack overflow in what a program gives to the library. Since Lua 5.4.9 Lua itself often calls it "error in error
-- handling", so each place is tried twice.

local rn = require "runnel"
local stage = require "spec.support.stage"

local TRIES <const> = 2

local function endless() return 1 + endless() end

-- What is done with a function that overflows the stack, and returns the error.
local PLACES = {
  ["a go block"] = function() return select(2, rn.go(endless):take()) end,
  ["a callback"] = function()
    local reports = stage.reports(function() rn.chan(1):put_async(1, endless) end)
    return reports[1].err
  end,
  ["a job"] = function()
    local found
    local results = rn.pmap(1, endless, { 1 }, { ex_handler = function(err) found = err end })
    results:take()
    return found
  end,
  ["a thread"] = function()
    return select(2, rn.thread(function()
      local function deep() return 1 + deep() end
      return deep()
    end):take())
  end,
}

describe("a stack overflow", function()
  before_each(stage.open)
  after_each(stage.close)

  for place, overflow in pairs(PLACES) do
    it("in " .. place .. " is called one #heavy", function()
      for _ = 1, TRIES do
        -- Lua drops a finalizer for which the stack has no room. The state crashes at its end if that was the one of a
        -- handle of a shared channel, so there is none here that could be collected.
        collectgarbage()
        collectgarbage()
        assert.matches("stack overflow", overflow())
      end
    end)
  end
end)
