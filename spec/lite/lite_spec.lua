local patience = require "spec.support.patience"

local FILE, CHECKS = "lua/runnel/lite.lua", "spec/support/lite/checks.lua"
local LUA = os.getenv "LUA" or "lua5.4"
local INTERPRETERS = { "lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua5.5", "luajit" }

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- The output of a command, with what it writes to stderr.
local function output(command, ...)
  local pipe <close> = assert(io.popen(("%s %s 2>&1"):format(patience.timeout(), command:format(...))))
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

  it("changes nothing where Lua refuses that a go block yields", function()
    for _, interpreter in ipairs(INTERPRETERS) do
      local script = [[
        local rn = require "runnel.lite"
        rn.sim.run(function()
          local ch, other = rn.chan(), rn.chan()
          for _, wait in ipairs {
            function() ch:take() end, function() ch:put(1) end, function() rn.alts { ch, { other, 1 } } end,
            function() rn.sleep(1) end, function() rn.yield() end,
          } do
            print(pcall(table.sort, { 2, 1, 3 }, function() wait() end))
          end
          print(ch:stats().takes_waiting, ch:stats().puts_waiting, other:stats().puts_waiting)
          rn.go(function() ch:put "is taken" end)
          print(ch:take())
        end)
      ]]
      if is_there(interpreter) then
        local lines = output("env LUA_PATH='lua/?.lua' %s -e '%s'", interpreter, script)
        local refused = select(2, lines:gsub("false[^\n]*across[^\n]*C%-?[ %w/-]*call", ""))
        assert.equal(5, refused, interpreter .. "\n" .. lines)
        assert.is_truthy(lines:find("0%s0%s0\nis taken\n"), interpreter .. "\n" .. lines)
      end
    end
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
