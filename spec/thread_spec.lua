local rn = require "runnel"
local process = require "spec.support.process"
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

  it("has go blocks, channels and timers of its own, beside those here", function()
    local jobs, results = rn.shared_chan(), rn.shared_chan(3)
    for _ = 1, 2 do
      rn.thread(function(from, to)
        local rn = require "runnel" -- luacheck: ignore
        rn.pipeline_async(3, to, function(v, out)
          rn.sleep(1)
          out:put { v, v * v }
          out:close()
        end, from, false)
        repeat rn.sleep(1) until from:closed()
        rn.sleep(20)
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
    local result = rn.thread("square", 12)
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
    local _, err = rn.thread(function()
      error(setmetatable({}, { __tostring = function() return "object" end }))
    end):take()
    assert.equal("object", err)
    _, err = rn.thread(function() return print end):take()
    assert.matches("put: value: a function cannot be sent", err)
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
    local path = package.path
    package.path = "/nowhere/?.lua"
    rn.thread(function() end)
    package.path = path
    rn.run()
    require "runnel.core".internal.report_unhandled()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("module 'runnel.internal.thread_main' not found", heard[1].err)
    assert.matches("^thread [^\n]*thread_spec.lua:%d+$", heard[1].name)
  end)

  it("starts threads of its own, whose errors come through", function()
    local result = rn.thread(function()
      local rn = require "runnel" -- luacheck: ignore
      rn.thread(function() error "deep" end)
      local inner = rn.thread(function(v) return v + 1 end, 1):take()
      rn.sleep(50)
      return inner
    end)
    assert.equal(2, result:take())
    rn.run()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("deep", heard[1].err)
  end)

  it("wakes a go block whose channel only the thread has any more", function()
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

  it("can be had by the hundred", function()
    local go_on, results = rn.shared_chan(), {}
    for i = 1, 200 do results[i] = rn.thread(function(ch, n) return ch:take() == nil and n end, go_on, i) end
    go_on:close()
    for i = 1, 200 do assert.equal(i, results[i]:take()) end
  end)

  it("notices a deadlock in the thread, and one that is left when the thread has ended", function()
    local _, err = rn.thread(function() require "runnel".chan():take() end):take()
    assert.matches("deadlock: alts on .*take on chan", err)
    local ch = rn.shared_chan():name "dropped"
    rn.thread(function(dropped) assert(not dropped:closed()) end, ch)
    raises("^deadlock: take on chan: dropped would wait for ever", function() ch:take() end)
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
    repeat
      rn.sleep(1)
      entry = threads()[1]
    until #entry.waits > 0
    assert.equal("waiting", entry.state)
    assert.same({ { operation = "take", channel = go_on } }, entry.waits)
    local waited = entry.waited
    rn.sleep(20)
    assert.is_true(threads()[1].waited > waited + 15)
    go_on:put(1)
    assert.equal(1, result:take())
    rn.run()
    assert.same({}, threads())
  end)

  it("computes, or starts", function()
    local started, stop = rn.shared_chan(1), rn.shared_chan(1)
    local result = rn.thread(function(first, last)
      first:put(true) -- does not wait
      repeat until last:poll()
    end, started, stop)
    assert.equal("starting", threads()[1].state)
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
    assert.same({ nil, "the thread has ended without a result" }, { result:take() })
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
      .. "thread_spec.lua:%d+ at [^\n]*thread_spec.lua:%d+", err)
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

  it("cancels a job whose caller is cancelled, and goes on with others", function()
    local pool <close> = rn.threads(1, function(v)
      if v == "long" then require "runnel".sleep(1e6) end
      return v
    end)
    local results = rn.pmap(1, pool, rn.to_chan { "short", "long", "after" }, {
      timeout = 100, ex_handler = function(err) return rn.is_timeout(err) and "late" end,
    })
    assert.same({ "short", "late", "after" }, rn.into({}, results):take())
  end)

  it("that waits for jobs neither keeps rn.run from returning nor hides a deadlock", function()
    local pool <close> = rn.threads(2, function(v) return v end)
    rn.run()
    raises("^deadlock: take on chan: #%d+ would wait for ever", function() rn.chan():take() end)
    assert.equal(1, pool(1))
  end)

  it("closes when its jobs are done", function()
    local pool = rn.threads(2, function(v) return v end)
    assert.equal(1, pool(1))
    pool:close()
    pool:close()
    raises("^threads: the pool is closed", function() pool(2) end)
  end)

  it("raises for a function that threads cannot call, when it is made", function()
    local up = 1
    raises("^threads: the function uses 'up'", function() rn.threads(1, function() return up end) end)
    raises("^threads: module 'no.such.module' not found", function() rn.threads(2, "no.such.module") end)
    raises("^threads: the module 'spec.support.stage' returned a table", function()
      rn.threads(2, "spec.support.stage")
    end)
    raises("^threads: k: an integer of at least 1 expected, got 0", function() rn.threads(0, "x") end)
    raises("^threads: n: an integer of at least 1 expected, got nothing", function()
      rn.threads(1, "x", { n = "nothing" })
    end)
    raises('^threads: unknown option "size"', function() rn.threads(1, "x", { size = 1 }) end)
    raises("^threads: a function or the name of a module expected, got nothing", function() rn.threads(1) end)
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
      rn.thread(function() local n = 0 for i = 1, 1e6 do n = n + i end return n end)
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

  for what, code in pairs {
    ["its end"] = "",
    ["its end, some time later"] = "rn.sleep(math.random(30))",
    ["rn.exit"] = "rn.sleep(math.random(0, 10)) rn.exit(0)",
    ["rn.exit in a go block"] = "rn.run(function() rn.sleep(2) rn.exit(0) end)",
    ["os.exit"] = "rn.sleep(math.random(0, 10)) os.exit(0)",
    ["os.exit that closes the state"] = "os.exit(0, true)",
  } do
    it("ends cleanly by " .. what, function()
      for _ = 1, 3 do assert.same({ 0, "", "" }, { run("math.randomseed(os.time())" .. code) }) end
    end)
  end

  it("ends cleanly by an error", function()
    local status, errors = run "rn.sleep(3) error 'the end'"
    assert.equal(1, status)
    assert.matches("the end", errors)
    assert.not_matches("still running", errors)
  end)

  it("ends without a thread that computes for ever, and says so", function()
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
    assert.matches("^runnel: a thread is still running, and left: thread /tmp/[^\n]*:10\n$", errors)
  end)
end)
