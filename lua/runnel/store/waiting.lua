---Messages that wait, by the ids of their puts: those that no consumer has, or has done. They can be cancelled and
---replaced.

local problems = require "runnel.store.problems"
local values = require "runnel.store.values"

local waiting = {}

-- Whether the message m waits. One that was delivered as often as it may does not, and is never due; one that waits
-- behind another one of its key is not due either, and was never delivered.
local WAITS <const> = ([[not exists (select 1 from runnel_consumer c
  left join runnel_delivery d on d.stream = c.stream and d.seq = m.seq and d.consumer = c.name
  where c.stream = m.stream and (c.subject is null or runnel_matches(m.subject, c.subject))
    and case when d.seq is null then m.seq < c.next or m.priority > 0 and m.seq > c.since
      else d.holder is not null or d.due = %d and d.deliveries > 0 end)]]):format(math.maxinteger)

---The same, for others.
waiting.WAITS = WAITS

-- From here on, ?1 is the stream, and ?2 the id.

local FOUND <const> = "m.stream = ?1 and m.id = ?2 and " .. WAITS
local IS_FOUND <const> = ("exists (select 1 from runnel_message m where %s)"):format(FOUND)

local REMOVE <const> = "delete from runnel_message as m where " .. FOUND

-- Lets the id be free, so that a put with it is stored.
local FREE <const> = "delete from runnel_id where stream = ?1 and id = ?2"

---For puts: whether no message waits.
waiting.NONE_FOUND = "not " .. IS_FOUND

---For puts: a statement that removes the messages that wait.
waiting.REMOVE = REMOVE

---For puts: a statement with the number of the last message that waits, or else of the last one of the stream.
waiting.FOUND_OR_LAST = "select coalesce((select max(m.seq) from runnel_message m where " .. FOUND
  .. "), last) as seq from runnel_stream where name = ?1"

-- Why a message with an id does not wait.
local function missing(store, stream, id)
  local rows, err = store:attempt("rows", "select (select 1 from runnel_stream where name = ?1) as stream, "
    .. "(select 1 from runnel_message where stream = ?1 and id = ?2 limit 1) as message", stream, id)
  if not rows then return err end
  if not rows[1].stream then return problems.no_stream(stream) end
  return (rows[1].message and "the message %q of %q does not wait any more" or "no message %q of %q waits")
    :format(id, stream)
end

---Removes the messages with an id that wait. A put with the id is stored again then. Parks.
---@param store runnel.store.Store
---@param stream string
---@param id string
---@return true? cancelled, string? err
function waiting.cancel(store, stream, id)
  local rows, err = store:attempt("last", ("%s and %s; %s returning seq"):format(FREE, IS_FOUND, REMOVE),
    stream, id, stream, id)
  if not rows then return nil, err end
  if not rows[1] then return nil, missing(store, stream, id) end
  store:ring(stream)
  return true
end

local REPLACE <const> = ([[update runnel_message set form = ?3, value = ?4, bytes = ?5 where stream = ?1
  and seq = (select max(m.seq) from runnel_message m where %s)]]):format(FOUND)

---Gives the last message with an id that waits another value. Its place and its time stay. Parks.
---@param store runnel.store.Store
---@param stream string
---@param id string
---@param form string
---@param data any for a parameter
---@return true? replaced, string? err
function waiting.replace(store, stream, id, form, data)
  local changed, err = store:attempt("exec", REPLACE, stream, id, form, values.of_column(form, data), values.size(data))
  if not changed then return nil, (problems.of_put(err, stream)) end
  if changed == 0 then return nil, missing(store, stream, id) end
  return true
end

return waiting
