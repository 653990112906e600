-- lua require.lua: what `require "runnel"` costs, and what is loaded when it is first used, all of it together.

local function measured(what, f)
  collectgarbage()
  collectgarbage()
  local before, began = collectgarbage "count", os.clock()
  f()
  local ms = (os.clock() - began) * 1000
  collectgarbage()
  collectgarbage()
  print(("%-12s %4.0f KB  %.1f ms"):format(what, collectgarbage "count" - before, ms))
end

local rn
measured("runnel", function() rn = require "runnel" end)
measured("the rest", function()
  for _ in pairs(rn) do end -- loads it
end)
