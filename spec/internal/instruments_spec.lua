-- rn.counter, rn.gauge, rn.histogram: the program's own numbers in rn.metrics.

local promtool = require "spec.support.promtool"
local rn = require "runnel"
local sim = require "runnel.sim"

-- Instruments live as long as the state: each test has names of its own.
local number = 0
local function fresh(stem, ending)
  number = number + 1
  return ("%s_%s%s"):format(stem, string.char(97 + number // 26, 97 + number % 26), ending or "")
end

local function own(name) return rn.metrics().own[name] end

-- The lines of rn.metrics' text that are about a name.
local function lines_of(name)
  local found = {}
  for line in rn.metrics():text():gmatch "[^\n]+" do
    if line:find(name, 1, true) then found[#found + 1] = line:gsub(name, "NAME") end
  end
  return found
end

describe("the program's own numbers", function()
  after_each(function() rn.metrics(false) end)

  it("are counted whether rn.metrics is on or off, from 0 on if they have no labels", function()
    local name = fresh("orders", "_total")
    local c = rn.counter(name, "Orders.")
    assert.same({ { labels = {}, value = 0 } }, own(name).series)
    rn.metrics(false)
    c:add()
    c:add(2.5)
    assert.same({ kind = "counter", help = "Orders.", series = { { labels = {}, value = 3.5 } } }, own(name))
  end)

  it("have a series for each combination of labels, in the order of their values", function()
    local name = fresh "room"
    local g = rn.gauge(name, "How many.", { labels = { "house", "floor" } })
    g:set(3, { house = "b", floor = 1 })
    g:add(-5, { house = "a", floor = true })
    g:set(4, { house = "b", floor = "1" }) -- the same labels in the text
    assert.same({ { labels = { house = "a", floor = "true" }, value = -5 },
      { labels = { house = "b", floor = "1" }, value = 4 } }, own(name).series)
    g:remove { house = "b", floor = 1 }
    g:remove { house = "never", floor = 1 }
    assert.equal(1, #own(name).series)
  end)

  it("tell apart all combinations of values, whatever is in them", function()
    local name = fresh "pair"
    local g = rn.gauge(name, "Pairs.", { labels = { "a", "b" } })
    local texts, n = { "", ":", "1:", "1:1", "\0", "a", "a\n", "é", "é\0" }, 0
    for _, a in ipairs(texts) do
      for _, b in ipairs(texts) do
        n = n + 1
        g:set(n, { a = a, b = b })
      end
    end
    local seen = {}
    for _, series in ipairs(own(name).series) do seen[series.value] = series.labels end
    assert.equal(n, #seen)
    assert.same({ a = "é\0", b = "é\0" }, seen[n])
  end)

  it("are one series where the text could not tell them apart", function()
    local name = fresh("bytes", "_total")
    local c = rn.counter(name, "Bytes.", { labels = { "byte" } })
    c:add(1, { byte = "\xe9" })
    c:add(1, { byte = "é" })
    assert.same({ { labels = { byte = "é" }, value = 2 } }, own(name).series)
  end)

  it("have a bounded number of series: those of further values are added up", function()
    local name, few = fresh("users", "_total"), fresh("users", "_total")
    local c = rn.counter(name, "Users.", { labels = { "user" } })
    local d = rn.counter(few, "Users.", { labels = { "user", "place" }, series = 2 })
    for i = 1, 250 do
      c:add(1, { user = i })
      d:add(1, { user = i, place = "x" })
    end
    local series, other = own(name).series, nil
    for _, one in ipairs(series) do other = one.labels.user == "other" and one.value or other end
    assert.same({ 201, 50 }, { #series, other })
    assert.equal(3, #own(few).series)
    assert.same({ labels = { user = "other", place = "other" }, value = 248 }, own(few).series[3])
  end)

  it("are integers until they are too large for them, and never fall", function()
    local name = fresh("large", "_total")
    local c = rn.counter(name, "Large.")
    c:add(math.maxinteger)
    assert.equal(math.maxinteger, own(name).series[1].value)
    c:add(math.maxinteger)
    assert.equal(2.0 ^ 64, own(name).series[1].value)
    for _ = 1, 2 do c:add(1.7e308) end
    assert.same({ "NAME +Inf" }, { lines_of(name)[3] })
  end)

  it("count values in the bucket of the least bound that they do not exceed", function()
    local name = fresh "size"
    local h = rn.histogram(name, "Sizes.", { buckets = { -1, 0, 1.5, 10 } })
    for _, value in ipairs { -2, -1, -0.5, 0, 0.1, 1.5, 1.6, 10, 11 } do h:observe(value) end
    local series = own(name).series[1]
    assert.same({ { -1, 2 }, { 0, 4 }, { 1.5, 6 }, { 10, 8 }, { math.huge, 9 } }, series.times)
    assert.equal(9, series.count)
    assert.is_true(math.abs(series.sum - 20.7) < 1e-9)
  end)

  it("are in Prometheus' text as its guide says, with escapes", function()
    local name, quoted = fresh("order_duration", "_seconds"), fresh("odd", "_total")
    local h = rn.histogram(name, "Time of an order.", { unit = "seconds", buckets = { 0.1, 1 }, labels = { "shop" } })
    h:observe(0.25, { shop = "x" })
    local c = rn.counter(quoted, "A \\ and\ntwo lines \xe9.", { labels = { "b", "a" } })
    c:add(1, { a = 'a "\\\n', b = "" })
    assert.same({
      "# HELP NAME Time of an order.", "# TYPE NAME histogram",
      'NAME_bucket{shop="x",le="0.1"} 0', 'NAME_bucket{shop="x",le="1"} 1', 'NAME_bucket{shop="x",le="+Inf"} 1',
      'NAME_sum{shop="x"} 0.25', 'NAME_count{shop="x"} 1',
    }, lines_of(name))
    assert.same({ "# HELP NAME A \\\\ and\\ntwo lines é.", "# TYPE NAME counter",
      [[NAME{a="a \"\\\n",b=""} 1]] }, lines_of(quoted))
  end)

  it("pass promtool", function()
    if not promtool.is_there then return pending "promtool is not installed (Debian: prometheus)" end
    rn.counter(fresh("orders", "_total"), "Orders.", { labels = { "shop" } }):add(1, { shop = 'x"\\\n\xff' })
    rn.gauge(fresh("temperature", "_celsius"), "A\nhelp \\ text.", { unit = "celsius" }):set(-1.5e-7)
    rn.histogram(fresh("duration", "_seconds"), "Times.", { unit = "seconds" }):observe(3)
    promtool.assert_passes(rn.metrics():text())
  end)

  it("are the same object where they are made again with the same arguments", function()
    local name = fresh("again", "_total")
    local options = { labels = { "a", "b" } }
    assert.equal(rn.counter(name, "Again.", options), rn.counter(name, "Again.", { labels = { "a", "b" } }))
  end)

  it("are those of the host on which a program of a simulated world runs", function()
    local name = fresh("hosts", "_total")
    local seen = {}
    for _ = 1, 2 do
      sim.run(function()
        local world = sim.world()
        for _, host in ipairs { "a", "b" } do
          world:host(host, function()
            local c = rn.counter(name, "Hosts.")
            for _ = 1, host == "a" and 1 or 2 do c:add() end
            seen[#seen + 1] = host .. own(name).series[1].value
          end)
        end
        rn.sleep(10)
      end)
    end
    table.sort(seen)
    assert.same({ "a1", "a1", "b2", "b2" }, seen)
    assert.is_nil(own(name))
  end)

  it("raise at the caller's line if they are made or used wrongly, and count nothing then", function()
    local name = fresh("wrong", "_total")
    local c = rn.counter(name, "Wrong.", { labels = { "shop" } })
    local g, h = rn.gauge(fresh "g", "G."), rn.histogram(fresh "h", "H.")
    local cases = {
      { "counter: a name expected, got nothing", function() local _ = rn.counter() end },
      { "counter: help: a text that says what is counted expected, got a table",
        function() local _ = rn.counter("a_total", {}) end },
      { 'help: a text that says what is counted expected, got ""', function() local _ = rn.gauge("a", "") end },
      { "the name of a counter ends with _total: a_total", function() local _ = rn.counter("a", "A.") end },
      { "_total at the end would be mistaken for a counter", function() local _ = rn.gauge("a_total", "A.") end },
      { "_count at the end would be mistaken for a part of a histogram",
        function() local _ = rn.gauge("a_count", "A.") end },
      { "that begins with a letter expected, got \"a%-b_total\"",
        function() local _ = rn.counter("a-b_total", "A.") end },
      { "names that begin with runnel_ and process_ are", function() local _ = rn.gauge("runnel_a", "A.") end },
      { "a name with its unit expected, a_bytes_total, got a_total",
        function() local _ = rn.counter("a_total", "A.", { unit = "bytes" }) end },
      { 'unit: "amperes", .* expected, got "ms"', function() local _ = rn.gauge("a", "A.", { unit = "ms" }) end },
      { 'unknown option "label"; known: labels, series, unit',
        function() local _ = rn.gauge("a", "A.", { label = {} }) end },
      { 'other than le, expected, got "le"', function() local _ = rn.gauge("a", "A.", { labels = { "le" } }) end },
      { "labels: b stands twice", function() local _ = rn.gauge("a", "A.", { labels = { "b", "b" } }) end },
      { "labels: a list of names expected", function() local _ = rn.gauge("a", "A.", { labels = { b = 1 } }) end },
      { "finite numbers in ascending order expected, got 1 at 2",
        function() local _ = rn.histogram("a", "A.", { buckets = { 1, 1 } }) end },
      { "a list of 1 to 100 numbers expected, got 0",
        function() local _ = rn.histogram("a", "A.", { buckets = {} }) end },
      { "there is a counter with the name " .. name .. " already",
        function() local _ = rn.counter(name, "Other.") end },
      { "add: a finite number of at least 0 expected, got %-1", function() c:add(-1, { shop = 1 }) end },
      { "add: labels: a table with values for shop expected, got nothing", function() c:add(1) end },
      { "add: labels: a table with values for shop expected, got a string", function() c:add(1, "x") end },
      { 'add: unknown label "shap"; .* has shop', function() c:add(1, { shop = 1, shap = 2 }) end },
      { "add: label shop: a string, a number or a boolean expected, got nothing", function() c:add(1, {}) end },
      { 'set: unknown label "a"; .* has none', function() g:set(1, { a = 1 }) end },
      { "set: a finite number expected, got inf", function() g:set(math.huge) end },
      { "add: a finite number expected, got nothing", function() g:add() end },
      { "observe: a finite number expected, got %-?nan", function() h:observe(0 / 0) end },
    }
    for _, case in ipairs(cases) do
      local info = debug.getinfo(case[2], "S")
      local ok, err = pcall(case[2])
      assert.is_false(ok, case[1])
      assert.matches("instruments_spec.lua:" .. info.linedefined .. ": .*" .. case[1], err)
    end
    assert.same({}, own(name).series)
    assert.is_nil(own "a")
  end)
end)
