-- What the documents say of go blocks, their errors, and scopes.

local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local claim = require "spec.support.docs.claims"(it)

local function nothing() end

-- Calls f with the list of what is reported meanwhile.
local function reports(f)
  local list = {}
  local before = rn.on_error(function(err, traceback) list[#list + 1] = { tostring(err), traceback, sim.elapsed() } end)
  local ok, why = pcall(f, list)
  rn.on_error(before)
  assert(ok, why)
end

describe("the documents say of go blocks", function()
  claim("`rn.go` never runs the function at once: it starts when its creator parks or ends.", function()
    local started = false
    local result = rn.go(function() started = true end)
    assert.is_false(started)
    result:take()
    assert.is_true(started)
  end)

  claim("it gives `f`'s first result, if that is not nil, and then closes", function()
    local result = rn.go(function() return 1, 2 end)
    assert.same({ 1, n = 1 }, table.pack(result:take()))
    assert.is_nil(result:take())
    assert.same({ nil, "why", n = 2 }, table.pack(rn.go(function() return nil, "why" end):take()))
    assert.same({ nil, n = 1 }, table.pack(rn.go(nothing):take()))
  end)

  claim("That happens 5 s after the error", function()
    sim.run(function()
      reports(function(list)
        rn.go(function() error "not taken" end)
        rn.sleep(20000)
        assert.equal(5000, list[1][3])
        assert.equal(1, #list)
      end)
    end)
  end)

  claim("before a deadlock is raised", function()
    reports(function(list)
      rn.go(function() error "not taken" end)
      assert.is_false(pcall(rn.run, function() rn.chan():take() end))
      assert.equal(1, #list)
    end)
  end)

  claim("A name in a traceback is cut after 200 bytes.", function()
    sim.run(function()
      reports(function(list)
        local name = ("x"):rep(300)
        rn.go(assert(load(("local t = {} function t.%s() error 'no' end t.%s() return 1"):format(name, name), "=t")))
        rn.sleep(20000)
        local longest = 0
        for found in list[1][2]:gmatch "x+" do longest = math.max(longest, #found) end
        assert.equal(200, longest)
      end)
    end)
  end)

  claim("goes on to all taps; once one of them gives it, it counts as taken", function()
    sim.run(function()
      reports(function(list)
        local ch = rn.chan()
        local m = rn.mult(ch)
        local one, other = m:tap(rn.chan()), m:tap(rn.chan())
        ch:close "why"
        assert.same({ nil, "why" }, { one:take() })
        rn.sleep(20000)
        assert.equal(0, #list)
        assert.same({ nil, "why" }, { other:take() })
      end)
    end)
  end)

  claim("as that of `rn.pmap` or `rn.reduce`, or an iterator | closes the channel on which its results are put",
    function()
    local function no() error("no", 0) end
    assert.same({ nil, "no" }, { rn.pmap(1, no, { 1 }):take() })
    assert.same({ nil, "no" }, { rn.frontier(1, no, { 1 }):take() })
    assert.same({ nil, "no" }, { rn.reduce(no, 0, rn.to_chan { 1 }):take() })
    assert.same({ nil, "no" }, { rn.to_chan(no):take() })
    local to = rn.chan()
    assert.same({ nil, "no" }, { rn.onto_chan(to, no):take() })
    assert.same({ nil, "no" }, { to:take() })
  end)

  claim("goes to the handler at once; the value is dropped, and the next one is tried", function()
    sim.run(function()
      reports(function(list)
        local function odd(v)
          if v == 2 then error("no", 0) end
          return v
        end
        local function all(ch) return table.concat(rn.into({}, ch):take(), " ") end
        assert.equal("1 3", all(rn.map(odd, { rn.to_chan { 1, 2, 3 } })))
        assert.equal("1 3", all((rn.split(odd, rn.to_chan { 1, 2, 3 }, 9, 9))))
        local ch = rn.chan()
        local p = rn.pub(ch, function(v) return odd(v) and "topic" end)
        local sub = p:sub("topic", rn.chan(9))
        rn.onto_chan(ch, { 1, 2, 3 })
        assert.equal("1 3", all(sub))
        assert.equal(3, #list)
        for i = 1, 3 do assert.same({ "no", 0 }, { list[i][1], list[i][3] }) end
      end)
    end)
  end)

  claim("a job of `rn.pipeline_async`, a value of `rn.pipeline` | goes to the `ex_handler`; without one, to the "
    .. "handler at once. The others go on", function()
    sim.run(function()
      reports(function(list)
        local function odd(v)
          if v == 2 then error("no", 0) end
          return v
        end
        local function job(v, result)
          result:put(odd(v))
          result:close()
        end
        local function all(ch) return table.concat(rn.into({}, ch):take(), " ") end
        local function from() return rn.to_chan { 1, 2, 3 } end
        assert.equal("1 3", all(rn.pipeline_async(1, rn.chan(), job, from())))
        assert.equal("1 3", all(rn.pipeline(1, rn.chan(), rn.xf.map(odd), from())))
        assert.same({ 2, 0 }, { #list, list[1][3] })
        local function instead(err) return err end
        assert.equal("1 no 3", all(rn.pipeline_async(1, rn.chan(), job, from(), true, { ex_handler = instead })))
        assert.equal("1 no 3", all(rn.pipeline(1, rn.chan(), rn.xf.map(odd), from(), true, instead)))
        assert.equal(2, #list)
      end)
    end)
  end)

  claim("a callback | goes to the handler at once", function()
    sim.run(function()
      reports(function(list)
        local ch = rn.chan(1)
        ch:take_async(function() error "no" end)
        ch:put(1)
        rn.yield()
        assert.equal(1, #list)
        assert.equal(0, list[1][3])
      end)
    end)
  end)

  claim("the error with which you close a channel that the program does not read", function()
    sim.run(function()
      reports(function(list)
        rn.chan():close "nobody reads this"
        rn.sleep(20000)
        assert.equal(0, #list)
      end)
    end)
  end)

  claim("dies of the error after 1000 times, which no `pcall` catches; its `<close>` variables are closed", function()
    local rounds, is_closed = 0, false
    local endless = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() is_closed = true end })
      while true do
        pcall(rn.sleep, 1)
        rounds = rounds + 1
      end
    end)
    rn.yield()
    rn.cancel(endless, "stop")
    assert.same({ nil, "stop" }, { endless:take() })
    assert.equal(1000, rounds)
    assert.is_true(is_closed)
  end)

  claim("Runs ready go blocks for about a millisecond, or at most `max` of them, and does not wait.", function()
    local runs, go_on = 0, true
    for _ = 1, 10 do
      rn.go(function()
        while go_on do
          runs = runs + 1
          rn.yield()
        end
      end)
    end
    assert.equal(0, rn.step(25))
    assert.equal(25, runs)
    go_on = false
    rn.step(100)
    rn.go(rn.sleep, 60000)
    local ms = rn.step()
    assert.is_true(ms > 0 and ms <= 60000, ms)
  end)

  claim("at the latest after the next 16 runs of go blocks, of which some may be long", function()
    local runs, at = 0, nil
    local go_on = true
    rn.go(function()
      rn.sleep(1)
      at = runs
    end)
    rn.yield()
    local function busy()
      while go_on do
        runs = runs + 1
        local ends = os.clock() + 0.002
        while os.clock() < ends do end -- longer than the sleep
        rn.yield()
      end
    end
    for _ = 1, 4 do rn.go(busy) end
    for _ = 1, 40 do
      if at then break end
      rn.yield()
    end
    go_on = false
    rn.yield()
    assert.is_true(at and at <= 17, at)
  end)

  claim("A parked go block takes about 1.3 KB", function()
    local ch = rn.chan()
    for round = 1, 2 do -- in the first one, tables grow
      collectgarbage()
      collectgarbage()
      local before = collectgarbage "count"
      for _ = 1, 1000 do rn.go(function() ch:take() end) end
      rn.yield()
      local each = (collectgarbage "count" - before) / 1000
      for _ = 1, 1000 do ch:put(true) end
      rn.yield()
      if round == 2 then assert.is_true(each > 0.9 and each < 1.7, each) end
    end
  end)
end)

describe("the documents say of scopes", function()
  claim("by default `\"cancelled\"`. Returns false if it has already ended", function()
    local block = rn.go(function() rn.chan():take() end)
    rn.yield()
    assert.is_true(rn.cancel(block))
    assert.same({ nil, "cancelled" }, { block:take() })
    assert.is_false(rn.cancel(block))
  end)

  claim("A value that was about to be put is not put; a value that was taken is not lost.", function()
    local ch = rn.chan()
    local block = rn.go(function() ch:put(1) end)
    rn.yield()
    rn.cancel(block)
    block:take()
    assert.is_nil(ch:poll())
    local got
    local taker = rn.go(function() got = ch:take() end)
    rn.yield()
    ch:put(2)
    rn.cancel(taker)
    taker:take()
    assert.equal(2, got)
  end)

  claim("each later operation that would wait raises it again, until the go block has ended; what need not "
    .. "wait, such as a put where there is room, still works", function()
    local ch, errors = rn.chan(1), {}
    local block = rn.go(function()
      for i = 1, 3 do errors[i] = select(2, pcall(rn.sleep, 1000)) end
      return ch:put "room"
    end)
    rn.yield()
    rn.cancel(block, "why")
    assert.is_true(block:take())
    assert.same({ "why", "why", "why" }, errors)
    assert.equal("room", ch:poll())
  end)

  claim("Another `rn.cancel` ends that wait.", function()
    if not stage.is_5_4_3 then return end
    sim.run(function()
      local is_closing = false
      local block = rn.go(function()
        local _ <close> = setmetatable({}, { __close = function()
          is_closing = true
          rn.sleep(1000)
        end })
        rn.sleep(1000)
      end)
      rn.yield()
      rn.cancel(block)
      rn.yield()
      assert.is_true(is_closing)
      assert.is_true(rn.cancel(block))
      rn.yield()
      assert.is_true(block:closed())
      assert.equal(0, sim.elapsed())
    end)
  end)

  claim("A single go block that is cancelled with `rn.cancel` does not affect the others.", function()
    assert.equal("others", rn.scope(function(s)
      local one = s:go(function() rn.chan():take() end)
      local other = s:go(function()
        rn.yield()
        return "others"
      end)
      rn.yield()
      rn.cancel(one)
      return other:take()
    end))
  end)

  claim("After `s:cancel`, a function that returns normally gives its results", function()
    assert.equal("answer", rn.scope(function(s)
      s:go(function() rn.chan():take() end)
      s:cancel()
      return "answer"
    end))
  end)

  claim("get the error once for each cancel", function()
    local errors = 0
    local results = rn.pmap(1, function()
      for _ = 1, 3 do
        if not pcall(rn.sleep, 1) then errors = errors + 1 end
      end
    end, { 1 })
    rn.yield()
    for _, block in ipairs(rn.ps()) do
      if block.result and block.state == "sleeping" then rn.cancel(block.result) end
    end
    assert.is_nil(results:take())
    assert.equal(1, errors)
  end)
end)
