-- The floors: what stock Lua needs for the minimum that any library in Lua must do in a workload.
--
--     lua5.4 bench/peers/floor/main.lua [--quick] NAME...
--
-- A message from one coroutine to another takes a switch, which is a resume and a yield, and two calls of C functions,
-- put and take. bench/bench.lua has the same floors; the ones here are measured in turn with the peers.

package.path = arg[0]:gsub("[^/]*$", "") .. "../?.lua;" .. package.path
local measure = require "measure"

local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield

local switch = measure.ns(function(n)
  local go_on = coroutine.wrap(function()
    for _ = 1, n do yield() end
  end)
  for _ = 1, n do go_on() end
end, 1000000)

local call = measure.ns(function(n)
  local abs = math.abs
  for i = 1, n do abs(i) end
end, 5000000)

-- A coroutine from its creation to its death.
local coroutine_life = measure.ns(function(n)
  local function f() end
  for _ = 1, n do resume(create(f)) end
end, 500000)

-- The same while 100 thousand are alive. With `object`, each has an object of its own, object(coroutine).
local function among_many(object)
  return measure.ns(function(n)
    local function f() end
    local keep, objects = {}, {}
    for _ = 1, n do
      for i = 1, 100000 do
        keep[i] = create(f)
        objects[i] = object and object(keep[i])
      end
      for i = 1, 100000 do
        resume(keep[i])
        keep[i], objects[i] = nil, nil
      end
    end
    return objects
  end, 10, 100000, true)
end
local coroutine_among_many = among_many()

-- With a table of 200 bytes, which is the size of runnel's userdata for a go block.
local coroutine_with_object = among_many(function(co) return { co, 0, 0, 0, 0, 0, 0, 0, 0 } end)

-- The same with the incremental collector; other workloads have the one that lua5.4 starts with.
local function incremental(f)
  return function()
    collectgarbage "incremental"
    local ns = f()
    collectgarbage "generational"
    return ns
  end
end

-- The minimum that a timer keeps, a table: n of them are alive at once, and are then dropped one by one.
local tables = measure.ns(function(n)
  local keep = {}
  for i = 1, n do keep[i] = { i } end
  for i = 1, n do keep[i] = nil end
  return keep
end, 1000000, 1, true)

local function parked(n, keep)
  local function f(value) yield(value) end
  for i = 1, n do
    keep[i] = create(f)
    resume(keep[i], i)
  end
end

-- How many messages the sieve for 1000 primes sends: each number passes one channel more than there are primes below
-- its least factor.
local function sieve_messages()
  local primes, total, i = {}, 0, 2
  while #primes < 1000 do
    local k = 1
    while primes[k] and i % primes[k] ~= 0 do k = k + 1 end
    primes[k] = primes[k] or i
    total = total + k
    i = i + 1
  end
  return total
end

-- The cost of `count` messages with `switches` switches each.
local function messages(count, switches)
  return function() return count * ((switches or 1) * switch() + 2 * call()) end
end
local message = messages(1)

-- A job is a coroutine and three messages: to it, from it, and to the consumer.
local function pipeline() return coroutine_life() + 3 * message() end

measure.main {
  switch = switch,
  call = call,
  coroutine = coroutine_life,
  chan0 = message,
  chan1 = messages(1, 2 / 3), -- three messages for two switches
  chan100 = messages(1, 2 / 102),
  pingpong = messages(2),
  ring = message,
  select4 = message,
  fanin4 = message,
  select64 = message,
  spawn = function() return coroutine_life() + message() end,
  skynet = function() return coroutine_among_many() + message() end,
  -- For docs/performance.md; no peer has them.
  among_many = coroutine_among_many,
  among_many_incremental = incremental(coroutine_among_many),
  with_object = coroutine_with_object,
  with_object_incremental = incremental(coroutine_with_object),
  sieve = function() return sieve_messages() * message() end,
  pipeline = pipeline,
  pipeline_async = pipeline,
  fanout4 = messages(5),
  mult = messages(5),
  timers = tables,
  parked = measure.bytes(measure.lua_bytes, 100000, parked),
  channel = measure.bytes(measure.lua_bytes, 100000, function(n, keep)
    for i = 1, n do keep[i] = {} end
  end),
}
