-- Prints the checksum of each file that standard input names, in that order. Where the jobs run is one line:
--
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua here
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua threads
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua machines
--
-- The last one needs `nats-server -js`, and workers, which can read the files under the same paths. For each one:
--
--     lua5.4 examples/cluster/worker.lua checksum 8
--
-- If the server is on another machine, the environment says so: RUNNEL_NATS_URL=nats://HOST:4222.

local rn = require "runnel"

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path -- for the module checksum, also in threads

local PLACES = {
  here = function() return require "checksum" end,
  threads = function() return rn.threads(2, "checksum") end,
  machines = function() return assert(require("runnel.nats").connect()):remote "checksum" end,
}

local place = PLACES[arg[1]]
if not place then
  io.stderr:write "usage: anywhere.lua here | threads | machines\n"
  os.exit(2)
end
local checksum = place()

for line in rn.pmap(32, checksum, io.lines()) do print(line) end
rn.exit() -- ends threads and connections; with status 1 if an error has ended the results
