-- http.cors: which pages of other origins may use the responses of a function.

local raises = require "spec.support.raises"

describe("http.cors", function()
  local http = require "runnel.http"
  local A <const> = "https://a.example"
  local function page() return 200, { Vary = "Accept" }, "text" end

  local function ask(f, method, origin, more)
    local headers = { origin = origin }
    for name, value in pairs(more or {}) do headers[name] = value end
    return f { method = method, path = "/", headers = headers }
  end

  it("lets the pages of the named origins see responses, and no others", function()
    local f = http.cors(page, { origins = { A }, expose_headers = { "X-Total" }, allow_credentials = true })
    assert.same({ Vary = "Accept, Origin", ["Access-Control-Allow-Origin"] = A,
      ["Access-Control-Allow-Credentials"] = "true", ["Access-Control-Expose-Headers"] = "X-Total" },
      select(2, ask(f, "GET", A)))
    for _, other in ipairs { "https://b.example", "null", "https://a.example.evil.org", "http://a.example" } do
      local status, headers, body = ask(f, "GET", other)
      assert.same({ 200, { Vary = "Accept, Origin" }, "text" }, { status, headers, body }, other)
    end
    assert.same({ Vary = "Accept, Origin" }, select(2, ask(f, "GET")))
  end)

  it("says of what any page may see that it may, whoever asks, so that a cache can give it to a page", function()
    local f = http.cors(page, { origins = "*", expose_headers = { "X-Total" } })
    for _, origin in ipairs { A, false } do
      assert.same({ Vary = "Accept", ["Access-Control-Allow-Origin"] = "*",
        ["Access-Control-Expose-Headers"] = "X-Total" }, select(2, ask(f, "GET", origin or nil)))
    end
  end)

  it("does not count what the function says of origins, in whatever letters; its headers stay exposed", function()
    local function behind()
      return 200, { ["access-control-allow-origin"] = "*", ["access-control-allow-credentials"] = "true",
        ["access-control-expose-headers"] = "X-A", [1] = "no name" }
    end
    local f = http.cors(behind, { origins = { A }, allow_credentials = true })
    assert.same({ ["Access-Control-Allow-Origin"] = A, ["Access-Control-Allow-Credentials"] = "true",
      ["access-control-expose-headers"] = "X-A", Vary = "Origin", [1] = "no name" }, select(2, ask(f, "GET", A)))
    f = http.cors(behind, { origins = { A }, expose_headers = { "X-B" } })
    assert.same({ ["Access-Control-Allow-Origin"] = A, ["Access-Control-Expose-Headers"] = "X-B", Vary = "Origin",
      [1] = "no name" }, select(2, ask(f, "GET", A)))
    assert.same({ ["access-control-expose-headers"] = "X-A", Vary = "Origin", [1] = "no name" },
      select(2, ask(f, "GET", "https://b.example")))
  end)

  it("answers preflights itself, for the origins that may use the responses", function()
    local f = http.cors(page, { origins = { A }, methods = { "PUT", "DELETE" }, allow_headers = { "X-Key" },
      max_age = 60000 })
    local ASKED <const> = { ["access-control-request-method"] = "PUT" }
    local status, headers = ask(f, "OPTIONS", A, ASKED)
    assert.equal(204, status)
    assert.same({ A, "PUT, DELETE", "X-Key", 60 }, { headers["Access-Control-Allow-Origin"],
      headers["Access-Control-Allow-Methods"], headers["Access-Control-Allow-Headers"],
      headers["Access-Control-Max-Age"] })
    for given, sent in pairs { [0] = 0, [1000] = 1, [1500] = 2, [2000000] = 2000 } do
      local g = http.cors(page, { origins = { A }, max_age = given, methods = {} })
      assert.equal(sent, select(2, ask(g, "OPTIONS", A, ASKED))["Access-Control-Max-Age"])
      assert.is_nil(select(2, ask(g, "OPTIONS", A, ASKED))["Access-Control-Allow-Methods"])
    end
    assert.equal("text", select(3, ask(f, "OPTIONS", "https://b.example", ASKED)))
    assert.equal("text", select(3, ask(f, "OPTIONS", A)))
  end)

  it("names the origin once among what the response depends on", function()
    for sent, expected in pairs { ["Origin"] = "Origin", ["accept, ORIGIN"] = "accept, ORIGIN", ["*"] = "*",
      ["X-Origin"] = "X-Origin, Origin", ["Accept"] = "Accept, Origin" } do
      local f = http.cors(function() return 200, { vary = sent } end, { origins = { A } })
      assert.equal(expected, select(2, ask(f, "GET", A)).vary)
    end
    local f = http.cors(function() return 200, { Vary = { "Accept", "Cookie" } } end, { origins = { A } })
    assert.equal("Accept, Cookie, Origin", select(2, ask(f, "GET", A)).Vary)
  end)

  it("does not change the program's table, and passes on what is no response", function()
    local mine = { vary = "*" }
    local f = http.cors(function() return 200, mine end, { origins = { A } })
    assert.equal("*", select(2, ask(f, "GET", A)).vary)
    assert.same({ vary = "*" }, mine)
    assert.equal(0, select("#", (http.cors(function() end, { origins = { A } }) { headers = {} })) - 1)
  end)

  it("has errors at the caller's line", function()
    raises("cors: origins: a list such as", function() http.cors(page, {}) end)
    raises("cors: origins: a list such as", function() http.cors(page) end)
    for _, wrong in ipairs { "a.example", "https://a.example/", "https://a.example/x", 7 } do
      raises("cors: origins: a list such as", function() http.cors(page, { origins = { wrong } }) end)
    end
    raises("cors: allow_credentials: not with", function()
      http.cors(page, { origins = "*", allow_credentials = true })
    end)
    raises("cors: methods: a list of names", function() http.cors(page, { origins = "*", methods = { "A B" } }) end)
    raises('cors: unknown option "origin"', function() http.cors(page, { origin = A }) end)
  end)
end)
