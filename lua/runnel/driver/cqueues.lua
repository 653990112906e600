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
---
---In a program that has required runnel.uv, or runnel.driver.luv, this driver runs luv's loop, too.

local debug, package = debug, package
local core = require "runnel.core"
local need = require "runnel.internal.need"
local cqueues = need("cqueues", "Debian's lua-cqueues, LuaRocks' cqueues")

---@class runnel.driver.cqueues: runnel.Driver
---@field controller table runs the threads; `controller:wrap(f)` adds one
---@field luv boolean true: runnel.uv can use this driver, because it runs luv's loop
local driver = { controller = cqueues.new(), luv = true }

-- Runs ready threads. Returns the ms until the next deadline, or nil if there is none.
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

-- The driver of luv's loop, if the program uses that.
local function luv() return package.loaded["runnel.driver.luv"] end

local function sooner(a, b) return a and b and math.min(a, b) or a or b end

-- Waits with core.wait_readable and not with cqueues, which does not stop waiting for a signal such as Ctrl-C. Runs the
-- controller first, because that tells the kernel what to watch.
function driver:wait(ms)
  local was_alive, beside = self:alive(), luv()
  local left = run(self.controller)
  if beside then left = sooner(left, beside.turn(ms ~= 0)) end
  if ms == 0 or not ms and was_alive and not self:alive() then return end -- the last thread or handle has just ended
  local may_have_events = core.wait_readable(self.controller:pollfd(), sooner(left, ms), beside and beside.descriptor())
  if not may_have_events then return end
  run(self.controller)
  if beside then beside.turn(false) end
end

function driver:alive()
  local beside = luv()
  return not self.controller:empty() or beside and beside:alive() or false
end

return driver
