-- Programs over NATS in a simulated world. Planted bugs: sim.explore finds each of them within seconds, and none in the
-- mended version. And the protocols of conn:stage and conn:serve, while workers, submitters and the server crash.

local guard = require "runnel.internal.guard"
local nats_server = require "spec.support.nats_server"
local patience = require "spec.support.patience"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_server.library()

-- The search ends when it has found a bug; a search without one takes less than this, s.
local LONG <const>, SHORT <const> = 60, 0.1 * patience.factor()

-- How long a program waits for what must come, ms.
local DEADLINE <const> = 120000

-- Calls a function of the library until it succeeds.
local function insist(f, ...)
  while true do
    local result, more = f(...)
    if result then return result, more end
    rn.sleep(100)
  end
end

local function connect() return insist(nats.connect, "nats://nats") end

-- Takes a value that must come.
local function take(ch)
  local timer = guard.timer(DEADLINE)
  local value, port = rn.alts { ch, timer }
  if port == timer then error("it does not come", 0) end
  rn.cancel(timer)
  if value == nil then error((select(2, ch:take())), 0) end
  return value
end

-- Runs a world. Warnings that JetStream does not answer for now are no failures; other errors are.
local function run(world)
  local failure
  rn.on_error(function(err)
    if not tostring(err):find "for now" then failure = failure or err end
  end)
  world:run()
  if failure ~= nil then error(failure, 0) end
end

-- A world with a server, and a channel that closes when the work is done.
local function new_world(faults)
  local world = sim.world { faults = faults }
  world:nats("nats", { restart = 100 })
  return world, rn.chan()
end

local function counted(list)
  local parts = {}
  for value, n in pairs(list) do parts[#parts + 1] = value .. " x" .. n end
  table.sort(parts)
  return table.concat(parts, ", ")
end

-- What is in a stream: how often there is each value.
local function contents(conn, stream)
  local messages = insist(conn.source, conn, stream)
  local state, found = insist(function() return insist(conn.stream, conn, stream):state() end), {}
  for _ = 1, state.messages do
    local value = take(messages).data
    found[value] = (found[value] or 0) + 1
  end
  messages:close()
  return counted(found)
end

-- Waits until a consumer has finished with all messages of its stream.
local function wait_until_done(conn, stream, consumer)
  local jetstream = require "runnel.nats.internal.jetstream"
  for _ = 1, 1000 do
    local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(stream, consumer))
    if info and info.num_pending == 0 and info.num_ack_pending == 0 then return end
    rn.sleep(200)
  end
  error("it is not done", 0)
end

describe("in a simulated world with NATS, a search", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- `test(mended)` runs a program in a world and checks it.
  local function finds(what, pattern, test)
    it("finds " .. what, function()
      local ok, err = pcall(sim.explore, function() test(false) end, { seconds = LONG })
      assert.is_false(ok)
      assert.matches(pattern, err)
      sim.explore(function() test(true) end, { seconds = SHORT })
    end)
  end

  -- A program that copies messages from a stream to another one by `work(conn, sink, message)`, on hosts that crash.
  local function copies(faults, hosts, source_options, work, check)
    local world, over = new_world(faults)
    for i = 1, hosts do
      world:host("worker" .. i, function()
        local conn = connect()
        insist(conn.stream, conn, "from")
        insist(conn.stream, conn, "to")
        local sink = insist(conn.sink, conn, "to")
        local messages = insist(conn.source, conn, "from", source_options())
        while true do
          local message, port = rn.alts { messages, over }
          if port == over then break end
          work(conn, sink, message)
        end
        messages:close()
        conn:drain()
      end, { restart = 100 })
    end
    local result
    world:host("client", function()
      local conn = connect()
      insist(conn.stream, conn, "from")
      insist(conn.stream, conn, "to")
      local sink = insist(conn.sink, conn, "from")
      for i = 1, 2 do insist(sink.put, sink, "m" .. i, { id = tostring(i) }) end
      wait_until_done(conn, "from", "me")
      result = contents(conn, "to")
      over:close()
      conn:drain()
    end)
    world:run()
    check(result)
  end

  local function check_once(result)
    if result ~= "m1 x1, m2 x1" then error("the results are: " .. result, 0) end
  end

  local function named() return { name = "me", ack_wait = 1000 } end

  finds("an acknowledgement before the store", "the results are: m%d x1 ", function(mended)
    copies({ crash = 1 }, 1, named, function(_, sink, message)
      if not mended then message:ack() end
      insist(sink.put, sink, message.data, { id = tostring(message.sequence) })
      message:ack()
    end, check_once)
  end)

  finds("a result without an id", "the results are: .*x2", function(mended)
    copies({ crash = 1 }, 1, named, function(_, sink, message)
      insist(sink.put, sink, message.data, { id = mended and tostring(message.sequence) or nil })
      message:ack()
    end, check_once)
  end)

  finds("messages that are acknowledged when they are taken", "the results are: m%d x1 ", function(mended)
    copies({ crash = 1 }, 1, function()
      local options = named()
      options.ack = mended and "explicit" or "taken"
      return options
    end, function(_, sink, message)
      insist(sink.put, sink, message.data, { id = tostring(message.sequence) })
      message:ack()
    end, check_once)
  end)

  finds("a worker that forgets to extend its lease", "two work on m%d", function(mended)
    local busy = {}
    copies(nil, 2, named, function(_, sink, message)
      if busy[message.data] then error("two work on " .. message.data, 0) end
      busy[message.data] = true
      for _ = 1, 6 do
        rn.sleep(500)
        if mended then message:progress() end
      end
      busy[message.data] = nil
      insist(sink.put, sink, message.data, { id = tostring(message.sequence) })
      message:ack()
    end, check_once)
  end)

  finds("two leaders", "two leaders", function(mended)
    local world = sim.world()
    world:nats "nats"
    local leaders = 0
    for i = 1, 2 do
      world:host("node" .. i, function()
        local conn <close> = connect()
        local bucket = insist(conn.kv, conn, "leader")
        local is_leader
        if mended then is_leader = bucket:create("name", "node" .. i)
        else is_leader = bucket:get "name" == nil and bucket:put("name", "node" .. i) end
        if is_leader then leaders = leaders + 1 end
      end)
    end
    world:run()
    if leaders > 1 then error("two leaders", 0) end
  end)

  finds("an update of a value that another program has changed", "the sum is 1", function(mended)
    local world = sim.world()
    world:nats "nats"
    local sum
    for i = 1, 2 do
      world:host("node" .. i, function()
        local conn <close> = connect()
        local bucket = insist(conn.kv, conn, "sum", { encoding = "json" })
        while true do
          local before, revision = bucket:get "n"
          local done
          if not mended then done = bucket:put("n", (before or 0) + 1)
          elseif before then done = bucket:update("n", before + 1, revision)
          else done = bucket:create("n", 1) end
          if done then break end
        end
        sum = math.max(sum or 0, (bucket:get "n"))
      end)
    end
    world:run()
    if sum ~= 2 then error("the sum is " .. tostring(sum), 0) end
  end)

  finds("a message to a server that is away", "lost", function(mended)
    local world = new_world { crash = 1 }
    local n
    world:host("client", function()
      local conn = connect()
      insist(conn.stream, conn, "s")
      local sink = insist(conn.sink, conn, "s")
      if mended then insist(sink.put, sink, "text", { id = "1" }) else conn:publish("s", "text") end
      rn.sleep(10000)
      n = insist(function() return insist(conn.stream, conn, "s"):state() end).messages
      conn:drain()
    end)
    world:run()
    if n ~= 1 then error("lost", 0) end
  end)

  finds("an answer to a request that is taken for a failure", "the sum is %d%d", function(mended)
    local world = new_world { delay = 1 }
    local sum, done = 0, {}
    world:host("bank", function()
      local conn = connect()
      for request in conn:subscribe "deposit" do
        if not (mended and done[request.data]) then sum = sum + 5 end
        done[request.data] = true
        request:respond "done"
      end
    end)
    world:host("client", function()
      rn.sleep(100)
      local conn = connect()
      repeat until conn:request("deposit", "1", 1000)
      conn:drain()
    end)
    world:run()
    if sum ~= 5 then error("the sum is " .. sum, 0) end
  end)

  -- ---- the library's own protocols ----

  -- A durable stage on two hosts, which must store each result once. `faults`: also those of the worker's hosts.
  local function stages(faults, ms)
    local world, over = new_world(faults)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local conn = connect()
        insist(conn.stream, conn, "from")
        insist(conn.stream, conn, "to")
        local worker = insist(conn.stage, conn, 1, "from", function(text)
          if ms then rn.sleep(ms) end
          return text
        end, "to", { ack_wait = 1000 })
        over:take()
        worker:drain()
        conn:drain()
      end, { restart = 100 })
    end
    local result
    world:host("client", function()
      local conn = connect()
      insist(conn.stream, conn, "from")
      insist(conn.stream, conn, "to")
      local sink = insist(conn.sink, conn, "from")
      for i = 1, 2 do insist(sink.put, sink, "m" .. i, { id = tostring(i) }) end
      wait_until_done(conn, "from", "to")
      result = contents(conn, "to")
      over:close()
      conn:drain()
    end)
    run(world)
    check_once(result)
  end

  -- A remote stage with two workers. Each call has its result; without faults it runs once.
  local function jobs(faults, most, ms)
    local world, over = new_world(faults)
    local starts = {}
    local function start_of(n)
      starts[n] = (starts[n] or 0) + 1
      if starts[n] > most then error(("job %d has started %d times"):format(n, starts[n]), 0) end
      if ms then rn.sleep(ms) end
      return 2 * n
    end
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local conn = connect()
        local worker = insist(function()
          local ok, found = pcall(conn.serve, conn, "double", 2, start_of)
          return ok and found
        end)
        over:take()
        worker:drain()
        conn:drain()
      end, { restart = 100 })
    end
    world:host("client", function()
      if over:closed() then return end
      local conn = connect()
      local double = insist(function()
        local ok, found = pcall(conn.remote, conn, "double")
        return ok and found
      end)
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
    it("finds nothing in " .. what, function() sim.explore(test, { seconds = SHORT }) end)
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

  -- A worker, and a program with a remote stage, until `over` closes.
  local function worker_of(world, over, f)
    world:host("worker", function()
      local conn = connect()
      local worker = insist(function()
        local ok, found = pcall(conn.serve, conn, "job", 1, f)
        return ok and found
      end)
      over:take()
      worker:drain()
      conn:drain()
    end, { restart = 100 })
  end

  local function submitter_of(world, over, opts, f)
    world:host("client", function()
      local conn = connect()
      local remote = insist(function()
        local ok, found = pcall(conn.remote, conn, "job", opts)
        return ok and found
      end)
      f(remote, conn)
      remote:close()
      over:close()
      conn:drain()
    end)
  end

  local function cancelled(faults)
    local world, over = new_world(faults)
    worker_of(world, over, function(n)
      rn.sleep(2000)
      return n
    end)
    submitter_of(world, over, nil, function(remote, conn)
      local one, two = rn.go(remote, 1), rn.go(remote, 2)
      rn.sleep(sim.choose(3) * 400)
      rn.cancel(two, "it is not needed")
      if take(one) ~= 1 then error("wrong", 0) end
      local left
      for _ = 1, 100 do
        local stream = require("runnel.nats.stream").open(conn, "runnel-jobs-job")
        local state = stream and stream:state()
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
    worker_of(world, over, function() error("it is broken", 0) end)
    submitter_of(world, over, { tries = 2, retry = 100, traceback = false }, function(remote, conn)
      local ok, err = pcall(take, rn.go(remote, 1))
      if ok or err ~= "it is broken" then error("the error is " .. tostring(err), 0) end
      local n = insist(function() return (conn:dead "job":count()) end)
      if n ~= 1 then error(("there are %d dead letters"):format(n), 0) end
    end)
    run(world)
  end

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
  local Engine = nats and getmetatable(require "runnel.nats.internal.engine" { core = {} }).__index

  local function finds_planted(what, pattern, class, name, f, test)
    it("finds, planted in the library, " .. what, function()
      with(class, name, f, function()
        local ok, err = pcall(sim.explore, test, { seconds = LONG })
        assert.is_false(ok)
        assert.matches(pattern, err)
      end)
    end)
  end

  finds_planted("an acknowledgement before the results", "the results are: m%d x1 ", Keeper, "done", function(done)
    return function(self, message, results)
      message.reader.engine:publish(message.ack_subject, "+ACK")
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

  finds_planted("leases that are not extended", "has started 2 times", Engine, "beat", function()
    return function() return false end
  end, function() jobs(nil, 1, 3000) end)
end)

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
        left = conn:stream("runnel-jobs-job"):state().messages
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
    sim.explore(function()
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
    end, { seconds = SHORT })
  end)
end)
