-- Loads an echo server: opens CONNECTIONS connections, each of which sends 100 bytes, waits until all of them have come
-- back, and sends again. Uses luv's callbacks, so that it is faster than the server. Prints the requests per second.
--
--     lua5.4 bench/io/echo_client.lua PORT CONNECTIONS ROUNDS

local uv = require "luv"

local port, connections, rounds = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local SIZE = 100

local connected, ended, errors, answers = 0, 0, 0, 0
local began, took
local clients = {}

local function message(i, round) return (("%d/%d "):format(i, round):rep(SIZE):sub(1, SIZE)) end

local function finish(client)
  client.socket:close()
  ended = ended + 1
  if ended == connections then took = uv.hrtime() - began end
end

local function fail(client, why)
  errors = errors + 1
  if errors <= 3 then io.stderr:write("echo_client: ", tostring(why), "\n") end
  finish(client)
end

local function send(client)
  client.round = client.round + 1
  client.expected, client.got = message(client.i, client.round), ""
  client.socket:write(client.expected)
end

local function on_chunk(client, err, chunk)
  if not chunk then return fail(client, err or "the connection ended") end
  client.got = client.got == "" and chunk or client.got .. chunk
  if #client.got < SIZE then return end
  if client.got ~= client.expected then return fail(client, "other bytes came back") end
  answers = answers + 1
  if client.round == rounds then return finish(client) end
  send(client)
end

-- All connections begin to send when the last one is connected.
local function begin()
  began = uv.hrtime()
  for _, client in ipairs(clients) do
    client.socket:read_start(function(err, chunk) on_chunk(client, err, chunk) end)
    send(client)
  end
end

for i = 1, connections do
  local client = { i = i, round = 0, socket = uv.new_tcp() }
  clients[i] = client
  client.socket:connect("127.0.0.1", port, function(err)
    if err then
      io.stderr:write("echo_client: ", err, "\n")
      os.exit(1)
    end
    client.socket:nodelay(true)
    connected = connected + 1
    if connected == connections then begin() end
  end)
end
uv.run()
print(("%.0f"):format(answers / (took / 1e9)))
os.exit(errors == 0 and answers == connections * rounds and 0 or 1)
