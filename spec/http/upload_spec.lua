-- The body of a request that is a channel (runnel.http.upload).

local rn = require "runnel"
local http_stage = require "spec.support.http.http_stage"

describe("the channel of a request's body", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"
  local listen = http_stage.serve

  before_each(http_stage.open)
  after_each(http_stage.close)

  -- A go block that puts pieces until the channel is closed; its result is how many were put.
  local function putter(ch, most)
    return rn.go(function()
      for i = 1, most do
        if not ch:put(("x"):rep(10000)) then return i - 1 end
      end
      return most
    end)
  end

  local function early(status)
    return listen(function(conn)
      conn:read():take()
      conn:write(("HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"):format(status))
    end)
  end

  -- Ways in which a request ends before all of its body has been put. Each is called with the channel.
  local WAYS = {
    ["is refused"] = function(ch) return http.request { url = "http://127.0.0.1:1/", body = ch } end,
    ["has a wrong URL"] = function(ch) return http.request { url = "file:///x", body = ch } end,
    ["has no time left"] = function(ch)
      local port = listen(function(conn) for _ in conn:read() do rn.sleep(1) end end)
      return http.request { url = "http://127.0.0.1:" .. port, body = ch, timeout = 20 }
    end,
    ["is answered early"] = function(ch)
      return http.request { url = ("http://127.0.0.1:%d/"):format(early(413)), body = ch }
    end,
    ["is cancelled"] = function(ch)
      local came = rn.chan(1)
      local port = listen(function(conn)
        for _ in conn:read() do came:offer(true) end
      end)
      local block = rn.go(http.request, { url = "http://127.0.0.1:" .. port, body = ch })
      came:take()
      rn.cancel(block)
      return block:take()
    end,
    ["is a stream that is closed"] = function(ch)
      local pieces = http.stream("http://127.0.0.1:" .. listen(function(conn) for _ in conn:read() do end end),
        { body = ch })
      pieces:close()
    end,
    ["is a stream that is refused"] = function(ch)
      return http.stream("http://127.0.0.1:1/", { body = ch }):take()
    end,
    ["is a stream with a wrong URL"] = function(ch) return http.stream("file:///x", { body = ch }):take() end,
  }

  for way, f in pairs(WAYS) do
    it("is closed if the request " .. way .. ", so that no put waits for ever", function()
      local ch = rn.chan()
      local block = putter(ch, 100000)
      f(ch)
      assert.is_true(block:take() < 100000)
      assert.is_false(ch:put "more")
    end)
  end

  it("cannot be the body of a second request, which would send the rest as the whole", function()
    local ch = rn.to_chan { "one", "two" }
    assert.is_nil((http.request { url = "http://127.0.0.1:1/", body = ch }))
    local ok, err = pcall(http.request, { url = "http://127.0.0.1:1/", body = ch })
    assert.is_false(ok)
    assert.matches("this channel was the body of an earlier request", err)
  end)

  it("must have as many bytes as the option size says", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req:body() end))
    local function send(size)
      return http.request { url = server.url, body = rn.to_chan { "abc", "", "def" }, size = size }
    end
    assert.equal("abcdef", assert(send(6)).body)
    local wrong = { [0] = "longer", [2] = "longer", [5] = "longer", [7] = "shorter", [1000000] = "shorter" }
    for size, pattern in pairs(wrong) do
      local response, err = send(size)
      assert.is_nil(response, size)
      assert.matches("the body is " .. pattern .. " than the option size says", err)
    end
  end)
end)
