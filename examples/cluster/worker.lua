-- worker.lua URL NAME N [REPLICAS]: a worker of the remote stage NAME. Its jobs are calls of the function that the
-- module of that name returns, N at a time. The module is looked for beside this file first. REPLICAS: how many servers
-- store the jobs, if the stage is new. After SIGTERM the worker finishes the jobs that run, and ends.

local nats = require "runnel.nats"

local url, name, n, replicas = arg[1], arg[2], math.tointeger(arg[3]), math.tointeger(arg[4] or 1)
if not n or not replicas then
  io.stderr:write "usage: worker.lua URL NAME N [REPLICAS]\n"
  os.exit(2)
end
package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path

local conn <close> = assert(nats.connect(url, { name = "worker of " .. name }))
conn:on_event(function(event) -- for the log: "disconnected", "reconnected" and others
  io.stderr:write(event.event, event.error and ": " .. event.error or "", "\n")
end)
local worker = conn:serve(name, n, name, { replicas = replicas })
print "ready"
io.stdout:flush()
worker:wait()
local stats = worker:stats()
print(("%d jobs done, %d failed"):format(stats.done, stats.failed))
