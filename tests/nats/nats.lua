-- runner nats.lua [ROUNDS]: connections to a real server are used and closed in every way while messages arrive. The
-- sanitizers with which the runner is built watch; the state is closed while connections are open, one is being made,
-- and threads deliver. Skipped where nats-server is missing.
local t = t -- luacheck: globals t
local rn = require "runnel"
local is_built, nats = pcall(require, "runnel.nats")
package.path = "./?.lua;" .. package.path
local nats_server = require "spec.support.queue.nats_server"

if not is_built or not nats_server.installed then
  print("nats: skipped, because nats-server or libnats is not installed")
  return
end

t.limit(600)
local server = nats_server.start { jetstream = false } -- ends with this process
local url = server.url

local function serve(conn, ch)
  for message in ch do
    if not message:respond(message.data) then return end
  end
  return conn
end

local function count(ch)
  local n = 0
  for _ in ch do n = n + 1 end
  return n
end

local open -- a connection that is left open, until the next one is

local function round(number)
  local conn = assert(nats.connect(url, { encoding = "msgpack" }))
  local ch, sub = conn:subscribe("work", { max_waiting = 200 })
  rn.go(serve, conn, conn:subscribe "service")
  local counted = rn.go(count, ch)
  local taken, first = 0, rn.chan(1) -- by a subscription without a thread, as remote stages have
  local direct, direct_sub = conn:subscribe("work", { max_waiting = 200 }, function(data)
    assert(type(data) == "string")
    taken = taken + 1
    first:offer(true)
  end)
  assert(conn:flush())
  for i = 1, 300 do conn:publish("work", { ("x"):rep(i) }, { headers = { Name = "value" } }) end
  for i = 1, 20 do assert(conn:request("service", i).data) end
  for i = 1, 10 do conn:beat("work", "x", 1) conn:unbeat "work" conn:beat("work" .. i, "x", 1) end
  local asking = rn.go(function() return conn:request("service", "x", { timeout = 5 }) end)
  if number % 2 == 0 then rn.cancel(asking) end
  first:take()
  sub:stats()
  conn:stats()
  if number % 3 == 0 then sub:close() elseif number % 3 == 1 then ch:close() else rn.go(sub.drain, sub, 1000) end
  if number % 7 < 2 then direct_sub:close() elseif number % 7 < 4 then direct:close()
  elseif number % 7 == 4 then
    direct_sub:drain(1000)
    direct:take()
  end
  if number % 5 == 4 then server:kill() server:start() end
  if number % 4 == 0 then
    conn:drain(2000)
  elseif number % 4 < 3 then
    conn:close()
  else
    if open then open:close() end
    open = conn
  end
  if number % 4 < 3 then counted:take() end
  assert(taken > 0)
  collectgarbage()
end

for i = 1, tonumber(arg and arg[1] or ...) or 20 do round(i) end
assert(not nats.connect "nats://127.0.0.1:1")
rn.go(nats.connect, url)
rn.yield()

-- SIGTERM reaches all states that watch for it, while others begin and end to do so; and later ones at once.
local function watch_signals(times, told)
  local rn = require "runnel" -- luacheck: ignore 431
  local internal = require("runnel.core").internal
  for _ = 1, times do internal.sigterm_unwatch(internal.sigterm_watch(rn.chan(), 5000)) end
  local ch = rn.chan()
  local watch = internal.sigterm_watch(ch, 5000)
  told:put(true)
  ch:take() -- until the signal closes it
  for _ = 1, times do
    local again = rn.chan()
    local other = internal.sigterm_watch(again, 5000)
    again:take()
    internal.sigterm_unwatch(other)
  end
  internal.sigterm_unwatch(watch)
  return true
end
local told, threads = rn.shared_chan(10), {}
for i = 1, 3 do threads[i] = rn.thread(watch_signals, 100, told) end
for _ = 1, 3 do told:take() end
os.execute "kill -TERM $PPID"
for i = 1, 3 do assert(threads[i]:take() == true) end
print "nats: all rounds ended"
