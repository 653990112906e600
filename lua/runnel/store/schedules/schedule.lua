---store:schedule: runs that start at times. The row of a schedule has the time of its last start; each process that has
---its function looks when the next one is, and in one transaction notes it and starts a run whose id is that time. So
---each start is one run, whoever starts it, and however often.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local cron = require "runnel.store.schedules.cron"
local guard = require "runnel.internal.guard"
local looking = require "runnel.store.looking"
local names = require "runnel.queue.names"
local run_now = require "runnel.store.schedules.run_now"
local run_ref = require "runnel.store.runs.run_ref"
local runs = require "runnel.store.runs"
local sign = require "runnel.internal.sign"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"
local zones = require "runnel.store.schedules.zone"

local internal = core.internal
local raise = internal.raise
local kinds = check.kinds

-- How often it looks whether another process has changed the schedule, or somebody has set the clock, and how long it
-- waits after an error. In ms.
local LOOKS_AGAIN <const> = 1000

-- After how many ms a start is a missed one, for missed = "none".
local LATE <const> = 60000

-- A pause without an end; and the longest time from one start to the next.
local FOR_EVER <const> = 1 << 53

-- How many runs that are done it forgets at a time.
local FORGETS <const> = 10

local schedule = {}

---@class runnel.store.ScheduleOptions: runnel.store.RunsOptions
---@field every? integer ms from one start to the next, in place of the five fields
---@field zone? string the time zone of the five fields, as "Europe/Berlin"; default UTC
---@field missed? "once"|"all"|"none" what happens to starts for which no process was there: the last of them happens
---(the default), all, or none
---@field overlap? "allow"|"skip"|"queue" what happens to a start while an earlier run has not ended: it happens (the
---default), is left out, or waits for that; of several that wait, the last one happens, or all with missed = "all"
---@field keep_done? integer how many runs that are done or cancelled are kept (1000)

local OPTIONS <const> = {
  every = kinds.integer(1), zone = true, missed = kinds.one_of { "once", "all", "none" },
  overlap = kinds.one_of { "allow", "skip", "queue" }, keep_done = kinds.integer(0),
}
-- Those of the runs.
local OWN <const> = {}
for name, kind in pairs(OPTIONS) do OWN[name] = kind end
for name, kind in pairs(runs.OPTIONS) do OPTIONS[name] = kind end

---A schedule.
---@class runnel.store.Schedule
---@field name string
---@field runs runnel.store.Runs those that it has started
---@field package store runnel.store.Store
---@field private keep integer
---@field private waits? boolean a start waits for the end of an earlier run
---@field private bell runnel.Channel<boolean>
---@field private plans table<string, runnel.store.Plan> by what they are made of
local Schedule = { __name = "schedule", __sign = "schedule" }
Schedule.__index = Schedule

---How a schedule is.
---@class runnel.store.ScheduleState
---@field name string
---@field cron? string the five fields
---@field every? integer ms
---@field zone string
---@field missed "once"|"all"|"none"
---@field overlap "allow"|"skip"|"queue"
---@field last integer the time of its last start, or when it was made, in ms since 1970
---@field next? integer that of the next one
---@field paused boolean
---@field resumes? integer when the pause ends
---@field problem? string why this process cannot tell when the next start is

-- ---- its times ----

---When a schedule starts, in ms.
---@class runnel.store.Plan
---@field next fun(after: integer): integer? the first start after a time
---@field last fun(after: integer, up_to: integer): integer the last one until a time, if there is one

-- The plan of a row; or nil and what is wrong.
local function plan_of(row)
  if not row.cron then
    return {
      next = function(after) return after + row.every end,
      last = function(after, up_to) return after + (up_to - after) // row.every * row.every end,
    }
  end
  local fields, problem = cron.read(row.cron)
  if not fields then return nil, ("%q: %s"):format(row.cron, problem) end
  local zone, why = zones.open(row.zone)
  if not zone then return nil, why end
  local function in_ms(s) return s and s * 1000 end
  return {
    next = function(after) return in_ms(fields:next(after // 1000, zone)) end,
    last = function(after, up_to) return in_ms(fields:last(after // 1000, up_to // 1000, zone)) end,
  }
end

-- The time by which a row's starts are planned.
local function time_of(store, row) return store:time() - (row.cron and store:ahead() or 0) end

-- The id of the run that starts at a time.
local function id_of(time) return os.date("!%Y-%m-%dT%H:%M:%S", time // 1000) .. (".%03dZ"):format(time % 1000) end

local function state_of(store, row)
  local is_paused = row.paused ~= nil and row.paused > store:time()
  local plan, problem = plan_of(row)
  local after = math.min(row.last, time_of(store, row))
  if is_paused then after = row.paused < FOR_EVER and row.paused - store:time() + time_of(store, row) or nil end
  return {
    name = row.name, cron = row.cron, every = row.every, zone = row.zone, missed = row.missed,
    overlap = row.overlap, last = row.last,
    next = plan and after and plan.next(after) or nil, paused = is_paused,
    resumes = is_paused and row.paused < FOR_EVER and row.paused or nil, problem = problem,
  }
end

-- ---- starting runs ----

local FIND <const> = "select * from runnel_schedule where name = ?"
local SET <const> = "update runnel_schedule set last = ?, paused = null where name = ? and last = ? and paused is ?"
local LIVE <const> = "select 1 from runnel_run where name = ? "
  .. "and state in ('ready', 'sleeping', 'waiting', 'retrying', 'blocked') limit 1"
local OLD <const> = "select id from runnel_run where name = ? and state in ('done', 'cancelled') "
  .. "order by made desc limit ? offset ?"

local function must(store, ...)
  local result, problem = store:attempt(...)
  if not result then error(problem, 0) end
  return result
end

-- Notes the start at a time, and starts its run, if that is wanted, in one step: unless another process has noted one
-- since `row` was read, or a run that has not ended is in the way. Returns false if the start waits for that run.
local function start(self, row, time, is_wanted)
  local store, stream = self.store, table_of.stream(self.name)
  local form, data = values.encode(time, "the argument")
  local ref = run_ref.new(store, self.name, id_of(time))
  local has_begun, waits = false, false
  store.db:transaction(function(tx)
    local overlaps = row.overlap ~= "allow" and tx:one(LIVE, self.name) ~= nil
    waits = overlaps and row.overlap == "queue"
    if waits or tx:exec(SET, time, self.name, row.last, row.paused) == 0 or overlaps or not is_wanted then return end
    local rows, problem = tx:attempt("last", table_of.start(ref, stream, form, data, 0))
    if not rows then error(problem, 0) end
    if problem == 0 and not rows[1] then error(("the stream %q is missing"):format(stream), 0) end
    has_begun = true
  end)
  if not has_begun then return not waits end
  store:ring(stream)
  for _, old in ipairs(must(store, "rows", OLD, self.name, FORGETS, self.keep)) do
    run_ref.new(store, self.name, old.id):forget()
  end
  return true
end

-- Starts what is due. Returns after how many ms it is to look again; nil if the schedule was removed.
local function look(self)
  local store = self.store
  local row = must(store, "rows", FIND, self.name)[1]
  if not row then return nil end
  local now = time_of(store, row)
  local function set(last)
    must(store, "exec", SET, last, self.name, row.last, row.paused)
    return 0
  end
  local left = row.paused and row.paused - store:time() or 0
  if left > 0 then return row.paused < FOR_EVER and left or math.huge end
  if row.paused then return set(math.max(row.last, now + left)) end -- what it would have started is no missed start
  if row.last > now then return set(now) end -- the clock was set back
  local plan, problem = plan_of(row)
  if not plan then error(problem, 0) end
  local due = plan.next(row.last)
  if not due or due > now then return due and due - now or math.huge end
  if row.missed ~= "all" then due = plan.last(row.last, now) end
  self.waits = not start(self, row, due, row.missed ~= "none" or now - due <= LATE or self.waits)
  return self.waits and LOOKS_AGAIN or 0
end

---There may be something new.
function Schedule:hear() self.bell:put(true) end

-- Starts runs as long as this process continues them. Repeats what fails, for example because the file is locked.
local function follow(self)
  local store, file <close> = self.store, looking.new(self.store, self.bell)
  local told
  while not (store.is_closed or self.runs:done():closed()) do
    local ok, left = pcall(look, self)
    if not ok then
      guard.raise_cancelled(left)
      local text = ("schedule %s: no run starts for now: %s"):format(self.name, internal.error_text(left))
      if text ~= told and not store.is_closed then internal.report(text, nil, "schedule " .. self.name) end
      told, left = text, LOOKS_AGAIN
    elseif not left then
      break
    else
      told = nil
    end
    if left > 0 and not store.is_closed then file:wait(LOOKS_AGAIN, left) end
  end
  store:forget_reader(self)
end

-- ---- for operators ----

-- Changes the row. Returns true; or nil, err.
local function change(self, sql, ...)
  local changed, err = self.store:attempt("exec", sql, ...)
  if not changed then return nil, err end
  if changed == 0 then return nil, ("there is no schedule %q"):format(self.name) end
  self.store:ring("schedule " .. self.name)
  return true
end

local PAUSE <const> = { lasts = kinds.ms(1) }

---Starts nothing more, in all processes. Runs that have started go on. Starts that would have been in the pause do not
---happen later.
---@param opts? { lasts?: number } for how many ms; default: until `resume`
---@return true? ok, string? err
function Schedule:pause(opts)
  sign.own(self, "schedule", "pause")
  check.options(opts, PAUSE, "pause")
  local ends = opts and opts.lasts and self.store:after(opts.lasts) or FOR_EVER
  self.store:note_time()
  local ok, err = change(self, "update runnel_schedule set paused = ? where name = ?", ends, self.name)
  return ok, err
end

---Ends a pause.
---@return true? ok, string? err
function Schedule:resume()
  sign.own(self, "schedule", "resume")
  local ok, err = change(self,
    "update runnel_schedule set paused = min(paused, ?) where name = ?", self.store:time(), self.name)
  return ok, err
end

---Starts a run now, besides those that are planned, and besides others that this has started in the same ms. In the
---function of a run, it is a step, and the time is one, too.
---@return runnel.store.RunRef? run, string? err
function Schedule:run_now()
  sign.own(self, "schedule", "run_now")
  local run, err = run_now.start(self.store, self.name, function()
    local rows, problem = self.store:attempt("rows", FIND, self.name)
    if not rows then return nil, problem end
    if not rows[1] then return nil, ("there is no schedule %q"):format(self.name) end
    return time_of(self.store, rows[1])
  end, id_of)
  return run, err
end

---How it is.
---@return runnel.store.ScheduleState? state, string? err
function Schedule:state()
  sign.own(self, "schedule", "state")
  local rows, err = self.store:attempt("rows", FIND, self.name)
  if not rows then return nil, err end
  if not rows[1] then return nil, ("there is no schedule %q"):format(self.name) end
  return state_of(self.store, rows[1])
end

---Removes the schedule, in all processes. Runs that have started go on, and stay.
---@return true? ok, string? err
function Schedule:remove()
  sign.own(self, "schedule", "remove")
  local ok, err = change(self, "delete from runnel_schedule where name = ?", self.name)
  return ok, err
end

function Schedule:__tostring() return "schedule: " .. self.name end

---The schedules of a store, by their names.
---@param store runnel.store.Store
---@return runnel.store.ScheduleState[]? list, string? err
function schedule.schedules(store)
  local rows, err = store:attempt("rows", "select * from runnel_schedule order by name")
  if not rows then return nil, err end
  for i, row in ipairs(rows) do rows[i] = state_of(store, row) end
  return rows
end

-- ---- making them ----

-- If its times change, it begins anew.
local MAKE <const> = [[
insert into runnel_schedule(name, cron, every, zone, missed, last, made, overlap)
  values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
  on conflict(name) do update set missed = excluded.missed, overlap = excluded.overlap, cron = excluded.cron,
    every = excluded.every, zone = excluded.zone, last = case
      when cron is excluded.cron and every is excluded.every and zone = excluded.zone then last else excluded.last end]]

-- Checks what the program says about the times.
local function check_times(when, opts)
  if not when and not opts.every then
    raise('schedule: when? five fields expected, as "0 3 * * *", or the option every')
  elseif when and opts.every then
    raise("schedule: five fields, or the option every, expected, got both")
  elseif opts.every and opts.zone ~= nil then
    raise("schedule: zone: it is for five fields, and this schedule has the option every")
  end
  if opts.zone ~= nil then check.string(opts.zone, "the name of a time zone", "schedule: zone") end
  local _, problem = plan_of { cron = when, every = opts.every, zone = opts.zone or "UTC" }
  if problem then raise("schedule: " .. problem) end
end

-- The runs of a schedule.
local function runs_of(store, name, f, opts)
  local given = {}
  for option, value in pairs(opts) do
    if not OWN[option] then given[option] = value end
  end
  local ok, of = pcall(runs.runs, store, name, f, given)
  if ok then return of end
  guard.raise_cancelled(of)
  internal.raise((guard.text(of):gsub("^runs: ", "schedule: ")))
end

-- The schedule of a name, which another program may have made.
local function find(store, name)
  local rows, err = store:attempt("rows", FIND, name)
  if not rows then return nil, err end
  if not rows[1] then return nil, ("there is no schedule %q"):format(name) end
  return setmetatable({ store = store, name = name, runs = runs_of(store, name, nil, {}) }, Schedule)
end

---Starts a run of f(run, time) at the times of a schedule, which are five fields as those of cron, or every `every` ms.
---Each start happens once, in one of the processes that have the function; without one, the program only makes the
---schedule. If there is one of that name with other times, these count from now on.
---
---    store:schedule("nightly", "0 3 * * *", { zone = "Europe/Berlin" }, function(run, time) ... end)
---    store:schedule("poll", { every = 60000 }, poll)
---
---With a name only: the schedule of that name; nil and an error if there is none.
---@param store runnel.store.Store
---@param name string letters, digits, - and _; also of the runs
---@param when? string minute, hour, day of the month, month, day of the week; or @daily and the like
---@param opts? runnel.store.ScheduleOptions
---@param f? fun(run: runnel.store.RunContext, time: integer): any
---@return runnel.store.Schedule? schedule, string? err
function schedule.schedule(store, name, when, opts, f)
  names.check_stage(name, "schedule")
  if type(when) ~= "string" then when, opts, f = nil, when, opts end
  if f == nil and check.is_callable(opts) then opts, f = nil, opts end
  if when == nil and opts == nil and f == nil then return find(store, name) end
  if f ~= nil then check.callable(f, "schedule: f") end
  check.options(opts, OPTIONS, "schedule")
  opts = opts or {}
  check_times(when, opts)
  local self = setmetatable({
    store = store, name = name, keep = opts.keep_done or 1000, bell = core.chan(core.sliding_buffer(1)),
    runs = runs_of(store, name, f, opts),
  }, Schedule)
  local row = { cron = when }
  local ok, err = store:attempt("exec", MAKE, name, when, opts.every and math.min(opts.every, FOR_EVER),
    opts.zone or "UTC", opts.missed or "once", time_of(store, row), store:time(), opts.overlap or "allow")
  if not ok then
    self.runs:stop()
    raise("schedule: " .. err)
  end
  store:ring("schedule " .. name)
  if not f then return self end
  store:add_reader("schedule " .. name, self)
  local before
  before = internal.on_close(self.runs:done(), function()
    self:hear()
    if before then before() end
  end)
  guard.started(guard.go(guard.nothing, nil, follow, self), "schedule")
  return self
end

return schedule
