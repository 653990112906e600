---Particular programs in which the collector runs a whole cycle at each allocation, as in particular_finalizers.lua,
---while something waits, or has waited. As particular_core.lua.

local internal = require("runnel.core").internal
local meanwhile = require "tests.prove.meanwhile"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

local function noop() end

-- run returns what its function has returned, although the coroutine has ended: also if its memory would be used again,
-- were it free.
function only.results_of_run(is)
  for n = 0, 60, 7 do
    local list
    local function values()
      local made = {}
      for i = 1, n do made[i] = { i } end
      return table.unpack(made)
    end
    meanwhile(noop, function()
      list = table.pack(rn.run(function()
        rn.yield()
        return values()
      end))
    end)
    is(list.n, n)
    for i = 1, n do is(list[i][1], i) end
    local others = {}
    list = not internal.is_simulation() and table.pack(rn.run(function()
      rn.yield()
      internal.on_close(internal.self "run", function()
        collectgarbage()
        for i = 1, 100 do
          others[i] = coroutine.create(function(...) return select("#", ...), coroutine.yield() end)
          coroutine.resume(others[i], values())
        end
      end)
      return values()
    end)) or list
    is(list.n, n)
    for i = 1, n do is(list[i][1], i) end
  end
end

-- A finalizer cannot wait while a deadlock is told, which would use what the main program's operation uses.
function only.deadlocks(is)
  if internal.is_simulation() then return end
  local operations = {
    function(ch) return ch:take() end,
    function(ch) return ch:put(1) end,
    function(ch) return rn.alts { rn.chan(), ch } end,
  }
  for _, operation in ipairs(operations) do
    local ch, other, waited = rn.chan(), rn.chan(), 0
    for _ = 1, 3 do
      local _, err = meanwhile(function() if pcall(other.take, other) then waited = waited + 1 end end, operation, ch)
      is(tostring(err):match "deadlock", "deadlock")
    end
    is(waited, 0)
    is(ch:offer(1), nil)
    is(ch:poll(), nil)
    is(other:offer(1), nil)
    is(ch:stats().puts_waiting + ch:stats().takes_waiting + other:stats().takes_waiting, 0)
  end
end

-- A value comes to a shared channel, or leaves it, while an operation makes what it needs to wait there.
function only.shared_channels(is)
  if internal.is_simulation() then return end
  local takes = {
    function(ch) return ch:take() end,
    function(ch)
      local got
      for value in ch do
        got = value
        ch:close()
      end
      return got
    end,
    function(ch) return (rn.alts { rn.chan(), ch }) end,
    function(ch)
      local result = rn.chan(1)
      ch:take_async(function(value) result:put(value) end)
      return result:take()
    end,
  }
  local puts = {
    function(ch) return ch:put(2) end,
    function(ch) return (rn.alts { rn.chan(), { ch, 2 } }) end,
    function(ch)
      local result = rn.chan(1)
      ch:put_async(2, function(is_put) result:put(is_put) end)
      return result:take()
    end,
  }
  local places = { function(f, ch) return f(ch) end, function(f, ch) return (rn.go(f, ch):take()) end }
  for _, place in ipairs(places) do
    for turn = 0, 12 do
      for _, take in ipairs(takes) do
        local ch, at = rn.shared_chan(1), 0
        local _, took = meanwhile(function()
          at = at + 1
          if at == turn + 1 then ch:offer(1) end
        end, function()
          local late = rn.go(function()
            rn.sleep(1)
            if at <= turn then ch:offer(1) end
            at = turn + 1
          end)
          local value = place(take, ch)
          late:take()
          return value
        end)
        is(took, 1)
        is(ch:poll(), nil)
      end
      for _, give in ipairs(puts) do
        local ch, at = rn.shared_chan(1), 0
        ch:put(1)
        local _, put = meanwhile(function()
          at = at + 1
          if at == turn + 1 then is(ch:poll(), 1) end
        end, function()
          local late = rn.go(function()
            rn.sleep(1)
            if at <= turn then is(ch:poll(), 1) end
            at = turn + 1
          end)
          local is_put = place(give, ch)
          late:take()
          return is_put
        end)
        is(put, true)
        is(ch:poll(), 2)
        is(ch:poll(), nil)
      end
    end
  end
end

-- An alts sees what a finalizer has done while it made its block of waiters; and nothing is lost.
function only.alts(is)
  local sizes = { 1, 2, 8, 9, 64, 70 }
  for _, size in ipairs(sizes) do
    for _, act in ipairs { "offer", "poll", "close", "cancel" } do
      sim.run(function()
        local chans, ops, gone, n = {}, {}, 0, 0
        for i = 1, size do
          chans[i] = rn.chan(1)
          ops[i] = act == "poll" and { chans[i], i } or chans[i]
          if act == "poll" then chans[i]:put(0) end
        end
        local goes, ended = {}, {}
        for i = 1, 70 do -- more than the blocks that are kept
          goes[i] = rn.go(function()
            local value, port = rn.alts(ops)
            ended[i] = tostring(value) .. (port and "" or " without a port")
            return i
          end)
        end
        local at = 0
        meanwhile(function()
          at = at + 1
          local ch = chans[at % size + 1]
          if act == "offer" and ch:offer(at) then gone = gone + 1 end
          if act == "poll" and ch:poll() then gone = gone + 1 end
          if act == "close" and at == 150 then ch:close() end
          if act == "cancel" and goes[at] then rn.cancel(goes[at], "cancelled") end
        end, function() for _ = 1, 3 do rn.yield() end end)
        rn.yield()
        for i = 1, 70 do if ended[i] then n = n + 1 end end
        local held = 0
        for i = 1, size do held = held + #chans[i] end
        if act == "offer" then is(n + held, gone) end
        if act == "poll" then is(n + size - held, gone) end
        for i = 1, 70 do
          rn.cancel(goes[i], "at the end")
          local value, why = goes[i]:take()
          is(value == i or why == "at the end" or why == "cancelled", true)
        end
        for i = 1, size do is(chans[i]:stats().takes_waiting + chans[i]:stats().puts_waiting, 0) end
      end)
    end
  end
end

return only
