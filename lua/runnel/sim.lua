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

local os, require = os, require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local explore = require "runnel.search.explore"
local schedules = require "runnel.search.schedules"
local sign = require "runnel.internal.sign"
local internal = core.internal
local raise = internal.raise

---@class runnel.sim
local sim = {}

local last_elapsed = 0

local MOST_NUMBERS = (1 << 30) - 1

-- Returns or raises the result of `run`, after the core has run the simulation or has refused to.
local function finish(a, b, accepted, ok, elapsed, ...)
  math.randomseed(a, b) -- as random as it was, or as reproducible
  if not accepted then raise(ok) end
  last_elapsed = elapsed
  if not ok then error((...), 0) end
  return ...
end

---Runs a function as a go block under virtual time.
---@param f fun(...): ... the function
---@param opts? { seed?: integer, shuffle?: boolean, leaks?: boolean } `seed`: of all that is random, default 1.
---`shuffle`: run ready go blocks in random order; by default they run first come, first served. `leaks`: when `f` has
---returned, run on until nothing is ready or timed, and raise an error if a go block is left that the program has
---started
---@param ... any its arguments
---@return any ... its results. An error of the function is raised. If it waits while no go block is ready and no timer
---is set, that is a deadlock: the operation that waits raises an error, which the function may catch
function sim.run(f, opts, ...)
  check.callable(f, "sim.run")
  check.options(opts, { seed = true, shuffle = true, leaks = true }, "sim.run")
  opts = opts or {}
  local seed = opts.seed or 1
  check.integer(seed, math.mininteger, "sim.run: seed")
  local a, b = math.random(0), math.random(0)
  math.randomseed(seed)
  return finish(a, b, current.run(nil, pcall, internal.simulate, seed, opts.shuffle, opts.leaks, f, ...))
end

---The virtual time since the running simulation began, or, after it, how much time the last one took.
---@return number ms
function sim.elapsed(...)
  sign.dot((...), "sim", "elapsed")
  return internal.is_simulation() and core.now() or last_elapsed
end

---Runs a function with each of the seeds 1 to n, shuffled, each in a simulation of its own. An error is raised again
---with its seed, and `sim.run(f, { seed = seed, shuffle = true }, seed)` replays it.
---@param n integer how many seeds
---@param f fun(seed: integer) the function
---@param opts? { leaks?: boolean } as of sim.run
function sim.each_seed(n, f, opts)
  check.integer(n, 1, "sim.each_seed: number of seeds")
  check.callable(f, "sim.each_seed")
  check.options(opts, { leaks = true }, "sim.each_seed")
  local seen = current.new_seen()
  for seed = 1, n do
    local options = { seed = seed, shuffle = true, leaks = opts and opts.leaks }
    local ok, err = current.run(seen, pcall, sim.run, f, options, seed)
    if not ok then error(("with seed %d: %s"):format(seed, internal.error_text(err)), 0) end
  end
  local problem = current.impossible(seen)
  if problem then raise("sim.each_seed: " .. problem) end
end

---A choice of a simulation: of the search in sim.explore, at random by the seed in sim.run. For faults that a test
---injects, as in `if sim.choose(2) == 2 then rn.cancel(worker) end`.
---@param n integer how many there are, at most 2^30 - 1
---@return integer 1 to n
function sim.choose(n)
  check.integer(n, 1, "sim.choose: how many there are")
  if n > MOST_NUMBERS then raise(("sim.choose: how many there are: at most %d, got %d"):format(MOST_NUMBERS, n)) end
  local chosen = internal.explore.choose(n)
  if not chosen then raise("sim.choose: there is nothing to choose outside a simulation") end
  return chosen
end

---Makes the world of the running simulation: hosts with programs, a network between them and disks. runnel.uv works on
---its hosts as it does on real ones.
---@param opts? { faults?: table<string, integer>, latency?: number, delays?: number[], probability?: number }
---`faults`: how often each may happen in one run, at most: `refuse`, `reset`, `delay`, `short`, `silent`, `dns`,
---`stale`, `emfile`, `enospc`, `eio`, `slow`, `torn`, `unsynced`, `crash`, `leader`; default none, but in sim.explore
---one `slow`. Where is a choice of the search, or of the seed. `latency`: how many ms a message takes, default 1.
---`delays`: by how many ms the fault `delay` may delay a message, and `slow` a disk, default { 10, 5000 }.
---`probability`: how likely a fault is at each place where faults are random; default 0.1, and in sim.explore so that
---all that were asked for are likely
---@return runnel.sim.World world
function sim.world(opts)
  sign.dot(opts, "sim", "world")
  if current.shares then
    raise('sim.world: sim.explore with share = "channels" does not know what hosts share; leave that option out')
  end
  return require("runnel.sim.sim_world").new(opts)
end

local OPTIONS = { seconds = true, steps = true, leaks = check.kinds.boolean, timers = check.kinds.one_of { "any" },
  schedule = true, full = check.kinds.boolean, share = check.kinds.one_of { "channels" } }

-- The options of sim.explore, and the seconds.
local function check_explore(opts)
  local what = "sim.explore"
  check.options(opts, OPTIONS, what)
  opts = opts or {}
  local function refuse(name, expected, value)
    raise(("%s: %s: %s expected, got %s"):format(what, name, expected, check.describe(value)))
  end
  local environment = os.getenv "RUNNEL_EXPLORE_SECONDS"
  local is_set = environment and environment ~= ""
  local seconds = is_set and tonumber(environment) or opts.seconds or 1
  if is_set and not tonumber(environment) then refuse("RUNNEL_EXPLORE_SECONDS", "a number", environment) end
  if type(seconds) ~= "number" or not (seconds >= 0 and seconds < math.huge) then
    refuse(is_set and "RUNNEL_EXPLORE_SECONDS" or "seconds", "a number of at least 0", seconds)
  end
  local steps = opts.steps or 10000
  if math.type(steps) ~= "integer" or steps < 1 or steps > MOST_NUMBERS then
    refuse("steps", "an integer of at least 1", opts.steps)
  end
  if opts.schedule ~= nil and (type(opts.schedule) ~= "string" or not schedules.parse(opts.schedule)) then
    refuse("schedule", 'what a message of sim.explore ends with, as "2:51c0",', opts.schedule)
  end
  if opts.share and opts.timers then
    raise('sim.explore: share = "channels" and timers = "any" exclude each other: a timer that may fire at any time '
      .. "depends on every step")
  end
  return opts, seconds, steps
end

---Searches the orders in which a program can run: runs a function under one schedule after another, each in a
---simulation of its own, and raises the first failure with a story of it. A failure is an error, also an untaken
---one; a deadlock; a leak: a go block that the program has started and that waits when `f` has returned and nothing
---is ready or timed. `f` makes its channels inside, and must make the same choices whenever it is run.
---@param f fun() called once for each schedule
---@param opts? { seconds?: number, steps?: integer, leaks?: boolean, timers?: "any", schedule?: string, full?: true,
---share?: "channels" }
---`seconds`: how long to search, default 1, but a first run may take 10 s longer; the environment's
---RUNNEL_EXPLORE_SECONDS overrides it. `steps`: longer runs are given up, default 10000. `leaks = false`: a run ends
---when `f` has returned. `timers = "any"`: a timer may fire while go blocks are ready. `schedule`: runs only that one,
---as given in a failure's message. `full = true`: all of a story is told, however long. `share =
---"channels"`: of orders that differ only in steps that share no channel and no variable, only one is run
---@return runnel.Explored explored `schedules`, whether they are `all`, and how many of them were `given_up`, if any.
---Raises if all were: it has checked nothing
function sim.explore(f, opts)
  check.callable(f, "sim.explore")
  local options, seconds, steps = check_explore(opts)
  local ok, explorer = pcall(internal.explore.new, steps, options.timers == "any")
  if not ok then raise(explorer) end
  local result, message, is_callers, elapsed = explore.run(f, options, seconds, explorer)
  last_elapsed = elapsed or last_elapsed
  if not result and is_callers then raise(message) end
  if not result then error(message, 0) end
  return result
end

return sim
