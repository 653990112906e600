---The objects of the manual's methods. Each function opens one, calls f(object), and closes it. All can run on a host
---of a simulated world with the server nats://nats and the program "true".

local rn = require "runnel"

local objects = {}

objects["channels ch"] = function(f) f(rn.chan()) end

objects["flow f"] = function(f)
  local flow = require "runnel.flow"("name", { a = { from = { 1, 2 } }, b = function() end, "a > b" })
  f(flow:start())
  flow:stop()
end

objects["scopes s"] = function(f) rn.scope(f) end

objects["metrics m"] = function(f)
  f(rn.metrics(true))
  rn.metrics(false)
end

objects["profile p"] = function(f) f(rn.profile(function() end)) end

objects["tracing g"] = function(f)
  rn.graph(true)
  f(rn.graph())
  rn.graph(false)
end

objects["monitor m"] = function(f)
  local m = require "runnel.monitor".listen(0)
  f(m)
  m:close()
end

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

objects["http-server req"] = function(f)
  local problem
  with_server(function(has)
    if has.req then
      local ok, err = pcall(f, has.req)
      problem = not ok and err
    elseif has.server then has.http.get(has.url) end
  end)
  if problem then error(problem, 0) end
end
objects["http-services req"] = objects["http-server req"]
objects["websocket req"] = objects["http-server req"]

objects["http-server server"] = function(f)
  with_server(function(has)
    if has.server then f(has.server) end
  end)
end

-- What is in the prose of the manual, not in its tables.
objects["http jar"] = function(f) f(require "runnel.http".cookies()) end
objects["nats m"] = function(f)
  local conn <close> = assert(require "runnel.nats".connect "nats://nats")
  local ch = conn:subscribe "signs"
  conn:publish("signs", "text", { reply = "there" })
  f(ch:take())
end

objects["http res"] = function(f)
  with_server(function(has)
    if has.server then f(assert(has.http.get(has.url))) end
  end)
end

objects["websocket conn"] = function(f)
  with_server(function(has)
    if has.server then
      local conn <close> = assert(has.http.websocket((has.url:gsub("^http", "ws"):gsub("/$", "")) .. "/ws"))
      f(conn)
    end
  end)
end

-- ---- uv ----

objects["io conn"] = function(f)
  local uv = require "runnel.uv"
  local conns, port = assert(uv.listen("127.0.0.1", 0))
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  f(conn)
  conns:close()
end
objects["tls conn"] = objects["io conn"]

objects["io p"] = function(f)
  local p = require "runnel.uv".spawn { "true" }
  f(p)
  p.exit:take()
end

objects["tls context"] = function(f) f(assert(require "runnel.tls".client {})) end

-- ---- keepers ----

objects["sqlite db"] = function(f)
  local db <close> = require "runnel.sqlite".open ":memory:"
  f(db)
end

objects["sqlite tx"] = function(f)
  local db <close> = require "runnel.sqlite".open ":memory:"
  db:transaction(f)
end

local function with_store(f)
  local store <close> = require "runnel.store".open "/signs"
  f(store)
end

local function with_nats(f)
  local conn <close> = assert(require "runnel.nats".connect "nats://nats")
  f(conn)
end

objects["store store"] = with_store
for _, page in ipairs { "nats", "streams", "remote", "queues" } do objects[page .. " conn"] = with_nats end

objects["nats sub"] = function(f)
  with_nats(function(conn) f(select(2, conn:subscribe "x")) end)
end

-- Objects of a stream, from a store or a connection.
local function with_stream(open, f)
  open(function(conn)
    local stream = assert(conn:stream("s", { subjects = { "s" } }))
    f(conn, stream)
  end)
end

local KEPT = {
  ["streams stream"] = function(_, stream) return stream end,
  ["streams sink"] = function(conn) return assert(conn:sink "s") end,
  ["streams stage"] = function(conn) return assert(conn:stage(1, "s", tostring, nil, { name = "name" })) end,
  ["streams bucket"] = function(conn) return assert(conn:kv "b") end,
  ["streams m"] = function(conn)
    assert(conn:sink "s":put "value")
    return conn:source("s", { name = "taken" }):take()
  end,
  ["remote remote"] = function(conn) return assert(conn:remote "name") end,
  ["remote worker"] = function(conn) return assert(conn:serve("name", 1, tostring)) end,
  ["remote dead"] = function(conn)
    assert(conn:stage(1, "s", tostring, nil, { name = "name" })):stop()
    return conn:dead "name"
  end,
  ["queues queue"] = function(conn)
    assert(conn:stage(1, "s", tostring, nil, { name = "name" })):stop()
    return assert(conn:queue "name")
  end,
}
for name, make in pairs(KEPT) do
  objects[name] = function(f)
    for _, open in ipairs { with_store, with_nats } do
      with_stream(open, function(conn, stream) f(make(conn, stream)) end)
    end
  end
end

-- ---- worlds ----

objects["time world"] = function(f) f(require "runnel.sim".world()) end
objects["time host"] = function(f) f(require "runnel.sim".world():host("host", function() end)) end

return objects
