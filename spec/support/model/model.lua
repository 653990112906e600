---A reference model of channels and go blocks, written from the design, to check the core against. It uses plain lists
---and no coroutines, and is not fast. A go block is a script: a list of operations, made by program.lua.
---
---The core runs go blocks first come, first served, so the model predicts every outcome, in order. It cannot predict
---the choice of a fair alts: it gets the core's choice, and rejects an impossible one.

local transforms = require "spec.support.transforms"

local model = {}

-- ---- channels ----

local function new_channel(kind, limit)
  return {
    kind = kind, limit = limit, buffer = {}, puts = {}, takes = {}, closed = false, reason = nil, finished = false,
    put_total = 0, take_total = 0,
  }
end

-- The first waiter of a queue whose alt has not been committed; those before it are forgotten.
local function first(queue)
  while queue[1] and queue[1].alt.committed do table.remove(queue, 1) end
  return queue[1]
end

local function length(queue)
  local n = 0
  for _, waiter in ipairs(queue) do
    if not waiter.alt.committed then n = n + 1 end
  end
  return n
end

local CAN_BE_FULL = { fixed = true, priority = true, picky = true }

local function is_full(ch)
  return ch.kind == "none" or CAN_BE_FULL[ch.kind] and #ch.buffer >= ch.limit
end

-- Adds a value to the buffer; also over its limit, if a transducer makes several values of one.
local function store(ch, value)
  local place = #ch.buffer + 1
  if ch.kind == "promise" and #ch.buffer == 1 then return end
  if ch.kind == "dropping" and #ch.buffer >= ch.limit then return end
  if ch.kind == "sliding" and #ch.buffer >= ch.limit then
    table.remove(ch.buffer, 1)
    place = place - 1
  end
  if ch.kind == "picky" then transforms.check_picky(value) end
  if ch.kind == "priority" then
    while place > 1 and transforms.less(value, ch.buffer[place - 1]) do place = place - 1 end
  end
  table.insert(ch.buffer, place, value)
end

local function fetch(ch)
  ch.take_total = ch.take_total + 1
  if ch.kind == "promise" then return ch.buffer[1] end
  return table.remove(ch.buffer, 1)
end

-- ---- the machine ----

local Machine = {}
Machine.__index = Machine

function Machine:log(who, text)
  table.insert(self.events, ("%g %s %s"):format(self.now, who, text))
end

function Machine:report(who, err) self:log(who, "reported " .. transforms.show_error(err)) end

-- Makes the go block of a committed alt ready, with the results or the error with which it resumes.
function Machine:wake(waiter, results)
  table.insert(self.ready, { block = waiter.alt.block, results = results, index = waiter.index, ch = waiter.ch })
end

-- Commits the alt of a waiter and makes its block ready.
function Machine:complete(waiter, results)
  waiter.alt.committed = true
  self:wake(waiter, results)
end

-- Whether a put, or a take, would complete at once.
local function can_put(ch) return ch.closed or first(ch.takes) ~= nil or not is_full(ch) end
local function can_take(ch) return #ch.buffer > 0 or first(ch.puts) ~= nil or ch.closed end

-- ---- transducers ----

-- The accumulator, and the one that stands for reduced.
local ACC = {}
local REDUCED = {}

local function new_step(ch)
  return transforms.make(ch.xf, function() return REDUCED end)(function(...)
    if select("#", ...) == 2 then store(ch, (select(2, ...))) end
    return ACC
  end)
end

-- An error in a transducer: the handler's result goes into the buffer.
function Machine:handle(ch, err)
  local who = "chan: " .. ch.name
  if not ch.handler then return self:report(who, err) end
  local ok, instead = pcall(transforms.handlers[ch.handler], err)
  if ok and instead == nil then return end
  if ok then ok, instead = pcall(store, ch, instead) end
  if not ok then self:report(who, instead) end
end

-- Sends a value through the transducer into the buffer. Without a transducer it raises the buffer's error.
function Machine:add(ch, value)
  if not ch.xf then return store(ch, value) end
  local ok, result = pcall(ch.step, ACC, value)
  if not ok then return self:handle(ch, result) end
  if result == REDUCED then
    while first(ch.puts) do
      ch.put_total = ch.put_total + 1
      self:complete(first(ch.puts), { n = 1, true })
    end
    self:close(ch)
  elseif result ~= ACC then
    self:handle(ch, "no accumulator")
  end
end

-- Waiting takes get the buffer's values.
function Machine:serve(ch)
  while first(ch.takes) and #ch.buffer > 0 do self:complete(first(ch.takes), { n = 1, fetch(ch) }) end
end

-- Completes the transducer once the channel is closed and no put waits; it may add values.
function Machine:finish_channel(ch)
  if ch.finished or first(ch.puts) then return end
  ch.finished = true
  if not ch.xf then return end
  local ok, err = pcall(ch.step, ACC)
  if not ok then self:handle(ch, err) end
  self:serve(ch)
end

-- ---- put, take, close ----

-- Puts: true, false when closed, or nil when it would have to wait. Raises the buffer's error.
function Machine:put(ch, value)
  if ch.closed then return false end
  if not can_put(ch) then return nil end
  local taker = first(ch.takes)
  if taker and ch.kind == "none" then
    ch.put_total, ch.take_total = ch.put_total + 1, ch.take_total + 1
    self:complete(taker, { n = 1, value })
    return true
  end
  self:add(ch, value)
  ch.put_total = ch.put_total + 1
  self:serve(ch)
  return true
end

-- A put that has waited goes into the buffer.
function Machine:admit(ch, putter)
  putter.alt.committed = true
  local ok, err = pcall(self.add, self, ch, putter.value)
  if ok then
    ch.put_total = ch.put_total + 1
    self:wake(putter, { n = 1, true })
  elseif putter.alt.block.callback then
    self:report("chan: " .. ch.name, err)
    self:wake(putter, { n = 2, false, err })
  else
    self:wake(putter, { raise = err })
  end
end

-- Takes: the results, or nil when it would have to wait.
function Machine:take(ch)
  if not can_take(ch) then return nil end
  -- A put that waited when the channel closed may have been withdrawn since.
  if #ch.buffer == 0 and ch.closed then self:finish_channel(ch) end
  if #ch.buffer > 0 then
    local value = fetch(ch)
    local waited = first(ch.puts)
    while first(ch.puts) and not is_full(ch) do self:admit(ch, first(ch.puts)) end
    if ch.closed and waited then self:finish_channel(ch) end
    return { n = 1, value }
  end
  local putter = first(ch.puts)
  if putter then
    ch.put_total, ch.take_total = ch.put_total + 1, ch.take_total + 1
    self:complete(putter, { n = 1, true })
    return { n = 1, putter.value }
  end
  if ch.reason == nil then return { n = 1 } end
  ch.heard = true
  return { n = 2, nil, ch.reason }
end

function Machine:close(ch, reason)
  if ch.closed then return end
  ch.closed, ch.reason = true, reason
  self:finish_channel(ch)
  while first(ch.takes) do
    ch.heard = true
    self:complete(first(ch.takes), reason == nil and { n = 1 } or { n = 2, nil, reason })
  end
  if ch.done then self:close(ch.done) end
end

-- A channel by its name. NAME:done is the done() channel of NAME.
function Machine:channel(name)
  local of = name:match "^(.*):done$"
  if not of then return self.channels[name] end
  local ch = self.channels[of]
  if not ch.done then
    ch.done = new_channel "none"
    ch.done.closed = ch.closed
  end
  return ch.done
end

-- ---- time ----

-- Adds a timer: they are sorted by deadline, and equal deadlines by the order in which they were set. Returns it.
function Machine:at(deadline, action)
  local i = #self.timers
  while i > 0 and self.timers[i].deadline > deadline do i = i - 1 end
  local timer = { deadline = deadline, action = action }
  table.insert(self.timers, i + 1, timer)
  return timer
end

function Machine:withdraw(timer)
  for i, other in ipairs(self.timers) do
    if other == timer then return table.remove(self.timers, i) end
  end
end

-- The timeout channel for a deadline. Programs use multiples of 10 ms, so only equal deadlines share a channel.
function Machine:timeout(ms)
  local deadline = self.now + ms
  local ch = self.timeouts[deadline]
  if not ch then
    ch = new_channel("none")
    self.timeouts[deadline] = ch
    self:at(deadline, function()
      self.timeouts[deadline] = nil
      self:close(ch)
    end)
  end
  return ch
end

-- ---- operations ----

local function show(results)
  local list = {}
  for i = 1, results.n do list[i] = transforms.show_error(results[i]) end
  return table.concat(list, ",")
end

-- The error of a cancelled go block, raised now and at each later wait.
local function tell(block)
  block.told, block.cancel = block.cancel, nil
  return block.told
end

-- Called before a go block waits: raises its cancellation. `cleans_up`: not if it has been raised before.
local function about_to_wait(block, cleans_up)
  if block.cancel then error(tell(block), 0) end
  if block.told and not cleans_up then error(block.told, 0) end
end

local function enqueue(ch, is_put, value, alt, index)
  alt.block.alt = alt
  table.insert(is_put and ch.puts or ch.takes, { alt = alt, ch = ch, value = value, index = index })
end

-- Results of an alts as the program's log shows them: value, port (its name, or the operation's number), reason.
local function alts_results(op, index, results)
  if results.raise then return results end
  local port = op.by_index and index or op.ops[index].ch
  if results.n == 2 then return { n = 3, results[1], port, results[2] } end
  return { n = 2, results[1], port }
end

-- Each returns the results, or nil if the go block waits. Some raise.
local operations = {}

function operations.put(m, block, op)
  local ch = m:channel(op.ch)
  local done = m:put(ch, op.value)
  if done ~= nil then return { n = 1, done } end
  about_to_wait(block)
  enqueue(ch, true, op.value, { block = block })
end

local function take(m, block, ch)
  local results = m:take(ch)
  if results then return results end
  about_to_wait(block)
  enqueue(ch, false, nil, { block = block })
end

function operations.take(m, block, op) return take(m, block, m:channel(op.ch)) end

function operations.timeout(m, block, op) return take(m, block, m:timeout(op.ms)) end

function operations.offer(m, _, op) return { n = 1, m:put(m:channel(op.ch), op.value) } end

function operations.poll(m, _, op) return m:take(m:channel(op.ch)) or { n = 1 } end

function operations.close(m, _, op)
  m:close(m:channel(op.ch), op.reason)
  return { n = 0 }
end

function operations.look(m, _, op)
  local ch = m:channel(op.ch)
  return { n = 6, #ch.buffer, length(ch.puts), length(ch.takes), ch.closed, ch.put_total, ch.take_total }
end

function operations.alts(m, block, op)
  local chs, possible, chosen = {}, {}, nil
  for i, one in ipairs(op.ops) do
    chs[i] = one.ch == "timeout" and m:timeout(op.ms) or m:channel(one.ch)
  end
  for i, ch in ipairs(chs) do
    if op.ops[i].value ~= nil then possible[i] = can_put(ch) else possible[i] = can_take(ch) end
    if possible[i] and not chosen then chosen = i end
  end
  if chosen and not op.priority then
    chosen = m.choices[block.name .. ":" .. block.pc]
    if not possible[chosen] then error(("%s chose operation %s, which was not possible"):format(block.name, chosen)) end
  end
  if chosen then
    local ch, value = chs[chosen], op.ops[chosen].value
    return alts_results(op, chosen, value ~= nil and { n = 1, m:put(ch, value) } or m:take(ch))
  end
  if op.default ~= nil or op.nowait then return { n = 2, op.default, "default" } end
  about_to_wait(block)
  local alt = { block = block }
  local function add(i) enqueue(chs[i], op.ops[i].value ~= nil, op.ops[i].value, alt, i) end
  -- Of operations on the same channel, any may be the first.
  local first_one = not op.priority and m.choices[block.name .. ":" .. block.pc] or nil
  if first_one then add(first_one) end
  for i = 1, #chs do
    if i ~= first_one then add(i) end
  end
end

function operations.sleep(m, block, op)
  about_to_wait(block)
  block.timer = m:at(m.now + op.ms, function()
    block.timer = nil
    table.insert(m.ready, { block = block, results = { n = 0 } })
  end)
end

operations["yield"] = function(m, block)
  about_to_wait(block)
  table.insert(m.ready, { block = block, results = { n = 0 } })
end

-- Cancels a go block. If it waits, its operation is withdrawn, and it resumes with the error. If it runs, has not
-- begun, or has results to resume with, it gets the error at its next wait.
function Machine:cancel(block, reason)
  if block.dead then
    self.channels[block.name].heard = true -- its error is dropped
    return false
  end
  if not block.cancel then
    block.cancel, block.cancelled_with = reason, reason
    local is_parked = block.alt and not block.alt.committed
    if is_parked then block.alt.committed = true end
    if block.timer then self:withdraw(block.timer) end
    if is_parked or block.timer then table.insert(self.ready, { block = block, results = { n = 0 } }) end
    block.timer = nil
  end
  return true
end

function operations.cancel(m, _, op) return { n = 1, m:cancel(m.blocks[op.ch], op.reason) } end

-- ---- scopes ----

local function all_ended(m, s)
  s.over = true
  local alt, timer = s.caller.alt, s.caller.timer
  if s.joined or not timer and (not alt or alt.committed) then return end
  if timer then m:withdraw(timer) else alt.committed = true end
  s.caller.timer = nil
  table.insert(m.ready, { block = s.caller, results = { n = 1 } })
end

local function cancel_all(m, s, reason)
  s.cancelled = true
  for i = 1, s.started do
    if s.members[i] then m:cancel(s.members[i], reason) end
  end
end

local function fail_scope(s, reason)
  if not s.raises then s.raises, s.reason = true, reason end
end

-- A go block of a scope ends, with results or an error.
local function member_ended(m, block, returns, err)
  local s = block.scope
  s.members[block.number] = nil
  s.living = s.living - 1
  if err == nil then
    if block.number == 1 then s.results = { returns } end
  else
    if block.number == 1 then s.body_error = err end
    if err ~= block.cancelled_with then
      if s.late then -- the error of the timeout tells what was raised after it, once
        s.late.message, s.late = ("%s; cancelled, it raised: %s"):format(s.late.message, tostring(err)), nil
      end
      local is_first = not s.raises -- its report tells of later errors, which have none of their own
      fail_scope(s, err)
      if is_first and not s.cancelled then cancel_all(m, s, err) end
      block.cancelled_with = err
    end
  end
  if s.living == 0 then all_ended(m, s) end
end

-- How often a scope lets others run at its deadline before it cancels them.
local ROUNDS = 5

local function add_member(m, s, name, script)
  s.started, s.living = s.started + 1, s.living + 1
  local block = m:spawn(name, script)
  block.scope, block.number = s, s.started
  s.members[s.started] = block
  if s.cancelled then m:cancel(block, s.reason) end
  return block
end

local function outcome(s)
  s.joined = true
  if s.was_cancelled and s.caller.cancel then s.reason = tell(s.caller) end -- cancelled again: the last reason counts
  if s.results and not s.raises then return { n = 2, true, s.results[1] } end
  local err = s.body_error
  if s.raises then err = s.reason end
  if err == s.caller.cancelled_with then return { raise = err } end
  return { n = 2, false, err }
end

-- The error of a scope's timeout, unlike all others.
local function timed_out(s)
  local others = s.living - (s.members[1] and 1 or 0)
  local what = others == 1 and "1 go block" or others .. " go blocks"
  if s.members[1] then what = others == 0 and "its body" or "its body and " .. what end
  local err = { message = ("scope: %s had not ended after %d ms"):format(what, s.ms) }
  return setmetatable(err, { __tostring = function() return err.message end })
end

-- Cancels all that live, since the time is up.
local function time_is_up(m, s)
  local reason = timed_out(s)
  s.ms = nil
  if not s.raises then s.late = reason end
  fail_scope(s, reason)
  cancel_all(m, s, reason)
end

-- The caller resumes at `deadline`, unless the scope has ended before.
local function wait_until(m, s, deadline)
  s.caller.timer = m:at(deadline, function()
    s.caller.timer = nil
    table.insert(m.ready, { block = s.caller, results = { n = 0 } })
  end)
end

-- The caller waits until all have ended, or the time is up.
local function join(m, s)
  if s.over then return outcome(s) end
  about_to_wait(s.caller, true)
  if not s.ms then
    s.caller.alt = { block = s.caller }
    return
  end
  s.caller.alt = nil
  if m.now >= s.deadline then -- the caller was cancelled at the deadline
    time_is_up(m, s)
    return join(m, s)
  end
  wait_until(m, s, s.deadline)
end

-- The caller resumes: its scope has ended, or the time is up, or it was cancelled.
local function resumed_in_scope(m, s, results)
  local reason = s.caller.cancel
  if results.n > 0 then return outcome(s) end
  if reason then
    tell(s.caller)
  elseif s.over then
    return outcome(s)
  elseif s.rounds < ROUNDS then -- what is ready at the deadline may still end the scope
    s.rounds = s.rounds + 1
    return wait_until(m, s, m.now)
  else
    time_is_up(m, s)
    return join(m, s)
  end
  if s.was_cancelled then s.reason = reason end
  s.was_cancelled = s.was_cancelled or not s.raises
  fail_scope(s, reason)
  cancel_all(m, s, reason)
  return join(m, s)
end

function operations.scope(m, block, op)
  about_to_wait(block)
  local s = {
    caller = block, members = {}, started = 0, living = 0, rounds = 0, ms = op.ms, deadline = op.ms and m.now + op.ms,
  }
  add_member(m, s, op.name, op.script).children = op.children
  block.in_scope = s
  return join(m, s)
end

function operations.go(m, _, op)
  m:spawn(op.name, op.script)
  return { n = 0 }
end

-- A callback runs at once; or in a go block of its own, if the operation had to wait or on_caller is false.
local function call_back(m, block, op, results)
  local ch, callback = m:channel(op.ch), { name = block.name .. "/callback", callback = op, pc = 0 }
  if not results then
    enqueue(ch, op.kind == "put_async", op.value, { block = callback })
  elseif op.queued then
    table.insert(m.ready, { block = callback, results = results })
  else
    m:run_callback(callback, results, ch.name and "chan: " .. ch.name or "a callback")
  end
end

function operations.put_async(m, block, op)
  local done = m:put(m:channel(op.ch), op.value)
  call_back(m, block, op, done ~= nil and { n = 1, done })
  return { n = 1, done ~= false }
end

function operations.take_async(m, block, op)
  call_back(m, block, op, m:take(m:channel(op.ch)))
  return { n = 0 }
end

-- ---- go blocks ----

function Machine:spawn(name, script)
  self.channels[name] = new_channel("fixed", 1)
  self.blocks[name] = { name = name, script = script, pc = 0 }
  table.insert(self.ready, { block = self.blocks[name] })
  return self.blocks[name]
end

-- Does an operation. Returns its results, nil if the go block waits, or an error.
function Machine:perform(block, op)
  local ok, results = pcall(operations[op.kind], self, block, op)
  if ok then return results end
  return { raise = results }
end

-- Calls a callback; reports name `who` as the place of its errors.
function Machine:run_callback(callback, results, who)
  local op = callback.callback
  self:log(callback.name, op.kind .. " " .. show(results))
  for pc, inner in ipairs(op.script) do
    callback.pc = pc
    results = self:perform(callback, inner)
    if results.raise then return self:report(who, results.raise) end
    self:log(callback.name, inner.kind .. " " .. show(results))
  end
  if op.raises then self:report(who, op.raises) end
end

-- The block ends by raising. If a cancellation has not reached it yet, the error counts as that.
function Machine:fail(block, err)
  if block.cancel then block.cancelled_with = err end
  if block.scope then member_ended(self, block, nil, err) end
  block.dead = true
  local result = self.channels[block.name]
  self:close(result, err)
  if err ~= block.cancelled_with then table.insert(self.unheard, { block = block, err = err, result = result }) end
end

-- The block ends: with a result, or by raising.
function Machine:finish(block)
  self.ended[block.name] = true
  if block.script.raises then return self:fail(block, block.script.raises) end
  if block.scope then member_ended(self, block, block.script.returns) end
  block.dead = true
  local result = self.channels[block.name]
  if block.script.returns ~= nil then self:put(result, block.script.returns) end
  self:close(result)
end

-- Runs a block until it waits or ends.
function Machine:resume(entry)
  local block, results = entry.block, entry.results
  if block.callback then return self:run_callback(block, results, "a callback") end
  local op = block.last
  if results and op.kind == "scope" then
    results = resumed_in_scope(self, block.in_scope, results)
    if not results then return end
  end
  for i, script in ipairs(not results and block.children or {}) do
    add_member(self, block.scope, block.name .. "." .. i, script)
  end
  if results and entry.index then results = alts_results(op, entry.index, results) end
  if results and results.n == 0 and block.cancel then
    results = { raise = tell(block) }
  end
  while true do
    if results and results.raise then
      local goes_on = block.script.catches and results.raise == block.cancelled_with
      if not goes_on then return self:fail(block, results.raise) end
      self:log(block.name, op.kind .. " raises " .. transforms.show_error(results.raise))
    elseif results then
      self:log(block.name, op.kind .. " " .. show(results))
    end
    block.pc = block.pc + 1
    op = block.script[block.pc]
    if not op then return self:finish(block) end
    block.last = op
    results = self:perform(block, op)
    if not results then return end
  end
end

-- ---- the end of a run ----

-- The waiting operations, as "take", "put" or "alts" -> how many. Waiting for a scope counts as a take.
local function count_waiting(channels, blocks)
  local counts, seen = {}, {}
  local function count(queue, what)
    for _, waiter in ipairs(queue) do
      local alt = waiter.alt
      if not alt.committed and not seen[alt] then
        seen[alt] = true
        local kind = waiter.index and "alts" or what
        counts[kind] = (counts[kind] or 0) + 1
      end
    end
  end
  for _, ch in pairs(channels) do
    for _, each in ipairs { ch, ch.done } do
      count(each.puts, "put")
      count(each.takes, "take")
    end
  end
  for _, block in pairs(blocks) do
    local s = block.in_scope
    if s and not s.joined and block.alt and not block.alt.committed then counts.take = (counts.take or 0) + 1 end
  end
  return counts
end

---Runs a program.
---@param program table channels and blocks, see spec/support/model/program.lua
---@param choices table<string, integer> the operations that fair alts have chosen: "block:pc" -> number
---@return table predicted events (a list of strings), and what is left: channels, ended and waiting
function model.run(program, choices)
  local m = setmetatable({
    now = 0, ready = {}, timers = {}, timeouts = {}, channels = {}, events = {}, ended = {}, choices = choices,
    blocks = {}, unheard = {},
  }, Machine)
  for name, made in pairs(program.channels) do
    local ch = new_channel(made.kind, made.limit)
    ch.name, ch.xf, ch.handler = name, made.xf, made.handler
    if ch.xf then ch.step = new_step(ch) end
    m.channels[name] = ch
  end
  for _, block in ipairs(program.blocks) do m:spawn(block.name, block.script) end
  local function fire_due()
    while m.timers[1] and m.timers[1].deadline <= m.now do table.remove(m.timers, 1).action() end
  end
  while true do
    while m.ready[1] do
      m:resume(table.remove(m.ready, 1))
      fire_due() -- a simulation looks at the clock after each resume
    end
    if not m.timers[1] then break end
    m.now = m.timers[1].deadline
    fire_due()
  end
  m.now = 1e9
  for _, it in ipairs(m.unheard) do -- unhandled errors, reported at the end
    if not it.result.heard then m:report(it.block.name, it.err) end
  end
  m.waiting = count_waiting(m.channels, m.blocks)
  for name, ch in pairs(m.channels) do
    m.channels[name] = {
      count = #ch.buffer, puts = length(ch.puts), takes = length(ch.takes), closed = ch.closed,
      put_total = ch.put_total, take_total = ch.take_total,
    }
  end
  return m
end

return model
