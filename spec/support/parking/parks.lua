---Calls that park in reality, of all functions and methods of the manual that do: each in a state in which it parks.
---Each gets a setting `s` and `call(f, ...)`, with which it calls the function once.

local rn = require "runnel"

-- Without anything around.
local core = {
  ["alts rn.alts"] = function(_, call) call(rn.alts, { rn.timeout(1) }) end,
  ["alts rn.alt"] = function(_, call) call(rn.alt, { { rn.timeout(1), function() end } }) end,
  ["channels ch:take"] = function(_, call)
    local ch = rn.timeout(1)
    call(ch.take, ch)
  end,
  ["channels ch:list"] = function(_, call)
    local ch = rn.timeout(1)
    call(ch.list, ch)
  end,
  ["channels ch:put"] = function(_, call)
    local ch = rn.chan()
    rn.go(ch.take, ch)
    call(ch.put, ch, 1)
  end,
  ["go-blocks rn.yield"] = function(_, call) call(rn.yield) end,
  ["keepers keepers.put_while_open"] = function(_, call)
    local ch = rn.chan()
    rn.go(ch.take, ch)
    call(require "runnel.queue.keeper".put_while_open, ch, 1)
  end,
  ["pipelines rn.retry"] = function(_, call) call(rn.retry, rn.sleep, nil, 1) end,
  ["profile rn.profile"] = function(_, call) call(rn.profile, function() rn.sleep(1) end) end,
  ["scopes rn.shield"] = function(_, call) call(rn.shield, rn.sleep, nil, 1) end,
  ["scopes s:shield"] = function(_, call)
    rn.scope(function(scope) call(scope.shield, scope, rn.sleep, nil, 1) end)
  end,
  ["scopes rn.supervise"] = function(_, call)
    call(rn.supervise, { { "a", function() rn.sleep(1) end, again = "never" } })
  end,
  ["scopes rn.scope"] = function(_, call) call(rn.scope, function(scope) scope:go(rn.sleep, 1) end) end,
  ["time rn.sleep"] = function(_, call) call(rn.sleep, 1) end,
}
for _, name in ipairs { "drain", "stop", "wait" } do
  core["flow f:" .. name] = function(_, call)
    local f = require "runnel.flow"("name", { a = { from = { 1, 2 } }, b = function(v) rn.sleep(v) end, "a > b" })
    f:start()
    call(f[name], f)
  end
end

-- `s.path` is that of a file.
local sqlite = {
  ["sqlite sqlite.open"] = function(s, call) call(require "runnel.sqlite".open, s.path) end,
}

local function of_database(name, f)
  sqlite["sqlite " .. name] = function(s, call)
    local db <close> = require "runnel.sqlite".open(s.path)
    f(db, call)
  end
end

for name, sql in pairs { exec = "create table t(a)", rows = "select 1", one = "select 1" } do
  of_database("db:" .. name, function(db, call) call(db[name], db, sql) end)
  of_database("tx:" .. name, function(db, call) db:transaction(function(tx) call(tx[name], tx, sql) end) end)
end
of_database("db:transaction", function(db, call) call(db.transaction, db, function() end) end)
of_database("db:close", function(db, call) call(db.close, db) end)

-- `s.path` is that of a file, `s.port` a port of a server that sends back what it gets, `s.command` a command.
local io = {
  ["io reader:read"] = function(s, call)
    local r <close> = require "runnel.uv".reader(s.path)
    call(r.read, r, 1)
  end,
  ["io reader:read_until"] = function(s, call)
    local r <close> = require "runnel.uv".reader(s.path)
    call(r.read_until, r, "x")
  end,
  ["io reader:line"] = function(s, call)
    local r <close> = require "runnel.uv".reader(s.path)
    call(r.line, r)
  end,
  ["io uv.connect"] = function(s, call) call(require "runnel.uv".connect, "127.0.0.1", s.port) end,
  ["io uv.udp"] = function(_, call) call(require "runnel.uv".udp, { host = "localhost" }) end,
  ["io sock:connect"] = function(_, call)
    local sock <close> = assert(require "runnel.uv".udp {})
    call(sock.connect, sock, "localhost", 9)
  end,
  ["io sock:send"] = function(_, call)
    local sock <close> = assert(require "runnel.uv".udp {})
    call(sock.send, sock, "x", "localhost", 9)
  end,
  ["io uv.run"] = function(s, call) call(require "runnel.uv".run, { s.command }) end,
  ["io conn:write"] = function(s, call)
    local conn <close> = assert(require "runnel.uv".connect("127.0.0.1", s.port))
    local read = conn:read()
    rn.go(function()
      rn.sleep(20)
      for _ in read do end
    end)
    call(conn.write, conn, ("x"):rep(s.much))
  end,
}

-- The setting has a server.
local http = {}
for name, get in pairs {
  get = function(f, url) return f(url) end, request = function(f, url) return f { url = url } end,
} do
  http["http http." .. name] = function(s, call)
    local lib = require "runnel.http"
    local server <close> = assert(lib.serve(s.free_port, function() return 200 end, { host = "127.0.0.1" }))
    call(get, lib[name], server.url)
  end
end

http["http http.download"] = function(s, call)
  local lib = require "runnel.http"
  local server <close> = assert(lib.serve(s.free_port, function() return 200, nil, "x" end, { host = "127.0.0.1" }))
  local path = os.tmpname()
  call(lib.download, server.url, path)
  os.remove(path)
end

-- Calls f(req) in the function of a server, for a request with a body that comes late.
local function in_request(s, f)
  local lib, body, is_called, err = require "runnel.http", rn.chan(), rn.chan(), nil
  local server <close> = assert(lib.serve(s.free_port, function(req)
    is_called:close()
    local ok, problem = pcall(f, req)
    err = not ok and problem or nil
    return 200
  end, { host = "127.0.0.1" }))
  rn.go(function()
    body:put "["
    is_called:take()
    body:put "1]"
    body:close()
  end)
  lib.request { url = server.url, body = body, method = "POST" }
  if err then error(err, 0) end
end

http["http-server req:body"] = function(s, call) in_request(s, function(req) call(req.body, req) end) end
http["http-server req:json"] = function(s, call) in_request(s, function(req) call(req.json, req) end) end

-- Calls f(part) for the file of a form that comes late.
local function with_part(s, f)
  local lib, body = require "runnel.http", rn.chan()
  local server <close> = assert(lib.serve(s.free_port, function(req)
    rn.go(body.put, body, '--b\r\nContent-Disposition: form-data; name=f; filename="x"\r\n\r\n')
    req:form { file = function(part)
      rn.go(function()
        rn.sleep(10)
        body:put "text\r\n--b--\r\n"
        body:close()
      end)
      f(part)
    end }
    return 200
  end, { host = "127.0.0.1" }))
  lib.request { url = server.url, body = body, headers = { ["Content-Type"] = "multipart/form-data; boundary=b" } }
end

http["http-server req:form"] = function(s, call)
  in_request(s, function(req)
    req.headers["content-type"] = "application/x-www-form-urlencoded"
    call(req.form, req)
  end)
end
http["http-services part:read"] = function(s, call) with_part(s, function(part) call(part.read, part) end) end
http["http-services part:save"] = function(s, call)
  with_part(s, function(part) call(part.save, part, s.path or os.tmpname()) end)
end
http["otlp exporter:drain"] = function(s, call)
  local collector = assert(require "runnel.http".serve(s.free_port, function()
    rn.sleep(50)
    return 200
  end, { host = "127.0.0.1" }))
  local exporter = require "runnel.otlp".start(collector.url, { traces = false })
  call(exporter.drain, exporter)
  collector:close()
  rn.metrics(false)
end
http["http-server server:drain"] = function(s, call)
  local lib = require "runnel.http"
  local server = assert(lib.serve(s.free_port, function() rn.sleep(300) return 200 end, { host = "127.0.0.1" }))
  local got = rn.go(lib.get, server.url)
  rn.sleep(10)
  call(server.drain, server)
  got:take()
end

-- A server that sends back the messages of its WebSockets, and a client.
local function with_websocket(s, f)
  local lib = require "runnel.http"
  local server = assert(lib.serve(s.free_port, function(req)
    local conn = req:websocket()
    rn.sleep(20)
    for _ in conn:read() do end
  end, { host = "127.0.0.1" }))
  f((server.url:gsub("^http", "ws")), lib)
  server:drain()
end

http["websocket http.websocket"] = function(s, call)
  with_websocket(s, function(url, lib) call(lib.websocket, url):close() end)
end
http["websocket conn:write"] = function(s, call)
  with_websocket(s, function(url, lib)
    local conn <close> = assert(lib.websocket(url))
    call(function()
      for _ = 1, 16 do conn:write(("x"):rep(s.much // 16)) end
    end)
  end)
end

-- `s.server` and `s.client` are contexts of TLS.
local tls = {}

-- Accepts one connection, with the options of uv.listen, and calls f with it.
local function accept_one(opts, f)
  local conns, port = assert(require "runnel.uv".listen("127.0.0.1", 0, opts))
  rn.go(function()
    local conn <close> = conns:take()
    conns:close()
    f(conn)
    for _ in conn:read() do end
  end)
  return port
end

tls["tls uv.connect"] = function(s, call)
  local port = accept_one({ tls = s.server }, function() end)
  assert(call(require "runnel.uv".connect, "127.0.0.1", port, { tls = s.client }))
end
tls["tls conn:start_tls"] = function(s, call)
  local port = accept_one(nil, function(conn) assert(conn:start_tls(s.server)) end)
  local conn <close> = assert(require "runnel.uv".connect("127.0.0.1", port))
  assert(call(conn.start_tls, conn, s.client))
end

-- In a simulation without a world.
local alone = {
  ["worlds world:run"] = function(_, call)
    local world = require "runnel.sim".world()
    world:host("host", function() rn.sleep(1) end)
    call(world.run, world)
  end,
}

return { tls = tls, alone = alone, core = core, sqlite = sqlite, io = io, http = http }
