---Runs for the monitor's page: how many there are in each state, a page of them, and one with its steps.

local core = require "runnel.core"
local json = require "runnel.json"
local keys = require "runnel.store.keys"
local look = require "runnel.store.runs.run_look"
local run_ref = require "runnel.store.runs.run_ref"
local short = require "runnel.internal.short"

local run_page = {}

-- How many runs and steps a page gets, and the longest text, in bytes.
local RUNS <const>, STEPS <const>, TEXT <const> = 50, 500, 300

-- Counts of a store are kept for this time in ms, or for so many times that which it took to count.
local KEPT <const>, TIMES <const> = 900, 10

-- store -> { counts =, until_time = }
local known = setmetatable({}, { __mode = "k" })

local function counts_of(store)
  local last, began = known[store], core.now()
  if last and began < last.until_time then return last.counts end
  local counts, err = look.counts(store)
  if not counts then return nil, err end
  known[store] = { counts = counts, until_time = core.now() + math.max(KEPT, TIMES * (core.now() - began)) }
  return counts
end

-- A text of the file, of which the page gets the beginning.
local function text(value)
  if value == nil then return nil end
  local all = short.utf8(tostring(value))
  return #all <= TEXT and all or all:sub(1, utf8.offset(all, 0, TEXT + 1) - 1) .. "..."
end

-- Steps whose keys the run's function has written down.
local OWN <const> = {
  sleep = true, wait = true, version = true, start = true, result = true, signal = true, cancel = true, restart = true,
  forget = true, now = true, random = true, id = true,
}

-- A step as the page shows it: its key is an argument of the program's function, which may be secret.
local function step_text(step, has_values)
  if step == nil then return nil end
  local name = step:match "^[^%[]*"
  return text((has_values or OWN[name]) and step or name)
end

local function run_of(state, has_values)
  return {
    id = text(look.shown(state.id)), state = state.state, since = state.since, due = state.due, line = text(state.line),
    step = step_text(state.step, has_values), note = text(state.note), error = text(state.error),
    started = state.started, failures = state.failures,
  }
end

-- The page of runs that was asked for. `more`: whether others follow.
local function add_list(answer, store, question, has_values)
  local after = question.after and keys.of(look.id_of(question.after)) or nil
  local state = question.state ~= "" and question.state or nil
  local list, err = look.list(store, question.name, state, after, RUNS + 1)
  if not list then return err end
  answer.more = list[RUNS + 1] ~= nil
  list[RUNS + 1] = nil
  for i, one in ipairs(list) do list[i] = run_of(one, has_values) end
  answer.list = json.array(list)
end

-- The run that was asked for, and its steps; of many the last ones.
local function add_run(answer, store, question, has_values)
  local found, err = look.find(store, question.name .. "/" .. question.run)
  if not found then return err end
  local r = run_ref.new(store, found.name, found.id)
  local state, problem = r:state()
  if not state then return problem end
  local steps, rows = look.steps(store, r.scope, state)
  if not steps then return rows end
  answer.run, answer.steps, answer.left = run_of(state, has_values), json.array {}, math.max(0, #steps - STEPS)
  for i = answer.left + 1, #steps do
    local step = steps[i]
    table.insert(answer.steps, {
      number = step.number, step = step_text(step.step, has_values), state = step.state, began = step.began,
      ended = step.ended,
    })
  end
end

local function is_question(question)
  if type(question) ~= "table" then return false end
  for field, kind in pairs { store = "number", name = "string", state = "string", after = "string", run = "string" } do
    if question[field] ~= nil and type(question[field]) ~= kind then return false end
  end
  if question.state == nil or question.state == "" then return true end
  for _, state in ipairs(look.STATES) do
    if question.state == state then return true end
  end
  return false
end

---The answer to a question of the page, as JSON. Waits.
---@param stores runnel.store.Store[]
---@param asked string JSON: the number of a store, a name of runs, a state, the id after which its page of runs begins,
---and the id of the run to be shown; or less
---@param has_values boolean whether keys of steps are shown
---@return string? json, string? err
function run_page.answer(stores, asked, has_values)
  local question = json.decode(asked)
  if not is_question(question) then return nil, "the question is wrong" end
  local answer = { asked = asked, stores = json.array {} }
  for i, store in ipairs(stores) do
    local counts, err = counts_of(store)
    answer.stores[i] = { path = text(store.path), counts = json.array(counts or {}), error = err }
  end
  local store = stores[question.store or 1]
  if store then answer.time = store:time() end
  if store and question.name then
    local err = add_list(answer, store, question, has_values)
    if not err and question.run then err = add_run(answer, store, question, has_values) end
    answer.error = err
  end
  return json.encode(answer)
end

return run_page
