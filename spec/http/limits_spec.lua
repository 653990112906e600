-- http.serve: limits for clients, and other protocols on a connection.

if not pcall(require, "luv") then
  describe("limits of http.serve", function() pending "luv is not installed" end)
  return
end

local http = require "runnel.http"
local request = require "runnel.http.request"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv = require "runnel.uv"
local patience = require "spec.support.patience"
local uv_stage = require "spec.support.uv_stage"
local web = require "spec.support.http.web"

local ask, exchange, wait_for = web.ask, web.exchange, patience.wait_for
local is_warm = false

local function open()
  if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
  is_warm = true
  uv_stage.open()
end

local function serve(f, opts) return assert(http.serve(0, f, opts)) end

local function connect(server, bytes)
  local conn = assert(uv.connect("127.0.0.1", server.port))
  conn:write(bytes)
  return conn
end

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

describe("limits of http.serve", function()
  before_each(open)
  after_each(uv_stage.close)

  it("hold for the requests on a connection: the last response says that it closes", function()
    local server <close> = serve(function() return 200, nil, "hello" end, { max_requests = 2 })
    local answer = exchange(server, GET:rep(3))
    local _, count = answer:gsub("HTTP/1.1 200", "")
    assert.equal(2, count)
    assert.match("hello.*\r\nConnection: close\r\n.*hello$", answer)
  end)

  it("are none if they are larger than any number that is reached", function()
    local LAST <const> = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    for name, larger in pairs {
      max = math.maxinteger, max_header = math.maxinteger, max_connections = math.maxinteger,
      min_rate = math.maxinteger,
      max_per_address = 1 << 32, max_requests = 1 << 32, header_timeout = 1e300, idle = 1e300, timeout = 1e300,
    } do
      local server <close> = serve(function() return 200, nil, "hello" end, { [name] = larger })
      local answer = exchange(server, GET .. GET .. LAST)
      assert.equal(3, select(2, answer:gsub("HTTP/1.1 200", "")), name)
    end
  end)

  it("hold for the time of a head from its first byte, and of a connection without a request", function()
    local server <close> = serve(function() return 200 end, { header_timeout = 50, idle = 60000 })
    assert.match("^HTTP/1.1 408 ", exchange(server, "GET / HT"))
    assert.match("^HTTP/1.1 200.*HTTP/1.1 408 ", exchange(server, GET .. "G"))
    local idle <close> = serve(function() return 200 end, { idle = math.ceil(400 * patience.factor()) })
    assert.equal("", exchange(idle, ""))
    assert.match("^HTTP/1.1 200 .*\r\n\r\n$", exchange(idle, GET))
  end)

  it("hold for the rate of a body, even if bytes keep coming", function()
    local reason
    local server <close> = serve(function(req)
      local ok, err = pcall(req.body, req)
      reason = err
      if not ok then error(err, 0) end
      return 200
    end, { idle = 200, min_rate = 1000 })
    local conn = connect(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    local dripping = rn.go(function()
      while conn:write "x" do rn.sleep(10) end
    end)
    local answer = conn:read():take()
    assert.match("^HTTP/1.1 408 ", answer)
    wait_for(function() return reason end)
    assert.match("did not arrive in time", tostring(reason))
    conn:close()
    dripping:take()
  end)

  it("let a body come for as long as it keeps to the rate #slow", function()
    local idle = math.max(1000, math.ceil(300 * patience.factor()))
    local server <close> = serve(function(req) return 200, nil, tostring(#req:body()) end,
      { idle = idle, timeout = 100 * idle, min_rate = 1000 * 1000 // idle })
    local conn <close> = connect(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 22000\r\n\r\n")
    local began = rn.now()
    for _ = 1, 22 do
      conn:write(("x"):rep(1000))
      rn.sleep(idle / 20)
    end
    assert.is_true(rn.now() - began > idle)
    assert.match("^HTTP/1.1 200 .*22000$", (conn:read():take()))
  end)

  it("hold for clients that do not read: the connection is reset, so that the system keeps nothing for them", function()
    local ended
    local server <close> = serve(function()
      local ch = rn.chan()
      rn.go(function()
        while ch:put(("x"):rep(60000)) do end -- luacheck: ignore 542
        ended = true
      end)
      return 200, nil, ch
    end, { idle = 100 })
    local conn <close> = connect(server, GET)
    wait_for(function() return ended end)
    local piece, err
    repeat piece, err = conn:read():take() until not piece
    assert.match("ECONNRESET", err)
  end)

  -- The bytes that the system has sent on connections of a port, or has still to send, without an acknowledgement; also
  -- on those that the program has closed.
  local function kept(port)
    local sum = 0
    for line in io.lines "/proc/net/tcp" do
      local local_port, to_send = line:match "^%s*%d+: %x+:(%x+) %x+:%x+ %x+ (%x+):"
      if local_port and tonumber(local_port, 16) == port then sum = sum + tonumber(to_send, 16) end
    end
    return sum
  end

  it("hold for what the system keeps for clients that do not read, also after the connection was closed", function()
    if not pcall(io.lines, "/proc/net/tcp") then return pending "there is no /proc/net/tcp" end
    local server <close> = serve(function() return 200, nil, ("x"):rep(1000000) end, { idle = 300 })
    local conns = {}
    for i = 1, 4 do
      local ending = i % 2 == 0 and "Connection: close\r\n" or ""
      conns[i] = connect(server, ("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n"):format(ending))
    end
    wait_for(function() return kept(server.port) > 0 end)
    wait_for(function() return kept(server.port) == 0 end)
    for _, conn in ipairs(conns) do conn:close() end
  end)

  it("do not count the time in which the program does not read or write #slow", function()
    local go, idle = rn.chan(), math.max(700, math.ceil(300 * patience.factor()))
    local server <close> = serve(function(req)
      local n = 0
      for piece in req:pieces() do
        n = n + #piece
        go:take()
      end
      local ch = rn.chan()
      rn.go(function()
        ch:put "a"
        rn.sleep(idle + 200)
        ch:put(tostring(n))
        ch:close()
      end)
      return 200, nil, ch
    end, { idle = idle, timeout = 100 * idle })
    local body = ("x"):rep(400000)
    local head = ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"):format(#body)
    local conn <close> = connect(server, head .. body)
    rn.sleep(idle + 200)
    go:close()
    local answer = ""
    for piece in conn:read() do
      answer = answer .. piece
      if answer:find "0\r\n\r\n$" then break end
    end
    assert.match("^HTTP/1.1 200 .*400000\r\n0\r\n\r\n$", answer)
  end)

  it("do not hold for upgraded connections", function()
    local timeout = math.ceil(400 * patience.factor()) -- the upgrade comes before that
    local server <close> = serve(function(req)
      request.upgrade(req, { "Upgrade", "silence" })
      rn.sleep(2.5 * timeout)
      req.core:write "bye"
    end, { idle = timeout // 2, timeout = timeout })
    local head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: silence\r\n\r\n"
    assert.match("\r\n\r\nbye$", exchange(server, head))
  end)
end)

describe("other protocols on a connection of http.serve", function()
  before_each(open)
  after_each(uv_stage.close)

  local UPGRADE <const> = "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n"

  -- Sends back what comes, until the client ends.
  local function echo(req)
    request.upgrade(req, { "Upgrade", "echo", "X-A", "b" })
    while true do
      local piece = req.core:read(65536)
      if piece == false then return end
      if piece then
        local has_room = req.core:write(piece)
        while not has_room do
          req.room:take()
          has_room = req.core:write ""
        end
      else
        req.can_read:take()
      end
    end
  end

  it("carry the bytes of both directions, also those that came with the head", function()
    local server <close> = serve(echo)
    local conn <close> = connect(server, UPGRADE .. "early")
    local answer = conn:read():take()
    while not answer:find "early$" do answer = answer .. conn:read():take() end
    assert.equal("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nX-A: b\r\nConnection: Upgrade\r\n\r\nearly",
      answer)
    local n, all = 0, 3000000
    rn.go(function()
      for _ = 1, all // 50000 do conn:write(("x"):rep(50000)) end
      conn:shutdown()
    end)
    for piece in conn:read() do n = n + #piece end
    assert.equal(all, n)
  end)

  it("cancel the go block when the client is lost, and end when the function returns", function()
    local ended
    local server <close> = serve(function(req)
      local _ <close> = setmetatable({}, { __close = function() ended = true end })
      request.upgrade(req, { "Upgrade", "x" })
      while true do
        req.core:write(("x"):rep(10000))
        rn.sleep(1)
      end
    end)
    local conn = connect(server, UPGRADE)
    conn:read():take()
    conn:close()
    wait_for(function() return ended end)
  end)

  it("are for requests that offer one and have no response; others are answered as always", function()
    local problems = {}
    local server <close> = serve(function(req)
      if req.path == "/plain" then return 200, nil, tostring(req.can_upgrade) end
      problems[#problems + 1] = select(2, pcall(request.upgrade, req, { "Upgrade", "x" }))
      return 200, nil, "no"
    end)
    assert.equal("true", (select(2, ask(server, "GET /plain", "Connection: upgrade\r\nUpgrade: x\r\n\r\n"))))
    assert.equal("no", (select(2, ask(server, "GET /", "Upgrade: x\r\n\r\n"))))
    local with_body = "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\na"
    assert.equal("no", (select(2, ask(server, "GET /", with_body))))
    assert.equal(2, #problems)
    for _, problem in ipairs(problems) do assert.match("does not offer another protocol", problem) end
    assert.is_nil(stage.heard()[1])
  end)
end)
