---Programs over NATS in a simulated world, for specs that search them.

local guard = require "runnel.internal.guard"
local rn = require "runnel"
local sim = require "runnel.sim"

local is_built, nats = pcall(require, "runnel.nats")

local nats_world = {
  nats = is_built and nats or nil,
  missing = not is_built and "runnel.nats is not built, because libnats was missing" or nil,
}

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

---@param opts? table of nats.connect
function nats_world.connect(opts) return nats_world.insist(require("runnel.nats").connect, "nats://nats", opts) end

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

---Waits until a consumer has finished with all messages of its stream.
function nats_world.wait_until_done(conn, stream, consumer)
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
    nats_world.wait_until_done(conn, "from", consumer)
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

-- ---- a server, workers and submitters for one function ----

-- How connections are made: they try again soon, so that they are back before messages are lost with their leases.
local SOON <const> = { reconnect_wait = 50 }

-- A host "nats" with a server, and a function that runs on a host "program".
local Place = {}
Place.__index = Place

---A connection of the program.
function Place:connect()
  local conn = nats_world.connect(SOON)
  self.conns[#self.conns + 1] = conn
  return conn
end

---Runs f(conn) on a host of its own, and again when that starts again. Returns what it returns, and the host.
---@param name string of the host
---@param f fun(conn: runnel.nats.Connection): any
function Place:on_host(name, f)
  local results = rn.chan(10)
  local host = self.world:host(name, function() results:put(f(nats_world.connect(SOON)) or true) end)
  return results:take(), host
end

---A worker of the remote stage "job", on a host of its own.
---@param n integer
---@param f function
---@param opts? { host?: string, name?: string } and options of conn:serve
---@return runnel.Worker worker
---@return runnel.sim.Host host
function Place:worker(n, f, opts)
  local options = {}
  for key, value in pairs(opts or {}) do options[key] = value end
  self.nworkers = self.nworkers + 1
  local host, name = options.host or "worker" .. self.nworkers, options.name or "job"
  options.host, options.name = nil, nil
  return self:on_host(host, function(conn) return conn:serve(name, n, f, options) end)
end

---The remote stage "job", and its connection.
---@param opts? table of conn:remote, and `name`
---@return runnel.Remote remote
---@return runnel.nats.Connection conn
function Place:remote(opts)
  local options = { traceback = false }
  for key, value in pairs(opts or {}) do options[key] = value end
  local conn, name = self:connect(), options.name or "job"
  options.name = nil
  return conn:remote(name, options), conn
end

---Resets a connection: what is on its way is lost.
---@param conn runnel.nats.Connection
function Place:reset(conn) -- luacheck: no self
  local socket = conn.core.socket
  if socket and socket.stream then socket.stream:break_both(0) end
end

---The server's stream of the jobs.
---@return runnel.sim.Stream
function Place:stream()
  for _, stream in ipairs(self.world.nats_servers[self.server].streams) do
    if stream.name == "runnel-jobs-job" then return stream end
  end
  error("there is no stream of the jobs", 2)
end

---How many jobs the server has.
---@return integer
function Place:count() return self:stream().count end

---The requests for jobs that wait at the server: for how many jobs each one still is.
---@return integer[]
function Place:requests()
  local list = {}
  for _, consumer in ipairs(self:stream().consumers) do
    for _, pull in ipairs(consumer.pulls) do list[#list + 1] = pull.left end
  end
  return list
end

---Runs f(place) on a host of a simulated world, beside a NATS server that never fails by itself. `place.intercept` may
---be set as the option of World:nats.
---@param f fun(place: table)
---@param opts? table of World:nats
---@param settings? table of sim.run
---@param faults? table<string, integer>
function nats_world.program(f, opts, settings, faults)
  sim.run(function()
    local place = setmetatable({ world = sim.world { faults = faults }, conns = {}, nworkers = 0 }, Place)
    local options = { intercept = function(...) return place.intercept and place.intercept(...) end }
    for key, value in pairs(opts or {}) do options[key] = value end
    place.server = place.world:nats("nats", options)
    place.world:host("program", function()
      f(place)
      for _, conn in ipairs(place.conns) do conn:close() end
      for _, host in ipairs(place.world.hosts) do
        if host.name ~= "program" then host:kill() end
      end
    end)
    place.world:run()
  end, settings)
end

return nats_world
