local rn = require "runnel"
local sim = require "runnel.sim"
local finalizers = require "spec.support.finalizers"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle

-- The limit on pending puts, and pending takes, of one channel.
local MAX = 1024

-- n channels, as returned by make(i).
local function channels(n, make)
  local list = {}
  for i = 1, n do list[i] = make and make(i) or rn.chan() end
  return list
end

local function full(value)
  local ch = rn.chan(1)
  ch:put(value)
  return ch
end

describe("alts", function()
  describe("with an operation that is ready", function()
    it("takes a value, and gives it with its channel", within(function()
      local a, b = rn.chan(), full "value"
      assert.same({ "value", b, n = 2 }, table.pack(rn.alts { a, b }))
      rn.go(function() a:put "waiting" end)
      settle()
      assert.same({ "waiting", a, n = 2 }, table.pack(rn.alts { a, b }))
      stage.assert_no_waiters(a, b)
    end))

    it("puts a value, and gives true with its channel", within(function()
      local a, b = rn.chan(), rn.chan(1)
      assert.same({ true, b, n = 2 }, table.pack(rn.alts { { a, 1 }, { b, 2 } }))
      assert.equal(2, (b:take()))
      local taker = rn.go(function() return a:take() end)
      settle()
      assert.same({ true, a, n = 2 }, table.pack(rn.alts { { a, 3 }, b }))
      assert.equal(3, (taker:take()))
      stage.assert_no_waiters(a, b)
    end))

    it("does one of them only", within(function()
      for _ = 1, 50 do
        local ins, outs, ops = channels(5, full), channels(5, function() return rn.chan(1) end), {}
        for i = 1, 5 do
          ops[i] = ins[i]
          ops[5 + i] = { outs[i], i }
        end
        local value, port = rn.alts(ops)
        local changed = 0
        for i = 1, 5 do
          if #ins[i] == 0 then
            changed = changed + 1
            assert.same({ i, ins[i] }, { value, port })
          end
          if #outs[i] == 1 then
            changed = changed + 1
            assert.same({ true, outs[i] }, { value, port })
          end
        end
        assert.equal(1, changed)
        stage.assert_no_waiters(table.unpack(ins))
        stage.assert_no_waiters(table.unpack(outs))
      end
    end))

    it("does the first one with priority", within(function()
      for i = 1, 20 do
        local list = channels(20, function(j) return j >= i and full(j) or rn.chan() end)
        for _ = 1, 5 do
          assert.same({ i, list[i] }, { rn.alts(list, { priority = true }) })
          list[i]:put(i)
        end
      end
    end))

    it("may put and take false", within(function()
      local ch = rn.chan(1)
      assert.is_true((rn.alts { { ch, false } }))
      assert.same({ false, ch, n = 2 }, table.pack(rn.alts { ch }))
      local parked = rn.go(function() return rn.alts { { rn.chan(), 1 }, { ch, false } } end)
      parked:take()
      assert.is_false((ch:take()))
    end))

    it("does not wait for those that went before it", within(function()
      local ch = rn.chan(1)
      ch:put(1)
      local waiting = rn.go(function() return (rn.alts { { ch, 2 } }) end)
      settle()
      assert.same({ nil, "default" }, { rn.alts({ { ch, 3 } }, { nowait = true }) })
      assert.equal(1, (ch:take()))
      assert.equal(2, (ch:take()))
      assert.is_true((waiting:take()))
    end))
  end)

  describe("with closed channels", function()
    it("gives nil, the port and the reason", within(function()
      local plain, failed = rn.chan(), rn.chan()
      plain:close()
      failed:close "why"
      assert.same({ nil, plain, n = 2 }, table.pack(rn.alts { plain }))
      assert.same({ nil, failed, "why", n = 3 }, table.pack(rn.alts { failed }))
      assert.same({ false, failed, n = 2 }, table.pack(rn.alts { { failed, 1 } }))
      assert.same({ nil, failed, "why", n = 3 }, table.pack(rn.alts({ failed }, { default = 1 })))
    end))

    it("gives the same to one that waits", within(function()
      for _, reason in ipairs { "why", false, {} } do
        local a, b, got = rn.chan(), rn.chan(), nil
        rn.go(function() got = table.pack(rn.alts { a, { a, 1 }, b, rn.chan() }) end)
        settle()
        b:close(reason)
        settle()
        assert.same({ nil, b, reason, n = 3 }, got)
        stage.assert_no_waiters(a, b)
      end
      local a, got = rn.chan(), nil
      rn.go(function() got = table.pack(rn.alts { rn.chan(), a }) end)
      settle()
      a:close()
      settle()
      assert.same({ nil, a, n = 2 }, got)
    end))

    it("leaves a put that waits where it is", within(function()
      local ch, other = rn.chan(), rn.chan()
      local putter = rn.go(function() return rn.alts { { ch, "value" }, other } end)
      settle()
      ch:close()
      settle()
      assert.equal(1, ch:stats().puts_waiting)
      assert.equal("value", (ch:take()))
      assert.is_true((putter:take()))
      stage.assert_no_waiters(ch, other)
    end))

    it("gives what is buffered first", within(function()
      local ch = full "value"
      ch:close "why"
      assert.same({ "value", ch, n = 2 }, table.pack(rn.alts { ch }))
      assert.same({ nil, ch, "why", n = 3 }, table.pack(rn.alts { ch }))
    end))
  end)

  describe("that has to wait", function()
    it("completes by the first that can, whichever it is", within(function()
      for i = 1, 6 do
        local list, got = channels(6), nil
        rn.go(function()
          local value, port = rn.alts { list[1], { list[2], 2 }, list[3], { list[4], 4 }, list[5], { list[6], 6 } }
          got = { value, port }
        end)
        settle()
        if i % 2 == 1 then
          assert.is_true(list[i]:put(i))
          settle()
          assert.same({ i, list[i] }, got)
        else
          assert.equal(i, (list[i]:take()))
          settle()
          assert.same({ true, list[i] }, got)
        end
        stage.assert_no_waiters(table.unpack(list))
      end
    end))

    it("is withdrawn everywhere at once, before it has run", within(function()
      local list = channels(10)
      for i = 1, 10 do
        rn.go(function() rn.alts(list) end)
        settle()
        assert.equal(1, list[1]:stats().takes_waiting)
        list[i]:put(i)
        -- The go block has not run since.
        stage.assert_no_waiters(table.unpack(list))
        for j = 1, 10 do assert.is_nil(list[j]:offer "nobody") end
        settle()
      end
    end))

    it("keeps its place among others that wait", within(function()
      local ch, order = rn.chan(), {}
      for i = 1, 9 do
        rn.go(function()
          local value = i % 2 == 0 and ch:take() or rn.alts { rn.chan(), ch }
          order[i] = value
        end)
      end
      settle()
      for i = 1, 9 do ch:put(i) end
      settle()
      assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, order)
    end))

    it("meets another alts", within(function()
      for _ = 1, 20 do
        local a, b = rn.chan(), rn.chan()
        local left = rn.go(function()
          local value, port = rn.alts { { a, "from the left" }, b }
          return { value, port == a and "a" or "b" }
        end)
        local right = rn.go(function()
          local value, port = rn.alts { a, { b, "from the right" } }
          return { value, port == a and "a" or "b" }
        end)
        local l, r = left:take(), right:take()
        assert.equal(l[2], r[2])
        if l[2] == "a" then
          assert.same({ true, "from the left" }, { l[1], r[1] })
        else
          assert.same({ "from the right", true }, { l[1], r[1] })
        end
        stage.assert_no_waiters(a, b)
      end
    end))

    it("waits outside any go block as well", function()
      local a, b = rn.chan(), rn.chan()
      rn.go(function() b:put "value" end)
      assert.same({ "value", b, n = 2 }, table.pack(rn.alts { a, b, { a, 1 } }))
      rn.go(function() a:take() end)
      assert.same({ true, a, n = 2 }, table.pack(rn.alts { b, { a, 1 } }))
      rn.go(function() b:close "why" end)
      assert.same({ nil, b, "why", n = 3 }, table.pack(rn.alts { a, b }))
      rn.run()
      stage.assert_no_waiters(a, b)
    end)

    it("is woken by a timeout, which keeps nothing of it", within(function()
      local ch = rn.chan()
      local timeout = rn.timeout(100)
      assert.same({ nil, timeout, n = 2 }, table.pack(rn.alts { ch, timeout, { ch, 1 } }))
      assert.equal(100, sim.elapsed())
      timeout = rn.timeout(1000)
      for i = 1, 50 do
        rn.go(function() ch:put(i) end)
        assert.equal(i, (rn.alts { ch, timeout }))
      end
      assert.equal(0, timeout:stats().takes_waiting)
      stage.assert_no_waiters(ch)
    end))
  end)

  describe("with the same channel", function()
    it("twice takes one value", within(function()
      local ch = rn.chan(3)
      ch:put(1)
      ch:put(2)
      assert.same({ 1, ch }, { rn.alts { ch, ch } })
      assert.equal(1, #ch)
      assert.equal(2, (ch:take()))
      local parked = rn.go(function() return (rn.alts { ch, ch, ch }) end)
      settle()
      assert.equal(3, ch:stats().takes_waiting)
      ch:put "one"
      assert.equal(0, ch:stats().takes_waiting)
      assert.equal("one", (parked:take()))
      assert.equal(0, #ch)
    end))

    it("twice puts one value, either", within(function()
      local first, n = 0, 400
      local ch = rn.chan()
      local function is_fair() return first > n * 0.4 and first < n * 0.6 end
      for _ = 1, n do
        local putter = rn.go(function() return rn.alts { { ch, "a" }, { ch, "b" } } end)
        settle()
        local value = ch:take()
        assert.is_true((putter:take()))
        if value == "a" then first = first + 1 end
        stage.assert_no_waiters(ch)
      end
      assert.is_true(is_fair())
      first = 0
      for _ = 1, n do
        local taker = rn.go(function() return ch:take() end)
        settle()
        rn.alts { { ch, "a" }, { ch, "b" } }
        if taker:take() == "a" then first = first + 1 end
      end
      assert.is_true(is_fair())
    end))

    it("many times puts each value equally often, also if others wait", within(function()
      local n, ch, counts = 2000, rn.chan(), {}
      for _ = 1, n do
        local other = rn.go(function() return (ch:put "other") end)
        settle()
        local putter = rn.go(function()
          return rn.alts { { ch, 1 }, { rn.chan(), 0 }, { ch, 2 }, rn.chan(), { ch, 3 }, { ch, 4 } }
        end)
        settle()
        assert.equal("other", (ch:take()))
        local value = ch:take()
        counts[value] = (counts[value] or 0) + 1
        assert.is_true((putter:take()))
        assert.is_true((other:take()))
        stage.assert_no_waiters(ch)
      end
      for i = 1, 4 do assert.is_true(counts[i] > n / 4 * 0.8 and counts[i] < n / 4 * 1.2, counts[i]) end
    end))

    it("twice, if it is shared, puts one value, either; with priority the first", function()
      local first, n, ch = 0, 400, rn.shared_chan()
      for i = 1, 2 * n do
        local putter = rn.go(function() return rn.alts({ { ch, "a" }, { ch, "b" } }, { priority = i > n }) end)
        rn.yield()
        local value = ch:take()
        assert.is_true((putter:take()))
        if i > n then assert.equal("a", value) elseif value == "a" then first = first + 1 end
      end
      assert.is_true(first > n * 0.4 and first < n * 0.6, first)
    end)

    it("with priority puts the first value", within(function()
      local ch = rn.chan()
      for _ = 1, 50 do
        rn.go(function() return rn.alts({ { ch, "a" }, { ch, "b" } }, { priority = true }) end)
        settle()
        assert.equal("a", (ch:take()))
      end
    end))

    it("in a put and a take never meets itself", within(function()
      for _, ops in ipairs { 1, 2, 40 } do
        local ch, list, got = rn.chan(), {}, nil
        for i = 1, ops do
          list[2 * i - 1] = ch
          list[2 * i] = { ch, "mine" }
        end
        rn.go(function() got = table.pack(rn.alts(list)) end)
        settle()
        assert.is_nil(got)
        assert.same({ ops, ops }, { ch:stats().puts_waiting, ch:stats().takes_waiting })
        assert.same({ 0, 0 }, { ch:stats().put_total, ch:stats().take_total })
        assert.equal("mine", (ch:take()))
        settle()
        assert.same({ true, ch, n = 2 }, got)
        stage.assert_no_waiters(ch)
        rn.go(function() got = table.pack(rn.alts(list)) end)
        settle()
        assert.is_true(ch:put "yours")
        settle()
        assert.same({ "yours", ch, n = 2 }, got)
        stage.assert_no_waiters(ch)
        assert.same({ 2, 2 }, { ch:stats().put_total, ch:stats().take_total })
      end
    end))

    it("in a put and a take gives the default, and closes", within(function()
      local ch = rn.chan()
      assert.same({ 1, "default" }, { rn.alts({ ch, { ch, 1 } }, { default = 1 }) })
      local parked = rn.go(function() return select("#", rn.alts { { ch, 1 }, ch }) end)
      settle()
      ch:close "why"
      assert.equal(3, (parked:take()))
      stage.assert_no_waiters(ch)
      -- Closed, both are ready: false, or nil and the reason.
      local puts = 0
      for _ = 1, 200 do
        if rn.alts { ch, { ch, 1 } } == false then puts = puts + 1 end
      end
      assert.is_true(puts > 50 and puts < 150)
    end))

    it("in a put and a take meets another that does the same", function()
      sim.each_seed(60, function()
        local ch, results = rn.chan(), {}
        for i = 1, 6 do
          rn.go(function()
            local value, port = rn.alts { ch, { ch, i } }
            assert(port == ch)
            results[i] = value
          end)
        end
        rn.sleep(1)
        local put, got = {}, {}
        for i = 1, 6 do
          if results[i] == true then put[i] = true else got[results[i]] = i end
        end
        local n = 0
        for value, taker in pairs(got) do
          n = n + 1
          assert(put[value] and value ~= taker)
        end
        assert.equal(3, n)
        stage.assert_no_waiters(ch)
      end)
    end)

    it("in a put and a take does either where there is a buffer", within(function()
      for _ = 1, 50 do
        local ch = rn.chan(2)
        ch:put "held"
        local value = rn.alts { ch, { ch, "more" } }
        assert.equal(value == true and 2 or 0, #ch)
      end
      local ch = rn.chan(1)
      assert.is_true((rn.alts { ch, { ch, "in" } }))
      assert.equal("in", (rn.alts { ch, { ch, "no room" } }))
    end))

    it("as a timeout and a result of a go block waits for both", within(function()
      local result = rn.go(function()
        rn.sleep(5)
        return "done"
      end)
      assert.same({ "done", result }, { rn.alts { result, result, rn.timeout(50) } })
      assert.same({ nil, result }, { rn.alts { result } })
    end))
  end)

  describe("that does not wait", function()
    it("returns its default and the string 'default'", within(function()
      local ch = rn.chan()
      for _, default in ipairs { 1, "text", false, {}, ch } do
        assert.same({ default, "default", n = 2 }, table.pack(rn.alts({ ch, { ch, 1 } }, { default = default })))
        assert.same({ default, "default", n = 2 }, table.pack(rn.alts({}, { default = default })))
      end
      stage.assert_no_waiters(ch)
    end))

    it("gives nil for a default with nowait", within(function()
      local ch = rn.chan()
      assert.same({ nil, "default", n = 2 }, table.pack(rn.alts({ ch }, { nowait = true })))
      assert.same({ false, "default", n = 2 }, table.pack(rn.alts({ ch }, { nowait = true, default = false })))
      local parked = rn.go(function() return (rn.alts({ ch }, { nowait = false, default = nil })) end)
      settle()
      ch:put "waited"
      assert.equal("waited", (parked:take()))
    end))

    it("finds its options through a metatable", within(function()
      local ch, other = full(1), full(2)
      local options = setmetatable({}, { __index = { priority = true } })
      for _ = 1, 20 do
        assert.same({ 1, ch }, { rn.alts({ ch, other }, options) })
        ch:put(1)
      end
      assert.same({ "d", "default" }, { rn.alts({ rn.chan() }, setmetatable({}, { __index = { default = "d" } })) })
      assert.same({ nil, "default" }, { rn.alts({ rn.chan() }, setmetatable({}, { __index = { nowait = true } })) })
    end))

    it("gives no default where something is ready", within(function()
      local ch = full(false)
      assert.same({ false, ch }, { rn.alts({ rn.chan(), ch }, { default = "default" }) })
      ch:close()
      assert.same({ nil, ch }, { rn.alts({ rn.chan(), ch }, { default = "default" }) })
    end))

    it("may be called where nothing can wait", within(function()
      local ch, got = rn.chan(1), nil
      ch:put_async(1, function() got = { rn.alts({ rn.chan() }, { default = "d" }) } end)
      assert.same({ "d", "default" }, got)
      table.sort({ 3, 1, 2 }, function(a, b)
        rn.alts({ ch, { ch, 1 } }, { default = 1 })
        return a < b
      end)
    end))
  end)

  describe("among operations that are ready", function()
    -- 99.9 percent of fair choices have less.
    local CRITICAL = { [1] = 10.83, [3] = 16.27, [6] = 22.46, [9] = 27.88, [63] = 103.44, [99] = 148.23 }

    local function chi_square(counts, n)
      local expected, sum = n / #counts, 0
      for i = 1, #counts do sum = sum + (counts[i] - expected) ^ 2 / expected end
      return sum
    end

    local function counts_of(ready, ops, n)
      local counts, index = {}, {}
      for i, ch in ipairs(ready) do
        counts[i] = 0
        index[ch] = i
      end
      for _ = 1, n do
        local _, port = rn.alts(ops)
        local i = index[port]
        counts[i] = counts[i] + 1
      end
      return counts
    end

    it("chooses each equally often", function()
      for _, k in ipairs { 2, 4, 7, 10, 64, 100 } do
        local counts
        stage.run(function()
          local ready = channels(k, function(i)
            local ch = rn.chan()
            ch:close(i)
            return ch
          end)
          counts = counts_of(ready, ready, 500 * k)
        end, { seed = 7 * k })
        assert.is_true(chi_square(counts, 500 * k) < CRITICAL[k - 1], "unfair among " .. k)
      end
    end)

    it("chooses fairly among takes and puts, whatever is not ready between them", function()
      local counts
      stage.run(function()
        local ready, ops = {}, {}
        for i = 1, 7 do
          ready[i] = rn.promise_chan()
          ready[i]:put(i)
          ops[#ops + 1] = i % 2 == 0 and ready[i] or { ready[i], "again" }
          for _ = 1, i do ops[#ops + 1] = rn.chan() end
        end
        counts = counts_of(ready, ops, 7000)
      end, { seed = 3 })
      assert.is_true(chi_square(counts, 7000) < CRITICAL[6])
    end)

    it("chooses independently of what it chose before", function()
      local counts = { 0, 0, 0, 0 }
      stage.run(function()
        local a, b = rn.promise_chan(), rn.promise_chan()
        a:put(0)
        b:put(1)
        local last = 0
        for _ = 1, 4000 do
          local value = rn.alts { a, b }
          local i = 2 * last + value + 1
          counts[i] = counts[i] + 1
          last = value
        end
      end, { seed = 5 })
      assert.is_true(chi_square(counts, 4000) < CRITICAL[3])
    end)

    it("chooses the same with the same seed, and otherwise with another", function()
      local function choices(seed)
        local list = {}
        sim.run(function()
          local ready = channels(8, function(i)
            local ch = rn.promise_chan()
            ch:put(i)
            return ch
          end)
          for i = 1, 50 do list[i] = rn.alts(ready) end
        end, { seed = seed })
        return table.concat(list, " ")
      end
      local seen = {}
      for seed = 1, 20 do
        local text = choices(seed)
        assert.equal(text, choices(seed))
        assert.is_nil(seen[text])
        seen[text] = true
      end
    end)

    it("starves none of two that are always ready", within(function()
      local fast, slow, stop = rn.chan(), rn.chan(), rn.chan()
      for _, ch in ipairs { fast, slow } do
        rn.go(function()
          repeat
            local _, port = rn.alts { { ch, 1 }, stop }
          until port == stop
        end)
      end
      local n = 0
      for _ = 1, 1000 do
        local _, port = rn.alts { fast, slow }
        if port == slow then n = n + 1 end
      end
      stop:close()
      assert.is_true(n > 300 and n < 700)
    end))
  end)

  describe("with many operations", function()
    for _, n in ipairs { 8, 9, 63, 64, 65, 1000 } do
      it(("(%d) waits for and withdraws them all"):format(n), within(function()
        local list, ops = channels(n), {}
        for i = 1, n do ops[i] = i % 3 == 0 and { list[i], i } or list[i] end
        for _, i in ipairs { 1, 2, 3, n // 2, n - 1, n } do
          local got
          rn.go(function() got = table.pack(rn.alts(ops)) end)
          settle()
          for j = 1, n do assert.equal(1, list[j]:stats().puts_waiting + list[j]:stats().takes_waiting) end
          for _ = 1, 3 do collectgarbage() end
          if i % 3 == 0 then
            assert.equal(i, (list[i]:take()))
          else
            list[i]:put { i }
          end
          stage.assert_no_waiters(table.unpack(list))
          settle()
          assert.same({ i % 3 == 0 or { i }, list[i], n = 2 }, got)
        end
      end))
    end

    it("of which one is ready does that one", within(function()
      for _, n in ipairs { 9, 65, 1000 } do
        local list = channels(n)
        for _, i in ipairs { 1, n // 2, n } do
          list[i]:put_async "ready"
          assert.same({ "ready", list[i] }, { rn.alts(list) })
          assert.same({ nil, "default" }, { rn.alts(list, { nowait = true }) })
        end
        stage.assert_no_waiters(table.unpack(list))
      end
    end))

    it("waits outside any go block", function()
      local list = channels(1000)
      rn.go(function() list[777]:put "value" end)
      assert.same({ "value", list[777] }, { rn.alts(list) })
      rn.run()
      stage.assert_no_waiters(table.unpack(list))
    end)

    it("raises for more than 100,000 operations", within(function()
      local ch = rn.chan()
      for _, n in ipairs { 100001, math.maxinteger, -1, -4294967295, math.mininteger } do
        local ops = setmetatable({}, { __len = function() return n end, __index = function() return ch end })
        raises("^alts: from 1 to 100000 operations expected, got %-?%d+", function() rn.alts(ops) end)
      end
      stage.assert_no_waiters(ch)
    end))

    it("waits many times over with no more memory", within(function()
      for _, n in ipairs { 4, 30, 100 } do
        local list = channels(n)
        local consumer = rn.go(function()
          while rn.alts(list) do end
        end)
        local function feed(times)
          for i = 1, times do list[i % n + 1]:put(i) end
          collectgarbage()
          collectgarbage()
          return collectgarbage "count"
        end
        local before = feed(2000)
        assert.is_true(feed(10000) < before + 20)
        list[1]:close()
        consumer:take()
      end
    end))
  end)

  describe("with a list that has metamethods", function()
    it("reads it through its metatable", within(function()
      local a, b = rn.chan(), full "value"
      local ops = setmetatable({}, {
        __len = function() return 2 end,
        __index = function(_, i) return ({ a, b })[i] end,
      })
      assert.same({ "value", b }, { rn.alts(ops) })
      local put = setmetatable({}, { __index = function(_, i) return ({ b, "put" })[i] end })
      assert.is_true((rn.alts { put }))
      assert.equal("put", (b:take()))
    end))

    it("passes on the error of a metamethod, and has queued nothing", within(function()
      local a, b = rn.chan(), rn.chan(1)
      local function broken() error("broken list", 0) end
      local lists = {
        setmetatable({ a, { b, 1 } }, { __len = broken }),
        setmetatable({ a, { b, 1 } }, { __len = function() return 3 end, __index = broken }),
        { a, { b, 1 }, setmetatable({}, { __index = broken }) },
        { a, { b, 1 }, setmetatable({ a }, { __index = broken }) },
      }
      for i, ops in ipairs(lists) do
        for _, opts in ipairs { { priority = true }, { default = 1 }, {} } do
          local ok, err = pcall(rn.alts, ops, opts)
          assert.is_false(ok)
          assert.equal("broken list", err, i)
        end
      end
      local opts = setmetatable({}, { __index = broken })
      local ok, err = pcall(rn.alts, { a, { b, 1 } }, opts)
      assert.is_false(ok)
      assert.equal("broken list", err)
      stage.assert_no_waiters(a, b)
      assert.equal(0, #b)
    end))

    it("allows the metamethods to use the channels", within(function()
      local ch, late = rn.chan(1), rn.chan()
      local ops = setmetatable({ ch }, { __len = function()
        ch:put "by the list"
        late:close()
        return 1
      end })
      assert.equal("by the list", (rn.alts(ops)))
      assert.is_true(late:closed())
    end))

    it("may call alts while it is read", within(function()
      local inner, outer = full "inner", full "outer"
      local ops = setmetatable({}, {
        __len = function() return 1 end,
        __index = function()
          assert.equal("inner", (rn.alts { inner }))
          return outer
        end,
      })
      assert.equal("outer", (rn.alts(ops)))
    end))

    it("cannot park while it is read", within(function()
      local ch = rn.chan()
      local ops = setmetatable({}, { __len = function() return ch:take() end })
      local ok, err = pcall(rn.alts, ops)
      assert.is_false(ok)
      assert.matches("take would have to wait, which is impossible across a C call", err)
      stage.assert_no_waiters(ch)
    end))

    it("may wait while it is read outside any go block", function()
      local a, b = rn.chan(), rn.chan()
      rn.go(function() a:put(1) end)
      rn.go(function()
        rn.yield()
        b:put "value"
      end)
      local ops = setmetatable({ b }, { __len = function() return a:take() end })
      assert.same({ "value", b }, { rn.alts(ops) })
      rn.run()
    end)

    it("may be changed while it waits", within(function()
      local a, b = rn.chan(), rn.chan()
      local op = { b, "as it was" }
      local ops = { a, op }
      local parked = rn.go(function()
        local value, port = rn.alts(ops)
        return { value, port == b }
      end)
      settle()
      op[1], op[2] = a, "changed"
      ops[1], ops[2] = nil, nil
      for _ = 1, 3 do collectgarbage() end
      assert.equal("as it was", (b:take()))
      assert.same({ true, true }, (parked:take()))
      stage.assert_no_waiters(a, b)
    end))
  end)

  describe("on a channel with 1024 waiting", function()
    it("raises, and leaves no waiter behind anywhere", within(function()
      local crowded, others, ops = rn.chan():name "inbox", channels(20), {}
      for _ = 1, MAX do crowded:take_async(function() end) end
      for i = 1, 20 do ops[i] = i % 2 == 0 and others[i] or { others[i], i } end
      for place = 1, 21 do
        local list = table.move(ops, 1, 20, 1, {})
        table.insert(list, place, crowded)
        raises("^chan: inbox: 1024 takes wait, which is the limit", function() rn.alts(list) end)
        stage.assert_no_waiters(table.unpack(others))
        assert.equal(MAX, crowded:stats().takes_waiting)
      end
      -- The same go block can wait as before.
      local got = rn.go(function()
        local ok = pcall(rn.alts, { others[1], crowded })
        local value, port = rn.alts { others[1], { others[2], 2 } }
        return { ok, value, port == others[1] }
      end)
      settle()
      others[1]:put "later"
      assert.same({ false, "later", true }, (got:take()))
      crowded:close()
    end))

    it("puts raises too, outside any go block as well", function()
      local crowded, other = rn.chan():name "inbox", rn.chan()
      for i = 1, MAX do crowded:put_async(i) end
      raises("^chan: inbox: 1024 puts wait", function()
        rn.alts { other, { other, 1 }, { crowded, "more" } }
      end)
      stage.assert_no_waiters(other)
      rn.go(function() other:put "value" end)
      assert.equal("value", other:take())
      for i = 1, MAX do assert.equal(i, (crowded:take())) end
      rn.run()
    end)

    it("counts its own operations, and raises without losing a value", within(function()
      local ch, ops = rn.chan():name "inbox", {}
      for i = 1, MAX do ops[i] = ch end
      local parked = rn.go(function() return (rn.alts(ops)) end)
      settle()
      assert.equal(MAX, ch:stats().takes_waiting)
      ch:put "value"
      assert.equal("value", (parked:take()))
      ops[MAX + 1] = ch
      raises("^chan: inbox: 1024 takes wait", function() rn.alts(ops) end)
      stage.assert_no_waiters(ch)
    end))
  end)

  it("runs no finalizer between its look and the enqueue", within(function()
    for _, n in ipairs { 10, 40, 70 } do
      local current, sent, got, used = nil, 0, 0, {}
      finalizers.among(function()
        if current and current:offer "by a finalizer" then sent = sent + 1 end
        current = nil
      end, function()
        -- Many that wait at a time, so that memory is allocated for them and not only used again.
        for i = 1, 200 do
          local ops = channels(n)
          used[i] = rn.chan(1)
          ops[n // 2] = used[i]
          rn.go(function()
            current = used[i]
            local value = rn.alts(ops)
            if value == "by a finalizer" then got = got + 1 end
          end)
          rn.yield()
          current = nil
        end
      end)
      assert.is_true(sent > 0)
      for i = 1, 200 do
        local stats = used[i]:stats()
        assert.is_true(stats.takes_waiting == 0 or stats.values == 0)
        if stats.takes_waiting > 0 then used[i]:put "end" else used[i]:poll() end
      end
      settle()
      assert.is_true(got > 0)
      assert.is_true(got <= sent)
    end
  end))

  it("delivers each value once whatever the schedule", function()
    sim.each_seed(40, function(seed)
      local list, seen, n = channels(3, function(i) return rn.chan((seed + i) % 3) end), {}, 0
      local stop = rn.chan()
      local takers = {}
      for t = 1, 4 do
        takers[t] = rn.go(function()
          while true do
            local value, port = rn.alts({ list[1], list[2], list[3], stop }, { priority = t % 2 == 0 })
            if port == stop then return true end
            assert(not seen[value], "twice")
            seen[value], n = true, n + 1
          end
        end)
      end
      local putters = {}
      for p = 1, 4 do
        putters[p] = rn.go(function()
          for i = 1, 30 do
            local value = p * 100 + i
            assert(rn.alts { { list[1], value }, { list[2], value }, { list[3], value } } == true)
          end
          return true
        end)
      end
      for p = 1, 4 do assert(putters[p]:take()) end
      rn.sleep(1)
      stop:close()
      for t = 1, 4 do assert(takers[t]:take()) end
      assert.equal(120, n)
      stage.assert_no_waiters(table.unpack(list))
    end)
  end)

  it("is collected when it can never complete", within(function()
    local objects = setmetatable({}, { __mode = "k" })
    for _ = 1, 50 do
      rn.go(function()
        local object = {}
        objects[object] = true
        local a, b = rn.chan(), rn.chan()
        rn.alts { a, { b, object }, { a, object } }
      end)
    end
    settle()
    for _ = 1, 5 do collectgarbage() end
    assert.is_nil(next(objects))
  end))
end)

describe("alt", function()
  it("calls the function of the operation that was done, and returns what that returns", within(function()
    local a, b = full "value", rn.chan()
    assert.same({ "value", a, nil, n = 3 }, table.pack(rn.alt {
      { a, function(value, port, err) return value, port, err end },
      { b, error },
    }))
    local taker = rn.go(function() return b:take() end)
    settle()
    assert.same({ true, b, "more", n = 3 }, table.pack(rn.alt {
      { a, error },
      { { b, "put" }, function(ok, port) return ok, port, "more" end },
    }))
    assert.equal("put", (taker:take()))
    assert.same({ n = 0 }, table.pack(rn.alt { { full(1), function() end } }))
  end))

  it("gives the reason of a closed channel", within(function()
    local ch = rn.chan()
    ch:close "why"
    assert.same({ nil, ch, "why", n = 3 }, table.pack(rn.alt { { ch, function(...) return ... end } }))
    assert.is_false((rn.alt { { { ch, 1 }, function(ok) return ok end } }))
    local late, got = rn.chan(), nil
    rn.go(function() got = table.pack(rn.alt { { late, function(...) return ... end } }) end)
    settle()
    late:close "later"
    settle()
    assert.same({ nil, late, "later", n = 3 }, got)
  end))

  it("waits, and withdraws the others", within(function()
    local a, b = rn.chan(), rn.chan()
    local parked = rn.go(function()
      return rn.alt {
        { a, function(value) return "a" .. value end },
        { { b, 1 }, function() return "b" end },
        { rn.timeout(1000), function() return "timeout" end },
      }
    end)
    settle()
    a:put "!"
    stage.assert_no_waiters(a, b)
    assert.equal("a!", (parked:take()))
  end))

  it("tells a put and a take of the same channel apart", within(function()
    local ch = rn.chan()
    local function choose()
      return rn.alt {
        { ch, function(value, port) return { "take", value, port == ch } end },
        { { ch, "mine" }, function(ok, port) return { "put", ok, port == ch } end },
        { ch, function() return { "the second take" } end },
      }
    end
    local parked = rn.go(choose)
    settle()
    assert.equal("mine", (ch:take()))
    assert.same({ "put", true, true }, (parked:take()))
    local second = 0
    for _ = 1, 200 do
      parked = rn.go(choose)
      settle()
      ch:put "yours"
      local result = parked:take()
      if result[1] == "the second take" then second = second + 1
      else assert.same({ "take", "yours", true }, result) end
      stage.assert_no_waiters(ch)
    end
    assert.is_true(second > 60 and second < 140)
    -- Ready at once, each of the three is chosen some time.
    ch = rn.promise_chan()
    ch:put "kept"
    local seen = {}
    for _ = 1, 100 do seen[choose()[1]] = true end
    assert.same({ take = true, put = true, ["the second take"] = true }, seen)
  end))

  it("tries in order with priority", within(function()
    for _ = 1, 20 do
      assert.equal("first", (rn.alt {
        { rn.chan(), error },
        { full(1), function() return "first" end },
        { full(2), error },
        priority = true,
      }))
    end
  end))

  it("calls its default where nothing is ready", within(function()
    local ch = rn.chan()
    assert.same({ "nothing", 2, n = 2 }, table.pack(rn.alt {
      { ch, error },
      { { ch, 1 }, error },
      default = function(...)
        assert.equal(0, select("#", ...))
        return "nothing", 2
      end,
    }))
    assert.equal(1, (rn.alt { { full(1), function(v) return v end }, default = error }))
    assert.equal("d", (rn.alt { default = function() return "d" end }))
    stage.assert_no_waiters(ch)
  end))

  it("calls the operation's function for a value that is the string 'default'", within(function()
    assert.equal("value: default", (rn.alt {
      { full "default", function(value) return "value: " .. value end },
      default = error,
    }))
  end))

  it("lets its functions park, and calls them by a tail call", within(function()
    local ch, n = rn.chan(), 0
    local function loop()
      return rn.alt {
        { ch, function(value)
          n = n + value
          rn.yield()
          return loop()
        end },
        { rn.timeout(50), function() return n end },
      }
    end
    local result = rn.go(loop)
    for _ = 1, 5000 do ch:put(1) end
    assert.equal(5000, (result:take()))
  end))

  it("passes errors of its functions on", within(function()
    local ok, err = pcall(rn.alt, { { full(1), function() error("mine", 0) end } })
    assert.is_false(ok)
    assert.equal("mine", err)
  end))

  it("takes callable objects", within(function()
    local object = setmetatable({}, { __call = function(_, value) return value end })
    assert.equal(1, (rn.alt { { full(1), object } }))
    assert.is_nil((rn.alt { default = setmetatable({}, { __call = function() end }) }))
  end))

  it("may have its clauses changed while it waits", within(function()
    local a, b = rn.chan(), rn.chan()
    local put = { b, "as it was" }
    local clauses = {
      { a, function(value) return "a", value end },
      { put, function(ok, port) return { ok, port == b } end },
    }
    local parked = rn.go(function() return (rn.alt(clauses)) end)
    settle()
    put[1], put[2] = a, "changed"
    clauses[1], clauses[2][2], clauses[2] = nil, nil, nil
    assert.equal("as it was", (b:take()))
    assert.same({ true, true }, (parked:take()))
    stage.assert_no_waiters(a, b)
  end))
end)

describe("alts in sim.explore", function()
  it("does each of its operations in some run, those that are ready and those that wait", function()
    local seen = {}
    sim.explore(function()
      local ready, ch = { rn.chan(1), rn.chan(1), rn.chan(1) }, rn.chan()
      for _, one in ipairs(ready) do one:put(true) end
      local _, first = rn.alts(ready)
      for i, one in ipairs(ready) do if one == first then seen["ready " .. i] = true end end
      rn.go(rn.alts, { { ch, "one" }, { ch, "two" }, { ch, "three" } })
      rn.sleep(0)
      seen["waiting " .. ch:take()] = true
    end, { timers = "any", seconds = 60 })
    local all = {}
    for what in pairs(seen) do all[#all + 1] = what end
    table.sort(all)
    assert.same({ "ready 1", "ready 2", "ready 3", "waiting one", "waiting three", "waiting two" }, all)
  end)
end)

describe("alts with buffer policies", function()
  before_each(stage.open)
  after_each(stage.close)

  -- A policy that has room when asked by alts, and then has none; or the like for its values.
  local function fickle(answers)
    local asked = 0
    return {
      full = function()
        asked = asked + 1
        return answers[(asked - 1) % #answers + 1]
      end,
      add = function() end,
      remove = function() end,
      count = function() return 0 end,
    }
  end

  it("does something else when a policy takes back that it has room", stage.sim(function()
    local ch, other = rn.chan(fickle { false, true }), rn.chan(1)
    local ok, port = rn.alts({ { ch, 1 }, { other, 2 } }, { priority = true })
    assert.same({ true, true }, { ok, port == other })
    assert.equal(0, ch:stats().put_total)
    -- And waits where there is nothing else.
    local ends, always_full = rn.timeout(10), rn.chan(fickle { true })
    local ops = { { rn.chan(fickle { false, true }), 1 }, { always_full, 2 }, ends }
    assert.equal(ends, select(2, rn.alts(ops, { priority = true })))
    assert.equal(10, sim.elapsed())
  end))

  it("does one of its operations in an exploration, too, when all policies take that back", function()
    sim.explore(function()
      local a, b = rn.chan(fickle { false, true }), rn.chan(fickle { false, true })
      local ok, port = rn.alts { { a, 1 }, { b, 2 } }
      assert.is_true(ok)
      assert.equal(port == a and 1 or 0, a:stats().put_total)
      assert.equal(port == b and 1 or 0, b:stats().put_total)
    end)
  end)

  it("looks again when asking a policy has changed another channel", stage.sim(function()
    local other = rn.chan(1)
    local policy = fickle { true }
    policy.full = function()
      other:offer "put meanwhile"
      return true
    end
    local v, port = rn.alts({ other, { rn.chan(policy), 1 } }, { priority = true })
    assert.same({ "put meanwhile", true }, { v, port == other })
    local closing = rn.chan()
    policy = fickle { true }
    policy.full = function()
      closing:close()
      return true
    end
    v, port = rn.alts({ closing, { rn.chan(policy), 1 } }, { priority = true })
    assert.same({ nil, true }, { v, port == closing })
  end))

  it("looks again when asking a policy has changed another channel with a policy", stage.sim(function()
    local values, is_asked = {}, false
    local closing, filled = rn.chan(fickle { false }), rn.chan {
      full = function() return true end,
      add = function(_, v) values[1] = v end,
      remove = function() return table.remove(values) end,
      count = function() return #values end,
    }
    local closer, filler = fickle { false }, fickle { false }
    closer.count = function()
      closing:close()
      return 0
    end
    filler.count = function()
      if not is_asked then filled:put_async "put meanwhile" end
      is_asked = true
      return 0
    end
    rn.alts { rn.chan(), rn.timeout(1) } -- so that the next ones wait without an allocation
    local v, port = rn.alts({ closing, rn.chan(closer) }, { priority = true })
    assert.same({ nil, true }, { v, port == closing })
    v, port = rn.alts({ filled, rn.chan(filler) }, { priority = true })
    assert.same({ "put meanwhile", true }, { v, port == filled })
  end))
end)
