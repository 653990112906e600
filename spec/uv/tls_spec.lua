-- Connections of uv.connect and uv.listen with TLS. Contexts and sessions without sockets are in spec/tls_spec.lua.

local patience = require "spec.support.patience"
local rn = require "runnel"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv with TLS", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  if not pcall(require, "runnel.tls") then return pending "runnel.tls is not built" end
  local certificates = require "spec.support.tls"
  if not certificates.has "openssl" then return pending "openssl is not installed" end
  local native = require("runnel.internal.tls_options").native
  local tls = require "runnel.tls"
  local uv = require "runnel.uv"

  local folder, path, server, client

  setup(function()
    folder = certificates.folder()
    path = folder.path
    local cert, key = certificates.certify(folder, "both", { names = "DNS:localhost,IP:127.0.0.1" })
    server = assert(tls.server { cert = cert, key = key })
    client = assert(tls.client { ca = path .. "/ca" })
  end)
  teardown(function() folder:remove() end)

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function all(ch)
    local list = {}
    while true do
      local value, err = ch:take()
      if value == nil then return table.concat(list), err end
      list[#list + 1] = value
    end
  end

  local function listen(opts)
    opts = opts or {}
    opts.tls = opts.tls or server
    return assert(uv.listen("127.0.0.1", 0, opts))
  end

  local function connect(port, opts)
    opts = opts or {}
    opts.tls = opts.tls or client
    return uv.connect("127.0.0.1", port, opts)
  end

  -- The two ends of a connection.
  local function pair()
    local conns, port = listen()
    local a = assert(connect(port))
    local b = conns:take()
    conns:close()
    return a, b
  end

  local function echo(conns)
    rn.go(function()
      for conn in conns do
        rn.go(function()
          local served <close> = conn
          for chunk in served:read() do
            if not served:write(chunk) then return end
          end
        end)
      end
    end)
  end

  describe("connections", function()
    it("carry bytes both ways", function()
      local conns, port = listen()
      echo(conns)
      local conn = assert(connect(port))
      for _, text in ipairs { "hello", "", "again\0\n" } do
        assert.is_true(conn:write(text))
        if text ~= "" then assert.equal(text, conn:read():take()) end
      end
      assert.is_true(conn:write(42))
      assert.equal("42", conn:read():take())
      conn:close()
      conns:close()
    end)

    it("give information about TLS, and the addresses", function()
      local a, b = pair()
      local info = a:tls_info()
      assert.same({ "TLSv1.3", "CN=both" }, { info.version, info.peer })
      assert.same({ a:address() }, { b:peer() })
      assert.is_nil(b:tls_info().peer)
      a:close()
      b:close()
      local conns, port = uv.listen("127.0.0.1", 0)
      local plain <close> = assert(uv.connect("127.0.0.1", port))
      assert.is_nil(plain:tls_info())
      conns:close()
    end)

    it("lose no byte of what was written before they were closed, though tickets have not been read", function()
      local text = ("0123456789abcdef"):rep(20000)
      for _ = 1, 20 do
        local conns, port = listen()
        local a = assert(connect(port))
        rn.go(function()
          a:write(text)
          a:close()
        end)
        local b = conns:take()
        conns:close()
        local got, err = all(b:read())
        assert.is_nil(err)
        assert.is_true(got == text)
        b:close()
      end
    end)

    it("carry a megabyte both ways at once, to readers that are slow", function()
      local a, b = pair()
      local text = ("0123456789abcdef"):rep(65536)
      local function send(conn)
        return rn.go(function()
          assert(conn:write(text))
          conn:shutdown()
          return true
        end)
      end
      local function receive(conn)
        return rn.go(function()
          local parts = {}
          for chunk in conn:read() do
            parts[#parts + 1] = chunk
            rn.sleep(1)
          end
          return table.concat(parts)
        end)
      end
      local sent, received = { send(a), send(b) }, { receive(a), receive(b) }
      for i = 1, 2 do
        assert.is_true(sent[i]:take())
        assert.is_true(received[i]:take() == text)
      end
      a:close()
      b:close()
    end)

    it("park the writer until the other end reads", function() uv_stage.park_the_writer(pair()) end)

    it("read no more while nobody takes", function() uv_stage.read_no_more(pair()) end)

    it("write the data of several writers one after the other", function()
      local a, b = pair()
      local done = {}
      for i = 1, 3 do
        done[i] = rn.go(function() return a:write(tostring(i):rep(1000000)) end)
      end
      rn.go(function()
        for i = 1, 3 do done[i]:take() end
        a:close()
      end)
      assert.is_true(("1"):rep(1000000) .. ("2"):rep(1000000) .. ("3"):rep(1000000) == all(b:read()))
      b:close()
    end)

    it("give lines, take a channel to write, and can be shut down for writing only", function()
      local a, b = pair()
      local out = a:writer()
      rn.onto_chan(out, { "one\n", "two\r\n", 3 })
      assert.same({ "one", "two", "3" }, stage.drain(b:lines()))
      assert.same({ false, "it has been shut down" }, { a:write "more" })
      assert.is_true(b:write "answer")
      b:close()
      assert.equal("answer", all(a:read()))
      a:close()
      assert.is_false(out:put "more")
    end)

    it("close with a reason", function()
      local a, b = pair()
      local input = a:read()
      a:close "enough"
      a:close()
      assert.same({ nil, "enough" }, { input:take() })
      assert.same({ false, "enough" }, { a:write "x" })
      assert.same({ "" }, { all(b:read()) })
      b:close()
      assert.same({ false, "it is closed" }, { b:write "x" })
      assert.is_true(b:tls_info() ~= nil)
    end)

    it("close although the other end never reads", function()
      local a, b = pair()
      local writer = rn.go(function() return select(2, a:write(("x"):rep(16 * 1024 * 1024))) end)
      rn.sleep(10)
      a:close()
      assert.equal("it is closed", writer:take())
      b:close()
    end)

    it("are closed in order by a program that ends at once afterwards, without waiting", function()
      local conns, port = listen()
      local script = ([[
        local uv = require "runnel.uv"
        local conn = assert(uv.connect("127.0.0.1", %d, { tls = { ca = %q } }))
        conn:write "last words"
        conn:close()]]):format(port, path .. "/ca")
      local program = rn.go(uv.run, { os.getenv "LUA" or "lua5.4", "-e", script })
      local conn = conns:take()
      conns:close()
      assert.same({ "last words" }, { all(conn:read()) })
      local p = program:take()
      assert.same({ 0, "" }, { p.code, p.stderr })
      conn:close()
    end)

    it("that end without close_notify are errors", function()
      local a, b = pair()
      a:write "a half"
      a.session = nil -- so that it closes as a connection without TLS does
      a:close()
      local text, err = all(b:read())
      assert.equal("a half", text)
      -- A connection with unread bytes, such as tickets of the server, is reset; libuv before 1.53 says that it ended.
      if not err:find "^127.0.0.1:%d+: ECONNRESET" then
        assert.matches("^127.0.0.1:%d+: the connection was cut: it has ended without TLS's close_notify", err)
      end
      b:close()
    end)

    it("are cut once they are unreachable", function()
      local _, b = pair()
      _ = nil
      for _ = 1, 5 do
        collectgarbage()
        rn.sleep(1)
      end
      assert.is_string(select(2, b:read():take()))
      b:close()
    end)

    it("fail if something on the way changes them", function()
      local a, b = pair()
      assert.equal("x", (function()
        a:write "x"
        return b:read():take()
      end)())
      a.handle:write "\23\3\3\0\20aaaaaaaaaaaaaaaaaaaa"
      local _, err = b:read():take()
      assert.matches("^127.0.0.1:%d+: the client has sent bytes that were changed on the way$", err)
      local ok, reason = b:write "x"
      assert.is_false(ok)
      assert.matches("changed on the way", reason)
      _, err = a:read():take()
      assert.matches("the server has received bytes that were changed on the way", err)
      a:close()
      b:close()
    end)

    it("take strings only", function()
      local a, b = pair()
      raises("^write: a string expected, got a table$", function() a:write {} end)
      a:close()
      b:close()
    end)
  end)

  describe("connect", function()
    it("checks the name and the authority of the certificate", function()
      local conns, port = listen()
      local function refused(pattern, host, opts)
        local conn, err = uv.connect(host, port, { tls = opts })
        assert.is_nil(conn)
        assert.matches("^" .. host .. ":" .. port .. ": " .. pattern, err)
      end
      refused("the certificate is for localhost, 127.0.0.1, not for example.org$", "127.0.0.1",
        { ca = path .. "/ca", name = "example.org" })
      refused("the certificate of 127.0.0.1 is signed by CN=authority, which is not among", "127.0.0.1", true)
      local conn <close> = assert(uv.connect("127.0.0.1", port, { tls = { insecure = true } }))
      assert.is_nil(conn:tls_info().peer)
      conns:close()
    end)

    it("returns the error of a file", function()
      assert.same({ nil, "cannot read /none: No such file or directory" },
        { uv.connect("127.0.0.1", 1, { tls = { ca = "/none" } }) })
      assert.same({ nil, "cannot read /none: No such file or directory" },
        { uv.listen("127.0.0.1", 0, { tls = { cert = "/none", key = "/none" } }) })
    end)

    it("gives up in time if the server does not answer", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local start = rn.now()
      local conn, err = connect(port, { timeout = 200 })
      assert.is_true(rn.now() - start < 9000) -- 10 s is the default
      assert.is_nil(conn)
      assert.equal(("127.0.0.1:%d: ETIMEDOUT: the TLS handshake has not ended in time"):format(port), tostring(err))
      conns:close()
    end)

    it("fails if the server closes the connection, or does not speak TLS", function()
      local conns, port = uv_stage.serve(function(conn) conn:read():take() end)
      assert.same({ nil, ("127.0.0.1:%d: the other end has closed the connection during the handshake"):format(port) },
        { connect(port) })
      conns:close()
      conns, port = uv_stage.serve(function(conn) conn:write "220 mail.example.org ready\r\n" end)
      assert.same({ nil, ("127.0.0.1:%d: the server does not speak TLS"):format(port) }, { connect(port) })
      conns:close()
    end)

    it("leaves nothing behind when it is cancelled during the handshake", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local connecting = rn.go(connect, port)
      local conn = conns:take()
      conn:read():take() -- the beginning of the handshake
      rn.cancel(connecting)
      assert.is_nil(conn:read():take())
      conn:close()
      conns:close()
    end)

    it("needs a name of the server for a Unix socket", function()
      local where = uv_stage.path()
      local conns = assert(uv.listen(where, nil, { tls = server }))
      local conn, err = uv.connect(where, nil, { tls = client })
      assert.is_nil(conn)
      assert.equal(where .. ": the name that the server's certificate must be for is missing (option name)", err)
      conn = assert(uv.connect(where, nil, { tls = { ca = path .. "/ca", name = "localhost" } }))
      assert.is_true(conn:write "x")
      local served
      repeat served = conns:take() until served
      assert.equal("x", served:read():take())
      conn:close()
      served:close()
      conns:close()
    end)
  end)

  describe("listen", function()
    it("lets no slow client delay the others, and ends its handshake in time", function()
      local failed = rn.chan(10)
      local conns, port = listen { timeout = 1000, failed = function(err) failed:put(err) end }
      local silent = {}
      for i = 1, 5 do silent[i] = assert(uv.connect("127.0.0.1", port)) end
      silent[1]:write "\22\3\1"
      echo(conns)
      for _ = 1, 3 do
        local conn <close> = assert(connect(port))
        conn:write "x"
        assert.equal("x", conn:read():take())
      end
      local start = rn.now()
      for i = 1, 5 do
        assert.matches("^127.0.0.1:%d+: ETIMEDOUT: the TLS handshake has not ended in time$", failed:take())
        assert.is_nil(silent[i]:read():take())
        silent[i]:close()
      end
      assert.is_true(rn.now() - start < 9000)
      conns:close()
    end)

    it("goes on after clients that do not speak TLS, and reports them", function()
      local failed = rn.chan(10)
      local conns, port = listen { failed = function(err) failed:put(err) end }
      echo(conns)
      for text, expected in pairs {
        ["GET / HTTP/1.1\r\n\r\n"] = "the client speaks HTTP without TLS",
        ["\1\2\3\4\5\6\7\8"] = "the client does not speak TLS",
        [""] = "the other end has closed the connection during the handshake",
      } do
        local conn = assert(uv.connect("127.0.0.1", port))
        conn:write(text)
        conn:shutdown()
        all(conn:read())
        conn:close()
        assert.matches("^127.0.0.1:%d+: " .. expected .. "$", failed:take())
      end
      local conn <close> = assert(connect(port))
      conn:write "x"
      assert.equal("x", conn:read():take())
      conns:close()
    end)

    it("reports an error of the function failed, and goes on", function()
      local conns, port = listen { failed = function() error "oops" end }
      for _ = 1, 2 do
        local conn = assert(uv.connect("127.0.0.1", port))
        conn:shutdown()
        all(conn:read())
        conn:close()
      end
      conns:close()
      rn.run()
      local heard = stage.heard()
      assert.equal(2, #heard)
      assert.matches("oops", heard[1].err)
    end)

    it("closes connections that are still in the handshake", function()
      local conns, port = listen()
      local conn = assert(uv.connect("127.0.0.1", port))
      conn:write "\22\3\1"
      rn.sleep(10)
      conns:close()
      assert.is_nil(conn:read():take())
      conn:close()
    end)

    it("accepts more connections than it keeps, as they are taken", function()
      local conns, port = listen()
      local clients = {}
      for i = 1, 100 do clients[i] = rn.go(connect, port) end
      for _ = 1, 100 do conns:take():close() end
      for _, block in ipairs(clients) do assert(block:take()):close() end
      conns:close()
    end)

    it("does not keep run waiting while nobody takes its connections", function()
      local conns, port = listen()
      local clients = {}
      for i = 1, 65 do clients[i] = assert(connect(port)) end -- one more than are kept
      rn.run()
      for _, one in ipairs(clients) do one:close() end
      conns:close()
    end)

    it("gives a connection all bytes that arrived with the handshake, and its end", function()
      local conns, port = listen()
      local raw = assert(uv.connect("127.0.0.1", port))
      local session = native.session(client, "localhost")
      session:receive ""
      raw:write(session:take())
      while session:state() == "shaking" do session:receive(raw:read():take()) end
      raw:write(session:take() .. session:send "early" .. session:finish())
      local conn = conns:take()
      rn.sleep(1)
      assert.same({ "early" }, { all(conn:read()) })
      assert.is_true(conn:write "late")
      local text
      repeat text = session:receive(raw:read():take()) until text
      assert.equal("late", text)
      conn:close()
      raw:close()
      conns:close()
    end)

    it("shows the new certificate after a reload", function()
      folder:write("now", folder:read "cert")
      folder:write("now_key", folder:read "key")
      local context = assert(tls.server { cert = path .. "/now", key = path .. "/now_key" })
      local conns, port = listen { tls = context }
      echo(conns)
      local opts = { ca = path .. "/ca", name = "localhost" }
      local before <close> = assert(connect(port, { tls = opts }))
      assert.equal("CN=localhost", before:tls_info().peer)
      folder:write("now", folder:read "both")
      folder:write("now_key", folder:read "both_key")
      assert.is_true(context:reload())
      local after <close> = assert(connect(port, { tls = opts }))
      assert.equal("CN=both", after:tls_info().peer)
      before:write "x"
      assert.equal("x", before:read():take())
      conns:close()
    end)
  end)

  it("reads no more while the other end does not read what the session answers", function()
    local conns, port = uv.listen("127.0.0.1", 0)
    local a = assert(uv.connect("127.0.0.1", port))
    local b = conns:take()
    conns:close()
    local answered, size = 0, 300000
    a.session = { -- one that answers everything
      receive = function(_, bytes) return bytes end,
      take = function()
        answered = answered + size
        return ("x"):rep(size)
      end,
      finish = function() end, state = function() return "ready" end,
    }
    local got = 0
    local reading = rn.go(function()
      for chunk in a:read() do got = got + #chunk end
    end)
    for _ = 1, 150 do
      b:write "x"
      rn.sleep(1)
    end
    assert.is_true(got < 150)
    assert.is_true(a.handle:get_write_queue_size() < 3 * size)
    local back = 0
    local taking = rn.go(function()
      for chunk in b:read() do back = back + #chunk end
    end)
    patience.wait_for(function() return got == 150 and back == answered end)
    a.session = nil -- no end of a session will come
    b:close()
    reading:take()
    a:close()
    taking:take()
  end)

  describe("start_tls", function()
    -- The two ends of a plain connection after one has asked for TLS.
    local function plain_pair()
      local conns, port = uv.listen("127.0.0.1", 0)
      local a = assert(uv.connect("127.0.0.1", port))
      local b = conns:take()
      conns:close()
      a:write "STARTTLS\n"
      assert.equal("STARTTLS\n", b:read():take())
      b:write "go on\n"
      assert.equal("go on\n", a:read():take())
      return a, b
    end

    it("begins TLS on a connection; its channels go on", function()
      local a, b = plain_pair()
      local input = b:read()
      local served = rn.go(function() return b:start_tls(server) end)
      assert.is_true(a:start_tls(client))
      assert.is_true(served:take())
      a:write "secret"
      assert.equal("secret", input:take())
      b:write "answer"
      b:close()
      assert.equal("answer", all(a:read()))
      a:close()
    end)

    it("begins TLS on a connection whose lines were read; they go on", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local a = assert(uv.connect("127.0.0.1", port))
      local b = conns:take()
      conns:close()
      local lines = b:lines()
      a:write "STARTTLS\n"
      assert.equal("STARTTLS", lines:take())
      local served = rn.go(function() return b:start_tls(server) end)
      assert.is_true(a:start_tls(client))
      assert.is_true(served:take())
      a:write "one\ntwo\nthree"
      assert.equal("one", lines:take())
      a:close()
      assert.equal("two\nthree", all(b:read()))
      b:close()
    end)

    it("refuses lines that were sent with the one that asks for it", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      local a = assert(uv.connect("127.0.0.1", port))
      local b = conns:take()
      conns:close()
      a:write "STARTTLS\nsmuggled\n"
      assert.equal("STARTTLS", b:lines():take())
      local ok, err = b:start_tls(server)
      assert.is_false(ok)
      assert.matches("earlier input was not taken, and it was not encrypted", err)
      a:close()
    end)

    it("refuses what was sent before it, without encryption", function()
      local a, b = plain_pair()
      a:write "smuggled"
      rn.sleep(20)
      local ok, err = b:start_tls(server)
      assert.is_false(ok)
      assert.matches("earlier input was not taken, and it was not encrypted", err)
      assert.is_nil((a:read():take()))
      a:close()
    end)

    it("closes the connection if the handshake fails", function()
      local a, b = plain_pair()
      local served = rn.go(function() return b:start_tls(server) end)
      local ok, err = a:start_tls { ca = path .. "/client" }
      assert.is_false(ok)
      assert.matches("is not among the trusted", err)
      assert.same({ false, err }, { a:write "x" })
      assert.is_false(served:take())
      b:close()
    end)

    it("ends if the connection is closed during the handshake", function()
      local a, b = plain_pair()
      local started = rn.go(function() return { a:start_tls(client, { timeout = 60000 }) } end)
      assert.is_string(b:read():take()) -- the handshake waits for an answer
      local closed = rn.now()
      a:close "enough"
      assert.same({ false, "enough" }, started:take())
      assert.is_true(rn.now() - closed < 30000)
      b:close()
    end)

    it("is refused twice, and with wrong options", function()
      local a, b = pair()
      raises("^start_tls: the connection has TLS already$", function() a:start_tls(client) end)
      raises('^start_tls: unknown option "time"; known: timeout$', function() a:start_tls(client, { time = 1 }) end)
      raises("^start_tls: tls: true, .* expected, got nothing$", function() a:start_tls() end)
      a:close()
      b:close()
    end)
  end)

  describe("openssl", function()
    it("as a client is served", function()
      local conns, port = listen()
      rn.go(function()
        for conn in conns do
          conn:write(conn:read():take())
          conn:close()
        end
      end)
      for _, version in ipairs { "-tls1_2", "-tls1_3" } do
        local p = uv.run({ "openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", path .. "/ca",
          "-servername", "localhost", "-verify_hostname", "localhost", version, "-connect", "127.0.0.1:" .. port,
          stdin = rn.to_chan { "hello\n" }, timeout = 20000 })
        assert.equal("hello\n", p.stdout)
      end
      local p = uv.run { "openssl", "s_client", "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0",
        "-connect", "127.0.0.1:" .. port, timeout = 20000 }
      assert.is_true(p.code ~= 0)
      assert.matches("alert protocol version", p.stderr)
      conns:close()
    end)

    it("as a client resumes its session, but not after a reload", function()
      local context = assert(tls.server { cert = path .. "/cert", key = path .. "/key" })
      local conns, port = listen { tls = context }
      rn.go(function()
        for conn in conns do
          conn:read():take()
          conn:write(tostring(conn:tls_info().resumed))
          conn:close()
        end
      end)
      for _, version in ipairs { "-tls1_2", "-tls1_3" } do
        local function connects(option)
          return uv.run({ "openssl", "s_client", "-quiet", "-CAfile", path .. "/ca", version,
            option, path .. "/session", "-connect", "127.0.0.1:" .. port,
            stdin = rn.to_chan { "x" }, timeout = 20000 }).stdout
        end
        assert.equal("false", connects "-sess_out")
        assert.equal("true", connects "-sess_in")
        assert.is_true(context:reload())
        assert.equal("false", connects "-sess_in")
      end
      conns:close()
    end)

    it("as a server is used", function()
      for _, version in ipairs { "-tls1_2", "-tls1_3" } do
        local port, program <close> = certificates.serve( -- luacheck: ignore 211
          certificates.s_server(folder, version))
        local conn <close> = assert(uv.connect("127.0.0.1", port, {
          tls = { ca = folder.path .. "/ca", name = "localhost" },
        }))
        assert.equal(version == "-tls1_2" and "TLSv1.2" or "TLSv1.3", conn:tls_info().version)
        conn:write "GET / HTTP/1.0\r\n\r\n"
        local text, err = all(conn:read())
        assert.is_nil(err)
        assert.matches("</HTML>", text)
      end
    end)
  end)

  it("refuses wrong options at the caller's line", function()
    raises("^connect: tls: true, a table of options or a context of tls.client expected, got 3$",
      function() uv.connect("localhost", 1, { tls = 3 }) end)
    raises('^connect: tls: unknown option "host"; known: .*; did you mean name%?$',
      function() uv.connect("localhost", 1, { tls = { host = "x" } }) end)
    raises("^connect: tls: a context of a client expected, got one of a server$",
      function() uv.connect("localhost", 1, { tls = server }) end)
    raises("^listen: tls: { cert = a file, key = a file } or a context of tls.server expected, got true$",
      function() uv.listen("127.0.0.1", 0, { tls = true }) end)
    raises("^listen: tls: a context of a server expected, got one of a client$",
      function() uv.listen("127.0.0.1", 0, { tls = client }) end)
    raises("^listen: timeout is for connections with TLS %(option tls%)$",
      function() uv.listen("127.0.0.1", 0, { timeout = 1 }) end)
    raises("^listen: failed: a function expected, got a number; pass the function itself",
      function() uv.listen("127.0.0.1", 0, { tls = server, failed = 1 }) end)
    raises("^listen: timeout: a number of milliseconds, at least 1, expected, got 0$",
      function() uv.listen("127.0.0.1", 0, { tls = server, timeout = 0 }) end)
    assert.is_function(luv.version)
  end)
end)
