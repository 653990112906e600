---What a stage or a named source has of a stream in a store: runnel_consumer, and its rows in runnel_delivery. Here are
---the statements that deliver messages and answer them.
---
---A delivered message belongs to a process (Store.holder). The process holds a lock of the system of that name while it
---runs (core.locks). So others see at once when it has ended, and take its messages over: a lease needs no extension.
---Only messages that a program acknowledges itself (a named source) have a lease that ends.

local by_key = require "runnel.store.by_key"
local clock = require "runnel.store.clock"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local problems = require "runnel.store.problems"
local steps = require "runnel.store.steps"

local sleep = core.sleep

local consumer = {}

-- How long it waits until it repeats a failed statement, in ms.
local TRIES_AGAIN <const> = 200

-- How often it forgets the steps of messages that were removed while they waited for a further try, in ms.
local FORGETS <const> = 60000

-- The time that never comes.
local NEVER <const> = math.maxinteger

-- ---- statements ----

-- From ROOM to STATE, ?1 is the stream, ?2 the consumer, and ?3 the holder.

local OPEN <const> = [[
insert or ignore into runnel_consumer(stream, name, subject, next, since, max_pending, ack_wait, tries, made)
  select ?1, ?2, ?3, case ?4
      when 'all' then 1
      when 'new' then last + 1
      when 'last' then coalesce((select max(seq) from runnel_message
        where stream = ?1 and (?3 is null or runnel_matches(subject, ?3))), last + 1)
      else ?4 end,
    coalesce(?9, last), ?5, ?6, ?7, ?8
  from runnel_stream where name = ?1 and (retention <> 'workqueue' or not exists (
    select 1 from runnel_consumer where stream = ?1 and (subject is null or ?3 is null)));
select c.*, s.retention, s.max_age, s.made as stream_made from runnel_stream s
  left join runnel_consumer c on c.stream = s.name and c.name = ?2 where s.name = ?1]]

-- How many messages may be claimed: at most %s; none of a consumer that was deleted and made again since.
local ROOM <const> = [[coalesce((select case when paused then 0 else max(0, min(%s, max_pending -
  (select count(*) from runnel_delivery where stream = ?1 and consumer = ?2 and holder is not null))) end
  from runnel_consumer where stream = ?1 and name = ?2 and made = $MADE), 0)]]

-- The time of the message %s before which it must not be delivered; null if it has none. Another program may have
-- written any headers.
local AT <const> = [[(select case when json_valid(headers) then
    min(cast(json_extract(headers, '$."Runnel-At"') as integer), 9007199254740992) end
  from runnel_message where stream = ?1 and seq = %s and typeof(headers) = 'text')]]

-- Claims messages. AGAIN: those that are delivered again. NEW: then new ones; notes which ones are new from now on.
-- COME: lets those wait whose time has not come, and which so are not delivered; and forgets those that were removed.
local AGAIN <const> = ([[
update runnel_delivery set holder = ?3, claim = ?4, due = ?5, deliveries = min(deliveries, 1000000000) + 1
  where (stream, seq, consumer) in (select stream, seq, consumer from runnel_delivery
    where stream = ?1 and consumer = ?2 and due <= ?6 and due < $NEVER order by due limit $ROOM);]])
  :gsub("%$ROOM", (ROOM:format "?7")):gsub("%$NEVER", NEVER)
local NEW <const> = ([[
insert into runnel_delivery(stream, seq, consumer, due, deliveries, holder, claim)
  select stream, seq, ?2, ?5, 1, ?3, ?4 from runnel_message m
  where stream = ?1 and seq >= (select next from runnel_consumer where stream = ?1 and name = ?2) $NEW
  order by seq limit $ROOM;
update runnel_consumer set delivered = delivered + changes(), next = (select max(seq) + 1 from runnel_delivery
    where stream = ?1 and consumer = ?2 and holder = ?3 and claim = ?4)
  where stream = ?1 and name = ?2 and changes() > 0;]]):gsub("%$ROOM", (ROOM:format "?6 - changes()"))
local SKIP <const> = [[
update runnel_consumer as c set next = (select last + 1 from runnel_stream where name = ?1)
  where stream = ?1 and name = ?2 and next <= (select last from runnel_stream where name = ?1)
    and not exists (select 1 from runnel_message m where stream = ?1 and seq >= c.next $NEW);]]
local COME <const> = ([[
update runnel_delivery set holder = null, claim = null, deliveries = 0, due = $AT
  where stream = ?1 and consumer = ?2 and holder = ?3 and claim = ?4 and $AT > ?5;
delete from runnel_delivery where stream = ?1 and consumer = ?2 and holder = ?3 and claim = ?4
  and not exists (select 1 from runnel_message m where m.stream = ?1 and m.seq = runnel_delivery.seq);
select m.seq, m.subject, m.form, m.value, m.headers, m.priority, m.made, d.deliveries, d.claim, s.last
  from runnel_stream s cross join runnel_delivery d indexed by runnel_delivery_held cross join runnel_message m
  where d.stream = ?1 and d.consumer = ?2 and d.holder = ?3 and d.claim in (?4, ?5) and s.name = ?1
    and m.stream = ?1 and m.seq = d.seq order by d.claim, d.seq]]):gsub("%$AT", (AT:format "runnel_delivery.seq"))

-- Removes messages that are older than the stream's max_age: a put does that, too, but perhaps there is none. Some at a
-- time, from the first on.
local EXPIRE <const> = [[
delete from runnel_message where stream = ?1 and seq in (
    select seq from runnel_message where stream = ?1 order by seq limit 20)
  and made < ?2 - (select max_age from runnel_stream where name = ?1)]]

-- Which messages from runnel_consumer.next on are new: not those that their put has delivered, because they have a
-- priority. With a pattern: only those with such a subject.
local IS_NEW <const> = [[and (m.priority = 0
  or m.seq <= (select since from runnel_consumer where stream = ?1 and name = ?2))]]
local MATCHES <const> = [[
 and runnel_matches(m.subject, (select subject from runnel_consumer where stream = ?1 and name = ?2))]]

local STATE <const> = ([[
select c.paused, c.resumes, c.asked, c.made, c.next, c.next <= s.last as has_new, s.max_age,
  (select min(due) from runnel_delivery where stream = ?1 and consumer = ?2 and due < $NEVER) as due
from runnel_consumer c, runnel_stream s where c.stream = ?1 and c.name = ?2 and s.name = ?1]]):gsub("%$NEVER", NEVER)

local RESUME <const> = "update runnel_consumer set paused = 0, resumes = null "
  .. "where stream = ? and name = ? and resumes <= ?"

-- Answers have an effect only while the delivery is the one that the message came with (Consumer:delivery_of). Not if
-- it was delivered again since, also to this process; nor if its stream was deleted and made again. But an
-- acknowledgement after the lease holds for a further delivery to this process, too: else a program that always takes
-- longer than its lease would get the message for ever.
local OWN <const> = "where stream = ?1 and seq = ?2 and consumer = ?3 and holder = ?4 and claim = ?5"
local END <const> = "delete from runnel_delivery " .. OWN
local ACK <const> = [[
delete from runnel_delivery where stream = ?1 and seq = ?2 and consumer = ?3 and holder = ?4
  and exists (select 1 from runnel_consumer where stream = ?1 and name = ?3 and made = ?5)]]
local BACK <const> = "update runnel_delivery set holder = null, due = ?6 " .. OWN
local LEASE <const> = "update runnel_delivery set due = ?6 " .. OWN

-- Messages that were delivered as often as they may, and would be delivered again.
local GIVE_UP <const> = "update runnel_delivery indexed by runnel_delivery_due set holder = null, due = ?4 "
  .. "where stream = ?1 and consumer = ?2 and due <= ?5 and due < " .. NEVER .. " and deliveries >= ?3"

-- The processes that have messages or workers, but for this one. From one to the next, since messages may be many.
local HOLDERS <const> = [[
with recursive found(holder) as (
  select min(holder) from runnel_delivery indexed by runnel_delivery_held
    where stream = ?1 and consumer = ?2 and holder is not null
  union all select (select min(d.holder) from runnel_delivery d indexed by runnel_delivery_held
    where d.stream = ?1 and d.consumer = ?2 and d.holder > found.holder) from found where found.holder is not null)
select holder from found where holder <> ?3
union select holder from runnel_worker where stream = ?1 and consumer = ?2 and holder <> ?3]]
local TAKE_BACK <const> = [[
update runnel_delivery set holder = null, due = ?4 where stream = ?1 and consumer = ?2 and holder = ?3;
delete from runnel_worker where stream = ?1 and consumer = ?2 and holder = ?3]]

-- ---- opening ----

---@class runnel.store.Consumer
---@field store runnel.store.Store
---@field stream string
---@field name string
---@field made integer when the stream was made
---@field ack_wait integer ms
---@field tries? integer
---@field private max_age? integer of the messages of the stream, when it was last read
---@field since integer when it was made: by that it is known from another one of its name
---@field private forgot number when it last forgot the steps of messages that were removed
---@field private claim_sql string
---@field private skip_sql string
---@field private order? runnel.store.ByKey of the option `key`
local Consumer = {}
Consumer.__index = Consumer

-- The columns of options with other names.
local COLUMNS <const> = { max_running = "max_pending" }

---Opens a consumer, and makes it first if it does not exist. Parks.
---@param store runnel.store.Store
---@param stream string
---@param name string
---@param opts { subject?: string, from?: string|integer, max_running?: integer, usual_pending?: integer,
---ack_wait?: number, tries?: integer, key?: (fun(value: any): any), of_runs?: boolean } `usual_pending`: of a new one,
---if there is no max_running; `of_runs`: `key` gets the arguments of runs
---@return runnel.store.Consumer? consumer, string? err
function consumer.open(store, stream, name, opts)
  local ack_wait, tries = clock.setting(opts.ack_wait), clock.setting(opts.tries)
  local max_running = clock.setting(opts.max_running)
  local rows, err = store:attempt("last", OPEN, stream, name, opts.subject, opts.from or "all",
    max_running or opts.usual_pending or 1000, ack_wait or 30000, tries, store:time(),
    opts.key and by_key.SINCE or nil, stream, name)
  if not rows then return nil, err end
  local row = rows[1]
  if not row then return nil, problems.no_stream(stream) end
  if not row.name then
    return nil, ("the stream %q is a work queue, and has a consumer already"):format(stream)
  end
  local wrong = problems.difference(row, { subject = opts.subject, max_running = max_running,
    ack_wait = ack_wait, tries = tries }, COLUMNS)
  if wrong then return nil, ("the consumer %q of %q exists with other settings: %s"):format(name, stream, wrong) end
  if (row.since == by_key.SINCE) ~= (opts.key ~= nil) then
    local has <const> = opts.key and "has not the" or "has the"
    return nil, ("the consumer %q of %q exists with other settings: it %s option key; end its programs, and delete it "
      .. "(store:queue(%q):delete())"):format(name, stream, has, stream .. "/" .. name)
  end
  local is_new = IS_NEW .. (row.subject and MATCHES or "")
  return setmetatable({
    store = store, stream = stream, name = name, made = row.stream_made, ack_wait = row.ack_wait, tries = row.tries,
    paused = row.paused == 1, asked = row.asked, since = row.made, max_age = row.max_age,
    forgot = core.now(),
    claim_sql = (opts.key and AGAIN .. COME or AGAIN .. NEW .. SKIP .. COME)
      :gsub("%$NEW", is_new):gsub("%$MADE", ("%.17g"):format(row.made)),
    skip_sql = SKIP:gsub("%$NEW", is_new),
    order = opts.key and by_key.new(store, stream, name, opts.key, row.subject and MATCHES or "", opts.of_runs),
  }, Consumer)
end

-- Runs a statement; raises its error.
local function must(store, kind, sql, ...)
  local result, problem = store:attempt(kind, sql, ...)
  if not result then error(problem, 0) end
  return result
end

-- ---- delivering ----

-- Claims messages of keys of which no other one is in work.
local function claim_by_key(self, room)
  local stream, name, holder = self.stream, self.name, self.store.holder
  local now, claim = self.store:time(), self.store:claim()
  return must(self.store, "last", self.claim_sql,
    stream, name, holder, claim, NEVER, now, room,
    stream, name, holder, claim, now,
    stream, name, holder, claim,
    stream, name, holder, claim, claim)
end

-- The same; if there are too few, gives new ones their keys first.
local function claim_in_order(self, room)
  local rows = claim_by_key(self, room)
  if #rows == room then return rows end
  local count, problem = self.order:sort()
  if not count then error(problem, 0) end
  if count == 0 then
    must(self.store, "exec", self.skip_sql, self.stream, self.name)
    return rows
  end
  return table.move(claim_by_key(self, room - #rows), 1, room, #rows + 1, rows)
end

---Claims messages for this process. Raises if that fails. Parks.
---@param room integer how many at most
---@return table[] rows of messages, in their order
function Consumer:claim(room)
  local stream, name, holder, now = self.stream, self.name, self.store.holder, self.store:time()
  while self.max_age and must(self.store, "exec", EXPIRE, stream, now) > 0 do
    must(self.store, "exec", steps.forget_lost(self))
  end
  if core.now() - self.forgot >= FORGETS then
    self.forgot = core.now()
    must(self.store, "exec", steps.forget_lost(self))
  end
  if self.order then return claim_in_order(self, room) end
  local claim = self.store:claim()
  if self.tries then must(self.store, "exec", GIVE_UP, stream, name, self.tries, NEVER, now) end
  return must(self.store, "last", self.claim_sql,
    stream, name, holder, claim, NEVER, now, room,
    stream, name, holder, claim + 1, NEVER, room,
    stream, name, holder, claim + 1,
    stream, name,
    stream, name, holder, claim + 1, now,
    stream, name, holder, claim,
    stream, name, holder, claim, claim + 1)
end

---How it is: `paused`, `asked`, `next`, the first message that was not delivered, `has_new` (1 if there may be such
---messages), `due`, when the next one is delivered again, and `resumes`, when the pause ends: it ends here. Nil if it
---was deleted. Raises if the question fails. Parks.
---@return { paused: integer, resumes: integer?, asked: integer, next: integer, has_new: integer, due: integer? }?
function Consumer:state()
  local store, stream, name = self.store, self.stream, self.name
  local state = must(store, "rows", STATE, stream, name)[1]
  if state and state.made ~= self.since then return nil end
  self.max_age = state and state.max_age
  if state and state.paused == 1 and state.resumes and state.resumes <= store:time() then
    must(store, "exec", RESUME, stream, name, store:time())
    state.paused, state.resumes = 0, nil
  end
  return state
end

---Gives back the messages of processes that have ended. Parks.
---@param store runnel.store.Store
---@param stream string
---@param name string of the consumer
---@return true? ok, string? err
function consumer.take_back(store, stream, name)
  local locks = store.locks -- nil: no other process has the store
  local rows, err = store:attempt("rows", HOLDERS, stream, name, store.holder)
  if not rows then return nil, err --[[@as string]] end
  for _, row in ipairs(rows) do
    local holder = row.holder
    if not locks or locks:try(holder) then
      local ok, why = store:attempt("exec", TAKE_BACK, stream, name, holder, store:time(), stream, name, holder)
      if locks then locks:release(holder) end
      if not ok then return nil, why --[[@as string]] end
    end
  end
  return true
end

local GONE <const> = [[
select seq from runnel_delivery d indexed by runnel_delivery_held where stream = ?1 and consumer = ?2 and holder = ?3
  and not exists (select 1 from runnel_message m where m.stream = ?1 and m.seq = d.seq)]]

---The messages of this process that were removed from the stream since. Raises if the question fails. Parks.
---@return table<integer, boolean> sequences
function Consumer:gone()
  local gone = {}
  for _, row in ipairs(must(self.store, "rows", GONE, self.stream, self.name, self.store.holder)) do
    gone[row.seq] = true
  end
  return gone
end

-- ---- answers ----

-- Runs a statement in the background, and repeats it until it succeeds. Then wakes the readers of the stream.
local function later(self, sql, ...)
  local store, stream = self.store, self.stream
  store:note_time()
  guard.started(store:in_background(function(...)
    repeat
      if store.has_ended then return end -- the system has released its lock: others take its messages
      if store.db:attempt("exec", sql, ...) then return store:ring(stream) end
      sleep(TRIES_AGAIN)
    until store.is_closed
  end, ...), "store")
end

---What tells the delivery with which a message came from all others: the first values of OWN.
---@param message runnel.store.Message
---@return string stream, integer seq, string consumer, string holder, integer claim
function Consumer:delivery_of(message)
  return self.stream, message.sequence, self.name, self.store.holder, message.claim
end

---Gives a message back, to be delivered again at once, or after ms. In the background.
---@param message runnel.store.Message
---@param ms? number
function Consumer:back(message, ms)
  local due = self.store:after(ms or 0)
  if message.priority > 0 and not ms then due = -message.priority end
  local stream, seq, name, holder, claim = self:delivery_of(message)
  later(self, BACK, stream, seq, name, holder, claim, due)
end

---Ends a message. In the background.
---@param message runnel.store.Message
---@param scope? string of its steps, which are forgotten
function Consumer:finish(message, scope)
  local stream, seq, name, holder, claim = self:delivery_of(message)
  local sql = scope and END .. ";" .. steps.FORGET_IF_CHANGED or END
  later(self, sql, stream, seq, name, holder, claim, table.unpack { scope })
end

---Ends a message that the program acknowledges. In the background.
---@param message runnel.store.Message
function Consumer:acknowledge(message)
  later(self, ACK, self.stream, message.sequence, self.name, self.store.holder, self.since)
end

---Lets the lease of a message end after ack_wait from now. In the background.
---@param message runnel.store.Message
function Consumer:lease(message)
  local stream, seq, name, holder, claim = self:delivery_of(message)
  later(self, LEASE, stream, seq, name, holder, claim, self.store:after(self.ack_wait))
end

---The statement that ends a message, and its values: no row is changed if this process does not have it any more.
---@param message runnel.store.Message
---@return string sql, any ... values
function Consumer:end_of(message) return END, self:delivery_of(message) end

-- ---- workers ----

-- Closes a registration: if the go block was cancelled while it was stored, it may be in the file.
local Registration = { __close = function(self, err)
  if err ~= nil and not self.of.store.is_closed then self.of:unregister(self.id) end
end }

---Registers a worker of this process, and returns its number; or nil, err. Parks.
---@param has_reports boolean whether it will answer questions for reports
---@return integer? id, string? err
function Consumer:register(has_reports)
  local store = self.store
  store.workers = store.workers + 1
  local own <close> = setmetatable({ of = self, id = store.workers }, Registration)
  local ok, err = store:attempt("exec",
    "insert into runnel_worker(holder, id, stream, consumer, report) values (?, ?, ?, ?, ?)",
    store.holder, own.id, self.stream, self.name, has_reports and "{}" or nil)
  if not ok then return nil, err --[[@as string]] end
  return own.id
end

---Stores the report of a worker. In the background.
---@param id integer
---@param report table
---@param asked integer when it was asked for
function Consumer:tell(id, report, asked)
  later(self, "update runnel_worker set report = ?, told = ? where holder = ? and id = ?",
    assert(json.encode(report)), asked, self.store.holder, id)
end

---Ends the registration of a worker. In the background.
---@param id integer
function Consumer:unregister(id)
  later(self, "delete from runnel_worker where holder = ? and id = ?", self.store.holder, id)
end

return consumer
