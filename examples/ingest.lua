-- Fills a table of an SQLite database from files, in batches, and prints the sums by name.
--
--     lua5.4 examples/ingest.lua DATABASE FILE...
--     printf 'rain,3\nwind,9\nrain,x\n' >day.csv; lua5.4 examples/ingest.lua weather.db day.csv
--
-- Each line is a name and a number. Lines that are not go to stderr. A file that cannot be read ends the program with
-- status 1; what was read before it is in the database. Ctrl-C ends in good order: what was read is stored.
--
-- Needs libsqlite3.

local flow = require "runnel.flow"

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
local db = require("runnel.sqlite").open(database)
db:exec "create table if not exists readings (name text, value real)"

-- Stores some rows in one transaction.
local function save(rows)
  db:transaction(function(tx)
    for _, row in ipairs(rows) do tx:exec("insert into readings values (?, ?)", row.name, row.value) end
  end)
  return #rows
end

local stored, bad = 0, 0

local f <close> = flow("ingest", {
  files = { from = arg },
  lines = { step = function(path, put)
    local file <close> = assert(io.open(path))
    for line in file:lines() do put(line) end
  end },
  parse = function(line)
    local name, value = line:match "^([^,]+),%s*(%S+)$"
    return { name = name, value = tonumber(value) or error(("not a name and a number: %q"):format(line), 0) }
  end,
  batch = flow.batch(100, 200),
  save = function(rows) stored = stored + save(rows) end,
  bad = function(e)
    io.stderr:write("ingest: ", e.error, "\n")
    bad = bad + 1
  end,
  "files > lines > parse > batch > save",
  "parse.error > bad",
})

local ok, err = pcall(f.wait, f)
if not ok then -- a stage holds: that of the files, or of the database
  io.stderr:write("ingest: ", tostring(err), "\n")
  f:replace("lines", function() end):resume "lines" -- what was read goes on to the database
  f:drain(1000)
end
for row in db:query "select name, sum(value) as sum from readings group by name order by name" do
  print(("%-16s %g"):format(row.name, row.sum))
end
io.stderr:write(("%d rows stored; %d lines skipped\n"):format(stored, bad))
if not ok then os.exit(1, true) end
