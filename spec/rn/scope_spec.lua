local rn = require "runnel"
local long = require "spec.support.long"
local sim = require "runnel.sim"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local since_5_4_3 = stage.is_5_4_3 and it or pending

local FOREVER = 1000000

local function closing(f) return setmetatable({}, { __close = f }) end

-- Sleeps; appends its name and the error to the log when it is cancelled, after some more time.
local function sleeper(log, name, cleanup)
  return function()
    local _ <close> = closing(function(_, err)
      if cleanup then rn.sleep(cleanup) end
      log[#log + 1] = name .. " " .. tostring(err)
    end)
    rn.sleep(FOREVER)
  end
end

-- Asserts that the scope has left nothing behind.
local function assert_none_left() assert.same({}, stage.others()) end

describe("scope", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("returns", function()
    it("what its body returns", stage.sim(function()
      assert.same({ n = 0 }, table.pack(rn.scope(function() end)))
      assert.same({ 1, nil, false, nil, n = 4 }, table.pack(rn.scope(function() return 1, nil, false, nil end)))
      local list = {}
      for i = 1, 5000 do list[i] = i end
      assert.equal(5000, select("#", rn.scope(function() return table.unpack(list) end)))
      assert_none_left()
    end))

    it("when all its go blocks have ended, and those that they have started in it", stage.sim(function()
      local log = {}
      local result = rn.scope(function(s)
        s:go(function()
          rn.sleep(20)
          s:go(function()
            rn.sleep(20)
            log[#log + 1] = "grandchild"
          end)
          log[#log + 1] = "child"
        end)
        log[#log + 1] = "body"
        return "result"
      end)
      assert.equal("result", result)
      assert.same({ "body", "child", "grandchild" }, log)
      assert.equal(40, rn.now())
      assert_none_left()
    end))

    it("results of its go blocks to their takers", stage.sim(function()
      local sum, result = rn.scope(function(s)
        local a, b = s:go(function(x, y, ...) return x + y + select("#", ...) end, 1, 2, nil, nil), s:go(function() end)
        rn.sleep(1)
        assert.is_true(a:closed())
        return a:take(), b
      end)
      assert.equal(5, sum)
      assert.is_nil(result:take())
    end))

    it("outside any go block, too", function()
      local log = {}
      assert.equal("result", rn.scope(function(s)
        s:go(function()
          rn.sleep(2)
          log[#log + 1] = "child"
        end)
        return "result"
      end))
      assert.same({ "child" }, log)
      local ok, err = pcall(rn.scope, function(s)
        s:go(error, "bad")
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "bad" }, { ok, err })
      assert_none_left()
    end)

    it("and does not block what runs until nothing is left", function()
      local start = rn.now()
      rn.scope(function() end, { timeout = FOREVER })
      rn.run()
      assert.is_true(rn.now() - start < 1000)
    end)
  end)

  describe("starts", function()
    it("go blocks under the name of their function", stage.sim(function()
      local body, child, names = stage.here(2), stage.here(3), {}
      local unborn
      rn.scope(function(s)
        local result = s:go(function() rn.yield() end)
        unborn = stage.entry(result).name
        rn.yield()
        for _, entry in ipairs(rn.ps()) do names[entry.name] = entry.state end
        local object = setmetatable({}, { __call = function() rn.yield() end })
        result = s:go(object)
        rn.yield()
        assert.matches("scope_spec.lua:%d+", stage.entry(result).name)
      end)
      assert.equal(child, unborn)
      assert.equal("ready", names[child])
      assert.equal("running", names[body])
    end))

    it("nothing more when it has ended", stage.sim(function()
      local kept
      rn.scope(function(s) kept = s end)
      raises("^scope:go: the scope has ended", function() kept:go(print) end)
      assert_none_left()
    end))

    it("one that was started when it was cancelled, and raises where that waits", stage.sim(function()
      local log = {}
      rn.scope(function(s)
        s:cancel "enough"
        s:go(function(resource)
          local _ <close> = closing(function() log[#log + 1] = resource .. " closed" end)
          log[#log + 1] = resource
          rn.sleep(FOREVER)
        end, "file")
      end)
      assert.same({ "file", "file closed" }, log)
      assert.equal(0, rn.now())
    end))
  end)

  describe("with an error", function()
    since_5_4_3("of a go block cancels the rest, waits for them, and raises it, once", stage.sim(function()
      local log, problem, seen = {}, { "problem" }, nil
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          local _ <close> = closing(function(_, e) seen = e end)
          rn.sleep(FOREVER)
        end)
        s:go(sleeper(log, "slow", 30))
        s:go(function()
          rn.sleep(10)
          error(problem)
        end)
        local _, reason = pcall(rn.sleep, FOREVER)
        log[#log + 1] = "body"
        assert.is_true(rawequal(problem, reason))
      end)
      assert.is_false(ok)
      assert.is_true(rawequal(problem, err))
      assert.is_true(rawequal(problem, seen))
      assert.same({ "body", "slow " .. tostring(problem) }, log)
      assert.equal(40, rn.now())
      assert.same({}, stage.heard())
      assert_none_left()
    end))

    since_5_4_3("of the body cancels its go blocks", stage.sim(function()
      local log = {}
      local ok, err = pcall(rn.scope, function(s)
        s:go(sleeper(log, "child", 5))
        rn.yield()
        error("body failed", 0)
      end)
      assert.same({ false, "body failed" }, { ok, err })
      assert.same({ "child body failed" }, log)
      assert.equal(5, rn.now())
      assert_none_left()
    end))

    it("of a go block is raised although the body has returned", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          rn.sleep(5)
          error("late", 0)
        end)
        return "result"
      end)
      assert.same({ false, "late" }, { ok, err })
    end))

    it("has it on the result channel, too", stage.sim(function()
      local result
      pcall(rn.scope, function(s)
        result = s:go(error, "bad")
        rn.sleep(FOREVER)
      end)
      assert.same({ nil, "bad" }, { result:take() })
    end))

    since_5_4_3("raises the first, which speaks for others", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        for i = 1, 3 do
          s:go(function()
            local _ <close> = closing(function() error("closing " .. i, 0) end)
            rn.sleep(10 * i)
          end)
        end
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "closing 1" }, { ok, err })
      assert.same({}, stage.heard())
    end))

    it("that is nil, or a closed coroutine, raises a message", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(error, nil)
        rn.sleep(FOREVER)
      end)
      assert.is_false(ok)
      assert.matches(stage.raised_nil or "a go block of the scope raised nil", err)
      ok, err = pcall(rn.scope, function() error(nil) end)
      assert.is_false(ok)
      assert.matches(stage.raised_nil or "raised nil", err)
      ok, err = pcall(rn.scope, function(s)
        local co
        s:go(function()
          co = coroutine.running()
          rn.sleep(FOREVER)
        end)
        rn.yield()
        coroutine.close(co)
        rn.sleep(FOREVER)
      end)
      assert.is_false(ok)
      assert.matches("had its coroutine closed", err)
      assert_none_left()
      assert.same({}, stage.heard())
    end))

    it("that is nil is told with others as a message, and is not reported besides", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        for _ = 1, 2 do
          s:go(function()
            pcall(rn.sleep, 5)
            error(nil)
          end)
        end
        rn.sleep(1)
        error("first", 0)
      end)
      assert.same({ false, "first" }, { ok, err })
      assert.same({}, stage.heard())
    end))

    it("of a go block that calls coroutine.yield is raised", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(coroutine.yield)
        rn.sleep(FOREVER)
      end)
      assert.is_false(ok)
      assert.matches("called coroutine.yield", err)
      assert_none_left()
    end))

    it("is none when a go block is cancelled alone", stage.sim(function()
      local result, value = rn.scope(function(s)
        local one, other = s:go(rn.sleep, FOREVER), s:go(function()
          rn.sleep(20)
          return "other"
        end)
        rn.yield()
        rn.cancel(one, "not you")
        return one, other:take()
      end)
      assert.equal("other", value)
      assert.same({ nil, "not you" }, { result:take() })
    end))

    it("is the reason when its body is cancelled alone; the others go on", stage.sim(function()
      local body, log = nil, {}
      local ok, err = pcall(rn.scope, function(s)
        body = rn.ps()
        for _, entry in ipairs(body) do
          if entry.state == "running" then body = entry.result end
        end
        s:go(function()
          rn.sleep(1)
          rn.cancel(body, "no body")
          rn.sleep(20)
          log[#log + 1] = "child"
        end)
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "no body" }, { ok, err })
      assert.same({ "child" }, log)
      assert.equal(21, rn.now())
    end))
  end)

  describe("with timers", function()
    it("calls their functions in go blocks of its own, for which it waits", stage.sim(function()
      local log = {}
      rn.scope(function(s)
        s:after(5, function(...)
          rn.sleep(10)
          log[1] = table.concat({ ... }, " ")
        end, "a", "b")
        rn.sleep(5)
        rn.yield()
      end)
      assert.same({ "a b" }, log)
      assert.equal(15, rn.now())
      assert_none_left()
    end))

    it("does not wait for one that is pending, and stops it at its end", stage.sim(function()
      local fired, timer = false, nil
      rn.scope(function(s)
        timer = s:after(50, function() fired = true end)
        rn.sleep(5)
      end)
      assert.equal(5, rn.now())
      assert.is_false(timer:stop())
      assert.same({}, rn.timers())
      timer:restart(1)
      rn.sleep(100)
      assert.is_false(fired)
    end))

    it("stops them when it is cancelled, and starts none after that", stage.sim(function()
      local fired, timers = 0, {}
      local function count() fired = fired + 1 end
      local ok, err = pcall(rn.scope, function(s)
        timers[1] = s:after(10, count)
        s:go(function()
          pcall(rn.sleep, FOREVER)
          timers[2] = s:after(10, count)
          pcall(rn.sleep, FOREVER)
        end)
        timers[3] = s:after(5, function() s:cancel "late" end)
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "late" }, { ok, err })
      assert.equal(5, rn.now())
      for _, timer in ipairs(timers) do
        assert.is_false(timer:stop())
        timer:restart(1)
      end
      rn.sleep(100)
      assert.equal(0, fired)
    end))

    it("stops them in the order in which they were made, so that a story is the same each time", function()
      local ok, text = pcall(sim.explore, function()
        rn.scope(function(s)
          for _ = 1, 20 do s:after(1000, print) end
          s:cancel()
          if sim.choose(2) == 2 then error "fails" end
        end)
      end)
      assert.is_false(ok)
      local last = 0
      for number in text:gmatch "stops timer (%d+)" do
        assert.equal(last + 1, tonumber(number))
        last = last + 1
      end
      assert.equal(20, last, text)
      assert.not_matches("may not replay", text)
    end)

    it("fails with an error of such a function, as with that of s:go", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:after(5, error, "bad", 0)
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "bad" }, { ok, err })
    end))

    it("keeps no timer that was stopped, and that nobody holds", stage.sim(function()
      rn.scope(function(s)
        local weak = setmetatable({}, { __mode = "k" })
        for _ = 1, 10 do
          local timer = s:after(1000, print)
          weak[timer] = true
          timer:stop()
        end
        for _ = 1, 3 do collectgarbage() end
        assert.is_nil(next(weak))
      end)
    end))

    it("refuses wrong arguments at the caller's line", stage.sim(function()
      local scope
      rn.scope(function(s)
        scope = s
        raises("^scope:after: a number of milliseconds, at least 0, expected, got %-1", function()
          s:after(-1, print)
        end)
        raises("^scope:after: a number of milliseconds", function() s:after(print, 1) end)
        raises("^scope:after: a function expected", function() s:after(1) end)
        raises("s:after", function() s.after(1, print) end)
      end)
      raises("^scope:after: the scope has ended", function() scope:after(1, print) end)
    end))
  end)

  describe("with a timeout", function()
    since_5_4_3("cancels all and raises", stage.sim(function()
      local log = {}
      local ok, err = pcall(rn.scope, function(s)
        s:go(sleeper(log, "child", 7))
        rn.sleep(FOREVER)
      end, { timeout = 12.5 })
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
      assert.equal("timeout", err.code)
      assert.equal("scope: its body and 1 go block had not ended after 12.5 ms", tostring(err))
      assert.equal(err.message, tostring(err))
      assert.same({ "child " .. err }, log)
      assert.equal(19.5, rn.now())
      assert_none_left()
    end))

    it("raises although the body has returned, and whatever the others do", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          pcall(rn.sleep, FOREVER)
          return "fine"
        end)
        return "result"
      end, { timeout = 10 })
      assert.is_false(ok)
      assert.equal("scope: 1 go block had not ended after 10 ms", tostring(err))
    end))

    it("says what has not ended, be it the body alone", stage.sim(function()
      local ok, err = pcall(rn.scope, function() rn.sleep(FOREVER) end, { timeout = 10 })
      assert.is_false(ok)
      assert.equal("scope: its body had not ended after 10 ms", tostring(err))
      ok, err = pcall(rn.scope, function(s)
        for _ = 1, 3 do s:go(rn.sleep, FOREVER) end
      end, { timeout = 10 })
      assert.is_false(ok)
      assert.equal("scope: 3 go blocks had not ended after 10 ms", tostring(err))
    end))

    it("raises an error that rn.is_timeout recognizes", stage.sim(function()
      for _, other in ipairs { "timeout", { code = "timeout" }, false, rn.timeout(1) } do
        assert.is_false(rn.is_timeout(other))
      end
      assert.is_false(rn.is_timeout(nil))
      local ok, err = pcall(rn.scope, function() error("scope: after 10 ms", 0) end, { timeout = 10 })
      assert.is_false(ok)
      assert.is_false(rn.is_timeout(err))
      -- The error of an outer timeout, seen from within.
      ok, err = pcall(rn.scope, function()
        local _, inner = pcall(rn.scope, function() rn.sleep(FOREVER) end)
        assert.is_true(rn.is_timeout(inner))
        error(inner, 0)
      end, { timeout = 10 })
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
    end))

    since_5_4_3("ends variables that wait while they are closed", stage.sim(function()
      local seen
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          local _ <close> = closing(function() seen = select(2, pcall(rn.sleep, FOREVER)) end)
          rn.sleep(1)
          error("oops", 0)
        end)
        rn.sleep(FOREVER)
      end, { timeout = 10 })
      assert.is_false(ok)
      assert.matches("after 10 ms", err)
      assert.equal(err, seen)
      assert.equal(10, rn.now())
      assert.same({}, stage.heard())
      assert_none_left()
    end))

    it("is forgotten when all have ended before", stage.sim(function()
      for _ = 1, 3 do
        assert.equal("result", rn.scope(function(s)
          s:go(rn.sleep, 10)
          return "result"
        end, { timeout = 11 }))
        assert_none_left()
      end
      assert.equal(30, rn.now())
    end))

    it("needs no go block of its own", stage.sim(function()
      rn.go(rn.scope, function() rn.sleep(10) end, { timeout = 20 })
      rn.sleep(1)
      assert.equal(2, #stage.entries()) -- the caller and the body
      rn.sleep(10)
      assert_none_left()
    end))

    since_5_4_3("goes on when its caller was cancelled, and cancels again those that clean up", stage.sim(function()
      local seen = {}
      local result = rn.go(rn.scope, function()
        local _ <close> = closing(function(_, err)
          seen[1] = tostring(err) .. " at " .. rn.now()
          seen[2] = tostring(select(2, pcall(rn.sleep, FOREVER))) .. " at " .. rn.now()
        end)
        rn.sleep(FOREVER)
      end, { timeout = 20 })
      rn.sleep(5)
      rn.cancel(result, "enough")
      assert.same({ nil, "enough" }, { result:take() })
      assert.same({ "enough at 5", "scope: its body had not ended after 20 ms at 20" }, seen)
      assert_none_left()
    end))

    it("raises outside any go block, too, where the scope that ends before wakes the caller at once", function()
      local start = rn.now()
      assert.equal("result", rn.scope(function(s)
        s:go(rn.sleep, 1)
        return "result"
      end, { timeout = 20000 }))
      assert.is_true(rn.now() - start < 15000)
      assert.matches("its body had not ended after 1 ms", select(2, pcall(rn.scope, function() rn.sleep(FOREVER) end, {
        timeout = 1,
      })))
      assert_none_left()
    end)

    it("of 0 lets every go block begin", stage.sim(function()
      local begun = 0
      local ok = pcall(rn.scope, function(s)
        s:go(function()
          begun = begun + 1
          rn.sleep(FOREVER)
        end)
        begun = begun + 1
        rn.sleep(FOREVER)
      end, { timeout = 0 })
      assert.is_false(ok)
      assert.equal(2, begun)
      assert.equal("at once", rn.scope(function() return "at once" end, { timeout = 0 }))
    end))

    since_5_4_3("does not come out when an error was first", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          local _ <close> = closing(function() rn.sleep(100) end) -- is cancelled by the timeout, too
          rn.sleep(FOREVER)
        end)
        rn.sleep(5)
        error("first", 0)
      end, { timeout = 20 })
      assert.same({ false, "first" }, { ok, err })
      assert.equal(20, rn.now())
      assert.same({}, stage.heard())
    end))

    since_5_4_3("cancels once when the time of an outer scope is up at the same moment", stage.sim(function()
      local caught, went_on
      local ok = pcall(rn.scope, function()
        rn.scope(function()
          local _ <close> = closing(function(_, err)
            caught = err ~= nil
            for _ = 1, 100 do rn.yield() end
            went_on = true
          end)
          rn.sleep(FOREVER)
        end, { timeout = 20 })
      end, { timeout = 20 })
      assert.same({ false, true, true }, { ok, caught, went_on })
    end))
  end)

  describe("cancelled by itself", function()
    it("returns what the body returns: the first answer wins", stage.sim(function()
      local log = {}
      local answer = rn.scope(function(s)
        local answers = rn.chan()
        for i = 1, 3 do
          s:go(function()
            local _ <close> = closing(function() log[#log + 1] = i end)
            rn.sleep(40 - 10 * i)
            answers:put(i)
          end)
        end
        local first = answers:take()
        assert.is_true(s:cancel())
        return first
      end)
      assert.equal(3, answer)
      assert.same({ 3, 1, 2 }, log)
      assert.equal(10, rn.now())
      assert_none_left()
    end))

    it("raises the reason where that kept the body from returning", stage.sim(function()
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          rn.sleep(5)
          s:cancel "enough"
        end)
        rn.sleep(FOREVER)
      end)
      assert.same({ false, "enough" }, { ok, err })
      ok, err = pcall(rn.scope, function(s)
        s:cancel()
        rn.yield()
      end)
      assert.same({ false, "cancelled" }, { ok, err })
      assert.same({}, stage.heard())
    end))

    since_5_4_3("raises an error that comes up thereby", stage.sim(function()
      local cleaned
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          local _ <close> = closing(function() error("while closing", 0) end)
          rn.sleep(FOREVER)
        end)
        s:go(function()
          local _ <close> = closing(function()
            rn.sleep(10) -- is not disturbed by the error of the other
            cleaned = true
          end)
          rn.sleep(FOREVER)
        end)
        rn.yield()
        s:cancel()
        return "result"
      end)
      assert.same({ false, "while closing" }, { ok, err })
      assert.is_true(cleaned)
      assert.same({}, stage.heard())
    end))

    since_5_4_3("again reaches those that clean up", stage.sim(function()
      local seen = {}
      rn.scope(function(s)
        s:go(function()
          local _ <close> = closing(function(_, first)
            local _, second = pcall(rn.sleep, FOREVER)
            seen = { first, second }
          end)
          rn.sleep(FOREVER)
        end)
        rn.go(function()
          for i = 1, 2 do
            rn.sleep(10)
            s:cancel(i)
          end
        end)
      end)
      assert.same({ 1, 2 }, seen)
    end))

    since_5_4_3("twice returns the body's results although go blocks have scopes of their own", stage.sim(function()
      local result = rn.scope(function(s)
        s:go(rn.scope, sleeper({}, "inner", 30))
        rn.go(function()
          rn.sleep(1)
          s:cancel "first"
          rn.sleep(4)
          s:cancel "second"
        end)
        return "result"
      end)
      assert.equal("result", result)
    end))

    it("says whether there was something to cancel", stage.sim(function()
      local kept
      rn.scope(function(s)
        kept = s
        assert.is_true(s:cancel())
        assert.is_true(s:cancel())
      end)
      assert.is_false(kept:cancel())
    end))
  end)

  describe("cancelled from outside", function()
    since_5_4_3("cancels its go blocks, waits for them, and raises the reason", stage.sim(function()
      local log, reason, after = {}, {}, nil
      local result = rn.go(function()
        local _, err = pcall(rn.scope, function(s)
          s:go(sleeper(log, "child", 30))
          sleeper(log, "body", 10)()
        end)
        after = rn.now()
        error(err, 0)
      end)
      rn.sleep(5)
      rn.cancel(result, reason)
      assert.is_true(rawequal(reason, select(2, result:take())))
      assert.same({ "body " .. tostring(reason), "child " .. tostring(reason) }, log)
      assert.equal(35, after)
      assert_none_left()
    end))

    it("raises the reason although the body has returned", stage.sim(function()
      local result = rn.go(rn.scope, function(s)
        s:go(rn.sleep, FOREVER)
        return "result"
      end)
      rn.sleep(1)
      rn.cancel(result, "enough")
      assert.same({ nil, "enough" }, { result:take() })
      assert_none_left()
    end))

    it("goes inward through all that are nested, and out again", stage.sim(function()
      local log = {}
      local function nest(n)
        return rn.scope(function(s)
          local _ <close> = closing(function() log[#log + 1] = "body " .. n end)
          s:go(function()
            local _ <close> = closing(function() log[#log + 1] = "child " .. n end)
            if n == 3 then rn.sleep(FOREVER) end
            local ok, err = pcall(nest, n + 1)
            log[#log + 1] = "inner " .. n + 1
            error(err, ok and 1 or 0)
          end)
          rn.sleep(FOREVER)
        end)
      end
      local result = rn.go(nest, 1)
      rn.sleep(1)
      rn.cancel(result, "enough")
      assert.same({ nil, "enough" }, { result:take() })
      assert.same({ "body 1", "body 2", "body 3", "child 3", "inner 3", "child 2", "inner 2", "child 1" }, log)
      assert_none_left()
    end))

    since_5_4_3("again passes that on", stage.sim(function()
      local seen = {}
      local result = rn.go(rn.scope, function()
        local _ <close> = closing(function(_, first)
          seen[1] = first
          for i = 2, 3 do seen[i] = select(2, pcall(rn.sleep, FOREVER)) end
        end)
        rn.sleep(FOREVER)
      end)
      for i = 1, 3 do
        rn.sleep(1)
        assert.is_true(rn.cancel(result, i))
      end
      assert.same({ nil, 3 }, { result:take() })
      assert.same({ 1, 2, 3 }, seen)
    end))

    since_5_4_3("again raises the last reason, and none is reported as an error", stage.sim(function()
      local child
      local function scope(is_nested)
        return rn.scope(function(s)
          if is_nested then return scope(false) end
          child = s:go(sleeper({}, "child", 30))
        end)
      end
      for _, is_nested in ipairs { false, true } do
        for _, after in ipairs { 0, 5, false } do
          for _ = 1, after and 1 or 20 do -- the order in which go blocks run differs
            local result = rn.go(scope, is_nested)
            local done, last = result:done(), "first"
            rn.sleep(1)
            rn.cancel(result, "first")
            if after then rn.sleep(after) else child:done():take() end -- its scope may have got no turn since
            if not result:closed() then
              rn.cancel(result, "second")
              last = "second"
            end
            done:take()
            rn.sleep(6000) -- nobody takes the error meanwhile
            assert.same({}, stage.heard())
            assert.same({ nil, last }, { result:take() })
          end
        end
      end
      assert_none_left()
    end))

    it("does not begin when that was before", stage.sim(function()
      local begun, result = false, nil
      result = rn.go(function()
        rn.cancel(result, "enough")
        rn.scope(function() begun = true end)
      end)
      assert.same({ nil, "enough" }, { result:take() })
      assert.is_false(begun)
    end))

    it("cancels its go blocks when the go block that waits for it is killed", stage.sim(function()
      local log, co = {}, nil
      for _, meddle in ipairs { coroutine.close, coroutine.resume } do
        rn.go(function()
          co = coroutine.running()
          rn.scope(function(s)
            s:go(sleeper(log, "child"))
            rn.sleep(FOREVER)
          end)
        end)
        rn.sleep(1)
        meddle(co)
        rn.sleep(1)
        assert_none_left()
      end
      assert.equal(2, #log)
      for i = 1, 2 do assert.matches("child the go block that waited for the scope has ended", log[i]) end
      assert.matches("by other code", stage.heard()[1].err)
    end))
  end)

  describe("outside any go block", function()
    since_5_4_3("cancels its go blocks when they wait for ever, and raises that", function()
      local log, closed = {}, nil
      local ok, err = pcall(rn.scope, function(s)
        s:go(function()
          local _ <close> = closing(function(_, e) closed = e end)
          rn.chan():name("jobs"):take()
        end)
        s:go(function()
          local _ <close> = closing(function()
            rn.sleep(2)
            log[#log + 1] = "cleaned up"
          end)
          rn.chan():take()
        end)
      end)
      assert.is_false(ok)
      assert.matches("^deadlock: a scope would wait for ever.*take on chan: jobs", err)
      assert.equal(err, closed)
      assert.same({ "cleaned up" }, log)
      assert_none_left()
    end)

    since_5_4_3("gives up when they do so again", function()
      local result, last
      local ok, err = pcall(rn.scope, function(s)
        result = s:go(function()
          local ch = rn.chan()
          local _ <close> = closing(function()
            repeat last = select(2, pcall(ch.take, ch)) until last == "really"
          end)
          ch:take()
        end)
      end)
      assert.is_false(ok)
      assert.matches("^deadlock", err)
      rn.yield() -- it learns of the second time, too
      rn.cancel(result, "really")
      assert.matches("^deadlock", select(2, result:take()))
      assert.equal("really", last)
    end)
  end)

  describe("takes", function()
    it("arguments that make sense, and says what is wrong at the caller's line", stage.sim(function()
      raises("^scope: a function expected, got nothing", function() rn.scope() end)
      raises("^scope: a function expected, got a table", function() rn.scope({}) end)
      raises("^scope: a table of options expected, got a number", function() rn.scope(print, 10) end)
      raises('^scope: unknown option "time"', function() rn.scope(print, { time = 1 }) end)
      for _, bad in ipairs { -1, 0 / 0, math.huge, "10", true } do
        raises("^scope: timeout: a number of milliseconds", function() rn.scope(print, { timeout = bad }) end)
      end
      rn.scope(function(s)
        raises("^scope:go: a function expected, got nothing", function() s:go() end)
        raises("^s.go: call it with a colon: s:go", function() s.go(print) end)
        raises("^s.cancel: call it with a colon: s:cancel", function() s.cancel() end)
      end, {})
      assert_none_left()
    end))

    it("a callable object for its body", stage.sim(function()
      local object = setmetatable({}, { __call = function(_, s) return s:go(function() return 5 end):take() end })
      assert.equal(5, rn.scope(object))
    end))

    it("no place where nothing can wait, and starts nothing there", stage.sim(function()
      local begun, log = false, {}
      local function scope() rn.scope(function() begun = true end) end
      local function attempt()
        local message = raises("^scope would have to wait, which is impossible", scope)
        log[#log + 1] = message
      end
      coroutine.wrap(attempt)()
      string.gsub("x", "x", attempt)
      local ch = rn.chan(1)
      ch:put(1)
      ch:take_async(attempt)
      rn.chan(1, rn.xf.map(function(v)
        attempt()
        return v
      end)):put(1)
      assert.equal(4, #log)
      rn.sleep(1)
      assert.is_false(begun)
      assert_none_left()
    end))
  end)

  describe("and memory", function()
    it("stay apart: any number of short go blocks in turn #heavy", stage.sim(function()
      local function in_use()
        for _ = 1, 4 do collectgarbage() end
        return collectgarbage "count"
      end
      rn.scope(function(s)
        local function round(n)
          for i = 1, n do assert(s:go(function() return i end):take() == i) end
          return in_use()
        end
        local before = round(10000)
        assert.is_true(round(long.times(90000, 990000)) < before + 200)
      end)
    end))

    it("stay apart: many scopes with a timeout #heavy", stage.sim(function()
      local function round(n)
        for _ = 1, n do rn.scope(function(s) s:go(rn.yield) end, { timeout = FOREVER }) end
        for _ = 1, 4 do collectgarbage() end
        return collectgarbage "count"
      end
      local before = round(2000)
      assert.is_true(round(20000) < before + 200)
    end))

    it("are freed when nothing can reach the channels of its go blocks", stage.sim(function()
      local alive = setmetatable({}, { __mode = "k" })
      for _ = 1, 50 do
        rn.go(rn.scope, function(s)
          local mine = {}
          alive[mine] = true
          s:go(function()
            local too = {}
            alive[too] = true
            rn.chan():take()
            return too
          end)
          rn.chan():take()
          return mine
        end)
      end
      rn.sleep(1)
      for _ = 1, 8 do collectgarbage() end
      assert.is_nil(next(alive))
      assert_none_left()
    end))
  end)

  it("waits for any number without looking through them each time #heavy", stage.sim(function()
    local function seconds(n)
      collectgarbage()
      local start = os.clock()
      rn.scope(function(s)
        for _ = 1, n do s:go(rn.sleep, 1) end
      end)
      pcall(rn.scope, function(s)
        for _ = 1, n do s:go(rn.sleep, FOREVER) end
        rn.yield()
        error("all", 0)
      end)
      return os.clock() - start
    end
    seconds(1000)
    local ratio
    for _ = 1, 3 do -- other programs make memory slower
      ratio = seconds(10000) / seconds(1000)
      if ratio < 40 then return end -- it would be 100
    end
    error("ten times as many take " .. ratio .. " times as long", 0)
  end))

  -- Trees of scopes, in which go blocks end, raise, are cancelled, or catch that and go on for a while, and scopes have
  -- timeouts: at random. What must hold of each: when it is over none of its go blocks is left, and it has returned its
  -- body's result only where none of them has raised.
  it("keeps its promises in random trees", function()
    local returned, raised = 0, 0
    local function program(seed)
      math.randomseed(seed)
      local random = math.random
      local living, errors = {}, {}
      local scope_of

      local function fail(id)
        local err = "error of " .. id
        errors[err] = true
        error(err, 0)
      end

      -- What a go block does: `alive` is of its scope.
      local function act(id, alive, depth)
        alive[id] = true
        local _ <close> = closing(function() alive[id] = nil end)
        for _ = 1, random(3) do
          local kind = random(10)
          if kind == 1 then
            fail(id)
          elseif kind == 2 then
            local ok, err = pcall(rn.sleep, random(20))
            if not ok then
              rn.sleep(random(5)) -- cleans up
              error(err, 0)
            end
          elseif kind == 3 and depth < 3 then
            scope_of(id .. ".s", depth + 1)
          elseif kind == 4 then
            pcall(rn.sleep, random(20)) -- and goes on
          elseif kind == 5 then
            rn.yield()
          else
            rn.sleep(random(10))
          end
        end
      end

      function scope_of(id, depth)
        local alive, raised_in, results, s_of = {}, false, {}, nil
        local function child(name)
          local ok, err = pcall(act, name, alive, depth)
          if not ok then
            if errors[err] then raised_in = true end
            error(err, 0)
          end
          return name
        end
        local opts = random(3) == 1 and { timeout = random(15) } or nil
        local ok, err = pcall(rn.scope, function(s)
          s_of = s
          for i = 1, random(4) do results[i] = s:go(child, id .. "." .. i) end
          if random(2) == 1 then child(id .. ".body") end
          if random(8) == 1 then rn.cancel(results[1], "alone") end
          if random(8) == 1 then s:cancel("by itself " .. id) end
          return id
        end, opts)
        assert(next(alive) == nil, "a go block has outlived its scope")
        for _, result in ipairs(results) do assert(result:closed(), "a go block has not ended") end
        assert(not s_of or not pcall(s_of.go, s_of, print))
        if ok then
          assert(err == id)
          assert(not raised_in, "an error was lost")
          returned = returned + 1
        else
          raised = raised + 1
          error(err, 0)
        end
        return err
      end

      for i = 1, 4 do
        living[i] = rn.go(function() pcall(scope_of, "scope" .. i, 1) end)
      end
      for _ = 1, 3 do
        rn.sleep(random(10))
        rn.cancel(living[random(4)], "from outside")
      end
      for i = 1, 4 do living[i]:take() end
      rn.sleep(1)
      assert.same({}, stage.others())
    end
    rn.on_error(function() end) -- errors that come after the one that a scope raises
    local seeds = long.times(100, 3000)
    sim.each_seed(seeds, program)
    assert.is_true(returned > seeds and raised > seeds, ("%d returned, %d raised"):format(returned, raised))
  end)
end)
