---A store in one file: what a program must do once, and not again when it is started again. Needs libsqlite3, as
---runnel.sqlite does.
---
---    local store = require("runnel.store").open "work.db"
---    local fetch = store:once("pages", http.get)
---    for page in rn.pmap(64, fetch, urls) do ... end -- started again, it goes on where it was

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local need = require "runnel.internal.need"
local sqlite = require "runnel.sqlite"
local lib = need("runnel.sqlite.core", "libsqlite3 and its headers, on Debian libsqlite3-dev")

local once = require "runnel.store.once"
local schema = require "runnel.store.schema"

---@class runnel.store
local store = {}

---@class runnel.store.Store
---@field db runnel.sqlite.Database the database, in which a program may have tables of its own
---@field path string
---@field running table<string, runnel.store.Run> the calls that run, by name and key
---@field memories table<string, runnel.store.Memory>
---@field locks any those that other processes see; nil for a store in memory
---@field is_closed boolean
local Store = { __name = "runnel.store" }
Store.__index = Store

local function check_name(name, what)
  if type(name) ~= "string" or name == "" or name:find "[%c%[]" then
    error(("%s: a name without [ and control characters expected, got %s"):format(what, check.describe(name)), 3)
  end
end

---@class runnel.store.OnceOptions
---@field key? fun(...: any): any gets the arguments, and returns the key of the call; default the first argument. Keys
---are strings, numbers, and lists of these
---@field errors? boolean keep an error, too, when all tries have failed: later calls raise it again
---@field expires? integer ms after which a result is forgotten
---@field tries? integer how often a call that raises is tried, default once, or 3 times with `retry`
---@field retry? number ms to wait before the second try, default 100; twice as long each further time
---@field timeout? number ms for a try; one that takes longer is cancelled
---@field tx? boolean the function gets a transaction behind its other arguments (see runnel.sqlite), in which its
---statements and the result are committed together: exactly once

---A function that calls `f`, and keeps what it returns before it returns it: for each key `f` succeeds once, also when
---the program is started again, and whatever ends it. Of two calls with one key at a time, also in two processes, one
---calls `f`, and the other waits for its result.
---
---`f` fails when it raises an error, or returns nil and one; then the call raises the error, and the next one calls
---again. Only the first result is kept: nil, a boolean, a number, a string, a table of these, or a response of
---runnel.http. If the program ends after `f` has done something and before the result is kept, `f` is called again.
---
---Calls of other such functions in `f`, in the same go block, are its steps: their keys are their own for each call of
---`f`. So `f` goes on at the step where it was. A step must have the name, the key and the place that it had before.
---@param name string of the results; another program that uses it shares them
---@param f function
---@param opts? runnel.store.OnceOptions
---@return function f
function Store:once(name, f, opts)
  check_name(name, "once: name")
  check.callable(f, "once: f")
  if self.is_closed then error("once: the store is closed", 2) end
  opts = opts or {}
  once.check(opts)
  local tries, pause = backoff.options(opts, "once", opts.retry == nil and 1 or nil)
  return once.new(self, name, f, opts, tries, pause)
end

---Forgets what a function of `once` has returned for a key, or for all keys if none is given, so that it is called
---again. A process that has the result in memory, other than this one, still uses it.
---@param name string
---@param ... any the key
---@return integer n how many results there were
function Store:forget(name, ...)
  check_name(name, "forget: name")
  if self.is_closed then error("forget: the store is closed", 2) end
  return once.forget(self, name, (...), select("#", ...) > 0)
end

---Closes the file. Does nothing if it is closed.
function Store:close()
  if self.is_closed then return end
  self.is_closed = true
  self.db:close()
  if self.locks then self.locks:close() end
end

Store.__close = Store.close

local OPTIONS = { busy_timeout = true, synchronous = true }

---Opens a store, and makes the file if there is none. Several processes may open it, on one machine. An error is raised
---at the line of the call.
---@param path string the file; ":memory:" for one that ends with the program
---@param opts? { busy_timeout?: integer, synchronous?: string } as for sqlite.open
---@return runnel.store.Store store
function store.open(path, opts)
  check.string(path, "the path of a file", "open")
  check.options(opts, OPTIONS, "open")
  local db = sqlite.open(path, opts)
  local self = setmetatable({ db = db, path = path, running = {}, memories = {}, is_closed = false }, Store)
  local ok, problem = schema.prepare(db)
  if ok and path ~= ":memory:" and path ~= "" then
    self.locks, problem = lib.locks(path .. "-locks")
    problem = problem and ("%s-locks: %s"):format(path, problem)
  end
  if not problem then return self end
  self:close()
  error("open: " .. problem, 2)
end

return store
