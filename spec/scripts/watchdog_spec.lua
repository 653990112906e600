-- scripts/watchdog, which ends specs that hang.

local patience = require "spec.support.patience"
local process = require "spec.support.process"

describe("scripts/watchdog #slow", function()
  if not os.execute "command -v bash >/dev/null 2>&1" then
    pending "bash is missing"
    return
  end

  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Runs a program that has a watchdog with a limit of one second for each spec.
  local function watched(text)
    os.execute(("mkfifo '%s/pipe'"):format(dir.path))
    dir:write("runner.lua", ([[
      local watchdog = io.popen("exec '%s/scripts/watchdog' 1 1", "w")
      watchdog:setvbuf "line"
      local function begin(name) watchdog:write(name, "\n") end
      local pipe = io.open("pipe", "r+")
      local function hang() while true do pipe:read "l" end end
    ]]):format(os.getenv "PWD") .. text)
    return process.run(dir.path, ("timeout -s KILL %d %s runner.lua; exit $?"):format(patience.seconds(30),
      os.getenv "LUA" or "lua5.4"))
  end

  it("interrupts a spec that hangs, and names it", function()
    local result = watched [[
      begin "the first"
      begin "the second"
      print(select(2, pcall(hang)))
      begin "the third"
      watchdog:close()
      print "ended"
    ]]
    assert.matches("interrupted!\nended\n$", result.out)
    assert.matches("^\nThis spec has not ended after %d+ s: the second\n$", result.err)
    assert.equal(0, result.status)
  end)

  it("kills the programs for which a spec waits, also those that they have started; then the spec goes on", function()
    local result = watched [[
      begin "waits"
      print(os.execute "sh -c 'sh -c \"sleep 1000; echo\" & sleep 1000; echo'")
      begin "the next"
      watchdog:close()
      print "ended"
    ]]
    assert.equal("nil\tsignal\t9\nended\n", result.out)
    assert.matches("\nIt does not stop, so the programs that it has started end here: waits\n$", result.err)
    assert.equal(0, result.status)
  end)

  it("kills the process if that does not end the spec", function()
    local result = watched [[
      begin "stubborn"
      while true do pcall(hang) end
    ]]
    assert.matches("\nIt does not stop, so the process of its file ends here: stubborn\n", result.err)
    assert.equal(137, result.status)
  end)
end)
