-- Contexts that go blocks pass on, and the measuring of the loop, which begin in the attempt.
local t = ...
local internal = require("runnel.core").internal
local rn = require "runnel"
local trace = internal.trace

local N = 4
local sent, got = t.ledger(N)
local jobs = rn.chan(1)
local held, seen = false, {}

local function attempt()
  trace.hold "c"
  held = true
  internal.measure(true)
  local mine = {}
  trace.set_context(mine)
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = jobs:put(i) and t.PUT or t.REFUSED
    end
    seen[1] = trace.context() == mine
    jobs:close()
  end)
  t.go(function()
    for v in jobs do got[v] = got[v] + 1 end
  end)
  rn.run()
  local states = internal.measured()
  return states
end

local function check()
  t.settle(got, jobs)
  t.account(sent, got)
  if t.refused() == 0 then assert(seen[1]) end
  if held then
    trace.set_context(nil)
    trace.release "c"
  end
  internal.measure(false)
  assert(trace.context() == nil)
end

return attempt, check, true
