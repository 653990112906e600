---What a process has of the runs of a name that it continues: the task of a worker (runnel.queue.worker), which calls
---the function of each run that has something to do; and a go block that looks for signals while runs wait.

local by_key = require "runnel.store.by_key"
local core = require "runnel.core"
local gather = require "runnel.store.gather"
local guard = require "runnel.internal.guard"
local hand_back = require "runnel.queue.hand_back"
local letters = require "runnel.store.dead"
local looking = require "runnel.store.looking"
local messages = require "runnel.store.message"
local problems = require "runnel.store.problems"
local process = require "runnel.store.store_process"
local run_context = require "runnel.store.runs.run_context"
local results = require "runnel.store.runs.run_results"
local run_doing = require "runnel.store.runs.run_doing"
local run_steps = require "runnel.store.runs.run_steps"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"

local internal = core.internal
local chan = core.chan

-- How often it looks for signals of other processes while runs wait, in ms.
local LOOKS_AGAIN <const> = 100

local NOWHERE <const> = {}

local run_work = {}

-- ---- their rows ----

-- Runs with what is to be known of them before they are called: most have no steps yet.
local LOAD <const> = [[
with asked(place, name, id, scope) as (values $ROWS)
select a.place, r.id, r.seq, r.form, r.value, r.state, r.since, r.step, r.line, r.note, r.cancelled, r.parent,
  exists (select 1 from runnel_once where scope > a.scope || ' > ' and scope < a.scope || ' >!') as has_steps,
  exists (select 1 from runnel_signal where name = a.name and id = a.id and signal = '') as is_cancelled
  from asked a join runnel_run r on r.name = a.name and r.id = a.id]]

local function add(all, at, of) all[at + 1], all[at + 2], all[at + 3] = of.name, of.column, of.scope end

-- Reads the rows of runs.
local function read(store, kept, list)
  local rows, problem = store:attempt("rows", gather.statement(kept, LOAD, 3, list, add))
  if not rows then return nil, problem end
  local answers = {}
  for _, row in ipairs(rows) do answers[row.place] = row end
  return answers
end

-- ---- the task of a worker ----

---@class runnel.store.RunWork: runnel.queue.Task
---@field store runnel.store.Store
---@field name string of the runs
---@field f fun(run: runnel.store.RunContext, argument: any): any
---@field limits runnel.queue.Limits
---@field key? fun(argument: any): any
---@field is_limited? boolean there is a limit for the runs in all processes
---@field is_draining? boolean
---@field doing runnel.store.RunDoing the steps that are being done
---@field private runs table<string, runnel.store.RunSteps> those in memory, by their scopes
---@field private rows runnel.store.Gather reads the rows of runs
---@field private bell runnel.Channel<boolean>
---@field private last integer the last signal that it has seen
---@field NOT_STORED string how the report begins that the file cannot be written for now
local Work = { what = "runs", unit = "run", NOT_STORED = "results cannot be stored for now: " }
Work.__index = Work

---@param store runnel.store.Store
---@param name string
---@param f function
---@param opts { limits: runnel.queue.Limits, key?: function, max_running?: integer }
---@return runnel.store.RunWork
function run_work.new(store, name, f, opts)
  local kept = {}
  local self = setmetatable({
    store = store, name = name, f = f, limits = opts.limits, key = opts.key,
    is_limited = opts.max_running ~= nil, runs = {}, bell = chan(core.sliding_buffer(1)), last = 0,
    rows = gather.new(store, function(list) return read(store, kept, list) end),
  }, Work)
  self.doing = run_doing.new(self)
  return self
end

-- ---- signals ----

---Whether runs may wait for the place of another one.
---@return boolean
function Work:is_full() return self.is_limited or self.worker:room() <= 0 end

---A run waits: signals are to be looked for.
function Work:watch() self.bell:put(true) end

---Signals may have come.
Work.hear = Work.watch

local function waits(self)
  for _, run in pairs(self.runs) do
    if run.waiters[1] then return true end
  end
  return false
end

-- Tells the runs of the signals that have come since.
local function look(self)
  local rows = self.store:attempt("rows", table_of.NEWER, self.name, self.last)
  local is_full = self:is_full()
  for _, row in ipairs(rows or {}) do
    self.last = row.seq
    local _, scope = table_of.key(self.name, row.id)
    local run = self.runs[scope]
    if run and row.signal == table_of.CANCEL then run:look_for_cancel() end
    if run then run:ring() end
  end
  if not is_full then return end
  for _, run in pairs(self.runs) do run:ring() end -- those that wait leave
end

---Looks for signals until the worker has ended.
function Work:follow()
  local file <close> = looking.new(self.store, self.bell)
  while not self.is_over and not self.store.is_closed do
    if waits(self) then file:wait(LOOKS_AGAIN) else self.bell:take() end
    if not self.is_over and not self.store.is_closed then look(self) end
  end
end

---The program ends: runs leave when their steps have ended.
function Work:drain()
  self.is_draining = true
  for _, run in pairs(self.runs) do run:drain() end
end

---The worker has ended.
function Work:close()
  self.is_over = true
  self.doing:close()
  self.store.functions[self.name] = nil
  self.store:forget_reader(self)
  self.bell:put(true)
  internal.trace.release "c"
end

-- ---- calls ----

function Work:read() return { limits = self.limits } end

-- Notes that a run is not in memory any more.
local Loaded = { __close = function(self)
  local run = self.run
  if run.work.runs[run.scope] == run then run.work.runs[run.scope] = nil end
  run.is_over = true
  run:cancel_blocks()
end }

-- The run of a message; nil if the message is an old one.
local function load(self, message)
  local id = message.value
  if type(id) ~= "string" and type(id) ~= "number" then return nil end
  local column, scope = table_of.key(self.name, id)
  local row, problem = self.rows:get { name = self.name, column = column, scope = scope }
  if problem then hand_back.hand_back(tostring(problem)) end
  if not row then return nil end
  if row.seq ~= message.sequence then -- a replay of its dead letter, by a program that has not noted that
    if row.state ~= "failed" then return nil end
    local changed, why = self.store:attempt("exec", table_of.REPLAY, table_of.replay(self.name, id, message.sequence,
      self.store:time()))
    if not changed then hand_back.hand_back(tostring(why)) end
    if changed == 0 then return load(self, message) end -- it was started again meanwhile
  end
  return run_steps.new(self, row, column, scope)
end

-- Whether an error is the reason for which the run was cancelled: the text itself, or behind the position that `error`
-- adds, or with a traceback. An error that only contains it is one like others, so that its step is tried again.
local function is_reason(err, reason)
  if reason == nil or type(err) ~= "string" then return false end
  local text = err:match "^(.-)\nstack traceback:\n" or err
  local before = #text - #reason
  return text:sub(before + 1) == reason and (before == 0 or text:sub(1, before):find "^[^\n]+:%d+: $" ~= nil)
end

---Calls the function of a run, and returns the outcome.
---@param self runnel.store.RunWork
---@param run runnel.store.RunSteps
---@return table outcome
function run_work.call(self, run)
  local ran = table.pack(guard.try(function()
    local argument = table_of.value(run.row.form, run.row.value)
    if self.key then by_key.of(self.key, argument) end -- fails if it has none
    local result, err = self.f(run_context.new(run), argument)
    if result == nil and err ~= nil then error(err, 0) end
    run:check_end()
    return result
  end))
  if run:has_left() then return { n = 0, left = true } end
  if run.blocked and run.cancels then return { n = 0, cancelled = run.cancels } end
  if run.blocked then return { n = 0, failed = true, blocked = true, err = run.blocked } end
  if ran[1] then return { n = 1, ran[2] } end
  if is_reason(ran[2], run.row.cancelled) then return { n = 0, cancelled = run.row.cancelled } end
  return { n = 0, failed = true, err = ran[2], traceback = ran[3] }
end

-- Says in the row of a run why it has failed. If that cannot be stored, it is only not shown.
local function note_failure(self, run, outcome)
  local at = run:place_of(outcome.err)
  run.failed_at = at
  if not outcome.blocked then
    local of = { scope = run.scope, name = "", key = "", text = '""', step = run.number + 1 }
    pcall(run.note_try, run, of, outcome.err)
  end
  self.store:attempt("exec", table_of.FAILED, self.name, run.id, outcome.blocked and "blocked" or "retrying",
    self.store:time(), at.step, at.line, internal.error_text(outcome.err))
end

function Work:run(call)
  local last = self.last
  local run = load(self, call.message)
  if not run then return { n = 0, is_old = true } end
  local work <close> = messages.begin(call.message) -- luacheck: ignore 211
  run.call, call.run, run.block, self.runs[run.scope] = call, run, steps.block(), run
  local loaded <close> = setmetatable({ run = run }, Loaded) -- luacheck: ignore 211
  run:load(self.last ~= last) -- `look` knew nothing of it meanwhile
  if run.cancels and not run:has_begun() then return { n = 0, cancelled = run.cancels } end
  run_steps.set_context(run) -- the go blocks that it starts inherit it
  local outcome = run_work.call(self, run)
  run_steps.set_context(nil)
  if outcome.failed then
    run:forget_failure(outcome.err)
    note_failure(self, run, outcome)
  end
  if outcome.blocked or outcome.failed and problems.is_for_now(outcome.err, self.store.path) then
    hand_back.hand_back((internal.error_text(outcome.err)))
  end
  return outcome
end

function Work:value(call) -- luacheck: no self
  local ok, value = pcall(function() return call.message.value end)
  return ok and value or call.message.data
end

function Work:last_words() end -- luacheck: no self

function Work:silent(starts)
  return ("run %s: it was given up: its process ended at each of %d starts"):format(self.name, starts)
end

-- ---- ends ----

-- The statements that end the delivery of a run and store its outcome, with their values.
local function ending(keeper, call, state, outcome, data, text)
  local work, message = keeper.work, call.message
  local name, time, run = work.name, work.store:time(), call.run
  local id = run and run.id or table_of.key(name, message.value)
  local at = state == "failed" and run and run.failed_at or NOWHERE
  local sql, stream, seq, consumer, holder, claim = keeper.consumer:end_of(message)
  return sql .. table_of.RESULT, stream, seq, consumer, holder, claim,
    name, id, outcome.failed, outcome.form, data, time,
    name, id, state, time, at.step, at.line, text, name, id, state
end

-- Lets a run wait without this process.
local function leave(keeper, call)
  local work, message, run = keeper.work, call.message, call.run
  local store, waits_at = work.store, run.waits
  local due = run.left < table_of.NEVER and run.left or nil
  message.leaves = true
  local stream, seq, consumer, holder, claim = keeper.consumer:delivery_of(message)
  return store:attempt("exec", table_of.LEAVE, stream, seq, consumer, holder, claim,
    work.name, run.id, run.seen, store:time(), run.left,
    work.name, run.id, waits_at.state, store:time(), due, waits_at.step, waits_at.line)
end

-- Stores the outcome of a call: its result, or that it goes on later.
local function end_run(keeper, call, outcome)
  local store, message = keeper.work.store, call.message
  local ok, problem
  if outcome.left then
    ok, problem = leave(keeper, call)
  else
    local form, data, entry = values.encode(outcome.cancelled or outcome[1], "the result")
    if not form then return nil, data, false end
    call.ended = { failed = outcome.cancelled and 1 or 0, form = form, value = values.bytes(data), entry = entry }
    ok, problem = store:attempt("exec", ending(keeper, call, outcome.cancelled and "cancelled" or "done", call.ended,
      data, outcome.cancelled))
  end
  if not ok then return nil, problem, problems.may_pass(problem) and not store.is_closed end
  messages.answer(message)
  return true
end

-- Stores something of a run that goes on.
local function write(keeper, kind, ...)
  local store = keeper.work.store
  local result, problem = store:attempt(kind, ...)
  if result then return result, problem end
  return nil, problem, problems.is_for_now(problem, store.path)
end

-- Tells who waits for a run how it has ended.
local function tell(self, scope, call)
  results.of(self.store):tell(scope, call.ended)
  local parent = call.run and call.run.row.parent
  if parent then self.store:ring(table_of.signals(parent)) end
  self.store:ring("schedule " .. self.name) -- of which a start may wait for the end
end

-- Stores the error of a run that has failed for good, and its dead letter.
local function fail_run(keeper, call, err, letter)
  local store, form, data, entry = keeper.work.store, values.encode(err, "the error")
  if not form then form, data, entry = values.encode(letter.error, "the error") end
  call.ended = { failed = 1, form = form, value = values.bytes(data), entry = entry }
  local ok, problem = pcall(store.db.transaction, store.db, function(tx)
    if tx:exec(ending(keeper, call, "failed", call.ended, data, letter.error)) == 0 then return end -- another has it
    local stored, why = letters.store(store, letter, tx)
    if not stored then error(why, 0) end
  end)
  if ok then
    messages.answer(call.message)
    return true
  end
  if internal.is_cancelled(problem) then error(problem, 0) end
  return nil, tostring(problem), problems.may_pass(problem) and not store.is_closed
end

function Work:done(call, outcome)
  if outcome.is_old then
    self.worker.keeper:drop(call.message)
    return true
  end
  local ok, why = self.worker:store(self.NOT_STORED, "end_run", call, outcome)
  if not ok then return nil, why end
  if outcome.left then
    self.worker.counts.done = self.worker.counts.done - 1
  else
    tell(self, call.run.scope, call)
  end
  return true
end

function Work:give_up(call, err, trace)
  local message, count, worker = call.message, call.count, self.worker
  local story = call.run and call.run:story()
  story = story and trace and story .. "\n" .. trace or story or trace
  local letter = {
    kind = "message", name = self.name, data = message.data, encoding = message.form, headers = message.headers,
    id = worker.keeper:id(message), error = internal.error_text(err), traceback = story, starts = count.starts,
    raises = count.raises, errors = count.errors, since = message.time, subject = message.subject,
    position = message.sequence, priority = message.priority, from = table_of.stream(self.name),
    worker = ("%s:%d"):format(process()),
  }
  local ok, why = worker:store(self.NOT_STORED, "fail_run", call, err, letter)
  local _, scope = table_of.key(self.name, message.value)
  if not ok then
    internal.report("the failure of a run cannot be stored: " .. tostring(why), nil, "run " .. scope)
    return false
  end
  internal.report(err, trace, ("run %s, which has failed for good"):format(scope))
  worker.counts.given_up = worker.counts.given_up + 1
  tell(self, scope, call)
  return true
end

---Makes a keeper of messages one of runs.
---@param keeper runnel.store.Keeper
---@return runnel.store.Keeper
function Work:own(keeper)
  keeper.work, keeper.end_run, keeper.fail_run, keeper.write = self, end_run, fail_run, write
  return keeper
end

return run_work
