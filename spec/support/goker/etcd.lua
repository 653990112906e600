---etcd's blocking bugs in GoBench, restated: see cockroach.lua.

local rn = require "runnel"
local sim = require "runnel.sim"
local sync = require "spec.support.sync"

local go, chan, alts = rn.go, rn.chan, rn.alts
local mutex, rw_mutex, wait_group = sync.mutex, sync.rw_mutex, sync.wait_group

local bugs = {}

-- Renewing a lease calls a function, with the lock that the function takes.
bugs["etcd#10492"] = function(is_correct)
  local leases = mutex()
  leases:lock()
  if is_correct then leases:unlock() end
  local function checkpoint()
    leases:lock()
    leases:unlock()
  end
  checkpoint()
  if not is_correct then leases:unlock() end
end

-- A function returns early with a read lock.
bugs["etcd#5509"] = function(is_correct)
  local client, is_open, done = rw_mutex(), true, chan():name "done"
  go(function()
    while true do
      client:rlock()
      local closed = not is_open
      if closed and not is_correct then break end
      client:runlock()
      if closed then break end
    end
    done:close()
  end)
  client:lock()
  is_open = false
  client:unlock()
  client:lock()
  client:unlock()
  done:take()
end

-- Synchronizing the endpoints asks for the leader, and that needs the lock for reading.
bugs["etcd#6708"] = function(is_correct)
  local endpoints = rw_mutex()
  endpoints:lock()
  if is_correct then endpoints:unlock() end
  endpoints:rlock()
  endpoints:runlock()
  if not is_correct then endpoints:unlock() end
end

-- A node that has stopped is asked for its status.
bugs["etcd#6857"] = function(is_correct)
  local status, stop, done = chan():name "status", chan():name "stop", chan():name "done"
  go(function()
    while true do
      local answer, port = alts { status, stop }
      if port == stop then break end
      answer:put "fine"
    end
    done:close()
  end)
  go(function()
    local answer = chan(1)
    local port = status
    if is_correct then port = select(2, alts { { status, answer }, done }) else status:put(answer) end
    if port == status then answer:take() end
  end)
  go(function()
    local _, port = alts { { stop, true }, done }
    if port == stop then done:take() end
  end)
end

-- Stopping waits for the loop, with the lock that the loop takes.
bugs["etcd#6873"] = function(is_correct)
  local lock, updates, done = mutex(), chan(1):name "updates", chan():name "done"
  go(function()
    for _ in updates do
      lock:lock()
      lock:unlock()
    end
    done:close()
  end)
  updates:offer(true)
  go(function()
    lock:lock()
    updates:close()
    if is_correct then lock:unlock() end
    done:take()
    if not is_correct then lock:unlock() end
  end)
end

-- gRPC's balancer notifies the watcher of addresses over a channel of one, while it holds its lock. The watcher, which
-- would take from the channel, tears connections down, and that waits for the lock.
bugs["etcd#7443"] = function(is_correct)
  local lock, notify, pinned, is_closed = mutex(), chan(1):name "notify", 0, false
  notify:put { 0, 1, 2 }
  local function tell(addresses)
    if is_correct then
      notify:poll() -- replaces an untaken value
      notify:offer(addresses)
    else
      notify:put(addresses)
    end
  end
  local function down(address)
    lock:lock()
    if pinned == address then
      pinned = 0
      tell { 0, 1, 2 }
    end
    lock:unlock()
  end
  local function up(address)
    lock:lock()
    local was_closed = is_closed
    if not is_closed and pinned == 0 then
      pinned = address
      tell { address }
    end
    lock:unlock()
    return not was_closed
  end
  local function close_balancer()
    lock:lock()
    if not is_closed then
      is_closed = true
      notify:close()
      pinned = 0
    end
    lock:unlock()
  end
  local conns_lock, conns = mutex(), {}
  local function tear_down(conn)
    conn.lock:lock()
    if conn.is_up then down(conn.address) end
    conn.is_up = false
    conn.lock:unlock()
  end
  local function add(address)
    local conn = { lock = mutex(), address = address }
    conns_lock:lock()
    local is_open = conns ~= nil
    if is_open then conns[address] = conn end
    conns_lock:unlock()
    if not is_open then return end
    go(function()
      conn.lock:lock()
      conn.is_up = up(address)
      conn.lock:unlock()
    end)
  end
  go(function()
    for addresses in notify do
      local kept, new, old = {}, {}, {}
      for _, address in ipairs(addresses) do kept[address] = true end
      conns_lock:lock()
      for address = 0, 2 do
        local conn = conns and conns[address]
        if kept[address] and not conn then new[#new + 1] = address end
        if conn and not kept[address] then
          old[#old + 1] = conn
          conns[address] = nil
        end
      end
      conns_lock:unlock()
      for _, address in ipairs(new) do add(address) end
      for _, conn in ipairs(old) do tear_down(conn) end
    end
  end)
  local closed = go(close_balancer)
  go(function()
    conns_lock:lock()
    local list = conns
    conns = nil
    conns_lock:unlock()
    close_balancer()
    for address = 0, 2 do
      if list[address] then tear_down(list[address]) end
    end
  end)
  closed:take()
end

-- A token is added over a channel of one with the lock; the loop that takes it deletes old tokens with the same lock.
bugs["etcd#7492"] = function(is_correct)
  local lock, tokens, stop, users = mutex(), chan(1):name "tokens", chan():name "stop", wait_group(3)
  go(function()
    while true do
      local value, port = alts { tokens, stop }
      if port == stop then
        value:put(true)
        return
      end
      if sim.choose(2) == 2 then -- it is time to delete some
        lock:lock()
        lock:unlock()
      end
    end
  end)
  for _ = 1, 3 do
    go(function()
      lock:lock()
      if is_correct then lock:unlock() end
      tokens:put(true)
      if not is_correct then lock:unlock() end
      users:done()
    end)
  end
  users:wait()
  local stopped = chan()
  stop:put(stopped)
  stopped:take()
end

-- A follower waits for the next round with the lock that the leader needs to begin it.
bugs["etcd#7902"] = function(is_correct)
  local lock, over, ready = mutex(), chan():name "round", wait_group(3)
  for i = 1, 3 do
    go(function()
      ready:done()
      if i == 1 then ready:wait() end
      if not is_correct then lock:lock() end
      if i == 1 then over:close() end
      over:take()
      if not is_correct then lock:unlock() end
    end)
  end
end

return bugs
