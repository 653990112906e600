-- The events of a connection to NATS: conn:events and conn:on_event.

local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"

describe("the events of a connection to NATS", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  -- Takes events up to one of that name.
  local function event_of(events, name)
    while true do
      local event = assert(rn.alts { events, rn.timeout(30000) }, "no event " .. name)
      if event.event == name then return event end
    end
  end

  -- Lets no other go block run meanwhile.
  local function compute_for(ms)
    os.execute(("sleep %g"):format(ms / 1000))
  end

  it("tell of a server that joins the cluster", function()
    local first <close> = nats_server.start {
      jetstream = false, config = 'cluster { name: spec, listen: "127.0.0.1:-1" }',
    }
    assert(first.program:says "Listening for route connections on")
    local port = first:log():match "Listening for route connections on [%d.]+:(%d+)"
    local conn <close> = assert(nats.connect(first.url))
    local events = conn:events()
    local second <close> = nats_server.start {
      jetstream = false,
      config = ('server_name: second\ncluster { name: spec, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:%s"] }')
        :format(port),
    }
    assert.equal(first.url, event_of(events, "discovered").url)
    assert.is_true(second:running())
  end)

  it("tell that the server is about to stop", function()
    local server <close> = nats_server.start { jetstream = false }
    local conn <close> = assert(nats.connect(server.url))
    local events = conn:events()
    server.program:signal "USR2"
    assert.equal(server.url, event_of(events, "lame_duck").url)
    assert.is_true(conn:flush())
  end)

  it("keep a limited number of errors while the program computes #ci", function()
    local server <close> = nats_server.start {
      jetstream = false,
      config = "authorization { users: [ { user: u, password: p, permissions: { publish: { deny: refused } } } ] }",
    }
    local conn <close> = assert(nats.connect(server.url, { user = "u", password = "p" }))
    local _, sub = conn:subscribe "last"
    local errors = 0
    conn:on_event(function(event)
      if event.event == "error" then errors = errors + 1 end
    end)
    for _ = 1, 10000 do conn:publish("refused", "") end
    conn:publish("last", "")
    local before = rn.now()
    while sub:stats().delivered == 0 and rn.now() - before < 20000 do end
    compute_for(200)
    assert.is_true(conn:flush())
    rn.sleep(50)
    assert.is_true(errors >= 100 and errors < 10000, errors .. " errors")
  end)

  describe("tell of dropped messages", function()
    local server, conn, events

    setup(function() server = nats_server.start { jetstream = false } end)
    teardown(function() server:close() end)
    before_each(function()
      conn = assert(nats.connect(server.url))
      events = conn:events()
    end)
    after_each(function() conn:close() end)

    -- Sends more than the second of three subscriptions keeps. No event gets to Lua before this returns.
    local function overfill()
      conn:subscribe "before"
      local _, sub = conn:subscribe("slow", { max_waiting = 1 })
      conn:subscribe "after"
      for _ = 1, 5000 do conn:publish("slow", "x") end
      local before = rn.now()
      while sub:stats().dropped == 0 and rn.now() - before < 20000 do end
      return sub
    end

    it("with the subscription that has lost them", function()
      overfill()
      local event = event_of(events, "dropped")
      assert.equal("slow", event.subject)
      assert.is_true(event.dropped > 0)
    end)

    it("without a subscription that has been closed meanwhile", function()
      local sub = overfill()
      sub:close()
      local event = event_of(events, "dropped")
      assert.is_nil(event.subject)
      assert.is_nil(event.dropped)
      assert.is_true(sub:stats().dropped > 0)
    end)
  end)

  it("go on after other channels of them have been closed", function()
    local server <close> = nats_server.start { jetstream = false }
    local conn <close> = assert(nats.connect(server.url, { reconnect_wait = 20 }))
    local first, second, third = conn:events(), conn:events(), conn:events()
    first:close()
    third:close()
    server:kill()
    event_of(second, "disconnected")
    server:start()
    event_of(second, "reconnected")
  end)
end)
