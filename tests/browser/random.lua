-- For tests/browser/truth.mjs: a random program with a monitor, which writes what is true of it at each picture,
-- as a line of JSON, to a file. Arguments: the seed, the file, ms between two pictures, and what the limits of time of
-- the page are multiplied by.
local seed, path, pace = math.tointeger(tonumber(arg[1])), arg[2], tonumber(arg[4])
local period = math.tointeger(tonumber(arg[3]))

local rn = require "runnel"
local core = require "runnel.core"
local json = require "runnel.json"
local flow = require "runnel.flow"
local monitor = require "runnel.monitor"
local server_module = require "runnel.monitor.core"

math.randomseed(seed)
local function random(...) return math.random(...) end
local function ms(least, most) return random(least, most) end
local LONG <const> = 5000 * pace

-- ---- what is true ----

local out = assert(io.open(path, "w"))
out:setvbuf "line"
local topology, circles, flows = {}, {}, {}

local function uses(name, takes, puts) topology[#topology + 1] = { name = name, takes = takes, puts = puts } end

local function label(ch) return ch:stats().name or "#" .. ch:stats().id end

-- The channels with a name, which rn.metrics adds up where names differ in digits only.
local function channels_of(metrics)
  local channels, waiting = {}, 0
  for _, ch in ipairs(core.internal.trace.chans()) do
    local s = ch:stats()
    waiting = waiting + s.puts_waiting
    if s.name then
      assert(not channels[s.name], "two channels of a name")
      channels[s.name] = { puts = s.put_total, takes = s.take_total, capacity = s.capacity,
        puts_waiting = s.puts_waiting, takes_waiting = s.takes_waiting }
    end
  end
  for _, row in pairs(metrics.channels) do waiting = waiting - row.puts_waiting end
  assert(waiting == 0, "rn.metrics counts other puts than ch:stats()")
  return channels
end

local function states_of(list)
  local states = {}
  for _, one in ipairs(list) do
    for _, row in ipairs(one.f:stats()) do states[one.name .. "." .. row.stage] = row.state end
  end
  return states
end

local begun, is_partial = nil, false -- a picture that is taken in parts shows more than one moment

local function truth()
  local gos = {}
  for _, entry in ipairs(rn.ps()) do
    gos[#gos + 1] = { id = entry.id, name = entry.name, state = entry.state, op = entry.operation,
      waited = entry.waited, chan = entry.channel and label(entry.channel),
      holder = entry.holder and (entry.holder.name or "#" .. entry.holder.id) }
  end
  local leaks = 0
  for _, leak in ipairs(rn.leaks()) do leaks = leaks + leak.count end
  local m = rn.metrics()
  local state = { before = begun, is_partial = is_partial, after = rn.now(), gos = gos, leaks = leaks,
    channels = channels_of(m), turn = m.longest_turn, stages = states_of(flows),
    waited = m.waited, topology = topology, circles = circles }
  out:write(assert(json.encode(state)), "\n")
end

local start, ask = server_module.start, server_module.ask
local filling, publish = server_module.filling, server_module.publish
function server_module.start(watch, port, control, program) return start(watch, port, control, program, period) end
function server_module.filling(server)
  local snapshot = filling(server)
  if snapshot and not is_partial then begun = rn.now() end
  return snapshot
end
function server_module.ask(server)
  is_partial = true
  return ask(server)
end
function server_module.publish(server)
  local ok, err = xpcall(truth, debug.traceback)
  if not ok then -- the monitor would go on without a picture
    io.stderr:write(err, "\n")
    os.exit(1)
  end
  is_partial = false
  return publish(server)
end

rn.metrics()
local m = assert(monitor.listen(0))
io.stderr:write("monitor: ", m.url, "\n")

-- ---- parts of programs, each with a name of its own ----

local function go(name, f, takes, puts)
  uses(name, takes or {}, puts or {})
  return rn.go(function()
    rn.rename(name)
    f()
  end)
end

local function chan(name, size) return rn.chan(size):name(name) end

local parts = {}

function parts.pipeline(name)
  local n = random(2, 4)
  local chans = {}
  for i = 1, n do chans[i] = chan(("%s pipe%s"):format(name, string.char(96 + i)), ({ 0, 1, 4, 8 })[random(4)]) end
  go(name .. " source", function()
    for i = 1, math.huge do
      chans[1]:put(i)
      if random(3) > 1 then rn.sleep(ms(1, 8)) end
    end
  end, {}, { label(chans[1]) })
  for i = 1, n - 1 do
    local stage = ("%s stage%s"):format(name, string.char(96 + i))
    local least, most = ms(0, 5), ms(5, 25)
    for _ = 1, random(3) do
      go(stage, function()
        for v in chans[i] do
          rn.sleep(ms(least, most))
          chans[i + 1]:put(v)
        end
      end, { label(chans[i]) }, { label(chans[i + 1]) })
    end
  end
  local rest = ms(0, 30)
  go(name .. " sink", function()
    for _ in chans[n] do if rest > 0 then rn.sleep(rest) end end
  end, { label(chans[n]) })
end

function parts.workers(name)
  local jobs, done = chan(name .. " jobs", random(0, 4)), chan(name .. " done", 1)
  for i = 1, random(2, 6) do
    go(("%s worker %d"):format(name, i), function()
      for job in jobs do
        rn.sleep(ms(5, 40))
        done:put(job)
      end
    end, { label(jobs) }, { label(done) })
  end
  go(name .. " boss", function() for i = 1, math.huge do jobs:put(i) rn.sleep(ms(1, 10)) end end, {}, { label(jobs) })
  go(name .. " clerk", function() for _ in done do end end, { label(done) })
end

function parts.hog(name)
  local rest = ms(100, 600)
  go(name .. " hog", function()
    while true do
      rn.sleep(rest)
      local t, length = rn.now(), ({ 10, 50, 90, 140, 260 })[random(5)]
      repeat until rn.now() - t > length
    end
  end)
end

function parts.leak(name)
  local n = random(1, 20)
  go(name .. " asker", function()
    for _ = 1, n do
      local answer = rn.chan()
      rn.go(function()
        rn.rename(name .. " late")
        rn.sleep(5)
        answer:put(1)
      end)
      rn.alts { answer, rn.timeout(1) }
      answer = nil -- luacheck: ignore 331
      rn.sleep(ms(1, LONG // 2))
      collectgarbage()
    end
  end)
end

function parts.circle(name)
  local a, b = chan(name .. " to", random(0, 1)), chan(name .. " back", random(0, 1))
  local n = random(1, 60)
  circles[#circles + 1] = { name .. " left", name .. " right" }
  go(name .. " left", function()
    for i = 1, math.huge do
      if i ~= n then a:put(i) end
      b:take()
      rn.sleep(ms(1, 20))
    end
  end, { label(b) }, { label(a) })
  go(name .. " right", function()
    while true do
      a:take()
      b:put(1)
    end
  end, { label(a) }, { label(b) })
end

function parts.gone(name)
  local ch = chan(name .. " gone", random(0, 3))
  local n, puts_first = random(0, 20), random(2) == 1
  go(name .. " few", function()
    for i = 1, n do
      rn.sleep(ms(1, 20))
      if puts_first then ch:put(i) else ch:take() end
    end
  end, puts_first and {} or { label(ch) }, puts_first and { label(ch) } or {})
  for _ = 1, random(3) do
    go(name .. " many", function()
      while true do if puts_first then ch:take() else ch:put(1) end end
    end, puts_first and { label(ch) } or {}, puts_first and {} or { label(ch) })
  end
end

function parts.lock(name)
  local n = random(2)
  local lock = chan(name .. " lock", n)
  local acquire, release = lock.put, lock.take
  if random(2) == 1 then
    acquire, release = release, acquire
    for _ = 1, n do lock:put(true) end
    uses("main", {}, { label(lock) })
  end
  local ends, longest = random(3) == 1 and random(5), random(2) * LONG
  for i = 1, random(2, 4) do
    go(("%s owner %s"):format(name, string.char(96 + i)), function()
      for round = 1, math.huge do
        acquire(lock, true)
        rn.sleep(ms(1, longest))
        if round == ends then return end
        release(lock, true)
        rn.sleep(ms(1, 50))
      end
    end, { label(lock) }, { label(lock) })
  end
end

function parts.flows(name)
  for i = 1, random(2, 4) do
    local breaks, rest = random(3) == 1 and random(5, 60), ms(1, 30)
    local f = flow(name .. i, {
      src = { source = function(put) for n = 1, math.huge do put(n) rn.sleep(10) end end },
      dbl = { function(v) rn.sleep(rest) if v == breaks then error "broken" end return v * 2 end, n = 2 },
      out = function() end,
      "src > dbl > out",
    })
    f:start()
    flows[#flows + 1] = { name = name .. i, f = f }
  end
end


function parts.idle(name)
  local ch = chan(name .. " never", 0)
  go(name .. " waits", function() ch:take() end, { label(ch) })
  go(name .. " chooses", function() rn.alts { ch, rn.timeout(1e8) } end, { label(ch) })
end

-- Many go blocks, which share rows: but fewer than the 500 channels after which rn.metrics lets other go blocks run.
local function crowd(name)
  local after, kept, names = ms(1, LONG), {}, {}
  for i = 1, 350 do names[i] = ("%s one %d"):format(name, i) end
  uses(name .. " crowd", names, {})
  uses(name .. " waiter", {}, names)
  go(name .. " crowd", function()
    rn.sleep(after)
    for i = 1, 350 do
      kept[i] = rn.chan():name(names[i])
      rn.go(function()
        rn.rename(name .. " waiter")
        while true do kept[i]:put(1) end
      end)
    end
    while true do
      for i = 1, #kept do
        kept[i]:take()
        if i % 20 == 0 then rn.sleep(1) end
      end
    end
  end)
end

-- Lua computes all the time, in short pieces.
local function busy(name)
  go(name .. " busy", function()
    while true do
      local t = rn.now()
      repeat until rn.now() - t > 3
      rn.yield()
    end
  end)
end

local kinds = {}
for kind in pairs(parts) do kinds[#kinds + 1] = kind end
table.sort(kinds)
for i = 1, random(2, 4) do
  parts[kinds[(seed + i * random(#kinds)) % #kinds + 1]](("p" .. string.char(96 + i)))
end

if seed % 10 == 3 then crowd "pz" end
if seed % 10 == 6 then busy "pz" end

rn.sleep(300000) -- nobody may be there to end it
rn.exit(0)
