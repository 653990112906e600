local rn = require "runnel"
local sim = require "runnel.sim"
local finalizers = require "spec.support.finalizers"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle

-- The limit on pending puts, and pending takes, of one channel.
local MAX = 1024

local function here() return debug.getinfo(2, "l").currentline end

describe("a channel", function()
  describe("without a buffer", function()
    it("hands the value of a waiting put to a take", within(function()
      local ch, log = rn.chan(), {}
      rn.go(function()
        log[#log + 1] = "putting"
        log[#log + 1] = ch:put "value"
      end)
      settle()
      assert.same({ "putting" }, log)
      assert.same({ "value", n = 1 }, stage.pack_take(ch))
      settle()
      assert.same({ "putting", true }, log)
      stage.assert_no_waiters(ch)
    end))

    it("hands the value of a put to a waiting take", within(function()
      local ch, got = rn.chan(), nil
      rn.go(function() got = stage.pack_take(ch) end)
      settle()
      assert.same({ true, n = 1 }, table.pack(ch:put "value"))
      assert.is_nil(got) -- the taker is ready, but has not run
      settle()
      assert.same({ "value", n = 1 }, got)
      stage.assert_no_waiters(ch)
    end))

    it("carries every value but nil as it is", within(function()
      local ch = rn.chan()
      local nan = 0 / 0
      local values = {
        false, true, 0, -0.0, math.mininteger, math.huge, "", "a\0b", {}, ch, print, function() end,
        coroutine.create(print), io.stdout, setmetatable({}, { __eq = error, __index = error, __len = error }),
      }
      for _, value in ipairs(values) do
        rn.go(function() ch:put(value) end)
        assert.is_true(rawequal(value, (ch:take())))
        rn.go(function() ch:put(value) end)
        settle()
        assert.is_true(rawequal(value, (ch:poll())))
        local taker = rn.go(function() assert.is_true(rawequal(value, (ch:take()))) end)
        settle()
        assert.is_true(ch:offer(value))
        taker:take()
      end
      rn.go(function() ch:put(nan) end)
      local got = ch:take()
      assert.is_true(got ~= got)
    end))

    it("serves waiting takes first come, first served", within(function()
      local ch, got = rn.chan(), {}
      for i = 1, 100 do rn.go(function() got[i] = ch:take() end) end
      settle()
      assert.equal(100, ch:stats().takes_waiting)
      for i = 1, 100 do assert.is_true(ch:put(i)) end
      settle()
      for i = 1, 100 do assert.equal(i, got[i]) end
    end))

    it("serves waiting puts first come, first served", within(function()
      local ch, ended = rn.chan(), {}
      for i = 1, 100 do
        rn.go(function()
          ch:put(i)
          ended[#ended + 1] = i
        end)
      end
      settle()
      assert.equal(100, ch:stats().puts_waiting)
      for i = 1, 100 do assert.equal(i, (ch:take())) end
      settle()
      for i = 1, 100 do assert.equal(i, ended[i]) end
    end))

    it("offers only to a take that waits", within(function()
      local ch = rn.chan()
      assert.same({ nil, n = 1 }, table.pack(ch:offer(1)))
      local taker = rn.go(function() return ch:take() end)
      settle()
      assert.is_true(ch:offer(2))
      assert.is_nil(ch:offer(3))
      assert.equal(2, (taker:take()))
      stage.assert_no_waiters(ch)
    end))

    it("polls only what a put offers that waits", within(function()
      local ch = rn.chan()
      assert.same({ nil, n = 1 }, table.pack(ch:poll()))
      local putter = rn.go(function() return ch:put(1) end)
      settle()
      assert.same({ 1, n = 1 }, table.pack(ch:poll()))
      assert.is_nil(ch:poll())
      assert.is_true(putter:take())
      stage.assert_no_waiters(ch)
    end))

    it("offers false, and polls false", within(function()
      local ch = rn.chan()
      local taker = rn.go(function() return ch:take() == false end)
      settle()
      assert.is_true(ch:offer(false))
      assert.is_true(taker:take())
      rn.go(function() ch:put(false) end)
      settle()
      assert.is_false(ch:poll())
    end))

    it("ignores further arguments", within(function()
      local ch = rn.chan(3, nil, nil, "more")
      assert.is_true(ch:put(1, 2, 3))
      assert.is_true(ch:offer(4, 5))
      assert.same({ 1, n = 1 }, table.pack(ch:take("x", "y")))
      assert.same({ 4, n = 1 }, table.pack(ch:poll("x", "y", "z")))
      local taker = rn.go(function() return select("#", ch:take(1, 2, 3)) end)
      settle()
      ch:put("one", "two")
      assert.equal(1, taker:take())
      ch:close()
      assert.same({ nil, n = 1 }, table.pack(ch:poll("x", "y", "z")))
      assert.same({ nil, n = 1 }, table.pack(ch:take("x", "y", "z")))
    end))
  end)

  describe("outside any go block", function()
    it("runs the scheduler until a take completes", function()
      local ch = rn.chan()
      rn.go(function() ch:put "late" end)
      assert.equal("late", ch:take())
      rn.run()
      stage.assert_no_waiters(ch)
    end)

    it("runs the scheduler until a put completes", function()
      local ch, got = rn.chan(), nil
      rn.go(function() got = ch:take() end)
      assert.is_true(ch:put "value")
      rn.run()
      assert.equal("value", got)
    end)

    it("reports a deadlock, and has then nothing queued", function()
      local ch = rn.chan():name "lonely"
      raises("^deadlock: take on chan: lonely would wait for ever", function() ch:take() end)
      raises("^deadlock: put on chan: lonely would wait for ever", function() ch:put(1) end)
      raises("^deadlock: alts on chan: lonely, chan: lonely, chan: #%d+ would wait for ever",
        function() rn.alts { ch, { ch, 2 }, rn.chan() } end)
      stage.assert_no_waiters(ch)
      assert.is_nil(ch:poll())
      assert.is_nil(ch:offer(1))
    end)

    it("gives a take the reason of a close", function()
      local ch = rn.chan()
      rn.go(function() ch:close "why" end)
      assert.same({ nil, "why", n = 2 }, stage.pack_take(ch))
    end)
  end)

  describe("closed", function()
    it("completes all waiting takes with nil", within(function()
      local ch, got = rn.chan(), {}
      for i = 1, 10 do rn.go(function() got[i] = stage.pack_take(ch) end) end
      settle()
      assert.same({ n = 0 }, table.pack(ch:close()))
      stage.assert_no_waiters(ch)
      settle()
      for i = 1, 10 do assert.same({ nil, n = 1 }, got[i]) end
    end))

    it("refuses puts and offers", within(function()
      for _, n in ipairs { 0, 1, 3 } do
        local ch = rn.chan(n)
        ch:close()
        assert.same({ false, n = 1 }, table.pack(ch:put(1)))
        assert.same({ false, n = 1 }, table.pack(ch:offer(1)))
        assert.is_false(ch:put_async(1))
        assert.equal(0, #ch)
        assert.equal(0, ch:stats().put_total)
      end
    end))

    it("gives what is buffered before nil", within(function()
      local ch = rn.chan(3)
      for i = 1, 3 do ch:put(i) end
      ch:close()
      assert.is_true(ch:closed())
      for i = 1, 3 do assert.same({ i, n = 1 }, stage.pack_take(ch)) end
      assert.same({ nil, n = 1 }, stage.pack_take(ch))
      assert.same({ nil, n = 1 }, stage.pack_take(ch))
      assert.same({ nil, n = 1 }, table.pack(ch:poll()))
    end))

    it("still consumes the puts that waited, which complete true", within(function()
      for _, n in ipairs { 0, 1, 2, 9 } do
        local ch, done = rn.chan(n), {}
        for i = 1, n + 5 do
          rn.go(function() done[i] = ch:put(i) end)
        end
        settle()
        ch:close "over"
        settle()
        assert.equal(5, ch:stats().puts_waiting)
        assert.is_false(ch:put "late")
        for i = 1, n + 5 do
          assert.same({ i, n = 1 }, stage.pack_take(ch))
          settle()
          assert.equal(math.max(0, 5 - i), ch:stats().puts_waiting)
          assert.is_true(done[i])
        end
        assert.same({ nil, "over", n = 2 }, stage.pack_take(ch))
        assert.equal(n + 5, ch:stats().put_total)
        assert.equal(n + 5, ch:stats().take_total)
      end
    end))

    it("gives what is pending by poll as well", within(function()
      local ch = rn.chan(1)
      for i = 1, 3 do ch:put_async(i) end
      ch:close "over"
      for i = 1, 3 do assert.equal(i, (ch:poll())) end
      assert.is_nil((ch:poll()))
    end))

    it("with an error gives nil and that error to every later take", within(function()
      for _, reason in ipairs { "text", {}, 42, true } do
        for _, n in ipairs { 0, 1, 5 } do
          local ch, waiting = rn.chan(n), {}
          for i = 1, 3 do rn.go(function() waiting[i] = stage.pack_take(ch) end) end
          settle()
          ch:close(reason)
          settle()
          for i = 1, 3 do assert.same({ nil, reason, n = 2 }, waiting[i]) end
          for _ = 1, 3 do assert.same({ nil, reason, n = 2 }, stage.pack_take(ch)) end
        end
      end
    end))

    it("with false for an error gives that", within(function()
      local ch = rn.chan()
      ch:close(false)
      assert.same({ nil, false, n = 2 }, stage.pack_take(ch))
    end))

    it("with an error never polls that error as a value", within(function()
      for _, n in ipairs { 0, 1, 5 } do
        local ch = rn.chan(n)
        ch:close "why"
        local value, err = ch:poll()
        assert.is_nil(value)
        assert.equal("why", err)
      end
    end))

    it("with an error gives its values first", within(function()
      for _, n in ipairs { 1, 2, 8, 30 } do
        local ch = rn.chan(n)
        for i = 1, n do ch:put { i } end
        ch:close "broken"
        for i = 1, n do assert.same({ { i }, n = 1 }, stage.pack_take(ch)) end
        assert.same({ nil, "broken", n = 2 }, stage.pack_take(ch))
      end
    end))

    it("stays as it was closed first", within(function()
      local ch = rn.chan(1)
      ch:put(1)
      ch:close "first"
      ch:close "second"
      ch:close()
      assert.equal(1, (ch:take()))
      assert.same({ nil, "first", n = 2 }, stage.pack_take(ch))
      ch = rn.chan()
      ch:close()
      ch:close "late"
      assert.same({ nil, n = 1 }, stage.pack_take(ch))
    end))

    it("reports that it is", within(function()
      local ch = rn.chan(1)
      assert.is_false(ch:closed())
      assert.is_false(ch:stats().closed)
      ch:put(1)
      ch:close()
      assert.is_true(ch:closed())
      assert.is_true(ch:stats().closed)
    end))

    it("keeps its reason and its name apart", within(function()
      local ch = rn.chan(1):name "jobs"
      ch:put(1)
      ch:close "why"
      ch:name "other"
      ch:take()
      assert.same({ nil, "why", n = 2 }, stage.pack_take(ch))
      assert.equal("other", ch:name())
    end))

    it("keeps its reason when it gets attributes later", within(function()
      for _, ch in ipairs { rn.chan(), rn.chan(1), rn.chan(100), rn.chan(rn.sliding_buffer(2)), rn.promise_chan(),
        rn.chan(1, rn.xf.map(tostring)) } do
        ch:close "why"
        assert.is_true(ch:name("jobs"):done():closed())
        for _ = 1, 2 do assert.same({ nil, "why", n = 2 }, stage.pack_take(ch)) end
        assert.equal("jobs", ch:name())
      end
    end))

    it("with a reason while its go block is parked, leaves the go block as it is", within(function()
      local ch, taken = rn.chan(), nil
      local result = rn.go(function() taken = rn.alts { ch, rn.chan() } end)
      settle()
      for _ = 1, 4 do collectgarbage() end -- from then on only its channels keep the go block
      result:close "why"
      for _ = 1, 4 do collectgarbage() end
      assert.is_true(ch:put "value")
      settle()
      assert.equal("value", taken)
      assert.same({ nil, "why", n = 2 }, stage.pack_take(result))
    end))

    it("refuses a put of a go block that the close has woken", within(function()
      local ch, late = rn.chan(1), nil
      rn.go(function()
        ch:take()
        late = ch:put "late"
      end)
      settle()
      ch:close()
      settle()
      assert.is_false(late)
      assert.equal(0, #ch)
    end))
  end)

  describe("'s done()", function()
    it("closes when the channel closes, whatever it still holds", within(function()
      local ch = rn.chan(1)
      local done, seen = ch:done(), nil
      rn.go(function() seen = stage.pack_take(done) end)
      ch:put(1)
      settle()
      assert.is_nil(seen)
      assert.is_false(done:closed())
      ch:close "why"
      assert.is_true(done:closed())
      settle()
      assert.same({ nil, n = 1 }, seen)
      assert.equal(1, #ch)
    end))

    it("is the same channel every time", within(function()
      local ch = rn.chan():name "named"
      local done = ch:done()
      assert.equal(done, ch:done())
      assert.not_equal(ch, done)
      assert.is_nil(done:name())
      ch:close()
      assert.equal(done, ch:done())
    end))

    it("is closed when the channel is closed already", within(function()
      local ch = rn.chan(1)
      ch:put(1)
      ch:close()
      assert.is_true(ch:done():closed())
    end))

    it("of a go block's result channel, and of a timeout, close with them", within(function()
      local result, timeout = rn.go(rn.sleep, 10), rn.timeout(20)
      local a, b = result:done(), timeout:done()
      a:take()
      assert.equal(10, sim.elapsed() // 1)
      b:take()
      assert.equal(20, sim.elapsed() // 1)
    end))

    it("has one of its own, however long the chain", within(function()
      local ch = rn.chan()
      local last = ch
      for _ = 1, 200000 do last = last:done() end
      assert.is_false(last:closed())
      ch:close()
      assert.is_true(last:closed())
    end))

    it("of a channel with a reason closes without it", within(function()
      local ch = rn.chan(1)
      local done = ch:done()
      ch:close "why"
      assert.same({ nil, n = 1 }, stage.pack_take(done))
      assert.same({ nil, "why", n = 2 }, stage.pack_take(ch))
    end))

    it("cannot be closed by anybody else", within(function()
      local ch = rn.chan()
      local done = ch:done()
      raises("^close: a channel that done%(%) returns closes when its channel", function() done:close() end)
      assert.is_false(done:closed())
      ch:close()
      done:close()
      assert.is_true(done:closed())
    end))

    it("may be waited for by any number of takers, in alts too", within(function()
      local ch, woken = rn.chan(), 0
      for _ = 1, 3000 do
        rn.go(function()
          ch:done():take()
          woken = woken + 1
        end)
        rn.go(function()
          rn.alts { rn.chan(), ch:done() }
          woken = woken + 1
        end)
      end
      settle()
      assert.equal(0, woken)
      ch:close()
      settle()
      assert.equal(6000, woken)
    end))

    it("stays alive while its channel can be closed", within(function()
      local ch = rn.chan()
      local woken
      rn.go(function()
        ch:done():take()
        woken = true
      end)
      settle()
      for _ = 1, 4 do collectgarbage() end
      ch:close()
      settle()
      assert.is_true(woken)
    end))
  end)

  describe("in a for loop", function()
    it("gives its values until it is closed and drained", within(function()
      local ch, list = rn.chan(), {}
      rn.go(function()
        for i = 1, 5 do ch:put(i) end
        ch:close()
      end)
      for value in ch do list[#list + 1] = value end
      assert.same({ 1, 2, 3, 4, 5 }, list)
    end))

    it("visits false, buffered values and the values of waiting puts", within(function()
      local ch, list = rn.chan(2), {}
      for _, value in ipairs { false, 1, false, 2, false } do ch:put_async(value) end
      ch:close "an error ends it as well"
      for value in ch do list[#list + 1] = value end
      assert.same({ false, 1, false, 2, false }, list)
      assert.same({ nil, "an error ends it as well" }, { ch:take() })
    end))

    it("may be left, and gone on with", within(function()
      local ch = rn.chan(10)
      for i = 1, 10 do ch:put(i) end
      for value in ch do
        if value == 4 then break end
      end
      assert.equal(5, (ch:take()))
      assert.equal(5, #ch)
    end))

    it("shares its values with another loop", within(function()
      local ch, sum, n = rn.chan(), 0, 0
      local function consume()
        for value in ch do
          sum, n = sum + value, n + 1
        end
      end
      local a, b = rn.go(consume), rn.go(consume)
      for i = 1, 1000 do ch:put(i) end
      ch:close()
      a:take()
      b:take()
      assert.equal(1000, n)
      assert.equal(500500, sum)
    end))

    it("ends without the reason of the close, which a take gives", within(function()
      local ch = rn.chan()
      ch:close "why"
      for _ in ch do error "must not be reached" end
      assert.same({ nil, "why" }, { ch:take() })
    end))
  end)

  describe("as a variable to be closed", function()
    it("closes when its scope ends", within(function()
      local kept
      do
        local ch <close> = rn.chan(1)
        kept = ch
        ch:put(1)
        assert.is_false(ch:closed())
      end
      assert.is_true(kept:closed())
      assert.equal(1, (kept:take()))
      assert.same({ nil, n = 1 }, stage.pack_take(kept))
    end))

    it("closes with the error that ended its scope", within(function()
      local kept
      local ok, err = pcall(function()
        local ch <close> = rn.chan()
        kept = ch
        error("broken", 0)
      end)
      assert.is_false(ok)
      assert.equal("broken", err)
      assert.same({ nil, "broken", n = 2 }, stage.pack_take(kept))
    end))

    it("wakes the go blocks that wait for it", within(function()
      local taker
      local function scope()
        local ch <close> = rn.chan()
        taker = rn.go(function() return select("#", ch:take()) end)
        settle()
        return "result"
      end
      assert.equal("result", scope())
      assert.equal(1, taker:take())
    end))

    it("may be closed before", within(function()
      local ch <close> = rn.chan()
      ch:close "early"
    end))

    it("in a go block that dies closes with its error", function()
      local kept
      local reports = stage.reports(function()
        stage.run(function()
          kept = rn.chan()
          -- stage.run would fail because of the reported error, which this test expects.
          local heard = stage.reports(function()
            rn.go(function()
              local ch <close> = kept
              ch:offer(1)
              error("dead", 0)
            end)
            settle()
          end)
          assert.equal("dead", heard[1].err)
        end)
      end)
      assert.same({}, reports)
      assert.same({ nil, "dead", n = 2 }, stage.pack_take(kept))
    end)
  end)

  describe("'s stats()", function()
    it("describe it and what waits", within(function()
      local ch = rn.chan(2):name "jobs"
      local stats = ch:stats()
      assert.equal("integer", math.type(stats.id))
      assert.same({
        name = "jobs", id = stats.id, puts_waiting = 0, takes_waiting = 0, values = 0, capacity = 2, buffer = "fixed",
        closed = false, put_total = 0, take_total = 0,
      }, stats)
      for i = 1, 5 do ch:put_async(i) end
      stats = ch:stats()
      assert.same({ 3, 0, 2, 2 }, { stats.puts_waiting, stats.takes_waiting, stats.values, stats.put_total })
      for _ = 1, 8 do ch:take_async(function() end) end
      stats = ch:stats()
      assert.same({ 0, 3, 0 }, { stats.puts_waiting, stats.takes_waiting, stats.values })
      assert.same({ 5, 5 }, { stats.put_total, stats.take_total })
      ch:close()
      settle()
      stats = ch:stats()
      assert.same({ 0, 0, true, 5 }, { stats.puts_waiting, stats.takes_waiting, stats.closed, stats.take_total })
    end))

    it("name the kind and the capacity of the buffer", within(function()
      local function kind(ch) return { ch:stats().buffer, ch:stats().capacity } end
      assert.same({ "none", 0 }, kind(rn.chan()))
      assert.same({ "none", 0 }, kind(rn.chan(0)))
      assert.same({ "fixed", 7 }, kind(rn.chan(7)))
      assert.same({ "fixed", 7 }, kind(rn.chan(7.0)))
      assert.same({ "fixed", 3 }, kind(rn.chan(rn.buffer(3))))
      assert.same({ "dropping", 3 }, kind(rn.chan(rn.dropping_buffer(3))))
      assert.same({ "sliding", 3 }, kind(rn.chan(rn.sliding_buffer(3))))
      assert.same({ "promise", 1 }, kind(rn.promise_chan()))
      assert.equal("policy", rn.chan(rn.priority_buffer(3)):stats().buffer)
    end))

    it("count neither refused nor withdrawn operations", within(function()
      local ch = rn.chan()
      ch:offer(1)
      ch:poll()
      rn.alts({ ch, { ch, 1 } }, { default = false })
      local other = rn.chan(1)
      other:put "x"
      local parked = rn.go(function() rn.alts { ch, { ch, 1 }, rn.timeout(5) } end)
      parked:take()
      ch:close()
      ch:put(1)
      ch:take()
      local stats = ch:stats()
      assert.same({ 0, 0, 0, 0 }, { stats.put_total, stats.take_total, stats.puts_waiting, stats.takes_waiting })
    end))

    it("give each channel an id of its own", within(function()
      local seen = {}
      local result, timeout = rn.go(function() end), rn.timeout(1)
      for _, ch in ipairs { rn.chan(), rn.chan(1), rn.promise_chan(), result, timeout, rn.chan():done() } do
        local id = ch:stats().id
        assert.is_nil(seen[id])
        seen[id] = true
      end
    end))
  end)

  describe("as text", function()
    it("without a name is shown by its number", function()
      local ch = rn.chan()
      assert.equal("chan: #" .. ch:stats().id, tostring(ch))
      ch:close()
      assert.equal("chan: #" .. ch:stats().id .. " (closed)", tostring(ch))
    end)

    it("is its name or number, and what it holds", within(function()
      local ch = rn.chan()
      local unnamed = "chan: #" .. ch:stats().id
      assert.equal(unnamed, tostring(ch))
      assert.equal("chan: jobs", tostring(ch:name "jobs"))
      assert.equal("chan: jobs (0/10)", tostring(rn.chan(10):name "jobs"))
      assert.equal("chan: p (0/1)", tostring(rn.promise_chan():name "p"))
    end))

    it("shows what waits", within(function()
      local ch = rn.chan(3):name "jobs"
      for i = 1, 3 do ch:put(i) end
      assert.equal("chan: jobs (3/3)", tostring(ch))
      ch:put_async(4)
      assert.equal("chan: jobs (3/3, 1 put waiting)", tostring(ch))
      ch:put_async(5)
      assert.equal("chan: jobs (3/3, 2 puts waiting)", tostring(ch))
      ch:close()
      assert.equal("chan: jobs (3/3, 2 puts waiting, closed)", tostring(ch))
      for _ = 1, 5 do ch:take() end
      assert.equal("chan: jobs (0/3, closed)", tostring(ch))

      ch = rn.chan():name "jobs"
      ch:put_async(1)
      assert.equal("chan: jobs (1 put waiting)", tostring(ch))
      ch:take()
      ch:take_async(function() end)
      assert.equal("chan: jobs (1 take waiting)", tostring(ch))
      ch:take_async(function() end)
      assert.equal("chan: jobs (2 takes waiting)", tostring(ch))
      ch:close()
      assert.equal("chan: jobs (closed)", tostring(ch))
    end))

    it("shows both sides of one alts", within(function()
      local ch = rn.chan():name "jobs"
      local parked = rn.go(function() return rn.alts { ch, { ch, 1 } } end)
      settle()
      assert.equal("chan: jobs (1 put waiting, 1 take waiting)", tostring(ch))
      ch:close()
      assert.is_nil((parked:take()))
    end))

    it("counts what a policy holds, which has no capacity to tell", within(function()
      local ch = rn.chan(rn.priority_buffer(3)):name "jobs"
      assert.equal("chan: jobs (0)", tostring(ch))
      ch:put(1)
      assert.equal("chan: jobs (1)", tostring(ch))
    end))
  end)

  describe("'s name", function()
    it("can be given, changed and asked", within(function()
      local ch = rn.chan()
      assert.same({ nil, n = 1 }, table.pack(ch:name()))
      assert.equal(ch, ch:name "first")
      assert.equal("first", ch:name())
      assert.equal("second", ch:name("second"):name())
      assert.equal("second", ch:stats().name)
    end))

    it("survives collections and belongs to one channel only", within(function()
      local a, b = rn.chan():name "a", rn.go(rn.sleep, 5):name "b"
      for _ = 1, 4 do collectgarbage() end
      assert.equal("a", a:name())
      assert.equal("b", b:name())
      assert.is_nil(rn.chan():name())
      b:take()
      assert.equal("b", b:name())
    end))
  end)

  it("has as its length the values in its buffer", within(function()
    assert.equal(0, #rn.chan())
    local ch = rn.chan(2)
    for i = 1, 4 do
      ch:put_async(i)
      assert.equal(math.min(i, 2), #ch)
    end
    ch:close()
    for i = 4, 1, -1 do
      assert.equal(math.min(i, 2), #ch)
      ch:take()
    end
    assert.equal(0, #ch)
  end))

  describe("with 1024 waiting", function()
    it("puts raises at the next one, and loses nothing", within(function()
      for _, n in ipairs { 0, 1, 5 } do
        local ch, accepted = rn.chan(n):name "inbox", 0
        for i = 1, n + MAX do
          rn.go(function()
            if ch:put(i) then accepted = accepted + 1 end
          end)
        end
        settle()
        assert.equal(MAX, ch:stats().puts_waiting)
        raises("^chan: inbox: 1024 puts wait, which is the limit; .*sliding_buffer", function() ch:put "more" end)
        raises("^chan: inbox: 1024 puts wait", function() ch:put_async("more", print) end)
        raises("^chan: inbox: 1024 puts wait", function() ch:put_async("more", print, false) end)
        raises("^chan: inbox: 1024 puts wait", function() rn.alts { { ch, "more" } } end)
        assert.is_nil(ch:offer "more")
        assert.equal(MAX, ch:stats().puts_waiting)
        for i = 1, n + MAX do assert.equal(i, (ch:take())) end
        settle()
        assert.is_nil(ch:poll())
        assert.equal(n + MAX, accepted)
        assert.equal(n + MAX, ch:stats().put_total)
      end
    end))

    it("takes raises at the next one, and loses nothing", within(function()
      local ch, got = rn.chan(2):name "inbox", {}
      for i = 1, MAX do rn.go(function() got[i] = ch:take() end) end
      settle()
      raises("^chan: inbox: 1024 takes wait, which is the limit; .*mult", function() ch:take() end)
      raises("^chan: inbox: 1024 takes wait", function() ch:take_async(print) end)
      raises("^chan: inbox: 1024 takes wait", function() ch:take_async(print, false) end)
      raises("^chan: inbox: 1024 takes wait", function() rn.alts { ch } end)
      raises("^chan: inbox: 1024 takes wait", function()
        for _ in ch do error "must not be reached" end
      end)
      assert.is_nil(ch:poll())
      assert.equal(MAX, ch:stats().takes_waiting)
      for i = 1, MAX do assert.is_true(ch:put(i)) end
      settle()
      for i = 1, MAX do assert.equal(i, got[i]) end
      ch:put "next"
      assert.equal("next", ch:take())
    end))

    it("has room again as soon as one is done", within(function()
      local ch = rn.chan()
      for i = 1, MAX do ch:put_async(i) end
      for i = 1, 100 do
        assert.is_false((pcall(ch.put_async, ch, "refused")))
        assert.equal(i, (ch:take()))
        ch:put_async(MAX + i)
      end
      for i = 101, MAX + 100 do assert.equal(i, (ch:take())) end
      stage.assert_no_waiters(ch)
    end))

    it("is closed like any other", within(function()
      local ch = rn.chan()
      for i = 1, MAX do ch:put_async(i) end
      ch:close()
      assert.is_false(ch:put "late")
      local n = 0
      for _ in ch do n = n + 1 end
      assert.equal(MAX, n)
      local ended = 0
      ch = rn.chan()
      for _ = 1, MAX do ch:take_async(function() ended = ended + 1 end) end
      ch:close()
      assert.is_nil((ch:take()))
      settle()
      assert.equal(MAX, ended)
    end))

    it("takes accepts more on a timeout, but no more puts", within(function()
      local timeout, ended = rn.timeout(50), 0
      for _ = 1, 3 * MAX do
        rn.go(function()
          timeout:take()
          ended = ended + 1
        end)
      end
      settle()
      assert.equal(3 * MAX, timeout:stats().takes_waiting)
      rn.sleep(100)
      assert.equal(3 * MAX, ended)

      timeout = rn.timeout(50)
      for i = 1, MAX do timeout:put_async(i) end
      assert.is_false((pcall(timeout.put_async, timeout, "more")))
      assert.equal(MAX, timeout:stats().puts_waiting)
      while timeout:poll() do end
    end))
  end)

  it("refuses nil and is not changed by that", within(function()
    local ch = rn.chan(2)
    local line = here() + 1
    local message = raises("^put: nil cannot be put on a channel", function() ch:put(nil) end)
    assert.is_truthy(message:find(":" .. line .. ": ", 1, true))
    raises("^put: nil cannot be put", function() ch:put() end)
    raises("^offer: nil cannot be put", function() ch:offer(nil) end)
    raises("^put_async: nil cannot be put", function() ch:put_async(nil, print) end)
    assert.equal(0, #ch)
    assert.equal(0, ch:stats().put_total)
    ch:close()
    raises("^put: nil cannot be put", function() ch:put(nil) end)
  end))

  it("delivers each value once, and those of one putter in order, whatever the schedule", function()
    sim.each_seed(40, function(seed)
      local ch, putters, takers = rn.chan(({ 0, 1, 3, 16 })[seed % 4 + 1]), {}, {}
      local seen = {}
      for p = 1, 5 do
        putters[p] = rn.go(function()
          for i = 1, 40 do
            ch:put(p * 1000 + i)
            if (i + p) % 7 == 0 then rn.yield() end
          end
        end)
      end
      for t = 1, 4 do
        takers[t] = rn.go(function()
          local last = {}
          while true do
            local value = t % 2 == 0 and ch:poll() or ch:take()
            if value == nil then return true end
            local p, i = value // 1000, value % 1000
            assert(i > (last[p] or 0), "out of order")
            assert(not seen[value], "twice")
            last[p], seen[value] = i, true
          end
        end)
      end
      for p = 1, 5 do putters[p]:take() end
      ch:close()
      for t = 1, 4 do assert(takers[t]:take(), "a taker failed") end
      local n = 0
      for _ in pairs(seen) do n = n + 1 end
      assert.equal(200, n)
      stage.assert_no_waiters(ch)
    end)
  end)

  describe("and the collector:", function()
    it("without a buffer it takes at most 120 bytes", function()
      local N, chs = 1000, {}
      for i = 1, N do chs[i] = false end
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      for i = 1, N do chs[i] = rn.chan() end
      local bytes = (collectgarbage "count" - before) * 1024 / N
      collectgarbage "restart"
      assert.is_true(rn.is_chan(chs[N]))
      assert.is_true(bytes <= (_VERSION == "Lua 5.4" and 120 or 128), bytes) -- Lua 5.5 aligns userdata to 16 bytes
    end)

    local function weak() return setmetatable({}, { __mode = "k" }) end

    local function collect()
      for _ = 1, 4 do collectgarbage() end
    end

    it("what was taken is not kept", within(function()
      for _, n in ipairs { 0, 1, 2, 9 } do
        local ch, objects = rn.chan(n), weak()
        for _ = 1, n + 3 do
          local object = {}
          objects[object] = true
          ch:put_async(object)
        end
        collect()
        for _ = 1, n + 3 do assert.is_true(objects[ch:take()]) end
        settle()
        collect()
        assert.is_nil(next(objects))
      end
    end))

    it("what is in a buffer, or waits to be put, is kept", within(function()
      local ch, text = rn.chan(9), "text "
      for i = 1, 20 do ch:put_async { text .. i } end
      collect()
      for i = 1, 20 do assert.same({ "text " .. i }, (ch:take())) end
    end))

    it("an unreachable channel is collected, with all that waits on it", within(function()
      local objects = weak()
      do
        local ch, other = rn.chan(1), rn.chan()
        objects[ch], objects[other] = true, true
        for i = 1, 5 do
          local value = {}
          objects[value] = true
          rn.go(function() ch:put(value) end)
          if i > 2 then rn.go(function() rn.alts { other, { ch, value } } end) end
        end
        local done = ch:done()
        objects[done] = true
        ch:put_async({}, function() end)
        other:take_async(function() end)
      end
      settle()
      for _ = 1, 4 do collect() end
      assert.is_nil(next(objects))
    end))

    it("a finalizer may use the channel while its ring grows, and nothing is lost", within(function()
      for _, size in ipairs { 4, 17, 100 } do
        local ch, sent, got, n = rn.chan(size), {}, {}, 0
        local function put()
          n = n + 1
          local value = n
          if ch:offer(value) then sent[value] = true end
        end
        local function take()
          local value = ch:poll()
          if not value then return end
          assert.is_nil(got[value])
          got[value] = true
        end
        finalizers.among(function()
          put()
          put()
          if n % 3 == 0 then take() end
        end, function()
          for i = 1, 3 * size do
            put()
            if i % 5 == 0 then take() end
          end
        end)
        while #ch > 0 do take() end
        assert.same(sent, got)
      end
    end))

    it("a finalizer may put while a callback is made ready to take", within(function()
      local current, used, sent, got = nil, {}, 0, 0
      finalizers.among(function()
        if current and current:offer "by a finalizer" then sent = sent + 1 end
        current = nil
      end, function()
        for i = 1, 300 do
          local ch = rn.chan(1)
          assert(("x"):rep(40 + i % 20 * 16)) -- else finalizers may run at the same allocation each time
          used[i], current = ch, ch
          ch:take_async(function(value)
            if value then got = got + 1 end
          end)
          current = nil
        end
      end)
      settle()
      assert.is_true(sent > 0)
      assert.equal(sent, got)
      for i = 1, 300 do
        assert.equal(0, #used[i])
        used[i]:close()
      end
    end))

    it("a finalizer may take while a callback is made ready to put", within(function()
      local current, used, wanted, got = nil, {}, 0, 0
      finalizers.among(function()
        if not current then return end
        local ch = current
        current = nil
        wanted = wanted + 1
        ch:take_async(function() got = got + 1 end)
      end, function()
        for i = 1, 300 do
          local ch = rn.chan()
          used[i], current = ch, ch
          ch:put_async(i)
          current = nil
        end
      end)
      settle()
      assert.is_true(wanted > 0)
      assert.equal(wanted, got)
      for i = 1, 300 do
        local stats = used[i]:stats()
        assert.equal(0, stats.takes_waiting)
        assert.equal(1, stats.put_total + stats.puts_waiting)
        used[i]:poll()
      end
    end))

    it("a finalizer may ask for done() while it is made", within(function()
      local current, by_finalizer, n = nil, nil, 0
      finalizers.among(function()
        if not current then return end
        by_finalizer = current:done()
        current = nil
        n = n + 1
      end, function()
        for i = 1, 30000 do
          if i > 300 and n > 0 then break end
          local _ = ("x"):rep(math.random(200)) -- so that a step of the collector may come anywhere
          local ch = rn.chan()
          by_finalizer, current = nil, ch
          local done = ch:done()
          current = nil
          assert.equal(done, by_finalizer or done)
          ch:close()
          assert.is_true(done:closed())
        end
      end)
      assert.is_true(n > 0)
    end))
  end)

  it("keeps the order of its values when a finalizer puts while its buffer grows", stage.sim(function()
    local ch, n = rn.chan(200), 0
    for i = 1, 8 do ch:put(i) end
    finalizers.at_once(function() n = ch:put "from the finalizer" and n + 1 end, function() ch:put(9) end)
    assert.equal(1, n)
    for i = 1, 8 do assert.equal(i, ch:take()) end
    assert.same({ "from the finalizer", 9 }, { ch:take(), ch:take() })
  end))

  it("has its limit of waiting takes besides those of the library", stage.sim(function()
    local ch, n = rn.chan(), 0
    local function count() n = n + 1 end
    rn.pipe(ch, rn.chan(1))
    rn.yield()
    for _ = 1, MAX do ch:take_async(count) end
    assert.equal(MAX + 1, ch:stats().takes_waiting)
    raises("1024 takes wait", function() ch:take_async(count) end)
    ch:close()
    rn.yield()
    assert.equal(MAX, n)
  end))

  it("that belongs to a go block closes once when a finalizer closes it while it is being closed", function()
    local result = rn.go(function() rn.chan():take() end)
    rn.step()
    finalizers.at_once(function() result:close "by the finalizer" end, function() result:close "too late" end)
    assert.same({ nil, "by the finalizer" }, { result:take() })
    rn.cancel(result)
  end)
end)
