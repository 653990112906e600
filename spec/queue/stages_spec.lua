-- Durable stages and their dead letters: what is the same on a nats-server and in a store.

local hand_back = require "runnel.queue.hand_back"
local rn = require "runnel"
local patience = require "spec.support.patience"
local places = require "spec.support.queue.places"
local raises = require "spec.support.raises"
local reported = require "spec.support.stage"
local view = require "runnel.queue.view"

local left, stored, take_within, wait_for = places.left, places.stored, places.take_within, patience.wait_for

for _, at in ipairs(places) do
  local within = at.within

  describe("a stage " .. at.name, function()
    if at.missing then return pending(at.missing) end

    it("stores the results of each message, several or none, and ends it", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      local _, letters = stored(owner, "letters")
      local out = assert(owner:source "letters")
      local stage = assert(owner:stage("words", 1, function(word) return word:byte(1, -1) end, "letters"))
      for _, word in ipairs { "ab", "", "c" } do assert(words:put(word)) end
      for _, letter in ipairs { 97, 98, 99 } do assert.equal(letter, out:take().value) end
      wait_for(function() return stage:stats().done == 3 end)
      assert.is_true(stage:drain(10000))
      assert.equal(3, letters:stats().messages)
      assert.same({ done = 3, failed = 0, given_up = 0, redelivered = 0, running = 0, waiting = 0, duplicates = 0 },
        stage:stats())
      assert.is_true(stage:done():closed())
      assert.is_true(stage:wait())
      out:close()
    end))

    it("loses no message by a limit of deliveries of its queue", within(function(place)
      local owner, calls = place.owner, 0
      local words = stored(owner, "words")
      local function start()
        return owner:stage("words", 1, function()
          calls = calls + 1
          error("no network", 0)
        end, nil, { name = "n", tries = 3, backoff = 1 })
      end
      local stage, queue = assert(start()), nil
      local function wait_for_workers(n)
        wait_for(function()
          queue = owner:queue "n"
          return queue and #queue.workers == n
        end)
      end
      wait_for_workers(1)
      assert.same({ n = 2, nil, "change: tries: words/n is the queue of a stage, which would lose messages by a limit "
        .. "of deliveries: change the option tries in the program" }, table.pack(queue:change { tries = 1 }))
      stage:stop()
      wait_for_workers(0)
      assert.is_true(queue:change { tries = 1 })
      local reports = reported.report_texts(function()
        local again, why = start()
        if place.owner.url then
          assert.equal('stage: the consumer "n" of "words" delivers a message at most 1 times, so the stage would '
            .. "lose those that fail or are given back: remove that limit (runnel queues change words/n tries=0)", why)
          assert.is_true(queue:change { tries = 0 })
          again = assert(start())
        end
        assert(words:put "a")
        wait_for(function() return again:stats().given_up == 1 end)
        assert.same({ 3, 1 }, { calls, owner:dead("n"):count() })
      end)
      assert.same({ "no network" }, reports)
    end))

    it("gets messages with its subject, and stores results with the subject to_subject", within(function(place)
      local owner = place.owner
      assert(owner:stream("words", { subjects = "words.>" }))
      assert(owner:stream("letters", { subjects = { "letters.old", "letters.new" } }))
      local words = assert(owner:sink("words", { subject = "words.a" }))
      assert(words:put "ab")
      assert(words:put("cd", { subject = "words.b" }))
      local out = assert(owner:source("letters", { subject = "letters.new" }))
      local stage = assert(owner:stage("words", 1, string.upper, "letters",
        { subject = "words.b", to_subject = "letters.new" }))
      local m = out:take()
      assert.same({ "CD", "letters.new" }, { m.value, m.subject })
      wait_for(function() return stage:stats().done == 1 end)
      stage:stop()
      out:close()
    end))

    -- In a store, max_running does not count what waits for its next try; there is the option `key`.
    if at.name:find "nats" then
      it("works on messages in their order with max_running = 1, also in several processes and if one is tried again",
        within(function(place)
          local seen, tried = {}, {}
          local numbers = stored(place.owner, "numbers", 1, 2, 3, 4, 5, 6, 7, 8)
          for i = 1, 2 do
            local owner = i == 1 and place.owner or place.open()
            assert(owner:stage("numbers", 4, function(v)
              if v % 3 == 1 and not tried[v] then
                tried[v] = true
                error "not yet"
              end
              seen[#seen + 1] = v
            end, nil, { name = "ordered", max_running = 1, backoff = 10 }))
          end
          wait_for(function() return #seen == 8 end)
          assert(numbers:put(9))
          wait_for(function() return #seen == 9 end)
          assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, seen)
          local with_key = { name = "keyed", key = print }
          local stage, err = pcall(place.owner.stage, place.owner, "numbers", 4, print, nil, with_key)
          assert.is_false(stage)
          assert.matches("stage: key: only a stage of a store has it", tostring(err))
        end))
    end

    it("never calls its function more than n times at once, and shares messages with other processes", within(
      function(place)
        stored(place.owner, "out")
        stored(place.owner, "words", 1, 2, 3, 4, 5, 6, 7, 8)
        local stages, calls, over = {}, { 0, 0 }, rn.chan()
        for i = 1, 2 do
          local owner = i == 1 and place.owner or place.open()
          stages[i] = assert(owner:stage("words", 4, function()
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
        assert(place.owner:stage("words", 2, function(v) sums[i] = sums[i] + v end, nil, { name = name }))
      end
      wait_for(function() return sums[1] == 6 and sums[2] == 6 end)
    end))

    it("tries again what fails, and then asks ex_handler, or gives up and reports", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      stored(owner, "out")
      local out, calls = assert(owner:source "out"), 0
      local stage = assert(owner:stage("words", 1, function(word)
        calls = calls + 1
        error("no " .. word, 0)
      end, "out", {
        tries = 3, backoff = 10, ex_handler = function(err, word) return ("%s: %s"):format(word, err) end,
      }))
      assert(words:put "a")
      assert.equal("a: no a", out:take().value)
      assert.equal(3, calls)
      stage:drain()

      local reports = rn.chan(1)
      local before = rn.on_error(function(err, _, where) reports:put_async { err, where } end)
      local strict = assert(owner:stage("words", 1, function() error("no", 0) end, nil, { name = "strict", tries = 1 }))
      local report = reports:take()
      rn.on_error(before)
      assert.equal("no", report[1])
      assert.matches("^message 1 of words, given up", report[2])
      wait_for(function() return strict:stats().given_up == 1 end)
      strict:drain()
      out:close()
    end))

    it("tries again what has returned nil and an error, stores nothing of it, and gives it up", within(function(place)
      local owner = place.owner
      stored(owner, "words", "a", "b")
      local _, results = stored(owner, "out")
      local out, calls = assert(owner:source "out"), 0
      local stage = assert(owner:stage("words", 1, function(word)
        calls = calls + 1
        if word == "a" then return nil, "connection refused" end
      end, "out", { tries = 3, backoff = 10, ex_handler = function(err, word) return word .. ": " .. err end }))
      assert.equal("a: connection refused", out:take().value)
      wait_for(function() return stage:stats().done == 2 end)
      assert.same({ 4, 3, 1 }, { calls, stage:stats().failed, results:stats().messages })
      stage:drain()

      local strict
      local reports = reported.report_texts(function()
        strict = assert(owner:stage("words", 1, function() return nil, "refused" end, nil,
          { name = "strict", tries = 1 }))
        wait_for(function() return strict:stats().given_up == 2 end)
      end)
      assert.same({ "refused", "refused" }, reports)
      assert.same({ 2, "refused" }, { owner:dead("strict"):count(), owner:dead("strict"):get(1).error })
      strict:drain()
      out:close()
    end))

    it("waits while the stream of its results is full", within(function(place)
      local owner = place.owner
      local out = assert(owner:stream("out", { max_messages = 1, discard = "new" }))
      stored(owner, "words", 1, 2)
      local tried = rn.chan(10)
      local stage = assert(owner:stage("words", 1, function(v)
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

    it("gets a message that it hands back after the time that it says; no failure is counted", within(function(place)
      local words, times, over = stored(place.owner, "words"), {}, rn.chan(1)
      local stage = assert(place.owner:stage("words", 1, function()
        times[#times + 1] = rn.now()
        if #times < 3 then hand_back.hand_back(nil, { after = 60 }) end
        over:put(true)
      end, nil, { name = "n", tries = 1 }))
      assert(words:put "a")
      over:take()
      for i = 2, 3 do assert.is_true(times[i] - times[i - 1] >= 59) end
      assert.equal(0, stage:stats().failed)
      stage:drain()
    end))

    it("gives a message up if ex_handler raises, too, or if its results cannot be stored", within(function(place)
      local owner = place.owner
      local words = stored(owner, "words")
      assert(owner:stream("out", { max_message = 200 }))
      local errors = rn.chan(10)
      local before = rn.on_error(function(err) errors:put_async(err) end)
      local stage = assert(owner:stage("words", 1, function(v)
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
      local stage = assert(place.owner:stage("words", 1, function()
        started:put(true)
        rn.sleep(1e6)
      end, nil, { name = "slow" }))
      started:take()
      local drained, err = stage:drain(50)
      assert.is_false(drained)
      assert.is_true(rn.is_timeout(err))
      assert.matches("^stage .* was not drained within 50 ms$", tostring(err))
      local other = assert(place.open():source("words", { name = "slow" }))
      assert.equal("a", assert(take_within(other, 20000)).value)
      other:close()
    end))

    it("starts nothing while its queue is paused, also one that starts later", within(function(place)
      local words = stored(place.owner, "words")
      local done = {}
      local function start()
        return assert(place.open():stage("words", 2, function(v) done[#done + 1] = v end, nil, { name = "n" }))
      end
      local first, queue = start(), nil
      wait_for(function() -- the server may learn a little later that it listens
        queue = assert(place.owner:queue "n")
        return #queue.workers == 1
      end)
      assert.same({ "words/n", "messages", false, 0, 0 },
        { queue.name, queue.kind, queue.paused, queue.waiting, queue.running })
      assert.equal(1, queue:pause(places.answer()))
      local second = start()
      for i = 1, 5 do assert(words:put(i)) end
      rn.sleep(250)
      assert.same({}, done)
      assert.equal(5, left(place.owner, "n"))
      assert.equal(2, assert(place.owner:queue "n"):resume(places.answer()))
      wait_for(function() return #done == 5 end)
      wait_for(function() return assert(place.owner:queue "n").done == 5 end)
      first:drain()
      second:drain()
    end))

    it("starts calls only as often as `rate` says, in all processes together", within(function(place)
      stored(place.owner, "words", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
      local started, began = {}, rn.now()
      for _ = 1, 2 do
        assert(place.open():stage("words", 4, function() started[#started + 1] = rn.now() end, nil,
          { name = "paced", rate = { 5, 500 } }))
      end
      wait_for(function() return #started == 12 end)
      table.sort(started)
      -- On a busy machine a call may be late, so each is compared with the beginning.
      for i = 1, 12 do assert.is_true(started[i] - began > (i - 1) // 5 * 500 - 5, started[i] - began) end
    end))

    it("cancels a call that waits for longer than the limit", within(function(place)
      stored(place.owner, "words", "park", "fine")
      local done, dead, limit = {}, place.owner:dead "n", math.ceil(100 * patience.factor())
      local reports = reported.report_texts(function()
        local stage = assert(place.owner:stage("words", 2, function(v)
          if v == "park" then rn.sleep(1e6) end
          done[#done + 1] = v
        end, nil, { name = "n", timeout = limit, tries = 2, backoff = 10 }))
        wait_for(function() return dead:count() == 1 end)
        wait_for(function() return stage:stats().done == 1 end)
        stage:drain()
      end)
      assert.same({ "fine" }, done)
      assert.same({ ("stage n: a call had not ended after %d ms"):format(limit) }, reports)
      assert.same({ 2, "park" }, { dead:list()[1].raises, dead:get(1).value })
    end))

    it("keeps the errors of the last eight tries, for operators and the dead letter", within(function(place)
      local owner, tries, last = place.owner, 0, rn.chan()
      stored(owner, "words", "a")
      local reports = reported.report_texts(function()
        local stage = assert(owner:stage("words", 1, function()
          tries = tries + 1
          if tries == 10 then last:take() end
          error(("no %d %s"):format(tries, ("x"):rep(300)), 0)
        end, nil, { name = "n", tries = 10, backoff = 1 }))
        local function check(errors, first)
          assert.equal(8, #errors)
          for i, one in ipairs(errors) do
            assert.equal(first + i - 1, one.start)
            assert.matches(("^no %d xxx"):format(first + i - 1), one.error)
            assert.is_true(#one.error < 210 and math.abs(one.time / 1000 - os.time()) < 600)
          end
        end
        wait_for(function() return tries == 10 end)
        local queue = assert(owner:queue "words/n")
        local message = assert(queue:get(1))
        check(message.errors, 2)
        assert.matches("a$", message.value) -- on a server, the bytes: it does not tell the encoding
        assert.same({ 10, 9 }, { message.starts, message.raises })
        assert.matches("^no 9 x+$", message.error)
        local failure = queue.workers[1].failure
        assert.same({ '"a"', 1, 9 }, { failure.value, failure.sequence, failure.start })
        assert.matches("^no 9 xxx", failure.error)
        local text = table.concat(view.queues({ queue }, true), "\n")
        assert.matches('last error: [%d.]+ m?s ago, message 1, start 9: no 9 x+%.%.%. %("a"%)', text)
        text = table.concat(view.message("words/n", message), "\n")
        assert.matches("errors     %d+%-%d%d%-%d%d %d%d:%d%d:%d%d, start 2: no 2 xxx", text)
        assert.same({ nil, "there is no message 2 of words/n that is not done" }, { queue:get(2) })
        last:put(true)
        wait_for(function() return stage:stats().given_up == 1 end)
        local letter = assert(owner:dead "n":get(1))
        check(letter.errors, 3)
        assert.matches("start 10: no 10 xxx", table.concat(view.letter(letter), "\n"))
        stage:drain()
      end)
      assert.equal(1, #reports)
    end))

    it("has dead letters, which are listed, shown, replayed for it only, and dropped", within(function(place)
      local owner = place.owner
      local mended, others = false, 0
      stored(owner, "words", "a", "b")
      local reports = reported.report_texts(function()
        local stage = assert(owner:stage("words", 2, function(v, m)
          if not mended then error("no " .. v) end
          assert.equal("words", m.subject)
          return v .. "!"
        end, nil, { name = "n", tries = 1 }))
        local other = assert(owner:stage("words", 1, function() others = others + 1 end, nil, { name = "other" }))
        local dead = owner:dead "n"
        wait_for(function() return stage:stats().given_up == 2 and others == 2 end)
        local list = assert(dead:list { limit = 1 })
        assert.equal(1, #list)
        assert.matches("no [ab]$", list[1].error)
        assert.matches("stack traceback", list[1].traceback)
        assert.same({ 1, 1, "n", "words" }, { list[1].starts, list[1].raises, list[1].name, list[1].from })
        assert.equal(2, assert(dead:list { after = 1 })[1].sequence)
        assert.same({}, dead:list { after = math.maxinteger })
        assert.same({ nil, "there is no dead letter 7 of n" }, { dead:get(7) })
        mended = true
        assert.is_true(dead:replay(1))
        wait_for(function() return stage:stats().done == 1 end)
        assert.equal(1, dead:drop(2))
        assert.equal(0, dead:count())
        wait_for(function() return owner:stream("words"):stats().messages == 3 end)
        rn.sleep(50)
        assert.equal(2, others)
        stage:drain()
        other:drain()
      end)
      assert.equal(2, #reports)
    end))

    it("is shown without the control characters of errors", within(function(place)
      local owner = place.owner
      stored(owner, "words", "a")
      reported.report_texts(function()
        local tried = rn.chan(1)
        local stage = assert(owner:stage("words", 1, function(_, message)
          if message.deliveries > 1 then tried:take() end
          error("no\27[31m\r\n\8server")
        end, nil, { name = "n", tries = 2, backoff = 1 }))
        wait_for(function() return stage:stats().redelivered == 1 end)
        local queue = assert(owner:queue "words/n")
        local texts = { view.queues({ queue }, true), view.message("words/n", assert(queue:get(1))) }
        tried:put(true)
        wait_for(function() return stage:stats().given_up == 1 end)
        texts[3] = view.letter(assert(queue:dead():get(1)))
        texts[4] = view.letters(assert(queue:dead():list()))
        for _, lines in ipairs(texts) do
          local text = table.concat(lines, "\n")
          assert.matches("no%?%[31m%?", text)
          assert.not_matches("%c", (text:gsub("\n", "")))
        end
        assert.matches("\n           %?server\n", table.concat(texts[3], "\n"))
        stage:drain()
      end)
    end))

    it("and others of its name on other streams have dead letters of their own; so has a remote stage", within(function(
      place)
      local owner, numbers = place.owner, { out = 0, words = 3, texts = 2, jobs = 1 }
      local texts = reported.report_texts(function()
        stored(owner, "out")
        local stages = {}
        for _, from in ipairs { "words", "texts" } do
          local sink = stored(owner, from)
          for i = 1, numbers[from] do assert(sink:put(i)) end
          local function fails() error("no " .. from, 0) end
          stages[#stages + 1] = assert(owner:stage(from, 1, fails, "out", { tries = 1 }))
        end
        local worker = assert(owner:serve("out", 1, function() error("no job", 0) end))
        local submit <close> = owner:remote("out", { tries = 2, backoff = 1 })
        assert.is_false(pcall(submit, "job"))
        wait_for(function() return stages[1]:stats().given_up == 3 and stages[2]:stats().given_up == 2 end)
        for _, stage in ipairs(stages) do stage:stop() end
        worker:stop()
      end)
      assert.equal(5, #texts)
      local names = { "out", "texts/out", "words/out" }
      local function given_up()
        local found = {}
        for i, queue in ipairs(owner:queues()) do
          assert.equal(names[i], queue.name)
          found[i] = queue.given_up
          assert.equal(queue.given_up, queue:dead():count())
          assert.equal(queue.given_up, #queue:dead():list())
        end
        return found
      end
      assert.same({ 1, 2, 3 }, given_up())
      assert.equal(6, owner:dead("out"):count())
      local dead = owner:queue("words/out"):dead()
      local list = assert(dead:list { limit = 2 })
      assert.equal(2, #list)
      list[3] = assert(dead:list { after = list[2].sequence })[1]
      for _, letter in ipairs(list) do assert.same({ "no words", "words" }, { letter.error, letter.from }) end
      local job = owner:queue("out"):dead():list()[1]
      assert.equal("no job", job.error)
      local missing = { nil, ("there is no dead letter %d of words/out"):format(job.sequence) }
      assert.same(missing, { dead:get(job.sequence) })
      assert.same(missing, { dead:drop(job.sequence) })
      assert.is_nil((owner:queue("out"):dead():replay(list[1].sequence)))
      assert.is_true(dead:replay(list[1].sequence))
      assert.same({ 1, 2, 2 }, given_up())
      assert.equal(2, dead:drop())
      assert.same({ 1, 2, 0 }, given_up())
      assert.equal(0, dead:drop())
      assert(owner:queue("texts/out"):delete())
      assert.equal(2, owner:dead("texts/out"):drop())
      assert.equal(1, owner:dead("out"):count())
    end))

    it("waits until the time of a put", within(function(place)
      local sink = stored(place.owner, "words")
      local times, early = { late = os.time() * 1000 + 1500, later = os.time() * 1000 + 2500, now = 0 }, {}
      assert(sink:put("late", { delay = 1500 }))
      assert(sink:put("later", { at = times.later }))
      assert(sink:put "now")
      local calls = {}
      local stage = assert(place.owner:stage("words", 1, function(v)
        calls[v] = (calls[v] or 0) + 1
        if os.time() * 1000 < times[v] - 1000 then early[#early + 1] = v end -- clocks of seconds
      end, nil, { name = "n" }))
      wait_for(function() return stage:stats().done == 3 end)
      assert.same({ late = 1, later = 1, now = 1 }, calls)
      assert.same({}, early)
      stage:drain()
    end))

    it("gets a message that waits for its time as its first delivery, and so does a source with a name", within(
      function(place)
        local sink = stored(place.owner, "words")
        local source = assert(place.owner:source("words", { name = "s" }))
        local counted = assert(place.owner:source("words", { name = "c", tries = 1 }))
        local plain = assert(place.owner:source "words")
        local seen, since, list = {}, rn.now(), { "now", "soon", "late" }
        for i, value in ipairs(list) do assert(sink:put(value, i > 1 and { delay = 400 * i } or nil)) end
        local stage = assert(place.owner:stage("words", 4, function(v, m)
          seen[v] = (seen[v] or "") .. m.deliveries
          if v == "late" and m.deliveries == 1 then error "fails once" end
        end, nil, { name = "n", backoff = 10 }))
        for _, value in ipairs(list) do assert.equal(value, plain:take().value) end -- these do not wait
        for _, from in ipairs { source, counted } do
          for i, value in ipairs(list) do
            local m = from:take()
            assert.same({ value, 1 }, { m.value, m.deliveries })
            assert.is_true(i == 1 or rn.now() - since >= 400 * i - 1, value)
            m:ack()
          end
        end
        wait_for(function() return stage:stats().done == 3 end)
        assert.same({ now = "1", soon = "1", late = "12" }, seen)
        assert.equal(1, stage:stats().redelivered)
        stage:drain()
        for _, one in ipairs { source, counted, plain } do one:close() end
      end))

    it("calls the function that a module returns", within(function(place)
      package.preload["spec.shouts"] = function() return string.upper end
      stored(place.owner, "words", "a")
      stored(place.owner, "out")
      local stage = assert(place.owner:stage("words", 1, "spec.shouts", "out"))
      package.preload["spec.shouts"], package.loaded["spec.shouts"] = nil, nil
      assert.equal("A", assert(take_within(assert(place.owner:source "out"), 20000)).value)
      stage:drain()
    end))

    it("is drained by SIGTERM, after which the program ends", within(function(place)
      local words = stored(place.owner, "words")
      stored(place.owner, "out")
      local out = assert(place.owner:source "out")
      local program = place.started [[
        local signal = rn.chan()
        local term = require "runnel.internal.sigterm"
        term.add(signal, "signal", { order = term.SERVERS, name = "", drain = signal.close })
        local stage = assert(owner:stage("words", 1, function(v)
          print "called"
          io.stdout:flush()
          signal:take()
          rn.sleep(50)
          return v
        end, "out"))
        stage:wait()
        print "ended"
      ]]
      assert(words:put "a")
      assert.is_true(program:says "called", program:output())
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
      raises("^.*needs the option name", function() owner:stage("words", 1, f) end)
      raises("^stage: n", function() owner:stage("words", 0, f, "out") end)
      raises("^stage: the stream comes first now: call it as stage%(from, n, f, to%)", function()
        owner:stage(1, "words", f, "out")
      end)
      raises("^stage: f", function() owner:stage("words", 1, nil, "out") end)
      raises('^stage: the module "no.such" cannot be loaded', function() owner:stage("words", 1, "no.such", "out") end)
      raises("^stage: rate: calls a second", function() owner:stage("words", 1, f, nil, { name = "x", rate = 0 }) end)
      for option, wrong in pairs { timeout = 1, starts = 0, tries = 0, backoff = -1, dead = 1, drain_on_term = 1 } do
        raises(("^stage: %s: .* expected, got "):format(option), function()
          owner:stage("words", 1, f, nil, { name = "x", [option] = wrong })
        end)
      end
      raises('^stage: unknown option "x"', function() owner:stage("words", 1, f, "out", { x = 1 }) end)
      for _, wrong in ipairs { "a.b", "a/", "/b", "a/b/c", 1 } do
        raises("^dead: name", function() owner:dead(wrong) end)
      end
    end))
  end)
end
