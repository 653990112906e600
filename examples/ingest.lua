-- Fills a table of an SQLite database from files, in batches, and prints the sums by name.
--
--     lua5.4 examples/ingest.lua DATABASE FILE...
--     printf 'rain,3\nwind,9\nrain,x\n' >day.csv; lua5.4 examples/ingest.lua weather.db day.csv
--
-- Each line is a name and a number. Lines that are not go to stderr. A file that cannot be read ends the program with
-- status 1; what was read before it is in the database. Ctrl-C ends in good order: what was read is stored.
--
-- One thread uses the database, so that storing does not block the program. Needs LuaSQL for SQLite (on Debian:
-- lua-sql-sqlite3).

local rn = require "runnel"
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
if not pcall(require, "luasql.sqlite3") then
  io.stderr:write "ingest: luasql.sqlite3 is not installed (on Debian: lua-sql-sqlite3); nothing was done\n"
  os.exit(1)
end

-- Runs in the thread; its globals are the thread's own.
local store <close> = rn.threads(1, function(job)
  if not _G.connection then
    _G.environment = require("luasql.sqlite3").sqlite3()
    _G.connection = assert(_G.environment:connect(job.database))
    assert(_G.connection:execute "PRAGMA busy_timeout = 10000"):close() -- ms to wait for other programs
    assert(_G.connection:execute "CREATE TABLE IF NOT EXISTS readings (name TEXT, value REAL)")
    _G.connection:setautocommit(false)
  end
  for _, row in ipairs(job.rows or {}) do
    local name = _G.connection:escape(row.name)
    assert(_G.connection:execute(("INSERT INTO readings VALUES ('%s', %.17g)"):format(name, row.value)))
  end
  assert(_G.connection:commit())
  if job.rows then return #job.rows end
  local sums = {}
  local cursor = assert(_G.connection:execute "SELECT name, SUM(value) FROM readings GROUP BY name ORDER BY name")
  for name, sum in function() return cursor:fetch() end do sums[#sums + 1] = { name = name, sum = sum } end
  return sums
end)

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
  save = function(rows) stored = stored + store { database = database, rows = rows } end,
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
for _, row in ipairs(store { database = database }) do print(("%-16s %g"):format(row.name, row.sum)) end
io.stderr:write(("%d rows stored; %d lines skipped\n"):format(stored, bad))
if not ok then os.exit(1, true) end
