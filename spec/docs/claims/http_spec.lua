-- What the documents say of HTTP servers, requests, routes, files and WebSockets.

local rn = require "runnel"
local http = require "runnel.http"
local process = require "spec.support.process"
local sim = require "runnel.sim"
local claims = require "spec.support.docs.claims"
local missing = require "spec.support.missing"
local no_luv, no_client = missing "luv", missing "luv runnel.http.curl"
local uv = not no_luv and require "runnel.uv"
local claim = claims(no_luv and pending or it, no_luv)
local claim_client = claims(no_client and pending or it, no_client)

-- What a server answers to a text, until it closes the connection.
local function response(server, request)
  local conn = assert(uv.connect("127.0.0.1", server.port))
  conn:write(request)
  local text = table.concat(rn.into({}, conn:read()):take() or {})
  conn:close()
  return text
end

-- The status line of the answer.
local function answer(server, request)
  local conn = assert(uv.connect("127.0.0.1", server.port))
  conn:write(request)
  local line = conn:lines():take()
  conn:close()
  return line
end

local GET <const> = "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n"

describe("the documents say of HTTP servers", function()
  claim("chunk extensions may have 4 KB, and are dropped; [trailers](#trailers-and-early-hints) may have "
    .. "8 KB", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req:body() end))
    local function chunked(extension, trailer)
      local body = ("3;a=%s\r\nabc\r\n0\r\nX: %s\r\n\r\n"):format(("x"):rep(extension), ("x"):rep(trailer))
      return answer(server, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" .. body)
    end
    assert.matches(" 200 ", chunked(4000, 8000))
    assert.matches(" 400 ", chunked(5000, 10))
    assert.matches(" 400 ", chunked(10, 9000))
  end)

  claim("the next 64 get status 503 with `Retry-After: 1`; further ones are closed", function()
    local server <close> = assert(http.serve(0, function() return 200 end, { max_connections = 2 }))
    local conns, refused = {}, 0
    for i = 1, 72 do
      conns[i] = assert(uv.connect("127.0.0.1", server.port))
      conns[i]:write(i <= 2 and "GET / HT" or "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    end
    for i = 3, 72 do
      local text = conns[i]:read():take()
      if text and text:find " 503 " then
        assert.matches("\r\nRetry%-After: 1\r\n", text)
        refused = refused + 1
      end
    end
    assert.is_true(refused >= 64, refused) -- one that has read its response makes room for another one
    for _, conn in ipairs(conns) do conn:close() end
  end)

  claim("there may be 100 headers", function()
    local server <close> = assert(http.serve(0, function() return 200 end))
    local function with(n)
      return answer(server, "GET / HTTP/1.1\r\nHost: x\r\n" .. ("X: 1\r\n"):rep(n - 1) .. "\r\n")
    end
    assert.matches(" 200 ", with(100))
    assert.matches(" 431 ", with(101))
  end)

  claim("| `max_header` | integer (bytes) | 16384 | the longest line and headers of a request", function()
    local server <close> = assert(http.serve(0, function() return 200 end))
    local line = "GET / HTTP/1.1\r\nHost: x\r\n"
    assert.matches(" 200 ", answer(server, line .. "X: " .. ("x"):rep(16384 - #line - 7) .. "\r\n\r\n"))
    assert.matches(" 431 ", answer(server, line .. "X: " .. ("x"):rep(16384) .. "\r\n\r\n"))
    assert.matches(" 414 ", answer(server, "GET /" .. ("x"):rep(16384) .. " HTTP/1.1\r\nHost: x\r\n\r\n"))
  end)

  claim("| `max` | integer (bytes) | 1048576 | the longest body of a request | status 413 |", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, #req:body() .. "" end))
    local function with(n)
      return answer(server, ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"):format(n, ("x"):rep(n)))
    end
    assert.matches(" 200 ", with(1048576))
    assert.matches(" 413 ", with(1048577))
  end)

  claim("| `max_requests` | integer (requests) | 1000 | how many a connection may have | the last response has "
    .. "`Connection: close` |", function()
    local server <close> = assert(http.serve(0, function() return 200 end))
    local text = response(server, ("GET / HTTP/1.1\r\nHost: x\r\n\r\n"):rep(1001))
    local _, answers = text:gsub("HTTP/1.1 200 ", "")
    assert.equal(1000, answers)
    local _, closes = text:gsub("\r\n[Cc]onnection: close\r\n", "")
    assert.equal(1, closes)
  end)

  claim("A request that breaks the rules of HTTP gets status 400, 417, 501 or 505.", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req:body() end))
    local function status(text) return answer(server, text):match "^HTTP/1.1 (%d+)" end
    assert.equal("400", status "GET / HTTP/1.1\r\n\r\n")
    assert.equal("417", status(GET:format("/", "Expect: x\r\n")))
    assert.equal("501", status(GET:format("/", "Transfer-Encoding: gzip, chunked\r\n")))
    assert.equal("505", status "GET / HTTP/2.0\r\nHost: x\r\n\r\n")
  end)

  claim("The function returns a status from 200 to 599", function()
    local errors = {}
    local before = rn.on_error(function(err) errors[#errors + 1] = err end)
    local server <close> = assert(http.serve(0, function(req) return tonumber(req.path:match "%d+") end))
    local function status(n) return answer(server, GET:format("/" .. n, "")):match "^HTTP/1.1 (%d+)" end
    assert.same({ "200", "599", "500", "500" }, { status(200), status(599), status(199), status(600) })
    rn.on_error(before)
    assert.equal(2, #errors)
  end)

  claim("Its type is `text/plain; charset=utf-8` if no header says otherwise", function()
    local server <close> = assert(http.serve(0, function() return 200, nil, "x" end))
    assert.matches("\r\n[Cc]ontent%-[Tt]ype: text/plain; charset=utf%-8\r\n", response(server, GET:format("/", "")))
  end)

  claim("`%41` is `A`. It may contain `..` and any byte", function()
    local server <close> = assert(http.serve(0, function(req)
      return 200, nil, { path = req.path, target = req.target, a = req.query.a, b = req.query.b }
    end))
    local text = response(server, GET:format("/%41/../b%2Fc?a=1+2&a=3&b=%26", ""))
    assert.equal('{"a":"1 2","b":"&","path":"/A/../b/c","target":"/%41/../b%2Fc?a=1+2&a=3&b=%26"}', text:match "{.*}")
  end)

  claim("The response to HEAD has the same headers as the one to GET, without a body", function()
    local server <close> = assert(http.serve(0, function() return 200, nil, "body" end))
    local function get(method) return response(server, (GET:format("/", "")):gsub("GET", method)) end
    local full = get("GET"):gsub("\r\n[Dd]ate: [^\r]*", "")
    local head = get("HEAD"):gsub("\r\n[Dd]ate: [^\r]*", "")
    assert.equal(full, head .. "body")
  end)

  claim("the client gets status 500 without its text. The program goes on.", function()
    local reported
    local before = rn.on_error(function(err) reported = err end)
    local server <close> = assert(http.serve(0, function() error "secret" end))
    local text = response(server, GET:format("/", ""))
    rn.on_error(before)
    assert.matches("^HTTP/1.1 500 ", text)
    assert.not_matches("secret", text)
    assert.matches("secret", reported)
  end)

  claim("Only programs of this machine reach the default", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req.address end))
    assert.matches("127.0.0.1$", response(server, GET:format("/", "")))
    assert.matches("^http://127.0.0.1:", server.url)
  end)
end)

describe("the documents say of parts of an HTTP service", function()
  local function request(method, path)
    return { method = method, path = path, target = path, headers = {}, query = {} }
  end

  claim("text comes before `:name`, and `:name` before `*name`. The order in the table does not matter.", function()
    local function route(name) return function() return 200, nil, name end end
    local router = http.router { ["/a/b"] = route "text", ["/a/:x"] = route "name", ["/*rest"] = route "rest" }
    local function chosen(path) return select(3, router(request("GET", path))) end
    assert.same({ "text", "name", "rest", "rest" }, { chosen "/a/b", chosen "/a/c", chosen "/a/c/d", chosen "/" })
  end)

  claim("Two routes for the same requests are an error.", function()
    assert.is_false(pcall(http.router, { ["/a/:x"] = print, ["/a/:y"] = print }))
  end)

  claim("If no route has the path, the client gets 404. If a route has the path but not the method, it gets "
    .. "405, or 204 for OPTIONS, with the header Allow. A route for GET answers HEAD, too.", function()
    local router = http.router { ["GET /a"] = function() return 200 end, ["PUT /a"] = function() return 200 end }
    assert.equal(404, (router(request("GET", "/b"))))
    assert.equal(200, (router(request("HEAD", "/a"))))
    for method, status in pairs { POST = 405, OPTIONS = 204 } do
      local got, headers = router(request(method, "/a"))
      assert.equal(status, got)
      local allow = headers.Allow or headers.allow
      for _, one in ipairs { "GET", "HEAD", "PUT" } do assert.matches(one, allow) end
    end
  end)

  claim("The path is split at slashes before it is decoded, so `%2F` does not separate parts.", function()
    local got
    local router = http.router { ["/:x"] = function(req)
      got = req.params.x
      return 200
    end }
    local req = request("GET", "/a/b")
    req.target = "/a%2Fb"
    assert.equal(200, (router(req)))
    assert.equal("a/b", got)
  end)

  claim("Names that begin with a dot are not served. A request for such a path gets status 404.", function()
    local dir <close> = process.directory()
    dir:write("a.txt", "a")
    dir:write(".secret", "b")
    assert(os.execute(("mkdir '%s/sub' && ln -s /etc/passwd '%s/out' && touch '%s/sub/index.html'")
      :format(dir.path, dir.path, dir.path)))
    local server <close> = assert(http.serve(0, http.files(dir.path)))
    local function status(path) return response(server, GET:format(path, "")):match "^HTTP/1.1 (%d+)" end
    for path, expected in pairs { ["/a.txt"] = "200", ["/.secret"] = "404", ["/out"] = "404",
      ["/../etc/passwd"] = "404",
      ["/%2e%2e/%2e%2e/etc/passwd"] = "404", ["/..%2f..%2fetc/passwd"] = "404", ["/sub/"] = "200" } do
      assert.equal(expected, status(path), path)
    end
    local redirect = response(server, GET:format("/sub", ""))
    assert.matches("^HTTP/1.1 30%d ", redirect)
    assert.matches("\r\n[Ll]ocation: [^\r]*sub/\r\n", redirect)
  end)

  claim("in an object a text like `2026-11-25T22:26:39Z`", function()
    local line
    local service = http.log(function() return 200 end, { format = "json", to = function(text) line = text end })
    local server <close> = assert(http.serve(0, service))
    response(server, GET:format("/", ""))
    assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ$", require("runnel.json").decode(line).time)
  end)

  claim("`error` (why the response is incomplete), `referer`, `agent`, `trace`", function()
    local lines, record = {}, nil
    local service = http.log(function() return 200, nil, "ok" end, { to = function(line) lines[#lines + 1] = line end,
      format = function(fields)
        record = fields
        return "line"
      end })
    local server <close> = assert(http.serve(0, service))
    response(server, GET:format("/x", "User-Agent: a\r\nReferer: r\r\n"))
    local fields = {}
    for name in pairs(record) do fields[#fields + 1] = name end
    table.sort(fields)
    assert.equal("address agent bytes id method ms referer status target time", table.concat(fields, " "))
    assert.same({ "a", "r", 2, 200, "/x" }, { record.agent, record.referer, record.bytes, record.status,
      record.target })
  end)
end)

describe("the documents say of HTTP requests", function()
  -- A server that redirects n times.
  local function redirecting()
    return assert(http.serve(0, function(req)
      local n = tonumber(req.path:match "%d+") or 0
      if n == 0 then return 200, nil, req.method end
      return tonumber(req.query.status), { location = ("/%d?%s"):format(n - 1, req.target:match "%?(.*)") }
    end))
  end

  claim_client("how many [redirects](#redirects) are followed. 0: none, the response is that with the "
    .. "redirect", function()
    local server <close> = redirecting()
    assert.equal(200, http.get(server.url .. "10?status=302").status)
    local res, err = http.get(server.url .. "11?status=302")
    assert.is_nil(res)
    assert.is_string(tostring(err))
    assert.equal(302, http.get(server.url .. "1?status=302", { redirects = 0 }).status)
    assert.is_nil((http.get(server.url .. "2?status=302", { redirects = 1 })))
  end)

  claim_client("After 303 the next request is a GET, unless it was a HEAD; after 301 and 302 that is so only "
    .. "for a POST.",
    function()
      local server <close> = redirecting()
      local function method(status, with)
        return http.request { url = server.url .. "1?status=" .. status, method = with, body = "x" }.body
      end
      assert.same({ "GET", "GET", "GET" }, { method(303, "POST"), method(301, "POST"), method(302, "POST") })
      assert.same({ "GET", "PUT", "PUT" }, { method(303, "PUT"), method(301, "PUT"), method(302, "PUT") })
      assert.same({ "POST", "PUT" }, { method(307, "POST"), method(308, "PUT") })
    end)

  claim_client("then one from 400 on gives nil, an error, and the response", function()
    local server <close> = assert(http.serve(0, function(req) return tonumber(req.path:match "%d+"), nil, "why" end))
    assert.equal(399, http.get(server.url .. "399", { fail = true }).status)
    local res, err, response_ = http.get(server.url .. "400", { fail = true })
    assert.is_nil(res)
    assert.matches("400", tostring(err))
    assert.same({ 400, "why" }, { response_.status, response_.body })
  end)

  claim_client("Then a request whose method is idempotent is sent again: GET, HEAD, PUT, DELETE, OPTIONS, TRACE, "
    .. "and any with a header `Idempotency-Key`. All others, such as a POST, are sent once", function()
    -- How often a server gets a request if it ends the connection, which was kept, when the request has come first.
    local function tries(method, headers)
      local clients, port = assert(uv.listen("127.0.0.1", 0))
      local requests, conns = {}, {}
      rn.go(function()
        for conn in clients do
          rn.go(function()
            conns[#conns + 1] = conn
            local lines = conn:lines()
            for i = 1, 2 do
              local head = {}
              for line in lines do
                if line == "" then break end
                head[#head + 1] = line
              end
              requests[#requests + 1] = head[1]
              if i == 2 or not head[1] then break end
              conn:write "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            end
            conn:close()
          end)
        end
      end)
      local url = ("http://127.0.0.1:%d/"):format(port)
      assert(http.get(url)) -- makes the connection
      requests = {}
      local res = http.request { url = url, method = method, headers = headers }
      local n = #requests
      clients:close()
      for _, conn in ipairs(conns) do conn:close() end
      return n, res and res.status
    end
    for _, method in ipairs { "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE" } do
      assert.same({ 2, 200 }, { tries(method) }, method)
    end
    assert.same({ 2, 200 }, { tries("POST", { ["Idempotency-Key"] = "1" }) })
    assert.same({ 1 }, { tries "POST" })
  end)

  claim_client("A URL that is not one, or has another scheme than http and https, or that has a zero byte, is an error "
    .. "without a host", function()
    for _, url in ipairs { "", "no url", "ftp://x/", "http://a\0b/", "http:///x" } do
      local res, err = http.get(url)
      assert.is_nil(res, url)
      assert.is_string(tostring(err))
    end
  end)

  claim_client("At most one of `body`, `json`, `form` and `multipart` may be given.", function()
    assert.is_false(pcall(http.request, { url = "http://127.0.0.1:1/", body = "a", json = {} }))
    assert.is_false(pcall(http.request, { url = "http://127.0.0.1:1/", form = {}, multipart = {} }))
  end)

  claim_client("if the channel has more or fewer, the request fails", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, #req:body() .. "" end))
    local function post(size)
      return http.request { url = server.url, body = rn.to_chan { "ab", "cd" }, size = size }
    end
    assert.equal("4", post(4).body)
    assert.is_nil((post(3)))
    assert.is_nil((post(5)))
  end)

  claim_client("Doubled after each failure, up to a minute. Up to half of it, at random, is left out", function()
    sim.run(function()
      local times = {}
      local before = http.fake(function()
        times[#times + 1] = sim.elapsed()
        return 503
      end)
      local events = http.events("http://x/", { tries = 4 })
      assert.is_nil(events:take())
      http.fake(before)
      assert.equal(4, #times)
      for i, whole in ipairs { 1000, 2000, 4000 } do
        local ms = times[i + 1] - times[i]
        assert.is_true(ms >= whole / 2 and ms <= whole + 1, ms)
      end
    end)
  end)
end)
