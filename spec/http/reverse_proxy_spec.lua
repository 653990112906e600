-- http.proxy: requests that are passed on to another server.

local both = require("spec.support.in_world")(it)
local http_stage = require "spec.support.http.http_stage"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("http.proxy", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"
local has_websocket = pcall(function() return http.websocket end)

-- A server with a function, and one that passes requests on to it. Returns the second, and a function that closes both.
local function behind(f, opts, path)
  local server = assert(http.serve(0, f))
  local front = assert(http.serve(0, http.proxy(server.url .. (path or ""), opts)))
  return front, setmetatable({}, { __close = function()
    front:close()
    server:close()
  end })
end

-- A channel, and a handler that puts what has happened on it.
local function events()
  local ch = rn.chan(100)
  return ch, function(what) ch:offer(what) end
end

describe("http.proxy", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  both("passes requests and responses on: method, path, query, headers, bodies", function()
    local front, closing <close> = behind(function(req) -- luacheck: ignore 211
      return 201, { ["X-Method"] = req.method, ["X-Length"] = req.headers["content-length"], ["Set-Cookie"] =
        { "a=1", "b=2, c" }, Connection = "close", ["Content-Type"] = "x/y" }, ("%s %s %s"):format(req.target,
        req.headers["x-a"] or "-", req:body())
    end)
    local url = front.url
    local res = assert(http.request { url = url .. "a%2fb?c=d&c=e", method = "PUT", body = "text",
      headers = { ["X-A"] = "1" } })
    local body = res.body:gsub("%%2F", "%%2f") -- libcurl since 8.2x writes upper case
    assert.same({ 201, "/a%2fb?c=d&c=e 1 text" }, { res.status, body })
    assert.same({ "PUT", "4", "x/y" },
      { res.headers["x-method"], res.headers["x-length"], res.headers["content-type"] })
    assert.same({ "a=1", "b=2, c" }, res.headers["set-cookie"])
    assert.equal("DELETE", assert(http.request { url = url, method = "DELETE" }).headers["x-method"])
    assert.equal("0", assert(http.request { url = url, method = "POST" }).headers["x-length"])
  end)

  both("adds the path of its URL, and takes the rest of its route", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req.target end))
    local front <close> = assert(http.serve(0, http.router {
      ["/api/*rest"] = http.proxy(server.url .. "v1/"), ["/*path"] = http.proxy(server.url),
    }))
    local targets = { ["api/users?a=b"] = "/v1/users?a=b", ["api/"] = "/v1/", ["x/y"] = "/x/y", [""] = "/" }
    for path, target in pairs(targets) do
      assert.equal(target, assert(http.get(front.url .. path)).body)
    end
  end)

  both("says who has sent the request, and believes what the client says only if that is a proxy of yours", function()
    local function show(req)
      return 200, nil, { host = req.headers.host, via = req.headers.via, ip = req.headers["x-forwarded-for"],
        name = req.headers["x-forwarded-host"], proto = req.headers["x-forwarded-proto"],
        all = req.headers.forwarded }
    end
    local server <close> = assert(http.serve(0, show))
    local place = server.url:match "//([^/]+)"
    local said = { ["X-Forwarded-For"] = "6.6.6.6", ["X-Forwarded-Host"] = "a.example",
      ["X-Forwarded-Proto"] = "https", Forwarded = "for=6.6.6.6", Host = "b.example", Via = "1.0 c" }
    local function ask(opts)
      local front <close> = assert(http.serve(0, http.proxy(server.url, opts)))
      return assert(http.get(front.url, { headers = said })):json()
    end
    local found = ask()
    local own = ('for=%s;host="b.example";proto=http'):format(found.ip)
    assert.match("^%d+%.%d+%.%d+%.%d+$", found.ip)
    assert.same({ host = place, via = "1.0 c, 1.1 runnel", ip = found.ip, name = "b.example", proto = "http",
      all = own }, found)
    local kept = ask { behind_proxy = true, keep_host = true }
    assert.same({ host = "b.example", via = "1.0 c, 1.1 runnel", ip = "6.6.6.6, " .. found.ip, name = "a.example",
      proto = "https", all = "for=6.6.6.6, " .. own }, kept)
  end)

  both("passes on what has come, in both directions at once", function()
    local front, closing <close> = behind(function(req) -- luacheck: ignore 211
      local out = rn.chan()
      rn.go(function()
        for piece in req:pieces() do out:put(piece:upper()) end
        out:close()
      end)
      return 200, nil, out
    end)
    local body = rn.chan()
    local pieces, head = http.stream(front.url, { body = body })
    body:put "first "
    assert.equal("FIRST ", pieces:take())
    assert.equal(200, head().status)
    body:put "second"
    assert.equal("SECOND", pieces:take())
    body:close()
    assert.same({ nil, nil }, { pieces:take() })
  end)

  both("passes on early hints at once, and announced trailers", function()
    local goes_on, heard = rn.chan(), rn.chan(5)
    local front, closing <close> = behind(function(req) -- luacheck: ignore 211
      req:hints { Link = "</a.css>", ["Keep-Alive"] = "x" }
      goes_on:take()
      local out = rn.chan()
      rn.go(function()
        out:put "page"
        req:trailer("X-Sum", 7)
        req:trailer("X-Other", 8)
        out:close()
      end)
      return 200, { Trailer = "x-sum" }, out
    end)
    local res = assert(http.get(front.url, { hints = function(headers)
      heard:put(headers)
      goes_on:put(true)
    end }))
    assert.same({ link = "</a.css>" }, heard:take())
    assert.same({ "page", { ["x-sum"] = "7" }, "x-sum" }, { res.body, res.trailers, res.headers.trailer })
    rn.go(function() goes_on:put(true) end)
    res = assert(http.get(front.url, { headers = { TE = "trailers" } }))
    assert.same({ ["x-sum"] = "7", ["x-other"] = "8" }, res.trailers)
  end)

  it("waits for as long as its option idle says, in a simulated world", function()
    for idle, expected in pairs { [1000] = 504, [false] = 200 } do
      local status
      sim.run(function()
        local world = sim.world()
        world:host("behind", function()
          assert(http.serve(80, function()
            rn.sleep(60000)
            return 200
          end, { host = "0.0.0.0", timeout = 120000 }))
        end)
        world:host("front", function()
          assert(http.serve(80, http.proxy("http://behind", { idle = idle, on_error = function(_, _, n) return n end }),
            { host = "0.0.0.0", timeout = 120000 }))
        end)
        world:host("client", function()
          rn.sleep(1)
          status = assert(http.get "http://front/").status
        end)
        world:run(200000)
      end)
      assert.equal(expected, status)
    end
  end)

  -- What a client gets from a proxy before a server that sends these bytes; and what the server gets.
  local function through(answer, headers, first)
    local asked = ""
    local port = http_stage.serve(function(conn)
      for piece in conn:read() do
        asked = asked .. piece
        if asked:find "\r\n\r\n" then break end
      end
      conn:write(answer)
      conn:close()
    end)
    local front <close> = assert(http.serve(0, http.proxy(("http://127.0.0.1:%d"):format(port))))
    return web.exchange(front, (first or "GET / HTTP/1.1") .. "\r\nHost: x\r\nConnection: close\r\n" .. (headers or "")
      .. "\r\n"), asked:lower()
  end

  local CHUNKED <const> = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"

  it("passes on trailers that are wanted or announced, but none by which a message is read", function()
    local answer = CHUNKED .. "Connection: X-Named\r\nTrailer: X-A, X-Named, Content-Length, Set-Cookie\r\n\r\n"
      .. "1\r\nx\r\n0\r\nX-A: 1\r\nX-Named: 2\r\nContent-Length: 9\r\nX-B: 3\r\nTransfer-Encoding: chunked\r\n"
      .. "Set-Cookie: a=b\r\nKeep-Alive: 4\r\nAuthorization: 5\r\nX-C: a\1b\r\nX-A : 6\r\nConnection: X-B\r\n"
      .. "HTTP2-Settings: 7\r\n\r\n"
    local got, asked = through(answer)
    assert.match("\r\n1\r\nx\r\n0\r\nX%-A: 1\r\n\r\n$", (got:gsub("x%-a: ", "X-A: ")))
    assert.is_nil(asked:find "\r\nte: ")
    got, asked = through(answer, "TE: gzip, Trailers\r\n")
    local last = {}
    for line in got:match "\r\n0\r\n(.-)\r\n\r\n$":gmatch "[^\r\n]+" do last[#last + 1] = line:lower() end
    table.sort(last)
    assert.same({ "x-a: 1", "x-b: 3" }, last)
    assert.match("\r\nte: trailers\r\n", asked)
    assert.match("\r\nconnection: te\r\n", asked)
    assert.match("\r\n\r\nx$", (through(answer, "TE: trailers\r\n", "GET / HTTP/1.0")))
    assert.is_nil(select(2, through(answer, "TE: trailers;q=0\r\n")):find "\r\nte: ")
  end)

  it("passes on early hints without what is for one connection, no malformed ones, and none to HTTP/1.0", function()
    local hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-A: 1\r\nConnection: X-A\r\nContent-Length: 3\r\n\r\n"
      .. "HTTP/1.1 103 Early Hints\r\nX-A: a\1b\r\n\r\n"
    local answer = hints .. "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Type: x\r\n\r\ntext"
    local got = through(answer)
    assert.match("^HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n.*\r\n\r\ntext$", got)
    assert.match("^HTTP/1.1 200 OK\r\n", (through(answer, "", "GET / HTTP/1.0")))
  end)

  it("leaves a compressed body as it is, and asks for none by itself", function()
    local front, closing <close> = behind(http.compress(function(req) -- luacheck: ignore 211
      return 200, { ["X-Asked"] = req.headers["accept-encoding"] or "no", ["X-Agent"] = req.headers["user-agent"] or
        "no", ["X-Accept"] = req.headers.accept or "no" }, ("text "):rep(1000)
    end))
    local res = assert(http.get(front.url))
    assert.same({ "gzip", 5000 }, { res.headers["content-encoding"], #res.body })
    local _, plain, headers = web.ask(front, "GET /")
    assert.equal(5000, #plain)
    assert.match("x%-asked: no\r\n", headers)
    assert.match("x%-agent: no\r\n", headers)
    assert.match("x%-accept: no\r\n", headers)
    local _, coded = web.ask(front, "GET /", "Accept-Encoding: gzip\r\n\r\n")
    assert.is_true(coded:find("\31\139", 1, true) ~= nil)
  end)

  it("passes on a body that http.compress has decompressed, and the limit of http.within", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req:body() end))
    local front <close> = assert(http.serve(0, http.within(http.compress(http.proxy(server.url)), { max = 100 })))
    local deflater = require("runnel.core").internal.require("runnel.http.curl").deflater(6)
    local text = deflater:deflate(("a"):rep(1000), "finish")
    local coded = { url = front.url, body = text, headers = { ["Content-Encoding"] = "gzip" } }
    assert.equal(1000, #assert(http.request(coded)).body)
    local long = rn.chan(3)
    for _ = 1, 3 do long:put(("a"):rep(50)) end
    long:close()
    assert.equal(413, assert(http.request { url = front.url, body = long }).status)
  end)

  -- What the server behind sees of a client that goes away, at each place where the proxy may wait.
  local places = {
    ["for the head of the response"] = function(say)
      return function() say "begun" rn.chan():take() end
    end,
    ["for a piece of the response"] = function(say)
      return function()
        local out = rn.chan()
        rn.go(function()
          out:put "piece"
          say "begun"
          out:done():take()
          say "over"
        end)
        return 200, nil, out
      end
    end,
    ["for the rest of the request"] = function(say)
      return function(req)
        local ch = req:pieces()
        ch:take()
        say "begun"
        ch:take()
      end
    end,
  }
  for name, make in pairs(places) do
    it("ends the request to the server behind when the client goes away while it waits " .. name, function()
      local ch, say = events()
      local f = make(say)
      local front, closing <close> = behind(function(req) -- luacheck: ignore 211
        local leaving <close> = setmetatable({}, { __close = function(_, err) -- luacheck: ignore 211
          if err ~= nil then say "over" end
        end })
        return f(req)
      end)
      local conn <close> = assert(require("runnel.uv").connect("127.0.0.1", front.port))
      conn:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello"
      assert.equal("begun", ch:take())
      conn:close()
      assert.equal("over", ch:take())
      stage.heard() -- the server behind reports nothing, and the proxy may report a cut body
    end)
  end

  both("answers 502 if there is no server, and reports why", function()
    local front <close> = assert(http.serve(0, http.proxy "http://127.0.0.1:1"))
    local res = assert(http.get(front.url))
    assert.same({ 502, "502: the server behind this one has failed\n" }, { res.status, res.body })
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.match("127%.0%.0%.1:1: ", tostring(heard[1].err))
    assert.match("^http%.proxy", heard[1].name)
  end)

  it("tells the program's handler what is wrong with a response, and where it is from", function()
    local told
    local f = http.proxy("http://behind", { on_error = function(_, err, status)
      told = err
      return status
    end })
    local before = http.fake(f)
    local function answer() return 200, { ["A b"] = "x" } end
    local function ask() return assert(http.get "http://front/").status end
    http.fake(function(req) return (req.headers.host == "behind" and answer or f)(req) end)
    assert.equal(502, ask())
    assert.equal('http://behind: it has answered with a malformed header "a b"', told)
    function answer() return 600 end
    assert.equal(502, ask())
    assert.equal("http://behind: it has answered with status 600", told)
    http.fake(before)
    if not has_websocket then return end
    local front <close> = assert(http.serve(0, http.proxy("http://127.0.0.1:1", { on_error = function(req, err, status)
      told = { req.path, type(err), status }
      return status
    end })))
    assert.is_nil((http.websocket(front.url:gsub("^http", "ws") .. "chat")))
    assert.same({ "/chat", "string", 502 }, told)
  end)

  it("answers 504 if there is no connection in time", function()
    local uv = require "runnel.uv"
    local full, port = assert(uv.listen("127.0.0.1", 0)) -- accepts, and says nothing, so the TLS handshake never ends
    local front <close> = assert(http.serve(0, http.proxy(("https://127.0.0.1:%d"):format(port), {
      connect_timeout = 50,
    })))
    local res = assert(http.get(front.url))
    assert.same({ 504, "504: the server behind this one has not answered in time\n" }, { res.status, res.body })
    assert.equal(1, #stage.heard())
    full:close()
  end)

  both("answers 504 if the server behind sends nothing for too long, and lets the program say what", function()
    local stuck = rn.chan()
    local front, closing <close> = behind(function() stuck:take() return 204 end, { -- luacheck: ignore 211
      idle = 50, on_error = function(req, err, status)
        return status, { ["X-Path"] = req.path }, tostring(rn.is_timeout(err))
      end,
    })
    local res = assert(http.get(front.url .. "a"))
    assert.same({ 504, "/a", "true" }, { res.status, res.headers["x-path"], res.body })
    stuck:close()
  end)

  both("cuts a response in which nothing comes for too long, but waits for a slow client", function()
    local front, closing <close> = behind(function(req) -- luacheck: ignore 211
      if req.path == "/slow" then return 200, nil, req:body() end
      local out = rn.chan()
      rn.go(function() out:put "piece" end)
      return 200, nil, out
    end, { idle = 200 * patience.factor() })
    local body = rn.chan()
    local pieces = http.stream(front.url .. "slow", { body = body })
    for _ = 1, 5 do
      body:put "x"
      rn.sleep(100)
    end
    body:close()
    assert.equal("xxxxx", pieces:take())
    local cut, head = http.stream(front.url)
    assert.equal("piece", cut:take())
    assert.equal(200, head().status)
    local piece, err = cut:take()
    assert.is_nil(piece)
    assert.is_truthy(err)
    assert.match("nothing has come", tostring(stage.heard()[1].err))
  end)

  if has_websocket then
    both("lets WebSockets through: messages, their kinds, the subprotocol, and how they are closed", function()
      local codes = rn.chan(2)
      local front, closing <close> = behind(function(req) -- luacheck: ignore 211
        local conn, err, status, headers = req:websocket { protocols = { "b" }, origins = { "http://a.example" } }
        if not conn then return status, headers, err end
        for message in conn:read() do
          if message == "end" then return conn:close(3001, "enough") end
          conn:write(message)
        end
        codes:put { conn.code, conn.reason }
      end)
      local url = front.url:gsub("^http", "ws") .. "chat"
      local opts = { protocols = { "a", "b" }, origin = "http://a.example" }
      do
        local conn <close> = assert(http.websocket(url, opts))
        assert.equal("b", conn.protocol)
        conn:write "text"
        assert.equal("text", conn:read():take())
        conn:write { binary = "\0\255" }
        assert.same({ binary = "\0\255" }, conn:read():take())
        conn:close(3000, "bye")
        assert.same({ 3000, "bye" }, codes:take())
      end
      local conn <close> = assert(http.websocket(url, opts))
      conn:write "end"
      local _, err = conn:read():take()
      assert.match("3001: enough", tostring(err))
      assert.same({ 3001, "enough" }, { conn.code, conn.reason })
      local none, why, response = http.websocket(url, { origin = "http://evil.example" })
      assert.same({ nil, 403 }, { none, response.status })
      assert.match("status 403", why)
    end)

    it("closes the other end of a WebSocket with 1000 that was closed without a code, as browsers do", function()
      local codes = rn.chan(1)
      local front, closing <close> = behind(function(req) -- luacheck: ignore 211
        local conn = assert(req:websocket())
        conn:read():take()
        codes:put { conn.code, conn.reason }
      end)
      local conn <close> = assert(require "runnel.uv".connect("127.0.0.1", front.port))
      conn:write("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
      assert.match("^HTTP/1.1 101", conn:read():take())
      conn:write "\x88\x80\0\0\0\0" -- an empty close frame
      assert.same({ 1000, "" }, codes:take())
    end)

    both("closes both ends of a WebSocket if a message is too long", function()
      local front, closing <close> = behind(function(req) -- luacheck: ignore 211
        local conn = assert(req:websocket())
        for message in conn:read() do conn:write(message:rep(100)) end
      end, { max_message = 10 })
      local conn <close> = assert(http.websocket((front.url:gsub("^http", "ws"))))
      conn:write "a"
      local message, err = conn:read():take()
      assert.is_nil(message)
      assert.is_truthy(err)
      assert.equal(1011, conn.code)
      stage.heard() -- the error of the proxy's end
    end)

    it("closes the WebSockets of both ends with 1001 when it drains, and when one end is lost", function()
      local codes = rn.chan(2)
      local front, closing <close> = behind(function(req) -- luacheck: ignore 211
        local conn = assert(req:websocket())
        conn:write "here"
        conn:read():take()
        codes:put(conn.code)
      end)
      local conn <close> = assert(http.websocket((front.url:gsub("^http", "ws"))))
      assert.equal("here", conn:read():take())
      assert.is_true(front:drain(10000))
      assert.equal(1001, conn.code)
      assert.equal(1001, codes:take())
    end)
  end

  it("gives HTTP/1.0 and OPTIONS their due: Via, and how many hops are left", function()
    local front, closing <close> = behind(function(req) -- luacheck: ignore 211
      return 200, { ["X-Via"] = req.headers.via, ["X-Hops"] = req.headers["max-forwards"] }
    end)
    assert.match("x%-via: 1%.0 runnel\r\n", web.exchange(front, "GET / HTTP/1.0\r\n\r\n"))
    local _, _, headers = web.ask(front, "OPTIONS /", "Max-Forwards: 3\r\n\r\n")
    assert.match("x%-hops: 2\r\n", headers)
  end)

  it("is found wrong when it is made", function()
    for _, case in ipairs {
      { "a URL such as", "ftp://a" }, { "a URL such as", "http://a:b@c/" }, { "a URL such as", "http://a/?b" },
      { "ipresolve: one of any, 4, 6 expected", "http://a", { ipresolve = "9" } },
      { "a URL expected", 1 }, { "a table of options", "http://a", 1 }, { "unknown option \"idel\"", "http://a",
        { idel = 1 } }, { "idle: a number of milliseconds", "http://a", { idle = 0 } },
      { "keep_host: true or false", "http://a", { keep_host = 1 } }, { "on_error: a function", "http://a",
        { on_error = 1 } }, { "unknown option \"accept_encoding\"", "http://a", { accept_encoding = "gzip" } },
      { "cainfo: a string", "http://a", { cainfo = 1 } },
    } do
      raises("^proxy: .*" .. case[1], function() http.proxy(case[2], case[3]) end)
    end
  end)

  -- Cancels the client, or with `n` the go block of that number of the library, at a moment. All must end. Returns
  -- whether there was one.
  local function cut_short(at, n)
    return sim.run(function()
      local world, found = sim.world(), false
      world:host("behind", function()
        assert(http.serve(80, function(req)
          local out = rn.chan()
          rn.go(function()
            for piece in req:pieces() do
              rn.sleep(5)
              if not out:put(piece) then return end
            end
            out:close()
          end)
          return 200, nil, out
        end, { host = "0.0.0.0" }))
      end)
      world:host("front", function()
        assert(http.serve(80, http.proxy("http://behind", { on_error = function(_, _, status) return status end }),
          { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.sleep(1)
        local caller = rn.go(function()
          local body = rn.chan()
          local pieces = http.stream("http://front/", { body = body })
          for i = 1, 3 do
            body:put(i .. "")
            pieces:take()
          end
          body:close()
          pieces:take()
        end)
        rn.sleep(at)
        local blocks = {}
        for _, entry in ipairs(n and stage.entries() or {}) do
          if entry.name:find "[%a_.]+ at " then blocks[#blocks + 1] = entry.result end
        end
        found = not n or blocks[n] ~= nil
        rn.cancel(n and blocks[n] or caller, "killed")
        rn.sleep(100)
        rn.cancel(caller, "over")
      end)
      world:run(10000)
      return found
    end, { leaks = true })
  end

  it("leaves nothing behind, whenever the client is cancelled", function()
    for at = 0, 60 do
      cut_short(at)
      stage.heard()
    end
  end)

  it("leaves nothing behind, whichever go block of the library is cancelled", function()
    local most = 0
    for at = 2, 40, 3 do
      local n = 1
      while cut_short(at, n) do n = n + 1 end
      most = math.max(most, n - 1)
      stage.heard()
    end
    assert.is_true(most >= 5, most)
  end)
end)
