-- http.get, http.request, http.stream: what is sent, what comes back, and what goes wrong. The servers are functions
-- over plain sockets, so that they can misbehave.

local forms = require "spec.support.long"
local patience = require "spec.support.patience"
local rn = require "runnel"
local raises = require "spec.support.raises"
local http_stage = require "spec.support.http.http_stage"
local uv_stage = require "spec.support.uv_stage"

describe("the client of runnel.http", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"
  local uv = require "runnel.uv"
  local tls = require "spec.support.tls"

  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Serves each connection by a function. Returns the URL of the server.
  local function server(serve) return ("http://127.0.0.1:%d/"):format(http_stage.serve(serve)) end

  -- Reads a request: its head, and its body if it has a length or comes in chunks.
  local function read_request(conn)
    local held, input = "", conn:read()
    local function more()
      local chunk = input:take()
      held = held .. (chunk or "")
      return chunk
    end
    while not held:find("\r\n\r\n", 1, true) do
      if not more() then return nil end
    end
    local head, body = held:match "^(.-\r\n)\r\n(.*)$"
    held = body
    local length = tonumber(head:match "\r\n[Cc]ontent%-[Ll]ength: (%d+)")
    if length then
      while #held < length do more() end
    elseif head:find "\r\n[Tt]ransfer%-[Ee]ncoding: chunked" then
      while not held:find "0\r\n\r\n$" do more() end
    end
    return head, held
  end

  -- A server that answers each connection's first request with a text, and closes it.
  local function answering(text)
    return server(function(conn)
      read_request(conn)
      conn:write(text)
      conn:shutdown()
      for _ in conn:read() do end
    end)
  end

  local function ok(body, headers)
    return ("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s"):format(headers or "", #body, body)
  end

  -- The URL of a server that never answers, and two channels: one gets a value for each connection that has ended,
  -- the other for each request that has come.
  local function silent()
    local gone, came = rn.chan(20), rn.chan(20)
    return server(function(conn)
      if read_request(conn) then came:put(true) end
      for _ in conn:read() do end
      gone:put(true)
    end), gone, came
  end

  -- The request that a call sends.
  local function sent_by(opts)
    local sent
    opts.url = server(function(conn)
      sent = table.pack(read_request(conn))
      conn:write(ok "")
    end)
    assert(http.request(opts))
    return sent[1], sent[2]
  end

  describe("responses", function()
    it("has a thread with a name, by which tools of the system show it", function()
    if not io.open "/proc/self/comm" then return pending "this system has no /proc" end
    assert(http.get(answering(ok "x")))
    local names = io.popen "cat /proc/$PPID/task/*/comm"
    assert.matches("runnel%-http\n", names:read "a")
    names:close()
  end)

  it("have a status, headers and a body", function()
      local url = answering(ok("hello", "X-One: 1\r\nx-two: a\r\nX-TWO:b \r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"))
      local page = assert(http.get(url))
      assert.equal(200, page.status)
      assert.equal("hello", page.body)
      assert.equal(url, page.url)
      assert.same({ ["content-length"] = "5", ["x-one"] = "1", ["x-two"] = "a, b", ["set-cookie"] = { "a=1", "b=2" } },
        page.headers)
      local long = ("Long"):rep(20)
      assert.equal("1", assert(http.get(answering(ok("", long .. ": 1\r\n")))).headers[long:lower()])
    end)

    it("have the same headers at each reading, and among all their fields", function()
      local page = assert(http.get(answering(ok("hello", "X-One: 1\r\n"))))
      local fields = {}
      for name, value in pairs(page) do fields[name] = value end
      assert.same({ status = 200, headers = { ["content-length"] = "5", ["x-one"] = "1" }, body = "hello",
        url = page.url, timing = page.timing }, fields)
      assert.equal(fields.headers, page.headers)
      page.headers.more = "2"
      assert.equal("2", page.headers.more)
      assert.is_nil(page.head)
      assert.is_nil(page.other)
    end)

    it("are no reason to wait for more: a wait for nothing after the last one is a deadlock", function()
      for _ = 1, 3 do assert.is_nil(http.get "http://127.0.0.1:1/") end
      raises("deadlock", function() rn.chan():take() end)
    end)

    it("may have any status, which is an error only with fail = true", function()
      local url = answering "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"
      assert.equal(404, assert(http.get(url)).status)
      local page, err, response = http.get(url, { fail = true })
      assert.is_nil(page)
      assert.matches("^127%.0%.0%.1:%d+: the status is 404$", err)
      assert.equal("gone", response.body)
    end)

    it("refuse the user without a body", function()
      local url = answering "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
      local as = { userpwd = "user:wrong", httpauth = "basic" }
      assert.equal(401, assert(http.get(url, as)).status)
      local pieces, head = http.stream(url, as)
      assert.equal(401, assert(head()).status)
      assert.is_nil(pieces:take())
    end)

    it("are decoded from JSON", function()
      assert.same({ a = { 1, 2 } }, assert(http.get(answering(ok '{"a":[1,2]}'))):json())
      assert.equal(http.null, assert(http.get(answering(ok '{"a":null}'))):json().a)
      local value, err = assert(http.get(answering(ok "<html>"))):json()
      assert.is_nil(value)
      assert.matches("^not JSON", err)
    end)

    it("follow redirects, up to a limit", function()
      local target = answering(ok "here")
      local url = answering(("HTTP/1.1 302 Found\r\nX: 1\r\nLocation: %s\r\nContent-Length: 1\r\n\r\nx"):format(target))
      local page = assert(http.get(url))
      assert.same({ "here", target, nil }, { page.body, page.url, page.headers.x })
      assert.equal(302, assert(http.get(url, { redirects = 0 })).status)
      assert.equal(304, assert(http.get(answering "HTTP/1.1 304 Not Modified\r\n\r\n")).status) -- leads nowhere
    end)

    it("may announce a body that does not come: after HEAD, and with 304", function()
      local url = answering "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100000000000\r\n\r\n"
      local page = assert(http.request { url = url, method = "HEAD" })
      assert.same({ 200, "100000000000", "" }, { page.status, page.headers["content-length"], page.body })
      page = assert(http.get(answering "HTTP/1.1 304 Not Modified\r\nContent-Length: 100000000000\r\n\r\n"))
      assert.same({ 304, "" }, { page.status, page.body })
    end)

    it("may have headers that go on in the next line, which a space replaces", function()
      local page = assert(http.get(answering(ok("", "X: a \r\n \t b\r\n\tc\r\nY:\r\n d\r\nZ: e\r\n \r\n"))))
      assert.same({ "a b c", "d", "e" }, { page.headers.x, page.headers.y, page.headers.z })
    end)

    it("use a connection again", function()
      local connections = 0
      local url = server(function(conn)
        connections = connections + 1
        while read_request(conn) do conn:write(ok "again") end
      end)
      for _ = 1, 10 do assert.equal("again", assert(http.get(url)).body) end
      assert.equal(1, connections)
    end)

    it("come at a limited speed", function()
      local page = assert(http.get(answering(ok(("x"):rep(100000))),
        { max_recv_speed_large = 10 << 20, low_speed_limit = 1, low_speed_time = 60 }))
      assert.equal(100000, #page.body)
    end)

    it("come for many requests at once", function()
      local url = server(function(conn)
        while true do
          local head = read_request(conn)
          if not head then return end
          conn:write(ok(head:match "^GET /(%d+)"))
        end
      end)
      local urls, total = {}, 0
      for i = 1, 500 do urls[i] = url .. i end
      for page in rn.pmap(64, http.get, urls) do
        total = total + 1
        assert.equal(tostring(total), page.body)
      end
      assert.equal(500, total)
    end)
  end)

  describe("compressed bodies", function()
    -- What gzip makes of a text.
    local function gzip(text)
      local pipe <close> = assert(io.popen("gzip -c " .. uv_stage.path(text)))
      return pipe:read "a"
    end

    local function compressed(body) return ok(body, "Content-Encoding: gzip\r\n") end

    local TEXT <const> = ("hello"):rep(20000)

    it("are asked for and decompressed", function()
      local asked
      local url = server(function(conn)
        asked = read_request(conn)
        conn:write(compressed(gzip(TEXT)))
      end)
      assert.equal(TEXT, assert(http.get(url)).body)
      assert.matches("\r\nAccept%-Encoding: gzip\r\n", asked)
      assert.equal(TEXT, table.concat(rn.into({}, (http.stream(url))):take()))
    end)

    it("may have several members", function()
      assert.equal("onetwo", assert(http.get(answering(compressed(gzip "one" .. gzip "two")))).body)
    end)

    it("may be empty", function() assert.equal("", assert(http.get(answering(compressed ""))).body) end)

    it("may be of another kind, which libcurl knows, if the program asks for it", function()
      local url = answering(compressed(gzip(TEXT)))
      assert.equal(TEXT, assert(http.get(url, { accept_encoding = "" })).body)
      assert.equal(TEXT, assert(http.get(url, { accept_encoding = "br, gzip" })).body)
      assert.equal(TEXT, assert(http.get(url, { accept_encoding = "gzip" })).body)
    end)

    it("are not asked for if only a part is wanted, which is not decompressed", function()
      for _, opts in ipairs { { range = "0-2" }, { headers = { Range = "bytes=0-2" } } } do
        local asked
        local url = server(function(conn)
          asked = read_request(conn)
          conn:write("HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n" ..
            "\x1f\x8b\x08")
        end)
        assert.equal("\x1f\x8b\x08", assert(http.get(url, opts)).body)
        assert.is_nil(asked:find "Accept%-Encoding")
      end
    end)

    it("are errors if their end is missing, however they end", function()
      local whole = gzip(TEXT)
      for _, left in ipairs { #whole - 1, #whole - 8, #whole - 10, 5, 1 } do
        local cut = whole:sub(1, left)
        for _, text in ipairs {
          compressed(cut),
          "HTTP/1.1 200 OK\r\nContent-Encoding: x-gzip\r\n\r\n" .. cut,
          ("HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n")
            :format(#cut, cut),
          compressed(gzip "one" .. cut),
        } do
          local page, err = http.get(answering(text))
          assert.is_nil(page)
          assert.matches("^127%.0%.0%.1:%d+: the end of the compressed body is missing$", err)
        end
      end
      local pieces = http.stream(answering(compressed(whole:sub(1, -2))))
      local piece, err
      repeat
        piece, err = pieces:take()
      until piece == nil
      assert.matches("the end of the compressed body is missing$", err)
    end)

    it("of a stream are decompressed only as far as the program takes them", function()
      local lib, lines = require "runnel.http.curl", {}
      for i = 1, 100000 do lines[i] = ("%d\n"):format(i) end
      -- Some members that become much longer than what is read from the network at once, and some that do not.
      local texts, members, sum, size = { ("x"):rep(5000000), table.concat(lines) }, {}, 0, 0
      for i = 1, 8 do
        local text = texts[i % 2 + 1]
        sum, size = lib.crc32(sum, text), size + #text
        members[i] = lib.deflater(9):deflate(text, "finish")
      end
      local pieces = http.stream(answering(compressed(table.concat(members))))
      local found, all, longest = 0, 0, 0
      for piece in pieces do
        found, all, longest = lib.crc32(found, piece), all + #piece, math.max(longest, #piece)
      end
      assert.same({ size, sum }, { all, found })
      assert.is_true(longest <= 300000, longest)
    end)

    it("are errors if they are damaged, or compressed in an unknown way", function()
      local whole = gzip(TEXT)
      for _, text in ipairs { compressed("no" .. whole), compressed(whole .. "more"),
        compressed(whole:sub(1, -9) .. "00000000") } do
        local page, err = http.get(answering(text))
        assert.is_nil(page)
        assert.matches("the compressed body is damaged: %a+", err)
      end
      local _, err = http.get(answering(ok("x", "Content-Encoding: shrink\r\n")))
      assert.matches('the body has the Content%-Encoding "shrink", which cannot be decompressed$', err)
    end)
  end)

  describe("redirects", function()
    -- A server that redirects to the path /target, with the status that is the path of a request. Returns its URL, and
    -- a table whose field `request` is the last request to /target.
    local function redirecting()
      local got = {}
      return server(function(conn)
        while true do
          local head, body = read_request(conn)
          if not head then return end
          local method, path = head:match "^(%u+) /(%w+)"
          if path == "target" then
            got.request = ("%s %s %s"):format(method, body, head:match "[Cc]ontent%-[Tt]ype: (%S+)")
            conn:write(ok "here")
          else
            conn:write(("HTTP/1.1 %s See\r\nLocation: /target\r\nContent-Length: 0\r\n\r\n"):format(path))
          end
        end
      end), got
    end

    -- What arrives behind a redirect: method, body and type.
    local function arrives(status, opts)
      local url, got = redirecting()
      opts.url = url .. status
      assert(http.request(opts))
      return got.request
    end

    it("make a GET without a body of POST at 301 and 302, and of all but HEAD at 303, as in browsers", function()
      for _, status in ipairs { 301, 302, 303 } do
        for _, body in ipairs { "text", rn.to_chan { "te", "xt" }, assert(io.open(uv_stage.path "text")) } do
          assert.equal("GET  nil", arrives(status, { body = body, headers = { ["content-type"] = "text/x" } }))
        end
        assert.equal("GET  nil", arrives(status, { form = { a = 1 } }))
        assert.equal("GET  nil", arrives(status, { multipart = { { name = "a", data = "b" } } }))
        assert.equal("GET  nil", arrives(status, { method = "POST" }))
        assert.equal("HEAD  nil", arrives(status, { method = "HEAD" }))
      end
      for _, method in ipairs { "PUT", "PATCH", "DELETE" } do
        assert.equal("GET  nil", arrives(303, { method = method, json = { 1 } }))
        assert.equal("GET  nil", arrives(303, { method = method, body = rn.to_chan { "text" } }))
        assert.equal("GET  nil", arrives(303, { method = method }))
      end
    end)

    it("keep method, body and type otherwise", function()
      for _, status in ipairs { 301, 302, 307, 308 } do
        for _, method in ipairs { "PUT", "PATCH", "DELETE" } do
          assert.equal(method .. " [1] application/json", arrives(status, { method = method, json = { 1 } }))
        end
        local file <close> = assert(io.open(uv_stage.path "in a file"))
        assert.equal("PUT in a file nil", arrives(status, { method = "PUT", body = file }))
        assert.equal("DELETE  nil", arrives(status, { method = "DELETE" }))
      end
      for _, status in ipairs { 307, 308 } do
        assert.equal("POST [1] application/json", arrives(status, { json = { 1 } }))
        assert.equal("POST a=1 application/x-www-form-urlencoded", arrives(status, { form = { a = 1 } }))
      end
      assert.equal("GET text nil", arrives(302, { method = "GET", body = "text" }))
    end)

    it("are errors if what came from a channel has to be sent again", function()
      for _, opts in ipairs { { method = "PUT", status = 302 }, { method = "POST", status = 307 } } do
        local url = redirecting()
        local body = rn.to_chan { "a", "b" }
        local page, err = http.request { url = url .. opts.status, method = opts.method, body = body }
        assert.is_nil(page)
        assert.matches("wants the body again, after a redirect or with a login, and what came from a channel can be "
          .. "sent only once", err)
      end
    end)

    it("do not pass the option cookie on to another server, but to the same one", function()
      local cookies = {}
      local function noting(location)
        return function(conn)
          while true do
            local head = read_request(conn)
            if not head then return end
            cookies[#cookies + 1] = head:match "Cookie: ([^\r]*)" or "none"
            local to = head:find "^GET /end" and "200 OK\r\n" or "302 Found\r\nLocation: " .. location .. "\r\n"
            conn:write(("HTTP/1.1 %sContent-Length: 0\r\n\r\n"):format(to))
          end
        end
      end
      local other = server(noting "/end")
      assert(http.get(server(noting(other .. "on")), { cookie = "secret=1" }))
      assert.same({ "secret=1", "none", "none" }, cookies)
      cookies = {}
      assert(http.get(server(noting "end of it"), { cookie = "secret=1" }))
      assert.same({ "secret=1", "secret=1" }, cookies)
    end)
  end)

  describe("requests", function()
    it("send a method and headers", function()
      local head = sent_by { method = "delete", headers = { ["X-One"] = 1, Empty = "", Many = { "a", "b" } } }
      assert.matches("^DELETE / HTTP/1.1\r\n", head)
      for _, line in ipairs { "X%-One: 1", "Empty:", "Many: a", "Many: b", "User%-Agent: runnel/[%d.]+" } do
        assert.matches("\r\n" .. line .. "\r\n", head)
      end
    end)

    it("send a query", function()
      local head = sent_by { query = { q = "a b&c", n = { 1, 2 }, ["ü"] = true } }
      assert.matches("^GET /%?n=1&n=2&q=a%%20b%%26c&%%C3%%BC=true HTTP", head)
    end)

    it("send a string, without a type if none is given", function()
      local head, body = sent_by { body = "a\0b" }
      assert.matches("^POST / ", head)
      assert.equal("a\0b", body)
      assert.is_nil(head:find "Content%-Type")
      assert.is_nil(head:find "Expect")
      assert.matches("^PUT / ", (sent_by { body = "", method = "PUT" }))
    end)

    it("say that they have no body, if their method has one elsewhere", function()
      for _, method in ipairs { "POST", "PUT", "PATCH" } do
        local head, body = sent_by { method = method }
        assert.matches("^" .. method .. " / .*Content%-Length: 0\r\n", head)
        assert.is_nil(head:lower():find "content%-type")
        assert.equal("", body)
      end
      for _, method in ipairs { "GET", "DELETE", "OPTIONS", "PROPFIND" } do
        assert.is_nil(sent_by({ method = method }):lower():find "content%-length", method)
      end
    end)

    it("encode what is not ASCII in a path and a query", function()
      local line
      local url = server(function(conn)
        line = read_request(conn):match "^[^\r]*"
        conn:write(ok "")
      end)
      for path, encoded in pairs {
        ["caf\u{e9}"] = "/caf%C3%A9", ["?q=caf\u{e9}"] = "/?q=caf%C3%A9", ["a?\xff=\xfe&b"] = "/a?%FF=%FE&b",
        ["%C3%A9?a=%20"] = "/%C3%A9?a=%20",
      } do
        assert(http.get(url .. path))
        assert.equal("GET " .. encoded .. " HTTP/1.1", line)
        assert(http.request { url = url .. path, query = { n = "\u{e9}" } })
        assert.matches("n=%C3%A9 HTTP/1.1", line, 1, true)
      end
    end)

    it("find a host by its name in Unicode, in any locale", function()
      local line
      local proxy = server(function(conn)
        line = read_request(conn):match "^[^\r]*"
        conn:write(ok "")
      end)
      assert(http.get("http://b\u{fc}cher.invalid/", { proxy = proxy }))
      assert.equal("GET http://xn--bcher-kva.invalid/ HTTP/1.1", line)
    end)

    it("say which resource is missing for a connection", function()
      local path = uv_stage.path [[
        local http = require "runnel.http"
        local server <close> = assert(http.serve(0, function() return 200 end))
        local url = "http://127.0.0.1:" .. server.port
        assert(http.get(url))
        local files = {}
        repeat
          local file = io.open "/dev/null"
          files[#files + 1] = file
        until not file
        print(select(2, http.get(url, { fresh_connect = true })))
        print(#files)
      ]]
      local program = uv.spawn { "sh", "-c", ('ulimit -n 60; exec "$0" %s'):format(path), os.getenv "LUA" or "lua5.4" }
      assert.matches("cannot connect: Too many open files", table.concat(rn.into({}, program.stdout):take()))
    end)

    it("leave descriptors for requests to other servers, of which each keeps a connection", function()
      local path = uv_stage.path [[
        local http, ok = require "runnel.http", 0
        for url in io.lines() do
          if http.get(url) then ok = ok + 1 end
        end
        print(ok)
      ]]
      local urls, servers = {}, {}
      for i = 1, 60 do
        servers[i] = assert(http.serve(0, function() return 200 end))
        urls[i] = servers[i].url .. "\n"
      end
      local program = uv.spawn { "sh", "-c", ('ulimit -n 60; exec "$0" %s'):format(path), os.getenv "LUA" or "lua5.4" }
      program.stdin:put(table.concat(urls))
      program.stdin:close()
      assert.equal("60\n", table.concat(rn.into({}, program.stdout):take()))
      for i = 1, #servers do servers[i]:close() end
    end)

    it("send JSON and forms", function()
      local head, body = sent_by { json = { a = { 1, 2.5, "x" } } }
      assert.matches("Content%-Type: application/json", head)
      assert.equal('{"a":[1,2.5,"x"]}', body)
      assert.equal("[null,[]]", select(2, sent_by { json = { http.null, http.array {} } }))
      head, body = sent_by { form = { b = 2, a = "x y" }, headers = { ["content-type"] = "text/x" } }
      assert.matches("[Cc]ontent%-[Tt]ype: text/x", head)
      assert.equal("a=x%20y&b=2", body)
    end)

    it("send parts, of strings and of files", function()
      local path = uv_stage.path "in the file"
      local head, body = sent_by { multipart = {
        { name = "title", data = "zero \0" }, { name = "photo", file = path, filename = "p.jpg", type = "image/jpeg" },
      } }
      assert.matches("^POST / .*Content%-Type: multipart/form%-data; boundary=", head)
      assert.is_truthy(body:find('name="title"\r\n\r\nzero \0\r\n', 1, true))
      assert.matches('name="photo"; filename="p.jpg"\r\nContent%-Type: image/jpeg\r\n\r\nin the file\r\n', body)
    end)

    it("send the rest of a file", function()
      local file <close> = assert(io.open(uv_stage.path(("0123456789"):rep(100000))))
      file:seek("set", 5)
      local head, body = sent_by { body = file }
      assert.matches("^POST / .*Content%-Length: 999995\r\n", head)
      assert.equal(999995, #body)
      assert.equal("56789", body:sub(1, 5))
      file:seek("end", 10)
      assert.matches("^POST / .*Content%-Length: 0\r\n", (sent_by { body = file }))
    end)

    it("send a file again after a redirect that keeps the method", function()
      local got
      local target = server(function(conn)
        got = select(2, read_request(conn))
        conn:write(ok "stored")
      end)
      local url = server(function(conn)
        read_request(conn)
        conn:write(("HTTP/1.1 307 Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"):format(target))
      end)
      local file <close> = assert(io.open(uv_stage.path "0123456789"))
      assert.equal("stored", assert(http.request { url = url, body = file }).body)
      assert.equal("0123456789", got)
    end)

    it("send what comes from a channel, in chunks or with a length", function()
      local head, body = sent_by { body = rn.to_chan { "six", "", "two" } } -- which do not end as a size does
      assert.matches("^POST / .*Transfer%-Encoding: chunked", head)
      assert.equal("sixtwo", (body:gsub("%x+\r\n", ""):gsub("\r\n", "")))
      head, body = sent_by { body = rn.to_chan { "six", "two" }, size = 6 }
      assert.matches("Content%-Length: 6", head)
      assert.equal("sixtwo", body)
    end)

    it("send no more from a channel than the server reads", function()
      local puts, go_on = 0, rn.chan()
      local url = server(function(conn)
        go_on:take()
        local size = 0
        for chunk in conn:read() do
          size = size + #chunk
          if size >= 1000 * 65536 then break end -- the head is longer than the rest
        end
        conn:write(ok "")
      end)
      local pieces, piece = rn.chan(), ("x"):rep(65536)
      rn.go(function()
        for _ = 1, 1000 do
          if not pieces:put(piece) then return end
          puts = puts + 1
        end
        pieces:close()
      end)
      local page = rn.go(http.request, { url = url, body = pieces, size = 1000 * 65536 })
      local before
      patience.wait_for(function() return puts > 0 end)
      repeat
        before = puts
        rn.sleep(200)
      until puts == before
      assert.is_true(puts < 500, puts .. " pieces were put")
      go_on:put(true)
      assert.equal(200, assert(page:take()).status)
      assert.equal(1000, puts)
    end)

    it("fail with the error of the channel", function()
      local pieces = rn.chan(1)
      pieces:put "one"
      pieces:close "no more disk"
      local url = server(function(conn) for _ in conn:read() do end end)
      assert.same({ n = 2, nil, "no more disk" }, table.pack(http.request { url = url, body = pieces }))
      local page, err = http.request { url = url, body = rn.to_chan { 42 } }
      assert.is_nil(page)
      assert.equal("the channel of a body carries strings, got a number", err)
    end)

    -- A server that sets a cookie, and answers with those that it got.
    local function cookie_server()
      return server(function(conn)
        while true do
          local head = read_request(conn)
          if not head then return end
          conn:write(ok(head:match "Cookie: ([^\r]*)" or "", "Set-Cookie: a=1\r\n"))
        end
      end)
    end

    it("share cookies", function()
      local url = cookie_server()
      local jar = http.cookies()
      assert.equal("", assert(http.get(url, { cookies = jar })).body)
      assert.equal("a=1", assert(http.get(url, { cookies = jar })).body)
      assert.equal("", assert(http.get(url, { cookies = http.cookies() })).body)
      assert.equal("", assert(http.get(url)).body)
      local other = http.cookies()
      for _, line in ipairs(jar:all()) do other:add(line) end
      assert.equal("a=1", assert(http.get(url, { cookies = other })).body)
    end)

    it("add only cookies to a jar, and say what is none", function()
      local jar = http.cookies()
      jar:add "Set-Cookie: a=1; domain=example.org"
      for _, line in ipairs { "nonsense", "", "Set-Cookie: b=2", "set-cookie:", "# a comment\tof a file", "a\tb",
        "Set-Cookie: c=" .. ("v"):rep(5000) .. "; domain=example.org", "Set-Cookie: d=1\0; domain=example.org",
        "ALL", "all", "SESS", "FLUSH", "RELOAD" } do
        raises("^add: no cookie, one that is too long, or not enough memory: .* expected$", function()
          jar:add(line)
        end)
        assert.equal(1, #jar:all())
      end
      -- One that has expired is a cookie, too. Some releases of libcurl list it, until they clean up.
      jar:add "Set-Cookie: a=; domain=example.org; Max-Age=0"
      jar:add "Set-Cookie: e=1; domain=example.org; expires=Thu, 01 Jan 1970 00:00:00 GMT"
      jar:add "example.org\tFALSE\t/\tFALSE\t1000\te\t1"
      jar:add "Set-Cookie: f=1; domain=example.org"
      assert.equal(1, #jar:all())
    end)

    it("send no body if they have none, whatever their method is", function()
      for _, method in ipairs { "POST", "PUT", "PATCH", "DELETE" } do
        local head, body = sent_by { method = method }
        assert.matches("^" .. method .. " ", head)
        assert.is_nil(head:find "chunked")
        assert.equal("", body)
      end
    end)

    it("read cookies from a file, and write into one those that they have in the end", function()
      local url, path = cookie_server(), os.tmpname()
      finally(function() os.remove(path) end)
      assert.equal("", assert(http.get(url, { cookiejar = path })).body)
      assert.equal("a=1", assert(http.get(url, { cookiefile = path })).body)
      assert.equal("", assert(http.get(url, { cookiefile = path .. ".missing" })).body)
    end)

    it("take options by libcurl's names", function()
      local head = sent_by { useragent = "me", userpwd = "user:secret", httpauth = "basic", http_version = "1.0",
        referer = "there", cookie = "c=1", range = "0-9", resolve = { "example.org:80:127.0.0.1" } }
      assert.matches("^GET / HTTP/1.0\r\n", head)
      for _, line in ipairs { "User%-Agent: me", "Referer: there", "Cookie: c=1", "Range: bytes=0%-9",
        "Authorization: Basic dXNlcjpzZWNyZXQ=" } do
        assert.matches("\r\n" .. line, head)
      end
    end)
  end)

  describe("wrong arguments", function()
    it("are errors at the caller's line", function()
      local url = "http://127.0.0.1:1/"
      raises("^get: a URL expected, as in \"https://example.org/\", got nothing", function() local _ = http.get() end)
      raises("^get: a table of options expected, got a number", function() local _ = http.get(url, 5) end)
      raises("^request: a table expected", function() local _ = http.request(url) end)
      raises("^get: method: http.request has this option", function() local _ = http.get(url, { method = "PUT" }) end)
      raises("^request: body and json: a request has one body", function()
        local _ = http.request { url = url, body = "x", json = {} }
      end)
      raises("^stream: timeout: a number of milliseconds", function() local _ = http.stream(url, { timeout = -1 }) end)
      for pattern, opts in pairs {
        ['unknown option "fial"; known: '] = { fial = true }, ["max: a number of bytes"] = { max = 0 },
        ["redirects: an integer of at least 0"] = { redirects = 1.5 }, ["fail: true or false"] = { fail = 1 },
        ["headers: X: the value has a line break"] = { headers = { X = "a\r\nb" } },
        ["headers: names expected"] = { headers = { ["a b"] = "x" } }, ["headers: a table"] = { headers = "x" },
        ["cookies: what http.cookies"] = { cookies = true }, ["query: a table"] = { query = "x" },
        ["query: a: a string, a number or a boolean"] = { query = { a = print } },
        ["http_version: one of 1.0, 1.1, 2"] = { http_version = "3000" },
        ["ipresolve: one of any, 4, 6 expected, got 4"] = { ipresolve = 4 },
        ["cainfo: a string without zero bytes expected"] = { cainfo = 1 },
        ["resolve: a list of strings"] = { resolve = "x" },
        ["low_speed_time: an integer of at least 0"] = { low_speed_time = 0.5 },
        ["fresh_connect: true or false"] = { fresh_connect = "yes" },
        ["method: a name"] = { method = "A B" }, ["json: a function cannot be sent"] = { json = print },
        ["multipart: a list of parts"] = { multipart = {} }, ["multipart: part 1: `name`"] = { multipart = { {} } },
        ["multipart: part 1: name: a string without zero bytes"] = { multipart = { { name = "a\0b", data = "" } } },
        ["multipart: part 1: data: a string expected"] = { multipart = { { name = "a", data = 1 } } },
        ["userpwd: a string without zero bytes expected"] = { userpwd = "a\0b" },
        ["resolve: a list of strings without zero bytes"] = { resolve = { "a:80:127.0.0.1\0" } },
        ["multipart: part 1: unknown option"] = { multipart = { { nmae = "x" } } },
        ["multipart: the file /none cannot be read"] = { multipart = { { name = "x", file = "/none" } } },
        ["body: a string, a channel of strings or an open file"] = { body = 5 },
        ["body: a file on a disk expected"] = { body = io.stdin },
        ["size: the number of bytes of a body that is a channel"] = { size = 5, body = "x" },
        ["useragent: A libcurl function was given a bad argument"] = { useragent = ("x"):rep(8000001) },
      } do
        opts.url = url
        raises("^request: " .. pattern, function() local _ = http.request(opts) end)
      end
    end)

    it("are no errors if they are data: URLs", function()
      for url, pattern in pairs {
        ["file:///etc/passwd"] = "^not an http:// or https:// URL: file:///etc/passwd$",
        ["example.org"] = "^not an http", ["http://"] = "URL", ["http://a b/"] = "URL",
        ["http://127.0.0.1:99999/"] = "^127.0.0.1:99999: ",
        ["http://127.0.0.1/admin\0/x.png"] = "^not a URL, since it has a zero byte: ",
      } do
        local page, err = http.get(url)
        assert.is_nil(page, url)
        assert.matches(pattern, err)
      end
    end)
  end)

  describe("a server that misbehaves", function()
    local function fails(pattern, url, opts)
      local page, err = http.get(url, opts)
      assert.is_nil(page)
      assert.matches(pattern, tostring(err))
      return err
    end

    it("refuses the connection", function()
      fails("^127%.0%.0%.1:1: cannot connect: Connection refused$", "http://127.0.0.1:1/")
      fails("^nothing%.invalid: .*resolve", "http://nothing.invalid/")
    end)

    it("says nothing", function()
      local url = server(function(conn) for _ in conn:read() do end end)
      local err = fails("^127%.0%.0%.1:%d+: .*timed out after", url, { timeout = 50 })
      assert.is_true(rn.is_timeout(err))
    end)

    it("is slow", function()
      local url = server(function(conn)
        read_request(conn)
        conn:write "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        while conn:write "x" do rn.sleep(5) end
      end)
      assert.is_true(rn.is_timeout(fails("timed out", url, { timeout = 100 })))
    end)

    it("closes the connection without an answer", function()
      fails("Empty reply from server$", server(function(conn) read_request(conn) end))
    end)

    it("closes each connection when it is used again, and the request is sent anew", function()
      local answered, dead = 0, 0
      local url = server(function(conn)
        if not read_request(conn) then return end
        conn:write(ok "hello")
        answered = answered + 1
        if read_request(conn) then dead = dead + 1 end
        conn:close()
      end)
      for _ = 1, 30 do assert.equal("hello", assert(http.get(url)).body) end
      assert.equal(30, answered)
      assert.is_true(dead > 6) -- libcurl gives up when an easy handle has met that 5 times
    end)

    it("resets a connection when it is used again, and then cuts the body: that is the error", function()
      local connections = 0
      local url = server(function(conn)
        connections = connections + 1
        read_request(conn)
        conn:write(connections == 1 and ok "hello" or "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        if connections > 1 then return conn:close() end
        read_request(conn)
        conn.handle:close_reset(function() end)
        conn.handle = nil
      end)
      assert.equal("hello", assert(http.get(url)).body)
      fails("5 bytes %a+ing", url)
      assert.equal(2, connections)
    end)

    it("cuts the body", function()
      fails("90 bytes %a+ing", answering "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789")
      fails("transfer closed", answering "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
    end)

    it("sends more than it has said", function()
      local url = answering "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more, HTTP/1.1 200 OK\r\n\r\n"
      assert.equal("ok", assert(http.get(url)).body)
      assert.equal("ok", assert(http.get(url)).body)
    end)

    it("sends garbage for chunks, for a length, or for all", function()
      fails("[Cc]hunk", answering "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n")
      for _, coding in ipairs { "gzip, chunked", "gzip" } do
        fails("Transfer%-Encoding.*gzip", -- newer libcurls refuse it themselves
          answering(("HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):format(coding)))
      end
      fails("Content%-Length", answering "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n")
      fails("HTTP/0.9", answering "SSH-2.0-OpenSSH_9.2\r\n")
      fails("[Uu]nsupported", answering "HTTP/1.1 2x0 OK\r\n\r\n")
    end)

    it("sends lengths that differ, which is an error; the same one twice is none", function()
      local head = "HTTP/1.1 %s\r\nContent-Length: 2\r\nX: y\r\ncontent-length: %s\r\n\r\nokay"
      for _, length in ipairs { "4", "02", "2, 4", "2," } do
        fails("Content%-Length", answering(head:format("200 OK", length))) -- libcurl may refuse them first
      end
      fails("Content%-Length", answering(head:format("302 Found\r\nLocation: /", "4")))
      fails("Content%-Length", answering "HTTP/1.1 200 OK\r\nContent-Length: 2, 4\r\n\r\nokay")
      assert.equal("ok", assert(http.get(answering(head:format("200 OK", "2")))).body)
    end)

    it("sends headers without end", function()
      local function endless(first, line)
        return server(function(conn)
          read_request(conn)
          conn:write(first)
          while conn:write(line) do end
        end)
      end
      fails("headers have ", endless("HTTP/1.1 200 OK\r\n", ("X: " .. ("y"):rep(1000) .. "\r\n"):rep(20)))
      fails("line of the headers is too long", endless("HTTP/1.1 200 OK\r\nX: ", ("y"):rep(65536)))
      fails("headers have ", endless("", ("HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"):rep(1000)))
    end)

    it("sends a zero byte in a header", function()
      fails("[Nn][Uu][Ll]+ byte in header", answering(ok("", "X: a\0b\r\n")))
    end)

    -- The URL of a server that sends a beginning, then a part without end.
    local function endless(beginning, part)
      return server(function(conn)
        read_request(conn)
        conn:write(beginning)
        while conn:write(part) do end
      end)
    end

    it("sends trailers without end", function()
      fails("headers have more than 262144 bytes$", endless(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        ("T: " .. ("x"):rep(1000) .. "\r\n"):rep(100)))
    end)

    it("sends what is neither headers nor body, without end #ci", function()
      local WASTE <const> = "has sent more than 16777216 bytes that are neither headers nor body$"
      local part = ("a"):rep(65536)
      local chunked, zipped = "Transfer-Encoding: chunked\r\n\r\n", "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08"
      local ways <const> = {
        { "200 OK\r\n" .. chunked .. "5;", part }, -- an extension of a chunk
        { "302 Found\r\nLocation: /\r\n" .. chunked, "10000\r\n" .. part .. "\r\n" }, -- the body of a redirect
        { "200 OK\r\n" .. zipped .. "\x08" .. ("\0"):rep(6), part }, -- the name of a compressed file
        { "200 OK\r\n" .. zipped .. ("\0"):rep(7), ("\0\0\0\xff\xff"):rep(10000) }, -- blocks of nothing
      }
      local one <const> = forms.turn % #ways + 1 -- the short form tries one of them
      for i = forms.is_long and 1 or one, forms.is_long and #ways or one do
        local way = ways[i]
        local url = endless("HTTP/1.1 " .. way[1], way[2])
        if i < 4 then fails(WASTE, url) end
        if i == 4 or i == 1 and forms.is_long then
          local _, err = http.stream(url):take()
          assert.matches(WASTE, err)
        end
      end
    end)

    it("redirects without end, or to other schemes", function()
      fails("[Mm]aximum %(10%) redirects", server(function(conn)
        while read_request(conn) do
          conn:write "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"
        end
      end))
      fails("[Pp]rotocol", answering "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
    end)

    it("sends more than is wanted", function()
      fails("body has more than 10 bytes$", answering(ok(("x"):rep(11))), { max = 10 })
      fails("body has more than 10 bytes$",
        answering "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", { max = 10 })
      fails("body has more than 10 bytes$", answering("HTTP/1.1 200 OK\r\n\r\n" .. ("x"):rep(100)), { max = 10 })
      assert.equal(10, #assert(http.get(answering(ok(("x"):rep(10))), { max = 10 })).body)
      -- A megabyte of zeros, compressed.
      local gzip = assert(io.popen "head -c 1000000 /dev/zero | gzip -c")
      local zeros = gzip:read "a"
      gzip:close()
      local url = answering(ok(zeros, "Content-Encoding: gzip\r\n"))
      fails("body has more than 10000 bytes$", url, { max = 10000 })
      assert.equal(1000000, #assert(http.get(url)).body)
    end)

    it("speaks no TLS, or has a certificate that nobody has signed", function()
      local plain = server(function(conn)
        conn:read():take()
        conn:write "hello"
      end)
      fails("[Ww]rong version number", (plain:gsub("^http", "https")), { connect_timeout = 60000 })
      if not os.execute "command -v openssl >/dev/null" then return end
      local folder = uv_stage.path()
      os.execute("mkdir " .. folder)
      assert(os.execute(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 " ..
        "-subj /CN=localhost -keyout %s/key " ..
        "-addext subjectAltName=DNS:localhost -out %s/cert 2>/dev/null"):format(folder, folder)))
      finally(function() os.execute("rm -r " .. folder) end)
      local port, running <close> = tls.serve(tls.s_server { path = folder }) -- luacheck: ignore 211
      local url = ("https://localhost:%d/"):format(port)
      local opts = {
        resolve = { ("localhost:%d:127.0.0.1"):format(port) }, forbid_reuse = true, connect_timeout = 60000,
      }
      local page, err
      for _ = 1, 600 do
        page, err = http.get(url, opts)
        if page or err:find "certificate" then break end
        rn.sleep(50) -- it does not listen yet, or ends connections
      end
      assert.is_nil(page)
      assert.matches("certificate", err)
      opts.cainfo = folder .. "/cert"
      assert.equal(200, assert(http.get(url, opts)).status)
      local other = ("https://127.0.0.1:%d/"):format(port)
      -- It is for another name.
      fails("certificate", other, { cainfo = opts.cainfo, forbid_reuse = true, connect_timeout = 60000 })
      assert.equal(200, assert(http.get(other, {
        ssl_verifypeer = false, ssl_verifyhost = false, connect_timeout = 60000,
      })).status)
      local missing = { cainfo = "/none", resolve = opts.resolve, fresh_connect = true, connect_timeout = 60000 }
      fails("certificates of authorities cannot be read: install", url, missing)
    end)
  end)

  describe("cancelling", function()
    it("ends a request at any moment", function()
      local url = server(function(conn)
        for _ = 1, 5 do
          if not read_request(conn) then return end
          rn.sleep(1)
          conn:write "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
          rn.sleep(1)
          if not conn:write "0123456789" then return end
        end
      end)
      local ended = 0
      for i = 0, 60 do
        local block = rn.go(function()
          for _ = 1, 3 do assert(http.get(url)) end
          ended = ended + 1
        end)
        if i < 20 then for _ = 1, i do rn.yield() end else rn.sleep((i - 20) / 4) end
        rn.cancel(block, "enough")
        block:take()
      end
      assert.equal(200, assert(http.get(url)).status)
    end)

    it("tells the server at once", function()
      local url, gone, came = silent()
      local block = rn.go(http.get, url)
      came:take()
      rn.cancel(block)
      assert.is_true(gone:take())
    end)

    it("ends an upload", function()
      local url = server(function(conn) for _ in conn:read() do end end)
      local pieces = rn.chan()
      local block = rn.go(http.request, { url = url, body = pieces })
      pieces:put "one"
      rn.cancel(block)
      block:take()
      assert.is_false(pieces:put "two") -- it is closed, so that no put waits for ever
    end)
  end)

  describe("streams", function()
    it("carry the body in pieces", function()
      local url = answering("HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3000000\r\n\r\n" .. ("0123456789"):rep(300000))
      local pieces, head = http.stream(url)
      assert.same({ 200, "y" }, { head().status, head().headers.x })
      local parts = rn.into({}, pieces):take()
      assert.is_true(#parts > 1)
      assert.equal(("0123456789"):rep(300000), table.concat(parts))
    end)

    it("have their head before their first piece", function()
      local go_on = rn.chan()
      local url = server(function(conn)
        read_request(conn)
        conn:write "HTTP/1.1 200 OK\r\n\r\n"
        go_on:take()
        conn:write "late"
      end)
      local pieces, head = http.stream(url)
      assert.equal(200, head().status)
      go_on:put(true)
      assert.equal("late", pieces:take())
      assert.is_nil(pieces:take())
    end)

    it("tell the head also if it comes together with the first piece", function()
      local methods = debug.getregistry()["runnel.http.transfer"].__index
      local head, take, has_taken = methods.head, methods.take, false
      finally(function() methods.head, methods.take = head, take end)
      methods.head = function(transfer)
        if has_taken then return head(transfer) end
      end
      methods.take = function(transfer)
        local piece = take(transfer)
        has_taken = has_taken or piece ~= nil
        return piece
      end
      local pieces, wait_for_head = http.stream(answering(ok "hello"))
      assert.equal(200, assert(wait_for_head()).status)
      assert.equal("hello", pieces:take())
    end)

    it("let the server wait for a slow reader #ci", function()
      local written = 0
      local url = server(function(conn)
        read_request(conn)
        conn:write "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"
        for _ = 1, 1024 do
          if not conn:write(("x"):rep(65536)) then return end
          written = written + 1
        end
      end)
      local pieces = http.stream(url)
      local size = #pieces:take()
      local before
      repeat
        before = written
        rn.sleep(300)
      until written == before
      assert.is_true(written < 512, written .. " of 1024 parts were written")
      for piece in pieces do size = size + #piece end
      assert.equal(67108864, size)
    end)

    it("close with an error", function()
      local pieces, head = http.stream "http://127.0.0.1:1/"
      assert.same({ n = 2, nil, "127.0.0.1:1: cannot connect: Connection refused" }, table.pack(head()))
      assert.same({ n = 2, nil, "127.0.0.1:1: cannot connect: Connection refused" }, table.pack(pieces:take()))
      pieces = http.stream(answering "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12")
      assert.equal("12", pieces:take())
      local _, err = pieces:take()
      assert.matches("7 bytes %a+ing", err)
      pieces, head = http.stream(answering "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", { fail = true })
      _, err = head()
      assert.matches("the status is 500$", err)
      assert.is_nil((pieces:take()))
      pieces = http.stream "ftp://example.org/"
      assert.same({ n = 2, nil, "not an http:// or https:// URL: ftp://example.org/" }, table.pack(pieces:take()))
    end)

    -- The URL of a body without an end, and a channel that gets a value when the client has gone.
    local function endless()
      local gone = rn.chan(1)
      return server(function(conn)
        read_request(conn)
        conn:write "HTTP/1.1 200 OK\r\n\r\n"
        while conn:write(("x"):rep(65536)) do end
        gone:put(true)
      end), gone
    end

    it("end when their channel is closed", function()
      local url, gone = endless()
      local pieces, head = http.stream(url)
      pieces:take()
      pieces:close()
      assert.is_true(gone:take())
      assert.equal(200, head().status)
      pieces, head = http.stream(server(function(conn) for _ in conn:read() do end end))
      pieces:close()
      assert.same({ n = 2, nil, "the channel of the stream was closed" }, table.pack(head()))
    end)

    it("end when nobody can take from them any more", function()
      local url, gone = endless()
      do
        local pieces = http.stream(url)
        pieces:take()
      end
      local is_gone
      for _ = 1, 200 do
        collectgarbage()
        is_gone = rn.alts { gone, rn.timeout(50) }
        if is_gone then break end
      end
      assert.is_true(is_gone)
    end)

    it("send what comes from a channel, too", function()
      local url = server(function(conn)
        local _, body = read_request(conn)
        conn:write(ok(body))
      end)
      local pieces = http.stream(url, { body = rn.to_chan { "abc", "def" }, size = 6 })
      assert.equal("abcdef", table.concat(rn.into({}, pieces):take()))
    end)
  end)

  it("works in threads", function()
    local url = answering(ok "from a thread")
    local body = rn.thread(function(address) return require("runnel.http").get(address).body end, url)
    assert.equal("from a thread", assert(body:take()))
  end)

  it("works under each driver, and leaves a program that ends", function()
    local url = server(function(conn) while read_request(conn) do conn:write(ok "hello") end end)
    for _, driver in ipairs { "", "luv", "cqueues", "copas", "luasocket" } do
      local script = ([[
        package.path = package.path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua"
        local rn = require "runnel"
        local driver = %q
        if driver ~= "" then
          local ok, found = pcall(require, "runnel.driver." .. driver)
          if not ok then return print "1000" end
          rn.driver(found)
        end
        local http = require "runnel.http"
        local size, urls = 0, {}
        for i = 1, 200 do urls[i] = %q end
        for page in rn.pmap(16, http.get, urls) do size = size + #page.body end
        print(size)
        rn.go(http.get, "http://127.0.0.1:1/")
      ]]):format(driver, url)
      local path = uv_stage.path(script)
      local process = uv.spawn { os.getenv "LUA" or "lua5.4", path, stdout = "lines" }
      assert.equal("1000", process.stdout:take(), driver)
      assert.equal(0, process.exit:take().code, driver)
    end
  end)

  it("ends with Ctrl-C in the middle", function()
    local url, gone, came = silent()
    local path = uv_stage.path(([[
      local rn = require "runnel"
      local http = require "runnel.http"
      for _ = 1, 10 do rn.go(http.get, %q) end
      print "started"
      io.stdout:flush()
      http.get(%q)
    ]]):format(url, url))
    local process = uv.spawn { os.getenv "RUNNEL" or "build/bin/runnel", path, stdout = "lines", stderr = false }
    assert.equal("started", process.stdout:take())
    for _ = 1, 11 do came:take() end
    process:kill "int"
    assert.equal(130, process.exit:take().code)
    for _ = 1, 11 do assert.is_true(gone:take()) end
  end)
end)
