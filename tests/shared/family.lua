-- Threads that wait for each other. In each round they pass a ball round a ring, a few times, at random moments.
-- Either a thread throws the ball in, sooner or later, and all must end; or nobody does, and the main program must get
-- a deadlock error. Threads of a pool, which is idle or busy meanwhile, change neither. Run by tests/runner.c.
--
--   runner tests/shared/family.lua ROUNDS [SEED]

local rn = require "runnel"

local rounds, seed = ...
rounds, seed = math.tointeger(rounds), math.tointeger(seed or 1)
math.randomseed(seed)

-- Passes the ball on, `count` times.
local function player(from, to, count, pause)
  for _ = 1, count do
    local ball = from:take()
    if ball == nil then return false end
    if pause > 0 then require "runnel".sleep(pause) end
    to:put(ball)
  end
  return true
end

local function thrower(to, pause)
  require "runnel".sleep(pause)
  to:put "ball"
end

local deadlocks = 0
local pool = rn.threads(2, function(ms) require "runnel".sleep(ms) end)
for round = 1, rounds do
  local n, count, is_thrown = math.random(2, 5), math.random(20), math.random(3) > 1
  local ring, results = {}, {}
  for i = 1, n do ring[i] = rn.shared_chan(math.random(0, 1)) end
  for i = 1, n do
    results[i] = rn.thread(player, ring[i], ring[i % n + 1], count, math.random(0, 2))
  end
  -- The last thread puts the ball where the first one, which has ended, does not take it any more.
  local left = rn.go(function() return results[1]:done():take() or ring[1]:take() end)
  if is_thrown then rn.thread(thrower, ring[1], math.random(0, 250)) end
  if math.random(2) == 1 then rn.go(pool, math.random(1, 150)) end
  local ok, err = pcall(function()
    local ended = true
    for i = 1, n - 1 do ended = results[i]:take() and ended end
    return ended and results[1]:closed()
  end)
  if is_thrown then
    assert(ok, err)
  else
    assert(not ok and err:find("the threads that could complete it wait for ever, too", 1, true), err)
    deadlocks = deadlocks + 1
  end
  for i = 1, n do ring[i]:close() end
  for i = 1, n do results[i]:take() end
  left:take()
  if round % 5 == 0 then collectgarbage() end
end
pool:drain()
print(("family: %d rounds from seed %d, %d deadlocks"):format(rounds, seed, deadlocks))
