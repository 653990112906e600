-- Remote stages over a cluster of servers, one of which is killed.

local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"

local nats, missing = nats_server.library()
if not nats then
  describe("remote jobs in a cluster", function() pending(missing) end)
  return
end

describe("remote jobs in a cluster #slow #ci", function()
  it("go on when the server that leads is lost", function()
    local cluster <close> = nats_server.cluster(3)
    local conn <close> = assert(nats.connect(cluster.url, { reconnect_wait = 50 }))
    local other <close> = assert(nats.connect(cluster.url, { reconnect_wait = 50 }))
    local settings = { replicas = 3, drain_on_term = false }
    -- At first not all servers of the cluster may know each other.
    local why
    local worker <close> = patience.wait_until(function()
      local ok, made = pcall(other.serve, other, "square", 8, function(v) return v * v end, settings)
      why = made
      return ok and made
    end)
    assert.is_truthy(worker, cluster:explain(why))
    local values, n = {}, 0
    for i = 1, 2000 do values[i] = i end
    for v in rn.pmap(32, conn:remote("square", { replicas = 3 }), values) do
      n = n + 1
      assert.equal(n * n, v)
      if n == 1000 then
        local info = assert(conn:request("$JS.API.STREAM.INFO.runnel-jobs-square", "", { timeout = 5000 }))
        local leader = info.data:match '"leader":"server(%d)"'
        cluster.servers[tonumber(leader)]:kill()
      end
    end
    assert.equal(2000, n)
  end)
end)
