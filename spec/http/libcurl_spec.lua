-- Options of requests by libcurl's names: what each of them changes.

local http_stage = require "spec.support.http.http_stage"
if http_stage.missing then
  describe("libcurl's options", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"
local rn = require "runnel"
local process = require "spec.support.process"
local tls = require "spec.support.tls"
local uv = require "runnel.uv"

describe("libcurl's options", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Makes a request to a new server. Returns the response or nil, the error, and the request that has come there.
  local function request(opts, path)
    local seen
    local server <close> = assert(http.serve(0, function(req)
      seen = req
      return 200, nil, req:body()
    end))
    for name, value in pairs(opts) do
      if type(value) == "string" then opts[name] = value:gsub("PORT", server.port) end
      if value == "SERVER" then opts[name] = server.url end
      if type(value) == "table" then opts[name] = { (value[1]:gsub("PORT", server.port)) } end
    end
    opts.url = opts.url or server.url .. (path or "")
    local res, err = http.request(opts)
    return res, err, seen
  end

  it("path_as_is leaves dots in the path", function()
    local res, _, req = request({ path_as_is = true }, "a/../b")
    assert.equal(200, assert(res).status)
    assert.equal("/a/../b", req.target)
    req = select(3, request({}, "a/../b"))
    assert.equal("/b", req.target)
  end)

  it("interface is the address, or the name of the network, from which it connects", function()
    local res = request { interface = "127.0.0.1" }
    assert.equal(200, assert(res).status)
    local none, err = request { interface = "nosuch0", fresh_connect = true }
    assert.is_nil(none)
    assert.is_truthy(err:find "nosuch0" or err:find "binding local", err) -- since libcurl 8.2x without the name
  end)

  it("connect_to leads to another place, and the request is for the host of the URL", function()
    local res, _, req = request { url = "http://example.org/x", connect_to = { "example.org:80:127.0.0.1:PORT" } }
    assert.equal(200, assert(res).status)
    assert.equal("example.org", req.headers.host)
  end)

  it("ipresolve chooses the kind of addresses", function()
    local function host_of(kind)
      return request { url = "http://localhost:PORT/", ipresolve = kind, fresh_connect = true }
    end
    local res, err, req = host_of "4"
    if not res and err:find "resolve" then return pending "localhost has no address on this machine" end
    assert.equal("127.0.0.1", req.address)
    res, err, req = host_of "6" -- which localhost may lack
    assert.is_true(not res or req.address == "::1", req and req.address or err)
  end)

  it("xoauth2_bearer, aws_sigv4 and proxyauth log in", function()
    local res, _, req = request { httpauth = "bearer", xoauth2_bearer = "a-token" }
    assert.equal(200, assert(res).status)
    assert.equal("Bearer a-token", req.headers.authorization)
    req = select(3, request { aws_sigv4 = "aws:amz:us:s3", userpwd = "a:b" })
    assert.matches("^AWS4%-HMAC%-SHA256 Credential=a/%d+/us/s3/aws4_request", req.headers.authorization)
    local proxied = { url = "http://example.org/x", proxy = "SERVER", proxyuserpwd = "a:b", proxyauth = "basic" }
    req = select(3, request(proxied))
    assert.equal("Basic YTpi", req.headers["proxy-authorization"])
    proxied.proxy, proxied.proxyauth = "SERVER", "digest" -- which waits for the proxy's question
    assert.is_nil(select(3, request(proxied)).headers["proxy-authorization"])
  end)

  it("unix_socket_path connects to a Unix socket", function()
    local dir <close> = process.directory()
    local path = dir.path .. "/socket"
    local clients = assert(uv.listen(path))
    rn.go(function()
      for conn in clients do
        conn:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
        conn:shutdown()
        for _ in conn:read() do end
      end
    end)
    assert.equal("hi", assert(http.get("http://example.org/", { unix_socket_path = path })).body)
    clients:close()
  end)

  it("tcp_keepalive, dns_cache_timeout and max_send_speed_large are taken, and the request is done", function()
    local body = ("x"):rep(1000)
    local res = request { tcp_keepalive = true, dns_cache_timeout = 0, max_send_speed_large = 10 << 20, body = body }
    assert.equal(body, assert(res).body)
  end)

  describe("of TLS", function()
    if not tls.has "openssl" then return pending "openssl is not installed" end
    local folder

    setup(function() folder = tls.folder() end)
    teardown(function() folder:remove() end)

    -- Makes a request to a new server with TLS. Returns what the connection was, there; or nil and the client's error.
    local function get(opts, more)
      local settings = { cert = folder.path .. "/cert", key = folder.path .. "/key" }
      for name, value in pairs(more or {}) do settings[name] = value end
      local info
      local conns, port = assert(uv.listen("127.0.0.1", 0, { tls = settings }))
      rn.go(function()
        for conn in conns do
          info = conn:tls_info()
          conn:write "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
          conn:shutdown()
          local rest = conn:read()
          repeat until not rest:take() -- a client may end without close_notify
          conn:close()
        end
      end)
      opts.resolve = { ("localhost:%d:127.0.0.1"):format(port) }
      if opts.capath == nil and opts.cainfo == nil then opts.cainfo = folder.path .. "/ca" end
      opts.fresh_connect, opts.forbid_reuse = true, true
      local res, err = http.get(("https://localhost:%d/"):format(port), opts)
      conns:close()
      if not res then return nil, err end
      return info
    end

    it("ssl_cipher_list and tls13_ciphers choose the ciphers of TLS 1.2 and 1.3", function()
      assert.equal("TLS_AES_128_GCM_SHA256", assert(get { tls13_ciphers = "TLS_AES_128_GCM_SHA256" }).cipher)
      assert.equal("TLS_CHACHA20_POLY1305_SHA256",
        assert(get { tls13_ciphers = "TLS_CHACHA20_POLY1305_SHA256" }).cipher)
      local info, err = get { ssl_cipher_list = "no-such-cipher" }
      assert.is_nil(info)
      assert.matches("no%-such%-cipher", err)
      assert.is_table(get { ssl_cipher_list = "ECDHE+AESGCM" })
    end)

    it("capath is a folder of authorities, crlfile a list of revoked certificates", function()
      local dir <close> = process.directory()
      local hash <close> = assert(io.popen(("openssl x509 -hash -noout -in %s/ca"):format(folder.path)))
      assert(os.execute(("cp %s/ca %s/%s.0"):format(folder.path, dir.path, hash:read())))
      assert.is_table(get { capath = dir.path })
      local info, err = get { capath = folder.path .. "/none" }
      assert.is_nil(info)
      assert.matches("certificate", err)
      info, err = get { crlfile = folder.path .. "/none" }
      assert.is_nil(info)
      assert.matches("CRL", err)
    end)

    it("sslcerttype and sslkeytype are the forms of the files", function()
      local path = folder.path
      local both = { ca = path .. "/ca" }
      for _, kind in ipairs { { "x509", "client" }, { "ec", "client_key" } } do
        local from = path .. "/" .. kind[2]
        assert(os.execute(("openssl %s -in %s -outform DER -out %s.der 2>/dev/null"):format(kind[1], from, from)))
      end
      assert.is_string(assert(get({ sslcert = path .. "/client.der", sslcerttype = "DER",
        sslkey = path .. "/client_key.der", sslkeytype = "DER" }, both)).peer)
      local info, err = get({ sslcert = path .. "/client.der", sslkey = path .. "/client_key.der" }, both)
      assert.is_nil(info)
      assert.matches("certificate", err)
    end)

    it("proxy_cainfo has the authorities of a proxy with TLS", function()
      local proxy <close> = assert(http.serve(0, function(req) return 200, nil, "proxy: " .. req.target end,
        { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } }))
      local opts = { proxy = ("https://localhost:%d"):format(proxy.port), proxy_cainfo = folder.path .. "/ca" }
      assert.equal("proxy: http://example.org/x", assert(http.get("http://example.org/x", opts)).body)
      opts.proxy_cainfo, opts.fresh_connect = nil, true
      assert.is_nil((http.get("http://example.org/x", opts)))
    end)
  end)
end)
