---The rows of runs (store:runs): a run is a call of `once` that is continued. Its row in runnel_run has its argument
---and its state, its steps and its result are rows of runnel_once, and its signals rows of runnel_signal.

local keys = require "runnel.store.keys"
local sink = require "runnel.store.sink"
local steps = require "runnel.store.steps"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.store.values"

local run_table = {}

---The stream of the runs of a name, whose messages are the runs that have not ended.
---@param name string
---@return string
function run_table.stream(name) return "runnel-runs-" .. name end

---The time that never comes, and the signal by which a run is cancelled.
run_table.NEVER, run_table.CANCEL = math.maxinteger, ""

---The names of a run: its id as a column, and the scope of its steps.
---@param name string
---@param id string|number
---@return any column, string scope
function run_table.key(name, id)
  local column, text = keys.of(id)
  return column, steps.scope("", name, text)
end

---Runs a statement; raises its error at the program's line.
---@param store runnel.store.Store
---@param what string
---@param kind "exec"|"rows"|"last"
---@param sql string
---@param ... any
---@return any result
function run_table.must(store, what, kind, sql, ...)
  local result, problem = store:attempt(kind, sql, ...)
  if result then return result end
  timed_out.raise(timed_out.with_text(problem, ("%s: %s"):format(what, problem)))
end

-- ---- starting ----

-- Puts the message of a run that the statement before has stored.
local MESSAGE <const> = [[
insert into runnel_message(stream, seq, subject, form, value, bytes, made)
  select name, last + 1, 'run', ?2, ?3, ?4, ?5 from runnel_stream where name = ?1 and changes() = 1;]]

run_table.FIND = "select * from runnel_run where name = ? and id = ?"

local START <const> = [[
insert or ignore into runnel_run(name, id, seq, form, value, made, state, since)
  select ?1, ?2, last + 1, ?3, ?4, ?5, 'ready', ?5 from runnel_stream where name = ?6;
]] .. MESSAGE
-- With a priority, its message is delivered at once, as a put with one is.
local BY_PRIORITY <const> = START:gsub("bytes, made%)", "bytes, made, priority)")
  :gsub("%?4, %?5 from", "?4, ?5, ?6 from") .. sink.WITH_PRIORITY .. ";"

---The statement that starts a run and finds it, with its values.
---@param priority integer
---@param run any[] name, id, form, value, time, stream
---@param message any[] stream, form, value, bytes, time
---@return string sql, any ... values
function run_table.start(priority, run, message)
  local stream, all = message[1], table.move(run, 1, 6, 1, {})
  table.move(message, 1, 5, 7, all)
  if priority == 0 then
    all[12], all[13] = run[1], run[2]
    return START .. run_table.FIND, table.unpack(all, 1, 13)
  end
  table.move({ priority, stream, "run", -priority, stream, "run", run[1], run[2] }, 1, 8, 12, all)
  return BY_PRIORITY .. run_table.FIND, table.unpack(all, 1, 19)
end

---The same for a run that is there.
run_table.START_AGAIN = [[
update runnel_run set seq = (select last + 1 from runnel_stream where name = ?1), state = 'ready', since = ?4,
    due = null, step = null, line = null, error = null, cancelled = null
  where name = ?2 and id = ?3;
]] .. MESSAGE

-- ---- steps ----

---The steps of a run, but not those within them.
run_table.STEPS = [[
select scope, name, key, typeof(key) as kind, step, failed, form, value, expires from runnel_once
  where scope > ?1 || ' > ' and scope < ?1 || ' >!' and instr(substr(scope, length(?1) + 4), '[') = 0]]

run_table.KEEP = [[
insert or replace into runnel_once(scope, name, key, step, failed, form, value, made, expires)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?)]]

---What follows it, for a sleep or a wait that begins, and for one that ends.
run_table.WAITS = [[
update runnel_run set state = ?3, since = ?4, due = ?5, step = ?6, line = ?7 where name = ?1 and id = ?2]]
run_table.GOES_ON = [[
update runnel_run set state = 'ready', since = ?3, due = null where name = ?1 and id = ?2]]

---What follows it when a signal is taken, or a cancellation raised.
run_table.TAKE_SIGNAL = "; delete from runnel_signal where seq = ?; " .. run_table.GOES_ON
run_table.RAISE = "; delete from runnel_signal where name = ? and id = ? and signal = ''; "
  .. "update runnel_run set cancelled = ?3 where name = ?1 and id = ?2"

---The text of a key in a row that has the column `kind`, its type.
---@param row table
---@return string
function run_table.key_text(row)
  if row.kind == "blob" then return row.key == "" and "x''" or row.key end
  if row.key == "" then return '""' end
  local _, text = keys.of(row.key)
  return text
end

-- ---- signals ----

---The first signal of a name that came until a time, and the number of the last signal of all.
run_table.LOOK = [[
select latest.seq as seen, s.* from
  (select coalesce(max(seq), 0) as seq from runnel_signal where name = ?1 and id = ?2) latest
  left join (select seq as number, form, value from runnel_signal where name = ?1 and id = ?2 and signal = ?3
    and made <= ?4 order by seq limit 1) s]]

---Stores a signal, and wakes the run if it waits. The numbers of rows that it changes: 0 if the run cannot get it.
run_table.SIGNAL = [[
insert into runnel_signal(name, id, signal, form, value, made)
  select name, id, ?3, ?4, ?5, ?6 from runnel_run where name = ?1 and id = ?2
    and state not in ('done', 'cancelled') and (?3 <> '' or state <> 'failed');
update runnel_delivery set due = ?4 where changes() = 1 and stream = ?3 and holder is null and due > ?4
  and seq = (select seq from runnel_run where name = ?1 and id = ?2
    and (state in ('sleeping', 'waiting') or ?5 = '' and state = 'retrying'))]]

run_table.NEWER = "select seq, id, signal from runnel_signal where name = ? and seq > ? order by seq"

-- ---- the end of a call ----

---What follows the end of a run's delivery.
run_table.RESULT = [[;
insert or replace into runnel_once(scope, name, key, step, failed, form, value, made, expires)
  select '', ?1, ?2, null, ?3, ?4, ?5, ?6, null where changes() = 1;
update runnel_run set state = ?3, since = ?4, due = null, step = ?5, line = ?6, error = ?7
  where name = ?1 and id = ?2 and changes() = 1;
delete from runnel_signal where name = ?1 and id = ?2
  and (select state from runnel_run where name = ?1 and id = ?2) in ('done', 'cancelled')]]

---Lets a run wait without a process that has it, until a time, or until a signal comes that it has not seen.
run_table.LEAVE = [[
update runnel_delivery set holder = null, claim = null, starts = null, deliveries = 0,
    due = case when exists (select 1 from runnel_signal where name = ?5 and id = ?6 and seq > ?7) then ?8 else ?9 end
  where stream = ?1 and seq = ?2 and consumer = ?3 and holder = ?4;
update runnel_run set since = case when state = ?3 then since else ?4 end, state = ?3, due = ?5, step = ?6, line = ?7
  where name = ?1 and id = ?2 and changes() = 1]]

---A dead letter of a run was put into the stream again.
run_table.REPLAY = [[
update runnel_run set seq = ?3, state = 'ready', since = ?4, step = null, line = null where name = ?1 and id = ?2;
delete from runnel_once where scope = '' and name = ? and key = ?]]

---Its values.
---@param name string
---@param id string|number
---@param seq integer of the message
---@param time integer
function run_table.replay(name, id, seq, time)
  local column = run_table.key(name, id)
  return name, column, seq, time, name, column
end

---What is shown of a run that has failed, and is tried again.
run_table.FAILED = [[
update runnel_run set since = case when state = ?3 then since else ?4 end, state = ?3, due = null, step = ?5, line = ?6,
  error = ?7 where name = ?1 and id = ?2]]

-- ---- looking ----

local STATE <const> = [[
case when r.state in ('done', 'failed', 'cancelled') then r.state
  when d.holder is not null and (r.state in ('ready', 'retrying') or r.due <= $NOW) then 'running'
  when r.due <= $NOW then 'ready' else r.state end]]

---The rows of runs, with their states at a time ?1. ?2 is the stream, ?3 the name.
run_table.SHOW = ([[
select r.id, $STATE as state, r.since, r.due, r.step, r.line, r.note, r.error, r.made, d.starts
  from runnel_run r left join runnel_delivery d on d.stream = ?2 and d.seq = r.seq and d.consumer = ?3
  where r.name = ?3 ]]):gsub("%$STATE", STATE):gsub("%$NOW", "?1")
run_table.LIST = run_table.SHOW .. ([[
  and (?4 is null or r.id > ?4) and (?5 is null or $STATE = ?5) order by r.id limit ?6]])
  :gsub("%$STATE", STATE):gsub("%$NOW", "?1")
run_table.ONE = run_table.SHOW .. " and r.id = ?4"

---@param form string
---@param value any
---@return any
function run_table.value(form, value) return values.of(values.entry(form, value)) end

return run_table
