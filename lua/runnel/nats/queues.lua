---conn:queues: the state of a server's queues and their workers. A queue is a remote stage, or a named consumer of a
---stream, such as a durable stage has.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local health = require "runnel.nats.internal.health"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local reports = require "runnel.queue.report"
local lib = require "runnel.nats.internal.lib"
local names = require "runnel.nats.internal.names"
local shared = require "runnel.queue.queues"
local patience = require "runnel.nats.internal.patience"
local pmap = require "runnel.rn.pmap"
local sign = require "runnel.internal.sign"
local timestamp = require "runnel.nats.internal.timestamp"
local waiting_list = require "runnel.nats.waiting_list"
local who = require "runnel.nats.internal.who"

local queues = {}

-- How many requests to the server are under way at a time.
local AT_ONCE <const> = 8

---@class runnel.nats.Queue: runnel.queue.Queue
---@field protected owner runnel.nats.Connection
local Queue = shared.class {
  find_message = waiting_list.find, read_waiting = waiting_list.read, remove_waiting = waiting_list.remove,
}

-- ---- asking ----

-- Calls f with each element, several at a time.
local function each(list, f)
  local _, err = pmap.pmap_unordered(AT_ONCE, f, list):take() -- f returns nothing
  if err ~= nil then error(err, 0) end
end

-- All elements of a list that the server sends in pages, in the field `field`, and the names of those that have no
-- leader; or nil, err.
local function all_of(conn, verb, field)
  local list, missing = {}, {}
  repeat
    local answer, err = jetstream.request(conn, verb, { offset = #list + #missing })
    if not answer then return nil, err end
    local part, without = answer[field] or {}, answer.missing or {}
    table.move(part, 1, #part, #list + 1, list)
    table.move(without, 1, #without, #missing + 1, missing)
  until #part + #without == 0 or #list + #missing >= (answer.total or 0)
  return list, missing
end

-- Asks all workers and stages. Returns a function that waits for the answers, and returns a list for each queue's name,
-- and a list of silent readers.
local function ask_all(conn, ms, question)
  local inbox, found, silent, quiet = conn:inbox(), {}, {}, core.timeout(ms or patience.workers_answer)
  local ended = core.chan()
  local ch, err = conn:subscribe(inbox, { encoding = "raw" }, function(data, _, _, _, status)
    local report = data ~= "" and json.decode(data)
    if status then ended:close() end -- no worker answers
    if type(report) ~= "table" or type(report.members) ~= "table" then return end
    for _, member in ipairs(report.members) do
      if not reports.is_report(member) then break end
      member.host, member.pid, member.program = report.host, report.pid, report.program
      local list = found[member.queue] or {}
      found[member.queue], list[#list + 1] = list, member
    end
    for _, one in ipairs(type(report.silent) == "table" and report.silent or {}) do
      one.host, one.pid, one.program = report.host, report.pid, report.program
      silent[#silent + 1] = one
    end
  end)
  if not ch then return nil, err end
  conn:publish(who.SUBJECT, question and assert(json.encode(question)) or "", { encoding = "raw", reply = inbox })
  return function()
    core.alts { ended, quiet }
    ch:close()
    for _, list in pairs(found) do shared.sort_workers(list) end
    shared.sort_workers(silent)
    return found, silent
  end
end

-- ---- times ----

-- The age in ms of a server's timestamp, by this machine's clock.
local function age(text)
  local time = timestamp.ms(text)
  return time and math.max(0, lib.time() - time)
end

-- ---- one queue ----

-- The age of the first unfinished message of a consumer whose stream has other messages, too.
local function oldest_message(conn, queue, info, state)
  local first = math.max((info.ack_floor and info.ack_floor.stream_seq or 0) + 1, state.first_seq)
  if first > state.last_seq then return nil end
  local filter = info.config.filter_subject
  local answer = jetstream.request(conn, "STREAM.MSG.GET." .. queue.stream, {
    seq = first, next_by_subj = filter ~= nil and filter ~= "" and filter or ">",
  })
  return answer and answer.message and age(answer.message.time)
end

-- Fills in the fields that the consumer's information has.
local function count(conn, queue, info, state)
  queue.waiting, queue.running = info.num_pending or 0, info.num_ack_pending or 0
  queue.redelivered, queue.paused = info.num_redelivered or 0, who.is_paused(info.config)
  if queue.kind == "jobs" then
    queue.done = math.max(0, (state.last_seq or 0) - (state.messages or 0))
    if state.messages > 0 then queue.oldest = age(state.first_ts) end
  else
    -- The consumer counts each delivery; the stream counts each message, also those that are not for the consumer.
    local delivered = info.delivered or {}
    queue.done = math.max(0, math.min(delivered.consumer_seq or 0, delivered.stream_seq or 0) - queue.running)
    if queue.waiting + queue.running > 0 then queue.oldest = oldest_message(conn, queue, info, state) end
  end
end

local function new_queue(conn, name, kind, info, consumer)
  return setmetatable({
    owner = conn, name = name, kind = kind, stream = info.config.name, consumer = consumer, waiting = 0, running = 0,
    unused = age(info.state.last_ts) or age(info.created) or 0,
    redelivered = 0, given_up = 0, done = 0, paused = false, workers = {}, counted_at = core.now(),
  }, Queue)
end

-- The queues of a stream, without workers and dead letters.
local function queues_of(conn, stream, list, groups)
  local name, state = stream.config.name, stream.state
  local stage = names.stage_of(name)
  local consumers = state.consumer_count > 0 and all_of(conn, "CONSUMER.LIST." .. name, "consumers") or {}
  for _, info in ipairs(consumers) do groups:add(info.cluster) end
  if stage then
    local queue = new_queue(conn, stage, "jobs", stream, names.CONSUMER)
    queue.waiting = state.messages
    if state.messages > 0 then queue.oldest = age(state.first_ts) end
    for _, info in ipairs(consumers) do
      if info.name == names.CONSUMER then count(conn, queue, info, state) end
    end
    list[#list + 1] = queue
    return
  end
  for _, info in ipairs(consumers) do
    if info.config.durable_name then
      local queue = new_queue(conn, name .. "/" .. info.name, "messages", stream, info.name)
      count(conn, queue, info, state)
      list[#list + 1] = queue
    end
  end
end

-- Whether a stream is internal to the library.
local function is_own(name) return name:find "^runnel%-%l+%-" and not names.stage_of(name) or name:find "^KV_" end

-- The name of the stage whose dead letters are those of a queue.
local function stage_of(queue) return queue.kind == "jobs" and queue.name or queue.consumer end

-- Fills in how many dead letters each queue has, by the numbers of letters in the streams of names. Only where queues
-- share a name are the letters read, since that takes time; so a queue alone also counts those of a deleted one.
local function count_letters(list, letters)
  local sharing = {}
  for _, queue in ipairs(list) do
    local name = stage_of(queue)
    queue.given_up, sharing[name] = letters[name] or 0, (sharing[name] or 0) + 1
  end
  for _, queue in ipairs(list) do
    if queue.given_up > 0 and sharing[stage_of(queue)] > 1 then
      local own, err = queue:dead():count()
      if not own then return nil, err end
      queue.given_up = own
    end
  end
  return true
end

---All queues of the server (of the account), sorted by name: a table for each. Waits up to `ms` for the programs'
---answers about their workers; later answers are missing. The field `silent` of the list has the sources, stages and
---workers that hear nothing; nil if there are none.
---@param conn runnel.nats.Connection
---@param ms? number how long to wait for them (500)
---@return runnel.queue.List? queues, string? err
function queues.queues(conn, ms)
  sign.own(conn, "conn", "queues")
  if ms ~= nil then check.ms(ms, 1, "queues: ms") end
  local answers, problem = ask_all(conn, ms)
  if not answers then return nil, problem end
  local streams, err = all_of(conn, "STREAM.LIST", "streams")
  if not streams then return nil, err --[[@as string]] end
  local list, letters, groups, account = {}, {}, health.new(), {}
  list.leaderless = err[1] and err or nil
  streams[#streams + 1] = account -- asked beside the streams
  each(streams, function(stream)
    if stream == account then
      list.storage = health.storage(conn, ms or patience.workers_answer)
      return
    end
    local name = stream.config.name
    groups:add(stream.cluster)
    local stage = names.dead_of(name)
    if stage then letters[stage] = stream.state.messages end
    if not is_own(name) then queues_of(conn, stream, list, groups) end
  end)
  local workers, silent = answers()
  list.silent = silent[1] and silent or nil
  list.servers = groups:list()
  for _, queue in ipairs(list) do queue.workers = workers[queue.name] or {} end
  local ok, why = count_letters(list, letters)
  if not ok then return nil, why end
  return shared.complete(conn, list)
end

---Finds a queue by its name: NAME of a remote stage, STREAM/CONSUMER, or CONSUMER if it is unique.
---@param conn runnel.nats.Connection
---@param name string
---@return runnel.nats.Queue? queue, string? err
function queues.queue(conn, name)
  sign.own(conn, "conn", "queue")
  check.string(name, "a name", "queue: name")
  local list, err = queues.queues(conn)
  if not list then return nil, err end
  return shared.find(list, name, "the server")
end

-- ---- changing ----

-- Changes settings of a queue's consumer, given in the server's words. True, or nil and the reason.
local function change_consumer(queue, changes)
  local verb = ("%s.%s"):format(queue.stream, queue.consumer)
  local info, err, code = jetstream.request(queue.owner, "CONSUMER.INFO." .. verb)
  if code == jetstream.NO_CONSUMER then
    return nil, ("the queue %q has no consumer yet: no worker has ever worked on it"):format(queue.name)
  end
  if not info then return nil, err end
  local config = info.config
  for key, value in pairs(changes) do config[key] = value end
  local answer, why = jetstream.request(queue.owner, "CONSUMER.DURABLE.CREATE." .. verb,
    { stream_name = queue.stream, config = config })
  if not answer then return nil, why end
  return true
end

function Queue:store_paused(is_paused)
  local ok, err = change_consumer(self, { description = is_paused and who.PAUSED or "" })
  return ok, err
end

function Queue:ask(ms)
  local answers, err = ask_all(self.owner, ms, { queue = self.name, paused = self.paused })
  if not answers then return nil, err end
  return answers()
end

local COUNT <const>, MS <const> = check.kinds.integer(1), check.kinds.ms(10)
local JOBS <const> = { replicas = COUNT, max_age = MS, ack_wait = MS, max_running = COUNT }
local MESSAGES <const> = { ack_wait = MS, max_running = COUNT, tries = check.kinds.integer(0) }

---Changes settings on the server. Programs with the old settings in their code then fail to start: change them as well.
---@param opts { replicas?: integer, max_age?: number, ack_wait?: number, max_running?: integer, tries?: integer }
---replicas, max_age, ack_wait and max_running for a remote stage; for others ack_wait and max_running, and for sources
---with a name tries, 0: without a limit
---@return true? ok, string? err
function Queue:change(opts)
  sign.own(self, "queue", "change")
  local is_jobs = self.kind == "jobs"
  check.table(opts, "change: options")
  check.options(opts, is_jobs and JOBS or MESSAGES, "change")
  if (opts.tries or 0) > 0 and self.workers[1] then return nil, shared.has_own_tries(self, "a stage") end
  if opts.replicas or opts.max_age then
    local ok, err = jetstream.change_stream(self.owner, self.stream, {
      num_replicas = opts.replicas, max_age = opts.max_age and jetstream.ns(opts.max_age),
    })
    if not ok then return nil, err end
  end
  if not (opts.ack_wait or opts.max_running or opts.tries) then return true end
  return change_consumer(self, {
    ack_wait = opts.ack_wait and jetstream.ns(opts.ack_wait), max_ack_pending = opts.max_running,
    max_deliver = opts.tries == 0 and -1 or opts.tries,
  })
end

---Deletes the queue: a remote stage with its jobs, or a consumer, whose messages stay in the stream. Dead letters stay.
---@return true? ok, string? err
function Queue:delete()
  sign.own(self, "queue", "delete")
  local verb = self.kind == "jobs" and "STREAM.DELETE." .. self.stream
    or ("CONSUMER.DELETE.%s.%s"):format(self.stream, self.consumer)
  local answer, err = jetstream.request(self.owner, verb)
  if not answer then return nil, err end
  if self.kind == "jobs" then jetstream.request(self.owner, "STREAM.DELETE.KV_" .. names.bucket(self.name)) end
  return true
end

return queues
