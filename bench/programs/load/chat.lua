-- Clients of a chat: the first one sends lines, each of which must come to all. Uses luv's callbacks.
--
--     lua5.4 bench/programs/load/chat.lua PORT CLIENTS LINES

local uv = require "luv"

local port, n, lines = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local WELCOME <const> = "welcome\n"
local clients, connected, complete = {}, 0, 0

local function line(i) return ("line %d of a chat, which all of them must see\n"):format(i) end

local all = { [0] = WELCOME }
for i = 1, lines do all[i] = line(i) end
local expected = table.concat(all, "", 0)

local function fail(why)
  io.stderr:write("chat: ", tostring(why), "\n")
  os.exit(false)
end

-- The next line when all have the last one, and the first when all have been welcomed.
local sent, waiting = 0, n
local function send()
  if sent == lines then return end
  sent, waiting = sent + 1, n
  clients[1].socket:write(line(sent))
end

local function on_chunk(client, err, chunk)
  if not chunk then return fail(err or "the connection ended") end
  client.got = client.got .. chunk
  local _, last = client.got:gsub("\n", "")
  while client.lines < last do
    client.lines = client.lines + 1
    waiting = waiting - 1
  end
  if #client.got == #expected then
    if client.got ~= expected then return fail "other lines came" end
    complete = complete + 1
    if complete == n then os.exit(true) end
  end
  if waiting == 0 then send() end
end

local function read_all()
  for _, client in ipairs(clients) do
    client.socket:read_start(function(err, chunk) on_chunk(client, err, chunk) end)
  end
end

for i = 1, n do
  local client = { socket = uv.new_tcp(), got = "", lines = 0 }
  clients[i] = client
  client.socket:connect("127.0.0.1", port, function(err)
    if err then return fail(err) end
    client.socket:nodelay(true)
    connected = connected + 1
    if connected == n then read_all() end
  end)
end
uv.run()
