---Checks that a driver's events and a busy go block do not starve each other.

local assert = require "luassert"
local rn = require "runnel"

---Keeps a go block busy until there were 100 events, which could all arrive within 100 ms.
---@param events any a channel of the events of a timer of 1 ms, or the like
return function(events)
  local stop, turns = false, 0
  local busy = rn.go(function()
    while not stop do
      turns = turns + 1
      rn.yield()
    end
  end)
  rn.run(function()
    local start = os.clock()
    for _ = 1, 100 do assert.is_true(events:take()) end
    local took = os.clock() - start -- CPU time, because other processes may be busy
    stop = true
    busy:take()
    assert.is_true(took < 1, took)
    assert.is_true(turns > 1000, turns)
  end)
end
