-- A promise, with takers before and after, and through a transducer.
local t = ...
local rn = require "runnel"

local TAKERS = 6
local got = {}
for i = 1, TAKERS do got[i] = false end
local delivered = t.UNTRIED
local p, q
local qgot = false

local function attempt()
  p = rn.promise_chan()
  for i = 1, TAKERS // 2 do
    t.go(function() got[i] = p:take() end)
  end
  rn.run()
  delivered = t.TRIED
  delivered = p:put("kept") and t.PUT or t.REFUSED
  p:put("dropped")
  for i = TAKERS // 2 + 1, TAKERS do
    t.go(function() got[i] = rn.alts { p } end)
  end
  rn.run()
  q = rn.promise_chan(function(rf)
    return function(acc, v)
      if v == nil then return acc end
      return rf(acc, v .. " and changed")
    end
  end)
  t.go(function() qgot = q:take() end)
  rn.run()
  q:put("kept")
  rn.run()
end

local function check()
  rn.run()
  if not p then return end
  for i = 1, TAKERS do
    assert(not got[i] or got[i] == "kept")
    if delivered == t.TRIED then assert(not got[i], "a put that raised has put") end
    if t.refused() == 0 then assert(got[i] == "kept") end
  end
  if delivered == t.PUT then assert(p:poll() == "kept" and p:take() == "kept") end
  assert(not qgot or qgot == "kept and changed")
  if t.refused() == 0 then assert(qgot) end
end

return attempt, check
