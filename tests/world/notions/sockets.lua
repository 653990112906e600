---A server and clients that talk over sockets, TCP or Unix.

local rn = require "runnel"
local uv = require "runnel.uv"

local sockets = { name = "sockets", hosts = 2 }

function sockets.blocks(random)
  local kinds = { { "server", "client" }, { "server", "client" }, { "server", "client", "peer" },
    { "server", "client", "client" } }
  return kinds[random(#kinds)]
end

local EITHER = { "write", "write", "write", "read", "read", "bytes", "line", "shutdown", "close", "close", "sleep" }
sockets.roles = { server = EITHER, client = EITHER, peer = { "write", "read", "shutdown", "close", "sleep",
  "unlisten" } }

function sockets.setup(env)
  local conns, port = assert(uv.listen(env.is_real and "127.0.0.1" or "0.0.0.0", 0))
  env.state.conns, env.state.port, env.state.shared = conns, port, rn.promise_chan()
  env:at_end(function()
    conns:close()
    for _, conn in ipairs(env.state) do conn:close() end
  end)
end

-- The connection of a block; of a peer, the one of the first client.
local function connection(op, env, mine)
  if mine.conn then return mine.conn end
  local conn, err
  if op.role == "server" then conn, err = env:within(env.state.conns.take, env.state.conns)
  elseif op.role == "peer" then conn, err = env:within(env.state.shared.take, env.state.shared)
  else conn, err = uv.connect(env.server, env.state.port) end
  if type(conn) ~= "table" then error(("no connection: %s"):format(conn or err), 0) end
  table.insert(env.state, conn)
  mine.conn = conn
  if op.role == "client" then env.state.shared:offer(conn) end
  return conn
end

-- Reads until there are n bytes, or the end.
local function bytes(ch, n)
  local list, size = {}, 0
  while size < n do
    local piece, err = ch:take()
    if piece == nil then return table.concat(list), "the end", err end
    list[#list + 1], size = piece, size + #piece
  end
  return table.concat(list)
end

-- How large the pieces of much data are is no matter of the world.
local function much(text) return text and text ~= "late" and #text > 4 and "much" or text end

local SIZES = { 1, 1, 1, 3000, 300000 }

sockets.operations = {
  write = {
    draw = function(random) return { size = SIZES[random(#SIZES)], letter = random(3) } end,
    perform = function(op, env, conn)
      return env:within(conn.write, conn, ("abc"):sub(op.letter, op.letter):rep(op.size) .. (op.size == 3000 and "\n"
        or ""))
    end,
  },
  read = { perform = function(_, env, conn)
    local piece, err = env:within(function() return conn:read():take() end)
    return much(piece), err
  end },
  bytes = {
    draw = function(random) return { n = random(2) == 1 and 2 or 3001 } end,
    perform = function(op, env, conn)
      local text, over, err = env:within(bytes, conn:read(), op.n)
      return op.n > 2 and much(text) or text, over, err
    end,
  },
  line = { perform = function(_, env, conn)
    local line, err = env:within(function() return conn:lines():take() end)
    return much(line), err
  end },
  shutdown = { perform = function(_, _, conn) return conn:shutdown() end },
  close = { perform = function(_, _, conn) return conn:close() end },
  unlisten = { perform = function(_, env) return env.state.conns:close() end },
  sleep = {
    draw = function(random) return { ms = random(3) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

for _, operation in pairs(sockets.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine) return perform(op, env, connection(op, env, mine)) end
end

function sockets.finish(_, mine)
  if mine.conn and not mine.is_peer then mine.conn:close() end
end

return sockets
