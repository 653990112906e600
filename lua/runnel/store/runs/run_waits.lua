---Sleeps, waits and pauses of a run, as steps. The row of one that has not ended has the time of its end in `expires`.

local by_key = require "runnel.store.by_key"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local keys = require "runnel.store.keys"
local results = require "runnel.store.runs.run_results"
local steps = require "runnel.store.steps"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"

local alts, chan, now = core.alts, core.chan, core.now
local NEVER <const> = table_of.NEVER

-- How long a run that waits stays in memory; and if others wait for its place, one with several go blocks, and one with
-- the function's only; in ms.
local STAYS <const>, BRIEF <const>, SHORT <const> = 60000, 5000, 1000

local waits = {}

-- Notes that a go block does not wait any more.
local Waiting = { __close = function(self)
  for i, waiter in ipairs(self.run.waiters) do
    if waiter == self.waiter then table.remove(self.run.waiters, i) end
  end
  self.run.active = now()
end }

-- The statement that follows the end of a wait, and its values.
local function goes_on(run)
  return ";" .. table_of.GOES_ON, run.work.name, run.id, run.work.store:time()
end

-- Whether the run should leave, in which this go block waits. One that sleeps for long leaves at once, if no other of
-- its go blocks has been heard of; others stay for a while, and a shorter one if runs wait for their place. One that
-- only waits for a channel stays, since nobody else can know when something comes.
local function should_leave(run, waiter, since)
  local is_only = #run.waiters == 1
  if run.doing > 0 or is_only and waiter.channels then return false end
  local left, is_full = run:due() - run.work.store:time(), run.work:is_full()
  if is_only and waiter.block == run.block
    and (waiter.state ~= "waiting" and left > STAYS or left > SHORT and is_full) then
    return true
  end
  return left > 0 and now() - math.max(since, run.active) >= (is_full and BRIEF or STAYS)
end

-- Waits until the deadline, or until something has happened. Returns what has come from a channel.
local function park(run, waiter, since)
  if run:has_left() then run.end_block() end
  if should_leave(run, waiter, since) then
    run:leave(run:due())
    run.end_block()
  end
  local alarm <close> = guard.alarm(math.max(0, math.min(waiter.deadline - run.work.store:time(), STAYS)))
  local ports = table.move(waiter.channels or {}, 1, #(waiter.channels or {}), 2, { waiter.bell })
  ports[#ports + 1] = alarm.over
  local value, port, err = alts(ports, { priority = true })
  if port ~= waiter.bell and port ~= alarm.over then return value, port, err end
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

-- Waits until the deadline, or until `look` has found and stored something, and returns it. Parks.
local function wait(run, of, waiter, is_there, look)
  waiter.block, waiter.bell, waiter.seen = steps.block(), chan(core.sliding_buffer(1)), look and 0 or NEVER
  waiter.line, waiter.step = of.at.line, of.at.step
  table.insert(run.waiters, waiter)
  local waiting <close> = setmetatable({ run = run, waiter = waiter }, Waiting) -- luacheck: ignore 211
  run.work:watch()
  note_wait(run, of, waiter, is_there)
  local since, is_last, value, port, err = now(), false, nil, nil, nil
  while true do
    if run.cancels then run:raise_cancellation(of) end
    local found = look and look(of, waiter, value, port, err)
    if found ~= nil or is_last then return found end
    is_last = waiter.deadline <= run.work.store:time()
    if is_last and not waiter.channels then return nil end
    value, port, err = park(run, waiter, since)
  end
end

-- A wait as a step. Returns what was found; nil if the time is over. Parks.
local function pause(run, name, key, ms, look, channels)
  local column, text = keys.of(key)
  local step, scope = run:next(name, text)
  local row = run:row_of(name, text, step, scope)
  if row and row.failed == 1 then error(table_of.value(row.form, row.value), 0) end
  if row and not row.expires then return table_of.value(row.form, row.value) end
  local store = run.work.store
  if row and not look and row.expires <= store:time() then return nil end
  local of = { name = name, key = column, text = text, step = step, scope = scope, at = run.at }
  local deadline = row and row.expires or ms and store:after(ms) or NEVER
  of.began = row and row.began or store:time()
  run:prepare(of)
  local found = wait(run, of, { deadline = deadline, state = look and "waiting" or "sleeping", channels = channels },
    row ~= nil, look)
  if look and found == nil then run:keep(of, false, "nil", nil, nil, goes_on(run)) end
  return found
end

---A sleep. Parks.
---@param run runnel.store.RunSteps
---@param ms number
function waits.sleep(run, ms) pause(run, "sleep", ms, ms) end

-- The first signal that has come in time, and the position of its name.
local function find_signal(run, waiter, ports)
  local first, which
  waiter.seen = NEVER
  for i, name in ipairs(ports) do
    local row = not core.is_chan(name) and run:must("rows", table_of.LOOK, run.work.name, run.id, name,
      waiter.deadline)[1]
    waiter.seen = row and math.min(waiter.seen, row.seen) or waiter.seen
    if row and row.number and not run.taken[row.number] and not (first and first.number < row.number) then
      first, which = row, i
    end
  end
  return first, which
end

-- Stores what has come from a channel. One that was closed with an error fails, as a step does.
local function keep_taken(run, of, ports, value, port, err)
  for i, one in ipairs(ports) do
    if rawequal(one, port) then value = { i, value } end
  end
  local form, data = values.encode(value, "the value of the channel")
  if err ~= nil or not form then run:fail(of, err == nil and "wait: " .. data or err) end
  run:keep(of, false, form, data, nil, goes_on(run))
  return value
end

---Waits for the first of some signals and channels. Returns its value; with a list, its position and its value; nil if
---the time is over. Parks.
---@param run runnel.store.RunSteps
---@param key any of the step
---@param ports (string|runnel.Channel<any>)[]
---@param ms? number
---@return any value
function waits.wait(run, key, ports, ms)
  local channels = {}
  for _, port in ipairs(ports) do channels[#channels + 1] = core.is_chan(port) and port or nil end
  return pause(run, "wait", key, ms, function(of, waiter, value, port, err)
    if port then return keep_taken(run, of, ports, value, port, err) end
    local row, which = find_signal(run, waiter, ports)
    if not row then return nil end
    run.taken[row.number] = true
    local got, form, data = table_of.value(row.form, row.value), row.form, row.value
    if type(key) == "table" then
      got = { which, got }
      form, data = values.encode(got, "the signal")
    end
    run:keep(of, false, form, data, nil, table_of.TAKE_SIGNAL, row.number, run.work.name, run.id, run.work.store:time())
    run:ring() -- others may wait for the next one
    return got
  end, channels[1] and channels)
end

-- Why a run cannot wait for the result of another one: that begins only when this one has ended. Parks.
local function never_ends(run, other, column)
  local work = run.work
  if other.name ~= work.name then return nil end
  if other.scope == run.scope then return ("result: run %s waits for its own result"):format(run.scope) end
  local row = work.key and run:must("rows", table_of.FIND, other.name, column)[1]
  if not row or row.seq < run.call.message.sequence then return nil end
  local ok, is_same = pcall(function()
    local function key(of) return by_key.of(work.key, table_of.value(of.form, of.value)) end
    return key(row) == key(run.row)
  end)
  return ok and is_same and ("result: run %s has the key of this one, %s, and comes after it: it begins only when this "
    .. "one has ended"):format(other.scope, run.scope) or nil
end

-- How many runs are asked at most for whom they wait.
local ASKED <const> = 1000

-- The cycle that would wait for ever if a run waited for the result of another one; nil if there is none. Parks.
local function cycle_of(run, other, column)
  local all, seen = { { name = run.work.name, id = run.id } }, {}
  for i = 1, ASKED do
    local last = all[i]
    if not last then return nil end
    for _, row in ipairs(run:must("rows", table_of.WAITERS, last.name, last.id)) do
      local _, scope = table_of.key(row.name, row.id)
      row.waits_for = last
      if row.name == other.name and row.id == column then
        local names = {}
        while row do
          names[#names + 1] = select(2, table_of.key(row.name, row.id))
          row = row.waits_for
        end
        return ("result: runs would wait for each other's results for ever: %s waits for %s"):format(run.scope,
          table.concat(names, ", which waits for "))
      end
      if not seen[scope] then seen[scope], all[#all + 1] = true, row end
    end
  end
end

---Waits for the result of another run. Parks.
---@param run runnel.store.RunSteps
---@param other runnel.store.RunRef
---@param column any its id
---@param ms? number
---@return table? result its form, its value or false, and whether it is an error; nil: the time is over
function waits.result(run, other, column, ms)
  return pause(run, "result", { other.name, other.id }, ms, function(of, waiter)
    while true do
      local row, err
      if waiter.is_listening then
        waiter.seen = run:must("rows", table_of.LOOK, run.work.name, run.id, "", NEVER)[1].seen
      end
      row, err = results.of(run.work.store):outcome(other)
      if err then run:fail(of, err) end
      if row then
        local result = { row.form, row.value == nil and false or row.value, row.failed == 1 }
        local form, data = values.encode(result, "the result")
        run:keep(of, false, form, data, nil, goes_on(run))
        return result
      end
      if waiter.is_listening then return nil end
      err = never_ends(run, other, column)
      if err then run:fail(of, err) end
      local time = run.work.store:time()
      if ms or waiter.block ~= run.block then
        run:must("exec", table_of.LISTEN, other.name, column, run.work.name, run.id, time)
      else
        run:must("exec", table_of.LISTEN_ONLY, other.name, column, run.work.name, run.id, time,
          other.name, column, run.work.name, run.id, time, waiter.step)
        err = cycle_of(run, other, column)
        if err then run:fail(of, err) end
      end
      waiter.is_listening = true
    end
  end)
end

---The pause before a step is tried again: a part of the step, which has a row of its own. Parks.
---@param run runnel.store.RunSteps
---@param of table the row
---@param deadline integer
function waits.retry(run, of, deadline) wait(run, of, { deadline = deadline, state = "retrying" }, true) end

return waits
