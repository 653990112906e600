local rn = require "runnel"
local long = require "spec.support.long"
local process = require "spec.support.process"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local shell = require "spec.support.shell"
local stage = require "spec.support.stage"
local sim = require "runnel.sim"

describe("rn.thread", function()
  before_each(stage.open)
  after_each(stage.close)

  it("calls a function in another state, with copies of its arguments, and returns its first result", function()
    here = "a global of this state" -- luacheck: ignore
    local sent = { 1, 2 }
    local result = rn.thread(function(list, factor, nothing, ch)
      list[3] = list[1] + list[2]
      ch:put(here == nil and nothing == nil) -- luacheck: ignore
      return { list[3] * factor }, "dropped"
    end, sent, 2.5, nil, rn.shared_chan(1))
    assert.same({ 7.5 }, result:take())
    assert.is_nil(result:take())
    assert.same({ 1, 2 }, sent)
    here = nil -- luacheck: ignore
  end)

  it("closes the result of a function that returns nothing", function()
    local result = rn.thread(function() end)
    assert.same({ n = 1 }, table.pack(result:take()))
    assert.is_true(result:closed())
  end)

  it("gives nil and an error that the function returns, and reports nothing", function()
    local result = rn.thread(function() return nil, "no such host" end)
    assert.same({ nil, "no such host", n = 2 }, table.pack(result:take()))
    rn.run()
    assert.same({}, stage.heard())
  end)

  it("says why a global function of the program is nil in a thread", function()
    helper = print -- luacheck: ignore
    local cure = "helper'%): a thread has its own globals, not those of the program; put 'helper' into a module"
    local _, err = rn.thread(function() helper() end):take() -- luacheck: ignore
    assert.matches(cure, err)
    local pool = rn.threads(1, function() return helper.x end) -- luacheck: ignore
    local ok, problem = pcall(pool, 1)
    assert.is_false(ok)
    assert.matches("attempt to index a nil value %(global '" .. cure, tostring(problem))
    helper = nil -- luacheck: ignore
    rn.run()
    assert.is_true(#stage.heard() <= 1)
  end)

  it("has go blocks, channels and timers of its own, beside those here", function()
    local jobs, results = rn.shared_chan(), rn.shared_chan(3)
    for _ = 1, 2 do
      rn.thread(function(from, to)
        local rn = require "runnel" -- luacheck: ignore
        local done = rn.chan()
        rn.pipeline_async(3, done, function(v, out)
          rn.sleep(1)
          out:put { v, v * v }
          out:close()
        end, from)
        for pair in done do to:put(pair) end
      end, jobs, results)
    end
    rn.go(function()
      for i = 1, 40 do jobs:put(i) end
      jobs:close()
    end)
    local seen = {}
    for _ = 1, 40 do
      local pair = results:take()
      assert.equal(pair[1] * pair[1], pair[2])
      assert.is_nil(seen[pair[1]])
      seen[pair[1]] = true
    end
    rn.run()
  end)

  it("finds modules as here", function()
    local dir <close> = setmetatable(process.directory(), { __close = function(dir) dir:remove() end })
    dir:write("square.lua", "local name, file = ... return function(v) return { v * v, name, file } end")
    local path = package.path
    package.path = dir.path .. "/?.lua;" .. path
    local result = rn.thread("square", 12):name "squares"
    local of_ps = {}
    for _, entry in ipairs(rn.ps()) do of_ps[#of_ps + 1] = entry.thread and entry.name or nil end
    assert.same({ "squares" }, of_ps)
    package.path = path
    assert.same({ 144, "square", dir.path .. "/square.lua" }, result:take())
  end)

  it("raises for what another state cannot have, at the caller's line", function()
    local up = 1
    raises("^thread: the function uses 'up', a local variable from outside it", function()
      rn.thread(function() return up end)
    end)
    raises("^thread: a function written in C cannot be sent", function() rn.thread(print) end)
    raises("^thread: a function or the name of a module expected, got nothing", function() rn.thread() end)
    raises("^thread: a function or the name of a module expected, got a table", function() rn.thread {} end)
    raises("^thread: argument 2.f%[1%]: a function cannot be sent", function()
      rn.thread(function() end, 1, { f = { print } })
    end)
    sim.run(function() raises("^thread: a simulation", function() rn.thread(function() end) end) end)
  end)

  it("closes the result with an error of the function, or of its module", function()
    assert.same({ nil, "bad" }, { rn.thread(function() error("bad", 0) end):take() })
    assert.same({ nil, { code = 1 } }, { rn.thread(function() error { code = 1 } end):take() })
    local _, err = rn.thread(function() error() end):take()
    assert.matches(stage.raised_nil or "^the function of a thread has raised nil", err)
    _, err = rn.thread(function()
      error(setmetatable({}, { __tostring = function() return "object" end }))
    end):take()
    assert.equal("object", err)
    _, err = rn.thread(function() return print end):take()
    assert.equal("thread: result: a function cannot be sent", err)
    _, err = rn.thread(function() return { a = { print } } end):take()
    assert.equal("thread: result.a[1]: a function cannot be sent", err)
    local ok
    ok, err = pcall(rn.scope, function(s) s:thread(function() return { print } end) end)
    assert.same({ false, "thread: result[1]: a function cannot be sent" }, { ok, err })
    _, err = rn.thread("no.such.module"):take()
    assert.matches("^module 'no.such.module' not found", err)
    _, err = rn.thread("spec.support.stage"):take()
    assert.matches("^the module 'spec.support.stage' returned a table, not a function", err)
    assert.same({}, stage.heard())
  end)

  it("reports errors that nobody takes here, with their traceback", function()
    rn.thread(function() error "nobody takes this" end)
    rn.thread(function()
      local rn = require "runnel" -- luacheck: ignore
      rn.go(function() error "in a go block" end)
      rn.sleep(1)
    end)
    rn.run()
    local heard = stage.heard()
    assert.equal(2, #heard)
    if heard[1].err:find "nobody" then heard[1], heard[2] = heard[2], heard[1] end
    assert.matches("in a go block", heard[1].err)
    assert.matches("thread_spec.lua:%d+ in thread .*thread_spec.lua:%d+", heard[1].name)
    assert.matches("nobody takes this", heard[2].err)
    for _, each in ipairs(heard) do assert.matches("stack traceback:.*thread_spec.lua", each.trace) end
  end)

  it("reports that it cannot begin, and rn.run does not wait for it", function()
    local driver = { wait = function() end, alive = function() return false end }
    package.loaded["no.such.driver"] = driver
    rn.driver(driver)
    rn.thread(function() end)
    rn.driver(nil)
    package.loaded["no.such.driver"] = nil
    rn.run()
    require "runnel.core".internal.report_unhandled()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("module 'no.such.driver' not found", heard[1].err)
    assert.matches("^thread [^\n]*thread_spec.lua:%d+$", heard[1].name)
  end)

  it("starts threads of its own, whose errors come through", function()
    local result = rn.thread(function()
      local rn = require "runnel" -- luacheck: ignore
      rn.thread(function() error "deep" end)
      local inner = rn.thread(function(v) return v + 1 end, 1):take()
      local left
      repeat
        rn.sleep(1)
        left = false
        for _, entry in ipairs(rn.ps()) do left = left or entry.thread end
      until not left
      return inner
    end)
    assert.equal(2, result:take())
    rn.run()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("deep", heard[1].err)
  end)

  it("wakes a go block whose channel only the thread still has", function()
    local got
    local function start()
      local ch, go_on = rn.shared_chan(), rn.shared_chan()
      rn.go(function() got = ch:take() end)
      rn.yield()
      for _ = 1, 4 do collectgarbage() end -- from here on only its channel keeps it
      rn.thread(function(to, wait)
        wait:take()
        to:put "value"
      end, ch, go_on)
      return go_on
    end
    local go_on = start()
    for _ = 1, 4 do collectgarbage() end
    go_on:put(true)
    rn.run()
    assert.equal("value", got)
  end)

  for _, name in ipairs { "luv", "cqueues", "luasocket" } do
    local ok, driver = pcall(require, "runnel.driver." .. name)
    local test = ok and it or pending
    test("is heard while " .. name .. "'s driver waits, and has the same driver", function()
      local previous = rn.driver(driver)
      local ch = rn.shared_chan()
      rn.thread(function(to, module)
        local rn = require "runnel" -- luacheck: ignore
        rn.sleep(5)
        to:put(package.loaded[module] ~= nil)
        rn.sleep(5)
        to:put "second"
      end, ch, "runnel.driver." .. name)
      assert.is_true(ch:take())
      assert.equal("second", ch:take())
      rn.run()
      rn.driver(previous)
    end)
  end

  it("has room for as many nested C calls as Lua allows", function()
    local depth, err = rn.thread(function()
      local depth = 0
      local function nest()
        depth = depth + 1
        if depth > 1000 then error "Lua has no limit" end
        ;("x"):gsub("x", nest)
      end
      pcall(nest)
      return depth
    end):take()
    assert.is_nil(err)
    assert.is_true(depth > 150 and depth < 250, depth)
  end)

  it("can be started by the hundred #ci", function()
    local go_on, results = rn.shared_chan(), {}
    for i = 1, 200 do results[i] = rn.thread(function(ch, n) return ch:take() == nil and n end, go_on, i) end
    go_on:close()
    for i = 1, 200 do assert.equal(i, results[i]:take()) end
  end)

  it("has the library's modules as bytecode, also in threads that it starts", function()
    local function missing(again) return require "runnel.internal.missing_bytecode" (again) end
    local dir <close> = setmetatable(process.directory(), { __close = function(dir) dir:remove() end })
    os.execute(("mkdir -p '%s/runnel/internal'"):format(dir.path))
    dir:write("runnel/internal/missing_bytecode.lua", [[
      return function(again)
        local rn = require "runnel.all"
        local _ = again or rn.threads(1, function(v) return v end):drain()
        local list = {}
        for name in pairs(package.loaded) do
          if name:find "^runnel" and not package.preload[name] then list[#list + 1] = name end
        end
        table.sort(list)
        if again then return table.concat(list, " ") end
        return table.concat(list, " ") .. ", " .. rn.thread(function()
          return require "runnel.internal.missing_bytecode" (true)
        end):take()
      end
    ]])
    local path = package.path
    package.path = dir.path .. "/?.lua;" .. path
    rn.thread(missing):take() -- the first one may be without
    local seen = rn.thread(missing):take()
    package.path = path
    assert.equal("runnel.internal.missing_bytecode, runnel.internal.missing_bytecode", seen)
  end)

  it("has other modules of the library where package.path leads to them", function()
    local dir <close> = setmetatable(process.directory(), { __close = function(dir) dir:remove() end })
    os.execute(("mkdir -p '%s/runnel/rn'"):format(dir.path))
    dir:write("runnel/rn/mix.lua", "return { mix = 'another one' }")
    local function mix() return type(require "runnel".mix) == "string" end
    for _ = 1, 2 do assert.is_false(rn.thread(mix):take()) end
    local path = package.path
    package.path = dir.path .. "/?.lua;" .. path
    assert.is_true(rn.thread(mix):take())
    package.path = path
    assert.is_false(rn.thread(mix):take())
    package.path = "/nowhere/?.lua"
    local ok, is_other = pcall(function() return rn.thread(mix):take() end)
    package.path = path
    assert.same({ true, false }, { ok, is_other })
  end)

  it("closes its result if it ends without one", function()
    local result = rn.thread(function()
      local rn = require "runnel" -- luacheck: ignore
      for _, entry in ipairs(rn.ps()) do rn.cancel(entry.result, "all are cancelled") end
      rn.sleep(1e6)
    end)
    assert.same({ nil, "all are cancelled" }, { result:take() })
  end)

  it("can be started by the thousand #slow #long", function()
    local go_on, results, n = rn.shared_chan(), {}, 1000
    for i = 1, n do results[i] = rn.thread(function(ch, number) return ch:take() == nil and number end, go_on, i) end
    go_on:close()
    for i = 1, n do assert.equal(i, results[i]:take()) end
  end)

  it("that the system refuses is an error at the caller's line, and others go on #slow #ci", function()
    local function limited(limit, code)
      local path = os.tmpname()
      local file <close> = assert(io.open(path, "w"))
      file:write(code)
      file:close()
      local output, errors, status = shell.run(("ulimit %s && lua %s"):format(limit, path))
      os.remove(path)
      assert.equal(0, status)
      -- On a busy machine some of the threads need more than a second to end, after their results.
      errors = errors:gsub("runnel: a thread is still running, and left: [^\n]*\n", "")
      -- The program itself may lack memory as well.
      assert.is_true(errors == "" or errors:find("not enough memory", 1, true) ~= nil, errors)
      return output
    end
    -- No memory for another stack; where stacks are small, there may be none for another object before.
    local without_memory = limited("-v 200000", [[
      local rn = require "runnel"
      local go_on, list, ok, t = rn.shared_chan(), {}
      repeat
        ok, t = pcall(function() return (rn.thread(function(ch) return ch:take() or 1 end, go_on)) end)
        list[#list + 1] = ok and t or nil
      until not ok or #list == 1000
      go_on:close()
      local good = #list > 1 and #list < 1000
      for i = 1, #list do
        local v, err = list[i]:take()
        good = good and (v == 1 or err:find "memory" and true or err)
      end
      print(good)
      print(t)
    ]])
    local refused = "^true\n[^\n]*:4: thread: cannot start a thread: [^\n]+\n$"
    if string.packsize "T" > 4 or not without_memory:find "not enough memory" then
      assert.matches(refused, without_memory)
    end
    -- No descriptor for the thread's state.
    assert.equal("nil\tcannot make a file descriptor: Too many open files\n1\n", limited("-n 30", [[
      local rn = require "runnel"
      local go_on, list = rn.shared_chan(), {}
      local files, file = {}
      list[1] = rn.thread(function(ch) ch:put "ready" return ch:take() end, go_on)
      go_on:take()
      repeat -- keeps all of them from the collector, which would close them
        file = io.open "/dev/null"
        files[#files + 1] = file
      until not file
      print(rn.thread(function() end):take())
      go_on:put(1)
      print(list[1]:take())
    ]]))
    -- No descriptors for the loop of luv, which would crash.
    local few = limited("-n 64", [[
      local rn = require "runnel"
      local files, file, ok, err = {}
      repeat
        file = io.open "/dev/null"
        files[#files + 1] = file
      until not file
      for n = 1, 9 do
        table.remove(files):close()
        if n < 4 then goto continue end -- too few for the library's files
        ok, err = pcall(function() return rn.thread(function() return require("runnel.uv") and 1 end) end)
        if ok then ok, err = err:take() end
        assert(not ok, err)
        ::continue::
      end
      print(err)
    ]])
    assert.matches("the library luv is needed here %b(): Too many open files", few)
    -- No descriptors for the threads of a pool: an error of the pool, and none of its threads.
    assert.matches("^false\t[^\n]*threads: cannot make a file descriptor: Too many open files\n$", limited("-n 20", [[
      local rn = require "runnel"
      print(pcall(rn.threads, 30, function(v) return v end))
      rn.run()
    ]]))
    -- No memory for a large value.
    assert.equal("true\tput: value: not enough memory\n1\t60000000\n", limited("-v 180000", [[
      local rn = require "runnel"
      local ch, large = rn.shared_chan(2), ("x"):rep(60000000)
      ch:put(large)
      local ok, err = pcall(ch.put, ch, large)
      print(not ok, err)
      large = nil
      collectgarbage()
      print(#ch, #ch:take())
    ]]))
  end)

  it("notices a deadlock in the thread, and one that is left when the thread has ended", function()
    local _, err = rn.thread(function() require "runnel".chan():take() end):take()
    assert.matches("deadlock: alts on .*take on chan", err)
    local ch = rn.shared_chan():name "dropped"
    rn.thread(function(dropped) assert(not dropped:closed()) end, ch)
    raises("^deadlock: take on chan: dropped would wait for ever", function() ch:take() end)
    raises("^deadlock: put on chan: dropped would wait for ever", function() ch:put(1) end)
    assert.equal("chan: dropped", tostring(ch))
  end)
end)

describe("a deadlock among threads", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Takes from one channel, and then puts on another.
  local function pass(from, to)
    local v = from:take()
    if v then to:put(v) end
    return v
  end

  it("that wait for each other is an error in the main program, which may end it", function()
    local a, b = rn.shared_chan():name "a", rn.shared_chan():name "b"
    local one, two = rn.thread(pass, a, b), rn.thread(pass, b, a)
    local ok, err = pcall(one.take, one)
    assert.is_false(ok)
    assert.matches("^deadlock: take on chan: thread [^\n]* would wait for ever: [^\n]*; the threads that could "
      .. "complete it wait for ever, too\n", err)
    assert.matches("\n  #%d+ %(thread [^\n]*thread_spec.lua:%d+%): waiting: take on chan: a at ", err)
    assert.matches("\n  #%d+ %(thread [^\n]*thread_spec.lua:%d+%): waiting: take on chan: b at ", err)
    a:close()
    b:close()
    assert.is_nil(one:take())
    assert.is_nil(two:take())
  end)

  it("is noticed although timeouts are pending on which nothing waits", function()
    local ch, late = rn.shared_chan(), rn.timeout(3000)
    local waits = rn.thread(function(from)
      require "runnel".timeout(3000)
      return from:take()
    end, ch)
    raises("^deadlock: take on chan: thread", function() waits:take() end)
    assert.is_false(late:closed())
    ch:close()
    assert.is_nil(waits:take())
  end)

  it("names channels that only the threads have", function()
    local go_on = rn.shared_chan():name "known"
    local outer = rn.thread(function(known)
      local rn = require "runnel" -- luacheck: ignore
      local named, unnamed = rn.shared_chan():name "inner", rn.shared_chan()
      rn.thread(function(ch) ch:take() end, named)
      rn.alts { { unnamed, 1 }, named, known }
    end, go_on)
    local _, err = pcall(outer.take, outer)
    assert.matches("\n  #%d+ %(thread [^\n]*thread_spec.lua:%d+%): waiting: take on chan: known, [^\n]* at ", err)
    assert.matches("waiting: [^\n]*put on an unnamed channel", err)
    assert.matches("waiting: [^\n]*take on chan: inner", err)
    assert.matches("waiting: [^\n]*take on chan: reports of thread [^\n]*thread_spec.lua:%d+", err)
    go_on:close()
    assert.is_nil((outer:take()))
    rn.run()
  end)

  it("names some of the many channels that a thread waits on", function()
    local chans = {}
    for i = 1, 6 do chans[i] = rn.shared_chan():name("part " .. i) end
    local waits = rn.thread(function(...) require "runnel".alts { ... } end, table.unpack(chans))
    local _, err = pcall(waits.take, waits)
    assert.matches("waiting: take on chan: [^\n]*, take on chan: part %d, take on chan: [^\n]* and %d more at ", err)
    for _, ch in ipairs(chans) do ch:close() end
    waits:take()
  end)

  it("is noticed whichever of them the main program waits for, and lets rn.run return", function()
    local a, b = rn.shared_chan(), rn.shared_chan()
    rn.thread(pass, a, b)
    raises("^deadlock: put on chan: #%d+ would wait for ever", function() b:put(1) end)
    raises("^deadlock: alts on chan: #%d+, chan: #%d+ would wait for ever", function() rn.alts { b, rn.chan() } end)
    rn.run()
    assert.equal(true, a:put(2))
    assert.equal(2, b:take())
  end)

  it("is noticed through threads of threads, and idle threads of a pool", function()
    local pool <close> = rn.threads(2, function(v) return v end)
    assert.equal(1, pool(1))
    local ch = rn.shared_chan()
    local waits = rn.thread(function(from)
      return require "runnel".thread(function(inner) return inner:take() end, from):take()
    end, ch)
    raises("^deadlock: take on chan: thread", function() waits:take() end)
    ch:close()
    assert.is_nil(waits:take())
  end)

  it("is none while one of them computes, sleeps or has the channel in a value on its way #ci", function()
    local function late(kind, ch)
      if kind == "sleeps" then require "runnel".sleep(300) end
      local till = os.clock() + 0.3 -- of all threads
      while kind == "computes" and os.clock() < till do local _ = kind .. "" end
      ch:put(kind)
    end
    for _, kind in ipairs { "sleeps", "computes" } do
      local ch = rn.shared_chan()
      rn.thread(late, kind, ch)
      assert.equal(kind, ch:take())
    end
    local ch, box = rn.shared_chan(), rn.shared_chan(1)
    box:put(ch)
    local taken = rn.go(function() return ch:take() end)
    rn.thread(function(from)
      require "runnel".sleep(150)
      from:take():put "from a box"
    end, box)
    box = nil -- luacheck: ignore
    assert.equal("from a box", taken:take())
  end)

  it("is none for threads that are busy with each other #heavy", function()
    local ping, pong, n = rn.shared_chan(), rn.shared_chan(), 5000
    local function player(from, to, count)
      for i = 1, count do
        to:put(from:take())
        if i % 10 == 0 then require "runnel".sleep(1) end
      end
      return count
    end
    local one, two = rn.thread(player, ping, pong, n), rn.thread(player, pong, ping, n)
    rn.go(ping.put, ping, "ball")
    assert.equal(n, one:take())
    assert.equal("ball", ping:take())
    assert.equal(n, two:take())
  end)
end)

-- What ps says about the threads of this test.
local function threads()
  local list = {}
  for _, entry in ipairs(stage.entries()) do
    if entry.thread then list[#list + 1] = entry end
  end
  return list
end

describe("a thread in rn.ps", function()
  before_each(stage.open)
  after_each(stage.close)

  it("has what it calls as its name, what it does and for how long, and where it was started", function()
    local dir <close> = setmetatable(process.directory(), { __close = function(dir) dir:remove() end })
    dir:write("waiter.lua", "return function(ch) require 'runnel'.sleep(20) return ch:take() end")
    local path, go_on = package.path, rn.shared_chan():name "go on"
    package.path = dir.path .. "/?.lua;" .. path
    local result = rn.thread("waiter", go_on)
    package.path = path
    local entry = threads()[1]
    assert.equal("thread waiter", entry.name)
    assert.matches("^[^\n]*thread_spec.lua:%d+$", entry.where)
    local function takes()
      entry = threads()[1]
      return #entry.waits > 0 and entry.state == "waiting"
    end
    repeat rn.sleep(1) until takes() and takes() -- the first time, the state may be that of its sleep
    assert.same({ { operation = "take", channel = go_on } }, entry.waits)
    local waited, deadline = entry.waited, rn.now() + 30000
    repeat rn.sleep(5) until threads()[1].waited > waited + 15 or rn.now() > deadline
    assert.is_true(rn.now() <= deadline)
    go_on:put(1)
    assert.equal(1, result:take())
    rn.run()
    assert.same({}, threads())
  end)

  it("starts", function()
    local seen = {}
    for _ = 1, 50 do -- on a busy machine it may have begun when this one goes on
      local result = rn.thread(function() return true end)
      local entry = threads()[1]
      if entry then seen[entry.state] = true end
      result:take()
      rn.run()
    end
    assert.is_true(seen.starting)
  end)

  it("computes", function()
    local started, stop <close> = rn.shared_chan(1), rn.shared_chan(1)
    local result = rn.thread(function(first, last)
      first:put(true) -- does not wait
      coroutine.wrap(function() repeat until last:poll() or last:stats().closed end)() -- lets no others run
    end, started, stop)
    started:take()
    rn.sleep(5)
    local entry = threads()[1]
    assert.equal("computing", entry.state)
    assert.is_true(entry.waited >= 4)
    assert.same({}, entry.waits)
    stop:put(true)
    result:take()
    rn.run()
  end)

  it("waits on some channels at once, of which only those are listed that are known here", function()
    local a, b, c = rn.shared_chan(), rn.shared_chan(), rn.shared_chan()
    local result = rn.thread(function(x, y, z)
      local rn = require "runnel" -- luacheck: ignore
      for _ = 1, 2 do rn.go(function() rn.alts { y, { x, 1 }, rn.shared_chan(), rn.chan() } end) end
      z:take()
    end, a, b, c)
    local waits
    repeat
      rn.sleep(1)
      waits = threads()[1].waits
    until #waits > 2
    assert.same({
      { operation = "put", channel = a }, { operation = "take", channel = b }, { operation = "take", channel = c },
    }, waits)
    c:close()
    result:take()
    rn.run()
  end)

  it("ends at its next wait when it is cancelled", function()
    local ch = rn.shared_chan()
    local result = rn.thread(function(from) from:take() end, ch)
    assert.is_true(rn.cancel(threads()[1].result))
    assert.same({ nil, "cancelled" }, { result:take() })
    rn.run()
    assert.same({}, threads())
  end)

  it("is in the report of a deadlock", function()
    local pool <close> = rn.threads(2, function(v) return v end)
    assert.equal(1, pool(1))
    repeat
      rn.sleep(1)
      local first, second = threads()[1], threads()[2]
    until #first.waits > 0 and #second.waits > 0 and first.state == "waiting" and second.state == "waiting"
    local _, err = pcall(function() rn.chan():take() end)
    assert.matches("\n  #%d+ %(threads [^\n]*thread_spec.lua:%d+%): waiting: take on chan: jobs of threads [^\n]*"
      .. "thread_spec.lua:%d+, take on chan: cancelled calls of threads [^\n]* at [^\n]*thread_spec.lua:%d+", err)
  end)
end)

describe("rn.threads", function()
  before_each(stage.open)
  after_each(stage.close)

  it("calls a function in threads, for pmap: in order, n at a time", function()
    local pool <close> = rn.threads(2, function(v)
      require "runnel".sleep(v % 3)
      return { v, coroutine.running() and true }
    end, { n = 2 })
    local next_one = 0
    for pair in rn.pmap(4, pool, rn.to_chan { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }) do
      next_one = next_one + 1
      assert.same({ next_one, true }, pair)
    end
    assert.equal(10, next_one)
    assert.equal(7, pool(7)[1])
  end)

  it("runs the jobs of a pipeline, two at once of them, with all their results", function()
    local pool <close> = rn.threads(2, function(v, result)
      local rn = require "runnel" -- luacheck: ignore
      rn.go(function()
        for i = 1, 3 do result:put(v * 10 + i) end
        result:close()
      end)
    end)
    local a, b = rn.chan(), rn.chan(100)
    rn.pipeline_async(3, a, pool, rn.to_chan { 1, 2, 3, 4 })
    rn.pipeline_async_unordered(2, b, pool, rn.to_chan { 5, 6 })
    assert.same({ 11, 12, 13, 21, 22, 23, 31, 32, 33, 41, 42, 43 }, rn.into({}, a):take())
    local unordered = rn.into({}, b):take()
    table.sort(unordered)
    assert.same({ 51, 52, 53, 61, 62, 63 }, unordered)
  end)

  it("passes errors on, and returns nothing for nothing", function()
    local pool <close> = rn.threads(1, function(v, result)
      if result then return result:close "closed with this" end
      if v == 2 then error("two", 0) end
      if v ~= 3 then return v end
    end)
    local results = rn.pmap(2, pool, rn.to_chan { 1, 2, 3, 4 }, { ex_handler = function(err) return err end })
    assert.same({ 1, "two", 4 }, rn.into({}, results):take())
    local errors, to = {}, rn.chan(10)
    rn.pipeline_async(2, to, pool, rn.to_chan { 1 }, true, { ex_handler = function(err) errors[1] = err end })
    assert.same({}, rn.into({}, to):take())
    assert.same({ "closed with this" }, errors)
    raises("^threads: value.f: a function cannot be sent", function() pool { f = print } end)
    assert.same({ n = 0 }, table.pack(pool(5, rn.chan(1))))
  end)

  it("returns nil and an error as its function does, which is a failure of the job", function()
    local function job(v)
      if v == 2 then return nil, { code = 7 } end
      if v == 3 then return nil, setmetatable({}, { __tostring = function() return "an object" end }) end
      return v
    end
    local pool <close> = rn.threads(1, job)
    for _, f in ipairs { job, pool } do
      assert.same({ n = 2, nil, { code = 7 } }, table.pack(f(2)))
      local errors = {}
      local results = rn.pmap(2, f, { 1, 2, 4 }, { tries = 2, backoff = 0, ex_handler = function(err, v)
        errors[v] = err
        return -v
      end })
      assert.same({ 1, -2, 4 }, results:list())
      assert.same({ [2] = { code = 7 } }, errors)
      local list, err = rn.pmap(1, f, { 1, 2 }):list()
      assert.same({ nil, { code = 7 } }, { list, err })
      assert.is_false(pcall(rn.retry, f, { tries = 2, backoff = 0 }, 2))
    end
    assert.equal("an object", select(2, pool(3)))
  end)

  it("cancels a job whose caller is cancelled, and goes on with others", function()
    local pool <close> = rn.threads(1, function(v)
      if v == "long" then require "runnel".sleep(1e6) end
      return v
    end)
    assert.equal("short", pool "short")
    local results = rn.pmap(1, pool, rn.to_chan { "long", "long" }, {
      timeout = 100, ex_handler = function(err) return rn.is_timeout(err) and "late" end,
    })
    assert.same({ "late", "late" }, rn.into({}, results):take())
    assert.equal("after", pool "after")
  end)

  describe("limits the time of a job from when a thread begins it, not while it waits in the queue:", function()
    local flow = require "runnel.flow"
    -- A job returns at once, so it is late only if the time in the queue counts.
    local LIMIT = math.ceil(300 * patience.factor())

    local function instead(err) return rn.is_timeout(err) and "late" or err end

    -- Each gets a pool and calls it with three values; returns a channel of the results.
    local function results_of_flow(pool, options)
      local got = rn.chan(10)
      options[1], options.timeout, options.n = pool, LIMIT, 3
      flow("limited", {
        values = { from = { 1, 2, 3 } }, job = options,
        failed = function(e) got:put(instead(e.error)) end, got = got, "values > job > got", "job.error > failed",
      }):start()
      return got
    end
    local FORMS = {
      { "for pmap", function(pool)
        return rn.pmap(3, pool, { 1, 2, 3 }, { timeout = LIMIT, ex_handler = instead })
      end },
      { "for pmap_unordered with tries", function(pool)
        return rn.pmap_unordered(3, pool, { 1, 2, 3 }, { timeout = LIMIT, tries = 2, ex_handler = instead })
      end },
      { "for a stage of a flow", function(pool) return results_of_flow(pool, {}) end },
      { "for a stage with flush", function(pool) return results_of_flow(pool, { flush = function() end }) end },
    }
    for _, form in ipairs(FORMS) do
      it(form[1], function()
        local gate = rn.shared_chan()
        local pool <close> = rn.threads(1, function(v)
          if type(v) ~= "number" then return v:take() end
          return v
        end)
        local first = rn.go(pool, gate) -- the only thread waits in it
        local got = form[2](pool)
        rn.sleep(LIMIT + 100)
        gate:close()
        first:take()
        local sum = 0
        for _ = 1, 3 do
          local value = got:take()
          assert.is_number(value)
          sum = sum + value
        end
        assert.equal(6, sum)
      end)
    end

    it("a job that waits too long in the thread is cancelled there", function()
      local pool <close> = rn.threads(1, function(v)
        if v == 2 then require "runnel".sleep(1e6) end
        return v
      end)
      local results = rn.pmap(3, pool, { 1, 2, 3 }, { timeout = LIMIT, ex_handler = instead })
      assert.same({ 1, "late", 3 }, { results:take(), results:take(), results:take() })
    end)
  end)

  it("may be used by two pipelines and by calls at the same time", function()
    local pool <close> = rn.threads(2, function(v, result)
      if not result then return -v end
      result:put(v)
      result:put(v + 0.5)
      result:close()
    end)
    local first, second, list, expected, halves = rn.chan(), rn.chan(), {}, {}, {}
    for i = 1, 100 do
      list[i], expected[i] = i, -i
      halves[2 * i - 1], halves[2 * i] = i, i + 0.5
    end
    rn.pipeline_async(3, first, pool, rn.to_chan(list))
    rn.pipeline_async(8, second, pool, rn.to_chan(list))
    local third = rn.into({}, rn.pmap(5, pool, list))
    first, second = rn.into({}, first), rn.into({}, second)
    assert.equal(-1000, pool(1000))
    assert.same(halves, first:take())
    assert.same(halves, second:take())
    assert.same(expected, third:take())
  end)

  -- Each job is a list: a name, and channels to use. "busy" computes until it gets a value.
  local function burst_job(job)
    local name, ch = job[1], job[2]
    if name == "busy" then
      local rn = require "runnel" -- luacheck: ignore
      local stop = rn.now() + 5000
      repeat
        if ch:poll() then return "busy" end
      until rn.now() > stop
      return "busy for too long"
    elseif name == "slow" or name == "short" then
      local rn = require "runnel" -- luacheck: ignore
      local stop = rn.now() + (name == "slow" and 30 or 0.1)
      repeat until rn.now() > stop
    elseif name == "waits" then
      ch:take()
    elseif name == "raises" then
      error({ raised = true }, 0)
    elseif name == "cannot be sent" then
      return { f = print }
    end
    return name
  end

  it("gives the answers of short jobs although the next job takes long", function()
    for k = 1, 2 do
      local pool <close> = rn.threads(k, burst_job)
      for _ = 1, 5 do
        local ch, jobs = rn.shared_chan(1), {}
        for i = 1, 40 do jobs[i] = { i } end
        table.insert(jobs, 31, { "busy", ch })
        local before = k == 1 and 30 or 40 -- a second thread can do all the others
        local results = rn.pmap_unordered(41, pool, jobs)
        for _ = 1, before do assert.is_number((results:take())) end
        ch:put(true)
        assert.equal("busy", (results:take()))
        for _ = before + 1, 40 do assert.is_number((results:take())) end
        assert.is_nil((results:take()))
      end
    end
  end)

  it("gives the answer of a short job between two that take long", function()
    local pool <close> = rn.threads(1, burst_job)
    local sleeper = rn.go(rn.sleep, 1e6) -- else the look for a deadlock would find the answer
    for _ = 1, 5 do
      local ch = rn.shared_chan(1)
      local results = rn.pmap(4, pool, { { "slow" }, { "short" }, { "busy", ch }, { "last" } })
      assert.equal("slow", (results:take()))
      assert.equal("short", (results:take()))
      ch:put(true)
      assert.same({ "busy", "last" }, rn.into({}, results):take())
    end
    rn.cancel(sleeper)
  end)

  it("gives the answer of a short job although the next job waits", function()
    local pool <close> = rn.threads(1, burst_job)
    local sleeper = rn.go(rn.sleep, 1e6) -- else the look for a deadlock would find the answer
    for _ = 1, 5 do
      local ch, jobs = rn.shared_chan(), {}
      for i = 1, 10 do jobs[i] = { i } end
      jobs[6] = { "waits", ch }
      local results = rn.pmap(10, pool, jobs)
      for i = 1, 5 do assert.equal(i, (results:take())) end
      ch:put(true)
      assert.equal("waits", (results:take()))
      for i = 7, 10 do assert.equal(i, (results:take())) end
    end
    rn.cancel(sleeper)
  end)

  it("fails only the calls among many whose jobs raise or return what cannot be sent", function()
    local pool <close> = rn.threads(2, burst_job)
    local jobs, expected, errors = {}, {}, {}
    for i = 1, 300 do
      local kind = i % 7 == 0 and "raises" or i % 11 == 0 and "cannot be sent" or i
      jobs[i], expected[i] = { kind }, kind
    end
    local results = rn.pmap(20, pool, jobs, { ex_handler = function(err, job)
      if job[1] == "raises" then assert.same({ raised = true }, err)
      else assert.equal("threads: result.f: a function cannot be sent", err) end
      errors[#errors + 1] = job
      return job[1]
    end })
    assert.same(expected, rn.into({}, results):take())
    assert.equal(66, #errors)
  end)

  it("cancels calls among many short ones, and answers the others", function()
    local pool <close> = rn.threads(2, burst_job)
    for _ = 1, 10 do
      local calls = {}
      for i = 1, 100 do calls[i] = rn.go(pool, { i }) end
      rn.yield()
      for i = 1, 100, 3 do rn.cancel(calls[i], "not wanted") end
      for i = 1, 100 do
        local v, err = calls[i]:take()
        if i % 3 ~= 1 then assert.equal(i, v)
        elseif v ~= i then assert.equal("not wanted", err) end
      end
    end
  end)

  it("takes thousands of calls at once", function()
    local pool <close> = rn.threads(2, function(v) return -v end)
    local calls = {}
    for i = 1, 5000 do calls[i] = rn.go(pool, i) end
    for i = 1, 5000 do assert.equal(-i, (calls[i]:take())) end
  end)

  it("does not start the job of a call that is cancelled while it waits for a thread", function()
    local started, go_on = rn.shared_chan(20), rn.shared_chan()
    local pool <close> = rn.threads(1, function(job)
      job.started:put(job.v)
      job.go_on:take()
      return job.v
    end)
    local calls = {}
    for i = 1, 10 do calls[i] = rn.go(pool, { v = i, started = started, go_on = go_on }) end
    assert.equal(1, started:take())
    for i = 2, 9 do rn.cancel(calls[i], "not wanted") end
    rn.yield() -- the cancelled calls end
    go_on:close()
    assert.equal(1, calls[1]:take())
    assert.equal(10, calls[10]:take())
    assert.same({ nil, "not wanted" }, { calls[5]:take() })
    assert.equal(10, started:take())
    assert.is_nil(started:poll())
  end)

  it("goes on after a cancelled job that did not wait, and one that went on", function()
    local pool <close> = rn.threads(1, function(v)
      local rn = require "runnel" -- luacheck: ignore
      if v.kind == "compute" then
        v.ch:put(true)
        local stop = rn.now() + 30
        repeat until rn.now() > stop
      elseif v.kind == "stubborn" then
        v.ch:put(true)
        pcall(rn.sleep, 1e6)
        rn.sleep(5)
      end
      return v.kind
    end)
    for _, kind in ipairs { "compute", "stubborn" } do
      local ch = rn.shared_chan()
      local call = rn.go(pool, { kind = kind, ch = ch })
      ch:take()
      rn.cancel(call)
      for _ = 1, 3 do assert.equal("after", pool { kind = "after" }) end
      assert.is_nil((call:take()))
    end
  end)

  -- Calls the pool, and fails instead of waiting for long.
  local function answer_of(pool, v)
    return rn.scope(function() return pool(v) end, { timeout = 20000 })
  end

  it("answers a call that begins in the turn in which the last one was cancelled", function()
    local pool <close> = rn.threads(2, function(v)
      if v == "long" then require "runnel".sleep(1e6) end
      return v
    end)
    for _ = 1, 5 do
      rn.scope(function(s)
        s:go(pool, "long")
        rn.yield()
        s:cancel()
      end)
      assert.equal("after a scope", pool "after a scope")
      local call = rn.go(pool, "long")
      rn.sleep(2)
      rn.cancel(call)
      local log = {}
      for i = 1, 3 do rn.go(function() log[i] = pool(i) end) end
      assert.equal(4, pool(4))
      rn.run()
      assert.same({ 1, 2, 3 }, log)
      local results = rn.pmap(1, pool, { "long", "short" }, {
        timeout = 1, ex_handler = function() return pool "late" end,
      })
      assert.equal("late", (results:take()))
      results:close()
      assert.equal("after pmap", pool "after pmap")
    end
    assert.same({}, stage.heard())
  end)

  it("gives the answers of short jobs of calls that begin in the turn in which the last one was answered", function()
    local pool <close> = rn.threads(1, function(job, result)
      local rn = require "runnel" -- luacheck: ignore
      if job.busy then
        local stop = rn.now() + 2 * job.limit
        repeat until job.busy:poll() or rn.now() > stop
      end
      if not result then return job.v end
      result:put(job.v)
      result:close()
    end)
    local sleeper = rn.go(rn.sleep, 1e6) -- else the look for a deadlock would find the answers
    local limit = 5000 * patience.factor()
    for _ = 1, 10 do
      local busy, first, last = rn.shared_chan(1), rn.chan(30), rn.chan(1)
      for i = 1, 3 do rn.go(pool, { v = i }) end
      rn.go(function()
        pool { v = 4 }
        for i = 1, 30 do
          local to = rn.chan(1)
          pool({ v = i }, to)
          rn.go(function() first:put(to:take()) end)
        end
        pool({ v = "busy", busy = busy, limit = limit }, last)
      end)
      rn.scope(function()
        for _ = 1, 30 do assert.is_number((first:take())) end
      end, { timeout = limit })
      busy:put(true)
      assert.equal("busy", last:take())
    end
    rn.cancel(sleeper)
  end)

  it("cannot be called in a simulation, and goes on outside", function()
    local pool <close> = rn.threads(1, function(v, result) return result and result:close() or v end)
    local where = "threads: a simulation, whose time is virtual, cannot call a pool of threads: "
    sim.run(function()
      raises("^" .. where, function() pool(1) end)
      raises("^" .. where, function() pool(1, rn.chan(1)) end)
      local _, err = rn.into({}, rn.pmap(1, pool, { 1 })):take()
      assert.matches("^" .. where, err)
    end)
    assert.equal(2, pool(2))
    rn.yield()
    assert.equal(1, #stage.others()) -- the thread
  end)

  it("answers later calls however the earlier ones were cancelled #ci", function()
    local pool <close> = rn.threads(2, function(job)
      local rn = require "runnel" -- luacheck: ignore
      if job.kind == "sleep" then rn.sleep(job.ms) end
      if job.kind == "compute" then
        local stop = rn.now() + job.ms
        repeat until rn.now() > stop
      end
      if job.kind == "raise" then error(job.v, 0) end
      return job.v
    end, { n = 3 })
    local seed = os.time()
    math.randomseed(seed)
    local random, wrong = math.random, {}
    local kinds = { "short", "short", "short", "sleep", "compute", "raise" }
    local function job() return { kind = kinds[random(#kinds)], ms = random(0, 20) / 10, v = random(1000) } end
    local function call()
      local mine = job()
      local ok, v = pcall(pool, mine)
      if v == "by this spec" or rn.is_timeout(v) then error(v, 0) end
      if ok ~= (mine.kind ~= "raise") or v ~= mine.v then wrong[#wrong + 1] = ("%s: %s"):format(mine.kind, v) end
    end
    local function wait() if random(2) == 1 then rn.yield() else rn.sleep(random(0, 20) / 10) end end
    local ways = {
      function()
        pcall(rn.scope, function(s)
          for _ = 1, random(8) do s:go(call) end
          wait()
          if random(2) == 1 then s:cancel "by this spec" end
        end, { timeout = random(0, 30) / 10 })
      end,
      function()
        local calls = {}
        for i = 1, random(8) do calls[i] = rn.go(call) end
        wait()
        for i = 1, #calls do
          if random(2) == 1 then rn.cancel(calls[i], "by this spec") end
        end
      end,
      function()
        local jobs = {}
        for i = 1, random(8) do jobs[i] = job() end
        local results = rn.pmap(random(4), pool, jobs, { timeout = random(0, 30) / 10, ex_handler = function() end })
        for _ = 1, random(0, 4) do results:take() end
        results:close()
      end,
    }
    for round = 1, long.times(150, 5000) do
      local own = {}
      for i = 1, random(3) do own[i] = rn.go(ways[random(#ways)]) end
      if random(2) == 1 then
        for _, way in ipairs(own) do way:take() end
      end
      assert.equal(round, answer_of(pool, { kind = kinds[random(4)], ms = 1, v = round }), "seed " .. seed)
    end
    assert.same({}, wrong, "seed " .. seed)
    for _, heard in ipairs(stage.heard()) do assert.is_number(heard.err) end
  end)

  it("replaces a go block that a job has ended", function()
    local pool <close> = rn.threads(1, function(v)
      if v == 1 then coroutine.yield() end
      if v == 2 then coroutine.close(coroutine.running()) end
      return v
    end)
    assert.matches("^a go block called coroutine.yield", select(2, pcall(pool, 1)))
    -- Before Lua 5.5 that is an error, and the go block lives.
    local why = select(2, pcall(pool, 2))
    assert.is_truthy(why:find "cannot close a running coroutine" or why:find "go block was closed or resumed", why)
    assert.equal(3, pool(3))
    assert.same({}, stage.heard())
  end)

  it("gives errors of any kind", function()
    local pool <close> = rn.threads(1, function(v)
      if v == "nil" then error() end
      if v == "table" then error { code = 7 } end
      if v == "object" then error(setmetatable({}, { __tostring = function() return "an object" end })) end
      if v == "function" then return { list = { print } } end
    end)
    local function err_of(v) return (select(2, pcall(pool, v))) end
    -- Since Lua 5.5 `error()` raises a text.
    local of_nil = _VERSION == "Lua 5.5" and "<no error object>" or "a job of a pool of threads has raised nil"
    assert.equal(of_nil, err_of "nil")
    assert.same({ code = 7 }, err_of "table")
    assert.equal("an object", err_of "object")
    assert.equal("threads: result.list[1]: a function cannot be sent", err_of "function")
  end)

  it("passes on what a job puts on its channel before it has ended, and stops it when the channel is closed", function()
    local pool <close> = rn.threads(1, function(v, result)
      if v == 0 then return end -- leaves the channel open, which somebody else closes
      require "runnel".go(function()
        for i = 1, v do
          if not result:put(i) then return end
          require "runnel".sleep(1)
        end
        if v == 3 then result:close "after three" else result:close() end
      end)
    end)
    for n, err in pairs { [1] = false, [2] = false, [3] = "after three", [7] = false } do
      local to = rn.chan()
      pool(n, to)
      for i = 1, n do assert.equal(i, to:take()) end
      assert.same({ n = err and 2 or 1, nil, err or nil }, table.pack(to:take()))
    end
    local to = rn.chan()
    pool(1e9, to)
    assert.equal(1, to:take())
    rn.sleep(10) -- the next one waits
    to:close()
    assert.equal(1, select(2, pcall(function()
      local last = rn.chan(1)
      pool(1, last)
      return last:take()
    end)))
  end)

  it("reports an error that a job raises after it has closed its channel", function()
    local pool <close> = rn.threads(1, function(v, result)
      result:put(v)
      result:close()
      error "too late"
    end)
    local to = rn.chan(1)
    pool("value", to)
    assert.equal("value", to:take())
    assert.is_nil(to:take())
    pool:drain()
    rn.run()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("too late", heard[1].err)
    assert.matches("thread_spec.lua", heard[1].trace)
  end)

  it("fails the calls of a thread that ends, and later ones; other threads do what is left", function()
    local pool <close> = rn.threads(2, function(job)
      local never = require "runnel".chan()
      if job.go_on then
        job.go_on:take()
        pcall(never.take, never) -- a deadlock, which the job does not accept
        never:take()
      end
      require "runnel".sleep(5)
      return job.v
    end)
    local calls, go_on = {}, rn.shared_chan()
    for i, job in ipairs { { go_on = go_on }, { v = "a" }, { v = "b" }, { v = "c" } } do calls[i] = rn.go(pool, job) end
    rn.yield() -- all are in the queue
    go_on:close()
    local _, err = calls[1]:take()
    assert.matches("^threads: the thread of this call has ended: deadlock", err)
    assert.same({ "a", "b", "c" }, { (calls[2]:take()), (calls[3]:take()), (calls[4]:take()) })
    raises("^threads: a thread of the pool has ended: deadlock", function() pool { v = "d" } end)
    assert.same({}, stage.heard())
  end)

  it("fails a job that would wait for ever, and goes on with others", function()
    local pool <close> = rn.threads(1, function(v, result)
      if v ~= "waits" then
        if not result then return v end
        result:put(v)
        return result:close()
      end
      require "runnel".chan():name("never"):take()
    end)
    local calls = {}
    for i, v in ipairs { "waits", "a", "waits", "b" } do calls[i] = rn.go(pool, v) end
    for i = 1, 3, 2 do
      local _, err = calls[i]:take()
      assert.matches("^deadlock: the job would wait for ever\nparked go blocks:\n.*take on chan: never", err)
    end
    assert.same({ "a", "b" }, { (calls[2]:take()), (calls[4]:take()) })
    local first, second = rn.chan(1), rn.chan(1)
    pool("waits", first)
    pool("c", second)
    local _, err = first:take()
    assert.matches("^deadlock: the job would wait for ever", err)
    assert.equal("c", second:take())
    assert.same({}, stage.heard())
  end)

  it("that is collected ends its threads", function()
    local ended = rn.shared_chan()
    local pool = rn.threads(1, function(ch)
      setmetatable({}, { __gc = function() ch:close() end }) -- when the state is closed
    end)
    pool(ended)
    pool = nil -- luacheck: ignore
    for _ = 1, 4 do
      collectgarbage()
      rn.yield()
    end
    assert.is_nil(ended:take())
  end)

  it("that waits for jobs neither keeps rn.run from returning nor hides a deadlock", function()
    local pool <close> = rn.threads(2, function(v) return v end)
    rn.run()
    raises("^deadlock: take on chan: #%d+ would wait for ever", function() rn.chan():take() end)
    assert.equal(1, pool(1))
  end)

  it("leaves no go block behind when it was closed", function()
    for _ = 1, 20 do
      local pool = rn.threads(2, function(v) return v end)
      assert.equal(1, pool(1))
      pool:drain()
      rn.run()
      assert.same({}, rn.ps())
    end
  end)

  it("closes when its jobs are done", function()
    local pool = rn.threads(2, function(v) return v end)
    assert.equal(1, pool(1))
    pool:drain()
    pool:drain()
    raises("^threads: the pool is closed", function() pool(2) end)
  end)

  it("drops its jobs, or cancels them, if an error ends the block that has it", function()
    local told = rn.shared_chan(3)
    for _, what in ipairs { "waits", "computes" } do
      for _, is_cancelled in ipairs { false, true } do
        local began, results = rn.chan(1), nil
        local block = rn.go(function()
          local pool <close> = rn.threads(1, function(job)
            job.told:put(job.what)
            if job.what == "waits" then require "runnel".sleep(1e6) end
            repeat until false
          end)
          results = rn.pmap(2, pool, { { what = what, told = told }, { what = what, told = told } })
          told:take()
          began:put(true)
          if is_cancelled then rn.chan():take() end
          error("the end", 0)
        end)
        began:take()
        if is_cancelled then rn.cancel(block, "the end") end
        assert.same({ nil, "the end" }, { block:take() })
        assert.matches("^threads: the thread of this call has ended: the pool was drained", select(2, results:take()))
        assert.is_nil(told:poll()) -- the second job has not begun
      end
    end
  end)

  it("is drained in any time if it has no jobs, and not in time if it has some", function()
    for _ = 1, 10 do assert.is_true(rn.threads(2, function(v) return v end):drain(0)) end
    local told = rn.shared_chan(2)
    local function job(says, result)
      if result then result:put "first" end
      says:put(true)
      require "runnel".sleep(1e6)
    end
    for what, call in pairs {
      ["a call"] = function(pool) rn.go(function() pcall(pool, told) end) end,
      ["a call that has had a result"] = function(pool)
        local to = rn.chan(1)
        pool(told, to)
        assert.equal("first", to:take())
      end,
    } do
      local pool = rn.threads(2, job)
      call(pool)
      told:take()
      local drained, err = pool:drain(0)
      assert.is_false(drained, what)
      assert.is_true(rn.is_timeout(err))
    end
    -- The caller of this one has gone.
    local pool = rn.threads(1, job)
    local caller = rn.go(pool, told)
    told:take()
    rn.cancel(caller)
    rn.yield()
    assert.is_true(pool:drain(0))
    rn.run()
    stage.heard()
  end)

  it("that a go block calls leaves it the line of the program as its name", function()
    local pool <close> = rn.threads(1, function(v)
      require "runnel".sleep(1)
      error(v, 0)
    end)
    local function name_of(block)
      rn.yield() -- it begins
      return stage.entry(block).name
    end
    local names, here = {}, stage.here(2)
    local ok, err = pcall(rn.scope, function(s)
      names[1] = name_of(s:go(pool, "of the scope"))
    end)
    assert.same({ false, "of the scope" }, { ok, err })
    local block = rn.go(pool, "lost")
    names[2] = name_of(block)
    assert.same({ "s:go at " .. here, "go at " .. stage.here(-2) }, names)
    assert.same({ nil, "lost" }, { block:take() })
  end)

  it("brings the traceback of an error, which goes into the report; the error stays what it is", function()
    local pool <close> = rn.threads(1, function(v)
      local function fail(err) error(err, 0) end
      if v ~= "nested" then return fail(v), "no tail call" end
      local inner <close> = require "runnel".threads(1, function(err) error(err, 0) end)
      return inner(v)
    end)
    local here = stage.here(-6)
    local in_thread = ("\nin threads %s, stack traceback:\n\t%s\n\t%s: in "):format(here, stage.call_of_error,
      stage.here(-7))
    local err = { code = 7 }
    local _, taken = rn.go(pool, err):take()
    assert.same(err, taken)
    rn.go(pool, err)
    rn.pmap(1, pool, { "of pmap" })
    rn.pipeline_async(1, rn.chan(1), pool, rn.to_chan { "of a pipeline" })
    rn.go(pool, "nested")
    local reports = {}
    while #reports < 4 do
      rn.sleep(1)
      for _, report in ipairs(stage.heard()) do
        reports[type(report.err) == "table" and "table" or report.err] = report
        reports[#reports + 1] = report
      end
    end
    assert.same(err, reports.table.err)
    for _, what in ipairs { "table", "of pmap", "of a pipeline" } do
      local trace = "\n" .. reports[what].trace
      assert.is_not_nil(trace:find(in_thread, 1, true), trace)
    end
    local trace = reports.nested.trace
    assert.matches("\nin threads [^\n]*, stack traceback:\n.*\nin threads [^\n]*, stack traceback:\n", trace)
    assert.is_false(pcall(pool, "caught"))
    rn.go(error, "raised here", 0)
    rn.yield()
    assert.not_matches("in threads", stage.heard()[1].trace)
  end)

  it("says on stderr, once, for which jobs it waits when it is closed #ci", function()
    local f = math.ceil(patience.factor()) -- how much longer things may take
    local output = stage.script((([[
      local rn = require "runnel"
      require "runnel.threads.pool".patience = 200 * FACTOR
      local go_on, told = rn.shared_chan():name "go_on", rn.shared_chan(3)
      do
        local pool <close> = rn.threads(2, function(job)
          if job == "short" then return end
          local what, go_on, told = table.unpack(job)
          if what == "computes" then
            told:put(what)
            coroutine.wrap(function() repeat until go_on:closed() end)() -- where it lets no others run
            return
          end
          repeat
            told:put(what)
            local ok = pcall(go_on.take, go_on)
          until ok -- goes on when it is cancelled
        end)
        pool "short"
        rn.go(pool, { "computes", go_on, told })
        local cancelled = rn.go(pool, { "waits", go_on, told })
        for _ = 1, 2 do told:take() end
        rn.cancel(cancelled)
        told:take()
        rn.go(function()
          rn.sleep(200 * FACTOR + 100)
          go_on:close()
        end)
      end
      print "ended"
      local pool <close> = rn.threads(1, function(v) return v end)
      pool(1)
    ]]):gsub("FACTOR", f)))
    local _, last = output:find(("^runnel: threads [^\n]*:5: closing the pool has waited %g s for jobs that have "
      .. "not ended:\n  thread 1 of 2 [^\n]*\n  thread 2 of 2 [^\n]*\n"):format(200 * f / 1000))
    assert.equal("ended\n", output:sub((last or 0) + 1))
    assert.matches('thread %d of 2 %(computing for [%d.]+ m?s%): job 2, value { "computes", chan: go_on %(1 take '
      .. "waiting%), [^\n]* }\n", output)
    assert.matches("thread %d of 2 %(waiting for [%d.]+ m?s: take on chan: go_on[^\n]*: job 3, whose call waits no "
      .. "more\n", output)
  end)

  it("names the job that a pool which is closed by rn.exit waits for", function()
    local output = stage.script [[
      local rn = require "runnel"
      require("runnel.threads.pool").patience = 100
      local told, written = rn.shared_chan(), rn.shared_chan()
      local pool <close> = rn.threads(2, function(job)
        local told, written = table.unpack(job)
        told:put(true)
        local latest = os.time() + 60
        coroutine.wrap(function() -- where it lets no others run
          repeat until written:closed() or os.time() > latest
        end)()
      end)
      rn.go(pool, { told, written })
      told:take()
      local stderr = io.stderr
      io.stderr = { write = function(_, message) -- the job ends when the message is there
        stderr:write(message)
        written:close()
      end }
      rn.exit(3)
    ]]
    assert.matches("^runnel: threads [^\n]*:4: closing the pool has waited 0.1 s for jobs that have not ended:\n"
      .. "  thread %d of 2: job 1, value { chan: [^\n]* }\n", output)
  end)

  it("raises for a function that threads cannot call, when it is made", function()
    local up = 1
    raises("^threads: the function uses 'up'", function() rn.threads(1, function() return up end) end)
    raises("^threads: module 'no.such.module' not found", function() rn.threads(2, "no.such.module") end)
    raises("^threads: the module 'spec.support.stage' returned a table", function()
      rn.threads(2, "spec.support.stage")
    end)
    local dir <close> = setmetatable(process.directory(), { __close = function(dir) dir:remove() end })
    dir:write("raises_when_loaded.lua", "error('it is broken', 0)")
    local path = package.path
    package.path = dir.path .. "/?.lua;" .. path
    raises("^threads: it is broken$", function() rn.threads(2, "raises_when_loaded") end)
    package.path = path
    raises("^threads: k: an integer of at least 1 expected, got 0", function() rn.threads(0, "x") end)
    raises("^threads: k: at most 65536 threads expected, got 3000000000", function()
      rn.threads(3000000000, function() end)
    end)
    raises('^threads: n: an integer of at least 1 expected, got "nothing"', function()
      rn.threads(1, "x", { n = "nothing" })
    end)
    raises('^threads: unknown option "size"', function() rn.threads(1, "x", { size = 1 }) end)
    raises("^threads: a function or the name of a module expected, got nothing", function() rn.threads(1) end)
    rn.run()
    assert.same({}, rn.ps()) -- no thread is left
    assert.same({}, stage.heard())
  end)
end)

describe("a program with threads", function()
  -- Threads that wait, wait for a timer, compute, and are about to start.
  local THREADS = [[
    local rn = require "runnel"
    local ch = rn.shared_chan()
    for _ = 1, 2 do
      rn.thread(function(ch) ch:take() end, ch)
      rn.thread(function() require "runnel".sleep(1e6) end)
      rn.thread(function(ch) while ch:put(1) do end end, ch)
      rn.thread(function() local n = 0 for i = 1, 1e5 do n = n + i end return n end)
    end
  ]]

  local function run(code)
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write(THREADS, code)
    file:close()
    local output, errors, status = shell.run("lua " .. path)
    os.remove(path)
    return status, errors, output
  end

  -- The errors without what is told of threads that have not ended within a second: on a busy machine some have not.
  local function ended_in_time(errors)
    return patience.factor() == 1 and errors
      or (errors:gsub("runnel: a thread is still running, and left: [^\n]*\n", ""))
  end

  local function assert_clean(code, what)
    local status, errors, output = run(code)
    assert.same({ 0, "", "" }, { status, ended_in_time(errors), output }, what)
  end

  for what, code in pairs {
    ["its end"] = "",
    ["its end, some time later"] = "rn.sleep(math.random(30))",
    ["rn.exit"] = "rn.sleep(math.random(0, 10)) rn.exit(0)",
    ["rn.exit in a go block"] = "rn.run(function() rn.sleep(2) rn.exit(0) end)",
    ["os.exit"] = "rn.sleep(math.random(0, 10)) os.exit(0)",
    ["os.exit that closes the state"] = "os.exit(0, true)",
  } do
    it("ends cleanly by " .. what, function()
      for _ = 1, 3 do assert_clean("math.randomseed(os.time())" .. code) end
    end)
  end

  it("ends cleanly after any step of its own #ci", function()
    local steps = [[
      local last = %d
      local step = 0
      local function is_over()
        step = step + 1
        if step == last then os.exit(0, step %% 2 == 0) end
      end
      is_over()
      local pool = rn.threads(2, function(v) require "runnel".sleep(v) return v end)
      is_over()
      local results = rn.pmap(4, pool, { 0, 1, 0, 2, 0, 50 })
      for _ = 1, 5 do is_over() results:take() end
      local a, b = rn.shared_chan(), rn.shared_chan()
      local function pass(from, to) for v in from do to:put(v) end end
      local one, two = rn.thread(pass, a, b), rn.thread(pass, b, a)
      is_over()
      a:put(1)
      is_over()
      rn.alts { a, b, rn.timeout(1) }
      is_over()
      rn.go(function() two:take() end)
      rn.yield()
      is_over()
      a:close()
      b:close()
      is_over()
      rn.alts { one, rn.timeout(50) }
      is_over()
      pool:drain()
    ]]
    for last = 1, 14 do assert_clean(steps:format(last), "step " .. last) end
  end)

  it("ends cleanly by an error", function()
    local status, errors = run "rn.sleep(3) error 'the end'"
    assert.equal(1, status)
    assert.matches("the end", errors)
    assert.not_matches("still running", ended_in_time(errors))
  end)

  it("waits for a thread as long if the time of day is set meanwhile #ci", function()
    local is_instrumented = os.getenv "LD_PRELOAD" or os.getenv "ASAN_OPTIONS" -- by valgrind, or a sanitizer
    if is_instrumented or not shell.run("uname"):find "Linux" then return pending "needs LD_PRELOAD" end
    local dir <close> = process.directory()
    -- To the program it is as if the time of day had been an hour earlier when the waiting began.
    dir:write("set_back.c", [[
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <time.h>
      int clock_gettime(clockid_t id, struct timespec *time) {
        int (*real)(clockid_t, struct timespec *);
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
        int result = real(id, time);
        if (id == CLOCK_REALTIME) time->tv_sec -= 3600;
        return result;
      }
    ]])
    dir:write("job.lua", [[
      local rn = require "runnel"
      local started = rn.shared_chan(1)
      rn.thread(function(ch)
        ch:put(true) -- does not wait
        local rn = require "runnel"
        local began = rn.now()
        while rn.now() < began + 200 do end
      end, started)
      started:take()
      rn.exit(0)
    ]])
    local path = dir.path
    local _, errors, status = shell.run(("cc -shared -fPIC -o %s/set_back.so %s/set_back.c -ldl || exit; "
      .. "LD_PRELOAD=%s/set_back.so lua %s/job.lua"):format(path, path, path, path))
    assert.equal("", ended_in_time(errors))
    assert.equal(0, status)
  end)

  it("ends without a thread that computes for ever, and says so #ci", function()
    local status, errors = run [[
      local started = rn.shared_chan(1)
      rn.thread(function(ch)
        ch:put(true) -- does not wait
        while true do end
      end, started)
      started:take()
      rn.exit(0)
    ]]
    assert.equal(0, status)
    assert.matches("runnel: a thread is still running, and left: thread /tmp/[^\n]*:10\n", errors)
    local others = errors:gsub("[^\n]*:10\n", "", 1)
    assert.equal("", ended_in_time(others))
  end)
end)

describe("the end of a program", function()
  local function check(expected_status, output, status, ...)
    assert.equal(expected_status, status, output)
    local messages = {}
    for message in output:gmatch "runnel: error in [^\n]*: (%l+ %d+)\n" do messages[#messages + 1] = message end
    table.sort(messages)
    assert.same({ ... }, messages)
  end

  -- In the thread: a go block raises, and nobody takes its error.
  local FAILS = [[
    local function fails(n)
      local rn = require "runnel"
      rn.go(function() error("lost " .. n, 0) end)
      rn.yield()
      return n
    end
    local rn = require "runnel"
  ]]

  local ends = {
    { "rn.exit()", 1 },
    { "rn.run(rn.exit)", 1 },
    { "require 'runnel.sim'.run(rn.exit)", 1 },
    { "os.exit(true, true)", 0 },
    { "", 0 },
  }
  for _, case in ipairs(ends) do
    it(("by %s reports the errors in threads of an open pool, once"):format(case[1] ~= "" and case[1] or "itself"),
      function()
        local output, status = stage.script(FAILS .. [[
          local pool = rn.threads(2, fails)
          for i = 1, 3 do assert(pool(i) == i) end
        ]] .. case[1])
        check(case[2], output, status, "lost 1", "lost 2", "lost 3")
      end)
  end

  it("reports the errors of a thread that has ended just before, unless they were taken",
    function()
      local output, status = stage.script(FAILS .. [[
        assert(rn.thread(fails, 1):take() == 1)
        local function raises(message) error(message, 0) end
        local _, err = rn.thread(raises, "taken 2"):take()
        assert(err == "taken 2")
        local result = rn.thread(raises, "lost 3")
        while not result:closed() do os.execute "sleep 0.01" end
        rn.exit()
      ]])
      check(1, output, status, "lost 1", "lost 3")
    end)

  -- The thread returns before the go block that it has just started gets a turn; rn.exit may then have asked it to end.
  for what, call in pairs {
    ["has returned"] = [[
      assert(rn.thread(fails, 1):take() == 1)
      rn.exit()
    ]],
    ["was asked to end"] = [[
      local begun = rn.shared_chan(1)
      rn.thread(function(n, begun)
        begun:put(true)
        os.execute "sleep 0.1" -- the program ends meanwhile
        require "runnel".go(error, "lost " .. n, 0)
      end, 1, begun)
      begun:take()
      rn.exit()
    ]],
    ["was asked to end, in a pool"] = [[
      local begun, pool = rn.shared_chan(1), rn.threads(1, function(begun)
        begun:put(true)
        os.execute "sleep 0.1"
        require "runnel".go(error, "lost 1", 0)
      end)
      rn.go(pool, begun)
      begun:take()
      rn.exit()
    ]],
    ["is in a pool"] = [[
      assert(rn.threads(1, fails)(1) == 1)
      rn.exit()
    ]],
  } do
    it("reports the error of a go block that a thread starts as its last act, if it " .. what, function()
      local output, status = stage.script([[
        local rn = require "runnel"
        local function fails(n)
          require "runnel".go(error, "lost " .. n, 0)
          return n
        end
      ]] .. call)
      check(1, output, status, "lost 1")
    end)
  end

  it("does not begin the jobs that wait for a thread which was asked to end", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local begun, pool = rn.shared_chan(9), rn.threads(1, function(begun)
        begun:put(true)
        os.execute "sleep 0.1"
        io.stderr:write "a job\n"
      end)
      for _ = 1, 5 do rn.go(pool, begun) end
      begun:take()
      rn.exit()
    ]]
    assert.same({ "a job\n", 0 }, { output, status or 0 })
  end)

  it("reports the errors in threads that threads have started", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      rn.thread(function()
        local rn = require "runnel"
        local pool = rn.threads(1, function(n)
          local rn = require "runnel"
          rn.go(function() error("lost " .. n, 0) end)
          rn.yield()
          return n
        end)
        assert(pool(1) == 1)
      end):take()
      rn.exit()
    ]]
    check(1, output, status, "lost 1")
  end)
end)
