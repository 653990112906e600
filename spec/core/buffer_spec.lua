local rn = require "runnel"
local sim = require "runnel.sim"
local policy = require "spec.support.policy"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle

-- All values that can be taken at once.
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

describe("a fixed buffer", function()
  it("lets as many puts through as it has room", within(function()
    for _, n in ipairs { 1, 2, 7, 8, 9, 100 } do
      local ch = rn.chan(n)
      for i = 1, n do assert.is_true(ch:offer(i)) end
      assert.is_nil(ch:offer(n + 1))
      assert.equal(n, #ch)
      for i = 1, n do assert.equal(i, (ch:poll())) end
      assert.is_nil(ch:poll())
    end
  end))

  it("refills from waiting puts in their order, before a later put", within(function()
    local ch = rn.chan(2)
    for i = 1, 6 do ch:put_async(i) end
    assert.equal(4, ch:stats().puts_waiting)
    assert.equal(1, (ch:take()))
    assert.same({ 2, 3 }, { #ch, ch:stats().puts_waiting })
    assert.is_nil(ch:offer "no room")
    ch:put_async(7)
    assert.same({ 2, 3, 4, 5, 6, 7 }, drain(ch))
  end))

  it("holds false", within(function()
    local ch = rn.chan(3)
    for _ = 1, 3 do ch:put(false) end
    for _ = 1, 3 do assert.is_false((ch:take())) end
    assert.equal(0, #ch)
  end))

  it("is described, and belongs to one channel", within(function()
    local buffer = rn.buffer(2)
    local a = rn.chan(buffer)
    raises("^chan: this buffer belongs to another channel", function() rn.chan(buffer) end)
    a:put(1)
    a:put(2)
    assert.is_nil(a:offer(3))
    assert.same({ 1, 2 }, drain(a))
    assert.equal("buffer(2)", tostring(buffer))
    assert.equal("dropping_buffer(3)", tostring(rn.dropping_buffer(3)))
    assert.equal("sliding_buffer(4)", tostring(rn.sliding_buffer(4)))
  end))

  it("of a huge limit costs what it holds", within(function()
    collectgarbage()
    local before = collectgarbage "count"
    local chs = {}
    for i = 1, 100 do
      chs[i] = rn.chan(2 ^ 31 - 1)
      chs[i]:put(i)
    end
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 100)
    for i = 1, 100 do assert.equal(i, (chs[i]:take())) end
  end))

  -- Rings start small, grow, wrap and are emptied; here against a plain queue.
  it("is a queue, whatever its size and whatever the order of puts and takes #heavy", within(function()
    local random = 12345
    local function dice(n)
      random = (random * 1103515245 + 12345) % 2147483648
      return random // 65536 % n
    end
    local sizes = { 31, 32, 33, 63, 64, 65, 100, 127, 300 }
    for i = 1, 20 do sizes[#sizes + 1] = i end
    for _, size in ipairs(sizes) do
      local ch, queue, first, n = rn.chan(size), {}, 1, 0
      for round = 1, 18 do
        -- Rounds lean towards puts or takes, so that it gets full and empty.
        local lean = 1 + round % 9
        for _ = 1, size + 5 do
          if dice(10) < lean then
            local value = dice(3) == 0 and { n } or dice(2) == 0 and n or tostring(n)
            local ok = ch:offer(value)
            assert.equal(#queue - first + 1 < size, ok == true)
            if ok then queue[#queue + 1] = value end
            n = n + 1
          else
            local value = ch:poll()
            assert.is_true(rawequal(queue[first], value))
            if value ~= nil then
              queue[first] = false
              first = first + 1
            end
          end
          assert.equal(#queue - first + 1, #ch)
        end
      end
      local rest = drain(ch)
      assert.equal(#queue - first + 1, #rest)
      for i = 1, #rest do assert.is_true(rawequal(queue[first + i - 1], rest[i])) end
    end
  end))

  it("is a queue with waiting puts and takes too", function()
    for _, size in ipairs { 0, 1, 2, 3, 8, 9, 17 } do
      sim.each_seed(5, function(seed)
        local ch, sent, got = rn.chan(size), 0, {}
        math.randomseed(seed * 100 + size)
        for _ = 1, 600 do
          if math.random(2) == 1 then
            if ch:stats().puts_waiting < 20 then
              sent = sent + 1
              ch:put_async(sent)
            end
          elseif ch:stats().takes_waiting < 20 then
            ch:take_async(function(value) got[#got + 1] = value end, false)
          end
          local stats = ch:stats()
          assert(stats.puts_waiting == 0 or stats.takes_waiting == 0)
          assert(stats.puts_waiting == 0 or stats.values == size)
          assert(stats.takes_waiting == 0 or stats.values == 0)
          assert(stats.put_total - stats.take_total == stats.values)
        end
        settle()
        ch:close()
        settle()
        for value in ch do got[#got + 1] = value end
        table.sort(got)
        for i = 1, sent do assert.equal(i, got[i]) end
        assert.equal(sent, #got)
      end)
    end
  end)
end)

describe("a dropping buffer", function()
  it("drops what comes when it is full, and never makes a put wait", within(function()
    for _, n in ipairs { 1, 2, 8, 20 } do
      local ch = rn.chan(rn.dropping_buffer(n))
      for i = 1, n + 50 do
        if i % 2 == 0 then assert.is_true(ch:put(i)) else assert.is_true(ch:offer(i)) end
      end
      assert.equal(n, #ch)
      local list = drain(ch)
      assert.equal(n, #list)
      for i = 1, n do assert.equal(i, list[i]) end
    end
  end))

  it("hands to a waiting take what it would not have to drop", within(function()
    local ch = rn.chan(rn.dropping_buffer(1))
    local taker = rn.go(function() return ch:take() end)
    settle()
    ch:put(1)
    ch:put(2)
    ch:put(3)
    assert.equal(1, (taker:take()))
    assert.same({ 2 }, drain(ch))
  end))

  it("does not keep what it drops alive", within(function()
    local ch, objects = rn.chan(rn.dropping_buffer(1)), setmetatable({}, { __mode = "k" })
    ch:put(1)
    objects[{}] = true
    ch:put(next(objects))
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(objects))
  end))

  it("refuses values once closed, and gives what it holds", within(function()
    local ch = rn.chan(rn.dropping_buffer(2))
    for i = 1, 3 do ch:put(i) end
    ch:close "over"
    assert.is_false(ch:put(4))
    assert.equal(1, (ch:take()))
    assert.equal(2, (ch:take()))
    assert.same({ nil, "over", n = 2 }, stage.pack_take(ch))
  end))
end)

describe("a sliding buffer", function()
  it("drops the oldest when it is full", within(function()
    for _, n in ipairs { 1, 2, 8, 20 } do
      local ch = rn.chan(rn.sliding_buffer(n))
      for i = 1, n + 50 do assert.is_true(ch:put(i)) end
      assert.equal(n, #ch)
      local list = drain(ch)
      assert.equal(n, #list)
      for i = 1, n do assert.equal(50 + i, list[i]) end
    end
  end))

  it("is a window, whatever the order of puts and takes", within(function()
    for _, n in ipairs { 1, 2, 3, 7, 8, 9, 33 } do
      local ch, window = rn.chan(rn.sliding_buffer(n)), {}
      for i = 1, 2000 do
        if i * 7919 % 13 < 8 then
          ch:put(i)
          window[#window + 1] = i
          if #window > n then table.remove(window, 1) end
        else
          assert.equal(table.remove(window, 1), (ch:poll()))
        end
        assert.equal(#window, #ch)
      end
      assert.same(window, drain(ch))
    end
  end))

  it("does not keep what has slid out alive", within(function()
    for _, n in ipairs { 1, 3 } do
      local ch, objects = rn.chan(rn.sliding_buffer(n)), setmetatable({}, { __mode = "k" })
      for _ = 1, 5 do
        local object = {}
        objects[object] = true
        ch:put(object)
      end
      for _ = 1, n do ch:put(false) end
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(objects))
    end
  end))
end)

describe("a promise channel", function()
  it("gives its first value to every taker, for ever", within(function()
    local ch, got = rn.promise_chan(), {}
    for i = 1, 5 do rn.go(function() got[i] = ch:take() end) end
    settle()
    assert.is_true(ch:put "first")
    settle()
    assert.same({ "first", "first", "first", "first", "first" }, got)
    assert.is_true(ch:put "second")
    assert.is_true(ch:offer "third")
    for _ = 1, 3 do assert.equal("first", (ch:take())) end
    assert.equal("first", (ch:poll()))
    assert.equal(1, #ch)
    ch:close()
    assert.is_false(ch:put "late")
    assert.same({ "first", n = 1 }, stage.pack_take(ch))
    assert.same({ "first", n = 1 }, stage.pack_take(ch))
  end))

  it("gives its value although it was closed with an error afterwards", within(function()
    local ch = rn.promise_chan()
    ch:put "kept"
    ch:close "too late"
    assert.same({ "kept", n = 1 }, stage.pack_take(ch))
  end))

  it("closed without a value gives nil, and the reason, to every taker", within(function()
    local ch, got = rn.promise_chan(), {}
    for i = 1, 3 do rn.go(function() got[i] = stage.pack_take(ch) end) end
    settle()
    ch:close "broken"
    settle()
    for i = 1, 3 do assert.same({ nil, "broken", n = 2 }, got[i]) end
    assert.same({ nil, "broken", n = 2 }, stage.pack_take(ch))
  end))

  it("may hold false", within(function()
    local ch = rn.promise_chan()
    local waiting = rn.go(function() return ch:take() == false end)
    settle()
    ch:put(false)
    assert.is_true(waiting:take())
    assert.is_false((ch:take()))
    assert.is_true(ch:put(true))
    assert.is_false((ch:take()))
  end))

  it("serves every kind of taker at once", within(function()
    local ch, got = rn.promise_chan(), {}
    local function keep(value) got[#got + 1] = value end
    ch:take_async(keep)
    rn.go(function() keep((rn.alts { rn.chan(), ch, ch })) end)
    rn.go(function() keep((ch())) end)
    settle()
    ch:put_async "now"
    settle()
    assert.same({ "now", "now", "now" }, got)
    stage.assert_no_waiters(ch)
  end))

  it("puts its value through a transducer first", within(function()
    local ch = rn.promise_chan(function(rf)
      return function(...)
        if select("#", ...) < 2 then return rf(...) end
        local acc, value = ...
        if value % 2 == 1 then return acc end
        return rf(rf(acc, value * 10), "dropped")
      end
    end)
    local waiting = rn.go(function() return ch:take() end)
    settle()
    assert.is_true(ch:put(1))
    assert.equal(0, #ch)
    assert.is_true(ch:put(2))
    assert.is_true(ch:put(4))
    assert.equal(20, (waiting:take()))
    assert.equal(20, (ch:take()))
    assert.equal(1, #ch)
  end))
end)

describe("unblocking_buffer", function()
  it("returns whether a put may have to wait", function()
    assert.is_true(rn.unblocking_buffer(rn.dropping_buffer(1)))
    assert.is_true(rn.unblocking_buffer(rn.sliding_buffer(1)))
    assert.is_false(rn.unblocking_buffer(rn.buffer(1)))
    assert.is_false(rn.unblocking_buffer(rn.priority_buffer(1)))
    for _, value in ipairs { 1, "x", {}, rn.chan(1), io.stdout } do assert.is_false(rn.unblocking_buffer(value)) end
    assert.is_false(rn.unblocking_buffer(nil))
    assert.is_false(rn.unblocking_buffer())
  end)
end)

describe("a buffer policy", function()
  it("decides what is kept and in which order", within(function()
    local stack = policy.queue(3, { remove = function(q) return table.remove(q.values) end })
    local ch = rn.chan(stack)
    for i = 1, 5 do ch:put_async(i) end
    assert.same({ 3, 2 }, { #ch, ch:stats().puts_waiting })
    assert.equal(3, (ch:take()))
    assert.equal(4, (ch:take()))
    assert.equal(5, (ch:take()))
    assert.same({ 2, 1 }, drain(ch))
    assert.equal("policy", ch:stats().buffer)
  end))

  it("may be an object with a metatable, or a userdata", within(function()
    local Queue = {}
    Queue.__index = Queue
    for name, method in pairs(policy.queue(1)) do Queue[name] = method end
    local object = setmetatable({ values = {}, calls = Queue.calls }, Queue)
    local ch = rn.chan(object)
    ch:put(1)
    assert.same({ 1 }, object.values)
    assert.equal(1, (ch:take()))
    local meta = debug.getmetatable(rn.buffer(1))
    assert.is_nil(meta.__index)
    -- A file is a userdata that can be indexed, but has none of the methods.
    assert.is_false((pcall(rn.chan, io.stdout)))
  end))

  it("serves waiting takes as soon as it has values", within(function()
    local pairs_only = policy.queue(10, { count = function(q) return #q.values // 2 * 2 end })
    local ch, got = rn.chan(pairs_only), {}
    for i = 1, 4 do rn.go(function() got[i] = ch:take() end) end
    settle()
    for i, expected in ipairs { {}, { 1 }, { 1, 2 }, { 1, 2, 3 }, { 1, 2, 3, 4 } } do
      ch:put(i)
      settle()
      assert.same(expected, got)
    end
    stage.assert_no_waiters(ch)
  end))

  it("gives values from the buffer before those of waiting puts", within(function()
    local ch = rn.chan(policy.queue(1))
    for i = 1, 4 do ch:put_async(i) end
    assert.same({ 1, 2, 3, 4 }, drain(ch))
    stage.assert_no_waiters(ch)
  end))

  it("that is always full hands values over like no buffer", within(function()
    for _, take_first in ipairs { true, false } do
      local ch = rn.chan(policy.queue(0))
      local got, put
      local function take() got = ch:take() end
      local function give() put = ch:put "value" end
      if take_first then
        rn.go(take)
        settle()
        rn.go(give)
      else
        rn.go(give)
        settle()
        rn.go(take)
      end
      settle()
      assert.equal("value", got)
      assert.is_true(put)
      stage.assert_no_waiters(ch)
    end
  end))

  it("that is always full serves alts and offers of both sides", within(function()
    local ch = rn.chan(policy.queue(0))
    assert.is_nil(ch:offer(1))
    local taker = rn.go(function() return (rn.alts { rn.chan(), ch }) end)
    settle()
    assert.is_true(ch:offer(2))
    assert.equal(2, (taker:take()))
    taker = rn.go(function() return ch:take() end)
    settle()
    assert.is_true((rn.alts { { ch, 3 }, rn.chan() }))
    assert.equal(3, (taker:take()))
    local putter = rn.go(function() return (rn.alts { { ch, 4 } }) end)
    settle()
    assert.equal(4, (ch:poll()))
    assert.is_true((putter:take()))
    stage.assert_no_waiters(ch)
  end))

  describe("whose method raises", function()
    local function broken() error("broken policy", 0) end

    it("full: the put raises, nothing has happened", within(function()
      local ch = rn.chan(policy.queue(2, { full = broken }))
      for _, f in ipairs {
        function() ch:put(1) end, function() ch:offer(1) end, function() ch:put_async(1, print) end,
        function() ch:put_async(1, print, false) end, function() rn.alts { { ch, 1 } } end,
      } do
        local ok, err = pcall(f)
        assert.is_false(ok)
        assert.equal("broken policy", err)
      end
      assert.same({ 0, 0, 0 }, { #ch, ch:stats().puts_waiting, ch:stats().put_total })
      assert.is_nil(ch:poll())
      collectgarbage() -- what was made for the callback
      collectgarbage()
    end))

    it("add: the put raises, nothing has happened", within(function()
      local ch = rn.chan(policy.queue(2, { add = broken }))
      for _, f in ipairs {
        function() ch:put(1) end, function() ch:offer(1) end, function() ch:put_async(1, print) end,
        function() rn.alts { { ch, 1 }, rn.chan() } end,
      } do
        local ok, err = pcall(f)
        assert.is_false(ok)
        assert.equal("broken policy", err)
      end
      assert.same({ 0, 0, 0 }, { #ch, ch:stats().puts_waiting, ch:stats().put_total })
    end))

    it("remove: the take raises, and the value stays", within(function()
      local fails = true
      local queue
      queue = policy.queue(2, { remove = function(q)
        if fails then broken() end
        return table.remove(q.values, 1)
      end })
      local ch = rn.chan(queue)
      ch:put(1)
      for _, f in ipairs {
        function() ch:take() end, function() ch:poll() end, function() ch:take_async(print) end,
        function() rn.alts { ch } end, function() for _ in ch do error "none" end end,
      } do
        local ok, err = pcall(f)
        assert.is_false(ok)
        assert.equal("broken policy", err)
      end
      assert.same({ 1, 0, 0 }, { #ch, ch:stats().takes_waiting, ch:stats().take_total })
      fails = false
      assert.equal(1, (ch:take()))
    end))

    it("count: the operation raises, and has no effect", within(function()
      local ch = rn.chan(policy.queue(2, { count = broken }))
      for _, f in ipairs {
        function() ch:take() end, function() ch:poll() end, function() rn.alts { ch } end, function() return #ch end,
        function() return ch:stats() end, function() return tostring(ch) end,
      } do
        local ok, err = pcall(f)
        assert.is_false(ok)
        assert.equal("broken policy", err)
      end
    end))

    it("on behalf of a waiting put: that put raises, not the take", within(function()
      local fails = false
      local ch = rn.chan(policy.queue(1, { add = function(q, value)
        if fails then broken() end
        table.insert(q.values, value)
      end }))
      ch:put(1)
      local putter = rn.go(function() return select(2, pcall(ch.put, ch, 2)) end)
      local chooser = rn.go(function() return select(2, pcall(rn.alts, { rn.chan(), { ch, 3 } })) end)
      settle()
      fails = true
      assert.equal(1, (ch:take()))
      assert.equal("broken policy", (putter:take()))
      assert.equal("broken policy", (chooser:take()))
      fails = false
      assert.same({ 0, 0, 1 }, { #ch, ch:stats().puts_waiting, ch:stats().put_total })
      ch:put(4)
      assert.equal(4, (ch:take()))
    end))

    it("on behalf of a waiting take: that take raises, not the put, and the value stays", within(function()
      local fails = true
      local ch = rn.chan(policy.queue(1, { remove = function(q)
        if fails then broken() end
        return table.remove(q.values, 1)
      end }))
      local taker = rn.go(function() return select(2, pcall(ch.take, ch)) end)
      settle()
      assert.is_true(ch:put(1))
      assert.equal("broken policy", (taker:take()))
      fails = false
      assert.equal(1, #ch)
      assert.equal(1, (ch:take()))
    end))

    it("on behalf of a callback: on_error gets it once, and the callback is called", within(function()
      local add, remove = false, true
      local ch = rn.chan(policy.queue(1, {
        add = function(q, value)
          if add then broken() end
          table.insert(q.values, value)
        end,
        remove = function(q)
          if remove then broken() end
          return table.remove(q.values, 1)
        end,
      }))
      local got
      ch:take_async(function(...) got = table.pack(...) end)
      local reports = heard(function() assert.is_true(ch:put(1)) end)
      assert.same({ nil, "broken policy", n = 2 }, got)
      assert.equal(1, #reports)
      assert.equal("broken policy", reports[1].err)
      assert.matches("stack traceback:.*buffer_spec.lua", reports[1].trace)
      remove = false
      ch:put_async(2, function(...) got = table.pack(...) end)
      add = true
      reports = heard(function() assert.equal(1, (ch:take())) end)
      assert.same({ false, "broken policy", n = 2 }, got)
      assert.equal(1, #reports)
      stage.assert_no_waiters(ch)
    end))

    it("when no operation called it: on_error gets it once, with the channel's name", within(function()
      local fails
      local ch = rn.chan(policy.queue(1, {
        full = function(q)
          if fails then broken() end
          return #q.values >= 1
        end,
        close = broken,
      })):name "jobs"
      ch:put_async(1)
      ch:put_async(2)
      fails = true
      local reports = heard(function() assert.equal(1, (ch:take())) end)
      assert.equal(1, #reports)
      assert.same({ "broken policy", "chan: jobs" }, { reports[1].err, reports[1].where })
      assert.matches("stack traceback:.*buffer_spec.lua", reports[1].trace)
      fails = false
      assert.equal(2, (ch:take()))
      reports = heard(function() ch:close() end)
      assert.equal(1, #reports)
      assert.is_true(ch:closed())
    end))

    it("in a put on which takes wait: they go on waiting, and are served by the next", within(function()
      local fails
      local ch = rn.chan(policy.queue(9, { count = function(q)
        if fails then broken() end
        return #q.values
      end }))
      local taker = rn.go(function() return ch:take() end)
      settle()
      fails = true
      local reports = heard(function() assert.is_true(ch:put(1)) end)
      assert.equal(1, #reports)
      fails = false
      assert.equal(1, ch:stats().takes_waiting)
      ch:put(2)
      assert.equal(1, (taker:take()))
      assert.equal(2, (ch:take()))
    end))

    it("any object: it is passed on as it is", within(function()
      local object = {}
      local ch = rn.chan(policy.queue(1, { full = function() error(object) end }))
      local ok, err = pcall(ch.put, ch, 1)
      assert.is_false(ok)
      assert.is_true(rawequal(object, err))
    end))

    it("because it is gone: an error names it", within(function()
      local queue = policy.queue(1)
      local ch = rn.chan(queue)
      queue.add = nil
      raises("^the buffer policy has no method 'add'", function() ch:put(1) end)
      queue.full = setmetatable({}, { __call = function() return false end })
      queue.add = 42
      assert.is_false((pcall(ch.put, ch, 1)))
      assert.equal(0, #ch)
    end))
  end)

  describe("whose count is wrong", function()
    for _, nonsense in ipairs { -1, 1.5, "many", 0 / 0, math.huge, false, {} } do
      local name = type(nonsense) == "table" and "{}" or nonsense ~= nonsense and "nan" or tostring(nonsense)
      it(("(%s) gets an error"):format(name), within(function()
        local ch = rn.chan(policy.queue(3, { count = function() return nonsense end }))
        local pattern = "the buffer policy's count did not return a non%-negative integer"
        raises(pattern, function() ch:take() end)
        raises(pattern, function() ch:poll() end)
        raises(pattern, function() return #ch end)
        raises(pattern, function() return ch:stats() end)
        assert.is_true(ch:put(1))
      end))
    end

    it("while a take waits is reported to on_error", within(function()
      local count = 0
      local ch = rn.chan(policy.queue(3, { count = function() return count end }))
      local taker = rn.go(function() return ch:take() end)
      settle()
      count = "x"
      local reports = heard(function() assert.is_true(ch:put(1)) end)
      assert.equal(1, #reports)
      assert.matches("count did not return a non%-negative integer", reports[1].err)
      count = 1
      ch:put(2)
      count = 0
      assert.is_truthy((taker:take()))
    end))

    it("more than it holds gets an error when remove gives nil", within(function()
      local ch = rn.chan(policy.queue(3, { count = function() return 1 end }))
      raises("the buffer policy's remove returned nil although its count is not 0", function() ch:take() end)
      raises("remove returned nil", function() ch:poll() end)
      raises("remove returned nil", function() rn.alts { ch } end)
      assert.equal(0, ch:stats().take_total)
      local taken = ch:put "value" and ch:take()
      assert.equal("value", taken)
    end))

    it("more than it holds while a take waits: that take raises", within(function()
      local count = 0
      local ch = rn.chan(policy.queue(3, { count = function() return count end, remove = function() end }))
      local taker = rn.go(function() return select(2, pcall(ch.take, ch)) end)
      settle()
      count = 1
      ch:put(1)
      count = 0
      assert.matches("remove returned nil", (taker:take()))
    end))
  end)

  describe("that uses its own channel", function()
    it("gets an error that says so, and the channel stays as it was", within(function()
      for _, method in ipairs { "full", "add", "remove", "count" } do
        for _, use in ipairs {
          function(ch) ch:put(1) end, function(ch) ch:offer(1) end,
          function(ch) ch:take() end, function(ch) ch:poll() end,
          function(ch) rn.alts { ch } end, function(ch) return #ch end, function(ch) ch:put_async(1) end,
          function(ch) ch:take_async(print) end,
        } do
          local ch, active
          local queue = policy.queue(3)
          local honest = queue[method]
          queue[method] = function(...)
            if active then use(ch) end
            return honest(...)
          end
          ch = rn.chan(queue):name "jobs"
          ch:put "first"
          active = true
          local f = (method == "full" or method == "add") and ch.offer or ch.take
          local ok, err = pcall(f, ch, "second")
          active = false
          assert.is_false(ok)
          assert.matches("chan: jobs: a transducer or buffer policy must not use the channel that it runs for", err)
          assert.same({ "first" }, queue.values)
          stage.assert_no_waiters(ch)
          assert.equal("first", (ch:take()))
        end
      end
    end))

    it("may close it, which is done when the method has returned", within(function()
      for _, method in ipairs { "full", "add", "remove", "count" } do
        local ch, active
        local queue = policy.queue(3)
        local honest = queue[method]
        queue[method] = function(...)
          if active then
            ch:close "enough"
            assert.is_true(ch:closed())
          end
          return honest(...)
        end
        ch = rn.chan(queue)
        ch:put "first"
        active = true
        local put = (method == "full" or method == "add") and ch:put "second"
        if method == "full" then assert.is_false(put) elseif method == "add" then assert.is_true(put) end
        assert.equal("first", (ch:take()))
        active = false
        assert.is_true(ch:closed())
        assert.is_false(ch:put "late")
        if method == "add" then assert.equal("second", (ch:take())) end
        assert.same({ nil, "enough", n = 2 }, stage.pack_take(ch))
        assert.equal(1, queue.calls.close)
      end
    end))

    it("may ask what needs no count", within(function()
      local ch
      ch = rn.chan(policy.queue(1, { full = function()
        assert.is_false(ch:closed())
        assert.equal("jobs", ch:name())
        ch:done()
        return false
      end })):name "jobs"
      assert.is_true(ch:put(1))
    end))
  end)

  it("cannot park", within(function()
    local other = rn.chan()
    for _, method in ipairs { "full", "add", "remove", "count" } do
      local active
      local queue = policy.queue(3)
      local honest = queue[method]
      queue[method] = function(...)
        if active then other:take() end
        return honest(...)
      end
      local ch = rn.chan(queue)
      ch:put(1)
      active = true
      local f = (method == "full" or method == "add") and ch.put or ch.take
      local ok, err = pcall(f, ch, 2)
      active = false
      assert.is_false(ok)
      assert.matches("take would have to wait, which is impossible inside a buffer policy: use offer or poll", err)
      stage.assert_no_waiters(ch, other)
    end
  end))

  it("may use other channels", within(function()
    local log = rn.chan(100)
    local ch = rn.chan(policy.queue(1, {
      add = function(q, value)
        log:put("add " .. value)
        table.insert(q.values, value)
      end,
      remove = function(q)
        log:put "remove"
        return table.remove(q.values, 1)
      end,
    }))
    for i = 1, 3 do ch:put_async(i) end
    assert.same({ 1, 2, 3 }, drain(ch))
    assert.same({ "add 1", "remove", "add 2", "remove", "add 3", "remove" }, drain(log))
  end))

  it("may use the other channels of an alts that asks it", within(function()
    local other, third = rn.chan(1), rn.chan()
    local taker = rn.go(function() return third:take() end)
    settle()
    local empty = policy.queue(1, { count = function()
      other:offer "from the policy"
      return 0
    end })
    local ch = rn.chan(empty)
    -- When `ch` is asked, `other` has been found empty.
    local value, port = rn.alts({ other, ch }, { priority = true })
    assert.same({ "from the policy", true }, { value, port == other })
    assert.equal(0, #other)
    stage.assert_no_waiters(other, ch)
    assert.is_true(third:put "end")
    assert.equal("end", (taker:take()))
    -- The same for a put that finds a taker, and a channel that closes.
    local closing = rn.chan()
    ch = rn.chan(policy.queue(1, { full = function()
      closing:close()
      return true
    end }))
    value, port = rn.alts({ closing, { ch, 1 } }, { priority = true })
    assert.is_nil(value)
    assert.equal(closing, port)
    stage.assert_no_waiters(closing, ch)
  end))

  it("that changes its mind between two questions gives an alts its other operations", within(function()
    for _, priority in ipairs { true, false } do
      local asked, ready = 0, rn.chan(1)
      local liar = rn.chan(policy.queue(1, { count = function()
        asked = asked + 1
        return asked % 2
      end }))
      ready:put "honest"
      local value, port = rn.alts({ liar, ready }, { priority = priority })
      assert.same({ "honest", true }, { value, port == ready })
      assert.is_nil((rn.alts({ liar, ready }, { priority = priority, default = false })) or nil)
      stage.assert_no_waiters(liar, ready)
    end
  end))

  it("is closed once, when no put waits any more", within(function()
    local queue = policy.queue(1)
    local ch = rn.chan(queue)
    for i = 1, 3 do ch:put_async(i) end
    ch:close()
    ch:close()
    assert.equal(0, queue.calls.close)
    ch:take()
    assert.equal(0, queue.calls.close)
    ch:take()
    assert.equal(1, queue.calls.close)
    ch:take()
    ch:take()
    ch:close()
    assert.equal(1, queue.calls.close)
    local empty = policy.queue(1)
    rn.chan(empty):close()
    assert.equal(1, empty.calls.close)
  end))

  it("is closed although the puts that waited were withdrawn by their alts", within(function()
    local queue = policy.queue(1)
    local ch, other = rn.chan(queue), rn.chan()
    ch:put "a"
    rn.go(function() rn.alts { { ch, "b" }, other } end)
    rn.yield()
    ch:close()
    other:put "elsewhere"
    assert.equal("a", ch:take())
    assert.equal(0, queue.calls.close)
    assert.is_nil(ch:take())
    assert.equal(1, queue.calls.close)
    assert.is_nil(ch:take())
    assert.equal(1, queue.calls.close)
  end))

  it("need not have a close", within(function()
    local queue = policy.queue(1)
    queue.close = nil
    local ch = rn.chan(queue)
    ch:close()
    assert.is_nil((ch:take()))
  end))

  it("works with a transducer, which may add more than one value", within(function()
    local queue = policy.queue(2)
    local ch = rn.chan(queue, function(rf)
      return function(...)
        if select("#", ...) < 2 then return rf(...) end
        local acc, value = ...
        return rf(rf(rf(acc, value), value + 0.25), value + 0.5)
      end
    end)
    ch:put(1)
    assert.equal(3, #ch)
    assert.is_nil(ch:offer(2))
    ch:put_async(2)
    assert.same({ 1, 1.25, 1.5, 2, 2.25, 2.5 }, drain(ch))
  end))

  it("whose add raises within a transducer is an error of the transducer", within(function()
    local fails = true
    local handled
    local ch = rn.chan(policy.queue(2, { add = function(q, value)
      if fails then error("broken policy", 0) end
      table.insert(q.values, value)
    end }), function(rf) return rf end, function(err)
      handled, fails = err, false
      return "instead"
    end)
    assert.is_true(ch:put(1))
    assert.equal("broken policy", handled)
    assert.equal("instead", (ch:take()))
  end))
end)

describe("priority_buffer", function()
  it("gives the least value first", within(function()
    local ch = rn.chan(rn.priority_buffer(10))
    for _, value in ipairs { 5, 3, 9, 1, 7 } do ch:put(value) end
    assert.same({ 1, 3, 5, 7, 9 }, drain(ch))
  end))

  it("gives equal ones in the order in which they came", within(function()
    local ch = rn.chan(rn.priority_buffer(1000, function(a, b) return a[1] < b[1] end))
    for i = 1, 1000 do ch:put { i * 7919 % 5, i } end
    local last = { -1, 0 }
    for _ = 1, 1000 do
      local value = ch:take()
      assert.is_true(last[1] < value[1] or last[1] == value[1] and last[2] < value[2])
      last = value
    end
  end))

  it("makes puts wait when it is full", within(function()
    local ch = rn.chan(rn.priority_buffer(2))
    for _, value in ipairs { 4, 2, 1, 3 } do ch:put_async(value) end
    assert.equal(2, ch:stats().puts_waiting)
    assert.same({ 2, 1, 3, 4 }, drain(ch))
  end))

  it("is a sorted list, whatever the order of puts and takes", within(function()
    local ch, list = rn.chan(rn.priority_buffer(64, function(a, b) return a > b end)), {}
    for i = 1, 5000 do
      local value = i * 7919 % 1009
      if i * 31 % 7 < 4 then
        if ch:offer(value) then
          list[#list + 1] = value
          table.sort(list)
        else
          assert.equal(64, #list)
        end
      else
        assert.equal(table.remove(list), (ch:poll()))
      end
      assert.equal(#list, #ch)
    end
  end))

  it("stays whole when values cannot be compared", within(function()
    local ch = rn.chan(rn.priority_buffer(100))
    for i = 20, 1, -1 do ch:put(i) end
    for _ = 1, 10 do assert.is_false((pcall(ch.put, ch, "text"))) end
    assert.equal(20, #ch)
    for i = 1, 20 do assert.equal(i, (ch:take())) end
    -- An error while a value is removed leaves it there.
    local fails
    ch = rn.chan(rn.priority_buffer(100, function(a, b)
      if fails then error("no order", 0) end
      return a < b
    end))
    for i = 20, 1, -1 do ch:put(i) end
    fails = true
    for _ = 1, 10 do assert.is_false((pcall(ch.take, ch))) end
    fails = false
    for i = 1, 20 do assert.equal(i, (ch:take())) end
  end))

  it("holds false, given an order", within(function()
    local ch = rn.chan(rn.priority_buffer(3, function(a, b) return a == false and b ~= false end))
    for _, value in ipairs { true, false, true } do ch:put(value) end
    assert.is_false((ch:take()))
    assert.is_true((ch:take()))
    assert.is_true((ch:take()))
  end))
end)

describe("a buffer policy", function()
  it("may close its channel twice while it adds a value", within(function()
    local ch
    ch = rn.chan {
      full = function() return false end,
      add = function()
        ch:close()
        ch:close()
      end,
      remove = function() end,
      count = function() return 0 end,
    }
    assert.is_true(ch:put(1))
    assert.is_false(ch:put(2))
  end))
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
