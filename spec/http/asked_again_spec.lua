-- Requests that a server asks for once more, and that are no redirects: logins, and the header Expect refused.

local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local stage = require "spec.support.stage"

if http_stage.missing then
  describe("a request that the server wants again", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

describe("a request that the server wants again", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Starts a server that answers the head of each request with the result of `answer(head)`, and reads a body after a
  -- status of 200. Returns its URL and the list of the heads.
  local function server(answer)
    local heads = {}
    return ("http://127.0.0.1:%d/"):format(http_stage.serve(function(conn)
      local input, held = conn:read(), ""
      local function wait_until(found)
        while not found() do
          local piece = input:take()
          if not piece then return false end
          held = held .. piece
        end
        return true
      end
      while wait_until(function() return held:find("\r\n\r\n", 1, true) end) do
        local head, rest = held:match "^(.-\r\n)\r\n(.*)$"
        held, heads[#heads + 1] = rest, head
        local text = answer(head)
        local length = text:find "^200" and tonumber(head:match "\r\nContent%-Length: (%d+)") or 0
        wait_until(function() return #held >= length end)
        held = held:sub(length + 1)
        conn:write("HTTP/1.1 " .. text)
      end
    end)), heads
  end

  local OK <const> = "200 OK\r\nX-Is: last\r\nContent-Length: 4\r\n\r\ndone"
  local REDIRECT <const> = "302 Found\r\nLocation: /target\r\nContent-Length: 0\r\n\r\n"
  local UNKNOWN <const> = "401 Unauthorized\r\nContent-Length: 5\r\n"
    .. 'WWW-Authenticate: Digest realm="a", nonce="b", qop="auth"%s\r\n\r\nnever'

  local function login(head)
    return head:find "\r\nAuthorization: Digest" and OK or UNKNOWN:format ""
  end

  local function with_login(redirects) return { httpauth = "digest", userpwd = "a:b", redirects = redirects } end

  it("with a login is no redirect: it may come if none may be followed, and beside as many as may", function()
    assert.equal("done", assert(http.get(server(login), with_login(0))).body)
    assert.equal("done", table.concat(stage.drain((http.stream(server(login), with_login(0))))))
    local url, heads = server(function(head) return head:find "^GET /target" and login(head) or REDIRECT end)
    assert.equal(302, assert(http.get(url, with_login(0))).status)
    assert.equal("done", assert(http.get(url, with_login(1))).body)
    assert.equal(4, #heads)
  end)

  it("through http.proxy with a login arrives", function()
    local proxy <close> = assert(http.serve(0, http.proxy((server(login)), { httpauth = "digest", userpwd = "a:b" })))
    local res = assert(http.get(proxy.url))
    assert.same({ 200, "done" }, { res.status, res.body })
  end)

  it("without end is an error that says so", function()
    local url, heads = server(function() return UNKNOWN:format ", stale=true" end)
    local res, err = http.get(url, with_login(10))
    assert.is_nil(res)
    assert.matches("^127.0.0.1:%d+: the server asks for a login again and again$", err)
    assert.is_true(#heads > 10)
  end)

  it("since it does not know Expect comes without that header, and the answer to that one counts", function()
    local function answer(head)
      if not head:find "\r\nExpect: " then return OK end
      return "417 Expectation Failed\r\nX-Is: first\r\nContent-Length: 5\r\n\r\nnever"
    end
    for _, redirects in ipairs { 10, 0 } do
      for _, method in ipairs { "PUT", "POST" } do
        local url, heads = server(answer)
        local body = rn.to_chan { "te", "xt" }
        for _, one in ipairs { "text", body } do
          local res = assert(http.request { url = url, method = method, body = one, size = one == body and 4 or nil,
            headers = { Expect = "100-continue", ["X-Other"] = "kept" }, redirects = redirects })
          assert.same({ 200, "last", "done" }, { res.status, res.headers["x-is"], res.body })
          assert.same({}, res.trailers)
        end
        assert.equal(4, #heads)
        assert.matches("\r\nX%-Other: kept\r\n", heads[2])
        assert.is_nil(heads[2]:find "Expect")
      end
    end
  end)

  it("is not sent again if the answer to it without Expect is 417, too", function()
    local url, heads = server(function() return "417 Expectation Failed\r\nContent-Length: 4\r\n\r\nnone" end)
    local function asks(headers)
      local res = assert(http.request { url = url, body = "text", headers = headers })
      assert.same({ 417, "none" }, { res.status, res.body })
      return #heads
    end
    assert.equal(2, asks { Expect = "100-continue" })
    assert.equal(3, asks {})
    url = server(function() return "417 Expectation Failed\r\nContent-Length: 0\r\n\r\n" end)
    local pieces, head = http.stream(url)
    assert.same({ 417, "0" }, { head().status, head().headers["content-length"] })
    assert.is_nil(pieces:take())
  end)
end)
