---Simulations: go blocks under virtual time, reproducible from a seed.
---
---    local sim = require "runnel.sim"
---    sim.run(function()
---      rn.sleep(60 * 60 * 1000)
---      print(sim.elapsed()) --> 3600000, at once
---    end)
---
---When all go blocks are parked, time jumps to the next deadline. A simulation has a run queue, timers and random
---numbers of its own. Go blocks outside it wait until it ends; its own go blocks that have not ended by then are
---dropped.

local core = require "runnel.core"
local check = require "runnel.internal.check"

---@class runnel.sim
local sim = {}

local running = false
local last_elapsed = 0

-- Returns or raises what `run` does, after the core has run the simulation or has refused to.
local function finish(was_running, accepted, ok, elapsed, ...)
  running = was_running
  if not accepted then error(ok, 2) end
  last_elapsed = elapsed
  if not ok then error((...), 0) end
  return ...
end

---Runs a function as a go block under virtual time.
---@param f fun(...): ... the function
---@param opts? { seed?: integer, shuffle?: boolean } `seed`: of all that is random, default 1. `shuffle`: run ready go
---blocks in random order; by default they run first come, first served
---@param ... any its arguments
---@return any ... its results. An error of the function is raised. If it waits while no go block is ready and no timer
---is set, that is a deadlock: the operation that waits raises an error, which the function may catch
function sim.run(f, opts, ...)
  check.callable(f, "sim.run")
  check.options(opts, { seed = true, shuffle = true }, "sim.run")
  local seed = opts and opts.seed or 1
  check.integer(seed, math.mininteger, "sim.run: seed")
  local was_running = running
  running = true
  return finish(was_running, pcall(core.internal.simulate, seed, opts and opts.shuffle or false, f, ...))
end

---The virtual time since the running simulation began, or, after it, how much time the last one took.
---@return number ms
function sim.elapsed() return running and core.now() or last_elapsed end

---Runs a function with each of the seeds 1 to n, shuffled, each in a simulation of its own. An error is raised again
---with its seed, and `sim.run(f, { seed = seed, shuffle = true }, seed)` replays it.
---@param n integer how many seeds
---@param f fun(seed: integer) the function
function sim.each_seed(n, f)
  check.integer(n, 1, "sim.each_seed: number of seeds")
  check.callable(f, "sim.each_seed")
  for seed = 1, n do
    local ok, err = pcall(sim.run, f, { seed = seed, shuffle = true }, seed)
    if not ok then error(("with seed %d: %s"):format(seed, tostring(err)), 0) end
  end
end

return sim
