-- Streams, sinks, sources, durable stages and their dead letters: what is the same on a nats-server and in a store.

local rn = require "runnel"
local background = require "spec.support.background"
local patience = require "spec.support.patience"
local places = require "spec.support.places"
local raises = require "spec.support.raises"
local reported = require "spec.support.stage"

local function take_within(ch, ms) return (rn.alts { ch, rn.timeout(ms) }) end

local function wait_for(condition) assert.is_truthy(background.wait_until(30000, condition)) end

-- A stream with values, and its sink.
local function stored(owner, name, ...)
  local stream = assert(owner:stream(name))
  local sink = assert(owner:sink(name))
  for _, v in ipairs { ... } do assert(sink:put(v)) end
  return sink, stream
end

-- How many messages of a consumer are not done.
local function left(owner, name)
  local queue = assert(owner:queue(name))
  return queue.waiting + queue.running
end

for _, at in ipairs(places) do
  local within = at.within

  describe("a stream " .. at.name, function()
    it("is made, and opened when it exists, with the settings that are asked for", within(function(place)
      local owner = place.owner
      local made = assert(owner:stream("orders", { subjects = "orders.>", max_messages = 100 }))
      assert.same({ "orders.>" }, { table.unpack(made.subjects) })
      assert.equal(120000, made.duplicates)
      assert.equal(made.created, assert(owner:stream "orders").created)
      assert.same({ messages = 0, bytes = 0, first = 0, last = 0, consumers = 0 }, made:state())
      local found, err = owner:stream("orders", { max_messages = 5 })
      assert.is_nil(found)
      assert.matches('^stream "orders" exists with other settings: max_', err)
      assert.is_true(made:change { max_messages = 5 })
      assert(owner:stream("orders", { max_messages = 5 }))
      raises("^stream: name: .*my stream", function() owner:stream "my stream" end)
      raises('^.*unknown option "size"', function() owner:stream("a", { size = 1 }) end)
      raises("^stream: max_messages: an integer", function() owner:stream("a", { max_messages = "5" }) end)
      assert.is_true(made:delete())
      assert.matches('^there is no stream "orders" %(%l+:stream makes one%)', select(2, made:state()))
    end))

    it("has a value when put returns, and a value with one id once", within(function(place)
      local sink, stream = stored(place.owner, "orders")
      assert.same({ true, 1, false }, { sink:put("a", { id = "one" }) })
      assert.same({ true, 1, true }, { sink:put("b", { id = "one" }) })
      assert.same({ true, 2, false }, { sink:put("b") })
      assert.equal(2, stream:state().messages)
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
      assert.equal(1, stream:state().messages)
      raises('^put: "x" is not a subject', function() sink:put("a", { subject = "x" }) end)
      local all = assert(place.owner:sink "orders")
      raises("^put: .*say which subject", function() all:put "a" end)
      raises("^put: id: a string expected, got 7", function() sink:put("a", { id = 7 }) end)
    end))

    it("keeps its limits", within(function(place)
      local owner = place.owner
      local stream = assert(owner:stream("full", { max_messages = 2, discard = "new" }))
      local from = rn.to_chan { "a", "b", "c", "d" }
      assert.same({ nil, "maximum messages exceeded" }, { assert(owner:sink "full"):from(from):take() })
      assert.is_true(from:closed())
      assert.equal(2, stream:purge())
      assert.equal(0, stream:state().messages)
      local last = assert(owner:stream("last", { max_messages = 3 }))
      local sink = assert(owner:sink "last")
      for i = 1, 9 do assert(sink:put(i)) end
      local state = last:state()
      assert.same({ 3, 7, 9 }, { state.messages, state.first, state.last })
    end))

    it("that is missing is an error that says so", within(function(place)
      local owner, absent = place.owner, '^%l+: there is no stream "no" %(%l+:stream makes one%)'
      stored(owner, "words")
      assert.matches(absent, select(2, owner:sink "no"))
      assert.matches(absent, select(2, owner:source "no"))
      assert.matches(absent, select(2, owner:source("no", { name = "shop" })))
      assert.matches(absent, select(2, owner:stage(1, "words", print, "no")))
      assert.matches(absent, select(2, owner:stage(1, "no", print, "words")))
    end))
  end)

  describe("a source " .. at.name, function()
    it("gives messages until they are acknowledged", within(function(place)
      stored(place.owner, "orders", 1, 2, 3, 4)
      local source = assert(place.owner:source("orders", { name = "shop" }))
      local first = source:take()
      assert.same({ 1, 1, 1, 3 }, { first.value, first.sequence, first.deliveries, first.pending })
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
      local source = assert(place.owner:source("orders", { name = "shop" }))
      source:take():ack()
      source:close()
      local other, seen = assert(place.open():source("orders", { name = "shop" })), {}
      while not (seen[2] and seen[3] and seen[4] and seen[5]) do
        local m = assert(take_within(other, 30000))
        seen[m.value] = true
        m:ack()
      end
      assert.is_nil(seen[1])
      other:close()
    end))

    it("has at most max_ack_pending messages that are not acknowledged", within(function(place)
      stored(place.owner, "orders", 1, 2, 3, 4, 5)
      local source = assert(place.owner:source("orders", { name = "shop", max_ack_pending = 3 }))
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
      assert.matches('"shop" .*exists with other settings: ack_wait is 1000%d*, not 2000', err)
      raises("^source: ack_wait: only a source with a name acknowledges; give it a name", function()
        owner:source("orders", { ack_wait = 1 })
      end)
      raises("^source: name", function() owner:source("orders", { name = "a b" }) end)
      raises("^source: from", function() owner:source("orders", { from = 0 }) end)
      for option, value in pairs { max_ack_pending = 0, tries = "1", subject = "a b", ack = "always", ack_wait = 9 } do
        raises(("^source: %s: .* expected, got "):format(option), function()
          owner:source("orders", { name = "shop", [option] = value })
        end)
      end
      raises('unknown option "names"', function() owner:source("orders", { names = "a" }) end)
    end))
  end)

  describe("a stage " .. at.name, function()
    it("stores the results of each message, several or none, and ends it", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      local _, letters = stored(owner, "letters")
      local out = assert(owner:source "letters")
      local stage = assert(owner:stage(1, "words", function(word) return word:byte(1, -1) end, "letters"))
      for _, word in ipairs { "ab", "", "c" } do assert(words:put(word)) end
      for _, letter in ipairs { 97, 98, 99 } do assert.equal(letter, out:take().value) end
      wait_for(function() return stage:stats().done == 3 end)
      assert.is_true(stage:drain(10000))
      assert.equal(3, letters:state().messages)
      assert.same({ done = 3, failed = 0, given_up = 0, redelivered = 0, running = 0, waiting = 0, duplicates = 0 },
        stage:stats())
      assert.is_true(stage:done():closed())
      assert.is_true(stage:wait())
      out:close()
    end))

    it("never calls its function more than n times at once, and shares messages with other processes", within(
      function(place)
        stored(place.owner, "out")
        stored(place.owner, "words", 1, 2, 3, 4, 5, 6, 7, 8)
        local stages, calls, over = {}, { 0, 0 }, rn.chan()
        for i = 1, 2 do
          local owner = i == 1 and place.owner or place.open()
          stages[i] = assert(owner:stage(4, "words", function()
            calls[i] = calls[i] + 1
            over:take()
          end, "out"))
          wait_for(function() return calls[i] == 4 end)
        end
        rn.sleep(50)
        assert.same({ 4, 4 }, calls)
        over:close()
        for _, s in ipairs(stages) do s:drain() end
      end))

    it("gives each stage all messages", within(function(place)
      stored(place.owner, "words", 1, 2, 3)
      local sums = { 0, 0 }
      for i, name in ipairs { "a", "b" } do
        assert(place.owner:stage(2, "words", function(v) sums[i] = sums[i] + v end, nil, { name = name }))
      end
      wait_for(function() return sums[1] == 6 and sums[2] == 6 end)
    end))

    it("tries again what fails, and then asks ex_handler, or gives up and reports", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      stored(owner, "out")
      local out, calls = assert(owner:source "out"), 0
      local stage = assert(owner:stage(1, "words", function(word)
        calls = calls + 1
        error("no " .. word, 0)
      end, "out", { tries = 3, retry = 10, ex_handler = function(err, word) return ("%s: %s"):format(word, err) end }))
      assert(words:put "a")
      assert.equal("a: no a", out:take().value)
      assert.equal(3, calls)
      stage:drain()

      local reports = rn.chan(1)
      local before = rn.on_error(function(err, _, where) reports:put_async { err, where } end)
      local strict = assert(owner:stage(1, "words", function() error("no", 0) end, nil, { name = "strict", tries = 1 }))
      local report = reports:take()
      rn.on_error(before)
      assert.equal("no", report[1])
      assert.matches("^message 1 of words, given up", report[2])
      wait_for(function() return strict:stats().given_up == 1 end)
      strict:drain()
      out:close()
    end))

    it("waits while the stream of its results is full", within(function(place)
      local owner = place.owner
      local out = assert(owner:stream("out", { max_messages = 1, discard = "new" }))
      stored(owner, "words", 1, 2)
      local tried = rn.chan(10)
      local stage = assert(owner:stage(1, "words", function(v)
        tried:put(v)
        return v
      end, "out"))
      assert.equal(1, tried:take())
      assert.equal(2, tried:take())
      rn.sleep(100) -- it tries to store the second result
      assert.equal(1, stage:stats().done)
      assert.equal(1, out:purge())
      wait_for(function() return stage:stats().done == 2 end)
      assert.equal(0, stage:stats().failed)
      assert.is_nil((tried:poll()))
      stage:drain()
    end))

    it("gives a message up if ex_handler raises, too, or if its results cannot be stored", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      assert(owner:stream("out", { max_message = 200 }))
      local errors = rn.chan(10)
      local before = rn.on_error(function(err) errors:put_async(err) end)
      local stage = assert(owner:stage(1, "words", function(v)
        if v == "raises" then error("no", 0) end
        return ("a"):rep(250)
      end, "out", { tries = 1, ex_handler = function(err) error("not " .. err, 0) end }))
      assert(words:put "raises")
      assert.equal("not no", errors:take())
      assert(words:put "long")
      assert.equal("not message size exceeds maximum allowed", errors:take())
      rn.on_error(before)
      wait_for(function() return stage:stats().given_up == 2 end)
      stage:drain()
    end))

    it("that is stopped too slowly cancels its calls, whose messages go to others", within(function(place)
      stored(place.owner, "words", "a")
      local started = rn.chan(1)
      local stage = assert(place.owner:stage(1, "words", function()
        started:put(true)
        rn.sleep(1e6)
      end, nil, { name = "slow" }))
      started:take()
      assert.is_false(stage:drain(50))
      local other = assert(place.open():source("words", { name = "slow" }))
      assert.equal("a", assert(take_within(other, 20000)).value)
      other:close()
    end))

    it("starts nothing while its queue is paused, also one that starts later", within(function(place)
      local words = stored(place.owner, "words")
      local done = {}
      local function start()
        return assert(place.open():stage(2, "words", function(v) done[#done + 1] = v end, nil, { name = "n" }))
      end
      local first = start()
      local queue = assert(place.owner:queue "n")
      assert.same({ "words/n", "messages", false, 0, 0 },
        { queue.name, queue.kind, queue.paused, queue.waiting, queue.running })
      assert.equal(1, queue:pause(10000))
      local second = start()
      for i = 1, 5 do assert(words:put(i)) end
      rn.sleep(250)
      assert.same({}, done)
      assert.equal(5, left(place.owner, "n"))
      assert.equal(2, assert(place.owner:queue "n"):resume(10000))
      wait_for(function() return #done == 5 end)
      wait_for(function() return assert(place.owner:queue "n").done == 5 end)
      first:drain()
      second:drain()
    end))

    it("starts calls only as often as `rate` says, in all processes together", within(function(place)
      stored(place.owner, "words", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
      local started = {}
      for _ = 1, 2 do
        assert(place.open():stage(4, "words", function() started[#started + 1] = rn.now() end, nil,
          { name = "paced", rate = { 5, 500 } }))
      end
      wait_for(function() return #started == 12 end)
      table.sort(started)
      -- It is never early, but for the time between its start and the call.
      for i = 6, 12 do assert.is_true(started[i] - started[i - 5] > 350, started[i] - started[i - 5]) end
    end))

    it("cancels a call that waits for longer than the limit", within(function(place)
      stored(place.owner, "words", "park", "fine")
      local done, dead = {}, place.owner:dead "n"
      local reports = reported.report_texts(function()
        local stage = assert(place.owner:stage(2, "words", function(v)
          if v == "park" then rn.sleep(1e6) end
          done[#done + 1] = v
        end, nil, { name = "n", limit = 100, tries = 2, retry = 10 }))
        wait_for(function() return dead:count() == 1 end)
        wait_for(function() return stage:stats().done == 1 end)
        stage:drain()
      end)
      assert.same({ "fine" }, done)
      assert.same({ "stage n: a call took longer than the limit of 100 ms" }, reports)
      assert.same({ 2, "park" }, { dead:list()[1].raises, dead:get(1).value })
    end))

    it("has dead letters, which are listed, shown, replayed for it only, and dropped", within(function(place)
      local owner = place.owner
      local mended, others = false, 0
      stored(owner, "words", "a", "b")
      local reports = reported.report_texts(function()
        local stage = assert(owner:stage(2, "words", function(v, m)
          if not mended then error("no " .. v) end
          assert.equal("words", m.subject)
          return v .. "!"
        end, nil, { name = "n", tries = 1 }))
        local other = assert(owner:stage(1, "words", function() others = others + 1 end, nil, { name = "other" }))
        local dead = owner:dead "n"
        wait_for(function() return stage:stats().given_up == 2 and others == 2 end)
        local list = assert(dead:list { limit = 1 })
        assert.equal(1, #list)
        assert.matches("no [ab]$", list[1].error)
        assert.matches("stack traceback", list[1].traceback)
        assert.same({ 1, 1, "n", "words" }, { list[1].starts, list[1].raises, list[1].name, list[1].from })
        assert.equal(2, assert(dead:list { after = 1 })[1].sequence)
        assert.same({ nil, "there is no dead letter 7 of n" }, { dead:get(7) })
        mended = true
        assert.is_true(dead:replay(1))
        wait_for(function() return stage:stats().done == 1 end)
        assert.equal(1, dead:drop(2))
        assert.equal(0, dead:count())
        wait_for(function() return owner:stream("words"):state().messages == 3 end)
        rn.sleep(50)
        assert.equal(2, others)
        stage:drain()
        other:drain()
      end)
      assert.equal(2, #reports)
    end))

    it("waits until the time of a put", within(function(place)
      local sink = stored(place.owner, "words")
      local start, order, times = rn.now(), {}, {}
      assert(sink:put("late", { delay = 1000 }))
      assert(sink:put("later", { at = os.time() * 1000 + 2000 }))
      assert(sink:put "now")
      local stage = assert(place.owner:stage(1, "words", function(v)
        order[#order + 1], times[v] = v, rn.now() - start
      end, nil, { name = "n" }))
      wait_for(function() return stage:stats().done == 3 end)
      assert.same({ "now", "late", "later" }, order)
      assert.is_true(times.later > 500, times.later) -- clocks of seconds
      stage:drain()
    end))

    it("calls the function that a module returns", within(function(place)
      package.preload["spec.shouts"] = function() return string.upper end
      stored(place.owner, "words", "a")
      stored(place.owner, "out")
      local stage = assert(place.owner:stage(1, "words", "spec.shouts", "out"))
      package.preload["spec.shouts"], package.loaded["spec.shouts"] = nil, nil
      assert.equal("A", assert(take_within(assert(place.owner:source "out"), 20000)).value)
      stage:drain()
    end))

    it("is drained by SIGTERM, after which the program ends", within(function(place)
      local words = stored(place.owner, "words")
      stored(place.owner, "out")
      local out = assert(place.owner:source "out")
      local program = place.started [[
        local stage = assert(owner:stage(1, "words", function(v)
          rn.sleep(200)
          return v
        end, "out"))
        print "ready"
        io.stdout:flush()
        stage:wait()
        print "ended"
      ]]
      assert.is_true(program:says "ready", program:output())
      assert(words:put "a")
      wait_for(function() return assert(place.owner:queue "out").running == 1 end)
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.matches("ended", program:output())
      assert.equal("a", assert(take_within(out, 20000)).value)
      out:close()
    end))

    it("refuses wrong arguments", within(function(place)
      local owner = place.owner
      stored(owner, "words")
      local function f() end
      raises("^.*needs the option name", function() owner:stage(1, "words", f) end)
      raises("^stage: n", function() owner:stage(0, "words", f, "out") end)
      raises("^stage: f", function() owner:stage(1, "words", nil, "out") end)
      raises('^stage: the module "no.such" cannot be loaded', function() owner:stage(1, "words", "no.such", "out") end)
      raises("^stage: rate: calls a second", function() owner:stage(1, "words", f, nil, { name = "x", rate = 0 }) end)
      for option, wrong in pairs { limit = 1, starts = 0, tries = 0, retry = -1, dead = 1, drain_on_term = 1 } do
        raises(("^stage: %s: .* expected, got "):format(option), function()
          owner:stage(1, "words", f, nil, { name = "x", [option] = wrong })
        end)
      end
      raises('^stage: unknown option "x"', function() owner:stage(1, "words", f, "out", { x = 1 }) end)
      raises("^dead: name", function() owner:dead "a.b" end)
    end))
  end)

  describe("a bucket " .. at.name, function()
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
      local present, all = assert(bucket:watch()), assert(bucket:watch(">", { history = true }))
      local updates = assert(place.open():kv "settings"):watch("a.*", { updates_only = true })
      assert.same({ "b.x", 2, 2, false }, next_of(present))
      local last = present:take()
      assert.same({ "a.x", 4, 4, 0 }, { last.key, last.value, last.revision, last.pending })
      for _, revision in ipairs { 2, 3, 4 } do assert.equal(revision, next_of(all)[3]) end
      rn.sleep(50) -- watches begin
      assert(bucket:put("b.x", 5))
      assert(bucket:delete "a.x")
      assert.same({ "b.x", 5, 5, false }, next_of(present))
      for _, ch in ipairs { present, updates } do assert.same({ "a.x", nil, 6, true }, next_of(ch)) end
      for _, ch in ipairs { present, all, updates } do ch:close() end
    end))

    it("forgets values that are older than ttl", within(function(place)
      local bucket = assert(place.owner:kv("short", { ttl = 300 }))
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
