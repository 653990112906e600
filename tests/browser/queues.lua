-- For tests/browser/page.mjs: a program with a NATS server of its own, a worker and jobs; it ends with its input.

local rn = require "runnel"
local nats = require "runnel.nats"
local nats_server = require "spec.support.queue.nats_server"
local uv = require "runnel.uv"

local monitor <close> = require("runnel.monitor").listen(0, { show = "values" })
io.stderr:write("monitor: ", monitor.url, "\n")
local server <close> = nats_server.start()
local conn <close> = assert(nats.connect(server.url))
conn:serve("resize", 2, function() rn.sleep(600000) end, { drain_on_term = false })
local resize = conn:remote "resize"
for i = 1, 5 do rn.go(pcall, resize, ("image %d.png"):format(i)) end
for _ in uv.stdin() do end -- luacheck: ignore 542
rn.exit(0)
