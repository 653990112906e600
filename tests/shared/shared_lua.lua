-- What each thread of tests/shared/shared_lua.c runs: go blocks that put, take and alts at random over shared and local
-- channels, are cancelled and time out.
local id, seed, mode, host = ...
local shared = { select(5, ...) }
local rn = require "runnel"
local alts_index = require "runnel.core".internal.alts_index
math.randomseed(seed)
local random = math.random

local GO_BLOCKS, LOCALS = 6, 2

-- A value as an integer, a string or a table; and back.
local function wrap(v)
  local kind = random(4)
  if kind == 1 then return ("%d"):format(v) end
  if kind == 2 then return ("%d %s"):format(v, ("x"):rep(random(40))) end
  if kind == 3 then return { v = v, list = { 1, 2.5, true, "text" }, ch = shared[random(#shared)] } end
  return v
end

local function unwrap(value)
  if type(value) == "table" then
    assert(#value.list == 4 and rn.is_chan(value.ch))
    return value.v
  end
  return math.tointeger(value) or tonumber(value:match "^%d+")
end

if mode == "rest" then
  for _, ch in ipairs(shared) do
    ch:close()
    for value in ch do host.taken(unwrap(value)) end
  end
  return
end

-- Nearly every allocation runs a cycle, so that a sweep of the go blocks comes in the middle of any operation.
if random(2) == 1 then collectgarbage("incremental", 1, 10000) end

local locals, local_puts, local_takes = {}, 0, 0
for i = 1, LOCALS do locals[i] = rn.chan(i - 1) end
local blocks, over = {}, false

-- Counts the result of an operation. Returns false when the channel was found closed.
local function count(op, result)
  if op.timeout then return true end
  if op.v then
    if result and op.shared then host.accepted(op.v) elseif result then local_puts = local_puts + 1 end
    return result
  end
  if result == nil then return false end
  if op.shared then host.taken(unwrap(result)) else local_takes = local_takes + 1 end
  return true
end

-- One operation; returns false when a shared channel was found closed.
local function step()
  local ops, values, n = {}, {}, random(3)
  for i = 1, n do
    local is_shared = random(4) > 1
    local ch = is_shared and shared[random(#shared)] or locals[random(LOCALS)]
    local v = random(2) == 1 and (not is_shared and true or host.value())
    values[i] = { ch = ch, v = v, shared = is_shared }
    ops[i] = v and { ch, is_shared and wrap(v) or true } or ch
  end
  if random(3) == 1 then
    ops[n + 1] = rn.timeout(random(0, 2))
    values[n + 1] = { ch = ops[n + 1], timeout = true }
  end
  local result, i
  local kind = random(10)
  if #ops == 1 and kind > 3 then
    local op = values[1]
    i = 1
    if kind == 4 then -- by a callback, which counts by itself: this go block may be cancelled before
      local done = rn.chan(1)
      if op.v then
        op.ch:put_async(ops[1][2], function(ok)
          count(op, ok)
          done:offer(ok)
        end)
      else
        op.ch:take_async(function(value)
          count(op, value)
          done:offer(value ~= nil)
        end)
      end
      return done:take()
    elseif op.v then result = op.ch:put(ops[1][2])
    else result = op.ch:take() end
  elseif kind == 1 then
    result, i = alts_index(ops, { default = "none" })
    if i == "default" then return true end
  else
    result, i = alts_index(ops, { priority = random(2) == 1 })
  end
  return count(values[i], result)
end

-- The i-th go block. One that is cancelled raises the error again at each later wait, so another one takes its place.
local function work(i)
  while not over do
    local ok, go_on = pcall(step)
    if not ok and go_on ~= "cancelled" then error(go_on, 0) end
    if not ok then
      blocks[i] = rn.go(work, i)
      return
    end
    if not go_on then over = true end
  end
end

rn.run(function()
  for i = 1, GO_BLOCKS do blocks[i] = rn.go(work, i) end
  local ends = rn.timeout(mode == "orderly" and 300 + 100 * id or random(60))
  while not over do
    rn.alts { ends, rn.timeout(random(0, 3)) }
    if ends:closed() then break end
    rn.cancel(blocks[random(GO_BLOCKS)], "cancelled")
    if random(20) == 1 then collectgarbage(random(2) == 1 and "step" or "collect") end
  end
  if mode == "abrupt" then return end
  for _, ch in ipairs(shared) do ch:close() end
  over = true
  -- Puts that wait on a closed channel go on waiting until somebody takes their values.
  local rest = {}
  for _, ch in ipairs(shared) do
    rest[#rest + 1] = rn.go(function() for value in ch do host.taken(unwrap(value)) end end)
  end
  for _, ch in ipairs(locals) do
    ch:close()
    rest[#rest + 1] = rn.go(function() for _ in ch do local_takes = local_takes + 1 end end)
  end
  for i = 1, GO_BLOCKS do
    local block
    repeat
      block = blocks[i]
      local _, err = block:take()
      assert(err == nil, err)
    until block == blocks[i]
  end
  for i = 1, #rest do rest[i]:take() end
  rn.yield() -- a callback that counts a put may be ready
  assert(local_puts == local_takes, ("local channels: %d put, %d taken"):format(local_puts, local_takes))
end)
