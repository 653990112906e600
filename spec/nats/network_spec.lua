-- Connections to NATS when the network accepts no bytes, and when they have ended before the program knows it.

local background = require "spec.support.background"
local rn = require "runnel"
local nats_server = require "spec.support.nats_server"

describe("a connection to a server that fails", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local server

  before_each(function() server = nats_server.start { jetstream = false } end)
  after_each(function() server:close() end)

  -- Whether the network accepts no bytes: the thread that writes has not written any for a while.
  local function is_full(conn)
    local before = conn:stats().buffered_bytes
    for _ = 1, 10 do
      if conn:stats().buffered_bytes <= 900000 then return false end
      rn.sleep(50)
    end
    return conn:stats().buffered_bytes >= before
  end

  -- Publishes until the network accepts no more bytes.
  local function fill(conn)
    assert(conn:flush())
    server:pause()
    local data = ("x"):rep(10000)
    for _ = 1, 10000 do
      assert(conn:publish("a", data))
      if is_full(conn) then return end
    end
    error "the network accepts everything"
  end

  it("closes although the server takes nothing", function()
    local conn = assert(nats.connect(server.url, { write_timeout = 60000 }))
    fill(conn)
    local before = rn.now()
    conn:close()
    assert.is_true(rn.now() - before < 20000)
    assert.equal("closed", conn:stats().status)
  end)

  it("gives the network up when it takes nothing for long, also if nothing more is published", function()
    local conn <close> = assert(nats.connect(server.url, { write_timeout = 100, reconnect_wait = 20 }))
    local events = conn:events()
    fill(conn)
    local event = rn.alts { events, rn.timeout(30000) }
    assert.equal("disconnected", event and event.event)
    server:resume()
    repeat
      event = rn.alts { events, rn.timeout(30000) }
    until not event or event.event == "reconnected"
    assert.is_truthy(event)
    assert.is_true(conn:flush())
  end)

  it("refuses subscriptions when it has ended, also before the program knows that", function()
    local conn <close> = assert(nats.connect(server.url, { reconnect = false }))
    local ended, reason = conn:subscribe "a", nil
    local direct, sub = conn:subscribe("b", nil, function() end)
    conn:on_close(function(err) reason = err or "none" end)
    assert(conn:flush())
    server.program:signal "KILL"
    local ch, err
    local before = rn.now()
    repeat -- without letting other go blocks run
      local since = rn.now()
      while rn.now() - since < 10 do end
      ch, err = conn:subscribe "c"
    until not ch or rn.now() - before > 20000
    assert.same({ nil, "Connection Closed" }, { ch, err })
    assert.is_nil((sub:drain()))
    assert.same({ delivered = 0, dropped = 0, pending = 0, pending_bytes = 0 }, sub:stats())
    assert.is_nil(reason)
    assert.is_nil((ended:take()))
    assert.is_nil((direct:take()))
    assert.is_true(background.wait_until(30000, function() return reason ~= nil end))
    assert.is_string(reason)
    assert.not_equal("none", reason)
  end)
end)
