-- `make bench-machines`: what a remote stage (conn:remote, conn:serve) costs beside plain nats.c (bench/machines.c),
-- over a real nats-server on loopback. The two take turns in one run; only their ratio means something.
--
--   throughput   n = 128, 4 workers: jobs a second, as a part of plain nats.c's (at least 0.7)
--   batched      the same, where plain nats.c collects what it publishes and sends it in batches (at least 0.7; CPU
--                time of a job at most 1.3 times)
--   collected    as throughput, with the option send_asap = false of nats.connect in the submitter and the workers; it
--                makes a difference only where programs publish while no messages arrive
--   latency      n = 1, 4 workers: ms of one job, as a multiple of plain nats.c's (at most 1.3)
--   kills        ack_wait 0.5 s, a worker killed every 0.4 s: the time, as a multiple of that without (at most 1.1)
--   recovery     jobs of 20 ms to 10 s (--quick: to 2 s), with one kill and with a kill a second: the time, as a
--                multiple of the ideal for the same kills (at most 1.3)
--   restarts     the server is killed every second: jobs done, as a part of the ideal (the time at most 1.5 times), and
--                how many messages the submitter sends for a result
--   rolling      the server that leads is stopped, in a cluster of three: ms without a result (at most 1000 apart from
--                elections)
--
-- The CPU time of a job is that of all threads, from /proc: on a machine that does other work at the same time it says
-- more than the jobs a second.
--
-- Arguments: --quick for a fifth of the jobs; and names of the parts to run.

local rn = require "runnel"
local nats = require "runnel.nats"
local recovery = require "bench.recovery"
local restarts = require "bench.restarts"
local rolling = require "bench.rolling"
local nats_server = require "spec.support.queue.nats_server"

local PLAIN, WORKERS, ROUNDS = "build/machines", 4, 3
local ENVIRONMENT = { plain = "MACHINES_PLAIN=1", batched = "MACHINES_BATCHED=1" } -- bench/machines.c looks for one
local LUA = os.getenv "LUA" or "lua5.4"

local PARTS = { throughput = true, batched = true, collected = true, latency = true, kills = true, recovery = true,
  restarts = true, rolling = true }

local jobs, chosen = 30000, {}
for _, word in ipairs(arg) do
  if word == "--quick" then jobs = 6000
  elseif PARTS[word] then chosen[word] = true
  else
    io.stderr:write "usage: bench/machines.lua [--quick] \
[throughput|batched|collected|latency|kills|recovery|restarts|rolling]...\n"
    os.exit(2)
  end
end

local function is_chosen(part) return next(chosen) == nil or chosen[part] end

-- Prints at once, since a run takes some minutes.
local function show(format, ...)
  print(format:format(...))
  io.stdout:flush()
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local WORKER = [[
local rn = require "runnel"
local conn = assert(require("runnel.nats").connect(arg[1], { send_asap = arg[5] ~= "collect",
  reconnect_wait = arg[5] == "restarts" and 50 or nil }))
local ms = tonumber(arg[4])
local worker = conn:serve(arg[2], tonumber(arg[3]), function(v)
  if ms > 0 then rn.sleep(ms) end
  return v
end, { ack_wait = 500 })
print "ready"
io.stdout:flush()
worker:wait()
]]

-- Starts workers, and returns them with a function that starts one.
local function start_workers(set, count, command)
  local workers = {}
  local function start(i)
    workers[i] = set:start(command)
    return workers[i]
  end
  for i = 1, count do assert(start(i):says "ready", workers[i]:output()) end
  return workers, start
end

-- Runs jobs through a remote stage, and returns the seconds. `window`: how many results may wait for their turn.
local function remote(conn, name, count, n, window)
  local i, start, results = 0, rn.now(), 0
  local function next_job()
    i = i + 1
    return i <= count and i or nil
  end
  for value in rn.pmap(n, conn:remote(name), rn.to_chan(next_job), { window = window }) do
    results = results + 1
    assert(value == results, "the results are not in order")
  end
  assert(results == count, "results are missing")
  return (rn.now() - start) / 1000
end

-- The same with plain nats.c; `kind`: "plain" or "batched", which is also the name of the stream.
local function plain(url, count, n, kind)
  local command = ("%s %s submit %s %s %d %d"):format(ENVIRONMENT[kind], PLAIN, url, kind, count, n)
  local pipe <close> = assert(io.popen(command))
  return tonumber(pipe:read "l") or error "plain nats.c has failed"
end

local TICKS <const> = 100 -- a second, in which Linux counts CPU time

-- The seconds of CPU that processes have used; with `children`, those of their children that have ended.
local function cpu(pids, children)
  local ticks = 0
  for _, pid in ipairs(pids) do
    local file <close> = assert(io.open(("/proc/%s/stat"):format(pid)))
    local fields = {}
    for field in file:read("a"):match("%) (.*)"):gmatch "%S+" do fields[#fields + 1] = field end
    local first = children and 14 or 12 -- the list begins with the third field
    ticks = ticks + fields[first] + fields[first + 1]
  end
  return ticks / TICKS
end

local function pids_of(programs)
  local pids = {}
  for i, program in ipairs(programs) do pids[i] = program.pid end
  return pids
end

-- Calls f, and adds the CPU time that the server, the workers and the submitter use to `sums`. A submitter that is
-- a child of this program has ended when f returns.
local function counted(sums, server, workers, is_child, f, ...)
  local before = { cpu { server.program.pid }, cpu(workers), cpu({ "self" }, is_child) }
  local seconds = f(...)
  local after = { cpu { server.program.pid }, cpu(workers), cpu({ "self" }, is_child) }
  for i = 1, 3 do sums[i] = (sums[i] or 0) + after[i] - before[i] end
  return seconds
end

local function show_cpu(who, sums, count)
  local function us(seconds) return seconds / count / ROUNDS * 1e6 end
  show("             CPU a job of %-14s %4.0f us: server %.0f, workers %.0f, submitter %.0f", who .. ":",
    us(sums[1] + sums[2] + sums[3]), us(sums[1]), us(sums[2]), us(sums[3]))
end

-- Measures both in turns; returns the medians of the seconds of plain nats.c and of runnel.
local function compare(conn, server, name, workers, count, n, kind)
  local theirs, ours, their_cpu, our_cpu = {}, {}, {}, {}
  kind = kind or "plain"
  plain(server.url, count // 10, n, kind) -- both warm up
  remote(conn, name, count // 10, n)
  for round = 1, ROUNDS do
    theirs[round] = counted(their_cpu, server, workers[kind], true, plain, server.url, count, n, kind)
    ours[round] = counted(our_cpu, server, workers[name], false, remote, conn, name, count, n)
  end
  show_cpu("runnel", our_cpu, count)
  show_cpu("plain nats.c", their_cpu, count)
  return median(theirs), median(ours)
end

-- Jobs that wait for 20 ms, 16 at a time in each worker. n leaves room for the jobs of one or two dead workers, and the
-- window for the results that meanwhile wait for those.
local function with_and_without_kills(server, conn)
  local count, n, window, ms = jobs * 2 // 3, 128, 8192, 20
  local worker = server.set:write("kills.lua", WORKER)
  local command = { LUA, worker, server.url, "kills", "16", tostring(ms) }
  local workers, start = start_workers(server.set, WORKERS, command)
  remote(conn, "kills", count // 10, n, window)
  local without = remote(conn, "kills", count, n, window)
  local stopped, kills = false, 0
  local killer = rn.go(function()
    while true do
      rn.sleep(400)
      if stopped then return end
      local i = kills % WORKERS + 1
      workers[i]:signal "KILL"
      start(i)
      kills = kills + 1
    end
  end)
  local with = remote(conn, "kills", count, n, window)
  stopped = true
  killer:take()
  show("kills        %8.2f s without, %8.2f s with %d kills of workers: %.2f times (at most 1.1)", without, with, kills,
    with / without)
end

local server <close> = nats_server.start()
local conn <close> = assert(nats.connect(server.url))
local workers = {}
local function start_plain_workers(kind)
  os.execute(("%s create %s %s"):format(PLAIN, server.url, kind))
  local command = { "env", ENVIRONMENT[kind], PLAIN, "work", server.url, kind, "32" }
  workers[kind] = pids_of(start_workers(server.set, WORKERS, command))
end
if is_chosen "throughput" or is_chosen "latency" or is_chosen "collected" then
  start_plain_workers "plain"
end
local function start_remote_workers(name, collect)
  local command = { LUA, server.set:write("worker.lua", WORKER), server.url, name, "32", "0", collect }
  workers[name] = pids_of(start_workers(server.set, WORKERS, command))
end
if is_chosen "throughput" or is_chosen "latency" or is_chosen "batched" then start_remote_workers "bench" end
if is_chosen "throughput" then
  local theirs, ours = compare(conn, server, "bench", workers, jobs, 128)
  show("throughput   %8.0f jobs/s, plain nats.c %8.0f jobs/s: %.2f times (at least 0.7)", jobs / ours, jobs / theirs,
    theirs / ours)
end
if is_chosen "batched" then
  start_plain_workers "batched"
  local theirs, ours = compare(conn, server, "bench", workers, jobs, 128, "batched")
  show("batched      %8.0f jobs/s, plain nats.c %8.0f jobs/s: %.2f times (at least 0.7)", jobs / ours, jobs / theirs,
    theirs / ours)
end
if is_chosen "collected" then
  start_remote_workers("collected", "collect")
  local collecting <close> = assert(nats.connect(server.url, { send_asap = false }))
  local theirs, ours = compare(collecting, server, "collected", workers, jobs, 128)
  show("collected    %8.0f jobs/s, plain nats.c %8.0f jobs/s: %.2f times", jobs / ours, jobs / theirs, theirs / ours)
end
if is_chosen "latency" then
  local count = jobs // 10
  local theirs, ours = compare(conn, server, "bench", workers, count, 1)
  show("latency      %8.3f ms, plain nats.c %8.3f ms: %.2f times (at most 1.3)", ours / count * 1000,
    theirs / count * 1000, ours / theirs)
end
if is_chosen "kills" then with_and_without_kills(server, conn) end
if is_chosen "recovery" then
  local worker = server.set:write("recovery.lua", WORKER)
  recovery(server, conn, function(name, n, ms) return { LUA, worker, server.url, name, tostring(n), tostring(ms) } end,
    show, jobs < 30000 and 2000 or 10000)
end
if is_chosen "restarts" then
  start_remote_workers("restarts", "restarts")
  local short <close> = assert(nats.connect(server.url, { reconnect_wait = 50 }))
  local seen = restarts(server, short:remote "restarts", jobs / 1000)
  show("restarts     %8d jobs in %d kills of the server, ideal %8.0f: %.2f times (at most 1.5); %.1f messages a job",
    seen.results, seen.kills, seen.ideal, seen.ideal / seen.results, seen.sent / seen.results)
end
if is_chosen "rolling" then rolling(jobs // 1500, show) end
