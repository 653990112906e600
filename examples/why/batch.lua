-- Ten values in batches of four, or of what has come 2 s after the first.
local rn = require "runnel"

local values = rn.chan()
rn.go(function()
  for i = 1, 10 do values:put(i) end
  values:close()
end)

local sizes = {}
for batch in rn.batch(values, 4, 2000) do sizes[#sizes + 1] = #batch end
print(table.concat(sizes, " "))
