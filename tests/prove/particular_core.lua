---Particular programs about what lite.lua does not have: f(is), where is(got, expected) checks a value. Real time,
---drivers, steps, and coroutines that others close.

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
  is(wait(0) < 1000, true)
  local took = wait(20)
  is(took >= 20 and took < 10000, true)
  rn.go(function() rn.sleep(30) end)
  rn.step()
  for _, ms in ipairs { 60000, false } do
    took = wait(ms or nil)
    is(took < 20000, true)
  end
  local is_over
  rn.go(function() rn.sleep(3) end)
  rn.step()
  local till = rn.now() + 4
  while rn.now() < till do end
  took, is_over = wait(60000)
  is(is_over, false) -- a timer is due
  is(took < 20000, true)
  rn.run()
  local sleeper = rn.go(function() rn.sleep(60000) end)
  rn.step()
  took = wait(10)
  is(took >= 10 and took < 20000, true)
  rn.cancel(sleeper)
  took, is_over = wait(60000)
  is(is_over, false) -- a go block is ready
  is(took < 20000, true)
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

-- A wait in real time needs no processor.
function only.idle(is)
  local before = os.clock()
  rn.sleep(60)
  rn.timeout(20):take()
  rn.go(function() rn.sleep(20) end)
  rn.run()
  is(os.clock() - before < 0.03, true)
end

-- What a go block starts belongs to its host.
function only.hosts(is)
  local host = core.internal.host
  sim.run(function()
    is(host(), 0)
    local inner, innermost
    local go = rn.go(function()
      host(5)
      inner = rn.go(function()
        innermost = rn.go(function() return host() end)
        return host()
      end)
      return host()
    end)
    is(go:take(), 5)
    is(inner:take(), 5)
    is(innermost:take(), 5)
    is(rn.go(function() return host() end):take(), 0)
    local ch = rn.chan()
    ch:take_async(function() is(host(), 0) end)
    is(host(), 0)
  end)
  is(host(), 0)
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

-- Operations that wait need no memory: what they use is kept for the next one.
function only.memory(is)
  local ch, other, ops, many = rn.chan(), rn.chan(), {}, {}
  ops[1], ops[2] = ch, other
  for i = 1, 50 do many[i] = i == 30 and ch or rn.chan() end
  local puts = { { ch, 1 } }
  local function bytes(n, f)
    for _ = 1, 20 do f() end
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    for _ = 1, n do f() end
    local used = (collectgarbage "count" - before) * 1024 / n
    collectgarbage "restart"
    return used
  end
  local partner -- what the other go block does
  local function wait_for_it() partner() end
  local function both(f, theirs)
    partner = theirs
    return function()
      rn.go(wait_for_it)
      f()
    end
  end
  local function nothing() end
  local function put() ch:put(1) end
  local function take() return ch:take() end
  for _, where in ipairs { "outside", "inside" } do
    local function measure()
      local one = bytes(200, function()
        rn.go(nothing)
        rn.yield()
      end) + 250 -- a go block, and some of its stack
      is(bytes(200, both(take, put)) < one, true)
      is(bytes(200, both(put, take)) < one, true)
      is(bytes(200, both(function() rn.alts(ops) end, put)) < one, true)
      is(bytes(200, both(function() rn.alts(many) end, put)) < one, true)
      is(bytes(200, both(function() rn.alts(puts) end, take)) < one, true)
      is(bytes(200, both(take, function() rn.alts(puts) end)) < one, true)
      is(bytes(200, both(put, function() rn.alts(ops) end)) < one, true)
      is(bytes(200, both(put, function() rn.alts(many) end)) < one + 1500, true)
      is(bytes(200, function() rn.yield() end) < 10, true)
      if where == "inside" then is(bytes(200, function() rn.sleep(1) end) < 10, true) end
      is(bytes(200, function() pcall(rn.alts, many, { nowait = true }) end) < 200, true)
    end
    if where == "inside" then sim.run(measure) else measure() end
  end
  sim.run(function() is(bytes(1000, function() rn.timeout(20):take() end) < 300, true) end)
  sim.run(function() -- many at a time use the same places again
    local before
    rn.timeout(1e9)
    for round = 1, 42 do
      for i = 1, 100 do rn.timeout(i * 20) end
      rn.sleep(2100)
      if round == 2 or round == 42 then collectgarbage() end
      before = before or round == 2 and collectgarbage "count" or nil
    end
    is(collectgarbage "count" - before < 16, true)
  end)
end

-- Coroutines of go blocks that other code closes or resumes: the go block ends, and its operation is withdrawn.
function only.others_close_coroutines(is)
  for _, where in ipairs { "take", "put", "sleep", "alts", "ready", "yield" } do
    for _, meddle in ipairs { "close", "resume", "wrap" } do
      sim.run(function()
        local ch, co, closed = rn.chan(), nil, nil
        rn.on_error(function() end)
        local go = rn.go(function()
          co = coroutine.running()
          local _ <close> = setmetatable({}, { __close = function(_, err) closed = tostring(err) end })
          if where == "take" then ch:take()
          elseif where == "put" then ch:put(1)
          elseif where == "sleep" then rn.sleep(10)
          elseif where == "alts" then rn.alts { ch, { rn.chan(), 1 } }
          elseif where == "ready" then ch:take()
          else rn.yield() end
          return "goes on"
        end)
        rn.yield()
        if where == "ready" then ch:put "a value" end
        if meddle == "close" then
          coroutine.close(co)
          is(closed, "nil")
          is(coroutine.status(co), "dead")
        else
          pcall(coroutine.resume, co)
        end
        is(ch:stats().takes_waiting + ch:stats().puts_waiting, 0)
        local value, err = go:take()
        is(value, nil)
        is(err:match "closed or resumed by other code" ~= nil, true)
        is(closed ~= nil, true)
        is(rn.now(), 0)
        is(rn.cancel(go), false)
        rn.sleep(20)
        is(ch:offer(1), nil)
        rn.on_error(nil)
      end)
    end
  end
end

-- A go block that is cancelled while it closes its variables gets that once.
function only.a_dying_go_block_is_told_once(is)
  for _, ending in ipairs { "error", "cancel" } do
    sim.run(function()
      local log = {}
      local go = rn.go(function()
        local _ <close> = setmetatable({}, { __close = function(_, err)
          log[#log + 1] = err
          for _ = 1, 3 do
            local ok, why = pcall(rn.sleep, 5)
            log[#log + 1] = tostring(why or ok)
          end
        end })
        if ending == "error" then error("raised", 0) end
        rn.sleep(1000)
      end)
      rn.yield()
      if ending == "cancel" then is(rn.cancel(go, "raised"), true) end
      rn.sleep(1)
      is(rn.cancel(go, "meanwhile"), true)
      is(rn.cancel(go, "again"), true)
      rn.sleep(100)
      is(table.concat(log, " "), "raised meanwhile true true")
      local value, err = go:take()
      is(value, nil)
      is(err, "raised")
      is(rn.cancel(go), false)
    end)
  end
end

-- One that goes on although it was cancelled may wait while it closes its variables, and nowhere else.
function only.a_cancelled_go_block_closes_its_variables(is)
  sim.run(function()
    local log = {}
    local function say(ok, err) log[#log + 1] = tostring(err or ok) end
    local go = rn.go(function()
      local function close() say(pcall(rn.sleep, 5)) end
      do
        local _ <close> = setmetatable({}, { __close = close })
        say(pcall(rn.sleep, 1000))
        say(pcall(rn.sleep, 1000))
      end
      say(pcall(rn.yield))
      local _ <close> = setmetatable({}, { __close = function() pcall(close) end })
      return "result"
    end)
    rn.yield()
    is(rn.cancel(go, "cancelled"), true)
    is(go:take(), "result")
    is(table.concat(log, " "), "cancelled cancelled true cancelled true")
    is(rn.now(), 10)
  end)
end

-- Variables that are closed may wait, whatever has ended the go block: by what it ends, its variables with their errors
-- in the order in which they are closed, and its result.
local ENDINGS = {
  { "return", { "b nil", "a nil" }, "result nil" },
  { "error", { "b raised", "a raised" }, "nil raised" },
  { "cancel", { "b cancelled", "a cancelled" }, "nil cancelled" },
  { "yield", { "b yielded", "a yielded" }, "nil yielded" },
  { "nested error", { "c of inner", "b of inner", "a of inner" }, "nil of inner" },
  { "raising variable", { "b raised", "a raised by b" }, "nil raised by b" },
}
function only.variables_wait(is)
  for _, case in ipairs(ENDINGS) do
    local ending, variables, result = table.unpack(case)
    sim.run(function()
      local log, ch = {}, rn.chan()
      local function say(text) log[#log + 1] = text:gsub("a go block called coroutine.yield.*", "yielded") end
      rn.on_error(function(err) say("report " .. plain(err)) end)
      local function variable(name)
        return setmetatable({}, { __close = function(_, err)
          say(name .. " " .. plain(err))
          local ok, why = pcall(rn.sleep, 5)
          say(name .. " slept " .. tostring(ok) .. " " .. plain(why))
          say(name .. " took " .. tostring(ch:take()))
          if ending == "raising variable" and name == "b" then error("raised by b", 0) end
        end })
      end
      local function inner()
        local _ <close> = variable "c"
        if ending == "nested error" then error("of inner", 0) end
      end
      local go = rn.go(function()
        local _ <close> = variable "a"
        local _ <close> = variable "b"
        if ending == "nested error" then inner() end
        if ending == "error" or ending == "raising variable" then error("raised", 0) end
        if ending == "cancel" then rn.sleep(1000) end
        if ending == "yield" then coroutine.yield() end
        return "result"
      end)
      rn.yield()
      if ending == "cancel" then rn.cancel(go, "cancelled") end
      for i = 1, 3 do
        rn.sleep(10)
        say("offer " .. tostring(ch:offer(i)) .. " " .. tostring(go:closed()))
      end
      local value, err = go:take()
      say(tostring(value) .. " " .. plain(err))
      rn.on_error(nil)
      local expected = {}
      for i = 1, 3 do
        local name = variables[i] and variables[i]:sub(1, 1)
        if name then table.move({ variables[i], name .. " slept true nil" }, 1, 2, #expected + 1, expected) end
        expected[#expected + 1] = name and "offer true false" or "offer nil true"
        if name then expected[#expected + 1] = ("%s took %d"):format(name, i) end
      end
      expected[#expected + 1] = result
      is(table.concat(log, "; "), table.concat(expected, "; "))
    end)
  end
end

return only
