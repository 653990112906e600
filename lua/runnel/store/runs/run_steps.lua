---The steps of a run while it is in this process: which of them are in the file, and which number the next one has.
---
---The steps of the go block in which the function of the run was called have numbers, which must stay the same. Steps
---of go blocks that it has started run in any order: equal ones, with the same function and key, are counted. An error
---of a step is stored only when the go block goes on to another step, since the run is tried again otherwise.
---
---A run whose function waits for long (runnel.store.runs.run_waits) leaves: its go blocks are cancelled with the error
---LEFT, and whatever they do then, no step begins any more.

local backoff = require "runnel.internal.backoff"
local core = require "runnel.core"
local keys = require "runnel.store.keys"
local retry = require "runnel.rn.retry"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"
local waits = require "runnel.store.runs.run_waits"

local internal = core.internal
local now = core.now
local context, set_context = internal.trace.context, internal.trace.set_context
local NEVER <const> = table_of.NEVER

local run_steps = {}

---The error in the go blocks of a run that leaves.
run_steps.LEFT = setmetatable({ has_no_traceback = true }, { __name = "run", __tostring = function()
  return "the run leaves this process, and goes on when it has something to do"
end })
local LEFT = run_steps.LEFT

---Sets the run to which the running go block belongs, and those that it starts from now on; nil: to none.
---@param run? runnel.store.RunSteps
function run_steps.set_context(run)
  local before = context()
  if not before or before.run and before == before.run.context then -- nothing else is known of the go block
    return set_context(run and run.context)
  end
  local own = {}
  for field, value in pairs(before) do own[field] = value end
  own.run = run
  set_context(own)
end

---A go block that is in a sleep or a wait.
---@class runnel.store.RunWaiter
---@field block any
---@field bell runnel.Channel<boolean>
---@field deadline integer
---@field state "sleeping"|"waiting"|"retrying"
---@field seen integer the last signal when it has looked
---@field step string for people
---@field line? string

---@class runnel.store.RunSteps
---@field is_run true
---@field work runnel.store.RunWork
---@field row table of runnel_run
---@field id any the column
---@field scope string of the steps
---@field number integer of the last step of the main go block
---@field block any the main go block
---@field at? { step: string, line?: string } the last step that has begun
---@field taken table<integer, true> signals that a go block is taking
---@field cancels? string the reason of a cancellation that is to be raised
---@field left? integer it leaves; the time when it is to go on
---@field seen? integer it leaves; the last signal that all its go blocks have seen
---@field blocked? string why the program cannot continue it
---@field is_over? boolean its function has ended
---@field is_check? boolean no step may be done
---@field private rows table<string, table> the steps in the file
---@field private numbered table<integer, table> those of the main go block
---@field private counts table<string, integer> how many equal steps of other go blocks there were
---@field private failures table[] errors of steps that are not in the file
---@field private kept table[] those of other go blocks that are
---@field waiters runnel.store.RunWaiter[]
---@field doing integer how many steps are being done
---@field active number when something has happened
---@field context table of its go blocks, if nothing else is known of them
local RunSteps = { is_run = true }
RunSteps.__index = RunSteps

---@param work runnel.store.RunWork
---@param row table of runnel_run
---@param id any the column
---@param scope string of the steps
---@return runnel.store.RunSteps
function run_steps.new(work, row, id, scope)
  local self = setmetatable({
    work = work, row = row, id = id, scope = scope, number = 0, taken = {}, rows = {}, numbered = {},
    counts = {}, failures = {}, kept = {}, waiters = {}, doing = 0, active = now(),
  }, RunSteps)
  self.context = { run = self }
  return self
end

---Runs a statement that stores something: while the file cannot be written for now, it waits, as for the outcomes of
---runs, since a run does not fail for that, and what was done would be done again. Parks.
---@param kind "exec"|"last"
---@param ... any
---@return any result, any problem
function RunSteps:attempt(kind, ...)
  local work = self.work
  local result, problem = work.worker:store(work.NOT_STORED, "write", kind, ...)
  return result, problem
end

---Runs a statement; raises its error at the program's line. One that stores something waits until it can. Parks.
---@param kind "exec"|"rows"
---@param ... any
---@return any result
function RunSteps:must(kind, ...)
  local of = kind == "rows" and self.work.store or self
  return table_of.must(of, "run " .. self.scope, kind, ...)
end

---Reads the steps, and whether the run is to be cancelled, if its row says that there is something. Parks.
---@param looks? boolean it may have been cancelled since its row was read
function RunSteps:load(looks)
  local rows = self.row.has_steps == 1 and self:must("rows", table_of.STEPS, self.scope) or {}
  for _, row in ipairs(rows) do
    row.text = table_of.key_text(row)
    self.rows[row.scope .. "\0" .. row.name .. "\0" .. row.text] = row
    if tonumber(row.scope:sub(#self.scope + 4)) then self.numbered[row.step] = row end
  end
  if looks or self.row.is_cancelled == 1 then self:look_for_cancel() end
end

---Whether any step has been done.
---@return boolean
function RunSteps:has_begun() return next(self.rows) ~= nil end

---Looks whether the run is to be cancelled. Parks.
function RunSteps:look_for_cancel()
  local row = self:must("rows", table_of.LOOK, self.work.name, self.id, table_of.CANCEL, NEVER)[1]
  if not row.number then return end
  self.cancels = table_of.value(row.form, row.value)
  self:ring()
end

---Wakes the go blocks that wait: something may have come for them.
function RunSteps:ring()
  for _, waiter in ipairs(self.waiters) do waiter.bell:put(true) end
end

-- ---- which step ----

---A step as a text.
---@param name string
---@param text string
---@return string
local function shown(name, text) return ("%s[%s]"):format(name, text) end

-- Where a step is, for people: `step` and `line` are made when they are read.
local At = { __index = function(at, key)
  if key == "step" then return shown(at.name, at.text) end
  return key == "line" and at.where and at.where:match " at (.*)$" or nil
end }

local CHANGED <const> = "run %s: step %d is %s now; before, it was %s. A run whose steps have changed cannot go on. "
  .. "Either put the change into `if run:version \"NAME\" then`, which is false in runs that have passed that place, "
  .. "or start the run again from a step before it: r:restart { from = ... }"

-- Raises that the program cannot continue the run. Also if the function catches it, no step begins any more.
local function block(self, step, now_it_is, before)
  self.blocked = self.blocked or CHANGED:format(self.scope, step, now_it_is, before)
  internal.raise(self.blocked)
end

---The number of the next step, if the main go block does it, and the scope of its row. Raises if no step can begin.
---@param name string
---@param text string the key
---@return integer step
---@return string scope
function RunSteps:next(name, text)
  if self.blocked then internal.raise(self.blocked) end
  if self.is_over then
    internal.raise(("run %s: %s: the function of the run has returned; it must wait for its go blocks")
      :format(self.scope, name))
  end
  local _, where = internal.origin(name)
  self.at = setmetatable({ name = name, text = text, where = where }, At)
  if steps.block(name) == self.block then
    self.number = self.number + 1
    return self.number, ("%s > %d"):format(self.scope, self.number)
  end
  local equal = name .. "\0" .. text
  local count = (self.counts[equal] or 0) + 1
  self.counts[equal] = count
  return self.number + 1, self.scope .. (count == 1 and " > go" or (" > go %d"):format(count))
end

---The row of a step. Raises if the step is another one than the last time.
---@param name string
---@param text string
---@param step integer
---@param scope string
---@return table? row
function RunSteps:row_of(name, text, step, scope)
  local row = self.rows[scope .. "\0" .. name .. "\0" .. text]
  local before = not row and scope == ("%s > %d"):format(self.scope, step) and self.numbered[step]
  if before then block(self, step, shown(name, text), shown(before.name, before.text)) end
  return row
end

---The result of a step as an entry; nil if it is to be done.
---@param name string
---@param text string
---@param step integer
---@param scope string
---@return runnel.store.Entry?
function RunSteps:find(name, text, step, scope)
  local row = self:row_of(name, text, step, scope)
  if not row then return nil end
  local entry = values.entry(row.form, row.value)
  entry.failed = row.failed == 1 or nil
  return entry
end

---Raises, at the end of the function, if it has not done all the steps that it did before.
function RunSteps:check_end()
  local row = self.numbered[self.number + 1]
  if row and not self.left then block(self, self.number + 1, "gone", shown(row.name, row.text)) end
end

-- ---- beginning and ending ----

---Ends the running go block of a run that leaves.
function RunSteps.end_block()
  local own = internal.self "run"
  if own then core.cancel(own, LEFT) end
  core.sleep(0)
  error(LEFT, 0)
end

---Whether a run that leaves, or was stopped, can do nothing more in this process.
---@return boolean
function RunSteps:has_left() return self.left ~= nil or self.call.is_stopped == true end

---When the first of its go blocks that wait goes on.
---@return integer
function RunSteps:due()
  local due = NEVER
  for _, waiter in ipairs(self.waiters) do due = math.min(due, waiter.deadline) end
  return due
end

---Makes the run leave: it goes on at a time, or when a signal comes.
---@param due integer
function RunSteps:leave(due)
  if self.left or self.is_over then return end
  self.left = due
  local first = self.waiters[1]
  self.seen = NEVER
  for _, waiter in ipairs(self.waiters) do self.seen = math.min(self.seen, waiter.seen) end
  self.waits = { state = first and first.state or "ready", step = first and first.step, line = first and first.line }
  self:cancel_blocks()
end

---Cancels the go blocks that wait, and the main one.
function RunSteps:cancel_blocks()
  for _, waiter in ipairs(self.waiters) do
    if waiter.block ~= self.block then core.cancel(waiter.block, LEFT) end
  end
  if not self.is_over then core.cancel(self.block, LEFT) end
end

---Makes the run leave as soon as no step is being done, since the program ends.
function RunSteps:drain()
  if self.doing > 0 then return end
  self:leave(self.waiters[1] and self:due() or self.work.store:time())
end

---Stores the result, or the error, of a step. `more` are further statements, with their values. Parks.
---@param of table the step: scope, name, key, number, when it was begun, and `is_note` if it only is to be seen, and so
---does not wait until the file can be written
---@param failed boolean
---@param form string
---@param value any
---@param expires? integer of a sleep or a wait: when it ends
---@param more? string
---@param ... any
function RunSteps:keep(of, failed, form, value, expires, more, ...)
  table_of.must(of.is_note and self.work.store or self, "run " .. self.scope, "exec", table_of.KEEP .. (more or ""),
    of.scope, of.name, of.key, of.step, failed and 1 or 0, form, values.of_column(form, value),
    self.work.store:time(), expires, of.began, ...)
end

-- Stores an error of a step. Parks.
local function keep_failure(self, of, err, ...)
  local form, value = values.encode(err, "the error")
  if not form then form, value = values.encode(internal.error_text(err), "the error") end
  self:keep(of, true, form, value, nil, ...)
end

-- Stores the errors of steps after which the run has gone on: those of the running go block, and of others that have
-- ended.
local function keep_failures(self)
  local own, list = steps.block(), self.failures
  if not list[1] then return end
  self.failures = {}
  for _, failure in ipairs(list) do
    local is_own = failure.block == own
    if is_own or internal.has_ended(failure.block) then
      if not is_own then table.insert(self.kept, failure) end
      keep_failure(self, failure.of, failure.err)
    else
      table.insert(self.failures, failure)
    end
  end
end

---The run fails with an error: what another go block has failed with is not the last word, but done again. Parks.
---@param err any
function RunSteps:forget_failure(err)
  for _, failure in ipairs(self.kept) do
    if rawequal(failure.err, err) then
      self:must("exec", "delete from runnel_once where scope = ? and name = ? and key = ?", failure.of.scope,
        failure.of.name, failure.of.key)
    end
  end
end

---Raises the reason of a cancellation in place of a step, which has then failed with it. Parks.
---@param of table the step
function RunSteps:raise_cancellation(of)
  local reason = self.cancels
  self.cancels, self.row.cancelled = nil, reason
  keep_failure(self, of, reason, table_of.RAISE, self.work.name, self.id, self.work.name, self.id, reason)
  error(reason, 0)
end

---The program is only checked (runnel.store.runs.run_check), and has come to a step that is to be done: all before it
---was right. Another go block than the main one waits, since the main one may do more of the steps in the file.
function RunSteps:end_check()
  if steps.block() == self.block then
    self:leave(0)
    self.end_block()
  end
  local waiter = { block = steps.block(), bell = core.chan(), deadline = NEVER, seen = 0 }
  table.insert(self.waiters, waiter)
  waiter.bell:take()
end

---What is to be done before a step that is not in the file. Parks.
---@param of table the step
function RunSteps:prepare(of)
  if self.is_check then self:end_check() end
  if self.work.is_draining then self:drain() end
  if self:has_left() then self.end_block() end
  self.active = now()
  keep_failures(self)
  if self.cancels then self:raise_cancellation(of) end
end

---A step has failed with an error: raises that.
---@param of table the step
---@param err any
function RunSteps:fail(of, err)
  table.insert(self.failures, { of = of, err = err, block = steps.block() })
  error(err, 0)
end

---Where an error of the run comes from: its step and line.
---@param err any
---@return table at
function RunSteps:place_of(err)
  for _, failure in ipairs(self.failures) do
    if rawequal(failure.err, err) and failure.of.at then return failure.of.at end
  end
  return self.at or {}
end

-- A step that is being done.
local Doing = {}
Doing.__index = Doing

function Doing:__close(err)
  local run = self.run
  run.doing, run.active = run.doing - 1, now()
  run.work.doing:remove(self)
  run_steps.set_context(run)
  if err ~= nil and not internal.is_cancelled(err) then
    table.insert(run.failures, { of = self.of, err = err, block = steps.block() })
  end
  if run.work.is_draining then run:drain() end
end

-- The end of a pause of a step.
local Resting = { __close = function(self) self.run.doing = self.run.doing + 1 end }

---Does a step again until it succeeds, with durable pauses. Tries before a restart of the program count. Parks.
---@param what string
---@param tries { n: integer, pause: number, timeout?: number }
---@param f function
---@param ... any
---@return any ...
function Doing:often(what, tries, f, ...)
  local run, of = self.run, self.of
  local row = run.rows[of.scope .. " > retry\0" .. of.name .. "\0" .. of.text]
  local n, due = row and table_of.value(row.form, row.value).n or 0, row and row.expires
  while true do
    if due then
      run.doing = run.doing - 1
      local resting <close> = setmetatable({ run = run }, Resting) -- luacheck: ignore 211
      waits.retry(run, of, due)
    end
    local results = table.pack(pcall(retry.call, what, 1, 0, tries.timeout, f, ...))
    if results[1] then return table.unpack(results, 2, results.n) end
    local err = results[2]
    if internal.is_cancelled(err) or n + 1 >= tries.n then error(err, 0) end
    due = run.work.store:after(backoff.pause(tries.pause, n + 1))
    n = run:note_try(of, err, due).n
  end
end

---A step that is not in the file begins; it ends when the result, a to-be-closed variable, is closed. Its field `began`
---is the time. Parks.
---@param name string
---@param key any the column
---@param text string
---@param step integer
---@param scope string
---@return any doing
function RunSteps:begin(name, key, text, step, scope)
  local of = { name = name, key = key, step = step, scope = scope, text = text, at = self.at }
  self:prepare(of)
  of.began = self.work.store:time()
  self.doing = self.doing + 1
  run_steps.set_context(nil) -- what the step starts is no part of the run
  local doing = setmetatable({ run = self, of = of, began = of.began }, Doing)
  self.work.doing:add(doing)
  return doing
end

-- Raises in another go block than that of the function.
local function only_main(self, name)
  if steps.block() == self.block then return end
  internal.raise(("run:%s: only the go block of the run's function can call it, since others do not go on in the same "
    .. "order when the run is continued: call it before, and pass the value on"):format(name))
end

---Whether the run had not passed this place when it came here first. It is stored, but has no number. Parks.
---@param name string
---@return boolean
function RunSteps:version(name)
  only_main(self, "version")
  local of = { name = name, key = "", step = self.number + 1, scope = self.scope .. " > version" }
  local row = self.rows[of.scope .. "\0" .. name .. '\0""']
  if row then return table_of.value(row.form, row.value) == true end
  local is_new = self.numbered[self.number + 1] == nil
  if self.is_check then return is_new end
  self:prepare(of)
  self:keep(of, false, "json", is_new and "true" or "false")
  self.rows[of.scope .. "\0" .. name .. '\0""'] = { form = "json", value = is_new and "true" or "false" }
  return is_new
end

---Does something of the library as a step, and returns the value. Parks.
---@param name string of the step
---@param key any
---@param f fun(doing: any): any
---@return any
function RunSteps:value(name, key, f)
  local column, text = keys.of(key)
  local step, scope = self:next(name, text)
  local entry = self:find(name, text, step, scope)
  if entry and entry.failed then error(values.of(entry), 0) end
  if entry then return values.of(entry) end
  local doing <close> = self:begin(name, column, text, step, scope)
  local value = f(doing)
  local form, data = values.encode(value, "the value")
  self:keep(doing.of, false, form, data)
  return value
end

---The same in the go block of the function only.
---@param name string
---@param f fun(): any
---@return any
function RunSteps:own_value(name, f)
  only_main(self, name)
  return self:value(name, keys.NONE, f)
end

-- ---- tries ----

-- How many errors of tries are kept.
local LAST <const> = 10

---Stores that a try has failed, or that the first one takes long. Parks.
---@param of table the step; or the run: the scope is its own, the name and the key are empty
---@param err any nil: none has failed
---@param expires? integer when it is tried again
---@return table tried how many tries have failed, and the last errors
function RunSteps:note_try(of, err, expires)
  local try = setmetatable({ scope = of.scope .. " > retry", is_note = err == nil }, { __index = of })
  local name = try.scope .. "\0" .. of.name .. "\0" .. of.text
  local row = self.rows[name]
  local tried = row and table_of.value(row.form, row.value) or { n = 0, errors = {} }
  if row and err == nil then return tried end
  if err ~= nil then
    tried.n = tried.n + 1
    if #tried.errors == LAST then table.remove(tried.errors, 1) end
    local at = of.at or self:place_of(err)
    table.insert(tried.errors, { self.work.store:time(), ("%s at %s"):format(at.step, at.line),
      (internal.error_text(err)) })
  end
  local form, value = values.encode(tried, "the error")
  self:keep(try, false, form, value, expires)
  self.rows[name] = { scope = try.scope, form = form, value = values.bytes(value), expires = expires }
  return tried
end

---The errors of all tries, in their order, as a text; nil if none was stored.
---@return string?
function RunSteps:story()
  local list, lines = {}, {}
  for _, row in pairs(self.rows) do
    if row.scope:find " > retry$" then
      for _, one in ipairs(table_of.value(row.form, row.value).errors) do list[#list + 1] = one end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, one in ipairs(list) do
    lines[i] = ("%s  %s: %s"):format(os.date("!%Y-%m-%dT%H:%M:%SZ", one[1] // 1000), one[2], one[3])
  end
  return lines[1] and table.concat(lines, "\n")
end

return run_steps
