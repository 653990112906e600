---store:stream: streams of a store.

local arguments = require "runnel.queue.stream"
local check = require "runnel.internal.check"
local clock = require "runnel.store.clock"
local following = require "runnel.store.following"
local json = require "runnel.json"
local names = require "runnel.queue.names"
local problems = require "runnel.store.problems"
local sign = require "runnel.internal.sign"
local steps = require "runnel.store.steps"
local values = require "runnel.store.values"
local waiting = require "runnel.store.waiting"
local raise = require("runnel.core").internal.raise

local stream = {}

---What the names of the streams begin with that the library itself makes: of runs, and of the jobs of remote stages.
stream.RUNS, stream.JOBS = "runnel-runs-", "runnel-jobs-"

---Raises an error if a program gives the name of such a stream: runs and jobs would never end if programs took, removed
---or changed their messages.
---@param name string
---@param what string the function and the argument, as in "source: stream"
function stream.refuse_own(name, what)
  for prefix, of in pairs { [stream.RUNS] = "runs", [stream.JOBS] = "the jobs of a remote stage" } do
    if name:sub(1, #prefix) == prefix then
      raise(("%s: a name that does not begin with %s expected, got %q, the library's stream of %s"):format(what, prefix,
        name, of))
    end
  end
end

-- Settings that only a server has. The others of these have no effect: a store is one file on one machine.
local OF_SERVERS <const> = { max_per_subject = true, discard_per_subject = true }
local NO_EFFECT <const> = { storage = true, replicas = true }

local MAKE <const> = [[
insert or ignore into runnel_stream(name, subjects, retention, discard, max_age, max_messages, max_bytes, max_message,
  duplicates, description, made) values (?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?);
select * from runnel_stream where name = ?]]

---A stream.
---@class runnel.store.Stream
---@field name string
---@field subjects string[]
---@field retention "limits"|"workqueue"
---@field created integer when it was made, in ms since 1970
---@field duplicates number ms for which it knows ids
---@field private store runnel.store.Store
local Stream = { __name = "stream" }
Stream.__index = Stream
Stream.__sign = "stream"

-- Settings as the table has them, but a `max_age` of 0 for none.
local function columns_of(opts, what)
  local settings = arguments.check(opts, what)
  for name in pairs(OF_SERVERS) do
    if settings[name] ~= nil then
      raise(("%s: %s: only a stream of a nats-server has this setting"):format(what, name))
    end
  end
  if settings.retention == "interest" then
    raise(what .. ': retention: "limits" or "workqueue" expected, got "interest": only a nats-server has that')
  end
  for name in pairs(NO_EFFECT) do settings[name] = nil end
  for name, value in pairs(settings) do
    if type(value) == "number" then settings[name] = clock.setting(value) end
  end
  if settings.max_age == 0 and opts.max_age > 0 then settings.max_age = 1 end -- less than a ms is not for ever
  settings.subjects = settings.subjects and json.encode(json.array(settings.subjects))
  return settings
end

local function opened(store, row)
  local subjects = json.decode(tostring(row.subjects))
  local ok = type(subjects) == "table" and #subjects > 0
  for _, subject in ipairs(ok and subjects or {}) do ok = ok and type(subject) == "string" end
  if not ok then return nil, ("the stream %q is damaged: its subjects are no JSON list of texts"):format(row.name) end
  return setmetatable({
    store = store, name = row.name, retention = row.retention, created = row.made, duplicates = row.duplicates,
    subjects = table.move(subjects, 1, #subjects, 1, {}),
  }, Stream)
end

---Opens an existing stream.
---@param store runnel.store.Store
---@param name string
---@return runnel.store.Stream? stream, string? err
function stream.open(store, name)
  local rows, err = store:attempt("rows", "select * from runnel_stream where name = ?", name)
  if not rows then return nil, err end
  if not rows[1] then return nil, problems.no_stream(name) end
  return opened(store, rows[1])
end

---Opens a stream, and makes it first if it does not exist. Fails, and leaves the stream as it is, if it exists with
---other settings than the given ones.
---@param store runnel.store.Store
---@param name string
---@param opts? runnel.queue.StreamOptions
---@return runnel.store.Stream? stream, string? err
function stream.stream(store, name, opts)
  names.check(name, "stream: name")
  stream.refuse_own(name, "stream: name")
  local made, err = stream.make(store, name, opts)
  return made, err
end

---The same for any name.
---@param store runnel.store.Store
---@param name string
---@param opts? runnel.queue.StreamOptions
---@return runnel.store.Stream? stream, string? err
function stream.make(store, name, opts)
  local wanted = columns_of(opts, "stream")
  local rows, err = store:attempt("last", MAKE, name, wanted.subjects or json.encode(json.array { name }),
    wanted.retention or "limits", wanted.discard or "old", wanted.max_age, wanted.max_messages, wanted.max_bytes,
    wanted.max_message, wanted.duplicates or 120000, wanted.description, store:time(), name)
  if not rows then return nil, err end
  if wanted.max_age == 0 then rows[1].max_age = rows[1].max_age or 0 end
  local difference = problems.difference(rows[1], wanted)
  if difference then return nil, ("stream %q exists with other settings: %s"):format(name, difference) end
  return opened(store, rows[1])
end

-- Runs a statement that changes the row of the stream. Returns how many rows it has changed; nil, err if there is none.
local function change(self, sql, ...)
  local ok, err = self.store:attempt("exec", sql, ...)
  if not ok then return nil, err end
  if ok == 0 then return nil, problems.no_stream(self.name) end
  return ok
end

---Changes the given settings.
---@param opts runnel.queue.StreamOptions
---@return true? ok, string? err
function Stream:change(opts)
  sign.own(self, "stream", "change")
  check.table(opts, "change: options")
  local parts, all = {}, {}
  for column, value in pairs(columns_of(opts, "change")) do
    all[#all + 1] = value
    parts[#parts + 1] = (column == "max_age" and "%s = nullif(?%d, 0)" or "%s = ?%d"):format(column, #all)
  end
  if #parts == 0 then return true end
  local sql = ("update runnel_stream set %s where name = ?%d"):format(table.concat(parts, ", "), #all + 1)
  all[#all + 1] = self.name
  local ok, err = change(self, sql, table.unpack(all))
  if not ok then return nil, err end
  local now = stream.open(self.store, self.name)
  if now then self.subjects, self.duplicates = now.subjects, now.duplicates end
  return true
end

---Deletes a consumer, such as that of a named source or of a stage. Its unfinished messages are not delivered to it
---again; they stay in the stream.
---@param name string
---@return true? ok, string? err
function Stream:delete_consumer(name)
  sign.own(self, "stream", "delete_consumer")
  names.check(name, "delete_consumer: name")
  local ok, err = stream.delete_consumer(self.store, self.name, name)
  return ok, err
end

---@param store runnel.store.Store
---@param of string the stream
---@param name string
---@return true? ok, string? err
function stream.delete_consumer(store, of, name)
  -- Deliveries without a holder do not end their messages, which stay in a work queue.
  local rows, err = store:attempt("last", [[
update runnel_delivery set holder = null where stream = ? and consumer = ? and holder is not null;
delete from runnel_delivery where stream = ? and consumer = ?;
]] .. steps.FORGET_CONSUMER .. [[;
delete from runnel_consumer where stream = ? and name = ? returning name]], of, name, of, name, of, name, of, name)
  if not rows then return nil, err end
  if not rows[1] then return nil, "consumer not found" end
  store:ring(of)
  return true
end

---The number of its messages, their bytes, and the first and the last sequence number.
---@return { messages: integer, bytes: integer, first: integer, last: integer, consumers: integer }? stats, string? err
function Stream:stats()
  sign.own(self, "stream", "stats")
  local rows, err = self.store:attempt("rows", [[
select messages, bytes, last, (select min(seq) from runnel_message where stream = ?1) as first,
  (select count(*) from runnel_consumer where stream = ?1) as consumers from runnel_stream where name = ?1]], self.name)
  if not rows then return nil, err end
  local row = rows[1]
  if not row then return nil, problems.no_stream(self.name) end
  row.first = row.first or row.last > 0 and row.last + 1 or 0
  return row
end

---Removes all messages, or those of a subject, which may be a pattern. Returns their number.
---@param subject? string
---@return integer? count, string? err
function Stream:purge(subject)
  sign.own(self, "stream", "purge")
  local wrong = subject ~= nil and names.wrong_subject(subject, true)
  if wrong then raise("purge: " .. wrong) end
  local found, why = stream.open(self.store, self.name)
  if not found then return nil, why end
  local count, err = self.store:attempt("exec",
    "delete from runnel_message where stream = ?1 and (?2 is null or runnel_matches(subject, ?2))", self.name, subject)
  if not count then return nil, err end
  self.store:ring(self.name)
  local consumers = self.store:attempt("rows", "select name from runnel_consumer where stream = ?", self.name)
  for _, row in ipairs(consumers or {}) do -- if this fails, the next start of the stage does it
    self.store:attempt("exec", steps.forget_lost { stream = self.name, name = row.name, made = self.created })
  end
  return count
end

local function check_id(id, what)
  if type(id) ~= "string" or id == "" or id:find "%c" then
    raise(("%s: the id of a put expected, a string, got %s"):format(what, check.describe(id)))
  end
end

---Removes a message that waits: one that no consumer has, or has done. Its id is free then.
---@param id string that of its put
---@return true? cancelled, string? err it does not wait, or does not exist
function Stream:cancel(id)
  sign.own(self, "stream", "cancel")
  check_id(id, "cancel")
  local cancelled, err = waiting.cancel(self.store, self.name, id)
  return cancelled, err
end

---Gives a message that waits another value. It keeps its place, and its time.
---@param id string that of its put
---@param value any
---@return true? replaced, string? err it does not wait, or does not exist
function Stream:replace(id, value)
  sign.own(self, "stream", "replace")
  check_id(id, "replace")
  if value == nil then raise("replace: a value other than nil expected") end
  local form, data = values.encode(value, "value")
  if not form then raise("replace: " .. data) end
  local replaced, err = waiting.replace(self.store, self.name, id, form, data)
  return replaced, err
end

local DELETE <const> = following.NOTE_STREAM .. [[
delete from runnel_delivery where stream = ?;
delete from runnel_consumer where stream = ?;
delete from runnel_id where stream = ?;
delete from runnel_message where stream = ?;
]] .. steps.FORGET_STREAM .. [[;
delete from runnel_stream where name = ? returning name]]

---Deletes the stream with its messages and consumers.
---@return boolean? deleted, string? err
function Stream:delete()
  sign.own(self, "stream", "delete")
  local name = self.name
  local rows, err = self.store:attempt("last", DELETE, name, self.store:time(), name, name, name, name, name, name,
    name)
  if not rows then return nil, err end
  if not rows[1] then return nil, problems.no_stream(name) end
  self.store:ring(name)
  return true
end

return stream
