-- The workloads in runnel.
--
--     lua5.4 bench/peers/runnel/main.lua [--quick] NAME...        after `make all` and eval "$(make -s env)"

package.path = arg[0]:gsub("[^/]*$", "") .. "../?.lua;" .. package.path
local measure = require "measure"
local json = require "runnel.json"
local rn = require "runnel"
local sim = require "runnel.sim"

local chan, go = rn.chan, rn.go
local workers_of = require "runnel.workers.workers"
local shared = require "workloads"(go, chan)
local threads = dofile(arg[0]:gsub("[^/]*$", "") .. "threads.lua")

-- n messages over `width` channels, taken by alts. One go block puts on all of them in turn, or each channel has a
-- putter of its own.
local function alts_over(width, own_putters)
  return function(n)
    local ops, alts = {}, rn.alts
    for i = 1, width do ops[i] = chan() end
    local function put(first, step)
      for i = first, n, step do ops[(i - 1) % width + 1]:put(i) end
    end
    if own_putters then
      for i = 1, width do go(put, i, width) end
    else
      go(put, 1, 1)
    end
    for _ = 1, n do alts(ops) end
  end
end

local function spawn(n)
  local function f() return true end
  for _ = 1, n do go(f):take() end
end

-- A job of pipeline_async.
local function add_one(value, result)
  go(function()
    result:put(value + 1)
    result:close()
  end)
end

-- With the library's own operations, as in core.async.
local function with_library(pipeline)
  return function(n)
    local from, to = chan(), chan()
    go(function()
      for i = 1, n do from:put(i) end
      from:close()
    end)
    pipeline(8, to, add_one, from)
    local sum = 0
    for value in to do sum = sum + value end
    assert(sum == n * (n + 3) // 2)
  end
end

-- The results of 1 to n through `map(from)`: the numbers from 2.
local function mapped(n, map)
  local from = chan()
  go(function()
    for i = 1, n do from:put(i) end
    from:close()
  end)
  local sum = 0
  for value in map(from) do sum = sum + value end
  assert(sum == n * (n + 3) // 2)
end

local function increment(value) return value + 1 end

local function pmap(n)
  mapped(n, function(from) return rn.pmap(8, increment, from) end)
end

local function pmap_unordered(n)
  mapped(n, function(from) return rn.pmap_unordered(8, increment, from) end)
end

-- What rn.pipeline_async does, written out without handling errors, closes, jobs that park, and deadlocks.
local function jobs_by_hand(_, to, af, from)
  local jobs = chan(8 - 1)
  go(function()
    for value in from do
      local result = chan(1)
      jobs:put(result)
      af(value, result)
    end
    jobs:close()
  end)
  go(function()
    for result in jobs do
      for value in result do to:put(value) end
    end
    to:close()
  end)
end

-- What rn.pmap_unordered does, written out without handling errors and closes. (For rn.pmap that is `pipeline`.)
local function workers(n)
  mapped(n, function(from)
    local to, left = chan(), 8
    for _ = 1, 8 do
      go(function()
        for value in from do
          local result = increment(value)
          if result ~= nil then to:put(result) end
        end
        left = left - 1
        if left == 0 then to:close() end
      end)
    end
    return to
  end)
end

-- Chains of stages, each of which adds 1 to n numbers; `make(to, from)` starts a stage, which closes `to`.
local function chain(stages, buffer, make)
  return function(n)
    local from = chan(buffer)
    local ch, sum = from, 0
    go(function()
      for i = 1, n do from:put(i) end
      from:close()
    end)
    for _ = 1, stages do
      local to = chan(buffer)
      ch = make(to, ch) or to
    end
    for value in ch do sum = sum + value end
    assert(sum == n * (n + 1) // 2 + n * stages)
  end
end

local function function_by_hand(to, from)
  go(function()
    for value in from do
      local result = increment(value)
      if result ~= nil then to:put(result) end
    end
    to:close()
  end)
end

local function step(value, put) put(value + 1) end

local function step_by_hand(to, from)
  go(function()
    local function put(value) to:put(value) end
    for value in from do step(value, put) end
    to:close()
  end)
end

-- A stage on the engine of workers, as those of a flow.
local function stage(options)
  return function(to, from)
    local spec = { what = "stage", timed = "a job", n = 1, from = from, to = to }
    for key, value in pairs(options) do spec[key] = value end
    function spec.main(worker, run) run(worker) end
    function spec.emit() error "every value goes to the next stage" end
    function spec.failed(_, failure) error(failure.err) end
    function spec.ended() to:close() end
    local pool = workers_of.new(spec)
    pool:start()
    if options.pauses then
      go(function()
        pool:pause()
        rn.yield()
        pool:resume()
      end)
    end
  end
end

local function mapped_by(map, n)
  return function(to, from)
    local stats = to:stats()
    return map(n, increment, from, { buffer = stats.capacity > 0 and stats.capacity or nil })
  end
end

local STAGES = 8
local kinds = {
  hand = function_by_hand, hand_step = step_by_hand,
  stage = stage { job = increment }, stage_step = stage { job = step, is_step = true },
  stage_paused = stage { job = increment, pauses = true },
  stage_step_paused = stage { job = step, is_step = true, pauses = true },
  stage_pmap = mapped_by(rn.pmap, 4), stage_pmap_unordered = mapped_by(rn.pmap_unordered, 4),
}

local function mult(n)
  local from, done = chan(), {}
  local m = rn.mult(from)
  for i = 1, 4 do
    local ch = m:tap(chan())
    done[i] = go(function()
      for _ = 1, n do ch:take() end
    end)
  end
  for i = 1, n do from:put(i) end
  for i = 1, 4 do done[i]:take() end
end

-- n messages over `width` channels, which a go block puts on in an irregular order, joined by `join`.
local function joined(width, join)
  return function(n)
    local inputs = {}
    for i = 1, width do inputs[i] = chan() end
    local out = join(inputs)
    go(function()
      for i = 1, n do inputs[i * 7919 % width + 1]:put(i) end
    end)
    for _ = 1, n do out:take() end
    out:close()
  end
end

local function mixed(inputs)
  local out = chan()
  local m = rn.mix(out)
  for _, ch in ipairs(inputs) do m:admix(ch) end
  return out
end

-- n messages through a pub with as many topics, each with a subscriber.
local function pub(topics)
  return function(n)
    local from, got = chan(), chan()
    local p = rn.pub(from, function(v) return v % topics end)
    for topic = 0, topics - 1 do
      local ch = p:sub(topic, chan())
      go(function()
        for value in ch do
          if value == n then got:put(value) end
        end
      end)
    end
    go(function()
      for i = 1, n do from:put(i) end
    end)
    got:take()
    from:close()
  end
end

-- n timeouts, all made before the first one fires; then they fire within a second.
local function timeouts(n)
  local list = {}
  for i = 1, n do list[i] = rn.timeout(math.random(1000, 2000)) end
  for i = 1, n do list[i]:take() end
end

-- The same with deadlines 10 ms apart, so that no two timeouts share a channel. In virtual time, since a million of
-- them would take hours.
-- Timers of rn.after that are stopped: each is started and stopped beside 1000 others.
local function after(n)
  local function f() end
  local list = {}
  for i = 1, 1000 do list[i] = rn.after(100000 + i, f) end
  for i = 1, n do
    local at = i % 1000 + 1
    list[at]:stop()
    list[at] = rn.after(100000 + i % 500, f)
  end
  for i = 1, 1000 do list[i]:stop() end
end

-- Go blocks that are cancelled where they wait.
local function cancel(n)
  local never = chan()
  local function f() never:take() end
  for _ = 1, n do
    local result = go(f)
    rn.yield()
    rn.cancel(result)
    rn.yield()
  end
end

local function timers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  for i = n, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  for i = 1, n do list[i] = rn.timeout(10 * list[i]) end
  for i = 1, n do list[i]:take() end
end

-- A line of the program "json" of bench/programs.
local LINE = '{"id":123456,"name":"event 56","value":456,"tags":["a","b"],"more":{"of":true}}'

local function json_decode(n)
  for _ = 1, n do json.decode(LINE) end
end

local function json_encode(n)
  local value = json.decode(LINE)
  for _ = 1, n do json.encode(value) end
end

local function ns(f, ...)
  return measure.ns(function(n) rn.run(f, n) end, ...)
end
local workloads = {
  chan0 = ns(shared.messages(0), 100000),
  chan1 = ns(shared.messages(1), 100000),
  chan100 = ns(shared.messages(100), 100000),
  pingpong = ns(shared.ping_pong, 100000),
  ring = ns(shared.ring, 1000, 1000),
  select4 = ns(alts_over(4, false), 100000),
  fanin4 = ns(alts_over(4, true), 100000),
  select64 = ns(alts_over(64, false), 20000),
  spawn = ns(spawn, 100000),
  skynet = ns(shared.skynet, 10, 111111, true),
  sieve = ns(shared.sieve, 1, 1, true),
  pipeline = ns(shared.pipeline, 100000, 1, true),
  pipeline_async = ns(with_library(rn.pipeline_async), 100000, 1, true),
  pipeline_async_unordered = ns(with_library(rn.pipeline_async_unordered), 100000, 1, true),
  jobs = ns(with_library(jobs_by_hand), 100000, 1, true),
  pmap = ns(pmap, 100000, 1, true),
  pmap_unordered = ns(pmap_unordered, 100000, 1, true),
  workers = ns(workers, 100000, 1, true),
  fanout4 = ns(shared.fanout, 20000),
  mult = ns(mult, 20000),
  merge2 = ns(joined(2, rn.merge), 20000),
  merge1000 = ns(joined(1000, rn.merge), 20000),
  mix2 = ns(joined(2, mixed), 20000),
  mix1000 = ns(joined(1000, mixed), 20000),
  pub10000 = ns(pub(10000), 100000),
  timeouts = ns(timeouts, 1000000, 1, true),
  timers = measure.ns(function(n) sim.run(function() timers(n) end) end, 1000000, 1, true),
  after = ns(after, 100000),
  cancel = ns(cancel, 20000),
  json_decode = ns(json_decode, 10000),
  json_encode = ns(json_encode, 10000),
  parked = measure.bytes(measure.lua_bytes, 100000, function(...)
    shared.parked(...)
    rn.run() -- until all are parked
  end),
  channel = measure.bytes(measure.lua_bytes, 100000, shared.channels),
  threads0 = measure.wall(threads.messages(0), 20000),
  threads100 = measure.wall(threads.messages(100), 20000),
  threads_pingpong = measure.wall(threads.ping_pong, 20000),
  threads_alts = measure.wall(threads.alts, 20000),
  threads_table = measure.wall(threads.tables, 20000),
  threads_speedup = function() return threads.speedup(400) end,
}
for _, buffer in ipairs { 0, 16 } do
  workloads["hand_none" .. buffer] = ns(chain(0, buffer), 20000)
  for name, make in pairs(kinds) do workloads[name .. buffer] = ns(chain(STAGES, buffer, make), 20000, STAGES) end
end
measure.main(workloads)
