-- Programs with connections to NATS end in every way, while messages arrive; and connections under other drivers.

local nats_server = require "spec.support.queue.nats_server"
local process = require "spec.support.process"

describe("a program with connections to NATS", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local LUA = os.getenv "LUA" or "lua5.4"
  local server, dir

  setup(function()
    server = nats_server.start { jetstream = false }
    dir = process.directory()
  end)
  teardown(function()
    server:close()
    dir:remove()
  end)

  -- Messages flow in a circle, a beat is sent, a request waits, a connection is being made.
  local BUSY = [[
    local rn = require "runnel"
    local nats = require "runnel.nats"
    local url = %q
    local conn = assert(nats.connect(url))
    local ch = conn:subscribe "end.*"
    local other = conn:subscribe "end.>"
    conn:beat("end.beat", "b", 1)
    local busy = rn.go(function()
      while conn:publish("end.a", ("x"):rep(100)) do rn.yield() end
    end)
    rn.go(function() conn:request("end.b", "") end)
    for _ = 1, 300 do ch:take() end
    rn.go(nats.connect, url)
    rn.yield()
  ]]

  local function run(program, code)
    dir:write("program.lua", BUSY:format(server.url) .. code)
    return process.run(dir.path, program .. " program.lua")
  end

  for _, program in ipairs { LUA, process.runnel } do
    local name = program:match "[^/]*$"

    it("ends by os.exit: " .. name, function()
      assert.same({ out = "", err = "", status = 3 }, run(program, "os.exit(3)"))
      assert.same({ out = "", err = "", status = 4 }, run(program, "os.exit(4, true)"))
      assert.same({ out = "", err = "", status = 5 }, run(program, "conn:close() os.exit(5, true)"))
    end)

    it("ends by an error: " .. name, function()
      local result = run(program, "error 'raised'")
      assert.equal(1, result.status)
      assert.matches("raised", result.err)
    end)

    it("ends by a signal: " .. name .. " #slow", function()
      local number = name == "runnel" and 130 or 1
      local result = run(program, ([[
        rn.cancel(busy)
        conn:unbeat "end.beat"
        local idle = conn:subscribe "idle"
        os.execute %q
        idle:take()
      ]]):format(process.interrupt()))
      assert.equal(number, result.status, result.err)
    end)
  end

  it("may use a connection in a finalizer that comes after the connection's own", function()
    dir:write("program.lua", ([[
      local conn, sub
      kept = setmetatable({}, { __gc = function()
        local function try(method, ...)
          local ok, err = pcall(conn[method], conn, ...)
          print(method, not ok and err:match ": (.*)")
        end
        try("publish", "a", "b")
        try("subscribe", "a")
        try("request", "a", "b")
        try("beat", "a", "b", 100)
        try "events"
        try "stats"
        print(next(sub:stats()), sub:drain())
        sub:close()
        conn:close()
      end })
      conn = assert(require("runnel.nats").connect(%q))
      _, sub = conn:subscribe "a"
    ]]):format(server.url))
    local lines = {}
    for _, method in ipairs { "publish", "subscribe", "request", "beat", "events", "stats" } do
      lines[#lines + 1] = method .. "\tthe connection is closed\n"
    end
    lines[#lines + 1] = "nil\tfalse\tInvalid Subscription\n"
    assert.same({ out = table.concat(lines), err = "", status = 0 }, process.run(dir.path, LUA .. " program.lua"))
  end)

  it("ends when its last line has run, under lua5.4", function()
    assert.same({ out = "done\n", err = "", status = 0 }, run(LUA, "print 'done'"))
  end)

  it("ends when all is closed, under runnel", function()
    assert.same({ out = "done\n", err = "", status = 0 }, run(process.runnel, [[
      ch:close()
      other:close()
      conn:close()
      print 'done'
    ]]))
  end)

  it("need not close a connection that waits for nothing, under runnel", function()
    dir:write("program.lua", ([[
      local conn = require("runnel.nats").connect(%q)
      print((select(2, conn:request("nobody", ""))))
    ]]):format(server.url))
    local result = process.run(dir.path, process.runnel .. " program.lua")
    assert.same({ out = 'nobody answers requests to "nobody" (no responders)\n', err = "", status = 0 }, result)
  end)

  it("can be a thread of rn.thread", function()
    dir:write("program.lua", ([[
      local rn = require "runnel"
      local function echo(url)
        local conn <close> = assert(require("runnel.nats").connect(url))
        return assert(conn:request("thread", "hello", { timeout = 5000 })).data
      end
      local conn <close> = assert(require("runnel.nats").connect(%q))
      local ch = conn:subscribe "thread"
      conn:flush()
      rn.go(function() for m in ch do m:respond(m.data .. " you") end end)
      print(rn.thread(echo, conn.url):take())
    ]]):format(server.url))
    assert.same({ out = "hello you\n", err = "", status = 0 }, process.run(dir.path, LUA .. " program.lua"))
  end)

  for driver, library in pairs { luv = "luv", cqueues = "cqueues", copas = "copas", luasocket = "socket" } do
    it("is woken by messages under the driver " .. driver, function()
      -- Debian has Copas where earlier versions of Lua look.
      local usual_path = package.path
      local path = usual_path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua"
      package.path = path
      local has, installed = pcall(require, library)
      package.path = usual_path
      if not has then return pending(library .. " is not installed") end
      if library == "copas" and not installed.finished then
        return pending "the installed Copas is older than version 2"
      end
      dir:write("program.lua", ([[
        package.path = %q
        -- The drivers of LuaSocket and Copas cannot watch a descriptor, and look every 10 ms.
        local has, socket = pcall(require, "socket")
        local longest = 0
        if has then
          local select = socket.select
          function socket.select(reading, writing, s)
            longest = math.max(longest, s or math.huge)
            return select(reading, writing, s)
          end
        end
        local rn = require "runnel"
        rn.driver(require "runnel.driver.%s")
        local conn <close> = assert(require("runnel.nats").connect(%q))
        local ch = conn:subscribe "driver"
        rn.go(function() for m in ch do m:respond(m.data) end end)
        for i = 1, 50 do assert(conn:request("driver", "x", { timeout = 20000 })) end
        print(longest <= 0.01)
      ]]):format(path, driver, server.url))
      assert.same({ out = "true\n", err = "", status = 0 }, process.run(dir.path, LUA .. " program.lua"))
    end)
  end

  it("says what to install where the module is missing", function()
    dir:write("program.lua", [[
      require "runnel"
      package.cpath = ""
      local ok, message = pcall(require, "runnel.nats")
      print(ok, message)
    ]])
    local result = process.run(dir.path, LUA .. " program.lua")
    assert.matches("program.lua:3: the library runnel.nats.core is needed here %(install the package "
      .. "lua%-runnel, LuaRocks' runnel%-nats, or libnats.*%): it is not installed", result.out)
  end)
end)
