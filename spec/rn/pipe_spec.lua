local rn = require "runnel"
local stage = require "spec.support.stage"

-- A channel on which 1, 2, 3, ... wait, and a function that returns how many were taken.
local function counting(n)
  local ch = rn.chan()
  local taken = 0
  rn.go(function()
    rn.rename "source"
    for i = 1, n or math.huge do
      if not ch:put(i) then return end
      taken = i
    end
    ch:close()
  end)
  return ch, function() return taken end
end

-- The go blocks that are left, but for the sources of this spec.
local function left()
  local names = {}
  for _, name in ipairs(stage.others()) do
    if name ~= "source" then names[#names + 1] = name end
  end
  return names
end

describe("pipe", function()
  before_each(stage.open)
  after_each(stage.close)

  it("moves all values in order, closes `to` and returns it", stage.sim(function()
    local to = rn.chan()
    assert.equal(to, rn.pipe(rn.to_chan { 1, false, 3 }, to))
    assert.same({ 1, false, 3 }, stage.drain(to))
    assert.same({}, stage.others())
  end))

  it("chains", stage.sim(function()
    local ch = rn.to_chan { 1, 2, 3 }
    for _ = 1, 100 do ch = rn.pipe(ch, rn.chan()) end
    assert.same({ 1, 2, 3 }, stage.drain(ch))
  end))

  it("leaves `to` open with close = false", stage.sim(function()
    local to = rn.chan(10)
    rn.pipe(rn.to_chan { 1, 2 }, to, false)
    rn.sleep(1)
    assert.is_false(to:closed())
    rn.pipe(rn.to_chan { 3 }, to, true)
    assert.same({ 1, 2, 3 }, stage.drain(to))
    assert.same({}, stage.others())
  end))

  it("passes on the error with which `from` was closed", stage.sim(function()
    local from, to = rn.chan(1), rn.chan()
    from:put(1)
    from:close "why"
    rn.pipe(from, to)
    assert.equal(1, to:take())
    assert.same({ nil, "why" }, { to:take() })
  end))

  it("to a closed channel takes nothing", stage.sim(function()
    local from, taken = counting()
    local to = rn.chan()
    to:close()
    rn.pipe(from, to)
    rn.sleep(1)
    assert.equal(0, taken())
    assert.same({}, left())
    assert.equal(1, from:take())
  end))

  it("stops waiting for `from` when `to` closes", stage.sim(function()
    local from, to = rn.chan(), rn.chan()
    rn.pipe(from, to)
    rn.sleep(1)
    assert.equal(1, from:stats().takes_waiting)
    to:close()
    rn.sleep(1)
    assert.equal(0, from:stats().takes_waiting)
    assert.same({}, stage.others())
    assert.is_nil(from:offer(1))
  end))

  it("stops waiting for a taker when `to` closes", stage.sim(function()
    local from, taken = counting()
    local to = rn.pipe(from, rn.chan(2))
    rn.sleep(1)
    assert.equal(3, taken())
    to:close()
    rn.sleep(1)
    assert.equal(3, taken())
    assert.same({}, left())
    assert.equal(4, from:take())
    assert.equal(1, to:take())
    assert.equal(2, to:take())
    assert.is_nil((to:take()))
  end))

  it("never takes after the close, whatever the order of events", function()
    stage.explore(function()
      local from, taken = counting()
      local to = rn.pipe(from, rn.chan())
      rn.go(function() for _ = 1, 3 do to:take() end end)
      for _ = 1, 4 do rn.yield() end
      to:close()
      local at_close = taken()
      rn.sleep(1)
      -- One may have been handed over before, and counts only once its putter has run.
      assert.is_true(taken() <= at_close + 1)
      assert.same({}, left())
      local before = taken()
      rn.sleep(1)
      assert.equal(before, taken())
    end, { leaks = false })
  end)

  it("keeps to buffers that drop", stage.sim(function()
    local to = rn.pipe(rn.to_chan { 1, 2, 3, 4 }, rn.chan(rn.dropping_buffer(2)))
    rn.sleep(1)
    assert.same({ 1, 2 }, stage.drain(to))
    to = rn.pipe(rn.to_chan { 1, 2, 3, 4 }, rn.chan(rn.sliding_buffer(2)))
    rn.sleep(1)
    assert.same({ 3, 4 }, stage.drain(to))
  end))

  it("ends when the transducer of `to` is done", stage.sim(function()
    local from, taken = counting()
    local to = rn.chan(1, function(rf)
      local n = 0
      return function(acc, ...)
        if select("#", ...) == 0 then return rf(acc) end
        n = n + 1
        acc = rf(acc, ...)
        return n == 3 and rn.reduced(acc) or acc
      end
    end)
    rn.pipe(from, to)
    assert.same({ 1, 2, 3 }, stage.drain(to))
    rn.sleep(1)
    assert.is_true(taken() <= 4)
    assert.same({}, left())
  end))

  it("goes on when the buffer policy of `to` refuses a value", stage.sim(function()
    local to = rn.pipe(rn.to_chan { 1, 2, 3, 4, 5 }, rn.chan(stage.picky(function(v) return v ~= 3 end)))
    rn.sleep(1)
    assert.same({ 1, 2, 4, 5 }, stage.drain(to))
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal("no 3 here", heard[1].err)
    assert.matches("^a pipe %(pipe at spec/rn/pipe_spec.lua:%d+ %-> chan: #%d+%)$", heard[1].name)
  end))

  it("closes `to` with the error of `from`'s buffer policy", stage.sim(function()
    local policy = stage.picky(function() return true end)
    local from = rn.chan(policy)
    from:put(1)
    function policy.remove() error("cannot remove", 0) end
    assert.same({ nil, "cannot remove" }, { rn.pipe(from, rn.chan()):take() })
  end))

  it("refuses what are no channels", function()
    assert.error_matches(function() rn.pipe({}, rn.chan()) end, "pipe: from: a channel expected, got a table")
    assert.error_matches(function() rn.pipe(rn.chan()) end, "pipe: to: a channel expected, got nothing")
  end)
end)

describe("merge", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives all values of all channels, each channel's in order, then closes", function()
    stage.explore(function()
      local chs = {}
      for i = 1, 5 do
        local list = {}
        for k = 1, 20 do list[k] = i * 100 + k end
        chs[i] = rn.to_chan(list)
      end
      local last, n = {}, 0
      for v in rn.merge(chs, 3) do
        local i, k = v // 100, v % 100
        assert.equal((last[i] or 0) + 1, k)
        last[i] = k
        n = n + 1
      end
      assert.equal(100, n)
      assert.same({}, stage.others())
    end)
  end)

  it("gives values when they come", stage.sim(function()
    local slow, fast = rn.chan(), rn.chan()
    rn.go(function()
      rn.sleep(100)
      slow:put "slow"
      slow:close()
    end)
    rn.go(function()
      for i = 1, 3 do
        rn.sleep(10)
        fast:put(i)
      end
      fast:close()
    end)
    assert.same({ 1, 2, 3, "slow" }, stage.drain(rn.merge { slow, fast }))
    assert.equal(100, rn.now())
  end))

  it("is fair to channels that are always ready", stage.sim(function()
    local a, b = counting(), counting()
    local from_a = 0
    local tagged = rn.merge {
      rn.pipe(a, rn.chan(1, function(rf)
        return function(acc, ...) return select("#", ...) > 0 and rf(acc, "a") or rf(acc) end
      end)),
      rn.pipe(b, rn.chan(1, function(rf)
        return function(acc, ...) return select("#", ...) > 0 and rf(acc, "b") or rf(acc) end
      end)),
    }
    for _ = 1, 1000 do if tagged:take() == "a" then from_a = from_a + 1 end end
    assert.is_true(from_a > 400 and from_a < 600, from_a)
  end))

  it("of none closes at once; of one is that one", stage.sim(function()
    assert.same({}, stage.drain(rn.merge {}))
    assert.same({ 1, 2 }, stage.drain(rn.merge { rn.to_chan { 1, 2 } }))
    rn.sleep(1)
    assert.same({}, stage.others())
  end))

  it("reports the other errors, and that of a pipe that closes nothing, as those that nobody takes", function()
    local seen = {}
    local before = rn.on_error(function(err) seen[#seen + 1] = ("%s at %d"):format(err, rn.now()) end)
    require("runnel.sim").run(function()
      local a, b, c = rn.chan(), rn.chan(), rn.chan()
      local out, to = rn.merge { a, b }, rn.chan()
      rn.pipe(c, to, false)
      a:close "first"
      rn.sleep(10)
      b:close "second"
      c:close "third"
      assert.same({ nil, "first" }, { out:take() })
      rn.sleep(4000)
      assert.same({}, seen)
      rn.sleep(4000)
    end)
    rn.on_error(before)
    assert.same({ "second at 5010", "third at 5010" }, seen)
  end)

  it("closes with the first error, when all have closed", stage.sim(function()
    local a, b, c = rn.chan(), rn.chan(), rn.chan()
    local out = rn.merge { a, b, c }
    rn.sleep(1)
    b:close "first"
    rn.sleep(1)
    a:close "second"
    assert.is_true(c:put "value")
    assert.equal("value", out:take())
    c:close()
    assert.same({ nil, "first" }, { out:take() })
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal("second", heard[1].err)
  end))

  it("takes nothing more once its result is closed, whatever the order of events", function()
    stage.explore(function()
      local chs, taken = {}, {}
      for i = 1, 4 do chs[i], taken[i] = counting() end
      local function total() return taken[1]() + taken[2]() + taken[3]() + taken[4]() end
      local out = rn.merge(chs)
      for _ = 1, 3 do out:take() end
      out:close()
      local at_close = 0
      for _, ch in ipairs(chs) do at_close = at_close + ch:stats().put_total end
      rn.sleep(1)
      local after = 0
      for _, ch in ipairs(chs) do after = after + ch:stats().put_total end
      assert.equal(at_close, after)
      assert.equal(after, total())
      assert.same({}, left())
    end, { leaks = false })
  end)

  it("does not stay behind when its result closes while it waits", stage.sim(function()
    local a, b = rn.chan(), rn.chan()
    local out = rn.merge { a, b }
    rn.sleep(1)
    out:close()
    rn.sleep(1)
    assert.equal(0, a:stats().takes_waiting)
    assert.same({}, stage.others())
  end))

  it("of a hundred channels works", stage.sim(function()
    local chs = {}
    for i = 1, 100 do chs[i] = rn.to_chan { i, i } end
    local sum = 0
    for v in rn.merge(chs) do sum = sum + v end
    assert.equal(10100, sum)
  end))

  it("does not depend on the list afterwards", stage.sim(function()
    local chs = { rn.to_chan { 1 }, rn.to_chan { 2 } }
    local out = rn.merge(chs, 5)
    chs[1], chs[2] = nil, nil
    local sum = 0
    for v in out do sum = sum + v end
    assert.equal(3, sum)
  end))

  it("refuses what is no list of channels", function()
    assert.error_matches(function() rn.merge(rn.chan()) end,
      "merge: channels: a list of channels expected, got a channel")
    assert.error_matches(function() rn.merge { rn.chan(), 42 } end,
      "merge: channels: element 2 is not a channel but a number")
    assert.error_matches(function() rn.merge() end, "merge: channels: a list of channels expected, got nothing")
    assert.error_matches(function() rn.merge { left = rn.chan() } end,
      "merge: channels: a list expected, got a table with keys but no values 1, 2, ...", 1, true)
    local chs = { rn.chan() }
    chs[3] = rn.chan()
    assert.error_matches(function() rn.merge(chs) end, "merge: channels: element 2 is nil, although the list goes on")
    assert.is_nil(rn.merge({ n = 0 }):take())
    assert.error_matches(function() rn.merge({}, -1) end, "a buffer size is an integer")
  end)
end)
