-- The pipelines: ordered, unordered, with a window, with a transducer; jobs that raise; closing `to`.
local t = ...
local rn = require "runnel"

local N = 3
local PIPES = 4
local sent, got, froms, tos = {}, {}, {}, {}
for i = 1, PIPES do
  sent[i], got[i] = t.ledger(N)
  froms[i], tos[i] = rn.chan(1), false
end

local results, jobs = {}, 0
for i = 1, PIPES * N do results[i] = false end

local function job(v, result)
  jobs = jobs + 1
  results[jobs] = result
  rn.go(function()
    rn.yield()
    result:put(v)
    result:close()
  end)
end

local function feed(i)
  local from = froms[i]
  t.go(function()
    for v = 1, N do
      sent[i][v] = t.TRIED
      sent[i][v] = from:put(v) and t.PUT or t.REFUSED
    end
    from:close()
  end)
  return from
end

local function drain(i)
  t.go(function()
    local to, g = tos[i], got[i]
    while true do
      local v = to:take()
      if v == nil then return end
      g[v] = g[v] + 1
    end
  end)
end

local function same(rf)
  return function(acc, v)
    if v == nil then return acc end
    return rf(acc, v)
  end
end

local function attempt()
  tos[1] = rn.pipeline_async(2, rn.chan(), job, feed(1))
  drain(1)
  tos[2] = rn.pipeline_async_unordered(3, rn.chan(2), job, feed(2))
  drain(2)
  tos[3] = rn.pipeline_async(1, rn.chan(), job, feed(3), true, { window = 3 })
  drain(3)
  rn.run()
  tos[4] = rn.pipeline(2, rn.chan(), same, feed(4))
  drain(4)
  rn.run()
end

local function check()
  rn.run()
  for i = 1, jobs do results[i]:close() end -- its go block may have died, as may those of `froms`
  for i = 1, PIPES do
    froms[i]:close()
    if tos[i] then
      t.settle(got[i], tos[i])
      assert(tos[i]:closed(), "it goes on although nothing is left to do")
    end
    for v = 1, N do
      assert(got[i][v] <= 1, "a value was doubled")
      if sent[i][v] ~= t.PUT then assert(got[i][v] == 0, "a put that raised has put") end
      if t.refused() == 0 then assert(sent[i][v] == t.PUT and got[i][v] == 1) end
    end
  end
end

return attempt, check
