---Particular programs in which the collector runs a whole cycle at each allocation, and each cycle runs a finalizer
---that uses the same channels and timers: an operation must not rely on what it has seen before it allocated. As
---particular_core.lua.

local internal = require("runnel.core").internal
local meanwhile = require "tests.prove.meanwhile"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

local function noop() end

-- Values 1, 2 and so on from the operation, and -1, -2 and so on from the finalizer, each taken once and in order.
local function is_in_order(is, ch, taken)
  local last, seen = { [true] = 0, [false] = 0 }, 0
  for value in function() return ch:poll() end do taken[#taken + 1] = value end
  for _, value in ipairs(taken) do
    is(math.abs(value), last[value > 0] + 1)
    last[value > 0] = math.abs(value)
    seen = seen + 1
  end
  return seen, last[true], last[false]
end

-- Buffers that grow, of which a finalizer takes, and on which it puts.
function only.buffers(is)
  local kinds = {
    function() return rn.chan(400) end,
    function() return rn.chan(rn.sliding_buffer(400)) end,
    function() return rn.chan(400, function(rf) return rf end) end,
    function() return rn.chan(rn.dropping_buffer(400)) end,
  }
  for _, make in ipairs(kinds) do
    for _, takes in ipairs { 0, 1, 2, -60 } do -- or it puts many
      for _, way in ipairs { "offer", "put_async" } do
        sim.run(function()
          local ch, theirs, taken, mine = make(), 0, {}, 0
          meanwhile(function()
            for _ = 1, math.max(1, -takes) do
              if theirs < 120 and ch:offer(-theirs - 1) then theirs = theirs + 1 end
            end
            for _ = 1, takes do taken[#taken + 1] = ch:poll() end
          end, function()
            for i = 1, 60 do
              if way == "offer" then is(ch:offer(i), true) else ch:put_async(i, noop) end
              mine = i
            end
          end)
          local seen, of_mine, of_theirs = is_in_order(is, ch, taken)
          is(of_mine, mine)
          is(of_theirs, theirs)
          is(seen, mine + theirs)
          is(ch:stats().put_total, mine + theirs)
          is(ch:stats().take_total, mine + theirs)
        end)
      end
    end
  end
end

-- At most 1024 operations wait, also if a finalizer begins one at the last moment, or ends one.
function only.limits(is)
  for _, is_put in ipairs { true, false } do
    for _, act in ipairs { "fill", "serve", "close" } do
      for before = 1021, 1024 do
        sim.run(function()
          local ch, done, begun = rn.chan(), 0, 0
          local function ended() done = done + 1 end
          local function begin()
            if is_put then ch:put_async(1, ended) else ch:take_async(ended) end
            begun = begun + 1
          end
          for _ = 1, before do begin() end
          meanwhile(function()
            if act == "fill" then begin()
            elseif act == "close" then ch:close()
            elseif is_put then ch:poll()
            else ch:offer(1) end
          end, begin)
          local stats = ch:stats()
          local waiting = stats.puts_waiting + stats.takes_waiting
          is(waiting <= 1024, true)
          if act == "fill" then is(waiting, begun) end
          rn.yield()
          rn.yield()
          is(done + waiting >= begun, true)
          local rest = ch:stats().puts_waiting + ch:stats().takes_waiting
          is(done + rest, begun)
          ch:close()
          repeat until not is_put or ch:poll() == nil
          rn.sleep(1)
          is(done, begun)
        end)
      end
    end
  end
end

-- There is one done() of a channel, whoever asks first; and one reason.
function only.attributes(is)
  for _, kind in ipairs { "none", "buffer", "go", "promise" } do
    for _, closes in ipairs { false, true } do
      for _, is_named in ipairs { false, true } do
        sim.run(function()
          local ch = kind == "buffer" and rn.chan(2) or kind == "promise" and rn.promise_chan()
            or kind == "go" and rn.go(function() rn.sleep(1) end) or rn.chan()
          if is_named then ch:name "named" end
          local theirs, mine
          meanwhile(function()
            theirs = theirs or ch:done()
            if closes and kind ~= "go" then ch:close "theirs" end
          end, function()
            mine = ch:done()
            if kind ~= "go" then ch:close "mine" end
          end)
          rn.sleep(2)
          is(theirs == nil or theirs == mine, true)
          is(mine == ch:done(), true)
          is(mine:closed(), true)
          is(ch:closed(), true)
          local _, why = ch:take()
          if kind == "go" then is(why, nil) else is(why == "mine" or closes and why == "theirs", true) end
          local _, again = ch:take()
          is(again, why)
        end)
      end
    end
  end
end

-- Timers: none is lost, early or late, while their heap and windows grow.
function only.timers(is)
  for round = 1, 4 do
    sim.run(function()
      local n, wrong, theirs = 0, 0, 0
      local function wait(ms)
        local wanted = rn.now() + ms
        local ch = rn.timeout(ms)
        n = n + 1
        ch:take_async(function()
          n = n - 1
          if rn.now() < wanted or rn.now() >= wanted + 10 then wrong = wrong + 1 end
        end)
      end
      meanwhile(function()
        theirs = theirs + 1
        if theirs < 90 then wait(theirs * 37 % 101 * round) end
        if theirs < 90 and theirs % 7 == 0 then rn.go(rn.sleep, theirs) end
      end, function()
        for i = 1, 70 do
          wait(i * 53 % 97 * round)
          if i % 9 == 0 then rn.sleep(i / 9) end
        end
      end)
      rn.sleep(2000)
      is(n, 0)
      is(wrong, 0)
      is(theirs > 10, true)
    end)
  end
end

-- A finalizer makes many more timers than there are, just when the memory of timers grows.
function only.many_timers_at_once(is)
  for turn = 0, 8 do
    for size = 1, 40, 13 do
      sim.run(function()
        local at, wrong, made, fired = 0, 0, 0, 0
        local function start(ms)
          local began = rn.now()
          made = made + 1
          rn.timeout(ms):take_async(function()
            fired = fired + 1
            if rn.now() - began ~= ms then wrong = wrong + 1 end
          end)
        end
        for i = 1, size do start(i * 20 + 5000) end
        meanwhile(function()
          at = at + 1
          if at == turn + 1 then
            while made < 512 do start(made * 20 % 5000) end -- a power of two: then the larger memory is full, too
          end
        end, function()
          for i = 1, 40 do start(i * 20 + 10000) end
        end)
        rn.sleep(20000)
        is(fired, made)
        is(wrong, 0)
      end)
    end
  end
end

-- The memory of many timeouts is freed when none is pending; but a finalizer makes some at that moment. All have places
-- of their own there, in which others of the same time find them.
function only.forgotten_timeouts(is)
  for turn = 0, 6 do
    sim.run(function()
      for i = 1, 4200 do rn.timeout(i * 11) end
      rn.sleep(50000)
      local at, others, n, mine = 0, {}, 0, nil
      local function wait(timeout, ms)
        local began = rn.now()
        timeout:take_async(function()
          is(rn.now() - began, ms + 0.0)
          n = n + 1
        end)
      end
      meanwhile(function()
        at = at + 1
        if at > turn and at <= turn + 3 then wait(rn.timeout(100 * (at - turn)), 100 * (at - turn)) end
      end, function() mine = rn.timeout(20) end)
      wait(mine, 20)
      rn.sleep(30)
      for i = 1, 100 do others[i] = rn.timeout(1000 + i * 20) end
      rn.sleep(700) -- until those of the finalizers have fired
      local before = n
      for i = 1, 100 do
        is(rn.timeout(300 + i * 20), others[i])
        wait(others[i], 300 + i * 20)
        others[100 + i] = rn.timeout(i * 2000 + 1000)
        wait(others[100 + i], i * 2000 + 1000)
      end
      for i = 1, 100 do is(rn.timeout(i * 2000 + 1000), others[100 + i]) end
      for _ = 1, 3 do collectgarbage() end
      rn.sleep(300000)
      is(n, before + 200)
    end)
  end
end

-- Go blocks are started, cancelled and end.
function only.go_blocks(is)
  sim.run(function()
    local started, ended = 0, 0
    local last
    local function body(n, ...)
      started = started + 1
      local _ <close> = setmetatable({}, { __close = function()
        ended = ended + 1
        rn.yield()
      end })
      is(select("#", ...), n)
      if n == 3 then error("raised", 0) end
      rn.sleep(n)
    end
    rn.on_error(noop)
    local acts, n = 0, 0
    local function start(i)
      n = n + 1
      last = rn.go(body, i, table.unpack({ 1, 2, 3 }, 1, i))
      return last
    end
    meanwhile(function()
      acts = acts + 1
      if acts < 40 then start(acts % 4) end
      if acts % 5 == 0 then rn.cancel(last, acts % 2 == 0 and "why" or nil) end
    end, function()
      for i = 1, 40 do
        local go = start(i % 4)
        if i % 6 == 0 then rn.cancel(go, {}) end
        if i % 3 == 0 then rn.sleep(1) end
      end
    end)
    rn.sleep(100)
    internal.report_unhandled()
    is(ended, started)
    is(started <= n and started > 40, true)
    rn.on_error(nil)
  end)
end

-- A stack that overflows while finalizers run, too: the error says so.
function only.overflows(is)
  local names = ("a, "):rep(199) .. "a" -- large frames: a few thousand calls
  local deep = load("local function deep() local " .. names .. " return 1 + deep() end return deep")()
  local function closing()
    local _ <close> = setmetatable({}, { __close = function() error("closed", 0) end })
    return 1 + deep()
  end
  local reports
  local places = {
    ["a go block"] = function(f) return select(2, rn.go(f):take()) end,
    ["run"] = not internal.is_simulation() and function(f) return select(2, pcall(rn.run, f)) end or nil,
    ["a callback"] = function(f)
      rn.chan(1):put_async(1, f)
      return reports[1]
    end,
    ["a transducer"] = function(f)
      rn.chan(1, function() return f end):put(1)
      return reports[1]
    end,
  }
  for _, is_busy in ipairs { false, true } do
    for name, place in pairs(places) do
      for _, f in ipairs { deep, closing } do
        reports = {}
        rn.on_error(function(err) reports[#reports + 1] = err end)
        local err
        local function overflow() err = place(f) end
        if is_busy then meanwhile(function() end, overflow) else overflow() end
        local found = tostring(err):match(f == deep and "stack overflow" or "closed")
        is(name .. ": " .. tostring(found or err), name .. ": " .. (f == deep and "stack overflow" or "closed"))
      end
    end
  end
  rn.on_error(nil)
end

return only
