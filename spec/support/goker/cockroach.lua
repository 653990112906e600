---CockroachDB's blocking bugs in GoBench (github.com/timmyyuan/gobench), reduced to their causes. Each function is the
---program with the bug, or with true the correct one.

local rn = require "runnel"
local sim = require "runnel.sim"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, rw_mutex, wait_group, context = sync.mutex, sync.rw_mutex, sync.wait_group, sync.context

local bugs = {}

-- Two locks in opposite orders: heartbeats, then a replica; a replica, then heartbeats.
bugs["cockroach#10214"] = function(is_correct)
  local heartbeats, replica = mutex(), mutex()
  go(function()
    for _ = 1, 2 do
      heartbeats:lock()
      if is_correct then heartbeats:unlock() end
      replica:lock()
      replica:unlock()
      if not is_correct then heartbeats:unlock() end
    end
  end)
  go(function()
    replica:lock()
    heartbeats:lock()
    heartbeats:unlock()
    replica:unlock()
  end)
end

-- Quiescing waits for tasks while it holds the lock that tasks need to begin; and no task ever reports its end.
bugs["cockroach#1055"] = function(is_correct)
  local function new_stopper()
    local s = { stop = chan():name "stop", workers = wait_group(1), lock = mutex(), tasks = wait_group() }
    go(function()
      if not s.drains then
        s.lock:lock()
        s.tasks:add(1)
        s.lock:unlock()
        if is_correct then s.tasks:done() end
      end
      s.stop:take()
      s.workers:done()
    end)
    return s
  end
  local function drain(s)
    s.lock:lock()
    s.drains = true
    if is_correct then s.lock:unlock() end
    s.tasks:wait()
    if not is_correct then s.lock:unlock() end
  end
  local stoppers = { new_stopper(), new_stopper() }
  for _, s in ipairs(stoppers) do drain(s) end
  for _, s in ipairs(stoppers) do
    drain(s)
    s.stop:close()
    s.workers:wait()
  end
end

-- The reader gives up and leaves a go block that reads on, but the writer gives up, too.
bugs["cockroach#10790"] = function(is_correct)
  local ctx = context()
  local chans = { chan(), chan() }
  go(function()
    for _, ch in ipairs(chans) do
      local _, port = alts { { ch, true }, ctx.done }
      if port == ctx.done then return end
    end
  end)
  go(function()
    for _, ch in ipairs(chans) do
      local _, port = alts { ch, ctx.done }
      if port == ctx.done then
        go(function()
          for _, each in ipairs(chans) do
            if is_correct then alts { each, ctx.done } else each:take() end
          end
        end)
      end
    end
  end)
  go(ctx.cancel)
end

-- A transaction has a go block that waits for its end, which is never reported.
bugs["cockroach#13197"] = function(is_correct)
  local tx = context(context())
  go(function() tx.done:take() end)
  if is_correct then tx.cancel() end
end

-- The rows of a query are never closed.
bugs["cockroach#13755"] = function(is_correct)
  local rows = context(context())
  go(function()
    rows.done:take()
    rows.closed = true
  end)
  if is_correct then rows.cancel() end
end

-- A worker checks whether it must stop, and then puts an event that has no taker any more.
bugs["cockroach#1462"] = function(is_correct)
  local stop, workers, events = chan():name "stop", wait_group(2), chan():name "events"
  go(function()
    while not stop:closed() do
      if is_correct then alts { { events, 0 }, stop } else events:put(0) end
    end
    workers:done()
  end)
  go(function()
    repeat
      local _, port = alts { events, stop }
    until port == stop
    workers:done()
  end)
  rn.yield()
  stop:close()
  workers:wait()
end

-- A read lock taken twice: a writer that comes between waits for the first, and the second waits for the writer.
bugs["cockroach#16167"] = function(is_correct)
  local config = rw_mutex()
  go(function()
    config:lock()
    config:unlock()
  end)
  config:rlock()
  if not is_correct then
    config:rlock()
    config:runlock()
  end
  config:runlock()
end

-- After a cancellation the taker stops, the putter does not.
bugs["cockroach#18101"] = function(is_correct)
  local ctx = context()
  go(function()
    local ready = chan(2):name "ready"
    go(function()
      for i = 1, 4 do
        if is_correct then
          local _, port = alts { { ready, i }, ctx.done }
          if port == ctx.done then break end
        else
          ready:put(i)
        end
      end
      ready:close()
    end)
    if ready:take() then ctx.done:take() end
  end)
  go(ctx.cancel)
end

-- Raft puts an event while the store puts a callback: each waits for the other to take.
bugs["cockroach#2448"] = function(is_correct)
  local events, callbacks = chan():name "events", chan():name "callbacks"
  go(function()
    for _ = 1, 2 do callbacks:put(events:take()) end
  end)
  go(function()
    local sent, called = 0, 0
    while sent + called < 4 do
      local ops = { callbacks }
      if is_correct and sent < 2 then ops[2] = { events, true } end
      local _, port = alts(ops, not is_correct and sent < 2 and { default = false } or nil)
      if port == callbacks then
        called = called + 1
      else
        if not is_correct then events:put(true) end
        sent = sent + 1
      end
    end
  end)
end

-- A buffer of one is full before its reader starts.
bugs["cockroach#24808"] = function(is_correct)
  local stop, wakeups = chan():name "stop", chan(1):name "wakeups"
  wakeups:put(true)
  if is_correct then wakeups:offer(true) else wakeups:put(true) end
  go(function()
    repeat
      local _, port = alts { stop, wakeups }
    until port == stop
  end)
  stop:close()
end

-- A queue waits until the store stops, in the test that would stop it.
bugs["cockroach#25456"] = function(is_correct)
  local quiesce = chan():name "quiesce"
  if is_correct then quiesce:close() end
  for _ = 1, 2 do quiesce:take() end
end

-- The consumer ends without telling: the go block that puts rows waits forever.
bugs["cockroach#35073"] = function(is_correct)
  local rows, is_closed, workers = chan(2):name "rows", false, wait_group(1)
  local function push()
    if not is_closed then rows:put(0) end
  end
  push()
  push()
  go(push)
  go(function()
    if is_correct then
      is_closed = true
      rows:poll()
    end
    workers:done()
  end)
  workers:wait()
  push()
end

-- A flow is cancelled by a last message to receivers, one of which is full.
bugs["cockroach#35931"] = function(is_correct)
  local lock, receivers = mutex(), { chan(1), chan(1) }
  receivers[1]:put(0)
  lock:lock()
  local pending = { table.unpack(receivers) }
  lock:unlock()
  for _, receiver in ipairs(pending) do
    if is_correct then receiver:offer(0) else receiver:put(0) end
  end
end

-- A read lock taken again three calls further down.
bugs["cockroach#3710"] = function(is_correct)
  local store, queue = rw_mutex(), mutex()
  go(function()
    store:rlock()
    for _ = 1, 2 do
      queue:lock()
      if not is_correct then
        store:rlock()
        store:runlock()
      end
      queue:unlock()
    end
    store:runlock()
  end)
  go(function()
    store:lock()
    store:unlock()
  end)
end

-- A loop is left with the lock held.
bugs["cockroach#584"] = function(is_correct)
  local lock, is_closed = mutex(), true
  local function look()
    lock:lock()
    if is_closed and not is_correct then return end
    lock:unlock()
  end
  go(function()
    look()
    look()
  end)
end

-- Printing a cache locks it for reading, in a function that already holds that lock.
bugs["cockroach#6181"] = function(is_correct)
  local cache, lookups = rw_mutex(), wait_group()
  for _ = 1, 2 do
    lookups:add(1)
    go(function()
      cache:rlock()
      if not is_correct then
        cache:rlock()
        cache:runlock()
      end
      cache:runlock()
      cache:lock()
      cache:unlock()
      lookups:done()
    end)
  end
  lookups:wait()
end

-- The lease, then the cache of names; the cache, then the lease.
bugs["cockroach#7504"] = function(is_correct)
  local lease, names, both = mutex(), mutex(), wait_group(2)
  go(function()
    names:lock()
    lease:lock()
    lease:unlock()
    names:unlock()
    both:done()
  end)
  go(function()
    lease:lock()
    if is_correct then lease:unlock() end
    names:lock()
    names:unlock()
    if not is_correct then lease:unlock() end
    both:done()
  end)
  both:wait()
end

-- An error while logging is logged, with the lock held.
bugs["cockroach#9935"] = function(is_correct)
  local log = mutex()
  go(function()
    log:lock()
    local fails = sim.choose(2) == 2
    if is_correct then log:unlock() end
    if fails then
      log:lock()
      log:unlock()
    end
    if not is_correct then log:unlock() end
  end)
end

return bugs
