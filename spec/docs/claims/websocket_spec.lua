-- What the documents say of WebSockets and TLS.

local rn = require "runnel"
local http = require "runnel.http"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local claims = require "spec.support.docs.claims"
local missing = require "spec.support.missing"
local no_websocket, no_tls = missing "luv runnel.websocket.core", missing "luv runnel.tls"
local uv = not missing "luv" and require "runnel.uv"
local tls = not no_tls and require "runnel.tls"
local claim = claims(no_websocket and pending or it, no_websocket)
local claim_tls = claims(no_tls and pending or it, no_tls)

-- Calls f with both ends of a WebSocket: f(client, server_end).
local function with_pair(f, opts, server_opts)
  local ends, finished = rn.chan(1), rn.chan()
  local server <close> = assert(http.serve(0, function(req)
    local conn, err, status, headers = req:websocket(server_opts)
    if not conn then return status, headers, err end
    ends:put(conn)
    finished:take()
  end))
  local client = assert(http.websocket("ws://127.0.0.1:" .. server.port .. "/", opts))
  f(client, ends:take())
  finished:close()
  client:close()
end

describe("the documents say of WebSockets", function()
  claim("a text message is a string, a binary one a table `{ binary = bytes }`", function()
    with_pair(function(client, other)
      client:write "text"
      client:write { binary = "\0\xff" }
      assert.same({ "text", { binary = "\0\xff" } }, { other:read():take(), other:read():take() })
      assert.is_false(pcall(function() assert(client:write "\xff") end)) -- is not UTF-8
    end)
  end)

  claim("Closes the connection, with the code 1000 or another one, and a reason of at most 123 bytes.", function()
    with_pair(function(client, other)
      client:close()
      assert.is_nil(other:read():take())
      assert.equal(1000, other.code)
    end)
    with_pair(function(client, other)
      raises("123", function() client:close(4000, ("x"):rep(124)) end)
      client:close(4000, ("x"):rep(123))
      local message, err = other:read():take()
      assert.is_nil(message)
      assert.is_not_nil(err)
      assert.same({ 4000, ("x"):rep(123) }, { other.code, other.reason })
    end)
  end)

  claim("a longer one ends the connection with 1009", function()
    with_pair(function(client, other)
      client:write(("x"):rep(1048576))
      assert.equal(1048576, #other:read():take())
      client:write(("x"):rep(1048577))
      assert.is_nil((other:read():take()))
      assert.is_nil((client:read():take()))
      assert.equal(1009, client.code)
    end)
  end)

  claim("A server closes the connection when the function that has called `req:websocket()` ends: with 1000, or with "
    .. "1011 if it raises an error, which is reported.", function()
    local reported
    local before = rn.on_error(function(err) reported = tostring(err) end)
    local server <close> = assert(http.serve(0, function(req)
      assert(req:websocket())
      if req.path == "/error" then error "why" end
    end))
    for path, code in pairs { ["/"] = 1000, ["/error"] = 1011 } do
      local client = assert(http.websocket("ws://127.0.0.1:" .. server.port .. path))
      client:read():take()
      assert.equal(code, client.code)
    end
    rn.on_error(before)
    assert.matches("why", reported)
  end)

  claim("`server:drain()` closes all connections with 1001 and waits for that", function()
    local server <close> = assert(http.serve(0, function(req)
      local conn = assert(req:websocket())
      for _ in conn:read() do end
    end))
    local client = assert(http.websocket("ws://127.0.0.1:" .. server.port .. "/"))
    local drained = rn.go(server.drain, server)
    assert.is_nil((client:read():take()))
    assert.equal(1001, client.code)
    assert.is_true(drained:take())
  end)

  claim("So a request whose Origin is neither the server's own host nor in `origins` is refused with 403.", function()
    local server <close> = assert(http.serve(0, function(req)
      local conn, err, status, headers = req:websocket { origins = { "https://friend.example" } }
      if not conn then return status, headers, err end
    end))
    local function status(origin)
      local conn, _, answer = http.websocket("ws://127.0.0.1:" .. server.port .. "/", { origin = origin })
      if conn then conn:close() end
      return conn and 101 or answer.status
    end
    assert.same({ 101, 101, 101, 403 }, { status(nil), status "https://friend.example",
      status("http://127.0.0.1:" .. server.port), status "https://other.example" })
  end)

  claim("the time until the handshake is complete", function()
    sim.run(function()
      local world = sim.world()
      world:host("server", function()
        local clients = assert(uv.listen("0.0.0.0", 80))
        local conn = clients:take()
        rn.sleep(60000) -- says nothing
        conn:close()
        clients:close()
      end)
      local conn, err, ms
      world:host("client", function()
        local began = sim.elapsed()
        conn, err = http.websocket "ws://server/"
        ms = sim.elapsed() - began
      end)
      world:run(300000)
      assert.is_nil(conn)
      assert.is_true(rn.is_timeout(err))
      assert.is_true(ms >= 10000 and ms < 10100, ms)
    end)
  end)

  claim("The server takes the first of its own list that the client has offered", function()
    with_pair(function(client, other)
      assert.same({ "b", "b" }, { client.protocol, other.protocol })
    end, { protocols = { "a", "b", "c" } }, { protocols = { "x", "b", "a" } })
  end)

  claim("| `ping` | number (ms) or false | 20000 | the time from one ping to the next. false: no pings | if nothing "
    .. "arrives between two pings, the connection ends", function()
    sim.run(function()
      local world = sim.world()
      world:host("server", function()
        local server = assert(http.serve(80, function(req)
          assert(req:websocket { ping = false })
          rn.sleep(300000)
        end, { host = "0.0.0.0" }))
        rn.sleep(300000)
        server:close()
      end)
      local err, ms
      world:host("client", function()
        local conn = assert(http.websocket "ws://server/")
        local began = sim.elapsed()
        world:partition("server", "client")
        err = select(2, conn:read():take())
        ms = sim.elapsed() - began
      end)
      world:run(300000)
      assert.is_true(rn.is_timeout(err))
      assert.is_true(ms > 39000 and ms < 41000, ms)
    end)
  end)
end)

describe("the documents say of TLS", function()
  local dir
  setup(function()
    dir = process.directory()
    process.run(dir.path, [[openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 30 \
      -subj /CN=localhost -addext subjectAltName=DNS:localhost]])
  end)
  teardown(function() dir:remove() end)

  claim_tls("Both ends speak only TLS 1.2 and 1.3.", function()
    local path = dir.path
    local clients, port = assert(uv.listen("127.0.0.1", 0, {
      tls = { cert = path .. "/cert.pem", key = path .. "/key.pem" }, failed = function() end,
    }))
    rn.go(function()
      for conn in clients do conn:close() end
    end)
    local conn = assert(uv.connect("127.0.0.1", port, { tls = { ca = path .. "/cert.pem", name = "localhost" } }))
    assert.equal("TLSv1.3", conn:tls_info().version)
    conn:close()
    local refused, err = uv.connect("127.0.0.1", port, { tls = { ca = path .. "/cert.pem" } })
    assert.is_nil(refused) -- the certificate is for another name
    assert.is_string(tostring(err))
    refused = uv.connect("127.0.0.1", port, { tls = true })
    assert.is_nil(refused) -- no authority that this machine trusts has signed it
    assert(uv.connect("127.0.0.1", port, { tls = { insecure = true } })):close()
    local function with(version)
      local command = "echo | openssl s_client -connect 127.0.0.1:%d -%s 2>&1"
      local result = uv.run { "sh", "-c", command:format(port, version) }
      return result.stdout:find "Cipher is [%w_%-]*_?[%u%d]" ~= nil and not result.stdout:find "Cipher is %(NONE%)"
    end
    assert.same({ true, true, false }, { with "tls1_3", with "tls1_2", with "tls1_1" })
    clients:close()
  end)

  claim_tls("nil and an error, if a file cannot be read, or is invalid", function()
    local context, err = tls.client { ca = dir.path .. "/nosuch.pem" }
    assert.is_nil(context)
    assert.is_string(tostring(err))
    assert.is_nil((tls.server { cert = dir.path .. "/key.pem", key = dir.path .. "/key.pem" }))
    local good = assert(tls.server { cert = dir.path .. "/cert.pem", key = dir.path .. "/key.pem" })
    assert.is_true(good:reload())
  end)

  claim_tls("the server speaks HTTPS, and answers plain HTTP with status 400", function()
    local server <close> = assert(http.serve(0, function() return 200 end, {
      tls = { cert = dir.path .. "/cert.pem", key = dir.path .. "/key.pem" },
    }))
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    assert.matches("^HTTP/1.1 400 ", conn:lines():take())
    conn:close()
  end)

  claim_tls("the time from the look-up of the name until there is a connection", function()
    -- A server that accepts, and says nothing.
    local clients, port = assert(uv.listen("127.0.0.1", 0))
    local conn, err = uv.connect("127.0.0.1", port, { tls = { insecure = true }, timeout = 50 })
    assert.is_nil(conn)
    assert.is_true(rn.is_timeout(err))
    clients:close()
  end)
end)
