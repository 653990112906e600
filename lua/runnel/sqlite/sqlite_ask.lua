---Asks the thread of a database of runnel.sqlite for statements, and waits for them.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local lib = require "runnel.sqlite.core"
local short = require "runnel.internal.short"
local thread = require "runnel.sqlite.sim_thread"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.sqlite.sqlite_values"

local internal = core.internal
local chan, now, sleep = core.chan, core.now, core.sleep
local take = internal.moving.take
local is_simulation, raise, are_plain = internal.is_simulation, internal.raise, lib.plain

local asking = {}

-- ---- messages ----

local BUSY <const>, MISUSE <const> = 5, 21

-- The longest statement in a message, and the longest text of SQLite, which may have the statement in it; in bytes.
local STATEMENT <const>, TEXT <const> = 200, 1000

---A statement for a message: on one line, not too long.
---@param sql string
---@return string
function asking.shown(sql)
  sql = sql:gsub("%s+", " "):gsub("^ ", "")
  return short.cut(sql, STATEMENT)
end

local shown = asking.shown

---The message for an error of SQLite.
---@param db runnel.sqlite.Database
---@param what string the method
---@param sql? string
---@param text string
---@param code integer SQLite's
---@return string|runnel.TimedOut
function asking.message(db, what, sql, text, code)
  local is_late = code & 0xff == BUSY
  if is_late then
    text = ("another connection has held a lock for more than %d ms (option busy_timeout)"):format(db.busy)
  end
  text = ("%s: %s: %s%s"):format(what, db.path, short.cut(text, TEXT), sql and ", in: " .. shown(sql) or "")
  return is_late and timed_out.new(text) or text
end

-- ---- jobs ----

---A channel for one job, which gets a value when the job is done.
---@param db runnel.sqlite.Database
---@return runnel.Channel<boolean>
function asking.news_of(db)
  local news = chan(1)
  if db.disk then news:name "runnel.sqlite" end -- so that stories do not tell of it
  return news
end

local news_of = asking.news_of

-- Call it before a job is started. Returns whether it runs in this thread: in a simulation.
local function prepare(db, what, sql)
  local disk = db.disk
  if disk then disk:begin(what, sql) end
  if not is_simulation() then return false end
  if not disk and what ~= "rows" and what ~= "one" then thread.will_write(db.handle, db.listeners) end
  thread.wake(db.handle, disk)
  return true
end

---Starts a job.
---@param db runnel.sqlite.Database
---@param kind string see csrc/sqlite/ask.c
---@param sql? string
---@param news runnel.Channel<boolean>
---@param number integer of the transaction; 0: none
---@param has_names boolean each value follows its name
---@param ... any the values
---@return any job
function asking.start(db, kind, sql, news, number, has_names, ...)
  return db.handle:ask(kind, sql, news, number, prepare(db, kind, sql or kind), has_names, ...)
end

local start = asking.start

-- Runs a job again while another connection has a lock, for at most the busy timeout; see `wait`.
local function insist(db, job, ...)
  local deadline, pause = now() + db.busy, 1
  local a, b, code = ...
  while not a and code & 0xff == BUSY and now() < deadline do
    sleep(pause)
    pause = math.min(2 * pause, 100)
    if not db.handle then return nil, "the database was closed meanwhile", MISUSE end
    local news = news_of(db)
    prepare(db, "a statement")
    db.handle:start(job, news)
    if not take(news) then error("not enough memory", 0) end
    a, b, code = job:result()
  end
  return a, b, code
end

---Waits for a job. In a simulation SQLite itself does not wait for locks, since nothing else would run meanwhile.
---@param db runnel.sqlite.Database
---@param job any
---@param news runnel.Channel<boolean>
---@return integer? changes the number of changed rows; nil: it has failed
---@return integer|string rowid the last one; or the message
---@return integer? code SQLite's
function asking.wait(db, job, news)
  if not take(news) then error("not enough memory", 0) end
  if is_simulation() then return insist(db, job, job:result()) end
  return job:result()
end

-- ---- statements ----

---Raises an error if a statement cannot be asked for.
---@param self runnel.sqlite.Statements
---@param what string the method
---@param sql string
function asking.check(self, what, sql)
  local db = self.db
  if type(sql) ~= "string" or sql:find("\0", 1, true) then
    raise(("%s: a statement of SQL expected, got %s"):format(what, check.describe(sql)))
  end
  if not db:takes(self.number) then raise(what .. ": the database is closed") end
  if self.number == 0 and db:is_in_transaction() then
    raise(what .. ": this go block is in a transaction, so this would wait for itself: call the method of tx")
  end
  if self.problem then raise(("%s: %s: %s, in: %s"):format(what, db.path, self.problem, shown(sql))) end
end

---Asks for a statement, with values.
---@param self runnel.sqlite.Statements
---@param what string the method
---@param kind string
---@param news runnel.Channel<boolean>
---@param sql string
---@param ... any
---@return any job
function asking.ask(self, what, kind, news, sql, ...)
  asking.check(self, what, sql)
  if self.number > 0 then self.idle_since = nil end
  if values.are_named(...) then
    return start(self.db, kind, sql, news, self.number, true, values.flatten(what, (...)))
  end
  if not are_plain(...) then values.check(what, ...) end
  return start(self.db, kind, sql, news, self.number, false, ...)
end

---Waits for the job of a statement, as asking.wait.
---@param self runnel.sqlite.Statements
---@param job any
---@param news runnel.Channel<boolean>
---@return integer? changes
---@return integer|string rowid
---@return integer? code
function asking.wait_for(self, job, news)
  local a, b, code = asking.wait(self.db, job, news)
  if self.number > 0 then self.idle_since = now() end
  return a, b, code
end

---Runs a statement of a transaction at once, in this thread, if it is one that takes less time than to ask for it
---(csrc/sqlite/here.c).
---@param self runnel.sqlite.Statements
---@param sql string
---@param ... any
---@return boolean? has_run nil: ask for it
---@return integer? changes
---@return integer|string|nil rowid
---@return integer? code
function asking.here(self, sql, ...)
  local handle = self.db.handle
  if self.number == 0 or not handle or self.problem or is_simulation() then return nil end
  local has_run, changes, rowid, code = handle:here(sql, self.number, ...)
  if has_run then self.idle_since = now() end
  return has_run, changes, rowid, code
end

---Starts a job that has got its rows (runnel.sqlite.sqlite_rows).
---@param self runnel.sqlite.Statements
---@param job any
---@param sql string
---@return runnel.Channel<boolean> news
function asking.start_many(self, job, sql)
  local news = news_of(self.db)
  prepare(self.db, "exec", sql)
  self.db.handle:start(job, news)
  return news
end

return asking
