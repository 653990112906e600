-- Reads JSON lines { "id": 1, "name": "a", "value": 0.5 } into a table of SQLite. Each piece of the file, some hundred
-- lines, is one INSERT, done exactly once: when the program is started again, it goes on. Needs luv and libsqlite3.
--
--     runnel examples/recipes/etl.lua events.jsonl events.db

local rn = require "runnel"
local uv = require "runnel.uv"

local path, store = arg[1], require("runnel.store").open(arg[2])
store.db:exec "create table if not exists events (id integer primary key, name text, value real)"
local INSERT = "insert into events select value ->> 'id', value ->> 'name', value ->> 'value' from json_each(?)"

local insert = store:once("etl " .. path, function(_, piece, tx)
  local ok, n = pcall(tx.exec, tx, INSERT, "[" .. piece:gsub("\n+$", ""):gsub("\n+", ",") .. "]")
  if ok then return n end
  for line in rn.each_line(piece) do
    local is_good = line == "" or tx:one("select json_valid(?) as valid", line).valid == 1
    if not is_good then error("not JSON: " .. line:sub(1, 60), 0) end
  end
  error(n, 0)
end, { tx = true })

local n, at = 0, 0
for piece in uv.lines(path, { pieces = 65536 }) do
  n, at = n + insert(at, piece), at + #piece
end
print(n .. " rows")
