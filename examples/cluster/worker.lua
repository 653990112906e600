-- worker.lua NAME N [REPLICAS]: a worker of the remote stage NAME. Its jobs are calls of the function that the module
-- of that name returns, N at a time. The module is looked for beside this file first. REPLICAS: how many servers store
-- the jobs. After SIGTERM the worker finishes the jobs that run, and ends.
--
-- The environment says where the servers are and how to connect, so that `ps` shows no password: RUNNEL_NATS_URL,
-- RUNNEL_NATS_CREDENTIALS, RUNNEL_NATS_TLS_CA and others (docs/manual/nats.md).

local nats = require "runnel.nats"

local name, n, replicas = arg[1], math.tointeger(arg[2]), math.tointeger(arg[3])
if not n or arg[3] and not replicas then
  io.stderr:write "usage: worker.lua NAME N [REPLICAS]; RUNNEL_NATS_URL has the addresses of the servers\n"
  os.exit(2)
end
package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path

local conn <close> = assert(nats.connect(nil, { name = "worker of " .. name }))
conn:on_event(function(event) -- for the log: "disconnected", "reconnected" and others
  io.stderr:write(event.event, event.error and ": " .. event.error or "", "\n")
end)
local worker = conn:serve(name, n, name, { replicas = replicas })
print "ready"
io.stdout:flush()
worker:wait()
local stats = worker:stats()
print(("%d jobs done, %d failed"):format(stats.done, stats.failed))
