---The messages that wait in a queue of a store, for operators: listed, removed, moved to another stream.

local counts = require "runnel.queue.count"
local jobs = require "runnel.store.jobs"
local problems = require "runnel.store.problems"
local run_table = require "runnel.store.runs.run_table"
local streams = require "runnel.store.stream"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.store.values"
local waiting = require "runnel.store.waiting"

local waiting_list = {}

-- Messages that are not done, with the condition %s; and which of them wait. One that was never delivered, and is never
-- due, waits behind another one of its key (by_key.lua): the columns $KEYS are its key, and the first one of that.
local MESSAGES <const> = ([[
select m.seq, m.id, m.subject, m.form, m.value, m.bytes, m.made, d.starts, d.due, d.holder, $KEYS
from runnel_consumer c join runnel_message m on m.stream = c.stream
  left join runnel_delivery d on d.stream = c.stream and d.seq = m.seq and d.consumer = c.name
where c.stream = ?1 and c.name = ?2 and (c.subject is null or runnel_matches(m.subject, c.subject))
  and case when d.seq is null then m.seq >= c.next and (m.priority = 0 or m.seq <= c.since) else d.due < $NEVER
    or d.holder is not null or d.deliveries = 0 end and %s]]):gsub("%$NEVER", math.maxinteger)
local LIST <const> = MESSAGES:format "m.seq > ?3 and d.holder is null order by m.seq limit ?4"
local FIND <const> = MESSAGES:format "m.seq = ?3"
local KEYS <const> = "d.key, (select min(seq) from runnel_delivery where stream = c.stream and consumer = c.name "
  .. "and key = d.key) as first"

-- The rows of LIST or FIND. Only files in which a queue has the option `key` have keys.
local function rows_of(queue, sql, ...)
  local found, err = queue.owner:attempt("rows", "select 1 from sqlite_schema where name = 'runnel_delivery_key'")
  if not found then return nil, err end
  return queue.owner:attempt("rows", sql:gsub("%$KEYS", found[1] and KEYS or "null as key, null as first"),
    queue.stream, queue.consumer, ...)
end

local function message_of(row)
  local value, problem = values.read(row.form, row.value)
  local count = counts.read(row.starts)
  return { sequence = row.seq, id = row.id, subject = row.subject, time = row.made, bytes = row.bytes,
    key = row.key, behind = row.first and row.first < row.seq and row.first or nil,
    value = value, problem = problem, due = row.due and row.due > 0 and row.due < math.maxinteger and row.due or nil,
    starts = count and count.starts or 0, raises = count and count.raises or 0,
    error = count and count.error and tostring(timed_out.of_plain(count.error)) or nil,
    errors = count and count.errors }
end

---@param queue runnel.store.Queue
---@param after integer
---@param most integer
---@return runnel.queue.Waiting[]? list, string? err
function waiting_list.read(queue, after, most)
  local rows, err = rows_of(queue, LIST, after, most)
  if not rows then return nil, err end
  for i, row in ipairs(rows) do rows[i] = message_of(row) end
  return rows
end

---@param queue runnel.store.Queue
---@param sequence integer
---@return runnel.queue.Waiting? message, string? err
function waiting_list.find(queue, sequence)
  local rows, err = rows_of(queue, FIND, sequence)
  if not rows then return nil, err end
  local message = rows[1] and message_of(rows[1])
  if message then message.running = rows[1].holder ~= nil end
  return message
end

local REMOVE <const> = "delete from runnel_message as m where m.stream = ?1 and m.seq = ?2 and " .. waiting.WAITS
  .. " returning seq"
local FREE <const> = "delete from runnel_id where stream = ?1 and seq = ?2 and exists (select 1 from runnel_message m "
  .. "where m.stream = ?1 and m.seq = ?2 and " .. waiting.WAITS .. "); "

local function missing(queue, sequence)
  return ("message %d of %s does not wait: a worker has it, or it is done"):format(sequence, queue.name)
end

---@param queue runnel.store.Queue
---@param sequence integer
---@return true? cancelled, string? err
function waiting_list.remove(queue, sequence)
  local store, stream = queue.owner, queue.stream
  if run_table.is_stream(stream) then
    return nil, ("cancel: the messages of %s are runs, which would never end without them: cancel the run (r:cancel, "
      .. "runnel runs %s cancel RUN)"):format(queue.name, store.path)
  end
  local rows, err = store:attempt("last", FREE .. REMOVE, stream, sequence, stream, sequence)
  if not rows then return nil, err end
  if not rows[1] then return nil, missing(queue, sequence) end
  store:ring(stream)
  return true
end

-- The subject that a message %s has in a stream s: its own if the stream takes that, or the first one that is no
-- pattern.
local SUBJECT <const> = [[(select case
  when exists (select 1 from json_each(s.subjects) p where runnel_matches(m.subject, p.value)) then m.subject
  else (select p.value from json_each(s.subjects) p where p.value not glob '*[*>]*' limit 1) end)]]

local MOVE <const> = ([[
insert into runnel_message(stream, seq, subject, form, value, bytes, headers, made, id)
  select s.name, s.last + 1, $SUBJECT, m.form, m.value, m.bytes, m.headers, m.made, m.id
  from runnel_message m, runnel_stream s where m.stream = ?1 and m.seq = ?2 and s.name = ?3 and $SUBJECT is not null
    and $WAITS;
delete from runnel_message as m where m.stream = ?1 and m.seq = ?2 and changes() = 1 returning seq]])
  :gsub("%$SUBJECT", SUBJECT):gsub("%$WAITS", (waiting.WAITS:gsub("%%", "%%%%")))

---@param queue runnel.store.Queue
---@param sequence integer
---@param to string a stream
---@return true? moved, string? err
function waiting_list.move(queue, sequence, to)
  local store, stream = queue.owner, queue.stream
  if run_table.is_stream(stream) then
    return nil, ("move: the messages of %s are runs, which would never end without them"):format(queue.name)
  end
  if run_table.is_stream(to) or jobs.stage_of(to) then
    return nil, ("move: the stream %q takes only %s"):format(to, run_table.is_stream(to) and "runs" or "jobs")
  end
  local target, why = streams.open(store, to)
  if not target then return nil, why end
  local rows, err = store:attempt("last", MOVE, stream, sequence, to, stream, sequence)
  if not rows then return nil, (problems.of_put(err, to)) end
  if rows[1] then
    store:ring(stream)
    store:ring(to)
    return true
  end
  local there = store:attempt("rows", "select 1 from runnel_stream s, runnel_message m where m.stream = ? "
    .. "and m.seq = ? and s.name = ? and " .. SUBJECT .. " is null", stream, sequence, to)
  if there and there[1] then
    return nil, ("the stream %q takes only %s"):format(to, table.concat(target.subjects, ", "))
  end
  return nil, missing(queue, sequence)
end

return waiting_list
