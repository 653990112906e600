-- A server and clients of runnel.http, while all garbage is collected before each instruction of Lua:
--
--     build/checked/runner tests/http/http_gc.lua

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local t = t -- luacheck: globals t
t.limit(600)
t.collect(true)
rn.on_error(function() end) -- those of /fail, and of bodies that are cut

-- Counts in the metatable's field how many of its tables were collected.
local Counted = { count = 0 }
Counted.__gc = function() Counted.count = Counted.count + 1 end
local made = 0

local function three()
  local ch = rn.chan()
  rn.go(function()
    for _ = 1, 3 do ch:put(("x"):rep(1000)) end
    ch:close()
  end)
  return ch
end

local service = http.router {
  ["GET /hello/:name"] = function(req) return 200, { ["X-A"] = { "1", "2" } }, "hello " .. req.params.name end,
  ["GET /json"] = function(req) return 200, nil, { query = req.query, headers = req.headers } end,
  ["POST /echo"] = function(req) return 200, nil, req:body() end,
  ["GET /stream"] = function() return 200, nil, three() end,
  ["GET /fail"] = function() error "on purpose" end,
  ["GET /events"] = function(req)
    return req:events(function(events) events:put { id = 1, data = "a\nb" } end)
  end,
  ["GET /socket"] = function(req)
    local conn = req:websocket()
    for message in conn:read() do conn:write(message) end
  end,
}

local LONG <const> = 600000
local server <close> = assert(http.serve(0, function(req)
  made = made + 1
  setmetatable({}, Counted)
  return service(req)
end, { timeout = LONG, idle = LONG, header_timeout = LONG, min_rate = 0 }))

-- Sends a request, with a body or without one; returns the answer, or, if `is_cut`, leaves at once.
local function ask(first, rest, is_cut)
  local conn <close> = assert(uv.connect("127.0.0.1", server.port))
  conn:write(first .. " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" .. (rest or "\r\n"))
  local pieces = {}
  if not is_cut then rn.into(pieces, conn:read()):take() end
  return table.concat(pieces)
end

local function run()
  for path, pattern in pairs {
    ["/hello/a"] = "^HTTP/1.1 200 .*hello a$", ["/json?a=b"] = '"a":"b"', ["/stream"] = "x\r\n0\r\n\r\n$",
    ["/fail"] = "^HTTP/1.1 500 ", ["/events"] = "id: ?1\n", ["/none"] = "^HTTP/1.1 404 ",
  } do
    local answer = ask("GET " .. path)
    assert(answer:find(pattern), answer)
    ask("GET " .. path, nil, true)
  end
  local answer = ask("POST /echo", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
  assert(answer:find "abc$", answer)
  ask("POST /echo", "Content-Length: 100000\r\n\r\n" .. ("x"):rep(5000), true)
  if pcall(require, "runnel.http.curl") then
    local body = { assert(http.get(server.url .. "stream")).body }
    assert(body[1] == ("x"):rep(3000))
  end
  if pcall(require, "runnel.websocket.core") then
    local conn <close> = assert(http.websocket(("ws://127.0.0.1:%d/socket"):format(server.port), { timeout = LONG }))
    for _, message in ipairs { "hello", "", ("x"):rep(1000) } do
      conn:write(message)
      assert(conn:read():take() == message)
    end
  end
end

local ok, err = rn.go(function()
  run()
  return true
end):take()
assert(ok, err)
t.collect(false)
assert(made > 8 and Counted.count == made, "the collector has not run")
print(("%d requests"):format(made))
