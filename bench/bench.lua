-- What runnel costs, compared with stock Lua's coroutines in the same run.
--
--     lua5.4 bench/bench.lua [--quick] [NAME...]        all by default, as `make bench`; --quick is less precise
--
-- Every workload has a floor: what stock Lua needs for the minimum that any implementation must do. A message through
-- an unbuffered channel needs a switch from one coroutine to another and two calls of C functions, put and take: its
-- floor is a switch and two calls. A switch, which is a resume and a yield, is measured as a loop that calls a function
-- of coroutine.wrap, whose coroutine yields in a loop. Switches with coroutine.resume are shown for comparison; they
-- take longer, because resume also returns a boolean. Floors and workloads both include their loops.
--
-- Times are CPU time (os.clock). Floors and workloads are measured in turn, in rounds, so that a slow phase of the
-- machine affects all of them; the table shows the median and the minimum of the rounds. This is not a test: a missed
-- target does not change the exit status.

local rn = require "runnel"
local sim = require "runnel.sim"

local quick = false

-- ---- measuring ----

-- CPU seconds that f(...) takes, after a full collection.
local function seconds(f, ...)
  collectgarbage()
  collectgarbage()
  local start = os.clock()
  f(...)
  return os.clock() - start
end

-- Each function below returns a function that measures once.

-- ns for each of the n operations of f(n).
local function ns_each(n, f)
  return function()
    local count = quick and n // 10 or n
    return seconds(f, count) / count * 1e9
  end
end

-- The same for an f that runs as a go block, until it returns.
local function ns_each_in_go(n, f)
  return ns_each(n, function(count) rn.run(f, count) end)
end

-- Bytes for each of n objects: make(n, keep) makes them and keeps them alive in the list `keep`, which has room for n.
local function bytes_each(n, make)
  local function in_use()
    for _ = 1, 4 do collectgarbage() end -- objects with finalizers take more than one cycle
    return collectgarbage "count" * 1024
  end
  return function()
    local keep = {}
    for i = 1, n do keep[i] = false end
    local before = in_use()
    make(n, keep)
    local bytes = (in_use() - before) / n
    return bytes, keep -- keeps the objects alive until here
  end
end

-- ---- the floors, in stock Lua ----

local FLOORS = {
  {
    name = "switch",
    what = "ns, resume + yield, with coroutine.wrap",
    measure = ns_each(1000000, function(n)
      local yield = coroutine.yield
      local resume = coroutine.wrap(function()
        for _ = 1, n do yield() end
      end)
      for _ = 1, n do resume() end
    end),
  },
  {
    name = "resume",
    what = "ns, the same with coroutine.resume",
    measure = ns_each(1000000, function(n)
      local yield, resume = coroutine.yield, coroutine.resume
      local co = coroutine.create(function()
        for _ = 1, n do yield() end
      end)
      for _ = 1, n do resume(co) end
    end),
  },
  {
    name = "call",
    what = "ns, a call of a C function (math.abs)",
    measure = ns_each(5000000, function(n)
      local abs = math.abs
      for i = 1, n do abs(i) end
    end),
  },
  {
    name = "coroutine",
    what = "ns, to create a coroutine and run it to its end",
    measure = ns_each(500000, function(n)
      local create, resume = coroutine.create, coroutine.resume
      local function f() end
      for _ = 1, n do resume(create(f)) end
    end),
  },
  {
    name = "tables",
    what = "s, to make a million tables, keep them and drop them one by one",
    measure = function()
      return seconds(function()
        local keep = {}
        for i = 1, 1000000 do keep[i] = { i } end
        for i = 1, 1000000 do keep[i] = nil end
        return keep
      end)
    end,
  },
  {
    name = "parked",
    what = "bytes, a coroutine that has yielded",
    measure = bytes_each(10000, function(n, keep)
      local resume, yield = coroutine.resume, coroutine.yield
      local function f(value) yield(value) end
      for i = 1, n do
        keep[i] = coroutine.create(f)
        resume(keep[i], i)
      end
    end),
  },
  {
    name = "table",
    what = "bytes, an empty table",
    measure = bytes_each(10000, function(n, keep)
      for i = 1, n do keep[i] = {} end
    end),
  },
}

-- ---- the workloads ----

-- n messages from one go block to another.
local function messages(buffer)
  return function(n)
    local ch = rn.chan(buffer)
    rn.go(function()
      for i = 1, n do ch:put(i) end
    end)
    for _ = 1, n do ch:take() end
  end
end

local function ping_pong(n)
  local ping, pong = rn.chan(), rn.chan()
  rn.go(function()
    for _ = 1, n do pong:put(ping:take()) end
  end)
  for i = 1, n do
    ping:put(i)
    pong:take()
  end
end

-- A token goes round a ring of `size` go blocks, n hops in all.
local function ring(size)
  return function(n)
    local rounds = n // size
    local first = rn.chan()
    local left = first
    for _ = 2, size do
      local from, to = left, rn.chan()
      rn.go(function()
        for _ = 1, rounds do to:put(from:take()) end
      end)
      left = to
    end
    for i = 1, rounds do
      first:put(i)
      left:take()
    end
  end
end

-- n messages over `width` channels, taken by alts. One go block puts on all channels in turn, or each channel has a
-- putter of its own.
local function alts_over(width, own_putters)
  return function(n)
    local ops = {}
    for i = 1, width do ops[i] = rn.chan() end
    local function put(first, step)
      for i = first, n, step do ops[(i - 1) % width + 1]:put(i) end
    end
    if own_putters then
      for i = 1, width do rn.go(put, i, width) end
    else
      rn.go(put, 1, 1)
    end
    local alts = rn.alts
    for _ = 1, n do alts(ops) end
  end
end

local function spawn_and_take(n)
  local go = rn.go
  local function f() return true end
  for _ = 1, n do go(f):take() end
end

local PRIMES = 1000

local function sieve()
  local function sift(from, prime)
    local to = rn.chan()
    rn.go(function()
      for i in from do
        if i % prime ~= 0 then to:put(i) end
      end
    end)
    return to
  end
  local ch = rn.chan()
  rn.go(function()
    local numbers = ch
    for i = 2, math.maxinteger do numbers:put(i) end
  end)
  for _ = 1, PRIMES do ch = sift(ch, ch:take()) end
end

-- How many messages the sieve sends, without the few after the last prime: each number passes one channel more than
-- there are primes below its least factor.
local function sieve_messages()
  local primes, total, i = {}, 0, 2
  while #primes < PRIMES do
    local k = 1
    while primes[k] and i % primes[k] ~= 0 do k = k + 1 end
    primes[k] = primes[k] or i
    total = total + k
    i = i + 1
  end
  return total
end

-- A million timeouts, all pending before the first one fires, in no order, and too far apart to share a channel.
local function million_timeouts()
  local n, step = 1000000, 618033 -- coprime, so each deadline occurs once
  for i = 1, n do rn.timeout(10 * (1 + i * step % n)) end
  rn.sleep(10 * n + 20)
end

local function parked_blocks(n, keep)
  local function f(ch) ch:take() end
  for i = 1, n do
    if i % 1000 == 1 then keep[i // 1000 + 1] = rn.chan() end -- at most 1024 takes may wait on a channel
    rn.go(f, keep[(i - 1) // 1000 + 1])
  end
  rn.run() -- until all are parked
end

local function channels(n, keep)
  for i = 1, n do keep[i] = rn.chan() end
end

-- `floor` and `reach`, the target, are computed from the medians of the floors.
local function message_floor(f) return f.switch + 2 * f.call end
local function just_above_message(f) return 1.2 * message_floor(f) end

local WORKLOADS = {
  {
    name = "chan0", what = "unbuffered, a message", unit = "ns",
    measure = ns_each_in_go(1000000, messages()),
    floor = message_floor, reach = just_above_message,
  },
  {
    name = "chan1", what = "buffer of 1, a message", unit = "ns",
    measure = ns_each_in_go(1000000, messages(1)),
    floor = function(f) return 2 / 3 * f.switch + 2 * f.call end, -- three messages for two switches
  },
  {
    name = "chan100", what = "buffer of 100, a message", unit = "ns",
    measure = ns_each_in_go(2000000, messages(100)),
    floor = function(f) return 2 / 102 * f.switch + 2 * f.call end,
    reach = function(f) return 65 * f.call / 11 end,
  },
  {
    name = "pingpong", what = "ping-pong, a round trip", unit = "ns",
    measure = ns_each_in_go(500000, ping_pong),
    floor = function(f) return 2 * message_floor(f) end,
  },
  {
    name = "ring", what = "ring of 1000, a hop", unit = "ns",
    measure = ns_each_in_go(1000000, ring(1000)),
    floor = message_floor, reach = just_above_message,
  },
  {
    name = "alts4", what = "alts over 4, one putter", unit = "ns",
    measure = ns_each_in_go(500000, alts_over(4, false)),
    floor = message_floor, reach = function() return 200 end,
  },
  {
    name = "alts4x4", what = "alts over 4, 4 putters", unit = "ns",
    measure = ns_each_in_go(500000, alts_over(4, true)),
    floor = message_floor, reach = function() return 200 end,
  },
  {
    name = "alts64", what = "alts over 64, one putter", unit = "ns",
    measure = ns_each_in_go(100000, alts_over(64, false)),
    floor = message_floor,
  },
  {
    name = "spawn", what = "spawn + take", unit = "ns",
    measure = ns_each_in_go(300000, spawn_and_take),
    floor = function(f) return f.coroutine + message_floor(f) end,
  },
  {
    name = "sieve", what = "sieve, 1000 primes", unit = "ms",
    measure = function() return 1000 * seconds(rn.run, sieve) end,
    floor = function(f) return sieve_messages() * message_floor(f) / 1e6 end,
  },
  {
    name = "timeouts", what = "a million timeouts", unit = "s",
    measure = function() return seconds(sim.run, million_timeouts) end,
    floor = function(f) return f.tables end, reach = function() return 1.5 end,
  },
  {
    name = "parked", what = "a parked go block", unit = "bytes",
    measure = bytes_each(10000, parked_blocks),
    floor = function(f) return f.parked end, reach = function() return 1300 end,
  },
  {
    name = "channel", what = "an unbuffered channel", unit = "bytes",
    measure = bytes_each(10000, channels),
    floor = function(f) return f.table end, reach = function() return 250 end,
  },
}

-- ---- the command line ----

local function usage()
  io.stderr:write "usage: lua5.4 bench/bench.lua [--quick] [NAME...]\nnames:"
  for _, workload in ipairs(WORKLOADS) do io.stderr:write(" ", workload.name) end
  io.stderr:write "\n"
  os.exit(2)
end

local by_name, chosen = {}, {}
for _, workload in ipairs(WORKLOADS) do by_name[workload.name] = workload end
for _, name in ipairs(arg) do
  if name == "--quick" then
    quick = true
  else
    chosen[#chosen + 1] = by_name[name] or usage()
  end
end
if #chosen == 0 then chosen = WORKLOADS end

-- ---- the rounds, and the table ----

local samples = {}
for round = 1, quick and 3 or 9 do
  for _, list in ipairs { FLOORS, chosen } do
    for _, item in ipairs(list) do
      samples[item] = samples[item] or {}
      samples[item][round] = (item.measure())
    end
  end
end
for _, list in pairs(samples) do table.sort(list) end

local function median(item) return samples[item][(#samples[item] + 1) // 2] end

-- Three digits, or more if the integer part has more.
local function show(x) return ((x < 10 and "%.2f") or (x < 100 and "%.1f") or "%.0f"):format(x) end

local floors = {}
print "Floors, in stock Lua (medians):"
for _, floor in ipairs(FLOORS) do
  floors[floor.name] = median(floor)
  print(("  %-11s %7s %s"):format(floor.name, show(floors[floor.name]), floor.what))
end

print()
local row = "%-26s %-5s %7s %7s %7s %7s %9s %s"
print((row):format("workload", "unit", "median", "min", "floor", "x floor", "target", ""))
local reached, figures = 0, 0
for _, workload in ipairs(chosen) do
  local value, floor = median(workload), workload.floor(floors)
  local reach = workload.reach and workload.reach(floors)
  local verdict = ""
  if reach then
    figures = figures + 1
    if value <= reach then reached = reached + 1 end
    verdict = value <= reach and "met" or "MISSED"
  end
  print(((row):format(workload.what, workload.unit, show(value), show(samples[workload][1]), show(floor),
    ("%.2f"):format(value / floor), reach and "<= " .. show(reach) or "", verdict):gsub("%s+$", "")))
end
if figures > 0 then print(("\n%d of %d targets met"):format(reached, figures)) end
