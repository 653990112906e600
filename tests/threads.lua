-- Uses a bit of everything. The result depends on every value and on their order. tests/threads.c runs this in many
-- states at once.

local rn = require "runnel"
local sim = require "runnel.sim"

local sum = 0
local function count(v) sum = (sum * 31 + v) % 1000000007 end

-- Errors are added up instead of printed, because when they are reported depends on time.
local errors = 0
rn.on_error(function(err) errors = errors + #tostring(err) end)

-- In real time: work whose result does not depend on time.
rn.run(function()
  for size = 0, 3 do
    local ch, alone = rn.chan(size), rn.chan(rn.priority_buffer(4))
    rn.go(function()
      for i = 1, 500 do ch:put(i) end
      ch:close "over"
    end)
    for v in ch do
      count(v)
      if v % 50 == 0 then
        alone:offer(-v)
        rn.go(function()
          if v % 100 == 0 then error("at " .. v, 0) end
          rn.chan():take() -- for ever
        end)
      end
    end
    for _ = 1, 4 do count(alone:take() + 1000) end
  end
  local jobs = rn.pipeline_async(4, rn.chan(), function(v, result)
    rn.go(function()
      rn.sleep(v % 3)
      result:put(v * v)
      result:close()
    end)
  end, rn.to_chan { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
  for v in jobs do count(v) end
  local _, port = rn.alts { rn.chan(), rn.timeout(2) }
  count(port:closed() and 1 or 0)
end)
collectgarbage()
require("runnel.core").internal.report_unhandled()
count(errors)

-- In simulations: work whose result depends on time and random choices, which are reproducible there.
sim.each_seed(20, function(seed)
  local chs, stop = {}, rn.chan()
  for i = 1, 5 do
    chs[i] = rn.chan(i % 3, i % 3 > 0 and rn.xf.map(function(v) return v + i end) or nil)
    rn.go(function()
      for v = 1, 40 do
        rn.sleep((v * seed) % 7)
        chs[i]:put(v)
      end
      if i == 5 then stop:close() end
    end)
  end
  chs[6] = stop
  while true do
    local v, port = rn.alts(chs)
    if port == stop then break end
    count(v)
  end
end)
return sum
