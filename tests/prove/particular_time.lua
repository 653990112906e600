---Particular programs in real time, outside simulations: drivers, steps, waits. As particular_core.lua.

local core = require "runnel.core"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- In real time: the driver is asked to wait, and its events complete operations.
function only.a_driver(is)
  local events, waits, alive, polls = {}, {}, 0, 0 -- polls come by the clock
  local previous = rn.driver {
    alive = function()
      alive = alive + 1
      return #events > 0
    end,
    wait = function(_, ms)
      if ms == 0 then
        polls = polls + 1
        return
      end
      waits[#waits + 1] = ms == nil and "for ever" or ms > 0 and ms <= 50 and "some" or ms
      local event = table.remove(events, 1)
      if event then event() end
    end,
  }
  local ch = rn.chan()
  events = { function() end, function() ch:put_async "event" end }
  is(ch:take(), "event")
  is(table.concat(waits, ","), "for ever,for ever")
  is(alive > 1, true)
  waits, events = {}, { function() end, function() error("of the driver", 0) end }
  is(select(2, pcall(ch.take, ch)), "of the driver")
  is(ch:stats().takes_waiting, 0)
  is(plain(select(2, pcall(ch.take, ch))), "deadlock: take")
  waits, events = {}, { function() end }
  local began = rn.now()
  rn.sleep(30)
  is(rn.now() - began >= 30, true)
  is(waits[1], "some")
  waits, events = {}, { function() rn.go(function() ch:put "started" end) end }
  is(ch:take(), "started")
  is(#waits, 1)
  local reported = 0
  rn.on_error(function() reported = reported + 1 end)
  waits, events = {}, { function() ch:put_async "both" error("late", 0) end }
  is(ch:take(), "both")
  is(reported, 1)
  rn.on_error(nil)
  waits, events = {}, { function() end, function() end }
  rn.run()
  is(#waits, 2)
  waits, events, polls = {}, { function() end }, 0
  is(rn.step(), math.huge)
  is(#waits, 0)
  is(polls, 1)
  events = {}
  is(rn.step(), nil)
  rn.driver(previous)
end

-- What a driver written in C or Lua waits in: until a time limit, or the next timer, or not at all.
function only.wait_readable(is)
  local fd = core.wakeup_fd()
  local function wait(ms)
    local began = rn.now()
    local is_over = core.wait_readable(fd, ms)
    return rn.now() - began, is_over
  end
  rn.step() -- what is pending there is done
  is(wait(0) < 1000, true)
  local took = wait(20)
  is(took >= 20 and took < 10000, true)
  rn.go(function() rn.sleep(30) end)
  rn.step()
  for _, ms in ipairs { 6000, false } do
    took = wait(ms or nil)
    is(took < 5000, true)
  end
  local is_over
  rn.go(function() rn.sleep(3) end)
  rn.step()
  local till = rn.now() + 4
  while rn.now() < till do end
  took, is_over = wait(6000)
  is(is_over, false) -- a timer is due
  is(took < 5000, true)
  rn.run()
  local sleeper = rn.go(function() rn.sleep(6000) end)
  rn.step()
  took = wait(10)
  is(took >= 10 and took < 5000, true)
  rn.cancel(sleeper)
  took, is_over = wait(6000)
  is(is_over, false) -- a go block is ready
  is(took < 5000, true)
  rn.run()
end

-- The scheduler calls the debug hook when it waits, so that a hook can interrupt it.
function only.hooks(is)
  local calls, from = 0, {}
  debug.sethook(function()
    calls = calls + 1
    from[debug.getinfo(2, "S").what] = true
  end, "c")
  rn.sleep(2)
  debug.sethook()
  is(calls >= 5, true)
  is(from.C, true)
  -- It is called for one function only, however the loop is run.
  local driver = rn.driver { alive = function() return false end, wait = function() end }
  for _, run in ipairs {
    function() rn.sleep(1) end, rn.run, rn.step, function() rn.step(5) end, rn.yield, function() rn.run(rn.yield) end,
    function() core.wait_readable(core.wakeup_fd(), 1) end,
  } do
    local counts = {}
    rn.go(function() rn.yield() end)
    debug.sethook(function()
      local info = debug.getinfo(2, "Sf")
      if info.what == "C" then counts[info.func] = (counts[info.func] or 0) + 1 end
    end, "c")
    local ok, err = pcall(run)
    debug.sethook()
    is(ok or err, true)
    local many = 0
    for _, n in pairs(counts) do if n > 1 then many = many + 1 end end
    is(many <= 1, true)
  end
  rn.driver(driver)
  local ch, interrupts = rn.chan(), false
  debug.sethook(function()
    if interrupts then
      debug.sethook()
      error("interrupted", 0)
    end
  end, "c")
  rn.go(function() interrupts = true end)
  local ok, err = pcall(ch.take, ch)
  debug.sethook()
  is(ok, false)
  is(err, "interrupted")
  is(ch:stats().takes_waiting, 0)
end

-- A wait in real time needs no processor, and leaves the process's signals as they are.
function only.idle(is)
  local function blocked()
    local file <close> = io.open "/proc/self/status"
    return file and file:read "a":match "SigBlk:%s*(%x+)"
  end
  local before, signals = os.clock(), blocked()
  rn.sleep(100)
  rn.timeout(50):take()
  rn.go(function() rn.sleep(50) end)
  rn.run()
  is(os.clock() - before < 0.05, true)
  is(blocked(), signals)
end

-- In real time a wait is never shorter than it was asked to be. The driver does not sleep, so that it is hardly longer.
function only.real_time(is)
  local previous = rn.driver { alive = function() return true end, wait = function() end }
  local early, shared = 0, 0
  for i = 1, 30 do
    local began = rn.now()
    local first, again = rn.timeout(2), rn.timeout(2)
    if first == again then shared = shared + 1 end
    if i % 2 == 0 then rn.run(function() return first:take() end) else first:take() end
    if rn.now() < began + 2 then early = early + 1 end
    began = rn.now()
    rn.sleep(0.5)
    if rn.now() < began + 0.5 then early = early + 1 end
    again:take()
  end
  is(early, 0)
  is(shared > 10, true)
  rn.driver(previous)
end

-- A busy run queue does not starve the driver, timers, and other go blocks.
function only.a_busy_run_queue(is)
  local polls, stop, n = 0, false, 0
  local previous = rn.driver {
    alive = function() return false end,
    wait = function(_, ms) polls = polls + (ms == 0 and 1 or 0) end,
  }
  local began = rn.now()
  for _ = 1, 3 do
    rn.go(function()
      while not stop do
        n = n + 1
        rn.yield()
      end
    end)
  end
  rn.sleep(20)
  local took = rn.now() - began
  stop = true
  is(took >= 20, true)
  is(polls >= 1, true)
  is(polls <= took + 2, true)
  is(n > 10, true)
  local slow = 0
  for _ = 1, 40 do
    rn.go(function()
      local till = rn.now() + 2
      while rn.now() < till do end
      slow = slow + 1
    end)
  end
  rn.sleep(5)
  is(slow <= 22, true)
  rn.driver(previous)
  rn.run()
  is(slow, 40)
end

function only.steps(is)
  local ran = {}
  for i = 1, 5 do
    rn.go(function()
      ran[#ran + 1] = i
      rn.yield()
      ran[#ran + 1] = i + 10
    end)
  end
  is(rn.step(0), 0)
  is(#ran, 0)
  is(rn.step(2), 0)
  is(table.concat(ran, " "), "1 2")
  is(rn.step(3), 0)
  is(table.concat(ran, " "), "1 2 3 4 5")
  rn.yield()
  is(table.concat(ran, " "), "1 2 3 4 5 11 12 13 14 15")
  is(rn.step(1), nil)
  local victims = {}
  for i = 1, 4 do
    victims[i] = rn.go(function()
      rn.yield()
      ran[#ran + 1] = "victim " .. i
    end)
  end
  rn.step(4)
  rn.go(function() ran[#ran + 1] = "after" end)
  rn.cancel(victims[2])
  rn.yield()
  is(#ran, 14)
  rn.run()
  local sleeper = rn.go(function() rn.sleep(5000) end)
  local next_ms = rn.step()
  is(next_ms > 1000 and next_ms <= 5000, true)
  rn.timeout(60)
  next_ms = rn.step()
  is(next_ms >= 0 and next_ms <= 61, true)
  rn.cancel(sleeper)
  rn.run()
  is(rn.step(), nil)
  is(pcall(rn.step, -1), false)
  local inside
  rn.go(function() inside = { pcall(rn.step) } end)
  rn.run()
  is(inside[1], false)
  is(inside[2]:find "go block" ~= nil, true)
  local began, turns = rn.now(), 0
  local busy = rn.go(function()
    while true do
      turns = turns + 1
      rn.yield()
    end
  end)
  is(rn.step(), 0)
  is(rn.now() - began < 1000 and turns > 1, true)
  rn.cancel(busy)
  rn.run()
end

-- A long step looks at timers and at the driver.
function only.long_steps(is)
  local polls, fired = 0, nil
  local previous = rn.driver { alive = function() return false end, wait = function() polls = polls + 1 end }
  local turns, began = 0, rn.now()
  local busy = rn.go(function()
    while true do
      local till = rn.now() + 1.1
      while rn.now() < till do end
      turns = turns + 1
      rn.yield()
    end
  end)
  rn.go(function()
    rn.sleep(5)
    fired = turns
  end)
  rn.step(60)
  is(rn.now() - began >= 60, true)
  is(fired ~= nil and fired < 40, true)
  is(polls > 10, true)
  rn.cancel(busy)
  rn.run()
  rn.driver(previous)
end

-- An error that nobody takes is reported after its time, whatever other timers there are.
function only.late_reports(is)
  local internal = core.internal
  local before = internal.grace(20)
  for _, others in ipairs { "none", "an earlier one", "a later one" } do
    local function main()
      local at, began
      rn.on_error(function() at = rn.now() end)
      began = rn.now()
      rn.go(function() error("untaken", 0) end)
      if others == "an earlier one" then rn.go(function() rn.sleep(5) end) end
      local last = others == "none" and 30 or 90
      rn.sleep(last)
      is(at ~= nil and at - began >= 20, true)
      is(at ~= nil and (at - began < last or last == 30), true)
      if internal.is_simulation() then is(at - began, 20.0) end
      rn.on_error(nil)
    end
    main()
    sim.run(main)
  end
  internal.grace(before)
end

return only
