-- http.basic_auth: a name and a password for the requests of a function.

local raises = require "spec.support.raises"

describe("http.basic_auth", function()
  local http = require "runnel.http"
  local function page(req) return 200, nil, "hello " .. req.user end

  local function ask(f, authorization)
    return f { method = "GET", path = "/", headers = { authorization = authorization } }
  end

  it("calls the function for a name with its password, and no other", function()
    local f = http.basic_auth(page, { ann = "secret", bob = "a:b" }, { realm = "Files" })
    assert.same({ 200, nil, "hello ann", n = 3 }, table.pack(ask(f, "Basic YW5uOnNlY3JldA==")))
    assert.same({ 200, nil, "hello bob", n = 3 }, table.pack(ask(f, "bAsic  Ym9iOmE6Yg==")))
    for _, wrong in ipairs { "Basic YW5uOnNlY3JlVA==", "Basic YW5uOnNlY3Jl", "Basic YW5uOnNlY3JldHM=",
      "Basic YW5uOlhlY3JldA==", "Basic YW5uOg==",
      "Basic Y2FyOnNlY3JldA==", "Basic Y2FyOg==", "Basic OnNlY3JldA==", "Basic YW5u", "Basic YW5uOnNlY3JldA",
      "Basic ****", "Bearer YW5uOnNlY3JldA==", "Basic", "", "Basic =" } do
      local status, headers = ask(f, wrong)
      assert.equal(401, status, wrong)
      assert.equal('Basic realm="Files", charset="UTF-8"', headers["WWW-Authenticate"])
    end
    assert.equal(401, (f { method = "GET", path = "/", headers = {} }))
  end)

  it("asks a function", function()
    local f = http.basic_auth(page, function(name, password, req)
      return name == "ann" and password == "1" and req.method == "GET"
    end)
    assert.equal(200, (ask(f, "Basic YW5uOjE=")))
    assert.equal(401, (ask(f, "Basic YW5uOjI=")))
  end)

  it("has errors at the caller's line", function()
    raises("basic_auth: f: a function expected", function() http.basic_auth(nil, {}) end)
    raises("basic_auth: users: a table expected, got nothing", function() http.basic_auth(page) end)
    raises("basic_auth: names without colons, and passwords", function() http.basic_auth(page, { ["a:b"] = "c" }) end)
    raises("basic_auth: names without colons, and passwords", function() http.basic_auth(page, { ann = "" }) end)
    raises("basic_auth: realm: a string of ASCII", function() http.basic_auth(page, { a = "b" }, { realm = 'a"' }) end)
    raises('basic_auth: unknown option "name"', function() http.basic_auth(page, { a = "b" }, { name = "x" }) end)
  end)
end)
