---The simulated world that runs now, if one does. runnel.uv uses the world's luv then instead of the real one
---(uv/loop.lua).

local internal = require "runnel.core".internal
local ordered = require "runnel.internal.ordered"

---What one search, or the runs of one sim.each_seed, have seen of faults.
---@class runnel.internal.FaultsSeen
---@field asked table<string, true> the faults that the worlds were asked for
---@field possible table<string, true> those for which there was a place
---@field parsed table<string, string> files of the hosts' programs, parsed (sim/program.lua)
---@field places? integer at how many places a fault could have happened in one run, at most; nil in sim.each_seed,
---where no run may depend on those before

---@class runnel.internal.world
---@field world? runnel.sim.World
---@field twin? fun(name: string): table the module runnel.sim.NAME, which stands for one in C; set by runnel.sim
---@field luv? table the world's luv
---@field notes? runnel.sim.Note[] what the world tells for a story, while one is recorded
---@field told? runnel.internal.Told the last story of a world; a page shows it as a picture
---@field seen? runnel.internal.FaultsSeen
---@field handling? runnel.sim.Host whose error handler runs; a handler belongs to no go block
---@field restore? fun() undoes what the world has replaced
---@field unwinds? boolean a library in C has called the world, so that no go block can wait
---@field ordered? runnel.internal.Ordered of the simulation that has run last (ordered.lua)
---@field unseed? fun() makes the random numbers of a library in C random again
---@field shares? boolean a search runs that leaves out orders (sim.explore's option share), which knows no worlds
---@field awake? table<any, true> the databases for which a go block will work, in the simulation that runs (thread.lua)
local current = {}

-- Sets the world and what belongs to it.
local function set(world, luv)
  if current.restore then
    current.restore()
    current.restore = nil
  end
  current.world, current.luv = world, luv
  internal.at_rest(world and world.at_rest)
  internal.hosts(world and world.names)
end

local function put_back(world, luv, seen, awake, state, ...)
  if current.world ~= world then
    local failure = current.world and current.world.failure -- the program has not asked for it
    if failure then internal.report(failure.err, nil, "the program of host " .. failure.host.name) end
    set(world, luv)
  end
  if current.unseed then current.unseed() end
  current.seen, current.awake, current.unseed = seen, awake, nil
  if state then
    ordered.finish(state)
    current.ordered = state -- not that of a simulation within it
  end
  return ...
end

local function finish(world, luv, seen, awake, state, ...)
  if current.world and current.world ~= world then current.world:ended() end
  return put_back(world, luv, seen, awake, state, ...)
end

---Calls a function that runs a simulation, which begins without a world. It must not raise.
---@param seen? runnel.internal.FaultsSeen
---@param f fun(...: any): ...
---@param ... any
---@return any ...
function current.run(seen, f, ...)
  local world, luv, before, awake = current.world, current.luv, current.seen, current.awake
  put_back(nil, nil, seen or before, {}, nil)
  return finish(world, luv, before, awake, ordered.begin(), f(...))
end

---Whether this runs in a simulation, and not on a host of a simulated world: then nothing outside can be waited for.
---@return boolean
function current.is_outside() return internal.is_simulation() and not (current.world and internal.host() > 0) end

---Makes the random numbers of a library in C those of the simulation, until it ends.
---@param seed fun(n?: integer) seeds them; without a number they are random again
function current.seed(seed)
  if current.unseed then return end
  current.unseed = seed
  seed(math.random(0))
end

---@param places? integer
---@return runnel.internal.FaultsSeen
function current.new_seen(places) return { asked = {}, possible = {}, parsed = {}, places = places } end

---The error for faults that were asked for and had no place in any run; nil if there are none.
---@param seen runnel.internal.FaultsSeen
---@return string?
function current.impossible(seen)
  local names = {}
  for name in pairs(seen.asked) do
    if not seen.possible[name] then names[#names + 1] = name end
  end
  if #names == 0 then return nil end
  table.sort(names)
  return ("the world was asked for the fault%s %s, and no run had a place for %s"):format(#names == 1 and "" or "s",
    table.concat(names, ", "), #names == 1 and "it" or "them")
end

return current
