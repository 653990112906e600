-- http.websocket through SOCKS proxies and proxies with TLS. http.get, which uses libcurl, goes through the same ones.

local patience = require "spec.support.patience"
local http_stage = require "spec.support.http.http_stage"
local certificates = not http_stage.missing and require "spec.support.tls" -- which needs luv
local rn = require "runnel"

if not certificates or not pcall(require, "runnel.websocket.core") or not pcall(require, "runnel.tls")
  or not certificates.has "openssl" then
  describe("http.websocket through", function() pending "libcurl, zlib, OpenSSL or luv is not installed" end)
  return
end

local http = require "runnel.http"
local uv = require "runnel.uv"
local has_localhost = require("luv").getaddrinfo "localhost" ~= nil -- it has none without /etc/hosts
local names = require "runnel.uv.hostnames"

describe("http.websocket through", function()
  local folder
  setup(function() folder = certificates.folder() end)
  teardown(function() folder:remove() end)
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- A server that answers requests, and WebSockets with an echo.
  local function serve(is_secure)
    local server = assert(http.serve(0, function(req)
      if not req.can_upgrade then return 200, nil, "a page" end
      local conn <close> = assert(req:websocket())
      for message in conn:read() do conn:write(message) end
    end, is_secure and { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } } or nil))
    return server, ("%s://localhost:%d/"):format(is_secure and "wss" or "ws", server.port)
  end

  local function move(from, to)
    local input = from:read()
    for chunk in input do
      if not to:write(chunk) then return to:close() end
    end
    input:take() -- the reason, if it has failed: an end that closes before it has read all resets its connection
    to:close()
  end

  -- Connects to the port of this machine, says so, and passes all bytes on.
  local function join(conn, port, answer)
    local there <close> = assert(uv.connect("127.0.0.1", port))
    conn:write(answer)
    local back = rn.go(move, there, conn)
    move(conn, there)
    back:take()
  end

  -- A SOCKS proxy for which every host is this one. It notes what it is asked for. `wants`: a name and a password, or a
  -- code with which it refuses.
  local function socks_proxy(wants)
    local asked = {}
    return asked, http_stage.serve(function(conn)
      local r = uv.reader(conn)
      local function read(format) return string.unpack(format, (r:read(string.packsize(format)))) end
      local function string_of(n) return (n == 0 and "" or r:read(n)) end
      local first = r:read(2)
      if not first then return end -- the client has nothing to ask for
      local version, n = first:byte(1, 2)
      if version == 4 then
        local port, a, b, c, d = read ">I2BBBB"
        local user = r:read_until "\0"
        local host = a == 0 and r:read_until "\0" or ("%d.%d.%d.%d"):format(a, b, c, d)
        asked[#asked + 1] = { 4, host, user }
        if math.type(wants) == "integer" then return conn:write(string.pack("BBI6", 0, wants, 0)) end
        r:close()
        return join(conn, port, "\0\x5A\0\0\0\0\0\0")
      end
      local methods, login = string_of(n), nil
      if type(wants) == "string" and not methods:find("\2", 1, true) then return conn:write "\5\xff" end
      conn:write(type(wants) == "string" and "\5\2" or "\5\0")
      if type(wants) == "string" then
        local _, size = read "BB"
        login = string_of(size)
        login = login .. ":" .. string_of((read "B"))
        conn:write(login == wants and "\1\0" or "\1\1")
        if login ~= wants then return end
      end
      local _, _, _, kind = read "BBBB"
      local host
      if kind == 3 then host = string_of((read "B"))
      elseif kind == 1 then host = ("%d.%d.%d.%d"):format(read "BBBB")
      else host = ("%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x"):format(read ">I2I2I2I2I2I2I2I2") end
      local port = read ">I2"
      asked[#asked + 1] = { 5, host, login }
      if math.type(wants) == "integer" then return conn:write("\5" .. string.char(wants) .. "\0\1\0\0\0\0\0\0") end
      r:close()
      join(conn, port, #asked % 2 == 0 and "\5\0\0\3\4name\0\0" or "\5\0\0\1\0\0\0\0\0\0")
    end)
  end

  -- An echo through a proxy, and a page by libcurl.
  local function try(url, opts, page_opts)
    opts.timeout = patience.most -- under valgrind TLS takes seconds
    local conn, err = http.websocket(url, opts)
    if not conn then return nil, err end
    for _, text in ipairs { "hello", ("x"):rep(100000) } do
      assert(conn:write(text))
      assert.is_true(conn:read():take() == text)
    end
    conn:close()
    page_opts.proxy, page_opts.forbid_reuse = opts.proxy, true
    assert.equal("a page", assert(http.get(url:gsub("^ws", "http"), page_opts)).body)
    return true
  end

  for scheme, host in pairs {
    socks5h = "localhost", socks4a = "localhost", socks5 = "127.0.0.1", socks4 = "127.0.0.1",
  } do
    for _, is_secure in ipairs { false, true } do
      it(("a %s proxy%s"):format(scheme, is_secure and ", with TLS" or ""), function()
        if host ~= "localhost" and not has_localhost then
          return pending "localhost has no address on this machine"
        end
        local server, url = serve(is_secure)
        local closing <close> = server -- luacheck: ignore 211
        local asked, port = socks_proxy()
        local proxy, ca = scheme .. "://127.0.0.1:" .. port, folder.path .. "/ca"
        assert(try(url, { proxy = proxy, tls = is_secure and { ca = ca } }, { cainfo = ca, ipresolve = "4" }))
        local version = scheme:find "4" and 4 or 5
        for i = 1, 2 do
          local name = asked[i][2]
          if scheme == "socks5" and name == ("0000:"):rep(7) .. "0001" then name = host end -- it comes first somewhere
          assert.same({ version, host }, { asked[i][1], name })
        end
      end)
    end
  end

  it("a socks4 proxy names an address of IPv4, if the host has one", function()
    local server, url = serve()
    local closing <close> = server -- luacheck: ignore 211
    local look_up, found = names.look_up, nil
    names.look_up = function(host) return host == "localhost" and found or { host } end
    finally(function() names.look_up = look_up end)
    local asked, port = socks_proxy()
    local opts = { proxy = "socks4://127.0.0.1:" .. port }
    found = { "::1", "127.0.0.1" }
    assert(http.websocket(url, opts)):close()
    assert.equal("127.0.0.1", asked[1][2])
    found = { "::1" }
    assert.match("SOCKS4 has no IPv6", select(2, http.websocket(url, opts)))
  end)

  it("a SOCKS proxy that wants a name and a password", function()
    local server, url = serve()
    local closing <close> = server -- luacheck: ignore 211
    local asked, port = socks_proxy "me:s/cret"
    assert(try(url, { proxy = "socks5h://me:s%2fcret@127.0.0.1:" .. port }, {}))
    assert.equal("me:s/cret", asked[1][3])
    for login, pattern in pairs { ["me:no@"] = "it has refused the name or the password",
      [""] = "it accepts none of our ways to log in" } do
      local _, err = try(url, { proxy = ("socks5h://%s127.0.0.1:%d"):format(login, port) })
      assert.match("through the proxy 127.0.0.1:" .. port .. ": " .. pattern, err)
    end
  end)

  it("a SOCKS proxy that refuses, or is none, is an error that says why", function()
    for code, pattern in pairs { [2] = "its rules do not allow this", [5] = "the connection was refused",
      [99] = "it has refused, with code 99" } do
      local _, port = socks_proxy(code)
      local _, err = http.websocket("ws://far.invalid/", { proxy = "socks5h://127.0.0.1:" .. port })
      assert.match("^far.invalid: through the proxy 127.0.0.1:" .. port .. ": " .. pattern, err)
    end
    local _, port = socks_proxy(0x5B)
    assert.match("it has refused, with code 91", select(2, http.websocket("ws://far.invalid/", {
      proxy = "socks4a://127.0.0.1:" .. port })))
    local none = http_stage.serve(function(conn) conn:write "HTTP/1.1 400 No\r\n\r\n" end)
    assert.match("it does not speak SOCKS5", select(2, http.websocket("ws://far.invalid/", {
      proxy = "socks5h://127.0.0.1:" .. none })))
    local silent = http_stage.serve(function(conn) conn:read():take() end)
    local proxy = "socks5h://127.0.0.1:" .. silent
    assert.match("the connection", select(2, http.websocket("ws://far.invalid/", { proxy = proxy })))
  end)

  it("a SOCKS5 proxy to an address of IPv6, of which all groups are sent", function()
    local asked, port = socks_proxy(3)
    for address, expected in pairs {
      ["::1"] = "0000:0000:0000:0000:0000:0000:0000:0001",
      ["1:2:3:4:5:6:7:8"] = "0001:0002:0003:0004:0005:0006:0007:0008",
      ["fe80::"] = "fe80:0000:0000:0000:0000:0000:0000:0000",
      ["300.1.1.1"] = "300.1.1.1", -- the name of a host
      ["::ffff:1.2.3.4"] = "0000:0000:0000:0000:0000:ffff:0102:0304",
    } do
      asked[1] = nil
      local host = address:find ":" and ("[%s]"):format(address) or address
      http.websocket(("ws://%s/"):format(host), { proxy = "socks5h://127.0.0.1:" .. port })
      assert.equal(expected, asked[1][2])
    end
  end)

  it("http.proxy, with its options of libcurl for proxies and certificates", function()
    local files = { ca = folder.path .. "/ca" }
    files.cert, files.key = certificates.certify(folder, "mutual", { names = "DNS:localhost" })
    local behind <close> = assert(http.serve(0, function(req)
      local conn <close> = assert(req:websocket())
      for message in conn:read() do conn:write(message) end
    end, { tls = { cert = files.cert, key = files.key, ca = files.ca, verify = "required" } }))
    local common = { proxy = "http://127.0.0.1:1", noproxy = "localhost", sslcert = files.cert, sslkey = files.key }
    for name, case in pairs {
      cainfo = { { cainfo = files.ca }, true }, insecure = { { ssl_verifypeer = false }, true },
      untrusted = { {}, false, "certificate" }, ["through the proxy"] = { { noproxy = "" }, false, "ECONNREFUSED" },
      ["no certificate"] = { { cainfo = files.ca, sslcert = false, sslkey = false }, false, "certificate" },
    } do
      local opts, reason = {}, nil
      for _, from in ipairs { common, case[1] } do
        for key, value in pairs(from) do opts[key] = value end
      end
      if opts.sslcert == false then opts.sslcert, opts.sslkey = nil, nil end
      function opts.on_error(_, err)
        reason = tostring(err)
        return 502
      end
      local front <close> = assert(http.serve(0, http.proxy(("https://localhost:%d"):format(behind.port), opts)))
      local conn = http.websocket(("ws://127.0.0.1:%d/"):format(front.port), { noproxy = "*" })
      assert.equal(case[2], conn ~= nil, name)
      if conn then
        conn:write "hello"
        assert.equal("hello", conn:read():take())
        conn:close()
      else
        assert.match(case[3], reason, name)
      end
    end
  end)

  for _, is_secure in ipairs { false, true } do
    it("a proxy with TLS" .. (is_secure and ", and TLS to the server in it" or ""), function()
      local server, url = serve(is_secure)
      local closing <close> = server -- luacheck: ignore 211
      local cert, key = certificates.certify(folder, "proxy", { names = "IP:127.0.0.1" })
      local conns, port = assert(uv.listen("127.0.0.1", 0, { tls = { cert = cert, key = key },
        failed = function() end }))
      local heads = {}
      rn.go(function()
        for conn in conns do
          rn.go(function()
            local proxied <close> = conn
            local r = uv.reader(proxied)
            for line in r:lines() do
              if line == "" then break end
              heads[#heads + 1] = line
            end
            r:close()
            join(proxied, server.port, "HTTP/1.1 200 OK\r\n\r\n")
          end)
        end
      end)
      local tls = { ca = folder.path .. "/ca" }
      local proxy = "https://127.0.0.1:" .. port
      assert(try(url, { proxy = proxy, proxy_tls = tls, tls = is_secure and tls or nil }, { cainfo = tls.ca,
        proxy_cainfo = tls.ca, httpproxytunnel = true }))
      assert.match("^CONNECT localhost:%d+ HTTP/1.1$", heads[1])
      local _, err = http.websocket(url, { proxy = proxy, tls = is_secure and tls or nil })
      assert.match("through the proxy 127.0.0.1:%d+: .*certificate", err) -- nobody trusts it
      conns:close()
    end)
  end
end)
