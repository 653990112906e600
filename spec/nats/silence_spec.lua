-- What readers of streams do when their consumer is missing or silent: stages, and sources with and without a name. In
-- a simulated world, whose JetStream the specs disturb.
local nats_world = require "spec.support.queue.nats_world"
local queue_view = require "runnel.queue.view"
local rn = require "runnel"
local sim = require "runnel.sim"
local sim_consumers = require "runnel.sim.nats.nats_consumer"
local stage = require "spec.support.stage"

local nats = nats_world.nats
if not nats then
  describe("a silent consumer", function() pending(nats_world.missing) end)
  return
end

local jetstream = require "runnel.nats.internal.jetstream"

describe("a reader", function()
  local new = sim_consumers.new
  local made -- the consumers that the server has made, the first one first
  local disturb -- called with each

  before_each(function()
    made, disturb = {}, function() end
    function sim_consumers.new(...)
      local consumer = new(...)
      made[#made + 1] = consumer
      disturb(consumer)
      return consumer
    end
  end)
  after_each(function() sim_consumers.new = new end)

  -- Runs a program on a host beside a server; returns what was reported.
  local function run(f)
    return stage.report_texts(function()
      sim.run(function()
        local world = sim.world()
        world:nats "server"
        world:host("program", function()
          local conn <close> = assert(nats.connect "nats://server")
          f(conn, world)
        end)
        world:run()
      end)
    end)
  end

  local function streams(conn, ...)
    for _, name in ipairs { ... } do assert(conn:stream(name)) end
    return assert(conn:sink((...)))
  end

  -- Takes a value that comes within some seconds.
  local function next_of(ch, ms)
    local message, port = rn.alts { ch, rn.timeout(ms or 20000) }
    assert.equal(ch, port, "it has not come")
    return message and message.value
  end

  local function delete(conn, name) assert(jetstream.request(conn, "CONSUMER.DELETE." .. name)) end

  -- The consumer neither delivers nor answers, as if its server were frozen. Returns a function that ends that.
  local function mute(consumer)
    consumer.pull, consumer.pulls = function() end, {}
    return function() consumer.pull = nil end
  end

  -- The consumer sends heartbeats only, as if its server had not got the stream's messages.
  local function lag(consumer)
    function consumer.serve(self, server)
      local state = self.state
      self.state = setmetatable({ next = self.stream.last + 1 }, { __index = state })
      local only, due = self.only, self.due
      self.only, self.due = nil, {}
      getmetatable(self).serve(self, server)
      self.only, self.due, self.state = only, due, state
    end
  end

  describe("whose consumer is deleted", function()
    local DELETED <const> = 'stage: the consumer "to" of the stream "from" was deleted'

    local function start(conn)
      local sink = streams(conn, "from", "to")
      return sink, assert(conn:stage("from", 1, function(v) return v end, "to"))
    end

    local CONFIG <const> = { durable_name = "to", ack_policy = "explicit", ack_wait = 30000000000,
      max_ack_pending = 1000, max_deliver = -1 }

    it("goes on if another process makes it anew within 10 s", function()
      for _, away in ipairs { 0, 100, 1500, 9000 } do
        local reports = run(function(conn)
          local sink, s = start(conn)
          local results = assert(conn:source "to")
          assert(sink:put "a")
          assert.equal("a", next_of(results))
          delete(conn, "from.to")
          rn.sleep(away)
          assert(jetstream.request(conn, "CONSUMER.DURABLE.CREATE.from.to", { stream_name = "from", config = CONFIG }))
          assert(sink:put "b")
          assert.equal("b", next_of(results), away)
          assert.is_nil(s.err)
          assert.is_true(s:drain())
          results:close()
        end)
        for _, text in ipairs(reports) do assert.not_matches("deleted", text) end
      end
    end)

    it("ends if it stays away for 10 s", function()
      run(function(conn)
        local sink, s = start(conn)
        assert(sink:put "a")
        rn.sleep(1000)
        local before = sim.elapsed()
        delete(conn, "from.to")
        assert.same({ nil, DELETED }, { s:wait() })
        local elapsed = sim.elapsed() - before
        assert.is_true(elapsed >= 10000 and elapsed < 11000, elapsed)
      end)
    end)

    it("ends then, though it has too little room to ask for messages", function()
      run(function(conn)
        local sink = streams(conn, "from")
        local source = assert(conn:source("from", { name = "n", buffer = 5 }))
        for i = 1, 4 do assert(sink:put(tostring(i))) end -- it has asked for one more, and there is room for two
        rn.sleep(1000)
        delete(conn, "from.n")
        rn.sleep(12000)
        local _, err = source:take()
        assert.equal('source: the consumer "n" of the stream "from" was deleted', err)
      end)
    end)

    it("is not ended by a new process that finds it silent, if it has worked", function()
      local reports = run(function(conn)
        local sink, s = start(conn)
        assert(sink:put "a")
        rn.sleep(1000)
        local again = mute(made[1])
        local second = assert(conn:stage("from", 1, function(v) return v end, "to"))
        rn.sleep(20000)
        again()
        assert(sink:put "b")
        rn.sleep(5000)
        assert.same({ 2, nil, nil }, { s:stats().done + second:stats().done, s.err, second.err })
        local named = 0
        for _, consumer in ipairs(made) do named = named + (consumer.name == "to" and 1 or 0) end
        assert.equal(1, named)
        s:drain()
        second:drain()
      end)
      assert.equal(2, #reports)
      for _, text in ipairs(reports) do
        assert.equal('stage to: no messages for now: the consumer "to" of the stream "from" does not answer', text)
      end
    end)
  end)

  describe("that hears nothing for 5 s", function()
    it("says so once each time, and is shown in the list of queues until it is over", function()
      local reports = run(function(conn)
        local sink = streams(conn, "from")
        local source = assert(conn:source "from")
        assert(sink:put "a")
        assert.equal("a", next_of(source))
        for _, text in ipairs { "b", "c" } do
          local is_mute = true
          disturb = function(consumer)
            if is_mute then mute(consumer) end
          end
          mute(made[#made])
          rn.sleep(4000)
          assert.is_nil(assert(conn:queues()).silent)
          rn.sleep(16000)
          local list = assert(conn:queues())
          assert.equal(1, #list.silent)
          local one = list.silent[1]
          assert.same({ "source", "from" }, { one.what, one.stream })
          assert.is_true(one.ms > 15000 and one.ms < 25000, one.ms)
          local lines = queue_view.queues(list)
          assert.equal("no messages for now:", lines[#lines - 1])
          assert.matches("^  program:%d+ .*, source from, for %d+.* s: the consumer .* does not answer$", lines[#lines])
          is_mute = false
          assert(sink:put(text))
          assert.equal(text, next_of(source))
          assert.is_nil(assert(conn:queues()).silent)
        end
        source:close()
      end)
      assert.equal(2, #reports)
      for _, text in ipairs(reports) do
        assert.matches('^source from: no messages for now: the consumer "%S+" of the stream "from" does not answer$',
          text)
      end
    end)

    it("says that JetStream has no leader", function()
      local reports = run(function(conn, world)
        streams(conn, "from")
        local source = assert(conn:source "from")
        local s = assert(conn:stage("from", 1, function() end, nil, { name = "n" }))
        rn.sleep(1000)
        world:elect("server", 30000)
        mute(made[1])
        mute(made[2])
        rn.sleep(20000)
        s:drain()
        source:close()
      end)
      assert.equal(2, #reports)
      table.sort(reports)
      assert.matches("^source from: no messages for now: JetStream has not answered within 2 s", reports[1])
      assert.matches("^stage n: no messages for now: JetStream has not answered within 2 s", reports[2])
    end)

    it("says nothing if it waits for no messages, or there are none", function()
      assert.same({}, run(function(conn, world)
        local sink = streams(conn, "from")
        local idle = assert(conn:source "from")
        rn.sleep(60000)
        local named = assert(conn:source("from", { name = "n", buffer = 1 }))
        local busy = assert(conn:stage("from", 1, function() rn.sleep(60000) end, nil, { name = "busy" }))
        for i = 1, 3 do assert(sink:put(tostring(i))) end
        rn.sleep(10000)
        idle:close()
        world:elect("server", 20000)
        busy.keeper.reader.wake:offer "reconnected" -- it looks for its consumer in vain, with its only slot in use
        rn.sleep(30000)
        assert.is_nil(assert(conn:queues()).silent)
        named:close()
        busy:stop()
      end))
    end)
  end)

  describe("whose consumer sends heartbeats, and not what the stream has,", function()
    it("makes it anew if it has no name", function()
      for _, opts in ipairs { {}, { subject = "from" }, { from = "new" }, { from = 2 } } do
        made = {}
        local reports = run(function(conn)
          local sink = streams(conn, "from")
          if opts.from == 2 then assert(sink:put "first") end
          local lags = true
          disturb = function(consumer)
            if lags then lag(consumer) end
          end
          local source = assert(conn:source("from", opts))
          lags = false
          assert(sink:put "a")
          assert.equal("a", next_of(source))
          assert.equal(2, #made)
          source:close()
        end)
        assert.same({}, reports)
      end
    end)

    it("says so", function()
      local reports = run(function(conn)
        disturb = lag
        local sink = streams(conn, "from")
        local source = assert(conn:source "from")
        local s = assert(conn:stage("from", 1, function() end, nil, { name = "n" }))
        assert(sink:put "a")
        rn.sleep(15000)
        assert.equal(2, #assert(conn:queues()).silent)
        s:stop()
        source:close()
      end)
      table.sort(reports)
      for i, what in ipairs { "source from", "stage n" } do
        assert.equal(what .. ': no messages for now: the stream "from" has message 1, and the server of the consumer '
          .. "does not send it", reports[i])
      end
      assert.equal(2, #reports)
    end)

    it("says so if the servers do not answer what there is", function()
      local reports = run(function(conn)
        local s = streams(conn, "from") and assert(conn:stage("from", 1, function() end, nil, { name = "n" }))
        made[1].info = function() end
        rn.sleep(15000)
        s:stop()
      end)
      assert.equal(1, #reports)
      assert.matches("^stage n: no messages for now: JetStream ", reports[1])
    end)

    it("leaves it if the message was removed", function()
      run(function(conn)
        disturb = lag
        local sink = streams(conn, "from")
        local source = assert(conn:source "from")
        assert(sink:put "a")
        rn.sleep(3500) -- it knows of the message
        assert(conn:stream("from"):purge())
        rn.sleep(20000)
        assert.is_true(#made <= 2, #made)
        source:close()
      end)
    end)
  end)
end)
