local finalizers = require "spec.support.finalizers"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local NOTHING_AT <const> = stage.here(1)
local function nothing() end

describe("after", function()
  before_each(stage.open)
  after_each(stage.close)

  it("calls a function in a go block of its own, with the arguments, after the time", stage.sim(function()
    local got, caller = {}, coroutine.running()
    rn.after(5, function(...)
      assert(coroutine.running() ~= caller)
      rn.sleep(2)
      got[#got + 1] = table.pack(rn.now(), ...)
    end, "a", nil, 3, nil)
    rn.sleep(6)
    assert.same({}, got)
    rn.sleep(4)
    assert.same({ { 7, "a", nil, 3, nil, n = 5 } }, got)
  end))

  it("accepts all that rn.go does: a C function, an object that can be called, many arguments", stage.sim(function()
    local got = rn.chan(3)
    rn.after(1, got.put, got, "method")
    rn.after(2, setmetatable({}, { __call = function(_, v) got:put(v) end }), "object")
    local many = {}
    for i = 1, 1000 do many[i] = i end
    rn.after(3, function(...) got:put(select("#", ...)) end, table.unpack(many))
    assert.same({ "method", "object", 1000 }, { got:take(), got:take(), got:take() })
  end))

  it("calls in the order of the deadlines, then of the starts, with sleeps among them", stage.sim(function()
    local order = {}
    local function note(name) order[#order + 1] = name end
    rn.after(20, note, "d")
    local last = rn.after(10, note, "c")
    rn.after(10, note, "a")
    rn.go(function()
      rn.sleep(10)
      note "sleep"
    end)
    rn.yield()
    rn.after(10, note, "b")
    last:restart(10)
    rn.sleep(30)
    assert.same({ "a", "sleep", "b", "c", "d" }, order)
  end))

  it("of 0 ms calls, too, but not before the caller waits", stage.sim(function()
    local called = false
    rn.after(0, function() called = true end)
    assert.is_false(called)
    rn.yield()
    rn.yield()
    assert.is_true(called)
    assert.equal(0, rn.now())
  end))

  it("never calls early, by a real clock", function()
    local early, calls = {}, rn.chan(100)
    for i = 1, 100 do
      local ms, began = i % 7 / 3, rn.now()
      rn.after(ms, function()
        if rn.now() - began < ms then early[#early + 1] = rn.now() - began end
        calls:put(true)
      end)
    end
    for _ = 1, 100 do calls:take() end
    assert.same({}, early)
  end)

  it("fires although nobody holds the timer", stage.sim(function()
    local called = false
    rn.after(5, function() called = true end)
    for _ = 1, 4 do collectgarbage() end
    rn.sleep(5)
    rn.yield()
    assert.is_true(called)
  end))

  it("keeps rn.run running until it has called", function()
    local called = 0
    rn.after(1, function()
      called = called + 1
      rn.after(1, function() called = called + 1 end)
    end)
    rn.run()
    assert.equal(2, called)
  end)

  it("is no deadlock while it is pending, and one after that", stage.sim(function()
    local ch = rn.chan()
    rn.after(5, ch.put, ch, "value")
    assert.equal("value", ch:take())
    rn.after(5, nothing)
    local ok, err = pcall(ch.take, ch)
    assert.is_false(ok)
    assert.matches("deadlock", err)
    assert.equal(10, rn.now())
  end))

  it("tells rn.step when it is due", function()
    local timer = rn.after(60000, nothing)
    local left = rn.step()
    assert.is_true(left > 50000 and left <= 60001)
    timer:stop()
    assert.is_nil(rn.step())
  end)

  it("reports an error of the function as that of a go block", function()
    rn.after(0, function() error({ code = 7 }) end)
    rn.run()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal(7, heard[1].err.code)
    assert.equal(stage.here(-5), heard[1].name)
    assert.matches("stack traceback", heard[1].trace)
  end)

  describe("stop", function()
    it("tells whether the timer was pending, and then it does not call", stage.sim(function()
      local calls = 0
      local function count() calls = calls + 1 end
      local timer = rn.after(5, count)
      assert.is_true(timer:stop())
      assert.is_false(timer:stop())
      rn.sleep(10)
      assert.equal(0, calls)
      timer = rn.after(5, count)
      rn.sleep(5)
      assert.is_false(timer:stop())
      rn.yield()
      assert.equal(1, calls)
    end))

    it("is false in the function, and does not end it", stage.sim(function()
      local timer, got
      timer = rn.after(5, function()
        got = timer:stop()
        rn.sleep(1)
        got = { got }
      end)
      rn.sleep(10)
      assert.same({ false }, got)
    end))

    it("is what a <close> variable does at the end of its block", stage.sim(function()
      local calls = 0
      do
        local timer <close> = rn.after(5, function() calls = calls + 1 end) -- luacheck: no unused
        rn.sleep(1)
      end
      rn.sleep(10)
      assert.equal(0, calls)
    end))
  end)

  describe("restart", function()
    it("puts a pending timer off, or forward", stage.sim(function()
      local at = {}
      local function note() at[#at + 1] = rn.now() end
      local off, forward = rn.after(5, note), rn.after(50, note)
      rn.sleep(3)
      assert.is_true(off:restart(5))
      assert.is_true(forward:restart(1))
      rn.sleep(100)
      assert.same({ 4, 8 }, at)
    end))

    it("starts a timer again that has called, or was stopped", stage.sim(function()
      local at = {}
      local timer = rn.after(1, function(name) at[#at + 1] = name .. rn.now() end, "at ")
      rn.sleep(2)
      assert.is_false(timer:restart(3))
      rn.sleep(5)
      timer:restart(1)
      timer:stop()
      assert.is_false(timer:restart(2))
      rn.sleep(5)
      assert.same({ "at 1", "at 5", "at 9" }, at)
    end))

    it("in the function makes a periodic timer", stage.sim(function()
      local at, timer = {}, nil
      timer = rn.after(10, function()
        at[#at + 1] = rn.now()
        if #at < 4 then timer:restart(10) end
      end)
      rn.sleep(100)
      assert.same({ 10, 20, 30, 40 }, at)
    end))
  end)

  it("does what a list of deadlines says, in random programs #ci", function()
    sim.each_seed(30, function(seed)
      local random = math.random
      local timers, called, expected = {}, {}, {} -- expected: number of a timer -> { due, order }
      local order = 0
      local function set(i, ms)
        order = order + 1
        expected[i] = { due = rn.now() + ms, order = order }
      end
      local function check_called()
        local due = {}
        for i, entry in pairs(expected) do
          if entry.due <= rn.now() then due[#due + 1] = { i, entry.due, entry.order } end
        end
        table.sort(due, function(a, b) return a[2] < b[2] or a[2] == b[2] and a[3] < b[3] end)
        local list = {}
        for k, entry in ipairs(due) do
          list[k] = entry[1]
          expected[entry[1]] = nil
        end
        if seed % 2 == 1 then -- in turn: each_seed shuffles go blocks
          table.sort(list)
          table.sort(called)
        end
        table.sort(list)
        table.sort(called)
        assert.same(list, called)
        called = {}
      end
      for _ = 1, 300 do
        local what, ms = random(4), random(0, 20) // 2
        local i = random(math.max(1, #timers))
        if what == 1 or #timers == 0 then
          i = #timers + 1
          timers[i] = rn.after(ms, function() called[#called + 1] = i end)
          set(i, ms)
        elseif what == 2 then
          assert.equal(expected[i] ~= nil, timers[i]:stop())
          expected[i] = nil
        elseif what == 3 then
          assert.equal(expected[i] ~= nil, timers[i]:restart(ms))
          set(i, ms)
        else
          rn.sleep(random(3))
          for _ = 1, 20 do rn.yield() end
          check_called()
        end
        local pending = {}
        for k, entry in pairs(expected) do
          if entry.due > rn.now() then pending[#pending + 1] = k end
        end
        local listed = rn.timers()
        if what == 4 then assert.equal(#pending, #listed) end
        for k = 2, #listed do assert(listed[k].left >= listed[k - 1].left) end
      end
      rn.sleep(30)
      for _ = 1, 50 do rn.yield() end
      check_called()
    end)
  end)

  describe("memory", function()
    it("of a pending timer is at most 130 bytes", function()
      local timers, n = {}, 30000
      for i = 1, n do timers[i] = false end
      rn.after(0, nothing):stop()
      collectgarbage()
      collectgarbage()
      local before = collectgarbage "count"
      for i = 1, n do timers[i] = rn.after(10000 + i % 100, nothing) end
      collectgarbage()
      collectgarbage()
      local each = (collectgarbage "count" - before) * 1024 / n
      for i = 1, n do timers[i]:stop() end
      assert(each <= 130, each .. " bytes")
    end)

    it("of a timer that was stopped, or has called, is free for the collector, with its arguments", function()
      local weak = setmetatable({}, { __mode = "k" })
      for i = 1, 20 do
        local argument = {}
        local timer = rn.after(i % 2 * 10000, nothing, argument)
        weak[argument], weak[timer] = true, true
        if i % 2 == 1 then timer:stop() end
      end
      rn.run()
      for _ = 1, 3 do collectgarbage() end
      assert.is_nil(next(weak))
    end)

    it("stays the same when many are started and stopped, again and again", function()
      local function round()
        local timers = {}
        for i = 1, 2000 do timers[i] = rn.after(10000 + i, nothing) end
        for i = 1, 2000 do timers[i]:stop() end
      end
      round()
      collectgarbage()
      collectgarbage()
      local before = collectgarbage "count"
      for _ = 1, 20 do round() end
      collectgarbage()
      collectgarbage()
      assert(collectgarbage "count" - before < 10)
    end)
  end)

  it("may be used by finalizers that run while it starts", function()
    local timers, made = {}, 0
    finalizers.among(function()
      if #timers < 100 then timers[#timers + 1] = rn.after(10000, nothing) end
      local timer = table.remove(timers, 1)
      if timer then
        timer:restart(5000)
        timer:stop()
      end
    end, function()
      for _ = 1, 500 do
        local timer = rn.after(1000, nothing, {})
        made = made + 1
        timer:restart(2000)
        timer:stop()
      end
    end)
    assert.equal(500, made)
    for _, timer in ipairs(timers) do timer:stop() end
    assert.same({}, rn.timers())
  end)

  describe("timers", function()
    it("lists the pending ones, the next one first", stage.sim(function()
      local function of_b() end
      local a, b = rn.after(20, nothing), rn.after(10, of_b, 1)
      local c = rn.after(10, print)
      rn.after(1, nothing):stop()
      rn.sleep(4)
      assert.same({
        { timer = b, name = stage.here(-6), left = 6 }, { timer = c, name = "[C]", left = 6 },
        { timer = a, name = NOTHING_AT, left = 16 },
      }, rn.timers())
      for _, entry in ipairs(rn.timers()) do entry.timer:stop() end
      assert.same({}, rn.timers())
    end))

    it("have a text that tells when they are due", stage.sim(function()
      local timer = rn.after(20, nothing)
      rn.sleep(5)
      assert.equal("timer: 15 ms left", tostring(timer))
      timer:stop()
      assert.equal("timer: not pending", tostring(timer))
    end))
  end)

  describe("refuses at the caller's line", function()
    for what, case in pairs {
      ["no arguments"] = { "after: a number of milliseconds expected, got nothing", n = 1 },
      ["a text as the time"] = { "after: a number of milliseconds expected, got string", "5", nothing },
      ["NaN"] = { "after: a time of 0 ms or more expected, got %-?nan", 0 / 0, nothing },
      ["a negative time"] = { "after: a time of 0 ms or more expected, got %-1", -1, nothing },
      ["an endless time"] = { "after: a finite time expected", math.huge, nothing },
      ["no function"] = { "after: a function expected, got nothing; to call", 5, n = 2 },
      ["nil as the function"] = { "after: a function expected, got nil", 5, nil },
      ["the arguments in the wrong order"] = { "after: a number of milliseconds expected, got function", nothing, 5 },
      ["a channel as the function"] = { "after: a function expected, got a channel", 5, rn.chan() },
      ["a colon"] = { "call it with a dot", rn, 5, nothing },
    } do
      it(what, function()
        raises(case[1], function() rn.after(table.unpack(case, 2, case.n or 4)) end)
        assert.same({}, rn.timers())
      end)
    end

    it("too many arguments", function()
      local many = {}
      for i = 1, 40000 do many[i] = i end
      raises("after: too many arguments", function() rn.after(5, nothing, table.unpack(many)) end)
      assert.same({}, rn.timers())
    end)

    it("a wrong time of restart, and the timer stays as it was", stage.sim(function()
      local timer = rn.after(5, nothing)
      for _, time in ipairs { "1", -1, 0 / 0, math.huge, {} } do
        raises("^restart: ", function() timer:restart(time) end)
      end
      raises("^restart: a number of milliseconds expected, got nothing", function() timer:restart() end)
      assert.equal(5, rn.timers()[1].left)
      timer:stop()
    end))

    it("what is no timer", function()
      local timer = rn.after(5, nothing)
      for _, wrong in ipairs { 5, "timer", {}, rn.chan(), io.stdout, nothing } do
        raises("^stop: a timer of rn.after expected, got .*; call it as timer:stop%(%)", function()
          timer.stop(wrong)
        end)
        raises("^restart: a timer of rn.after expected, got ", function() timer.restart(wrong, 5) end)
      end
      raises("^stop: a timer of rn.after expected, got nothing", function() timer.stop() end)
      timer:stop()
    end)
  end)
end)

describe("a timer and a simulation", function()
  before_each(stage.open)
  after_each(stage.close)

  it("one of the outer program can be stopped in it, and does not fire in it", function()
    local fired = {}
    local stopped = rn.after(60000, nothing)
    local other = rn.after(1, function() fired[#fired + 1] = "other" end)
    sim.run(function()
      assert.is_true(stopped:stop())
      assert.is_false(stopped:stop())
      rn.sleep(1000)
      assert.same({}, fired)
      assert.same({}, rn.timers())
    end)
    assert.equal(1, #rn.timers())
    assert.equal(other, rn.timers()[1].timer)
    rn.run()
    assert.same({ "other" }, fired)
  end)

  it("one of the outer program that is restarted in it goes on by the outer clock", function()
    local timer = rn.after(90000, nothing)
    sim.run(function()
      rn.sleep(1e6)
      assert.is_true(timer:restart(60000))
      rn.sleep(1e6)
      assert.same({}, rn.timers())
    end)
    local left = rn.timers()[1].left
    assert.is_true(left > 30000 and left <= 60001)
    timer:stop()
  end)

  it("one that is not pending and is restarted in it belongs to it, and ends with it", function()
    local fired = 0
    local timer = rn.after(60000, function() fired = fired + 1 end)
    timer:stop()
    sim.run(function()
      assert.is_false(timer:restart(10))
      rn.sleep(20)
      assert.equal(1, fired)
      assert.is_false(timer:restart(10))
    end)
    assert.same({}, rn.timers())
    assert.is_false(timer:stop())
    timer:restart(0)
    rn.run()
    assert.equal(2, fired)
  end)

  it("many of both are not mixed up", function()
    local outer, fired = {}, 0
    for i = 1, 100 do outer[i] = rn.after(60000 + i, nothing) end
    sim.run(function()
      local inner = {}
      for i = 1, 300 do inner[i] = rn.after(i, function() fired = fired + 1 end) end
      for i = 1, 100, 2 do assert.is_true(outer[i]:stop()) end
      for i = 2, 100, 2 do assert.is_true(outer[i]:restart(70000 - 500 * i)) end -- seconds apart: real time passes
      for i = 1, 300, 3 do assert.is_true(inner[i]:stop()) end
      rn.sleep(1000)
    end)
    assert.equal(200, fired)
    local list = rn.timers()
    assert.equal(50, #list)
    for i = 1, 50 do assert.equal(outer[102 - 2 * i], list[i].timer) end
    for i = 1, 100 do assert.equal(i % 2 == 0, outer[i]:stop()) end
  end)

  it("one that is started again and again is a leak, although no go block waits", function()
    for _, leaks in ipairs {
      function(f) sim.run(f, { leaks = true }) end, function(f) sim.explore(f, { steps = 500 }) end,
    } do
      local ok, err = pcall(leaks, function()
        local timer
        timer = rn.after(10, function() timer:restart(10) end)
      end)
      assert.is_false(ok)
      assert.matches("leak: the timer of [^\n]*after_spec.lua:%d+ goes on for ever", err)
    end
    sim.run(function() rn.after(10, nothing) end, { leaks = true })
  end)

  it("of 0 ms that restarts itself does not stop the time", stage.sim(function()
    local timer
    timer = rn.after(0, function() timer:restart(0) end)
    rn.sleep(1)
    timer:stop()
  end))
end)

describe("sim.explore", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Whether a timer fires before another go block stops it.
  local function race()
    local called = false
    local timer = rn.after(5, function() called = true end)
    local stopper = rn.go(function()
      rn.sleep(5)
      timer:stop()
    end)
    stopper:take()
    rn.sleep(1)
    assert(called, "it was stopped first")
  end

  it("fires a timer while go blocks are ready, with timers = \"any\"", function()
    assert.is_true(sim.explore(race, { seconds = 60 }).all)
    local ok, err = pcall(sim.explore, race, { timers = "any", seconds = 60 })
    assert.is_false(ok)
    assert.matches("it was stopped first", err)
  end)

  for _, share in ipairs { false, "channels" } do
    it("finds every order of two uses of a timer, with share = " .. tostring(share), function()
      local seen = {}
      local result = sim.explore(function()
        local results = {}
        local timer = rn.after(5, function() results[#results + 1] = "fires at " .. rn.now() end)
        local blocks = {
          rn.go(function() results[#results + 1] = "stop " .. tostring(timer:stop()) end),
          rn.go(function() results[#results + 1] = "restart " .. tostring(timer:restart(10)) end),
        }
        for _, block in ipairs(blocks) do block:take() end
        rn.sleep(20)
        seen[table.concat(results, ", ")] = true
      end, { share = share or nil, seconds = 60 })
      assert.is_true(result.all)
      assert.same({ ["stop true, restart false, fires at 10"] = true, ["restart true, stop true"] = true }, seen)
    end)

    it("knows that go blocks share a timer and nothing else, with share = " .. tostring(share), function()
      local ok, err = pcall(sim.explore, function()
        local ch = rn.chan()
        local timer = rn.after(10, ch.close, ch)
        rn.go(timer.stop, timer)
        rn.go(timer.restart, timer, 5)
        ch:take()
      end, { share = share or nil, seconds = 60 })
      assert.is_false(ok)
      assert.matches("deadlock", err)
    end)
  end

  it("tells in a story what was done to timers", function()
    local ok, err = pcall(sim.explore, function()
      local ch = rn.chan()
      local first, second = rn.after(10, function() ch:put(1) end), rn.after(20, nothing)
      rn.go(function()
        first:restart(30)
        first:stop()
        second:stop()
        second:stop()
      end)
      ch:take()
    end)
    assert.is_false(ok)
    for _, text in ipairs {
      "starts timer 1 of 10 ms (after_spec.lua:", "starts timer 2 of 20 ms (", "restarts timer 1: 30 ms (",
      "stops timer 1 (", "stops timer 2 (", "stops timer 2 (after_spec.lua:%d+), which is not pending",
    } do
      local pattern = text:gsub("[()]", "%%%0")
      assert.matches(pattern, err)
    end
  end)
end)
