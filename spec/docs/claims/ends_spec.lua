-- docs/manual/README.md, "How things end": which objects have which of close, stop, drain and <close>.

local rn = require "runnel"
local missing = require "spec.support.missing"
local pages = require "spec.support.docs.pages"
local tables = require "scripts.docs.markdown_tables"
local sim = require "runnel.sim"

local PAGE <const> = "docs/manual/README.md"
local has_luv, uv = pcall(require, "runnel.uv")
local has_sqlite, stores = pcall(require, "runnel.store")
local has_nats, nats = pcall(require, "runnel.nats")

local function nothing() end

-- By the first cell of a row: f(use) calls use(object) with each object of the row.
local OBJECTS <const> = {
  ["a channel"] = function(use) use(rn.chan()) end,
  ["[a pool of threads](threads.md)"] = function(use) use(rn.threads(1, function(v) return v end)) end,
  ["[a flow](flow.md)"] = function(use)
    use(require "runnel.flow" ("f", { a = { from = {} }, b = nothing, "a > b" }):start())
  end,
  ["[a timer](time.md#timers)"] = function(use) use(rn.after(1000, nothing)) end,
  ["[an HTTP server](http-server.md)"] = function(use) use(assert(require("runnel.http").serve(0, nothing))) end,
  ["[a monitor](monitor.md)"] = function(use)
    local has_monitor, monitor = pcall(require, "runnel.monitor")
    if has_monitor then use(assert(monitor.listen(0))) end
  end,
}

-- Objects of a store, and of a server of NATS in a simulated world: f(use, keeper).
local function of_keeper(f)
  return function(use)
    if has_sqlite then
      sim.run(function()
        local store <close> = stores.open ":memory:"
        f(use, store)
      end)
    end
    if not has_nats then return end
    sim.run(function()
      local world = sim.world()
      world:nats "nats"
      world:host("here", function()
        local conn <close> = assert(nats.connect "nats://nats")
        f(use, conn)
      end)
      world:run(600000)
    end)
  end
end

OBJECTS["[a durable stage](streams.md)"] = of_keeper(function(use, keeper)
  assert(keeper:stream "a")
  use(assert(keeper:stage("a", 1, nothing, nil, { name = "s" })))
end)
OBJECTS["[a worker](remote.md)"] = of_keeper(function(use, keeper) use(keeper:serve("w", 1, nothing)) end)
OBJECTS["[a remote stage](remote.md)"] = of_keeper(function(use, keeper) use(keeper:remote "r") end)
OBJECTS["[a sink](streams.md)"] = of_keeper(function(use, keeper)
  assert(keeper:stream "a")
  use(assert(keeper:sink "a"))
end)
OBJECTS["[a subscription](nats.md)"] = of_keeper(function(use, keeper)
  if keeper.subscribe then use(select(2, keeper:subscribe "a")) end
end)
if has_luv then
  OBJECTS["[a reader](io.md#a-buffered-reader)"] = function(use) use(uv.reader(rn.chan())) end
  OBJECTS["[an exporter](otlp.md)"] = function(use)
    rn.on_error(function() end) -- nothing listens there
    use(require("runnel.otlp").start("http://127.0.0.1:1", { traces = false, tries = 1 }))
    rn.on_error(nil)
    rn.metrics(false)
  end
  OBJECTS["[a UDP socket](io.md#datagrams)"] = function(use) use(assert(uv.udp { host = "127.0.0.1" })) end
  OBJECTS["[a process](io.md)"] = function(use) use(uv.spawn { "cat" }) end
end
if has_sqlite then
  OBJECTS["[a store](store.md)"] = function(use) use(stores.open ":memory:") end
  OBJECTS["[runs](runs.md)"] = function(use)
    local store <close> = stores.open ":memory:"
    use(store:runs("order", print))
  end
  OBJECTS["[a database](sqlite.md)"] = function(use) use(require("runnel.sqlite").open ":memory:") end
end

-- What a row says of a method, and so whether the object has it; and the same of <close>.
local METHODS <const> = { close = 2, stop = 3, drain = 4 }

describe(PAGE, function()
  local rows = {}
  for _, one in ipairs(tables.of(PAGE)) do
    if one.header[1] == "object" then rows = one.rows end
  end

  it("has a table of objects and how they end", function() assert.is_true(#rows > 12) end)

  for _, row in ipairs(rows) do
    local make = OBJECTS[row[1]]
    local known = make ~= nil or row[1]:find "^a connection" or row[1]:find "^a go block" or row[1]:find "^%[a scope"
      or row[1]:find "^%[a message" or row[1]:find "^%[one of a queue"
    if make then
      it("says how each ends: " .. row[1], function()
        local count = 0
        make(function(object)
          count = count + 1
          for name, column in pairs(METHODS) do
            local says = row[column]:find("`[%w_]+:" .. name .. "%(") ~= nil
            local has = pcall(function() return assert(object[name]) end)
            assert.equal(says, has, name)
          end
          local meta = debug.getmetatable(object)
          assert.equal(row[6] ~= "", meta ~= nil and meta.__close ~= nil, "<close>")
          if meta and meta.__close then
            local _ <close> = object
          else
            (object.stop or object.close)(object)
          end
        end)
        assert.is_true(count > 0)
      end)
    else
      it("names no other object: " .. row[1], function()
        assert.is_truthy(known or not (has_luv and has_sqlite), row[1])
      end)
    end
  end

  it("says what connections have", function()
    local reason = missing "luv runnel.websocket.core"
    if reason then return pending(reason) end
    local http = require "runnel.http"
    local server <close> = assert(http.serve(0, function(req)
      local conn = req:websocket()
      for _ in conn:read() do end
    end))
    for _, conn in ipairs { assert(uv.connect("127.0.0.1", server.port)),
      assert(http.websocket("ws://127.0.0.1:" .. server.port .. "/")) } do
      assert.is_function(conn.close)
      assert.is_false((pcall(function() return assert(conn.drain) end)))
      assert.is_function(debug.getmetatable(conn).__close)
      conn:close()
    end
  end)

  it("says what drain returns: true, or false and an error, which is a timeout", function()
    assert.is_truthy(pages.read(PAGE):find("true; or false and an error, for which `rn.is_timeout` is true", 1, true))
    local function check(quick, slow)
      assert.is_true((quick:drain(60000)))
      local ok, err = slow:drain(1)
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
    end
    sim.run(function()
      local flow = require "runnel.flow"
      local function f(ms)
        return flow("f", { a = { from = { 1 } }, b = function() rn.sleep(ms) end, "a > b" }):start()
      end
      local slow = f(100000)
      check(f(1), slow)
      if not has_sqlite then return end
      local store <close> = stores.open ":memory:"
      assert(store:stream "a")
      assert(store:sink "a"):put "x"
      local begun = rn.chan(2)
      local function long()
        begun:put(true)
        rn.sleep(100000)
      end
      assert(store:stream "empty")
      local stage = assert(store:stage("a", 1, long, nil, { name = "slow" }))
      begun:take()
      check(assert(store:stage("empty", 1, nothing, nil, { name = "quick" })), stage)
      local worker = store:serve("w", 1, long)
      local call = rn.go(store:remote "w", 1)
      begun:take()
      check(store:serve("idle", 1, nothing), worker)
      rn.cancel(call)
    end)
    local http = require "runnel.http"
    if not has_luv then return end
    local begun = rn.chan(1)
    local slow <close> = assert(http.serve(0, function()
      begun:put(true)
      rn.sleep(60000)
    end))
    local conn = assert(uv.connect("127.0.0.1", slow.port))
    conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    begun:take()
    check(assert(http.serve(0, nothing)), slow)
    conn:close()
    local ready = rn.shared_chan()
    local pool = rn.threads(1, function(from) return from:take() end)
    local waiting = rn.go(function() return pool(ready) end)
    rn.yield()
    check(rn.threads(1, nothing), pool)
    rn.cancel(waiting)
  end)
end)
