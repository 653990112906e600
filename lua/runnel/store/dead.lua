---Dead letters of the stages of a store: rows of runnel_dead.

local counts = require "runnel.queue.count"
local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local letters = require "runnel.queue.dead"
local problems = require "runnel.store.problems"
local process = require "runnel.store.store_process"
local run_table = require "runnel.store.runs.run_table"
local sign = require "runnel.internal.sign"
local sink = require "runnel.store.sink"
local values = require "runnel.store.values"

local dead = {}

local BURY <const> = "insert or ignore into runnel_dead(name, kind, id, error, traceback, starts, raises, since, made, "
  .. "worker, stream, subject, position, form, value, bytes, headers, is_async) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
  .. "?, ?, ?, ?, ?, ?, ?, ?)"
local FIELDS <const> = "seq, kind, error, traceback, starts, raises, since, made, worker, stream, subject, position, "
  .. "form, bytes, is_async"
local OWN <const> = " from runnel_dead where name = ?1 and (?2 is null or kind = ?2) "
  .. "and (?3 is null or coalesce(stream, ?3) = ?3)"
local COUNT <const> = "select count(*) as n" .. OWN
local LIST <const> = "select " .. FIELDS .. OWN .. " and seq > ?4 order by seq limit ?5"
local FIND <const> = "select " .. FIELDS .. ", value, headers" .. OWN .. " and seq = ?4"

-- The headers of a row: those of the message, and what else is known only of some.
local function headers_of(letter)
  local headers = {}
  for name, text in pairs(letter.headers or {}) do headers[name] = text end
  headers["Runnel-Errors"] = letter.errors and json.encode(letter.errors)
  headers["Runnel-Priority"] = (letter.priority or 0) > 0 and ("%d"):format(letter.priority) or nil
  return next(headers) ~= nil and json.encode(headers) or nil
end

---Stores a letter; at most one with an id. Parks.
---@param store runnel.store.Store
---@param letter runnel.DeadLetter whose encoding is the form of its value in the table
---@param tx? runnel.sqlite.Transaction
---@return boolean? stored, string? problem
---@return boolean? passes the same call may succeed later
function dead.store(store, letter, tx)
  local ok, problem = (tx or store):attempt("exec", BURY, letter.name, letter.kind, letter.id, letter.error,
    letter.traceback, letter.starts, letter.raises, letter.since, store:time(), ("%s:%d"):format(process()),
    letter.from, letter.subject, letter.position, letter.encoding, values.of_column(letter.encoding, letter.data),
    values.size(letter.data), headers_of(letter), letter.is_async)
  if not ok then return nil, problem, problems.may_pass(problem) and not store.is_closed end
  return true
end

-- The letter of a row.
local function letter_of(self, row)
  return {
    sequence = row.seq, name = self.name, kind = row.kind, error = row.error, traceback = row.traceback,
    starts = row.starts, raises = row.raises, since = row.since, time = row.made, worker = row.worker,
    encoding = row.form:find "^msgpack" and "msgpack" or "json", form = row.form, bytes = row.bytes,
    is_async = row.is_async == 1, left_out = false, from = row.stream,
    subject = row.subject, position = row.position,
  }
end

local Dead = {}

function Dead:count()
  sign.own(self, "dead", "count")
  local rows, err = self.owner:attempt("rows", COUNT, self.name, self.kind, self.from)
  if not rows then return nil, err end
  return rows[1].n
end

function Dead:read(after, most)
  local rows, err = self.owner:attempt("rows", LIST, self.name, self.kind, self.from, after, most)
  if not rows then return nil, err end
  for i, row in ipairs(rows) do rows[i] = letter_of(self, row) end
  return rows
end

function Dead:find(sequence)
  local rows, err = self.owner:attempt("rows", FIND, self.name, self.kind, self.from, sequence)
  if not rows then return nil, err end
  local row = rows[1]
  if not row then return nil end
  local letter = letter_of(self, row)
  letter.data, letter.value, letter.problem = row.value, values.read(row.form, row.value)
  letter.headers = type(row.headers) == "string" and json.decode(row.headers) or {}
  if type(letter.headers) ~= "table" then letter.headers = {} end
  local headers = letter.headers
  local errors, priority = headers["Runnel-Errors"], headers["Runnel-Priority"]
  letter.errors = type(errors) == "string" and counts.errors(json.decode(errors)) or nil
  letter.priority = math.tointeger(tonumber(priority)) or 0
  headers["Runnel-Errors"], headers["Runnel-Priority"] = nil, nil
  return letter
end

local REMOVE <const> = "delete" .. OWN .. " and seq = coalesce(?4, seq)"

function Dead:remove(sequence)
  local n, err = self.owner:attempt("exec", REMOVE, self.name, self.kind, self.from, sequence)
  return n, err
end

-- Puts the message of a letter into its stream again, in a transaction. Raises what is wrong.
local function store_again(self, letter, tx)
  local headers = { ["Runnel-For"] = self.name }
  for name, text in pairs(letter.headers) do
    if not name:find "^Runnel%-" then headers[name] = text end
  end
  local id = ("replay.%s.%d.%s"):format(self.name, letter.sequence, letter.time)
  local seq, is_duplicate = sink.append(self.owner, letter.from, letter.subject, letter.form, letter.data,
    { id = id, headers = headers, priority = math.max(0, math.min(letter.priority, 9)) }, tx)
  if not seq then error(problems.of_put(is_duplicate, letter.from), 0) end
  if is_duplicate or letter.from ~= run_table.stream(self.name) then return end
  -- Whoever has seen that the run has failed, sees now that it goes on.
  if tx:exec(run_table.REPLAY, run_table.replay(self.name, letter.value, seq, self.owner:time())) > 0 then return end
  local _, scope = run_table.key(self.name, letter.value)
  error(("the run %s has not failed, or was forgotten: drop its dead letter"):format(scope), 0)
end

-- All in one transaction: whenever this process ends, there is either the letter, or the message and a run that goes
-- on.
function Dead:store_again(letter)
  local db = self.owner.db
  local ok, problem = pcall(db.transaction, db, function(tx)
    local n = tx:exec(REMOVE, self.name, self.kind, self.from, letter.sequence)
    if n > 0 then store_again(self, letter, tx) end
    return n
  end)
  if ok then return problem end
  guard.raise_cancelled(problem)
  return nil, self.owner.is_closed and "the store is closed" or guard.text(problem)
end

local class = letters.class(Dead)

---The dead letters of the stage with this name.
---@param store runnel.store.Store
---@param name string NAME, or STREAM/NAME for those of the messages of one stream
---@return runnel.DeadLetters letters
function dead.dead(store, name)
  return letters.new(class, store, name)
end

return dead
