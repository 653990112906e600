-- The workloads that need only go blocks and channels, for every peer in Lua 5.4: runnel, and the peers whose channels
-- are written in bench/peers/NAME/main.lua. Each is a function of the number of operations, to be called in a go block.
--
-- The peer has go(f, ...), which starts a go block, and chan(n), whose channels have put, take and close, and can be
-- used in a `for` loop, which takes until they are closed.

return function(go, chan)
  local workloads = {}

  -- n messages from one go block to another.
  function workloads.messages(buffer)
    return function(n)
      local ch = chan(buffer)
      go(function()
        for i = 1, n do ch:put(i) end
      end)
      for _ = 1, n do ch:take() end
    end
  end

  function workloads.ping_pong(n)
    local ping, pong = chan(0), chan(0)
    go(function()
      for _ = 1, n do pong:put(ping:take()) end
    end)
    for i = 1, n do
      ping:put(i)
      pong:take()
    end
  end

  -- A token goes round a ring of 1000; n is the number of rounds.
  function workloads.ring(n)
    local first = chan(0)
    local left = first
    for _ = 2, 1000 do
      local from, to = left, chan(0)
      go(function()
        for _ = 1, n do to:put(from:take()) end
      end)
      left = to
    end
    for i = 1, n do
      first:put(i)
      left:take()
    end
  end

  -- Chains a filter for each prime that comes out of the chain: 1000 primes, n times.
  function workloads.sieve(n)
    local function sift(from, prime)
      local to = chan(0)
      go(function()
        for i in from do
          if i % prime ~= 0 then to:put(i) end
        end
      end)
      return to
    end
    for _ = 1, n do
      local numbers = chan(0)
      go(function()
        for i = 2, math.maxinteger do numbers:put(i) end
      end)
      local ch = numbers
      for _ = 1, 1000 do ch = sift(ch, ch:take()) end
    end
  end

  -- n jobs, 8 at a time, their results in order.
  function workloads.pipeline(n)
    local from, to, jobs = chan(0), chan(0), chan(8 - 1) -- the consumer waits for the eighth
    go(function()
      for i = 1, n do from:put(i) end
      from:close()
    end)
    go(function()
      for value in from do
        local result = chan(1)
        jobs:put(result)
        go(function() result:put(value + 1) end)
      end
      jobs:close()
    end)
    go(function()
      for result in jobs do to:put(result:take()) end
      to:close()
    end)
    local sum = 0
    for value in to do sum = sum + value end
    assert(sum == n * (n + 3) // 2)
  end

  -- Copies n messages to 4 go blocks.
  function workloads.fanout(n)
    local from, taps, done = chan(0), {}, chan(0)
    go(function()
      for value in from do
        for i = 1, 4 do taps[i]:put(value) end
      end
    end)
    for i = 1, 4 do
      local tap = chan(0)
      taps[i] = tap
      go(function()
        for _ = 1, n do tap:take() end
        done:put(true)
      end)
    end
    for i = 1, n do from:put(i) end
    from:close()
    for _ = 1, 4 do done:take() end
  end

  -- Sums the numbers of a tree's leaves: each go block has ten children, and there are `size` leaves. n trees of
  -- 100,000 leaves, one after the other.
  local function node(parent, number, size)
    if size == 1 then
      parent:put(number)
      return
    end
    local children, part, sum = chan(0), size // 10, 0
    for i = 0, 9 do go(node, children, number + i * part, part) end
    for _ = 1, 10 do sum = sum + children:take() end
    parent:put(sum)
  end
  function workloads.skynet(n)
    local root, sum = chan(0), 0
    for i = 0, n - 1 do
      go(node, root, i * 100000, 100000)
      sum = sum + root:take()
    end
    assert(sum == n * 100000 * (n * 100000 - 1) // 2)
  end

  -- n go blocks parked in a take, a thousand for each channel.
  function workloads.parked(n, keep)
    local function f(ch) ch:take() end
    for i = 1, n do
      if i % 1000 == 1 then keep[i // 1000 + 1] = chan(0) end
      go(f, keep[(i - 1) // 1000 + 1])
    end
  end

  function workloads.channels(n, keep)
    for i = 1, n do keep[i] = chan(0) end
  end

  return workloads
end
