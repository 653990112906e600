-- Compares sim.explore's option share = "channels" with a search of all orders: the same outcomes, on random programs.
--
--   lua5.4 tests/orders/orders.lua FIRST LAST      the programs of these seeds
--
-- A program with too many orders is left out. A difference ends it, with the program, and the outcomes that are missing.

local orders = require "tests.orders.search"

if arg and arg[0] and arg[0]:find "orders%.lua$" then
  local first, last = math.tointeger(arg[1] or 1), math.tointeger(arg[2] or 1000)
  local compared, all, reduced, different = 0, 0, 0, 0
  for seed = first, last do
    local difference, a, b = orders.compare(seed)
    if a then compared, all, reduced = compared + 1, all + a, reduced + b end
    if difference then
      different = different + 1
      if not os.getenv "COUNT" then
        print(difference)
        os.exit(false, true)
      end
    end
  end
  print(("%d programs, %d orders, %d with share = \"channels\", %d differ"):format(compared, all, reduced, different))
end
