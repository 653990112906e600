---A store in one file, for work that a program must do once, even if it is restarted. Needs libsqlite3, as
---runnel.sqlite does.
---
---    local store = require("runnel.store").open "work.db"
---    local fetch = store:once("pages", http.get)
---    for page in rn.pmap(64, fetch, urls) do ... end -- after a restart, it continues

local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local remove = require "runnel.internal.remove"
local sqlite = require "runnel.sqlite"

local clock = require "runnel.store.clock"
local dead = require "runnel.store.dead"
local hand_back = require "runnel.queue.hand_back"
local kv = require "runnel.store.kv"
local once = require "runnel.store.once"
local owners = require "runnel.queue.owners"
local process = require "runnel.store.store_process"
local queues = require "runnel.store.queues"
local remote = require "runnel.store.remote"
local runs = require "runnel.store.runs"
local schedules = require "runnel.store.schedules.schedule"
local schema = require "runnel.store.schema"
local serve = require "runnel.store.serve"
local sign = require "runnel.internal.sign"
local sinks = require "runnel.store.sink"
local sources = require "runnel.store.source"
local stages = require "runnel.store.stage"
local streams = require "runnel.store.stream"
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

---@class runnel.store
local store = { hand_back = hand_back.hand_back }

---@class runnel.store.Store
---@field db runnel.sqlite.Database the database, where a program may have its own tables
---@field path string as the program has given it
---@field file? string the file itself, of which a path may be a link; nil for a store in memory
---@field running table<string, runnel.store.Run> the running calls, by name and key
---@field memories table<string, runnel.store.Memory>
---@field functions table<string, { f: function, key?: function, is_of_runs?: boolean }> those of `once`, by name
---@field locks any the locks between processes; nil for a store in memory
---@field holder string the name of this process, and of a lock that it holds while it has the store open
---@field workers integer how many there have been
---@field private claims integer the last one of the process
---@field readers table<string, table[]> those that read streams, by the streams; lists, since their order decides which
---go block runs first, and a simulation must be the same each time
---@field reads table<table, string> the stream of each
---@field drainers function[] likewise
---@field has_ended? boolean the file is closed
---@field settling integer how many answers are on their way to the file
---@field settled? runnel.Channel<any> closes when there are none; while the store is being closed
---@field private base integer for its time (runnel.store.clock)
---@field private noted? integer when the time was last noted in the file; nil: it need not be
---@field version integer that of the tables which the file is known to have (runnel.store.schema)
---@field has_expires? boolean the file has the index of results that expire
---@field is_closed boolean
---@field registered? table<string, function> only the program is checked (run_check): its functions of runs
---@field refuse? fun() only the program is checked: raises in place of an effect
local Store = { __name = "runnel.store" }
Store.__index = Store
Store.__sign = "store"

local function check_name(name, what)
  if type(name) ~= "string" or name == "" or name:find "[%c%[]" then
    raise(("%s: a name without [ and control characters expected, got %s"):format(what, check.describe(name)))
  end
end

---@class runnel.store.OnceOptions
---@field key? fun(...: any): any gets the arguments and returns the key of the call; default: the first argument. Keys
---are strings, numbers, and lists of these
---@field errors? boolean when all tries have failed, store the error like a result: later calls raise it again
---@field max_age? number ms after which a result is forgotten
---@field tries? integer how often a call that raises is tried, default once, or 3 times with `backoff`
---@field backoff? number ms to wait before the second try, default 100; doubled for each further try
---@field timeout? number limit of a try in ms; a longer one is cancelled
---@field tx? boolean the function gets a transaction (see runnel.sqlite) as its last argument; its statements and the
---result are committed together: exactly once

---Makes a function that calls `f`, and stores the result before returning it. For each key `f` succeeds once, even if
---the program ends in any way and is restarted. If two calls with the same key run at the same time, also in two
---processes, one calls `f`, and the other waits for its result.
---
---`f` fails when it raises an error, or returns nil and an error; then the call raises the error, and the next call
---tries again. Only the first result is stored: nil, a boolean, a number, a string, a table of these, or a response of
---runnel.http. If the program ends after `f` has done something and before the result is stored, `f` is called again.
---
---A call without arguments has a key of its own; nil is no key.
---
---If `f` calls other functions that `once` has made, in the same go block, these calls are its steps, and their keys
---belong to this call of `f`. So `f` continues with the first unfinished step. Each step must have the same name, key
---and position as before.
---@param name string of the results; programs that use the same name share them. Within a program, two functions cannot
---have the same name; closures that the same lines have made count as one function
---@param f function
---@param opts? runnel.store.OnceOptions
---@return function f
function Store:once(name, f, opts)
  sign.own(self, "store", "once")
  check_name(name, "once: name")
  check.callable(f, "once: f")
  if self.is_closed then raise("once: the store is closed") end
  check.options(opts, once.OPTIONS, "once")
  opts = opts or {}
  local tries, pause = backoff.options(opts, "once", opts.backoff == nil and 1 or nil)
  return once.new(self, name, f, opts, tries, pause)
    or raise(("once: another function of this program has the name %q, and so the same results: give each a name of "
    .. "its own, or forget the results first (store:forget(%q))"):format(name, name))
end

---Forgets the result of a `once` function for a key, or for all keys if none is given, so that the function is called
---again; and if none is given, another function may have the name then. Other processes that have the result in memory
---still use it.
---@param name string
---@param ... any the key
---@return integer n how many results were forgotten
function Store:forget(name, ...)
  sign.own(self, "store", "forget")
  check_name(name, "forget: name")
  if self.is_closed then raise("forget: the store is closed") end
  return once.forget(self, name, (...), select("#", ...) > 0)
end

-- ---- streams and runs ----

---For the library: gives the file the tables of a version, if it lacks them. Nil and a message if that is not possible.
---@param needed integer
---@return true? ok, string? problem
function Store:prepare(needed)
  if self.version >= needed or self.is_closed or self.db:is_in_transaction() then return true end
  local ok, problem = schema.prepare(self.db, needed)
  if not ok then return nil, problem end
  self.version = needed
  return true
end

for name, method in pairs {
  stream = streams.stream, sink = sinks.sink, source = sources.source, stage = stages.stage, dead = dead.dead,
  kv = kv.kv, remote = remote.remote, serve = serve.serve, queues = queues.queues, queue = queues.queue,
  runs = runs.runs, schedule = schedules.schedule, schedules = schedules.schedules,
} do
  local needed = (name == "runs" or name:find "^schedule") and schema.RUNS or schema.STREAMS
  -- A file gets the tables of streams, and of runs, when it needs them: most stores have results only.
  Store[name] = function(self, ...)
    sign.own(self, "store", name)
    local ok, problem = self:prepare(needed)
    if not ok then raise(("%s: %s"):format(name, problem)) end
    return method(self, ...)
  end
end

---For the library: runs a statement, as db:attempt; nil and a message if the store is closed.
---@return integer|table[]? result
---@return string|integer|nil problem
function Store:attempt(kind, sql, ...)
  if self.is_closed then return nil, "the store is closed" end
  if self.db:is_in_transaction() then
    return nil, "this go block is in a transaction, so this would wait for itself"
  end
  return self.db:attempt(kind, sql, ...)
end

---For the library: adds a reader of a stream, to be told when messages come.
---@param stream string
---@param reader { hear: fun(self) }
function Store:add_reader(stream, reader)
  local list = self.readers[stream] or {}
  list[#list + 1], self.readers[stream], self.reads[reader] = reader, list, stream
end

---For the library: the reader has ended.
---@param reader { hear: fun(self) }
function Store:forget_reader(reader)
  local stream = self.reads[reader]
  if not stream then return end
  local list = self.readers[stream]
  remove(list, reader)
  self.reads[reader] = nil
  if #list == 0 then self.readers[stream] = nil end
end

local function ring(list)
  for _, reader in ipairs(table.move(list, 1, #list, 1, {})) do reader:hear() end
end

---For the library: tells the readers of a stream that messages may have come; without a stream, all.
---@param stream? string
function Store:ring(stream)
  if stream then
    local list = self.readers[stream]
    if list then ring(list) end
    return
  end
  local all = {}
  for name in pairs(self.readers) do all[#all + 1] = name end
  table.sort(all)
  for _, name in ipairs(all) do ring(self.readers[name] or {}) end
end

-- A statement in the background has ended, or died.
local function settled(self)
  self.settling = self.settling - 1
  if self.settling == 0 and self.settled then self.settled:close() end
end

---For the library: runs a function in a go block that store:close waits for.
---@param f function
---@return runnel.Channel<any> block
function Store:in_background(f, ...)
  local block = guard.go(settled, self, function(...)
    f(...)
    settled(self)
  end, ...)
  self.settling = self.settling + 1 -- after what may raise
  return block
end

---For the library: a number for messages that a consumer takes, and the one after it, which this process uses for
---nothing else. So consumers of one name in a process, such as a stage that drains and the next one, tell theirs apart.
---@return integer claim
function Store:claim()
  self.claims = self.claims + 2
  return self.claims
end

-- ---- its time ----

---For the library: the time of the store in ms since 1970, which does not jump.
---@return integer ms
function Store:time() return clock.time(self.base) end

---For the library: that time in some ms; far away at the most, since the tables have no later one.
---@param ms number
---@return integer ms
function Store:after(ms) return clock.after(self.base, ms) end

---For the library: how many ms that is ahead of the clock of the machine.
---@return integer ms
function Store:ahead() return clock.ahead(self.base) end

---For the library: call it when a time that is to come is stored. Notes the time in the file every second, so that it
---is known after a new start of the machine.
function Store:note_time()
  local time = self:time()
  if self.is_closed or not self.noted or time - self.noted < 1000 then return end
  self.noted = time
  guard.started(self:in_background(function()
    self.db:attempt("exec", "update runnel_clock set seen = ?", time)
  end), "store")
end

-- ---- the end ----

---For the library: adds a function that store:drain calls with the time that is left in ms, and waits for.
---@param f fun(ms: number)
---@return fun() remove
function Store:on_drain(f)
  local drainers = self.drainers
  drainers[#drainers + 1] = f
  return function() remove(drainers, f) end
end

-- Raises an error in a transaction of the store, which closing would wait for.
local function check_closing(self, what)
  if not self.db:is_in_transaction() then return end
  core.internal.raise(what .. ": this go block is in a transaction, so this would wait for itself: "
    .. "close the store after the transaction")
end

---Lets the stages end their calls, and then closes the file. After `timeout` it closes the file in any case.
---@param timeout? number ms; 30000 by default
---@return boolean drained
---@return string|runnel.TimedOut|nil err
function Store:drain(timeout)
  sign.own(self, "store", "drain")
  local ms = timeout == nil and 30000 or timeout
  check.ms(ms, 1, "drain: timeout")
  if self.is_closed then return false, "the store is closed" end
  check_closing(self, "drain")
  local alarm <close>, blocks = guard.alarm(ms), {}
  for i, f in ipairs(self.drainers) do blocks[i] = core.go(f, ms) end
  local in_time = true
  for _, block in ipairs(blocks) do
    local _, port = core.alts({ block, alarm.over }, { priority = true })
    in_time = in_time and port == block
  end
  self:close()
  if not in_time then return timed_out.of_drain("the store", ms) end
  return true
end

-- Closes the file, also if the wait for answers on their way to it was cancelled: while the process has its lock, other
-- ones do not get its messages.
local Closing = { __close = function(closing)
  local self = closing.store
  self.has_ended = true
  local ok, problem = pcall(self.db.close, self.db)
  if self.locks then self.locks:close() end
  if not ok then error(problem, 0) end
end }

---Closes the file, after its stages and sources. Does nothing if it is closed.
function Store:close()
  sign.own(self, "store", "close")
  if self.is_closed then return end
  check_closing(self, "close")
  local closing <close> = setmetatable({ store = self }, Closing) -- luacheck: ignore 211
  self.is_closed = true
  self:ring()
  if self.settling > 0 then
    self.settled = core.chan()
    self.settled:take()
  end
end

function Store:__close(err)
  if err == nil or not self.db:is_in_transaction() then self:close() end
end

-- ---- opening ----

local OPTIONS = { busy_timeout = true, synchronous = true, create = true }

-- A name that no other process has.
local function new_holder(db)
  local host, pid = process()
  -- The random numbers of a simulation are those of its seed.
  local random = core.internal.is_simulation() and ("%016x"):format(math.random(0))
    or db:one("select lower(hex(randomblob(6))) as name").name
  return ("%s:%d:%s"):format(host, pid, random)
end

-- The path of the file that a database has, without links; nil if it is in memory.
local function file_of(db)
  local file = db:one("pragma database_list").file
  return file ~= "" and file or nil
end

-- Closes the database of a store that could not be opened.
local Opening = { __close = function(self)
  if not self.is_open then self.db:close() end
end }

---Opens a store, and makes the file if it does not exist. Several processes may open it, on one machine. An error is
---raised at the line of the call.
---@param path string the file; ":memory:" for a store that ends with the program
---@param opts? { busy_timeout?: integer, synchronous?: string, create?: boolean } as for sqlite.open
---@return runnel.store.Store store
function store.open(path, opts)
  check.database(path, "open")
  check.options(opts, OPTIONS, "open")
  local db = sqlite.open(path, opts)
  local opening <close> = setmetatable({ db = db, is_open = false }, Opening)
  local self = setmetatable({
    db = db, path = path, running = {}, memories = {}, functions = {}, is_closed = false, holder = new_holder(db),
    workers = 0, claims = 0, readers = {}, reads = {}, drainers = {}, settling = 0, version = schema.ONCE,
  }, Store)
  local ok, problem = schema.prepare(db, schema.ONCE)
  if ok then self.base, self.noted = clock.base(db) end
  self.file = ok and file_of(db) or nil
  if self.file then
    local locks = self.file .. "-locks" -- not beside a link: all who use the file must see the locks of each other
    self.locks, problem = db:locks(locks, self.file)
    problem = problem and ("%s: %s"):format(locks, problem)
  end
  if self.locks then self.locks:try(self.holder) end
  if not problem then
    owners.add(self)
    opening.is_open = true
    return self
  end
  self:close()
  raise("open: " .. problem)
end

return store
