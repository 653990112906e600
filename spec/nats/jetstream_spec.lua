-- lua/runnel/nats/internal/jetstream.lua, and how soon lost jobs are sent again (internal/upkeep.lua), in virtual time.

local rn = require "runnel"
local sim = require "runnel.sim"
local timed_out = require "runnel.internal.timed_out"

local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"
local upkeep = require "runnel.nats.internal.upkeep"

-- A connection whose server answers no request before `from` ms. `times`: when requests were sent.
local function silent_until(from)
  local conn = { times = {}, has_ended = false }
  function conn:request(_, _, opts)
    local start = rn.now()
    self.began = self.began or start
    table.insert(self.times, start - self.began)
    if start - self.began >= from then return { data = '{"name":"s"}' } end
    rn.sleep(opts.timeout)
    return nil, timed_out.new "no answer"
  end
  return conn
end

describe("a request to JetStream", function()
  it("that changes nothing is sent again soon if a leader that is stopped takes its answer along", function()
    sim.run(function()
      local conn = silent_until(200)
      assert.equal("s", assert(jetstream.request(conn, "STREAM.INFO.s", nil, 2000)).name)
      assert.equal(2, #conn.times)
      assert.is_true(conn.times[2] <= 500, conn.times[2])
    end)
  end)

  it("is sent less and less often while nobody answers", function()
    sim.run(function()
      local conn = silent_until(1e9)
      local answer, err = jetstream.request(conn, "STREAM.INFO.s")
      assert.is_nil(answer)
      assert.matches("has not answered within 20 s", err)
      assert.is_true(#conn.times <= 14, #conn.times)
    end)
  end)

  it("that makes or changes something is sent again only after 2 s, and one that deletes never", function()
    sim.run(function()
      local conn = silent_until(200)
      assert(jetstream.request(conn, "STREAM.UPDATE.s", { name = "s" }))
      assert.equal(2, #conn.times)
      assert.is_true(conn.times[2] >= 2000, conn.times[2])
      conn = silent_until(200)
      assert.is_nil(jetstream.request(conn, "STREAM.DELETE.s"))
      assert.equal(1, #conn.times)
    end)
  end)
end)

describe("a message that is stored under a condition", function()
  -- The code of storing it, where each try has one of these answers.
  local function code_of(...)
    local answers, code = { ... }, nil
    local conn = { inbox = function() return "inbox.1" end }
    function conn:request(_, _, opts)
      local answer = table.remove(answers, 1)
      if answer ~= "" then return { data = answer } end
      rn.sleep(opts.timeout)
      return nil, timed_out.new "no answer"
    end
    sim.run(function()
      code = select(3, jetstream.store(conn, "s", "v", { timeout = 30000, stream = "s", level = 1 }))
    end)
    assert.equal(0, #answers)
    return code
  end
  local WRONG <const> = '{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}'
  local BUSY <const> = '{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}'

  it("has failed because of it, unless an earlier try had no answer: then nobody knows", function()
    assert.equal(jetstream.WRONG_SEQUENCE, code_of(WRONG))
    assert.equal(jetstream.WRONG_SEQUENCE, code_of(BUSY, WRONG))
    assert.equal(jetstream.UNCERTAIN, code_of("", WRONG))
    assert.equal(jetstream.UNCERTAIN, code_of("", BUSY, WRONG))
  end)

  it("is asked again while a cluster stores another message of the subject", function()
    local UNDECIDED <const> = '{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}'
    assert.equal(jetstream.WRONG_SEQUENCE, code_of(UNDECIDED, UNDECIDED, WRONG))
    assert.is_nil(code_of(UNDECIDED, '{"stream":"s","seq":4}'))
  end)
end)

-- Times, from its start, at which a remote stage sends its only job again. `answer(n)` is the stream's answer to the
-- n-th time, if any.
local function times_sent(count, answer)
  local times = {}
  sim.run(function()
    local start = rn.now()
    local stage = { jobs = {}, asks_at = 0, looks_at = 0, name = "lost", old = {}, told = {} }
    stage.stream = { why_idle = function() end }
    local job = { number = 1, key = "1", since = start, again_at = start + patience.job_again }
    stage.jobs[job.key] = job
    function stage.withdraw() end
    function stage:send()
      times[#times + 1] = rn.now() - start
      if #times == count then self.jobs[job.key] = nil end
      local data = answer(#times)
      if data then rn.go(self.stored, self, data, "inbox.1") end
    end
    setmetatable(stage, { __index = upkeep.methods }):tick()
    rn.sleep(30000)
  end)
  assert.equal(count, #times)
  return times
end

describe("a job that was lost on its way", function()
  it("is sent again within 1 s, and if that is lost, too, within 0.7 s after it", function()
    local times = times_sent(3, function() end)
    assert.is_true(times[1] <= 1000, times[1])
    assert.is_true(times[2] - times[1] <= 700 and times[3] - times[2] <= 700, table.concat(times, " "))
  end)

  -- A worker drops a job whose submitter is away; it was only connecting to another server.
  it("and stored anew, but dropped by a worker, is sent again within 1 s", function()
    local times = times_sent(2, function() return '{"stream":"s","seq":7}' end)
    assert.is_true(times[2] - times[1] <= 1000, table.concat(times, " "))
  end)

  it("is sent again only after seconds if the stream has it", function()
    local has_it = '{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"}}'
    local times = times_sent(3, function() return has_it end)
    assert.is_true(times[2] - times[1] >= 4000 and times[3] - times[2] >= 8000, table.concat(times, " "))
  end)
end)
