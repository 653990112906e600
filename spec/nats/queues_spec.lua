-- conn:queues and `runnel queues`, over real servers: what waits and runs, who works on it; pausing, changing.

local json = require "runnel.json"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local places = require "spec.support.queue.places"
local process = require "spec.support.process"
local queue_view = require "runnel.queue.view"
local raises = require "spec.support.raises"
local rn = require "runnel"
local terminal = require "spec.support.terminal"
local waits = require "runnel.nats.internal.patience"

describe("queues", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local server, conn, other, gate

  before_each(function()
    server, gate = nats_server.start(), rn.chan()
    waits.workers_answer = 60 -- on a busy machine answers come later: see queue_with
    conn, other = assert(nats.connect(server.url)), assert(nats.connect(server.url))
  end)
  after_each(function()
    gate:close()
    conn:close()
    other:close()
    server:close()
  end)

  -- A worker whose jobs wait for the gate.
  local function serve(n, opts)
    return other:serve("resize", n, function(v)
      if v ~= "quick" then gate:take() end
      return v
    end, opts or { drain_on_term = false })
  end

  local wait_for = patience.wait_for

  -- Asks for a queue until this many of its workers have answered in time.
  local function queue_with(name, workers)
    local queue
    wait_for(function()
      queue = conn:queue(name)
      return queue and #queue.workers == workers
    end)
    return queue
  end

  local function values_of(worker)
    local list = {}
    for i, call in ipairs(worker.running) do list[i] = call.value end
    table.sort(list)
    return list
  end

  it("have what waits and runs, and the workers with what each runs", function()
    local none
    wait_for(function() -- a busy server may not say in time how much it stores
      none = assert(conn:queues())
      return none.storage
    end)
    assert.same({ storage = { used = 0 } }, none)
    local worker, resize = serve(2), conn:remote "resize"
    local results = rn.pmap_unordered(8, resize, { "a.png", { width = 7 }, "c", "d", "e" })
    wait_for(function() return worker:stats().running == 2 and worker:stats().waiting == 0 end)
    local queue
    wait_for(function() -- the server counts those that wait a moment after it has stored them
      queue = queue_with("resize", 1)
      return queue.waiting == 3
    end)
    assert.same({ "resize", "jobs", 3, 2, 0, 0, false }, { queue.name, queue.kind, queue.waiting, queue.running,
      queue.given_up, queue.done, queue.paused })
    assert.is_true(queue.redelivered == 0 or patience.factor() > 2, queue.redelivered) -- the worker may be late
    assert.is_true(queue.rate == nil or queue.rate == 0) -- known from the second answer on
    assert.is_true(queue.oldest >= 0 and queue.oldest < 60000, queue.oldest)
    local first = queue.workers[1]
    local host, pid = require("runnel.nats.core").process()
    assert.same({ host, pid, 2, 0, false }, { first.host, first.pid, first.n, first.failed, first.paused })
    assert.equal('"a.png" { "width" = 7 }', table.concat(values_of(first), " "))
    gate:close()
    for _ = 1, 5 do results:take() end
    wait_for(function() return assert(conn:queues())[1].done == 5 end)
    queue = queue_with("resize", 1)
    assert.same({ 0, 0 }, { queue.waiting, queue.running })
    assert.is_true(queue.workers[1].done >= 5) -- a job runs twice if it is sent again while its result is on its way
    assert.is_nil(queue.oldest)
    assert.is_true(queue.rate >= 0)
    assert.equal("queue: resize (0 waiting, 0 running)", tostring(queue))
  end)

  it("have stages between streams, and consumers that nobody reads", function()
    assert(conn:stream "orders")
    assert(conn:stream "invoices")
    local stage <close> = assert(other:stage("orders", 1, function() gate:take() end, "invoices"))
    local sink = assert(conn:sink "orders")
    for i = 1, 4 do assert(sink:put("order " .. i)) end
    assert(conn:source("orders", { name = "audit" })):close()
    wait_for(function() return stage:stats().running == 1 end)
    wait_for(function()
      local queue = assert(conn:queue "audit")
      return queue.waiting + queue.running >= 4 -- nats-server 2.9.10 counts one too many now and then
    end)
    local list
    wait_for(function()
      list = assert(conn:queues())
      return #list[2].workers == 1
    end)
    assert.same({ "orders/audit", "orders/invoices" }, { list[1].name, list[2].name })
    assert.same({}, list[1].workers)
    assert.is_true(list[1].oldest >= 0 and list[1].oldest < 60000)
    assert.same({ '"order 1"' }, values_of(list[2].workers[1]))
    assert.equal("orders/invoices", assert(conn:queue "invoices").name)
    assert.equal("orders/audit", assert(conn:queue "orders/audit").name)
    gate:close()
  end)

  it("count what was delivered again, and do not count it as done", function()
    assert(conn:stream "orders")
    local tries = 0
    local stage <close> = assert(other:stage("orders", 40, function(v)
      if v ~= "1" then return gate:take() end
      tries = tries + 1
      if tries < 4 then error "again" end
      gate:take()
    end, nil, { name = "n", tries = 9, backoff = 10 }))
    local sink = assert(conn:sink "orders")
    for i = 1, 40 do assert(sink:put(tostring(i))) end
    wait_for(function() return stage:stats().running == 40 and tries == 4 end)
    local queue = queue_with("n", 1)
    local worker = queue.workers[1]
    assert.same({ 0, 40, 1, 0 }, { queue.waiting, queue.running, queue.redelivered, queue.done })
    assert.same({ 40, 40, 32, 0, 3, 3 },
      { worker.n, worker.busy, #worker.running, worker.waiting, worker.redelivered, worker.failed })
    assert.matches("40 of 40 running, 0 done, 3 failed, 3 redelivered;", queue_view.queues({ queue }, true)[5])
    gate:close()
    wait_for(function() return assert(conn:queue "n").done == 40 end)
  end)

  it("are paused and resumed, also for workers that start later, and after a restart of the server", function()
    local worker, resize = serve(2), conn:remote "resize"
    assert.equal("quick", resize "quick")
    assert.equal(1, assert(conn:queue "resize"):pause(places.answer()))
    local results = rn.pmap(4, resize, { "quick", "quick", "quick" })
    local later = serve(1)
    server:kill()
    server:start()
    wait_for(function() return conn:stats().status == "connected" and other:stats().status == "connected" end)
    rn.sleep(200)
    assert.equal(0, worker:stats().running + later:stats().running + worker:stats().done - 1)
    assert.is_nil(results:poll())
    local queue = queue_with("resize", 2)
    assert.same({ true, true, true }, { queue.paused, queue.workers[1].paused, queue.workers[2].paused })
    assert.equal(2, assert(queue:resume(places.answer())))
    for _ = 1, 3 do assert.equal("quick", (rn.alts { results, rn.timeout(30000) })) end
    assert.is_false(assert(conn:queue "resize").paused)
  end)

  it("have the workers that answer in time, whose limit the program gives", function()
    local path = server.set:write("busy.lua", [[
      local rn = require "runnel"
      local conn = assert(require("runnel.nats").connect(arg[1]))
      conn:serve("busy", 1, function()
        print "begins"
        io.stdout:flush()
        while not io.open(arg[2]) do os.execute "sleep 0.02" end -- no other go block runs
      end):wait()
    ]])
    local busy = conn:remote "busy"
    local program = server.set:start { os.getenv "LUA" or "lua5.4", path, server.url, server.set.dir .. "/free" }
    local job = rn.go(busy, 1)
    assert(program:says "begins")
    assert.equal(0, #assert(conn:queues())[1].workers)
    local found = rn.go(function() return assert(conn:queues(2 * places.answer())) end)
    rn.sleep(100)
    server.set:write("free", "")
    local queue = found:take()[1]
    assert.equal(1, #queue.workers)
    assert.equal(1, queue:pause(places.answer()))
    job:take()
    raises("^queues: ms: a number of milliseconds, at least 1, expected, got 0$", function() conn:queues(0) end)
    raises('^pause: ms: a number of milliseconds, at least 1, expected, got "x"$', function() queue:pause "x" end)
  end)

  it("that are paused end in good order #slow", function()
    -- A paused worker makes no requests, so it gets a message by one that it has made before. The server must have that
    -- one until the message comes, and on a busy machine the worker must not take it for lost.
    local silence = waits.reader_silence
    waits.reader_silence = 60000
    finally(function() waits.reader_silence = silence end)
    local function wait_for_request(consumer)
      wait_for(function()
        local info = assert(conn:request("$JS.API.CONSUMER.INFO." .. consumer, ""))
        return (json.decode(info.data).num_waiting or 0) >= 1
      end)
    end
    assert(conn:stream "orders")
    local stage = assert(other:stage("orders", 1, function() end, nil, { name = "count" }))
    wait_for_request "orders.count"
    assert.equal(1, assert(conn:queue "orders/count"):pause(places.answer()))
    assert(assert(conn:sink "orders"):put "one")
    wait_for(function() return assert(conn:queue "count").running >= 1 end) -- 2.9.10 may count one too many
    assert.is_true(stage:drain(30000))
    assert.equal(0, stage:stats().done)
    local worker = serve(1)
    wait_for_request "runnel-jobs-resize.workers"
    assert.equal(1, assert(conn:queue "resize"):pause(places.answer()))
    local result = rn.pmap(1, conn:remote "resize", { "quick" })
    wait_for(function() return worker:stats().waiting == 1 end)
    assert.is_true(worker:drain(30000))
    assert(assert(conn:queue "resize"):resume())
    serve(1)
    assert.equal("quick", result:take())
  end)

  it("that are paused after a message was lost are paused at the next reconnect", function()
    local proxy = nats_server.has_proxy and nats_server.proxy(server)
    if not proxy then return pending "luv is not installed" end
    local behind <close> = assert(nats.connect(proxy.url, { reconnect_wait = 20 }))
    local worker = behind:serve("resize", 1, function(v) return v end, { drain_on_term = false })
    proxy:refuse()
    assert.equal(0, assert(conn:queue "resize"):pause())
    proxy:flow()
    wait_for(function() return worker:report().paused end)
  end)

  it("are changed and deleted", function()
    local worker = serve(1)
    local queue = assert(conn:queue "resize")
    assert.is_true(queue:change { ack_wait = 700, max_running = 9, max_age = 60000 })
    local info = assert(conn:request("$JS.API.CONSUMER.INFO.runnel-jobs-resize.workers", ""))
    local config = assert(json.decode(info.data)).config
    assert.same({ 700000000, 9 }, { config.ack_wait, config.max_ack_pending })
    raises("^change: unknown option \"tries\"; known: ack_wait, max_age, max_running, replicas$", function()
      queue:change { tries = 3 }
    end)
    raises("^change: max_running: an integer of at least 1 expected, got 0$", function()
      queue:change { max_running = 0 }
    end)
    worker:stop() -- or it would make the queue again
    assert.is_true(queue:delete())
    local found, err = conn:queue "resize"
    assert.is_nil(found)
    assert.equal('there is no queue "resize"; the server has none', err)
    raises("^queue: name: a name expected, got nothing$", function() conn:queue() end)
  end)

  it("are shown at the prompt", function()
    if not terminal.available then return pending "tmux is missing" end
    local dir <close> = process.directory()
    local term = terminal.runnel(dir, "")
    term:enter(":queues " .. server.url)
    term:expect "there are no queues\n"
    term:enter(('conn = require("runnel.nats").connect "%s"'):format(server.url))
    term:enter "worker = conn:serve('resize', 3, print)"
    term:enter ":queues"
    term:expect "\nresize +0 +0 +0 +0 +%- +%- +1 %(3 at a time%)\n"
    term:enter ":queues conn"
    term:expect "resize:\n[^\n]+ 0 of 3 running, 0 done, 0 failed\n"
    term:enter ":queues 7"
    term:expect ":queues needs a connection of runnel.nats, a store, or a URL, got 7"
    term:enter ":queues nats://127.0.0.1:1"
    term:expect "cannot connect to nats://127.0.0.1:1: "
    term:close()
  end)

  it("list the messages that were never delivered, and cancel one", function()
    assert(conn:stream("orders", { subjects = { "orders.>" }, storage = "memory" }))
    local sink = assert(conn:sink("orders", { subject = "orders.a", encoding = "json" }))
    for i = 1, 4 do assert(sink:put { order = i }) end
    local source = assert(other:source("orders", { name = "n", max_running = 1, buffer = 1 }))
    local first = source:take()
    local queue = assert(conn:queue "n")
    local list = assert(queue:list())
    assert.same({ 3, 2, "orders.a", { order = 2 } }, { #list, list[1].sequence, list[1].subject, list[1].value })
    assert.equal(3, assert(queue:list { contains = '"order":3' })[1].sequence)
    assert.same({ 4 }, { assert(queue:list { after = 3 })[1].sequence })
    assert.same({}, queue:list { after = math.maxinteger })
    assert.matches("^message 1 of orders/n does not wait", select(2, queue:cancel(1)))
    assert.is_true(queue:cancel(3))
    assert.equal(2, #queue:list())
    assert.matches("^move: only a store", select(2, queue:move(2, "orders")))
    first:ack()
    assert.equal(2, source:take().sequence)
  end)

  it("list values in whatever encoding they are, and get a job's without its head", function()
    assert(conn:stream("mixed", { storage = "memory" }))
    local values = {
      { "msgpack", { a = { 1, "two" } } }, { "msgpack", "text" }, { "msgpack", ("x"):rep(150) }, { "msgpack", -1.5 },
      { "json", { b = true } }, { "raw", "wörter" }, { "raw", "ärger" }, { "raw", "k" },
      { "raw", "\xc1\xff" }, { "raw", "" },
    }
    for _, one in ipairs(values) do
      assert(assert(conn:sink("mixed", { encoding = one[1] })):put(one[2]))
    end
    assert(other:source("mixed", { name = "n", ack = "explicit", max_running = 1 })):close()
    local queue = assert(conn:queue "n")
    for i, one in ipairs(values) do assert.same(one[2], assert(queue:get(i)).value) end
    assert(conn:stream("numbers", { storage = "memory" }))
    assert(assert(conn:sink("numbers", { encoding = "msgpack" })):put(7))
    assert(other:source("numbers", { name = "few", ack = "explicit", max_running = 1 })):close()
    assert.equal("\7", assert(assert(conn:queue "few"):get(1)).value) -- one byte of ASCII may be a text
    assert(conn:serve("resize", 1, print)):stop()
    assert(conn:flush()) -- so that the server delivers no job to the worker, which would not be listed then
    local remote <close> = assert(other:remote "resize")
    rn.go(pcall, remote, { "a.png", 3 })
    patience.wait_for(function()
      local list = assert(assert(conn:queue "resize"):list())
      return list[1] and assert.same({ "a.png", 3 }, list[1].value)
    end)
  end)

  describe("of `runnel queues`", function()
    -- The command waits for answers of workers for 150 ms.
    local INIT <const> = "LUA_INIT=require('runnel.nats.internal.patience').workers_answer = 150"

    -- Runs the command while go blocks of this process run. Returns its status and output.
    local function run(...)
      local program = server.set:start { "env", INIT, process.runnel, "queues", ... }
      return assert(program:wait(), "it does not end"), program:output()
    end

    -- Runs the command until its output matches: on a busy machine workers may have answered too late. Its status.
    local function shows(pattern, ...)
      local words, status, text = { ... }, nil, nil
      local is_shown = patience.wait_until(function()
        status, text = run(table.unpack(words))
        return text:find(pattern)
      end)
      assert(is_shown, text)
      return status
    end

    it("are shown, paused, resumed and deleted", function()
      local worker = serve(2)
      local results = rn.pmap(4, conn:remote "resize", { "a.png", "b", "c" })
      wait_for(function() return worker:stats().running == 2 end)
      local status = shows("\nresize +1 +2 +0 +0 +0.0 +[%d.]+ m?s +1 %(2 at a time%)\n.*"
        .. "\nresize:\n  [^\n]+:%d+ [^\n]+, 2 of 2 running, 0 done, 0 failed; \"", server.url)
      assert.equal(0, status)
      shows("\n    \"a.png\" for [%d.]+ m?s\n", "show", "resize", server.url)
      shows("^resize is paused; 1 worker answered", "pause", "resize", server.url)
      assert.is_true(worker:report().paused)
      shows("\nresize [^\n]+  paused\n", server.url)
      shows("^resize goes on; 1 worker", "resume", "resize", server.url)
      assert.same({ 0, "resize is changed\n" }, { run("change", "resize", "ack_wait=800", server.url) })
      status = shows("^runnel queues: resize has 3 messages that are not done, and 1 worker, which would make it again:"
        .. " add %-%-force to delete it all the same\n$", "delete", "resize", server.url)
      assert.equal(1, status)
      gate:close()
      for _, name in ipairs { "a.png", "b", "c" } do
        local result = rn.alts { results, rn.timeout(60000 * patience.factor()) }
        assert.equal(name, result, tostring(worker))
      end
      worker:stop()
      assert.same({ 0, "resize is deleted\n" }, { run("delete", "resize", "--force", server.url) })
      assert.same({ 0, "there are no queues\n" }, { run(server.url) })
      assert.same({ 0, "0 queues deleted\n" }, { run("clean", server.url) })
    end)

    it("have dead letters, which are listed, shown, replayed and dropped #ci", function()
      local is_mended = false
      other:serve("resize", 2, function(v)
        if not is_mended then error("no room for " .. v, 0) end
        return v
      end, { drain_on_term = false })
      local resize = conn:remote("resize", { tries = 2, backoff = 5 })
      for i = 1, 4 do assert.is_false(pcall(resize, "image " .. i)) end
      assert.equal(4, assert(conn:queue "resize").given_up)
      local status, text = run("dead", "resize", server.url)
      assert.equal(0, status, text)
      assert.matches("^number +given up +starts +raised +bytes +error\n", text)
      assert.matches("\n +1  [%d-]+ [%d:]+ +2 +2 +8  no room for image 1\n", text)
      assert.equal(5, select(2, text:gsub("\n", "")))
      text = select(2, run("dead", "resize.dead", "2", server.url))
      assert.matches("\nvalue +\"image 2\"\nerror +no room for image 2\n", text)
      assert.same({ 1, "1: no room for image 1\n0 dead letters replayed, 1 failed\n" },
        { run("replay", "resize", "1", server.url) })
      is_mended = true
      assert.same({ 0, "1: done\n1 dead letter replayed\n" }, { run("replay", "resize", "1", server.url) })
      assert.same({ 0, "1 dead letter dropped\n" }, { run("drop", "resize", "2", server.url) })
      assert.same({ 1, "runnel queues: there is no dead letter 2 of resize\n" },
        { run("dead", "resize", "2", server.url) })
      assert.same({ 0, "3: done\n4: done\n2 dead letters replayed\n" }, { run("replay", "resize", "all", server.url) })
      assert.same({ 0, "there are no dead letters\n" }, { run("dead", "resize", server.url) })
      assert.same({ 0, "0 dead letters dropped\n" }, { run("drop", "resize", "all", server.url) })
    end)

    it("are shown again and again, until Ctrl-C #ci", function()
      local program = server.set:start { process.runnel, "queues", server.url, "--watch=1" }
      wait_for(function() return select(2, program:output():gsub("there are no queues", "")) >= 2 end)
      program:signal "INT"
      assert.equal(0, program:wait(), program:output())
      assert.not_matches("[\r\27]", program:output())
      assert.not_matches("interrupted", program:output())
    end)

    it("are not found on a server that is not there, and wrong words are errors", function()
      local status, text = run "nats://127.0.0.1:1"
      assert.equal(1, status)
      assert.matches("^runnel queues: cannot connect to nats://127.0.0.1:1: ", text)
      for words, message in pairs {
        nix = 'unknown command "nix"', pause = "pause needs the name of a queue",
        ["--watc"] = 'unknown command "%-%-watc"', ["drop x y"] = 'drop: a number expected, got "y"',
        replay = "replay needs the name of a queue", ["replay x"] = "replay: a number expected, got nothing",
        ["change x y"] = 'change: OPTION=NUMBER expected, got "y"', ["pause x y"] = "pause: a time expected",
        ["resume x"] = 'there is no queue "x"',
        ["clean 0"] = 'clean: a number expected, got "0"', ["--watch=x"] = '%-%-watch: a number expected, got "x"',
      } do
        local list = {}
        for word in words:gmatch "%S+" do list[#list + 1] = word end
        list[#list + 1] = server.url
        status, text = run(table.unpack(list))
        assert.equal(message:find "no queue" and 1 or 2, status, text)
        assert.matches("^runnel queues: " .. message, text)
      end
      assert.matches("^usage: runnel queues", select(2, run "help"))
    end)

    it("are those of the environment's server, with its password #ci", function()
      local own <close> = nats_server.start { user = "me", password = "p@ss w:rd" }
      local url = ("nats://me:p%%40ss%%20w%%3Ard@127.0.0.1:%d"):format(own.port)
      local program = server.set:start { "env", "RUNNEL_NATS_URL=" .. url, process.runnel, "queues" }
      assert.equal(0, program:wait(), program:output())
      assert.equal("there are no queues\n", program:output())
    end)
  end)
end)
