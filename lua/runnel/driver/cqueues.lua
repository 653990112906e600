---A driver over a controller of cqueues: its threads run beside go blocks.
---
---    local cqueues = require "runnel.driver.cqueues"
---    rn.driver(cqueues)
---    local lines = rn.chan(10)
---    cqueues.controller:wrap(function()
---      for line in socket:lines() do lines:put_async(line) end
---      lines:close()
---    end)
---    for line in lines do print(line) end
---
---A thread of cqueues must not park; use put_async, take_async, offer, poll and rn.go there. Only threads of cqueues
---can use what waits in its own way, such as its sockets. Errors of its threads go to rn.on_error.

local core = require "runnel.core"
local need = require "runnel.internal.need"
local cqueues = need("cqueues", "Debian's lua-cqueues, LuaRocks' cqueues")

---@class runnel.driver.cqueues: runnel.Driver
---@field controller table runs the threads; `controller:wrap(f)` adds one
local driver = { controller = cqueues.new() }

-- Runs what is ready. Returns the ms until the next deadline, or nil if there is none.
local function run(controller)
  while true do
    local ok, err, _, thread = controller:step(0)
    if ok then break end
    if not thread then error(err, 0) end
    core.internal.report(err, debug.traceback(thread), "a thread of cqueues")
  end
  local seconds = controller:timeout()
  return seconds and seconds * 1000
end

-- Waits with core.wait_readable and not with cqueues, which does not stop waiting when a signal such as Ctrl-C comes.
-- Runs the controller first, because that tells the kernel what to watch.
function driver:wait(ms)
  local left = run(self.controller)
  if ms == 0 or not ms and self.controller:empty() then return end -- the last thread may just have ended
  if left then ms = math.min(left, ms or left) end
  if core.wait_readable(self.controller:pollfd(), ms) then run(self.controller) end
end

function driver:alive() return not self.controller:empty() end

return driver
