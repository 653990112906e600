---A driver over Copas: its threads, timers and sockets run beside go blocks.
---
---    local copas = require "copas"
---    rn.driver(require "runnel.driver.copas")
---    local page = rn.promise_chan()
---    copas.addthread(function() page:put_async((require "copas.http".request "http://localhost/")) end)
---    print(page:take())
---
---Copas must be version 2 or newer. A thread of Copas must not park; use put_async, take_async, offer, poll and rn.go
---there. Only threads of Copas can use what waits in Copas's own way, such as its sockets.

local need = require "runnel.internal.need"
local copas = need("copas", "LuaRocks' copas, version 2 or newer")

if not copas.finished then
  -- No raise: the program's line has called a C function, require.
  error("the driver needs Copas 2 or newer, and this is " .. tostring(copas._VERSION), 3)
end

-- ms. LuaSocket does not stop waiting for a signal such as Ctrl-C, so no wait is longer than this.
local LONGEST = 100

---@class runnel.driver.copas: runnel.Driver
local driver = {}

function driver:wait(ms) -- luacheck: ignore self
  copas.step(math.min(ms or LONGEST, LONGEST) / 1000)
end

function driver:alive() return not copas.finished() end -- luacheck: ignore self

return driver
