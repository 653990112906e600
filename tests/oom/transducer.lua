-- A transducer that drops, expands and raises, with and without an exception handler; one that ends early.
local t = ...
local rn = require "runnel"

local N = 9

-- Drops the multiples of 3, doubles the multiples of 4, raises at 5, and adds a last value when it is completed.
local function xf(rf)
  return function(acc, v)
    if acc == nil then return rf() end
    if v == nil then return rf(rf(acc, -1)) end
    if v % 3 == 0 then return acc end
    if v == 5 then error("five") end
    acc = rf(acc, v)
    if v % 4 == 0 then acc = rf(acc, v + 100) end
    return acc
  end
end

local function first_two(rf)
  local n = 0
  return function(acc, v)
    if v == nil then return acc end
    n = n + 1
    acc = rf(acc, v)
    return n == 2 and rn.reduced(acc) or acc
  end
end

local handled = 0
local sent, got = {}, {}
for i = 1, N do sent[i] = t.UNTRIED end
for i = -200, 200 do got[i] = 0 end
local ch, plain, short
local short_got = { false, false, false, false }

local function attempt()
  ch = rn.chan(2, xf, function()
    handled = handled + 1
    return -5
  end)
  plain = rn.chan(1, xf)
  short = rn.chan(1, first_two)
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = ch:put(i) and t.PUT or t.REFUSED
    end
    ch:close()
  end)
  for _ = 1, 2 do
    t.go(function()
      for v in ch do got[v] = got[v] + 1 end
    end)
  end
  t.go(function()
    plain:put(1)
    plain:put(2)
    plain:close()
  end)
  t.go(function()
    for _ in plain do rn.yield() end
  end)
  t.go(function()
    for i = 1, 4 do short_got[i] = short:put(i) end
  end)
  t.go(function()
    rn.yield()
    for _ in short do rn.yield() end
  end)
  rn.run()
end

local function check(ok)
  rn.run()
  if not ch then return end
  repeat
    local v = ch:poll()
    if v then got[v] = got[v] + 1 end
    rn.run()
  until v == nil
  for v = 1, N do
    assert(got[v] <= 1 and got[v + 100] <= 1, "a value was doubled")
    if sent[v] == t.UNTRIED or sent[v] == t.TRIED then
      -- A put that raised has put nothing (the transducer's own errors do not make it raise).
      assert(got[v] == 0 and got[v + 100] == 0, "a put that raised has put")
    elseif t.reports() == 0 and handled <= (sent[5] == t.PUT and 1 or 0) then
      assert(got[v] == (sent[v] == t.PUT and v % 3 ~= 0 and v ~= 5 and 1 or 0), "a value was lost")
    end
  end
  assert(got[-1] <= 1)
  if ok and t.refused() == 0 then
    assert(handled == 1 and got[-5] == 1 and got[-1] == 1 and got[104] == 1 and got[108] == 1)
    assert(short_got[1] and short_got[2] and not short_got[4] and short:closed())
  end
end

return attempt, check
