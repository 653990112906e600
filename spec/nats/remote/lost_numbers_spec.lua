-- Remote stages after a power cut at the server: the stream has lost its last messages, with their numbers, and its
-- consumer still knows that it has delivered these. What was lost is a choice, so each spec tries several seeds.
local nats_world = require "spec.support.queue.nats_world"
local rn = require "runnel"
local stage = require "spec.support.stage"

local SEEDS <const> = 12

-- How long a job may take, ms: some seconds pass until its submitter checks whether the stream will deliver it.
local SOON <const> = 60000

-- Cuts the server's power, and starts it again. Returns the number of the stream's last message, and the last number
-- that the consumer has delivered.
local function cut_power(server)
  rn.sleep(1000) -- by then the consumer's state is written
  server.server:crash()
  rn.sleep(10)
  server.server:restart()
  rn.sleep(0.5)
  local stream = server:stream()
  return stream.last, stream.consumers[1].state.next - 1
end

-- Calls f(server) in worlds; it returns whether the case was there that the spec is about.
local function each_world(f)
  return function()
    local found = 0
    for seed = 1, SEEDS do
      local reports = stage.reports(function()
        nats_world.program(function(server) found = found + (f(server) and 1 or 0) end, { sync_interval = 60000 },
          { seed = seed })
      end)
      for _, report in ipairs(reports) do
        if not tostring(report.err):find "for now" then error(report.err, 0) end
      end
    end
    assert.is_true(found > 0, "no world had that case")
  end
end

local function in_time(result)
  local value, port = rn.alts { result, rn.timeout(SOON) }
  assert(port == result, "the job has had no result")
  return value
end

describe("a remote stage whose server has lost the last messages with their numbers", function()
  if nats_world.missing then return pending(nats_world.missing) end

  it("runs its jobs, although the server redelivers for ever what was lost #ci", each_world(function(server)
    local starts = 0
    local _, host = server:worker(3, function(v)
      if v ~= "slow" then return v end
      starts = starts + 1
      if starts == 1 then rn.sleep(1e9) end
      return v
    end)
    local job = server:remote()
    for i = 1, 5 do job(i) end
    local slow = rn.go(job, "slow")
    rn.sleep(100)
    host:kill() -- the server will redeliver its job
    local last, delivered = cut_power(server)
    host:restart()
    assert.equal("slow", in_time(slow))
    assert.equal(2, starts)
    return last < delivered - 1
  end))

  it("runs a job soon, however many numbers were lost #ci", each_world(function(server)
    server:worker(1, function(v) return v end)
    local job = server:remote()
    for i = 1, 100 do job(i) end
    local last, delivered = cut_power(server)
    assert.equal("next", in_time(rn.go(job, "next")))
    return delivered - last >= 50
  end))
end)
