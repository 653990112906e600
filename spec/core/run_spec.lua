local rn = require "runnel"
local core = require "runnel.core"
local gc = require "spec.support.gc"
local stage = require "spec.support.stage"
local since_5_4_3 = stage.is_5_4_3 and it or pending

describe("run", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("with a function", function()
    it("returns all its results", function()
      assert.same({ n = 4, 1, nil, false, nil }, table.pack(rn.run(function(...) return ... end, 1, nil, false, nil)))
      assert.same({ n = 0 }, table.pack(rn.run(function() end)))
      assert.same({ n = 1 }, table.pack(rn.run(function() return nil end)))
    end)

    it("returns a hundred thousand results", function()
      local list = {}
      for i = 1, 100000 do list[i] = i end
      local n = select("#", rn.run(function() return table.unpack(list) end))
      assert.equal(100000, n)
      assert.equal(100000, (select(100000, rn.run(function()
        rn.yield()
        return table.unpack(list)
      end))))
    end)

    it("returns results after parking", function()
      assert.same({ 1, 2 }, { rn.run(function()
        local ch = rn.chan()
        rn.go(function() ch:put(2) end)
        return 1, ch:take()
      end) })
    end)

    it("raises its error unchanged", function()
      local object = {}
      for _, err in ipairs { "text", object, false, 42 } do
        local ok, caught = pcall(rn.run, function()
          rn.yield()
          error(err, 0)
        end)
        assert.is_false(ok)
        assert.equal(err, caught)
      end
      local ok, caught = pcall(rn.run, error, nil)
      assert.is_false(ok)
      assert.equal(stage.raised_nil, caught)
      assert.equal(0, #stage.heard())
    end)

    since_5_4_3("raises what a variable's __close makes of its error", function()
      local ok, err = pcall(rn.run, function()
        local _ <close> = setmetatable({}, { __close = function(_, err) error(err .. " closed", 0) end })
        error("raised", 0)
      end)
      assert.is_false(ok)
      assert.equal("raised closed", err)
    end)

    it("ends when the function ends, and leaves the others to the next run", function()
      local log = {}
      local ch = rn.chan()
      rn.run(function()
        rn.go(function()
          ch:take()
          log[#log + 1] = "taken"
        end)
        for i = 1, 3 do rn.go(function() log[#log + 1] = i end) end
      end)
      assert.same({}, log)
      rn.run()
      assert.same({ 1, 2, 3 }, log)
      ch:put(1)
      rn.run()
      assert.same({ 1, 2, 3, "taken" }, log)
    end)

    it("takes a callable object, and refuses what is none", function()
      assert.equal(3, rn.run(setmetatable({}, { __call = function(_, a) return a + 1 end }), 2))
      assert.error_matches(function() rn.run(42) end, "run: a function expected, got number")
      assert.error_matches(function() rn.run(nil) end, "run: a function expected, got nil")
    end)

    it("can be used again after an error and after a deadlock", function()
      pcall(rn.run, error, "x")
      pcall(rn.run, function() rn.chan():take() end)
      assert.equal("fine", rn.run(function() return "fine" end))
    end)
  end)

  describe("without a function", function()
    it("runs until nothing is ready or timed", function()
      local log = {}
      rn.go(function()
        rn.sleep(2)
        log[#log + 1] = "slept"
        rn.go(function() log[#log + 1] = "started late" end)
      end)
      rn.go(function() log[#log + 1] = "first" end)
      rn.go(function() rn.chan():take() end)
      assert.equal(0, select("#", rn.run()))
      assert.same({ "first", "slept", "started late" }, log)
    end)

    it("returns at once when there is nothing", function() assert.equal(0, select("#", rn.run())) end)
  end)

  describe("a deadlock", function()
    it("reports callbacks that wait, which have no line", function()
      local ch = rn.chan():name "lonely"
      local line = stage.here(1)
      ch:take_async(function() end)
      local ok, err = pcall(function() rn.chan():take() end)
      assert.is_false(ok)
      assert.matches("(" .. line .. "): take on chan: lonely\n", err .. "\n", 1, true)
      ch:close()
      rn.run()
    end)

    it("of run names run, and where every go block waits", function()
      local here, line = stage.here():match "^(.*):(%d+)$"
      local jobs, other = rn.chan():name "jobs", rn.chan()
      local ok, err = pcall(rn.run, function()
        rn.go(function()
          rn.rename "putter"
          other:put(1)
        end)
        rn.go(function() rn.alts { rn.chan(), rn.chan() } end)
        jobs:take()
      end)
      assert.is_false(ok)
      assert.matches("deadlock: run would wait for ever", err, 1, true)
      local root = ("%%(%s:%d%%): take on chan: jobs at %s:%d"):format(here, line + 2, here, line + 8)
      assert.matches("\n  #%d+ " .. root, err)
      local putter = ("%%(putter%%): put on chan: #%d at %s:%d"):format(other:stats().id, here, line + 5)
      assert.matches("\n  #%d+ " .. putter, err)
      local alts = "\n  #%%d+ %%(%s:%d%%): alts on chan: #%%d+, chan: #%%d+ at %s:%d"
      assert.matches(alts:format(here, line + 7, here, line + 7), err)
    end)

    for _, case in ipairs {
      { "take", function(ch) ch:take() end },
      { "put", function(ch) ch:put(1) end },
      { "alts", function(ch) rn.alts { ch, { ch, 1 } } end },
      { "alt", function(ch) rn.alt { { ch, print } } end },
      { "take", function(ch) for _ in ch do end end },
    } do
      it(("of %s outside any go block names it, and withdraws it"):format(case[1]), function()
        local ch = rn.chan()
        local ok, err = pcall(case[2], ch)
        assert.is_false(ok)
        assert.matches(("deadlock: %s on chan: #%d[^\n]* would wait for ever"):format(case[1], ch:stats().id), err)
        assert.equal(0, ch:stats().takes_waiting)
        assert.equal(0, ch:stats().puts_waiting)
        rn.go(function() ch:put "next" end)
        assert.equal("next", ch:take())
      end)
    end

    it("names four of the channels of an alts, and how many more there are", function()
      local chs = {}
      for i = 1, 6 do chs[i] = rn.chan():name("ch" .. i) end
      local ok, err = pcall(rn.alts, chs)
      assert.is_false(ok)
      assert.matches("deadlock: alts on chan: ch1, chan: ch2, chan: ch3, chan: ch4 and 2 more would wait", err, 1, true)
    end)

    it("is raised although a finalizer that waits runs while it is described", function()
      local chs, refused, is_first, is_tried = {}, 0, true, false
      local function finalize()
        if not is_first then return end
        is_first = false
        local _, err = pcall(function() rn.chan():take() end)
        if err:find("would have to wait, which is impossible", 1, true) then refused = refused + 1 end
      end
      rn.driver {
        wait = function() end,
        alive = function() -- the last Lua code before the description
          if not is_tried then return false end
          collectgarbage "stop"
          for _ = 1, 3 do setmetatable({}, { __gc = finalize }) end
          gc.always()
          collectgarbage "restart"
          return false
        end,
      }
      for i = 1, 50 do chs[i] = rn.chan() end
      for _ = 1, 3 do
        is_first, is_tried = true, true
        local ok, err = pcall(rn.alts, chs)
        is_tried = false -- a finalizer may run later, too
        gc.usual()
        assert.is_false(ok)
        assert.matches("deadlock: alts on", err, 1, true)
        for i = 1, 50 do assert.equal(0, chs[i]:stats().takes_waiting) end
      end
      assert.is_true(refused > 0)
      rn.driver(nil)
    end)

    it("lists sixteen blocks, and how many more there are", function()
      for _ = 1, 4 do collectgarbage() end -- those that other tests have left
      local ch = rn.chan()
      for i = 1, 20 do
        rn.go(function()
          rn.rename("block" .. i)
          ch:put(i)
        end)
      end
      local ok, err = pcall(function() rn.chan():take() end)
      assert.is_false(ok)
      local _, n = err:gsub("%(block%d+%): put on", "")
      assert.equal(16, n)
      assert.matches("\n  and 4 more$", err)
      for _ = 1, 20 do ch:take() end
      rn.run()
    end)

    it("of run leaves its go block parked, which continues when it can", function()
      local ch, ended = rn.chan(), false
      pcall(rn.run, function()
        ch:take()
        ended = true
      end)
      ch:put(1)
      rn.run()
      assert.is_true(ended)
    end)

    it("keeps nothing of what was waited on", function()
      local kept = setmetatable({}, { __mode = "k" })
      local function choose(ch) rn.alts { ch, rn.chan() } end
      local waits = { function(ch) ch:take() end, function(ch) ch:put(1) end, choose }
      for _, wait in ipairs(waits) do
        local function deadlock()
          local ch = rn.chan()
          kept[ch] = true
          assert.is_false((pcall(wait, ch)))
        end
        deadlock()
        collectgarbage()
        collectgarbage()
        assert.is_nil(next(kept))
      end
    end)
  end)

  describe("step", function()
    it("runs at most so many blocks", function()
      local log = {}
      for i = 1, 5 do rn.go(function() log[#log + 1] = i end) end
      assert.equal(0, rn.step(2))
      assert.same({ 1, 2 }, log)
      assert.equal(0, rn.step(0))
      assert.same({ 1, 2 }, log)
      assert.is_nil(rn.step(3))
      assert.same({ 1, 2, 3, 4, 5 }, log)
    end)

    it("returns how long a go block still sleeps, also if it does so for ever", function()
      local sleeper = rn.go(rn.sleep, 1e6)
      assert.is_true(rn.step() > 9e5)
      rn.cancel(sleeper)
      rn.step()
      sleeper = rn.go(rn.sleep, 1e300)
      assert.is_true(rn.step() > 1e12)
      rn.cancel(sleeper)
      assert.is_nil(rn.step())
    end)

    it("runs all that become ready without a limit, a millisecond at a time", function()
      local n = 0
      local function nest()
        n = n + 1
        if n < 1000 then rn.go(nest) end
      end
      rn.go(nest)
      local left
      repeat left = rn.step() until left ~= 0
      assert.is_nil(left)
      assert.equal(1000, n)
    end)

    -- A go block that is always ready, computing for 0.1 ms at a time.
    local function busy()
      local stop = false
      rn.go(function()
        while not stop do
          local start = rn.now()
          repeat until rn.now() - start >= 0.1
          rn.yield()
        end
      end)
      return function()
        stop = true
        rn.run()
      end
    end

    it("returns after about a millisecond without a limit, although go blocks are always ready", function()
      local stop = busy()
      local shortest = math.huge
      for _ = 1, 1000 do -- the machine may be busy with something else
        local start = rn.now()
        assert.equal(0, rn.step())
        shortest = math.min(shortest, rn.now() - start)
        if shortest < 5 then break end
      end
      stop()
      assert.is_true(shortest >= 1 and shortest < 5, shortest)
    end)

    it("gives timers and the driver their turn about every millisecond", function()
      local stop, polls, ticks, over = busy(), 0, 0, false
      local previous = rn.driver { alive = function() return false end, wait = function() polls = polls + 1 end }
      rn.go(function()
        while not over do
          rn.sleep(1)
          ticks = ticks + 1
        end
      end)
      assert.equal(0, rn.step(400))
      rn.driver(previous)
      over = true
      stop()
      assert.is_true(ticks >= 10 and polls >= 10, ticks .. " ticks, " .. polls .. " polls")
    end)

    it("returns the time to the next deadline", function()
      local sleepers = { stage.sleeper(10000), stage.sleeper(5000) }
      local ms = rn.step(100)
      assert.is_true(ms > 0 and ms <= 5000)
      assert.is_true(rn.step(100) <= ms)
      for _, wake in ipairs(sleepers) do wake() end
    end)

    it("is idle with blocks that are parked on channels", function()
      local ch = rn.chan()
      rn.go(function() ch:take() end)
      rn.run(function() rn.yield() end)
      assert.is_true(rn.step() ~= 0)
      ch:close()
      rn.step()
    end)

    it("refuses what is no number of blocks", function()
      for _, bad in ipairs { -1, 1.5, "x", {}, true } do
        assert.error_matches(function() rn.step(bad) end, "step: a number of go blocks expected, got ")
      end
    end)

    it("reports errors and continues", function()
      rn.go(error, "bad")
      local ran
      rn.go(function() ran = true end)
      rn.step(10) -- without a number it would end after 1 ms
      assert.is_true(ran)
      assert.equal("bad", stage.heard()[1].err)
    end)
  end)

  describe("outside any go block", function()
    it("a put that waited raises what the buffer policy says of its value", function()
      local ch = rn.chan(stage.picky(function(v) return v ~= "bad" end))
      for i = 1, 100 do ch:put(i) end
      rn.go(function()
        rn.yield()
        ch:take()
      end)
      local ok, err = pcall(ch.put, ch, "bad")
      assert.same({ false, "no bad here" }, { ok, err })
      assert.equal(99, #ch)
      local port
      rn.go(function()
        rn.yield()
        ch:take()
        ch:take()
      end)
      ch:put "fills it"
      ok, err = pcall(function()
        local _
        _, port = rn.alts { { ch, "bad" } }
      end)
      assert.same({ false, "no bad here" }, { ok, err })
      assert.is_nil(port)
      assert.equal(98, #ch)
    end)

    it("a debug hook that raises nothing lets waiting go on", function()
      local calls = 0
      debug.sethook(function() calls = calls + 1 end, "c")
      local ok, err = pcall(rn.sleep, 2)
      debug.sethook()
      assert.is_true(ok, err)
      assert.is_true(calls > 0)
    end)

    it("a debug hook that removes itself is not called again, whichever call it was", function()
      for n = 1, 8 do -- the scheduler makes the later ones, to see whether the hook raises an error
        local calls = 0
        debug.sethook(function()
          calls = calls + 1
          if calls == n then debug.sethook() end
        end, "c")
        rn.sleep(2)
        local during_sleep = calls
        debug.sethook()
        assert.is_true(during_sleep > 0 and during_sleep <= n, during_sleep)
      end
    end)

    -- A debugger, luacov and runnel_open_limited(RUNNEL_COUNT) leave their hook where it is.
    it("a debug hook that stays lets the wait sleep", function()
      local calls = 0
      debug.sethook(function() calls = calls + 1 end, "c")
      rn.sleep(50)
      debug.sethook()
      assert.is_true(calls < 1000, calls)
    end)

    it("put, take and alts run the others until they complete", function()
      local ch, results = rn.chan(), rn.chan(10)
      rn.go(function()
        for v in ch do results:put(v * 2) end
        results:close()
      end)
      for i = 1, 3 do assert.is_true(ch:put(i)) end
      assert.equal(true, (rn.alts { { ch, 4 } }))
      ch:close()
      assert.same({ 2, 4, 6, 8 }, stage.drain(results))
      local value, port = rn.alts { results }
      assert.is_nil(value)
      assert.equal(results, port)
    end)

    it("give the error with which a channel was closed", function()
      local ch = rn.chan()
      rn.go(function()
        rn.yield()
        ch:close "why"
      end)
      assert.same({ n = 2, nil, "why" }, table.pack(ch:take()))
      local other = rn.chan()
      rn.go(function()
        rn.yield()
        other:close "why"
      end)
      assert.same({ n = 3, nil, other, "why" }, table.pack(rn.alts { other }))
    end)

    it("alts over many channels work, with more to come behind", function()
      local ops = {}
      for i = 1, 500 do ops[i] = rn.chan() end
      rn.go(function() ops[321]:put "x" end)
      assert.same({ "x", ops[321] }, { rn.alts(ops) })
      for i = 1, 500 do assert.equal(0, ops[i]:stats().takes_waiting) end
    end)

    it("sleep takes its time", function()
      local before = rn.now()
      rn.sleep(3)
      assert.is_true(rn.now() - before >= 3)
    end)

    it("yield runs what is ready now, and no more", function()
      local log = {}
      rn.go(function()
        log[#log + 1] = 1
        rn.go(function() log[#log + 1] = 3 end)
      end)
      rn.go(function() log[#log + 1] = 2 end)
      rn.yield()
      assert.same({ 1, 2 }, log)
      rn.yield()
      assert.same({ 1, 2, 3 }, log)
    end)

    it("work in a coroutine of the user's", function()
      local ch = rn.chan()
      rn.go(function() for i = 1, 3 do ch:put(i) end end)
      local co = coroutine.wrap(function()
        coroutine.yield(ch:take())
        coroutine.yield((rn.alts { ch }))
        rn.sleep(1)
        coroutine.yield(rn.run(function() return ch:take() end))
      end)
      assert.equal(1, co())
      assert.equal(2, co())
      assert.equal(3, co())
    end)

    it("work inside table.sort, string.gsub and metamethods, since nothing has to park", function()
      local ch = rn.chan()
      rn.go(function() while ch:put(1) do end end)
      local t = { 3, 1, 2 }
      table.sort(t, function(a, b)
        ch:take()
        return a < b
      end)
      assert.same({ 1, 2, 3 }, t)
      assert.equal("111", (("abc"):gsub(".", function() return tostring(ch:take()) end)))
      assert.equal(1, setmetatable({}, { __index = function() return ch:take() end }).x)
      ch:close()
      rn.run()
    end)

    it("an error of a go block meanwhile is reported, and the wait continues", function()
      local ch = rn.chan()
      rn.go(error, "bad")
      rn.go(function() ch:put "good" end)
      assert.equal("good", ch:take())
      assert.equal("bad", stage.heard()[1].err)
    end)

    it("a wait within a wait is refused inside callbacks, and the outer one completes", function()
      local ch, err = rn.chan(), nil
      ch:take_async(function() err = select(2, pcall(rn.chan().take, rn.chan())) end)
      rn.go(function() ch:put(1) end)
      rn.go(function() ch:put(2) end)
      assert.equal(2, ch:take())
      rn.run()
      assert.matches("take would have to wait, which is impossible inside a callback", err)
    end)
  end)

  describe("where parking is impossible", function()
    it("yield is refused where nothing can wait", function()
      local heard
      rn.chan(1):put_async(1, function() heard = { pcall(rn.yield) } end)
      assert.is_false(heard[1])
      assert.matches("yield would have to wait, which is impossible inside a callback", heard[2], 1, true)
      local calls = 0
      rn.driver {
        wait = function()
          calls = calls + 1
          if calls == 1 then heard = { pcall(rn.yield) } end
        end,
        alive = function() return calls == 0 end,
      }
      rn.run()
      assert.is_false(heard[1])
      assert.matches("yield would have to wait", heard[2], 1, true)
    end)

    local waits = {
      take = function() rn.chan():take() end,
      put = function() rn.chan():put(1) end,
      alts = function() rn.alts { rn.chan() } end,
      sleep = function() rn.sleep(1) end,
    }

    -- Calls each wait by way of `within(f)` in a go block: each must raise like `pattern`, and nothing wait afterwards.
    local function refused(pattern, within)
      return stage.sim(function()
        for name, wait in pairs(waits) do
          local caught
          within(function()
            local ok, err = pcall(wait)
            caught = not ok and err
            return 1
          end)
          assert.matches(
            ("run_spec.lua:%%d+: %s would have to wait, which is impossible %s"):format(name, pattern), caught)
          assert.matches("use offer or poll, or put_async or take_async", caught, 1, true)
        end
        rn.sleep(10)
        assert.same({}, stage.others())
      end)
    end

    it("a coroutine of the user's says so", refused("inside a coroutine of your own within a go block", function(f)
      assert(coroutine.resume(coroutine.create(f)))
    end))
    it("a coroutine within a coroutine says so", refused("inside a coroutine of your own within a go block", function(f)
      coroutine.wrap(function() coroutine.wrap(f)() end)()
    end))
    it("table.sort says so", refused("across a C call", function(f)
      table.sort({ 1, 2 }, function(a, b)
        f()
        return a < b
      end)
    end))
    it("string.gsub says so", refused("across a C call", function(f) ("a"):gsub(".", function() f() end) end))
    it("a metamethod called from C says so", refused("across a C call", function(f)
      table.concat(setmetatable({}, { __index = function() return f() end }), "", 1, 1)
    end))
    it("require says so", refused("across a C call", function(f)
      package.preload.run_spec_module = f
      require "run_spec_module"
      package.loaded.run_spec_module, package.preload.run_spec_module = nil, nil
    end))
    it("a transducer says so", refused("inside a transducer", function(f)
      local ch = rn.chan(1, function(rf)
        return function(acc, ...)
          if select("#", ...) > 0 then f() end
          return rf(acc, ...)
        end
      end)
      ch:put(1)
    end))
    it("an exception handler says so", refused("inside an exception handler", function(f)
      rn.chan(1, function() return function(acc, ...) error(select("#", ...) > 0 and "x" or acc) end end, f):put(1)
    end))
    it("a buffer policy says so", refused("inside a buffer policy", function(f)
      local policy = { full = function() return false end, count = function() return 0 end, remove = f }
      function policy.add() f() end
      rn.chan(policy):put(1)
    end))
    it("an error handler says so", refused("inside an error handler", function(f)
      local outer = rn.on_error(f)
      rn.go(error, "x")
      rn.yield()
      core.internal.report_unhandled()
      rn.on_error(outer)
    end))
    it("a callback on the caller says so", refused("inside a callback", function(f)
      local ch = rn.chan(1)
      ch:put(1)
      ch:take_async(f)
    end))
    it("a callback of its own says so", refused("inside a callback", function(f)
      local ch = rn.chan()
      ch:take_async(f)
      ch:put(1)
      rn.yield()
    end))
    it("a callback's coroutine says so", refused("inside a c", function(f)
      local ch = rn.chan()
      ch:take_async(function() coroutine.wrap(f)() end)
      ch:put(1)
      rn.yield()
    end))
    it("a finalizer says so", refused("across a C call", function(f)
      setmetatable({}, { __gc = f })
      collectgarbage()
    end))

    it("a metamethod called from Lua parks like anything else", stage.sim(function()
      local ch = rn.chan()
      local object = setmetatable({}, {
        __index = function(_, key) return key .. ch:take() end,
        __add = function(_, n) return n + ch:take() end,
        __call = function() return ch:take() end,
        __lt = function() return ch:take() end,
        __concat = function(_, s) return ch:take() .. s end,
      })
      rn.go(function()
        for _, v in ipairs { 1, 2, "three", true, "five" } do ch:put(v) end
      end)
      assert.equal("x1", object.x)
      assert.equal(12, object + 10)
      assert.equal("three", object())
      assert.is_true(object < {})
      assert.equal("five!", object .. "!")
    end))

    it("what completes at once works there all the same", stage.sim(function()
      local ch = rn.chan(5)
      coroutine.wrap(function()
        ch:put(1)
        assert.equal(true, (rn.alts { { ch, 2 } }))
      end)()
      table.sort({ 1, 2 }, function(a, b)
        assert.equal(1, ch:take())
        assert.equal(2, (rn.alts { ch }))
        return a < b
      end)
    end))

    it("a callback of the driver says so", function()
      local errors = {}
      rn.driver {
        wait = function()
          for name, wait in pairs(waits) do errors[name] = select(2, pcall(wait)) end
          errors.run = select(2, pcall(rn.run))
          errors.driver = select(2, pcall(rn.driver))
        end,
        alive = function() return false end,
      }
      rn.step()
      for name in pairs(waits) do
        assert.matches(name .. " would have to wait, which is impossible inside a callback", errors[name])
      end
      assert.matches("run: cannot be called inside a callback", errors.run)
      assert.matches("driver: cannot be called inside a callback", errors.driver)
      rn.driver(nil)
    end)

    it("step has nothing to do in a callback of the driver: the scheduler is running", function()
      local log, results = {}, {}
      rn.driver {
        wait = function()
          rn.go(function() log[#log + 1] = "ran" end)
          results[#results + 1] = rn.step()
          assert.same({}, log)
        end,
        alive = function() return false end,
      }
      rn.step(0)
      rn.driver(nil)
      assert.same({ math.huge }, results)
      rn.run()
      assert.same({ "ran" }, log)
    end)
  end)

  describe("inside a go block", function()
    it("run and step are refused", function()
      local errors = {}
      rn.go(function()
        for _, name in ipairs { "run", "step" } do errors[name] = select(2, pcall(rn[name])) end
        errors.f = select(2, pcall(rn.run, print))
        errors.co = coroutine.wrap(function() return select(2, pcall(rn.run)) end)()
      end)
      rn.run()
      for _, name in ipairs { "run", "step" } do
        assert.equal(
          name .. ": cannot be called inside a go block, where the scheduler is already running", errors[name])
      end
      assert.matches("run: cannot be called inside a go block", errors.f)
      assert.matches("run: cannot be called inside a go block", errors.co)
    end)

    it("driver sets the driver from the next wait on", function()
      local waits, previous = 0, "unset"
      local driver = {
        wait = function() waits = waits + 1 end,
        alive = function() return false end,
      }
      rn.run(function()
        previous = rn.driver(driver)
        rn.sleep(1)
      end)
      assert.is_nil(previous)
      assert.is_true(waits > 0)
      assert.equal(driver, rn.driver(nil))
    end)

    it("run and step are refused in a callback that is called later", function()
      local errors = {}
      rn.run(function()
        local ch = rn.chan()
        ch:take_async(function()
          for _, name in ipairs { "run", "step" } do errors[name] = select(2, pcall(rn[name])) end
        end, false)
        ch:put(1)
        rn.yield()
      end)
      for _, name in ipairs { "run", "step" } do
        assert.equal(
          name .. ": cannot be called inside a callback, where the scheduler is already running", errors[name])
      end
    end)

    it("run is refused in transducers and callbacks outside", function()
      local err
      local ch = rn.chan(1, function(rf)
        return function(...)
          if select("#", ...) == 2 then err = select(2, pcall(rn.run)) end
          return rf(...)
        end
      end)
      ch:put(1)
      assert.matches("run: cannot be called inside a transducer", err)
      ch:take_async(function() err = select(2, pcall(rn.run)) end)
      assert.matches("run: cannot be called inside a callback", err)
    end)
  end)
end)
