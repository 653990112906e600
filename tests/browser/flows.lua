-- For tests/browser/page.mjs: a program with a flow. With the argument "control" the page may change it. A stage cannot
-- work on "x" before another value has been injected behind it, which repairs it.
local rn = require "runnel"
local flow = require "runnel.flow"
local short = require "runnel.internal.short"

local monitor <close> = require("runnel.monitor").listen(0, { control = arg[1] == "control" })
io.stderr:write("monitor: ", monitor.url, "\n")

local f
f = flow("numbers", {
  count = { source = function(put)
    for i = 1, math.huge do
      rn.sleep(20)
      put(i)
    end
  end },
  double = { function(n) return 2 * n end, buffer = 4 },
  save = function(value)
    if type(value) ~= "table" then return end
    io.stderr:write("saved ", short.value(value), "\n")
    f:replace("double", function() return 0 end)
  end,
  "count > double > save",
})
f:start()
repeat rn.sleep(50) until f:done():closed()
io.stderr:write("ended: ", tostring(#f:stop() == 0), "\n")
rn.sleep(600000)
