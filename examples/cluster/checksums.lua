-- checksums.lua work STREAMS N: a worker. Takes paths from one stream, N at a time, and stores lines of CHECKSUM,
-- number of lines and path in another one, until SIGTERM.
-- checksums.lua run STREAMS REPLICAS: makes the streams, submits the paths of its standard input, prints each
-- result as it is stored, and ends when every path has one.
--
-- A durable stage: STREAMS-paths -> checksum -> STREAMS-sums. If workers and servers are killed while it runs, no
-- result is lost or stored twice. `make demo-cluster` checks that. RUNNEL_NATS_URL has the addresses of the servers.

local rn = require "runnel"
local nats = require "runnel.nats"

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path
local checksum = require "checksum"

local what, streams, number = arg[1], arg[2], math.tointeger(arg[3])
if not (number and number > 0 and (what == "work" or what == "run")) then
  io.stderr:write "usage: checksums.lua work STREAMS N | run STREAMS REPLICAS\n"
  os.exit(2)
end
local paths, sums = streams .. "-paths", streams .. "-sums"

local conn <close> = assert(nats.connect(nil, { name = "checksums " .. what, reconnect_wait = 100 }))

if what == "work" then
  local stage = assert(conn:stage(paths, number, checksum, sums, { name = "checksum", ack_wait = 1000 }))
  print "ready"
  io.stdout:flush()
  local ok, err = stage:wait()
  if not ok then error(err, 0) end
  return
end

for _, name in ipairs { paths, sums } do
  local made, err
  for _ = 1, 100 do -- the servers of a cluster that has just started do not know each other yet
    made, err = conn:stream(name, { replicas = number, duplicates = 600000 })
    if made then break end
    rn.sleep(100)
  end
  if not made then error(err, 0) end
end
local sink, results = assert(conn:sink(paths)), assert(conn:source(sums))
print "ready"
io.stdout:flush()

local waiting, count = {}, 0
for path in io.lines() do
  if not waiting[path] then
    waiting[path], count = true, count + 1
  end
end
rn.go(function()
  for path in pairs(waiting) do
    while not sink:put(path, { id = path }) do rn.sleep(100) end -- a cluster that elects a leader stores nothing
  end
end)

local done = {}
while count > 0 do
  local m, err = results:take()
  if not m then error(err, 0) end
  local path = m.value:match "^%S+ %d+ (.*)$"
  print(done[path] and "twice" or "done", m.value)
  io.stdout:flush()
  if not done[path] then
    done[path], count = true, count - 1
  end
end
rn.sleep(1500) -- a result that comes now was stored twice
local m = results:poll()
while m do
  print("twice", m.value)
  m = results:poll()
end
results:close()
