-- Load on everything at once, for some time: pipelines, timers, many go blocks, abandoned channels, errors and
-- simulations. No value may be lost, the invariants must hold, and memory must not grow. Run by tests/runner.c.
--
--   runner tests/soak/soak.lua SECONDS SEED

local t = t -- luacheck: globals t
local core = require "runnel.core"
local rn = require "runnel"
local sim = require "runnel.sim"
local load = require "tests.soak.load"

local seconds, seed = ...
seconds, seed = tonumber(seconds), math.tointeger(seed) or os.time()
math.randomseed(seed)
print(("seed %d"):format(seed))

local reports, expected = 0, 0
rn.on_error(function(err)
  reports = reports + 1
  if err ~= "on purpose" then print("reported: " .. tostring(err)) end
end)

local work = {}

local function numbers(n)
  local i = 0
  return function()
    i = i + 1
    if i <= n then return i end
  end
end

local function sum_of(n) return n * (n + 1) // 2 end

-- Takes all values of a channel.
local function drain(ch)
  local sum, n = 0, 0
  for v in ch do
    sum = sum + v
    n = n + 1
  end
  return sum, n
end

local function job(v, result)
  rn.go(function()
    local how = math.random(4)
    if how == 1 then
      rn.sleep(math.random() / 2)
    elseif how == 2 then
      rn.timeout(0):take()
    elseif how == 3 then
      rn.yield()
    end
    result:put(v)
    result:close()
  end)
end

function work.ordered()
  local n = 200
  local to = rn.pipeline_async(math.random(8), rn.chan(math.random(0, 3)), job, rn.to_chan(numbers(n)))
  local last, count = 0, 0
  for v in to do
    assert(v == last + 1, "an ordered pipeline is out of order")
    last, count = v, count + 1
  end
  assert(count == n, "an ordered pipeline has lost values")
end

function work.unordered()
  local n = 200
  local sum, count = drain(rn.pipeline_async_unordered(math.random(8), rn.chan(), job, rn.to_chan(numbers(n))))
  assert(sum == sum_of(n) and count == n, "an unordered pipeline has lost values")
end

function work.failing()
  local to = rn.pipeline_async(3, rn.chan(), function(v, result)
    if v % 10 == 0 then error("on purpose", 0) end
    result:put(v)
    result:close()
  end, rn.to_chan(numbers(50)))
  local _, count = drain(to)
  expected = expected + 5
  assert(count == 45, "a job that raised has affected others")
end

-- A pipeline whose target closes half way leaves nothing behind.
function work.abandoned_pipeline()
  local to = rn.pipeline_async(4, rn.chan(), job, rn.to_chan(numbers(1000)))
  for _ = 1, 5 do assert(to:take()) end
  to:close()
end

function work.transducers()
  local function double(rf)
    return function(acc, v)
      if acc == nil then return rf() end
      if v == nil then return rf(acc) end
      return rf(rf(acc, v), v)
    end
  end
  local sum, count = drain(rn.pipeline(3, rn.chan(2), double, rn.to_chan(numbers(100))))
  assert(sum == 2 * sum_of(100) and count == 200, "a pipeline with a transducer has lost values")
end

function work.merge()
  local chs = {}
  for i = 1, math.random(10) do chs[i] = rn.to_chan(numbers(50)) end
  local sum = drain(rn.merge(chs, math.random(0, 4)))
  assert(sum == #chs * sum_of(50), "merge has lost values")
end

-- Many producers and consumers over few channels, by put, alts, offer, callbacks.
function work.crowd()
  local chs, sent, got, open = {}, 0, 0, 30
  for i = 1, 4 do chs[i] = rn.chan(i - 1) end
  local done = rn.chan()
  for _ = 1, 30 do
    rn.go(function()
      for v = 1, 20 do
        local how, ch = math.random(4), chs[math.random(4)]
        local ok
        if how == 1 then
          ok = ch:put(v)
        elseif how == 2 then
          local all = {}
          for i, c in ipairs(chs) do all[i] = { c, v } end
          ok = rn.alts(all)
        elseif how == 3 then
          ok = ch:offer(v) or ch:put(v)
        else
          ok = ch:put_async(v, nil, math.random(2) == 1)
        end
        assert(ok)
        sent = sent + v
      end
      open = open - 1
      if open == 0 then done:close() end
    end)
  end
  local ops = { done, table.unpack(chs) }
  local takers = {}
  for i = 1, 10 do
    takers[i] = rn.go(function()
      while true do
        local v, port = rn.alts(ops, { priority = i % 2 == 0 })
        if port == done then return end
        got = got + v
        if v == 7 then rn.sleep(math.random() / 4) end
      end
    end)
  end
  for i = 1, 10 do takers[i]:take() end
  for _, ch in ipairs(chs) do
    for v in ch.poll, ch do got = got + v end
  end
  assert(sent == got, "a crowd has lost values")
end

function work.timers()
  local n, fired = 300, 0
  local done = rn.chan()
  for _ = 1, n do
    local ms = math.random() * 3
    rn.go(function()
      local start = rn.now()
      if math.random(2) == 1 then rn.sleep(ms) else rn.timeout(ms):take() end
      assert(rn.now() - start >= ms - 0.001, "a timer has fired before its time")
      fired = fired + 1
      if fired == n then done:close() end
    end)
  end
  done:take()
end

function work.abandoning()
  for _ = 1, 300 do
    rn.go(function()
      local value <const> = { rn.chan() }
      rn.alts { rn.chan(1), value[1], { rn.chan(), value } }
    end)
    rn.chan():take_async(print)
  end
end

function work.errors()
  for i = 1, 20 do -- these errors are taken, so they are not reported
    local ch = rn.chan()
    local block = rn.go(function()
      ch:take()
      error("on purpose", 0)
    end)
    if i % 2 == 0 then rn.yield() end
    ch:close()
    local value, err = block:take()
    assert(value == nil and err == "on purpose")
  end
end

function work.promises()
  local p, n = rn.promise_chan(), 0
  for _ = 1, 50 do
    rn.go(function()
      assert(p:take() == "kept")
      n = n + 1
    end)
  end
  rn.yield()
  p:put("kept")
  while n < 50 do rn.yield() end
end

function work.tree()
  local function leaf_sum(depth, at)
    if depth == 0 then return at end
    local a, b = rn.go(leaf_sum, depth - 1, 2 * at), rn.go(leaf_sum, depth - 1, 2 * at + 1)
    return a:take() + b:take()
  end
  assert(leaf_sum(7, 0) == sum_of(127), "a tree of go blocks has a wrong sum")
end

function work.collecting()
  local list = rn.into({}, rn.pipe(rn.to_chan(numbers(100)), rn.chan(rn.sliding_buffer(1000)))):take()
  assert(#list == 100)
  assert(rn.reduce(function(acc, v) return acc + v end, 0, rn.to_chan(numbers(100))):take() == sum_of(100))
end

if rn.mult and rn.tap then
  function work.mult()
    local from = rn.chan()
    local m = rn.mult(from)
    local taps = {}
    for i = 1, 3 do taps[i] = rn.tap(m, rn.chan(i - 1)) end
    local sums = {}
    for i = 1, 3 do sums[i] = rn.go(drain, taps[i]) end
    rn.onto_chan(from, numbers(100))
    for i = 1, 3 do assert(sums[i]:take() == sum_of(100), "a mult has lost values") end
  end
end

if rn.pub and rn.sub then
  function work.pub()
    local from = rn.chan()
    local p = rn.pub(from, function(v) return v % 3 end)
    local sums = {}
    for topic = 0, 2 do
      local ch = rn.chan(1)
      rn.sub(p, topic, ch)
      sums[topic] = rn.go(drain, ch)
    end
    rn.onto_chan(from, numbers(99))
    local sum = 0
    for topic = 0, 2 do sum = sum + sums[topic]:take() end
    assert(sum == sum_of(99), "a pub has lost values")
  end
end

if rn.mix and rn.admix then
  function work.mix()
    local out = rn.chan()
    local m = rn.mix(out)
    for _ = 1, 3 do rn.admix(m, rn.to_chan(numbers(50))) end
    local sum = 0
    for _ = 1, 150 do sum = sum + out:take() end
    out:close()
    assert(sum == 3 * sum_of(50), "a mix has lost values")
  end
end

-- ---- the load ----

local function measure()
  rn.run()
  core.internal.report_unhandled() -- errors are kept until somebody takes them, for 5 s
  for _ = 1, 4 do collectgarbage() end
  t.invariants()
  local left = #rn.ps()
  assert(left == 0, ("%d go blocks are left"):format(left))
  return t.bytes()
end

local round, rounds = load.round(work, 24), 0
local first, most = load.go_on(seconds, function()
  for _ = 1, 10 do
    rn.run(round)
    rounds = rounds + 1
  end
  sim.run(function() for _ = 1, 2 do round() end end, { seed = rounds, shuffle = true })
end, measure, 524288, 16384) -- the tables of slots, and the list of what go blocks wait on, may double once more
assert(reports == expected, ("%d errors were reported, %d were raised"):format(reports, expected))
print(("%d rounds, %d bytes after a fifth of the time, at most %d"):format(rounds, first, most))
