local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Runs go blocks until none is ready.
local function settle() rn.sleep(1) end

-- A channel that is taken from slowly: one value each `ms`. Returns it and the list of what has been taken, which has
-- the field `closed` in the end.
local function slow_taker(ch, ms)
  local list = {}
  rn.go(function()
    while true do
      rn.sleep(ms)
      local value, err = ch:take()
      if value == nil then
        list.closed = err or true
        return
      end
      list[#list + 1] = value
    end
  end)
  return ch, list
end

describe("mult", function()
  before_each(stage.open)
  after_each(stage.close)

  it("copies each value to all taps, false too, in order", function()
    sim.each_seed(50, function(seed)
      local source = rn.chan(seed % 3)
      local m = rn.mult(source)
      local results = {}
      for i = 0, 5 do results[i] = rn.into({}, m:tap(rn.chan(i))) end
      rn.onto_chan(source, { 1, false, 3, 4, 5 })
      for i = 0, 5 do assert.same({ 1, false, 3, 4, 5 }, results[i]:take()) end
      settle()
      assert.same({}, stage.others())
    end)
  end)

  it("has functions as well as methods", stage.sim(function()
    local source, ch = rn.chan(), rn.chan(1)
    local m = rn.mult(source)
    assert.equal(ch, rn.tap(m, ch))
    source:put(1)
    assert.equal(1, ch:take())
    rn.untap(m, ch)
    rn.untap_all(m)
    source:put(2)
    settle()
    assert.is_nil(ch:poll())
  end))

  it("drops what comes while there is no tap", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    source:put(1)
    source:put(2)
    settle()
    local ch = m:tap(rn.chan(1))
    source:put(3)
    assert.equal(3, ch:take())
  end))

  it("goes at the pace of the slowest tap", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    local _, slow = slow_taker(m:tap(rn.chan()), 100)
    local _, fast = slow_taker(m:tap(rn.chan()), 1)
    rn.onto_chan(source, { 1, 2, 3, 4 })
    rn.sleep(250.5)
    assert.same({ 1, 2 }, slow)
    assert.same({ 1, 2, 3 }, fast)
    rn.sleep(1000)
    assert.same({ 1, 2, 3, 4, closed = true }, slow)
    assert.same({ 1, 2, 3, 4, closed = true }, fast)
  end))

  it("is not held up by a tap with a windowed buffer", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    local sliding = m:tap(rn.chan(rn.sliding_buffer(2)))
    local dropping = m:tap(rn.chan(rn.dropping_buffer(2)))
    for i = 1, 5 do source:put(i) end
    source:close()
    assert.same({ 4, 5 }, stage.drain(sliding))
    assert.same({ 1, 2 }, stage.drain(dropping))
  end))

  it("delivers to all that wait, whichever they take from first", function()
    stage.explore(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local a, b, c = m:tap(rn.chan()), m:tap(rn.chan()), m:tap(rn.chan())
      rn.onto_chan(source, { 1, 2, 3 })
      for i = 1, 3 do
        assert.equal(i, c:take())
        assert.equal(i, a:take())
        assert.equal(i, b:take())
      end
    end)
  end)

  it("works without a go block around it", function()
    local source = rn.chan()
    local m = rn.mult(source)
    local ch = m:tap(rn.chan(3))
    rn.onto_chan(source, { 1, 2, 3 })
    assert.same({ 1, 2, 3 }, stage.drain(ch))
    rn.run()
    assert.same({}, stage.others())
  end)

  describe("closing", function()
    it("the source closes the taps, except those with close = false", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local a, b = m:tap(rn.chan()), m:tap(rn.chan(), false)
      source:close()
      assert.is_nil(a:take())
      settle()
      assert.is_false(b:closed())
      assert.same({}, stage.others())
    end))

    it("the source passes its error on, after the values", stage.sim(function()
      local source = rn.chan(2)
      local m = rn.mult(source)
      local ch = m:tap(rn.chan())
      source:put(1)
      source:put(2)
      source:close "why"
      assert.equal(1, ch:take())
      assert.equal(2, ch:take())
      assert.same({ nil, "why" }, { ch:take() })
    end))

    it("the source before a tap closes the tapping channel", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      source:close "over"
      settle()
      local kept = rn.chan()
      assert.same({ nil, "over" }, { m:tap(rn.chan()):take() })
      assert.is_false(m:tap(kept, false):closed())
    end))

    it("a tap removes it at once, without a value", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local a, b = m:tap(rn.chan()), m:tap(rn.chan(1))
      settle()
      local with_two = #stage.others()
      a:close()
      settle()
      assert.equal(with_two - 1, #stage.others())
      source:put(1)
      assert.equal(1, b:take())
    end))

    it("a full tap lets the others continue", function()
      stage.explore(function()
        local source = rn.chan()
        local m = rn.mult(source)
        local stuck, free = m:tap(rn.chan()), m:tap(rn.chan())
        local result = rn.into({}, free)
        rn.onto_chan(source, { 1, 2, 3 })
        rn.sleep(10)
        stuck:close()
        assert.same({ 1, 2, 3 }, result:take())
        settle()
        assert.same({}, stage.others())
      end)
    end)

    it("all taps leaves a mult that drops values", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      for _ = 1, 3 do m:tap(rn.chan()):close() end
      for i = 1, 3 do source:put(i) end
      source:close()
      settle()
      assert.same({}, stage.others())
    end))

    it("does not add a channel that is already closed", stage.sim(function()
      local m = rn.mult(rn.chan())
      local closed = rn.chan()
      closed:close()
      settle()
      local before = #stage.others()
      m:tap(closed)
      settle()
      assert.equal(before, #stage.others())
    end))
  end)

  describe("untap", function()
    it("takes a channel out and leaves it open", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local a, b = m:tap(rn.chan(5)), m:tap(rn.chan(5))
      source:put(1)
      settle()
      m:untap(a)
      source:put(2)
      source:close()
      assert.same({ 1, 2 }, stage.drain(b))
      assert.equal(1, a:take())
      assert.is_nil(a:poll())
      assert.is_false(a:closed())
    end))

    it("takes back a value that waits for room", function()
      stage.explore(function()
        local source = rn.chan()
        local m = rn.mult(source)
        local stuck, free = m:tap(rn.chan()), m:tap(rn.chan())
        local result = rn.into({}, free)
        rn.onto_chan(source, { 1, 2 })
        rn.sleep(10)
        m:untap(stuck)
        assert.same({ 1, 2 }, result:take())
        assert.is_nil(stuck:poll())
        assert.is_false(stuck:closed())
        settle()
        assert.same({}, stage.others())
      end)
    end)

    it("of all leaves none", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local a, b = m:tap(rn.chan()), m:tap(rn.chan())
      source:put(1)
      settle()
      m:untap_all()
      source:put(2)
      source:put(3)
      settle()
      assert.is_nil(a:poll())
      assert.is_nil(b:poll())
      source:close()
      settle()
      assert.same({}, stage.others())
    end))

    it("of a channel that is not a tap does nothing", stage.sim(function()
      local m = rn.mult(rn.chan())
      m:untap(rn.chan())
      m:untap_all()
    end))

    it("and tap again begin with the next value", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local ch = m:tap(rn.chan(5))
      source:put(1)
      settle()
      m:untap(ch)
      source:put(2)
      settle()
      m:tap(ch)
      source:put(3)
      source:close()
      assert.same({ 1, 3 }, stage.drain(ch))
    end))
  end)

  it("tapped twice with a channel copies once, and remembers the last `close`", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    local ch = rn.chan(5)
    m:tap(ch)
    m:tap(ch, false)
    source:put(1)
    source:close()
    settle()
    assert.equal(1, ch:take())
    assert.is_false(ch:closed())
  end))

  it("keeps nothing of taps that have gone", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    for i = 1, 2000 do
      local ch = m:tap(rn.chan())
      if i % 2 == 0 then ch:close() else m:untap(ch) end
      if i % 100 == 0 then settle() end
    end
    settle()
    assert.is_nil(next(m.taps))
    assert.is_nil(m.first)
    assert.equal(1, #stage.others())
  end))

  it("is collected with its taps once the source is unreachable", function()
    local gone = setmetatable({}, { __mode = "k" })
    sim.run(function()
      for i = 1, 10 do
        local source, ch = rn.chan(), rn.chan()
        local m = rn.mult(source)
        gone[m], gone[ch] = true, true
        m:tap(ch)
        rn.go(function() ch:take() end)
        rn.go(function() source:put(i) end)
      end
      settle()
      for _ = 1, 5 do collectgarbage() end
      assert.is_nil(next(gone))
      assert.same({}, stage.others())
    end)
  end)

  it("delivers to a channel on any number of mults, all of which it leaves when it closes", stage.sim(function()
    local ch = rn.chan(rn.sliding_buffer(1))
    local sources = {}
    for i = 1, 1200 do
      sources[i] = rn.chan()
      rn.mult(sources[i]):tap(ch)
    end
    settle()
    for _, i in ipairs { 1, 1100, 1200 } do
      sources[i]:put(i)
      settle()
      assert.equal(i, ch:take())
    end
    ch:close()
    settle()
    assert.equal(1200, #stage.others()) -- the mults; the go blocks of the taps have ended without a value
    for i = 1, 1200 do
      sources[i]:put(i)
      sources[i]:close()
    end
    settle()
    assert.same({}, stage.others())
  end))

  it("does not allocate for each value", stage.sim(function()
    local source = rn.chan()
    local m = rn.mult(source)
    for i = 0, 3 do
      local ch = m:tap(rn.chan(i))
      rn.go(function() for _ in ch do rn.yield() rn.yield() end end)
    end
    local function kilobytes_of(n)
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      for i = 1, n do source:put(i) end
      local after = collectgarbage "count"
      collectgarbage "restart"
      return after - before
    end
    kilobytes_of(100)
    assert.is_true(kilobytes_of(1000) < 5)
  end))

  describe("bad input", function()
    it("is an error at the caller's line", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      raises("^mult: channel: a channel expected, got nothing", function() rn.mult()
      end)
      raises("^mult: channel: a channel expected, got a table", function() rn.mult {}
      end)
      raises("^tap: a mult expected, got nothing", function() rn.tap()
      end)
      raises("^tap: a mult expected, got a channel", function() rn.tap(source, rn.chan())
      end)
      raises("^tap: channel: a channel expected, got nothing", function() m:tap()
      end)
      raises("^tap: channel: a channel expected, got a table", function() m:tap(m)
      end)
      raises("^tap: the mult would feed its own source", function() m:tap(source)
      end)
      raises("^untap: a mult expected, got a string", function() rn.untap("m", source)
      end)
      raises("^untap: channel: a channel expected, got a number", function() m:untap(1)
      end)
      raises("^untap_all: a mult expected, got nothing", function() rn.untap_all()
      end)
      local ch = m:tap(rn.chan(1))
      source:put(1)
      assert.equal(1, ch:take())
    end))

    it("of a buffer policy goes to the error handler; the other taps get all", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local before = m:tap(rn.chan(10))
      local picky = m:tap(rn.chan(stage.picky(function(v) return v ~= 2 end)))
      local full = m:tap(rn.chan())
      local behind = m:tap(rn.chan(10))
      local result = rn.into({}, full)
      rn.onto_chan(source, { 1, 2, 3 })
      assert.same({ 1, 2, 3 }, result:take())
      assert.same({ 1, 2, 3 }, stage.drain(before))
      assert.same({ 1, 2, 3 }, stage.drain(behind))
      assert.same({ 1, 3 }, stage.drain(picky))
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.matches("no 2 here", heard[1].err)
      assert.matches("^a mult %(mult at spec/rn/mult_spec.lua:%d+%)$", heard[1].name)
    end))

    it("of a policy of a tap that is full", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local full = true
      local odd = m:tap(rn.chan {
        full = function() return full end,
        add = function() error("never", 0) end,
        remove = function() end,
        count = function() return 0 end,
      })
      local ch = m:tap(rn.chan(10))
      rn.onto_chan(source, { 1, 2 })
      settle()
      full = false
      odd:poll()
      odd:close()
      assert.same({ 1, 2 }, stage.drain(ch))
      for _, entry in ipairs(stage.heard()) do assert.matches("never", entry.err) end
    end))

    it("of the source's buffer policy closes the taps with the error", stage.sim(function()
      local policy = stage.picky(function() return true end)
      policy.remove = function() error("broken", 0) end
      local source = rn.chan(policy)
      local m = rn.mult(source)
      local ch = m:tap(rn.chan())
      pcall(source.put, source, 1)
      local _, err = ch:take()
      assert.matches("broken", err)
      settle()
      assert.same({}, stage.others())
      assert.is_true(#stage.heard() >= 1)
    end))

    it("of a result channel, on which only its go block may put", stage.sim(function()
      local source = rn.chan()
      local m = rn.mult(source)
      local result = rn.go(function() rn.sleep(1000) end)
      m:tap(result)
      local ch = m:tap(rn.chan(1))
      source:put(1)
      assert.equal(1, ch:take())
      assert.matches("result channel", stage.heard()[1].err)
      m:untap(result)
    end))
  end)

  it("does not deliver to a tap that is removed while it lets its taker run", stage.sim(function()
    local from, a, got = rn.chan(), rn.chan(), nil
    local m = rn.mult(from)
    m:tap(a)
    rn.yield()
    from:put "v"
    rn.go(function()
      m:untap(a)
      got = a:take()
    end)
    rn.sleep(1)
    assert.is_nil(got)
    a:put "w"
    rn.yield()
    assert.equal("w", got)
  end))

  it("survives what its taps do during a delivery #ci", function()
    sim.each_seed(200, function(seed)
      math.randomseed(seed)
      local source = rn.chan(math.random(0, 2))
      local m = rn.mult(source)
      local chs, got = {}, {}
      local function start()
        local ch = m:tap(rn.chan(math.random(0, 2)), math.random() < 0.8)
        local list = {}
        chs[#chs + 1], got[#got + 1] = ch, list
        rn.go(function()
          for value in ch do
            list[#list + 1] = value
            if math.random() < 0.3 then rn.sleep(math.random(3)) end
            if math.random() < 0.05 then ch:close() end
          end
        end)
      end
      for _ = 1, 3 do start() end
      rn.go(function()
        for _ = 1, 20 do
          rn.sleep(math.random(4))
          local i = math.random(#chs)
          local what = math.random(4)
          if what == 1 then start()
          elseif what == 2 then m:untap(chs[i])
          elseif what == 3 then chs[i]:close()
          elseif math.random() < 0.2 then m:untap_all()
          end
        end
      end)
      for i = 1, 50 do
        assert.is_true(source:put(i))
        if math.random() < 0.5 then rn.sleep(1) end
      end
      source:close()
      rn.sleep(1000)
      -- Each channel has got a run of consecutive values.
      for _, list in ipairs(got) do
        for k = 2, #list do assert.equal(list[k - 1] + 1, list[k]) end
      end
      assert.is_nil(m.first)
      for _, ch in ipairs(chs) do ch:close() end
      rn.sleep(10)
      assert.same({}, stage.others())
    end)
  end)
end)
