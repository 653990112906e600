-- Busted loads this file before the specs (--helper). It sends the name of each spec that begins to scripts/watchdog,
-- so that no spec hangs for ever. SPEC_LIMIT is how many seconds a spec may take.
local busted = require "busted"

local limit = os.getenv "SPEC_LIMIT" or "120"
local watchdog = io.popen("exec scripts/watchdog " .. limit, "w")
watchdog:setvbuf "line"

busted.subscribe({ "test", "start" }, function(element)
  local trace = element.trace
  watchdog:write(("%s:%d: %s\n"):format(trace.short_src, trace.currentline, element.name))
  return nil, true -- other subscribers go on
end)

busted.subscribe({ "exit" }, function()
  watchdog:close()
  return nil, true
end)
