local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local xf = rn.xf

-- A reducing function that makes a list, and a function that returns how often it was completed.
local function to_list()
  local completed = 0
  return function(...)
    local n, acc, v = select("#", ...), ...
    if n == 0 then return { n = 0 } end
    if n == 1 then
      completed = completed + 1
      return acc
    end
    acc.n = acc.n + 1
    acc[acc.n] = v
    return acc
  end, function() return completed end
end

-- What comes of a list (its field n says how long, since it may have nil) through a transducer.
local function through(transducer, list)
  local base, completed = to_list()
  local rf = transducer(base)
  local acc = rf()
  for i = 1, list.n or #list do
    acc = rf(acc, list[i])
    if rn.is_reduced(acc) then
      acc = acc[1]
      break
    end
  end
  acc = rf(acc)
  assert.equal(1, completed())
  acc.n = nil
  return acc
end

-- The same by way of a channel.
local function through_chan(transducer, list, buffer)
  local ch = rn.chan(buffer or 1, transducer)
  rn.onto_chan(ch, list)
  return stage.drain(ch)
end

local function even(n) return n % 2 == 0 end
local function small(n) return n < 3 end
local function id(v) return v end

describe("xf", function()
  before_each(stage.open)
  after_each(stage.close)

  it("has them all", function()
    local f = false
    local cases = {
      { xf.map(function(v) return not v end), { 1, f, 2 }, { f, true, f } },
      { xf.map(function() return f end), { 1, 2 }, { f, f } },
      { xf.filter(even), { 1, 2, 3, 4 }, { 2, 4 } },
      { xf.filter(function(v) return v == f end), { 1, f, 3, f }, { f, f } },
      { xf.remove(even), { 1, 2, 3, 4 }, { 1, 3 } },
      { xf.remove(id), { 1, f, 3, f }, { f, f } },
      { xf.keep(function(v) if v ~= 2 then return v == 1 end end), { 1, 2, 3 }, { true, f } },
      { xf.mapcat(function(v) return { v, f } end), { 1, f }, { 1, f, f, f } },
      { xf.mapcat(function(s) return s:gmatch "%w" end), { "ab", "", "c" }, { "a", "b", "c" } },
      { xf.cat, { { 1, f }, {}, { 3 } }, { 1, f, 3 } },
      { xf.take(2), { f, 2, 3 }, { f, 2 } },
      { xf.take(2), { 1 }, { 1 } },
      { xf.take(0), { 1, 2 }, {} },
      { xf.take_while(small), { 1, 2, 3, 1 }, { 1, 2 } },
      { xf.drop(2), { 1, f, f, 4 }, { f, 4 } },
      { xf.drop(0), { f }, { f } },
      { xf.drop_while(small), { 1, 2, 3, 1 }, { 3, 1 } },
      { xf.take_nth(1), { 1, f, 3 }, { 1, f, 3 } },
      { xf.take_nth(2), { 1, 2, f, 4, 5 }, { 1, f, 5 } },
      { xf.dedupe(), { 1, 1, f, f, 1, 1.0 }, { 1, f, 1 } },
      { xf.distinct(), { 1, f, 1.0, f, 2 }, { 1, f, 2 } },
      { xf.interpose(f), { 1, 2, 3 }, { 1, f, 2, f, 3 } },
      { xf.interpose ",", { 1 }, { 1 } },
      { xf.partition_all(2), { 1, f, 3 }, { { 1, f }, { 3 } } },
      { xf.partition_all(2), { 1, 2 }, { { 1, 2 } } },
      { xf.partition_all(2), {}, {} },
      { xf.partition_by(even), { 1, 3, 2, 4, 5 }, { { 1, 3 }, { 2, 4 }, { 5 } } },
      { xf.partition_by(id), { f, f, 1, f }, { { f, f }, { 1 }, { f } } },
      { xf.partition_by(id), {}, {} },
      { xf.map_indexed(function(i, v) return { i, v } end), { "a", f }, { { 1, "a" }, { 2, f } } },
      { xf.comp(), { 1, f }, { 1, f } },
      { xf.comp(xf.filter(even), xf.map(tostring), xf.take(2)), { 1, 2, 3, 4, 6 }, { "2", "4" } },
    }
    for i, case in ipairs(cases) do
      local transducer, list, expected = table.unpack(case)
      assert.same(expected, through(transducer, list), "case " .. i)
      -- Once more, since what it remembers belongs to an application.
      sim.run(function() assert.same(expected, through_chan(transducer, list), "case " .. i) end)
    end
  end)

  it("lets nil pass from stage to stage", function()
    local half = xf.map(function(n) if even(n) then return n // 2 end end)
    assert.same({ 1, 2 }, through(xf.comp(half, xf.filter(id)), { 1, 2, 3, 4 }))
    local all = { xf.map(id), xf.remove(id), xf.map_indexed(function(_, v) return v end), xf.take(9), xf.drop(0),
      xf.take_nth(1), xf.take_while(function(v) return v == nil end), xf.drop_while(id), xf.dedupe() }
    for i, transducer in ipairs(all) do
      local seen = 0
      local rf = xf.comp(xf.map(function() end), transducer)(function(...)
        if select("#", ...) == 2 then seen = seen + 1 end
        return (...)
      end)
      rf({}, 1)
      assert.equal(1, seen, "transducer " .. i)
    end
    assert.same({ { 1 }, {}, { 2 } }, through(xf.comp(half, xf.partition_by(function(v) return v == nil end)),
      { 2, 1, 4 }))
    local rf = xf.distinct()(to_list())
    local acc = rf(rf(rf(rf(), nil), nil), 1)
    assert.equal(2, acc.n)
  end)

  it("passes the three calls on", function()
    local all = { xf.map(id), xf.filter(id), xf.remove(id), xf.keep(id), xf.mapcat(id), xf.cat, xf.take(1),
      xf.take_while(id), xf.drop(1), xf.drop_while(id), xf.take_nth(1), xf.dedupe(), xf.distinct(), xf.interpose(1),
      xf.partition_all(1), xf.partition_by(id), xf.map_indexed(id), xf.comp() }
    for i, transducer in ipairs(all) do
      local calls = {}
      local rf = transducer(function(...)
        calls[#calls + 1] = select("#", ...)
        return "acc"
      end)
      assert.equal("acc", rf(), "transducer " .. i)
      assert.equal("acc", rf(nil), "transducer " .. i)
      assert.same({ 0, 1 }, calls, "transducer " .. i)
    end
  end)

  it("holds nothing back twice", function()
    for _, transducer in ipairs { xf.partition_all(5), xf.partition_by(id) } do
      local base, completed = to_list()
      local rf = transducer(base)
      local acc = rf(rf(), 1)
      assert.equal(0, acc.n)
      acc = rf(rf(rf(acc)))
      assert.equal(1, acc.n)
      assert.equal(3, completed())
    end
  end)

  it("ends when a later stage is done", function()
    local function count()
      local n = 0
      return xf.map(function(v)
        n = n + 1
        return v
      end), function() return n end
    end
    local counting, n = count()
    local thrice = xf.mapcat(function(v) return { v, v, v } end)
    assert.same({ 1, 1 }, through(xf.comp(counting, thrice, xf.take(2)), { 1, 2 }))
    assert.equal(1, n())
    counting, n = count()
    assert.same({ 1, "," }, through(xf.comp(counting, xf.interpose ",", xf.take(2)), { 1, 2, 3 }))
    assert.equal(2, n())
    assert.same({ { 1, 2 } }, through(xf.comp(xf.partition_all(2), xf.take(1)), { 1, 2, 3, 4 }))
    assert.same({ { 1 } }, through(xf.comp(xf.partition_by(id), xf.take(1)), { 1, 2, 3, 4 }))
    -- Values that a stage holds back come out although the reduction has ended early, even if they end a later stage.
    assert.same({ { 1, 2 } }, through(xf.comp(xf.take(2), xf.partition_all(5), xf.take(1)), { 1, 2, 3 }))
    assert.same({ 1 }, through(xf.comp(xf.take(1), xf.take(1)), { 1, 2 }))
  end)

  it("distinct gives what is not a number each time", function()
    assert.equal(2, #through(xf.distinct(), { 0 / 0, 0 / 0 }))
  end)

  it("flushes a stage when the channel is closed, however small the buffer", stage.sim(function()
    assert.same({ { 1, 2 }, { 3 } }, through_chan(xf.partition_all(2), { 1, 2, 3 }))
    assert.same({ { 1, 2, 3 } }, through_chan(xf.partition_all(5), { 1, 2, 3 }))
    assert.same({ { 1 } }, through_chan(xf.comp(xf.take(1), xf.partition_all(5)), { 1, 2, 3 }))
    local ch = rn.chan(1, xf.partition_all(2))
    ch:put(1)
    ch:close()
    ch:close()
    assert.same({ { 1 } }, stage.drain(ch))
  end))

  it("take closes its channel at the last value", stage.sim(function()
    local ch = rn.chan(5, xf.take(2))
    assert.is_true(ch:put(1))
    assert.is_false(ch:closed())
    assert.is_true(ch:put(2))
    assert.is_true(ch:closed())
    assert.is_false(ch:put(3))
    assert.same({ 1, 2 }, stage.drain(ch))
  end))

  describe("compared with functions on lists", function()
    -- Each gives a transducer and a function that does the same to a list.
    local function number(v) return type(v) == "number" and v or 7 end
    local function pick(list, choose)
      local out = {}
      for i, v in ipairs(list) do
        if choose(v, i) then out[#out + 1] = v end
      end
      return out
    end
    local kinds = {
      function()
        local f = function(v) return number(v) % 5 end
        return xf.map(f), function(list)
          local out = {}
          for i, v in ipairs(list) do out[i] = f(v) end
          return out
        end
      end,
      function()
        local f = function(i, v) return v and i + number(v) end
        return xf.map_indexed(f), function(list)
          local out = {}
          for i, v in ipairs(list) do out[i] = f(i, v) end
          return out
        end
      end,
      function(n)
        local f = function(v) return number(v) % (n + 1) ~= 0 end
        return xf.filter(f), function(list) return pick(list, f) end
      end,
      function(n)
        local f = function(v) return number(v) % (n + 1) == 0 end
        return xf.remove(f), function(list) return pick(list, function(v) return not f(v) end) end
      end,
      function(n)
        local f = function(v) if v ~= n then return v end end
        return xf.keep(f), function(list) return pick(list, function(v) return v ~= n end) end
      end,
      function(n)
        local f = function(v)
          local part = {}
          for i = 1, n % 3 do part[i] = v end
          return part
        end
        return xf.mapcat(f), function(list)
          local out = {}
          for _, v in ipairs(list) do table.move(f(v), 1, n % 3, #out + 1, out) end
          return out
        end
      end,
      function(n) return xf.take(n), function(list) return pick(list, function(_, i) return i <= n end) end end,
      function(n) return xf.drop(n), function(list) return pick(list, function(_, i) return i > n end) end end,
      function(n)
        return xf.take_nth(n + 1), function(list)
          return pick(list, function(_, i) return (i - 1) % (n + 1) == 0 end)
        end
      end,
      function(n)
        return xf.take_while(function(v) return v ~= n end), function(list)
          local on = true
          return pick(list, function(v)
            on = on and v ~= n
            return on
          end)
        end
      end,
      function(n)
        return xf.drop_while(function(v) return v ~= n end), function(list)
          local on = false
          return pick(list, function(v)
            on = on or v == n
            return on
          end)
        end
      end,
      function()
        return xf.dedupe(), function(list) return pick(list, function(v, i) return i == 1 or v ~= list[i - 1] end) end
      end,
      function()
        return xf.distinct(), function(list)
          return pick(list, function(v, i)
            for k = 1, i - 1 do
              if list[k] == v then return false end
            end
            return true
          end)
        end
      end,
      function(n)
        return xf.interpose(n), function(list)
          local out = {}
          for i, v in ipairs(list) do
            if i > 1 then out[#out + 1] = n end
            out[#out + 1] = v
          end
          return out
        end
      end,
      function(n)
        return xf.partition_all(n + 1), function(list)
          local out = {}
          for i, v in ipairs(list) do
            if (i - 1) % (n + 1) == 0 then out[#out + 1] = {} end
            local part = out[#out]
            part[#part + 1] = v
          end
          return out
        end
      end,
      function(n)
        local f = function(v) return number(v) < n end
        return xf.partition_by(f), function(list)
          local out = {}
          for i, v in ipairs(list) do
            if i == 1 or f(v) ~= f(list[i - 1]) then out[#out + 1] = {} end
            local part = out[#out]
            part[#part + 1] = v
          end
          return out
        end
      end,
    }

    -- A random transducer of up to five stages, and its function on lists.
    local function random_chain()
      local stages, functions, names = {}, {}, {}
      for i = 1, math.random(0, 5) do
        local kind, n = math.random(#kinds), math.random(0, 4)
        stages[i], functions[i] = kinds[kind](n)
        names[i] = ("%d(%d)"):format(kind, n)
      end
      return xf.comp(table.unpack(stages)), function(list)
        for _, f in ipairs(functions) do list = f(list) end
        return list
      end, table.concat(names, " ")
    end

    it("does the same as they do #ci", function()
      for seed = 1, 2000 do
        math.randomseed(seed)
        local transducer, on_list, names = random_chain()
        local list = {}
        for i = 1, math.random(0, 20) do
          list[i] = math.random(0, 6)
          if list[i] == 6 then list[i] = false end
        end
        local expected = on_list(list)
        local what = ("seed %d: %s"):format(seed, names)
        assert.same(expected, through(transducer, list), what)
        sim.run(function()
          assert.same(expected, through_chan(transducer, list, math.random(1, 3)), what)
          local base = to_list()
          local acc = rn.transduce(transducer, base, { n = 0 }, rn.to_chan(list)):take()
          acc.n = nil
          assert.same(expected, acc, what)
        end, { seed = seed, shuffle = true })
      end
    end)
  end)

  describe("errors", function()
    -- 3 is an error, which the exception handler replaces by "E".
    local function careful(f)
      return function(...)
        local v = select(select("#", ...), ...)
        if v == 3 then error("not 3", 0) end
        return f(...)
      end
    end

    it("of a function cost one value, and the state is sane", stage.sim(function()
      local cases = {
        { xf.map(careful(id)), { 1, 2, "E", 4, 5 } },
        { xf.map_indexed(careful(function(i, v) return i * v end)), { 1, 4, "E", 16, 25 } },
        { xf.filter(careful(even)), { 2, "E", 4 } },
        { xf.remove(careful(even)), { 1, "E", 5 } },
        { xf.keep(careful(id)), { 1, 2, "E", 4, 5 } },
        { xf.mapcat(careful(function(v) return { v } end)), { 1, 2, "E", 4, 5 } },
        { xf.take_while(careful(id)), { 1, 2, "E", 4, 5 } },
        { xf.drop_while(careful(function(v) return v < 5 end)), { "E", 5 } },
        { xf.partition_by(careful(function(v) return v > 4 end)), { "E", { 1, 2, 4 }, { 5 } } },
        { xf.comp(xf.partition_all(2), xf.map(function(part) return careful(id)(part[1]) end)), { 1, "E", 5 } },
        { xf.comp(xf.interpose(0), xf.map(careful(id))), { 1, 0, 2, 0, "E", 0, 4, 0, 5 } },
        { xf.comp(xf.take(4), xf.map(careful(id))), { 1, 2, "E", 4 } },
        -- Where the last value of a take fails, only the next one can end it, and is dropped.
        { xf.comp(xf.take(3), xf.map(careful(id))), { 1, 2, "E" } },
        { xf.comp(xf.dedupe(), xf.map(careful(id))), { 1, 2, "E", 4, 5 } },
      }
      for i, case in ipairs(cases) do
        local ch = rn.chan(1, case[1], function(err)
          assert.equal("not 3", err)
          return "E"
        end)
        rn.onto_chan(ch, { 1, 2, 3, 4, 5 })
        assert.same(case[2], stage.drain(ch), "case " .. i)
      end
    end))

    it("in what is held back do not keep later stages from completing", stage.sim(function()
      local ch = rn.chan(1, xf.comp(xf.partition_all(2), xf.map(function(part)
        if #part == 1 then error("alone", 0) end
        return part[1]
      end), xf.partition_all(5)))
      rn.onto_chan(ch, { 1, 2, 3, 4, 5 })
      assert.same({ { 1, 3 } }, stage.drain(ch))
      assert.equal("alone", stage.heard()[1].err)
    end))

    it("without an exception handler go to the error handler", stage.sim(function()
      assert.same({ 1, 2, 4 }, through_chan(xf.map(careful(id)), { 1, 2, 3, 4 }))
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.equal("not 3", heard[1].err)
    end))

    it("name what was wrong with a value", stage.sim(function()
      assert.same({ 1 }, through_chan(xf.cat, { 5, { 1 } }))
      assert.matches("xf.cat: a list or an iterator function expected, got a number", stage.heard()[1].err)
      assert.same({}, through_chan(xf.mapcat(function() end), { 5 }))
      assert.matches("xf.cat: a list or an iterator function expected, got a nil", stage.heard()[1].err)
      assert.same({}, through_chan(xf.map(function() end), { 5 }))
      assert.matches("a transducer produced nil", stage.heard()[1].err)
    end))

    it("report a transducer that returns nothing", stage.sim(function()
      assert.error_matches(function() xf.comp(xf.map(id), function() end)(function() end) end,
        "transducer 2 returned a nil instead of a reducing function")
      local ch = rn.chan(1, function() return function() end end)
      ch:put(1)
      assert.matches("not its accumulator", stage.heard()[1].err)
    end))

    it("in arguments", function()
      for _, name in ipairs { "map", "map_indexed", "filter", "remove", "keep", "mapcat", "take_while", "drop_while",
        "partition_by" } do
        raises("^xf%." .. name .. ": %w+: a function expected, got a number", function() xf[name](1)
        end)
        raises("^xf%." .. name .. ": %w+: a function expected, got nothing", function() xf[name]()
        end)
      end
      for name, least in pairs { take = 0, drop = 0, take_nth = 1, partition_all = 1 } do
        for _, bad in ipairs { least - 1, 1.5, "3", 0 / 0, {} } do
          raises("^xf%." .. name .. ": n: an integer of at least " .. least, function() xf[name](bad)
          end)
        end
        raises("^xf%." .. name .. ": n: an integer", function() xf[name]()
        end)
      end
      raises("^xf.interpose: separator: a value other than nil", function() xf.interpose()
      end)
      raises("^xf.comp: transducer 2: a function expected, got nothing", function() xf.comp(xf.map(id), nil)
      end)
      raises("^xf.cat is the transducer itself", function() xf.cat()
      end)
    end)
  end)
end)
