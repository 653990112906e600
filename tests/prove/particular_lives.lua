---Particular programs about how go blocks end: variables that are closed, where a cancelled go block may wait, errors
---that are passed on. As particular_core.lua.

local channels = require "tests.prove.channels"
local core = require "runnel.core"
local gc = require "spec.support.gc"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local internal = core.internal

local only = {}

-- ---- variables ----

-- All ways to write a `__close`. Each calls log(the variable, the error).
local function ways_to_close(log)
  local function callable(call)
    return setmetatable({}, { __close = setmetatable({}, { __call = call }) })
  end
  local list = {
    setmetatable({}, { __close = function(v, e) log(v, e) end }),
    setmetatable({}, { __close = function(...) log(...) end }),
    setmetatable({}, { __close = function(v, ...) log(v, ...) end }),
    setmetatable({}, { __close = function(v, e, ...) log(v, e, ...) end }),
    callable(function(_, v, e) log(v, e) end),
    callable(function(_, v, ...) log(v, ...) end),
    callable(function(_, ...) log(...) end),
    callable(function(...) log(select(2, ...)) end),
    callable(function(_, v, e, ...)
      local first, second = v, e
      log(first, second, ...)
    end),
  }
  local itself = setmetatable({}, { __call = function(_, v, e) log(v, e) end })
  getmetatable(itself).__close = itself
  list[#list + 1] = itself
  return list
end

local function close_all(is, ending, waits)
  local logged, expected = {}, {}
  local list
  list = ways_to_close(function(v, e)
    local number = "?"
    for i, one in ipairs(list) do if one == v then number = i end end
    logged[#logged + 1] = number .. " " .. plain(e)
    if waits then rn.sleep(1) end
  end)
  local function deeper(i)
    if i <= #list then
      local _ <close> = list[i]
      deeper(i + 1)
      return
    end
    if ending == "error" then error("raised", 0) end
    if ending == "table" then error(setmetatable({}, { __tostring = function() return "an object" end })) end
    if ending == "cancel" then rn.sleep(1000) end
    if ending == "yield" then coroutine.yield() end
  end
  local go = rn.go(deeper, 1)
  rn.yield()
  if ending == "cancel" then is(rn.cancel(go, "cancelled"), true) end
  local why = select(2, go:take())
  for i = #list, 1, -1 do expected[#expected + 1] = i .. " " .. plain(ending ~= "return" and why or nil) end
  is(table.concat(logged, "; "), table.concat(expected, "; "))
  local text = { error = "raised", cancel = "cancelled", table = "an object" }
  if text[ending] then is(tostring(why), text[ending]) end
end

-- Whatever kind of function closes a variable, it is called once, with the variable and the error.
function only.ways_to_close(is)
  rn.on_error(function() end)
  for _, ending in ipairs { "return", "error", "table", "cancel", "yield" } do
    for _, waits in ipairs { false, true } do sim.run(close_all, nil, is, ending, waits) end
  end
  rn.on_error(nil)
end

-- The same while the collector runs a whole cycle at each of its steps, and while a debug hook looks.
function only.ways_to_close_while_others_look(is)
  rn.on_error(function() end)
  gc.always()
  for _ = 1, 15 do
    for _, ending in ipairs { "error", "cancel" } do
      sim.run(close_all, nil, is, ending, true)
      for i = 1, 30 do local _ = ("x"):rep(i * 31) end
    end
  end
  gc.usual()
  -- What closes variables has the hook of the main program.
  for _, mask in ipairs { "", "c", "l" } do
    local seen = "not closed"
    debug.sethook(mask ~= "" and function() end or nil, mask)
    rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() seen = select(2, debug.gethook()) end })
      debug.sethook()
      error("raised", 0)
    end):take()
    debug.sethook()
    is(seen or "", mask)
  end
  rn.on_error(nil)
end

-- A go block that was cancelled, and has got the error, may wait where a variable is closed, and only there.
function only.where_a_cancelled_go_block_may_wait(is)
  local function wait() rn.sleep(5) end
  local function closing() return setmetatable({}, { __close = wait }) end
  local function fails()
    local _ <close> = closing()
    error("inner", 0)
  end
  local function handler(err) return err end
  local function deep(n)
    if n == 0 then pcall(fails) end
    if n > 0 then deep(n - 1) end
    return n
  end
  local places = {
    { "many calls deep", true, function() deep(170) end },
    { "plain", false, wait },
    { "pcall", false, function() assert(pcall(wait)) end },
    { "xpcall", false, function() assert(xpcall(wait, handler)) end },
    { "a block", true, function() do local _ <close> = closing() end end },
    { "a function", true, function() return (function() local _ <close> = closing() return 1 end)() end },
    { "goto", true, function()
      do
        local _ <close> = closing()
        if wait then goto after end
      end
      ::after::
    end },
    { "an error in pcall", true, function() pcall(fails) end },
    { "with arguments", true, function() pcall(fails, 1, 2, 3) end },
    { "an error in xpcall", true, function() xpcall(fails, handler) end },
    { "xpcall with arguments", true, function() xpcall(fails, handler, 1, 2, 3) end },
    { "pcall in xpcall", true, function() xpcall(pcall, handler, fails) end },
    { "pcall in pcall", true, function() pcall(pcall, pcall, fails) end },
    { "called from a variable", true, function()
      local _ <close> = setmetatable({}, { __close = function() assert(pcall(wait)) end })
    end },
    { "a loop", true, function() for _ in next, { 1 }, nil, closing() do wait = wait end end },
    { "after a variable", false, function()
      do local _ <close> = setmetatable({}, { __close = function() end }) end
      wait()
    end },
  }
  for _, place in ipairs(places) do
    local name, may_wait, f = table.unpack(place)
    sim.run(function()
      local took, ok
      local go = rn.go(function()
        pcall(rn.sleep, 1000)
        local began = rn.now()
        ok = pcall(f)
        took = rn.now() - began
      end)
      rn.yield()
      is(rn.cancel(go, "cancelled"), true)
      go:take()
      is(name .. tostring(ok), name .. tostring(may_wait))
      is(name .. (took == 5 and 5 or 0), name .. (may_wait and 5 or 0))
    end)
  end
end

-- Each cancellation is told once where variables are closed: also one by itself, and a second one.
function only.each_cancellation_is_told(is)
  for _, by in ipairs { "itself", "others", "others, twice", "others, when it is ready" } do
    sim.run(function()
      local log, ch, go = {}, rn.chan(), nil
      local function say(f, ...)
        local ok, err = pcall(f, ...)
        log[#log + 1] = ("%s@%d"):format(err or ok, rn.now() // 1)
      end
      go = rn.go(function()
        local _ <close> = setmetatable({}, { __close = function()
          if by == "itself" then is(rn.cancel(go, "first"), true) end
          say(rn.sleep, 10)
          say(rn.sleep, 10)
          say(ch.take, ch)
          say(rn.sleep, 10)
        end })
        if by == "others, when it is ready" then ch:take() end
        if by == "others, twice" then say(rn.sleep, 100) end
        return "result"
      end)
      rn.yield()
      if by == "others, when it is ready" then ch:put(1) end
      if by ~= "itself" then is(rn.cancel(go, "first"), true) end
      rn.sleep(5)
      if by == "others, twice" then is(rn.cancel(go, "second"), true) end
      rn.sleep(30)
      ch:put "taken"
      is(go:take(), "result")
      local expected = by == "others, twice" and "first@0 second@5 true@15" or "first@0 true@10" -- at once
      is(table.concat(log, " "), expected .. " taken@35 true@45")
    end)
  end
end

-- One that is cancelled while it dies, and ends with that error: nobody is told of it.
function only.cancelled_while_it_dies(is)
  for _, first in ipairs { "error", "cancel" } do
    for _, catches in ipairs { true, false } do
      sim.run(function()
        local reports, reported = 0, nil
        rn.on_error(function() reports = reports + 1 end)
        local go = internal.go_feeding(function(_, _, _, is_reported) reported = is_reported end, rn.chan(), function()
          local _ <close> = setmetatable({}, { __close = function()
            if catches then pcall(rn.sleep, 50) else rn.sleep(50) end
          end })
          if first == "error" then error("raised", 0) end
          rn.sleep(50)
        end)
        rn.yield()
        if first == "cancel" then is(rn.cancel(go, "first"), true) end
        rn.sleep(1)
        is(rn.cancel(go, "second"), true)
        rn.sleep(1)
        local expected = catches and (first == "error" and "raised" or "first") or "second"
        is(internal.is_cancellation(go, "second"), true)
        is(reported, expected == "raised")
        internal.report_unhandled()
        is(reports, expected == "raised" and 1 or 0)
        is(select(2, go:take()), expected)
        rn.on_error(nil)
      end)
    end
  end
end

-- ---- errors that are passed on ----

-- The function that is called for a dead go block runs outside of it, whatever has ended it.
function only.whose_host_it_is(is)
  local host = internal.host
  local waits = function() rn.sleep(1000) end
  local endings = {
    error = { function() error("raised", 0) end },
    cancel = { waits, function(go) rn.cancel(go, "cancelled") end },
    close = { waits, function(go) coroutine.close(internal.coroutine_of(go)) end },
    resume = { waits, function(go) coroutine.resume(internal.coroutine_of(go)) end },
    ["close early"] = { waits, function(go) coroutine.close(internal.coroutine_of(go)) end, true },
    ["resume early"] = { function() end, function(go) coroutine.resume(internal.coroutine_of(go)) end, true },
    ["run early"] = { rn.yield, function(go) coroutine.resume(internal.coroutine_of(go)) end, true },
  }
  rn.on_error(function() end)
  for _, ending in pairs(endings) do
    local body, meddle, is_early = table.unpack(ending)
    local calls, go = 0, nil
    rn.go(function()
      host(5)
      go = internal.go_feeding(function()
        calls = calls + 1
        is(host(), 0)
      end, rn.chan(), body)
    end)
    rn.step(1)
    if not is_early then rn.step(1) end
    if meddle then meddle(go) end
    for _ = 1, 3 do rn.yield() end
    is(calls, 1)
    is(go:closed(), true)
  end
  internal.report_unhandled()
  rn.on_error(nil)
end

-- What is closed already stays closed for its own reason.
function only.closed_before(is)
  for _, make in ipairs(channels) do
    for bits = 0, 3 do
      local reason, has_done = bits & 1 == 1 and "its own", bits & 2 == 2
      sim.run(function()
        rn.on_error(function() end)
        local fed = make()
        local done = has_done and fed:done()
        fed:offer(1)
        fed:close(reason or nil)
        is(not done or done:closed(), true)
        internal.go_feeding(internal.close_fed, fed, function() error("raised", 0) end):take()
        internal.close_fed({ fed, fed }, "again")
        fed:close("once more")
        local value, why
        repeat value, why = fed:take() until value == nil or make == channels.promise
        if make ~= channels.promise then is(why, reason or nil) end
        is(fed:closed(), true)
        internal.report_unhandled()
        rn.on_error(nil)
      end)
    end
  end
end

-- A channel that is closed because what fed it has died has an error that is known; one that a program closes has not.
function only.errors_that_are_known(is)
  sim.run(function()
    rn.on_error(function() end)
    local is_known = internal.is_error_known
    for i, make in ipairs(channels) do
      for _, closes in ipairs { "close_fed", "program", "nothing" } do
        for _, outer in ipairs { false, true } do
          local fed, other, later = make(), rn.chan(), rn.chan()
          local function give_up(_, reason)
            if outer then rn.go(function() error("nested", 0) end) end
            if closes == "nothing" then error("gives nothing up", 0) end
            if closes == "close_fed" then internal.close_fed(fed, reason) end
            if closes == "program" then fed:close(reason) end
            other:close("as well")
          end
          local go = internal.go_feeding(give_up, fed, function() error("raised", 0) end)
          rn.sleep(1)
          later:close("later")
          is(fed:closed(), true)
          if i < 6 then is(is_known(fed), true) end
          is(select(2, fed:take()), "raised")
          if closes ~= "nothing" then is(is_known(other), true) end
          is(is_known(later), false)
          is(select(2, later:take()), "later")
          is(select(2, go:take()), "raised")
        end
      end
    end
    internal.report_unhandled()
    rn.on_error(nil)
  end)
end

return only
