local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- A channel with the values, closed, with the error if there is one.
local function source(values, err)
  local ch = rn.chan(math.max(#values, 1))
  for _, v in ipairs(values) do ch:put(v) end
  ch:close(err)
  return ch
end

local function add(a, b) return a + b end

describe("into", function()
  before_each(stage.open)
  after_each(stage.close)

  it("appends all values to the list, which is its one value", stage.sim(function()
    local list = { "a" }
    local result = rn.into(list, source { 1, false, 3 })
    assert.equal(list, result:take())
    assert.same({ "a", 1, false, 3 }, list)
    assert.same({ n = 1 }, table.pack(result:take()))
  end))

  it("gives the list of an empty channel", stage.sim(function()
    assert.same({}, rn.into({}, source {}):take())
  end))

  it("waits for slow values", stage.sim(function()
    local ch = rn.chan()
    rn.go(function()
      for i = 1, 3 do
        rn.sleep(10)
        ch:put(i)
      end
      ch:close()
    end)
    assert.same({ 1, 2, 3 }, rn.into({}, ch):take())
    assert.equal(30, rn.now())
  end))

  it("closes with the error of its source, of which on_error gets nothing new", stage.sim(function()
    local object = {}
    local result = rn.into({}, source({ 1, 2 }, object))
    assert.same({ n = 2, nil, object }, table.pack(result:take()))
    assert.equal(0, #stage.heard())
    result = rn.into({}, rn.into({}, rn.go(error, "bad")))
    assert.same({ nil, "bad" }, { result:take() })
    assert.equal(0, #stage.heard())
    -- The error of a go block is reported once, however many channels it passes through.
    rn.into({}, rn.into({}, rn.go(error, "bad")))
    rn.sleep(1)
    assert.equal(1, #stage.heard())
    result = rn.into({}, source({}, false))
    assert.same({ n = 2, nil, false }, table.pack(result:take()))
  end))

  it("refuses what is no list and no channel", function()
    assert.error_matches(function() rn.into(nil, rn.chan()) end, "into: list: a table expected, got nothing")
    assert.error_matches(function() rn.into({}, {}) end, "into: channel: a channel expected, got a table")
    assert.error_matches(function() rn.into(rn.chan(), {}) end, "into: list: a table expected, got a channel")
  end)
end)

describe("list", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives all values until the channel is closed, in their order", stage.sim(function()
    local slow = rn.chan()
    rn.go(function()
      for i = 1, 3 do
        rn.sleep(10)
        slow:put(i)
      end
      slow:close()
    end)
    assert.same({ 1, 2, 3 }, slow:list())
    assert.equal(30, sim.elapsed())
    assert.same({}, slow:list())
    assert.same({ 1, 4, 9 }, rn.pmap(2, function(n) return n * n end, { 1, 2, 3 }):list())
  end))

  it("gives nil and the error of a channel that was closed with one, which so is taken", stage.sim(function()
    local ch = rn.chan(2)
    ch:put(1)
    ch:close "the disk is full"
    assert.same({ nil, "the disk is full" }, { ch:list() })
    rn.sleep(10000)
    assert.equal(0, #stage.heard())
  end))

  it("works on shared channels", function()
    local ch = rn.shared_chan(2)
    ch:put "a"
    ch:put "b"
    ch:close()
    assert.same({ "a", "b" }, ch:list())
  end)

  it("that waits for ever, or is called on something else, raises at the caller's line", function()
    local ch = rn.chan():name "jobs"
    local _, problem = pcall(function() local _ = ch:list() end)
    assert.matches("^[^\n]*reduce_spec.lua:%d+: deadlock: take on chan: jobs", problem)
    _, problem = pcall(function() local _ = ch.list() end)
    assert.matches("^[^\n]*reduce_spec.lua:%d+: list: .*call it as ch:list%(%)", problem)
  end)
end)

describe("reduce", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives the last accumulator", stage.sim(function()
    assert.equal(10, rn.reduce(add, 0, source { 1, 2, 3, 4 }):take())
    assert.equal("init", rn.reduce(add, "init", source {}):take())
    assert.is_false(rn.reduce(function() return false end, 1, source { 1 }):take())
  end))

  it("starts with nil, and gives nothing when it ends with nil", stage.sim(function()
    assert.equal(1, rn.reduce(function(acc, v) return acc or v end, nil, source { 1, 2 }):take())
    assert.same({ n = 1 }, table.pack(rn.reduce(function() return nil end, 0, source { 1 }):take()))
  end))

  it("stops at a reduced value, and takes nothing more", stage.sim(function()
    local ch = source { 1, 2, 3, 4, 5 }
    local result = rn.reduce(function(acc, v)
      if v == 3 then return rn.reduced(acc) end
      return acc + v
    end, 0, ch)
    assert.equal(3, result:take())
    assert.equal(2, #ch)
    assert.equal(7, rn.reduce(function() return rn.reduced(7) end, 0, rn.to_chan { 1, 2 }):take())
    assert.same({ n = 1 }, table.pack(rn.reduce(function() return rn.reduced(nil) end, 0, source { 1 }):take()))
  end))

  it("may park in its function", stage.sim(function()
    local result = rn.reduce(function(acc, v)
      rn.sleep(v)
      return acc + v
    end, 0, source { 10, 20, 30 })
    assert.equal(60, result:take())
    assert.equal(60, rn.now())
  end))

  it("closes with the error of its function, reported once", stage.sim(function()
    local result = rn.reduce(function() error("bad", 0) end, 0, source { 1, 2 })
    rn.sleep(1)
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.same({ nil, "bad" }, { result:take() })
    assert.equal("bad", heard[1].err)
    assert.matches("reduce_spec", heard[1].trace)
  end))

  it("closes with the error of its source, and no value", stage.sim(function()
    assert.same({ n = 2, nil, "why" }, table.pack(rn.reduce(add, 0, source({ 1, 2 }, "why")):take()))
    assert.equal(0, #stage.heard())
  end))

  it("refuses what is no function and no channel", function()
    assert.error_matches(function() rn.reduce(1, 0, rn.chan()) end, "reduce: function: a function expected, got a ")
    assert.error_matches(function() rn.reduce(add, 0) end, "reduce: channel: a channel expected, got nothing")
  end)
end)

describe("transduce", function()
  before_each(stage.open)
  after_each(stage.close)

  local function mapping(f)
    return function(rf)
      return function(acc, ...)
        if select("#", ...) == 0 then return rf(acc) end
        return rf(acc, f(...))
      end
    end
  end
  local function taking(n)
    return function(rf)
      local left = n
      return function(acc, ...)
        if select("#", ...) == 0 then return rf(acc) end
        left = left - 1
        acc = rf(acc, ...)
        return left > 0 and acc or rn.is_reduced(acc) and acc or rn.reduced(acc)
      end
    end
  end
  -- Gives what it holds back on completion.
  local function delaying(rf)
    local held
    return function(acc, ...)
      if select("#", ...) == 0 then
        if held ~= nil then acc = rf(acc, held) end
        return rf(acc)
      end
      local before = held
      held = ...
      return before == nil and acc or rf(acc, before)
    end
  end
  local function collecting(acc, ...)
    if select("#", ...) == 0 then return "<" .. acc .. ">" end
    return acc .. (...)
  end

  it("sends the values through, and completes once", stage.sim(function()
    local xf = mapping(function(v) return v * 2 end)
    assert.equal("<246>", rn.transduce(xf, collecting, "", source { 1, 2, 3 }):take())
    assert.equal("<>", rn.transduce(xf, collecting, "", source {}):take())
  end))

  it("completes after a reduced value too", stage.sim(function()
    local ch = source { 1, 2, 3, 4 }
    assert.equal("<12>", rn.transduce(taking(2), collecting, "", ch):take())
    assert.equal(2, #ch)
  end))

  it("flushes what the transducer holds back", stage.sim(function()
    assert.equal("<123>", rn.transduce(delaying, collecting, "", source { 1, 2, 3 }):take())
  end))

  it("completes a function of two arguments that xf.completing has wrapped", stage.sim(function()
    local function sum(acc, v) return acc + v end
    local completing = rn.xf.completing
    assert.equal(12, rn.transduce(delaying, completing(sum), 6, source { 1, 2, 3 }):take())
    assert.equal(6, rn.transduce(delaying, completing(sum), 6, source {}):take())
    assert.equal("<6>", rn.transduce(delaying, completing(sum, function(acc) return "<" .. acc .. ">" end), 0,
      source { 1, 2, 3 }):take())
    assert.equal("done", rn.transduce(delaying, completing(sum, function() return "done" end), 0, source {}):take())
    local two = completing(sum, function(acc) return acc, "no error" end)
    assert.same({ { 6 } }, { (rn.transduce(delaying, two, 0, source { 1, 2, 3 }):list()) })
    -- Without it, the call at the end is the function's: nothing completes it silently.
    assert.matches("arithmetic on a nil value", select(2, rn.transduce(delaying, sum, 0, source { 1 }):take()))
    assert.error_matches(function() completing(1) end, "xf.completing: function: a function expected, got a number")
    assert.error_matches(function() completing(sum, 1) end, "xf.completing: done: a function expected, got a number")
  end))

  it("closes with errors of source, transducer and completion, without completing", stage.sim(function()
    local completed = 0
    local function f(acc, ...)
      if select("#", ...) == 0 then completed = completed + 1 end
      return acc
    end
    local same = mapping(function(v) return v end)
    assert.same({ nil, "why" }, { rn.transduce(same, f, 0, source({ 1 }, "why")):take() })
    assert.equal(0, #stage.heard())
    assert.same({ nil, "bad" }, { rn.transduce(mapping(function() error("bad", 0) end), f, 0, source { 1 }):take() })
    assert.equal(0, #stage.heard())
    assert.equal(0, completed)
    local function failing(acc, ...)
      if select("#", ...) == 0 then error("at the end", 0) end
      return acc
    end
    assert.same({ nil, "at the end" }, { rn.transduce(same, failing, 0, source { 1 }):take() })
    assert.same({ nil, "no xf" }, { rn.transduce(function() error("no xf", 0) end, failing, 0, source { 1 }):take() })
    assert.equal(0, #stage.heard())
  end))

  it("refuses what is no transducer, function or channel", function()
    assert.error_matches(function() rn.transduce(nil, add, 0, rn.chan()) end, "transducer: a function expected")
    assert.error_matches(function() rn.transduce(add, {}, 0, rn.chan()) end, "transduce: function: a function expected")
    assert.error_matches(function() rn.transduce(add, add, 0, 42) end, "transduce: channel: a channel expected")
  end)
end)

describe("onto_chan", function()
  before_each(stage.open)
  after_each(stage.close)

  it("puts a list and closes; its own channel closes then too", stage.sim(function()
    local ch = rn.chan()
    local done = rn.onto_chan(ch, { 1, 2, false, 4 })
    assert.is_false(done:closed())
    assert.same({ 1, 2, false, 4 }, stage.drain(ch))
    assert.is_nil((done:take()))
    assert.is_true(done:closed())
  end))

  it("refuses a list with a hole, at the caller's line", stage.sim(function()
    for _, list in ipairs { { 1, 2, nil, 4 }, { [1] = 1, [2] = 2, [4] = 4 }, table.pack(1, 2, nil, 4) } do
      for name, put in pairs {
        onto_chan = function() local _ = rn.onto_chan(rn.chan(10), list) end,
        to_chan = function() local _ = rn.to_chan(list) end,
      } do
        local ok, err = pcall(put)
        assert.is_false(ok)
        assert.matches("reduce_spec.lua:%d+: " .. name .. ": a list or an iterator function expected, got a list with "
          .. "a hole: element 3 is nil, although the list goes on; use false, or leave it out$", err)
      end
    end
  end))

  it("puts a list that was filled in any order, or has named fields", stage.sim(function()
    local list = { name = "list" }
    for i = 20, 1, -1 do list[i] = i end
    assert.equal(20, #stage.drain(rn.to_chan(list)))
    assert.same({ 1, false }, stage.drain(rn.to_chan(table.pack(1, false))))
  end))

  it("puts what an iterator gives", stage.sim(function()
    local ch = rn.chan()
    rn.onto_chan(ch, ("a b c"):gmatch "%a")
    assert.same({ "a", "b", "c" }, stage.drain(ch))
    local other = rn.chan()
    rn.onto_chan(other, source { 1, 2 })
    assert.same({ 1, 2 }, stage.drain(other))
    local object = rn.chan()
    local n = 0
    rn.onto_chan(object, setmetatable({}, { __call = function()
      n = n + 1
      if n <= 2 then return n end
    end }))
    assert.same({ 1, 2 }, stage.drain(object))
  end))

  it("puts lists with a metatable", stage.sim(function()
    assert.same({ 1, 2 }, stage.drain(rn.to_chan(setmetatable({ 1, 2 }, {}))))
    local proxy = setmetatable({}, { __index = function(_, i) return i <= 3 and i * 10 or nil end })
    assert.same({ 10, 20, 30 }, stage.drain(rn.to_chan(proxy)))
  end))

  it("leaves the channel open with close = false", stage.sim(function()
    local ch = rn.chan(10)
    rn.onto_chan(ch, { 1, 2 }, false):take()
    assert.is_false(ch:closed())
    rn.onto_chan(ch, {}, false):take()
    assert.is_false(ch:closed())
    rn.onto_chan(ch, { 3 }):take()
    assert.same({ 1, 2, 3 }, stage.drain(ch))
  end))

  it("asks an iterator for no more than it can put", stage.sim(function()
    local asked = 0
    local function endless()
      asked = asked + 1
      return asked
    end
    local ch = rn.chan()
    rn.onto_chan(ch, endless)
    rn.yield()
    assert.equal(1, asked)
    assert.equal(1, ch:take())
    rn.yield()
    assert.equal(2, asked)
  end))

  it("ends when the channel is closed", stage.sim(function()
    local ch = rn.chan()
    ch:close()
    local asked = 0
    rn.onto_chan(ch, function()
      asked = asked + 1
      return asked
    end):take()
    assert.is_true(asked <= 1)
    local other = rn.chan(1)
    local done = rn.onto_chan(other, { 1, 2, 3, 4 })
    rn.yield()
    other:close()
    assert.same({ 1 }, stage.drain(other)) -- what was put before; the put that waited gave up
    done:take()
    assert.same({}, stage.others())
  end))

  it("closes the channel with the error of an iterator that fails, reported once", stage.sim(function()
    local n = 0
    local ch = rn.to_chan(function()
      n = n + 1
      if n == 3 then error("cannot read on", 0) end
      return n
    end)
    assert.equal(1, ch:take())
    assert.equal(2, ch:take())
    rn.sleep(1)
    assert.equal(1, #stage.heard())
    assert.same({ nil, "cannot read on" }, { ch:take() })
  end))

  it("leaves the channel open when an iterator fails and close = false", stage.sim(function()
    local ch = rn.chan()
    local done = rn.onto_chan(ch, function() error("cannot read on", 0) end, false)
    assert.same({ nil, "cannot read on" }, { done:take() })
    assert.is_false(ch:closed())
  end))

  it("refuses what is no channel, no list and no iterator", function()
    assert.error_matches(function() rn.onto_chan({}, {}) end, "onto_chan: channel: a channel expected, got a table")
    for _, bad in ipairs { 42, "list", true } do
      assert.error_matches(function() rn.onto_chan(rn.chan(), bad) end,
        "onto_chan: a list or an iterator function expected, got a " .. type(bad))
      assert.error_matches(function() rn.to_chan(bad) end,
        "to_chan: a list or an iterator function expected, got a " .. type(bad))
    end
    local here = stage.here(1)
    local _, err = pcall(function() rn.to_chan() end)
    assert.equal(here .. ": to_chan: a list or an iterator function expected, got nothing", err)
  end)
end)

describe("to_chan", function()
  before_each(stage.open)
  after_each(stage.close)

  it("is a channel of the values", stage.sim(function()
    assert.same({ 1, 2, 3 }, stage.drain(rn.to_chan { 1, 2, 3 }))
    assert.same({}, stage.drain(rn.to_chan {}))
  end))

  it("carries ten thousand values", stage.sim(function()
    local list = {}
    for i = 1, 10000 do list[i] = i end
    assert.equal(50005000, rn.reduce(add, 0, rn.to_chan(list)):take())
  end))

  it("gives each value to one of several takers", stage.sim(function()
    local ch = rn.to_chan { 1, 2, 3, 4, 5, 6 }
    local parts = {}
    for i = 1, 3 do parts[i] = rn.into({}, ch) end
    local all = {}
    for i = 1, 3 do
      for _, v in ipairs(parts[i]:take()) do all[#all + 1] = v end
    end
    table.sort(all)
    assert.same({ 1, 2, 3, 4, 5, 6 }, all)
  end))
end)
