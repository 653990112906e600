-- What tracing and monitoring cost: processor time of a hop in a ring of 1000 go blocks.
--
--     make bench-tracing                            all of it
--     lua5.4 bench/tracing.lua [MODE [LAPS]]        after `make all` and eval "$(make -s env)"
--
-- MODE: off; graph, as rn.graph; trace, as rn.trace; both; monitor; profile, as rn.profile. Without one: each of them
-- in turn, the least of eight runs, and the ratio to off. The time is that of the process, threads included.
-- With "instructions" instead: the instructions of each of them, counted by callgrind in two runs of different length,
-- without the start and the end.

local MODES, SIZE, ROUNDS = { "off", "graph", "trace", "both", "monitor", "profile" }, 1000, 8

local function switch_on(mode)
  local hold = require("runnel.core").internal.trace.hold
  if mode == "graph" then hold "le" end
  if mode == "trace" then hold("lr", 65536) end
  if mode == "both" then hold("ler", 65536) end
  if mode == "profile" then require("runnel.core").internal.profile.start {} end
  if mode == "monitor" then assert(require("runnel.monitor").listen()) end
end

-- ns of processor time for each hop.
local function ring(laps)
  local rn = require "runnel"
  local chans = {}
  for i = 1, SIZE do chans[i] = rn.chan() end
  for i = 1, SIZE - 1 do
    local to = chans[i + 1]
    rn.go(function() for value in chans[i] do to:put(value) end end)
  end
  local before = os.clock()
  rn.go(function()
    for lap = 1, laps do
      chans[1]:put(lap)
      chans[SIZE]:take()
    end
  end):take()
  return (os.clock() - before) / laps / SIZE * 1e9
end

-- Runs a mode for so many laps: what it prints; under another command, what that prints, too.
local function run(mode, laps, under)
  local command = "%s %s %s %s %d 2>&1"
  local pipe = assert(io.popen(command:format(under or "", os.getenv "LUA" or "lua5.4", arg[0], mode, laps)))
  local text = pipe:read "a"
  if not pipe:close() then error(text, 0) end
  return text
end

local CALLGRIND = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

local function instructions(mode)
  local function count(laps) return tonumber(run(mode, laps, CALLGRIND):match "Collected : (%d+)") end
  return (count(40) - count(20)) / 20 / SIZE
end

if arg[1] == "instructions" then
  for _, mode in ipairs(MODES) do print(("%-8s %6.0f instructions"):format(mode, instructions(mode))) end
  os.exit(0)
end
if arg[1] then
  switch_on(arg[1])
  print(("%.1f"):format(ring(math.tointeger(tonumber(arg[2])) or 4000)))
  os.exit(0, false)
end
local least = {}
for _ = 1, ROUNDS do
  for _, mode in ipairs(MODES) do
    least[mode] = math.min(least[mode] or math.huge, tonumber(run(mode, 4000)) or math.huge)
  end
end
for _, mode in ipairs(MODES) do
  print(("%-8s %6.1f ns %6.2f"):format(mode, least[mode], least[mode] / least.off))
end
