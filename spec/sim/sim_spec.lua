local core = require "runnel.core"
local rn = require "runnel"
local sim = require "runnel.sim"
local gc = require "spec.support.gc"
local stage = require "spec.support.stage"

describe("sim", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("run", function()
    it("returns all results, and raises errors unchanged", function()
      assert.same({ n = 3, 1, nil, nil }, table.pack(sim.run(function() return 1, nil, nil end)))
      assert.same({ n = 2, "a", "b" }, table.pack(sim.run(function(...) return ... end, nil, "a", "b")))
      -- More than Lua makes room for unasked; that they fit is seen under make check-san-clang.
      for _, n in ipairs { 15, 16, 20, 1000 } do
        local many = table.pack(sim.run(function()
          rn.sleep(1)
          return table.unpack({}, 1, n)
        end))
        assert.same({ n = n }, many)
      end
      local object = {}
      local ok, err = pcall(sim.run, function()
        rn.sleep(1)
        error(object)
      end)
      assert.is_false(ok)
      assert.equal(object, err)
      assert.equal(0, #stage.heard())
    end)

    it("takes no real time", function()
      local before = rn.now()
      sim.run(function() rn.sleep(1e9) end)
      assert.is_true(rn.now() - before < 5000)
    end)

    it("returns the virtual time that has elapsed, during it and after", function()
      sim.run(function()
        assert.equal(0, sim.elapsed())
        rn.sleep(1500)
        assert.equal(1500, sim.elapsed())
        rn.sleep(0.5)
        assert.equal(1500.5, sim.elapsed())
      end)
      assert.equal(1500.5, sim.elapsed())
      pcall(sim.run, function()
        rn.sleep(7)
        error "x"
      end)
      assert.equal(7, sim.elapsed())
    end)

    it("starts each simulation at 0", function()
      for _ = 1, 3 do
        sim.run(function()
          assert.equal(0, rn.now())
          rn.sleep(10)
        end)
      end
    end)

    it("does not let time pass while anything is ready", stage.sim(function()
      local ticks = 0
      rn.go(function() for _ = 1, 10000 do rn.yield() ticks = ticks + 1 end end)
      rn.sleep(0.001)
      assert.equal(10000, ticks)
      assert.equal(0.001, rn.now())
    end))

    -- A loop until `over`, which comes after 5 ms; or, with `timed`, until 100 ms have passed.
    local polls = {
      ["a yield"] = rn.yield,
      ["a sleep of 0 ms"] = function() rn.sleep(0) end,
      ["a sleep of 1 fs"] = function() rn.sleep(1e-12) end,
      ["a timeout of 0 ms"] = function() rn.timeout(0):take() end,
      ["an alts with a timeout of 0 ms"] = function(over) rn.alts { over:done(), rn.timeout(0) } end,
      ["a poll"] = function(over) over:poll() end,
      ["a take from a closed channel"] = function(_, closed) closed:take() end,
      ["closed()"] = function(over) over:closed() end,
      ["the clock"] = function() rn.now() end,
    }
    for name, poll in pairs(polls) do
      for _, run in ipairs { "run", "explore" } do
        it(("lets time pass for a loop that polls, so that it ends: %s in sim.%s"):format(name, run), function()
          local function program(timed)
            local over, closed = rn.chan(), rn.chan()
            closed:close()
            local sleeper = rn.go(function()
              rn.sleep(5)
              over:close()
            end)
            local began = rn.now()
            while not (not timed and over:closed() or timed and rn.now() >= began + 100) do poll(over, closed) end
            if run == "run" then assert.is_true(rn.now() - began < (timed and 300 or 10), rn.now() - began) end
            sleeper:take()
          end
          for _, timed in ipairs { false, true } do
            -- A loop that only reads the clock lets no others run, as in reality.
            if timed or name ~= "the clock" then
              sim[run](function() program(timed) end, run == "explore" and { seconds = 0.02 } or nil)
            end
          end
        end)
      end
    end

    it("lets time pass while two go blocks are busy with each other", function()
      sim.run(function()
        local a, b = rn.chan(), rn.chan()
        rn.go(function() while b:put(a:take() or 0) do end end)
        local other = rn.go(function() while a:put(b:take() or 0) do end end)
        a:put(1)
        rn.sleep(5)
        a:close()
        b:close()
        other:take()
        assert.is_true(sim.elapsed() >= 5 and sim.elapsed() < 10)
      end)
    end)

    it("lets an hour pass for a loop that reads the clock", function()
      for _, run in ipairs { sim.run, sim.explore } do
        run(function()
          local ends = rn.now() + 60 * 60 * 1000
          while rn.now() < ends do end
          assert.is_true(rn.now() < 3 * ends)
        end)
      end
    end)

    it("gives real time back afterwards", function()
      local before = rn.now()
      sim.run(function() rn.sleep(1e9) end)
      assert.is_true(rn.now() >= before)
      assert.is_true(rn.now() - before < 1e6)
    end)

    it("may begin while a finalizer asks for timeouts", function()
      local timeouts, f = {}, function() end
      local mt = { __gc = function() for i = 1, 100 do timeouts[i] = rn.timeout(5 + i / 10) end end }
      gc.always()
      collectgarbage()
      setmetatable({}, mt)
      core.internal.simulate(1, false, false, f)
      gc.usual()
      collectgarbage()
      assert.equal(100, #timeouts)
      for i = 1, 100 do assert.is_nil(timeouts[i]:take()) end
    end)

    it("refuses what is no function and unknown options", function()
      assert.error_matches(function() sim.run(42) end, "sim.run: a function expected, got a number")
      assert.error_matches(function() sim.run(print, { sed = 1 }) end, 'sim.run: unknown option "sed"')
      assert.error_matches(function() sim.run(print, 42) end, "sim.run: a table of options expected")
      for _, bad in ipairs { 1.5, "x", {} } do
        assert.error_matches(function() sim.run(print, { seed = bad }) end, "sim.run: seed: an integer")
      end
      assert.is_not_nil(sim.elapsed())
    end)

    it("takes negative and extreme seeds", function()
      for _, seed in ipairs { -1, 0, math.mininteger, math.maxinteger, 2.0 } do
        assert.equal("fine", sim.run(function() return "fine" end, { seed = seed, shuffle = true }))
      end
    end)
  end)

  describe("seeds", function()
    -- Some blocks and random choices among them; returns what happened as a string.
    local function story(opts)
      return sim.run(function()
        local log = {}
        local a, b = rn.chan(100), rn.chan(100)
        for i = 1, 8 do
          rn.go(function()
            for k = 1, 3 do
              local _, port = rn.alts { { a, 1 }, { b, 2 } }
              log[#log + 1] = i .. (port == a and "a" or "b") .. k
              rn.yield()
            end
          end)
        end
        rn.go(function() for _ in a do rn.yield() end end)
        rn.go(function() for _ in b do rn.yield() end end)
        rn.sleep(1)
        return table.concat(log, " ")
      end, opts)
    end

    it("reproduce the choices of alts", function()
      local seen, different = {}, 0
      for seed = 1, 20 do
        local once = story { seed = seed }
        assert.equal(once, story { seed = seed })
        if not seen[once] then different = different + 1 end
        seen[once] = true
      end
      assert.is_true(different > 15)
      assert.equal(story {}, story())
      assert.equal(story { seed = 1 }, story())
    end)

    it("reproduce the order with shuffle", function()
      local seen, different = {}, 0
      for seed = 1, 20 do
        local once = story { seed = seed, shuffle = true }
        assert.equal(once, story { seed = seed, shuffle = true })
        if not seen[once] then different = different + 1 end
        seen[once] = true
      end
      assert.equal(20, different)
    end)

    it("with shuffle explore every order of a few blocks", function()
      local function order(opts)
        return sim.run(function()
          local log = {}
          for i = 1, 4 do rn.go(function() log[#log + 1] = i end) end
          rn.sleep(1)
          return table.concat(log)
        end, opts)
      end
      local seen, n = {}, 0
      for seed = 1, 500 do
        local once = order { seed = seed, shuffle = true }
        assert.equal(4, #once)
        if not seen[once] then n = n + 1 end
        seen[once] = true
      end
      assert.equal(24, n)
      for seed = 1, 20 do assert.equal("1234", order { seed = seed }) end
    end)

    it("with shuffle starve no go block", function()
      sim.run(function()
        local stop = false
        for _ = 1, 10 do rn.go(function() while not stop do rn.yield() end end) end
        local turns = 0
        for _ = 1, 1000 do
          rn.yield()
          turns = turns + 1
        end
        stop = true
        assert.equal(1000, turns)
      end, { seed = 3, shuffle = true })
    end)

    it("do not depend on what was done before", function()
      local before = story { seed = 5, shuffle = true }
      rn.alts { rn.chan(1), { rn.chan(1), 1 }, { rn.chan(1), 1 } }
      collectgarbage()
      assert.equal(before, story { seed = 5, shuffle = true })
    end)
  end)

  describe("each_seed", function()
    it("runs under the seeds 1 to n, with shuffle", function()
      local seeds, orders = {}, {}
      sim.each_seed(50, function(seed)
        seeds[#seeds + 1] = seed
        local log = {}
        for i = 1, 3 do rn.go(function() log[#log + 1] = i end) end
        rn.sleep(1)
        orders[table.concat(log)] = true
      end)
      assert.equal(50, #seeds)
      for i = 1, 50 do assert.equal(i, seeds[i]) end
      local n = 0
      for _ in pairs(orders) do n = n + 1 end
      assert.equal(6, n)
    end)

    it("names the seed that failed, which then replays it", function()
      local function racy(seed)
        local first
        for i = 1, 5 do rn.go(function() first = first or i end) end
        rn.sleep(1)
        if first == 4 then error("the fourth won", 0) end
        return seed
      end
      local ok, err = pcall(sim.each_seed, 1000, racy)
      assert.is_false(ok)
      local seed = math.tointeger(err:match "^with seed (%d+): the fourth won$")
      assert.is_not_nil(seed)
      for _ = 1, 3 do
        assert.error_matches(function() sim.run(racy, { seed = seed, shuffle = true }, seed) end, "the fourth won")
      end
      for before = 1, seed - 1 do sim.run(racy, { seed = before, shuffle = true }, before) end
    end)

    it("names the seed of errors that are no strings", function()
      local object = setmetatable({}, { __tostring = function() return "an object" end })
      local ok, err = pcall(sim.each_seed, 3, function() error(object) end)
      assert.is_false(ok)
      assert.equal("with seed 1: an object", tostring(err))
    end)

    it("refuses what is no number of seeds and no function", function()
      assert.error_matches(function() sim.each_seed(0, print) end, "sim.each_seed: number of seeds")
      assert.error_matches(function() sim.each_seed(3) end, "sim.each_seed: a function expected, got nothing")
    end)
  end)

  describe("isolation", function()
    it("may end a go block that sleeps outside", function()
      local done, inner = stage.sleeper(1000), nil
      rn.step()
      rn.go(rn.sleep, 1)
      rn.step()
      sim.run(function()
        rn.go(rn.sleep, 10)
        rn.yield()
        done()
        rn.sleep(100)
        inner = rn.now()
      end)
      assert.equal(100, inner)
      rn.run()
      assert.same({}, stage.others())
    end)

    it("blocks that are ready outside wait until it is over", function()
      local log = {}
      rn.go(function() log[#log + 1] = "outside" end)
      sim.run(function()
        rn.go(function() log[#log + 1] = "inside" end)
        rn.sleep(1000)
      end)
      assert.same({ "inside" }, log)
      rn.run()
      assert.same({ "inside", "outside" }, log)
    end)

    it("sleepers outside wait for real time", function()
      local woke
      rn.go(function()
        rn.sleep(3)
        woke = true
      end)
      rn.step()
      sim.run(function() rn.sleep(1e9) end)
      assert.is_nil(woke)
      rn.run()
      assert.is_true(woke)
    end)

    it("timeouts outside are not shared with it, nor close in it", function()
      local outside = rn.timeout(3)
      sim.run(function()
        assert.not_equal(outside, rn.timeout(3))
        local value, port = rn.alts { outside, rn.timeout(1e6) }
        assert.is_nil(value)
        assert.not_equal(outside, port)
      end)
      assert.is_nil((outside:take()))
    end)

    it("channels go in and out", function()
      local ch, out = rn.chan(3), rn.chan(3)
      ch:put(1)
      sim.run(function()
        out:put(ch:take() + 1)
        out:close "over"
      end)
      assert.equal(2, out:take())
      assert.same({ nil, "over" }, { out:take() })
    end)

    it("a block outside that is woken from within is not lost", function()
      local ch, got = rn.chan(), nil
      rn.go(function() got = ch:take() end)
      rn.step()
      sim.run(function() ch:put "from within" end)
      rn.run()
      assert.equal("from within", got)
    end)

    it("closing the coroutine of a block outside from within leaves both worlds in order", function()
      local cos, awake, ready = {}, {}, 0
      for i = 1, 20 do
        rn.go(function()
          cos[i] = coroutine.running()
          rn.sleep(50 + i / 10) -- longer than the step below takes, with sanitizers too
          awake[#awake + 1] = i
        end)
        rn.go(function()
          cos[i + 20] = coroutine.running()
          rn.yield()
          ready = ready + 1
        end)
      end
      rn.step(40)
      sim.run(function()
        for i = 1, 40, 2 do coroutine.close(cos[i]) end
        for _ = 1, 5 do rn.go(rn.sleep, 10) end
        rn.sleep(1000)
      end)
      rn.run()
      local expected = {}
      for i = 2, 20, 2 do expected[#expected + 1] = i end
      assert.same(expected, awake)
      assert.equal(10, ready)
    end)

    it("what it leaves behind lives as long as its coroutine, which somebody may resume", function()
      local results, cos = setmetatable({}, { __mode = "k" }), {}
      local function wait(how)
        cos[#cos + 1] = coroutine.running()
        how(1000)
      end
      sim.run(function()
        results[rn.go(wait, rn.sleep)], results[rn.go(wait, rn.yield)] = true, true
        rn.yield()
      end)
      for _ = 1, 3 do collectgarbage() end
      local n = 0
      for _ in pairs(results) do n = n + 1 end
      assert.equal(2, n)
      for _, co in ipairs(cos) do assert.is_true(coroutine.resume(co, 1, 2)) end
      cos = {}
      for _ = 1, 3 do collectgarbage() end
      assert.is_nil(next(results))
    end)

    it("what it leaves behind is dropped: ready, asleep or timed", function()
      local log = {}
      sim.run(function()
        rn.go(function() log[#log + 1] = "ready" end)
        rn.go(function()
          rn.sleep(1)
          log[#log + 1] = "slept"
        end)
        rn.timeout(1):take_async(function() log[#log + 1] = "timed" end)
      end)
      assert.is_nil(rn.step())
      rn.run()
      assert.same({}, log)
    end)

    it("what it leaves behind is collected", function()
      local weak = setmetatable({}, { __mode = "k" })
      sim.run(function()
        local function leave(f)
          local token = {}
          weak[token] = true
          rn.go(function()
            f()
            return token
          end)
        end
        leave(function() end)
        leave(function() rn.sleep(100) end)
        leave(function() rn.timeout(50):take() end)
        leave(function() rn.chan():take() end)
        leave(function() rn.alts { rn.chan(), rn.timeout(100) } end)
        leave(function() rn.go(rn.sleep, 100):take() end)
        rn.sleep(1)
        leave(function() end)
      end)
      for _ = 1, 4 do collectgarbage() end
      assert.is_nil(next(weak))
      assert.same({}, stage.others())
    end)

    it("a simulation that failed leaves no more than one that did not", function()
      pcall(sim.run, function()
        rn.go(rn.sleep, 100)
        rn.go(function() end)
        error "x"
      end)
      assert.is_nil(rn.step())
      assert.is_true(rn.now() > 0)
      assert.is_true(sim.run(function() return true end))
    end)

    it("a deadlock is reported with sim.run's name, and leaves the next alone", function()
      local ok, err = pcall(sim.run, function()
        rn.go(function() rn.chan():put(1) end)
        rn.chan():name("nobody"):take()
      end)
      assert.is_false(ok)
      assert.matches("deadlock: sim.run would wait for ever", err)
      assert.matches("take on chan: nobody at .*sim_spec.lua:%d+", err)
      assert.matches("put on chan: #%d+", err)
      assert.equal(1, sim.run(function() return 1 end))
    end)

    it("a deadlock is an error where f waits, which may catch it, as often as it comes", function()
      local log = {}
      local function closing(name) return setmetatable({}, { __close = function() log[#log + 1] = name end }) end
      local result = sim.run(function()
        for i = 1, 3 do
          rn.sleep(1)
          local ok, err = pcall(function()
            local _ <close> = closing("closed " .. i)
            rn.chan():name("nobody"):take()
          end)
          assert.is_false(ok)
          assert.matches("^deadlock: sim.run would wait for ever.*take on chan: nobody at .*sim_spec.lua", err)
        end
        local ok, err = pcall(rn.alts, { rn.chan(), { rn.chan(), 1 } })
        assert.matches("false deadlock: sim.run", tostring(ok) .. " " .. err)
        ok, err = pcall(rn.scope, function(s) s:go(function() rn.chan():take() end) end)
        assert.matches("false .*deadlock: sim.run", tostring(ok) .. " " .. err)
        assert.equal(3, rn.now())
        return "went on"
      end)
      assert.equal("went on", result)
      assert.same({ "closed 1", "closed 2", "closed 3" }, log)
    end)

    it("on_error gets errors in it", function()
      sim.run(function()
        rn.go(error, "bad")
        rn.yield()
      end)
      assert.equal("bad", stage.heard()[1].err)
    end)
  end)

  describe("where it cannot run", function()
    it("a simulation says so, and goes on", function()
      sim.run(function()
        rn.sleep(5)
        local ok, err = pcall(sim.run, function() end)
        assert.is_false(ok)
        assert.matches("sim.run: cannot be called inside a go block", err)
        assert.equal(5, sim.elapsed())
        rn.sleep(5)
        assert.equal(10, sim.elapsed())
      end)
      assert.equal(10, sim.elapsed())
    end)

    it("a go block says so, and elapsed still reports the last simulation", function()
      sim.run(function() rn.sleep(10) end)
      local err
      rn.run(function() err = select(2, pcall(function() sim.run(function() end) end)) end)
      assert.matches("^[^:]*sim_spec.lua:%d+: sim.run: cannot be called inside a go block", err)
      assert.equal(10, sim.elapsed())
    end)

    it("an option that cannot be read leaves everything as it was", function()
      sim.run(function() rn.sleep(10) end)
      pcall(sim.run, function() end, { seed = "x" })
      pcall(sim.run, 42)
      assert.equal(10, sim.elapsed())
    end)

    it("a go block that sleeps outside can be cancelled in it", function()
      local outer = {}
      for i = 1, 3 do outer[i] = rn.go(function() rn.sleep(100000 + i) end) end
      rn.step()
      sim.run(function()
        for i = 1, 8 do rn.go(function() rn.sleep(10 + i) end) end
        rn.sleep(1)
        for i = 1, 3 do assert.is_true(rn.cancel(outer[i], "from inside")) end
        rn.sleep(100)
        assert.equal(101, sim.elapsed())
      end)
      for i = 1, 3 do assert.same({ nil, "from inside" }, { outer[i]:take() }) end
    end)

    it("many go blocks are left at its end, and they all run", function()
      local n = 0
      sim.run(function()
        for _ = 1, 250 do rn.go(function() n = n + 1 end) end
      end, { leaks = true })
      assert.equal(250, n)
    end)

    it("run and step are refused in it", stage.sim(function()
      assert.error_matches(function() rn.run() end, "run: cannot be called inside a go block")
      assert.error_matches(function() rn.step() end, "step: cannot be called inside a go block")
    end))
  end)
end)
