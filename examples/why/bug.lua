-- A bug: the channel is never closed, so its reader waits for ever.
local rn = require "runnel"

local values = rn.chan():name "values"
rn.go(function()
  rn.rename "source"
  values:put(1)
end)
for v in values do print(v) end
