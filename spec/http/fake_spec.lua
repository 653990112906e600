-- http.fake: a function in place of all servers, in simulations and elsewhere.

local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"

describe("http.fake", function()
  if not pcall(require, "runnel.http.curl") then return pending "libcurl is not installed" end
  local http = require "runnel.http"

  after_each(function() http.fake(nil) end)

  it("gets requests as the function of a server does", function()
    local seen
    http.fake(function(req)
      seen = { req.method, req.path, req.query.q, req.headers.host, req.headers["x-one"], req:body() }
      return 201, { Etag = "x", ["Set-Cookie"] = "a=1" }, { ok = true }
    end)
    local res = assert(http.request { url = "https://example.org:8080/a%20b", query = { q = "1 2" }, method = "put",
      headers = { ["X-One"] = "y" }, body = rn.to_chan { "bo", "dy" } })
    assert.same({ "PUT", "/a b", "1 2", "example.org:8080", "y", "body" }, seen)
    assert.same({ 201, "x", { "a=1" }, { ok = true } }, { res.status, res.headers.etag, res.headers["set-cookie"],
      res:json() })
  end)

  it("may send early hints, and trailers behind a body whose length is unknown", function()
    http.fake(function(req)
      req:hints { Link = { "</a>", "</b>" } }
      req:trailer("X-Sum", 7)
      return 200, { ["Content-Length"] = req.path == "/long" and 1 or nil }, rn.to_chan { "x" }
    end)
    local all = {}
    local function hints(headers) all[#all + 1] = headers.link end
    assert.same({ ["x-sum"] = "7" }, assert(http.get("http://a/", { hints = hints })).trailers)
    assert.same({}, assert(http.get("http://a/long", { hints = hints })).trailers)
    assert.same({ "</a>, </b>", "</a>, </b>" }, all)
  end)

  it("may fail, be slow, and send what is too long", function()
    sim.run(function()
      http.fake(function(req)
        if req.path == "/slow" then rn.sleep(1000) end
        if req.path == "/down" then return nil, "connection refused" end
        return 503, nil, "12345"
      end)
      assert.same({ n = 2, nil, "connection refused" }, table.pack(http.get "http://a/down"))
      local page, err = http.get("http://a/slow", { timeout = 100 })
      assert.is_nil(page)
      assert.is_true(rn.is_timeout(err))
      assert.equal(100.0, sim.elapsed())
      assert.equal("12345", assert(http.get("http://a/slow", { timeout = 2000 })).body)
      page, err = http.get("http://a/", { max = 4 })
      assert.same({ nil, "a: the body has more than 4 bytes" }, { page, err })
      page, err = http.get("http://a/", { fail = true })
      assert.same({ nil, "a: the status is 503" }, { page, err })
    end)
  end)

  it("is tried again by pmap", function()
    sim.run(function()
      local calls = {}
      http.fake(function(req)
        calls[req.path] = (calls[req.path] or 0) + 1
        if calls[req.path] < 3 then return nil, "connection refused" end
        return 200, nil, req.path
      end)
      local got = {}
      for page in rn.pmap(64, http.get, { "http://a/1", "http://a/2" }, { tries = 3, backoff = 200 }) do
        got[#got + 1] = page.body
      end
      assert.same({ "/1", "/2" }, got)
    end)
  end)

  it("serves streams", function()
    http.fake(function(req)
      if req.path == "/text" then return 200, nil, "text" end
      if req.path == "/down" then return nil, "down" end
      local ch = rn.chan(2)
      ch:put "one"
      ch:put "two"
      ch:close(req.path == "/cut" and "cut" or nil)
      return 200, nil, ch
    end)
    local function all(path)
      local pieces, list = http.stream("http://a" .. path), {}
      while true do
        local piece, err = pieces:take()
        if piece == nil then return table.concat(list, " "), err end
        list[#list + 1] = piece
      end
    end
    assert.same({ n = 2, "text", nil }, table.pack(all "/text"))
    assert.same({ n = 2, "one two", nil }, table.pack(all "/chan"))
    assert.same({ n = 2, "one two", "cut" }, table.pack(all "/cut"))
    assert.same({ n = 2, "", "down" }, table.pack(all "/down"))
    local _, head = http.stream "http://a/text"
    assert.equal(200, head().status)
    assert.equal("onetwo", assert(http.get "http://a/chan").body)
    assert.same({ n = 2, nil, "cut" }, table.pack(http.get "http://a/cut"))
  end)

  it("is needed in a simulation", function()
    local message
    sim.run(function()
      message = select(2, pcall(http.get, "http://a/"))
      raises("^get: in a simulation, requests go to the function of http.fake%(f%), or to a host of a simulated world "
        .. "%(sim.world%), and there is none$", function()
        local _ = http.get "http://a/"
      end)
      raises("^stream: in a simulation", function() local _ = http.stream "http://a/" end)
      raises("^request: in a simulation", function() local _ = http.request { url = "http://a/" } end)
    end)
    assert.matches("in a simulation", message)
  end)

  it("raises what the function raises, and says what it must return", function()
    http.fake(function() error("a fault of the test", 0) end)
    assert.same({ false, "a fault of the test" }, { pcall(http.get, "http://a/") })
    http.fake(function() return "200" end)
    local _, err = pcall(http.get, "http://a/")
    assert.matches("^the function of http.fake: a status, headers or nil, and a body expected", err)
    raises("^fake: a function or nil expected, got a number$", function() http.fake(5) end)
    local function f() return 200 end
    http.fake(f)
    assert.equal(f, http.fake(nil))
  end)
end)
