---Particular programs about what only the library's own code can do. As particular_core.lua.

local core = require "runnel.core"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- The library's own go blocks close what they feed when they die, whatever kinds of channels that are.
function only.feeding(is)
  local function fed_by(case)
    return { rn.chan(), rn.chan(2), rn.promise_chan(), rn.chan(1, function(rf) return rf end), rn.timeout(3),
      rn.chan(rn.priority_buffer(2)), rn.go(function() if case then rn.sleep(9) end end), 17 }
  end
  local function one(fed, i) return i and fed[i] or fed end
  for _, ending in ipairs { "error", "nil", "cancel", "yield", "closed" } do
    for _, raises in ipairs { false, true } do
      for i = 0, 7 do
        sim.run(function()
          local reports, calls, got, co = 0, 0, nil, nil
          rn.on_error(function() reports = reports + 1 end)
          local list = fed_by(ending)
          local fed = one(list, i > 0 and i)
          local go = core.internal.go_feeding(function(...)
            calls, got = calls + 1, table.pack(...)
            if raises then error("of give_up", 0) end
            core.internal.close_fed((...), (select(2, ...)))
          end, fed, function(a, b, ...)
            is(a, 1)
            is(b, nil)
            is(select("#", ...), 1)
            co = coroutine.running()
            if ending == "error" then error("raised", 0) end
            if ending == "nil" then error(nil, 0) end
            if ending == "yield" then coroutine.yield() end
            rn.sleep(1)
          end, 1, nil, 3)
          local taken
          local looper = rn.go(function()
            for _ in list[1] do taken = true end
            return "looped"
          end)
          rn.yield()
          if ending == "cancel" then is(rn.cancel(go, "cancelled"), true) end
          if ending == "closed" then coroutine.close(co) end
          rn.yield()
          rn.yield()
          is(calls, 1)
          is(got[1], fed)
          is(got[3], go)
          is(got[4], ending ~= "cancel" and ending ~= "closed")
          is(type(got[5]), (ending == "closed" or ending == "cancel") and "nil" or "string")
          is(got.n, 5)
          is(select(2, go:take()), got[2])
          for k = 1, 7 do
            if i == 0 or i == k then
              is(list[k]:closed(), k ~= 5)
              if k ~= 5 then is(select(2, list[k]:take()), got[2]) end
            elseif k ~= 7 then
              is(list[k]:closed(), false)
            end
          end
          is(taken, nil)
          rn.sleep(20)
          if i < 2 then is(looper:take(), "looped") end
          core.internal.report_unhandled()
          is(reports, (raises and 1 or 0) + (ending == "nil" and 1 or 0))
          rn.on_error(nil)
        end)
      end
    end
  end
  sim.run(function()
    local calls = 0
    local function give_up() calls = calls + 1 end
    is(core.internal.go_feeding(give_up, rn.chan(), function(...) return ... end, 5):take(), 5)
    is(calls, 0)
  end)
end

-- A job of a pipeline that parks, in whatever way, wakes the go block that starts the next one; once.
function only.jobs_that_park(is)
  local job, never, awaited = core.internal.job, rn.chan(), rn.chan()
  local ways = {
    function() end, rn.yield, function() rn.sleep(1) end, function() rn.timeout(1):take() end,
    function() rn.alts { never, rn.timeout(1) } end, function() rn.go(rn.yield):take() end,
    function() rn.timeout(1):take() rn.timeout(1):take() end,
    function()
      local ch = rn.chan()
      rn.go(function() ch:take() end)
      ch:put(1)
    end,
    function() awaited:take() end, -- another go block waits there
  }
  for way, f in ipairs(ways) do
    for waiting = 0, 2 do
      sim.run(function()
        local on_park, woken, result = rn.chan(), 0, job.result()
        for _ = 1, waiting do
          rn.go(function() if on_park:take() then woken = woken + 1 end end)
        end
        local other = rn.go(function() awaited:take() end)
        rn.yield()
        local parked = rn.go(function()
          return job.call(on_park, function(value, to)
            f()
            to:put(value)
          end, way, result)
        end)
        rn.sleep(0.5)
        local parks = way > 1
        is(woken, parks and math.min(waiting, 1) or 0)
        is(awaited:offer(1), true)
        is(other:take(), nil)
        awaited:offer(1)
        rn.sleep(5)
        is(woken, parks and math.min(waiting, 1) or 0)
        is(parked:take(), way > 1 or nil)
        is(job.value(result), way)
        is(result:take(), way)
        on_park:close()
        rn.yield()
      end)
    end
  end
end

return only
