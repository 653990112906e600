-- Trailers: fields behind a body in chunks.

local both = require("spec.support.in_world")(it)
local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local rn = require "runnel"
local stage = require "spec.support.stage"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("trailers of http.serve", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

local CHUNKED <const> = "Transfer-Encoding: chunked\r\n\r\n"

-- A response in chunks, with trailers.
local function summed(req)
  local out = rn.chan()
  rn.go(function()
    out:put "abc"
    req:trailer("X-Sum", 294)
    req:trailer("X-Text", "a b")
    out:close()
  end)
  return 200, { Trailer = "X-Sum, X-Text" }, out
end

describe("trailers of http.serve", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("of a request can be read once its body has come, and are no headers", function()
    local server <close> = assert(http.serve(0, function(req)
      local body, list = req:body(), {}
      for name, value in pairs((assert(req:trailers()))) do list[#list + 1] = name .. "=" .. value end
      table.sort(list)
      return 200, nil, ("%s %s %s"):format(body, table.concat(list, ";"), tostring(req.headers["x-a"]))
    end))
    local function ask(trailers)
      local _, body = web.ask(server, "POST /", CHUNKED .. "3\r\nabc\r\n0\r\n" .. trailers .. "\r\n")
      return body
    end
    assert.equal("abc x-a=1, 3;x-b=x: y nil", ask "X-A: 1\r\nX-B:x: y \t\r\nX-A: 3\r\n")
    assert.equal("abc  nil", ask "")
    assert.same({ "abc  nil", "abc content-length=9 nil" }, { ask "", ask "Content-Length: 9\r\n" })
    assert.equal("  nil", (select(2, web.ask(server, "GET /"))))
  end)

  it("of a request are not there before its body has come", function()
    local early = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      early:put { req:trailers() }
      req:body()
      return 200, nil, assert(req:trailers())["x-a"]
    end))
    local conn <close> = assert(require("runnel.uv").connect("127.0.0.1", server.port))
    conn:write("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" .. CHUNKED .. "3\r\nabc\r\n")
    local trailers, err = table.unpack(early:take(), 1, 2)
    assert.is_nil(trailers)
    assert.match("read it first", err)
    conn:write "0\r\nX-A: b\r\n\r\n"
    assert.match("\r\n\r\nb$", table.concat(stage.drain(conn:read())))
  end)

  it("of a request arrive in pieces of any size, and have a limit", function()
    local server <close> = assert(http.serve(0, function(req)
      req:body()
      return 200, nil, assert(req:trailers())["x-a"]
    end))
    local uv = require "runnel.uv"
    local text = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" .. CHUNKED .. "0\r\nX-A: " .. ("b"):rep(50)
      .. "\r\n\r\n"
    local conn <close> = assert(uv.connect("127.0.0.1", server.port))
    for i = 1, #text do
      conn:write(text:sub(i, i))
      rn.sleep(0)
    end
    assert.match(("b"):rep(50) .. "$", table.concat(stage.drain(conn:read())))
    assert.equal(400, (web.ask(server, "POST /", CHUNKED .. "0\r\nX-A: " .. ("b"):rep(9000) .. "\r\n\r\n")))
  end)

  it("of a response are sent behind its last chunk, and only if there are chunks", function()
    local server <close> = assert(http.serve(0, summed))
    local _, body, headers = web.ask(server, "GET /")
    assert.equal("3\r\nabc\r\n0\r\nX-Sum: 294\r\nX-Text: a b\r\n\r\n", body)
    assert.match("Trailer: X%-Sum, X%-Text\r\n", headers)
    assert.match("\r\n\r\nabc$", web.exchange(server, "GET / HTTP/1.0\r\n\r\n"))
    assert.equal("", (select(2, web.ask(server, "HEAD /"))))
    local text = web.exchange(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      .. "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    local _, n = text:gsub("0\r\nX%-Sum: 294\r\n", "")
    assert.equal(2, n) -- the connection is in step
  end)

  both("do not harm a client that does not read them", function()
    local server <close> = assert(http.serve(0, function(req)
      assert.same({}, req:body() and req:trailers())
      return summed(req)
    end))
    for _ = 1, 2 do assert.equal("abc", assert(http.request { url = server.url, body = "x" }).body) end
  end)

  both("of a response are in res.trailers once all of it has come", function()
    local goes_on = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      req:trailer("X-Sum", 294)
      req:trailer("X-Text", "a b")
      if req.path == "/text" then return 200, nil, "abc" end
      local out = rn.chan()
      rn.go(function()
        for _ = 1, 3 do
          if req.path == "/wait" then goes_on:take() end
          out:put "a"
        end
        out:close()
      end)
      return 200, { ["Content-Length"] = req.path == "/long" and 3 or nil }, out
    end))
    local trailers = { ["x-sum"] = "294", ["x-text"] = "a b" }
    assert.same(trailers, assert(http.get(server.url)).trailers)
    local fields = {}
    for name, value in pairs(assert(http.get(server.url))) do fields[name] = value end
    assert.same(trailers, fields.trailers)
    for _, path in ipairs { "text", "long" } do assert.same({}, assert(http.get(server.url .. path)).trailers) end
    local pieces, head = http.stream(server.url .. "wait")
    goes_on:put(true)
    local res = assert(head())
    assert.is_nil(res.trailers)
    for _ = 1, 2 do goes_on:put(true, pieces:take()) end
    assert.same({ "a" }, stage.drain(pieces))
    assert.same(trailers, res.trailers)
    assert.is_nil(res.headers["x-sum"])
  end)

  it("of a response never become headers, and those of an earlier response are forgotten", function()
    local answers = {
      "401 No\r\n" .. CHUNKED .. "0\r\nX-A: 1\r\nContent-Type: x\r\nX-A: 2\r\n\r\n",
      "302 Found\r\nLocation: /b\r\n" .. CHUNKED .. "1\r\nx\r\n0\r\nX-B: 1\r\n\r\n",
      "200 OK\r\n" .. CHUNKED .. "1\r\nx\r\n0\r\nHTTP/1.1: 500\r\nX-C: 1\r\n\r\n",
    }
    local port = http_stage.serve(function(conn)
      local input, text = conn:read(), ""
      for piece in input do
        text = text .. piece
        while text:find "\r\n\r\n" do
          text = text:gsub("^.-\r\n\r\n", "", 1)
          conn:write("HTTP/1.1 " .. table.remove(answers, 1))
        end
      end
    end)
    local url = ("http://127.0.0.1:%d/"):format(port)
    local res = assert(http.get(url, { userpwd = "a:b", httpauth = "basic" }))
    assert.same({ 401, { ["x-a"] = "1, 2", ["content-type"] = "x" } }, { res.status, res.trailers })
    assert.is_nil(res.headers["x-a"])
    res = assert(http.get(url))
    assert.same({ 200, "x", { ["http/1.1"] = "500", ["x-c"] = "1" } }, { res.status, res.body, res.trailers })
    assert.is_nil(res.headers["x-c"])
  end)

  it("of a response, and early hints, come over HTTP/2, too, and pass http.proxy #ci", function()
    local tls = require "spec.support.tls"
    for _, program in ipairs { "node", "openssl" } do
      if not tls.has(program) then return pending(program .. " is not installed") end
    end
    local folder <close> = tls.folder()
    local node <close> = require("runnel.uv").spawn { "node", "-e", ([[
      const read = (name) => require("fs").readFileSync("%s/" + name)
      const server = require("http2").createSecureServer({ key: read("key"), cert: read("cert") })
      server.on("stream", (stream) => {
        stream.additionalHeaders({ ":status": 103, link: "</a>" })
        stream.respond({ ":status": 200 }, { waitForTrailers: true })
        stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "7" }))
        stream.end("hello")
      })
      server.listen(0, "127.0.0.1", () => console.log(server.address().port))]]):format(folder.path), stdout = "lines" }
    local url = "https://localhost:" .. node.stdout:take()
    local front <close> = assert(http.serve(0, http.proxy(url, { cainfo = folder.path .. "/ca" })))
    local cases = { { url, { cainfo = folder.path .. "/ca" } }, { front.url, { headers = { TE = "trailers" } } } }
    for _, case in ipairs(cases) do
      local link
      case[2].hints = function(headers) link = headers.link end
      local res = assert(http.get(case[1], case[2]))
      assert.same({ "hello", "</a>", { ["x-sum"] = "7" } }, { res.body, link, res.trailers })
    end
    http.close_idle()
    node:kill "kill"
    node.exit:take()
  end)

  it("are refused if they would change how a message is read", function()
    local problems = {}
    local server <close> = assert(http.serve(0, function(req)
      for _, name in ipairs { "Content-Length", "transfer-encoding", "Set-Cookie", "a b", "" } do
        raises("^trailer: the name of a field", function() req:trailer(name, "x") end)
      end
      for _, value in ipairs { "a\r\nb: c", "\0", "a\127", {}, true } do
        raises("^trailer: X: a string without control", function() req:trailer("X", value) end)
      end
      problems[1] = true
      return summed(req)
    end))
    assert.equal("abc", assert(http.get(server.url)).body)
    assert.is_true(problems[1])
  end)
end)
