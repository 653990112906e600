-- One source of values; two readers get all of them, and the slower one sets the pace.
local rn = require "runnel"

local values = rn.chan()
local all = rn.mult(values)
local function reader(ms)
  local ch = all:tap(rn.chan())
  return rn.go(function()
    local sum = 0
    for v in ch do
      sum = sum + v
      rn.sleep(ms)
    end
    return sum
  end)
end
local fast, slow = reader(0), reader(2)
for i = 1, 5 do values:put(i) end
values:close()
print(fast:take(), slow:take())
