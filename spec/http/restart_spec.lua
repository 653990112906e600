-- http.serve: one server takes the place of another, and no request is lost.

if not pcall(require, "luv") then
  describe("http.serve is replaced", function() pending "luv is not installed" end)
  return
end

local http = require "runnel.http"
local long = require "spec.support.long"
local rn = require "runnel"
local patience = require "spec.support.patience"
local shell = require "spec.support.shell"
local uv = require "runnel.uv"
local uv_stage = require "spec.support.uv_stage"

local is_warm = false

describe("http.serve is replaced", function()
  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  it("by another one on the same port: none of the requests of all clients is lost #slow", function()
    local function answer()
      rn.sleep(1)
      return 200, nil, "hello"
    end
    local server = assert(http.serve(0, answer, { reuseport = true }))
    local port, answered, asking = server.port, 0, true
    local _ <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      asking = false
      server:close()
    end })
    -- On a new connection, or on one that stays until the server ends it.
    local function ask(keeps)
      local conn <close> = assert(uv.connect("127.0.0.1", port))
      local piece
      repeat
        assert(conn:write("GET / HTTP/1.1\r\nHost: x\r\n" .. (keeps and "" or "Connection: close\r\n") .. "\r\n"))
        piece = assert(conn:read():take(), "no answer")
        assert.match("^HTTP/1.1 200 .*hello$", piece)
        answered = answered + 1
      until piece:find "Connection: close" or not asking
    end
    local clients = {}
    for i = 1, 8 do
      clients[i] = rn.go(function()
        while asking do ask(i % 4 == 0) end
        return true
      end)
    end
    local rounds, each = long.times(2, 20), long.times(300, 500)
    for round = 1, rounds do
      patience.wait_for(function() return answered > round * each end)
      local next_server = assert(http.serve(port, answer, { reuseport = true }))
      assert.is_true(server:drain())
      server = next_server
    end
    asking = false
    for _, client in ipairs(clients) do
      local ok, err = client:take()
      assert(ok, err)
    end
  end)

  it("or refuses the port if only one of them shares it", function()
    local server <close> = assert(http.serve(0, print, { reuseport = true }))
    local other, err = http.serve(server.port, print)
    assert.is_nil(other)
    assert.match("is taken by another program", err)
  end)

  it("by one that gets the socket, as from systemd", function()
    local out, errors = shell.run [[lua -e '
      local rn, luv = require "runnel", require "luv"
      local uv = require "runnel.uv"
      local tcp = luv.new_tcp()
      assert(tcp:bind("127.0.0.1", 0))
      local port = tcp:getsockname().port
      local program = [==[
        local rn, http = require "runnel", require "runnel.http"
        local server
        server = assert(http.serve(0, function(req)
          if req.path == "/end" then rn.go(function() os.exit(server:drain() and 7) end) end
          return 200, nil, tostring(server.port)
        end, { fd = 3 }))
        rn.run()
      ]==]
      local ended = rn.chan()
      luv.spawn(os.getenv "LUA" or "lua5.4", { args = { "-e", program }, stdio = { 0, 1, 2, tcp } },
        function(code) ended:put_async(code) end)
      local function ask(path)
        local conn = uv.connect("127.0.0.1", port)
        while not conn do -- until the program listens
          rn.sleep(2)
          conn = uv.connect("127.0.0.1", port)
        end
        conn:write("GET " .. path .. " HTTP/1.0\r\n\r\n")
        local text = ""
        for piece in conn:read() do text = text .. piece end
        return text:match "%d+$" == tostring(port)
      end
      print(ask "/", ask "/end", ended:take())
      tcp:close()
      rn.run()']]
    assert.same({ "true\ttrue\t7\n", "" }, { out, errors })
  end)

  it("or says that a descriptor is not a socket", function()
    local server, err = http.serve(0, print, { fd = 2 })
    assert.is_nil(server)
    assert.match("descriptor 2 is not a TCP socket", err)
  end)
end)
