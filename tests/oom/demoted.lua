-- Go blocks that stay parked during full collections, so that only their channels keep them alive, and are woken
-- afterwards; and others that nothing can reach, which are collected. Some have waited before, and got a result.
local t = ...
local rn = require "runnel"

local N = 6
local sent, got = t.ledger(N)
local chs = {}
for i = 1, N do chs[i] = rn.chan(0) end
local start = rn.chan()
local ended, collected = 0, 0

local function attempt()
  for i = 1, N, 2 do
    t.go(function()
      local v = rn.alts { chs[i + 1], chs[1 + (i + 3) % N] }
      if v then got[v] = got[v] + 1 end
      ended = ended + 1
    end)
    rn.go(function()
      local guard <const> = setmetatable({}, { __gc = function() collected = collected + 1 end })
      rn.chan():take()
      return guard
    end)
    chs[i]:take_async(function(v)
      if v then got[v] = got[v] + 1 end
    end, false)
    t.go(function()
      start:take()
      local v = chs[i]:take()
      if v then got[v] = got[v] + 1 end
      ended = ended + 1
    end)
  end
  rn.run()
  start:close()
  rn.run()
  collectgarbage()
  collectgarbage()
  for i = 1, N // 2 do
    sent[i] = t.TRIED
    sent[i] = chs[i]:offer(i) and t.PUT or t.REFUSED
  end
  rn.run()
  collectgarbage()
  for i = N // 2 + 1, N do
    sent[i] = t.TRIED
    sent[i] = chs[i]:offer(i) and t.PUT or t.REFUSED
  end
  rn.run()
end

local function check()
  start:close()
  t.settle(got, table.unpack(chs))
  t.deaths()
  t.account(sent, got, true)
  for _ = 1, 4 do collectgarbage() end
  t.invariants()
  for _, ch in ipairs(chs) do ch:close() end
  rn.run()
  for _, ch in ipairs(chs) do
    local stats = ch:stats()
    assert(stats.puts_waiting == 0 and stats.takes_waiting == 0, "a waiter has been left behind")
  end
  -- Without memory to call a finalizer, Lua drops it: also the one that demotes go blocks in each collection. The
  -- scheduler makes a new one when it runs.
  rn.run()
  for _ = 1, 3 do collectgarbage() end
  if t.refused() == 0 then assert(collected == N // 2, "an abandoned go block has not been collected") end
  local live = 0
  for _, block in ipairs(rn.ps()) do
    if block.state ~= "dead" then live = live + 1 end
  end
  assert(live == 0, "an unreachable go block was not collected")
end

return attempt, check
