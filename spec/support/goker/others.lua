---Blocking bugs of Hugo, Istio, Knative's serving and Syncthing in GoBench, restated: see cockroach.lua.

local rn = require "runnel"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, rw_mutex, wait_group, context = sync.mutex, sync.rw_mutex, sync.wait_group, sync.context

local bugs = {}

-- Each URL has a lock. It is taken with the lock of the table, which is needed to release it.
bugs["hugo#3251"] = function(is_correct)
  local urls, url, all = rw_mutex(), mutex(), wait_group(3)
  for _ = 1, 3 do
    go(function()
      urls:lock()
      if is_correct then urls:unlock() end
      url:lock()
      if not is_correct then urls:unlock() end
      urls:rlock()
      url:unlock()
      urls:runlock()
      all:done()
    end)
  end
  all:wait()
end

-- A page's content is made once, with a lock, and counts the words of the page, which is done once, with that lock.
bugs["hugo#5379"] = function(is_correct)
  local lock, content, plain = mutex(), sync.once(), sync.once()
  local init
  local function count_words()
    init()
    plain:run(function()
      lock:lock()
      lock:unlock()
    end)
  end
  function init()
    content:run(function()
      local made = chan(1):name "made"
      go(function()
        lock:lock()
        if is_correct then lock:unlock() end
        count_words()
        if not is_correct then lock:unlock() end
        made:put(true)
      end)
      alts { made, rn.timeout(1) }
    end)
  end
  local pages = wait_group(2)
  for _ = 1, 2 do
    go(function()
      count_words()
      pages:done()
    end)
  end
  pages:wait()
end

-- A handler of events reports with a lock that the waiter for the report takes first; and the stopped monitor waits for
-- another event.
bugs["istio#16224"] = function(is_correct)
  local lock, events, stop = mutex(), chan():name "events", chan():name "stop"
  local handled = chan(is_correct and 1 or 0):name "handled"
  go(function()
    while true do
      local _, port = alts { events, stop }
      if port == stop then
        if not is_correct then events:take() end
        return
      end
      lock:lock()
      handled:put(true)
      lock:unlock()
    end
  end)
  events:put(true)
  lock:lock()
  lock:unlock()
  handled:take()
  stop:close()
end

-- An agent ends when its last known process has; the reports of later processes have no reader.
bugs["istio#17860"] = function(is_correct)
  local ctx, lock, exits = context(), mutex(), chan(is_correct and 2 or 0):name "exits"
  local alive, epoch = 0, 0
  go(function()
    repeat
      local _, port = alts { exits, ctx.done }
      if port == ctx.done then return end
      lock:lock()
      alive = alive - 1
      local is_last = alive == 0
      lock:unlock()
    until is_last
  end)
  local function restart()
    lock:lock()
    epoch, alive = epoch + 1, alive + 1
    local of = epoch
    go(function() exits:put(of) end)
    lock:unlock()
  end
  restart()
  go(restart)
  rn.sleep(200)
  ctx.cancel()
end

-- A timer is reset: if it has fired, its tick is taken first; but the loop may have taken it already.
bugs["istio#18454"] = function(is_correct)
  local lock, reset, worker, processor = mutex(), chan(1):name "reset", context(), context()
  local timer, ticks
  local function start()
    ticks = chan(1):name "ticks"
    local mine = ticks
    timer = sync.after(function() mine:offer(true) end)
  end
  local function changed()
    lock:lock()
    if timer then
      lock:unlock()
      reset:put(true)
      return
    end
    start()
    go(function()
      while true do
        local _, port = alts { ticks, reset, worker.done }
        if port == reset then
          if not timer.stop() then
            if is_correct then ticks:poll() else ticks:take() end
          end
          start()
        elseif port == worker.done then
          timer.stop()
          return
        end
      end
    end)
    lock:unlock()
  end
  local events = chan(3):name "events"
  for i = 1, 3 do events:put(i) end
  go(function()
    while true do
      local _, port = alts { events, processor.done }
      if port == processor.done then break end
      changed()
    end
    worker.cancel()
  end)
  rn.yield()
  processor.cancel()
end

-- Two requests hold a lock each; they are released one after the other, but the second one may have the only place.
bugs["serving#2137"] = function(is_correct)
  local pending, active, requests = chan(2):name "pending", chan(1):name "active", {}
  for i = 1, 2 do
    local request = { lock = mutex(), accepted = chan(1):name "accepted" }
    requests[i] = request
    request.lock:lock()
    local started = wait_group(1)
    go(function()
      started:done()
      rn.yield()
      local is_accepted = pending:offer(true)
      if is_accepted then
        active:put(true)
        request.lock:lock()
        request.lock:unlock()
        active:take()
        pending:take()
      end
      request.accepted:put(is_accepted ~= nil)
    end)
    started:wait()
  end
  for _, request in ipairs(requests) do
    request.lock:unlock()
    if not is_correct then request.accepted:take() end
  end
  for _, request in ipairs(is_correct and requests or {}) do request.accepted:take() end
end

-- Removing addresses notifies, with the lock that the notification takes.
bugs["syncthing#4829"] = function(is_correct)
  local addresses = rw_mutex()
  addresses:lock()
  if is_correct then addresses:unlock() end
  addresses:rlock()
  addresses:runlock()
  if not is_correct then addresses:unlock() end
end

-- A message leads to a close, which waits for the loop that handles the message.
bugs["syncthing#5795"] = function(is_correct)
  local inbox, closed, stopped = chan():name "inbox", chan():name "closed", chan():name "stopped"
  local function close()
    closed:close()
    stopped:take()
  end
  go(function() closed:take() end)
  go(function()
    while true do
      local _, port = alts { inbox, closed }
      if port == closed then break end
      if is_correct then go(close) else close() end
    end
    stopped:close()
  end)
  inbox:put "cluster config"
  stopped:take()
end

return bugs
