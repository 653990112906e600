-- http.proxy between clients and servers that break the rules, or try to make both ends disagree about where a message
-- ends: what the server behind gets, byte by byte, and what the client gets. By RFC 9110 and 9112.

local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local stage = require "spec.support.stage"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("http.proxy under attack", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

-- ---- requests ----

-- { what, the request without its first line and Host, what the server behind must get of it }. The head is checked
-- as a list of lines in lower case: `has` are there, `lacks` are not, as patterns; `body` is all behind the head.
local REQUESTS = {
  { "headers that Connection names, and those of the connection",
    "Connection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\n"
      .. "Proxy-Connection: a\r\nProxy-Authorization: Basic x\r\nX-Kept: 2\r\n\r\n",
    has = { "^x%-kept: 2$", "^te: trailers$", "^connection: te$" }, -- the proxy takes them itself
    lacks = { "secret", "^keep", "^trailer", "^proxy", "^connection: close" } },
  { "Connection names headers that say who has sent it, and how long it is",
    "Connection: close, host, x-forwarded-for, content-length\r\nContent-Length: 3\r\n\r\nabc",
    has = { "^host: 127", "^x%-forwarded%-for: 127%.0%.0%.1$", "^content%-length: 3$" }, lacks = {}, body = "abc" },
  { "who has sent it, by the client",
    "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\n"
      .. "X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nx-forwarded_for: 6.6.6.6\r\n\r\n",
    has = { "^x%-forwarded%-for: 127%.0%.0%.1$", "^x%-forwarded%-host: x$", "^x%-forwarded%-proto: http$",
      '^forwarded: for=127%.0%.0%.1;host="x";proto=http$' },
    lacks = { "6%.6%.6%.6", "evil", "_", "port" } },
  { "lengths and codings with underscores, which CGI takes for the real ones",
    "Transfer_Encoding: chunked\r\nContent_Length: 40\r\nContent-Length: 3\r\n\r\nabc",
    has = { "^content%-length: 3$" }, lacks = { "_", "^transfer" }, body = "abc" },
  { "a body that is a request", "Content-Length: 29\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n",
    has = { "^content%-length: 29$" }, lacks = {}, body = "GET /evil HTTP/1.1\r\nHost: x\r\n" },
  { "chunks with extensions and trailers that would be headers",
    "Transfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\nContent-Length: 40\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
    has = { "^transfer%-encoding: chunked$" }, lacks = { "^content%-length", "6%.6" }, body = "3\r\nabc\r\n0\r\n\r\n" },
  { "another protocol in clear text, with a body of it", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      .. "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", has = { "^via: 1%.1 runnel$" },
    lacks = { "^upgrade", "^http2", "^connection" } },
  { "a WebSocket with a body", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc",
    has = { "^content%-length: 3$" }, lacks = { "^upgrade", "^connection" }, body = "abc" },
  { "the client waits to be asked for the body", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    has = { "^content%-length: 3$" }, lacks = { "^expect" }, body = "abc" },
  { "an old proxy and a loop", "Via: 1.0 a, 1.1 b\r\nProxy: http://evil\r\n\r\n",
    has = { "^via: 1%.0 a, 1%.1 b, 1%.1 runnel$" }, lacks = { "^proxy" } },
}

-- { what, the whole request, the status that the client gets }: the server behind gets nothing.
local REFUSED = {
  { "a length and chunks", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "chunks and a length", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
    .. "0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "a bare line feed", "GET / HTTP/1.1\nHost: x\r\n\r\n", 400 },
  { "a bare line feed in a header", "GET / HTTP/1.1\r\nHost: x\r\nA: b\nX-Evil: 1\r\n\r\n", 400 },
  { "a folded line", "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400 },
  { "a space before the colon", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc", 400 },
  { "an unknown coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 400 },
  { "chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
  { "two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400 },
  { "a path out of the URL", "GET /../secret HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "an encoded path out of the URL", "GET /a/%2e%2E/%2e./secret HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "an encoded slash before two dots", "GET /a%2f..%2fsecret HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "a backslash before two dots", "GET /a\\..\\secret HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  { "what would show the headers of the proxy", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405 },
  { "a tunnel", "CONNECT evil:80 HTTP/1.1\r\nHost: evil:80\r\n\r\n", 501 },
  { "the last hop", "OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n", 200 },
}

-- ---- responses ----

local function ok(headers, body) return "HTTP/1.1 200 OK\r\n" .. headers .. "\r\n" .. (body or "") end

-- { what, the bytes of the server behind, the status that the client gets, and the body; false: it is cut }.
-- `method` of the request; `ends`: the server then closes the connection; `headers`: a pattern in those for the client;
-- `lacks`: a pattern that is not in them.
local RESPONSES = {
  { "a length and chunks", ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), 502 },
  { "chunks and a length", ok("Transfer-Encoding: chunked\r\nContent-Length: 40\r\n", "3\r\nabc\r\n0\r\n\r\n"), 502 },
  { "compressed chunks", ok("Transfer-Encoding: gzip, chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), 502 },
  { "two lengths", ok("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), 502 },
  { "a list of lengths", ok("Content-Length: 3, 4\r\n", "abcd"), 502 },
  { "no type", ok("Content-Length: 3\r\n", "abc"), 200, "abc", lacks = "[Tt]ype" },
  { "the same length twice", ok("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 200, "abc" },
  { "a negative length", ok("Content-Length: -3\r\n", "abc"), 502 },
  { "letters for a length", ok("Content-Length: x3\r\n", "abc"), 502 },
  { "a space before the colon", ok("Content-Length : 3\r\nConnection: close\r\n", "abc"), 502, ends = true },
  { "bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 3\nX-A: b\n\nabc", 200, "abc", headers = "x%-a: b\r\n" },
  { "a bare carriage return in a header", ok("Content-Length: 3\r\nX-A: b\rX-Evil: c\r\n", "abc"), 502 },
  { "a zero byte in a header", ok("Content-Length: 3\r\nX-A: b\0c\r\n", "abc"), 502 },
  { "a control character in a header", ok("Content-Length: 3\r\nX-A: b\8c\r\n", "abc"), 502 },
  { "a name that is none", ok("Content-Length: 3\r\nX(A: b\r\n", "abc"), 502 },
  { "a folded line", ok("X-A: b\r\n  c\r\nContent-Length: 3\r\n", "abc"), 200, "abc", headers = "x%-a: b c\r\n" },
  { "headers of the connection", ok("Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTrailer: X\r\n"
    .. "Upgrade: h2c\r\nProxy-Authenticate: Basic\r\nContent-Length: 3\r\n", "abc"), 200, "abc",
    lacks = "[Hh]op" },
  { "headers that are too long", ok("Content-Length: 3\r\nX-A: " .. ("a"):rep(20000) .. "\r\n", "abc"), 502 },
  { "a status that does not exist", "HTTP/1.1 999 Evil\r\nContent-Length: 3\r\n\r\nabc", 502 },
  { "no status", "abc\r\n\r\n", 502, ends = true },
  { "nothing", "", 502, ends = true },
  { "half a head", "HTTP/1.1 200 OK\r\nContent-Len", 502, ends = true },
  { "a body that ends early", ok("Content-Length: 9\r\n", "abc"), 200, false, ends = true },
  { "chunks that end early", ok("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n"), 200, false, ends = true },
  { "a chunk that ends early", ok("Transfer-Encoding: chunked\r\n", "9\r\nabc"), 200, false, ends = true },
  { "a chunk whose size is none", ok("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\nxyz\r\n"), 200, false },
  { "trailers that would be headers", ok("Transfer-Encoding: chunked\r\n",
    "3\r\nabc\r\n0\r\nContent-Length: 40\r\nSet-Cookie: evil\r\n\r\n"), 200, "abc", lacks = "evil" },
  { "a body that ends with the connection", "HTTP/1.0 200 OK\r\n\r\nabc", 200, "abc", ends = true,
    headers = "Transfer%-Encoding: chunked" },
  { "statuses before it", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    .. ok("Content-Length: 3\r\n", "abc"), 200, "abc", lacks = "Link",
    early = "^HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" },
  { "another protocol, for which nobody has asked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"
    .. "Connection: Upgrade\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 502 },
  { "the body of a response to HEAD", ok("Content-Length: 3\r\n", "abc"), 200, "", method = "HEAD",
    headers = "Content%-Length: 3\r\n" },
  { "chunks for a response to HEAD", ok("Transfer-Encoding: chunked\r\n"), 200, "", method = "HEAD",
    lacks = "Content%-Length" },
  { "compressed chunks for a response to HEAD", ok("Transfer-Encoding: gzip, chunked\r\n"), 200, "", method = "HEAD",
    lacks = "gzip" },
  { "a body of 204", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc", 204, "", lacks = "Content%-Length" },
  { "the length of 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\nETag: \"a\"\r\n\r\n", 304, "",
    headers = "Content%-Length: 3\r\n" },
  { "a body of 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc", 304, "" },
  { "more than it has said", ok("Content-Length: 3\r\n", "abcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), 200,
    "abc" },
}

-- What answers the handshake of a WebSocket: { what, bytes, the status for the client, a pattern in its headers }.
local KEY <const> = "dGhlIHNhbXBsZSBub25jZQ=="
local HANDSHAKES = {
  { "refused", "HTTP/1.1 403 Forbidden\r\nX-Why: no\r\nContent-Length: 4\r\n\r\nevil", 403, "x%-why: no\r\n" },
  { "answered as a request", ok("Content-Length: 4\r\n", "evil"), 200 },
  { "answered with a status before it", "HTTP/1.1 100 Continue\r\n\r\n", 502 },
  { "accepted with a wrong key", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    .. "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", 502 },
  { "accepted for another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    502 },
  { "not answered", "", 502 },
}

describe("http.proxy under attack", function()
  local requests, answer, errors -- that the server behind has got; its bytes; what was reported

  -- Reads the bytes of one request; nil if the connection ends before.
  local function read_request(input, text)
    local function more()
      local piece = input:take()
      text = piece and text .. piece
      return piece
    end
    while not text:find("\r\n\r\n", 1, true) do
      if not more() then return nil end
    end
    local head, past = text:match "^(.-\r\n)\r\n()"
    local length = tonumber(head:lower():match "\r\ncontent%-length: (%d+)") or 0
    local is_chunked = head:lower():find("\r\ntransfer-encoding: chunked", 1, true)
    while is_chunked and not text:find("\r\n0\r\n\r\n", past - 2, true) or #text < past - 1 + length do
      if not more() then return nil end
    end
    return head, text:sub(past)
  end

  -- The server behind: keeps what it gets, and answers with `answer`, or "probe".
  local function serve(conn)
    local input = conn:read()
    while true do
      local head, body = read_request(input, "")
      if not head then return end
      if head:find "^GET /probe " or head:find "^GET /admin " then
        conn:write(ok("Content-Length: 5\r\n", "probe"))
      else
        requests[#requests + 1] = { head = head, body = body }
        conn:write(answer.bytes)
        if answer.ends then return conn:shutdown() end
      end
    end
  end

  local proxy
  before_each(function()
    http_stage.open()
    requests, errors, answer = {}, {}, { bytes = ok("Content-Length: 2\r\n", "ok") }
    local port = http_stage.serve(serve)
    proxy = assert(http.serve(0, http.proxy("http://127.0.0.1:" .. port, {
      on_error = function(_, err, status)
        errors[#errors + 1] = tostring(err)
        return status, nil, "refused"
      end,
    })))
  end)
  after_each(function()
    proxy:close()
    stage.heard()
    http_stage.close()
  end)

  -- The server behind and the proxy still agree about where a message ends.
  local function assert_in_step(what)
    for _ = 1, 2 do
      local status, body = web.ask(proxy, "GET /probe")
      assert.same({ 200, "probe" }, { status, body }, what)
    end
  end

  it("passes a request on so that the server behind reads the same one", function()
    for _, case in ipairs(REQUESTS) do
      requests = {}
      web.exchange(proxy, "POST /a?b=c HTTP/1.1\r\nHost: x\r\n" .. case[2]
        .. "GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      assert.equal(1, #requests, case[1])
      local head = requests[1].head
      assert.match("^POST /a%?b=c HTTP/1%.1\r\n", head, case[1])
      local names = {}
      for line in head:lower():gmatch "\r\n([^\r\n]+)" do
        for _, pattern in ipairs(case.lacks) do assert.is_nil(line:find(pattern), case[1] .. ": " .. line) end
        local name = line:match "^[^:]+"
        assert.is_nil(names[name], case[1] .. ": twice: " .. line)
        names[name] = true
        names[#names + 1] = line
      end
      for _, pattern in ipairs(case.has) do
        local found = false
        for _, line in ipairs(names) do found = found or line:find(pattern) ~= nil end
        assert.is_true(found, ("%s: %s is not in %s"):format(case[1], pattern, head))
      end
      assert.equal(case.body or "", requests[1].body, case[1])
    end
  end)

  it("passes no body of HEAD on, to which servers have no common answer", function()
    local text = web.exchange(proxy, "HEAD /a HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\nConnection: close\r\n\r\n"
      .. "GET /evil HTTP/1.1\r\nHost: \r\n\r\n")
    assert.match("^HTTP/1.1 200 ", text)
    assert.equal(1, #requests)
    assert.is_nil(requests[1].head:lower():find "\r\ncontent%-length")
    assert_in_step "HEAD"
  end)

  it("refuses what could be read in two ways, before the server behind gets any of it", function()
    for _, case in ipairs(REFUSED) do
      local text = web.exchange(proxy, (case[2]:gsub("\r\n\r\n$", "\r\nConnection: close\r\n\r\n")))
      local expected = case[3]
      assert.equal(expected, tonumber(text:match "^HTTP/1.1 (%d+)"), case[1])
      local _, n = text:gsub("HTTP/1%.1 %d", "")
      assert.equal(1, n, case[1])
      assert.same({}, requests, case[1])
    end
  end)

  it("passes a response on so that the client reads the same one, or none", function()
    for _, case in ipairs(RESPONSES) do
      local what, bytes, status, body = table.unpack(case)
      answer, errors = { bytes = bytes, ends = case.ends }, {}
      local found, text, headers, all = web.ask(proxy, (case.method or "GET") .. " /a")
      if case.early then
        assert.match(case.early, all)
        found, headers, text = all:gsub(case.early, ""):match "^HTTP/1.1 (%d+) [^\r]*\r\n(.-\r\n)\r\n(.*)$"
        found = tonumber(found)
      end
      assert.equal(status, found, what .. ": " .. all)
      if status == 502 then
        assert.equal(1, #errors, what)
        body = "refused"
      end
      local whole = text
      if headers:find("\r\nTransfer-Encoding: chunked", 1, true) and case.method ~= "HEAD" then
        whole = ""
        local at = 1
        repeat
          local digits, past = text:match("^(%x+)\r\n()", at)
          local size = tonumber(digits or "", 16)
          whole = size and whole .. text:sub(past, past + size - 1) or false
          at = size and past + size + 2
        until not size or size == 0
      elseif body == false then
        whole = #text == tonumber(headers:match "Content%-Length: (%d+)") and text
      end
      assert.equal(body, whole, what .. ": " .. all)
      if case.headers then assert.match(case.headers, headers, what) end
      assert.is_nil(headers:find(case.lacks or "[Kk]eep%-[Aa]live"), what .. ": " .. headers)
      assert_in_step(what)
      assert.is_nil(all:find("evil", 1, true), what)
    end
  end)

  it("makes no tunnel unless the server behind has accepted the WebSocket", function()
    for _, case in ipairs(HANDSHAKES) do
      answer, errors = { bytes = case[2], ends = true }, {}
      requests = {}
      local text = web.exchange(proxy, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " .. KEY .. "\r\n\r\n"
        .. "GET /admin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      assert.equal(case[3], tonumber(text:match "^HTTP/1.1 (%d+)"), case[1] .. ": " .. text)
      if case[4] then assert.match(case[4], text) end
      assert.is_nil(text:find("evil", 1, true), case[1])
      assert.equal(1, #requests)
      local first = requests[1].head:lower()
      assert.match("\r\nupgrade: websocket\r\n", first)
      assert.is_nil(first:find(KEY:lower(), 1, true)) -- a handshake of its own
      assert.match("probe$", text) -- what came behind it is a request of its own
    end
  end)

  it("makes no tunnel if the client's handshake is wrong", function()
    answer = nil
    local behind <close> = assert(http.serve(0, function(req)
      local conn, err, status, headers = req:websocket()
      if not conn then return status, headers, err end
      conn:read():take()
    end))
    local front <close> = assert(http.serve(0, http.proxy(behind.url)))
    for version, key in pairs { ["12"] = KEY, ["13"] = "short" } do
      local text = web.exchange(front, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        .. "Sec-WebSocket-Version: " .. version .. "\r\nSec-WebSocket-Key: " .. key .. "\r\n\r\n"
        .. "GET /admin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      assert.match("^HTTP/1.1 4[02][06] ", text)
    end
    rn.yield()
  end)

  it("answers 400, and reports nothing, if a header of the client's handshake is malformed", function()
    local seen = 0
    local behind <close> = assert(http.serve(0, function()
      seen = seen + 1
      return 204
    end))
    local front <close> = assert(http.serve(0, http.proxy(behind.url)))
    local function ask(target, header)
      return (web.exchange(front, ("GET %s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s\r\n\r\n"
        .. "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):format(target, KEY, header)))
    end
    for _, header in ipairs {
      "Sec-WebSocket-Protocol: a b", "Sec-WebSocket-Protocol: a, b/c", "Sec-WebSocket-Protocol: \xff",
      "Origin: nonsense x", "Origin: http://a\r\nOrigin: http://b", "Origin: \xc3\xbc",
    } do
      local text = ask("/ws", header)
      assert.match("^HTTP/1.1 400 .*400: the header " .. header:match("^[^:]+"):gsub("%-", "%%-") .. " is malformed\n"
        .. "HTTP/1.1 204 ", text, header)
    end
    assert.match("^HTTP/1.1 400 ", ask("/ws#fragment", "X-A: 1"))
    assert.equal(6, seen) -- only the requests behind the handshakes
    assert.match("^HTTP/1.1 204 ", ask("/ws", "Sec-WebSocket-Protocol: a, b, ,\r\nOrigin: null"))
    assert.same({}, stage.heard())
  end)
end)
