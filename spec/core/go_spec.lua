local rn = require "runnel"
local sim = require "runnel.sim"
local finalizers = require "spec.support.finalizers"
local gc = require "spec.support.gc"
local shell = require "spec.support.shell"
local stage = require "spec.support.stage"
local since_5_4_3 = stage.is_5_4_3 and it or pending

-- Whether a coroutine that was closed because of its error is like one that has ended well: from Lua 5.4.4 on.
local function closes_well()
  local failed = coroutine.create(error)
  coroutine.resume(failed)
  coroutine.close(failed)
  return coroutine.close(failed)
end
local since_5_4_4 = stage.is_5_4_3 and closes_well() and it or pending

local function closing(f) return setmetatable({}, { __close = f }) end

describe("go", function()
  before_each(stage.open)
  after_each(stage.close)

  describe("arguments and results", function()
    it("passes its arguments, nil and false among them", stage.sim(function()
      local n, list
      rn.go(function(...) n, list = select("#", ...), { ... } end, nil, false, 3, nil):take()
      assert.equal(4, n)
      assert.same({ nil, false, 3 }, list)
    end))

    it("passes ten thousand arguments", stage.sim(function()
      local list = {}
      for i = 1, 10000 do list[i] = i end
      local last = rn.go(function(...) return select("#", ...) + select(10000, ...) end, table.unpack(list)):take()
      assert.equal(20000, last)
    end))

    it("passes 65000 arguments and refuses one more", stage.sim(function()
      local list = {}
      for i = 1, 65001 do list[i] = i end
      local count = function(...) return select("#", ...) end
      assert.equal(65000, rn.go(count, table.unpack(list, 1, 65000)):take())
      assert.error_matches(function() rn.go(count, table.unpack(list)) end, "too many arguments")
      assert.equal(0, #stage.others())
    end))

    it("gives the first result only", stage.sim(function()
      local result = rn.go(function() return 1, 2, 3 end)
      assert.equal(1, result:take())
      assert.is_nil(result:take())
      assert.is_true(result:closed())
    end))

    it("gives the first of 10000 results", stage.sim(function()
      local list = {}
      for i = 1, 10000 do list[i] = i end
      assert.equal(1, rn.go(function() return table.unpack(list) end):take())
    end))

    it("gives false as a result", stage.sim(function()
      local result = rn.go(function() return false end)
      assert.is_false(result:take())
      assert.is_nil(result:take())
    end))

    it("closes empty without a result, and with nil for one", stage.sim(function()
      for _, f in ipairs { function() end, function() return nil end, function() return nil, nil, 2 end } do
        assert.equal(1, select("#", rn.go(f):take()))
        local result = rn.go(f)
        rn.yield()
        assert.is_true(result:closed())
        assert.equal(0, #result)
      end
    end))

    it("gives nil and an error to every take, and reports nothing: nothing was raised", stage.sim(function()
      for _, err in ipairs { "no such host", false, 2 } do
        local result = rn.go(function() return nil, err, "more" end)
        for _ = 1, 2 do assert.same({ nil, err, n = 2 }, table.pack(result:take())) end
        result = rn.go(function() return nil, err end)
        rn.yield()
        assert.is_true(result:closed())
        assert.same({ nil, result, err, n = 3 }, table.pack(rn.alts { result }))
        rn.go(function() return nil, err end) -- nobody takes it
        rn.scope(function(s) assert.same({ nil, err }, { s:go(function() return nil, err end):take() }) end)
      end
      assert.same({ "value", n = 1 }, table.pack(rn.go(function() return "value", "not an error" end):take()))
      rn.sleep(10000)
      assert.same({}, stage.heard())
    end))

    it("takes a callable object for its function", stage.sim(function()
      local object = setmetatable({}, { __call = function(_, a) return a + 1 end })
      assert.equal(3, rn.go(object, 2):take())
    end))

    it("takes an object that is called by such a one", stage.sim(function()
      local object = setmetatable({}, { __call = setmetatable({}, { __call = function(_, _, a) return a + 1 end }) })
      if not pcall(object, 2) then return end -- Lua 5.1 and LuaJIT cannot call it
      assert.equal(3, rn.go(object, 2):take())
    end))

    it("takes a function written in C", stage.sim(function()
      assert.equal("x", rn.go(string.lower, "X"):take())
    end))

    it("refuses what cannot be called", function()
      for _, bad in ipairs { 42, "f", true, {} } do
        assert.error_matches(function() rn.go(bad) end, "go: a function expected, got " .. type(bad))
      end
      assert.error_matches(function() rn.go() end, "go: a function expected, got nothing")
      assert.error_matches(function() rn.go(nil) end, "go: a function expected, got nil")
    end)

    it("keeps its result for a later taker", stage.sim(function()
      local result = rn.go(function() return "late" end)
      rn.sleep(1000)
      collectgarbage()
      assert.equal("late", result:take())
    end))
  end)

  describe("order", function()
    it("does not run on the caller's stack", stage.sim(function()
      local ran = false
      local result = rn.go(function() ran = true end)
      assert.is_false(ran)
      result:take()
      assert.is_true(ran)
    end))

    it("runs go blocks in the order in which they were made", stage.sim(function()
      local log = {}
      for i = 1, 100 do rn.go(function() log[#log + 1] = i end) end
      rn.yield()
      for i = 1, 100 do assert.equal(i, log[i]) end
    end))

    it("yields to the others, first come first served", stage.sim(function()
      local log = {}
      for _, name in ipairs { "a", "b", "c" } do
        rn.go(function()
          for round = 1, 3 do
            log[#log + 1] = name .. round
            rn.yield()
          end
        end)
      end
      for _ = 1, 5 do rn.yield() end
      assert.equal("a1 b1 c1 a2 b2 c2 a3 b3 c3", table.concat(log, " "))
    end))

    it("wakes in the order in which operations complete", stage.sim(function()
      local log = {}
      local first, second = rn.chan(), rn.chan()
      local function take(ch)
        local value = ch:take()
        log[#log + 1] = value
      end
      rn.go(take, first)
      rn.go(take, second)
      rn.yield()
      second:put "second"
      first:put "first"
      rn.yield()
      assert.same({ "second", "first" }, log)
    end))

    it("refuses yield in a callback, with an error that says so", stage.sim(function()
      local ch = rn.chan()
      ch:take_async(function() rn.yield() end)
      ch:put(1)
      rn.yield()
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.matches("yield would have to wait, which is impossible inside a callback", heard[1].err)
    end))
  end)

  describe("errors", function()
    it("close the result channel and reach on_error once, with traceback and name", stage.sim(function()
      local line = stage.here(1)
      local result = rn.go(function()
        local function inner() error "oh no" end
        inner()
      end)
      rn.yield()
      local heard = stage.heard()
      assert.equal(1, #heard)
      local value, err = result:take()
      assert.is_nil(value)
      assert.matches("go_spec.lua:%d+: oh no$", err)
      assert.equal(err, heard[1].err)
      assert.matches("stack traceback:.*in [%w ]*'inner'", heard[1].trace)
      assert.equal(line, heard[1].name)
      -- Every taker gets the error, and it is not reported again.
      assert.same({ nil, err }, { result:take() })
      assert.same({ nil, result, err }, { rn.alts { result } })
      assert.equal(0, #stage.heard())
    end))

    it("may be objects, which are passed on as they are", stage.sim(function()
      local object = setmetatable({}, { __tostring = function() error "never asked" end })
      local result = rn.go(error, object)
      rn.yield()
      assert.is_true(rawequal(object, stage.heard()[1].err))
      local _, err = result:take()
      assert.is_true(rawequal(object, err))
    end))

    it("may be false", stage.sim(function()
      assert.same({ nil, false }, { rn.go(error, false):take() })
      rn.go(error, false)
      rn.yield()
      assert.is_false(stage.heard()[1].err)
    end))

    it("may be nil, and still tell failure from an end", stage.sim(function()
      local result = rn.go(function() error(nil) end)
      rn.yield()
      assert.is_true(result:closed())
      if stage.raised_nil then return assert.same({ nil, stage.raised_nil }, { result:take() }) end
      assert.is_nil((result:take()))
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.is_nil(heard[1].err)
    end))

    it("of an infinite recursion are reported like others #heavy", stage.sim(function()
      local function deep(n) return 1 + deep(n + 1) end
      local _, err = rn.go(deep, 1):take()
      assert.matches("stack overflow", err)
      assert.same({}, stage.heard())
      assert.equal("fine", rn.go(function() return "fine" end):take())
    end))

    it("have the traceback that Lua gives, without the library's own frames", stage.sim(function()
      local function deep(n)
        if n == 0 then error "oh no" end
        return (deep(n - 1))
      end
      local failing = {
        error,
        function() deep(3) end,
        function() return deep(0) end,
        function() string.rep() end,
        function() table.sort({ 1, 2, 3 }, function() error "unsortable" end) end,
        function() return setmetatable({}, { __index = function() error "no index" end }).x end,
        function() for _ in function() error "no value" end do error "never" end end,
        require,
        load("error('in a chunk')", "=(a chunk)"),
      }
      for _, f in ipairs(failing) do
        rn.go(f, "no such module")
        rn.yield()
        local co = coroutine.create(f)
        coroutine.resume(co, "no such module")
        assert.equal(debug.traceback(co), stage.heard()[1].trace)
      end
      rn.go(deep, 100)
      rn.yield()
      local trace = stage.heard()[1].trace
      assert.equal(21, select(2, trace:gsub("\n\t[^.]", "")))
      assert.matches("\n\t%.%.%.\t%(skipping 81 levels%)\n", trace)
      assert.matches("in function <[^\n]*:%d+>$", trace)
    end))

    it("look for the names of all functions in package.loaded at once", stage.sim(function()
      local large = {}
      for i = 1, 20000 do large["field" .. i] = i end
      package.loaded["a large module"] = large
      local function deep(n)
        if n == 0 then error "oh no" end
        return (deep(n - 1))
      end
      local function time(n)
        local began = os.clock()
        for _ = 1, 20 do
          rn.go(deep, n)
          rn.yield()
        end
        return os.clock() - began
      end
      local shallow, many = time(1), time(20)
      package.loaded["a large module"] = nil
      assert.equal(40, #stage.heard())
      assert(many < 4 * shallow + 0.05, ("%.4f s with few levels, %.4f s with many"):format(shallow, many))
    end))

    it("look through package.loaded once, and again only after a cycle of the collector", stage.sim(function()
      local large = {}
      for i = 1, 200000 do large["field" .. i] = i end
      package.loaded["a large module"] = large
      collectgarbage()
      collectgarbage "stop"
      local function time(n)
        local began = os.clock()
        for _ = 1, n do
          rn.go(function() error "oh no" end)
          rn.yield()
        end
        return os.clock() - began
      end
      local first, others = time(1), time(100)
      collectgarbage "restart"
      package.loaded["a large module"] = nil
      assert.equal(101, #stage.heard())
      assert(others < 20 * first, ("%.4f s for the first, %.4f s for 100 more"):format(first, others))
    end))

    it("have the names of functions of modules, whenever these were loaded", stage.sim(function()
      local module = load("return { fails = function() error 'oh no' end, other = function() error 'oh no' end }")()
      local fails = module.fails
      local function trace_of(f)
        rn.go(f) -- a call without a name in the code
        rn.yield()
        return stage.heard()[1].trace
      end
      assert.matches("in function <%[string", trace_of(fails))
      package.loaded["a module"] = module
      collectgarbage()
      for _ = 1, 3 do -- the second and third time from what the first has found
        assert.matches("in function 'a module.fails'", trace_of(fails))
        assert.matches("in function 'a module.other'", trace_of(module.other))
      end
      package.loaded["a module"] = nil
      collectgarbage()
      assert.matches("in function <%[string", trace_of(fails))
    end))

    it("have a traceback with names of any length, cut", stage.sim(function()
      local name = ("n"):rep(100000)
      local f = load(("local %s = ...; %s()"):format(name, name), "=(a chunk)")
      rn.go(function() f(function() error "oh no" end) end)
      rn.yield()
      local trace = stage.heard()[1].trace
      assert.matches("in local 'n+'\n\t%(a chunk%):1: in ", trace)
      assert.is_true(#trace < 2000)
    end))

    it("keep their traceback if a finalizer closes the coroutine meanwhile", stage.sim(function()
      for _, finalize in ipairs { finalizers.among, finalizers.at_once } do
        local co
        finalize(function()
          if co and coroutine.status(co) == "dead" then coroutine.close(co) end
        end, function()
          rn.go(error, "the first after a collection makes the table of known names")
          rn.yield()
          for i = 1, 50 do
            rn.go(function()
              co = coroutine.running()
              local function inner() error("oh no " .. i, 0) end
              inner()
            end)
            rn.yield()
          end
        end)
        local heard = stage.heard()
        assert.equal(51, #heard)
        table.remove(heard, 1)
        for i, it in ipairs(heard) do
          assert.equal("oh no " .. i, it.err)
          assert.matches("^stack traceback:\n.*in [%w ]*'inner'\n.*in function <[^\n]*>$", it.trace)
        end
      end
    end))

    it("start no cycle of the collector, so that they cost the same whatever else lives", stage.sim(function()
      local ballast = {}
      for i = 1, 20000 do ballast[i] = { i } end
      for _, mode in ipairs { "incremental", "generational" } do
        -- A cycle begins when the heap is ten times as large, or twice in generational mode.
        if mode == "incremental" then gc.incremental(1000, 100, 13)
        else gc.generational(100) end
        collectgarbage()
        local cycles = 0
        local meta = {}
        function meta.__gc()
          cycles = cycles + 1
          setmetatable({}, meta)
        end
        setmetatable({}, meta)
        for _ = 1, 50 do rn.go(error, "oh no"):take() end
        meta.__gc = nil
        assert.equal(0, cycles, mode)
      end
      gc.usual()
      collectgarbage()
      assert.equal(20000, #ballast)
    end))

    it("can be caught around a park", stage.sim(function()
      local ch = rn.chan()
      local result = rn.go(function()
        local ok, err = pcall(function()
          local ok2, err2 = pcall(function() error("inner " .. ch:take(), 0) end)
          assert.is_false(ok2)
          error(err2 .. " outer " .. ch:take(), 0)
        end)
        return tostring(ok) .. " " .. err .. " " .. ch:take()
      end)
      ch:put "one"
      ch:put "two"
      ch:put "three"
      assert.equal("false inner one outer two three", result:take())
    end))

    it("raised after a park inside xpcall get the handler's traceback", stage.sim(function()
      local result = rn.go(function()
        local _, trace = xpcall(function()
          rn.sleep(5)
          error "late"
        end, debug.traceback)
        return trace
      end)
      assert.matches("late.*stack traceback", result:take())
    end))

    it("of an argument name the line that called", stage.sim(function()
      local here = stage.here(1)
      local _, err = pcall(function() rn.sleep "x" end)
      assert.equal(here .. ": sleep: a number of milliseconds expected, got string", err)
    end))

    it("do not disturb other go blocks", stage.sim(function()
      local ch = rn.chan()
      for i = 1, 10 do
        rn.go(function()
          ch:put(i)
          error("block " .. i, 0)
        end)
      end
      local sum = 0
      for _ = 1, 10 do sum = sum + ch:take() end
      rn.yield()
      assert.equal(55, sum)
      assert.equal(10, #stage.heard())
      assert.equal(0, #stage.others())
    end))
  end)

  describe("variables to be closed", function()
    it("are closed when the block ends", stage.sim(function()
      local log = {}
      rn.go(function()
        local _ <close> = closing(function() log[#log + 1] = "first" end)
        local _ <close> = closing(function() log[#log + 1] = "second" end)
        rn.sleep(1)
      end):take()
      assert.same({ "second", "first" }, log)
    end))

    it("are closed when the block raises, with the error", stage.sim(function()
      local seen
      local result = rn.go(function()
        local _ <close> = closing(function(_, err) seen = err end)
        rn.sleep(1)
        error("dying", 0)
      end)
      assert.same({ nil, "dying" }, { result:take() })
      assert.equal("dying", seen)
    end))

    it("are closed before the result channel closes", stage.sim(function()
      local result, closed
      result = rn.go(function()
        local _ <close> = closing(function() closed = result:closed() end)
        error("dying", 0)
      end)
      result:take()
      assert.is_false(closed)
      stage.heard()
    end))

    since_5_4_3("may replace the error by one of their own, which is reported once", stage.sim(function()
      local result = rn.go(function()
        local _ <close> = closing(function() error("second", 0) end)
        error("first", 0)
      end)
      rn.yield()
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.equal("second", heard[1].err)
      assert.same({ nil, "second" }, { result:take() })
    end))

    it("may put, offer and close while the block dies", stage.sim(function()
      local ch, other = rn.chan(1), rn.chan()
      local taker = rn.go(function() return other:take() end)
      rn.go(function()
        local _ <close> = closing(function()
          ch:put "dying"
          other:offer "woken"
          ch:close()
        end)
        error("first", 0)
      end):take()
      assert.equal("woken", taker:take())
      assert.same({ "dying" }, stage.drain(ch))
    end))

    describe("while the block dies of an error", function()
      -- Ways to wait for half a second.
      local waits = {
        put = function(ch) assert.is_true(ch:put "from a dying block") end,
        take = function(ch)
          rn.go(function()
            rn.sleep(500)
            ch:put "to a dying block"
          end)
          assert.equal("to a dying block", ch:take())
        end,
        alts = function() assert.is_nil((rn.alts { rn.chan(), rn.timeout(500) })) end,
        sleep = function() rn.sleep(500) end,
        ["take from a go block"] = function()
          assert.equal("slept", rn.go(function()
            rn.sleep(500)
            return "slept"
          end):take())
        end,
      }
      for name, wait in pairs(waits) do
        since_5_4_3(("can wait in %s, each in its turn"):format(name), stage.sim(function()
          local log, ch = {}, rn.chan()
          local result = rn.go(function()
            local _ <close> = closing(function(_, err) log[#log + 1] = "first " .. err end)
            local _ <close> = closing(function(_, err)
              wait(ch)
              log[#log + 1] = "second " .. err
            end)
            local _ <close> = closing(function(_, err)
              rn.yield()
              log[#log + 1] = "third " .. err
            end)
            rn.sleep(1)
            error("oops", 0)
          end)
          rn.sleep(400)
          assert.same({ "third oops" }, log)
          assert.is_false(result:closed())
          if name == "put" then assert.equal("from a dying block", ch:take()) end
          rn.sleep(200)
          assert.same({ "third oops", "second oops", "first oops" }, log)
          local heard = stage.heard()
          assert.equal(1, #heard)
          assert.equal("oops", heard[1].err)
          assert.matches("in %l+ 'error'", heard[1].trace)
          assert.same({ nil, "oops" }, { result:take() })
          assert.same({}, stage.others())
        end))
      end

      since_5_4_3("can replace the error after they have waited", stage.sim(function()
        local seen
        local result = rn.go(function()
          local _ <close> = closing(function(_, err) seen = err end)
          local _ <close> = closing(function()
            rn.sleep(1)
            error("second", 0)
          end)
          error("first", 0)
        end)
        assert.same({ nil, "second" }, { result:take() })
        assert.equal("second", seen)
      end))

      since_5_4_3("are closed, the rest of them, when one leaves by coroutine.yield", stage.sim(function()
        local log = {}
        local result = rn.go(function()
          for i = 1, 3 do
            rn.go(function() log[#log + 1] = i end)
          end
          local _ <close> = closing(function(_, err) log[#log + 1] = err end)
          local _ <close> = closing(coroutine.yield)
          local _ <close> = closing(coroutine.yield)
          error("first", 0)
        end)
        local _, err = result:take()
        assert.matches("called coroutine.yield", err)
        assert.equal(4, #log)
      end))

      it("are closed with whatever can be called as their __close", stage.sim(function()
        local log = {}
        local callable = setmetatable({}, { __call = function(_, _, err) log[#log + 1] = "callable " .. err end })
        local kinds = {
          function() log[#log + 1] = "no parameters" end,
          function(...) log[#log + 1] = ("variable %d %s"):format(select("#", ...), (select(2, ...))) end,
          function(value, ...) log[#log + 1] = ("both %s %s"):format(type(value), (...)) end,
          callable,
        }
        local result = rn.go(function()
          local _ <close> = setmetatable({}, { __close = kinds[1] })
          local _ <close> = setmetatable({}, { __close = kinds[2] })
          local _ <close> = setmetatable({}, { __close = kinds[3] })
          local _ <close> = setmetatable({}, { __close = kinds[4] })
          local ch <close> = rn.chan()
          log[1] = ch
          for _ in pairs {} do error "never" end
          error("oops", 0)
        end)
        result:take()
        local ch = table.remove(log, 1)
        assert.same({ nil, "oops" }, { ch:take() })
        assert.same({ "callable oops", "both table oops", "variable 2 oops", "no parameters" }, log)
      end))

      it("are closed with many of them, at any depth", stage.sim(function()
        local n = 0
        local function nest(depth)
          local _ <close> = closing(function() n = n + 1 end)
          if depth == 0 then error("oops", 0) end
          nest(depth - 1)
        end
        assert.same({ nil, "oops" }, { rn.go(nest, 999):take() })
        assert.equal(1000, n)
      end))

      since_5_4_3("keep the block's name and place in rn.ps while they wait", stage.sim(function()
        local result = rn.go(function()
          rn.rename "worker"
          local _ <close> = closing(function() rn.sleep(10) end)
          error("oops", 0)
        end)
        rn.sleep(1)
        local entry = stage.entry(result)
        assert.equal("worker", entry.name)
        assert.equal("sleeping", entry.state)
        assert.matches("go_spec", entry.where)
        result:take()
        stage.heard()
      end))
    end)

    it("may park when the block ends well", stage.sim(function()
      local ch = rn.chan()
      local result = rn.go(function()
        local _ <close> = closing(function() ch:take() end)
        return "done"
      end)
      ch:put(1)
      assert.equal("done", result:take())
    end))

    it("may start go blocks while the block dies", stage.sim(function()
      local other
      rn.go(function()
        local _ <close> = closing(function() other = rn.go(function() return "alive" end) end)
        error("first", 0)
      end):take()
      assert.equal("alive", other:take())
      stage.heard()
    end))
  end)

  describe("coroutines", function()
    it("of the block's own may resume and yield between parks", stage.sim(function()
      local gen = coroutine.wrap(function()
        for i = 1, 3 do coroutine.yield(i) end
      end)
      local sum = 0
      for i in gen do
        rn.sleep(1)
        sum = sum + i
      end
      assert.equal(6, sum)
    end))

    it("end a go block that yields without one of its own", stage.sim(function()
      local result = rn.go(function() coroutine.yield(1, 2, 3) end)
      rn.yield()
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.matches("yield", heard[1].trace)
      local _, err = result:take()
      assert.matches("a go block called coroutine.yield", err)
    end))

    it("end it even within pcall, and close its variables", stage.sim(function()
      local closed
      local result = rn.go(function()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        pcall(coroutine.yield)
        return "not reached"
      end)
      local value, err = result:take()
      assert.is_nil(value)
      assert.matches("called coroutine.yield", err)
      assert.is_true(closed)
      stage.heard()
    end))

    since_5_4_3("end it within xpcall without a call of its message handler", stage.sim(function()
      local log = {}
      local function closing_as(name)
        return setmetatable({}, { __close = function() log[#log + 1] = name end })
      end
      local result = rn.go(function()
        local _ <close> = closing_as "outside"
        xpcall(function()
          local _ <close> = closing_as "inside"
          coroutine.yield()
        end, function(err) log[#log + 1] = "handler " .. tostring(err) end)
      end)
      assert.matches("called coroutine.yield", select(2, result:take()))
      assert.same({ "inside", "outside" }, log)
      stage.heard()
    end))

    -- A go block parked by `park`, and what became of it after `meddle` got hold of its coroutine.
    local function meddled(park, meddle)
      local co, ended
      local result = rn.go(function()
        co = coroutine.running()
        local _ <close> = setmetatable({}, { __close = function() ended = true end })
        return park()
      end)
      rn.yield()
      meddle(co)
      local value, err = result:take()
      return value, err, ended, co
    end

    local parks = {
      take = function(ch) return ch:take() end,
      put = function(ch) return ch:put "lost" end,
      ["alts over takes"] = function(ch) return rn.alts { ch, rn.chan() } end,
      ["alts over put and take"] = function(ch) return rn.alts { { ch, "lost" }, ch } end,
      sleep = function() return rn.sleep(1000) end,
      yield = function() return rn.yield() end,
      ["a result"] = function() return rn.go(rn.sleep, 10):take() end,
      ["a timeout"] = function() return rn.timeout(1000):take() end,
    }
    local function close(co) assert(coroutine.close(co)) end
    local function resume(co)
      for _ = 1, 2 do assert.same({ true }, { coroutine.resume(co, "meddled") }) end
    end
    local function wrong(co)
      resume(co)
      close(co)
    end

    for name, park in pairs(parks) do
      local ways = {
        ["closed by others"] = close, ["resumed by others"] = resume, ["resumed and closed by others"] = wrong,
      }
      for how, meddle in pairs(ways) do
        it(("%s in %s end the block and nothing else"):format(how, name), stage.sim(function()
          local ch = rn.chan()
          local value, err, ended = meddled(function() return park(ch) end, meddle)
          assert.is_nil(value)
          assert.matches("by other code", err)
          assert.is_true(ended)
          -- Nothing of it waits any longer, and the channel works on.
          assert.equal(0, ch:stats().puts_waiting)
          assert.equal(0, ch:stats().takes_waiting)
          rn.go(function() ch:put "next" end)
          assert.equal("next", ch:take())
          rn.sleep(2000)
          assert.same({}, stage.others())
          stage.heard()
        end))
      end
    end

    it("closed by others after being handed over to its channels end the block", stage.sim(function()
      local ch = rn.chan()
      local _, err = meddled(function() return ch:take() end, function(co)
        for _ = 1, 4 do collectgarbage() end
        coroutine.close(co)
      end)
      assert.matches("by other code", err)
      assert.equal(0, ch:stats().takes_waiting)
      rn.go(function() ch:put "next" end)
      for _ = 1, 4 do collectgarbage() end
      assert.equal("next", ch:take())
    end))

    it("resumed by others after being handed over to its channels end the block", stage.sim(function()
      local ch = rn.chan()
      local _, err = meddled(function() return rn.alts { ch, rn.chan() } end, function(co)
        for _ = 1, 4 do collectgarbage() end
        coroutine.resume(co)
      end)
      assert.matches("by other code", err)
      assert.same({}, stage.heard())
      assert.equal(0, ch:stats().takes_waiting)
      rn.go(function() ch:put "next" end)
      assert.equal("next", ch:take())
    end))

    it("that were woken but have not run yet may be closed by others", stage.sim(function()
      local ch, co = rn.chan(), nil
      local result = rn.go(function()
        co = coroutine.running()
        return ch:take()
      end)
      rn.yield()
      ch:offer "taken"
      coroutine.close(co)
      local _, err = result:take()
      assert.matches("by other code", err)
      rn.sleep(1)
      assert.same({}, stage.others())
    end))

    it("resumed by others do not run on, although they wait inside a pcall", stage.sim(function()
      local ch = rn.chan()
      local has_run_on, old
      local value, err, ended, co = meddled(function()
        old = coroutine.running()
        pcall(ch.take, ch)
        has_run_on = true
        return "result"
      end, resume)
      assert.is_nil(value)
      assert.matches("by other code", err)
      assert.is_true(ended)
      assert.is_nil(has_run_on)
      assert.equal(0, ch:stats().takes_waiting)
      assert.equal(co, old)
      assert.equal("dead", coroutine.status(co))
      coroutine.close(co) -- is no error
      assert.is_false((coroutine.resume(co)))
      stage.heard()
    end))

    since_5_4_3("resumed by others close their variables, which may wait", stage.sim(function()
      local said
      local co
      local result = rn.go(function()
        co = coroutine.running()
        local _ <close> = closing(function(_, err)
          rn.sleep(1)
          said = err
        end)
        rn.sleep(1000)
      end)
      rn.yield()
      resume(co)
      local _, err = result:take()
      assert.matches("by other code", err)
      assert.equal(err, said)
    end))

    it("closed by others while their hook raises end when they are woken", stage.sim(function()
      local ch = rn.chan()
      for _, wait in ipairs { function() return ch:take() end, function() return rn.alts { ch, rn.chan() } end } do
        for _, wakes_first in ipairs { false, true } do
          local co
          local result = rn.go(function()
            co = coroutine.running()
            wait()
          end)
          rn.yield()
          debug.sethook(co, function() error("hook", 0) end, "c")
          if wakes_first then ch:offer "taken" end
          coroutine.close(co)
          if not wakes_first then assert.is_nil(ch:offer "not taken") end -- it finds that nobody waits
          assert.matches("by other code", (select(2, result:take())))
        end
      end
      assert.same({}, stage.others())
    end))

    it("whose variables are being closed may be closed or resumed, too", stage.sim(function()
      for _, meddle in pairs { close, resume, wrong } do
        local co, n = nil, 0
        local result = rn.go(function()
          local _ <close> = closing(function() n = n + 1 end)
          local _ <close> = closing(function()
            co = coroutine.running()
            pcall(rn.sleep, 1000)
          end)
          error("oops", 0)
        end)
        rn.sleep(1)
        if stage.is_5_4_3 then meddle(co) end
        result:take()
        assert.equal(1, n)
        stage.heard()
        assert.same({}, stage.others())
      end
    end))

    it("cannot be resumed or closed from within", stage.sim(function()
      rn.go(function()
        local me = coroutine.running()
        local ok, err = coroutine.resume(me)
        assert.is_false(ok)
        assert.matches("non%-suspended", err)
        assert.is_false((pcall(coroutine.close, me)))
        local inner = coroutine.wrap(function() return coroutine.resume(me) end)
        assert.is_false((inner()))
        rn.sleep(1)
        return "fine"
      end):take()
    end))

    it("of ended blocks are dead, and do not prevent a take of the result", stage.sim(function()
      local co
      local result = rn.go(function()
        co = coroutine.running()
        return "result"
      end)
      rn.yield()
      assert.equal("dead", coroutine.status(co))
      assert.is_false((coroutine.resume(co)))
      coroutine.close(co)
      assert.equal("result", result:take())
    end))

    it("may be closed after the block has ended, without harm", stage.sim(function()
      for _, f in ipairs { function() return "result" end, function() error("bad", 0) end } do
        local co
        local result = rn.go(function()
          co = coroutine.running()
          return f()
        end)
        rn.yield()
        coroutine.close(co)
        local value, err = result:take()
        assert.equal(value and "result" or nil, value)
        assert.equal(err and "bad" or nil, err)
      end
      stage.heard()
    end))

    it("closed by others may use the channel on which the block waited", stage.sim(function()
      local ch, seen = rn.chan(), nil
      local co
      local result = rn.go(function()
        co = coroutine.running()
        local _ <close> = setmetatable({}, { __close = function() seen = { ch:poll() } end })
        return ch:put "lost"
      end)
      rn.yield()
      coroutine.close(co)
      -- Its put was withdrawn.
      assert.same({}, seen)
      assert.is_nil((result:take()))
      assert.equal(0, ch:stats().puts_waiting)
      assert.equal(0, ch:stats().put_total)
    end))

    it("closed by others may offer to the channel on which the block waited", stage.sim(function()
      local ch, seen = rn.chan(), "nothing"
      local co
      local result = rn.go(function()
        co = coroutine.running()
        local _ <close> = setmetatable({}, { __close = function() seen = ch:offer "x" end })
        return (rn.alts { rn.chan(), ch })
      end)
      rn.yield()
      coroutine.close(co)
      assert.is_nil(seen)
      assert.is_nil((result:take()))
      assert.equal(0, ch:stats().takes_waiting)
      assert.equal(0, ch:stats().put_total)
    end))

    it("left behind by a simulation may be closed or resumed", function()
      for _, meddle in ipairs { coroutine.close, coroutine.resume } do
        local cos = {}
        sim.run(function()
          local ch = rn.chan()
          for i, f in ipairs {
            function() rn.sleep(1000) end, function() ch:take() end, function() rn.alts { ch, rn.timeout(100) } end,
          } do
            rn.go(function(...)
              cos[i] = coroutine.running()
              f(...)
            end, 1, 2, 3)
          end
          rn.yield()
          rn.go(function() cos[4] = coroutine.running() rn.yield() end)
          rn.yield()
        end)
        assert.equal(4, #cos)
        for i = 1, 4 do meddle(cos[i]) end
        assert.equal("fine", rn.run(function()
          rn.yield()
          return "fine"
        end))
        stage.heard()
      end
    end)
  end)

  describe("the result channel", function()
    it("refuses puts while the block lives", stage.sim(function()
      local result = rn.go(rn.sleep, 10)
      assert.error_matches(function() result:put(1) end, "put: this is the result channel of a go block")
      assert.error_matches(function() result:offer(1) end, "this is the result channel of a go block")
      assert.error_matches(function() result:put_async(1) end, "this is the result channel of a go block")
      assert.error_matches(function() rn.alts { { result, 1 } } end, "this is the result channel of a go block")
      assert.is_nil((result:take()))
      assert.is_false(result:put(1))
    end))

    it("serves the first taker, and tells the others that it is closed", stage.sim(function()
      local result = rn.go(function()
        rn.sleep(10)
        return "one"
      end)
      local takers = {}
      for i = 1, 3 do takers[i] = rn.go(function() return result:take() or "closed" end) end
      assert.equal("one", takers[1]:take())
      assert.equal("closed", takers[2]:take())
      assert.equal("closed", takers[3]:take())
    end))

    it("may be closed by a taker; the block continues", stage.sim(function()
      local went_on
      local result = rn.go(function()
        rn.sleep(10)
        went_on = true
        return "dropped"
      end)
      result:close()
      assert.is_nil((result:take()))
      rn.sleep(20)
      assert.is_true(went_on)
      assert.is_nil((result:take()))
    end))

    it("never gives its value to the go block itself", stage.sim(function()
      local result
      result = rn.go(function() return result:take() end)
      local value, port = rn.alts({ result, rn.timeout(100) }, { priority = true })
      assert.is_nil(value)
      assert.not_equal(result, port)
    end))
  end)

  describe("names", function()
    it("are where the function was defined", stage.sim(function()
      local here = stage.here(1)
      local result = rn.go(function() rn.sleep(10) end)
      assert.equal(here, stage.entry(result).name)
      rn.yield()
      assert.equal(here, stage.entry(result).name)
    end))

    it("can be given by the block itself", stage.sim(function()
      local result = rn.go(function()
        rn.rename "worker"
        rn.sleep(10)
        error("bad", 0)
      end)
      rn.yield()
      assert.equal("worker", stage.entry(result).name)
      for _ = 1, 4 do collectgarbage() end
      assert.equal("worker", stage.entry(result).name)
      rn.sleep(10)
      assert.equal("worker", stage.heard()[1].name)
    end))

    it("can be given by who starts it, and are those of its result, too", stage.sim(function()
      local result = rn.go(function()
        rn.sleep(10)
        error("bad", 0)
      end):name "worker"
      assert.equal("worker", result:name())
      assert.equal("worker", stage.entry(result).name)
      rn.yield()
      assert.equal("worker", stage.entry(result).name)
      result:name "the same worker"
      assert.equal("the same worker", stage.entry(result).name)
      rn.sleep(10)
      assert.equal("the same worker", stage.heard()[1].name)
    end))

    it("that it was given when it was started are in the error of a deadlock", function()
      local jobs = rn.chan():name "jobs"
      local result = rn.go(function() jobs:take() end):name "worker"
      local _, problem = pcall(result.take, result)
      assert.matches("take on chan: worker would wait for ever", problem, 1, true)
      assert.matches("(worker): take on chan: jobs at ", problem, 1, true)
      jobs:close()
    end)

    it("are strings, given inside a go block", function()
      assert.error_matches(function() rn.rename "x" end, "rename: .* outside any")
      sim.run(function()
        assert.error_matches(function() rn.rename(42) end, "rename: a string expected, got number")
        assert.error_matches(function() rn.rename() end, "rename: a string expected")
        rn.rename ""
      end)
    end)
  end)

  describe("ps", function()
    it("shows what each go block does, and where", stage.sim(function()
      local jobs = rn.chan():name "jobs"
      local here = stage.here()
      local file, line = here:match "^(.*):(%d+)$"
      local function at(n) return ("%s:%d"):format(file, line + n) end
      local taker = rn.go(function()
        jobs:take() -- 5 below
      end)
      local full = rn.chan(1)
      full:put(1)
      local putter = rn.go(function() full:put(2) end) -- 9 below
      local chooser = rn.go(function() rn.alts { full, { rn.chan(), 1 } } end) -- 10 below
      local sleeper = rn.go(function() rn.sleep(10) end) -- 11 below
      rn.go(function() full:put(3) end)
      full:take()
      rn.yield()
      full:poll()
      local fresh = rn.go(function() end)

      local entry = stage.entry(taker)
      assert.same({
        id = entry.id, name = at(3), state = "parked", where = at(4), operation = "take", channel = jobs,
        waited = 0.0, result = taker,
      }, entry)
      assert.equal(taker:stats().id, entry.id)
      assert.equal("sleeping", stage.entry(sleeper).state)
      assert.equal(at(10), stage.entry(sleeper).where)
      assert.is_nil(stage.entry(sleeper).operation)
      entry = stage.entry(fresh)
      assert.equal("ready", entry.state)
      assert.is_nil(entry.where)
      entry = stage.entry(chooser)
      assert.is_true(entry == nil or entry.operation == nil or entry.operation == "alts")
      assert.is_true(putter ~= nil)
    end))

    it("shows how long it has waited", stage.sim(function()
      local sleeper = rn.go(function() rn.sleep(100) end)
      local taker = rn.go(function() rn.chan():take() end)
      rn.sleep(30)
      assert.equal(30, stage.entry(sleeper).waited)
      assert.equal(30, stage.entry(taker).waited)
      assert.is_nil(stage.entry(rn.go(function() end)).waited)
      rn.sleep(30)
      assert.equal(60, stage.entry(taker).waited)
    end))

    it("names operation and channel of puts and takes, and alts of alts", stage.sim(function()
      local a, b = rn.chan(), rn.chan()
      local put = rn.go(function() a:put(1) end)
      local take = rn.go(function() b:take() end)
      local alts = rn.go(function() rn.alts { b, { a, 1 } } end)
      rn.yield()
      for _ = 1, 2 do
        assert.equal("put", stage.entry(put).operation)
        assert.equal(a, stage.entry(put).channel)
        assert.equal("take", stage.entry(take).operation)
        assert.equal(b, stage.entry(take).channel)
        assert.equal("alts", stage.entry(alts).operation)
        assert.is_nil(stage.entry(alts).channel)
        -- Who keeps them alive makes no difference.
        for _ = 1, 4 do collectgarbage() end
      end
    end))

    it("lists the running block, and none that has ended", stage.sim(function()
      local result = rn.go(function()
        local list = rn.ps()
        for _, entry in ipairs(list) do
          if entry.state == "running" then return entry.id end
        end
      end)
      local id = result:stats().id
      assert.equal(id, result:take())
      assert.is_nil(stage.entry(result))
      assert.same({}, stage.others())
    end))

    it("tells how long a block has waited that parked before the loop looked at the clock", function()
      -- In a program of its own, for only its first go blocks do so.
      local out = shell.run [[lua -e '
        local rn = require "runnel"
        local ch, began = rn.chan(), rn.now()
        local waits = rn.go(function() ch:take() end)
        rn.go(function()
          for _, entry in ipairs(rn.ps()) do
            if entry.result == waits then print(entry.waited < began / 2) end
          end
          ch:close()
        end)
        waits:take()']]
      assert.equal("true\n", out)
    end)

    it("calls a block [C] that is to call what is no function, until it begins", function()
      local result = rn.go(setmetatable({}, { __call = function() end }))
      assert.equal("[C]", stage.entry(result).name)
      assert.is_nil((result:take()))
    end)

    it("has blocks under way outside go blocks too", function()
      local result = rn.go(function() end)
      assert.equal("ready", stage.entry(result).state)
      rn.run()
      assert.is_nil(stage.entry(result))
    end)
  end)

  describe("the end of a go block", function()
    -- An innocent go block still runs, nothing is left, and the scheduler can be used.
    local function assert_sound()
      assert.equal("innocent", rn.run(function() return rn.go(function()
        rn.yield()
        return "innocent"
      end):take() end))
      assert.same({}, stage.others())
    end

    it("comes at any depth of nested C calls", function()
      local ended, refused = 0, 0
      local function nest(depth)
        if depth < 250 then pcall(nest, depth + 1) end
        local ok, value = pcall(rn.run, function()
          local _ <close> = closing(function() ended = ended + 1 end)
          return depth
        end)
        if ok then assert.equal(depth, value) else refused = refused + 1 end
      end
      pcall(nest, 1)
      assert.is_true(ended > 100)
      assert.is_true(refused > 0)
      assert_sound()
    end)

    since_5_4_4("has as many levels of nested C calls for a go block as anywhere else", function()
      local function depth(n)
        local ok, deeper = pcall(depth, n + 1)
        return ok and deeper or n
      end
      local function run_at(n) return n == 0 and rn.run(depth, 1) or select(2, pcall(run_at, n - 1)) end
      local shallow = run_at(0)
      assert.is_true(shallow > 100)
      assert.equal(shallow, run_at(100))
    end)

    for _, event in ipairs { "c", "r", "l", "crl", "count" } do
      it(("closes its result although its hook for %s raises"):format(event), function()
        for _, f in pairs {
          function() return "result" end,
          function()
            local _ <close> = closing(function() rn.yield() end)
            rn.yield()
            return "result"
          end,
          function() error("oops", 0) end,
          function()
            local _ <close> = closing(function() end)
            rn.chan():take()
          end,
        } do
          for at = 1, 12 do
            local n = 0
            local result = rn.go(function()
              debug.sethook(function()
                n = n + 1
                if n >= at then error("hook", 0) end
              end, event == "count" and "" or event, event == "count" and 1 or 0)
              return f()
            end)
            rn.step()
            rn.step()
            rn.step()
            local alive = stage.entries()[1]
            if alive then assert.is_true(rn.cancel(result)) end
            assert.equal(1, select("#", pcall(rn.run)))
            assert.is_true(result:closed())
            local value, err = result:poll()
            assert.is_true(value == "result" or err ~= nil)
            assert_sound()
          end
        end
        stage.heard()
      end)
    end

    it("comes where the stack has overflowed #ci", function()
      local function endless() return 1 + endless() end
      local closed
      local result = rn.go(function()
        local _ <close> = closing(function() closed = true end)
        endless()
      end)
      rn.run()
      assert.equal(1, #stage.heard())
      assert.matches("stack overflow", (select(2, result:poll())))
      assert.is_true(closed)
      assert_sound()
    end)

    it("is listed by a hook that looks at it", function()
      local n = 0
      rn.go(function()
        debug.sethook(function()
          for _, entry in ipairs(rn.ps()) do
            assert.is_string(entry.name)
            n = n + 1
          end
        end, "crl")
        rn.yield()
      end)
      rn.run()
      assert.is_true(n > 0)
      assert_sound()
    end)
  end)

  describe("on_error", function()
    it("returns the previous handler", function()
      local f, g = function() end, function() end
      local before = rn.on_error(f)
      assert.equal(f, rn.on_error(g))
      assert.equal(g, rn.on_error(nil))
      assert.is_nil(rn.on_error(before))
      assert.equal(before, rn.on_error(before))
    end)

    it("refuses what cannot be called", function()
      assert.error_matches(function() rn.on_error(42) end, "on_error: a function expected, got number")
    end)

    it("may spawn, put and close, but not park", stage.sim(function()
      local ch, parked, spawned = rn.chan(1), nil, nil
      local outer
      outer = rn.on_error(function(err)
        ch:put(err)
        spawned = rn.go(function() return "spawned" end)
        parked = { pcall(function() rn.chan():take() end) }
      end)
      rn.go(error, "told")
      assert.equal("told", ch:take())
      assert.equal("spawned", spawned:take())
      assert.is_false(parked[1])
      assert.matches("take would have to wait, which is impossible inside an error handler", parked[2])
      rn.on_error(outer)
    end))

    it("that raises is reported on stderr, and the others go on", function()
      local output, status = stage.script [[
        local rn = require "runnel"
        rn.on_error(function(err) error("handler of " .. err, 0) end)
        rn.go(error, "bad")
        rn.go(function() print "others" end)
        rn.run()
        print "end"
      ]]
      assert.equal(0, status)
      assert.matches("runnel: error in the error handler: handler of bad", output, 1, true)
      assert.matches("others\nend\n", output)
    end)

    it("is by default a message with name and traceback on stderr", function()
      local output, status = stage.script [[
        local rn = require "runnel"
        rn.run(function()
          rn.go(function()
            rn.rename "worker"
            local object = setmetatable({}, { __tostring = function() return "an object" end })
            error(object)
          end)
          rn.yield()
        end)
      ]]
      assert.equal(0, status)
      assert.matches("^runnel: error in worker: an object\nstack traceback:\n.*:6: in function <.*:3>", output)
    end)

    it("is not called with errors that run raises", function()
      assert.error_matches(function() rn.run(error, "raised") end, "^raised$")
      assert.equal(0, #stage.heard())
    end)
  end)

  describe("many", function()
    it("of 100000 nested spawns overflow nothing", stage.sim(function()
      local deepest
      local function nest(n)
        if n == 0 then
          deepest = true
          return 0
        end
        rn.go(nest, n - 1)
      end
      nest(100000)
      while not deepest do rn.yield() end
      assert.same({}, stage.others())
    end))

    it("of 20000 blocks waiting for one another's results overflow nothing", stage.sim(function()
      local function nest(n) return n == 0 and 0 or rn.go(nest, n - 1):take() + 1 end
      assert.equal(20000, nest(20000))
    end))

    it("of 200 nested pcalls park and come back", stage.sim(function()
      local ch = rn.chan()
      local function nest(n)
        if n == 0 then return ch:take() end
        local ok, value = pcall(nest, n - 1)
        assert(ok, value)
        return value + 1
      end
      local result = rn.go(nest, 150)
      ch:put(0)
      assert.equal(150, result:take())
    end))
  end)
end)
