-- Bugs of programs over NATS in a simulated world: sim.explore finds each of them within seconds, and none in the
-- program without the bug.

local long = require "spec.support.long"
local nats_world = require "spec.support.queue.nats_world"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_world.nats, nats_world.missing
local insist = nats_world.insist
local connect = nats_world.connect
local new_world = nats_world.new_world

describe("in a simulated world with NATS, a search #heavy", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- `test(mended)` runs a program in a world and checks it. The short form tries every second program.
  local count = 0
  local function finds(what, pattern, test)
    count = count + 1
    if not long.tries(count, 2) then return end
    it("finds " .. what, function() search.finds_bug(pattern, test) end)
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
    local result = nats_world.add_client(world, over, "me")
    world:run()
    check(result())
  end

  local function named() return { name = "me", ack_wait = 1000 } end

  finds("an acknowledgement before the store", "the results are: m%d x1 ", function(mended)
    copies({ crash = 1 }, 1, named, function(_, sink, message)
      if not mended then message:ack() end
      insist(sink.put, sink, message.data, { id = tostring(message.sequence) })
      message:ack()
    end, nats_world.check_once)
  end)

  finds("a result without an id", "the results are: .*x2", function(mended)
    copies({ crash = 1 }, 1, named, function(_, sink, message)
      insist(sink.put, sink, message.data, { id = mended and tostring(message.sequence) or nil })
      message:ack()
    end, nats_world.check_once)
  end)

  finds("messages that are acknowledged when they are taken", "the results are: m%d x1 ", function(mended)
    copies({ crash = 1 }, 1, function()
      local options = named()
      options.ack = mended and "explicit" or "taken"
      return options
    end, function(_, sink, message)
      insist(sink.put, sink, message.data, { id = tostring(message.sequence) })
      message:ack()
    end, nats_world.check_once)
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
    end, nats_world.check_once)
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
      n = insist(function() return insist(conn.stream, conn, "s"):stats() end).messages
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
      repeat until conn:request("deposit", "1", { timeout = 1000 })
      conn:drain()
    end)
    world:run()
    if sum ~= 5 then error("the sum is " .. sum, 0) end
  end)
end)
