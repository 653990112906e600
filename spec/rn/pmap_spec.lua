local rn = require "runnel"
local long = require "spec.support.long"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local FOREVER = 1e9

local function range(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

local function sorted(list)
  table.sort(list)
  return list
end

-- All values of a channel, and the error with which it was closed.
local function drain(ch)
  local list = {}
  while true do
    local value, err = ch:take()
    if value == nil then return list, err end
    list[#list + 1] = value
  end
end

-- The go blocks that are left when those that were ready to end have done so; but for sources that this spec has named.
local function left()
  rn.sleep(0.001)
  local names = {}
  for _, name in ipairs(stage.others()) do
    if name ~= "source" then names[#names + 1] = name end
  end
  return names
end

-- A function for jobs that take `ms(v)`, raise where `fails(v)`, and return v; it counts those that run.
local function jobs(ms, fails)
  local self = { started = {}, running = 0, peak = 0, cancelled = {} }
  function self.f(v)
    self.started[#self.started + 1] = v
    self.running = self.running + 1
    self.peak = math.max(self.peak, self.running)
    local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      self.running = self.running - 1
    end })
    local ok, err = pcall(rn.sleep, ms(v))
    if not ok then
      self.cancelled[#self.cancelled + 1] = v
      error(err, 0)
    end
    if fails and fails(v) then error("no " .. tostring(v), 0) end
    return v
  end
  return self
end

local function second() return 1000 end

-- A channel on which 1, 2, ... wait, that stays open.
local function endless()
  local ch = rn.chan()
  rn.go(function()
    rn.rename "source"
    local i = 1
    while ch:put(i) do i = i + 1 end
  end)
  return ch, function() return ch:stats().put_total end
end

for _, name in ipairs { "pmap", "pmap_unordered" } do
  local pmap, is_ordered = rn[name], name == "pmap"
  local function in_order(list) return is_ordered and list or sorted(list) end

  describe(name, function()
    before_each(stage.open)
    after_each(stage.close)

    for n = 1, 8 do
      it(("of %d runs exactly that many: 10 jobs of a second"):format(n), function()
        local function check()
          for _, source in ipairs { function(list) return list end, rn.to_chan } do
            local job, start = jobs(second), sim.elapsed()
            assert.same(range(10), in_order(drain(pmap(n, job.f, source(range(10))))))
            assert.equal(n, job.peak)
            assert.near(math.ceil(10 / n) * 1000, sim.elapsed() - start, 1e-6)
            assert.same({}, left())
          end
        end
        sim.run(check)
        stage.explore(check)
      end)
    end

    it("of 2000 runs 2000 of 5000 at once", stage.sim(function()
      local job = jobs(second)
      assert.same(range(5000), in_order(drain(pmap(2000, job.f, rn.to_chan(range(5000))))))
      assert.equal(2000, job.peak)
      assert.equal(3000, sim.elapsed())
      assert.same({}, left())
    end))

    it("takes one value at a time from a list with a metatable, which may wait", stage.sim(function()
      local asked, values = 0, range(20)
      local list = setmetatable({}, { __index = function(_, i)
        asked = asked + 1
        assert.equal(1, asked)
        rn.sleep(1)
        asked = asked - 1
        return values[i]
      end })
      list[1] = 1
      assert.same(values, in_order(drain(pmap(4, function(v) return v end, list))))
    end))

    it("over a list costs no more than over a channel", stage.sim(function()
      local values, best = range(2000), { list = math.huge, channel = math.huge }
      local tries = 0
      repeat -- on a busy machine the caches are others' most of the time
        for kind, source in pairs { list = function(list) return list end, channel = rn.to_chan } do
          local began = os.clock()
          drain(pmap(8, function(v) return v end, source(values)))
          best[kind] = math.min(best[kind], os.clock() - began)
        end
        tries = tries + 1
      until tries >= 5 and best.list < 1.5 * best.channel or tries == 100
      assert(best.list < 1.5 * best.channel, ("%.4f s, %.4f s over a channel"):format(best.list, best.channel))
    end))

    it("starts no more go blocks than there are values", stage.sim(function()
      local ch = rn.chan()
      local results = pmap(100, function(v) rn.sleep(FOREVER) return v end, ch)
      for i = 1, 3 do ch:put(i) end
      rn.yield()
      assert.equal(4, #stage.others()) -- one waits for the next value
      results:close()
      assert.same({}, left())
    end))

    it("takes no value before it can start its job", function()
      stage.explore(function()
        local from, taken = endless()
        local job = jobs(second)
        local results = pmap(3, job.f, from)
        rn.sleep(500)
        assert.equal(3, #job.started)
        assert.equal(3, taken())
        results:close()
        from:close()
      end, { leaks = false })
    end)

    it("starts no more jobs while nobody takes results", stage.sim(function()
      for _, window in ipairs(is_ordered and { 3, 7, false } or { false }) do
        local from = endless()
        local job = jobs(function() return 1 end)
        local results = pmap(3, job.f, from, { buffer = 2, window = window or nil })
        rn.sleep(100)
        assert.equal(2 + (window or is_ordered and 48 or 3), #job.started) -- two results in the buffer, the others wait
        assert.equal(2, #results)
        results:close()
        from:close()
        assert.same({}, left())
      end
    end))

    it("takes the values of a list, and of an iterator, which may park", stage.sim(function()
      assert.same({ "a", "b" }, in_order(drain(pmap(2, function(v) return v end, { "a", "b" }))))
      local ch, inside = rn.to_chan(range(5)), false
      local function iterator()
        assert.is_false(inside) -- it is not called again before it has returned
        inside = true
        rn.sleep(1)
        inside = false
        return (ch:take())
      end
      assert.same(range(5), in_order(drain(pmap(3, function(v) rn.sleep(5) return v end, iterator))))
      assert.same({ "ab", "cd" }, in_order(drain(pmap(3, string.lower, ("AB CD"):gmatch "%a+"))))
      assert.same({}, drain(pmap(3, string.lower, {})))
      assert.same({}, left())
    end))

    it("closes with the error of an iterator, or of the channel, behind the results", stage.sim(function()
      local i = 0
      local list, err = drain(pmap(2, function(v) rn.sleep(10) return v end, function()
        i = i + 1
        if i == 4 then error("no more", 0) end
        return i
      end))
      assert.same({ range(3), "no more" }, { in_order(list), err })
      local ch = rn.chan(3)
      for v = 1, 3 do ch:put(v) end
      ch:close "broken"
      list, err = drain(pmap(2, function(v) rn.sleep(10) return v end, ch))
      assert.same({ range(3), "broken" }, { in_order(list), err })
      assert.same({}, left())
    end))

    it("puts the first value that is returned: false, too, but nothing for nil", stage.sim(function()
      local results = pmap(2, function(v)
        if v == 2 then return end
        return v ~= 3 and v, "not this"
      end, range(4))
      local list = drain(results)
      assert.equal(3, #list)
      if is_ordered then assert.same({ 1, false, 4 }, list) end
    end))

    it("calls functions that start go blocks, and objects that can be called", stage.sim(function()
      local object = setmetatable({ add = 1 }, { __call = function(self, v)
        return rn.go(function() rn.sleep(v) return v + self.add end):take()
      end })
      assert.same({ 2, 3, 4 }, in_order(drain(pmap(2, object, { 1, 2, 3 }))))
    end))

    it("has a buffer for results, of any kind", stage.sim(function()
      local results = pmap(1, function(v) return v end, range(5), { buffer = rn.sliding_buffer(2) })
      rn.sleep(1)
      assert.same({ 4, 5 }, drain(results))
      assert.same({}, left())
    end))

    describe("with a job that raises", function()
      it("closes with the error, starts no further one, and cancels those that run", function()
        stage.explore(function()
          local job = jobs(function(v) return v * 10 end, function(v) return v == 3 end)
          local from, taken = endless()
          local list, err = drain(pmap(4, job.f, from))
          assert.same({ { 1, 2 }, "no 3" }, { list, err })
          assert.equal(30, sim.elapsed())
          assert.same({ 4, 5, 6 }, sorted(job.cancelled))
          assert.equal(0, job.running)
          assert.is_true(taken() <= 7)
          from:close()
          assert.same({}, left())
        end, { leaks = false })
      end)

      it("neither starts nor reports a job whose value was handed over just before", function()
        stage.explore(function()
          local has_failed, late = false, nil
          local _, err = drain(pmap(2, function(v)
            if has_failed then late = v end
            rn.yield()
            if v == 2 then
              has_failed = true
              error("oops", 0)
            end
            return v
          end, rn.to_chan { 1, 2, 3, 4 }))
          assert.equal("oops", err)
          assert.is_nil(late)
          assert.same({}, stage.heard())
        end, { leaks = false })
      end)

      if is_ordered then
        it("delivers the results before it, of jobs that still run as well", function()
          stage.explore(function()
            local job = jobs(function(v) return v == 1 and 100 or v end, function(v) return v == 3 end)
            local list, err = drain(pmap(5, job.f, range(9)))
            assert.same({ { 1, 2 }, "no 3" }, { list, err })
            assert.equal(100, sim.elapsed())
            assert.same({ 4, 5, 6 }, sorted(job.cancelled))
            assert.same({}, left())
          end)
        end)

        it("closes with the error of the first in the order, which speaks for others", stage.sim(function()
          local job = jobs(function(v) return v == 1 and 100 or v end, function(v) return v ~= 2 end)
          assert.same({ {}, "no 1" }, { drain(pmap(5, job.f, range(9))) })
          assert.same({}, stage.heard())
        end))
      end

      it("waits until the cancelled ones have ended", stage.sim(function()
        local cleaned = 0
        local _, err = drain(pmap(3, function(v)
          if v == 1 then
            rn.sleep(1)
            error("oops", 0)
          end
          pcall(rn.sleep, FOREVER)
          rn.sleep(50)
          cleaned = cleaned + 1
        end, range(9)))
        assert.equal("oops", err)
        assert.equal(2, cleaned)
        assert.equal(51, sim.elapsed())
      end))

      it("reports to on_error where the results are closed before that error can be taken", stage.sim(function()
        local results = pmap(2, function(v)
          if v == 1 then
            rn.sleep(1)
            error("oops", 0)
          end
          pcall(rn.sleep, FOREVER)
          rn.sleep(50)
        end, range(2))
        rn.sleep(10)
        results:close()
        rn.sleep(100)
        local heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("oops", heard[1].err)
        assert.same({}, left())
      end))

      it("does not print the error: the taker of the results gets it", stage.sim(function()
        local _, err = drain(pmap(2, function() error { code = 7 } end, range(3)))
        assert.same({ code = 7 }, err)
        assert.same({}, stage.heard())
      end))

      it("reports the error to on_error once if it is not taken: a for loop does not take it", stage.sim(function()
        local function fail(v)
          if v == 1 then return rn.sleep(5) end
          if v == 2 then error("oops", 0) end
          rn.sleep(FOREVER)
        end
        for _ in pmap(2, fail, range(5)) do error "no result was expected" end
        local heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("oops", heard[1].err)
        assert.matches(stage.here(-7):gsub("%p", "%%%0"), heard[1].trace)
        for _ in pmap(2, fail, { 3 }, { timeout = 10 }) do error "no result was expected" end
        heard = stage.heard()
        assert.equal(1, #heard)
        assert.is_true(rn.is_timeout(heard[1].err))
        for _ in pmap(2, fail, function() error("no more", 0) end) do error "no result was expected" end
        heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("no more", heard[1].err)
        local from = rn.go(function() error("broken", 0) end)
        for _ in pmap(2, fail, from) do error "no result was expected" end
        heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("broken", heard[1].err)
        assert.same({}, left())
      end))

      it("reports to on_error the error of its source if its results are closed", stage.sim(
        function()
          for _, how in ipairs { "a job raises", "the results are closed" } do
            local results = pmap(2, function()
              rn.sleep(10)
              if how == "a job raises" then error("oops", 0) end
            end, rn.go(function()
              rn.sleep(1)
              error("broken", 0)
            end))
            results:close()
            rn.sleep(20)
            local heard = stage.heard()
            assert.equal(1, #heard)
            assert.equal("broken", heard[1].err)
            local from = rn.chan()
            results = pmap(2, function()
              rn.sleep(10)
              if how == "a job raises" then error("oops", 0) end
            end, from)
            from:put(1)
            rn.pipe(rn.go(function() error("broken", 0) end), from)
            rn.sleep(5)
            if how == "a job raises" then
              local _, err = drain(results)
              assert.equal("oops", err)
            else
              results:close()
            end
            rn.sleep(20)
            heard = stage.heard()
            assert.equal(how == "a job raises" and 0 or 1, #heard) -- the job's error, which was taken, speaks for it
            assert.is_true(#heard == 0 or heard[1].err == "broken")
          end
        end))

      it("does not report what a cancelled one raises instead, if the error is taken", stage.sim(function()
        local _, err = drain(pmap(2, function(v)
          if v == 1 then
            rn.sleep(1)
            error("oops", 0)
          end
          pcall(rn.sleep, FOREVER)
          error("and worse", 0)
        end, range(2)))
        assert.equal("oops", err)
        assert.same({}, stage.heard())
      end))

      it("closes with a message if it raises nil, or calls coroutine.yield", stage.sim(function()
        local _, err = drain(pmap(1, function() error(nil) end, { 1 }))
        assert.matches(stage.raised_nil or "raised nil", err)
        assert.same({}, stage.heard())
        _, err = drain(pmap(1, function() coroutine.yield() end, { 1 }))
        assert.matches("coroutine.yield", err)
        assert.same({}, stage.heard())
        assert.same({}, left())
      end))

      it("reports no nil that is handled", stage.sim(function()
        local list = drain(pmap(1, function() error(nil) end, { 1 }, { ex_handler = function() return "handled" end }))
        assert.same({ "handled" }, list)
        assert.same({}, stage.heard())
      end))

      it("is named after its line where nobody takes an error that no job has raised", stage.sim(function()
        pmap(1, function() rn.sleep(100) end, { 1 }, { timeout = 10 })
        local line = stage.here(-1)
        rn.sleep(10000)
        local heard = stage.heard()
        assert.equal(1, #heard)
        assert.is_true(rn.is_timeout(heard[1].err))
        assert.is_truthy(heard[1].name:find("at " .. line, 1, true), heard[1].name)
      end))

      it("ends with a traceback of the function alone, for a message handler inside it", stage.sim(function()
        local trace
        drain(pmap(1, function()
          select(2, xpcall(function() error "x" end, function() trace = debug.traceback() end))
        end, { 1 }))
        local _, lines = trace:gsub("[^\n]*runnel/rn/pmap%.lua[^\n]*", "")
        assert.equal(1, lines)
      end))
    end)

    describe("with an exception handler", function()
      it("puts what that returns, and goes on", function()
        stage.explore(function()
          local job = jobs(function(v) return v end, function(v) return v % 2 == 0 end)
          local results = pmap(3, job.f, range(9), { ex_handler = function(err, v)
            assert.equal("no " .. v, err)
            rn.sleep(5) -- it may park
            if v ~= 4 then return -v end
          end })
          local list, err = drain(results)
          assert.is_nil(err)
          local expected = { 1, -2, 3, 5, -6, 7, -8, 9 }
          if not is_ordered then sorted(expected) end
          assert.same(expected, in_order(list))
          assert.same({}, left())
        end)
      end)

      it("counts its work as that of the job", stage.sim(function()
        local job = jobs(function() return 10 end, function() return true end)
        local handling, peak = 0, 0
        drain(pmap(3, job.f, range(9), { ex_handler = function()
          handling = handling + 1
          peak = math.max(peak, handling + job.running)
          rn.sleep(10)
          handling = handling - 1
        end }))
        assert.equal(3, peak)
        assert.equal(60, sim.elapsed())
      end))

      it("puts the first of several values that a handler returns", stage.sim(function()
        local options = { ex_handler = function(e) return e:gsub("no", "yes") end }
        local results = drain(pmap(2, function() error("no", 0) end, { 1, 2 }, options))
        assert.same({ "yes", "yes" }, results)
      end))

      it("cancels a handler that waits, when another job has failed", stage.sim(function()
        local ended = false
        local list, err = drain(pmap(2, function(v)
          rn.sleep(v == 1 and 10 or 1)
          error("no " .. v, 0)
        end, { 1, 2 }, { ex_handler = function(e, v)
          if v == 1 then error(e, 0) end
          local ending <close> = setmetatable({}, { __close = function() ended = true end }) -- luacheck: ignore 211
          rn.sleep(FOREVER)
        end }))
        assert.same({ {}, "no 1" }, { list, err })
        assert.is_true(ended)
        assert.equal(10, sim.elapsed())
        assert.same({}, left())
      end))

      it("closes with the error that the handler raises", stage.sim(function()
        local job = jobs(function(v) return v end, function(v) return v > 1 end)
        local list, err = drain(pmap(2, job.f, range(9), { ex_handler = function(e, v)
          if v == 3 then error(e .. " either", 0) end
          return "handled"
        end }))
        assert.same({ 1, "handled" }, list)
        assert.equal("no 3 either", err)
        assert.same({}, left())
      end))
    end)

    describe("with a timeout", function()
      it("cancels a late job, with an error that rn.is_timeout recognizes", stage.sim(function()
        local job = jobs(function(v) return v * 10 end)
        local list, err = drain(pmap(4, job.f, range(9), { timeout = 25 }))
        assert.same({ 1, 2 }, list)
        assert.is_true(rn.is_timeout(err))
        assert.equal(name .. ": a job had not ended after 25 ms", tostring(err))
        assert.equal(25, sim.elapsed())
        assert.same({}, left())
      end))

      it("lets the others go on where a handler says what to put", function()
        stage.explore(function()
          local job = jobs(function(v) return v % 4 * 10 end)
          local results = pmap(3, job.f, range(12), { timeout = 25, ex_handler = function(err, v)
            assert.is_true(rn.is_timeout(err))
            assert.equal(3, v % 4)
            return 100 + v
          end })
          local expected = { 1, 2, 103, 4, 5, 6, 107, 8, 9, 10, 111, 12 }
          if not is_ordered then sorted(expected) end
          assert.same(expected, in_order(drain(results)))
          assert.same({}, left())
        end)
      end)

      it("is none for the time in which a result waits to be taken", stage.sim(function()
        local results = pmap(3, function(v) rn.sleep(5) return v end, range(6), { timeout = 10 })
        local list = {}
        repeat
          rn.sleep(100)
          list[#list + 1] = results:take()
        until results:closed()
        assert.same(range(6), in_order(list))
      end))

      it("says what a late job has raised when it was cancelled", stage.sim(function()
        local _, err = drain(pmap(1, function()
          pcall(rn.sleep, FOREVER)
          error("no page", 0)
        end, { 1 }, { timeout = 10 }))
        assert.is_true(rn.is_timeout(err))
        assert.equal(name .. ": a job had not ended after 10 ms; cancelled, it raised: no page", err.message)
        assert.same({}, stage.heard())
      end))

      it("drops the result of a late job that has caught the error, and cancels no other one for it", function()
        stage.explore(function()
          local list, err = drain(pmap(2, function(v)
            if v > 2 then
              rn.sleep(1)
              return v
            end
            local ok, why = pcall(rn.sleep, FOREVER)
            assert(not ok and rn.is_timeout(why))
            return v
          end, range(6), { timeout = 10, ex_handler = function(err, v)
            assert.is_true(rn.is_timeout(err))
            return -v
          end }))
          assert.is_nil(err)
          local expected = { -1, -2, 3, 4, 5, 6 }
          if not is_ordered then sorted(expected) end
          assert.same(expected, in_order(list))
          assert.same({}, left())
        end)
      end)

      it("takes the result of a job that had no more to wait for when its time was over", stage.sim(function()
        local ch, waited = rn.chan(), false
        rn.go(function()
          rn.sleep(10)
          ch:put "just in time"
        end)
        local results = pmap(1, function(v)
          if v == 2 then
            rn.sleep(1)
            return v
          end
          local value = ch:take()
          -- The cancelling comes now, as the value is there already.
          waited = sim.elapsed() == 10
          return value
        end, { 1, 2 }, { timeout = 10 })
        rn.sleep(100)
        assert.same({ "just in time", 2 }, drain(results))
        assert.is_true(waited)
      end))

      it("of 0 is enough for a job that does not wait", stage.sim(function()
        assert.same(range(3), in_order(drain(pmap(2, function(v) return v end, range(3), { timeout = 0 }))))
      end))

      it("ends with the pmap", stage.sim(function()
        drain(pmap(2, function(v) rn.sleep(1) return v end, range(3), { timeout = FOREVER }))
        assert.same({}, left())
        assert.is_true(sim.elapsed() < 10)
      end))
    end)

    it("counts nil with an error as an error", stage.sim(function()
      local function open(v)
        rn.sleep(1)
        if v == 2 then return nil, "no such page" end
        return v
      end
      local _, err = drain(pmap(3, open, { 1, 2, 3 }))
      assert.equal("no such page", err)
      assert.same({ "instead of 2" }, rn.into({}, pmap(1, open, { 2 }, {
        ex_handler = function(why, v) return why == "no such page" and "instead of " .. v or why end,
      })):take())
      local calls = 0
      local function third()
        calls = calls + 1
        if calls < 3 then return nil, "not yet" end
        return calls
      end
      for _, opts in ipairs { { tries = 3, backoff = 1 }, { tries = 3, backoff = 1, timeout = 100 } } do
        calls = 0
        assert.same({ 3 }, rn.into({}, pmap(2, third, { "x" }, opts)):take())
      end
    end))

    describe("with tries", function()
      -- A function that takes 10 ms and fails `failures` times for each value; it notes when its tries began.
      local function failing(failures)
        local self = { tried = {}, running = 0, peak = 0 }
        function self.f(v)
          local times = self.tried[v] or {}
          self.tried[v] = times
          times[#times + 1] = sim.elapsed()
          self.running = self.running + 1
          self.peak = math.max(self.peak, self.running)
          local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
            self.running = self.running - 1
          end })
          rn.sleep(10)
          if #times <= failures(v) then error(("try %d of %d"):format(#times, v), 0) end
          return v
        end
        return self
      end

      it("tries a job again that has failed, which keeps its place and counts as one of the n", function()
        local function check()
          for _, source in ipairs { function(list) return list end, rn.to_chan } do
            local job = failing(function(v) return v % 3 end)
            local list, err = drain(pmap(2, job.f, source(range(9)), { tries = 3, backoff = 5 }))
            assert.is_nil(err)
            assert.same(range(9), in_order(list))
            for v = 1, 9 do assert.equal(v % 3 + 1, #job.tried[v]) end
            assert.equal(2, job.peak)
            assert.same({}, left())
          end
        end
        sim.run(check)
        stage.explore(check)
      end)

      it("starts no other job while one waits for its next try, if n is 1", stage.sim(function()
        local job = failing(function(v) return v == 1 and 2 or 0 end)
        assert.same({ 1, 2 }, drain(pmap(1, job.f, { 1, 2 }, { tries = 3, backoff = 100 })))
        assert.is_true(job.tried[2][1] >= job.tried[1][3] + 10)
      end))

      it("waits between half and the whole of `backoff`, and twice as long each time", stage.sim(function()
        local job, shortest, longest = failing(function() return 3 end), math.huge, 0
        drain(pmap(50, job.f, range(50), { tries = 4, backoff = 100 }))
        for _, times in ipairs(job.tried) do
          for i = 2, 4 do
            local pause = (times[i] - times[i - 1] - 10) / 2 ^ (i - 2)
            shortest, longest = math.min(shortest, pause), math.max(longest, pause)
          end
        end
        assert.is_true(shortest >= 50 and shortest < 60, shortest)
        assert.is_true(longest <= 100 and longest > 90, longest)
      end))

      it("closes with the error of the last one, which a handler gets instead", stage.sim(function()
        local job = failing(function(v) return v == 2 and 9 or 0 end)
        local list, err = drain(pmap(1, job.f, range(3), { tries = 2, backoff = 1 }))
        assert.same({ 1 }, list)
        assert.equal("try 2 of 2", err)
        local seen = {}
        list, err = drain(pmap(2, failing(function(v) return v == 2 and 9 or 0 end).f, range(3), {
          tries = 2, backoff = 0, ex_handler = function(e, v) seen[#seen + 1] = e return -v end,
        }))
        assert.is_nil(err)
        assert.same(is_ordered and { 1, -2, 3 } or { -2, 1, 3 }, in_order(list))
        assert.same({ "try 2 of 2" }, seen)
      end))

      it("has a timeout for each of them", stage.sim(function()
        local times = {}
        local results = pmap(1, function(v)
          times[#times + 1] = sim.elapsed()
          rn.sleep(#times < 3 and FOREVER or 5)
          return v
        end, { "a", "b" }, { tries = 3, backoff = 40, timeout = 20 })
        assert.same({ "a", "b" }, drain(results))
        assert.equal(4, #times)
        for i = 2, 3 do
          local pause = times[i] - times[i - 1] - 20
          assert.is_true(pause >= 20 * (i - 1) and pause <= 40 * (i - 1), pause)
        end
        local list, err = drain(pmap(2, function() rn.sleep(FOREVER) end, { 1 }, { tries = 2, timeout = 20 }))
        assert.same({}, list)
        assert.is_true(rn.is_timeout(err))
        assert.same({}, left())
      end))

      it("delivers the results before an error for good, of jobs that are tried again as well", stage.sim(function()
        if not is_ordered then return end
        local job = failing(function(v) return v == 1 and 1 or 0 end)
        local list, err = drain(pmap(3, function(v)
          if v == 2 then error("for good", 0) end
          return job.f(v)
        end, range(9), { tries = 2, backoff = 1 }))
        assert.same({ 1 }, list)
        assert.equal("for good", err)
        assert.equal(2, #job.tried[1])
      end))

      it("tries nothing again when the results are closed, or another job has failed", function()
        stage.explore(function()
          local tries, steps = 0, sim.choose(5)
          local results = pmap(2, function(v)
            tries = tries + 1
            rn.yield()
            error(v, 0)
          end, range(4), { tries = 3, backoff = 4 })
          rn.go(function()
            rn.rename "source"
            for _ = 1, steps do rn.sleep(1) end
            results:close()
          end)
          for _ in results do end
          rn.sleep(4)
          results:take() -- so that the error, if there is one, is taken
          local before = tries
          rn.sleep(100)
          assert.equal(before, tries)
          assert.same({}, left())
        end)
      end)
    end)

    describe("whose result channel is closed half way", function()
      it("cancels the running jobs, takes nothing more, and leaves no go block behind", function()
        for at = 1, 60, long.times(12, 3) do
          stage.explore(function()
            local from, taken = endless()
            local job = jobs(function(v) return v * 7 % 5 * 3 end)
            local results = pmap(3, job.f, from)
            local consumer = rn.go(function()
              for _ in results do rn.sleep(1) end
            end)
            rn.sleep(at)
            results:close()
            local so_far, started = taken(), #job.started
            rn.sleep(0.5)
            assert.equal(0, job.running)
            rn.sleep(100)
            assert.equal(so_far, taken())
            assert.equal(started, #job.started)
            consumer:take()
            from:close()
            assert.same({}, left())
          end, { leaks = false })
        end
      end)

      it("by a job ends that job where it waits next", stage.sim(function()
        local results
        local reached = false
        results = pmap(2, function(v)
          if v == 3 then
            results:close()
            rn.sleep(1)
            reached = true
          end
          return v
        end, range(9))
        for _, v in ipairs(drain(results)) do assert.is_true(v < 3) end -- those that were put before
        assert.is_false(reached)
        assert.same({}, left())
      end))

      it("ends an iterator that waits", stage.sim(function()
        local results = pmap(2, function(v) return v end, function() rn.sleep(FOREVER) end)
        rn.sleep(1)
        results:close()
        assert.same({}, left())
      end))
    end)

    it("treats a go block of its own that is cancelled or closed as a job that has raised", function()
      for _, how in ipairs { "cancel", "close" } do
        sim.each_seed(5, function()
          local me, co
          local list, err = drain(pmap(2, function(v)
            if v == 3 then
              co = coroutine.running()
              for _, entry in ipairs(rn.ps()) do
                if entry.state == "running" then me = entry.result end
              end
              rn.go(function()
                if how == "cancel" then rn.cancel(me, "killed") else coroutine.close(co) end
              end)
              rn.sleep(FOREVER)
            end
            return v
          end, rn.to_chan(range(3))))
          assert.same({ 1, 2 }, in_order(list))
          assert.matches(how == "cancel" and "killed" or "had its coroutine closed", err)
          assert.same({}, left())
        end)
      end
    end)

    it("closes with the error of a buffer that takes no result", stage.sim(function()
      local policy = stage.picky(function(v) return v ~= 2 end)
      local list, err = drain(pmap(1, function(v) return v end, range(3), { buffer = policy }))
      assert.same({ 1 }, list)
      assert.matches("no 2 here", err)
      assert.same({}, stage.heard())
      assert.same({}, left())
    end))

    it("is collected with its unreachable channels", stage.sim(function()
      local function drop(k)
        for i = 1, k do
          local results = pmap(3, function(v) return v end, i % 2 == 0 and rn.chan() or range(9))
          if i % 4 == 1 then results:take() end
          rn.yield()
        end
      end
      local function kilobytes_after(k)
        drop(k)
        rn.sleep(1)
        for _ = 1, 4 do collectgarbage() end
        return collectgarbage "count"
      end
      local before = kilobytes_after(100)
      assert.is_true(kilobytes_after(1000) < before + 100)
      assert.same({}, left())
    end))

    it("has go blocks that carry the line which called it", stage.sim(function()
      local where = stage.here(1)
      local results = pmap(2, function() rn.sleep(5) end, range(3), { timeout = FOREVER })
      rn.sleep(1)
      local names = left()
      assert.equal(2, #names) -- the workers; who looks after late jobs is hidden
      for _, found in ipairs(names) do assert.equal(1, found:find(name .. " at " .. where, 1, true), found) end
      results:close()
      assert.same({}, left())
    end))

    it("refuses what is wrong at the caller's line", function()
      local function check(message, ...)
        local args = table.pack(...)
        local where = stage.here(1)
        local ok, err = pcall(function() local _ = pmap(table.unpack(args, 1, args.n)) end)
        assert.is_false(ok)
        assert.equal(where .. ": " .. name .. ": " .. message, err)
      end
      local function f() end
      check("n: an integer of at least 1 expected, got 0", 0, f, {})
      check("n: an integer of at least 1 expected, got 1.5", 1.5, f, {})
      check(("f: a function expected, got nothing; call it as rn.%s(n, f, from)"):format(name), 1)
      check("from: a channel, a list or an iterator function expected, got nothing", 1, f)
      check("from: a channel, a list or an iterator function expected, got a string", 1, f, "abc")
      check("from: a channel, a list or an iterator function expected, got a table with keys but no values 1, 2, ...",
        1, f, { a = 1 })
      check("from: a channel, a list or an iterator function expected, got a list with a hole: element 2 is nil, "
        .. "although the list goes on; use false, or leave it out", 1, f, { 1, nil, 3 })
      assert.same({}, drain(pmap(1, f, table.pack())))
      check("a table of options expected, got a number", 1, f, {}, 7)
      check('unknown option "windows"; known: backoff, buffer, ex_handler, key, timeout, tries'
        .. (is_ordered and ", window" or ""), 1, f, {}, { windows = 7 })
      check("ex_handler: a function expected, got a string", 1, f, {}, { ex_handler = "x" })
      check("timeout: a number of milliseconds, at least 0, expected, got -1", 1, f, {}, { timeout = -1 })
      check('timeout: a number of milliseconds, at least 0, expected, got "1"', 1, f, {}, { timeout = "1" })
      check("tries: an integer of at least 1 expected, got 0", 1, f, {}, { tries = 0 })
      check("backoff: a number of milliseconds, at least 0, expected, got -1", 1, f, {}, { backoff = -1 })
      if is_ordered then
        check("window: an integer of at least 3 expected, got 2", 3, f, {}, { window = 2 })
      else
        check('unknown option "window"; known: backoff, buffer, ex_handler, key, timeout, tries', 3, f, {},
          { window = 3 })
      end
      local ok, err = pcall(pmap, 1, f, {}, { buffer = -1 })
      assert.is_false(ok)
      assert.matches("^" .. name .. ": buffer: ", err:gsub("^%S+:%d+: ", ""))
    end)
  end)
end

describe("pmap", function()
  before_each(stage.open)
  after_each(stage.close)

  it("keeps the order of the values, whatever the jobs take", function()
    sim.each_seed(40, function(seed)
      local job = jobs(function(v) return v * 7919 * seed % 97 end)
      local from = seed % 2 == 0 and range(50) or rn.to_chan(range(50))
      assert.same(range(50), drain(rn.pmap(seed % 8 + 1, job.f, from)))
      assert.equal(seed % 8 + 1, job.peak)
    end)
  end)

  it("runs nearly n jobs on average although one in a hundred takes 20 times as long", stage.sim(function()
    math.randomseed(1)
    local running, since, sum = 0, 0, 0
    local function count(change)
      local now = rn.now()
      sum, since, running = sum + running * (now - since), now, running + change
    end
    local results = drain(rn.pmap(64, function(v)
      count(1)
      rn.sleep(math.random(100) == 1 and 20 or 1)
      count(-1)
      return v
    end, range(10000)))
    assert.same(range(10000), results)
    local average = sum / rn.now()
    assert.is_true(average > 50, average)
  end))

  -- A go block that has moved 128 values lets others run. The worker of the first job delivers all results, and has
  -- nothing to do just as the input ends.
  it("ends, however many results a worker has just delivered when the input ends", function()
    for count = 120, 132 do
      sim.run(function()
        local i, seen = 0, {}
        local results = rn.pmap(200, function(v)
          if v == 1 then rn.sleep(5) end
          return v
        end, function()
          i = i + 1
          if i <= count then return i end
          rn.sleep(5)
        end, { buffer = 1000 })
        for v in results do seen[#seen + 1] = v end
        assert.are.same(range(count), seen)
      end)
    end
  end)

  it("does one job at a time no further ahead than its reader, whatever the window", stage.sim(function()
    for _, window in ipairs { false, 1, 5 } do
      local started = 0
      local results = rn.pmap(1, function(value)
        started = started + 1
        return value
      end, { 1, 2, 3, 4, 5 }, { window = window or nil })
      rn.sleep(1)
      assert.equal(1, started)
      assert.same({ 1, 2, 3, 4, 5 }, results:list())
    end
  end))

  it("lets a window of jobs run ahead of a slow one", stage.sim(function()
    for window = 3, 9 do
      local job, start = jobs(function(v) return v == 1 and 1000 or 1 end), sim.elapsed()
      local results = rn.pmap(3, job.f, range(20), { window = window })
      rn.sleep(500)
      assert.equal(window, #job.started)
      assert.equal(1, job.running)
      assert.same(range(20), drain(results))
      assert.equal(3, job.peak)
      assert.is_true(sim.elapsed() - start <= 1020)
      assert.same({}, left())
    end
  end))
end)

describe("pmap_unordered", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives results as they come", stage.sim(function()
    local job = jobs(function(v) return v == 1 and 10000 or 1000 end)
    local list = drain(rn.pmap_unordered(3, job.f, rn.to_chan(range(10))))
    assert.same({ 2, 3, 4, 5, 6, 7, 8, 9, 10, 1 }, list)
    assert.equal(10000, sim.elapsed())
  end))
end)
