-- The part `rolling` of `make bench-machines`: how long a remote stage has no result when the server that leads its
-- stream is stopped with SIGTERM, in a cluster of three servers with three replicas; and how long without the time in
-- which the stream or its consumer had no leader. Both are asked every 25 ms who leads them; if no answer comes for
-- more than 150 ms, there was none.

local rn = require "runnel"
local nats = require "runnel.nats"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"

local WORKERS <const>, AT_ONCE <const>, DOWN <const>, SETTLES <const>, SILENCE <const> = 4, 64, 2500, 1500, 150
local STREAM <const>, CONSUMER <const> = "runnel-jobs-rolling", "workers"

local WORKER = [[
local rn = require "runnel"
local conn = assert(require("runnel.nats").connect(arg[1]))
local function start()
  local ok, worker = pcall(conn.serve, conn, "rolling", 32, function(v) rn.sleep(10) return v end, { replicas = 3 })
  return ok and worker
end
local worker = start()
while not worker do rn.sleep(500) worker = start() end
print "ready"
io.stdout:flush()
worker:wait()
]]

-- Asks through a connection of its own to a server. `answers`: the times of answers, by what was asked.
local function observe(server, answers)
  local conn = assert(nats.connect(server.url, { reconnect_wait = 20 }))
  local inbox = conn:inbox()
  conn:subscribe(inbox .. ".*", {}, function(data, _, _, subject)
    local list = answers[subject:match "[^.]+$"]
    local is_led = data and data:find('"leader":', 1, true) and not data:find('"error":', 1, true)
    if is_led then list[#list + 1] = rn.now() end
  end)
  rn.go(function()
    while true do
      conn:publish("$JS.API.STREAM.INFO." .. STREAM, "", { reply = inbox .. ".stream" })
      conn:publish(("$JS.API.CONSUMER.INFO.%s.%s"):format(STREAM, CONSUMER), "", { reply = inbox .. ".consumer" })
      rn.sleep(25)
    end
  end)
end

-- How many ms from `from` to `to` something had no leader.
local function leaderless(answers, from, to)
  local gaps, sum, at = {}, 0, from
  for _, times in pairs(answers) do
    local last = times[1] or from
    for i = 2, #times do
      if times[i] - last > SILENCE then gaps[#gaps + 1] = { last, times[i] } end
      last = math.max(last, times[i])
    end
  end
  table.sort(gaps, function(a, b) return a[1] < b[1] end)
  for _, gap in ipairs(gaps) do
    local first, last = math.max(gap[1], at), math.min(gap[2], to)
    if last > first then sum, at = sum + last - first, last end
  end
  return sum
end

-- The number of the server that leads the stream; nil unless the others have caught up.
local function leader_of(conn)
  local message = conn:request("$JS.API.STREAM.INFO." .. STREAM, "", { timeout = 1000 })
  local data = message and message.data or ""
  local is_whole = select(2, data:gsub('"current":true', "")) == 2 and not data:find('"offline":true', 1, true)
  return is_whole and tonumber(data:match '"leader":"server(%d)"') or nil
end

---Runs it.
---@param stops integer
---@param show fun(format: string, ...)
local function rolling(stops, show)
  local cluster <close> = nats_server.cluster(3)
  local path = cluster.set:write("worker.lua", WORKER)
  for _ = 1, WORKERS do
    local worker = cluster.set:start { os.getenv "LUA" or "lua5.4", path, cluster.url }
    assert(worker:says("ready"), worker:output())
  end
  local conn <close> = assert(nats.connect(cluster.url))
  local number, times, answers, is_over = 0, {}, { stream = {}, consumer = {} }, false
  local out = rn.pmap(AT_ONCE, conn:remote("rolling", { replicas = 3 }), rn.to_chan(function()
    number = number + 1
    return not is_over and number or nil
  end))
  local taking = rn.go(function()
    for _ in out do times[#times + 1] = rn.now() end
  end)
  for _, server in ipairs(cluster.servers) do observe(server, answers) end
  local all, apart = {}, {}
  for i = 1, stops do
    rn.sleep(SETTLES)
    local leader = patience.wait_until(function() return leader_of(conn) end)
    local server = cluster.servers[assert(leader, "the cluster has not recovered")]
    for _, list in pairs(answers) do table.move({}, 1, #list, 1, list) end
    times = { rn.now() }
    server:stop()
    rn.sleep(DOWN)
    server:start()
    rn.sleep(SETTLES)
    times[#times + 1] = rn.now()
    local longest, last = 0, 1
    for k = 2, #times do
      if times[k] - times[k - 1] > longest then longest, last = times[k] - times[k - 1], k end
    end
    all[i], apart[i] = longest, longest - leaderless(answers, times[last] - longest, times[last])
  end
  is_over = true
  taking:take() -- every job has its result
  table.sort(all)
  table.sort(apart)
  local middle = (stops + 1) // 2
  show("rolling      %d stops of the leader: no result for %.0f ms (median), %.0f at most; apart from elections %.0f, "
    .. "%.0f (at most 1000)", stops, all[middle], all[stops], apart[middle], apart[stops])
end

return rolling
