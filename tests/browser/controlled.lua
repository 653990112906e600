-- A program for tests/browser/page.mjs: a pipeline whose middle stage is slow, and a go block to kill. With a monitor
-- of its own; the first argument says whether it allows control. The program ends when there is a file at the path that
-- the second argument is.
local rn = require "runnel"
local monitor = require "runnel.monitor"

local m = assert(monitor.listen(0, { control = arg[1] == "control", show = "values", program = "controlled.lua" }))
io.stderr:write("monitor: ", m.url, "\n")

local lines, words = rn.chan(10):name "lines", rn.chan(10):name '<img src=x onerror=alert(1)>'
rn.go(function()
  rn.rename "reader"
  for i = 1, math.huge do lines:put("line " .. i) end
end)
for _ = 1, 3 do
  rn.go(function()
    rn.rename "parse"
    for line in lines do
      rn.sleep(20)
      words:put(line)
    end
  end)
end
rn.go(function()
  rn.rename "count"
  for _ in words do end
end)

local victim = rn.go(function()
  rn.rename "victim"
  rn.chan():name "nothing":take()
end)
rn.go(function()
  rn.rename "heir"
  local _, err = victim:take()
  io.stderr:write("victim: ", tostring(err), "\n")
end)

rn.run(function() repeat rn.sleep(100) until arg[2] and io.open(arg[2]) end)
os.exit(0, true)
