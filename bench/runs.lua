-- A part of make bench-store: what runs of runnel.store take, with synchronous = "full", in a file on this disk. CPU is
-- that of all threads of the process.
--
--     lua5.4 bench/runs.lua [FOLDER]

local rn = require "runnel"
local stores = require "runnel.store"

local AT_ONCE <const>, STEPS <const>, REPLAYS <const>, ASLEEP <const> = 128, 100, 200, 1000000
local path = ("%s/bench-runs-%d.db"):format(arg[1] or ".", os.time())

local function remove()
  for _, suffix in ipairs { "", "-wal", "-shm", "-locks" } do os.remove(path .. suffix) end
end

-- Measures f(), which does n jobs.
local function row(name, n, f)
  collectgarbage()
  local start, clock = rn.now(), os.clock()
  f()
  print(("%-58s %9.2f us  %9.2f us CPU"):format(name, (rn.now() - start) * 1000 / n, (os.clock() - clock) * 1e6 / n))
end

-- Starts n runs, so many at a time, and waits for their results.
local function each(runs, n, at_once)
  local ids = {}
  for i = 1, n do ids[i] = i end
  for _ in rn.pmap_unordered(at_once, function(i) return assert(runs:start(i, i)):result() end, ids) do end
end

remove()
do
  local store <close> = stores.open(path)
  local step = store:once("step", function(i) return i end)
  local many = store:runs("many", function(_, v)
    for i = 1, STEPS do step(i) end
    return v
  end)
  row("a step of a run, 128 runs at a time", AT_ONCE * STEPS, function() each(many, AT_ONCE, AT_ONCE) end)
  local one = store:runs("one", function(_, v) return step(v) end)
  row("start, one step and result of a run, 128 at a time", 5000, function() each(one, 5000, AT_ONCE) end)
  local alone = store:runs("alone", function(_, v) return step(v) end)
  row("start, one step and result of a run, 1 at a time", 200, function() each(alone, 200, 1) end)

  local replayed, ended = 0, rn.chan()
  local sleepers = store:runs("sleepers", function(run, v)
    for i = 1, STEPS do step(i) end
    replayed = replayed + 1
    if replayed == 2 * REPLAYS then ended:close() end
    run:sleep(1e9 + v)
  end)
  for i = 1, REPLAYS do assert(sleepers:start(i, i)) end
  local asleep = "select count(*) as n from runnel_delivery where stream = 'runnel-runs-sleepers' and due > 1 "
    .. "and holder is null"
  repeat rn.sleep(5) until store.db:one(asleep).n == REPLAYS
  row("a run of 100 steps is replayed, and sleeps again", REPLAYS, function()
    store.db:exec "update runnel_delivery set due = 1 where stream = 'runnel-runs-sleepers'"
    ended:take()
  end)
end
remove()

-- ---- a million runs that sleep ----

-- Runs that sleep for more than a week, as their processes have left them.
local function fill()
  local store <close> = stores.open(path, { synchronous = "off" })
  local runs <close> = store:runs("order", function() end) -- makes the tables, and the consumer
  runs:stop()
  local now, rows = store:time(), "runnel_run where name = 'order'"
  store.db:exec([[with recursive c(i) as (select 1 union all select i + 1 from c where i < ?1)
    insert into runnel_run(name, id, seq, form, value, made, state, since, due, step, line)
    select 'order', i, i, 'json', '17', ?2, 'sleeping', ?2, ?2 + 1000000000 + i, 'sleep[1000000000]', 'order.lua:1'
    from c]], ASLEEP, now)
  store.db:exec("insert into runnel_message(stream, seq, subject, form, value, bytes, made) "
    .. "select 'runnel-runs-order', seq, 'run', 'json', cast(id as text), 7, made from " .. rows)
  store.db:exec("insert into runnel_delivery(stream, seq, consumer, due, deliveries) "
    .. "select 'runnel-runs-order', seq, 'order', due, 0 from " .. rows)
  store.db:exec("update runnel_consumer set next = ?", ASLEEP + 1)
  store.db:exec("insert into runnel_once(scope, name, key, step, failed, form, made, expires) "
    .. "select 'order[' || id || '] > 1', 'sleep', 1000000000, 1, 0, 'nil', made, due from " .. rows)
end

-- The memory of this process, in MB.
local function memory()
  for line in io.lines "/proc/self/status" do
    local kb = line:match "^VmRSS:%s*(%d+)"
    if kb then return kb // 1024 end
  end
end

fill()
collectgarbage()
local before, start, clock = memory(), rn.now(), os.clock()
local store = stores.open(path)
local runs = store:runs("order", function() end)
print(("a file of %d runs that sleep is opened in %.0f ms (%.0f ms CPU)"):format(ASLEEP, rn.now() - start,
  (os.clock() - clock) * 1000))
rn.sleep(1000)
print(("a process that continues them has %d MB of memory, %d MB more than before"):format(memory(), memory() - before))
for _, opts in ipairs { {}, { after = ASLEEP // 2 }, { state = "sleeping" }, { state = "failed" } } do
  local clock_before = os.clock()
  local count = #assert(runs:list(opts))
  print(("a list of them, state %s, after %s: %d runs in %.1f ms CPU"):format(opts.state or "any", opts.after or "none",
    count, (os.clock() - clock_before) * 1000))
end
store:close()
remove()
