-- http.serve with the option tls.

if not (pcall(require, "luv") and pcall(require, "runnel.tls") and pcall(require, "runnel.http.client")) then
  describe("http.serve with TLS", function() pending "luv, OpenSSL or libcurl is not installed" end)
  return
end

local http = require "runnel.http"
local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local tls = require "spec.support.tls"
local web = require "spec.support.http.web"

if not tls.has "openssl" then
  describe("http.serve with TLS", function() pending "openssl is not installed" end)
  return
end

describe("http.serve with TLS", function()
  local folder

  setup(function() folder = tls.folder() end)
  teardown(function() folder:remove() end)

  local is_warm = false
  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    http_stage.open()
  end)
  after_each(http_stage.close)

  local function serve(f, opts)
    opts = opts or {}
    opts.tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" }
    return assert(http.serve(0, f, opts))
  end

  local function ask(server, path, opts)
    opts = opts or {}
    opts.url, opts.cainfo = ("https://localhost:%d%s"):format(server.port, path), folder.path .. "/ca"
    return http.request(opts)
  end

  it("exchanges keys in groups that cost little only, whatever the client wants #ci", function()
    local server <close> = serve(function() return 200 end)
    local function shake(group)
      local program = require("runnel.uv").spawn { "openssl", "s_client", "-connect", "127.0.0.1:" .. server.port,
        "-groups", group, "-brief", stdout = false }
      program.stdin:close()
      local said = table.concat(rn.into({}, program.stderr):take())
      program.exit:take()
      return said:find "CONNECTION ESTABLISHED" ~= nil
    end
    for _, group in ipairs { "X25519", "P-256", "P-384", "P-521" } do assert.is_true(shake(group), group) end
    for _, group in ipairs { "ffdhe2048", "ffdhe8192" } do assert.is_false(shake(group), group) end
  end)

  it("answers as without it: bodies of any size, both ways, from strings and channels", function()
    local server <close> = serve(function(req)
      if req.method == "GET" then return 200, nil, "hello" end
      local n = 0
      for piece in req:pieces() do n = n + #piece end
      local ch = rn.chan()
      rn.go(function()
        for _ = 1, 20 do ch:put(("x"):rep(n // 20)) end
        ch:close()
      end)
      return 200, nil, ch
    end, { max = 10000000 })
    assert.match("^https://127%.0%.0%.1:%d+/$", server.url)
    assert.equal("hello", assert(ask(server, "/")).body)
    local body = assert(ask(server, "/", { method = "POST", body = ("x"):rep(2000000), max = 10000000 })).body
    assert.equal(2000000, #body)
  end)

  it("closes a connection that does not speak it, or not in time, and serves others", function()
    local server <close> = serve(function() return 200, nil, "hello" end, { header_timeout = 1000 })
    assert.equal("", web.exchange(server, "\x16\x03\x01")) -- not after `idle`, which is 30 s
    assert.not_match("HTTP", web.exchange(server, "\x16GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert.equal("hello", assert(ask(server, "/")).body)
  end)

  it("answers 400 to a client that speaks HTTP without TLS, which says what to do", function()
    local server <close> = serve(function() error "there is no request" end)
    for _, request in ipairs {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "G", "post / HTTP/1.0\r\n\r\n" .. ("x"):rep(300000),
    } do
      local answer = web.exchange(server, request)
      assert.match("^HTTP/1%.1 400 .-\r\nConnection: close\r\n", answer)
      assert.match("\r\n\r\n400: this port speaks TLS; use an https:// URL\n$", answer)
    end
  end)

  it("cancels the go block of a client that goes away", function()
    local running, ended = rn.chan(1), rn.chan(1)
    local server <close> = serve(function()
      local _ <close> = setmetatable({}, { __close = function() ended:offer(true) end })
      running:put(true)
      rn.sleep(60000)
    end)
    local asking = rn.go(function() ask(server, "/") end)
    running:take()
    rn.cancel(asking)
    assert.is_true(ended:take())
  end)

  it("checks its certificates", function()
    raises("serve: tls: ", function() http.serve(0, print, { tls = { certificate = "x" } }) end)
    local server, err = http.serve(0, print, { tls = { cert = folder.path .. "/none" } })
    assert.is_nil(server)
    assert.is_string(err)
    assert.is_nil(stage.heard()[1])
  end)
end)
