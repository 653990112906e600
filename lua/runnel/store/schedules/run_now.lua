---Runs of a schedule that a program starts besides those that are planned. Each has a time of its own, which is its id.

local run_ref = require "runnel.store.runs.run_ref"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"

local run_now = {}

-- The last times that were given to runs, by the store and the name.
local latest = setmetatable({}, { __mode = "k" })

---A time that no run has: `time`, or some ms later. Parks.
---@param store runnel.store.Store
---@param name string of the schedule
---@param time integer ms
---@param id_of fun(time: integer): string the id of the run of a time
---@return integer|string time or an error
function run_now.free_time(store, name, time, id_of)
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

---Starts a run of a time, unless there is one. Parks.
---@param store runnel.store.Store
---@param name string
---@param id string
---@param time integer ms
---@return runnel.store.RunRef? run, string? err
---@return boolean? is_new it has started
function run_now.start(store, name, id, time)
  local stream, ref = table_of.stream(name), run_ref.new(store, name, id)
  local form, data = values.encode(time, "the argument")
  local rows, changes = store:attempt("last", table_of.start(ref, stream, form, data, 0))
  if not rows then return nil, changes end
  if changes == 0 and not rows[1] then return nil, ("the stream %q is missing"):format(stream) end
  if changes > 0 then store:ring(stream) end
  return ref, nil, changes > 0
end

return run_now
