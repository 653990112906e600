-- make bench-store: what runnel.sqlite and runnel.store take, with synchronous = "full", in a file on this disk. Each
-- row is the best of some rounds; CPU is that of all threads of the process. The ratios are to the first row of a run.
--
--     lua5.4 bench/store.lua [FOLDER]
--
-- It starts itself with the name of a file and a number, as one of several processes that work on a stage.

local rn = require "runnel"
local sqlite = require "runnel.sqlite"
local stores = require "runnel.store"

local ROUNDS <const>, AT_ONCE <const> = 3, 128
local BACKLOG <const>, PROCESSES <const> = 1000000, 4

-- ---- a process of several ----

-- Works on the stage until `count` messages are done, and prints the most memory that it has had, in MB.
local function work(path, count)
  local store <close> = stores.open(path)
  local stage = assert(store:stage("in", AT_ONCE, function(v) return v end, "out"))
  repeat rn.sleep(5) until stage:stats().done >= count or assert(store:stream("out"):stats()).last >= count
  stage:drain()
  for line in io.lines "/proc/self/status" do
    local kb = line:match "^VmHWM:%s*(%d+)"
    if kb then print(kb // 1024) end
  end
end

if arg[2] then return work(arg[1], tonumber(arg[2])) end

local folder = arg[1] or "."
local path = ("%s/bench-store-%d.db"):format(folder, os.time())

local function remove()
  for _, suffix in ipairs { "", "-wal", "-shm", "-locks" } do os.remove(path .. suffix) end
end

-- A list of n numbers from `first` on.
local function numbers(first, n)
  local list = {}
  for i = 1, n do list[i] = first + i end
  return list
end

local SERIES <const> = "with recursive c(x) as (select ?1 union all select x + 1 from c where x < ?2) "
  .. "insert into t select x, x from c"

local reference

-- Measures f(round), which does n jobs, and may return the ms and the CPU seconds that count.
local function row(name, n, f)
  local best, cpu = math.huge, 0
  for round = 1, ROUNDS do
    collectgarbage()
    local start, clock = rn.now(), os.clock()
    local ms, seconds = f(round)
    local took = (ms or rn.now() - start) * 1000 / n
    if took < best then best, cpu = took, (seconds or os.clock() - clock) * 1e6 / n end
  end
  reference = reference or best
  print(("%-58s %9.2f us  %9.2f us CPU  %7.2f"):format(name, best, cpu, best / reference))
end

local function each(f, list, at_once)
  for _ in rn.pmap_unordered(at_once, f, list) do end
end

remove()
print(("%-58s %12s  %16s  %7s"):format("", "a job", "", "ratio"))
do
  local db <close> = sqlite.open(path)
  db:exec "create table t(a integer primary key, b)"
  local n = 0
  local function insert(i)
    db:exec("insert into t values (?, ?)", i, i)
    return true
  end
  row("db:exec of an insert, 128 at a time", 20000, function()
    each(insert, numbers(n, 20000), AT_ONCE)
    n = n + 20000
  end)
  row("db:exec of an insert, 1 at a time", 200, function()
    each(insert, numbers(n, 200), 1)
    n = n + 200
  end)
  row("db:transaction of an insert, 128 at a time", 200, function()
    each(function(i) return db:transaction(function(tx) return tx:exec("insert into t values (?, ?)", i, i) end) end,
      numbers(n, 200), AT_ONCE)
    n = n + 200
  end)
  row("db:exec of one insert of 100000 rows, a row", 100000, function()
    db:exec(SERIES, n + 1, n + 100000)
    n = n + 100000
  end)
  row("db:one by the key, 128 at a time", 20000, function()
    each(function(i) return db:one("select b from t where a = ?", i) end, numbers(0, 20000), AT_ONCE)
  end)
  row("db:query, a row", 100000, function()
    for _ in db:query "select a, b from t limit 100000" do end
  end)
end
do
  local store = stores.open(path)
  local f = store:once("work", function(i) return i end)
  row("once, 128 at a time", 20000, function(round) each(f, numbers(round * 20000, 20000), AT_ONCE) end)
  row("once, in memory", 10000, function()
    for i = 70001, 80000 do f(i) end
  end)
  local table_of = store:once("tables", function(i) return { id = i, name = "a name", list = { 1, 2, 3 } } end)
  row("once of a small table, 128 at a time", 10000, function(round)
    each(table_of, numbers(round * 10000, 10000), AT_ONCE)
  end)
  row("once of a small table, in memory", 10000, function()
    for i = 30001, 40000 do table_of(i) end
  end)
  store:close()
  row("once, in the file, 128 at a time", 20000, function(round)
    local again <close> = stores.open(path)
    each(again:once("work", error), numbers(round * 20000, 20000), AT_ONCE)
  end)
end
remove()

-- ---- stages ----

-- A store with streams "in" and "out"; n messages of 100 bytes are in the first one.
local function filled(n)
  remove()
  local store = stores.open(path)
  for _, name in ipairs { "in", "out" } do assert(store:stream(name)) end
  store.db:exec([[
    with recursive c(i) as (select 1 union all select i + 1 from c where i < ?)
    insert into runnel_message(stream, seq, subject, form, value, bytes, made)
      select 'in', i, 'in', 'json', printf('"%0100d"', i), 102, 0 from c]], n)
  return store
end

do
  local store <close> = filled(1)
  local sink = assert(store:sink "in")
  local value = ("x"):rep(100)
  row("sink:put of 100 bytes, 128 at a time", 20000, function()
    each(function() return sink:put(value) end, numbers(0, 20000), AT_ONCE)
  end)
end
do
  local n = 40000
  row("a stage of messages of 100 bytes, 128 at a time", n, function()
    local store <close> = filled(n)
    local start, clock = rn.now(), os.clock()
    local stage = assert(store:stage("in", AT_ONCE, function(v) return v end, "out"))
    repeat rn.sleep(5) until stage:stats().done == n
    stage:drain()
    return rn.now() - start, os.clock() - clock
  end)
end

local function command(count) return ("%s %s '%s' %d"):format(arg[-1] or "lua5.4", arg[0], path, count) end

row("the same in four processes", 40000, function()
  filled(40000):close()
  local start, pipes = rn.now(), {}
  for i = 1, PROCESSES do pipes[i] = io.popen(command(40000)) end
  for _, pipe in ipairs(pipes) do pipe:close() end
  return rn.now() - start
end)

filled(BACKLOG):close()
local start = rn.now()
local store = stores.open(path)
assert(store:sink "in")
local opened = rn.now() - start
start = rn.now()
local stage = assert(store:stage("in", 1, function(v) return v end, "out"))
repeat rn.sleep(1) until stage:stats().done > 0
print(("a file of %d messages is opened in %.0f ms, the first one is done %.0f ms after that"):format(BACKLOG, opened,
  rn.now() - start))
stage:drain()
store:close()
local pipe = io.popen(command(20000))
print(("a process that works on these has at most %s MB of memory"):format(pipe:read "l"))
pipe:close()
remove()
