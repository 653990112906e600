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
end)
