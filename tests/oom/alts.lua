-- alts over 4 and over 100 operations, takes and puts, ready at once and later, with and without a default.
local t = ...
local rn = require "runnel"

local OPS = t.variant(4, 100)
local ROUNDS = OPS == 4 and 12 or 6
local sent, got = t.ledger(2 * ROUNDS)
local chs, ops = {}, {}
for i = 1, OPS do
  chs[i] = rn.chan(i % 3 == 0 and 1 or 0)
  ops[i] = i % 2 == 1 and chs[i] or { chs[i], 0 }
end
local NOWAIT = { default = false }

local function attempt()
  -- Takes from the odd channels and puts on the even ones, in one alts.
  t.go(function()
    for i = 1, ROUNDS do
      for j = 2, OPS, 2 do ops[j][2] = ROUNDS + i end
      sent[ROUNDS + i] = t.TRIED
      local value, port = rn.alts(ops, i % 4 == 0 and NOWAIT or nil)
      if value == true then
        sent[ROUNDS + i] = t.PUT
      else
        sent[ROUNDS + i] = t.REFUSED
        if port ~= "default" and value then got[value] = got[value] + 1 end
      end
    end
  end)
  t.go(function()
    for i = 1, ROUNDS do
      sent[i] = t.TRIED
      sent[i] = chs[2 * (i % (OPS // 2)) + 1]:put(i) and t.PUT or t.REFUSED
    end
  end)
  t.go(function()
    for i = 1, ROUNDS // 2 do
      local v = chs[2 * (i % (OPS // 2)) + 2]:take()
      if v then got[v] = got[v] + 1 end
    end
  end)
  rn.run()
end

local function check()
  -- A waiting alts may still put on one of the channels. Closing them rejects that value.
  t.settle(got, table.unpack(chs))
  t.account(sent, got)
  for _, ch in ipairs(chs) do
    local stats = ch:stats()
    assert(stats.puts_waiting == 0 or t.deaths() == 0 or stats.puts_waiting <= 1)
    ch:close()
  end
  rn.run()
  for _, ch in ipairs(chs) do
    local stats = ch:stats()
    assert(stats.puts_waiting == 0 and stats.takes_waiting == 0, "a waiter has been left behind")
  end
end

return attempt, check
