---Particular programs for the core and for lite.lua: f(m, say), where `m` is the module, and `say` tells what both must
---do in the same way. Limits, many of a kind, chances, what happens outside go blocks.

local plain = require "tests.prove.plain"

local both = {}

-- Go blocks that do f(i), for i from 1 to n, and have begun to.
local function start(m, n, f)
  local list = {}
  for i = 1, n do list[i] = m.go(f, i) end
  m.yield()
  return list
end

function both.at_most_1024_wait(m, say)
  m.sim.run(function()
    local ch, other = m.chan(), m.chan()
    local putters = start(m, 1024, function(i) return ch:put(i) end)
    local function one_more(what, f)
      local stats = ch:stats()
      say(what, pcall(f))
      say(ch:stats().puts_waiting == stats.puts_waiting, ch:stats().takes_waiting == stats.takes_waiting)
    end
    one_more("put", function() return ch:put(0) end)
    one_more("alts", function() return m.alts { other, { ch, 0 } } end)
    one_more("put_async", function() return ch:put_async(0) end)
    say(other:stats().takes_waiting)
    say(m.cancel(putters[500]), m.cancel(putters[1]), m.cancel(putters[1024]))
    say(ch:put_async(0), ch:put_async(0), ch:put_async(0), pcall(ch.put_async, ch, 0))
    local sum, n = 0, ch:stats().puts_waiting
    for _ = 1, n do sum = sum + ch:take() end
    say(n, sum, ch:poll())
    start(m, 1024, function(i) if i % 2 == 0 then ch:take() else m.alts { ch } end end)
    one_more("take", function() return ch:take() end)
    one_more("alts", function() return m.alts { other, ch } end)
    one_more("alts with a put", function() return m.alts({ { other, 1 }, ch }, { priority = true }) end)
    one_more("take_async", function() return ch:take_async(say) end)
    say(other:stats().takes_waiting, other:stats().puts_waiting)
    local done, timeout, closed = ch:done(), m.timeout(7), 0
    start(m, 2500, function(i) if i % 2 == 0 then done:take() else timeout:take() end closed = closed + 1 end)
    say(done:stats().takes_waiting, timeout:stats().takes_waiting)
    ch:close()
    m.sleep(8)
    say(closed)
  end)
end

function both.many_timeouts(m, say)
  m.sim.run(function()
    for round = 1, 3 do
      local began, n, late, last = m.now(), 0, 0, 0
      local function wait(i)
        local ms = i * 7919 % 4999 * 11 + i % 3
        local wanted = m.now() + ms
        m.timeout(ms):take()
        n = n + 1
        if m.now() < wanted or m.now() >= wanted + 10 or m.now() < last then late = late + 1 end
        last = m.now()
      end
      for i = 1, 4990 do m.go(wait, i) end
      m.sleep(30000)
      say(round, n, late, m.now() - began)
      m.sleep(30000)
      say(round, n, late, m.now() - began)
      local a, b = m.timeout(5), m.timeout(14)
      say(a == b, a == m.timeout(5), b == m.timeout(6))
      m.sleep(100)
    end
  end)
end

function both.timeouts_are_shared_within_10_ms(m, say)
  m.sim.run(function()
    local names, n = {}, 0
    local function name(ch)
      if not names[ch] then
        n = n + 1
        names[ch] = n
      end
      return names[ch]
    end
    for i = 1, 400 do
      local ms = i * 37 % 101 / 2
      local ch = m.timeout(ms)
      say(m.now(), ms, name(ch), ch:closed(), ch:stats().closed)
      if i % 3 == 0 then m.sleep(i % 7 / 2) end
      if i % 50 == 0 then ch:take() end
    end
  end)
end

function both.sleepers_are_cancelled_anywhere(m, say)
  m.sim.run(function()
    for _, n in ipairs { 3, 6, 22, 90, 400 } do
      for _, step in ipairs { 2, 3, 7 } do
        local woken = {}
        local list = start(m, n, function(i)
          m.sleep(i * 7919 % n * 3 + i % 2)
          woken[#woken + 1] = ("%d at %g"):format(i, m.now())
        end)
        for i = 1, n do m.timeout(i * 13 % n) end
        m.sleep(n / 2)
        for i = 1, n, step do m.cancel(list[i * 31 % n + 1]) end
        m.sleep(n * 4)
        say(n, step, #woken, table.concat(woken, " "))
      end
    end
  end)
end

-- Blocks of waiters are kept for later alts.
function both.many_alts(m, say)
  m.sim.run(function()
    local go, chans = m.chan(), {}
    for i = 1, 70 do chans[i] = m.chan() end
    for round = 1, 3 do
      local got = {}
      start(m, 150, function(i)
        local size, ops = ({ 1, 8, 9, 64, 65, 70 })[i % 6 + 1], {}
        for k = 1, size do ops[k] = chans[k] end
        ops[1] = go
        local value, port = m.alts(ops, { priority = true })
        got[#got + 1] = tostring(value) .. (port == go and " go" or port == chans[70] and " last" or " one")
      end)
      say(go:stats().takes_waiting, chans[8]:stats().takes_waiting, chans[9]:stats().takes_waiting,
        chans[65]:stats().takes_waiting, chans[70]:stats().takes_waiting)
      for i = 1, 50 do say(chans[i % 70 + 20]:offer(i), chans[70]:offer("z" .. i), chans[8]:offer("e" .. i)) end
      for i = 1, 150 do go:offer(i) end
      m.sleep(1)
      say(round, #got, table.concat(got, ","))
      for i = 1, 70 do say(i, chans[i]:stats().takes_waiting) end
    end
  end)
end

-- One of many operations is ready: at once, or while all of them wait.
function both.one_of_many(m, say)
  m.sim.run(function()
    for _, n in ipairs { 1, 2, 3, 7, 8, 9, 10, 63, 64, 65, 70 } do
      for k = 1, n, n > 10 and 9 or 1 do
        for _, is_put in ipairs { true, false } do
          local chans, ops, number = {}, {}, {}
          for i = 1, n do
            chans[i] = m.chan(1)
            if is_put then chans[i]:put(0) end
            ops[i] = is_put and { chans[i], i } or chans[i]
            number[chans[i]] = i
          end
          local function serve(i) if is_put then return chans[i]:poll() else return chans[i]:offer(i) end end
          local function tell(value, port, err) say(n, k, is_put, value, number[port] or port, err) end
          tell(m.alts(ops, { default = "none" }))
          serve(k)
          tell(m.alts(ops))
          serve(n)
          tell(m.alts(ops, { priority = true }))
          m.go(function() tell(m.alts(ops, { priority = k % 2 == 0 })) end)
          m.yield()
          say(serve(k), serve(n), serve(n))
          m.yield()
          if not is_put then
            chans[k]:close("why")
            chans[n]:poll()
            tell(m.alts(ops))
          end
          for i = 1, n do say(i, #chans[i], chans[i]:stats().puts_waiting, chans[i]:stats().takes_waiting) end
        end
      end
    end
  end)
end

-- Whether each of n numbers has come about as often.
local function is_fair(counts, n, of)
  for i = 1, n do
    if math.abs((counts[i] or 0) - of / n) > 5 * math.sqrt(of / n) then return ("%d: %s"):format(i, counts[i]) end
  end
  return "fair"
end

function both.chances(m, say)
  local function choices(where)
    for n = 2, 5 do
      local chans, counts = {}, {}
      for i = 1, n do chans[i] = m.chan(1) end
      for i = 1, n do chans[i]:put(i) end
      for _ = 1, 3000 do
        local i = m.alts(chans)
        counts[i] = (counts[i] or 0) + 1
        chans[i]:put(i)
      end
      say(where, "takes of", n, is_fair(counts, n, 3000))
    end
    for n = 2, 4 do -- puts on one channel, which wait
      local ch, counts, ops = m.chan(), {}, {}
      for i = 1, n do ops[i] = { ch, i } end
      for k = 1, 3000 do
        m.go(function() m.alts(ops) end)
        m.yield()
        local i = ch:take()
        counts[i] = (counts[i] or 0) + 1
        if k % 100 == 0 then m.yield() end
      end
      say(where, "puts of", n, is_fair(counts, n, 3000))
      local firsts, seen = {}, {} -- with two takes of it among others
      local other = m.chan()
      for _ = 1, 1000 do
        m.go(function()
          local _, port = m.alts { other, { ch, 1 }, { other, 2 }, { ch, 3 } }
          firsts[#firsts + 1] = port == other and "other" or "ch"
        end)
        m.yield()
        local i = ch:take()
        seen[i] = (seen[i] or 0) + 1
        m.yield()
      end
      say(where, #firsts, is_fair({ seen[1], seen[3] }, 2, 1000))
    end
  end
  m.sim.run(function() choices "in a simulation" end)
  choices "outside"
end

function both.outside(m, say)
  local ch, buffered = m.chan(), m.chan(2)
  m.on_error(function(err, _, where) say("report", plain(err), where ~= nil) end)
  say(buffered:put(1), buffered:put(2), pcall(buffered.put, buffered, 3))
  say(buffered:stats().puts_waiting, #buffered, buffered:take(), buffered:take(), pcall(buffered.take, buffered))
  say(buffered:stats().takes_waiting)
  m.go(function() ch:put "from a go block" return "result" end)
  say(ch:take())
  m.go(function() error("raised", 0) end)
  m.go(function() m.yield() ch:put "after an error" end)
  say(ch:take())
  local taker = m.go(function() return ch:take() end)
  say(ch:put "to a go block", taker:take())
  say(pcall(m.alts, { ch, buffered, { ch, 1 } }))
  say(ch:stats().takes_waiting, ch:stats().puts_waiting, buffered:stats().takes_waiting)
  m.go(function() m.yield() buffered:put "alts" end)
  local value, port, err = m.alts { ch, buffered }
  say(value, port == buffered, err)
  m.go(function() m.yield() ch:close "closed" end)
  value, port, err = m.alts { ch, m.chan() }
  say(value, port == ch, err)
  say(m.run(function(...) return select("#", ...), ... end, nil, 2, nil))
  say(m.run(function() return 1, nil, false end))
  say(pcall(m.run, function() error("of run", 0) end))
  say(pcall(m.run, function() m.chan():take() end))
  say(pcall(m.run, function() m.go(function() error("untaken", 0) end) m.chan():take() end))
  m.go(function() say("run inside", pcall(m.run, function() end)) end)
  m.run()
  local n, slept = 0, {}
  for i = 1, 5 do
    m.go(function()
      for _ = 1, 3 do m.yield() end
      n = n + i
    end)
  end
  m.yield()
  say(n)
  m.run()
  say(n)
  for _, ms in ipairs { 30, 1, 90, 0 } do
    m.go(function()
      m.sleep(ms)
      slept[#slept + 1] = ms
    end)
  end
  local began = m.now()
  m.sleep(60)
  say(table.concat(slept, " "), m.now() - began >= 60)
  m.run()
  say(table.concat(slept, " "), m.now() - began >= 90)
  began = m.now()
  say(m.timeout(20):take(), m.now() - began >= 20, m.now() - began < 2000)
  local self_cancelled = m.run(function()
    local sleeper = m.go(function() m.sleep(100000) end)
    m.yield()
    return m.cancel(sleeper, "enough"), sleeper:take()
  end)
  say(self_cancelled)
  m.run()
  say(pcall(m.sim.run, function() m.chan():take() end))
  say(m.sim.run(function() -- it gets the deadlock once, and goes on
    local ok, why = pcall(function() return m.chan():take() end)
    m.sleep(1)
    return ok, plain(why), m.now(), pcall(function() return m.alts { m.chan(), m.chan() } end)
  end))
  say(pcall(m.sim.run, function() error("of a simulation", 0) end))
  say(m.sim.run(function() return m.sim.run(function() m.sleep(5) return m.now() end), m.now() end))
  m.on_error(nil)
end

function both.arguments_and_results(m, say)
  m.sim.run(function()
    for _, n in ipairs { 0, 1, 9, 10, 11, 20, 21, 250 } do
      local list = {}
      for i = 1, n do list[i] = i % 3 > 0 and i or false end
      local result = m.go(function(...)
        say(n, select("#", ...), (select(n > 0 and n or 1, ...)))
        m.yield()
        return ...
      end, table.unpack(list, 1, n))
      say(result:take())
    end
    say(m.go(function() return nil end):take())
    say(m.go(function() return nil, nil end):take())
    say(m.go(function() return nil, false end):take())
    say(m.go(function() return nil, "error", "more" end):take())
    say(m.go(function() return false, "no error" end):take())
    say(m.go(function() return 1, "no error", 3 end):take())
    local result = m.go(function() return 1 end)
    say(result:stats().buffer, result:stats().capacity, result:closed(), #result, pcall(result.put, result, 2))
    m.yield()
    say(result:stats().buffer, result:stats().capacity, result:closed(), #result, result:put(2), result:offer(2))
    say(result:take(), result:take(), #result)
    local callable = setmetatable({}, { __call = function(_, x) return x end })
    say(pcall(m.go, nil), pcall(m.go, result), m.go(callable, 7):take())
  end)
end

-- A go block gets the reason of its cancellation again and again, and ends at last.
function both.in_vain(m, say)
  m.sim.run(function()
    local n = 0
    local go = m.go(function()
      while true do
        local ok, err = pcall(m.sleep, 1000)
        n = n + 1
        if n < 4 then say(ok, err) end
      end
    end)
    m.yield()
    say(m.cancel(go, "enough"), m.cancel(go, "more"))
    say(go:take())
    say(n)
    local told = m.go(function()
      say(pcall(m.sleep, 1))
      say(pcall(m.chan().take, m.chan()))
      return "goes on"
    end)
    m.yield()
    m.cancel(told, "once")
    m.yield()
    say(m.cancel(told, "again"), told:take())
  end)
end

return both
