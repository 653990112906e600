---Particular programs about what other code does to go blocks: it closes or resumes their coroutines before they begin
---or while they wait, sets debug hooks, and wakes them in another world. As particular_core.lua.

local channels = require "tests.prove.channels"
local internal = require("runnel.core").internal
local rn = require "runnel"
local sim = require "runnel.sim"

local BURIED = "the coroutine of the go block was closed or resumed by other code"

local only = {}

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
  for _, make in ipairs(channels) do
    for name, wait in pairs(WAITS) do
      for how, meddle in pairs(MEDDLING) do
        sim.run(function()
          rn.on_error(function() end)
          local is_kept = how ~= "close"
          local co, taken, closed, filled = nil, {}, 0, {}
          local ch = is_kept and make() or nil
          local go = rn.go(function()
            co = coroutine.running()
            local _ <close> = setmetatable({}, { __close = function()
              collectgarbage()
              for i = 1, 400 do filled[i] = ("y"):rep(i % 40 * 8) end -- where memory has become free
              closed = closed + 1
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
          if name:find "put" and make == channels.promise then return end -- it has not waited
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
          for i = 1, #filled do is(filled[i]:find "[^y]", nil) end -- nothing has written there
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

-- Those that other code has ended are garbage afterwards, as all others.
function only.the_dead_are_garbage(is)
  rn.on_error(function() end)
  local before = #rn.ps()
  for name, wait in pairs(WAITS) do
    for _, how in ipairs { "close", "resume", "wrap" } do -- without the guard it is found when its channel is used
      for _, is_weak in ipairs { false, true } do
        local kept = setmetatable({}, { __mode = "k" })
        local function start()
          local ch = rn.chan()
          local go = rn.go(function() wait(ch) end)
          local co = internal.coroutine_of(go)
          kept[ch], kept[go], kept[co] = true, true, true
          rn.step(1)
          return co
        end
        local co = start()
        if is_weak then for _ = 1, 3 do collectgarbage() end end -- nothing else keeps it
        pcall(MEDDLING[how], co)
        co = nil -- luacheck: ignore 311
        for _ = 1, 2 do rn.yield() end
        internal.report_unhandled()
        for _ = 1, 3 do
          collectgarbage()
          rn.yield()
        end
        is(name .. how .. tostring(next(kept)), name .. how .. "nil")
        is(#rn.ps(), before)
      end
    end
  end
  rn.on_error(nil)
end

-- Go blocks of the real world are cancelled, and woken, in a simulation: they go on when it has ended.
function only.across_worlds(is)
  for n = 1, 4 do
    for _, how in ipairs { "cancel", "close", "value" } do
      local list, woken, ch = {}, {}, rn.chan()
      local ways = {
        sleep = function() rn.sleep(20000) end,
        take = function() ch:take() end, alts = function() rn.alts { ch, rn.chan() } end, yield = rn.yield,
      }
      for name, way in pairs(ways) do
        for i = 1, n do
          list[#list + 1] = rn.go(function()
            local ok, err = pcall(way)
            woken[#woken + 1] = ("%s %d %s %s"):format(name, i, ok, err)
          end)
        end
      end
      rn.step(#list)
      local began = rn.now()
      sim.run(function()
        local inner = rn.timeout(5)
        local own = rn.go(function() rn.sleep(3) end)
        for i = #list, 1, -1 do if how == "cancel" then is(rn.cancel(list[i], "why"), true) end end
        if how == "close" then ch:close() end
        for _ = 1, 2 * n do if how == "value" then ch:offer(1) end end
        is(#woken, 0)
        inner:take()
        is(own:closed(), true)
        is(rn.now(), 5.0)
      end)
      for _ = 1, 3 do rn.step() end
      is(#woken, how == "cancel" and 4 * n or 3 * n)
      for _, go in ipairs(list) do rn.cancel(go) end
      rn.run()
      is(#woken, 4 * n)
      is(rn.now() - began < 15000, true)
      is(ch:stats().takes_waiting, 0)
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

return only
