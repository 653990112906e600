-- What an operator meets, over real servers: finished messages that take places, settings that differ, jobs of programs
-- that have gone, stages without workers, elections.

local json = require "runnel.json"
local nats_server = require "spec.support.queue.nats_server"
local raises = require "spec.support.raises"
local patience = require "spec.support.patience"
local rn = require "runnel"
local waits = require "runnel.nats.internal.patience"

describe("operating", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local LUA = os.getenv "LUA" or "lua5.4"
  local server, conn

  local function connect(url) return assert(nats.connect(url or server.url, { reconnect_wait = 20 })) end

  before_each(function()
    server = nats_server.start()
    conn = connect()
  end)
  after_each(function()
    waits.scale(1)
    waits.ask = 2000
    conn:close()
    server:close()
  end)

  local wait_for = patience.wait_for

  -- Starts a Lua program, which gets the server's address.
  local function start(code, ...)
    local path = server.set:write(("program %d.lua"):format(server.set.count), code)
    return server.set:start { LUA, path, server.url, ... }
  end

  describe("work queues", function()
    -- No message may be redelivered because the machine is busy: nats-server 2.9.10 may count it as redelivered for
    -- ever, and removes nothing then.
    local ACK_WAIT = 1000 * patience.seconds(1)

    -- Stores values, all at the same time.
    local function fill(name, subject, n)
      local sink = assert(conn:sink(name, { subject = subject }))
      local stored = rn.pmap_unordered(32, function(i) return (sink:put("value " .. i)) end, (function()
        local list = {}
        for i = 1, n do list[i] = i end
        return list
      end)())
      for _ = 1, n do assert.is_true(stored:take()) end
    end

    -- Takes and acknowledges n messages, all of the consumer's but `left`; then the server writes that, and is killed.
    -- It has forgotten which were removed. Closes the source, which would acknowledge the last ones again.
    local function lose(name, consumer, source, n, left)
      server:keep(name, "msgs")
      for _ = 1, n do source:take():ack() end
      server:wait_until_written(name, consumer, assert(conn:stream(name)):stats().last, left)
      source:close()
      server:kill()
      server:bring_back(name, "msgs")
      server:start()
      wait_for(function() return conn:stats().status == "connected" end)
    end

    it("have room again after the server was killed", function()
      local stream = assert(conn:stream("work", { retention = "workqueue", discard = "new", max_messages = 200 }))
      fill("work", nil, 200)
      local source = assert(conn:source("work", { name = "w", ack_wait = ACK_WAIT }))
      lose("work", "w", source, 199, 1)
      assert.equal(200, stream:stats().messages)
      source = assert(conn:source("work", { name = "w", ack_wait = ACK_WAIT }))
      rn.go(function()
        for m in source do m:ack() end
      end)
      wait_for(function() return stream:stats().messages <= 1 end)
      fill("work", nil, 199)
      source:close()
    end)

    it("with a consumer for each of several subjects keep what is not finished", function()
      local stream = assert(conn:stream("work", { retention = "workqueue", subjects = { "work.a", "work.b" } }))
      fill("work", "work.b", 20)
      fill("work", "work.a", 60)
      local source = assert(conn:source("work", { name = "a", subject = "work.a", ack_wait = ACK_WAIT }))
      lose("work", "a", source, 60, 0)
      assert.equal(80, stream:stats().messages)
      source = assert(conn:source("work", { name = "a", subject = "work.a", ack_wait = ACK_WAIT }))
      wait_for(function() return stream:stats().messages == 20 end)
      local b = assert(conn:source("work", { name = "b", subject = "work.b" }))
      for _ = 1, 20 do b:take():ack() end
      wait_for(function() return stream:stats().messages == 0 end)
      source:close()
      b:close()
    end)

    it("are refused for the results of a stage, unless it may store them twice", function()
      assert(conn:stream "orders")
      for _, retention in ipairs { "workqueue", "interest" } do
        assert(conn:stream(retention, { retention = retention }))
        local stage, err = conn:stage("orders", 1, function() end, retention)
        assert.is_nil(stage)
        assert.matches(('^stage: the stream "%s" has the retention "%s": .*at_least_once = true$')
          :format(retention, retention), err)
        assert(conn:stage("orders", 1, function() end, retention, { at_least_once = true })):drain()
      end
      raises("^stage: at_least_once: true or false expected, got 1$", function()
        conn:stage("orders", 1, print, "invoices", { at_least_once = 1 })
      end)
    end)
  end)

  describe("settings", function()
    it("that differ from the server's are errors", function()
      local function serve(opts)
        opts.drain_on_term = false
        return function() conn:serve("resize", 1, print, opts) end
      end
      serve { ack_wait = 700, max_running = 5, max_age = 60000 }()
      serve {}()
      serve { ack_wait = 700, replicas = 1 }()
      for option, wrong in pairs { ack_wait = 800, max_running = 6, max_age = 70000, storage = "memory" } do
        local message = raises("^serve: the .* exists with other settings: .*; change the option, or the server's "
          .. "setting by conn:queue%(\"resize\"%):change$", serve { [option] = wrong })
        assert.is_truthy(message:find(option, 1, true), message)
      end
      raises("^remote: the stream runnel%-jobs%-resize exists with other settings: max_age is 60000, not 70000",
        function() conn:remote("resize", { max_age = 70000 }) end)
      assert.is_true(assert(conn:queue "resize"):change { ack_wait = 800, max_age = 70000 })
      serve { ack_wait = 800, max_age = 70000 }()
    end)

    it("of replicas are raised, and not lowered", function()
      local cluster <close> = nats_server.cluster()
      local far <close> = connect(cluster.url)
      local function once_possible(f) -- the servers do not know each other at once
        return wait_for(function()
          local ok, stage = pcall(f)
          return ok and stage, stage
        end)
      end
      local double = once_possible(function() return far:remote "double" end)
      once_possible(function()
        return far:serve("double", 2, function(v) return 2 * v end, { replicas = 3, drain_on_term = false })
      end)
      local info = assert(json.decode(assert(far:request("$JS.API.STREAM.INFO.runnel-jobs-double", "")).data))
      assert.equal(3, info.config.num_replicas)
      assert.equal(8, double(4))
      far:remote("double", { replicas = 3 })
      raises("^remote: the stream runnel%-jobs%-double exists with other settings: replicas is 3, not 1; ",
        function() far:remote("double", { replicas = 1 }) end)
    end)

    it("of streams are changed, and consumers deleted", function()
      local stream = assert(conn:stream("orders", { max_age = 600000 }))
      assert.is_true(stream:change { max_age = 60000, subjects = { "orders", "more" } })
      assert.same({ "orders", "more" }, { table.unpack(stream.subjects) })
      assert.equal(60000, stream.duplicates)
      assert(conn:stream("orders", { max_age = 60000, subjects = { "orders", "more" } }))
      assert.matches("storage", select(2, stream:change { storage = "memory" }))
      raises('^change: unknown option "max_ages"', function() stream:change { max_ages = 1 } end)
      raises("^change: max_age: a number of milliseconds, at least 0, expected",
        function() stream:change { max_age = "1" } end)
      raises("^change: options: a table expected, got nothing$", function() stream:change() end)
      local source = assert(conn:source("orders", { name = "shop" }))
      waits.consumer_back = 100
      assert.is_true(stream:delete_consumer "shop")
      local m, err = source:take()
      assert.is_nil(m)
      assert.matches('the consumer "shop" of the stream "orders" was deleted', err)
      assert.same({ nil, "consumer not found" }, { stream:delete_consumer "shop" })
    end)
  end)

  it("jobs of programs that were killed are removed, and not run", function()
    local gone = start [[
      local rn = require "runnel"
      local conn = assert(require("runnel.nats").connect(arg[1]))
      local echo = conn:remote "echo"
      for i = 1, 500 do rn.go(echo, "old") end
      rn.yield()
      assert(conn:flush())
      print "ready"
      io.stdout:flush()
      rn.sleep(1e6)]]
    assert.is_true(gone:says "ready", gone:output())
    gone:signal "KILL"
    gone:wait()
    local old, alive = 0, connect()
    -- The server counts the last ones a moment after it has stored them.
    wait_for(function() return assert(conn:queue "echo").waiting == 500 end)
    local result = rn.pmap(1, conn:remote "echo", { "new" })
    alive:serve("echo", 4, function(v)
      if v == "old" then old = old + 1 end
      rn.sleep(50)
      return v
    end, { drain_on_term = false })
    assert.equal("new", (rn.alts { result, rn.timeout(60000) }))
    assert.is_true(old <= 12, old) -- one for each of the 4 at a time, and what starts until the answer has come
    wait_for(function() return assert(conn:queue "echo").waiting == 0 end)
    alive:close()
  end)

  it("jobs of a program that was gone for a moment run", function()
    if not nats_server.has_proxy then return pending "luv is not installed" end
    waits.scale(0.1)
    local proxy = nats_server.proxy(server)
    local far, near = connect(proxy.url), connect()
    local gate = rn.chan()
    local worker = near:serve("echo", 1, function(v)
      gate:take()
      return v
    end, { drain_on_term = false })
    local values = {}
    for i = 1, 20 do values[i] = i end
    local results = rn.pmap(20, far:remote "echo", values)
    wait_for(function() return worker:stats().running == 1 end)
    proxy:refuse()
    gate:close()
    rn.sleep(12 * waits.submitter_again // 10) -- the worker looks again, and finds the submitter gone
    proxy:flow()
    for i = 1, 20 do assert.equal(i, (rn.alts { results, rn.timeout(60000) })) end
    far:close()
    near:close()
  end)

  it("a stage without workers, or one that is paused, says so after a while", function()
    local function run()
      return start [[
        local rn = require "runnel"
        require("runnel.nats.internal.patience").scale(0.1)
        local conn = assert(require("runnel.nats").connect(arg[1]))
        for v in rn.pmap(2, conn:remote "echo", { 1, 2 }) do print(v) end]]
    end
    local alone = run()
    assert.is_true(alone:says("runnel: remote echo: jobs that wait: 2; no worker takes them; a worker is a program "
      .. 'with conn:serve("echo", ...)\n'), alone:output())
    local worker = conn:serve("echo", 2, function(v) return v end, { drain_on_term = false })
    assert.equal(0, alone:wait(), alone:output())
    assert.matches("\n1\n2\n$", alone:output())
    assert(assert(conn:queue "echo"):pause())
    local second = run()
    local line = "runnel: remote echo: jobs that wait: 2; it is paused (runnel queues resume echo)\n"
    assert.is_true(second:says(line), second:output())
    assert(assert(conn:queue "echo"):resume())
    assert.equal(0, second:wait(), second:output())
    worker:stop()
  end)

  it("a server that does not answer for a while is asked again", function()
    local found
    waits.ask = 200
    server:pause()
    local asking = rn.go(function() found = assert(conn:stream "orders") end)
    rn.sleep(3 * waits.ask)
    server:resume()
    assert.is_nil(select(2, asking:take()))
    assert.equal("orders", found.name)
  end)
end)
