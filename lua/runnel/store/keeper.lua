---The keeper of a stage's messages (docs/keepers.md): a consumer of a stream in a store. Results and the
---end of their message are one transaction.

local core = require "runnel.core"
local counts = require "runnel.queue.count"
local draining = require "runnel.queue.draining"
local guard = require "runnel.internal.guard"
local letters = require "runnel.store.dead"
local messages = require "runnel.store.message"
local queues = require "runnel.queue.queues"
local problems = require "runnel.store.problems"
local reader = require "runnel.store.reader"
local steps = require "runnel.store.steps"
local values = require "runnel.store.values"

local answer = messages.answer

local keepers = {}

-- ---- statements ----

-- A result, if the statement before has changed a row. A stream that is missing is an error, since its number is null.
local RESULT <const> = [[;
insert into runnel_message(stream, seq, subject, form, value, bytes, made)
  select ?1, (select last + 1 from runnel_stream where name = ?1), ?2, ?3, ?4, ?5, ?6 where changes() = 1]]
-- A part of the outcome of a job.
local OUTCOME <const> = [[;
insert into runnel_result(submitter, number, place, count, kind, form, value)
  select ?1, ?2, ?3, ?4, ?5, ?6, ?7 where changes() = 1]]
local GET_STARTS <const> = "select starts, changes from runnel_delivery where stream = ? and seq = ? and consumer = ?"
-- A count is not stored with a message of the same number in a stream that was deleted and made again. When a limit is
-- over, it is stored whatever others have stored.
local LIMIT_STARTS <const> = [[
update runnel_delivery set starts = ?1, changes = changes + 1 where stream = ?2 and seq = ?3 and consumer = ?4
  and exists (select 1 from runnel_consumer where stream = ?2 and name = ?4 and made = ?5)]]
local SET_STARTS <const> = LIMIT_STARTS .. " and changes = coalesce(?6, changes) returning changes"

-- ---- the keeper ----

---@class runnel.store.KeeperOptions
---@field consumer runnel.store.Consumer
---@field from string the stream, for errors
---@field to? string the stream of results
---@field to_subject? string their subject
---@field what string for names of go blocks
---@field cancels? boolean calls whose messages are removed from the stream are cancelled

---@class runnel.store.Keeper: runnel.queue.Keeper, runnel.store.KeeperOptions
---@field private reader runnel.store.Reader
local Keeper = {}
Keeper.__index = Keeper

---@param opts runnel.store.KeeperOptions
---@return runnel.store.Keeper
function keepers.new(opts)
  opts.consumer.tries = nil -- an operator's: a worker gives messages up itself, and they become dead letters
  return setmetatable(opts, Keeper)
end

function Keeper:open(taker)
  local of, err = reader.open({
    consumer = self.consumer, acks = "explicit", room = taker.room, take = taker.take,
    answered = function(message)
      self:extend(message)
      taker.answered(message)
    end,
    silent = taker.silent, over = taker.over,
    pause = function(is_paused)
      if self.worker then self.worker:pause(is_paused) end
    end,
    report = function()
      local report = self.worker and self.worker:report() or {}
      report.program = queues.program()
      return report
    end,
    gone = self.cancels and function(sequences)
      if not self.worker then return end
      self.worker:cancel(function(call) return sequences[call.message.sequence] end, "the job was cancelled")
    end or nil,
  }, self.what)
  if not of then return nil, err end
  self.reader = of
  return true
end

function Keeper:fetch() self.reader:ring() end

function Keeper:close() self.reader:close() end

---A process never gets a message again that it has, unless another program has changed the tables. But one that is to
---leave may come again before the go block that has stored this goes on.
function Keeper:join(held, message) -- luacheck: no self
  if held.is_answered or held.leaves then return false end
  held.claim = message.claim
  return true
end

---A stream that was deleted and made again counts from 1.
function Keeper:id(message)
  return ("%s.%s.%s.%d"):format(self.consumer.stream, self.consumer.name, self.consumer.made, message.sequence)
end

-- ---- answers ----

-- The scope of the steps of a message, if there may be any: of this call, or of one before.
local function steps_of(self, message)
  local call = message.call
  if message.deliveries == 1 and not (call and call.number > 0) then return nil end
  return steps.of_message(self.consumer, message.sequence)
end

-- The statements that end a message and store results, and their values; or nil and the reason why a result cannot be
-- stored.
local function statements(self, message, results)
  local sql = table.pack(self.consumer:end_of(message))
  local made, n, all = self.consumer.store:time(), sql.n, sql
  local texts = { sql[1] }
  for i, result in ipairs(results) do
    local form, data = values.encode(result.value, "result")
    if not form then return nil, data end
    texts[i + 1] = RESULT
    all[n + 1], all[n + 2], all[n + 3], all[n + 4] = self.to, self.to_subject, form, data
    all[n + 5], all[n + 6], n = values.size(data), made, n + 6
  end
  local scope = steps_of(self, message)
  if scope then
    texts[#texts + 1] = ";" .. steps.FORGET_IF_CHANGED
    n = n + 1
    all[n] = scope
  end
  all[1], all.n = #texts == 1 and texts[1] or table.concat(texts), n
  return all
end

---Stores results and ends a message, within a transaction, or in one of its own. Parks.
---@param tx? runnel.sqlite.Transaction
---@param message runnel.store.Message
---@param results { value: any }[]
---@return integer? changed 0: this process does not have the message any more, and nothing was stored
---@return string? err
---@return boolean? passes the same call may succeed later
function Keeper:store_results(tx, message, results)
  local all, problem = statements(self, message, results)
  if not all then return nil, problem, false end
  local changed, err = (tx or self.consumer.store):attempt("exec", table.unpack(all, 1, all.n))
  if changed then return changed end
  local reason, passes = problems.of_put(err, self.to)
  return nil, reason, passes
end

function Keeper:done(message, results)
  if not message.is_stored then
    local ok, err, passes = self:store_results(nil, message, results or {})
    if not ok then return nil, err, passes end
  end
  answer(message)
  if results and #results > 0 then self.consumer.store:ring(self.to) end
  return true, 0
end

---Stores the outcome of a job and ends it. Parks.
---@param job { message: runnel.store.Message, submitter: string, number: integer }
---@param rows { [1]: string, [2]: string, [3]: any }[] kind, form and value of each part
---@return boolean stored
---@return string? err
---@return boolean? passes the same call may succeed later
function Keeper:store_outcome(job, rows)
  local all = table.pack(self.consumer:end_of(job.message))
  local texts, n, store = { all[1] }, all.n, self.consumer.store
  for place, row in ipairs(rows) do
    texts[place + 1] = OUTCOME
    all[n + 1], all[n + 2], all[n + 3], all[n + 4] = job.submitter, job.number, place, #rows
    all[n + 5], all[n + 6], all[n + 7], n = row[1], row[2], row[3], n + 7
  end
  all[1] = table.concat(texts)
  local ok, problem = store:attempt("exec", table.unpack(all, 1, n))
  if not ok then return false, problem --[[@as string]], not store.is_closed end
  answer(job.message)
  store:ring(job.submitter)
  return true
end

function Keeper:back(message, ms)
  if not answer(message) then return end
  messages.after(message, function() self.consumer:back(message, ms) end)
end

function Keeper:drop(message)
  if answer(message) then self.consumer:finish(message, steps_of(self, message)) end
end

function Keeper:extend(message) -- luacheck: no self
  if message.limit then message.limit:close() end
  message.limit = nil
end

---The thread of the database does this (csrc/sqlite/limits.c); in a simulation there is none.
function Keeper:limit(message, ms, text, _, count)
  local consumer = self.consumer
  local handle = consumer.store.db.handle
  if not handle or core.internal.is_simulation() then return end
  message.limit = handle:limit(ms, LIMIT_STARTS, text, counts.text(count), consumer.stream, message.sequence,
    consumer.name, consumer.since)
end

function Keeper:alive()
  local handle = self.consumer.store.db.handle
  if handle then handle:alive() end
end

-- ---- counts, letters, operators ----

function Keeper:starts(message)
  local consumer = self.consumer
  local rows, problem = consumer.store:attempt("rows", GET_STARTS, consumer.stream, message.sequence, consumer.name)
  if not rows then return nil, problem end
  local row = rows[1] or {}
  message.revision = row.changes
  return counts.read(row.starts)
end

function Keeper:set_starts(message, count)
  local consumer = self.consumer
  local rows, problem = consumer.store:attempt("rows", SET_STARTS, counts.text(count), consumer.stream,
    message.sequence, consumer.name, consumer.since, message.revision)
  if not rows then return false, problem end
  if not rows[1] then return false, "another worker has stored one", true end
  message.revision = rows[1].changes
  return true
end

function Keeper:note_starts(message, count)
  guard.started(guard.go(guard.nothing, nil, self.set_starts, self, message, count), self.what)
end

---Does nothing: the count is a field of the delivery.
function Keeper:forget_starts() end -- luacheck: no self

function Keeper:bury(letter)
  letter.from = self.from
  return letters.store(self.consumer.store, letter)
end

function Keeper:watch(worker, drain_on_term)
  self.worker = worker
  local store = self.consumer.store
  draining.add(store, worker, drain_on_term)
  core.internal.on_close(worker:done(), function() self.worker = nil end)
end

return keepers
