-- Closing with and without a reason: waiting takers and putters, values that are left, iteration, <close>, functions
-- called on the close.
local t = ...
local rn = require "runnel"
local core = require "runnel.core"

local N = 6
local sent, got = t.ledger(N)
local TAKERS = 4
local ends, reasons = {}, {}
for i = 1, TAKERS + 1 do ends[i], reasons[i] = false, false end
local reason = { "why" }
local a, b, c, p = rn.chan(), rn.chan(20), rn.chan(), rn.promise_chan()
local scoped
local watched, called = rn.chan(), { 0, 0 }

local function attempt()
  for i = 1, TAKERS do
    t.go(function()
      local _, err = a:take()
      reasons[i] = err
      ends[i] = true
    end)
  end
  t.go(function()
    for i = 1, 3 do
      sent[i] = t.TRIED
      sent[i] = b:put(i) and t.PUT or t.REFUSED
    end
    b:close(reason)
    b:close("again")
    for v in b do got[v] = got[v] + 1 end
    local _, err = b:take()
    reasons[TAKERS + 1] = err
    ends[TAKERS + 1] = true
  end)
  for i = 4, 6 do
    t.go(function()
      sent[i] = t.TRIED
      sent[i] = c:put(i) and t.PUT or t.REFUSED
    end)
  end
  rn.run()
  a:close(reason)
  c:close(reason)
  p:close(reason)
  rn.run()
  do
    local s <close> = rn.chan(1)
    scoped = s
    s:offer(1)
  end
  for i = 1, 2 do
    core.internal.on_close(watched, function() called[i] = called[i] + 1 end)
  end
  watched:close()
  assert(called[2] == 1 or t.refused() > 0, "not called, although there was memory")
end

local function check(ok)
  t.settle(got, a, b, c)
  t.account(sent, got)
  if ok then
    assert(select(2, a:take()) == reason and select(2, c:take()) == reason and select(2, p:take()) == reason)
  end
  if scoped then assert(scoped:closed()) end
  assert(called[1] + called[2] <= 1, "more than one function was called")
  if a:closed() then
    assert(a:stats().takes_waiting == 0, "a closed channel has a taker")
    for i = 1, TAKERS do
      if ends[i] then assert(reasons[i] == reason) end
    end
  end
  if ends[TAKERS + 1] then assert(reasons[TAKERS + 1] == reason) end
end

return attempt, check
