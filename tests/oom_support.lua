---The common part of the scenarios of tests/oom.c: the table `t`.
---
---An attempt must record what has happened to each value, although its own allocations may fail as well. So it writes
---into tables that already have room, without a call between the operation and the record.

local t = ...
local rn = require "runnel"
local core = require "runnel.core"

local MOST = 256

-- ---- what the attempt records ----

local blocks, nblocks = table.pack(), 0
for i = 1, MOST do blocks[i] = false end
local reports = 0

rn.on_error(function() reports = reports + 1 end)

---Starts a go block whose outcome t.deaths checks.
function t.go(f, ...)
  local block = rn.go(f, ...)
  nblocks = nblocks + 1
  blocks[nblocks] = block
  return block
end

---States of a value in the first table of a ledger.
t.UNTRIED, t.TRIED, t.PUT, t.REFUSED = 0, 1, 2, 3

---Makes two tables for the values 1 to n: `sent` has the outcome of each put, `got` how often each value was taken. To
---be used like this:
---
---    sent[i] = t.TRIED
---    sent[i] = ch:put(i) and t.PUT or t.REFUSED
---    v = ch:take()
---    if v then got[v] = got[v] + 1 end
function t.ledger(n)
  local sent, got = {}, {}
  for i = 1, n do
    sent[i], got[i] = t.UNTRIED, 0
  end
  return sent, got
end

-- ---- what the check uses ----

-- Errors that a lack of memory may cause. If a stack cannot grow, Lua reports a stack overflow; and if a go block dies,
-- an operation that waits for it is a deadlock.
local EXPECTED = {
  "not enough memory", "stack overflow", "too many arguments for a go block", "too many results to unpack",
  "deadlock: ",
}

---Fails unless a lack of memory may have caused the error.
function t.expected(err)
  for _, text in ipairs(EXPECTED) do
    if type(err) == "string" and err:find(text, 1, true) then return end
  end
  error("an error that does not come from a lack of memory: " .. tostring(err), 2)
end

---How many errors have been reported: to on_error or, if that was impossible, to stderr.
function t.reports()
  local written = 0
  for _ in t.captured():gmatch("runnel: error in ") do written = written + 1 end
  return reports + written
end

---How many of the go blocks started with t.go have died. Fails unless a lack of memory may have caused their errors.
function t.deaths()
  core.internal.report_unhandled() -- counts the errors before this takes them
  local deaths = 0
  for i = 1, nblocks do
    local stats = blocks[i]:stats()
    if stats.closed and stats.values == 0 then
      local value, err = blocks[i]:take()
      assert(value == nil)
      if err ~= nil then
        t.expected(err)
        deaths = deaths + 1
      end
    end
  end
  return deaths
end

---Runs go blocks and takes the values that the channels hold, until nothing is left.
function t.settle(got, ...)
  local chs = table.pack(...)
  repeat
    rn.run()
    local progress = false
    for i = 1, chs.n do
      local value = chs[i]:poll()
      while value ~= nil do
        got[value] = got[value] + 1
        progress = true
        value = chs[i]:poll()
      end
    end
  until not progress
end

---Fails unless every value that was put was taken once, and no other value was taken.
---@param callbacks? boolean whether callbacks took some values: if a callback cannot be called, that is reported, and
---its value is lost
function t.account(sent, got, callbacks)
  local lost = 0
  for i = 1, #sent do
    local expected = sent[i] == t.PUT and 1 or 0
    if callbacks and got[i] < expected then
      lost = lost + 1
    elseif got[i] ~= expected then
      error(("value %d: put in state %d, taken %d times"):format(i, sent[i], got[i]), 2)
    end
  end
  assert(lost <= t.reports(), "a value was lost without a report")
end

-- Does some ordinary work, to check that the state is still usable.
local function usable()
  local result = rn.run(function()
    local a, b, done = rn.chan(), rn.chan(3), rn.chan(1)
    local producer = rn.go(function()
      for i = 1, 10 do a:put(i) end
      a:close()
    end)
    rn.go(function()
      for v in a do b:put(v) end
      b:close()
    end)
    local sum = 0
    while true do
      local v, port = rn.alts { b, rn.timeout(10000) }
      assert(port == b, "a timeout has fired too early")
      if v == nil then break end
      sum = sum + v
      rn.sleep(0)
    end
    producer:take()
    b:take_async(function(v) done:put_async(v == nil) end, false)
    return done:take() and sum
  end)
  assert(result == 55, "ordinary work gives a wrong result afterwards")
end

-- tests/oom.c calls this after an attempt. `check` is the scenario's; `raises` is whether the scenario reports errors
-- even if no allocation fails.
function t.checked(check, ok, err, raises)
  if not ok then t.expected(err) end
  if t.refused() == 0 then assert(ok, err) end
  t.invariants()
  check(ok, err)
  t.invariants()
  local deaths = t.deaths()
  assert(t.reports() >= deaths, "a go block has died, and its error was not reported")
  if t.refused() == 0 and not raises then
    assert(t.reports() == 0, "an error has been reported although no allocation failed")
  end
  usable()
  t.invariants()
  collectgarbage()
  collectgarbage()
  t.invariants()
  usable()
  t.invariants()
end

return t
