---What the runs of a store are like, for those who look at them: `runnel runs`, the prompt, the monitor, runs:list and
---r:steps. Nothing here makes tables or streams in the file.

local consumers = require "runnel.store.consumer"
local counts = require "runnel.queue.count"
local keys = require "runnel.store.keys"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"

local run_look = {}

---The states of runs, in the order in which they are shown.
run_look.STATES = { "ready", "running", "sleeping", "waiting", "retrying", "blocked", "done", "failed", "cancelled" }

---How many runs of a name there are.
---@class runnel.store.RunCounts
---@field name string
---@field total integer
---@field states table<string, integer> those with a state, for each that some have
---@field workers integer how many processes continue them
---@field paused boolean

---A step of a run that is in the file, or one that waits. One that is being done is in it after a second.
---@class runnel.store.RunStep
---@field step string as in 'mail["alice"]'
---@field name string of the function
---@field number? integer its place among the steps of the run's own go block; nil: it is a step of another one
---@field state "done"|"failed"|"sleeping"|"waiting"|"retrying"|"running"|"ready"|"cancelled"
---@field began? integer in ms since 1970; nil: unknown
---@field ended? integer nil: it has not ended
---@field took? integer ms, until now if it has not ended
---@field failures? integer how often it has failed, and was tried again
---@field result? any what it has returned, or its last error

-- ---- the names ----

-- Whether the file has runs; nil, err if that cannot be read.
local function has_runs(store)
  local rows, err = store:attempt("rows", "select 1 from sqlite_schema where name = 'runnel_run_state'")
  if not rows then return nil, err end
  return rows[1] ~= nil
end

local NAMES <const> = "select substr(name, 13) as name from runnel_stream where name glob 'runnel-runs-?*' "
  .. "order by name"

---The names of the runs that a store has.
---@param store runnel.store.Store
---@return string[]? names, string? err
function run_look.names(store)
  local has, err = has_runs(store)
  if not has then return has == false and {} or nil, err end
  local rows, problem = store:attempt("rows", NAMES)
  if not rows then return nil, problem end
  for i, row in ipairs(rows) do rows[i] = row.name end
  return rows
end

-- ---- how many ----

-- By the states in the file: how many, and how many of them are running or ready in truth (run_table.SHOW). All of it
-- is in the index.
local COUNT <const> = ([[
select state, count(*) as n,
    coalesce(sum(case when state in ('ready', 'retrying') or due <= ?1 then seq in $HELD end), 0) as running,
    coalesce(sum(case when due <= ?1 then seq not in $HELD end), 0) as ready
  from runnel_run indexed by runnel_run_state where name = ?3 group by state]])
  :gsub("%$HELD", "(select seq from runnel_delivery where stream = ?2 and consumer = ?3 and holder is not null)")

local CONSUMER <const> = "select paused, (select count(*) from runnel_worker w where w.stream = c.stream "
  .. "and w.consumer = c.name) as workers from runnel_consumer c where stream = ? and name = ?"

-- The counts of runs of a name.
local function counts_of(store, name)
  local stream = table_of.stream(name)
  local ok, problem = consumers.take_back(store, stream, name) -- what processes have that have ended
  if not ok then return nil, problem end
  local rows, err = store:attempt("rows", COUNT, store:time(), stream, name)
  if not rows then return nil, err end
  local found, why = store:attempt("rows", CONSUMER, stream, name)
  if not found then return nil, why end
  local states, total = {}, 0
  local function add(state, n)
    if n > 0 then states[state] = (states[state] or 0) + n end
  end
  for _, row in ipairs(rows) do
    total = total + row.n
    add(row.state, row.n - row.running - row.ready)
    add("running", row.running)
    add("ready", row.ready)
  end
  local consumer = found[1] or { paused = 0, workers = 0 }
  return { name = name, total = total, states = states, workers = consumer.workers,
    paused = consumer.paused == 1 }
end

---How many runs a store has of each name, by their states.
---@param store runnel.store.Store
---@return runnel.store.RunCounts[]? counts, string? err
function run_look.counts(store)
  local names, err = run_look.names(store)
  if not names then return nil, err end
  for i, name in ipairs(names) do
    local one, problem = counts_of(store, name)
    if not one then return nil, problem end
    names[i] = one
  end
  return names
end

-- ---- which ----

-- A row of run_table.SHOW as a state.
local function state_of(row)
  local count = counts.read(row.starts)
  return {
    id = row.id, state = row.state, since = row.since, due = row.due, step = row.step, line = row.line,
    note = row.note, error = row.error, started = row.made, failures = count and count.raises or 0,
    parent = row.parent and { name = row.parent, id = row.parent_id },
  }
end
run_look.state_of = state_of

---The states of runs of a name, in the order of their ids.
---@param store runnel.store.Store which has runs
---@param name string
---@param state? string only those
---@param after? any only those with later ids; a column
---@param limit integer
---@return runnel.store.RunState[]? list, string? err
function run_look.list(store, name, state, after, limit)
  local rows, err = store:attempt("rows", table_of.list(state, after ~= nil), store:time(), table_of.stream(name), name,
    after, state, limit)
  if not rows then return nil, err end
  for i, row in ipairs(rows) do rows[i] = state_of(row) end
  return rows
end

-- ---- the steps of one ----

local ENDED <const> = { done = true, failed = true, cancelled = true }

-- How often a step has failed, and its last error.
local function failures_of(row)
  local tried = values.read(row.form, row.value)
  if type(tried) ~= "table" or type(tried.errors) ~= "table" then return 0 end
  local last = tried.errors[#tried.errors]
  return tried.n, type(last) == "table" and last[3] or nil
end

-- A row of run_table.STEPS as a step, at a time. `over`: when the run has ended.
local function step_of(row, scope, time, over, is_running)
  local name, key = row.name, table_of.key_text(row)
  if row.scope == scope .. " > version" then name, key = "version", ("%q"):format(row.name) end
  local step = {
    name = name, step = ("%s[%s]"):format(name, key), number = tonumber(row.scope:sub(#scope + 4)) and row.step or nil,
    state = row.failed == 1 and "failed" or "done", began = row.began, ended = row.made,
  }
  if row.is_tried then
    step.failures, step.result = failures_of(row)
    step.state, step.ended = step.failures > 0 and "retrying" or is_running and "running" or "ready", nil
    if step.failures == 0 then step.failures = nil end
  elseif row.expires then -- a sleep, or a wait that may end
    step.ended = name == "sleep" and row.expires <= time and row.expires or nil
    if not step.ended then step.state = name == "sleep" and "sleeping" or "waiting" end
  end
  if over and not step.ended then step.state, step.ended = "cancelled", over end
  if step.began then step.took = math.max(0, (step.ended or time) - step.began) end
  return step
end

-- Orders rows by when their steps began.
local function is_before(a, b)
  local left, right = a.began or a.made, b.began or b.made
  if left ~= right then return left < right end
  if (a.step or 0) ~= (b.step or 0) then return (a.step or 0) < (b.step or 0) end
  if a.scope ~= b.scope then return a.scope < b.scope end
  return a.name < b.name
end

-- The rows of steps in their order: a row that only says how often a step was tried belongs to the step, unless the
-- file has no other one of it. Those of tries of the run are left out. Also returns the former by the steps' rows.
local function sorted(rows, scope)
  local steps, tries, tried = {}, {}, {}
  local function name_of(row, of) return of .. "\0" .. row.name .. "\0" .. table_of.key_text(row) end
  for _, row in ipairs(rows) do
    local of = row.scope:match "^(.*) > retry$"
    if of then tries[name_of(row, of)] = row else steps[#steps + 1] = row end
  end
  for _, row in ipairs(steps) do
    local name = name_of(row, row.scope)
    tried[row], tries[name] = tries[name], nil
  end
  for _, row in pairs(tries) do
    row.scope, row.is_tried = row.scope:match "^(.*) > retry$", true
    if row.scope ~= scope then steps[#steps + 1] = row end
  end
  table.sort(steps, is_before)
  return steps, tried
end

-- The step at which a run waits or has failed, if the file does not have it among the steps.
local function add_last(steps, state, time)
  local is_over = state.state == "failed" or state.state == "retrying"
  if not state.step or not (is_over or state.state == "waiting") then return end
  for _, step in ipairs(steps) do
    if not step.ended and (not is_over or step.state == "retrying") then return end
  end
  steps[#steps + 1] = {
    step = state.step, name = state.step:match "^[^%[]*", state = is_over and "failed" or "waiting",
    began = not is_over and state.since or nil, ended = is_over and state.since or nil,
    took = not is_over and math.max(0, time - state.since) or nil, result = is_over and state.error or nil,
  }
end

---The steps of a run that are in the file, in the order in which they began; and the one at which it waits or has
---failed.
---@param store runnel.store.Store which has runs
---@param scope string of the run
---@param state runnel.store.RunState
---@return runnel.store.RunStep[]? steps
---@return string|table[] rows those of the steps, for their results; or the error
function run_look.steps(store, scope, state)
  local all, err = store:attempt("rows", table_of.STEPS, scope)
  if not all then return nil, err --[[@as string]] end
  local time, steps, over = store:time(), {}, ENDED[state.state] and state.since or nil
  local rows, tried = sorted(all, scope)
  for i, row in ipairs(rows) do
    steps[i] = step_of(row, scope, time, over, state.state == "running")
    local failures = tried[row] and failures_of(tried[row]) or 0
    if failures > 0 then steps[i].failures = failures end
  end
  add_last(steps, state, time)
  return steps, rows
end

-- ---- finding one ----

---An id as people type it: a string that could be taken for something else is quoted.
---@param id string|number
---@return string
function run_look.shown(id)
  local _, text = keys.of(id)
  local is_plain = type(id) == "string" and not (tonumber(id) or id:find '^"' or id:find "%c")
  return is_plain and id --[[@as string]] or (text:gsub("\\\n", "\\n"))
end

-- The ids that a text may stand for: the first one that there is.
local function ids_of(text)
  local quoted, number = text:match '^"(.+)"$', tonumber(text)
  if quoted then return { (quoted:gsub('\\(["\\])', "%1")), text } end
  if number and number == number then return { number, text } end
  return text ~= "" and { text } or {}
end

---The id that a text of run_look.shown stands for.
---@param text string
---@return string|number
function run_look.id_of(text) return ids_of(text)[1] or "" end

-- Adds the run of a name that a text stands for. Returns why that is not known.
local function add(store, name, text, found)
  for _, id in ipairs(ids_of(text)) do
    local column = table_of.key(name, id)
    local rows, err = store:attempt("rows", "select 1 from runnel_run where name = ? and id = ?", name, column)
    if not rows then return err end
    if rows[1] then return table.insert(found, { name = name, id = id }) end
  end
end

---Finds a run by its id, or by NAME/ID, since runs of several names may have that id.
---@param store runnel.store.Store
---@param text string
---@return { name: string, id: string|number }? run, string? err
function run_look.find(store, text)
  local names, err = run_look.names(store)
  if not names then return nil, err end
  local found = {}
  for _, name in ipairs(names) do
    local problem = add(store, name, text, found)
    if not problem and text:sub(1, #name + 1) == name .. "/" then
      problem = add(store, name, text:sub(#name + 2), found)
    end
    if problem then return nil, problem end
  end
  if #found == 1 then return found[1] end
  if #found == 0 then
    return nil, ("there is no run %q; %s"):format(text, names[1] and "there are runs of " .. table.concat(names, ", ")
      or "the store has none")
  end
  for i, one in ipairs(found) do found[i] = one.name .. "/" .. run_look.shown(one.id) end
  return nil, ("there are several runs %q: say %s"):format(text, table.concat(found, " or "))
end

return run_look
