-- A program for tests/browser/page.mjs: 500 channels, each with a go block that puts and one that takes.
local rn = require "runnel"

for i = 1, 500 do
  local ch = rn.chan(i % 10 + 1):name("queue " .. i)
  rn.go(function()
    rn.rename(i % 2 == 0 and "even source" or "odd source")
    for n = 1, math.huge do
      ch:put(n)
      rn.sleep(20)
    end
  end)
  rn.go(function()
    rn.rename "sink"
    for _ in ch do rn.sleep(i % 5 * 20) end
  end)
end
rn.run()
