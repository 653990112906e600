-- A hundred thousand go blocks: they sleep at the same time,
-- in one tab.
local rn = require "runnel"

local began, done = rn.now(), rn.chan(100000):name "done"
for i = 1, 100000 do
  rn.go(function()
    rn.rename "sleeper"
    rn.sleep(1000 + i % 1000)
    done:put(true)
  end)
end
local ms, mb = rn.now() - began, collectgarbage "count" / 1024
print(("started after %.0f ms, %.0f MB"):format(ms, mb))
for _ = 1, 100000 do done:take() end
ms = rn.now() - began
print(("all have ended after %.0f ms"):format(ms))
