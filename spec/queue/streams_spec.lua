-- Streams, sinks, sources and buckets: what is the same on a nats-server and in a store.

local rn = require "runnel"
local patience = require "spec.support.patience"
local places = require "spec.support.queue.places"
local raises = require "spec.support.raises"

local left, stored, take_within, wait_for = places.left, places.stored, places.take_within, patience.wait_for

for _, at in ipairs(places) do
  local within = at.within

  describe("a stream " .. at.name, function()
    if at.missing then return pending(at.missing) end

    it("is made, and opened when it exists, with the settings that are asked for", within(function(place)
      local owner = place.owner
      local made = assert(owner:stream("orders", { subjects = "orders.>", max_messages = 100 }))
      assert.same({ "orders.>" }, { table.unpack(made.subjects) })
      assert.equal(120000, made.duplicates)
      assert.equal(made.created, assert(owner:stream "orders").created)
      assert.same({ messages = 0, bytes = 0, first = 0, last = 0, consumers = 0 }, made:stats())
      local found, err = owner:stream("orders", { max_messages = 5 })
      assert.is_nil(found)
      assert.matches('^stream "orders" exists with other settings: max_', err)
      assert.is_true(made:change { max_messages = 5 })
      assert(owner:stream("orders", { max_messages = 5 }))
      raises("^stream: name: .*my stream", function() owner:stream "my stream" end)
      raises('^.*unknown option "size"', function() owner:stream("a", { size = 1 }) end)
      raises("^stream: max_messages: an integer", function() owner:stream("a", { max_messages = "5" }) end)
      assert.is_true(made:delete())
      assert.matches('^there is no stream "orders" %(%l+:stream makes one%)', select(2, made:stats()))
    end))

    it("keeps messages for ever with a max_age of 0, also after a change", within(function(place)
      local owner = place.owner
      local stream = assert(owner:stream("orders", { max_age = 5000, duplicates = 1000 }))
      assert.matches("other settings: max_age", select(2, owner:stream("orders", { max_age = 0 })))
      assert.is_true(stream:change { max_age = 0 })
      assert(owner:stream("orders", { max_age = 0 }))
      assert.matches("other settings: max_age", select(2, owner:stream("orders", { max_age = 5000 })))
      assert.is_true(stream:change { max_age = 6000 })
      assert(owner:stream("orders", { max_age = 6000 }))
      assert(owner:stream("new", { max_age = 0 }))
      assert.matches("other settings: max_age", select(2, owner:stream("new", { max_age = 5000 })))
    end))

    it("has the defaults of the manual: storage, replicas, retention, discard, duplicates", within(function(place)
      local owner = place.owner
      assert(owner:stream "orders")
      local defaults = { storage = "file", replicas = 1, retention = "limits", discard = "old", duplicates = 120000 }
      assert(owner:stream("orders", defaults))
      local stream = assert(owner:stream("orders", { subjects = "orders" }))
      for name, value in pairs { retention = "workqueue", discard = "new", max_age = 60000, duplicates = 1000 } do
        assert.is_nil((owner:stream("orders", { [name] = value })), name)
      end
      local sink, source = assert(owner:sink "orders"), assert(owner:source("orders", { name = "shop" }))
      assert(sink:put "a")
      assert.is_true(source:take():ack())
      source:close()
      assert.equal(1, stream:stats().messages)
    end))

    it("has a value when put returns, and a value with one id once", within(function(place)
      local sink, stream = stored(place.owner, "orders")
      assert.same({ true, 1, false }, { sink:put("a", { id = "one" }) })
      assert.same({ true, 1, true }, { sink:put("b", { id = "one" }) })
      assert.same({ true, 2, false }, { sink:put("b") })
      assert.equal(2, stream:stats().messages)
      sink:close()
      assert.same({ false, "the sink is closed" }, { sink:put "c" })
    end))

    it("stores the values of a channel in order, and says how many", within(function(place)
      local sink = stored(place.owner, "orders")
      local list = {}
      for i = 1, 50 do list[i] = i end
      assert.equal(50, sink:from(rn.to_chan(list)):take())
      local source = assert(place.owner:source "orders")
      for i = 1, 50 do assert.equal(i, source:take().value) end
      source:close()
    end))

    it("has subjects, of which any can be removed", within(function(place)
      local stream = assert(place.owner:stream("orders", { subjects = { "orders.*" } }))
      local sink = assert(place.owner:sink("orders", { subject = "orders.old" }))
      for i = 1, 3 do
        assert(sink:put({ n = i }, { subject = i == 1 and "orders.new" or nil, headers = { A = "b" } }))
      end
      local source = assert(place.owner:source "orders")
      local m = source:take()
      assert.same({ { n = 1 }, "orders.new", "b" }, { m.value, m.subject, m.headers.A })
      assert.is_true(math.abs(m.time - os.time() * 1000) < 10000)
      source:close()
      assert.equal(2, stream:purge "orders.old")
      assert.equal(1, stream:stats().messages)
      raises('^put: "x" is not a subject', function() sink:put("a", { subject = "x" }) end)
      local all = assert(place.owner:sink "orders")
      raises("^put: .*say which subject", function() all:put "a" end)
      raises("^put: id: a string expected, got 7", function() sink:put("a", { id = 7 }) end)
      for _, id in ipairs { "", "a\n" } do
        raises("^put: id: a string without control characters, not empty, expected, got \"", function()
          sink:put("a", { id = id })
        end)
      end
    end))

    it("refuses subjects that no server would take, at the program's line, and stores nothing", within(function(place)
      local owner = place.owner
      local stream = assert(owner:stream("orders", { subjects = { "orders", "orders.>" } }))
      local sink = assert(owner:sink("orders", { subject = "orders" }))
      for _, subject in ipairs {
        "", "orders.", ".orders", "orders..x", "orders.a b", "orders.a\0b", "orders.a\nb", "orders.\127", "orders.*",
        "orders.>", "*", ">", "orders.*.x", "orders.>.x",
      } do
        raises("^put: a subject expected, got ", function() sink:put("a", { subject = subject }) end)
        raises("^put: a subject expected, got ", function() owner:sink("orders", { subject = subject }) end)
      end
      for _, pattern in ipairs { "", "orders.", "orders..", "orders.>.x", ">.x", "a b", "orders.a\0b", 5 } do
        local got = "a subject, or a list of them, expected, got "
        if type(pattern) == "string" then got = "a subject expected, got " end
        raises("^source: subject: a subject expected, got ", function()
          owner:source("orders", { subject = pattern })
        end)
        raises("^stream: subjects: " .. got, function() owner:stream("x", { subjects = { pattern } }) end)
        raises("^stage: subject: a subject expected, got ", function()
          owner:stage("orders", 1, print, nil, { name = "n", subject = pattern })
        end)
      end
      assert.equal(0, stream:stats().messages)
      for _, subject in ipairs { "orders.a*b", "orders.a>", "orders.'", "orders.ä", "orders.a.b.c" } do
        assert.is_true((sink:put("a", { subject = subject })))
        assert.equal(subject, assert(owner:source("orders", { subject = subject })):take().subject)
      end
      for _, name in ipairs { "\255", "a\255b", ("n"):rep(256) } do
        raises("^stream: name: a name of at most 255 bytes, in UTF%-8, expected", function() owner:stream(name) end)
      end
      raises("^stream: description: a text in UTF%-8 expected", function()
        owner:stream("x", { description = "\255" })
      end)
    end))

    it("keeps all headers of a message, or refuses it at the program's line", within(function(place)
      local sink, stream = stored(place.owner, "orders")
      for _, headers in ipairs {
        { ["a b"] = "x" }, { [""] = "x" }, { ["a:b"] = "x" }, { ["a\n"] = "x" }, { "x" }, { a = true }, { a = {} },
        { a = "x\r\ny: z" }, { a = "x\0" }, { a = 0 / 0 }, { a = 1 / 0 }, { a = { "x", 5 } }, { a = print },
      } do
        headers.other = "right"
        raises("^put: headers: ", function() sink:put("a", { headers = headers }) end)
      end
      raises("^put: headers: a table expected", function() sink:put("a", { headers = "x" }) end)
      if place.owner.db then
        raises('^put: headers: a text expected as "a", got a text that is not UTF%-8$', function()
          sink:put("a", { headers = { a = "\255", b = "right" } })
        end)
        raises("^put: headers: a name", function() sink:put("a", { headers = { ["\255"] = "x" } }) end)
      end
      assert.equal(0, stream:stats().messages)
      assert(sink:put("a", { headers = { a = "ä", ["x-y"] = "-", B = "text: of, \"one\" line" } }))
      local m = assert(place.owner:source "orders"):take()
      assert.same({ "ä", 'text: of, "one" line' }, { m.headers.a, m.headers.B })
    end))

    it("lets a put that is cancelled end with the reason, whatever it waits for", within(function(place)
      local sink = stored(place.owner, "orders")
      local pause, is_put = 0.01, false
      while not is_put do
        local block = rn.go(function()
          assert(sink:put("a"))
          is_put = true
          return true
        end)
        rn.sleep(pause)
        pause = pause * 1.2 + 0.01
        rn.cancel(block, "the reason")
        local _, err = block:take()
        assert.equal(not is_put and "the reason" or nil, err)
      end
    end))

    it("keeps its limits", within(function(place)
      local owner = place.owner
      local stream = assert(owner:stream("full", { max_messages = 2, discard = "new" }))
      local from = rn.to_chan { "a", "b", "c", "d" }
      assert.same({ nil, "maximum messages exceeded" }, { assert(owner:sink "full"):from(from):take() })
      assert.is_true(from:closed())
      assert.equal(2, stream:purge())
      assert.equal(0, stream:stats().messages)
      local last = assert(owner:stream("last", { max_messages = 3 }))
      local sink = assert(owner:sink "last")
      for i = 1, 9 do assert(sink:put(i)) end
      local state = last:stats()
      assert.same({ 3, 7, 9 }, { state.messages, state.first, state.last })
    end))

    it("that is missing is an error that says so", within(function(place)
      local owner, absent = place.owner, '^%l+: there is no stream "no" %(%l+:stream makes one%)'
      stored(owner, "words")
      assert.matches(absent, select(2, owner:sink "no"))
      assert.matches(absent, select(2, owner:source "no"))
      assert.matches(absent, select(2, owner:source("no", { name = "shop" })))
      assert.matches(absent, select(2, owner:stage("words", 1, print, "no")))
      assert.matches(absent, select(2, owner:stage("no", 1, print, "words")))
    end))
  end)

  describe("a source " .. at.name, function()
    if at.missing then return pending(at.missing) end

    it("gives messages until they are acknowledged", within(function(place)
      stored(place.owner, "orders", 1, 2, 3, 4)
      local source = assert(place.owner:source("orders", { name = "shop" }))
      local first = source:take()
      assert.same({ 1, 1, 1, 3 }, { first.value, first.sequence, first.deliveries, first.remaining })
      assert.is_true(first:ack())
      assert.is_false(first:ack())
      source:take():nak()
      source:take():nak(50)
      source:take():term()
      local again = { source:take(), source:take() }
      assert.same({ 2, 2 }, { again[1].value, again[1].deliveries })
      assert.same({ 3, 2 }, { again[2].value, again[2].deliveries })
      again[1]:ack()
      wait_for(function() return left(place.owner, "shop") == 1 end)
      again[2]:ack()
      wait_for(function() return left(place.owner, "shop") == 0 end)
      source:close()
    end))

    it("gives a message again that is not acknowledged within ack_wait, but for progress", within(function(place)
      stored(place.owner, "orders", 1)
      local wait = math.ceil(100 * patience.factor())
      local source = assert(place.owner:source("orders", { name = "shop", ack_wait = wait }))
      local m = source:take()
      for _ = 1, 4 do
        rn.sleep(wait / 2)
        assert.is_true(m:progress())
      end
      local late = source:take()
      assert.same({ 1, 2 }, { late.value, late.deliveries })
      late:ack()
      source:close()
    end))

    it("keeps messages that wait for a taker for longer than ack_wait", within(function(place)
      stored(place.owner, "orders", 1, 2, 3)
      local wait = math.ceil(100 * patience.factor())
      local source = assert(place.owner:source("orders", { name = "shop", ack_wait = wait }))
      rn.sleep(2 * wait)
      for i = 1, 3 do
        local m = source:take()
        assert.same({ i, 1 }, { m.value, m.deliveries })
        m:ack()
      end
      source:close()
    end))

    it("gives back what nobody has taken when its channel closes", within(function(place)
      stored(place.owner, "orders", 1, 2, 3, 4, 5)
      local wait = math.ceil(1000 * patience.factor())
      local source = assert(place.owner:source("orders", { name = "shop", ack_wait = wait }))
      source:take():ack()
      source:close()
      local closed_at, late = rn.now(), 0
      local other, seen = assert(place.open():source("orders", { name = "shop" })), {}
      while not (seen[2] and seen[3] and seen[4] and seen[5]) do
        local m = assert(take_within(other, 30000 + 2 * wait))
        seen[m.value] = true
        if rn.now() - closed_at >= wait / 2 then late = late + 1 end
        m:ack()
      end
      assert.is_nil(seen[1])
      -- nats-server 2.9.10 forgets a message that is given back while it has a request of the closed source: it comes
      -- after ack_wait.
      assert.is_true(late <= (at.name == "in a store" and 0 or 1), late)
      other:close()
    end))

    it("has at most max_running messages that are not acknowledged", within(function(place)
      stored(place.owner, "orders", 1, 2, 3, 4, 5)
      local source = assert(place.owner:source("orders", { name = "shop", max_running = 3 }))
      local held = { source:take(), source:take(), source:take() }
      assert.is_nil(take_within(source, 150))
      held[2]:ack()
      assert.equal(4, take_within(source, 10000).value)
      source:close()
    end))

    it("acknowledges messages when they are taken, if it should", within(function(place)
      stored(place.owner, "orders", 1, 2)
      local source = assert(place.owner:source("orders", { name = "shop", ack = "taken" }))
      assert.equal(1, source:take().value)
      assert.is_false(source:take():ack())
      wait_for(function() return left(place.owner, "shop") == 0 end)
      source:close()
    end))

    it("begins where it should, with the subjects that it should", within(function(place)
      assert(place.owner:stream("orders", { subjects = { "orders.*" } }))
      local sink = assert(place.owner:sink "orders")
      for i = 1, 6 do assert(sink:put(i, { subject = i % 2 == 0 and "orders.even" or "orders.odd" })) end
      local function first(opts)
        local source = assert(place.owner:source("orders", opts))
        local m = take_within(source, opts.from == "new" and 150 or 10000)
        source:close()
        return m and m.value
      end
      assert.equal(2, first { subject = "orders.even" })
      assert.equal(6, first { from = "last" })
      assert.equal(4, first { from = 4 })
      assert.is_nil(first { from = "new" })
      assert.equal(3, first { name = "odd", from = 2, subject = "orders.odd" })
    end))

    it("without a name has every message once and in order, also those that come later", within(function(place)
      local sink = stored(place.owner, "orders", 1, 2)
      local source = assert(place.open():source "orders")
      for i = 1, 2 do assert.equal(i, source:take().value) end
      for i = 3, 100 do assert(sink:put(i)) end
      for i = 3, 100 do assert.equal(i, take_within(source, 10000).value) end
      source:close()
    end))

    it("closes with an error when its stream or its consumer is deleted", within(function(place)
      local _, stream = stored(place.owner, "orders")
      local named = assert(place.owner:source("orders", { name = "shop" }))
      local unnamed = assert(place.owner:source "orders")
      assert(stream:delete_consumer "shop")
      assert.same({ nil, 'source: the consumer "shop" of the stream "orders" was deleted' }, { named:take() })
      assert(stream:delete())
      local value, err = unnamed:take()
      assert.is_nil(value)
      assert.matches('^source: the stream "orders" was deleted', err)
    end))

    it("refuses wrong arguments, and a consumer with other settings", within(function(place)
      local owner = place.owner
      stored(owner, "orders")
      assert(owner:source("orders", { name = "shop", ack_wait = 1000 })):close()
      local found, err = owner:source("orders", { name = "shop", ack_wait = 2000 })
      assert.is_nil(found)
      assert.matches('"shop" .*exists with other settings: ack_wait is 1000, not 2000', err)
      raises("^source: ack_wait: only a source with a name acknowledges; give it a name", function()
        owner:source("orders", { ack_wait = 100 })
      end)
      raises("^source: name", function() owner:source("orders", { name = "a b" }) end)
      raises("^source: from", function() owner:source("orders", { from = 0 }) end)
      raises('^source: encoding: "raw", "msgpack" or "json" expected, got "xml"$', function()
        owner:source("orders", { encoding = "xml" })
      end)
      for option, value in pairs { max_running = 0, tries = "1", subject = "a b", ack = "always", ack_wait = 9 } do
        raises(("^source: %s: .* expected, got "):format(option), function()
          owner:source("orders", { name = "shop", [option] = value })
        end)
      end
      raises('unknown option "names"', function() owner:source("orders", { names = "a" }) end)
    end))
  end)

  describe("a bucket " .. at.name, function()
    if at.missing then return pending(at.missing) end

    it("gets, puts, creates, updates and deletes values with their revisions", within(function(place)
      local bucket = assert(place.owner:kv "settings")
      assert.same({}, { bucket:get "colour" })
      assert.equal(1, bucket:put("colour", "red"))
      assert.same({ "red", 1 }, { bucket:get "colour" })
      assert.equal(2, bucket:update("colour", { 1, "two" }, 1))
      assert.same({ { 1, "two" }, 2 }, { bucket:get "colour" })
      assert.same({ nil, 'the key "colour" has revision 2' }, { bucket:update("colour", "blue", 1) })
      assert.same({ nil, 'the key "colour" has a value, of revision 2' }, { bucket:create("colour", "blue") })
      assert.same({ nil, 'the key "colour" has revision 2' }, { bucket:delete("colour", 1) })
      assert.same({ nil, 'the key "none" has no value' }, { bucket:update("none", 1, 7) })
      assert.equal(3, bucket:delete "colour")
      assert.same({}, { bucket:get "colour" })
      assert.equal(4, bucket:create("colour", "green"))
      assert.equal(5, bucket:create("size.large", 7))
      assert.equal(6, bucket:put("gone", 1))
      assert.equal(7, bucket:delete "gone")
      assert.same({ "colour", "size.large" }, assert(place.open():kv "settings"):keys())
      assert.same({}, assert(place.owner:kv "empty"):keys())
      assert.is_true(bucket:destroy())
      assert.matches("not found", select(3, bucket:get "a"))
    end))

    it("creates a value where another program deletes the key just before it is stored", within(function(place)
      local bucket, other = assert(place.owner:kv "settings"), assert(place.open():kv "settings")
      assert.equal(1, bucket:put("colour", "red"))
      assert.equal(2, bucket:delete "colour")
      local last, looks = bucket.last, 0
      function bucket:last(key)
        looks = looks + 1
        local found, err = last(self, key)
        if looks == 1 then assert.equal(3, other:delete "colour") end
        if looks == 2 then assert(other:put("colour", "blue") and other:delete "colour") end
        return found, err
      end
      assert.equal(6, bucket:create("colour", "green"))
      assert.equal(3, looks)
      assert.same({ "green", 6 }, { other:get "colour" })
    end))

    it("lets one of many updates of one revision win", within(function(place)
      local bucket = assert(place.owner:kv "counter")
      assert(bucket:put("n", 0))
      local done = {}
      for i = 1, 5 do
        done[i] = rn.go(function()
          for _ = 1, 10 do
            repeat
              local value, revision = bucket:get "n"
            until bucket:update("n", value + 1, revision)
          end
        end)
      end
      for i = 1, 5 do done[i]:take() end
      assert.equal(50, (bucket:get "n"))
    end))

    it("is watched: its present values, or all that it keeps, and then its changes", within(function(place)
      local bucket = assert(place.owner:kv("settings", { history = 2 }))
      for i, key in ipairs { "a.x", "b.x", "a.x", "a.x" } do assert.equal(i, bucket:put(key, i)) end
      local function next_of(ch)
        local change = assert(take_within(ch, 10000), "no change came")
        return { change.key, change.value, change.revision, change.deleted }
      end
      local present, all = assert(bucket:watch()), assert(bucket:watch(">", { from = "all" }))
      local updates = assert(place.open():kv "settings"):watch("a.*", { from = "new" })
      assert.same({ "b.x", 2, 2, false }, next_of(present))
      local last = present:take()
      assert.same({ "a.x", 4, 4, 0 }, { last.key, last.value, last.revision, last.remaining })
      for _, revision in ipairs { 2, 3, 4 } do assert.equal(revision, next_of(all)[3]) end
      rn.sleep(50) -- watches begin
      assert(bucket:put("b.x", 5))
      assert(bucket:delete "a.x")
      assert.same({ "b.x", 5, 5, false }, next_of(present))
      for _, ch in ipairs { present, updates } do assert.same({ "a.x", nil, 6, true }, next_of(ch)) end
      for _, ch in ipairs { present, all, updates } do ch:close() end
    end))

    it("has one value of a key, in a file, on one server, if no option says otherwise", within(function(place)
      local owner = place.owner
      local bucket = assert(owner:kv "settings")
      assert(owner:kv("settings", { history = 1, storage = "file", replicas = 1 }))
      assert.matches("is 1, not 2", select(2, owner:kv("settings", { history = 2 })))
      assert(bucket:put("a", ("x"):rep(100000)))
    end))

    it("refuses values that are larger than max_value", within(function(place)
      local bucket = assert(place.owner:kv("small", { max_value = 1000 }))
      assert(bucket:put("a", ("x"):rep(500)))
      local revision, err = bucket:put("a", ("x"):rep(2000))
      assert.is_nil(revision)
      assert.equal("message size exceeds maximum allowed", err)
      assert.equal(("x"):rep(500), (bucket:get "a"))
    end))

    it("forgets values that are older than max_age", within(function(place)
      local bucket = assert(place.owner:kv("short", { max_age = 300 }))
      assert(bucket:put("a", 1))
      wait_for(function() return bucket:get "a" == nil end)
      assert.same({}, bucket:keys())
      assert(bucket:create("a", 2))
    end))

    it("refuses wrong keys, and a bucket with other settings", within(function(place)
      local bucket = assert(place.owner:kv("settings", { history = 2 }))
      raises("^put: a key", function() bucket:put("a b", "") end)
      raises("^get: a key", function() bucket:get "a..b" end)
      raises("^put: value: .*function", function() bucket:put("a", print) end)
      raises("^kv: name", function() place.owner:kv "a b" end)
      raises("^kv: history: an integer from 1 to 64 expected, got 65", function()
        place.owner:kv("x", { history = 65 })
      end)
      raises("^watch: a key or a pattern expected, got 7", function() bucket:watch(7) end)
      local other, err = place.owner:kv("settings", { history = 3 })
      assert.is_nil(other)
      assert.matches('^bucket "settings".* exists with other settings: %S+ is 2, not 3', err)
    end))
  end)
end
