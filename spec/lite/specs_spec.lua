local long = require "spec.support.long"
local skipped = require "tests.lite.skipped"

local LUA = os.getenv "LUA" or "lua5.4"
-- Most programs run on LuaJIT. The short form tries one of those that are installed, with each commit another one; the
-- long form tries all.
local INTERPRETERS = { "luajit", "lua5.1", "lua5.2", "lua5.3", "lua5.5", LUA }

-- What is missing to run the specs with an interpreter, or nil.
local function missing(interpreter)
  if not os.execute(("command -v %s >/dev/null"):format(interpreter)) then return interpreter .. " is not installed" end
  if not os.execute(([[%s -e 'require "luassert"' >/dev/null 2>&1]]):format(interpreter)) then
    return "luassert is not installed for " .. interpreter
  end
end

local tried = INTERPRETERS
if not long.is_long then
  local installed = {}
  for _, interpreter in ipairs(INTERPRETERS) do
    if not missing(interpreter) then installed[#installed + 1] = interpreter end
  end
  tried = { installed[1 + long.turn % #installed] }
end

local function run(interpreter)
  local pipe <close> = assert(io.popen(interpreter .. " tests/lite/run.lua 2>&1"))
  return pipe:read "a"
end

describe("the specs of runnel on runnel.lite #heavy", function()
  for _, interpreter in ipairs(tried) do
    it("pass on " .. interpreter, function()
      local what = missing(interpreter)
      if what then return pending(what) end
      local output = run(interpreter)
      local passed, problems = output:match "^[%w .]+: (%d+) tests of [^\n]*\n(.*)$"
      assert.equal("", problems, output)
      assert.is_true(tonumber(passed) >= (interpreter == "lua5.1" and 500 or 600), output)
    end)
  end

  it("are each in the list, or left out with a reason", function()
    local pipe <close> = assert(io.popen "ls spec/core/*_spec.lua spec/rn/*_spec.lua")
    local listed = {}
    for _, path in ipairs(skipped.files) do listed[path] = true end
    for path, reason in pairs(skipped.left_out) do
      assert.is_nil(listed[path], path)
      assert.is_true(#reason > 3)
      listed[path] = true
    end
    for path in pipe:lines() do
      assert.is_true(listed[path], path .. " is not in tests/lite/skipped.lua: add it to left_out, with a reason")
      listed[path] = nil
    end
    assert.is_nil(next(listed))
  end)

  it("fail if a test that is skipped passes, or does not exist", function()
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write [[describe("a", function() it("passes", function() end) it("fails", function() error "x" end) end)]]
    file:close()
    finally(function() os.remove(name) end)
    local command = [[%s -e 'package.path = "./?.lua;" .. package.path local s = require "tests.lite.skipped"
      function s.of() return { ["a passes"] = "wrong", ["a third"] = "wrong" } end arg = { "%s" }
      dofile "tests/lite/run.lua"' 2>&1]]
    local pipe <close> = assert(io.popen(command:format(LUA, name)))
    local output = pipe:read "a"
    assert.matches(": a passes: passes, but is in the list", output)
    assert.matches(": a third: is in the list, and there is no such test", output)
    assert.matches(": a fails: ", output)
  end)
end)

describe("the rock runnel-lite", function()
  it("has lite and its hosts, and is built without a compiler", function()
    local rock, files = {}, { ["runnel.lite"] = "../../lua/runnel/lite.lua" }
    assert(loadfile("packaging/rockspecs/runnel-lite-scm-1.rockspec", "t", rock))()
    local pipe <close> = assert(io.popen "ls lua/runnel/lite/*.lua")
    for path in pipe:lines() do files["runnel.lite." .. path:match "([%w_]+)%.lua$"] = "../../" .. path end
    assert.equal("builtin", rock.build.type)
    assert.same(files, rock.build.modules)
    assert.same({ "lua >= 5.1, < 5.6" }, rock.dependencies)
  end)
end)
