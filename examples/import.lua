-- Imports orders from a file, and goes on where it was when it is started again: after Ctrl-C, a crash, or kill -9.
--
--     lua5.4 examples/import.lua STORE FILE
--     seq 2000 | sed 's/$/,500/' >orders.csv; lua5.4 examples/import.lua work.db orders.csv
--
-- A line is the number of an order, and its cents. Each order is charged by a service, which takes a while and must not
-- be asked twice; then it is written into a table of the store, exactly once. Here the service is a sleep of 10 ms that
-- prints the number to stderr. Needs libsqlite3.

local rn = require "runnel"

local USAGE = "usage: lua5.4 examples/import.lua STORE FILE\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end
if not arg[2] or arg[3] then
  io.stderr:write(USAGE)
  os.exit(2)
end

local store <close> = require("runnel.store").open(arg[1])
store.db:exec "create table if not exists orders(id integer primary key, cents integer, receipt text)"

-- Once for each order, but for those that are being charged when the program is killed: these are charged again. A real
-- service gets the number, too, and so knows what it has done.
local charge = store:once("charge", function(id)
  io.stderr:write(id, "\n")
  rn.sleep(10)
  return "receipt of " .. id
end)

-- Exactly once: the row and the fact that it is done are one transaction.
local record = store:once("order", function(id, cents, receipt, tx)
  tx:exec("insert into orders values (?, ?, ?)", id, cents, receipt)
end, { tx = true })

local function import(line)
  local id, cents = line:match "^(%d+),(%d+)$"
  if not id then return nil, ("not a number and cents: %q"):format(line) end
  record(id, tonumber(cents), charge(id))
  return true
end

local done = rn.pmap_unordered(32, import, io.lines(arg[2]))
for _ in done do end
local _, err = done:take()
if err then error(err, 0) end
local sum = store.db:one "select count(*) as orders, sum(cents) as cents from orders"
print(("%d orders, %d cents"):format(sum.orders, sum.cents or 0))
