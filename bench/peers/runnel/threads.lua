-- The workloads of two OS threads, in runnel. Each is a function of the number of operations that returns the seconds
-- that they took, by the clock, or a ratio. What a thread runs has no variables from outside it.

local rn = require "runnel"

local threads = {}

-- Starts f(ready, ...) in a thread, and waits until it has begun. Returns its result channel, and the time.
local function begin(f, ...)
  local ready = rn.shared_chan()
  local result = rn.thread(f, ready, ...)
  assert(ready:take())
  return result, rn.now()
end

local function seconds_since(start) return (rn.now() - start) / 1000 end

-- n messages from one thread to the other.
function threads.messages(size)
  return function(n)
    local ch = rn.shared_chan(size)
    local result, start = begin(function(ready, from, count)
      ready:put(true)
      for _ = 1, count do from:take() end
      return true
    end, ch, n)
    for i = 1, n do ch:put(i) end
    assert(result:take())
    return seconds_since(start)
  end
end

function threads.ping_pong(n)
  local ping, pong = rn.shared_chan(), rn.shared_chan()
  local result, start = begin(function(ready, from, to, count)
    ready:put(true)
    for _ = 1, count do to:put(from:take()) end
    return true
  end, ping, pong, n)
  for i = 1, n do
    ping:put(i)
    pong:take()
  end
  local took = seconds_since(start)
  assert(result:take())
  return took
end

-- n messages of the other thread, in turn on two channels, taken by alts over these and a local one.
function threads.alts(n)
  local a, b, quiet = rn.shared_chan(), rn.shared_chan(), rn.chan()
  local result, start = begin(function(ready, first, second, count)
    ready:put(true)
    for i = 1, count do (i % 2 == 0 and first or second):put(i) end
    return true
  end, a, b, n)
  local ops = { a, b, quiet }
  for _ = 1, n do rn.alts(ops) end
  local took = seconds_since(start)
  assert(result:take())
  return took
end

-- n times a table of 10 fields, put on a shared channel and taken from it in the same thread: the cost of copying.
function threads.tables(n)
  local ch = rn.shared_chan(1)
  local value = { id = 1, name = "resize", x = 1.5, y = -2.5, done = false, size = 4096, kind = "image", at = 123456789,
    path = "photos/1.jpg", ok = true }
  local start = rn.now()
  for _ = 1, n do
    ch:put(value)
    ch:take()
  end
  return seconds_since(start)
end

local function compute(count)
  local sum = 0
  for i = 1, count do sum = sum + i % 7 end
  return sum
end

-- How much faster n jobs of 1 ms are with two threads than with one.
function threads.speedup(n)
  local count, ms = 10000, 0
  while ms < 20 do
    count = count * 2
    local start = rn.now()
    compute(count)
    ms = rn.now() - start
  end
  count = math.ceil(count / ms)
  local took = {}
  for k = 1, 2 do
    local pool <close> = rn.threads(k, compute)
    for _ = 1, k do pool(1) end
    local from, start = rn.chan(), rn.now()
    rn.go(function()
      for _ = 1, n do from:put(count) end
      from:close()
    end)
    for _ in rn.pmap(4, pool, from) do end
    took[k] = rn.now() - start
  end
  return took[1] / took[2]
end

return threads
