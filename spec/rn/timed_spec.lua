local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- A channel with room for all that gets values at these times: values[i] is put at times[i], and it closes at `over`.
local function arriving(times, over, err)
  local ch = rn.chan(#times + 1)
  rn.go(function()
    rn.rename "source"
    for i, at in ipairs(times) do
      rn.sleep(at - rn.now())
      ch:put(i)
    end
    rn.sleep(over - rn.now())
    ch:close(err)
  end)
  return ch
end

-- What comes out of a channel, as text, and when; its end and error last.
local function log(ch)
  local list = {}
  while true do
    local value, err = ch:take()
    local text = value == nil and "end " .. tostring(err) or type(value) == "table" and table.concat(value, " ")
      or tostring(value)
    list[#list + 1] = { at = sim.elapsed(), text = text }
    if value == nil then return list end
  end
end

-- Times at which values arrive at random: in bursts, or far from each other. No two sums of differences are equal.
local function random_times(n, mean)
  local times, t = {}, 0
  for i = 1, n do
    t = t + (math.random(3) == 1 and 3 or 0.2) * mean * math.random()
    times[i] = t
  end
  return times, t + 2 * mean * math.random()
end

local function line(at, text) return { at = at, text = tostring(text) } end

-- Runs a model and the real thing with random arrivals.
local function check_model(make, model)
  for seed = 1, stage.is_long and 2000 or 100 do
    math.randomseed(seed)
    local times, over = random_times(math.random(30), 10)
    local n, ms = math.random(5), 20 * math.random()
    local expected = model(times, over, n, ms)
    expected[#expected + 1] = line(math.max(over, expected.over or 0), "end bad")
    expected.over = nil
    local got, rest
    stage.run(function()
      got = log(make(arriving(times, over, "bad"), n, ms))
      rest = stage.others()
    end)
    assert.equal(#expected, #got, "seed " .. seed)
    for i, entry in ipairs(expected) do
      assert.equal(entry.text, got[i].text, "seed " .. seed)
      assert.near(entry.at, got[i].at, 1e-4, "seed " .. seed) -- the clock counts nanoseconds
    end
    assert.same({}, rest)
  end
end

-- A channel on which 1, 2, ... wait, or come every `ms`, and whose take_total tells how many were taken.
local function endless(ms)
  local ch = rn.chan()
  rn.go(function()
    rn.rename "source"
    local i = 1
    while ch:put(i) do
      i = i + 1
      if ms then rn.sleep(ms) end
    end
  end)
  return ch
end

local function taken(ch) return ch:stats().take_total end

local MAKE = {
  batch = function(ch) return rn.batch(ch, 3, 10) end,
  rate = function(ch) return rn.rate(ch, 3, 10) end,
  debounce = function(ch) return rn.debounce(ch, 10) end,
  throttle = function(ch) return rn.throttle(ch, 10) end,
  sample = function(ch) return rn.sample(ch, 10) end,
}

for name, make in pairs(MAKE) do
  describe(name, function()
    before_each(stage.open)
    after_each(stage.close)

    it("closes with the error of its source, at once, behind the last value", stage.within(function()
      local source = rn.chan(1)
      source:put "last"
      source:close "bad"
      local out = make(source)
      local value = out:take()
      assert.equal("last", type(value) == "table" and value[1] or value)
      assert.same({ nil, "bad", n = 2 }, table.pack(out:take()))
      assert.equal(0, sim.elapsed())
    end))

    it("treats an error that its source raises as one with which it closed", stage.within(function()
      local policy = stage.picky(function() return true end)
      local remove, n = policy.remove, 0
      function policy.remove()
        n = n + 1
        if n == 2 then error("broken", 0) end
        return remove()
      end
      local source = rn.chan(policy)
      source:put "first"
      source:put "second"
      local out = make(source)
      local value = out:take()
      assert.equal("first", type(value) == "table" and value[1] or value)
      assert.same({ nil, "broken", n = 2 }, table.pack(out:take()))
    end))

    it("takes nothing more and ends once its result is closed, also while it waits for the time",
      stage.within(function()
      for ms = 0, 12, 4 do
        local source = endless(name == "debounce" and 1 or nil) -- it takes at any time
        local out = make(source)
        if name ~= "debounce" then out:take() end -- which has nothing to give while values come
        rn.sleep(ms)
        out:close()
        rn.yield()
        local before = taken(source)
        rn.sleep(0.001)
        assert.same({ "source" }, stage.others())
        assert.equal(before, taken(source))
        source:close()
        source:take()
        rn.sleep(2)
      end
    end))

    it("ends at once when its result is closed while no value comes", stage.within(function()
      local out = make(rn.chan())
      rn.yield()
      out:close()
      rn.yield()
      assert.same({}, stage.others())
    end))

    it("reports the error of its source once, if nobody takes it", function()
      local reports = stage.reports(function()
        sim.run(function()
          local source = rn.chan()
          local out = make(source)
          rn.yield()
          source:close "bad"
          for _ in out do end
        end)
      end)
      assert.equal(1, #reports)
      assert.equal("bad", reports[1].err)
    end)

    it("has go blocks that carry the line which called it", stage.within(function()
      local source = rn.chan(1)
      local out = make(source)
      source:put(1)
      rn.yield()
      for _, entry in ipairs(stage.entries()) do
        assert.matches("^" .. name .. " at spec/rn/timed_spec.lua:%d+", entry.name)
      end
      assert.is_true(#stage.entries() > 0)
      out:close()
    end))

    -- It has taken some values, and waits for the time.
    local function waiting()
      local source, took = rn.chan(4), { rate = 3, throttle = 1 }
      for i = 1, name == "rate" and 4 or 2 do source:put(i) end
      local out = make(source)
      for i = 1, took[name] or 0 do assert.equal(i, out:take()) end
      rn.sleep(1)
      return source, out
    end

    local function end_of(out)
      local value, err
      repeat value, err = out:take() until value == nil
      return err
    end

    for how, finish in pairs {
      ["its result is closed"] = function(_, out) out:close() end,
      ["its source is closed"] = function(source, out)
        source:close()
        assert.is_nil(end_of(out))
      end,
      ["its go block is cancelled"] = function(_, out)
        for _, entry in ipairs(stage.entries()) do rn.cancel(entry.result, "killed") end
        assert.equal("killed", end_of(out))
      end,
    } do
      it("leaves no timer behind when " .. how, stage.within(function()
        finish(waiting())
        rn.sleep(1)
        stage.check_timers()
      end))
    end

    it("carries false", stage.within(function()
      local value = make(rn.to_chan { false }):take()
      if name == "batch" then value = value[1] end
      assert.equal(false, value)
    end))

    it("is in the report of a deadlock if its source is not closed", function()
      local ok, err = pcall(sim.run, function() for _ in make(rn.chan():name "input") do end end)
      assert.is_false(ok)
      assert.matches("chan: input was not closed: " .. name, err)
    end)
  end)
end

describe("batch", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives on a list when it has n values, or ms after its first one, and the rest at the end", function()
    check_model(rn.batch, function(times, over, n, ms)
      local out, list, due = {}, {}, nil
      local function flush(at)
        out[#out + 1] = line(at, table.concat(list, " "))
        list, due = {}, nil
      end
      for i, at in ipairs(times) do
        if due and due < at then flush(due) end
        list[#list + 1] = i
        due = due or at + ms
        if #list == n then flush(at) end
      end
      if #list > 0 then flush(math.min(due, over)) end
      return out
    end)
  end)

  it("without ms waits for n values for ever", stage.within(function()
    local list = log(rn.batch(arriving({ 1, 2, 3 }, 3000), 2))
    assert.same({ line(2, "1 2"), line(3000, "3"), line(3000, "end nil") }, list)
  end))

  it("takes nothing while a full list waits", stage.within(function()
    local source = endless()
    local out = rn.batch(source, 4)
    rn.sleep(100)
    assert.equal(4, taken(source))
    assert.same({ 1, 2, 3, 4 }, out:take())
    rn.sleep(100)
    assert.equal(8, taken(source))
    out:close()
    source:close()
    source:take()
  end))

  it("goes on collecting up to n values while a list that is due is not taken", stage.within(function()
    local out = rn.batch(arriving({ 1, 20, 30, 40, 50 }, 60), 3, 10)
    rn.sleep(35)
    assert.same({ 1, 2, 3 }, out:take())
    rn.sleep(100)
    assert.same({ 4, 5 }, out:take())
    assert.is_nil(out:take())
  end))

  it("leaves no timer behind when a list was full in time", stage.within(function()
    stage.drain(rn.batch(rn.to_chan { 1, 2, 3 }, 2, 1e9))
    stage.check_timers()
    assert.is_true(sim.elapsed() < 1)
  end))

  it("refuses what is wrong at the caller's line", function()
    raises("^batch: channel: a channel expected, got a table; call it as rn.batch", function() rn.batch({ 1 }, 3) end)
    raises("^batch: n: an integer of at least 1 expected, got 0$", function() rn.batch(rn.chan(), 0) end)
    raises("^batch: n: an integer of at least 1 expected, got nothing$", function() rn.batch(rn.chan()) end)
    raises("^batch: ms: a number of milliseconds, at least 0, expected, got %-1$", function()
      rn.batch(rn.chan(), 1, -1)
    end)
  end)
end)

describe("rate", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives on each value as soon as ms have passed since the nth one before it", function()
    check_model(rn.rate, function(times, _, n, ms)
      local out, given = {}, {}
      for i, at in ipairs(times) do
        given[i] = math.max(at, given[i - 1] or 0, (given[i - n] or -ms) + ms)
        out[i] = line(given[i], i)
        out.over = given[i]
      end
      return out
    end)
  end)

  it("counts from when a value was taken, so a slow taker gets no burst", function()
    sim.each_seed(30, function(seed)
      math.randomseed(seed)
      local n, ms, times = math.random(4), 10, {}
      local source = endless()
      local out = rn.rate(source, n, ms)
      for i = 1, 40 do
        rn.sleep(math.random(3) == 1 and 30 * math.random() or 0)
        assert.equal(i, out:take())
        times[i] = rn.now()
        if i > n then assert.is_true(times[i] - times[i - n] >= ms - 1e-6) end -- to the nanosecond, and rounding
      end
      out:close()
      source:close()
    end)
  end)

  it("takes one value ahead", stage.within(function()
    local source = endless()
    local out = rn.rate(source, 2, 10)
    out:take()
    out:take()
    rn.sleep(1)
    assert.equal(3, taken(source))
    out:close()
    source:close()
    source:take()
  end))

  it("refuses what is wrong at the caller's line", function()
    raises("^rate: channel: a channel expected, got nothing$", function() rn.rate() end)
    raises("^rate: n: an integer of at least 1 expected, got 0.5$", function() rn.rate(rn.chan(), 0.5, 1) end)
    raises("^rate: ms: a number of milliseconds, at least 0, expected, got nothing$", function()
      rn.rate(rn.chan(), 1)
    end)
  end)
end)

describe("debounce", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives on a value when ms have passed without a new one, and the last one at the end", function()
    check_model(function(ch, _, ms) return rn.debounce(ch, ms) end, function(times, over, _, ms)
      local out = {}
      for i, at in ipairs(times) do
        local following = times[i + 1] or math.huge
        if following > at + ms then out[#out + 1] = line(math.min(at + ms, over), i) end
      end
      return out
    end)
  end)

  it("gives on a value after a pause at once, and none later than the longest wait, if options say so #ci", function()
    for _, leading in ipairs { true, false } do
      for _, factor in ipairs { 0.5, 1.5, 4 } do
        check_model(function(ch, _, ms)
          return rn.debounce(ch, ms, { leading = leading, longest = factor * ms })
        end, function(times, over, _, ms)
          local out, waits, due, since, quiet = {}, nil, nil, nil, -math.huge
          local function pass(at)
            out[#out + 1] = line(at, waits)
            waits = nil
          end
          for i, at in ipairs(times) do
            if waits and due < at then pass(due) end
            local is_quiet = at >= quiet
            quiet = at + ms
            if not waits then since = at end
            local is_first = leading and is_quiet and not waits
            waits, due = i, math.min(quiet, since + factor * ms)
            if is_first or due <= at then pass(at) end
          end
          if waits then pass(math.min(due, over)) end
          return out
        end)
      end
    end
  end)

  it("never makes its source wait: a new value replaces one that nobody has taken", stage.within(function()
    local source = rn.chan()
    local out = rn.debounce(source, 10)
    for i = 1, 5 do
      source:put(i)
      rn.sleep(50)
    end
    assert.equal(250, sim.elapsed())
    assert.equal(5, out:take())
    source:put(6)
    source:close()
    assert.equal(6, out:take())
    assert.is_nil(out:take())
  end))

  it("has one timer, which no program sees, however many values come", stage.within(function()
    local source = rn.chan()
    local out = rn.debounce(source, 200)
    collectgarbage()
    local before = collectgarbage "count"
    for i = 1, 1000 do
      source:put(i)
      rn.sleep(0.1)
    end
    collectgarbage()
    assert.is_true(collectgarbage "count" < before + 300) -- a thousand go blocks would be 1300 KB
    assert.equal(1, #stage.others())
    assert.equal(1000, out:take())
    source:close()
  end))

  it("refuses what is wrong at the caller's line", function()
    raises("^debounce: channel: a channel expected, got a table; call it as rn.debounce",
      function() rn.debounce({ 1 }, 5) end)
    raises("^debounce: ms: a number of milliseconds, at least 0, expected, got %-?nan$",
      function() rn.debounce(rn.chan(), 0 / 0) end)
  end)
end)

describe("throttle", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives on a value once that it takes after its time was up", function()
    local source = rn.chan()
    local out = rn.throttle(source, 5)
    source:put(1)
    assert.equal(1, out:take())
    source:put(2) -- waits for its time
    source:put(3) -- is handed over, but before the throttle runs, the time is up
    local over = rn.now() + 10
    while rn.now() < over do end -- luacheck: ignore 542
    assert.equal(3, out:take())
    source:close()
    assert.same({}, stage.drain(out))
  end)

  it("gives on a value at once, and then at most the newest one in any ms", function()
    check_model(function(ch, _, ms) return rn.throttle(ch, ms) end, function(times, over, _, ms)
      local out, passed = {}, -math.huge
      for i, at in ipairs(times) do
        local due = math.max(at, passed + ms)
        if due < (times[i + 1] or math.huge) then
          passed = math.min(due, over)
          out[#out + 1] = line(passed, i)
        end
      end
      return out
    end)
  end)

  it("never makes its source wait: a new value replaces one that nobody has taken", stage.within(function()
    local source = rn.chan()
    local out = rn.throttle(source, 10)
    for i = 1, 5 do
      source:put(i)
      rn.sleep(50)
    end
    assert.equal(5, out:take())
    source:close()
    assert.is_nil(out:take())
  end))

  it("refuses what is wrong at the caller's line", function()
    raises("^throttle: channel: a channel expected, got nothing", function() rn.throttle() end)
    raises("^throttle: ms: a number of milliseconds, at least 0, expected, got nothing",
      function() rn.throttle(rn.chan()) end)
    raises("^debounce: longest: a number of milliseconds", function() rn.debounce(rn.chan(), 1, { longest = "x" }) end)
    raises('^debounce: unknown option "max"', function() rn.debounce(rn.chan(), 1, { max = 1 }) end)
  end)
end)

describe("sample", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives on the newest value every ms, if there is a new one", function()
    check_model(function(ch, _, ms) return rn.sample(ch, ms) end, function(times, over, _, ms)
      local out = {}
      for i, at in ipairs(times) do
        local due = (at // ms + 1) * ms
        if due < (times[i + 1] or math.huge) then out[#out + 1] = line(math.min(due, over), i) end
      end
      return out
    end)
  end)

  it("refuses what is wrong at the caller's line", function()
    raises("^sample: ms: more than 0 expected", function() rn.sample(rn.chan(), 0) end)
    raises("^sample: channel: a channel expected, got a number", function() rn.sample(1, 1) end)
  end)
end)
