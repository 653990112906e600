-- Consumers that are made while their stream is being made.
local rn = require "runnel"
local json = require "runnel.json"
local long = require "spec.support.long"
local nats_server = require "spec.support.queue.nats_server"
local timed_out = require "runnel.internal.timed_out"

local nats, missing = nats_server.library()
if not nats then
  describe("consumers", function() pending(missing) end)
  return
end

local consumers = require "runnel.nats.internal.consumers"

local NEXT <const>, DELETE <const> = "$JS.API.CONSUMER.MSG.NEXT.s.c", "$JS.API.CONSUMER.DELETE.s.c"

-- A connection to a server that has the consumer `c`. `answer(verb, n)` is the answer to the request for messages with
-- the number n, or of the consumer's deletion; by default the consumer is mute. Its fields: made, deleted.
-- `more`: what else the server says about it.
local function fake(answer, more)
  local conn = { made = 1, deleted = 0, asked = 0, has_ended = false }
  local is_there = true
  local function info()
    local about = { created = "at " .. conn.made, config = {} }
    for key, value in pairs(more or {}) do about[key] = value end
    return { data = assert(json.encode(about)) }
  end
  function conn:request(subject)
    if subject == NEXT then
      self.asked = self.asked + 1
      local message, err = answer("next", self.asked)
      if message or err then return message, err end
      return nil, timed_out.new "no answer"
    elseif subject == DELETE then
      local message, err = answer "delete"
      if message or err then return message, err end
      self.deleted, is_there = self.deleted + 1, false
      return { data = '{"success":true}' }
    elseif subject == "$JS.API.CONSUMER.INFO.s.c" then
      if not is_there then return { data = '{"error":{"err_code":10014,"description":"consumer not found"}}' } end
      return info()
    end
    assert.equal("$JS.API.CONSUMER.DURABLE.CREATE.s.c", subject)
    local refusal = answer "create"
    if refusal then return refusal end
    self.made, is_there = self.made + 1, true
    return info()
  end
  return conn
end

local function nothing() end

describe("a consumer", function()
  it("that answers stays", function()
    local conn = fake(function() return { data = "", status = "400" } end)
    assert.equal("at 1", assert(consumers.ensure(conn, "s", "c", {})).created)
    assert.same({ 1, 0 }, { conn.asked, conn.deleted })
  end)

  it("that is there, but does not answer twice, is made anew", function()
    local conn = fake(function(_, n)
      if n == 3 then return { data = "", status = "400" } end
    end)
    assert.equal("at 2", assert(consumers.ensure(conn, "s", "c", {})).created)
    assert.same({ 3, 1 }, { conn.asked, conn.deleted })
  end)

  it("that answers late stays", function()
    local conn = fake(function(_, n)
      if n == 2 then return { data = "", status = "400" } end
    end)
    assert.equal("at 1", assert(consumers.ensure(conn, "s", "c", {})).created)
    assert.equal(0, conn.deleted)
  end)

  it("that somebody else has made anew in the meantime stays", function()
    local conn
    conn = fake(function() conn.made = conn.made + 1 end)
    assert(consumers.ensure(conn, "s", "c", {}))
    assert.equal(0, conn.deleted)
  end)

  it("stays if the connection was lost or does not permit the question", function()
    for _, err in ipairs { "the connection was lost", 'the server does not permit to publish to "..."' } do
      local conn = fake(function() return nil, err end)
      assert(consumers.ensure(conn, "s", "c", {}))
      assert.equal(0, conn.deleted)
    end
  end)

  -- What the server says about a mute consumer; whether nothing is lost if it is made anew.
  local function numbers(consumer_seq, stream_seq) return { consumer_seq = consumer_seq, stream_seq = stream_seq } end
  local MUTE <const> = {
    { "has delivered nothing", {}, true },
    { "counts messages as delivered, and has no acknowledgement",
      { delivered = numbers(7, 3), ack_floor = numbers(0, 0) }, true },
    { "has an acknowledgement", { delivered = numbers(7, 3), ack_floor = numbers(1, 1) }, false },
    { "begins with the next message, of which there is none",
      { config = { deliver_policy = "new" }, delivered = numbers(0, 9), ack_floor = numbers(0, 9), num_pending = 0 },
      true },
    { "began with the next message, and there are some",
      { config = { deliver_policy = "new" }, delivered = numbers(0, 9), ack_floor = numbers(0, 9), num_pending = 1 },
      false },
    { "began with the last message, which it has delivered",
      { config = { deliver_policy = "last" }, delivered = numbers(1, 9), ack_floor = numbers(0, 8), num_pending = 0 },
      false },
    { "begins with a number", { config = { deliver_policy = "by_start_sequence" }, num_pending = 4 }, true },
    { "has no leader at the moment", { cluster = { name = "c" } }, false },
    { "has a leader", { cluster = { name = "c", leader = "a" } }, true },
  }
  for _, case in ipairs(MUTE) do
    it(("that is mute and %s is%s made anew"):format(case[1], case[3] and "" or " not"), function()
      local conn = fake(nothing, case[2])
      local info = consumers.ensure(conn, "s", "c", {})
      assert.same(case[3] and { 3, false } or { 0, true }, { conn.deleted, info ~= nil })
    end)
  end

  it("is made as soon as the servers can, if the disk of one is full", function()
    for _, refusal in ipairs {
      '{"error":{"err_code":10012,"description":"error creating store for consumer"}}',
      '{"error":{"err_code":10104,"description":"error creating store for consumer: no space left on device"}}',
      '{"error":{"err_code":10008,"description":"JetStream system temporarily unavailable"}}',
    } do
      local creations, is_deleted = 0, false
      local conn = fake(function(what, n)
        if what == "create" then
          creations = creations + 1
          return creations < 4 and { data = refusal } or nil
        elseif what == "next" and n > 2 then
          return { data = "", status = "400" }
        end
        is_deleted = what == "delete" or is_deleted
      end)
      assert(consumers.ensure(conn, "s", "c", {})) -- it is mute at first, and deleted
      assert.same({ 4, true }, { creations, is_deleted })
    end
  end)

  it("that cannot be made for another reason is an error at once", function()
    local creations = 0
    local conn = fake(function(what)
      if what == "create" then
        creations = creations + 1
        return { data = '{"error":{"err_code":10012,"description":"deliver policy can not be updated"}}' }
      end
    end)
    local info, err = consumers.ensure(conn, "s", "c", {})
    assert.same({ nil, "deliver policy can not be updated", 1 }, { info, err, creations })
  end)

  it("is taken as it is if the servers do not answer its deletion", function()
    local conn = fake(function(what)
      if what == "delete" then return nil, timed_out.new "no answer" end
    end)
    assert.equal("at 1", assert(consumers.ensure(conn, "s", "c", {})).created)
    assert.equal(0, conn.deleted)
  end)

  it("that cannot be deleted, or never answers, is an error", function()
    local denied = fake(function(verb)
      if verb == "delete" then return { data = '{"error":{"err_code":10039,"description":"not permitted"}}' } end
    end)
    local info, err = consumers.ensure(denied, "s", "c", {})
    assert.is_nil(info)
    assert.equal('the consumer "c" of the stream "s" delivers nothing, and cannot be made anew: not permitted', err)
    local mute = fake(nothing)
    info, err = consumers.ensure(mute, "s", "c", {})
    assert.is_nil(info)
    assert.equal('the consumer "c" of the stream "s" delivers nothing; restart the server', err)
    assert.equal(3, mute.deleted)
  end)

  it("delivers, though it was made while another program made its stream #ci", function()
    local server <close> = nats_server.start()
    local a <close> = assert(nats.connect(server.url))
    local b <close> = assert(nats.connect(server.url))
    for i = 1, long.times(40, 150) do -- nats-server 2.9.10 fails once in about 100 times
      local name = "s" .. i
      -- nats-server 2.15 answers with an error while it removes the folder of the stream before.
      local made = rn.go(function()
        local reply
        repeat
          reply = assert(a:request("$JS.API.STREAM.CREATE." .. name, { name = name, subjects = { name } },
            { timeout = 20000, encoding = "json" }))
        until not reply.data.error
        return reply
      end)
      local info, err, is_over
      repeat
        is_over = made:closed()
        info, err = consumers.ensure(b, name, "c", { durable_name = "c", ack_policy = "explicit" })
      until info or is_over
      assert(made:take())
      assert(info, err)
      assert(b:request(name, "x", { timeout = 20000, encoding = "raw" }))
      local inbox = b:inbox()
      local sub = b:subscribe(inbox, { encoding = "raw" })
      assert(b:publish(("$JS.API.CONSUMER.MSG.NEXT.%s.c"):format(name), "", { reply = inbox, encoding = "raw" }))
      local message = rn.alts { sub, rn.timeout(20000) }
      assert.equal("x", message and message.data)
      sub:close()
      assert(a:request("$JS.API.STREAM.DELETE." .. name, "", { timeout = 20000, encoding = "raw" }))
    end
  end)
end)
