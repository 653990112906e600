local rn = require "runnel"
local flow = require "runnel.flow"
local stage = require "spec.support.stage"

local FOREVER = 1e7

-- A job that fails with `text`, `ms` after it began; or, if it is cancelled before, with it as well.
local function fail(ms, text)
  pcall(rn.sleep, ms)
  error(text, 0)
end

describe("an operation that runs several jobs", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Operations that fail with the error "first", and of which other jobs fail, too: with "second". Each returns nil and
  -- its error, or raises it. With `true`, the other one is cancelled before its error counts, which gives it up.
  local OPERATIONS = {
    { "pmap with two jobs that fail at once", function()
      return rn.pmap(2, function(v)
        rn.yield()
        error(v, 0)
      end, { "first", "second" }):take()
    end, true },
    { "pmap with a later value that fails before", function()
      return rn.pmap(2, function(v) fail(v == 1 and 10 or 5, v == 1 and "first" or "second") end, { 1, 2 }):take()
    end },
    { "pmap with a job that raises another error when it is cancelled", function()
      return rn.pmap(2, function(v) fail(v == 1 and 10 or FOREVER, v == 1 and "first" or "second") end, { 1, 2 }):take()
    end },
    { "pmap_unordered with two jobs that fail at once", function()
      return rn.pmap_unordered(2, function(v)
        rn.yield()
        error(v, 0)
      end, { "first", "second" }):take()
    end, true },
    { "pmap_unordered with a job that raises another error when it is cancelled", function()
      return rn.pmap_unordered(2, function(v) fail(v, v == 5 and "first" or "second") end, { 5, FOREVER }):take()
    end },
    { "pmap whose source fails before a job", function()
      local from = rn.chan(1)
      from:put(1)
      from:close "second"
      return rn.pmap(2, function() fail(5, "first") end, from):take()
    end },
    { "scope with two go blocks that fail at once", function()
      return rn.scope(function(s)
        s:go(error, "first")
        s:go(error, "second")
        rn.sleep(FOREVER)
      end)
    end, true },
    { "scope with a go block that raises another error when it is cancelled", function()
      return rn.scope(function(s)
        s:go(fail, FOREVER, "second")
        s:go(fail, 5, "first")
        rn.sleep(FOREVER)
      end)
    end },
  }

  for _, operation in ipairs(OPERATIONS) do
    local what, run, is_given_up = table.unpack(operation)
    describe("gives one error, which speaks for the others: " .. what, function()
      it("taken or caught, none is reported", stage.sim(function()
        local ok, value, err = pcall(run)
        assert.equal("first", ok and err or value)
        assert.same({}, stage.heard())
      end))

      if not is_given_up then
        it("else its report tells of them", stage.sim(function()
          rn.go(function()
            local value, err = run()
            if value == nil then error(err, 0) end -- as assert does
          end)
          rn.sleep(FOREVER)
          local heard = stage.heard()
          assert.equal(1, #heard)
          assert.equal("first", heard[1].err)
          assert.matches("another %l+ ?%l* of the %l+ has failed, too: second", heard[1].trace)
        end))
      end
    end)
  end

  describe("a flow", function()
    -- A flow of which two stages hold, `one` first.
    local function failing()
      return flow("failing", {
        values = { from = { 1 } }, one = function() fail(5, "first") end, two = function() fail(10, "second") end,
        "values > one, two",
      })
    end

    it("that has raised the error of a stage that holds reports that of no other one, which is among what is left",
      stage.sim(function()
        local f <close> = failing()
        local _, err = pcall(f.wait, f)
        assert.equal("first", err.error)
        rn.sleep(FOREVER)
        assert.same({}, stage.heard())
        local errors = {}
        for _, left in ipairs(f:stop()) do errors[left.stage] = left.error end
        assert.same({ one = "first", two = "second" }, errors)
      end))

    it("reports that of the other one once the first stage was resumed, unless it is waited for", stage.sim(function()
      local f <close> = failing()
      pcall(f.wait, f)
      rn.sleep(10)
      f:replace("one", function() end):resume "one"
      local _, err = pcall(f.wait, f)
      assert.equal("second", err.error)
      assert.same({}, stage.heard())
      f:stop()
      local other <close> = failing()
      pcall(other.wait, other)
      rn.sleep(10)
      other:replace("one", function() end):resume "one"
      rn.sleep(10)
      local heard = stage.heard()
      assert.equal(1, #heard)
      assert.equal("second", heard[1].err)
    end))

    it("for which nobody waits reports each of them", stage.sim(function()
      local f <close> = failing():start()
      rn.sleep(FOREVER)
      local heard = stage.heard()
      assert.same({ "first", "second" }, { heard[1].err, heard[2].err })
      assert.is_nil(heard[3])
      f:resume() -- both fail again
      rn.sleep(FOREVER)
      assert.equal(2, #stage.heard())
    end))
  end)
end)
