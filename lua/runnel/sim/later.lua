---What happens later on the hosts of a simulated world: functions of the World.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local internal = core.internal
local go_feeding, sleep, host_of = internal.go_feeding, core.sleep, internal.host
local is_alone = internal.explore.is_alone

---@class runnel.sim.Later
---@field faults runnel.sim.Faults
---@field delays number[]
local later = {}

local function run(host, born, ms, f, a, b)
  if ms > 0 then sleep(ms) end
  if host then
    if host.born ~= born then return end
    host_of(host.number)
  end
  f(a, b)
end

---Calls a function after some ms, or at once when it is the turn of a new go block. With a host it is called on that
---host, unless the host has crashed meanwhile.
---@param ms number
---@param host? runnel.sim.Host
---@param f fun(a: any, b: any)
---@param a? any
---@param b? any
function later:later(ms, host, f, a, b) -- luacheck: ignore 212
  host_of(0, go_feeding(guard.nothing, nil, run, host, host and host.born, ms, f, a, b))
end

local SLOW = { "slow" }

-- By a choice the disk is slow; but there is none if nothing else can happen meanwhile.
local function run_on_disk(host, born, f, a, b)
  local world, ms = host.world, 0
  if world.faults:may "slow" and not is_alone() and world.faults:choose(SLOW) then
    ms = world.delays[world.faults:way(#world.delays)]
    world:log(host, "slow", "the disk takes %g ms", ms)
  end
  run(host, born, ms, f, a, b)
end

---Calls a function that does something on the disk of a host, as World:later does after 0 ms, or later.
---@param host runnel.sim.Host
---@param f fun(a: any, b: any)
---@param a? any
---@param b? any
function later:on_disk(host, f, a, b) -- luacheck: ignore 212
  host_of(0, go_feeding(guard.nothing, nil, run_on_disk, host, host.born, f, a, b))
end

return later
