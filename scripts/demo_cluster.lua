-- `make demo-cluster`: a durable chain over NATS JetStream, which loses nothing although its processes are killed.
--
-- Starts a nats-server on loopback (three as a cluster with CLUSTER=3), four workers as processes, and a submitter
-- (examples/cluster/checksums.lua) that has the checksum of each file of a folder made. Meanwhile it kills a worker
-- every 0.4 s and a server every second, all with SIGKILL, and starts workers again that end by themselves. After a
-- kill of a worker it kills the next one only when a result has come, and servers likewise: so it ends on a busy
-- machine, too. In the end it prints what was lost and what was done twice, and the results a second over time, also as
-- build/demo-cluster.svg. FILES=folder chooses the files. It gives up after two minutes without a result, or fifteen
-- altogether.

local rn = require "runnel"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local nats = require "runnel.nats"
local nats_server = require "spec.support.queue.nats_server"
local svg = require "bench.svg"

local LUA, PROGRAM = os.getenv "LUA" or "lua5.4", "examples/cluster/checksums.lua"
local WORKERS, KILL_MS, SERVER_KILL_MS, SLOT_MS, MOST = 4, 400, 1000, 250, 6000
local SILENT_MS, LIMIT_MS, LINE_MS = 120000, 900000, 2000
local size = tonumber(os.getenv "CLUSTER" or "1")

-- Ends the demo, after closing what it has opened.
local function fail(message)
  io.stderr:write("demo-cluster: ", message, "\n")
  os.exit(1, true)
end

if size ~= 1 and size ~= 3 and size ~= 5 then fail "CLUSTER: 1, 3 or 5 expected" end

local function show(format, ...)
  print(format:format(...))
  io.stdout:flush()
end

local folder = os.getenv "FILES"
if not folder then
  for _, candidate in ipairs { "/usr", "." } do
    folder = candidate
    if os.execute("[ -d " .. candidate .. " ]") then break end
  end
end

local cluster <close> = size > 1 and nats_server.cluster(size) or nats_server.start()
local set, servers, url = cluster.set, cluster.servers or { cluster }, cluster.url
show("%d nats-server%s with JetStream on loopback: %s", size, size > 1 and "s, clustered" or "", url)

-- The names of files, the same on every run. What was written into the list is what has to come back.
local list = set.dir .. "/paths"
local quoted = "'" .. folder:gsub("'", "'\\''") .. "'"
local find = "find %s -type f -size -64k 2>/dev/null | LC_ALL=C sort 2>/dev/null | head -n %d >%s"
local _, how, status = os.execute(find:format(quoted, MOST, list))
if how == "signal" and status == 2 then error("interrupted!", 0) end -- as Lua does, which ignores Ctrl-C meanwhile
local wanted, count = {}, 0
for path in io.lines(list) do
  wanted[path], count = true, count + 1
end
if count == 0 then fail("there are no files in " .. folder) end

-- On a terminal, the line of the progress is written over; a file gets a line now and then. (Before the demo says that
-- all has begun: during os.execute, Ctrl-C is lost.)
local is_terminal = os.execute "[ -t 1 ]"

local submitter = set:start { "sh", "-c", 'list=$0; exec "$@" <"$list"', list, "env",
  "RUNNEL_NATS_URL=" .. url, LUA, PROGRAM, "run", "files", size > 1 and "3" or "1" }
assert(submitter:says "ready", submitter:output())
local workers = {}
local function start_worker(i)
  workers[i] = set:start { "env", "RUNNEL_NATS_URL=" .. url, LUA, PROGRAM, "work", "files", "8" }
end
for i = 1, WORKERS do start_worker(i) end
show("%d workers make the checksums of %d files in %s; one of them is killed every %.1f s, a server every %.0f s%s",
  WORKERS, count, folder, KILL_MS / 1000, SERVER_KILL_MS / 1000, size > 1 and " once the last is back" or "")

-- ---- killing ----

-- How many results there are.
local function results_so_far() return select(2, submitter:output():gsub("%f[^\n\0]done\t", "")) end

-- Waits until there are more results than that, or the submitter has ended.
local function wait_for_more(than)
  while results_so_far() <= than and not submitter:status() do rn.sleep(100) end
end

local worker_kills, server_kills, restarts = 0, 0, 0
rn.go(function()
  local at_last_kill = -1
  while not submitter:status() do
    rn.sleep(KILL_MS)
    for i = 1, WORKERS do
      if workers[i]:status() then
        start_worker(i)
        restarts = restarts + 1
      end
    end
    local i = worker_kills % WORKERS + 1
    -- On a busy machine it may not have begun to work.
    if workers[i]:output():find("ready", 1, true) and results_so_far() > at_last_kill then
      workers[i]:signal "KILL"
      at_last_kill = results_so_far()
      start_worker(i)
      worker_kills = worker_kills + 1
    end
  end
end)

-- Whether all servers of a cluster have what the streams have. A cluster of three bears the loss of one at a time.
local conn <close> = assert(nats.connect(url, { reconnect_wait = 100 }))
local function is_whole()
  if size == 1 then return true end
  for _, name in ipairs { "files-paths", "files-sums" } do
    local info = jetstream.stream_info(conn, name)
    local replicas = info and info.cluster and info.cluster.leader and info.cluster.replicas or {}
    if #replicas < 2 then return false end
    for _, replica in ipairs(replicas) do
      if not replica.current then return false end
    end
  end
  return true
end

rn.go(function()
  while true do
    rn.sleep(SERVER_KILL_MS)
    while not is_whole() do rn.sleep(200) end
    if submitter:status() then return end
    local server = servers[server_kills % size + 1]
    server:kill()
    local results = results_so_far()
    rn.sleep(100)
    server:start()
    server_kills = server_kills + 1
    wait_for_more(results)
  end
end)

-- ---- counting ----

-- What went wrong, if the demo does not end.
local function outputs()
  local texts = { submitter:output():sub(-1000) }
  for i = 1, WORKERS do texts[i + 1] = ("worker %d: %s"):format(i, workers[i]:output():sub(-500)) end
  for _, what in ipairs { "STREAM.INFO.files-paths", "CONSUMER.LIST.files-paths", "STREAM.INFO.files-sums",
    "CONSUMER.LIST.files-sums" } do
    local answer, err = jetstream.request(conn, what)
    texts[#texts + 1] = ("%s: %s"):format(what, answer and json.encode(answer) or err)
  end
  for _, server in ipairs(servers) do texts[#texts + 1] = "nats-server: " .. server.program:output():sub(-1000) end
  return table.concat(texts, "\n")
end

local start, slots, seen = rn.now(), {}, 0
local last, shown = start, start
while not submitter:status() do
  rn.sleep(SLOT_MS)
  local total = results_so_far()
  slots[#slots + 1] = total - seen
  local now = rn.now()
  if total > seen then last = now end
  seen = total
  local line = ("%d of %d results after %.1f s"):format(seen, count, (now - start) / 1000)
  if is_terminal then
    io.write("\r", line)
    io.stdout:flush()
  elseif now - shown >= LINE_MS then
    shown = now
    show("%s", line)
  end
  if now - last > SILENT_MS or now - start > LIMIT_MS then
    fail(("no end after %.0f s: %s\n%s"):format((now - start) / 1000, line, outputs()))
  end
end
if is_terminal then print() end
if submitter:status() ~= 0 then fail(submitter:output():sub(-2000)) end
while #slots > 0 and slots[#slots] == 0 do slots[#slots] = nil end -- the submitter waits for results that come twice

local results, twice = {}, 0
for kind, path in submitter:output():gmatch "(%a+)\t%S+ %d+ ([^\n]*)\n" do
  if kind == "twice" then twice = twice + 1 end
  results[path] = true
end
local lost, foreign = 0, 0
for path in pairs(wanted) do
  if not results[path] then lost = lost + 1 end
end
for path in pairs(results) do
  if not wanted[path] then foreign = foreign + 1 end
end

-- ---- showing ----

local most = math.max(1, table.unpack(slots))
print "results a second:"
local group = math.max(1, #slots // 20)
for i = 1, #slots, group do
  local sum, n = 0, 0
  for j = i, math.min(i + group - 1, #slots) do sum, n = sum + slots[j], n + 1 end
  local rate = sum / n * 1000 / SLOT_MS
  print(("%6.1f s %7.0f %s"):format((i - 1) * SLOT_MS / 1000, rate, ("#"):rep((sum / n / most * 60 + 0.5) // 1)))
end

local add, text = svg.open(("Results a second: %d kills of workers, %d of servers"):format(worker_kills, server_kills),
  720, 300)
local points = {}
for i, n in ipairs(slots) do
  points[i] = ("%.1f,%.1f"):format(60 + (i - 1) / math.max(1, #slots - 1) * 640, 260 - n / most * 210)
end
add '<path d="M60 50V260H700" fill="none" stroke="#888"/>'
add('<polyline points="%s" fill="none" stroke="#06c" stroke-width="2"/>', table.concat(points, " "))
add('<text x="54" y="56" text-anchor="end">%.0f</text>', most * 1000 / SLOT_MS)
add '<text x="54" y="264" text-anchor="end">0</text>'
add('<text x="700" y="282" text-anchor="end">%.1f s</text>', #slots * SLOT_MS / 1000)
os.execute "mkdir -p build"
local file <close> = assert(io.open("build/demo-cluster.svg", "w"))
file:write(text())

show("%d files, %d kills of workers, %d of servers (SIGKILL)%s", count, worker_kills, server_kills,
  restarts > 0 and (", %d workers that ended were started again"):format(restarts) or "")
show("lost: %d   stored twice: %d   not asked for: %d   (the chart: build/demo-cluster.svg)", lost, twice, foreign)
if lost + twice + foreign > 0 then os.exit(1, true) end
