---Particular programs about what the core keeps: memory for operations, what waiting go blocks wait on, who has used up
---a buffer, since when one waits; and threads, which wake each other. As particular_core.lua.

local core = require "runnel.core"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- ---- memory ----

local function bytes_of(f)
  collectgarbage()
  collectgarbage "stop"
  local before = collectgarbage "count"
  f()
  local used = (collectgarbage "count" - before) * 1024
  collectgarbage "restart"
  return used
end

local function policy()
  local values = { 0 } -- with room for one
  values[1] = nil
  return { full = function() return #values > 0 end, add = function(_, v) values[1] = v end,
    remove = function() return table.remove(values) end, count = function() return #values end }
end

local PRIORITY = { priority = true }

-- Waiting on ever other channels needs no more memory than waiting on one: those that are not needed are forgotten.
function only.other_channels(is)
  local makers = { rn.chan, function() return rn.chan(1) end, function() return rn.chan(policy()) end,
    function() return rn.promise_chan() end, function() return rn.chan(1, function(rf) return rf end) end }
  local waits = {
    take = function(list) list[1]:take() end,
    alts = function(list) rn.alts(list) end,
    priority = function(list) rn.alts(list, PRIORITY) end,
  }
  for k, make in ipairs(makers) do
    for name, wait in pairs(waits) do
      for _, size in ipairs(name == "take" and { 1 } or { 1, 8, 20 }) do
        sim.run(function()
          local N, lists = 2000 // size, {}
          for i = 1, N do
            lists[i] = {}
            for m = 1, size do lists[i][m] = make() end
          end
          local at = 0
          local used = bytes_of(function()
            rn.go(function()
              for i = 1, N do
                at = i
                wait(lists[i])
              end
              at = 0
            end)
            rn.yield()
            while at > 0 do
              lists[at][size]:offer(1)
              rn.yield()
            end
          end)
          is(k .. name .. size .. (used < 16000 and "" or " needs " .. used), k .. name .. size)
        end)
      end
    end
  end
end

-- The blocks of alts that wait at the same time are used again, whatever has ended them.
function only.blocks_come_back(is)
  local N = 30
  for _, size in ipairs { 2, 20 } do
    for _, ending in ipairs { "value", "close", "close with a reason", "put" } do
      local function round(is_first)
        local used
        sim.run(function()
          local ops, ch = {}, rn.chan()
          for i = 1, size do ops[i] = rn.chan() end
          ops[1] = ending == "put" and { ch, 1 } or ch
          local function wait()
            if is_first then ch:take() else rn.alts(ops) end
          end
          used = bytes_of(function()
            for _ = 1, N do rn.go(wait) end
            rn.yield()
          end) / N
          if ending == "close" then ch:close() end
          if ending == "close with a reason" then ch:close("why") end
          if ending == "put" then for _ = 1, N do ch:poll() end end
          if ending == "value" then for _ = 1, N do ch:offer(1) end end
          rn.yield()
          ch:close()
        end)
        return used
      end
      local without = round(true)
      for _ = 1, 2 do round() end
      local with = round()
      is(with - without < size * 32 + 250 and "used again" or with - without, "used again")
    end
  end
end

-- A waiting alts of a few operations needs a small block of waiters.
function only.small_blocks(is)
  local ops = { rn.chan(), rn.chan() }
  local function start(f) for _ = 1, 200 do rn.go(f) end end
  local function bytes_with(f)
    local used
    sim.run(function()
      used = bytes_of(function()
        start(f)
        rn.yield()
      end) / 200
      for _, ch in ipairs(ops) do ch:close() end
      ops = { rn.chan(), rn.chan() }
    end)
    return used
  end
  local one = bytes_with(function() ops[1]:take() end)
  local two = bytes_with(function() rn.alts(ops) end)
  is(two < one + 800 and "small" or two - one, "small")
end

-- An alts that tries again, because a policy has let others run, gives its block back.
function only.alts_again(is)
  sim.run(function()
    local values, other, n = {}, rn.chan(1), 0
    local ch = rn.chan { full = function()
      n = n + 1
      if n % 2 == 1 then other:offer "meanwhile" end
      return true
    end, add = function(_, v) values[1] = v end, remove = function() return table.remove(values) end,
      count = function() return #values end }
    local ops, opts = { other, { ch, 1 } }, { priority = true }
    local got
    local function one()
      n = 0
      got = rn.alts(ops, opts)
    end
    for _ = 1, 5 do one() end
    local used = bytes_of(function() for _ = 1, 300 do one() end end)
    is(got, "meanwhile")
    is(used < 5000 and "little" or used, "little")
  end)
end

-- More alts at a time than there are blocks for: the blocks live until the variables of their go blocks are closed.
function only.blocks_are_kept(is)
  for _, size in ipairs { 2, 9, 70 } do
    sim.run(function()
      local function fill(text, n) -- so that memory that is free, or new, is not zero
        local list = {}
        for i = 1, n do list[i] = text:rep(i % 90 * 50 + 20) end
        return #list
      end
      fill("\xff", 3000)
      collectgarbage()
      local coroutines, closed, goes = {}, 0, {}
      for i = 1, 150 do
        goes[i] = rn.go(function()
          coroutines[i] = coroutine.running()
          local _ <close> = setmetatable({}, { __close = function()
            if i % 10 == 1 then
              collectgarbage()
              fill("\xee", 300)
            end
            closed = closed + 1
          end })
          local ops = {}
          for k = 1, size do ops[k] = rn.chan() end
          rn.alts(ops)
        end)
      end
      rn.yield()
      for i = 1, 150 do coroutine.close(coroutines[i]) end
      is(closed, 150)
      for i = 1, 150 do is(goes[i]:closed(), true) end
    end)
  end
end

-- ---- what is told ----

-- ps tells since when a go block waits, by each operation that waits, the first time and later.
function only.since_when(is)
  sim.run(function()
    local ch, other = rn.chan():name "waited for", rn.chan()
    local waits = {
      function() ch:take() end, function() ch:put(1) end, function() rn.alts { ch, other } end,
      function() ch() end,
    }
    for _, wait in ipairs(waits) do
      local go = rn.go(function()
        rn.sleep(3)
        wait()
        rn.sleep(4)
        wait()
      end)
      for i = 1, 2 do
        rn.sleep(20)
        local entry = core.internal.state(go)
        is(entry.state, "parked")
        is(entry.waited, i == 1 and 17.0 or 16.0)
        ch:poll()
        ch:offer(1)
      end
      rn.sleep(10)
      is(go:closed(), true)
    end
  end)
end

-- Who has used up a buffer is named, and 0 is all code that is no go block's.
function only.who_has_used_it_up(is)
  local takers = {
    main = function(ch) ch:take() end,
    ["main, after others"] = function(ch)
      rn.go(function() end)
      rn.yield()
      ch:take()
    end,
    ["main, after a run"] = function(ch)
      rn.go(function() end)
      if not core.internal.is_simulation() then rn.step() end
      ch:poll()
    end,
    ["a callback"] = function(ch) ch:take_async(function() end) end,
    ["a callback of a timer"] = function(ch)
      rn.timeout(1):take_async(function() ch:poll() end)
      rn.sleep(3)
    end,
    ["a go block"] = function(ch, never)
      return rn.go(function()
        ch:take()
        never:take()
      end)
    end,
    ["a go block that others have put on"] = function(ch, never)
      ch:take()
      local go = rn.go(function()
        ch:take()
        never:take()
      end)
      rn.yield()
      ch:put(1)
      return go
    end,
    ["a put that has waited"] = function(ch, never)
      local go = rn.go(function()
        ch:put(2)
        never:take()
      end)
      rn.yield()
      ch:take()
      return go
    end,
    ["a driver"] = function(ch)
      if core.internal.is_simulation() then return ch:take() end
      local previous = rn.driver { alive = function() return false end, wait = function() ch:poll() end }
      rn.go(function() end)
      rn.sleep(3)
      rn.driver(previous)
    end,
  }
  local function each(main_id)
    for name, take in pairs(takers) do
      local ch, never = rn.chan(1), rn.chan()
      local is_place = name == "a put that has waited"
      ch:put(1)
      local taker = take(ch, never)
      rn.yield()
      local waits = rn.go(function() if is_place then ch:put(3) else ch:take() end end)
      rn.yield()
      local holder, id = nil, nil
      for _, entry in ipairs(rn.ps()) do
        if entry.result == waits then holder = entry.holder end
        if taker and entry.result == taker then id = entry.id end
      end
      local expected = id or name == "a callback of a timer" and holder.id or main_id
      is(name .. " " .. holder.id, name .. " " .. expected)
      never:close()
      rn.cancel(waits)
      rn.yield()
    end
  end
  each(0)
  sim.run(function()
    local id
    for _, entry in ipairs(rn.ps()) do if entry.state == "running" then id = entry.id end end
    each(id)
  end)
end

-- ps shows callbacks that wait, but not the library's own.
function only.hidden_callbacks(is)
  for _, where in ipairs { "inside", "outside" } do
    local function count()
      local ch, n, calls = rn.chan(), #rn.ps(), 0
      local function called() calls = calls + 1 end
      ch:put_async(1, called)
      is(#rn.ps(), n + 1)
      ch:put_async(2, called, false)
      is(#rn.ps(), n + 2)
      core.internal.moving.put_later(ch, 3, called)
      is(#rn.ps(), n + 2)
      for i = 1, 3 do is(ch:take(), i) end
      rn.yield()
      is(calls, 3)
      is(#rn.ps(), n)
    end
    if where == "inside" then sim.run(count) else count() end
  end
end

-- A callback that waits is dropped by a cancel; one that is about to be called is not.
function only.cancelled_callbacks(is)
  for _, what in ipairs { "take", "put" } do
    for _, when in ipairs { "waiting", "ready", "closed" } do
      sim.run(function()
        local ch, known, calls, list = rn.chan(), {}, 0, nil
        for _, entry in ipairs(rn.ps()) do known[entry.id] = true end
        local function called(...)
          calls, list = calls + 1, table.pack(...)
        end
        if what == "take" then ch:take_async(called, false) else ch:put_async("mine", called, false) end
        local go
        for _, entry in ipairs(rn.ps()) do if not known[entry.id] then go = entry.result end end
        if when == "ready" then
          if what == "take" then ch:offer "theirs" else is(ch:poll(), "mine") end
        elseif when == "closed" then
          ch:close()
          if what == "put" then is(ch:poll(), "mine") end
        end
        is(rn.cancel(go, "cancelled"), when == "waiting")
        rn.yield()
        is(calls, when == "waiting" and 0 or 1)
        if calls == 1 then is(list[1], what == "put" or when == "ready" and "theirs" or nil) end
        is(ch:stats().takes_waiting + ch:stats().puts_waiting, 0)
        is(rn.cancel(go), false)
        is(go:closed(), true)
      end)
    end
  end
end

-- A simulation knows how many go blocks it has left, and of what they wait for.
function only.what_a_simulation_leaves(is)
  local ch = rn.chan():name "left"
  local before = #rn.ps()
  for n = 1, 4 do
    for _, leaks in ipairs { true, false } do
      local function main()
        for _ = 1, n do rn.go(function() return ch:take() end) end
        rn.go(function() rn.sleep(1000) end)
        rn.go(function() end)
        rn.sleep(1)
        rn.go(function() end)
        return n
      end
      local ok, result = pcall(sim.run, main, { leaks = leaks })
      is(ok, not leaks)
      if leaks then is(plain(result):match "^leak: %d", "leak: " .. n) else is(result, n) end
      local left = #rn.ps() - before
      is(left == n or leaks and left == 0, true)
      for _ = 1, left do is(ch:offer(1), true) end
      is(ch:offer(1), nil)
      rn.yield()
      is(#rn.ps(), before)
      is(ch:stats().takes_waiting, 0)
      ok, result = pcall(sim.run, function()
        for _ = 1, n do rn.go(function() return ch:take() end) end
        rn.chan():name("mine"):take()
      end)
      is(ok, false)
      local _, lines = tostring(result):gsub("take on chan: left", "")
      is(lines, n)
      while ch:offer(1) do rn.yield() end
    end
  end
end

return only
