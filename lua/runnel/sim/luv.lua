---The luv of a simulated world: the functions of luv that runnel.uv uses, for the host that runs.

local files = require "runnel.sim.files"
local network = require "runnel.sim.network"
local timers = require "runnel.sim.timer"

local luv = {
  new_tcp = network.new_tcp, new_pipe = network.new_pipe, getaddrinfo = network.getaddrinfo,
  new_timer = timers.new_timer,
}

for name, f in pairs(files) do luv[name] = f end

return luv
