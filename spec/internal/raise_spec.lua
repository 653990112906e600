-- An error of the library names the innermost line of the program, or none: never a line of the library.

local rn = require "runnel"

local HERE <const> = debug.getinfo(1, "S").short_src

local function has(module) return (pcall(require, module)) end

local function of_store(use)
  local store <close> = assert(require("runnel.store").open ":memory:")
  assert(store:stream("jobs", { subjects = { "jobs" } }))
  local sink <close>, kv = assert(store:sink "jobs"), assert(store:kv "settings")
  local runs <close> = assert(store:runs("count", function() return 1 end))
  local run = assert(runs:start(1))
  use("store:once", store.once, store, 42)
  use("store:stream", store.stream, store, "a b")
  use("store:kv", store.kv, store, "a", { history = 100 })
  use("store:stage", store.stage, store, "jobs", 0, print)
  use("sink:put", sink.put, sink, 1, { subject = "other" })
  use("kv:put", kv.put, kv, "a b", 1)
  use("runs:start", runs.start, runs, {}, { priority = 10 })
  use("run:signal", run.signal, run, "")
end

-- By the module that is needed: calls `use` with functions and their wrong arguments.
local CASES <const> = {
  ["runnel"] = function(use)
    use("rn.pmap", rn.pmap, 0, print, {})
    use("rn.pipeline", rn.pipeline, 0)
    use("rn.mult", rn.mult, 42)
    use("rn.retry", rn.retry, print, { tries = 0 })
    use("rn.supervise", rn.supervise, {})
    use("rn.exit", rn.exit, "x")
    use("rn.counter", rn.counter, "a b", "help")
    rn.scope(function(s)
      use("s:go", s.go, s, 42)
      use("s:after", s.after, s, -1, print)
    end)
    use("ch:list", rn.chan().list, 42)
  end,
  ["runnel.json"] = function(use)
    local json = require "runnel.json"
    use("json.decode", json.decode, 42)
    use("json.encode", json.encode, {}, { indent = 100 })
  end,
  ["runnel.csv"] = function(use)
    local csv = require "runnel.csv"
    use("csv.decode", csv.decode, 42)
    use("csv.encode", csv.encode, { { print } })
  end,
  ["runnel.flow"] = function(use)
    local flow = require "runnel.flow"
    use("flow", flow, { "a > b", a = print })
    use("a flow's option", flow, { "a > b", a = { print, tries = 0 }, b = print })
  end,
  ["runnel.sim"] = function(use)
    local sim = require "runnel.sim"
    use("sim.run", sim.run, 42)
    use("sim.explore", sim.explore, print, { steps = 0 })
    use("sim.world", sim.world)
  end,
  ["runnel.http.curl"] = function(use)
    local http = require "runnel.http"
    use("http.get", http.get, 42)
    use("http.stream", http.stream, "http://localhost", { idle = -1 })
    use("http.serve", http.serve, 70000, print)
    use("http.router", http.router, 42)
    use("http.websocket", http.websocket, "ws://localhost", { protocols = 42 })
  end,
  ["luv"] = function(use)
    local uv = require "runnel.uv"
    use("uv.connect", uv.connect, "localhost", 70000)
    use("uv.read", uv.read, {})
    use("uv.run", uv.run, { 42 })
    use("uv.spawn", uv.spawn, {})
    use("uv.ticker", uv.ticker, 0)
    use("uv.listen", uv.listen, "localhost", 70000)
  end,
  ["runnel.sqlite.core"] = function(use)
    local sqlite = require "runnel.sqlite"
    local db <close> = assert(sqlite.open ":memory:")
    use("sqlite.open", sqlite.open, "")
    use("db:exec", db.exec, db, "no statement")
    use("db:transaction", db.transaction, db, 42)
    of_store(use)
  end,
  ["runnel.nats.core"] = function(use)
    local nats = require "runnel.nats"
    use("nats.connect", nats.connect, "nats://localhost:0")
    use("nats.connect with options", nats.connect, nil, { user = "a\0b" })
  end,
}

-- Where the error of f is; nil if it has no position.
local function place(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err):match "^([^\n]-:%d+): "
end

local function line(f) return ("%s:%d"):format(HERE, debug.getinfo(f, "S").linedefined) end

local function directly(f, ...) local _ = f(...) end
local function tail(f, ...) return f(...) end
local function by_tail_call(f, ...) local _ = tail(f, ...) end

describe("an error of the library", function()
  for module, cases in pairs(CASES) do
    local test = has(module) and it or pending
    test("names a line of the program, for a wrong argument of " .. module, function()
      cases(function(name, f, ...)
        assert.equal(line(directly), place(directly, f, ...), name)
        assert.equal(line(by_tail_call), place(by_tail_call, f, ...), name)
      end)
    end)

    test("names no line of the library if only that is on the stack, for a wrong argument of " .. module, function()
      cases(function(name, f, ...)
        local arguments = table.pack(...)
        local function job() return f(table.unpack(arguments, 1, arguments.n)) end
        assert.is_nil(place(f, ...), name)
        for way, start in pairs { go = rn.go, pmap = function() return rn.pmap(1, job, { 1 }) end } do
          local value, err = start(job):take()
          assert.is_nil(value)
          assert.is_nil(tostring(err):match "^[^\n]-:%d+: ", ("%s in %s: %s"):format(name, way, tostring(err)))
        end
      end)
    end)
  end

  it("names the line of the function that the library has called", function()
    local function job() rn.mult(42) end
    local _, err = rn.pmap(1, job, { 1 }):take()
    assert.equal(line(job), tostring(err):match "^([^\n]-:%d+): ")
  end)

  it("is unchanged if it is not a string", function()
    local ok, err = pcall(function() require("runnel.core").internal.raise(rn) end)
    assert.same({ false, rn }, { ok, err })
  end)
end)
