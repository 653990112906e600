-- Remote stages and durable stages for some time, while everything fails at random. Workers, submitters, and the server
-- or the servers of a cluster are killed. The network of workers and submitters is parted, halted, or slow. The disk of
-- the servers is full. And jobs exit, crash, loop for ever, or take memory without end. In the end each job has its
-- result once, or is a dead letter, or was left by a submitter that was killed; each message has its result once, or is
-- a dead letter, once. Nothing that is healthy has been given up.
--
-- One server also loses what its consumers have acknowledged, as nats-server may when it is killed (docs/machines.md).
-- So there the messages are in a work queue; with three servers their stream keeps them.
--
--   lua5.4 tests/soak/soak_machines.lua [SECONDS] [SEED] [SERVERS]     by default 20 s, one server

local rn = require "runnel"
local nats = require "runnel.nats"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"

local seconds, seed = tonumber(arg[1]) or 20, math.tointeger(tonumber(arg[2])) or 0
if seed == 0 then seed = os.time() end
local size = math.tointeger(tonumber(arg[3])) or 1
math.randomseed(seed)
print(("seed %d, %d s, %d server(s)"):format(seed, seconds, size))

local LUA <const>, WORKERS <const> = os.getenv "LUA" or "lua5.4", 4
local REPLICAS <const> = size > 1 and 3 or 1

local DISK <const> = { disk = 100000000 }
local cluster <close> = size > 1 and nats_server.cluster(size, DISK) or nats_server.start(DISK)
local set, servers = cluster.set, cluster.servers or { cluster }

-- The networks of the programs: two of workers, one of submitters.
local proxies = {}
for i = 1, 3 do proxies[i] = nats_server.proxy(servers[(i - 1) % #servers + 1]) end
local function url_of(i) return proxies[i].url .. (size > 1 and "," .. cluster.url or "") end

-- What a job or a message is: { number, kind }. The function gives the number back.
local WORK = [[
local rn, nats = require "runnel", require "runnel.nats"
local conn = assert(nats.connect(arg[1], { reconnect_wait = 50, encoding = "msgpack" }))
local function work(v)
  local kind = v[2]
  if kind == "exit" then
    rn.sleep(20)
    os.exit(3)
  elseif kind == "crash" then
    os.execute "kill -SEGV $PPID"
    rn.sleep(1e6)
  elseif kind == "loop" then
    while true do end
  elseif kind == "memory" then
    local list = {}
    for i = 1, 1e9 do list[i] = ("x"):rep(1000) .. i end
  elseif kind == "raise" then
    error("on purpose", 0)
  end
  rn.sleep(v[1] % 7 == 0 and 300 or v[1] % 20)
  return v[1]
end
]]
-- In processes of their own: a job that ends its process would otherwise end messages that run alone in their stage.
local SERVE = WORK .. [[
conn:serve("soak", 6, work, { ack_wait = 500, timeout = 1500, replicas = tonumber(arg[2]) }):wait()
]]
local STAGE = WORK .. [[
assert(conn:stage("in", 6, work, "out", { ack_wait = 700, timeout = 1500, tries = 2, backoff = 50, starts = 8 })):wait()
]]
-- Submits jobs, and says which numbers came back, or failed.
local SUBMITTER = [[
local rn, nats = require "runnel", require "runnel.nats"
local conn = assert(nats.connect(arg[1], { reconnect_wait = 50, encoding = "msgpack" }))
math.randomseed(tonumber(arg[3]))
local soak = conn:remote("soak", {
  tries = 2, backoff = 50, starts = 8, traceback = false, replicas = tonumber(arg[2]),
})
local kinds = { "exit", "crash", "loop", "memory", "raise" }
local over, number = false, 0
local function next_job()
  if over then return nil end
  number = number + 1
  return { number, math.random(200) == 1 and kinds[math.random(#kinds)] or "plain" }
end
local count, given_up = 0, 0
local function failed(err, v)
  err = tostring(err)
  -- (Memory that runs out is an error of whatever asks for some then.)
  if v[2] == "plain" and not err:find "not enough memory" then print("WRONG: a healthy job was given up: " .. err) end
  return "failed"
end
for value in rn.pmap(24, soak, rn.to_chan(next_job), { ex_handler = failed }) do
  count = count + 1
  if value == "failed" then given_up = given_up + 1
  elseif value ~= count then print(("WRONG: %s in place of %d"):format(value, count)) end
  over = over or os.rename(arg[4], arg[4]) ~= nil -- the file is there
end
print(("submitted %d, came %d, failed %d"):format(number, count, given_up))
]]
local worker_paths = { [0] = set:write("serve.lua", SERVE), set:write("stage.lua", STAGE) }
local submitter_path = set:write("submitter.lua", SUBMITTER)
local stop_path = set.dir .. "/stop"

local conn <close> = assert(nats.connect(cluster.url, { reconnect_wait = 50, encoding = "msgpack" }))
local input = assert(conn:stream("in", { replicas = REPLICAS, retention = size == 1 and "workqueue" or "limits" }))
-- A message that was done may come again if a worker was killed just before the server, and the state is lost later.
assert(conn:stream("out", { replicas = REPLICAS, duplicates = 60 * 60 * 1000 }))

-- ulimit: a job that takes memory without end gets an error of Lua, or ends its process.
local programs, over, fed = {}, false, false
local wrong = {}
local function kept(name, command)
  return rn.go(function()
    while not over do
      local program = set:start(command())
      programs[name] = program
      while not program:status() and not over do rn.sleep(50) end
      for line in program:output():gmatch "WRONG[^\n]*" do wrong[#wrong + 1] = line end
    end
  end)
end
local counts = { workers = 0, submitters = 0, servers = 0, networks = 0, disks = 0, states = 0 }
for i = 1, WORKERS do
  kept("worker" .. i, function()
    return { "sh", "-c", 'ulimit -v 600000; exec "$@"', "sh", LUA, worker_paths[i % 2], url_of(i // 3 + 1), REPLICAS }
  end)
end
local function submitter() return { LUA, submitter_path, url_of(3), REPLICAS, math.random(1 << 30), stop_path } end
kept("victim", submitter) -- is killed again and again
local last = set:start(submitter()) -- is not

-- The ends of the messages, by their numbers: each is a result, or a dead letter.
local kinds, ends, results, letters = {}, {}, 0, 0
local function ended(number, how)
  if ends[number] then
    wrong[#wrong + 1] = ("WRONG: message %d (%s) has ended twice: %s; %s")
      :format(number, kinds[number], ends[number], how)
  end
  ends[number] = ends[number] or how
end
local out = assert(conn:source "out")
local reading = rn.go(function()
  for m in out do
    results = results + 1
    ended(m.value, ("%s at %.0f"):format(m.headers and m.headers["Nats-Msg-Id"] or "?", m.time))
  end
end)
local function read_letters()
  local dead = conn:dead "out"
  for _, letter in ipairs(dead:list { after = letters, limit = 1000 } or {}) do
    local whole = dead:get(letter.sequence)
    if not whole then return end -- the server is away
    local number = whole.value[1]
    letters = letters + 1
    ended(number, ("given up at %.0f: %s"):format(letter.time, letter.error))
    if kinds[number] == "plain" then wrong[#wrong + 1] = "WRONG: a healthy message was given up: " .. letter.error end
  end
end

-- Messages for the stage: more when most of them have ended.
local AHEAD <const> = 400
local sink, put, poison = assert(conn:sink "in"), 0, 0
local feeder = rn.go(function()
  while not fed do
    local kind = math.random(200) == 1 and ({ "exit", "loop", "raise" })[math.random(3)] or "plain"
    kinds[put + 1] = kind
    while not sink:put({ put + 1, kind }, { id = tostring(put + 1) }) do rn.sleep(100) end
    put = put + 1
    if kind ~= "plain" then poison = poison + 1 end
    rn.sleep(10)
    while put - results - letters > AHEAD and not fed do
      read_letters()
      rn.sleep(500)
    end
  end
end)

-- Where three servers are, one may be down at a time.
local function kill_server()
  counts.servers = counts.servers + 1
  local server = servers[math.random(#servers)]
  server:kill()
  if size == 1 and math.random(3) == 1 then
    counts.states = counts.states + 1
    for _, consumer in ipairs { "in/obs/out", "runnel-jobs-soak/obs/workers" } do
      assert(io.open(("%s/server-store/jetstream/$G/streams/%s/o.dat"):format(set.dir, consumer), "w")):close()
    end
  end
  rn.sleep(math.random(200, 1500))
  server:start()
end

-- A network fails for some time: data is lost without an error, or held back; there is no connection; or it is slow.
local function fail_network()
  counts.networks = counts.networks + 1
  local proxy, how = proxies[math.random(#proxies)], math.random(5)
  if how == 1 then proxy:drop()
  elseif how == 2 then proxy:cut()
  elseif how == 3 then proxy:refuse()
  elseif how == 4 then proxy:stall()
  else proxy:slow() end
  rn.sleep(math.random(500, 8000))
  proxy:flow()
end

-- The disk is full for some time. (Not with three servers: if all of them are full, they have no leader any more, not
-- even to purge a stream: docs/machines.md.)
local filler = assert(conn:stream("filler", { replicas = REPLICAS }))
local function fill_disk()
  counts.disks = counts.disks + 1
  local to, full, until_then = assert(conn:sink("filler", { timeout = 2000 })), false, rn.now() + 8000
  local blocks = {}
  for i = 1, 8 do
    blocks[i] = rn.go(function()
      while not full and rn.now() < until_then do full = not to:put(("x"):rep(500000)) or full end
    end)
  end
  for _, block in ipairs(blocks) do block:take() end
  rn.sleep(math.random(500, 5000))
  while not filler:purge() do rn.sleep(100) end
  if not full then print "the disk was not full" end
end

local start = rn.now()
while rn.now() - start < seconds * 1000 do
  rn.sleep(math.random(500, 3000))
  local choice = math.random(14)
  if choice <= 5 then
    local program = programs["worker" .. math.random(WORKERS)]
    if program then program:signal "KILL" end
    counts.workers = counts.workers + 1
  elseif choice <= 7 then
    if programs.victim then programs.victim:signal "KILL" end
    counts.submitters = counts.submitters + 1
  elseif choice <= 9 then
    kill_server()
    if size > 1 then rn.sleep(15000) end -- it catches up before the next one is killed
  elseif choice <= 13 or size > 1 then
    fail_network()
  else
    fill_disk()
  end
end

-- No more work: everything that is there ends.
set:write("stop", "")
fed = true
feeder:take()
local finishing = rn.now()
assert(patience.wait_until(function() return last:status() end), "jobs do not end:\n" .. last:output())
for line in last:output():gmatch "WRONG[^\n]*" do wrong[#wrong + 1] = line end
print(last:output():match "submitted[^\n]*" or last:output())
print(("%.1f s after the end"):format((rn.now() - finishing) / 1000))
local submitted, came = last:output():match "submitted (%d+), came (%d+)"
assert(submitted == came, "jobs have no result")
programs.victim:signal "KILL"
local done = patience.wait_until(function()
  read_letters()
  for i = 1, put do
    if not ends[i] then return rn.sleep(500) end
  end
  return true
end)
local is_empty = size > 1 or patience.wait_until(function()
  local state = input:stats()
  return state and state.messages == 0
end)
if not is_empty then wrong[#wrong + 1] = "WRONG: the work queue still has messages" end
over = true
out:close()
reading:take()
local missing = 0
for i = 1, put do
  if not ends[i] then
    missing = missing + 1
    print(("missing: message %d (%s)"):format(i, kinds[i]))
  end
end
print(("%d messages, %d of them poison: %d results, %d dead letters, %d missing; %d dead letters of jobs")
  :format(put, poison, results, letters, missing, conn:dead("soak"):count()))
print(("kills of workers: %d, of submitters: %d, of servers: %d (%d with the state lost); networks that failed: %d; "
  .. "full disks: %d"):format(counts.workers, counts.submitters, counts.servers, counts.states, counts.networks,
  counts.disks))
print(("%.1f s after the end"):format((rn.now() - finishing) / 1000))
for _, line in ipairs(wrong) do print(line) end
if #wrong > 0 or missing > 0 or not done then
  print "soak_machines: FAILED"
  cluster:close()
  os.exit(1)
end
