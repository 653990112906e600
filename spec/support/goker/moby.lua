---Docker's blocking bugs in GoBench, restated: see cockroach.lua.

local rn = require "runnel"
local sim = require "runnel.sim"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, wait_group = sync.mutex, sync.wait_group

local bugs = {}

-- A function returns early with the lock, if there is nothing to delete.
bugs["moby#17176"] = function(is_correct)
  local devices, done = mutex(), chan():name "done"
  devices:lock()
  if is_correct then devices:unlock() end
  go(function()
    devices:lock()
    devices:unlock()
    done:put(true)
  end)
  alts { done, rn.timeout(1) }
end

-- The go block that checks the progress of transfers gives up at the first surprise; those that report it wait.
bugs["moby#21233"] = function(is_correct)
  local progress, done = chan():name "progress", chan():name "done"
  go(function()
    for _ in progress do
      if not is_correct and sim.choose(2) == 2 then return end
    end
    done:close()
  end)
  local transfers = {}
  for i = 1, 2 do
    local release, ended = chan():name "release", chan():name "ended"
    transfers[i] = { release = release, ended = ended }
    go(function()
      if sim.choose(2) == 2 then progress:put(i) end
      release:take()
      if sim.choose(2) == 2 then progress:put(i) end
      ended:close()
    end)
  end
  for _, transfer in ipairs(transfers) do
    transfer.release:close()
    transfer.ended:take()
  end
  progress:close()
  done:take()
end

-- Each round waits for all rounds.
bugs["moby#25384"] = function(is_correct)
  local plugins = wait_group(2)
  for _ = 1, 2 do
    go(function() plugins:done() end)
    if not is_correct then plugins:wait() end
  end
  plugins:wait()
end

-- A watch is removed: that waits for an event about it, which the reader of events may never get.
bugs["moby#27782"] = function(is_correct)
  local events, done, closed = chan():name "events", chan():name "done", chan():name "closed"
  local lock = mutex()
  local removed = sync.cond(lock)
  go(function()
    while not done:closed() do alts { { events, "write" }, done } end
    events:close()
  end)
  go(function()
    local _, port = alts { events, closed }
    if port == closed then
      lock:lock()
      if not is_correct then removed:wait() end
      lock:unlock()
    end
    done:close()
  end)
  closed:close()
end

-- A monitor is stopped by a message, with the lock that it takes between two looks at its messages.
bugs["moby#28462"] = function(is_correct)
  local container, stop = mutex(), chan():name "stop"
  go(function()
    while true do
      local _, port = alts({ stop }, { default = true })
      if port == stop then return end
      container:lock()
      container:unlock()
    end
  end)
  go(function()
    container:lock()
    if is_correct then stop:close() else stop:put(true) end
    container:unlock()
  end)
end

-- A plugin waits to be active, and no go block tells it.
bugs["moby#29733"] = function(is_correct)
  local lock, is_active = mutex(), false
  local cond = sync.cond(lock)
  go(function()
    lock:lock()
    is_active = is_correct
    cond:broadcast()
    lock:unlock()
  end)
  for _ = 1, 2 do
    local done = chan():name "done"
    go(function()
      lock:lock()
      while not is_active do cond:wait() end
      lock:unlock()
      done:close()
    end)
    done:take()
  end
end

-- A plugin failed to become active; its waiters check only whether it is active.
bugs["moby#30408"] = function(is_correct)
  local lock, manifest, err = mutex(), nil, "some failure"
  local cond, done = sync.cond(lock), chan():name "done"
  go(function()
    lock:lock()
    while not (manifest or is_correct and err) do cond:wait() end
    lock:unlock()
    done:close()
  end)
  done:take()
end

-- An error is put on a channel that is about to be returned.
bugs["moby#33293"] = function(is_correct)
  go(function()
    local errors = chan(is_correct and 1 or 0):name "errors"
    if sim.choose(2) == 2 then errors:put "an error" end
    return errors
  end)
end

-- A probe is under way when the monitor is stopped.
bugs["moby#33781"] = function(is_correct)
  local stop = chan():name "stop"
  go(function()
    while true do
      local _, port = alts { stop, rn.timeout(50) }
      if port == stop then return end
      local results = chan(is_correct and 1 or 0):name "results"
      go(function() results:put(true) end)
      _, port = alts { stop, results, rn.timeout(50) }
      if port == stop then return end
      if port ~= results then results:take() end
    end
  end)
  go(function()
    rn.sleep(50)
    stop:put(true)
  end)
end

-- A function locks what its caller has locked.
bugs["moby#36114"] = function(is_correct)
  local vm = mutex()
  go(function()
    vm:lock()
    if is_correct then vm:unlock() end
    vm:lock()
    vm:unlock()
    if not is_correct then vm:unlock() end
  end)
end

-- A function's error goes to a channel without a reader.
bugs["moby#4395"] = function(is_correct)
  local errors = chan(is_correct and 1 or 0):name "errors"
  go(function() errors:put "an error" end)
end

-- A device is removed: with its lock, the lock of all devices is released for a while, and taken again.
bugs["moby#4951"] = function(is_correct)
  local devices, device = mutex(), mutex()
  for _ = 1, 2 do
    go(function()
      if is_correct then device:lock() end
      devices:lock()
      if not is_correct then device:lock() end
      devices:unlock()
      rn.sleep(300)
      devices:lock()
      device:unlock()
      devices:unlock()
    end)
  end
end

-- The next attempt begins with the lock of the one that failed.
bugs["moby#7559"] = function(is_correct)
  local track = mutex()
  go(function()
    for _ = 1, 2 do
      track:lock()
      local fails = sim.choose(2) == 2
      if not fails or is_correct then track:unlock() end
      if not fails then break end
    end
  end)
end

return bugs
