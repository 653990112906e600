-- Long remote jobs for some time, while workers and the server are killed at random: the submitter may not replace the
-- message of a job that runs in a worker that lives. The jobs of workers that are killed are delivered again, in any
-- order; a server that is killed then may count jobs as finished that run (runnel.nats.internal.tidying), and a
-- submitter that believed it would remove them from the stream and send them again. At the end all jobs have results,
-- also those that the server really does not deliver any more.
--
--   lua5.4 tests/soak/soak_jobs.lua [SECONDS] [SEED]     by default 60 s

local rn = require "runnel"
local nats = require "runnel.nats"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local decode = require("runnel.queue.encodings").encodings.msgpack.decode

local seconds, seed = tonumber(arg[1]) or 60, math.tointeger(tonumber(arg[2])) or 0
if seed == 0 then seed = os.time() end
math.randomseed(seed)
print(("seed %d, %d s"):format(seed, seconds))

local LUA <const>, WORKERS <const>, SLOTS <const> = os.getenv "LUA" or "lua5.4", 5, 8

local server <close> = nats_server.start()
local set = server.set

-- What happens, a line each, in the order in which it does: "S job pid" and "E job pid", a start and an end; "K pid",
-- a worker is dead; "R job", the submitter replaces its message.
local log_path = set:write("log", "")
local function log(...)
  local file <close> = assert(io.open(log_path, "a"))
  file:write(table.concat({ ... }, " "), "\n")
end

local worker_path = set:write("worker.lua", [[
local rn, nats = require "runnel", require "runnel.nats"
local stat = io.open "/proc/self/stat"
local pid = stat:read "n"
local function log(...)
  local file <close> = assert(io.open(arg[2], "a"))
  file:write(table.concat({ ... }, " "), "\n")
end
local conn = assert(nats.connect(arg[1], { reconnect_wait = 50 }))
conn:serve("soak", tonumber(arg[3]), function(v)
  log("S", v[1], pid)
  rn.sleep(v[2])
  log("E", v[1], pid)
  return v[1]
end, { ack_wait = 700 }):wait()
]])

local workers, over = {}, false
for i = 1, WORKERS do
  rn.go(function()
    while not over do
      workers[i] = set:start { LUA, worker_path, server.url, log_path, SLOTS }
      while not workers[i]:status() and not over do rn.sleep(10) end
      if not over then log("K", workers[i].pid) end
    end
  end)
end

local conn <close> = assert(nats.connect(server.url, { reconnect_wait = 50 }))
local soak = conn:remote("soak", { starts = 1000 })
local remove = soak.stream.remove
function soak.stream.remove(self, subject)
  local job = soak.jobs[subject:match "%d+$"]
  if job then log("R", decode(job.bytes)[1]) end
  return remove(self, subject)
end
local submitted, came, stop = 0, 0, false
local results = rn.pmap_unordered(WORKERS * SLOTS * 3 // 4, soak, rn.to_chan(function()
  if stop then return nil end
  submitted = submitted + 1
  local is_long = math.random(40) == 1
  return { submitted, is_long and math.random(20000, 60000) or math.random(100, 2000) }
end))
local taking = rn.go(function()
  for _ in results do came = came + 1 end
  return true
end)

-- Kills several workers, whose jobs are delivered again in any order; and the server, while some of these end. Then
-- nothing for longer than the submitter waits until it looks at its old jobs.
local kills, restarts = 0, 0
patience.wait_until(function() return #workers == WORKERS end)
rn.sleep(2000)
local start = rn.now()
while rn.now() - start < seconds * 1000 do
  for i = 1, WORKERS do
    if math.random(4) > 1 then
      kills = kills + 1
      workers[i]:signal "KILL"
    end
  end
  for _ = 1, 3 do
    rn.sleep(math.random(300, 2000))
    restarts = restarts + 1
    server:kill()
    rn.sleep(math.random(50, 500))
    server:start()
  end
  rn.sleep(math.random(3) == 1 and 1000 or 18000)
end
stop = true
local finishing = rn.now()
local _, port = rn.alts { taking, rn.timeout(240000) }
assert(port == taking, ("jobs do not end: %d of %d came"):format(came, submitted))
over = true

local wrong, starts, beside, replaced, running = 0, 0, 0, 0, {}
for line in io.lines(log_path) do
  local what, first, pid = line:match "^(%u) (%d+) ?(%d*)$"
  if what == "S" then
    starts = starts + 1
    if running[first] then beside = beside + 1 end -- the server has not heard of its worker for ack_wait
    running[first] = pid
  elseif what == "E" then
    if running[first] == pid then running[first] = nil end
  elseif what == "K" then
    for job, where in pairs(running) do
      if where == first then running[job] = nil end
    end
  else
    replaced = replaced + 1
    if running[first] then
      wrong = wrong + 1
      print(("WRONG: job %s was sent again while it runs in %s"):format(first, running[first]))
    end
  end
end
print(("%d jobs, %d results, %d starts, %d of them while the job ran elsewhere; %d jobs replaced")
  :format(submitted, came, starts, beside, replaced))
print(("kills of workers: %d, of the server: %d; %.1f s after the end")
  :format(kills, restarts, (rn.now() - finishing) / 1000))
if wrong > 0 or came ~= submitted then
  print "soak_jobs: FAILED"
  server:close()
  os.exit(1)
end
