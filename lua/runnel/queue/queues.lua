---What lists of queues have in common, wherever the queues are.

local check = require "runnel.internal.check"
local json = require "runnel.json"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"
local raise = require("runnel.core").internal.raise

local queues = {}

-- How much of a value that is no JSON is searched, in bytes.
local LONGEST_VALUE <const> = 4000

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
---@field protected find_message fun(self, sequence: integer): runnel.queue.Waiting?, string? nil: there is none
---@field protected read_waiting fun(self, after: integer, most: integer): runnel.queue.Waiting[]?, string?
---@field protected remove_waiting fun(self, sequence: integer): true?, string?
---@field protected move_waiting? fun(self, sequence: integer, to: string): true?, string?
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
---@field servers? runnel.nats.ServerHealth[] of a cluster
---@field leaderless? string[] the streams that have no leader, whose queues are not in the list; nil if there are none
---@field storage? { used: integer, most: integer? } the bytes that the account has stored, and how many it may

---A message of a queue.
---@class runnel.queue.Waiting
---@field sequence integer its number in the stream
---@field id? string that of its put; of a store only
---@field subject string
---@field time number when it was stored, in ms since 1970
---@field bytes integer of its value
---@field value any nil if it cannot be read
---@field problem? string why not
---@field due? number when it is delivered again, in ms since 1970; of a store only
---@field key? string of a queue with the option `key`, once that is known
---@field behind? integer the first message of its key that is not done, for whose end it waits
---@field starts integer how often it was started; of a store only, as the next two
---@field raises integer how often its function has raised
---@field error? string of the last try
---@field errors? runnel.queue.TryError[] of the last tries, one for each
---@field running? boolean whether a worker has it; only from `get`, and nil if that is not known

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
---@return boolean? is_ambiguous there are several
function queues.find(list, name, owner)
  local found, all = {}, {}
  for i, queue in ipairs(list) do
    if queue.name == name then return queue end
    if queue.kind == "messages" and queue.consumer == name then found[#found + 1] = queue end
    all[i] = queue.name
  end
  if #found == 1 then return found[1] end
  if #found > 1 then return nil, ("there are several queues %q: say STREAM/%s"):format(name, name), true end
  return nil, ("there is no queue %q; %s"):format(name,
    #all == 0 and owner .. " has none" or "there are: " .. table.concat(all, ", "))
end

-- ---- one queue ----

local function set_paused(self, is_paused, ms, lasts)
  if ms ~= nil then check.ms(ms, 1, (is_paused and "pause" or "resume") .. ": ms") end
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
    raise("pause: lasts: only a pause in a store has an end: resume it later")
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
  local letters = self.owner:dead(self.name)
  if self.kind == "jobs" then letters.kind = "job" end -- a stage for messages may have the same name
  return letters
end

local LIST <const> = { after = check.kinds.integer(0), limit = check.kinds.integer(1),
  contains = function(value, what) check.string(value, "a text", what) end }

-- How many messages are read at a time to search among them.
local PAGE <const> = 200

-- Whether the id, the subject or the value of a message contains a text.
local function contains(message, text)
  if message.id and message.id:find(text, 1, true) or message.subject:find(text, 1, true) then return true end
  local value = message.value
  local all = type(value) == "string" and value or json.encode(value) or short.value(value, LONGEST_VALUE)
  return all:find(text, 1, true) ~= nil
end

---Lists messages that wait, the oldest first: those that no worker has.
---@param opts? { after?: integer, limit?: integer, contains?: string } `after`: only those with larger sequence
---numbers; `limit`: at most that many (100); `contains`: only those whose value, subject or id contains a text
---@return runnel.queue.Waiting[]? list, string? err
function Queue:list(opts)
  sign.own(self, "queue", "list")
  check.options(opts, LIST, "list")
  opts = opts or {}
  local found, after, limit = {}, opts.after or 0, opts.limit or 100
  repeat
    local page, err = self:read_waiting(after, opts.contains and PAGE or limit)
    if not page then return nil, err end
    for _, message in ipairs(page) do
      after = message.sequence
      if not opts.contains or contains(message, opts.contains) then found[#found + 1] = message end
      if #found == limit then return found end
    end
  until #page < PAGE or not opts.contains
  return found
end

---A message that is not done, with the errors of its tries.
---@param sequence integer its number
---@return runnel.queue.Waiting? message, string? err
function Queue:get(sequence)
  sign.own(self, "queue", "get")
  check.integer(sequence, 1, "get: sequence")
  local message, err = self:find_message(sequence)
  if message or err then return message, err end
  return nil, ("there is no message %d of %s that is not done"):format(sequence, self.name)
end

-- Jobs of a remote stage belong to a program that waits for their results.
local function check_messages(self, what)
  if self.kind ~= "jobs" then return true end
  return nil, ("%s: %s is a remote stage: the program that has submitted a job cancels it"):format(what, self.name)
end

---Removes a message that waits.
---@param sequence integer its number
---@return true? cancelled, string? err it does not wait
function Queue:cancel(sequence)
  sign.own(self, "queue", "cancel")
  check.integer(sequence, 1, "cancel: sequence")
  local ok, err = check_messages(self, "cancel")
  if ok then ok, err = self:remove_waiting(sequence) end
  return ok, err
end

---Moves a message that waits to the end of another stream, in one step. Of a store only.
---@param sequence integer its number
---@param to string the stream
---@return true? moved, string? err it does not wait, or the stream does not take it
function Queue:move(sequence, to)
  sign.own(self, "queue", "move")
  check.integer(sequence, 1, "move: sequence")
  check.string(to, "the name of a stream", "move: to")
  local ok, err = check_messages(self, "move")
  if not ok then return nil, err end
  if not self.move_waiting then
    return nil, "move: only a store moves a message in one step: put it into the other stream, and cancel it here"
  end
  ok, err = self:move_waiting(sequence, to)
  return ok, err
end

function Queue:__tostring()
  return ("queue: %s (%d waiting, %d running)"):format(self.name, self.waiting, self.running)
end

---Why the limit of deliveries of a queue cannot be changed, unless it is that of a source with a name. Stages and runs
---give messages up themselves, as dead letters; what reaches a limit of its queue would only wait for ever.
---@param queue runnel.queue.Queue
---@param what "runs"|"a stage" whose queue it is
---@return string
function queues.has_own_tries(queue, what)
  return ("change: tries: %s is the queue of %s, which would lose messages by a limit of deliveries: change the "
    .. "option tries in the program"):format(queue.name, what)
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
