-- What the documents say of channels, alts and the operations on channels.

local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local claim = require "spec.support.docs.claims"(it)

local function nothing() end

-- A channel on which n go blocks wait to take.
local function with_takes(ch, n)
  for _ = 1, n do rn.go(function() ch:take() end) end
  rn.yield()
  return ch
end

-- The time between each two calls of f, in virtual ms, without fractions.
local function pauses(f)
  return sim.run(function()
    local times, list = {}, {}
    f(function() times[#times + 1] = sim.elapsed() end)
    for i = 2, #times do list[i - 1] = math.floor(times[i] - times[i - 1] + 0.001) end
    return list
  end)
end

describe("the documents say of channels", function()
  claim("At most 1024 puts and 1024 takes may wait on one channel.", function()
    local ch, other = rn.chan(), rn.chan()
    for i = 1, 1024 do
      rn.go(function() ch:put(i) end)
      rn.go(function() other:take() end)
    end
    rn.yield()
    rn.run(function()
      raises("1024 puts wait", function() ch:put(0) end)
      raises("1024 takes wait", function() other:take() end)
    end)
    for i = 1, 1024 do assert.equal(i, ch:poll()) end
    assert.is_nil(ch:poll())
    other:close()
  end)

  claim("Timeouts and `ch:done()` have no such limit.", function()
    local ch = rn.chan()
    with_takes(ch:done(), 1100)
    ch:close()
    sim.run(function() with_takes(rn.timeout(100), 1100) end)
  end)

  claim("Operations of the library's own go blocks (pipes, pipelines and so on) do not count.", function()
    local ch = with_takes(rn.chan(), 1024)
    local to = rn.chan(1)
    for _ = 1, 50 do rn.pipe(ch, to) end
    rn.yield()
    for i = 1, 1025 do ch:put(i) end
    assert.equal(1025, to:take())
    ch:close()
  end)

  claim("100,000 polls in vain are an error", function()
    local ch, count = rn.chan(), 0
    local ok, err = pcall(rn.run, function()
      while true do
        ch:poll()
        count = count + 1
      end
    end)
    assert.is_false(ok)
    assert.matches("100000 times", err)
    assert.equal(99999, count)
  end)

  claim("A loop that polls, or offers, uses a whole processor. 100,000 polls in vain are an error", function()
    local ch, count = rn.chan(), 0
    local ok = pcall(rn.run, function()
      while true do
        ch:offer(1)
        count = count + 1
      end
    end)
    assert.is_false(ok)
    assert.equal(99999, count)
  end)

  claim("or if the loop is where [no go block can park]", function()
    local ch, count = rn.chan(), 0
    rn.run(function()
      rn.go(nothing) -- is ready, and could help if the loop were elsewhere
      pcall(table.sort, { 1, 2 }, function()
        while true do
          ch:poll()
          count = count + 1
        end
      end)
    end)
    assert.equal(99999, count)
  end)

  claim("If there is one now, `f` is called before `take_async` returns, unless `on_caller` is false", function()
    local ch, got = rn.chan(2), {}
    ch:put(1)
    ch:put(2)
    ch:take_async(function(v) got[#got + 1] = v end)
    assert.same({ 1 }, got)
    ch:take_async(function(v) got[#got + 1] = v end, false)
    assert.same({ 1 }, got)
    rn.yield()
    assert.same({ 1, 2 }, got)
  end)

  claim("A table: `name`, `id`, `buffer` (its kind), `capacity`, `values` (in the buffer), `puts_waiting` and "
    .. "`takes_waiting`, `put_total` and `take_total` (so far), `closed`", function()
    local fields = {}
    for name in pairs(rn.chan(1):name("x"):stats()) do fields[#fields + 1] = name end
    table.sort(fields)
    local expected = "buffer capacity closed id name put_total puts_waiting take_total takes_waiting values"
    assert.equal(expected, table.concat(fields, " "))
  end)

  claim("A channel that closes when `ch` is closed, even if `ch` still holds values", function()
    local ch = rn.chan(1)
    ch:put(1)
    local done = ch:done()
    assert.is_false(done:closed())
    ch:close()
    assert.is_nil(done:take())
    assert.equal(1, #ch)
  end)

  claim("When it is full, it drops the new value", function()
    local ch = rn.chan(rn.dropping_buffer(2))
    for i = 1, 4 do assert.is_true(ch:put(i)) end
    assert.same({ 1, 2 }, { ch:take(), ch:take() })
  end)

  claim("The same; when it is full, it drops the oldest value", function()
    local ch = rn.chan(rn.sliding_buffer(2))
    for i = 1, 4 do assert.is_true(ch:put(i)) end
    assert.same({ 3, 4 }, { ch:take(), ch:take() })
  end)

  claim("The operations of one alts never complete each other", function()
    local ch = rn.chan()
    assert.same({ nil, "default" }, { rn.alts({ ch, { ch, 1 } }, { nowait = true }) })
    assert.is_false(pcall(rn.alts, { ch, { ch, 1 } })) -- a deadlock
  end)

  claim("A closed channel is always ready, and so is chosen again and again in a loop", function()
    local closed, other = rn.chan(), rn.chan()
    closed:close()
    for _ = 1, 100 do assert.equal(closed, select(2, rn.alts { closed, other })) end
  end)
end)

describe("the documents say of operations on channels", function()
  claim("let others run after at most 128 values", function()
    local from, to = rn.chan(1000), rn.chan(1000)
    for i = 1, 1000 do from:offer(i) end
    rn.pipe(from, to)
    local before, most = 0, 0
    for _ = 1, 20 do
      rn.yield()
      before, most = #to, math.max(most, #to - before)
    end
    assert.is_true(most > 0 and most <= 128, most)
  end)

  claim("No window of `ms`, wherever it begins, has more than `n` values.", function()
    local list = pauses(function(called)
      local numbers = {}
      for i = 1, 30 do numbers[i] = i end
      for _ in rn.rate(rn.to_chan(numbers), 3, 100) do called() end
    end)
    for i = 1, #list - 2 do assert.is_true(list[i] + list[i + 1] + list[i + 2] >= 100) end
  end)

  claim("After a pause `n` may come at once; for a steady stream use `rn.rate(ch, 1, ms / n)`.", function()
    local function values(n, ms)
      return pauses(function(called)
        for _ in rn.rate(rn.to_chan { 1, 2, 3, 4, 5, 6 }, n, ms) do called() end
      end)
    end
    assert.same({ 0, 0, 100, 0, 0 }, values(3, 100))
    assert.same({ 20, 20, 20, 20, 20 }, values(1, 20))
  end)

  claim("One value is taken from `ch` ahead.", function()
    sim.run(function()
      local ch = rn.chan(10)
      for i = 1, 10 do ch:put(i) end
      local slow <close> = rn.rate(ch, 1, 1000)
      rn.sleep(1)
      assert.equal(1, slow:take())
      rn.sleep(10)
      assert.equal(8, #ch)
    end)
  end)

  claim("A list that is due and not taken goes on growing up to `n`; while a full one waits, nothing is "
    .. "taken.", function()
    sim.run(function()
      local ch = rn.chan(10)
      local lists = rn.batch(ch, 3, 100)
      ch:put(1)
      rn.sleep(200)
      for i = 2, 6 do ch:put(i) end
      rn.sleep(200)
      assert.equal(3, #ch)
      assert.same({ 1, 2, 3 }, lists:take())
      lists:close()
    end)
  end)

  claim("a list is given on when it is full, or `ms` after its first value", function()
    sim.run(function()
      local ch = rn.chan()
      local lists <close> = rn.batch(ch, 3, 100)
      rn.sleep(500)
      ch:put(1)
      rn.sleep(60)
      ch:put(2)
      assert.same({ 1, 2 }, lists:take())
      assert.equal(600, sim.elapsed())
      for i = 1, 3 do ch:put(i) end
      assert.same({ 1, 2, 3 }, lists:take())
      assert.equal(600, sim.elapsed())
    end)
  end)

  claim("It never makes `ch` wait: a value that is not taken in time is replaced by the next one.", function()
    sim.run(function()
      local ch = rn.chan()
      local last <close> = rn.debounce(ch, 100)
      for i = 1, 5 do
        ch:put(i)
        rn.sleep(150)
      end
      assert.equal(750, sim.elapsed())
      assert.equal(5, last:take())
    end)
  end)

  claim("A mult takes the next value when every tap has accepted the last one", function()
    local ch = rn.chan(3)
    for i = 1, 3 do ch:put(i) end
    local m = rn.mult(ch)
    local quick, slow = m:tap(rn.chan(10)), m:tap(rn.chan())
    rn.yield()
    assert.same({ 2, 1 }, { #ch, #quick })
    slow:take()
    rn.yield()
    assert.same({ 1, 2 }, { #ch, #quick })
    ch:close()
    slow:close()
  end)

  claim("Values of other topics are dropped.", function()
    local ch = rn.chan()
    local sub = rn.pub(ch, function(v) return v % 2 end):sub(0, rn.chan(10))
    for i = 1, 4 do ch:put(i) end
    ch:close()
    assert.same({ 2, 4 }, rn.into({}, sub):take())
  end)

  claim("A channel of the first `n` values of `ch`; no more are taken", function()
    local ch = rn.chan(5)
    for i = 1, 5 do ch:put(i) end
    assert.same({ 1, 2 }, rn.into({}, rn.take(2, ch)):take())
    assert.equal(3, #ch)
  end)

  claim("The first value and every `n`th after it", function()
    local ch = rn.chan(10, rn.xf.take_nth(3))
    rn.onto_chan(ch, { 1, 2, 3, 4, 5, 6, 7 })
    assert.same({ 1, 4, 7 }, rn.into({}, ch):take())
  end)
end)
