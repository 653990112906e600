-- Go blocks and the collector: unreachable go blocks are collected, memory does not grow, finalizers may use channels,
-- every finalizer runs once, and the state can be closed while go blocks are parked. Run by tests/runner.c.
--
--   runner tests/gc.lua BLOCKS SEED

local t = t -- luacheck: globals t
local rn = require "runnel"

local blocks, seed = ...
blocks, seed = math.tointeger(blocks), math.tointeger(seed or 1)
math.randomseed(seed)
print(("seed %d"):format(seed))

local function collect()
  for _ = 1, 4 do collectgarbage() end
end

-- ---- abandoned go blocks ----

-- Each is the function of a go block that nothing can reach once it is parked.
local abandoned = {
  take = function() rn.chan():take() end,
  put = function() rn.chan():put { "a value" } end,
  full = function()
    local ch = rn.chan(1)
    ch:put(1)
    ch:put(2)
  end,
  alts = function() rn.alts { rn.chan(), { rn.chan(), 1 }, rn.chan(2) } end,
  many = function()
    local ops = {}
    for i = 1, 70 do ops[i] = rn.chan() end
    rn.alts(ops)
  end,
  callback = function()
    rn.chan():take_async(print)
    rn.chan():put_async(1, print)
    rn.chan():take()
  end,
  result = function() rn.go(function() rn.chan():take() end):take() end,
  done = function() rn.chan():done():take() end,
  cycle = function()
    local a, b = rn.chan(1), rn.chan(1)
    a:put(b)
    b:put(a)
    rn.go(function() a:put(b) end)
    b:put(a)
  end,
  itself = function()
    local ch = rn.chan(2)
    ch:put(ch)
    ch:put(coroutine.running())
    ch:name("itself"):put(1)
  end,
  transducer = function()
    local ch
    ch = rn.chan(1, function(rf)
      return function(acc, v)
        if v == nil then return acc end
        return rf(acc, { v, ch })
      end
    end)
    ch:put(1)
    ch:put(2)
  end,
  policy = function()
    local buffer = rn.priority_buffer(1)
    local ch = rn.chan(buffer)
    buffer.channel = ch
    ch:put(1)
    ch:put(2)
  end,
  slept = function()
    rn.sleep(0)
    rn.chan():take()
  end,
  closed = function()
    local ch = rn.chan()
    rn.go(function() ch:take() end)
    rn.yield()
    ch:close("over")
    rn.chan():take()
  end,
  pipeline = function()
    local from, to = rn.chan(), rn.chan()
    rn.pipeline_async(2, to, function(_, result) result:close() end, from)
    from:put(1)
    to:take()
  end,
  latest = function() rn.latest(rn.chan(), 1):tap(rn.chan()):take() end,
  shield = function() rn.shield(function() rn.chan():take() end) end,
  supervise = function() rn.supervise { { "parked", function() rn.chan():take() end } } end,
  keys = function()
    local from = rn.chan()
    local out = rn.pmap(2, function() rn.chan():take() end, from, { key = function() return 1 end })
    from:put(1)
    from:put(2)
    out:take()
  end,
}
-- A value waits for room, and the next one is in time.
for _, name in ipairs { "throttle", "sample", "debounce" } do
  abandoned[name] = function()
    local from = rn.chan()
    rn[name](from, 1)
    from:put(1)
    rn.sleep(2)
    from:put(2)
    rn.chan():take()
  end
end
local kinds = {}
for kind in pairs(abandoned) do kinds[#kinds + 1] = kind end
table.sort(kinds)

-- Starts n go blocks of a kind, and fails if memory grows; measures after collections, without the first tenth.
local function abandon(kind, n)
  local body = abandoned[kind]
  local first, most = nil, 0
  local step = math.max(n // 20, 1)
  for i = 1, n do
    rn.go(body)
    if i % 64 == 0 then rn.run() end
    if i % step == 0 then
      rn.run()
      collect()
      local bytes = t.bytes()
      if i > n // 10 then
        first = first or bytes
        most = math.max(most, bytes)
      end
    end
  end
  rn.run()
  collect()
  t.invariants()
  assert(#rn.ps() == 0, kind .. ": unreachable go blocks were not collected")
  assert(most <= first + 65536, ("%s: memory has grown: %d bytes, later %d"):format(kind, first, most))
end

-- Some kinds need many times as much memory as others, so fewer of them are started.
local weight = { many = 40, pipeline = 20, result = 2, callback = 3, transducer = 2, policy = 2, closed = 2, cycle = 2,
  latest = 5, shield = 5, supervise = 20, keys = 100, throttle = 10, sample = 10, debounce = 10 }
for _, kind in ipairs(kinds) do
  local start = os.clock()
  local n = blocks // #kinds // (weight[kind] or 1)
  abandon(kind, n)
  print(("abandoned in %-10s %8d  %6.1f s"):format(kind, n, os.clock() - start))
end

-- Many of them at once, each with a tracked value.
do
  local n = math.min(blocks // 20, 50000)
  for i = 1, n do
    rn.go(function()
      local value = t.tracked()
      abandoned[kinds[i % #kinds + 1]]()
      return value
    end)
  end
  rn.run()
  -- A collection demotes half of many parked go blocks, and a go block that waits for another is collected later.
  for _ = 1, 16 do collect() end
  assert(#rn.ps() == 0)
  t.invariants()
end

-- ---- bursts of abandoned go blocks ----

local function park_for_ever() rn.chan():take() end

-- Starts n go blocks that are abandoned, `batch` of them at once, beside other data; memory must not grow with n.
local function abandon_in_batches(n, batch, megabytes, mode)
  local data = {}
  for i = 1, megabytes * 1000000 // 72 do data[i] = { i } end -- so many bytes are a table with one value, and its place
  collectgarbage(mode)
  collect()
  -- What one batch takes, times what the collector leaves between two cycles; and as much as the other data, twice.
  local limit = (batch * 6 + 10000) * 1400 + 2 * megabytes * 1000000
  local before, most = t.bytes(), 0
  for _ = 1, n // batch do
    for _ = 1, batch do rn.go(park_for_ever) end
    rn.run()
    most = math.max(most, t.bytes() - before)
  end
  assert(most < limit, ("%d at once beside %d MB, %s: memory has grown by %d MB; the limit is %d"):format(
    batch, megabytes, mode, most // 1000000, limit // 1000000))
  collect()
  assert(#rn.ps() == 0, "unreachable go blocks were not collected")
  t.invariants()
  collectgarbage "incremental"
  return #data, most
end

for _, batch in ipairs { 100, 1000, 10000 } do
  for _, megabytes in ipairs { 0, 50 } do
    for _, mode in ipairs { "incremental", "generational" } do
      local start = os.clock()
      local _, most = abandon_in_batches(math.min(blocks // 2, 2000000), batch, megabytes, mode)
      print(("abandoned %5d at once beside %2d MB, %-12s %4d MB at most  %6.1f s"):format(batch, megabytes, mode,
        most // 1000000, os.clock() - start))
    end
  end
end

-- All at once: a few collections free them.
for _, mode in ipairs { "incremental", "generational" } do
  local start, n = os.clock(), math.min(blocks, 1000000)
  collectgarbage(mode)
  for _ = 1, n do rn.go(park_for_ever) end
  rn.run()
  local collections = 0
  repeat
    collectgarbage()
    collections = collections + 1
    assert(collections <= 6, "many collections have not freed a burst of unreachable go blocks")
  until #rn.ps() == 0
  t.invariants()
  print(("abandoned %d at once, %-12s freed by %d collections  %6.1f s"):format(n, mode, collections,
    os.clock() - start))
end
collectgarbage "incremental"

-- ---- collections without memory ----

-- Demoting a parked go block allocates, and without memory an allocation causes a full collection, which demotes again.
-- This must not go on for ever.
for _, mode in ipairs { "generational", "incremental" } do
  for bytes = 0, 20000, 1000 do
    collectgarbage(mode)
    collectgarbage()
    collectgarbage "stop"
    local chs = {}
    for i = 1, 900 do
      chs[i] = rn.chan()
      rn.go(chs[i].take, chs[i])
    end
    rn.run()
    collectgarbage "restart"
    t.limit(60)
    t.memory(bytes)
    collectgarbage()
    t.memory()
    t.limit(0)
    rn.step() -- finishes what a collection without memory could not do
    t.invariants()
    chs = nil -- luacheck: ignore 311
    collect()
    assert(#rn.ps() == 0, "unreachable go blocks were not collected")
  end
end
collectgarbage "incremental"

-- ---- finalizers that use channels ----

-- Values go through channels while the collector never rests, and finalizers put, take, close, start go blocks and
-- more. Each value that was put must be taken once.
local function with_finalizers(rounds)
  collectgarbage("incremental", 1, 1000)
  local put, got, next_value = {}, {}, 0
  local chs = {}
  local errors = 0
  local previous = rn.on_error(function(err)
    errors = errors + 1
    if errors > 10 then error("too many errors: " .. tostring(err)) end
    print("reported: " .. tostring(err))
  end)

  local function value()
    next_value = next_value + 1
    return next_value
  end

  local function took(v)
    if v == nil then return end
    got[v] = (got[v] or 0) + 1
  end

  local function any() return chs[math.random(#chs)] end

  -- What finalizers do; none of it may wait.
  local deeds = {
    function()
      local v = value()
      if any():offer(v) then put[v] = true end
    end,
    function() took((any():poll())) end,
    function()
      local v = value()
      put[v] = any():put_async(v) or nil
    end,
    function()
      local v = value()
      put[v] = any():put_async(v, function(ok) put[v] = ok or nil end, false) or nil
    end,
    function() any():take_async(took) end,
    function() any():take_async(took, false) end,
    function() rn.go(function() took((any():take())) end) end,
    function()
      rn.go(function()
        local v = value()
        if any():put(v) then put[v] = true end
      end)
    end,
    function()
      local v = value()
      local ok, port = rn.alts({ any(), { any(), v } }, { default = false })
      if port == "default" then return end
      if ok == true then put[v] = true elseif ok then took(ok) end
    end,
    function() rn.timeout(math.random(3) - 1) end,
    function() any():done() end,
    function() any():name("named") end,
    function() any():stats() end,
    function() rn.ps() end,
    function()
      -- Replaces a channel by a new one, and takes the values that the old one holds.
      local i = math.random(#chs)
      local old = chs[i]
      chs[i] = rn.chan(math.random(0, 3))
      old:close("replaced")
      for v in old.poll, old do took(v) end
    end,
  }

  for i = 1, 5 do chs[i] = rn.chan(i - 1) end
  for i = 1, rounds do
    t.tracked(deeds[math.random(#deeds)])
    rn.go(function()
      local v = value()
      t.tracked(deeds[math.random(#deeds)])
      if any():put(v) then put[v] = true end
      t.tracked(deeds[math.random(#deeds)])
      took((any():take()))
    end)
    if i % 3 == 0 then
      rn.go(function()
        local v = value()
        local value_or_ok, port = rn.alts { any(), { any(), v }, rn.timeout(1) }
        if value_or_ok == true then put[v] = true else took(value_or_ok) end
        if i % 6 == 0 then rn.sleep(0.1) end
        return port
      end)
    end
    if i % 5 == 0 then rn.run() end
    if i % 100 == 0 then t.invariants() end
  end
  collectgarbage("incremental", 200, 100)

  -- Lets everything that still waits complete.
  repeat
    rn.run()
    local before = next_value
    local progress = false
    for i = 1, #chs do
      for v in chs[i].poll, chs[i] do
        took(v)
        progress = true
      end
      if chs[i]:stats().takes_waiting > 0 then
        chs[i]:close()
        progress = true
      end
    end
  until not progress and before == next_value
  t.invariants()
  for v = 1, next_value do
    local n = got[v] or 0
    assert(n == (put[v] and 1 or 0), ("value %d: put %s, taken %d times"):format(v, tostring(put[v]), n))
  end
  assert(errors == 0, "an error has been reported")
  rn.on_error(previous)
  return next_value
end

do
  local start = os.clock()
  local values = with_finalizers(math.min(math.max(blocks // 20, 1000), 5000))
  print(("finalizers, %d values      %6.1f s"):format(values, os.clock() - start))
  collect()
  t.invariants()
end

-- ---- closing the state while go blocks are parked ----

-- Keeps objects alive until the state closes.
local parked = {}
_G.parked = parked
local function park(f)
  local ch = rn.chan()
  parked[#parked + 1] = ch
  parked[#parked + 1] = rn.go(function()
    local value <close> = setmetatable({}, { __close = function() error("closed as if it had ended") end })
    parked[#parked + 1] = t.tracked(function()
      -- Finalizers may use channels while the state closes, too.
      ch:offer(value)
      ch:close()
      rn.go(function() rn.chan():take() end)
      rn.timeout(10)
      local other = rn.chan(1)
      other:put_async(1, print, false)
      other:done()
    end)
    t.tracked()
    f(ch)
  end)
end
park(function(ch) ch:take() end)
park(function(ch) ch:put(1) end)
park(function(ch) rn.alts { ch, { rn.chan(), 1 }, rn.timeout(60000) } end)
park(function() rn.sleep(60000) end)
park(function() rn.timeout(60000):take() end)
park(function(ch)
  ch:take_async(print)
  rn.chan():take()
end)
park(function(ch)
  ch:put_async(1, print)
  rn.chan():take()
end)
park(function(ch) rn.go(function() ch:take() end):take() end)
for _ = 1, 40 do
  rn.step()
end
collect() -- demotes them: only their channels keep them alive
park(function(ch) ch:take() end)
for i = 1, 2000 do
  park(function() abandoned[kinds[i % #kinds + 1]]() end)
end
rn.step()
for _ = 1, 20 do park(function() rn.yield() end) end -- ready to run
t.invariants()
