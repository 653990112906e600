-- Subscriptions whose messages go to a function of the library instead of a channel: conn:subscribe's third argument.

local patience = require "spec.support.patience"
local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"

describe("a subscription with a function", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  -- More messages than are on their way to Lua at once.
  local MANY <const> = 10000

  local server, conn

  setup(function() server = nats_server.start { jetstream = false } end)
  teardown(function() server:close() end)
  before_each(function() conn = assert(nats.connect(server.url)) end)
  after_each(function() conn:close() end)

  -- Nothing is put on the channel of such a subscription.
  local function assert_closes(ch)
    local value, port = rn.alts { ch, rn.timeout(20000) }
    assert.is_nil(value)
    assert.equal(ch, port)
  end

  -- Subscribes, and publishes many messages. Returns when no more of them fit between the library's thread and Lua.
  local function overfill(take)
    local ch, sub = conn:subscribe("many", nil, take)
    for i = 1, MANY do assert(conn:publish("many", tostring(i))) end
    local delivered, since = 0, rn.now()
    patience.compute_until(function()
      local stats = sub:stats()
      if stats.delivered > delivered then delivered, since = stats.delivered, rn.now() end
      return stats.waiting > 0 and rn.now() - since > 50
    end)
    return ch, sub
  end

  it("gets the parts of each message", function()
    local got = {}
    conn:subscribe("parts", nil, function(...) got[#got + 1] = table.pack(...) end)
    conn:publish("parts", "plain")
    conn:publish("parts", "asks", { reply = "to.me" })
    conn:publish("parts", "has a status", { headers = { Status = "404" } })
    conn:publish("parts", "", { headers = { Status = "408", ["Nats-Pending-Messages"] = "7" } })
    conn:publish("nobody", "", { reply = "parts" })
    assert.is_true(patience.wait_until(function() return #got == 5 end))
    assert.same({
      { "plain", nil, nil, "parts", n = 4 },
      { "asks", "to.me", nil, "parts", n = 4 },
      { "has a status", nil, nil, "parts", "404", n = 5 },
      { "", nil, nil, "parts", "408", "7", n = 6 },
      { "", nil, nil, "parts", "503", n = 5 },
    }, got)
  end)

  it("gets messages that arrive while the program computes, although the Lua thread has read those before", function()
    local got = 0
    local _, sub = conn:subscribe("talk", nil, function() got = got + 1 end)
    for i = 1, 100 do
      conn:publish("talk", "")
      assert.is_true(patience.wait_until(function() return got == i end))
    end
    for _ = 1, 1000 do conn:publish("talk", "") end
    patience.compute_until(function() return sub:stats().delivered == 1100 end)
    assert.equal(100, got)
    assert.is_true(patience.wait_until(function() return got == 1100 end))
  end)

  it("gets all messages in order, also when too many arrive while the program computes #ci", function()
    local got = {}
    overfill(function(data) got[#got + 1] = data end)
    assert.is_true(patience.wait_until(function() return #got == MANY end), #got .. " messages")
    for i = 1, MANY do assert.equal(tostring(i), got[i]) end
  end)

  it("gets all that was sent when it is drained, and then its channel closes", function()
    local got = 0
    local ch, sub = overfill(function() got = got + 1 end)
    assert.is_true(sub:drain())
    conn:publish("many", "too late")
    assert_closes(ch)
    assert.equal(MANY, got)
    assert.equal(MANY, sub:stats().delivered)
    assert.same({ false, "Invalid Subscription" }, { sub:drain() })
  end)

  it("gets what is on its way when it is closed, and nothing more", function()
    local got = 0
    local ch, sub = overfill(function() got = got + 1 end)
    local other = conn:subscribe("other", nil, function() end)
    sub:close()
    assert_closes(ch)
    assert.equal(sub:stats().delivered, got)
    assert.is_true(got < MANY)
    assert.is_false(other:closed())
  end)

  it("counts what is dropped beyond the limit", function()
    local got = 0
    local ch, sub = conn:subscribe("many", { max_waiting = 100 }, function() got = got + 1 end)
    for i = 1, MANY do assert(conn:publish("many", tostring(i))) end
    patience.compute_until(function() return sub:stats().dropped > 0 end)
    assert(conn:flush())
    sub:drain()
    assert_closes(ch)
    assert.equal(MANY, got + sub:stats().dropped)
  end)

  it("goes on after an error of the function, which is reported", function()
    local got, reported = {}, {}
    local before = rn.on_error(function(err) reported[#reported + 1] = err end)
    conn:subscribe("errors", nil, function(data)
      if data == "wrong" then error("refused", 0) end
      got[#got + 1] = data
    end)
    conn:publish("errors", "wrong")
    conn:publish("errors", "right")
    patience.wait_until(function() return got[1] end)
    rn.on_error(before)
    assert.same({ "right" }, got)
    assert.same({ "refused" }, reported)
  end)
end)
