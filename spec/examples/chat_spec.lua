-- Runs examples/chat.lua in a process of its own, and talks to it as browsers do.

local rn = require "runnel"
local uv_stage = require "spec.support.uv_stage"

local LUA = os.getenv "LUA" or "lua5.4"

local is_built = pcall(require, "runnel.websocket.core")
if not (is_built and pcall(require, "luv")) then
  describe("examples/chat.lua", function() pending "zlib or luv is not installed" end)
  return
end

local http = require "runnel.http"
local uv = require "runnel.uv"

describe("examples/chat.lua", function()
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function start(...)
    return uv.spawn { LUA, "examples/chat.lua", stdout = "lines", stderr = "lines", stdin = false, ... }
  end

  it("lets everyone hear what all say, and closes all connections at Ctrl-C", function()
    local process <close> = start "0"
    local port = assert(process.stdout:take()):match "^open http://127.0.0.1:(%d+)/$"
    local url = ("ws://127.0.0.1:%s/"):format(port)
    local function join(name)
      local conn = assert(http.websocket(url, { origin = "http://127.0.0.1:" .. port }))
      conn:write(name)
      assert.equal(name .. " is here.", conn:read():take())
      return conn
    end
    local ann = join "Ann"
    local bob = join "Bob"
    assert.equal("Bob is here.", ann:read():take())
    ann:write "hello"
    bob:write { binary = "not shown" }
    bob:write "hi"
    for _, conn in ipairs { ann, bob } do
      local lines = { conn:read():take(), conn:read():take() }
      table.sort(lines) -- they were said at once
      assert.same({ "Ann: hello", "Bob: hi" }, lines)
    end
    bob:close()
    assert.equal("Bob has left.", ann:read():take())
    process:kill "int"
    assert.is_nil((ann:read():take()))
    assert.equal(0, process.exit:take().code)
    assert.equal(1001, ann.code)
    assert.is_nil((process.stderr:take()))
  end)

  it("has a page, and refuses other requests", function()
    local process <close> = start "0"
    local port = tonumber(assert(process.stdout:take()):match ":(%d+)/$")
    local conn <close> = assert(uv.connect("127.0.0.1", port))
    conn:write "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    local text = table.concat(rn.into({}, conn:read()):take())
    assert.match("^HTTP/1%.1 200 .*new WebSocket", text)
    local _, err, response = http.websocket(("ws://127.0.0.1:%d/"):format(port), { origin = "http://evil.example" })
    assert.match("status 403", err)
    assert.equal(403, response.status)
    process:kill "term"
    assert.equal(0, process.exit:take().code)
  end)

  it("says how to use it", function()
    local process <close> = start "x"
    assert.equal("usage: lua5.4 examples/chat.lua [PORT]", process.stderr:take())
    assert.equal(2, process.exit:take().code)
  end)
end)
