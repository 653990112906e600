-- `make bench-machines`: what a remote stage (conn:remote, conn:serve) costs beside plain nats.c (bench/machines.c),
-- over a real nats-server on loopback. The two take turns in one run; only their ratio means something.
--
--   throughput   n = 128, 4 workers: jobs a second, as a part of plain nats.c's (at least 0.7)
--   latency      n = 1, 4 workers: ms of one job, as a multiple of plain nats.c's (at most 1.3)
--   kills        ack_wait 0.5 s, a worker killed every 0.4 s: the time, as a multiple of that without (at most 1.1)
--
-- Arguments: --quick for a fifth of the jobs; and names of the parts to run.

local rn = require "runnel"
local nats = require "runnel.nats"
local nats_server = require "spec.support.nats_server"

local PLAIN, WORKERS, ROUNDS = "build/machines", 4, 3
local LUA = os.getenv "LUA" or "lua5.4"

local jobs, chosen = 30000, {}
for _, word in ipairs(arg) do
  if word == "--quick" then jobs = 6000
  elseif word == "throughput" or word == "latency" or word == "kills" then chosen[word] = true
  else
    io.stderr:write "usage: bench/machines.lua [--quick] [throughput] [latency] [kills]\n"
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
local conn = assert(require("runnel.nats").connect(arg[1]))
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

local function plain(url, count, n)
  local pipe <close> = assert(io.popen(("%s submit %s plain %d %d"):format(PLAIN, url, count, n)))
  return tonumber(pipe:read "l") or error "plain nats.c has failed"
end

-- Measures both in turns; returns the medians of the seconds of plain nats.c and of runnel.
local function compare(conn, url, count, n)
  local theirs, ours = {}, {}
  plain(url, count // 10, n) -- both warm up
  remote(conn, "bench", count // 10, n)
  for round = 1, ROUNDS do
    theirs[round] = plain(url, count, n)
    ours[round] = remote(conn, "bench", count, n)
  end
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
os.execute(("%s create %s plain"):format(PLAIN, server.url))
if is_chosen "throughput" or is_chosen "latency" then
  start_workers(server.set, WORKERS, { PLAIN, "work", server.url, "plain", "32" })
  start_workers(server.set, WORKERS, { LUA, server.set:write("worker.lua", WORKER), server.url, "bench", "32", "0" })
end
if is_chosen "throughput" then
  local theirs, ours = compare(conn, server.url, jobs, 128)
  show("throughput   %8.0f jobs/s, plain nats.c %8.0f jobs/s: %.2f times (at least 0.7)", jobs / ours, jobs / theirs,
    theirs / ours)
end
if is_chosen "latency" then
  local count = jobs // 10
  local theirs, ours = compare(conn, server.url, count, 1)
  show("latency      %8.3f ms, plain nats.c %8.3f ms: %.2f times (at most 1.3)", ours / count * 1000,
    theirs / count * 1000, ours / theirs)
end
if is_chosen "kills" then with_and_without_kills(server, conn) end
