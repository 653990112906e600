-- pmap: in order, unordered, with a window; jobs that raise, with a handler and without, and late ones.
local t = ...
local rn = require "runnel"

local N = 4
local MAPS = 5
local got, outs, errs, ended = {}, {}, {}, {}
for i = 1, MAPS do
  local _
  _, got[i] = t.ledger(N)
  outs[i], errs[i], ended[i] = false, false, false
end

local function job(v)
  rn.yield()
  return v
end

local function fail(v)
  rn.yield()
  if v == 2 then error("job 2", 0) end
  return v
end

local function late(v)
  if v == 2 then rn.sleep(1000) end
  return v
end

local function handler(_, v) return v end

local function drain(i)
  t.go(function()
    local out, g = outs[i], got[i]
    while true do
      local v, err = out:take()
      if v == nil then
        errs[i], ended[i] = err or false, true
        return
      end
      g[v] = g[v] + 1
    end
  end)
end

local LIST = { 1, 2, 3, 4 }

local function attempt()
  outs[1] = rn.pmap(2, job, rn.to_chan(LIST), { window = 3 })
  drain(1)
  outs[2] = rn.pmap_unordered(3, job, rn.to_chan(LIST), { buffer = 2 })
  drain(2)
  rn.run()
  outs[3] = rn.pmap(2, fail, LIST, { ex_handler = handler })
  drain(3)
  outs[4] = rn.pmap_unordered(2, fail, rn.to_chan(LIST))
  drain(4)
  rn.run()
  outs[5] = rn.pmap_unordered(2, late, rn.to_chan(LIST), { timeout = 1, ex_handler = handler })
  drain(5)
  rn.run()
end

local function check()
  rn.run()
  for i = 1, MAPS do
    if outs[i] then t.settle(got[i], outs[i]) end
    for v = 1, N do
      assert(got[i][v] <= 1, "a value was doubled")
      if t.refused() == 0 and i ~= 4 then assert(got[i][v] == 1, "a value was lost") end
    end
    if t.refused() == 0 then assert(ended[i] and errs[i] == (i == 4 and "job 2")) end
    local has_all = ended[i] and not errs[i] and i <= 2 -- the errors of the others' jobs may just be reported
    for v = 1, N do assert(not has_all or got[i][v] == 1, "a value was lost without an error") end
    -- A pmap that runs out of memory closes its channel, so that takers do not wait for ever.
    if outs[i] then assert(outs[i]:closed(), "it goes on although nothing is left to do") end
  end
end

return attempt, check
