-- Ctrl-C and SIGQUIT in scripts that handle them themselves.

local process = require "spec.support.process"

local runnel = process.runnel

describe("a signal that the executable handles, too,", function()
  if not package.searchpath("luv", package.cpath) then return pending "luv is not installed" end

  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  -- Runs a script whose argument is the name of a signal; `press` sends it to the program.
  local function run(signal, text, options)
    dir:write("script.lua", [[
      local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
      local signal = ...
      local function press() luv.kill(luv.os_getpid(), "sig" .. signal) end
      local function threads()
        local folder, n = luv.fs_scandir "/proc/self/task", 0
        while folder and luv.fs_scandir_next(folder) do n = n + 1 end
        return n
      end
    ]] .. text)
    return process.run(dir.path, ("%s %s script.lua %s"):format(runnel, options or "", signal))
  end

  it("reaches a channel after the script has ended", function()
    for _, signal in ipairs { "int", "quit" } do
      local result = run(signal, [[
        local stop = uv.signal(signal)
        rn.go(function()
          print(stop:take())
          os.exit(5)
        end)
        rn.after(1, press)
        rn.after(60000, os.exit)
      ]])
      assert.same({ out = signal .. "\n", err = "", status = 5 }, result)
    end
  end)

  it("reaches a channel that an option has made", function()
    for _, signal in ipairs { "int", "quit" } do
      local result = run(signal, [[
        rn.after(1, press)
        print(stop:take())
      ]], ([[-e 'stop = require("runnel.uv").signal "%s"']]):format(signal))
      assert.same({ out = signal .. "\n", err = "", status = 0 }, result)
    end
  end)

  it("reaches another library's handler after the script has ended", function()
    for _, signal in ipairs { "int", "quit" } do
      local result = run(signal, [[
        luv.new_signal():start("sig" .. signal, function()
          print "handled"
          os.exit(5)
        end)
        rn.after(1, press)
        rn.after(60000, os.exit)
      ]])
      assert.same({ out = "handled\n", err = "", status = 5 }, result)
    end
  end)

  local CLOSE = 'uv.signal(signal):close()\n'
  local WAIT = [[
    local closing <close> = setmetatable({}, { __close = function() print "closed" end })
    press()
    rn.sleep(60000)
  ]]

  it("raises again in the script once its channel is closed", function()
    for _, close in ipairs {
      CLOSE,
      "rn.thread(function() require('runnel.uv').signal('int'):close() end):take()\n",
      "local before = threads() rn.thread(function() local ch = require('runnel.uv').signal 'int' "
        .. "require('runnel').go(function() ch:take() end) end):take() while threads() > before do rn.sleep(1) end\n",
    } do
      local result = run("int", close .. WAIT)
      assert.matches("^[^\n]*interrupted!\n", result.err)
      assert.same({ "closed\n", 130 }, { result.out, result.status })
    end
  end)

  it("has its report again once its channel is closed", function()
    local result = run("quit", CLOSE .. "press() rn.sleep(1) print 'on'")
    assert.matches("^SIGQUIT:\n", result.err)
    assert.same({ "on\n", 0 }, { result.out, result.status })
  end)

  it("writes the trace again once its channel is closed", function()
    for signal, status in pairs { hup = 129, int = 130, term = 143 } do
      local result = run(signal, CLOSE .. "press() rn.sleep(60000)", "--trace=trace.json")
      assert.equal(status, result.status)
      assert.matches("%]", dir:read "trace.json")
      os.remove(dir.path .. "/trace.json")
    end
  end)

  it("is ignored again once its channel is closed, if it was before", function()
    dir:write("script.lua", [[
      local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
      uv.signal("hup"):close()
      luv.kill(luv.os_getpid(), "sighup")
      print "on"
    ]])
    local result = process.run(dir.path, "trap '' HUP; " .. runnel .. " script.lua")
    assert.same({ out = "on\n", err = "", status = 0 }, result)
  end)
end)
