-- http.serve on a Unix socket.

local both = require("spec.support.in_world")(it)
local http_stage = require "spec.support.http.http_stage"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

if http_stage.missing then
  describe("http.serve on a Unix socket", function() pending(http_stage.missing) end)
  return
end

local http, uv = require "runnel.http", require "runnel.uv"
local has_websocket = pcall(function() return http.websocket end)

local function show(req) return 200, nil, ("%s %s %s"):format(req.address, req.path, req:body()) end

describe("http.serve on a Unix socket", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  local function new_path()
    local path = uv_stage.path ""
    os.remove(path)
    return path
  end

  local function exists(path) return require("luv").fs_stat(path) ~= nil end

  both("answers the requests of clients with unix_socket_path, and says where it is", function()
    local path = new_path()
    local server <close> = assert(http.serve(path, show))
    assert.same({ nil, path, "http://localhost/", "http server: " .. path },
      { server.port, server.path, server.url, tostring(server) })
    local res = assert(http.request { url = server.url .. "a", body = "text", unix_socket_path = path })
    assert.equal("unix: /a text", res.body)
  end)

  it("gets requests of clients that close at once, and cancels their go blocks, as with TCP", function()
    local path, texts, reason = new_path(), {}, nil
    local function note(req)
      texts[#texts + 1] = req:body()
      if req.path == "/last" then
        local _ <close> = setmetatable({}, { __close = function(_, err) reason = err end })
        rn.chan():take()
      end
      return 200
    end
    local server <close> = assert(http.serve(path, note))
    local tcp <close> = assert(http.serve(0, note))
    for i, place in ipairs { { path }, { "127.0.0.1", tcp.port } } do
      for n = 1, 20 do
        local conn <close> = assert(uv.connect(table.unpack(place)))
        conn:write(("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nevent"):format(n < 20 and "/" or "/last"))
      end
      patience.wait_for(function() return #texts == 20 * i and reason end)
      assert.equal(("event"):rep(20 * i), table.concat(texts))
      assert.equal("the client has closed the connection", reason)
      reason = nil
    end
    assert.equal(path, server.path)
  end)

  both("is what http.proxy can pass requests on to, and WebSockets too", function()
    local path = new_path()
    local server <close> = assert(http.serve(path, function(req)
      if not req.can_upgrade then return 200, nil, req.headers.host .. " " .. req.headers["x-forwarded-for"] end
      local conn = assert(req:websocket())
      conn:write(conn:read():take())
    end))
    local middle = new_path()
    local front <close> = assert(http.serve(middle, http.proxy("http://app.example", { unix_socket_path = path })))
    assert.equal("app.example unknown", assert(http.get(front.url, { unix_socket_path = middle })).body)
    if not has_websocket then return end
    local conn <close> = assert(http.websocket("ws://localhost/", { unix_socket_path = middle }))
    conn:write "hello"
    assert.equal("hello", conn:read():take())
    assert.equal(path, server.path)
  end)

  both("replaces a socket whose program has ended, but none that is used", function()
    local path = new_path()
    do
      local server <close> = assert(http.serve(path, show))
      local other, err = http.serve(path, show)
      assert.is_nil(other)
      assert.truthy(err:find(path, 1, true))
      assert.equal(200, assert(http.get(server.url, { unix_socket_path = path })).status)
    end
    rn.sleep(1)
    local server <close> = assert(http.serve(path, show))
    assert.equal(200, assert(http.get(server.url, { unix_socket_path = path })).status)
  end)

  it("replaces one that a killed program has left", function()
    local path = new_path()
    local listening = "local uv = require 'luv' local p = uv.new_pipe() p:bind(%q) p:listen(1, print) "
      .. "io.write 'ready' io.flush() uv.run()"
    local p = uv.spawn { os.getenv "LUA" or "lua5.4", "-e", listening:format(path) }
    assert.equal("ready", p.stdout:take())
    assert.is_nil((http.serve(path, show)))
    p:kill "kill"
    p.exit:take()
    assert.is_true(exists(path))
    local server <close> = assert(http.serve(path, show))
    assert.equal(200, assert(http.get(server.url, { unix_socket_path = path })).status)
  end)

  it("replaces one that a host of a simulated world has left in a crash", function()
    local status
    sim.run(function()
      local world = sim.world()
      local host = world:host("a", function()
        local server = assert(http.serve("/run.sock", show))
        status = assert(http.get(server.url, { unix_socket_path = "/run.sock" })).status
        rn.sleep(100)
      end)
      rn.go(function()
        rn.sleep(50)
        status = nil
        host:crash()
        host:restart()
      end)
      world:run()
    end)
    assert.equal(200, status)
  end)

  it("removes its file at its end, but no file that is another one", function()
    local path = new_path()
    local server = assert(http.serve(path, show, { mode = tonumber("600", 8) }))
    local mode = assert(require("luv").fs_stat(path)).mode
    assert.equal(tonumber("600", 8), mode & tonumber("777", 8))
    server:close()
    assert.is_false(exists(path))
    server = assert(http.serve(path, show))
    os.remove(path)
    local newer = assert(http.serve(path, show))
    server:close()
    assert.is_true(exists(path))
    assert.equal(200, assert(http.get(newer.url, { unix_socket_path = path })).status)
    assert.is_true(newer:drain())
    assert.is_false(exists(path))
    io.open(path, "w"):write("text"):close()
    local none, err = http.serve(path, show)
    assert.is_nil(none)
    assert.match("is taken", err)
    assert.equal("text", io.open(path):read "a")
    os.remove(path)
  end)

  it("can be given the socket, as by systemd, and leaves its file", function()
    local path = new_path()
    local out, errors = require("spec.support.shell").run(([[lua -e '
      local rn, luv, http = require "runnel", require "luv", require "runnel.http"
      require "runnel.uv"
      local path = %q
      local pipe = luv.new_pipe()
      assert(pipe:bind(path))
      local program = [==[
        local rn, http = require "runnel", require "runnel.http"
        local server
        server = assert(http.serve(0, function(req)
          rn.go(function() os.exit(server:drain() and 7) end)
          return 200, nil, server.path
        end, { fd = 3 }))
        rn.run()
      ]==]
      local ended = rn.chan()
      luv.spawn(os.getenv "LUA" or "lua5.4", { args = { "-e", program }, stdio = { 0, 1, 2, pipe } },
        function(code) ended:put_async(code) end)
      local res = http.get("http://localhost/", { unix_socket_path = path })
      while not res do -- until the program listens
        rn.sleep(2)
        res = http.get("http://localhost/", { unix_socket_path = path })
      end
      print(res.body == path, ended:take(), luv.fs_stat(path) ~= nil)
      pipe:close()
      rn.run()']]):format(path))
    assert.same({ "true\t7\ttrue\n", "" }, { out, errors })
  end)

  it("says what is wrong", function()
    for pattern, f in pairs {
      ["path of a Unix socket, with a slash, expected, got \"8080\""] = function() http.serve("8080", show) end,
      ["path of a Unix socket, with a slash, expected, got \"http:"] = function() http.serve("http://a/", show) end,
      ["host is for a port"] = function() http.serve("./a", show, { host = "0.0.0.0" }) end,
      ["mode is for a Unix socket"] = function() http.serve(0, show, { mode = 1 }) end,
      ["port: an integer of at least 0"] = function() http.serve({}, show) end,
    } do
      raises("^serve: .*" .. pattern, f)
    end
    local none, err = http.serve("/" .. ("a"):rep(200), show)
    assert.is_nil(none)
    assert.match("has at most %d+ bytes", err)
    none, err = http.serve("/nowhere/at/all", show)
    assert.is_nil(none)
    assert.match("No such file", err)
    stage.heard()
  end)
end)
