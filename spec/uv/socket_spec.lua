-- uv.listen, uv.connect, uv.resolve, and the connections.

local both = require "spec.support.in_world"(it)
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  local has_localhost = luv.getaddrinfo "localhost" ~= nil -- it has none without /etc/hosts

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function all(ch) return table.concat(stage.drain(ch)) end

  local server = uv_stage.serve

  local function echo(conn)
    for chunk in conn:read() do
      if not conn:write(chunk) then return end
    end
  end

  -- The two ends of a connection.
  local function pair()
    local conns, port = uv.listen("127.0.0.1", 0)
    local a = assert(uv.connect("127.0.0.1", port))
    local b = conns:take()
    conns:close()
    return a, b
  end

  describe("connections", function()
    both("carry bytes both ways", function()
      local conns, port = server(echo)
      local conn = assert(uv.connect("127.0.0.1", port))
      for _, text in ipairs { "hello", "", "again\0\n" } do
        assert.is_true(conn:write(text))
        if text ~= "" then assert.equal(text, conn:read():take()) end
      end
      assert.is_true(conn:write(42))
      assert.equal("42", conn:read():take())
      conn:close()
      conns:close()
    end)

    both("can be made to a host name", function()
      if not has_localhost then return pending "localhost has no address on this machine" end
      local conns, port = server(echo)
      local conn <close> = assert(uv.connect("localhost", port, { timeout = 5000 }))
      assert.is_true(conn:write "x")
      assert.equal("x", conn:read():take())
      conns:close()
    end)

    both("know both addresses", function()
      local a, b = pair()
      local ip, port = a:peer()
      assert.equal("127.0.0.1", ip)
      assert.same({ ip, port }, { b:address() })
      assert.same({ a:address() }, { b:peer() })
      a:close()
      b:close()
      assert.is_nil(a:peer())
      assert.is_nil(a:address())
    end)

    it("lose no byte of a large transfer", function()
      local a, b = pair()
      local text = ("0123456789abcdef"):rep(65536 * 4)
      local sent = rn.go(function()
        local ok = a:write(text)
        a:close()
        return ok
      end)
      assert.equal(text, all(b:read()))
      assert.is_true(sent:take())
      b:close()
    end)

    both("park the writer until the other end reads", function() uv_stage.park_the_writer(pair()) end)

    it("read no more while nobody takes", function() uv_stage.read_no_more(pair()) end)

    it("write the data of several writers one after the other", function()
      local a, b = pair()
      local done = {}
      for i = 1, 5 do
        done[i] = rn.go(function() return a:write(tostring(i):rep(3000000)) end)
      end
      local runs = {}
      rn.go(function()
        for i = 1, 5 do done[i]:take() end
        a:close()
      end)
      local total = 0
      for chunk in b:read() do
        total = total + #chunk
        local from = 1
        while from do
          local digit = chunk:sub(from, from)
          if runs[#runs] ~= digit then runs[#runs + 1] = digit end
          from = chunk:find("[^" .. digit .. "]", from)
        end
      end
      assert.equal(15000000, total)
      assert.same({ "1", "2", "3", "4", "5" }, runs)
      b:close()
    end)

    both("give lines", function()
      local a, b = pair()
      rn.go(function()
        for byte in ("one\ntwo\n\nend"):gmatch "." do
          a:write(byte)
          rn.yield()
        end
        a:close()
      end)
      assert.same({ "one", "two", "", "end" }, stage.drain(b:lines()))
      assert.equal(b:lines(), b:lines())
      b:close()
    end)

    both("give lines without \\r\\n, and close with an error if a line is too long", function()
      local a, b = pair()
      local lines = b:lines { max = 1000 }
      a:write "GET / HTTP/1.1\r\nHost: x\r"
      a:write "\n\r\n"
      assert.same({ "GET / HTTP/1.1", "Host: x", "" }, { lines:take(), lines:take(), lines:take() })
      rn.go(function()
        while a:write(("x"):rep(10000)) do end
      end)
      local value, err = lines:take()
      assert.is_nil(value)
      assert.matches(": a line is longer than 1000 bytes; the option max allows longer ones$", err)
      b:close()
      a:close()
    end)

    it("keep little of a line that never ends", function()
      local a, b = pair()
      local lines = b:lines()
      rn.go(function()
        while a:write(("x"):rep(1000000)) do end
      end)
      assert.matches("longer than 1048576 bytes", select(2, lines:take()))
      collectgarbage()
      collectgarbage()
      assert.is_true(collectgarbage "count" < 64 * 1024)
      b:close()
      a:close()
    end)

    both("reject unknown options of lines at the caller's line", function()
      local a, b = pair()
      local _, err = pcall(function() a:lines { longest = 1 } end)
      assert.equal(stage.here(-1) .. ': lines: unknown option "longest"; known: max', err)
      a:close()
      b:close()
    end)

    both("can be shut down for writing only", function()
      local a, b = pair()
      a:write "question"
      a:shutdown()
      a:shutdown()
      assert.same({ false, "it has been shut down" }, { a:write "more" })
      assert.equal("question", all(b:read()))
      assert.is_true(b:write "answer")
      b:close()
      assert.equal("answer", all(a:read()))
      a:close()
    end)

    both("can be written to through a channel, whose close ends the writing", function()
      local a, b = pair()
      local out = a:writer()
      assert.equal(out, a:writer())
      rn.onto_chan(out, { "a", "b", 3 })
      assert.equal("ab3", all(b:read()))
      b:write "x"
      b:close()
      assert.equal("x", all(a:read()))
      a:close()
      assert.is_false(out:put "more")
    end)

    both("write all values of that channel before they shut down", function()
      local a, b = pair()
      local out = a:writer()
      rn.go(function() for i = 1, 3 do out:put(i) end a:shutdown() end)
      assert.equal("123", all(b:read()))
      a:close()
      b:close()
    end)

    both("can be connected by rn.pipe", function()
      local a1, b1 = pair()
      local a2, b2 = pair()
      rn.pipe(b1:read(), a2:writer())
      rn.pipe(a2:read(), b1:writer())
      rn.go(function()
        echo(b2)
        b2:shutdown()
      end)
      a1:write "through"
      assert.equal("through", a1:read():take())
      a1:shutdown()
      assert.is_nil(a1:read():take())
      for _, conn in ipairs { a1, b1, a2, b2 } do conn:close() end
    end)

    both("can be read onto one channel, whose close ends the reading of both", function()
      local a1, b1 = pair()
      local a2, b2 = pair()
      local ch = rn.chan()
      assert.equal(ch, b1:read(ch))
      assert.equal(ch, b2:read(ch))
      a1:write "one"
      assert.equal("one", ch:take())
      a2:write "two"
      assert.equal("two", ch:take())
      assert.is_true(b1.reading and b2.reading)
      ch:close()
      assert.is_false(b1.reading or b2.reading)
      for _, conn in ipairs { a1, b1, a2, b2 } do conn:close() end
    end)

    both("cannot be read onto a closed channel: what comes in is for the next one", function()
      local a, b = pair()
      local closed = rn.chan()
      closed:close()
      for _ = 1, 2 do
        assert.equal(closed, b:read(closed))
        a:write "one "
        a:write "line\n"
        assert.equal("one line", b:lines():take())
        assert.equal(closed, b:read(closed))
      end
      a:write "more"
      assert.equal("more", b:read():take())
      for _, wrong in ipairs { 1, "ch", {} } do
        local _, err = pcall(function() b:read(wrong) end)
        assert.matches("socket_spec.lua:%d+: read: channel: a channel expected, got a ", err)
      end
      a:close()
      assert.is_nil(b:read():take())
      b:close()
    end)

    both("close with a reason", function()
      local a, b = pair()
      local input = a:read()
      a:close "enough"
      a:close()
      assert.same({ nil, "enough" }, { input:take() })
      assert.same({ false, "enough" }, { a:write "x" })
      assert.same({ nil, "enough" }, { a:read():take() })
      assert.is_nil(b:read():take())
      assert.is_false(a:writer():put "x")
      b:close()
      assert.same({ false, "it is closed" }, { b:write "x" })
    end)

    both("closed before they were read have nothing to read", function()
      local a, b = pair()
      a:close()
      assert.same({ nil, "it is closed" }, { a:read():take() })
      b:close()
    end)

    it("are closed once they are unreachable", function()
      local _, b = pair()
      _ = nil
      for _ = 1, 5 do
        collectgarbage()
        rn.sleep(1)
      end
      assert.is_nil(b:read():take())
      b:close()
    end)

    both("take strings only", function()
      local a, b = pair()
      for _, bad in ipairs { {}, true, print } do
        local _, err = pcall(function() a:write(bad) end)
        assert.matches("^spec/uv/socket_spec.lua:%d+: write: a string expected, got a " .. type(bad), err)
      end
      assert.error_matches(function() a:write() end, "write: a string expected, got nothing")
      a:close()
      b:close()
    end)
  end)

  describe("Unix sockets", function()
    it("are addressed by paths", function()
      local path = uv_stage.path()
      local conns, where = uv.listen(path, nil, { mode = tonumber("600", 8) })
      assert.equal(path, where)
      assert.equal(tonumber("600", 8), luv.fs_stat(path).mode & tonumber("777", 8))
      rn.go(function()
        local served <close> = conns:take()
        echo(served)
      end)
      local conn = assert(uv.connect(path))
      assert.is_true(conn:write "x")
      assert.equal("x", conn:read():take())
      conn:shutdown()
      assert.is_nil(conn:read():take())
      conn:close()
      conns:close()
      rn.run()
      assert.is_nil(luv.fs_stat(path))
    end)

    both("have the path as the listening end's address; the client has none", function()
      local path = uv_stage.path()
      os.remove(path)
      local conns <close> = assert(uv.listen(path))
      local conn <close> = assert(uv.connect(path))
      local served <close> = conns:take()
      assert.same({ path, n = 1 }, table.pack((conn:peer())))
      assert.same({ path, n = 1 }, table.pack((served:address())))
      assert.same({ n = 2 }, table.pack((conn:address()), (served:peer())))
    end)

    both("refuse a connection when nobody listens", function()
      local path = uv_stage.path()
      assert.same({ nil, path .. ": ENOENT: no such file or directory" }, { uv.connect(path) })
      assert.matches("ENAMETOOLONG", select(2, uv.connect(("x"):rep(1000))))
      local _, err = uv.listen "/no/such/dir/socket"
      assert.matches("^/no/such/dir/socket: E", err)
    end)
  end)

  describe("listen", function()
    both("returns nil and the error if it cannot listen", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local message = ("127.0.0.1:%d: EADDRINUSE: address already in use"):format(port)
      assert.same({ n = 2, nil, message }, table.pack(uv.listen("127.0.0.1", port)))
      conns:close()
      conns, port = uv.listen("127.0.0.1", port) -- at once again
      assert.is_truthy(port)
      conns:close()
    end)

    both("closes connections that nobody takes", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local clients = {}
      for i = 1, 80 do clients[i] = assert(uv.connect("127.0.0.1", port)) end
      rn.sleep(5)
      conns:close()
      for _, client in ipairs(clients) do
        local value = client:read():take() -- the end, or an error
        assert.is_nil(value)
        client:close()
      end
    end)

    both("accepts more connections than it keeps, as they are taken", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local clients = {}
      for i = 1, 150 do clients[i] = assert(uv.connect("127.0.0.1", port)) end
      for _ = 1, 150 do conns:take():close() end
      for _, client in ipairs(clients) do client:close() end
      conns:close()
    end)

    it("does not keep run waiting while nobody takes its connections", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local clients = {}
      for i = 1, 80 do clients[i] = assert(uv.connect("127.0.0.1", port)) end
      rn.run()
      for _, client in ipairs(clients) do client:close() end
      conns:close()
    end)
  end)

  describe("connect", function()
    it("reports why it cannot connect", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      conns:close()
      rn.run()
      assert.same({ nil, ("127.0.0.1:%d: ECONNREFUSED: connection refused"):format(port) },
        { uv.connect("127.0.0.1", port) })
      assert.matches("^no.such.host.invalid: EAI_", select(2, uv.connect("no.such.host.invalid", 80)))
      assert.matches("999", select(2, uv.connect("999.9.9.9", 80)))
    end)

    it("gives up in time", function()
      -- a listener whose queue is full does not answer
      local listener = luv.new_tcp()
      listener:bind("127.0.0.1", 0)
      listener:listen(0, function() end)
      local port = listener:getsockname().port
      local conns, timed_out = {}, nil
      for i = 1, 10 do
        local conn, err = uv.connect("127.0.0.1", port, { timeout = 30 })
        if not conn then
          timed_out = err
          break
        end
        conns[i] = conn
      end
      assert.equal(("127.0.0.1:%d: ETIMEDOUT: connection timed out"):format(port), tostring(timed_out))
      for _, conn in ipairs(conns) do conn:close() end
      listener:close()
    end)

    both("leaves nothing behind when it is cancelled", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local connecting = rn.go(uv.connect, "127.0.0.1", port)
      rn.yield()
      rn.cancel(connecting)
      conns:close()
    end)
  end)

  describe("a peer", function()
    it("that resets the connection closes the channel with that error", function()
      local a, b = pair()
      local input = a:read()
      b.handle:close_reset(function() end)
      b.handle = nil
      local value, err = input:take()
      assert.is_nil(value)
      assert.equal("ECONNRESET: connection reset by peer", err:match "ECONN.*")
      local ok, reason = a:write "x"
      assert.is_false(ok)
      assert.is_string(reason)
      a:close()
    end)

    it("that resets the connection ends a waiting write", function()
      local a, b = pair()
      local writer = rn.go(function() return select(2, a:write(("x"):rep(16 * 1024 * 1024))) end)
      rn.sleep(10)
      b.handle:close_reset(function() end)
      b.handle = nil
      assert.matches("ECONNRESET", writer:take())
      a:close()
    end)

    both("that never reads does not keep the connection from being closed", function()
      local a, b = pair()
      local writer = rn.go(function() return select(2, a:write(("x"):rep(16 * 1024 * 1024))) end)
      rn.sleep(10)
      a:close()
      assert.equal("it is closed", writer:take())
      b:close()
    end)

    it("that has disconnected is an error, and does not end the program", function()
      local a, b = pair()
      b:close()
      rn.run()
      local ok, err
      repeat
        ok, err = a:write "x"
        rn.sleep(1)
      until not ok
      assert.matches("EPIPE: broken pipe$", err)
      a:close()
    end)
  end)

  both("resolves names", function()
    if not has_localhost then return pending "localhost has no address on this machine" end
    local addresses = stage.drain(uv.resolve "localhost")
    assert.is_true(#addresses >= 1)
    for _, address in ipairs(addresses) do assert.matches("^[%d.:a-f]+$", address) end
    assert.equal("127.0.0.1", uv.resolve("127.0.0.1"):take())
    local none, err = uv.resolve("no.such.host.invalid"):take()
    assert.is_nil(none)
    assert.matches("^no.such.host.invalid: EAI_", err)
    uv.resolve("localhost"):close()
  end)

  both("names channels after the other end", function()
    local clients, port = assert(uv.listen("127.0.0.1", 0))
    local conn <close> = assert(uv.connect("127.0.0.1", port))
    local client <close> = clients:take()
    clients:close()
    assert.equal(("%s:%d"):format(client:peer()), client:lines():name())
    assert.equal("127.0.0.1:" .. port, conn:writer():name())
  end)

  both("rejects invalid hosts and ports", function()
    for message, f in pairs {
      ["connect: a host, or the path of a Unix socket, expected, got nothing"] = function() uv.connect() end,
      ['connect: a host, .*, expected, got ""'] = function() uv.connect "" end,
      ["connect: port: an integer from 0 to 65535 .*, got 70000"] = function() uv.connect("localhost", 70000) end,
      ["connect: unknown option \"time\""] = function() uv.connect("localhost", 1, { time = 1 }) end,
      ["connect: timeout: a number of ms .*, got x"] = function() uv.connect("localhost", 1, { timeout = "x" }) end,
      ["listen: a host, .*, expected, got a number"] = function() uv.listen(80) end,
      ["listen: port: an integer from 0 to 65535 .*, got 80"] = function() uv.listen("localhost", "80") end,
      ["listen: port: an integer .*, got nothing; the Unix socket is ./127.0.0.1"] = function()
        uv.listen("127.0.0.1", tonumber "none")
      end,
      ["connect: port: an integer .*, got nothing"] = function() uv.connect "localhost" end,
      ["connect: port: an integer .*, got nothing; .* ./::1"] = function() uv.connect "::1" end,
      ["listen: mode: an integer"] = function() uv.listen("x", nil, { mode = "600" }) end,
      ["listen: mode is for the path of a Unix socket, and there is a port"] = function()
        uv.listen("127.0.0.1", 0, { mode = 384 })
      end,
      ["resolve: the name of a host expected, got nothing"] = function() uv.resolve() end,
    } do
      local _, err = pcall(f)
      assert.matches("^spec/uv/socket_spec.lua:%d+: " .. message, err)
    end
  end)

  it("serves a thousand at a time", function()
    local conns, port = server(echo)
    local n, failed = 1000, 0
    local finished = rn.chan()
    for i = 1, n do
      rn.go(function()
        local conn = uv.connect("127.0.0.1", port)
        if not conn then
          failed = failed + 1
          return finished:put(false)
        end
        local text, got = ("%-99d;"):format(i), ""
        for _ = 1, 3 do
          if not conn:write(text) then break end
          local expected = #got + 100
          while #got < expected do
            local chunk = conn:read():take()
            if not chunk then break end
            got = got .. chunk
          end
        end
        if got ~= text:rep(3) then failed = failed + 1 end
        conn:close()
        finished:put(true)
      end)
    end
    for _ = 1, n do finished:take() end
    assert.equal(0, failed)
    conns:close()
  end)
end)
