local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function settle() rn.sleep(1) end

local function even(n) return n % 2 == 0 end

-- A channel on which 1, 2, 3, ... wait; its stats tell how many have been taken.
local function counting()
  local ch = rn.chan()
  rn.go(function()
    rn.rename "source"
    local n = 0
    repeat n = n + 1 until not ch:put(n)
  end)
  return ch
end

local function taken(ch) return ch:stats().take_total end

-- The go blocks that are left, but for the sources of this spec.
local function left()
  local names = {}
  for _, name in ipairs(stage.others()) do
    if name ~= "source" then names[#names + 1] = name end
  end
  return names
end

-- A channel whose buffer policy raises when it is taken from.
local function broken()
  local policy = stage.picky(function() return true end)
  policy.remove = function() error("broken", 0) end
  local ch = rn.chan(policy)
  ch:put(1)
  return ch
end

describe("split", function()
  before_each(stage.open)
  after_each(stage.close)

  it("distributes by a predicate, in order, false too", function()
    sim.each_seed(50, function(seed)
      local source = rn.to_chan { 1, 2, 3, false, 4 }
      local yes, no = rn.split(function(v) return v and even(v) end, source, seed % 3, seed % 2)
      local result = rn.into({}, no)
      assert.same({ 2, 4 }, stage.drain(yes))
      assert.same({ 1, 3, false }, result:take())
      settle()
      assert.same({}, stage.others())
    end)
  end)

  it("gives the channels the buffers", stage.sim(function()
    local yes, no = rn.split(even, rn.chan(), 3, rn.sliding_buffer(2))
    assert.equal(3, yes:stats().capacity)
    assert.equal("sliding", no:stats().buffer)
    yes, no = rn.split(even, rn.chan())
    assert.equal(0, yes:stats().capacity)
    assert.equal(0, no:stats().capacity)
  end))

  it("passes the error of the source on to both", stage.sim(function()
    local source = rn.chan()
    local yes, no = rn.split(even, source)
    source:close "why"
    assert.same({ nil, "why" }, { yes:take() })
    assert.same({ nil, "why" }, { no:take() })
  end))

  it("continues with one when the other is closed, and drops the values of that one", function()
    for _, waits in ipairs { true, false } do
      stage.explore(function()
        local source = rn.chan()
        local yes, no = rn.split(even, source)
        local result = rn.into({}, no)
        rn.onto_chan(source, { 1, 2, 3, 4, 5 })
        if waits then rn.sleep(10) end
        yes:close()
        assert.same({ 1, 3, 5 }, result:take())
      end)
    end
  end)

  it("ends when both are closed, and takes nothing more", function()
    stage.explore(function()
      stage.forget()
      local source = counting()
      local yes, no = rn.split(even, source)
      assert.equal(1, no:take())
      assert.equal(2, yes:take())
      settle()
      no:close()
      yes:close()
      local before = taken(source)
      settle()
      assert.equal(before, taken(source))
      assert.same({}, left())
    end, { leaks = false })
  end)

  it("ends when both close while it waits for the source", stage.sim(function()
    local source = rn.chan()
    local yes, no = rn.split(even, source)
    settle()
    yes:close()
    no:close()
    settle()
    assert.same({}, stage.others())
    assert.is_nil(source:offer(1))
  end))

  it("refuses bad input at the caller's line", function()
    local ch = rn.chan()
    raises("^split: predicate: a function expected, got nothing", function() rn.split()
    end)
    raises("^split: predicate: a function expected, got a table", function() rn.split({}, ch)
    end)
    raises("^split: channel: a channel expected, got nothing", function() rn.split(even)
    end)
    raises("^split: first buffer: a buffer size", function() rn.split(even, ch, "x", 1)
    end)
    raises("^split: second buffer: a buffer size", function() rn.split(even, ch, 1, -1)
    end)
  end)

  it("loses the value for which the predicate raises", stage.sim(function()
    local yes, no = rn.split(function(n)
      if n == 3 then error("not 3", 0) end
      return even(n)
    end, rn.to_chan { 1, 2, 3, 4, 5 }, 5, 5)
    assert.same({ 2, 4 }, stage.drain(yes))
    assert.same({ 1, 5 }, stage.drain(no))
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal("not 3", heard[1].err)
    assert.matches("^the predicate of a split %(split at spec/rn/operations_spec.lua:%d+%)$", heard[1].name)
  end))

  it("closes both with the error of a source that raises", stage.sim(function()
    local yes, no = rn.split(even, broken())
    assert.matches("broken", select(2, yes:take()))
    assert.matches("broken", select(2, no:take()))
    assert.equal(1, #stage.heard())
  end))
end)

describe("map", function()
  before_each(stage.open)
  after_each(stage.close)

  local function list(...) return { ... } end

  it("has what the transducer of a channel makes at its end, also if that has closed before", function()
    local ch = rn.chan(1, rn.xf.partition_by(function(v) return v end))
    ch:put(1)
    ch:put(2)
    -- A put that does not happen: the channel is asked to close when no put waits any more.
    local block = rn.go(function() return rn.alts { { ch, 9 }, rn.timeout(2) } end)
    rn.yield()
    ch:close()
    block:take()
    assert.same({ { { 1 } }, { { 2 } } }, stage.drain(rn.map(list, { ch })))
  end)

  it("applies a function to the first values, then to the second ones", function()
    sim.each_seed(50, function(seed)
      local out = rn.map(list, { rn.to_chan { 1, 2 }, rn.to_chan { "a", "b" }, rn.to_chan { false, true } }, seed % 3)
      assert.same({ { 1, "a", false }, { 2, "b", true } }, stage.drain(out))
      settle()
      assert.same({}, stage.others())
    end)
  end)

  it("takes one channel, and the same one twice", stage.sim(function()
    assert.same({ { 1 }, { 2 } }, stage.drain(rn.map(list, { rn.to_chan { 1, 2 } })))
    local ch = rn.to_chan { 1, 2, 3, 4, 5 }
    local sums = stage.drain(rn.map(function(a, b) return a + b end, { ch, ch }))
    assert.same({ 3, 7 }, sums)
  end))

  it("gives false for a result", stage.sim(function()
    assert.same({ false }, stage.drain(rn.map(function() return false end, { rn.to_chan { 1 } })))
  end))

  it("takes from all at once, in whatever order they give", function()
    stage.explore(function()
      local a, b = rn.chan(), rn.chan()
      local out = rn.map(list, { a, b })
      rn.go(function()
        b:put(1)
        a:put(2)
        a:put(3)
        b:put(4)
        a:close()
      end)
      assert.same({ { 2, 1 }, { 3, 4 } }, stage.drain(out))
    end)
  end)

  it("closes when any has closed, though another has nothing to give", function()
    for _, earlier in ipairs { true, false } do
      stage.explore(function()
        stage.forget()
        local silent, closing = rn.chan(), rn.chan()
        if earlier then closing:close() end
        local out = rn.map(list, { silent, closing })
        settle()
        closing:close()
        assert.is_nil(out:take())
        settle()
        assert.same({}, stage.others())
        assert.is_nil(silent:offer(1))
      end)
    end
  end)

  it("takes nothing from the others when one has closed before", stage.sim(function()
    local source, short = counting(), rn.to_chan { 1, 2 }
    assert.equal(2, #stage.drain(rn.map(list, { source, short })))
    settle()
    assert.is_true(taken(source) <= 3)
    local closed = rn.chan()
    closed:close()
    local before = taken(source)
    assert.is_nil(rn.map(list, { source, closed }):take())
    assert.equal(before, taken(source))
  end))

  it("takes what a closed channel still holds", stage.sim(function()
    local buffered, pending = rn.chan(2), rn.chan()
    buffered:put(1)
    buffered:put(2)
    buffered:close()
    pending:put_async(3)
    pending:put_async(4)
    pending:close()
    assert.same({ { 1, 3 }, { 2, 4 } }, stage.drain(rn.map(list, { buffered, pending })))
  end))

  it("passes the error of the one that closed on", stage.sim(function()
    local a, b = rn.chan(1), rn.chan(1)
    local out = rn.map(list, { a, b })
    a:put(1)
    b:close "why"
    assert.same({ nil, "why" }, { out:take() })
    local c = rn.chan()
    c:close "before"
    assert.same({ nil, "before" }, { rn.map(list, { rn.chan(), c }):take() })
  end))

  it("of no channels closes", stage.sim(function()
    assert.is_nil(rn.map(list, {}):take())
    assert.same({}, stage.others())
  end))

  it("ends when its result closes, and takes nothing more", function()
    sim.each_seed(50, function(seed)
      stage.forget()
      local a, b = counting(), counting()
      local out = rn.map(list, { a, b }, seed % 2)
      out:take()
      settle()
      out:close()
      local before = taken(a) + taken(b)
      settle()
      assert.equal(before, taken(a) + taken(b))
      assert.same({}, left())
    end)
  end)

  it("ends when its result closes while it waits", stage.sim(function()
    local a, b = rn.chan(), rn.chan()
    local out = rn.map(list, { a, b })
    a:put(1)
    out:close()
    settle()
    assert.same({}, stage.others())
    assert.is_nil(b:offer(1))
  end))

  it("is not touched by what becomes of the list", stage.sim(function()
    local chs = { rn.to_chan { 1 }, rn.to_chan { 2 } }
    local out = rn.map(list, chs)
    chs[2] = nil
    assert.same({ { 1, 2 } }, stage.drain(out))
  end))

  it("refuses bad input at the caller's line", function()
    local ch = rn.chan()
    raises("^map: function: a function expected, got nothing", function() rn.map()
    end)
    raises("^map: channels: a list of channels expected, got a channel", function() rn.map(list, ch)
    end)
    raises("^map: channels: element 2 is not a channel but a number", function() rn.map(list, { ch, 1 })
    end)
    raises("^map: buffer: a buffer size", function() rn.map(list, { ch }, 1.5)
    end)
  end)

  it("loses the values for which the function raises, or gives nil", stage.sim(function()
    local out = rn.map(function(n)
      if n == 2 then error("not 2", 0) end
      if n ~= 3 then return n end
    end, { rn.to_chan { 1, 2, 3, 4 } })
    assert.same({ 1, 4 }, stage.drain(out))
    local heard = stage.heard()
    assert.equal(2, #heard)
    assert.equal("not 2", heard[1].err)
    assert.equal("the function returned nil, which cannot be put on a channel", heard[2].err)
    assert.matches("^the function of a map %(map at spec/rn/operations_spec.lua:%d+ %-> ", heard[2].name)
  end))

  it("closes with the error of a channel that raises", stage.sim(function()
    assert.matches("broken", select(2, rn.map(list, { rn.chan(), broken() }):take()))
    assert.equal(0, #stage.heard())
  end))
end)

describe("take", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives n values and leaves the rest where it is", function()
    sim.each_seed(50, function(seed)
      local source = counting()
      local out = rn.take(3, source, seed % 3)
      assert.same({ 1, 2, 3 }, stage.drain(out))
      settle()
      assert.equal(3, taken(source))
      assert.equal(4, source:take())
    end)
  end)

  it("of none takes none", stage.sim(function()
    local source = counting()
    assert.is_nil(rn.take(0, source):take())
    settle()
    assert.equal(0, taken(source))
  end))

  it("gives fewer values if the source closes, and closes with its error", stage.sim(function()
    assert.same({ 1, false }, stage.drain(rn.take(5, rn.to_chan { 1, false })))
    local source = rn.chan()
    source:close "why"
    assert.same({ nil, "why" }, { rn.take(5, source):take() })
    settle()
    assert.same({}, stage.others())
  end))

  it("ends when its result closes, and takes nothing more", function()
    sim.each_seed(50, function(seed)
      stage.forget()
      local source = counting()
      local out = rn.take(1000, source, seed % 3)
      out:take()
      settle()
      out:close()
      local before = taken(source)
      settle()
      assert.equal(before, taken(source))
      assert.same({}, left())
    end)
  end)

  it("refuses bad input at the caller's line", function()
    local ch = rn.chan()
    raises("^take: n: an integer of at least 0 expected, got nothing", function() rn.take()
    end)
    raises("^take: n: an integer of at least 0 expected, got %-1", function() rn.take(-1, ch)
    end)
    raises("^take: n: an integer of at least 0 expected, got 1.5", function() rn.take(1.5, ch)
    end)
    raises("^take: channel: a channel expected, got a table", function() rn.take(1, { ch })
    end)
    raises("^take: buffer: a buffer size", function() rn.take(1, ch, "5")
    end)
  end)

  it("closes with the error of a source that raises", stage.sim(function()
    assert.matches("broken", select(2, rn.take(3, broken()):take()))
  end))
end)

describe("multiplex", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives the values of all, and closes with the last", function()
    stage.explore(function()
      local values = stage.drain(rn.multiplex(rn.to_chan { 1, 2 }, rn.to_chan { 3 }, rn.to_chan {}))
      table.sort(values)
      assert.same({ 1, 2, 3 }, values)
      settle()
      assert.same({}, stage.others())
    end)
  end)

  it("takes one value ahead at most", stage.sim(function()
    local a, b = counting(), counting()
    local out = rn.multiplex(a, b)
    for n = 1, 10 do
      settle()
      assert.equal(n, taken(a) + taken(b))
      out:take()
    end
  end))

  it("of none is closed", stage.sim(function()
    assert.is_nil(rn.multiplex():take())
  end))

  it("refuses bad input at the caller's line", function()
    raises("^multiplex: channel 2: a channel expected, got a number", function() rn.multiplex(rn.chan(), 1)
    end)
    raises("^multiplex: channel 1: a channel expected, got a table", function() rn.multiplex { rn.chan() }
    end)
    raises("^multiplex: channel 2: a channel expected, got nothing", function() rn.multiplex(rn.chan(), nil)
    end)
  end)
end)

describe("broadcast", function()
  before_each(stage.open)
  after_each(stage.close)

  it("puts each value on all, and closes them with its error", stage.sim(function()
    local a, b = rn.chan(), rn.chan(5)
    local ch = rn.broadcast(a, b)
    local result = rn.into({}, a)
    for _, value in ipairs { 1, false, 3 } do assert.is_true(ch:put(value)) end
    ch:close "why"
    assert.same({ nil, "why" }, { result:take() })
    assert.same({ 1, false, 3 }, { b:take(), b:take(), b:take() })
    assert.same({ nil, "why" }, { b:take() })
    settle()
    assert.same({}, stage.others())
  end))

  it("waits until all have accepted the last value", stage.sim(function()
    local a, b = rn.chan(), rn.chan(5)
    local ch = rn.broadcast(a, b)
    assert.is_true(ch:put(1))
    settle()
    assert.is_nil(ch:offer(2))
    assert.equal(1, a:take())
    settle()
    assert.is_true(ch:offer(2))
  end))

  it("leaves out those that close, and closes with the last", stage.sim(function()
    local a, b = rn.chan(), rn.chan(5)
    local ch = rn.broadcast(a, b)
    ch:put(1)
    settle()
    a:close()
    ch:put(2)
    settle()
    assert.same({ 1, 2 }, { b:take(), b:take() })
    b:close()
    settle()
    assert.is_false(ch:put(3))
    assert.same({}, stage.others())
  end))

  it("puts once on a channel that is named twice", stage.sim(function()
    local a = rn.chan(5)
    local ch = rn.broadcast(a, a)
    ch:put(1)
    ch:close()
    assert.same({ 1 }, stage.drain(a))
  end))

  it("of none, or of closed ones, is closed", stage.sim(function()
    assert.is_false(rn.broadcast():put(1))
    local closed = rn.chan()
    closed:close()
    assert.is_false(rn.broadcast(closed, closed):put(1))
    settle()
    assert.same({}, stage.others())
  end))

  it("refuses bad input at the caller's line", function()
    raises("^broadcast: channel 1: a channel expected, got a table", function() rn.broadcast { rn.chan() }
    end)
    raises("^broadcast: channel 3: a channel expected, got a string", function()
      rn.broadcast(rn.chan(), rn.chan(), "c")
    end)
    raises("^broadcast: channel 2: a channel expected, got nothing", function() rn.broadcast(rn.chan(), nil)
    end)
  end)
end)
