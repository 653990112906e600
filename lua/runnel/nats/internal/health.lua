---How the servers of a cluster are, beside their queues: what each leads and holds a replica of, and which of it is
---behind; streams without a leader; and how much of its room the account has used. The server does not tell an account
---more about its disks.

local jetstream = require "runnel.nats.internal.jetstream"

local health = {}

-- A server of which nothing was heard for so many ms is in trouble. A leader sends its replicas something every second.
local SILENT <const> = 10000

---A server of a cluster.
---@class runnel.nats.ServerHealth
---@field name string
---@field leads integer of how many streams and consumers it is the leader
---@field replicas integer of how many others it has a replica
---@field behind integer how many of these are not current
---@field lag integer how many changes the one is behind that is most
---@field offline boolean the cluster does not reach it
---@field silent? number for how many ms the others have heard nothing of it, if that is long

---@class runnel.nats.Health
---@field private servers table<string, runnel.nats.ServerHealth>
---@field private is_cluster boolean
local Health = {}
Health.__index = Health

---@return runnel.nats.Health
function health.new() return setmetatable({ servers = {}, is_cluster = false }, Health) end

local function server(self, name)
  local found = self.servers[name]
  if not found then
    found = { name = name, leads = 0, replicas = 0, behind = 0, lag = 0, offline = false }
    self.servers[name] = found
  end
  return found
end

---Adds what the server says about the group of a stream or a consumer.
---@param cluster? { leader: string?, replicas: table[]? }
function Health:add(cluster)
  if type(cluster) ~= "table" then return end
  if cluster.leader then
    local leader = server(self, cluster.leader)
    leader.leads = leader.leads + 1
  end
  for _, replica in ipairs(cluster.replicas or {}) do
    self.is_cluster = true
    local one, silent = server(self, replica.name), (replica.active or 0) / 1e6
    one.replicas = one.replicas + 1
    if not replica.current then one.behind = one.behind + 1 end
    one.lag, one.offline = math.max(one.lag, replica.lag or 0), one.offline or replica.offline == true
    if silent > SILENT then one.silent = math.max(one.silent or 0, silent) end
  end
end

---The servers, sorted by name; nil if there is no cluster.
---@return runnel.nats.ServerHealth[]?
function Health:list()
  local list = {}
  for _, one in pairs(self.servers) do list[#list + 1] = one end
  if not self.is_cluster and #list < 2 then return nil end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---How many bytes the account has stored, and how many it may; nil if the server does not say so within `ms`.
---@param conn runnel.nats.Connection
---@param ms number
---@return { used: integer, most: integer? }?
function health.storage(conn, ms)
  local answer = jetstream.request(conn, "INFO", nil, ms)
  if not answer or not math.tointeger(answer.storage) then return nil end
  local most = answer.limits and answer.limits.max_storage
  return { used = answer.storage, most = math.tointeger(most) and most >= 0 and most or nil }
end

return health
