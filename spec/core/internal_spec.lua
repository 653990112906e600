-- Functions of the core that only modules of the library use, and corners of others.
local rn = require "runnel"
local core = require "runnel.core"
local internal = core.internal
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("a channel", function()
  it("without a name is shown by its number", function()
    local ch = rn.chan()
    assert.equal("chan: #" .. ch:stats().id, tostring(ch))
    ch:close()
    assert.equal("chan: #" .. ch:stats().id .. " (closed)", tostring(ch))
  end)
end)

describe("an object that is no buffer", function()
  it("is not an unblocking buffer", function()
    assert.is_false(rn.unblocking_buffer(io.stdout))
    assert.is_false(rn.unblocking_buffer(rn.chan(rn.sliding_buffer(1))))
    assert.is_false(rn.unblocking_buffer(nil))
    assert.is_false(rn.unblocking_buffer(rn.buffer(1)))
    assert.is_true(rn.unblocking_buffer(rn.sliding_buffer(1)))
  end)

  it("is not shown as one", function()
    local show = getmetatable(rn.buffer(1)).__tostring
    assert.error_matches(function() show(io.stdout) end, "a buffer expected, got userdata")
    assert.error_matches(function() show(1) end, "a buffer expected, got number")
  end)
end)

describe("on the outside of go blocks", function()
  before_each(stage.open)
  after_each(stage.close)

  it("a put that waited raises what the buffer policy says of its value", function()
    local ch = rn.chan(stage.picky(function(v) return v ~= "bad" end))
    for i = 1, 100 do ch:put(i) end
    rn.go(function()
      rn.yield()
      ch:take()
    end)
    local ok, err = pcall(ch.put, ch, "bad")
    assert.same({ false, "no bad here" }, { ok, err })
    assert.equal(99, #ch)
    local port
    rn.go(function()
      rn.yield()
      ch:take()
      ch:take()
    end)
    ch:put "fills it"
    ok, err = pcall(function()
      local _
      _, port = rn.alts { { ch, "bad" } }
    end)
    assert.same({ false, "no bad here" }, { ok, err })
    assert.is_nil(port)
    assert.equal(98, #ch)
  end)

  it("a deadlock reports callbacks that wait, which have no line", function()
    local ch = rn.chan():name "lonely"
    local line = stage.here(1)
    ch:take_async(function() end)
    local ok, err = pcall(function() rn.chan():take() end)
    assert.is_false(ok)
    assert.matches("(" .. line .. "): take on chan: lonely\n", err .. "\n", 1, true)
    ch:close()
    rn.run()
  end)

  it("yield is refused where nothing can wait", function()
    local heard
    rn.chan(1):put_async(1, function() heard = { pcall(rn.yield) } end)
    assert.is_false(heard[1])
    assert.matches("yield would have to wait, which is impossible inside a callback", heard[2], 1, true)
    local calls = 0
    rn.driver {
      wait = function()
        calls = calls + 1
        if calls == 1 then heard = { pcall(rn.yield) } end
      end,
      alive = function() return calls == 0 end,
    }
    rn.run()
    assert.is_false(heard[1])
    assert.matches("yield would have to wait", heard[2], 1, true)
  end)

  it("a driver may be a userdata", function()
    local object = rn.chan() -- one whose methods can be replaced for a while
    local methods = getmetatable(object).__index
    local calls = 0
    methods.wait = function() calls = calls + 1 end
    methods.alive = function() return calls < 3 end
    local ok, err = pcall(function()
      rn.driver(object)
      rn.run()
    end)
    methods.wait, methods.alive = nil, nil
    rn.driver(nil)
    assert.is_true(ok, err)
    assert.equal(3, calls)
    assert.error_matches(function() rn.driver(io.stdout) end, "it has no method wait")
  end)
end)

describe("a debug hook", function()
  it("that raises nothing lets waiting go on", function()
    local calls = 0
    debug.sethook(function() calls = calls + 1 end, "c")
    local ok, err = pcall(rn.sleep, 2)
    debug.sethook()
    assert.is_true(ok, err)
    assert.is_true(calls > 0)
  end)
end)

describe("errors", function()
  it("are reported without a traceback where there is none", function()
    local output = stage.script [[
      local internal = require("runnel.core").internal
      internal.report("the message", nil, "here")
      internal.report("another")
    ]]
    assert.equal("runnel: error in here: the message\nrunnel: error in the scheduler: another\n", output)
  end)

  it("of the error handler may be anything", function()
    local output = stage.script [[
      local rn = require "runnel"
      rn.on_error(function() error({}) end)
      rn.go(error, "first")
      rn.run()
    ]]
    assert.equal("runnel: error in the error handler: not a string\n", output)
  end)
end)

describe("alts", function()
  before_each(stage.open)
  after_each(stage.close)

  -- A policy that has room when asked by alts, and then has none; or the like for its values.
  local function fickle(answers)
    local asked = 0
    return {
      full = function()
        asked = asked + 1
        return answers[(asked - 1) % #answers + 1]
      end,
      add = function() end,
      remove = function() end,
      count = function() return 0 end,
    }
  end

  it("does something else when a policy takes back that it has room", stage.sim(function()
    local ch, other = rn.chan(fickle { false, true }), rn.chan(1)
    local ok, port = rn.alts({ { ch, 1 }, { other, 2 } }, { priority = true })
    assert.same({ true, true }, { ok, port == other })
    assert.equal(0, ch:stats().put_total)
    -- And waits where there is nothing else.
    local ends, full = rn.timeout(10), rn.chan(fickle { true })
    local ops = { { rn.chan(fickle { false, true }), 1 }, { full, 2 }, ends }
    assert.equal(ends, select(2, rn.alts(ops, { priority = true })))
    assert.equal(10, sim.elapsed())
  end))

  it("looks again when asking a policy has changed another channel", stage.sim(function()
    local other = rn.chan(1)
    local policy = fickle { true }
    policy.full = function()
      other:offer "put meanwhile"
      return true
    end
    local v, port = rn.alts({ other, { rn.chan(policy), 1 } }, { priority = true })
    assert.same({ "put meanwhile", true }, { v, port == other })
    local closing = rn.chan()
    policy.full = function()
      closing:close()
      return true
    end
    v, port = rn.alts({ closing, { rn.chan(policy), 1 } }, { priority = true })
    assert.same({ nil, true }, { v, port == closing })
  end))
end)

describe("a simulation", function()
  it("may end a go block that sleeps outside", function()
    local done, inner = stage.sleeper(1000), nil
    rn.step()
    rn.go(rn.sleep, 1)
    rn.step()
    sim.run(function()
      rn.go(rn.sleep, 10)
      rn.yield()
      done()
      rn.sleep(100)
      inner = rn.now()
    end)
    assert.equal(100, inner)
    rn.run()
    assert.same({}, stage.others())
  end)
end)

describe("reports", function()
  it("need an error", function()
    assert.error_matches(function() internal.report() end, "value expected")
  end)
end)

describe("functions for modules of our own", function()
  before_each(stage.open)
  after_each(stage.close)

  it("raise for impossible arguments", function()
    local ch = rn.chan(1)
    for _, fd in ipairs { -1, math.maxinteger } do
      assert.error_matches(function() core.wait_readable(fd) end, "wait_readable: a file descriptor expected")
    end
    assert.error_matches(function() internal.offer_lines(ch, "a\n", 0) end, "not a position in the text")
    assert.error_matches(function() internal.offer_lines(ch, "a\n", 4) end, "not a position in the text")
    assert.equal(0, #ch)
  end)

  it("put a value on channels up to the first that has to be asked", function()
    local a, b, full, closed = rn.chan(1), rn.chan(1), rn.chan(1), rn.chan(1)
    full:put "before"
    closed:close()
    assert.equal(3, internal.offer_each({ a, b }, "v", 1))
    assert.same({ "v", "v" }, { a:take(), b:take() })
    for _, other in ipairs { full, closed, rn.chan(), io.stdout } do
      assert.equal(2, internal.offer_each({ a, other, b }, "w", 1))
      assert.same({ "w", n = 1 }, table.pack(a:poll()))
      assert.is_nil(b:poll())
      assert.equal(4, internal.offer_each({ a, other, b }, "w", 3))
      assert.equal("w", b:take())
    end
    assert.equal("before", full:take())
  end)

  it("call a function when a channel closes: at once, after its takers, and once", function()
    local ch, log = rn.chan(), {}
    local function first() log[#log + 1] = "first" end
    local function second() log[#log + 1] = ch:closed() and ch:stats().takes end
    rn.go(function() ch:take() end)
    rn.go(function()
      assert.is_nil(internal.on_close(ch, first))
      assert.equal(first, internal.on_close(ch, second))
      ch:close()
      log[#log + 1] = "closed"
      ch:close()
      internal.on_close(ch, first)
    end)
    rn.run()
    assert.same({ 0, "closed", "first" }, log)
  end)

  it("call it even where that has closed the channel whose end it closes, and may close others there", function()
    local a, b, log = rn.chan(), rn.chan(), {}
    internal.on_close(a, function()
      b:close "through a"
      a:close()
      log[#log + 1] = "a"
    end)
    internal.on_close(b, function() log[#log + 1] = "b" end)
    a:close()
    assert.same({ "b", "a" }, log)
    assert.same({ nil, "through a" }, { b:take() })
  end)

  it("call nothing that parks then, or raises", function()
    for message, f in pairs {
      ["impossible inside a function that is called on closing"] = function() rn.chan():take() end,
      ["spec/core/internal_spec.lua:%d+: no"] = function() error "no" end,
    } do
      local ch = rn.chan()
      internal.on_close(ch, f)
      ch:close()
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.matches(message, heard[1].err)
      assert.matches("stack traceback", heard[1].trace)
      assert.matches("^chan: #", heard[1].name)
    end
    assert.error_matches(function() internal.on_close(rn.chan(), 1) end, "on_close: a function expected, got number")
    assert.error_matches(function() internal.on_close(1, print) end, "on_close: a channel expected, got number")
  end)
end)
