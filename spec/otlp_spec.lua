-- runnel.otlp: traces and metrics, sent to a collector of OpenTelemetry.

local http = require "runnel.http"
local json = require "runnel.json"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local found, otlp = pcall(require, "runnel.otlp")
if not found then return pending(otlp) end

local TRACE <const>, PARENT <const> = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

local function parent(flags) return { traceparent = ("00-%s-%s-%s"):format(TRACE, PARENT, flags) } end

-- Runs a program that exports, on the host "shop" of a world; on "collector", answer(n, path, request) answers its n-th
-- request. Returns what the collector has got, by path: lists of { ms, body }.
local function export(answer, program)
  local got, n = { ["/v1/traces"] = {}, ["/v1/metrics"] = {} }, 0
  sim.run(function()
    local world = sim.world()
    world:host("collector", function()
      assert(http.serve(4318, function(req)
        n = n + 1
        table.insert(got[req.path], { math.floor(sim.elapsed()), assert(json.decode(req:body())) })
        return answer(n, req.path, req)
      end, { host = "0.0.0.0" }))
    end)
    local done = rn.chan()
    world:host("shop", function()
      rn.sleep(10)
      program()
      done:close()
    end)
    done:take()
  end)
  return got
end

local function yes() return 200, nil, "{}" end

local function ask(path, headers) return assert(http.request { url = "http://shop:80" .. path, headers = headers }) end

local function serve(f) return assert(http.serve(80, f or function() return 200 end, { host = "0.0.0.0" })) end

-- The spans of all bodies, in their order.
local function spans_of(list)
  local spans = {}
  for _, one in ipairs(list) do
    for _, span in ipairs(one[2].resourceSpans[1].scopeSpans[1].spans) do spans[#spans + 1] = span end
  end
  return spans
end

local function attributes(list)
  local map = {}
  for _, one in ipairs(list) do
    local _, value = next(one.value)
    map[one.key] = value
  end
  return map
end

-- The metrics of a body, by name.
local function metrics_of(body)
  local map = {}
  for _, one in ipairs(body.resourceMetrics[1].scopeMetrics[1].metrics) do map[one.name] = one end
  return map
end

describe("runnel.otlp", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end -- which simulated worlds need
  before_each(uv_stage.open)
  after_each(function()
    rn.metrics(false)
    uv_stage.close()
  end)

  it("sends a span for each request to http.serve, in batches", function()
    local got = export(yes, function()
      local _ <close> = otlp.start("http://collector:4318/", { service = "shop", metrics = false,
        resource = { zone = 7 }, headers = { ["X-Key"] = "secret" } })
      local _ <close> = serve(http.router {
        ["GET /users/:id"] = function() rn.sleep(20) return 200, nil, "x" end,
        ["/broken"] = function() return 500 end,
      })
      ask("/users/17", parent "01")
      ask("/broken")
    end)
    local list = got["/v1/traces"]
    assert.equal(1, #list)
    assert.same({ ["service.name"] = "shop", zone = "7", ["telemetry.sdk.name"] = "runnel",
      ["telemetry.sdk.language"] = "lua" }, attributes(list[1][2].resourceSpans[1].resource.attributes))
    local good, bad = table.unpack(spans_of(list))
    assert.same({ TRACE, PARENT, "GET /users/:id", 2 }, { good.traceId, good.parentSpanId, good.name, good.kind })
    assert.same({ ["http.request.method"] = "GET", ["url.path"] = "/users/17", ["http.route"] = "/users/:id",
      ["http.response.status_code"] = "200" }, attributes(good.attributes))
    assert.equal(0, good.status.code)
    assert.is_true(math.tointeger(good.startTimeUnixNano) <= math.tointeger(good.endTimeUnixNano))
    assert.same({ 2, "status 500" }, { bad.status.code, bad.status.message })
    assert.is_nil(bad.parentSpanId)
    assert.matches("^%x+$", bad.traceId)
    assert.same({ 32, 16 }, { #bad.traceId, #bad.spanId })
  end)

  it("sends the headers that it was given, and a trace that nobody records", function()
    local seen
    export(function(_, _, req)
      seen = req.headers
      return yes()
    end, function()
      local _ <close> = otlp.start("http://collector:4318", { metrics = false, headers = { ["X-Key"] = "k" } })
      local _ <close> = serve()
      ask "/"
    end)
    assert.same({ "k", "application/json" }, { seen["x-key"], seen["content-type"] })
    assert.matches("^00%-%x+%-%x+%-00$", seen.traceparent)
  end)

  it("sends the error of a request that has failed, and leaves traces out that were not chosen", function()
    local stats
    local got = export(yes, function()
      local exporter = otlp.start("http://collector:4318", { metrics = false })
      local before = rn.on_error(function() end)
      local _ <close> = serve(function(req)
        if req.path == "/bad" then error("it is broken \xff", 0) end
        if req.path == "/wrong" then return 200, nil, { print } end
        if req.path == "/cut" then
          local ch = rn.chan(1)
          ch:put "a"
          ch:close "no more"
          return 201, nil, ch
        end
        return 200
      end)
      ask("/left/out", parent "00")
      for _, path in ipairs { "/bad", "/wrong", "/cut" } do
        http.request { url = "http://shop:80" .. path }
      end
      rn.on_error(before)
      assert.is_true(exporter:drain())
      stats = exporter:stats()
      ask "/too/late"
    end)
    local spans = spans_of(got["/v1/traces"])
    assert.equal(3, #spans)
    assert.same({ "GET /bad", 2, "it is broken ÿ" }, { spans[1].name, spans[1].status.code, spans[1].status.message })
    local statuses = {}
    for i, span in ipairs(spans) do statuses[i] = attributes(span.attributes)["http.response.status_code"] end
    assert.same({ "500", "500", "201" }, statuses)
    assert.same({ sent = 3, dropped = 0, waiting = 0 }, stats.spans)
  end)

  it("sends what is no UTF-8, as a client's path, and what is no number: they do not end it", function()
    local stats
    local got = export(yes, function()
      local exporter = otlp.start("http://collector:4318", { service = "sh\xe9op", metrics = true, every = 1000,
        resource = { ["zone\xff"] = "\xe9", half = 0 / 0 } })
      local _ <close> = serve(function() return 200 end)
      ask "/caf%e9"
      rn.sleep(2500)
      ask "/after"
      assert.is_true(exporter:drain())
      stats = exporter:stats()
    end)
    local first, second = table.unpack(spans_of(got["/v1/traces"]))
    assert.same({ "GET /café", "/café" }, { first.name, attributes(first.attributes)["url.path"] })
    assert.equal("GET /after", second.name)
    assert.same({ sent = 2, dropped = 0, waiting = 0 }, stats.spans)
    local resource = attributes(got["/v1/metrics"][1][2].resourceMetrics[1].resource.attributes)
    assert.same({ "shéop", "é", "NaN" }, { resource["service.name"], resource["zoneÿ"], resource.half })
    assert.is_true(stats.points.sent > 0)
  end)

  it("records the share of new traces that the option sample says", function()
    local stats
    export(yes, function()
      local exporter = otlp.start("http://collector:4318", { metrics = false, sample = 0.25 })
      local _ <close> = serve()
      for _ = 1, 200 do ask "/" end
      exporter:drain()
      stats = exporter:stats()
    end)
    assert.is_true(stats.spans.sent > 20 and stats.spans.sent < 85, tostring(stats.spans.sent))
  end)

  it("sends the numbers of rn.metrics at each time, and a last time at the end", function()
    local got = export(yes, function()
      local _ <close> = otlp.start("http://collector:4318", { traces = false, every = 1000 })
      local c = rn.counter("otlp_orders_total", "Orders.", { labels = { "shop" } })
      local g = rn.gauge("otlp_size_bytes", "A size.", { unit = "bytes" })
      local h = rn.histogram("otlp_times", "Times.", { buckets = { 1, 2 } })
      for i = 1, 2 do
        c:add(2, { shop = "n" })
        g:set(i + 0.5)
        for value = 0, 3 do h:observe(value) end
        rn.sleep(800)
      end
    end)
    local list = got["/v1/metrics"]
    assert.equal(2, #list)
    local first, last = metrics_of(list[1][2]), metrics_of(list[2][2])
    local point = first.otlp_orders_total.sum.dataPoints[1]
    assert.same({ shop = "n" }, attributes(point.attributes))
    assert.equal("4", point.asInt)
    assert.is_true(math.tointeger(point.startTimeUnixNano) < math.tointeger(point.timeUnixNano))
    assert.same({ 2, true }, { first.otlp_orders_total.sum.aggregationTemporality,
      first.otlp_orders_total.sum.isMonotonic })
    assert.same({ 2.5, "By" }, { last.otlp_size_bytes.gauge.dataPoints[1].asDouble, last.otlp_size_bytes.unit })
    local times = last.otlp_times.histogram.dataPoints[1]
    assert.same({ "8", 12.0, { "4", "2", "2" }, { 1.0, 2.0 } },
      { times.count, times.sum, setmetatable(times.bucketCounts, nil), setmetatable(times.explicitBounds, nil) })
    assert.is_truthy(last.runnel_go_blocks)
  end)

  it("says that counters began before the first value, also before the exporter", function()
    local before
    local got = export(yes, function()
      rn.metrics()
      before = require("runnel.core").internal.trace.unix()
      rn.counter("otlp_early_total", "Early."):add(3)
      local ch = rn.chan(1):name "early"
      ch:put(1)
      local _ <close> = otlp.start("http://collector:4318", { traces = false })
    end)
    local all = metrics_of(got["/v1/metrics"][1][2])
    for _, name in ipairs { "otlp_early_total", "runnel_channel_puts_total" } do
      for _, point in ipairs(all[name].sum.dataPoints) do
        assert.is_true(math.tointeger(point.startTimeUnixNano) <= before, name)
      end
    end
  end)

  it("tries again what may succeed later, as long as the collector asks for", function()
    local stats
    local got = export(function(n)
      if n == 1 then return 503, { ["Retry-After"] = "7" }, "busy" end
      if n == 2 then return 429, nil, "busy" end
      return yes()
    end, function()
      local exporter = otlp.start("http://collector:4318", { metrics = false })
      local _ <close> = serve()
      ask "/"
      assert.is_true(exporter:drain(30000))
      stats = exporter:stats()
    end)
    local list = got["/v1/traces"]
    assert.equal(3, #list)
    assert.is_true(list[2][1] - list[1][1] >= 7000)
    local pause = list[3][1] - list[2][1]
    assert.is_true(pause >= 1000 and pause <= 2100, tostring(pause))
    assert.same({ sent = 1, dropped = 0, waiting = 0 }, stats.spans)
  end)

  it("drops what is refused or finds no collector, counts it, and reports it once until something is sent", function()
    local heard, stats, was, is = {}, nil, rn.metrics().otlp.traces or { sent = 0, dropped = 0 }, nil
    export(function(n)
      if n == 1 then return 400, nil, "what\nis this?" end
      if n == 2 then return 200, nil, [[{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}]] end
      if n == 3 then return yes() end
      return 500
    end, function()
      local before = rn.on_error(function(err) heard[#heard + 1] = tostring(err) end)
      local exporter = otlp.start("http://collector:4318", { metrics = false })
      local _ <close> = serve()
      for i = 1, 4 do
        for _ = 1, i do ask "/" end
        rn.sleep(5000)
      end
      stats, is = exporter:stats(), rn.metrics()
      exporter:drain()
      rn.on_error(before)
    end)
    assert.same({ 4, 6 }, { stats.spans.sent, stats.spans.dropped })
    assert.matches("status 500", stats.spans.error)
    assert.equal(2, #heard)
    assert.matches("otlp: 1 spans were dropped: http://collector:4318/v1/traces: status 400: what is this?", heard[1])
    assert.matches("otlp: 4 spans were dropped: .*status 500", heard[2])
    assert.same({ 4, 6 }, { is.otlp.traces.sent - was.sent, is.otlp.traces.dropped - was.dropped })
    assert.matches('\nrunnel_otlp_dropped_total{signal="traces"} %d+\n', is:text())
  end)

  it("drops what its queue has no room for, and never makes a request wait", function()
    local stats, ms
    local before = rn.on_error(function() end)
    export(function()
      rn.sleep(5000)
      return yes()
    end, function()
      local exporter = otlp.start("http://collector:4318", { metrics = false, queue = 3 })
      local _ <close> = serve()
      ask "/"
      rn.sleep(2000) -- the collector has the first, and does not answer
      local since = sim.elapsed()
      for _ = 1, 10 do ask "/" end
      ms = sim.elapsed() - since
      assert.is_true(exporter:drain())
      stats = exporter:stats()
    end)
    rn.on_error(before)
    assert.is_true(ms < 1000)
    assert.same({ 4, 7, 0 }, { stats.spans.sent, stats.spans.dropped, stats.spans.waiting })
  end)

  it("says how long drain has waited for nothing, and counts what was left", function()
    local ok, err, stats, after
    local before = rn.on_error(function() end)
    export(function() rn.sleep(1e6) end, function()
      local exporter = otlp.start("http://collector:4318", { metrics = false })
      local _ <close> = serve()
      ask "/"
      rn.sleep(1500)
      ask "/"
      ok, err = exporter:drain(500)
      rn.sleep(1)
      stats, after = exporter:stats(), rn.traceparent()
    end)
    rn.on_error(before)
    assert.is_false(ok)
    assert.is_true(rn.is_timeout(err))
    assert.equal("the exporter to http://collector:4318 was not drained within 500 ms", tostring(err))
    assert.same({ sent = 0, dropped = 2, waiting = 0 }, stats.spans)
    assert.is_nil(after)
  end)

  it("ends at once by stop, in each state, and leaves nothing behind", function()
    for ms = 0, 3000, 250 do
      local before = rn.on_error(function() end)
      export(function(n)
        if n == 1 then rn.sleep(500) end
        return n == 2 and 503 or 200
      end, function()
        local exporter = otlp.start("http://collector:4318", { every = 1000 })
        local _ <close> = serve()
        ask "/"
        rn.sleep(ms)
        exporter:stop()
        exporter:stop()
        rn.sleep(1)
        assert.is_true(exporter:drain(0))
        local again <close> = otlp.start("http://collector:4318", { metrics = false })
        assert.equal(0, again:stats().spans.waiting)
      end)
      rn.on_error(before)
    end
  end)
end)

describe("otlp.start", function()
  before_each(stage.open)
  after_each(stage.close)

  it("raises at the caller's line if it is called wrongly", function()
    local cases = {
      { "the URL of a collector expected, as http://127.0.0.1:4318, got \"collector:4318\"",
        function() otlp.start "collector:4318" end },
      { 'unknown option "servise"; known: every, headers', function() otlp.start(nil, { servise = "x" }) end },
      { "sample: a number from 0 to 1 expected, got 2", function() otlp.start(nil, { sample = 2 }) end },
      { "every: an integer of at least 1000 expected, got 5", function() otlp.start(nil, { every = 5 }) end },
      { "service: a text expected, got 7", function() otlp.start(nil, { service = 7 }) end },
      { 'resource: names with strings, numbers or booleans expected, got "a" = table',
        function() otlp.start(nil, { resource = { a = {} } }) end },
      { "headers: names with texts of one line expected", function() otlp.start(nil, { headers = { a = "b\n" } }) end },
      { "traces or metrics expected, got neither",
        function() otlp.start(nil, { traces = false, metrics = false }) end },
    }
    for _, case in ipairs(cases) do
      local ok, err = pcall(case[2])
      assert.is_false(ok, case[1])
      assert.matches("otlp_spec.lua:" .. debug.getinfo(case[2], "S").linedefined .. ": otlp.start: ", err)
      assert.truthy(err:find(case[1], 1, true), err)
    end
    local exporter = otlp.start("http://127.0.0.1:1", { metrics = false })
    local ok, err = pcall(function() otlp.start("http://127.0.0.1:1", { metrics = false }) end)
    exporter:stop()
    assert.is_false(ok)
    assert.matches("otlp_spec.lua:%d+: otlp.start: an exporter of traces runs already", err)
  end)
end)
