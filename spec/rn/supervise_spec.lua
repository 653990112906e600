local flow = require "runnel.flow"
local patience = require "spec.support.patience"
local rn = require "runnel"
local sim = require "runnel.sim"
local raises = require "spec.support.raises"
local search = require "spec.support.search"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"
local views = require "runnel.prompt.views"

local function closing(f) return setmetatable({}, { __close = f }) end

-- A child that logs its starts and ends, and ends after some ms, by an error if there is one.
local function child(log, name, ms, err)
  return function()
    log[#log + 1] = "+" .. name
    local _ <close> = closing(function() log[#log + 1] = "-" .. name end)
    rn.sleep(ms or 1e9)
    if err then error(err, 0) end
    return "done"
  end
end

local function ignore() end

-- Runs a supervisor whose children get a log, for some ms. Returns the log.
local function run_for(ms, make, opts)
  local log = {}
  local ok, err = pcall(rn.scope, function(s)
    s:go(rn.supervise, make(log), opts)
    rn.sleep(ms)
    s:cancel "end"
  end)
  assert(ok, err)
  return log
end

describe("supervise", function()
  before_each(stage.open)
  after_each(stage.close)

  it("returns when all children have ended and none is to be started again", stage.within(function()
    local log = {}
    rn.supervise {
      { "a", child(log, "a", 5), again = "never" },
      { "b", child(log, "b", 1), again = "error" },
    }
    assert.same({ "+a", "+b", "-b", "-a" }, log)
    assert.equal(5, rn.now())
  end))

  it("ends children that catch every error in a loop", stage.within(function()
    local rounds, starts = 0, 0
    local function stubborn()
      starts = starts + 1
      while rounds < 10000 do
        rounds = rounds + 1
        pcall(rn.sleep, 1)
      end
    end
    local log = run_for(500, function(log)
      return { { "stubborn", stubborn }, { "b", child(log, "b", 100, "oops") } }
    end, { order = "all", backoff = 0, ex_handler = ignore })
    assert.is_true(starts > 1)
    assert.is_true(rounds < 10000)
    assert.equal(starts, #log // 2)
    assert.equal(500, rn.now())
  end))

  it("starts children again by their rules: always, after errors, or never", stage.within(function()
    local failed = {}
    local log = run_for(1000, function(log)
      return {
        { "always", child(log, "a", 300) },
        { "error", child(log, "e", 300), again = "error" },
        { "failing", child(log, "f", 300, "oops"), again = "error" },
        { "never", child(log, "n", 300, "once"), again = "never" },
      }
    end, { backoff = 100, ex_handler = function(err, name) failed[#failed + 1] = name .. ": " .. err end })
    local starts = {}
    for _, event in ipairs(log) do
      if event:find "^+" then starts[event] = (starts[event] or 0) + 1 end
    end
    assert.same({ ["+a"] = 3, ["+e"] = 1, ["+f"] = 3, ["+n"] = 1 }, starts)
    table.sort(failed)
    assert.same({ "failing: oops", "failing: oops", "never: once" }, failed)
  end))

  for order, expected in pairs {
    one = "+a +b +c -b +b -c -b -a", rest = "+a +b +c -b -c +b +c -c -b -a",
    all = "+a +b +c -b -c -a +a +b +c -c -b -a",
  } do
    it("starts again, and cancels before, by its order: " .. order, stage.within(function()
      local fails = true
      local log = run_for(500, function(log)
        return { { "a", child(log, "a") }, { "b", function()
          local ms, err = 1e9, nil
          if fails then ms, err, fails = 50, "oops", false end
          child(log, "b", ms, err)()
        end }, { "c", child(log, "c") } }
      end, { order = order, ex_handler = ignore })
      assert.equal(expected, table.concat(log, " "))
    end))
  end

  it("does not start those again that have ended for good", stage.within(function()
    local log = run_for(1000, function(log)
      return { { "a", child(log, "a", 10), again = "never" }, { "b", child(log, "b", 300, "oops") } }
    end, { order = "all", ex_handler = ignore })
    assert.equal(1, select(2, table.concat(log, " "):gsub("%+a", "")))
  end))

  it("does not start those again that end for good just when others are to be started again", stage.within(function()
    local starts, failed, times = {}, {}, 0
    local function ends(name, err)
      return function()
        starts[#starts + 1] = name
        rn.sleep(10)
        if err then error(name .. " fails", 0) end
      end
    end
    rn.supervise({
      { "first", function()
        times = times + 1
        rn.sleep(10)
        if times < 3 then error("first fails", 0) end
      end, again = "error" },
      { "never", ends("never", true), again = "never" },
      { "error", ends "error", again = "error" },
    }, { order = "all", ex_handler = function(err) failed[#failed + 1] = err end })
    assert.same({ "never", "error" }, starts)
    table.sort(failed)
    assert.same({ "first fails", "first fails", "never fails" }, failed)
  end))

  it("does not start a child again that ends for good while another one cleans up", stage.within(function()
    local starts, cleaned, times = 0, 0, 0
    rn.supervise({
      { "fails", function()
        times = times + 1
        rn.sleep(10)
        if times == 1 then error("oops", 0) end
      end, again = "error" },
      { "once", function()
        starts = starts + 1
        rn.sleep(50)
      end, again = "never" },
      { "slow", function()
        if times > 1 then return end
        local _ <close> = closing(function()
          rn.sleep(500)
          cleaned = cleaned + 1
        end)
        rn.sleep(1e9)
      end, again = "error" },
    }, { order = "all", ex_handler = ignore })
    if stage.is_5_4_3 then assert.same({ 1, 1 }, { starts, cleaned }) end
  end))

  it("waits for the end of a child that cleans up before it starts another again", stage.within(function()
    local log = {}
    pcall(rn.supervise, {
      { "slow", function()
        local _ <close> = closing(function()
          rn.sleep(500)
          log[#log + 1] = "cleaned up at " .. rn.now()
        end)
        rn.sleep(1e9)
      end },
      { "fails", function()
        log[#log + 1] = "starts"
        rn.sleep(100)
        error "oops"
      end },
    }, { order = "all", restarts = 1, ex_handler = ignore, backoff = 0 })
    if stage.is_5_4_3 then
      assert.same({ "starts", "cleaned up at 600", "starts", "cleaned up at 1200" }, log)
    end
  end))

  it("pauses for longer each time, at most for a minute, until a child has run for long enough", stage.within(function()
    local starts, pauses, ended = 0, {}, nil
    pcall(rn.scope, function(s)
      s:go(rn.supervise, { { "a", function()
        starts = starts + 1
        if ended then pauses[#pauses + 1] = rn.now() - ended end
        if starts == 13 then rn.sleep(1000) end
        if starts == 15 then s:cancel() end
        ended = rn.now()
        error "oops"
      end } }, { backoff = 100, restarts = math.huge, within = 1000, ex_handler = ignore })
    end)
    for i = 1, 12 do
      local whole = math.min(100 * 2 ^ (i - 1), 60000)
      assert.is_true(pauses[i] >= whole / 2 - 0.01 and pauses[i] <= whole + 0.01, i)
    end
    assert.is_true(pauses[13] <= 100.01 and pauses[14] <= 200.01)
  end))

  it("tells the cause false from a return", stage.within(function()
    for _, cause in ipairs { "false", "it has returned" } do
      local ok, err = pcall(rn.supervise, { { "x", function()
        if cause == "false" then error(false) end
      end, again = "always" } }, { restarts = 1, ex_handler = ignore })
      assert.is_false(ok)
      assert.matches(("the last causes: x: %s; x: %s$"):format(cause, cause), tostring(err))
    end
  end))

  it("gives up when there were too many restarts, and tells of the last causes", stage.within(function()
    local log = {}
    local ok, err = pcall(rn.supervise, {
      { "well", child(log, "well") },
      { "a", function() error("no route", 0) end },
      { "b", function() rn.sleep(40) return nil, "refused" end },
    }, { restarts = 3, within = 1000, backoff = 20, ex_handler = ignore })
    assert.is_false(ok)
    assert.equal("restarts", err.code)
    assert.equal(3, #err.causes)
    for _, cause in ipairs(err.causes) do assert.equal(cause.name == "a" and "no route" or "refused", cause.err) end
    assert.matches("^supervise: gives up after 3 restarts within 1000 ms; the last causes: .*no route", tostring(err))
    assert.matches("refused", err .. "")
    assert.same({ "+well", "-well" }, log)
    assert.same({}, stage.others())
  end))

  it("counts only the restarts within its time", stage.within(function()
    local starts = 0
    local ok = pcall(rn.supervise, { { "a", function()
      starts = starts + 1
      rn.sleep(100)
      if starts < 50 then error "oops" end
    end, again = "error" } }, { restarts = 3, within = 250, backoff = 0, ex_handler = ignore })
    assert.is_true(ok)
    assert.equal(50, starts)
  end))

  it("is started again by the supervisor whose child it is", stage.within(function()
    local starts, outer = 0, {}
    rn.supervise({
      { "inner", function()
        rn.supervise({ { "leaf", function()
          starts = starts + 1
          if starts < 5 then error("oops", 0) end
        end, again = "error" } }, { restarts = 1, backoff = 0, ex_handler = ignore })
      end, again = "error" },
    }, { ex_handler = function(err, name) outer[#outer + 1] = name .. ": " .. tostring(err) end })
    assert.equal(5, starts)
    assert.same(2, #outer)
    assert.matches("^inner: supervise: gives up", outer[1])
  end))

  it("reports the errors of children with their tracebacks, unless there is a handler", stage.sim(function()
    local fails = true
    rn.supervise({ { "poll", function()
      if fails then
        fails = false
        error "oops"
      end
    end, again = "error" } }, { backoff = 0 })
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("oops$", heard[1].err)
    assert.matches("supervise_spec.lua", heard[1].trace)
    assert.equal("poll", heard[1].name)
  end))

  it("starts a child again that another go block has cancelled, or whose coroutine was closed", stage.within(function()
    local starts, causes, co = 0, {}, nil
    rn.scope(function(s)
      s:go(rn.supervise, { { "a", function()
        starts, co = starts + 1, coroutine.running()
        if starts < 3 then rn.sleep(1e6) end
      end, again = "error" } }, { backoff = 10, ex_handler = function(err) causes[#causes + 1] = err end })
      local function block()
        for _, entry in ipairs(rn.ps()) do
          if entry.name == "a" then return entry.result end
        end
      end
      rn.sleep(20)
      rn.cancel(block(), "by hand")
      rn.sleep(2) -- it pauses
      rn.cancel(block(), "in its pause")
      rn.sleep(30)
      coroutine.close(co)
    end)
    assert.equal(3, starts)
    assert.same({ "by hand", "in its pause" }, { causes[1], causes[2] })
    assert.matches("coroutine", causes[3])
  end))

  it("raises the last reason if its caller is cancelled again while its children end", stage.within(function()
    local caller = rn.go(rn.supervise, { { "a", function() rn.shield(rn.sleep, nil, 10) end } })
    for _, reason in ipairs { "first", "second" } do
      rn.sleep(1)
      assert.is_true(rn.cancel(caller, reason))
    end
    rn.sleep(20)
    assert.is_true(caller:closed())
    assert.same({}, stage.heard())
    assert.same({ nil, "second" }, { caller:take() })
  end))

  it("raises the last reason if its caller is cancelled again just when its last child ends", stage.within(function()
    for turns = 0, 10 do
      local over = rn.chan()
      local caller = rn.go(rn.supervise, { { "a", function()
        rn.shield(function()
          rn.sleep(10)
          over:close()
        end)
      end } })
      rn.sleep(1)
      rn.cancel(caller, "first")
      over:take()
      for _ = 1, turns do rn.yield() end
      local again = not caller:closed() and rn.cancel(caller, "second")
      assert.same({ nil, again and "second" or "first" }, { caller:take() })
    end
    assert.same({}, stage.heard())
  end))

  it("ends if its caller is cancelled while children end that are to start again", stage.within(function()
    local starts = 0
    local caller = rn.go(rn.supervise, {
      { "a", function()
        starts = starts + 1
        rn.shield(rn.sleep, nil, 10)
      end },
      { "b", function()
        rn.sleep(1)
        error("b has failed", 0)
      end },
    }, { order = "all", ex_handler = function() end })
    rn.sleep(3)
    assert.is_true(rn.cancel(caller, "enough"))
    rn.sleep(20)
    assert.is_true(caller:closed())
    assert.equal(1, starts)
    assert.same({ nil, "enough" }, { caller:take() })
  end))

  it("tells a deadlock, and starts nothing, if a child does not end that is to start again", function()
    local starts
    local function program()
      starts = 0
      rn.supervise({
        { "stuck", function()
          starts = starts + 1
          rn.shield(function() rn.chan():take() end)
        end },
        { "fails", function() error("no", 0) end },
      }, { order = "all", backoff = 1, ex_handler = ignore })
    end
    search.finds("^sim.explore: deadlock: ", program)
    assert.equal(1, starts)
    local ok, err = pcall(program) -- outside a simulation
    assert.is_false(ok)
    assert.matches("^[^\n]*deadlock", tostring(err))
    assert.equal(1, starts)
  end)

  it("cancels its children in the opposite order when its caller is cancelled, and reports what they raise then",
    stage.sim(function()
      local log = {}
      local caller = rn.go(rn.supervise, {
        { "a", child(log, "a") },
        { "b", function()
          pcall(rn.sleep, 1e9)
          error("cannot end", 0)
        end },
        { "c", child(log, "c") },
      })
      rn.sleep(1)
      rn.cancel(caller, "killed")
      assert.same({ nil, "killed" }, { caller:take() })
      assert.same({ "+a", "+c", "-c", "-a" }, log)
      assert.equal("cannot end", stage.heard()[1].err)
      assert.same({}, stage.others())
    end))

  it("ends its children if the coroutine of its caller is closed", stage.within(function()
    local log, co = {}, nil
    rn.go(function()
      co = coroutine.running()
      rn.supervise { { "a", child(log, "a") } }
    end)
    rn.sleep(1)
    coroutine.close(co)
    rn.sleep(1)
    assert.same({ "+a", "-a" }, log)
  end))

  it("watches flows that children return, and stops them", stage.within(function()
    local flows, failed = {}, 0
    local caller = rn.go(rn.supervise, { { "flow", function()
      flows[#flows + 1] = flow("work", { from = { source = function(put)
        put(1)
        rn.sleep(10)
        if #flows == 1 then error("oops", 0) end
        rn.sleep(1e9)
      end }, to = { function() end }, "from > to" })
      return flows[#flows]
    end } }, { ex_handler = function() failed = failed + 1 end })
    rn.sleep(1000)
    assert.same({ 2, 1 }, { #flows, failed })
    rn.cancel(caller)
    caller:take()
    assert.is_true(flows[2]:done():closed())
  end))

  it("takes what the wait of an object says that a child returns", stage.within(function()
    local told, closed = {}, 0
    local function object(...)
      local results = table.pack(...)
      return setmetatable({ wait = function() return table.unpack(results, 1, results.n) end }, {
        __close = function() closed = closed + 1 end,
      })
    end
    rn.supervise({
      { "lost", function() return object(nil, "the server is lost") end, again = "never" },
      { "well", function() return object(true) end, again = "error" },
    }, { ex_handler = function(err, name) told[#told + 1] = name .. ": " .. err end })
    assert.same({ "lost: the server is lost" }, told)
    assert.equal(2, closed)
  end))

  it("waits for an object that a child returns: until its process has ended, or for ever", stage.within(function()
    local told, log = {}, {}
    -- Its process ends after some ms, with a status, or with an error; without a time it is no process.
    local function object(name, ms, status, err)
      local exit = ms and rn.promise_chan()
      if ms then
        rn.after(ms, function()
          if status then exit:offer { code = status } else exit:close(err) end
        end)
      end
      return function()
        log[#log + 1] = "+" .. name
        return setmetatable({ exit = exit }, { __close = function() log[#log + 1] = "-" .. name end })
      end
    end
    rn.go(rn.supervise, {
      { "well", object("well", 1, 0), again = "error" },
      { "ill", object("ill", 2, 7), again = "never" },
      { "missing", object("missing", 3, nil, "ENOENT"), again = "never" },
      { "server", object "server" },
    }, { ex_handler = function(err, name) told[#told + 1] = name .. ": " .. tostring(err) end })
    rn.sleep(1000)
    for _ = 1, 3 do
      collectgarbage() -- what is waited for is no garbage, although nothing of the program refers to the supervisor
      rn.sleep(1)
    end
    assert.same({ "+well", "+ill", "+missing", "+server", "-well", "-ill", "-missing" }, log)
    assert.same({ "ill: the process has ended with status 7", "missing: ENOENT" }, told)
    for _, entry in ipairs(stage.entries()) do
      if entry.name ~= "server" then rn.cancel(entry.result) end
    end
    rn.sleep(1)
    assert.equal("-server", log[8])
  end))

  it("has limits of its own: five restarts within a minute, after pauses from 100 ms on", stage.within(function()
    local starts, expected = {}, {}
    local function fails()
      starts[#starts + 1] = rn.now()
      error("oops " .. #starts, 0)
    end
    local _, err = pcall(rn.supervise, { { "a", fails } }, { ex_handler = ignore })
    assert.matches("^supervise: gives up after 5 restarts within 60000 ms; the last causes: a: oops 4; a: oops 5; "
      .. "a: oops 6$", err.message)
    assert.equal(6, #starts)
    for i = 1, 5 do
      local pause, whole = starts[i + 1] - starts[i], 100 * 2 ^ (i - 1)
      expected[i] = pause >= whole / 2 - 0.01 and pause <= whole + 0.01
    end
    assert.same({ true, true, true, true, true }, expected)
  end))

  it("does not count a restart any more once its time has passed", stage.within(function()
    for within, expected in pairs { [300] = 10, [301] = 4 } do
      local starts = 0
      pcall(rn.supervise, { { "a", function()
        starts = starts + 1
        rn.sleep(100)
        if starts < 10 then error("oops", 0) end
      end, again = "error" } }, { restarts = 3, within = within, backoff = 0, ex_handler = ignore })
      assert.equal(expected, starts)
    end
    local last = 0
    rn.supervise({ { "a", function()
      last = last + 1
      rn.sleep(100)
      if last < 5 then error("oops", 0) end
    end, again = "error" } }, { restarts = 1, within = 100, backoff = 0, ex_handler = ignore })
    assert.equal(5, last)
  end))

  it("shows children by their names, with their restarts, in ps, :ps and metrics", stage.within(function()
    rn.metrics()
    local caller = rn.go(rn.supervise, { { "poll", function()
      rn.sleep(100)
      error "oops"
    end }, { "web", function() rn.sleep(1e9) end }, { "once", ignore, again = "never" } }, {
      restarts = 100, backoff = 10, ex_handler = ignore,
    })
    rn.sleep(250)
    assert.same({ children = 1, running = 1, restarts = 2, failures = 2 }, rn.metrics().supervised.poll)
    assert.same({ children = 1, running = 0, restarts = 0, failures = 0 }, rn.metrics().supervised.once)
    assert.matches('runnel_supervised_restarts_total{child="poll"} 2\n', rn.metrics():text(), 1, true)
    local text = table.concat((views.go_blocks(200)), "\n")
    assert.matches("poll supervised, 2 restarts", text)
    assert.matches("web supervised, 0 restarts", text)
    rn.cancel(caller)
    caller:take()
    rn.metrics(false)
  end))

  it("says at the caller's line what is wrong with its arguments", function()
    raises("supervise: children: a table expected, got nothing", function() rn.supervise() end)
    raises("supervise: children expected, as in", function() rn.supervise {} end)
    raises("supervise: child 1: a table expected, got a function", function() rn.supervise { print } end)
    raises("supervise: child 1: a name first, as in", function() rn.supervise { { print } } end)
    raises('supervise: child "a": a function expected, got nothing', function() rn.supervise { { "a" } } end)
    raises('supervise: child "a": unknown option "order"', function() rn.supervise { { "a", print, order = 1 } } end)
    raises('supervise: child "a": there is another child of that name',
      function() rn.supervise { { "a", print }, { "a", print } } end)
    raises('supervise: child "a": again: "always", "error" or "never" expected, got "on"',
      function() rn.supervise { { "a", print, again = "on" } } end)
    raises('supervise: order: "one", "rest" or "all" expected, got 1',
      function() rn.supervise({ { "a", print } }, { order = 1 }) end)
    raises("supervise: children: element 2 is nil, although the list goes on",
      function() rn.supervise { { "a", print }, nil, { "b", print } } end)
    raises('supervise: the list of children has a field "order"; options go into a table of their own: rn.supervise%(',
      function() rn.supervise { { "a", print }, order = "all" } end)
    raises('supervise: the list of children has a field "web"; options',
      function() rn.supervise { web = { "a", print } } end)
    rn.supervise(table.pack { "a", print, again = "never" })
    raises("rn.supervise: call it with a dot", function() rn:supervise { { "a", print } } end)
    rn.supervise({ { "a", print, again = "never" } }, { within = 0, backoff = 0, restarts = 0 })
    raises("supervise: restarts: an integer of at least 0 expected, got 1.5",
      function() rn.supervise({ { "a", print } }, { restarts = 1.5 }) end)
  end)

  it("leaves no child behind, wherever one fails and the caller is cancelled, in every order", function()
    local orders = { "one", "rest", "all" }
    search.finds_bug("a child has outlived", function(is_supervised)
      local running = 0
      local function work()
        running = running + 1
        local _ <close> = closing(function() running = running - 1 end)
        for _ = 1, 3 do
          rn.yield()
          if sim.choose(4) == 4 then error("oops", 0) end
        end
      end
      local caller = rn.go(is_supervised and rn.supervise or function() rn.go(work):take() end,
        { { "a", work, again = "error" }, { "b", work }, { "c", work } },
        { order = orders[sim.choose(3)], restarts = 2, backoff = 0, ex_handler = ignore })
      for _ = 1, sim.choose(9) do rn.yield() end
      rn.cancel(caller, "killed")
      caller:take()
      assert(running == 0, "a child has outlived its supervisor")
    end)
  end)
end)

describe("supervise, of processes,", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  it("watches processes that children return, and ends them", function()
    if patience.is_under_valgrind then return pending "valgrind gives a status to a process that cannot start" end
    local path = uv_stage.path ""
    local failed = {}
    local ok, err = pcall(rn.supervise, {
      { "sleeps", function() return uv.spawn { "sleep", "1000" } end },
      { "fails", function() return uv.spawn { "sh", "-c", "echo x >> " .. path .. "; exit 3" } end },
      { "is missing", function() return uv.spawn { "/nowhere/command" } end, again = "never" },
      { "ends", function() return uv.spawn { "true" } end, again = "error" },
    }, { restarts = 2, backoff = 0, ex_handler = function(e, name) failed[#failed + 1] = name .. ": " .. e end })
    assert.is_false(ok)
    assert.matches("fails: the process has ended with status 3", tostring(err))
    local file <close> = assert(io.open(path))
    assert.equal("x\nx\nx\n", file:read "a")
    assert.equal(4, #failed)
    assert.matches("is missing: /nowhere/command: ENOENT", table.concat(failed, "; "))
  end)
end)
