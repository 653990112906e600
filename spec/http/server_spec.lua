-- http.serve: what its function gets and returns, limits, clients that misbehave, and the end.

local long = require "spec.support.long"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"
local web = require "spec.support.http.web"

if not pcall(require, "luv") then
  describe("http.serve", function() pending "luv is not installed" end)
  return
end

local http = require "runnel.http"
local uv = require "runnel.uv"
local ask, exchange, wait_for = web.ask, web.exchange, patience.wait_for

local is_warm = false

describe("http.serve", function()
  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  local function serve(f, opts) return assert(http.serve(0, f, opts)) end

  local function post(body) return ("Content-Length: %d\r\n\r\n%s"):format(#body, body) end

  -- What the error handler gets during f.
  local function reported(f)
    f()
    local errors = {}
    for i, error in ipairs(stage.heard()) do errors[i] = tostring(error.err) end
    return errors
  end

  describe("requests", function()
    it("have method, path, query, headers, address and target", function()
      local seen
      local server <close> = serve(function(req)
        seen = req
        return 200, nil, "ok"
      end)
      local status, body = ask(server, "PUT /a%20b/c+d?x=1&y=a+b%21&x=2&flag",
        "X-One: 1\r\nx-one: 2\r\nCookie: a\r\nCookie: b\r\n\r\n")
      assert.same({ 200, "ok" }, { status, body })
      assert.same({ "PUT", "/a b/c+d", "/a%20b/c+d?x=1&y=a+b%21&x=2&flag", "127.0.0.1" },
        { seen.method, seen.path, seen.target, seen.address })
      assert.same({ x = "1", y = "a b!", flag = "" }, seen.query)
      assert.equal("1, 2", seen.headers["x-one"])
      assert.equal("a; b", seen.headers.cookie)
      assert.equal("x", seen.headers.host)
      assert.is_nil(seen.headers.absent)
      assert.is_nil(seen.absent)
      assert.match("PUT /a%%20b", tostring(seen))
    end)

    it("come by IPv6, where the machine has that", function()
      local server, err = http.serve(0, function(req) return 200, nil, req.address end, { host = "::1" })
      if not server then return assert.is_string(err) end
      assert.match("^http://%[::1%]:%d+/$", server.url)
      local conn <close> = assert(uv.connect("::1", server.port))
      conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      assert.match("^HTTP/1.1 200.*\r\n\r\n::1$", (conn:read():take()))
      server:close()
    end)

    it("have a body: as a string, as pieces, as JSON", function()
      local server <close> = serve(function(req)
        if req.path == "/pieces" then
          local n = 0
          for piece in req:pieces() do n = n + #piece end
          return 200, nil, tostring(n)
        elseif req.path == "/json" then
          local value, err = req:json()
          return 200, nil, value and tostring(value.a) or "no JSON: " .. err
        end
        return 200, nil, req:body() .. req:body()
      end)
      assert.equal("abcabc", (select(2, ask(server, "POST /", post "abc"))))
      assert.equal("", (select(2, ask(server, "GET /"))))
      assert.equal("42", (select(2, ask(server, "POST /json", post '{"a":42}'))))
      assert.match("^no JSON", (select(2, ask(server, "POST /json", post '{"a":'))))
      assert.equal("900000", (select(2, ask(server, "POST /pieces", post(("x"):rep(900000))))))
      local chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
      assert.equal("abcdeabcde", (select(2, ask(server, "POST /", chunked))))
    end)

    it("whose target is a URL have its path and host", function()
      local server <close> = serve(function(req) return 200, nil, req.path .. " " .. req.headers.host end)
      assert.equal("/a b h:1", (select(2, ask(server, "GET http://h:1/a%20b?c"))))
      assert.equal("/ h", (select(2, ask(server, "GET http://h?c"))))
    end)

    it("are asked for the body only once it is read", function()
      local server <close> = serve(function(req)
        if req.path == "/no" then return 403, nil, "no" end
        return 200, nil, req:body()
      end)
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      local expects = " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
      conn:write("POST / " .. expects:sub(2))
      assert.equal("HTTP/1.1 100 Continue\r\n\r\n", (conn:read():take()))
      conn:write "abc"
      assert.match("^HTTP/1.1 200 .*abc$", (conn:read():take()))
      conn:write("POST /no" .. expects)
      local answer = table.concat(stage.drain(conn:read()))
      assert.match("^HTTP/1.1 403 .*\r\nConnection: close\r\n.*no$", answer) -- the body may follow or not
    end)

    it("may be answered before their body has come, which is then dropped", function()
      local server <close> = serve(function(req) return req.method == "POST" and 403 or 200, nil, "answer" end)
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      for _, head in ipairs { "Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n186A0\r\n" } do
        conn:write("POST / HTTP/1.1\r\nHost: x\r\n" .. head .. "some")
        assert.match("^HTTP/1.1 403 .*answer$", (conn:read():take()))
        conn:write(("x"):rep(99996) .. (head:find "chunked" and "\r\n0\r\n\r\n" or ""))
        conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        assert.match("^HTTP/1.1 200 .*answer$", (conn:read():take()))
      end
    end)

    it("can be read to the end of their body when the response has been sent", function()
      local sent, ended = rn.chan(), nil
      local server <close> = serve(function(req)
        local pieces = req:pieces()
        rn.go(function()
          sent:take()
          ended = table.concat(rn.into({}, pieces):take())
        end)
        wait_for(function() return tostring(pieces):find("1 put waiting", 1, true) end) -- the body has come
        return 200, nil, "answer"
      end)
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" .. ("x"):rep(100))
      assert.match("^HTTP/1.1 200 .*answer$", (conn:read():take()))
      sent:put(true)
      wait_for(function() return ended end)
      assert.equal(100, #ended)
    end)

    it("that end before their body has come end its pieces with the reason", function()
      local taken = rn.chan(10)
      local server <close> = serve(function(req)
        local pieces = req:pieces()
        rn.go(function()
          local piece, err
          repeat
            piece, err = pieces:take()
            taken:put(piece or err)
          until not piece
        end)
        if req.path == "/wait" then rn.sleep(3600000) end
        return 200, nil, "answer"
      end)
      local head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write(head:format "/answer")
      assert.match("^HTTP/1.1 200 .*answer$", (conn:read():take()))
      assert.equal("the response was sent before the whole body had come", taken:take())
      do
        local other <close> = assert(uv.connect("127.0.0.1", server.port))
        other:write(head:format "/wait" .. "some")
        assert.equal("some", taken:take())
      end
      assert.equal("the client has closed the connection", taken:take())
    end)

    it("calls its function also if the client has gone before it can be called", function()
      local bodies, reason = {}, nil
      local server <close> = serve(function(req)
        local _ <close> = setmetatable({}, { __close = function(_, err) reason = err end })
        bodies[#bodies + 1] = req:body()
        rn.chan():take()
      end)
      local request = "POST / HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 5\\r\\n\\r\\nevent"
      process.capture(("bash -c 'printf \"%s\" >/dev/tcp/127.0.0.1/%d'; sleep 0.3"):format(request, server.port))
      wait_for(function() return reason end)
      assert.same({ { "event" }, "the client has closed the connection" }, { bodies, reason })
    end)

    it("can be sent back as their body comes, to a client that reads late", function()
      local n, piece, written = 300, ("x"):rep(65536), 0
      local server <close> = serve(function(req)
        return 200, { ["content-length"] = n * #piece }, req:pieces()
      end, { max = n * #piece })
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write(("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"):format(n * #piece))
      rn.go(function()
        for i = 1, n do
          conn:write(piece)
          written = i
          rn.sleep(1) -- so that the server waits for the body while it waits for the client
        end
      end)
      local before
      repeat
        before = written
        rn.sleep(200)
      until written == before and written > 0 -- all buffers between them are full
      assert.is_true(written < n)
      local answer = table.concat(stage.drain(conn:read()))
      local _, head = answer:find("\r\n\r\n", 1, true)
      assert.equal(n * #piece, #answer - head)
    end)

    it("can be read only once as pieces", function()
      local server <close> = serve(function(req)
        req:pieces()
        return 200, nil, (select(2, pcall(req.body, req)))
      end)
      assert.match("has been read already", (select(2, ask(server, "POST /", post "abc"))))
    end)

    it("are answered one after the other on a connection that stays open", function()
      local server <close> = serve(function(req) return 200, nil, req.path end)
      local request = "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
      local answer = exchange(server, request:format(1) .. request:format(2) .. "GET /3 HTTP/1.0\r\n\r\n")
      assert.equal("/1/2/3", (answer:gsub("HTTP/1.%d 200 OK\r\n.-\r\n\r\n", "")))
    end)

    it("run at the same time", function()
      local meet, n = rn.chan(), 0
      local server <close> = serve(function()
        n = n + 1
        if n == 20 then meet:close() end
        meet:take()
        return 200, nil, "met"
      end)
      local numbers = {}
      for i = 1, 20 do numbers[i] = i end
      local answers = rn.pmap(20, function() return (select(2, ask(server, "GET /"))) end, numbers)
      assert.equal(("met"):rep(20), table.concat(rn.into({}, answers):take()))
    end)
  end)

  describe("responses", function()
    it("have a status, headers, several of one name, and a body", function()
      local server <close> = serve(function(req)
        if req.path == "/none" then return 204 end
        if req.path == "/json" then return 200, nil, { a = { 1, 2 } } end
        return 201, { ["Set-Cookie"] = { "a=1", "b=2" }, ["content-type"] = "text/html", ["X-N"] = 7 }, "<p>"
      end)
      local status, body, headers = ask(server, "GET /")
      assert.same({ 201, "<p>" }, { status, body })
      for _, line in ipairs { "Set%-Cookie: a=1", "Set%-Cookie: b=2", "[cC]ontent%-[tT]ype: text/html", "X%-N: 7" } do
        assert.match(line .. "\r\n", headers)
      end
      status, body, headers = ask(server, "GET /json")
      assert.same({ 200, '{"a":[1,2]}' }, { status, body })
      assert.match("application/json", headers)
      assert.equal(204, (ask(server, "GET /none")))
      status, body, headers = ask(server, "HEAD /")
      assert.same({ 201, "" }, { status, body })
      assert.match("Content%-Length: 3", headers)
    end)

    it("have one Date, no type where they have no body, and no body with 204, 205 and 304", function()
      local server <close> = serve(function(req)
        local status = math.tointeger(req.query.s)
        local headers = req.query.d and { date = "Thu, 01 Jan 1970 00:00:00 GMT" } or nil
        return status, headers, req.query.b == "channel" and rn.to_chan { "body" } or req.query.b
      end)
      for status, has_body in pairs { [200] = true, [404] = true, [204] = false, [205] = false, [304] = false } do
        for _, target in ipairs { "", "&d=1", "&b=body", "&b=channel", "&d=1&b=body" } do
          for _, method in ipairs { "GET", "HEAD" } do
            local what = ("%s %d%s"):format(method, status, target)
            local got, body, headers = ask(server, ("%s /?s=%d%s"):format(method, status, target))
            assert.equal(status, got, what)
            assert.equal(has_body and method == "GET" and target:match "b=(%l+)" or "",
              body:gsub("^4\r\nbody\r\n0\r\n\r\n$", "channel"), what) -- chunks
            local _, dates = headers:gsub("[Dd]ate: ", "")
            assert.equal(1, dates, what)
            assert.equal(target:find "d=1" ~= nil, headers:find "01 Jan 1970" ~= nil, what)
            assert.equal(has_body, headers:find "Content%-Type: text/plain" ~= nil, what)
            if status == 205 then assert.match("Content%-Length: 0\r\n", headers) end
          end
        end
      end
    end)

    it("to HEAD have the length of the response to GET, and no body", function()
      local server <close> = serve(function(req)
        if req.path == "/said" then return 200, { ["Content-Length"] = 12345 } end
        return 200, req.path == "/length" and { ["Content-Length"] = 6 } or nil, rn.to_chan { "abc", "def" }
      end)
      for path, length in pairs { ["/said"] = "12345", ["/length"] = "6" } do
        local status, body, headers = ask(server, "HEAD " .. path)
        assert.same({ 200, "", length }, { status, body, headers:match "Content%-Length: (%d+)" })
      end
      local status, body, headers = ask(server, "HEAD /chunks")
      assert.same({ 200, "" }, { status, body })
      assert.not_match("Content%-Length", headers)
    end)

    it("to HEAD have no body if the server itself gives them, either", function()
      local server <close> = serve(function(req)
        if req.path == "/late" then rn.sleep(60000) end
        error "wrong"
      end, { timeout = 300, max = 10 })
      for path, expected in pairs { ["/wrong"] = 500, ["/late"] = 503, ["/long"] = 413 } do
        local status, body, headers
        reported(function()
          status, body, headers = ask(server, "HEAD " .. path, path == "/long" and "Content-Length: 11\r\n\r\n" or nil)
        end)
        assert.same({ expected, "" }, { status, body })
        assert.match("Content%-Length: [1-9]", headers)
      end
      -- What is sent for a later request of the connection is no response to HEAD.
      local answer = exchange(server, "HEAD /long HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n")
      assert.match("\r\n\r\n$", answer)
      local quick <close> = serve(function() return 200 end)
      answer = exchange(quick, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\r\n\r\n")
      assert.match("HTTP/1.1 400 .*\r\n\r\n400: .*\n$", answer)
    end)

    it("without a body have no length, unless the program says it", function()
      local server <close> = serve(function(req)
        return tonumber(req.query.s), req.query.n and { ["Content-Length"] = req.query.n } or nil
      end)
      local lengths = { ["s=204"] = false, ["s=204&n=3"] = false, ["s=304"] = false, ["s=304&n=3"] = "3" }
      for target, length in pairs(lengths) do
        for _, method in ipairs { "GET", "HEAD" } do
          local status, body, headers = ask(server, method .. " /?" .. target)
          assert.same({ target:match "%d+", "" }, { tostring(status), body })
          assert.equal(length, headers:match "Content%-Length: (%d+)" or false, target)
        end
      end
    end)

    it("of any length arrive whole and in order, whatever the client sends and however it reads #ci", function()
      -- The last one is more than the socket's buffers take.
      local SIZES = { 0, 16383, 16384, 100000, long.times(5, 8) << 20 }
      local bodies = {}
      for i, size in ipairs(SIZES) do bodies[i] = ("%08x"):format(size * 16):rep(size // 8 + 1):sub(1, size) end
      local server <close> = serve(function(req)
        if req.query.reads then req:body() end
        if req.query.sleeps then rn.sleep(1) end
        return 200, nil, bodies[tonumber(req.query.n)]
      end, { max = 1 << 20 })
      local KINDS = {
        get = "GET /?n=%d HTTP/1.1\r\nHost: x\r\n\r\n",
        sleeps = "GET /?n=%d&sleeps=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        old = "GET /?n=%d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        reads = "POST /?n=%d&reads=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        ignores = "POST /?n=%d HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" .. ("x"):rep(70000),
        continues = "POST /?n=%d&reads=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        head = "HEAD /?n=%d HTTP/1.1\r\nHost: x\r\n\r\n",
      }
      local names = {}
      for name in pairs(KINDS) do names[#names + 1] = name end
      table.sort(names)
      for _, is_slow in ipairs { false, true } do
        local requests, expected = {}, {}
        for i = 1, #SIZES * #names do
          local name, n = names[i % #names + 1], i % #SIZES + 1
          requests[i] = KINDS[name]:format(n)
          expected[i] = name == "head" and "" or bodies[n]
        end
        requests[#requests + 1] = "GET /?n=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        expected[#expected + 1] = ""
        local conn <close> = assert(uv.connect("127.0.0.1", server.port))
        rn.go(function() conn:write(table.concat(requests)) end)
        local parts = {}
        for piece in conn:read() do
          parts[#parts + 1] = piece
          if is_slow and #parts % 50 == 0 then rn.sleep(1) end
        end
        local answer, at = table.concat(parts):gsub("HTTP/1.1 100 Continue\r\n\r\n", ""), 1
        for i, body in ipairs(expected) do
          local from = answer:match("^HTTP/1.1 200 OK\r\n.-\r\n\r\n()", at)
          assert.is_truthy(from, i)
          assert.is_true(answer:sub(from, from + #body - 1) == body, i)
          at = from + #body
        end
        assert.equal(#answer + 1, at)
      end
    end)

    it("that are long are given up when the client goes away, or the server does", function()
      local body, answered = ("x"):rep(8 << 20), 0
      local server = serve(function()
        answered = answered + 1
        return 200, nil, body
      end)
      local conns = {}
      for i = 1, 20 do
        conns[i] = assert(uv.connect("127.0.0.1", server.port))
        conns[i]:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        if i % 2 == 0 then conns[i]:close() end
      end
      wait_for(function() return answered >= 10 end)
      server:close()
      for _, conn in ipairs(conns) do conn:close() end
    end)

    it("that are shorter or longer than their length are cut, which is reported", function()
      local pieces
      local server <close> = serve(function() return 200, { ["Content-Length"] = 6 }, rn.to_chan(pieces) end)
      for word, list in pairs { shorter = { "abc" }, longer = { "abc", "defg" } } do
        pieces = list
        local body
        local errors = reported(function() body = select(2, ask(server, "GET /")) end)
        assert.equal("abc", body)
        assert.match("the body is " .. word .. " than its header Content%-Length says", errors[1])
      end
    end)

    it("have headers of any size up to max_header, else they are a 500 that is reported", function()
      local server <close> = serve(function(req) return 200, { ["X-A"] = ("a"):rep(tonumber(req.query.n)) }, "x" end)
      for _, n in ipairs { 1, 1000, 16300 } do
        local _, body, headers = ask(server, "GET /?n=" .. n)
        assert.same({ "x", n }, { body, #headers:match "X%-A: (a+)" })
      end
      local status
      local errors = reported(function() status = ask(server, "GET /?n=16400") end)
      assert.equal(500, status)
      assert.match("the headers are longer than max_header", errors[1])
    end)

    it("may end the connection, and may not set what the server sets", function()
      local headers
      local server <close> = serve(function() return 200, headers, "x" end)
      headers = { Connection = "close" }
      assert.match("\r\nConnection: close\r\n\r\nx$", exchange(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
      for name, value in pairs { ["Transfer-Encoding"] = "chunked", Connection = "upgrade", ["X Y"] = "a" } do
        headers = { [name] = value }
        local errors = reported(function() assert.equal(500, (ask(server, "GET /"))) end)
        assert.match("the header .*" .. name:gsub("%W", "%%%0") .. ".* cannot be set", errors[1])
      end
    end)

    it("come from a channel, whose first piece may be empty", function()
      local server <close> = serve(function() return 200, nil, rn.to_chan { "", "a" } end)
      local status, body = ask(server, "GET /")
      assert.same({ 200, "1\r\na\r\n0\r\n\r\n" }, { status, body })
    end)

    it("come from a channel, as fast as the client reads", function()
      local puts = 0
      local server <close> = serve(function()
        local ch = rn.chan()
        rn.go(function()
          while ch:put(("x"):rep(10000)) do puts = puts + 1 end
        end)
        return 200, nil, ch
      end)
      local conn = assert(uv.connect("127.0.0.1", server.port))
      conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      local before
      wait_for(function() -- the buffers of the system are full
        local same = puts == before
        before = puts
        rn.sleep(200)
        return same and puts > 0
      end)
      assert.is_true(puts < 3000, puts)
      conn:close()
      wait_for(function()
        before = puts
        rn.sleep(50)
        return puts == before
      end)
    end)

    it("of a channel have chunks, or the length that a header says", function()
      local server <close> = serve(function(req)
        return 200, req.path == "/length" and { ["Content-Length"] = 6 } or nil, rn.to_chan { "abc", "", "def" }
      end)
      local status, body, headers = ask(server, "GET /length")
      assert.same({ 200, "abcdef" }, { status, body })
      assert.match("Content%-Length: 6", headers)
      status, body, headers = ask(server, "GET /")
      assert.equal(200, status)
      assert.match("^%d\r\nabc.*def\r\n0\r\n\r\n$", body)
      assert.match("chunked", headers)
    end)

    it("are cut if the channel closes with an error, which is reported", function()
      local server <close> = serve(function()
        return 200, nil, rn.go(function() error("the disk has failed", 0) end)
      end)
      local answer
      local errors = reported(function() answer = exchange(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") end)
      assert.not_match("0\r\n\r\n$", answer)
      assert.match("the disk has failed", errors[1])
    end)

    it("are a 500 if the function raises or returns something else, which is reported", function()
      local what
      local server <close> = serve(function() return what() end)
      for message, f in pairs {
        ["boom"] = function() error "boom" end,
        ["status from 200 to 599"] = function() return "text" end,
        ["got 99 as the status"] = function() return 99 end,
        ["headers: a table or nil expected, got a string: the function returned 200 and that; to send a body without "
          .. "headers, return 200, nil, body"] = function() return 200, "text/html" end,
        ["the header \"Y\" cannot be set: it has a line break"] = function() return 200, { Y = "a\0b" } end,
        ["cannot be set: it has a line break or a zero byte"] = function() return 200, { ["Y\0"] = "a" } end,
        ["body: a string, a channel of strings"] = function() return 200, nil, 42 end,
        ["as JSON"] = function() return 200, nil, { f = print } end,
        ["the header \"X\" cannot be set"] = function() return 200, { X = "a\r\nSet-Cookie: b" } end,
        ["the header X: a string expected"] = function() return 200, { X = true } end,
        ["names are strings"] = function() return 200, { "X" } end,
      } do
        what = f
        local status
        local errors = reported(function() status = ask(server, "GET /") end)
        assert.equal(500, status, message)
        assert.equal(1, #errors, message)
        assert.truthy(errors[1]:find(message, 1, true), errors[1])
      end
      what = function() return 200, nil, "still here" end
      assert.equal(200, (ask(server, "GET /")))
    end)

    it("are a 500 if the go block of the request dies", function()
      local server <close> = serve(function() coroutine.yield() end)
      local status
      local errors = reported(function() status = ask(server, "GET /") end)
      assert.equal(500, status)
      assert.match("coroutine.yield", errors[1])
    end)
  end)

  describe("clients that misbehave", function()
    local function hello() return 200, nil, "hello" end

    it("get an error for garbage, and others are served", function()
      local server <close> = serve(hello)
      for _, garbage in ipairs {
        "\r\n\r\n\r\n", "hello\r\n\r\n", ("\0\255\1"):rep(1000) .. "\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nabc\r\n",
      } do
        local conn <close> = assert(uv.connect("127.0.0.1", server.port))
        conn:write(garbage)
        local answer = rn.alts { conn:read(), rn.timeout(500) }
        assert.is_true(not answer or answer:find "^HTTP/1.1 [45]%d%d" ~= nil or answer:find "200 OK" ~= nil, answer)
        assert.equal("hello", (select(2, ask(server, "GET /"))))
      end
    end)

    it("get 431 for huge headers, 414 for a huge target, however much they send", function()
      local server <close> = serve(hello)
      local lines = {}
      for i = 1, 400 do lines[i] = ("X-%d: %s\r\n"):format(i, ("x"):rep(50)) end
      assert.equal(431, (ask(server, "GET /", table.concat(lines) .. "\r\n")))
      assert.equal(431, (ask(server, "GET /", table.concat(lines, "", 1, 300) .. "\r\n")))
      for _, before in ipairs { "", "\r\n" } do
        assert.match("^HTTP/1.1 414 ", exchange(server, before .. "GET /" .. ("x"):rep(200000)))
        assert.match("^HTTP/1.1 414 ", exchange(server, ("%sGET /%s HTTP/1.1\r\nHost: x\r\n\r\n")
          :format(before, ("x"):rep(20000))))
      end
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write "GET / HTTP/1.1\r\nHost: x\r\n"
      local sent = 0
      while sent < 100 << 20 and conn:write("X: " .. ("x"):rep(65536) .. "\r\n") do sent = sent + 65536 end
      assert.is_true(sent < 10 << 20, sent)
    end)

    it("get 431 and 414 beyond max_header, 16384 by default; a response with longer headers is a 500", function()
      for max, opts in pairs { [1000] = { max_header = 1000 }, [16384] = false } do
        local server <close> = serve(function(req)
          if req.path == "/long" then return 200, { ["X-Long"] = ("x"):rep(max) } end
          return 200, nil, "hello"
        end, opts or nil)
        assert.equal(200, (ask(server, "GET /", ("X: %s\r\n\r\n"):format(("x"):rep(max // 2)))))
        assert.equal(200, (ask(server, "GET /" .. ("x"):rep(max // 2), "\r\n")))
        assert.equal(431, (ask(server, "GET /", ("X: %s\r\n\r\n"):format(("x"):rep(max)))))
        assert.equal(414, (ask(server, "GET /" .. ("x"):rep(max), "\r\n")))
        local status
        local errors = reported(function() status = ask(server, "GET /long", "\r\n") end)
        assert.equal(500, status)
        assert.match("max_header", errors[1])
      end
    end)

    it("get 501 for CONNECT and a transfer coding below chunked, 400 for one that hides the end of the body", function()
      local server <close> = serve(hello)
      assert.equal(501, (ask(server, "CONNECT example.org:443", "\r\n"))) -- it is no proxy
      for value, status in pairs { ["gzip, chunked"] = 501, ["x ,\tCHUNKED"] = 501, gzip = 400, ["chunked, gzip"] = 400,
        [","] = 400, [""] = 400 } do
        local rest = ("Transfer-Encoding: %s\r\n\r\n0\r\n\r\n"):format(value)
        assert.equal(status, (ask(server, "POST /", rest)), value)
      end
    end)

    it("get 413 for a body that is too long, known before or not", function()
      local n, ended = 0, 0
      local server <close> = serve(function(req)
        local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
        n = n + 1
        return 200, nil, req:body()
      end, { max = 1000, idle = 1000 })
      assert.equal(1000, #select(2, ask(server, "POST /", post(("x"):rep(1000)))))
      assert.equal(413, (ask(server, "POST /", post(("x"):rep(1001)))))
      assert.equal(1, n)
      local chunks = "Transfer-Encoding: chunked\r\n\r\n7D0\r\n" .. ("x"):rep(2000) .. "\r\n0\r\n\r\n"
      assert.equal(413, (ask(server, "POST /", chunks)))
      wait_for(function() return ended == 2 end)
      local endless = assert(uv.connect("127.0.0.1", server.port))
      endless:write "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      wait_for(function() return not endless:write("400\r\n" .. ("x"):rep(1024) .. "\r\n") end)
      endless:close()
    end)

    it("are logged with the status that the server has sent in place of the program", function()
      local requests = {
        [400] = "Transfer-Encoding: chunked\r\n\r\nx",
        [408] = "Content-Length: 10\r\n\r\nx",
        [413] = "Transfer-Encoding: chunked\r\n\r\n7D0\r\n" .. ("x"):rep(2000),
        [503] = "Content-Length: 0\r\n\r\n",
      }
      for expected, rest in pairs(requests) do
        local entries = {}
        local f = http.log(function(req)
          req:body()
          rn.sleep(60000)
        end, { format = function(entry) return entry end, to = function(entry) entries[#entries + 1] = entry end })
        local opts = { max = 1000, idle = expected == 408 and 50 or 60000, timeout = expected == 503 and 50 or 60000 }
        local server <close> = serve(f, opts)
        assert.equal(expected, (ask(server, "POST /", rest)))
        wait_for(function() return entries[1] end)
        assert.equal(expected, entries[1].status)
        assert.match(expected == 408 and "did not arrive in time" or "", entries[1].error)
      end
    end)

    it("that go away cancel the go block of their request", function()
      local running, ended = 0, 0
      local server <close> = serve(function(req)
        local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
        running = running + 1
        if req.method == "POST" then req:body() end
        rn.sleep(60000)
        return 200
      end)
      for i, text in ipairs {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
      } do
        local conn = assert(uv.connect("127.0.0.1", server.port))
        conn:write(text)
        wait_for(function() return running == i end)
        conn:close()
        wait_for(function() return ended == i end)
      end
    end)

    it("get the answer if they have only closed their side", function()
      local server <close> = serve(hello)
      wait_for(function() -- the server gives such a client 100 ms, in which a busy machine may not run the function
        local conn <close> = assert(uv.connect("127.0.0.1", server.port))
        conn:write "GET / HTTP/1.0\r\n\r\n"
        conn:shutdown()
        return table.concat(stage.drain(conn:read())):match "hello$"
      end)
    end)

    it("that are too slow with their headers, or with the next request, are disconnected", function()
      local server <close> = serve(hello, { idle = math.ceil(300 * patience.factor()) })
      local began = rn.now()
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write "GET / HTTP/1.1\r\n"
      local dripping = rn.go(function()
        while conn:write "X: y\r\n" do rn.sleep(20) end
      end)
      assert.match("^HTTP/1.1 408 ", (conn:read():take()))
      dripping:take()
      assert.is_true(rn.now() - began < patience.most)
      assert.match("hello$", exchange(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    end)

    it("get 503 when the answer takes too long, and the go block a timeout", function()
      local err
      local server <close> = serve(function()
        err = select(2, pcall(rn.sleep, 60000))
        error(err, 0)
      end, { timeout = 50 })
      assert.equal(503, (ask(server, "GET /")))
      wait_for(function() return err ~= nil end)
      assert.is_true(rn.is_timeout(err))
      assert.match("no answer after 50 ms", tostring(err))
    end)

    it("that send their body too slowly are disconnected", function()
      local server <close> = serve(function(req) return 200, nil, req:body() end, { timeout = 200, idle = 300 })
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
      local dripping = rn.go(function()
        while conn:write "x" do rn.sleep(20) end
      end)
      conn:read():take()
      dripping:take()
    end)

    it("get 503 when there are too many connections, in total or from one address", function()
      for _, opts in ipairs { { max_connections = 2 }, { max_per_address = 2 } } do
        local server <close> = serve(hello, opts)
        local a = assert(uv.connect("127.0.0.1", server.port))
        local b <close> = assert(uv.connect("127.0.0.1", server.port)) -- luacheck: ignore 211
        local status, _, headers = ask(server, "GET /")
        assert.equal(503, status)
        assert.match("Retry%-After: 1\r\n", headers)
        a:close()
        wait_for(function() return ask(server, "GET /") == 200 end)
      end
    end)

    it("are disconnected at once when there are many more than the limit", function()
      local server <close> = serve(function() return 200 end, { max_connections = 1 })
      local conns, closed = {}, rn.chan()
      for i = 1, 1 + 64 + 1 do
        conns[i] = assert(uv.connect("127.0.0.1", server.port))
        rn.go(function()
          conns[i]:read():take()
          closed:put(i)
        end)
      end
      assert.equal(1 + 64 + 1, (closed:take()))
      for _, conn in ipairs(conns) do conn:close() end
      for _ = 1, 1 + 64 do closed:take() end
    end)

    it("are accepted again once the process has descriptors for them", function()
      assert.equal("false\tHTTP/1.1 200 OK\n", (stage.script([[
        local rn, uv, http = require "runnel", require "runnel.uv", require "runnel.http"
        local warm = http.serve(0, function() return 200 end)
        assert(uv.connect("127.0.0.1", warm.port)):close() -- what the loop itself needs is open then
        warm:drain()
        local server <close> = http.serve(0, function() return 200 end)
        local request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        local first = assert(uv.connect("127.0.0.1", server.port))
        local function ask()
          first:write(request)
          return first:read():take()
        end
        ask()
        local spare = {}
        repeat
          local file = io.open "/dev/null"
          spare[#spare + 1] = file
        until not file
        table.remove(spare):close() -- the client's; the server gets none
        local conn = assert(uv.connect("127.0.0.1", server.port))
        conn:write(request)
        ask() ask() -- before the second one, the server has tried to accept
        local answered = conn:read():poll() ~= nil
        for _, file in ipairs(spare) do file:close() end
        print(answered, conn:read():take():match "^[^\r]*")
        conn:close()
        first:close()]], "ulimit -n 64;")))
    end)
  end)

  describe("its end", function()
    it("is an error that says so when the port is taken, or the address wrong", function()
      local server <close> = serve(function() end)
      local second, err = http.serve(server.port, function() end)
      assert.is_nil(second)
      assert.match("port " .. server.port .. " of 127%.0%.0%.1 is taken", err)
      second, err = http.serve(0, function() end, { host = "nowhere" })
      assert.is_nil(second)
      assert.match("nowhere is not a numeric address", err)
    end)

    it("closes all connections, and cancels the go blocks of requests", function()
      local running, ended = false, false
      local server = serve(function()
        local _ <close> = setmetatable({}, { __close = function() ended = true end })
        running = true
        rn.sleep(60000)
      end)
      local answer = rn.go(exchange, server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      wait_for(function() return running end)
      server:close()
      server:close()
      assert.equal("", answer:take())
      wait_for(function() return ended end)
      assert.match("closed", tostring(server))
      assert.is_nil((uv.connect("127.0.0.1", server.port)))
    end)

    it("drains: requests that run are answered, connections without one are closed, no new one is accepted", function()
      local go = rn.chan()
      local running = 0
      local server = serve(function()
        running = running + 1
        go:take()
        return 200, nil, "answered"
      end)
      local idle = assert(uv.connect("127.0.0.1", server.port))
      local answer = rn.go(exchange, server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      wait_for(function() return running == 1 end)
      local drained = rn.go(function() return server:drain() end)
      assert.is_nil((idle:read():take()))
      wait_for(function() return not uv.connect("127.0.0.1", server.port) end)
      go:close()
      assert.match("answered$", answer:take())
      assert.is_true(drained:take())
      assert.is_true(server:drain())
    end)

    it("drains for a limited time", function()
      local running
      local server = serve(function()
        running = true
        rn.sleep(60000)
      end)
      rn.go(exchange, server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      wait_for(function() return running end)
      local drained, err = server:drain(50)
      assert.is_false(drained)
      assert.is_true(rn.is_timeout(err))
      assert.matches("^the server http://127.0.0.1:%d+/ was not drained within 50 ms$", tostring(err))
    end)

    it("is no success of drain if it comes before the requests were answered", function()
      local function drain_until(finish)
        local running
        local server = serve(function()
          running = true
          rn.sleep(60000)
        end)
        rn.go(exchange, server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(function() return running end)
        local drained = rn.go(function() return { server:drain() } end)
        rn.yield() -- it waits
        finish(server)
        for _, results in ipairs { drained:take(), { server:drain() } } do
          assert.is_false(results[1])
          assert.matches("^the server http://127.0.0.1:%d+/ was closed before it was drained$", results[2])
        end
      end
      drain_until(function(server) server:close() end)
      drain_until(function(server) assert.is_true(rn.is_timeout(select(2, server:drain(1)))) end)
    end)

    it("comes with the end of the Lua state, while requests run or are on their way", function()
      local shell = require "spec.support.shell"
      for _, last in ipairs {
        "running:take()",
        "local before = rn.now() repeat until rn.now() - before > 200", -- no event reaches Lua
      } do
        local out, errors, status = shell.run(([[lua -e '
          local rn, http = require "runnel", require "runnel.http"
          local uv = require "runnel.uv"
          local running = rn.chan(1)
          server = assert(http.serve(0, function() running:put(true) rn.sleep(60000) end))
          conn = assert(uv.connect("127.0.0.1", server.port))
          conn:write "GET / HTTP/1.0\r\n\r\n"
          %s
          print "done"
        ']]):format(last))
        assert.same({ "done\n", 0 }, { out, status })
        assert.matches("^runnel: the program has ended, and its server http://%S+ is open: [^\n]+\n$", errors)
      end
    end)
  end)

  it("checks its arguments at the caller's line", function()
    local f = function() end
    raises("serve: a port, or the path", function() http.serve("80", f) end)
    raises("serve: port: at most 65535", function() http.serve(65536, f) end)
    raises("serve: f: a function expected", function() http.serve(0, "f") end)
    raises("serve: .*ports", function() http.serve(0, f, { ports = 1 }) end)
    raises("serve: host", function() http.serve(0, f, { host = 1 }) end)
    raises("serve: max: an integer", function() http.serve(0, f, { max = "1" }) end)
    raises("serve: idle", function() http.serve(0, f, { idle = 0 }) end)
    raises("serve: timeout", function() http.serve(0, f, { timeout = -1 }) end)
    raises("serve: header_timeout", function() http.serve(0, f, { header_timeout = "1" }) end)
    raises("serve: max_requests", function() http.serve(0, f, { max_requests = 0 }) end)
    raises("serve: max_per_address", function() http.serve(0, f, { max_per_address = 0 }) end)
    raises("serve: min_rate", function() http.serve(0, f, { min_rate = -1 }) end)
    raises("serve: reuseport", function() http.serve(0, f, { reuseport = 1 }) end)
    raises("serve: fd", function() http.serve(0, f, { fd = "3" }) end)
  end)

  it("needs real time", function()
    local sim = require "runnel.sim"
    sim.run(function()
      raises("simulation", function() http.serve(0, function() end) end)
    end)
  end)
end)
