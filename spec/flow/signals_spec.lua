-- Ctrl-C and SIGTERM while the main program waits for a flow, each in a process of its own.

local process = require "spec.support.process"
require "runnel" -- its C modules need it

local PROGRAM = [[
local rn, flow = require "runnel", require "runnel.flow"
local n = 0
local function mark(name) io.open(name, "w"):close() end
local f = flow("job", {
  count = { source = function(put)
    local _ <close> = setmetatable({}, { __close = function() mark "drains" end })
    for i = 1, math.huge do
      put(i)
      if i == 3 then io.popen "kill -%s $PPID":close() end -- os.execute would ignore it
      rn.sleep(5)
    end
  end },
  save = { function()
    rn.sleep(%d)
    n = n + 1
    if n == 11 then mark "eleven" end
  end },
  "count > save",
})
print(f:wait())
print(n)
]]

describe("a flow that the main program waits for", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function run(signal, ms, host)
    dir:write("job.lua", PROGRAM:format(signal, ms))
    return process.run(dir.path, (host or process.runnel) .. " job.lua")
  end

  -- A shell command that waits until the program has marked an event.
  local function when(event) return ("until [ -e %s ]; do sleep 0.01; done; rm %s"):format(event, event) end

  -- How many values were saved, if nothing was left.
  local function drained(result)
    assert.equal(0, result.status, result.err)
    return tonumber(result.out:match "^true\n(%d+)\n$")
  end

  it("is drained by Ctrl-C", function()
    for _, host in ipairs { process.runnel, os.getenv "LUA" or "lua5.4" } do
      assert.is_true(drained(run("INT", 1, host)) >= 3)
    end
  end)

  it("is drained by SIGTERM", function()
    for _, host in ipairs { process.runnel, os.getenv "LUA" or "lua5.4" } do
      assert.is_true(drained(run("TERM", 1, host)) >= 3)
    end
  end)

  it("ends with the second Ctrl-C or SIGTERM", function()
    for _, signal in ipairs { "INT", "TERM" } do
      local result = run(("%s $PPID; (%s; kill -%s $PPID) & true"):format(signal, when "drains", signal), 100000)
      assert.not_equal(0, result.status)
      assert.equal("", result.out)
    end
  end)

  it("goes on after a SIGTERM that the program ignores, until Ctrl-C", function()
    local host = [[sh -c 'trap "" TERM; exec "$0" "$@"' ]] .. process.runnel
    assert.is_true(drained(run(("TERM $PPID; (%s; kill -INT $PPID) & true"):format(when "eleven"), 1, host)) > 10)
  end)

  it("is not what SIGTERM ends when it has ended", function()
    dir:write("job.lua", [[
      require "runnel.flow" ("one", { a = { from = { 1 } }, b = print, "a > b" }):wait()
      io.popen "kill -TERM $PPID":close()
      print "not reached"]])
    local result = process.run(dir.path, process.runnel .. " job.lua")
    assert.same({ "1\n", true }, { result.out, result.status ~= 0 })
  end)

  it("is drained at once if SIGTERM has come before", function()
    dir:write("job.lua", [[
      local rn, flow = require "runnel", require "runnel.flow"
      local function job(last)
        return flow("job", {
          count = { source = function(put)
            for i = 1, math.huge do
              put(i)
              if i == last then io.popen "kill -TERM $PPID":close() end
              rn.sleep(1)
            end
          end },
          save = { function() end },
          "count > save",
        }):wait()
      end
      print(job(3))
      print(job())]])
    local result = process.run(dir.path, process.runnel .. " job.lua")
    assert.same({ ("true\n"):rep(2), 0 }, { result.out, result.status })
  end)

  it("is a deadlock if nothing but a signal could end it", function()
    dir:write("job.lua", [[
      local never = require "runnel".chan()
      require "runnel.flow" ("one", { a = { from = never }, b = print, "a > b" }):wait()]])
    local result = process.run(dir.path, process.runnel .. " job.lua")
    assert.equal(1, result.status)
    assert.matches("deadlock: .*%(one.a at job.lua:2 %-> chan: one.b%): take on chan: #%d+ at job.lua:2\n", result.err)
  end)
end)
