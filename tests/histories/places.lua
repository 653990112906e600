---Where the processes of tests/histories/histories.lua work: a file of a store, a nats-server, or three. And what
---disturbs them there. All have the same methods: prepare() makes the streams and the bucket, and open() opens them for
---the end. `faults` are functions, each of which does harm for some time, and counts that.

local json = require "runnel.json"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local rn = require "runnel"

local places = {}

local function make_all(owner, replicas)
  assert(owner:stream("log", { replicas = replicas }))
  assert(owner:stream("work", { retention = "workqueue", replicas = replicas }))
  assert(owner:kv("bucket", { replicas = replicas }))
  assert(owner:kv("watched", { history = 20, replicas = replicas }))
end

-- ---- a store ----

local Store = {}
Store.__index = Store

-- How large the disk is that becomes full, in MB: more than the processes write.
local DISK <const> = 64

-- A small disk of its own, if this process may have one.
local function mount(dir)
  return os.execute(("mount -t tmpfs -o size=%dm none '%s' 2>/dev/null"):format(DISK, dir)) == true
end

---@param set table of programs (spec/support/background.lua)
function places.store(set)
  local self = setmetatable({
    is_strict = true, dir = set.dir .. "/store", counts = {}, faults = {},
  }, Store)
  assert(os.execute(("mkdir '%s'"):format(self.dir)))
  self.place = self.dir .. "/work.db"
  self.has_disk = mount(self.dir)
  if not self.has_disk then return self end
  self.faults[1] = function()
    self.counts.full_disks = (self.counts.full_disks or 0) + 1
    os.execute(("cat /dev/zero >'%s/filler' 2>/dev/null"):format(self.dir))
    rn.sleep(math.random(20, 300))
    os.remove(self.dir .. "/filler")
  end
  return self
end

---Whether the work queue has no more messages.
function Store.is_idle(owner) return assert(assert(owner:stream "work"):stats()).messages == 0 end

function Store.state(owner) return json.encode(assert(owner:stream "work"):stats()) end

function Store:open()
  return require("runnel.store").open(self.place, { busy_timeout = 60000 })
end

function Store:prepare()
  local store <close> = self:open()
  make_all(store)
end

function Store:close()
  if self.has_disk then os.execute(("umount '%s'"):format(self.dir)) end
end
Store.__close = Store.close

-- ---- a server ----

local Server = {}
Server.__index = Server

---@param set table of programs (spec/support/background.lua)
function places.nats(set)
  local server = nats_server.start { disk = 30000000 }
  local self = setmetatable({
    is_strict = false, server = server, place = server.url, counts = {}, set = set,
  }, Server)
  local function fault(name, f)
    return function()
      self.counts[name] = (self.counts[name] or 0) + 1
      f()
    end
  end
  self.faults = {
    fault("killed_servers", function()
      server:kill()
      rn.sleep(math.random(0, 300))
      server:start()
    end),
    fault("stopped_servers", function()
      server:pause()
      rn.sleep(math.random(20, 1500))
      server:resume()
    end),
    fault("full_disks", function() self:fill() end),
  }
  return self
end

---Whether the work queue delivers no more messages. (A server that was killed may keep some that are done.)
function Server.is_idle(owner)
  local answer = owner:request("$JS.API.CONSUMER.INFO.work.work", "", { timeout = 5000, encoding = "raw" })
  local info = answer and json.decode(answer.data)
  return info and info.num_pending == 0 and info.num_ack_pending == 0
end

-- What the server says of the queue.
function Server.state(owner)
  local consumer = owner:request("$JS.API.CONSUMER.INFO.work.work", "", { timeout = 5000, encoding = "raw" })
  local stream = owner:request("$JS.API.STREAM.INFO.work", "", { timeout = 5000, encoding = "raw" })
  return ("consumer: %s\nstream: %s"):format(consumer and consumer.data, stream and stream.data)
end

-- Fills the server's disk, and makes room again.
function Server:fill()
  local conn <close> = self:open()
  local filler = assert(conn:stream "filler")
  local sink = assert(conn:sink("filler", { timeout = 2000 }))
  for _ = 1, 80 do
    if not sink:put(("x"):rep(500000)) then break end
  end
  rn.sleep(math.random(20, 300))
  while not filler:purge() do rn.sleep(50) end
end

function Server:open()
  return assert(require("runnel.nats").connect(self.place, { reconnect_wait = 50, encoding = "msgpack" }))
end

function Server:prepare()
  local conn <close> = self:open()
  make_all(conn)
end

function Server:close() self.server:close() end
Server.__close = Server.close

-- ---- three servers ----

local Cluster = setmetatable({}, { __index = Server })
Cluster.__index = Cluster

---Only with a nats-server whose clusters keep what they say: see docs/machines.md.
---@param set table of programs (spec/support/background.lua)
function places.cluster(set)
  local cluster = nats_server.cluster(3)
  local self = setmetatable({
    is_strict = false, server = cluster, place = cluster.url, counts = {}, set = set,
  }, Cluster)
  local function fault(name, f)
    return function()
      self.counts[name] = (self.counts[name] or 0) + 1
      f(cluster.servers[math.random(3)])
      self:wait()
    end
  end
  self.faults = {
    fault("killed_servers", function(server)
      server:kill()
      rn.sleep(math.random(0, 2000))
      server:start()
    end),
    fault("stopped_servers", function(server)
      server:pause()
      rn.sleep(math.random(20, 3000))
      server:resume()
    end),
  }
  return self
end

-- Whether all servers have what a stream has.
local function is_whole(conn, stream)
  local answer = conn:request("$JS.API.STREAM.INFO." .. stream, "", { timeout = 2000, encoding = "raw" })
  local of = answer and json.decode(answer.data).cluster
  if not of or not of.leader or #(of.replicas or {}) < 2 then return false end
  for _, replica in ipairs(of.replicas) do
    if not replica.current then return false end
  end
  return true
end

---Waits until all servers have what the others have: before that no other one may fail.
function Cluster:wait()
  local conn <close> = self:open()
  for _, stream in ipairs { "log", "work", "KV_bucket", "KV_watched" } do
    patience.wait_for(function() return is_whole(conn, stream) end)
  end
end

function Cluster:open()
  return assert(patience.wait_for(function()
    return (require("runnel.nats").connect(self.place, { reconnect_wait = 50, encoding = "msgpack" }))
  end))
end

function Cluster:prepare()
  local conn <close> = self:open()
  patience.wait_for(function() return (pcall(make_all, conn, 3)) end)
end

Cluster.__close = Server.close

return places
