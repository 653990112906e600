-- Faults of remote stages, workers and sources that searches of simulated worlds have found, and that are mended.

local nats_world = require "spec.support.queue.nats_world"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_world.nats, nats_world.missing
local insist = nats_world.insist
local connect = nats_world.connect
local take = nats_world.take

describe("a remote stage in a simulated world", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  it("raises the function's error, also if it was lost on the way for a while", function()
    local starts, message = 0, nil
    sim.run(function()
      local world, over = sim.world(), rn.chan()
      world:nats "nats"
      world:host("worker", function()
        local conn = connect()
        local worker = conn:serve("broken", 1, function()
          starts = starts + 1
          error("it is broken", 0)
        end)
        over:take()
        worker:drain()
        conn:drain()
      end)
      world:host("client", function()
        rn.sleep(100)
        local conn = connect()
        local broken = conn:remote("broken", { traceback = false })
        local block = rn.go(broken, 1)
        rn.sleep(1.5)
        world:partition("client", "nats")
        rn.go(function()
          rn.sleep(8000)
          world:heal()
        end)
        message = select(2, block:take())
        broken:close()
        over:close()
        conn:drain()
      end)
      world:run()
    end)
    assert.equal("it is broken", message)
    assert.is_true(starts == 2, ("it has started %d times"):format(starts))
  end)
end)

describe("a worker in a simulated world", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- A worker and a program with a job. `f(world, client, remote)` runs in the program. Returns how often the job has
  -- started, and how many jobs are left in the stream after a minute.
  local function starts_of(f, spies)
    local starts, left = 0, nil
    sim.run(function()
      local world, over, client = sim.world(), rn.chan(), nil
      world:nats "nats"
      world:host("worker", function()
        local conn = connect()
        if spies then conn:subscribe(">", nil, function() end) end
        local worker = conn:serve("job", 1, function(n)
          starts = starts + 1
          rn.sleep(200)
          return n
        end)
        rn.sleep(60000)
        left = conn:stream("runnel-jobs-job"):stats().messages
        worker:drain()
        over:close()
        conn:close()
      end)
      client = world:host("client", function()
        rn.sleep(100)
        local conn = connect()
        f(world, client, conn:remote "job")
        over:take()
        conn:close()
      end)
      world:run()
    end)
    return starts, left
  end

  it("removes jobs of a program that has gone, also if another one subscribes to all subjects", function()
    local starts, left = starts_of(function(_, client, remote)
      rn.go(remote, 1)
      rn.sleep(50)
      client:kill()
    end, true)
    assert.equal(0, left)
    assert.is_true(starts < 10, starts .. " starts")
  end)

  it("runs a job at once whose first worker has ended, since its program answers that it is there", function()
    local at
    sim.run(function()
      local world, over = sim.world(), rn.chan()
      world:nats "nats"
      local function worker_on(name, f)
        return world:host(name, function()
          local conn = connect()
          local worker = conn:serve("job", 1, f)
          over:take()
          worker:drain()
          conn:close()
        end)
      end
      local slow = worker_on("slow", function() rn.sleep(100000) end)
      worker_on("fast", function(n) return n end)
      world:host("client", function()
        rn.sleep(100)
        local conn = connect()
        local remote = conn:remote "job"
        local one, two = rn.go(remote, 1), rn.go(remote, 2)
        rn.sleep(5000)
        slow:kill()
        assert.equal(3, take(one) + take(two))
        at = sim.elapsed()
        remote:close()
        over:close()
        conn:close()
      end)
      world:run()
    end)
    assert.is_true(at < 6000, ("at %g ms"):format(at))
  end)

  it("does not run jobs again and again for a program that is cut off, which has its results later", function()
    local result
    local starts, left = starts_of(function(world, _, remote)
      local block = rn.go(remote, 7)
      rn.sleep(50)
      world:partition("client", "nats")
      rn.sleep(30000)
      world:heal()
      result = take(block)
      remote:close()
    end)
    assert.equal(7, result)
    assert.equal(0, left)
    assert.is_true(starts < 12, starts .. " starts")
  end)

  it("ignores cancellations that arrive before it has started", function()
    local failure
    sim.run(function()
      rn.on_error(function(err) failure = err end)
      local world = sim.world()
      world:nats "nats"
      world:host("worker", function()
        local conn <close> = connect()
        conn:serve("job", 1, tostring):drain()
      end)
      world:host("client", function()
        local conn <close> = connect()
        for _ = 1, 50 do
          conn:publish("runnel.cancel.job", "2 - cancel _INBOX.x 1")
          rn.sleep(1)
        end
      end)
      world:run()
    end)
    assert.is_nil(failure)
  end)
end)

describe("a source without a name", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  it("delivers each message once, and in order, while its consumer is replaced", function()
    search.finds_nothing(function()
      local world = sim.world { faults = { reset = 1 } }
      world:nats "nats"
      world:host("client", function()
        local conn = connect()
        insist(conn.stream, conn, "s")
        local sink = insist(conn.sink, conn, "s")
        for i = 1, 3 do insist(sink.put, sink, tostring(i), { id = tostring(i) }) end
        local messages = insist(conn.source, conn, "s")
        for i = 1, 3 do
          local data = take(messages).data
          if data ~= tostring(i) then error(("message %s comes in place of %d"):format(data, i), 0) end
        end
        rn.sleep(5000)
        if messages:poll() then error("a message comes again", 0) end
        messages:close()
        conn:drain()
      end)
      world:run()
    end)
  end)
end)
