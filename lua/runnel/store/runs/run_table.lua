---The rows of runs (store:runs): a run is a call of `once` that is continued. Its row in runnel_run has its argument
---and its state, its steps and its result are rows of runnel_once, and its signals rows of runnel_signal.

local check = require "runnel.internal.check"
local keys = require "runnel.store.keys"
local sink = require "runnel.store.sink"
local steps = require "runnel.store.steps"
local streams = require "runnel.store.stream"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.store.values"
local raise = require("runnel.core").internal.raise

local run_table = {}

---The stream of the runs of a name, whose messages are the runs that have not ended.
---@param name string
---@return string
function run_table.stream(name) return streams.RUNS .. name end

---Whether a stream is that of runs.
---@param stream string
---@return boolean
function run_table.is_stream(stream) return stream:sub(1, #streams.RUNS) == streams.RUNS end

---What store:ring tells the runs of a name when signals have come.
---@param name string
---@return string
function run_table.signals(name) return "signals " .. name end

---The time that never comes; the signals by which a run is cancelled, and by which it hears that another one has ended.
run_table.NEVER, run_table.CANCEL, run_table.ENDED = math.maxinteger, "", "\1"

---The names of a run: its id as a column, and the scope of its steps.
---@param name string
---@param id string|number
---@return any column, string scope
function run_table.key(name, id)
  local column, text = keys.of(id)
  return column, steps.scope("", name, text)
end

---The run whose function has started the running go block, if it is in the file of a store.
---@param store runnel.store.Store
---@return runnel.store.RunSteps?
function run_table.current(store)
  local run = steps.current()
  local own = run and run.is_run and run.work.store
  return own and (own == store or own.file and own.file == store.file) and run or nil
end

---Runs a statement; raises its error at the program's line.
---@param of runnel.store.Store|runnel.store.RunSteps which has the method `attempt`
---@param what string
---@param kind "exec"|"rows"|"last"
---@param sql string
---@param ... any
---@return any result
function run_table.must(of, what, kind, sql, ...)
  local result, problem = of:attempt(kind, sql, ...)
  if result then return result end
  timed_out.raise(timed_out.with_text(problem, ("%s: %s"):format(what, problem)))
end

---Checks the name of a signal.
---@param name any
---@param what string
function run_table.check_signal(name, what)
  check.string(name, "the name of a signal", what)
  if name:find "^%c" or name == "" then raise(what .. ": the name of a signal is a text, and not empty") end
end

-- ---- starting ----

-- Puts the message of a run, if the statement before has stored that: else its number is null, and it is ignored. As
-- "values", since "select" would fill a table in memory first.
local MESSAGE <const> = [[
insert or ignore into runnel_message(stream, seq, subject, form, value, bytes, priority, made)
  values (?1, case when changes() = 1 then (select last + 1 from runnel_stream where name = ?1) end, 'run', ?2, ?3, ?4,
    ?5, ?6);
]]

run_table.FIND = "select * from runnel_run where name = ? and id = ?"

-- A run that is to be cancelled starts no others.
local START <const> = [[
insert or ignore into runnel_run(name, id, seq, form, value, made, state, since, parent, parent_id, priority)
  select ?1, ?2, last + 1, ?3, ?4, ?5, 'ready', ?5, ?7, ?8, ?9 from runnel_stream where name = ?6
    and not exists (select 1 from runnel_signal where name = ?7 and id = ?8 and signal = '');
]] .. MESSAGE
-- A new run need not be read.
local FIND_OTHER <const> = run_table.FIND .. " and changes() = 0"
-- With a priority, its message is delivered at once, as a put with one is.
local BY_PRIORITY <const> = START .. sink.WITH_PRIORITY .. ";" .. run_table.FIND

---The statement that starts a run, and its values. If it changes nothing, it finds the run that is there.
---@param ref runnel.store.RunRef
---@param stream string
---@param form string
---@param data any for a parameter
---@param priority integer
---@param parent? runnel.store.RunSteps
---@return string sql, any ... values
function run_table.start(ref, stream, form, data, priority, parent)
  local name, id, time, id_form, id_data = ref.name, ref.column, ref.store:time(), values.encode(ref.id, "the id")
  local parent_name, parent_id = parent and parent.work.name, parent and parent.id
  local size = values.size(id_data)
  if priority == 0 then
    return START .. FIND_OTHER, name, id, form, data, time, stream, parent_name, parent_id, priority,
      stream, id_form, id_data, size, priority, time, name, id
  end
  return BY_PRIORITY, name, id, form, data, time, stream, parent_name, parent_id, priority,
    stream, id_form, id_data, size, priority, time, stream, "run", -priority, stream, "run", name, id
end

local START_AGAIN <const> = [[
update runnel_run set seq = (select last + 1 from runnel_stream where name = ?1), state = 'ready', since = ?4,
    due = null, step = null, line = null, error = null, cancelled = null
  where name = ?2 and id = ?3;
]] .. MESSAGE

---The same for a run that is there.
---@param ref runnel.store.RunRef
---@param stream string
---@param priority integer with which it was started
---@return string sql, any ... values
function run_table.start_again(ref, stream, priority)
  local time, form, data = ref.store:time(), values.encode(ref.id, "the id")
  if priority == 0 then
    return START_AGAIN, stream, ref.name, ref.column, time, stream, form, data, values.size(data), priority, time
  end
  return START_AGAIN .. sink.WITH_PRIORITY, stream, ref.name, ref.column, time, stream, form, data, values.size(data),
    priority, time, stream, "run", -priority, stream, "run"
end

---Forgets a run. Those that it has started have no parent then: its id may come again, for another run.
run_table.FORGET = "delete from runnel_run where name = ? and id = ?; "
  .. "update runnel_run set parent = null, parent_id = null where parent = ? and parent_id = ?; "
  .. "delete from runnel_signal where name = ? and id = ?; "
  .. "delete from runnel_once where scope = '' and name = ? and key = ?; " .. steps.FORGET

-- ---- steps ----

---The steps of a run, but not those within them.
run_table.STEPS = [[
select scope, name, key, typeof(key) as kind, step, failed, form, value, made, expires, began from runnel_once
  where scope > ?1 || ' > ' and scope < ?1 || ' >!' and instr(substr(scope, length(?1) + 4), '[') = 0]]

run_table.KEEP = [[
insert or replace into runnel_once(scope, name, key, step, failed, form, value, made, expires, began)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]]

---What follows it, for a sleep or a wait that begins, and for one that ends.
run_table.WAITS = [[
update runnel_run set state = ?3, since = ?4, due = ?5, step = ?6, line = ?7 where name = ?1 and id = ?2]]
run_table.GOES_ON = [[
update runnel_run set state = 'ready', since = ?3, due = null, step = null, line = null where name = ?1 and id = ?2]]

---A step takes long, or none does any more.
run_table.SHOW_STEP = [[
update runnel_run set step = ?3, line = ?4, since = ?5 where name = ?1 and id = ?2 and state = 'ready']]

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

-- The run with a name and an id, unless it has ended; and if the signal ?3 cancels it, all that it has started, too.
-- Each once ("union"), since in a file from before, forgotten runs may have made a circle of parents.
local DOWN <const> = [[
with recursive down(name, id, seq, state) as (
  select name, id, seq, state from runnel_run where name = ?1 and id = ?2 and state not in ('done', 'cancelled')
    and (?3 <> '' or state <> 'failed')
  union select r.name, r.id, r.seq, r.state from down d join runnel_run r on r.parent = d.name
    and r.parent_id = d.id and ?3 = '')
]]

-- Wakes runs that wait. $FROM are rows with name, seq and state; ?3 the signal, ?4 the time.
local WAKE <const> = [[
update runnel_delivery set due = ?4 where changes() > 0 and holder is null and due > ?4
  and (stream, seq) in (select 'runnel-runs-' || name, seq from $FROM
    where state in ('sleeping', 'waiting') or ?3 = '' and state in ('retrying', 'blocked'))]]

---Stores a signal, and wakes the run if it waits. The number of rows that it changes: 0 if the run cannot get it.
run_table.SIGNAL = DOWN .. [[
insert into runnel_signal(name, id, signal, form, value, made)
  select name, id, ?3, ?4, ?5, ?6 from down where state not in ('done', 'cancelled', 'failed')
    or ?3 <> '' and state = 'failed';
]] .. DOWN .. WAKE:gsub("%$FROM", "down")

run_table.NEWER = "select seq, id, signal from runnel_signal where name = ? and seq > ? order by seq"

-- ---- the end of a call ----

-- Stores the signal $SIGNAL to the run ?1, ?2, unless that has ended: nothing would remove it.
local NOTE <const> = [[
insert into runnel_signal(name, id, signal, form, value, made) select ?1, ?2, $SIGNAL, ?3, ?4, ?5
  where (select state from runnel_run where name = ?1 and id = ?2) not in ('done', 'failed', 'cancelled')
    and not exists (select 1 from runnel_signal where name = ?1 and id = ?2 and signal = $SIGNAL and form = ?3
      and value = ?4)]]

---Notes that the run ?3, ?4 waits for the result of the run ?1, ?2.
run_table.LISTEN = NOTE:gsub("%$SIGNAL", "char(2)")

---The same of one that waits for nothing else, without an end, at the step ?6: for WAITERS. The state of the run says
---whether it still does.
run_table.LISTEN_ONLY = run_table.LISTEN .. ";" .. NOTE:gsub("%$SIGNAL", "char(3) || ?6")

---The runs that wait for nothing but the result of the run ?1, ?2.
run_table.WAITERS = [[
select r.name, r.id from runnel_signal s join runnel_run r on r.name = s.form and r.id = s.value
  where s.name = ?1 and s.id = ?2 and s.signal > char(3) and s.signal < char(4)
    and r.state = 'waiting' and r.due is null and s.signal = char(3) || r.step]]

---What follows the end of a run's delivery. The trigger runnel_signal_heard tells the runs that wait for the result.
run_table.RESULT = [[;
insert or replace into runnel_once(scope, name, key, step, failed, form, value, made, expires)
  select '', ?1, ?2, null, ?3, ?4, ?5, ?6, null where changes() = 1;
update runnel_run set state = ?3, since = ?4, due = null, step = ?5, line = ?6, error = ?7
  where name = ?1 and id = ?2 and changes() = 1;
delete from runnel_signal where name = ?1 and id = ?2 and (signal >= char(2) and signal < char(4)
  or ?3 <> 'failed') and changes() = 1]]

---Lets a run wait without a process that has it, until a time, or until a signal comes that it has not seen. One that
---cancels it may have come although its go blocks have only seen that there are signals.
run_table.LEAVE = [[
update runnel_delivery set holder = null, claim = null, starts = null, deliveries = 0,
    due = case when exists (select 1 from runnel_signal where name = ?6 and id = ?7
      and (signal = '' or seq > ?8)) then ?9 else ?10 end
  where stream = ?1 and seq = ?2 and consumer = ?3 and holder = ?4 and claim = ?5;
update runnel_run set since = case when state = ?3 then since else ?4 end, state = ?3, due = ?5, step = ?6, line = ?7
  where name = ?1 and id = ?2 and changes() = 1]]

---A dead letter of a run was put into the stream again. Changes nothing unless the run has failed: it may have been
---started again meanwhile, and even have its result.
run_table.REPLAY = [[
update runnel_run set seq = ?3, state = 'ready', since = ?4, step = null, line = null
  where name = ?1 and id = ?2 and state = 'failed';
delete from runnel_once where scope = '' and name = ? and key = ? and changes() = 1]]

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
select r.id, $STATE as state, r.since, r.due, r.step, r.line, r.note, r.error, r.made, r.parent, r.parent_id, d.starts
  from runnel_run r left join runnel_delivery d on d.stream = ?2 and d.seq = r.seq and d.consumer = ?3
  where r.name = ?3 ]]):gsub("%$STATE", STATE):gsub("%$NOW", "?1")
run_table.ONE = run_table.SHOW .. " and r.id = ?4"

-- Which rows may have a state, from the index; of other states those that have it in the file.
local MAY_HAVE <const> = "and r.id in (select id from runnel_run indexed by runnel_run_state where name = ?3 and %s)"
local CONDITIONS <const> = {
  running = "(state in ('ready', 'retrying') or due <= ?1) and seq in (select seq from runnel_delivery "
    .. "where stream = ?2 and consumer = ?3 and holder is not null)",
  ready = "(state = 'ready' or due <= ?1)",
}

---A list of runs in a state ?5, if that is not nil; with ids after ?4, if `is_after`; and at most ?6.
---@param state? string
---@param is_after boolean
---@return string sql
function run_table.list(state, is_after)
  local show, of_state = run_table.SHOW, "and ?5 is null"
  if CONDITIONS[state] then of_state = MAY_HAVE:format(CONDITIONS[state])
  elseif state then show, of_state = show:gsub("runnel_run r", "%0 indexed by runnel_run_state"), "and r.state = ?5" end
  if state then of_state = of_state .. (" and " .. STATE .. " = ?5"):gsub("%$NOW", "?1") end
  return ("%s %s and %s order by r.id limit ?6"):format(show, of_state, is_after and "r.id > ?4" or "?4 is null")
end

---@param form string
---@param value any
---@return any
function run_table.value(form, value) return values.of(values.entry(form, value)) end

return run_table
