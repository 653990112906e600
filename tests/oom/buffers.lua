-- Buffers that grow, wrap around, drop and slide; puts that wait for room.
local t = ...
local rn = require "runnel"

local N = 60
local sent, got = t.ledger(N)
local ch = rn.chan(40)
local function kept(buffer)
  local n = 20
  return { ch = rn.chan(buffer), n = n, sent = {}, got = {}, sent_to = 0 }
end
local dropping, sliding = kept(rn.dropping_buffer(9)), kept(rn.sliding_buffer(9))
for _, k in ipairs { dropping, sliding } do
  k.sent, k.got = t.ledger(k.n)
end

local function fill(k)
  for i = 1, k.n do
    k.sent[i] = t.TRIED
    k.sent[i] = k.ch:put(i) and t.PUT or t.REFUSED
  end
end

local function attempt()
  t.go(function()
    for i = 1, N do
      sent[i] = t.TRIED
      sent[i] = ch:put(i) and t.PUT or t.REFUSED
      if i % 3 == 0 then
        local v = ch:poll()
        if v then got[v] = got[v] + 1 end
      end
    end
  end)
  t.go(fill, dropping)
  t.go(fill, sliding)
  rn.run()
end

-- What has been put and not been dropped is there once, in order, and nothing else.
local function check_kept(k)
  local count, last = #k.ch, 0
  local put = 0
  for i = 1, k.n do
    if k.sent[i] == t.PUT then put = put + 1 end
  end
  assert(count == math.min(put, 9), "a windowed buffer has lost values")
  for _ = 1, count do
    local v = k.ch:poll()
    assert(k.sent[v] == t.PUT and v > last, "a windowed buffer holds what was not put")
    last = v
  end
  return last
end

local function check()
  t.settle(got, ch)
  t.account(sent, got)
  local last = check_kept(dropping)
  if last > 0 then assert(last <= 9) end
  last = check_kept(sliding)
  for i = last + 1, sliding.n do assert(sliding.sent[i] ~= t.PUT, "a sliding buffer has dropped its newest value") end
end

return attempt, check
