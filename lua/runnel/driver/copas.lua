---A driver over Copas, so that its threads, timers and sockets run beside go blocks.
---
---    local copas = require "copas"
---    rn.driver(require "runnel.driver.copas")
---    local page = rn.promise_chan()
---    copas.addthread(function() page:put_async((require "copas.http".request "http://localhost/")) end)
---    print(page:take())
---
---A thread of Copas' must not park; put_async, take_async, offer, poll and rn.go are for it. What waits the way of
---Copas, such as its sockets, is for its threads only. Before version 2, Copas cannot tell that it has nothing left to
---do, and so rn.run() does not end.

local need = require "runnel.internal.need"
local copas = need("copas", "Debian's lua-copas, LuaRocks' copas")

-- LuaSocket goes on waiting when a signal such as Ctrl-C comes, hence no wait is longer.
local LONGEST = 100

---@class runnel.driver.copas: runnel.Driver
local driver = {}

function driver:wait(ms) -- luacheck: ignore self
  copas.step(math.min(ms or LONGEST, LONGEST) / 1000)
end

function driver:alive() return not (copas.finished and copas.finished()) end -- luacheck: ignore self

return driver
