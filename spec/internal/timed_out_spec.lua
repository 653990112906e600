-- rn.is_timeout is true for the error of each function of the manual that has a limit of time among its options.

local missing = require "spec.support.missing"
local nats_server = require "spec.support.queue.nats_server"
local pages = require "spec.support.docs.pages"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"

local function long() rn.sleep(100000) end

-- A limit of a worker's calls: with a short one, a busy machine ends the process.
local function patient(ms) return math.ceil(ms * patience.factor()) end

-- Each returns the error. `rows`: what the manual says of the option: the page, and the first name of the table's row.
-- `needs`: modules; or "nats", a real server.
local CASES <const> = {
  { "rn.scope", rows = { "scopes.md rn.scope", "scopes.md timeout" }, err = function()
    return select(2, pcall(rn.scope, long, { timeout = 1 }))
  end },
  { "rn.shield", rows = { "scopes.md grace" }, err = function()
    local failure
    local block = rn.go(rn.shield, function()
      local _, err = pcall(rn.sleep, 1e6)
      failure = err
    end, { grace = 1 })
    rn.sleep(1)
    rn.cancel(block)
    block:take()
    return failure
  end },
  { "rn.retry", rows = { "pipelines.md rn.retry" }, err = function()
    return select(2, pcall(rn.retry, long, { timeout = 1, tries = 1 }))
  end },
  { "rn.pmap", rows = { "pipelines.md rn.pmap", "pipelines.md timeout" }, err = function()
    local failure
    local function note(err) failure = err end
    rn.into({}, rn.pmap(1, long, { 1 }, { timeout = 1, ex_handler = note })):take()
    return failure
  end },
  { "rn.pmap_unordered, with tries", rows = {}, err = function()
    local failure
    local function note(err) failure = err end
    rn.into({}, rn.pmap_unordered(1, long, { 1 }, { timeout = 1, tries = 2, backoff = 0, ex_handler = note })):take()
    return failure
  end },
  { "rn.frontier", rows = {}, err = function()
    local failure
    local function note(err) failure = err end
    rn.into({}, rn.frontier(1, long, { 1 }, { timeout = 1, ex_handler = note })):take()
    return failure
  end },
  { "a stage of a flow", rows = { "flow.md tries", "flow.md timeout" }, err = function()
    local failure
    require "runnel.flow" ("f", {
      a = { from = { 1 } }, b = { long, timeout = 1 }, c = function(e) failure = e.error end, "a > b", "b.error > c",
    }):wait()
    return failure
  end },
  { "store:once", needs = "runnel.store", rows = { "store.md tries", "store.md timeout" }, err = function(dir)
    local store <close> = require("runnel.store").open(dir .. "/once.db")
    local once = store:once("slow", long, { timeout = 1 })
    return select(2, pcall(once, 1))
  end },
  { "a worker of a store", needs = "runnel.store", rows = { "remote.md timeout" }, err = function()
    local store <close> = require("runnel.store").open ":memory:"
    local worker <close> = store:serve("slow", 1, long, { timeout = patient(10) }) -- luacheck: ignore 211
    return select(2, pcall(store:remote "slow", 1))
  end },
  { "a worker over NATS", needs = "nats", rows = {}, err = function(_, url)
    local conn <close> = assert(require("runnel.nats").connect(url))
    local worker <close> = conn:serve("slow", 1, long, { timeout = patient(10) }) -- luacheck: ignore 211
    return select(2, pcall(conn:remote "slow", 1))
  end },
  { "a statement of SQLite", needs = "runnel.sqlite", rows = { "sqlite.md busy_timeout" }, err = function(dir)
    local sqlite = require "runnel.sqlite"
    local one <close> = sqlite.open(dir .. "/busy.db")
    local two <close> = sqlite.open(dir .. "/busy.db", { busy_timeout = 1 })
    one:exec "create table t (x)"
    return one:transaction(function(tx)
      tx:exec "insert into t values (1)"
      return rn.go(function() return { pcall(two.exec, two, "insert into t values (2)") } end):take()[2]
    end)
  end },
  { "a query of SQLite, and a transaction", needs = "runnel.sqlite", rows = {}, err = function(dir)
    local sqlite = require "runnel.sqlite"
    local one <close> = sqlite.open(dir .. "/query.db")
    local two <close> = sqlite.open(dir .. "/query.db", { busy_timeout = 1 })
    one:exec "create table t (x)"
    return one:transaction(function(tx)
      tx:exec "insert into t values (1)"
      local errors = rn.go(function()
        return {
          (select(2, two:query("insert into t values (2) returning x"):take())),
          (select(2, pcall(two.transaction, two, function() end))),
        }
      end):take()
      return rn.is_timeout(errors[1]) and errors[2] or errors[1]
    end)
  end },
  { "a store", needs = "runnel.store", rows = { "store.md stores.open", "store.md busy_timeout" }, err = function(dir)
    local stores, sqlite = require "runnel.store", require "runnel.sqlite"
    local store <close> = stores.open(dir .. "/store.db", { busy_timeout = 1 })
    assert(store:stream "words")
    local sink = assert(store:sink("words", { timeout = 1 }))
    local other <close> = sqlite.open(dir .. "/store.db")
    return other:transaction(function(tx)
      tx:exec "create table t (x)"
      return rn.go(function() return { sink:put "a" } end):take()[2]
    end)
  end },
  { "uv.run", needs = "luv", rows = { "io.md uv.run", "io.md timeout" }, err = function()
    return select(2, require("runnel.uv").run { "sleep", "100", timeout = 1 })
  end },
  { "uv.connect", needs = "luv", rows = { "io.md uv.connect", "io.md uv.resolve" }, err = function()
    local uv, luv = require "runnel.uv", require "luv"
    local listener = luv.new_tcp() -- whose queue is full does not answer
    listener:bind("127.0.0.1", 0)
    listener:listen(0, function() end)
    local port, conns, failure = listener:getsockname().port, {}, nil
    for i = 1, 10 do
      conns[i], failure = uv.connect("127.0.0.1", port, { timeout = 30 })
      if not conns[i] then break end
    end
    for _, conn in ipairs(conns) do conn:close() end
    listener:close()
    return failure
  end },
  { "uv.connect with TLS, conn:start_tls and uv.listen", needs = "luv runnel.tls",
    rows = { "tls.md uv.connect", "tls.md uv.listen", "tls.md conn:start_tls", "tls.md timeout" }, err = function(dir)
      local uv = require "runnel.uv"
      os.execute(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout %s/key.pem "
        .. "-out %s/cert.pem >/dev/null 2>&1"):format(dir, dir))
      local failed = rn.chan(1)
      local silent, port = uv.listen("127.0.0.1", 0)
      local tls = { cert = dir .. "/cert.pem", key = dir .. "/key.pem" }
      local listener, tls_port = assert(uv.listen("127.0.0.1", 0, {
        tls = tls, timeout = 1, failed = function(err) failed:put(err) end,
      }))
      local conn <close> = assert(uv.connect("127.0.0.1", tls_port)) -- luacheck: ignore 211 (it says nothing)
      local errors = {
        failed:take(),
        (select(2, uv.connect("127.0.0.1", port, { tls = true, timeout = 1 }))),
        (select(2, assert(uv.connect("127.0.0.1", port)):start_tls(true, { timeout = 1 }))),
      }
      silent:close()
      listener:close()
      for i = 1, 3 do
        if not rn.is_timeout(errors[i]) then return errors[i] or i end
      end
      return errors[1]
    end },
  { "http.download", needs = "luv runnel.http", rows = { "http.md idle" }, err = function(dir)
    local http = require "runnel.http"
    local server <close> = assert(http.serve(0, function() return 200, nil, rn.chan() end))
    return select(2, http.download(server.url, dir .. "/file", { idle = 20 }))
  end },
  { "http.get", needs = "runnel.http", rows = { "http.md timeout", "http.md connect_timeout" }, err = function()
    local http = require "runnel.http"
    local server <close> = assert(http.serve(0, long))
    return select(2, http.get(server.url, { timeout = 30 }))
  end },
  { "http.events", needs = "runnel.http", rows = {}, err = function()
    local http = require "runnel.http"
    local server <close> = assert(http.serve(0, function(req)
      return req:events(function(events)
        events:put "a"
        long()
      end)
    end))
    local events = http.events(server.url, { idle = 50, tries = 1, reconnect = false })
    local value, err
    repeat value, err = events:take() until value == nil
    return err
  end },
  { "http.websocket", needs = "luv runnel.http.websocket", rows = { "websocket.md timeout", "websocket.md ping" },
    err = function()
      local server <close> = assert(require("runnel.http").serve(0, long))
      return select(2, require("runnel.http").websocket(server.url:gsub("^http", "ws"), { timeout = 30 }))
    end },
  { "conn:request", needs = "nats", rows = { "nats.md conn:request", "nats.md timeout" }, err = function(_, url)
    local conn <close> = assert(require("runnel.nats").connect(url))
    conn:subscribe "silent"
    return select(2, conn:request("silent", "a", { timeout = 1 }))
  end },
  { "conn:drain", needs = "nats", rows = { "nats.md conn:drain" }, err = function(_, url)
    local conn <close> = assert(require("runnel.nats").connect(url))
    conn:on_drain(function() rn.sleep(50) end)
    return select(2, conn:drain(1))
  end },
  { "f:drain", rows = { "flow.md f:drain" }, err = function()
    local begun = rn.chan(1)
    local f = require "runnel.flow"("late", { a = { from = { 1 } }, b = function()
      begun:put(true)
      long()
    end, "a > b" }):start()
    begun:take()
    return select(2, f:drain(1))
  end },
  { "server:drain", needs = "runnel.http", rows = { "http-server.md server:drain" }, err = function()
    local http = require "runnel.http"
    local begun = rn.chan(1)
    local server <close> = assert(http.serve(0, function()
      begun:put(true)
      long()
    end))
    rn.go(http.get, server.url)
    begun:take()
    return select(2, server:drain(1))
  end },
  { "exporter:drain", needs = "runnel.http", rows = { "otlp.md exporter:drain" }, err = function()
    local http = require "runnel.http"
    local begun = rn.chan(1)
    local collector <close> = assert(http.serve(0, function()
      begun:offer(true)
      long()
    end))
    local exporter <close> = require("runnel.otlp").start(collector.url, { traces = false, every = 1000 })
    begun:take()
    local err = select(2, exporter:drain(1))
    rn.metrics(false)
    return err
  end },
  { "pool:drain", rows = { "threads.md pool:drain" }, err = function()
    local pool = rn.threads(1, function() require("runnel").sleep(60000) end)
    local job = rn.go(pool, 1)
    rn.sleep(20)
    local _, err = pool:drain(1)
    job:take()
    return err
  end },
  { "stage:drain", needs = "runnel.store",
    rows = { "streams.md stage:drain", "remote.md worker:drain" }, err = function(dir)
    local store <close> = require("runnel.store").open(dir .. "/stage.db")
    assert(store:stream "a")
    local begun = rn.chan(1)
    local stage = assert(store:stage("a", 1, function()
      begun:put(true)
      long()
    end, nil, { name = "slow" }))
    assert(store:sink "a"):put "a"
    begun:take()
    return select(2, stage:drain(1))
  end },
  { "conn:flush", needs = "runnel.nats", rows = { "nats.md conn:flush" }, err = function()
    local err
    sim.run(function()
      local world = sim.world()
      world:nats "nats"
      world:host("here", function()
        local conn = assert(require("runnel.nats").connect "nats://nats")
        world:partition("here", "nats")
        err = select(2, conn:flush(1))
        world:heal()
        conn:close()
      end)
      world:run(60000)
    end)
    return err
  end },
  { "the timeout of a stage of a store", needs = "runnel.store", rows = {}, err = function()
    local store <close> = require("runnel.store").open ":memory:"
    local failure, limit = rn.chan(1), patient(100)
    assert(store:stream "a")
    assert(store:sink "a"):put "a"
    assert(store:stage("a", 1, long, nil, {
      name = "slow", timeout = limit, tries = 1, ex_handler = function(err) failure:put(err) end,
    }))
    return failure:take()
  end },
  { "store:drain", needs = "runnel.store", rows = { "store.md store:drain" }, err = function(dir)
    local store <close> = require("runnel.store").open(dir .. "/drain.db")
    assert(store:stream "a")
    local begun = rn.chan(1)
    assert(store:stage("a", 1, function()
      begun:put(true)
      rn.sleep(50)
    end, nil, { name = "slow" }))
    assert(store:sink "a"):put "a"
    begun:take()
    return select(2, store:drain(1))
  end },
}

-- Rows of the manual with such a word in which no limit of the program's is meant, and why.
local OTHER <const> = {
  ["http-server.md header_timeout"] = "the client gets a status",
  ["http-server.md timeout"] = "the client gets a status",
  ["http-services.md timeout"] = "the client gets a status",
  ["http-services.md connect_timeout"] = "the client gets a status",
  ["keepers.md timeout"] = "spec/queue/keepers_spec.lua",
  ["http.md http.max_connections"] = "the timeout is that of a request",
  ["http.md connections"] = "a list of options of libcurl",
  ["nats.md conn:close"] = "returns how many bytes were not sent",
  ["nats.md conn:flush"] = "as conn:request, by the same function",
  ["nats.md sub:drain"] = "spec/nats/connection_spec.lua",
  ["nats.md connect_timeout"] = "libnats' own error: it tries several addresses",
  ["nats.md write_timeout"] = "a limit for what the library does",
  ["otlp.md timeout"] = "a limit for what the library does",
  ["remote.md timeout"] = "the error comes from another program: spec/nats/limits_spec.lua",
  ["runs.md r:result"] = "spec/store/run_waits_spec.lua", ["runs.md run:wait"] = "the same",
  ["scopes.md rn.is_timeout"] = "is the function itself",
  ["store.md replicas"] = "has no effect there",
  ["streams.md conn:sink"] = "spec/nats/streams_spec.lua", ["streams.md timeout"] = "spec/nats/streams_spec.lua",
  ["time.md rn.timeout"] = "is a channel",
}

describe("rn.is_timeout", function()
  local _, no_nats = nats_server.library()

  for _, case in ipairs(CASES) do
    it("is true for the error of " .. case[1], function()
      local reason
      if case.needs == "nats" then reason = no_nats else reason = missing(case.needs or "") end
      if reason then return pending(reason) end
      local dir <close> = process.directory()
      local server <close> = case.needs == "nats" and nats_server.start() or nil
      local err = case.err(dir.path, server and server.url)
      assert.is_true(rn.is_timeout(err), tostring(err))
      assert.matches("%d m", (tostring(err):gsub("ETIMEDOUT.*", "1 ms")))
    end)
  end

  it("is checked for each row of the manual that names a limit of time", function()
    local checked = {}
    for _, case in ipairs(CASES) do
      for _, row in ipairs(case.rows) do checked[row] = true end
    end
    for _, path in ipairs(pages.of "docs/manual") do
      for line in pages.read(path):gmatch "[^\n]+" do
        local name = line:match "^| `([%w_.:]+)" or line:match "^| (%a+) |"
        if name and not path:find "README" and line:find "[`. ]%a*_?timeout[` =]" then
          local row = path:match "[^/]+$" .. " " .. name
          assert.is_truthy(checked[row] or OTHER[row], row)
        end
      end
    end
  end)

  it("has an error that is like a string for what takes one", function()
    local err = select(2, pcall(rn.scope, long, { timeout = 1 }))
    assert.equal("timeout", err.code)
    assert.equal("it: " .. tostring(err), "it: " .. err)
    assert.equal(tostring(err), ("%s"):format(err))
    assert.is_truthy(err:find("had not ended", 1, true))
    assert.equal("SCOPE", err:match("^%a+"):upper())
  end)
end)
