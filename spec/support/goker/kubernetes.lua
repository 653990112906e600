---Kubernetes' blocking bugs in GoBench, restated: see cockroach.lua.

local rn = require "runnel"
local sim = require "runnel.sim"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, rw_mutex, wait_group, context = sync.mutex, sync.rw_mutex, sync.wait_group, sync.context

local bugs = {}

-- A status is sent with the lock that its reader takes after each one.
bugs["kubernetes#10182"] = function(is_correct)
  local lock, statuses = mutex(), chan():name "statuses"
  go(function()
    for _ = 1, 2 do
      statuses:take()
      lock:lock()
      lock:unlock()
    end
  end)
  for _ = 1, 2 do
    go(function()
      lock:lock()
      if is_correct then lock:unlock() end
      statuses:put(true)
      if not is_correct then lock:unlock() end
    end)
  end
end

-- The last signal may come before its receiver waits.
bugs["kubernetes#11298"] = function(is_correct)
  local lock, abort, news = mutex(), chan():name "abort", chan(1):name "news"
  local cond = sync.cond(lock)
  go(function()
    if is_correct then
      repeat
        local _, port = alts { news, abort }
      until port == abort
      return
    end
    lock:lock()
    repeat
      local heard = chan():name "heard"
      go(function()
        cond:wait()
        heard:close()
      end)
      local _, port = alts { heard, abort }
      if port == abort then
        cond:signal()
        heard:take()
      end
    until port == abort
    lock:unlock()
  end)
  go(function()
    lock:lock()
    cond:signal()
    lock:unlock()
    news:offer(true)
  end)
  rn.yield()
  abort:close()
end

-- A cacher locks itself, then the cache of what it watches; an event locks the cache, then the cacher.
bugs["kubernetes#13135"] = function(is_correct)
  local stop, cacher, cache, ready = chan():name "stop", mutex(), mutex(), wait_group(1)
  go(function()
    while not stop:closed() do
      cacher:lock()
      cache:lock()
      if ready.n > 0 then ready:done() end
      cacher:unlock()
      cache:unlock()
    end
  end)
  ready:wait()
  go(function()
    cache:lock()
    if is_correct then cache:unlock() end
    cacher:lock()
    cacher:unlock()
    if not is_correct then cache:unlock() end
  end)
  go(function() stop:close() end)
end

-- Values are distributed with the lock that a watcher needs to stop.
bugs["kubernetes#1321"] = function(is_correct)
  local lock, watchers = mutex(), {}
  go(function()
    for _ = 1, 2 do
      lock:lock()
      for _, watcher in ipairs(watchers) do
        if is_correct then alts { { watcher.result, true }, watcher.stopped } else watcher.result:put(true) end
      end
      lock:unlock()
    end
  end)
  local watcher = { result = chan():name "result", stopped = chan():name "stopped" }
  watchers[1] = watcher
  if is_correct then watcher.stopped:close() end
  lock:lock()
  watchers[1] = nil
  watcher.result:close()
  lock:unlock()
end

-- A watcher sends its error as a result, which has no taker after a stop.
bugs["kubernetes#25331"] = function(is_correct)
  local ctx, errors, results = context(), chan():name "errors", chan():name "results"
  go(function()
    local err, port = alts { errors, ctx.done }
    if port ~= errors then return end
    if is_correct then
      alts { { results, err }, ctx.done }
    else
      ctx.cancel()
      results:put(err)
    end
  end)
  go(function()
    errors:put "an error"
    ctx.cancel()
  end)
end

-- A listener waits to be stopped with the lock that the test needs to stop it.
bugs["kubernetes#26980"] = function(is_correct)
  local lock, stop = rw_mutex(), chan():name "stop"
  local cond, pending = sync.cond(lock), 1
  go(function()
    lock:lock()
    while pending == 0 do cond:wait() end
    if is_correct then lock:unlock() end
    stop:take()
    if not is_correct then lock:unlock() end
  end)
  local locked = chan():name "locked"
  go(function()
    lock:lock()
    locked:close()
  end)
  locked:take()
  lock:unlock()
  stop:close()
end

-- The informer, then its queue; the queue, then the informer.
bugs["kubernetes#30872"] = function(is_correct)
  local informer, queue, stop = mutex(), mutex(), chan():name "stop"
  informer:lock()
  go(function()
    while not stop:closed() do
      queue:lock()
      informer:lock()
      informer:unlock()
      queue:unlock()
    end
  end)
  informer:unlock()
  go(function()
    informer:lock()
    if is_correct then informer:unlock() end
    queue:lock()
    queue:unlock()
    if not is_correct then informer:unlock() end
  end)
  go(function()
    informer:lock()
    stop:close()
    informer:unlock()
  end)
end

-- The first events are sent although the watcher has been stopped.
bugs["kubernetes#38669"] = function(is_correct)
  local input, result = chan():name "input", chan():name "result"
  go(function()
    for event = 1, 2 do
      if is_correct then alts { { result, event }, input } else result:put(event) end
    end
    for _ in input do end
    result:close()
  end)
  input:close()
end

-- After a time limit, the result or the error has no taker.
bugs["kubernetes#5316"] = function(is_correct)
  local size = is_correct and 1 or 0
  local results, errors = chan(size):name "results", chan(size):name "errors"
  go(function()
    rn.sleep(2)
    if sim.choose(2) == 2 then errors:put "an error" else results:put(true) end
  end)
  alts { results, errors, rn.timeout(1) }
end

-- Two queues and one lock: a worker waits for its queue with the lock for reading; a writer waits for the lock; then
-- the worker of the other queue cannot lock for reading, although it would fill the first queue.
bugs["kubernetes#58107"] = function(is_correct)
  local workers = rw_mutex()
  local function new_queue()
    local lock, count = mutex(), 0
    local cond = sync.cond(lock)
    local queue = {}
    function queue.get()
      lock:lock()
      while count == 0 do cond:wait() end
      count = count - 1
      lock:unlock()
    end
    function queue.put()
      lock:lock()
      count = count + 1
      cond:signal()
      lock:unlock()
    end
    return queue
  end
  local first, second = new_queue(), new_queue()
  local function get(queue)
    if not is_correct then workers:rlock() end
    queue.get()
    if not is_correct then workers:runlock() end
  end
  go(get, first)
  go(function()
    get(second)
    first.put()
  end)
  go(function()
    workers:lock()
    workers:unlock()
  end)
  second.put()
end

-- A read lock within a read lock, and a writer between them.
bugs["kubernetes#62464"] = function(is_correct)
  local state = rw_mutex()
  local function read()
    if not is_correct then state:rlock() end
    local has_set = sim.choose(2) == 2
    if not is_correct then state:runlock() end
    return has_set
  end
  go(function()
    state:rlock()
    if not read() then read() end
    state:runlock()
  end)
  go(function()
    state:rlock()
    state:runlock()
    state:lock()
    state:unlock()
  end)
end

-- A frame is written with the lock that the monitor needs to report that there is no reader any more.
bugs["kubernetes#6632"] = function(is_correct)
  local lock, reset, close = mutex(), chan():name "reset", chan():name "close"
  local is_open = true
  go(function() close:put(true) end)
  go(function()
    close:take()
    if is_correct then go(function() for _ in reset do end end) end
    lock:lock()
    is_open = false
    reset:close()
    lock:unlock()
  end)
  go(function()
    lock:lock()
    if is_open then reset:put(true) end
    lock:unlock()
  end)
end

-- The poller must stop with its caller, but waits for a channel that the caller closes later.
bugs["kubernetes#70277"] = function(is_correct)
  local stop = chan():name "stop"
  local done = is_correct and chan():name "done" or stop
  local ticks = chan():name "ticks"
  go(function()
    local limit = rn.timeout(20)
    while true do
      local tick = rn.timeout(1)
      local _, port = alts { tick, limit, done }
      if port ~= tick then break end
      ticks:offer(true)
    end
    ticks:close()
  end)
  ticks:take()
  if is_correct then done:close() end
  done:take()
  stop:close()
end

return bugs
