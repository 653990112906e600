---Simulations in which a host crashes once, at each place where it can.

local long = require "spec.support.long"
local sim = require "runnel.sim"

local crashes = {}

-- In so many orders of the go blocks each place is tried, by the long form of the specs. The short form tries so many
-- places of one order: every n-th one. Which of them is first differs from one commit to the next in CI.
local ORDERS <const>, PLACES <const> = 2, 10

-- Runs a simulation whose host crashes at a place. Returns how many places it has come to.
local function run(f, seed, crash)
  local met = 0
  local ok, err = pcall(sim.run, function()
    local world = sim.world { faults = { crash = 1 } }
    function world.faults.choose(_, names)
      if names[1] ~= "crash" then return nil end
      met = met + 1
      return met == crash and "crash" or nil
    end
    f(world)
  end, { seed = seed })
  if not ok then error(("with seed %d, and a crash at place %d: %s"):format(seed, crash, tostring(err)), 0) end
  return met
end

---Runs a simulation once without a crash, and once for each place at which its hosts may crash. Raises the first error.
---@param f fun(world: any) makes the hosts, which have the option `restart`, and runs the world
---@return integer places how many there are, in one order
function crashes.each(f)
  local places
  for seed = 1, long.is_long and ORDERS or 1 do
    places = run(f, seed, 0)
    local step = long.is_long and 1 or math.ceil(places / PLACES)
    for crash = 1 + long.turn % step, places, step do run(f, seed, crash) end
  end
  return places
end

return crashes
