---Waits for the results of runs. A run that this process ends tells those who wait for it; for runs that other
---processes end, one go block looks again and again, for all that wait in this process.

local core = require "runnel.core"
local gather = require "runnel.store.gather"
local guard = require "runnel.internal.guard"
local looking = require "runnel.store.looking"
local values = require "runnel.store.values"

local internal = core.internal
local alts, chan, take = core.alts, core.chan, internal.moving.take

local run_results = {}

-- How often it looks whether other processes have stored something, in ms: at first, and at most. A process that
-- continues the runs itself has mostly ended them, and knows that at once.
local SOON <const>, LATER <const> = 5, 100

---How a run has ended.
---@class runnel.store.RunOutcome
---@field failed integer 1: the value is an error
---@field form string
---@field value any
---@field entry? runnel.store.Entry of the value

---@class runnel.store.RunWaiting
---@field ref runnel.store.RunRef
---@field over runnel.Channel<any> closes when there is an outcome, or an error
---@field outcome? runnel.store.RunOutcome
---@field err? any

---@class runnel.store.RunResults
---@field private store runnel.store.Store
---@field private ends runnel.store.Gather
---@field private waiting table<string, runnel.store.RunWaiting[]> by the scopes of runs
---@field private bell runnel.Channel<boolean>
---@field private is_looking boolean
---@field private pause number ms until it looks again
---@field private version? integer of the file, when it last looked
local Results = {}
Results.__index = Results

-- ---- asking ----

local ENDS <const> = [[
with asked(place, name, id) as (values $ROWS)
select a.place, r.state, o.failed, o.form, o.value from asked a
  left join runnel_run r on r.name = a.name and r.id = a.id
  left join runnel_once o on o.scope = '' and o.name = r.name and o.key = r.id
  where r.state is null or r.state in ('done', 'failed', 'cancelled')]]

local function add(all, at, ref) all[at + 1], all[at + 2] = ref.name, ref.column end

-- The rows of those that have ended, or do not exist.
local function ask(store, kept, refs)
  local rows, err = store:attempt("rows", gather.statement(kept, ENDS, 2, refs, add))
  if not rows then return nil, err end
  local answers = {}
  for _, row in ipairs(rows) do answers[row.place] = row end
  return answers
end

-- The outcome in a row; nil, err if there is none.
local function outcome_of(ref, row)
  if not row.state then return nil, ("there is no run %s"):format(ref.scope) end
  if not row.form then return nil, ("the result of the run %s was forgotten"):format(ref.scope) end
  return row
end

---How a run has ended; nil if it has not; nil, err if there is no such run. Parks.
---@param ref runnel.store.RunRef
---@return runnel.store.RunOutcome? outcome, any err
function Results:outcome(ref)
  local row, err = self.ends:get(ref)
  if not row then return nil, err end
  return outcome_of(ref, row)
end

-- ---- telling ----

local function tell(waiter, outcome, err)
  waiter.outcome, waiter.err = outcome, err
  waiter.over:close()
end

---This process has ended a run.
---@param scope string
---@param outcome runnel.store.RunOutcome
function Results:tell(scope, outcome)
  for _, waiter in ipairs(self.waiting[scope] or {}) do tell(waiter, outcome) end
end

-- ---- looking ----

-- Those who wait, in the same order in each run of a simulation.
local function all(self)
  local waiters = {}
  for _, list in pairs(self.waiting) do table.move(list, 1, #list, #waiters + 1, waiters) end
  table.sort(waiters, function(a, b) return a.ref.scope < b.ref.scope end)
  return waiters
end

local VERSION <const> = "select data_version as version from pragma_data_version"

-- Looks whether other processes have ended runs, if they have stored anything.
local function look(self)
  local rows, problem = self.store:attempt("rows", VERSION)
  local version = rows and rows[1].version
  if version and version == self.version then return end
  local waiters, refs, answers = all(self), {}, nil
  for i, waiter in ipairs(waiters) do refs[i] = waiter.ref end
  if version then answers, problem = self.ends:all(refs) end
  for i, waiter in ipairs(waiters) do
    local row = answers and answers[i]
    if row then tell(waiter, outcome_of(waiter.ref, row)) elseif not answers then tell(waiter, nil, problem) end
  end
  self.version = answers and version
end

-- As long as a go block waits.
local function follow(self)
  internal.trace.set_context(nil) -- it is not a part of what the go block does that waits first
  local file <close> = looking.new(self.store, self.bell)
  self.store:add_reader("results", self)
  while next(self.waiting) do
    file:wait(self.pause)
    self.pause = math.min(1.5 * self.pause, LATER)
    if next(self.waiting) then look(self) end
  end
  self.is_looking = false
  self.store:forget_reader(self)
end

---The first go block waits, or the last one does not any more, or the store was closed.
function Results:hear() self.bell:put(true) end

-- ---- waiting ----

local Waiting = { __close = function(self)
  local of, waiter = self.of, self.waiter
  local list = of.waiting[waiter.ref.scope]
  for i, other in ipairs(list) do
    if other == waiter then table.remove(list, i) end
  end
  if list[1] then return end
  of.waiting[waiter.ref.scope] = nil
  if not next(of.waiting) and of.is_looking then of:hear() end
end }

-- Called when the go block that looks has died.
local function died(self, reason, block)
  internal.excuse(block, reason)
  self.is_looking = false
  self.store:forget_reader(self)
  for _, waiter in ipairs(all(self)) do tell(waiter, nil, reason) end
end

---Waits until a run has ended. Returns nil if the time is over; nil, err if there is no such run. Parks.
---@param ref runnel.store.RunRef
---@param ms? number
---@return runnel.store.RunOutcome? outcome, any err
function Results:wait(ref, ms)
  local waiter = { ref = ref, over = chan() }
  if self.store.db.disk then waiter.over:name "runnel.store" end -- so that stories do not tell of it
  local list = self.waiting[ref.scope] or {}
  list[#list + 1], self.waiting[ref.scope] = waiter, list
  local waiting <close> = setmetatable({ of = self, waiter = waiter }, Waiting) -- luacheck: ignore 211
  local alarm <close> = ms and guard.alarm(ms)
  local outcome, err = self:outcome(ref)
  if outcome or err then return outcome, err end
  if not self.is_looking then
    self.is_looking, self.pause, self.version = true, LATER, nil
    guard.started(guard.go(died, self, follow, self), "store")
  end
  if not self.store.functions[ref.name] then
    self.pause = SOON
    self:hear()
  end
  if ms then alts({ waiter.over, alarm.over }, { priority = true }) else take(waiter.over) end
  return waiter.outcome, waiter.err
end

---The value of an outcome; nil and the error, if the run has failed.
---@param outcome runnel.store.RunOutcome
---@return any value, any err
function run_results.read(outcome)
  local value = values.of(outcome.entry or values.entry(outcome.form, outcome.value))
  if outcome.failed == 1 then return nil, value end
  return value
end

---Those who wait for runs of a store.
---@param store runnel.store.Store
---@return runnel.store.RunResults
function run_results.of(store)
  if not store.results then
    local kept = {}
    store.results = setmetatable({
      store = store, ends = gather.new(store, function(refs) return ask(store, kept, refs) end), waiting = {},
      bell = chan(core.sliding_buffer(1)), is_looking = false, pause = LATER,
    }, Results)
  end
  return store.results
end

return run_results
