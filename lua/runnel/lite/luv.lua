---runnel.lite in the loop of luv, by itself. (In Neovim: runnel.lite.nvim.)
---
---    local rn = require("runnel.lite.luv").rn
---    rn.go(function() ... end)
---    require("luv").run() -- or all of it in rn.run(function() ... end)

local rn, uv = require "runnel.lite", require "luv"

local soon, timer, limit = uv.new_timer(), uv.new_timer(), uv.new_timer()

-- If go blocks have computed for longer than the limit, the loop calls it before it waits for events. Without uv.stop
-- that wait would have no limit.
local function stop() uv.stop() end

rn.host {
  -- uv.now is in whole ms, and as old as the turn of the loop.
  now = function() return uv.hrtime() / 1e6 end,
  schedule = function(f) soon:start(0, 0, f) end,
  after = function(ms, f) timer:start(math.ceil(ms), 0, f) end,
  turn = function(ms)
    if ms then limit:start(math.ceil(ms), 0, stop) end
    local is_alive = uv.run "once"
    limit:stop()
    return is_alive
  end,
}

return { rn = rn, lines = require "runnel.lite.process"(uv) }
