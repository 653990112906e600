-- 1,000 values through two stages; when eight wait for the second one, the first waits.
local rn = require "runnel"

local numbers, squares = rn.chan(8), rn.chan(8)
rn.go(function()
  for i = 1, 1000 do numbers:put(i) end
  numbers:close()
end)
rn.go(function()
  for n in numbers do squares:put(n * n) end
  squares:close()
end)
local sum = 0
for n in squares do sum = sum + n end
print(sum)
