local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- A function that fails that many times and then returns its arguments.
local function failing(failures)
  local self = { times = {} }
  function self.f(...)
    self.times[#self.times + 1] = sim.elapsed()
    if #self.times <= failures then error("failure " .. #self.times, 0) end
    return ...
  end
  return self
end

describe("retry", function()
  before_each(stage.open)
  after_each(stage.close)

  it("returns all results of the first try that does not raise", stage.within(function()
    local job = failing(2)
    assert.same({ 1, nil, false, nil, n = 4 }, table.pack(rn.retry(job.f, { tries = 3 }, 1, nil, false, nil)))
    assert.equal(3, #job.times)
    assert.same({ n = 0 }, table.pack(rn.retry(function() end)))
  end))

  it("raises the last error as it is", stage.within(function()
    local job, last = failing(9), {}
    local ok, err = pcall(rn.retry, job.f, { tries = 2, backoff = 1 })
    assert.is_false(ok)
    assert.equal("failure 2", err)
    ok, err = pcall(rn.retry, function() error(last) end, { tries = 2, backoff = 1 })
    assert.is_false(ok)
    assert.equal(last, err)
  end))

  it("tries 3 times by default, the second time after 50 to 100 ms, then after twice that", stage.within(function()
    local shortest, longest = math.huge, 0
    for _ = 1, 50 do
      local job = failing(9)
      assert.is_false(pcall(rn.retry, job.f))
      local times = job.times
      assert.equal(3, #times)
      for i = 2, 3 do
        local pause = (times[i] - times[i - 1]) / (i - 1)
        shortest, longest = math.min(shortest, pause), math.max(longest, pause)
      end
    end
    assert.is_true(shortest >= 50 and shortest < 60, shortest)
    assert.is_true(longest <= 100 and longest > 90, longest)
  end))

  it("waits for a minute at most, or for `retry` if that is longer", stage.within(function()
    for _, retry in ipairs { 100, 90000 } do
      local job = failing(2000)
      pcall(rn.retry, job.f, { tries = 1100, backoff = retry })
      local most = math.max(60000, retry)
      local last = job.times[1100] - job.times[1099]
      assert.is_true(last >= most / 2 and last <= most, last)
    end
  end))

  it("does not wait with a backoff of 0, however often it fails", stage.within(function()
    local job = failing(1500)
    assert.equal("up", rn.retry(job.f, { tries = 2000, backoff = 0 }, "up"))
    assert.equal(0, sim.elapsed())
  end))

  it("waits as long in each run with the same seed", function()
    local function run()
      return sim.run(function()
        local job = failing(3)
        pcall(rn.retry, job.f)
        return table.concat(job.times, " ")
      end, { seed = 7 })
    end
    assert.equal(run(), run())
  end)

  it("cancels a try that takes longer than `timeout`, and has none left when it returns", stage.within(function()
    local tries, running = 0, 0
    local function f()
      tries, running = tries + 1, running + 1
      local ending <close> = -- luacheck: ignore 211
        setmetatable({}, { __close = function() running = running - 1 end })
      rn.sleep(1000)
    end
    local ok, err = pcall(rn.retry, f, { tries = 2, backoff = 0, timeout = 25 })
    assert.is_false(ok)
    assert.is_true(rn.is_timeout(err))
    assert.equal("retry: a try had not ended after 25 ms", err.message)
    assert.equal(2, tries)
    assert.equal(0, running)
    assert.equal(50, sim.elapsed())
  end))

  it("says what a late try has raised when it was cancelled", stage.within(function()
    local _, err = pcall(rn.retry, function()
      pcall(rn.sleep, 1000)
      error("no page", 0)
    end, { tries = 1, timeout = 25 })
    assert.is_true(rn.is_timeout(err))
    assert.equal("retry: a try had not ended after 25 ms; cancelled, it raised: no page", err.message)
  end))

  it("tries again when a late try has caught the error and returned", stage.within(function()
    local tries = 0
    assert.equal("in time", rn.retry(function()
      tries = tries + 1
      if tries == 2 then return "in time" end
      local _, err = pcall(rn.sleep, 1000)
      return rn.is_timeout(err) and "caught"
    end, { timeout = 25, backoff = 0 }))
    assert.equal(25, sim.elapsed())
  end))

  it("leaves no timer when a try ends in time", stage.within(function()
    assert.equal(1, rn.retry(function() rn.sleep(1) return 1 end, { timeout = 1e9 }))
    rn.yield()
    assert.is_true(sim.elapsed() < 2)
    assert.same({}, stage.others())
  end))

  it("ends at once when it is cancelled, in a try or between two", function()
    stage.explore(function()
      local tries = 0
      local block = rn.go(rn.retry, function()
        tries = tries + 1
        rn.sleep(10)
        error("bad", 0)
      end, { tries = 5, backoff = 20 })
      local ms = 5 * sim.choose(4) -- in the first try, or in the wait behind it
      rn.sleep(ms)
      rn.cancel(block, "stop")
      local value, err = block:take()
      assert.is_nil(value)
      assert.equal("stop", err)
      assert.equal(ms, sim.elapsed())
      assert.equal(1, tries)
    end)
  end)

  it("is cancelled, and tries nothing again, whatever error the try makes of that", stage.sim(function()
    local tries = 0
    local block = rn.go(rn.retry, function()
      tries = tries + 1
      local _, err = pcall(rn.sleep, 10)
      error("no page: " .. err, 0)
    end, { backoff = 0, timeout = 20 })
    rn.sleep(5)
    rn.cancel(block, "stop")
    assert.same({ nil, "stop", n = 2 }, table.pack(block:take()))
    rn.sleep(100)
    assert.equal(1, tries)
  end))

  it("works outside any go block", function()
    local n = 0
    assert.equal(2, rn.retry(function() n = n + 1 return n > 1 and n or error "first" end, { backoff = 1 }))
  end)

  it("has a go block that is named after the function, and a timer that no program sees", stage.within(function()
    local names
    local where = stage.here(1)
    rn.retry(function()
      rn.sleep(1)
      names = stage.others()
      for _, entry in ipairs(rn.ps()) do
        if entry.state == "running" then names[#names + 1] = entry.name end
      end
    end, { timeout = 10 })
    assert.same(where, names[#names])
    assert.equal(2, #names) -- it, and the go block of this spec
  end))

  it("ends its try when the go block that waits for it is killed", stage.within(function()
    local running, co = 0, nil
    rn.go(function()
      co = coroutine.running()
      rn.retry(function()
        running = running + 1
        local ending <close> = setmetatable({}, { __close = function() running = running - 1 end }) -- luacheck: ignore
        rn.sleep(1e9)
      end, { timeout = 1e6 })
    end)
    rn.sleep(1)
    assert.equal(1, running)
    coroutine.close(co)
    rn.sleep(1)
    assert.equal(0, running)
    assert.is_true(sim.elapsed() < 3)
    assert.same({}, stage.others())
  end))

  it("counts nil with an error as an error", stage.sim(function()
    local calls = 0
    local function third()
      calls = calls + 1
      if calls < 3 then return nil, "not yet" end
      return nil
    end
    assert.is_nil(rn.retry(third, { tries = 3, backoff = 1 }))
    assert.equal(3, calls)
    calls = 0
    assert.same({ false, "not yet" }, { pcall(rn.retry, third, { tries = 2, backoff = 1 }) })
  end))

  it("raises an error of its own where the try raises nil", stage.sim(function()
    local ok, err = pcall(rn.retry, function() error(nil) end, { tries = 1 })
    assert.is_false(ok)
    assert.matches(stage.raised_nil or "^a try raised nil", err)
    assert.same({}, stage.heard())
  end))

  it("reports no nil that is tried again, nor does a pmap", stage.sim(function()
    local calls = 0
    local function third()
      calls = calls + 1
      if calls % 3 ~= 0 then error(nil) end
      return "third"
    end
    assert.equal("third", rn.retry(third, { tries = 3, backoff = 1 }))
    assert.equal("third", rn.pmap(1, third, { 1 }, { tries = 3, backoff = 1 }):take())
    assert.same({}, stage.heard())
    rn.go(rn.retry, function() error(nil) end, { tries = 1 })
    rn.pmap(1, function() error(nil) end, { 1 })
    rn.sleep(6000)
    assert.equal(2, #stage.heard()) -- their messages, which nobody takes
  end))

  it("refuses what is wrong at the caller's line", function()
    raises("^retry: f: a function expected, got nothing; call it as rn%.retry%(f, {", function() rn.retry() end)
    raises("^retry: f: a function expected, got a table; call it as rn%.retry", function() rn.retry({ tries = 2 }) end)
    raises("^retry: a table of options expected, got a number$", function() rn.retry(print, 3) end)
    raises('^retry: unknown option "try"; known: backoff, timeout, tries$', function() rn.retry(print, { try = 3 }) end)
    raises("^retry: tries: an integer of at least 1 expected, got 0$", function() rn.retry(print, { tries = 0 }) end)
    raises("^retry: tries: an integer of at least 1 expected, got 1.5$",
      function() rn.retry(print, { tries = 1.5 }) end)
    raises("^retry: backoff: a number of milliseconds, at least 0, expected, got %-1$", function()
      rn.retry(print, { backoff = -1 })
    end)
    raises("^retry: timeout: a number of milliseconds, at least 0, expected, got \"1\"$", function()
      rn.retry(print, { timeout = "1" })
    end)
  end)
end)
