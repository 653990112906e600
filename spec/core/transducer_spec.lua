local rn = require "runnel"
local finalizers = require "spec.support.finalizers"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local xforms = require "spec.support.xforms"

local within, settle = stage.within, stage.settle

local function drain(ch)
  local list = {}
  while true do
    local value = ch:poll()
    if value == nil then return list end
    list[#list + 1] = value
  end
end

local function heard(f)
  return stage.reports(function()
    f()
    settle()
  end)
end

local function pass(rf, acc, value) return rf(acc, value) end
local function even(n) return n % 2 == 0 end
local function double(n) return 2 * n end

describe("a channel with a transducer", function()
  it("transforms what is put", within(function()
    local ch = rn.chan(10, xforms.map(double))
    for i = 1, 5 do assert.is_true(ch:put(i)) end
    assert.equal(5, #ch)
    assert.same({ 2, 4, 6, 8, 10 }, drain(ch))
  end))

  it("drops what the transducer does not pass on; the puts complete", within(function()
    local ch = rn.chan(1, xforms.filter(even))
    for _, i in ipairs { 1, 3, 5, 7 } do assert.is_true(ch:put(i)) end
    assert.equal(0, #ch)
    assert.is_true(ch:put(2))
    assert.is_nil(ch:offer(3)) -- full, so the transducer does not run, although it would drop the value
    assert.equal(2, (ch:take()))
    assert.equal(5, ch:stats().put_total)
    assert.equal(1, ch:stats().take_total)
  end))

  it("continues to admit waiting puts while the transducer drops them", within(function()
    local ch, done = rn.chan(1, xforms.filter(even)), 0
    for i = 2, 12 do
      ch:put_async(i == 2 and 2 or i * 2 - 1, function(ok) done = done + (ok and 1 or 0) end)
    end
    assert.equal(10, ch:stats().puts_waiting)
    assert.equal(2, (ch:take()))
    settle()
    assert.equal(11, done)
    assert.same({ 0, 0 }, { ch:stats().puts_waiting, #ch })
    local taker = rn.go(function() return ch:take() end)
    settle()
    ch:put(3)
    ch:put(4)
    assert.equal(4, (taker:take()))
  end))

  it("composes", within(function()
    local ch = rn.chan(100, xforms.comp(xforms.filter(even), xforms.comp(xforms.map(double), xforms.times(2))))
    for i = 1, 4 do ch:put(i) end
    assert.same({ 4, 4, 8, 8 }, drain(ch))
  end))

  it("takes a callable object for a transducer, and for a step", within(function()
    local xform = setmetatable({}, { __call = function(_, rf)
      return setmetatable({}, { __call = function(_, ...) return rf(...) end })
    end })
    local ch = rn.chan(2, xform)
    ch:put "value"
    assert.equal("value", (ch:take()))
  end))

  it("has the reducing function's three ways to be called", within(function()
    local init, completion, step
    local ch = rn.chan(3, function(rf)
      return function(...)
        local n = select("#", ...)
        if n == 2 then
          init, step = rf(), rf(...)
          return step
        end
        completion = rf(...)
        return completion
      end
    end)
    ch:put(1)
    assert.equal(init, step)
    assert.is_not_nil(init)
    ch:close()
    assert.equal(init, completion)
    assert.equal(1, (ch:take()))
  end))

  it("is passed false, and may produce it", within(function()
    local ch = rn.chan(3, xforms.map(function(v) return not v end))
    ch:put(false)
    ch:put(true)
    assert.is_true((ch:take()))
    assert.is_false((ch:take()))
  end))

  it("has state of its own each time the transducer is used", within(function()
    local xform = xforms.partition(2)
    local a, b = rn.chan(5, xform), rn.chan(5, xform)
    a:put(1)
    b:put "x"
    a:put(2)
    b:put "y"
    assert.same({ { 1, 2 } }, drain(a))
    assert.same({ { "x", "y" } }, drain(b))
  end))

  it("puts values through in the order of the puts, those that wait included", within(function()
    local seen = {}
    local ch = rn.chan(2, xforms.map(function(v)
      seen[#seen + 1] = v
      return v
    end))
    for i = 1, 20 do ch:put_async(i) end
    assert.same({ 1, 2 }, seen)
    for i = 1, 20 do assert.equal(i, (ch:take())) end
    for i = 1, 20 do assert.equal(i, seen[i]) end
  end))

  describe("that expands", function()
    it("goes over the limit of a fixed buffer, and makes puts wait until it is below", within(function()
      local ch = rn.chan(2, xforms.times(50))
      assert.is_true(ch:offer "a")
      assert.equal(50, #ch)
      assert.is_nil(ch:offer "b")
      ch:put_async "c"
      for _ = 1, 48 do assert.equal("a", (ch:take())) end
      assert.equal(1, ch:stats().puts_waiting)
      assert.equal("a", (ch:take()))
      assert.same({ 0, 51 }, { ch:stats().puts_waiting, #ch })
      assert.equal("a", (ch:take()))
      for _ = 1, 50 do assert.equal("c", (ch:take())) end
      assert.equal(0, #ch)
    end))

    it("serves several waiting takes with one put, in their order", within(function()
      local ch, got = rn.chan(1, xforms.of(function(rf, acc, value)
        for i = 1, value do acc = rf(acc, i) end
        return acc
      end)), {}
      for i = 1, 5 do rn.go(function() got[i] = ch:take() end) end
      settle()
      ch:put(3)
      settle()
      assert.same({ 1, 2, 3 }, got)
      assert.equal(2, ch:stats().takes_waiting)
      ch:put(4)
      settle()
      assert.same({ 1, 2, 3, 1, 2 }, got)
      assert.same({ 3, 4 }, drain(ch))
      stage.assert_no_waiters(ch)
    end))

    it("serves takes, callbacks and alts alike, and withdraws the rest of an alts", within(function()
      local ch, other, got = rn.chan(1, xforms.times(3)), rn.chan(), {}
      rn.go(function()
        local value, port = rn.alts { other, ch, { other, 1 } }
        got[1] = value == "x" and port == ch
      end)
      settle()
      ch:take_async(function(value) got[2] = value end)
      rn.go(function() got[3] = ch:take() end)
      settle()
      ch:put "x"
      settle()
      assert.same({ true, "x", "x" }, got)
      stage.assert_no_waiters(ch, other)
    end))

    it("keeps to the limit of dropping and sliding buffers", within(function()
      local function count(rf, acc, value)
        for i = 1, 5 do acc = rf(acc, value .. i) end
        return acc
      end
      local dropping = rn.chan(rn.dropping_buffer(3), xforms.of(count))
      local sliding = rn.chan(rn.sliding_buffer(3), xforms.of(count))
      for _, ch in ipairs { dropping, sliding } do
        assert.is_true(ch:put "a")
        assert.is_true(ch:put "b")
        assert.equal(3, #ch)
      end
      assert.same({ "a1", "a2", "a3" }, drain(dropping))
      assert.same({ "b3", "b4", "b5" }, drain(sliding))
    end))

    it("grows from every size without losing a value", within(function()
      for size = 1, 20 do
        local ch, expected = rn.chan(size, xforms.of(function(rf, acc, value)
          for i = 1, value do acc = rf(acc, { value, i }) end
          return acc
        end)), {}
        local random = size
        for _ = 1, 300 do
          random = (random * 1103515245 + 12345) % 2147483648
          if random // 65536 % 3 == 0 then
            local n = random // 65536 % 7
            if ch:offer(n) then
              for i = 1, n do expected[#expected + 1] = { n, i } end
            end
          else
            assert.same(table.remove(expected, 1), (ch:poll()))
          end
          assert.equal(#expected, #ch)
        end
        assert.same(expected, drain(ch))
      end
    end))

    it("runs no finalizer in the middle of a put", within(function()
      for _ = 1, 20 do
        local ch, sent, got = rn.chan(200, xforms.times(7)), 0, 0
        finalizers.among(function()
          -- Within the transducer it is refused by an error, which the collector warns of: so it is caught here.
          local ok, done = pcall(ch.offer, ch, 1)
          if ok and done then sent = sent + 7 end
        end, function()
          for _ = 1, 100 do
            if ch:offer(1) then sent = sent + 7 end
            for _ = 1, 5 do
              if ch:poll() then got = got + 1 end
            end
          end
        end)
        got = got + #drain(ch)
        assert.equal(sent, got)
      end
    end))
  end)

  describe("that is done (reduced)", function()
    it("closes, with what it has passed on still there", within(function()
      local ch = rn.chan(5, xforms.take(2, rn.reduced))
      assert.is_true(ch:put "a")
      assert.is_false(ch:closed())
      assert.is_true(ch:put "b")
      assert.is_true(ch:closed())
      assert.is_false(ch:put "c")
      assert.same({ "a", "b" }, drain(ch))
      assert.same({ nil, n = 1 }, stage.pack_take(ch))
    end))

    it("completes waiting puts true, and drops them", within(function()
      local ch, done = rn.chan(1, xforms.take(2, rn.reduced)), {}
      for i = 1, 5 do
        rn.go(function() done[i] = ch:put(i) end)
      end
      settle()
      assert.equal(4, ch:stats().puts_waiting)
      assert.equal(1, (ch:take()))
      settle()
      assert.same({ true, true, true, true, true }, done)
      assert.is_true(ch:closed())
      stage.assert_no_waiters(ch)
      assert.equal(2, (ch:take()))
      assert.same({ nil, n = 1 }, stage.pack_take(ch))
    end))

    it("ends waiting takes that get nothing", within(function()
      local ch, got = rn.chan(1, xforms.take(1, rn.reduced)), {}
      for i = 1, 3 do rn.go(function() got[i] = stage.pack_take(ch) end) end
      settle()
      ch:put "only"
      settle()
      assert.same({ { "only", n = 1 }, { nil, n = 1 }, { nil, n = 1 } }, got)
    end))

    it("runs its completion once", within(function()
      local completions = 0
      local ch = rn.chan(5, xforms.of(function(rf, acc, value) return rn.reduced(rf(acc, value)) end, function(rf, acc)
        completions = completions + 1
        return rf(rf(acc, "last"))
      end))
      ch:put(1)
      ch:close()
      ch:close()
      assert.equal(1, completions)
      assert.same({ 1, "last" }, drain(ch))
    end))

    it("may say so without having passed anything on", within(function()
      local ch = rn.chan(5, xforms.of(function(_, acc) return rn.reduced(acc) end))
      assert.is_true(ch:put(1))
      assert.is_true(ch:closed())
      assert.is_nil((ch:take()))
    end))

    it("closes its done channel", within(function()
      local ch = rn.chan(5, xforms.take(1, rn.reduced))
      local done = ch:done()
      ch:put(1)
      assert.is_true(done:closed())
    end))
  end)

  describe("when closed", function()
    it("flushes what the completion passes on", within(function()
      local ch = rn.chan(5, xforms.partition(3))
      for i = 1, 5 do ch:put(i) end
      ch:close()
      assert.same({ { 1, 2, 3 }, { 4, 5 } }, drain(ch))
      assert.is_nil((ch:take()))
    end))

    it("flushes to waiting takes first, the rest get nil", within(function()
      local ch, got = rn.chan(1, xforms.partition(10)), {}
      for i = 1, 3 do rn.go(function() got[i] = stage.pack_take(ch) end) end
      settle()
      ch:put "a"
      ch:put "b"
      ch:close "why"
      settle()
      assert.same({ { { "a", "b" }, n = 1 }, { nil, "why", n = 2 }, { nil, "why", n = 2 } }, got)
      assert.same({ nil, "why", n = 2 }, stage.pack_take(ch))
    end))

    it("flushes only after the puts that wait have gone through", within(function()
      local ch, done = rn.chan(1, xforms.partition(2)), {}
      for i = 1, 7 do rn.go(function() done[i] = ch:put(i) end) end
      settle()
      ch:close()
      assert.equal(5, ch:stats().puts_waiting)
      local list = {}
      for value in ch do list[#list + 1] = value end
      assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7 } }, list)
      settle()
      for i = 1, 7 do assert.is_true(done[i]) end
    end))

    it("flushes although the puts that waited were withdrawn by their alts", within(function()
      local held
      local ch, other = rn.chan(1, xforms.of(function(rf, acc, value)
        local before = held
        held = value
        return before and rf(acc, before) or acc
      end, function(rf, acc) return rf(rf(acc, held)) end)), rn.chan()
      ch:put "a"
      ch:put "b"
      local port
      rn.go(function() port = select(2, rn.alts { { ch, "c" }, other }) end)
      settle()
      ch:close()
      other:put "elsewhere"
      settle()
      assert.equal(other, port)
      assert.same({ "a", "b" }, drain(ch))
      assert.is_nil(ch:take())
    end))

    it("may flush more values than there is room for", within(function()
      local ch = rn.chan(1, xforms.of(pass, function(rf, acc)
        for i = 1, 100 do acc = rf(acc, i) end
        return rf(acc)
      end))
      ch:put "first"
      ch:close()
      assert.equal(101, #ch)
      assert.equal("first", (ch:take()))
      for i = 1, 100 do assert.equal(i, (ch:take())) end
      assert.is_nil((ch:take()))
    end))

    it("completes once, even when it is closed again by its completion", within(function()
      local ch, n = nil, 0
      ch = rn.chan(1, xforms.of(pass, function(rf, acc)
        n = n + 1
        ch:close()
        return rf(acc)
      end))
      ch:close()
      ch:close()
      assert.equal(1, n)
    end))

    it("may return anything from its completion, which is ignored", within(function()
      for _, result in ipairs { "text", 42, false, rn.reduced(1) } do
        local ch = rn.chan(1, xforms.of(pass, function() return result end))
        ch:close()
        assert.is_nil((ch:take()))
      end
    end))

    it("reports to on_error an error in its completion, and is closed", within(function()
      local ch = rn.chan(1, xforms.of(pass, function(rf, acc)
        rf(acc, "flushed")
        error("incomplete", 0)
      end))
      local taker = rn.go(function() return ch:take() end)
      settle()
      local reports = heard(function() ch:close() end)
      assert.equal(1, #reports)
      assert.equal("incomplete", reports[1].err)
      assert.matches("stack traceback:.*transducer_spec.lua", reports[1].trace)
      assert.equal("flushed", (taker:take()))
      assert.is_nil((ch:take()))
    end))

    it("gives the handler's value for an error in its completion", within(function()
      local ch = rn.chan(1, xforms.of(pass, function() error("incomplete", 0) end), function(err)
        return "handled " .. err
      end)
      ch:put(1)
      ch:close()
      assert.same({ 1, "handled incomplete" }, drain(ch))
      assert.is_true(ch:closed())
    end))
  end)

  describe("whose step raises", function()
    local function picky(v)
      if v == "bad" then error("I do not like it", 0) end
      return v
    end

    it("tells on_error once, with a traceback, and drops the value; the put is done", within(function()
      local ch = rn.chan(5, xforms.map(picky)):name "jobs"
      local reports = heard(function() assert.is_true(ch:put "bad") end)
      assert.equal(1, #reports)
      assert.equal("I do not like it", reports[1].err)
      assert.equal("chan: jobs", reports[1].where)
      assert.matches("stack traceback:.*transducer_spec.lua", reports[1].trace)
      assert.equal(0, #ch)
      assert.is_true(ch:put "good")
      assert.same({ "good" }, drain(ch))
    end))

    it("asks the handler, whose value goes into the buffer", within(function()
      local object, given = {}, nil
      local ch = rn.chan(5, xforms.map(function(v) if v == 2 then error(object) end return v end), function(...)
        given = table.pack(...)
        return "instead"
      end)
      for i = 1, 3 do ch:put(i) end
      assert.same({ 1, "instead", 3 }, drain(ch))
      assert.equal(1, given.n)
      assert.is_true(rawequal(object, given[1]))
    end))

    it("drops the value where the handler gives nil, and keeps false", within(function()
      local answer
      local ch = rn.chan(5, xforms.map(error), function() return answer end)
      assert.is_true(ch:put(1))
      assert.equal(0, #ch)
      answer = false
      ch:put(2)
      assert.is_false((ch:take()))
    end))

    it("serves a waiting take with what the handler gives", within(function()
      local ch = rn.chan(1, xforms.map(error), function(err) return "handled " .. err end)
      local taker = rn.go(function() return ch:take() end)
      settle()
      ch:put(1)
      assert.equal("handled 1", (taker:take()))
    end))

    it("keeps what it had passed on before", within(function()
      local ch = rn.chan(1, xforms.of(function(rf, acc, value)
        acc = rf(acc, value)
        acc = rf(acc, value)
        error("then", 0)
        return acc
      end), function(err) return err end)
      ch:put(1)
      assert.same({ 1, 1, "then" }, drain(ch))
    end))

    it("of a put that waited: what on_error's handler puts waits behind the others", within(function()
      local ch = rn.chan(1, xforms.map(function(v)
        if v == "bad" then error "no" end
        return v
      end))
      for _, v in ipairs { "first", "bad", "second", "third" } do rn.go(function() ch:put(v) end) end
      settle()
      local offered
      local previous = rn.on_error(function()
        offered = ch:offer "offered"
        ch:put_async "last"
      end)
      local taken = { ch:take() }
      rn.on_error(previous)
      assert.is_nil(offered)
      settle()
      for _ = 1, 3 do taken[#taken + 1] = ch:poll() end
      assert.same({ "first", "second", "third", "last" }, taken)
    end))

    it("reports to on_error an error in the handler, once", within(function()
      local ch = rn.chan(5, xforms.map(function() error("first", 0) end), function() error("second", 0) end)
      local reports = heard(function() assert.is_true(ch:put(1)) end)
      assert.equal(1, #reports)
      assert.equal("second", reports[1].err)
      assert.equal(0, #ch)
    end))

    it("on a waiting put: the put completes, and the take continues", within(function()
      local ch, done = rn.chan(1, xforms.map(picky)), nil
      ch:put "first"
      rn.go(function() done = ch:put "bad" end)
      settle()
      local reports = heard(function() assert.equal("first", (ch:take())) end)
      assert.equal(1, #reports)
      assert.is_true(done)
      assert.same({ 0, 0 }, { #ch, ch:stats().puts_waiting })
    end))

    it("any error value is passed on, nil among them", within(function()
      local ch = rn.chan(1, xforms.map(function() error(nil) end))
      local reports = heard(function() ch:put(1) end)
      assert.equal(1, #reports)
      assert.equal(stage.raised_nil, reports[1].err)
    end))
  end)

  describe("whose step", function()
    it("returns nothing gets an error", within(function()
      for _, returns in ipairs {
        { "nil", function() end }, { "number", function() return 42 end }, { "table", function() return {} end },
        { "boolean", function() return false end }, { "userdata", function() return rn.chan() end },
      } do
        local ch = rn.chan(1, xforms.of(returns[2]))
        local reports = heard(function() assert.is_true(ch:put(1)) end)
        assert.equal(1, #reports)
        local pattern = "the transducer's step function returned a %s, not its accumulator"
        assert.matches(pattern:format(returns[1]), reports[1].err)
        assert.equal(0, #ch)
        assert.is_false(ch:closed())
      end
    end))

    it("forgets to return keeps what it has passed on", within(function()
      local err
      local ch = rn.chan(1, xforms.of(function(rf, acc, value) rf(acc, value) end), function(e) err = e end)
      ch:put(1)
      assert.matches("not its accumulator: return rf%(acc, v%), or acc", err)
      assert.same({ 1 }, drain(ch))
    end))

    it("produces nil gets an error", within(function()
      local ch = rn.chan(1, xforms.map(function() return nil end))
      local reports = heard(function() assert.is_true(ch:put(1)) end)
      assert.equal(1, #reports)
      assert.matches("a transducer produced nil, which a channel cannot hold", reports[1].err)
      assert.matches("stack traceback", reports[1].trace)
      assert.equal(0, #ch)
    end))

    it("uses its own channel gets an error that says so", within(function()
      local operations = {
        function(ch) ch:put(1) end, function(ch) ch:offer(1) end,
        function(ch) ch:take() end, function(ch) ch:poll() end,
        function(ch) rn.alts { ch } end, function(ch) rn.alts { { ch, 1 } } end, function(ch) ch:put_async(1) end,
        function(ch) ch:take_async(print) end,
      }
      for _, make in ipairs { function() return 5 end, rn.dropping_buffer, rn.priority_buffer } do
        for _, operation in ipairs(operations) do
          local ch
          ch = rn.chan(make(5), xforms.map(function(v)
            if v == 2 then operation(ch) end
            return v
          end)):name "jobs"
          ch:put(1)
          local reports = heard(function() assert.is_true(ch:put(2)) end)
          assert.equal(1, #reports)
          assert.matches("chan: jobs: a transducer or buffer policy must not use the channel that it runs for",
            reports[1].err)
          stage.assert_no_waiters(ch)
          assert.same({ 1 }, drain(ch))
        end
      end
    end))

    it("uses its own channel while that is empty gets the same error", within(function()
      local operations = {
        function(ch) ch:take() end, function(ch) ch:poll() end, function(ch) rn.alts { ch } end,
        function(ch) rn.alts { rn.chan(), ch } end, function(ch) rn.alts({ ch }, { default = 0 }) end,
      }
      for _, operation in ipairs(operations) do
        local ch
        ch = rn.chan(1, xforms.map(function() operation(ch) end)):name "jobs"
        local reports = heard(function() assert.is_true(ch:put(1)) end)
        assert.equal(1, #reports)
        assert.matches("chan: jobs: a transducer or buffer policy must not use the channel that it runs for",
          reports[1].err)
        stage.assert_no_waiters(ch)
      end
    end))

    it("may look at its own channel", within(function()
      local ch, text
      ch = rn.chan(5, xforms.map(function(v)
        text = tostring(ch) .. " " .. #ch .. " " .. ch:stats().values .. " " .. tostring(ch:closed())
        return v
      end)):name "jobs"
      ch:put(1)
      ch:put(2)
      assert.equal("chan: jobs (1/5) 1 1 false", text)
    end))

    it("closes its own channel: the value goes through, and later puts are refused", within(function()
      local ch
      ch = rn.chan(5, xforms.comp(xforms.map(function(v)
        if v == 3 then
          ch:close "enough"
          assert.is_true(ch:closed())
        end
        return v
      end), xforms.partition(2)))
      for i = 1, 3 do assert.is_true(ch:put(i)) end
      assert.is_true(ch:closed())
      assert.is_false(ch:put(4))
      assert.same({ 1, 2 }, (ch:take()))
      assert.same({ 3 }, (ch:take())) -- by the completion
      assert.same({ nil, "enough", n = 2 }, stage.pack_take(ch))
    end))

    it("closes its own channel while puts and takes wait", within(function()
      local ch, done, got = nil, {}, {}
      ch = rn.chan(1, xforms.map(function(v)
        if v == 2 then ch:close() end
        return v
      end))
      for i = 1, 4 do rn.go(function() done[i] = ch:put(i) end) end
      settle()
      for i = 1, 6 do rn.go(function() got[i] = ch:take() or "closed" end) end
      settle()
      assert.same({ 1, 2, 3, 4, "closed", "closed" }, got)
      assert.same({ true, true, true, true }, done)
      stage.assert_no_waiters(ch)
    end))

    it("cannot park", within(function()
      local other, messages = rn.chan(), {}
      for _, park in ipairs {
        function() other:take() end, function() other:put(1) end, function() rn.alts { other } end,
        function() rn.sleep(1) end, function() rn.yield() end,
      } do
        local ch = rn.chan(5, xforms.map(park), function(err) messages[#messages + 1] = err end)
        ch:put(1)
      end
      assert.equal(5, #messages)
      for _, message in ipairs(messages) do
        assert.matches("would have to wait, which is impossible inside a transducer: use offer or poll", message)
      end
      stage.assert_no_waiters(other)
      -- Neither can the handler.
      local ch = rn.chan(5, xforms.map(error), function() other:take() end)
      local reports = heard(function() ch:put(1) end)
      assert.matches("which is impossible inside an exception handler", reports[1].err)
      stage.assert_no_waiters(other)
    end))

    it("may use other channels, and wake their takers", within(function()
      local log = rn.chan(100)
      local ch = rn.chan(5, xforms.map(function(v)
        log:put("saw " .. v)
        rn.go(function() log:put("later " .. v) end)
        return v
      end))
      ch:put(1)
      settle()
      assert.same({ "saw 1", "later 1" }, drain(log))
      local chained = rn.chan(5, xforms.map(function(v) ch:put(v) return v end))
      chained:put(2)
      assert.same({ 1, 2 }, drain(ch))
    end))

    it("yields in a coroutine of the caller's own fails like any error", within(function()
      local ch = rn.chan(5, xforms.map(function(v) return coroutine.yield(v) end))
      local reports = heard(function()
        local co = coroutine.wrap(function() return ch:put(1) end)
        assert.is_true(co())
      end)
      assert.equal(1, #reports)
      assert.matches("attempt to yield across a C%-call boundary", reports[1].err)
    end))
  end)

  it("is made by an error-free transducer only", within(function()
    local ok, err = pcall(rn.chan, 1, function() error("no transducer", 0) end)
    assert.is_false(ok)
    assert.equal("no transducer", err)
    raises("^chan: the transducer returned a nil instead of a reducing function", function()
      rn.chan(1, function() end)
    end)
    raises("^chan: the transducer returned a number instead", function() rn.chan(1, function() return 42 end) end)
  end))

  it("has a reducing function that works only within a put", within(function()
    local kept
    local ch = rn.chan(5, function(rf)
      kept = rf
      return rf
    end)
    raises("^the reducing function of a channel works only within a put on it", function() kept(nil, 1) end)
    ch:put(1)
    raises("^the reducing function of a channel works only within a put on it", function() kept(kept(), 2) end)
    assert.equal(1, #ch)
    rn.chan(5, function(rf)
      raises("^the reducing function of a channel works only", function() rf(rf(), 1) end)
      return rf
    end)
  end))

  it("keeps its transducer's values from the collector", within(function()
    local ch = rn.chan(3, xforms.times(20))
    for i = 1, 5 do ch:put_async { i } end
    for _ = 1, 4 do collectgarbage() end
    for i = 1, 5 do
      for _ = 1, 20 do assert.same({ i }, (ch:take())) end
    end
  end))

  it("is collected when it is unreachable, though its transducer refers to it", within(function()
    local objects = setmetatable({}, { __mode = "k" })
    do
      local ch
      ch = rn.chan(3, xforms.map(function(v) return ch and v end), function() return ch end)
      ch:put(1)
      objects[ch] = true
    end
    for _ = 1, 4 do collectgarbage() end
    assert.is_nil(next(objects))
  end))

  it("puts what the handler of its error puts behind what is being admitted", within(function()
    local ch
    ch = rn.chan(1, xforms.map(function(v) return v ~= "bad" and v or error "bad" end))
    local accepted
    local before = rn.on_error(function() ch:put_async("from the handler", function(ok) accepted = ok end) end)
    ch:put_async "good"
    ch:put_async "bad"
    assert.equal("good", ch:take())
    assert.equal("from the handler", ch:take())
    settle()
    rn.on_error(before)
    assert.is_true(accepted)
  end))
end)
