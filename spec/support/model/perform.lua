---Runs a program (program.lua) on the core, in a simulation, and logs the events.

local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"
local gc = require "spec.support.gc"
local policy = require "spec.support.policy"
local transforms = require "spec.support.transforms"

-- A buffer policy that raises for some values.
local function picky(limit)
  return policy.queue(limit, {
    add = function(queue, value)
      transforms.check_picky(value)
      table.insert(queue.values, value)
    end,
  })
end

local buffers = {
  fixed = function(limit) return limit end,
  dropping = rn.dropping_buffer,
  sliding = rn.sliding_buffer,
  priority = function(limit) return rn.priority_buffer(limit, transforms.less) end,
  picky = picky,
}

local function new_channel(ch)
  if ch.shared then
    return rn.shared_chan(ch.kind == "promise" and "promise" or ch.kind ~= "none" and buffers[ch.kind](ch.limit) or nil)
  end
  local xf = ch.xf and transforms.make(ch.xf, rn.reduced)
  local handler = ch.handler and transforms.handlers[ch.handler]
  if ch.kind == "promise" then return rn.promise_chan(xf, handler) end
  return rn.chan(ch.kind ~= "none" and buffers[ch.kind](ch.limit) or nil, xf, handler)
end

local function show(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = transforms.show_error(list[i]) end
  return table.concat(list, ",")
end

-- The collector's modes. Each returns a function that is called with every event.
local collectors = {
  usual = gc.usual,
  restless = function() gc.incremental(100, 400, 3) end,
  generational = function() collectgarbage "generational" end,
  steps = function()
    gc.usual()
    return function() collectgarbage "step" end
  end,
}

-- The waiting go blocks that were started after a mark, as "operation" -> how many.
local function waiting(mark)
  local counts = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.id > mark and entry.state == "parked" then
      counts[entry.operation] = (counts[entry.operation] or 0) + 1
    end
  end
  return counts
end

-- Runs in the root block of a simulation.
local function execute(made, run, on_event)
  local mark = rn.chan():stats().id
  local channels, name_of = {}, {}
  for name, ch in pairs(made.channels) do
    channels[name] = new_channel(ch):name(name)
    name_of[channels[name]] = name
  end
  local function channel(name)
    local of = name:match "^(.*):done$"
    if not of then return channels[name] end
    local done = channels[of]:done()
    name_of[done] = name
    return done
  end
  local function log(who, text)
    table.insert(run.events, ("%g %s %s"):format(rn.now(), who, text))
    if on_event then on_event() end
  end

  local spawn, perform
  local operations = {}
  function operations.put(op) return channel(op.ch):put(op.value) end
  function operations.take(op) return channel(op.ch):take() end
  function operations.offer(op) return channel(op.ch):offer(op.value) end
  function operations.poll(op) return channel(op.ch):poll() end
  function operations.close(op) channel(op.ch):close(op.reason) end
  function operations.sleep(op) rn.sleep(op.ms) end
  function operations.timeout(op) return rn.timeout(op.ms):take() end
  operations["yield"] = function() rn.yield() end
  function operations.go(op) spawn(op.name, op.script) end
  function operations.cancel(op) return rn.cancel(channel(op.ch), op.reason) end
  function operations.look(op)
    local stats = channel(op.ch):stats()
    return stats.values, stats.puts_waiting, stats.takes_waiting, stats.closed, stats.put_total, stats.take_total
  end
  local function callback(op, block)
    return function(...)
      log(block .. "/callback", op.kind .. " " .. show(...))
      for pc, inner in ipairs(op.script) do perform(inner, block .. "/callback", pc) end
      if op.raises then error(op.raises, 0) end
    end
  end
  function operations.put_async(op, block)
    return channel(op.ch):put_async(op.value, callback(op, block), not op.queued)
  end
  function operations.take_async(op, block) channel(op.ch):take_async(callback(op, block), not op.queued) end
  function operations.alts(op, block, pc)
    local ops, timeout = {}, nil
    for i, one in ipairs(op.ops) do
      if one.ch == "timeout" then timeout = rn.timeout(op.ms) end
      local ch = one.ch == "timeout" and timeout or channel(one.ch)
      ops[i] = one.value ~= nil and { ch, one.value } or ch
    end
    local function chose(i) run.choices[block .. ":" .. pc] = i end
    local function finish(ok, value, port, ...)
      if not ok then -- a picky buffer names the value
        for i, one in ipairs(op.ops) do
          if value == "not " .. tostring(one.value) then chose(i) end
        end
        error(value, 0)
      end
      local name = port
      if op.by_index then
        if port ~= "default" then chose(port) end
      else
        name = port == "default" and port or port == timeout and "timeout" or name_of[port]
        for i, one in ipairs(op.ops) do
          if one.ch == name then chose(i) end
        end
      end
      return value, name, ...
    end
    local alts = op.by_index and core.internal.alts_index or rn.alts
    return finish(pcall(alts, ops, { priority = op.priority, default = op.default, nowait = op.nowait }))
  end

  function perform(op, block, pc)
    local function record(...) log(block, op.kind .. " " .. show(...)) end
    record(operations[op.kind](op, block, pc))
  end

  -- The main function of a go block.
  local function doing(name, script)
    return function()
      rn.rename(name)
      for pc, op in ipairs(script) do
        local ok, err = pcall(perform, op, name, pc)
        if not ok then
          if not (script.catches and core.internal.is_cancellation(channels[name], err)) then error(err, 0) end
          log(name, op.kind .. " raises " .. show(err))
        end
      end
      run.ended[name] = true
      if script.raises then error(script.raises, 0) end
      return script.returns
    end
  end

  local function named(name, result)
    channels[name], name_of[result] = result, name
  end

  function spawn(name, script) named(name, rn.go(doing(name, script))) end

  function operations.scope(op, block)
    local body = doing(op.name, op.script)
    local ok, result = pcall(rn.scope, function(s)
      for _, entry in ipairs(rn.ps()) do
        if entry.state == "running" then named(op.name, entry.result) end
      end
      for i, script in ipairs(op.children) do
        local name = op.name .. "." .. i
        named(name, s:go(doing(name, script)))
      end
      return body()
    end, { timeout = op.ms })
    if not ok and core.internal.is_cancellation(channels[block], result) then error(result, 0) end
    return ok, result
  end

  rn.on_error(function(err, _, where)
    -- A callback that ran in a go block of its own is named after the place where it was made.
    local who = channels[where:match "^chan: (.*)" or where] and where or "a callback"
    log(who, "reported " .. transforms.show_error(err))
  end)
  for _, block in ipairs(made.blocks) do spawn(block.name, block.script) end
  rn.sleep(1e9)
  core.internal.report_unhandled()
  for name, ch in pairs(channels) do
    local stats = ch:stats()
    run.channels[name] = {
      count = stats.values, puts = stats.puts_waiting, takes = stats.takes_waiting, closed = stats.closed,
      put_total = stats.put_total, take_total = stats.take_total,
    }
  end
  run.waiting = waiting(mark)
end

---Performs a program.
---@param made table
---@param opts? table of sim.run
---@return table run events (a list of strings); what is left: channels, ended and waiting; and choices, the operations
---that alts have chosen ("block:number of the operation" -> number)
return function(made, opts)
  local run = { events = {}, channels = {}, ended = {}, choices = {}, waiting = {} }
  local previous, grace = rn.on_error(nil), core.internal.grace(1e10) -- longer than any program takes
  local on_event = collectors[made.collector]()
  local ok, err = pcall(sim.run, function() execute(made, run, on_event) end, opts or { seed = made.seed })
  rn.on_error(previous)
  core.internal.grace(grace)
  collectors.usual()
  collectgarbage "incremental"
  if not ok then error(err, 0) end
  return run
end
