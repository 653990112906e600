-- What tracing and monitoring cost, in three programs that only pass values on: a hop in a ring of 1000 go blocks, and
-- a message from one go block to another, through a channel without a buffer and through one of 100.
--
--     make bench-tracing                                all of it
--     lua5.4 bench/tracing.lua [MODE PROGRAM N]         after `make all` and eval "$(make -s env)"
--     lua5.4 bench/tracing.lua instructions             counted by callgrind, without the start and the end
--
-- MODE: off; graph, as rn.graph; trace, as rn.trace; both; monitor; profile, as rn.profile. PROGRAM: ring, chan0,
-- chan100. Without them: each mode in turn, the least of eight runs, and the ratio to off. The time is processor time
-- of the process, threads included.

local MODES = { "off", "graph", "trace", "both", "monitor", "profile" }
local PROGRAMS, ROUNDS = { "ring", "chan0", "chan100" }, 8
local SIZE, TIMED, COUNTED <const> = 1000, 2000000, 20000

local function switch_on(mode)
  local hold = require("runnel.core").internal.trace.hold
  if mode == "graph" then hold "le" end
  if mode == "trace" then hold("lr", 65536) end
  if mode == "both" then hold("ler", 65536) end
  if mode == "profile" then require("runnel.core").internal.profile.start {} end
  if mode == "monitor" then assert(require("runnel.monitor").listen()) end
end

-- Each passes a value on n times.
local programs = {}

function programs.ring(rn, n)
  local chans = {}
  for i = 1, SIZE do chans[i] = rn.chan() end
  for i = 1, SIZE - 1 do
    local to = chans[i + 1]
    rn.go(function() for value in chans[i] do to:put(value) end end)
  end
  return function()
    for lap = 1, n // SIZE do
      chans[1]:put(lap)
      chans[SIZE]:take()
    end
  end
end

local function pair(size)
  return function(rn, n)
    local ch = rn.chan(size)
    rn.go(function() for i = 1, n do ch:put(i) end end)
    return function() for _ = 1, n do ch:take() end end
  end
end

programs.chan0, programs.chan100 = pair(0), pair(100)

-- ns of processor time for each value that is passed on.
local function measure(program, n)
  local rn = require "runnel"
  local main = programs[program](rn, n)
  local before = os.clock()
  rn.go(main):take()
  return (os.clock() - before) / n * 1e9
end

-- Runs a program in a mode: what it prints; under another command, what that prints, too.
local function run(mode, program, n, under)
  local command = "%s %s %s %s %s %d 2>&1"
  local pipe = assert(io.popen(command:format(under or "", os.getenv "LUA" or "lua5.4", arg[0], mode, program, n)))
  local text = pipe:read "a"
  if not pipe:close() then error(text, 0) end
  return text
end

local CALLGRIND = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

local function instructions(mode, program)
  local function count(n) return tonumber(run(mode, program, n, CALLGRIND):match "Collected : (%d+)") end
  return (count(2 * COUNTED) - count(COUNTED)) / COUNTED
end

-- Prints a row for each mode: the numbers of the programs, each with its ratio to off.
local function print_rows(of, format)
  print("        " .. (" %16s"):rep(#PROGRAMS):format(table.unpack(PROGRAMS)))
  for _, mode in ipairs(MODES) do
    local cells = {}
    for i, program in ipairs(PROGRAMS) do
      cells[i] = format:format(of[mode][program], of[mode][program] / of.off[program])
    end
    print(("%-8s %s"):format(mode, table.concat(cells)))
  end
end

local found = {}
for _, mode in ipairs(MODES) do found[mode] = {} end

if arg[1] == "instructions" then
  for _, mode in ipairs(MODES) do
    for _, program in ipairs(PROGRAMS) do found[mode][program] = instructions(mode, program) end
  end
  print_rows(found, "%11.0f %5.2f")
  os.exit(0)
end
if arg[1] then
  switch_on(arg[1])
  print(("%.1f"):format(measure(arg[2] or "ring", math.tointeger(tonumber(arg[3])) or TIMED)))
  os.exit(0, false)
end
for _ = 1, ROUNDS do
  for _, program in ipairs(PROGRAMS) do
    for _, mode in ipairs(MODES) do
      local time = tonumber(run(mode, program, TIMED)) or math.huge
      found[mode][program] = math.min(found[mode][program] or math.huge, time)
    end
  end
end
print_rows(found, "%8.1f ns %5.2f")
