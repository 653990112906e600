---Particular programs about the places where code runs: which may wait, which may run the scheduler, and what a
---channel's own code may do with that channel. As particular_core.lua.

local core = require "runnel.core"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- ---- which calls a place allows ----

local function policy(call)
  local values = {}
  return { full = function() return #values > 2 end, add = function(_, v) values[#values + 1] = v call() end,
    remove = function() return table.remove(values, 1) end, count = function() return #values end }
end

-- Places: a name, what runs `call` there, and what errors say of calls that wait, and of those that run the loop.
local PLACES = {
  { "main", function(call) call() end, nil, nil },
  { "a coroutine", function(call) coroutine.wrap(call)() end, nil, nil },
  { "a go block", function(call) rn.go(call):take() end, nil, "inside a go block" },
  { "a coroutine in a go block", function(call) rn.go(function() coroutine.wrap(call)() end):take() end,
    "inside a coroutine of your own within a go block", "inside a go block" },
  { "a C function in a go block", function(call)
    rn.go(function() table.sort({ 2, 1 }, function(a, b) call() return a < b end) end):take()
  end, "across a C call", "inside a go block" },
  { "a variable of a go block", function(call)
    rn.go(function() local _ <close> = setmetatable({}, { __close = function() call() end }) end):take()
  end, nil, "inside a go block" },
  { "a transducer", function(call)
    rn.chan(1, function(rf) return function(...) call() return rf(...) end end):put(1)
  end, "inside a transducer", "inside a transducer" },
  { "a transducer in a go block", function(call)
    local ch = rn.chan(1, function(rf) return function(...) call() return rf(...) end end)
    rn.go(function() ch:put(1) end):take()
  end, "inside a transducer", "inside a transducer" },
  { "an exception handler", function(call)
    rn.chan(1, function() return function() error("raised", 0) end end, function() call() end):put(1)
  end, "inside an exception handler", "inside an exception handler" },
  { "a policy", function(call) rn.chan(policy(call)):put(1) end, "inside a buffer policy", "inside a buffer policy" },
  { "a callback at once", function(call)
    local ch = rn.chan(1)
    ch:put(1)
    ch:take_async(call)
  end, "inside a callback", "inside a callback" },
  { "a callback that the loop calls", function(call)
    local ch = rn.chan(1)
    ch:take_async(function() call() end)
    ch:put(1)
    rn.yield()
    rn.yield()
  end, "inside a callback", "inside a callback" },
  { "a callback in a transducer", function(call)
    local ready = rn.chan(1)
    ready:put(1)
    rn.chan(1, function(rf) return function(...) ready:take_async(call) return rf(...) end end):put(1)
  end, "inside a callback", "inside a callback" },
  { "after a callback", function(call)
    local ch = rn.chan(1)
    ch:put(1)
    ch:take_async(function() error("raised", 0) end)
    call()
  end, nil, nil },
  { "after a transducer", function(call)
    rn.chan(1, function() return function() error("raised", 0) end end):put(1)
    call()
  end, nil, nil },
  { "a function called on closing", function(call)
    local ch = rn.chan()
    core.internal.on_close(ch, function() call() end)
    ch:close()
  end, "inside a function that is called on closing", "inside a function that is called on closing" },
  { "an error handler", function(call)
    rn.on_error(function() call() end)
    local ch = rn.chan(1)
    ch:put(1)
    ch:take_async(function() error("raised", 0) end)
    rn.on_error(function() end)
  end, "inside an error handler", "inside an error handler" },
  { "a function called for a dead go block", function(call)
    core.internal.go_feeding(function() call() end, rn.chan(), function() error("raised", 0) end):take()
    rn.yield()
  end, "inside a function that is called when a go block dies", "inside a function that is called when" },
}

-- In real time only.
local DRIVEN = { "a driver", function(call)
  local previous = rn.driver { alive = function() return true end, wait = function()
    if call then call() end
    call = nil
  end }
  rn.sleep(0)
  rn.sleep(2)
  rn.driver(previous)
end, "inside a callback", "inside a callback" }

local function fed()
  local ch = rn.chan()
  rn.go(function() ch:put(1) end)
  return ch
end

local CALLS = {
  { "take", true, function() return fed():take() end },
  { "put", true, function()
    local ch = rn.chan()
    rn.go(function() return ch:take() end)
    return ch:put(1)
  end },
  { "sleep", true, function() return rn.sleep(1) end },
  { "yield", true, function() return rn.yield() end },
  { "alts", true, function() return rn.alts { rn.chan(), fed() } end },
  { "a take of a result", true, function() return rn.go(function() return 1 end):take() end },
  { "run", false, function() return rn.run(function() return 5 end) end },
  { "step", false, function() return rn.step(0) end },
  { "sim.run", false, function() return sim.run(function() return 5 end) end },
  { "poll", nil, function() return rn.chan():poll() end },
  { "a nested callback", nil, function()
    local ch = rn.chan(1)
    ch:put_async(1)
    ch:take_async(function() end)
  end },
}

local function each_call(is, place, is_simulated)
  local name, visit, waits, runs = table.unpack(place)
  for _, one in ipairs(CALLS) do
    local what, is_wait, call = table.unpack(one)
    local n, said = 0, nil
    rn.on_error(function() end)
    visit(function()
      n = n + 1
      local ok, err = pcall(call)
      said = ok and "works" or plain(err)
    end)
    local expected = waits -- in a simulation the main program is a go block, too
    if is_simulated and name == "a coroutine" then expected = "inside a coroutine of your own within a go block" end
    if is_wait == false then
      expected = runs
      if is_simulated and not runs then expected = "inside a go block" end
      if name == "a driver" and what == "step" then expected = nil end -- it does nothing: the loop goes on after it
    elseif is_wait == nil then
      expected = nil
    end
    local text = name .. ", " .. what .. ": "
    is(n > 0, true)
    if expected and said:find(expected, 1, true) then said = expected end
    is(text .. said, text .. (expected or "works"))
    rn.on_error(nil)
  end
end

function only.where_code_may_wait(is)
  for _, place in ipairs(PLACES) do each_call(is, place, false) end
  each_call(is, DRIVEN, false)
  for _, place in ipairs(PLACES) do sim.run(each_call, nil, is, place, true) end
end

-- ---- a channel's own code ----

local BUSY = "chan: c: a transducer or buffer policy must not use the channel that it runs for"

-- What its own code may do with a channel: its name, and what comes of it while the channel is open or being closed.
local USES = {
  { "put", BUSY, "false", function(ch) return ch:put(9) end },
  { "offer", BUSY, "false", function(ch) return ch:offer(9) end },
  { "put_async", BUSY, "false", function(ch) return ch:put_async(9, function() end) end },
  { "alts put", BUSY, "false", function(ch) return (rn.alts { { ch, 9 } }) end },
  { "take", BUSY, BUSY, function(ch) return ch:take() end },
  { "poll", BUSY, BUSY, function(ch) return ch:poll() end },
  { "take_async", BUSY, BUSY, function(ch) return ch:take_async(function() end) end },
  { "for", BUSY, BUSY, function(ch) return ch() end },
  { "alts", BUSY, BUSY, function(ch) return rn.alts { ch } end },
  { "alts, the last of three", BUSY, BUSY, function(ch) return rn.alts { rn.chan(), rn.chan(), ch } end },
  { "alts, the first of three", BUSY, BUSY, function(ch) return rn.alts { ch, rn.chan(), rn.chan() } end },
  { "alts with a default", BUSY, BUSY, function(ch) return rn.alts({ ch }, { default = 5 }) end },
  { "alts, the second", BUSY, BUSY, function(ch) return rn.alts({ rn.chan(), ch }, { default = 5 }) end },
  { "alts that must not wait", BUSY, BUSY, function(ch) return rn.alts({ ch }, { nowait = true }) end },
  { "closed", "false", "true", function(ch) return ch:closed() end },
  { "stats", "false", "true", function(ch) return ch:stats().closed end },
  { "done", "false", "true", function(ch) return ch:done():closed() end },
  { "close", "nil", "nil", function(ch) return (ch:close()) end },
}

local function use_it(is, use, who, is_full, is_closing)
  local what, open, closed, f = table.unpack(use)
  local is_active, said, ch = false, nil, nil
  local function act()
    if not is_active then return end
    is_active = false
    local ok, result = pcall(f, ch)
    said = ok and tostring(result) or plain(result)
  end
  local function transducer(rf)
    return function(...)
      if who == "transducer" then act() end
      if is_active then error("raised", 0) end
      return rf(...)
    end
  end
  ch = rn.chan(2, transducer, function() act() end):name "c"
  if is_full then ch:put(1) end
  is_active = true
  if is_closing then ch:close() else is(ch:put(2), true) end
  is(what .. " " .. tostring(said), what .. " " .. (is_closing and closed or open))
  is(ch:closed(), is_closing or what == "close")
  if is_full then is(ch:take(), 1) end
  if not is_closing and who == "transducer" then is(ch:take(), 2) end
  is(ch:stats().takes_waiting + ch:stats().puts_waiting, 0)
  is(#ch, 0)
end

function only.a_transducer_and_its_channel(is)
  for _, use in ipairs(USES) do
    for _, who in ipairs { "transducer", "handler" } do
      for bits = 0, 3 do
        use_it(is, use, who, bits & 1 == 1, bits & 2 == 2)
        sim.run(use_it, nil, is, use, who, bits & 1 == 1, bits & 2 == 2)
      end
    end
  end
end

return only
