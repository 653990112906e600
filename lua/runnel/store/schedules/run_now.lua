---Runs of a schedule that a program starts besides those that are planned. Each has a time of its own, which is its id.

local run_ref = require "runnel.store.runs.run_ref"
local run_start = require "runnel.store.runs.run_start"
local table_of = require "runnel.store.runs.run_table"

local run_now = {}

-- The last times that were given to runs, by the store and the name.
local latest = setmetatable({}, { __mode = "k" })

-- A time that no run has: that of now(), or some ms later; or an error. Parks.
local function free_time(store, name, now, id_of)
  local time, err = now()
  if not time then return err end
  local last = latest[store] or {}
  latest[store] = last
  while true do
    local before = last[name] or 0
    if time <= before and before - time < 1000 then time = before + 1 end -- else the clock was set back
    last[name] = time
    local found, why = store:attempt("rows", "select 1 from runnel_run where name = ? and id = ?", name, id_of(time))
    if not found then return why end
    if not found[1] then return time end
  end
end

---Starts a run. In the function of a run, its time and its start are steps. Parks.
---@param store runnel.store.Store
---@param name string of the schedule
---@param now fun(): integer?, string? the time in ms, or nil and an error; parks
---@param id_of fun(time: integer): string the id of the run of a time
---@return runnel.store.RunRef? run, string? err
function run_now.start(store, name, now, id_of)
  local run = table_of.current(store)
  local function take() return free_time(store, name, now, id_of) end
  while true do
    local time
    if run then time = run:value("run_now", name, take) else time = take() end
    if type(time) ~= "number" then return nil, time end
    local ref, argument = run_ref.new(store, name, id_of(time)), run_start.argument(time)
    local is_own, err
    if run then is_own = run_start.step(run, ref, argument, 0) else is_own, err = run_start.start(ref, argument, 0) end
    if is_own then return ref end
    if is_own == nil then return nil, err end
    -- Another process has taken the time.
  end
end

return run_now
