-- Shared channels within one state. tests/shared/shared_lua.c has states in threads of their own.
local rn = require "runnel"
local core = require "runnel.core"
local policy = require "spec.support.policy"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle

local function collect()
  for _ = 1, 4 do collectgarbage() end
end

describe("a shared channel", function()
  it("hands values over, in order, and then why it was closed", within(function()
    local ch = rn.shared_chan()
    rn.go(function()
      for i = 1, 3 do assert.is_true(ch:put(i)) end
      ch:close "over"
      assert.is_false(ch:put(4))
    end)
    local got = {}
    for v in ch do got[#got + 1] = v end
    assert.same({ 1, 2, 3 }, got)
    assert.same({ nil, "over" }, { ch:take() })
    assert.is_true(ch:closed())
    assert.is_true(rn.is_chan(ch))
  end))

  it("copies values", within(function()
    local ch, other = rn.shared_chan(1), rn.shared_chan()
    local values = { true, false, 0, -1, math.mininteger, 1.5, math.huge, "", "short", ("long"):rep(100), "\0\xff" }
    for _, v in ipairs(values) do
      ch:put(v)
      local got = ch:take()
      assert.equal(v, got)
      assert.equal(math.type(v), math.type(got))
    end
    local sent = { 1, 2, { deep = { "list" } }, key = "value", [1.5] = false, ch = other }
    ch:put(sent)
    local got = ch:take()
    assert.same({ 1, 2, { deep = { "list" } } }, { table.unpack(got) })
    assert.equal("value", got.key)
    assert.is_false(got[1.5])
    assert.is_true(got.ch == other)
    assert.is_false(got == sent)
    ch:put(other)
    assert.is_true(ch:take() == other)
  end))

  it("refuses what cannot be copied, at the caller's line, with its path; nothing has happened then", within(function()
    local ch, loop = rn.shared_chan(1), {}
    loop.inner = { loop }
    for pattern, value in pairs {
      ["^put: value: a function cannot be sent$"] = print,
      ["^put: value.list%[2%].f: a function cannot be sent$"] = { list = { 1, { f = print } } },
      ["^put: value.of: a table with a metatable cannot be sent$"] = { of = setmetatable({}, {}) },
      ["^put: value%[table%]: only booleans, numbers and strings can be sent as keys$"] = { [{}] = 1 },
      ["^put: value: a coroutine cannot be sent$"] = coroutine.create(print),
      ["^put: value: a userdata cannot be sent$"] = io.stdout,
      ["^put: value.ch: only a channel that rn.shared_chan has made can be sent$"] = { ch = rn.chan() },
      ["^put: value.*: a table that contains itself cannot be sent$"] = loop,
    } do
      raises(pattern, function() ch:put(value) end)
      raises(pattern, function() rn.alts { { ch, value } } end)
      raises(pattern, function() ch:offer(value) end)
    end
    raises("put: nil cannot be put", function() ch:put(nil) end)
    assert.equal(0, #ch)
    assert.equal(0, ch:stats().put_total)
  end))

  it("closes with the text of an error that cannot be copied", within(function()
    local ch = rn.shared_chan()
    ch:close(setmetatable({}, { __tostring = function() return "an object" end }))
    assert.same({ nil, "an object" }, { ch:take() })
    local table_reason = rn.shared_chan()
    table_reason:close { code = 7 }
    assert.same({ nil, { code = 7 } }, { table_reason:take() })
  end))

  it("has a fixed, dropping or sliding buffer, or is a promise", within(function()
    local function fill(ch)
      local accepted = {}
      for i = 1, 3 do accepted[i] = ch:offer(i) == true end
      local got = {}
      for i = 1, 3 do got[i] = ch:poll() or false end
      return accepted, got
    end
    assert.same({ { false, false, false }, { false, false, false } }, { fill(rn.shared_chan()) })
    assert.same({ { true, true, false }, { 1, 2, false } }, { fill(rn.shared_chan(2)) })
    assert.same({ { true, true, true }, { 1, 2, false } }, { fill(rn.shared_chan(rn.dropping_buffer(2))) })
    assert.same({ { true, true, true }, { 2, 3, false } }, { fill(rn.shared_chan(rn.sliding_buffer(2))) })
    assert.same({ { true, true, true }, { 1, 1, 1 } }, { fill(rn.shared_chan "promise") })
  end))

  it("has no transducer and no policy", within(function()
    raises("^shared_chan: a shared channel has no transducer", function() rn.shared_chan(1, rn.xf.map(print)) end)
    raises("^shared_chan: a buffer policy written in Lua belongs to one state",
      function() rn.shared_chan(rn.priority_buffer(3)) end)
    raises("^shared_chan: a buffer size is an integer of 0 or more, got %-1", function() rn.shared_chan(-1) end)
    raises("^shared_chan: a buffer size, a buffer", function() rn.shared_chan "other" end)
  end))

  it("has a name and statistics", within(function()
    local ch = rn.shared_chan(3):name "jobs"
    assert.equal("jobs", ch:name())
    ch:put(1)
    local stats = ch:stats()
    assert.same({ "jobs", "fixed", 1, 3, 1, 0, false },
      { stats.name, stats.buffer, stats.values, stats.capacity, stats.put_total, stats.take_total, stats.closed })
    assert.equal(1, #ch)
    assert.equal("chan: jobs (1/3)", tostring(ch))
    ch:close()
    assert.equal("chan: jobs (1/3, closed)", tostring(ch))
  end))

  it("keeps waiting operations in order, and completes waiting puts after the close", within(function()
    local ch, done = rn.shared_chan(1), {}
    for i = 1, 4 do rn.go(function() done[i] = ch:put(i) end) end
    settle()
    assert.equal(3, ch:stats().puts_waiting)
    ch:close()
    assert.same({ true }, done)
    for i = 1, 4 do assert.equal(i, ch:take()) end
    assert.is_nil(ch:take())
    settle()
    assert.same({ true, true, true, true }, done)
    stage.assert_no_waiters(ch)
  end))

  it("takes and puts with callbacks", within(function()
    local ch, got, done = rn.shared_chan(), nil, nil
    ch:take_async(function(v) got = v end)
    assert.is_true(ch:offer { 1 })
    settle()
    assert.same({ 1 }, got)
    assert.is_true(ch:put_async("later", function(ok) done = ok end))
    assert.equal("later", ch:poll())
    settle()
    assert.is_true(done)
    ch:take_async(function(v, err) got = { v, err } end)
    ch:close "why"
    settle()
    assert.same({ nil, "why" }, got)
    assert.is_false(ch:put_async(1))
  end))

  it("refuses more than 1024 waiting puts or takes", within(function()
    local ch = rn.shared_chan()
    for i = 1, 1024 do ch:put_async(i) end
    raises("1024 puts wait, which is the limit", function() ch:put(0) end)
    raises("1024 puts wait, which is the limit", function() ch:put_async(0) end)
    raises("1024 puts wait, which is the limit", function() rn.alts { { ch, 0 }, rn.chan() } end)
    for i = 1, 1024 do assert.equal(i, ch:take()) end
    stage.assert_no_waiters(ch)
  end))

  it("closes its done() channel, and calls the functions for its close", within(function()
    local ch, called = rn.shared_chan(1), 0
    ch:put(1)
    core.internal.on_close(ch, function() called = called + 1 end)
    local done = ch:done()
    assert.is_true(done == ch:done())
    local waits = rn.go(function() return done:take() == nil end)
    settle()
    assert.is_false(done:closed())
    ch:close()
    ch:close()
    assert.is_true(waits:take())
    assert.equal(1, called)
    assert.is_true(ch:done():closed())
    local late = rn.shared_chan()
    late:close()
    assert.is_true(late:done():closed())
  end))

  it("may be the end of a chain of any length, each in the buffer of the next, or why that was closed", function()
    local dir <close> = process.directory()
    dir:write("chain.lua", [[
      local rn = require "runnel"
      local first = rn.shared_chan(1)
      for i = 1, 100000 do
        local next = rn.shared_chan(1)
        if i % 3 == 0 then next:put(first) elseif i % 3 == 1 then next:put { first } else next:close(first) end
        first = next
        if i % 1000 == 0 then collectgarbage() end
      end
      first = nil
      collectgarbage()
      print "freed"
    ]])
    local done = process.run(dir.path, process.runnel .. " chain.lua")
    assert.same({ out = "freed\n", err = "", status = 0 }, done)
  end)

  it("is closed at the end of the scope of its variable", within(function()
    local outer
    do
      local ch <close> = rn.shared_chan()
      outer = ch
    end
    assert.is_true(outer:closed())
  end))
end)

describe("alts over shared and local channels", function()
  it("does one of them", within(function()
    local a, b, c = rn.shared_chan(1), rn.chan(1), rn.shared_chan()
    a:put "a"
    b:put "b"
    local seen = {}
    for _ = 1, 2 do
      local v, ch = rn.alts { a, b, c }
      seen[v] = ch
    end
    assert.same({ a = a, b = b }, seen)
    assert.same({ "nothing", "default" }, { rn.alts({ a, b, c }, { default = "nothing" }) })
    local ok, ch = rn.alts { c, { a, "put" } }
    assert.is_true(ok and ch == a)
  end))

  -- The numbers are those of a seed, so this does not fail for bad luck; 99.9 percent of fair choices have less.
  it("chooses each that is ready equally often, and independently of what it chose before", within(function()
    require "runnel.core".internal.seed(11)
    local function chi_square(counts, n)
      local expected, sum = n / #counts, 0
      for i = 1, #counts do sum = sum + (counts[i] - expected) ^ 2 / expected end
      return sum
    end

    local index, ops, counts, pairs_of, last = {}, {}, {}, {}, 1
    for i = 1, 7 do
      local ch = i % 2 == 0 and rn.shared_chan "promise" or rn.promise_chan()
      ch:put(i)
      index[ch], counts[i] = i, 0
      ops[#ops + 1] = i % 3 == 0 and { ch, "again" } or ch
      for j = 1, i do ops[#ops + 1] = j % 2 == 0 and rn.chan() or rn.shared_chan() end -- not ready
    end
    for i = 1, 4 do pairs_of[i] = 0 end
    for _ = 1, 14000 do
      local i = index[select(2, rn.alts(ops))]
      counts[i] = counts[i] + 1
      if i <= 2 then -- a local channel and a shared one
        local pair = 2 * last + i - 2
        pairs_of[pair] = pairs_of[pair] + 1
        last = i
      end
    end
    assert.is_true(chi_square(counts, 14000) < 22.46)
    assert.is_true(chi_square(pairs_of, pairs_of[1] + pairs_of[2] + pairs_of[3] + pairs_of[4]) < 16.27)
  end))

  it("does the first with priority, also if that became ready while a later one was looked at", within(function()
    local first = rn.shared_chan(1)
    local later = rn.chan {
      full = function() return false end,
      add = function() end,
      remove = function() return "second" end,
      count = function()
        first:offer "first" -- as another thread might
        return 1
      end,
    }
    assert.equal("first", (rn.alts({ first, later }, { priority = true })))
  end))

  it("tries them in order with priority", within(function()
    local a, b = rn.shared_chan(1), rn.chan(1)
    for _ = 1, 20 do
      a:offer(1)
      b:offer(1)
      assert.is_true(select(2, rn.alts({ a, b }, { priority = true })) == a)
      a:offer(1)
      assert.is_true(select(2, rn.alts({ b, a }, { priority = true })) == b)
    end
  end))

  for what, first in pairs { shared = 1, ["local"] = 2 } do
    it("that waits is woken by the " .. what .. " one, and leaves the other", within(function()
      local chs = { rn.shared_chan(), rn.chan() }
      local waits = rn.go(function()
        local v, ch = rn.alts(chs)
        return { v, ch == chs[first] }
      end)
      settle()
      assert.equal(1, chs[1]:stats().takes_waiting)
      assert.is_true(chs[first]:offer "value")
      assert.is_nil(chs[3 - first]:offer "too late")
      assert.same({ "value", true }, waits:take())
      stage.assert_no_waiters(chs[1])
      stage.assert_no_waiters(chs[2])
    end))
  end

  it("that waits is ended by a timeout, and leaves the shared channel", within(function()
    local ch = rn.shared_chan()
    local waits = rn.go(function()
      local timeout = rn.timeout(5)
      return select(2, rn.alts { ch, timeout }) == timeout
    end)
    assert.is_true(waits:take())
    assert.is_nil(ch:offer(1))
    stage.assert_no_waiters(ch)
  end))

  it("with priority wait for their operations in the order given", within(function()
    local ch = rn.shared_chan()
    for _ = 1, 20 do
      rn.go(function() rn.alts({ { ch, "first" }, { ch, "second" } }, { priority = true }) end)
      rn.yield()
      assert.equal("first", ch:take())
    end
  end))

  it("does not meet itself", within(function()
    local ch = rn.shared_chan()
    local waits = rn.go(function() return (rn.alts { ch, { ch, "mine" } }) end)
    settle()
    assert.equal("mine", ch:poll())
    assert.is_true(waits:take())
  end))

  it("gets the reason of a close behind the channel", within(function()
    local ch, other = rn.shared_chan(), rn.chan()
    local waits = rn.go(function() return table.pack(rn.alts { other, ch }) end)
    settle()
    ch:close { "why" }
    assert.same({ n = 3, nil, ch, { "why" } }, waits:take())
    assert.same({ n = 3, nil, ch, { "why" } }, table.pack(rn.alts { other, ch }))
  end))

  it("works with a hundred of them", within(function()
    local chs = {}
    for i = 1, 100 do chs[i] = i % 2 == 0 and rn.chan() or rn.shared_chan() end
    for _, i in ipairs { 1, 2, 99, 100 } do
      local waits = rn.go(function()
        local v, ch = rn.alts(chs)
        return v == i and ch == chs[i]
      end)
      settle()
      assert.is_true(chs[i]:offer(i))
      assert.is_true(waits:take())
    end
    for _, ch in ipairs(chs) do stage.assert_no_waiters(ch) end
  end))
end)

describe("a go block that waits on a shared channel", function()
  it("can be cancelled, and leaves it", within(function()
    local ch = rn.shared_chan()
    local waits = rn.go(function() ch:take() end)
    settle()
    assert.is_true(rn.cancel(waits, "enough"))
    assert.same({ nil, "enough" }, { waits:take() })
    assert.is_nil(ch:offer(1))
    stage.assert_no_waiters(ch)
  end))

  it("has its result when it is cancelled afterwards", within(function()
    local ch, got = rn.shared_chan(), nil
    local waits = rn.go(function()
      got = ch:take()
      ch:take()
    end)
    settle()
    assert.is_true(ch:offer "value")
    assert.is_true(rn.cancel(waits, "enough"))
    assert.same({ nil, "enough" }, { waits:take() })
    assert.equal("value", got)
  end))

  it("is collected once nobody can reach the channel", within(function()
    local weak = setmetatable({}, { __mode = "k" })
    local function start(park)
      local token = {}
      weak[token] = true
      rn.go(function()
        park()
        return token
      end)
    end
    start(function() rn.shared_chan():take() end)
    start(function() rn.shared_chan():put { 1 } end)
    start(function() rn.alts { rn.shared_chan(), rn.chan(), { rn.shared_chan(2), 1 } } end)
    start(function() rn.shared_chan():done():take() end)
    rn.yield()
    assert.is_truthy(next(weak))
    collect()
    assert.is_nil(next(weak))
    assert.same({}, stage.others())
  end))

  it("that was handed to its channel by the collector still wakes", within(function()
    local ch, other = rn.shared_chan(), rn.chan()
    local waits = rn.go(function() return (rn.alts { ch, other }) end)
    rn.yield()
    collect()
    assert.is_true(ch:offer { "value" })
    assert.same({ "value" }, waits:take())
  end))

  it("that nobody can wake is a deadlock", function()
    local ch = rn.shared_chan():name "lonely"
    raises("^deadlock: take on chan: lonely would wait for ever", function() ch:take() end)
    raises("^deadlock: alts on chan: lonely, chan: #%d+ would wait for ever", function() rn.alts { ch, rn.chan() } end)
    stage.assert_no_waiters(ch)
  end)

  it("is listed by ps, with its channel", within(function()
    local ch = rn.shared_chan():name "jobs"
    rn.go(function() ch:take() end)
    settle()
    local found
    for _, entry in ipairs(rn.ps()) do
      if entry.channel == ch then found = entry end
    end
    assert.same({ "parked", "take" }, { found.state, found.operation })
    ch:close()
    settle()
  end))
end)

describe("a shared channel and those that wait", function()
  it("gives a promise's value to all of them", within(function()
    local ch, got = rn.shared_chan "promise", {}
    for i = 1, 3 do rn.go(function() got[i] = ch:take() end) end
    settle()
    ch:put "kept"
    settle()
    assert.same({ "kept", "kept", "kept" }, got)
  end))

  it("keeps a value for the next take, when the go block that was to get it has been closed", within(function()
    local ch, co = rn.shared_chan(), nil
    rn.go(function()
      co = coroutine.running()
      ch:take()
    end)
    settle()
    coroutine.close(co)
    local put
    rn.go(function() put = ch:put(1) end)
    settle()
    assert.equal(1, ch:take())
    settle()
    assert.is_true(put)
  end))

  it("lets the library wait beside 1024 others", within(function()
    local ch = rn.shared_chan()
    for _ = 1, 1023 do ch:take_async(function() end) end
    rn.pipe(ch, rn.chan(1))
    settle()
    local more = rn.go(function() return ch:take() end)
    settle()
    assert.equal(1025, ch:stats().takes_waiting)
    ch:close()
    assert.is_nil(more:take())
  end))
end)

describe("the library on shared channels", function()
  it("pipes, maps and merges", within(function()
    local from, to = rn.shared_chan(), rn.shared_chan(2)
    rn.onto_chan(from, { 1, 2, 3, 4 })
    rn.pipeline(2, to, rn.xf.map(function(v) return v * v end), from)
    assert.same({ 1, 4, 9, 16 }, rn.into({}, to):take())
    local a, b = rn.shared_chan(), rn.chan()
    rn.onto_chan(a, { 1, 2 })
    rn.onto_chan(b, { 3 })
    local all = rn.into({}, rn.merge { a, b }):take()
    table.sort(all)
    assert.same({ 1, 2, 3 }, all)
    local source, sink = rn.shared_chan(), rn.shared_chan(10)
    rn.tap(rn.mult(source), sink)
    rn.onto_chan(source, { "x", "y" })
    assert.same({ "x", "y" }, rn.into({}, sink):take())
    local results = rn.pmap(2, function(v) return v + 1 end, rn.to_chan { 1, 2, 3 })
    assert.same({ 2, 3, 4 }, rn.into({}, results):take())
  end))

  it("gives up a put when the channel closes, where a local one does", within(function()
    local to = rn.shared_chan()
    local result = rn.go(function() return core.internal.moving.put_while_open(to, "value") end)
    local stays = rn.go(function() return to:put "other" end)
    settle()
    assert.equal(2, to:stats().puts_waiting)
    to:close()
    assert.is_false(result:take())
    assert.equal("other", to:take())
    assert.is_true(stays:take())
    stage.assert_no_waiters(to)
  end))

  it("stops a pipeline when a shared `to` closes", within(function()
    local from, to = rn.chan(), rn.shared_chan()
    local taken = 0
    rn.pipe(from, to)
    rn.go(function()
      while from:put(taken) do taken = taken + 1 end
    end)
    assert.equal(0, to:take())
    to:close()
    settle()
    assert.is_true(taken <= 2)
    from:close()
    for _ in from do end
  end))

  it("is waited for together with a channel that has a policy", within(function()
    local shared, full = rn.shared_chan(1), rn.chan(policy.queue(1))
    full:put "first"
    assert.equal("none", rn.alts({ { full, "second" }, shared }, { default = "none" }))
    shared:put "value"
    assert.same({ "value", shared }, { rn.alts { { full, "second" }, shared } })
    local put = rn.go(function() return rn.alts { { full, "second" }, shared } end)
    settle()
    assert.same({ "first", "second" }, { full:take(), full:take() })
    assert.is_true(put:take())
  end))

  it("and a local channel with too many takes cannot both be waited for", within(function()
    local shared, ch = rn.shared_chan(), rn.chan()
    for _ = 1, 1024 do ch:take_async(function() end) end
    raises("1024 takes wait, which is the limit", function() rn.alts { ch, shared } end)
    assert.equal(0, shared:stats().takes_waiting)
    ch:close()
  end))

  it("is not made of a channel", within(function()
    raises("a size or a buffer expected, got a channel", function() rn.shared_chan(rn.chan()) end)
  end))
end)
