---Queues in numbers: as Prometheus' text, and beside the limits of an alarm. For `runnel queues`.

local exposition = require "runnel.internal.metrics_text"
local short = require "runnel.internal.short"
local view = require "runnel.queue.view"

local figures = {}

-- How many calls the workers of a queue may run.
local function slots(queue)
  local n = 0
  for _, worker in ipairs(queue.workers) do n = n + (worker.n or 0) end
  return n
end

local FAMILIES <const> = {
  { "runnel_queues_waiting", "gauge", "Messages that no worker has got.", function(q) return q.waiting end },
  { "runnel_queues_running", "gauge", "Messages that workers have got and that are not done.",
    function(q) return q.running end },
  { "runnel_queues_redelivered", "gauge", "Running messages that were delivered before.",
    function(q) return q.redelivered end },
  { "runnel_queues_dead_letters", "gauge", "Messages that were given up.", function(q) return q.given_up end },
  { "runnel_queues_done_total", "counter", "Messages that are done.", function(q) return q.done end },
  { "runnel_queues_oldest_seconds", "gauge", "The age of the oldest message that is not done; 0: there is none.",
    function(q) return (q.oldest or 0) / 1000 end },
  { "runnel_queues_paused", "gauge", "1 if an operator has paused the queue.",
    function(q) return q.paused and 1 or 0 end },
  { "runnel_queues_workers", "gauge", "Programs that work on the queue.", function(q) return #q.workers end },
  { "runnel_queues_slots", "gauge", "Calls that all workers of the queue may run.", slots },
}

-- Of the servers of a cluster.
local SERVERS <const> = {
  { "runnel_queues_server_up", "gauge", "1 if the cluster reaches the server, and hears of it.",
    function(s) return (s.offline or s.silent) and 0 or 1 end },
  { "runnel_queues_server_leads", "gauge", "Streams and consumers that the server leads.",
    function(s) return s.leads end },
  { "runnel_queues_server_behind", "gauge", "Replicas on the server that are not current.",
    function(s) return s.behind end },
}

-- Of the account.
local ACCOUNT <const> = {
  { "runnel_queues_without_leader", "gauge", "Streams that have no leader.",
    function(l) return #(l.leaderless or {}) end },
  { "runnel_queues_stored_bytes", "gauge", "What the account has stored.", function(l) return l.storage.used end },
  { "runnel_queues_stored_bytes_max", "gauge", "How much it may store; -1: as much as there is room.",
    function(l) return l.storage.most or -1 end },
}

---The numbers of queues in Prometheus' text format.
---@param list runnel.queue.List
---@return string
function figures.text(list)
  local families = {}
  local function add(of, things, label)
    for _, family in ipairs(things[1] and of or {}) do
      local name, kind, help, read = table.unpack(family)
      local series = {}
      for i, one in ipairs(things) do
        series[i] = { labels = label and { { label, short.utf8(one.name) } } or {}, value = read(one) }
      end
      families[#families + 1] = { name = name, kind = kind, help = help, series = series }
    end
  end
  add(FAMILIES, list, "queue")
  add(SERVERS, list.servers or {}, "server")
  add(ACCOUNT, { list.storage and list or nil })
  return exposition.format(families)
end

---Lines about the queues that are beyond a limit.
---@param list runnel.queue.List
---@param limits { waiting?: integer, oldest?: integer, healthy?: boolean } `oldest` in seconds; `healthy`: also about
---servers of a cluster that are not well, and streams without a leader
---@return string[] lines
function figures.alarms(list, limits)
  local lines = {}
  local function add(...) lines[#lines + 1] = ("%s: %s, more than %s"):format(...) end
  for _, queue in ipairs(list) do
    if limits.waiting and queue.waiting > limits.waiting then
      add(queue.name, queue.waiting .. " waiting", limits.waiting)
    end
    if limits.oldest and queue.oldest and queue.oldest > limits.oldest * 1000 then
      add(queue.name, "the oldest is " .. short.duration(queue.oldest) .. " old", short.duration(limits.oldest * 1000))
    end
  end
  for _, server in ipairs(limits.healthy and list.servers or {}) do
    if server.offline or server.silent or server.behind > 0 then
      lines[#lines + 1] = ("server %s: %s"):format(server.name, view.server_state(server))
    end
  end
  for _, stream in ipairs(limits.healthy and list.leaderless or {}) do
    lines[#lines + 1] = ("stream %s: no leader"):format(stream)
  end
  return lines
end

return figures
