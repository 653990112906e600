---A reference model of channels and go blocks, written from the design, to check the core against: plain lists, no
---coroutines, nothing fast. A go block is a script, a list of operations (spec/support/program.lua makes them).
---
---The run order of the core is first come, first served, so that the model predicts every outcome, in order. Only which
---of several operations a fair alts does cannot be told: the model is given the core's choice, and refuses one that was
---not possible.

local model = {}

-- ---- channels ----

local function new_channel(kind, limit)
  return {
    kind = kind, limit = limit, buffer = {}, puts = {}, takes = {}, closed = false, reason = nil,
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

local function is_full(ch)
  if ch.kind == "none" then return true end
  return ch.kind == "fixed" and #ch.buffer >= ch.limit
end

local function store(ch, value)
  if ch.kind == "promise" and #ch.buffer == 1 then return end
  if ch.kind == "dropping" and #ch.buffer == ch.limit then return end
  if ch.kind == "sliding" and #ch.buffer == ch.limit then table.remove(ch.buffer, 1) end
  table.insert(ch.buffer, value)
end

local function fetch(ch)
  ch.take_total = ch.take_total + 1
  if ch.kind == "promise" then return ch.buffer[1] end
  return table.remove(ch.buffer, 1)
end

-- ---- the machine ----

local Machine = {}
Machine.__index = Machine

function Machine:log(block, text)
  table.insert(self.events, ("%g %s %s"):format(self.now, block, text))
end

-- Commits the alt of a waiter and makes its block ready, with what it resumes with.
function Machine:complete(waiter, results)
  waiter.alt.committed = true
  table.insert(self.ready, { block = waiter.alt.block, results = results, index = waiter.index, ch = waiter.ch })
end

-- Whether a put, or a take, would complete at once.
local function can_put(ch) return ch.closed or first(ch.takes) ~= nil or not is_full(ch) end
local function can_take(ch) return #ch.buffer > 0 or first(ch.puts) ~= nil or ch.closed end

-- Puts: true, false when closed, or nil when it would have to wait.
function Machine:put(ch, value)
  if ch.closed then return false end
  if not can_put(ch) then return nil end
  ch.put_total = ch.put_total + 1
  local taker = first(ch.takes)
  if taker and ch.kind ~= "promise" then
    ch.take_total = ch.take_total + 1
    self:complete(taker, { n = 1, value })
    return true
  end
  store(ch, value)
  while ch.kind == "promise" and first(ch.takes) do self:complete(first(ch.takes), { n = 1, fetch(ch) }) end
  return true
end

-- Takes: the results, or nil when it would have to wait.
function Machine:take(ch)
  if not can_take(ch) then return nil end
  if #ch.buffer > 0 then
    local value = fetch(ch)
    while first(ch.puts) and not is_full(ch) do
      local putter = first(ch.puts)
      store(ch, putter.value)
      ch.put_total = ch.put_total + 1
      self:complete(putter, { n = 1, true })
    end
    return { n = 1, value }
  end
  local putter = first(ch.puts)
  if putter then
    ch.put_total, ch.take_total = ch.put_total + 1, ch.take_total + 1
    self:complete(putter, { n = 1, true })
    return { n = 1, putter.value }
  end
  return ch.reason == nil and { n = 1 } or { n = 2, nil, ch.reason }
end

function Machine:close(ch, reason)
  if ch.closed then return end
  ch.closed, ch.reason = true, reason
  while first(ch.takes) do
    self:complete(first(ch.takes), reason == nil and { n = 1 } or { n = 2, nil, reason })
  end
end

-- ---- time ----

-- Deadlines in order, equal ones in the order in which they were asked for.
function Machine:at(deadline, action)
  local i = #self.timers
  while i > 0 and self.timers[i].deadline > deadline do i = i - 1 end
  table.insert(self.timers, i + 1, { deadline = deadline, action = action })
end

-- The timeout channel for a deadline. Programs ask for multiples of 10 ms: only equal ones share.
function Machine:timeout(ms)
  local deadline = self.now + ms
  local ch = self.timeouts[deadline]
  if not ch then
    ch = new_channel("none")
    ch.is_timeout = true
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
  for i = 1, results.n do list[i] = tostring(results[i]) end
  return table.concat(list, ",")
end

local function enqueue(block, ch, is_put, value, alt, index)
  table.insert(is_put and ch.puts or ch.takes, { alt = alt, ch = ch, value = value, index = index, block = block })
end

-- Results of an alts as the program's log shows them: value, port (its name, or the operation's number), reason.
local function alts_results(op, index, results)
  local port = op.by_index and index or op.names[index]
  if results.n == 2 then return { n = 3, results[1], port, results[2] } end
  return { n = 2, results[1], port }
end

-- Each returns the results; or nil when the block waits.
local operations = {}

function operations.put(m, block, op)
  local ch = m.channels[op.ch]
  local done = m:put(ch, op.value)
  if done ~= nil then return { n = 1, done } end
  enqueue(block, ch, true, op.value, { block = block })
end

function operations.take(m, block, op)
  local ch = m.channels[op.ch]
  local results = m:take(ch)
  if results then return results end
  enqueue(block, ch, false, nil, { block = block })
end

function operations.offer(m, _, op) return { n = 1, m:put(m.channels[op.ch], op.value) } end

function operations.poll(m, _, op) return { n = 1, (m:take(m.channels[op.ch]) or {})[1] } end

function operations.close(m, _, op)
  m:close(m.channels[op.ch], op.reason)
  return { n = 0 }
end

function operations.alts(m, block, op)
  local chs, possible, chosen = {}, {}, nil
  for i, name in ipairs(op.names) do
    chs[i] = name == "timeout" and m:timeout(op.ms) or m.channels[name]
  end
  for i, ch in ipairs(chs) do
    if op.values[i] ~= nil then possible[i] = can_put(ch) else possible[i] = can_take(ch) end
    if possible[i] and not chosen then chosen = i end
  end
  if chosen and not op.priority then
    chosen = m.choices[block.name .. ":" .. block.pc]
    if not possible[chosen] then error(("%s chose operation %s, which was not possible"):format(block.name, chosen)) end
  end
  if chosen then
    local ch = chs[chosen]
    if op.values[chosen] ~= nil then
      return alts_results(op, chosen, { n = 1, m:put(ch, op.values[chosen]) })
    end
    return alts_results(op, chosen, m:take(ch))
  end
  if op.default ~= nil then return { n = 2, op.default, "default" } end
  local alt = { block = block }
  for i, ch in ipairs(chs) do enqueue(block, ch, op.values[i] ~= nil, op.values[i], alt, i) end
end

function operations.sleep(m, block, op)
  m:at(m.now + op.ms, function() table.insert(m.ready, { block = block, results = { n = 0 } }) end)
end

operations["yield"] = function(m, block) table.insert(m.ready, { block = block, results = { n = 0 } }) end

function operations.go(m, _, op)
  m:spawn(op.name, op.script)
  return { n = 0 }
end

-- The callback runs at once, or as a block of its own when the operation completes.
function operations.put_async(m, block, op)
  local ch = m.channels[op.ch]
  local callback = { name = block.name .. "/callback", script = {}, pc = 0, last = op }
  local done = m:put(ch, op.value)
  if done ~= nil then
    m:log(callback.name, "put_async " .. tostring(done))
    return { n = 1, done }
  end
  enqueue(callback, ch, true, op.value, { block = callback })
  return { n = 1, true }
end

function operations.take_async(m, block, op)
  local ch = m.channels[op.ch]
  local callback = { name = block.name .. "/callback", script = {}, pc = 0, last = op }
  local results = m:take(ch)
  if results then
    m:log(callback.name, "take_async " .. show(results))
  else
    enqueue(callback, ch, false, nil, { block = callback })
  end
  return { n = 0 }
end

-- ---- go blocks ----

function Machine:spawn(name, script)
  self.channels[name] = new_channel("fixed", 1)
  table.insert(self.ready, { block = { name = name, script = script, pc = 0 } })
end

-- The block ends: with a result, or by raising.
function Machine:finish(block)
  local result = self.channels[block.name]
  if not result then return end -- a callback
  self.ended[block.name] = true
  if block.script.raises then
    self:close(result, block.script.raises)
  else
    if block.script.returns ~= nil then self:put(result, block.script.returns) end
    self:close(result)
  end
end

-- Runs a block until it waits or ends.
function Machine:resume(entry)
  local block, results = entry.block, entry.results
  local op = block.last
  if results and entry.index then results = alts_results(op, entry.index, results) end
  while true do
    if results then self:log(block.name, op.kind .. " " .. show(results)) end
    block.pc = block.pc + 1
    op = block.script[block.pc]
    if not op then return self:finish(block) end
    block.last = op
    results = operations[op.kind](self, block, op)
    if not results then return end
  end
end

---Runs a program.
---@param program table channels and blocks, see spec/support/program.lua
---@param choices table<string, integer> the operations that fair alts have chosen: "block:pc" -> number
---@return { events: string[], channels: table, ended: table } what happened, in order; and what is left
function model.run(program, choices)
  local m = setmetatable({
    now = 0, ready = {}, timers = {}, timeouts = {}, channels = {}, events = {}, ended = {}, choices = choices,
  }, Machine)
  for name, ch in pairs(program.channels) do m.channels[name] = new_channel(ch.kind, ch.limit) end
  for _, block in ipairs(program.blocks) do m:spawn(block.name, block.script) end
  while true do
    while m.ready[1] do m:resume(table.remove(m.ready, 1)) end
    local timer = m.timers[1]
    if not timer then break end
    m.now = timer.deadline
    while m.timers[1] and m.timers[1].deadline <= m.now do table.remove(m.timers, 1).action() end
  end
  for name, ch in pairs(m.channels) do
    m.channels[name] = {
      count = #ch.buffer, puts = length(ch.puts), takes = length(ch.takes), closed = ch.closed,
      put_total = ch.put_total, take_total = ch.take_total,
    }
  end
  return m
end

return model
