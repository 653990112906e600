---Order per key (the option `key` of stages and runs): messages of a key are delivered one at a time, in their order.
---
---A reader gives new messages their keys, as rows of runnel_delivery, before any process gets them. A message behind an
---earlier one of its key is never due; its `turn` says when it is once it is the first one. A trigger (schema.lua) then
---makes it due, whoever has ended or removed the one before it. So whoever looks for messages that are due finds those
---that may start, however many others wait for their keys.

local core = require "runnel.core"
local gather = require "runnel.store.gather"
local json = require "runnel.json"
local keys = require "runnel.store.keys"
local messages = require "runnel.store.message"
local values = require "runnel.store.values"

local is_cancelled = core.internal.is_cancelled

local by_key = {}

---runnel_consumer.since of those that have the option: no message is delivered by its put, also none with a priority.
by_key.SINCE = 9007199254740992

-- How many messages get their keys at a time.
local BATCH <const> = 100

-- New messages.
local READ <const> = [[
select m.seq, m.priority, m.made, m.form, m.value, (select next from runnel_consumer where stream = ?1 and name = ?2)
    as next from runnel_message m
  where m.stream = ?1 and m.seq >= (select next from runnel_consumer where stream = ?1 and name = ?2) $MATCHES
  order by m.seq limit ?3]]

-- The arguments of runs.
local ARGUMENTS <const> = [[
with asked(place, name, id) as (values $ROWS)
select a.place, r.form, r.value from asked a join runnel_run r on r.name = a.name and r.id = a.id]]

-- Stores their keys, unless another process has done so since. The first of a key among them may be the first of all.
local WRITE <const> = ([[
insert or ignore into runnel_delivery(stream, seq, consumer, due, deliveries, key, turn)
  select ?1, seq, ?2, case when waits then $NEVER else turn end, 0, key, case when waits then turn end
  from (select json_extract(value, '$[0]') as seq, json_extract(value, '$[1]') as key,
      json_extract(value, '$[2]') as turn, json_extract(value, '$[3]') or exists (select 1 from runnel_delivery d
        where d.stream = ?1 and d.consumer = ?2 and d.key = json_extract(value, '$[1]')) as waits from json_each(?3))
  where (select next from runnel_consumer where stream = ?1 and name = ?2) = ?4;
update runnel_consumer set delivered = delivered + changes(), next = ?3 where stream = ?1 and name = ?2 and next = ?4]])
  :gsub("%$NEVER", math.maxinteger)

---@class runnel.store.ByKey
---@field private store runnel.store.Store
---@field private stream string
---@field private consumer string
---@field private key fun(value: any): any of the program
---@field private sql string
---@field private kept? table<integer, string> of runs: the texts of ARGUMENTS
local ByKey = {}
ByKey.__index = ByKey

---The key of a value, as a text; raises if the program's function does, or returns none.
---@param f fun(value: any): any
---@param value any
---@return string
function by_key.of(f, value)
  local column, text = keys.of(f(value))
  if column == nil then
    error(("key: a string, a number, or a list of these expected, got %s"):format(text), 0)
  end
  return utf8.len(text) and text or (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- The key of a message. One without a key waits for none: it fails when it is started (by_key.checked).
local function key_of(self, row)
  local ok, text = pcall(function() return by_key.of(self.key, values.of(values.entry(row.form, row.value))) end)
  if ok then return text end
  if is_cancelled(text) then error(text, 0) end
  return ("#%d"):format(row.seq)
end

local function add(all, at, run) all[at + 1], all[at + 2] = run.name, run.column end

-- A batch of new messages, with what the function `key` gets: their values, or the arguments of runs, whose ids are
-- the values. SQL cannot decode all ids: a text may have zero bytes, or be no UTF-8.
local function read(self)
  local store = self.store
  local rows, problem = store:attempt("rows", self.sql, self.stream, self.consumer, BATCH)
  if not rows or #rows == 0 or not self.kept then return rows, problem end
  local runs = {}
  for i, row in ipairs(rows) do
    local column = keys.of((values.read(row.form, row.value)))
    runs[i] = { name = self.consumer, column = column == nil and "" or column } -- no run has the id ""
    row.form, row.value = nil, nil
  end
  local found, why = store:attempt("rows", gather.statement(self.kept, ARGUMENTS, 2, runs, add))
  if not found then return nil, why end
  for _, one in ipairs(found) do rows[one.place].form, rows[one.place].value = one.form, one.value end
  return rows
end

---Gives a batch of new messages their keys. Parks.
---@return integer? count how many; 0: there are none
---@return any problem
function ByKey:sort()
  local store, stream, consumer = self.store, self.stream, self.consumer
  local rows, problem = read(self)
  if not rows then return nil, problem end
  if #rows == 0 then return 0 end
  local list, now, seen = {}, store:time(), {}
  for i, row in ipairs(rows) do
    local key = key_of(self, row)
    local turn = row.priority > 0 and -row.priority or math.floor(math.min(row.made, now))
    list[i], seen[key] = { row.seq, key, turn, seen[key] and 1 or 0 }, true
  end
  local next = rows[1].next
  local ok, why = store:attempt("exec", WRITE, stream, consumer, assert(json.encode(list)), next,
    stream, consumer, rows[#rows].seq + 1, next)
  if not ok then return nil, why end
  return #rows
end

---@param store runnel.store.Store
---@param stream string
---@param consumer string
---@param key fun(value: any): any
---@param matches string the condition for its messages, as SQL
---@param of_runs? boolean the key is that of the argument of a run, and the consumer has the name of the runs
---@return runnel.store.ByKey
function by_key.new(store, stream, consumer, key, matches, of_runs)
  return setmetatable({
    store = store, stream = stream, consumer = consumer, key = key, kept = of_runs and {} or nil,
    sql = (READ:gsub("%$MATCHES", matches)),
  }, ByKey)
end

---The function of a stage, which fails for a value without a key.
---@param f function
---@param key fun(value: any): any
---@return function
function by_key.checked(f, key)
  return function(value, message, ...)
    by_key.of(key, value)
    local work <close> = messages.begin(message) -- luacheck: ignore 211
    return f(value, message, ...)
  end
end

return by_key
