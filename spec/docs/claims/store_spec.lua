-- What the documents say of the store, and of streams, stages and buckets in it.

local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local no_sqlite = require "spec.support.missing" "runnel.sqlite"
local stores = not no_sqlite and require "runnel.store"
local claim = require "spec.support.docs.claims"(no_sqlite and pending or it, no_sqlite)

-- Calls f with a store in virtual time.
local function with_store(f)
  sim.run(function()
    local store <close> = stores.open ":memory:"
    f(store)
  end)
end

describe("the documents say of the store", function()
  claim("Two keys are the same exactly if they are equal in Lua, as 1 and 1.0; lists if their elements are. A call "
    .. "without arguments has a key of its own.", function()
    with_store(function(store)
      local calls = 0
      local f = store:once("f", function()
        calls = calls + 1
        return calls
      end)
      assert.same({ 1, 1 }, { f(1), f(1.0) })
      assert.same({ 2, 2 }, { f "1", f "1" })
      assert.same({ 3, 3 }, { f { 1, "a" }, f { 1.0, "a" } })
      assert.same({ 4, 4 }, { f(), f() })
      assert.equal(5, f "")
      raises("nil", function() f(nil) end)
    end)
  end)

  claim("Only the first result of `f` is stored. Each caller gets its own copy of a table.", function()
    with_store(function(store)
      local f = store:once("f", function() return {}, 2 end)
      local one, other = table.pack(f(1)), table.pack(f(1))
      assert.same({ 1, 1 }, { one.n, other.n })
      assert.not_equal(one[1], other[1])
    end)
  end)

  claim("Forgets the result for a key, or all results of the name; returns how many there were.", function()
    with_store(function(store)
      local f = store:once("f", function(n) return n end)
      for i = 1, 4 do f(i) end
      assert.equal(1, store:forget("f", 2))
      assert.equal(0, store:forget("f", 2))
      assert.equal(3, store:forget "f")
      store:once("f", print)
    end)
  end)

  claim("Within a program, two functions cannot have the same name", function()
    with_store(function(store)
      store:once("f", function() return 1 end)
      assert.is_false(pcall(store.once, store, "f", function() return 2 end))
    end)
  end)

  claim("Then the call raises the error, and nothing is stored, so the next call tries again.", function()
    with_store(function(store)
      local calls = 0
      local f = store:once("f", function()
        calls = calls + 1
        if calls == 1 then error("one", 0) end
        if calls == 2 then return nil, "two" end
        return "done"
      end)
      assert.same({ false, "one" }, { pcall(f, 1) })
      assert.same({ false, "two" }, { pcall(f, 1) })
      assert.equal("done", f(1))
      assert.equal("done", f(1))
      assert.equal(3, calls)
    end)
  end)

  claim("when all tries have failed, the error is stored like a result; later calls raise it again", function()
    with_store(function(store)
      local calls = 0
      local f = store:once("f", function()
        calls = calls + 1
        error("no", 0)
      end, { errors = true, tries = 2 })
      for _ = 1, 3 do assert.same({ false, "no" }, { pcall(f, 1) }) end
      assert.equal(2, calls)
    end)
  end)

  claim("the time after which a result is forgotten", function()
    with_store(function(store)
      local calls = 0
      local f = store:once("f", function()
        calls = calls + 1
        return calls
      end, { max_age = 1000 })
      assert.equal(1, f(1))
      rn.sleep(900)
      assert.equal(1, f(1))
      rn.sleep(200)
      assert.equal(2, f(1))
    end)
  end)

  claim("A different step is an error that names the new and the old step.", function()
    with_store(function(store)
      local calls = 0
      local a, b = store:once("a", function() return 1 end), store:once("b", function() return 1 end)
      local f = store:once("f", function()
        calls = calls + 1
        if calls == 1 then a(1) else b(1) end
        error("stopped", 0)
      end)
      assert.same({ false, "stopped" }, { pcall(f, 1) })
      local _, err = pcall(f, 1)
      assert.matches("a%[1%]", err)
      assert.matches("b%[1%]", err)
    end)
  end)

  claim("for at most `timeout` (30000), and closes the file", function()
    sim.run(function()
      local store = stores.open ":memory:"
      assert(store:stream "orders")
      assert(store:sink "orders"):put "a"
      local begun = rn.chan(1)
      assert(store:stage("orders", 1, function()
        begun:put(true)
        rn.sleep(1000000)
      end, nil, { name = "f" }))
      begun:take()
      local began = sim.elapsed()
      local ok, err = store:drain()
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
      local ms = sim.elapsed() - began
      assert.is_true(ms >= 30000 and ms < 30100, ms)
    end)
  end)

  claim("of the tables: 1; 2 once the store has been used for streams, which adds their tables; 3 once it has been "
    .. "used for runs or schedules; 4 once it has been used for the option `key`. A file with a newer version is "
    .. "refused", function()
    with_store(function(store)
      local function version() return store.db:one "select version from runnel_schema".version end
      assert.equal(1, version())
      assert(store:stream "orders")
      assert.equal(2, version())
      store:runs "order"
      assert.equal(3, version())
      store:runs("invoice", print, { key = tostring })
      assert.equal(4, version())
    end)
    local path = os.tmpname()
    local store = stores.open(path)
    store.db:exec "update runnel_schema set version = 100"
    store:close()
    assert.is_false(pcall(stores.open, path))
    os.execute(("rm -f %s*"):format(path))
  end)

  claim("Any program can put a message into a stream by one statement", function()
    with_store(function(store)
      assert(store:stream "orders")
      local source = assert(store:source "orders")
      local page = require("spec.support.docs.pages").read "docs/manual/store.md"
      store.db:exec((page:match "\n    (insert into runnel_message.-)\n\n"))
      local m = source:take()
      assert.same({ "eggs", 1, "orders" }, { m.value, m.sequence, m.subject })
      source:close()
    end)
  end)
end)

describe("the documents say of streams in a store", function()
  claim("Stores a value: returns true, its sequence number, and whether the stream had it already.", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink = assert(store:sink "orders")
      assert.same({ true, 1, false }, { sink:put("a", { id = "1" }) })
      assert.same({ true, 1, true }, { sink:put("a", { id = "1" }) })
      assert.same({ true, 2, false }, { sink:put "b" })
      assert.equal(2, store:stream("orders"):stats().messages)
    end)
  end)

  claim("| `duplicates` | number (ms) | 120000 | how long it knows ids of messages, to drop duplicates |", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink = assert(store:sink "orders")
      sink:put("a", { id = "1" })
      rn.sleep(119000)
      assert.is_true(select(3, sink:put("a", { id = "1" })))
      rn.sleep(2000)
      assert.is_false(select(3, sink:put("a", { id = "1" })))
    end)
  end)

  claim("The four methods return false if one of the first three was called before, or if the source does not "
    .. "acknowledge.", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink = assert(store:sink "orders")
      for i = 1, 3 do sink:put(tostring(i)) end
      local named, without = assert(store:source("orders", { name = "a" })), assert(store:source "orders")
      for _, first in ipairs { "ack", "nak", "term" } do
        local m = named:take()
        assert.is_true(m:progress())
        assert.is_true(m[first](m))
        for _, method in ipairs { "ack", "nak", "term", "progress" } do assert.is_false(m[method](m)) end
      end
      local m = without:take()
      for _, method in ipairs { "ack", "nak", "term", "progress" } do assert.is_false(m[method](m)) end
      named:close()
      without:close()
    end)
  end)

  claim("`max_running` | integer (messages) | 1000 | how many messages may be unacknowledged", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink, list = assert(store:sink "orders"), {}
      for i = 1, 1100 do list[i] = tostring(i) end
      assert.equal(1100, sink:from(rn.to_chan(list)):take())
      local source, count = assert(store:source("orders", { name = "a" })), 0
      rn.go(function()
        for _ in source do count = count + 1 end
      end)
      rn.sleep(1000)
      assert.equal(1000, count)
      source:close()
    end)
  end)

  claim("the time from the take after which a message that is not acknowledged is delivered again", function()
    with_store(function(store)
      assert(store:stream "orders")
      assert(store:sink "orders"):put "a"
      local source = assert(store:source("orders", { name = "a" }))
      rn.sleep(100000) -- the time does not run while it waits for a taker
      assert.equal(1, source:take().deliveries)
      local taken = sim.elapsed()
      assert.equal(2, source:take().deliveries)
      local ms = sim.elapsed() - taken
      assert.is_true(ms >= 30000 and ms < 31000, ms)
      source:close()
    end)
  end)

  claim("the message is tried again after `backoff` ms (1000; at least half of that, doubled each time, up to a "
    .. "minute)",
    function()
      with_store(function(store)
        assert(store:stream "orders")
        assert(store:sink "orders"):put "a"
        local before = rn.on_error(function() end)
        local times = {}
        local stage = assert(store:stage("orders", 1, function()
          times[#times + 1] = sim.elapsed()
          error "no"
        end, nil, { name = "f", tries = 10 }))
        rn.sleep(600000)
        assert.equal(10, #times)
        for i = 1, 9 do
          local ms, whole = times[i + 1] - times[i], math.min(60000, 1000 * 2 ^ (i - 1))
          assert.is_true(ms >= whole / 2 - 1 and ms <= whole + 1000, ("pause %d is %g ms"):format(i, ms))
        end
        stage:stop()
        rn.on_error(before)
      end)
    end)

  claim("it has failed so `tries` times (5) | `ex_handler(err, value)` is called, and its result stored", function()
    with_store(function(store)
      assert(store:stream "orders")
      assert(store:stream "results")
      assert(store:sink "orders"):put "a"
      local tries = 0
      local stage = assert(store:stage("orders", 1, function()
        tries = tries + 1
        error("no", 0)
      end, "results", { ex_handler = function(err, value) return value .. ": " .. err end }))
      local results = assert(store:source "results")
      assert.equal("a: no", results:take().value)
      assert.equal(5, tries)
      results:close()
      stage:stop()
    end)
  end)

  claim("the message becomes a [dead letter]", function()
    with_store(function(store)
      assert(store:stream "orders")
      assert(store:sink "orders"):put "a"
      local reported
      local before = rn.on_error(function(err) reported = tostring(err) end)
      local stage = assert(store:stage("orders", 1, function() error("no", 0) end, nil, { name = "f", tries = 2 }))
      rn.sleep(60000)
      rn.on_error(before)
      assert.matches("no", reported)
      local letters = assert(store:dead("f"):list())
      assert.same({ 1, "message", "no", "orders", 2 }, { #letters, letters[1].kind, letters[1].error:match "^%l+",
        letters[1].from, letters[1].raises })
      stage:stop()
    end)
  end)

  claim("stages and sources with a name get the message before messages with a lower priority or none", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink = assert(store:sink "orders")
      local source = assert(store:source("orders", { name = "a", max_running = 1 }))
      sink:put "first"
      local m = source:take() -- is not done while the others are put
      for i, priority in ipairs { 0, 1, 9, 5 } do sink:put("v" .. i, { priority = priority }) end
      local order = {}
      for i = 1, 4 do
        m:ack()
        m = source:take()
        order[i] = m.value
      end
      source:close()
      assert.equal("v3 v4 v2 v1", table.concat(order, " "))
      for _, wrong in ipairs { -1, 10, 1.5 } do
        raises("priority", function() sink:put("x", { priority = wrong }) end)
      end
    end)
  end)

  claim("options that are errors | `retention = \"interest\"`, `max_per_subject`, `discard_per_subject`", function()
    with_store(function(store)
      for name, value in pairs { retention = "interest", max_per_subject = 1, discard_per_subject = true } do
        raises(name, function() store:stream("x", { [name] = value }) end)
      end
      assert(store:stream("y", { replicas = 3, storage = "memory" }))
    end)
  end)

  claim("at a limit: drops the oldest message, or refuses the new one", function()
    with_store(function(store)
      for _, discard in ipairs { "old", "new" } do
        assert(store:stream(discard, { max_messages = 2, discard = discard }))
        local sink = assert(store:sink(discard))
        local last
        for i = 1, 3 do last = sink:put("v" .. i) end
        assert.equal(discard == "old", last)
        local state = store:stream(discard):stats()
        assert.same({ 2, discard == "old" and 2 or 1 }, { state.messages, state.first })
      end
    end)
  end)

  claim("how many values of a key it keeps", function()
    with_store(function(store)
      local bucket = assert(store:kv "b")
      local one = bucket:put("k", "1")
      assert.is_number(one)
      assert.same({ "1", one }, { bucket:get "k" })
      assert.is_nil((bucket:create("k", "2")))
      local two = assert(bucket:update("k", "2", one))
      assert.is_nil((bucket:update("k", "3", one)))
      assert.same({ "2", two }, { bucket:get "k" })
      assert.same({ "k" }, bucket:keys())
      bucket:delete "k"
      assert.is_nil((bucket:get "k"))
      assert.same({}, bucket:keys())
      local history = bucket:watch(nil, { from = "all" })
      assert.is_true(history:take().deleted) -- the only one that is kept
      history:close()
      for _, n in ipairs { 0, 65 } do
        local ok, made = pcall(store.kv, store, "c" .. n, { history = n })
        assert.is_falsy(ok and made)
      end
    end)
  end)

  claim("| `limit` | integer (letters) | 100 | how many at most |", function()
    with_store(function(store)
      assert(store:stream "orders")
      local sink, list = assert(store:sink "orders"), {}
      for i = 1, 120 do list[i] = "v" .. i end
      sink:from(rn.to_chan(list)):take()
      local before = rn.on_error(function() end)
      local stage = assert(store:stage("orders", 8, function() error "no" end, nil, { name = "f", tries = 1 }))
      rn.sleep(10000)
      rn.on_error(before)
      local dead = store:dead "f"
      assert.equal(120, dead:count())
      assert.equal(100, #dead:list())
      local rest = dead:list { after = dead:list()[100].sequence }
      assert.equal(20, #rest)
      assert.equal(1, dead:drop(rest[1].sequence))
      assert.equal(119, dead:drop())
      stage:stop()
    end)
  end)
end)
