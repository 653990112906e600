-- Contexts and sessions of runnel.tls, without sockets. Connections are in spec/uv/tls_spec.lua.

local has_tls, contexts = pcall(require, "runnel.internal.tls_options")
local raises = require "spec.support.raises"
local long = require "spec.support.long"

describe("runnel.tls", function()
  if not has_tls then return pending "runnel.tls is not built" end
  local has_luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end -- spec/support/tls.lua needs it
  local certificates = require "spec.support.tls"
  if not certificates.has "openssl" then return pending "openssl is not installed" end
  local tls = require "runnel.tls"
  local native = contexts.native

  local folder, path, server, client

  setup(function()
    folder = certificates.folder()
    path = folder.path
    server = assert(tls.server { cert = path .. "/cert", key = path .. "/key" })
    client = assert(tls.client { ca = path .. "/ca" })
  end)
  teardown(function() folder:remove() end)

  local Peer = {}
  Peer.__index = Peer

  local function peer(context, host)
    return setmetatable({ session = assert(native.session(context, host)), texts = {}, waiting = "" }, Peer)
  end

  function Peer:collect() self.waiting = self.waiting .. (self.session:take() or "") end

  -- Receives bytes of the network, in pieces of this size.
  function Peer:receive(bytes)
    local text, state, why = self.session:receive(bytes)
    self.texts[#self.texts + 1] = text
    self.state, self.why = state or self.state, why or self.why
    self:collect()
  end

  -- Moves bytes between the two until there are none. `size(n)`: how many of n bytes to move at a time; default: all.
  local function exchange(a, b, size)
    a:collect()
    b:collect()
    while a.waiting ~= "" or b.waiting ~= "" do
      for from, to in pairs { [a] = b, [b] = a } do
        local n = size and from.waiting ~= "" and size(#from.waiting) or #from.waiting
        local piece = from.waiting:sub(1, n)
        from.waiting = from.waiting:sub(n + 1)
        if piece ~= "" then to:receive(piece) end
      end
    end
  end

  -- Does the handshake of a client of `host`.
  local function shake(client_context, server_context, host, size)
    local c, s = peer(client_context, host or "localhost"), peer(server_context)
    c:receive ""
    exchange(c, s, size)
    return c, s
  end

  local function assert_ready(c, s)
    assert.is_nil(c.why)
    assert.is_nil(s.why)
    assert.same({ "ready", "ready" }, { c.session:state(), s.session:state() })
  end

  local function assert_rejected(expected, of_server, c, s)
    assert.equal(expected, c.why)
    assert.equal(of_server, s.why)
    assert.equal("failed", c.session:state())
  end

  local NO_TRUST <const> = "the client does not trust the authority that has signed the certificate of this end"
  local REJECTS <const> = "the client rejects the certificate of this end"
  local OF_AUTHORITY <const> = "the certificate of localhost is signed by CN=authority, which is not among the trusted "
    .. "authorities (option ca)"

  describe("sessions", function()
    it("carry bytes both ways, and end with close_notify", function()
      local c, s = shake(client, server)
      assert_ready(c, s)
      c.session:receive(s.session:send "from the server")
      assert.equal("question", s.session:receive(c.session:send "question"))
      assert.equal("answer", c.session:receive(s.session:send "answer"))
      local text, state = s.session:receive(c.session:send "last" .. c.session:finish())
      assert.same({ "last", "ended" }, { text, state })
      assert.same({ nil, "it has been ended" }, { c.session:send "more" })
      assert.equal("back", c.session:receive(s.session:send "back"))
      assert.same({ n = 2, nil, "ended" }, table.pack(c.session:receive(s.session:finish())))
    end)

    it("know the version, the cipher, the server's name, and the subject of its certificate", function()
      local c, s = shake(client, server)
      local info = c.session:info()
      assert.same({ version = "TLSv1.3", name = "localhost", peer = "CN=localhost", resumed = false,
        cipher = info.cipher }, info)
      assert.matches("^TLS_", info.cipher)
      assert.is_nil(s.session:info().peer)
    end)

    it("carry all bytes in order, however they are split #ci", function()
      for _ = 1, long.times(20, 700) do
        local most = math.random(1, 3000)
        local function size(n) return math.random(1, math.min(n, most)) end
        local c, s = shake(client, server, "localhost", size)
        assert_ready(c, s)
        c.texts, s.texts = {}, {}
        local sent = { [c] = {}, [s] = {} }
        for _ = 1, math.random(1, 8) do
          local from = math.random() < 0.5 and c or s
          local text = (string.char(math.random(0, 255)) .. "abc"):rep(math.random(1, 20000))
          table.insert(sent[from], text)
          from.waiting = from.waiting .. from.session:send(text)
          if math.random() < 0.3 then exchange(c, s, size) end
        end
        c.waiting = c.waiting .. c.session:finish()
        exchange(c, s, size)
        assert.is_true(table.concat(sent[c]) == table.concat(s.texts))
        assert.is_true(table.concat(sent[s]) == table.concat(c.texts))
        assert.equal("ended", s.state)
      end
    end)

    it("fail if any byte was changed on the way", function()
      local function flip(text)
        local at = math.random(1, #text)
        return text:sub(1, at - 1) .. string.char(text:byte(at) ~ (1 << math.random(0, 7))) .. text:sub(at + 1)
      end
      for _ = 1, long.times(50, 1700) do
        local c, s = shake(client, server)
        local text, state, why = s.session:receive(flip(c.session:send(("secret"):rep(100))))
        assert.is_nil(text)
        if state then
          assert.equal("failed", state)
          assert.matches("^the client ", why)
          assert.is_string(s.session:take()) -- an alert
        else -- the record pretends to be longer
          assert.is_nil((s.session:receive(("x"):rep(20000))))
          assert.equal("failed", s.session:state())
        end
        text, state = s.session:receive(c.session:send "more")
        assert.same({ n = 2, nil, "failed" }, table.pack(text, state))
      end
    end)

    it("say that the other end does not speak TLS", function()
      for _, case in ipairs {
        { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the client speaks HTTP without TLS" },
        { "SSH-2.0-OpenSSH_9.2\r\n", "the client does not speak TLS" },
        { ("\0"):rep(100), "the client does not speak TLS" },
      } do
        local s = peer(server)
        s:receive(case[1])
        assert.equal(case[2], s.why)
      end
      local c = peer(client, "localhost")
      c:receive "HTTP/1.1 400 Bad Request\r\n\r\n"
      assert.equal("the server does not speak TLS", c.why)
    end)

    it("survive random bytes in place of a handshake", function()
      for _ = 1, long.times(300, 10000) do
        local s = peer(server)
        local bytes = {}
        for i = 1, math.random(1, 300) do bytes[i] = string.char(math.random(0, 255)) end
        if math.random() < 0.5 then table.insert(bytes, 1, "\22\3\1\0" .. string.char(#bytes & 255)) end
        s:receive(table.concat(bytes))
        s:receive(table.concat(bytes))
        assert.is_true(s.why ~= nil or s.session:state() == "shaking")
      end
    end)

    it("do not send before the handshake is complete", function()
      assert.same({ nil, "the handshake is not complete" }, { peer(client, "localhost").session:send "x" })
    end)

    it("without a name for a client's server are refused", function()
      assert.same({ nil, "the name that the server's certificate must be for is missing (option name)" },
        { native.session(client) })
      assert.is_truthy(native.session(assert(tls.client { insecure = true })))
      assert.is_truthy(native.session(assert(tls.client { name = "localhost" })))
    end)
  end)

  describe("a client", function()
    it("that expects a name longer than any host's is refused", function()
      assert.is_truthy(tls.client { name = ("x"):rep(255) })
      local context, err = tls.client { name = ("x"):rep(256) }
      assert.same({ nil, "name: the name of a host has at most 255 bytes" }, { context, err })
    end)

    it("rejects a certificate for another host", function()
      assert_rejected("the certificate is for localhost, not for example.org", REJECTS,
        shake(client, server, "example.org"))
      assert_rejected("the certificate is for localhost, not for 127.0.0.1", REJECTS,
        shake(client, server, "127.0.0.1"))
    end)

    it("accepts a certificate for the name in its option, for an address, and for any name below one", function()
      assert_ready(shake(assert(tls.client { ca = path .. "/ca", name = "localhost" }), server, "example.org"))
      local cert, key = certificates.certify(folder, "many", { names = "DNS:*.example.org,IP:127.0.0.1,IP:::1" })
      local many = assert(tls.server { cert = cert, key = key })
      for _, host in ipairs { "127.0.0.1", "::1", "a.example.org", "A.Example.ORG", "a.example.org." } do
        assert_ready(shake(client, many, host))
      end
      for _, host in ipairs { "127.0.0.2", "example.org", "a.b.example.org", "::2" } do
        assert_rejected("the certificate is for *.example.org, 127.0.0.1, ::1, not for " .. host,
          REJECTS, shake(client, many, host))
      end
    end)

    it("lists the names of a certificate for another host, whole ones, as far as there is room", function()
      local names, listed = {}, {}
      for i = 1, 6 do
        local name = ("%d."):format(i) .. ("a"):rep(50) .. ".org"
        names[i], listed[i] = "DNS:" .. name, i < 4 and name or nil
      end
      local cert, key = certificates.certify(folder, "crowd", { names = table.concat(names, ",") })
      assert_rejected(("the certificate is for %s, not for localhost"):format(table.concat(listed, ", ")),
        REJECTS, shake(client, assert(tls.server { cert = cert, key = key })))
    end)

    it("rejects a certificate that has expired, and says when", function()
      local cert, key = certificates.certify(folder, "expired", { names = "DNS:localhost", days = 0 })
      local c = shake(client, assert(tls.server { cert = cert, key = key }))
      local pattern = "^the certificate of localhost has expired on (%d+)-(%d+)-(%d+) %d%d:%d%d:%d%d UTC$"
      local year, month, day = c.why:match(pattern)
      local noon = os.time { year = year, month = month, day = day }
      assert.is_true(math.abs(os.time() - 86400 - noon) < 2 * 86400)
    end)

    it("rejects a certificate that is not valid yet, and says from when", function()
      local cert, key = certificates.certify(folder, "early", { names = "DNS:localhost", from = "20491231235958Z" })
      assert_rejected("the certificate of localhost is not valid before 2049-12-31 23:59:58 UTC",
        REJECTS, shake(client, assert(tls.server { cert = cert, key = key })))
    end)

    it("rejects a self-signed certificate, and one of another authority", function()
      local cert, key = certificates.self_signed(folder, "self")
      assert_rejected("the certificate of localhost is self-signed, and not trusted (option ca)",
        NO_TRUST,
        shake(client, assert(tls.server { cert = cert, key = key })))
      local other = assert(tls.client { ca = cert })
      assert_rejected(OF_AUTHORITY, NO_TRUST, shake(other, server))
      assert_rejected(OF_AUTHORITY, NO_TRUST, shake(assert(tls.client()), server)) -- the authorities of the system
    end)

    it("accepts any certificate if it is insecure, but does not give its subject", function()
      local insecure = assert(tls.client { insecure = true })
      local c, s = shake(insecure, server, "example.org")
      assert_ready(c, s)
      assert.is_nil(c.session:info().peer)
    end)

    it("rejects a certificate that is not for servers", function()
      local cert, key = certificates.certify(folder, "purpose",
        { names = "DNS:localhost", extensions = "extendedKeyUsage=clientAuth\n" })
      local c = shake(client, assert(tls.server { cert = cert, key = key }))
      assert.matches("^the certificate of localhost is not valid for this use", c.why)
    end)

    it("accepts a certificate below an authority that the server sends", function()
      certificates.certify(folder, "between", { extensions = "basicConstraints=critical,CA:true\n" })
      certificates.certify(folder, "below", { names = "DNS:localhost", ca = "between", ca_key = "between_key" })
      folder:write("chain", folder:read "below" .. folder:read "between")
      assert_ready(shake(client, assert(tls.server { cert = path .. "/chain", key = path .. "/below_key" })))
      local c = shake(client, assert(tls.server { cert = path .. "/below", key = path .. "/below_key" }))
      assert.matches("is signed by CN=between, which is not among the trusted authorities", c.why)
    end)
  end)

  describe("a server", function()
    it("chooses its certificate by the name that the client asks for (SNI)", function()
      local one, one_key = certificates.certify(folder, "one.example", { names = "DNS:one.example,DNS:*.one.example" })
      local two, two_key = certificates.certify(folder, "two.example")
      local many = assert(tls.server { cert = path .. "/cert", key = path .. "/key",
        more = { { cert = one, key = one_key }, { cert = two, key = two_key } } })
      for host, peer_name in pairs {
        ["localhost"] = "localhost", ["one.example"] = "one.example", ["www.one.example"] = "one.example",
        ["TWO.example"] = "two.example",
      } do
        local c, s = shake(client, many, host)
        assert_ready(c, s)
        assert.equal("CN=" .. peer_name, c.session:info().peer)
      end
      for _, host in ipairs { "three.example", "a.two.example", "a.b.one.example", "127.0.0.1" } do
        local c = shake(client, many, host)
        assert.equal("the certificate is for localhost, not for " .. host, c.why)
      end
    end)

    it("chooses its certificate by the name, and not by the kind of key that the client likes best", function()
      local rsa = { kind = "-newkey rsa:2048 " }
      local ec_cert, ec_key = certificates.certify(folder, "ec.example")
      local rsa_cert, rsa_key = certificates.certify(folder, "rsa.example", rsa)
      local first, first_key = certificates.certify(folder, "first", { names = "DNS:localhost", kind = rsa.kind })
      local function choice(context, host)
        local c = shake(client, context, host)
        return c.why or c.session:info().peer
      end

      local mixed = assert(tls.server { cert = first, key = first_key,
        more = { { cert = ec_cert, key = ec_key }, { cert = rsa_cert, key = rsa_key } } })
      assert.equal("CN=first", choice(mixed, "localhost"))
      assert.equal("CN=ec.example", choice(mixed, "ec.example"))
      assert.equal("CN=rsa.example", choice(mixed, "rsa.example"))
      for _, host in ipairs { "other.example", "127.0.0.1" } do
        assert.equal("the certificate is for localhost, not for " .. host, choice(mixed, host))
      end
    end)

    it("lets a client choose among certificates with the same name by the kinds of their keys", function()
      local names = "DNS:both.example"
      local list = {}
      for i, kind in ipairs { "rsa:2048", "ec -pkeyopt ec_paramgen_curve:prime256v1",
        "ec -pkeyopt ec_paramgen_curve:prime256v1" } do
        local cert, key = certificates.certify(folder, "both" .. i, { names = names, kind = "-newkey " .. kind .. " " })
        list[i] = { cert = cert, key = key }
      end
      local both = assert(tls.server { cert = path .. "/cert", key = path .. "/key", more = list })
      local c, s = shake(client, both, "both.example")
      assert_ready(c, s)
      assert.equal("CN=both2", c.session:info().peer) -- the first with a key of the kind that OpenSSL likes best
    end)

    it("lets in only clients with a certificate of its authority", function()
      local strict = assert(tls.server { cert = path .. "/cert", key = path .. "/key", ca = path .. "/ca" })
      local known = assert(tls.client { ca = path .. "/ca", cert = path .. "/client", key = path .. "/client_key" })
      local c, s = shake(known, strict)
      assert_ready(c, s)
      assert.equal("CN=client", s.session:info().peer)

      c, s = shake(client, strict) -- in TLS 1.3 the client learns that afterwards
      assert.equal("the client has sent no certificate", s.why)
      assert.equal("the server asks for a certificate of this end (options cert and key)", c.why)

      local cert, key = certificates.self_signed(folder, "stranger")
      c, s = shake(assert(tls.client { ca = path .. "/ca", cert = cert, key = key }), strict)
      assert.matches("^the certificate of the client is self%-signed", s.why)
      assert.equal("the server does not trust the authority that has signed the certificate of this end", c.why)
      cert, key = certificates.certify(folder, "late", { days = 0 })
      c, s = shake(assert(tls.client { ca = path .. "/ca", cert = cert, key = key }), strict)
      assert.matches("^the certificate of the client has expired on ", s.why)
      assert.equal("the server rejects the certificate of this end: it has expired", c.why)
    end)

    it("also lets in clients without a certificate, if it is optional, but none with a wrong one", function()
      local lax = assert(tls.server { cert = path .. "/cert", key = path .. "/key", ca = path .. "/ca",
        verify = "optional" })
      local c, s = shake(client, lax)
      assert_ready(c, s)
      assert.is_nil(s.session:info().peer)
      local known = assert(tls.client { ca = path .. "/ca", cert = path .. "/client", key = path .. "/locked_key",
        password = "secret" })
      c, s = shake(known, lax)
      assert_ready(c, s)
      assert.equal("CN=client", s.session:info().peer)
      local cert, key = certificates.self_signed(folder, "stranger")
      c, s = shake(assert(tls.client { ca = path .. "/ca", cert = cert, key = key }), lax)
      assert.same({ "failed", "failed" }, { c.session:state(), s.session:state() })
    end)

    it("chooses the first of its protocols that the client speaks (ALPN)", function()
      local function protocols(of_client, of_server)
        local c, s = shake(assert(tls.client { ca = path .. "/ca", alpn = of_client }),
          assert(tls.server { cert = path .. "/cert", key = path .. "/key", alpn = of_server }))
        return { c.session:info().protocol or c.why, s.session:info().protocol or s.why }
      end
      assert.same({ "h2", "h2" }, protocols({ "http/1.1", "h2" }, { "h2", "http/1.1" }))
      assert.same({ "http/1.1", "http/1.1" }, protocols({ "h2", "http/1.1" }, { "http/1.1" }))
      assert.same({}, protocols(nil, { "http/1.1" }))
      assert.same({}, protocols({ "http/1.1" }, nil))
      assert.same({ "the server speaks none of the protocols that this end speaks (option alpn)",
        "the client speaks none of the protocols that this end speaks (option alpn)" },
        protocols({ "h2" }, { "http/1.1" }))
    end)

    it("reads its files again on reload; open sessions go on with the old ones", function()
      local new_cert, new_key = certificates.certify(folder, "renewed", { names = "DNS:localhost" })
      local at, key_at = path .. "/current", path .. "/current_key"
      folder:write("current", folder:read "cert")
      folder:write("current_key", folder:read "key")
      local context = assert(tls.server { cert = at, key = key_at })
      local c, s = shake(client, context)
      local half_c, half_s = peer(client, "localhost"), peer(context)
      folder:write("current", folder:read "renewed")
      assert.same({ nil, ("the key %s does not belong to the certificate %s"):format(key_at, at) },
        { context:reload() })
      assert.equal("CN=localhost", shake(client, context).session:info().peer)
      os.remove(at)
      assert.same({ nil, ("cannot read %s: No such file or directory"):format(at) }, { context:reload() })
      assert.equal("CN=localhost", shake(client, context).session:info().peer)
      folder:write("current", folder:read "renewed")
      folder:write("current_key", folder:read "renewed_key")
      assert.is_true(context:reload())
      assert.equal("CN=renewed", shake(client, context).session:info().peer)
      half_c:receive ""
      exchange(half_c, half_s)
      assert.equal("CN=localhost", half_c.session:info().peer)
      assert.equal("still there", c.session:receive(s.session:send "still there"))
      assert.is_string(new_cert .. new_key)
    end)

    it("has certificate and key in one file, or as texts", function()
      folder:write("both", folder:read "cert" .. folder:read "key")
      assert_ready(shake(client, assert(tls.server { cert = path .. "/both" })))
      local texts = assert(tls.server { cert = folder:read "cert", key = folder:read "key" })
      assert_ready(shake(assert(tls.client { ca = folder:read "ca" }), texts))
      assert.is_true(texts:reload())
    end)
  end)

  describe("files", function()
    it("that are wrong are an error that says which, and why", function()
      folder:write("empty", "")
      folder:write("broken", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n")
      local cert, key = path .. "/cert", path .. "/key"
      for expected, opts in pairs {
        ["cannot read /none: No such file or directory"] = { cert = "/none", key = key },
        ["cannot read " .. path .. ": Is a directory"] = { cert = path, key = key },
        [path .. "/empty: it has no certificate"] = { cert = path .. "/empty", key = key },
        [key .. ": it has no certificate"] = { cert = key, key = key },
        [cert .. ": it has no private key that OpenSSL can read"] = { cert = cert },
        ["the key " .. path .. "/client_key does not belong to the certificate " .. cert] =
          { cert = cert, key = path .. "/client_key" },
        ["the key does not belong to the certificate"] = { cert = folder:read "cert", key = folder:read "client_key" },
        [path .. "/locked_key: the key needs a password (option password)"] =
          { cert = path .. "/client", key = path .. "/locked_key" },
        [path .. "/locked_key: the password does not decrypt the key"] =
          { cert = path .. "/client", key = path .. "/locked_key", password = "wrong" },
        [path .. "/empty: it has no certificate "] = { cert = cert, key = key, ca = path .. "/empty" },
        ["cannot read /none: No such file or directory "] =
          { cert = cert, key = key, more = { { cert = "/none", key = key } } },
      } do
        assert.same({ nil, (expected:gsub(" $", "")) }, { tls.server(opts) })
      end
      local context, err = tls.server { cert = path .. "/broken", key = key }
      assert.is_nil(context)
      assert.matches("^" .. path:gsub("%p", "%%%0") .. "/broken: ", err)
    end)

    it("with a key that is too short are refused", function()
      local cert, key = certificates.certify(folder, "short", { kind = "-newkey rsa:512 " })
      local context, err = tls.server { cert = cert, key = key }
      assert.is_nil(context)
      assert.matches("^the certificate cannot be used: .*too small", err)
    end)
  end)

  it("refuses wrong options at the caller's line", function()
    local cert = path .. "/cert"
    raises('^tls.server: unknown option "keyfile"; known: alpn, ca, cert, key, more, password, verify$',
      function() tls.server { cert = cert, keyfile = 1 } end)
    raises('unknown option "certs"; .*; did you mean more%?$', function() tls.server { certs = {} } end)
    raises("^tls.server: the option insecure is only for a client$",
      function() tls.server { cert = cert, insecure = true } end)
    raises("^tls.client: the option verify is only for a server; a client always verifies$",
      function() tls.client { verify = "required" } end)
    raises("^tls.server: a table of options expected, got nothing$", function() tls.server() end)
    raises("^tls.server: a certificate expected: { cert = a file, key = a file }$", function() tls.server {} end)
    raises("^tls.server: cert: a string expected, got 1$", function() tls.server { cert = 1 } end)
    raises("^tls.server: cert has a zero byte$", function() tls.server { cert = "a\0b" } end)
    raises('^tls.server: verify: "required" or "optional" expected, got true$',
      function() tls.server { cert = cert, ca = cert, verify = true } end)
    raises("^tls.server: verify: the authorities of the clients are missing %(option ca%)$",
      function() tls.server { cert = cert, verify = "required" } end)
    raises("^tls.server: alpn: a list of names, as in { \"h2\", \"http/1.1\" } expected, got a string$",
      function() tls.server { cert = cert, alpn = "h2" } end)
    raises('^tls.server: alpn: name 2: a string of 1 to 255 bytes expected, got ""$',
      function() tls.server { cert = cert, alpn = { "h2", "" } } end)
    raises("^tls.server: more: a list of certificates, .* expected, got a table$",
      function() tls.server { cert = cert, more = { cert = cert } } end)
    raises("^tls.server: more: 1: the certificate is missing %(option cert%)$",
      function() tls.server { cert = cert, more = { {} } } end)
    raises('^tls.server: more: 1: unknown option "ca"; known: cert, key, password$',
      function() tls.server { cert = cert, more = { { cert = cert, ca = cert } } } end)
    raises("^tls.client: key: its certificate is missing %(option cert%)$", function() tls.client { key = cert } end)
    raises("^tls.client: insecure: true or false expected, got 1$", function() tls.client { insecure = 1 } end)
    raises("^tls.client: ca: with insecure = true the authorities are not used; remove one of the two options$",
      function() tls.client { insecure = true, ca = cert } end)
  end)

  it("tells whether a context is for servers or for clients", function()
    assert.same({ "server", "client" }, { tls.kind(server), tls.kind(client) })
    assert.is_nil(tls.kind {})
    assert.is_nil(tls.kind(io.stdout))
    assert.equal("runnel.tls.context (of a server)", tostring(server))
  end)
end)
