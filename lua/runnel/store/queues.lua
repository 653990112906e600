---The queues of a store for operators, as those of a connection (runnel.nats.queues): the consumers of its streams.

local check = require "runnel.internal.check"
local clock = require "runnel.store.clock"
local consumers = require "runnel.store.consumer"
local core = require "runnel.core"
local jobs = require "runnel.store.jobs"
local json = require "runnel.json"
local reports = require "runnel.queue.report"
local run_table = require "runnel.store.runs.run_table"
local shared = require "runnel.queue.queues"
local sign = require "runnel.internal.sign"
local streams = require "runnel.store.stream"
local waiting_list = require "runnel.store.waiting_list"

local queues = {}

-- How long it waits for reports of workers, and how often it looks, in ms.
local ANSWER <const>, LOOK <const> = 500, 10

-- More messages than this that were not delivered are not counted one by one.
local COUNTED <const> = 100000

local LIST <const> = ([[
select c.*, s.last, s.made as stream_made,
  (select count(*) from runnel_delivery where stream = c.stream and consumer = c.name) as deliveries,
  (select count(*) from runnel_delivery where stream = c.stream and consumer = c.name
    and holder is not null) as running,
  (select count(*) from runnel_delivery where stream = c.stream and consumer = c.name and holder is not null
    and deliveries > 1) as redelivered,
  (select count(*) from runnel_dead d where d.name = case c.stream when 'runnel-jobs-' || substr(c.stream, 13)
    then substr(c.stream, 13) else c.name end and coalesce(d.stream, c.stream) = c.stream) as given_up,
  (select count(*) from (select 1 from runnel_message m where $NEW limit $COUNTED)) as new,
  (select made from runnel_message m where $NEW order by m.seq limit 1) as oldest_new,
  (select made from runnel_message where stream = c.stream and seq = (select min(seq) from runnel_delivery
    where stream = c.stream and consumer = c.name)) as oldest_delivered,
  (select made from runnel_message where stream = c.stream order by seq desc limit 1) as newest
from runnel_consumer c join runnel_stream s on s.name = c.stream]])
  :gsub("%$NEW", [[m.stream = c.stream and m.seq >= c.next and (m.priority = 0 or m.seq <= c.since)
    and (c.subject is null or runnel_matches(m.subject, c.subject))]]):gsub("%$COUNTED", COUNTED)

-- The workers that have been asked and have not told.
local SILENT <const> = "select count(*) as n from runnel_worker w join runnel_consumer c on c.stream = w.stream "
  .. "and c.name = w.consumer where w.report is not null and w.told < c.asked"

local WORKERS <const> = "select w.holder, w.stream, w.consumer, w.report from runnel_worker w join runnel_consumer c "
  .. "on c.stream = w.stream and c.name = w.consumer where w.report <> '{}' and w.told >= c.asked"

---@class runnel.store.Queue: runnel.queue.Queue
---@field protected owner runnel.store.Store
local Queue = shared.class {
  find_message = waiting_list.find, read_waiting = waiting_list.read, remove_waiting = waiting_list.remove,
  move_waiting = waiting_list.move,
}

-- The name of a queue, and its kind.
local function name_of(stream, consumer)
  local stage = consumer == jobs.CONSUMER and jobs.stage_of(stream)
  if stage then return stage, "jobs" end
  return stream .. "/" .. consumer, "messages"
end

-- Asks the workers for reports, and waits until all have told, for at most `ms`. Returns the reports by queue; or nil,
-- err.
local function ask(store, ms)
  ms = ms or ANSWER
  local ok, err = store:attempt("exec", "update runnel_consumer set asked = max(asked + 1, ?)", store:time())
  if not ok then return nil, err end
  store:ring()
  local deadline = core.now() + ms
  repeat
    local rows, problem = store:attempt("rows", SILENT)
    if not rows then return nil, problem end
    if rows[1].n == 0 then break end
    core.sleep(LOOK)
  until core.now() >= deadline
  local rows, why = store:attempt("rows", WORKERS)
  if not rows then return nil, why end
  local found = {}
  for _, row in ipairs(rows) do
    local report = type(row.report) == "string" and json.decode(row.report)
    local name = name_of(row.stream, row.consumer)
    local host, pid = tostring(row.holder):match "^(.*):(%d+):"
    if host and reports.is_report(report) then
      report.host, report.pid, found[name] = host, math.tointeger(pid) or 0, found[name] or {}
      table.insert(found[name], report)
    end
  end
  for _, list in pairs(found) do shared.sort_workers(list) end
  return found
end

local function queue_of(store, row, workers)
  local now, name, kind = store:time(), name_of(row.stream, row.name)
  local new = row.new < COUNTED and row.new or row.last - row.next + 1
  local oldest = math.min(row.oldest_new or math.huge, row.oldest_delivered or math.huge)
  return setmetatable({
    owner = store, name = name, kind = kind, stream = row.stream, consumer = row.name,
    waiting = new + row.deliveries - row.running, running = row.running, redelivered = row.redelivered,
    given_up = row.given_up, done = math.max(0, row.delivered - row.deliveries),
    oldest = oldest < math.huge and math.max(0, now - oldest) or nil,
    unused = math.max(0, now - (row.newest or row.stream_made)),
    paused = row.paused == 1 and not (row.resumes and row.resumes <= now),
    resumes = row.paused == 1 and row.resumes and row.resumes > now and row.resumes or nil,
    workers = workers[name] or {}, counted_at = core.now(),
  }, Queue)
end

---All queues of the store, sorted by name. Waits up to `ms` for the programs' reports about their workers; later ones
---are missing.
---@param store runnel.store.Store
---@param ms? number how long to wait for them (500)
---@return runnel.store.Queue[]? queues, string? err
function queues.queues(store, ms)
  if ms ~= nil then check.ms(ms, 1, "queues: ms") end
  local rows, err = store:attempt("rows", "select stream, name from runnel_consumer")
  if not rows then return nil, err end
  for _, row in ipairs(rows) do
    local ok, problem = consumers.take_back(store, row.stream, row.name)
    if not ok then return nil, problem end
  end
  local workers, why = ask(store, ms)
  if not workers then return nil, why end
  rows, err = store:attempt("rows", LIST)
  if not rows then return nil, err end
  for i, row in ipairs(rows) do rows[i] = queue_of(store, row, workers) end
  return shared.complete(store, rows)
end

---Finds a queue by its name: STREAM/CONSUMER, or CONSUMER if it is unique.
---@param store runnel.store.Store
---@param name string
---@return runnel.store.Queue? queue, string? err
function queues.queue(store, name)
  check.string(name, "a name", "queue: name")
  local list, err = queues.queues(store)
  if not list then return nil, err end
  return shared.find(list, name, "the store")
end

-- ---- changing ----

-- Changes a column of the consumer, or several. True, or nil and the reason.
local function change(queue, columns, ...)
  local sql = ("update runnel_consumer set %s where stream = ?1 and name = ?2"):format(columns)
  local ok, err = queue.owner:attempt("exec", sql, queue.stream, queue.consumer, ...)
  if ok == 0 then return nil, "consumer not found" end
  if not ok then return nil, err end
  return true
end

Queue.can_resume = true

function Queue:store_paused(is_paused, ms)
  local resumes = ms and self.owner:after(ms)
  if resumes then self.owner:note_time() end
  local ok, err = change(self, "resumes = ?3, paused = ?4", resumes, is_paused and 1 or 0)
  if ok then self.resumes = resumes end
  return ok, err
end

function Queue:ask(ms)
  local workers, err = ask(self.owner, ms)
  return workers, err
end

local COUNT <const> = check.kinds.integer(1)
local MESSAGES <const> = { ack_wait = check.kinds.ms(10), max_running = COUNT, tries = check.kinds.integer(0) }
local JOBS <const> = { max_running = COUNT }
local COLUMNS <const> = { ack_wait = "ack_wait", max_running = "max_pending", tries = "tries" }

-- Sources make no reports.
local IS_OF_STAGE <const> = "select 1 from runnel_worker where stream = ? and consumer = ? and report is not null"

---Changes settings of the consumer. Programs with the old settings in their code then fail to start: change them as
---well.
---@param opts { max_running?: integer, ack_wait?: number, tries?: integer } of a remote stage only max_running;
---`tries` of sources with a name, 0: without a limit
---@return true? ok, string? err
function Queue:change(opts)
  sign.own(self, "queue", "change")
  check.table(opts, "change: options")
  check.options(opts, self.kind == "jobs" and JOBS or MESSAGES, "change")
  if (opts.tries or 0) > 0 then
    if run_table.is_stream(self.stream) then return nil, shared.has_own_tries(self, "runs") end
    local rows, err = self.owner:attempt("rows", IS_OF_STAGE, self.stream, self.consumer)
    if not rows then return nil, err end
    if rows[1] then return nil, shared.has_own_tries(self, "a stage") end
  end
  for option, value in pairs(opts) do
    local ok, err = change(self, COLUMNS[option] .. " = nullif(?3, 0)", clock.setting(value))
    if not ok then return nil, err end
  end
  return true
end

---Deletes the queue: a remote stage with its jobs, or a consumer, whose messages stay in the stream. Dead letters
---stay.
---@return true? ok, string? err
function Queue:delete()
  sign.own(self, "queue", "delete")
  if self.kind == "jobs" then
    local found, problem = streams.open(self.owner, self.stream)
    if not found then return nil, problem end
    return found:delete()
  end
  local ok, err = streams.delete_consumer(self.owner, self.stream, self.consumer)
  return ok, err
end

return queues
