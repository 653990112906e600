-- rn.pipeline and rn.pipeline_blocking with the name of a module, whose transducer threads use.

local rn = require "runnel"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local MODULES = {
  -- Puts v, then "v again"; raises for 3, and for 5 on completion.
  twice = [[
    return function(rf)
      local last
      return function(acc, ...)
        if select("#", ...) == 0 then
          if last == 5 then error("end of five", 0) end
          return rf(acc)
        end
        last = ...
        if last == 3 then error({ number = 3 }, 0) end
        return rf(rf(acc, last), last .. " again")
      end
    end
  ]],
  slow = [[
    local rn = require "runnel"
    return rn.xf.map(function(v)
      local stop = rn.now() + 2
      repeat until rn.now() > stop
      return v
    end)
  ]],
  state = "return require 'runnel'.xf.map(function() return tostring(_G) end)",
  raises = "error('not today', 0)",
  raises_nil = "error()",
  table = "return {}",
  no_transducer = "return function() end",
  unfinished = "return 1 +",
}

for name, pipeline in pairs { pipeline = rn.pipeline, pipeline_blocking = rn.pipeline_blocking } do
  describe(name .. " with the name of a module", function()
    local dir, path

    setup(function()
      dir, path = process.directory(), package.path
      for module, text in pairs(MODULES) do dir:write("pt_" .. module .. ".lua", text) end
      package.path = dir.path .. "/?.lua;" .. path
    end)
    teardown(function()
      package.path = path
      dir:remove()
    end)
    before_each(stage.open)
    after_each(stage.close)

    local function results(n, xf, values, ex_handler)
      local list = {}
      for v in pipeline(n, rn.chan(), xf, rn.to_chan(values), true, ex_handler) do list[#list + 1] = v end
      return list
    end

    it("gives what it gives with the module's transducer", function()
      local xf = dofile(dir.path .. "/pt_twice.lua")
      local function handler(err) return type(err) == "table" and "error " .. err.number or err end
      local values = {}
      for i = 1, 40 do values[i] = i % 7 end
      for n = 1, 4 do
        local expected = results(n, xf, values, handler)
        assert.equal(80, #expected) -- 3 gives one error, and 5 one more
        assert.same(expected, results(n, "pt_twice", values, handler))
      end
      assert.same(results(2, xf, { 3, 3 }, function() end), results(2, "pt_twice", { 3, 3 }, function() end))
    end)

    it("reports errors if there is no ex_handler, with the module's traceback", function()
      assert.same({ 1, "1 again", 2, "2 again" }, results(2, "pt_twice", { 1, 3, 2 }))
      local heard
      for _ = 1, 3000 do -- the report comes beside the results
        heard = stage.heard()
        if #heard > 0 then break end
        rn.sleep(10)
      end
      assert.equal(1, #heard)
      assert.same({ number = 3 }, heard[1].err)
      assert.matches("pt_twice.lua", heard[1].trace)
    end)

    it("uses several states, and ends their threads", function()
      local seen, n = {}, 0
      local from = rn.chan()
      local to = pipeline(3, rn.chan(), "pt_state", from)
      rn.go(function()
        for _ = 1, 200 do from:put(true) end
        from:close()
      end)
      for state in to do
        if not seen[state] then seen[state], n = true, n + 1 end
      end
      assert.is_true(n >= 1 and n <= 3 and not seen[tostring(_G)])
      for _ = 1, 3000 do
        if #stage.others() == 0 then break end
        rn.sleep(10)
      end
      assert.same({}, stage.others())
    end)

    it("takes no further value and ends when `to` closes", function()
      local from, taken = rn.chan(), 0
      rn.go(function()
        while from:put(taken) do taken = taken + 1 end
      end)
      local to = pipeline(2, rn.chan(), "pt_slow", from)
      assert.equal(0, to:take())
      assert.equal(1, to:take())
      to:close()
      rn.sleep(20)
      assert.is_true(taken <= 5)
      local before = taken
      rn.sleep(10)
      assert.equal(before, taken)
      from:close()
    end)

    it("passes on the error of `from`, and leaves `to` open if it shall", function()
      local from = rn.chan(1)
      from:put(1)
      from:close "why"
      local to = pipeline(2, rn.chan(), "pt_slow", from)
      assert.equal(1, to:take())
      assert.same({ nil, "why" }, { to:take() })
      local open = rn.chan(10)
      pipeline(2, open, "pt_slow", rn.to_chan { 1, 2 }, false)
      assert.same({ 1, 2 }, { open:take(), (open:take()) })
      rn.run()
      assert.is_false(open:closed())
    end)

    it("fails the jobs of values that cannot be sent", function()
      local errors = {}
      local list = results(2, "pt_slow", { 1, { f = print }, 2 }, function(err) errors[#errors + 1] = err end)
      assert.same({ 1, 2 }, list)
      assert.equal(1, #errors)
      assert.equal(name .. ": value.f: a function cannot be sent", (errors[1]:gsub("^.-:%d+: ", "")))
    end)

    it("refuses modules without a transducer, at the caller's line", function()
      local ch = rn.chan()
      raises("^" .. name .. ": module 'no.such.module' not found", function() pipeline(2, ch, "no.such.module", ch) end)
      raises("^" .. name .. ": not today$", function() pipeline(2, ch, "pt_raises", ch) end)
      local raised_nil = tostring(stage.raised_nil)
      raises("^" .. name .. ": " .. raised_nil .. "$", function() pipeline(2, ch, "pt_raises_nil", ch) end)
      raises("^" .. name .. ": the module 'pt_table' returned a table, not a transducer$", function()
        pipeline(2, ch, "pt_table", ch)
      end)
      raises("^" .. name .. ": the module 'pt_no_transducer' returned no transducer: .*instead of a reducing function",
        function() pipeline(2, ch, "pt_no_transducer", ch) end)
      raises("^" .. name .. ": error loading module 'pt_unfinished'.*unexpected symbol", function()
        pipeline(2, ch, "pt_unfinished", ch)
      end)
      raises("^" .. name .. ": n: an integer of at least 1 expected", function() pipeline(0, ch, "pt_slow", ch) end)
      raises("^" .. name .. ": a simulation", function()
        require "runnel.sim".run(function() pipeline(2, ch, "pt_slow", ch) end)
      end)
    end)
  end)
end
