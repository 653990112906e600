-- A flow that you repair: choose "flows" beside this program.
local rn = require "runnel"
local flow = require "runnel.flow"

local function price(order)
  return order.price * order.count
end

local shop = flow("shop", {
  orders = {
    source = function(put)
      for id = 1, 1e6 do
        local count = id ~= 30 and 2 or nil
        put { id = id, price = 5, count = count }
        rn.sleep(50)
      end
    end,
  },
  total = { price },
  save = function(value) print("saved " .. value) end,
  "orders > total > save",
})

-- Order 30 has no count, so the stage `total` holds. Choose
-- it below the table, replace its function by
--   function(order)
--     return order.price * (order.count or 1)
--   end
-- and press "resume" in its row. "Inject" gives a stage a
-- value of yours, such as the JSON {"price": 7, "count": 3}.
while not pcall(shop.wait, shop) do rn.sleep(200) end
