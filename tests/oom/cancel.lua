-- Cancelling go blocks that wait in each operation, have not begun, or whose operation has completed; with __close and
-- pcall.
local t = ...
local rn = require "runnel"

local N = 8
local sent, got = t.ledger(N)
local blocks, closed = {}, {}
for i = 1, N do blocks[i], closed[i] = false, 0 end
local REASON = { "reason" }
local never = rn.chan()
local chs = { rn.chan(), rn.chan(1) }

local function closing(i) return setmetatable({}, { __close = function() closed[i] = closed[i] + 1 end }) end
local guards = {}
for i = 1, N do guards[i] = closing(i) end

local function put(i, ch)
  local guard <close> = guards[i]
  sent[i] = t.TRIED
  sent[i] = guard and ch:put(i) and t.PUT or t.REFUSED
  never:take()
end

local function take(i, ch)
  local guard <close> = guards[i]
  local v = guard and ch:take()
  if v then got[v] = got[v] + 1 end
  never:take()
end

local function choose(i, a, b)
  local guard <close> = guards[i]
  sent[i] = t.TRIED
  local value = guard and rn.alts { { a, i }, b }
  if value == true then
    sent[i] = t.PUT
  elseif value then
    got[value] = got[value] + 1
  end
  never:take()
end

local function stubborn(i, ch)
  local guard <close> = guards[i]
  pcall(ch.take, ch)
  if guard then never:take() end
end

local function attempt()
  blocks[1] = rn.go(put, 1, chs[1])
  blocks[2] = rn.go(choose, 2, chs[1], rn.chan())
  blocks[3] = rn.go(take, 3, chs[2])
  blocks[4] = rn.go(choose, 4, rn.chan(), chs[2])
  blocks[5] = rn.go(stubborn, 5, rn.chan())
  blocks[6] = rn.go(take, 6, rn.chan())
  rn.yield()
  blocks[7] = rn.go(take, 7, rn.chan())
  sent[8] = t.TRIED
  sent[8] = chs[2]:put(8) and t.PUT or t.REFUSED -- completes a take
  for i = 1, 7 do
    if blocks[i] then rn.cancel(blocks[i], REASON) end
  end
  rn.yield()
end

local function check()
  -- There is memory again, so cancelling works now.
  for _ = 1, 3 do
    for i = 1, 7 do
      if blocks[i] then rn.cancel(blocks[i], REASON) end
    end
    rn.yield()
  end
  t.settle(got, table.unpack(chs))
  t.account(sent, got)
  for i = 1, 7 do
    if blocks[i] then
      assert(blocks[i]:closed(), "a go block that was cancelled has not ended")
      local value, err = blocks[i]:take()
      assert(value == nil)
      if err ~= REASON then t.expected(err) end
      assert(closed[i] == 1 or t.refused() > 0)
    end
  end
  if t.refused() == 0 then assert(t.reports() == 0 and #rn.ps() == 0) end
  for _, ch in ipairs(chs) do
    local stats = ch:stats()
    assert(stats.puts_waiting == 0 and stats.takes_waiting == 0, "a waiter has been left behind")
  end
end

return attempt, check
