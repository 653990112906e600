-- The workloads of bench/scale.lua, and their floors in stock Lua. Each run is a process of its own:
--
--     lua5.4 bench/scale/workloads.lua NAME N        prints `FIGURE VALUE` for each figure: CPU ns of one, or bytes
--
-- Small sizes are repeated, and the median is printed.

local rn = require "runnel"
local sim = require "runnel.sim"

local name, n = arg[1], math.tointeger(arg[2])
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield

-- The numbers from 0 to n - 1 in an order far from sorted: i * STEP % n, since STEP has no common factor with a power
-- of ten.
local STEP = 618033

-- ---- measuring ----

local samples, order = {}, {}

local function add(figure, value)
  if not samples[figure] then
    samples[figure] = {}
    order[#order + 1] = figure
  end
  table.insert(samples[figure], value)
end

local function in_use()
  for _ = 1, 4 do collectgarbage() end -- objects with finalizers take more than one cycle
  return collectgarbage "count" * 1024
end

-- Adds the ns of one of `count` operations, which f(...) does.
local function time(figure, count, f, ...)
  local start = os.clock()
  f(...)
  add(figure, (os.clock() - start) / count * 1e9)
end

-- ---- the workloads ----

local workloads = {}

-- n go blocks, made and run until all are parked. At most 1024 takes may wait on a channel, so there is one for every
-- thousand go blocks.
function workloads.park()
  local keep = {}
  for i = 1, n // 1000 + 1 do keep[i] = false end
  local function f(ch) ch:take() end
  local before = in_use()
  time("ns", n, function()
    for i = 1, n do
      if i % 1000 == 1 then keep[i // 1000 + 1] = rn.chan() end
      rn.go(f, keep[(i - 1) // 1000 + 1])
    end
    rn.run()
  end)
  add("bytes", (in_use() - before) / n)
  return keep
end

-- n coroutines, each with a table of the size of runnel's userdata for a go block: the collector must visit both.
function workloads.park_floor()
  local keep = {}
  for i = 1, n do keep[i] = false end
  local function f(value) yield(value) end
  local before = in_use()
  time("ns", n, function()
    for i = 1, n do
      local co = create(f)
      keep[i] = { co, 0, 0, 0, 0, 0, 0, 0, 0 }
      resume(co, i)
    end
  end)
  add("bytes", (in_use() - before) / n)
  return keep
end

local function start_and_end()
  local count, f = 200000, function() end
  time("ns", count, function()
    for _ = 1, count do rn.go(f):take() end
  end)
end

-- Go blocks that start and end one by one, after n of them have waited at once and ended.
function workloads.after()
  rn.run(function()
    local chans = {}
    local function f(ch) ch:take() end
    for i = 1, n do
      if i % 1000 == 1 then chans[#chans + 1] = rn.chan() end
      rn.go(f, chans[#chans])
    end
    rn.yield()
    while #chans > 0 do table.remove(chans):close() end
    for _ = 1, 12 do -- the scheduler's tables become smaller within a few cycles of the collector
      in_use()
      rn.sleep(1)
    end
    start_and_end()
  end)
end

-- The same, after none.
function workloads.after_floor() rn.run(start_and_end) end

-- A token goes round a ring of n go blocks. The first round is not measured: in it the go blocks start.
function workloads.ring()
  local rounds = math.max(1, 300000 // n)
  rn.run(function()
    local first = rn.chan()
    local left = first
    for _ = 2, n do
      local from, to = left, rn.chan()
      rn.go(function()
        for _ = 0, rounds do to:put(from:take()) end
      end)
      left = to
    end
    first:put(0)
    left:take()
    collectgarbage()
    time("ns", n * rounds, function()
      for i = 1, rounds do
        first:put(i)
        left:take()
      end
    end)
  end)
end

-- A switch to each of n coroutines in turn, and two calls of C functions for each.
function workloads.ring_floor()
  local rounds, keep, abs = math.max(1, 300000 // n), {}, math.abs
  for i = 1, n do
    keep[i] = coroutine.wrap(function()
      for _ = 0, rounds do
        abs(i)
        yield(abs(i))
      end
    end)
    keep[i]()
  end
  collectgarbage()
  time("ns", n * rounds, function()
    for _ = 1, rounds do
      for i = 1, n do keep[i]() end
    end
  end)
end

-- n timeouts in no order, all pending before the first one fires, and too far apart to share a channel.
function workloads.timers()
  sim.run(function()
    in_use()
    time("made", n, function()
      for i = 1, n do rn.timeout(10 * (1 + i * STEP % n)) end
    end)
    time("fired", n, rn.sleep, 10 * n + 20)
  end)
end

-- n tables, the least that n timers can be, made in no order; then one leads to the next, at random, so that each
-- access has to wait for memory, as in a heap.
function workloads.timers_floor()
  local keep = {}
  for i = 1, n do keep[i] = false end
  in_use()
  time("made", n, function()
    for i = 1, n do keep[1 + i * STEP % n] = { i } end
  end)
  math.randomseed(1)
  for i = n, 2, -1 do
    local j = math.random(i)
    keep[i], keep[j] = keep[j], keep[i]
  end
  for i = 1, n do keep[i].next = keep[i % n + 1] end
  time("fired", n, function()
    local at = keep[1]
    for _ = 1, n do at = at.next end
  end)
end

-- n go blocks that sleep until different times, cancelled in no order.
function workloads.cancel()
  sim.run(function()
    local sleeping = {}
    for i = 1, n do sleeping[i] = rn.go(rn.sleep, 10 * i) end
    rn.yield()
    in_use()
    time("ns", n, function()
      for i = 1, n do assert(rn.cancel(sleeping[1 + i * STEP % n])) end
      rn.yield()
    end)
    assert(sim.elapsed() < 10)
  end)
end

-- n coroutines, resumed to their ends in no order.
function workloads.cancel_floor()
  local keep = {}
  for i = 1, n do
    keep[i] = create(yield)
    resume(keep[i])
  end
  in_use()
  time("ns", n, function()
    for i = 1, n do resume(keep[1 + i * STEP % n]) end
  end)
end

-- Starts a go block, the i-th of many, that parks on the last channel of a list; each channel has a thousand.
local function start_parking(keep, i)
  if i % 1000 == 1 then keep[#keep + 1] = rn.chan() end
  rn.go(keep[#keep].take, keep[#keep])
end

-- Go blocks that raise an error, which is taken, one by one.
local function raise_errors(count)
  in_use()
  time("ns", count, function()
    for _ = 1, count do rn.go(error, "no such host"):take() end
  end)
end

-- That, beside n go blocks that are parked.
function workloads.raise()
  local keep = {}
  rn.run(function()
    for i = 1, n do start_parking(keep, i) end
    rn.yield()
    raise_errors(2000)
  end)
  return keep
end

-- That, while package.loaded has a module of n functions: a traceback has the names of those that are there.
function workloads.loaded()
  local module = {}
  for i = 1, n do module["f" .. i] = function() return i end end
  package.loaded["a module"] = module
  rn.run(raise_errors, 10000)
  package.loaded["a module"] = nil
end

-- Coroutines that raise an error, whose traceback is taken, beside n that wait.
function workloads.raise_floor()
  local count, keep = 2000, {}
  for i = 1, n do
    keep[i] = create(yield)
    resume(keep[i])
  end
  in_use()
  time("ns", count, function()
    for _ = 1, count do
      local co = create(error)
      resume(co, "no such host")
      debug.traceback(co)
    end
  end)
  return keep
end

-- Go blocks that are started after n others have parked at once, on channels or in a sleep: 99 of 100 start quicker
-- than this. (The slowest ones are those during which the system ran another program.)
local function after_burst(start)
  collectgarbage "stop" -- not to measure its steps
  rn.run(function()
    for i = 1, n do start(i) end
    rn.yield()
    local times = {}
    for i = 1, 2000 do
      local before = os.clock()
      rn.go(rn.yield)
      times[i] = os.clock() - before
    end
    table.sort(times)
    add("ns", times[1980] * 1e9)
    collectgarbage "restart"
  end)
end

function workloads.burst()
  local keep = {}
  after_burst(function(i) start_parking(keep, i) end)
  return keep
end

function workloads.sleepers()
  after_burst(function() rn.go(rn.sleep, 1e6) end)
end

-- Schedules of a small program that sim.explore searches, beside n parked go blocks that are none of its own.
function workloads.explore()
  local keep, runs = {}, 0
  for i = 1, n do start_parking(keep, i) end
  rn.yield()
  in_use()
  local start = os.clock()
  sim.explore(function()
    runs = runs + 1
    local ch = rn.chan()
    for i = 1, 8 do rn.go(function() ch:put(i) end) end
    for _ = 1, 8 do ch:take() end
  end, { seconds = 0.5 })
  add("ns", (os.clock() - start) / runs * 1e9)
  return keep
end

-- Messages through one channel on which n go blocks wait.
function workloads.waiters()
  local count = 300000
  rn.run(function()
    local ch = rn.chan()
    for _ = 1, n do
      rn.go(function()
        while ch:take() do end -- luacheck: ignore 542
      end)
    end
    rn.yield()
    assert(ch:stats().takes_waiting == n)
    time("ns", count, function()
      for i = 1, count do ch:put(i) end
    end)
  end)
end

-- n go blocks wait with alts on a common channel and on one of their own. A value for one of them, in no order,
-- withdraws its wait from within the common channel's queue.
function workloads.withdraw()
  local count = 300000
  rn.run(function()
    local common, own = rn.chan(), {}
    for i = 1, n do
      own[i] = rn.chan()
      rn.go(function()
        local ops = { common, own[i] }
        while rn.alts(ops) do end -- luacheck: ignore 542
      end)
    end
    rn.yield()
    assert(common:stats().takes_waiting == n)
    time("ns", count, function()
      for i = 1, count do own[1 + i * STEP % n]:put(i) end
    end)
  end)
end

-- alts over n channels; one go block puts on all of them in turn.
function workloads.alts()
  local count = math.max(2 * n, 400000 // n)
  rn.run(function()
    local ops = {}
    for i = 1, n do ops[i] = rn.chan() end
    rn.go(function()
      for i = 1, count do ops[(i - 1) % n + 1]:put(i) end
    end)
    time("ns", count, function()
      for _ = 1, count do rn.alts(ops) end
    end)
  end)
end

-- Measures f, called so often that the collector has something to do for few, too.
local function time_rounds(figure, f)
  local rounds = math.max(1, 50000 // n)
  time(figure, n * rounds, function()
    for _ = 1, rounds do f() end
  end)
end

-- n jobs at a time, each in a worker of its own.
local function all_at_once(f, job, opts)
  local count = 0
  local from = rn.to_chan(function()
    count = count + 1
    return count <= n and count or nil
  end)
  for _ in f(n, job, from, opts) do end -- luacheck: ignore 542
end

-- All jobs wait, and then end in no order.
local function in_no_order(f)
  local gates, running = {}, 0
  for i = 0, n // 1000 do gates[i] = rn.chan() end
  all_at_once(f, function(v)
    running = running + 1
    if running == n then
      for i = 0, n // 1000 do gates[i]:close() end
    else
      gates[v * STEP % n // 1000]:take()
    end
    return v
  end)
end

-- In a simulation, so that waiting takes no time: the jobs that are late are late at once.
function workloads.pmap()
  sim.run(function()
    time_rounds("unordered", function() in_no_order(rn.pmap_unordered) end)
    time_rounds("ordered", function() in_no_order(rn.pmap) end)
    local opts = { timeout = 1000, ex_handler = function(err) return err end }
    time_rounds("late", function() all_at_once(rn.pmap_unordered, function() rn.sleep(2000000) end, opts) end)
  end)
end

-- n coroutines, each with as much memory as a worker, resumed to their ends in no order.
function workloads.pmap_floor()
  local function body(keep)
    local value, result = {}, {}
    keep.hand = function() return value, result end
    yield()
  end
  for _, figure in ipairs { "unordered", "ordered", "late" } do
    time_rounds(figure, function()
      local keep = {}
      for i = 1, n do
        local one = {
          co = create(body), a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0, m = 0,
          n = 0, o = 0, p = 0, q = 0, r = 0, s = 0, t = 0, u = 0, v = 0, w = 0, x = 0, y = 0, hand = false,
        }
        one.put, one.grow, one.exchange = function() return one end, function() return one, 1 end, { {}, {}, {}, {} }
        keep[i] = one
        resume(one.co, one)
      end
      for i = 1, n do resume(keep[1 + i * STEP % n].co) end
    end)
  end
end

-- Jobs of a remote stage on a nats-server of its own, n at a time. The first n wait for the worker, a process of its
-- own, for 12 s, in which the submitter looks after them: "waits" is what a second of that takes for each of them.
local REMOTE_WORKER = [[
local conn = assert(require("runnel.nats").connect(arg[1]))
local worker = conn:serve("scale", 64, function(v) return v end)
print "ready"
io.stdout:flush()
worker:wait()
]]

-- The seconds of CPU that a process has used, as Linux counts them.
local function cpu_of(pid)
  local file <close> = assert(io.open(("/proc/%d/stat"):format(pid)))
  local user, system = file:read("a"):match "%) %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) (%d+)"
  return (user + system) / 100
end

function workloads.remote()
  local server <close> = require("spec.support.queue.nats_server").start()
  local conn <close> = assert(require("runnel.nats").connect(server.url))
  local total, count, results = math.max(n, 20000), 0, 0
  local remote <close> = conn:remote "scale"
  local empty, before = in_use(), { os.clock(), cpu_of(server.program.pid) }
  local out = rn.pmap_unordered(n, remote, rn.to_chan(function()
    count = count + 1
    return count <= total and count or nil
  end))
  while count < n do rn.sleep(20) end
  local submitted_at = os.clock()
  rn.sleep(12000)
  add("waits", (os.clock() - submitted_at) / 12 / n * 1e9)
  add("bytes", (in_use() - empty) / n)
  local waiting = os.clock() - submitted_at
  local worker = server.set:start { os.getenv "LUA" or "lua5.4", server.set:write("worker.lua", REMOTE_WORKER),
    server.url }
  for _ in out do results = results + 1 end
  assert(results == total, "results are missing")
  add("ns", (os.clock() - before[1] - waiting) / total * 1e9)
  add("server", (cpu_of(server.program.pid) - before[2]) / total * 1e9)
  assert(worker:status() == nil, worker:output())
end

-- The same in workers of pmap alone: a job waits for its result.
function workloads.remote_floor()
  local total, count = math.max(n, 20000), 0
  rn.run(function()
    local wakes, jobs = rn.chan(), {}
    local function job(v)
      local out = rn.chan(1)
      jobs[#jobs + 1] = out
      wakes:offer(true)
      return out:take() and v
    end
    local empty = in_use()
    time("ns", total, function()
      local out = rn.pmap_unordered(n, job, rn.to_chan(function()
        count = count + 1
        return count <= total and count or nil
      end))
      while #jobs < n do rn.yield() end
      add("bytes", (in_use() - empty) / n)
      rn.go(function()
        local done = 0
        while done < total do
          if done == #jobs then wakes:take() end
          while done < #jobs do
            done = done + 1
            jobs[done]:put(true)
            jobs[done] = true
          end
        end
      end)
      for _ in out do end -- luacheck: ignore 542
    end)
  end)
end

-- Commands, one by one, in a heap of n MB.
function workloads.commands()
  local uv = require "runnel.uv"
  local keep, count = {}, 30
  for i = 1, n do keep[i] = ("x"):rep((1 << 20) + i) end
  time("ns", count, function()
    for _ = 1, count do assert(uv.run { "true", stdout = false, stderr = false }) end
  end)
  return keep
end

-- ---- the command line ----

local is_long = name:find "^remote" or name:find "^pmap" or name:find "^commands"
local repeats = is_long and 1 or name:find "^[wa]" and 3 or math.max(1, math.min(50, 100000 // n))
for _ = 1, repeats do
  in_use()
  local kept = workloads[name]()
  assert(kept == nil or #kept > 0) -- alive until here
end
for _, figure in ipairs(order) do
  local list = samples[figure]
  table.sort(list)
  io.write(("%s %.2f\n"):format(figure, list[(#list + 1) // 2]))
end
os.exit(0, false) -- without freeing a million go blocks one by one
