-- Streams of JetStream in a cluster of servers, one of which is killed.

local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local figures = require "runnel.queue.figures"
local patience = require "spec.support.patience"
local view = require "runnel.queue.view"

local nats, missing = nats_server.library()
if not nats then
  describe("streams", function() pending(missing) end)
  return
end

-- A connection that is back soon after the server is.
local function connect(url) return assert(nats.connect(url, { reconnect_wait = 20 })) end

local function take_within(ch, ms) return (rn.alts { ch, rn.timeout(ms) }) end

describe("streams", function()
  -- The server that is killed has the consumer. Only that server has a consumer without a name.
  for _, name in ipairs { false, "shop" } do
    local kind = name and "with" or "without"
    it(("go on in a cluster of three when a server is killed: a source %s a name #slow #ci"):format(kind), function()
      local cluster <close> = nats_server.cluster()
      local far <close> = connect(cluster.url)
      local stream, err
      patience.wait_until(function()
        stream, err = far:stream("orders", { replicas = 3 })
        return stream
      end)
      assert.is_truthy(stream, cluster:explain(err))
      local sink, source = assert(far:sink "orders"), assert(far:source("orders", { name = name or nil }))
      for i = 1, 30 do
        if i == 10 then
          local consumers = assert(far:request("$JS.API.CONSUMER.LIST.orders", "")).data
          cluster.servers[tonumber(consumers:match '"leader":"server(%d)"')]:kill()
        end
        assert(sink:put(tostring(i)))
        local m
        repeat -- a message whose acknowledgement was lost with the server comes again
          m = take_within(source, 60000)
          m:ack()
        until not name or tonumber(m.value) >= i
        assert.equal(tostring(i), m.value)
      end
      source:close()
    end)
  end

  it("have servers whose health is beside their queues: leaders, replicas, streams without a leader #slow", function()
    local cluster <close> = nats_server.cluster()
    local conn <close> = connect(cluster.url)
    for name, replicas in pairs { orders = 3, single = 1 } do
      patience.wait_for(function() return conn:stream(name, { replicas = replicas }) end)
    end
    local source <close> = assert(conn:source("orders", { name = "n" })) -- luacheck: ignore 211
    local list
    patience.wait_for(function() -- the leader hears of its replicas
      list = assert(conn:queues())
      local behind = 0
      for _, one in ipairs(list.servers) do behind = behind + one.behind end
      return #list.servers == 3 and behind == 0
    end)
    local leads, replicas = 0, 0
    for _, one in ipairs(list.servers) do leads, replicas = leads + one.leads, replicas + one.replicas end
    assert.same({ 3, 4, nil }, { leads, replicas, list.leaderless })
    assert.same({ used = 0 }, list.storage)
    assert.matches("\nserver +leads +replicas +behind +state\nserver1 .* well\nserver2",
      table.concat(view.queues(list), "\n"))
    assert.same({}, figures.alarms(list, { healthy = true }))
    local info = assert(conn:request("$JS.API.STREAM.INFO.single", "")).data
    local lost = "server" .. info:match '"leader":"server(%d)"'
    cluster.servers[tonumber(lost:match "%d")]:kill()
    patience.wait_for(function() -- an election may be under way
      list = conn:queues()
      for _, one in ipairs(list and list.leaderless and list.servers or {}) do
        if one.name == lost and (one.offline or one.silent or one.behind > 0) then return true end
      end
    end)
    assert.same({ "single" }, list.leaderless)
    local text = table.concat(figures.alarms(list, { healthy = true }), "\n")
    assert.matches("server " .. lost .. ": ", text)
    assert.matches("stream single: no leader", text)
    assert.matches("no leader, so their queues are not shown: single", table.concat(view.queues(list), "\n"))
    local numbers = figures.text(list)
    assert.matches("\nrunnel_queues_without_leader 1\n", numbers)
    assert.matches('\nrunnel_queues_server_behind{server="' .. lost, numbers)
  end)

  it("of buckets in a cluster of three: of updates of a revision at the same time, one succeeds #slow", function()
    if not nats_server.is_since "2.11" then return pending "nats-server before 2.11 stores several of them" end
    local cluster <close> = nats_server.cluster()
    local conns, buckets = {}, {}
    for i = 1, 4 do conns[i] = connect(cluster.url) end
    for i, conn in ipairs(conns) do
      patience.wait_for(function()
        buckets[i] = conn:kv("b", { replicas = 3 })
        return buckets[i]
      end)
    end
    local revision = assert(buckets[1]:put("k", "0"))
    for round = 1, 20 do
      local blocks, done, errors = {}, {}, {}
      for i = 1, 4 do
        blocks[i] = rn.go(function() return table.pack(buckets[i]:update("k", round .. "." .. i, revision)) end)
      end
      for i = 1, 4 do
        local result = blocks[i]:take()
        if result[1] then done[#done + 1] = result[1] else errors[#errors + 1] = result[2] end
      end
      assert.equal(1, #done, table.concat(done, " "))
      revision = done[1]
      for _, err in ipairs(errors) do assert.equal(('the key "k" has revision %d'):format(revision), err) end
    end
    for _, conn in ipairs(conns) do conn:close() end
  end)
end)
