---A queue of messages in a store. It is a keeper: it stores messages for workers, which make the decisions.
---
---A delivered message belongs to a keeper: runnel_queue.holder. A keeper holds a lock of the system while its process
---runs (core.locks). So the other keepers see at once when the process has ended, and take its messages; leases need no
---extension. Results are stored and their message ends in one transaction.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local schema = require "runnel.store.schema"
local values = require "runnel.store.values"
local wall = require "runnel.store.wall"

local internal = core.internal
local alts, chan, now, sleep, timeout = core.alts, core.chan, core.now, core.sleep, core.timeout
local is_cancelled = internal.is_cancelled

local keepers = {}

-- How long a keeper waits until it looks for messages from other processes and for keepers that have ended; and until
-- it repeats a failed statement. In ms.
local LOOKS_AGAIN <const>, TRIES_AGAIN <const> = 100, 200

-- ---- statements ----

local APPEND <const> = "insert into runnel_queue(queue, id, form, value, headers, made, due) "
  .. "values (?1, ?2, ?3, ?4, ?5, ?6, ?6);"
local CLAIM <const> = "update runnel_queue set holder = ?1, deliveries = deliveries + 1 where seq in ("
  .. "select seq from runnel_queue where queue = ?2 and holder is null and due <= ?3 order by due, seq limit ?4) "
  .. "returning seq, form, value, headers, made, deliveries"
local NEXT_DUE <const> = "select min(due) as due from runnel_queue where queue = ? and holder is null"
local END <const> = "delete from runnel_queue where seq = ? and holder = ?"
local BACK <const> = "update runnel_queue set holder = null, due = ? where seq = ? and holder = ?"
local HOLDERS <const> = "select distinct holder from runnel_queue where queue = ? and holder is not null "
  .. "and holder <> ?"
local TAKE_BACK <const> = "update runnel_queue set holder = null, due = ? where holder = ?"
local STARTS <const> = "select starts, changes from runnel_queue where seq = ?"
local SET_STARTS <const> = "update runnel_queue set starts = ?1, changes = changes + 1 "
  .. "where seq = ?2 and changes = coalesce(?3, changes) returning changes"
local COUNT <const> = "select count(*) filter (where holder is null) as waiting, "
  .. "count(*) filter (where holder is not null) as running from runnel_queue where queue = ?"
local BURY <const> = "insert or ignore into runnel_dead(name, id, letter, made) values (?, ?, ?, ?)"

-- Makes the tables, once for each store. Returns nil and the problem if that fails.
local function prepare(store)
  if store.has_queues then return true end
  local ok, problem = schema.prepare_queues(store.db)
  store.has_queues = ok ~= nil
  return ok, problem
end

-- ---- appending ----

-- Wakes the keepers of a queue in this Lua state.
local function ring(store, queue)
  for keeper in pairs(store.keepers or {}) do
    if keeper.queue == queue then keeper.bell:put(true) end
  end
end

---Stores a message, unless the queue has one with the same id. When this returns, it is on the disk.
---@param store runnel.store.Store
---@param queue string
---@param value any
---@param opts? { id?: string, headers?: table<string, string> }
---@return boolean? stored
---@return boolean|string is_duplicate or the problem
function keepers.append(store, queue, value, opts)
  opts = opts or {}
  local form, data = values.encode(value, "value")
  if not form then return nil, data end
  local headers = opts.headers and json.encode(opts.headers) or nil
  local ok, problem = prepare(store)
  local changes = ok
  if ok then changes, problem = store.db:attempt("exec", APPEND, queue, opts.id, form, data, headers, wall()) end
  if not changes then return nil, problem end
  ring(store, queue)
  return true, changes == 0
end

---How many messages of a queue wait, and how many were delivered and have not ended.
---@param store runnel.store.Store
---@param queue string
---@return { waiting: integer, running: integer }
function keepers.count(store, queue)
  prepare(store)
  return store.db:one(COUNT, queue)
end

-- ---- a keeper ----

---@class runnel.store.Keeper
---@field store runnel.store.Store
---@field queue string
---@field to? string the queue of results
---@field from string for errors
---@field holder string its name in the table, and of its lock
---@field bell runnel.Channel<boolean> there may be something to do
---@field taker table the functions that the worker has passed
local Keeper = {}
Keeper.__index = Keeper

local Message = {}

-- The value of a message is decoded when it is first read, which may raise.
function Message:__index(name)
  if name ~= "value" then return nil end
  local value = values.of(values.entry(self.form, self.data))
  self.value = value
  return value
end

---@param store runnel.store.Store
---@param queue string
---@param to? string the queue of results
---@return runnel.store.Keeper
function keepers.new(store, queue, to)
  store.keepers = store.keepers or setmetatable({}, { __mode = "k" })
  return setmetatable({ store = store, queue = queue, to = to, from = queue,
    bell = chan(core.sliding_buffer(1)) }, Keeper)
end

-- Runs a statement; raises its error.
local function must(self, kind, sql, ...)
  local result, problem = self.store.db:attempt(kind, sql, ...)
  if not result then error(problem, 0) end
  return result
end

-- Gives back the messages of keepers whose processes have ended.
local function take_back(self)
  local locks = self.store.locks
  if not locks then return end
  for _, row in ipairs(must(self, "rows", HOLDERS, self.queue, self.holder)) do
    local is_here = false
    for other in pairs(self.store.keepers) do is_here = is_here or other.holder == row.holder end
    if not is_here and locks:try(row.holder) then
      must(self, "exec", TAKE_BACK, wall(), row.holder)
      locks:release(row.holder)
    end
  end
end

local function message_of(row)
  return setmetatable({
    sequence = row.seq, form = row.form, data = row.value, headers = row.headers and json.decode(row.headers) or nil,
    time = row.made, deliveries = row.deliveries, again = row.deliveries == 1 and "first" or "again",
  }, Message)
end

-- Delivers as many messages as there is room for. Returns how long it may wait for the next one, in ms.
local function deliver(self)
  local room = self.taker.room()
  if room <= 0 then return LOOKS_AGAIN end
  local rows = must(self, "rows", CLAIM, self.holder, self.queue, wall(), room)
  table.sort(rows, function(a, b) return a.seq < b.seq end)
  for _, row in ipairs(rows) do self.taker.take(message_of(row)) end
  if #rows == room then return LOOKS_AGAIN end
  local due = must(self, "rows", NEXT_DUE, self.queue)[1].due
  return due and math.max(1, math.min(LOOKS_AGAIN, due - wall())) or LOOKS_AGAIN
end

local function look(self)
  if now() - self.looked >= LOOKS_AGAIN then
    take_back(self)
    self.looked = now()
  end
  return deliver(self)
end

-- Delivers until the keeper is closed. Repeats statements that fail, for example because another program has locked the
-- file.
local function run(self)
  self.looked = -math.huge
  while not self.is_closed and not self.store.is_closed do
    local ok, ms = pcall(look, self)
    if not ok then
      if is_cancelled(ms) or self.store.is_closed then error(ms, 0) end
      self.taker.silent(tostring(ms))
      ms = TRIES_AGAIN
    end
    if not self.is_closed then alts({ self.bell, timeout(ms) }, { priority = true }) end
  end
  if not self.is_closed then error("the store is closed", 0) end
end

-- Called when the go block that delivers has died. The worker gets the reason.
local function died(self, reason, block)
  internal.excuse(block, reason)
  self.is_closed = true
  self.taker.over(reason, self.store.is_closed)
end

-- A name that no other keeper has; or nil and the problem. The random numbers of a simulation are those of its seed.
local function name_of(store)
  if core.internal.is_simulation() then return ("%016x"):format(math.random(0)) end
  local rows, problem = store.db:attempt("rows", "select lower(hex(randomblob(8))) as name")
  if not rows then return nil, problem end
  return rows[1].name
end

---Delivers messages to taker.take from now on.
---@param taker table runnel.queue.Taker
---@return boolean? ok
---@return string? problem
function Keeper:open(taker)
  self.taker = taker
  local ok, why = prepare(self.store)
  if not ok then return nil, why end
  local name, problem = name_of(self.store)
  if not name then return nil, problem end
  self.holder = name
  if self.store.locks then self.store.locks:try(self.holder) end
  self.store.keepers[self] = true
  guard.started(guard.go(died, self, run, self), "store")
  return true
end

function Keeper:fetch() self.bell:put(true) end

---Delivers nothing more. Delivered messages stay with this keeper until they are answered.
function Keeper:close()
  self.is_closed = true
  self.bell:put(true)
end

---A keeper never delivers a message again that it has.
function Keeper:join(held) return not held.is_answered end -- luacheck: no self

function Keeper:id(message) return ("%s.%d"):format(self.queue, message.sequence) end

-- ---- answers ----

-- Notes that a message has been answered. Returns false if it was already answered.
local function answer(self, message)
  if message.is_answered then return false end
  message.is_answered = true
  self.taker.answered(message)
  return true
end

-- Runs a statement in the background, and repeats it until it succeeds. Then wakes the keepers of the queue.
local function later(self, sql, ...)
  guard.started(guard.go(guard.nothing, nil, function(...)
    while not self.store.is_closed do
      if self.store.db:attempt("exec", sql, ...) then return ring(self.store, self.queue) end
      sleep(TRIES_AGAIN)
    end
  end, ...), "store")
end

-- The statements of `done` for n results.
local done_statements = setmetatable({}, { __index = function(self, n)
  self[n] = APPEND:rep(n) .. END
  return self[n]
end })

---Stores results and ends the message, in one transaction. Parks. Safe to repeat.
---@param message table
---@param results? { id: string, value: any }[]
---@return boolean? ok
---@return any duplicates how many results were stored before; or the reason of the failure
---@return boolean? passes the same call may succeed later
function Keeper:done(message, results)
  local n, arguments, made = results and #results or 0, {}, wall()
  for i = 1, n do
    local form, data = values.encode(results[i].value, "result")
    if not form then return nil, data, false end
    local at = 6 * (i - 1)
    arguments[at + 1], arguments[at + 2], arguments[at + 3] = self.to, results[i].id, form
    arguments[at + 4], arguments[at + 6] = data, made -- no headers
  end
  arguments[6 * n + 1], arguments[6 * n + 2] = message.sequence, self.holder
  local changes, problem = self.store.db:attempt("exec", done_statements[n], table.unpack(arguments, 1, 6 * n + 2))
  if not changes then return nil, problem, true end
  if answer(self, message) then changes = changes - 1 end
  if n > 0 then ring(self.store, self.to) end
  return true, n - changes
end

---Gives a message back, to be delivered again at once, or after ms. No effect if it is answered.
---@param message table
---@param ms? number
function Keeper:back(message, ms)
  if answer(self, message) then later(self, BACK, wall() + math.floor(ms or 0), message.sequence, self.holder) end
end

---Ends a message without results.
---@param message table
function Keeper:drop(message)
  if answer(self, message) then later(self, END, message.sequence, self.holder) end
end

---Does nothing: a lease lasts as long as the process.
function Keeper:extend() end -- luacheck: no self

-- ---- counts, letters ----

---@return table? count
---@return string? problem
function Keeper:starts(message)
  local rows, problem = self.store.db:attempt("rows", STARTS, message.sequence)
  if not rows then return nil, problem end
  local row = rows[1] or {}
  message.revision = row.changes
  return row.starts and json.decode(row.starts) or nil
end

---@return boolean stored
---@return string? problem
---@return boolean? has_changed another worker has stored a count since `starts`
function Keeper:set_starts(message, count)
  local text = json.encode { starts = count.starts, raises = count.raises, error = count.error }
  local rows, problem = self.store.db:attempt("rows", SET_STARTS, text, message.sequence, message.revision)
  if not rows then return false, problem end
  if not rows[1] then return false, "another worker has stored one", true end
  message.revision = rows[1].changes
  return true
end

function Keeper:note_starts(message, count)
  guard.started(guard.go(guard.nothing, nil, self.set_starts, self, message, count), "store")
end

---Does nothing: the count is a field of the message.
function Keeper:forget_starts() end -- luacheck: no self

---Stores a dead letter; at most one with an id. Parks.
---@param letter table runnel.DeadLetter
---@return boolean? stored
---@return string? problem
function Keeper:bury(letter)
  local form, text = values.encode(letter, "letter")
  if not form then return nil, text end
  local changes, problem = self.store.db:attempt("exec", BURY, letter.name, letter.id, text, wall())
  if not changes then return nil, problem end
  return true
end

return keepers
