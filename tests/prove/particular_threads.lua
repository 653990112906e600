---Particular programs with a real thread: who waits is woken, in whatever it waits; and a deadlock is none while
---another thread can end it. As particular_core.lua.

local core = require "runnel.core"
local rn = require "runnel"

local only = {}

-- Answers each value that comes with the value; before some it sleeps, so that the other thread waits for long.
local function echo(from, to, ms)
  local rn = require "runnel" -- luacheck: ignore
  for value in from do
    if ms > 0 and value % 3 == 0 then rn.sleep(ms) end
    to:put(value)
  end
  to:close()
  return "done"
end

-- Whoever waits, for a value or for room, alone or with a timer, a driver or in an alts: it goes on at once.
function only.threads_wake_each_other(is)
  local function driver(is_watching)
    local fd = core.wakeup_fd()
    return { alive = function() return false end, wait = function(_, ms)
      if is_watching then core.wait_readable(fd, ms) elseif ms ~= 0 then
        local till = rn.now() + math.min(ms or 10, 10)
        while rn.now() < till do end
      end
    end }
  end
  local ways = {
    function(ch) return ch:take() end,
    function(ch) return (rn.alts { ch, rn.chan() }) end,
    function(ch)
      local sleeper = rn.go(rn.sleep, 60000) -- a timer is pending
      local value = ch:take()
      rn.cancel(sleeper)
      return value
    end,
    function(ch) return rn.run(function() return ch:take() end) end,
    function(ch)
      local go = rn.go(function() return ch:take() end)
      return go:take()
    end,
  }
  for _, what in ipairs { "none", "watching", "blind" } do
    local previous = what ~= "none" and rn.driver(driver(what == "watching"))
    for _, size in ipairs { 0, 2 } do
      local to, from = rn.shared_chan(size), rn.shared_chan(size)
      local thread = rn.thread(echo, to, from, 3)
      local began = rn.now()
      for i = 1, 15 do
        if i % 5 == 0 then rn.sleep(3) end -- the thread waits
        is(to:put(i), true)
        is(ways[i % #ways + 1](from), i)
      end
      to:close()
      is(from:take(), nil)
      is(thread:take(), "done")
      is(rn.now() - began < 5000, true)
    end
    if previous then rn.driver(previous) end
  end
end

local function pass(from, to)
  local value = from:take()
  while value do
    to:put(value)
    value = from:take()
  end
end

-- A deadlock among threads is an error in the main program, which may end it: then nothing is stuck any more.
function only.threads_that_are_stuck(is)
  local a, b = rn.shared_chan(), rn.shared_chan()
  local one, two = rn.thread(pass, a, b), rn.thread(pass, b, a)
  local function deadlock(f)
    local ok, err = pcall(f)
    is(ok, false)
    is(tostring(err):match "^[^\n]*the threads that could complete it wait for ever, too" ~= nil, true)
  end
  for _, wait in ipairs { one.take, function() rn.alts { one, two } end } do
    deadlock(function() wait(one) end)
    local late = rn.shared_chan()
    local sleeper = rn.thread(function(ch) -- not stuck: it will put
      require "runnel".sleep(30)
      ch:put "late"
    end, late)
    is(late:take(), "late")
    sleeper:take()
    rn.run() -- ends: nothing of this program can go on
  end
  local value
  rn.go(function() value = b:take() end)
  is(a:put(5), true)
  rn.sleep(20)
  is(value == 5 or value == nil, true)
  a:close()
  b:close()
  one:take()
  two:take()
end

-- While another thread may have news, a driver that does not look for them is asked to wait for a short time only; one
-- that does, for as long as there is nothing to do.
function only.drivers_and_news(is)
  local to, from = rn.shared_chan(), rn.shared_chan()
  local thread = rn.thread(echo, to, from, 60)
  local fd = core.wakeup_fd()
  for _, is_watching in ipairs { false, true, false } do
    local polls, waits, long = 0, 0, 0
    local previous = rn.driver { alive = function() return false end, wait = function(_, ms)
      if ms == 0 then
        polls = polls + 1
        return
      end
      waits = waits + 1
      if not ms or ms > 10 then long = long + 1 end
      if is_watching then core.wait_readable(fd, ms) else
        local till = rn.now() + math.min(ms or 10, 10)
        while rn.now() < till do end
      end
    end }
    to:put(3)
    is(from:take(), 3)
    -- the first wait is short: it is not known yet whether the driver looks
    if is_watching then is(waits <= 5 and long == waits - 1, true) else is(long, 0) end
    polls, long = 0, 0
    rn.step()
    is(polls, 1)
    is(long, 0)
    rn.driver(previous)
  end
  to:close()
  is(from:take(), nil)
  is(thread:take(), "done")
end

-- An operation outside any go block that fails has left nothing: neither a wait of a shared channel, nor what it
-- had put aside.
function only.failed_outside(is)
  local function driven(f, ...)
    local previous = rn.driver { alive = function() return true end, wait = function() error("of the driver", 0) end }
    local ok, err = pcall(f, ...)
    rn.driver(previous)
    is(ok, false)
    is(err, "of the driver")
  end
  for size = 0, 1 do
    local ch, other = rn.shared_chan(size), rn.shared_chan(size)
    for _ = 1, 3 do
      driven(ch.take, ch)
      driven(rn.alts, { ch, other })
      driven(rn.alts, { rn.chan(), ch })
      is(ch:offer(1), size == 1 or nil)
      is(ch:poll(), size == 1 and 1 or nil)
      if size == 1 then ch:put(2) end
      driven(ch.put, ch, 3)
      driven(rn.alts, { { ch, 4 }, other })
      is(ch:poll(), size == 1 and 2 or nil)
      is(ch:poll(), nil)
    end
    is(ch:stats().takes_waiting + ch:stats().puts_waiting, 0)
  end
  local full, ch = rn.chan(), rn.chan()
  for i = 1, 1024 do full:put_async(i, function() end) end
  for _, n in ipairs { 0, 1, 5 } do
    local function deep(...) return select("#", ...) + 0 * full:put "one too many" end
    is((pcall(deep, table.unpack({}, 1, n))), false)
    is((pcall(rn.alts, { { full, "one too many" }, ch })), false)
    local taken = rn.go(function() return ch:take() end)
    is(ch:put "right", true)
    is(taken:take(), "right")
    rn.go(function() ch:put "back" end)
    local value, port = rn.alts { ch, rn.chan() }
    is(value, "back")
    is(port, ch)
  end
  full:close()
  while full:poll() do end
end

-- The driver completes the operation, and raises then: the operation returns, and the error is reported.
function only.done_before_an_error(is)
  local ch, reports = rn.chan(), {}
  rn.on_error(function(...) reports[#reports + 1] = table.pack(...) end)
  local previous = rn.driver { alive = function() return true end, wait = function()
    ch:offer("a value")
    ch:poll()
    error("of the driver", 0)
  end }
  local results = table.pack("before", ch:take())
  is(ch:put("another value"), true)
  rn.driver(previous)
  rn.on_error(nil)
  is(results.n, 2)
  is(results[1], "before")
  is(results[2], "a value")
  is(#reports, 2)
  for _, report in ipairs(reports) do
    is(report[1], "of the driver")
    is(report[2], nil)
    is(report[3], "the scheduler")
  end
end

return only
