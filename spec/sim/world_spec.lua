-- sim.world: hosts, the network between them, and faults.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local process = require "spec.support.process"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")

-- The message with which a function fails.
local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe("sim.world", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- A server that answers each line with `answer(line)`.
  local function serve(answer, port)
    return function()
      for conn in assert(uv.listen("0.0.0.0", port or 80)) do
        rn.go(function()
          local lines = conn:lines()
          while true do
            local line = lines:take()
            if not line then return conn:close() end
            conn:write(answer(line) .. "\n")
          end
        end)
      end
    end
  end

  local function echo(line) return line end

  -- Sends a line, and returns the answer; or nil and an error.
  local function ask(host, line, port, opts)
    local conn <close>, err = uv.connect(host, port or 80, opts)
    if not conn then return nil, err end
    conn:write(line .. "\n")
    return conn:lines():take()
  end

  -- Runs a function with a world in a simulation.
  local function run(f, opts)
    return sim.run(function() return f(sim.world(opts)) end, { leaks = true })
  end

  describe("hosts", function()
    it("reach each other by name and by address, in virtual time", function()
      local got = {}
      run(function(world)
        world:host("server", serve(echo))
        world:host("client", function()
          got[1] = ask("server", "one")
          got[2] = ask("10.0.0.1", "two")
          got[3] = sim.elapsed()
        end)
        world:run()
      end, { latency = 10 })
      assert.same({ "one", "two", 80 }, got)
    end)

    it("reach themselves as localhost, without any time", function()
      local got, elapsed
      run(function(world)
        world:host("alone", function()
          rn.go(serve(echo))
          rn.yield()
          got = ask("localhost", "hello")
          elapsed = sim.elapsed()
        end)
        world:run()
      end)
      assert.same({ "hello", 0 }, { got, elapsed })
    end)

    it("know the addresses of both ends", function()
      local got = {}
      run(function(world)
        world:host("server", function()
          local conn = assert(uv.listen("0.0.0.0", 80)):take()
          got[1], got[2] = table.pack(conn:address()), table.pack(conn:peer())
        end)
        world:host("client", function()
          local conn = assert(uv.connect("server", 80))
          got[3], got[4] = table.pack(conn:address()), table.pack(conn:peer())
        end)
        world:run()
      end)
      assert.same({ got[2], got[1] }, { got[3], got[4] })
      assert.same({ n = 2, "10.0.0.1", 80 }, got[1])
    end)

    it("have go blocks with their names in front", function()
      local names = {}
      run(function(world)
        world:host("server", serve(echo))
        world:host("client", function() rn.sleep(5) end)
        rn.sleep(1)
        for _, entry in ipairs(rn.ps()) do names[#names + 1] = entry.name:match "^%a+: " end
        world:run()
      end)
      assert.same({ "server: ", "client: " }, names)
    end)

    it("have ports of their own", function()
      run(function(world)
        for _, name in ipairs { "a", "b" } do world:host(name, function() assert(uv.listen("0.0.0.0", 80)) end) end
        world:host("c", function()
          assert(uv.listen("0.0.0.0", 80))
          local ch, err = uv.listen("0.0.0.0", 80)
          assert.is_nil(ch)
          assert.equal("0.0.0.0:80: EADDRINUSE: address already in use", err)
        end)
        world:run()
      end)
    end)

    it("refuse connections to ports on which nobody listens, and unknown names are errors", function()
      local errors = {}
      run(function(world)
        world:host("idle", function() end)
        world:host("client", function()
          errors[1] = select(2, uv.connect("idle", 80))
          errors[2] = select(2, uv.connect("nobody", 80))
          errors[3] = select(2, uv.connect("10.9.9.9", 80))
          errors[4] = select(2, uv.connect("10.9.9.9", 80, { timeout = 10 }))
        end)
        world:run()
      end)
      assert.same({
        "idle:80: ECONNREFUSED: connection refused", "nobody: EAI_NONAME: unknown node or service",
        "10.9.9.9:80: EHOSTUNREACH: host is unreachable", "10.9.9.9:80: ETIMEDOUT: connection timed out",
      }, { errors[1], errors[2], errors[3], tostring(errors[4]) })
      assert.is_true(rn.is_timeout(errors[4]))
    end)

    it("have Unix sockets of their own", function()
      local answer, err
      run(function(world)
        world:host("one", function()
          local conns = assert(uv.listen "/run/socket")
          rn.go(function()
            local conn = conns:take()
            conn:write(conn:lines():take() .. "!\n")
            conn:close()
          end)
          local conn <close> = assert(uv.connect "/run/socket")
          conn:write "hello\n"
          answer = conn:lines():take()
          conns:close()
        end)
        world:host("two", function() err = select(2, uv.connect "/run/socket") end)
        world:run()
      end)
      assert.equal("hello!", answer)
      assert.equal("/run/socket: ENOENT: no such file or directory", err)
    end)

    it("speak TLS, whose bytes are real", function()
      local certificates = require "spec.support.tls"
      local has_tls, tls = pcall(require, "runnel.tls")
      if not has_tls or not certificates.has "openssl" then return pending "openssl is not installed" end
      local folder, answer = certificates.folder(), nil
      local cert, key = certificates.certify(folder, "both", { names = "DNS:server" })
      local contexts = {
        assert(tls.server { cert = cert, key = key }), assert(tls.client { ca = folder.path .. "/ca" }),
      }
      run(function(world)
        world:host("server", function()
          local conn = assert(uv.listen("0.0.0.0", 443, { tls = contexts[1] })):take()
          conn:write(conn:lines():take() .. "!\n")
          conn:close()
        end)
        world:host("client", function()
          rn.yield()
          local conn <close> = assert(uv.connect("server", 443, { tls = contexts[2] }))
          conn:write "hello\n"
          answer = conn:lines():take()
        end)
        world:run()
      end)
      folder:remove()
      assert.equal("hello!", answer)
    end)

    it("have clocks of their own, which may be wrong", function()
      local times = {}
      run(function(world)
        for name, skew in pairs { right = 0, fast = 90000, slow = -1500 } do
          world:host(name, function()
            rn.sleep(2000)
            times[name] = { os.time(), os.date("!%Y-%m-%d %H:%M:%S") }
          end, { skew = skew })
        end
        world:run()
        times.world = { os.time(), os.date("!%Y-%m-%d %H:%M:%S") }
      end)
      local right = { 1700000002, "2023-11-14 22:13:22" }
      assert.same({ right = right, world = right, fast = { 1700000092, "2023-11-14 22:14:52" },
        slow = { 1700000000, "2023-11-14 22:13:20" } }, times)
    end)

    it("have clocks that move, while rn.now goes on", function()
      local times, passed = {}, nil
      run(function(world)
        local host = world:host("host", function()
          local begin = rn.now()
          for i = 1, 3 do
            times[i] = os.time()
            rn.sleep(1000)
          end
          passed = rn.now() - begin
        end)
        rn.sleep(500)
        host:move_clock(60000)
        rn.sleep(1000)
        host:move_clock(-3600000)
        assert.matches("world_spec.lua:%d+: move_clock: ms: a number of milliseconds, at least %-1699996",
          message(function() host:move_clock(-1e13) end))
        world:run()
      end)
      assert.same({ 1700000000, 1700000061, 1699996462 }, times)
      assert.equal(3000, passed)
    end)

    it("share modules, but for programs that are files: these have modules and globals of their own at each start",
      function()
        local dir <close> = process.directory()
        dir:write("counter.lua", "local n = 0\nreturn function() n = n + 1 return n end")
        dir:write("server.lua", [[
          local count, rn = require "counter", require "runnel"
          assert(count == require "counter")
          starts = (starts or 0) + 1
          for _ = 1, 2 do count() end
          rn.go(function() rn.sleep(1) io.open("/counts", "a"):write(count(), " ", starts, " ", _G.starts, "\n") end)
        ]])
        local before = package.path
        package.path = dir.path .. "/?.lua;" .. before
        finally(function() package.path, package.loaded.counter = before, nil end)
        local shared, counts = {}, {}
        run(function(world)
          for i = 1, 2 do world:host("shared " .. i, function() shared[i] = require "counter"() end) end
          local one, two = world:host("one", dir.path .. "/server.lua"), world:host("two", dir.path .. "/server.lua")
          world:run()
          counts = { one:get "/counts", two:get "/counts" }
          two:put("/counts", "")
          two:restart()
          world:run()
          counts[3] = two:get "/counts"
        end)
        assert.same({ 1, 2 }, shared)
        assert.same({ "3 1 1\n", "3 1 1\n", "3 1 1\n" }, counts)
        assert.is_nil(rawget(_G, "starts"))
      end)

    it("name the file of their program in stories and errors", function()
      local dir <close> = process.directory()
      dir:write("bad.lua", "error 'no'")
      dir:write("worse.lua", "local x = = 1")
      assert.matches("error: bad: [^\n]*bad.lua:1: no", message(sim.explore, function()
        local world = sim.world()
        world:host("bad", dir.path .. "/bad.lua")
        world:run()
      end))
      for file, problem in pairs { ["none.lua"] = "cannot open", ["worse.lua"] = "worse.lua:1: unexpected symbol" } do
        local text = message(run, function(world) world:host("a", dir.path .. "/" .. file) end)
        assert.matches("^spec/sim/world_spec.lua:%d+: ", text)
        assert.is_truthy(text:find(problem, 1, true), text)
      end
    end)

    it("have timers", function()
      local ticks = {}
      run(function(world)
        world:host("a", function()
          local ticker = uv.ticker(10)
          for n in ticker do
            ticks[#ticks + 1] = n .. " at " .. sim.elapsed()
            if n == 3 then ticker:close() end
          end
        end)
        world:run()
      end)
      assert.same({ "1 at 10", "2 at 20", "3 at 30" }, ticks)
    end)

    it("carry large data with the back pressure of a window", function()
      local sent, got = 0, 0
      run(function(world)
        world:host("sink", function()
          local conn = assert(uv.listen("0.0.0.0", 1)):take()
          rn.sleep(1000)
          got = sent -- before the first read
          local n = 0
          for chunk in conn:read() do n = n + #chunk end
          assert.equal(1000000, n)
        end)
        world:host("source", function()
          local conn = assert(uv.connect("sink", 1))
          for _ = 1, 100 do
            assert(conn:write(("x"):rep(10000)))
            sent = sent + 10000
          end
          conn:close()
        end)
        world:run()
      end)
      assert.is_true(got >= 60000 and got <= 200000, got)
    end)
  end)

  describe("run", function()
    it("raises the error of a program, with the name of its host", function()
      assert.matches("^client: .*world_spec.lua:%d+: oh no$", message(run, function(world)
        world:host("client", function() error "oh no" end)
        world:run()
      end))
    end)

    it("raises it at once, also if it is to wait for a time", function()
      assert.matches("^client: .*oh no$", message(run, function(world)
        world:host("client", function() error "oh no" end)
        world:run(1000000)
      end))
      assert.is_true(sim.elapsed() < 1000)
    end)

    it("leaves an error to the handler of errors if it is not called any more", function()
      local heard = {}
      local before = rn.on_error(function(err, _, where) heard[#heard + 1] = where .. ": " .. err end)
      run(function(world)
        world:run()
        world:host("client", function() error("oh no", 0) end)
        rn.sleep(10)
      end)
      rn.on_error(before)
      assert.equal("the program of host client: oh no", table.concat(heard, "; "))
    end)

    it("raises an error if a program waits for ever", function()
      assert.matches("^leak: the program of host client waits for ever in take %(.*world_spec.lua:%d+%)",
        message(run, function(world)
          world:host("server", function()
            for conn in assert(uv.listen("0.0.0.0", 80)) do conn:write "no end of the line" end
          end)
          world:host("client", function() ask("server", "hello") end)
          world:run()
        end))
    end)

    it("waits for a time, if programs never end", function()
      local n = 0
      run(function(world)
        world:host("clock", function()
          local conns = assert(uv.listen("0.0.0.0", 80))
          for _ in uv.ticker(1000) do n = n + 1 end
          conns:close()
        end)
        world:run(10500)
      end)
      assert.equal(10, n)
    end)

    it("leaves go blocks that were forgotten to the search for leaks", function()
      assert.matches("leak: 1 go block waits for ever", message(run, function(world)
        world:host("client", function()
          rn.go(function() rn.chan():take() end)
        end)
        world:run()
      end))
    end)
  end)

  describe("a crash", function()
    it("ends the go blocks of a host at once, without closing anything, and resets its connections", function()
      local closed, after, err
      run(function(world)
        local server = world:host("server", function()
          local conn = assert(uv.listen("0.0.0.0", 80)):take()
          local guard <close> = setmetatable({}, { __close = function() closed = true end })
          conn:read():take()
          rn.sleep(100)
          after = true
          return guard
        end)
        world:host("client", function()
          local conn = assert(uv.connect("server", 80))
          conn:write "hello"
          err = select(2, conn:read():take())
        end)
        rn.sleep(50)
        server:crash()
        world:run()
      end)
      assert.same({}, { closed, after })
      assert.equal("server:80: ECONNRESET: connection reset by peer", err)
    end)

    it("ends the timers of the host, and of no other, although they were to fire", function()
      local fired = {}
      run(function(world)
        local timers = {}
        local function start(name)
          for i = 1, 20 do
            timers[name .. i] = rn.after(50 + i % 7, function()
              rn.yield()
              fired[#fired + 1] = name
            end)
          end
        end
        local server = world:host("server", function() start "server" end)
        world:host("client", function() start "client" end)
        rn.sleep(10)
        assert.matches("^server: .*world_spec.lua:%d+$", rn.timers()[1].name)
        server:crash()
        assert.equal(20, #rn.timers())
        for i = 1, 20 do assert.is_false(timers["server" .. i]:stop()) end
        world:run()
      end)
      assert.equal(("client "):rep(20), table.concat(fired, " ") .. " ")
    end)

    it("ends what a timer of the host has started", function()
      local log = {}
      run(function(world)
        local server = world:host("server", function()
          rn.after(5, function()
            log[#log + 1] = rn.ps()[2].name
            rn.sleep(10)
            log[#log + 1] = "not reached"
          end)
        end)
        rn.sleep(10)
        server:crash()
        world:run()
      end)
      assert.equal(1, #log)
      assert.matches("^server: ", log[1])
    end)

    it("never returns to the go block that has asked for it, and a restart begins anew", function()
      local starts, returned, answers = 0, false, {}
      run(function(world)
        local server
        server = world:host("server", function()
          starts = starts + 1
          serve(function(line)
            if line ~= "crash" then return line .. starts end
            server:crash()
            returned = true
          end)()
        end)
        world:host("client", function()
          answers[1] = ask("server", "a")
          answers[2] = select(2, ask("server", "crash"))
          answers[3] = select(2, ask("server", "b"))
          server:restart()
          rn.yield()
          answers[4] = ask("server", "c")
        end)
        world:run()
      end)
      assert.is_false(returned)
      assert.same({
        "a1", "server:80: ECONNRESET: connection reset by peer", "server:80: ECONNREFUSED: connection refused", "c2",
      }, answers)
    end)

    it("leaves the go blocks of other hosts alone", function()
      local n = 0
      run(function(world)
        local one = world:host("one", function() rn.sleep(1000) end)
        world:host("two", function()
          for _ = 1, 10 do
            rn.sleep(10)
            n = n + 1
          end
        end)
        rn.sleep(55)
        one:crash()
        world:run()
      end)
      assert.equal(10, n)
    end)
  end)

  describe("a partition", function()
    it("holds what is sent until it is healed", function()
      local times = {}
      run(function(world)
        world:host("server", serve(echo))
        world:host("client", function()
          local conn = assert(uv.connect("server", 80))
          local lines = conn:lines()
          for i = 1, 2 do
            conn:write "x\n"
            lines:take()
            times[i] = sim.elapsed()
            rn.sleep(10)
          end
          conn:close()
        end)
        rn.sleep(8)
        world:partition("server", "client")
        rn.sleep(1000)
        world:heal("client", "server")
        world:run()
      end)
      assert.same({ 4, 1009 }, times)
    end)

    it("makes a connect fail after two minutes", function()
      local err, at
      run(function(world)
        world:host("server", serve(echo))
        local client = world:host("client", function()
          rn.sleep(1)
          err = select(2, uv.connect("server", 80))
          at = sim.elapsed()
        end)
        world:partition("server", client)
        rn.sleep(300000)
        world:heal()
        world:run()
      end)
      assert.same({ "server:80: ETIMEDOUT: connection timed out", 127002 }, { tostring(err), at })
    end)
  end)

  it("takes the time of a message from latency", function()
    local at
    run(function(world)
      world:host("server", serve(echo))
      world:host("client", function()
        ask("server", "x")
        at = sim.elapsed()
      end)
      world:latency("client", "server", 25)
      world:run()
    end)
    assert.equal(100, at)
  end)

  it("gives a host another address", function()
    local got = {}
    run(function(world)
      local server = world:host("server", serve(echo))
      world:host("client", function()
        got[1] = uv.resolve("server"):take()
        server:move()
        got[2] = uv.resolve("server"):take()
        got[3] = ask("server", "hello")
        got[4] = select(2, uv.connect(got[1], 80))
      end)
      world:run()
    end)
    assert.same({ "10.0.0.1", "10.0.0.3", "hello", "10.0.0.1:80: EHOSTUNREACH: host is unreachable" }, got)
  end)

  describe("faults", function()
    -- The errors and answers that a client gets with these faults and many seeds, as a set.
    local function outcomes(faults, opts)
      local seen = {}
      sim.each_seed(100, function()
        local world = sim.world { faults = faults, probability = 0.2 }
        local server = world:host("server", serve(echo), opts)
        if faults.stale then server:move() end
        world:host("client", function()
          rn.yield()
          local answer, err = ask("server", "hello", 80, { timeout = 60000 })
          seen[answer or tostring(err):match "E[%u_]+" or "the end"] = true
          seen[sim.elapsed() >= 1000 and "late" or "soon"] = true
        end)
        world:run()
      end, { leaks = true })
      local list = {}
      for name in pairs(seen) do list[#list + 1] = name end
      table.sort(list)
      return table.concat(list, " ")
    end

    it("happen in some runs and not in others #ci", function()
      assert.equal("ECONNREFUSED hello soon", outcomes { refuse = 1 })
      assert.equal("ECONNRESET hello soon", outcomes { reset = 1 })
      assert.equal("hello late soon", outcomes { delay = 1 })
      assert.equal("hello soon", outcomes { short = 1 })
      assert.equal("EAI_AGAIN hello soon", outcomes { dns = 1 })
      assert.equal("EMFILE hello soon", outcomes { emfile = 1 })
      assert.equal("EHOSTUNREACH hello late soon", outcomes { stale = 1 })
    end)

    it("reset a connection before or after data has arrived", function()
      local seen = {}
      sim.each_seed(200, function()
        local world, got = sim.world { faults = { reset = 1 }, probability = 0.3 }, nil
        world:host("server", function()
          for conn in assert(uv.listen("0.0.0.0", 80)) do got = conn:lines():take() end
        end)
        world:host("client", function()
          rn.yield()
          local conn = uv.connect("server", 80)
          if not conn then return end
          conn:write "hello\n"
          rn.sleep(10)
          local ok, err = conn:write "again\n"
          seen[(got or "nothing") .. (ok and "" or " " .. err:match "E%u+")] = true
        end)
        world:run()
      end)
      assert.is_true(seen["hello"] and seen["hello ECONNRESET"] and seen["nothing ECONNRESET"])
    end)

    it("may end and restart a host between any two messages", function()
      assert.equal("ECONNREFUSED ECONNRESET hello soon", outcomes({ crash = 1 }, { restart = 10 }))
    end)

    it("may end a host before it gets something, before it answers, and when it has answered", function()
      local seen = {}
      search.until_enough(function()
        return seen["not done, not told"] and seen["done, not told"] and seen["done, told"]
      end, function()
        local world, done, text = sim.world { faults = { crash = 1 } }, "not done", nil
        world:host("server", serve(function()
          done = "done"
          return "told"
        end), { restart = 10 })
        world:host("client", function() text = ask("server", "hello") end)
        world:run()
        seen[done .. ", " .. (text or "not told")] = true
      end)
      assert.same({ ["not done, not told"] = true, ["done, not told"] = true, ["done, told"] = true }, seen)
    end)

    it("are an error of the search if they have no place in any run", function()
      local function f()
        local world = sim.world { faults = { reset = 1, crash = 1 } }
        world:host("server", serve(echo))
        world:run()
      end
      assert.matches("sim.explore: the world was asked for the faults crash, reset, and no run had a place for them$",
        message(sim.explore, f))
      assert.matches("sim.each_seed: .* the faults crash, reset", message(sim.each_seed, 3, f))
    end)

    it("are the same in sim.each_seed, and when sim.run replays one of its seeds", function()
      local function f()
        local world = sim.world { faults = { reset = 2, delay = 1, dns = 1 } }
        world:host("server", serve(echo))
        world:host("client", function()
          rn.yield()
          for _ = 1, 3 do
            local answer, err = ask("server", "hello")
            if not answer then error(err .. " at " .. sim.elapsed()) end
          end
        end)
        world:run()
      end
      local text = message(sim.each_seed, 200, f)
      local seed, failure = text:match "^with seed (%d+): (.*)$"
      assert.equal(failure, message(sim.run, f, { seed = math.tointeger(seed), shuffle = true }))
    end)

    it("come from the seed in sim.run, the same ones each time", function()
      local function outcome(seed)
        return sim.run(function()
          local world, errors = sim.world { faults = { reset = 3, delay = 3 }, probability = 0.3 }, {}
          world:host("server", serve(echo))
          world:host("client", function()
            rn.yield()
            for i = 1, 5 do
              local answer, err = ask("server", "hello")
              errors[i] = answer or err
            end
          end)
          world:run()
          return table.concat(errors, " ") .. sim.elapsed()
        end, { seed = seed, shuffle = true })
      end
      local different = {}
      for seed = 1, 10 do
        local first = outcome(seed)
        assert.equal(first, outcome(seed))
        different[first] = true
      end
      local n = 0
      for _ in pairs(different) do n = n + 1 end
      assert.is_true(n > 5, n)
    end)
  end)

  it("keeps what a program has forgotten open, since no collector may decide", function()
    local got
    run(function(world)
      world:host("server", function()
        local conn = assert(uv.listen("0.0.0.0", 80)):take()
        local late = rn.timeout(100)
        local _, port = rn.alts { conn:read(), late }
        got = port == late
        conn:close()
      end)
      world:host("client", function()
        rn.go(function() assert(uv.connect("server", 80)) end):take()
        for _ = 1, 3 do collectgarbage() end
        rn.sleep(50)
        for _ = 1, 3 do collectgarbage() end
      end)
      world:run()
    end)
    assert.is_true(got)
  end)

  describe("complains about", function()
    -- Asserts that f(world) raises a message with this pattern, at a line of this file.
    local function complains(pattern, f, opts)
      local text = message(run, f, opts)
      assert.matches("world_spec.lua:%d+: " .. pattern, text)
    end

    it("wrong options", function()
      local function nothing() end
      assert.matches('world_spec.lua:%d+: sim.world: unknown option "fault"', message(run, nothing, { fault = {} }))
      assert.matches('world_spec.lua:%d+: sim.world: faults: unknown option "rest"; known: crash, delay,',
        message(run, nothing, { faults = { rest = 1 } }))
      assert.matches("world_spec.lua:%d+: sim.world: faults: reset: an integer",
        message(run, nothing, { faults = { reset = true } }))
      assert.matches("world_spec.lua:%d+: sim.world: latency: a number", message(run, nothing, { latency = "x" }))
      assert.matches("world_spec.lua:%d+: sim.world: delays: a list", message(run, nothing, { delays = {} }))
      assert.matches("world_spec.lua:%d+: sim.world: probability: a number", message(run, nothing, { probability = 2 }))
    end)

    it("a world outside a simulation, and a second one", function()
      assert.matches("world_spec.lua:%d+: sim.world: it is for simulations", message(function() sim.world() end))
      complains("sim.world: this simulation has a world already", function() sim.world() end)
    end)

    it("wrong hosts", function()
      complains("host: the name of a host expected", function(world) world:host(1, print) end)
      complains("host: a function expected", function(world) world:host "a" end)
      complains("host: skew: a number of milliseconds, at least %-1700000000000, expected, got true", function(world)
        world:host("a", print, { skew = true })
      end)
      complains('host: there is a host "a" already', function(world)
        world:host("a", function() end)
        world:host("a", function() end)
      end)
      for _, name in ipairs { "", "localhost", "10.0.0.2", "::1" } do
        complains('host: the name of a host expected, got "' .. name .. '", which means another one', function(world)
          world:host(name, function() end)
        end)
      end
      complains("partition: two hosts expected, got a twice", function(world)
        world:partition(world:host("a", function() end), "a")
      end)
      complains('partition: a host, or its name, expected, got b', function(world)
        world:host("a", function() end)
        world:partition("a", "b")
      end)
    end)

    it("functions of runnel.uv outside its hosts, and in a simulation without a world", function()
      complains("connect: this go block belongs to no host of the simulated world: start it in",
        function() uv.connect("a", 1) end)
      assert.matches("connect: real I/O needs real time, and this is a simulation .*: make a simulated world %(sim",
        message(sim.run, function() uv.connect("a", 1) end))
    end)
  end)

  it("ends with its simulation, whatever ends that", function()
    pcall(run, function(world)
      world:host("a", serve(echo))
      error "over"
    end)
    assert.equal(0, core.internal.host())
    local conns, port = assert(uv.listen("127.0.0.1", 0)) -- real ones
    local conn = assert(uv.connect("127.0.0.1", port))
    conn:close()
    conns:close()
    run(function(world) world:run() end)
  end)

  it("gives the same bytes of a story for a seed, whatever the collector does", function()
    local function program()
      local world = sim.world { faults = { reset = 2, delay = 2, short = 2, crash = 1 }, probability = 0.2 }
      local server = world:host("server", function()
        serve(function(line)
          local ch = rn.chan(1)
          ch:put(line)
          ch:close()
          uv.write("/var/log", ch, { append = true, lines = true, sync = true }):take()
          return line .. " " .. os.time() .. " " .. math.random(100)
        end)()
      end, { restart = 20 })
      for i = 1, 3 do
        world:host("client " .. i, function()
          for k = 1, 3 do
            ask("server", i .. "/" .. k)
            rn.sleep(math.random(10))
          end
        end)
      end
      world:run()
      return server:get "/var/log"
    end
    local function story(seed)
      local notes = {}
      current.notes = notes
      local log = sim.run(program, { seed = seed, shuffle = true })
      current.notes = nil
      local lines = {}
      for i, told in ipairs(notes) do
        local to = told.to and told.to.name
        lines[i] = ("%s %s %s %s %s"):format(told.from.name, to, told.what, told.arrives, told.fault)
      end
      return table.concat(lines, "\n") .. "\n" .. tostring(log)
    end
    for seed = 1, 2 do
      collectgarbage "stop"
      local first = story(seed)
      collectgarbage "restart"
      collectgarbage("incremental", 120, 400)
      local second = story(seed)
      collectgarbage("generational")
      local third = story(seed)
      collectgarbage("incremental", 200, 100)
      assert.is_true(#first > 1000)
      assert.equal(first, second)
      assert.equal(first, third)
    end
  end)

  it("keeps no memory of runs that are over", function()
    local function many(n)
      for _ = 1, n do
        run(function(world)
          world:host("server", serve(echo))
          world:host("client", function() ask("server", "hello") end)
          world:run()
        end)
      end
      for _ = 1, 5 do collectgarbage() end -- finalizers make garbage of their own
      return collectgarbage "count"
    end
    local before = many(100)
    local after = many(500)
    assert.is_true(after - before < 200, after - before)
  end)

  it("tells a story of hosts and messages", function()
    local text = message(sim.explore, function()
      local world = sim.world { faults = { reset = 1 } }
      local sum = 0
      world:host("bank", serve(function(line)
        sum = sum + line
        return sum
      end))
      world:host("client", function()
        for _ = 1, 2 do
          if ask("bank", "5") then return end
        end
      end)
      world:run()
      if sum ~= 5 then error("the sum is " .. sum, 0) end
    end, { seconds = 60 })
    assert.matches('client %-> bank: connects to port 80\n', text)
    assert.matches('client %-> bank: "5\\n" %(arrives at %d+ ms%)', text)
    assert.matches('bank %-> client: .*reset %(fault reset%)', text)
    assert.is_nil(text:find("runnel/", 1, true))
    local _, lines = text:gsub("\n", "")
    assert.is_true(lines < 40, text)
  end)

  it("keeps the last story as data too: hosts, and for each message from where to where it goes and when", function()
    message(sim.explore, function()
      local world = sim.world { faults = { reset = 1 } }
      local bank = world:host("bank", serve(echo))
      world:host("client", function()
        for _ = 1, 2 do
          if ask("bank", "5") then break end
        end
        bank:restart()
        rn.chan():name "nothing":take()
      end)
      world:run()
    end)
    local told, lines = current.told, {}
    assert.same({ "leak: the program of host client waits for ever in take", { "client", "bank" }, 0 },
      { told.failure:match "^[^(]+%f[ (]", told.hosts, told.left_out })
    for i, line in ipairs(told.lines) do
      lines[i] = ("%g %s %s %s %s %s: %s"):format(line.at, line.from, line.to, line.arrives, line.fault, line.kind,
        line.what)
    end
    local text = table.concat(lines, "\n")
    assert.matches("0 client bank 1 nil connect: connects to port 80", text)
    assert.matches('2 client bank 3 nil nil: "5\\n"', text, 1, true)
    assert.matches("%d+ bank nil nil nil crash: crashes\n%d+ bank nil nil nil start: starts again", text)
    assert.matches("\n%d+ client nil nil nil wait: world_spec.lua:%d+ waits for ever to take from nothing", text)
    assert.is_nil(text:find("bank: ", 1, true))
    pcall(sim.explore, function() error "no world" end)
    assert.is_nil(current.told)
  end)

  it("tells only the end of a long story, unless all of it is asked for", function()
    local function program()
      local world = sim.world()
      world:host("server", serve(echo))
      world:host("client", function()
        for i = 1, 20 do ask("server", "line " .. i) end
        error "the end"
      end)
      world:run()
    end
    local short, long = message(sim.explore, program), message(sim.explore, program, { full = true })
    assert.matches("\n  %.%.%. %d+ lines %(the option full shows all%), then:\n", short)
    assert.is_nil(short:find('"line 1\\n"', 1, true))
    assert.is_truthy(long:find('"line 1\\n"', 1, true))
    assert.is_truthy(short:find('"line 20\\n"', 1, true))
    local complaint = message(function() sim.explore(program, { full = 1 }) end)
    assert.matches("world_spec.lua:%d+: sim.explore: full: true or false expected, got 1", complaint)
  end)

  it("does not bind luv to a go block of a simulation, if a world is the first to use it", function()
    local dir <close> = process.directory()
    dir:write("main.lua", [[
      local rn, sim = require "runnel", require "runnel.sim"
      print((pcall(sim.explore, function()
        local world, n = sim.world { faults = { reset = 1 } }, 0
        world:host("server", function()
          for conn in require "runnel.uv".listen("0.0.0.0", 80) do
            for _ in conn:lines() do n = n + 1 end
            conn:close()
          end
        end)
        world:host("client", function()
          rn.sleep(1)
          local conn <close> = require "runnel.uv".connect("server", 80)
          if conn then conn:write "line\n" end
        end)
        world:run()
        if n ~= 1 then error "lost" end
      end, { seconds = 60 })))
    ]])
    local got = process.run(dir.path, (os.getenv "LUA" or "lua5.4") .. " main.lua")
    assert.same({ "", "false\n", 0 }, { got.err, got.out, got.status })
  end)
end)
