-- Reads JSON lines { "id": 1, "name": "a", "value": 0.5 } into a table of SQLite. Threads decode; one thread writes,
-- with some hundred rows in a transaction. Needs luv, lua-cjson and luasql-sqlite3.
--
--     runnel examples/recipes/etl.lua events.jsonl events.db

local rn = require "runnel"
local uv = require "runnel.uv"

local path, db = arg[1], arg[2]

-- The rows of some lines, as SQL. This runs in the threads of the pool.
local to_rows <close> = rn.threads(rn.cores(), function(piece)
  local json = require "cjson"
  local rows = {}
  for line in require("runnel").each_line(piece) do
    local ok, event = pcall(json.decode, line)
    if ok then rows[#rows + 1] = ("(%d,'%s',%.17g)"):format(event.id, event.name:gsub("'", "''"), event.value)
    elseif line ~= "" then error(("not JSON: %s"):format(line:sub(1, 60)), 0) end
  end
  return table.concat(rows, ",")
end)

local inserts = rn.shared_chan(4)
local writer = rn.thread(function(file, queue)
  local rows <close> = queue -- closes it on an error, too, so that nobody waits
  local conn = assert(require("luasql.sqlite3").sqlite3():connect(file))
  assert(conn:execute "PRAGMA busy_timeout = 10000"):close() -- ms to wait for programs that read, or write
  assert(conn:execute "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
  local n = 0
  for list in rows do n = n + assert(conn:execute("INSERT INTO events VALUES " .. list)) end
  conn:close()
  return n // 1 | 0 -- the library counts in floats
end, db, inserts)

local results <close> = rn.pmap(2 * rn.cores(), to_rows, uv.lines(path, { pieces = 65536 }))
for list in results do
  if not inserts:put(list) then break end
end
inserts:close()
local _, wrong = results:take()
if wrong then error(wrong, 0) end
print(assert(writer:take()) .. " rows")
