-- put, take and alts outside any go block, which run the loop; offer and poll.
local t = ...
local rn = require "runnel"

local N = 12
local sent, got = t.ledger(N)
local a, b = rn.chan(), rn.chan(2)
local many = {}
for i = 1, 60 do many[i] = rn.chan() end
many[61] = rn.timeout(1)

local function attempt()
  t.go(function()
    for i = 1, 4 do
      sent[i] = t.TRIED
      sent[i] = a:put(i) and t.PUT or t.REFUSED
    end
  end)
  for _ = 1, 2 do
    local v = a:take()
    got[v] = got[v] + 1
  end
  t.go(function()
    for _ = 1, 3 do
      local v = b:take()
      got[v] = got[v] + 1
    end
  end)
  for i = 5, 10 do
    sent[i] = t.TRIED
    local v, port = rn.alts { a, { b, i } }
    if port == b then
      sent[i] = t.PUT
    else
      sent[i] = t.REFUSED
      got[v] = got[v] + 1
    end
  end
  sent[11] = t.TRIED
  sent[11] = a:offer(11) and t.PUT or t.REFUSED
  sent[12] = t.TRIED
  sent[12] = b:offer(12) and t.PUT or t.REFUSED
  local v = b:poll()
  if v then got[v] = got[v] + 1 end
  rn.alts(many) -- waits with a larger stack than one operation needs
end

local function check()
  t.settle(got, a, b)
  t.account(sent, got)
end

return attempt, check
