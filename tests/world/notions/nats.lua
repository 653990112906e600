---Programs that publish, subscribe and ask through a NATS server.

local nats_server = require "spec.support.queue.nats_server"
local rn = require "runnel"

-- Punctual, since a connection has so many timers: at any time, they let most runs fail.
local nats = { name = "nats", is_punctual = true, has_clocks = true }

function nats.missing() return select(2, nats_server.library()) end

function nats.blocks(random) return random(3) > 1 and { "user", "user" } or { "user", "user", "user" } end

nats.roles = { user = { "publish", "publish", "many", "take", "take", "all", "request", "serve", "flush", "drain",
  "close", "unsubscribe",
  "end_subscription", "stats", "sleep" } }

function nats.setting(random) return { op = "server", shared = random(3) == 1, small = random(3) == 1,
  group = random(3) == 1 } end

local server, number -- one for all real programs

function nats.world(world) world:nats "nats" end

function nats.prepare()
  if not server then server, number = nats_server.start { jetstream = false }, 0 end
end

function nats.setup(env, setting)
  if env.is_real then number = number + 1 end
  env.state.url = env.is_real and server.url or "nats://nats"
  env.state.subject = env.is_real and "p" .. number or "p"
  env.state.setting, env.state.n = setting, 0
end

-- Each block has a subscription; its first operation makes it.
local function begin(env, mine)
  local lib, state = require "runnel.nats", env.state
  mine.conn = state.setting.shared and state.conn or assert(lib.connect(state.url))
  if state.setting.shared and state.conn and state.conn ~= mine.conn then mine.conn:close() end
  state.conn = state.conn or mine.conn
  local conn = mine.conn
  env:at_end(function() conn:close() end)
  mine.ch, mine.sub = conn:subscribe(state.subject, { max_waiting = state.setting.small and 2 or nil,
    group = state.setting.group and "g" or nil })
  if not mine.ch then error(mine.sub, 0) end
  assert(conn:flush())
end

local function value_of(m)
  if type(m) ~= "table" then return m end
  return m.data
end

nats.operations = {
  publish = { draw = function(random) return { v = ("abc"):sub(random(3)) } end, perform = function(op, env, mine)
    return mine.conn:publish(env.state.subject, op.v)
  end },
  many = { perform = function(_, env, mine)
    for i = 1, 4 do mine.conn:publish(env.state.subject, "m" .. i) end
    return mine.conn:flush()
  end },
  take = { perform = function(_, env, mine) return value_of(env:within(mine.ch.take, mine.ch)) end },
  all = { perform = function(_, env, mine)
    local list = {}
    local m
    repeat
      m = env:within(mine.ch.take, mine.ch)
      list[#list + 1] = tostring(value_of(m))
    until type(m) ~= "table"
    return table.concat(list, " ")
  end },
  request = { perform = function(_, env, mine)
    local m, err = mine.conn:request(env.state.subject .. ".q", "question", { timeout = 250 })
    return m and m.data, err and (rn.is_timeout(err) and "late" or err)
  end },
  serve = { perform = function(_, env, mine)
    local ch, sub = mine.conn:subscribe(env.state.subject .. ".q")
    if not ch then return ch, sub end
    local m = env:within(ch.take, ch)
    local ok = type(m) == "table" and m:respond "answer" or m
    sub:close()
    return ok
  end },
  flush = { perform = function(_, _, mine) return mine.conn:flush(1000) end },
  drain = { perform = function(_, _, mine) return mine.conn:drain(500) end },
  close = { perform = function(_, _, mine) return mine.conn:close() end },
  unsubscribe = { perform = function(_, _, mine) return mine.sub:drain(500) end },
  end_subscription = { perform = function(_, _, mine) return mine.sub:close() end },
  stats = { perform = function(_, _, mine) return mine.conn:stats().status end },
  sleep = { perform = function() return rn.sleep(2) end },
}

for _, operation in pairs(nats.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine)
    if not mine.sub then begin(env, mine) end
    return perform(op, env, mine)
  end
end

return nats
