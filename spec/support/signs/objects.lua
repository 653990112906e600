---The objects of the manual's methods, by the names that it gives them. Each has `needs`, the libraries without which
---it is not there; and `open(f)`, which opens one, calls f(object), and closes it, also on a host of a simulated world
---with the server nats://nats and the program "true".

local rn = require "runnel"

---@type table<string, { needs: string[], open: fun(f: function) }[]>
local objects = {}

local function add(name, needs, open)
  objects[name] = objects[name] or {}
  table.insert(objects[name], { needs = needs, open = open })
end

add("ch", {}, function(f) f(rn.chan()) end)

add("f", {}, function(f)
  local flow = require "runnel.flow"("name", { a = { from = { 1, 2 } }, b = function() end, "a > b" })
  f(flow:start())
  flow:stop()
end)

add("s", {}, function(f) rn.scope(f) end)

add("timer", {}, function(f)
  local timer <close> = rn.after(1000, function() end)
  f(timer)
end)

add("m", {}, function(f)
  f(rn.metrics(true))
  rn.metrics(false)
end)

add("c", {}, function(f) f(rn.counter("signs_total", "For a spec.")) end)
add("g", {}, function(f) f(rn.gauge("signs", "For a spec.")) end)
add("h", {}, function(f) f(rn.histogram("signs_size", "For a spec.")) end)

add("exporter", { "http" }, function(f)
  local exporter = require "runnel.otlp".start("http://127.0.0.1:1")
  f(exporter)
  exporter:stop()
  rn.metrics(false)
end)

add("p", {}, function(f) f(rn.profile(function() end)) end)

add("g", {}, function(f)
  rn.graph(true)
  f(rn.graph())
  rn.graph(false)
end)

add("m", { "luv" }, function(f)
  local m = require "runnel.monitor".listen(0)
  f(m)
  m:close()
end)

for _, name in ipairs { "mult", "mix" } do
  add("m", {}, function(f)
    local ch = rn.chan()
    f(rn[name](ch))
    ch:close()
  end)
end

add("p", {}, function(f)
  local ch = rn.chan()
  f(rn.pub(ch, tostring))
  ch:close()
end)

-- Not in a simulation.
add("pool", {}, function(f)
  local pool = rn.threads(1, function() end)
  f(pool)
  pool:drain()
end)

-- ---- http ----

-- Calls f(req, res, server).
local function with_server(f)
  local http = require "runnel.http"
  local server = assert(http.serve(8080, function(req)
    if req.path == "/ws" then
      local conn = req:websocket()
      f { ws = conn }
      return
    end
    f { req = req }
    return 200, nil, "{}"
  end, { host = "127.0.0.1" }))
  f { server = server, http = http, url = server.url }
  server:close()
end

add("req", { "luv", "http" }, function(f)
  local problem
  with_server(function(has)
    if has.req then
      local ok, err = pcall(f, has.req)
      problem = not ok and err
    elseif has.server then has.http.get(has.url) end
  end)
  if problem then error(problem, 0) end
end)

add("part", { "luv", "http" }, function(f)
  local http, problem = require "runnel.http", nil
  local before = http.fake(function(req)
    req:form { file = function(part)
      local ok, err = pcall(f, part)
      problem = not ok and err
    end }
    return 200
  end)
  http.request { url = "http://x/", multipart = { { name = "f", filename = "x", data = "text" } } }
  http.fake(before)
  if problem then error(problem, 0) end
end)

add("server", { "luv", "http" }, function(f)
  with_server(function(has)
    if has.server then f(has.server) end
  end)
end)

-- What is in the prose of the manual, not in its tables.
add("jar", { "http" }, function(f) f(require "runnel.http".cookies()) end)
add("m", { "luv", "nats" }, function(f)
  local conn <close> = assert(require "runnel.nats".connect "nats://nats")
  local ch = conn:subscribe "signs"
  conn:publish("signs", "text", { reply = "there" })
  f(ch:take())
end)

add("res", { "luv", "http" }, function(f)
  with_server(function(has)
    if has.server then f(assert(has.http.get(has.url))) end
  end)
end)

add("latest", {}, function(f) f(rn.latest(rn.chan())) end)

add("reader", { "luv" }, function(f) f(require("runnel.uv").reader(rn.chan())) end)

add("conn", { "luv", "http" }, function(f)
  with_server(function(has)
    if has.server then
      local conn <close> = assert(has.http.websocket((has.url:gsub("^http", "ws"):gsub("/$", "")) .. "/ws"))
      f(conn)
    end
  end)
end)

-- ---- uv ----

add("conn", { "luv" }, function(f)
  local uv = require "runnel.uv"
  local conns, port = assert(uv.listen("127.0.0.1", 0))
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  f(conn)
  conns:close()
end)

add("sock", { "luv" }, function(f)
  local sock <close> = assert(require "runnel.uv".udp { host = "127.0.0.1" })
  f(sock)
end)

add("p", { "luv" }, function(f)
  local p = require "runnel.uv".spawn { "true" }
  f(p)
  p.exit:take()
end)

add("context", { "tls" }, function(f) f(assert(require "runnel.tls".client {})) end)

-- ---- keepers ----

add("db", { "sqlite" }, function(f)
  local db <close> = require "runnel.sqlite".open ":memory:"
  f(db)
end)

add("tx", { "sqlite" }, function(f)
  local db <close> = require "runnel.sqlite".open ":memory:"
  db:transaction(f)
end)

local function with_store(f)
  local store <close> = require "runnel.store".open "/signs"
  f(store)
end

local function with_nats(f)
  local conn <close> = assert(require "runnel.nats".connect "nats://nats")
  f(conn)
end

add("store", { "luv", "sqlite" }, with_store)
add("runs", { "luv", "sqlite" }, function(f)
  with_store(function(store) f(store:runs "order") end)
end)
add("schedule", { "luv", "sqlite" }, function(f)
  with_store(function(store) f(store:schedule("order", "@daily")) end)
end)
add("r", { "luv", "sqlite" }, function(f)
  with_store(function(store) f(assert(store:runs "order":start "17")) end)
end)
add("run", { "luv", "sqlite" }, function(f)
  with_store(function(store)
    assert(store:runs("order", function(run) f(run) end):start "17"):result()
  end)
end)
add("conn", { "luv", "nats" }, with_nats)

add("sub", { "luv", "nats" }, function(f)
  with_nats(function(conn) f(select(2, conn:subscribe "x")) end)
end)

-- Objects of a stream, from a store or a connection.
local function with_stream(open, f)
  open(function(conn)
    local stream = assert(conn:stream("s", { subjects = { "s" } }))
    f(conn, stream)
  end)
end

local KEPT = {
  stream = function(_, stream) return stream end,
  sink = function(conn) return assert(conn:sink "s") end,
  stage = function(conn) return assert(conn:stage("s", 1, tostring, nil, { name = "name" })) end,
  bucket = function(conn) return assert(conn:kv "b") end,
  m = function(conn)
    assert(conn:sink "s":put "value")
    return conn:source("s", { name = "taken" }):take()
  end,
  remote = function(conn) return assert(conn:remote "name") end,
  worker = function(conn) return assert(conn:serve("name", 1, tostring)) end,
  dead = function(conn)
    assert(conn:stage("s", 1, tostring, nil, { name = "name" })):stop()
    return conn:dead "name"
  end,
  queue = function(conn)
    assert(conn:stage("s", 1, tostring, nil, { name = "name" })):stop()
    return assert(conn:queue "name")
  end,
}
for name, make in pairs(KEPT) do
  for needs, open in pairs { sqlite = with_store, nats = with_nats } do
    add(name, { "luv", needs }, function(f)
      with_stream(open, function(conn, stream) f(make(conn, stream)) end)
    end)
  end
end

-- ---- worlds ----

add("world", {}, function(f) f(require "runnel.sim".world()) end)
add("host", {}, function(f) f(require "runnel.sim".world():host("host", function() end)) end)

return objects
