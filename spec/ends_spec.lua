---What holds for all go blocks of the library's own: pipes, pipelines, mults and so on.

local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function range(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- A channel with the numbers to n in its buffer, closed.
local function filled(n)
  local ch = rn.chan(n)
  for i = 1, n do ch:put(i) end
  ch:close()
  return ch
end

local function sorted(list)
  table.sort(list)
  return list
end

local function same(v) return v end

-- The entries of ps for the library's go blocks: all that have not been renamed to begin with "test".
local function blocks()
  local list = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.state ~= "running" and not entry.name:find "^test" then list[#list + 1] = entry end
  end
  return list
end

-- Cancels them all, again and again until none is left.
local function kill_all(reason)
  local rounds = 0
  while #blocks() > 0 do
    for _, entry in ipairs(blocks()) do rn.cancel(entry.result, reason) end
    rn.yield()
    rounds = rounds + 1
    assert(rounds < 10, "a go block that was cancelled goes on")
  end
end

describe("the library's go blocks", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("where 1024 wait already", function()
    local N = 1500

    local function check(start)
      sim.run(function()
        local ch = rn.chan()
        start(ch)
        for _ = 1, 3 do rn.yield() end -- all of them wait
        local list = {}
        for i = 1, N do list[i] = ch:take() end
        assert.same(range(N), sorted(list))
      end)
    end

    it("pipes wait, and no value is lost", function()
      check(function(ch)
        for i = 1, N do rn.pipe(rn.to_chan { i }, ch, false) end
      end)
    end)

    it("onto_chan waits", function()
      check(function(ch)
        for i = 1, N do rn.onto_chan(ch, { i }, false) end
      end)
    end)

    it("pipelines wait", function()
      local function af(v, result)
        result:put(v)
        result:close()
      end
      check(function(ch)
        for i = 1, N // 2 do rn.pipeline_async(1, ch, af, rn.to_chan { i }, false) end
        for i = N // 2 + 1, N do rn.pipeline_async_unordered(1, ch, af, rn.to_chan { i }, false) end
      end)
    end)

    it("mults wait", function()
      check(function(ch)
        for i = 1, N do rn.mult(rn.to_chan { i }):tap(ch, false) end
      end)
    end)

    it("mixes wait", function()
      check(function(ch)
        for i = 1, N do rn.mix(ch):admix(rn.to_chan { i }) end
      end)
    end)

    it("those that take from one channel wait, too", stage.sim(function()
      local from, to = rn.chan(), rn.chan(N)
      for _ = 1, N do rn.pipe(from, to, false) end
      rn.yield()
      assert.equal(N, from:stats().takes_waiting)
      for i = 1, N do from:put(i) end
      rn.yield()
      assert.equal(N, #to)
      from:close()
      rn.yield()
    end))

    it("they do not count: others may wait until there are 1024 of those", stage.sim(function()
      local ch = rn.chan()
      for i = 1, N // 2 do rn.pipe(rn.to_chan { i }, ch, false) end
      for i = N // 2 + 1, N do rn.onto_chan(ch, { i }, false) end
      for _ = 1, 3 do rn.yield() end
      for _ = 1, 1024 do ch:put_async(0) end
      assert.error_matches(function() ch:put_async(0) end, "1024 puts wait")
      for _ = 1, N + 1024 do ch:take() end
      assert.is_nil(ch:poll())
      local from = rn.chan()
      for _ = 1, N // 2 do rn.pipe(from, rn.chan()) end
      for _ = N // 2 + 1, N do rn.into({}, from) end
      rn.yield()
      for _ = 1, 1024 do from:take_async(same) end
      assert.error_matches(function() from:take() end, "1024 takes wait")
      from:close()
      rn.yield()
    end))
  end)

  describe("let the others run", function()
    local N = 10000

    -- How many values leave the source, at most, from one turn of another go block to the next.
    local function most(over, count)
      local found, last = 0, 0
      while not over:closed() do
        rn.yield()
        local now = count()
        found, last = math.max(found, now - last), now
      end
      assert.equal(N, count())
      return found
    end

    local function quick(v, result)
      result:put(v)
      result:close()
    end

    for name, start in pairs {
      pipe = function(from) return rn.pipe(from, rn.chan(N)) end,
      merge = function(from) return rn.merge({ from }, N) end,
      mult = function(from) return rn.mult(from):tap(rn.chan(N)) end,
      pub = function(from) return rn.pub(from, function() return 1 end, function() return N end):sub(1, rn.chan(N)) end,
      split = function(from) return (rn.split(function() return true end, from, N)) end,
      map = function(from) return rn.map(same, { from }, N) end,
      take = function(from) return rn.take(N, from, N) end,
      into = function(from) return rn.into({}, from) end,
      reduce = function(from) return rn.reduce(function(_, v) return v end, 0, from) end,
      transduce = function(from) return rn.transduce(rn.xf.map(same), function(_, v) return v or 1 end, 0, from) end,
      pipeline_async = function(from) return rn.pipeline_async(2, rn.chan(N), quick, from) end,
      pipeline_async_unordered = function(from) return rn.pipeline_async_unordered(2, rn.chan(N), quick, from) end,
    } do
      it("in " .. name .. " after 128 values", stage.sim(function()
        local from = filled(N)
        local found = most(start(from):done(), function() return from:stats().take_total end)
        assert.is_true(found <= 256, "moved at once: " .. found)
      end))
    end

    it("in mix after 128 values", stage.sim(function()
      local from, out = filled(N), rn.chan(N)
      rn.mix(out):admix(from)
      rn.go(function()
        rn.rename "test"
        while #out < N do rn.yield() end
        out:close()
      end)
      assert.is_true(most(out:done(), function() return from:stats().take_total end) <= 256)
    end))

    it("in onto_chan after 128 values", stage.sim(function()
      local ch = rn.chan(N)
      local over = rn.onto_chan(ch, range(N))
      assert.is_true(most(over:done(), function() return ch:stats().put_total end) <= 256)
    end))

    it("in a mult with a thousand taps after one value", stage.sim(function()
      local from, taps = filled(100), {}
      local m = rn.mult(from)
      for i = 1, 1000 do taps[i] = m:tap(rn.chan(rn.sliding_buffer(1))) end
      local last = from:stats().take_total
      while not taps[1]:closed() do
        rn.yield()
        assert.is_true(from:stats().take_total - last <= 1)
        last = from:stats().take_total
      end
    end))

    -- The program would hang.
    for name, start in pairs {
      ["a pipe from a promise into a windowed buffer"] = function(promise)
        return rn.pipe(promise, rn.chan(rn.sliding_buffer(1)))
      end,
      ["a pipe from a channel to itself"] = function()
        local ch = rn.chan(1)
        ch:put(1)
        return rn.pipe(ch, ch)
      end,
      ["an endless iterator"] = function()
        local ch = rn.chan(rn.dropping_buffer(1))
        rn.onto_chan(ch, function() return 1 end)
        return ch
      end,
      ["a merge of a promise"] = function(promise) return rn.merge({ promise }, rn.sliding_buffer(1)) end,
      ["a mult of a promise"] = function(promise) return rn.mult(promise):tap(rn.chan(rn.sliding_buffer(1))) end,
      ["a reduction of a promise"] = function(promise) return rn.reduce(function(_, v) return v end, 0, promise) end,
    } do
      it("although it never ends: " .. name, stage.sim(function()
        local promise = rn.promise_chan()
        promise:put "again"
        local to = start(promise)
        for _ = 1, 10 do rn.yield() end
        assert.is_false(to:closed())
        kill_all "enough"
      end))
    end

    it("and Ctrl-C ends a program in which a pipe leads from a channel to itself #slow", function()
      stage.check_interrupt([[
        local rn = require "runnel"
        local ch = rn.chan(1)
        ch:put(1)
        rn.pipe(ch, ch)
      ]], "computes")
    end)

    it("the same in every run of a simulation", function()
      local function run()
        local order = {}
        sim.run(function()
          local to = rn.pipe(filled(1000), rn.chan(1000))
          while not to:closed() do
            rn.yield()
            order[#order + 1] = #to
          end
        end)
        return order
      end
      local first = run()
      rn.run(function() rn.into({}, filled(100)):take() end) -- leaves a turn unfinished
      assert.same(first, run())
    end)
  end)

  describe("that die close what they feed, with the reason:", function()
    local function source()
      local ch = rn.chan()
      rn.go(function()
        rn.rename "test source"
        for i = 1, 5 do
          if not ch:put(i) then return end
        end
      end)
      return ch
    end

    -- What each feeds.
    local feeders = {
      pipe = function() return { rn.pipe(source(), rn.chan()) } end,
      merge = function() return { rn.merge { source(), source() } } end,
      mult = function()
        local m = rn.mult(source())
        return { m:tap(rn.chan()), m:tap(rn.chan(1)) }
      end,
      pub = function()
        local p = rn.pub(source(), function(v) return v % 2 end)
        return { p:sub(0, rn.chan()), p:sub(1, rn.chan()) }
      end,
      mix = function()
        local out = rn.chan()
        rn.mix(out):admix(source())
        return { out }
      end,
      split = function() return { rn.split(function(v) return v % 2 == 0 end, source()) } end,
      map = function() return { rn.map(same, { source() }) } end,
      take = function() return { rn.take(100, source()) } end,
      into = function() return { rn.into({}, source()) } end,
      reduce = function() return { rn.reduce(function(_, v) return v end, 0, source()) } end,
      onto_chan = function()
        local ch = rn.chan()
        return { ch, rn.onto_chan(ch, range(100)) }
      end,
      to_chan = function() return { rn.to_chan(range(100)) } end,
      broadcast = function()
        local a, b = rn.chan(), rn.chan()
        rn.pipe(source(), rn.broadcast(a, b))
        return { a, b }
      end,
      pipeline_async = function()
        return { rn.pipeline_async(2, rn.chan(), function(v, result)
          result:put(v)
          result:close()
        end, source()) }
      end,
      pipeline_async_unordered = function()
        return { rn.pipeline_async_unordered(2, rn.chan(), function(v, result)
          result:put(v)
          result:close()
        end, source()) }
      end,
    }

    for name, start in pairs(feeders) do
      it(name .. ", whenever it is cancelled", function()
        for turns = 0, 12 do
          sim.run(function()
            local chs, reasons = start(), {}
            for i, ch in ipairs(chs) do
              rn.go(function()
                rn.rename "test taker"
                local v, err
                repeat
                  v, err = ch:take()
                until v == nil
                reasons[i] = err
              end)
            end
            for _ = 1, turns do rn.yield() end
            kill_all "killed"
            rn.sleep(1)
            for i = 1, #chs do assert.equal("killed", reasons[i]) end
            stage.heard() -- of jobs that were cut off
          end)
        end
      end)
    end

    for name, start in pairs {
      ["the topic function of a pub"] = function(f) return rn.pub(source(), f):sub(1, rn.chan()) end,
      ["the predicate of a split"] = function(f) return (rn.split(f, source())) end,
      ["the function of a map"] = function(f) return rn.map(f, { source() }) end,
      ["the function of a reduction"] = function(f) return rn.reduce(function(_, v) return f(v) end, 0, source()) end,
      ["an iterator"] = function(f) return rn.to_chan(f) end,
    } do
      it(name .. " that calls coroutine.yield", stage.sim(function()
        local to = start(function() coroutine.yield() end)
        rn.sleep(1)
        local heard = stage.heard()
        assert.equal(1, #heard)
        local v, err = to:take()
        assert.is_nil(v)
        assert.matches("called coroutine.yield", err)
        assert.equal(err, heard[1].err)
        assert.matches("in %l+ '[%l.]*yield'", heard[1].trace)
      end))

      it(name .. " that cancels its own go block", stage.sim(function()
        local to = start(function()
          for _, entry in ipairs(rn.ps()) do
            if entry.state == "running" then rn.cancel(entry.result, "myself") end
          end
          rn.yield()
        end)
        assert.same({ nil, "myself" }, { to:take() })
      end))

      if stage.is_5_4_3 then
        it(name .. " whose coroutine somebody closes", stage.sim(function()
          local co
          local to = start(function()
            co = coroutine.running()
            rn.sleep(1000)
          end)
          rn.sleep(1)
          coroutine.close(co)
          local v, err = to:take()
          assert.is_nil(v)
          assert.matches("was closed", err)
        end))
      end
    end

    it("a topic's mult, and the other topics go on", stage.sim(function()
      local from = rn.chan()
      local p = rn.pub(from, function(v) return v end)
      local one = p:sub(1, rn.chan())
      rn.yield()
      local victim -- the mult of topic 1 waits for its source
      for _, entry in ipairs(blocks()) do
        if entry.operation == "take" and entry.channel ~= from then victim = entry end
      end
      local two = p:sub(2, rn.chan())
      rn.cancel(victim.result, "killed")
      rn.go(function()
        rn.rename "test"
        for i = 1, 6 do from:put(i % 2 + 1) end
      end)
      assert.same({ 2, 2, 2 }, { two:take(), two:take(), two:take() })
      assert.same({ nil, "killed" }, { one:take() })
    end))

    it("but leave open what they were to leave open", stage.sim(function()
      local to = rn.chan()
      rn.pipe(source(), to, false)
      rn.onto_chan(to, range(10), false)
      rn.pipeline_async(1, to, function(_, result) result:close() end, source(), false)
      rn.yield()
      kill_all "killed"
      assert.is_false(to:closed())
    end))

    it("and say so to the handler of errors where it is an error", stage.sim(function()
      rn.reduce(function() error("bad", 0) end, 0, source())
      rn.sleep(1)
      assert.equal("bad", stage.heard()[1].err)
      local _, err = rn.reduce(function() error("bad", 0) end, 0, source()):take()
      assert.equal("bad", err)
    end))
  end)
end)
