-- bench/queues.lua as a person runs it.

local shell = require "spec.support.shell"

describe("bench/queues.lua", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end

  it("prints a table of the chosen queues #ci", function()
    local output, errors, status = shell.run "lua bench/queues.lua --quick store"
    assert.same({ "", 0 }, { errors, status })
    local figures = " +| +%d+ us | +%d+ us | +%d+ us | +1.0 | +1.0 |"
    assert.matches('\n| runnel.store | +on the disk: synchronous = "full"' .. figures
      .. '\n| runnel.store | +in the system: synchronous = "normal"' .. figures .. "\n$", output)
  end)

  it("says how to use it", function()
    local output, errors, status = shell.run "lua bench/queues.lua kafka"
    assert.same({ "", "usage: lua5.4 bench/queues.lua [--quick] [store] [nats] [bullmq] [pg-boss]\n", 2 },
      { output, errors, status })
  end)
end)
