---Particular programs about the operations of the library's own go blocks, and about values that must not be kept. As
---particular_core.lua.

local internal = require("runnel.core").internal
local rn = require "runnel"
local sim = require "runnel.sim"

local moving = internal.moving

local only = {}

local function policy(limit)
  local values = {}
  return { full = function() return #values >= limit end, add = function(_, v) values[#values + 1] = v end,
    remove = function() return table.remove(values, 1) end, count = function() return #values end }
end

-- A put that gives up when the channel closes leaves its place in the queue; the others keep theirs.
function only.puts_that_give_up(is)
  local makers = { function() return rn.chan(), 0 end, function() return rn.chan(2), 2 end,
    function() return rn.chan(1, function(rf) return rf end), 1 end, function() return rn.chan(policy(1)), 1 end }
  for _, make in ipairs(makers) do
    for bits = 0, 31 do -- which of five puts give up
      sim.run(function()
        local ch, room = make()
        for i = 1, room do ch:put(-i) end
        local said, expected, stay = {}, {}, {}
        for i = 1, 5 do
          local gives_up = bits >> (i - 1) & 1 == 1
          rn.go(function()
            if gives_up then said[i] = moving.put_while_open(ch, i)
            else said[i] = (i % 2 == 0 and ch.put or moving.put)(ch, i) end
          end)
          expected[i] = not gives_up
          if not gives_up then stay[#stay + 1] = i end
        end
        rn.yield()
        is(ch:stats().puts_waiting, 5)
        ch:close()
        rn.yield()
        is(ch:stats().puts_waiting, #stay)
        for i = 1, 5 do if not expected[i] then is(said[i], false) end end
        for i = 1, room do is(ch:take(), -i) end
        for _, value in ipairs(stay) do is(ch:take(), value) end
        is(ch:take(), nil)
        rn.yield()
        for i = 1, 5 do is(said[i], expected[i]) end
      end)
    end
  end
end

-- The library's own operations wait in any number, and do not count for the program's limit.
function only.uncounted(is)
  for _, is_put in ipairs { true, false } do
    sim.run(function()
      local ch, done = rn.chan(), 0
      local function start(n, f)
        for i = 1, n do
          rn.go(function()
            f(ch, i)
            done = done + 1
          end)
        end
        rn.yield()
      end
      local function waiting() return ch:stats().puts_waiting + ch:stats().takes_waiting end
      start(1100, is_put and moving.put or moving.take)
      is(waiting(), 1100)
      start(1024, is_put and ch.put or ch.take)
      is(waiting(), 2124)
      local ok, err = pcall(is_put and ch.put or ch.take, ch, 1)
      is(ok, false)
      is(tostring(err):match "1024 %a+ wait, which is the limit" ~= nil, true)
      is(pcall(rn.alts, { is_put and { ch, 1 } or ch }), false)
      is(pcall(rn.alt, { { is_put and { ch, 1 } or ch, print } }), false)
      local failed = rn.go(function() return rn.alts { rn.chan(), is_put and { ch, 1 } or ch } end)
      rn.yield()
      is(failed:closed(), true)
      is(tostring(select(2, failed:take())):match "which is the limit" ~= nil, true)
      local other = rn.chan()
      rn.go(function() other:put(5) end)
      is(select("#", other:take()), 1) -- which is no alts
      is(pcall(is_put and ch.put_async or ch.take_async, ch, is_put and 1 or print), false)
      start(3, is_put and moving.put_while_open or moving.take)
      is(waiting(), 2127)
      for _ = 1, 1101 do if is_put then ch:take() else ch:put(1) end end
      rn.yield()
      is(done, 1101)
      start(1, is_put and ch.put or ch.take)
      is(waiting(), 1027)
      is(pcall(is_put and ch.put or ch.take, ch, 1), false)
      ch:close()
      if is_put then for _ in ch do done = done + 0 end end
      rn.yield()
      is(done, 2128)
    end)
  end
end

-- next waits for a value, or until the channel closes for which it is.
function only.next(is)
  for _, polls in ipairs { false, true } do
    for _, first in ipairs { "value", "close to", "close from", "both" } do
      sim.run(function()
        local from, to = rn.chan(1), rn.chan()
        local list
        rn.go(function() list = table.pack(moving.next(from, to, polls)) end)
        rn.yield()
        is(list and list.n, polls and 0 or nil)
        if first == "value" or first == "both" then from:put "v" end
        if first == "close to" or first == "both" then to:close() end
        if first == "close from" then from:close "why" end
        rn.yield()
        is(from:stats().takes_waiting, 0)
        if not polls then
          is(list[1], (first == "value" or first == "both") and "v" or nil)
          is(list[3], first == "close from" and "why" or nil)
        end
      end)
    end
  end
end

-- What one operation is does not change the next one, whether they wait or not.
function only.one_after_another(is)
  local function text(...)
    local list = table.pack(...)
    for k = 1, list.n do list[k] = tostring(list[k]) end
    return table.concat(list, " ", 1, list.n)
  end
  -- Does it, `later` gives it what it waits for; and the text of its results.
  local operations = {
    { function(ch) return text(ch:take()) end, "offer", "v" },
    { function(ch) return text(ch()) end, "offer", "v" },
    { function(ch)
      local value, port = rn.alts { ch, rn.chan() }
      return text(value, port == ch)
    end, "offer", "v true" },
    { function(ch)
      local value, port, err = rn.alts { rn.chan(), ch }
      return text(value, port == ch, err)
    end, "close", "nil true why" },
    { function(ch)
      return text(rn.alt { { rn.chan(), print }, { ch, function(v, port) return v, port == ch, "of the second" end } })
    end, "offer", "v true of the second" },
    { function(ch) return text(ch:take()) end, "close", "nil why" },
    { function(ch) return text(ch:put(1)) end, "poll", "true" },
    { function() return text(rn.sleep(1)) end, "nothing", "" },
    { function() return text(rn.yield()) end, "nothing", "" },
    { function() return text(rn.go(function() error("raised", 0) end):take()) end, "nothing", "nil raised" },
    { function()
      local go = rn.go(function()
        rn.sleep(1)
        error("raised", 0)
      end)
      return text(go:take())
    end, "nothing", "nil raised" },
  }
  for _, where in ipairs { "in a simulation", "outside" } do
    local function main()
      local reports = 0
      rn.on_error(function() reports = reports + 1 end)
      for _, first in ipairs(operations) do
        for _, second in ipairs(operations) do
          for early = 0, 3 do
            local function two()
              for k, operation in ipairs { first, second } do
                local f, what, expected = table.unpack(operation)
                local ch = rn.chan(what == "offer" and 1 or 0)
                local function later()
                  if what == "offer" then ch:offer "v" elseif what == "poll" then ch:poll()
                  elseif what == "close" then ch:close "why" end
                end
                if early >> (k - 1) & 1 == 1 and what ~= "poll" then later() else rn.go(later) end
                is(f(ch), expected)
              end
            end
            if where == "outside" then two() else rn.go(two):take() end
          end
        end
      end
      internal.report_unhandled()
      is(reports, 0)
      rn.on_error(nil)
    end
    if where == "outside" then main() else sim.run(main) end
  end
end

-- ---- garbage ----

local KINDS = {
  { "fixed", function(n) return rn.chan(n) end },
  { "sliding", function(n) return rn.chan(rn.sliding_buffer(n)) end },
  { "dropping", function(n) return rn.chan(rn.dropping_buffer(n)) end },
  { "transducer", function(n) return rn.chan(n, function(rf) return rf end) end },
}

-- A channel keeps the values that it has, and no others: of all kinds of values, in buffers of all sizes, however they
-- have left it.
function only.values_are_not_kept(is)
  local makes = {
    table = function() return {} end,
    ["function"] = function()
      local own = {}
      return function() return own end
    end,
    userdata = function() return rn.chan() end,
    thread = function() return coroutine.create(function() end) end,
  }
  for _, kind in ipairs(KINDS) do
    local make = kind[2]
    for _, size in ipairs { 1, 2, 7, 8, 9, 40, 300 } do
      for _, value_of in pairs(makes) do
        local ch, kept = make(size), setmetatable({}, { __mode = "k" })
        local function put(n)
          for _ = 1, n do
            local value = value_of()
            kept[value] = true
            ch:offer(value)
          end
        end
        local function count()
          collectgarbage()
          collectgarbage()
          local n = 0
          for _ in pairs(kept) do n = n + 1 end
          return n
        end
        put(size + 3)
        is(count(), size)
        for _ = 1, size // 2 do (size % 2 == 0 and ch.take or ch.poll)(ch) end
        is(count(), size - size // 2)
        put(1)
        is(count(), #ch)
        for _ = 1, size + 1 do ch:poll() end
        is(count(), 0)
      end
    end
  end
end

-- Long strings, too, which no weak table tells.
function only.strings_are_not_kept(is)
  for _, kind in ipairs(KINDS) do
    for _, size in ipairs { 2, 8, 40 } do
      local ch = kind[2](size)
      for _ = 1, 3 do collectgarbage() end
      local before = collectgarbage "count"
      for i = 1, size do ch:offer(("x"):rep(10000) .. i) end
      collectgarbage()
      is(collectgarbage "count" - before > size * 9, true)
      for _ = 1, size do ch:poll() end
      collectgarbage()
      is(collectgarbage "count" - before < 15, true)
      is(#ch, 0)
    end
  end
end

-- What an operation has waited on outside any go block is garbage afterwards, and so are go blocks and their arguments.
function only.what_has_been_used_is_not_kept(is)
  local kept = setmetatable({}, { __mode = "k" })
  local function keep(value)
    kept[value] = true
    return value
  end
  local waits = {
    function(ch) ch:take() end, function(ch) rn.alts { ch, keep(rn.chan()) } end, function(ch) return ch() end,
    function(ch) return rn.run(function() return ch:take() end) end,
    function(ch) pcall(ch.take, ch) end,
  }
  for _, wait in ipairs(waits) do
    for _, ending in ipairs { "value", "close", "deadlock" } do
      local function once()
        local ch = keep(rn.chan())
        keep(rn.go(function(arg)
          keep(arg)
          if ending == "value" then ch:put(keep {}) end
          if ending == "close" then ch:close() end
          return arg
        end, {}))
        pcall(wait, ch)
      end
      once()
      rn.yield()
      for _ = 1, 3 do collectgarbage() end
      local n = 0
      for _ in pairs(kept) do n = n + 1 end
      is(n, 0)
    end
  end
end

-- A go block's coroutine that the program keeps keeps nothing of what it has done.
function only.dead_coroutines_keep_nothing(is)
  rn.on_error(function() end)
  local kept, coroutines = setmetatable({}, { __mode = "k" }), {}
  for _, ending in ipairs { "return", "error", "cancel" } do
    for _, has_variable in ipairs { false, true } do
      local function start()
        local function keep(value)
          kept[value] = true
          return value
        end
        local go = rn.go(function(...)
          coroutines[#coroutines + 1] = coroutine.running()
          local _ <close> = has_variable and keep(setmetatable({}, { __close = function() rn.yield() end })) or nil
          local value = keep { ... }
          if ending == "error" then error(keep {}) end
          rn.sleep(1)
          return value
        end, keep {}, keep {})
        rn.yield()
        if ending == "cancel" then rn.cancel(go, keep {}) end
        go:take()
      end
      start()
    end
  end
  internal.report_unhandled() -- that list forgets errors that were taken
  for _ = 1, 3 do collectgarbage() end
  is(#coroutines, 6)
  for i = 1, 6 do is(coroutine.status(coroutines[i]), "dead") end
  is(next(kept), nil)
  rn.on_error(nil)
end

-- ---- turns ----

-- After 128 operations that did not wait, the others have their turn: then again, however the go block has waited.
function only.turns(is)
  local open, closed, full = rn.chan(1), rn.chan(), rn.chan(rn.dropping_buffer(1))
  closed:close()
  local operations = { function() open:poll() end, function() closed:take() end, function() full:offer(1) end,
    function() closed:put(1) end, function() rn.alts({ open }, { nowait = true }) end,
    function() rn.alts { closed, open } end }
  for _, operation in ipairs(operations) do
    for _, before in ipairs { "nothing", "yield", "sleep", "take" } do
      sim.run(function()
        local ran = 0
        local counts = {}
        local other = rn.go(function()
          while true do
            ran = ran + 1
            rn.yield()
          end
        end)
        rn.go(function()
          for round = 1, 3 do
            if before == "yield" then rn.yield() end
            if before == "sleep" then rn.sleep(0) end
            if before == "take" then rn.go(function() return 1 end):take() end
            local n, seen = 0, ran
            while ran == seen do
              operation()
              n = n + 1
            end
            counts[round] = n
          end
          rn.cancel(other)
        end):take()
        is(counts[2], counts[3])
        is(counts[3], before == "nothing" and 128 or 129)
      end)
    end
  end
end

return only
