---Go blocks that sleep, wait for timeouts and tick; the order in which they go on is told by a count.

local rn = require "runnel"
local uv = require "runnel.uv"

local timers = { name = "timers" }

function timers.blocks(random) return random(2) == 1 and { "a", "b" } or { "a", "b", "c" } end

local ALL = { "sleep", "sleep", "timeout", "race", "ticks", "offer", "take", "scope", "debounce", "retry" }
timers.roles = { a = ALL, b = ALL, c = ALL }

function timers.setup(env) env.state.ch, env.state.n = rn.chan(1), 0 end

local function draw(random) return { ms = random(4) - 1 } end

timers.operations = {
  sleep = { draw = draw, perform = function(op) return rn.sleep(op.ms) end },
  timeout = { draw = draw, perform = function(op) return rn.timeout(op.ms):take() end },
  -- Not 0 ms: docs/testing.md says what differs.
  race = { draw = function(random) return { ms = random(3) } end, perform = function(op, env)
    local value, port = rn.alts { env.state.ch, rn.timeout(op.ms) }
    return value, port == env.state.ch
  end },
  ticks = { draw = draw, perform = function(op)
    local ch = uv.ticker(op.ms + 1)
    local first = ch:take()
    rn.sleep(4)
    local second, third = ch:take(), ch:take()
    ch:close()
    return first, third > second -- a late program misses ticks
  end },
  offer = { perform = function(_, env) return env.state.ch:offer(1) end },
  take = { perform = function(_, env) return env:within(env.state.ch.take, env.state.ch) end },
  scope = { draw = draw, perform = function(op, env)
    local ok, err = pcall(rn.scope, function()
      rn.sleep(2)
      return env.state.n
    end, { timeout = op.ms })
    return ok or rn.is_timeout(err)
  end },
  debounce = { draw = draw, perform = function(op)
    local from = rn.chan()
    local out = rn.debounce(from, 2)
    from:put "a"
    rn.sleep(op.ms)
    from:put "b"
    from:close()
    return out:take(), out:take()
  end },
  retry = { perform = function()
    local n = 0
    return rn.retry(function()
      n = n + 1
      if n < 3 then error "again" end
      return n
    end, { tries = 3, backoff = 1 })
  end },
}

for _, operation in pairs(timers.operations) do
  local perform = operation.perform
  function operation.perform(op, env)
    local results = table.pack(perform(op, env))
    env.state.n = env.state.n + 1
    results[results.n + 1] = env.state.n
    return table.unpack(results, 1, results.n + 1)
  end
end

return timers
