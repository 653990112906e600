---Real nats-servers for specs: with JetStream, on free loopback ports, with a store of their own. They end with the
---spec's process.
---
---    local server <close> = nats_server.start()
---    local conn = nats.connect(server.url)
---    server:kill()     -- SIGKILL
---    server:start()    -- again, on the same port, with the same store

local background = require "spec.support.background"
local free_port = require "spec.support.free_port"
local patience = require "spec.support.patience"

local nats_server = {}

local Server, Cluster, Proxy = {}, {}, {}
Server.__index, Cluster.__index, Proxy.__index = Server, Cluster, Proxy

---Whether nats-server is installed. If not, specs are pending with nats_server.MISSING.
nats_server.installed = background.has_command "nats-server"
nats_server.MISSING = "nats-server is not installed"

---Whether nats-server, which is installed, is this version or a later one.
---@param version string as "2.10" or "2.9.10"
---@return boolean
function nats_server.is_since(version)
  local program <close> = assert(io.popen "nats-server --version")
  local said = assert(program:read("a"):match "v(%d[%d.]*)", "nats-server does not say its version")
  local mine, numbers = version:gmatch "%d+", said:gmatch "%d+"
  for wanted in mine do
    local has = tonumber(numbers()) or 0
    if has ~= tonumber(wanted) then return has > tonumber(wanted) end
  end
  return true
end

---runnel.nats; or nil, and why specs with real servers are pending.
---@return table?
---@return string? missing
function nats_server.library()
  if not nats_server.installed then return nil, nats_server.MISSING end
  local is_built, nats = pcall(require, "runnel.nats")
  if is_built then return nats end
  return nil, "runnel.nats is not built, because libnats was missing"
end

local function config_of(server)
  local set, options, lines = server.set, server.options, {}
  local function add(format, ...) lines[#lines + 1] = format:format(...) end
  add("listen: 127.0.0.1:%d", server.port)
  add("server_name: %s", server.name)
  if options.jetstream ~= false then
    local disk = options.disk and (", max_file_store: %d"):format(options.disk) or ""
    add('jetstream { store_dir: "%s/%s-store"%s }', set.dir, server.name, disk)
  end
  if options.max_payload then add("max_payload: %d", options.max_payload) end
  if options.token then add("authorization { token: %q }", options.token) end
  if options.user then add("authorization { user: %q, password: %q }", options.user, options.password) end
  if options.tls then
    local clients = options.tls == "both" and (', ca_file: "%s/cert.pem", verify: true'):format(set.dir) or ""
    -- The server's own limit for a handshake is 2 s, which a slow machine exceeds.
    add('tls { cert_file: "%s/cert.pem", key_file: "%s/key.pem", timeout: 30%s }', set.dir, set.dir, clients)
  end
  if server.routes then
    add("cluster { name: spec, listen: 127.0.0.1:%d, routes: [%s] }", server.cluster_port, server.routes)
  end
  add("%s", options.config or "")
  -- The server's own limit for a login is 2 s, which a slow machine exceeds.
  return (table.concat(lines, "\n"):gsub("authorization {", "%0 timeout: 30,")) .. "\n"
end

local function new_server(set, name, options)
  return setmetatable({ set = set, name = name, options = options }, Server)
end

-- Chooses the port, which stays the same until the end.
local function choose_port(server)
  server.port = free_port()
  local who = server.options.user and server.options.user .. ":" .. server.options.password .. "@"
    or server.options.token and server.options.token .. "@" or ""
  server.url = ("%s://%s127.0.0.1:%d"):format(server.options.tls and "tls" or "nats", who, server.port)
end

-- A certificate for 127.0.0.1 that is its own authority.
local function make_certificate(set)
  local log = set.dir .. "/openssl.log"
  local done = os.execute(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost " ..
    "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout %s/key.pem -out %s/cert.pem >%s 2>&1")
    :format(set.dir, set.dir, log))
  assert(done, "openssl has failed: see " .. log)
end

---Starts the server, also again after stop() or kill(). Returns itself.
---@param no_wait? boolean do not wait until it is ready
function Server:start(no_wait)
  assert(not self:running(), "the server runs already")
  self.program = self.set:start { "nats-server", "-c", self.set:write(self.name .. ".conf", config_of(self)) }
  if not no_wait then self:ready() end
  return self
end

---Waits until the server accepts connections.
function Server:ready()
  if self.program:says "Server is ready" then return self end
  error(("%s is not ready:\n%s"):format(self.name, self.program:output()), 2)
end

function Server:running() return self.program ~= nil and self.program:status() == nil end

---Stops it as an operator does, and waits until it has ended.
function Server:stop()
  self.program:signal "TERM"
  assert(self.program:wait(), "the server did not stop")
end

---Kills it with SIGKILL, and waits until it has ended. Not while the file of a consumer's state is empty, as it is
---while the server writes it anew: it would start without that state. `empty_state` does this on purpose.
function Server:kill()
  local is_empty = ("find '%s/%s-store' -name o.dat -size 0 2>/dev/null | grep -q ."):format(self.set.dir, self.name)
  patience.wait_until(function()
    self:pause()
    if not os.execute(is_empty) then return true end
    self:resume()
  end, 2000)
  self.program:signal "KILL"
  assert(self.program:wait(), "the server was not killed")
end

-- A file or a folder of a stream, in the server's store.
local function path_of(server, stream, name)
  return ("%s/%s-store/jetstream/$G/streams/%s/%s"):format(server.set.dir, server.name, stream, name)
end

---Copies files of a stream: "msgs", the messages, or "obs", the state of its consumers.
function Server:keep(stream, name)
  local path = path_of(self, stream, name)
  assert(os.execute(("rm -rf '%s.kept' && cp -r '%s' '%s.kept'"):format(path, path, path)))
end

---Replaces the present files by those that `keep` has copied, to simulate the losses of a killed server. The server
---must not run.
function Server:bring_back(stream, name)
  local path = path_of(self, stream, name)
  assert(os.execute(("rm -r '%s' && mv '%s.kept' '%s'"):format(path, path, path)))
end

-- The consumer's state as the server has written it; nil if it has written none.
local function written(self, stream, consumer)
  local file <close> = io.open(path_of(self, stream, ("obs/%s/o.dat"):format(consumer)), "rb")
  local text, at, numbers = file and file:read "a" or "", 3, {} -- a magic number and the version come first
  for i = 1, 5 do -- each has 7 bits in a byte, the lowest first; the last byte is below 128
    local bytes = text:match("^[\x80-\xff]*[\0-\x7f]", at)
    if not bytes then return nil end
    numbers[i], at = 0, at + #bytes
    for k = #bytes, 1, -1 do numbers[i] = numbers[i] << 7 | bytes:byte(k) & 0x7f end
  end
  return { delivered = numbers[4], pending = numbers[5] }
end

---Waits until the server has written that a consumer has delivered the stream's messages up to a number, and how many
---of them are not acknowledged. A busy disk may take seconds.
---@param delivered integer
---@param pending integer
function Server:wait_until_written(stream, consumer, delivered, pending)
  local state
  local is_written = patience.wait_until(function()
    state = written(self, stream, consumer)
    return state and state.delivered == delivered and state.pending == pending
  end)
  local found = state and ("%d delivered, %d pending"):format(state.delivered, state.pending) or "nothing"
  assert(is_written, "the server has written: " .. found)
end

---Empties the file with the state of a consumer.
function Server:empty_state(stream, consumer)
  assert(io.open(path_of(self, stream, ("obs/%s/o.dat"):format(consumer)), "w")):close()
end

---Halts the process, which keeps its connections: clients see a server that does not answer. Waits until it has halted,
---since on a busy machine it could answer once more. (Without /proc this is unknown.)
function Server:pause()
  self.program:signal "STOP"
  patience.wait_until(function()
    local file <close> = io.open(("/proc/%d/stat"):format(self.program.pid))
    return not file or file:read("a"):match "^%d+ %b() T"
  end)
end
function Server:resume() self.program:signal "CONT" end

---The log of this run.
function Server:log() return self.program:output() end

---Ends it, with its store and the programs started with server.set:start.
function Server:close() self.set:close() end
Server.__close = Server.close

local function start_first(server)
  for _ = 1, 20 do
    choose_port(server)
    server.set:write(server.name .. ".conf", config_of(server))
    server:start(true)
    if server.program:says "Server is ready" then return server end
    if not server:log():find("address already in use", 1, true) then break end
  end
  local log = server:log()
  server:close()
  error("nats-server did not start:\n" .. log, 3)
end

---Starts a server. Its fields: url, port, name; cert and key (the paths of its certificate and its key, with tls); set,
---the set of its programs (spec/support/background.lua).
---Options: user and password, or token; tls (with "both", clients need a certificate, too), max_payload;
---jetstream = false; disk, the bytes that its streams may take; config, further text of its configuration.
---@param options? table
function nats_server.start(options)
  local set = background.set()
  local server = new_server(set, "server", options or {})
  if server.options.tls then
    make_certificate(set)
    server.cert, server.key = set.dir .. "/cert.pem", set.dir .. "/key.pem"
  end
  return start_first(server)
end

-- Whether the leader knows all servers, so that a stream can have a replica on each. On a busy machine, the leader of a
-- cluster of nats-server 2.10 sometimes never learns of one of them.
local function knows_all(cluster)
  local conn <close> = assert(require("runnel.nats").connect(cluster.url, { reconnect_wait = 20 }))
  local function ask(what, settings) return conn:request("$JS.API.STREAM." .. what .. ".probe", settings) end
  local settings = ('{"name":"probe","subjects":["probe"],"storage":"memory","num_replicas":%d}')
    :format(#cluster.servers)
  return patience.wait_until(function()
    local answer = ask("CREATE", settings)
    return answer and not answer.data:find('"error"', 1, true) and ask("DELETE", "") ~= nil
  end, 5000)
end

---Starts a cluster of n servers, and waits until JetStream has a leader, which knows all of them. Its fields: servers,
---a list; url, the addresses with commas between them; set.
---@param n? integer 3 by default
function nats_server.cluster(n, options)
  for _ = 1, 5 do
    local set = background.set()
    local cluster = setmetatable({ set = set, servers = {} }, Cluster)
    local routes, urls = {}, {}
    for i = 1, n or 3 do
      local server = new_server(set, "server" .. i, options or {})
      choose_port(server)
      server.cluster_port = free_port()
      cluster.servers[i], urls[i] = server, server.url
      routes[i] = ("nats://127.0.0.1:%d"):format(server.cluster_port)
    end
    cluster.url = table.concat(urls, ",")
    for _, server in ipairs(cluster.servers) do
      server.routes = table.concat(routes, ", ")
      server:start(true)
    end
    local has_leader = cluster:ready()
    if has_leader and knows_all(cluster) then return cluster end
    local log = cluster:log()
    cluster:close()
    assert(has_leader or log:find("address already in use", 1, true), "the cluster did not start:\n" .. log)
  end
  error "found no free ports for a cluster, or its servers do not know each other"
end

---Waits until JetStream has a leader; false if it does not get one.
function Cluster:ready()
  return patience.wait_until(function()
    local led = false
    for _, server in ipairs(self.servers) do
      if not server:running() then return "no" end
      led = led or server:log():find "JetStream cluster new metadata leader" ~= nil
    end
    return led and "yes"
  end) == "yes"
end

function Cluster:log()
  local logs = {}
  for i, server in ipairs(self.servers) do logs[i] = server:log() end
  return table.concat(logs)
end

---What is wrong, and what the servers have said last.
---@param err any
---@return string
function Cluster:explain(err)
  local parts = { tostring(err) }
  for _, server in ipairs(self.servers) do
    parts[#parts + 1] = ("%s%s: %s"):format(server.name, server:running() and "" or " (has ended)",
      server:log():sub(-1500))
  end
  return table.concat(parts, "\n")
end

function Cluster:close() self.set:close() end
Cluster.__close = Cluster.close

-- ---- a network that fails ----

local PROXY = debug.getinfo(1, "S").source:match "^@(.*)nats_server%.lua$" .. "proxy.lua"

---Whether nats_server.proxy can be used: it needs luv.
nats_server.has_proxy = pcall(require, "luv")

---A proxy on loopback before a server. Its fields: url, port. stall() holds back all data, flow() lets it pass again,
---drop() loses all data of existing connections, without an error; new ones work. slow() delays all data. cut() closes
---all connections, refuse() closes them and each new one until flow(). deafen() loses the server's data until flow();
---call flow() when the server has no more to send, since clients read whole messages.
function nats_server.proxy(server)
  for _ = 1, 20 do
    local port = free_port()
    local control = server.set.dir .. "/proxy" .. port
    local program = server.set:start { os.getenv "LUA" or "lua5.4", PROXY, port, server.port, control }
    if program:says "ready" then
      local url = server.url:gsub(":%d+$", ":" .. port)
      return setmetatable({ program = program, control = control, port = port, url = url, sent = 0 }, Proxy)
    end
    assert(program:output():find "EADDRINUSE", program:output())
  end
  error "found no free port for a proxy"
end

local function tell(name)
  return function(self)
    self.sent = self.sent + 1
    local file = assert(io.open(self.control, "a"))
    file:write(name, "\n")
    file:close()
    assert(self.program:says(("done %d"):format(self.sent)), "the proxy did not answer")
  end
end
Proxy.stall, Proxy.deafen, Proxy.slow, Proxy.flow = tell "stall", tell "deafen", tell "slow", tell "flow"
Proxy.cut, Proxy.refuse, Proxy.drop = tell "cut", tell "refuse", tell "drop"

return nats_server
