-- Fills a table of an SQLite database from files, and prints the sums by name.
--
--     lua5.4 examples/ingest.lua DATABASE FILE...
--     printf 'rain,3\nwind,9\nrain,x\n' >day.csv; lua5.4 examples/ingest.lua weather.db day.csv
--
-- Each line is a name and a number. Other lines are reported on stderr. The rows of a file, and the fact that it is
-- done, are one transaction: so each file is stored exactly once, and a program that was killed is simply started
-- again. A file that cannot be read ends the program with status 1; those before it are in the database. Needs
-- libsqlite3.

local USAGE = "usage: lua5.4 examples/ingest.lua DATABASE FILE...\n"
local database = table.remove(arg, 1)
if database == "--help" then
  io.write(USAGE)
  os.exit()
end
if not arg[1] then
  io.stderr:write(USAGE)
  os.exit(2)
end
local store <close> = require("runnel.store").open(database)
store.db:exec "create table if not exists readings (name text, value real)"

local ingest = store:once("file", function(path, tx)
  local file <close> = assert(io.open(path))
  local n = { rows = 0, skipped = 0 }
  for line in file:lines() do
    local name, value = line:match "^([^,]+),%s*(%S+)$"
    if tonumber(value) then
      n.rows = n.rows + tx:exec("insert into readings values (?, ?)", name, tonumber(value))
    else
      io.stderr:write(("ingest: not a name and a number: %q\n"):format(line))
      n.skipped = n.skipped + 1
    end
  end
  return n
end, { tx = true })

for _, path in ipairs(arg) do
  local ok, n = pcall(ingest, path)
  io.stderr:write(("%s: %s\n"):format(path, ok and ("%d rows, %d lines skipped"):format(n.rows, n.skipped) or n))
  if not ok then os.exit(1, true) end
end
for row in store.db:query "select name, sum(value) as sum from readings group by name order by name" do
  print(("%-16s %g"):format(row.name, row.sum))
end
