-- https with certificates of clients, and HTTP/2. The servers are openssl's and nghttp2's.

local rn = require "runnel"
local http_stage = require "spec.support.http.http_stage"
local patience = require "spec.support.patience"

-- The limit for a connection, in ms. The default is short for TLS under valgrind on a busy machine.
local CONNECT <const> = 300000

describe("the client of runnel.http with TLS", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"
  local uv = require "runnel.uv"
  local tls = require "spec.support.tls"
  if not tls.has "openssl" then return pending "openssl is not installed" end

  before_each(http_stage.open)
  after_each(http_stage.close)

  it("shows its own certificate to a server that wants one", function()
    local folder <close> = tls.folder()
    local path = folder.path
    local port, server <close> = tls.serve(tls.s_server(folder, -- luacheck: ignore 211
      "-Verify", "1", "-verify_return_error", "-CAfile", path .. "/ca"))
    local url = ("https://localhost:%d/"):format(port)

    local function get(opts)
      opts.cainfo, opts.forbid_reuse, opts.fresh_connect = path .. "/ca", true, true
      opts.connect_timeout = CONNECT
      return http.get(url, opts)
    end

    local page = assert(get { sslcert = path .. "/client", sslkey = path .. "/client_key" })
    assert.equal(200, page.status)
    assert.matches("Subject: CN ?= ?client", page.body)
    assert.equal(200, assert(get { sslcert = path .. "/client", sslkey = path .. "/locked_key", keypasswd = "secret" })
      .status)
    for pattern, opts in pairs {
      ["certificate required"] = {}, -- none
      ["could not load"] = { sslcert = "/none", sslkey = path .. "/client_key" },
      ["unable to set private key"] =
        { sslcert = path .. "/client", sslkey = path .. "/locked_key", keypasswd = "wrong" },
    } do
      local other, err = get(opts)
      assert.is_nil(other, pattern)
      assert.matches("^localhost:%d+: ", err)
      assert.matches(pattern, err)
    end
  end)

  it("wants a TLS that is new enough, and the right public key #ci", function()
    local folder <close> = tls.folder()
    local port, server <close> = tls.serve(tls.s_server(folder, "-tls1_2")) -- luacheck: ignore 211
    local url = ("https://localhost:%d/"):format(port)
    local function get(opts)
      opts.cainfo, opts.connect_timeout = folder.path .. "/ca", CONNECT
      return http.get(url, opts)
    end
    local pipe = assert(io.popen(("openssl x509 -in %s/cert -pubkey -noout | openssl pkey -pubin -outform der | " ..
      "openssl dgst -sha256 -binary | openssl base64"):format(folder.path)))
    local key = "sha256//" .. pipe:read "l"
    pipe:close()
    assert.equal(200, assert(get { sslversion = "1.2", pinnedpublickey = key }).status)
    local page, err = get { sslversion = "1.3", fresh_connect = true }
    assert.is_nil(page)
    assert.matches("SSL", err)
    local other = "sha256//" .. ("A"):rep(43) .. "="
    page, err = get { pinnedpublickey = other, fresh_connect = true }
    assert.is_nil(page)
    assert.matches("public key", err)
  end)

  it("goes on while servers leave many connections half closed, which libcurl closes in the background #ci", function()
    local folder <close> = tls.folder()
    local conns, port = assert(uv.listen("127.0.0.1", 0,
      { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } }))
    local held = {}
    rn.go(function()
      for conn in conns do
        held[#held + 1] = conn -- it is read no more, so that the client's close_notify has no answer
        rn.go(function()
          local chunks, head = conn:read(), ""
          while not head:find "\r\n\r\n$" do head = head .. assert(chunks:take()) end
          conn:write "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        end)
      end
    end)
    local opts = { cainfo = folder.path .. "/ca", forbid_reuse = true, connect_timeout = CONNECT }
    for _ = 1, 40 do assert.equal("hello", assert(http.get(("https://localhost:%d/"):format(port), opts)).body) end
    conns:close()
    for _, conn in ipairs(held) do conn:close() end
  end)

  it("tells a body that ends with the connection from one that was cut", function()
    local folder <close> = tls.folder()
    local port, server <close> = tls.serve(tls.s_server(folder, "-tls1_2")) -- luacheck: ignore 211
    local ALERT <const> = 21 -- the kind of a record; the server sends one to say that it closes the connection
    local passes_alerts

    -- Moves the server's records to the client, each when all of it has come.
    local function move_records(from, to)
      local held = ""
      while true do
        local kind, size = held:byte(1), #held >= 5 and string.unpack(">I2", held, 4) + 5
        if size and #held >= size then
          if kind == ALERT and not passes_alerts then return end
          to:write(held:sub(1, size))
          held = held:sub(size + 1)
        else
          local chunk = from:read():take()
          if not chunk then return end
          held = held .. chunk
        end
      end
    end

    local relay = http_stage.serve(function(conn)
      local there <close> = assert(uv.connect("127.0.0.1", port))
      local up = rn.go(function()
        local input = conn:read()
        for chunk in input do there:write(chunk) end
        input:take() -- the reason, if it has failed: the client may reset the connection
      end)
      move_records(there, conn)
      conn:shutdown()
      up:take()
    end)

    local url = ("https://localhost:%d/"):format(relay)
    local opts = { cainfo = folder.path .. "/ca", connect_timeout = CONNECT }
    passes_alerts = true
    local page = assert(http.get(url, opts))
    assert.is_nil(page.headers["content-length"])
    assert.matches("</HTML>", page.body)
    passes_alerts = false
    local cut, err = http.get(url, opts)
    if require("runnel.http.curl").version < 0x080e00 then return assert.is_nil(err) end -- libcurl does not tell
    assert.is_nil(cut)
    assert.matches("^localhost:%d+: .*unexpected eof", err)
  end)

  describe("and HTTP/2", function()
    if not tls.has "nghttpd" then return pending "nghttpd is not installed" end

    -- Serves two files. Returns the port, the server, and a table with the numbers of requests by connection.
    local function serve(folder, ...)
      folder:write("page", "a page")
      folder:write("long", ("0123456789"):rep(100000))
      local more = ... and { ... } or { folder.path .. "/key", folder.path .. "/cert" }
      local port, server = tls.serve(function(port)
        return { "nghttpd", "--verbose", "--htdocs=" .. folder.path, "--address=127.0.0.1", tostring(port),
          stdout = "lines", stderr = false, table.unpack(more) }
      end)
      local requests = {}
      rn.go(function()
        for line in server.program.stdout do
          local id = line:match "^%[id=(%d+)%].*recv .*HEADERS"
          if id then requests[id] = (requests[id] or 0) + 1 end
        end
      end)
      return port, server, requests
    end

    -- From this release of libcurl on, requests share connections (csrc/http/client/thread.c).
    local shares = require("runnel.http.curl").version >= 0x080e01
    local how = shares and "shares a connection among requests" or "has a connection for each request under way"

    it(how .. ", and uses connections again #ci", function()
      local folder <close> = tls.folder()
      local port, server <close>, requests = serve(folder) -- luacheck: ignore 211
      local urls, total = {}, 0
      for i = 1, 100 do urls[i] = ("https://localhost:%d/%s"):format(port, i % 5 == 0 and "long" or "page") end
      local opts = { cainfo = folder.path .. "/ca", connect_timeout = CONNECT }
      local function get(url) return http.get(url, opts) end
      for page in rn.pmap(16, get, urls) do
        total = total + 1
        assert.equal(total % 5 == 0 and 1000000 or 6, #page.body) -- in all more than may be neither headers nor body
      end
      assert.equal(100, total)
      local connections
      patience.wait_until(function() -- until the server has written about all
        local sum = 0
        connections = 0
        for _, n in pairs(requests) do connections, sum = connections + 1, sum + n end
        return sum == 100
      end)
      if shares then return assert.equal(1, connections) end
      assert.is_true(connections > 1 and connections <= 17, connections .. " connections")
    end)

    it("has large pages at once, though many are not read, and then has those, too #ci", function()
      local folder <close> = tls.folder()
      local port, server <close> = serve(folder) -- luacheck: ignore 211
      local url = ("https://localhost:%d/long"):format(port)
      local opts = { cainfo = folder.path .. "/ca", connect_timeout = CONNECT }
      local waiting, sizes = {}, {}
      for i = 1, 30 do waiting[i] = http.stream(url, opts) end
      for i = 1, 30 do sizes[i] = #waiting[i]:take() end
      local blocks = {}
      for i = 1, 20 do blocks[i] = rn.go(function() return assert(http.get(url, opts)).body end) end
      for i = 1, 20, 2 do
        rn.cancel(blocks[i], "enough")
        rn.yield()
      end
      for i = 2, 20, 2 do assert.equal(1000000, #assert(blocks[i]:take())) end
      for i = 1, 15 do waiting[i]:close() end
      for i = 16, 30 do
        for piece in waiting[i] do sizes[i] = sizes[i] + #piece end
        assert.equal(1000000, sizes[i])
      end
    end)

    it("needs no TLS if it is known that the server speaks it", function()
      local folder <close> = tls.folder()
      local port, server <close> = serve(folder, "--no-tls") -- luacheck: ignore 211
      local url = ("http://127.0.0.1:%d/page"):format(port)
      local opts = { http_version = "2-prior-knowledge", connect_timeout = CONNECT }
      assert.equal("a page", assert(http.get(url, opts)).body)
      local page, err = http.get(url, { http_version = "1.1", fresh_connect = true })
      assert.is_nil(page)
      assert.is_string(err)
    end)
  end)
end)
