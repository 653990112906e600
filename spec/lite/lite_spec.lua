local FILE, CHECKS = "lua/runnel/lite.lua", "spec/support/lite/checks.lua"
local LUA = os.getenv "LUA" or "lua5.4"
local INTERPRETERS = { "lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua5.5", "luajit" }

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- The output of a command, with what it writes to stderr.
local function output(command, ...)
  local pipe <close> = assert(io.popen(command:format(...) .. " 2>&1"))
  return pipe:read "a"
end

local function is_there(interpreter) return os.execute(("command -v %s >/dev/null"):format(interpreter)) end

describe("runnel.lite", function()
  it("specifies runnel in at most 530 lines of code, with a source for each rule", function()
    local part = assert(read(FILE):match "\n%-%- ==== the specification ====\n(.-)\n%-%- ==== ")
    local lines = 0
    for line in part:gmatch "[^\n]+" do
      if line:find "%S" and not line:find "^%s*%-%-" then lines = lines + 1 end
    end
    assert.is_true(lines <= 530, lines)
    local rules = 0
    for rule in (part:gsub("\n%-%-   ", " ")):gmatch "\n%-%- %* ([^\n]+)" do
      rules = rules + 1
      assert.is_truthy(rule:find " %[[^%]]+%]$", rule)
    end
    assert.is_true(rules > 30, rules)
  end)

  it("requires nothing", function()
    local text = read(FILE):gsub("%-%-[^\n]*", "")
    assert.is_nil(text:find "require")
  end)

  it("does what runnel does, with the same messages", function()
    local expected = output("%s %s runnel", LUA, CHECKS)
    assert.is_truthy(expected:find "all orders\n120 true\n$", expected)
    assert.equal(expected, output("%s %s runnel.lite", LUA, CHECKS))
  end)

  for _, interpreter in ipairs(INTERPRETERS) do
    it("does the same on " .. interpreter, function()
      if not is_there(interpreter) then return pending(interpreter .. " is not installed") end
      local expected = output("%s %s runnel.lite", LUA, CHECKS)
      assert.is_truthy(expected:find "all orders\n120 true\n$", expected)
      assert.equal(expected, output("env LUA_PATH='lua/?.lua' %s %s runnel.lite", interpreter, CHECKS))
    end)
  end

  -- Which places of spec/support/lite/refused.lua refuse a wait.
  local IN_C = { ["table.sort"] = true, ["string.gsub"] = true, tostring = true, ["pcall below table.sort"] = true }
  for _, interpreter in ipairs(INTERPRETERS) do
    it("changes nothing where a wait is refused, and says what to do instead, on " .. interpreter, function()
      if not is_there(interpreter) then return pending(interpreter .. " is not installed") end
      local lines = output("env LUA_PATH='lua/?.lua' %s %s", interpreter, "spec/support/lite/refused.lua")
      local n = 0
      for place, operation, result in lines:gmatch "([^\n]-), (%a+): ([^\n]+)" do
        n = n + 1
        if interpreter ~= "lua5.1" and not (IN_C[place] and not (interpreter == "luajit" and place == "tostring")) then
          assert.equal("waits", result, place .. ", " .. operation)
        else
          local what, instead = operation, "do it before that call"
          if interpreter == "lua5.1" then
            if place:find "pcall" then instead = "take its result and error: rn%.go%(f%):take%(%)" end
            if not place:find "pcall" and not IN_C[place] then
              what, instead = "the go block", "write local v = ch:take%(%) while v ~= nil"
            end
          end
          assert.matches("^0 [^ ]*%f[%a]" .. what .. " would have to wait, which is impossible [^:]+: [^\n]*" .. instead
            .. ".* or do it in a go block of its own %(rn%.go%)$", result:gsub("refused%.lua:%d+: ", ""), nil, place)
        end
      end
      assert.equal(70, n, lines)
      assert.matches("\nis taken\n$", lines)
    end)
  end

  it("names an object that can be called, and that fails or waits, by the place of its __call", function()
    local rn = require "runnel.lite"
    local object = setmetatable({}, { __call = function(_, value)
      if value == 1 then error "bad" end
      rn.chan():take()
    end })
    local line = debug.getinfo(getmetatable(object).__call, "S").linedefined
    rn.sim.run(function()
      local _, err = rn.pmap(1, object, { 1 }):take()
      assert.equal(("spec/lite/lite_spec.lua:%d: bad"):format(line + 1), err)
    end)
    local ok, message = pcall(rn.sim.run, function()
      rn.go(object, 2)
      rn.chan():take()
    end)
    assert.is_false(ok)
    assert.matches(("(spec/lite/lite_spec.lua:%d): take on "):format(line), message, 1, true)
  end)

  it("starts go blocks although other code has resumed the coroutine of one that has ended", function()
    local rn = require "runnel.lite"
    rn.sim.run(function()
      local co
      rn.go(function() co = coroutine.running() end):take()
      assert.is_false(coroutine.resume(co)) -- it has nothing to call
      assert.equal(5, rn.go(function() return 5 end):take())
    end)
  end)

  it("lets the wait of the main program complete while a <close> variable of a dead go block waits", function()
    local rn = require "runnel.lite"
    local values, over = rn.chan(), rn.chan()
    local block = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() over:take() end })
      error("died", 0)
    end)
    rn.go(function()
      values:put "value"
      rn.yield() -- the main program's turn comes
      over:put(true)
    end)
    assert.equal("value", values:take())
    assert.same({ nil, "died" }, { block:take() })
  end)

  it("gives a dead go block the error of a wait that its <close> variable cannot have", function()
    local rn = require "runnel.lite"
    local block = rn.go(function()
      local _ <close> = setmetatable({}, { __close = function() rn.chan():take() end })
      error("died", 0)
    end)
    assert.matches("deadlock: take on chan", select(2, block:take()))
  end)

  it("leaves no waiter behind in a quiet channel", function()
    local lite = require "runnel.lite"
    local quiet, busy = lite.chan(), lite.chan()
    lite.sim.run(function()
      lite.go(function() for i = 1, 100 do busy:put(i) end end)
      for _ = 1, 100 do
        lite.alts { busy, quiet }
        assert.equal(0, quiet:stats().takes_waiting)
      end
    end)
  end)
end)
