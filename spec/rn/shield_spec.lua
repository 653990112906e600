local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local raises = require "spec.support.raises"
local search = require "spec.support.search"

local function closing(f) return setmetatable({}, { __close = f }) end

describe("shield", function()
  before_each(stage.open)
  after_each(stage.close)

  it("returns what its function returns, and raises its error", stage.within(function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(rn.shield(function(a) return a, nil, 3 end, nil, 1)))
    assert.same({ 1, n = 3 }, table.pack(rn.shield(function() return 1, nil, nil end)))
    assert.same({ false, "oops" }, { pcall(rn.shield, function() error("oops", 0) end) })
    local ok, err = pcall(rn.shield, function() coroutine.yield() end)
    assert.is_false(ok)
    assert.matches("^a go block called coroutine.yield", err)
  end))

  it("works outside of any go block, too", function()
    assert.equal(7, rn.shield(function(v)
      rn.sleep(1)
      return v
    end, {}, 7))
  end)

  it("finishes its function before its caller gets the reason of a cancel, however often it is cancelled",
    stage.within(function()
      local log = {}
      local caller = rn.go(function()
        rn.shield(function()
          rn.sleep(10)
          log[#log + 1] = "finished at " .. rn.now()
        end)
        log[#log + 1] = "not reached"
      end)
      rn.sleep(1)
      for i = 1, 3 do
        rn.cancel(caller, "reason " .. i)
        rn.sleep(1)
      end
      assert.is_false(caller:closed())
      rn.sleep(20)
      assert.is_true(caller:closed())
      assert.same({}, stage.heard()) -- the reason that it raises is no error
      assert.same({ nil, "reason 3" }, { caller:take() })
      assert.same({ "finished at 10" }, log)
    end))

  -- Runs a function in a shield whose caller is cancelled after 1 ms, unless `is_left`. Returns the caller's error,
  -- what was reported, and when it had ended.
  local function shielded(f, opts, is_left)
    local err, at
    local list = stage.reports(function()
      sim.run(function()
        local caller = rn.go(function() return rn.shield(f, opts) end)
        rn.sleep(1)
        if is_left then return rn.sleep(10) end
        rn.cancel(caller, "shutdown")
        err = select(2, caller:take())
        at = rn.now()
        stage.check_timers()
      end)
    end)
    return err, list, at
  end

  local function goes_wrong()
    rn.sleep(5)
    error("half done", 0)
  end

  for how, case in pairs {
    ["returns"] = { function()
      rn.sleep(5)
      return "whole"
    end },
    ["raises an error"] = { goes_wrong, reported = "half done" },
    ["raises the reason"] = { function()
      rn.sleep(5)
      error("shutdown", 0)
    end },
    ["is late, and passes that on"] = { function() rn.sleep(100) end, is_late = true },
    ["is late, and raises another error"] = { function()
      pcall(rn.sleep, 100)
      error("half done", 0)
    end, is_late = true, reported = "half done" },
  } do
    it("raises the reason in a cancelled caller, and reports other errors, if its function " .. how, function()
      for _, grace in ipairs(case.is_late and { 20 } or { false, 20, 1000 }) do
        local err, list, at = shielded(case[1], { grace = grace or nil })
        assert.equal("shutdown", err)
        assert.equal(case.is_late and 21 or 5, at)
        assert.equal(case.reported and 1 or 0, #list)
        if case.reported then assert.same({ case.reported, "a shield" }, { list[1].err, list[1].where }) end
      end
    end)
  end

  local function line_of(f) return (":%d>"):format(debug.getinfo(f, "S").linedefined) end

  it("keeps the traceback of its function's error, whoever reports it", function()
    for _, is_left in ipairs { false, true } do
      local _, list = shielded(goes_wrong, nil, is_left)
      assert.equal(1, #list)
      assert.matches(line_of(goes_wrong), list[1].trace)
    end
  end)

  it("has ended its function when it raises a deadlock outside of any go block", function()
    local has_ended
    assert.same({}, stage.reports(function()
      local ok, err = pcall(rn.shield, function()
        local _ <close> = closing(function() has_ended = true end)
        rn.chan():take()
      end)
      assert.is_false(ok)
      assert.matches("^deadlock: ", err)
      assert.is_true(has_ended)
    end))
  end)

  it("has ended its function when it raises a deadlock in a simulation's function", function()
    local has_ended
    search.finds("^sim.explore: deadlock: ", function() -- the search ends, also if the deadlock is told again and again
      has_ended = false
      rn.shield(function()
        local _ <close> = closing(function() has_ended = true end)
        rn.chan():take()
      end)
    end)
    assert.is_true(has_ended)
  end)

  it("does not hide a deadlock of its function from what waits for it in a simulation's function", function()
    local function waits() rn.shield(function() rn.chan():take() end) end
    local programs = {
      function() rn.shield(waits) end, function() rn.go(waits):take() end, function() rn.retry(waits) end,
      function() rn.scope(waits) end, function() rn.scope(function(s) s:go(waits) end) end,
      function() rn.supervise { { "waits", waits } } end,
    }
    for _, program in ipairs(programs) do search.finds("^sim.explore: deadlock: ", program) end
  end)

  it("cancels its function once its grace is over, and waits for its end", stage.sim(function()
    local seen
    local caller = rn.go(function()
      rn.shield(function()
        local _ <close> = closing(function(_, err)
          seen = err
          rn.sleep(3)
        end)
        rn.sleep(1e6)
      end, { grace = 20 })
    end)
    rn.sleep(5)
    rn.cancel(caller, "shutdown")
    assert.same({ nil, "shutdown" }, { caller:take() })
    assert.is_true(rn.is_timeout(seen))
    assert.equal(stage.is_5_4_3 and 28 or 25, rn.now())
    assert.same({}, stage.others())
    stage.heard()
  end))

  it("ends a function that catches every error in a loop once its grace is over", stage.within(function()
    local rounds = 0
    local caller = rn.go(rn.shield, function()
      while rounds < 5000 do
        rounds = rounds + 1
        pcall(rn.sleep, 1)
      end
    end, { grace = 20 })
    rn.sleep(5)
    rn.cancel(caller, "shutdown")
    assert.same({ nil, "shutdown" }, { caller:take() })
    assert.is_true(rounds < 5000)
    assert.equal(25, rn.now())
  end))

  it("runs its function in a go block that is named after that", stage.within(function()
    local function f() rn.sleep(5) end
    local caller = rn.go(rn.shield, f)
    rn.sleep(1)
    local info, names = debug.getinfo(f, "S"), {}
    for _, name in ipairs(stage.others()) do names[name] = true end
    assert.is_true(names[("%s:%d"):format(info.short_src, info.linedefined)])
    caller:take()
  end))

  it("does not begin in a go block that was cancelled before, but in its <close> variables", stage.within(function()
    local calls = {}
    local caller = rn.go(function()
      local _ <close> = closing(function() rn.shield(function() calls[#calls + 1] = "closing" end) end)
      rn.yield()
      rn.shield(function() calls[#calls + 1] = "body" end)
    end)
    rn.yield()
    rn.cancel(caller)
    assert.same({ nil, "cancelled" }, { caller:take() })
    if stage.is_5_4_3 then assert.same({ "closing" }, calls) end
  end))

  it("is finished before a scope ends that is cancelled, or whose time is up", stage.within(function()
    local log = {}
    local function work(s)
      s:shield(function()
        rn.sleep(10)
        log[#log + 1] = rn.now()
      end)
    end
    assert.is_false(pcall(rn.scope, function(s)
      s:go(work, s)
      rn.yield()
      error "fails"
    end))
    local ok, err = pcall(rn.scope, work, { timeout = 3 })
    assert.is_false(ok)
    assert.is_true(rn.is_timeout(err))
    assert.same({ 10, 20 }, log)
  end))

  it("cancels its function if the coroutine of its caller is closed", stage.within(function()
    local co, ended
    rn.go(function()
      co = coroutine.running()
      rn.shield(function()
        local _ <close> = closing(function() ended = true end)
        rn.sleep(1e6)
      end)
    end)
    rn.yield()
    rn.yield()
    coroutine.close(co)
    rn.sleep(1)
    assert.is_true(ended)
  end))

  it("says at the caller's line what is wrong with its arguments", function()
    raises("shield: f: a function expected, got nothing", function() rn.shield() end)
    raises('shield: unknown option "timeout"; known: grace', function() rn.shield(print, { timeout = 1 }) end)
    raises("shield: grace: a number of milliseconds, at least 0, expected, got %-1",
      function() rn.shield(print, { grace = -1 }) end)
  end)

  -- A go block does steps outside and inside of shields, and is cancelled at any place.
  it("is all or nothing, wherever its caller is cancelled, in every order", function()
    search.finds_bug("half done", function(is_shielded)
      local log = {}
      local shield = is_shielded and rn.shield or function(f) f() end
      local worker = rn.go(function()
        rn.yield()
        for part = 1, 2 do
          shield(function()
            log[#log + 1] = part .. "a"
            rn.yield()
            log[#log + 1] = part .. "b"
          end)
          rn.yield()
        end
        return "whole"
      end)
      for _ = 1, sim.choose(8) do rn.yield() end
      rn.cancel(worker, "now")
      local value, err = worker:take()
      assert(value == "whole" or err == "now", tostring(err))
      assert(#log % 2 == 0, "half done: " .. table.concat(log, " "))
    end)
  end)
end)
