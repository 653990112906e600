---A driver over a controller of cqueues', so that its threads run beside go blocks.
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
---A thread of cqueues' must not park; put_async, take_async, offer, poll and rn.go are for it. What waits the way of
---cqueues, such as its sockets, is for its threads only. Their errors go to rn.on_error.

local core = require "runnel.core"
local need = require "runnel.need"
local cqueues = need("cqueues", "Debian's lua-cqueues, LuaRocks' cqueues")

---@class runnel.driver.cqueues: runnel.Driver
---@field controller table what runs the threads: `controller:wrap(f)` adds one
local driver = { controller = cqueues.new() }

-- Runs what is ready, and returns after how many ms there will be something, if anything is timed.
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

-- The waiting is not that of cqueues, which would go on when a signal such as Ctrl-C comes. Running first tells the
-- kernel what to watch.
function driver:wait(ms)
  local left = run(self.controller)
  if ms == 0 or not ms and self.controller:empty() then return end -- the last thread may have ended just now
  if left then ms = math.min(left, ms or left) end
  if core.wait_readable(self.controller:pollfd(), ms) then run(self.controller) end
end

function driver:alive() return not self.controller:empty() end

return driver
