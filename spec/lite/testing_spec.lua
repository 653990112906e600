-- runnel.lite.testing in test frameworks, its fakes, and the programs of docs/testing-lua.md on several Luas.

local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"
local testing_page = require "spec.support.lite.testing_page"

local PAGE = "docs/testing-lua.md"
local busted = { it = it, pending = pending }
local INTERPRETERS = { "lua5.1", "luajit", "lua5.4" }

describe("runnel.lite.testing", function()
  local dir

  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local list, files = testing_page(PAGE)

  it("has tests with their stories on " .. PAGE, function() assert.equal(7, #list) end)

  for _, interpreter in ipairs(INTERPRETERS) do
    local it = programs.it(busted, interpreter)
    for _, program in ipairs(list) do
      local title = program.is_mended and "passes what %s mends for %s, on %s" or "tells what %s says of %s, on %s"
      it(title:format(PAGE, program.test, interpreter), function()
        for name, code in pairs(program.files) do dir:write(name, code) end
        assert.equal(program.expected, programs.run(dir, interpreter .. " " .. program.test))
      end)
    end

    -- ---- frameworks ----

    local RACE = [[
      local explore, rn = require("runnel.lite.testing").explore, require "runnel.lite"
      race = explore(function()
        local seen = rn.chan(2)
        rn.go(function() seen:put "a" end)
        rn.go(function() seen:put "b" end)
        check("ab", seen:take() .. seen:take())
      end)
    ]]
    local STORY = "sim%.explore: .*%(schedule %d+%)\n  1 .*To replay: sim%.explore"
    local function has(module) return os.execute(("%s -e 'require \"%s\"' 2>/dev/null"):format(interpreter, module)) end

    local with_busted = programs.has(interpreter) and has "busted" and it or pending
    with_busted("counts a failure as one in busted, with its story, on " .. interpreter, function()
      -- A runner, because the command of busted is for one version of Lua.
      dir:write("runner.lua", 'require "busted.runner" { standalone = false }')
      local command = interpreter .. " runner.lua -o TAP "
      dir:write("account_spec.lua", files["account_spec.lua"])
      assert.matches("ok 1 %- an account keeps every deposit\n", programs.run(dir, command .. "account_spec.lua"))
      dir:write("race_spec.lua", "check = function(a, b) assert.equal(a, b) end\n" .. RACE .. 'it("fails", race)')
      local result = process.run(dir.path, ("LUA_PATH='%s;;' "):format(programs.path) .. command .. "race_spec.lua")
      assert.matches("not ok 1 %- fails", result.out)
      assert.matches("Failure message: " .. STORY, (result.out:gsub("\n# ", "\n")))
    end)

    local with_luaunit = programs.has(interpreter) and has "luaunit" and it or pending
    with_luaunit("counts a failure as one in luaunit, with its story, on " .. interpreter, function()
      dir:write("account_unit.lua", files["account_unit.lua"])
      assert.matches("Ran 1 tests in [%d.]+ seconds, 1 success", programs.run(dir, interpreter .. " account_unit.lua"))
      dir:write("race_unit.lua", 'local luaunit = require "luaunit"\ncheck = luaunit.assertEquals\n' .. RACE
        .. "test_race = race\nos.exit(luaunit.LuaUnit.run())")
      local result = process.run(dir.path, ("LUA_PATH='%s;;' %s race_unit.lua"):format(programs.path, interpreter))
      assert.matches("1 failure", result.out)
      assert.not_matches("1 error", result.out)
      assert.matches(STORY, result.out)
    end)
  end

  -- ---- the rules ----

  local testing, lite = require "runnel.lite.testing", require "runnel.lite"

  it("fails if there are more orders than it may try, unless the test says how many #ci", function()
    local function many()
      for _ = 1, 5 do lite.go(function() lite.yield() end) end
      lite.sleep(1)
    end
    local ok, message = pcall(testing.explore(many))
    assert.is_false(ok)
    assert.matches("10000 schedules passed, but there are more", message)
    testing.explore(many, { schedules = 5 })()
  end)

  it("fails by a leak, and by an error that nobody takes", function()
    local ok, message = pcall(testing.explore(function() lite.go(function() lite.chan():take() end) end))
    assert.is_false(ok)
    assert.matches("leak: 1 go block waits for ever", message)
    testing.explore(function() lite.go(function() lite.chan():take() end) end, { leaks = false })()
    ok, message = pcall(testing.explore(function() lite.go(function() error("lost", 0) end) end))
    assert.is_false(ok)
    assert.matches("lost", message)
  end)

  it("fails by a leak also if the collector has run since", function()
    local function abandons()
      lite.go(function() lite.chan():take() end)
      lite.sleep(1)
      collectgarbage()
      collectgarbage()
    end
    for _, test in ipairs { testing.simulate(abandons), testing.explore(abandons) } do
      local ok, message = pcall(test)
      assert.is_false(ok)
      assert.matches("leak: 1 go block waits for ever", message)
    end
  end)

  it("names in a replay the options with which it has failed", function()
    local ok, message = pcall(testing.explore(function() error "why" end, { leaks = false, steps = 50 }))
    assert.is_false(ok)
    assert.matches('{ schedule = "", leaks = false, steps = 50 }', message, 1, true)
  end)

  it("fails by what goes on for ever after the test has ended, and says so", function()
    local function program()
      local vim = require "runnel.lite.fake_vim" {}
      vim.uv.new_timer():start(100, 100, vim.schedule_wrap(function() end))
    end
    for _, test in ipairs { testing.simulate(program), testing.explore(program) } do
      local ok, message = pcall(test)
      assert.is_false(ok)
      assert.matches("leak: 1 go block goes on for ever\n  #%d+ [^\n]*: sleeping at [^\n]*fake_vim.lua:%d+", message)
    end
    local ok, message = pcall(testing.simulate(function()
      lite.go(function() while true do lite.yield() end end)
      lite.go(function() lite.chan():take() end)
    end))
    assert.is_false(ok)
    assert.matches("leak: 2 go blocks go on for ever\n[^\n]*: ready at [^\n]*\n[^\n]*: take on chan", message)
  end)

  it("lets time pass where a test polls, and tells a livelock where nothing is timed", function()
    local function polls(poll)
      return function()
        local done = false
        lite.go(function()
          lite.sleep(3600000)
          done = true
        end)
        while not done do poll() end
      end
    end
    local function read_clock()
      local till = lite.now() + 3600000
      while lite.now() < till do end
    end
    testing.explore(polls(lite.yield), { schedules = 3 })()
    testing.explore(read_clock)()
    for _, program in ipairs { polls(lite.yield), polls(function() lite.sleep(0) end), read_clock } do
      testing.simulate(program)()
    end
    local function livelock()
      lite.go(function() while true do lite.yield() end end)
      lite.chan():take()
    end
    local TEXT = "livelock: a go block was ready at each of %d+ steps, so none waits for a time\n"
      .. "go blocks that go on for ever:\n[^\n]*: ready at [^\n]*testing_spec.lua:%d+"
    for _, test in ipairs { testing.simulate(livelock), testing.explore(livelock) } do
      local ok, message = pcall(test)
      assert.is_false(ok)
      assert.matches(TEXT, message)
    end
  end)

  it("limits the steps at one time, and ten times as many in all", function()
    local function sleeps(n)
      return function() for _ = 1, n do lite.sleep(1) end end
    end
    testing.explore(sleeps(11000))()
    local ok, message = pcall(testing.explore(sleeps(11000), { steps = 1000 }))
    assert.is_false(ok)
    assert.matches("livelock: it has not ended after 10000 steps\n", message)
  end)

  it("passes if a go block of a scope raises an error because another one has: the first speaks for it", function()
    testing.explore(function()
      local _, err = lite.go(lite.scope, function(s)
        s:go(function() error("first", 0) end)
        s:go(function()
          local _, reason = lite.go(lite.sleep, 1000):take()
          error(reason, 0)
        end)
        s:go(function()
          pcall(lite.sleep, 1000)
          error("while it ended", 0)
        end)
      end):take()
      assert.equal("first", err)
    end)()
  end)

  it("tells that f is not the same in every run, and what was different", function()
    local n, is_done
    local function changes()
      n = n + 1
      for _ = 1, n == 1 and 2 or 3 do lite.go(function() lite.yield() end) end
      lite.sleep(1)
    end
    n = 0
    local ok, message = pcall(testing.explore(changes))
    assert.is_false(ok)
    assert.matches("sim.explore: f is not the same in every run: at choice 1 there was 3 to choose, before 2; likely "
      .. "causes: state outside of f", message)
    ok, message = pcall(testing.explore(function()
      for _ = 1, is_done and 0 or 2 do lite.go(function() lite.yield() end) end
      is_done = true
      lite.sleep(1)
    end))
    assert.is_false(ok)
    assert.matches("at choice 1 there was nothing to choose, before 2", message)
    is_done = false
    ok, message = pcall(testing.explore(function()
      local was_done = is_done
      is_done = true
      assert(was_done, "not yet")
    end))
    assert.is_false(ok)
    assert.matches("schedule 1 fails %(error: [^\n]*not yet%), and then does not", message)
  end)

  it("checks its options, and that a schedule fits", function()
    local function f() lite.go(function() end):take() end
    for _, case in ipairs {
      { { schedule = "0:51" }, 'schedule: what a message of sim.explore ends with, as "1 2 1", expected, got "0:51"' },
      { { schedule = 5 }, "schedule: what a message of sim.explore ends with" },
      { { schedule = "2" }, "the schedule does not fit f, which has changed: at choice 1 there was nothing to choose" },
      { { schedules = 0 }, "schedules: an integer of at least 1 expected, got 0" },
      { { schedules = "x" }, 'schedules: an integer of at least 1 expected, got "x"' },
      { { steps = 0 }, "steps: an integer of at least 1 expected, got 0" },
      { { seconds = -1 }, "seconds: a number of at least 0 expected, got %-1" },
      { { leaks = 1 }, "leaks: true or false expected" },
    } do
      local ok, message = pcall(function() lite.sim.explore(f, case[1]) end)
      assert.is_false(ok)
      assert.matches("^[^\n]*testing_spec.lua:%d+: sim.explore: " .. case[2], message)
    end
    assert.is_true(pcall(lite.sim.explore, f, { schedule = "" }))
  end)

  it("passes if the test sets rn.on_error for errors that nobody takes, and restores the one before", function()
    local before = lite.on_error()
    lite.on_error(before)
    local heard = 0
    testing.explore(function()
      lite.on_error(function() heard = heard + 1 end)
      lite.go(function() error("lost", 0) end)
    end)()
    assert.is_true(heard > 0)
    local now = lite.on_error()
    lite.on_error(before)
    assert.equal(before, now)
    assert.is_false(pcall(testing.explore(function() lite.go(function() error("lost", 0) end) end)))
  end)

  it("keeps the kind of an error that is a table", function()
    local kind = { __tostring = function(err) return err.message end }
    local ok, err = pcall(testing.explore(function() error(setmetatable({ message = "why", more = 5 }, kind)) end))
    assert.is_false(ok)
    assert.equal(kind, getmetatable(err))
    assert.equal(5, err.more)
    assert.matches("why.*To replay", err.message)
  end)

  it("refuses what is no function, and unknown options, at the caller's line", function()
    local ok, message = pcall(testing.explore, 5)
    assert.is_false(ok)
    assert.matches("explore: a function expected, got number", message)
    ok, message = pcall(function() testing.explore(print, { seed = 1 }) end)
    assert.is_false(ok)
    assert.matches("testing_spec.lua:%d+: explore: unknown option 'seed'; known: leaks, schedule,", message)
  end)

  it("runs a test once in virtual time", function()
    testing.simulate(function()
      lite.sleep(1e9)
      assert.equal(1e9, lite.now())
    end)()
    assert.is_false(pcall(testing.simulate(function() error "why" end)))
  end)
end)

describe("the fakes of runnel.lite", function()
  local lite = require "runnel.lite"
  local fake_copas, fake_socket = require "runnel.lite.fake_copas", require "runnel.lite.fake_socket"
  local fake_vim = require "runnel.lite.fake_vim"

  it("have sockets with the results of luasocket's", function()
    lite.sim.run(function()
      local a, b = fake_socket()
      assert.equal(11, a:send "one\r\ntwo\n12")
      assert.equal("one", b:receive())
      assert.equal("two", b:receive "*l")
      assert.equal("1", b:receive(1))
      b:settimeout(0.5)
      assert.same({ nil, "timeout", "2" }, { b:receive "*l" })
      assert.equal(500, lite.now())
      assert.equal(3, a:send("abcde", 2, 3))
      assert.equal(3, a:send("de", 1, -2) + a:send("f", 1, 100) + a:send("g", -1, -1))
      a:settimeout(-1)
      lite.go(function() b:send "late\n" end)
      assert.equal("late", a:receive())
      b:send "never read"
      a:close()
      assert.same({ nil, "closed", "" }, { a:receive(1) })
      assert.equal("bcdfg", b:receive "*a")
      assert.same({ nil, "closed", "" }, { b:receive "*l" })
      assert.same({ nil, "closed", 0 }, { b:send "x" })
    end)
  end)

  it("have Copas's threads, sleeps and locks", function()
    lite.sim.run(function()
      local lock, seen = fake_copas.lock.new(1), {}
      fake_copas.addthread(function(name)
        lock:get()
        fake_copas.sleep(0.3)
        seen[#seen + 1] = name
        lock:release()
      end, "first")
      lite.yield()
      assert.equal(0.3, lock:get())
      assert.same({ "first" }, seen)
      fake_copas.addthread(function() seen = { lock:get(0.1) } end)
      lite.sleep(1000)
      assert.same({ nil, "timeout", 0.1 }, seen)
      assert.is_true(lock:release())
    end)
    lite.sim.run(function()
      local lock, seen = fake_copas.lock.new(math.huge), {}
      assert.same({ 0, 0 }, { lock:get(), lock:get() }) -- the same thread
      fake_copas.addthread(function()
        seen[1], seen[2] = lock:release()
        seen[3] = lock:get(0.1)
        seen[4] = lock:get()
        lock:release()
      end)
      lite.sleep(1000)
      assert.is_true(lock:release())
      lite.sleep(1000)
      assert.is_nil(seen[4])
      assert.is_true(lock:release())
      lite.sleep(1000)
      assert.same({ nil, "cannot release a lock not owned", nil, 1.9 }, { table.unpack(seen, 1, 4) })
      assert.same({ nil, "cannot release a lock not owned" }, { lock:release() })
    end)
  end)

  it("have a main loop of Neovim: functions in their order, timers, processes", function()
    lite.sim.run(function()
      local seen = {}
      local function see(what) return function() seen[#seen + 1] = what .. " " .. lite.now() end end
      local vim = fake_vim {
        system = function(command) return { code = 0, stdout = command[1] }, 20 end,
        fn = { getcwd = function() return "/" end },
      }
      vim.schedule(see "first")
      vim.schedule(see "second")
      vim.defer_fn(see "deferred", 30)
      local timer = vim.uv.new_timer()
      timer:start(10, 10, see "timer")
      vim.system({ "ls" }, {}, function(result) seen[#seen + 1] = result.stdout .. " " .. lite.now() end)
      local killed
      local slow = vim.system({ "slow" }, function(result) killed = result.signal end)
      lite.sleep(15)
      assert.is_false(slow:is_closing())
      slow:kill "sigterm"
      lite.sleep(20)
      timer:close()
      lite.sleep(100)
      assert.same({ "first 0", "second 0", "timer 10", "ls 20", "timer 20", "timer 30", "deferred 30" }, seen)
      assert.equal(15, killed)
      local began = lite.now()
      assert.same({ code = 0, stdout = "ls" }, vim.system({ "ls" }):wait())
      assert.equal(20, lite.now() - began)
      assert.equal(124, vim.system({ "ls" }, { timeout = 5 }):wait().code)
      assert.equal(25, lite.now() - began)
      local late = vim.system({ "ls" }):wait(10)
      assert.same({ 124, 9 }, { late.code, late.signal })
      assert.equal(35, lite.now() - began)
      vim.notify "told"
      assert.same({ "told" }, vim.messages)
      assert.equal("/", vim.fn.getcwd())
      assert.is_true(timer:is_closing())
    end, { leaks = true })
  end)
end)
