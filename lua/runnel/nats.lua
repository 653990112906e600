---NATS: messages between programs, on this machine and on others. Needs libnats, and the C module that `make` builds
---where libnats and its headers are installed.
---
---    local nats = require "runnel.nats"
---    local conn <close> = assert(nats.connect "nats://localhost:4222")
---    local orders = conn:subscribe "orders.*"
---    conn:publish("orders.new", "a dozen eggs")
---    print(orders:take().data)

local lib = require "runnel.nats.internal.lib"

local connection = require "runnel.nats.connection"
local hand_back = require "runnel.queue.hand_back"

-- Methods of connections: all functions of some modules of runnel.nats, and of others the one that has its name.
for _, part in ipairs { "stages", "queues" } do
  for name, method in pairs(require("runnel.nats." .. part)) do connection.methods[name] = method end
end
for _, name in ipairs { "stream", "source", "sink", "stage", "kv", "dead" } do
  connection.methods[name] = require("runnel.nats." .. name)[name]
end

---@class runnel.nats
---@field connect fun(url?: string|string[], opts?: table): runnel.nats.Connection?, string?
---@field hand_back fun(why?: string, opts?: { after?: number })
---@field libnats string the version of libnats
local nats = { connect = connection.connect, hand_back = hand_back.hand_back, libnats = lib.libnats }

return nats
