-- bench/cores.lua as a person runs it.

local shell = require "spec.support.shell"

describe("bench/cores.lua", function()
  it("prints its tables #slow #ci", function()
    local output, errors, status = shell.run "lua bench/cores.lua --quick"
    assert.same({ "", 0 }, { errors, status })
    assert.matches("\n| +1000 | +[%d.]+ | +[%d.]+ | +%-?[%d.]+ |\n| +100 |", output)
    assert.matches("\n| with all of runnel +| +[%d.]+ | +[%d.]+ |\n$", output)
  end)

  it("says how to use it", function()
    local output, errors, status = shell.run "lua bench/cores.lua --fast"
    assert.same({ "", "usage: lua5.4 bench/cores.lua [--quick]\n", 2 }, { output, errors, status })
  end)
end)
