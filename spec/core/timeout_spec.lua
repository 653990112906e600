local finalizers = require "spec.support.finalizers"
local rn = require "runnel"
local long = require "spec.support.long"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("timeout", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("sharing", function()
    -- Whether a request at deadline `second` gets the channel that a request at `first` has made.
    local function shares(first, second)
      return sim.run(function() return rn.timeout(first) == rn.timeout(second) end)
    end

    it("gives a request for t a pending one in [t, t + 10)", function()
      for _, t in ipairs { 0, 1, 9, 10, 11, 15, 19.5, 20, 99, 100, 101, 12345.678, 1e6, 1e9 } do
        assert.is_true(shares(t, t), t)
        assert.is_true(shares(t + 9, t), t)
        assert.is_true(shares(t + 9.999, t), t)
        assert.is_true(shares(t + 0.001, t), t)
        assert.is_false(shares(t + 10, t), t)
        assert.is_false(shares(t + 10.001, t), t)
        assert.is_false(shares(t, t + 0.001), t)
        assert.is_false(shares(t, t + 1), t)
      end
    end)

    it("never wakes early, and never 10 ms late, and shares wherever it can #heavy", function()
      sim.each_seed(long.times(15, 200), function(seed)
        local random = seed * 7919
        local function below(n)
          random = (random * 1103515245 + 12345) % 2147483648
          return random // 65536 % n
        end
        local pending = {} -- deadline -> channel
        for _ = 1, 300 do
          local ms = below(80) / 2
          local t = rn.now() + ms
          local ch = rn.timeout(ms)
          local deadline
          local could = false
          for d, c in pairs(pending) do
            if d > rn.now() and d >= t and d < t + 10 then could = true end
            if c == ch then deadline = d end
          end
          if could then
            assert.is_truthy(deadline, "not shared although it could be")
          end
          if deadline then
            assert.is_true(deadline >= t and deadline < t + 10)
          else
            pending[t] = ch
          end
          if below(4) == 0 then
            rn.sleep(below(20) / 2 + 0.25)
            for d, c in pairs(pending) do
              assert.equal(d <= rn.now(), c:closed())
              if d <= rn.now() then pending[d] = nil end
            end
          end
        end
      end)
    end)

    it("does not give one that has closed", stage.sim(function()
      local first = rn.timeout(5)
      rn.sleep(5)
      assert.is_true(first:closed())
      local second = rn.timeout(0)
      assert.not_equal(first, second)
      assert.is_false(second:closed())
    end))

    it("counts from the time of the request", stage.sim(function()
      local first = rn.timeout(100)
      rn.sleep(95)
      assert.equal(first, rn.timeout(5))
      assert.equal(first, rn.timeout(0))
      assert.not_equal(first, rn.timeout(5.5))
    end))

    it("keeps those of one window apart, whatever the order in which they come", stage.sim(function()
      local by = {}
      for _, ms in ipairs { 1, 3, 5, 7, 9 } do by[ms] = rn.timeout(ms) end
      local before = rn.now()
      for _, ms in ipairs { 1, 3, 5, 7, 9 } do
        by[ms]:take()
        assert.equal(ms, rn.now() - before)
      end
    end))

    it("keeps all of one window alive without being held", stage.sim(function()
      local log = {}
      for _, ms in ipairs { 21, 22, 23, 24, 25, 31, 32 } do
        local ch = rn.timeout(ms)
        ch:take_async(function() log[#log + 1] = rn.now() end)
      end
      for _ = 1, 4 do collectgarbage() end
      rn.sleep(50)
      assert.same({ 21, 22, 23, 24, 25, 31, 32 }, log)
    end))

    it("works again in a window that has been emptied", stage.sim(function()
      for round = 1, 20 do
        local before = rn.now()
        local a, b = rn.timeout(1), rn.timeout(2)
        assert.not_equal(a, b)
        b:take()
        assert.equal(2, rn.now() - before, round)
        assert.is_true(a:closed())
      end
    end))

    it("happens in real time, for requests in a row", function()
      -- Deadlines are rounded up to the millisecond, else no two requests would ever have the same.
      local shared = 0
      for _ = 1, 200 do
        if rn.timeout(5) == rn.timeout(5) then shared = shared + 1 end
      end
      assert.is_true(shared > 0)
      rn.run()
    end)
  end)

  describe("waiting", function()
    it("serves more than 1024 takers, in order", stage.sim(function()
      local ch, log = rn.timeout(100), {}
      for i = 1, 5000 do
        rn.go(function()
          ch:take()
          log[#log + 1] = i
        end)
      end
      rn.sleep(99)
      assert.equal(0, #log)
      assert.equal(5000, ch:stats().takes_waiting)
      rn.sleep(2)
      for i = 1, 5000 do assert.equal(i, log[i]) end
    end))

    it("serves more than 1024 in alts", stage.sim(function()
      local ch, n = rn.timeout(100), 0
      for _ = 1, 2000 do
        rn.go(function()
          local _, port = rn.alts { rn.chan(), ch }
          if port == ch then n = n + 1 end
        end)
      end
      rn.sleep(101)
      assert.equal(2000, n)
    end))

    it("wakes equal deadlines in the order in which they were set", stage.sim(function()
      local log = {}
      for i = 1, 200 do
        rn.go(function()
          if i % 3 == 0 then rn.timeout(50):take() else rn.sleep(50) end
          log[#log + 1] = i
        end)
      end
      rn.sleep(60)
      -- The timeout channel that the third has made is shared by every third.
      local expected = {}
      for i = 1, 2 do expected[i] = i end
      for i = 3, 200, 3 do expected[#expected + 1] = i end
      for i = 4, 200 do if i % 3 ~= 0 then expected[#expected + 1] = i end end
      assert.same(expected, log)
    end))

    it("gives nil and is closed, at once when that has happened", stage.sim(function()
      local ch = rn.timeout(10)
      assert.same({ n = 1 }, table.pack(ch:take()))
      assert.is_true(ch:closed())
      assert.same({ n = 1 }, table.pack(ch:take()))
      assert.equal(10, sim.elapsed())
    end))

    it("of 0 ms lets the others run first, but no time pass", stage.sim(function()
      local log = {}
      rn.go(function() log[#log + 1] = "other" end)
      rn.timeout(0):take()
      log[#log + 1] = "timeout"
      rn.go(function() log[#log + 1] = "other" end)
      rn.sleep(0)
      log[#log + 1] = "sleep"
      assert.same({ "other", "timeout", "other", "sleep" }, log)
      assert.equal(0, sim.elapsed())
    end))

    it("of more than the clock can count never ends", function()
      sim.run(function()
        local value, port = rn.alts { rn.timeout(1e300), rn.timeout(1e12) }
        assert.is_nil(value)
        assert.equal(1e12, sim.elapsed())
        assert.is_false(port == rn.timeout(1e300))
      end)
    end)

    it("done is the channel itself", stage.sim(function()
      local ch = rn.timeout(10)
      ch:done():take()
      assert.equal(10, sim.elapsed())
      ch:done():take()
      assert.equal(10, sim.elapsed())
      assert.equal(ch, ch:done()) -- also after it has closed
    end))

    it("cannot be closed, since others may share it", stage.sim(function()
      local ch = rn.timeout(10)
      assert.error_matches(function() ch:close() end, "close: a timeout closes by itself")
      assert.error_matches(function() local _ <close> = ch end, "close: a timeout closes by itself")
      assert.is_false(ch:closed())
      ch:take()
      assert.equal(10, sim.elapsed())
      ch:close() -- it is closed: no harm in that
    end))

    it("refuses puts of values like any channel: they go to a taker", stage.sim(function()
      assert.error_matches(function() rn.timeout(10):put(nil) end, "nil cannot be put")
    end))
  end)

  describe("on which nothing waits", function()
    it("does not keep rn.run going, nor step", function()
      local ready = rn.chan(1)
      ready:put(1)
      local late = rn.timeout(30000)
      assert.equal(1, (rn.alts { ready, late }))
      rn.run()
      assert.is_nil(rn.step())
      assert.is_false(late:closed())
    end)

    it("does not delay a deadlock, wherever its timer is", stage.sim(function()
      for ms = 10000, 20000, 100 do rn.timeout(ms) end
      local other = rn.chan()
      rn.go(function() rn.alts { other, rn.timeout(5000) } end)
      rn.go(function()
        rn.sleep(50)
        other:put(1)
      end)
      assert.error_matches(function() rn.chan():take() end, "^deadlock: ")
      assert.equal(50, sim.elapsed())
    end))

    it("is waited for as soon as anything does: a take, alts, a callback, or what copies its end", stage.sim(function()
      local function closes_later(wait)
        local since, over = rn.now(), rn.chan()
        for ms = 10, 90, 10 do rn.timeout(ms) end
        wait(rn.timeout(100), over)
        for ms = 110, 200, 10 do rn.timeout(ms) end
        over:take()
        assert.equal(100, rn.now() - since)
      end
      closes_later(function(late, over) rn.go(function() over:close(late:take()) end) end)
      closes_later(function(late, over) rn.go(function() over:close((rn.alts { rn.chan(), late })) end) end)
      closes_later(function(late, over) rn.onto_chan(late, { 1 }):done():take_async(function() over:close() end) end)
      closes_later(function(late, over) late:take_async(function() over:close() end) end)
      closes_later(function(late, over) late:done():take_async(function() over:close() end) end)
      closes_later(function(late, over) rn.pipe(late, over) end)
      closes_later(function(late, over) rn.merge({ late }):done():take_async(function() over:close() end) end)
      closes_later(function(late, over) rn.mult(late):tap(over) end)
      closes_later(function(late, over) rn.pub(late, function() return 1 end):sub(1, over) end)
    end))

    it("still closes in time for what comes to it later", stage.sim(function()
      local late = rn.timeout(100)
      rn.go(function()
        rn.sleep(50)
        late:take()
        assert.equal(100, sim.elapsed())
        rn.go(function() rn.sleep(1) end)
      end):take()
      assert.is_true(late:closed())
    end))
  end)

  describe("sleep", function()
    it("is exact, to fractions of a millisecond", stage.sim(function()
      local t = 0
      for _, ms in ipairs { 1, 0.5, 0.25, 1000, 3.125, 0.000001, 86400000 } do
        rn.sleep(ms)
        t = t + ms
        assert.is_true(math.abs(rn.now() - t) < 1e-6)
      end
      assert.equal(rn.now(), sim.elapsed())
    end))

    it("shares nothing: each wakes at its own time", stage.sim(function()
      local log = {}
      for i = 10, 1, -1 do
        rn.go(function()
          rn.sleep(i / 10)
          log[#log + 1] = rn.now()
        end)
      end
      rn.sleep(2)
      for i = 1, 10 do assert.is_true(math.abs(log[i] - i / 10) < 1e-9) end
    end))

    it("of more than the clock can count sleeps for ever, and is no deadlock for others", function()
      sim.run(function()
        rn.go(rn.sleep, 1e300)
        rn.sleep(1e12)
        assert.equal(1e12, sim.elapsed())
      end)
    end)

    it("returns nothing", stage.sim(function()
      assert.equal(0, select("#", rn.sleep(1)))
      assert.equal(0, select("#", rn.sleep(0)))
      assert.equal(0, select("#", rn.yield()))
    end))

    it("gives whole milliseconds as integers", stage.sim(function()
      rn.sleep(5)
      assert.equal("integer", math.type(rn.now()))
      rn.sleep(0.5)
      assert.equal(5.5, rn.now())
    end))
  end)

  describe("bad times", function()
    for _, name in ipairs { "timeout", "sleep" } do
      it(("of %s are refused"):format(name), stage.sim(function()
        local f = rn[name]
        for _, bad in ipairs { -1, -0.001, -math.huge, 0 / 0 } do
          assert.error_matches(function() f(bad) end, name .. ": a time of 0 ms or more expected, got ")
        end
        assert.error_matches(function() f(math.huge) end, name .. ": a finite time expected, got infinity")
        for _, bad in ipairs { "10", {}, true } do
          assert.error_matches(function() f(bad) end,
            name .. ": a number of milliseconds expected, got " .. type(bad))
        end
        assert.error_matches(function() f(nil) end, name .. ": a number of milliseconds expected, got nil")
        assert.error_matches(function() f() end, name .. ": a number of milliseconds expected, got nothing")
      end))
    end
  end)

  describe("many", function()
    -- A few thousand sleepers against a list sorted by deadline, then by when they began.
    it("random timers wake in the order of a sorted list #heavy", function()
      for seed = 1, long.times(3, 30) do
        sim.run(function()
          local random = seed
          local function below(n)
            random = (random * 1103515245 + 12345) % 2147483648
            return random // 65536 % n
          end
          local model, log = {}, {}
          for i = 1, 2000 do
            local ms = below(500) / 4 + 0.25
            rn.go(function()
              model[#model + 1] = { at = rn.now() + ms, i = i }
              rn.sleep(ms)
              log[#log + 1] = { at = rn.now(), i = i }
            end)
            if below(50) == 0 then rn.sleep(below(10) + 0.125) end
          end
          rn.sleep(1000)
          table.sort(model, function(a, b)
            if a.at ~= b.at then return a.at < b.at end
            return a.i < b.i
          end)
          assert.equal(#model, #log)
          for k = 1, #model do
            assert.equal(model[k].i, log[k].i)
            assert.equal(model[k].at, log[k].at)
          end
        end)
      end
    end)

    it("withdrawn from the heap leave the others in order", stage.sim(function()
      local cos, log = {}, {}
      local random = 1
      for i = 1, 1000 do
        random = (random * 1103515245 + 12345) % 2147483648
        local ms = random // 65536 % 300 + 1
        rn.go(function()
          cos[i] = coroutine.running()
          rn.sleep(ms)
          log[#log + 1] = { ms = ms, i = i }
        end)
      end
      rn.yield()
      for i = 1, 1000 do if i % 3 ~= 0 then coroutine.close(cos[i]) end end
      rn.sleep(1000)
      assert.equal(333, #log)
      for k = 2, #log do
        local a, b = log[k - 1], log[k]
        assert.is_true(a.ms < b.ms or a.ms == b.ms and a.i < b.i)
        assert.equal(0, b.i % 3)
      end
    end))

    it("timeouts fire, each at its time #heavy", stage.sim(function()
      local all, n, late = long.times(20000, 100000), 0, 0
      for i = 1, all do
        local ms = i * 37 % 10007 / 8
        rn.timeout(ms):take_async(function()
          n = n + 1
          if rn.now() < ms or rn.now() >= ms + 10 then late = late + 1 end
        end)
      end
      rn.sleep(20000)
      assert.equal(all, n)
      assert.equal(0, late)
    end))

    it("may be asked for by a finalizer while the slots of those before are given back", stage.sim(function()
      for round = 1, 4 do
        for i = 1, 4200 do rn.timeout(i * 20) end
        rn.sleep(1e5) -- none is pending
        local finished, closed = 0, {}
        finalizers.at_once(function()
          for i = 1, 3 do closed[i] = rn.timeout(i * round * 500) end
        end, function() closed[4] = rn.timeout(1000) end)
        for i, ch in ipairs(closed) do
          assert.equal("userdata", type(ch))
          rn.go(function()
            ch:take()
            finished = finished + 1
          end)
          closed[i] = nil
        end
        collectgarbage()
        rn.sleep(1e5)
        assert.equal(4, finished)
      end
    end))

    it("never end early, even beyond what the clock can count", function()
      for _, wait in ipairs { rn.sleep, function(ms) rn.timeout(ms):take() end } do
        sim.run(function()
          wait(4.5e12)
          wait(4.5e12)
          assert.equal(9e12, rn.now())
          wait(4.5e12) -- later than the clock can tell: at the last moment that it can
          assert.is_true(rn.now() > 9.2e12)
        end)
      end
    end)

    it("are forgotten with their simulation", function()
      sim.run(function() for i = 1, 1000 do rn.timeout(i * 20) end end)
      sim.run(function()
        local before = rn.now()
        rn.timeout(20):take()
        assert.equal(20, rn.now() - before)
      end)
      assert.is_nil(rn.step())
    end)

    it("that a simulation has left behind are channels like any other", function()
      local left
      sim.run(function() left = rn.timeout(20):name "left" end)
      assert.is_false(left:closed())
      local done = left:done()
      assert.not_equal(left, done)
      left:close "why"
      assert.same({ nil, "why" }, { left:take() })
      assert.is_true(done:closed())
      assert.matches("left", tostring(left))
    end)
  end)

  it("keeps real time #slow", function()
    local alts_took, run_took
    for _ = 1, 100 do -- a busy machine may be late
      local before = rn.now()
      rn.run(function()
        rn.go(rn.sleep, 30)
        local tick = rn.timeout(20)
        local value, port = rn.alts { rn.chan(), tick }
        assert.is_nil(value)
        assert.equal(tick, port)
        alts_took = rn.now() - before
        assert.is_true(alts_took >= 20, alts_took)
      end)
      rn.run()
      run_took = rn.now() - before
      assert.is_true(run_took >= 30, run_took)
      if alts_took < 60 and run_took < 80 then return end
    end
    error(("%g and %g ms"):format(alts_took, run_took))
  end)

  for what, timers in pairs { ["the timers"] = 16, ["the windows of the timeouts"] = 12, ["nothing"] = 2 } do
    it(("is the same when a finalizer asks for one while memory for %s grows"):format(what), function()
      sim.run(function()
        local all, by_finalizer = {}, nil
        for i = 1, timers do all[i] = rn.timeout(i * 100) end
        local function request() all[#all + 1] = rn.timeout(3000) end
        finalizers.at_once(function() by_finalizer = rn.timeout(5000) end, request)
        assert(by_finalizer)
        for _, timeout in ipairs(all) do timeout:take() end
        assert.equal(3000, sim.elapsed())
        by_finalizer:take()
        assert.equal(5000, sim.elapsed())
        local mine
        finalizers.at_once(function() by_finalizer = rn.timeout(1005) end, function() mine = rn.timeout(1000) end)
        assert.equal(by_finalizer, mine)
      end)
    end)
  end
end)
