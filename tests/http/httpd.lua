-- Servers of runnel.http, used and closed in every way by clients that come and go at any moment. To be run with
-- sanitizers, which look for races and for memory that is used after its end:
--
--     build/tsan/runner tests/http/httpd.lua ROUNDS [SEED]
--
-- Each round starts a server whose function does something random, half of them with a log, compression, limits and so
-- on around it, lets clients send requests, whole, cut and wrong,
-- closes or drains the server at some moment, and checks that its go blocks have ended.

local rn = require "runnel"
local http = require "runnel.http"
local request = require "runnel.http.request"
local uv = require "runnel.uv"

local t = t -- luacheck: globals t
t.limit(600)
local rounds, seed = tonumber((...)), tonumber(select(2, ...) or os.time())
math.randomseed(seed)
local random = math.random

local running, answers, expected_errors = 0, 0, 0
local unexpected
rn.on_error(function(err)
  local text = tostring(err)
  if text:find "on purpose" then expected_errors = expected_errors + 1
  elseif not (text:find "^it is closed" or text:find "EPIPE" or text:find "ECONNRESET") then -- those are of clients
    unexpected = unexpected or text
  end
end)

local stream = dofile "tests/http/random_body.lua"

local Running = { __close = function() running = running - 1 end }

-- Counts a go block that runs, until the result is closed.
local function begins()
  running = running + 1
  return setmetatable({}, Running)
end

local files = http.files "."

local WAYS = {
  function() return 200, nil, ("x"):rep(random(0, 300000)) end, -- the Lua thread sends a long one itself
  function(req)
    req.rest = random() < 0.5 and "LICENSE" or "docs/performance.svg"
    return files(req)
  end,
  function(req)
    req.rest = "docs/monitor.png" -- so long that the server's thread reads it
    local status, headers, body = files(req)
    if random() < 0.5 then rn.sleep(random()) end
    return status, headers, body
  end,
  function(req) return 200, nil, req:body() end,
  function(req) return 200, nil, req:pieces() end,
  function(req)
    local pieces = req:pieces()
    rn.go(function()
      local _ <close> = begins()
      while pieces:take() do rn.sleep(random()) end
    end)
    rn.sleep(random() * 5)
    return 202
  end,
  function(req)
    local n = 0
    for piece in req:pieces() do n = n + #piece end
    return 200, nil, { n = n, headers = req.headers }
  end,
  function() return 200, { ["X-A"] = { "1", "2" } }, stream() end,
  function() error "on purpose" end,
  function()
    rn.sleep(random() * 20)
    return 204
  end,
  function()
    rn.sleep(60000)
    return 200
  end,
  function(req) return 200, nil, (req.query.a or "") .. req.path end,
}

-- Sends back what comes, until the client ends.
local function echo(req)
  request.upgrade(req, { "Upgrade", "echo" })
  while true do
    local piece = req.core:read(random(1, 100000))
    if piece == false then return end
    local has_room = not piece or req.core:write(piece)
    if not piece then req.can_read:take() end
    while not has_room do
      req.room:take()
      has_room = req.core:write ""
    end
    if random(50) == 1 then return end
  end
end

local function serve(req)
  local _ <close> = begins()
  if req.can_upgrade then return echo(req) end
  return WAYS[random(#WAYS)](req)
end

local has_client = pcall(require, "runnel.http.curl") -- whose zlib compression needs
local wrapped = has_client and require("spec.support.http.service").around(serve) or serve

local REQUESTS = {
  function() return "GET /a?a=1 HTTP/1.1\r\nHost: x\r\n\r\n" end,
  function() return "GET /a HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n" end,
  function()
    local body = ("b"):rep(random(0, 200000))
    return ("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"):format(#body, body)
  end,
  function()
    local parts = { "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" }
    for _ = 1, random(0, 10) do
      local piece = ("c"):rep(random(1, 30000))
      parts[#parts + 1] = ("%x\r\n%s\r\n"):format(#piece, piece)
    end
    return table.concat(parts) .. "0\r\n\r\n"
  end,
  function() return "HEAD / HTTP/1.0\r\n\r\n" end,
  function() return "POST /d HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n123456789" end,
  function()
    return "GET /e HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n" .. ("d"):rep(random(0, 300000))
  end,
  function() return ("\r\n%c"):format(random(0, 255)):rep(random(1, 100)) end,
}

local function client(port)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  rn.scope(function(s)
    s:go(function()
      if random(3) == 1 then rn.sleep(random() * 50) end
      for piece in conn:read() do
        answers = answers + #piece
        if random(50) == 1 then conn:close() end
      end
    end)
    for _ = 1, random(3) do
      local text = REQUESTS[random(#REQUESTS)]()
      if random(4) == 1 then text = text:sub(1, random(#text)) end
      if not conn:write(text) then break end
      if random(3) == 1 then rn.sleep(random() * 10) end
    end
    if random(2) == 1 then rn.sleep(random() * 30) end
    conn:close()
  end)
end

for _ = 1, rounds do
  local server = assert(http.serve(0, random(2) == 1 and wrapped or serve, { max = 150000,
    timeout = random(20, 500), idle = random(50, 1000),
    max_requests = random(1, 4), max_connections = random(10, 30), reuseport = random(2) == 1 }))
  local clients = {}
  for i = 1, 20 do
    clients[i] = rn.go(function() pcall(client, server.port) end)
  end
  rn.sleep(random() * 300)
  if random(3) > 1 then server:drain(random(0, 300)) else server:close() end
  for _, block in ipairs(clients) do block:take() end
  if random(4) == 1 then collectgarbage() end
  for _ = 1, 1000 do
    if running == 0 then break end
    rn.sleep(1)
  end
  assert(running == 0, ("seed %d: %d go blocks run after the end of their server"):format(seed, running))
end
if unexpected then error(("seed %d: %s"):format(seed, unexpected), 0) end
assert(answers > 0 and expected_errors > 0, "nothing has happened")
print(("%d rounds, %d bytes of answers"):format(rounds, answers))
