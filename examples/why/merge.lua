-- Three sources of 100 values each, read as one.
local rn = require "runnel"

local sources = {}
for i = 1, 3 do
  sources[i] = rn.chan()
  rn.go(function()
    for v = 1, 100 do sources[i]:put(v) end
    sources[i]:close()
  end)
end

local n, sum = 0, 0
for v in rn.merge(sources) do n, sum = n + 1, sum + v end
print(n, sum)
