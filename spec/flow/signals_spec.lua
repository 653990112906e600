-- Ctrl-C and SIGTERM while the main program waits for a flow, each in a process of its own.

local process = require "spec.support.process"
require "runnel" -- its C modules need it

local PROGRAM = [[
local rn, flow = require "runnel", require "runnel.flow"
local n = 0
local f = flow("job", {
  count = { source = function(put)
    for i = 1, math.huge do
      put(i)
      if i == 3 then io.popen "kill -%s $PPID":close() end -- os.execute would ignore it
      rn.sleep(5)
    end
  end },
  save = { function() rn.sleep(%d) n = n + 1 end },
  "count > save",
})
print(f:wait())
print(n >= 3)
]]

describe("a flow that the main program waits for", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function run(signal, ms, host)
    dir:write("job.lua", PROGRAM:format(signal, ms))
    return process.run(dir.path, ("timeout -s KILL 20 %s job.lua"):format(host or process.runnel))
  end

  it("is drained by Ctrl-C", function()
    for _, host in ipairs { process.runnel, os.getenv "LUA" or "lua5.4" } do
      local result = run("INT", 1, host)
      assert.same({ "true\tnothing left\ntrue\n", 0 }, { result.out, result.status })
    end
  end)

  it("is drained by SIGTERM", function()
    if not pcall(require, "runnel.nats.core") then return pending "runnel.nats is not installed" end
    local result = run("TERM", 1)
    assert.same({ "true\tnothing left\ntrue\n", 0 }, { result.out, result.status })
  end)

  it("ends with the second Ctrl-C", function()
    local result = run("INT $PPID; (sleep 0.3; kill -INT $PPID) & true", 100000)
    assert.not_equal(0, result.status)
    assert.equal("", result.out)
  end)
end)
