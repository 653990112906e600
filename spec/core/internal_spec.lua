-- Functions of the core that only modules of the library use.
local rn = require "runnel"
local core = require "runnel.core"
local internal = core.internal
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

describe("errors", function()
  it("are reported without a traceback where there is none", function()
    local output = stage.script [[
      local internal = require("runnel.core").internal
      internal.report("the message", nil, "here")
      internal.report("another")
    ]]
    assert.equal("runnel: error in here: the message\nrunnel: error in the scheduler: another\n", output)
  end)

  it("of the error handler may be anything; what it was called with is written, and the program fails", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      rn.on_error(function() error({}) end)
      rn.go(error, "first")
      rn.run()
      rn.exit()
    ]]
    assert.equal(1, status)
    assert.matches("^runnel: error in the error handler: not a string\nrunnel: error in [^\n]*: first\nstack", output)
    assert.equal(1, select(2, output:gsub("first", "")))
  end)
end)

describe("reports", function()
  it("need an error", function()
    assert.error_matches(function() internal.report() end, "value expected")
  end)

  it("of deadlocks are short if nothing writes them", function()
    local output = stage.script [[
      local core = require "runnel.core"
      local function try() print(pcall(core.run, function() core.chan():take() end)) end
      try()
      core.internal.reports { deadlock = error }
      try()
    ]]
    assert.equal(("false\tdeadlock: run would wait for ever\n"):rep(2), output)
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
    for _, f in ipairs { internal.listen, internal.stands_for, internal.start_thread } do
      for _, v in ipairs { 1, io.stdout, "text" } do
        assert.error_matches(function() f(v, v, v, v) end, "bad argument #%d to '[^']*' %(.* expected")
      end
    end
    assert.error_matches(function() internal.start_thread({}, ch) end, "a shared channel expected")
    assert.error_matches(function() internal.start_thread({}, 1) end, "a shared channel expected")
    for _, f in ipairs { internal.moving.put, internal.moving.put_while_open } do
      assert.error_matches(function() f(ch, nil) end, "a value other than nil expected")
      assert.error_matches(function() f(ch) end, "a value other than nil expected")
      assert.error_matches(function() f(1, 1) end, "channel expected")
    end
    assert.error_matches(function() internal.offer_lines(ch, "a\n", 0, 9) end, "not a position in the text")
    assert.error_matches(function() internal.offer_lines(ch, "a\n", 4, 9) end, "not a position in the text")
    assert.equal(0, #ch)
    for _, wrong in ipairs {
      { internal.wake, ch }, { internal.job_of, 1 },
      { internal.worker.phase, print }, { internal.worker.bind, print, ch },
      { internal.explore.new, 0 }, { internal.explore.new, 2 ^ 31 },
      { internal.explore.choose, 0 }, { internal.explore.choose, 2 ^ 31 },
    } do
      assert.error_matches(function() wrong[1](table.unpack(wrong, 2)) end, "bad argument #1 to")
    end
  end)

  it("take no value for a channel that is closed", function()
    local from, to, shared = rn.chan(2), rn.chan(1), rn.shared_chan(1)
    from:put "first"
    from:put "second"
    assert.equal("first", internal.moving.next(from, shared, true))
    for _, ch in ipairs { to, shared } do
      ch:close()
      assert.is_nil(internal.moving.next(from, ch, true))
    end
    assert.equal("second", from:take())
    assert.is_nil(internal.moving.next(from, rn.chan(), true))
  end)

  it("say whether a go block has ended, also of a channel that is none's", function()
    local block = rn.go(function() end)
    assert.is_false(internal.has_ended(block))
    rn.run()
    assert.is_true(internal.has_ended(block))
    assert.is_true(internal.has_ended(rn.chan()))
  end)

  it("say whether takes wait on a channel", stage.sim(function()
    local ch = rn.chan()
    local block = rn.go(ch.take, ch)
    assert.is_false(internal.moving.is_awaited(ch))
    rn.yield()
    assert.is_true(internal.moving.is_awaited(ch))
    ch:put "value"
    assert.is_false(internal.moving.is_awaited(ch))
    assert.equal("value", block:take())
  end))

  it("put a value on channels up to the first that would wait or needs a put of its own", function()
    local put_each = internal.moving.put_each
    local a, b, full, closed = rn.chan(2), rn.chan(2), rn.chan(1), rn.chan(1)
    full:put "before"
    closed:close()
    assert.is_nil(put_each({ a, b }, "v", 1))
    assert.same({ "v", "v" }, { a:take(), b:take() })
    for _, other in ipairs { full, rn.chan(), closed, io.stdout, rn.chan(1, rn.xf.map(tostring)) } do
      assert.equal(2, put_each({ a, other, b }, "w", 1))
      assert.same({ "w", n = 1 }, table.pack(a:poll()))
      assert.is_nil(b:poll())
      assert.is_nil(put_each({ a, other, b }, "w", 3))
      assert.equal("w", b:take())
    end
    assert.equal("before", full:take())
    assert.has_error(function() put_each({ a }, nil, 1) end)
    assert.equal(0, #a)
  end)

  it("let takers run after a put on several channels that has filled the last one", stage.sim(function()
    local roomy, last, taken = rn.chan(9), rn.chan(1), {}
    rn.go(function()
      for value in last do taken[#taken + 1] = value end
    end)
    assert.is_nil(internal.moving.put_each({ last, roomy }, 1, 1))
    assert.same({}, taken)
    rn.yield()
    assert.same({ 1 }, taken)
    last:offer(2) -- its taker takes that; the buffer is free
    assert.is_nil(internal.moving.put_each({ roomy, last }, 3, 1))
    assert.same({ 1, 2, 3 }, taken)
  end))

  it("close a channel or those of a list, and leave alone what only closes by itself", stage.sim(function()
    local close = internal.close_fed
    local chs = { rn.chan(), rn.chan(1, rn.xf.map(tostring)), rn.shared_chan(), rn.chan():name "named" }
    local left = { rn.timeout(50000), rn.chan():done(), 1, nil, rn.chan() }
    close(chs, "why")
    for _, ch in ipairs(chs) do assert.equal("why", select(2, ch:take())) end
    close(chs, "again")
    assert.equal("why", select(2, chs[4]:take()))
    for _, none in ipairs { false, { left } } do close(none, "why") end
    close(left, "why")
    close(left[1], "why")
    assert.is_false(left[1]:closed() or left[2]:closed() or left[5]:closed())
    for _, ch in ipairs { rn.chan(), rn.shared_chan() } do
      close(ch)
      assert.same({ n = 1 }, table.pack(ch:take()))
    end
  end))

  it("call a function when a channel closes: at once, after its takers, and once", function()
    local ch, log = rn.chan(), {}
    local function first() log[#log + 1] = "first" end
    local function second() log[#log + 1] = ch:closed() and ch:stats().takes_waiting end
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

describe("put_later", function()
  before_each(stage.open)
  after_each(stage.close)

  it("puts when there is room, and then calls the function; is false on a closed channel", stage.sim(function()
    local ch, accepted = rn.chan(), nil
    assert.is_true(internal.moving.put_later(ch, "later", function(ok) accepted = ok end))
    rn.yield()
    assert.is_nil(accepted)
    assert.equal("later", ch:take())
    rn.yield()
    assert.is_true(accepted)
    ch:close()
    assert.is_false(internal.moving.put_later(ch, "never", function() end))
  end))
end)

describe("withdraw_take", function()
  before_each(stage.open)
  after_each(stage.close)
  local withdraw = internal.withdraw_take

  it("ends a take that waits, which returns nil; the channel stays as it was", stage.sim(function()
    for _, take in ipairs { core.methods.take, internal.moving.take } do
      for collect = 0, 1 do
        local ch = rn.chan()
        local block = rn.go(function() return { take(ch), ch:take() } end)
        rn.yield()
        if collect == 1 then for _ = 1, 4 do collectgarbage() end end
        assert.is_true(withdraw(block, ch))
        assert.equal(0, ch:stats().takes_waiting)
        assert.is_false(ch:closed() or withdraw(block, ch))
        ch:put "next"
        assert.same({ nil, "next" }, block:take())
      end
    end
  end))

  it("ends a take on a shared channel", function()
    local ch = rn.shared_chan()
    local block = rn.go(function() return { ch:take(), ch:take() } end)
    rn.yield()
    assert.is_true(withdraw(block, ch))
    assert.equal(0, ch:stats().takes_waiting)
    rn.yield()
    assert.is_true(ch:put "next")
    assert.same({ nil, "next" }, block:take())
  end)

  it("does nothing, now or later, to a go block that does not wait in that take", stage.sim(function()
    local ch, other = rn.chan(), rn.chan()
    local function check(f, before)
      local block = rn.go(f)
      if before then before() end
      assert.is_false(withdraw(block, ch))
      rn.sleep(20)
      for _, to in ipairs { ch, other } do to:offer "value" end
      assert.equal("value", (block:take()))
    end
    check(function() return ch:take() end) -- it has not begun
    check(function() return ch:take() end, function() -- it has got a value, and is about to run
      rn.yield()
      assert.is_true(ch:offer "value")
    end)
    check(function() return other:take() end, rn.yield)
    check(function() return (rn.alts { ch, other }) end, rn.yield)
    check(function() return (rn.alts { ch }) end, rn.yield)
    check(function()
      rn.sleep(10)
      return ch:take()
    end, rn.yield)
    local put = rn.go(function() return ch:put "put" end)
    rn.yield()
    assert.is_false(withdraw(put, ch))
    assert.same({ "put", true }, { ch:take(), put:take() })
    assert.is_false(withdraw(put, ch)) -- it has ended
    raises("a go block expected", function() withdraw(ch, ch) end)
  end))
end)
