-- The system, and the libraries in C, end a string at its first zero byte. So a path, a host or a name with one would
-- be another one there, and each function that passes such a string on refuses it, at the caller's line.

local missing = require "spec.support.missing"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local uv_stage = require "spec.support.uv_stage"

-- What a message says of such a string.
local REFUSED <const> = "zero byte"

describe("a string with a zero byte", function()
  local reason = missing "luv"
  if reason then return pending(reason) end

  local dir, path -- a folder, and a path in it that the system would cut to that of `a`
  before_each(function()
    uv_stage.open()
    dir = process.directory()
    dir:write("a", "the wrong one\n")
    path = dir.path .. "/a\0.png"
  end)
  after_each(function()
    dir:remove()
    uv_stage.close()
  end)

  -- Makes a test of each function in a table, by its name: it must raise, and leave the folder as it is.
  local function each(functions)
    local names = {}
    for name in pairs(functions) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local f = functions[name]
      it("is refused by " .. name, function()
        raises(REFUSED, f)
        assert.equal("the wrong one\n", uv_stage.contents(dir.path .. "/a"))
        os.remove(dir.path .. "/a")
        assert.is_true(os.remove(dir.path), "something was made in the folder")
      end)
    end
  end

  -- Whether a module is there; if not, the spec says so.
  local function has(module)
    if pcall(require, module) then return true end
    missing(module)
    return false
  end

  each {
    ["rn.file"] = function() rn.file(path) end,
    ["rn.trace"] = function() rn.trace(path) end,
    ["rn.profile"] = function() rn.profile(function() end, { to = path .. ".html" }) end,
    ["rn.thread"] = function() rn.thread "spec.support.short\0er" end,
    ["rn.threads"] = function() rn.threads(1, "spec.support.short\0er") end,
  }

  if has "luv" then
    local uv = require "runnel.uv"
    local host <const> = "127.0.0.1\0.example.org"
    each {
      ["uv.read"] = function() uv.read(path) end,
      ["uv.lines"] = function() uv.lines(path) end,
      ["uv.reader"] = function() uv.reader(path) end,
      ["uv.write"] = function() uv.write(path, rn.chan()) end,
      ["uv.list"] = function() uv.list(dir.path .. "\0/b") end,
      ["uv.watch"] = function() uv.watch(path) end,
      ["uv.follow"] = function() uv.follow(path) end,
      ["uv.listen, as a path"] = function() uv.listen(dir.path .. "/b\0.socket") end,
      ["uv.listen, as a host"] = function() uv.listen(host, 0) end,
      ["uv.connect, as a path"] = function() uv.connect(path) end,
      ["uv.connect, as a host"] = function() uv.connect("localhost\0.example.org", 1) end,
      ["uv.connect, as a name of TLS"] = function()
        uv.connect("localhost", 1, { tls = { name = host } })
      end,
      ["uv.resolve"] = function() uv.resolve "localhost\0.example.org" end,
      ["uv.udp"] = function() uv.udp { host = host } end,
      ["sock:send"] = function()
        local socket <close> = assert(uv.udp())
        socket:send("data", host, 9)
      end,
      ["sock:connect"] = function()
        local socket <close> = assert(uv.udp())
        socket:connect(host, 9)
      end,
      ["sock:join, as a group"] = function()
        local socket <close> = assert(uv.udp())
        socket:join "239.1.2.3\0"
      end,
      ["sock:join, as an interface"] = function()
        local socket <close> = assert(uv.udp())
        socket:join("239.1.2.3", host)
      end,
      ["sock:leave, as a group"] = function()
        local socket <close> = assert(uv.udp())
        socket:leave "239.1.2.3\0"
      end,
      ["sock:leave, as an interface"] = function()
        local socket <close> = assert(uv.udp())
        socket:leave("239.1.2.3", host)
      end,
      ["uv.spawn, as a command"] = function() uv.spawn { "true\0" } end,
      ["uv.spawn, as an argument"] = function() uv.spawn { "true", "a\0b" } end,
      ["uv.spawn, as a directory"] = function() uv.spawn { "true", cwd = dir.path .. "\0/b" } end,
      ["uv.spawn, in a variable"] = function() uv.spawn { "true", env = { A = "a\0b" } } end,
      ["uv.spawn, as the name of a variable"] = function() uv.spawn { "true", env = { ["A\0"] = "b" } } end,
      ["uv.run, as a directory"] = function() uv.run { "true", cwd = dir.path .. "\0/b" } end,
      ["uv.run, in a variable"] = function() uv.run { "true", env = { A = "a\0b" } } end,
      ["lines of runnel.lite, as an argument"] = function()
        require "runnel.lite.process"(require "luv") { "echo", "a\0b" }
      end,
      ["lines of runnel.lite, in a variable"] = function()
        require "runnel.lite.process"(require "luv")({ "echo" }, { env = { "A=a\0b" } })
      end,
      ["lines of runnel.lite, as a directory"] = function()
        require "runnel.lite.process"(require "luv")({ "echo" }, { cwd = dir.path .. "\0/b" })
      end,
      ["prompt.listen"] = function() require("runnel.prompt").listen(dir.path .. "/b\0.socket") end,
    }
  end

  if has "runnel.http.core" then
    local http = require "runnel.http"
    local function answer() return 200 end
    each {
      ["http.serve, as a path"] = function() http.serve(dir.path .. "/b\0.socket", answer) end,
      ["http.serve, as a host"] = function() http.serve(0, answer, { host = "127.0.0.1\0.example.org" }) end,
      ["http.proxy"] = function() http.proxy "http://127.0.0.1\0.example.org:9000" end,
      ["http.get, as a path of a socket"] = function() http.get("http://a/", { unix_socket_path = path }) end,
      ["http.request, as a file of a form"] = function()
        http.request { url = "http://a/", multipart = { { name = "a", file = path } } }
      end,
      ["http.websocket, as a path of a socket"] = function() http.websocket("ws://a/", { unix_socket_path = path }) end,
      ["http.websocket, in a proxy"] = function() http.websocket("ws://a/", { proxy = "http://127.0.0.1\0:1" }) end,
    }
    if has "luv" then
      each {
        ["http.files"] = function() http.files(dir.path .. "\0/b") end,
        ["http.files, as an index"] = function() http.files(dir.path, { index = "a\0.html" }) end,
        ["http.download"] = function() http.download("http://127.0.0.1:1/", path) end,
      }
    end
  end

  if has "runnel.tls.core" then
    local tls = require "runnel.tls"
    each {
      ["tls.client, as a file"] = function() tls.client { ca = path } end,
      ["tls.server, as a file"] = function() tls.server { cert = path, key = path } end,
    }
  end

  if has "runnel.sqlite.core" then
    local run_check = require "runnel.store.runs.run_check"
    each {
      ["sqlite.open"] = function() require("runnel.sqlite").open(path) end,
      ["store.open"] = function() require("runnel.store").open(path) end,
      ["the check of the runs of a store"] = function() run_check.check(path, function() end) end,
      ["the check of the runs of a store, as a program"] = function() run_check.check(":memory:", path) end,
    }
  end

  if has "runnel.nats.core" then
    local nats = require "runnel.nats"
    each {
      ["nats.connect, as a file"] = function() nats.connect("127.0.0.1:1", { credentials = path }) end,
      ["nats.connect, as a file of TLS"] = function() nats.connect("127.0.0.1:1", { tls = { ca = path } }) end,
      ["nats.connect, as a password"] = function() nats.connect("127.0.0.1:1", { user = "a", password = "b\0c" }) end,
      ["nats.connect, in a URL"] = function() nats.connect "127.0.0.1\0.example.org:1" end,
      ["nats.connect, in a user's name in a URL"] = function() nats.connect "a%00b:c@127.0.0.1:1" end,
      ["nats.connect, in a token in a URL"] = function() nats.connect "a%00b@127.0.0.1:1" end,
      ["nats.connect, in one of several users' names"] = function()
        nats.connect { "nats://a%00b:c@127.0.0.1:1", "nats://d:e@127.0.0.1:1" }
      end,
    }
  end

  if has "runnel.monitor.core" then
    each {
      ["monitor.listen, as a title"] = function() require("runnel.monitor").listen(0, { program = "a\0b" }) end,
    }
  end

  it("is cut by Lua's own functions, on a simulated disk as on a real one", function()
    local function program(file)
      local name = file .. "\0.png"
      assert(io.open(name, "w")):close()
      local there = io.open(file)
      if there then there:close() end
      return there ~= nil, os.remove(name) ~= nil, io.open(file) == nil
    end
    assert.same({ true, true, true }, { program(dir.path .. "/b") })
    local sim, results = require "runnel.sim", nil
    sim.run(function()
      local world = sim.world()
      world:host("here", function() results = { program "/tmp/b" } end)
      world:run(1)
    end)
    assert.same({ true, true, true }, results)
  end)

  it("is refused by the functions of a simulated world", function()
    local sim = require "runnel.sim"
    sim.run(function()
      local world = sim.world()
      local host = world:host("here", function() end)
      raises(REFUSED, function() world:host("a\0b", function() end) end)
      raises(REFUSED, function() world:host("a", "a\0b.lua") end)
      raises(REFUSED, function() world:nats "a\0b" end)
      raises(REFUSED, function() world:program("a\0b", function() end) end)
      raises(REFUSED, function() host:put("/a\0b", "data") end)
      raises(REFUSED, function() host:get "/a\0b" end)
      world:run(1)
    end)
  end)
end)
