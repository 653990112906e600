-- A server that sends back what it receives, to any number of clients at a time. Needs luv.
--
--     lua5.4 examples/echo.lua [HOST] PORT        on 127.0.0.1 by default; port 0 is any free port
--     lua5.4 examples/echo.lua 7007 & echo hello | nc -N 127.0.0.1 7007
--
-- Each client has a go block. While a client does not read, the server reads nothing more from it. Ctrl-C ends the
-- server. examples/echo_load.lua puts load on it.

local rn = require "runnel"
local uv = require "runnel.uv"

local USAGE = "usage: lua5.4 examples/echo.lua [HOST] PORT\n  PORT: a whole number from 0 to 65535\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local host, port = "127.0.0.1", math.tointeger(tonumber(arg[#arg]))
if arg[2] then host = arg[1] end
if not port or port < 0 or port > 65535 or arg[3] then
  io.stderr:write(USAGE)
  os.exit(2)
end

local served, open = 0, {}

local function serve(conn)
  open[conn] = true
  local input = conn:read()
  for chunk in input do
    if not conn:write(chunk) then break end
  end
  local _, err = input:poll() -- the error, if there is one, that has ended the loop
  if err then io.stderr:write("echo: ", err, "\n") end
  conn:close()
  open[conn] = nil
  served = served + 1
end

local clients, at = uv.listen(host, port)
if not clients then
  io.stderr:write("echo: ", at, "\n")
  os.exit(1)
end
io.stderr:write("listening on ", host, ", port ", at, "\n")

local interrupted = uv.signal("int", "term")
while true do
  local conn, from = rn.alts { interrupted, clients }
  if from == interrupted then break end
  rn.go(serve, conn)
end
clients:close()
for conn in pairs(open) do conn:close() end
io.stderr:write("served ", served, " clients\n")
os.exit(0, true)
