---One statement for many rows: those of a list, of a channel, or of an iterator.
---
---The rows are packed in jobs (csrc/sqlite/many.c), each of which does all of its rows, or none. A list is one job. A
---channel or an iterator may have any number of rows, so they are several jobs, and a failure among them fails the
---transaction.

local core = require "runnel.core"
local asking = require "runnel.sqlite.sqlite_ask"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.sqlite.sqlite_values"

local internal = core.internal
local is_chan, now, yield = core.is_chan, core.now, core.yield
local take = internal.moving.take
local is_simulation, raise = internal.is_simulation, internal.raise
local type = type
local Blob, wrong_value = values.Blob, values.wrong

local rows = {}

-- The bytes of the rows of a channel or an iterator that are written together, and those after which others run.
local PIECE <const>, TURN <const> = 128 * 1024, 64 * 1024

-- ---- arguments ----

---Whether rows come one by one: from a channel, or from an iterator.
---@param list any
---@return boolean
function rows.is_stream(list) return is_chan(list) or (type(list) ~= "table" and check.is_callable(list)) end

---The option `rows` of exec, if its arguments behind the statement have that.
---@param ... any
---@return table[]|runnel.Channel<table>|(fun(): table?)|nil rows
function rows.of(...)
  if not values.are_named(...) then return nil end
  local opts = ...
  local list = opts.rows
  local is_value = not wrong_value(list) -- of a parameter that has this name
  if is_value then return nil end
  if type(list) ~= "table" and not rows.is_stream(list) then
    raise("exec: rows: a list, a channel or an iterator of rows expected, got " .. check.article(list))
  end
  if ends.NEED_STATE[list] then
    raise "exec: rows: this iterator needs what pairs and ipairs return beside it: pass the list itself"
  end
  for name in pairs(opts) do
    if name ~= "rows" then
      raise(("exec: unknown option %s; known: rows (beside which there are no values: each row has all of them)")
        :format(check.describe(name)))
    end
  end
  return list
end

-- Raises the error that a row, the number-th, is wrong, by its value at `key`.
local function refuse(row, number, key)
  if type(row) ~= "table" or getmetatable(row) == Blob then
    raise(("exec: row %d: a list of values or a table of named values expected, got %s"):format(number,
      check.article(row)))
  end
  local wrong = wrong_value(rawget(row, key))
  if wrong then
    raise(("exec: row %d: value %s: %s, got %s"):format(number, check.describe(key), values.EXPECTED, wrong))
  end
  raise(("exec: row %d: its key %s: a row is a list of values (its length may be in n), or a table of named values, "
    .. "as the rows before it"):format(number, check.describe(key)))
end

-- ---- jobs ----

local function new_job(self, sql, before)
  return self.db.handle:many(sql, self.number, is_simulation(), before)
end

-- Waits for a job that has been started. Returns as exec.
local function finish(self, job, news, sql)
  local changes, rowid, code = asking.wait_for(self, job, news)
  if not changes then timed_out.raise(asking.message(self.db, "exec", sql, rowid, code)) end
  return changes, rowid
end

---Runs a statement for each row of a list: for all, or none.
---@param self runnel.sqlite.Statements
---@param sql string
---@param list table[]
---@return integer changes
---@return integer rowid
function rows.exec_list(self, sql, list)
  asking.check(self, "exec", sql)
  local job <close> = new_job(self, sql, 0)
  local at, n = 1, rawlen(list)
  while at <= n do
    local next, i, key = job:add(Blob, list, at, n)
    if not next then refuse(list[i], i, key) end
    at = next
    if self.number > 0 then self.idle_since = now() end -- it does not wait
    if at <= n then yield() end
  end
  if not self.db:takes(self.number) then raise "exec: the database is closed" end
  if self.number > 0 then self.idle_since = nil end
  return finish(self, job, asking.start_many(self, job, sql), sql)
end

-- ---- a channel, an iterator ----

local FAILED <const> = "the transaction was rolled back, because a statement for many rows has failed"

-- A statement that has not done all of its rows: no commit can be right.
local Unfinished = { __close = function(self)
  local tx = self.tx
  tx.unfinished = tx.unfinished - 1
  if not self.is_done then tx.problem = FAILED end
end }

---Raises an error if the transaction cannot be committed: not all rows of a statement are there.
---@param tx runnel.sqlite.Transaction
function rows.check_commit(tx)
  local problem = tx.problem
  if tx.unfinished > 0 then
    problem = "the transaction was rolled back, because a statement for many rows has not ended"
  end
  if problem then raise(("transaction: %s: %s"):format(tx.db.path, problem)) end
end

-- Moves rows from a channel or an iterator to a job, until it has enough. Returns how many, and whether there may be
-- more.
local function fill(tx, job, sql, source, before)
  local one, count, turn = {}, 0, TURN
  local add, is_channel = job.add, is_chan(source)
  while true do
    local row, err
    if is_channel then row, err = take(source) else row, err = source() end
    if row == nil and err ~= nil then
      local text = ("exec: %s: the %s of rows has failed: %s, in: %s"):format(tx.db.path,
        is_channel and "channel" or "iterator", internal.error_text(err), asking.shown(sql))
      timed_out.raise(timed_out.with_text(err, text))
    end
    if row == nil then return count, false end
    one[1], count = row, count + 1
    local next, bytes, key = add(job, Blob, one, 1, 1)
    if not next then refuse(row, before + count, key) end
    tx.idle_since = now()
    if bytes >= PIECE then return count, true end
    if bytes >= turn then
      yield() -- an iterator need not wait
      turn = bytes + TURN
    end
  end
end

---Runs a statement for each row of a channel, until that is closed, or of an iterator. If it fails, the transaction
---fails.
---@param tx runnel.sqlite.Transaction
---@param sql string
---@param source runnel.Channel<table>|fun(): table?
---@return integer changes
---@return integer rowid
function rows.exec_stream(tx, sql, source)
  asking.check(tx, "exec", sql)
  local all <close> = setmetatable({ tx = tx, is_done = false }, Unfinished)
  tx.unfinished = tx.unfinished + 1
  local before, sum, is_open = 0, 0, true
  local rowid
  while is_open do
    local job <close> = new_job(tx, sql, before)
    local count, changes
    count, is_open = fill(tx, job, sql, source, before)
    if count > 0 or before == 0 then
      tx.idle_since = nil
      changes, rowid = finish(tx, job, asking.start_many(tx, job, sql), sql)
      before, sum = before + count, sum + changes
    end
  end
  all.is_done = true
  return sum, rowid
end

return rows
