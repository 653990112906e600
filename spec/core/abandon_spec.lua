local rn = require "runnel"
local gc = require "spec.support.gc"
local long = require "spec.support.long"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function collect()
  -- One cycle notes the time, the next hands over what was parked then, the third finds it, the fourth what that kept.
  for _ = 1, 4 do collectgarbage() end
end

-- Starts a go block that runs f(...), and returns a weak table that has something as long as the block lives.
local function watched(f, ...)
  local weak = setmetatable({}, { __mode = "k" })
  local token = {}
  weak[token] = true
  rn.go(function(...)
    f(...)
    return token
  end, ...)
  return weak
end

local function lives(weak) return next(weak) ~= nil end

describe("abandoned go blocks", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("are collected", function()
    for name, park in pairs {
      ["in a take"] = function() rn.chan():take() end,
      ["in a put"] = function() rn.chan():put {} end,
      ["in a put on a full buffer"] = function()
        local ch = rn.chan(1)
        ch:put(1)
        ch:put(2)
      end,
      ["in alts over takes"] = function() rn.alts { rn.chan(), rn.chan() } end,
      ["in alts over puts"] = function() rn.alts { { rn.chan(), 1 }, { rn.chan(), {} } } end,
      ["in alts over many"] = function()
        local ops = {}
        for i = 1, 50 do ops[i] = rn.chan() end
        rn.alts(ops)
      end,
      ["in alts over put and take of one channel"] = function()
        local ch = rn.chan()
        rn.alts { ch, { ch, 1 } }
      end,
      ["in a loop over a channel"] = function() for _ in rn.chan() do end end,
      ["on a promise channel"] = function() rn.promise_chan():take() end,
      ["on a channel with a transducer"] = function() rn.chan(1, function(rf) return rf end):take() end,
      ["on a channel with a policy"] = function() rn.chan(rn.priority_buffer(3)):take() end,
      ["on the end of a channel"] = function() rn.chan():done():take() end,
      ["on a channel that refers to the block"] = function()
        local ch = rn.chan(1)
        ch:put { coroutine.running(), ch }
        ch:put(1)
      end,
      ["on a named channel in a named block"] = function()
        rn.rename "block"
        rn.chan():name("channel"):take()
      end,
      ["within nested calls and pcalls"] = function()
        pcall(function() pcall(function() rn.chan():take() end) end)
      end,
    } do
      it(name, function()
        local weak
        rn.run(function()
          weak = watched(park)
          rn.yield()
          assert.is_true(lives(weak))
          collect()
          assert.is_false(lives(weak))
          assert.same({}, stage.others())
        end)
      end)
    end

    it("once the channel is dropped, and not before", stage.sim(function()
      local ch = rn.chan()
      local weak = watched(function(c) c:take() end, ch)
      rn.yield()
      collect()
      assert.is_true(lives(weak))
      assert.equal(1, ch:stats().takes_waiting)
      ch = nil -- luacheck: ignore 311
      collect()
      assert.is_false(lives(weak))
    end))

    it("when they wait for one another in a cycle", stage.sim(function()
      local weaks = {}
      do
        local chans = {}
        for i = 1, 10 do chans[i] = rn.chan() end
        for i = 1, 10 do
          weaks[i] = watched(function(from, to)
            from:take()
            to:put(1)
          end, chans[i], chans[i % 10 + 1])
        end
      end
      rn.yield()
      collect()
      for i = 1, 10 do assert.is_false(lives(weaks[i])) end
    end))

    it("when they wait for a result that never comes", stage.sim(function()
      local inner
      local outer = watched(function()
        local ch = rn.chan()
        local result = rn.go(function() ch:take() end)
        inner = setmetatable({ result }, { __mode = "v" })
        result:take()
      end)
      rn.sleep(1)
      assert.is_true(lives(outer))
      collect()
      assert.is_false(lives(outer))
      assert.is_nil(inner[1])
    end))

    it("in chains of 1000, each waiting for the next one's result", stage.sim(function()
      local weak = watched(function()
        local function nest(n)
          if n == 0 then return rn.chan():take() end
          return rn.go(nest, n - 1):take()
        end
        nest(1000)
      end)
      rn.sleep(1)
      assert.is_true(#stage.others() > 1000)
      collect()
      assert.is_false(lives(weak))
      assert.same({}, stage.others())
    end))

    it("and so are callbacks that can never be called", stage.sim(function()
      local weak = setmetatable({}, { __mode = "k" })
      do
        local token, other = {}, {}
        weak[token], weak[other] = true, true
        rn.chan():take_async(function() return token end)
        rn.chan():put_async(1, function() return other end)
      end
      collect()
      assert.is_nil(next(weak))
    end))

    it("and so are pipes and pipelines between dropped channels", stage.sim(function()
      do
        local from = rn.chan()
        rn.pipe(from, rn.chan())
        rn.merge { rn.chan(), rn.chan() }
        rn.pipeline_async(3, rn.chan(), function() end, from)
        rn.pipeline_async_unordered(3, rn.chan(), function() end, rn.chan())
        rn.into({}, rn.chan())
        rn.onto_chan(rn.chan(), { 1, 2, 3 })
      end
      rn.sleep(1)
      assert.is_true(#stage.others() > 5)
      collect()
      assert.same({}, stage.others())
    end))

    for name, park in pairs {
      ["in a take"] = function(ch) ch:take() end,
      ["in alts"] = function(ch) rn.alts { ch, rn.chan(), { rn.chan(), 1 } } end,
    } do
      it("once somebody has closed their coroutine " .. name .. ", though the channel is kept", stage.sim(function()
        local ch, weak, co = rn.chan(), setmetatable({}, { __mode = "k" }), nil
        weak[rn.go(function()
          co = coroutine.running()
          weak[co] = true
          park(ch)
        end)] = true
        rn.yield()
        collect()
        assert.is_true(coroutine.close(co))
        co = nil
        collect()
        assert.is_nil(next(weak))
        assert.is_nil(ch:offer(1))
      end))
    end

    it("but their variables are not closed, as with any coroutine", stage.sim(function()
      local closed
      local weak = watched(function()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        rn.chan():take()
      end)
      rn.yield()
      collect()
      assert.is_false(lives(weak))
      assert.is_nil(closed)
    end))
  end)

  describe("stay", function()
    it("in alts over a channel that is kept and one that is dropped", stage.sim(function()
      local kept, got = rn.chan(), nil
      local weak = watched(function(ch) got = rn.alts { rn.chan(), ch, { rn.chan(), 1 } } end, kept)
      rn.yield()
      collect()
      assert.is_true(lives(weak))
      kept:put "value"
      rn.yield()
      assert.equal("value", got)
      collect()
      assert.is_false(lives(weak))
    end))

    it("on a timeout, which will come", stage.sim(function()
      local log = {}
      rn.go(function()
        rn.timeout(100):take()
        log[#log + 1] = "take"
      end)
      rn.go(function()
        rn.alts { rn.chan(), rn.timeout(200) }
        log[#log + 1] = "alts"
      end)
      rn.go(function()
        rn.sleep(300)
        log[#log + 1] = "sleep"
      end)
      rn.yield()
      collect()
      rn.sleep(1000)
      assert.same({ "take", "alts", "sleep" }, log)
    end))

    it("when the other end is in a block that is kept", stage.sim(function()
      local got
      do
        local ch = rn.chan()
        rn.go(function() got = ch:take() end)
        rn.go(function()
          rn.sleep(100)
          ch:put "value"
        end)
      end
      rn.yield()
      collect()
      rn.sleep(200)
      assert.equal("value", got)
    end))

    it("when only a chain of blocks leads to a timer", stage.sim(function()
      local got
      do
        local first = rn.chan()
        local last = first
        for _ = 1, 50 do
          local from, to = last, rn.chan()
          rn.go(function() to:put(from:take() + 1) end)
          last = to
        end
        rn.go(function() got = last:take() end)
        rn.go(function()
          rn.sleep(100)
          first:put(0)
        end)
      end
      rn.yield()
      collect()
      rn.sleep(200)
      assert.equal(50, got)
    end))

    it("when only a callback leads to them", stage.sim(function()
      local got
      local source = rn.chan()
      do
        local ch = rn.chan()
        source:take_async(function(v) ch:put_async(v) end)
        rn.go(function() got = ch:take() end)
      end
      rn.yield()
      collect()
      source:put "value"
      rn.sleep(1)
      assert.equal("value", got)
    end))
  end)

  describe("handed over to their channels wake properly", function()
    -- Parks f(ch) in a block, hands it over, completes it by `complete(ch)`; returns what f returned.
    local function woken(f, complete, ch)
      return sim.run(function()
        ch = ch or rn.chan()
        local results
        rn.go(function() results = table.pack(f(ch)) end)
        rn.yield()
        collect()
        complete(ch)
        collect()
        rn.sleep(1000)
        assert.equal(0, ch:stats().takes_waiting)
        assert.equal(0, ch:stats().puts_waiting)
        assert.same({}, stage.others())
        return results
      end)
    end
    local function take(ch) return ch:take() end
    local function put(ch) return ch:put "put" end

    it("a take by put, offer, put_async and alts", function()
      for _, complete in ipairs {
        function(ch) assert.is_true(ch:put "v") end,
        function(ch) assert.is_true(ch:offer "v") end,
        function(ch) assert.is_true(ch:put_async "v") end,
        function(ch) assert.is_true((rn.alts { { ch, "v" } })) end,
        function(ch) rn.go(function() ch:put "v" end) end,
      } do
        assert.same({ n = 1, "v" }, woken(take, complete))
      end
    end)

    it("a take by close, with and without an error", function()
      assert.same({ n = 1 }, woken(take, function(ch) ch:close() end))
      assert.same({ n = 2, nil, "why" }, woken(take, function(ch) ch:close "why" end))
    end)

    it("a put by take, poll, take_async and alts", function()
      for _, complete in ipairs {
        function(ch) assert.equal("put", ch:take()) end,
        function(ch) assert.equal("put", ch:poll()) end,
        function(ch)
          local got
          ch:take_async(function(v) got = v end)
          assert.equal("put", got)
        end,
        function(ch) assert.equal("put", (rn.alts { rn.chan(), ch })) end,
        function(ch)
          ch:close()
          collect()
          assert.equal("put", ch:take())
        end,
      } do
        assert.same({ n = 1, true }, woken(put, complete))
      end
    end)

    it("a put into a buffer by the room that comes", function()
      local ch = rn.chan(1)
      ch:put "first"
      assert.same({ n = 1, true }, woken(put, function(c)
        assert.equal("first", c:take())
        collect()
        assert.equal("put", c:take())
      end, ch))
    end)

    it("alts by any of their channels", function()
      local a, b, c
      local function choose() return rn.alts { a, { b, "b" }, c } end
      for _, case in ipairs {
        { function() a:put "v" end, function() return { n = 2, "v", a } end },
        { function() assert.equal("b", b:take()) end, function() return { n = 2, true, b } end },
        { function() b:close() end, nil },
        { function() c:close() end, function() return { n = 2, nil, c } end },
        { function() c:close "why" end, function() return { n = 3, nil, c, "why" } end },
        { function() rn.alts { { c, 1 } } end, function() return { n = 2, 1, c } end },
      } do
        a, b, c = rn.chan(), rn.chan(), rn.chan()
        if case[2] then
          local results = woken(choose, case[1], a)
          assert.same(case[2](), results)
          assert.equal(0, b:stats().puts_waiting)
          assert.equal(0, c:stats().takes_waiting)
        end
      end
    end)

    it("by the end of a channel and of a go block", function()
      assert.same({ n = 1 }, woken(function(ch) return ch:done():take() end, function(ch) ch:close() end))
      assert.same({ n = 1, "v" }, woken(function(ch)
        return rn.go(function() return ch:take() end):take()
      end, function(ch) ch:put "v" end))
    end)

    it("on channels with transducers and policies", function()
      local double = function(rf) return function(acc, ...) return rf(acc, ...) end end
      for _, make in ipairs {
        function() return rn.chan(1, double) end,
        function() return rn.chan(rn.priority_buffer(1)) end,
        function() return rn.promise_chan() end,
        function() return rn.chan(rn.sliding_buffer(1)) end,
      } do
        assert.same({ n = 1, "v" }, woken(take, function(ch) ch:put "v" end, make()))
        assert.same({ n = 1 }, woken(take, function(ch) ch:close() end, make()))
      end
    end)

    it("many of them, in the order in which they waited", stage.sim(function()
      local ch, log = rn.chan(), {}
      for i = 1, 1000 do
        rn.go(function()
          local v = ch:take()
          log[#log + 1] = i * 1000000 + v
        end)
        if i % 100 == 0 then
          rn.yield()
          collect()
        end
      end
      rn.yield()
      collect()
      for v = 1, 1000 do ch:put(v) end
      rn.yield()
      for i = 1, 1000 do assert.equal(i * 1000000 + i, log[i]) end
    end))

    it("again and again", stage.sim(function()
      local ping, pong = rn.chan(), rn.chan()
      rn.go(function() for v in ping do pong:put(v + 1) end end)
      for i = 1, 30 do
        rn.yield()
        collectgarbage()
        ping:put(i)
        collectgarbage()
        assert.equal(i + 1, pong:take())
      end
    end))

    it("under a collector that never rests", stage.sim(function()
      local mode = gc.incremental(100, 1000, 1)
      local a, b, sum = rn.chan(), rn.chan(3), 0
      for _ = 1, 20 do
        rn.go(function() for v in a do rn.alts { { b, { v } }, rn.chan() } end end)
      end
      local result = rn.go(function()
        for _ = 1, 2000 do sum = sum + b:take()[1] end
      end)
      for i = 1, 2000 do a:put(i) end
      result:take()
      a:close()
      gc.usual()
      collectgarbage(mode)
      assert.equal(2001000, sum)
    end))
  end)

  describe("and finalizers", function()
    it("that close a channel wake the block that waits on it", stage.sim(function()
      local ended
      do
        local ch = rn.chan()
        rn.go(function()
          ch:take()
          ended = "taken"
        end)
        -- Nothing but the resource leads to the channel: when that is dropped, its finalizer closes it.
        setmetatable({}, { __gc = function() ch:close() end })
      end
      rn.yield()
      collect()
      rn.sleep(10)
      assert.equal("taken", ended)
      assert.same({}, stage.others())
    end))

    it("may put on a channel after a collection has reached the block", stage.sim(function()
      local got = {}
      for i = 1, 20 do
        local resource = {}
        do
          local ch, other = rn.chan(), rn.chan()
          rn.go(function()
            local v = i % 2 == 0 and ch:take() or rn.alts { other, ch }
            got[#got + 1] = v
            rn.chan():take()
          end)
          setmetatable(resource, { __gc = function() ch:offer(i) end })
        end
        rn.yield()
        collectgarbage()
        collectgarbage()
        resource = nil -- luacheck: ignore 311
        collectgarbage()
        rn.go(function() end) -- may get the place of one that was taken for dead
      end
      rn.sleep(10)
      collect()
      rn.sleep(10)
      assert.equal(20, #got)
      assert.same({}, stage.others())
    end))

    it("within the abandoned block may use the block's channel", stage.sim(function()
      local seen = 0
      for i = 1, 20 do
        rn.go(function()
          local ch = rn.chan()
          local held = setmetatable({}, { __gc = function()
            seen = seen + 1
            if i % 3 == 0 then ch:close() elseif i % 3 == 1 then ch:offer(i) else ch:poll() end
          end })
          ch:take()
          return held
        end)
      end
      rn.yield()
      collect()
      rn.sleep(10)
      collect()
      assert.equal(20, seen)
      rn.sleep(10)
      collect()
      assert.same({}, stage.others())
    end))

    it("may start go blocks and close coroutines", stage.sim(function()
      local ran = 0
      for _ = 1, 10 do
        rn.go(function()
          local co = coroutine.running()
          local held = setmetatable({}, { __gc = function()
            coroutine.close(co)
            rn.go(function() ran = ran + 1 end)
          end })
          rn.chan():take()
          return held
        end)
      end
      rn.yield()
      collect()
      rn.sleep(10)
      collect()
      assert.equal(10, ran)
      assert.same({}, stage.others())
    end))
  end)

  describe("leave memory flat", function()
    -- KB in use after abandoning n blocks, in rounds; without collecting by hand.
    local function abandon(n, park)
      for _ = 1, n / 100 do
        for _ = 1, 100 do rn.go(park) end
        rn.sleep(1) -- of virtual time: for the simulation, what goes on for ever without any is a livelock
      end
    end

    -- KB that 2000 abandoned blocks leave: the least of three tries, since a table may double in one of them. 16 KB are
    -- 8 bytes a block, less than anything that could be left of one.
    local function least_growth(park)
      local least = math.huge
      for _ = 1, 3 do
        local before = collectgarbage "count"
        abandon(2000, park)
        rn.sleep(1)
        collect()
        least = math.min(least, collectgarbage "count" - before)
      end
      return least
    end

    -- `slack`, `margin`: by how many KB memory may have grown in the end, and meanwhile.
    local function flat(n, park, slack, margin)
      slack, margin = slack or 2000, margin or 60000
      return function()
        sim.run(function()
          abandon(20000, park)
          collect()
          local before, most = collectgarbage "count", 0
          for _ = 1, 10 do
            abandon(n / 10, park)
            most = math.max(most, collectgarbage "count")
          end
          rn.sleep(1)
          collect()
          local after = collectgarbage "count"
          -- The tables of go blocks, and the list of what go blocks wait on, may have doubled, more than once: up to 72
          -- bytes for each block that was not collected yet when there were most of them. How many that are depends on
          -- the Lua, and on how much the other specs have left: where a collection begins late, some ten thousand.
          assert.is_true(after < before + slack, ("%.0f KB before, %.0f after"):format(before, after))
          -- The memory of those not yet collected is bounded, too: far less than 1.3 KB for each go block.
          assert.is_true(most < before + margin, ("%.0f KB before, %.0f at most"):format(before, most))
          local growth = least_growth(park)
          assert.is_true(growth < 16, ("2000 more blocks left %.1f KB"):format(growth))
          assert.equal(0, #stage.others())
        end)
      end
    end

    it("in takes #heavy", flat(long.times(20000, 2000000), function() rn.chan():take() end))
    it("in alts #heavy", flat(long.times(10000, 400000), function() rn.alts { rn.chan(), { rn.chan(), 1 } } end))
    it("in pairs waiting for each other #heavy", flat(long.times(10000, 400000), function()
      local a, b = rn.chan(), rn.chan()
      rn.go(function() b:put(a:take()) end)
      a:put(b:take())
    end))

    it("in bursts, a thousand at once #heavy", function()
      local before, most = collectgarbage "count", 0
      sim.run(function()
        for _ = 1, long.times(60, 800) do
          for _ = 1, 1000 do
            rn.go(function() rn.chan():take() end)
          end
          rn.yield()
          most = math.max(most, collectgarbage "count" - before)
        end
      end)
      assert.is_true(most < 50000, ("%.0f KB more"):format(most)) -- all of them take 130,000
    end)

    it("in one burst of 100,000, after a few collections #heavy", function()
      sim.run(function()
        for _ = 1, 100000 do
          rn.go(function() rn.chan():take() end)
        end
        rn.yield()
        for _ = 1, 6 do collectgarbage() end
        assert.same({}, stage.others())
      end)
    end)

    it("many that end while others are abandoned #heavy", flat(long.times(15000, 400000), function()
      if math.random(2) == 1 then rn.chan():put {} end
    end))

    -- Under Lua's incremental collector, which is what a program has that embeds Lua. Many wait to be collected: a
    -- collection begins when the heap has doubled. It is the last spec, since a heap that was large delays later
    -- collections.
    it("beside much other data #heavy", function()
      local n, data = long.times(100000, 400000), {} -- 10 or 40 MB
      for i = 1, n do data[i] = { i } end
      local mode = collectgarbage "incremental"
      local _ <close> = setmetatable({}, { __close = function() collectgarbage(mode) end })
      flat(long.times(75000, 400000), function() rn.alts { rn.chan(), { rn.chan(), 1 } } end, 20000,
        long.times(50000, 100000))()
      assert.equal(n, #data) -- they are in use until here
    end)
  end)
end)
