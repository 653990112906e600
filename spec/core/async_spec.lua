local rn = require "runnel"
local finalizers = require "spec.support.finalizers"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle

-- A callback that keeps what it is called with: calls[i] is a packed list of arguments.
local function recorder()
  local calls = {}
  return function(...) calls[#calls + 1] = table.pack(...) end, calls
end

describe("take_async", function()
  it("calls back at once, on the caller, when there is a value", within(function()
    local f, calls = recorder()
    local ch = rn.chan(1)
    ch:put "buffered"
    assert.same({ n = 0 }, table.pack(ch:take_async(f)))
    assert.same({ { "buffered", n = 1 } }, calls)
    rn.go(function() ch:put "a" end)
    settle()
    local plain = rn.chan()
    local putter = rn.go(function() return plain:put "waiting" end)
    settle()
    plain:take_async(f)
    assert.same({ "waiting", n = 1 }, calls[2])
    assert.is_true(putter:take())
    assert.equal("a", ch:take())
  end))

  it("calls back later when it has to wait", within(function()
    local f, calls = recorder()
    local ch = rn.chan()
    ch:take_async(f)
    assert.equal(1, ch:stats().takes_waiting)
    assert.is_true(ch:put "value")
    assert.equal(0, #calls) -- ready, but not on the stack of the one who puts
    settle()
    assert.same({ { "value", n = 1 } }, calls)
    stage.assert_no_waiters(ch)
  end))

  it("calls back later, never on the caller, with on_caller false", within(function()
    local f, calls = recorder()
    local ch = rn.chan(2)
    ch:put(1)
    ch:put(2)
    ch:take_async(f, false)
    ch:take_async(f, nil) -- the default
    assert.same({ { 2, n = 1 } }, calls)
    assert.equal(0, #ch)
    settle()
    assert.same({ { 2, n = 1 }, { 1, n = 1 } }, calls)
  end))

  it("gets nil, and the reason, of a closed channel", within(function()
    for _, on_caller in ipairs { true, false } do
      local f, calls = recorder()
      local ch, other = rn.chan(), rn.chan()
      ch:take_async(f, on_caller) -- waits
      ch:close()
      ch:take_async(f, on_caller) -- at once
      other:take_async(f, on_caller)
      other:close "why"
      other:take_async(f, on_caller)
      settle()
      table.sort(calls, function(a, b) return a.n < b.n end)
      assert.same({ { nil, n = 1 }, { nil, n = 1 }, { nil, "why", n = 2 }, { nil, "why", n = 2 } }, calls)
    end
  end))

  it("waits its turn among other takes", within(function()
    local ch, order = rn.chan(), {}
    for i = 1, 30 do
      local function got(value) order[#order + 1] = { i, value } end
      if i % 3 == 0 then
        ch:take_async(got)
      elseif i % 3 == 1 then
        rn.go(function() got((ch:take())) end)
      else
        rn.go(function() got((rn.alts { rn.chan(), ch })) end)
      end
      settle()
    end
    for i = 1, 30 do assert.is_true(ch:offer(i)) end
    settle()
    for i = 1, 30 do assert.same({ i, i }, order[i]) end
  end))

  it("takes a callable object", within(function()
    local got
    local object = setmetatable({}, { __call = function(self, value) got = { self, value } end })
    local ch = rn.chan()
    ch:take_async(object)
    ch:put(1)
    settle()
    assert.is_true(rawequal(object, got[1]))
    assert.equal(1, got[2])
  end))

  it("may take again in its callback, ten thousand times over", within(function()
    local ch, n = rn.chan(), 0
    local function again(value)
      if value == nil then return end
      n = n + 1
      ch:take_async(again)
    end
    ch:take_async(again)
    for i = 1, 10000 do ch:put(i) end
    settle()
    assert.equal(10000, n)
    ch:close()
  end))

  it("may take again in its callback, on the caller, however much is buffered", within(function()
    local ch, got = rn.chan(5000), 0
    for n = 1, 5000 do ch:put(n) end
    ch:close()
    local function again(value)
      if value == nil then return end
      got = got + 1
      assert.equal(got, value)
      ch:take_async(again)
    end
    ch:take_async(again)
    assert.is_true(got >= 1)
    settle()
    assert.equal(5000, got)
  end))
end)

describe("put_async", function()
  it("puts at once, and calls back on the caller", within(function()
    local f, calls = recorder()
    local ch = rn.chan(1)
    assert.same({ true, n = 1 }, table.pack(ch:put_async("value", f)))
    assert.same({ { true, n = 1 } }, calls)
    assert.equal("value", ch:take())
    local taker = rn.go(function() return ch:take() end)
    settle()
    assert.is_true(ch:put_async("handed", f))
    assert.same({ { true, n = 1 }, { true, n = 1 } }, calls)
    assert.equal("handed", taker:take())
  end))

  it("is true at once where the put has to wait, and calls back once it is done", within(function()
    local f, calls = recorder()
    local ch = rn.chan()
    assert.is_true(ch:put_async("value", f))
    settle()
    assert.equal(0, #calls)
    assert.equal(1, ch:stats().puts_waiting)
    assert.equal("value", ch:take())
    assert.equal(0, #calls)
    settle()
    assert.same({ { true, n = 1 } }, calls)
  end))

  it("calls back later, never on the caller, with on_caller false", within(function()
    local f, calls = recorder()
    local ch = rn.chan(1)
    assert.is_true(ch:put_async(1, f, false))
    assert.equal(1, #ch)
    assert.equal(0, #calls)
    settle()
    assert.same({ { true, n = 1 } }, calls)
    ch:close()
    assert.is_false(ch:put_async(2, f, false))
    assert.equal(1, #calls)
    settle()
    assert.same({ { true, n = 1 }, { false, n = 1 } }, calls)
  end))

  it("is false on a closed channel, and calls back with false", within(function()
    local f, calls = recorder()
    local ch = rn.chan(1)
    ch:close "why"
    assert.same({ false, n = 1 }, table.pack(ch:put_async(1, f)))
    assert.same({ { false, n = 1 } }, calls)
    assert.is_false(ch:put_async(1))
  end))

  it("needs no callback", within(function()
    local ch = rn.chan()
    assert.is_true(ch:put_async(1))
    assert.is_true(ch:put_async(2, nil))
    assert.is_true(ch:put_async(3, nil, false))
    assert.is_true(ch:put_async(false, nil, true))
    for i = 1, 3 do assert.equal(i, (ch:take())) end
    assert.is_false((ch:take()))
    stage.assert_no_waiters(ch)
  end))

  it("completes true after the channel has closed", within(function()
    local f, calls = recorder()
    local ch = rn.chan()
    ch:put_async("value", f)
    ch:close()
    settle()
    assert.equal(0, #calls)
    assert.equal("value", ch:take())
    settle()
    assert.same({ { true, n = 1 } }, calls)
    assert.is_nil((ch:take()))
  end))

  it("keeps the order of the values of all putters", within(function()
    local ch = rn.chan(3)
    for i = 1, 60 do
      if i % 2 == 0 then ch:put_async(i, print ~= nil and function() end) else rn.go(function() ch:put(i) end) end
      settle()
    end
    for i = 1, 60 do assert.equal(i, (ch:take())) end
  end))

  it("may put again in its callback", within(function()
    local ch, n = rn.chan(), 0
    local function again(ok)
      if not ok then return end
      n = n + 1
      ch:put_async(n, again)
    end
    ch:put_async(0, again)
    -- And on the caller, as long as there is room.
    local roomy, m = rn.chan(5000), 0
    local function fill()
      m = m + 1
      if m <= 5000 then roomy:put_async(m, fill) end
    end
    fill()
    settle()
    assert.equal(5000, #roomy)
    for i = 0, 5000 do assert.equal(i, (ch:take())) settle() end
    assert.equal(5001, n)
    ch:close()
    assert.equal(5001, (ch:take()))
    settle()
    assert.is_nil((ch:take()))
  end))
end)

describe("callbacks", function()
  local function heard(f) return stage.reports(function() f() settle() end) end

  it("that raise on the caller reach on_error once, and the caller continues", within(function()
    local ch = rn.chan(1):name "jobs"
    local went_on
    local function broken() error("broken", 0) end
    local reports = heard(function()
      assert.is_true(ch:put_async(1, broken))
      went_on = true
    end)
    assert.is_true(went_on)
    assert.equal(1, #reports)
    assert.equal("broken", reports[1].err)
    assert.equal("chan: jobs", reports[1].where)
    assert.matches("stack traceback:.*'error'.*async_spec.lua", reports[1].trace)
    assert.equal(1, #ch)
    reports = heard(function() ch:take_async(broken) end)
    assert.equal(1, #reports)
    assert.equal(0, #ch)
  end))

  it("that raise later reach on_error once, with a traceback", within(function()
    local ch = rn.chan()
    local object = {}
    local reports = heard(function()
      ch:take_async(function(value) error(value) end)
      ch:put(object)
      ch:put_async(1, function() error "after the put" end)
      ch:take()
    end)
    assert.equal(2, #reports)
    assert.is_true(rawequal(object, reports[1].err))
    assert.matches("async_spec.lua:%d+: after the put", reports[2].err)
    for _, report in ipairs(reports) do
      assert.matches("stack traceback:.*async_spec.lua", report.trace)
      assert.matches("async_spec.lua:%d+", report.where)
    end
    stage.assert_no_waiters(ch)
  end))

  it("that raise have a traceback with names of any length, cut", within(function()
    local name = ("n"):rep(100000)
    local f = load(("local %s = ...; %s()"):format(name, name), "=(a chunk)")
    local reports = heard(function()
      rn.chan(1):put_async(1, function() f(function() error "oh no" end) end)
    end)
    assert.matches("in local 'n+'\n\t%(a chunk%):1: in ", reports[1].trace)
    assert.is_true(#reports[1].trace < 3000)
  end))

  it("that overflow the stack have a traceback, too #ci", within(function()
    local function endless() return 1 + endless() end
    collectgarbage "stop" -- Lua 5.4.9 keeps no traceback if a finalizer runs meanwhile
    local reports = heard(function() rn.chan(1):put_async(1, endless) end)
    collectgarbage "restart"
    assert.matches("stack overflow", reports[1].err)
    assert.matches("^stack traceback:.*'endless'.*skipping.*put_async", reports[1].trace)
  end))

  it("that raise do not harm others", within(function()
    local ch, f, calls = rn.chan(), recorder()
    local reports = heard(function()
      for i = 1, 10 do ch:take_async(i % 2 == 0 and f or error) end
      for i = 1, 10 do ch:put("value " .. i) end
    end)
    assert.equal(5, #reports)
    assert.equal(5, #calls)
    for i = 1, 5 do assert.equal("value " .. 2 * i, calls[i][1]) end
  end))

  it("cannot park on the caller, outside and inside go blocks", function()
    local function tries(list, ch)
      return function()
        for _, f in ipairs {
          function() ch:take() end, function() rn.chan():put(1) end, function() rn.alts { ch, rn.chan() } end,
          function() rn.sleep(1) end, function() rn.yield() end,
          function() rn.alt { { ch, print } } end,
        } do
          list[#list + 1] = raises("would have to wait, which is impossible inside a callback: use offer or poll", f)
        end
        list[#list + 1] = raises("^run: cannot be called inside a", function() rn.run() end)
        list[#list + 1] = raises("^step: cannot be called inside a", function() rn.step() end)
      end
    end
    local ready, never, list = rn.chan(10), rn.chan(), {}
    ready:put_async(1, tries(list, never))
    stage.run(function()
      ready:take_async(tries(list, never))
      ready:put_async(1, tries(list, never), false)
      settle()
      local pending = rn.chan()
      pending:take_async(tries(list, never))
      pending:put(1)
      settle()
    end)
    assert.equal(4 * 8, #list)
    stage.assert_no_waiters(never)
  end)

  it("may do all that need not wait", within(function()
    local ch, log = rn.chan(5), {}
    ch:put_async(1, function()
      assert.is_true(ch:put(2))
      assert.equal(1, (ch:take()))
      assert.equal(2, (rn.alts { ch, rn.chan() }))
      assert.is_nil(ch:poll())
      assert.is_true(ch:offer(3))
      rn.go(function() log[1] = ch:take() end)
      rn.timeout(5):take_async(function() log[2] = "timed" end)
      ch:put_async(4, function() log[3] = "nested" end)
    end)
    rn.sleep(10)
    assert.same({ 3, "timed", "nested" }, log)
    assert.equal(4, (ch:poll()))
  end))

  it("may close their own channel", within(function()
    local ch, f, calls = rn.chan(), recorder()
    ch:take_async(function() ch:close "enough" end)
    for _ = 1, 3 do ch:take_async(f) end
    assert.is_true(ch:put(1))
    settle()
    assert.same({ { nil, "enough", n = 2 }, { nil, "enough", n = 2 }, { nil, "enough", n = 2 } }, calls)
    assert.is_false(ch:put(2))
  end))

  it("are called once, and one value each, whatever the schedule", function()
    require("runnel.sim").each_seed(30, function(seed)
      local ch, got, sent, done = rn.chan(seed % 3), {}, 0, 0
      for i = 1, 100 do
        local on_caller = (i + seed) % 3 ~= 0
        if i % 2 == 0 then
          ch:take_async(function(value) got[value] = (got[value] or 0) + 1 end, on_caller)
        else
          sent = sent + 1
          ch:put_async(sent, function(ok)
            assert(ok)
            done = done + 1
          end, on_caller)
        end
        if i % 10 == 0 then rn.yield() end
      end
      rn.sleep(1)
      for i = 1, sent do assert.equal(1, got[i]) end
      assert.equal(sent, done)
    end)
  end)

  it("called from outside run when the scheduler runs", function()
    local ch, f, calls = rn.chan(), recorder()
    ch:take_async(f)
    ch:put_async(1, f)
    assert.equal(1, #calls)
    assert.same({ true, n = 1 }, calls[1])
    rn.run()
    assert.same({ 1, n = 1 }, calls[2])
  end)

  it("that can never be called are collected", within(function()
    local objects = setmetatable({}, { __mode = "k" })
    for _ = 1, 100 do
      local ch, object = rn.chan(), {}
      objects[object] = true
      ch:take_async(function() return object end)
      ch = rn.chan()
      ch:put_async(object, function() return object end)
    end
    for _ = 1, 4 do collectgarbage() end
    assert.is_nil(next(objects))
  end))

  it("that wait are kept while their channel is reachable", within(function()
    local ch, f, calls = rn.chan(), recorder()
    for _ = 1, 20 do ch:take_async(f) end
    for _ = 1, 4 do collectgarbage() end
    for i = 1, 20 do ch:put { i } end
    settle()
    for i = 1, 20 do assert.same({ i }, calls[i][1]) end
  end))

  it("run amid finalizers that use their channel", within(function()
    local ch, n, sent = rn.chan(3), 0, 0
    finalizers.among(function() if ch:offer "f" then sent = sent + 1 end end, function()
      for _ = 1, 300 do ch:take_async(function(value) if value == "f" then n = n + 1 end end) end
    end)
    while ch:stats().takes_waiting > 0 do ch:put "end" end
    settle()
    ch:close()
    for value in ch do if value == "f" then n = n + 1 end end
    assert.equal(sent, n)
  end))
end)
