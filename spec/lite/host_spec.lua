-- A runnel.lite of its own, because rn.host is for the whole library.
local function fresh() return assert(loadfile "lua/runnel/lite.lua")("runnel.lite") end

-- A loop with the time of its own. run(ms) runs it for so long.
local function new_loop()
  local loop = { time = 0, soon = {}, later = nil }
  function loop.now() return loop.time end
  function loop.schedule(f) loop.soon[#loop.soon + 1] = f end
  function loop.after(ms, f) loop.later = { at = loop.time + ms, f = f } end
  function loop.run(ms)
    for _ = 0, ms do
      while loop.soon[1] do table.remove(loop.soon, 1)() end
      local later = loop.later
      if later and later.at <= loop.time then
        loop.later = nil
        later.f()
      else
        loop.time = loop.time + 1
      end
    end
  end
  return loop
end

-- A host that has threads. run(ms) runs them for so long.
local function new_threads()
  local host, ready, parked = { time = 0 }, {}, {}
  function host.now() return host.time end
  function host.current() return (coroutine.running()) end
  function host.spawn(f) ready[#ready + 1] = coroutine.create(f) end
  function host.park(go, ms)
    local co = coroutine.running()
    if ms == 0 then
      ready[#ready + 1] = co
    elseif go.host then
      go.host = nil
      return
    else
      parked[co] = { go = go, at = ms and host.time + ms }
    end
    coroutine.yield()
    parked[co], go.host = nil, nil
  end
  function host.wake(go) go.host = "woken" end
  function host.run(ms)
    for _ = 0, ms do
      while ready[1] do assert(coroutine.resume(table.remove(ready, 1))) end
      for co, at in pairs(parked) do
        if at.go.host or at.at and at.at <= host.time then ready[#ready + 1] = co end
      end
      if not ready[1] then host.time = host.time + 1 end
    end
  end
  return host
end

describe("the host of runnel.lite", function()
  it("may have a clock that is set: the time never goes back, and waits are not longer for that", function()
    local rn, time, slept = fresh(), 5000, 0
    local back = 0
    rn.host {
      now = function() return time end,
      sleep = function(ms) time, slept, back = time + ms - back, slept + ms, 0 end,
    }
    rn.run(function()
      local before = rn.now()
      back = 3600000
      rn.sleep(20)
      assert.is_true(rn.now() >= before)
      rn.sleep(20)
      time = time - 10
      assert.is_true(rn.now() >= before)
      rn.sleep(20)
    end)
    assert.is_true(slept >= 40 and slept <= 80, slept)
  end)

  local function used() -- KB
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end

  it("keeps few coroutines after many go blocks at once", function()
    local rn = fresh()
    local before = used()
    for _ = 1, 20000 do rn.go(rn.yield) end
    rn.run()
    assert.is_true(used() - before < 3000, used() - before)
    local n = 0
    for _ = 1, 2000 do rn.go(function() n = n + 1 end) end
    rn.run()
    assert.equal(2000, n)
  end)

  it("has few timers that were withdrawn, however far the others are", function()
    local rn, time = fresh(), 0
    rn.host { now = function() return time end, sleep = function(ms) time = time + ms end }
    rn.run(function()
      rn.go(function() rn.sleep(600000) end)
      local woken = {}
      for i = 1, 300 do -- which stay
        rn.go(function()
          rn.sleep(i % 7 * 1000 + i)
          woken[#woken + 1] = i % 7 * 1000 + i
        end)
      end
      rn.yield()
      local before = used()
      for _ = 1, 5000 do
        rn.scope(function() end, { timeout = 3600000 })
        local sleeper = rn.go(function() rn.sleep(3600000) end)
        rn.yield()
        rn.cancel(sleeper)
        rn.yield()
      end
      assert.is_true(used() - before < 500, used() - before)
      rn.sleep(10000)
      assert.equal(300, #woken)
      local sorted = { table.unpack(woken) }
      table.sort(sorted)
      assert.same(sorted, woken)
    end)
  end)

  it("runs go blocks by schedule and after", function()
    local rn, loop, seen = fresh(), new_loop(), {}
    rn.host(loop)
    local ch = rn.chan()
    rn.go(function()
      rn.sleep(50)
      ch:put "x"
      rn.sleep(20)
      ch:close "the end"
    end)
    rn.go(function()
      for _ = 1, 2 do
        local value, err = ch:take()
        seen[#seen + 1] = ("%s %s %d"):format(value, err, loop.time)
      end
    end)
    loop.run(200)
    assert.same({ "x nil 50", "nil the end 70" }, seen)
    assert.equal(0, #loop.soon)
    assert.is_nil(loop.later)
    ch = rn.chan() -- an operation outside any go block wakes one
    rn.go(function() seen[3] = ch:take() end)
    loop.run(1)
    ch:offer "from outside"
    loop.run(1)
    assert.equal("from outside", seen[3])
  end)

  it("runs go blocks that were made before it was given", function()
    local rn, loop, done = fresh(), new_loop(), false
    rn.go(function() done = true end)
    rn.host(loop)
    loop.run(1)
    assert.is_true(done)
  end)

  it("that has a loop of its own lets no operation wait outside go blocks, unless it can sleep", function()
    local rn, loop = fresh(), new_loop()
    rn.host(loop)
    local ok, err = pcall(function() rn.chan():take() end)
    assert.is_false(ok)
    assert.matches("host_spec.lua:%d+: take would have to wait, which is impossible outside a go block", err)
    function loop.sleep(ms) loop.run(ms) end
    rn.host(loop)
    rn.sleep(30)
    assert.is_true(loop.time >= 30)
  end)

  it("drives by rn.step, which looks at the clock after each go block", function()
    local rn, time = fresh(), 0
    rn.host { now = function() return time end }
    local rounds = 0
    rn.go(function()
      for _ = 1, 5 do
        time, rounds = time + 1, rounds + 1
        rn.yield()
      end
      rn.sleep(7)
      rounds = "ended"
    end)
    assert.equal(0, rn.step(2))
    assert.equal(2, rounds)
    assert.equal(0, rn.step())
    assert.equal(3, rounds)
    assert.equal(7, rn.step(100))
    time = time + 7
    assert.is_nil(rn.step())
    assert.equal("ended", rounds)
  end)

  it("is told at the next step of an error that nobody has taken", function()
    local rn, time, reported = fresh(), 0, nil
    rn.host { now = function() return time end }
    rn.on_error(function(err) reported = err end)
    rn.go(function() error("lost", 0) end)
    assert.equal(5000, rn.step())
    time = 5000
    assert.is_nil(rn.step())
    assert.equal("lost", reported)
  end)

  it("may have threads of its own as go blocks", function()
    local rn, host, seen = fresh(), new_threads(), {}
    local function say(...) seen[#seen + 1] = table.concat({ ... }, " ") end
    rn.host(host)
    rn.on_error(function(err) say("reported", err) end)
    host.spawn(function() -- which the library has not begun
      local ch = rn.chan()
      local block = rn.go(function(a, b)
        ch:put(a)
        rn.sleep(10)
        ch:put(b)
        rn.yield()
        return "done"
      end, 1, 2)
      say(ch:take(), ch:take(), block:take(), host.time)
      local waits = rn.go(function() ch:take() end)
      rn.yield()
      say(tostring(rn.cancel(waits, "enough")), select(2, waits:take()))
      local limit, begin = rn.timeout(20), host.time
      local _, port = rn.alts { ch, limit }
      say(tostring(port == limit), host.time - begin)
      rn.timeout(30):take_async(function() say("a callback", host.time - begin) end)
      rn.sleep(40)
      say(select(2, rn.go(function() error("a mistake", 0) end):take()))
      say(rn.sim.run(function()
        rn.sleep(1000)
        return rn.now()
      end))
      say(rn.run(function() return "in the same thread" end))
    end)
    host.run(300)
    assert.same({ "1 2 done 10", "true enough", "true 20", "a callback 50", "a mistake", "1000", "in the same thread" },
      seen)
  end)

  it("may have threads of its own, in which a scope has a time limit although nothing else is timed", function()
    local rn, host, said = fresh(), new_threads(), nil
    rn.host(host)
    host.spawn(function()
      local _, err = rn.go(rn.scope, function(s)
        s:go(function() rn.chan():take() end)
      end, { timeout = 50 }):take()
      said = ("%s, at %d ms"):format(err, host.time)
    end)
    host.run(300)
    assert.equal("scope: 1 go block had not ended after 50 ms, at 50 ms", said)
  end)

  it("may kill its threads: the library does not keep them", function()
    local rn, host = fresh(), new_threads()
    rn.host(host)
    local gone, has_begun = setmetatable({}, { __mode = "k" }), false
    host.spawn(function()
      rn.go(function()
        gone[coroutine.running()], has_begun = true, true
        rn.chan():take()
      end)
    end)
    function host.park() coroutine.yield() end -- nobody resumes it
    host.run(5)
    assert.is_true(has_begun) -- the collector may have got it already
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(gone))
  end)

  it("must have all of its functions", function()
    local rn = fresh()
    local ok, err = pcall(function() rn.host { schedule = print } end)
    assert.is_false(ok)
    assert.matches("host_spec.lua:%d+: host: the function 'now' is missing", err)
    ok, err = pcall(function() rn.host { now = os.clock, spawn = print } end)
    assert.is_false(ok)
    assert.matches("host: the function 'current' is missing", err)
  end)
end)
