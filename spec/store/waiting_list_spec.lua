-- What waits in a queue of a store, for operators: queue:list, queue:cancel, queue:move, and `runnel queues`.

local background = require "spec.support.background"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local promtool = require "spec.support.promtool"
local raises = require "spec.support.raises"
local report_texts = require "spec.support.stage".report_texts
local rn = require "runnel"
local view = require "runnel.queue.view"

describe("the messages that wait in a queue of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local dir, store
  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  -- A stream with values, and a consumer of it with a name, which has taken `taken` of them and done `done`.
  local function queue(name, list, opts)
    opts = opts or {}
    assert(store:stream(name, { subjects = opts.subjects }))
    local sink = assert(store:sink(name, { subject = opts.subject }))
    for i, value in ipairs(list) do assert(sink:put(value, { id = opts.ids and opts.ids[i] })) end
    local source = assert(store:source(name, { name = "n", ack = "explicit", max_running = 10 }))
    for i = 1, opts.taken or 0 do
      local m = source:take()
      if i <= (opts.done or 0) then m:ack() end
    end
    source:close()
    return assert(store:queue(name .. "/n"))
  end

  local function numbers(list)
    local found = {}
    for i, one in ipairs(list) do found[i] = one.sequence end
    return found
  end

  it("are listed with their values, a page at a time", function()
    local q = queue("words", { "a", { b = 1 }, 3.5, true }, { ids = { "one", "two" } })
    local list = assert(q:list())
    assert.same({ 1, 2, 3, 4 }, numbers(list))
    assert.same({ "a", { b = 1 }, 3.5, true }, { list[1].value, list[2].value, list[3].value, list[4].value })
    assert.same({ "one", "two" }, { list[1].id, list[2].id })
    assert.same({ "words", 3, 0, 0 }, { list[1].subject, list[1].bytes, list[1].starts, list[1].raises })
    assert.is_true(math.abs(list[1].time - store:time()) < 60000)
    assert.same({ 2, 3 }, numbers(q:list { after = 1, limit = 2 }))
    assert.same({}, q:list { after = 4 })
  end)

  it("are not removed or moved if they are runs, which then would never end, nor moved to what takes no messages",
    function()
      local runs = store:runs("order", function(run)
        run:wait "paid"
        return "sent"
      end, { n = 1 })
      local r = assert(runs:start "a")
      local words, q = queue("words", { "a" }), assert(store:queue "order")
      patience.wait_for(function() return #q:list() == 1 and r:state().state == "waiting" end)
      local number = assert(q:list())[1].sequence
      local cancelled, why = q:cancel(number)
      assert.is_nil(cancelled)
      assert.matches("^cancel: the messages of runnel%-runs%-order/order are runs, .*: cancel the run %(r:cancel, "
        .. "runnel runs %S+/work.db cancel RUN%)$", why)
      assert.same({ n = 2, nil, "move: the messages of runnel-runs-order/order are runs, which would never end without "
        .. "them" }, table.pack(q:move(number, "words")))
      store:serve("double", 1, function() end):drain()
      assert.same({ n = 2, nil, 'move: the stream "runnel-jobs-double" takes only jobs' },
        table.pack(words:move(1, "runnel-jobs-double")))
      assert.same({ n = 2, nil, 'move: the stream "runnel-runs-order" takes only runs' },
        table.pack(words:move(1, "runnel-runs-order")))
      assert.equal(1, #words:list())
      runs:stop()
      local changed, refused = assert(store:queue "order"):change { tries = 1 }
      assert.is_nil(changed)
      assert.matches("^change: tries: runnel%-runs%-order/order is the queue of runs, which would lose ", refused)
      store:runs("order", function() return "sent" end)
      assert(r:signal "paid")
      assert.equal("sent", r:result())
    end)

  it("are the library's own if they are runs or jobs: no program takes or removes them by their stream", function()
    store:runs("order", function(run) run:wait "paid" end, { n = 1 }):start "a"
    store:serve("double", 1, function() end):drain()
    for name, of in pairs { ["runnel-runs-order"] = "runs", ["runnel-jobs-double"] = "the jobs of a remote stage" } do
      local problem = (": a name that does not begin with %s expected, got %q, the library's stream of %s")
        :format(name:match "^runnel%-%l+%-", name, of):gsub("-", "%%-")
      raises("stream: name" .. problem, function() store:stream(name) end)
      raises("sink: stream" .. problem, function() store:sink(name) end)
      raises("source: stream" .. problem, function() store:source(name, { name = "order" }) end)
      raises("stage: from" .. problem, function() store:stage(name, 1, print, nil, { name = "order" }) end)
      raises("stage: to" .. problem, function() store:stage("words", 1, print, name) end)
    end
    assert.equal(2, #store:queues())
  end)

  it("are found by a text in their values, subjects and ids, however many there are", function()
    local list, ids = {}, {}
    for i = 1, 450 do list[i], ids[i] = { name = "n" .. i }, "id" .. i end
    local q = queue("words", list, { ids = ids })
    assert.same({ 444 }, numbers(q:list { contains = '"n444"' }))
    assert.same({ 7, 70 }, numbers(q:list { contains = "id7", limit = 2 }))
    assert.equal(450, #q:list { contains = "words", limit = 1000 })
    assert.same({}, q:list { contains = "%d" })
  end)

  it("are not those that a worker has; those that come again have the error of the last try", function()
    assert(store:stream "words")
    local began, tried = rn.chan(), rn.chan()
    for _, value in ipairs { "fails", "runs", "waits" } do assert(assert(store:sink "words"):put(value)) end
    local stage = assert(store:stage("words", 1, function(value)
      if value == "fails" then
        tried:close()
        error("no luck", 0)
      end
      began:close()
      rn.chan():take()
    end, nil, { name = "n", tries = 3, backoff = 3600000, max_running = 1 }))
    began:take()
    local q = assert(store:queue "n")
    local list = assert(q:list())
    stage:stop()
    assert.same({ "fails", "waits" }, { list[1].value, list[2].value })
    assert.same({ 1, 1, "no luck" }, { list[1].starts, list[1].raises, list[1].error })
    assert.is_true(list[1].due > store:time() + 60000)
    assert.is_nil(list[2].error)
  end)

  -- A queue with the option `key`, of which a worker has message 1, "ann 1"; 2 and 4 wait behind it. Message 3 has
  -- failed, and 5 waits behind that.
  local function keyed()
    assert(store:stream "words")
    local sink, began, failed = assert(store:sink "words"), rn.chan(), rn.chan()
    for i, value in ipairs { "ann 1", "ann 2", "bob 3", "ann 4", "bob 5" } do
      assert(sink:put(value, { id = "id" .. i }))
    end
    local stage = assert(store:stage("words", 2, function(value)
      if value == "bob 3" then
        failed:close()
        error("no luck", 0)
      end
      began:close()
      rn.chan():take()
    end, nil, { name = "n", backoff = 3600000, key = function(value) return value:sub(1, 3) end }))
    began:take()
    failed:take()
    local q = assert(store:queue "n")
    patience.wait_for(function() return assert(q:get(3)).due ~= nil end)
    return q, stage
  end

  it("are also those that wait behind another one of their key, which are cancelled and moved as well", function()
    local q, stage = keyed()
    local list = {}
    for i, one in ipairs(assert(q:list())) do list[i] = { one.sequence, one.key, one.behind or false } end
    assert.same({ { 2, '"ann"', 1 }, { 3, '"bob"', false }, { 4, '"ann"', 1 }, { 5, '"bob"', 3 } }, list)
    local behind, first = assert(q:get(4)), assert(q:get(1))
    assert.same({ "ann 4", '"ann"', 1, false }, { behind.value, behind.key, behind.behind, behind.running })
    assert.same({ '"ann"', nil, true }, { first.key, first.behind, first.running })
    assert.is_nil(behind.due)
    assert.same({ 5 }, numbers(q:list { contains = "bob 5" }))
    assert(store:stream "later")
    assert.is_true(q:cancel(2))
    assert.is_true(q:move(4, "later"))
    assert.is_true(assert(store:stream "words"):cancel "id5")
    assert.same({ 3 }, numbers(q:list()))
    assert.matches("^message 1 of words/n does not wait", select(2, q:cancel(1)))
    stage:stop()
  end)

  it("are cancelled one by one, and their ids are free then", function()
    local q = queue("words", { "a", "b" }, { ids = { "one", "two" }, taken = 1 })
    assert.same({ nil, "message 1 of words/n does not wait: a worker has it, or it is done", n = 2 },
      table.pack(q:cancel(1)))
    assert.same({ nil, "message 9 of words/n does not wait: a worker has it, or it is done", n = 2 },
      table.pack(q:cancel(9)))
    assert.is_true(q:cancel(2))
    assert.same({}, numbers(q:list()))
    local sink = assert(store:sink "words")
    assert(sink:put("again", { id = "two" }))
    assert.same({ 3 }, numbers(q:list()))
  end)

  it("are moved to another stream in one step, with their value, headers and time", function()
    local q = queue("words", { "a", "b", "c" }, { taken = 1 })
    local later = queue("later", {})
    local before = q:list()[1].time
    rn.sleep(5)
    assert.is_true(q:move(2, "later"))
    assert.same({ 3 }, numbers(q:list()))
    local moved = later:list()
    assert.same({ "b", "later", before }, { moved[1].value, moved[1].subject, moved[1].time })
    assert.matches("^message 1 of words/n does not wait", select(2, q:move(1, "later")))
    assert.matches("^there is no stream", select(2, q:move(3, "never")))
    assert.equal(1, #later:list())
  end)

  it("stay where they are if the other stream does not take them", function()
    local q = queue("words", { "long enough" }, { subjects = { "words.>" }, subject = "words.x" })
    assert(store:stream("only", { subjects = { "only.*" } }))
    assert(store:stream("same", { subjects = { "words.*" } }))
    assert(store:stream("small", { max_message = 3 }))
    assert.same({ nil, 'the stream "only" takes only only.*', n = 2 }, table.pack(q:move(1, "only")))
    assert.same({ nil, "message size exceeds maximum allowed", n = 2 }, table.pack(q:move(1, "small")))
    assert.same({ 1 }, numbers(q:list()))
    assert.is_true(q:move(1, "same"))
    assert.equal("words.x", assert(store:source "same"):take().subject)
  end)

  it("of a remote stage are listed, and cancelled by the program that waits for them only", function()
    assert(store:serve("resize", 1, print)):stop()
    local remote = assert(store:remote "resize")
    local block = rn.go(function() return (pcall(remote, "a.png")) end)
    local q = assert(store:queue "resize")
    patience.wait_for(function() return #q:list { contains = "a.png" } == 1 end)
    local none, err = q:cancel(q:list()[1].sequence)
    assert.is_nil(none)
    assert.matches("^cancel: resize is a remote stage", err)
    remote:close()
    assert.is_false(block:take())
  end)

  it("raise at the caller's line if they are asked for wrongly", function()
    local q = queue("words", {})
    raises("list: limit: an integer of at least 1 expected, got 0", function() q:list { limit = 0 } end)
    raises('list: unknown option "text"; known: after, contains, limit', function() q:list { text = "x" } end)
    raises("list: contains: a text expected, got a number", function() q:list { contains = 5 } end)
    raises("cancel: sequence: an integer of at least 1 expected, got nothing", function() q:cancel() end)
    raises("move: to: the name of a stream expected, got nothing", function() q:move(1) end)
  end)

  describe("are shown and changed by runnel queues, which", function()
    local set
    before_each(function() set = background.set() end)
    after_each(function() set:close() end)

    local function run(...)
      local program = set:start { process.runnel, "queues", dir.path .. "/work.db", ... }
      local status = assert(program:wait(), "it does not end")
      return program:output(), status
    end

    it("lists, searches, cancels and moves them", function()
      queue("words", { "a", { b = 'x' }, "c" })
      assert(store:stream "later")
      local all = run("waiting", "n")
      assert.matches('number +stored +id +raised +value.*\n +1 .* "a" .*\n +2 .*"b" = "x".*\n +3 .*"c"', all)
      local found = run("waiting", "n", '"x"')
      assert.matches("\n +2 ", found)
      assert.not_matches("\n +1 ", found)
      assert.equal("message 1 of words/n is cancelled\n", (run("cancel", "n", "1")))
      assert.equal("message 3 of words/n is moved to later\n", (run("move", "n", "3", "later")))
      local text, status = run("cancel", "n", "3")
      assert.matches("^runnel queues: message 3 of words/n does not wait", text)
      assert.equal(1, status)
      assert.equal(2, select(2, run("move", "n", "2")))
      assert.matches("nothing waits", (run("waiting", "n", "never")))
    end)

    it("replays dead letters: puts messages into their stream again, and says so", function()
      assert(store:stream "words")
      for _, word in ipairs { "a", "b" } do assert(assert(store:sink "words"):put(word)) end
      report_texts(function()
        local opts = { name = "s", tries = 1 }
        local stage <close> = assert(store:stage("words", 1, function() error("no luck", 0) end, nil, opts))
        patience.wait_for(function() return stage:stats().given_up == 2 end)
      end)
      assert.same({ "runnel queues: there is no dead letter 77 of words/s\n", 1 }, { run("replay", "s", "77") })
      assert.same({ "1: put into its stream again\n2: put into its stream again\n2 dead letters replayed\n", 0 },
        { run("replay", "s", "all") })
      assert.equal("0 dead letters replayed\n", (run("replay", "s", "all")))
    end)

    it("shows the key of a message, and behind which one it waits", function()
      local _, stage = keyed()
      local all = run("waiting", "n")
      assert.matches("number +stored +id +raised +key +value", all)
      assert.matches('\n +2 .* "ann", behind 1 +"ann 2" +%-\n +3 .* "bob" +"bob 3" +no luck', all)
      local one = run("show", "n", "5")
      assert.matches('^number     5 of words/n, waits behind 3 of its key\n[^\n]*\nkey        "bob"\n', one)
      stage:stop()
    end)

    it("shows one with its value, and when and why each try has failed", function()
      queue("words", { { b = 'x' } })
      local stage = assert(store:stage("words", 1, function() error "no x" end, nil, { name = "n", backoff = 3600000 }))
      patience.wait_for(function() return stage:stats().failed == 1 end)
      patience.wait_for(function() return assert(store:queue "n"):get(1).running == false end)
      local text = run("show", "n", "1")
      assert.matches('^number     1 of words/n, is delivered again at .*\nvalue      { "?b"? ?= "x" }\n'
        .. 'errors     [%d-]+ [%d:]+, start 1: .*no x\n$', text)
      assert.matches("last error: .* ago, message 1, start 1: .*no x", (run("show", "n")))
      local missing, status = run("show", "n", "2")
      assert.same({ "runnel queues: there is no message 2 of words/n that is not done\n", 1 }, { missing, status })
      stage:drain()
    end)

    it("shows how much of its room an account of a server has used, if that has an end", function()
      local function text(storage) return table.concat(view.queues { storage = storage }, "\n") end
      assert.matches("\n\nstored: 1.5 GB of 10 GB$", text { used = 1500000000, most = 10000000000 })
      assert.equal("there are no queues", text { used = 7 })
    end)

    it("writes their numbers for Prometheus, and ends with status 3 beyond a limit", function()
      queue("words", { "a", "b", "c" }, { taken = 2, done = 1 })
      local text, status = run "--metrics"
      assert.equal(0, status)
      assert.matches('\nrunnel_queues_waiting{queue="words/n"} 1\n', text)
      assert.matches('\nrunnel_queues_done_total{queue="words/n"} 1\n', text)
      promtool.assert_passes(text)
      assert.same({ "1 queue within the limits\n", 0 }, { run("--max-waiting=1", "--max-oldest=3600") })
      assert.same({ "words/n: 1 waiting, more than 0\n", 3 }, { run "--max-waiting=0" })
      rn.sleep(5)
      text, status = run("--metrics", "--max-oldest=0")
      assert.equal(3, status)
      assert.matches("words/n: the oldest is [%d.]+ %l+ old, more than 0 ms\n", text)
      assert.matches("# HELP runnel_queues_waiting ", text)
      for words, message in pairs {
        ["--max-waiting=x"] = '%-%-max%-waiting: a number expected, got "%-%-max%-waiting=x"',
        ["--max-waiting"] = "%-%-max%-waiting: a number expected", ["--metrics=1"] = "%-%-metrics: no value expected",
      } do
        text, status = run(words)
        assert.equal(2, status)
        assert.matches("^runnel queues: " .. message, text)
      end
      assert.matches("^runnel queues: %-%-metrics takes no command", (run("show", "n", "--metrics")))
      assert.matches("^runnel queues: %-%-watch takes no other option", (run("--watch", "--metrics")))
    end)
  end)
end)
