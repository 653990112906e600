-- rn.metrics: the numbers of a program, and their text for Prometheus.

local flow = require "runnel.flow"
local http = require "runnel.http"
local keepers = require "runnel.queue.keeper"
local memory = require "examples.lib.memory_keeper"
local patience = require "spec.support.patience"
local promtool = require "spec.support.promtool"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"
local web = require "spec.support.http.web"

describe("rn.metrics", function()
  local is_warm = false

  before_each(function()
    if not is_warm then
      assert(http.serve(0, print)):close() -- opens the descriptor by which threads wake Lua
      rn.sleep(1) -- lets its go blocks end
      is_warm = true
    end
    stage.open()
  end)
  after_each(function()
    rn.metrics(false)
    stage.close()
  end)

  it("counts go blocks by state", function()
    sim.run(function()
      local never = rn.chan()
      rn.metrics()
      rn.go(function() never:take() end)
      rn.go(function() never:take() end)
      rn.go(rn.sleep, 10)
      rn.sleep(1)
      rn.go(function() end)
      assert.same({ new = 0, parked = 2, ready = 1, running = 1, sleeping = 1 }, rn.metrics().go_blocks)
      never:close()
    end)
  end)

  it("counts more go blocks than it looks at in one turn", function()
    rn.metrics()
    local starts, n = {}, 0 -- more than 8192
    for i = 1, 9 do
      local start = rn.chan()
      starts[i] = start
      for _ = 1, 1000 do
        n = n + 1
        rn.go(start.take, start)
      end
    end
    rn.yield()
    local counted = { rn.metrics().go_blocks.parked, rn.go(function() return rn.metrics().go_blocks.parked end):take() }
    for _, start in ipairs(starts) do start:close() end
    rn.yield()
    local others = rn.metrics().go_blocks.parked
    assert.same({ n, n }, { counted[1] - others, counted[2] - others })
  end)

  it("has the values, puts and takes of channels by name", function()
    rn.metrics()
    local jobs = rn.chan(2):name "jobs"
    local sender = rn.go(function() for i = 1, 5 do jobs:put(i) end end)
    rn.yield()
    jobs:take()
    rn.yield()
    assert.same({ channels = 1, put_total = 3, take_total = 1,
      values = 2, capacity = 2, puts_waiting = 1, takes_waiting = 0 }, rn.metrics().channels.jobs)
    for _ = 1, 4 do jobs:take() end
    local taker = rn.go(function() return jobs:take() end)
    rn.yield()
    assert.same({ channels = 1, put_total = 5, take_total = 5,
      values = 0, capacity = 2, puts_waiting = 0, takes_waiting = 1 }, rn.metrics().channels.jobs)
    jobs:close()
    rn.alts { sender, taker }
  end)

  it("adds up channels whose names differ only in digits, and those without a name by their line", function()
    rn.metrics()
    local list = {}
    for i = 1, 12 do
      list[i] = rn.chan(1):name("job " .. i)
      list[-i] = rn.chan(1)
      list[i]:put(i)
    end
    local line = debug.getinfo(1, "l").currentline - 3
    local channels = rn.metrics().channels
    assert.same({ 12, 12, 12 }, { channels["job #"].channels, channels["job #"].put_total, channels["job #"].values })
    assert.equal(12, channels["spec/rn/metrics_spec.lua:" .. line].channels)
  end)

  it("keeps counters when channels are collected", function()
    rn.metrics()
    for i = 1, 3 do
      local ch = rn.chan(5):name "short"
      for _ = 1, i do ch:put(true) end
      assert.equal(i * (i + 1) // 2, rn.metrics().channels.short.put_total)
      ch = nil -- luacheck: ignore 311
      for _ = 1, 3 do collectgarbage() end
    end
    assert.is_nil(rn.metrics().channels.short)
    rn.chan(1):name("short"):put(true)
    assert.equal(7, rn.metrics().channels.short.put_total)
  end)

  it("tells 200 names apart, and adds up the rest", function()
    rn.metrics()
    local kept = {}
    local function name(i) return ("%s%s"):format(string.char(97 + i // 26), string.char(97 + i % 26)) end
    for i = 0, 249 do
      kept[i] = rn.chan(1):name(name(i))
      kept[i]:put(i)
    end
    local n, channels = 0, rn.metrics().channels
    for _ in pairs(channels) do n = n + 1 end
    assert.equal(201, n)
    assert.equal(50, channels.other.put_total)
    assert.equal(1, channels.aa.put_total)
    kept[0]:take()
    channels = rn.metrics().channels
    assert.equal(1, channels.aa.take_total)
    assert.equal(0, channels.other.take_total)
  end)

  it("lets others run while it reads many channels", function()
    rn.metrics()
    local kept, ran = {}, 0
    for i = 1, 2000 do kept[i] = rn.chan() end
    local other = rn.go(function()
      while ran < 3 do
        ran = ran + 1
        rn.yield()
      end
    end)
    rn.metrics()
    assert.same({ 3, 2000 }, { ran, #kept })
    other:take()
  end)

  it("counts right while calls overlap, and after one was cancelled or switched off", function()
    rn.metrics()
    local kept, n = {}, 1200
    for i = 1, n do
      kept[i] = rn.chan(5):name "many"
      kept[i]:put(i)
    end
    local function put_total() return rn.metrics().channels.many.put_total end
    local one, other = rn.go(put_total), rn.go(put_total)
    assert.same({ n, n, n }, { one:take(), other:take(), put_total() })

    one = rn.go(put_total)
    rn.yield()
    for i = 1, n do kept[i]:put(i) end
    other = rn.go(put_total)
    rn.yield()
    rn.cancel(other)
    assert.equal(2 * n, put_total())
    one:take()
    kept = nil -- luacheck: ignore 311
    for _ = 1, 3 do collectgarbage() end
    assert.is_nil(rn.metrics().channels.many)
    rn.chan(1):name("many"):put(true)
    assert.equal(2 * n + 1, put_total())

    kept = {}
    for i = 1, n do kept[i] = rn.chan(1):name "few" end
    one = rn.go(rn.metrics)
    rn.yield()
    rn.metrics(false)
    rn.metrics()
    kept[1] = rn.chan(1):name "few"
    kept[1]:put(true)
    one:take()
    assert.same({ 1, 1 }, { rn.metrics().channels.few.channels, rn.metrics().channels.few.put_total })
  end)

  it("has the stages of flows", function()
    sim.run(function()
      local gate = rn.chan()
      local f = flow("import 7", {
        source = { from = { 1, 2, 3, 4, 5, 6, 7, 8 } },
        work = { function(v)
          if v == 1 then error("no", 0) end
          gate:take()
        end, n = 2 },
        bad = function() end,
        "source > work", "work.error > bad",
      })
      f:start()
      rn.sleep(10)
      local row = rn.metrics().flows["import #"].work
      assert.same({ 1, 2, 2, "running" }, { row.errors, row.busy, row.workers, row.state })
      assert.is_true(row.taken >= 3)
      gate:close()
      f:wait()
      assert.is_nil(rn.metrics().flows["import #"])
    end)
  end)

  it("has the workers and durable stages", function()
    local reports = stage.reports(function()
      sim.run(function()
        local orders = memory.queue "orders"
        local w = assert(keepers.stage(orders:keeper(), 3, function(v)
          if v == 1 then error("no", 0) else rn.sleep(v * 1000) end
        end, { results = false, tries = 1 }))
        for v = 1, 5 do orders:append(v) end
        rn.sleep(2500)
        local row = rn.metrics().queues.orders
        assert.same({ 1, 1, 1, 3, 3, false },
          { row.done, row.failed, row.given_up, row.workers, row.running, row.paused })
        w:stop()
        assert.is_nil(rn.metrics().queues.orders)
      end)
    end)
    assert.equal(1, #reports)
  end)

  it("has the pools of threads, by what they call, and counts the threads", function()
    local before, stop = rn.metrics().threads, rn.shared_chan()
    local function work(v)
      if v == "bad" then error("no", 0) end
      if type(v) ~= "string" then v:take() end
      return v
    end
    local line = debug.getinfo(work, "S").linedefined
    local pool <close> = rn.threads(2, work)
    local _ <close> = setmetatable({}, { __close = function() stop:close() end }) -- before the pool
    assert.equal("a", pool "a")
    assert.is_false((pcall(pool, "bad")))
    local calls = {}
    for i = 1, 5 do calls[i] = rn.go(pool, stop) end
    local row, numbers
    patience.wait_for(function()
      numbers = rn.metrics()
      row = numbers.pools["spec/rn/metrics_spec.lua:" .. line]
      return row.waiting == 3
    end)
    assert.same({ calls = 7, failed = 1, threads = 2, running = 2, waiting = 3 }, row)
    assert.equal(before + 2, numbers.threads)
    stop:close()
    for _, call in ipairs(calls) do call:take() end
    pool:drain()
    assert.same({}, rn.metrics().pools)
  end)

  it("keeps no pool from being collected, and goes on counting with the next one of its name", function()
    local function make() return rn.threads(1, function(v) return v end) end
    local function calls()
      local _, row = next(rn.metrics().pools)
      return row and row.calls
    end
    local kept = setmetatable({ make() }, { __mode = "v" })
    kept[1](1)
    assert.equal(1, calls())
    patience.wait_for(function()
      collectgarbage()
      return not calls() and kept[1] == nil
    end)
    local next_one <close> = make()
    next_one(1)
    assert.equal(2, calls())
  end)

  it("counts reported errors", function()
    local before = rn.metrics().errors
    rn.go(function() error("lost", 0) end)
    rn.yield()
    require("runnel.core").internal.report_unhandled()
    assert.equal("lost", stage.heard()[1].err)
    assert.equal(before + 1, rn.metrics().errors)
  end)

  it("has the time for which the thread is blocked in a system call, and neither computes nor waits", function()
    rn.metrics()
    os.execute "sleep 0.05"
    local last = rn.metrics().blocked
    for _ = 1, 200 do
      rn.sleep(0.2) -- the loop waits: that is not blocked, and computes in the driver, which counts as both
      local now = rn.metrics().blocked
      assert.is_true(now >= last)
      last = now
    end
    -- Less than 200: the time in which a busy machine lets others run does not count. That may be most of it.
    patience.wait_for(function()
      local since = rn.metrics().blocked
      rn.go(function() os.execute "sleep 0.2" end):take()
      return rn.metrics().blocked - since >= 100
    end)
    assert.matches("\nrunnel_loop_blocked_seconds_total 0?%.?%d", rn.metrics():text())
  end)

  it("never lets a counter go back", function()
    local ch, last = rn.chan(1):name "counted", {}
    for i = 1, 100 do
      rn.go(function() ch:put(i) end)
      ch:take()
      if i == 50 then os.execute "sleep 0.02" end
      rn.sleep(0.2)
      for name, value in rn.metrics():text():gmatch "\n([%w_]+_total[^\n]-) ([%d.e+-]+)%f[\n]" do
        value = tonumber(value)
        assert.is_true(value >= (last[name] or 0), name)
        last[name] = value
      end
    end
    assert.is_true((last.runnel_loop_blocked_seconds_total or 0) > 0)
    rn.go(ch.close, ch):take()
  end)

  it("measures how long the loop waits and computes", function()
    rn.metrics()
    local before = rn.metrics()
    rn.sleep(30)
    local block = rn.go(function()
      local since = rn.now()
      while rn.now() - since < 60 do end
    end)
    block:take()
    rn.sleep(1)
    local numbers = rn.metrics()
    assert.is_true(numbers.waited - before.waited >= 29)
    assert.is_true(numbers.longest_turn >= 60)
    assert.is_true(numbers.cpu >= before.cpu)
    assert.is_true(numbers.memory > 10000)
    rn.sleep(1)
    assert.is_true(rn.metrics().longest_turn < numbers.longest_turn)
  end)

  it("measures while the monitor's page looks, too, and after that", function()
    rn.metrics()
    local m = assert(require("runnel.monitor").listen(0))
    local function waits_longer_than(ms)
      return patience.wait_until(function() return rn.metrics().waited > ms and rn.metrics().waited end)
    end
    local waited = waits_longer_than(4)
    m:close()
    assert.is_number(waited)
    assert.is_number(waits_longer_than(rn.metrics().waited))
    rn.metrics(false)
    local again = assert(require("runnel.monitor").listen(0))
    rn.metrics()
    rn.metrics(false)
    rn.sleep(5)
    again:close()
  end)

  it("begins anew after it was switched off", function()
    rn.metrics()
    local ch = rn.chan(3):name "anew"
    ch:put(1)
    assert.equal(1, rn.metrics().channels.anew.put_total)
    assert.is_nil(rn.metrics(false))
    assert.same({}, rn.metrics().channels)
  end)

  it("raises if it is called wrongly", function()
    local ok, err = pcall(function() rn.metrics "x" end)
    assert.is_false(ok)
    assert.matches("metrics_spec.lua:%d+: metrics: true, false or nothing expected, got a string", err)
  end)

  describe("as text", function()
    -- A text with something of each kind.
    local function everything()
      local text
      sim.run(function()
        rn.metrics()
        local gate = rn.chan(3):name 'a "quoted"\\ name\nin two lines \xe9'
        gate:put(1)
        local f = flow("f", { one = { function() gate:take() end, input = true } })
        f:start()
        local w = assert(keepers.stage(memory.queue("q"):keeper(), 3, print, { results = false }))
        text = rn.metrics():text()
        w:stop()
        f:stop()
      end)
      return text
    end

    it("has a sample in a line, below the help and the type of its name", function()
      local text = everything()
      local function has(lines) assert.truthy(text:find("\n" .. lines .. "\n", 1, true), lines) end
      has "# HELP runnel_channel_values Values in the buffers of channels.\n# TYPE runnel_channel_values gauge"
      has [[runnel_channel_values{channel="a \"quoted\"\\ name\nin two lines é"} 1]]
      has 'runnel_flow_state{flow="f",stage="one",state="running"} 1'
      has 'runnel_queue_workers{queue="q"} 3'
      assert.matches("\nrunnel_errors_total %d+\n", text)
      assert.matches("\nprocess_cpu_seconds_total %d+%.[%de-]+\n$", text)
    end)

    it("passes promtool", function()
      if not promtool.is_there then return pending "promtool is not installed (Debian: prometheus)" end
      promtool.assert_passes(everything())
    end)
  end)
end)

describe("the text of rn.metrics", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(function()
    rn.metrics(false)
    uv_stage.close()
  end)

  it("is what http.serve's function can return", function()
    local server <close> = assert(http.serve(0, function() return rn.metrics():answer() end))
    local status, body, head = web.ask(server, "GET /metrics")
    assert.equal(200, status)
    assert.matches("\nrunnel_go_blocks{state=\"running\"} 1\n", body)
    assert.matches("[Cc]ontent%-[Tt]ype: text/plain; version=0%.0%.4; charset=utf%-8", head)
  end)

  describe("of HTTP servers", function()
    -- The numbers of a server once they fulfil a condition: its thread counts a request after its last byte was sent.
    local function numbers_of(server, condition)
      local row
      patience.wait_for(function()
        row = rn.metrics().http[tostring(server.port)]
        return row and condition(row)
      end)
      return row
    end

    local function sum(requests)
      local n = 0
      for _, count in pairs(requests) do n = n + count end
      return n
    end

    it("counts requests by status, those that it refuses too, and how long they take", function()
      local server = assert(http.serve(0, function(req)
        if req.path == "/slow" then rn.sleep(30) end
        return req.path == "/none" and 404 or 200
      end, { max = 10 }))
      for _, path in ipairs { "/", "/", "/none", "/slow" } do web.ask(server, "GET " .. path) end
      web.ask(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n")
      web.ask(server, "what is this")
      local row = numbers_of(server, function(row) return sum(row.requests) == 6 end)
      assert.same({ [200] = 3, [400] = 1, [404] = 1, [413] = 1 }, row.requests)
      assert.equal(0, row.running)
      assert.is_true(row.seconds >= 0.03 and row.seconds < 20)
      local last = row.times[#row.times]
      assert.same({ math.huge, 4 }, last) -- those that have reached the function
      for i = 2, #row.times do assert.is_true(row.times[i][2] >= row.times[i - 1][2]) end
      assert.is_true(row.times[5][1] == 0.025 and row.times[5][2] <= 3)
      local text = rn.metrics():text()
      local port = ('{port="%d"'):format(server.port)
      local function has(lines) assert.truthy(text:find("\n" .. lines .. "\n", 1, true), lines) end
      has("runnel_http_requests_total" .. port .. ',code="404"} 1')
      has("runnel_http_requests_in_flight" .. port .. "} 0")
      has("runnel_http_request_duration_seconds_bucket" .. port .. ',le="+Inf"} 4')
      has("runnel_http_request_duration_seconds_count" .. port .. "} 4")
      promtool.assert_passes(text)
      server:close()
      assert.same({}, rn.metrics().http)
    end)

    it("counts requests that take too long", function()
      local server <close> = assert(http.serve(0, function() rn.chan():take() end, { timeout = 20 }))
      web.ask(server, "GET /")
      assert.same({ [503] = 1 }, numbers_of(server, function(row) return sum(row.requests) == 1 end).requests)
    end)

    it("counts requests that run, and those whose client goes away", function()
      local began, stopped = rn.chan(), rn.chan()
      local server <close> = assert(http.serve(0, function()
        local _ <close> = setmetatable({}, { __close = function() stopped:close() end })
        began:close()
        rn.chan():take()
        return 200
      end))
      local client = assert(require("runnel.uv").connect("127.0.0.1", server.port))
      client:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      began:take()
      assert.equal(1, numbers_of(server, function(row) return row.running == 1 end).running)
      client:close()
      stopped:take()
      local row = numbers_of(server, function(row) return row.running == 0 end)
      assert.same({ [499] = 1 }, row.requests)
    end)
  end)
end)
