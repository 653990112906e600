-- Runs the examples of input and output as a person does: each in a process of its own.

local shell = require "spec.support.shell"

if not pcall(require, "luv") then
  describe("the examples of input and output", function() pending "luv is not installed" end)
  return
end

-- Tells what a command says to arguments that it does not take.
local function assert_usage(command)
  local output, errors, status = shell.run(command)
  assert.equal("", output)
  assert.matches("usage: lua5.4 " .. command:match "examples/[%w_]+%.lua", errors)
  assert.equal(2, status)
end

describe("examples/guest.lua", function()
  it("shares luv's loop between a busy go block, a sleeping one and a timer #slow", function()
    local output, errors, status = shell.run "lua examples/guest.lua 300"
    assert.same({ "", 0 }, { errors, status })
    local turns, sleeps, ticks = output:match "^(%d+) turns of a busy go block, (%d+) sleeps of 1 ms, (%d+) ticks"
    assert.is_true(tonumber(turns) > 1000, output)
    assert.is_true(tonumber(sleeps) > 30, output)
    assert.is_true(tonumber(ticks) > 30, output)
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "x", "0", "1.5", "1 1" } do assert_usage("lua examples/guest.lua " .. arguments) end
  end)
end)
