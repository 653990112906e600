-- Coroutines of go blocks that somebody else closes or resumes, at inconvenient moments.
local rn = require "runnel"
local finalizers = require "spec.support.finalizers"
local gc = require "spec.support.gc"
local long = require "spec.support.long"
local stage = require "spec.support.stage"
local xforms = require "spec.support.xforms"

describe("run", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, meddle in ipairs { "close", "resume" } do
    it(("raises when somebody else has used coroutine.%s on what it runs"):format(meddle), function()
      local ok, err = pcall(rn.run, function()
        local me = coroutine.running()
        rn.go(function() coroutine[meddle](me) end)
        pcall(rn.sleep, 1000) -- that fails where it is resumed; and then it goes on, outside any go block
        return "a result", "that nobody gets"
      end)
      assert.is_false(ok)
      assert.matches("closed or resumed by other code", err)
      assert.same({}, stage.others())
      assert.equal("fine", rn.run(function() return "fine" end))
    end)
  end
end)

describe("a go block that closes its own coroutine", function()
  before_each(stage.open)
  after_each(stage.close)

  local function close_running() coroutine.close(coroutine.running()) end

  -- Lua 5.4 refuses that, by an error that the go block can catch.
  local function since_5_5(title, f)
    it(title, _VERSION ~= "Lua 5.4" and f or function()
      local ok, err = rn.run(pcall, close_running)
      assert.is_false(ok)
      assert.matches("cannot close a running coroutine", err)
    end)
  end

  since_5_5("dies of that, and its variables are closed", function()
    local closed = false
    local _, err = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() closed = true end })
      pcall(pcall, close_running)
      return "not reached"
    end):take()
    assert.matches("closed or resumed by other code", err)
    assert.is_true(closed)
    assert.same({}, stage.others())
  end)

  since_5_5("dies of the error of a variable that this closes, which cannot wait there", function()
    local _, err = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() rn.sleep(1) end })
      close_running()
    end):take()
    assert.matches("would have to wait, which is impossible", err)
  end)

  since_5_5("is reported if nobody takes its error", function()
    rn.go(close_running)
    rn.yield()
    assert.matches("closed or resumed by other code", stage.heard()[1].err)
  end)

  since_5_5("fails rn.run", function()
    assert.equal(2, select("#", pcall(rn.run, close_running)))
    assert.matches("closed or resumed by other code", select(2, pcall(rn.run, close_running)))
    assert.equal("fine", rn.run(function() return "fine" end))
  end)

  since_5_5("may do so while its variables are closed after an error", function()
    local order = {}
    local _, err = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() order[#order + 1] = "outer" end })
      local _ <close> = setmetatable({}, { __close = close_running })
      local _ <close> = setmetatable({}, { __close = function() order[#order + 1] = "inner" end })
      error "first"
    end):take()
    assert.matches("closed or resumed by other code", err)
    assert.same({ "inner", "outer" }, order)
    assert.same({}, stage.others())
  end)

  since_5_5("is a failed job of a pipeline, which goes on", function()
    local errors = {}
    local function job(v)
      if v == 2 then close_running() end
      return v
    end
    local function failed(err) errors[#errors + 1] = err end
    assert.same({ 1, 3 }, rn.into({}, rn.pmap(2, job, { 1, 2, 3 }, { ex_handler = failed })):take())
    assert.equal(1, #errors)
    assert.matches("closed or resumed by other code", errors[1])
  end)
end)

describe("a coroutine that a finalizer makes", function()
  -- Lua gives a new coroutine the hook of the one that makes it.
  it("while a dying go block's variables are being closed is as any other", function()
    local made, closing, results = {}, 0, {}
    finalizers.among(function()
      if #made == 200 then return end
      local co = coroutine.create(function(...) return select("#", ...), (tostring(...)) end)
      made[#made + 1] = co
      if debug.gethook(co) then
        closing = closing + 1
        results[#results + 1] = rn.go(function(value) return tostring(value) end, "started")
      end
    end, function()
      for i = 1, 20 do
        local _, err = rn.go(function()
          local _ <close> = setmetatable({}, { __close = function(_, err) assert(err == i) end })
          error(i)
        end):take()
        assert.equal(i, err)
      end
    end)
    assert.is_true(closing > 0, "no finalizer ran while variables were being closed")
    for _, co in ipairs(made) do
      assert.same({ true, 1, "value" }, { coroutine.resume(co, "value") })
      assert.is_nil(debug.gethook(co))
    end
    for _, result in ipairs(results) do assert.equal("started", (result:take())) end
    assert.same({}, stage.others())
  end)
end)

describe("a go block whose coroutine somebody else closes", function()
  before_each(stage.open)
  after_each(stage.close)

  -- A go block that parks in f; returns its coroutine and result channel.
  local function parked(f, ...)
    local co
    local result = rn.go(function(...)
      co = coroutine.running()
      f(...)
    end, ...)
    rn.step()
    return co, result
  end

  it("may be all that held the channel it waited on", function()
    gc.incremental(100, 1000, 1)
    for i = 1, long.times(100, 1000) do
      local co, result = parked(function()
        local ch = rn.chan(1)
        if i % 3 == 0 then rn.alts { ch, rn.chan() } else ch:take() end
      end)
      if i % 2 == 0 then collectgarbage() end -- its channels keep it now
      coroutine.close(co)
      local value, err = result:take()
      assert.is_nil(value)
      assert.matches("closed or resumed by other code", err)
    end
    gc.usual()
    assert.same({}, stage.others())
  end)

  it("may run a collection where it waits on many channels, among many other go blocks", function()
    local chs = {}
    for i = 1, 1100 do
      chs[i] = rn.chan()
      rn.go(function() chs[i]:take() end)
    end
    rn.step(5000)
    for _ = 1, 12 do
      local co, result = parked(function()
        local _ <close> = setmetatable({}, { __close = function() for _ = 1, 3 do collectgarbage() end end })
        local ops = {}
        for i = 1, 100 do ops[i] = rn.chan() end
        rn.alts(ops)
      end)
      coroutine.close(co)
      assert.matches("closed or resumed by other code", (select(2, result:poll())))
    end
    for i = 1, 1100 do chs[i]:close() end
    rn.step(5000)
  end)

  -- In an interpreter of its own: the more there is in memory, the fewer collections Lua makes in a call of rn.ps.
  it("may be closed by a finalizer while rn.ps describes it", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local gc = require "spec.support.gc"
      local parks = {
        function() rn.chan():take() end,
        function() rn.chan():put(1) end,
        function() rn.alts { rn.chan(), { rn.chan(), 1 } } end,
        function() rn.sleep(60000) end,
      }
      for i, park in ipairs(parks) do
        local nth, runs = 0, 0
        repeat -- at the first collection, at the second, and so on
          nth, runs = nth + 1, 0
          local co
          local result = rn.go(function()
            co = coroutine.running()
            park()
          end)
          rn.step()
          local mt = {}
          mt.__gc = function()
            runs = runs + 1
            if runs == nth then coroutine.close(co) elseif runs < nth then setmetatable({}, mt) end
          end
          gc.always()
          collectgarbage()
          setmetatable({}, mt)
          local list = rn.ps()
          gc.usual()
          for _, entry in ipairs(list) do assert(type(entry.state) == "string") end
          local all = runs < nth
          runs = nth
          coroutine.close(co)
          local _, err = result:poll()
          assert(err:find "closed or resumed by other code", err)
        until all
        assert(nth > 4, nth)
        print(i)
      end
    ]]
    assert.same({ "1\n2\n3\n4\n", 0 }, { output, status })
  end)

  it("while its put goes through a transducer ends, and the take completes", function()
    local co, result
    local ch = rn.chan(1, xforms.map(function(v)
      if v == "second" then
        assert(coroutine.close(co))
        co, result = nil, result:poll()
        collectgarbage()
      end
      return v
    end))
    ch:put "first"
    co, result = parked(ch.put, ch, "second")
    assert.equal("first", ch:take())
    assert.equal("second", ch:take())
    assert.same({}, stage.others())
    assert.is_nil(result)
  end)

  it("while a policy looks for its value ends, and the value is lost", function()
    local co
    local values = {}
    local ch = rn.chan {
      full = function() return false end,
      add = function(_, v) values[#values + 1] = v end,
      remove = function()
        if co then coroutine.close(co) end
        co = nil
        collectgarbage()
        return table.remove(values, 1)
      end,
      count = function() return #values end,
    }
    co = parked(ch.take, ch)
    assert.is_true(ch:put "lost with its taker")
    assert.is_true(ch:put "kept")
    assert.equal("kept", ch:take())
    assert.same({}, stage.others())
  end)

  it("or resumed by a finalizer, when it has yielded by itself, ends #heavy", function()
    for _, meddle in ipairs { coroutine.close, coroutine.resume } do
      local co
      local function use()
        if co and coroutine.status(co) == "suspended" then meddle(co) end
      end
      finalizers.among(use, function()
        for _ = 1, 50 do
          local result = rn.go(function()
            co = coroutine.running()
            coroutine.yield()
            pcall(rn.sleep, 1)
            rn.chan():take()
          end)
          rn.step()
          co = nil
          assert.is_true(result:closed())
        end
      end)
      assert.same({}, stage.others())
    end
    assert.equal(100, #stage.heard())
  end)

  it("or resumes while a policy handles its value, ends, and no other go block is lost", function()
    local co
    local values, ran, when = {}, 0, "add"
    local function meddle(now)
      if not co or now ~= when then return end
      for _ = 1, 2 do rn.go(function() ran = ran + 1 end) end
      coroutine.resume(co)
      for _ = 1, 2 do rn.go(function() ran = ran + 1 end) end
      co = nil
    end
    local ch = rn.chan {
      full = function() return #values == 1 end,
      add = function(_, v)
        meddle "add"
        values[#values + 1] = v
      end,
      remove = function()
        meddle "remove"
        return table.remove(values, 1)
      end,
      count = function() return #values end,
    }
    ch:put "first"
    co = parked(ch.put, ch, "second")
    assert.equal("first", ch:take())
    rn.run()
    assert.equal(4, ran)
    assert.equal("second", ch:take())
    when = "remove"
    co = parked(rn.alts, { rn.chan(), ch })
    ch:put "lost with its taker"
    rn.run()
    assert.equal(8, ran)
    assert.same({}, stage.others())
    assert.equal(2, #stage.heard())
  end)

  it("or resumes: what its variables do when they are closed has the usual results", function()
    local ch, results = rn.chan(), {}
    local co = parked(function()
      local _ <close> = setmetatable({}, { __close = function() results = table.pack(ch:put(1)) end })
      rn.alts { rn.chan(), rn.chan() }
    end)
    coroutine.resume(co)
    rn.step() -- the put waits
    assert.equal(1, ch:take())
    rn.run()
    assert.same({ true, n = 1 }, results)
    assert.same({}, stage.others())
    assert.equal(1, #stage.heard())
  end)

  it("or resumes when its operation has failed: its variables are closed in the usual way", function()
    local values, results = {}, {}
    local failing = rn.chan {
      full = function() return #values == 1 end,
      add = function(_, v)
        if v == "second" then error "no" end
        values[#values + 1] = v
      end,
      remove = function() return table.remove(values, 1) end,
      count = function() return #values end,
    }
    failing:put "first"
    local ch = rn.chan()
    local co = parked(function()
      local _ <close> = setmetatable({}, { __close = function() results = table.pack(pcall(ch.put, ch, 1)) end })
      failing:put "second"
    end)
    assert.equal("first", failing:poll())
    coroutine.resume(co)
    rn.step() -- the put waits
    assert.equal(1, ch:take())
    rn.run()
    assert.same({ true, true, n = 2 }, results)
    assert.equal(1, #stage.heard())
  end)

  it("by a finalizer, while all are listed, is listed or is not #heavy", function()
    local coroutines = {}
    for i = 1, 100 do coroutines[i] = parked(function() rn.chan():take() end) end
    local n = 0
    finalizers.among(function()
      n = n + 1
      if coroutines[n] then coroutine.close(coroutines[n]) end
    end, function()
      while n < 100 do
        for _, entry in ipairs(rn.ps()) do assert.is_string(entry.name) end
      end
    end)
    assert.same({}, stage.others())
  end)

  -- The last one: a pending timer stays behind, for which rn.run would wait.
  it("may run a collection, in its variables, that would free what it waits on", function()
    local kept = rn.chan()
    local parks = {
      function() rn.chan():take() end,
      function() for _ in rn.chan() do end end, -- luacheck: ignore 541
      function() rn.chan():put "lost" end,
      function() rn.alts { rn.chan(), kept, { rn.chan(), 1 } } end,
      function() rn.go(function() rn.chan():take() end):take() end,
      function() rn.alts { kept, rn.timeout(60000) } end,
    }
    for _, park in ipairs(parks) do
      for _, is_handed_over in ipairs { false, true } do
        local function park_with_variables()
          local _ <close> = setmetatable({}, { __close = function() for _ = 1, 4 do collectgarbage() end end })
          park()
        end
        local co, result = parked(park_with_variables)
        local other = parked(park_with_variables)
        if is_handed_over then for _ = 1, 3 do collectgarbage() end end
        coroutine.close(other)
        coroutine.close(co)
        assert.matches("closed or resumed by other code", (select(2, result:poll())))
        assert.equal(0, kept:stats().takes_waiting)
        rn.go(function() kept:put "kept" end)
        assert.equal("kept", kept:take())
      end
    end
    for _ = 1, 4 do collectgarbage() end
    assert.same({}, stage.others())
  end)

  -- The coroutine of a go block that has not begun.
  local function coroutine_of(result)
    for i = 1, 10 do
      local value = debug.getuservalue(result, i)
      if type(value) == "thread" then return value end
    end
  end

  it("or resumes before it has begun, and which yields, ends", function()
    local result = rn.go(function() coroutine.yield "early" end)
    local co = coroutine_of(result)
    assert.same({ true, "early" }, { coroutine.resume(co) })
    rn.step()
    assert.matches("closed or resumed by other code", (select(2, result:take())))
    assert.equal("suspended", coroutine.status(co))
  end)

  it("or resumes before it has begun, ends when the loop comes to it, and its code goes on outside", function()
    local went_on = false
    local result = rn.go(function()
      rn.step()
      went_on = true
    end)
    coroutine.resume(coroutine_of(result))
    assert.is_true(went_on)
    assert.matches("closed or resumed by other code", (select(2, result:poll())))
    assert.same({}, stage.others())
  end)

  it("or resumes before it has begun, and which waits, ends, and gets what it waits for outside", function()
    local ch, got = rn.chan(), nil
    local result = rn.go(function() got = ch:take() end)
    rn.go(function() ch:put "value" end)
    coroutine.resume(coroutine_of(result))
    assert.equal("value", got)
    assert.matches("closed or resumed by other code", (select(2, result:poll())))
  end)

  it("is found among go blocks that were collected, as long as the loop has not removed them", function()
    local kept = {}
    local function wait(i)
      if i % 10 == 0 then kept[#kept + 1] = coroutine.running() end
      rn.chan():take()
    end
    rn.run(function()
      for i = 1, 12000 do rn.go(wait, i) end -- more than one cycle of the collector visits
      for _ = 1, 6 do
        rn.sleep(1)
        collectgarbage()
        coroutine.close(table.remove(kept))
        coroutine.close(table.remove(kept, 1))
      end
    end)
    while #kept > 0 do coroutine.close(table.remove(kept)) end
    assert.same({}, stage.others())
  end)

  it("has variables, whose __close is called however it is written", function()
    local log = {}
    local function note(text) log[#log + 1] = text end
    local object = setmetatable({}, {
      __call = function(_, _, err) note("an object: " .. err) end,
      __close = function() note "not called: the object is no variable" end,
    })
    local _, err = rn.go(function()
      local _ <close> = setmetatable({}, { __close = object })
      local _ <close> = setmetatable({}, { __close = function(_, ...) note("one and more: " .. ...) end })
      local _ <close> = setmetatable({}, { __close = function(...) note("any number: " .. select(2, ...)) end })
      local _ <close> = setmetatable({}, { __close = function(_, why) note("two: " .. why) end })
      error("oops", 0)
    end):take()
    assert.equal("oops", err)
    assert.same({ "two: oops", "any number: oops", "one and more: oops", "an object: oops" }, log)
  end)
end)
