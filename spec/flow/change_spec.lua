-- Flow:add and Flow:remove: a flow that changes while it runs.

local flow = require "runnel.flow"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("a flow that runs", function()
  local numbers, got, f

  -- numbers > double > save; `numbers` is a channel of the spec.
  before_each(function()
    numbers, got = rn.chan(), {}
    f = flow("job", {
      numbers = numbers,
      double = function(v) return 2 * v end,
      save = function(v) got[#got + 1] = v end,
      "numbers > double > save",
    }):start()
  end)
  after_each(function() f:stop() end)

  -- The stages by their names, and where they lead.
  local function shape()
    local list = {}
    for _, row in ipairs(f:stats()) do list[#list + 1] = row.stage .. " " .. table.concat(row.to, " ") end
    return list
  end

  it("gets stages and edges, which lead from and to those that are there", function()
    numbers:put(1)
    local odd = {}
    assert.equal(f, f:add {
      log = { n = 2, function(v) odd[#odd + 1] = v end },
      plus = function(v) return v + 1 end,
      "numbers > plus > save, log",
    })
    assert.same({ "numbers > double > plus", "double > save", "save ", "plus > save > log", "log " }, shape())
    numbers:put(10)
    numbers:close()
    assert.is_true((f:wait()))
    table.sort(got)
    assert.same({ 2, 11, 20 }, got)
    assert.same({ 11 }, odd)
  end)

  it("gets sources, and ends when they have ended, too", function()
    f:add { more = { from = { 5, 6 } }, "more > double" }
    numbers:close()
    f:wait()
    assert.same({ 10, 12 }, got)
  end)

  it("gets stages before it is started", function()
    local out = {}
    flow("later", { list = { from = { 1 } }, out = function(v) out[#out + 1] = v end, "list > out" })
      :add { same = function(v) return v end, "list > same > out" }:wait()
    assert.same({ 1, 1 }, out)
  end)

  it("is unchanged when a stage or an edge is wrong", function()
    local before = shape()
    local function is_refused(message, given)
      raises(message, function() f:add(given) end)
      assert.same(before, shape())
    end
    is_refused("add: flow job has a stage \"save\" already", { save = print })
    is_refused("add: nothing leads to stage alone", { alone = print })
    is_refused("an edge names \"nope\", which is not a stage", { one = print, "numbers > one > nope" })
    is_refused("add: .* would close a cycle", { back = function(v) return v end, "numbers > back",
      "double > back >> double" })
    is_refused("add: .*numbers is a source", { a = function(v) return v end, "double > a > numbers" })
    is_refused("add: there are no stages", { "numbers > save" })
    raises("add: a table of stages and edges expected, got a string", function() f:add "a > b" end)
    numbers:put(4)
    numbers:close()
    f:wait()
    assert.same({ 8 }, got)
    raises("add: flow job has ended", function() f:add { x = { from = {} } } end)
  end)

  it("is unchanged when an edge of a text that connects is wrong, also together with those before it", function()
    f:add { other = { from = {} }, last = print, "other > last" }
    local before = shape()
    local function is_refused(message, text)
      raises(message, function() f:connect(text) end)
      assert.same(before, shape())
    end
    is_refused('connect: "last > double > last" would close a cycle', "last > double > last")
    is_refused('connect: "other > save, save": that edge is there already', "other > save, save")
    is_refused('connect: flow job has no stage "nope"', "other > save, nope")
    f:connect "other > double > last"
    numbers:close()
    assert.is_true((f:wait()))
  end)

  it("is unchanged when an edge of a text that disconnects is not there, or is there once and named twice", function()
    f:add { more = { input = true, function(v) return v end }, "more > save" }
    local before = shape()
    for _, text in ipairs { "double > save, save", "double > save, double", "double, double > save" } do
      raises("disconnect: .*: that edge is not there", function() f:disconnect(text) end)
      assert.same(before, shape())
    end
    f:disconnect "double > save"
    f:inject("more", 5) -- `save` has not ended
    numbers:close()
    f:drain()
    assert.same({ 5 }, got)
  end)

  it("loses a stage when that is done with its values", function()
    local gate = rn.chan()
    f:replace("double", function(v)
      gate:take()
      return -v
    end)
    for i = 1, 3 do numbers:put(i) end
    f:add { triple = function(v) return 3 * v end, "numbers > triple > save" }
    assert.equal(f, f:remove "double")
    numbers:put(10)
    for _ = 1, 3 do gate:put(true) end
    numbers:close()
    assert.is_true((f:wait()))
    table.sort(got)
    assert.same({ -3, -2, -1, 30 }, got)
    assert.same({ "numbers > triple", "save ", "triple > save" }, shape())
    raises("remove: flow job has no stage \"double\"", function() f:remove "double" end)
  end)

  it("loses a source, also one that waits, and inputs", function()
    f:add { endless = { source = function(put) for i = 1, math.huge do rn.sleep(1) put(i) end end },
      given = { input = true, function(v) return v end }, "endless, given > double" }
    f:inject("given", 100):remove("endless"):remove "given"
    numbers:close()
    assert.is_true((f:wait()))
    assert.equal(200, got[1])
    assert.same({ "numbers > double", "double > save", "save " }, shape())
  end)

  it("keeps a stage whose removal would end another one, or that is in a cycle, paused, or not started", function()
    raises("remove: nothing but double leads to stage save, .* as in f:connect \"a > save\"", function()
      f:remove "double"
    end)
    f:pause "save"
    raises("remove: stage save is paused: resume it first", function() f:remove "save" end)
    f:resume "save"
    raises("remove: flow new was not started", function()
      flow("new", { a = { from = {} }, b = print, "a > b" }):remove "b"
    end)
    local _ <close> = f
    do
      local more = rn.chan()
      local both <close> = flow("both", { a = numbers, b = more, c = function(v) return v end, d = function() end,
        e = { input = true, function(v) return v end }, f = function(v) return v > 1 and v - 1 or nil end,
        g = function(v) return v end, "a > c > d", "b > d", "e > f, g", "f > g >> f" }):start()
      both:pause "d"
      for i = 1, 20 do both:inject("c", i) end -- more than there is room for: it stays until d is resumed
      both:remove "c"
      raises("remove: nothing but b leads to stage d", function() both:remove "b" end)
      raises("remove: nothing but e leads to stage [fg]", function() both:remove "e" end)
      more:close()
      both:resume "d"
    end
    local g <close> = flow("cycle", { a = numbers, b = function(v) return v > 1 and v - 1 or nil end,
      "a > b >> b" }):start()
    raises("remove: stage b is in a cycle", function() g:remove "b" end)
    f:remove "save":remove "double"
    numbers:close()
    f:wait()
  end)

  it("can be removed whole, from its end on, and ends then", function()
    f:remove "save"
    f:remove "double"
    f:remove "numbers"
    assert.is_true((f:wait()))
    assert.same({}, shape())
  end)
end)
