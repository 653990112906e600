-- Streams of JetStream over real servers: conn:stream, conn:source, conn:sink, conn:stage, conn:kv.

local rn = require "runnel"
local jetstream = require "runnel.nats.internal.jetstream"
local long = require "spec.support.long"
local names = require "runnel.nats.internal.names"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local waits = require "runnel.nats.internal.patience"

local nats, missing = nats_server.library()
if not nats then
  describe("streams", function() pending(missing) end)
  return
end

local server, conn

-- A connection that is back soon after the server is.
local function connect(url) return assert(nats.connect(url or server.url, { reconnect_wait = 20 })) end

local function take_within(ch, ms) return (rn.alts { ch, rn.timeout(ms) }) end

describe("streams", function()
  before_each(function()
    server = nats_server.start()
    conn = connect()
  end)
  after_each(function()
    conn:close()
    server:close()
  end)

  describe("conn:stream", function()
    it("says which setting of an existing stream is another one", function()
      assert(conn:stream("orders", { max_age = 60000 }))
      local found, err = conn:stream("orders", { max_age = 1000 })
      assert.is_nil(found)
      assert.equal('stream "orders" exists with other settings: max_age is 60000, not 1000', err)
    end)

    it("refuses wrong names and options at the caller's line", function()
      raises("^stream: name: .*my stream", function() conn:stream "my stream" end)
      raises("^stream: name: a name expected, got nothing", function() conn:stream() end)
      raises('^.*unknown option "size"', function() conn:stream("a", { size = 1 }) end)
      for name, wrong in pairs {
        max_age = { "1 day", "a number of milliseconds, at least 0, expected, got \"1 day\"" },
        storage = { "disk", '"file" or "memory" expected, got "disk"' },
        retention = { 7, '"limits", "workqueue" or "interest" expected, got 7' },
        replicas = { "3", 'an integer of at least 1 expected, got "3"' },
        max_messages = { -5, "an integer of at least 1 expected, got %-5" },
        subjects = { { 7 }, "a subject, or a list of them, expected, got table" },
        discard_per_subject = { 1, "true or false expected, got 1" },
      } do
        raises(("^stream: %s: %s"):format(name, wrong[2]), function() conn:stream("a", { [name] = wrong[1] }) end)
      end
    end)

    it("says that the connection is closed", function()
      local closed = connect()
      closed:close()
      assert.same({ nil, 'stream "a": the connection is closed' }, { closed:stream "a" })
      assert.same({ nil, "source: the connection is closed" }, { closed:source "a" })
      raises("^remote: the connection is closed", function() closed:remote "a" end)
      raises("^serve: the connection is closed", function() closed:serve("a", 1, print) end)
    end)

    it("opens a stream that somebody else makes at the same moment", function()
      -- The server may then say that the subjects of the two overlap, so this one has a go block in place of JetStream.
      local bare <close> = nats_server.start { jetstream = false }
      local other <close> = connect(bare.url)
      local absent = '{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
      local overlap = '{"error":{"code":400,"err_code":10065,"description":"subjects overlap"}}'
      local made = [[{"created":"now","config":{"name":"orders","subjects":["orders"],"num_replicas":1,
        "retention":"%s","discard":"%s","discard_new_per_subject":true,"max_msgs_per_subject":1},"state":{}}]]
      local others -- what the server has once the library has tried to make a stream
      local is_made
      rn.go(function()
        for message in other:subscribe "$JS.API.STREAM.>" do
          if message.subject:find(".CREATE.", 1, true) then
            is_made = true
            message:respond(overlap)
          else
            message:respond(is_made and others or absent)
          end
        end
      end)
      rn.yield()
      is_made, others = false, made:format("limits", "old")
      assert.equal("orders", assert(other:stream "orders").name)
      is_made, others = false, absent
      assert.same({ nil, 'stream "orders": subjects overlap' }, { other:stream "orders" })
      is_made, others = false, (made:format("workqueue", "new"):gsub('%["orders"%]', '["runnel.jobs.x.>"]'))
      other:remote "x"
      assert.is_true(is_made)
    end)

    it("says that a server has no JetStream", function()
      local bare <close> = nats_server.start { jetstream = false }
      local other <close> = connect(bare.url)
      local found, err = other:stream "orders"
      assert.is_nil(found)
      assert.matches("JetStream does not answer .*is it enabled %(nats%-server %-js%)", err)
    end)
  end)

  describe("conn:sink", function()
    it("stores values in any encoding, each under the subject of its put", function()
      assert(conn:stream("orders", { subjects = { "orders.*" } }))
      local sink = assert(conn:sink("orders", { encoding = "msgpack" }))
      assert(sink:put({ n = 1, list = { "a" } }, { subject = "orders.new" }))
      local source = assert(conn:source("orders", { encoding = "msgpack" }))
      local m = source:take()
      assert.same({ n = 1, list = { "a" } }, m.value)
      assert.equal("orders.new", m.subject)
      assert.is_true(math.abs(m.time - os.time() * 1000) < 10000)
      source:close()
    end)

    it("returns false when the server has not answered in time", function()
      assert(conn:stream "orders")
      local sink = assert(conn:sink("orders", { timeout = 300 }))
      server:pause()
      local ok, err = sink:put "a"
      server:resume()
      assert.is_false(ok)
      assert.matches('^the stream "orders" has not answered within 300 ms; it may have the message', err)
    end)

    it("refuses what the stream cannot have", function()
      assert(conn:stream("orders", { subjects = { "orders.*" }, max_messages = 1, discard = "new" }))
      assert.same({ nil, 'sink: there is no stream "nothing" (conn:stream makes one)' }, { conn:sink "nothing" })
      local sink = assert(conn:sink "orders")
      raises("^put: .*say which subject", function() sink:put "a" end)
      raises('^put: "x" is not a', function() sink:put("a", { subject = "x" }) end)
      local to = { subject = "orders.new" }
      raises("^put: value: a string expected", function() sink:put({}, to) end)
      raises("^put: id: a string expected, got 7", function() sink:put("a", { id = 7 }) end)
      raises("^put: .*limit is", function() sink:put(("x"):rep(2000000), to) end)
      raises("^put: .*its headers.*limit is", function() sink:put(("x"):rep(conn.max_payload - 10), to) end)
      assert.is_true((sink:put("a", to)))
      assert.same({ false, "maximum messages exceeded" }, { table.unpack({ sink:put("b", to) }, 1, 2) })
    end)

    it("has stored each value once when the server was killed meanwhile", function()
      local stream = assert(conn:stream "orders")
      local sink = assert(conn:sink "orders")
      local n = long.times(1000, 30000)
      local killer = rn.go(function()
        for _ = 1, 2 do
          rn.sleep(40)
          server:kill()
          rn.sleep(50)
          server:start()
        end
      end)
      local i = 0
      local function next_value()
        i = i + 1
        return i <= n and tostring(i) or nil
      end
      assert.equal(n, sink:from(rn.to_chan(next_value), 64):take()) -- many are on their way when the server is killed
      killer:take()
      assert.is_true((sink:put "last"))
      assert.equal(n + 1, stream:stats().messages)
    end)

    it("stores a value once if the answer of the server is lost, so that it is published again", function()
      if not nats_server.has_proxy then return pending "luv is not installed" end
      local stream = assert(conn:stream "orders")
      local proxy = nats_server.proxy(server)
      local through <close> = assert(nats.connect(proxy.url))
      local sink, n, puts = assert(through:sink "orders"), 20, {}
      assert(sink:put "first")
      local request = through.request
      function through:request(subject, value, opts)
        assert.is_true(opts.until_reconnect) -- so that it is published again at once after a reconnect
        return request(self, subject, value, opts)
      end
      proxy:deafen()
      for i = 1, n do
        puts[i] = rn.go(function()
          local ok, _, is_duplicate = sink:put(tostring(i), { id = i > n // 2 and "id " .. i or nil })
          return { ok, is_duplicate }
        end)
      end
      assert.is_true(patience.wait_until(function() return stream:stats().messages == n + 1 end))
      rn.sleep(100) -- for the answers to be lost
      proxy:flow()
      for i = 1, n do assert.same({ true, true }, (puts[i]:take())) end
      assert.equal(n + 1, stream:stats().messages)
    end)
  end)

  describe("conn:source", function()
    local function fill(n, opts)
      local stream = assert(conn:stream("orders", opts))
      local sink = assert(conn:sink "orders")
      for i = 1, n do assert(sink:put(tostring(i))) end
      return stream, sink
    end

    it("has every message once and in order without a name, although the server is killed", function()
      local _, sink = fill(0)
      local n = long.times(400, 5000)
      local source = assert(conn:source "orders")
      local writer = rn.go(function()
        for i = 1, n do assert(sink:put(tostring(i))) end
      end)
      for i = 1, n do
        assert.equal(tostring(i), source:take().value)
        if i == n // 2 then
          server:kill()
          server:start()
        end
      end
      writer:take()
      source:close()
    end)

    it("loses nothing when the network stalls and is cut", function()
      if not nats_server.has_proxy then return pending "luv is not installed" end
      local proxy = nats_server.proxy(server)
      local far <close> = connect(proxy.url)
      fill(200)
      local source = assert(far:source("orders", { name = "shop", ack_wait = 500 }))
      local seen, count = {}, 0
      while count < 200 do
        local m = source:take()
        if not seen[m.value] then
          seen[m.value], count = true, count + 1
        end
        m:ack()
        if count == 50 then
          proxy:stall()
          rn.go(function()
            rn.sleep(300)
            proxy:flow()
          end)
        elseif count == 120 then
          proxy:cut()
        end
      end
      source:close()
    end)

    it("has every message once and in order without a name, although the network has lost some", function()
      if not nats_server.has_proxy then return pending "luv is not installed" end
      local proxy = nats_server.proxy(server)
      local far <close> = connect(proxy.url)
      local _, sink = fill(10)
      local source = assert(far:source "orders")
      for i = 1, 30 do
        assert.equal(tostring(i), take_within(source, 20000).value)
        if i == 10 then
          proxy:deafen()
          for k = 11, 20 do assert(sink:put(tostring(k))) end -- they are sent to the source, and lost
          rn.sleep(50)
          proxy:cut()
          proxy:flow()
          for k = 21, 30 do assert(sink:put(tostring(k))) end
        end
      end
      source:close()
    end)
  end)

  describe("conn:stage", function()
    it("reports progress while a function computes", function()
      assert(conn:stream "words")
      local words = assert(conn:sink "words")
      assert(words:put "a")
      local answers = conn:subscribe "$JS.ACK.words.slow.1.>" -- to the first delivery
      local stage = assert(conn:stage("words", 2, function()
        os.execute "sleep 1.5" -- as if it computed
      end, nil, { name = "slow", ack_wait = 1000 }))
      patience.wait_until(function() return stage:stats().done > 0 end)
      stage:drain()
      local progress = 0
      local answer = answers:take()
      while answer.data == "+WPI" do
        progress = progress + 1
        answer = answers:take()
      end
      assert.equal("+ACK", answer.data)
      assert.is_true(progress >= 2, progress) -- on an idle machine 4
      answers:close()
    end)

    it("loses nothing and doubles nothing when its workers and the server are killed", function()
      local n = long.times(500, 5000)
      assert(conn:stream "numbers")
      local squares = assert(conn:stream "squares")
      local worker = server.set:write("worker.lua", [[
        local rn, nats = require "runnel", require "runnel.nats"
        local conn
        while true do -- the server may just be killed
          conn = nats.connect(arg[1], { reconnect_wait = 20 })
          if conn then break end
          rn.sleep(20)
        end
        local stage = assert(conn:stage("numbers", 8, function(v)
          rn.sleep(30)
          return ("%d"):format(tonumber(v) ^ 2)
        end, "squares", { ack_wait = 300, starts = 1000 }))
        stage:wait()]])
      local workers = {}
      local function start(i) workers[i] = server.set:start { os.getenv "LUA" or "lua5.4", worker, server.url } end
      for i = 1, 3 do start(i) end
      local stopped = false
      local killer = rn.go(function()
        local i = 0
        -- Not for ever: where the machine is busy, nothing would be done between two kills.
        for _ = 1, long.times(15, 150) do
          if stopped then return end
          rn.sleep(150)
          i = i % 3 + 1
          workers[i]:signal "KILL"
          start(i)
          if i == 3 then
            server:kill()
            server:start()
          end
        end
      end)
      local numbers, out = assert(conn:sink "numbers"), assert(conn:source "squares")
      rn.go(function() for i = 1, n do assert(numbers:put(tostring(i))) end end)
      local seen, count = {}, 0
      while count < n do
        local m = take_within(out, 60000)
        if not m then
          for i = 1, 3 do print(("worker %d: %s; %s"):format(i, workers[i]:status() or "runs", workers[i]:output())) end
        end
        assert.is_truthy(m, ("only %d of %d results"):format(count, n))
        assert.is_nil(seen[m.value], m.value .. " came twice")
        seen[m.value], count = true, count + 1
      end
      stopped = true
      killer:take()
      for i = 1, n do assert.is_true(seen[("%d"):format(i ^ 2)]) end
      rn.sleep(700) -- for what is repeated late
      assert.equal(n, assert(squares:stats()).messages)
      out:close()
    end)

    it("finishes its calls after SIGTERM, and before conn:drain closes the connection #ci", function()
      assert(conn:stream "orders")
      assert(conn:stream "done")
      server.set:write("worker.lua", [[
        local rn = require "runnel"
        local conn = assert(require("runnel.nats").connect(arg[1]))
        local begun = 0
        local stage = assert(conn:stage("orders", 2, function(v)
          begun = begun + 1
          if begun == 2 then print "two" end
          io.stdout:flush()
          if begun == 2 and arg[2] == "drain" then rn.go(function() assert(conn:drain()) end) end
          rn.sleep(500)
          return v
        end, "done"))
        assert(stage:wait())
        print("ended: " .. stage:stats().done)]])
      local sink = assert(conn:sink "orders")
      for i = 1, 8 do assert(sink:put(tostring(i))) end
      local LUA = os.getenv "LUA" or "lua5.4"
      local results = assert(conn:source "done")
      for round, how in ipairs { "TERM", "drain" } do
        local worker = server.set:start { LUA, server.set.dir .. "/worker.lua", server.url, how }
        assert(worker:says("two"), worker:output())
        if how == "TERM" then worker:signal "TERM" end
        assert.equal(0, worker:wait(), worker:output())
        assert.matches("ended: 2\n$", worker:output())
        for i = 2 * round - 1, 2 * round do assert.is_truthy(take_within(results, 5000), i) end
        assert.is_nil(take_within(results, 100))
      end
      results:close()
    end)

    it("goes on after a SIGTERM that the program ignores #ci", function()
      assert(conn:stream "orders")
      assert(conn:stream "done")
      local path = server.set:write("worker.lua", [[
        local rn = require "runnel"
        local conn = assert(require("runnel.nats").connect(arg[1]))
        local stage
        stage = assert(conn:stage("orders", 1, function(v)
          rn.go(function() stage:drain(5000) end)
          return v
        end, "done"))
        print "ready"
        io.stdout:flush()
        stage:wait()]])
      local command = { "sh", "-c", 'trap "" TERM; exec "$@"', "sh", os.getenv "LUA" or "lua5.4", path, server.url }
      local worker = server.set:start(command)
      assert(worker:says("ready"), worker:output())
      worker:signal "TERM"
      rn.sleep(200)
      assert.is_nil(worker:status())
      assert(assert(conn:sink "orders"):put "a")
      local results = assert(conn:source "done")
      assert.equal("a", assert(take_within(results, 20000)).value)
      assert.equal(0, worker:wait(), worker:output())
      results:close()
    end)

    it("refuses streams that are missing, and wrong arguments", function()
      assert(conn:stream "words")
      local function f() end
      local absent = 'stage: there is no stream "no" (conn:stream makes one)'
      assert.same({ nil, absent }, { conn:stage("words", 1, f, "no") })
      assert.same({ nil, absent }, { conn:stage("no", 1, f, "words") })
      raises("^.*needs the option name", function() conn:stage("words", 1, f) end)
      raises("^stage: n", function() conn:stage("words", 0, f, "out") end)
      raises("^stage: f", function() conn:stage("words", 1, nil, "out") end)
      raises('^stage: the module "no.such" cannot be loaded', function() conn:stage("words", 1, "no.such", "out") end)
      raises("^stage: drain_on_term: true or false expected, got 1", function()
        conn:stage("words", 1, f, nil, { name = "x", drain_on_term = 1 })
      end)
    end)
  end)

  describe("conn:kv", function()
    it("watches present values and changes, also when the server was killed", function()
      local bucket = assert(conn:kv("settings", { history = 5 }))
      assert(bucket:put("a.x", "1"))
      assert(bucket:put("b.x", "1"))
      assert(bucket:put("a.x", "2"))
      local all, some = assert(bucket:watch()), assert(bucket:watch("a.*", { from = "new" }))
      local function next_of(ch)
        local change = assert(take_within(ch, 10000), "no change came")
        return { change.key, change.value, change.revision, change.deleted, change.remaining }
      end
      assert.same({ "b.x", "1", 2, false, 1 }, next_of(all))
      assert.same({ "a.x", "2", 3, false, 0 }, next_of(all))
      server:kill()
      server:start()
      assert(bucket:put("a.x", "3"))
      assert(bucket:delete "a.x")
      for _, ch in ipairs { all, some } do
        local change = next_of(ch)
        assert.same({ "a.x", "3", 4 }, { change[1], change[2], change[3] })
        change = next_of(ch)
        assert.same({ "a.x", nil, 5, true }, { change[1], change[2], change[3], change[4] })
      end
      all:close()
      some:close()
    end)

    describe("and dead letters, if what is to be listed is removed before it comes,", function()
      local reader = require "runnel.nats.internal.reader"
      local open = reader.open
      after_each(function() reader.open = open end)

      -- Removes the messages of a stream when its next consumer has been made, and has not sent any yet.
      local function remove_soon(stream, subject)
        function reader.open(...)
          reader.open = open
          assert(jetstream.request(conn, "STREAM.PURGE." .. stream, { filter = subject }))
          return open(...)
        end
      end

      local function within_limit(f, ...)
        local block = rn.go(function(...) return table.pack(f(...)) end, ...)
        local results = assert(take_within(block, 20000), "it does not return")
        return table.unpack(results, 1, results.n)
      end

      it("list those that are there", function()
        local bucket = assert(conn:kv "leases")
        bucket:put("a", "x")
        bucket:put("b", "y")
        remove_soon("KV_leases", "$KV.leases.b")
        assert.same({ "a" }, within_limit(bucket.keys, bucket))
        remove_soon "KV_leases"
        assert.same({}, within_limit(bucket.keys, bucket))
        assert(conn:stream "in")
        assert(assert(conn:sink "in"):put "v")
        rn.on_error(function() end)
        assert(conn:stage("in", 1, function() error("no", 0) end, nil, { name = "strict", tries = 1 }))
        local letters = conn:dead "strict"
        patience.wait_for(function() return letters:count() == 1 end)
        rn.on_error(nil)
        remove_soon(names.dead_stream "strict")
        assert.same({ nil, "there is no dead letter 1 of strict" }, { within_limit(letters.get, letters, 1) })
        assert.same({}, within_limit(letters.list, letters))
      end)

      it("say so if the server does not answer", function()
        local bucket = assert(conn:kv "leases")
        bucket:put("a", "x")
        local limit <const>, look <const> = waits.answer, waits.look
        finally(function() waits.answer, waits.look = limit, look end)
        waits.answer, waits.look = 200, 50
        function reader.open(...)
          reader.open = open
          server:kill()
          return open(...)
        end
        local keys, err = within_limit(bucket.keys, bucket)
        assert.is_nil(keys)
        assert.matches("%a", err)
      end)
    end)
  end)
end)
