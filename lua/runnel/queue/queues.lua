---What lists of queues have in common, wherever the queues are.

local check = require "runnel.internal.check"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"

local queues = {}

---A queue, as it was at the time of the query.
---@class runnel.queue.Queue
---@field name string NAME for a remote stage, STREAM/CONSUMER for others
---@field kind "jobs"|"messages"
---@field stream string
---@field consumer string
---@field waiting integer messages that no worker has got
---@field running integer messages that workers have got and not acknowledged
---@field redelivered integer messages of `running` that were delivered before
---@field given_up integer dead letters
---@field done integer messages that are done, since the stream was made
---@field rate? number messages done a second since the last look of this connection or store; nil at the first
---@field oldest? number the age, in ms, of the oldest message that is not done; nil if there is none
---@field unused number ms since a message was stored last, or since the stream was made
---@field paused boolean
---@field workers runnel.queue.WorkerReport[]
---@field counted_at number when `done` was counted
---@field protected owner any the connection or the store
---@field resumes? number when the pause ends, in ms since 1970; of a store only
---@field protected store_paused fun(self, is_paused: boolean, ms?: number): true?, string? notes for all workers, also
---new ones, whether the queue is paused, and for how long
---@field can_resume? boolean whether a pause may have an end
---@field protected ask fun(self, ms?: number): table<string, runnel.queue.WorkerReport[]>?, string? tells workers to
---see whether the queue is paused; returns reports by the names of queues
local Queue = {}

---The state of a worker or a stage.
---@class runnel.queue.WorkerReport
---@field host string
---@field pid integer
---@field program? string the script's name
---@field n integer
---@field busy? integer how many calls run
---@field running { value: string, ms: integer, deliveries: integer }[] the longest calls first, up to 32
---@field waiting? integer jobs that it has and has not started
---@field done integer
---@field failed integer
---@field redelivered? integer starts of what was delivered before
---@field paused boolean

---A source, a stage or a worker that has heard nothing for some seconds, though it has asked for messages.
---@class runnel.queue.Silent
---@field what string "source", "stage" or "serve"
---@field stream string
---@field consumer? string nil for a source without a name
---@field host string
---@field pid integer
---@field program? string the script's name
---@field ms integer for how long
---@field why string

---@class runnel.queue.List
---@field [integer] runnel.queue.Queue
---@field silent? runnel.queue.Silent[] nil if there are none, or for a store

---The name of the program's script, or nil.
---@return string?
function queues.program()
  return type(arg) == "table" and type(arg[0]) == "string" and short.utf8(arg[0]:match "[^/]*$") or nil
end

---Sorts reports by host and process.
---@param list runnel.queue.WorkerReport[]
function queues.sort_workers(list)
  table.sort(list, function(a, b)
    if a.host ~= b.host then return a.host < b.host end
    return a.pid < b.pid
  end)
end

---Sorts queues by name, and fills in their rates, from the time of the last call for the same owner.
---@param owner table the connection or the store
---@param list runnel.queue.Queue[]
---@return runnel.queue.Queue[] list
function queues.complete(owner, list)
  local before = owner.queues_before or {}
  owner.queues_before = {}
  for _, queue in ipairs(list) do
    local last = before[queue.name]
    local passed = last and queue.counted_at - last.counted_at or 0
    if passed > 0 then queue.rate = math.max(0, queue.done - last.done) * 1000 / passed end
    owner.queues_before[queue.name] = { done = queue.done, counted_at = queue.counted_at }
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---Finds a queue by its name: NAME of a remote stage, STREAM/CONSUMER, or CONSUMER if it is unique.
---@param list runnel.queue.Queue[]
---@param name string
---@param owner string what has the queues, for a message
---@return runnel.queue.Queue? queue, string? err
function queues.find(list, name, owner)
  local found, all = {}, {}
  for i, queue in ipairs(list) do
    if queue.name == name then return queue end
    if queue.kind == "messages" and queue.consumer == name then found[#found + 1] = queue end
    all[i] = queue.name
  end
  if #found == 1 then return found[1] end
  if #found > 1 then return nil, ("there are several queues %q: say STREAM/%s"):format(name, name) end
  return nil, ("there is no queue %q; %s"):format(name,
    #all == 0 and owner .. " has none" or "there are: " .. table.concat(all, ", "))
end

-- ---- one queue ----

local function set_paused(self, is_paused, ms, lasts)
  if ms ~= nil then check.ms(ms, 1, (is_paused and "pause" or "resume") .. ": ms", 4) end
  local ok, err = self:store_paused(is_paused, lasts)
  if not ok then return nil, err end
  self.paused = is_paused
  local workers, problem = self:ask(ms)
  if not workers then return nil, problem end
  self.workers = workers[self.name] or {}
  return #self.workers
end

local PAUSE <const> = { lasts = check.kinds.ms(1) }

---Pauses the queue: its workers, also new ones, start no more calls until `resume`. Running calls finish. Messages that
---a worker has not started wait in the worker.
---@param ms? number how long to wait for their answers (500)
---@param opts? { lasts?: number } of a store only: after how many ms the pause ends
---@return integer? workers how many have answered that they have paused
---@return string? err
function Queue:pause(ms, opts)
  sign.own(self, "queue", "pause")
  if type(ms) == "table" then ms, opts = nil, ms end
  check.options(opts, PAUSE, "pause")
  if opts and opts.lasts and not self.can_resume then
    error("pause: lasts: only a pause in a store has an end: resume it later", 2)
  end
  local workers, err = set_paused(self, true, ms, opts and opts.lasts)
  return workers, err
end

---Ends a pause.
---@param ms? number as for pause
---@return integer? workers how many have answered
---@return string? err
function Queue:resume(ms)
  sign.own(self, "queue", "resume")
  local workers, err = set_paused(self, false, ms)
  return workers, err
end

---The dead letters of the queue, as conn:dead and store:dead return them.
---@return runnel.DeadLetters letters
function Queue:dead()
  sign.own(self, "queue", "dead")
  return self.owner:dead(self.kind == "jobs" and self.name or self.consumer)
end

function Queue:__tostring()
  return ("queue: %s (%d waiting, %d running)"):format(self.name, self.waiting, self.running)
end

---Makes a class of queues of a table of methods, which has at least `store_paused` and `ask`.
---@param class table
---@return table class
function queues.class(class)
  class.__index, class.__name, class.__sign = class, "queue", "queue"
  for name, method in pairs(Queue) do class[name] = method end
  return class
end

return queues
