---gRPC's blocking bugs in GoBench, restated: see cockroach.lua.

local rn = require "runnel"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, context = sync.mutex, sync.context

local bugs = {}

-- Closing a stream does not wake its reader.
bugs["grpc#1275"] = function(is_correct)
  local stream, done = chan():name "stream", chan():name "done"
  go(function()
    stream:take()
    done:close()
  end)
  if is_correct then stream:close() end
  alts { done, rn.timeout(300) }
end

-- A balancer sends an update with its lock; the watcher, which takes updates, needs the lock to tear connections down.
bugs["grpc#1353"] = function(is_correct)
  local lock, addresses = mutex(), chan(is_correct and 1 or 0):name "addresses"
  go(function()
    for _ = 1, 3 do
      lock:lock()
      if is_correct then
        addresses:poll()
        addresses:offer(true)
      else
        addresses:put(true)
      end
      lock:unlock()
    end
    lock:lock()
    addresses:close()
    lock:unlock()
  end)
  go(function()
    for _ in addresses do
      for _ = 1, 2 do
        lock:lock()
        lock:unlock()
      end
    end
  end)
end

-- A watcher ends without telling.
bugs["grpc#1424"] = function(is_correct)
  local addresses, done = chan():name "addresses", chan():name "done"
  go(function()
    go(function()
      for _ in addresses do end
      if is_correct then done:close() end
    end)
    done:take()
  end)
  addresses:close()
end

-- Keepalive sleeps with the lock that a new stream needs to wake it.
bugs["grpc#1460"] = function(is_correct)
  local lock, awake, streams, is_asleep = mutex(), chan():name "awake", 0, false
  go(function()
    lock:lock()
    is_asleep = streams == 0
    if is_correct then lock:unlock() end
    if is_asleep then awake:take() end
    if not is_correct then lock:unlock() end
  end)
  go(function()
    lock:lock()
    streams = streams + 1
    local wakes = is_asleep
    if not is_correct then awake:offer(true) end
    lock:unlock()
    if is_correct and wakes then awake:put(true) end
  end)
end

-- A connection leaves the cache after some time, unless it is used again just then: that path keeps the lock.
bugs["grpc#3017"] = function(is_correct)
  local lock, cached = mutex(), nil
  local function remove()
    lock:lock()
    if not cached then
      local entry = {}
      cached = entry
      entry.timer = sync.after(function()
        lock:lock()
        if entry.is_used_again then
          if is_correct then lock:unlock() end
          return
        end
        cached = nil
        lock:unlock()
      end)
    end
    lock:unlock()
  end
  local function use()
    lock:lock()
    if cached then
      if not cached.timer.stop() then cached.is_used_again = true end
      cached = nil
    end
    lock:unlock()
  end
  use()
  for _ = 1, 3 do
    remove()
    use()
  end
end

-- A worker that gets the request to stop does not take the last result.
bugs["grpc#660"] = function(is_correct)
  local stop = chan():name "stop"
  go(function()
    repeat
      local done = chan(is_correct and 1 or 0):name "done"
      go(function() done:put(true) end)
      local _, port = alts { stop, done }
    until port == stop
  end)
  go(function() stop:put(true) end)
end

-- Stopping a server keeps the lock, and stopping it again locks twice.
bugs["grpc#795"] = function(is_correct)
  local lock, drains = mutex(), false
  go(function()
    lock:lock()
    lock:unlock()
  end)
  for _ = 1, 3 do
    lock:lock()
    if drains and not is_correct then lock:lock() end
    drains = true
    if is_correct then lock:unlock() end
  end
end

-- Dialling fails, and the connection, which the caller has not got, is not closed.
bugs["grpc#862"] = function(is_correct)
  local ctx = context()
  go(function()
    local conn = context()
    go(function()
      local address = context(conn)
      for _ = 1, 2 do
        local _, port = alts { address.done, rn.timeout(2) }
        if port == address.done then return end
      end
      address.done:take()
    end)
    ctx.done:take()
    if is_correct then conn.cancel() end
  end)
  go(ctx.cancel)
end

return bugs
