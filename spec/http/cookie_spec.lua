-- http.cookie and req.cookies: cookies of a server; and all values of a field of the query.

local raises = require "spec.support.raises"

describe("http.cookie", function()
  local http = require "runnel.http"

  it("makes the header Set-Cookie, safe by default", function()
    local SAFE = "; Secure; HttpOnly; SameSite=Lax"
    assert.equal("a=b; Path=/" .. SAFE, http.cookie("a", "b"))
    assert.equal("n=7; Path=/" .. SAFE, http.cookie("n", 7))
    assert.equal("a=; Path=/; Max-Age=0" .. SAFE, http.cookie("a", "", { max_age = 0 }))
    assert.equal("a=b; Path=/x; Domain=example.org; Max-Age=2; SameSite=Strict",
      http.cookie("a", "b", { path = "/x", domain = "example.org", max_age = 1500, secure = false, http_only = false,
        same_site = "strict" }))
    for ms, seconds in pairs { [1] = 1, [1000] = 1, [1001] = 2, [3600000] = 3600 } do
      assert.matches("; Max%-Age=" .. seconds .. ";", http.cookie("a", "b", { max_age = ms }))
    end
    assert.equal("__Host-a=b; Path=/" .. SAFE, http.cookie("__Host-a", "b"))
    assert.equal("__Secure-a=b; Path=/x" .. SAFE, http.cookie("__Secure-a", "b", { path = "/x" }))
    assert.equal("a=b; Path=/; Secure; HttpOnly; SameSite=None", http.cookie("a", "b", { same_site = "none" }))
  end)

  it("takes exactly the characters that a value may have", function()
    for byte = 0, 255 do
      local c = string.char(byte)
      local is_allowed = byte > 32 and byte < 127 and not c:find '[",;\\]'
      assert.equal(is_allowed, (pcall(http.cookie, "a", "x" .. c)), byte)
    end
  end)

  it("refuses what browsers would drop without a word", function()
    raises('cookie: a name such as "session" expected, got "a b"', function() http.cookie("a b", "c") end)
    raises("cookie: a: a string of ASCII characters", function() http.cookie("a", nil) end)
    raises("cookie: path: a path from / on expected", function() http.cookie("a", "b", { path = "x" }) end)
    raises("cookie: path: a string without semicolons", function() http.cookie("a", "b", { path = "/;Domain=x" }) end)
    raises("cookie: domain: a string without", function() http.cookie("a", "b", { domain = "a\nb" }) end)
    raises('same_site = "none" needs secure', function()
      http.cookie("a", "b", { same_site = "none", secure = false })
    end)
    raises("needs secure = true", function() http.cookie("__Host-a", "b", { secure = false }) end)
    raises("needs secure = true", function() http.cookie("__secure-a", "b", { secure = false }) end)
    raises("has the path / and no domain", function() http.cookie("__Host-a", "b", { domain = "x.org" }) end)
    raises("has the path / and no domain", function() http.cookie("__Host-a", "b", { path = "/x" }) end)
    for _, bad in ipairs { "", 5, true } do
      raises("cookie: domain: a string without", function() http.cookie("a", "b", { domain = bad }) end)
    end
    local rest = #http.cookie("a", "")
    assert.equal(4096, #http.cookie("a", ("x"):rep(4096 - rest)))
    raises("it has 4097 bytes, and clients keep at most 4096", function() http.cookie("a", ("x"):rep(4097 - rest)) end)
    raises('cookie: unknown option "expires"', function() http.cookie("a", "b", { expires = 1 }) end)
  end)
end)

describe("req.cookies and req.queries", function()
  if not pcall(require, "runnel.http.curl") then return pending "libcurl is not installed" end
  local http = require "runnel.http"

  it("have the first cookie of each name, and all values of each field", function()
    local before = http.fake(function(req)
      assert.same({ a = "1", b = "x y=z", c = "" }, req.cookies)
      assert.same({ x = { "1", "2 3" }, y = { "" } }, req.queries)
      assert.same({ x = "1", y = "" }, req.query)
      return 200
    end)
    assert(http.get("http://x/?x=1&y&x=2+3", { headers = { Cookie = 'a=1; b="x y=z" ;a=2; c=; d; =e' } }))
    http.fake(function(req)
      assert.same({}, req.cookies)
      return 200
    end)
    assert(http.get "http://x/")
    http.fake(before)
  end)
end)
