---The two ends of a WebSocket: what each writes, reads, and how it closes.

local rn = require "runnel"
local has_http, http = pcall(require, "runnel.http")

local notion = { name = "websocket", hosts = 2 }

function notion.missing()
  if not has_http or not pcall(require, "runnel.http.websocket.core") and not http.websocket then
    return "WebSocket is not built"
  end
end

function notion.blocks(random) return random(3) == 1 and { "server", "client", "peer" } or { "server", "client" } end

local EITHER = { "write", "write", "read", "read", "all", "close", "ended", "sleep", "much", "wrong" }
notion.roles = { server = EITHER, client = EITHER, peer = { "write", "close", "sleep", "drain", "stop", "read" } }

function notion.setting(random) return { op = "ends", raises = random(4) == 1, keep = random(3) == 1 } end

function notion.setup(env, setting)
  local state = env.state
  state.ends, state.over = rn.chan(1), rn.promise_chan()
  state.client = rn.promise_chan()
  state.server = assert(http.serve(0, function(req)
    local conn, err, status, headers = req:websocket { ping = false, max = 1000, keep = setting.keep }
    if not conn then return status, headers, err end
    state.ends:offer(conn)
    if setting.keep then return end
    state.over:take()
    if setting.raises then error "no" end
  end, { host = env.is_real and "127.0.0.1" or "0.0.0.0", drain_on_term = false }))
  state.url = ("ws://%s:%d/"):format(env.server, state.server.port)
  env:at_end(function()
    state.over:close()
    state.server:close()
    for _, conn in ipairs(state) do conn:close() end
  end)
end

local function connection(op, env, mine)
  if mine.conn then return mine.conn end
  local state = env.state
  local conn, err
  if op.role == "client" then conn, err = http.websocket(state.url, { ping = false, max = 1000, timeout = 40,
    proxy = "" })
  else
    local ch = op.role == "server" and state.ends or state.client
    conn, err = env:within(ch.take, ch)
  end
  if type(conn) ~= "table" then error(("no connection: %s"):format(conn or err), 0) end
  if op.role == "client" then state.client:offer(conn) end
  table.insert(state, conn)
  mine.conn = conn
  return conn
end

local CODES = { 1000, 1001, 3000, 4999 }

notion.operations = {
  write = { draw = function(random) return { binary = random(3) == 1, letter = random(3) } end,
    perform = function(op, env, conn)
      local text = ("xyz"):sub(op.letter, op.letter)
      return env:within(conn.write, conn, op.binary and { binary = text } or text)
    end },
  much = { perform = function(_, env, conn) return env:within(conn.write, conn, ("b"):rep(1001)) end }, -- too long
  wrong = { perform = function(_, env, conn) return pcall(env.within, env, conn.write, conn, "\xff") end },
  read = { perform = function(_, env, conn) return env:within(function() return conn:read():take() end) end },
  all = { perform = function(_, env, conn)
    local list = {}
    local last, err
    repeat
      last, err = env:within(function() return conn:read():take() end)
      list[#list + 1] = env:tell(true, last)
    until last == nil or last == "late"
    return table.concat(list, " "), err
  end },
  close = {
    draw = function(random) return { code = random(2) == 1 and CODES[random(#CODES)] or nil, reason = random(3) == 1
      and "enough" or nil } end,
    perform = function(op, _, conn) return conn:close(op.code or op.reason and 1000, op.reason) end,
  },
  ended = { perform = function(_, _, conn) return conn.code, conn.reason end },
  drain = { perform = function(_, env) return env.state.server:drain(20) end },
  stop = { perform = function(_, env) return env.state.server:close() end },
  sleep = {
    draw = function(random) return { ms = random(3) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

for _, operation in pairs(notion.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine) return perform(op, env, connection(op, env, mine)) end
end

-- The server's function ends when its block has.
function notion.finish(env, mine)
  if mine.conn and mine.conn ~= env.state[1] then env.state.over:close() end
end

return notion
