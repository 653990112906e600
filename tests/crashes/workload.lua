---What make check-crashes lets a store do, so that all that it writes is crashed: streams, a work queue, a stage, a
---bucket, results of once with steps. After each call that has returned, what it has promised is marked in the record;
---`contents` says what a database has, and `has` whether that is in it.

local json = require "runnel.json"
local rn = require "runnel"
local stores = require "runnel.store"

local workload = {}

-- ---- what was promised ----

---Whether a database, by its contents, has what was promised.
---@param found table of `contents`
---@param fact table
---@return boolean
function workload.has(found, fact)
  if fact.what == "put" then return (found.last[fact.stream] or 0) >= fact.sequence end
  if fact.what == "log" then return found.log[fact.sequence] == fact.value end
  if fact.what == "revision" then return (found.last_revision or 0) >= fact.revision end
  if fact.what == "done" then
    return (found.last.work or 0) >= fact.sequence and not found.work[fact.sequence]
  end
  if fact.what == "result" then return found.results[fact.key] == fact.value end
  return found.out[fact.value] == true
end

---What a database has. Also returns what is wrong with it, or nil.
---@param db runnel.Database
---@return table found, string? problem
function workload.contents(db)
  local found = { last = {}, log = {}, work = {}, from = {}, out = {}, results = {} }
  local check = db:one "pragma integrity_check"
  local _, text = next(check)
  if text ~= "ok" then return found, tostring(text) end
  local tables = {}
  for _, row in ipairs(db:rows "select name from sqlite_schema where type = 'table'") do tables[row.name] = true end
  if tables.runnel_once then
    for _, row in ipairs(db:rows "select key, value from runnel_once where scope = ''") do
      found.results[row.key] = json.decode(row.value)
    end
  end
  if not tables.runnel_stream then return found end
  local counts = {}
  for _, row in ipairs(db:rows "select stream, seq, value from runnel_message") do
    local list, value = found[row.stream], json.decode(row.value)
    counts[row.stream] = (counts[row.stream] or 0) + 1
    if row.stream == "out" then list[value] = true else list[row.seq] = value end
  end
  for _, row in ipairs(db:rows "select name, last, messages from runnel_stream") do
    found.last[row.name] = row.last
    if row.messages ~= (counts[row.name] or 0) then
      return found, ("the stream %s counts %d messages, and has %d"):format(row.name, row.messages,
        counts[row.name] or 0)
    end
  end
  -- A message goes from a stream, and its result comes, in one step.
  if (found.last.from or 0) ~= (counts.from or 0) + (counts.out or 0) then
    return found, "the stage has done a message by half"
  end
  local bucket = tables.runnel_bucket and db:one "select last from runnel_bucket"
  found.last_revision = bucket and bucket.last
  return found
end

-- ---- the work ----

---@class crashes.Work
---@field store runnel.store.Store
---@field mark fun(fact: table) remembers that something was promised
local Work = {}
Work.__index = Work

-- A disk may be full: then a call fails, and promises nothing.
local function attempt(f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] and results[2] then return table.unpack(results, 2, results.n) end
end

function Work:put(sink, stream, value)
  local ok, sequence = attempt(sink.put, sink, value, { id = value })
  if not ok then return end
  self.mark { what = "put", stream = stream, sequence = sequence }
  if stream == "log" then self.mark { what = "log", sequence = sequence, value = value } end
end

-- Three puts at the same time may be one transaction.
function Work:fill_log(first)
  local blocks = {}
  for i = 1, 3 do blocks[i] = rn.go(self.put, self, self.log, "log", "log" .. first + i .. ("x"):rep(700 * i)) end
  for i = 1, 3 do blocks[i]:take() end
end

function Work:use_bucket(n)
  local bucket = self.bucket
  local revision = attempt(bucket.put, bucket, "a", "a" .. n)
  if revision then self.mark { what = "revision", revision = revision } end
  local next_one = revision and attempt(bucket.update, bucket, "a", "b" .. n, revision)
  if next_one then self.mark { what = "revision", revision = next_one } end
  if n % 2 == 0 then attempt(bucket.delete, bucket, "a") end
end

function Work:is_done(sequence)
  local db = self.store.db
  for _ = 1, 200 do
    local rows = attempt(db.attempt, db, "rows", "select 1 from runnel_message where stream = 'work' and seq = ?",
      sequence)
    if rows and not rows[1] then return true end
    rn.sleep(1)
  end
end

function Work:do_work(n)
  for i = 1, 2 do self:put(self.work, "work", "work" .. n .. "." .. i) end
  for _ = 1, 2 do
    local m = rn.alts { self.messages, rn.timeout(50) }
    if not m then return end
    m:ack()
    if self:is_done(m.sequence) then self.mark { what = "done", sequence = m.sequence } end
  end
end

function Work:use_stage(n)
  local ok, sequence = attempt(self.from.put, self.from, "from" .. n)
  if not ok then return end
  self.mark { what = "put", stream = "from", sequence = sequence }
  local m = rn.alts { self.results, rn.timeout(50) }
  if m then self.mark { what = "out", value = m.value } end
end

function Work:use_once(n)
  local value = attempt(self.once, "k" .. n)
  if value then self.mark { what = "result", key = "k" .. n, value = value } end
end

local function open(path, synchronous)
  local store = stores.open(path, { synchronous = synchronous })
  store.db:attempt("exec", "pragma wal_autocheckpoint = 12") -- a log becomes a part of the database often
  return store
end

---Works on a new store.
---@param path string
---@param mark fun(fact: table) called when a call has promised something
---@param rounds integer
---@param synchronous string of the store
function workload.run(path, mark, rounds, synchronous)
  local store = attempt(open, path, synchronous)
  if not store then return end
  local self = setmetatable({ store = store, mark = mark }, Work)
  local limits = { retention = "workqueue" }
  local step = store:once("step", function(key) return key .. "!" end)
  self.once = store:once("once", function(key) return step(key) .. "?" end)
  attempt(function()
    for name, opts in pairs { log = {}, work = limits, from = limits, out = {} } do assert(store:stream(name, opts)) end
    self.log, self.work, self.from = assert(store:sink "log"), assert(store:sink "work"), assert(store:sink "from")
    self.bucket = assert(store:kv "bucket")
    self.messages = assert(store:source("work", { name = "work", ack_wait = 60000 }))
    self.stage = assert(store:stage("from", 1, string.upper, "out"))
    self.results = assert(store:source "out")
    for n = 1, rounds do
      self:fill_log(3 * n)
      self:use_bucket(n)
      self:do_work(n)
      self:use_stage(n)
      self:use_once(n)
    end
    self.messages:close()
    self.results:close()
  end)
  attempt(store.drain, store, 1000)
  attempt(store.close, store)
end

---Goes on with a database that a crash has left: a store opens it, keeps what it has, and can do everything.
---@param path string
---@param found table what it has
---@return string? problem
function workload.go_on(path, found)
  local store <close> = stores.open(path)
  local calls = 0
  local once = store:once("once", function(key)
    calls = calls + 1
    return key
  end)
  for key, value in pairs(found.results) do
    if key:find "^k" and once(key) ~= value then return ("the result for %s has changed"):format(key) end
  end
  if calls > 0 then return "once has called its function again" end
  once "new"
  for name, opts in pairs { log = {}, work = { retention = "workqueue" } } do assert(store:stream(name, opts)) end
  local ok, sequence = assert(store:sink "log"):put "new"
  if not ok or sequence ~= (found.last.log or 0) + 1 then return "the new message has another number" end
  local messages, left = assert(store:source("work", { name = "work", ack_wait = 60000 })), 0
  for _ in pairs(found.work) do left = left + 1 end
  for _ = 1, left do
    local m = rn.alts { messages, rn.timeout(20000) }
    if not m then return "the work queue does not deliver what it has" end
    m:ack()
  end
  messages:close()
  store:drain()
end

return workload
