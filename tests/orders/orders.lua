-- Compares sim.explore's option share = "channels" with a search of all orders: the same outcomes, on random programs.
--
--   lua5.4 tests/orders/orders.lua FIRST LAST          the programs of these seeds
--   COUNT=1 lua5.4 tests/orders/orders.lua FIRST LAST  counts those that differ
--
-- A program with too many orders is left out. Without COUNT a difference ends it, with the program, and the outcomes
-- that are missing.

local search = require "tests.orders.search"

local first, last = math.tointeger(arg[1] or 1), math.tointeger(arg[2] or 1000)
local compared, all, reduced, different = 0, 0, 0, 0
for seed = first, last do
  local difference, orders, fewer = search.compare(seed)
  if orders then compared, all, reduced = compared + 1, all + orders, reduced + fewer end
  if difference and not os.getenv "COUNT" then
    print(difference)
    os.exit(false, true)
  end
  different = different + (difference and 1 or 0)
end
print(("%d programs, %d orders, %d with share = \"channels\", %d differ"):format(compared, all, reduced, different))
