-- The workloads in Tarantool: fibers and fiber.channel, which are written in C, below LuaJIT.
--
--     tarantool bench/peers/tarantool/main.lua [--quick] NAME...
--
-- It has no select. A fiber has a C stack of its own, which takes two memory mappings. Linux allows 65,530 of these:
-- too few for skynet, and for 100,000 parked fibers, so 10,000 are parked here. A timer is a sleeping fiber.

package.path = arg[0]:gsub("[^/]*$", "") .. "../?.lua;" .. package.path
local measure = require "measure"
local fiber = require "fiber"

local function messages(buffer)
  return function(n)
    local ch = fiber.channel(buffer)
    fiber.create(function()
      for i = 1, n do ch:put(i) end
    end)
    for _ = 1, n do ch:get() end
  end
end

local function ping_pong(n)
  local ping, pong = fiber.channel(), fiber.channel()
  fiber.create(function()
    for _ = 1, n do pong:put(ping:get()) end
  end)
  for i = 1, n do
    ping:put(i)
    pong:get()
  end
end

-- A token goes round a ring of 1000; n is the number of rounds.
local function ring(n)
  local first = fiber.channel()
  local left = first
  for _ = 2, 1000 do
    local from, to = left, fiber.channel()
    fiber.create(function()
      for _ = 1, n do to:put(from:get()) end
    end)
    left = to
  end
  for i = 1, n do
    first:put(i)
    left:get()
  end
end

local function spawn(n)
  local function f() return true end
  for _ = 1, n do
    local child = fiber.new(f)
    child:set_joinable(true)
    child:join()
  end
end

local function sift(from, prime)
  local to = fiber.channel()
  fiber.create(function()
    while true do
      local i = from:get()
      if i % prime ~= 0 then to:put(i) end
    end
  end)
  return to
end

local function sieve(n)
  for _ = 1, n do
    local numbers = fiber.channel()
    fiber.create(function()
      for i = 2, math.huge do numbers:put(i) end
    end)
    local ch = numbers
    for _ = 1, 1000 do ch = sift(ch, ch:get()) end
  end
end

-- n jobs, 8 at a time, their results in order.
local function pipeline(n)
  local from, to, jobs = fiber.channel(), fiber.channel(), fiber.channel(8 - 1) -- the consumer waits for the eighth
  fiber.create(function()
    for i = 1, n do from:put(i) end
    from:close()
  end)
  fiber.create(function()
    for _ = 1, n do
      local value, result = from:get(), fiber.channel(1)
      jobs:put(result)
      fiber.create(function() result:put(value + 1) end)
    end
  end)
  fiber.create(function()
    for _ = 1, n do to:put(jobs:get():get()) end
  end)
  local sum = 0
  for _ = 1, n do sum = sum + to:get() end
  assert(sum == n * (n + 3) / 2)
end

-- Copies n messages to 4 fibers.
local function fanout(n)
  local from, taps, done = fiber.channel(), {}, fiber.channel()
  for i = 1, 4 do
    local tap = fiber.channel()
    taps[i] = tap
    fiber.create(function()
      for _ = 1, n do tap:get() end
      done:put(true)
    end)
  end
  fiber.create(function()
    for _ = 1, n do
      local value = from:get()
      for i = 1, 4 do taps[i]:put(value) end
    end
  end)
  for i = 1, n do from:put(i) end
  for _ = 1, 4 do done:get() end
end

local function parked(n, keep)
  local ch
  for i = 1, n do
    if i % 1000 == 1 then
      ch = fiber.channel()
      keep[(i - 1) / 1000 + 1] = ch
    end
    fiber.create(function(c) c:get() end, ch)
  end
end

local function channels(n, keep)
  for i = 1, n do keep[i] = fiber.channel() end
end

measure.main {
  chan0 = measure.ns(messages(0), 100000),
  chan1 = measure.ns(messages(1), 100000),
  chan100 = measure.ns(messages(100), 100000),
  pingpong = measure.ns(ping_pong, 100000),
  ring = measure.ns(ring, 100, 1000),
  spawn = measure.ns(spawn, 100000),
  sieve = measure.ns(sieve, 1, 1, true),
  pipeline = measure.ns(pipeline, 100000, 1, true),
  fanout4 = measure.ns(fanout, 20000),
  parked = measure.bytes(measure.resident_bytes, 10000, parked),
  channel = measure.bytes(measure.resident_bytes, 100000, channels),
}
os.exit(0)
