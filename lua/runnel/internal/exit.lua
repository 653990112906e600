---The end of the program, in good order.

local os, package = os, package
local core = require "runnel.core"
local living = require "runnel.internal.living"

---Ends threads, reports unhandled errors, closes the Lua state and ends the program. On a host of a simulated world it
---ends the program of that host.
---@param code? integer|boolean by default 0, or 1 if an untaken error was written to stderr
return function(code)
  local simulated = package.loaded["runnel.internal.world"]
  local host = simulated and simulated.world and (simulated.world:here() or simulated.handling)
  if host then host:exit(code) end
  if living.end_threads then living.end_threads() end
  core.internal.report_unhandled(true)
  if code == nil then code = core.internal.is_well() end
  os.exit(code, true)
end
