-- Values from one go block to another, without a buffer.
local t = ...
local rn = require "runnel"

local N = 8
local sent, got = t.ledger(N)
local ch = rn.chan()

local function attempt()
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = ch:put(i) and t.PUT or t.REFUSED
    end
    ch:close()
  end)
  t.go(function()
    while true do
      local v = ch:take()
      if v == nil then return end
      got[v] = got[v] + 1
    end
  end)
  rn.run()
end

local function check(ok)
  t.settle(got, ch)
  t.account(sent, got)
  if ok and t.deaths() == 0 then
    for i = 1, N do assert(got[i] == 1) end
    assert(ch:closed())
  end
end

return attempt, check
