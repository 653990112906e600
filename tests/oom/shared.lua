-- Tables from one go block to another over a shared channel, by put and take or by alts with a local channel.
local t = ...
local rn = require "runnel"

local N = 6
local size, waits = t.variant(0, 2), t.variant("take", "alts")
local sent, got = t.ledger(N)
local ch, quiet = rn.shared_chan(size), rn.chan()

local function take()
  if waits == "take" then return ch:take() end
  return (rn.alts { ch, quiet })
end

local function attempt()
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = ch:put { i, "a string that has to be allocated", { i } } and t.PUT or t.REFUSED
    end
    ch:close()
  end)
  t.go(function()
    while true do
      local v = take()
      if v == nil then return end
      got[v[1]] = got[v[1]] + 1
    end
  end)
  rn.run()
end

local function check(ok)
  local v
  repeat
    rn.run()
    v = ch:poll()
    if v then got[v[1]] = got[v[1]] + 1 end
  until v == nil
  t.account(sent, got)
  if ok and t.deaths() == 0 then
    for i = 1, N do assert(got[i] == 1) end
  end
end

return attempt, check
