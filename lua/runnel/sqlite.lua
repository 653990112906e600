---SQLite databases. Needs libsqlite3; `make` builds the C module runnel.sqlite.core where its headers are.
---
---    local sqlite = require "runnel.sqlite"
---    local db = sqlite.open "work.db"
---    db:exec "create table if not exists pages(url text primary key, body)"
---    db:exec("insert into pages values (?, ?)", url, body)
---    for row in db:query "select url from pages" do print(row.url) end
---
---A thread runs the statements of each database (csrc/sqlite), so a slow disk does not block other go blocks.
---Statements that wait at the same time are committed together.

local debug, io, require = debug, io, require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local remove = require "runnel.internal.remove"
local sign = require "runnel.internal.sign"
local simulated = require "runnel.internal.world"
local thread = require "runnel.sqlite.sim_thread"
local timed_out = require "runnel.internal.timed_out"
local values = require "runnel.sqlite.sqlite_values"
local watch = require "runnel.sqlite.sqlite_watch"

local lib = need("runnel.sqlite.core", "libsqlite3 and its headers, on Debian libsqlite3-dev")
local asking = require "runnel.sqlite.sqlite_ask"
local many = require "runnel.sqlite.sqlite_rows"

local internal = core.internal
local chan, now, yield = core.chan, core.now, core.yield
local put = internal.moving.put
local offer, close = core.methods.offer, core.methods.close
local is_simulation, raise, self_block = internal.is_simulation, internal.raise, internal.self
local ask, message, news_of, start, wait = asking.ask, asking.message, asking.news_of, asking.start, asking.wait
local here, wait_for = asking.here, asking.wait_for

---@class runnel.sqlite
local sqlite = { version = lib.version }

---Bytes to be stored as a BLOB. (A plain string is a TEXT; both are read as strings.)
---@param bytes string
---@return table blob
function sqlite.blob(bytes)
  check.string(bytes, "a string", "sqlite.blob")
  return values.blob(bytes)
end

-- ---- statements ----

---@class runnel.sqlite.Statements
---@field db runnel.sqlite.Database
---@field number integer of the transaction; 0: none
---@field package idle_since? number of a transaction: since when none of its statements has run; nil: one runs
---@field package problem? string of a transaction: why it can only be rolled back
---@field package unfinished? integer of a transaction: how many statements with channels of rows run
local Statements = {}

-- The rows of a job. Others run between the pages of a long result.
local function rows_of(self, job)
  local rows = {}
  while job:rows(rows) do
    if self.number > 0 then self.idle_since = now() end -- it does not wait
    yield()
  end
  return rows
end

-- Asks, waits, and raises the error of the statement. Returns the number of rows changed, and the last rowid; or its
-- rows, or the first one.
local function perform(self, what, kind, sql, ...)
  local news = news_of(self.db)
  local job <close> = ask(self, what, kind, news, sql, ...)
  local changes, rowid, code = wait_for(self, job, news)
  if not changes then timed_out.raise(message(self.db, what, sql, rowid, code)) end
  if kind == "exec" then return changes, rowid end
  if kind == "one" then return job:row() end
  return rows_of(self, job)
end

local function exec(self, sql, ...)
  local has_run, changes, rowid, code = here(self, sql, ...)
  if not has_run then return perform(self, "exec", "exec", sql, ...) end
  if not changes then timed_out.raise(message(self.db, "exec", sql, rowid, code)) end
  return changes, rowid
end

---Runs a statement, and waits until it is committed. Several statements are one transaction; they share the values, in
---order. An error is raised at the line of the call, and names the statement.
---@param sql string with `?` for values, or `:name` for named ones
---@param ... any nil, booleans (as 1 and 0), numbers, strings, and sqlite.blob(bytes); or only one table of named
---values; or { rows = a list, a channel or an iterator of rows }: then the statement runs for each row, which is a list
---of values or a table of named ones, and all of them are done, or none
---@return integer changes how many rows all statements have changed
---@return integer rowid of the row that was inserted last
function Statements:exec(sql, ...)
  sign.own(self, "db|tx", "exec")
  local rows = many.of(...)
  if not rows then return exec(self, sql, ...) end
  if not many.is_stream(rows) then return many.exec_list(self, sql, rows) end
  if self.number > 0 then return many.exec_stream(self, sql, rows) end
  asking.check(self, "exec", sql) -- otherwise the message would be that of a transaction
  return self:transaction(function(tx) return many.exec_stream(tx, sql, rows) end)
end

---Runs a statement, and returns its rows. NULLs are nil.
---@param sql string
---@param ... any as for exec
---@return table[] rows each maps names of columns to values
function Statements:rows(sql, ...)
  sign.own(self, "db|tx", "rows")
  return perform(self, "rows", "rows", sql, ...)
end

---Runs a statement, and returns its first row; one that only reads ends with it.
---@param sql string
---@param ... any as for exec
---@return table? row
function Statements:one(sql, ...)
  sign.own(self, "db|tx", "one")
  local row = perform(self, "one", "one", sql, ...)
  return row
end

---For other modules of the library: like exec or rows, but returns nil and a message if the statement fails. "last"
---runs several statements, and returns the rows of the last one.
---@param kind "exec"|"rows"|"last"
---@param sql string
---@param ... any
---@return integer|table[]? result
---@return string|integer|nil problem or, with rows, how many rows were changed
function Statements:attempt(kind, sql, ...)
  local news = news_of(self.db)
  local job <close> = ask(self, kind, kind, news, sql, ...)
  local changes, text, code = wait_for(self, job, news)
  if not changes then return nil, message(self.db, kind, sql, text, code) end
  if kind == "exec" then return changes end
  return rows_of(self, job), changes
end

local function query_failed(out, where, err)
  internal.fail(out, timed_out.with_text(err, where .. err), nil, "query")
end

local function feed(out, job, news, self, sql, where)
  local closing <close> = job -- luacheck: ignore 211
  local ok, text, code = wait_for(self, job, news)
  if not ok then return query_failed(out, where, message(self.db, "query", sql, text, code)) end
  local row = job:row()
  while row and put(out, row) do row = job:row() end
  out:close()
end

local function line_of_caller()
  local info = debug.getinfo(3, "Sl")
  return info.currentline > 0 and ("%s:%d: "):format(info.short_src, info.currentline) or ""
end

---Runs a statement, and returns its rows as a channel, which closes after the last row, or with the error. The rows are
---from one moment, however slowly they are taken: rows beyond 256 KB go into a temporary file. Closing the channel ends
---the statement.
---@param sql string
---@param ... any as for exec
---@return runnel.Channel<table> rows
function Statements:query(sql, ...)
  sign.own(self, "db|tx", "query")
  local out, news = chan():name "query", news_of(self.db)
  local job = ask(self, "query", "rows", news, sql, ...)
  guard.started(guard.go_while_open(out, guard.close, out, feed, out, job, news, self, sql, line_of_caller()), "query")
  return out
end

-- A table with the methods above: faster than a chain of metatables.
local function inherit()
  local class = {}
  for name, method in pairs(Statements) do class[name] = method end
  return class
end

-- ---- transactions ----

---The statements of a transaction.
---@class runnel.sqlite.Transaction: runnel.sqlite.Statements
local Transaction = inherit()
Transaction.__index = Transaction
Transaction.__sign = "db|tx"
Transaction.__name = "runnel.sqlite.transaction"

-- Closes a job: one that has begun a transaction rolls back what was not committed.
local Step = { __close = function(self)
  local disk, job = self.db.disk, self.job
  if job then job:close() end
  if job and is_simulation() then thread.look(self.db.handle, disk) end
  if disk then disk:done(self) end
end }

-- Notes that the go block is not in a transaction any more.
local Owner = { __close = function(self) self.db.owner = nil end }

-- Begins or commits a transaction.
local function step(tx, kind, closing)
  local db, news = tx.db, news_of(tx.db)
  if db.disk then db.disk:keep(closing) end
  closing.job = start(db, kind, nil, news, tx.number, false)
  local ok, text, code = wait(db, closing.job, news)
  if not ok then timed_out.raise(message(db, "transaction", nil, text, code)) end
end

---@class runnel.sqlite.Database: runnel.sqlite.Statements
---@field path string
local Database = inherit()
Database.__index = Database
Database.__sign = "db|tx"
Database.__name = "runnel.sqlite.database"

---Whether the running go block is in a transaction of this database: another statement would wait for itself.
---@return boolean
function Database:is_in_transaction()
  return self.owner ~= nil and self.owner == (self_block "a statement" or "main")
end

---Whether it can be asked for a statement: while it is being closed, only for those of a transaction.
---@param number integer of the transaction; 0: none
---@return boolean
---@private
function Database:takes(number)
  return self.handle ~= nil and (number > 0 or not self.closes)
end

---Calls f(tx). The statements of tx are one transaction: it is committed when f returns, and rolled back if f raises an
---error or is cancelled. Until then all other statements of this database wait, so f should not wait for anything but
---its statements; if it does for more than a moment, that is said on stderr, once for each line.
---@param f fun(tx: runnel.sqlite.Transaction): ...
---@return any ... what f returns
function Database:transaction(f)
  sign.own(self, "db|tx", "transaction")
  check.callable(f, "transaction: f")
  if not self:takes(0) then raise "transaction: the database is closed" end
  if self:is_in_transaction() then
    raise "transaction: this go block is in a transaction, so this would wait for itself"
  end
  self.last = self.last + 1
  local tx = setmetatable({ db = self, number = self.last, unfinished = 0 }, Transaction)
  local begun <close> = setmetatable({ db = self, job = false }, Step) -- nothing may fail once it has a job
  step(tx, "begin", begun)
  local results
  do
    local owner <close> = setmetatable({ db = self }, Owner) -- luacheck: ignore 211
    self.owner = self_block "transaction" or "main"
    tx.idle_since = now()
    local watching <close> = watch(tx) -- luacheck: ignore 211
    results = table.pack(f(tx))
  end
  many.check_commit(tx)
  local committed <close> = setmetatable({ db = self, job = false }, Step)
  step(tx, "commit", committed)
  return table.unpack(results, 1, results.n)
end

-- Drops the handle of a database that was closed, also if the wait for that was cancelled.
local Closing = { __close = function(self) self.db.handle = nil end }

---Closes the database, after all waiting statements and transactions have run. Does nothing if it is closed.
function Database:close()
  sign.own(self, "db|tx", "close")
  local handle = self.handle
  if not handle or self.closes then return end
  if self:is_in_transaction() then
    raise "close: this go block is in a transaction, so this would wait for itself: close it after the transaction"
  end
  local news, disk = news_of(self), self.disk
  local job <close> = start(self, "close", nil, news, 0, false)
  self.closes = true
  local closing <close> = setmetatable({ db = self }, Closing) -- luacheck: ignore 211
  wait(self, job, news)
  handle:close()
  if disk and not disk.over then disk:close() end
end

-- In a transaction that an error ends, that error is the one to tell; and closing would wait for its end.
function Database:__close(err)
  if err == nil or not self:is_in_transaction() then self:close() end
end

-- ---- opening ----

local kinds = check.kinds
local OPTIONS = {
  readonly = kinds.boolean, create = kinds.boolean, busy_timeout = kinds.integer(0), foreign_keys = kinds.boolean,
  wal = kinds.boolean, synchronous = kinds.one_of { "off", "normal", "full", "extra" },
}

---@class runnel.sqlite.Options
---@field readonly? boolean open it for reading only
---@field create? boolean make the file if it does not exist; default true
---@field busy_timeout? integer how many ms a statement waits for the lock of another connection; default 5000
---@field foreign_keys? boolean enforce foreign keys; default true
---@field wal? boolean keep a write-ahead log, so that readers and a writer do not wait for each other; default true
---@field synchronous? "off"|"normal"|"full"|"extra" when SQLite waits for the disk; default: committed data survives a
---power cut: "full", and "extra" without a write-ahead log

local CANTOPEN <const> = 14

-- What is to be done about an error while a file is opened.
local function advice(path, opts, text, code)
  if code & 0xff ~= CANTOPEN or text:find("open files", 1, true) then return "" end
  local file = io.open(path, "rb")
  if file then
    local _, problem = file:read(0)
    file:close()
    if problem and problem:find "directory" then return "; it is a folder: give the path of a file" end
    return opts.readonly and "" or "; it and its folder must be writable"
  end
  local folder = path:match "^(.*)/[^/]*$"
  if folder == "" then folder = "/" end
  local there = folder and io.open(folder, "rb")
  if folder and not there then return ("; there is no folder %s: make it first"):format(folder) end
  if there then there:close() end
  if opts.readonly or opts.create == false then
    return "; there is no such file, and the option " .. (opts.readonly and "readonly" or "create = false")
      .. " lets none be made"
  end
  return ("; the folder %s must be writable"):format(folder or ".")
end

-- Calls a function that asks for descriptors and a thread. The C module says which it does not get, without a line.
local function begin(path, f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  if type(result) == "string" and result:find "^cannot " then raise(("open: %s: %s"):format(path, result)) end
  error(result, 0)
end

-- Ends the thread of a database that could not be opened, also if the wait for that was cancelled. (In a simulated
-- world, the connections of a host are closed with it.)
local Opening = { __close = function(self)
  local db = self.db
  if not self.is_open and not db.disk then db.handle:close() end
end }

---Opens a database. An error is raised at the line of the call.
---@param path string the file; ":memory:" for a database in memory
---@param opts? runnel.sqlite.Options
---@return runnel.sqlite.Database db
function sqlite.open(path, opts)
  check.database(path, "open")
  check.options(opts, OPTIONS, "open")
  opts = opts or {}
  local busy = opts.busy_timeout or 5000
  local synchronous = opts.synchronous or (opts.wal == false and "extra" or "full")
  local pragmas = ("pragma foreign_keys = %s; pragma synchronous = %s;"):format(opts.foreign_keys ~= false, synchronous)
  -- SQLite detects only when it reads a file that it is not a database.
  local is_plain = opts.readonly or opts.wal == false
  pragmas = pragmas .. (is_plain and "pragma schema_version;" or "pragma journal_mode = wal;")
  local self = setmetatable({ path = path, busy = busy, number = 0, last = 0, told = {}, listeners = {} }, Database)
  self.db = self
  if is_simulation() then simulated.seed(lib.seed) end
  local function open(disk)
    return lib.open(chan():name "sqlite", offer, close, path, opts.readonly, opts.create ~= false, busy, disk)
  end
  if simulated.world then
    self.disk = simulated.twin("database").new(lib, path, busy, open)
    self.handle = self.disk.core
  else
    self.handle = begin(path, open)
  end
  local opening <close> = setmetatable({ db = self, is_open = false }, Opening)
  local news = news_of(self)
  local job <close> = begin(path, start, self, "open", pragmas, news, 0, false)
  local ok, text, code = wait(self, job, news)
  opening.is_open = ok ~= nil
  if not ok and self.disk then self.disk:close() end
  if not ok then timed_out.raise(message(self, "open", nil, text .. advice(path, opts, text, code), code)) end
  return self
end

---For runnel.store, in a simulation: from now on, puts true on a channel with a sliding buffer when something in the
---file may have changed, or a process that had it open has ended.
---@param bell runnel.Channel<boolean>
---@return fun()? forget nil: this is no simulation
function Database:listen(bell)
  if not is_simulation() then return nil end
  local listeners = self.disk and self.disk:listeners() or self.listeners
  listeners[#listeners + 1] = bell
  return function() remove(listeners, bell) end
end

---For runnel.store: locks between processes, by texts, in a file that is made if it does not exist, for those who may
---use the database's file. Or nil and the problem.
---@param path string
---@param file string that of the database
---@return any? locks
---@return string? problem
function Database:locks(path, file)
  if self.disk then return self.disk:locks(path) end
  return lib.locks(path, file)
end

return sqlite
