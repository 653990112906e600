local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Runs f in a simulation and returns the errors that were reported.
local function collecting(f)
  local heard = {}
  local previous = rn.on_error(function(err, _, name) heard[#heard + 1] = { err = err, name = name, at = rn.now() } end)
  local ok, err = pcall(sim.run, f, nil, heard)
  rn.on_error(previous)
  if not ok then error(err, 0) end
  return heard
end

local function errors(heard)
  local list = {}
  for i, it in ipairs(heard) do list[i] = it.err end
  return list
end

local function failing(message) return rn.go(error, message or "bad", 0) end

describe("an error of a go block", function()
  describe("that somebody takes is not reported:", function()
    local takes = {
      { "by take", function(result) return result:take() end },
      { "by poll", function(result)
        rn.yield()
        return result:poll()
      end },
      { "by alts, which give it third", function(result)
        local value, _, err = rn.alts { result, rn.chan() }
        return value, err
      end },
      { "by alt", function(result)
        return rn.alt { { result, function(value, _, err) return value, err end } }
      end },
      { "by a callback", function(result)
        local got = rn.promise_chan()
        result:take_async(function(_, err) got:put(err) end)
        return nil, got:take()
      end },
      { "a second later", function(result)
        rn.sleep(1000)
        return result:take()
      end },
      { "through into", function(result) return rn.into({}, result):take() end },
      { "through reduce", function(result) return rn.reduce(print, 0, result):take() end },
      { "through pipe", function(result) return rn.pipe(result, rn.chan()):take() end },
      { "through merge", function(result) return rn.merge({ rn.to_chan {}, result }):take() end },
      { "through map", function(result) return rn.map(print, { result }):take() end },
      { "through take", function(result) return rn.take(3, result):take() end },
      { "through split", function(result) return rn.split(print, result):take() end },
      { "through mult", function(result) return rn.mult(result):tap(rn.chan()):take() end },
      { "through pub", function(result) return rn.pub(result, type):sub("string", rn.chan()):take() end },
      { "through pipeline", function(result) return rn.pipeline(2, rn.chan(), rn.xf.dedupe(), result):take() end },
      { "through pipeline_async", function(result) return rn.pipeline_async(2, rn.chan(), print, result):take() end },
      { "through pipeline_async_unordered",
        function(result) return rn.pipeline_async_unordered(2, rn.chan(), print, result):take() end },
    }
    for _, case in ipairs(takes) do
      it(case[1], function()
        local heard = collecting(function()
          assert.same({ nil, "bad" }, { case[2](failing()) })
          rn.sleep(60000)
        end)
        assert.same({}, errors(heard))
      end)
    end

    it("in a scope, which raises it", function()
      local heard = collecting(function()
        assert.same({ false, "bad" }, { pcall(rn.scope, function(s) s:go(error, "bad", 0) end) })
      end)
      assert.same({}, errors(heard))
    end)
  end)

  describe("that nobody takes is reported once:", function()
    local function check(f)
      assert.same({ "bad" }, errors(collecting(function()
        f()
        rn.sleep(60000)
      end)))
    end

    it("its result channel is dropped", function() check(failing) end)
    it("its result channel is kept", function()
      local result
      check(function() result = failing() end)
      assert.is_true(rn.is_chan(result))
    end)
    it("it goes through a for loop, which drops it", function()
      check(function()
        for _ in failing() do error "never" end
      end)
    end)
    it("it goes through a for loop that had to wait", function()
      check(function()
        for _ in rn.go(function()
          rn.sleep(1)
          error("bad", 0)
        end) do error "never" end
      end)
    end)
    it("the channel on which it was passed is dropped", function()
      check(function() rn.merge { failing(), rn.chan() } end)
    end)
    it("a for loop over a merge", function()
      check(function()
        for _ in rn.merge { failing() } do error "never" end
      end)
    end)
    it("a pipe that leaves its target open", function() check(function() rn.pipe(failing(), rn.chan(), false) end) end)
    it("a pipe to what is closed", function()
      check(function()
        local to = rn.chan()
        to:close()
        rn.pipe(failing(), to)
      end)
    end)
    it("an input of a mix", function() check(function() rn.mix(rn.chan()):admix(failing()) end) end)
    it("a mult without a tap", function() check(function() rn.mult(failing()) end) end)
    it("a pub without a subscriber", function() check(function() rn.pub(failing(), type) end) end)
    it("it was looked for with closed, stats and done only", function()
      check(function()
        local result = failing()
        result:done():take()
        assert.is_true(result:closed() and result:stats().closed)
      end)
    end)
  end)

  it("that is the second of a merge is reported, while the first is taken", function()
    local taken
    local heard = collecting(function()
      taken = select(2, rn.merge({ failing "one", failing "two" }):take())
    end)
    assert.same({ taken == "one" and "two" or "one" }, errors(heard))
  end)

  for _, reason in ipairs { false, "mine" } do
    local how = reason and "with another error" or "without one"
    it("is reported though the program takes what its result channel gives, which it has closed " .. how, function()
      for _, is_late in ipairs { false, true } do
        local heard = collecting(function()
          local result = rn.go(function()
            rn.sleep(5)
            error("bad", 0)
          end)
          rn.yield()
          result:close(reason or nil)
          if is_late then rn.sleep(10) end
          assert.same({ nil, reason or nil }, { result:take() })
          rn.sleep(60000)
        end)
        assert.same({ "bad" }, errors(heard))
      end
    end)
  end

  it("can still be taken after it was reported, after 5 s", function()
    local heard = collecting(function(heard)
      local result = failing()
      rn.sleep(4999)
      assert.same({}, errors(heard))
      rn.sleep(2)
      assert.same({ "bad" }, errors(heard))
      assert.equal(5000, heard[1].at)
      assert.same({ nil, "bad" }, { result:take() })
    end)
    assert.equal(1, #heard)
  end)

  it("that is nil is reported at once, since a taker could not see it", function()
    collecting(function(heard)
      local result = rn.go(error)
      result:take()
      assert.equal(stage.raised_nil and 0 or 1, #heard) -- Lua 5.5 makes a text of it, which was taken
    end)
  end)

  it("is reported before a deadlock, and the handler may end that", function()
    local ch = rn.chan()
    local previous = rn.on_error(function(err) ch:put_async(err) end)
    local ok, value = pcall(sim.run, function()
      failing()
      return ch:take()
    end)
    rn.on_error(previous)
    assert.same({ true, "bad" }, { ok, value })
  end)

  it("of the main program's go blocks waits until rn.run() has returned", function()
    local result = failing()
    rn.run()
    assert.same({ nil, "bad" }, { result:take() })
    local heard = {}
    local previous = rn.on_error(function(err) heard[#heard + 1] = err end)
    core.internal.report_unhandled()
    rn.on_error(previous)
    assert.same({}, heard)
  end)

  it("is one of those that wait, of which there are 1000: the oldest is reported", function()
    collecting(function(heard)
      for i = 1, 1010 do failing(i) end
      rn.sleep(1)
      assert.equal(10, #heard)
      assert.equal(1, heard[1].err)
      assert.equal(10, heard[10].err)
    end)
  end)

  it("that is taken by one of many takers is not reported, and those of the same text are told apart", function()
    local heard = collecting(function()
      local one, other = failing "same", failing "same"
      local merged = rn.merge { one }
      rn.sleep(1)
      assert.same({ nil, "same" }, { other:take() })
      assert.is_true(merged:closed())
    end)
    assert.same({ "same" }, errors(heard))
  end)

  describe("in a script of lua5.4", function()
    it("is reported when the program ends, with what a table holds", function()
      local output, status = stage.script [[
        local rn = require "runnel"
        local kept = rn.go(function() error { message = "no such host", code = 7, parts = {} } end)
        rn.go(function() error { code = 8, final = true } end)
        rn.go(function() error {} end)
        rn.go(function() error(setmetatable({ message = "x" }, { __tostring = function() return "its text" end })) end)
        rn.run()
        print "end"
      ]]
      assert.equal(0, status)
      assert.matches("\nend\n", "\n" .. output)
      assert.matches("runnel: error in [^\n]*: no such host %(code = 7%)\nstack traceback:", output)
      assert.matches(": { code = 8, final = true }\n", output)
      assert.matches(": table: 0x%x+\n", output)
      assert.matches(": its text\n", output)
    end)

    for _, exit in ipairs { "os.exit(true, true)", "rn.exit()" } do
      it("is reported once where " .. exit .. " ends the program in a simulation", function()
        local output, status = stage.script(([[
          local rn = require "runnel"
          rn.go(error, "taken"):take()
          rn.go(error, "outer")
          rn.yield()
          require("runnel.sim").run(function()
            rn.go(error, "inner")
            rn.yield()
            %s
          end)
        ]]):format(exit))
        assert.equal(exit == "rn.exit()" and 1 or 0, status)
        local told = {}
        for message in output:gmatch "runnel: error in [^\n]*: (%l+)\n" do told[#told + 1] = message end
        table.sort(told)
        assert.same({ "inner", "outer" }, told)
      end)
    end

    it("is reported and fails where the script ends by rn.exit in a simulation without errors of its own", function()
      local output, status = stage.script [[
        local rn = require "runnel"
        rn.go(error, "outer")
        rn.yield()
        require("runnel.sim").run(function() rn.exit() end)
      ]]
      assert.equal(1, status)
      assert.matches("^runnel: error in [^\n]*: outer\n", output)
    end)

    it("is not reported by a simulation that goes on", function()
      local output = stage.script [[
        local rn = require "runnel"
        local result = rn.go(error, "taken")
        rn.yield()
        require("runnel.sim").run(function() rn.sleep(60000) end)
        print(result:take())
      ]]
      assert.equal("nil\ttaken\n", output)
    end)

    it("is reported and fails where the script ends by rn.exit", function()
      local output, status = stage.script [[
        local rn = require "runnel"
        rn.go(error, "lost")
        rn.yield()
        rn.exit()
      ]]
      assert.equal(1, status)
      assert.matches("^runnel: error in [^\n]*: lost\n", output)
    end)
  end)
end)

-- A channel that the program closes with an error, now or after a while.
local function closed_with(err)
  local ch = rn.chan()
  ch:close(err)
  return ch
end

local function closing_with(err)
  local ch = rn.chan()
  rn.go(function()
    rn.sleep(1)
    ch:close(err)
  end)
  return ch
end

local function loop(ch)
  for _ in ch do error "never" end
end

-- What passes the error of a channel on, to the channel that it returns.
local passing = {
  into = function(ch) return rn.into({}, ch) end,
  reduce = function(ch) return rn.reduce(print, 0, ch) end,
  transduce = function(ch) return rn.transduce(rn.xf.dedupe(), print, 0, ch) end,
  pipe = function(ch) return rn.pipe(ch, rn.chan()) end,
  merge = function(ch) return rn.merge { ch, rn.to_chan {} } end,
  map = function(ch) return rn.map(print, { ch }) end,
  take = function(ch) return rn.take(3, ch) end,
  split = function(ch) return (rn.split(print, ch)) end,
  mult = function(ch) return rn.mult(ch):tap(rn.chan()) end,
  pub = function(ch) return rn.pub(ch, type):sub("string", rn.chan()) end,
  pmap = function(ch) return rn.pmap(3, print, ch) end,
  pmap_unordered = function(ch) return rn.pmap_unordered(3, print, ch) end,
  pipeline = function(ch) return rn.pipeline(2, rn.chan(), rn.xf.dedupe(), ch) end,
  pipeline_async = function(ch) return rn.pipeline_async(2, rn.chan(), print, ch) end,
  pipeline_async_unordered = function(ch) return rn.pipeline_async_unordered(2, rn.chan(), print, ch) end,
}

describe("the error with which the program has closed a channel", function()
  local function reported(f)
    return errors(collecting(function()
      f()
      rn.sleep(60000)
    end))
  end

  it("is reported once if a for loop drops it, with its name and line", function()
    local heard = {}
    local previous = rn.on_error(function(...) heard[#heard + 1] = { ... } end)
    sim.run(function()
      loop(closed_with "bad":name "lines")
      rn.sleep(4999)
      assert.same({}, heard)
      rn.sleep(60000)
    end)
    rn.on_error(previous)
    assert.equal(1, #heard)
    assert.same({ "bad", "chan: lines" }, { heard[1][1], heard[1][3] })
    assert.matches("^stack traceback:\n[^\n]*unhandled_spec%.lua:%d+: in [^\n]*loop", heard[1][2])
  end)

  it("is reported once if a for loop that had to wait drops it", function()
    assert.same({ "bad" }, reported(function() loop(closing_with "bad") end))
  end)

  it("is reported once if several for loops drop it", function()
    assert.same({ "bad" }, reported(function()
      local ch = closing_with "bad"
      rn.go(loop, ch)
      rn.go(loop, ch)
      loop(ch)
      loop(ch)
    end))
  end)

  it("is not reported if it is taken after the loop, meanwhile, or before", function()
    assert.same({}, reported(function()
      local ch = closed_with "bad"
      loop(ch)
      rn.sleep(4000)
      assert.same({ nil, "bad" }, { ch:take() })
      local other = closing_with "bad"
      rn.go(other.take, other)
      loop(other)
      local before = closed_with "bad"
      before:take()
      loop(before)
    end))
  end)

  it("is not reported if nobody reads the channel any more", function()
    assert.same({}, reported(function()
      closed_with "bad"
      local ch = rn.chan(2)
      rn.onto_chan(ch, { 1, 2 }, false)
      rn.yield()
      assert.equal(1, ch())
      ch:close "bad"
    end))
  end)

  it("is reported once if a for loop of the main program drops it", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local ch = rn.chan()
      rn.go(function() ch:close "the disk is full" end)
      for _ in ch do error "never" end
      for _ in ch do error "never" end
      rn.exit()
    ]]
    assert.equal(1, status)
    assert.matches("^runnel: error in chan: #%d+: the disk is full\nstack traceback:\n[^\n]*:4: in main chunk", output)
    assert.equal(1, select(2, output:gsub("the disk is full", "")))
  end)

  it("is reported once if a for loop over a shared channel drops it, and not if somebody takes it", function()
    for _, start in ipairs { closed_with, closing_with } do
      for _, is_taken in ipairs { false, true } do
        local heard = {}
        local previous = rn.on_error(function(err) heard[#heard + 1] = err end)
        local ch = rn.shared_chan()
        rn.pipe(start "bad", ch)
        loop(ch)
        if is_taken then assert.same({ nil, "bad" }, { ch:take() }) end
        core.internal.report_unhandled()
        rn.on_error(previous)
        assert.same(is_taken and {} or { "bad" }, heard)
      end
    end
  end)

  local names = {}
  for name in pairs(passing) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("is reported once, or taken, where " .. name .. " passes it on", function()
      for _, start in ipairs { closed_with, closing_with } do
        assert.same({ "bad" }, reported(function() passing[name](start "bad") end))
        assert.same({ "bad" }, reported(function() loop(passing[name](start "bad")) end))
        assert.same({ "bad" }, reported(function() loop(rn.pipe(passing[name](start "bad"), rn.chan())) end))
        assert.same({}, reported(function() assert.same({ nil, "bad" }, { passing[name](start "bad"):take() }) end))
        assert.same({}, reported(function()
          local ch = passing[name](start "bad")
          loop(ch)
          assert.same({ nil, "bad" }, { ch:take() })
        end))
      end
    end)
  end

  it("is reported once where all ends of a split, a mult or a pub are read by loops", function()
    assert.same({ "bad" }, reported(function()
      local yes, no = rn.split(print, closing_with "bad")
      rn.go(loop, yes)
      loop(no)
    end))
    assert.same({ "bad" }, reported(function()
      local m = rn.mult(closing_with "bad")
      rn.go(loop, m:tap(rn.chan()))
      loop(m:tap(rn.chan()))
      loop(m:tap(rn.chan()))
    end))
    assert.same({ "bad" }, reported(function()
      local p = rn.pub(closing_with "bad", type)
      for _, topic in ipairs { "string", "number", "table" } do rn.go(loop, p:sub(topic, rn.chan())) end
      rn.sleep(10)
      loop(p:sub("late", rn.chan()))
    end))
  end)

  it("is reported where it is passed on to no channel", function()
    assert.same({ "bad" }, reported(function() rn.pipe(closed_with "bad", rn.chan(), false) end))
    assert.same({ "bad" }, reported(function() rn.mix(rn.chan()):admix(closed_with "bad") end))
    assert.same({ "bad" }, reported(function() rn.mult(closed_with "bad") end))
  end)

  it("is taken where a mult without a tap, or a pub without a subscriber, passes it on to a later one", function()
    assert.same({}, reported(function()
      local m, p = rn.mult(closed_with "bad"), rn.pub(closed_with "worse", type)
      rn.sleep(1000)
      assert.same({ nil, "bad" }, { m:tap(rn.chan()):take() })
      assert.same({ nil, "worse" }, { p:sub("string", rn.chan()):take() })
    end))
  end)

  it("is not reported again where it is passed on later than it was reported", function()
    assert.same({ "bad" }, reported(function()
      local ch = closed_with "bad"
      loop(ch)
      rn.sleep(6000)
      loop(rn.pipe(ch, rn.chan()))
    end))
    assert.same({ "bad" }, reported(function()
      local result = failing()
      rn.sleep(6000)
      loop(rn.pipe(result, rn.chan()))
    end))
  end)
end)

describe("an error with which a go block also closes a channel of the program's, by a variable,", function()
  local function reported(f)
    return errors(collecting(function()
      f()
      rn.sleep(60000)
    end))
  end

  -- A go block that dies. Returns the channel that it closes, and its result channel.
  local function dying(err)
    local ch = rn.chan()
    return ch, rn.go(function()
      local out <close> = ch -- luacheck: ignore
      rn.sleep(1)
      error(err, 0)
    end)
  end

  -- The same, but it still waits when it has closed the channel.
  local function dying_slowly(err)
    local ch, wait = rn.chan(), stage.is_5_4_3 and rn.sleep or type
    return ch, rn.go(function()
      local outer <close> = setmetatable({}, { __close = function() wait(10) end }) -- luacheck: ignore
      local out <close> = ch -- luacheck: ignore
      rn.sleep(1)
      error(err, 0)
    end)
  end

  for number, start in ipairs { dying, dying_slowly } do
    local when = number == 1 and "" or ", and then waits"
    it("is reported once if nobody takes it" .. when, function()
      assert.same({ "bad" }, reported(function() start "bad" end))
      assert.same({ "bad" }, reported(function() loop((start "bad")) end))
      assert.same({ "bad" }, reported(function()
        local ch, result = start "bad"
        rn.go(loop, result)
        loop(ch)
      end))
    end)

    it("is not reported if it is taken from either" .. when, function()
      assert.same({}, reported(function() assert.same({ nil, "bad" }, { (start "bad"):take() }) end))
      assert.same({}, reported(function()
        local _, result = start "bad"
        assert.same({ nil, "bad" }, { result:take() })
      end))
      assert.same({}, reported(function()
        local ch, result = start "bad"
        loop(ch)
        assert.same({ nil, "bad" }, { result:take() })
      end))
      assert.same({}, reported(function()
        local ch, result = start "bad"
        loop(result)
        assert.same({ nil, "bad" }, { ch:take() })
      end))
    end)

    local names = {}
    for name in pairs(passing) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      it("is reported once, or taken, where " .. name .. " passes it on" .. when, function()
        assert.same({ "bad" }, reported(function() passing[name]((start "bad")) end))
        assert.same({ "bad" }, reported(function() loop(passing[name]((start "bad"))) end))
        assert.same({}, reported(function() assert.same({ nil, "bad" }, { passing[name]((start "bad")):take() }) end))
      end)
    end
  end

  it("is taken there also if the program has closed the result channel before", function()
    for _, takes in ipairs { true, false } do
      local heard = collecting(function()
        local out = rn.chan()
        local result = rn.go(function()
          local _ <close> = out
          rn.sleep(5)
          error("bad", 0)
        end)
        rn.yield()
        result:close "mine"
        assert.same({ nil, "mine" }, { result:take() })
        if takes then assert.same({ nil, "bad" }, { out:take() }) end
        rn.sleep(60000)
      end)
      assert.same(takes and {} or { "bad" }, errors(heard))
    end
  end)

  it("is reported once where it closes several, one of them the result of another go block", function()
    local function close_all()
      local chs = { rn.chan(), rn.chan(), rn.chan() }
      local other = rn.go(rn.sleep, 100)
      rn.go(function()
        local a <close> = chs[1] -- luacheck: ignore
        local b <close> = chs[2] -- luacheck: ignore
        local c <close> = other -- luacheck: ignore
        local d <close> = chs[3] -- luacheck: ignore
        error("bad", 0)
      end)
      return chs, other
    end
    assert.same({ "bad" }, reported(function()
      local chs, other = close_all()
      for _, ch in ipairs(chs) do loop(ch) end
      other:take()
    end))
    for i = 1, 3 do
      assert.same({}, reported(function()
        local chs, other = close_all()
        rn.go(loop, chs[i % 3 + 1])
        assert.same({ nil, "bad" }, { chs[i]:take() })
        assert.same({ nil, "bad" }, { other:take() })
      end))
    end
  end)

  it("is reported where another error replaces it, and is another one", function()
    assert.same({ "second" }, reported(function()
      local ch = rn.chan()
      rn.go(function()
        local outer <close> = setmetatable({}, { __close = function() error("second", 0) end }) -- luacheck: ignore
        local out <close> = ch -- luacheck: ignore
        error("first", 0)
      end)
      assert.same({ nil, "first" }, { ch:take() })
    end))
  end)

  it("goes to the handlers of a pipeline once", function()
    local function job(v, result)
      rn.go(function()
        local out <close> = result
        if v == 2 then error("bad", 0) end
        out:put(v)
      end)
    end
    local function start(handler)
      return rn.pipeline_async(2, rn.chan(), job, rn.to_chan { 1, 2, 3 }, true, handler)
    end
    assert.same({ "bad" }, reported(function() assert.same({ 1, 3 }, start():list()) end))
    assert.same({}, reported(function()
      assert.same({ 1, "handled", 3 }, start({ ex_handler = function() return "handled" end }):list())
    end))
  end)
end)

it("a for loop does not report the error of a go block, or of what it feeds, that was cancelled", function()
  assert.same({}, errors(collecting(function()
    local result = rn.go(rn.sleep, 10000)
    local out = rn.pipe(rn.chan(), rn.chan())
    rn.yield()
    for _, block in ipairs(rn.ps()) do
      if block.name:match "^pipe" then rn.cancel(block.result) end
    end
    rn.cancel(result)
    loop(result)
    loop(out)
    rn.sleep(60000)
  end)))
end)

it("a for loop over what a go block of the library feeds drops the error with which that dies: one report", function()
  assert.same({ "bad" }, errors(collecting(function()
    loop(rn.to_chan(function() error("bad", 0) end))
    rn.sleep(60000)
  end)))
end)

describe("core.internal.fail", function()
  local fail = core.internal.fail

  it("closes a channel with an error that is reported once, also if a for loop drops it", function()
    local heard = collecting(function()
      local ch, other = rn.chan(), rn.chan()
      rn.go(loop, other)
      rn.yield()
      assert.is_true(fail(ch:name "a stream", "one"))
      assert.is_true(fail(other, "two", "stack traceback:", "the file x"))
      loop(ch)
      rn.sleep(60000)
    end)
    assert.same({ "one", "two" }, errors(heard))
    assert.same({ "chan: a stream", "the file x" }, { heard[1].name, heard[2].name })
  end)

  it("does not report what somebody takes, now or later", function()
    assert.same({}, errors(collecting(function()
      local ch, other, passed = rn.chan(), rn.shared_chan(), rn.chan()
      local got = rn.go(function() return select(2, ch:take()) end)
      rn.yield()
      fail(ch, "bad")
      fail(other, "bad")
      fail(passed, "bad")
      assert.equal("bad", got:take())
      assert.same({ nil, "bad" }, { other:take() })
      assert.same({ nil, "bad" }, { rn.into({}, passed):take() })
      rn.sleep(60000)
    end)))
  end)

  it("does nothing to a closed channel, which the program does not want to read any more", function()
    assert.same({}, errors(collecting(function()
      for _, ch in ipairs { rn.chan(), rn.shared_chan() } do
        ch:close()
        assert.is_false(fail(ch, "bad"))
        assert.same({ nil, nil }, { ch:take() })
      end
      rn.sleep(60000)
    end)))
    assert.error_matches(function() fail(rn.chan()) end, "an error expected")
  end)
end)
