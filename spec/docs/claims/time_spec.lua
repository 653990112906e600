-- What the documents say of time and of simulations.

local rn = require "runnel"
local sim = require "runnel.sim"
local claim = require "spec.support.docs.claims"(it)

describe("the documents say of time", function()
  claim("A timeout closes at most 10 ms late", function()
    sim.run(function()
      for i = 1, 200 do
        rn.timeout(100 + i % 9)
        local began = sim.elapsed()
        rn.timeout(95):take()
        local took = sim.elapsed() - began
        assert.is_true(took >= 95 and took < 105 + 1e-6, took)
      end
    end)
  end)

  claim("Timers with the same deadline fire in the order in which they were started.", function()
    sim.run(function()
      local order = {}
      for i = 1, 20 do
        rn.go(function()
          rn.sleep(10)
          order[i] = #order + 1
        end)
      end
      rn.sleep(11)
      for i = 1, 20 do assert.equal(i, order[i]) end
    end)
  end)

  claim("A pending timer is no go block: it takes 130 bytes", function()
    local timers, blocks, n = {}, #rn.ps(), 30000
    for i = 1, n do timers[i] = false end
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    for i = 1, n do timers[i] = rn.after(1e6, print) end
    collectgarbage()
    collectgarbage()
    local each = (collectgarbage "count" - before) * 1024 / n
    assert(#rn.ps() <= blocks)
    for i = 1, n do timers[i]:stop() end
    assert(each > 90 and each <= 130, each)
  end)

  claim("By a real clock the time counts from the next full millisecond", function()
    local _, later = rn.after(1e6, print), rn.after(1e6 + 0.25, print)
    local list = rn.timers()
    for _, entry in ipairs(list) do entry.timer:stop() end
    assert.equal(later, list[2].timer)
    assert.is_true(list[1].left > 1e6 - 60000 and list[1].left <= 1e6 + 1)
    sim.run(function()
      rn.after(0.3, print)
      assert.equal(0.3, rn.timers()[1].left)
      rn.timers()[1].timer:stop()
    end)
  end)

  claim("the seed of everything random", function()
    local function draw(opts)
      return sim.run(function()
        local list = {}
        for i = 1, 10 do list[i] = math.random(1000000) end
        return table.concat(list, " ")
      end, opts)
    end
    assert.equal(draw(), draw { seed = 1 })
    assert.not_equal(draw(), draw { seed = 2 })
  end)

  claim("and while a simulation runs, `pairs` and `next` go in an order that depends on the keys only", function()
    local function order(list)
      return sim.run(function()
        local set, keys = {}, {}
        for _, key in ipairs(list) do set[key] = true end
        for key in pairs(set) do keys[#keys + 1] = tostring(key) end
        return table.concat(keys, " ")
      end)
    end
    assert.equal("2 10 a b c", order { "c", 10, "a", 2, "b" })
    assert.equal("2 10 a b c", order { 2, "a", "b", "c", 10 })
  end)

  claim("a yield, a sleep or a timeout of 0 ms counts 5 times", function()
    local function rounds(f)
      local n = 0
      assert.is_false(pcall(sim.run, function()
        while true do
          f()
          n = n + 1
        end
      end))
      return n
    end
    assert.equal(1999999, rounds(rn.yield)) -- of 10 million steps
  end, "#heavy")

  claim("So after 100,000 steps without a jump", function()
    sim.run(function()
      for _ = 1, 19990 do rn.yield() end -- each counts 5 times
      assert.equal(0, sim.elapsed())
      for _ = 1, 20 do rn.yield() end
      assert.is_true(sim.elapsed() > 0)
    end)
  end)

  claim("a microsecond, then more and more, so that a loop that waits for an hour ends, too", function()
    sim.run(function()
      local ends = sim.elapsed() + 3600000
      while rn.now() < ends do end
      assert.is_true(sim.elapsed() >= 3600000)
    end)
  end)

  claim("The same program is searched in the same way each time.", function()
    local function schedules()
      local seen = {}
      sim.explore(function()
        local order = {}
        for i = 1, 3 do
          rn.go(function()
            rn.yield()
            order[#order + 1] = i
          end)
        end
        for _ = 1, 5 do rn.yield() end
        seen[#seen + 1] = table.concat(order)
      end, { seconds = 0.02 })
      return seen
    end
    local one, other = schedules(), schedules()
    local count = math.min(#one, #other) -- how many there are is a matter of time
    assert.equal(table.concat(one, " ", 1, count), table.concat(other, " ", 1, count))
  end)

  claim("longer runs are given up and counted in `given_up`, and then the result is never `all`", function()
    local result = sim.explore(function()
      for _ = 1, sim.choose(2) == 1 and 1 or 50 do rn.sleep(1) end
    end, { steps = 20, seconds = 60 })
    assert.is_true(result.given_up > 0)
    assert.is_false(result.all)
  end)

  claim("`sim.explore` returns `{ schedules =, all =, given_up = }`, with `given_up` only if there were any", function()
    local result, fields = sim.explore(function() sim.choose(3) end, { seconds = 60 }), {}
    for name in pairs(result) do fields[#fields + 1] = name end
    table.sort(fields)
    assert.same({ "all", "schedules" }, fields)
    assert.equal(3, result.schedules)
  end)

  claim("using `runnel.uv` is an error, except for `uv.ticker`", function()
    local has_luv, uv = pcall(require, "runnel.uv")
    if not has_luv then return end
    sim.run(function()
      for _, f in ipairs { function() uv.lines "x" end, function() uv.connect("x", 1) end,
        function() uv.run { "true" } end, function() uv.signal "hup" end, function() uv.watch "x" end } do
        assert.is_false(pcall(f))
      end
      local ticks <close> = uv.ticker(10)
      assert.same({ 1, 2 }, { ticks:take(), ticks:take() })
      assert.equal(20, sim.elapsed())
    end)
  end)
end)
