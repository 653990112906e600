---Jobs of remote stages in a store: how they and their outcomes are written.

local core = require "runnel.core"
local streams = require "runnel.store.stream"
local values = require "runnel.store.values"

local internal = core.internal

local jobs = {}

---The consumer that the workers of a stage share.
jobs.CONSUMER = "workers"

---The work queue of a stage.
---@param name string
---@return string
function jobs.stream(name) return streams.JOBS .. name end

---The stage of a work queue; nil for another stream.
---@param stream string
---@return string?
function jobs.stage_of(stream)
  local prefix = streams.JOBS
  return stream:sub(1, #prefix) == prefix and stream:sub(#prefix + 1) or nil
end

local SUBMITTERS <const> = "select distinct subject as name from runnel_message where stream = ? union "
  .. "select distinct submitter from runnel_result"

---Whether the process of a submitter has ended.
---@param store runnel.store.Store
---@param submitter string
---@return boolean
function jobs.has_gone(store, submitter)
  local holder, locks = submitter:gsub(":%d+$", ""), store.locks -- the process, and the name of its lock
  if holder == store.holder or not locks or not locks:try(holder) then return false end
  locks:release(holder)
  return true
end

---Makes the work queue of a stage unless it exists, and removes the jobs of processes that have ended. Parks.
---@param store runnel.store.Store
---@param name string
---@return boolean? ok, string? err
function jobs.prepare(store, name)
  local stream = jobs.stream(name)
  local made, err = streams.make(store, stream, { subjects = ">", retention = "workqueue" })
  if not made then return nil, err end
  local rows, why = store:attempt("rows", SUBMITTERS, stream)
  if not rows then return nil, why end
  for _, row in ipairs(rows) do
    if jobs.has_gone(store, row.name) then
      local ok, problem = store:attempt("exec", "delete from runnel_message where stream = ? and subject = ?; "
        .. "delete from runnel_result where submitter = ?", stream, row.name, row.name)
      if not ok then return nil, problem end
    end
  end
  return true
end

-- ---- terms ----

---A function that makes the headers of jobs.
---@param terms { starts: integer, tries: integer, retry: number, has_letters: boolean }
---@param is_async boolean
---@return fun(number: integer): table<string, any>
function jobs.headers(terms, is_async)
  return function(number)
    return {
      number = number, starts = terms.starts, tries = terms.tries, retry = terms.retry, dead = terms.has_letters,
      async = is_async,
    }
  end
end

---The terms of a job; nil if its headers are not those of a job.
---@param headers table<string, any>?
---@return runnel.queue.JobLimits? limits, integer? number
function jobs.limits(headers)
  local starts, tries = headers and headers.starts, headers and headers.tries
  if math.type(starts) ~= "integer" or math.type(tries) ~= "integer" or type(headers.retry) ~= "number"
    or math.type(headers.number) ~= "integer" then
    return nil
  end
  return { starts = starts, tries = tries, retry = headers.retry, has_letters = headers.dead == true,
    is_async = headers.async == true }, headers.number
end

-- ---- outcomes ----

---The rows of an outcome: lists of kind, form and value; or nil and the reason why a result cannot be stored. There is
---always one.
---@param outcome table
---@return { [1]: string, [2]: string, [3]: any }[]? rows, string? err
function jobs.rows(outcome)
  local rows = {}
  local function add(kind, value)
    local form, data = values.encode(value, "result")
    if not form then return data end
    rows[#rows + 1] = { kind, form, data }
  end
  for i = 1, outcome.n do
    local problem = add("result", outcome[i])
    if problem then return nil, problem end
  end
  if outcome.failed then
    if add("error", outcome.err) then add("error", internal.error_text(outcome.err)) end
    if outcome.traceback then add("traceback", outcome.traceback) end
  end
  if #rows == 0 then rows[1] = { "nothing", "nil" } end
  return rows
end

---The outcome in the rows of runnel_result from a place on: those with the same number.
---@param rows table[]
---@param at integer
---@return table outcome
---@return integer next the place after them
function jobs.outcome(rows, at)
  local outcome, number = { n = 0 }, rows[at].number
  while rows[at] and rows[at].number == number do
    local row = rows[at]
    at = at + 1
    local value, problem = values.read(row.form, row.value)
    if problem then
      outcome.failed, outcome.err = true, problem
    elseif row.kind == "result" then
      outcome.n = outcome.n + 1
      outcome[outcome.n] = value
    elseif row.kind == "error" then
      outcome.failed, outcome.err = true, value
    elseif row.kind == "traceback" then
      outcome.traceback = value
    end
  end
  return outcome, at
end

-- ---- workers ----

---Why no worker takes the jobs of a stage; nil if one may.
---@param store runnel.store.Store
---@param name string
---@return string?
function jobs.why_idle(store, name)
  local rows = store:attempt("rows", [[
    select (select count(*) from runnel_worker where stream = ?1) as workers,
      (select paused and coalesce(resumes > ?2, 1) from runnel_consumer where stream = ?1) as paused]],
    jobs.stream(name), store:time())
  local row = rows and rows[1]
  if not row then return nil end
  if row.paused == 1 then return ("it is paused (runnel queues %s resume %s)"):format(store.path, name) end
  if row.workers > 0 then return nil end
  return ("no worker takes them; a worker is a program with store:serve(%q, ...)"):format(name)
end

return jobs
