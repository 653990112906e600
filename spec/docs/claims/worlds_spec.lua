-- What the documents say of simulated worlds.

local rn = require "runnel"
local sim = require "runnel.sim"
local no_luv = require "spec.support.missing" "luv"
local uv = not no_luv and require "runnel.uv"
local claim = require "spec.support.docs.claims"(no_luv and pending or it, no_luv)

-- A host that answers each line with the ms so far.
local function clock()
  for conn in assert(uv.listen("0.0.0.0", 80)) do
    rn.go(function()
      for _ in conn:lines() do conn:write(math.floor(sim.elapsed()) .. "\n") end
      conn:close()
    end)
  end
end

describe("the documents say of simulated worlds", function()
  claim("| `latency` | number (ms) | 1 | how long a message takes |", function()
    for latency, expected in pairs { [false] = 1, [7] = 7 } do
      sim.run(function()
        local world = sim.world { latency = latency or nil }
        world:host("clock", clock)
        world:host("client", function()
          local conn = assert(uv.connect("clock", 80))
          local lines, began = conn:lines(), sim.elapsed()
          conn:write "?\n"
          assert.equal(began + expected, tonumber(lines:take()))
          assert.equal(2 * expected, sim.elapsed() - began)
          conn:close()
        end)
        world:run()
      end)
    end
  end)

  claim("How long a message between two hosts takes", function()
    sim.run(function()
      local world = sim.world()
      world:host("clock", clock)
      world:host("client", function()
        world:latency("clock", "client", 50)
        local conn = assert(uv.connect("clock", 80))
        local lines, began = conn:lines(), sim.elapsed()
        conn:write "?\n"
        lines:take()
        assert.equal(100, sim.elapsed() - began)
        conn:close()
      end)
      world:run()
    end)
  end)

  claim("What two hosts send each other arrives only after `heal`", function()
    sim.run(function()
      local world, got = sim.world(), nil
      world:host("clock", clock)
      world:host("client", function()
        local conn = assert(uv.connect("clock", 80))
        local lines = conn:lines()
        world:partition("clock", "client")
        conn:write "?\n"
        got = tonumber(lines:take())
        conn:close()
      end)
      world:run(5000)
      assert.is_nil(got)
      world:heal("clock", "client")
      world:run()
      assert.is_true(got >= 5000)
    end)
  end)

  claim("how much its clock, `os.time`, is ahead", function()
    sim.run(function()
      local world, times = sim.world(), {}
      world:host("a", function() times.a = os.time() end)
      world:host("b", function() times.b = os.time() end, { skew = 60000 })
      world:run()
      assert.equal(60, times.b - times.a)
    end)
  end)

  claim("which close nothing; what was not synced is lost, and its connections are reset", function()
    sim.run(function()
      local world, closed, err = sim.world(), false, nil
      local host = world:host("server", function()
        uv.write("synced", rn.to_chan { "a" }, { sync = true }):take()
        uv.write("unsynced", rn.to_chan { "b" }):take()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        for conn in assert(uv.listen("0.0.0.0", 80)) do conn:read():take() end
      end)
      world:host("client", function()
        rn.sleep(10)
        local conn = assert(uv.connect("server", 80))
        err = select(2, conn:read():take())
      end)
      world:run(100)
      host:crash()
      world:run(100)
      assert.is_false(closed)
      assert.matches("ECONNRESET", tostring(err))
      assert.equal("a", host:get "synced")
      assert.is_nil(host:get "unsynced")
      assert.is_nil(host:get "nosuch")
    end)
  end)

  claim("Ends the program as SIGKILL does: files stay as they are", function()
    sim.run(function()
      local world = sim.world()
      local host = world:host("server", function()
        uv.write("unsynced", rn.to_chan { "b" }):take()
        rn.sleep(1000000)
      end)
      world:run(10)
      host:kill()
      assert.equal("b", host:get "unsynced")
      host:put("made", "c")
      assert.equal("c", host:get "made")
    end)
  end)

  claim("whose channels are its input and output, returns the exit status", function()
    sim.run(function()
      local world, result = sim.world(), nil
      world:program("double", function(args, stdin, stdout)
        for text in stdin do stdout:put(text:rep(2)) end
        return tonumber(args[1])
      end)
      world:host("a", function() result = uv.run { "double", "3", stdin = "ab" } end)
      world:run()
      assert.same({ "abab", 3 }, { result.stdout, result.code })
    end)
  end)

  claim("or that a program waits for ever although its host neither listens for connections or datagrams nor "
    .. "subscribes to NATS messages", function()
    local ok, err = pcall(sim.run, function()
      local world = sim.world()
      world:host("a", function() rn.chan():take() end)
      world:run()
    end)
    assert.is_false(ok)
    assert.matches("wait", tostring(err))
    sim.run(function()
      local world = sim.world()
      world:host("a", clock)
      world:run()
    end)
  end)

  claim("A search that had no place for a fault that was asked for fails: it has not shown anything.", function()
    local ok = pcall(sim.explore, function()
      local world = sim.world { faults = { reset = 1 } }
      world:host("a", function() rn.sleep(1) end)
      world:run()
    end)
    assert.is_false(ok)
  end)
end)
