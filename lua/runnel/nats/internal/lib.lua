---The C module; on a host of a simulated world, what is in its place there (runnel.sim.sim_nats).

local require = require
local current = require "runnel.internal.world"
local need = require "runnel.internal.need"

local real = need("runnel.nats.core", "libnats and its headers, on Debian libnats-dev")

---@class runnel.nats.internal.lib
---@field libnats string the version of libnats
---@field connect fun(settings: table, result: runnel.Channel<any>, handler: function): any, string?, boolean?
---@field inbox fun(): string a new subject
---@field process fun(): string, integer the machine's name, and the number of the process
---@field time fun(): number ms since 1970
local lib = { libnats = real.libnats }

for _, name in ipairs { "connect", "inbox", "process", "time" } do
  lib[name] = function(...)
    return (current.world and current.twin "sim_nats" or real)[name](...)
  end
end

---Identifies this process in errors: its host and process id, as in "host:4711".
---@return string
function lib.label() return ("%s:%d"):format(lib.process()) end

return lib
