---The luv of a simulated world: the functions of luv that runnel.uv uses, for the host that runs.

local files = require "runnel.sim.sim_files"
local network = require "runnel.sim.network"
local processes = require "runnel.sim.sim_process"
local signals = require "runnel.sim.signal"
local timers = require "runnel.sim.timer"
local udp = require "runnel.sim.sim_udp"

local luv = {
  new_timer = timers.new_timer, new_udp = udp.new_udp, new_signal = signals.new_signal,
  spawn = processes.spawn, kill = processes.kill, pipe = processes.pipe,
}

for name, f in pairs(network) do luv[name] = f end
for name, f in pairs(files) do luv[name] = f end

function luv.os_environ() return {} end

function luv.os_getpid() return 1 end

function luv.cwd() return "/" end

return luv
