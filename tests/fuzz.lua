-- Runs an input of tests/fuzz.c. Each byte chooses the next operation or a detail of it; the go block that runs next
-- reads the next byte, so the input determines all operations and their order. At the end of the input, the script lets
-- everything end, and checks what is left.

local t, input = ...
local core = require "runnel.core"

local at = 0
local function over() return at >= #input end
local function below(n)
  at = at + 1
  return (input:byte(at) or 0) % n
end
if os.getenv "FUZZ_TRACE" then -- prints each choice, for studying one input
  local silent = below
  function below(n)
    local chosen, where = silent(n), {}
    for level = 2, 4 do
      local info = debug.getinfo(level, "l")
      where[#where + 1] = info and info.currentline > 0 and info.currentline or nil
    end
    print(("%s byte %d: %d of %d, lines %s"):format(coroutine.running(), at, chosen, n, table.concat(where, " < ")))
    return chosen
  end
end
local function chance(n) return below(n) == n - 1 end

local function pick(list) return list[below(#list) + 1] end

-- ---- values ----

-- Values are numbers. The channel of a value determines how often it may be taken.
local count, allowed = 0, {}

local function value(ch, times)
  count = count + 1
  allowed[count] = times[ch] or 1
  return count
end

local function took(v)
  if type(v) ~= "number" then return end
  if not allowed[v] or allowed[v] == 0 then t.broken(("value %s was taken too often"):format(v)) end
  allowed[v] = allowed[v] - 1
end

-- ---- channels ----

local NCHANS = 6
local chans, plain, times = {}, setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

local any_op -- an operation that does not wait, for code that channels call

-- A transducer, of a kind that a byte chooses.
local function transducer()
  local kind, left, kept = below(8), 2, nil
  return function(rf)
    return function(...)
      local n, acc, v = select("#", ...), ...
      if n == 0 then return rf() end
      if n == 1 then
        if kind == 6 then error "no end" end
        if kept then
          acc = rf(acc, kept)
          kept = nil
        end
        return rf(acc)
      end
      if kind == 0 then return v % 2 == 0 and rf(acc, v) or acc end
      if kind == 1 then return rf(rf(acc, v), v) end
      if kind == 2 then
        left = left - 1
        acc = rf(acc, v)
        return left <= 0 and core.reduced(acc) or acc
      end
      if kind == 3 and chance(3) then error "in a transducer" end
      if kind == 4 then any_op() end
      if kind == 5 then
        local before = kept
        kept = v
        return before and rf(acc, before) or acc
      end
      if kind == 6 and chance(3) then return nil end
      return rf(acc, v)
    end
  end
end

local function policy(limit)
  local list, tricky = {}, chance(2)
  local function maybe()
    if not tricky then return end
    local how = below(12)
    if how == 11 then error "in a policy" end
    if how == 10 then any_op() end
    if how == 9 then collectgarbage "step" end
  end
  return {
    full = function() maybe() return #list >= limit end,
    add = function(_, v) maybe() list[#list + 1] = v end,
    remove = function() maybe() return table.remove(list, below(2) == 0 and 1 or nil) end,
    count = function() maybe() return #list end,
    close = function() maybe() end,
  }
end

local function handler(err)
  local how = below(3)
  if how == 1 then error(err) end
  if how == 2 then return "instead" end
end

local SIZES = { 1, 2, 3, 9, 130 }

local function new_chan()
  local kind, xf, ex = below(9), nil, nil
  local size = pick(SIZES)
  if kind >= 2 and chance(3) then
    xf, ex = transducer(), chance(2) and handler or nil
  end
  local ch
  if kind < 2 then ch = core.chan()
  elseif kind < 5 then ch = core.chan(size, xf, ex)
  elseif kind == 5 then ch = core.chan(core.dropping_buffer(size), xf, ex)
  elseif kind == 6 then ch = core.chan(core.sliding_buffer(size), xf, ex)
  elseif kind == 7 then ch = core.promise_chan(xf, ex)
  else ch = core.chan(policy(size), xf, ex) end
  if xf then times[ch] = 2 end
  if kind == 7 then times[ch] = math.huge end
  if kind < 5 and not xf then plain[ch] = true end
  return ch
end

local function check_chan(ch)
  local stats = ch:stats()
  if stats.put_total ~= stats.take_total + stats.values then t.broken(tostring(ch) .. " has lost or doubled values") end
end

local function any() return chans[below(NCHANS) + 1] end
local function a_value(ch) return value(ch, times) end

-- ---- operations ----

local coroutines, results, timers = {}, {}, {}
local unclosable = setmetatable({}, { __mode = "k" })
local act

local function callback(v)
  took(v)
  if chance(3) then any_op() end
  if chance(8) then any():take() end -- cannot wait
  if chance(8) then error "in a callback" end
end

local function alts()
  local ops, n = {}, chance(24) and 70 or below(5) + 1
  for i = 1, n do
    local ch = any()
    local how = below(8)
    if how < 3 then ops[i] = { ch, a_value(ch) }
    elseif how == 7 then ops[i] = core.timeout(below(4) * 5)
    else ops[i] = ch end
  end
  local how = below(8)
  local opts = how > 4 and { priority = how % 2 == 0, default = how == 7 and "default" or nil } or nil
  took(((how % 2 == 0 and core.alts or core.internal.alts_index)(ops, opts)))
end

local function spawn()
  local ch = core.go(act, below(8) + 1)
  if chance(2) then results[below(4) + 1] = ch end
end

-- Operations that never wait and may be called anywhere.
local calm = {
  function()
    local ch = any()
    ch:offer(a_value(ch))
  end,
  function() took((any():poll())) end,
  function() if chance(3) then any():close(chance(2) and "why" or nil) end end,
  function() any():take_async(callback, chance(2)) end,
  function()
    local ch = any()
    ch:put_async(a_value(ch), callback, chance(2))
  end,
  function()
    local ch = any()
    ch:put_async(a_value(ch))
  end,
  spawn,
  function() chans[below(NCHANS) + 1] = new_chan() end, -- drops a channel and the operations that wait on it
  function() results[below(4) + 1] = nil end,
  function()
    local ch = results[below(4) + 1]
    if ch then core.cancel(ch, chance(2) and "reason" or nil) end
  end,
  function() collectgarbage "step" end,
  function() if chance(4) then collectgarbage() end end,
  function()
    setmetatable({}, { __gc = function() any_op() end })
  end,
  function()
    local co = coroutines[below(4) + 1]
    if co and co ~= coroutine.running() and coroutine.status(co) == "suspended" and not unclosable[co] then
      coroutine.close(co)
    end
  end,
  function()
    local co = coroutines[below(4) + 1]
    if co and co ~= coroutine.running() and coroutine.status(co) == "suspended" then coroutine.resume(co, 1, 2) end
  end,
  function() return #core.ps() + #tostring(any()) end,
  function() timers[below(4) + 1] = core.after(below(8), act, below(4) + 1) end,
  function()
    local timer = timers[below(4) + 1]
    if timer then timer:stop() end
  end,
  function()
    local timer = timers[below(4) + 1]
    if timer then timer:restart(below(16)) end
  end,
  function() return #core.timers() + #tostring(timers[below(4) + 1]) end,
  function() any():name("named") end,
  function() any():done() end,
  function() error "on purpose" end,
  function() t.advance(below(20)) end,
}

-- For finalizers, callbacks, transducers and policies. It may raise, as these may.
function any_op()
  if not over() then pick(calm)() end
end

-- Operations that may wait.
local waiting = {
  function()
    local ch = any()
    ch:put(a_value(ch))
  end,
  function() took((any():take())) end,
  function()
    local ch = any()
    ch:put(a_value(ch))
  end,
  function() took((any():take())) end,
  alts,
  alts,
  function() core.sleep(below(20) / 2) end,
  function() core.yield() end,
  function() core.timeout(below(16)):take() end,
  function() any():done():take() end,
  function()
    local ch = results[below(4) + 1]
    if ch then ch:take() end
  end,
  function()
    local ch, mine, co = any(), any(), coroutine.running()
    -- Must not be closed from outside: allocations in __close could free the channel on which this waits.
    unclosable[co] = true
    do
      local _ <close> = setmetatable({}, { __close = function()
        took((mine:poll()))
        ch:offer(a_value(ch))
      end })
      took((mine:take()))
    end
    unclosable[co] = nil
  end,
  function()
    for v in any() do
      took(v)
      if over() or chance(2) then break end
    end
  end,
  function() coroutine.wrap(function() took((any():take())) end)() end, -- cannot wait
  function() if chance(4) then coroutine.yield(1) end end, -- ends the go block
  function() table.sort({ 1, 2, 3 }, function() any():take() return false end) end, -- cannot wait
}

local function operation()
  if chance(2) then pick(waiting)() else pick(calm)() end
end

function act(n)
  coroutines[below(4) + 1] = coroutine.running()
  for _ = 1, n do
    if over() then return end
    if chance(3) then operation() else pcall(operation) end
  end
  if chance(2) then return "result" end
end

-- A driver for a limited number of waits, in which operations are done.
local function driver()
  local left = below(8)
  return {
    wait = function(_, ms)
      left = left - 1
      t.advance(ms and math.ceil(math.min(ms, 100)) or 1)
      if chance(8) then error "in a driver" end
      any_op()
    end,
    alive = function() return left > 0 and not over() end,
  }
end

-- ---- outside go blocks ----

local outside = {
  spawn, spawn, spawn,
  function() core.step(below(8)) end,
  function() core.step() end,
  function() operation() end,
  function() pick(waiting)() end,
  function() core.run() end,
  function() core.run(act, 8) end,
  function()
    core.internal.simulate(below(256), chance(2), chance(2), function()
      for _ = 1, 2 + below(4) do core.go(act, 8) end
      core.sleep(100)
    end)
  end,
  function()
    local how = below(6)
    if how == 0 then collectgarbage "generational"
    elseif how == 1 then collectgarbage("incremental", 100, 1000, 1)
    elseif how == 2 then collectgarbage("incremental", 200, 100, 13)
    elseif how == 3 then collectgarbage "stop"
    elseif how == 4 then collectgarbage "restart"
    else collectgarbage() end
  end,
  function() core.driver(chance(2) and driver() or nil) end,
}

-- Does one of these with a failing allocation: the n-th from now, or a later one.
table.insert(outside, function()
  local n = below(256) + 1
  t.fail(chance(4) and 16 * n or n)
  pick(outside)()
end)

core.on_error(function() if chance(16) then any_op() end end)
for i = 1, NCHANS do chans[i] = new_chan() end
while not over() do
  pcall(pick(outside))
  t.fail(0)
  t.invariants()
end

-- ---- at the end ----

t.fail(0)
collectgarbage "restart"
core.driver(nil)
for _ = 1, 3 do
  pcall(core.run)
  collectgarbage()
end
t.invariants()
for ch in pairs(plain) do check_chan(ch) end
for i = 1, NCHANS do
  pcall(function()
    chans[i]:close()
    repeat
      local v = chans[i]:poll()
      took(v)
    until v == nil or times[chans[i]] == math.huge
  end)
end
pcall(core.run)
t.invariants()

-- Checks that the core still works.
local ch, heard = core.chan(), nil
core.go(function() heard = ch:take() end)
ch:put "still"
core.run()
if heard ~= "still" then t.broken "the core does not work any more" end
t.invariants()
