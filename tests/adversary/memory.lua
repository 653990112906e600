-- Random programs under memory limits and with allocations that fail, in each of the collector's modes. Still no
-- collection may go on for ever; and once there is memory again, the scheduler must be consistent, everything that
-- waits must be able to go on, and nothing may be left behind.
-- Run by tests/runner.c; see tests/adversary_support.lua.

local t = t -- luacheck: globals t
local core = require "runnel.core"
local rn = require "runnel"
local support = require "tests.adversary_support"

local random = math.random
local CHANNELS = 6 -- how many a program has, besides those that nothing else can reach

local function one_of(list) return list[random(#list)] end

-- ---- programs ----

-- Each parks, on a channel of the program or on one that nothing else can reach.
local bodies = {
  take = function(ch) ch:take() end,
  put = function(ch) ch:put {} end,
  alts = function(ch, other) rn.alts { ch, { other, {} } } end,
  many = function(ch, other)
    local ops = { ch, other }
    for i = 3, 70 do ops[i] = rn.chan() end
    rn.alts(ops)
  end,
  timed = function(ch) rn.alts { ch, rn.timeout(2) } end,
  sleep = function() rn.sleep(1) end,
  result = function(ch) rn.go(ch.take, ch):take() end,
  done = function(ch) ch:done():take() end,
  timer = function(ch)
    local timer = rn.after(1, ch.take, ch)
    rn.after(1, ch.put, ch, {}):restart(2)
    rn.sleep(1)
    timer:stop()
  end,
  scope = function(ch)
    rn.scope(function(s)
      s:go(ch.take, ch)
      s:go(ch.put, ch, 1)
    end)
  end,
  pipeline = function(ch, other) rn.pipeline_async(2, other, function(_, result) result:close() end, ch, false) end,
  raise = function(ch)
    ch:take()
    error "raised"
  end,
}

-- Operations done outside go blocks, or by a finalizer; none of them waits.
local deeds = {
  take_async = function(ch) ch:take_async(function() end) end,
  take_later = function(ch) ch:take_async(function() end, false) end,
  put_async = function(ch) ch:put_async({}, function() end) end,
  offer = function(ch) ch:offer {} end,
  poll = function(ch) ch:poll() end,
  look = function(ch) return rn.ps(), ch:stats(), tostring(ch) end,
  cancel = function() rn.cancel(one_of { rn.go(rn.sleep, 1), rn.go(coroutine.yield) }) end,
}

local function names(list)
  local found = {}
  for name in pairs(list) do found[#found + 1] = name end
  table.sort(found)
  return found
end
local BODIES, DEEDS = names(bodies), names(deeds)
local MODES = { "incremental", "generational", "restless" }

local function step()
  local n = random(16)
  local channel, other = random(0, CHANNELS), random(0, CHANNELS) -- 0: one that nothing else can reach
  if n <= 4 then
    -- Without memory, or with a restless collector, each allocation may cause a full collection, so there are few.
    local body, times = one_of(BODIES), one_of { 1, 10, 30, 100 }
    if body == "many" then times = 1 elseif body == "pipeline" or body == "scope" then times = math.min(times, 10) end
    return { "go", body, channel = channel, other = other, times = times }
  end
  if n <= 6 then return { "deed", one_of(DEEDS), channel = channel, times = one_of { 1, 10, 50 } } end
  if n == 7 then return { "finalizer", one_of(DEEDS), channel = channel } end
  if n == 8 then return { "limit", bytes = one_of { 0, 100, 1000, 4000, 20000, 100000 } } end
  if n == 9 then return { "fail", odds = one_of { 1, 2, 5, 20, 100, 1000 }, seed = random(1000000) } end
  if n == 10 then return { "lift" } end
  if n <= 12 then return { "collect" } end
  if n == 13 then return { "forget", channel = random(CHANNELS) } end
  if n == 14 then return { "mode", one_of(MODES) } end
  return { "run", one_of { "run", "step", "yield" } }
end

local function generate()
  local program = { { "mode", one_of(MODES) } }
  for i = 2, random(4, 30) do program[i] = step() end
  return program
end

-- ---- playing them ----

local function set_mode(mode)
  if mode == "generational" then collectgarbage "generational"
  elseif mode == "restless" then collectgarbage("incremental", 1, 1000)
  else collectgarbage("incremental", 200, 100) end
end

local function lift()
  t.fail()
  t.memory()
end

local steps = {
  go = function(chs, s)
    for _ = 1, s.times do rn.go(bodies[s[2]], chs[s.channel] or rn.chan(), chs[s.other] or rn.chan(1)) end
  end,
  deed = function(chs, s)
    for _ = 1, s.times do deeds[s[2]](chs[s.channel] or rn.chan()) end
  end,
  finalizer = function(chs, s)
    local deed, ch = deeds[s[2]], chs[s.channel] or rn.chan()
    setmetatable({}, { __gc = function() deed(ch) end })
  end,
  limit = function(_, s) t.memory(s.bytes) end,
  fail = function(_, s) t.fail(s.odds, s.seed) end,
  lift = lift,
  collect = function() collectgarbage() end,
  forget = function(chs, s)
    chs[s.channel]:close()
    chs[s.channel] = rn.chan(s.channel % 3)
  end,
  mode = function(_, s) set_mode(s[2]) end,
  run = function(_, s) rn[s[2]]() end,
}

-- The errors of operations without memory, and of the programs themselves.
local EXPECTED = { "not enough memory", "stack overflow", "C stack overflow", "wait, which is the limit" }

local function check_expected(err)
  for _, text in ipairs(EXPECTED) do
    if tostring(err):find(text, 1, true) then return end
  end
  lift()
  error("an error that does not come from a lack of memory: " .. tostring(err), 0)
end

local function play(program)
  local previous = rn.on_error(function() end)
  local chs = {}
  for i = 1, CHANNELS do chs[i] = rn.chan(i % 3) end
  for _, s in ipairs(program) do
    local ok, err = pcall(steps[s[1]], chs, s)
    if not ok then check_expected(err) end
  end
  lift()
  rn.run()
  t.invariants()

  -- Everything that waits goes on, and everything unreachable is collected.
  for i = 1, CHANNELS do chs[i]:close() end
  for i = 1, CHANNELS do chs[i] = nil end
  rn.run()
  core.internal.report_unhandled() -- errors keep the channels from which they can be taken
  for _ = 1, 6 do
    collectgarbage()
    rn.run() -- runs the go blocks that finalizers have started
  end
  t.invariants()
  local left = rn.ps()
  if left[1] then
    error(("%d go blocks are left, such as one %s in state %s"):format(#left, left[1].name, left[1].state), 0)
  end
  assert(rn.run(function()
    local ch = rn.chan()
    rn.go(function() ch:put "a value" end)
    rn.sleep(0)
    return (rn.alts { ch, rn.chan() })
  end) == "a value")
  set_mode "incremental"
  rn.on_error(previous)
end

support.main({ name = "memory", generate = generate, play = play }, ...)
