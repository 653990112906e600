-- How time and memory grow: from a thousand to a million go blocks and timers, up to 1024 waiters, alts over 1000
-- channels; from a hundred to a hundred thousand jobs of pmap at a time, here and in a remote stage; errors with up to
-- 10,000 functions in modules; commands in a heap of up to 500 MB; how late a ticker is among many go blocks; how long
-- the start takes.
--
--     lua5.4 bench/scale.lua [--quick] [NAME...]     all by default, as `make bench-scale`; --quick uses small sizes
--
-- Every workload has a law: how the cost of one operation may grow with n. The program reports a workload that grows
-- faster than its law, and then its exit status is 1. Cache misses make every access dearer when n objects no longer
-- fit into the caches, so the growth of a floor, which is stock Lua with as many objects, is subtracted first, in ns.
-- LIMIT is for what remains: runnel touches more cache lines than the floor, and the machine's noise is up to two
-- times. A law that is wrong by a power of n exceeds LIMIT by far: the square root of n grows 32 times from 10^3 to
-- 10^6. A logarithm too much grows twice, and is not found.
--
-- Times are CPU time, medians of three rounds; the lateness and the start-up are elapsed time, so the machine should do
-- nothing else. A size that needs more than half of the free memory is skipped. Only a run of everything, without
-- --quick, writes docs/scale.svg and its part of docs/performance.md.

package.path = "bench/?.lua;bench/scale/?.lua;" .. package.path
local chart = require "chart"
local markdown = require "markdown"
local rn = require "runnel"

local LUA = os.getenv "LUA" or "lua5.4"
local RUNNEL = os.getenv "RUNNEL" or "build/bin/runnel"
local PAGE, CHART = "docs/performance.md", "docs/scale.svg"
local LIMIT = 3

local quick = false

-- ---- what is measured ----

local LAWS = {
  ["O(1)"] = function() return 1 end,
  ["O(log n)"] = math.log,
  ["O(n)"] = function(n) return n end,
}

local HUNDRED_TO_HUNDRED_THOUSAND = { 100, 1000, 10000, 100000 }
local THOUSAND_TO_MILLION = { 1000, 10000, 100000, 1000000 }
local SWEPT = { 10000, 100000, 1000000 } -- with fewer than 1,024 parked go blocks a start sweeps nothing

-- `figures` are what the program prints, each with a name for people. `bytes` is an estimate for one of n at the peak.
local WORKLOADS = {
  { name = "park", floor = "park_floor", sizes = THOUSAND_TO_MILLION, law = "O(1)", bytes = 1600,
    figures = { { "ns", "a go block made and parked, ns" }, { "bytes", "a parked go block, bytes" } } },
  { name = "after", floor = "after_floor", sizes = THOUSAND_TO_MILLION, law = "O(1)", bytes = 1600,
    figures = { { "ns", "a go block's life, after n have ended, ns" } } },
  { name = "ring", floor = "ring_floor", sizes = THOUSAND_TO_MILLION, law = "O(1)", bytes = 2000,
    figures = { { "ns", "a hop in a ring of n, ns" } } },
  { name = "timers", floor = "timers_floor", sizes = THOUSAND_TO_MILLION, law = "O(log n)", bytes = 600,
    figures = { { "made", "a timer made, ns" }, { "fired", "a timer fired, ns" } } },
  { name = "cancel", floor = "cancel_floor", sizes = THOUSAND_TO_MILLION, law = "O(log n)", bytes = 3500,
    figures = { { "ns", "a sleeping go block cancelled, ns" } } },
  { name = "raise", floor = "raise_floor", sizes = THOUSAND_TO_MILLION, law = "O(1)", bytes = 1600,
    figures = { { "ns", "an error, beside n parked go blocks, ns" } } },
  { name = "explore", sizes = THOUSAND_TO_MILLION, law = "O(1)", bytes = 1600,
    figures = { { "ns", "a schedule of sim.explore, beside n parked go blocks, ns" } } },
  { name = "burst", sizes = SWEPT, law = "O(1)", bytes = 1600,
    figures = { { "ns", "a go block started after n have parked at once, the slowest 1 %, ns" } } },
  { name = "sleepers", sizes = SWEPT, law = "O(1)", bytes = 1600,
    figures = { { "ns", "the same after n have begun to sleep, ns" } } },
  { name = "waiters", sizes = { 1, 32, 1024 }, law = "O(1)",
    figures = { { "ns", "a message, while n wait on the channel, ns" } } },
  { name = "withdraw", sizes = { 1, 32, 1024 }, law = "O(1)",
    figures = { { "ns", "an alts that withdraws from a channel with n waiters, ns" } } },
  { name = "alts", sizes = { 4, 64, 1000 }, law = "O(n)", figures = { { "ns", "alts over n channels, ns" } } },
  { name = "pmap", floor = "pmap_floor", sizes = HUNDRED_TO_HUNDRED_THOUSAND, law = "O(1)", bytes = 6000,
    figures = { { "unordered", "a job of pmap_unordered, n at a time, ns" },
      { "ordered", "a job of pmap, n at a time, ns" }, { "late", "a job of pmap_unordered that is late, ns" } } },
  { name = "remote", floor = "remote_floor", sizes = HUNDRED_TO_HUNDRED_THOUSAND, law = "O(1)", bytes = 12000,
    needs = "nats-server", figures = { { "ns", "a remote job, n at a time, ns of the submitter" },
      { "server", "the same, ns of the server" },
      { "waits", "a remote job that waits, ns of the submitter in a second" },
      { "bytes", "a remote job that waits, bytes" } } },
  { name = "loaded", sizes = { 10, 1000, 10000 }, law = "O(1)",
    figures = { { "ns", "an error, with n more functions in modules, ns" } } },
  { name = "commands", sizes = { 5, 50, 500 }, law = "O(1)", bytes = 1 << 20,
    module = "luv", figures = { { "ns", "a command, in a heap of n MB, ns" } } },
}

-- What waits while the ticker runs. The lateness may grow in proportion to n. `pause` is the collector's, in percent,
-- 200 by default: garbage may take as much memory as what waits. `bytes` is the memory for one that waits.
local LATENESS = {
  { kind = "blocks", mode = "incremental", what = "parked go blocks, incremental", colour = "#dc2626" },
  { kind = "blocks", mode = "generational", what = "parked go blocks, generational", colour = "#7c3aed" },
  { kind = "coroutines", mode = "incremental", what = "coroutines of stock Lua, incremental", colour = "#f59e9e" },
  { kind = "coroutines", mode = "generational", what = "coroutines of stock Lua, generational", colour = "#c4a5f5" },
  { kind = "blocks", mode = "incremental", pause = 400, what = "parked go blocks, incremental, pause 400" },
  { kind = "deep", mode = "incremental", bytes = 4500, what = "go blocks parked ten calls deep, incremental" },
  { kind = "callbacks", mode = "incremental", what = "take_async callbacks, incremental", colour = "#16a34a" },
  { kind = "callbacks", mode = "generational", what = "take_async callbacks, generational" },
  { kind = "pmap", mode = "incremental", bytes = 150, what = "jobs for pmap with 8 workers, incremental",
    colour = "#0891b2" },
  { kind = "pmap", mode = "generational", bytes = 150, what = "jobs for pmap with 8 workers, generational" },
}
local LATENESS_SIZES = { 1000, 100000, 1000000 }
local LEAST_LATENESS = 5 -- ms; below this the system's scheduler decides

local STARTS = {
  { what = "lua5.4 -e ''", command = LUA .. " -e ''" },
  { what = [[lua5.4 -e 'require "runnel"']], command = LUA .. [[ -e 'require "runnel"']] },
  { what = "runnel -e ''", command = RUNNEL .. " -e ''" },
}

-- ---- the command line ----

local NAMES = { lateness = true, start = true }
for _, workload in ipairs(WORKLOADS) do NAMES[workload.name] = true end

local asked, all = {}, true
for _, word in ipairs(arg) do
  if word == "--quick" then
    quick = true
  elseif NAMES[word] then
    asked[word], all = true, false
  else
    io.stderr:write "usage: lua5.4 bench/scale.lua [--quick] [NAME...]\nnames:"
    for _, workload in ipairs(WORKLOADS) do io.stderr:write(" ", workload.name) end
    io.stderr:write " lateness start\n"
    os.exit(2)
  end
end

local function sizes_of(sizes) return quick and { sizes[1], sizes[2] // (sizes[2] > 10000 and 10 or 1) } or sizes end

-- ---- measuring ----

-- Whether what a workload needs is installed, a program or a module; says so if not.
local function is_there(workload)
  local needs = workload.needs or workload.module or "sh"
  if workload.module and package.searchpath(needs, package.cpath)
    or not workload.module and os.execute(("command -v %s >/dev/null"):format(needs)) then return true end
  print(("skipped: %s needs %s"):format(workload.name, needs))
  return false
end

-- Half of the memory that is free, in bytes; no limit where the system does not say.
local function room()
  local file = io.open "/proc/meminfo"
  if not file then return math.huge end
  local free = file:read("a"):match "MemAvailable:%s*(%d+)"
  file:close()
  return free and free * 1024 / 2 or math.huge
end

-- Whether so many bytes may be used; says so if not.
local function fits(bytes, what, n)
  local limit = room()
  if bytes <= limit then return true end
  print(("skipped: %s with n = %d needs about %.1f GB; half of the free memory is %.1f GB"):format(
    what, n, bytes / 1e9, limit / 1e9))
  return false
end

-- The figures that a program prints, by name.
local function run(format, ...)
  local command = LUA .. " bench/scale/" .. format:format(...)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  if not pipe:close() then error("this failed: " .. command, 0) end
  local figures = {}
  for name, value in text:gmatch "(%S+) (%S+)\n" do figures[name] = tonumber(value) end
  return figures
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Adds the medians of some rounds to workload.values[figure][n], and those of the floor to workload.floors.
local function measure(workload)
  workload.values, workload.floors = {}, {}
  local into = { [workload.name] = workload.values }
  if workload.floor then into[workload.floor] = workload.floors end
  for _, n in ipairs(sizes_of(workload.sizes)) do
    if not fits(n * (workload.bytes or 0), workload.name, n) then break end
    local samples = {}
    for _ = 1, quick and 1 or 3 do
      for program, values in pairs(into) do
        for figure, value in pairs(run("workloads.lua %s %d", program, n)) do
          values[figure] = values[figure] or {}
          samples[values[figure]] = samples[values[figure]] or {}
          table.insert(samples[values[figure]], value)
        end
      end
    end
    for values, list in pairs(samples) do values[n] = median(list) end
  end
end

local function measure_lateness(row)
  row.worst, row.collections = {}, {}
  for _, n in ipairs(sizes_of(LATENESS_SIZES)) do
    local pause = row.pause or 200
    if not fits(n * (row.bytes or 1500) * pause / 100, row.what, n) then break end
    local figures = run("lateness.lua %s %d %s %d %g", row.kind, n, row.mode, pause, quick and 0.1 or 1)
    if figures.collections > 0 then row.worst[n] = figures.worst end -- else the figure says nothing
    row.collections[n] = figures.collections
  end
end

-- ms for one start.
local function measure_start(row)
  local times, samples = quick and 5 or 100, {}
  for round = 1, quick and 1 or 3 do
    local from = rn.now()
    local loop = ("i=0; while [ $i -lt %d ]; do %s || exit; i=$((i+1)); done"):format(times, row.command)
    if not os.execute(loop) then error("this failed: " .. row.command, 0) end
    samples[round] = (rn.now() - from) / times
  end
  row.ms = median(samples)
end

-- ---- the laws ----

-- By how much the cost grows faster than its law, at most, between any two of the sizes. `floors` may be nil.
local function excess(law, sizes, values, floors, least)
  local worst
  for i = 1, #sizes do
    for j = i + 1, #sizes do
      local small, large = sizes[i], sizes[j]
      local before, after = values[small], values[large]
      if before and after and before >= (least or 0) then
        local misses = floors and math.max(0, floors[large] - floors[small]) or 0
        local growth = (after - misses) / before / (LAWS[law](large) / LAWS[law](small))
        worst = math.max(worst or 0, growth)
      end
    end
  end
  return worst
end

local too_fast = {}
local function judged(what, law, growth)
  if growth and growth > LIMIT then
    too_fast[#too_fast + 1] = ("%s: grows %.1f times as fast as %s"):format(what, growth, law)
  end
  return growth and ("%.2f"):format(growth) or ""
end

-- ---- the tables ----

-- Three digits, or more if the integer part has more.
local function show(x)
  return ((x < 9.995 and "%.2f") or (x < 99.95 and "%.1f") or "%.0f"):format(x)
end

-- The workloads with the same sizes share a table.
local function growth_table(workloads, sizes)
  local rows = { { "" } }
  for _, n in ipairs(sizes) do table.insert(rows[1], ("n = %d"):format(n)) end
  table.insert(rows[1], "law")
  table.insert(rows[1], "growth / law")
  for _, workload in ipairs(workloads) do
    for _, figure in ipairs(workload.figures) do
      local values, floors = workload.values[figure[1]] or {}, workload.floors[figure[1]]
      local row = { figure[2] }
      for _, n in ipairs(sizes) do
        local floor = floors and floors[n] and (" (%s)"):format(show(floors[n])) or ""
        row[#row + 1] = values[n] and show(values[n]) .. floor or "skipped"
      end
      row[#row + 1] = workload.law
      row[#row + 1] = judged(figure[2], workload.law, excess(workload.law, sizes, values, floors))
      rows[#rows + 1] = row
    end
  end
  return markdown(rows)
end

local function lateness_table(rows_measured)
  local sizes = sizes_of(LATENESS_SIZES)
  local rows = { { "what waits" } }
  for _, n in ipairs(sizes) do table.insert(rows[1], ("n = %d"):format(n)) end
  table.insert(rows[1], "growth / n")
  for _, measured in ipairs(rows_measured) do
    local row = { measured.what }
    for _, n in ipairs(sizes) do
      local worst = measured.worst[n]
      row[#row + 1] = worst and ("%s ms (%s/s)"):format(show(worst), show(measured.collections[n]))
        or measured.collections[n] and "no collection" or "skipped"
    end
    local growth = excess("O(n)", sizes, measured.worst, nil, LEAST_LATENESS)
    row[#row + 1] = judged("lateness, " .. measured.what, "O(n)", growth)
    rows[#rows + 1] = row
  end
  return markdown(rows)
end

local function start_table()
  local rows = { { "start-up", "ms" } }
  for i, row in ipairs(STARTS) do rows[i + 1] = { row.what, show(row.ms) } end
  return markdown(rows)
end

-- ---- the run ----

local started = rn.now()
local parts, group = {}, {}
for i, workload in ipairs(WORKLOADS) do
  if (all or asked[workload.name]) and is_there(workload) then
    io.stderr:write(workload.name, "\n")
    measure(workload)
    group[#group + 1] = workload
  end
  local following = WORKLOADS[i + 1]
  if #group > 0 and not (following and following.sizes[1] == workload.sizes[1]) then
    parts[#parts + 1] = growth_table(group, sizes_of(workload.sizes))
    group = {}
  end
end
if all or asked.lateness then
  for _, row in ipairs(LATENESS) do
    io.stderr:write("lateness: ", row.what, "\n")
    measure_lateness(row)
  end
  parts[#parts + 1] = lateness_table(LATENESS)
end
if all or asked.start then
  io.stderr:write "start\n"
  for _, row in ipairs(STARTS) do measure_start(row) end
  parts[#parts + 1] = start_table()
end
parts[#parts + 1] = #too_fast == 0 and ("Nothing grows faster than %d times its law."):format(LIMIT)
  or "Grows too fast:\n\n- " .. table.concat(too_fast, "\n- ")
local measured = table.concat(parts, "\n\n")
print(measured)
io.stderr:write(("took %.0f s\n"):format((rn.now() - started) / 1000))

-- ---- the page and the chart ----

local function write(name, text)
  local file <close> = assert(io.open(name, "w"))
  assert(file:write(text))
  io.stderr:write("wrote ", name, "\n")
end

local function points_of(sizes, values)
  local points = {}
  for _, n in ipairs(sizes) do
    if values and values[n] then points[#points + 1] = { n, values[n] } end
  end
  return points
end

local COLOURS = { "#dc2626", "#db2777", "#0891b2", "#16a34a", "#d97706", "#7c3aed" }

local function growth_panel()
  local lines = {}
  for _, workload in ipairs(WORKLOADS) do
    for _, figure in ipairs(workload.figures) do
      if workload.sizes == THOUSAND_TO_MILLION and figure[1] ~= "bytes" then
        local colour = COLOURS[#lines + 1]
        lines[#lines + 1] = { title = figure[2]:gsub(", ns$", ""), colour = colour, shape = "circle",
          points = points_of(workload.sizes, workload.values[figure[1]]) }
      end
    end
  end
  return { title = "ns of CPU time for one of n", lines = lines }
end

local function lateness_panel()
  local lines = {}
  for _, row in ipairs(LATENESS) do
    if row.colour then
      lines[#lines + 1] = { title = row.what, colour = row.colour, shape = "circle", dashed = row.kind == "coroutines",
        points = points_of(LATENESS_SIZES, row.worst) }
    end
  end
  return { title = "worst lateness of a 10 ms ticker in ms, while n wait", lines = lines }
end

if all and not quick then
  write(CHART, chart("From a thousand to a million", { growth_panel(), lateness_panel() }))
  local file <close> = assert(io.open(PAGE))
  local page = file:read "a"
  local before, after = page:match "^(.*<!%-%- scale, measured %-%->\n).-(<!%-%- end of scale %-%->.*)$"
  assert(before, PAGE .. ": where the measured part goes is not marked")
  write(PAGE, before .. "\n" .. measured .. "\n\n" .. after)
end
if #too_fast > 0 then os.exit(1) end
