-- Processes of a simulated host whose program has ended: they go on, until the machine crashes.

local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

describe("a process of a simulated host", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- A world with a host that starts a process, which serves connections and datagrams; when the host starts again, it
  -- tries to listen itself.
  local function new_world(tried)
    local world = sim.world()
    local function serve(path, port)
      for conn in assert(uv.listen(path, port)) do
        conn:write "worker\n"
        conn:close()
      end
    end
    world:program("worker", function(args)
      if args[1] then uv.spawn { "worker" } end
      rn.go(serve, "/run/worker" .. (args[1] or ""))
      if args[1] then return rn.sleep(10000) end
      rn.go(serve, "0.0.0.0", 80)
      local socket = assert(uv.udp { port = 53 })
      for datagram in socket:read() do socket:send("worker", datagram.host, datagram.port) end
    end)
    local starts = 0
    local host = world:host("server", function()
      starts = starts + 1
      if starts == 1 then uv.spawn { "worker", "1" }
      else
        local conn = uv.connect "/run/worker"
        tried[#tried + 1] = conn and conn:lines():take() or false
        local conns, err = uv.listen("0.0.0.0", 80)
        tried[#tried + 1] = conns and "listens" or err
      end
      rn.sleep(10000)
    end)
    return world, host
  end

  -- What a client gets.
  local function ask()
    local conn <close> = uv.connect("server", 80)
    local socket <close> = assert(uv.udp())
    socket:send("text", "server", 53)
    local datagram = rn.alts { socket:read(), rn.timeout(100) }
    return ("%s %s"):format(conn and conn:lines():take(), datagram and datagram.data)
  end

  local function run(f)
    local got, tried = {}, {}
    sim.run(function()
      local world, host = new_world(tried)
      world:host("client", function()
        rn.sleep(10)
        got[1] = ask()
        f(host, got)
      end)
      world:run(2000)
    end)
    return got, tried
  end

  it("serves others after the end of the program that has started it, and keeps its ports", function()
    for _, ending in ipairs { "kill", "term" } do
      local got, tried = run(function(host, got)
        if ending == "kill" then host:kill() else host:signal "term" end
        got[2] = ask()
        host:restart()
        got[3] = ask()
      end)
      assert.same({ "worker worker", "worker worker", "worker worker" }, got)
      assert.equal("worker", tried[1])
      assert.matches("EADDRINUSE", tried[2])
    end
  end)

  it("ends when the machine crashes, also if the program has ended before, and whoever has started it", function()
    for _, ends_before in ipairs { true, false } do
      local got, tried = run(function(host, got)
        if ends_before then host:kill() end
        host:crash()
        got[2] = ask()
        host:restart()
        rn.sleep(10)
      end)
      assert.same({ "worker worker", "nil nil" }, got)
      assert.same({ false, "listens" }, tried)
    end
  end)

  it("does not tell a later start of the program of its end", function()
    local ended = {}
    sim.run(function()
      local world, starts = sim.world(), 0
      world:program("short", function() rn.sleep(50) end)
      local host = world:host("host", function()
        starts = starts + 1
        local start = starts
        local child = start == 1 and uv.spawn { "short" }
        if child then child.exit:take_async(function() ended[#ended + 1] = start end) end
        rn.sleep(200)
      end)
      rn.sleep(10)
      host:kill()
      host:restart()
      world:run()
    end)
    assert.same({}, ended)
  end)

  it("is not left behind by a search, if it serves others", function()
    assert.matches("^all", sim.explore(function()
      local world = sim.world()
      world:program("worker", function()
        for conn in assert(uv.listen("0.0.0.0", 80)) do conn:close() end
      end)
      world:host("server", function()
        uv.spawn { "worker", stdin = false, stdout = false, stderr = false }
      end)
      world:run()
    end))
  end)

  it("leaves the file of its Unix socket when it is killed, as a real one", function()
    local errors = {}
    sim.run(function()
      local world = sim.world()
      local host = world:host("host", function()
        local conns, err = uv.listen "/run/socket"
        errors[#errors + 1] = conns and "listens" or err
        if not conns then
          errors[#errors + 1] = select(2, uv.connect "/run/socket")
          os.remove "/run/socket"
          conns = assert(uv.listen "/run/socket")
          conns:close()
          rn.sleep(1)
          errors[#errors + 1] = select(2, uv.connect "/run/socket")
        end
        rn.sleep(1000)
      end)
      rn.sleep(1)
      host:kill()
      host:restart()
      world:run()
    end)
    assert.equal("listens", errors[1])
    assert.matches("EADDRINUSE", errors[2])
    assert.matches("ECONNREFUSED", errors[3])
    assert.matches("ENOENT", errors[4])
  end)
end)
