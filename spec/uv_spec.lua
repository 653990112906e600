-- runnel.uv as a module: the driver, luv, and its page of the manual.

local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("runnel.uv", function()
  it("names the packages to install if luv is missing", function()
    local output = stage.script [[
      package.preload.luv = nil
      package.path = package.path:gsub("[^;]*luv[^;]*", "")
      table.insert(package.searchers, 1, function(name)
        if name == "luv" then error("module 'luv' not found: ...", 0) end
      end)
      print(pcall(function()
        require "runnel.uv"
      end))
    ]]
    assert.matches("^false\t[^\n]+:7: the library luv is needed here %(Debian's lua%-luv, LuaRocks' luv%): it is not "
      .. "installed", output)
  end)

  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(stage.open)
  after_each(stage.close)

  it("becomes the driver when it is required", function()
    assert.equal("true\ttrue\n", (stage.script [[
      local rn, uv = require "runnel", require "runnel.uv"
      local driver = rn.driver(nil)
      print(driver == require "runnel.driver.luv", uv.spawn ~= nil)
    ]]))
  end)

  it("requires no other module after it has been required", function()
    local output, status = stage.script [[
      local rn, uv = require "runnel", require "runnel.uv"
      package.path, package.cpath = "", ""
      for i = #package.searchers, 1, -1 do package.searchers[i] = nil end
      print(uv.run({ "cat", stdin = "run" }).stdout, uv.spawn({ "true" }).exit:take().code)
      local path = os.tmpname()
      print(uv.write(path, rn.to_chan { "a", "b" }, { lines = true }):take())
      print(uv.lines(path):take(), #uv.read(path):take(), uv.follow(path, { last = 1 }):take())
      print(uv.resolve("127.0.0.1"):take(), uv.ticker(1):take())
      local conns, port = uv.listen("127.0.0.1", 0)
      local conn = uv.connect("127.0.0.1", port)
      conn:write "line\n"
      print(conns:take():lines():take())
      os.remove(path)
      for _, ch in ipairs { uv.signal "usr1", uv.watch(".") } do ch:close() end
      os.exit(0, true)
    ]]
    assert.equal("run\t0\n4\na\t4\tb\n127.0.0.1\t1\nline\n", output)
    assert.equal(0, status)
  end)

  it("keeps a driver that is already set; one that does not run luv's loop is an error", function()
    assert.equal("true\n", (stage.script [[
      local rn = require "runnel"
      local driver = { wait = function() end, alive = function() return false end, luv = true }
      rn.driver(driver)
      require "runnel.uv"
      print(rn.driver(nil) == driver)
    ]]))
    local output = stage.script [[
      local rn = require "runnel"
      local driver = { wait = function() end, alive = function() return false end }
      rn.driver(driver)
      print(pcall(require, "runnel.uv"))
      print(rn.driver(nil) == driver)
    ]]
    assert.matches("^false\trunnel.uv needs the driver luv, and another driver is set: .*\ntrue\n$", output)
  end)

  it("says at the line of the call that another driver is set, and which", function()
    local driver = { wait = function() end, alive = function() return false end }
    package.loaded["runnel.driver.other"] = driver
    rn.driver(driver)
    local ok, err = pcall(function() uv.lines "/dev/null" end)
    local here = stage.here(-1)
    package.loaded["runnel.driver.other"] = nil
    rn.driver(nil)
    assert.is_false(ok)
    assert.equal(here .. ": lines: runnel.uv needs the driver luv, and other is set: ", err:match "^.-is set: ")
  end)

  it("can be required in a go block, which may end before a callback", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local process = rn.go(function()
        local uv = require "runnel.uv"
        return uv.spawn { "echo", "hello", stdout = "lines" }
      end):take()
      collectgarbage()
      print(process.stdout:take(), process.exit:take().code)
      print(rn.driver(nil) == require "runnel.driver.luv")
    ]]
    assert.same({ "hello\t0\ntrue\n", 0 }, { output, status })
    assert.equal("127.0.0.1\n", (stage.script [[
      local rn = require "runnel"
      rn.run(function()
        rn.driver(require "runnel.driver.luv")
        rn.sleep(1)
        print(require("runnel.uv").resolve("127.0.0.1"):take())
      end)
    ]]))
  end)

  it("raises in a simulation, except for functions that only wait", function()
    local ch = rn.chan()
    local values
    sim.run(function()
      for name, f in pairs {
        spawn = function() uv.spawn { "true" } end,
        read = function() uv.read "/dev/null" end,
        lines = function() uv.lines "/dev/null" end,
        stdin = function() uv.stdin() end,
        write = function() uv.write("/dev/null", ch) end,
        connect = function() uv.connect("127.0.0.1", 1) end,
        listen = function() uv.listen("127.0.0.1", 0) end,
        resolve = function() uv.resolve "localhost" end,
        signal = function() uv.signal "int" end,
        watch = function() uv.watch "/" end,
        follow = function() uv.follow "/etc/passwd" end,
        run = function() uv.run { "true" } end,
      } do
        local ok, err = pcall(f)
        assert.is_false(ok)
        assert.matches("^spec/uv_spec.lua:%d+: " .. name .. ": real I/O needs real time, and this is a simulation "
          .. "%(sim.run, runnel %-%-sim%): make a simulated world %(sim.world%) and call it on a host of that, .* "
          .. "or use channels of your own in its place$", err)
      end
      values = { uv.ticker(60000):take(), rn.now() }
    end)
    assert.same({ 1, 60000 }, values)
    assert.is_false(ch:closed())
  end)

  it("does not crash when the program ends with handles in every state #ci", function()
    for _, script in ipairs {
      [[uv.spawn { "cat" }]],
      [[uv.spawn({ "cat" }):close()]],
      [[uv.spawn { "true" } rn.sleep(20)]],
      [[rn.on_error(function() end) uv.spawn { "no-such-command" } uv.read("/dev/zero"):take()]],
      [[local _, port = uv.listen("127.0.0.1", 0) local c = uv.connect("127.0.0.1", port) c:read() c:close()]],
      [[local l, port = uv.listen("127.0.0.1", 0) local c = uv.connect("127.0.0.1", port) c:read() l:close()]],
      [[local _, port = uv.listen("127.0.0.1", 0) rn.go(uv.connect, "127.0.0.1", port) rn.yield()]],
      [[local l, port = uv.listen("127.0.0.1", 0) local c = uv.connect("127.0.0.1", port)
        rn.go(function() c:write(("x"):rep(1e8)) end) rn.sleep(5)]],
      [[uv.lines("/dev/zero"):close()]],
      [[uv.lines("/etc/passwd"):take()]],
      [[uv.write("/dev/null", uv.read "/dev/zero") rn.sleep(5)]],
      [[uv.signal "int" uv.watch "/tmp" uv.ticker(1) rn.sleep(3)]],
      [[uv.signal("int"):close() uv.watch("/tmp"):close() uv.ticker(1):close()]],
      [[uv.resolve "localhost" rn.yield()]],
      [[uv.follow "/etc/passwd" uv.follow "/no/such" rn.sleep(5)]],
      [[uv.follow("/etc/passwd"):close() rn.go(uv.run, { "sleep", 100 }) rn.yield()]],
      [[uv.spawn({ "sh", "-c", "sleep 100", detached = true }):close()]],
    } do
      local output, status = stage.script([[local rn, uv = require "runnel", require "runnel.uv" ]] .. script
        .. [[ print "end"]])
      assert.same({ script, "end\n", 0 }, { script, output, status })
    end
  end)

  it("is documented in the manual completely, and nothing else is", function()
    local file <close> = assert(io.open "docs/manual/io.md")
    local text, named = file:read "a", {}
    for name in text:gmatch "%f[%w]uv%.([%l_]+)" do
      if not text:find("driver.luv." .. name, 1, true) then named[name] = true end
    end
    for name in pairs(named) do assert.is_function(uv[name], "uv." .. name) end
    for name in pairs(uv) do assert.is_true(named[name], "uv." .. name) end
    rn.driver(require "runnel.driver.luv")
    local conns, port = uv.listen("127.0.0.1", 0)
    local conn = uv.connect("127.0.0.1", port)
    for name in text:gmatch "%f[%w]conn:([%l_]+)" do assert.is_function(conn[name], "conn:" .. name) end
    conn:close()
    conns:close()
    rn.run()
  end)
end)
