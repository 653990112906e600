-- The protocols of conn:stage and conn:serve in a simulated world, while workers, submitters and the server crash: a
-- search finds nothing. It does find faults that are planted in the library.

local nats_world = require "spec.support.queue.nats_world"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_world.nats, nats_world.missing
local insist = nats_world.insist
local connect = nats_world.connect
local take = nats_world.take
local run = nats_world.run
local new_world = nats_world.new_world

describe("in a simulated world with NATS, a search #heavy", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- A durable stage on two hosts, which must store each result once. `ms`: how long a call takes; nil: no time.
  local function stages(faults, ms)
    local world, over = new_world(faults)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local conn = connect()
        insist(conn.stream, conn, "from")
        insist(conn.stream, conn, "to")
        local worker = insist(conn.stage, conn, "from", 1, function(text)
          if ms then rn.sleep(ms) end
          return text
        end, "to", { ack_wait = 1000 })
        over:take()
        worker:drain()
        conn:drain()
      end, { restart = 100 })
    end
    local result = nats_world.add_client(world, over, "to")
    run(world)
    nats_world.check_once(result())
  end

  -- A remote stage with two workers. Each call has its result, and starts at most `most` times.
  local function jobs(faults, most, ms)
    local world, over = new_world(faults)
    local starts = {}
    local function start_of(n)
      starts[n] = (starts[n] or 0) + 1
      if starts[n] > most then error(("job %d has started %d times"):format(n, starts[n]), 0) end
      if ms then rn.sleep(ms) end
      return 2 * n
    end
    for i = 1, 2 do nats_world.add_worker(world, over, "worker" .. i, "double", 2, start_of) end
    world:host("client", function()
      if over:closed() then return end
      local conn = connect()
      local double = nats_world.remote(conn, "double")
      local one, two = rn.go(double, 1), rn.go(double, 2)
      local a, b = take(one), take(two)
      double:close()
      over:close()
      conn:drain()
      if a ~= 2 or b ~= 4 then error(("the results are %s and %s"):format(a, b), 0) end
    end, { restart = 100 })
    run(world)
  end

  local function finds_nothing(what, test)
    it("finds nothing in " .. what, function() search.finds_nothing(test) end)
  end

  finds_nothing("conn:stage while hosts and the server crash", function() stages { crash = 2 } end)
  finds_nothing("conn:stage while connections are reset", function() stages { reset = 2, short = 1 } end)
  finds_nothing("conn:stage while the leader changes", function() stages { leader = 1, crash = 1 } end)
  finds_nothing("conn:stage while messages are late or lost", function() stages { delay = 1, silent = 1 } end)
  finds_nothing("conn:stage with long calls", function() stages(nil, 3000) end)
  finds_nothing("conn:serve without faults", function() jobs(nil, 1, 3000) end)
  finds_nothing("conn:serve while hosts and the server crash", function() jobs({ crash = 2 }, 6) end)
  finds_nothing("conn:serve while connections are reset", function() jobs({ reset = 2, short = 1 }, 4) end)
  finds_nothing("conn:serve while the leader changes", function() jobs({ leader = 1, crash = 1 }, 6) end)
  finds_nothing("conn:serve while messages are late or lost", function() jobs({ delay = 1, silent = 1 }, 1000) end)

  -- Adds a host with a remote stage, where f(remote, conn) runs; it closes `over` at the end.
  local function add_submitter(world, over, opts, f)
    world:host("client", function()
      local conn = connect()
      local remote = nats_world.remote(conn, "job", opts)
      f(remote, conn)
      remote:close()
      over:close()
      conn:drain()
    end)
  end

  local function cancelled(faults)
    local world, over = new_world(faults)
    nats_world.add_worker(world, over, "worker", "job", 1, function(n)
      rn.sleep(2000)
      return n
    end)
    add_submitter(world, over, nil, function(remote, conn)
      local one, two = rn.go(remote, 1), rn.go(remote, 2)
      rn.sleep(sim.choose(3) * 400)
      rn.cancel(two, "it is not needed")
      if take(one) ~= 1 then error("wrong", 0) end
      local left
      for _ = 1, 100 do
        local stream = require("runnel.nats.stream").open(conn, "runnel-jobs-job")
        local state = stream and stream:stats()
        left = state and state.messages
        if left == 0 then return end
        rn.sleep(1000)
      end
      error(("there are %s jobs left"):format(left), 0)
    end)
    run(world)
  end

  local function letters(faults)
    local world, over = new_world(faults)
    nats_world.add_worker(world, over, "worker", "job", 1, function() error("it is broken", 0) end)
    add_submitter(world, over, { tries = 2, backoff = 100, traceback = false }, function(remote, conn)
      local ok, err = pcall(take, rn.go(remote, 1))
      if ok or err ~= "it is broken" then error("the error is " .. tostring(err), 0) end
      local n = insist(function() return (conn:dead "job":count()) end)
      if n ~= 1 then error(("there are %d dead letters"):format(n), 0) end
    end)
    run(world)
  end

  -- A work queue that two hosts read. Each message that was put is done; `done` before its acknowledgement.
  local function work_queue(faults)
    local world, over = new_world(faults)
    local options, done = { retention = "workqueue" }, {}
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local conn = connect()
        insist(conn.stream, conn, "from", options)
        local messages = insist(conn.source, conn, "from", { name = "me", ack_wait = 4000, buffer = 1 })
        while true do
          local message, port = rn.alts { messages, over }
          if port == over then break end
          rn.sleep(50)
          done[message.data] = true
          message:ack()
        end
        messages:close()
        conn:drain()
      end, { restart = 100 })
    end
    world:host("client", function()
      local conn = connect()
      insist(conn.stream, conn, "from", options)
      local sink = insist(conn.sink, conn, "from")
      for i = 1, 4 do insist(sink.put, sink, "m" .. i, { id = tostring(i) }) end
      nats_world.wait_until_done(conn, "from", "me")
      over:close()
      conn:drain()
    end)
    run(world)
    for i = 1, 4 do
      if not done["m" .. i] then error(("m%d is not done"):format(i), 0) end
    end
  end

  finds_nothing("a work queue while hosts and the server crash", function() work_queue { crash = 2 } end)

  finds_nothing("a job that is cancelled", function() cancelled { crash = 1, delay = 1 } end)
  finds_nothing("a job that is given up", function() letters { crash = 1, reset = 1 } end)

  -- Runs a test with a function of the library that is replaced.
  local function with(class, name, f, test)
    local before = class[name]
    local undo <close> = setmetatable({}, { __close = function() class[name] = before end }) -- luacheck: ignore 211
    class[name] = f(before)
    test()
  end

  local Keeper = nats and getmetatable(require("runnel.nats.internal.keeper").new {}).__index
  local reader = nats and require "runnel.nats.internal.reader"
  local jetstream = nats and require "runnel.nats.internal.jetstream"
  local tidying = nats and require "runnel.nats.internal.tidying"

  local function finds_planted(what, pattern, class, name, f, test)
    it("finds, planted in the library, " .. what, function()
      with(class, name, f, function() search.finds(pattern, test) end)
    end)
  end

  finds_planted("an acknowledgement before the results", "the results are: m%d x1 ", Keeper, "done", function(done)
    return function(self, message, results)
      message.reader.conn.core:publish(message.ack_subject, "+ACK")
      return done(self, message, results)
    end
  end, function() stages { crash = 1 } end)

  finds_planted("results without ids", "x2", Keeper, "id", function()
    local n = 0
    return function()
      n = n + 1
      return tostring(n)
    end
  end, function() stages { crash = 1 } end)

  -- What is finished is removed by a purge up to the server's floor.
  finds_planted("a purge of finished messages while others are in work", "m%d is not done", tidying, "run", function()
    return function(conn, stream, consumer)
      rn.sleep(1000)
      local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
      if not info then return end
      jetstream.request(conn, "STREAM.PURGE." .. stream, { seq = info.ack_floor.stream_seq + 1 })
    end
  end, function() work_queue { crash = 2 } end)

  finds_planted("leases that are not extended", "has started 2 times", reader, "open", function(open)
    return function(...)
      local of, err = open(...)
      if of then function of.extend() end end
      return of, err
    end
  end, function() jobs(nil, 1, 3000) end)
end)
