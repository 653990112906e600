-- What a durable stage does when its results cannot be stored, with a sink that fails as told.
local counts = require "runnel.nats.counts"
local firsts = require "runnel.nats.firsts"
local jetstream = require "runnel.nats.jetstream"
local rn = require "runnel"
local running = require "runnel.nats.running"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local stage_message = require "runnel.nats.stage_message"

-- A stage with one message, or `times`, whose results are stored after the failures with these codes, each after `ms`.
-- Returns how often its function was called, how the first message was answered, its counters, and what was reported.
local function work(codes, ms, times)
  local calls, answers, failures = 0, {}, 0
  local function answer(name)
    return function() answers[#answers + 1] = name end
  end
  local message = {
    value = "v", sequence = 1, order = 1, deliveries = 1, ack = answer "ack", nak = answer "nak", term = answer "term",
  }
  local sink = {}
  function sink.put()
    failures = failures + 1
    rn.sleep(ms or 0)
    if codes[failures] then return false, "not stored", codes[failures] end
    return true, 1, false
  end
  local self = {
    name = "s", from = "in", id = "in.s.1", tries = 1, retry = 100, starts = 5, has_letters = false, told = {},
    sink = sink, running = running.new(), firsts = firsts.new { consumer_seq = 0 },
    counts = { done = 0, failed = 0, given_up = 0, duplicates = 0 },
    starts_of = counts.new({}, "s", { created = "", config = {} }),
    f = function(v)
      calls = calls + 1
      return v
    end,
  }
  function self.starts_of.forget() end
  local reports = stage.reports(function()
    sim.run(function()
      for i = 1, times or 1 do
        failures, message.sequence, message.order = 0, i, i
        stage_message.work_on(self, message)
      end
    end)
  end)
  return calls, answers[1], self.counts, reports
end

describe("a stage whose results cannot be stored", function()
  it("waits while the stream or the disk is full, or the server away: that is no failed try", function()
    local calls, answer, counters, reports = work { jetstream.FULL, jetstream.UNKNOWN, jetstream.UNKNOWN }
    assert.same({ 1, "ack", 1, 0, 0 }, { calls, answer, counters.done, counters.failed, #reports })
  end)

  it("says so after 5 s, once, and again the next time", function()
    local full, unknown = {}, { jetstream.UNKNOWN, jetstream.UNKNOWN }
    for i = 1, 60 do full[i] = jetstream.FULL end -- 12 s
    for _, case in ipairs { { full, 0 }, { unknown, 5000 } } do
      local _, answer, _, reports = work(case[1], case[2])
      assert.equal("ack", answer)
      assert.equal(1, #reports)
      assert.equal("stage s: its stream does not accept results for now: not stored", reports[1].err)
      assert.equal("stage s", reports[1].where)
    end
    local _, _, _, reports = work(full, 0, 2)
    assert.equal(2, #reports)
  end)

  it("says at once that the starts of a message that was delivered before cannot be stored", function()
    local self = {
      name = "s", tries = 1, starts = 5, told = {}, running = running.new(), counts = {}, reader = {},
      firsts = firsts.new { consumer_seq = 0 }, starts_of = counts.new({}, "s", { created = "", config = {} }),
    }
    function self.starts_of.get() end
    function self.starts_of.put() return false, "the disk is full" end
    local delays = {}
    local message = { sequence = 1, order = 1, deliveries = 2 }
    function message.nak(_, ms) delays[#delays + 1] = ms or "left" end
    local reports = stage.reports(function()
      sim.run(function() for _ = 1, 3 do stage_message.work_on(self, message) end end)
    end)
    assert.same({ 1000, "left", 1000, "left", 1000, "left" }, delays)
    assert.equal(1, #reports)
    assert.equal("stage s: the server does not store the starts of messages for now: the disk is full", reports[1].err)
  end)

  it("fails if they never can be", function()
    local calls, answer, counters, reports = work { 10060 }
    assert.same({ 1, "term", 0, 1, 1, 1 },
      { calls, answer, counters.done, counters.failed, counters.given_up, #reports })
    assert.matches("not stored", tostring(reports[1].err))
  end)
end)
