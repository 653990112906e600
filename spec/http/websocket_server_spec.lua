-- req:websocket of http.serve: the handshake, the connection's life with its request and its server, and other programs
-- at the other end. What both ends have in common is in websocket_spec.lua.

local both = require "spec.support.in_world"(it)
local rn = require "runnel"
local frames = require "spec.support.http.websocket_frames"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local is_built = pcall(require, "runnel.websocket.core")
if not (is_built and pcall(require, "luv")) then
  describe("req:websocket", function() pending "zlib or luv is not installed" end)
  return
end

local http = require "runnel.http"
local wait_for = patience.wait_for
local uv = require "runnel.uv"

local KEY = "dGhlIHNhbXBsZSBub25jZQ=="

local is_warm = false

describe("req:websocket", function()
  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  -- A server that calls f with each connection, after the handshake; without one it returns the refusal.
  local function serve(f, opts)
    local server = assert(http.serve(0, function(req)
      local conn, err, status, headers = req:websocket(opts)
      if not conn then return status, headers, err end
      f(conn, req)
    end))
    return server, (server.url:gsub("^http", "ws"))
  end

  local function echo(conn)
    for message in conn:read() do conn:write(message) end
  end

  -- A connection on which the request has been sent; and the response's head, and what has come behind it.
  local function ask(server, headers, first)
    local conn = assert(uv.connect("127.0.0.1", server.port))
    local lines = { (first or "GET /") .. " HTTP/1.1" }
    local all = { Host = "127.0.0.1:" .. server.port, Upgrade = "websocket", Connection = "Upgrade",
      ["Sec-WebSocket-Version"] = "13", ["Sec-WebSocket-Key"] = KEY }
    for name, value in pairs(headers or {}) do all[name] = value or nil end
    for name, value in pairs(all) do lines[#lines + 1] = name .. ": " .. value end
    conn:write(table.concat(lines, "\r\n") .. "\r\n\r\n")
    local text = ""
    repeat text = text .. (conn:read():take() or "\r\n\r\n") until text:find("\r\n\r\n", 1, true)
    local head, rest = text:match "^(.-\r\n)\r\n(.*)$"
    return conn, head, rest
  end

  local function status_of(server, headers, first)
    local _ <close>, head = ask(server, headers, first)
    return tonumber(head:match "^HTTP/1.1 (%d+)"), head
  end

  describe("the handshake", function()
    both("is answered as RFC 6455 says", function()
      local server <close> = serve(echo, { headers = { ["X-One"] = 1 } })
      local conn <close>, head = ask(server)
      assert.match("^HTTP/1%.1 101 ", head)
      for _, line in ipairs { "Upgrade: websocket", "Connection: Upgrade", "X-One: 1",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" } do
        assert.is_truthy(head:find("\r\n" .. line .. "\r\n", 1, true), line)
      end
      assert.is_nil(head:find "WebSocket%-Protocol" or head:find "Extensions")
      conn:write(frames.frame(frames.TEXT, "hello"))
      assert.equal(frames.frame(frames.TEXT, "hello", { mask = false }), conn:read():take())
    end)

    both("of the usual variants is accepted, and messages may follow it at once", function()
      local server <close> = serve(echo)
      assert.equal(101, (status_of(server, { Upgrade = "WebSocket", Connection = "keep-alive, UPGRADE" })))
      assert.equal(101, (status_of(server, { Origin = "http://127.0.0.1:" .. server.port })))
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write(("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n"):format(KEY)
        .. frames.frame(frames.TEXT, "early"))
      local text, expected = "", frames.frame(frames.TEXT, "early", { mask = false })
      repeat text = text .. conn:read():take() until text:sub(-#expected) == expected
    end)

    both("that is wrong gives nil, the reason, and the status and headers of a response", function()
      local server <close> = serve(echo)
      for _, case in ipairs {
        { 426, { Upgrade = false, Connection = false } }, { 426, { Upgrade = "h2c" } }, { 426, { Upgrade = false } },
        { 426, { Connection = "close" } }, { 426, {}, "HEAD /" }, { 426, { ["Sec-WebSocket-Version"] = "8" } },
        { 426, { ["Sec-WebSocket-Version"] = false } }, { 400, { ["Sec-WebSocket-Key"] = false } },
        { 400, { ["Sec-WebSocket-Key"] = "c2hvcnQ=" } }, { 400, { ["Sec-WebSocket-Key"] = KEY .. ", " .. KEY } },
      } do
        local status, head = status_of(server, case[2], case[3])
        assert.equal(case[1], status)
        assert.is_nil(head:find "Sec%-WebSocket%-Accept")
      end
      local _, head = status_of(server, { ["Sec-WebSocket-Version"] = "8" })
      assert.match("\r\nsec%-websocket%-version: 13\r\n", head:lower())
    end)

    both("is refused to pages of another origin, unless it is listed", function()
      local server <close> = serve(echo)
      for _, origin in ipairs { "http://evil.example", "null", "http://127.0.0.1:1", "" } do
        assert.equal(403, (status_of(server, { Origin = origin })))
      end
      local open <close> = serve(echo, { origins = { "https://App.example", "https://b.example:8443" } })
      assert.equal(101, (status_of(open, { Origin = "https://app.example" })))
      assert.equal(101, (status_of(open, { Origin = "https://b.example:8443" })))
      assert.equal(403, (status_of(open, { Origin = "https://b.example" })))
      for status, pairs_of in pairs {
        [101] = { { "x:80", "http://x" }, { "x", "http://X" }, { "x:443", "https://x" },
          { "[::1]:80", "http://[::1]" } },
        [403] = { { "x:80", "https://x" }, { "x:443", "http://x" }, { "x:8080", "http://x" },
          { "[::80]", "http://[:" } },
      } do
        for _, pair in ipairs(pairs_of) do
          assert.equal(status, (status_of(server, { Host = pair[1], Origin = pair[2] })), pair[1] .. " " .. pair[2])
        end
      end
      local port <close> = serve(echo, { origins = { "https://app.example:443" } })
      assert.equal(101, (status_of(port, { Origin = "https://app.example" })))
      local any <close> = serve(echo, { origins = { "*" } })
      assert.equal(101, (status_of(any, { Origin = "null" })))
    end)

    both("chooses the first of the server's subprotocols that the client knows, or none", function()
      local chosen = {}
      local _ <close>, url = serve(function(conn) chosen[#chosen + 1] = conn.protocol or "none" end,
        { protocols = { "c", "b", "a" } })
      for _, protocols in ipairs { { "a", "b" }, { "x" }, {} } do
        local conn = assert(http.websocket(url, { protocols = protocols }))
        conn:read():take()
      end
      assert.same({ "b", "none", "none" }, chosen)
    end)

    both("agrees on compression if both ends want it, and the offer is right", function()
      local server <close> = serve(echo, { deflate = true })
      for offer, answer in pairs {
        ["permessage-deflate"] = "",
        ["permessage-deflate; client_max_window_bits"] = "",
        ["permessage-deflate; client_max_window_bits=10; server_no_context_takeover"] = "",
        ["x-webkit-deflate-frame, permessage-deflate; server_max_window_bits=10"] = "; server_max_window_bits=10",
        ["permessage-deflate; server_max_window_bits=8, permessage-deflate"] = "",
        ['permessage-deflate; server_max_window_bits="12"'] = "; server_max_window_bits=12",
      } do
        local _, head = status_of(server, { ["Sec-WebSocket-Extensions"] = offer })
        local expected = "permessage-deflate; server_no_context_takeover; client_no_context_takeover" .. answer
        assert.is_truthy(head:find("\r\nSec-WebSocket-Extensions: " .. expected .. "\r\n", 1, true), offer .. head)
      end
      for _, offer in ipairs {
        "permessage-deflate; server_max_window_bits=8", "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=16", "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; what", "permessage-deflate; server_no_context_takeover=1", "other",
        "permessage-deflate; client_max_window_bits; client_max_window_bits", "permessage-deflate;;",
      } do
        local status, head = status_of(server, { ["Sec-WebSocket-Extensions"] = offer })
        assert.equal(101, status)
        assert.is_nil(head:find "Extensions", offer)
      end
    end)

    both("can be made once; wrong options are errors at the caller's line", function()
      local wrong = {}
      local _ <close>, url = serve(function(conn, req)
        raises("websocket: this request has a WebSocket already", function() local _ = req:websocket() end)
        wrong[#wrong + 1] = true
        conn:close()
      end)
      local conn = assert(http.websocket(url))
      conn:read():take()
      assert.equal(1, #wrong)
      local texts = {}
      local strict <close> = assert(http.serve(0, function(req)
        for i, opts in ipairs { { orgins = {} }, { origins = "*" }, { origins = { "example.org" } }, { keep = 1 },
          { ping = 0 }, { headers = { Upgrade = "x" } } } do
          local ok, err = pcall(function() local _ = req:websocket(opts) end)
          texts[i] = not ok and err
        end
        return 200
      end))
      status_of(strict)
      for i, pattern in ipairs { 'unknown option "orgins"', "origins: a list of", "origins: element 1",
        "keep: true or false", "ping: a number of milliseconds", "headers: Upgrade is set by the handshake itself" } do
        assert.match("websocket_server_spec.lua:%d+: websocket: ", texts[i])
        assert.is_truthy(texts[i]:find(pattern, 1, true), texts[i])
      end
    end)
  end)

  describe("a connection", function()
    both("carries messages of each size in both directions", function()
      local _ <close>, url = serve(echo, { deflate = true })
      for _, deflate in ipairs { false, true } do
        local conn <close> = assert(http.websocket(url, { deflate = deflate }))
        for _, size in ipairs { 0, 1, 125, 126, 65535, 65536, 1000000 } do
          local text = ("0123456789"):rep(size // 10 + 1):sub(1, size)
          conn:write(text)
          assert.is_true(text == conn:read():take())
          conn:write { binary = text }
          assert.is_true(text == conn:read():take().binary)
        end
      end
    end)

    both("is closed with 1000 when the function returns, with 1011 when it fails", function()
      local _ <close>, url = serve(function(conn)
        if conn:read():take() == "fail" then error "oh" end
      end)
      for word, code in pairs { stop = 1000, fail = 1011 } do
        local conn = assert(http.websocket(url))
        conn:write(word)
        conn:read():take()
        wait_for(function() return conn.code end)
        assert.equal(code, conn.code)
      end
      local heard = stage.heard()
      assert.match("oh$", heard[1].err)
    end)

    both("stays after the function with `keep`", function()
      local kept
      local _ <close>, url = serve(function(conn) kept = conn end, { keep = true })
      local conn = assert(http.websocket(url))
      wait_for(function() return kept end)
      kept:write "still here"
      assert.equal("still here", conn:read():take())
      kept:close(4000)
      conn:read():take()
      wait_for(function() return conn.code end)
      assert.equal(4000, conn.code)
    end)

    both("of a client that goes away without a close frame ends with 1006; nothing is reported", function()
      local ended = rn.chan(2)
      local server <close> = serve(function(conn)
        if conn:read():take() == "read" then
          local _, err = conn:read():take()
          ended:put(err)
        else
          repeat until not conn:write(("x"):rep(100000))
        end
        wait_for(function() return conn.code end)
        ended:put(conn.code)
      end)
      local conn = ask(server)
      conn:write(frames.frame(frames.TEXT, "read"))
      conn:close()
      assert.match("client 127.0.0.1: the connection has ended without a close frame", ended:take())
      assert.equal(1006, ended:take())
      conn = ask(server)
      conn:write(frames.frame(frames.TEXT, "write"))
      rn.sleep(20)
      conn:close()
      assert.equal(1006, ended:take())
    end)

    both("of a client that has gone takes no more messages, also if nothing else runs between them", function()
      local go_on, ended = rn.chan(), rn.chan(1)
      local server <close> = serve(function(conn)
        go_on:take()
        local message = ("x"):rep(1000) -- many of them fit into the buffers
        repeat until not conn:write(message)
        wait_for(function() return conn.code end)
        ended:put(conn.code)
      end)
      ask(server):close()
      go_on:put(true)
      assert.equal(1006, ended:take())
    end)

    it("gets what a client has sent before it resets the connection", function()
      local has_reset, got, all = rn.chan(), {}, {}
      local server <close> = serve(function(conn, req)
        got.first = conn:read():take() -- from then on the Lua thread reads
        has_reset:take()
        patience.compute_until(function() return req.core:why() end) -- so only the server's thread sees it
        for message in conn:read() do got[#got + 1] = message end
        got.ended = true
      end)
      local conn = ask(server)
      conn:write(frames.frame(frames.TEXT, "hello"))
      wait_for(function() return got.first end)
      for i = 1, 5 do all[i] = frames.frame(frames.TEXT, "message " .. i) end
      conn:write(table.concat(all))
      local handle = conn.handle
      conn.handle = nil
      handle:close_reset()
      has_reset:put(true)
      wait_for(function() return got.ended end)
      assert.same({ "message 1", "message 2", "message 3", "message 4", "message 5", first = "hello",
        ended = true }, got)
    end)

    both("stops a client whose messages are not taken, and a function whose client reads nothing #ci", function()
      local go_on, done = rn.chan(), rn.chan(1)
      local sent = 0
      local COUNT, SIZE = 200, 100000
      local server <close> = serve(function(conn)
        go_on:take()
        for i = 1, COUNT do
          if not conn:write(("x"):rep(SIZE)) then return end
          sent = i
        end
        done:put(true)
      end)
      local conn <close> = ask(server)
      local client_sent = 0
      local sending = rn.go(function()
        for i = 1, COUNT do
          conn:write(frames.frame(frames.BINARY, ("y"):rep(SIZE), { mask = "\0\0\0\0" }))
          client_sent = i
        end
      end)
      local before = -1
      while client_sent ~= before do
        before = client_sent
        rn.sleep(50)
      end
      assert.is_true(client_sent < COUNT, "the client was not stopped")
      go_on:close()
      before = -1
      while sent ~= before do
        before = sent
        rn.sleep(50)
      end
      assert.is_true(sent < COUNT, "the function was not stopped")
      rn.cancel(sending)
      local size = 0
      while size < COUNT * SIZE do size = size + #conn:read():take() end
      assert.is_true(done:take())
    end)

    both("lets both ends send at once more than the system buffers", function()
      local COUNT, SIZE = 60, 100000
      local _ <close>, url = serve(function(conn)
        local sending = rn.go(function()
          for _ = 1, COUNT do conn:write(("x"):rep(SIZE)) end
        end)
        for _ = 1, COUNT do conn:read():take() end
        sending:take()
      end)
      local conn <close> = assert(http.websocket(url))
      local sending = rn.go(function()
        for _ = 1, COUNT do conn:write(("y"):rep(SIZE)) end
      end)
      local n = 0
      for _ in conn:read() do n = n + 1 end
      sending:take()
      assert.equal(COUNT, n)
    end)

    both("gets what several go blocks write, each message whole #ci", function()
      local WRITERS, EACH = 20, 30
      local _ <close>, url = serve(function(conn)
        local writers = {}
        for w = 1, WRITERS do
          writers[w] = rn.go(function()
            for i = 1, EACH do conn:write(("%d:%d:"):format(w, i) .. ("x"):rep(10000)) end
          end)
        end
        for _, writer in ipairs(writers) do writer:take() end
      end)
      local conn = assert(http.websocket(url))
      local next_of, n = {}, 0
      for message in conn:read() do
        local w, i, rest = message:match "^(%d+):(%d+):(x*)$"
        assert.equal(10000, #rest)
        assert.equal((next_of[w] or 0) + 1, tonumber(i))
        next_of[w], n = tonumber(i), n + 1
      end
      assert.equal(WRITERS * EACH, n)
    end)

    both("is not ended by the server's limits for requests", function()
      local limit = math.ceil(200 * patience.factor()) -- the upgrade comes before that
      local server <close> = assert(http.serve(0, function(req) echo(req:websocket { ping = false }) end,
        { timeout = limit, idle = limit, header_timeout = limit }))
      local conn <close> = assert(http.websocket((server.url:gsub("^http", "ws")), { ping = false }))
      rn.sleep(2.5 * limit)
      conn:write "still here"
      assert.equal("still here", conn:read():take())
    end)

    it("takes at most 5 KB of Lua's memory, and one go block, while nothing comes", function()
      local dir <close> = process.directory()
      dir:write("server.lua", [[
        local http, rn, uv = require "runnel.http", require "runnel", require "runnel.uv"
        local server = assert(http.serve(0, function(req)
          local conn = assert(req:websocket())
          for message in conn:read() do conn:write(message) end
        end))
        print(server.port)
        io.stdout:flush()
        for _ in uv.lines(0) do
          collectgarbage()
          collectgarbage()
          print(collectgarbage "count" * 1024, #rn.ps())
          io.stdout:flush()
        end]])
      local program = uv.spawn { process.runnel, dir.path .. "/server.lua", stdin = true, stdout = "lines" }
      local server, kept = { port = tonumber(program.stdout:take()) }, {}
      -- Opens so many, over each of which a message goes forth and back. Returns what the server says then.
      local function open(n)
        for _ = 1, n do
          local conn = ask(server)
          conn:write(frames.frame(frames.TEXT, "hello"))
          conn:read():take()
          kept[#kept + 1] = conn
        end
        program.stdin:put "\n"
        local bytes, blocks = program.stdout:take():match "^(%S+)\t(%d+)$"
        return tonumber(bytes), tonumber(blocks)
      end
      open(10)
      local bytes, blocks = open(10)
      local more_bytes, more_blocks = open(50)
      for _, conn in ipairs(kept) do conn:close() end
      program:close()
      assert.equal(50, more_blocks - blocks)
      assert.is_true((more_bytes - bytes) / 50 <= 5000, (more_bytes - bytes) / 50)
    end)

    both("is closed with 1001 by drain, which waits for that; then no new one is accepted", function()
      local server, url = serve(function(conn)
        for message in conn:read() do conn:write(message) end
      end)
      local conns = {}
      for i = 1, 20 do
        conns[i] = assert(http.websocket(url))
        conns[i]:write(tostring(i))
        assert.equal(tostring(i), conns[i]:read():take())
      end
      assert.is_true(server:drain())
      for _, conn in ipairs(conns) do
        local message, err = conn:read():take()
        assert.is_nil(message)
        assert.is_nil(err)
        wait_for(function() return conn.code end)
        assert.equal(1001, conn.code)
      end
    end)

    both("is cut by close of the server; the function is cancelled", function()
      local ended
      local server, url = serve(function(conn)
        local _ <close> = setmetatable({}, { __close = function() ended = true end })
        conn:write "a"
        rn.chan():take()
      end)
      local conn = assert(http.websocket(url))
      assert.equal("a", conn:read():take())
      server:close()
      local message, err = conn:read():take()
      assert.is_nil(message)
      assert.match("without a close frame", err)
      wait_for(function() return ended end)
    end)

    both("that ends leaves nothing: hundreds of them, ended in each way", function()
      local open = 0
      local server <close>, url = serve(function(conn)
        open = open + 1
        for message in conn:read() do
          if message == "stop" then break end
        end
        open = open - 1
      end)
      for i = 1, 300 do
        if i % 3 == 0 then
          local conn = ask(server)
          conn:write(frames.frame(frames.TEXT, "x"):sub(1, i % 8))
          conn:close()
        else
          local conn <close> = assert(http.websocket(url))
          if i % 3 == 1 then conn:write "stop" end
        end
      end
      wait_for(function() return open == 0 end)
    end)
  end)

  -- The other end: Python's websockets.
  local has_python = os.execute "/usr/bin/python3 -c 'import websockets' 2>/dev/null"

  describe("with Python's websockets", function()
    if not has_python then
      pending "python3-websockets is not installed"
      return
    end

    -- What a client does with a server that echoes; it prints "ok" at the end.
    local CLIENT = [[
import asyncio, sys, websockets
async def main(url, compression):
    async with websockets.connect(url, compression=compression, subprotocols=["x", "b"], max_size=None) as ws:
        assert ws.subprotocol == "b"
        for size in (0, 1, 125, 126, 65535, 65536, 500000):
            for message in ("\u20ac" * size, b"\xff" * size):
                await ws.send(message)
                assert await ws.recv() == message
        async def parts():
            for part in ("in", " several ", "frames"):
                yield part
        await ws.send(parts())
        assert await ws.recv() == "in several frames"
        await (await ws.ping(b"payload"))
        await asyncio.gather(*(ws.send(str(i) * 1000) for i in range(100)))
        for i in range(100):
            assert await ws.recv() == str(i) * 1000
        await ws.send("close")
        try:
            await ws.recv()
        except websockets.ConnectionClosed as e:
            assert (e.rcvd.code, e.rcvd.reason) == (4001, "as asked \u263a"), e
            print("ok", end="")
asyncio.run(main(sys.argv[1], sys.argv[2] if sys.argv[2] != "none" else None))
]]

    it("as the client, without and with compression #ci", function()
      local _ <close>, url = serve(function(conn)
        for message in conn:read() do
          if message == "close" then return conn:close(4001, "as asked \u{263A}") end
          conn:write(message)
        end
      end, { protocols = { "a", "b" }, deflate = true, max = 2000000 })
      for _, compression in ipairs { "none", "deflate" } do
        local result = assert(uv.run { "/usr/bin/python3", "-c", CLIENT, url, compression, timeout = patience.most })
        assert.same({ "ok", "" }, { result.stdout, result.stderr })
      end
    end)

    local SERVER = [[
import asyncio, sys, websockets
async def serve(ws):
    async for message in ws:
        if message == "close":
            await ws.close(4002, "closed")
        else:
            await ws.send(message)
async def main():
    async with websockets.serve(serve, "127.0.0.1", 0, compression=sys.argv[1] if sys.argv[1] != "none" else None,
                                ping_interval=0.05, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
]]

    it("as the server, without and with compression", function()
      for _, compression in ipairs { "none", "deflate" } do
        local python <close> = uv.spawn { "/usr/bin/python3", "-c", SERVER, compression, stdin = rn.chan(),
          stdout = "lines" }
        local port = python.stdout:take()
        local conn = assert(http.websocket(("ws://127.0.0.1:%s/"):format(port), { deflate = true, max = 2000000 }))
        for _, size in ipairs { 0, 1, 125, 126, 65535, 65536, 500000 } do
          for _, message in ipairs { ("\u{20AC}"):rep(size), { binary = ("\xFF"):rep(size) } } do
            conn:write(message)
            local answer, err = conn:read():take()
            assert.is_nil(err)
            assert.is_true(answer == message or answer.binary == message.binary)
          end
        end
        rn.sleep(120) -- some of its pings
        conn:write "close"
        local _, err = conn:read():take()
        assert.match("closed it with 4002: closed", err)
      end
    end)
  end)

  -- The other end: clients of node, which are those of npm's packages ws and undici; the latter is also the one that
  -- newer releases of node have by themselves.
  for _, package in ipairs { "ws", "undici" } do
    local has_package = os.execute(("node -e 'require(\"%s\")' 2>/dev/null"):format(package))

    describe("with node's " .. package, function()
      if not has_package then
        pending(("node or its package %s is not installed"):format(package))
        return
      end

      local CLIENT = [[
const { WebSocket } = require(process.argv[1])
const socket = new WebSocket(process.argv[2], ["x", "b"])
socket.binaryType = "arraybuffer"
const sizes = [0, 1, 125, 126, 65535, 65536, 500000], messages = []
for (const size of sizes) messages.push("\u20ac".repeat(size), new Uint8Array(size).fill(255))
let next = 0
socket.onopen = () => { if (socket.protocol == "b") for (const message of messages) socket.send(message) }
socket.onmessage = event => {
  const sent = messages[next++]
  const same = typeof sent == "string" ? event.data === sent
    : Buffer.compare(Buffer.from(event.data), Buffer.from(sent)) == 0
  if (!same) console.log("message", next, "differs")
  if (next == messages.length) socket.send("close")
}
socket.onerror = event => console.log("error", event.message)
socket.onclose = event => console.log(event.code, event.reason, next)
]]

      it("as the client, without and with compression", function()
        for _, deflate in ipairs { false, true } do
          local _ <close>, url = serve(function(conn)
            for message in conn:read() do
              if message == "close" then return conn:close(4001, "as asked") end
              conn:write(message)
            end
          end, { protocols = { "a", "b" }, deflate = deflate, max = 2000000 })
          local result = assert(uv.run { "node", "-e", CLIENT, package, url, timeout = patience.most })
          assert.same({ "4001 as asked 14\n", "" }, { result.stdout, result.stderr })
        end
      end)
    end)
  end
end)
