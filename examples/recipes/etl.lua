-- Reads JSON lines { "id": 1, "name": "a", "value": 0.5 } into a table of SQLite. Threads check the lines; each piece
-- of the file, some hundred lines, is one INSERT. Needs luv, lua-cjson and libsqlite3.
--
--     runnel examples/recipes/etl.lua events.jsonl events.db

local rn = require "runnel"
local uv = require "runnel.uv"

local path, db = arg[1], require("runnel.sqlite").open(arg[2])
db:exec "create table if not exists events (id integer primary key, name text, value real)"

-- The lines of a piece as one array of JSON, which SQLite reads. This runs in the threads of the pool.
local to_array <close> = rn.threads(rn.cores(), function(piece)
  local json = require "cjson"
  local events = {}
  for line in require("runnel").each_line(piece) do
    if pcall(json.decode, line) then events[#events + 1] = line
    elseif line ~= "" then error(("not JSON: %s"):format(line:sub(1, 60)), 0) end
  end
  return "[" .. table.concat(events, ",") .. "]"
end)

local INSERT = "insert into events select value ->> 'id', value ->> 'name', value ->> 'value' from json_each(?)"

local n = 0
local arrays <close> = rn.pmap(2 * rn.cores(), to_array, uv.lines(path, { pieces = 65536 }))
for array in arrays do n = n + db:exec(INSERT, array) end
local _, wrong = arrays:take()
if wrong then error(wrong, 0) end
print(n .. " rows")
