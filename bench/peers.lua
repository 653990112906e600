-- Runs the same programs in runnel and in its peers, and compares them; the programs are in bench/peers/.
--
--     make bench-peers                                                         all, and docs/performance.* anew
--     lua5.4 bench/peers.lua [--quick] [--rounds=N] [PEER...] [WORKLOAD...]    some, from the repository's root
--
-- In each round, every workload runs in all peers, one after the other, so that a slow phase of the machine affects all
-- of them. The tables show the median of the rounds; a ratio is the median of the rounds' ratios. Each run is a process
-- of its own, except in the JVM, which keeps running so that it is warm.
--
-- Only a run of everything, without --quick, writes docs/performance.svg and the measured part of docs/performance.md.
-- A peer that is not installed (scripts/setup peers) is left out, and so is a workload at which a peer fails; the page
-- says so.

package.path = "bench/?.lua;bench/peers/?.lua;" .. package.path
local chart = require "chart"
local markdown = require "markdown"

local LUA = os.getenv "LUA" or "lua5.4"
local PAGE, CHART = "docs/performance.md", "docs/performance.svg"

-- ---- the peers ----

-- Where Debian keeps the jars.
local JARS = {}
for jar in ("clojure core.async tools.analyzer.jvm tools.analyzer tools.reader core.memoize core.cache "
  .. "data.priority-map spec.alpha core.specs.alpha asm"):gmatch "%S+" do
  JARS[#JARS + 1] = "/usr/share/java/" .. jar .. ".jar"
end
local JAVA = "java -cp " .. table.concat(JARS, ":") .. " clojure.main"

local CORE_ASYNC_VERSION = [[readlink -f /usr/share/java/core.async.jar | sed 's/.*core.async-\(.*\)\.jar/\1/'; ]]
  .. JAVA .. [[ -e '(println (str ", Clojure " (clojure-version) ", JVM " (System/getProperty "java.version")))']]

-- `version` is a command that fails where the peer is not installed.
local PEERS = {
  {
    name = "runnel", title = "runnel", colour = "#dc2626", shape = "circle",
    version = LUA .. [[ -e 'require "runnel"' && printf 'this tree, ' && ]] .. LUA .. " -v | cut -d ' ' -f 1,2",
    run = LUA .. " bench/peers/runnel/main.lua",
  },
  {
    name = "go", title = "Go",
    version = "go version | awk '{ print $3 }' | grep . && echo ', GOMAXPROCS=1'",
    build = "mkdir -p build/peers && go build -o build/peers/go bench/peers/go/*.go",
    run = "build/peers/go",
  },
  {
    name = "go-locked", title = "Go, locked", threads = true,
    version = "go version | awk '{ print $3 }' | grep .", run = "build/peers/go --locked",
  },
  {
    name = "tarantool", title = "Tarantool", colour = "#7c3aed", shape = "square",
    version = [[tarantool -e 'print(_TARANTOOL .. ", " .. jit.version) os.exit()']],
    run = "tarantool bench/peers/tarantool/main.lua",
  },
  {
    name = "core.async", title = "core.async", colour = "#16a34a", shape = "diamond",
    version = "test -f " .. JARS[2] .. " && " .. CORE_ASYNC_VERSION,
    run = JAVA .. " bench/peers/core_async/main.clj",
    stays = true,
  },
  {
    name = "luv", title = "luv", colour = "#d97706", shape = "triangle",
    version = LUA .. [[ -e 'local uv = require "luv" print("libuv " .. uv.version_string())']],
    run = LUA .. " bench/peers/luv/main.lua",
  },
  {
    name = "cqueues", title = "cqueues", colour = "#475569", shape = "cross",
    version = LUA .. [[ -e 'print("version " .. require "cqueues".VERSION)']],
    run = LUA .. " bench/peers/cqueues/main.lua",
  },
  { name = "floor", title = "floor", run = LUA .. " bench/peers/floor/main.lua" },
}

-- ---- the workloads, in the page's order ----

-- Programs print ns or bytes; `per` of them make one of `unit`. `reach` is the target for runnel, as a ratio to Go. A
-- peer that lacks a workload is compared by the one named in `instead`.
local WORKLOADS = {
  { name = "chan0", what = "chan(0), a message", unit = "ns", reach = 0.90 },
  { name = "chan1", what = "chan(1), a message", unit = "ns", reach = 1.1 },
  { name = "chan100", what = "chan(100), a message", unit = "ns", reach = 1.5 },
  { name = "pingpong", what = "ping-pong, a round trip", unit = "ns", reach = 1.0 },
  { name = "ring", what = "ring of 1000, a hop", unit = "ns", reach = 0.90 },
  { name = "select4", what = "select of 4", unit = "ns", reach = 0.8 },
  { name = "fanin4", what = "select of 4, 4 putters", unit = "ns", reach = 0.8 },
  { name = "select64", what = "select of 64", unit = "ns", reach = 0.8 },
  { name = "spawn", what = "spawn + take", unit = "ns", reach = 1.4 },
  { name = "skynet", what = "skynet, a go block", unit = "ns" },
  { name = "sieve", what = "sieve, 1000 primes", unit = "ms", per = 1e6, reach = 1.0 },
  { name = "pipeline", what = "pipeline of 8, a job", unit = "ns" },
  { name = "pipeline_async", what = "with pipeline_async", unit = "ns", instead = "pipeline" },
  { name = "fanout4", what = "copies to 4, a message", unit = "ns" },
  { name = "mult", what = "with mult", unit = "ns", instead = "fanout4" },
  { name = "timeouts", what = "a million timeouts", unit = "ns each", reach = 0.5 },
  { name = "timers", what = "the same, none shared", unit = "ns each", reach = 0.5 },
  { name = "parked", what = "a parked go block", unit = "bytes", reach = 0.5 },
  { name = "channel", what = "an unbuffered channel", unit = "bytes" },
}

-- Those of two OS threads, by the clock: the targets are ratios to Go with two processors, its goroutines not locked to
-- threads and locked; `most` and `least` are values.
local THREADS = {
  { name = "threads0", what = "unbuffered, a message", unit = "ns", reach = 4, reach_locked = 0.2 },
  { name = "threads100", what = "buffer of 100, a message", unit = "ns", reach = 9, reach_locked = 4 },
  { name = "threads_pingpong", what = "ping-pong, a round trip", unit = "ns", reach = 4, reach_locked = 0.1 },
  { name = "threads_alts", what = "select of 2 shared and 1 other", unit = "ns", reach = 3 },
  { name = "threads_table", what = "a table of 10 fields, put and taken", unit = "ns", most = 1300 },
  { name = "threads_speedup", what = "jobs of 1 ms, two workers to one", unit = "×", least = 1.8 },
}
for _, workload in ipairs(THREADS) do
  workload.threads = true
  WORKLOADS[#WORKLOADS + 1] = workload
end

-- ---- the command line ----

local quick, rounds = false, nil
local asked = {}

local function usage()
  io.stderr:write "usage: lua5.4 bench/peers.lua [--quick] [--rounds=N] [PEER...] [WORKLOAD...]\n"
  for i, list in ipairs { PEERS, WORKLOADS } do
    io.stderr:write(i == 1 and "peers:" or "workloads:")
    for _, item in ipairs(list) do io.stderr:write(" ", item.name) end
    io.stderr:write "\n"
  end
  os.exit(2)
end

local known = {}
for _, list in ipairs { PEERS, WORKLOADS } do
  for _, item in ipairs(list) do known[item.name] = list end
end
for _, word in ipairs(arg) do
  if word == "--quick" then
    quick = true
  elseif word:find "^%-%-rounds=%d+$" then
    rounds = tonumber(word:match "%d+")
  elseif known[word] then
    asked[word] = true
    asked[known[word]] = true
  else
    usage()
  end
end
rounds = math.max(1, rounds or (quick and 3 or 5))

local function chosen(list)
  if not asked[list] then return list end
  local some = {}
  for _, item in ipairs(list) do
    if asked[item.name] then some[#some + 1] = item end
  end
  return some
end
local workloads = chosen(WORKLOADS)

-- ---- running programs ----

-- Returns what a command prints, on one line, or nil; and whether it succeeded.
local function output(command)
  local pipe = assert(io.popen("{ " .. command .. "; } 2>/dev/null"))
  local text = pipe:read "a"
  local ok = pipe:close()
  text = text:gsub("\n", ""):gsub("%s+$", "")
  return ok and text ~= "" and text or nil, ok
end

-- Starts a peer that keeps running: it reads names of workloads from standard input, through a named pipe.
local function start(peer)
  local name = os.tmpname()
  os.remove(name)
  assert(os.execute("mkfifo -m 600 " .. name))
  -- If the peer ends early, cat reads what is still written to the pipe; otherwise SIGPIPE would end this process.
  local command = ("{ %s %s; exec cat >/dev/null; } <%s"):format(peer.run, quick and "--quick" or "", name)
  peer.answers = assert(io.popen(command))
  peer.questions = assert(io.open(name, "w"))
  peer.questions:setvbuf "line"
  os.remove(name)
end

-- Runs a workload in a peer. Returns ns or bytes, or nil if the peer lacks it; and whether the peer has failed.
local function measure(peer, workload)
  if peer.threads and not workload.threads then return nil end
  local pattern = "^" .. workload.name .. " (%-?[%d.]+)$"
  if not peer.stays then
    local line, ok = output(("%s %s %s"):format(peer.run, quick and "--quick" or "", workload.name))
    return line and tonumber(line:match(pattern)), not ok
  end
  if peer.ended then return nil, true end
  if not peer.questions then start(peer) end
  peer.questions:write(workload.name, "\n")
  local value
  for line in peer.answers:lines() do
    if line == "done" then return value end
    value = tonumber(line:match(pattern))
  end
  peer.ended = true
  return nil, true
end

local peers, missing = {}, {}
for _, peer in ipairs(chosen(PEERS)) do
  peer.found = not peer.version or output(peer.version)
  if peer.found and peer.build and not os.execute(peer.build) then
    io.stderr:write(peer.title, " is installed, but its program cannot be built\n")
    peer.found = nil
  end
  peer.failures = {}
  local list = peer.found and peers or missing
  list[#list + 1] = peer
end
if missing[1] == PEERS[1] then
  io.stderr:write "runnel is not built: make all, and eval \"$(make -s env)\"\n"
  os.exit(1)
end

local samples = {} -- [workload's name][peer's name][round] = a value
for _, workload in ipairs(WORKLOADS) do
  samples[workload.name] = {}
  for _, peer in ipairs(peers) do samples[workload.name][peer.name] = {} end
end
local began = os.time()
for round = 1, rounds do
  io.stderr:write(("round %d of %d\n"):format(round, rounds))
  for _, workload in ipairs(workloads) do
    for _, peer in ipairs(peers) do
      local value, failed = measure(peer, workload)
      samples[workload.name][peer.name][round] = value
      if failed then peer.failures[workload.name] = workload end
    end
  end
end
io.stderr:write(("%.1f minutes\n"):format((os.time() - began) / 60))
for _, peer in ipairs(peers) do
  if peer.questions then
    peer.questions:close()
    peer.answers:close()
  end
end

-- ---- statistics ----

-- The median of the values in a table, or nil if there are none.
local function median(list)
  local sorted = {}
  for _, value in pairs(list) do sorted[#sorted + 1] = value end
  if #sorted == 0 then return nil end
  table.sort(sorted)
  local middle = (#sorted + 1) // 2
  return #sorted % 2 == 1 and sorted[middle] or (sorted[middle] + sorted[middle + 1]) / 2
end

local function values_of(workload, peer_name)
  local values = samples[workload.name][peer_name]
  if values and not next(values) and workload.instead then values = samples[workload.instead][peer_name] end
  return values or {}
end

-- The median of the ratios of one peer's value to another's in the same round.
local function ratio_of(workload, peer_name, other_name)
  local above, below, ratios = values_of(workload, peer_name), values_of(workload, other_name), {}
  for round = 1, rounds do
    if above[round] and below[round] then ratios[#ratios + 1] = above[round] / below[round] end
  end
  return median(ratios)
end

-- Three digits, or more if the integer part has more.
local function show(x)
  return ((x < 9.995 and "%.2f") or (x < 99.95 and "%.1f") or "%.0f"):format(x)
end

-- ---- the tables ----

local function medians()
  local rows = { { "" } }
  for _, peer in ipairs(peers) do
    if not peer.threads then table.insert(rows[1], peer.title) end
  end
  for _, workload in ipairs(workloads) do
    if workload.threads then break end -- they are the last ones, and have a table of their own
    local row = { ("%s (%s)"):format(workload.what, workload.unit) }
    for _, peer in ipairs(peers) do
      if peer.threads then goto continue end
      local value = median(samples[workload.name][peer.name])
      local ratio = peer.name ~= "go" and peer.name ~= "floor" and ratio_of(workload, peer.name, "go")
      row[#row + 1] = not value and ""
        or show(value / (workload.per or 1)) .. (ratio and (" (%s)"):format(show(ratio)) or "")
      ::continue::
    end
    rows[#rows + 1] = row
  end
  return markdown(rows)
end

local reached, figures = 0, 0
local function verdict(ratio, reach, met)
  if not ratio or not reach then return ratio and show(ratio) or "" end
  figures = figures + 1
  if met then reached = reached + 1 end
  return ("%s, %s"):format(show(ratio), met and "met" or "not met")
end

local function targets()
  local rows = { { "", "runnel / Go", "target", "Tarantool / runnel > 1", "core.async / runnel ≥ 4" } }
  for _, workload in ipairs(workloads) do
    if workload.threads then break end
    local to_go = ratio_of(workload, "runnel", "go")
    local tarantool = ratio_of(workload, "tarantool", "runnel")
    local core_async = ratio_of(workload, "core.async", "runnel")
    rows[#rows + 1] = {
      workload.what,
      verdict(to_go, workload.reach, to_go and workload.reach and to_go <= workload.reach),
      workload.reach and ("≤ %.2f"):format(workload.reach) or "",
      verdict(tarantool, 1, tarantool and tarantool > 1),
      verdict(core_async, 4, core_async and core_async >= 4),
    }
  end
  return markdown(rows) .. ("\n\n%d of %d targets are met."):format(reached, figures)
end

local function threads_table()
  local rows = { { "two threads", "runnel", "Go", "runnel / Go", "Go, locked", "runnel / locked", "target" } }
  for _, workload in ipairs(workloads) do
    if not workload.threads then goto continue end
    local function value_of(peer)
      local value = median(samples[workload.name][peer] or {})
      return value, value and ("%s %s"):format(show(value), workload.unit) or ""
    end
    local ours, shown = value_of "runnel"
    local _, go = value_of "go"
    local _, go_locked = value_of "go-locked"
    local to_go, to_locked = ratio_of(workload, "runnel", "go"), ratio_of(workload, "runnel", "go-locked")
    local targets_of = {}
    local function target(text, is_known, is_met)
      if is_known then targets_of[#targets_of + 1] = ("%s, %s"):format(text, is_met and "met" or "not met") end
    end
    if workload.reach then target("≤ " .. show(workload.reach), to_go, to_go and to_go <= workload.reach) end
    if workload.reach_locked then
      target("locked ≤ " .. show(workload.reach_locked), to_locked, to_locked and to_locked <= workload.reach_locked)
    end
    if workload.most then target("≤ " .. workload.most .. " ns", ours, ours and ours <= workload.most) end
    if workload.least then target(("≥ %s"):format(show(workload.least)), ours, ours and ours >= workload.least) end
    rows[#rows + 1] = { workload.what, shown, go, to_go and show(to_go) or "", go_locked,
      to_locked and show(to_locked) or "", table.concat(targets_of, "; ") }
    ::continue::
  end
  return "With two OS threads, by the clock; Go with GOMAXPROCS=2, its goroutines not locked to threads, and locked:"
    .. "\n\n" .. markdown(rows)
end

local function machine()
  local cpu = output "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1"
    or output "sysctl -n machdep.cpu.brand_string"
  local cc = output((os.getenv "CC" or "cc") .. " --version | head -n 1")
  local system = output "sed -n 's/^PRETTY_NAME=\"\\(.*\\)\"/\\1/p' /etc/os-release" or output "uname -s"
  local lines = { ("Measured on %s cores (%s), %s, %s: the medians of %d round%s."):format(
    output "getconf _NPROCESSORS_ONLN" or "?", cpu or "unknown", system or "unknown", cc or "unknown",
    rounds, rounds == 1 and "" or "s") }
  lines[#lines + 1] = ""
  for _, peer in ipairs(peers) do
    if peer.version then lines[#lines + 1] = ("- %s: %s"):format(peer.title, peer.found) end
  end
  for _, peer in ipairs(missing) do
    lines[#lines + 1] = ("- %s is left out: it is not installed here (`scripts/setup peers`)"):format(peer.title)
  end
  for _, peer in ipairs(peers) do
    for _, workload in ipairs(workloads) do
      if peer.failures[workload.name] then
        lines[#lines + 1] = ("- %s failed at: %s"):format(peer.title, workload.what)
      end
    end
  end
  return table.concat(lines, "\n")
end

local parts = { machine() }
if not workloads[1].threads then parts[2], parts[3] = medians(), targets() end
if workloads[#workloads].threads then parts[#parts + 1] = threads_table() end
local measured = table.concat(parts, "\n\n")
print(measured)

-- ---- the page and the chart ----

if quick or asked[PEERS] or asked[WORKLOADS] then return end

local rows, series = {}, {}
for _, workload in ipairs(workloads) do
  if workload.threads then break end
  local row = { label = workload.what, target = workload.reach }
  for _, peer in ipairs(peers) do row[peer.name] = peer.shape and ratio_of(workload, peer.name, "go") end
  rows[#rows + 1] = row
end
for _, peer in ipairs(peers) do
  if peer.shape then series[#series + 1] = peer end
end

local function write(name, text)
  local file = assert(io.open(name, "w"))
  assert(file:write(text))
  assert(file:close())
  io.stderr:write("wrote ", name, "\n")
end

local go = (output "go version | awk '{ print $3 }'" or "Go"):gsub("^go", "Go ")
write(CHART, chart(("runnel and its peers, against %s on one processor"):format(go), rows, series))
local file = assert(io.open(PAGE))
local page = file:read "a"
file:close()
local before, after = page:match "^(.*<!%-%- measured %-%->\n).-(<!%-%- end of what was measured %-%->.*)$"
assert(before, PAGE .. ": where the measured part goes is not marked")
write(PAGE, before .. "\n" .. measured .. "\n\n" .. after)
