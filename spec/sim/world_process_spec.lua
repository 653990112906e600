-- Processes and signals of simulated hosts: functions in place of commands. Where a command is real, too, uv.run gives
-- the same for both.

local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")

describe("a process of a simulated host", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Runs f on a host that has these commands, and returns what it returns.
  local function on_host(programs, f)
    return sim.run(function()
      local world, result = sim.world(), nil
      for name, program in pairs(programs) do world:program(name, program) end
      world:host("host", function() result = table.pack(f(world)) end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  local function cat(_, stdin, stdout)
    for chunk in stdin do stdout:put(chunk) end
  end

  -- What `sh -c SCRIPT` does, as a function, by script.
  local SH = {
    ["cat"] = cat,
    ["exit 3"] = function() return 3 end,
    ["echo out; echo err >&2"] = function(_, _, stdout, stderr)
      stdout:put "out\n"
      stderr:put "err\n"
    end,
    ["head -c 1000000 /dev/zero"] = function(_, _, stdout) stdout:put(("\0"):rep(1000000)) end,
    ["exec sleep 100"] = function() rn.sleep(100000) end,
    ["echo more than 10 bytes; exec sleep 100"] = function(_, _, stdout)
      stdout:put "more than 10 bytes\n"
      rn.sleep(100000)
    end,
    ["head -c 1 >/dev/null"] = function(_, stdin) stdin:take() end,
    ["trap 'exit 7' TERM; sleep 100 & wait"] = function()
      uv.signal("term"):take()
      return 7
    end,
  }

  local function sh(args, ...)
    assert.equal("-c", args[1])
    return SH[args[2]](args, ...)
  end

  -- The result of uv.run as a text.
  local function outcome(options)
    local result, err, more = uv.run(options)
    local parts = { tostring(err) }
    for _, name in ipairs { "code", "signal", "stdout", "stderr" } do
      parts[#parts + 1] = ("%s = %s"):format(name, tostring((result or more or {})[name]))
    end
    return table.concat(parts, ", ")
  end

  local function same(name, options)
    it("does what a real one does: " .. name, function()
      local real
      rn.go(function() real = outcome(options) end):take()
      assert.equal(real, on_host({ sh = sh }, function() return outcome(options) end))
    end)
  end

  same("input and output", { "sh", "-c", "cat", stdin = "hello" })
  same("much input and output", { "sh", "-c", "cat", stdin = ("x"):rep(300000) })
  same("no input", { "sh", "-c", "cat" })
  same("a large output at its end", { "sh", "-c", "head -c 1000000 /dev/zero" })
  same("the exit status", { "sh", "-c", "exit 3" })
  same("both outputs", { "sh", "-c", "echo out; echo err >&2" })
  same("both outputs in one", { "sh", "-c", "echo out; echo err >&2", stderr = "stdout" })
  same("no outputs", { "sh", "-c", "echo out; echo err >&2", stderr = false, stdout = false })
  same("an end by a signal after a time limit", { "sh", "-c", "exec sleep 100", timeout = 20 })
  same("input that it does not read", { "sh", "-c", "head -c 1 >/dev/null", stdin = ("x"):rep(1000000) })
  same("a command that does not exist", { "no such command" })
  same("more output than the limit", { "sh", "-c", "echo more than 10 bytes; exec sleep 100", max = 10 })

  it("fails with status 1 and a message if its function raises an error", function()
    local text = on_host({ fails = function() error("oh no", 0) end }, function() return outcome { "fails" } end)
    assert.equal("nil, code = 1, signal = nil, stdout = , stderr = oh no\n", text)
  end)

  it("gets signals by uv.signal, or ends by them", function()
    local function wait() rn.sleep(1000) end
    local polite = SH["trap 'exit 7' TERM; sleep 100 & wait"]
    on_host({ wait = wait, polite = polite }, function()
      local one, two = uv.spawn { "wait" }, uv.spawn { "polite" }
      rn.sleep(10)
      assert.is_true(one:kill "hup")
      assert.same({ code = 129, signal = 1 }, one.exit:take())
      assert.is_false(one:kill())
      assert.is_true(two:kill())
      assert.same({ code = 7 }, two.exit:take())
      local three = uv.spawn { "polite", grace = 5000 }
      rn.sleep(10)
      three:close()
      assert.is_nil(three.ending) -- the number of a simulated process is that of a real one, which would get the signal
      assert.equal(7, three.exit:take().code)
      local four = uv.spawn { "polite" }
      rn.sleep(10)
      four:kill "kill"
      assert.same({ code = 137, signal = 9 }, four.exit:take())
    end)
  end)

  it("can use the network and the disk of its host", function()
    sim.run(function()
      local world, answer = sim.world(), nil
      world:program("fetch", function(args, _, stdout)
        local conn <close> = assert(uv.connect(args[1], 80))
        local text = conn:lines():take()
        local ch = rn.chan(1)
        ch:put(text)
        ch:close()
        uv.write("/tmp/fetched", ch):take()
        stdout:put(text)
      end)
      world:host("server", function()
        for conn in assert(uv.listen("0.0.0.0", 80)) do
          conn:write "hello\n"
          conn:close()
        end
      end)
      local host = world:host("client", function() answer = uv.run({ "fetch", "server" }).stdout end)
      world:run()
      assert.equal("hello", answer)
      assert.equal("hello", host:get "/tmp/fetched")
    end, { leaks = true })
  end)

  it("ends with its host in a crash, and loses its connections when it is killed", function()
    local n, ended = 0, nil
    sim.run(function()
      local world = sim.world()
      world:program("ticks", function()
        for _ in uv.ticker(10) do n = n + 1 end
      end)
      local host = world:host("host", function() uv.run { "ticks" } end)
      rn.sleep(55)
      host:crash()
      world:run()
    end, { leaks = true })
    assert.equal(5, n)
    sim.run(function()
      local world = sim.world()
      world:program("hold", function() assert(uv.connect("server", 80)):read():take() end)
      world:host("server", function()
        local conn = assert(uv.listen("0.0.0.0", 80)):take()
        ended = select("#", conn:read():take()) > 0
      end)
      world:host("host", function()
        local process = uv.spawn { "hold" }
        rn.sleep(10)
        process:kill "kill"
        process.exit:take()
      end)
      world:run()
    end, { leaks = true })
    assert.is_true(ended)
  end)

  it("leaves its number to others when it has ended #ci", function()
    on_host({ nothing = function() end }, function(world)
      for _ = 1, 5000 do uv.run { "nothing" } end
      assert.is_true(#world.names < 10)
    end)
  end)

  it("is not killed by the finalizer of a process of an earlier world", function()
    assert.is_false((pcall(sim.run, function() -- is left with a process that runs
      local world = sim.world()
      world:program("slow", function() rn.chan():take() end)
      world:host("host", function() uv.run { "slow" } end)
      rn.sleep(10)
    end, { leaks = true })))
    local code = on_host({
      slow = function()
        rn.sleep(10)
        for _ = 1, 3 do collectgarbage() end
        rn.sleep(10)
        return 7
      end,
    }, function() return uv.run({ "slow" }).code end)
    assert.equal(7, code)
  end)

  it("can be a program of a host that gets signals", function()
    local got
    sim.run(function()
      local world = sim.world()
      local host = world:host("host", function() got = uv.signal("hup", "term"):take() end)
      local other = world:host("other", function() rn.sleep(1000000) end)
      rn.sleep(10)
      host:signal "term"
      other:signal "term"
      world:run()
      assert.is_true(sim.elapsed() < 1000)
    end, { leaks = true })
    assert.equal("term", got)
  end)

  it("is the same in each run of a search, whatever the collector finds of the signals of earlier runs", function()
    local explored = sim.explore(function()
      local world = sim.world()
      local host = world:host("host", function()
        uv.signal("term"):take()
        rn.go(function()
          for conn in assert(uv.listen("0.0.0.0", 80)) do conn:close() end
        end)
      end)
      world:host("other", function()
        rn.sleep(10)
        host:signal "term"
      end)
      world:run(10000)
    end, { seconds = 60 })
    assert.is_true(explored.all)
  end)

  it("ends by a second Ctrl-C if it has not taken the first", function()
    sim.run(function()
      local world, ends = sim.world(), {}
      local function add(name, takes)
        return world:host(name, function()
          local int = uv.signal "int"
          rn.sleep(50)
          if takes then int:take() end
          rn.sleep(1000)
          ends[name] = true
        end)
      end
      local one, two = add("takes", true), add("ignores", false)
      for _ = 1, 2 do
        rn.sleep(20)
        one:signal "int"
        two:signal "int"
        rn.sleep(20)
      end
      world:run()
      assert.same({ takes = true }, ends)
    end)
  end)
end)
