-- What a row costs that is inserted into SQLite by runnel.sqlite, and by Python's sqlite3: CPU time of all threads.
--
--     lua5.4 bench/rows.lua [ROWS]
--
-- The rows have four columns, and are there before. Medians of seven rounds, in each of which all run in turn.

local rn = require "runnel"
local sqlite = require "runnel.sqlite"

local ROWS <const>, ROUNDS <const> = tonumber(arg[1]) or 100000, 7
local INSERT <const> = "insert into t values (?, ?, ?, ?)"

local lists, tables = {}, {}
for i = 1, ROWS do
  lists[i] = { i, "name " .. i, i * 0.5, "text" }
  tables[i] = { a = i, b = "name " .. i, c = i * 0.5, d = "text" }
end

local PYTHON <const> = ([[
import sqlite3, time
n = %d
rows = [(i, "name %%d" %% i, i * 0.5, "text") for i in range(1, n + 1)]
def run(f):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("create table t(a integer, b text, c real, d text)")
    clock = time.process_time()
    db.execute("begin")
    f(db)
    db.execute("commit")
    print((time.process_time() - clock) * 1e6 / n)
def each(db):
    for row in rows:
        db.execute("%s", row)
run(lambda db: db.executemany("%s", rows))
run(each)
]]):format(ROWS, INSERT, INSERT)

local WAYS <const> = {
  { "tx:exec, a list of lists", function(tx) tx:exec(INSERT, { rows = lists }) end },
  { "tx:exec, a list of tables", function(tx)
    tx:exec("insert into t values (:a, :b, :c, :d)", { rows = tables })
  end },
  { "tx:exec, a channel", function(tx)
    local ch = rn.chan(100)
    rn.go(function()
      for _, row in ipairs(lists) do ch:put(row) end
      ch:close()
    end)
    tx:exec(INSERT, { rows = ch })
  end },
  { "tx:exec, an iterator", function(tx)
    local i = 0
    tx:exec(INSERT, { rows = function()
      i = i + 1
      return lists[i]
    end })
  end },
  { "tx:exec for each", function(tx)
    for _, row in ipairs(lists) do tx:exec(INSERT, row[1], row[2], row[3], row[4]) end
  end },
}

local names, found = {}, {}

local function note(name, us)
  if not found[name] then
    found[name] = {}
    names[#names + 1] = name
  end
  table.insert(found[name], us)
end

local script = os.tmpname()
do
  local file <close> = assert(io.open(script, "w"))
  file:write(PYTHON)
end
for _ = 1, ROUNDS do
  for _, way in ipairs(WAYS) do
    local db <close> = sqlite.open ":memory:"
    db:exec "create table t(a integer, b text, c real, d text)"
    collectgarbage()
    local clock = os.clock()
    db:transaction(way[2])
    note(way[1], (os.clock() - clock) * 1e6 / ROWS)
    assert(db:one("select count(*) as n from t").n == ROWS)
  end
  local python <close> = assert(io.popen("python3 " .. script .. " 2>&1"))
  note("Python, executemany", python:read "n")
  note("Python, execute for each", python:read "n")
end
os.remove(script)

for _, name in ipairs(names) do
  local ratios, of = {}, found[name:find "each" and "Python, execute for each" or "Python, executemany"]
  for i, us in ipairs(found[name]) do ratios[i] = us / of[i] end
  table.sort(ratios)
  table.sort(found[name])
  local middle = (#ratios + 1) // 2
  print(("%-28s %6.3f us  %.2f of Python's"):format(name, found[name][middle], ratios[middle]))
end
