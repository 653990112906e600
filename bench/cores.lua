-- How much faster a pmap is whose jobs run in threads, one for each processor; and how long a thread takes to start.
--
--     lua5.4 bench/cores.lua [--quick]     also as `make bench-cores`; --quick takes a second and says little
--
-- Jobs compute, and take about as long as the table says. Each round runs them here, then in the pool, and then in
-- threads that get no jobs but run their share of them in a loop: what the processors can do at that moment. What is
-- printed is the median of the rounds. "cost of a call" is what a job takes more of CPU time than in such a thread, in
-- all threads and in the kernel.

local rn = require "runnel"

local quick = arg[1] == "--quick"
if arg[2] or arg[1] and not quick then
  io.stderr:write "usage: lua5.4 bench/cores.lua [--quick]\n"
  os.exit(2)
end

local ROUNDS, MS = quick and 1 or 7, quick and 20 or 1000 -- how often, and for about how long

-- The text of a function that computes for as long as `turns` say; it has no upvalues, so that it can be sent.
local function work(turns)
  return ("local n = 0 for i = 1, %d do n = n + i %% 7 end return (...)"):format(turns)
end

-- How many turns take a microsecond.
local function calibrate()
  local f, best = assert(load(work(1000000))), math.huge
  for _ = 1, 5 do
    local start = os.clock()
    f()
    best = math.min(best, os.clock() - start)
  end
  return 1 / best
end

-- Runs jobs; returns elapsed and CPU time of one, in us.
local function measure(f, jobs)
  local start, cpu, i = rn.now(), os.clock(), 0
  for _ in rn.pmap(4 * rn.cores(), f, function()
    i = i + 1
    return i <= jobs and i or nil
  end) do end -- luacheck: ignore
  return (rn.now() - start) * 1000 / jobs, (os.clock() - cpu) * 1e6 / jobs
end

-- Runs jobs in a loop in each of the threads; returns elapsed and CPU time of one, in us.
local function measure_alone(text, jobs)
  local function loop(text_of_f, times)
    local f = assert(load(text_of_f))
    for i = 1, times do f(i) end
    return true
  end
  local threads, start, cpu = {}, rn.now(), os.clock()
  for i = 1, rn.cores() do threads[i] = rn.thread(loop, text, jobs // rn.cores()) end
  for _, thread in ipairs(threads) do thread:take() end
  return (rn.now() - start) * 1000 / jobs, (os.clock() - cpu) * 1e6 / jobs
end

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

local function compare(us, turns_per_us)
  local text, jobs = work(us * turns_per_us // 1), math.max(20, MS * 1000 // us)
  local f = assert(load(text))
  local pool <close> = rn.threads(rn.cores(), f)
  measure(pool, jobs // 4) -- the kernel spreads the threads over the processors
  local ratios, bounds, costs = {}, {}, {}
  for round = 1, ROUNDS do
    local here = measure(f, jobs)
    local there, there_cpu = measure(pool, jobs)
    local alone, alone_cpu = measure_alone(text, jobs)
    ratios[round], bounds[round], costs[round] = here / there, here / alone, there_cpu - alone_cpu
  end
  print(("| %7d | %6.2f | %12.2f | %14.1f |"):format(us, median(ratios), median(bounds), median(costs)))
end

local function start(what, f)
  local n = quick and 5 or 200
  for _ = 1, 2 do rn.thread(f):take() end
  local before, cpu = rn.now(), os.clock()
  for _ = 1, n do rn.thread(f):take() end
  print(("| %-24s | %7.2f | %6.2f |"):format(what, (rn.now() - before) / n, (os.clock() - cpu) * 1000 / n))
end

print(("%d processors\n"):format(rn.cores()))
print "| job, us | faster | without jobs | cost of a call, us |\n|---|---|---|---|"
local turns_per_us = calibrate()
for _, us in ipairs { 1000, 100, 50, 20 } do compare(us, turns_per_us) end
print "\n| a thread, start to end | elapsed, ms | CPU, ms |\n|---|---|---|"
start("empty", function() return true end)
start("with all of runnel", function() return require "runnel.all" ~= nil end)
