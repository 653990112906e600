-- Compares sets of compiler options: builds the module with each set, and runs the same workloads with all in turn.
--
--     make bench-flags                                            from the repository's root; gcc only
--     lua5.4 bench/flags.lua [--quick] [WORKLOAD...]              the workloads are those of bench/peers.lua
--
-- Shows medians in ns, and in brackets the ratio to the first set, which `make` uses.

local LUA = os.getenv "LUA" or "lua5.4"
local PROGRAM = "bench/peers/runnel/main.lua"
local TRAINING = "--quick chan0 chan1 chan100 pingpong ring select4 spawn sieve pipeline_async mult timeouts"

local VARIANTS = {
  { name = "make's: -O3 -fno-plt -flto", cflags = "-O3 -fno-plt -flto=auto" },
  { name = "-O2", cflags = "-O2" },
  { name = "-O3", cflags = "-O3" },
  { name = "-O2 -fno-plt", cflags = "-O2 -fno-plt" },
  { name = "-O2 -fno-plt -flto", cflags = "-O2 -fno-plt -flto=auto" },
  { name = "make's, -march=native", cflags = "-O3 -fno-plt -flto=auto -march=native" },
  { name = "make's, with PGO", cflags = "-O3 -fno-plt -flto=auto", pgo = true },
}

-- ---- the command line ----

local quick, workloads = false, {}
for _, word in ipairs(arg) do
  if word == "--quick" then quick = true else workloads[#workloads + 1] = word end
end
if #workloads == 0 then workloads = { "chan0", "chan100", "ring", "select4", "select64", "spawn", "sieve" } end

-- ---- building ----

local function execute(format, ...)
  local command = format:format(...)
  if not os.execute(command) then error("this failed: " .. command, 0) end
end

-- Runs the program with the module in `build`, and returns what it prints.
local function run(build, arguments)
  local command = ("LUA_CPATH='%s/?.so;;' %s %s %s"):format(build, LUA, PROGRAM, arguments)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  if not pipe:close() then error("this failed: " .. command, 0) end
  return text
end

for i, variant in ipairs(VARIANTS) do
  local build = "build/flags/" .. i
  local function make(more)
    execute("rm -rf %s && make -s all BUILD=%s CFLAGS='%s %s' >/dev/null", build, build, variant.cflags, more)
  end
  if variant.pgo then
    make "-fprofile-generate -fprofile-update=single"
    run(build, TRAINING)
    execute("mkdir -p build/flags/profile && cp %s/obj/*.gcda build/flags/profile", build)
    execute("rm -rf %s && mkdir -p %s/obj && cp build/flags/profile/*.gcda %s/obj", build, build, build)
    execute("make -s all BUILD=%s CFLAGS='%s -fprofile-use -Wno-missing-profile' >/dev/null", build, variant.cflags)
  else
    make ""
  end
  variant.build = build
end

-- ---- measuring ----

local rounds = quick and 3 or 9
local samples = {} -- [variant][workload] = list
for _, variant in ipairs(VARIANTS) do
  samples[variant] = {}
  for _, workload in ipairs(workloads) do samples[variant][workload] = {} end
end
for round = 1, rounds do
  io.stderr:write(("round %d of %d\n"):format(round, rounds))
  for _, workload in ipairs(workloads) do
    for _, variant in ipairs(VARIANTS) do
      local line = run(variant.build, (quick and "--quick " or "") .. workload)
      local list = samples[variant][workload]
      list[#list + 1] = assert(tonumber(line:match "([%d.]+)\n$"), line)
    end
  end
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

io.write("| | ", table.concat(workloads, " | "), " |\n| --- |", (" ---: |"):rep(#workloads), "\n")
for _, variant in ipairs(VARIANTS) do
  local cells = {}
  for i, workload in ipairs(workloads) do
    local value, first = median(samples[variant][workload]), median(samples[VARIANTS[1]][workload])
    cells[i] = ("%.0f (%.2f)"):format(value / (workload == "sieve" and 1e6 or 1), value / first)
  end
  print("| " .. variant.name .. " | " .. table.concat(cells, " | ") .. " |")
end
