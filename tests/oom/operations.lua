-- Operations that move values between channels: pipe, merge, mult, pub, split, map, rate, onto_chan. If allocations
-- fail, no taker of their output waits for ever; of a pub's, if one fails.
local t = ...
local rn = require "runnel"
local has_ended = require("runnel.core").internal.has_ended

local N = 3
local FED, PUB = 10, { [5] = true, [6] = true }
local got, takers, finished = {}, {}, {}
for i = 1, FED do
  local _
  _, got[i] = t.ledger(N)
  takers[i], finished[i] = false, false
end

local function take_all(i, ch)
  local closing <close> = ch -- a channel from which nobody takes would block others
  local g = got[i]
  while true do
    local v = closing:take()
    if v == nil then break end
    g[v] = g[v] + 1
  end
  finished[i] = true
end

local function drain(i, ch)
  local ok, result = pcall(t.go, take_all, i, ch)
  if not ok then
    ch:close()
    error(result, 0)
  end
  takers[i] = result
end

local function attempt()
  drain(1, rn.pipe(rn.to_chan { 1, 2, 3 }, rn.chan()))
  drain(2, rn.merge({ rn.to_chan { 1, 2 }, rn.to_chan { 3 } }, 1))
  local m = rn.mult(rn.to_chan { 1, 2, 3 })
  drain(3, m:tap(rn.chan()))
  drain(4, m:tap(rn.chan(1)))
  local p = rn.pub(rn.to_chan { 1, 2, 3 }, function(v) return v % 2 end)
  drain(5, p:sub(0, rn.chan()))
  drain(6, p:sub(1, rn.chan(1)))
  local yes, no = rn.split(function(v) return v % 2 == 0 end, rn.to_chan { 1, 2, 3 })
  drain(7, yes)
  drain(8, no)
  rn.run()
  drain(9, rn.map(function(v) return v end, { rn.to_chan { 1, 2, 3 } }))
  drain(10, rn.rate(rn.to_chan { 1, 2, 3 }, 2, 1))
  rn.run()
end

local EXPECTED = { 3, 3, 3, 3, 1, 2, 1, 2, 3, 3 }

local function check()
  rn.run()
  local waiting, died
  for i = 1, FED do
    local n = 0
    for v = 1, N do
      assert(got[i][v] <= 1, "a value was doubled")
      n = n + got[i][v]
    end
    if t.refused() == 0 then assert(n == EXPECTED[i], "a value was lost") end
    local may_wait = PUB[i] and t.refused() > 1 -- it needs memory to close its subscribers
    if takers[i] and not has_ended(takers[i]) and not may_wait then waiting = i end
    if takers[i] and has_ended(takers[i]) and not finished[i] then died = true end
  end
  assert(died or not waiting, "a taker waits for ever") -- one that dies before it begins blocks others
end

return attempt, check
