local internal = require("runnel.core").internal
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- A driver that does not really wait: it records what it is asked, and calls `events` one after the other.
local function fake(events)
  local driver = { waits = {}, events = events or {} }
  function driver:wait(ms)
    self.waits[#self.waits + 1] = ms == nil and "for ever" or ms
    -- Asked only to look, it has nothing: events come to those who wait.
    if ms == 0 and not self.eager then return end
    local event = table.remove(self.events, 1)
    if event then event(self, ms) end
  end
  function driver:alive() return #self.events > 0 end
  return driver
end

-- The waits that were more than a look.
local function real_waits(driver)
  local list = {}
  for _, ms in ipairs(driver.waits) do
    if ms ~= 0 then list[#list + 1] = ms end
  end
  return list
end

describe("driver", function()
  before_each(stage.open)
  after_each(stage.close)

  it("returns the previous one", function()
    local a, b = fake(), fake()
    assert.is_nil(rn.driver(a))
    assert.equal(a, rn.driver(b))
    assert.equal(b, rn.driver(nil))
    assert.is_nil(rn.driver())
  end)

  it("is an object with wait and alive", function()
    for _, bad in ipairs { 42, "driver", true, print } do
      assert.error_matches(function() rn.driver(bad) end,
        "driver: an object with the methods wait and alive expected, got " .. type(bad))
    end
    assert.error_matches(function() rn.driver {} end, "driver: it has no method wait")
    assert.error_matches(function() rn.driver { wait = print } end, "driver: it has no method alive")
    assert.is_nil(rn.driver(nil))
    local methods = { wait = function() end, alive = function() return false end }
    rn.driver(setmetatable({}, { __index = methods }))
    rn.run()
  end)

  it("is not replaced by a bad one", function()
    local a = fake()
    rn.driver(a)
    pcall(rn.driver, {})
    assert.equal(a, rn.driver(nil))
  end)

  it("waits for ever while something is alive", function()
    local ch = rn.chan()
    local driver = fake { function() ch:put_async "event" end }
    rn.driver(driver)
    assert.equal("event", ch:take())
    assert.same({ "for ever" }, real_waits(driver))
  end)

  it("waits for 10 ms at most while another thread watches the program", function()
    internal.watch(function() end)
    local ch = rn.chan()
    local driver = fake { function() ch:put_async "value" end }
    rn.driver(driver)
    assert.equal("value", ch:take())
    internal.watch(nil)
    assert.same({ 10 }, real_waits(driver))
  end)

  it("waits until the next deadline at most", function()
    local ch = rn.chan()
    local driver = fake { function() ch:put_async "event" end }
    rn.driver(driver)
    local sleepers = { stage.sleeper(7000.5), stage.sleeper(5000), stage.sleeper(6000) }
    assert.equal("event", ch:take())
    local waits = real_waits(driver)
    assert.equal(1, #waits)
    assert.is_true(waits[1] > 4000 and waits[1] <= 5000)
    for _, wake in ipairs(sleepers) do wake() end
  end)

  it("is asked again as often as it returns too early", function()
    local ch = rn.chan()
    local function nothing() end
    local driver = fake { nothing, nothing, nothing, function() ch:close "over" end }
    rn.driver(driver)
    assert.same({ nil, "over" }, { ch:take() })
    assert.equal(4, #real_waits(driver))
  end)

  it("is not asked to wait while blocks are ready", function()
    local driver = fake()
    rn.driver(driver)
    rn.run(function() for _ = 1, 100 do rn.yield() end end)
    assert.same({}, real_waits(driver))
  end)

  it("that has no events to wait for does not prevent a deadlock", function()
    rn.driver(fake())
    assert.error_matches(function() rn.chan():take() end, "deadlock: take on chan: #%d+ would wait for ever")
  end)

  it("keeps run going while it is alive", function()
    local log = {}
    local driver = fake()
    driver.events = {
      function() log[#log + 1] = 1 end,
      function() rn.go(function() log[#log + 1] = 2 end) end,
      function() log[#log + 1] = 3 end,
    }
    rn.driver(driver)
    rn.run()
    assert.same({ 1, 2, 3 }, log)
  end)

  it("is polled by a busy run queue", function()
    local stop, polls = false, 0
    rn.driver {
      wait = function(_, ms)
        assert.equal(0, ms)
        polls = polls + 1
        if polls == 5 then stop = true end
      end,
      alive = function() return true end,
    }
    local polls_at_end
    rn.run(function()
      while not stop do rn.yield() end
      polls_at_end = polls -- the loop may poll once more after the block's end, if a millisecond passed
    end)
    assert.equal(5, polls_at_end)
  end)

  for name, wait in pairs {
    ["sleeps for 0 ms"] = function() rn.sleep(0) end,
    ["yields"] = rn.yield,
    ["starts go blocks"] = function() rn.go(rn.yield):take() end,
    ["calls rn.run"] = function() rn.run(rn.yield) end,
    ["makes timeouts of 0 ms"] = function() rn.timeout(0):take() end,
    ["exchanges values"] = function()
      local ch = rn.chan()
      rn.go(function() ch:put(1) end)
      ch:take()
    end,
  } do
    it("is polled while the main program " .. name .. " again and again", function()
      local polls = 0
      rn.driver { wait = function() polls = polls + 1 end, alive = function() return true end }
      local deadline = rn.now() + 10000
      while polls < 3 and rn.now() < deadline do wait() end
      assert.is_true(polls >= 3, polls)
    end)
  end

  it("is polled by a busy run queue after a simulation with much virtual time", function()
    sim.run(function()
      rn.sleep(1e12)
      for _ = 1, 5000 do rn.yield() end
    end)
    local stop = false
    rn.driver { wait = function() stop = true end, alive = function() return true end }
    local turns = 0
    rn.run(function()
      local deadline = rn.now() + 2000
      while not stop and rn.now() < deadline do
        rn.yield()
        turns = turns + 1
      end
    end)
    assert.is_true(stop)
  end)

  for where, run in pairs { ["a go block"] = rn.run, ["the main program"] = function(f) f() end } do
    it(("does not starve timers while slow go blocks serve %s #slow"):format(where), function()
      local ticks = 0
      run(function()
        local ch = rn.chan(100)
        for _ = 1, 2000 do rn.yield() end -- as if all were fast
        rn.go(function()
          for i = 1, 30 do
            local start = rn.now()
            while rn.now() - start < 3 do end
            ch:put(i)
            rn.yield()
          end
          ch:close()
        end)
        rn.go(function()
          for _ = 1, 5 do
            rn.sleep(10)
            ticks = ticks + 1
          end
        end)
        for _ in ch do end
      end)
      assert.is_true(ticks >= 3, ticks)
    end)
  end

  it("does not starve timers when the run queue is busy", function()
    rn.run(function()
      local ended = rn.timeout(5)
      local deadline = rn.now() + 2000
      while not ended:closed() and rn.now() < deadline do rn.yield() end
      assert.is_true(ended:closed())
    end)
  end)

  it("looks at timers after 16 runs at the latest, however long these are", function()
    local ch = rn.chan()
    rn.go(function() for i = 1, 1000 do ch:put(i) end ch:close() end)
    for _ in ch do end -- short runs, between which the clock is read seldom
    local is_over, runs = false, 0
    local sleeper = rn.go(function()
      rn.sleep(1)
      is_over = true
    end)
    local function compute()
      local began = rn.now()
      while rn.now() < began + 3 do end
      runs = runs + 1
      if not is_over and runs < 100 then rn.go(compute) end
    end
    rn.go(compute)
    sleeper:take()
    assert.is_true(runs <= 17, runs)
  end)

  it("completes puts, takes and alts from its callbacks", function()
    local a, b, c = rn.chan(), rn.chan(), rn.chan()
    local got
    rn.driver(fake {
      function() a:put_async("put", function(ok) got = ok end) end,
      function() assert.is_true(b:offer "offered") end,
      function() c:take_async(function(v) got = v end) end,
      function() c:close "closed" end,
    })
    assert.equal("put", a:take())
    rn.run(function()
      assert.is_true(got)
      assert.same({ "offered", b }, { rn.alts { c, b } })
      assert.is_true(c:put "mine")
      rn.yield()
      assert.equal("mine", got)
      assert.same({ nil, "closed" }, { c:take() })
    end)
  end)

  it("may start go blocks, which run", function()
    local ch = rn.chan()
    rn.driver(fake { function() rn.go(function() ch:put "from a block" end) end })
    assert.equal("from a block", ch:take())
  end)

  it("that raises ends the run with its error; nothing is lost", function()
    local ch = rn.chan()
    rn.driver(fake { function() error "driver failed" end, function() ch:put_async "second" end })
    local result
    local ok, err = pcall(rn.run, function() result = ch:take() end)
    assert.is_false(ok)
    assert.matches("driver failed", err)
    assert.equal(1, ch:stats().takes_waiting)
    -- The block is still parked, and the next run continues it.
    rn.run()
    assert.equal("second", result)
  end)

  it("that raises ends an operation outside, which is withdrawn", function()
    local ch, shared = rn.chan(), rn.shared_chan()
    for name, wait in pairs {
      take = function() ch:take() end,
      ["shared take"] = function() shared:take() end,
      put = function() ch:put(1) end,
      alts = function() rn.alts { ch, { ch, 1 } } end,
      sleep = function() rn.sleep(1000) end,
      run = function() rn.run(rn.sleep, 5) end,
    } do
      rn.driver(fake { function() error({ name }) end })
      local ok, err = pcall(wait)
      assert.is_false(ok)
      assert.equal(name, err[1])
      assert.equal(0, ch:stats().takes_waiting)
      assert.equal(0, ch:stats().puts_waiting)
      assert.equal(0, shared:stats().takes_waiting)
    end
    rn.driver(nil)
    rn.run()
  end)

  it("that completes the operation and then raises loses neither", function()
    local ch = rn.chan()
    rn.driver(fake { function()
      ch:put_async "value"
      error("driver failed", 0)
    end })
    assert.equal("value", ch:take())
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal("driver failed", heard[1].err)
  end)

  it("that completes the operation, and is then interrupted by Ctrl-C, does not hide that from the program", function()
    local ch = rn.chan()
    rn.driver(fake { function()
      ch:put_async(1)
      error("interrupted!", 0) -- as the hook of lua5.4 does
    end })
    local ok, err = pcall(function()
      ch:take()
      return "went on"
    end)
    assert.is_false(ok)
    assert.matches("interrupted!$", err)
    assert.is_nil((debug.gethook()))
  end)

  it("that raises when it is asked whether it is alive ends the wait", function()
    rn.driver { wait = function() end, alive = function() error "not sure" end }
    assert.error_matches(function() rn.chan():take() end, "not sure")
    assert.error_matches(function() rn.step() end, "not sure")
    assert.error_matches(function() rn.run() end, "not sure")
  end)

  it("that raises in step leaves the queue as it was", function()
    local ran = 0
    for _ = 1, 3 do rn.go(function() ran = ran + 1 end) end
    rn.driver { wait = function() error "failed" end, alive = function() return false end }
    assert.error_matches(function() rn.step() end, "failed")
    assert.equal(0, ran)
    rn.driver(nil)
    rn.step(10) -- without a number it would end after 1 ms
    assert.equal(3, ran)
  end)

  it("is polled by step, before the blocks run", function()
    local log = {}
    local driver = fake { function()
      log[#log + 1] = "poll"
      rn.go(function() log[#log + 1] = "event" end)
    end }
    driver.eager = true
    rn.driver(driver)
    rn.go(function() log[#log + 1] = "ready" end)
    assert.is_nil(rn.step(10))
    assert.same({ "poll", "ready", "event" }, log)
    for _, ms in ipairs(driver.waits) do assert.equal(0, ms) end -- more than one if a millisecond has passed
  end)

  it("alive with nothing timed makes step answer math.huge", function()
    rn.driver(fake { print })
    assert.equal(math.huge, rn.step())
  end)

  it("is not used in a simulation", function()
    local driver = fake { print }
    driver.eager = true
    rn.driver(driver)
    sim.run(function() rn.sleep(10000) end)
    assert.same({}, driver.waits)
    assert.error_matches(function() sim.run(function() rn.chan():take() end) end, "deadlock")
    assert.same({}, driver.waits)
  end)

  it("may be collected once it is replaced", function()
    local weak = setmetatable({ fake() }, { __mode = "v" })
    rn.driver(weak[1])
    rn.driver(nil)
    collectgarbage()
    assert.is_nil(weak[1])
  end)

  it("may be a userdata", function()
    local object = rn.chan() -- one whose methods can be replaced for a while
    local methods = getmetatable(object).__index
    local calls = 0
    methods.wait = function() calls = calls + 1 end
    methods.alive = function() return calls < 3 end
    local ok, err = pcall(function()
      rn.driver(object)
      rn.run()
    end)
    methods.wait, methods.alive = nil, nil
    rn.driver(nil)
    assert.is_true(ok, err)
    assert.equal(3, calls)
    assert.error_matches(function() rn.driver(io.stdout) end, "it has no method wait")
  end)

  it("that has no events, but starts go blocks and completes operations, ends a wait for a thread", function()
    local stop, answer, here = rn.shared_chan(), rn.shared_chan(), rn.chan()
    local thread = rn.thread(function(from) from:take() end, stop)
    local ran, waits = false, 0
    rn.driver {
      wait = function()
        waits = waits + 1
        if waits == 1 then rn.go(function() ran = true end) end
        if waits > 1 and ran then here:put_async "completed" end
      end,
      alive = function() return false end,
    }
    assert.equal("completed", (rn.alts { answer, here }))
    rn.driver(nil)
    stop:close()
    thread:take()
  end)
end)
