-- runnel.lite in luv's loop, and without a loop.

local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"

local busted = { it = it, pending = pending }
local INTERPRETERS = { "lua5.1", "luajit", "lua5.4" }

-- Whether an interpreter has a module.
local function has(interpreter, module)
  return programs.has(interpreter) and os.execute(("%s -e 'require \"%s\"' 2>/dev/null"):format(interpreter, module))
end

for _, interpreter in ipairs(INTERPRETERS) do
  describe("runnel.lite in luv's loop, on " .. interpreter, function()
    local it = programs.it(busted, interpreter)
    if programs.has(interpreter) and not has(interpreter, "luv") then
      it = function(title) pending(title .. ": luv is not installed for it") end
    end
    local dir

    before_each(function() dir = process.directory() end)
    after_each(function() dir:remove() end)

    local function run(code)
      dir:write("main.lua", [[
        local host, uv = require "runnel.lite.luv", require "luv"
        local rn, lines = host.rn, host.lines
      ]] .. code)
      return programs.run(dir, interpreter .. " main.lua")
    end

    it("runs go blocks while the loop runs, until nothing is left", function()
      assert.equal("timeout\nthree lines\nfalse\n", run [[
        rn.go(function()
          local quiet = rn.chan()
          local _, port = rn.alts { quiet, rn.timeout(5) }
          print(port ~= quiet and "timeout")
          local three, n = lines { "sh", "-c", "echo 1; echo 2; printf 3" }, 0
          while three:take() do n = n + 1 end
          print(n == 3 and "three lines" or n)
        end)
        uv.run()
        print(uv.loop_alive())
      ]])
    end)

    it("ends although a timeout is pending on which nothing waits any more", function()
      assert.equal("answer\nfalse\ncalled\nfalse\n", run [[
        rn.go(function()
          local answer = rn.chan()
          rn.go(function() rn.sleep(1) answer:put "answer" end)
          print((rn.alts { answer, rn.timeout(60000) }))
        end)
        uv.run()
        print(uv.loop_alive())
        local late = rn.timeout(5)
        uv.run()
        late:take_async(function() print "called" end)
        uv.run()
        print(uv.loop_alive())
      ]])
    end)

    it("waits in rn.run for what comes from the loop, and sees a deadlock", function()
      assert.matches("^from the loop\noutside\nfalse\ndeadlock: run would wait for ever[^\n]*\nnothing left\n$", run [[
        print((rn.run(function()
          local ch, timer = rn.chan(1), uv.new_timer()
          timer:start(5, 0, function() ch:offer "from the loop" timer:close() end)
          return ch:take()
        end)))
        print((lines { "echo", "outside" }:take()))
        local ok, why = pcall(rn.run, function() rn.chan():take() end)
        print(ok)
        print((why:match "^[^\n]*"))
        uv.run()
        print(uv.loop_alive() and "alive" or "nothing left")
      ]])
    end)

    it("wakes a sleeper in time after a go block has computed for longer, also if nothing else comes", function()
      assert.equal("in time\nin time\nin time\n", run [[
        local server, late = uv.new_tcp(), uv.new_timer()
        server:bind("127.0.0.1", 0)
        server:listen(10, function() end)
        late:start(10000, 10000, function() end) -- so that a sleep without an end is an error, and no hang
        rn.run(function()
          for _ = 1, 3 do
            local began = uv.hrtime()
            repeat until uv.hrtime() - began > 30e6
            began = uv.hrtime()
            rn.sleep(10)
            local took = (uv.hrtime() - began) / 1e6
            print(took >= 10 and took < 5000 and "in time" or took)
          end
        end)
      ]])
    end)

    it("kills a command whose channel is closed, and closes its pipe", function()
      assert.equal("y\nsilent\n0 pipes\tfalse\n", run [[
        rn.run(function()
          local endless = lines { "sh", "-c", "exec yes 2>/dev/null" }
          print((endless:take()))
          endless:close()
          local silent = lines { "sleep", "60" }
          local _, port = rn.alts { silent, rn.timeout(1) }
          print(port ~= silent and "silent")
          silent:close()
        end)
        uv.run()
        local pipes = 0
        uv.walk(function(handle) pipes = pipes + (tostring(handle):find "pipe" and 1 or 0) end)
        print(pipes .. " pipes", uv.loop_alive())
      ]])
    end)

    it("reads a long line in many chunks, each byte once", function()
      assert.equal("1 0 100000 3 2\tquick\n", run [[
        rn.run(function()
          local sizes, began = {}, os.clock()
          local long = ("x"):rep(100000)
          local ch = lines { "sh", "-c", "printf 'a\\n\\n%s\\nend\\nno' " .. long }
          local line = ch:take()
          while line do
            sizes[#sizes + 1] = #line
            line = ch:take()
          end
          local took = os.clock() - began
          print(table.concat(sizes, " "), took < 3 and "quick" or took)
        end)
        uv.run()
      ]])
    end)

    it("goes on after an error of a go block that is taken", function()
      assert.equal("a bug\n", run [[
        rn.run(function() print((select(2, rn.go(function() error("a bug", 0) end):take()))) end)
      ]])
    end)
  end)
end

describe("runnel.lite without a loop", function()
  local dir

  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  for _, interpreter in ipairs(INTERPRETERS) do
    for _, module in ipairs { "luv", "socket", interpreter == "luajit" and "ffi" or nil } do
      local title = ("sleeps with %s on %s, and does not compute"):format(module, interpreter)
      local is_there = has(interpreter, module)
      local maybe = is_there and it or pending
      maybe(title, function()
        dir:write("main.lua", ([[
          for _, name in ipairs { "luv", "socket", "ffi" } do
            if name ~= "%s" then package.preload[name] = function() error "hidden" end package.loaded[name] = nil end
          end
          local rn = require("runnel.lite.loop").rn
          local began, computed = rn.now(), os.clock()
          rn.run(function() rn.sleep(60) end)
          print(rn.now() - began >= 59, os.clock() - computed < 0.05)
        ]]):format(module))
        assert.equal("true\ttrue\n", programs.run(dir, interpreter .. " main.lua"))
      end)
    end
  end

  it("says what it needs", function()
    dir:write("main.lua", [[
      for _, name in ipairs { "luv", "socket", "ffi" } do
        package.preload[name] = function() error "hidden" end
        package.loaded[name] = nil
      end
      print(select(2, pcall(require, "runnel.lite.loop")))
    ]])
    local output = programs.run(dir, (os.getenv "LUA" or "lua5.4") .. " main.lua")
    assert.matches("runnel.lite.loop needs luv, luasocket, or LuaJIT", output)
  end)
end)

describe("the hosts of runnel.lite", function()
  it("have at most 80 lines of code each, and require only runnel.lite and what the host has", function()
    local ALLOWED = { ["runnel.lite"] = true, ["runnel.lite.process"] = true, ["luv"] = true, ["ngx.semaphore"] = true }
    for _, name in ipairs { "love", "loop", "luv", "nginx", "nvim", "process" } do
      local path, lines = ("lua/runnel/lite/%s.lua"):format(name), 0
      for line in io.lines(path) do
        if not line:find "^%s*%-%-" then
          if line:find "%S" then lines = lines + 1 end
          for needed in line:gmatch 'require%s*%(?%s*"([%w_.]+)"' do assert.is_true(ALLOWED[needed], needed) end
        end
      end
      assert.is_true(lines <= 80, path .. " has " .. lines)
    end
  end)
end)
