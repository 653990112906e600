-- HTTP between the hosts of a simulated world.

local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"

local has_luv = pcall(require, "luv")
local has_http, http = pcall(require, "runnel.http")
has_http = has_http and pcall(function() return http.get end) and pcall(function() return http.serve end)

describe("runnel.http in a simulated world", function()
  if not has_luv then return pending "luv is not installed" end
  if not has_http then return pending "libcurl is not installed" end
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Runs a server with this function, and `client` on another host. Returns what the client returns.
  local function between(f, client, opts)
    return sim.run(function()
      local world, result = sim.world(), nil
      world:host("server", function() assert(http.serve(80, f, opts or { host = "0.0.0.0" })) end)
      world:host("client", function()
        rn.yield()
        result = table.pack(client(world))
      end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  it("answers requests by name, in virtual time", function()
    local response, elapsed = between(function(req)
      rn.sleep(1000)
      return 200, { ["x-method"] = req.method, ["x-from"] = req.address },
        ("%s %s %s"):format(req.path, req.query.a, req:body())
    end, function()
      local response = assert(http.request { url = "http://server/path?a=b", method = "POST", body = "text" })
      return response, sim.elapsed()
    end)
    assert.equal("/path b text", response.body)
    assert.equal("POST", response.headers["x-method"])
    assert.equal("10.0.0.2", response.headers["x-from"])
    assert.equal("text/plain; charset=utf-8", response.headers["content-type"])
    assert.equal(1004, elapsed)
  end)

  it("carries JSON, and bodies that are channels", function()
    local value, text = between(function(req)
      if req.path == "/json" then return 200, nil, { n = 1 } end
      local ch = rn.chan()
      rn.go(function()
        for _, piece in ipairs { "one ", "two" } do ch:put(piece) end
        ch:close()
      end)
      return 200, nil, ch
    end, function()
      return assert(http.get "http://server/json"):json(), assert(http.get "http://server/text").body
    end)
    assert.same({ n = 1 }, value)
    assert.equal("one two", text)
  end)

  it("tells who cannot be reached", function()
    local errors = {}
    between(function() return 200 end, function(world)
      world:host("idle", function() end)
      for i, url in ipairs { "http://nobody/", "http://idle/", "http://server:81/" } do
        errors[i] = select(2, http.get(url))
      end
    end)
    assert.matches("^nobody: EAI_NONAME", errors[1])
    assert.matches("^idle:80: ECONNREFUSED", errors[2])
    assert.matches("^server:81: ECONNREFUSED", errors[3])
  end)

  it("takes the port from the URL, and no digit of a name or an address", function()
    sim.run(function()
      local world, statuses = sim.world(), {}
      world:host("server1", function()
        assert(http.serve(80, function() return 204 end, { host = "0.0.0.0" }))
        rn.sleep(1)
        for _, place in ipairs { "server1", "server1:80", "server1:", "a:b7@server1", "127.0.0.1", "127.0.0.1:80" } do
          statuses[#statuses + 1] = assert(http.get(("http://%s/"):format(place))).status
        end
      end)
      world:run()
      assert.same({ 204, 204, 204, 204, 204, 204 }, statuses)
    end)
  end)

  it("reaches a server on 127.0.0.1 only from its own host", function()
    local _, err = between(function() return 200 end, function() return http.get "http://server/" end, {})
    assert.matches("ECONNREFUSED", err)
    sim.run(function()
      local world, status = sim.world(), nil
      world:host("alone", function()
        assert(http.serve(8080, function() return 204 end))
        status = assert(http.get "http://localhost:8080/").status
      end)
      world:run()
      assert.equal(204, status)
    end)
  end)

  it("follows redirects to the URLs that the real client follows", function()
    local locations = { ["/a/query"] = "?page=2", ["/a/up"] = "../c", ["/a/part"] = "/c#part", ["/a/none"] = "",
      ["/a/dots"] = "./x/../y", ["/a/space"] = "a b", ["/a/other"] = "//server/d", ["/a/scheme"] = "ftp://server/" }
    local function give(req)
      if locations[req.target] then return 302, { Location = locations[req.target] }, "" end
      return 200, nil, req.target
    end
    local function ask(base)
      local got = {}
      for path in pairs(locations) do
        local response, err = http.get(base .. path)
        local behind = response and response.url:gsub("^.-//[^/]*", "")
        got[path] = response and ("%d %s %s"):format(response.status, response.body, behind)
          or tostring(err):match "Protocol"
      end
      return got
    end
    local expected = { ["/a/query"] = "200 /a/query?page=2 /a/query?page=2", ["/a/up"] = "200 /c /c",
      ["/a/part"] = "200 /c /c#part", ["/a/none"] = "302  /a/none", ["/a/dots"] = "200 /a/y /a/y",
      ["/a/space"] = "200 /a/a%20b /a/a%20b", ["/a/scheme"] = "Protocol" }
    local simulated = between(give, function() return ask "http://server" end)
    assert.equal("200 /d /d", simulated["/a/other"])
    simulated["/a/other"], locations["/a/other"] = nil, nil
    assert.same(expected, simulated)
    local server <close> = assert(http.serve(0, give))
    assert.same(expected, ask(server.url:match "^(.-)/?$"))
  end)

  it("sends no body, and no password, to where they do not belong after a redirect", function()
    local got = between(function(req)
      if req.path == "/form" then return 303, { Location = "/seen" }, "" end
      if req.path == "/same" then return 302, { Location = "http://server:80/seen" }, "" end
      if req.path == "/other" then return 302, { Location = "http://localhost:81/seen" }, "" end
      return 200, nil, ("%s %s %s"):format(req.method, req:body(), req.headers.authorization)
    end, function()
      local secret, texts = { Authorization = "secret" }, {}
      texts[1] = assert(http.request { url = "http://server/form", multipart = { { name = "a", data = "b" } } }).body
      texts[2] = assert(http.get("http://server/same", { headers = secret })).body
      local function tell(req) return 200, nil, tostring(req.headers.authorization) end
      local other <close> = assert(http.serve(81, tell)) -- luacheck: ignore 211
      texts[3] = assert(http.get("http://server/other", { headers = secret })).body
      return texts
    end)
    assert.same({ "GET  nil", "GET  secret", "nil" }, got)
  end)

  it("refuses headers with a line break or a zero byte, as a real server does", function()
    for _, headers in ipairs { { X = "a\r\nb" }, { X = "a\0b" }, { ["X\0"] = "a" } } do
      local errors = {}
      local before = rn.on_error(function(err) errors[#errors + 1] = tostring(err) end)
      local response = between(function() return 200, headers, "text" end, function()
        return assert(http.get "http://server/")
      end)
      rn.on_error(before)
      assert.equal(500, response.status)
      assert.equal(1, #errors)
      assert.match("the header .* cannot be set: it has a line break or a zero byte", errors[1])
    end
  end)

  it("cancels the function of a request whose client has given up", function()
    local reason
    local _, err = between(function()
      local ok <close> = setmetatable({}, { __close = function(_, e) reason = e end }) -- luacheck: ignore 211
      rn.sleep(10000)
      return 200
    end, function() return http.get("http://server/", { timeout = 100 }) end)
    assert.is_true(rn.is_timeout(err))
    assert.matches("the client has closed the connection", tostring(reason))
  end)

  it("cancels the function of a request that takes longer than the server's timeout", function()
    local reason
    local response = between(function()
      local ok <close> = setmetatable({}, { __close = function(_, e) reason = e end }) -- luacheck: ignore 211
      rn.sleep(10000)
      return 200
    end, function() return http.get "http://server/" end, { host = "0.0.0.0", timeout = 100 })
    assert.equal(503, response.status)
    assert.is_true(rn.is_timeout(reason))
  end)

  it("drains and closes servers", function()
    local drained, errors = nil, {}
    sim.run(function()
      local world = sim.world()
      world:host("server", function()
        local server = assert(http.serve(80, function()
          rn.sleep(50)
          return 200
        end, { host = "0.0.0.0" }))
        rn.sleep(20)
        drained = server:drain(1000)
      end)
      world:host("client", function()
        rn.yield()
        errors[1] = http.get("http://server/").status
        errors[2] = select(2, http.get "http://server/")
      end)
      world:run()
    end, { leaks = true })
    assert.is_true(drained)
    assert.equal(200, errors[1])
    assert.matches("ECONNREFUSED", errors[2])
  end)

  it("sends a request again as the real client does: GET on a connection that was kept, and never POST #ci", function()
    local function test(method)
      local world = sim.world { faults = { reset = 1 } }
      local came = 0
      world:host("server", function()
        assert(http.serve(80, function(req)
          if req.path == "/order" then came = came + 1 end
          return 200
        end, { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        http.get "http://server/"
        local response = http.request { url = "http://server/order", method = method }
        if came > 1 then error("it came twice", 0) end
        if response then assert(came == 1) end
      end)
      world:run()
    end
    for _, method in ipairs { "GET", "PUT", "DELETE" } do search.finds("it came twice", function() test(method) end) end
    for _, method in ipairs { "POST", "PATCH" } do search.finds_nothing(function() test(method) end) end
  end)

  it("loses an answer after the request was done: a retry that is not idempotent is found", function()
    local function test(mended)
      local world = sim.world { faults = { reset = 1 } }
      local sum, done = 0, {}
      world:host("bank", function()
        assert(http.serve(80, function(req)
          local id, n = req:body():match "(%d+) (%d+)"
          if not (mended and done[id]) then sum = sum + n end
          done[id] = true
          return 200
        end, { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        for _ = 1, 5 do
          local response = http.request { url = "http://bank/deposit", method = "POST", body = "1 5" }
          if response then return end
        end
        error "no answer"
      end)
      world:run()
      if sum ~= 5 then error("the sum is " .. sum, 0) end
    end
    assert.matches('client %-> bank: "POST /deposit 1 5', search.finds_bug("the sum is 10", test))
  end)

  describe("WebSocket", function()
    if not pcall(require, "runnel.websocket.core") then return pending "zlib is not installed" end

    -- The same for a server whose function gets the connection.
    local function connected(f, client, opts, url)
      return between(function(req)
        local conn, err, status, headers = req:websocket(opts)
        if not conn then return status, headers, err end
        f(conn, req)
      end, function(world)
        local conn <close> = assert(http.websocket(url or "ws://server/chat", { ping = false, protocols = { "p" } }))
        return client(conn, world)
      end)
    end

    local function echo(conn)
      for message in conn:read() do conn:write(message) end
    end

    it("carries messages both ways, in virtual time", function()
      local big = ("x"):rep(200000)
      local seen = connected(echo, function(conn)
        local seen = {}
        for _, message in ipairs { "hello", { binary = "\0\255" }, big } do
          conn:write(message)
          seen[#seen + 1] = conn:read():take()
        end
        seen[#seen + 1] = conn.protocol
        return seen
      end, { ping = false, protocols = { "p" } })
      assert.same({ "hello", { binary = "\0\255" }, big, "p" }, seen)
      assert.is_true(sim.elapsed() < 100)
    end)

    it("tells the server's function of the request, and of the end", function()
      local path, address, code, reason
      connected(function(conn, req)
        path, address = req.path, req.address
        assert.is_nil((conn:read():take()))
        code, reason = conn.code, conn.reason
      end, function(conn) conn:close(3000, "enough") end, { ping = false }, "wss://server:80/chat?a=b")
      assert.same({ "/chat", "10.0.0.2", 3000, "enough" }, { path, address, code, reason })
    end)

    it("ends with 1000 when the function returns, 1011 when it fails, and 1001 when the server drains", function()
      local function ending(f)
        return connected(f, function(conn)
          for _ in conn:read() do end
          return conn.code
        end, { ping = false })
      end
      assert.equal(1000, ending(function() end))
      local errors = {}
      local before = rn.on_error(function(err) errors[#errors + 1] = err end)
      assert.equal(1011, ending(function() error "wrong" end))
      rn.on_error(before)
      assert.matches("wrong", errors[1])
      local code = sim.run(function()
        local world, code = sim.world(), nil
        world:host("server", function()
          local server = assert(http.serve(80, function(req)
            for _ in assert(req:websocket { ping = false }):read() do end
          end, { host = "0.0.0.0" }))
          rn.sleep(100)
          assert.is_true(server:drain())
        end)
        world:host("client", function()
          rn.yield()
          local conn <close> = assert(http.websocket("ws://server/", { ping = false }))
          for _ in conn:read() do end
          code = conn.code
        end)
        world:run()
        return code
      end)
      assert.equal(1001, code)
    end)

    it("is refused by a function that answers otherwise, with its headers", function()
      local err, response = between(function(req)
        if req.path == "/no" then return 403, { ["X-Why"] = "not you" }, "go away" end
        if req.path == "/channel" then return 404, nil, rn.to_chan { "go ", "away" } end
        return select(3, req:websocket { origins = {} })
      end, function()
        local conn <close> = assert(require("runnel.uv").connect("server", 80))
        conn:write "GET /channel HTTP/1.1\r\nHost: server\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
        assert.match("^HTTP/1.1 404 .*\r\n\r\ngo away$", table.concat(rn.into({}, conn:read()):take()))
        local _, err, response = http.websocket "ws://server/no"
        assert.equal(403, select(3, http.websocket("ws://server/", { origin = "https://other.example" })).status)
        return err, response
      end)
      assert.equal("the server has answered with status 403", err)
      assert.equal("not you", response.headers["x-why"])
    end)

    it("is cut by a crash, and found dead by pings on a silent connection", function()
      local codes = {}
      for _, ends in ipairs { "crash", "partition" } do
        sim.run(function()
          local world = sim.world()
          local server = world:host("server", function()
            assert(http.serve(80, function(req) echo(assert(req:websocket())) end, { host = "0.0.0.0" }))
          end)
          world:host("client", function()
            rn.yield()
            local conn <close> = assert(http.websocket("ws://server/", { ping = 1000 }))
            local _, err = conn:read():take()
            codes[#codes + 1] = conn.code
            codes[#codes + 1] = rn.is_timeout(err)
          end)
          rn.sleep(100)
          if ends == "crash" then server:crash() else world:partition("server", "client") end
          world:run(10000)
        end)
      end
      assert.same({ 1006, false, 1006, true }, codes)
    end)

    it("loses a message that was not acknowledged before a reset: a search finds it", function()
      local function test(mended)
        local world, got = sim.world { faults = { reset = 1 } }, {}
        world:host("server", function()
          assert(http.serve(80, function(req)
            local conn = req:websocket { ping = false }
            for message in conn and conn:read() or function() end do
              if not got[message] then got[#got + 1] = message end
              got[message] = true
              if mended then conn:write(message) end
            end
            return 400
          end, { host = "0.0.0.0" }))
        end)
        world:host("client", function()
          for _ = 1, 5 do
            rn.sleep(1)
            local conn <close> = http.websocket("ws://server/", { ping = false })
            if conn then
              local sent = conn:write "hello"
              if sent and (not mended or conn:read():take() == "hello") then return end
            end
          end
          error "no answer"
        end)
        world:run()
        if #got ~= 1 then error(("the server has got %d messages"):format(#got), 0) end
      end
      local story = search.finds_bug("the server has got 0 messages", test)
      assert.equal(story, search.finds("", function() test(false) end))
    end)
  end)

  it("is an error outside hosts, and without a world", function()
    local function fails(pattern, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(pattern, err)
    end
    local function get() assert(http.get "http://server/") end
    local function serve() assert(http.serve(80, print)) end
    sim.run(function()
      fails("world_http_spec.lua:%d+: get: .* http.fake%(f%), or to a host of a simulated world %(sim.world%)", get)
      fails("world_http_spec.lua:%d+: serve: a server needs real time, .* a simulated world", serve)
      sim.world()
      fails("world_http_spec.lua:%d+: get: .* belongs to no host", get)
      fails("world_http_spec.lua:%d+: serve: a server needs real time", serve)
    end)
  end)
end)
