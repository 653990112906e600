-- For tests/browser/page.mjs: arg[1] go blocks with names of their own, which work on values of arg[2] channels. Says
-- each second on stderr how many values have been put since.
local rn = require "runnel"

local chans, puts = {}, 0
for i = 1, tonumber(arg[2]) do chans[i] = rn.chan(4):name("work " .. i) end
for i = 1, tonumber(arg[1]) do
  rn.go(function()
    rn.rename("worker " .. i)
    for _ in chans[(i - 1) % #chans + 1] do rn.sleep(20 + i % 50) end
  end)
end
rn.go(function()
  rn.rename "feeder"
  for i = 1, math.huge do
    chans[i % #chans + 1]:put(i)
    puts = puts + 1
    if i % 20 == 0 then rn.sleep(5) end
  end
end)
rn.go(function()
  rn.rename "teller"
  local last = 0
  while true do
    rn.sleep(1000)
    io.stderr:write("put: ", puts - last, "\n")
    last = puts
  end
end)
rn.run()
