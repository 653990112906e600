-- The trace: counting, the ring, and its copy for an error, which begin in the attempt; values on a local channel and
-- on a shared one; and a go block that dies of an error.
local t = ...
local rn = require "runnel"
local trace = require("runnel.core").internal.trace

local N = 6
local parts, kind = t.variant("e", "r", "er"), t.variant("local", "shared")
local sent, got = t.ledger(N)
local older = kind == "local" and rn.chan(1) or rn.shared_chan(1) -- is not in the list, since that begins later
local held, told = false, 0

local function attempt()
  trace.hold(parts, 256)
  held = true
  trace.on_error(function() told = told + 1 end)
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = older:put(i) and t.PUT or t.REFUSED
    end
    older:close()
  end)
  t.go(function()
    for v in older do got[v] = got[v] + 1 end
  end)
  local failing = rn.go(function()
    rn.chan(1):name "a channel that is new":put(1)
    error("not enough memory: on purpose", 0)
  end)
  rn.run()
  trace.edges()
  return failing
end

local function check()
  t.settle(got, older)
  t.account(sent, got)
  require("runnel.core").internal.report_unhandled()
  if t.refused() == 0 then assert(told == (parts == "e" and 0 or 1)) end
  if held then trace.release(parts) end
  assert(not trace.ring() and #trace.chans() == 0)
end

return attempt, check, true
