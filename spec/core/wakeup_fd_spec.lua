local core = require "runnel.core"
local rn = require "runnel"
local stage = require "spec.support.stage"
local has_luv, uv = pcall(require, "luv")

describe("wakeup_fd", function()
  if not has_luv then return pending "luv is not installed" end
  before_each(stage.open)
  after_each(stage.close)

  -- Waits for the descriptor alone, as a host does after a step that returned math.huge. Fails after 20 s.
  local function wait_for_news()
    local is_readable, is_late = false, false
    local watch, timer = uv.new_poll(core.wakeup_fd()), uv.new_timer()
    watch:start("r", function() is_readable = true end)
    timer:start(20000, 0, function() is_late = true end)
    while not is_readable and not is_late do uv.run "once" end
    watch:close()
    timer:close()
    uv.run "nowait"
    assert.is_true(is_readable)
  end

  local function step()
    local ms
    repeat ms = rn.step() until ms ~= 0
    return ms
  end

  it("wakes a host that polls when another thread puts on a shared channel", function()
    local requests, answers, got = rn.shared_chan(), rn.shared_chan(), {}
    local thread = rn.thread(function(from, to)
      for v in from do to:put(v * 2) end
    end, requests, answers)
    rn.go(function()
      for i = 1, 20 do
        requests:put(i)
        got[i] = answers:take()
      end
      requests:close()
    end)
    local ended = false
    rn.go(function()
      thread:take()
      ended = true
    end)
    while not ended do
      local ms = step()
      if not ended then
        assert.equal(math.huge, ms)
        wait_for_news()
      end
    end
    assert.equal(20, #got)
    assert.equal(40, got[20])
  end)

  it("ends wait_readable if a debug hook is set just before, as by Ctrl-C, but not if it stays", function()
    local waits = 0
    rn.driver { alive = function() return true end, wait = function(_, ms)
      if ms == 0 then return end
      waits = waits + 1
      if waits == 1 then debug.sethook(function() end, "", 1000000000) end -- not called by the call of wait_readable
      core.wait_readable(uv.backend_fd(), ms)
    end }
    finally(function()
      debug.sethook()
      rn.driver(nil)
    end)
    rn.sleep(100)
    assert.is_true(waits > 1 and waits < 5, waits)
  end)

  it("ends wait_readable, which is false then; true when the driver's descriptor is readable or time is up", function()
    local results, done = {}, rn.chan(1)
    local event = uv.new_async(function() done:offer(true) end)
    rn.driver {
      wait = function(_, ms)
        local may_have_events = core.wait_readable(uv.backend_fd(), ms)
        if ms ~= 0 then results[#results + 1] = may_have_events end -- else it only looks
        if may_have_events then uv.run "nowait" end
      end,
      alive = function() return true end,
    }
    rn.sleep(50)
    assert.is_true(results[#results])
    event:send()
    assert.is_true(done:take())
    assert.is_true(results[#results])
    local from, to, began = rn.shared_chan(), rn.shared_chan(), rn.now()
    local thread = rn.thread(function(input, output)
      for value in input do
        require("runnel").sleep(5)
        output:put(value)
      end
    end, from, to)
    repeat -- it need not wait if the thread is fast, or this one is slow
      assert(rn.now() - began < 20000, "no wait was ended by the thread alone")
      from:put(true)
      assert.is_true(to:take())
    until results[#results] == false
    from:close()
    thread:take()
    event:close()
    uv.run "nowait"
  end)

  -- Sleeps, again and again, until a wait of the driver was as expected: the machine may be slow.
  local function sleep_until(expected, wait)
    local seen = false
    rn.driver {
      wait = function(_, ms)
        if ms > 0 and wait(ms) == expected then seen = true end
      end,
      alive = function() return true end,
    }
    repeat rn.sleep(5) until seen
  end

  it("lets wait_readable wait until the next timer at most, and not if that is due", function()
    sleep_until(true, function() return core.wait_readable(uv.backend_fd(), nil) end)
    sleep_until(true, function() return core.wait_readable(uv.backend_fd(), 1) end)
    sleep_until(false, function(ms)
      local due = rn.now() + ms
      repeat local is_late = rn.now() > due until is_late
      return core.wait_readable(uv.backend_fd(), nil)
    end)
  end)

  it("may be waited for beside another descriptor", function()
    local always = uv.fs_open("/dev/null", "r", 0)
    sleep_until(true, function(ms)
      local began = rn.now()
      return core.wait_readable(uv.backend_fd(), ms, always) and rn.now() - began < ms
    end)
    uv.fs_close(always)
  end)

  local function is_readable(fd)
    local is = false
    local watch = uv.new_poll(fd)
    watch:start("r", function() is = true end)
    uv.run "nowait"
    watch:close()
    uv.run "nowait"
    return is
  end

  it("is the same descriptor each time, and is not readable after a step", function()
    local fd = core.wakeup_fd()
    assert.equal(fd, core.wakeup_fd())
    assert.equal("integer", math.type(fd))
    step()
    assert.is_false(is_readable(fd))
  end)

  it("is readable after a step that has raised an error, since it has not told when to step again", function()
    local fd, has_run, is_broken = core.wakeup_fd(), false, true
    step()
    rn.driver {
      wait = function()
        if is_broken then error "the driver is broken" end
      end,
      alive = function() return false end,
    }
    finally(function() rn.driver(nil) end)
    rn.go(function()
      rn.sleep(1)
      has_run = true
    end)
    assert.is_false(is_readable(fd))
    assert.has_error(rn.step)
    assert.is_true(is_readable(fd))
    is_broken = false
    repeat step() until has_run
    assert.is_false(is_readable(fd))
  end)
end)
