local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Both variants under the arguments of the ordered one.
local variants = { ordered = rn.pipeline_async, unordered = rn.pipeline_async_unordered }

local function range(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- Jobs that take `ms(value)` and give the results `results(value)` (by default the value); it counts those that run.
local function jobs(ms, results)
  local self = { started = {}, running = 0, peak = 0, ended = 0 }
  function self.af(value, result)
    self.started[#self.started + 1] = value
    self.running = self.running + 1
    self.peak = math.max(self.peak, self.running)
    rn.go(function()
      rn.rename "job"
      rn.sleep(ms(value))
      for _, v in ipairs(results and results(value) or { value }) do
        if not result:put(v) then break end
      end
      -- It runs until its channel closes.
      self.running = self.running - 1
      self.ended = self.ended + 1
      result:close()
    end)
  end
  return self
end

local function second() return 1000 end

local function sorted(list)
  table.sort(list)
  return list
end

-- The go blocks that there are when those that were ready to end have done so.
local function others()
  rn.sleep(0.001)
  return stage.others()
end

-- What is left of the pipeline: all go blocks but those that this spec has named.
local function left()
  local names = {}
  for _, name in ipairs(others()) do
    if name ~= "source" and name ~= "job" then names[#names + 1] = name end
  end
  return names
end

-- A channel on which 1, 2, ... wait, that stays open; and how many have been taken.
local function endless(n)
  local ch = rn.chan()
  rn.go(function()
    rn.rename "source"
    for i = 1, n or math.huge do
      if not ch:put(i) then return end
    end
  end)
  return ch, function() return ch:stats().put_total end
end

for variant, pipeline_async in pairs(variants) do
  describe("pipeline_async " .. variant, function()
    before_each(stage.open)
    after_each(stage.close)

    local is_ordered = variant == "ordered"

    describe("parallelism", function()
      for n = 1, 8 do
        it(("of %d is exact: 10 jobs of a second"):format(n), function()
          -- Under every order of events: never more than n, and n whenever there is work.
          local function check()
            local job = jobs(second, function(v) return { v + 1 } end)
            local to = rn.chan()
            assert.equal(to, pipeline_async(n, to, job.af, rn.to_chan(range(10))))
            local list = rn.into({}, to):take()
            assert.equal(math.min(n, 10), job.peak)
            assert.equal(math.ceil(10 / n) * 1000, sim.elapsed())
            if not is_ordered then sorted(list) end
            assert.same({ 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, list)
            assert.same({}, others())
          end
          sim.run(check)
          stage.explore(check)
        end)
      end

      for _, n in ipairs { 10, 11, 100, 2000 } do
        it(("of %d runs all ten at once"):format(n), stage.sim(function()
          local job = jobs(second)
          local list = rn.into({}, pipeline_async(n, rn.chan(), job.af, rn.to_chan(range(10)))):take()
          assert.same(range(10), sorted(list))
          assert.equal(10, job.peak)
          assert.equal(1000, sim.elapsed())
          assert.same({}, others())
        end))
      end

      it("of 2000 runs 2000 of 5000 at once", stage.sim(function()
        local job = jobs(second)
        local list = rn.into({}, pipeline_async(2000, rn.chan(), job.af, rn.to_chan(range(5000)))):take()
        assert.same(range(5000), sorted(list))
        assert.equal(2000, job.peak)
        assert.equal(3000, sim.elapsed())
        assert.same({}, others())
      end))

      it("holds for jobs of all lengths", function()
        sim.each_seed(40, function(seed)
          local n = seed % 8 + 1
          local length = {}
          for i = 1, 50 do length[i] = (i * 7919 * seed) % 97 end
          local total = 0
          for i = 1, 50 do total = total + length[i] end
          local job = jobs(function(v) return length[v] end)
          local list = rn.into({}, pipeline_async(n, rn.chan(), job.af, rn.to_chan(range(50)))):take()
          assert.equal(n, job.peak)
          assert.equal(50, job.ended)
          if is_ordered then assert.same(range(50), list) else assert.same(range(50), sorted(list)) end
          assert.same({}, others())
          -- No schedule is faster; without an order to keep, a greedy one has a bound.
          assert.is_true(sim.elapsed() >= math.max(total / n, 96 * 0))
          if not is_ordered then assert.is_true(sim.elapsed() <= total / n + 97) end
        end)
      end)

      it("does not take a value before it can start its job", function()
        stage.explore(function()
          local from, taken = endless()
          local job = jobs(second)
          pipeline_async(3, rn.chan(), job.af, from)
          rn.sleep(500)
          assert.equal(3, #job.started)
          assert.equal(3, taken())
        end, { leaks = false })
      end)
    end)

    describe("with a slow first job", function()
      it("of ten seconds and others of none", stage.sim(function()
        local job = jobs(function(v) return v == 1 and 10000 or 0 end)
        local to = pipeline_async(3, rn.chan(), job.af, rn.to_chan(range(10)))
        local first = to:take()
        if is_ordered then
          assert.equal(1, first)
          assert.equal(10000, sim.elapsed())
        else
          assert.not_equal(1, first)
          assert.equal(0, sim.elapsed())
        end
        stage.drain(to)
        assert.equal(10000, sim.elapsed())
      end))

      it("of ten seconds and others of one", stage.sim(function()
        local job = jobs(function(v) return v == 1 and 10000 or 1000 end)
        local list = rn.into({}, pipeline_async(3, rn.chan(), job.af, rn.to_chan(range(10)))):take()
        assert.equal(is_ordered and 13000 or 10000, sim.elapsed())
        assert.equal(3, job.peak)
        assert.same(is_ordered and range(10) or { 2, 3, 4, 5, 6, 7, 8, 9, 10, 1 }, list)
      end))
    end)

    describe("results", function()
      it("may be none, one or many of each job", function()
        local function results(v)
          local list = {}
          for i = 1, v % 4 == 3 and 20 or v % 4 do list[i] = v * 100 + i end
          return list
        end
        stage.explore(function()
          local job = jobs(function(v) return v % 5 end, results)
          local list = rn.into({}, pipeline_async(3, rn.chan(), job.af, rn.to_chan(range(20)))):take()
          local expected = {}
          for v = 1, 20 do
            for _, r in ipairs(results(v)) do expected[#expected + 1] = r end
          end
          assert.same(expected, is_ordered and list or sorted(list))
          assert.equal(3, job.peak)
          assert.same({}, others())
        end)
      end)

      it("may be false, and values may be false", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          result:put(v)
          result:close()
        end, rn.to_chan { false, true, false })):take()
        assert.equal(3, #list)
        assert.is_false(list[1])
      end))

      it("of a job come while it runs, in the ordered one when it is its turn", stage.sim(function()
        local to = pipeline_async(2, rn.chan(), function(v, result)
          rn.go(function()
            for i = 1, 3 do
              rn.sleep(100)
              result:put(v .. "." .. i)
            end
            result:close()
          end)
        end, rn.to_chan { "a", "b" })
        to:take()
        assert.equal(100, sim.elapsed())
        to:take()
        to:take()
        stage.drain(to)
        -- In the ordered one the second job has to wait with its second result.
        assert.equal(is_ordered and 400 or 300, sim.elapsed())
      end))

      it("may be put without parking, as the callbacks of a driver do", stage.sim(function()
        local to = pipeline_async(3, rn.chan(), function(v, result)
          result:put_async(v)
          result:put_async(-v)
          result:put_async(v * 100)
          result:close()
        end, rn.to_chan(range(10)))
        local list = stage.drain(to)
        assert.equal(30, #list)
        if is_ordered then assert.same({ 1, -1, 100, 2, -2, 200 }, table.move(list, 1, 6, 1, {})) end
      end))

      it("all come through a `to` with a buffer, and to a slow taker", function()
        sim.each_seed(10, function(seed)
          local job = jobs(function(v) return 1 + v % 3 end)
          local to = pipeline_async(4, rn.chan(seed % 4 * 5), job.af, rn.to_chan(range(40)))
          local list = {}
          for v in to do
            list[#list + 1] = v
            rn.sleep(5)
          end
          assert.same(range(40), is_ordered and list or sorted(list))
          assert.equal(4, job.peak)
        end)
      end)
    end)

    describe("af", function()
      it("may park itself", function()
        stage.explore(function()
          local running, peak = 0, 0
          local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
            running = running + 1
            peak = math.max(peak, running)
            rn.sleep(1000)
            result:put(v)
            running = running - 1
            result:close()
          end, rn.to_chan(range(10)))):take()
          assert.same(range(10), is_ordered and list or sorted(list))
          assert.equal(3, peak)
          assert.equal(4000, sim.elapsed())
          assert.same({}, others())
        end)
      end)

      it("may put many results itself", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          for i = 1, 5 do result:put(v * 10 + i) end
          result:close()
        end, rn.to_chan(range(6)))):take()
        assert.equal(30, #list)
        assert.same({}, others())
      end))

      it("may close twice", stage.sim(function()
        local job = 0
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          job = job + 1
          rn.go(function()
            result:put(v)
            result:close()
            result:close()
            rn.sleep(10)
            result:close "late"
          end)
        end, rn.to_chan(range(7)))):take()
        assert.same(range(7), sorted(list))
        assert.equal(7, job)
      end))

      it("may put after closing, without effect", stage.sim(function()
        local late = {}
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          rn.go(function()
            result:put(v)
            result:close()
            late[#late + 1] = result:put "late"
            rn.sleep(10)
            late[#late + 1] = result:put "later"
          end)
        end, rn.to_chan(range(5)))):take()
        assert.same(range(5), sorted(list))
        rn.sleep(100)
        assert.equal(10, #late)
        for _, ok in ipairs(late) do assert.is_false(ok) end
      end))

      it("that never closes keeps its place, and the others go on", stage.sim(function()
        local job = jobs(second)
        local to = pipeline_async(3, rn.chan(100), function(v, result)
          if v == 5 then return end
          job.af(v, result)
        end, rn.to_chan(range(20)))
        local list = {}
        while true do
          local v, port = rn.alts({ to, rn.timeout(100000) }, { priority = true })
          if port ~= to or v == nil then break end
          list[#list + 1] = v
        end
        assert.is_false(to:closed())
        if is_ordered then
          -- Its results would come first: those behind it wait, and no more start than the window has room for.
          assert.same({ 1, 2, 3, 4 }, list)
          assert.equal(6, #job.started)
        else
          assert.equal(19, #list)
        end
        assert.equal(3, job.peak)
      end))

      it("that raises is an error of that job alone, reported once with a traceback", function()
        sim.each_seed(20, function()
          local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
            if v % 3 == 0 then error("job " .. v, 0) end
            result:put(v)
            result:close()
          end, rn.to_chan(range(10)))):take()
          assert.same({ 1, 2, 4, 5, 7, 8, 10 }, is_ordered and list or sorted(list))
          local heard = stage.heard()
          assert.equal(3, #heard)
          for _, h in ipairs(heard) do
            assert.matches("^job [369]$", h.err)
            assert.matches("pipeline_spec.lua:%d+", h.trace)
            assert.matches("^a job of a pipeline %(pipeline_async[_a-z]* at spec/rn/pipeline_spec.lua:%d+", h.name)
          end
          assert.same({}, others())
        end)
      end)

      it("that raises after parking and after results keeps what it has put", stage.sim(function()
        local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
          result:put(v)
          rn.sleep(100)
          error "late"
        end, rn.to_chan(range(6)))):take()
        assert.same(range(6), sorted(list))
        assert.equal(6, #stage.heard())
        assert.equal(200, sim.elapsed())
      end))

      it("that raises goes to ex_handler, whose value takes the place of its results", function()
        stage.explore(function()
          local errors = {}
          local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
            if v % 3 == 0 then error({ v }) end
            result:put(v)
            result:close()
          end, rn.to_chan(range(10)), true, {
            ex_handler = function(err)
              errors[#errors + 1] = err[1]
              if err[1] ~= 6 then return -err[1] end
            end,
          })):take()
          local expected = { 1, 2, -3, 4, 5, 7, 8, -9, 10 }
          if not is_ordered then
            sorted(expected)
            sorted(list)
          end
          assert.same(expected, list)
          assert.same({ 3, 6, 9 }, sorted(errors))
          assert.equal(0, #stage.heard())
        end)
      end)

      it("and ex_handler that both raise are reported, and the pipeline goes on", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          if v == 2 then error("job", 0) end
          result:put(v)
          result:close()
        end, rn.to_chan(range(4)), true, { ex_handler = function(err) error(err .. " handled badly", 0) end })):take()
        assert.same({ 1, 3, 4 }, sorted(list))
        local heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("job handled badly", heard[1].err)
      end))

      it("may close its channel with an error, which is one of that job alone, reported once", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          result:put(v)
          result:close(v == 2 and "failed" or nil)
        end, rn.to_chan(range(4)))):take()
        assert.same(range(4), sorted(list))
        local heard = stage.heard()
        assert.equal(1, #heard)
        assert.equal("failed", heard[1].err)
        assert.matches("^a job of a pipeline %(pipeline_async[_a-z]* at spec/rn/pipeline_spec.lua:%d+", heard[1].name)
      end))

      it("may close its channel with an error, which goes to ex_handler, whose value comes last", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          rn.go(function() -- long after it has returned
            rn.sleep(10)
            result:put(v)
            result:close(v == 2 and "failed" or nil)
          end)
        end, rn.to_chan(range(4)), true, { ex_handler = function(err) return err end })):take()
        if is_ordered then
          assert.same({ 1, 2, "failed", 3, 4 }, list)
        else
          assert.equal(5, #list)
        end
      end))

      it("that fills its channel with puts that wait, and raises, does not stop the pipeline", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          for i = 1, v == 1 and 1026 or 1 do result:put_async(i) end
          result:close()
        end, rn.to_chan(range(3)), true, { ex_handler = function() return "too many" end })):take()
        assert.equal(1025 + 1 + 2, #list)
        if is_ordered then assert.equal("too many", list[1026]) end
      end))

      for how, close in pairs {
        ["in a <close> variable"] = function(result)
          return setmetatable({}, { __close = function(_, err) result:close(err) end })
        end,
        ["in a <close> variable that waits then"] = stage.is_5_4_3 and function(result)
          return setmetatable({}, { __close = function(_, err)
            result:close(err)
            rn.sleep(10)
          end })
        end or nil,
        ["itself"] = function(result, err) result:close(err) end,
      } do
        it("that closes its channel with the error that it raises fails once: " .. how, function()
          sim.each_seed(20, function()
            for _, handles in ipairs { true, false } do
              local handled = {}
              local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
                result:put(v)
                if v % 3 == 0 then
                  local _ <close> = close(result, "job " .. v)
                  error("job " .. v, 0)
                end
                result:close()
              end, rn.to_chan(range(7)), true, { ex_handler = handles and function(err)
                handled[#handled + 1] = err
                return -tonumber(err:match "%d+")
              end or nil })):take()
              local heard = stage.heard()
              if handles then
                local expected = { 1, 2, 3, -3, 4, 5, 6, -6, 7 }
                assert.same(is_ordered and expected or sorted(expected), is_ordered and list or sorted(list))
                assert.same({ "job 3", "job 6" }, sorted(handled))
                assert.equal(0, #heard)
              else
                assert.same(range(7), sorted(list))
                assert.equal(2, #heard)
                for _, h in ipairs(heard) do
                  assert.matches("^job [36]$", h.err)
                  assert.matches("^a job of a pipeline", h.name)
                  if not how:find "waits" then assert.matches("pipeline_spec.lua:%d+", h.trace) end
                end
              end
            end
            assert.same({}, others())
          end)
        end)
      end

      it("that closes its channel with an error and raises another one fails with both", stage.sim(function()
        for _, handles in ipairs { true, false } do
          local told = {}
          local function tell(err) told[#told + 1] = err end
          rn.into({}, pipeline_async(1, rn.chan(), function(_, result)
            result:close "closed"
            error("raised", 0)
          end, rn.to_chan { 1 }, true, { ex_handler = handles and tell or nil })):take()
          local heard = stage.heard()
          assert.equal(handles and 0 or 2, #heard)
          for _, h in ipairs(heard) do tell(h.err) end
          assert.same({ "closed", "raised" }, sorted(told))
        end
      end))

      it("that raises nil is an error of that job, too", stage.sim(function()
        local handled
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          if v == 2 then error(nil) end
          result:put(v)
          result:close()
        end, rn.to_chan(range(3)), true, { ex_handler = function(err) handled = err end })):take()
        assert.same({ 1, 3 }, sorted(list))
        assert.truthy(handled)
      end))

      for _, with in ipairs { "with", "without" } do
        local name = "that calls coroutine.yield is an error of that job alone, reported once, %s ex_handler"
        it(name:format(with), function()
          sim.each_seed(20, function()
            local told = 0
            local list = rn.into({}, pipeline_async(3, rn.chan(), function(v, result)
              result:put(v)
              if v % 3 == 0 then coroutine.yield() end
              result:close()
            end, rn.to_chan(range(10)), true, { ex_handler = with == "with" and function(err)
              assert.matches("coroutine.yield", err)
              told = told + 1
            end or nil })):take()
            assert.same(range(10), sorted(list))
            for _, entry in ipairs(stage.heard()) do
              assert.matches("coroutine.yield", entry.err)
              told = told + 1
            end
            assert.equal(3, told)
            assert.same({}, others())
          end)
        end)
      end

      for _, meddle in ipairs { "close", "resume" } do
        it(("whose coroutine somebody else %ss does not keep `to` from closing"):format(meddle), function()
          for turns = 0, 20 do
            sim.run(function()
              local calls = {} -- how many jobs each coroutine that has called af had
              local from = rn.chan(9)
              for i = 1, 9 do from:put(i) end
              from:close()
              local to = pipeline_async(2, rn.chan(), function(v, result)
                local me = coroutine.running()
                calls[me] = (calls[me] or 0) + 1
                rn.yield()
                result:put(v)
                result:close()
              end, from)
              local met = 0
              rn.go(function()
                for _ = 1, turns do rn.yield() end
                for co in pairs(calls) do
                  if coroutine.status(co) == "suspended" then
                    coroutine[meddle](co)
                    met = met + 1
                  end
                end
              end)
              local list = stage.drain(to)
              for i = 2, #list do assert.is_true(not is_ordered or list[i] > list[i - 1]) end
              -- A worker that waits for a value ends the pipeline, with an error; one that has a job loses that job.
              local heard = #stage.heard()
              assert.is_true(#list == 9 or heard > 0 or met > 0)
              assert.same({}, left())
            end, { seed = turns })
          end
        end)
      end

      it("whose coroutine somebody else closes while it waits ends the pipeline, and `to` closes", function()
        for turns = 0, 20 do
          sim.run(function()
            local led, from, to = nil, rn.chan(9), rn.chan(10)
            for i = 1, 9 do from:put(i) end
            from:close()
            pipeline_async(1, to, function(v, result)
              led = coroutine.running()
              result:put(v)
              result:close()
            end, from)
            rn.go(function()
              for _ = 1, turns do rn.yield() end
              if led and coroutine.status(led) == "suspended" then coroutine.close(led) end
            end)
            for _ in to do end
            stage.heard()
            assert.same({}, left())
          end, { seed = turns })
        end
      end)

      it("and ex_handler that calls coroutine.yield does not stop the pipeline", stage.sim(function()
        local list = rn.into({}, pipeline_async(2, rn.chan(), function(v, result)
          if v == 2 then error "bad" end
          result:put(v)
          result:close()
        end, rn.to_chan(range(4)), true, { ex_handler = function() coroutine.yield() end })):take()
        assert.same({ 1, 3, 4 }, sorted(list))
        assert.matches("coroutine.yield", stage.heard()[1].err)
      end))
    end)

    describe("when `to` closes", function()
      it("half way nothing more is taken or started; those in flight finish, and none stays", function()
        local function check()
          local from, taken = endless()
          local job = jobs(second)
          local to = pipeline_async(3, rn.chan(), job.af, from)
          for _ = 1, 4 do to:take() end
          rn.sleep(500)
          local started, before = #job.started, taken()
          to:close()
          assert.is_true(job.running > 0)
          rn.sleep(100000)
          assert.equal(started, #job.started)
          assert.equal(before, taken())
          assert.equal(started, job.ended)
          assert.same({}, left())
        end
        sim.run(check)
        stage.explore(check, { leaks = false })
      end)

      it("at any moment nothing more is taken or started", function()
        for ms = 0, 60, 5 do
          sim.each_seed(10, function(seed)
            local from, taken = endless()
            local job = jobs(function(v) return v * 7919 % 20 end, function(v) return range(v % 4) end)
            local to = pipeline_async(seed % 4 + 1, rn.chan(seed % 3), job.af, from)
            rn.go(function()
              rn.rename "source"
              for _ in to do rn.sleep(seed % 5) end
            end)
            rn.sleep(ms + 0.5)
            to:close()
            local started, before = #job.started, taken()
            rn.sleep(100000)
            assert.equal(before, taken())
            -- What was taken before the close may still be on its way to its job, but not beyond.
            assert.is_true(#job.started == started or #job.started == before)
            assert.equal(#job.started, job.ended)
            assert.same({}, left())
          end)
        end
      end)

      it("results of those in flight are dropped, however many", stage.sim(function()
        local put = 0
        local to = pipeline_async(3, rn.chan(), function(_, result)
          rn.go(function()
            rn.sleep(10)
            for i = 1, 50 do
              result:put(i)
              put = put + 1
            end
            result:close()
          end)
        end, rn.to_chan(range(3)))
        rn.sleep(5)
        to:close()
        rn.sleep(100)
        assert.equal(150, put)
        assert.same({}, others())
        assert.is_nil((to:take()))
      end))

      it("from the start no value is taken", stage.sim(function()
        local from, taken = endless()
        local to = rn.chan()
        to:close()
        local job = jobs(second)
        pipeline_async(3, to, job.af, from)
        rn.sleep(10)
        assert.equal(0, taken())
        assert.equal(0, #job.started)
        assert.same({}, left())
      end))

      it("while it waits for `from` the wait ends", stage.sim(function()
        local from, to = rn.chan(), rn.chan()
        pipeline_async(3, to, jobs(second).af, from)
        rn.sleep(10)
        assert.equal(1, from:stats().takes_waiting)
        to:close()
        rn.sleep(10)
        assert.equal(0, from:stats().takes_waiting)
        assert.same({}, others())
      end))

      it("while a result waits for a taker the wait ends", stage.sim(function()
        local job = jobs(function() return 0 end, function() return { 1, 2, 3 } end)
        local to = pipeline_async(2, rn.chan(), job.af, rn.to_chan(range(2)))
        rn.sleep(10)
        to:close()
        rn.sleep(10)
        assert.same({}, others())
        assert.equal(2, job.ended)
      end))

      it("because its transducer is done, the pipeline ends", stage.sim(function()
        local to = rn.chan(1, function(rf)
          return function(acc, ...)
            if select("#", ...) == 0 then return rf(acc) end
            return rn.reduced(rf(acc, ...))
          end
        end)
        local from = endless()
        local job = jobs(second)
        pipeline_async(3, to, job.af, from)
        assert.equal(1, #stage.drain(to))
        rn.sleep(10000)
        assert.is_true(#job.started <= 4)
        assert.same({}, left())
      end))
    end)

    describe("when `from`", function()
      it("never closes it waits, with all results delivered", stage.sim(function()
        local from = endless(5)
        local to = pipeline_async(2, rn.chan(), jobs(second).af, from)
        local list = {}
        for i = 1, 5 do list[i] = to:take() end
        assert.same(range(5), sorted(list))
        rn.sleep(10000)
        assert.is_false(to:closed())
        assert.is_true(from:stats().takes_waiting >= 1)
        rn.go(function() from:put(6) end)
        assert.equal(6, to:take())
      end))

      it("is closed and empty `to` closes at once", stage.sim(function()
        local to = pipeline_async(3, rn.chan(), jobs(second).af, rn.to_chan {})
        assert.is_nil((to:take()))
        assert.equal(0, sim.elapsed())
        assert.same({}, others())
      end))

      it("closes with an error `to` closes with it, after the results", stage.sim(function()
        local from = rn.chan(5)
        for i = 1, 5 do from:put(i) end
        from:close "why"
        local to = pipeline_async(2, rn.chan(), jobs(second).af, from)
        for _ = 1, 5 do assert.is_number(to:take()) end
        assert.same({ n = 2, nil, "why" }, table.pack(to:take()))
        assert.equal(0, #stage.heard())
      end))

      it("closes, with close = false `to` stays open", stage.sim(function()
        local to = rn.chan(100)
        pipeline_async(3, to, jobs(second).af, rn.to_chan(range(4)), false)
        rn.sleep(10000)
        assert.is_false(to:closed())
        assert.same({}, others())
        pipeline_async(3, to, jobs(second).af, rn.to_chan { 5 }, true)
        assert.same(range(5), sorted(stage.drain(to)))
      end))

      it("closes while jobs run, `to` closes after the last", stage.sim(function()
        local from = rn.chan()
        local to = pipeline_async(5, rn.chan(), jobs(function(v) return v * 100 end).af, from)
        for i = 3, 1, -1 do from:put(i) end
        from:close()
        assert.equal(3, #stage.drain(to))
        assert.equal(300, sim.elapsed())
      end))
    end)

    it("goes on when the buffer policy of `to` refuses a value", stage.sim(function()
      local to = rn.chan(stage.picky(function(v) return v % 3 ~= 0 end))
      local job = jobs(second)
      pipeline_async(2, to, job.af, rn.to_chan(range(7)))
      assert.same({ 1, 2, 4, 5, 7 }, sorted(stage.drain(to)))
      assert.equal(2, #stage.heard())
      assert.equal(2, job.peak)
      assert.equal(4000, sim.elapsed())
    end))

    it("chains in stages, each with its own parallelism", function()
      stage.explore(function()
        local first, second_stage, third = jobs(second), jobs(second), jobs(function() return 10 end)
        local to = rn.chan()
        pipeline_async(1, to, third.af,
          pipeline_async(3, rn.chan(), second_stage.af,
            pipeline_async(2, rn.chan(), first.af, rn.to_chan(range(6)))))
        local list = rn.into({}, to):take()
        assert.same(range(6), is_ordered and list or sorted(list))
        assert.equal(2, first.peak)
        assert.is_true(second_stage.peak <= 3)
        assert.equal(1, third.peak)
        assert.equal(4020, sim.elapsed())
        assert.same({}, others())
      end)
    end)

    it("closing the last of a chain of stages ends all of them", stage.sim(function()
      local from, taken = endless()
      local a = pipeline_async(2, rn.chan(), jobs(second).af, from)
      local b = rn.pipe(a, rn.chan())
      local c = pipeline_async(2, rn.chan(), jobs(second).af, b)
      for _ = 1, 3 do c:take() end
      c:close()
      rn.sleep(100000)
      b:close()
      rn.sleep(100000)
      a:close()
      rn.sleep(100000)
      local before = taken()
      rn.sleep(100000)
      assert.equal(before, taken())
      assert.same({}, left())
    end))

    it("with no one left to take is collected", stage.sim(function()
      do
        local from = rn.chan(10)
        for i = 1, 10 do from:put(i) end
        pipeline_async(3, rn.chan(), jobs(function() return 1 end).af, from)
      end
      rn.sleep(1000)
      assert.is_true(#stage.others() > 0)
      for _ = 1, 4 do collectgarbage() end
      assert.same({}, others())
    end))

    it("refuses bad arguments", function()
      local name = is_ordered and "pipeline_async" or "pipeline_async_unordered"
      local ch, af = rn.chan(), function() end
      for _, bad in ipairs { 0, -1, 1.5, "2", {}, math.huge } do
        assert.error_matches(function() pipeline_async(bad, ch, af, ch) end,
          name .. ": n: an integer of at least 1 expected, got ")
      end
      assert.error_matches(function() pipeline_async(nil, ch, af, ch) end, name .. ": n: an integer")
      assert.error_matches(function() pipeline_async(1, {}, af, ch) end, name .. ": to: a channel expected, got a ")
      assert.error_matches(function() pipeline_async(1, ch, 42, ch) end, name .. ": af: a function expected, got a ")
      assert.error_matches(function() pipeline_async(1, ch, af) end, name .. ": from: a channel expected, got nothing")
      assert.error_matches(function() pipeline_async(1, ch, af, ch, true, 42) end,
        name .. ": a table of options expected, got a number")
      assert.error_matches(function() pipeline_async(1, ch, af, ch, true, { widow = 3 }) end,
        name .. ': unknown option "widow"')
      assert.error_matches(function() pipeline_async(1, ch, af, ch, true, { ex_handler = 42 }) end,
        name .. ": ex_handler: a function expected, got a number")
      local here = stage.here(1)
      local _, err = pcall(function() pipeline_async(0, ch, af, ch) end)
      assert.equal(here .. ": " .. name .. ": n: an integer of at least 1 expected, got 0", err)
      -- n may be a float, as long as it is a whole number.
      rn.run(function() assert.same({}, stage.drain(pipeline_async(2.0, rn.chan(), af, rn.to_chan {}))) end)
    end)
  end)
end

describe("pipeline_async_unordered", function()
  before_each(stage.open)
  after_each(stage.close)

  it("loses only the job of a go block that somebody closes while it delivers, and reports that", stage.sim(function()
    local deliverer
    local to = rn.chan(9, rn.xf.map(function(v)
      deliverer = coroutine.running()
      return v
    end))
    rn.pipeline_async_unordered(3, to, function(v, result)
      rn.go(function()
        rn.sleep(10 * v)
        result:put(v)
        result:close()
        if v == 2 then assert.is_true(coroutine.close(deliverer)) end
      end)
    end, rn.to_chan(range(6)))
    local list = sorted(stage.drain(to))
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("closed or resumed by other code", heard[1].err)
    assert.is_true(#list >= 5)
    assert.same({}, left())
  end))

  it("does not wait for the ex_handler of one job before it delivers the others", stage.sim(function()
    local handled = 0
    local to = rn.pipeline_async_unordered(3, rn.chan(), function(v, result)
      if v % 2 == 0 then return result:close(v) end
      result:put(v)
      result:close()
    end, rn.to_chan(range(5)), true, { ex_handler = function(v)
      rn.sleep(100)
      handled = handled + 1
      return 10 * v
    end })
    assert.same({ 1, 3, 5 }, { to:take(), to:take(), to:take() })
    assert.equal(0, sim.elapsed())
    assert.same({ 20, 40 }, sorted(stage.drain(to)))
    assert.equal(2, handled)
    assert.equal(100, sim.elapsed())
  end))

  it("runs exactly n jobs of many, however large n is", stage.sim(function()
    for _, n in ipairs { 127, 128, 129, 1000 } do
      local job = jobs(function(v) return v % 7 end, function(v) return range(v % 3) end)
      local list = rn.into({}, rn.pipeline_async_unordered(n, rn.chan(), job.af, rn.to_chan(range(2000)))):take()
      assert.equal(2001, #list)
      assert.equal(n, job.peak)
    end
  end))
end)

describe("pipeline_async with a window", function()
  before_each(stage.open)
  after_each(stage.close)

  it("runs on while the first job is slow: n running, window undelivered", function()
    local function check()
      local from, taken = endless()
      local job = jobs(function(v) return v == 1 and 10000 or 1000 end)
      local to = rn.pipeline_async(3, rn.chan(), job.af, from, true, { window = 7 })
      rn.go(function()
        rn.rename "source"
        for _ in to do rn.yield() end
      end)
      rn.sleep(2500)
      assert.equal(3, job.running)
      assert.equal(7, #job.started)
      assert.equal(4, job.ended)
      rn.sleep(2000)
      assert.equal(1, job.running)
      assert.equal(7, #job.started)
      assert.equal(7, taken())
      rn.sleep(5600)
      assert.equal(3, job.peak)
      assert.equal(10, #job.started)
    end
    sim.run(check)
    stage.explore(check, { leaks = false }) -- it goes on for ever
  end)

  it("has the results in order, and is faster than without", function()
    for _, window in ipairs { 3, 4, 5, 8, 10, 1000 } do
      stage.explore(function()
        local job = jobs(function(v) return v == 1 and 10000 or 1000 end)
        local to = rn.pipeline_async(3, rn.chan(), job.af, rn.to_chan(range(10)), true, { window = window })
        assert.same(range(10), rn.into({}, to):take())
        assert.equal(3, job.peak)
        local rest = math.max(0, 10 - window)
        assert.equal(10000 + math.ceil(rest / 3) * 1000, sim.elapsed())
        rn.sleep(1)
        assert.same({}, others())
      end)
    end
  end)

  it("is exact for every n and window", function()
    for n = 1, 5 do
      for window = n, n + 4 do
        sim.each_seed(5, function(seed)
          local job = jobs(function(v) return (v * 7919 * seed) % 23 end, function(v) return range(v % 3) end)
          local list = rn.into({}, rn.pipeline_async(n, rn.chan(), job.af, rn.to_chan(range(40)), true,
            { window = window })):take()
          local expected = {}
          for v = 1, 40 do for i = 1, v % 3 do expected[#expected + 1] = i end end
          assert.same(expected, list)
          assert.equal(n, job.peak)
          rn.sleep(1)
          assert.same({}, others())
        end)
      end
    end
  end)

  it("ends like any other when `to` closes", function()
    sim.each_seed(30, function(seed)
      local from, taken = endless()
      local job = jobs(function(v) return v == 1 and 1000 or v % 7 end, function(v) return range(v % 3) end)
      local to = rn.pipeline_async(3, rn.chan(), job.af, from, true, { window = 10 })
      rn.sleep(seed)
      to:close()
      rn.sleep(0.5)
      local started, before = #job.started, taken()
      rn.sleep(10000)
      assert.equal(before, taken())
      assert.equal(started, #job.started)
      assert.equal(started, job.ended)
      assert.same({}, left())
    end)
  end)

  it("lets far more jobs end at once than may wait on one channel", stage.sim(function()
    for _, window in ipairs { 2500, 3000 } do
      local running, peak = 0, 0
      local list = rn.into({}, rn.pipeline_async(2500, rn.chan(), function(v, result)
        running = running + 1
        peak = math.max(peak, running)
        rn.sleep(10)
        running = running - 1
        result:put(v)
        result:close()
      end, rn.to_chan(range(6000)), true, { window = window })):take()
      assert.same(range(6000), list)
      assert.equal(2500, peak)
    end
    assert.same({}, stage.heard())
  end))

  it("takes a job for running while af is, even past its result", stage.sim(function()
    local running, peak = 0, 0
    local list = rn.into({}, rn.pipeline_async(3, rn.chan(), function(v, result)
      running = running + 1
      peak = math.max(peak, running)
      result:put(v)
      result:close()
      rn.sleep(v % 4)
      running = running - 1
    end, rn.to_chan(range(50)), true, { window = 10 })):take()
    assert.same(range(50), list)
    assert.equal(3, peak)
  end))

  it("counts jobs that raise, and those that never end", stage.sim(function()
    local list = rn.into({}, rn.pipeline_async(2, rn.chan(), function(v, result)
      if v % 2 == 0 then error("job", 0) end
      result:put(v)
      result:close()
    end, rn.to_chan(range(20)), true, { window = 6 })):take()
    assert.equal(10, #list)
    assert.equal(10, #stage.heard())
    local started = 0
    rn.pipeline_async(2, rn.chan(), function() started = started + 1 end, endless(), true, { window = 6 })
    rn.sleep(1000)
    assert.equal(2, started)
  end))

  it("is at least n", function()
    local ch, af = rn.chan(), function() end
    for _, bad in ipairs { 2, 0, 3.5, "4", true } do
      assert.error_matches(function() rn.pipeline_async(3, ch, af, ch, true, { window = bad }) end,
        "pipeline_async: window: an integer of at least 3 expected")
    end
    assert.error_matches(function() rn.pipeline_async_unordered(3, ch, af, ch, true, { window = 4 }) end,
      'pipeline_async_unordered: unknown option "window"')
  end)
end)

for _, name in ipairs { "pipeline", "pipeline_blocking" } do
  describe(name, function()
    before_each(stage.open)
    after_each(stage.close)

    local pipeline = rn[name]

    -- f returns the values to give for each value.
    local function expanding(f)
      return function(rf)
        return function(acc, ...)
          if select("#", ...) == 0 then return rf(acc) end
          for _, v in ipairs(f(...)) do acc = rf(acc, v) end
          return acc
        end
      end
    end

    it("sends each value through the transducer, in order", function()
      sim.each_seed(20, function(seed)
        local to = rn.chan(seed % 3)
        local xf = expanding(function(v) return v % 3 == 0 and {} or { v, -v } end)
        assert.equal(to, pipeline(seed % 5 + 1, to, xf, rn.to_chan(range(10))))
        assert.same({ 1, -1, 2, -2, 4, -4, 5, -5, 7, -7, 8, -8, 10, -10 }, stage.drain(to))
        assert.same({}, others())
      end)
    end)

    it("gives each value a transducer of its own, completed after it", stage.sim(function()
      local xf = function(rf)
        local n = 0
        return function(acc, ...)
          if select("#", ...) == 0 then return rf(rf(acc, "end")) end
          n = n + 1
          return rf(acc, n)
        end
      end
      assert.same({ 1, "end", 1, "end" }, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { "a", "b" })))
    end))

    it("may stop early within a value", stage.sim(function()
      local xf = function(rf)
        return function(acc, ...)
          if select("#", ...) == 0 then return rf(acc) end
          return rn.reduced(rf(acc, ...))
        end
      end
      assert.same({ 1, 2, 3 }, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2, 3 })))
    end))

    it("carries a thousand values of one value", stage.sim(function()
      local to = pipeline(3, rn.chan(), expanding(range), rn.to_chan { 1000, 2 })
      assert.equal(1002, #stage.drain(to))
    end))

    it("has errors of the transducer reported once, and goes on", stage.sim(function()
      local xf = expanding(function(v)
        if v == 2 then error("bad value", 0) end
        return { v }
      end)
      assert.same({ 1, 3 }, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2, 3 })))
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.equal("bad value", heard[1].err)
    end))

    it("has errors of the transducer go to ex_handler, whose value takes the place", stage.sim(function()
      local xf = expanding(function(v)
        if v == 2 then error("bad value", 0) end
        return { v }
      end)
      local to = pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2, 3 }, true, function(err) return "not " .. err end)
      assert.same({ 1, "not bad value", 3 }, stage.drain(to))
      assert.same({ 1, 3 }, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2, 3 }, true, function() end)))
      assert.equal(0, #stage.heard())
    end))

    it("has errors on completion reported too", stage.sim(function()
      local xf = function(rf)
        return function(acc, ...)
          if select("#", ...) == 0 then error("at the end", 0) end
          return rf(acc, ...)
        end
      end
      assert.same({ 1, 2 }, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2 })))
      assert.equal(2, #stage.heard())
    end))

    it("has a transducer that cannot be made reported for each value", stage.sim(function()
      local xf = function() error("no transducer", 0) end
      assert.same({}, stage.drain(pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2 })))
      assert.equal(2, #stage.heard())
      local to = pipeline(2, rn.chan(), xf, rn.to_chan { 1, 2 }, true, function(err) return err end)
      assert.same({ "no transducer", "no transducer" }, stage.drain(to))
      assert.equal(0, #stage.heard())
    end))

    it("runs at most n ahead, closes, and ends when `to` closes", stage.sim(function()
      local from, taken = endless()
      local to = pipeline(3, rn.chan(), expanding(function(v) return { v } end), from)
      rn.sleep(1)
      assert.equal(3, taken())
      assert.equal(1, to:take())
      rn.sleep(1)
      assert.equal(4, taken())
      to:close()
      rn.sleep(1)
      assert.equal(4, taken())
      assert.same({}, left())
      local open = rn.chan(10)
      pipeline(2, open, expanding(function(v) return { v } end), rn.to_chan { 1, 2 }, false)
      rn.sleep(1)
      assert.is_false(open:closed())
    end))

    it("passes on the error of `from`", stage.sim(function()
      local from = rn.chan(1)
      from:put(1)
      from:close "why"
      local to = pipeline(2, rn.chan(), expanding(function(v) return { v } end), from)
      assert.equal(1, to:take())
      assert.same({ nil, "why" }, { to:take() })
    end))

    it("refuses bad arguments", function()
      local ch, xf = rn.chan(), function(rf) return rf end
      assert.error_matches(function() pipeline(0, ch, xf, ch) end, name .. ": n: an integer of at least 1 expected")
      assert.error_matches(function() pipeline(1, nil, xf, ch) end, name .. ": to: a channel expected, got nothing")
      assert.error_matches(function() pipeline(1, ch, {}, ch) end, name .. ": transducer: a function expected")
      assert.error_matches(function() pipeline(1, ch, xf, "x") end, name .. ": from: a channel expected, got a string")
      assert.error_matches(function() pipeline(1, ch, xf, ch, true, {}) end, name .. ": ex_handler: a function or nil")
    end)
  end)
end
