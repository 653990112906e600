-- Requests and responses in a simulated world are those of the real client and the real server.

local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local sim = require "runnel.sim"

local has_http, http = pcall(require, "runnel.http")
has_http = has_http and pcall(function() return http.get end) and pcall(function() return http.serve end)

describe("HTTP in a simulated world", function()
  if not has_http or http_stage.missing then return pending "libcurl or luv is not installed" end
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- The simulated client asks for no compressed bodies.
  local UNEQUAL = { ["accept-encoding"] = true, date = true, host = true }

  -- Headers as a text, without those that differ.
  local function text_of(headers)
    local lines = {}
    for name, value in pairs(headers) do
      if not UNEQUAL[name] then
        lines[#lines + 1] = name .. "=" .. (type(value) == "table" and "{" .. table.concat(value, "|") .. "}" or value)
      end
    end
    table.sort(lines)
    return table.concat(lines, "; ")
  end

  -- A channel of the values, which closes with an error, if any.
  local function channel(err, ...)
    local ch = rn.chan(8)
    for _, value in ipairs { ... } do ch:put(value) end
    ch:close(err)
    return ch
  end

  local responses = {
    list = function() return 200, { ["X-A"] = 1, ["x-b"] = { "1", "2" }, ["Set-Cookie"] = { "a=1", "b=2" } }, "ok" end,
    cookie = function() return 200, { ["Set-Cookie"] = "a=1", ["Content-Type"] = "Text/Plain" }, "ok" end,
    bare = function() return 204, nil, "body" end,
    bare_channel = function() return 204, { ["Content-Length"] = 3 }, channel(nil, "one") end,
    reset = function() return 205, nil, "body" end,
    unchanged = function() return 304, { Etag = '"x"', ["Content-Length"] = 12 }, "body" end,
    json = function() return 200, nil, { a = 1 } end,
    raises = function() error "wrong" end,
    nothing = function() return nil end,
    name = function() return 200, { ["bad name"] = "x" }, "x" end,
    value = function() return 200, { x = "a\1b" }, "x" end,
    chunked = function() return 200, { ["Transfer-Encoding"] = "chunked" }, "x" end,
    upgrade = function() return 200, { Connection = "Upgrade" }, "x" end,
    close = function() return 200, { Connection = "close" }, "x" end,
    length = function() return 200, { ["Content-Length"] = 2 }, "hello" end,
    pieces = function() return 200, nil, channel(nil, "a", "b") end,
    whole = function() return 200, { ["Content-Length"] = 2 }, channel(nil, "a", "b") end,
    short = function() return 200, { ["Content-Length"] = 3 }, channel(nil, "a", "b") end,
    long = function() return 200, { ["Content-Length"] = 1 }, channel(nil, "a", "b") end,
    cut = function() return 200, nil, channel("no more", "a") end,
  }

  local function respond(req)
    local f = responses[req.path:match "^/(.*)"]
    if f then return f(req) end
    return 200, nil, ("%s %s %q %s"):format(req.method, req.target, req:body(), text_of(req.headers))
  end

  -- The results of requests to a server with these responses.
  local function ask(base)
    local results = {}
    local function note(what, response, err)
      results[what] = response
        and ("%d %q %s %s"):format(response.status, response.body, text_of(response.headers),
          (response.url:gsub("^http://[^/]*", "")))
        or tostring(err):match "ended in the middle" and "cut" or tostring(err):match "closed with" and "cut"
        -- Newer libcurls have other words.
        or tostring(err):match "bytes missing" and "cut" or tostring(err):match "^[^ ]* URL " and "no URL"
        or tostring(err):gsub("^[^ ]* ", "")
    end
    for name in pairs(responses) do
      note(name, http.get(base .. "/" .. name))
      note("HEAD " .. name, http.request { url = base .. "/" .. name, method = "HEAD" })
    end
    for _, target in ipairs { "", "?a=b", "/a b", "/a//b/", "/a/./b/../c", "/%2e%2e/x", "/x?a=b?c#f", "/%zz",
      "/\195\169", "/?q=\195\169", "/?q= ", "/a;b" } do
      note(target, http.get(base .. target))
    end
    local requests = {
      head = { method = "HEAD" }, post = { body = "text" }, none = { method = "POST" }, json = { json = { 1 } },
      put = { method = "PUT", body = "" }, delete = { method = "DELETE" }, get = { method = "GET", body = "x" },
      headers = { headers = { A = { "1", "2" }, B = "", C = "  c  " } }, form = { form = { a = "1 2", b = "&" } },
      accept = { headers = { Accept = "text/x", ["User-Agent"] = "me" } }, channel = { body = channel(nil, "a", "b") },
      sized = { body = channel(nil, "a", "b"), size = 2 }, query = { query = { a = "1 2" } },
      length = { body = "text", headers = { ["content-length"] = "4" } },
      login = { url = base:gsub("//", "//u%%40s:p:w@") .. "/x" },
      own_login = { url = base:gsub("//", "//u@") .. "/x", headers = { authorization = "mine" } },
    }
    for name, request in pairs(requests) do
      request.url = request.url or base .. "/" .. name
      note(name .. " request", http.request(request))
    end
    return results
  end

  it("has the messages that reality has", function()
    local before = rn.on_error(function() end)
    finally(function() rn.on_error(before) end)
    local simulated = sim.run(function()
      local world, results = sim.world(), nil
      world:host("server", function() assert(http.serve(80, respond, { host = "0.0.0.0" })) end)
      world:host("client", function()
        rn.yield()
        results = ask "http://server"
      end)
      world:run()
      return results
    end)
    local server <close> = assert(http.serve(0, respond))
    assert.same(ask((server.url:match "^(.-)/?$")), simulated)
  end)

  it("has a server's date, which is that of its clock", function()
    local date = sim.run(function()
      local world, date = sim.world(), nil
      world:host("server", function() assert(http.serve(80, respond, { host = "0.0.0.0" })) end, { skew = 3600000 })
      world:host("client", function()
        rn.yield()
        date = assert(http.get "http://server/").headers.date
      end)
      world:run()
      return date
    end)
    assert.equal("Tue, 14 Nov 2023 23:13:20 GMT", date)
  end)

  it("is joined and without a body for HEAD as that of http.fake, too", function()
    local response, body
    local before = http.fake(function(req)
      body = req:body()
      return 200, { ["X-B"] = { "1", 2 }, ["Set-Cookie"] = "a=1" }, "text"
    end)
    finally(function() http.fake(before) end)
    response = assert(http.request { url = "http://any/", method = "HEAD", body = "x" })
    assert.same({ "", "1, 2", { "a=1" }, "x" }, { response.body, response.headers["x-b"],
      response.headers["set-cookie"], body })
    assert.matches("^any: URL", select(2, http.get "http://any/a b"))
  end)
end)
