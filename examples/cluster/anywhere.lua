-- Prints the checksum of each file that standard input names, in that order. Where the jobs run is one line:
--
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua here
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua threads
--     find /usr/include -type f | lua5.4 examples/cluster/anywhere.lua machines nats://localhost:4222
--
-- The last one needs `nats-server -js`, and workers, which can read the files under the same paths. For each one:
--
--     lua5.4 examples/cluster/worker.lua nats://localhost:4222 checksum 8

local rn = require "runnel"

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path -- for the module checksum, also in threads

local PLACES = {
  here = function() return require "checksum" end,
  threads = function() return rn.threads(2, "checksum") end,
  machines = function(url) return assert(require("runnel.nats").connect(url)):remote "checksum" end,
}

local place = PLACES[arg[1]]
if not place then
  io.stderr:write "usage: anywhere.lua here | threads | machines [URL]\n"
  os.exit(2)
end
local checksum = place(arg[2])

for line in rn.pmap(32, checksum, io.lines()) do print(line) end
os.exit(true, true) -- ends threads and connections
