-- Asks PostgreSQL several questions at a time: a pool of threads, each with a connection of its own, since the library
-- waits for the server. Needs luasql-postgres.
--
--     runnel examples/recipes/postgres.lua "host=/run/postgresql dbname=shop" "SELECT 1 AS one" "SELECT now()"

local rn = require "runnel"

local dsn = table.remove(arg, 1)

-- This runs in the threads of the pool. A global variable of each keeps the connection.
local query <close> = rn.threads(4, function(question)
  local connection = _G.connection
  if not connection then
    connection = assert(require("luasql.postgres").postgres():connect(question.dsn))
    connection:execute "SET statement_timeout = 2000" -- a timeout of pmap could not interrupt the library
    _G.connection = connection
  end
  local cursor, err = connection:execute(question.sql)
  if not cursor then
    _G.connection = nil -- the next question connects again
    error(err, 0)
  end
  if type(cursor) == "number" then return { affected = cursor } end
  local rows = {}
  while true do
    local row = cursor:fetch({}, "a")
    if not row then break end
    rows[#rows + 1] = row
  end
  cursor:close()
  return rows
end)

local questions = {}
for i, sql in ipairs(arg) do questions[i] = { dsn = dsn, sql = sql } end

local function failed(err, question)
  io.stderr:write(("%s: %s\n"):format(question.sql, err))
  return {}
end

for rows in rn.pmap(8, query, questions, { ex_handler = failed }) do
  if rows.affected then print(rows.affected .. " rows") end
  for _, row in ipairs(rows) do
    local fields = {}
    for name, value in pairs(row) do fields[#fields + 1] = ("%s = %s"):format(name, value) end
    table.sort(fields)
    print(table.concat(fields, ", "))
  end
end
