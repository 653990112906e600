local process = require "spec.support.process"

local runnel = process.runnel

describe("runnel test", function()
  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  -- Runs a spec; returns the counts in busted's last line, which tests had errors, and the whole result.
  local function test(text, options)
    dir:write("some_spec.lua", 'local rn = require "runnel"\n' .. text)
    local result = process.run(dir.path, ("%s %s test --output=plainTerminal some_spec.lua"):format(runnel,
      options or ""))
    local failed = {}
    for name in result.out:gmatch "\nError [^\n]*\n([^\n]*)" do failed[#failed + 1] = name end
    return result.out:match "[^\n]* pending", failed, result
  end

  it("says in one line that busted is missing", function()
    dir:write("some_spec.lua", "")
    local result = process.run(dir.path, ("LUA_PATH=/nowhere/?.lua %s test some_spec.lua"):format(runnel))
    assert.same({ 1, "", "runnel test needs busted (Debian's lua-busted, LuaRocks' busted); no folder of package.path "
      .. "has it\n" }, { result.status, result.out, result.err })
  end)

  -- A go block raises: where it is started -> the lines of the spec, and the tests that have errors.
  local PLACES = {
    { "a test that does not wait", [[
      it("one", function() rn.go(error, "lost") end)
      it("two", function() rn.yield() end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "one" } },
    { "a test that does not wait, after several hand-offs", [[
      it("one", function()
        local ch = rn.chan()
        rn.go(function() for i = 1, 50 do ch:put(i) end ch:close() end)
        rn.go(function() for _ in ch do end error "lost" end)
      end)
      it("two", function() rn.yield() end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "one" } },
    { "a go block of a test that does not wait", [[
      it("one", function() rn.go(function() rn.go(function() rn.yield() rn.go(error, "lost") end) end) end)
    ]], "0 successes / 0 failures / 1 error / 0 pending", { "one" } },
    { "the last test", [[
      it("one", function() end)
      it("two", function() rn.go(function() assert.equal(1, 2) end) end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "two" } },
    { "a test that raises itself", [[
      it("one", function() rn.go(error, "lost") error "its own" end)
    ]], "0 successes / 0 failures / 2 errors / 0 pending", { "one", "one" } },
    { "a test that fails itself", [[
      it("one", function() rn.go(error, "lost") assert.equal(1, 2) end)
    ]], "0 successes / 1 failure / 1 error / 0 pending", { "one" } },
    { "a test that is pending", [[
      it("one", function() rn.go(error, "lost") pending "later" end)
    ]], "0 successes / 0 failures / 1 error / 1 pending", { "one" } },
    { "before_each", [[
      before_each(function() rn.go(error, "lost") end)
      it("one", function() end)
    ]], "0 successes / 0 failures / 1 error / 0 pending", { "one" } },
    { "after_each", [[
      after_each(function() rn.go(error, "lost") end)
      it("one", function() end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "one" } },
    { "finally", [[
      it("one", function() finally(function() rn.go(error, "lost") end) end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "one" } },
    { "teardown", [[
      describe("some", function()
        teardown(function() rn.go(error, "lost") end)
        it("one", function() end)
      end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "some" } },
    { "an earlier test, which has left it waiting", [[
      local go_on = rn.chan()
      it("one", function() rn.go(function() go_on:take() error "lost" end) end)
      it("two", function() go_on:put(true) end)
    ]], "2 successes / 0 failures / 1 error / 0 pending", { "one" } },
    { "a test after one that has left a go block of the same function", [[
      local function work(ch, fails)
        ch:take()
        if fails then error "lost" end
      end
      local go_on = rn.chan()
      it("one", function() rn.go(work, go_on) end)
      it("two", function()
        go_on:close()
        rn.go(work, go_on, true)
      end)
    ]], "1 success / 0 failures / 1 error / 0 pending", { "two" } },
    { "an earlier test, which has left it waiting, and one that returns a value", [[
      local go_on = rn.chan()
      local function work()
        if go_on:take() == "fail" then error "lost" end
        return "well"
      end
      it("one", function() rn.go(work) end)
      it("two", function() rn.go(work) end)
      it("three", function()
        go_on:put "go on"
        go_on:put "fail"
      end)
    ]], "3 successes / 0 failures / 1 error / 0 pending", { "two" } },
    { "two go blocks of a test", [[
      it("one", function() rn.go(error, "lost") rn.go(error, "lost, too") end)
    ]], "0 successes / 0 failures / 1 error / 0 pending", { "one" } },
  }
  for _, options in ipairs { "", "--sim" } do
    for _, place in ipairs(PLACES) do
      local what, text, counts, names = table.unpack(place)
      it(("%s gives an error that nobody took to the test of its go block, which was started in %s"):format(options,
        what):match "^ ?(.*)", function()
        local got, failed, result = test(text, options)
        assert.equal(counts, got)
        assert.same(names, failed)
        assert.matches("which nobody took: ", result.out)
        assert.equal(1, result.status)
      end)
    end
  end

  it("names all errors that nobody took", function()
    local _, _, result = test [[ it("one", function() rn.go(error, "lost") rn.go(error, "lost, too") end) ]]
    assert.matches("took: lost\n.*took: lost, too\n", result.out)
  end)

  it("leaves an error to whoever takes it later: of a fixture, and in a handler", function()
    local counts = test [[
      local failed
      setup(function() failed = rn.go(error, "for a test") end)
      it("one", function() assert.equal("for a test", select(2, failed:take())) end)
      it("two", function() assert.is_nil(rn.go(error, "taken"):take()) end)
      it("three", function() rn.on_error(function() end) rn.go(error, "heard") end)
      it("four", function() rn.go(error, "heard") end)
    ]]
    assert.equal("4 successes / 0 failures / 0 errors / 0 pending", counts)
  end)

  it("ends where a go block of a test goes on for ever without waiting", function()
    local counts, _, result = test [[
      it("one", function() rn.go(function() while true do rn.yield() end end) end)
      it("two", function() end)
    ]]
    assert.equal("2 successes / 0 failures / 0 errors / 0 pending", counts)
    assert.same({ "", 0 }, { result.err, result.status })
  end)

  for _, options in ipairs { "", "--sim" } do
    it(("%s ends with the last test, whatever go blocks are left"):format(options):match "^ ?(.*)", function()
      local counts, _, result = test([[
        it("one", function() rn.go(function() while true do rn.sleep(50) end end) end)
        it("two", function() rn.go(function() rn.sleep(60000) error "late" end) end)
        it("three", function() rn.go(function() rn.chan():take() end) end)
      ]], options)
      assert.equal("3 successes / 0 failures / 0 errors / 0 pending", counts)
      assert.same({ "", 0 }, { result.err, result.status })
    end)
  end

  it("asks for files if it gets none and there is no folder spec", function()
    local result = process.run(dir.path, runnel .. " test")
    assert.equal(2, result.status)
    assert.equal("", result.out)
    assert.matches("^runnel test: which files%? Name them, as in: runnel test spec/main_spec.lua\n%([^\n]*%)\n$",
      result.err)
    dir:write("x_spec.lua", 'it("one", function() end)')
    result = process.run(dir.path, "mkdir spec; mv x_spec.lua spec; " .. runnel .. " test --output=plainTerminal")
    assert.matches("1 success", result.out)
  end)
end)
