---Particular programs about how go blocks end: variables that are closed, debug hooks, coroutines that other code
---closes or resumes before they begin or while they wait, errors that are passed on. As particular_core.lua.

local core = require "runnel.core"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local internal = core.internal
local BURIED = "the coroutine of the go block was closed or resumed by other code"

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
  local pause, mul = collectgarbage("setpause", 1), collectgarbage("setstepmul", 1000)
  for _ = 1, 15 do
    for _, ending in ipairs { "error", "cancel" } do
      sim.run(close_all, nil, is, ending, true)
      for i = 1, 30 do local _ = ("x"):rep(i * 31) end
    end
  end
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", mul)
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

-- ---- other code ----

-- What other code does to the coroutine of a go block, and what the scheduler must then find.
local MEDDLING = {
  close = function(co) coroutine.close(co) end,
  resume = function(co) coroutine.resume(co) end,
  wrap = function(co) for _ = 1, 3 do coroutine.resume(co, 1, 2) end end,
  ["close without the guard"] = function(co)
    debug.sethook(co, function() error("of the hook", 0) end, "c")
    coroutine.close(co)
  end,
}

-- Before it begins, by the number of its arguments and by what its function does then; many in one run of the loop.
function only.meddled_with_before_it_begins(is)
  for _, name in ipairs { "close", "resume", "wrap", "close without the guard" } do
    for _, does in ipairs { "returns", "raises", "yields", "waits", "lets others run" } do
      local function meddle_with_many()
        rn.on_error(function() end)
        local list, other = {}, rn.chan()
        for i = 1, 120 do
          list[i] = rn.go(function(...)
            if does == "raises" then error("early", 0) end
            if does == "yields" then coroutine.yield() end
            if does == "waits" then other:take() end
            if does == "lets others run" then rn.yield() end
            return ...
          end, table.unpack({ 1, 2, 3 }, 1, i % 4))
          pcall(MEDDLING[name], internal.coroutine_of(list[i]))
        end
        local well = rn.go(function() return "well" end)
        rn.sleep(1)
        for i = 1, #list do
          is(list[i]:closed(), true)
          local value, err = list[i]:take()
          is(value, nil)
          is(err, BURIED)
          is(rn.cancel(list[i]), false)
        end
        is(well:take(), "well")
        is(other:stats().takes_waiting, 0)
        rn.on_error(nil)
      end
      sim.run(meddle_with_many)
      if does ~= "waits" then meddle_with_many() end -- outside any go block it runs the loop
    end
  end
end

local function queue()
  local values = {}
  return { full = function() return #values >= 1 end, add = function(_, v) values[1] = v end,
    remove = function() return table.remove(values) end, count = function() return #values end }
end

local CHANNELS = {
  function() return rn.chan() end, function() return rn.chan(1) end, function() return rn.promise_chan() end,
  function() return rn.chan(queue()) end, function() return rn.chan(1, function(rf) return rf end) end,
  function() return rn.shared_chan(1) end,
}
local WAITS = {
  take = function(ch) ch:take() end,
  ["for"] = function(ch) for _ in ch do ch = ch or nil end end,
  alts = function(ch) rn.alts { ch, rn.chan() } end,
  alt = function(ch) rn.alt { { ch, function() end }, { rn.chan(), function() end } } end,
  put = function(ch)
    ch:offer(0)
    ch:put(1)
  end,
  ["alts with a put"] = function(ch)
    ch:offer(0)
    rn.alts({ { ch, 1 }, rn.chan() }, { priority = true })
  end,
  sleep = function() rn.sleep(10) end,
  timeout = function() rn.timeout(10):take() end,
}

-- While it waits: nothing is lost, and what it keeps for itself lives until its variables are closed.
function only.meddled_with_while_it_waits(is)
  for _, make in ipairs(CHANNELS) do
    for name, wait in pairs(WAITS) do
      for how, meddle in pairs(MEDDLING) do
        sim.run(function()
          rn.on_error(function() end)
          local is_kept = how ~= "close"
          local co, taken, closed = nil, {}, 0
          local ch = is_kept and make() or nil
          local go = rn.go(function()
            co = coroutine.running()
            local _ <close> = setmetatable({}, { __close = function()
              collectgarbage()
              local kept = {}
              for i = 1, 200 do kept[i] = ("y"):rep(i % 40 * 8) end
              closed = closed + #kept // 200
              if how == "close" then return end
              -- It still may wait, and its operations do what they do elsewhere.
              local mine, never = rn.chan(), rn.chan()
              rn.go(function() mine:put("mine") end)
              local value, port = rn.alts { mine, never }
              taken[1] = value == "mine" and port == mine
              rn.go(function() mine:close("an error") end)
              taken[2] = select(2, mine:take())
            end })
            wait(ch or make())
          end)
          rn.yield()
          if name:find "put" and make == CHANNELS[3] then return end -- it has not waited
          local waited = internal.state(go) ~= nil
          pcall(meddle, co)
          if ch and waited then
            -- what waits there now is no go block any more
            is(ch:stats().puts_waiting + ch:stats().takes_waiting <= 1, true)
            if name:find "put" then
              ch:poll()
              ch:poll()
            else
              ch:offer(7)
            end
          end
          rn.sleep(50)
          is(go:closed(), true)
          if waited then
            local value, err = go:take()
            is(value, nil)
            if how ~= "close without the guard" then is(err, BURIED) end
          end
          if how == "close" then is(closed, 1) end
          if how == "resume" and waited then
            is(taken[1], true)
            is(taken[2], "an error")
          end
          if ch then is(ch:stats().puts_waiting + ch:stats().takes_waiting, 0) end
          rn.on_error(nil)
        end)
      end
    end
  end
end

-- Debug hooks of a go block's own do not see the scheduler's work, and cannot break it.
function only.hooks_of_go_blocks(is)
  for _, ending in ipairs { "return", "error", "wait" } do
    for _, mask in ipairs { "c", "r", "cr", "l" } do
      sim.run(function()
        local armed
        local go = rn.go(function()
          debug.sethook(function() if armed then error("of the hook", 0) end end, mask)
          if ending == "wait" then rn.sleep(1) end
          if ending == "error" then error("raised", 0) end
          armed = mask == "c"
          return "result"
        end)
        local value, err = go:take()
        is(value, ending ~= "error" and "result" or nil)
        is(err, ending == "error" and "raised" or nil)
        is(rn.go(function() return debug.gethook() end):take(), nil)
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

-- A channel that is closed because what fed it has died has an error that is known; one that a program closes has not.
function only.errors_that_are_known(is)
  sim.run(function()
    rn.on_error(function() end)
    local is_known = internal.is_error_known
    for i, make in ipairs(CHANNELS) do
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
          is(select(2, go:take()), "raised")
        end
      end
    end
    internal.report_unhandled()
    rn.on_error(nil)
  end)
end

return only
