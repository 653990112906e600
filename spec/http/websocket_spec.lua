-- http.websocket: the handshake, messages, pings, closing, and what a server can do wrong. The servers here are scripts
-- that write frames by themselves (spec.support.http.websocket_frames).

local both = require "spec.support.in_world"(it)
local rn = require "runnel"
local frames = require "spec.support.http.websocket_frames"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local is_built, lib = pcall(require, "runnel.websocket.core")
if not (is_built and pcall(require, "luv")) then
  describe("http.websocket", function() pending "zlib or luv is not installed" end)
  return
end

local connection = require "runnel.http.websocket.ws_connection"
local http = require "runnel.http"
local uv = require "runnel.uv"
local wait_for = patience.wait_for

local TEXT, BINARY, CLOSE, PING, PONG = frames.TEXT, frames.BINARY, frames.CLOSE, frames.PING, frames.PONG
local PLAIN = { mask = false }

describe("http.websocket", function()
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- The server's end of a connection.
  local Peer = {}
  Peer.__index = Peer

  function Peer:more()
    local piece = self.conn:read():take()
    self.bytes = self.bytes .. (piece or "")
    return piece
  end

  -- The head of the request; then the bytes behind it are kept.
  function Peer:head()
    while true do
      local head, rest = self.bytes:match "^(.-\r\n)\r\n(.*)$"
      if head then
        self.bytes = rest
        return head
      end
      if not self:more() then return nil end
    end
  end

  -- The next frame; nil at the end.
  function Peer:next()
    while true do
      local frame, after = frames.first(self.bytes)
      if frame then
        self.bytes = self.bytes:sub(after)
        return frame
      end
      if not self:more() then return nil end
    end
  end

  function Peer:send(opcode, payload, with)
    return self.conn:write(frames.frame(opcode, payload, with or PLAIN))
  end

  function Peer:close(code, reason) return self:send(CLOSE, code and frames.closing(code, reason) or "") end

  local function accepted(head, extra)
    return ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      .. "Sec-WebSocket-Accept: %s\r\n%s\r\n"):format(lib.accept(head:match "Sec%-WebSocket%-Key: (%S+)"), extra or "")
  end

  local Server = { __close = function(self) self.conns:close() end }

  -- A server that calls f with each connection's peer before the handshake. Returns it, with its url.
  local function listen(f)
    local conns, port = uv_stage.serve(function(conn)
      f(setmetatable({ conn = conn, bytes = "" }, Peer))
    end)
    return setmetatable({ conns = conns, port = port, url = "ws://127.0.0.1:" .. port .. "/" }, Server)
  end

  -- A server that does the handshake, and calls f then.
  local function serve(f, extra)
    return listen(function(peer)
      peer.conn:write(accepted(peer:head(), extra))
      f(peer)
    end)
  end

  local function connect(server, opts) return assert(http.websocket(server.url, opts)) end

  -- Answers the client's close frame, and returns it.
  local function finish(peer)
    while true do
      local frame = peer:next()
      if not frame then return nil end
      if frame.opcode == CLOSE then
        peer:send(CLOSE, frame.payload)
        return frame
      end
    end
  end

  local function echo(peer)
    for frame in function() return peer:next() end do
      peer:send(frame.opcode == PING and PONG or frame.opcode, frame.payload)
      if frame.opcode == CLOSE then return end
    end
  end

  -- Moves bytes until one side ends.
  local function move(from, to)
    repeat
      local chunk = from:read():take()
    until chunk == nil or not to:write(chunk)
    to:close()
  end

  -- A proxy for which every host is this one. Returns it, its address, and the list of the heads that it has got.
  local function proxy(status, version)
    local heads = {}
    version = version or "1.1"
    local conns, port = uv_stage.serve(function(conn)
      local peer = setmetatable({ conn = conn, bytes = "" }, Peer)
      local head = peer:head()
      heads[#heads + 1] = head
      if status then return conn:write(("HTTP/%s %d No\r\n\r\n"):format(version, status)) end
      local there <close> = assert(uv.connect("127.0.0.1", math.tointeger(head:match "^CONNECT %S+:(%d+) ")))
      conn:write(("HTTP/%s 200 Connection established\r\n\r\n"):format(version))
      local back = rn.go(move, there, conn)
      move(conn, there)
      back:take()
    end)
    return setmetatable({ conns = conns }, Server), "127.0.0.1:" .. port, heads
  end

  describe("a proxy", function()
    it("makes a tunnel, with a name and a password that the server does not see", function()
      local server <close> = serve(echo)
      local running <close>, address, heads = proxy() -- luacheck: ignore 211
      local url = ("ws://far.invalid:%d/"):format(server.port)
      local conn <close> = assert(http.websocket(url, { proxy = "http://me:s%2fcret@" .. address }))
      assert(conn:write "hello")
      assert.equal("hello", conn:read():take())
      assert.equal(1, #heads)
      local start = ("^CONNECT far.invalid:%d HTTP/1.1\r\nHost: far.invalid:%d\r\n"):format(server.port, server.port)
      assert.match(start .. "Proxy%-Authorization: Basic bWU6cy9jcmV0\r\n", heads[1])
    end)

    it("may answer with HTTP/1.0, as some do, but with no other version", function()
      local server <close> = serve(echo)
      local function try(...)
        local running <close>, address = proxy(...) -- luacheck: ignore 211
        return http.websocket("ws://far.invalid:" .. server.port, { proxy = "http://" .. address })
      end
      assert(try(nil, "1.0")):close()
      for _, version in ipairs { "1.2", "2" } do
        local conn, err = try(200, version)
        assert.is_nil(conn)
        assert.matches("the answer is not a response of HTTP/1.1", err)
      end
    end)

    it("is that of the environment, unless no_proxy names the host, or the option is empty", function()
      local server <close> = serve(echo)
      local running <close>, address, heads = proxy() -- luacheck: ignore 211
      local path = uv_stage.path(([[
        local http = require "runnel.http"
        local url, opts = "ws://far.invalid:%d/", nil
        if arg[1] then url = arg[1] end
        if arg[2] then opts = { proxy = arg[2] } end
        local conn, err = http.websocket(url, opts)
        print(conn and "connected" or err)
      ]]):format(server.port))
      local function try(env, ...)
        env.HTTP_PROXY, env.all_proxy, env.ALL_PROXY, env.no_proxy = false, false, false, env.no_proxy or false
        local program = uv.spawn { os.getenv "LUA" or "lua5.4", path, env = env, ... }
        return table.concat(rn.into({}, program.stdout):take())
      end
      assert.equal("connected\n", try { http_proxy = address })
      assert.equal(1, #heads)
      assert.match("^far.invalid", try { http_proxy = address, no_proxy = "localhost, .invalid" })
      assert.match("^far.invalid", try { http_proxy = "", https_proxy = address })
      assert.equal(1, #heads)
    end)

    it("that refuses, is not there, or is of another kind is an error that names it", function()
      local running <close>, address, heads = proxy(407) -- luacheck: ignore 211
      for text, pattern in pairs {
        [address] = "through the proxy " .. address .. ": it has answered with status 407",
        ["127.0.0.1:1"] = "through the proxy 127.0.0.1:1: .*ECONNREFUSED",
        ["ftp://127.0.0.1:1"] = "the proxy ftp://127.0.0.1:1 is of an unknown kind: http, https, socks4",
        ["http://:1"] = "the address of the proxy is wrong",
      } do
        local conn, err = http.websocket("ws://far.invalid/", { proxy = text })
        assert.is_nil(conn)
        assert.match("^far.invalid: .*" .. pattern, tostring(err))
      end
      assert.equal(1, #heads)
    end)
  end)

  describe("the handshake", function()
    both("sends the request of RFC 6455, with the options", function()
      local heads = rn.chan(2)
      local server <close> = listen(function(peer)
        local head = peer:head()
        heads:put(head)
        peer.conn:write(accepted(head, head:find "Protocol" and "sec-websocket-protocol: b\r\n"))
        echo(peer)
      end)
      do
        local conn <close> = connect(server)
        local head = heads:take()
        assert.match("^GET / HTTP/1%.1\r\nHost: 127%.0%.0%.1:" .. server.port .. "\r\n", head)
        assert.match("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec%-WebSocket%-Version: 13\r\n", head)
        assert.match("\r\nSec%-WebSocket%-Key: [%w+/]+==\r\n", head)
        assert.is_nil(head:find "Protocol" or head:find "Extensions" or head:find "Origin")
        assert.is_nil(conn.protocol)
      end
      local conn <close> = assert(http.websocket(server.url .. "a/b?c=%20d", { protocols = { "a", "b" },
        origin = "https://example.org", deflate = true, headers = { ["X-One"] = 1, Cookie = "a=b" } }))
      local head = heads:take()
      assert.match("^GET /a/b%?c=%%20d HTTP/1%.1\r\n", head)
      assert.match("\r\nSec%-WebSocket%-Protocol: a, b\r\n", head)
      assert.match("\r\nOrigin: https://example%.org\r\n", head)
      assert.match("\r\nCookie: a=b\r\nX%-One: 1\r\n", head)
      assert.match("\r\nSec%-WebSocket%-Extensions: permessage%-deflate; server_no_context_takeover", head)
      assert.equal("b", conn.protocol)
    end)

    -- The error of a client to which a server answers so.
    local function refused(answer, opts)
      local server <close> = listen(function(peer)
        local head = peer:head()
        peer.conn:write(type(answer) == "function" and answer(head) or answer)
      end)
      local conn, err, response = http.websocket(server.url, opts)
      assert.is_nil(conn)
      assert.match("^127%.0%.0%.1:" .. server.port .. ": ", err)
      return err, response
    end

    both("fails with a status other than 101; then the response is the third result", function()
      local err, response = refused "HTTP/1.1 403 Forbidden\r\nX-Why: a\r\nx-why: b\r\nContent-Length: 0\r\n\r\n"
      assert.match("answered with status 403", err)
      assert.same({ status = 403, headers = { ["x-why"] = "a, b", ["content-length"] = "0" } }, response)
    end)

    both("fails with an answer that is wrong", function()
      local head = "HTTP/1.1 101 Switching Protocols\r\n"
      assert.match("not a response of HTTP/1.1", refused "SSH-2.0-OpenSSH\r\n\r\n")
      assert.match("not a response of HTTP/1.1", refused "HTTP/1.0 101 Switching Protocols\r\n\r\n")
      assert.match("headers of the response are malformed", refused(head .. "Upgrade : websocket\r\n\r\n"))
      assert.match("headers of the response are malformed", refused(head .. "Upgrade: a\r\n websocket\r\n\r\n"))
      assert.match("headers of the response are malformed", refused(head .. "A: a\0b\r\n\r\n"))
      assert.match("does not switch to WebSocket", refused(head .. "Upgrade: websocket\r\n\r\n"))
      assert.match("does not switch to WebSocket", refused(head .. "Connection: upgrade\r\n\r\n"))
      assert.match("wrong Sec%-WebSocket%-Accept",
        refused(head .. "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: abc\r\n\r\n"))
      assert.match("subprotocol that was not offered: x",
        refused(function(h) return accepted(h, "Sec-WebSocket-Protocol: x\r\n") end, { protocols = { "a" } }))
      assert.match("extensions that were not offered: permessage%-deflate",
        refused(function(h) return accepted(h, "Sec-WebSocket-Extensions: permessage-deflate\r\n") end))
      for _, answer in ipairs { "permessage-deflate", "x", "permessage-deflate; server_no_context_takeover; x",
        "permessage-deflate; server_no_context_takeover; client_max_window_bits=9",
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=16" } do
        assert.match("extensions that were not offered",
          refused(function(h) return accepted(h, "Sec-WebSocket-Extensions: " .. answer .. "\r\n") end,
            { deflate = true }))
      end
      assert.match("head of the response is too long", refused(head .. "A: " .. ("x"):rep(20000)))
      assert.match("ended during the handshake", refused(head .. "Upgrade: webs"))
    end)

    both("fails when it takes too long, with an error that is a timeout", function()
      local server <close> = listen(function(peer)
        peer:head()
        peer:more()
      end)
      local conn, err = http.websocket(server.url, { timeout = 20 })
      assert.is_nil(conn)
      assert.is_true(rn.is_timeout(err))
      assert.match("handshake was not complete after 20 ms", tostring(err))
    end)

    both("fails where no server is", function()
      local server = listen(function() end)
      server.conns:close()
      rn.sleep(1)
      local conn, err = http.websocket(server.url)
      assert.is_nil(conn)
      assert.match("ECONNREFUSED", err)
    end)

    both("encodes what is not ASCII behind the host", function()
      local line
      local server <close> = listen(function(peer) line = peer:head():match "^[^\r]*" end)
      assert.is_nil((http.websocket(server.url:gsub("/*$", "") .. "/caf\u{E9}?q=\u{20AC}\xFF%20")))
      assert.equal("GET /caf%C3%A9?q=%E2%82%AC%FF%20 HTTP/1.1", line)
    end)

    both("returns an error for what is not the URL of a WebSocket", function()
      for url, why in pairs {
        ["http://x/"] = "not a ws:// or wss:// URL", x = "not a ws:// or wss:// URL",
        [""] = "not a ws:// or wss:// URL",
        ["ws://x/a b"] = "unencoded character", ["ws://x/\r\nA: b"] = "unencoded character",
        ["ws://\u{E9}/"] = "not ASCII", ["ws://x/#a"] = "has a fragment",
        ["ws://me:secret@x/"] = "cannot have a name and password", ["ws://x:0/"] = "port of the URL",
        ["ws://x:65536/"] = "port of the URL", ["ws://x:a/"] = "port of the URL", ["ws://[x]/"] = "port of the URL",
      } do
        local conn, err = http.websocket(url)
        assert.is_nil(conn)
        assert.is_truthy(err:find(why, 1, true), err)
        assert.is_nil(err:find("secret", 1, true))
      end
    end)

    both("raises an error at the caller's line for wrong options", function()
      local function with(opts) http.websocket("ws://x/", opts) end
      raises("websocket: a URL expected, got a table", function() http.websocket {} end)
      for pattern, opts in pairs {
        ["unknown option \"masx\""] = { masx = 1 },
        ["max: an integer of at least 1 expected"] = { max = 0 },
        ["ping: a number of milliseconds"] = { ping = "1" },
        ["deflate: true or false expected"] = { deflate = 1 },
        ["protocols: a list of names of subprotocols expected, got a string"] = { protocols = "a" },
        ["noproxy: a string such as"] = { noproxy = {} },
        ["protocols: element 1: one of the names of subprotocols expected, got \"a b\""] = { protocols = { "a b" } },
        ["headers: the name of a header expected, got \"a b\""] = { headers = { ["a b"] = "c" } },
        ["headers: a: a string without line breaks"] = { headers = { a = "b\r\nc: d" } },
        ["headers: Upgrade is set by the handshake itself"] = { headers = { Upgrade = "c" } },
        ["unix_socket_path: the path of a Unix socket"] = { unix_socket_path = 1 },
        ["origin: a string such as"] = { origin = "a b" },
        ["timeout: a number of milliseconds"] = { timeout = -1 },
        ["tls is for wss:// URLs"] = { tls = {} },
      } do
        local ok, err = pcall(with, opts)
        assert.is_false(ok)
        assert.is_truthy(err:find(pattern, 1, true), err)
        assert.match("websocket_spec.lua:%d+: websocket: ", err)
      end
    end)

    it("is an error in a simulation", function()
      require("runnel.sim").run(function()
        raises("needs real time, and this is a simulation", function() http.websocket "ws://127.0.0.1:1/" end)
      end)
    end)

    both("ends when its go block is cancelled, and closes the socket", function()
      local begun, ended = rn.chan(), rn.chan()
      local server <close> = listen(function(peer)
        peer:head()
        begun:close()
        peer:more()
        ended:close()
      end)
      local block = rn.go(http.websocket, server.url)
      begun:take()
      rn.cancel(block)
      ended:take()
    end)
  end)

  describe("messages", function()
    both("are strings for texts and tables for other bytes, in both directions", function()
      local server <close> = serve(echo)
      local conn <close> = connect(server)
      for _, text in ipairs { "", "a", "\u{20AC}\0", ("x"):rep(70000), 42 } do
        assert.is_true(conn:write(text))
        assert.equal(tostring(text), conn:read():take())
      end
      for _, bytes in ipairs { "", "\xFF\0", ("\xFE"):rep(70000) } do
        assert.is_true(conn:write { binary = bytes })
        assert.same({ binary = bytes }, conn:read():take())
      end
    end)

    both("may come together with the answer to the handshake, and in pieces", function()
      local server <close> = listen(function(peer)
        local bytes = accepted(peer:head()) .. frames.frame(TEXT, "a", PLAIN) .. frames.frame(TEXT, "bc", PLAIN)
        peer.conn:write(bytes:sub(1, -3))
        rn.sleep(5)
        peer.conn:write(bytes:sub(-2))
        finish(peer)
      end)
      local conn <close> = connect(server)
      assert.same({ "a", "bc" }, { conn:read():take(), conn:read():take() })
    end)

    both("that cannot be sent are errors at the caller's line", function()
      local server <close> = serve(echo)
      local conn <close> = connect(server)
      raises("write: the text is not UTF%-8; to send other bytes, use { binary = bytes }",
        function() conn:write "\xFF" end)
      raises("write: a string, or { binary = bytes }, expected, got nothing", function() conn:write() end)
      raises("write: a string, or { binary = bytes }, expected, got a table", function() conn:write { "a" } end)
      assert.is_true(conn:write "a")
    end)

    both("stop the other end while nobody takes them, in bounded memory, and none is lost", function()
      local SIZE, COUNT = 100000, 300
      local sent = 0
      local server <close> = serve(function(peer)
        for i = 1, COUNT do
          peer:send(BINARY, string.pack(">I4", i):rep(SIZE // 4))
          sent = i
        end
        peer:close(1000)
        finish(peer)
      end)
      local conn <close> = connect(server)
      local before = -1
      while sent ~= before do
        before = sent
        rn.sleep(50)
      end
      assert.is_true(sent < COUNT, "the sender was not stopped")
      local n = 0
      for message in conn:read() do
        n = n + 1
        assert.equal(n, (string.unpack(">I4", message.binary)))
      end
      assert.equal(COUNT, n)
    end)

    both("are sent while others come: neither end waits for the other to read first", function()
      local SIZE, COUNT = 500000, 20 -- more than the system buffers
      local function send_all(send)
        for _ = 1, COUNT do send(("x"):rep(SIZE)) end
      end
      local server <close> = serve(function(peer)
        local sending = rn.go(send_all, function(text) peer:send(TEXT, text) end)
        local size = 0
        while size < SIZE * COUNT do
          size = size + #peer:more()
          peer.bytes = ""
        end
        sending:take()
        peer:close(1000)
        finish(peer)
      end)
      local conn <close> = connect(server)
      local sending = rn.go(send_all, function(text) conn:write(text) end)
      local n = 0
      for _ in conn:read() do n = n + 1 end
      sending:take()
      assert.equal(COUNT, n)
    end)

    both("longer than `max` end the connection with 1009", function()
      local got = rn.chan(1)
      local server <close> = serve(function(peer)
        peer:send(TEXT, ("x"):rep(100))
        peer:send(TEXT, ("x"):rep(101))
        got:put(finish(peer).payload)
      end)
      local conn <close> = connect(server, { max = 100 })
      assert.equal(100, #conn:read():take())
      local message, err = conn:read():take()
      assert.is_nil(message)
      assert.match("a message is longer than the limit %(1009%)", err)
      assert.equal(1009, (string.unpack(">I2", got:take())))
      assert.equal(1006, conn.code)
    end)

    both("are compressed where both ends want that", function()
      local rsv = rn.chan(2)
      local server <close> = listen(function(peer)
        local head = peer:head()
        peer.conn:write(accepted(head, head:find "deflate"
          and "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n"))
        local frame = peer:next()
        rsv:put(frame.rsv)
        peer:send(TEXT, frame.payload, { mask = false, rsv = frame.rsv })
        finish(peer)
      end)
      for _, deflate in ipairs { true, false } do
        local conn <close> = connect(server, { deflate = deflate })
        conn:write(("abc"):rep(1000))
        assert.equal(deflate and 4 or 0, rsv:take())
        assert.equal(("abc"):rep(1000), conn:read():take())
      end
    end)
  end)

  describe("pings", function()
    both("are answered with their payload, also while the program takes nothing", function()
      local answers = rn.chan(2)
      local server <close> = serve(function(peer)
        for _, payload in ipairs { "one", "" } do
          peer:send(PING, payload)
          local frame = peer:next()
          answers:put(frame.opcode == PONG and frame.payload)
        end
        finish(peer)
      end)
      local conn <close> = connect(server)
      assert.same({ "one", "" }, { answers:take(), answers:take() })
      assert.is_nil(conn.code)
    end)

    both("that come faster than the answers can be sent: the latest one is answered", function()
      local COUNT = 3000
      local last
      local server <close> = serve(function(peer)
        for i = 1, COUNT do peer:send(PING, tostring(i)) end
        repeat last = peer:next() until last.payload == tostring(COUNT)
        finish(peer)
      end)
      local conn <close> = connect(server) -- luacheck: ignore 211
      wait_for(function() return last and last.payload == tostring(COUNT) end)
    end)

    both("are sent every `ping` ms; a connection from which nothing comes then has ended with a timeout", function()
      local n = 0
      local server <close> = serve(function(peer)
        while true do -- answers three, then no more
          local frame = peer:next()
          if not frame then return end
          if frame.opcode == PING then
            n = n + 1
            if n <= 3 then peer:send(PONG, frame.payload) end
          end
        end
      end)
      local conn <close> = connect(server, { ping = 20 })
      local message, err = conn:read():take()
      assert.is_nil(message)
      assert.is_true(rn.is_timeout(err))
      assert.match("nothing has come for 20 ms", tostring(err))
      assert.is_true(n >= 4)
      assert.equal(1006, conn.code)
    end)

    both("end no connection whose messages wait for the program", function()
      local has_sent = rn.chan()
      local server <close> = serve(function(peer)
        peer:send(TEXT, "a")
        peer:send(TEXT, "b")
        local n = 0
        repeat
          local frame = peer:next()
          if frame and frame.opcode == PING then n = n + 1 end
        until n == 10 or not frame
        peer:send(TEXT, "c")
        has_sent:close()
        finish(peer)
      end)
      local conn <close> = connect(server, { ping = 5 })
      has_sent:take()
      assert.same({ "a", "b", "c" }, { conn:read():take(), conn:read():take(), conn:read():take() })
    end)
  end)

  describe("the end", function()
    both("by the other end gives its code and reason, and an error unless the code is a normal one", function()
      local code, reason, answer
      local server <close> = serve(function(peer)
        peer:send(TEXT, "last")
        peer:close(code, reason)
        answer = peer:next()
      end)
      for _, case in ipairs {
        { 1000, "bye" }, { 1001, "" }, { nil, nil, 1005 }, { 1011, "it is \u{2639}" }, { 4711, "" },
      } do
        code, reason, answer = case[1], case[2], nil
        local conn <close> = connect(server)
        assert.equal("last", conn:read():take())
        local message, err = conn:read():take()
        assert.is_nil(message)
        if code and code > 1001 then
          assert.match(("^127%%.0%%.0%%.1:%d: the other end has closed it with %d"):format(server.port, code), err)
          assert.is_truthy(err:find(reason, 1, true))
        else
          assert.is_nil(err)
        end
        assert.same({ case[3] or code, reason or "" }, { conn.code, conn.reason })
        local ok, why = conn:write "too late"
        assert.is_false(ok)
        assert.match("the other end has closed it", why)
        wait_for(function() return answer end)
        assert.same({ CLOSE, code and frames.closing(code) or "" }, { answer.opcode, answer.payload })
      end
    end)

    both("by the program: the close frame comes last, with its code and reason", function()
      local got = rn.chan(4)
      local server <close> = serve(function(peer)
        for frame in function() return peer:next() end do
          got:put(frame.opcode .. " " .. frame.payload)
          if frame.opcode == CLOSE then
            peer:send(TEXT, "dropped")
            peer:send(CLOSE, frame.payload)
            return
          end
        end
      end)
      local conn = connect(server)
      conn:write "a"
      conn:close()
      conn:close(1011) -- does nothing
      assert.same({ "1 a", "8 " .. frames.closing(1000) }, { got:take(), got:take() })
      assert.is_nil((conn:read():take()))
      assert.is_false((conn:write "b"))
      wait_for(function() return conn.code end)
      assert.equal(1000, conn.code)
      connect(server):close(4000, "enough")
      assert.equal("8 " .. frames.closing(4000, "enough"), got:take())
    end)

    both("of the block that has the connection closes it: with 1011 if that is by an error", function()
      local got = rn.chan(2)
      local server <close> = serve(function(peer) got:put(string.unpack(">I2", finish(peer).payload)) end)
      do
        local conn <close> = connect(server) -- luacheck: ignore 211
      end
      assert.equal(1000, (got:take()))
      pcall(function()
        local conn <close> = connect(server) -- luacheck: ignore 211
        error "oh"
      end)
      assert.equal(1011, (got:take()))
    end)

    both("takes wrong codes and reasons as errors at the caller's line", function()
      local server <close> = serve(echo)
      local conn <close> = connect(server)
      for _, code in ipairs { 0, 999, 1004, 1005, 1006, 1015, 2000, 5000, 1000.5, "1000" } do
        raises("close: a code from 1000 to 1014 except 1004 to 1006, or from 3000 to 4999, expected",
          function() conn:close(code) end)
      end
      raises("close: reason: at most 123 bytes", function() conn:close(1000, ("x"):rep(124)) end)
      raises("close: reason: at most 123 bytes of UTF%-8", function() conn:close(1000, "\xFF") end)
      raises("close: reason: .*, got table", function() conn:close(1000, {}) end)
      assert.is_true(conn:write "still open")
    end)

    both("without a close frame is an error, and the code is 1006", function()
      local server <close> = serve(function(peer)
        peer:send(TEXT, "a")
        peer.conn:write "\x81\x05ab" -- a part of a frame
      end)
      local conn <close> = connect(server)
      assert.equal("a", conn:read():take())
      local message, err = conn:read():take()
      assert.is_nil(message)
      assert.match("ended without a close frame", err)
      assert.equal(1006, conn.code)
      local ok, why = conn:write "b"
      assert.is_false(ok)
      assert.match("ended without a close frame", why)
    end)

    both("by a wrong frame is an error, and the other end learns the code before the connection closes", function()
      for _, case in ipairs {
        { frames.frame(3, "a", PLAIN), 1002, "unknown opcode" },
        { frames.frame(TEXT, "a"), 1002, "frame of the server has a mask" },
        { frames.frame(TEXT, "\xFF", PLAIN), 1007, "not UTF%-8" },
      } do
        local got, began = rn.chan(1), rn.now()
        local server <close> = serve(function(peer)
          peer.conn:write(case[1])
          for _ = 1, 20 do peer:send(TEXT, ("x"):rep(10000)) end -- the close frame comes although these are not read
          local frame = peer:next()
          assert.is_nil(peer:next())
          got:put(string.unpack(">I2", frame.payload))
        end)
        local conn <close> = connect(server)
        local message, err = conn:read():take()
        assert.is_nil(message)
        assert.match(case[3], err)
        assert.equal(case[2], (got:take()))
        assert.equal(1006, conn.code)
        assert.is_true(rn.now() - began < connection.patience - 500, "the other end has not seen the end")
      end
    end)

    both("comes after a while if the other end does not answer", function()
      local before = connection.patience
      connection.patience = 30
      local over = rn.chan()
      local server <close> = serve(function(peer)
        repeat until not peer:more()
        over:close()
      end)
      local conn = connect(server)
      conn:close()
      over:take()
      connection.patience = before
      wait_for(function() return conn.code end)
      assert.equal(1006, conn.code)
    end)

    both("comes after a while even if the other end reads nothing; a write that waits then returns false", function()
      local before = connection.patience
      connection.patience = 30
      local over = rn.chan()
      local server <close> = serve(function() over:take() end)
      local conn = connect(server)
      local writing = rn.go(function() return (conn:write(("x"):rep(20 << 20))) end)
      rn.sleep(20)
      conn:close()
      assert.is_false(writing:take())
      connection.patience = before
      over:close()
    end)
  end)

  describe("the writer", function()
    both("sends what is put; closing it closes the connection", function()
      local got = rn.chan(4)
      local server <close> = serve(function(peer)
        for frame in function() return peer:next() end do
          got:put(frame.opcode .. " " .. frame.payload)
          if frame.opcode == CLOSE then return peer:send(CLOSE, frame.payload) end
        end
      end)
      local conn = connect(server)
      local writer = conn:writer()
      assert.equal(writer, conn:writer())
      writer:put "a"
      writer:put { binary = "\xFF" }
      writer:close()
      assert.same({ "1 a", "2 \xFF", "8 " .. frames.closing(1000) }, { got:take(), got:take(), got:take() })
      local other = connect(server)
      other:writer():close "an error"
      assert.equal("8 " .. frames.closing(1011), got:take())
      assert.same({ "an error" }, stage.report_texts(rn.yield))
    end)

    both("can be a channel of the program", function()
      local server <close> = serve(echo)
      local ch = rn.chan(3)
      local conn = connect(server)
      assert.equal(ch, conn:writer(ch))
      ch:put "a"
      assert.equal("a", conn:read():take())
      ch:close()
    end)

    both("closes when the connection ends, and ends waiting puts", function()
      local server <close> = serve(function(peer)
        peer:next()
        peer:close(1000)
        finish(peer)
      end)
      local conn <close> = connect(server)
      local writer = conn:writer()
      writer:put "a"
      assert.is_nil((conn:read():take()))
      wait_for(function() return writer:closed() end)
      assert.is_false(writer:put "b")
    end)

    both("ends with an error that says what cannot be sent", function()
      local codes = rn.chan(1)
      local server <close> = serve(function(peer) codes:put(string.unpack(">I2", finish(peer).payload)) end)
      local conn = connect(server)
      local texts = stage.report_texts(function()
        conn:writer():put { 1 }
        codes:take()
      end)
      assert.match("a string, or { binary = bytes }, expected, got a table", texts[1])
    end)
  end)
end)
