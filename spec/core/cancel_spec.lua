local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local since_5_4_3 = stage.is_5_4_3 and it or pending

-- Where a go block can wait for `ch`, on which nothing happens, and for nothing else that comes before `FOREVER`.
local FOREVER = 1000000
local parks = {
  ["a take"] = function(ch) ch:take() end,
  ["a put"] = function(ch) ch:put "never" end,
  ["alts over takes"] = function(ch) rn.alts { ch, rn.chan() } end,
  ["alts over a put and a take"] = function(ch) rn.alts { { ch, "never" }, ch } end,
  ["alts with a timeout"] = function(ch) rn.alts { ch, rn.timeout(FOREVER) } end,
  ["alts over 100"] = function(ch)
    local ops = {}
    for i = 1, 100 do ops[i] = i % 2 == 0 and ch or rn.chan() end
    rn.alts(ops)
  end,
  ["an alt"] = function(ch) rn.alt { { ch, print }, { { ch, "never" }, print } } end,
  ["a loop over a channel"] = function(ch) for _ in ch do error "never" end end,
  ["a timeout"] = function() rn.timeout(FOREVER):take() end,
  ["a result"] = function() rn.go(rn.sleep, 10):take() end,
  ["a sleep"] = function() rn.sleep(FOREVER) end,
  ["a yield"] = function() rn.yield() end,
  ["a scope"] = function(ch) rn.scope(function() ch:take() end) end,
}

-- Calls f(name, park) for each, in the same order every time.
local function each_park(f)
  local names = {}
  for name in pairs(parks) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do f(name, parks[name]) end
end

local function closing(f) return setmetatable({}, { __close = f }) end

local function assert_idle(ch)
  local stats = ch:stats()
  assert.same({ 0, 0, 0, 0 }, { stats.puts_waiting, stats.takes_waiting, stats.put_total, stats.take_total })
  rn.go(function() ch:put "next" end)
  assert.equal("next", ch:take())
end

describe("cancel", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("of a go block that waits", function()
    each_park(function(name, park)
      it(("in %s raises the reason there"):format(name), stage.sim(function()
        local ch, reason, seen = rn.chan(), {}, nil
        local result = rn.go(function()
          local _ <close> = closing(function(_, err) seen = err end)
          park(ch)
          error "never"
        end)
        rn.yield()
        assert.is_true(rn.cancel(result, reason))
        local value, err = result:take()
        assert.is_nil(value)
        assert.is_true(rawequal(reason, err))
        assert.is_true(rawequal(reason, seen))
        assert_idle(ch)
        assert.is_true(rn.now() < 100)
        rn.sleep(20)
        assert.same({}, stage.others())
      end))

      it(("in %s raises it although its channels keep the block alive"):format(name), stage.sim(function()
        local ch = rn.chan()
        local result = rn.go(park, ch)
        rn.yield()
        for _ = 1, 4 do collectgarbage() end
        assert.is_true(rn.cancel(result, "enough"))
        for _ = 1, 4 do collectgarbage() end
        assert.same({ nil, "enough" }, { result:take() })
        assert_idle(ch)
      end))

      it(("in %s is caught by pcall, and raised again by each later operation that would wait"):format(name),
        stage.sim(function()
          local ch, full = rn.chan(), rn.chan(1)
          local result = rn.go(function()
            for _ = 1, 3 do assert.same({ false, "enough" }, { pcall(park, ch) }) end
            each_park(function(_, other) assert.same({ false, "enough" }, { pcall(other, ch) }) end)
            assert.is_true(full:put "needs not wait")
            assert.same({ false, "enough" }, { pcall(full.put, full, "would wait") })
            assert.equal("needs not wait", full:take())
            return "went on"
          end)
          rn.yield()
          rn.cancel(result, "enough")
          assert.equal("went on", result:take())
          assert.same({}, stage.heard())
          assert_idle(ch)
        end))
    end)

    it("that has not got it yet gets it when it is to let others run, and loses no value thereby", stage.sim(function()
      local moving = core.internal.moving
      for name, operation in pairs {
        take = moving.take,
        alts = function(ch) return (moving.alts { ch }) end,
        put = function(ch, other)
          local value = ch:poll()
          return moving.put(other, value) and value
        end,
      } do
        local ch, other, got, result = rn.chan(500), rn.chan(500), 0, nil
        for i = 1, 500 do ch:put(i) end
        result = rn.go(function()
          rn.cancel(result, "enough")
          while true do
            assert.equal(got + 1, operation(ch, other))
            got = got + 1
          end
        end)
        assert.same({ nil, "enough" }, { result:take() })
        assert.is_true(got >= 60 and got < 200, name) -- the poll counts, too
        if name == "put" then assert.equal(got, #other) else assert.equal(500 - got, #ch) end
      end
    end))

    it("ends it at last if it catches that in an endless loop, with its variables closed and nothing reported",
      stage.sim(function()
        local ch, seen, others = rn.chan(), nil, 0
        local result = rn.go(function()
          local _ <close> = closing(function(_, err) seen = err end)
          while true do pcall(ch.put, ch, "a value") end
        end)
        rn.go(function()
          for _ = 1, 3 do
            others = others + 1
            rn.yield()
          end
        end)
        rn.yield()
        rn.cancel(result, "enough")
        assert.same({ nil, "enough" }, { result:take() })
        assert.equal("enough", seen)
        rn.sleep(10000)
        assert.equal(3, others)
        assert.same({}, stage.heard())
        assert_idle(ch)
      end))

    it("takes any value but nil for a reason", stage.sim(function()
      for _, reason in ipairs { false, true, 0, 0.5, "", "text", print } do
        local result = rn.go(rn.sleep, FOREVER)
        rn.yield()
        rn.cancel(result, reason)
        assert.same({ nil, reason }, { result:take() })
      end
    end))

    it("without a reason raises 'cancelled'", stage.sim(function()
      for _, cancel in ipairs { rn.cancel, function(r) return rn.cancel(r, nil) end } do
        local result = rn.go(rn.sleep, FOREVER)
        rn.yield()
        cancel(result)
        assert.same({ nil, "cancelled" }, { result:take() })
      end
    end))

    it("runs it in its turn, not at once", stage.sim(function()
      local log = {}
      local result = rn.go(function()
        local _, err = pcall(rn.sleep, FOREVER)
        log[#log + 1] = err
      end)
      rn.yield()
      rn.go(function() log[#log + 1] = "first" end)
      rn.cancel(result)
      assert.same({}, log)
      rn.yield()
      assert.same({ "first", "cancelled" }, log)
    end))

    it("leaves the other waiters in their order", stage.sim(function()
      local ch, log = rn.chan(), {}
      local results = {}
      for i = 1, 5 do
        results[i] = rn.go(function()
          local value = ch:take()
          log[#log + 1] = i .. value
        end)
      end
      rn.yield()
      rn.cancel(results[3])
      rn.cancel(results[1])
      for _, value in ipairs { "a", "b", "c" } do ch:put(value) end
      rn.yield()
      assert.same({ "2a", "4b", "5c" }, log)
    end))

    it("withdraws a value that was to be put", stage.sim(function()
      local ch = rn.chan(1)
      ch:put "kept"
      local results = {}
      for i, value in ipairs { "lost", "put" } do results[i] = rn.go(function() return ch:put(value) end) end
      rn.yield()
      rn.cancel(results[1])
      assert.same({ "kept", "put" }, { ch:take(), ch:take() })
      assert.is_true(results[2]:take())
    end))

    it("makes room where 1024 wait", stage.sim(function()
      local ch, results = rn.chan(), {}
      for i = 1, 1024 do results[i] = rn.go(ch.put, ch, i) end
      rn.yield()
      assert.is_false((pcall(ch.put, ch, 0)))
      rn.cancel(results[7])
      local last = rn.go(ch.put, ch, 1025)
      local sum = 0
      for _ = 1, 1024 do sum = sum + ch:take() end
      assert.equal(1025 * 513 - 7, sum)
      assert.is_true(last:take())
    end))

    it("completes a transducer whose closed channel has lost its last put", stage.sim(function()
      local ch = rn.chan(1, rn.xf.partition_by(function(v) return v end))
      ch:put "a"
      ch:put "b" -- the buffer is full of { "a" }
      local result = rn.go(ch.put, ch, "c")
      rn.yield()
      ch:close()
      rn.cancel(result)
      assert.same({ { "a" }, { "b" } }, stage.drain(ch))
      assert.same({}, { ch:take() })
    end))

    it("closes a policy whose closed channel has lost its last put", stage.sim(function()
      local closed = 0
      local policy = stage.picky(function() return true end)
      policy.full = function() return true end
      policy.close = function() closed = closed + 1 end
      local ch = rn.chan(policy)
      local result = rn.go(ch.put, ch, "c")
      rn.yield()
      ch:close()
      rn.cancel(result)
      assert.equal(0, closed)
      assert.is_nil(ch:take())
      assert.is_nil(ch:take())
      assert.equal(1, closed)
    end))

    it("ends it through many levels of calls and closed variables", stage.sim(function()
      local log = {}
      local function level(n)
        if n == 0 then rn.sleep(FOREVER) end
        local _ <close> = closing(function() log[#log + 1] = n end)
        level(n - 1)
        error "never"
      end
      local result = rn.go(level, 5)
      rn.yield()
      rn.cancel(result)
      assert.same({ nil, "cancelled" }, { result:take() })
      assert.same({ 1, 2, 3, 4, 5 }, log)
    end))

    since_5_4_3("lets variables to be closed wait where pcall catches it", stage.sim(function()
      local log = rn.chan(1)
      local result = rn.go(function()
        local ok, err = pcall(function()
          local _ <close> = closing(function()
            rn.sleep(10)
            log:put "closed"
          end)
          rn.sleep(FOREVER)
        end)
        error(err, ok and 1 or 0)
      end)
      rn.yield()
      rn.cancel(result, "enough")
      assert.same({ nil, "enough" }, { result:take() })
      assert.equal("closed", log:take())
      assert.equal(10, rn.now())
    end))
  end)

  describe("of a go block that does not wait", function()
    it("lets one that has not started begin, and raises where it waits", stage.sim(function()
      local log = {}
      local result = rn.go(function(a)
        log[#log + 1] = a
        local _ <close> = closing(function(_, err) log[#log + 1] = err end)
        rn.yield()
        error "never"
      end, "begun")
      assert.is_true(rn.cancel(result, "enough"))
      assert.same({ nil, "enough" }, { result:take() })
      assert.same({ "begun", "enough" }, log)
    end))

    it("does not undo a take: the value arrives, and the next wait raises", stage.sim(function()
      local ch, got = rn.chan(), nil
      local result = rn.go(function()
        got = ch:take()
        ch:take()
      end)
      rn.yield()
      ch:put "value"
      assert.is_true(rn.cancel(result, "enough"))
      assert.same({ nil, "enough" }, { result:take() })
      assert.equal("value", got)
      assert.equal(0, ch:stats().takes_waiting)
    end))

    it("does not undo a put, an alts, or a take of what has closed", stage.sim(function()
      local cases = {
        { function(ch) return ch:put "value" end, function(ch) return ch:take() end, { true } },
        { function(ch) return ch:put "value" end, function(ch) return ch:poll() end, { true } },
        { function(ch) return rn.alts { ch, rn.chan() } end, function(ch) ch:offer(1) end, { 1, "ch" } },
        { function(ch) return rn.alts { { ch, 1 }, rn.chan() } end, function(ch) ch:poll() end, { true, "ch" } },
        { function(ch) return ch:take() end, function(ch) ch:close() end, { n = 1 } },
        { function(ch) return ch:take() end, function(ch) ch:close "why" end, { nil, "why" } },
      }
      for i, case in ipairs(cases) do
        local ch, got = rn.chan(), nil
        local result = rn.go(function()
          got = table.pack(case[1](ch))
          rn.yield()
          error "never"
        end)
        rn.yield()
        case[2](ch)
        rn.cancel(result, i)
        assert.same({ nil, i }, { result:take() })
        for j = 1, 2 do
          local expected = case[3][j]
          if expected == "ch" then expected = ch end
          assert.equal(expected, got[j])
        end
      end
    end))

    it("raises in a sleep that is due, which has no value to lose", stage.sim(function()
      local log = {}
      local result = rn.go(function()
        rn.sleep(10)
        log[#log + 1] = "slept"
      end)
      rn.go(function()
        rn.sleep(10)
        log[#log + 1] = "cancels"
        rn.cancel(result)
      end)
      rn.yield()
      local early = rn.go(function()
        rn.sleep(10)
        rn.cancel(result)
      end)
      early:take()
      rn.sleep(1)
      assert.equal("slept", log[1]) -- it was due before the others
      local other
      rn.go(function()
        rn.sleep(10)
        rn.cancel(other, "too")
      end)
      other = rn.go(rn.sleep, 10)
      assert.same({ nil, "too" }, { other:take() })
    end))

    it("raises what an operation raises before", stage.sim(function()
      local ch = rn.chan(stage.picky(function(v) return v ~= "bad" end))
      local result = rn.go(function()
        local full = rn.chan(1)
        full:put(1)
        return { pcall(ch.put, ch, "bad") }, { pcall(full.put, full, 2) }
      end)
      rn.cancel(result)
      local first = result:take()
      assert.is_false(first[1])
      assert.matches("no bad here", first[2])
    end))

    it("raises in one that cancels itself where it waits next", stage.sim(function()
      local log, result = {}, nil
      result = rn.go(function()
        assert.is_true(rn.cancel(result, "myself"))
        log[#log + 1] = "still here"
        local ch = rn.chan(1)
        ch:put(1) -- need not wait
        log[#log + 1] = ch:take()
        rn.sleep(0)
        log[#log + 1] = "never"
      end)
      assert.same({ nil, "myself" }, { result:take() })
      assert.same({ "still here", 1 }, log)
    end))

    it("is forgotten when it ends without waiting", stage.sim(function()
      local result
      result = rn.go(function()
        rn.cancel(result)
        return "done"
      end)
      assert.equal("done", result:take())
      assert.is_nil(result:take())
    end))

    it("returns false when it has ended, well or badly", stage.sim(function()
      local fine, bad = rn.go(function() return 1 end), rn.go(error, "bad")
      rn.yield()
      assert.equal(1, #stage.heard())
      for _ = 1, 2 do
        assert.is_false(rn.cancel(fine))
        assert.is_false(rn.cancel(bad, "late"))
      end
      assert.equal(1, fine:take())
      assert.is_false(rn.cancel(fine))
      assert.same({ nil, "bad" }, { bad:take() })
    end))

    it("works when its result channel is closed", stage.sim(function()
      local seen
      local result = rn.go(function()
        local _ <close> = closing(function(_, err) seen = err end)
        rn.sleep(FOREVER)
      end)
      rn.yield()
      result:close "no interest"
      assert.is_true(rn.cancel(result, "enough"))
      rn.yield()
      assert.equal("enough", seen)
      assert.same({ nil, "no interest" }, { result:take() })
      assert.is_false(rn.cancel(result))
    end))

    it("keeps the error while the go block is where it cannot wait", stage.sim(function()
      local ch, log, result = rn.chan(), {}, nil
      local function take() return ch:take() end
      result = rn.go(function()
        rn.cancel(result, "enough")
        local _, err = pcall(string.gsub, "x", "x", take)
        log[1] = err
        _, err = coroutine.resume(coroutine.create(take))
        log[2] = err
        _, log[3] = pcall(take)
      end)
      result:take()
      assert.matches("take would have to wait, which is impossible across a C call", log[1])
      assert.matches("inside a coroutine of your own", log[2])
      assert.equal("enough", log[3])
      assert_idle(ch)
    end))
  end)

  describe("twice", function()
    it("before the go block has run counts once, with the first reason", stage.sim(function()
      each_park(function(name, park)
        local ch = rn.chan()
        local result = rn.go(function()
          local _, err = pcall(park, ch)
          local _, again = pcall(rn.sleep, 1)
          assert.equal(err, again)
          return err
        end)
        rn.yield()
        assert.is_true(rn.cancel(result, name))
        assert.is_true(rn.cancel(result, "second"))
        assert.equal(name, result:take())
      end)
      local result
      result = rn.go(function()
        rn.cancel(result, "first")
        rn.cancel(result, "second")
        return select(2, pcall(rn.yield))
      end)
      assert.equal("first", result:take())
    end))

    -- Where a go block may wait to clean up: variables of what pcall or xpcall calls, and of a block that ends well.
    for name, clean_up in pairs {
      ["that pcall closes"] = function(close)
        pcall(function()
          local _ <close> = closing(close)
          rn.sleep(FOREVER)
        end)
      end,
      ["that xpcall closes"] = function(close)
        xpcall(function()
          local _ <close> = closing(close)
          rn.sleep(FOREVER)
        end, debug.traceback)
      end,
      ["of a function that a pcall within pcall calls"] = function(close)
        pcall(function()
          local _ <close> = closing(function(...) pcall(close, ...) end)
          pcall(rn.sleep, FOREVER)
          error "another one"
        end)
      end,
      ["of a block that ends"] = function(close)
        pcall(rn.sleep, FOREVER)
        do
          local _ <close> = closing(close)
        end
      end,
    } do
      local title = ("lets it wait while it closes variables %s, and raises its reason there"):format(name)
      since_5_4_3(title, stage.sim(function()
        local log, line = {}, rn.chan()
        local result = rn.go(function()
          clean_up(function()
            rn.sleep(20)
            rn.yield()
            line:put "goodbye"
            log[1] = select(2, pcall(rn.sleep, FOREVER))
            rn.sleep(20)
          end)
          log[2] = select(2, pcall(rn.sleep, FOREVER))
          return "stubborn"
        end)
        rn.yield()
        assert.is_true(rn.cancel(result, "first"))
        assert.equal("goodbye", line:take())
        rn.sleep(30)
        assert.is_true(rn.cancel(result, "second"))
        assert.equal("stubborn", result:take())
        assert.same({ "second", "second" }, log)
        assert.equal(70, rn.now())
      end))
    end
  end)

  describe("of a go block with variables to be closed", function()
    since_5_4_3("lets it keep its name meanwhile, and in the report of another error", stage.sim(function()
      local function first()
        local _ <close> = closing(function()
          rn.sleep(10)
          error("another error", 0)
        end)
        rn.chan():take()
      end
      local first_at = stage.here(-7)
      local names = { [false] = first_at, named = "named" }
      for name, expected in pairs(names) do
        local result = rn.go(function(...)
          if name then rn.rename(name) end
          return select(1, first(...))
        end)
        if not name then result = rn.go(first) end
        rn.yield()
        assert.is_true(rn.cancel(result))
        rn.yield()
        rn.yield()
        assert.equal(expected, stage.entry(result).name)
        assert.equal("sleeping", stage.entry(result).state)
        rn.sleep(20)
        assert.same({ { err = "another error", name = expected } }, stage.heard())
      end
    end))

    since_5_4_3("lets them say goodbye, although that takes time", stage.sim(function()
      local line, reason = rn.chan(), {}
      local result = rn.go(function()
        local _ <close> = closing(function(_, err)
          assert(line:put "goodbye")
          assert(line:take() == "farewell")
          rn.sleep(10)
          assert(rawequal(err, reason))
        end)
        rn.chan():take()
      end)
      rn.yield()
      assert.is_true(rn.cancel(result, reason))
      assert.equal("goodbye", line:take())
      assert.is_false(result:closed())
      line:put "farewell"
      local _, err = result:take()
      assert.is_true(rawequal(reason, err))
      assert.equal(10, rn.now())
    end))

    since_5_4_3("is ended by a second one, which they get where they wait", stage.sim(function()
      for _, catches in ipairs { false, true } do
        local log = {}
        local result = rn.go(function()
          local _ <close> = closing(function(_, err) log[#log + 1] = "outer " .. err end)
          local _ <close> = closing(function()
            local ok, err = pcall(rn.sleep, 1000)
            log[#log + 1] = ("inner %s %s"):format(ok, err)
            if not catches then error(err, 0) end
          end)
          rn.chan():take()
        end)
        rn.yield()
        rn.cancel(result, "first")
        rn.yield()
        assert.is_true(rn.cancel(result, "second"))
        local _, err = result:take()
        assert.equal(catches and "first" or "second", err)
        assert.same({ "inner false second", "outer " .. err }, log)
        assert.is_false(rn.cancel(result, "third"))
      end
    end))

    since_5_4_3("that comes while they are closed after an error is raised there", stage.sim(function()
      local seen
      local result = rn.go(function()
        local _ <close> = closing(function() seen = select(2, pcall(rn.sleep, 1000)) end)
        error("oops", 0)
      end)
      rn.yield()
      assert.is_true(rn.cancel(result, "enough"))
      assert.same({ nil, "oops" }, { result:take() })
      assert.equal("enough", seen)
    end))
  end)

  describe("and errors", function()
    it("are not reported, because the cancel was intended", stage.sim(function()
      local result = rn.go(rn.sleep, FOREVER)
      rn.yield()
      rn.cancel(result, "enough")
      result:take()
      assert.same({}, stage.heard())
    end))

    since_5_4_3("are not reported where they close a channel: `local ch <close>`", stage.sim(function()
      local out = rn.chan():name "out"
      local go_block = rn.go(function()
        local _ <close> = out
        rn.sleep(FOREVER)
      end)
      local reader = rn.go(function()
        for _ in rn.pipe(out, rn.chan()) do end
      end)
      rn.yield()
      rn.cancel(go_block, "enough")
      reader:take()
      assert.same({}, stage.heard())
      assert.same({ nil, "enough" }, { out:take() })
    end))

    it("are not reported where the go block closes a channel with them", stage.sim(function()
      local out = rn.chan()
      local go_block = rn.go(function()
        local _, err = pcall(rn.sleep, FOREVER)
        out:close(err)
      end)
      local reader = rn.go(function() for _ in out do end end)
      rn.yield()
      rn.cancel(go_block, "enough")
      reader:take()
      assert.same({}, stage.heard())
    end))

    it("of others are reported where a cancelled go block closes a channel with them", stage.sim(function()
      local out = rn.chan()
      local go_block = rn.go(function()
        pcall(rn.sleep, FOREVER)
        out:close "disk full"
      end)
      local reader = rn.go(function() for _ in out do end end)
      rn.yield()
      rn.cancel(go_block, "enough")
      reader:take()
      assert.equal("disk full", stage.heard()[1].err)
    end))

    since_5_4_3("are reported when another one comes out", stage.sim(function()
      local result = rn.go(function()
        local _, err = pcall(rn.sleep, FOREVER)
        error("wrapped: " .. err, 0)
      end)
      local other = rn.go(function()
        local _ <close> = closing(function() error("while closing", 0) end)
        rn.sleep(FOREVER)
      end)
      rn.yield()
      rn.cancel(result, "enough")
      rn.cancel(other, "enough")
      rn.yield()
      local heard = stage.heard()
      assert.equal("wrapped: enough", heard[1].err)
      assert.equal("while closing", heard[2].err)
      assert.is_nil(heard[3])
      assert.same({ nil, "wrapped: enough" }, { result:take() })
      assert.same({ nil, "while closing" }, { other:take() })
    end))

    it("are not reported when it is raised again later", stage.sim(function()
      local result = rn.go(function()
        local _, err = pcall(rn.sleep, FOREVER)
        rn.sleep(100)
        error(err, 0)
      end)
      rn.yield()
      rn.cancel(result, {})
      result:take()
      assert.same({}, stage.heard())
    end))

    it("are not reported when the go block dies of another one before it gets the cancellation, or just has", function()
      for yields = 0, 1 do
        stage.sim(function()
          local ch = rn.chan()
          local answer = rn.go(function()
            ch:take()
            error("no such host", 0)
          end)
          rn.yield()
          ch:put "go on"
          for _ = 1, yields do rn.yield() end
          assert.equal(yields == 0, rn.cancel(answer))
          assert.same({ nil, "no such host" }, { answer:take() })
          assert.same({}, stage.heard())
          local lost = rn.go(error, "bad", 0)
          for _ = 1, yields do rn.yield() end
          rn.cancel(lost)
          rn.yield()
          assert.same({}, stage.heard())
        end)()
      end
    end)

    it("are not reported when the go block raises nil before it gets the cancellation", stage.sim(function()
      local result = rn.go(function() error(nil) end)
      assert.is_true(rn.cancel(result))
      rn.yield()
      assert.same({}, stage.heard())
    end))

    it("that have ended the go block long ago are not reported from then on", stage.sim(function()
      local result = rn.go(error, "bad", 0)
      rn.sleep(4000)
      assert.is_false(rn.cancel(result))
      local other = rn.go(error, "worse", 0)
      rn.sleep(6000)
      assert.is_false(rn.cancel(other))
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.equal("worse", heard[1].err)
    end))

    it("reach the taker of its result", stage.sim(function()
      local inner = rn.go(rn.sleep, FOREVER)
      local outer = rn.go(function()
        local value, err = inner:take()
        if err then error("inner: " .. err, 0) end
        return value
      end)
      rn.yield()
      rn.cancel(inner)
      assert.same({ nil, "inner: cancelled" }, { outer:take() })
    end))

    it("come out of rn.run when its go block is cancelled", function()
      local ok, err = pcall(rn.run, function()
        local me = core.internal.self "a spec"
        rn.go(function() rn.cancel(me, "stop it") end)
        rn.sleep(FOREVER)
      end)
      assert.is_false(ok)
      assert.equal("stop it", err)
    end)

    it("of arguments name the caller's line", function()
      local ch = rn.chan():name "jobs"
      raises("^cancel: a channel expected, got nothing; call it as rn.cancel", function() rn.cancel() end)
      raises("^cancel: a channel expected, got number", function() rn.cancel(42) end)
      raises("^cancel: chan: jobs is not the result channel of a go block", function() rn.cancel(ch) end)
      raises("^cancel: chan: #%d+ is not the result", function() rn.cancel(rn.timeout(1)) end)
      raises("^cancel: chan: #%d+ is not the result", function() rn.cancel(ch:done()) end)
    end)
  end)

  describe("from elsewhere", function()
    it("works outside any go block", function()
      local result = rn.go(rn.sleep, FOREVER)
      rn.yield()
      assert.is_true(rn.cancel(result))
      assert.same({ nil, "cancelled" }, { result:take() })
      assert.is_false(rn.cancel(result))
    end)

    it("works in a callback, a transducer and a buffer policy", stage.sim(function()
      local victims = {}
      for i = 1, 3 do victims[i] = rn.go(rn.sleep, FOREVER) end
      rn.yield()
      local ch = rn.chan()
      ch:take_async(function() rn.cancel(victims[1], 1) end)
      ch:put(1)
      rn.chan(1, rn.xf.map(function(v)
        rn.cancel(victims[2], 2)
        return v
      end)):put(1)
      rn.chan(stage.picky(function()
        rn.cancel(victims[3], 3)
        return true
      end)):put(1)
      for i = 1, 3 do assert.same({ nil, i }, { victims[i]:take() }) end
    end))

    it("works in a finalizer", stage.sim(function()
      local result = rn.go(rn.sleep, FOREVER)
      rn.yield()
      setmetatable({}, { __gc = function() rn.cancel(result, "collected") end })
      collectgarbage()
      collectgarbage()
      assert.same({ nil, "collected" }, { result:take() })
    end))

    it("does not undo what a buffer policy is about to complete", stage.sim(function()
      local taker, putter, got
      local list = {}
      local ch = rn.chan {
        full = function() return #list >= 1 end,
        count = function() return #list end,
        add = function(_, v) list[#list + 1] = v if putter then rn.cancel(putter, "putter") end end,
        remove = function()
          if taker then rn.cancel(taker, "taker") end
          return table.remove(list)
        end,
      }
      taker = rn.go(function()
        got = ch:take()
        rn.yield()
      end)
      rn.yield()
      ch:put "one"
      assert.same({ nil, "taker" }, { taker:take() })
      assert.equal("one", got)
      taker = nil
      ch:put "two"
      local done
      putter = rn.go(function()
        done = ch:put "three"
        rn.yield()
      end)
      rn.yield()
      assert.equal("two", ch:take())
      assert.same({ nil, "putter" }, { putter:take() })
      assert.is_true(done)
      assert.equal("three", ch:take())
    end))

    it("finds nothing in one whose coroutine is being closed", stage.sim(function()
      each_park(function(name, park)
        if name == "a yield" then return end
        local co, result, cancelled
        result = rn.go(function()
          co = coroutine.running()
          local _ <close> = closing(function() cancelled = rn.cancel(result) end)
          park(rn.chan())
        end)
        rn.yield()
        for _ = 1, 4 do collectgarbage() end
        coroutine.close(co)
        assert.is_false(cancelled, name)
        assert.matches("by other code", select(2, result:take()))
      end)
    end))

    it("drops a callback that waits, and leaves one alone that will be called", stage.sim(function()
      local ch, log = rn.chan(), {}
      local function note(...) log[#log + 1] = { ... } end
      local function callbacks()
        local list = {}
        for i, entry in ipairs(stage.entries()) do list[i] = entry.result end
        return list
      end
      for _, start in ipairs {
        function() ch:take_async(note) end, function() ch:put_async("dropped", note) end,
      } do
        for collect = 0, 1 do
          start()
          if collect == 1 then for _ = 1, 4 do collectgarbage() end end
          local result = callbacks()[1]
          assert.is_true(rn.cancel(result, "dropped"))
          assert.is_false(rn.cancel(result))
          assert.same({ nil, "dropped" }, { result:take() })
          assert.same({}, callbacks())
        end
      end
      assert_idle(ch)
      ch:take_async(note)
      local result = callbacks()[1]
      ch:put "called"
      assert.is_false(rn.cancel(result))
      rn.yield()
      assert.same({ { "called" } }, log)
    end))

    it("reaches the go blocks that a simulation has left parked, not those that it dropped", function()
      local results, log = {}, {}
      sim.run(function()
        results[1] = rn.go(function()
          local _ <close> = closing(function(_, err) log[#log + 1] = err end)
          rn.chan():take()
        end)
        results[2] = rn.go(rn.sleep, FOREVER)
        rn.yield()
        results[3] = rn.go(rn.yield)
      end)
      assert.is_true(rn.cancel(results[1], "late"))
      assert.is_false(rn.cancel(results[2], "late"))
      assert.is_false(rn.cancel(results[3], "late"))
      rn.run()
      assert.same({ "late" }, log)
    end)

    it("reaches go blocks outside a simulation from within", function()
      local sleeper, taker = rn.go(rn.sleep, FOREVER), rn.go(function() rn.chan():take() end)
      local ready = rn.go(function()
        rn.yield()
        rn.yield()
        error "never"
      end)
      rn.yield()
      sim.run(function()
        assert.is_true(rn.cancel(sleeper, "sleeper"))
        assert.is_true(rn.cancel(taker, "taker"))
        assert.is_true(rn.cancel(ready, "ready"))
      end)
      assert.same({ nil, "sleeper" }, { sleeper:take() })
      assert.same({ nil, "taker" }, { taker:take() })
      assert.same({ nil, "ready" }, { ready:take() })
    end)
  end)

  describe("and memory", function()
    since_5_4_3("collects a cancelled go block that waits on an unreachable channel", stage.sim(function()
      local alive = setmetatable({}, { __mode = "k" })
      for _ = 1, 100 do
        local result = rn.go(function()
          local mine = {}
          alive[mine] = true
          local _ <close> = closing(function(_, reason)
            alive[reason] = true
            rn.chan():take()
          end)
          rn.sleep(FOREVER)
          return mine
        end)
        rn.yield()
        rn.cancel(result, { result }) -- which holds the go block
        rn.yield()
      end
      for _ = 1, 6 do collectgarbage() end
      assert.is_nil(next(alive))
      assert.same({}, stage.others())
    end))

    it("stays flat over many #heavy", stage.sim(function()
      local function round(n)
        for _ = 1, n do
          local ch = rn.chan()
          local a, b = rn.go(ch.take, ch), rn.go(function() rn.alts { ch, rn.chan() } end)
          rn.yield()
          rn.cancel(a)
          rn.cancel(b, {})
          rn.yield()
        end
        for _ = 1, 4 do collectgarbage() end
        return collectgarbage "count"
      end
      round(1000)
      local before = round(5000)
      assert.is_true(round(20000) < before + 100)
    end))
  end)

  -- Go blocks that put, take and choose at random, each value once, are cancelled at any time; some catch that and go
  -- on, and others take their places. What a put has said to have put is taken once, and nothing else is.
  it("loses no value and doubles none, whenever it comes", function()
    local cancels, caught = 0, 0
    local function program(seed)
      local random = math.random
      math.randomseed(seed)
      local chs = {
        rn.chan(), rn.chan(), rn.chan(1), rn.chan(3), rn.chan(2, rn.xf.map(function(v) return v end)),
        rn.chan(rn.priority_buffer(2)),
      }
      local next_value, sent, got = 0, {}, {}
      local function value()
        next_value = next_value + 1
        sent[next_value] = false
        return next_value
      end
      local function note(v)
        if v ~= nil then got[v] = (got[v] or 0) + 1 end
      end
      local function any() return chs[random(#chs)] end
      local acts = {
        function()
          local v = value()
          sent[v] = any():put(v)
        end,
        function() note((any():take())) end,
        function()
          local v = value()
          local taken = rn.alts { { any(), v }, any(), any() }
          if taken == true then sent[v] = true else note(taken) end
        end,
        function() rn.sleep(random(3)) end,
        rn.yield,
      }
      local workers = {}
      local function work(i, left)
        for n = left - 1, 0, -1 do
          local ok, err = pcall(acts[random(#acts)])
          if not ok then
            assert(err == i, err)
            caught = caught + 1
            assert(not pcall(rn.yield))
            if random(3) > 1 then
              workers[i] = rn.go(work, i, n)
              return
            end
          end
        end
      end
      for i = 1, 8 do workers[i] = rn.go(work, i, 20) end
      for _ = 1, 60 do
        if random(3) == 1 then rn.sleep(1) end
        local i = random(#workers)
        if rn.cancel(workers[i], i) then cancels = cancels + 1 end
        if random(2) == 1 then rn.yield() end
      end
      -- Those that wait for ever.
      local alive = true
      while alive do
        alive = false
        for i, worker in ipairs(workers) do alive = rn.cancel(worker, i) or alive end
        rn.sleep(5)
      end
      for _, ch in ipairs(chs) do
        assert(ch:stats().puts_waiting == 0 and ch:stats().takes_waiting == 0)
        ch:close()
        for v in ch do note(v) end
      end
      for v = 1, next_value do
        local expected = sent[v] and 1 or nil
        if got[v] ~= expected then error(("value %d: put %s, taken %s times"):format(v, sent[v], got[v])) end
      end
    end
    sim.each_seed(200, program)
    assert.is_true(cancels > 5000 and caught > 2500, ("%d cancelled, %d caught"):format(cancels, caught))
  end)

  it("of a go block that is dying, which then dies of something else, is no error of its own", function()
    local me
    me = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function()
        assert(rn.cancel(me, "again"))
        coroutine.yield()
      end })
      error "first"
    end)
    rn.run()
    assert.matches("called coroutine.yield", (select(2, me:take())))
    assert.same({}, stage.heard())
  end)

  it("is raised again by a wait in a metamethod other than __close", function()
    local ch, errors = rn.chan(), {}
    local block = rn.go(function()
      local lazy = setmetatable({}, { __index = function() return ch:take() end })
      for i = 1, 2 do errors[i] = select(2, pcall(function() return lazy.x end)) end
    end)
    rn.step()
    rn.cancel(block, "stop")
    block:take()
    assert.same({ "stop", "stop" }, errors)
  end)
end)
