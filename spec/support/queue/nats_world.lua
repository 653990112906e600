---Programs over NATS in a simulated world, for specs that search them.

local guard = require "runnel.internal.guard"
local nats_server = require "spec.support.queue.nats_server"
local rn = require "runnel"
local sim = require "runnel.sim"

local nats, missing = nats_server.library()

local nats_world = { nats = nats, missing = missing }

-- How long a program waits for what must come, ms.
local DEADLINE <const> = 120000

---Calls a function of the library until it succeeds.
function nats_world.insist(f, ...)
  while true do
    local result, more = f(...)
    if result then return result, more end
    rn.sleep(100)
  end
end

function nats_world.connect() return nats_world.insist(nats.connect, "nats://nats") end

---Takes a value that must come.
function nats_world.take(ch)
  local timer = guard.timer(DEADLINE)
  local value, port = rn.alts { ch, timer }
  if port == timer then error("it does not come", 0) end
  rn.cancel(timer)
  if value == nil then error((select(2, ch:take())), 0) end
  return value
end

---Runs a world. Warnings that JetStream does not answer for now are no failures; other errors are.
function nats_world.run(world)
  local failure
  rn.on_error(function(err)
    if not tostring(err):find "for now" then failure = failure or err end
  end)
  world:run()
  if failure ~= nil then error(failure, 0) end
end

---A world with a server, and a channel that closes when the work is done.
function nats_world.new_world(faults)
  local world = sim.world { faults = faults }
  world:nats("nats", { restart = 100 })
  return world, rn.chan()
end

local function counted(list)
  local parts = {}
  for value, n in pairs(list) do parts[#parts + 1] = value .. " x" .. n end
  table.sort(parts)
  return table.concat(parts, ", ")
end

-- What is in a stream: how often there is each value.
local function contents(conn, stream)
  local messages = nats_world.insist(conn.source, conn, stream)
  local state, found = nats_world.insist(function() return nats_world.insist(conn.stream, conn, stream):stats() end), {}
  for _ = 1, state.messages do
    local value = nats_world.take(messages).data
    found[value] = (found[value] or 0) + 1
  end
  messages:close()
  return counted(found)
end

-- Waits until a consumer has finished with all messages of its stream.
local function wait_until_done(conn, stream, consumer)
  local jetstream = require "runnel.nats.internal.jetstream"
  for _ = 1, 1000 do
    local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
    if info and info.num_pending == 0 and info.num_ack_pending == 0 then return end
    rn.sleep(200)
  end
  error("it is not done", 0)
end

---Adds a host that puts two messages into the stream "from", waits until a consumer has finished with them, and closes
---`over`. Returns a function with what the stream "to" has then.
function nats_world.add_client(world, over, consumer)
  local result
  world:host("client", function()
    local conn = nats_world.connect()
    nats_world.insist(conn.stream, conn, "from")
    nats_world.insist(conn.stream, conn, "to")
    local sink = nats_world.insist(conn.sink, conn, "from")
    for i = 1, 2 do nats_world.insist(sink.put, sink, "m" .. i, { id = tostring(i) }) end
    wait_until_done(conn, "from", consumer)
    result = contents(conn, "to")
    over:close()
    conn:drain()
  end)
  return function() return result end
end

---Adds a host with a worker of a remote stage, until `over` closes. `n`: how many jobs it does at the same time.
function nats_world.add_worker(world, over, host, name, n, f)
  world:host(host, function()
    local conn = nats_world.connect()
    local worker = nats_world.insist(function()
      local ok, found = pcall(conn.serve, conn, name, n, f)
      return ok and found
    end)
    over:take()
    worker:drain()
    conn:drain()
  end, { restart = 100 })
end

---Makes a remote stage; tries again until that succeeds.
function nats_world.remote(conn, name, opts)
  return nats_world.insist(function()
    local ok, found = pcall(conn.remote, conn, name, opts)
    return ok and found
  end)
end

---Raises an error unless these are the results of two messages that were worked on, each once.
function nats_world.check_once(result)
  if result ~= "m1 x1, m2 x1" then error("the results are: " .. result, 0) end
end

return nats_world
