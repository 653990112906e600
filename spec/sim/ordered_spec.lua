-- pairs and next of a simulation: an order that depends on the keys only.

local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"

local POOL = { true, false, 1.5, 1, 2, 3, 2 ^ 53, -1, 0, 7, "a", "b", "c", "zz", "", "10", 10, 1e300 }

-- Tables with the same keys, put there in different orders, some of which were removed in between.
local function twins()
  local one, two, keys = {}, {}, {}
  for _ = 1, math.random(0, 20) do
    local key = POOL[math.random(#POOL)]
    if one[key] == nil then keys[#keys + 1] = key end
    one[key] = true
  end
  for i = 1, 100 do two[i] = true end
  for i = #keys, 1, -1 do two[keys[i]] = true end
  for i = 1, 100 do
    if one[i] == nil then two[i] = nil end
  end
  return one, two, #keys
end

-- The keys as pairs gives them; some fields are removed meanwhile.
local function by_pairs(t)
  local list = {}
  for key in pairs(t) do
    list[#list + 1] = key
    if math.random(3) == 1 then t[key] = nil end
  end
  return list
end

local function by_next(t)
  local list, key = {}, nil
  while true do
    key = next(t, key)
    if key == nil then return list end
    list[#list + 1] = key
    if math.random(3) == 1 then t[key] = nil end
  end
end

describe("in a simulation,", function()
  it("pairs and next give each field once, in the same order for the same keys", function()
    sim.run(function()
      for _ = 1, 500 do
        local one, two, n = twins()
        local list = by_pairs(one)
        assert.equal(n, #list)
        assert.same(list, by_next(two))
      end
    end)
  end)

  it("the order is: false, true, numbers, strings, channels by their age, other objects as they were seen", function()
    sim.run(function()
      local first, second, a, b = rn.chan(), rn.chan(), {}, {}
      local order = { false, true, -1, 2, 2.5, "", "2", "a", first, second, a, b }
      for _, object in ipairs { a, b } do by_pairs { [object] = 1, x = 1 } end -- seen
      local t = {}
      for i = #order, 1, -1 do t[order[i]] = i end
      local list = {}
      for key in pairs(t) do list[#list + 1] = key end
      assert.same(#order, #list)
      for i, key in ipairs(order) do assert.equal(key, list[i]) end
    end)
  end)

  it("fields may change, __pairs is called, and weak tables stay weak", function()
    sim.run(function()
      local t = { a = 1, b = 2, c = 3 }
      for key, value in pairs(t) do
        t[key] = value * 2
        t.c = nil
      end
      assert.same({ a = 2, b = 4 }, t)
      local own = setmetatable({}, { __pairs = function(self) return function(_, key)
        if not key then return 1, self end
      end, self end })
      for key, value in pairs(own) do assert.same({ 1, own }, { key, value }) end
      local weak = setmetatable({ [{}] = 1, [{}] = 2 }, { __mode = "k" })
      assert.is_truthy(next(weak))
      next(weak, (next(weak)))
      for _ in pairs(weak) do end -- luacheck: ignore 542
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(weak))
      assert.is_nil(next {})
      assert.same({ "x", 1 }, { next { x = 1 } })
    end)
  end)

  it("errors are those of Lua, at the caller's line", function()
    local calls = {
      function() local a = pairs() return a end, function() local a = next(5) return a end,
      function() local a = next() return a end, function() for _ in pairs(nil) do end end,
      function() local a = tostring() return a end, function() local a = string.format("%d", "x") return a end,
    }
    local function all()
      local found = {}
      for i, f in ipairs(calls) do found[i] = select(2, pcall(f)) end
      return found
    end
    assert.same(all(), sim.run(all))
  end)

  it("what they return is no source of values, as elsewhere", function()
    local function all()
      for _, f in ipairs {
        function() rn.to_chan(pairs { 10, 20 }) end, function() rn.to_chan(pairs {}) end,
        function() rn.to_chan(next, { 10 }) end, function() rn.pmap(1, tostring, (pairs { 10 })) end,
        function() rn.onto_chan(rn.chan(), pairs { 10, 20 }) end,
      } do raises("pass the list itself", f) end
    end
    all()
    sim.run(all)
  end)

  it("texts of objects have numbers instead of addresses", function()
    local function texts()
      local t, f, co = {}, function() end, coroutine.create(print)
      return { tostring(t), tostring(f), ("%s %10p %p %d%%"):format(co, t, print, 3), tostring(t), ("%s"):format(t),
        tostring(setmetatable({}, { __tostring = function() return "mine" end })), tostring "text", ("%5s"):format(1) }
    end
    assert.same({ "table: 0x00000000000001", "function: 0x00000000000002",
      "thread: 0x00000000000003 0x00000000000001 0x00000000000004 3%", "table: 0x00000000000001",
      "table: 0x00000000000001", "mine", "text", "    1" }, sim.run(texts))
  end)

  it("texts of objects of C have numbers in place of what is behind them", function()
    assert.equal("file (0x00000000000001) file (0x00000000000001)", sim.run(function()
      return tostring(io.stdout) .. " " .. ("%s"):format(io.stdout)
    end))
  end)

  it("math.random is that of the seed, and the program's own goes on as if nothing had been", function()
    local function draw() return math.random(1 << 40) end
    math.randomseed(7)
    local before = { draw(), draw() }
    math.randomseed(7)
    assert.equal(before[1], draw())
    local one, two = sim.run(draw, { seed = 3 }), sim.run(draw, { seed = 4 })
    assert.not_equal(one, two)
    assert.equal(one, sim.run(draw, { seed = 3 }))
    assert.equal(before[2], (function()
      math.randomseed(7)
      draw()
      return draw()
    end)())
  end)

  it("all of this ends with the simulation, and not with one that is refused within it", function()
    local own = { pairs, next, tostring, string.format }
    local kept
    sim.run(function()
      assert.not_equal(own[1], pairs)
      kept = { pairs, next, tostring, string.format }
      assert.is_false(pcall(sim.run, function() end))
      assert.equal(kept[1], pairs)
      assert.equal("table: 0x00000000000001", tostring {})
    end)
    assert.same(own, { pairs, next, tostring, string.format })
    pcall(sim.run, function() error "in it" end)
    assert.same(own, { pairs, next, tostring, string.format })
    local t = {}
    assert.equal(tostring(t), kept[3](t)) -- a module that the simulation has loaded may keep them
    assert.equal(next, kept[1](t))
    assert.equal(("%p"):format(t), kept[4]("%p", t))
  end)
end)

describe("a search", function()
  local function program()
    local order = {}
    for object in pairs { [{}] = 1, [{}] = 2, [{}] = 3 } do -- LINE
      rn.go(function() order[#order + 1] = object end)
    end
    error "wrong"
  end

  it("names the line where objects are keys, since nothing fixes their order", function()
    local _, message = pcall(sim.explore, program)
    assert.matches("\nIt may not replay: nothing fixes the order of the objects that are keys at "
      .. "spec/sim/ordered_spec.lua:%d+$", message)
    local line, n = tonumber(message:match "ordered_spec.lua:(%d+)$"), 0
    for text in io.lines "spec/sim/ordered_spec.lua" do
      n = n + 1
      if n == line then assert.matches("LINE", text) end
    end
    local runs = 0
    _, message = pcall(sim.explore, function()
      runs = runs + 1
      for _ in pairs { [{}] = 1, [{}] = 2 } do rn.go(function() end) end
      if runs > 1 then rn.go(function() end) end
    end)
    assert.matches("a likely cause: pairs over a table with objects as keys, at spec/sim/ordered_spec.lua:%d+$",
      message)
  end)

  it("does not where they are channels, or one alone", function()
    local _, message = pcall(sim.explore, function()
      for ch in pairs { [rn.chan()] = 1, [rn.chan()] = 2, [{}] = 3 } do rn.go(function() return ch end) end
      error "wrong"
    end)
    assert.is_nil(message:find "may not replay")
  end)
end)
