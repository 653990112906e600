-- Early hints: req:hints, status 103.

local both = require("spec.support.in_world")(it)
local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local rn = require "runnel"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("req:hints", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

describe("req:hints", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  local LINK <const> = "</a.css>; rel=preload"

  it("sends a status 103 before the response, at once, and only to HTTP/1.1", function()
    local goes_on = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      req:hints { Link = { LINK, "</b.js>" } }
      if req.path == "/wait" then goes_on:take() end
      return 200, nil, ("x"):rep(req.path == "/large" and 100000 or 2)
    end))
    local HINT <const> = "HTTP/1.1 103 Early Hints\r\nLink: " .. LINK .. "\r\nLink: </b.js>\r\n\r\n"
    local conn <close> = assert(require("runnel.uv").connect("127.0.0.1", server.port))
    conn:write "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
    local input, text = conn:read(), ""
    repeat text = text .. input:take() until #text >= #HINT
    assert.equal(HINT, text)
    goes_on:put(true)
    assert.match("^HTTP/1.1 200 OK\r\n", input:take())
    for path, size in pairs { ["/"] = 2, ["/large"] = 100000 } do
      for _ = 1, 2 do
        local all = web.exchange(server, "GET " .. path .. " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert.equal(HINT, all:sub(1, #HINT))
        local body = all:match("^HTTP/1.1 200 OK\r\n.-\r\n\r\n(.*)$", #HINT + 1)
        assert.equal(size, #body)
      end
    end
    assert.match("^HTTP/1.1 200 OK", web.exchange(server, "GET / HTTP/1.0\r\n\r\n"))
  end)

  both("reaches the function of the option hints, before the response, each one at once", function()
    local goes_on = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      req:hints { Link = { LINK, "</b.js>" } }
      goes_on:take()
      req:hints { ["X-A"] = 1 }
      req:hints {}
      goes_on:take()
      return 200, nil, req:body() .. "text"
    end))
    local all = {}
    local function hints(headers)
      all[#all + 1] = headers
      goes_on:put(true)
    end
    local expected = { { link = LINK .. ", </b.js>" }, { ["x-a"] = "1" } }
    local res = assert(http.get(server.url, { hints = hints }))
    assert.same({ "text", expected }, { res.body, all })
    assert.is_nil(res.headers.link)
    all = {}
    local pieces, head = http.stream(server.url, { hints = hints, body = "a " })
    assert.equal(200, assert(head()).status)
    assert.same(expected, all)
    assert.equal("a text", pieces:take())
    pieces:close()
    rn.go(function() for _ = 1, 2 do goes_on:put(true) end end)
    assert.equal("text", assert(http.get(server.url)).body) -- without the option
  end)

  both("sends nothing once the response has begun", function()
    local server <close> = assert(http.serve(0, function(req)
      local out = rn.chan()
      rn.go(function()
        out:put "a"
        req:hints { Link = LINK }
        out:put "b"
        out:close()
      end)
      return 200, nil, out
    end))
    local hints = 0
    assert.equal("ab", assert(http.get(server.url, { hints = function() hints = hints + 1 end })).body)
    assert.equal(0, hints)
  end)

  it("is told from other statuses before the response, and one without headers is empty", function()
    local port = http_stage.serve(function(conn)
      local input = conn:read()
      repeat until input:take():find "\r\n\r\n$"
      conn:write("HTTP/1.1 102 Processing\r\nX-A: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
        .. "X-B: 2\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-C: 3\r\n\r\nab")
    end)
    local all = {}
    local res = assert(http.get(("http://127.0.0.1:%d/"):format(port), { hints = function(headers)
      for name, value in pairs(headers) do all[name] = value end
    end }))
    assert.same({ ["x-b"] = "2" }, all)
    assert.same({ "ab", "3" }, { res.body, res.headers["x-c"] })
  end)

  both("ends the request if the function of the option hints raises", function()
    local server <close> = assert(http.serve(0, function(req)
      req:hints { Link = LINK }
      rn.chan():take()
    end))
    local function hints() error("no hints", 0) end
    assert.same({ false, "no hints" }, { pcall(http.get, server.url, { hints = hints }) })
    local pieces, head = http.stream(server.url, { hints = hints })
    assert.same({ n = 2, nil, "no hints" }, table.pack(head()))
    assert.is_nil(pieces:take())
    raises("^get: hints: a function expected, got a number$", function() http.get(server.url, { hints = 1 }) end)
  end)

  both("does not harm a client that skips it, nor a proxy", function()
    local server <close> = assert(http.serve(0, function(req)
      req:hints { Link = LINK }
      return 200, nil, "text"
    end))
    local front <close> = assert(http.serve(0, http.proxy(server.url)))
    for _, url in ipairs { server.url, front.url } do
      local res = assert(http.get(url))
      assert.same({ 200, "text" }, { res.status, res.body })
      assert.is_nil(res.headers.link)
    end
  end)

  it("refuses headers that cannot be sent", function()
    local server <close> = assert(http.serve(0, function(req)
      for pattern, headers in pairs { ["cannot be set"] = { ["Transfer-Encoding"] = "chunked" }, ["line break"] =
        { A = "b\r\nc: d" }, ["names are strings"] = { "a" }, ["a string expected"] = { A = true } } do
        raises("^hints: .*" .. pattern, function() req:hints(headers) end)
      end
      raises("^hints: headers: a table expected", function() req:hints() end)
      return 200, nil, "text"
    end))
    assert.equal("text", assert(http.get(server.url)).body)
  end)
end)
