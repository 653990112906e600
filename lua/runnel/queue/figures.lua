---Queues in numbers: as Prometheus' text, and beside the limits of an alarm. For `runnel queues`.

local exposition = require "runnel.internal.metrics_text"
local short = require "runnel.internal.short"

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

---The numbers of queues in Prometheus' text format.
---@param list runnel.queue.List
---@return string
function figures.text(list)
  local families = {}
  for _, family in ipairs(FAMILIES) do
    local name, kind, help, read = table.unpack(family)
    local series = {}
    for i, queue in ipairs(list) do
      series[i] = { labels = { { "queue", short.utf8(queue.name) } }, value = read(queue) }
    end
    if #series > 0 then families[#families + 1] = { name = name, kind = kind, help = help, series = series } end
  end
  return exposition.format(families)
end

---Lines about the queues that are beyond a limit.
---@param list runnel.queue.List
---@param limits { waiting?: integer, oldest?: integer } `oldest` in seconds
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
  return lines
end

return figures
