-- The options in the manual's tables are those that the functions take.

local missing = require "spec.support.missing"
local pages = require "spec.support.docs.pages"
local tables = require "scripts.docs.markdown_tables"

local rn = require "runnel"
local sim = require "runnel.sim"

-- A module that may not have been built.
local function optional(name)
  local ok, module = pcall(require, name)
  return ok and module or nil
end

local http, uv, tls, nats = require "runnel.http", optional "runnel.uv", optional "runnel.tls", optional "runnel.nats"
local stores, sqlite = optional "runnel.store", optional "runnel.sqlite"
local curl = optional "runnel.http.curl"

local function nothing() end

local WRONG <const> = { nosuch = true }

-- Calls of functions with an unknown option. Each raises an error that names those that are known.
---@type table<string, string|fun(opts: table)> a text says why the function cannot be called here
local CALLS = {
  ["rn.alts"] = function(opts) rn.alts({ rn.chan() }, opts) end,
  ["rn.alt"] = function() rn.alt { { rn.chan(), nothing }, nosuch = true } end,
  ["rn.pmap"] = function(opts) rn.pmap(1, nothing, {}, opts) end,
  ["rn.pmap_unordered"] = function(opts) rn.pmap_unordered(1, nothing, {}, opts) end,
  ["rn.frontier"] = function(opts) rn.frontier(1, nothing, {}, opts) end,
  ["rn.retry"] = function(opts) rn.retry(nothing, opts) end,
  ["rn.pipeline_async"] = function(opts) rn.pipeline_async(1, rn.chan(), nothing, rn.chan(), true, opts) end,
  ["rn.pipeline_async_unordered"] = function(opts)
    rn.pipeline_async_unordered(1, rn.chan(), nothing, rn.chan(), true, opts)
  end,
  ["rn.scope"] = function(opts) rn.scope(nothing, opts) end,
  ["rn.debounce"] = function(opts) rn.debounce(rn.chan(), 1, opts) end,
  ["rn.shield"] = function(opts) rn.shield(nothing, opts) end,
  ["rn.supervise"] = function(opts) rn.supervise({ { "a", nothing } }, opts) end,
  ["rn.threads"] = function(opts) rn.threads(1, nothing, opts) end,
  ["rn.profile"] = function(opts) rn.profile(nothing, opts) end,
  ["rn.trace"] = function(opts) rn.trace("/nowhere/trace.json", opts) end,
  ["rn.counter"] = function(opts) local _ = rn.counter("options_total", "For a spec.", opts) end,
  ["rn.gauge"] = function(opts) local _ = rn.gauge("options", "For a spec.", opts) end,
  ["rn.histogram"] = function(opts) local _ = rn.histogram("options_size", "For a spec.", opts) end,
  ["flow"] = function() require "runnel.flow" ("f", { a = { nothing, nosuch = true }, "a" }) end,
  ["keepers.stage"] = function(opts)
    require "runnel.queue.keeper".stage(require "examples.lib.memory_keeper".queue("q"):keeper(), 1, nothing, opts)
  end,
  ["csv.rows"] = function(opts) require("runnel.csv").rows("", opts) end,
  ["csv.decode"] = function(opts) require("runnel.csv").decode("", opts) end,
  ["csv.encode"] = function(opts) require("runnel.csv").encode({}, opts) end,
  ["json.encode"] = function(opts) require("runnel.json").encode(1, opts) end,
  ["monitor.listen"] = function(opts) require("runnel.monitor").listen(0, opts) end,
  ["sim.run"] = function(opts) sim.run(nothing, opts) end,
  ["sim.each_seed"] = function(opts) sim.each_seed(1, nothing, opts) end,
  ["sim.explore"] = function(opts) sim.explore(nothing, opts) end,
  ["sim.world"] = function(opts) sim.world(opts) end,
  ["world:host"] = function(opts) sim.run(function() sim.world():host("a", nothing, opts) end) end,
  ["world:nats"] = function(opts) sim.run(function() sim.world():nats("a", opts) end) end,
}

-- More of them, by the modules that they need.
local function add(modules, calls)
  local reason = missing(modules)
  for name, f in pairs(calls) do CALLS[name] = reason or f end
end

local NOWHERE <const> = "http://127.0.0.1:1/"

add("runnel.http.curl", {
  ["otlp.start"] = function(opts) require "runnel.otlp".start(NOWHERE, opts) end,
})

-- Calls f with the request of a server's function.
local function with_request(f)
  local before = http.fake(function(req)
    f(req)
    return 200
  end)
  local _, err = http.get(NOWHERE)
  http.fake(before)
  error(err, 0)
end

add("runnel.http.curl", {
  ["http.get"] = function(opts) http.get(NOWHERE, opts) end,
  ["http.request"] = function() http.request { url = NOWHERE, nosuch = true } end,
  ["http.stream"] = function(opts) http.stream(NOWHERE, opts) end,
  ["http.download"] = function(opts) http.download(NOWHERE, "nowhere", opts) end,
  ["http.events"] = function(opts) http.events(NOWHERE, opts) end,
  ["http.compress"] = function(opts) http.compress(nothing, opts) end,
  ["req:form"] = function(opts) with_request(function(req) req:form(opts) end) end,
  ["req:events"] = function(opts) with_request(function(req) req:events(rn.chan(), opts) end) end,
})
add("runnel.http", {
  ["http.serve"] = function(opts) http.serve(0, nothing, opts) end,
  ["http.basic_auth"] = function(opts) http.basic_auth(nothing, {}, opts) end,
  ["http.cors"] = function(opts) http.cors(nothing, opts) end,
  ["http.limit"] = function(opts) http.limit(nothing, 1, 1, opts) end,
  ["http.within"] = function(opts) http.within(nothing, opts) end,
  ["http.proxy"] = function(opts) http.proxy(NOWHERE, opts) end,
  ["http.cookie"] = function(opts) http.cookie("a", "b", opts) end,
  ["http.log"] = function(opts) http.log(nothing, opts) end,
})
add("luv runnel.http", { ["http.files"] = function(opts) http.files(".", opts) end })
add("luv runnel.http.curl runnel.http.websocket", {
  ["http.websocket"] = function(opts) http.websocket("ws://127.0.0.1:1/", opts) end,
  ["req:websocket"] = function(opts) with_request(function(req) req:websocket(opts) end) end,
})

-- Calls f with a connection of runnel.uv.
local function with_connection(f)
  local clients, port = assert(uv.listen("127.0.0.1", 0))
  local conn = assert(uv.connect("127.0.0.1", port))
  local ok, err = pcall(f, conn)
  conn:close()
  clients:close()
  if not ok then error(err, 0) end
end

add("luv", {
  ["uv.read"] = function(opts) uv.read("nowhere", opts) end,
  ["reader:pieces"] = function(opts) uv.reader(rn.to_chan {}):pieces(opts) end,
  ["uv.udp"] = function(opts) uv.udp(opts) end,
  ["uv.run"] = function() uv.run { "true", nosuch = true } end,
  ["uv.spawn"] = function() uv.spawn { "true", nosuch = true } end,
  ["uv.lines"] = function(opts) uv.lines("/nowhere", opts) end,
  ["uv.follow"] = function(opts) uv.follow("/nowhere", opts) end,
  ["uv.write"] = function(opts) uv.write("/nowhere", rn.chan(), opts) end,
  ["uv.list"] = function(opts) uv.list("/nowhere", opts) end,
  ["uv.watch"] = function(opts) uv.watch("/nowhere", opts) end,
  ["uv.connect"] = function(opts) uv.connect("127.0.0.1", 1, opts) end,
  ["uv.listen"] = function(opts) uv.listen("127.0.0.1", 0, opts) end,
  ["conn:lines"] = function(opts) with_connection(function(conn) conn:lines(opts) end) end,
})
add("luv runnel.tls", {
  ["conn:start_tls"] = function(opts) with_connection(function(conn) conn:start_tls(true, opts) end) end,
  ["tls.client"] = function(opts) tls.client(opts) end,
  ["tls.server"] = function() tls.server { cert = "cert.pem", nosuch = true } end,
})

local function exec_wrong() sqlite.open(":memory:"):exec("select 1", { rows = {}, nosuch = true }) end

add("runnel.sqlite", {
  ["sqlite.open"] = function(opts) sqlite.open(":memory:", opts) end,
  ["db:exec"] = exec_wrong, ["tx:exec"] = exec_wrong,
})

-- Calls f with a store.
local function with_store(f)
  local store <close> = stores.open ":memory:"
  assert(store:stream "orders")
  f(store)
end

add("runnel.store", {
  ["stores.open"] = function(opts) stores.open(":memory:", opts) end,
  ["store:once"] = function(opts) with_store(function(store) store:once("a", nothing, opts) end) end,
  ["store:runs"] = function(opts) with_store(function(store) store:runs("a", nothing, opts) end) end,
  ["store:schedule"] = function(opts) with_store(function(store) store:schedule("a", "@daily", opts) end) end,
  ["schedule:pause"] = function(opts) with_store(function(store) store:schedule("a", "@daily"):pause(opts) end) end,
  ["queue:pause"] = function(opts)
    with_store(function(store)
      assert(store:stage("orders", 1, nothing, nil, { name = "a" }))
      assert(store:queue "a"):pause(opts)
    end)
  end,
  ["queue:list"] = function(opts)
    with_store(function(store)
      assert(store:stage("orders", 1, nothing, nil, { name = "a" }))
      assert(store:queue "a"):list(opts)
    end)
  end,
  ["dead:list"] = function(opts) with_store(function(store) store:dead("orders"):list(opts) end) end,
  ["sink:put"] = function(opts) with_store(function(store) assert(store:sink "orders"):put(1, opts) end) end,
  ["bucket:watch"] = function(opts) with_store(function(store) assert(store:kv "b"):watch(nil, opts) end) end,
})

-- Calls f with a connection to a simulated NATS server.
local function with_nats(f)
  sim.run(function()
    local world = sim.world()
    world:nats "queue"
    local result = { true }
    world:host("a", function()
      local conn <close> = assert(nats.connect "nats://queue")
      result = table.pack(pcall(f, conn))
    end)
    world:run()
    if not result[1] then error(result[2], 0) end
  end)
end

add("runnel.nats", {
  ["nats.connect"] = function(opts) nats.connect("nats://127.0.0.1:1", opts) end,
  ["tls"] = function(opts) nats.connect("nats://127.0.0.1:1", { tls = opts }) end,
  ["conn:publish"] = function(opts) with_nats(function(conn) conn:publish("a", "b", opts) end) end,
  ["conn:request"] = function(opts) with_nats(function(conn) conn:request("a", "b", opts) end) end,
  ["conn:subscribe"] = function(opts) with_nats(function(conn) conn:subscribe("a", opts) end) end,
  ["m:respond"] = function(opts)
    with_nats(function(conn)
      local ch = conn:subscribe "a"
      conn:publish("a", "b", { reply = "c" })
      ch:take():respond("d", opts)
    end)
  end,
})

-- What connections and stores have alike.
for name, f in pairs {
  stream = function(owner, opts) owner:stream("a", opts) end,
  source = function(owner, opts) owner:source("a", opts) end,
  sink = function(owner, opts) owner:sink("a", opts) end,
  stage = function(owner, opts) owner:stage("a", 1, nothing, "b", opts) end,
  kv = function(owner, opts) owner:kv("a", opts) end,
  remote = function(owner, opts) owner:remote("a", opts) end,
  serve = function(owner, opts) owner:serve("a", 1, nothing, opts) end,
} do
  add("runnel.store", { ["store:" .. name] = function(opts) with_store(function(store) f(store, opts) end) end })
  add("runnel.nats", { ["conn:" .. name] = function(opts) with_nats(function(conn) f(conn, opts) end) end })
end

-- Those that have no such call: options of a command; and the changes of a queue, which depend on its kind.
local ELSEWHERE <const> = { ["runnel build"] = true, ["queue:change"] = true }

local options_of_manual -- once they were read

-- Calls f with each option of the manual.
local function each_option(f)
  if not options_of_manual then
    options_of_manual = {}
    for _, path in ipairs(pages.of "docs/manual") do
      for _, one in ipairs(tables.of(path)) do
        for _, option in ipairs(tables.options(one)) do table.insert(options_of_manual, option) end
      end
    end
  end
  for _, option in ipairs(options_of_manual) do f(option) end
end

-- The options in the manual, as a set for each function.
local function documented()
  local of = {}
  each_option(function(option)
    for _, name in ipairs(option.functions) do
      of[name] = of[name] or {}
      of[name][option.name] = true
    end
  end)
  return of
end

-- Options that the manual has in other tables: what a stage of a flow does, what http.events and http.download share
-- with http.request, schedules with runs, and http.proxy with all requests.
local function is_documented_elsewhere(name, option)
  if name == "store:schedule" then return documented()["store:runs"][option] end
  if name == "flow" then return ("step source from"):find(option, 1, true) end
  return name == "http.events" or name == "http.download"
    or name == "http.proxy" and documented()["http.get"][option]
end

describe("the options in the manual", function()
  for name, options in pairs(documented()) do
    local call = CALLS[name]
    local reason = type(call) == "string" and call
    local it = reason and pending or it
    it("are those that the function takes: " .. name .. (reason and ": " .. reason or ""), function()
      if ELSEWHERE[name] then return end
      local ok, err = pcall(assert(call or nil, "the spec does not call " .. name), WRONG)
      assert.is_false(ok)
      local known = tostring(err):match "unknown option ['\"]nosuch['\"]; known: ([%l%d_, ]+)"
      assert.is_string(known, err)
      local takes = {}
      for option in known:gmatch "[%l%d_]+" do takes[option] = true end
      if err:find("and libcurl's", 1, true) then
        for option in pairs(curl and curl.options or {}) do takes[option] = true end
      end
      for option in pairs(options) do assert.is_true(takes[option], name .. " does not take " .. option) end
      for option in pairs(takes) do
        local is_there = options[option] or is_documented_elsewhere(name, option)
        assert.is_truthy(is_there, option .. " is not in the manual")
      end
    end)
  end

  -- The words of a file, and those that are set: `name = value`, and `opts.name, opts.other = ...`.
  local function words_of(text)
    local file = { has = {}, sets = {} }
    for word in text:gmatch "[%a_][%w_]*" do file.has[word] = true end
    for word in text:gmatch "([%a_][%w_]*)%s*=[^=]" do file.sets[word] = true end
    for list in text:gmatch "\n%s*([%w_.]+,[^\n=]*)=" do
      for word in list:gmatch "%.([%a_][%w_]*)" do file.sets[word] = true end
    end
    return file
  end

  -- Whether a file sets an option, and names a function that has it.
  local function is_set(files, option)
    for _, file in ipairs(files) do
      for _, name in ipairs(file.sets[option.name] and option.functions or {}) do
        if file.has[name:match "[%a_]+$"] then return true end
      end
    end
    return false
  end

  it("are set by name in a spec, each of them #ci", function()
    local paths <close> = assert(io.popen "find spec -name '*.lua' -not -path 'spec/docs/*'")
    local files, unset = {}, {}
    for path in paths:lines() do files[#files + 1] = words_of(pages.read(path)) end
    assert.is_true(#files > 100)
    each_option(function(option)
      -- Those of a command line are other words.
      local is_found = option.name:find "^%-" or is_set(files, option)
      if not is_found then unset[#unset + 1] = option.functions[1] .. ": " .. option.name end
    end)
    assert.same({}, unset)
    local few = { words_of "serve { max_heade = 1 }", words_of "if max_header == 1 then serve() end" }
    assert.is_false(is_set(few, { name = "max_header", functions = { "http.serve" } }))
    few[3] = words_of "serve { max_header = 1 }"
    assert.is_true(is_set(few, { name = "max_header", functions = { "http.serve" } }))
  end)
end)

return CALLS -- for scripts/docs/api_lua.lua, which asks each function for its options
