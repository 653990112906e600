---Simulations: go blocks under virtual time, reproducible from a seed.
---
---    local sim = require "runnel.sim"
---    sim.run(function()
---      rn.sleep(60 * 60 * 1000)
---      print(sim.elapsed()) --> 3600000, at once
---    end)
---
---When all go blocks are parked, time jumps to the next deadline. A simulation has a run queue, timers and random
---numbers of its own: what was under way outside it waits until it is over, and what it leaves behind is dropped.

local core = require "runnel.core"
local check = require "runnel.check"

---@class runnel.sim
local sim = {}

local running = false
local last_elapsed = 0

-- What run returns or raises, once the core has run the simulation, or has refused to.
local function finish(was_running, accepted, ok, elapsed, ...)
  running = was_running
  if not accepted then error(ok, 2) end
  last_elapsed = elapsed
  if not ok then error((...), 0) end
  return ...
end

---Runs a function as a go block under virtual time.
---@param f fun(...): ... the function
---@param opts? { seed?: integer, shuffle?: boolean } `seed` of alts' choices (default 1), and, with `shuffle`, of the
---order in which ready go blocks run; without it they run first come, first served
---@param ... any its arguments
---@return any ... its results; its error is raised. If f waits while no go block is ready and no timer is due, that is
---a deadlock: it raises an error where f waits, which f may catch
function sim.run(f, opts, ...)
  check.callable(f, "sim.run")
  check.options(opts, { seed = true, shuffle = true }, "sim.run")
  local seed = opts and opts.seed or 1
  check.integer(seed, math.mininteger, "sim.run: seed")
  local was_running = running
  running = true
  return finish(was_running, pcall(core.internal.simulate, seed, opts and opts.shuffle or false, f, ...))
end

---Virtual ms since the simulation that is running began; after it, how long the last one took.
---@return number ms
function sim.elapsed() return running and core.now() or last_elapsed end

---Runs a function under the seeds 1 to n, with `shuffle`, each in a simulation of its own.
---@param n integer how many
---@param f fun(seed: integer) the function
---An error is raised again and names its seed, with which `sim.run(f, { seed =, shuffle = true }, seed)` replays it.
function sim.each_seed(n, f)
  check.integer(n, 1, "sim.each_seed: number of seeds")
  check.callable(f, "sim.each_seed")
  for seed = 1, n do
    local ok, err = pcall(sim.run, f, { seed = seed, shuffle = true }, seed)
    if not ok then error(("with seed %d: %s"):format(seed, tostring(err)), 0) end
  end
end

return sim
