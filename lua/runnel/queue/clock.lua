---The time in ms since 1970, for messages that wait for theirs. It goes on as it has begun when the program was loaded,
---whoever sets the clock of the machine: a message whose wait has begun waits as long as it should. To the second, as
---os.time is.

local os = os
local core = require "runnel.core"

local is_simulation, now, time_of_day = core.internal.is_simulation, core.now, os.time

local clock = {}

local began = time_of_day() * 1000 - now()

---@return number ms
function clock.time()
  if is_simulation() then return os.time() * 1000 end -- of the simulated host
  return began + now()
end

---How many ms a message must still wait, by its headers; nil if it need not.
---@param headers? table<string, any>
---@return number? ms
function clock.wait_of(headers)
  local at = headers and tonumber(headers["Runnel-At"])
  local ms = at and at - clock.time()
  return ms and ms > 0 and ms or nil
end

return clock
