-- A chat: each line of a client goes to all others. A client that does not read is disconnected, so that it slows
-- nobody down. Needs luv. Try it with nc.
--
--     runnel examples/recipes/chat.lua 7000

local rn = require "runnel"
local uv = require "runnel.uv"

local QUEUE = 100 -- lines that may wait for a client

local clients = {}

local function tell(line, from)
  for client in pairs(clients) do
    if client ~= from and not client.lines:offer(line .. "\n") then client.conn:close "is too slow" end
  end
end

local function serve(conn)
  local _ <close> = conn
  local client = { conn = conn, lines = rn.chan(QUEUE) }
  local name = ("%s:%d"):format(conn:peer())
  clients[client] = true
  local _ <close> = setmetatable({}, { __close = function()
    clients[client] = nil
    client.lines:close()
    tell(name .. " has left")
  end })
  tell(name .. " is here", client)
  rn.pipe(client.lines, conn:writer())
  for line in conn:lines { max = 1000 } do
    tell(name .. ": " .. line, client)
    rn.yield() -- many lines may have come at once; the others get their turn to send
  end
end

local conns, port = assert(uv.listen("127.0.0.1", tonumber(arg[1])))
print("port " .. port)
io.stdout:flush()
for conn in conns do rn.go(serve, conn) end
