---Runs as lines of text: for `runnel runs` and the prompt.

local decimal = require "runnel.internal.decimal"
local look = require "runnel.store.runs.run_look"
local queue_view = require "runnel.queue.view"
local run_ref = require "runnel.store.runs.run_ref"
local short = require "runnel.internal.short"
local values = require "runnel.store.values"
local width = require "runnel.internal.width"

local run_view = {}

local date = queue_view.date

-- How many runs of a state that somebody should look at are shown, and the longest texts, in bytes.
local TROUBLES <const>, VALUE <const> = 5, 60

-- The states that somebody should look at.
local TROUBLE <const> = { "failed", "blocked", "retrying" }

local function add_all(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

local function first_line(text) return text and text:match "^[^\n]*" or "" end

-- How long ago a time was, or how long it is until then.
local function span(ms) return ms and short.duration(math.abs(ms)) or "-" end

-- ---- many ----

---A table of how many runs there are of each name, by their states.
---@param counts runnel.store.RunCounts[]
---@return string[] lines
function run_view.counts(counts)
  if #counts == 0 then return { "there are no runs" } end
  local head, rows, right = { "runs", "total" }, {}, { false, true }
  for _, state in ipairs(look.STATES) do
    head[#head + 1], right[#head + 1] = state, true
  end
  head[#head + 1], right[#head] = "processes", true
  rows[1] = head
  for i, one in ipairs(counts) do
    local row = { one.name, one.total }
    for _, state in ipairs(look.STATES) do row[#row + 1] = one.states[state] or 0 end
    local live = one.total
    for _, state in ipairs { "done", "failed", "cancelled" } do live = live - (one.states[state] or 0) end
    row[#row + 1] = one.workers
    row[#row + 1] = one.paused and "paused" or one.workers == 0 and live > 0 and "nobody continues them" or ""
    rows[i + 1] = row
  end
  return width.columns(rows, right)
end

-- Where a run is, and why.
local function place(state)
  local at = state.step and state.line and ("%s at %s"):format(state.step, state.line) or state.step or ""
  local err = state.error and (state.state == "failed" or state.state == "retrying" or state.state == "blocked")
    and first_line(state.error)
  return err and (at == "" and err or at .. ": " .. err) or at
end

---A table of runs.
---@param list runnel.store.RunState[]
---@param time integer
---@return string[] lines
function run_view.list(list, time)
  if #list == 0 then return { "there are no such runs" } end
  local rows = { { "id", "state", "for", "goes on in", "started", "where", "note" } }
  for i, state in ipairs(list) do
    local due = state.due and math.max(0, state.due - time)
    rows[i + 1] = { look.shown(state.id), state.state, span(time - state.since), due and span(due) or "-",
      date(state.started), place(state), first_line(state.note) }
  end
  return width.columns(rows, { false, false, true, true })
end

-- Adds the first of `n` runs in a state. Returns why they are not known.
local function add_troubles(lines, store, name, state, n)
  local list, err = look.list(store, name, state, nil, TROUBLES)
  if not list then return err end
  if #list == 0 then return nil end
  add_all(lines, { "", ("%s, %s:"):format(name, state) })
  for _, run in ipairs(list) do
    local since = span(store:time() - run.since)
    lines[#lines + 1] = ("  %s for %s; %s"):format(look.shown(run.id), since, place(run))
  end
  if n > #list then lines[#lines + 1] = ("  and %d more"):format(n - #list) end
end

---The runs of a store: how many there are in each state, and the first ones that somebody should look at.
---@param store runnel.store.Store
---@return string[]? lines, string? err
function run_view.overview(store)
  local counts, err = look.counts(store)
  if not counts then return nil, err end
  local lines = run_view.counts(counts)
  for _, one in ipairs(counts) do
    for _, state in ipairs(TROUBLE) do
      local n = one.states[state] or 0
      local problem = n > 0 and add_troubles(lines, store, one.name, state, n) or nil
      if problem then return nil, problem end
    end
  end
  return width.lines(lines)
end

-- ---- one ----

-- A value of the file as a short text.
local function value_text(form, value)
  if form == "nil" then return "" end
  if not form:find "json" then return ("%d bytes"):format(values.size(value)) end
  local text = short.utf8(tostring(value)):gsub("%c", " ")
  return #text <= VALUE and text or text:sub(1, (utf8.offset(text, 0, VALUE + 1) or 1) - 1) .. "..."
end

local function result_text(step, row)
  local more = step.failures and (" after %d failed tries"):format(step.failures) or ""
  if step.state == "sleeping" or step.state == "waiting" or step.state == "retrying" then
    local at = row and row.expires and "until " .. date(row.expires) or ""
    return at .. (step.state == "retrying" and ("%s: %s"):format(more, first_line(step.result)) or "")
  end
  if step.state == "cancelled" or step.state == "running" or step.state == "ready" then return step.state end
  if step.state ~= "failed" then return value_text(row.form, row.value) .. more end
  local err = row and values.read(row.form, row.value) or step.result
  return "error: " .. first_line(type(err) == "table" and err.message or tostring(err))
end

-- The steps of a run as a table.
local function step_lines(steps, rows)
  local cells = { { "", "step", "began", "took", "result" } }
  for i, step in ipairs(steps) do
    local took = step.took and short.duration(step.took) or "-"
    local name = width.cut(step.step:gsub("%c", " "), VALUE)
    cells[i + 1] = { step.number or rows[i] and "go" or "", name, date(step.began or step.ended),
      (step.ended or not step.took) and took or took .. " so far", result_text(step, rows[i]) }
  end
  return width.columns(cells, { true, false, false, true })
end

local END <const> = "select form, value, failed from runnel_once where scope = '' and name = ? and key = ?"

---A run with its steps and their times.
---@param store runnel.store.Store
---@param r runnel.store.RunRef
---@return string[]? lines, string? err
function run_view.run(store, r)
  local state, err = r:state()
  if not state then return nil, err end
  local steps, rows = look.steps(store, r.scope, state)
  if not steps then return nil, rows --[[@as string]] end
  local ends, problem = store:attempt("rows", END, r.name, r.column)
  if not ends then return nil, problem end
  local time = store:time()
  local lines = { ("run        %s of %s"):format(look.shown(r.id), r.name) }
  local function add(what, text)
    if text and text ~= "" then lines[#lines + 1] = ("%-10s %s"):format(what, text) end
  end
  add("state", ("%s for %s%s"):format(state.state, span(time - state.since),
    state.due and (", goes on at %s"):format(date(state.due)) or ""))
  add("at", state.step and (state.line and ("%s at %s"):format(state.step, state.line) or state.step))
  add("error", state.error)
  add("note", state.note)
  add("started", date(state.started))
  add("failures", state.failures > 0 and decimal.text(state.failures) .. " in a row" or nil)
  if ends[1] and ends[1].failed == 0 then add("result", value_text(ends[1].form, ends[1].value)) end
  if #steps > 0 then
    lines[#lines + 1] = ""
    add_all(lines, step_lines(steps, rows --[[@as table[] ]]))
  end
  return width.lines(lines)
end

-- ---- at the prompt ----

local LISTED <const> = 100

local function contains(list, word)
  for _, one in ipairs(list) do
    if one == word then return true end
  end
  return false
end

-- What a store has for the words of a command: an overview, the runs of a name or in a state, or one run. Nil, err if
-- it has no such run.
local function answer(store, text)
  if text == "" then return run_view.overview(store) end
  local names, err = look.names(store)
  if not names then return nil, err end
  local name, state = text:match "^(%S+)%s+(%S+)$"
  if not (name and contains(names, name) and contains(look.STATES, state)) then name, state = text, nil end
  if not contains(names, name) and contains(look.STATES, name) then name, state = nil, name end
  if name and not contains(names, name) then
    local found, problem = look.find(store, name)
    if not found then return nil, problem end
    return run_view.run(store, run_ref.new(store, found.name, found.id))
  end
  local lines = {}
  for _, one in ipairs(name and { name } or names) do
    local list, problem = look.list(store, one, state, nil, LISTED)
    if not list then return nil, problem end
    if #list > 0 then
      add_all(lines, { one .. ":" })
      add_all(lines, run_view.list(list, store:time()))
      if #list == LISTED then lines[#lines + 1] = ("the first %d of them"):format(LISTED) end
    end
  end
  return #lines > 0 and lines or { "there are no such runs" }
end

---The runs of one or more stores as lines: each store's below its name, if there are several. Waits.
---@param stores runnel.store.Store[]
---@param text string nothing: how many there are in each state; a name, a state, or both: such runs; else the id of one
---@return string[]? lines, string? err
function run_view.lines(stores, text)
  local lines, missing = {}, nil
  for _, store in ipairs(stores) do
    local more, err = answer(store, text)
    missing = missing or err
    if more then
      if #stores > 1 then add_all(lines, { lines[1] and "" or nil, "the store " .. store.path }) end
      add_all(lines, more)
    end
  end
  if not lines[1] then return nil, missing end
  return lines
end

return run_view
