-- Hosts of runnel.lite that handle events in a wait, and hosts that end the threads of go blocks.

-- A runnel.lite of its own, because rn.host is for the whole library.
local function fresh() return assert(loadfile "lua/runnel/lite.lua")("runnel.lite") end

-- A loop with events at times: at(ms, f). Its turn handles the next event, and returns whether there is a further one.
local function new_loop()
  local loop, events = { time = 0, turns = 0, scheduled = {} }, {}
  function loop.at(ms, f)
    events[#events + 1] = { ms = ms, f = f }
    table.sort(events, function(a, b) return a.ms < b.ms end)
  end
  function loop.now() return loop.time end
  function loop.schedule(f) table.insert(loop.scheduled, f) end
  function loop.after(_, f) table.insert(loop.scheduled, f) end
  function loop.turn(ms, is_ready)
    assert(not is_ready())
    loop.turns = loop.turns + 1
    while loop.scheduled[1] do table.remove(loop.scheduled, 1)() end
    local event = events[1]
    if event and (not ms or event.ms <= loop.time + ms) then
      loop.time = event.ms
      table.remove(events, 1).f()
    elseif ms then
      loop.time = loop.time + ms
    end
    return events[1] ~= nil
  end
  return loop
end

describe("a host of runnel.lite", function()
  it("handles events while rn.run waits, also the last one", function()
    local rn, loop = fresh(), new_loop()
    rn.host(loop)
    local ch = rn.chan(1)
    loop.at(10, function() end)
    loop.at(20, function() ch:offer "from outside" end)
    assert.equal("from outside", rn.run(function() return (ch:take()) end))
    assert.equal(20, loop.time)
    loop.at(30, function() ch:offer "outside a go block" end)
    assert.equal("outside a go block", (ch:take()))
    assert.is_true(loop.turns <= 4)
  end)

  it("waits no longer than until the next deadline", function()
    local rn, loop = fresh(), new_loop()
    rn.host(loop)
    loop.at(500, function() end)
    rn.run(function() rn.sleep(30) end)
    assert.equal(30, loop.time)
  end)

  it("says by turn that nothing can come any more: a deadlock, after the errors that nobody has taken", function()
    local rn, loop, reported = fresh(), new_loop(), nil
    rn.host(loop)
    rn.on_error(function(err) reported = err end)
    local ok, err = pcall(rn.run, function()
      rn.go(function() error("lost", 0) end)
      rn.chan():take()
    end)
    assert.is_false(ok)
    assert.matches("^deadlock: run would wait for ever", err)
    assert.equal("lost", reported)
  end)

  it("goes on with the go blocks that rn.run has left", function()
    local rn, loop, seen = fresh(), new_loop(), nil
    rn.host(loop)
    rn.run(function()
      rn.sleep(1) -- a turn
      rn.go(function() seen = "later" end)
    end)
    assert.is_nil(seen)
    while loop.scheduled[1] do table.remove(loop.scheduled, 1)() end
    assert.equal("later", seen)
  end)

  it("may end a wait by an error, as an interrupt: it is withdrawn, and raises that, and all goes on", function()
    local rn, loop, seen = fresh(), new_loop(), {}
    local turn = loop.turn
    local function interrupted() error("interrupted!", 0) end
    rn.host(loop)
    local ch = rn.chan()
    for what, wait in pairs {
      take = function() ch:take() end,
      put = function() ch:put "lost" end,
      alts = function() rn.alts { ch, rn.chan() } end,
      sleep = function() rn.sleep(10) end,
      scope = function() rn.scope(function(s) s:go(function() ch:take() end) end) end,
    } do
      loop.turn = interrupted
      rn.host(loop)
      assert.same({ false, "interrupted!" }, { pcall(wait) }, what)
      assert.same({ 0, 0 }, { ch:stats().puts_waiting, ch:stats().takes_waiting }, what)
    end
    assert.same({ false, "interrupted!" }, { pcall(rn.run, function()
      seen[1] = ch:take()
      return "nobody's"
    end) })
    loop.turn = turn
    rn.host(loop)
    rn.go(function() seen[2] = ch:put "a value" end)
    while loop.scheduled[1] do table.remove(loop.scheduled, 1)() end
    assert.same({ "a value", true }, seen)
    assert.equal("a result", rn.run(function() return "a result" end))
    assert.is_nil(rn.step())
  end)

  it("may handle events while a go block or a callback waits for it, and go blocks run after that", function()
    local rn, loop, seen, reported = fresh(), new_loop(), {}, nil
    local timed
    loop.turn = nil
    function loop.after(ms, f) timed = { at = loop.time + ms, f = f } end
    local function handle_events(ms)
      loop.time = loop.time + ms
      while loop.scheduled[1] do table.remove(loop.scheduled, 1)() end
      if timed and timed.at <= loop.time then
        local f = timed.f
        timed = nil
        f()
      end
    end
    rn.host(loop)
    rn.on_error(function(err) reported = err end)
    rn.go(function()
      rn.sleep(60)
      seen[#seen + 1] = "tick"
    end)
    handle_events(0)
    rn.go(function()
      handle_events(100)
      seen[#seen + 1] = "waited"
    end)
    handle_events(20)
    assert.same({ "waited", "tick" }, seen)
    local ch = rn.chan(1, function(rf)
      return function(acc, value)
        if not value then return rf(acc) end
        rn.go(function() seen[#seen + 1] = "from a transducer" end)
        handle_events(5)
        return rf(acc, value)
      end
    end)
    assert.is_true(ch:offer(1))
    assert.is_nil(seen[3])
    handle_events(1)
    assert.equal("from a transducer", seen[3])
    assert.is_nil(reported)
  end)

  it("may tell where it cannot wait", function()
    local rn, loop, can_wait = fresh(), new_loop(), true
    function loop.can_wait() return can_wait end
    rn.host(loop)
    rn.sleep(1)
    can_wait = false
    local ok, err = pcall(function() rn.sleep(1) end)
    assert.is_false(ok)
    assert.matches("turn_spec.lua:%d+: sleep would have to wait, which is impossible outside a go block", err)
    assert.equal(1, rn.sim.run(function()
      rn.sleep(1)
      return rn.now()
    end))
  end)

  it("refuses rn.run without sleep and turn, and goes on", function()
    local rn, loop, seen = fresh(), new_loop(), nil
    loop.turn = nil
    rn.host(loop)
    local ok, err = pcall(function() rn.run(function() rn.sleep(1) end) end)
    assert.is_false(ok)
    assert.matches("turn_spec.lua:%d+: run would have to wait", err)
    rn.go(function() seen = "goes on" end)
    while loop.scheduled[1] do table.remove(loop.scheduled, 1)() end
    assert.equal("goes on", seen)
  end)

  it("withdraws what a go block waits for by rn.killed, and closes its result", function()
    local rn, ready, all, reported = fresh(), {}, {}, nil
    rn.host {
      now = function() return 0 end,
      current = function() return (coroutine.running()) end,
      spawn = function(f, go)
        ready[#ready + 1] = coroutine.create(f)
        all[#all + 1] = go
      end,
      park = function() coroutine.yield() end,
      wake = function() end,
    }
    rn.on_error(function(err) reported = err end)
    local ch = rn.chan()
    local taker = rn.go(function() ch:take() end)
    local chooser = rn.go(function() rn.alts { ch, rn.timeout(100) } end)
    local sleeper = rn.go(function() rn.sleep(100) end)
    for _, co in ipairs(ready) do assert(coroutine.resume(co)) end
    assert.equal(2, ch:stats().takes_waiting)
    for _, go in ipairs(all) do rn.killed(go) end
    assert.equal(0, ch:stats().takes_waiting)
    assert.is_nil(ch:offer "lost")
    for _, result in ipairs { taker, chooser, sleeper } do
      assert.same({ nil, "its thread was ended by the host" }, { result:poll() })
    end
    for _, go in ipairs(all) do rn.killed(go) end -- once more does nothing
    assert.is_nil(reported)
  end)
end)
