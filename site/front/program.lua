local rn = require "runnel"

local orders = rn.chan(4):name "orders"
local parcels = rn.chan(4):name "parcels"

local function shop()
  for id = 1, 99 do
    orders:put("parcel " .. id)
  end
  orders:close()
end

local function pack()
  for order in orders do
    parcels:put(order)
    rn.sleep(150) -- a rest: try 15
  end
end

rn.go(shop)
for _ = 1, 2 do rn.go(pack) end -- try 8
for _ = 1, 99 do print(parcels:take()) end
