-- os.exit and rn.exit in the program of a simulated host, and the end of a script after a world.

local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local EXITS = {
  ["os.exit()"] = function() os.exit() end,
  ["os.exit(1)"] = function() os.exit(1) end,
  ["os.exit(true, true)"] = function() os.exit(true, true) end,
  ["rn.exit()"] = function() rn.exit() end,
  ["rn.exit(3)"] = function() rn.exit(3) end,
}

-- Where a program calls it.
local PLACES = {
  ["its own go block"] = function(exit) exit() end,
  ["another go block"] = function(exit) rn.go(exit):take() end,
  ["pcall"] = function(exit) pcall(exit) end,
  ["a coroutine of its own"] = function(exit) coroutine.wrap(exit)() end,
  ["the error handler"] = function(exit)
    rn.on_error(exit)
    rn.go(error, "an error")
    rn.sleep(10000)
  end,
  ["the error handler, for an error in a callback"] = function(exit)
    rn.on_error(exit)
    local ch = rn.chan(1)
    ch:put_async(1, function() error "an error" end)
    rn.sleep(30)
  end,
  ["a function that C calls"] = function(exit) return (("x"):gsub(".", exit)) end,
}

describe("in a simulated world", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(stage.open)
  after_each(stage.close)

  for place, call in pairs(PLACES) do
    it("os.exit and rn.exit end the host, and nothing else, in " .. place, function()
      for name, exit in pairs(EXITS) do
        local explored = sim.explore(function()
          local world, went_on, refused = sim.world(), false, nil
          local host = world:host("server", function()
            assert(uv.listen("0.0.0.0", 80))
            rn.go(function()
              rn.sleep(15000)
              went_on = true
            end)
            rn.sleep(10)
            call(exit)
            went_on = true
          end)
          world:host("client", function()
            rn.sleep(20000)
            refused = select(2, uv.connect("server", 80))
          end)
          world:run()
          assert(not went_on, name .. ": it goes on")
          assert(not host.alive and tostring(refused):find "refused", name .. ": its port is open")
          host:restart()
          assert(host.alive)
        end, { seconds = 0.05 })
        assert.is_true(explored.schedules > 0)
      end
    end)
  end

  it("they end a process with their status", function()
    sim.run(function()
      local world, codes = sim.world(), {}
      world:program("command", function(args)
        rn.go(function() rn.sleep(5) end)
        pcall(os.exit, tonumber(args[1]) or args[1] == "true")
      end)
      world:host("host", function()
        for i, argument in ipairs { "3", "0", "true", "false" } do codes[i] = uv.run({ "command", argument }).code end
      end)
      world:run()
      assert.same({ 3, 0, 0, 1 }, codes)
    end)
  end)

  it("the search finds what comes after the end of one host, and tells the end in its story", function()
    local _, message = pcall(sim.explore, function()
      local world = sim.world()
      world:host("server", function()
        rn.sleep(10)
        os.exit(2)
      end)
      world:host("client", function()
        rn.sleep(100)
        error "the bug"
      end)
      world:run()
    end)
    assert.matches("the bug", message)
    assert.matches("at 10 ms:\n +server: exits with status 2\n", message)
  end)

  it("a host that listens is not told as parked at the end of the script", function()
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local sim, uv = require "runnel.sim", require "runnel.uv"
      sim.run(function()
        local world = sim.world()
        world:host("server", function() for conn in assert(uv.listen("0.0.0.0", 7)) do conn:close() end end)
        world:host("client", function() assert(uv.connect("server", 7)):close() end)
        world:run()
      end)
      print "the end"
    ]])
    local here = io.popen("pwd"):read "l"
    local result = process.run(dir.path, ("cd '%s'; %s %s/script.lua"):format(here, process.runnel, dir.path))
    assert.same({ out = "the end\n", err = "", status = 0 }, result)
  end)
end)
