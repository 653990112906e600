-- http.websocket and req:websocket with TLS: wss:// URLs.

local patience = require "spec.support.patience"
local rn = require "runnel"
local raises = require "spec.support.raises"
local uv_stage = require "spec.support.uv_stage"

local is_built = pcall(require, "runnel.websocket.core") and pcall(require, "runnel.tls")
if not (is_built and pcall(require, "luv")) then
  describe("a websocket with TLS", function() pending "zlib, OpenSSL or luv is not installed" end)
  return
end

local http = require "runnel.http"
local tls = require "spec.support.tls"

describe("a websocket with TLS", function()
  if not tls.has "openssl" then
    pending "openssl is not installed"
    return
  end

  local folder
  setup(function()
    folder = tls.folder()
    assert(http.serve(0, print)):close() -- opens the descriptor by which threads wake Lua
  end)
  teardown(function() local _ <close> = folder end)
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function serve()
    local server = assert(http.serve(0, function(req)
      local conn = assert(req:websocket { deflate = true })
      for message in conn:read() do conn:write(message) end
    end, { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } }))
    return server, ("wss://127.0.0.1:%d/"):format(server.port)
  end

  it("carries messages of each size in both directions, and ends in order #ci", function()
    local server <close>, url = serve()
    local conn <close> = assert(http.websocket(url, {
      tls = { ca = folder.path .. "/ca", name = "localhost" }, deflate = true, -- not every system knows localhost
    }))
    for _, size in ipairs { 0, 1, 1000, 65536, 900000 } do
      for _, text in ipairs { ("0123456789"):rep(size // 10 + 1), ("\xFF\0"):rep(size // 2 + 1) } do
        local message = utf8.len(text) and text or { binary = text }
        conn:write(message)
        local answer, err = conn:read():take()
        assert.is_nil(err)
        assert.is_true(text == (answer.binary or answer))
      end
    end
    assert.is_true(server:drain())
    assert.is_nil((conn:read():take()))
    while not conn.code do rn.sleep(1) end
    assert.equal(1001, conn.code)
  end)

  it("refuses a server whose certificate no trusted authority has signed", function()
    local server <close>, url = serve() -- luacheck: ignore 211
    local conn, err = http.websocket(url, { timeout = patience.most }) -- under valgrind TLS takes seconds
    assert.is_nil(conn)
    assert.match("^127.0.0.1:%d+: .*certificate", err)
  end)

  it("takes wrong options as errors at the caller's line", function()
    raises("websocket: tls: unknown option \"wrong\"", function()
      local _ = http.websocket("wss://localhost:1/", { tls = { wrong = 1 } })
    end)
    raises("websocket: tls: unknown option \"wrong\"", function()
      local _ = http.websocket("wss://localhost/", { tls = { wrong = 1 }, unix_socket_path = "/none" })
    end)
    raises("websocket: proxy_tls: unknown option \"wrong\"", function()
      local _ = http.websocket("ws://localhost/", { proxy_tls = { wrong = 1 }, proxy = "https://127.0.0.1:1" })
    end)
    local conn, err = http.websocket("wss://localhost:1/", { tls = { ca = "/none" } })
    assert.is_nil(conn)
    assert.match("^localhost:1: .*/none", err)
  end)
end)
