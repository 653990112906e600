local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function settle() rn.sleep(1) end

local function parity(n) return n % 2 == 0 and "even" or "odd" end

describe("pub", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives each value to the subscribers of its topic", function()
    sim.each_seed(50, function(seed)
      local source = rn.chan(seed % 3)
      local p = rn.pub(source, parity, seed % 2 == 0 and function() return 3 end or nil)
      local results = {}
      for i = 0, 2 do
        results[i] = { even = rn.into({}, p:sub("even", rn.chan(i))), odd = rn.into({}, p:sub("odd", rn.chan(i))) }
      end
      rn.onto_chan(source, { 1, 2, 3, 4, 5 })
      for i = 0, 2 do
        assert.same({ 2, 4 }, results[i].even:take())
        assert.same({ 1, 3, 5 }, results[i].odd:take())
      end
      settle()
      assert.same({}, stage.others())
    end)
  end)

  it("has functions as well as methods", stage.sim(function()
    local source, ch = rn.chan(), rn.chan(5)
    local p = rn.pub(source, parity)
    assert.equal(ch, rn.sub(p, "even", ch))
    source:put(2)
    assert.equal(2, ch:take())
    rn.unsub(p, "even", ch)
    rn.unsub_all(p, "odd")
    rn.unsub_all(p)
    source:put(4)
    settle()
    assert.is_nil(ch:poll())
  end))

  it("takes anything but nil for a topic, false too", stage.sim(function()
    local source = rn.chan()
    local p = rn.pub(source, function(v) return v end)
    local table_topic = {}
    local a, b, c = p:sub(false, rn.chan(5)), p:sub(1, rn.chan(5)), p:sub(table_topic, rn.chan(5))
    for _, value in ipairs { false, 1.0, table_topic, 0 / 0, true } do source:put(value) end
    source:close()
    assert.same({ false }, stage.drain(a))
    assert.same({ 1.0 }, stage.drain(b))
    assert.same({ table_topic }, stage.drain(c))
  end))

  it("drops values without a subscriber", stage.sim(function()
    local source = rn.chan()
    local p = rn.pub(source, parity)
    local even = p:sub("even", rn.chan(5))
    for i = 1, 4 do source:put(i) end
    source:close()
    assert.same({ 2, 4 }, stage.drain(even))
  end))

  it("gives one channel several topics", stage.sim(function()
    local source = rn.chan()
    local p = rn.pub(source, parity)
    local both = rn.chan(10)
    p:sub("even", both)
    p:sub("odd", both)
    for i = 1, 4 do
      source:put(i)
      settle()
    end
    source:close()
    assert.same({ 1, 2, 3, 4 }, stage.drain(both))
  end))

  it("asks for the buffer of each topic once", stage.sim(function()
    local source, asked = rn.chan(), {}
    local p = rn.pub(source, parity, function(topic)
      asked[#asked + 1] = topic
      return topic == "even" and 2 or rn.dropping_buffer(1)
    end)
    local a, b = p:sub("even", rn.chan()), p:sub("even", rn.chan())
    p:sub("odd", rn.chan(10))
    assert.same({ "even", "odd" }, asked)
    -- Nobody takes the even ones yet: one is being delivered, two lie in the buffer; the odd ones go on.
    for _, i in ipairs { 2, 4, 6, 1 } do
      assert.is_true(source:put(i))
      settle()
    end
    source:close()
    local result = rn.into({}, a)
    assert.same({ 2, 4, 6 }, stage.drain(b))
    assert.same({ 2, 4, 6 }, result:take())
  end))

  it("without buffers, a slow subscriber holds up its topic first, and then all", stage.sim(function()
    local source = rn.chan()
    local p = rn.pub(source, parity)
    p:sub("even", rn.chan())
    local odd = p:sub("odd", rn.chan(10))
    for _, i in ipairs { 2, 1, 4, 3 } do
      rn.go(function() source:put(i) end)
      settle()
    end
    assert.equal(1, odd:poll())
    assert.is_nil(odd:poll())
    p:unsub_all "even"
    settle()
    assert.equal(3, odd:poll())
  end))

  describe("closing", function()
    it("the source closes the subscribers with its error, except those with close = false", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity, function() return 10 end)
      local a, b, c = p:sub("even", rn.chan(10)), p:sub("odd", rn.chan(10), false), p:sub("none", rn.chan())
      for i = 1, 4 do source:put(i) end
      source:close "why"
      assert.equal(2, a:take())
      assert.equal(4, a:take())
      assert.same({ nil, "why" }, { a:take() })
      assert.same({ nil, "why" }, { c:take() })
      settle()
      assert.is_false(b:closed())
      assert.is_nil(next(p.topics))
      assert.same({}, stage.others())
    end))

    it("the source before a subscription closes the subscribing channel", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity)
      source:close "over"
      settle()
      assert.same({ nil, "over" }, { p:sub("even", rn.chan()):take() })
      assert.is_false(p:sub("even", rn.chan(), false):closed())
      assert.same({}, stage.others())
    end))

    it("the last subscriber ends the topic, without a value", stage.sim(function()
      local p = rn.pub(rn.chan(), parity)
      local a, b = p:sub("even", rn.chan()), p:sub("even", rn.chan())
      settle()
      a:close()
      settle()
      assert.is_not_nil(p.topics.even)
      b:close()
      settle()
      assert.is_nil(p.topics.even)
      assert.equal(1, #stage.others())
    end))

    it("a subscriber that blocks the others lets them continue", function()
      stage.explore(function()
        local source = rn.chan()
        local p = rn.pub(source, parity)
        local stuck, odd = p:sub("even", rn.chan()), rn.into({}, p:sub("odd", rn.chan()))
        rn.onto_chan(source, { 2, 4, 6, 1, 8, 3 })
        rn.sleep(10)
        stuck:close()
        assert.same({ 1, 3 }, odd:take())
        settle()
        assert.same({}, stage.others())
      end)
    end)
  end)

  describe("unsub", function()
    it("of the last subscriber ends the topic; a new topic begins afresh", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity, function() return 10 end)
      local stuck = p:sub("even", rn.chan())
      for _, i in ipairs { 2, 4, 6 } do source:put(i) end
      settle()
      p:unsub("even", stuck)
      settle()
      assert.is_nil(next(p.topics))
      assert.equal(1, #stage.others())
      local ch = p:sub("even", rn.chan(5))
      source:put(8)
      source:close()
      assert.same({ 8 }, stage.drain(ch))
      assert.is_nil(stuck:poll())
      assert.is_false(stuck:closed())
    end))

    it("of one leaves the others", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity)
      local a, b = p:sub("even", rn.chan(5)), p:sub("even", rn.chan(5))
      source:put(2)
      settle()
      p:unsub("even", a)
      source:put(4)
      source:close()
      assert.same({ 2, 4 }, stage.drain(b))
      assert.equal(2, a:poll())
      assert.is_nil(a:poll())
    end))

    it("of all subscribers of a topic, or of all", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity)
      local even, odd = p:sub("even", rn.chan(5)), p:sub("odd", rn.chan(5))
      p:sub("even", rn.chan(5))
      p:unsub_all "even"
      assert.is_nil(p.topics.even)
      source:put(1)
      source:put(2)
      settle()
      assert.equal(1, odd:poll())
      assert.is_nil(even:poll())
      p:unsub_all()
      assert.is_nil(next(p.topics))
      source:put(3)
      settle()
      assert.is_nil(odd:poll())
      assert.equal(1, #stage.others())
    end))

    it("of a channel that has not subscribed does nothing", stage.sim(function()
      local p = rn.pub(rn.chan(), parity)
      p:unsub("even", rn.chan())
      p:unsub_all "even"
      p:unsub_all()
      p:sub("even", rn.chan())
      p:unsub("even", rn.chan())
      assert.is_not_nil(p.topics.even)
    end))
  end)

  it("keeps nothing of topics that have gone", stage.sim(function()
    local source = rn.chan()
    local p = rn.pub(source, function(v) return v end)
    for i = 1, 2000 do
      local ch = p:sub(i, rn.chan())
      source:put(i)
      if i % 2 == 0 then ch:close() else p:unsub(i, ch) end
    end
    settle()
    assert.is_nil(next(p.topics))
    assert.equal(1, #stage.others())
  end))

  it("is collected with its subscribers once the source is unreachable", stage.sim(function()
    local gone = setmetatable({}, { __mode = "k" })
    for _ = 1, 10 do
      local ch = rn.chan()
      local p = rn.pub(rn.chan(), parity)
      gone[p], gone[ch] = true, true
      p:sub("even", ch)
      rn.go(function() ch:take() end)
    end
    settle()
    for _ = 1, 5 do collectgarbage() end
    assert.is_nil(next(gone))
    assert.same({}, stage.others())
  end))

  it("gives a channel more topics than may wait for it to close", stage.sim(function()
    local source, ch = rn.chan(), rn.chan(rn.sliding_buffer(1))
    local p = rn.pub(source, function(v) return v end)
    for i = 1, 1200 do p:sub(i, ch) end
    for _, i in ipairs { 1, 1100, 1200 } do
      source:put(i)
      assert.equal(i, ch:take())
    end
    ch:close()
    for i = 1, 1200 do source:put(i) end
    settle()
    assert.is_nil(next(p.topics))
  end))

  describe("bad input", function()
    it("is an error at the caller's line", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity)
      local ch = rn.chan(5)
      raises("^pub: channel: a channel expected, got nothing", function() rn.pub()
      end)
      raises("^pub: topic function: a function expected, got nothing", function() rn.pub(source)
      end)
      raises("^pub: topic function: a function expected, got a string", function() rn.pub(source, "kind")
      end)
      raises("^pub: buffer function: a function or nil expected, got a number", function() rn.pub(source, parity, 10)
      end)
      raises("^sub: a pub expected, got a channel", function() rn.sub(source, "even", ch)
      end)
      raises("^sub: topic: a value other than nil", function() p:sub(nil, ch)
      end)
      raises("^sub: topic: nan cannot be used", function() p:sub(0 / 0, ch)
      end)
      raises("^sub: channel: a channel expected, got nothing", function() p:sub "even"
      end)
      raises("^sub: the pub would feed its own source", function() p:sub("even", source)
      end)
      raises("^unsub: a pub expected, got nothing", function() rn.unsub()
      end)
      raises("^unsub: topic: a value other than nil", function() p:unsub(nil, ch)
      end)
      raises("^unsub: channel: a channel expected, got nothing", function() p:unsub "even"
      end)
      raises("^unsub_all: a pub expected, got a table", function() rn.unsub_all {}
      end)
      assert.is_nil(next(p.topics))
      p:sub("even", ch)
      source:put(2)
      assert.equal(2, ch:take())
    end))

    it("of the buffer function leaves no topic", stage.sim(function()
      local source, ch = rn.chan(), rn.chan(5)
      local buffer = -1
      local p = rn.pub(source, parity, function()
        if buffer == "raise" then error("no buffer", 0) end
        if buffer == "close" then ch:close() end
        return tonumber(buffer)
      end)
      raises("^sub: the buffer of the topic: a buffer size is an integer of 0 or more", function() p:sub("even", ch)
      end)
      buffer = "raise"
      assert.error_matches(function() p:sub("even", ch) end, "^no buffer$")
      assert.is_nil(next(p.topics))
      buffer = "close"
      p:sub("even", ch)
      assert.is_nil(next(p.topics))
      settle()
      assert.equal(1, #stage.others())
    end))

    it("of the topic function costs the value", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, function(n)
        if n == 2 then error("not 2", 0) end
        if n == 3 then return nil end
        return "all"
      end)
      local ch = p:sub("all", rn.chan(10))
      rn.onto_chan(source, { 1, 2, 3, 4 })
      assert.same({ 1, 4 }, stage.drain(ch))
      local heard = stage.heard()
      assert.equal(2, #heard)
      assert.equal("not 2", heard[1].err)
      assert.matches("pub_spec.lua", heard[1].trace)
      assert.matches("^the topic function of a pub %(pub at ", heard[1].name)
      assert.equal("the topic function returned nil; return false for values without a topic", heard[2].err)
    end))

    it("of a topic function that parks is no error", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, function(n)
        rn.sleep(10)
        return n
      end)
      local ch = p:sub(2, rn.chan(10))
      rn.onto_chan(source, { 1, 2 })
      assert.same({ 2 }, stage.drain(ch))
      assert.equal(20, sim.elapsed())
    end))

    it("of a topic's buffer policy costs the value", stage.sim(function()
      local source = rn.chan()
      local p = rn.pub(source, parity, function() return stage.picky(function(v) return v ~= 4 end) end)
      local even = p:sub("even", rn.chan(10))
      rn.onto_chan(source, { 2, 4, 6 })
      assert.same({ 2, 6 }, stage.drain(even))
      assert.matches("no 4 here", stage.heard()[1].err)
    end))
  end)

  it("gives each subscriber the values of its topic in their order, whether it waits for them or not", function()
    sim.each_seed(30, function()
      local source, got, sent = rn.chan(), {}, {}
      local p = rn.pub(source, function(v) return v.topic end)
      for topic = 1, 4 do
        for i = 1, topic == 4 and 2 or 1 do
          local mine = {}
          got[#got + 1] = { topic = topic, list = mine }
          local ch = p:sub(topic, rn.chan(topic == 3 and 2 or nil))
          rn.go(function()
            for v in ch do
              mine[#mine + 1] = v.n
              if math.random(3) == 1 then rn.sleep(math.random(3) * i) end
            end
          end)
        end
      end
      for n = 1, 60 do
        local topic = math.random(5) -- 5 has no subscriber
        sent[topic] = sent[topic] or {}
        table.insert(sent[topic], n)
        source:put { topic = topic, n = n }
        if math.random(4) == 1 then rn.sleep(math.random(2)) end
      end
      source:close()
      rn.sleep(1000)
      for _, one in ipairs(got) do assert.same(sent[one.topic] or {}, one.list) end
    end)
  end)
end)
