-- What only the streams and stages of a store have. What they share with those of a nats-server is in
-- spec/queue/stages_spec.lua.

local rn = require "runnel"
local background = require "spec.support.background"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local reported = require "spec.support.stage"

if not pcall(require, "runnel.sqlite") then
  describe("stages of a store", function() pending "libsqlite3 is not installed" end)
  return
end

local stores = require "runnel.store"
local dir, store

local wait_for = patience.wait_for

local function stored(name, ...)
  assert(store:stream(name))
  local sink = assert(store:sink(name))
  for _, v in ipairs { ... } do assert(sink:put(v)) end
  return sink
end

local function count(sql, ...) return store.db:one("select count(*) as n from " .. sql, ...).n end

describe("a stage of a store", function()
  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db")
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  it("commits the statements of its transaction with the results, or not at all", function()
    store.db:exec "create table effects(v)"
    stored("words", "a", "b")
    stored "out"
    local tries = 0
    local stage = assert(store:stage("words", 2, function(v, m, tx)
      assert.is_true(m.sequence > 0)
      tx:exec("insert into effects values (?)", v)
      tries = tries + 1
      if tries == 1 then error "not yet" end
      if tries == 2 then return nil, "not yet" end
      return v
    end, "out", { tx = true, backoff = 1 }))
    wait_for(function() return stage:stats().done == 2 end)
    assert.same({ 2, 2, 4 }, { count "effects", count "runnel_message where stream = 'out'", tries })
  end)

  it("does the steps of a call once, although it tries again", function()
    local charged, tries = 0, 0
    local charge = store:once("charge", function(cents)
      charged = charged + 1
      return "receipt for " .. cents
    end)
    stored("orders", 5, 5)
    stored "receipts"
    local stage = assert(store:stage("orders", 1, function(cents)
      local receipt = charge(cents)
      tries = tries + 1
      if tries % 3 ~= 0 then error "the printer is off" end
      return receipt
    end, "receipts", { backoff = 1 }))
    wait_for(function() return stage:stats().done == 2 end)
    -- Each message is charged, although both have the same key; and the steps are forgotten.
    assert.same({ 2, 6, 0 }, { charged, tries, count "runnel_once" })
    stage:drain()
    local reports = reported.report_texts(function()
      local strict = assert(store:stage("orders", 1, function(cents)
        charge(cents)
        error("no", 0)
      end, nil, { name = "strict", tries = 1 }))
      wait_for(function() return strict:stats().given_up == 2 end)
      strict:drain()
    end)
    assert.same({ "no", "no" }, reports)
    wait_for(function() return count "runnel_once" == 0 end)
    assert.equal(4, charged)
  end)

  it("has steps of its own for each message, also beside a stage of its name on another stream", function()
    stored("home", "alice")
    stored("work", "bob")
    stored "out"
    local calls, go = 0, rn.chan()
    local number = store:once("number", function()
      calls = calls + 1
      return calls
    end)
    local function f(who)
      local mine = number()
      go:take()
      return { who, mine }
    end
    assert(store:stage("home", 1, f, "out")) -- both have the name "out"
    wait_for(function() return calls == 1 end)
    assert(store:stage("work", 1, f, "out"))
    wait_for(function() return calls == 2 end)
    go:close()
    local out, results = assert(store:source "out"), {}
    for _ = 1, 2 do
      local result = out:take().value
      results[result[1]] = result[2]
    end
    assert.same({ alice = 1, bob = 2 }, results)
    wait_for(function() return count "runnel_once" == 0 end)
  end)

  describe("that tries a message with steps again", function()
    local price

    before_each(function()
      local calls = 0
      price = store:once("price", function()
        calls = calls + 1
        return calls
      end)
    end)

    -- Starts the stage, and stops it when it has failed.
    local function try()
      local stage = assert(store:stage("s", 1, function() error(price(), 0) end, nil, { name = "w", backoff = 60000 }))
      wait_for(function() return count "runnel_delivery where holder is null" == 1 end)
      stage:stop()
    end

    local function prices()
      local list = {}
      local stage = assert(store:stage("s", 1, function(v) list[#list + 1] = { v, price() } end, nil, { name = "w" }))
      wait_for(function() return stage:stats().done == 1 end)
      stage:stop()
      return list
    end

    it("has none of them for a message of a stream that was deleted and made again", function()
      stored("s", "old")
      try()
      assert(store:stream("s"):delete())
      assert.equal(0, count "runnel_once")
      store.db:exec "insert into runnel_once values ('stage s/w 1[1]', 'price', '', 1, 0, 'json', '0', 1, null)"
      stored("s", "new")
      assert.same({ { "new", 2 } }, prices())
      assert.equal(0, count "runnel_once")
    end)

    it("forgets them with the message, or at its next start", function()
      local sink = stored("s", "v")
      try()
      assert.equal(1, count "runnel_once")
      assert(store:stream("s"):purge())
      assert.equal(0, count "runnel_once")
      assert(sink:put "w")
      try()
      assert(store:stream("s"):delete_consumer "w")
      assert.equal(0, count "runnel_once")
      try()
      assert(store:stream("s"):change { max_messages = 1 })
      assert(sink:put "x")
      assert.equal(1, count "runnel_once")
      assert.same({ { "x", 4 } }, prices())
      assert.equal(0, count "runnel_once")
    end)

    it("forgets them, while it goes on, if the message was removed before its next try", function()
      require("runnel.sim").run(function()
        local mine <close> = stores.open ":memory:"
        local stream, sink = assert(mine:stream("s", { max_messages = 10 })), assert(mine:sink "s")
        local step = mine:once("step", function() return 1 end)
        local stage = assert(mine:stage("s", 10, function(v)
          step(v)
          error("not now", 0)
        end, nil, { name = "w", backoff = 1000, tries = 1000 }))
        for i = 1, 100 do -- the first ones are discarded
          assert(sink:put(i, { id = tostring(i) }))
          rn.sleep(10)
        end
        rn.sleep(180000)
        assert.equal(10, mine.db:one("select count(*) as n from runnel_once").n)
        patience.wait_for(function() return stream:cancel "95" end)
        rn.sleep(180000)
        assert.equal(9, mine.db:one("select count(*) as n from runnel_once").n)
        stage:stop()
      end)
    end)

    it("goes on with those that a program of an older version has stored", function()
      stored("s", "v")
      try()
      store.db:exec "update runnel_once set scope = 'stage w[1]'; update runnel_delivery set due = 0"
      assert.same({ { "v", 1 } }, prices())
      assert.equal(0, count "runnel_once")
    end)

    it("has none that an older version has left of a message before", function()
      stored("s", "v")
      try()
      store.db:exec "update runnel_once set scope = 'stage w[1]', made = 1; update runnel_delivery set due = 0"
      assert.same({ { "v", 2 } }, prices())
    end)
  end)

  it("stores no results of a message that another process has got meanwhile", function()
    stored("words", "a")
    local out = stored "out"
    assert.is_true(store.locks:try "another") -- it has not ended
    local stage = assert(store:stage("words", 1, function()
      store.db:exec "update runnel_delivery set holder = 'another'"
      return "too late"
    end, "out"))
    wait_for(function() return stage:stats().done == 1 end)
    assert.same({ 0, 1 }, { count "runnel_message where stream = 'out'", count "runnel_delivery" })
    assert.same({ true, 1, false }, { out:put "x" })
  end)

  it("stores the results of a message that was removed from its stream meanwhile", function()
    stored("words", "a")
    stored "out"
    local stage = assert(store:stage("words", 1, function()
      assert.equal(1, store:stream("words"):purge())
      return "done"
    end, "out"))
    wait_for(function() return stage:stats().done == 1 end)
    assert.same({ 1, 0 }, { count "runnel_message where stream = 'out'", count "runnel_delivery" })
  end)

  it("says that no messages come while another program has locked the file, and goes on then", function()
    stored "words"
    store:close()
    store = stores.open(dir.path .. "/work.db", { busy_timeout = 1 })
    local other <close> = stores.open(dir.path .. "/work.db")
    local reports, done = {}, {}
    local before = rn.on_error(function(err) reports[#reports + 1] = tostring(err) end)
    local sink = assert(store:sink "words")
    local stage = assert(store:stage("words", 1, function(v) done[#done + 1] = v end, nil, { name = "n" }))
    assert(sink:put(1))
    wait_for(function() return #done == 1 end)
    local put
    other.db:transaction(function(tx)
      tx:exec "create table other(a)"
      put = { sink:put(2) }
      tx:exec [[insert into runnel_message(stream, seq, subject, form, value, bytes, made)
        select name, last + 1, 'words', 'json', '3', 1, 0 from runnel_stream where name = 'words']]
    end)
    assert.is_false(put[1])
    assert.matches("another connection has held a lock", put[2])
    wait_for(function() return #done == 2 end)
    rn.on_error(before)
    assert.same({ 1, 3 }, done) -- a row that another program has inserted
    stage:drain()
  end)

  it("starts messages with a higher priority first, and each once", function()
    stored("words")
    local sink = assert(store:sink "words")
    local order = {}
    local stage = assert(store:stage("words", 1, function(v)
      rn.sleep(5)
      order[#order + 1] = v
    end, nil, { name = "n" }))
    assert(store:queue "n"):pause(10000)
    assert(sink:put "plain")
    assert(sink:put("low", { priority = 1 }))
    assert(sink:put("high", { priority = 9, id = "x" }))
    assert.same({ true, 3, true }, { sink:put("high", { priority = 9, id = "x" }) })
    assert(sink:put("high, too", { priority = 9 }))
    assert(sink:put "last")
    assert(store:queue "n"):resume(10000)
    wait_for(function() return stage:stats().done == 5 end)
    assert.same({ "high", "high, too", "low", "plain", "last" }, order)
    local all = {}
    local later = assert(store:stage("words", 1, function(v) all[#all + 1] = v end, nil, { name = "later" }))
    wait_for(function() return later:stats().done == 5 end)
    rn.sleep(50)
    assert.same({ "plain", "low", "high", "high, too", "last" }, all) -- a new stage gets them in their order
    assert.equal(5, assert(store:queue "n").done)
    raises("^put: priority: an integer from 0 to 9 expected, got 10", function() sink:put("a", { priority = 10 }) end)
  end)

  it("removes the messages of a work queue when they are done, and another stage is refused", function()
    local stream = assert(store:stream("jobs", { retention = "workqueue" }))
    local sink = assert(store:sink "jobs")
    for i = 1, 20 do assert(sink:put(i)) end
    local stage = assert(store:stage("jobs", 4, function() end, nil, { name = "n" }))
    wait_for(function() return stage:stats().done == 20 end)
    local state = stream:stats()
    assert.same({ 0, 0, 20 }, { state.messages, state.bytes, state.last })
    assert.same({ true, 21, false }, { sink:put "x" })
    assert.same({ nil, 'stage: the stream "jobs" is a work queue, and has a consumer already' },
      { store:stage("jobs", 1, print, nil, { name = "other" }) })
  end)

  it("gets at once the messages of a process that was killed", function()
    stored("words", "a")
    local set <close> = background.set()
    local program = set:start { os.getenv "LUA" or "lua5.4", set:write("program.lua", [[
      local rn = require "runnel"
      local store = require("runnel.store").open(arg[1])
      assert(store:stage("words", 1, function()
        print "begun"
        io.stdout:flush()
        rn.sleep(1e6)
      end, nil, { name = "n" })):wait()
    ]]), dir.path .. "/work.db" }
    assert.is_true(program:says "begun", program:output())
    local deliveries
    local stage = assert(store:stage("words", 1, function(_, m) deliveries = m.deliveries end, nil, { name = "n" }))
    rn.sleep(300)
    assert.is_nil(deliveries) -- its process lives, and needs no extension
    program:signal "KILL"
    wait_for(function() return deliveries end)
    wait_for(function() return stage:stats().redelivered == 1 end)
    assert.equal(2, deliveries)
  end)

  it("gives up a message that ends its process at each start, and no other one", function()
    stored("words", "poison", "fine")
    local set <close> = background.set()
    local script = set:write("program.lua", [[
      local rn = require "runnel"
      local store = require("runnel.store").open(arg[1])
      local stage = assert(store:stage("words", 2, function(v)
        if v == "poison" then os.exit(3) end
        rn.sleep(20)
      end, nil, { name = "n", starts = 3 }))
      while stage:stats().given_up == 0 do rn.sleep(5) end
      store:drain()
    ]])
    local ends = 0
    repeat
      local program = set:start { os.getenv "LUA" or "lua5.4", script, dir.path .. "/work.db" }
      local status = assert(program:wait(), program:output())
      if status == 3 then ends = ends + 1 end
    until status == 0
    assert.equal(3, ends)
    local letter = assert(store:dead("n"):get(1))
    assert.same({ "poison", 3, 0 }, { letter.value, letter.starts, letter.raises })
    assert.equal("stage n: the message was given up: its process ended at each of 3 starts", letter.error)
    local stage = assert(store:stage("words", 1, function() end, nil, { name = "n", starts = 3 }))
    wait_for(function() return assert(store:queue "n").done == 2 end)
    stage:drain()
  end)

  it("ends with its store while a call with a limit runs, and the message stays for the next one", function()
    stored("words", "a")
    local began = rn.promise_chan()
    assert(store:stage("words", 1, function()
      began:put(true)
      rn.sleep(1e6)
    end, nil, { name = "n", timeout = 60000 }))
    began:take()
    store:close()
    reported.heard() -- the stage and its call say why they end
    store = stores.open(dir.path .. "/work.db")
    local got = rn.promise_chan()
    local stage = assert(store:stage("words", 1, function(v) got:put(v) end, nil, { name = "n", timeout = 60000 }))
    assert.equal("a", (got:take()))
    stage:drain()
  end)

  it("ends its process if a call computes for longer than the limit, and that counts as a failure #heavy", function()
    stored("words", "loop", "fine")
    local limit = math.ceil(200 * patience.factor())
    local set <close> = background.set()
    local script = set:write("program.lua", ([[
      local rn = require "runnel"
      local store = require("runnel.store").open(arg[1])
      local stage = assert(store:stage("words", 1, function(v)
        if v == "fine" then return rn.sleep(50) end
        while true do os.execute "sleep 0.05" end -- no other go block runs
      end, nil, { name = "n", timeout = %d, tries = 2, backoff = 1 }))
      repeat rn.sleep(5) until store:dead("n"):count() == 1 and stage:stats().waiting + stage:stats().running == 0
      store:drain()
    ]]):format(limit))
    local ends = 0
    repeat
      local program = set:start { os.getenv "LUA" or "lua5.4", script, dir.path .. "/work.db" }
      local status = assert(program:wait(), program:output())
      if status ~= 0 then
        ends = ends + 1
        assert.matches(("^runnel: stage n: a call had not ended after %d ms, and Lua does not come back: "
          .. "this process ends\n$"):format(limit), (program:output():gsub("runnel: [^\n]* has blocked [^\n]*\n", "")))
      end
    until status == 0
    assert.equal(2, ends)
    local letter = assert(store:dead("n"):get(1))
    assert.same({ "loop", 2, ("stage n: a call had not ended after %d ms"):format(limit) },
      { letter.value, letter.raises, letter.error })
    assert.equal(1, store:dead("n"):count())
  end)

  it("lets store:drain wait for its calls, and ends when the store is closed", function()
    stored("words", "a", "b")
    local done = 0
    local stage = assert(store:stage("words", 2, function()
      rn.sleep(50)
      done = done + 1
    end, nil, { name = "n" }))
    wait_for(function() return stage:stats().running == 2 end)
    assert.is_true(store:drain(30000))
    assert.same({ 2, true }, { done, stage:done():closed() })
    assert.same({ false, "the store is closed" }, { store:drain() })
    store = stores.open(dir.path .. "/work.db")
    local other = assert(store:stage("words", 1, rn.sleep, nil, { name = "other" }))
    store:close()
    assert.same({ nil, "the store is closed" }, { other:wait() })
    local sink_of_closed = "the store is closed"
    assert.same({ nil, sink_of_closed }, { store:stream "words" })
  end)

  it("gets no messages that are older than the max_age of the stream, nor do sources", function()
    require("runnel.sim").run(function()
      local mine <close> = stores.open ":memory:"
      local stream, seen = assert(mine:stream("s", { max_age = 1000 })), {}
      local sink = assert(mine:sink "s")
      for i = 1, 150 do assert(sink:put(i)) end
      rn.sleep(1001)
      local function note(v) seen[#seen + 1] = v end
      assert(mine:stage("s", 1, note, nil, { name = "plain" }))
      assert(mine:stage("s", 1, note, nil, { name = "keyed", key = tostring }))
      local named, unnamed = assert(mine:source("s", { name = "c" })), assert(mine:source "s")
      rn.sleep(1000)
      assert(sink:put "new")
      assert.same({ "new", "new" }, { named:take().value, unnamed:take().value })
      rn.sleep(900)
      assert.same({ "new", "new" }, seen)
      assert.equal(1, stream:stats().messages)
    end)
  end)

  it("does not try a message again that has become older than the max_age of the stream", function()
    require("runnel.sim").run(function()
      local mine <close> = stores.open ":memory:"
      local stream, tries = assert(mine:stream "s"), 0
      assert(assert(mine:sink "s"):put "v")
      local step = mine:once("step", function() return 1 end)
      local stage = assert(mine:stage("s", 1, function()
        tries = tries + step()
        error("no", 0)
      end, nil, { name = "w", backoff = 5000 }))
      rn.sleep(1000)
      assert(stream:change { max_age = 2000 })
      rn.sleep(60000)
      assert.same({ 1, 0 }, { tries, stream:stats().messages })
      assert.equal(0, mine.db:one("select count(*) as n from runnel_once").n)
      stage:stop()
    end)
  end)

  it("has a rate of its own, also beside a stage of its name on another stream", function()
    require("runnel.sim").run(function()
      local mine <close> = stores.open ":memory:"
      assert(mine:stream "out")
      local rates <const>, starts = { a = 10, b = 2 }, { a = 0, b = 0 }
      for _, name in ipairs { "a", "b" } do
        assert(mine:stream(name))
        for i = 1, 50 do assert(assert(mine:sink(name)):put(i)) end
      end
      for _, name in ipairs { "a", "b" } do -- both stages have the name "out"
        assert(mine:stage(name, 4, function() starts[name] = starts[name] + 1 end, "out", { rate = rates[name] }))
      end
      rn.sleep(2900)
      assert.same({ a = 30, b = 6 }, starts)
    end)
  end)

  it("works in a simulation", function()
    require("runnel.sim").run(function()
      local mine <close> = stores.open ":memory:"
      assert(mine:stream "words")
      assert(mine:stream "out")
      for i = 1, 5 do assert(assert(mine:sink "words"):put(i)) end
      local tried = {}
      local stage = assert(mine:stage("words", 2, function(v)
        rn.sleep(1000)
        if v == 3 and not tried[v] then
          tried[v] = true
          error "not yet"
        end
        return v
      end, "out", { backoff = 60000, rate = { 2, 5000 } }))
      local out, sum = assert(mine:source "out"), 0
      for _ = 1, 5 do sum = sum + out:take().value end
      assert.same({ 15, true }, { sum, rn.now() > 30000 })
      assert.is_true(stage:drain())
      out:close()
    end)
  end)

  it("says what a store does not have", function()
    stored "words"
    raises("^stream: max_per_subject: only a stream of a nats.server has this setting", function()
      store:stream("a", { max_per_subject = 1 })
    end)
    raises('^stream: retention: "limits" or "workqueue" expected, got "interest"', function()
      store:stream("a", { retention = "interest" })
    end)
    assert(store:stream("words", { storage = "file", replicas = 3 })) -- of a server, without effect here
    raises("^put: a value other than nil expected", function() store:sink("words"):put(nil) end)
    raises("^put: value: .*function", function() store:sink("words"):put(print) end)
    raises("^stage: tx: true or false expected", function()
      store:stage("words", 1, print, nil, { name = "n", tx = 1 })
    end)
  end)

  it("is shown and changed by runnel queues with the name of the file #ci", function()
    stored("words", "a")
    local reports = reported.report_texts(function()
      local stage = assert(store:stage("words", 1, function() error("no", 0) end, nil, { name = "n", tries = 1 }))
      wait_for(function() return stage:stats().given_up == 1 end)
      local set <close> = background.set()
      local function run(...)
        local program = set:start { process.runnel, "queues", dir.path .. "/work.db", ... }
        return assert(program:wait(), "it does not end") and program:output()
      end
      assert.matches("given up.*words/n +0 +0 +0 +1 ", run("show", "n"))
      assert.matches("1 .* no\n$", run("dead", "n"))
      assert.matches("words/n is paused", run("pause", "n"))
      assert.is_true(assert(store:queue "n").paused)
      assert.matches("words/n is paused for 1%.5h;", run("pause", "n", "1.5h"))
      assert.is_true(math.abs(store:queue("n").resumes - store:time() - 1.5 * 3600000) < 600000)
      assert.matches("paused until %d+%-", run("show", "n"))
      assert.matches('pause: a time expected, as 90s, 30min, 2h or 1d, got "2x"', run("pause", "n", "2x"))
      assert.matches("1 dead letter dropped", run("drop", "n", "all"))
      assert.matches('^runnel queues: unknown command "nix", and no such file', run "nix")
      stage:drain()
    end)
    assert.same({ "no" }, reports)
  end)

  it("has dead letters that runnel queues tells from those of a stage of its name on another stream #ci", function()
    local reports = reported.report_texts(function()
      for _, from in ipairs { "words", "texts" } do
        stored(from, 1, 2)
        local function fails() error("no " .. from, 0) end
        local stage = assert(store:stage(from, 1, fails, nil, { name = "n", tries = 1 }))
        wait_for(function() return stage:stats().given_up == 2 end)
        stage:stop()
      end
    end)
    assert.equal(4, #reports)
    local set <close> = background.set()
    local function run(...)
      local program = set:start { process.runnel, "queues", dir.path .. "/work.db", ... }
      return assert(program:wait(), "it does not end") and program:output()
    end
    assert.equal('runnel queues: there are several queues "n": say STREAM/n\n', run("drop", "n", "all"))
    assert.equal('runnel queues: there is no queue "typo"; there are: texts/n, words/n\n', run("drop", "typo", "all"))
    assert.equal('runnel queues: there is no queue "a.b"; there are: texts/n, words/n\n', run("dead", "a.b"))
    assert.matches("^[^\n]*\n[^\n]* no words\n[^\n]* no words\n$", run("dead", "words/n"))
    assert.equal("2 dead letters dropped\n", run("drop", "words/n", "all"))
    assert.equal("there are no dead letters\n", run("dead", "words/n"))
    assert.equal(2, store:dead("n"):count())
    assert(store:queue("texts/n"):delete())
    assert.equal("2 dead letters dropped\n", run("drop", "texts/n.dead", "all")) -- they outlive their queue
    assert.equal('runnel queues: there is no queue "texts/n"; there are: words/n\n', run("drop", "texts/n", "all"))
  end)
end)
