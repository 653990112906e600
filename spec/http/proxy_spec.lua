-- http.get through a proxy, which is written here: for http it gets the whole URL, for https it makes a tunnel.

local rn = require "runnel"
local http_stage = require "spec.support.http.http_stage"
local uv_stage = require "spec.support.uv_stage"

describe("a proxy of runnel.http", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"
  local uv = require "runnel.uv"
  local tls = require "spec.support.tls"
  local listen = http_stage.serve

  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Reads the head of a request. Returns its lines, and what came behind it.
  local function read_head(conn)
    local held = ""
    while not held:find("\r\n\r\n", 1, true) do
      local chunk = conn:read():take()
      if not chunk then return nil end
      held = held .. chunk
    end
    return held:match "^(.-\r\n)\r\n(.*)$"
  end

  -- Moves bytes until one side ends. A client that resets its connection has ended, too: takes that error.
  local function move(from, to)
    repeat
      local chunk = from:read():take()
    until chunk == nil or not to:write(chunk)
  end

  -- Moves bytes in both directions, until one side ends.
  local function tunnel(one, other)
    local there = rn.go(function()
      move(one, other)
      other:close()
    end)
    move(other, one)
    one:close()
    there:take()
  end

  -- A proxy that knows no names: every host is this one. Returns its URL, and a list of the heads that it has got.
  local function proxy(wants)
    local heads = {}
    local port = listen(function(conn)
      local head, rest = read_head(conn)
      if not head then return end
      heads[#heads + 1] = head
      if wants and not head:find(wants, 1, true) then
        conn:write "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        return
      end
      local method, target = head:match "^(%u+) (%S+) HTTP/1.1\r\n"
      local there, path = target:match "^http://[^/]-:(%d+)(/.*)$"
      there = there or target:match ":(%d+)$"
      local closing <close> = assert(uv.connect("127.0.0.1", math.tointeger(there)))
      if method == "CONNECT" then
        conn:write "HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n"
      else
        closing:write(head:gsub("^%u+ %S+", method .. " " .. path, 1) .. "\r\n" .. rest)
      end
      tunnel(conn, closing)
    end)
    return ("http://127.0.0.1:%d"):format(port), heads
  end

  -- A server whose answer's body is the head that it has got.
  local function mirror()
    return listen(function(conn)
      while true do
        local head = read_head(conn)
        if not head then return end
        conn:write(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#head, head))
      end
    end)
  end

  it("gets the whole URL, and a name and a password that the server does not see", function()
    local port = mirror()
    local url, heads = proxy()
    local page = assert(http.get(("http://far.invalid:%d/a?b=c"):format(port),
      { proxy = url, proxyuserpwd = "me:secret" }))
    assert.equal(1, #heads)
    assert.matches(("^GET http://far.invalid:%d/a%%?b=c HTTP/1.1\r\n"):format(port), heads[1])
    assert.matches("\r\nProxy%-Authorization: Basic bWU6c2VjcmV0\r\n", heads[1])
    assert.matches("^GET /a%?b=c HTTP/1.1\r\nHost: far.invalid:%d+\r\n", page.body)
  end)

  it("is not asked for the hosts in noproxy", function()
    local port = mirror()
    local url, heads = proxy()
    assert(http.get(("http://127.0.0.1:%d/"):format(port), { proxy = url, noproxy = "127.0.0.1" }))
    assert.equal(0, #heads)
  end)

  it("is not asked for the names, addresses and networks in noproxy", function()
    local proxies = require "runnel.http.proxy"
    for host, lists in pairs {
      ["a.example.org"] = { ["a.example.org"] = true, ["x, example.org"] = true, [".org."] = true,
        ["A.EXAMPLE.ORG"] = true, ["*"] = true,
        [""] = false, ["b.example.org"] = false, ["ample.org"] = false, ["10.0.0.0/8"] = false },
      ["10.1.2.3"] = { ["10.1.2.3"] = true, ["10.0.0.0/8"] = true, ["10.1.2.0/24 x"] = true, ["10.1.2.2/31"] = true,
        ["10.1.2.3/32"] = true, ["8.0.0.0/6"] = true, ["*"] = true, ["10.1.2.4/31"] = false, ["10.1.2.0"] = false,
        ["2.3"] = false, ["0.0.0.0/0"] = false, ["10.1.2.3/33"] = false, ["300.1.1.1/8"] = false, ["::/1"] = false,
        ["10.0.0.0/x"] = false },
      ["fe80::1"] = { ["fe80::1"] = true, ["fe80:0::0:1"] = true, ["fe80::/10"] = true, ["fe80::/64"] = true,
        ["fe80::1/128"] = true, ["fe80::2"] = false, ["fe81::/16"] = false, ["fe80::/129"] = false,
        ["fe80::1::/8"] = false, ["1:2:3:4:5:6:7:8:9/8"] = false, ["fe80/8"] = false, ["10.0.0.0/8"] = false },
    } do
      for list, expected in pairs(lists) do
        local text = proxies.text("http", host, { proxy = "x", noproxy = list })
        assert.equal(expected, text == nil, ("%s, noproxy=%q"):format(host, list))
      end
    end
  end)

  it("is that of the environment if there is no option", function()
    local port = mirror()
    local url, heads = proxy()
    local path = uv_stage.path(([[
      local http = require "runnel.http"
      io.write(assert(http.get("http://far.invalid:%d/x")).body)
      io.write(tostring(http.get("http://far.invalid:%d/y", { proxy = "" })))
    ]]):format(port, port))
    local program = uv.spawn { os.getenv "LUA" or "lua5.4", path,
      env = { http_proxy = url, no_proxy = false, NO_PROXY = false } }
    local out = table.concat(rn.into({}, program.stdout):take())
    assert.equal(0, program.exit:take().code)
    assert.matches("^GET /x HTTP/1.1", out)
    assert.matches("nil$", out) -- "" is no proxy, and there is no such host
    assert.equal(1, #heads)
  end)

  it("makes a tunnel for http, too, if that is wanted", function()
    local port = mirror()
    local url, heads = proxy()
    local page = assert(http.get(("http://far.invalid:%d/"):format(port), { proxy = url, httpproxytunnel = true }))
    assert.matches(("^CONNECT far.invalid:%d HTTP/1.1\r\n"):format(port), heads[1])
    assert.matches("^GET / HTTP/1.1\r\n", page.body)
    assert.is_nil(page.headers["x-proxy"]) -- its headers are not those of the response
  end)

  it("makes a tunnel for https, and does not see what is in it", function()
    if not tls.has "openssl" then return pending "openssl is not installed" end
    local folder <close> = tls.folder()
    local port, server <close> = tls.serve(tls.s_server(folder)) -- luacheck: ignore 211
    local url, heads = proxy()
    local page = assert(http.get(("https://localhost:%d/secret"):format(port),
      { proxy = url, cainfo = folder.path .. "/ca", forbid_reuse = true }))
    assert.equal(200, page.status)
    assert.is_nil(page.headers["x-proxy"])
    assert.equal(1, #heads)
    assert.matches(("^CONNECT localhost:%d HTTP/1.1\r\n"):format(port), heads[1])
    assert.is_nil(heads[1]:find "secret")
    local other, err = http.get(("https://localhost:%d/"):format(port), { proxy = url, forbid_reuse = true })
    assert.is_nil(other)
    assert.matches("certificate", err)
  end)

  it("that refuses is an error for a tunnel, and a response otherwise", function()
    local port = mirror()
    local url = proxy "Proxy-Authorization: Basic bWU6c2VjcmV0"
    local page, err = http.get(("https://localhost:%d/"):format(port), { proxy = url })
    assert.is_nil(page)
    assert.matches("^localhost:%d+: .*407", err)
    assert.equal(407, assert(http.get(("http://localhost:%d/"):format(port), { proxy = url })).status)
    assert.equal(200, assert(http.get(("http://localhost:%d/"):format(port),
      { proxy = url, proxyuserpwd = "me:secret" })).status)
  end)

  it("that is not there, or says nothing, is an error", function()
    local page, err = http.get("http://far.invalid/", { proxy = "http://127.0.0.1:1" })
    assert.is_nil(page)
    assert.matches("^far.invalid: through the proxy 127.0.0.1:1: cannot connect: Connection refused$", err)
    local silent = listen(function(conn) for _ in conn:read() do end end)
    page, err = http.get("https://far.invalid/", { proxy = "http://127.0.0.1:" .. silent, timeout = 100 })
    assert.is_nil(page)
    assert.is_true(rn.is_timeout(err))
  end)
end)
