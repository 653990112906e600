-- Messages that programs of released versions have sent over NATS (spec/fixtures): this version reads them, so that
-- programs of two versions can work together.

local fixtures = require "spec.support.fixtures"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local rn = require "runnel"

local nats, missing = nats_server.library()

for _, version in ipairs(fixtures()) do
  describe("messages of version " .. version, function()
    if not nats then return pending(missing) end
    local wire = require "runnel.nats.internal.wire"
    local encodings = require("runnel.queue.encodings").encodings
    local sent = dofile(("spec/fixtures/%s/nats.lua"):format(version))

    local function of(pattern)
      local list = {}
      for _, m in ipairs(sent) do
        if m.subject:find(pattern) then list[#list + 1] = m end
      end
      return list
    end

    it("are read as jobs and as results", function()
      local jobs, results = {}, {}
      for i, m in ipairs(of "^runnel%.jobs%.") do jobs[i] = assert(wire.parse_job(m.data)) end
      for i, m in ipairs(of "^_INBOX%.") do
        local number, ack, sizes, at = wire.parse_result(m.data)
        assert.matches("^%$JS%.ACK%.runnel%-jobs%-resize%.", ack)
        local job = jobs[i] -- they ended in their order
        assert.equal(job.number, number)
        results[i] = wire.outcome(m.data, at, sizes, job.encoding)
      end
      local values = {}
      for i, job in ipairs(jobs) do values[i] = encodings[job.encoding].decode(job.bytes) end
      assert.same({ "small", "two", "bad", { width = 10 } }, values)
      local async, plain = jobs[2].limits, jobs[4].limits
      assert.same({ true, false, true, true, 5, 2, 1 },
        { async.is_async, async.again, async.has_letters, async.answers, async.starts, async.tries, async.retry })
      assert.same({ false, 5, 1, 1000 }, { plain.is_async, plain.starts, plain.tries, plain.retry })
      assert.same({ 1, "small" }, { results[1].n, results[1][1] })
      assert.same({ 2, 1, { two = { 2.5, "b" } } }, { results[2].n, results[2][1], results[2][2] })
      assert.same({ true, "a bad\npicture" }, { results[3].failed, results[3].err })
      assert.matches("^%[worker ma:%d+%]\nstack traceback:", results[3].traceback)
      assert.same({ width = 10 }, results[4][1])
    end)

    describe("on a server", function()
      local server, conn
      setup(function()
        server = nats_server.start()
        conn = assert(nats.connect(server.url))
      end)
      teardown(function()
        conn:close()
        server:close()
      end)

      local function publish(m) assert(conn:publish(m.subject, m.data, { headers = m.headers, encoding = "raw" })) end

      it("are jobs that a worker does, and whose results it sends", function()
        local done = rn.chan(5)
        local worker <close> = assert(conn:serve("resize", 1, function(value) -- luacheck: ignore 211
          done:put(value)
          return "done"
        end, { drain_on_term = false }))
        local job = assert(wire.parse_job(of "^runnel%.jobs%."[4].data))
        local answers = assert(conn:subscribe(job.reply, { encoding = "raw" }))
        publish(of "^runnel%.jobs%."[4])
        local result
        patience.wait_for(function()
          local m = answers:take()
          if m.data == "{}" then m:respond "" end
          result = wire.parse_result(m.data) and m.data
          return result
        end)
        assert.same({ width = 10 }, done:take())
        local _, _, sizes, at = wire.parse_result(result)
        assert.equal("done", wire.outcome(result, at, sizes, job.encoding)[1])
        answers:close()
      end)

      it("are dead letters that can be read and done again, and messages with a time", function()
        assert(conn:stream("orders", { retention = "workqueue" }))
        assert(conn:stream("runnel-dead-resize", { subjects = "runnel.dead.resize" }))
        assert(conn:stream("runnel-dead-checker", { subjects = "runnel.dead.checker" }))
        for _, m in ipairs(of "^runnel%.dead%.") do publish(m) end
        publish(of "^orders$"[1])
        local function letter_of(name)
          local list
          patience.wait_for(function()
            list = assert(conn:dead(name):list())
            return #list == 1
          end)
          return assert(conn:dead(name):get(list[1].sequence))
        end
        local letter = letter_of "resize"
        assert.same({ "job", "bad", "a bad\npicture", 2, 2 },
          { letter.kind, letter.value, letter.error, letter.starts, letter.raises })
        assert.matches("\n\9%[C%]: in function 'error'\n", letter.traceback)
        letter = letter_of "checker"
        assert.same({ "message", { number = 1 }, "no order", "orders", "red" },
          { letter.kind, letter.value, letter.error, letter.from, letter.headers.Colour })
        assert.same({ 1, 0 }, { conn:dead("orders/checker"):count(), (conn:dead("work/checker"):count()) })
        local seen = rn.chan(5)
        local stage <close> = assert(conn:stage("orders", 1, function(order, m) -- luacheck: ignore 211
          seen:put(order.number .. " " .. m.headers.Colour)
        end, nil, { name = "checker", encoding = "json", drain_on_term = false }))
        assert.equal("1 red", seen:take()) -- its time has passed
        assert(conn:queue("orders/checker"):dead():replay(letter.sequence))
        assert.equal("1 red", seen:take())
      end)
    end)
  end)
end
