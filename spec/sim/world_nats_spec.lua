-- Hosts of a simulated world with connections to its NATS server: names, faults, the end, stories.

local json = require "runnel.json"
local nats_server = require "spec.support.queue.nats_server"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_server.library()

describe("runnel.nats in a simulated world", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- Runs a program on a host beside a server. Returns what it returns.
  local function beside_server(f, opts)
    return sim.run(function()
      local world, result = sim.world(), nil
      local server = world:nats("server", opts)
      world:host("client", function() result = table.pack(f(world, server)) end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  it("connects by the name of a host, and says who cannot be reached", function()
    local url, one, two, three = beside_server(function(world)
      local conn <close> = assert(nats.connect "nats://user:secret@server:4222")
      world:host("idle", function() end)
      return conn.url, select(2, nats.connect "nats://nobody"), select(2, nats.connect "idle"),
        select(2, nats.connect { "nobody", "server:1" })
    end)
    assert.equal("nats://server:4222", url)
    assert.equal("cannot connect to nats://nobody: No server available for connection", one)
    assert.equal("cannot connect to idle: No server available for connection", two)
    assert.equal("cannot connect to nobody, server:1: No server available for connection", three)
  end)

  it("is an error outside hosts, and where there is no such server", function()
    sim.run(function()
      local _, err = pcall(nats.connect, "nats://server")
      assert.matches("connect: a simulation, whose time is virtual, .*world:nats", err)
      local world = sim.world()
      world:nats "server"
      assert.matches("world:nats", (select(2, pcall(nats.connect, "nats://server"))))
      assert.matches('nats: there is a host "server" already', (select(2, pcall(world.nats, world, "server"))))
      assert.matches("nats: unknown option", (select(2, pcall(world.nats, world, "b", { restarts = 1 }))))
      assert.matches("nats: max_payload", (select(2, pcall(world.nats, world, "b", { max_payload = 0 }))))
      assert.matches("nats: sync_interval", (select(2, pcall(world.nats, world, "b", { sync_interval = -1 }))))
      assert.matches("nats: intercept", (select(2, pcall(world.nats, world, "b", { intercept = true }))))
      world:host("b", function() end)
      assert.matches("elect: a host with a NATS server", (select(2, pcall(world.elect, world, "b", 1))))
      assert.matches("elect: ms", (select(2, pcall(world.elect, world, "server", 0))))
      world:run()
    end)
  end)

  it("takes the time that messages take, and the world's clock", function()
    local elapsed, time, value, payload = beside_server(function()
      local conn <close> = assert(nats.connect "nats://server")
      assert(conn:stream "s")
      local sink = assert(conn:sink "s")
      local before = sim.elapsed()
      assert(sink:put "text")
      local elapsed = sim.elapsed() - before
      local messages = assert(conn:source "s")
      local message = messages:take()
      messages:close()
      return elapsed, message.time, message.data, conn.max_payload
    end, { max_payload = 1000 })
    assert.equal(2, elapsed)
    assert.is_true(time >= 1700000000000 and time < 1700000001000)
    assert.equal("text", value)
    assert.equal(1000, payload)
  end)

  it("refuses more than the server accepts, with the headers", function()
    local errors = beside_server(function()
      local conn <close> = assert(nats.connect "nats://server")
      assert(conn:publish("a", ("x"):rep(1000 - 18), { headers = { A = "b" } }))
      return { select(2, pcall(conn.publish, conn, "a", ("x"):rep(1000 - 17), { headers = { A = "b" } })),
        select(2, pcall(conn.publish, conn, "a", ("x"):rep(1001))) }
    end, { max_payload = 1000 })
    assert.matches("the value takes 983 bytes, its headers 18, and the server's limit is 1000", errors[1])
    assert.matches("the value takes 1001 bytes, and the server's limit is 1000", errors[2])
  end)

  it("notices a cut, keeps what is published meanwhile, and is back after it", function()
    local names, outage, text = beside_server(function(world)
      local conn <close> = assert(nats.connect("nats://server", { reconnect_wait = 100 }))
      local ch, events = conn:subscribe "a", conn:events()
      conn:flush()
      world:partition("client", "server")
      local names = { events:take().event }
      assert(conn:publish("a", "kept"))
      rn.sleep(1000)
      world:heal()
      local event = events:take()
      names[2] = event.event
      local text = ch:take().data
      ch:close()
      events:close()
      return names, event.outage, text
    end)
    assert.same({ "disconnected", "reconnected" }, names)
    assert.is_true(outage > 1000 and outage < 5000, tostring(outage))
    assert.equal("kept", text)
  end)

  it("is closed by the loss of the connection if it may not reconnect", function()
    local reason, status = beside_server(function(_, server)
      local conn = assert(nats.connect("nats://server", { reconnect = false }))
      local closed = rn.chan()
      conn:on_close(function(err) closed:close(err) end)
      server:restart()
      return select(2, closed:take()), conn:stats().status
    end)
    assert.equal("Connection Closed", reason)
    assert.equal("closed", status)
  end)

  it("drops what a full channel has no room for, and says so", function()
    local delivered, dropped, name = beside_server(function()
      local conn <close> = assert(nats.connect "nats://server")
      local ch, sub = conn:subscribe("a", { max_waiting = 2 })
      local events = conn:events()
      for i = 1, 5 do conn:publish("a", tostring(i)) end
      conn:flush()
      local stats = sub:stats()
      local name = events:take().event
      assert.equal("1", ch:take().data)
      ch:close()
      events:close()
      return stats.delivered, stats.dropped, name
    end)
    assert.same({ 5, "dropped" }, { delivered, name })
    assert.is_true(dropped >= 2)
  end)

  it("flushes, also if a program subscribes to all subjects, or gets no messages of its own", function()
    local results = table.pack(beside_server(function(world)
      local all = assert(nats.connect "nats://server")
      local ch = all:subscribe(">", { buffer = 10 })
      all:flush()
      local conn = assert(nats.connect "nats://server")
      local quiet = assert(nats.connect("nats://server", { no_echo = true }))
      local before, flushed = sim.elapsed(), conn:flush()
      local elapsed = sim.elapsed() - before
      ch:close()
      all:flush()
      local is_quiet = quiet:flush()
      for _, one in ipairs { all, conn, quiet } do one:drain() end
      return flushed, elapsed, is_quiet, world ~= nil
    end))
    assert.same({ true, 2, true, true, n = 4 }, results)
  end)

  it("serves others: who subscribes or works may wait for ever, and SIGTERM drains workers", function()
    local result, ended
    sim.run(function()
      local world = sim.world()
      world:nats "server"
      world:host("echo", function()
        for message in assert(nats.connect "nats://server"):subscribe "echo" do message:respond(message.data) end
      end)
      local worker = world:host("worker", function()
        local conn = assert(nats.connect "nats://server")
        ended = conn:serve("double", 1, function(n) return 2 * n end):wait()
        conn:drain()
      end)
      world:host("client", function()
        local conn = assert(nats.connect "nats://server")
        rn.sleep(100)
        local double = conn:remote "double"
        result = { conn:request("echo", "a").data, double(1) }
        double:close()
        conn:drain()
        worker:signal "term"
      end)
      world:run()
    end, { leaks = true })
    assert.same({ "a", 2 }, result)
    assert.is_true(ended)
  end)

  it("stores a dead letter when JetStream answers again, however long that takes, and gives the error then", function()
    local tries, calls, reports = 0, nil, {}
    local letters, elapsed = nil, nil
    sim.run(function()
      local world = sim.world()
      rn.on_error(function(err) reports[#reports + 1] = tostring(err) end)
      world:nats "server"
      local worker = world:host("worker", function()
        local conn = assert(nats.connect "nats://server")
        conn:serve("flaky", 1, function()
          tries = tries + 1
          if tries == 2 then world:elect("server", 60000) end
          error("no", 0)
        end):wait()
        conn:drain()
      end)
      world:host("client", function()
        local conn <close> = assert(nats.connect "nats://server")
        local flaky = conn:remote("flaky", { tries = 2, backoff = 10, traceback = false })
        local before = sim.elapsed()
        calls = { pcall(flaky, "a") }
        elapsed = sim.elapsed() - before
        letters = conn:dead("flaky"):list()
        flaky:close()
        worker:signal "term"
      end)
      world:run()
    end)
    assert.same({ false, "no" }, calls)
    assert.is_true(elapsed >= 60000 and elapsed < 90000, elapsed)
    assert.same({ 1, "no", 2 }, { #letters, letters[1].error, tries })
    assert.matches("serve flaky: a dead letter cannot be stored for now: JetStream has not answered", reports[1])
  end)

  it("loses, delays and refuses the messages that the program's function names", function()
    local got, answers = {}, nil
    beside_server(function()
      local conn <close> = assert(nats.connect "nats://server")
      local ch = conn:subscribe "a.*"
      for _, subject in ipairs { "a.late", "a.lost", "a.usual" } do conn:publish(subject, "x") end
      for i = 1, 2 do got[i] = ch:take().subject end
      local function ask(subject)
        local answer, err = conn:request(subject, "", { timeout = 1000 })
        return answer and answer.data or rn.is_timeout(err)
      end
      answers = { ask "refused", ask "lost" }
      conn:publish("refused", "no answer is asked for")
      assert(conn:flush())
    end, { intercept = function(subject, data)
      if subject == "a.late" then
        assert.equal("x", data)
        return 50
      end
      if subject:find "lost" then return false end
      if subject == "refused" then return { code = 503, description = "insufficient resources" } end
    end })
    assert.same({ "a.usual", "a.late" }, got)
    assert.same({ "insufficient resources", 503 },
      { json.decode(answers[1]).error.description, json.decode(answers[1]).error.code })
    assert.is_true(answers[2])
  end)

  -- How many messages a stream has, of 10 that were stored a minute ago and 10 that were stored just now, and the
  -- number of the next one, after an end of the server, for some seeds: as a set.
  local function left_after(how, sync_interval)
    local found = {}
    for seed = 1, 20 do
      sim.run(function()
        local world = sim.world()
        local server = world:nats("server", { sync_interval = sync_interval })
        world:host("client", function()
          local conn <close> = assert(nats.connect("nats://server", { reconnect_wait = 10 }))
          assert(conn:stream "s")
          local sink = assert(conn:sink "s")
          for i = 1, 20 do
            assert(sink:put(tostring(i)))
            if i == 10 then rn.sleep(60000) end
          end
          server[how](server)
          server:restart()
          rn.sleep(1000)
          local left = conn:stream("s"):stats().messages
          local _, next_number = assert(sink:put "next")
          found[("%d messages, then number %d"):format(left, next_number)] = true
        end)
        world:run()
      end, { seed = seed })
    end
    return found
  end

  it("loses in a crash, by a choice, what the server has stored in the last sync_interval, and nothing in a kill",
    function()
      local all, half = "10 messages, then number 11", "15 messages, then number 16"
      local none = "20 messages, then number 21"
      assert.same({ [all] = true, [half] = true, [none] = true }, left_after("crash", 30000))
      assert.same({ [none] = true }, left_after("kill", 30000))
      assert.same({ [none] = true }, left_after "crash")
    end)

  it("does not answer while JetStream has no leader, and stores later", function()
    local ok, elapsed, err = beside_server(function(world)
      local conn <close> = assert(nats.connect "nats://server")
      assert(conn:stream "s")
      local sink = assert(conn:sink "s")
      world:elect("server", 3000)
      local before, _, err = sim.elapsed(), conn:request("s", "text", { timeout = 100 })
      local ok = sink:put "text"
      return ok, sim.elapsed() - before, err
    end)
    assert.is_true(ok)
    assert.is_true(elapsed >= 3000 and elapsed < 4000, tostring(elapsed))
    assert.matches("no responders", err)
  end)

  it("a server that crashes has perhaps not written the last acknowledgements", function()
    local seen = {}
    local function test()
      local world = sim.world()
      local server = world:nats "server"
      world:host("client", function()
        local conn = assert(nats.connect("nats://server", { reconnect_wait = 50 }))
        assert(conn:stream("s", { retention = "workqueue" }))
        assert(assert(conn:sink "s"):put "text")
        local consumer = '{"config":{"durable_name":"c","ack_policy":"explicit"}}'
        assert(conn:request("$JS.API.CONSUMER.DURABLE.CREATE.s.c", consumer))
        local inbox = conn:inbox()
        local messages = conn:subscribe(inbox)
        local function next_message()
          conn:publish("$JS.API.CONSUMER.MSG.NEXT.s.c", '{"expires":1000000000}', { reply = inbox })
          return messages:take()
        end
        assert(conn:request(next_message().reply, "+ACK"))
        local events = conn:events()
        server:restart()
        repeat until events:take().event == "reconnected"
        events:close()
        seen[next_message().data == "text" and "again" or "not again"] = true
        messages:close()
        conn:drain()
      end)
      world:run()
    end
    search.until_enough(function() return seen.again and seen["not again"] end, test)
    assert.same({ again = true, ["not again"] = true }, seen)
  end)

  it("tells a story of messages, which is the same each time", function()
    local function test()
      local world = sim.world()
      world:nats "server"
      world:host("worker", function()
        local conn = assert(nats.connect "nats://server")
        assert(conn:stream "orders")
        local orders = assert(conn:source("orders", { name = "me" }))
        orders:take():ack()
        orders:close()
        conn:drain()
        error("enough", 0)
      end)
      world:host("client", function()
        local conn = assert(nats.connect "nats://server")
        assert(conn:stream "orders")
        assert(assert(conn:sink "orders"):put "eggs")
        conn:drain()
      end)
      world:run()
    end
    local story = search.finds("enough", test, { full = true })
    for _, line in ipairs {
      'client %-> server: publishes to orders: "eggs"', 'server %-> client: orders has it as message 1',
      'server %-> worker: message 1 of orders/me: "eggs"', 'worker %-> server: %+ACK for message 1 of orders/me',
    } do
      assert.matches(line, story)
    end
    assert.not_matches("INFO", story)
    assert.not_matches("sleeps", story)
    assert.equal(story, search.finds("enough", test, { full = true }))
  end)
end)
