-- The library's own go blocks (pipes, pipelines, mults and so on) under attack. Each step of a program performs one
-- operation of the library on N values, and attacks it at one moment:
--
--   how = "cancel"  one of its go blocks is cancelled, once the others have run `at` times
--   how = "yield"   the user's function calls coroutine.yield at its `at`-th call
--   how = "raise"   it raises an error
--   how = "itself"  it cancels the go block in which it runs
--   how = "close"   it parks, and another go block closes the coroutine in which it runs
--   how = "none"    nothing happens
--
-- Then every channel that the operation feeds must close, and no value may arrive twice or in the wrong order. Either
-- all values arrive, or the error reaches a taker, the ex_handler or on_error.
--
-- A program also runs loops of the library that move many values, and checks that they let other go blocks run. See
-- tests/adversary_support.lua for the arguments.

local rn = require "runnel"
local core = require "runnel.core"
local operations = require "tests.adversary_operations"
local sim = require "runnel.sim"
local support = require "tests.adversary_support"

local ops, N = operations.by_name, operations.N

local HOWS = { "cancel", "cancel", "cancel", "yield", "raise", "itself", "close", "none" }

local NAMES = {}
for name in pairs(ops) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

-- ---- one step ----

local REASON = "harmed"

-- The library's go blocks, in the order in which they were started.
local function library_blocks()
  local list = {}
  for _, entry in ipairs(rn.ps()) do
    if not entry.name:find "^%.?/?test" and entry.state ~= "running" then list[#list + 1] = entry end
  end
  return list
end

local function harm_itself()
  for _, entry in ipairs(rn.ps()) do
    if entry.state == "running" then rn.cancel(entry.result, REASON) end
  end
  rn.yield()
end

local function park_and_be_closed()
  local co = coroutine.running()
  rn.go(function()
    rn.rename "test closer"
    coroutine.close(co)
  end)
  rn.sleep(1000)
end

local function user_function(step)
  local calls = 0
  return function(v)
    calls = calls + 1
    if calls == step.at + 1 then
      if step.how == "yield" then coroutine.yield()
      elseif step.how == "raise" then error(REASON, 0)
      elseif step.how == "itself" then harm_itself()
      elseif step.how == "close" then park_and_be_closed() end
    end
    return v
  end
end

local function cancel_one(step)
  rn.rename "test killer"
  for _ = 1, step.at do rn.yield() end
  local blocks = library_blocks()
  local victim = blocks[step.which % math.max(#blocks, 1) + 1]
  if victim then rn.cancel(victim.result, REASON) end
end

-- A value may arrive as often as there are sources that send it.
local function check_values(step, entry)
  local times, last = {}, {}
  for _, v in ipairs(entry.values) do
    local line = entry.in_order and "all" or entry.key and entry.key(v)
    if line then
      assert(v > (last[line] or 0), step.op .. ": a value is out of order, or has arrived twice")
      last[line] = v
    end
    times[v] = (times[v] or 0) + 1
    assert(times[v] <= math.ceil(entry.n / N), step.op .. ": a value has arrived twice")
  end
end

-- Performs and attacks one operation. Go blocks of the test put and take, and wait for a limited virtual time.
local function play_step(step)
  local told = 0
  local previous = rn.on_error(function() told = told + 1 end)
  math.randomseed(step.seed)
  local sources = {}
  local function source()
    local ch = rn.chan(math.random(0, 2))
    sources[#sources + 1] = ch
    rn.go(function()
      rn.rename "test source"
      for i = 1, N do
        if not ch:put(i) then return end
      end
      ch:close()
    end)
    return ch
  end
  local outs = ops[step.op](source, user_function(step), function() told = told + 1 end)
  if step.how == "cancel" then rn.go(cancel_one, step) end
  local takers = {}
  for i, entry in ipairs(outs) do
    local values = {}
    takers[i] = rn.go(function()
      rn.rename "test taker"
      while not entry.stays_open or #values < entry.n do
        local v, err = entry.ch:take()
        if v == nil then
          if err ~= nil then told = told + 1 end
          break
        end
        values[#values + 1] = v
      end
      entry.values = values
    end)
  end
  local limit = rn.timeout(100000)
  for i, entry in ipairs(outs) do
    local _, port = rn.alts({ takers[i], limit }, { priority = true })
    assert(port ~= limit, ("%s: a taker of its output waits for ever"):format(step.op))
    if type(entry.values[1]) == "number" then check_values(step, entry) end
    local values = entry.values
    local complete = #values == entry.n or entry.is_newest and values[#values] == entry.n
    core.internal.report_unhandled()
    assert(complete or told > 0, ("%s: %d of %d values have arrived, without an error"):format(step.op,
      #entry.values, entry.n))
    if step.how == "none" then assert(complete and told == 0, step.op .. ": not all values have arrived") end
    entry.ch:close()
  end
  for _, ch in ipairs(sources) do
    ch:close()
    for _ in ch.poll, ch do end
  end
  rn.sleep(5000)
  -- A go block that feeds a dead one still waits until the collector finds that nothing else can take from it.
  if #rn.ps() > 1 then for _ = 1, 4 do collectgarbage() end end
  for _, entry in ipairs(rn.ps()) do
    assert(entry.state == "running", ("%s: %s is left: %s %s"):format(step.op, entry.name, entry.state,
      tostring(entry.where)))
  end
  for _, entry in ipairs(outs) do
    if entry.check then entry.check() end
  end
  rn.on_error(previous)
end

-- ---- many values ----

local VALUES = 5000

local function filled(n)
  local ch = rn.chan(n)
  for i = 1, n do ch:put(i) end
  ch:close()
  return ch
end

local function delivered()
  local ch = rn.promise_chan()
  ch:put "again"
  return ch
end

local function same(v) return v end

local function quick_job(v, result)
  result:put(v)
  result:close()
end

local function sliding() return rn.chan(rn.sliding_buffer(1)) end

-- Loops that end: each moves `n` values from a full buffer into one with room for all. They return a channel that
-- closes when they have ended.
local loops = {}

function loops.pipe(from, n) return rn.pipe(from, rn.chan(n)):done() end
function loops.merge(from, n) return rn.merge({ from }, n):done() end
function loops.mult(from, n)
  local m = rn.mult(from)
  m:tap(rn.chan(n))
  return m:tap(rn.chan(n)):done()
end
function loops.pub(from, n) return rn.pub(from, same, function() return n end):sub(1, rn.chan(n)):done() end
function loops.mix(from, n)
  local out = rn.chan(n)
  rn.mix(out):admix(from)
  local over = rn.chan()
  rn.go(function()
    rn.rename "test"
    while #out < n do rn.yield() end
    out:close()
    over:close()
  end)
  return over
end
function loops.split(from, n) return rn.split(function(v) return v % 2 == 0 end, from, n, n):done() end
function loops.map(from, n) return rn.map(same, { from }, n):done() end
function loops.take(from, n) return rn.take(n, from, n):done() end
function loops.into(from) return rn.into({}, from):done() end
function loops.reduce(from) return rn.reduce(function(_, v) return v end, 0, from):done() end
function loops.transduce(from)
  return rn.transduce(rn.xf.map(same), function(acc, v) return v or acc end, 0, from):done()
end
function loops.pipeline_async(from, n) return rn.pipeline_async(3, rn.chan(n), quick_job, from):done() end
function loops.pipeline_unordered(from, n)
  return rn.pipeline_async_unordered(3, rn.chan(n), quick_job, from):done()
end

-- Loops that do not end by themselves: the caller closes the channel that they return, and may cancel what is left.
local endless = {}

function endless.pipe(from) return rn.pipe(from, sliding()) end
function endless.pipe_to_itself()
  local ch = rn.chan(1)
  ch:put(1)
  return rn.pipe(ch, ch)
end
function endless.pipes_in_a_circle()
  local a, b = rn.chan(2), rn.chan(2)
  a:put(1)
  rn.pipe(a, b)
  return rn.pipe(b, a)
end
function endless.merge(from) return rn.merge({ from, from }, rn.sliding_buffer(1)) end
function endless.mult(from) return rn.mult(from):tap(sliding()) end
function endless.pub(from)
  return rn.pub(from, same, function() return rn.sliding_buffer(1) end):sub("again", sliding())
end
function endless.mix(from)
  local out = sliding()
  rn.mix(out):admix(from)
  return out
end
function endless.split(from)
  return (rn.split(function() return true end, from, rn.sliding_buffer(1), rn.sliding_buffer(1)))
end
function endless.map(from) return rn.map(same, { from, from }, rn.sliding_buffer(1)) end
function endless.take(from) return rn.take(math.maxinteger, from, rn.sliding_buffer(1)) end
function endless.reduce(from) return rn.reduce(function(_, v) return v end, 0, from) end
function endless.onto_chan()
  local ch = sliding()
  rn.onto_chan(ch, function() return 1 end)
  return ch
end
function endless.pipeline_async(from) return rn.pipeline_async(3, sliding(), quick_job, from) end
function endless.pipeline_unordered(from) return rn.pipeline_async_unordered(3, sliding(), quick_job, from) end

-- How many values may move between two turns of another go block: each go block moves at most 128, and some loops have
-- several go blocks.
local MOST = 550

-- Runs in turn with the library's go blocks, and counts how many values leave the source between two turns.
local function check_loop(name, loop)
  local from, most, last = filled(VALUES), 0, 0
  local over = loop(from, VALUES)
  while not over:closed() do
    rn.yield()
    local taken = from:stats().take_total
    most, last = math.max(most, taken - last), taken
  end
  rn.yield()
  assert(from:stats().take_total == VALUES, name .. ": not all values were taken")
  assert(most <= MOST, ("%s: %d values were moved while others waited"):format(name, most))
end

-- Checks only that the loop lets this function go on, and that it can be ended.
local function check_endless(_, loop)
  local to = loop(delivered())
  for _ = 1, 20 do rn.yield() end
  to:close()
  for _ = 1, 20 do rn.yield() end
  for _, entry in ipairs(library_blocks()) do
    if entry.name ~= "test" then rn.cancel(entry.result, REASON) end
  end
  for _ = 1, 20 do rn.yield() end
  for _, entry in ipairs(rn.ps()) do
    assert(entry.state == "running", ("%s is left: %s"):format(entry.name, entry.state))
  end
end

local LOOPS = {}
for name in pairs(loops) do LOOPS[#LOOPS + 1] = { name, check_loop, loops[name] } end
for name in pairs(endless) do LOOPS[#LOOPS + 1] = { "endless " .. name, check_endless, endless[name] } end
table.sort(LOOPS, function(a, b) return a[1] < b[1] end)

local function play_loop(which)
  rn.rename "test"
  local name, check, loop = table.unpack(LOOPS[which])
  check(name, loop)
end

-- ---- programs ----

support.main({
  name = "library",
  generate = function()
    local program = {}
    for i = 1, 20 do
      program[i] = {
        op = NAMES[math.random(#NAMES)], how = HOWS[math.random(#HOWS)], at = math.random(0, 25),
        which = math.random(0, 9), seed = math.random(1 << 30), shuffle = math.random(2) == 1,
      }
      if program[i].how ~= "cancel" then program[i].at = program[i].at % (N + 1) end
    end
    program.loops = {}
    for i = 1, 3 do program.loops[i] = { loop = math.random(#LOOPS) } end
    return program
  end,
  play = function(program)
    for _, step in ipairs(program) do
      sim.run(function()
        rn.rename "test"
        play_step(step)
      end, { seed = step.seed, shuffle = step.shuffle })
    end
    for _, step in ipairs(program.loops) do
      sim.run(function() play_loop(step.loop) end)
    end
  end,
}, ...)
