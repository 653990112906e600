-- A server that has lost what its consumers have acknowledged. nats-server before 2.11.11, and 2.12.0, empty the file
-- with the state of a consumer before they write it anew; a server that is killed then delivers all messages of the
-- stream again, as for the first time. The specs empty that file.
local rn = require "runnel"
local jetstream = require "runnel.nats.internal.jetstream"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local stage = require "spec.support.stage"

local nats, missing = nats_server.library()
if not nats then
  describe("lost state", function() pending(missing) end)
  return
end

describe("a stage whose server has lost what was acknowledged #slow", function()
  local server, conn

  before_each(function()
    server = nats_server.start()
    conn = assert(nats.connect(server.url, { reconnect_wait = 20, encoding = "msgpack" }))
  end)
  after_each(function()
    conn:close()
    server:close()
  end)

  -- Kills the server, which then has no state of the consumer "out" of the stream "in" any more.
  local function lose_state()
    server:kill()
    server:empty_state("in", "out")
    server:start()
  end

  local function left() return assert(conn:stream "in"):stats().messages end

  local function wait_for(s, done, given_up)
    patience.wait_until(function() return s:stats().done == done and s:stats().given_up == given_up end)
  end

  -- Stores five values and "poison", and starts a stage; returns it when all of them are done or given up.
  local function start(retention)
    assert(conn:stream("in", { retention = retention }))
    assert(conn:stream "out")
    local sink = assert(conn:sink "in")
    for _, v in ipairs { 1, 2, 3, 4, 5, "poison" } do assert(sink:put(v)) end
    local s = assert(conn:stage("in", 2, function(v)
      if v == "poison" then error("no", 0) end
      return v
    end, "out", { tries = 1, ack_wait = 1000 }))
    wait_for(s, 5, 1)
    return s
  end

  it("stores each result and each dead letter once, while their streams keep the ids", function()
    local s
    local reports = stage.report_texts(function()
      s = start()
      lose_state()
      wait_for(s, 10, 2)
      s:drain()
    end)
    local stats = s:stats()
    assert.same({ 10, 2, 2, 5, 0, 0 },
      { stats.done, stats.failed, stats.given_up, stats.duplicates, stats.running, stats.waiting })
    assert.equal(2, #reports)
    assert.equal(5, assert(conn:stream "out"):stats().messages)
    assert.equal(1, conn:dead("out"):count())
    local letters = assert(jetstream.stream_info(conn, "runnel-dead-out"))
    assert.equal(jetstream.ns(24 * 60 * 60 * 1000), letters.config.duplicate_window)
  end)

  it("answers a message that comes again before the counts of its starts are deleted", function()
    assert(conn:stream "in")
    assert(conn:stream "out")
    local s
    stage.report_texts(function()
      s = assert(conn:stage("in", 2, function() error("no", 0) end, "out", { tries = 2, backoff = 1, ack_wait = 1000 }))
      local forget, over = s.keeper.forget_starts, rn.chan()
      function s.keeper.forget_starts(...)
        over:take()
        forget(...)
      end
      assert(assert(conn:sink "in"):put "poison")
      wait_for(s, 0, 1)
      lose_state()
      wait_for(s, 0, 2)
      over:close()
      s:drain()
    end)
    assert.equal(2, s:stats().given_up)
  end)

  it("gets nothing again from a work queue", function()
    local s
    stage.report_texts(function()
      s = start "workqueue"
      patience.wait_until(function() return left() == 0 end)
      lose_state()
      assert(conn:sink "in"):put "last"
      wait_for(s, 6, 1)
      s:drain()
    end)
    local stats = s:stats()
    assert.same({ 6, 1, 1, 0 }, { stats.done, stats.failed, stats.given_up, stats.duplicates })
  end)

  it("gets nothing again from a work queue that has got messages back which were done", function()
    assert(conn:stream("in", { retention = "workqueue" }))
    local sink, calls, over = assert(conn:sink "in"), 0, rn.chan()
    local s = assert(conn:stage("in", 2, function()
      calls = calls + 1
      over:take()
    end, nil, { name = "out", ack_wait = 1000 }))
    for i = 1, 2 do assert(sink:put(i)) end
    patience.wait_until(function() return calls == 2 end)
    server:wait_until_written("in", "out", 2, 2)
    for _, name in ipairs { "msgs", "obs" } do server:keep("in", name) end
    over:close()
    patience.wait_until(function() return left() == 0 end)
    server:kill()
    for _, name in ipairs { "msgs", "obs" } do server:bring_back("in", name) end
    server:start()
    assert(sink:put(3))
    wait_for(s, 3, 0)
    patience.wait_until(function() return left() == 0 end)
    assert.same({ 3, 3, 0 }, { calls, s:stats().done, left() })
    s:drain()
  end)

  it("removes from a work queue what was done, although an older message was not when it began", function()
    assert(conn:stream("in", { retention = "workqueue" }))
    local sink = assert(conn:sink "in")
    for i = 1, 5 do assert(sink:put(i)) end
    server:keep("in", "msgs")
    local before = assert(nats.connect(server.url, { encoding = "msgpack" }))
    local source = assert(before:source("in", { name = "out", ack_wait = 1000 }))
    for _ = 1, 5 do
      local m = source:take()
      if m.value > 1 then m:ack() end
    end
    patience.wait_until(function() return left() == 1 end)
    server:wait_until_written("in", "out", 5, 1)
    before:close()
    server:kill()
    server:bring_back("in", "msgs")
    server:start()
    local s = assert(conn:stage("in", 2, function() end, nil, { name = "out", ack_wait = 1000 }))
    wait_for(s, 1, 0)
    patience.wait_until(function() return left() == 0 end)
    assert.same({ 1, 0 }, { s:stats().done, left() })
    s:drain()
  end)

  it("answers a delivery that the server has forgotten so that no other message is lost", function()
    assert(conn:stream "in")
    local sink = assert(conn:sink "in")
    for i = 1, 10 do assert(sink:put(i)) end
    local ack_wait <const> = 500
    local source = assert(conn:source("in", { name = "out", buffer = 1, ack_wait = ack_wait }))
    local messages = {}
    for i = 1, 5 do messages[i] = source:take() end
    patience.wait_until(function() -- the source has got the next two, and asks for no more
      return assert(jetstream.request(conn, "CONSUMER.INFO.in.out")).delivered.consumer_seq == 7
    end)
    lose_state()

    -- Another process takes the messages again, one by one.
    local other <close> = assert(nats.connect(server.url))
    local inbox = other:inbox()
    local taken = other:subscribe(inbox)
    local function take(sequence)
      other:publish("$JS.API.CONSUMER.MSG.NEXT.in.out", '{"batch":1}', { reply = inbox })
      local ack = assert(rn.alts { taken, rn.timeout(60000) }, ("message %d was lost"):format(sequence)).reply
      assert.matches(("^%%$JS%%.ACK%%.in%%.out%%.%%d+%%.%d%%."):format(sequence), ack)
      return ack
    end
    for _, answer in ipairs { "-NAK", "+ACK" } do
      -- It replies when it knows the answer; so it does before the next request.
      for _, ack in ipairs { take(1), take(2) } do assert(other:request(ack, answer, { timeout = 30000 })) end
    end
    take(3) -- its process ends now, and so does the server
    local answers = conn:subscribe "$JS.ACK.in.out.*.5.>"
    assert.is_true(messages[5]:ack())
    -- Not 5.5: the delivery of message 3 has that number now.
    assert.matches("%.5%.0%.%d+%.%d+$", answers:take().subject)
    rn.sleep(300) -- if it took this for an acknowledgement of message 3, it would write that
    server:wait_until_written("in", "out", 3, 1)
    server:kill()
    server:start()
    rn.sleep(ack_wait)
    take(3)
  end)
end)
