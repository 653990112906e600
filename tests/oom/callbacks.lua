-- take_async and put_async with on_caller true and false, done at once and later.
local t = ...
local rn = require "runnel"

local ON_CALLER = t.variant(true, false)
local N = 12
local sent, got = t.ledger(N)
local confirmed = {}
for i = 1, N do confirmed[i] = false end
local calls, taken = 0, 0
local a, b = rn.chan(), rn.chan(2)

local function on_value(v)
  calls = calls + 1
  if v then got[v] = got[v] + 1 end
end

local function put(ch, i)
  sent[i] = t.TRIED
  sent[i] = ch:put_async(i, function(ok) confirmed[i] = ok end, ON_CALLER) and t.PUT or t.REFUSED
end

local function attempt()
  a:take_async(on_value, ON_CALLER)
  taken = taken + 1
  for i = 1, 4 do put(a, i) end
  for i = 5, 9 do put(b, i) end
  b:take_async(on_value, ON_CALLER)
  taken = taken + 1
  a:take_async(on_value, ON_CALLER)
  taken = taken + 1
  rn.run()
  sent[10] = t.TRIED
  sent[10] = a:put_async(10, nil, ON_CALLER) and t.PUT or t.REFUSED
  b:take_async(on_value, ON_CALLER)
  taken = taken + 1
  b:close()
  put(b, 11)
  rn.run()
end

local function check()
  t.settle(got, a, b)
  t.account(sent, got, true)
  if t.refused() == 0 then
    assert(calls == taken)
    for i = 1, 10 do assert(got[i] == 1) end
    for i = 1, 9 do assert(confirmed[i] == true) end
    assert(sent[11] == (ON_CALLER and t.REFUSED or sent[11]) and confirmed[11] == false)
  end
end

return attempt, check
