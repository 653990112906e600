---Two UDP sockets of one machine, which send each other datagrams.

local rn = require "runnel"
local uv = require "runnel.uv"

local udp = { name = "udp" }

local HERE <const> = "127.0.0.1"

function udp.blocks() return { "server", "client" } end

local EITHER = { "send", "send", "send", "receive", "receive", "connect", "stop", "close", "sleep" }
udp.roles = { server = EITHER, client = EITHER }

function udp.setup(env)
  for _, role in ipairs { "server", "client" } do
    local sock = assert(uv.udp { host = HERE, buffer = 2 })
    local _, port = sock:address()
    env.state[role] = { sock = sock, port = port }
    env:at_end(function() sock:close() end)
  end
end

-- Ports differ from run to run.
local function without_port(err) return type(err) == "string" and err:gsub(":%d+", ":port") or err end

local OTHER = { server = "client", client = "server" }
local SIZES = { 0, 1, 2, 70000 }

udp.operations = {
  send = {
    draw = function(random) return { size = SIZES[random(#SIZES)] } end,
    perform = function(op, env, sock, mine)
      local port = env.state[OTHER[op.role]].port
      local ok, err
      if mine.is_connected then ok, err = env:within(sock.send, sock, ("x"):rep(op.size))
      else ok, err = env:within(sock.send, sock, ("x"):rep(op.size), HERE, port) end
      return ok, without_port(err)
    end,
  },
  receive = { perform = function(_, env, sock)
    local datagram, err = env:within(function() return sock:read():take() end)
    return type(datagram) == "table" and #datagram.data or datagram, without_port(err)
  end },
  connect = { perform = function(op, env, sock, mine)
    local ok, err = sock:connect(HERE, env.state[OTHER[op.role]].port)
    mine.is_connected = mine.is_connected or ok
    return ok, without_port(err)
  end },
  stop = { perform = function(_, _, sock) return sock:read():close() end },
  close = { perform = function(_, _, sock) return sock:close() end },
  sleep = {
    draw = function(random) return { ms = random(3) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

for _, operation in pairs(udp.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine) return perform(op, env, env.state[op.role].sock, mine) end
end

return udp
