---Sleeps and waits of a run, as steps. The row of one that has not ended has the time of its end in `expires`.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local keys = require "runnel.store.keys"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.run_table"

local alts, chan, now = core.alts, core.chan, core.now
local NEVER <const> = table_of.NEVER

-- How long a run that waits stays in memory, and how long one does although others wait for its place, in ms.
local STAYS <const>, SHORT <const> = 60000, 1000

local waits = {}

-- Notes that a go block does not wait any more.
local Waiting = { __close = function(self)
  for i, waiter in ipairs(self.run.waiters) do
    if waiter == self.waiter then table.remove(self.run.waiters, i) end
  end
  self.run.active = now()
end }

-- Whether the run should leave, in which this go block waits. One that sleeps for long leaves at once, if no other of
-- its go blocks has been heard of; others stay for a while, unless runs wait for their place.
local function should_leave(run, waiter, since)
  if run.doing > 0 then return false end
  local left = run:due() - run.work.store:time()
  local is_alone = #run.waiters == 1 and waiter.block == run.block
  if is_alone and (waiter.state == "sleeping" and left > STAYS or left > SHORT and run.work:is_full()) then
    return true
  end
  return left > 0 and now() - math.max(since, run.active) >= STAYS
end

-- Waits until the deadline, or until something has happened.
local function park(run, waiter, since)
  if run:has_left() then run.end_block() end
  if should_leave(run, waiter, since) then
    run:leave(run:due())
    run.end_block()
  end
  local left = math.min(waiter.deadline - run.work.store:time(), STAYS)
  local alarm <close> = guard.alarm(left)
  alts({ waiter.bell, alarm.over }, { priority = true })
end

-- Takes a signal that has come until the deadline. Returns its row, which is in the file as the result; or nil.
local function take_signal(run, of, signal, deadline)
  local row = run:must("rows", table_of.LOOK, run.work.name, run.id, signal, deadline)[1]
  run.seen = math.max(run.seen, row.seen)
  if not row.number or run.taken[row.number] then return nil end
  run.taken[row.number] = true
  run:keep(of, false, row.form, row.value, nil, table_of.TAKE_SIGNAL, row.number, run.work.name, run.id,
    run.work.store:time())
  run:ring() -- others may wait for the next one
  return row
end

-- Stores that a wait begins, unless the file says so already.
local function note_wait(run, of, waiter, is_there)
  local store, row = run.work.store, run.row
  local finite = waiter.deadline < NEVER and waiter.deadline or nil
  local sql, all = table_of.WAITS, { run.work.name, run.id, waiter.state, store:time(), finite, waiter.step,
    waiter.line, n = 7 }
  local is_noted = row.state == waiter.state and row.step == waiter.step and row.line == waiter.line
  row.state = nil
  if is_noted and not finite then of.began = row.since end
  if is_noted and (is_there or not finite) then return end
  if is_there or not finite then return run:must("exec", sql, table.unpack(all, 1, all.n)) end
  run:keep(of, false, "nil", nil, finite, ";" .. sql, table.unpack(all, 1, all.n))
end

---A sleep, or with `signal` a wait for it, as a step. Returns the row of the signal; nil if the time is over. Parks.
---@param run runnel.store.RunSteps
---@param name string of the step
---@param key any
---@param ms? number
---@param signal? string
---@return table? row
function waits.pause(run, name, key, ms, signal)
  local column, text = keys.of(key)
  local step, scope = run:next(name, text)
  local row = run:row_of(name, text, step, scope)
  if row and row.failed == 1 then error(table_of.value(row.form, row.value), 0) end
  if row and not row.expires then return row.form ~= "nil" and row or nil end
  local store, since = run.work.store, now()
  if row and not signal and row.expires <= store:time() then return nil end
  local of = { name = name, key = column, text = text, step = step, scope = scope }
  local deadline = row and row.expires or ms and math.min(store:time() + math.ceil(ms), NEVER - 1) or NEVER
  of.began = row and row.began or store:time()
  local waiter = {
    block = steps.block(), bell = chan(core.sliding_buffer(1)), deadline = deadline, line = run.at.line,
    state = signal and "waiting" or "sleeping", step = run.at.step,
  }
  run:prepare(of)
  table.insert(run.waiters, waiter)
  local waiting <close> = setmetatable({ run = run, waiter = waiter }, Waiting) -- luacheck: ignore 211
  run.work:watch()
  note_wait(run, of, waiter, row ~= nil)
  while true do
    if run.cancels then run:raise_cancellation(of) end
    local taken = signal and take_signal(run, of, signal, deadline)
    if taken then return taken end
    if deadline <= store:time() then break end
    park(run, waiter, since)
  end
  if signal then run:keep(of, false, "nil", nil, nil, ";" .. table_of.GOES_ON, run.work.name, run.id, store:time()) end
  return nil
end

return waits
