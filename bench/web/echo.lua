-- Compares an echo over WebSocket with one over a plain socket: CPU time of both ends for each message.
--
--     lua5.4 bench/web/echo.lua [MESSAGES]     from the repository's root, after make
--
-- A client sends a message of 64 bytes and waits for it to come back, again and again. Each end is a process.

local rn = require "runnel"
local http = require "runnel.http"
local luv = require "luv"
local uv = require "runnel.uv"

local LUA = os.getenv "LUA" or "lua5.4"
local TEXT = ("x"):rep(64)
local ROUNDS = 5

local function cpu()
  local usage = luv.getrusage()
  return (usage.utime.sec + usage.stime.sec) * 1e6 + usage.utime.usec + usage.stime.usec
end

local function tell(...)
  print(...)
  io.stdout:flush()
end

local function echo(conn)
  local before = cpu()
  for message in conn:read() do conn:write(message) end
  return cpu() - before
end

local function ask(conn, n)
  local messages, before = conn:read(), cpu()
  for _ = 1, n do
    conn:write(TEXT)
    messages:take()
  end
  local used = cpu() - before
  conn:close()
  tell(used)
end

-- Each prints the port, then the CPU time.
local SERVERS = {}

function SERVERS.socket()
  local conns, port = assert(uv.listen("127.0.0.1", 0))
  tell(port)
  tell(echo(conns:take()))
  conns:close()
end

function SERVERS.websocket()
  local used = rn.chan()
  local server <close> = assert(http.serve(0, function(req) used:put(echo(assert(req:websocket()))) end))
  tell(server.port)
  tell(used:take())
end

local CLIENTS = {
  socket = function(port, n) ask(assert(uv.connect("127.0.0.1", port)), n) end,
  websocket = function(port, n) ask(assert(http.websocket(("ws://127.0.0.1:%d/"):format(port))), n) end,
}

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

-- Runs both ends; returns their µs for each message.
local function measure(kind, n)
  local server = uv.spawn { LUA, arg[0], "server", kind, stdout = "lines" }
  local port = server.stdout:take()
  local client = uv.spawn { LUA, arg[0], "client", kind, port, tostring(n), stdout = "lines" }
  local result = { client = client.stdout:take() / n, server = server.stdout:take() / n }
  server.exit:take()
  client.exit:take()
  return result
end

if arg[1] == "server" then
  SERVERS[arg[2]]()
elseif arg[1] == "client" then
  CLIENTS[arg[2]](tonumber(arg[3]), tonumber(arg[4]))
else
  local n = tonumber(arg[1] or 20000)
  local found = { socket = { client = {}, server = {} }, websocket = { client = {}, server = {} } }
  for _ = 1, ROUNDS do
    for _, kind in ipairs { "socket", "websocket" } do
      for side, value in pairs(measure(kind, n)) do table.insert(found[kind][side], value) end
    end
  end
  print "| an echo of 64 bytes, µs of CPU | socket | websocket | ratio |\n|---|---|---|---|"
  for _, side in ipairs { "client", "server" } do
    local plain, framed = median(found.socket[side]), median(found.websocket[side])
    print(("| %s | %.1f | %.1f | %.2f |"):format(side, plain, framed, framed / plain))
  end
end
