-- http.router: which function gets a request.

local raises = require "spec.support.raises"

describe("http.router", function()
  local http = require "runnel.http"

  -- A function that tells its name and the parameters.
  local function page(name)
    return function(req)
      local list = { name }
      for key, value in pairs(req.params) do list[#list + 1] = key .. "=" .. value end
      table.sort(list, function(a, b) return b ~= name and (a == name or a < b) end)
      return 200, nil, table.concat(list, " ")
    end
  end

  -- What a request such as "GET /a" gets: the text, or the status and the header Allow.
  local function ask(router, line)
    local method, target = line:match "^(%S+) (%S+)$"
    local status, headers, body = router { method = method, target = target }
    if status == 200 then return body end
    return headers and headers.Allow and status .. " " .. headers.Allow or tostring(status)
  end

  local function check(routes, expected)
    local router = http.router(routes)
    for line, answer in pairs(expected) do assert.equal(answer, ask(router, line), line) end
  end

  it("calls functions by method and path", function()
    local routes = { ["GET /"] = page "root", ["GET /users"] = page "list", ["POST /users"] = page "add",
      ["/any"] = page "any" }
    check(routes, {
      ["GET /"] = "root", ["GET /?a=/users"] = "root", ["GET /users"] = "list", ["POST /users?x"] = "add",
      ["DELETE /any"] = "any", ["OPTIONS /any"] = "any", ["GET /other"] = "404", ["GET /users/1"] = "404",
    })
  end)

  it("decodes what :name and *name stand for, and cuts at slashes before that", function()
    check({ ["GET /users/:id/:part"] = page "user", ["/files/*path"] = page "files" }, {
      ["GET /users/a%2Fb/%C3%A9"] = "user id=a/b part=é", ["GET /users/1"] = "404", ["GET /users/1/"] = "404",
      ["GET /users//x"] = "404", ["PUT /files/a/b%20c%2Fd"] = "files path=a/b c/d", ["PUT /files/"] = "files path=",
      ["PUT /files"] = "404", ["GET /users/%zz/1"] = "user id=%zz part=1", ["GET /files//a/"] = "files path=/a/",
    })
  end)

  it("compares the decoded text", function()
    check({ ["/caf\u{e9}"] = page "coffee", ["/x.y"] = page "dot" },
      { ["GET /caf%C3%A9"] = "coffee", ["GET /%78.y"] = "dot", ["GET /xzy"] = "404" })
  end)

  it("prefers text to :name, and that to *name, in each part of the path from the left", function()
    local routes = { ["/a/b"] = page "text", ["/a/:x"] = page "name", ["/:x/b"] = page "late", ["/*all"] = page "rest",
      ["/a/:x/c"] = page "deep" }
    check(routes, {
      ["GET /a/b"] = "text", ["GET /a/z"] = "name x=z", ["GET /z/b"] = "late x=z", ["GET /z/z"] = "rest all=z/z",
      ["GET /a/b/c"] = "deep x=b", ["GET /a/b/d"] = "rest all=a/b/d", ["GET /"] = "rest all=",
    })
  end)

  it("looks for another route where the best one does not have the method", function()
    check({ ["POST /users/new"] = page "new", ["GET /users/:id"] = page "user" }, {
      ["POST /users/new"] = "new", ["GET /users/new"] = "user id=new",
      ["PUT /users/new"] = "405 GET, HEAD, OPTIONS, POST",
    })
  end)

  it("answers 405 and OPTIONS with the methods that there are, and HEAD by GET", function()
    check({ ["GET /a"] = page "a", ["PUT /a"] = page "put", ["POST /b"] = page "b", ["OPTIONS /c"] = page "c" }, {
      ["HEAD /a"] = "a", ["DELETE /a"] = "405 GET, HEAD, OPTIONS, PUT", ["OPTIONS /a"] = "204 GET, HEAD, OPTIONS, PUT",
      ["HEAD /b"] = "405 OPTIONS, POST", ["OPTIONS /c"] = "c", ["get /a"] = "405 GET, HEAD, OPTIONS, PUT",
      ["OPTIONS /d"] = "404", ["OPTIONS *"] = "404",
    })
    check({ ["GET /a"] = page "get", ["HEAD /a"] = page "head" }, { ["HEAD /a"] = "head" })
  end)

  it("distinguishes a path with a slash at its end", function()
    check({ ["/a"] = page "a", ["/b/"] = page "b" },
      { ["GET /a"] = "a", ["GET /a/"] = "404", ["GET /b"] = "404", ["GET /b/"] = "b" })
  end)

  it("reads targets that are whole URLs", function()
    check({ ["/a"] = page "a", ["/"] = page "root" }, { ["GET http://x:80/a?b"] = "a", ["GET https://x"] = "root",
      ["GET //a"] = "404" })
  end)

  it("calls another router for the rest of the path", function()
    local users = http.router { ["GET /"] = page "list", ["GET /:id"] = page "user", ["/files/*path"] = page "file" }
    check({ ["/orgs/:org/*rest"] = users }, {
      ["GET /orgs/o/"] = "list org=o rest=", ["GET /orgs/o/7%2F8"] = "user id=7/8 org=o rest=7/8",
      ["PUT /orgs/o/files/a%2Fb"] = "file org=o path=a/b rest=files/a/b", ["GET /orgs/o/7/8"] = "404",
      ["POST /orgs/o/7"] = "405 GET, HEAD, OPTIONS",
    })
  end)

  it("leaves the rest as it was sent, for functions such as that of http.files", function()
    local rest
    local function note(req) rest = req.rest end
    local router = http.router { ["/a/*path"] = note, ["/b/:x"] = note }
    router { method = "GET", target = "/a/x%2Fy/z" }
    assert.equal("x%2Fy/z", rest)
    router { method = "GET", target = "/b/x" }
    assert.is_nil(rest)
    rest = "unset"
    http.router { ["/a/*rest"] = router } { method = "GET", target = "/a/b/x" }
    assert.is_nil(rest)
  end)

  it("finds a route in time, however many names and texts there are", function()
    local routes = {}
    for bits = 0, 255 do
      local path = ""
      for i = 0, 7 do path = path .. (bits & 1 << i ~= 0 and "/a" or "/:n" .. i) end
      routes["GET " .. path .. "/x"] = page "x"
    end
    local router = http.router(routes)
    assert.equal("404", ask(router, "GET " .. ("/a"):rep(8) .. "/y"))
    assert.equal("x", ask(router, "GET " .. ("/a"):rep(8) .. "/x"))
  end)

  it("refuses wrong routes at the caller's line", function()
    local f = function() end
    for pattern, message in pairs {
      ["GET users"] = "a key as in \"GET /users/:id\" or \"/users\" expected", ["get /a"] = "a key as in",
      ["GET  /a"] = "a key as in", ["GET/a"] = "a key as in", [" /a"] = "a key as in", ["/a b"] = "a key as in",
      ["/a?b"] = "a key as in", [""] = "a key as in", ["/:"] = "a name expected after \":\", got \"\"",
      ["/*a b"] = "a key as in", ["/:a-b"] = "a name expected after \":\", got \"a%-b\"",
      ["/*"] = "a name expected after \"%*\", got \"\"", ["/:a/*a"] = "two parts have the name a",
      ["/*a/b"] = "nothing can follow %*a", [1] = "a key as in",
      ["GET /users/{id}"] = "\"{id}\" is text, not a part with a name: write :id",
      ["/users/{id}.html"] = "\"{id}.html\" is text, not a part with a name: write :id",
      ["/<int:number>/x"] = "\"<int:number>\" is text, not a part with a name: write :number",
    } do
      raises("router: .*: " .. message, function() local _ = http.router { [pattern] = f } end)
    end
    raises("router: GET /:[xy]: a route for the same requests is there: GET /:[xy]", function()
      local _ = http.router { ["GET /:x"] = f, ["GET /:y"] = f }
    end)
    raises("a route for the same requests", function() local _ = http.router { ["/a/*x"] = f, ["/a/*y"] = f } end)
    raises("router: GET /: a function expected, got a number", function() local _ = http.router { ["GET /"] = 1 } end)
    local not_defined = nil
    raises("router: the table has no routes; a key with the value nil is none: write the functions above the table",
      function() local _ = http.router { ["GET /"] = not_defined } end)
    raises("router: a table expected", function() local _ = http.router() end)
  end)
end)
