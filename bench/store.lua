-- make bench-store: what runnel.sqlite and runnel.store take, with synchronous = "full", in a file on this disk. Each
-- row is the best of some rounds; CPU is that of all threads of the process. The ratios are to the first row of a run.
--
--     lua5.4 bench/store.lua [FOLDER]

local rn = require "runnel"
local sqlite = require "runnel.sqlite"
local stores = require "runnel.store"

local ROUNDS <const>, AT_ONCE <const> = 3, 128
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

-- Measures f(round), which does n jobs.
local function row(name, n, f)
  local best, cpu = math.huge, 0
  for round = 1, ROUNDS do
    collectgarbage()
    local start, clock = rn.now(), os.clock()
    f(round)
    local took = (rn.now() - start) * 1000 / n
    if took < best then best, cpu = took, (os.clock() - clock) * 1e6 / n end
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
