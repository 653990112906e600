-- Sends messages of 100 KB to a WebSocket server, which must send each back.
--
--     build/bin/runnel bench/programs/load/wsecho.lua PORT CONNECTIONS MESSAGES

local rn = require "runnel"
local http = require "runnel.http"

local port, connections, messages = arg[1], tonumber(arg[2]), tonumber(arg[3])

local function client(i)
  local conn <close> = assert(http.websocket("ws://127.0.0.1:" .. port .. "/"))
  for k = 1, messages do
    local text = ("%d/%d "):format(i, k):rep(25000):sub(1, 102400)
    assert(conn:write(text))
    assert(conn:read():take() == text, "another message came back")
  end
  return true
end

local n = 0
local list = {}
for i = 1, connections do list[i] = i end
for _ in rn.pmap_unordered(connections, client, list) do n = n + 1 end
os.exit(n == connections)
