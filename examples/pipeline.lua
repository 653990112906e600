-- Runs ten jobs, at most n at a time, and prints how many really ran at once, and how long it took.
--
--     lua5.4 examples/pipeline.lua [--ms MS] [--log] [ordered | unordered] [N...]
--
-- By default each job takes 100 ms, in both variants, for n from 1 to 8: 8 s in all. --log prints the start and
-- end of each job.
--
-- core.async's pipeline-async runs n + 2 jobs at once, as described in the article "Clojure's core.async pipeline-async
-- off-by-two error explained": 10 jobs of 1000 ms take 4 s with n = 1 and 2 s with n = 3. Here they take 10 s and 4 s:
-- `--ms 1000 ordered 1 3`.

local rn = require "runnel"

local JOBS = 10
local SLOW = 10 -- in the second table, the first job takes this many times as long
local VARIANTS = { ordered = rn.pmap, unordered = rn.pmap_unordered }

local logging = false
local function log(...)
  if logging then print(string.format(...)) end
end

-- Runs the jobs; job i takes time_of(i) ms. Returns the highest number of running jobs, the time of the first result
-- and the total time.
local function run(variant, n, time_of)
  local running, peak = 0, 0

  local function job(i)
    running = running + 1
    peak = math.max(peak, running)
    log("started job  %d", i)
    rn.sleep(time_of(i))
    log("finished job %d", i)
    running = running - 1
    return i
  end

  local values = {}
  for i = 1, JOBS do values[i] = i end
  local start, first = rn.now(), nil
  for _ in VARIANTS[variant](n, job, values) do first = first or rn.now() - start end
  return peak, first, rn.now() - start
end

-- How long the second case should take, in job times: n - 1 jobs run beside the slow first one. In the ordered variant
-- their results wait for its result (up to 16 n of them, by default), but the jobs do not.
local function expected_slow(n)
  if n == 1 then return SLOW + JOBS - 1 end
  return math.max(SLOW, math.ceil((JOBS - 1) / (n - 1)))
end

-- ---- the command line ----

local ms, variants, ns = 100, {}, {}

local USAGE = [[
usage: lua5.4 examples/pipeline.lua [--ms MS] [--log] [ordered | unordered] [N...]
  MS: how long a job takes, in milliseconds; 100 by default
  N: how many jobs run at a time, a whole number from 1; 1 to 8 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local i = 1
while arg[i] do
  local n = math.tointeger(tonumber(arg[i]))
  if arg[i] == "--ms" then
    i = i + 1
    ms = tonumber(arg[i])
    if not ms or not (ms >= 0 and ms < math.huge) then usage() end
  elseif arg[i] == "--log" then
    logging = true
  elseif VARIANTS[arg[i]] then
    variants[#variants + 1] = arg[i]
  elseif n and n >= 1 then
    ns[#ns + 1] = n
  else
    usage()
  end
  i = i + 1
end
if #variants == 0 then variants = { "ordered", "unordered" } end
local slow_ns = #ns > 0 and ns or { 3 } -- of the second table
if #ns == 0 then ns = { 1, 2, 3, 4, 5, 6, 7, 8 } end

local total = 0
for _, n in ipairs(ns) do total = total + math.ceil(JOBS / n) end
for _, n in ipairs(slow_ns) do total = total + expected_slow(n) end

io.stdout:setvbuf "line"
print(("%d jobs of %g ms each; this program takes about %.1f s\n"):format(JOBS, ms, total * #variants * ms / 1000))
print "variant      n  peak  elapsed ms  expected"
for _, variant in ipairs(variants) do
  for _, n in ipairs(ns) do
    local peak, _, elapsed = run(variant, n, function() return ms end)
    print(("%-10s %3d  %4d  %10.0f  %8g"):format(variant, n, peak, elapsed, math.ceil(JOBS / n) * ms))
  end
end

print(("\nthe first job takes %g ms\n"):format(SLOW * ms))
print "variant      n  peak  elapsed ms  expected  first result ms"
for _, variant in ipairs(variants) do
  for _, n in ipairs(slow_ns) do
    local peak, first, elapsed = run(variant, n, function(job) return job == 1 and SLOW * ms or ms end)
    local expected = expected_slow(n) * ms
    print(("%-10s %3d  %4d  %10.0f  %8g  %15.0f"):format(variant, n, peak, elapsed, expected, first))
  end
end
