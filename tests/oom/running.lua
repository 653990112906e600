-- run with results and errors, step, yield, a driver, simulations and their deadlocks, require on the main thread.
local t = ...
local rn = require "runnel"
local sim = require "runnel.sim"

local steps, waits, woken = 0, 0, false
local gate = rn.chan()
local previous

local function attempt()
  local a, b, c = rn.run(function(...)
    rn.yield()
    return ...
  end, 1, nil, 3)
  assert(a == 1 and b == nil and c == 3)
  local ok, err = pcall(rn.run, function() error("raised on purpose", 0) end)
  assert(not ok)
  if err ~= "raised on purpose" then error(err, 0) end
  for _ = 1, 3 do
    t.go(function()
      rn.yield()
      steps = steps + 1
    end)
  end
  while rn.step(1) == 0 do rn.yield() end
  local elapsed = sim.run(function()
    local ch = rn.chan()
    for i = 1, 20 do
      rn.go(function()
        rn.sleep(i * 1000)
        ch:put(i)
      end)
    end
    local sum = 0
    for _ = 1, 20 do sum = sum + ch:take() end
    rn.go(function() rn.sleep(1000) end)
    rn.go(function() rn.timeout(5000):take() end)
    rn.yield()
    assert(sum == 210)
    return sim.elapsed()
  end, { seed = 3, shuffle = true })
  assert(elapsed == 20000)
  sim.run(function()
    for _ = 1, 2 do
      local waited, reason = pcall(function() rn.chan():take() end)
      assert(not waited)
      if not tostring(reason):find "^deadlock" then error(reason, 0) end
    end
  end)
  assert(rn.run(require "runnel.core".internal.require, "string") == string)
  previous = rn.driver {
    wait = function()
      waits = waits + 1
      if waits == 3 then gate:put_async(true) end
    end,
    alive = function() return not woken end,
  }
  woken = gate:take()
  rn.driver(nil)
end

local function check(ok)
  rn.driver(nil)
  rn.run()
  assert(rn.step() == nil)
  if ok then assert(woken == true and previous == nil) end
  if t.refused() == 0 then assert(steps == 3) end
end

return attempt, check
