-- Stages, workers and named sources of one name in one process, such as a stage that drains and the next one: they
-- share the messages as those of several processes do. And answers to earlier deliveries of a message.

local report_texts = require "spec.support.stage".report_texts
local rn = require "runnel"

describe("stages, workers and sources of one name in one program", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  -- A spec in virtual time, with a store in memory, whose stream has the numbers from 1 to n.
  local function in_time(n, f)
    return function()
      require("runnel.sim").run(function()
        local store <close> = stores.open ":memory:"
        local stream = assert(store:stream "numbers")
        for i = 1, n do assert(assert(store:sink "numbers"):put(i)) end
        f(store, stream)
      end)
    end
  end

  -- A function for stages that takes 30 ms, and a table of how often it was called for each value, with the most calls
  -- of a value at a time as `most`.
  local function counting()
    local calls, running = { most = 0 }, {}
    return function(value)
      calls[value], running[value] = (calls[value] or 0) + 1, (running[value] or 0) + 1
      calls.most = math.max(calls.most, running[value])
      rn.sleep(30)
      running[value] = running[value] - 1
    end, calls
  end

  local function each_once(n)
    local expected = { most = 1 }
    for i = 1, n do expected[i] = 1 end
    return expected
  end

  for _, opts in ipairs { {}, { tx = true }, { key = function(v) return v % 7 end }, { max_running = 3 } } do
    local option = next(opts)
    it(("call their function once for each message%s"):format(option and ", with " .. option or ""),
      in_time(40, function(store)
        local f, calls = counting()
        opts.name = "s"
        local function start() return assert(store:stage("numbers", 3, f, nil, opts)) end
        local one, two = start(), start()
        rn.sleep(10000)
        assert.same(each_once(40), calls)
        assert.equal(40, one:stats().done + two:stats().done)
        assert.is_true(one:stats().done > 0 and two:stats().done > 0)
      end))
  end

  it("do so while one drains and the next one, which takes more at a time, has begun", in_time(12, function(store)
    local f, calls = counting()
    local old = assert(store:stage("numbers", 2, f, nil, { name = "s" }))
    rn.sleep(40)
    local drained = rn.go(function() return old:drain() end)
    assert(store:stage("numbers", 8, f, nil, { name = "s" }))
    assert.is_true(drained:take())
    rn.sleep(10000)
    assert.same(each_once(12), calls)
  end))

  it("do each job of a remote stage once", in_time(0, function(store)
    local f, calls = counting()
    local one <close> = store:serve("double", 4, f) -- luacheck: ignore 211
    local two <close> = store:serve("double", 4, f) -- luacheck: ignore 211
    local remote <close> = store:remote "double"
    local jobs = {}
    for i = 1, 40 do jobs[i] = rn.go(remote, i) end
    for i = 1, 40 do jobs[i]:take() end
    assert.same(each_once(40), calls)
  end))

  it("leave the messages of a source to it, also when it is closed", in_time(3, function(store)
    local opts <const> = { name = "s", ack_wait = 5000 }
    local first = assert(store:source("numbers", opts))
    local m = first:take()
    first:close()
    rn.sleep(100)
    local second = assert(store:source("numbers", opts))
    assert.same({ 2, 3 }, { second:take().value, second:take().value })
    rn.sleep(1000)
    assert.equal(0, second:stats().puts_waiting)
    assert.is_true(m:ack())
    rn.sleep(100)
    assert.same({ { seq = 2 }, { seq = 3 } }, store.db:rows "select seq from runnel_delivery order by seq")
  end))

  it("get what a source has claimed while it was closed", in_time(10, function(store)
    local first = assert(store:source("numbers", { name = "s", buffer = 2 }))
    first:take():ack()
    rn.yield()
    first:close()
    rn.sleep(1000)
    assert.same({}, store.db:rows "select seq from runnel_delivery where holder is not null")
    local second = assert(store:source("numbers", { name = "s" }))
    for i = 2, 10 do assert.equal(i, second:take().value) end
  end))

  -- What takes messages, and ends at the given turn after it has begun, perhaps while it claims some.
  local ENDING <const> = {
    ["a source"] = function(store) return store:source("numbers", { name = "s", buffer = 2 }) end,
    ["a source that acknowledges at the take"] = function(store)
      return store:source("numbers", { name = "s", buffer = 2, ack = "taken" })
    end,
    ["a stage"] = function(store)
      return store:stage("numbers", 2, function() rn.sleep(1) end, nil, { name = "s" })
    end,
    ["a stage with tx"] = function(store)
      return store:stage("numbers", 2, function() end, nil, { name = "s", tx = true })
    end,
  }
  for what, open in pairs(ENDING) do
    it(("get what %s has not answered, whenever it is closed"):format(what), function()
      for turns = 0, 24 do
        in_time(10, function(store)
          local first = assert(open(store))
          local is_source = rn.is_chan(first)
          if is_source then first:take():ack() end
          for _ = 1, turns do rn.yield() end
          if is_source then first:close() else first:drain() end
          rn.sleep(60000)
          local held = store.db:rows "select seq from runnel_delivery where holder is not null"
          assert.same({}, held, ("closed after %d turns"):format(turns))
        end)()
      end
    end)
  end

  it("roll back the transaction of a message that another one has got", in_time(2, function(store)
    store.db:exec "create table effects(v)"
    local calls = 0
    local texts = report_texts(function()
      local stage = assert(store:stage("numbers", 2, function(v, _, tx)
        calls = calls + 1
        tx:exec("insert into effects values (?)", v)
        if calls <= 2 then tx:exec "update runnel_delivery set claim = 1000" end -- as if it had been taken away
      end, nil, { name = "s", tx = true }))
      rn.sleep(60000)
      assert.same({ 4, 2 }, { calls, stage:stats().done })
    end)
    assert.same({ { v = 1 }, { v = 2 } }, store.db:rows "select v from effects order by v")
    assert.equal(1, #texts)
    assert.matches("a message was handed back: it does not belong to this process any more, so its transaction was "
      .. "rolled back", texts[1])
  end))

  -- A message whose lease has ended, and the same one, which has come again.
  local function twice(store)
    local source = assert(store:source("numbers", { name = "s", ack_wait = 1000 }))
    local first = source:take()
    local second = source:take()
    assert.same({ 1, 2 }, { first.deliveries, second.deliveries })
    return source, first, second
  end

  it("do not lose the lease of a message by late answers to an earlier delivery", in_time(1, function(store)
    local source, first, second = twice(store)
    rn.sleep(600)
    assert.is_true(first:progress()) -- no effect
    rn.sleep(300)
    assert.is_true(first:nak()) -- likewise
    rn.sleep(50)
    assert.equal(0, source:stats().puts_waiting)
    rn.sleep(200)
    assert.equal(1, source:stats().puts_waiting) -- its own lease has ended
    assert.is_true(second:ack())
  end))

  it("end a message by a late acknowledgement", in_time(1, function(store)
    local _, first = twice(store)
    assert.is_true(first:ack())
    rn.sleep(10)
    assert.same({}, store.db:rows "select * from runnel_delivery")
  end))

  it("do not answer messages of a stream that was deleted and made again", in_time(1, function(store, stream)
    for _, answer in ipairs { "ack", "nak", "progress" } do
      local old = assert(store:source("numbers", { name = "s" })):take()
      rn.sleep(10) -- since times are in ms
      assert(stream:delete())
      stream = assert(store:stream "numbers")
      assert(assert(store:sink "numbers"):put "new")
      local source = assert(store:source("numbers", { name = "s", ack_wait = 1000 }))
      assert.same({ "new", 1 }, { source:take().value, old.sequence })
      rn.sleep(500)
      assert.is_true(old[answer](old))
      rn.sleep(400)
      assert.equal(0, source:stats().puts_waiting, answer)
      rn.sleep(200)
      assert.equal(1, source:stats().puts_waiting, answer)
      source:close()
    end
  end))

  it("do not count tries for messages of a stream that was deleted and made again", in_time(1, function(store, stream)
    local opts = { name = "s", backoff = 20000 }
    assert(store:stage("numbers", 1, function()
      rn.sleep(1000)
      error("the old one", 0)
    end, nil, opts))
    rn.sleep(10)
    assert(stream:delete())
    assert(store:stream "numbers")
    assert(assert(store:sink "numbers"):put "new")
    assert(store:stage("numbers", 1, function() error("the new one", 0) end, nil, opts))
    rn.sleep(5000)
    local errors = assert(assert(store:queue "numbers/s"):get(1)).errors
    assert.same({ 1, "the new one" }, { #errors, errors[1].error })
  end))
end)
